//! LDIF, the text form of entries and changes (RFC 2849).
//!
//! [`LdifReader`] streams records from any `BufRead`. The reader holds one record at a time, in buffers that it reuses,
//! so it does not allocate memory for each of millions of entries. A record borrows these buffers; callers copy the
//! parts that they need later. [`LdifWriter`] writes records, folded at 76 columns, with base64 if RFC 2849 requires
//! it.
//!
//! The reader is strict about structure and lenient about deviations common in practice: raw UTF-8, a missing
//! `version`, names in any case. Values given by URL (`attr:< file:///...`) are refused with a specific error, because
//! a directory server must not read a file only because a text names it.

mod error;
mod reader;
mod record;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{LdifError, LdifErrorKind};
pub use reader::LdifReader;
pub use record::{
    LdifBody, LdifControls, LdifModification, LdifModifications, LdifRecord, LdifValue, LdifValues,
};
pub use writer::{LdifWriter, put_ldif_line};
