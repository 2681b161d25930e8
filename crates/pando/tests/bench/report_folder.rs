//! `pando bench report FOLDER`: makes all pages and tables from the results in a folder.

use std::path::Path;

use bench::result::{Environment, RunResult, WorkloadResult};
use test_support::Scratch;
use test_support::clients::{self, Run};
use test_support::pando::program;

/// Makes the report of one folder in another folder.
fn report(folder: &Path, output: &Path) -> Run {
    let arguments = ["bench", "report", folder.to_str().unwrap(), "-o", output.to_str().unwrap()];
    clients::run(program(), &arguments, "")
}

#[test]
fn a_report_of_a_folder_contains_all_its_results() {
    let scratch = Scratch::new("kept-folder");
    let (folder, output) = (scratch.join("run"), scratch.join("report"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(&output).unwrap();
    report(&folder, &output).expect_code(2).expect_error("folder without a result");
    for (name, workload) in [("b.json.zst", "added-later"), ("a.json.zst", "measured"), ("raw.json", "raw")] {
        let measured =
            WorkloadResult { workload: workload.to_owned(), complete: true, ..WorkloadResult::default() };
        let mut run = RunResult::begin(format!("pando bench run {workload}"), Environment::default());
        run.workloads.push(measured);
        run.write(&folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("README.md"), "# A run\n").unwrap();
    report(&folder, &output).expect_code(0).expect_error("wrote");
    let mut names: Vec<_> = std::fs::read_dir(&output)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["report-seconds.csv", "report.csv", "report.html", "report.md"]);
    let csv = std::fs::read_to_string(output.join("report.csv")).unwrap();
    let rows: Vec<_> = csv.lines().skip(1).filter_map(|row| row.split(',').nth(1)).collect();
    assert_eq!(rows, ["measured", "added-later"], "in the order of names, and only results to keep");
    assert!(std::fs::read_to_string(output.join("report.html")).unwrap().contains("added-later"));
}
