//! The report of a run: one line for each attack, and a summary.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// Outcome of an attack.
#[derive(Debug)]
pub(crate) struct Finding {
    done: String,
    measures: Vec<String>,
    is_passed: bool,
    /// Whether the attack exceeded only limits of time.
    is_only_late: bool,
}

impl Finding {
    /// Creates a finding with a description of the attack.
    pub(crate) fn of(done: impl Into<String>) -> Finding {
        Finding { done: done.into(), measures: Vec::new(), is_passed: true, is_only_late: true }
    }

    /// Adds a measurement and its limit. `is_kept` is false if the limit is exceeded.
    pub(crate) fn bounded(
        self,
        is_kept: bool,
        measured: impl std::fmt::Display,
        bound: impl std::fmt::Display,
    ) -> Finding {
        self.timely(is_kept, true, measured, bound)
    }

    /// Adds a measurement with a time limit. The two booleans state whether the result is correct and whether it came
    /// in time.
    pub(crate) fn timely(
        mut self,
        is_right: bool,
        is_in_time: bool,
        measured: impl std::fmt::Display,
        bound: impl std::fmt::Display,
    ) -> Finding {
        let is_kept = is_right && is_in_time;
        let mark = if is_kept { "" } else { "NOT KEPT: " };
        self.measures.push(format!("{mark}{measured} [{bound}]"));
        self.is_passed &= is_kept;
        self.is_only_late &= is_right;
        self
    }

    /// Adds to the finding a measurement without a limit.
    pub(crate) fn noted(mut self, measured: impl std::fmt::Display) -> Finding {
        self.measures.push(measured.to_string());
        self
    }
}

/// Maximum number of runs of an attack.
const TRIES: usize = 3;

fn run(attack: &mut impl FnMut() -> Finding) -> Finding {
    catch_unwind(AssertUnwindSafe(attack)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let line = text.lines().collect::<Vec<_>>().join(" | ");
        Finding::of("stopped by what it found").bounded(false, line, "it goes on to its end")
    })
}

/// Counts of the lines that were printed.
#[derive(Debug)]
pub(crate) struct Report {
    only: Vec<String>,
    passed: usize,
    failed: Vec<String>,
    started: Instant,
}

impl Report {
    /// Creates a report. `only` lists the selected families and attacks; empty selects all.
    pub(crate) fn new(only: Vec<String>) -> Report {
        Report { only, passed: 0, failed: Vec::new(), started: Instant::now() }
    }

    /// Returns true if an attack, `family/name`, is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let is_it = |only: &String| {
            name == only || name.starts_with(&format!("{only}/")) || name.starts_with(&format!("{only}-"))
        };
        self.only.is_empty() || self.only.iter().any(is_it)
    }

    /// Returns true if an attack is selected by its own name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.only.iter().any(|only| only == name)
    }

    /// Runs an attack and prints its line. An attack that panics has failed. If an attack only exceeds a time limit, it
    /// is run again, because other programs may use the machine's processors for seconds. A fault of the server would
    /// recur.
    pub(crate) fn attack(&mut self, name: &str, mut attack: impl FnMut() -> Finding) {
        if !self.wants(name) {
            return;
        }
        let started = Instant::now();
        let mut finding = run(&mut attack);
        for _ in 1..TRIES {
            if finding.is_passed || !finding.is_only_late {
                break;
            }
            finding = run(&mut attack).noted("an earlier try was late");
        }
        let seconds = started.elapsed().as_secs_f64();
        let verdict = if finding.is_passed { "pass" } else { "FAIL" };
        println!("{verdict} {name} ({seconds:.1} s): {}; {}", finding.done, finding.measures.join("; "));
        // The output may be a pipe, whose reader waits for each line.
        let _ = std::io::stdout().flush();
        if finding.is_passed {
            self.passed += 1;
        } else {
            self.failed.push(name.to_owned());
        }
    }

    /// Prints the summary, and returns it as an exit code.
    pub(crate) fn end(self) -> ExitCode {
        println!("{} s", self.started.elapsed().as_secs());
        if !self.failed.is_empty() {
            println!("failed: {}", self.failed.join(" "));
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if self.failed.is_empty() && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
