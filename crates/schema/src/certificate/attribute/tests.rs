//! Tests with attribute certificates that are built octet by octet, and assertions about their serial number and
//! issuer.

use ber::Tag;

use super::*;
use crate::certificate::component::tests::evaluate;

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ber::put_element(&mut out, Tag(tag), content);
    out
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn directory_name(common_name: &str) -> Vec<u8> {
    let ava = sequence(&[element(6, &[0x55, 4, 3]), element(0x0c, common_name.as_bytes())]);
    element(0xa4, &sequence(&[element(0x31, &ava)]))
}

/// Returns an attribute certificate (version 2 with `is_v2`) of a patient, with this serial number and issuer.
fn certificate(is_v2: bool, serial: &[u8], issuer: Vec<u8>) -> Vec<u8> {
    holder_certificate(is_v2, serial, issuer, element(0xa1, &directory_name("Patient")))
}

fn holder_certificate(is_v2: bool, serial: &[u8], issuer: Vec<u8>, holder: Vec<u8>) -> Vec<u8> {
    let algorithm = sequence(&[element(6, &[0x2b, 0x65, 0x70])]);
    let validity = sequence(&[element(0x18, b"20260101000000Z"), element(0x18, b"20270101000000Z")]);
    let prescription = sequence(&[element(6, &[0x2a, 3, 4]), element(0x31, &element(0x0c, b"aspirin"))]);
    let mut body = if is_v2 { element(2, &[1]) } else { Vec::new() };
    body.extend(if is_v2 { sequence(&[holder]) } else { holder });
    body.extend(
        [issuer, algorithm.clone(), element(2, serial), validity, sequence(&[prescription])].concat(),
    );
    sequence(&[element(0x30, &body), algorithm, element(3, &[0, 1])])
}

fn v2_form(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0xa0, &parts.concat())
}

fn key_of_value(value: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    key(&Schema::shipped(), value, 0, &mut out).map(|()| out)
}

fn key_of_assertion(assertion: &str) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    assertion_key(&Schema::shipped(), assertion.as_bytes(), &mut out).map(|()| out)
}

#[test]
fn certificates_match_their_assertions() {
    let doctor = certificate(true, &[0, 0x80], v2_form(&[sequence(&[directory_name("Doctor")])]));
    let old = certificate(false, &[0, 0x80], sequence(&[directory_name("Doctor")]));
    for assertion in [
        "{ serialNumber 128, issuer { issuerName { directoryName:rdnSequence:\"CN=doctor\" } } }",
        "{ issuer { issuerName {directoryName:rdnSequence:\"cn=DOCTOR\"} }, serialNumber '0080'H }",
        "{ serialNumber 128, issuer v2Form:{ issuerName { directoryName:rdnSequence:\"cn=doctor\" } } }",
        "{ serialNumber 128, issuer v1Form:{ directoryName:rdnSequence:\"cn=doctor\" } }",
    ] {
        assert_eq!(key_of_assertion(assertion), key_of_value(&doctor), "{assertion}");
        assert_eq!(key_of_assertion(assertion), key_of_value(&old), "{assertion}");
    }
    for other in [
        "{ serialNumber 129, issuer { issuerName { directoryName:rdnSequence:\"cn=doctor\" } } }",
        "{ serialNumber 128, issuer { issuerName { directoryName:rdnSequence:\"cn=nurse\" } } }",
        "{ serialNumber 128, issuer { issuerName { dNSName:\"cn=doctor\" } } }",
        "{ serialNumber 128, issuer { baseCertificateID { issuer { directoryName:rdnSequence:\"cn=doctor\" }, \
         serial 128 } } }",
    ] {
        assert!(key_of_assertion(other).is_ok(), "{other}");
        assert_ne!(key_of_assertion(other), key_of_value(&doctor), "{other}");
    }
}

#[test]
fn issuers_of_every_form_match() {
    let names = sequence(&[
        element(0x81, b"Doctor@Example.COM"),
        element(0x82, b"Example.COM"),
        element(0x86, b"http://example.com/A"),
        element(0x87, &[127, 0, 0, 1]),
        element(0x88, &[0x2a, 3]),
    ]);
    let value = certificate(true, &[1], v2_form(&[names]));
    let asserted = "{ serialNumber 1, issuer { issuerName { rfc822Name:\"Doctor@example.com\", \
                    dNSName:\"EXAMPLE.com\", uniformResourceIdentifier:\"http://example.com/A\", \
                    iPAddress:'7F000001'H, registeredID:1.2.3 } } }";
    assert_eq!(key_of_assertion(asserted), key_of_value(&value));
    assert_ne!(key_of_assertion(&asserted.replace("Doctor@", "doctor@")), key_of_value(&value));
    assert_ne!(key_of_assertion(&asserted.replace("/A", "/a")), key_of_value(&value));

    // Assertions in the form that slapd writes.
    let base = element(0xa0, &[sequence(&[directory_name("CA")]), element(2, &[7])].concat());
    let value = certificate(true, &[1], v2_form(&[base]));
    let asserted = "{ serialNumber '01'H, issuer { baseCertificateID { issuer { \
                    directoryName:rdnSequence:\"cn=ca\" }, serial '07'H } } }";
    assert_eq!(key_of_assertion(asserted), key_of_value(&value));
    assert_ne!(key_of_assertion(&asserted.replace("'07'", "'08'")), key_of_value(&value));

    let name = sequence(&[directory_name("Doctor")]);
    let with_digest = certificate(true, &[1], v2_form(&[name.clone(), element(0xa1, &element(10, &[0]))]));
    assert_ne!(key_of_value(&with_digest), key_of_value(&certificate(true, &[1], v2_form(&[name]))));
}

#[test]
fn invalid_assertions_are_undefined() {
    for bad in [
        "",
        "{ serialNumber 1 }",
        "{ serialNumber x, issuer { issuerName { dNSName:\"a\" } } }",
        "{ serialNumber 1, issuer { issuerName { directoryName:\"cn=a\" } } }",
        "{ serialNumber 1, issuer { issuerName { otherName:{ type-id 1.2, value \"\" } } } }",
        "{ serialNumber 1, issuer { objectDigestInfo { digestedObjectType publicKey } } }",
        "{ serialNumber 1, issuer { baseCertificateID { serial 1 } } }",
        "{ serialNumber 1, issuer rdnSequence:\"cn=a\" }",
    ] {
        assert!(key_of_assertion(bad).is_err(), "{bad}");
    }
}

/// Name of the rule that matches by components.
const MATCH: &str = "attributeCertificateMatch";

/// Assertions match certificates by holder, issuer, validity and attribute type.
#[test]
fn certificates_match_by_any_of_their_parts() {
    let doctor = || sequence(&[directory_name("Doctor")]);
    let (new, old) = (certificate(true, &[1], v2_form(&[doctor()])), certificate(false, &[1], doctor()));
    for (assertion, expected) in [
        ("{ holder holderName:{ directoryName:rdnSequence:\"CN=patient\" } }", true),
        ("{ holder holderName:{ directoryName:rdnSequence:\"cn=doctor\" } }", false),
        ("{ holder baseCertificateID:{ issuer { directoryName:rdnSequence:\"cn=ca\" }, serial 7 } }", false),
        ("{ issuer { directoryName:rdnSequence:\"cn=doctor\" } }", true),
        ("{ issuer { directoryName:rdnSequence:\"cn=patient\" } }", false),
        ("{ attCertValidity \"20260101000000Z\" }", true),
        ("{ attCertValidity \"20270101000000Z\" }", true),
        ("{ attCertValidity \"20270101000001Z\" }", false),
        ("{ attType { 1.2.3.4 } }", true),
        ("{ attType { 1.2.3.4, 1.2.3.5 } }", false),
        ("{ issuer { directoryName:rdnSequence:\"cn=doctor\" }, attType { 1.2.3.4 } }", true),
        ("{ issuer { directoryName:rdnSequence:\"cn=doctor\" }, attCertValidity \"2025010100Z\" }", false),
    ] {
        for value in [&new, &old] {
            assert_eq!(evaluate(MATCH, assertion, value), Some(expected), "{assertion}");
        }
    }
    let base = element(0xa0, &[sequence(&[directory_name("CA")]), element(2, &[7])].concat());
    let with_base = holder_certificate(true, &[1], v2_form(&[sequence(&[directory_name("Doctor")])]), base);
    let asserted =
        "{ holder baseCertificateID:{ issuer { directoryName:rdnSequence:\"cn=CA\" }, serial 7 } }";
    assert_eq!(evaluate(MATCH, asserted, &with_base), Some(true));
    assert_eq!(evaluate(MATCH, &asserted.replace('7', "8"), &with_base), Some(false));
    for bad in
        ["{ }", "{ holder { } }", "{ attType { x } }", "{ attCertValidity 2027 }", "{ serialNumber 1 }"]
    {
        assert_eq!(evaluate(MATCH, bad, &new), None, "{bad}");
    }
}

#[test]
fn every_truncation_is_refused() {
    let whole = certificate(true, &[1], v2_form(&[sequence(&[directory_name("Doctor")])]));
    assert_eq!(check(&whole), Ok(()));
    for size in 0..whole.len() {
        assert!(check(&whole[..size]).is_err(), "{size}");
    }
    assert!(check(&[&whole[..], &[0]].concat()).is_err());
    for offset in 0..whole.len() {
        let mut broken = whole.clone();
        broken[offset] ^= 0xff;
        let _ = key_of_value(&broken); // must not panic
    }
}
