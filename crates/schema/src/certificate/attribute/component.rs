//! attributeCertificateMatch (X.509 clause 17.3.2): holder, issuer, validity and attribute types of an attribute
//! certificate. Like the rules of [`crate::certificate::component`], it is only used in extensible filters. A value
//! matches if it agrees in all parts that the assertion lists.
//!
//! | key | octets |
//! |---|---|
//! | attribute certificate | keys of the holder's two forms and of the issuer's names, each after its length; the DER |
//!
//! The holder's forms are baseCertificateID and entityName. A length has four octets, and is 0 if the field is missing.

use ber::{BerError, Reader, Tag};

use super::{asserted_base, asserted_names, issuer, names_of_der, write_base};
use crate::certificate::fields::{OID, generalized, oid_content, take_part, time_of_der};
use crate::certificate::{not_der, put_sized};
use crate::{Fault, Schema, gser};

/// The fields that the rule reads.
struct Body<'a> {
    /// Content of an IssuerSerial.
    holder_base: Option<Reader<'a>>,
    /// General names.
    holder_names: Option<Reader<'a>>,
    issuer_names: Option<Reader<'a>>,
    validity: Reader<'a>,
    attributes: Reader<'a>,
}

fn body(certificate: &[u8]) -> Result<Body<'_>, BerError> {
    let mut body = Reader::new(certificate).sequence(Tag::SEQUENCE)?.sequence(Tag::SEQUENCE)?;
    body.optional(Tag::INTEGER)?;
    let (holder_base, holder_names) = match body.peek_tag() {
        Some(Tag::SEQUENCE) => holder(&mut body.sequence(Tag::SEQUENCE)?)?,
        // Version 1 has one of the two fields, without a SEQUENCE around it.
        _ => holder(&mut body)?,
    };
    let (issuer_names, ..) = issuer(&mut body)?;
    body.element(Tag::SEQUENCE)?;
    body.element(Tag::INTEGER)?;
    let validity = body.sequence(Tag::SEQUENCE)?;
    let attributes = body.sequence(Tag::SEQUENCE)?;
    Ok(Body { holder_base, holder_names, issuer_names, validity, attributes })
}

type Holder<'a> = (Option<Reader<'a>>, Option<Reader<'a>>);

fn holder<'a>(fields: &mut Reader<'a>) -> Result<Holder<'a>, BerError> {
    let base = fields.optional(Tag::context_constructed(0))?.map(Reader::new);
    Ok((base, fields.optional(Tag::context_constructed(1))?.map(Reader::new)))
}

/// Appends the key for attributeCertificateMatch.
pub(crate) fn key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let body = body(value).map_err(not_der)?;
    put_sized(out, |out| body.holder_base.map_or(Ok(()), |base| write_base(schema, base, depth, out)))?;
    for names in [body.holder_names, body.issuer_names] {
        put_sized(out, |out| names.map_or(Ok(()), |names| names_of_der(schema, names, depth, out)))?;
    }
    out.extend_from_slice(value);
    Ok(())
}

/// One part of an assertion.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Key of the holder's baseCertificateID.
    HolderBase(Vec<u8>),
    /// Key of the holder's entityName.
    HolderNames(Vec<u8>),
    /// Key of the names of the issuer.
    Issuer(Vec<u8>),
    /// Key of the time at which the certificate must be valid.
    ValidAt(Vec<u8>),
    /// Content of the OID of an attribute type.
    Type(Vec<u8>),
}

/// Reads an AttributeCertificateAssertion: `{ holder holderName:{ directoryName:rdnSequence:"..." }, issuer { ... },
/// attCertValidity "20270101000000Z", attType { 1.2.3 } }`.
pub(crate) fn parts(schema: &Schema, value: &str) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    for (name, value) in gser::sequence(value)? {
        let mut key = Vec::new();
        match (name, value.split_once(':')) {
            ("holder", Some(("baseCertificateID", base))) => {
                asserted_base(schema, base, &mut key)?;
                parts.push(Part::HolderBase(key));
            }
            ("holder", Some(("holderName", names))) => {
                asserted_names(schema, names, &mut key)?;
                parts.push(Part::HolderNames(key));
            }
            ("issuer", _) => {
                asserted_names(schema, value, &mut key)?;
                parts.push(Part::Issuer(key));
            }
            ("attCertValidity", _) => parts.push(Part::ValidAt(generalized(value)?)),
            ("attType", _) => {
                for attribute_type in gser::list(value)? {
                    parts.push(Part::Type(oid_content(attribute_type)?));
                }
            }
            _ => return Err(UNKNOWN),
        }
    }
    // X.509 requires at least one part.
    if parts.is_empty() { Err(UNKNOWN) } else { Ok(parts) }
}

const UNKNOWN: Fault = Fault::Expected {
    offset: 0,
    what: "holder baseCertificateID:, holder holderName:, issuer, attCertValidity or attType",
};

/// Returns true if the value with this key agrees in all parts; `None` if it is malformed in a relevant field.
pub(crate) fn agrees(parts: &[Part], key: &[u8]) -> Option<bool> {
    let mut rest = key;
    let [base, holder, issuer] = [take_part(&mut rest)?, take_part(&mut rest)?, take_part(&mut rest)?];
    let body = body(rest).ok()?;
    for part in parts {
        let agrees = match part {
            Part::HolderBase(asserted) => base == asserted,
            Part::HolderNames(asserted) => holder == asserted,
            Part::Issuer(asserted) => issuer == asserted,
            Part::ValidAt(asserted) => {
                let mut validity = body.validity;
                let (begin, end) = (time_of_der(&mut validity)?, time_of_der(&mut validity)?);
                (&begin..=&end).contains(&asserted)
            }
            Part::Type(asserted) => has_type(body.attributes, asserted)?,
        };
        if !agrees {
            return Some(false);
        }
    }
    Some(true)
}

fn has_type(mut attributes: Reader<'_>, asserted: &[u8]) -> Option<bool> {
    while !attributes.is_empty() {
        if attributes.sequence(Tag::SEQUENCE).ok()?.element(OID).ok()? == asserted {
            return Some(true);
        }
    }
    Some(false)
}
