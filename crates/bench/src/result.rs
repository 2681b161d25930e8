//! What a run measured, as it is saved, merged and reported.
//!
//! A [`RunResult`] is one JSON file: the machine it ran on ([`Environment`]), and one [`WorkloadResult`] for every
//! workload on every server, with all latencies as an HdrHistogram ([`Latency`]) and one [`Second`] for every second.
//! Everything that a reader needs to judge a figure is in the file, the settings of the server included; the report is
//! made from it and nothing else.
//!
//! Units stand in the names. What was not measured is absent, never zero. Results of several load machines merge
//! exactly ([`WorkloadResult::merge`]): histograms have the same bounds everywhere and seconds carry theirs until they
//! are merged.

mod environment;
mod latency;
mod merge;
mod workload;

pub(crate) use environment::moment_text;
pub use environment::{Environment, Tool, now_text};
pub use latency::{HISTOGRAM_DIGITS, HISTOGRAM_MAX_MICROS, Latency};
pub use merge::MergeError;
pub use workload::{
    AgentState, BulkLoad, DataSet, DocumentFigure, DocumentRow, Load, OperationKind, OperationTotals,
    Parameters, Second, ServerCost, ServerDescription, Setting, SweepAxis, WorkloadResult, setting,
};

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The form of result files that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 2;

/// The most octets of a result file that are read: an 8 h run of ten servers has some tens of megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// One run: a result file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// What measured.
    pub tool: Tool,
    /// When the run began (RFC 3339, UTC).
    pub started: String,
    /// The command that does it again.
    pub command: String,
    /// The machine of the load generator, and of the server where that is the same.
    pub environment: Environment,
    /// What was measured, in order of running.
    pub workloads: Vec<WorkloadResult>,
    /// The null responder under the same load: this machine's floor. One for each shape of load (connections,
    /// outstanding).
    #[serde(default)]
    pub limits: Vec<WorkloadResult>,
    /// Answers of several servers to the same requests, compared.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Servers against one of them, workload by workload.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
}

/// One server's figures in a workload, divided by those of another: medians over the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The workload's name.
    pub workload: String,
    /// The server whose figures are divided.
    pub server: String,
    /// The server whose figures they are divided by.
    pub by: String,
    /// Operations a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The server's CPU time for an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_per_operation: Option<f64>,
    /// The latency that half of the operations did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The latency that 99% of the operations did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Whether servers gave the same answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the workload whose requests were sent.
    pub workload: String,
    /// Products that were asked.
    pub servers: Vec<String>,
    /// Requests sent to each.
    pub requests: u64,
    /// Requests with answers that were not all the same.
    pub differing: u64,
    /// Some of those, in words.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// Why a result file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The file cannot be opened, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Larger than any result.
    #[error("{path} has {bytes} octets; no result file is larger than {FILE_BYTES_MAX}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is no result of `pando bench`.
    #[error("{path} is no result of pando bench: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Where it departs.
        source: serde_json::Error,
    },
    /// The file is of a newer program.
    #[error(
        "{path} has format {found}, this program reads up to {FORMAT}: use the pando that wrote it, or a newer one"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
}

/// The part of a result file that every format has.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl RunResult {
    /// A run that begins now and has measured nothing yet.
    pub fn begin(command: String, environment: Environment) -> RunResult {
        RunResult {
            format: FORMAT,
            tool: Tool::this(),
            started: now_text(),
            command,
            environment,
            workloads: Vec::new(),
            limits: Vec::new(),
            comparisons: Vec::new(),
            ratios: Vec::new(),
        }
    }

    /// Reads a result file.
    ///
    /// # Errors
    /// When it cannot be read, is no result, or is one of a newer format.
    pub fn read(path: &Path) -> Result<RunResult, ResultError> {
        let io_error = |source| ResultError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(io_error)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(ResultError::TooLarge { path: path.to_owned(), bytes });
        }
        let text = std::fs::read(path).map_err(io_error)?;
        RunResult::parse(&text, path)
    }

    /// The format is looked at first: a newer one is told from a broken file.
    fn parse(text: &[u8], path: &Path) -> Result<RunResult, ResultError> {
        let content_error = |source| ResultError::Content { path: path.to_owned(), source };
        let FormatOnly { format } = serde_json::from_slice(text).map_err(content_error)?;
        if !(1..=FORMAT).contains(&format) {
            return Err(ResultError::Format { path: path.to_owned(), found: format });
        }
        let mut result: RunResult = serde_json::from_slice(text).map_err(content_error)?;
        if format < 2 {
            result.workloads.iter_mut().chain(&mut result.limits).for_each(WorkloadResult::withdraw_disk);
        }
        Ok(result)
    }

    /// Writes the result as indented JSON.
    ///
    /// # Errors
    /// When the sink does.
    pub fn write_to(&self, sink: impl Write) -> io::Result<()> {
        let mut sink = BufWriter::new(sink);
        serde_json::to_writer_pretty(&mut sink, self)?;
        sink.write_all(b"\n")?;
        sink.flush()
    }

    /// Writes the result file, under another name until it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        let io_error = |source| ResultError::Io { path: path.to_owned(), source };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = File::create(&temporary)
            .and_then(|file| self.write_to(&file).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&temporary, path));
        if written.is_err() {
            // Half a file is of no use; should it stay, its name says what it is.
            let _ = std::fs::remove_file(&temporary);
        }
        written.map_err(io_error)
    }
}

#[cfg(test)]
mod tests;
