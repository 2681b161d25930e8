//! Tests that the files in `bench-runs/` are small and complete, and that reports can be made from them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::report::Report;
use bench::result::RunResult;
use std::path::{Path, PathBuf};

/// Maximum size of a kept run in bytes, because each kept run makes the repository larger.
const RUN_BYTES_MAX: u64 = 300_000;

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Checks that a file is complete and of a kind that a kept run may contain.
fn check_kind(file: &Path) {
    let text = || std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let name = file.file_name().unwrap().to_str().unwrap();
    let is_whole = match name.rsplit_once('.').unwrap_or((name, "")).1 {
        "zst" => RunResult::read(file).is_ok_and(|run| !run.workloads.is_empty()),
        "json" => is_json(&text()),
        "jsonl" => text().lines().all(is_json),
        "toml" => text().parse::<toml::Table>().is_ok(),
        "md" | "patch" | "py" => !text().is_empty(),
        _ => panic!("{}: files made from results are not kept", file.display()),
    };
    assert!(is_whole, "{} is broken", file.display());
}

#[test]
fn every_committed_run_is_small_and_has_its_report() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench-runs");
    let folders: Vec<_> = std::fs::read_dir(&runs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(folders.len() >= 8, "{folders:?}");
    for folder in folders {
        let files = files(&folder);
        let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= RUN_BYTES_MAX, "{} has {bytes} bytes", folder.display());
        assert!(files.contains(&folder.join("README.md")), "{} has no README.md", folder.display());
        files.iter().for_each(|file| check_kind(file));
        // Some runs only have figures from a script. The README of the run contains these figures.
        let Ok(results) = RunResult::read_all(&folder) else {
            assert!(
                files.iter().all(|file| file.extension() != Some("zst".as_ref())),
                "{}",
                folder.display()
            );
            continue;
        };
        let measured: usize = results.iter().map(|run| run.workloads.len() + run.limits.len()).sum();
        let report = Report::new(results);
        let html = report.html().unwrap();
        assert!(html.trim_end().ends_with("</html>"), "{}", folder.display());
        let (mut csv, mut markdown) = (Vec::new(), Vec::new());
        report.write_csv(&mut csv).unwrap();
        report.write_markdown(&mut markdown).unwrap();
        let rows = csv::Reader::from_reader(csv.as_slice()).records().map(Result::unwrap).count();
        assert_eq!(rows, measured, "{}", folder.display());
    }
}
