//! Errors of decoding a message, and the small readers that all decoders share.

use std::fmt;

use ber::{BerError, Reader, Tag};

use crate::{DecodeLimits, MessageId};

/// Reason why a message could not be decoded, with the parts of its envelope that could be read.
///
/// If `id` is present and `request_tag` is the tag of a known operation, the server answers with protocolError.
/// Otherwise it sends a notice of disconnection and closes the connection (RFC 4511 section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Id of the message; `None` if it was unreadable, or if a request had the id 0.
    pub id: Option<MessageId>,
    /// Tag of the operation, known or unknown; `None` if it was unreadable.
    pub request_tag: Option<Tag>,
    /// The invalid component, by its RFC 4511 name, such as `SearchRequest.filter`.
    pub component: &'static str,
    /// Kind of error.
    pub kind: DecodeErrorKind,
}

/// Kind of error in a component of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The BER element is malformed, or is not the expected element.
    Ber(BerError),
    /// An LDAPString that is not UTF-8.
    NotUtf8,
    /// A number or enumeration outside the range that the protocol defines.
    OutOfRange(i64),
    /// An empty set that must have members.
    Empty,
    /// A component that is repeated, or misplaced in its sequence.
    Misplaced,
    /// An operation that this version of the protocol does not define.
    UnknownOperation,
    /// The message exceeds one of the [`DecodeLimits`].
    LimitExceeded {
        /// The exceeded limit.
        limit: Limit,
        /// Value of the limit.
        max: usize,
    },
}

/// One of the [`DecodeLimits`] that a message can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// [`DecodeLimits::message_size_max`], in octets.
    MessageSize,
    /// [`DecodeLimits::filter_depth_max`].
    FilterDepth,
    /// [`DecodeLimits::filter_terms_max`].
    FilterTerms,
    /// [`DecodeLimits::element_count_max`].
    ElementCount,
    /// [`DecodeLimits::value_count_max`].
    ValueCount,
    /// [`DecodeLimits::control_count_max`].
    ControlCount,
}

impl From<BerError> for DecodeErrorKind {
    fn from(error: BerError) -> DecodeErrorKind {
        DecodeErrorKind::Ber(error)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.component, self.kind)
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeErrorKind::Ber(error) => error.fmt(f),
            DecodeErrorKind::NotUtf8 => f.write_str("not UTF-8"),
            DecodeErrorKind::OutOfRange(value) => write!(f, "value {value} is out of range"),
            DecodeErrorKind::Empty => f.write_str("must not be empty"),
            DecodeErrorKind::Misplaced => f.write_str("repeated or out of place"),
            DecodeErrorKind::UnknownOperation => f.write_str("unknown operation"),
            DecodeErrorKind::LimitExceeded { limit, max } => write!(f, "more than {max} {limit}"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::MessageSize => "octets",
            Limit::FilterDepth => "levels of nesting",
            Limit::FilterTerms => "filter terms",
            Limit::ElementCount => "elements",
            Limit::ValueCount => "values",
            Limit::ControlCount => "controls",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Name of a component, and its error. A [`DecodeError`] consists of these fields and the fields of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyError {
    pub(crate) component: &'static str,
    pub(crate) kind: DecodeErrorKind,
}

impl BodyError {
    pub(crate) fn new(component: &'static str, kind: impl Into<DecodeErrorKind>) -> BodyError {
        BodyError { component, kind: kind.into() }
    }

    pub(crate) fn limit(component: &'static str, limit: Limit, max: usize) -> BodyError {
        BodyError { component, kind: DecodeErrorKind::LimitExceeded { limit, max } }
    }
}

pub(crate) type Body<T> = Result<T, BodyError>;

/// Conversion that adds the name of a component to a low-level error.
pub(crate) trait InComponent<T> {
    fn component(self, component: &'static str) -> Body<T>;
}

impl<T, E: Into<DecodeErrorKind>> InComponent<T> for Result<T, E> {
    #[inline]
    fn component(self, component: &'static str) -> Body<T> {
        self.map_err(|error| BodyError::new(component, error))
    }
}

/// Returns the content of an LDAPString as text.
#[inline]
pub(crate) fn text(content: &[u8]) -> Result<&str, DecodeErrorKind> {
    std::str::from_utf8(content).map_err(|_| DecodeErrorKind::NotUtf8)
}

/// Reads an LDAPString (RFC 4511 section 4.1.2).
#[inline]
pub(crate) fn string<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeErrorKind> {
    text(reader.octet_string()?)
}

/// Returns octets as text. The octets were checked when the message was decoded. The check is repeated, at a cost of a
/// few nanoseconds, because omitting it would need unsafe code.
#[inline]
pub(crate) fn checked_text(content: &[u8]) -> &str {
    std::str::from_utf8(content).unwrap_or_default()
}

/// Remaining count of one of the [`DecodeLimits`] while a message is checked.
pub(crate) struct Budget {
    limit: Limit,
    max: usize,
    left: usize,
}

impl Budget {
    pub(crate) fn new(limit: Limit, max: usize) -> Budget {
        Budget { limit, max, left: max }
    }

    pub(crate) fn elements(limits: &DecodeLimits) -> Budget {
        Budget::new(Limit::ElementCount, limits.element_count_max)
    }

    pub(crate) fn values(limits: &DecodeLimits) -> Budget {
        Budget::new(Limit::ValueCount, limits.value_count_max)
    }

    pub(crate) fn take(&mut self, component: &'static str) -> Body<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(BodyError::limit(component, self.limit, self.max)),
        }
    }
}
