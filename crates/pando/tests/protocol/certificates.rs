//! Public-key certificates (RFC 4523) and attribute certificates (X.509 clause 17, RFC 5755) as values. They are
//! returned unchanged, and filters and compares can identify a certificate by its serial number and issuer.

use ber::{Tag, Writer};
use client::Connection;
use ldap::{ChangeOperation, ChangesBuf, Controls, ModifyRequest, Request, ResultCode, Scope};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SerialNumber};
use test_support::clients::ldap_utility;
use test_support::pando::command;
use test_support::tree::{person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Returns a self-signed certificate of `cn=CA,o=Example` with the serial number 4660.
fn certificate() -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.distinguished_name.push(DnType::CommonName, "CA");
    params.serial_number = Some(SerialNumber::from(vec![0x12, 0x34]));
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

/// Writes GeneralNames with the directory name `cn=NAME`.
fn put_name(writer: &mut Writer<'_>, tag: Tag, name: &str) {
    let marks = [tag, Tag(0xa4), Tag::SEQUENCE, Tag::SET, Tag::SEQUENCE].map(|tag| writer.begin(tag));
    writer.element(Tag(0x06), &[0x55, 4, 3]);
    writer.element(Tag(0x0c), name.as_bytes());
    marks.into_iter().rev().for_each(|mark| writer.end(mark));
}

/// Returns a prescription: an attribute certificate of version 2 issued by `cn=Doctor`.
fn prescription(serial: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    let (whole, body) = (writer.begin(Tag::SEQUENCE), writer.begin(Tag::SEQUENCE));
    writer.integer(1);
    let holder = writer.begin(Tag::SEQUENCE);
    put_name(&mut writer, Tag(0xa1), "Patient");
    writer.end(holder);
    let issuer = writer.begin(Tag(0xa0));
    put_name(&mut writer, Tag::SEQUENCE, "Doctor");
    writer.end(issuer);
    put_algorithm(&mut writer);
    writer.integer(serial);
    let validity = writer.begin(Tag::SEQUENCE);
    writer.element(Tag(0x18), b"20260101000000Z");
    writer.element(Tag(0x18), b"20270101000000Z");
    writer.end(validity);
    let attributes = writer.begin(Tag::SEQUENCE);
    writer.end(attributes);
    writer.end(body);
    put_algorithm(&mut writer);
    writer.element(Tag(0x03), &[0, 1, 2, 3]);
    writer.end(whole);
    out
}

fn put_algorithm(writer: &mut Writer<'_>) {
    let algorithm = writer.begin(Tag::SEQUENCE);
    writer.element(Tag(0x06), &[0x2b, 0x65, 0x70]);
    writer.end(algorithm);
}

#[test]
fn certificates_are_found_by_serial_number_and_issuer() {
    let scratch = Scratch::new("certificates");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let (own, prescriptions) = (certificate(), [1, 200].map(prescription));
    let change = |admin: &mut Connection, operation, name: &str, values: &[&[u8]]| {
        let mut list = ChangesBuf::new();
        list.push(operation, name, values);
        let modify = ModifyRequest { object: &anna, changes: list.as_changes() };
        admin.request(Request::Modify(modify), Controls::NONE).unwrap().outcome.code
    };
    let add = ChangeOperation::Add;
    assert_eq!(change(&mut admin, add, "objectClass", &[b"pkiUser", b"pmiUser"]), ResultCode::SUCCESS);
    assert_eq!(change(&mut admin, add, "userCertificate;binary", &[&own]), ResultCode::SUCCESS);
    let of_attributes = "attributeCertificateAttribute;binary";
    let values = prescriptions.each_ref().map(Vec::as_slice);
    assert_eq!(change(&mut admin, add, of_attributes, &values), ResultCode::SUCCESS);
    // The server refuses a value that exists already, and a structure that is not an attribute certificate.
    let again = change(&mut admin, add, of_attributes, &values[..1]);
    assert_eq!(again, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS);
    let wrong = change(&mut admin, add, of_attributes, &[&own]);
    assert_eq!(wrong, ResultCode::INVALID_ATTRIBUTE_SYNTAX);

    let ca = "cn=ca,o=example";
    let doctor = "issuerName { directoryName:rdnSequence:\"cn=DOCTOR\" }";
    let found = [
        ("userCertificate", format!("{{ serialNumber 4660, issuer rdnSequence:\"{ca}\" }}")),
        ("userCertificate", format!("{{ serialNumber 4660, issuer \"{ca}\" }}")),
        ("userCertificate", format!("{{ issuer \"{ca}\", serialNumber '1234'H }}")),
        ("userCertificate", format!("4660${ca}")),
        ("attributeCertificateAttribute", format!("{{ serialNumber 200, issuer {{ {doctor} }} }}")),
        ("attributeCertificateAttribute", format!("{{ serialNumber 1, issuer v2Form:{{ {doctor} }} }}")),
    ];
    let search = |name: &str, value: &str| {
        let filter = format!("({name}={value})");
        let words = ["-b", SUFFIX, &filter, "1.1"];
        ldap_utility("ldapsearch", pando.address(), &words, "").expect_code(0).stdout
    };
    for (name, value) in &found {
        assert_eq!(search(name, value).trim(), format!("dn: {anna}"), "{value}");
        let other = value.replace("4660", "4661").replace("'1234'", "'12'").replace("DOCTOR", "nurse");
        assert_eq!(search(name, &other).trim(), "", "{other}");
        let compared = admin.compare(&anna, name, value).unwrap();
        assert_eq!(compared.code, ResultCode::COMPARE_TRUE, "{value}");
    }
    let entry = admin.search(&anna, Scope::BaseObject, "(objectClass=*)", &["*"]).unwrap();
    assert_eq!(entry.entries[0].values(of_attributes).len(), 2);
    // One of two values is deleted, and the index still finds the other.
    let deleted = change(&mut admin, ChangeOperation::Delete, of_attributes, &values[..1]);
    assert_eq!(deleted, ResultCode::SUCCESS);
    assert!(pando.stop().success());
    let data = Pando::data(&scratch);
    let index = ["index", "add", "attributeCertificateAttribute", "--kinds", "equality"];
    command(&index, Some(&data)).expect_code(0);
    let (name, value) = &found[4];
    let filter = format!("({name}={value})");
    let explained = command(&["explain", "--base", SUFFIX, &filter], Some(&data)).expect_code(0).stdout;
    assert!(explained.starts_with("by indexes:") && explained.contains("returned: 1"), "{explained}");
    command(&["verify"], Some(&data)).expect_code(0);
}
