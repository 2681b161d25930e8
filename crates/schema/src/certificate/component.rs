//! Matching of certificates and revocation lists by their components (RFC 4523 sections 3.2, 3.4 and 3.6; X.509 clause
//! 11.3): certificateMatch, certificatePairMatch, certificateListMatch. The rules are only used in extensible filters.
//! An assertion lists some parts, and a value matches if it agrees in all of them.
//!
//! Assertions are evaluated on the key of a value. The key contains the value's DER and, because the evaluation has no
//! schema, the keys of the names in the value.
//!
//! | key | octets |
//! |---|---|
//! | certificate | key of the issuer, key of the subject, each after its length (four octets); the DER |
//! | revocation list | key of the issuer after its length; the DER |
//! | pair | for each half: length of the certificate's key (0 without that half), the key |
//!
//! Assertions of these parts are not supported and make the filter Undefined: pathToName, nameConstraints, a
//! distribution point, the authority's certificate by its issuer.

use ber::{BerError, Reader, Tag};

use super::attribute::component as attribute;
use super::fields::{GENERALIZED_TIME, OID, UTC_TIME, generalized, oid_content, take_part, time_of_der};
use super::{list_parts, name_of_der, not_der, pair_halves, put_sized, write_decimal_serial, write_serial};
use crate::name_key::value_key;
use crate::syntax_text::{bit_string, text};
use crate::{Fault, Schema, gser, time};

/// A certificate in DER. The fields are read on demand.
struct Body<'a> {
    serial: &'a [u8],
    issuer: Reader<'a>,
    validity: Reader<'a>,
    subject: Reader<'a>,
    public_key: Reader<'a>,
    extensions: Extensions<'a>,
}

/// The extensions of a certificate or list, in DER.
#[derive(Clone, Copy)]
struct Extensions<'a>(&'a [u8]);

impl<'a> Extensions<'a> {
    /// Returns the content of the extension with this OID, given as DER content.
    fn find(self, wanted: &[u8]) -> Option<&'a [u8]> {
        let mut all = Reader::new(self.0).sequence(Tag::SEQUENCE).ok()?;
        while !all.is_empty() {
            let mut extension = all.sequence(Tag::SEQUENCE).ok()?;
            let found = extension.element(OID).ok()?;
            extension.optional(Tag(0x01)).ok()?;
            let value = extension.octet_string().ok()?;
            if found == wanted {
                return Some(value);
            }
        }
        None
    }
}

/// OIDs below id-ce, 2.5.29, as DER content.
mod extension {
    pub(super) const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 14];
    pub(super) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
    pub(super) const PRIVATE_KEY_PERIOD: &[u8] = &[0x55, 0x1d, 16];
    pub(super) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
    pub(super) const CRL_NUMBER: &[u8] = &[0x55, 0x1d, 20];
    pub(super) const ISSUING_POINT: &[u8] = &[0x55, 0x1d, 28];
    pub(super) const POLICIES: &[u8] = &[0x55, 0x1d, 32];
    pub(super) const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 35];
}

fn body(certificate: &[u8]) -> Result<Body<'_>, BerError> {
    let mut body = Reader::new(certificate).sequence(Tag::SEQUENCE)?.sequence(Tag::SEQUENCE)?;
    body.optional(Tag::context_constructed(0))?;
    let serial = body.element(Tag::INTEGER)?;
    body.element(Tag::SEQUENCE)?;
    let issuer = body.sequence(Tag::SEQUENCE)?;
    let validity = body.sequence(Tag::SEQUENCE)?;
    let subject = body.sequence(Tag::SEQUENCE)?;
    let public_key = body.sequence(Tag::SEQUENCE)?;
    body.optional(Tag(0x81))?;
    body.optional(Tag(0x82))?;
    let extensions = Extensions(body.optional(Tag::context_constructed(3))?.unwrap_or_default());
    Ok(Body { serial, issuer, validity, subject, public_key, extensions })
}

/// Appends the key for certificateMatch.
pub(crate) fn certificate_key(
    schema: &Schema,
    value: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let parts = body(value).map_err(not_der)?;
    put_sized(out, |out| name_of_der(schema, parts.issuer, depth, out))?;
    put_sized(out, |out| name_of_der(schema, parts.subject, depth, out))?;
    out.extend_from_slice(value);
    Ok(())
}

/// Appends the key for certificatePairMatch.
pub(crate) fn pair_key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    for half in pair_halves(value)? {
        put_sized(out, |out| half.map_or(Ok(()), |half| certificate_key(schema, half, depth, out)))?;
    }
    Ok(())
}

/// Appends the key for certificateListMatch.
pub(crate) fn list_key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (issuer, ..) = list_parts(value)?;
    put_sized(out, |out| name_of_der(schema, issuer, depth, out))?;
    out.extend_from_slice(value);
    Ok(())
}

/// An assertion about a certificate, a pair, a revocation list or an attribute certificate, ready to be evaluated on
/// keys.
#[derive(Debug, Clone)]
pub(crate) enum ComponentAssertion {
    Certificate(Vec<Part>),
    Pair([Option<Vec<Part>>; 2]),
    List(Vec<Part>),
    Attribute(Vec<attribute::Part>),
}

/// Assumed bytes of memory of one part of an assertion, which may contain a name.
const PART_BYTES: usize = 128;

/// One part of an assertion, in the form in which it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The serial number: its length and its shortest form.
    Serial(Vec<u8>),
    /// The issuer: key of the name.
    Issuer(Vec<u8>),
    Subject(Vec<u8>),
    SubjectKeyId(Vec<u8>),
    AuthorityKeyId(Vec<u8>),
    /// The serial number of the authority's certificate: its length and its shortest form.
    AuthoritySerial(Vec<u8>),
    /// Key of the time at which the value must be valid.
    ValidAt(Vec<u8>),
    PrivateKeyValidAt(Vec<u8>),
    /// DER content of the OID of the key's algorithm.
    KeyAlgorithm(Vec<u8>),
    /// Bits of keyUsage. All of these bits must be set if the extension is present. The first bit is the highest.
    KeyUsage(u16),
    /// A subjectAltName of this kind must be present: number of the choice in GeneralName.
    AltName(u8),
    /// A subjectAltName of the choice otherName must be present: DER content of its type.
    OtherName(Vec<u8>),
    /// DER contents of the OIDs of certificate policies. At least one of these policies must be present.
    Policies(Vec<Vec<u8>>),
    /// Minimum of the CRL number, which is not negative: length and shortest form.
    MinNumber(Vec<u8>),
    MaxNumber(Vec<u8>),
    /// Bits of revocation reasons. If the issuingDistributionPoint extension lists reasons, at least one of the
    /// asserted reasons must be among them.
    Reasons(u16),
}

impl ComponentAssertion {
    /// Returns the approximate size of the assertion on the heap, in bytes. Parts are few, and each has a name or a
    /// number.
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts = match self {
            ComponentAssertion::Certificate(parts) | ComponentAssertion::List(parts) => [Some(parts), None],
            ComponentAssertion::Pair(pair) => [pair[0].as_ref(), pair[1].as_ref()],
            ComponentAssertion::Attribute(parts) => return parts.capacity() * PART_BYTES,
        };
        parts.into_iter().flatten().map(|parts| parts.capacity() * PART_BYTES).sum()
    }

    /// Reads a CertificateAssertion (RFC 4523 section A.2).
    pub(crate) fn certificate(schema: &Schema, value: &[u8]) -> Result<ComponentAssertion, Fault> {
        Ok(ComponentAssertion::Certificate(certificate_parts(schema, text(value)?)?))
    }

    /// Reads a CertificatePairAssertion (section A.4).
    pub(crate) fn pair(schema: &Schema, value: &[u8]) -> Result<ComponentAssertion, Fault> {
        let (mut issued_to, mut issued_by) = (None, None);
        for (name, half) in gser::sequence(text(value)?)? {
            let place = match name {
                "issuedToThisCAAssertion" => &mut issued_to,
                "issuedByThisCAAssertion" => &mut issued_by,
                _ => return Err(UNKNOWN),
            };
            *place = Some(certificate_parts(schema, half)?);
        }
        Ok(ComponentAssertion::Pair([issued_to, issued_by]))
    }

    /// Reads a CertificateListAssertion (section A.6).
    pub(crate) fn list(schema: &Schema, value: &[u8]) -> Result<ComponentAssertion, Fault> {
        let mut parts = Vec::new();
        for (name, value) in gser::sequence(text(value)?)? {
            match name {
                "issuer" => parts.push(Part::Issuer(name_key(schema, value)?)),
                "minCRLNumber" => parts.push(Part::MinNumber(number(value)?)),
                "maxCRLNumber" => parts.push(Part::MaxNumber(number(value)?)),
                "reasonFlags" => parts.push(Part::Reasons(bits(value, &REASONS)?)),
                "dateAndTime" => parts.push(Part::ValidAt(time_key(value)?)),
                "authorityKeyIdentifier" => authority(value, &mut parts)?,
                _ => return Err(UNKNOWN),
            }
        }
        Ok(ComponentAssertion::List(parts))
    }

    /// Reads an AttributeCertificateAssertion (X.509 clause 17.3.2).
    pub(crate) fn attribute(schema: &Schema, value: &[u8]) -> Result<ComponentAssertion, Fault> {
        Ok(ComponentAssertion::Attribute(attribute::parts(schema, text(value)?)?))
    }

    /// Returns true if the value with this key agrees in every part. A value that is malformed in a relevant field does
    /// not match.
    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        let mut key = key;
        match self {
            ComponentAssertion::Certificate(parts) => certificate_agrees(parts, key).unwrap_or(false),
            ComponentAssertion::Pair(halves) => halves.iter().all(|half| {
                let Some(found) = take_part(&mut key) else { return false };
                half.as_ref().is_none_or(|parts| certificate_agrees(parts, found).unwrap_or(false))
            }),
            ComponentAssertion::List(parts) => list_agrees(parts, key).unwrap_or(false),
            ComponentAssertion::Attribute(parts) => attribute::agrees(parts, key).unwrap_or(false),
        }
    }
}

const UNKNOWN: Fault = Fault::Expected { offset: 0, what: "a part that can be asserted here" };

fn certificate_parts(schema: &Schema, value: &str) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    for (name, value) in gser::sequence(value)? {
        match name {
            "serialNumber" => parts.push(Part::Serial(number(value)?)),
            "issuer" => parts.push(Part::Issuer(name_key(schema, value)?)),
            "subject" => parts.push(Part::Subject(name_key(schema, value)?)),
            "subjectKeyIdentifier" => parts.push(Part::SubjectKeyId(gser::octets(value)?)),
            "authorityKeyIdentifier" => authority(value, &mut parts)?,
            "certificateValid" => parts.push(Part::ValidAt(time_key(value)?)),
            "privateKeyValid" => parts.push(Part::PrivateKeyValidAt(generalized(value)?)),
            "subjectPublicKeyAlgID" => parts.push(Part::KeyAlgorithm(oid_content(value)?)),
            "keyUsage" => parts.push(Part::KeyUsage(bits(value, &KEY_USAGES)?)),
            "subjectAltName" => parts.push(alt_name(value)?),
            "policy" => {
                let policies = gser::list(value)?.into_iter().map(oid_content);
                parts.push(Part::Policies(policies.collect::<Result<_, _>>()?));
            }
            _ => return Err(UNKNOWN),
        }
    }
    Ok(parts)
}

fn name_key(schema: &Schema, value: &str) -> Result<Vec<u8>, Fault> {
    let sequence = value.strip_prefix("rdnSequence:");
    let sequence = sequence.ok_or(Fault::Expected { offset: 0, what: "rdnSequence:" })?;
    let mut key = Vec::new();
    value_key(schema, &gser::quoted(sequence)?, 0, &mut key)?;
    Ok(key)
}

fn number(value: &str) -> Result<Vec<u8>, Fault> {
    let mut number = Vec::new();
    write_decimal_serial(value, &mut number)?;
    Ok(number)
}

fn time_key(value: &str) -> Result<Vec<u8>, Fault> {
    match value.split_once(':') {
        Some(("utcTime", text)) => {
            let mut key = Vec::new();
            time::utc_key(gser::quoted(text)?.as_bytes(), &mut key)?;
            Ok(key)
        }
        Some(("generalizedTime" | "generalTime", text)) => generalized(text),
        _ => Err(Fault::Expected { offset: 0, what: "utcTime: or generalizedTime:" }),
    }
}

fn authority(value: &str, parts: &mut Vec<Part>) -> Result<(), Fault> {
    for (name, value) in gser::sequence(value)? {
        match name {
            "keyIdentifier" => parts.push(Part::AuthorityKeyId(gser::octets(value)?)),
            "authorityCertSerialNumber" => parts.push(Part::AuthoritySerial(number(value)?)),
            _ => return Err(UNKNOWN),
        }
    }
    Ok(())
}

/// KeyUsage (RFC 5280 section 4.2.1.3).
const KEY_USAGES: [&str; 9] = [
    "digitalSignature",
    "nonRepudiation",
    "keyEncipherment",
    "dataEncipherment",
    "keyAgreement",
    "keyCertSign",
    "cRLSign",
    "encipherOnly",
    "decipherOnly",
];

/// ReasonFlags (RFC 5280 section 4.2.1.13).
const REASONS: [&str; 9] = [
    "unused",
    "keyCompromise",
    "cACompromise",
    "affiliationChanged",
    "superseded",
    "cessationOfOperation",
    "certificateHold",
    "privilegeWithdrawn",
    "aACompromise",
];

/// Parses named bits, `{ a, b }` or `'0101'B`. The first bit is the highest.
fn bits(value: &str, names: &[&str]) -> Result<u16, Fault> {
    if !value.starts_with('{') {
        let digits = bit_string(value.as_bytes())?;
        let set = digits.iter().take(16).enumerate().filter(|(_, digit)| **digit == b'1');
        return Ok(set.fold(0, |bits, (place, _)| bits | 0x8000 >> place));
    }
    gser::list(value)?.into_iter().try_fold(0, |bits, name| {
        let place = names.iter().position(|known| *known == name).ok_or(UNKNOWN)?;
        Ok(bits | 0x8000 >> place)
    })
}

fn alt_name(value: &str) -> Result<Part, Fault> {
    const FORMS: [(&str, u8); 8] = [
        ("rfc822Name", 1),
        ("dNSName", 2),
        ("x400Address", 3),
        ("directoryName", 4),
        ("ediPartyName", 5),
        ("uniformResourceIdentifier", 6),
        ("iPAddress", 7),
        ("registeredId", 8),
    ];
    match value.split_once(':') {
        Some(("builtinNameForm", name)) => {
            let form = FORMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).ok_or(UNKNOWN)?;
            Ok(Part::AltName(form.1))
        }
        Some(("otherNameForm", name)) => Ok(Part::OtherName(oid_content(name)?)),
        _ => Err(Fault::Expected { offset: 0, what: "builtinNameForm: or otherNameForm:" }),
    }
}

/// Returns true if a certificate agrees in all parts; `None` if it is malformed in a relevant field.
fn certificate_agrees(parts: &[Part], key: &[u8]) -> Option<bool> {
    let mut rest = key;
    let (issuer, subject) = (take_part(&mut rest)?, take_part(&mut rest)?);
    let body = body(rest).ok()?;
    for part in parts {
        let agrees = match part {
            Part::Serial(asserted) => number_of_der(body.serial) == *asserted,
            Part::Issuer(asserted) => issuer == asserted,
            Part::Subject(asserted) => subject == asserted,
            Part::ValidAt(asserted) => {
                let mut validity = body.validity;
                let (begin, end) = (time_of_der(&mut validity)?, time_of_der(&mut validity)?);
                (&begin..=&end).contains(&asserted)
            }
            Part::KeyAlgorithm(asserted) => {
                let mut public_key = body.public_key;
                public_key.sequence(Tag::SEQUENCE).ok()?.element(OID).ok()? == asserted
            }
            other => extension_agrees(other, body.extensions)?,
        };
        if !agrees {
            return Some(false);
        }
    }
    Some(true)
}

fn list_agrees(parts: &[Part], key: &[u8]) -> Option<bool> {
    let mut rest = key;
    let issuer = take_part(&mut rest)?;
    let mut body = Reader::new(rest).sequence(Tag::SEQUENCE).ok()?.sequence(Tag::SEQUENCE).ok()?;
    body.optional(Tag::INTEGER).ok()?;
    body.element(Tag::SEQUENCE).ok()?;
    body.element(Tag::SEQUENCE).ok()?;
    let this_update = time_of_der(&mut body)?;
    let next_update = match body.peek_tag() {
        Some(UTC_TIME | GENERALIZED_TIME) => Some(time_of_der(&mut body)?),
        _ => None,
    };
    body.optional(Tag::SEQUENCE).ok()?;
    let extensions = Extensions(body.optional(Tag::context_constructed(0)).ok()?.unwrap_or_default());
    for part in parts {
        let agrees = match part {
            Part::Issuer(asserted) => issuer == asserted,
            // The asserted time must be at or after thisUpdate and before nextUpdate, which must be present.
            Part::ValidAt(asserted) => {
                this_update <= *asserted && next_update.as_ref().is_some_and(|next| asserted < next)
            }
            other => extension_agrees(other, extensions)?,
        };
        if !agrees {
            return Some(false);
        }
    }
    Some(true)
}

/// Evaluates a part about an extension by the rules of X.509, which also cover a missing extension.
fn extension_agrees(part: &Part, extensions: Extensions<'_>) -> Option<bool> {
    let integer_at_least =
        |one: &[u8], other: &[u8]| one.len().cmp(&other.len()).then(one.cmp(other)).is_ge();
    Some(match part {
        Part::SubjectKeyId(asserted) => {
            let Some(found) = extensions.find(extension::SUBJECT_KEY_ID) else { return Some(false) };
            Reader::new(found).octet_string().ok()? == asserted
        }
        Part::AuthorityKeyId(asserted) => {
            let Some(found) = extensions.find(extension::AUTHORITY_KEY_ID) else { return Some(false) };
            let mut found = Reader::new(found).sequence(Tag::SEQUENCE).ok()?;
            found.optional(Tag(0x80)).ok()? == Some(asserted.as_slice())
        }
        Part::AuthoritySerial(asserted) => {
            let Some(found) = extensions.find(extension::AUTHORITY_KEY_ID) else { return Some(false) };
            let mut found = Reader::new(found).sequence(Tag::SEQUENCE).ok()?;
            found.optional(Tag(0x80)).ok()?;
            found.optional(Tag::context_constructed(1)).ok()?;
            found.optional(Tag(0x82)).ok()?.is_some_and(|serial| number_of_der(serial) == *asserted)
        }
        Part::PrivateKeyValidAt(asserted) => {
            let Some(found) = extensions.find(extension::PRIVATE_KEY_PERIOD) else { return Some(true) };
            let mut found = Reader::new(found).sequence(Tag::SEQUENCE).ok()?;
            let mut bound = |tag| Some(found.optional(Tag(tag)).ok()?.map(generalized_of_der));
            let (begin, end) = (bound(0x80)?, bound(0x81)?);
            begin.is_none_or(|begin| begin.is_some_and(|begin| begin <= *asserted))
                && end.is_none_or(|end| end.is_some_and(|end| *asserted <= end))
        }
        Part::KeyUsage(asserted) => {
            let Some(found) = extensions.find(extension::KEY_USAGE) else { return Some(true) };
            bits_of_der(Reader::new(found).element(BIT_STRING).ok()?) & asserted == *asserted
        }
        Part::Reasons(asserted) => {
            let Some(found) = extensions.find(extension::ISSUING_POINT) else { return Some(true) };
            let mut found = Reader::new(found).sequence(Tag::SEQUENCE).ok()?;
            found.optional(Tag::context_constructed(0)).ok()?;
            found.optional(Tag(0x81)).ok()?;
            found.optional(Tag(0x82)).ok()?;
            let some = found.optional(Tag(0x83)).ok()?;
            some.is_none_or(|some| bits_of_der(some) & asserted != 0)
        }
        Part::AltName(_) | Part::OtherName(_) => {
            let Some(found) = extensions.find(extension::SUBJECT_ALT_NAME) else { return Some(false) };
            has_alt_name(part, Reader::new(found).sequence(Tag::SEQUENCE).ok()?)?
        }
        Part::Policies(asserted) => {
            let Some(found) = extensions.find(extension::POLICIES) else { return Some(false) };
            let mut found = Reader::new(found).sequence(Tag::SEQUENCE).ok()?;
            let mut has_one = false;
            while !found.is_empty() {
                let policy = found.sequence(Tag::SEQUENCE).ok()?.element(OID).ok()?;
                has_one |= asserted.iter().any(|asserted| asserted == policy);
            }
            has_one
        }
        Part::MinNumber(_) | Part::MaxNumber(_) => {
            let Some(found) = extensions.find(extension::CRL_NUMBER) else { return Some(false) };
            let found = number_of_der(Reader::new(found).element(Tag::INTEGER).ok()?);
            match part {
                Part::MinNumber(asserted) => integer_at_least(&found, asserted),
                Part::MaxNumber(asserted) => integer_at_least(asserted, &found),
                _ => false,
            }
        }
        // The caller has evaluated these parts, or an assertion of this type cannot contain them.
        Part::Serial(_) | Part::Issuer(_) | Part::Subject(_) | Part::ValidAt(_) | Part::KeyAlgorithm(_) => {
            false
        }
    })
}

fn has_alt_name(part: &Part, mut names: Reader<'_>) -> Option<bool> {
    while !names.is_empty() {
        let (Tag(tag), content) = names.any().ok()?;
        let is_it = match part {
            Part::AltName(choice) => tag & 0x1f == *choice,
            Part::OtherName(kind) => {
                tag & 0x1f == 0 && Reader::new(content).element(OID).is_ok_and(|found| found == kind)
            }
            _ => false,
        };
        if is_it {
            return Some(true);
        }
    }
    Some(false)
}

const BIT_STRING: Tag = Tag(0x03);

fn number_of_der(content: &[u8]) -> Vec<u8> {
    let mut number = Vec::new();
    write_serial(content, &mut number);
    number
}

fn generalized_of_der(content: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    time::generalized_key(content, &mut key).ok()?;
    Some(key)
}

/// Returns the first sixteen bits of a BIT STRING, whose first octet is the number of unused bits.
fn bits_of_der(content: &[u8]) -> u16 {
    let octet = |place: usize| content.get(place).copied().unwrap_or(0);
    u16::from_be_bytes([octet(1), octet(2)])
}

#[cfg(test)]
pub(super) mod tests;
