//! Keys of distinguished names.
//!
//! The key of a DN consists of the keys of its RDNs, **root first**. Each RDN's key marks its own end, and no RDN's key
//! is a prefix of another RDN's key. The key of a DN is therefore a prefix of the keys of all DNs below this DN, and of
//! no other DN's key.
//!
//! ```text
//! rdn   = ava *( 01 ava ) 00                 AVAs sorted by their bytes, so their order in the text is irrelevant
//! ava   = type value
//! type  = length oid                         BER content of the type's OID; length is 1..=64
//!       / FE text '='                        type that is neither known nor numeric, in lower case
//!       / FD type                            the value that follows is not normalized
//! value = octets                             the equality rule's key; 00, 01, 02 written as 02 10, 02 11, 02 12
//! ```
//!
//! There are two levels of strictness. The name of an entry ([`Strictness::Entry`]) must be correct: known types with
//! an equality rule, valid values, no type twice in an RDN. A name in a *value* ([`Strictness::Value`], such as a
//! `member` or an issuer) may have types that the schema does not define; a value without a rule, or invalid under it,
//! is compared by its octets. If a name has a key at the first level, it has the same key at the second level, so
//! values match the entries that they name.

use ldap::{Ava, Dn, Rdn};

use crate::rule_table::Relation;
use crate::type_key::{TEXT_TYPE, write_type};
use crate::{Fault, NameError, Schema, TypeId, ValueError};

/// Maximum depth of names inside values of names (`member=cn\=x`). A name at a greater depth is compared by its octets,
/// so that a hostile name cannot overflow the stack.
pub(crate) const NAME_DEPTH_MAX: u32 = 4;

const RAW_VALUE: u8 = 0xfd;
const AVA_SEPARATOR: u8 = 0x01;
const RDN_END: u8 = 0x00;
const ESCAPE: u8 = 0x02;

/// Returns true if the name with the key `key` has this relation to the name with the key `other`.
pub(crate) fn is_related(relation: Relation, key: &[u8], other: &[u8]) -> bool {
    match relation {
        Relation::Subtree => key.starts_with(other),
        Relation::Subordinate => key.starts_with(other) && key.len() > other.len(),
        Relation::Superior => is_related(Relation::Subordinate, other, key),
        Relation::OneLevel => {
            key.strip_prefix(other).is_some_and(|below| first_rdn_len(below) == Some(below.len()))
        }
    }
}

/// Returns the length of the first RDN's key in the key of a DN; `None` for the empty DN.
fn first_rdn_len(key: &[u8]) -> Option<usize> {
    let mut rest = key;
    loop {
        rest = rest.strip_prefix(&[RAW_VALUE]).unwrap_or(rest);
        let type_len = match *rest.first()? {
            TEXT_TYPE => rest.iter().position(|octet| *octet == b'=')? + 1,
            oid_len => usize::from(oid_len) + 1,
        };
        // Skip the OID of the type, which may contain an octet like a delimiter. The value is escaped and contains no
        // delimiter.
        let value = rest.get(type_len..)?;
        let end = value.iter().position(|octet| matches!(*octet, AVA_SEPARATOR | RDN_END))?;
        rest = value.get(end + 1..)?;
        if value.get(end) == Some(&RDN_END) {
            return Some(key.len() - rest.len());
        }
    }
}

/// Treatment of types that the schema does not define, and of values without a normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// For DNs of entries: such types and values are errors.
    Entry,
    /// For DNs in values: such types and values are compared by their octets.
    Value,
}

/// Appends the key of a DN that is a value and is inside `depth` other names.
pub(crate) fn value_key(schema: &Schema, text: &str, depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    if depth >= NAME_DEPTH_MAX {
        return Err(Fault::OutOfRange { what: "the nesting of names" });
    }
    let dn = Dn::parse(text).map_err(|error| Fault::Name(error.to_string()))?;
    dn_key(schema, &dn, Strictness::Value, depth, out).map_err(|error| Fault::Name(error.to_string()))
}

/// Appends the key of a DN. After an error, the caller must remove what was appended to `out`.
pub(crate) fn dn_key(
    schema: &Schema,
    dn: &Dn<'_>,
    strictness: Strictness,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), NameError> {
    dn.rdns().rev().try_for_each(|rdn| rdn_key(schema, &rdn, strictness, depth, out))
}

/// Appends the key of one RDN.
pub(crate) fn rdn_key(
    schema: &Schema,
    rdn: &Rdn<'_, '_>,
    strictness: Strictness,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), NameError> {
    if let [ava] = rdn.avas {
        ava_key(schema, ava, strictness, depth, out)?;
        out.push(RDN_END);
        return Ok(());
    }
    let mut keys = Vec::with_capacity(rdn.avas.len());
    let mut types: Vec<TypeId> = Vec::with_capacity(rdn.avas.len());
    for ava in rdn.avas {
        let mut key = Vec::new();
        if let Some(id) = ava_key(schema, ava, strictness, depth, &mut key)? {
            if strictness == Strictness::Entry && types.contains(&id) {
                return Err(NameError::RepeatedType(schema.type_by_id(id).name().to_owned()));
            }
            types.push(id);
        }
        keys.push(key);
    }
    write_rdn(keys, out);
    Ok(())
}

/// Appends the key of an RDN with these AVAs, given by their keys.
pub(crate) fn write_rdn(mut ava_keys: Vec<Vec<u8>>, out: &mut Vec<u8>) {
    ava_keys.sort_unstable();
    for (index, key) in ava_keys.iter().enumerate() {
        if index > 0 {
            out.push(AVA_SEPARATOR);
        }
        out.extend_from_slice(key);
    }
    out.push(RDN_END);
}

fn ava_key(
    schema: &Schema,
    ava: &Ava<'_>,
    strictness: Strictness,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<Option<TypeId>, NameError> {
    match strictness {
        Strictness::Entry => strict_ava_key(schema, ava.attribute, &ava.value, depth, out).map(Some),
        Strictness::Value => Ok(lenient_ava_key(schema, ava.attribute, &ava.value, depth, out)),
    }
}

fn strict_ava_key(
    schema: &Schema,
    attribute: &str,
    value: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<TypeId, NameError> {
    let Some(attribute_type) = schema.attribute_type(attribute) else {
        return Err(NameError::UnknownType(attribute.to_owned()));
    };
    let name = attribute_type.name();
    let Some(rule) = attribute_type.equality else {
        return Err(NameError::NoEquality(name.to_owned()));
    };
    out.extend_from_slice(&attribute_type.type_key);
    let start = out.len();
    rule.key_at(schema, value, depth + 1, out)
        .map_err(|error: ValueError| NameError::BadValue { attribute: name.to_owned(), error })?;
    escape_from(start, out);
    Ok(attribute_type.id)
}

/// Appends the key of an AVA, whether or not the schema defines its type. Returns the type if it is known.
pub(crate) fn lenient_ava_key(
    schema: &Schema,
    attribute: &str,
    value: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Option<TypeId> {
    let begin = out.len();
    if let Ok(id) = strict_ava_key(schema, attribute, value, depth, out) {
        return Some(id);
    }
    out.truncate(begin);
    out.push(RAW_VALUE);
    let known = schema.attribute_type(attribute);
    match known {
        Some(attribute_type) => out.extend_from_slice(&attribute_type.type_key),
        None => write_type(attribute, out),
    }
    let start = out.len();
    out.extend_from_slice(value);
    escape_from(start, out);
    known.map(|attribute_type| attribute_type.id)
}

/// Escapes the octets that delimit keys in everything appended from `start` on. The keys of text values contain no such
/// octets.
fn escape_from(start: usize, out: &mut Vec<u8>) {
    if out.iter().skip(start).all(|&byte| byte > ESCAPE) {
        return;
    }
    let value = out.split_off(start);
    for byte in value {
        if byte <= ESCAPE {
            out.extend_from_slice(&[ESCAPE, 0x10 + byte]);
        } else {
            out.push(byte);
        }
    }
}

impl Schema {
    /// Appends the key of an entry's RDN. The key does not depend on the order of AVAs, on the choice between the names
    /// of a type, or on differences in case and spaces that the matching rules ignore. [`Self::normalize_dn`] uses the
    /// same key for the RDN.
    ///
    /// # Errors
    /// A type is unknown, cannot name entries or occurs twice, or its rule refuses the value. `out` is then unchanged.
    pub fn normalize_rdn(&self, rdn: &Rdn<'_, '_>, out: &mut Vec<u8>) -> Result<(), NameError> {
        restoring(out, |out| rdn_key(self, rdn, Strictness::Entry, 0, out))
    }

    /// Appends the key of an entry's DN, **root first**: a prefix of the keys of all DNs below it, and of no other
    /// keys.
    ///
    /// # Errors
    /// The errors of [`Self::normalize_rdn`].
    pub fn normalize_dn(&self, dn: &Dn<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
        restoring(out, |out| dn_key(self, dn, Strictness::Entry, 0, out))
    }
}

/// Runs `write`. If `write` fails, removes the octets that it appended.
fn restoring(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), NameError>,
) -> Result<(), NameError> {
    let start = out.len();
    write(out).inspect_err(|_| out.truncate(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        value_key(&Schema::shipped(), text, 0, &mut out).unwrap();
        out
    }

    fn entry(text: &str) -> Result<Vec<u8>, NameError> {
        let mut out = Vec::new();
        let dn = Dn::parse(text).unwrap();
        dn_key(&Schema::shipped(), &dn, Strictness::Entry, 0, &mut out).map(|()| out)
    }

    #[test]
    fn spellings_of_one_name_have_one_key() {
        for group in [
            &["uid=jsmith,dc=example,dc=com", "UID = JSmith , DC=Example,0.9.2342.19200300.100.1.25=COM"][..],
            &["uid=a,dc=b", "oid.0.9.2342.19200300.100.1.1=A,domainComponent=b", "userid=a;dc=b"],
            &[
                "ou=Sales+cn=J. Smith,dc=x",
                "CN=j.  smith+OU=sales,dc=x",
                "2.5.4.11=sales+2.5.4.3=J. SMITH,dc=x",
            ],
            &["cn=Lu\\C4\\8Di\\C4\\87", "cn=Lučić", "cn=LUC\u{30C}IC\u{301}"],
            &["cn=#04024869", "cn=hi"],
            &["cn=a\\,b", "cn=a\\2cb", "cn=A\\2Cb"],
            &["", ""],
            &["unknown=X,dc=a", "UNKNOWN=X,DC=A"],
            &["1.2.3.4=X,dc=a", "oid.1.2.3.4=X,DC=A"],
            &["member=cn\\=A\\,dc\\=b,dc=x", "member=CN\\=a\\, DC\\=B,dc=x"],
        ] {
            for text in group {
                assert_eq!(value(text), value(group[0]), "{text} {}", group[0]);
            }
        }
        for (one, other) in [
            ("cn=a,dc=b", "cn=a+dc=b"),
            ("cn=a", "sn=a"),
            ("unknown=x", "unknown=X"),
            ("userPassword=a\\00", "userPassword=a\\02\\10"),
            ("dc=a,dc=b", "dc=b,dc=a"),
        ] {
            assert_ne!(value(one), value(other), "{one} {other}");
        }
    }

    #[test]
    fn a_key_is_a_prefix_of_the_keys_of_descendants_only() {
        let names = [
            "",
            "dc=a",
            "dc=ab",
            "cn=x,dc=a",
            "cn=x+sn=y,dc=a",
            "cn=xy,dc=a",
            "sn=y,cn=x,dc=a",
            "userPassword=\\01,dc=a",
            "userPassword=\\00,dc=a",
            "userPassword=\\00x,dc=a",
            "mystery=x,dc=a",
            "mystery=xy,dc=a",
            "cn=leaf,mystery=x,dc=a",
        ];
        for above in names {
            for below in names {
                let (upper, lower) = (Dn::parse(above).unwrap(), Dn::parse(below).unwrap());
                let skipped = lower.len().saturating_sub(upper.len());
                let inside = lower.len() >= upper.len()
                    && lower
                        .rdns()
                        .skip(skipped)
                        .zip(upper.rdns())
                        .all(|(one, other)| one.text == other.text);
                assert_eq!(value(below).starts_with(&value(above)), inside, "{above} / {below}");
            }
        }
    }

    #[test]
    fn invalid_names_of_entries_are_refused() {
        assert_eq!(entry("unknown=x,dc=a"), Err(NameError::UnknownType("unknown".into())));
        assert_eq!(entry("jpegPhoto=x"), Err(NameError::NoEquality("jpegPhoto".into())));
        assert_eq!(entry("cn=x+CommonName=y"), Err(NameError::RepeatedType("cn".into())));
        assert!(matches!(entry("createTimestamp=soon"), Err(NameError::BadValue { attribute, .. })
            if attribute == "createTimestamp"));
        for text in ["cn=a,dc=b", "sn=a+cn=b,dc=c", "seeAlso=cn\\=x,dc=b", ""] {
            assert_eq!(entry(text), Ok(value(text)), "{text}");
        }
    }

    /// Nested names must not recurse without limit: a request of a megabyte could overflow the stack.
    #[test]
    fn nesting_is_bounded() {
        let deep = "member=".repeat(100_000) + "x";
        assert_eq!(entry(&deep), Ok(value(&deep)));
    }
}
