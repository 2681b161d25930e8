//! Errors of a workload file, with their lines.

/// An error of a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", if *line == 0 { String::new() } else { format!(" line {line}") })]
pub struct WorkloadError {
    /// The file, or the name of a shipped workload.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The error, and the correct form.
    pub message: String,
}

impl WorkloadError {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>) -> WorkloadError {
        WorkloadError { file: file.to_owned(), line, message: message.into() }
    }
}

/// Returns the line, from 1, of an octet of a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|octet| **octet == b'\n').count() + 1
}
