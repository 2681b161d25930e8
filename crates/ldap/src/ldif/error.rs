//! Errors of LDIF text.

use std::fmt;
use std::io;

/// Reason why reading LDIF failed, with the line.
#[derive(Debug)]
pub struct LdifError {
    /// Number of the line, from 1, as an editor shows it. Each physical line of a folded line counts.
    pub line: u64,
    /// Kind of error.
    pub kind: LdifErrorKind,
}

/// Kind of error in a line of LDIF.
#[derive(Debug)]
#[non_exhaustive]
pub enum LdifErrorKind {
    /// The input could not be read.
    Io(io::Error),
    /// A version other than 1.
    UnknownVersion,
    /// A continuation line without a preceding line.
    StrayContinuation,
    /// A line without a colon.
    MissingColon,
    /// No attribute description before the colon, or a character that is not allowed in one.
    BadDescription,
    /// A value after `::` that is not base64.
    BadBase64,
    /// A value given by URL (`:<`), which this reader does not fetch.
    UrlValue,
    /// A record that does not start with `dn:`.
    MissingDn,
    /// A second `dn:` in a record, usually because the empty line between two records is missing.
    SecondDn,
    /// A DN or RDN that is not UTF-8.
    NotUtf8,
    /// A `control:` line that is malformed or follows `changetype:`.
    BadControl,
    /// A `changetype:` other than add, delete, modify, modrdn and moddn, or a `changetype:` line that does not directly
    /// follow `dn:` and the controls.
    BadChangeType,
    /// A line that does not belong in a record of this change type, or a missing line. The text is the expected line.
    Expected(&'static str),
    /// The record is longer than allowed.
    RecordTooLong {
        /// The limit in octets.
        max: usize,
    },
}

impl fmt::Display for LdifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl fmt::Display for LdifErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LdifErrorKind::Io(error) => error.fmt(f),
            LdifErrorKind::UnknownVersion => f.write_str("only LDIF version 1 is known"),
            LdifErrorKind::StrayContinuation => f.write_str("continuation of no line"),
            LdifErrorKind::MissingColon => f.write_str("':' expected"),
            LdifErrorKind::BadDescription => f.write_str("attribute description expected before ':'"),
            LdifErrorKind::BadBase64 => f.write_str("invalid base64"),
            LdifErrorKind::UrlValue => f.write_str("values from URLs (':<') are not supported"),
            LdifErrorKind::MissingDn => f.write_str("record must start with 'dn:'"),
            LdifErrorKind::SecondDn => f.write_str("second 'dn:' in a record; is an empty line missing?"),
            LdifErrorKind::NotUtf8 => f.write_str("name is not UTF-8"),
            LdifErrorKind::BadControl => f.write_str("malformed or misplaced 'control:'"),
            LdifErrorKind::BadChangeType => {
                f.write_str("changetype must be add, delete, modify, modrdn or moddn, right after 'dn:'")
            }
            LdifErrorKind::Expected(what) => write!(f, "{what} expected"),
            LdifErrorKind::RecordTooLong { max } => write!(f, "record is longer than {max} octets"),
        }
    }
}

impl std::error::Error for LdifError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            LdifErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
