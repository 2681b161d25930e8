use super::*;
use crate::result::{BulkLoad, Environment, OperationTotals, ServerCost, SweepAxis};

const HEAD: &str = "title = 's'\n[variables]\nentries = '1000'\n\
    [[step]]\nname = 'reads'\nrun = 'peers --entries {entries} --workload a.toml'\n";

fn suite(goals: &str) -> Suite {
    Suite::parse("s.toml", &format!("{HEAD}{goals}"), &[]).unwrap()
}

fn round(workload: &str, product: &str, number: u32, cpu: f64) -> WorkloadResult {
    let mut result = WorkloadResult {
        workload: workload.to_owned(),
        round: number,
        complete: true,
        measured_seconds: 2.0,
        ..WorkloadResult::default()
    };
    product.clone_into(&mut result.server.product);
    let totals = OperationTotals { operations: 200, ..OperationTotals::default() };
    result.operations.insert(OperationKind::Search, totals);
    result.cost = Some(ServerCost { cpu_micros: (cpu * 200.0) as u64, ..ServerCost::default() });
    result.set_rates();
    result
}

fn results(workloads: Vec<WorkloadResult>) -> BTreeMap<String, RunResult> {
    let mut result = RunResult::begin("pando bench peers".to_owned(), Environment::default());
    result.workloads = workloads;
    BTreeMap::from([("reads".to_owned(), result)])
}

#[test]
fn invalid_suites_are_refused_with_the_reason() {
    let check = |text: &str, set: &[(&str, &str)], expected: &str| {
        let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let error = Suite::parse("s.toml", text, &set).unwrap_err().to_string();
        assert!(error.starts_with("s.toml: ") && error.contains(expected), "{error}");
    };
    let with = |goal: &str| format!("{HEAD}[[goal]]\n{goal}\n");
    check("title = 1", &[], "line 1");
    check(HEAD, &[("size", "1")], "there is no variable size; there are: entries");
    check(&HEAD.replace("{entries}", "{size}"), &[], "there is no variable for {size}");
    check(&HEAD.replace("'reads'", "'Reads'"), &[], "lower-case letters");
    check(&HEAD.replace("peers --", "list --"), &[], "'list' is none of peers, run, sweep");
    let twice = format!("{HEAD}[[step]]\nname = 'reads'\nrun = 'run x'\n");
    check(&twice, &[], "there are two steps reads");
    let goal = "title = 'g'\nfigure = 'cpu-micros'\nof = 'reads/a/pando'\n";
    check(&with(goal), &[], "goal 'g': one of at_least and at_most");
    check(&with(&format!("{goal}at_most = 1\nat_least = 1")), &[], "one of at_least and at_most");
    check(
        &with(&goal.replace("reads/", "writes/").replace("of =", "at_most = 1\nof =")),
        &[],
        "no step writes",
    );
    check(&with(&goal.replace("pando'", "slapd'")), &[], "'slapd' is no server: pando, openldap");
    check(&with(&goal.replace("reads/a/pando", "reads/pando")), &[], "write STEP/WORKLOAD/SERVER");
}

#[test]
fn variables_are_substituted_in_steps() {
    assert_eq!(suite("").steps[0].run, "peers --entries 1000 --workload a.toml");
    let set = [("entries".to_owned(), "5".to_owned())];
    let suite = Suite::parse("s.toml", HEAD, &set).unwrap();
    assert_eq!(suite.steps[0].run, "peers --entries 5 --workload a.toml");
}

#[test]
fn a_goal_is_compared_with_medians() {
    let suite = suite(
        "[[goal]]\nfigure = 'cpu-micros'\nof = 'reads/a/pando'\nover = ['reads/a/openldap']\nat_most = 0.25\n\
         [[goal]]\nfigure = 'per-second'\nkind = 'search'\nof = 'reads/a/pando'\nat_least = 101\n\
         [[goal]]\nfigure = 'cpu-micros'\nof = 'reads/a/openldap'\nover = ['reads/a/pando', 'reads/a/null']\n\
         at_least = 4.5\n",
    );
    let mut results = results(vec![
        round("a", "Pando 1", 1, 9.0),
        round("a", "Pando 1", 2, 5.0),
        round("a", "Pando 1", 3, 2.0),
        round("a", "OpenLDAP 2.5", 1, 20.0),
        round("b", "OpenLDAP 2.5", 1, 1.0),
    ]);
    results.get_mut("reads").unwrap().limits.push(round("simple", "Null responder", 1, 4.0));
    let verdicts = suite.verdicts(&results);
    let outcomes: Vec<_> = verdicts.iter().map(|verdict| verdict.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Reached(0.25), Outcome::Missed(100.0), Outcome::Missed(4.0)]);
    let table = table(&verdicts);
    assert!(table.contains("| reached | reads/a/pando 5.00; reads/a/openldap 20.0 |"), "{table}");
    assert!(table.contains("| operations a second of search, at least 101 | 100 | MISSED |"), "{table}");
}

#[test]
fn missing_and_failed_figures_do_not_count_as_measured() {
    let suite = suite("[[goal]]\nfigure = 'cpu-micros'\nof = 'reads/a/pando'\nat_most = 100\n");
    let why = |results: &BTreeMap<String, RunResult>| match &suite.verdicts(results)[0].outcome {
        Outcome::NotMeasured(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert!(why(&BTreeMap::new()).contains("the step has no result"));
    assert!(why(&results(vec![round("b", "Pando 1", 1, 1.0)])).contains("not in the step's result"));
    let mut wrong = round("a", "Pando 1", 2, 1.0);
    let totals = wrong.operations.get_mut(&OperationKind::Search).unwrap();
    (totals.wrong_answers, totals.examples) = (1, vec!["two entries instead of one".to_owned()]);
    let rounds = vec![round("a", "Pando 1", 1, 1.0), wrong];
    assert!(why(&results(rounds)).contains("round 2: two entries instead of one"));
    let mut late = round("a", "Pando 1", 1, 1.0);
    late.failures.push("the server did not keep up".to_owned());
    assert!(why(&results(vec![late])).contains("did not keep up"));
    let mut free = round("a", "Pando 1", 1, 1.0);
    free.cost = None;
    assert!(why(&results(vec![free])).contains("no server CPU an operation"));
}

#[test]
fn goals_can_refer_to_loads_and_sweeps() {
    let suite = suite(
        "[[goal]]\nfigure = 'loaded-per-second'\nof = 'reads/bulk-load/pando'\nat_least = 100\n\
         [[goal]]\nfigure = 'disk-per-ldif'\nof = 'reads/bulk-load/pando'\nat_most = 1.4\n\
         [[goal]]\nfigure = 'cpu-micros'\nof = 'reads/a/pando/3000'\nover = ['reads/a/pando/10']\nat_most = 1.5\n",
    );
    let mut load =
        WorkloadResult { workload: "bulk-load".to_owned(), complete: true, ..WorkloadResult::default() };
    "Pando 1".clone_into(&mut load.server.product);
    load.server.bulk_load = Some(BulkLoad {
        seconds: 2.0,
        entries: 400,
        ldif_bytes: Some(1000),
        disk_bytes: Some(1500),
        ..BulkLoad::default()
    });
    let step = |entries, cpu| {
        let mut step = round("a", "Pando 1", 1, cpu);
        (step.sweep, step.server.entries) = (Some(SweepAxis::Entries), Some(entries));
        step
    };
    let outcomes: Vec<_> = suite
        .verdicts(&results(vec![load, step(10, 2.0), step(3000, 3.0)]))
        .iter()
        .map(|verdict| verdict.outcome.clone())
        .collect();
    assert_eq!(outcomes, [Outcome::Reached(200.0), Outcome::Missed(1.5), Outcome::Reached(1.5)]);
}

#[test]
fn steadiness_and_growth_of_a_long_run_are_computed() {
    assert_eq!(steady_share(&[100.0, 100.0, 100.0, 86.0, 84.0]), Some(0.8));
    assert_eq!(steady_share(&[]), None);
    assert_eq!(trend(&[90.0, 100.0, 110.0]), Some(0.2));
    assert_eq!(trend(&[7.0, 7.0]), Some(0.0));
    assert_eq!(trend(&[7.0]), None);
    let mut result = round("a", "Pando 1", 1, 1.0);
    assert_eq!(memory_growth(&result), None);
    let second = |bytes| Second { rss_anon_bytes: Some(bytes), ..Second::default() };
    // The first quarter of the time is ignored, because the server still fills its caches.
    result.seconds = [1, 1, 4, 5, 9, 9, 6, 5].map(second).to_vec();
    assert_eq!(memory_growth(&result), Some(1.2));
    assert_eq!(rates(&result, None), [0.0; 8]);
}
