//! An X.509 attribute certificate (RFC 5755 section 4.1). A health service stored prescriptions in this form, and a
//! published benchmark measured their use in a directory.
//!
//! The structure is complete DER. The signature consists of random octets, as long as an RSA signature. The signature
//! is invalid, but no directory server verifies it.

use ber::{Tag, Writer};

use crate::Seeded;

const SEQUENCE: Tag = Tag(0x30);
const SET: Tag = Tag(0x31);
const OBJECT_IDENTIFIER: Tag = Tag(0x06);
const BIT_STRING: Tag = Tag(0x03);
const UTF8_STRING: Tag = Tag(0x0c);
const GENERALIZED_TIME: Tag = Tag(0x18);

/// sha256WithRSAEncryption, 1.2.840.113549.1.1.11.
const SIGNATURE_ALGORITHM: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
/// commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// userId, 0.9.2342.19200300.100.1.1.
const USER_ID: &[u8] = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01];
/// description, 2.5.4.13. This attribute contains the prescription.
const DESCRIPTION: &[u8] = &[0x55, 0x04, 0x0d];

const MEDICINES: [&str; 8] = [
    "Amoxicillin 500 mg",
    "Atorvastatin 20 mg",
    "Ibuprofen 400 mg",
    "Metformin 850 mg",
    "Omeprazole 20 mg",
    "Paracetamol 500 mg",
    "Ramipril 5 mg",
    "Salbutamol 100 mcg",
];

/// Appends a certificate. `number` becomes the serial number, so that no two certificates are equal.
pub(super) fn put_attribute_certificate(number: u64, seeded: &mut Seeded, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    let certificate = writer.begin(SEQUENCE);
    let info = writer.begin(SEQUENCE);
    writer.integer(1); // v2
    // The field holder, with the patient as entityName [1].
    let holder = writer.begin(SEQUENCE);
    let patient = format!("{:010}", seeded.below(10_000_000_000));
    put_directory_name(&mut writer, Tag(0xa1), USER_ID, &patient);
    writer.end(holder);
    // The field issuer, as v2Form [0] with issuerName.
    let issuer = writer.begin(Tag(0xa0));
    let prescriber = format!("Prescriber {}", seeded.below(10_000));
    put_directory_name(&mut writer, SEQUENCE, COMMON_NAME, &prescriber);
    writer.end(issuer);
    put_algorithm(&mut writer);
    writer.integer(number as i64 + 1);
    let validity = writer.begin(SEQUENCE);
    let month = 1 + seeded.below(6);
    for month in [month, month + 6] {
        writer.element(GENERALIZED_TIME, format!("2026{month:02}01000000Z").as_bytes());
    }
    writer.end(validity);
    let attributes = writer.begin(SEQUENCE);
    let attribute = writer.begin(SEQUENCE);
    writer.element(OBJECT_IDENTIFIER, DESCRIPTION);
    let values = writer.begin(SET);
    let medicine = seeded.choose(&MEDICINES);
    let text = format!("{medicine}, {} a day for {} days", 1 + seeded.below(3), 7 * (1 + seeded.below(8)));
    writer.element(UTF8_STRING, text.as_bytes());
    writer.end(values);
    writer.end(attribute);
    writer.end(attributes);
    writer.end(info);
    put_algorithm(&mut writer);
    let mut signature = [0; 257]; // No unused bits, then 2,048 bits.
    for chunk in signature[1..].chunks_mut(8) {
        chunk.copy_from_slice(&seeded.next_u64().to_be_bytes()[..chunk.len()]);
    }
    writer.element(BIT_STRING, &signature);
    writer.end(certificate);
}

fn put_algorithm(writer: &mut Writer<'_>) {
    let algorithm = writer.begin(SEQUENCE);
    writer.element(OBJECT_IDENTIFIER, SIGNATURE_ALGORITHM);
    writer.null();
    writer.end(algorithm);
}

/// Appends GeneralNames with one directoryName `[4]` that has one RDN.
fn put_directory_name(writer: &mut Writer<'_>, tag: Tag, attribute: &[u8], value: &str) {
    let names = writer.begin(tag);
    let name = writer.begin(Tag(0xa4));
    let rdns = writer.begin(SEQUENCE);
    let rdn = writer.begin(SET);
    let ava = writer.begin(SEQUENCE);
    writer.element(OBJECT_IDENTIFIER, attribute);
    writer.element(UTF8_STRING, value.as_bytes());
    for mark in [ava, rdn, rdns, name, names] {
        writer.end(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ber::Reader;

    #[test]
    fn certificate_is_a_complete_attribute_certificate() {
        let make = |number| {
            let mut out = Vec::new();
            put_attribute_certificate(number, &mut Seeded::new(number), &mut out);
            out
        };
        let bytes = make(7);
        assert_eq!(bytes, make(7));
        assert_ne!(bytes, make(8));
        let mut whole = Reader::new(&bytes);
        let mut certificate = whole.sequence(SEQUENCE).unwrap();
        assert!(whole.is_empty());
        let mut info = certificate.sequence(SEQUENCE).unwrap();
        assert_eq!(info.integer().unwrap(), 1);
        let mut holder = info.sequence(SEQUENCE).unwrap();
        let mut name = holder.sequence(Tag(0xa1)).unwrap().sequence(Tag(0xa4)).unwrap();
        let mut rdn = name.sequence(SEQUENCE).unwrap().sequence(SET).unwrap().sequence(SEQUENCE).unwrap();
        assert_eq!(rdn.element(OBJECT_IDENTIFIER).unwrap(), USER_ID);
        assert_eq!(rdn.element(UTF8_STRING).unwrap().len(), 10);
        info.sequence(Tag(0xa0)).unwrap();
        info.sequence(SEQUENCE).unwrap();
        assert_eq!(info.integer().unwrap(), 8);
        let mut validity = info.sequence(SEQUENCE).unwrap();
        let (from, to) =
            (validity.element(GENERALIZED_TIME).unwrap(), validity.element(GENERALIZED_TIME).unwrap());
        assert!(from < to && from.len() == 15);
        info.sequence(SEQUENCE).unwrap();
        assert!(info.is_empty());
        certificate.sequence(SEQUENCE).unwrap();
        assert_eq!(certificate.element(BIT_STRING).unwrap().len(), 257);
        assert!(certificate.is_empty());
    }
}
