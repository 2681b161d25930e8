//! Checks of the text syntaxes (RFC 4517 section 3.3), each saying what is wrong and where.

use ldap::Dn;

use crate::form::{auth_password_parts, text};
use crate::{Fault, oid};

fn not_allowed(value: &[u8], offset: usize) -> Fault {
    Fault::NotAllowed { offset, character: char::from(value[offset]) }
}

/// Checks every octet, and that there is one.
fn each(value: &[u8], base: usize, allowed: impl Fn(u8) -> bool) -> Result<(), Fault> {
    if value.is_empty() {
        return Err(if base == 0 {
            Fault::Empty
        } else {
            Fault::Expected { offset: base, what: "a character" }
        });
    }
    match value.iter().position(|&byte| !allowed(byte)) {
        None => Ok(()),
        Some(offset) => {
            Err(Fault::NotAllowed { offset: base + offset, character: char::from(value[offset]) })
        }
    }
}

/// One of the characters of PrintableString (RFC 4517 section 3.2).
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+,-./:? =".contains(&byte)
}

pub(crate) fn directory_string(value: &[u8]) -> Result<(), Fault> {
    // Mostly ASCII, which is seen sooner than that it is UTF-8.
    match value {
        [] => Err(Fault::Empty),
        ascii if ascii.is_ascii() => Ok(()),
        other => text(other).map(drop),
    }
}

pub(crate) fn ia5_string(value: &[u8]) -> Result<(), Fault> {
    match value.iter().position(|byte| !byte.is_ascii()) {
        None => Ok(()),
        Some(offset) => Err(not_allowed(value, offset)),
    }
}

pub(crate) fn printable_string(value: &[u8]) -> Result<(), Fault> {
    each(value, 0, is_printable)
}

pub(crate) fn numeric_string(value: &[u8]) -> Result<(), Fault> {
    each(value, 0, |byte| byte == b' ' || byte.is_ascii_digit())
}

/// Two letters. The RFC's ABNF would take any two printable characters, ISO 3166 has only letters.
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
    match digits.iter().position(|byte| !matches!(byte, b'0' | b'1')) {
        None => Ok(digits),
        Some(offset) => Err(not_allowed(value, offset + 1)),
    }
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

/// Calls `check` with offset and octets of each part between `$`.
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
    let dollar = value.iter().position(|&byte| byte == b'$');
    let dollar =
        dollar.ok_or(Fault::Expected { offset: value.len(), what: "'$' behind the mailbox type" })?;
    each(&value[..dollar], 0, is_printable)?;
    match value[dollar..].iter().position(|byte| !byte.is_ascii()) {
        None => Ok(()),
        Some(offset) => Err(not_allowed(value, dollar + offset)),
    }
}

/// Lines may be empty, which the ABNF forbids and every directory holds. A wholly empty value may not.
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

/// Checks that every backslash begins one of these hexadecimal escapes.
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

/// Undoes `\24`, `\2A` and `\5C`; other backslashes stay.
pub(crate) fn unescape_line(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first() {
        let character = match (byte, behind) {
            (b'\\', [b'2', b'4', ..]) => b'$',
            (b'\\', [b'2', b'A' | b'a', ..]) => b'*',
            (b'\\', [b'5', b'C' | b'c', ..]) => b'\\',
            _ => {
                out.push(byte);
                rest = behind;
                continue;
            }
        };
        out.push(character);
        rest = &behind[2..];
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

/// `(host,user,domain)`, each part possibly empty or `-` (RFC 2307 section 2.4).
pub(crate) fn netgroup_triple(value: &[u8]) -> Result<(), Fault> {
    let inner = value.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    let inner = inner.ok_or(Fault::Expected { offset: 0, what: "(host,user,domain)" })?;
    if inner.iter().filter(|&&byte| byte == b',').count() != 2 {
        return Err(Fault::Expected { offset: 1, what: "three parts separated by ','" });
    }
    match inner.iter().position(|&byte| !byte.is_ascii_graphic() && byte != b' ') {
        None => Ok(()),
        Some(offset) => Err(not_allowed(value, offset + 1)),
    }
}

/// `key=server:path` (RFC 2307 section 2.4).
pub(crate) fn boot_parameter(value: &[u8]) -> Result<(), Fault> {
    ia5_string(value)?;
    let equals = value.iter().position(|&byte| byte == b'=');
    let equals = equals.ok_or(Fault::Expected { offset: value.len(), what: "'=' behind the key" })?;
    if !value[equals..].contains(&b':') {
        return Err(Fault::Expected { offset: value.len(), what: "':' between server and path" });
    }
    Ok(())
}

/// GSER in braces (RFC 3641): only the outline is checked here, what reads it checks the rest.
pub(crate) fn braced(value: &[u8]) -> Result<(), Fault> {
    let text = text(value)?.trim();
    if text.starts_with('{') && text.ends_with('}') {
        return Ok(());
    }
    Err(Fault::Expected { offset: 0, what: "'{' ... '}'" })
}

/// Appends the octets of the hexadecimal digits `value[start..end]`.
pub(crate) fn hex_digits(value: &[u8], start: usize, end: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    for offset in (start..end).step_by(2) {
        let digit = |at: usize| char::from(value[at]).to_digit(16).ok_or(not_allowed(value, at));
        out.push((digit(offset)? * 16 + digit(offset + 1)?) as u8);
    }
    Ok(())
}
