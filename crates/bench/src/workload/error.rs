//! What is wrong with a workload file, and where.

use std::fmt;

/// What is wrong with a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    /// The file, or the name of a shipped workload.
    pub file: String,
    /// The line, from 1; 0 when it is the whole.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl WorkloadError {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>) -> WorkloadError {
        WorkloadError { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.file, self.message),
            line => write!(formatter, "{} line {line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// The line, from 1, of an octet of a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|octet| **octet == b'\n').count() + 1
}
