//! `pando bench suite` on the command line: it measures, continues an interrupted run, and reports the goals reached.

use std::path::{Path, PathBuf};

use bench::suite::Suite;
use bench::workload::Workload;
use test_support::Scratch;
use test_support::clients::{self, Run};
use test_support::pando::program;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/suites")
}

/// Runs a suite into the folder `results`.
fn suite(scratch: &Scratch, file: &Path, more: &[&str]) -> Run {
    let output = scratch.join("results");
    let data = scratch.join("data");
    let mut arguments = vec!["bench", "suite", file.to_str().unwrap(), "-o", output.to_str().unwrap()];
    arguments.extend(["--folder", data.to_str().unwrap()]);
    arguments.extend(more);
    clients::run(program(), &arguments, "")
}

#[test]
fn every_shipped_file_is_a_suite_or_is_used_by_one() {
    let (mut suites, mut used, mut workloads) = (0, String::new(), Vec::new());
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("[[step]]") {
            let suite = Suite::parse(&name, &text, &[]).unwrap();
            suites += 1;
            suite.steps.iter().for_each(|step| used.push_str(&format!("{} ", step.run)));
        } else if text.contains("[[job]]") {
            let workload = Workload::parse(&name, &text).unwrap();
            used.push_str(&format!("{} ", workload.data.template));
            workloads.push(name);
        } else {
            // Any other file is a template or contains settings. A step or a workload must name it.
            workloads.push(name);
        }
    }
    assert!(suites > 0);
    let is_used =
        |name: &String| used.split(|c: char| c.is_whitespace() || c == '@').any(|word| word == name);
    let unused: Vec<_> = workloads.iter().filter(|name| !is_used(name)).collect();
    assert!(unused.is_empty(), "no suite uses {unused:?}");
}

#[test]
fn a_suite_is_measured_once_and_judged() {
    let scratch = Scratch::new("suite");
    let step = |name: &str, workload: &str| {
        format!(
            "[[step]]\nname = '{name}'\nrun = '''peers --peers pando --entries {{entries}} --rounds 1 --duration 500ms \
             --warmup 0s --no-limit\n --server-cpus 0 --load-cpus 0 --workloads {workload}'''\n"
        )
    };
    let goal = |of: &str, bound: &str| {
        format!("[[goal]]\ntitle = 'g'\nfigure = 'per-second'\nof = '{of}'\n{bound}\n")
    };
    let goals =
        goal("one/people-read@3/pando", "at_least = 1") + &goal("two/people-compare/pando", "at_most = 0.5");
    let text = format!(
        "title = 't'\n[variables]\nentries = '100'\n{}{}{goals}",
        step("one", "people-read@3"),
        step("two", "people-compare")
    );
    let file = scratch.write("try.toml", &text);

    let one = suite(&scratch, &file, &["--only", "one", "--set", "entries=50"])
        .expect_code(7)
        .expect_error("pando: one: pando bench peers --peers pando --entries 50");
    assert!(one.stdout.contains("| reached |") && one.stdout.contains("| NOT MEASURED |"), "{}", one.stdout);
    assert!(one.stdout.contains("two/people-compare/pando: the step has no result"), "{}", one.stdout);

    // If the command is repeated, it does not repeat steps that have results.
    let both = suite(&scratch, &file, &["--set", "entries=50"])
        .expect_code(7)
        .expect_error("pando: one: is measured")
        .expect_error("pando: two: pando bench");
    assert!(both.stdout.contains("| reached |") && both.stdout.contains("| MISSED |"), "{}", both.stdout);
    let page = std::fs::read_to_string(scratch.join("results/report.html")).unwrap();
    assert!(page.contains("people-compare"));
    let table = std::fs::read_to_string(scratch.join("results/goals.md")).unwrap();
    assert!(
        table.contains("# t\n") && table.contains("; Pando ") && table.ends_with(&both.stdout),
        "{table}"
    );
    assert_eq!(std::fs::read_dir(scratch.join("data")).unwrap().count(), 0, "data is left");

    let reached = text.replace("at_most = 0.5", "at_least = 1");
    let file = scratch.write("try.toml", &reached);
    suite(&scratch, &file, &["--set", "entries=50"]).expect_code(0);
}

#[test]
fn steps_that_cannot_be_measured_are_reported() {
    let scratch = Scratch::new("suite-wrong");
    let text = "title = 't'\n[[step]]\nname = 'one'\nrun = 'peers --no-such-option'\n";
    let file = scratch.write("wrong.toml", text);
    suite(&scratch, &file, &[])
        .expect_code(1)
        .expect_error("step one: its command ended with exit status: 2");
    suite(&scratch, &file, &["--only", "two"]).expect_code(2).expect_error("there is no step two");
    suite(&scratch, &file, &["--set", "x=1"]).expect_code(2).expect_error("there is no variable x");
    suite(&scratch, Path::new("nothing.toml"), &[]).expect_code(2).expect_error("nothing.toml: ");
}
