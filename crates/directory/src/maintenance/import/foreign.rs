//! Replication state in dumps of 389 DS, and attributes that the schema defines but an import ignores. See
//! [`super::vendor`] for attributes of other servers.

use ldap::ldif::LdifValues;

/// Prefixes of options of 389 DS. Such an option contains the number of the change that added or deleted a value, or
/// made the value part of the RDN. The number of 20 hexadecimal digits follows the prefix.
const STATE: [&str; 4] = ["vucsn-", "vdcsn-", "adcsn-", "mdcsn-"];

/// Options of 389 DS for a deleted value and for a deleted attribute.
const DELETED: [&str; 2] = ["deleted", "deletedattribute"];

/// Number of hexadecimal digits in a change number.
const CHANGE_DIGITS: usize = 20;

/// Object class of a deleted entry of 389 DS.
const TOMBSTONE: &[u8] = b"nsTombstone";

/// OIDs of operational attributes that the schema defines and an import ignores: entryTtl and dynamicSubtrees (RFC
/// 2589).
const WITHOUT_EFFECT: [&str; 2] = ["1.3.6.1.4.1.1466.101.119.3", "1.3.6.1.4.1.1466.101.119.4"];

/// Replication state in the options of an attribute description.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No replication state.
    None,
    /// The values exist. Contains the description without the options of replication state.
    Present(String),
    /// The values are deleted.
    Deleted,
}

/// Removes the options of 389 DS's replication state from an attribute description.
pub(super) fn without_state(text: &str) -> State {
    let is_state = |option: &&str| {
        STATE.iter().any(|prefix| {
            let number = option.get(prefix.len()..).unwrap_or_default();
            option.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
                && number.len() == CHANGE_DIGITS
                && number.bytes().all(|octet| octet.is_ascii_hexdigit())
        })
    };
    let is_deleted = |option: &&str| DELETED.iter().any(|known| option.eq_ignore_ascii_case(known));
    let mut options = text.split(';').skip(1);
    if !options.clone().any(|option| is_state(&option)) {
        return State::None;
    }
    if options.any(|option| is_deleted(&option)) {
        return State::Deleted;
    }
    let remaining: Vec<&str> = text.split(';').filter(|option| !is_state(option)).collect();
    State::Present(remaining.join(";"))
}

/// Removes the option `range=FIRST-LAST` from a description. Active Directory uses this option to return large
/// attributes in ranges. The flag is true for the last range (`range=1500-*`). Returns `None` if the description has
/// no such option.
pub(super) fn without_range(text: &str) -> Option<(String, bool)> {
    let range = |option: &str| {
        let (name, range) = option.split_once('=')?;
        let (first, last) = range.split_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
        let is_range = name.eq_ignore_ascii_case("range") && is_number(first);
        (is_range && (last == "*" || is_number(last))).then_some(last == "*")
    };
    let is_last = text.split(';').skip(1).find_map(range)?;
    let remaining: Vec<&str> = text.split(';').filter(|option| range(option).is_none()).collect();
    Some((remaining.join(";"), is_last))
}

/// Returns true if an import ignores values of the attribute type with this OID.
pub(super) fn has_no_effect(oid: &str) -> bool {
    WITHOUT_EFFECT.contains(&oid)
}

/// Returns true if the entry is a tombstone of 389 DS, which keeps deleted entries for replication.
pub(super) fn is_deleted(values: LdifValues<'_>) -> bool {
    values.iter().any(|value| is_tombstone(value.description, value.value))
}

/// Returns true if a value marks a tombstone of 389 DS.
pub(super) fn is_tombstone(description: &str, value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(TOMBSTONE)
        && description.split(';').next().is_some_and(|name| name.eq_ignore_ascii_case("objectClass"))
        && without_state(description) != State::Deleted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_range_options() {
        for (text, expected) in [
            ("member", None),
            ("member;range", None),
            ("member;range=x-*", None),
            ("member;range=0-", None),
            ("member;range=0-1499", Some(("member", false))),
            ("member;Range=1500-*;binary", Some(("member;binary", true))),
        ] {
            let expected = expected.map(|(plain, is_last)| (plain.to_owned(), is_last));
            assert_eq!(without_range(text), expected, "{text}");
        }
    }

    #[test]
    fn removes_replication_state() {
        let present = |text: &str| State::Present(text.to_owned());
        for (text, expected) in [
            ("title", State::None),
            ("title;lang-de", State::None),
            ("title;deleted", State::None),
            ("title;vucsn-5b0f", State::None),
            ("title;vucsn-5b0f8a5d00000001000x", State::None),
            ("title;vucsn-5b0f8a5e000000010000", present("title")),
            ("cn;lang-de;VUCSN-5B0F8A5E000000010000;mdcsn-5b0f8a5e000000010000", present("cn;lang-de")),
            ("userCertificate;adcsn-5b0f8a5e000000010000;binary", present("userCertificate;binary")),
            ("title;vucsn-5b0f8a5d000000010000;vdcsn-5b0f8a5e000000010000;deleted", State::Deleted),
            (
                "l;adcsn-5b0f8a5f000000010000;vdcsn-5b0f8a5f000000010000;deletedattribute;deleted",
                State::Deleted,
            ),
        ] {
            assert_eq!(without_state(text), expected, "{text}");
        }
    }
}
