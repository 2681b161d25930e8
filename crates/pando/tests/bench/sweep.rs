//! `pando bench sweep`: each step is measured on a separate server, and the report draws the curve.

use std::process::{Command, Stdio};

use bench::result::{RunResult, SweepAxis, WorkloadResult};
use test_support::Scratch;
use test_support::pando::program;

/// Runs a short sweep. Returns the exit code, the output, and the result of each step.
fn sweep(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, Vec<WorkloadResult>) {
    let result = scratch.join("sweep.json");
    let output = Command::new(program())
        .args(["bench", "sweep", "people-search", "--duration", "1s", "--warmup", "0s"])
        .args(["--server-cpus", "0", "--load-cpus", "0", "--folder"])
        .arg(scratch.join(""))
        .arg("-o")
        .arg(&result)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let steps = RunResult::read(&result).map(|run| run.workloads).unwrap_or_default();
    (output.status.code(), said, steps)
}

#[test]
fn a_sweep_over_entries_is_drawn_as_a_curve() {
    let scratch = Scratch::new("sweep-entries");
    let (code, said, steps) = sweep(&scratch, &["--entries", "200,1k", "--connections", "3"]);
    assert_eq!(code, Some(0), "{said}");
    let entries: Vec<_> = steps.iter().map(|step| step.server.entries).collect();
    assert_eq!(entries, [Some(200), Some(1000)], "{said}");
    for step in &steps {
        assert!(
            step.is_clean() && step.operations_total() > 0 && step.parameters.connections == 3,
            "{step:?}"
        );
        assert_eq!(step.sweep, Some(SweepAxis::Entries));
        assert!(step.cost.as_ref().is_some_and(|cost| cost.cpu_micros > 0));
        assert!(step.server.bulk_load.is_some());
    }
    let page = scratch.join("sweep.html");
    let mut report = Command::new(program());
    report.args(["bench", "report"]).arg(scratch.join("sweep.json")).arg("-o").arg(&page);
    let status = report.stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("over entries") && html.contains("<svg"), "a curve");
    let left: Vec<_> =
        std::fs::read_dir(scratch.join("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().starts_with("sweep.")), "{left:?} is left");
}

#[test]
fn memory_is_limited_or_the_command_says_that_it_cannot_be() {
    let scratch = Scratch::new("sweep-memory");
    let (code, said, steps) = sweep(&scratch, &["--entries", "200", "--memory", "64M,128M"]);
    if said.contains("memory cannot be limited here") {
        assert_eq!(code, Some(7), "{said}");
        assert!(steps.iter().all(|step| !step.complete && !step.is_clean()), "{said}");
        return;
    }
    assert_eq!(code, Some(0), "{said}");
    let limits: Vec<_> = steps.iter().map(|step| step.server.memory_limit_bytes).collect();
    assert_eq!(limits, [Some(64 << 20), Some(128 << 20)]);
    for step in &steps {
        let anonymous = step.cost.as_ref().unwrap().rss_anon_peak_bytes.unwrap();
        assert!(anonymous <= step.server.memory_limit_bytes.unwrap(), "{anonymous}");
    }
}

#[test]
fn a_sweep_without_an_axis_is_refused() {
    let scratch = Scratch::new("sweep-axis");
    for arguments in [&["--entries", "200"][..], &["--entries", "1,2", "--connections", "1,2"]] {
        let (code, said, _) = sweep(&scratch, arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("exactly one of entries, memory and connections"), "{said}");
    }
}
