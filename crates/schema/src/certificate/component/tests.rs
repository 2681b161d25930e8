//! Tests with a certificate, a list and a pair that are built octet by octet, and assertions about every part.

use crate::{MatchingRule, RuleAssertion, Schema};

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

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn name(common_name: &str) -> Vec<u8> {
    let ava = sequence(&[element(6, &[0x55, 4, 3]), element(0x0c, common_name.as_bytes())]);
    sequence(&[element(0x31, &ava)])
}

fn extension(number: u8, value: &[u8]) -> Vec<u8> {
    sequence(&[element(6, &[0x55, 0x1d, number]), element(1, &[0xff]), element(4, value)])
}

/// Returns a certificate with serial number 300, from CA to Ada, valid from 2024 to 2026, with an Ed25519 key and these
/// extensions.
fn certificate(extensions: &[Vec<u8>]) -> Vec<u8> {
    let algorithm = sequence(&[element(6, &[0x2b, 0x65, 0x70])]);
    let validity = sequence(&[element(0x17, b"240101000000Z"), element(0x18, b"20260101000000Z")]);
    let mut body = vec![
        element(0xa0, &element(2, &[2])),
        element(2, &[0x01, 0x2c]),
        algorithm.clone(),
        name("CA"),
        validity,
        name("Ada"),
        sequence(&[algorithm.clone(), element(3, &[0, 1, 2, 3])]),
    ];
    if !extensions.is_empty() {
        body.push(element(0xa3, &sequence(extensions)));
    }
    sequence(&[sequence(&body), algorithm, element(3, &[0, 1])])
}

/// Evaluates an assertion on a value; `None` if it is Undefined.
pub(in crate::certificate) fn evaluate(rule: &str, assertion: &str, value: &[u8]) -> Option<bool> {
    let (schema, rule) = (Schema::shipped(), MatchingRule::find(rule).unwrap());
    let assertion = RuleAssertion::new(&schema, rule, assertion.as_bytes()).ok()?;
    let mut key = Vec::new();
    rule.normalize(&schema, value, &mut key).unwrap();
    Some(assertion.matches(&key))
}

#[test]
fn certificates_match_by_any_of_their_parts() {
    let bare = certificate(&[]);
    let alt_names = sequence(&[element(0x81, b"ada@example.com"), element(0xa0, &element(6, &[0x2a, 3]))]);
    let period = sequence(&[element(0x80, b"20240101000000Z"), element(0x81, b"20250101000000Z")]);
    let full = certificate(&[
        extension(14, &element(4, &[0xab, 0xcd])),
        extension(15, &element(3, &[5, 0b1010_0000])),
        extension(16, &period),
        extension(17, &alt_names),
        extension(32, &sequence(&[sequence(&[element(6, &[0x2a, 3])])])),
        extension(35, &sequence(&[element(0x80, &[0x11, 0x22]), element(0x82, &[7])])),
    ]);
    for (assertion, of_bare, of_full) in [
        ("{ serialNumber 300 }", true, true),
        ("{ serialNumber 301 }", false, false),
        ("{ issuer rdnSequence:\"CN=ca\" }", true, true),
        ("{ issuer rdnSequence:\"cn=ada\" }", false, false),
        ("{ subject rdnSequence:\"cn=ADA\", serialNumber 300 }", true, true),
        ("{ subject rdnSequence:\"cn=ada\", serialNumber 1 }", false, false),
        ("{ certificateValid utcTime:\"240101000000Z\" }", true, true),
        ("{ certificateValid generalizedTime:\"20260101000000Z\" }", true, true),
        ("{ certificateValid generalizedTime:\"20260101000001Z\" }", false, false),
        ("{ subjectPublicKeyAlgID 1.3.101.112 }", true, true),
        ("{ subjectPublicKeyAlgID 1.3.101.113 }", false, false),
        ("{ subjectKeyIdentifier 'ABCD'H }", false, true),
        ("{ subjectKeyIdentifier 'ABCE'H }", false, false),
        ("{ keyUsage { digitalSignature } }", true, true),
        ("{ keyUsage { digitalSignature, keyEncipherment } }", true, true),
        ("{ keyUsage '101'B }", true, true),
        ("{ keyUsage { nonRepudiation } }", true, false),
        ("{ privateKeyValid \"20240601000000Z\" }", true, true),
        ("{ privateKeyValid \"20250601000000Z\" }", true, false),
        ("{ subjectAltName builtinNameForm:rfc822Name }", false, true),
        ("{ subjectAltName builtinNameForm:dNSName }", false, false),
        ("{ subjectAltName otherNameForm:1.2.3 }", false, true),
        ("{ subjectAltName otherNameForm:1.2.4 }", false, false),
        ("{ policy { 1.2.9, 1.2.3 } }", false, true),
        ("{ policy { 1.2.9 } }", false, false),
        ("{ authorityKeyIdentifier { keyIdentifier '1122'H } }", false, true),
        ("{ authorityKeyIdentifier { keyIdentifier '1122'H, authorityCertSerialNumber 7 } }", false, true),
        ("{ authorityKeyIdentifier { authorityCertSerialNumber 8 } }", false, false),
    ] {
        assert_eq!(evaluate("certificateMatch", assertion, &bare), Some(of_bare), "{assertion}, bare");
        assert_eq!(evaluate("certificateMatch", assertion, &full), Some(of_full), "{assertion}, full");
    }
}

#[test]
fn unsupported_assertions_are_undefined() {
    for assertion in [
        "",
        "{ pathToName rdnSequence:\"cn=a\" }",
        "{ nameConstraints { } }",
        "{ serialNumber x }",
        "{ subject \"cn=a\" }",
        "{ keyUsage { unheardOf } }",
        "{ subjectKeyIdentifier 'AB' }",
        "{ certificateValid \"20240101000000Z\" }",
        "{ authorityKeyIdentifier { authorityCertIssuer { rfc822Name:\"a\" } } }",
        "{ unheardOf 1 }",
    ] {
        assert_eq!(evaluate("certificateMatch", assertion, &certificate(&[])), None, "{assertion}");
    }
    assert_eq!(evaluate("certificateListMatch", "{ distributionPoint fullName:{ } }", &list(true)), None);
}

fn list(has_next: bool) -> Vec<u8> {
    let reasons = sequence(&[element(0x83, &[1, 0b0100_0010])]);
    let extensions = sequence(&[extension(20, &element(2, &[0, 0x90])), extension(28, &reasons)]);
    let mut body = vec![
        element(2, &[1]),
        sequence(&[element(6, &[0x2b, 0x65, 0x70])]),
        name("CA"),
        element(0x17, b"250101000000Z"),
    ];
    if has_next {
        body.push(element(0x17, b"250201000000Z"));
        body.push(sequence(&[sequence(&[element(2, &[5]), element(0x17, b"241231000000Z")])]));
        body.push(element(0xa0, &extensions));
    }
    sequence(&[sequence(&body), sequence(&[]), element(3, &[0])])
}

#[test]
fn lists_match_by_number_time_and_reason() {
    for (assertion, of_full, of_bare) in [
        ("{ issuer rdnSequence:\"cn=ca\" }", true, true),
        ("{ issuer rdnSequence:\"cn=cb\" }", false, false),
        ("{ minCRLNumber 144 }", true, false),
        ("{ minCRLNumber 145 }", false, false),
        ("{ minCRLNumber 9 }", true, false),
        ("{ maxCRLNumber 144 }", true, false),
        ("{ maxCRLNumber 143 }", false, false),
        ("{ maxCRLNumber 100000 }", true, false),
        ("{ reasonFlags { keyCompromise } }", true, true),
        ("{ reasonFlags { superseded } }", false, true),
        ("{ reasonFlags { superseded, certificateHold } }", true, true),
        ("{ dateAndTime utcTime:\"250101000000Z\" }", true, false),
        ("{ dateAndTime utcTime:\"250201000000Z\" }", false, false),
        ("{ dateAndTime generalizedTime:\"20250115000000Z\" }", true, false),
        ("{ authorityKeyIdentifier { keyIdentifier '00'H } }", false, false),
    ] {
        assert_eq!(evaluate("certificateListMatch", assertion, &list(true)), Some(of_full), "{assertion}");
        assert_eq!(
            evaluate("certificateListMatch", assertion, &list(false)),
            Some(of_bare),
            "{assertion}, bare"
        );
    }
}

#[test]
fn certificate_pairs_match_by_either_certificate() {
    let pair = sequence(&[element(0xa1, &certificate(&[]))]);
    for (assertion, expected) in [
        ("{ issuedByThisCAAssertion { serialNumber 300 } }", Some(true)),
        ("{ issuedByThisCAAssertion { serialNumber 3 } }", Some(false)),
        ("{ issuedToThisCAAssertion { serialNumber 300 } }", Some(false)),
        ("{ other { serialNumber 300 } }", None),
    ] {
        assert_eq!(evaluate("certificatePairMatch", assertion, &pair), expected, "{assertion}");
    }
}

#[test]
fn damaged_values_do_not_match_and_cause_no_panic() {
    let schema = Schema::shipped();
    let rule = MatchingRule::find("certificateMatch").unwrap();
    let text = "{ subjectKeyIdentifier 'ABCD'H, keyUsage '1'B, certificateValid utcTime:\"250101000000Z\" }";
    let assertion = RuleAssertion::new(&schema, rule, text.as_bytes()).unwrap();
    let whole =
        certificate(&[extension(14, &element(4, &[0xab, 0xcd])), extension(15, &element(3, &[5, 0x80]))]);
    for place in 0..whole.len() {
        let mut broken = whole.clone();
        broken[place] ^= 0xff;
        for value in [&broken[..], &whole[..place]] {
            let mut key = Vec::new();
            if rule.normalize(&schema, value, &mut key).is_ok() {
                let _ = assertion.matches(&key); // must not panic
            }
        }
    }
    for key in [&b""[..], &[0xff; 9], &[0, 0, 0, 0, 0, 0, 0, 9]] {
        assert!(!assertion.matches(key));
    }
}
