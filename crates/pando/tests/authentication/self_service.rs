//! Users manage their own one-time codes and application passwords, after a bind that proves their password.

use std::collections::BTreeMap;

use client::Connection;
use directory::password::totp::{secret_of, secret_text};
use ldap::{
    Authentication, BindRequest, ChangeOperation, Controls, OwnCredentials, Request, ResultCode, oids,
};
use ldap::{Control, ControlsBuf, decode_generated_password};

use crate::totp::{code, present};
use test_support::tree::{bind, person_dn, plant, plant_policy, replace, set_password};
use test_support::{Pando, SUFFIX, Scratch};

const WRONG: ResultCode = ResultCode::INVALID_CREDENTIALS;
const DONE: ResultCode = ResultCode::SUCCESS;

/// Starts a server with anna and bert under a policy with these attributes.
fn start(scratch: &Scratch, policy: &[(&str, &str)]) -> Pando {
    let pando = Pando::start(scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    plant_policy(&mut administrator, &[&[("objectClass", "pandoPwdPolicy")], policy].concat());
    for name in ["anna", "bert"] {
        set_password(&mut administrator, name, &format!("{name}-secret"));
    }
    pando
}

const ALL: [(&str, &str); 4] = [
    ("pandoPwdSelfService", "TRUE"),
    ("pandoPwdTotp", "TRUE"),
    ("pandoPwdAppPasswords", "2"),
    ("pwdMinLength", "8"),
];

fn bound(pando: &Pando, name: &str, password: &str) -> Connection {
    let mut connection = pando.connect();
    assert_eq!(connection.bind(&person_dn(name), password).unwrap().code, DONE);
    connection
}

fn send(connection: &mut Connection, request: &OwnCredentials<'_>) -> (ResultCode, Vec<u8>) {
    let reply = connection.extended(oids::OWN_CREDENTIALS, Some(&request.encode())).unwrap();
    (reply.outcome.code, reply.extended.value.unwrap_or_default())
}

/// Reads the user's own credentials. Returns the values of each line by its key.
fn read(connection: &mut Connection) -> BTreeMap<String, Vec<String>> {
    let (code, value) = send(connection, &OwnCredentials::Read);
    assert_eq!(code, DONE);
    let text = String::from_utf8(value).unwrap();
    let line = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        (parts.next().unwrap(), parts.collect())
    };
    text.lines().map(line).collect()
}

#[test]
fn users_add_and_remove_passwords_of_applications() {
    let scratch = Scratch::new("self-apps");
    let pando = start(&scratch, &ALL);
    let mut anna = bound(&pando, "anna", "anna-secret");
    let add = |connection: &mut Connection, name: &str, days| {
        let (code, value) = send(connection, &OwnCredentials::AddApplication { name, days });
        let made = decode_generated_password(&value).map(|made| String::from_utf8(made.to_vec()).unwrap());
        (code, made)
    };
    let (code, mail) = add(&mut anna, "mail", Some(30));
    let mail = mail.unwrap();
    assert_eq!((code, mail.len()), (DONE, 24));
    assert_eq!(add(&mut anna, "mail", None).0, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS);
    assert_eq!(add(&mut anna, "scanner", None).0, DONE);
    assert_eq!(add(&mut anna, "third", None).0, ResultCode::CONSTRAINT_VIOLATION);
    assert_eq!(add(&mut anna, "Wrong Name", None).0, ResultCode::CONSTRAINT_VIOLATION);
    let known = read(&mut anna);
    assert_eq!(known["applications-max"], ["2"]);
    assert_eq!(known["application"][0], "scanner", "the last line of its key");
    assert_eq!(known["length-min"], ["8"]);
    // A connection bound with an application password cannot manage credentials, and neither can a connection of
    // another user.
    assert_eq!(bind(&pando, "anna", &mail), DONE);
    let mut application = bound(&pando, "anna", &mail);
    for request in [
        OwnCredentials::AddApplication { name: "fourth", days: None },
        OwnCredentials::RemoveApplication { name: "scanner" },
        OwnCredentials::ClearCodes,
    ] {
        assert_eq!(send(&mut application, &request).0, ResultCode::STRONGER_AUTH_REQUIRED, "{request:?}");
    }
    // An application password may be found on a device. Without the user's own password, an application password cannot
    // be used to set another password.
    let (dn, new) = (person_dn("anna"), "anna-secret-2");
    let password = |operation, value: &'static str| (operation, "userPassword", [value]);
    let mut change = |changes: &[(ChangeOperation, &str, [&str; 1])]| {
        let changes: Vec<_> = changes.iter().map(|(of, name, values)| (*of, *name, &values[..])).collect();
        application.modify(&dn, &changes).unwrap().code
    };
    for operation in [ChangeOperation::Replace, ChangeOperation::Add] {
        assert_eq!(change(&[password(operation, new)]), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    }
    let with_old = |old| [password(ChangeOperation::Delete, old), password(ChangeOperation::Add, new)];
    assert_eq!(change(&with_old("wrong")), ResultCode::NO_SUCH_ATTRIBUTE);
    assert_eq!(change(&with_old("anna-secret")), DONE);
    assert_eq!(bind(&pando, "anna", new), DONE);
    let mut bert = bound(&pando, "bert", "bert-secret");
    assert!(!read(&mut bert).contains_key("application"));
    let remove = OwnCredentials::RemoveApplication { name: "mail" };
    assert_eq!(send(&mut bert, &remove).0, ResultCode::NO_SUCH_ATTRIBUTE);
    assert_eq!(send(&mut anna, &remove).0, DONE);
    assert_eq!(bind(&pando, "anna", &mail), WRONG);
    // A proxied identity does not prove a password.
    let mut administrator = pando.administrator();
    let identity = format!("dn:{}", person_dn("anna"));
    let proxied =
        Control { oid: oids::PROXIED_AUTHORIZATION, critical: true, value: Some(identity.as_bytes()) };
    let value = OwnCredentials::AddApplication { name: "proxied", days: None }.encode();
    let request =
        Request::Extended(ldap::ExtendedRequest { name: oids::OWN_CREDENTIALS, value: Some(&value) });
    let controls = ControlsBuf::from_iter([proxied]);
    let reply = administrator.request(request, controls.as_controls()).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::STRONGER_AUTH_REQUIRED);
    // Clients cannot send the operations that are internal to the server.
    let made = ldap::GeneratedApplication { name: "own", stored: b"{SSHA}x", days: None }.encode();
    let reply = anna.extended(directory::virtual_entries::STORE_APPLICATION, Some(&made)).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    assert_eq!(send(&mut pando.connect(), &OwnCredentials::Read).0, ResultCode::UNWILLING_TO_PERFORM);
    assert!(pando.stop().success());
}

#[test]
fn users_enable_one_time_codes_with_a_first_code() {
    let scratch = Scratch::new("self-codes");
    let pando = start(&scratch, &ALL);
    let secret = secret_text(b"12345678901234567890");
    let octets = secret_of(secret.as_bytes()).unwrap();
    let mut anna = bound(&pando, "anna", "anna-secret");
    let set = |connection: &mut Connection, code: &str| {
        send(connection, &OwnCredentials::SetCodes { secret: &secret, code }).0
    };
    let step = present();
    assert_eq!(set(&mut anna, &code(&octets, step - 20)), ResultCode::CONSTRAINT_VIOLATION);
    assert_eq!(set(&mut anna, "12345"), ResultCode::CONSTRAINT_VIOLATION);
    assert_eq!(read(&mut anna)["codes-used"], ["false"]);
    assert_eq!(set(&mut anna, &code(&octets, step)), DONE);
    assert_eq!(read(&mut anna)["codes-used"], ["true"]);
    assert_eq!(bind(&pando, "anna", "anna-secret"), WRONG);
    let with = |step| format!("anna-secret{}", code(&octets, step));
    assert_eq!(bind(&pando, "anna", &with(step)), WRONG, "the code was used");
    let mut again = bound(&pando, "anna", &with(step + 1));
    assert_eq!(send(&mut again, &OwnCredentials::ClearCodes).0, DONE);
    assert_eq!(bind(&pando, "anna", "anna-secret"), DONE);
    assert!(!pando.log().contains(&secret));
    assert!(pando.stop().success());
}

/// The policy must permit every action. A failed bind revokes the proof of the password.
#[test]
fn every_action_needs_permission_and_a_recent_bind() {
    let scratch = Scratch::new("self-policy");
    let pando = start(&scratch, &ALL[1..]);
    let add = OwnCredentials::AddApplication { name: "mail", days: None };
    let mut anna = bound(&pando, "anna", "anna-secret");
    assert_eq!(send(&mut anna, &add).0, ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(read(&mut anna)["self-service"], ["false"]);
    let mut administrator = pando.administrator();
    replace(&mut administrator, &format!("cn=policy,{SUFFIX}"), "pandoPwdSelfService", &["TRUE"]);
    let dn = person_dn("anna");
    let authentication = Authentication::Simple(b"wrong");
    let request = Request::Bind(BindRequest { version: 3, name: &dn, authentication });
    assert_eq!(anna.request(request, Controls::NONE).unwrap().outcome.code, WRONG);
    assert_eq!(send(&mut anna, &add).0, ResultCode::STRONGER_AUTH_REQUIRED);
    assert_eq!(anna.bind(&dn, "anna-secret").unwrap().code, DONE);
    assert_eq!(send(&mut anna, &add).0, DONE);
    // A user who must change the password can read the rules, and can do nothing else.
    replace(&mut administrator, &dn, "pwdReset", &["TRUE"]);
    replace(&mut administrator, &format!("cn=policy,{SUFFIX}"), "pwdMustChange", &["TRUE"]);
    let mut reset = pando.connect();
    reset.bind(&dn, "anna-secret").unwrap();
    assert_eq!(read(&mut reset)["length-min"], ["8"]);
    assert_ne!(send(&mut reset, &OwnCredentials::RemoveApplication { name: "mail" }).0, DONE);
    assert!(pando.stop().success());
}
