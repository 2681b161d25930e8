//! Progress report of an import. On a terminal, one line is updated in place. Otherwise a line is written at intervals.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between changes of the line on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between lines of another output.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Phase of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reading and checking entries.
    Entries,
    /// Finding superiors and the targets of links.
    Names,
    /// Writing the tree.
    Tree,
    /// Writing all other rows: indexes, links and others.
    Rows,
    /// Waiting for the disk.
    Sync,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Entries => "1/5 reading entries",
            Phase::Names => "2/5 following names",
            Phase::Tree => "3/5 writing the tree",
            Phase::Rows => "4/5 writing indexes and links",
            Phase::Sync => "5/5 making it durable",
        }
    }
}

/// Progress report of an import.
pub(super) struct Progress {
    phase: Phase,
    started: Instant,
    shown: Instant,
    is_terminal: bool,
    bytes: u64,
    total_bytes: Option<u64>,
    total: u64,
}

impl Progress {
    /// Creates a report before the first byte is read. `total_bytes` is the size of all texts, if known.
    pub(super) fn new(total_bytes: Option<u64>) -> Progress {
        let now = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Progress {
            phase: Phase::Entries,
            started: now,
            shown: now,
            is_terminal,
            bytes: 0,
            total_bytes,
            total: 0,
        }
    }

    /// Records that `bytes` more bytes were read, and `entries` entries in total.
    pub(super) fn read(&mut self, entries: u64, bytes: u64) {
        self.bytes += bytes;
        if !self.is_due() {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = self.bytes as f64 / seconds;
        let left = self.total_bytes.map(|total| total.saturating_sub(self.bytes) as f64 / rate);
        let mut text = format!("{entries} entries, {:.1} MB/s", rate / 1e6);
        if let Some(left) = left {
            text.push_str(&format!(", {} left in this phase", duration(left)));
        }
        self.show(&text);
    }

    /// Begins a phase. `total` is its number of items, or 0 if that is unknown.
    pub(super) fn begin(&mut self, phase: Phase, total: u64) {
        (self.phase, self.total, self.started) = (phase, total, Instant::now());
        if self.is_terminal {
            self.show("");
        }
    }

    /// Reports that `count` items of the phase are done.
    pub(super) fn at(&mut self, count: u64) {
        if !self.is_due() {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let mut text = format!("{count} done");
        if self.total > count {
            let left = (self.total - count) as f64 * seconds / count.max(1) as f64;
            text.push_str(&format!(", {} left in this phase", duration(left)));
        }
        self.show(&text);
    }

    /// Clears the line if the output is a terminal.
    pub(super) fn end(&mut self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Returns the number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_due(&self) -> bool {
        self.shown.elapsed() >= if self.is_terminal { TERMINAL_INTERVAL } else { LINE_INTERVAL }
    }

    /// Shows a text. Ignores errors, because standard error may be closed.
    fn show(&mut self, text: &str) {
        self.shown = Instant::now();
        let mut out = std::io::stderr();
        let phase = self.phase.name();
        let _ = match self.is_terminal {
            true => write!(out, "\r\x1b[K{phase}: {text}").and_then(|()| out.flush()),
            false => writeln!(out, "pando: {phase}: {text}"),
        };
    }
}

/// Formats a number of seconds for people.
fn duration(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds.round()).unwrap_or(Duration::MAX).as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [(0.4, "0 s"), (119.0, "119 s"), (130.0, "2 min"), (7_300.0, "2 h 1 min")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
