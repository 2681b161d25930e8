//! The subset of BER that LDAP uses: X.690 with the restrictions of RFC 4511 section 5.1.
//!
//! LDAP allows only definite lengths and only primitive OCTET STRINGs, and all its tags fit one octet. So an element is
//! always `tag, length, content` and can be returned as a slice of the input. [`Reader`] reads such slices: it borrows,
//! never allocates, never recurses, and returns every error as a value. [`Writer`] and the `put_*` functions append to
//! a `Vec<u8>`; callers that know their sizes beforehand (`*_len`) encode in one pass without moving a byte.
//! [`read_frame_len`] returns the length of a message from its first few octets.
//!
//! Omitted on purpose: indefinite lengths, tag numbers above 30, constructed strings, REAL, OBJECT IDENTIFIER and every
//! other type that LDAP carries as text. The caller limits the size of messages; this crate only guarantees that it
//! never reads past the given slice.
#![forbid(unsafe_code)]
// All of this crate processes octets that peers sent, so no cast may lose bits and no index may panic.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]

mod error;
mod frame;
mod reader;
mod tag;
mod writer;

pub use error::BerError;
pub use frame::read_frame_len;
pub use reader::{Reader, integer_content};
pub use tag::Tag;
pub use writer::{
    Mark, Writer, element_len, header_len, integer_len, put_boolean, put_element, put_header, put_integer,
    put_integer_content, set_content_len,
};

/// Maximum length of an element's content: 2^31 - 1 octets, LDAP's `maxInt`. The reader of headers refuses larger
/// lengths, so arithmetic on lengths cannot overflow, even on 32-bit machines.
pub const CONTENT_LEN_MAX: usize = 0x7fff_ffff;
