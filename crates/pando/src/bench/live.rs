//! Progress of a run, in one line on the terminal. Without a terminal, nothing is printed.

use std::io::{IsTerminal, Write};

use bench::driver::{Phase, Progress};
use bench::report::text::{count, duration};

use super::summary::micros;

/// Progress line on the terminal.
pub(super) struct Live {
    is_terminal: bool,
    name: String,
    errors: u64,
}

impl Live {
    pub(super) fn new(name: &str) -> Live {
        Live { is_terminal: std::io::stderr().is_terminal(), name: name.to_owned(), errors: 0 }
    }

    /// Overwrites the progress line. Without a terminal, prints nothing.
    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.is_terminal {
            return;
        }
        let left = duration(progress.left.as_secs() as f64);
        let line = match (progress.phase, &progress.second) {
            (Phase::Prepare, _) => "preparing".to_owned(),
            (Phase::WarmUp, _) => format!("warming up, {left} left"),
            (Phase::Pause, _) => format!("pausing, {left} left"),
            (Phase::Measure, None) => format!("measuring, {left} left"),
            (Phase::Measure, Some(second)) => {
                self.errors += second.errors;
                format!(
                    "{}/s  p50 {}  p99 {}  max {}  errors {}  {left} left",
                    count(second.operations_total()),
                    micros(second.p50_micros),
                    micros(second.p99_micros),
                    micros(second.max_micros),
                    self.errors
                )
            }
        };
        // A failed print must not stop the measurement.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}: {line}", self.name);
    }
}

/// Returns a function that shows the progress of consecutive workloads, in one line for each.
pub(super) fn of_each() -> impl FnMut(&str, &Progress) {
    let mut live: Option<Live> = None;
    move |name, progress| {
        if live.as_ref().is_none_or(|live| live.name != name) {
            live = Some(Live::new(name));
        }
        if let Some(live) = &mut live {
            live.show(progress);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
