//! The log: its destination, its level, and changing both while the server runs.
//!
//! Lines go to standard error, which service managers collect, or to a file. A reload opens the file again, so that a
//! log rotator can move the old file and send SIGHUP. Credentials and values of entries are never logged.
//!
//! A line is text, or an object of JSON with `timestamp`, `level`, `message` and the fields of the event.

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

/// Handle that changes the log of this process.
#[derive(Clone, Debug)]
pub struct LogHandle {
    sink: Sink,
    level: reload::Handle<LevelFilter, Registry>,
}

/// Error of the log.
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
    /// The log of this process is already started.
    #[error("this process has a log already")]
    AlreadyStarted,
}

/// Starts the log of this process.
///
/// # Errors
/// The file cannot be opened, or the log is already started.
pub fn start(settings: &LogSettings) -> Result<LogHandle, LogError> {
    let sink = Sink::default();
    sink.open(settings.file.as_deref())?;
    let (level, handle) = reload::Layer::new(level_filter(settings.level));
    // A line that cannot be written is lost. Reporting the error would panic if standard error is a closed pipe.
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
    /// Applies new settings, and opens the file again even if its name is the same.
    ///
    /// # Errors
    /// The file cannot be opened; the destination of the log then does not change.
    pub fn apply(&self, settings: &LogSettings) -> Result<(), LogError> {
        self.sink.open(settings.file.as_deref())?;
        // Fails only without a subscriber, and the subscriber lives as long as the process.
        let _ = self.level.modify(|level| *level = level_filter(settings.level));
        Ok(())
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

/// Destination of lines. `None` is standard error.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Option<File>>>);

impl Sink {
    fn open(&self, file: Option<&Path>) -> Result<(), LogError> {
        let opened = match file {
            None => None,
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                Some(opened.map_err(|error| LogError::File { file: path.to_owned(), error })?)
            }
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(())
    }
}

/// The subscriber formats a whole line first, so each write is one line under the lock.
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
