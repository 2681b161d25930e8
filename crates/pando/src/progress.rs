//! Progress of long commands. On a terminal, it is one line that is redrawn. Otherwise, new lines are printed at
//! intervals.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::print;
use crate::table::printable;

/// Interval between two lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum length of a line on a terminal, in columns, so that the line never wraps.
const COLUMNS: usize = 79;

/// Progress line of a command.
pub(crate) struct Progress<W: Write = io::Stderr> {
    out: W,
    is_terminal: bool,
    is_quiet: bool,
    shown: Option<Instant>,
}

impl Progress {
    /// Returns a progress line on standard error. With `--quiet`, nothing is shown.
    pub(crate) fn start() -> Progress {
        let (out, is_terminal) = (io::stderr(), io::stderr().is_terminal());
        Progress { out, is_terminal, is_quiet: print::form().is_quiet, shown: None }
    }
}

impl<W: Write> Progress<W> {
    /// Shows the present state. If standard error is not a terminal, shows at most one state in each [`LINE_INTERVAL`].
    /// Ignores errors of writing to standard error.
    pub(crate) fn show(&mut self, text: &str, now: Instant) {
        if self.is_quiet {
            return;
        }
        let is_due = self.shown.is_none_or(|shown| now.saturating_duration_since(shown) >= LINE_INTERVAL);
        let _ = match self.is_terminal {
            true => {
                let line: String = printable(text).chars().take(COLUMNS).collect();
                write!(self.out, "\r\x1b[K{line}").and_then(|()| self.out.flush())
            }
            false if is_due => writeln!(self.out, "{text}"),
            false => return,
        };
        self.shown = Some(now);
    }
}

/// Removes the line from the terminal.
impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        if self.is_terminal && self.shown.is_some() {
            let _ = write!(self.out, "\r\x1b[K").and_then(|()| self.out.flush());
        }
    }
}

/// Display of the elapsed seconds of a step that reports no progress. It is shown only on a terminal.
pub(crate) struct Elapsed {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Elapsed {
    /// Starts to show the duration of a step.
    pub(crate) fn start(what: &'static str) -> Elapsed {
        let mut progress = Progress::start();
        if !progress.is_terminal || progress.is_quiet {
            return Elapsed { end: None, thread: None };
        }
        let (end, ended) = channel();
        let show = move || {
            let began = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(1)) {
                let now = Instant::now();
                progress.show(&format!("{what}: {} s", (now - began).as_secs()), now);
            }
        };
        // Without the thread, the command runs without the display.
        let thread = std::thread::Builder::new().name("pando-progress".to_owned()).spawn(show).ok();
        Elapsed { end: Some(end), thread }
    }
}

impl Drop for Elapsed {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(is_terminal: bool, seconds: &[u64]) -> String {
        let (mut out, start) = (Vec::new(), Instant::now());
        let mut progress = Progress { out: &mut out, is_terminal, is_quiet: false, shown: None };
        for second in seconds {
            progress.show(&format!("entry {second}"), start + Duration::from_secs(*second));
        }
        drop(progress);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_redraws_one_line_and_a_file_gets_a_line_at_intervals() {
        assert_eq!(draw(true, &[1, 2]), "\r\x1b[Kentry 1\r\x1b[Kentry 2\r\x1b[K");
        assert_eq!(draw(false, &[0, 1, 9, 10, 11, 25]), "entry 0\nentry 10\nentry 25\n");
        assert_eq!(draw(true, &[]), "");
        let mut out = Vec::new();
        let mut progress = Progress { out: &mut out, is_terminal: true, is_quiet: false, shown: None };
        progress.show(&format!("a\nb{}", "x".repeat(200)), Instant::now());
        drop(progress);
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\n') && text.chars().count() < COLUMNS + 12, "{text:?}");
    }
}
