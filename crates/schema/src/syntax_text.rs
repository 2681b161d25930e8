//! Checks of the text syntaxes (RFC 4517 section 3.3). Each check reports the fault and its position.

use ldap::Dn;

use crate::{Fault, oid};

/// Returns the fault of the first octet that is not allowed. `value` may be a part of a longer value. `base` is the
/// offset of this part.
pub(crate) fn only(value: &[u8], base: usize, allowed: impl Fn(u8) -> bool) -> Result<(), Fault> {
    match value.iter().enumerate().find(|&(_, &byte)| !allowed(byte)) {
        None => Ok(()),
        Some((offset, &byte)) => {
            Err(Fault::NotAllowed { offset: base + offset, character: char::from(byte) })
        }
    }
}

/// Checks that every octet is allowed, and that the value is not empty.
fn each(value: &[u8], base: usize, allowed: impl Fn(u8) -> bool) -> Result<(), Fault> {
    if value.is_empty() {
        return Err(if base == 0 {
            Fault::Empty
        } else {
            Fault::Expected { offset: base, what: "a character" }
        });
    }
    only(value, base, allowed)
}

/// Returns true for a character of PrintableString (RFC 4517 section 3.2).
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+,-./:? =".contains(&byte)
}

pub(crate) fn directory_string(value: &[u8]) -> Result<(), Fault> {
    // Test for ASCII first, because most values are ASCII, and this test is faster than a test for UTF-8.
    match value {
        [] => Err(Fault::Empty),
        ascii if ascii.is_ascii() => Ok(()),
        other => text(other).map(drop),
    }
}

pub(crate) fn ia5_string(value: &[u8]) -> Result<(), Fault> {
    only(value, 0, |byte| byte.is_ascii())
}

pub(crate) fn printable_string(value: &[u8]) -> Result<(), Fault> {
    each(value, 0, is_printable)
}

pub(crate) fn numeric_string(value: &[u8]) -> Result<(), Fault> {
    each(value, 0, |byte| byte == b' ' || byte.is_ascii_digit())
}

/// Checks for two letters. The RFC's ABNF allows any two printable characters, but ISO 3166 has only letters.
pub(crate) fn country_string(value: &[u8]) -> Result<(), Fault> {
    if value.len() != 2 {
        return Err(Fault::Expected { offset: value.len().min(2), what: "a two-letter country code" });
    }
    each(value, 0, |byte| byte.is_ascii_alphabetic())
}

/// Checks `'0101'B` and returns the digits.
pub(crate) fn bit_string(value: &[u8]) -> Result<&[u8], Fault> {
    let digits = value.strip_prefix(b"'").ok_or(Fault::Expected { offset: 0, what: "\"'\"" })?;
    let digits = digits
        .strip_suffix(b"'B")
        .ok_or(Fault::Expected { offset: value.len(), what: "\"'B\" at the end" })?;
    only(digits, 1, |byte| matches!(byte, b'0' | b'1'))?;
    Ok(digits)
}

pub(crate) fn oid(value: &[u8]) -> Result<(), Fault> {
    let text = text(value)?;
    match text {
        "" => Err(Fault::Empty),
        _ if oid::is_numeric_oid(text) || oid::is_descriptor(text) => Ok(()),
        _ => Err(Fault::Expected { offset: 0, what: "an OID or a descriptor" }),
    }
}

pub(crate) fn name(value: &[u8]) -> Result<(), Fault> {
    Dn::parse(text(value)?).map(drop).map_err(|error| Fault::Name(error.to_string()))
}

pub(crate) fn delivery_method(value: &[u8]) -> Result<(), Fault> {
    const METHODS: [&str; 10] =
        ["any", "mhs", "physical", "telex", "teletex", "g3fax", "g4fax", "ia5", "videotex", "telephone"];
    each_part(value, |offset, part| {
        let part = part.trim_ascii();
        if METHODS.iter().any(|method| method.as_bytes().eq_ignore_ascii_case(part)) {
            Ok(())
        } else {
            Err(Fault::Expected { offset, what: "a delivery method (any, mhs, telephone, ...)" })
        }
    })
}

/// Calls `check` with the offset and octets of each part between `$`.
fn each_part(value: &[u8], check: impl Fn(usize, &[u8]) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut offset = 0;
    for part in value.split(|&byte| byte == b'$') {
        check(offset, part)?;
        offset += part.len() + 1;
    }
    Ok(())
}

pub(crate) fn facsimile(value: &[u8]) -> Result<(), Fault> {
    const PARAMETERS: [&str; 7] = [
        "twoDimensional",
        "fineResolution",
        "unlimitedLength",
        "b4Length",
        "a3Width",
        "b4Width",
        "uncompressed",
    ];
    each_part(value, |offset, part| {
        if offset == 0 {
            return each(part, 0, is_printable);
        }
        if PARAMETERS.iter().any(|parameter| parameter.as_bytes().eq_ignore_ascii_case(part)) {
            return Ok(());
        }
        Err(Fault::Expected { offset, what: "a fax parameter (twoDimensional, a3Width, ...)" })
    })
}

pub(crate) fn other_mailbox(value: &[u8]) -> Result<(), Fault> {
    let mut parts = value.splitn(2, |&byte| byte == b'$');
    let (Some(kind), Some(mailbox)) = (parts.next(), parts.next()) else {
        return Err(Fault::Expected { offset: value.len(), what: "'$' after the mailbox type" });
    };
    each(kind, 0, is_printable)?;
    only(mailbox, kind.len() + 1, |byte| byte.is_ascii())
}

/// Checks a postal address. Lines may be empty: the ABNF forbids empty lines, but many stored addresses have them. The
/// whole value may not be empty.
pub(crate) fn postal_address(value: &[u8]) -> Result<(), Fault> {
    directory_string(value)?;
    escapes(value, &["24", "5C"])
}

pub(crate) fn substring_assertion(value: &[u8]) -> Result<(), Fault> {
    if !value.contains(&b'*') {
        return Err(Fault::Expected { offset: value.len(), what: "'*'" });
    }
    text(value)?;
    escapes(value, &["2A", "5C"])
}

/// Checks that every backslash begins one of the escapes in `known`.
fn escapes(value: &[u8], known: &[&str]) -> Result<(), Fault> {
    for (offset, _) in value.iter().enumerate().filter(|&(_, &byte)| byte == b'\\') {
        let code = value.get(offset + 1..offset + 3).unwrap_or_default();
        if !known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(code)) {
            return Err(Fault::Expected {
                offset: offset + 1,
                what: "the hexadecimal code of an escaped character",
            });
        }
    }
    Ok(())
}

/// Decodes `\24`, `\2A` and `\5C`; other backslashes are kept.
pub(crate) fn unescape_line(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first() {
        let character;
        (character, rest) = match (byte, behind) {
            (b'\\', [b'2', b'4', behind @ ..]) => (b'$', behind),
            (b'\\', [b'2', b'A' | b'a', behind @ ..]) => (b'*', behind),
            (b'\\', [b'5', b'C' | b'c', behind @ ..]) => (b'\\', behind),
            _ => (byte, behind),
        };
        out.push(character);
    }
    out
}

pub(crate) fn teletex(value: &[u8]) -> Result<(), Fault> {
    const KEYS: [&str; 5] = ["graphic", "control", "misc", "page", "private"];
    each_part(value, |offset, part| {
        if offset == 0 {
            return each(part, 0, is_printable);
        }
        let key = part.split(|&byte| byte == b':').next().unwrap_or_default();
        let known = KEYS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(key));
        if known && key.len() < part.len() {
            return Ok(());
        }
        Err(Fault::Expected { offset, what: "graphic:, control:, misc:, page: or private:" })
    })
}

pub(crate) fn telex(value: &[u8]) -> Result<(), Fault> {
    each_part(value, |offset, part| each(part, offset, is_printable))?;
    if value.iter().filter(|&&byte| byte == b'$').count() != 2 {
        return Err(Fault::Expected { offset: value.len(), what: "number, country code and answerback" });
    }
    Ok(())
}

pub(crate) fn auth_password(value: &[u8]) -> Result<(), Fault> {
    let [scheme, information, auth_value] = auth_password_parts(value)?;
    each(scheme, 0, |byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || b"-./_".contains(&byte))?;
    for part in [information, auth_value] {
        if let Some(&wrong) = part.iter().find(|byte| !byte.is_ascii_graphic()) {
            return Err(Fault::NotAllowed { offset: 0, character: char::from(wrong) });
        }
    }
    Ok(())
}

/// Checks `(host,user,domain)`, in which each part may be empty or `-` (RFC 2307 section 2.4).
pub(crate) fn netgroup_triple(value: &[u8]) -> Result<(), Fault> {
    let inner = value.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    let inner = inner.ok_or(Fault::Expected { offset: 0, what: "(host,user,domain)" })?;
    if inner.iter().filter(|&&byte| byte == b',').count() != 2 {
        return Err(Fault::Expected { offset: 1, what: "three parts separated by ','" });
    }
    only(inner, 1, |byte| byte.is_ascii_graphic() || byte == b' ')
}

/// Checks `key=server:path` (RFC 2307 section 2.4).
pub(crate) fn boot_parameter(value: &[u8]) -> Result<(), Fault> {
    ia5_string(value)?;
    let mut parts = value.splitn(2, |&byte| byte == b'=').skip(1);
    let path = parts.next().ok_or(Fault::Expected { offset: value.len(), what: "'=' after the key" })?;
    if !path.contains(&b':') {
        return Err(Fault::Expected { offset: value.len(), what: "':' between server and path" });
    }
    Ok(())
}

/// Checks the outer structure of GSER in braces (RFC 3641); the code that reads the value checks the rest.
pub(crate) fn braced(value: &[u8]) -> Result<(), Fault> {
    let text = text(value)?.trim();
    if text.starts_with('{') && text.ends_with('}') {
        return Ok(());
    }
    Err(Fault::Expected { offset: 0, what: "'{' ... '}'" })
}

/// Appends the octets encoded by the hexadecimal digits `value[start..end]`.
pub(crate) fn hex_digits(value: &[u8], start: usize, end: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let digits = value.get(start..end).unwrap_or_default();
    only(digits, start, |byte| byte.is_ascii_hexdigit())?;
    for [high, low] in digits.as_chunks::<2>().0 {
        let [high, low] = [high, low].map(|digit| char::from(*digit).to_digit(16).unwrap_or_default());
        out.extend(u8::try_from(high * 16 + low));
    }
    Ok(())
}

/// Returns the value as text.
pub(crate) fn text(value: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(value).map_err(|error| Fault::NotUtf8 { offset: error.valid_up_to() })
}

/// Splits a Name And Optional UID (RFC 4517 section 3.3.21) into the DN and the bit string, if there is one, without
/// the `#`. A `#` that is not followed by a bit string belongs to the DN.
pub fn split_name_and_uid(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = value.rsplitn(2, |&byte| byte == b'#');
    match (parts.next(), parts.next()) {
        (Some(uid), Some(name)) if bit_string(uid).is_ok() => (name, Some(uid)),
        _ => (value, None),
    }
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
