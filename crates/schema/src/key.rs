//! Keys of values and of assertions, for each [`Form`].
//!
//! The values in a name may be names themselves, so [`crate::name_key`] calls [`MatchingRule::key_at`] recursively;
//! `depth` bounds the recursion.

use crate::form::{Alphabet, Form, IGNORE_CASE, check_alphabet};
use crate::syntax_text::{
    auth_password_parts, bit_string, hex_digits, split_name_and_uid, text, unescape_line,
};
use crate::{
    Fault, MatchingRule, Schema, ValueError, certificate,
    certificate::{attribute, component},
    integer, name_key, oid, time,
};

impl MatchingRule {
    /// Appends the key of an attribute value to `out`. Two values match exactly when their keys are equal as bytes.
    ///
    /// For ASCII text and for all syntaxes of fixed form, the function allocates no memory except for `out`.
    ///
    /// # Errors
    /// The value does not follow the rule's syntax. `out` is then unchanged.
    pub fn normalize(self, schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.key_at(schema, value, 0, out)
    }

    /// Does the same as [`Self::normalize`] for a value that is inside `depth` distinguished names.
    pub(crate) fn key_at(
        self,
        schema: &Schema,
        value: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let start = out.len();
        self.form().value_key(schema, value, depth, out).map_err(|fault| {
            out.truncate(start);
            self.error(fault)
        })
    }

    /// Appends the key of an assertion value to `out`. The key differs from the key that [`Self::normalize`] appends
    /// for two kinds of rules. The first kind has different syntaxes for assertions and values
    /// (`objectIdentifierFirstComponentMatch`, `certificateExactMatch`). For the second kind, the schema must define
    /// the name in the assertion (`objectIdentifierMatch`).
    ///
    /// # Errors
    /// Those of [`Self::normalize`]; the filter item is then Undefined.
    pub fn normalize_assertion(
        self,
        schema: &Schema,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let start = out.len();
        self.form().assertion_key(schema, value, out).map_err(|fault| {
            out.truncate(start);
            self.error(fault)
        })
    }
}

impl Form {
    /// Appends the key of a value. After an error, the caller must remove what was appended to `out`.
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
            Form::AttributeCertificate => attribute::key(schema, value, depth, out),
            Form::CertificatePair => certificate::pair_key(schema, value, depth, out),
            Form::CertificateList => certificate::list_key(schema, value, depth, out),
            Form::CertificateParts => component::certificate_key(schema, value, depth, out),
            Form::CertificatePairParts => component::pair_key(schema, value, depth, out),
            Form::CertificateListParts => component::list_key(schema, value, depth, out),
            Form::AttributeCertificateParts => attribute::component::key(schema, value, depth, out),
            Form::Algorithm => certificate::algorithm_key(value, out),
            Form::AuthPassword => auth_password_key(value, out),
        }
    }

    /// Appends the key of an assertion.
    pub(crate) fn assertion_key(self, schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            // Directory, telephone and numeric strings require at least one character (RFC 4517 section 3.3); IA5
            // strings may be empty.
            Form::Text(_, Alphabet::Unicode | Alphabet::Digits) if value.is_empty() => Err(Fault::Empty),
            Form::ObjectIdentifier | Form::OidFirst => identifier_key(schema, value, false, out),
            Form::IntegerFirst => integer::key(value, out),
            Form::TextFirst => IGNORE_CASE.value(value, out),
            Form::Certificate => certificate::certificate_assertion_key(schema, value, out),
            Form::AttributeCertificate => attribute::assertion_key(schema, value, out),
            Form::CertificatePair => certificate::pair_assertion_key(schema, value, out),
            Form::CertificateList => certificate::list_assertion_key(schema, value, out),
            Form::Algorithm => certificate::algorithm_assertion_key(value, out),
            other => other.value_key(schema, value, 0, out),
        }
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

/// Appends the key of an OID or descriptor. If the schema does not contain a descriptor, the descriptor has a key only
/// if `lenient` is true.
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

/// Returns the first component of a definition in parentheses.
fn first_component(value: &[u8]) -> Result<&[u8], Fault> {
    let inner = value.trim_ascii_start();
    let Some(inner) = inner.strip_prefix(b"(") else {
        return Err(Fault::Expected { offset: value.len() - inner.len(), what: "'('" });
    };
    let inner = inner.trim_ascii_start();
    Ok(inner.split(|byte| byte.is_ascii_whitespace() || *byte == b')').next().unwrap_or_default())
}

fn auth_password_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let [scheme, information, auth_value] = auth_password_parts(value)?;
    for part in [scheme, b"$", information, b"$", auth_value] {
        out.extend_from_slice(part);
    }
    Ok(())
}
