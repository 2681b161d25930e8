//! Keys of attribute certificates (X.509 clause 12, RFC 5755 section 4.1): attributeCertificateExactMatch compares the
//! serial number and the issuer.
//!
//! | key | octets |
//! |---|---|
//! | attribute certificate | length of the serial number (one), its DER content, key of the issuer |
//! | issuer | for each part present: its number, length (four octets), key |
//! | 1, issuerName | for each general name: number of the choice, length (four octets), key |
//! | 2, baseCertificateID | the issuer's general names after their length (four octets); serial number as above |
//! | 3, objectDigestInfo | its DER content |
//!
//! In version 1 the issuer has only general names, which are the same as issuerName of version 2. The key of a
//! directory name is the key of its DN. The key of any other general name is its content octets. In a key, a DNS name
//! and the part of a mail address after `@` are in lower case (RFC 5280 sections 7.2 and 7.5).

pub(crate) mod component;

use ber::{BerError, Reader, Tag};

use super::{BAD_OID, name_of_der, not_der, put_sized, write_part, write_serial, write_serial_text};
use crate::name_key::value_key;
use crate::syntax_text::text;
use crate::{Fault, Schema, gser, oid};

/// Numbers of the parts of an issuer in keys.
const ISSUER_NAME: u8 = 1;
const BASE_CERTIFICATE: u8 = 2;
const OBJECT_DIGEST: u8 = 3;

/// Choices of GeneralName (RFC 5280 section 4.2.1.6).
mod choice {
    pub(super) const MAIL: u8 = 1;
    pub(super) const DNS: u8 = 2;
    pub(super) const DIRECTORY: u8 = 4;
    pub(super) const URI: u8 = 6;
    pub(super) const ADDRESS: u8 = 7;
    pub(super) const REGISTERED: u8 = 8;
}

/// The fields that identify an attribute certificate.
struct Parts<'a> {
    serial: &'a [u8],
    /// General names of the issuer.
    names: Option<Reader<'a>>,
    /// Content of an IssuerSerial.
    base: Option<Reader<'a>>,
    digest: Option<&'a [u8]>,
}

fn parts(value: &[u8]) -> Result<Parts<'_>, Fault> {
    let parse = || {
        let mut whole = Reader::new(value);
        let mut certificate = whole.sequence(Tag::SEQUENCE)?;
        let mut body = certificate.sequence(Tag::SEQUENCE)?;
        certificate.sequence(Tag::SEQUENCE)?;
        certificate.element(Tag(0x03))?;
        body.optional(Tag::INTEGER)?;
        body.any()?; // the holder, in version 1 the subject
        let (names, base, digest) = issuer(&mut body)?;
        body.element(Tag::SEQUENCE)?;
        let serial = body.element(Tag::INTEGER)?;
        body.element(Tag::SEQUENCE)?; // validity
        body.element(Tag::SEQUENCE)?; // attributes
        Ok((whole.is_empty(), Parts { serial, names, base, digest }))
    };
    match parse().map_err(not_der)? {
        (true, found) if found.serial.is_empty() || found.serial.len() > super::SERIAL_SIZE_MAX => {
            Err(Fault::OutOfRange { what: "the serial number" })
        }
        (true, found) => Ok(found),
        _ => Err(Fault::Expected { offset: 0, what: "one attribute certificate and no trailing octets" }),
    }
}

type Issuer<'a> = (Option<Reader<'a>>, Option<Reader<'a>>, Option<&'a [u8]>);

fn issuer<'a>(body: &mut Reader<'a>) -> Result<Issuer<'a>, BerError> {
    if body.peek_tag() == Some(Tag::SEQUENCE) {
        return Ok((Some(body.sequence(Tag::SEQUENCE)?), None, None));
    }
    let mut form = body.sequence(Tag::context_constructed(0))?;
    let names = form.optional(Tag::SEQUENCE)?.map(Reader::new);
    let base = form.optional(Tag::context_constructed(0))?.map(Reader::new);
    Ok((names, base, form.optional(Tag::context_constructed(1))?))
}

/// Checks that a value has the structure of an attribute certificate.
pub(crate) fn check(value: &[u8]) -> Result<(), Fault> {
    parts(value).map(drop)
}

/// Appends the key of an attribute certificate.
pub(crate) fn key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let parts = parts(value)?;
    write_serial(parts.serial, out);
    if let Some(names) = parts.names {
        write_part(ISSUER_NAME, out, |out| names_of_der(schema, names, depth, out))?;
    }
    if let Some(base) = parts.base {
        write_part(BASE_CERTIFICATE, out, |out| write_base(schema, base, depth, out))?;
    }
    if let Some(digest) = parts.digest {
        write_part(OBJECT_DIGEST, out, |out| {
            out.extend_from_slice(digest);
            Ok(())
        })?;
    }
    Ok(())
}

fn write_base(schema: &Schema, mut base: Reader<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let names = base.sequence(Tag::SEQUENCE).map_err(not_der)?;
    put_sized(out, |out| names_of_der(schema, names, depth, out))?;
    write_serial(base.element(Tag::INTEGER).map_err(not_der)?, out);
    Ok(())
}

fn names_of_der(schema: &Schema, mut names: Reader<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    while !names.is_empty() {
        let (Tag(tag), content) = names.any().map_err(not_der)?;
        let choice = tag & 0x1f;
        write_part(choice, out, |out| {
            if choice == choice::DIRECTORY {
                let name = Reader::new(content).sequence(Tag::SEQUENCE).map_err(not_der)?;
                return name_of_der(schema, name, depth, out);
            }
            write_folded(choice, content, out);
            Ok(())
        })?;
    }
    Ok(())
}

fn write_folded(choice: u8, content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(content);
    let kept = match choice {
        choice::DNS => 0,
        choice::MAIL => content.iter().rposition(|&byte| byte == b'@').unwrap_or(content.len()),
        _ => content.len(),
    };
    out.get_mut(start + kept..).unwrap_or_default().make_ascii_lowercase();
}

/// Appends the key of `{ serialNumber 1, issuer { issuerName { directoryName:rdnSequence:"..." } } }`. Also accepts the
/// issuer as the CHOICE of RFC 5755: `v2Form:{ issuerName {...} }` or `v1Form:{ directoryName:... }`.
pub(crate) fn assertion_key(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let components = gser::sequence(text(value)?)?;
    write_serial_text(gser::component(&components, "serialNumber", "serialNumber")?, out)?;
    let issuer = gser::component(&components, "issuer", "issuer")?;
    if let Some(names) = issuer.strip_prefix("v1Form:") {
        return write_part(ISSUER_NAME, out, |out| asserted_names(schema, names, out));
    }
    let form = gser::sequence(issuer.strip_prefix("v2Form:").unwrap_or(issuer))?;
    if form.iter().any(|(name, _)| !matches!(*name, "issuerName" | "baseCertificateID")) {
        return Err(Fault::Expected { offset: 0, what: "issuerName or baseCertificateID" });
    }
    if let Ok(names) = gser::component(&form, "issuerName", "") {
        write_part(ISSUER_NAME, out, |out| asserted_names(schema, names, out))?;
    }
    if let Ok(base) = gser::component(&form, "baseCertificateID", "") {
        write_part(BASE_CERTIFICATE, out, |out| asserted_base(schema, base, out))?;
    }
    Ok(())
}

fn asserted_base(schema: &Schema, base: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    let base = gser::sequence(base)?;
    let names = gser::component(&base, "issuer", "issuer")?;
    put_sized(out, |out| asserted_names(schema, names, out))?;
    write_serial_text(gser::component(&base, "serial", "serial")?, out)
}

fn asserted_names(schema: &Schema, names: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    for name in gser::list(names)? {
        let (form, name) = name.split_once(':').ok_or(GENERAL_NAME)?;
        let choice = match form {
            "rfc822Name" => choice::MAIL,
            "dNSName" => choice::DNS,
            "directoryName" => choice::DIRECTORY,
            "uniformResourceIdentifier" => choice::URI,
            "iPAddress" => choice::ADDRESS,
            "registeredID" => choice::REGISTERED,
            _ => return Err(GENERAL_NAME),
        };
        write_part(choice, out, |out| match choice {
            choice::DIRECTORY => {
                let sequence = name.trim().strip_prefix("rdnSequence:");
                let sequence = sequence.ok_or(Fault::Expected { offset: 0, what: "rdnSequence:" })?;
                value_key(schema, &gser::quoted(sequence)?, 0, out)
            }
            choice::ADDRESS => {
                out.extend(gser::octets(name)?);
                Ok(())
            }
            choice::REGISTERED if oid::encode_oid(name.trim(), out) => Ok(()),
            choice::REGISTERED => Err(BAD_OID),
            _ => {
                write_folded(choice, gser::quoted(name)?.as_bytes(), out);
                Ok(())
            }
        })?;
    }
    Ok(())
}

const GENERAL_NAME: Fault = Fault::Expected { offset: 0, what: "a general name that can be asserted here" };

#[cfg(test)]
mod tests;
