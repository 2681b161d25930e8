//! LDIF, the text form of entries and changes (RFC 2849).
//!
//! [`LdifReader`] streams records from anything that is `BufRead`: it holds one record at a time, in buffers it reuses,
//! so millions of entries cost no allocation each. A record lends what it shows; copy what is to be kept.
//! [`LdifWriter`] writes records folded at 76 columns, in base64 where RFC 2849 calls for it.
//!
//! Reading is strict about structure and lenient about what files in the wild do: raw UTF-8, a missing `version`,
//! names in any case. Values given by URL (`attr:< file:///...`) are refused with an error that says so: a directory
//! server must not read whatever file a text names.

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
