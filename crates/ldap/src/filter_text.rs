//! Filters as text (RFC 4515), both ways.

use std::fmt;

use crate::Filter;

/// Owns what [`Filter`] borrows.
#[derive(Clone, PartialEq, Eq)]
pub struct FilterBuf {
    bytes: Vec<u8>,
}

/// Where and why a text is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Octets before the place.
    pub offset: usize,
    /// What is wrong there.
    pub kind: FilterErrorKind,
}

/// What is wrong with the text of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// No attribute description where one must be.
    BadDescription,
}

impl FilterBuf {
    /// Parses the text form.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn parse(text: &str) -> Result<FilterBuf, FilterError> {
        todo!("{text}")
    }

    /// The filter, to put into a request.
    pub fn as_filter(&self) -> Filter<'_> {
        todo!("{:?}", self.bytes)
    }
}

impl fmt::Display for Filter<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl fmt::Display for FilterBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_filter().fmt(f)
    }
}

impl fmt::Debug for FilterBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for FilterError {}
