//! Verify Credentials: returns the outcome of a bind, and leaves the identity of the connection unchanged.

use client::{Connection, Tls};
use ldap::{Control, ControlsBuf, ResultCode, VerifiedCredentials, VerifyCredentials, oids};
use sasl::Hash;
use sasl::scram::Client;

use test_support::tree::{bind, person_dn, plant, plant_policy, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

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
        assert_eq!(VerifiedCredentials::decode(&value.unwrap()).unwrap().code, code);
    };
    let (code, value) = verify(&mut admin, &bert, "bert-secret");
    assert_eq!(code, DONE);
    // The password policy control in the response says that the user must change the password.
    let oid = oids::PASSWORD_POLICY.as_bytes();
    assert!(value.as_ref().unwrap().windows(oid.len()).any(|part| part == oid), "{value:02x?}");
    is_result(value, DONE);
    for (name, password) in [(bert.as_str(), "other"), ("cn=nobody,dc=example,dc=com", "other")] {
        let (code, value) = verify(&mut admin, name, password);
        assert_eq!(code, WRONG, "{name}");
        is_result(value, WRONG);
    }
    assert_eq!(identity(&mut admin), administrator);

    // Malformed values, and methods that do not use passwords, are refused.
    for (value, expected) in [
        (None, ResultCode::PROTOCOL_ERROR),
        (Some(&b"\x30\x00"[..]), ResultCode::PROTOCOL_ERROR),
        (Some(b"\x30\x0e\x04\x00\xa3\x0a\x04\x08EXTERNAL"), ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        (Some(b"\x30\x0c\x04\x00\xa3\x08\x04\x06GSSAPI"), ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        (Some(b"\x30\x08\x80\x01x\x04\x00\x80\x01x"), ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        (
            Some(b"\x30\x11\x04\x00\x80\x01x\xa2\x0a\x30\x08\x04\x031.2\x01\x01\xff"),
            ResultCode::UNAVAILABLE_CRITICAL_EXTENSION,
        ),
    ] {
        let reply = admin.extended(oids::VERIFY_CREDENTIALS, value).unwrap();
        assert_eq!((reply.outcome.code, reply.extended.value), (expected, None), "{value:02x?}");
    }

    // A user needs a right to use the operation.
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

    // Failures count like those of binds: two lock the account.
    assert_eq!(verify(&mut user, &bert, "wrong").0, WRONG);
    assert_eq!(verify(&mut user, &bert, "wrong").0, WRONG);
    assert_eq!(verify(&mut user, &bert, "bert-secret").0, WRONG);
    assert_eq!(bind(&pando, "bert", "bert-secret"), WRONG);
    assert_eq!(identity(&mut user), format!("dn:{anna}"));
    let root = admin.entry("", &["supportedExtension"]).unwrap().unwrap();
    assert!(root.texts("supportedExtension").contains(&oids::VERIFY_CREDENTIALS.to_owned()));
}

/// Sends a message of a SASL exchange. Returns the result, the cookie, and the server's message.
fn verify_sasl(
    connection: &mut Connection,
    cookie: Option<&[u8]>,
    mechanism: &str,
    credentials: Option<&[u8]>,
) -> (ResultCode, Option<Vec<u8>>, String) {
    let value = VerifyCredentials::encode_sasl(cookie, mechanism, credentials);
    let reply = connection.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
    let value = reply.extended.value.unwrap_or_else(|| panic!("{:?}", reply.outcome));
    let verified = VerifiedCredentials::decode(&value).unwrap();
    assert_eq!(verified.code, reply.outcome.code);
    let said = String::from_utf8(verified.server_credentials.unwrap_or_default().to_vec()).unwrap();
    (verified.code, verified.cookie.map(<[u8]>::to_vec), said)
}

#[test]
fn several_sasl_exchanges_are_verified_concurrently() {
    const GOES_ON: ResultCode = ResultCode::SASL_BIND_IN_PROGRESS;
    let scratch = Scratch::new("verify-sasl");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let mechanisms = ["PLAIN", "SCRAM-SHA-256", "EXTERNAL"];
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pandoPwdScramMechanism", "SCRAM-SHA-256"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "2"),
    ];
    plant_policy(&mut admin, &policy);
    replace(&mut admin, "cn=config", "pandoSaslMechanism", &mechanisms);
    for name in ["anna", "bert"] {
        set_password(&mut admin, name, &format!("{name}-secret"));
    }
    let administrator = identity(&mut admin);
    let scram = "SCRAM-SHA-256";
    let (hash, _) = Hash::of_mechanism(scram).unwrap();
    let begin = |admin: &mut Connection, name: &str| {
        let (client, first) = Client::begin(hash, name, "a-nonce-of-the-test", None);
        let (code, cookie, challenge) = verify_sasl(admin, None, scram, Some(first.as_bytes()));
        assert_eq!(code, GOES_ON);
        (client, cookie.unwrap(), challenge)
    };
    // Exchanges of two users can run at the same time.
    let (anna, bert) = (begin(&mut admin, "anna"), begin(&mut admin, "bert"));
    for ((client, cookie, challenge), name) in [(anna, "anna"), (bert, "bert")] {
        let (last, expected) = client.finish(&challenge, &format!("{name}-secret"), &mut None).unwrap();
        let done = verify_sasl(&mut admin, Some(&cookie), scram, Some(last.as_bytes()));
        assert_eq!(done, (DONE, None, expected));
        // The exchange is over, so its cookie is refused.
        let value = VerifyCredentials::encode_sasl(Some(&cookie), scram, Some(last.as_bytes()));
        let again = admin.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
        assert_eq!((again.outcome.code, again.extended.value), (ResultCode::PROTOCOL_ERROR, None));
    }
    // The client's first message may come with the second request.
    let (code, cookie, said) = verify_sasl(&mut admin, None, "PLAIN", None);
    assert_eq!((code, said.as_str()), (GOES_ON, ""));
    let message = Some(&b"\0anna\0anna-secret"[..]);
    assert_eq!(verify_sasl(&mut admin, cookie.as_deref(), "PLAIN", message), (DONE, None, String::new()));
    // Failures count like those of binds, and the connection keeps its identity.
    for _ in 0..2 {
        let (client, cookie, challenge) = begin(&mut admin, "bert");
        let (last, _) = client.finish(&challenge, "wrong", &mut None).unwrap();
        let failed = verify_sasl(&mut admin, Some(&cookie), scram, Some(last.as_bytes()));
        assert_eq!(failed, (WRONG, None, String::new()));
    }
    assert_eq!(bind(&pando, "bert", "bert-secret"), WRONG);
    assert_eq!(verify_sasl(&mut admin, None, "PLAIN", Some(b"\0anna\0wrong")).0, WRONG);
    assert_eq!(identity(&mut admin), administrator);
    // The number of unfinished exchanges is limited, so the oldest one is dropped.
    let first = begin(&mut admin, "anna");
    (0..16).for_each(|_| drop(begin(&mut admin, "anna")));
    let (last, _) = first.0.finish(&first.2, "anna-secret", &mut None).unwrap();
    let value = VerifyCredentials::encode_sasl(Some(&first.1), scram, Some(last.as_bytes()));
    let reply = admin.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    user_has_a_channel_of_its_own(&pando);
    // A user without the right learns nothing about a password.
    let mut user = pando.connect();
    let value = VerifyCredentials::encode_sasl(None, "PLAIN", Some(b"\0anna\0anna-secret"));
    let reply = user.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
    let expected = (ResultCode::INSUFFICIENT_ACCESS_RIGHTS, None);
    assert_eq!((reply.outcome.code, reply.extended.value), expected);
}

/// A client may verify credentials over TLS for an application. The client may then state that the application's
/// connection has no channel binding (RFC 5802 section 6).
fn user_has_a_channel_of_its_own(pando: &Pando) {
    let mut admin = pando.connect().start_tls(&Tls::insecure().unwrap(), "localhost").unwrap();
    assert_eq!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().code, DONE);
    let first = |flag: &str| format!("{flag},,n=anna,r=a-nonce").into_bytes();
    let (code, cookie, challenge) = verify_sasl(&mut admin, None, "SCRAM-SHA-256", Some(&first("y")));
    assert_eq!((code, cookie.is_some()), (ResultCode::SASL_BIND_IN_PROGRESS, true));
    assert!(challenge.starts_with("r=a-nonce"), "{challenge}");
    let value = VerifyCredentials::encode_sasl(None, "SCRAM-SHA-256", Some(&first("p=tls-exporter")));
    let bound = admin.extended(oids::VERIFY_CREDENTIALS, Some(&value)).unwrap();
    assert_eq!(bound.outcome.code, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
}
