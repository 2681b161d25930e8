//! Keys of attribute types in the keys of names; [`crate::name_key`] describes the format.

use crate::oid;

pub(crate) const TEXT_TYPE: u8 = 0xfe;

/// Appends the key of a type: its OID if it has one, otherwise its text.
pub(crate) fn write_type(name_or_oid: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(TEXT_TYPE);
    if oid::encode_oid(oid::without_oid_prefix(name_or_oid), out) {
        // The size fits in one octet, because it is at most OID_KEY_SIZE_MAX.
        let [.., size] = (out.len() - start - 1).to_be_bytes();
        if let Some(head) = out.get_mut(start) {
            *head = size;
        }
    } else {
        out.extend(name_or_oid.bytes().map(|byte| byte.to_ascii_lowercase()));
        out.push(b'=');
    }
}

/// Returns the BER content of the OID in a key that [`write_type`] wrote, if it contains one.
pub(crate) fn oid_of_type(type_key: &[u8]) -> Option<&[u8]> {
    type_key.split_first().filter(|(first, _)| **first != TEXT_TYPE).map(|(_, content)| content)
}
