//! The log of the process: its destination and level, and changing both while the server runs.
//!
//! Lines are written to standard error, which service managers collect, or to a file. A reload opens the file again.
//! Therefore a log rotator can move the old file and then send SIGHUP. Passwords and values of entries are never
//! logged.
//!
//! A line is a text, or a JSON object with `timestamp`, `level`, `message` and the fields of the event.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer as _, Registry, reload};

use crate::config::LogSettings;
use crate::config::values::{LogFormat, LogLevel};

/// A handle that changes the log of this process.
#[derive(Clone, Debug)]
pub struct LogHandle {
    sink: Sink,
    level: reload::Handle<LevelFilter, Registry>,
}

/// Error of starting or changing the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be opened.
    #[error("cannot open the log file {}: {error}", file.display())]
    File {
        /// The file.
        file: std::path::PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The log of this process was already started.
    #[error("this process has a log already")]
    AlreadyStarted,
}

/// Starts the log of this process.
///
/// # Errors
/// The file cannot be opened, or the log was already started.
pub fn start(settings: &LogSettings) -> Result<LogHandle, LogError> {
    let sink = Sink::default();
    sink.replace(open(settings.file.as_deref())?);
    let (level, handle) = reload::Layer::new(level_filter(settings.level));
    // If a line cannot be written, it is lost. The library would report that on standard error, and that report panics
    // if standard error is a closed pipe.
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(sink.clone());
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(level).with(lines).try_init();
    started.map_err(|_| LogError::AlreadyStarted)?;
    Ok(LogHandle { sink, level: handle })
}

impl LogHandle {
    /// Opens the file of new settings, also if its name has not changed. The log changes only when the result is
    /// applied.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self, settings: &LogSettings) -> Result<NewLog<'_>, LogError> {
        Ok(NewLog { handle: self, file: open(settings.file.as_deref())?, level: settings.level })
    }
}

/// New settings of the log whose file is open.
#[must_use]
pub struct NewLog<'h> {
    handle: &'h LogHandle,
    file: Option<File>,
    level: LogLevel,
}

impl NewLog<'_> {
    /// Applies the settings.
    pub fn apply(self) {
        self.handle.sink.replace(self.file);
        // This call fails only if there is no subscriber, but the subscriber exists as long as the process.
        let _ = self.handle.level.modify(|level| *level = level_filter(self.level));
    }
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The destination of the lines. `None` means standard error.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Option<File>>>);

impl Sink {
    fn replace(&self, file: Option<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

fn open(file: Option<&Path>) -> Result<Option<File>, LogError> {
    let Some(path) = file else { return Ok(None) };
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map(Some).map_err(|error| LogError::File { file: path.to_owned(), error })
}

/// The subscriber formats a whole line before it writes. Therefore each call of `write` writes one line.
impl Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = &'a Sink;

    fn make_writer(&'a self) -> &'a Sink {
        self
    }
}
