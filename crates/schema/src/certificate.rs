//! Keys of X.509 certificates, revocation lists and certificate pairs (RFC 4523 section 3).
//!
//! Only the fields that the exact-match rules compare are read: serial number and issuer of a certificate, issuer and
//! time of a revocation list. The reader never follows a length past its input and never recurses. Signatures and
//! extensions are not checked; values are stored byte for byte.
//!
//! | key | octets |
//! |---|---|
//! | certificate | length of the serial number (one), its DER content, key of the issuer |
//! | revocation list | key of thisUpdate (seven octets), key of the issuer |
//! | pair | for each half present: its number (1 or 2), length of the certificate's key (four octets), the key |
//! | algorithm | its OID as in names, DER of the parameters unless they are NULL |

pub(crate) mod attribute;
pub(crate) mod component;
mod fields;

use ber::{BerError, Reader, Tag};

use crate::name_key::{lenient_ava_key, value_key, write_rdn};
use crate::syntax_text::text;
use crate::type_key::write_type;
use crate::{Fault, Schema, gser, integer, oid, time};

/// Maximum size of a serial number in octets. RFC 5280 section 4.1.2.2 allows 20; some certificate authorities have
/// used more.
const SERIAL_SIZE_MAX: usize = 255;

/// The fields that identify a certificate, as DER content.
struct CertificateParts<'a> {
    serial: &'a [u8],
    issuer: Reader<'a>,
}

pub(crate) fn not_der(_: BerError) -> Fault {
    Fault::Expected { offset: 0, what: "a DER-encoded X.509 structure" }
}

fn certificate_parts(value: &[u8]) -> Result<CertificateParts<'_>, Fault> {
    let parse = || {
        let mut whole = Reader::new(value);
        let mut certificate = whole.sequence(Tag::SEQUENCE)?;
        let mut body = certificate.sequence(Tag::SEQUENCE)?;
        body.optional(Tag::context_constructed(0))?;
        let serial = body.element(Tag::INTEGER)?;
        body.element(Tag::SEQUENCE)?;
        let issuer = body.sequence(Tag::SEQUENCE)?;
        Ok((whole.is_empty(), serial, issuer))
    };
    let (complete, serial, issuer) = parse().map_err(not_der)?;
    if !complete {
        return Err(Fault::Expected { offset: 0, what: "one certificate and no trailing octets" });
    }
    if serial.is_empty() || serial.len() > SERIAL_SIZE_MAX {
        return Err(Fault::OutOfRange { what: "the serial number" });
    }
    Ok(CertificateParts { serial, issuer })
}

/// Fields of a certificate that the TLS layer uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The subject as a DN (RFC 4514), with attribute types as OIDs. Empty if the subject is empty.
    pub subject: String,
    /// The issuer in the same form as the subject.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// Start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity, in seconds since 1970.
    pub not_after: i64,
    /// OID of the signature algorithm.
    pub signature_algorithm: String,
}

/// Reads a certificate in DER (RFC 5280 section 4.1). Does not verify the signature.
///
/// # Errors
/// The value is not a certificate.
pub fn certificate_facts(value: &[u8]) -> Result<CertificateFacts, Fault> {
    let parse = || {
        let mut certificate = Reader::new(value).sequence(Tag::SEQUENCE)?;
        let mut body = certificate.sequence(Tag::SEQUENCE)?;
        body.optional(Tag::context_constructed(0))?;
        let serial = body.element(Tag::INTEGER)?;
        body.element(Tag::SEQUENCE)?;
        let issuer = body.sequence(Tag::SEQUENCE)?;
        let mut validity = body.sequence(Tag::SEQUENCE)?;
        let times = (validity.any()?, validity.any()?);
        let signed_by = certificate.sequence(Tag::SEQUENCE)?.element(Tag(0x06))?;
        Ok((times, (serial, issuer), body.sequence(Tag::SEQUENCE)?, signed_by))
    };
    let ((not_before, not_after), (serial, issuer), subject, signed_by) = parse().map_err(not_der)?;
    let signature_algorithm = oid::decode_oid(signed_by).ok_or(BAD_OID)?.to_string();
    Ok(CertificateFacts {
        subject: name_text(subject)?,
        issuer: name_text(issuer)?,
        serial: serial.iter().map(|octet| format!("{octet:02x}")).collect(),
        not_before: seconds(not_before, "a time in notBefore")?,
        not_after: seconds(not_after, "a time in notAfter")?,
        signature_algorithm,
    })
}

/// Returns a time of a certificate, in seconds since 1970.
fn seconds((tag, time): (Tag, &[u8]), what: &'static str) -> Result<i64, Fault> {
    match tag {
        Tag(0x17) => time::utc_seconds(time),
        Tag(0x18) => time::generalized_seconds(time),
        _ => Err(Fault::Expected { offset: 0, what }),
    }
}

/// Returns a Name in DER as a DN: its RDNs in reverse order (RFC 4514 section 2.1).
fn name_text(mut name: Reader<'_>) -> Result<String, Fault> {
    let mut rdns = Vec::new();
    while !name.is_empty() {
        let mut rdn = name.sequence(Tag::SET).map_err(not_der)?;
        let mut avas = Vec::new();
        while !rdn.is_empty() {
            let mut ava = rdn.sequence(Tag::SEQUENCE).map_err(not_der)?;
            let attribute = ava.element(Tag(0x06)).map_err(not_der)?;
            let (tag, content) = ava.any().map_err(not_der)?;
            let mut text = format!("{}=", oid::decode_oid(attribute).ok_or(BAD_OID)?);
            ldap::escape_value(&utf8_of_der(tag, content), &mut text);
            avas.push(text);
        }
        rdns.push(avas.join("+"));
    }
    rdns.reverse();
    Ok(rdns.join(","))
}

/// Checks that a value has the structure of a certificate.
pub(crate) fn check_certificate(value: &[u8]) -> Result<(), Fault> {
    certificate_parts(value).map(drop)
}

/// Appends the key of a certificate.
pub(crate) fn certificate_key(
    schema: &Schema,
    value: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let parts = certificate_parts(value)?;
    write_serial(parts.serial, out);
    name_of_der(schema, parts.issuer, depth, out)
}

/// Appends the key of `{ serialNumber 1, issuer rdnSequence:"..." }`. The older forms `issuer "..."`, from drafts of
/// RFC 4523, and `1$issuer` are accepted too.
pub(crate) fn certificate_assertion_key(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let text = text(value)?;
    if let Some((serial, issuer)) = text.split_once('$').filter(|_| !text.trim_start().starts_with('{')) {
        write_serial_text(serial.trim(), out)?;
        return value_key(schema, issuer.trim(), 0, out);
    }
    let components = gser::sequence(text)?;
    write_serial_text(gser::component(&components, "serialNumber", "serialNumber")?, out)?;
    issuer_key(schema, gser::component(&components, "issuer", "issuer")?, out)
}

fn issuer_key(schema: &Schema, issuer: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    let sequence = issuer.strip_prefix("rdnSequence:").unwrap_or(issuer);
    let name =
        gser::quoted(sequence).map_err(|_| Fault::Expected { offset: 0, what: "rdnSequence:\"...\"" })?;
    value_key(schema, &name, 0, out)
}

pub(crate) fn write_serial(serial: &[u8], out: &mut Vec<u8>) {
    // Some certificate authorities pad the number, although DER permits only the shortest form (X.690 section 8.3.2).
    let mut shortest = serial;
    while let [first @ (0 | 0xff), behind @ ..] = shortest
        && behind.first().is_some_and(|next| (next & 0x80 != 0) == (*first == 0xff))
    {
        shortest = behind;
    }
    let [.., size] = shortest.len().to_be_bytes();
    out.push(size);
    out.extend_from_slice(shortest);
}

/// Appends a serial number. The text is decimal or, as slapd writes it, the DER content in hexadecimal: `'0A1B'H`.
pub(crate) fn write_serial_text(text: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    if !text.starts_with('\'') {
        return write_decimal_serial(text, out);
    }
    let serial = gser::octets(text)?;
    if serial.is_empty() || serial.len() > SERIAL_SIZE_MAX {
        return Err(Fault::OutOfRange { what: "serialNumber" });
    }
    write_serial(&serial, out);
    Ok(())
}

/// Converts a decimal number to the two's complement octets of DER. The number of digits is limited: see
/// [`SERIAL_SIZE_MAX`].
pub(crate) fn write_decimal_serial(text: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (negative, digits) = integer::parse(text.as_bytes())?;
    if digits.len() > SERIAL_SIZE_MAX * 2 {
        return Err(Fault::OutOfRange { what: "serialNumber" });
    }
    let mut little_endian: Vec<u8> = vec![0];
    for digit in digits {
        let mut carry = digit - b'0';
        for byte in &mut little_endian {
            let [high, low] = (u16::from(*byte) * 10 + u16::from(carry)).to_be_bytes();
            (*byte, carry) = (low, high);
        }
        if carry > 0 {
            little_endian.push(carry);
        }
    }
    little_endian.push(0);
    if negative {
        let mut carry = true;
        for byte in &mut little_endian {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    little_endian.reverse();
    write_serial(&little_endian, out);
    Ok(())
}

/// Appends the key of a Name in DER. An RDNSequence begins with the RDN below the root, and so does a key.
pub(crate) fn name_of_der(
    schema: &Schema,
    mut name: Reader<'_>,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    while !name.is_empty() {
        let mut rdn = name.sequence(Tag::SET).map_err(not_der)?;
        let mut ava_keys = Vec::new();
        while !rdn.is_empty() {
            let mut ava = rdn.sequence(Tag::SEQUENCE).map_err(not_der)?;
            let attribute = ava.element(Tag(0x06)).map_err(not_der)?;
            let (tag, content) = ava.any().map_err(not_der)?;
            let attribute = oid::decode_oid(attribute).ok_or(BAD_OID)?;
            let mut key = Vec::new();
            lenient_ava_key(schema, &attribute, &utf8_of_der(tag, content), depth, &mut key);
            ava_keys.push(key);
        }
        write_rdn(ava_keys, out);
    }
    Ok(())
}

pub(crate) const BAD_OID: Fault = Fault::Expected { offset: 0, what: "an object identifier in the issuer" };

/// Returns the characters of an ASN.1 string as UTF-8 (RFC 4518 section 2.1). For any other type, returns the content
/// octets.
fn utf8_of_der(tag: Tag, content: &[u8]) -> Vec<u8> {
    const TELETEX: Tag = Tag(0x14);
    const UNIVERSAL: Tag = Tag(0x1c);
    const BMP: Tag = Tag(0x1e);
    match tag {
        // There is no agreed mapping for Teletex strings. Software that still uses them writes Latin-1.
        TELETEX if !content.is_ascii() => {
            content.iter().map(|&byte| char::from(byte)).collect::<String>().into()
        }
        BMP => {
            let units = content.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{FFFD}')).collect::<String>().into()
        }
        UNIVERSAL => content
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_be_bytes(*word))
            .map(|code| char::from_u32(code).unwrap_or('\u{FFFD}'))
            .collect::<String>()
            .into(),
        _ => content.to_vec(),
    }
}

/// Returns the issuer and the time of a revocation list.
pub(crate) fn list_parts(value: &[u8]) -> Result<(Reader<'_>, Tag, &[u8]), Fault> {
    let parse = || {
        let mut whole = Reader::new(value);
        let mut list = whole.sequence(Tag::SEQUENCE)?;
        let mut body = list.sequence(Tag::SEQUENCE)?;
        body.optional(Tag::INTEGER)?;
        body.element(Tag::SEQUENCE)?;
        let issuer = body.sequence(Tag::SEQUENCE)?;
        let (tag, update) = body.any()?;
        Ok((whole.is_empty(), issuer, tag, update))
    };
    match parse().map_err(not_der)? {
        (true, issuer, tag, update) => Ok((issuer, tag, update)),
        _ => Err(Fault::Expected { offset: 0, what: "one revocation list and no trailing octets" }),
    }
}

/// Checks that a value has the structure of a revocation list.
pub(crate) fn check_list(value: &[u8]) -> Result<(), Fault> {
    list_parts(value).map(drop)
}

/// Appends the key of a revocation list.
pub(crate) fn list_key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (issuer, tag, update) = list_parts(value)?;
    match tag {
        Tag(0x17) => time::utc_key(update, out)?,
        Tag(0x18) => time::generalized_key(update, out)?,
        _ => return Err(Fault::Expected { offset: 0, what: "a time in thisUpdate" }),
    }
    name_of_der(schema, issuer, depth, out)
}

/// Appends the key of `{ issuer rdnSequence:"...", thisUpdate utcTime:"..." }`.
pub(crate) fn list_assertion_key(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let components = gser::sequence(text(value)?)?;
    let update = gser::component(&components, "thisUpdate", "thisUpdate")?;
    match update.split_once(':') {
        Some(("utcTime", text)) => time::utc_key(gser::quoted(text)?.as_bytes(), out)?,
        Some(("generalizedTime" | "generalTime", text)) => {
            time::generalized_key(gser::quoted(text)?.as_bytes(), out)?
        }
        _ => return Err(Fault::Expected { offset: 0, what: "utcTime: or generalizedTime:" }),
    }
    issuer_key(schema, gser::component(&components, "issuer", "issuer")?, out)
}

/// Checks that a value has the structure of a certificate pair.
pub(crate) fn check_pair(value: &[u8]) -> Result<(), Fault> {
    pair_halves(value)?.into_iter().flatten().try_for_each(check_certificate)
}

/// Returns the two certificates of a pair: the certificate issued to this authority, and the certificate issued by this
/// authority.
pub(crate) fn pair_halves(value: &[u8]) -> Result<[Option<&[u8]>; 2], Fault> {
    let parse = || {
        let mut whole = Reader::new(value);
        let mut pair = whole.sequence(Tag::SEQUENCE)?;
        let forward = pair.optional(Tag::context_constructed(0))?;
        let reverse = pair.optional(Tag::context_constructed(1))?;
        Ok((whole.is_empty() && pair.is_empty(), [forward, reverse]))
    };
    match parse().map_err(not_der)? {
        (true, halves) if halves.iter().any(Option::is_some) => Ok(halves),
        _ => Err(Fault::Expected { offset: 0, what: "a certificate pair" }),
    }
}

/// Appends the key of a certificate pair.
pub(crate) fn pair_key(schema: &Schema, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    for (number, half) in (1..).zip(pair_halves(value)?) {
        if let Some(half) = half {
            write_part(number, out, |out| certificate_key(schema, half, depth, out))?;
        }
    }
    Ok(())
}

/// Appends the key of `{ issuedToThisCAAssertion {...}, issuedByThisCAAssertion {...} }`. If one half is omitted, only
/// pairs without that half match.
pub(crate) fn pair_assertion_key(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let components = gser::sequence(text(value)?)?;
    for (number, name) in (1..).zip(["issuedToThisCAAssertion", "issuedByThisCAAssertion"]) {
        if let Ok(half) = gser::component(&components, name, name) {
            write_part(number, out, |out| certificate_assertion_key(schema, half.as_bytes(), out))?;
        }
    }
    Ok(())
}

/// Appends the number of a part, the size of the part's key, and the key.
pub(crate) fn write_part(
    number: u8,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    out.push(number);
    put_sized(out, write)
}

/// Appends the output of `write`, preceded by its size in four octets.
pub(crate) fn put_sized(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let [.., a, b, c, d] = (out.len() - start - 4).to_be_bytes();
    if let Some(size) = out.get_mut(start..start + 4) {
        size.copy_from_slice(&[a, b, c, d]);
    }
    Ok(())
}

/// Appends the key of a SupportedAlgorithm: its algorithm identifier.
pub(crate) fn algorithm_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let parse = || {
        let mut algorithm = Reader::new(value).sequence(Tag::SEQUENCE)?.sequence(Tag::SEQUENCE)?;
        let identifier = algorithm.element(Tag(0x06))?;
        let parameters = match algorithm.peek_tag() {
            None | Some(Tag::NULL) => &[][..],
            Some(_) => algorithm.any_whole()?.1,
        };
        Ok((identifier, parameters))
    };
    let (identifier, parameters) = parse().map_err(not_der)?;
    write_algorithm(&oid::decode_oid(identifier).ok_or(BAD_OID)?, parameters, out);
    Ok(())
}

/// Appends the key of `{ algorithm 1.2.3 }`; parameters other than NULL cannot be asserted.
pub(crate) fn algorithm_assertion_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let components = gser::sequence(text(value)?)?;
    if gser::component(&components, "parameters", "").is_ok_and(|parameters| parameters != "NULL") {
        return Err(Fault::Expected { offset: 0, what: "no parameters, or NULL" });
    }
    write_algorithm(gser::component(&components, "algorithm", "algorithm")?, &[], out);
    Ok(())
}

fn write_algorithm(identifier: &str, parameters: &[u8], out: &mut Vec<u8>) {
    write_type(identifier, out);
    out.extend_from_slice(parameters);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        if content.len() < 128 {
            out.push(content.len() as u8);
        } else {
            out.extend_from_slice(&[0x82, (content.len() >> 8) as u8, content.len() as u8]);
        }
        out.extend_from_slice(content);
        out
    }

    fn ava(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(0x30, &[element(0x06, oid), element(tag, value)].concat())
    }

    /// Returns the issuer `cn=Root é+ou=CA,o=Example`, encoded in three string types.
    fn issuer() -> Vec<u8> {
        let organisation = element(0x31, &ava(&[0x55, 4, 10], 0x13, b"Example"));
        let name = [ava(&[0x55, 4, 3], 0x1e, &[0, b'R', 0, b'o', 0, b'o', 0, b't', 0, b' ', 0, 0xe9])];
        let unit = ava(&[0x55, 4, 11], 0x0c, b"CA");
        element(0x30, &[organisation, element(0x31, &[name.concat(), unit].concat())].concat())
    }

    fn certificate(serial: &[u8]) -> Vec<u8> {
        let version = element(0xa0, &element(2, &[2]));
        let body = [version, element(2, serial), element(0x30, &[]), issuer(), element(0x30, &[])].concat();
        element(0x30, &[element(0x30, &body), element(0x30, &[]), element(3, &[0])].concat())
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02X}")).collect()
    }

    type Key = fn(&Schema, &[u8], &mut Vec<u8>) -> Result<(), Fault>;

    fn key(make: Key, value: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        make(&Schema::shipped(), value, &mut out).map(|()| out)
    }

    fn key_of_certificate(value: &[u8]) -> Result<Vec<u8>, Fault> {
        key(|schema, value, out| certificate_key(schema, value, 0, out), value)
    }

    #[test]
    fn certificates_match_their_assertions() {
        for (serial, decimal) in [
            (&[1][..], "1"),
            (&[0x7f], "127"),
            (&[0, 0x80], "128"),
            (&[0, 0, 0x80], "128"),
            (&[0xff], "-1"),
            (&[0x80], "-128"),
            (&[0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11], "335812727670730321937"),
        ] {
            let value = key_of_certificate(&certificate(serial)).unwrap();
            for assertion in [
                format!("{{ serialNumber {decimal}, issuer rdnSequence:\"CN=root É+ou=ca,O=EXAMPLE\" }}"),
                format!("{{issuer rdnSequence:\"ou=CA+cn=Root é, o=Example\",serialNumber {decimal}}}"),
                format!("{{ serialNumber {decimal}, issuer \"cn=Root É+ou=ca,o=example\" }}"),
                format!("{{ serialNumber '{}'H, issuer \"cn=root é+ou=ca,o=example\" }}", hex(serial)),
                format!("{decimal}$cn=root é+ou=ca,o=example"),
            ] {
                assert_eq!(
                    key(certificate_assertion_key, assertion.as_bytes()),
                    Ok(value.clone()),
                    "{assertion}"
                );
            }
            let other = format!("{{ serialNumber {decimal}, issuer rdnSequence:\"o=example\" }}");
            assert_ne!(key(certificate_assertion_key, other.as_bytes()), Ok(value));
        }
        for bad in [
            "",
            "1",
            "{ serialNumber 1 }",
            "{ serialNumber x, issuer rdnSequence:\"cn=a\" }",
            "{ serialNumber ''H, issuer \"cn=a\" }",
            "{ serialNumber 1, issuer cn=a }",
            "x$cn=a",
        ] {
            assert!(key(certificate_assertion_key, bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let whole = certificate(&[1]);
        for size in 0..whole.len() {
            assert!(key_of_certificate(&whole[..size]).is_err(), "{size}");
        }
        assert!(key_of_certificate(&[&whole[..], &[0]].concat()).is_err());
        for offset in 0..whole.len() {
            let mut broken = whole.clone();
            broken[offset] ^= 0xff;
            let _ = key_of_certificate(&broken); // must not panic
        }
    }

    #[test]
    fn lists_pairs_and_algorithms_match_their_assertions() {
        let time = element(0x17, b"260102030405Z");
        let body = [element(2, &[1]), element(0x30, &[]), issuer(), time].concat();
        let list = element(0x30, &[element(0x30, &body), element(0x30, &[])].concat());
        let value = key(|schema, value, out| list_key(schema, value, 0, out), &list).unwrap();
        for update in [
            "utcTime:\"260102030405Z\"",
            "generalTime:\"20260102030405Z\"",
            "generalizedTime:\"20260102030405Z\"",
        ] {
            let assertion =
                format!("{{ issuer rdnSequence:\"cn=root é+ou=ca,o=example\", thisUpdate {update} }}");
            assert_eq!(key(list_assertion_key, assertion.as_bytes()), Ok(value.clone()));
        }

        let pair = element(0x30, &element(0xa1, &certificate(&[5])));
        let value = key(|schema, value, out| pair_key(schema, value, 0, out), &pair).unwrap();
        let half = "{ serialNumber 5, issuer rdnSequence:\"cn=root é+ou=ca,o=example\" }";
        let assertion = format!("{{ issuedByThisCAAssertion {half} }}");
        assert_eq!(key(pair_assertion_key, assertion.as_bytes()), Ok(value));
        assert!(check_pair(&element(0x30, &[])).is_err());

        for parameters in [&[][..], &[5, 0]] {
            let identifier = [&element(6, &[0x2a, 3])[..], parameters].concat();
            let value = element(0x30, &element(0x30, &identifier));
            let expected = key(|_, value, out| algorithm_assertion_key(value, out), b"{ algorithm 1.2.3 }");
            assert_eq!(key(|_, value, out| algorithm_key(value, out), &value), expected);
            assert!(expected.is_ok());
        }
    }
}
