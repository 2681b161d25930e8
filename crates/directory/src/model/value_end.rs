//! End times of values of link attributes. The writer removes a value when its end time has passed.
//!
//! The value itself is an ordinary link or text. Its end time is a row of [`ENDS`], with the key source, attribute and
//! value. One or two rows of [`DUE`] repeat the end time. The writer finds ended values by the key `t`, time, source,
//! attribute and value. For a link, the key `l`, target, attribute and source finds the end times of the target's
//! memberships. Times are whole seconds since 1970.
//!
//! [`ENDS`]: crate::model::rows::ENDS
//! [`DUE`]: crate::model::rows::DUE

use std::iter;

use crate::model::csn::{generalized_time, unix_seconds};
use crate::model::limits::NAME_KEY_MAX;
use crate::model::rows::{AttrId, EntryId, link_key, shorten, split_link_key};

/// First byte of the keys of `due` that begin with a time.
pub(crate) const KIND_TIME: u8 = b't';

/// First byte of the keys of `due` that begin with the target of a link.
pub(crate) const KIND_TARGET: u8 = b'l';

/// Kind of a value in a key: a link.
const LINK: u8 = 1;

/// Kind of a value in a key: text.
const TEXT: u8 = 2;

/// Prefix of the attribute option that gives values an end time: `member;x-until-20270101000000Z`.
pub(crate) const OPTION: &str = "x-until-";

/// Text after the prefix of the option, for values without an end time.
const NEVER: &str = "never";

/// A value of a link attribute that may have an end time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndingValue<'v> {
    /// A link to this entry.
    Link(EntryId),
    /// Text of a dangling link, in normal form.
    Text(&'v [u8]),
}

impl EndingValue<'_> {
    /// Returns the key of the value in `ends`.
    pub(crate) fn key(self, source: EntryId, attribute: AttrId) -> Vec<u8> {
        let mut key = link_key(source, attribute).to_vec();
        match self {
            EndingValue::Link(target) => {
                key.push(LINK);
                key.extend_from_slice(&target.0.to_be_bytes());
            }
            EndingValue::Text(normal) => {
                key.push(TEXT);
                shorten(normal, NAME_KEY_MAX, &mut key);
            }
        }
        key
    }
}

/// A decoded key of `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndKey<'k> {
    pub(crate) source: EntryId,
    pub(crate) attribute: AttrId,
    /// The value. A text is in the form that keys contain, in which a long normal form is shortened.
    pub(crate) value: EndingValue<'k>,
}

impl<'k> EndKey<'k> {
    /// Decodes a key; `None` if it is damaged.
    pub(crate) fn of(key: &'k [u8]) -> Option<EndKey<'k>> {
        let (source, attribute) = split_link_key(key)?;
        let (kind, rest) = key.get(12..)?.split_first()?;
        let value = match *kind {
            LINK => EndingValue::Link(EntryId(u64::from_be_bytes(rest.try_into().ok()?))),
            TEXT => EndingValue::Text(rest),
            _ => return None,
        };
        Some(EndKey { source, attribute, value })
    }
}

/// Returns the keys of `due` that repeat a key of `ends`: first the key by time, then, for a link, the key by target.
pub(crate) fn due_keys(key: &[u8], until: u64) -> impl Iterator<Item = Vec<u8>> {
    let by_time = [&[KIND_TIME][..], &until.to_be_bytes(), key].concat();
    let by_target = EndKey::of(key).and_then(|of| match of.value {
        EndingValue::Link(target) => Some(target_key(target, of.attribute, of.source)),
        EndingValue::Text(_) => None,
    });
    iter::once(by_time).chain(by_target)
}

fn target_key(target: EntryId, attribute: AttrId, source: EntryId) -> Vec<u8> {
    [&[KIND_TARGET][..], &link_key(target, attribute), &source.0.to_be_bytes()].concat()
}

/// Returns the common prefix of the keys of `due` for links to the entry `target`.
pub(crate) fn target_prefix(target: EntryId) -> [u8; 9] {
    let mut key = [KIND_TARGET; 9];
    key[1..].copy_from_slice(&target.0.to_be_bytes());
    key
}

/// Decodes the attribute and the source in a key of `due` that begins with a target.
pub(crate) fn split_target_key(key: &[u8]) -> Option<(AttrId, EntryId)> {
    let key = key.strip_prefix(&[KIND_TARGET])?;
    let (_, attribute) = split_link_key(key)?;
    Some((attribute, EntryId(u64::from_be_bytes(key.get(12..)?.try_into().ok()?))))
}

/// Decodes the time and the key of `ends` in a key of `due` that begins with a time.
pub(crate) fn split_time_key(key: &[u8]) -> Option<(u64, &[u8])> {
    let (until, key) = key.strip_prefix(&[KIND_TIME])?.split_first_chunk()?;
    Some((u64::from_be_bytes(*until), key))
}

/// Returns the end time in a row of `ends` or `due`.
pub(crate) fn read_until(row: &[u8]) -> Option<u64> {
    row.try_into().ok().map(u64::from_be_bytes)
}

/// Returns the end time in an attribute option, in seconds since 1970; 0 for no end. Returns `None` for another option.
///
/// # Errors
/// The text after `x-until-`, if it is neither a time nor `never`.
pub(crate) fn of_option(option: &str) -> Option<Result<u64, &str>> {
    let given = option.get(..OPTION.len()).filter(|head| head.eq_ignore_ascii_case(OPTION));
    let text = option.get(given?.len()..)?;
    if text.eq_ignore_ascii_case(NEVER) {
        return Some(Ok(0));
    }
    let until = unix_seconds(&text.to_ascii_uppercase()).filter(|until| *until > 0);
    // Refuses dates such as the 30th of February, which the parser accepts as another day.
    Some(until.filter(|until| generalized_time(*until).eq_ignore_ascii_case(text)).ok_or(text))
}

/// Returns an attribute's name with the option for an end time, such as `member;x-until-20270101000000Z`. `until` is 0
/// for no end.
pub fn name_with_end(name: &str, until: u64) -> String {
    match until {
        0 => format!("{name};{OPTION}{NEVER}"),
        _ => format!("{name};{OPTION}{}", generalized_time(until)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_decode_to_their_parts() {
        let (source, attribute) = (EntryId(7), AttrId(300));
        let link = EndingValue::Link(EntryId(9)).key(source, attribute);
        assert_eq!(
            EndKey::of(&link),
            Some(EndKey { source, attribute, value: EndingValue::Link(EntryId(9)) })
        );
        let [by_time, by_target] = due_keys(&link, 1_000).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(split_time_key(&by_time), Some((1_000, &link[..])));
        assert!(by_target.starts_with(&target_prefix(EntryId(9))));
        assert_eq!(split_target_key(&by_target), Some((attribute, source)));
        let long = vec![b'x'; 2 * NAME_KEY_MAX];
        let text = EndingValue::Text(&long).key(source, attribute);
        assert!(text.len() + 9 <= 511);
        assert!(matches!(EndKey::of(&text), Some(EndKey { value: EndingValue::Text(_), .. })));
        assert_eq!(due_keys(&text, 1).nth(1), None);
        assert_eq!((EndKey::of(&text[..12]), EndKey::of(&link[..20])), (None, None));
    }

    #[test]
    fn x_until_options_convert_to_seconds_and_back() {
        assert_eq!(of_option("lang-en"), None);
        assert_eq!(of_option("x-until"), None);
        assert_eq!(of_option("x-until-never"), Some(Ok(0)));
        assert_eq!(of_option("X-Until-20270101000000z"), Some(Ok(1_798_761_600)));
        for wrong in ["", "2027", "20270230000000Z", "20271301000000Z", "2027010100Z", "19700101000000Z"] {
            assert_eq!(of_option(&format!("x-until-{wrong}")), Some(Err(wrong)));
        }
        assert_eq!(name_with_end("member", 1_798_761_600), "member;x-until-20270101000000Z");
        assert_eq!(name_with_end("member", 0), "member;x-until-never");
    }
}
