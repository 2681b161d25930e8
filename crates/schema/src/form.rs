//! Normal forms: the ways in which values become keys. Several matching rules share each.

use crate::prepare::{Preparation, Spaces};
use crate::syntax_text::{bit_string, hex_digits, only, unescape_line};
use crate::{Fault, Schema, certificate, certificate_match, integer, name_key, oid, time};

/// Characters a text rule's values are limited to; other values make the rule Undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Alphabet {
    /// Any UTF-8.
    Unicode,
    /// IA5: ASCII.
    Ascii,
    /// Digits and spaces.
    Digits,
}

/// One way to make keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Prepared text (RFC 4518).
    Text(Preparation, Alphabet),
    /// Lines of a postal address, each prepared ignoring case, with a zero octet between them.
    List,
    /// See [`crate::integer`].
    Integer,
    /// One octet, 0 or 1.
    Boolean,
    /// The digits of a bit string.
    Bits,
    /// The value itself.
    Octets,
    /// Generalized Time; see [`crate::time`].
    Time,
    /// UTC Time; keys as [`Form::Time`].
    UtcTime,
    /// `06` and the BER content of the OID, or `0c` and the text of an unknown descriptor in lower case.
    ObjectIdentifier,
    /// A distinguished name; see [`crate::name_key`].
    Name,
    /// A distinguished name, then a zero octet and the bits if there is a UID. No RDN's key begins with a zero octet.
    NameAndUid,
    /// Sixteen octets.
    Uuid,
    /// See [`crate::time::csn_key`].
    Csn,
    /// The OID at the head of a definition, as [`Form::ObjectIdentifier`].
    OidFirst,
    /// The number at the head of a definition, as [`Form::Integer`].
    IntegerFirst,
    /// The string at the head of a parenthesised value (or a bare value), prepared ignoring case.
    TextFirst,
    /// Serial number and issuer of a certificate.
    Certificate,
    /// Both halves of a certificate pair.
    CertificatePair,
    /// Time and issuer of a revocation list.
    CertificateList,
    /// The whole certificate; see [`crate::certificate_match`].
    CertificateParts,
    /// Both whole certificates of a pair.
    CertificatePairParts,
    /// The whole revocation list.
    CertificateListParts,
    /// Algorithm and parameters.
    Algorithm,
    /// Scheme, information and value with a `$` between, without spaces around it (RFC 3112 section 2.2).
    AuthPassword,
}

/// The preparation of caseIgnoreMatch.
pub(crate) const IGNORE_CASE: Preparation = Preparation { fold: true, spaces: Spaces::Collapse };

impl Form {
    /// The form without what does not change keys.
    pub(crate) fn key_kind(self) -> Form {
        match self {
            Form::Text(preparation, _) => Form::Text(preparation, Alphabet::Unicode),
            Form::UtcTime => Form::Time,
            other => other,
        }
    }

    pub(crate) fn is_order_preserving(self) -> bool {
        matches!(
            self,
            Form::Text(..)
                | Form::Integer
                | Form::Boolean
                | Form::Octets
                | Form::Time
                | Form::UtcTime
                | Form::Uuid
                | Form::Csn
        )
    }

    /// Appends the key of a value. What is in `out` after an error is the caller's to remove.
    pub(crate) fn value_key(
        self,
        schema: &Schema,
        value: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match self {
            Form::Text(preparation, alphabet) => {
                check_alphabet(alphabet, value)?;
                preparation.value(value, out)
            }
            Form::List => list_key(value, out),
            Form::Integer => integer::key(value, out),
            Form::Boolean => boolean_key(value, out),
            Form::Bits => {
                out.extend_from_slice(bit_string(value)?);
                Ok(())
            }
            Form::Octets => {
                out.extend_from_slice(value);
                Ok(())
            }
            Form::Time => time::generalized_key(value, out),
            Form::UtcTime => time::utc_key(value, out),
            Form::ObjectIdentifier => identifier_key(schema, value, true, out),
            Form::Name => name_key::value_key(schema, text(value)?, depth, out),
            Form::NameAndUid => name_and_uid_key(schema, value, depth, out),
            Form::Uuid => uuid_key(value, out),
            Form::Csn => time::csn_key(value, out),
            Form::OidFirst => identifier_key(schema, first_component(value)?, true, out),
            Form::IntegerFirst => integer::key(first_component(value)?, out),
            Form::TextFirst => IGNORE_CASE.value(first_component(value).unwrap_or(value), out),
            Form::Certificate => certificate::certificate_key(schema, value, depth, out),
            Form::CertificatePair => certificate::pair_key(schema, value, depth, out),
            Form::CertificateList => certificate::list_key(schema, value, depth, out),
            Form::CertificateParts => certificate_match::certificate_key(schema, value, depth, out),
            Form::CertificatePairParts => certificate_match::pair_key(schema, value, depth, out),
            Form::CertificateListParts => certificate_match::list_key(schema, value, depth, out),
            Form::Algorithm => certificate::algorithm_key(value, out),
            Form::AuthPassword => auth_password_key(value, out),
        }
    }

    /// Appends the key of an assertion.
    pub(crate) fn assertion_key(self, schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            // Directory, telephone and numeric strings have a character at least (RFC 4517 section 3.3); IA5 strings
            // need none.
            Form::Text(_, Alphabet::Unicode | Alphabet::Digits) if value.is_empty() => Err(Fault::Empty),
            Form::ObjectIdentifier | Form::OidFirst => identifier_key(schema, value, false, out),
            Form::IntegerFirst => integer::key(value, out),
            Form::TextFirst => IGNORE_CASE.value(value, out),
            Form::Certificate => certificate::certificate_assertion_key(schema, value, out),
            Form::CertificatePair => certificate::pair_assertion_key(schema, value, out),
            Form::CertificateList => certificate::list_assertion_key(schema, value, out),
            Form::Algorithm => certificate::algorithm_assertion_key(value, out),
            other => other.value_key(schema, value, 0, out),
        }
    }
}

/// The value as text.
pub(crate) fn text(value: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(value).map_err(|error| Fault::NotUtf8 { offset: error.valid_up_to() })
}

/// Refuses values beyond the rule's alphabet.
pub(crate) fn check_alphabet(alphabet: Alphabet, value: &[u8]) -> Result<(), Fault> {
    match alphabet {
        Alphabet::Unicode => Ok(()),
        Alphabet::Ascii if value.is_ascii() => Ok(()),
        Alphabet::Ascii => only(value, 0, |byte| byte.is_ascii()),
        Alphabet::Digits => only(value, 0, |byte| byte == b' ' || byte.is_ascii_digit()),
    }
}

fn list_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    for (index, line) in value.split(|&byte| byte == b'$').enumerate() {
        if index > 0 {
            out.push(0);
        }
        if line.contains(&b'\\') {
            IGNORE_CASE.value(&unescape_line(line), out)?;
        } else {
            IGNORE_CASE.value(line, out)?;
        }
    }
    Ok(())
}

/// Checks a Boolean and appends its octet.
pub(crate) fn boolean_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let key = match value {
        b"TRUE" => 1,
        b"FALSE" => 0,
        _ => return Err(Fault::Expected { offset: 0, what: "TRUE or FALSE" }),
    };
    out.push(key);
    Ok(())
}

/// Checks a UUID in the form of RFC 4122 and appends its octets.
pub(crate) fn uuid_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if value.len() != 36 {
        return Err(Fault::Expected { offset: value.len().min(36), what: "36 characters" });
    }
    if let Some(&offset) = HYPHENS.iter().find(|&&offset| value.get(offset) != Some(&b'-')) {
        return Err(Fault::Expected { offset, what: "'-'" });
    }
    for (start, end) in [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)] {
        hex_digits(value, start, end, out)?;
    }
    Ok(())
}

fn name_and_uid_key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (name, uid) = split_name_and_uid(value);
    name_key::value_key(schema, text(name)?, depth, out)?;
    if let Some(uid) = uid {
        out.push(0);
        out.extend_from_slice(bit_string(uid)?);
    }
    Ok(())
}

/// Splits a Name And Optional UID (RFC 4517 section 3.3.21) into the DN and, without the `#`, the bit string if there
/// is one. A `#` that is not followed by a bit string belongs to the DN.
pub fn split_name_and_uid(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = value.rsplitn(2, |&byte| byte == b'#');
    match (parts.next(), parts.next()) {
        (Some(uid), Some(name)) if bit_string(uid).is_ok() => (name, Some(uid)),
        _ => (value, None),
    }
}

/// Appends the key of an OID or descriptor. A descriptor that the schema does not contain has a key only if `lenient`.
fn identifier_key(schema: &Schema, value: &[u8], lenient: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = oid::without_oid_prefix(text(value)?.trim_matches(' '));
    if name.is_empty() {
        return Err(Fault::Empty);
    }
    let start = out.len();
    out.push(0x06);
    if schema.encode_identifier(name, out) {
        return Ok(());
    }
    out.truncate(start);
    if !oid::is_numeric_oid(name) {
        if !oid::is_descriptor(name) {
            return Err(Fault::Expected { offset: 0, what: "an OID or a descriptor" });
        }
        if !lenient {
            return Err(Fault::UnknownName { name: name.to_owned() });
        }
    }
    out.push(0x0c);
    out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
    Ok(())
}

/// The first component of a definition in parentheses.
fn first_component(value: &[u8]) -> Result<&[u8], Fault> {
    let inner = value.trim_ascii_start();
    let Some(inner) = inner.strip_prefix(b"(") else {
        return Err(Fault::Expected { offset: value.len() - inner.len(), what: "'('" });
    };
    let inner = inner.trim_ascii_start();
    Ok(inner.split(|byte| byte.is_ascii_whitespace() || *byte == b')').next().unwrap_or_default())
}

/// Splits `scheme $ information $ value` and trims the spaces around the separators.
pub(crate) fn auth_password_parts(value: &[u8]) -> Result<[&[u8]; 3], Fault> {
    let mut parts = value.split(|&byte| byte == b'$').map(trim_spaces);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(scheme), Some(information), Some(auth_value), None) => Ok([scheme, information, auth_value]),
        _ => Err(Fault::Expected { offset: 0, what: "three parts separated by '$'" }),
    }
}

fn trim_spaces(mut part: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = part {
        part = rest;
    }
    part
}

fn auth_password_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let [scheme, information, auth_value] = auth_password_parts(value)?;
    for part in [scheme, b"$", information, b"$", auth_value] {
        out.extend_from_slice(part);
    }
    Ok(())
}
