//! The results of a run: saving, reading, merging.
//!
//! A [`RunResult`] is one JSON file: the machine of the load driver ([`Environment`]), and one [`WorkloadResult`] for
//! every workload on every server, with all latencies as an HdrHistogram ([`Latency`]) and one [`Second`] for every
//! second. The file contains all information that a reader needs to judge a figure, including the settings of the
//! server. The report uses nothing but the file.
//!
//! A file whose name ends with `.zst` is a kept run ([`RunResult::write`]): it is compressed with Zstandard, and its
//! histograms contain only the values that reports show. It is read like any other result file.
//!
//! Names end with their units. An optional value that was not measured is absent, not zero. Results of several load
//! machines are merged without loss ([`WorkloadResult::merge`]). This is possible because all histograms have the same
//! bounds, and each second has a histogram until the results are merged.

mod environment;
mod latency;
mod merge;
mod workload;

pub(crate) use environment::moment_text;
pub use environment::{Environment, Tool, now_text};
pub(crate) use latency::NINES_MAX;
pub use latency::{HISTOGRAM_DIGITS, HISTOGRAM_MAX_MICROS, Latency};
pub use merge::MergeError;
pub use workload::{
    AgentState, BulkLoad, DataSet, DocumentFigure, DocumentRow, Load, OperationKind, OperationTotals,
    Parameters, Second, ServerCost, ServerDescription, Setting, SweepAxis, WarmUp, WorkloadResult, setting,
};

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Format of the result files that this program writes. It is also the newest format that the program reads.
pub const FORMAT: u32 = 2;

/// Maximum size in octets of a result file, before and after decompression. An 8 h run of ten servers has some tens of
/// megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// First octets of files compressed by Zstandard (RFC 8878 section 3.1.1).
const ZSTANDARD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Compression level, which is high because results are written once and kept for years.
const ZSTANDARD_LEVEL: i32 = 19;

/// One run: a result file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`] of the program that wrote the file.
    pub format: u32,
    /// The program that measured.
    pub tool: Tool,
    /// Start of the run (RFC 3339, UTC).
    pub started: String,
    /// Command that repeats the run.
    pub command: String,
    /// The machine of the load driver. The server may run on the same machine.
    pub environment: Environment,
    /// Results of workloads, in order of running.
    pub workloads: Vec<WorkloadResult>,
    /// Results of the null responder under the same load, which show the limit of this machine. There is one result for
    /// each combination of connections and outstanding requests.
    #[serde(default)]
    pub limits: Vec<WorkloadResult>,
    /// Comparisons of the answers of several servers to the same requests.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Ratios between the figures of servers, for each workload.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
}

/// Ratio between the figures of two servers in a workload: medians over the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The workload's name.
    pub workload: String,
    /// Server whose figures are the numerators.
    pub server: String,
    /// Server whose figures are the denominators.
    pub by: String,
    /// Ratio of the operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Ratio of the server's CPU time per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_per_operation: Option<f64>,
    /// Ratio of the median latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// Ratio of the 99th percentiles of the latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Comparison of the answers of several servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the workload that supplied the requests.
    pub workload: String,
    /// Products that were compared.
    pub servers: Vec<String>,
    /// Number of requests sent to each server.
    pub requests: u64,
    /// Number of requests to which the servers gave different answers.
    pub differing: u64,
    /// Descriptions of some differing requests.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// Reason why a result file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The file cannot be opened, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The folder contains no result file.
    #[error("{path} is a folder without a result: none of its files is called NAME.json.zst")]
    NoResult {
        /// The folder.
        path: PathBuf,
    },
    /// The file is larger than any result.
    #[error("{path} has more than {FILE_BYTES_MAX} octets; no result is that large")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a result of `pando bench`.
    #[error("{path} is no result of pando bench: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Error of the parser, with its position.
        source: serde_json::Error,
    },
    /// This program does not read the format of the file, usually because a newer version of the program wrote it.
    #[error(
        "{path} has format {found}, this program reads up to {FORMAT}: use the pando that wrote it, or a newer one"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
    },
}

/// The part of a result file that all formats have in common.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl RunResult {
    /// Returns a run that begins now, without results.
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

    /// Reads a result file. The first octets show whether the file is compressed.
    ///
    /// # Errors
    /// The file cannot be read, is not a result, or has a newer format.
    pub fn read(path: &Path) -> Result<RunResult, ResultError> {
        let text = read_at_most(path, FILE_BYTES_MAX)
            .map_err(|source| ResultError::Io { path: path.to_owned(), source })?
            .ok_or_else(|| ResultError::TooLarge { path: path.to_owned() })?;
        RunResult::parse(&text, path)
    }

    /// Reads a result file, or all kept runs (`NAME.json.zst`) of a folder, in the order of their names.
    ///
    /// # Errors
    /// A file cannot be read, or the folder contains no kept run.
    pub fn read_all(path: &Path) -> Result<Vec<RunResult>, ResultError> {
        if !path.is_dir() {
            return Ok(vec![RunResult::read(path)?]);
        }
        let listed = std::fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
        });
        let mut files = listed.map_err(|source| ResultError::Io { path: path.to_owned(), source })?;
        files.retain(|file| file.as_os_str().as_encoded_bytes().ends_with(b".json.zst"));
        files.sort();
        if files.is_empty() {
            return Err(ResultError::NoResult { path: path.to_owned() });
        }
        files.iter().map(|file| RunResult::read(file)).collect()
    }

    /// Parses a result. Reads the format first, to distinguish a newer format from a broken file.
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
    /// The sink fails.
    pub fn write_to(&self, sink: impl Write) -> io::Result<()> {
        let mut sink = BufWriter::new(sink);
        serde_json::to_writer_pretty(&mut sink, self)?;
        sink.write_all(b"\n")?;
        sink.flush()
    }

    /// Writes the result file, under a temporary name until it is complete. A file whose name ends with `.zst` is a
    /// kept run: it is compressed, and its histograms contain only the values that reports show.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        let io_error = |source| ResultError::Io { path: path.to_owned(), source };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(name);
        let is_to_keep = path.extension().is_some_and(|extension| extension == "zst");
        let written = File::create(&temporary)
            .and_then(|file| {
                if is_to_keep { self.write_compressed(&file) } else { self.write_to(&file) }?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&temporary, path));
        if written.is_err() {
            // An incomplete file is useless. If it cannot be removed, its name shows that it is temporary.
            let _ = std::fs::remove_file(&temporary);
        }
        written.map_err(io_error)
    }

    fn write_compressed(&self, sink: impl Write) -> io::Result<()> {
        let mut thinned = self.clone();
        thinned.workloads.iter_mut().chain(&mut thinned.limits).for_each(WorkloadResult::thin_histograms);
        let mut encoder = zstd::Encoder::new(sink, ZSTANDARD_LEVEL)?;
        thinned.write_to(&mut encoder)?;
        encoder.finish()?.flush()
    }
}

/// Returns the content of a file, decompressed if necessary. Returns `None` if the content has more than `bytes_max`
/// octets, in order to limit memory.
fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let bounded = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
    };
    match bounded(&mut File::open(path)?)? {
        Some(packed) if packed.starts_with(&ZSTANDARD_MAGIC) => {
            bounded(&mut zstd::Decoder::with_buffer(packed.as_slice())?)
        }
        plain => Ok(plain),
    }
}

#[cfg(test)]
mod tests;
