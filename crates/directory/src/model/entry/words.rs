//! Frequent values and lists of values. An entry row represents each such value or list by one octet.
//!
//! The octets are part of the row format. A word or a list never changes its place, and new words and lists are
//! appended.

use ber::Tag;

use super::{InlineValue, REFERENCE_TAG};

/// Octet of the first word. The tag of an OCTET STRING is lower than this octet.
const FIRST_WORD: u8 = 0x05;

/// Octet of the first list. The tag of a reference is lower than this octet.
const FIRST_LIST: u8 = 0x81;

/// Encodes words as OCTET STRINGs.
macro_rules! octet_strings {
    ($($word:literal)*) => { [$({ const WORD: &[u8] = &octet_string::<{ $word.len() + HEAD }>($word); WORD }),*] };
}

/// Size of the tag and the length of a word.
const HEAD: usize = 2;

/// Object classes of the shipped schema, values of booleans, and the default administrator, who creates most entries.
/// They are encoded as OCTET STRINGs, so that a search result can copy them.
static WORDS: [&[u8]; 91] = octet_strings! {
    "top" "person" "organizationalPerson" "inetOrgPerson" "organizationalUnit" "groupOfNames"
    "groupOfUniqueNames" "organization" "domain" "dcObject" "posixAccount" "shadowAccount" "posixGroup"
    "account" "simpleSecurityObject" "organizationalRole" "device" "locality" "country" "uidObject"
    "extensibleObject" "ldapPublicKey" "alias" "referral" "subentry" "dynamicObject" "groupOfURLs"
    "groupOfMembers" "pwdPolicy" "pwdPolicyChecker" "pandoPwdPolicy" "pandoScimResource" "eduPerson"
    "sudoRole" "cn=admin" "TRUE" "FALSE" "residentialPerson" "applicationProcess" "applicationEntity"
    "labeledURIObject" "document" "documentSeries" "domainRelatedObject" "friendlyCountry" "rFC822localPart"
    "room" "pilotPerson" "dNSDomain" "ipService" "ipProtocol" "oncRpc" "ipHost" "ipNetwork" "nisNetgroup"
    "nisMap" "nisObject" "ieee802Device" "bootableDevice" "nisKeyObject" "nisDomainObject" "automountMap"
    "automount" "collectiveAttributeSubentry" "pkiUser" "pkiCA" "cRLDistributionPoint" "deltaCRL"
    "strongAuthenticationUser" "userSecurityInformation" "certificationAuthority" "inetLocalMailRecipient"
    "nisMailAlias" "authPasswordObject" "sambaSamAccount" "sambaGroupMapping" "sambaDomain" "sambaIdmapEntry"
    "krbContainer" "krbRealmContainer" "krbService" "krbPrincipalAux" "krbPrincipal" "krbTicketPolicyAux"
    "krbTicketPolicy" "krbPwdPolicy" "user" "contact" "computer" "group" "container"
};

/// Lists of object classes with which the objectClass values of many entries begin, encoded as OCTET STRINGs. If one
/// list is the beginning of another, the longer list comes first.
static LISTS: [&[u8]; 10] = [
    b"\x04\x03top\x04\x06person\x04\x14organizationalPerson\x04\x0dinetOrgPerson\x04\x0cposixAccount",
    b"\x04\x03top\x04\x06person\x04\x14organizationalPerson\x04\x0dinetOrgPerson",
    b"\x04\x03top\x04\x06person\x04\x14organizationalPerson\x04\x04user",
    b"\x04\x03top\x04\x06person\x04\x14organizationalPerson",
    b"\x04\x0dinetOrgPerson\x04\x14organizationalPerson\x04\x06person\x04\x03top",
    b"\x04\x06person\x04\x14organizationalPerson\x04\x0dinetOrgPerson",
    b"\x04\x0dinetOrgPerson\x04\x0cposixAccount\x04\x0dshadowAccount",
    b"\x04\x03top\x04\x0cgroupOfNames",
    b"\x04\x03top\x04\x12groupOfUniqueNames",
    b"\x04\x03top\x04\x12organizationalUnit",
];

const _: () = assert!(WORDS.len() <= (REFERENCE_TAG - FIRST_WORD) as usize);
const _: () = assert!(LISTS.len() <= (0xff - FIRST_LIST) as usize);

/// Returns the values that an octet represents, as OCTET STRINGs; `None` if the octet represents no value.
#[inline]
pub(super) fn values_of(octet: u8) -> Option<&'static [u8]> {
    let values = match octet.checked_sub(FIRST_LIST) {
        Some(place) => LISTS.get(usize::from(place)),
        None => WORDS.get(usize::from(octet.checked_sub(FIRST_WORD)?)),
    };
    values.copied()
}

/// Returns the octet of a value; `None` if the value is not a word.
#[inline]
pub(super) fn octet_of(value: &[u8]) -> Option<u8> {
    let mut slot = hash(value)?;
    loop {
        let place = TABLE.get(slot).copied().filter(|place| *place != FREE)?;
        if WORDS.get(usize::from(place)).and_then(|word| word.get(HEAD..)) == Some(value) {
            return Some(place + FIRST_WORD);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Returns the octet of the longest list with which the values begin, and the number of values in the list.
pub(super) fn list_of(values: &[InlineValue<'_>]) -> Option<(u8, usize)> {
    let begins = |list: &[u8]| {
        let (mut rest, mut values, mut count) = (list, values.iter(), 0);
        while let [_, len, after @ ..] = rest {
            let (word, after) = after.split_at_checked(usize::from(*len))?;
            if values.next()?.here()? != word {
                return None;
            }
            (rest, count) = (after, count + 1);
        }
        Some(count)
    };
    (FIRST_LIST..).zip(LISTS).find_map(|(octet, list)| Some((octet, begins(list)?)))
}

/// Number of slots in the hash table of words. Most slots are free. The lookup of a value that is not a word therefore
/// usually ends without a comparison.
const SLOTS: usize = 512;

/// Mark of a slot without a word.
const FREE: u8 = u8::MAX;

/// Places of the words in `WORDS`, by the hash of the word.
static TABLE: [u8; SLOTS] = table();

/// Returns the slot of a value; `None` if the value is too short or too long for a word.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the length was compared")]
const fn hash(value: &[u8]) -> Option<usize> {
    let len = value.len();
    if len < WORD_LEN_MIN || len > WORD_LEN_MAX {
        return None;
    }
    let (first, middle, last) = (value[0] as usize, value[len / 2] as usize, value[len - 1] as usize);
    Some((first * 31 + middle * 89 + last * 7 + len * 61) % SLOTS)
}

const WORD_LEN_MIN: usize = 3;
const WORD_LEN_MAX: usize = 27;

#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "evaluated by the compiler")]
const fn octet_string<const SIZE: usize>(word: &str) -> [u8; SIZE] {
    let (mut encoded, mut place) = ([0; SIZE], 0);
    encoded[0] = Tag::OCTET_STRING.0;
    encoded[1] = word.len() as u8;
    while place < word.len() {
        encoded[HEAD + place] = word.as_bytes()[place];
        place += 1;
    }
    encoded
}

#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "evaluated by the compiler")]
const fn table() -> [u8; SLOTS] {
    let mut table = [FREE; SLOTS];
    let mut place = 0;
    while place < WORDS.len() {
        let Some(mut slot) = hash(WORDS[place].split_at(HEAD).1) else {
            panic!("a word is too short or too long")
        };
        while table[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = place as u8;
        place += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|word| {
            assert_eq!(word[..HEAD], [0x04, (word.len() - HEAD) as u8]);
            std::str::from_utf8(&word[HEAD..]).unwrap()
        })
    }

    #[test]
    fn words_are_found_by_their_octets() {
        for (octet, word) in (FIRST_WORD..).zip(words()) {
            assert_eq!(octet_of(word.as_bytes()), Some(octet), "{word}");
            assert_eq!(values_of(octet).map(|values| &values[HEAD..]), Some(word.as_bytes()));
            assert_eq!(octet_of(word.to_uppercase().as_bytes()).is_some(), word.to_uppercase() == word);
        }
        for other in ["", "to", "tops", "Top", "persom", "x".repeat(300).as_str()] {
            assert_eq!(octet_of(other.as_bytes()), None, "{other}");
        }
        let is_known = |octet: &u8| values_of(*octet).is_some();
        assert_eq!((0..=u8::MAX).filter(is_known).count(), WORDS.len() + LISTS.len());
        assert!(![0, 4, REFERENCE_TAG].iter().any(is_known));
    }

    /// Stored rows contain these octets, so an octet must never get other values.
    #[test]
    fn octets_keep_their_values() {
        let kept = [(0x05, "top"), (0x27, "cn=admin"), (0x28, "TRUE"), (0x5b, "user"), (0x5f, "container")];
        for (octet, word) in kept {
            assert_eq!(values_of(octet).map(|values| &values[HEAD..]), Some(word.as_bytes()), "{octet:#x}");
        }
        let all = words().collect::<Vec<_>>().join(" ");
        assert_eq!(crc32c::crc32c(all.as_bytes()), 4_217_604_848, "words");
        assert_eq!(crc32c::crc32c(&LISTS.concat()), 1_260_625_224, "lists");
    }

    #[test]
    fn the_longest_list_is_found() {
        for (octet, list) in (FIRST_LIST..).zip(LISTS) {
            let mut values = Vec::new();
            let mut reader = ber::Reader::new(list);
            while let Ok(value) = reader.octet_string() {
                assert!(octet_of(value).is_some());
                values.push(InlineValue::Here(value));
            }
            assert_eq!(list_of(&values), Some((octet, values.len())));
            let count = values.len();
            values.push(InlineValue::Here(b"other"));
            assert_eq!(list_of(&values), Some((octet, count)));
            values.truncate(1);
            assert_eq!(list_of(&values), None);
        }
    }
}
