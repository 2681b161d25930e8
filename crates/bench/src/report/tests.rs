use super::*;
use crate::result::{DocumentFigure, DocumentRow, Load, WorkloadResult, setting};
use crate::{Seeded, result};
use sample::{SECONDS, comparison, faulty_comparison, run, sweep};

mod sample;

fn html(run: RunResult) -> String {
    Report::new(vec![run]).html().unwrap()
}

#[test]
fn a_clean_run_is_reported_as_clean() {
    let page = html(comparison());
    assert!(page.contains("none was wrong") && !page.contains("role=\"alert\""));
    assert!(Report::new(vec![comparison()]).is_clean());
    for part in
        ["Pando 0.1.0", "389 Directory Server 2.3.1", "null responder", "pando bench peers --entries 100000"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn problems_are_reported_at_the_top_and_with_the_figure() {
    let page = html(faulty_comparison());
    assert!(!Report::new(vec![faulty_comparison()]).is_clean());
    let top = &page[page.find("role=\"alert\"").unwrap()..page.find("id=\"glance\"").unwrap()];
    for part in [
        "wrong answers: 3 of ",
        "(uid=user.7) gave 0 entries, not 1",
        "connections closed under load: 2",
        "load machine 192.0.2.7:4389 failed: no word for 5 s",
        "did not run to its end",
        "1 of 10,000 requests got different answers",
    ] {
        assert!(top.contains(part), "{part} in {top}");
        assert!(page.matches(part).count() > 1 || part.starts_with("1 of"), "{part} at its place");
    }
    assert!(page.contains("left out because something was wrong"));
}

#[test]
fn unsupported_workloads_are_marked_next_to_other_servers() {
    let page = html(comparison());
    assert!(page.contains("unsupported: no SCRAM mechanism"));
    let run = comparison();
    let runs = [run];
    let groups = Groups::new(&runs, None);
    assert_eq!(groups.groups.len(), 5, "unsupported results are in the group of the other servers");
    assert_eq!(groups.groups[4].rows.len(), 4);
}

#[test]
fn many_workloads_are_preceded_by_an_overview_table() {
    let page = html(comparison());
    let start = page.find("id=\"overview\"").unwrap();
    assert!(start < page.find("id=\"glance\"").unwrap());
    let table = &page[start..page.find("id=\"glance\"").unwrap()];
    assert!(table.contains("class=\"n faster\"") && table.contains(">cannot<"), "{table}");
    let mut text = Vec::new();
    Report::new(vec![comparison()]).write_markdown(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let columns = |line: &str| line.matches('|').count();
    let first = columns(text.lines().find(|line| line.starts_with('|')).unwrap());
    assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| columns(line) == first), "{text}");
    assert!(text.contains("×)") && text.contains("cannot") && text.contains("no SCRAM mechanism"), "{text}");
}

#[test]
fn a_run_without_requests_is_listed_in_the_tables() {
    let mut run = comparison();
    let is_one = |result: &&mut WorkloadResult| {
        result.workload == "m-vault-bind-scram" && result.server.product.starts_with("389")
    };
    for failed in run.workloads.iter_mut().filter(is_one) {
        (failed.parameters, failed.per_second) = (result::Parameters::default(), 0.0);
        failed.operations.clear();
        failed.complete = false;
        failed.failures = vec!["5053 connections were not made within 60 s".to_owned()];
    }
    let count = Groups::new(&[comparison()], None).groups.len();
    let runs = [run.clone()];
    assert_eq!(Groups::new(&runs, None).groups.len(), count);
    let mut text = Vec::new();
    Report::new(vec![run]).write_markdown(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("| failed |") && text.contains("5053 connections were not made"), "{text}");
}

#[test]
fn a_server_that_cannot_be_set_up_counts_as_a_problem() {
    let mut run = comparison();
    let server = run.workloads[0].server.clone();
    let mut failed = WorkloadResult::unsupported("bulk-load", "Load", server, "slapd is not here".to_owned());
    failed.complete = false;
    run.workloads.push(failed);
    run.workloads.push(run.workloads[run.workloads.len() - 1].clone());
    // If all requests of a workload failed, it is reported as unsupported, and the errors are not reported in addition.
    let mut unable = run.workloads[0].clone();
    unable.workload = "bind".to_owned();
    unable.unsupported = Some("all of 5 operations failed".to_owned());
    unable.operations.get_mut(&result::OperationKind::Search).unwrap().errors = 5;
    run.workloads.push(unable);
    let page = html(run);
    assert!(page.contains("could not be measured: slapd is not here (2 times)"));
    assert!(
        page.contains("unsupported: all of 5 operations failed") && !page.contains("unexpected result codes")
    );
}

#[test]
fn bulk_loads_are_in_the_tables_of_load_times() {
    let mut run = comparison();
    let mut loaded = run.workloads[0].clone();
    loaded.workload = "m-vault-load".to_owned();
    loaded.operations.clear();
    loaded.server.data = Some(result::DataSet { template: "m-vault".to_owned(), ..Default::default() });
    run.workloads.push(loaded);
    let page = html(run);
    // 100,000 entries are loaded in 4.2 s.
    let table = &page[page.find("Getting 1 million entries in").expect("the table")..];
    assert!(table[..4000].contains("23,810") && table.contains("5,500"));
}

#[test]
fn a_published_document_is_compared_and_names_its_hardware() {
    let mut run = comparison();
    run.workloads[0].document = Some(DocumentRow {
        document: "OID".to_owned(),
        table: "Exhaustive".to_owned(),
        row: "Search random".to_owned(),
        figures: vec![DocumentFigure {
            per_second: Some(170_524.0),
            clients: Some(3200),
            ..DocumentFigure::default()
        }],
    });
    let page = html(run);
    for part in [
        "170,524",
        "other hardware",
        "Exadata X2-2 half rack",
        "Pentium III at 1 GHz",
        "1,923.1",
        "(this run)",
    ] {
        assert!(page.contains(part) || part == "1,923.1" && page.contains("1923.1"), "{part}");
    }
}

#[test]
fn servers_are_compared_with_the_named_one() {
    let mut report = Report::new(vec![comparison()]);
    assert_eq!(report.compare_with("Open DJ").unwrap_err().len(), 4);
    report.compare_with("OpenLDAP").unwrap();
    let page = report.html().unwrap();
    assert!(page.contains("<strong>OpenLDAP 2.5.13</strong> against <strong>389 Directory"));
}

#[test]
fn a_product_with_other_settings_is_another_server() {
    let mut run = comparison();
    let mut other = run.workloads[0].clone();
    other.server.set(setting::DURABILITY, "none");
    run.workloads.push(other);
    let runs = [run];
    let labels: Vec<_> = Groups::new(&runs, None).servers.iter().map(|server| server.label.clone()).collect();
    assert_eq!(labels[0], "Pando 0.1.0, durability every commit synced");
    assert_eq!(labels[4], "Pando 0.1.0, durability none");
}

#[test]
fn markup_in_names_is_escaped() {
    let mut run = comparison();
    for result in &mut run.workloads {
        result.server.product = "<script>alert(1)</script>\"'&".to_owned();
        result.failures.push("<img src=x onerror=alert(1)>".to_owned());
    }
    let page = html(run);
    assert!(!page.contains("<script") && !page.contains("<img"), "markup of a result reached the page");
}

#[test]
fn results_without_seconds_or_costs_are_reported() {
    let bare = WorkloadResult { workload: "search".to_owned(), complete: true, ..WorkloadResult::default() };
    let page = html(RunResult { limits: Vec::new(), ..run(vec![bare]) });
    assert!(page.contains("were not measured"));
    let page = html(RunResult { limits: Vec::new(), ..run(Vec::new()) });
    assert!(page.contains("nothing was measured"));
}

#[test]
fn an_open_loop_is_not_compared_by_rate() {
    let mut run = comparison();
    run.workloads.truncate(4);
    for result in &mut run.workloads {
        result.parameters.load = Load::Open { per_second: 20_000.0 };
    }
    let page = html(run);
    assert!(page.contains("open loop at 20,000"));
    assert!(!page.contains("Faster in"), "{}", &page[page.find("Faster in").unwrap() - 300..][..400]);
}

#[test]
fn sweeps_are_drawn_as_curves() {
    let page = html(sweep());
    assert!(page.contains("over entries") && page.contains("CPU a request") && page.contains("1,000,000"));
    assert!(!page.contains("id=\"glance\""), "steps of a sweep are no comparison");
}

#[test]
fn csv_and_json_have_one_row_for_each_result() {
    let run = comparison();
    let rows = run.workloads.len() + run.limits.len();
    let report = Report::new(vec![run]);
    let (mut results, mut seconds, mut json) = (Vec::new(), Vec::new(), Vec::new());
    report.write_csv(&mut results).unwrap();
    report.write_seconds_csv(&mut seconds).unwrap();
    report.write_json(&mut json).unwrap();
    let results = String::from_utf8(results).unwrap();
    assert_eq!(results.lines().count(), rows + 1);
    assert!(results.starts_with("run_started,workload,title,document,product,"), "{results}");
    assert!(results.contains("no SCRAM mechanism"));
    let seconds = String::from_utf8(seconds).unwrap();
    let measured = Report::new(vec![comparison()]).runs[0]
        .workloads
        .iter()
        .filter(|result| result.unsupported.is_none())
        .count()
        + 1;
    assert_eq!(seconds.lines().count(), measured * SECONDS as usize + 1);
    assert!(seconds.lines().next().unwrap().contains(",operations,search_operations,errors,p50_micros,"));
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), rows);
    assert_eq!(json["runs"][0]["command"], "pando bench peers --entries 100000");
}
