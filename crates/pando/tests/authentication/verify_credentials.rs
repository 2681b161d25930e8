//! Verify Credentials: the outcome of a bind, on a connection that keeps its identity.

use client::Connection;
use ldap::{Control, Controls, ControlsBuf, ResultCode, VerifyCredentials, oids};

use crate::support::tree::{bind, person_dn, plant, plant_policy, replace, set_password};
use crate::support::{Pando, Scratch};

const DONE: ResultCode = ResultCode::SUCCESS;
const WRONG: ResultCode = ResultCode::INVALID_CREDENTIALS;

fn verify(connection: &mut Connection, name: &str, password: &str) -> (ResultCode, Option<Vec<u8>>) {
    let asked: ControlsBuf =
        [Control { oid: oids::PASSWORD_POLICY, critical: true, value: None }].into_iter().collect();
    let value = VerifyCredentials::encode_simple(name, password.as_bytes(), asked.as_controls());
    let reply = connection.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
    (reply.outcome.code, reply.extended.value)
}

fn identity(connection: &mut Connection) -> String {
    let reply = connection.extended(oids::WHO_AM_I, None).unwrap();
    String::from_utf8(reply.extended.value.unwrap_or_default()).unwrap()
}

#[test]
fn credentials_are_verified_as_by_a_bind() {
    let scratch = Scratch::new("verify-credentials");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let policy = [
        ("objectClass", "pwdPolicy"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "2"),
        ("pwdMustChange", "TRUE"),
    ];
    plant_policy(&mut admin, &policy);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    for name in ["anna", "bert"] {
        set_password(&mut admin, name, &format!("{name}-secret"));
    }
    let administrator = identity(&mut admin);
    let is_result = |value: Option<Vec<u8>>, code: ResultCode| {
        let text = VerifyCredentials::encode_result(code, "", Controls::NONE);
        assert_eq!(value.unwrap()[2..5], text[2..5], "{code}");
    };
    let (code, value) = verify(&mut admin, &bert, "bert-secret");
    assert_eq!(code, DONE);
    // The control of password policies says that the user has to change the password.
    let oid = oids::PASSWORD_POLICY.as_bytes();
    assert!(value.as_ref().unwrap().windows(oid.len()).any(|part| part == oid), "{value:02x?}");
    is_result(value, DONE);
    for (name, password) in [(bert.as_str(), "other"), ("cn=nobody,dc=example,dc=com", "other")] {
        let (code, value) = verify(&mut admin, name, password);
        assert_eq!(code, WRONG, "{name}");
        is_result(value, WRONG);
    }
    assert_eq!(identity(&mut admin), administrator);

    // Malformed values, and methods other than passwords.
    for (value, expected) in [
        (None, ResultCode::PROTOCOL_ERROR),
        (Some(&b"\x30\x00"[..]), ResultCode::PROTOCOL_ERROR),
        (Some(b"\x30\x0b\x04\x00\xa3\x07\x04\x05PLAIN"), ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        (
            Some(b"\x30\x11\x04\x00\x80\x01x\xa2\x0a\x30\x08\x04\x031.2\x01\x01\xff"),
            ResultCode::UNAVAILABLE_CRITICAL_EXTENSION,
        ),
    ] {
        let reply = admin.extended(oids::VERIFY_CREDENTIALS, value).unwrap();
        assert_eq!((reply.outcome.code, reply.extended.value), (expected, None), "{value:02x?}");
    }

    // A user needs the right.
    let mut user = pando.connect();
    assert_eq!(user.bind(&anna, "anna-secret").unwrap().code, DONE);
    replace(&mut user, &anna, "userPassword", &["anna-new-secret"]);
    assert_eq!(verify(&mut user, &bert, "bert-secret"), (ResultCode::INSUFFICIENT_ACCESS_RIGHTS, None));
    let rules = [
        "all: allow read to authenticated".to_owned(),
        format!("check: allow use of verify-credentials to user '{anna}'"),
    ];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules.each_ref().map(String::as_str));
    assert_eq!(verify(&mut user, &bert, "bert-secret").0, DONE);
    assert_eq!(identity(&mut user), format!("dn:{anna}"));

    // Failures count as those of binds: two lock the account.
    assert_eq!(verify(&mut user, &bert, "wrong").0, WRONG);
    assert_eq!(verify(&mut user, &bert, "wrong").0, WRONG);
    assert_eq!(verify(&mut user, &bert, "bert-secret").0, WRONG);
    assert_eq!(bind(&pando, "bert", "bert-secret"), WRONG);
    assert_eq!(identity(&mut user), format!("dn:{anna}"));
    let root = admin.entry("", &["supportedExtension"]).unwrap().unwrap();
    assert!(root.texts("supportedExtension").contains(&oids::VERIFY_CREDENTIALS.to_owned()));
}
