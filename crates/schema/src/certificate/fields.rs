//! Fields of certificates and of assertions about them.

use ber::{Reader, Tag};

use super::BAD_OID;
use crate::{Fault, gser, oid, time};

pub(super) const OID: Tag = Tag(0x06);
pub(super) const UTC_TIME: Tag = Tag(0x17);
pub(super) const GENERALIZED_TIME: Tag = Tag(0x18);

/// Takes a part of a key. The length of the part, in four octets, precedes the part.
pub(super) fn take_part<'k>(key: &mut &'k [u8]) -> Option<&'k [u8]> {
    let (size, rest) = key.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
    *key = rest;
    Some(part)
}

/// Returns the key of a GeneralizedTime in an assertion.
pub(super) fn generalized(value: &str) -> Result<Vec<u8>, Fault> {
    let mut key = Vec::new();
    time::generalized_key(gser::quoted(value)?.as_bytes(), &mut key)?;
    Ok(key)
}

/// Returns the DER content of an OID in an assertion.
pub(super) fn oid_content(value: &str) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    if oid::encode_oid(value, &mut content) { Ok(content) } else { Err(BAD_OID) }
}

/// Returns the key of the next field, a time.
pub(super) fn time_of_der(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let (tag, content) = reader.any().ok()?;
    let mut key = Vec::new();
    match tag {
        UTC_TIME => time::utc_key(content, &mut key).ok()?,
        GENERALIZED_TIME => time::generalized_key(content, &mut key).ok()?,
        _ => return None,
    }
    Some(key)
}
