//! Password changes by the extended operation of RFC 3062, with common clients.

use client::Connection;
use ldap::oids::MODIFY_PASSWORD;
use ldap::{PasswordModify, ResultCode, Scope, decode_generated_password};
use test_support::clients::{run, unboundid_jar_tool};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Sends a password modify request. Returns the result code, and the password if the server generated one.
fn modify(connection: &mut Connection, request: PasswordModify<'_>) -> (ResultCode, Option<String>) {
    let reply = connection.extended(MODIFY_PASSWORD, Some(&request.encode())).unwrap();
    let value = reply.extended.value.unwrap_or_default();
    let generated = decode_generated_password(&value).map(|made| String::from_utf8(made.to_vec()).unwrap());
    (reply.outcome.code, generated)
}

fn binds(pando: &Pando, dn: &str, password: &str) -> bool {
    pando.connect().bind(dn, password).unwrap().is_success()
}

/// Starts a server on which anna has the password `first`.
fn start(scratch: &Scratch) -> Pando {
    let pando = Pando::start(scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let anna = person_dn("anna");
    let set = PasswordModify {
        user_identity: Some(anna.as_bytes()),
        new_password: Some(b"first"),
        ..PasswordModify::default()
    };
    assert_eq!(modify(&mut administrator, set), (ResultCode::SUCCESS, None));
    assert!(binds(&pando, &anna, "first"));
    pando
}

#[test]
fn users_change_their_own_passwords() {
    let scratch = Scratch::new("passwd-own");
    let pando = start(&scratch);
    let anna = person_dn("anna");
    let mut own = pando.connect();
    assert!(own.bind(&anna, "first").unwrap().is_success());
    let change = |old: &'static [u8], new: &'static [u8]| PasswordModify {
        old_password: Some(old),
        new_password: Some(new),
        ..PasswordModify::default()
    };
    assert_eq!(modify(&mut own, change(b"wrong", b"second")).0, ResultCode::INVALID_CREDENTIALS);
    assert!(binds(&pando, &anna, "first"));
    assert_eq!(modify(&mut own, change(b"first", b"second")), (ResultCode::SUCCESS, None));
    assert!(binds(&pando, &anna, "second") && !binds(&pando, &anna, "first"));
    // Without a new password, the server generates one.
    let (code, made) = modify(&mut own, PasswordModify::default());
    let made = made.unwrap();
    assert_eq!((code, made.len()), (ResultCode::SUCCESS, 19));
    assert!(binds(&pando, &anna, &made) && !binds(&pando, &anna, "second"));
    // The request may have no value. It may also name the user by an authorization identity that contains the DN.
    let reply = own.extended(MODIFY_PASSWORD, None).unwrap();
    assert!(reply.outcome.is_success() && reply.extended.value.is_some());
    let identity = format!("dn:{anna}");
    let named = PasswordModify {
        user_identity: Some(identity.as_bytes()),
        new_password: Some(b"third"),
        ..PasswordModify::default()
    };
    assert_eq!(modify(&mut own, named).0, ResultCode::SUCCESS);
    assert!(binds(&pando, &anna, "third"));
    // The stored value is a hash, and the only value.
    let stored = pando.administrator().entry(&anna, &["userPassword"]).unwrap().unwrap();
    assert_eq!(stored.values("userPassword").len(), 1);
    assert!(stored.text("userPassword").unwrap().starts_with('{'), "{stored:?}");
}

/// If an entry has several passwords, the old password selects the one to replace; the others stay.
#[test]
fn a_change_keeps_the_other_passwords_of_an_entry() {
    let scratch = Scratch::new("passwd-several");
    let pando = start(&scratch);
    let anna = person_dn("anna");
    let changes: &[(_, &str, &[&str])] = &[(ldap::ChangeOperation::Add, "userPassword", &["other"])];
    let added = pando.administrator().modify(&anna, changes);
    assert!(added.unwrap().is_success());
    let mut own = pando.connect();
    assert!(own.bind(&anna, "other").unwrap().is_success());
    let change = PasswordModify {
        old_password: Some(b"first"),
        new_password: Some(b"second"),
        ..PasswordModify::default()
    };
    assert_eq!(modify(&mut own, change).0, ResultCode::SUCCESS);
    assert!(
        binds(&pando, &anna, "other") && binds(&pando, &anna, "second") && !binds(&pando, &anna, "first")
    );
}

#[test]
fn refused_password_changes_state_the_reason() {
    let scratch = Scratch::new("passwd-refused");
    let pando = start(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let of = |dn: &'static [u8], new: &'static [u8]| PasswordModify {
        user_identity: Some(dn),
        new_password: Some(new),
        ..PasswordModify::default()
    };
    let mut connection = pando.connect();
    let mut check = |request: PasswordModify<'_>, bound: Option<(&str, &str)>, code: ResultCode| {
        let (dn, password) = bound.unwrap_or_default();
        assert!(connection.bind(dn, password).unwrap().is_success());
        assert_eq!(modify(&mut connection, request).0, code, "{dn}");
    };
    let own = PasswordModify { new_password: Some(b"x"), ..PasswordModify::default() };
    check(own, None, ResultCode::STRONGER_AUTH_REQUIRED);
    check(of(b"uid=anna,ou=people,dc=example,dc=com", b"x"), None, ResultCode::STRONGER_AUTH_REQUIRED);
    let as_anna = Some((anna.as_str(), "first"));
    let of_bert = PasswordModify { user_identity: Some(bert.as_bytes()), ..own };
    check(of_bert, as_anna, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    check(of(b"\xff", b"x"), as_anna, ResultCode::INVALID_DN_SYNTAX);
    check(of(b"nonsense", b"x"), as_anna, ResultCode::INVALID_DN_SYNTAX);
    check(PasswordModify { new_password: Some(b""), ..own }, as_anna, ResultCode::CONSTRAINT_VIOLATION);
    let administrator = Some((ADMIN_DN, ADMIN_PASSWORD));
    check(of(b"uid=nobody,dc=example,dc=com", b"x"), administrator, ResultCode::NO_SUCH_OBJECT);
    let long = vec![b'x'; 5_000];
    let too_long = PasswordModify {
        new_password: Some(&long),
        user_identity: Some(anna.as_bytes()),
        old_password: None,
    };
    check(too_long, administrator, ResultCode::CONSTRAINT_VIOLATION);
    let reply = connection.extended(MODIFY_PASSWORD, Some(b"no sequence")).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    assert!(binds(&pando, &anna, "first"), "nothing was changed");
    let log = pando.log();
    assert!(!log.contains("first"), "{log}");
}

#[test]
fn clients_change_passwords() {
    let scratch = Scratch::new("passwd-clients");
    let pando = start(&scratch);
    let (anna, url) = (person_dn("anna"), format!("ldap://{}", pando.address()));
    let common = ["-x", "-H", &url, "-o", "nettimeout=60"];
    let arguments = [&common[..], &["-D", &anna, "-w", "first", "-a", "first", "-s", "second"]].concat();
    run("ldappasswd", &arguments, "").expect_code(0);
    let arguments = [&common[..], &["-D", &anna, "-w", "second", "-a", "wrong", "-s", "x"]].concat();
    run("ldappasswd", &arguments, "").expect_code(1).expect_output("Invalid credentials (49)");
    let arguments = [&common[..], &["-D", ADMIN_DN, "-w", ADMIN_PASSWORD, &anna]].concat();
    let made = run("ldappasswd", &arguments, "").expect_code(0).stdout;
    let made = made.trim().strip_prefix("New password: ").unwrap_or_else(|| panic!("{made}"));
    assert!(binds(&pando, &anna, made));
    let port = pando.address().port().to_string();
    let arguments = ["--hostname", "127.0.0.1", "--port", &port, "--bindDN", &anna, "--bindPassword", made];
    let arguments = [&arguments[..], &["--currentPassword", made, "--newPassword", "third"]].concat();
    unboundid_jar_tool("unboundidds.tools.LDAPPasswordModify", &arguments, "").expect_code(0);
    assert!(binds(&pando, &anna, "third"));
    let root =
        pando.connect().search("", Scope::BaseObject, "(objectClass=*)", &["supportedExtension"]).unwrap();
    assert!(root.entries[0].texts("supportedExtension").contains(&MODIFY_PASSWORD.to_owned()), "{SUFFIX}");
}

/// Users are named as in SASL (RFC 4513 section 5.2.1.8). A requester who may not change the password does not learn
/// whether the name exists.
#[test]
fn a_user_is_named_as_in_sasl() {
    let scratch = Scratch::new("passwd-name");
    let pando = start(&scratch);
    let anna = person_dn("anna");
    let named = |name: &'static str, new: &'static [u8]| PasswordModify {
        user_identity: Some(name.as_bytes()),
        new_password: Some(new),
        ..PasswordModify::default()
    };
    let mut administrator = pando.administrator();
    assert_eq!(modify(&mut administrator, named("u:anna", b"second")).0, ResultCode::SUCCESS);
    assert!(binds(&pando, &anna, "second"));
    let mut own = pando.connect();
    assert!(own.bind(&anna, "second").unwrap().is_success());
    let change = PasswordModify { old_password: Some(b"second"), ..named("U:ANNA", b"third") };
    assert_eq!(modify(&mut own, change).0, ResultCode::SUCCESS);
    assert!(binds(&pando, &anna, "third"));
    assert_eq!(
        modify(&mut own, named("DN:uid=anna,ou=people,dc=example,dc=com", b"fourth")).0,
        ResultCode::SUCCESS
    );
    assert_eq!(modify(&mut administrator, named("u:ghost", b"x")).0, ResultCode::NO_SUCH_OBJECT);
    // The server refuses the names of other users, a name without an entry, and a name that two entries have.
    let twin = [("objectClass", "account"), ("uid", "anna")];
    assert!(administrator.add(&format!("uid=anna,{SUFFIX}"), &twin).unwrap().is_success());
    let mut answer = |name: &'static str| {
        let value = named(name, b"x").encode();
        let outcome = own.extended(MODIFY_PASSWORD, Some(&value)).unwrap().outcome;
        (outcome.code, outcome.matched_dn, outcome.diagnostic)
    };
    let of_bert = answer("u:bert");
    assert_eq!(of_bert.0, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    for name in ["u:ghost", "u:anna", "u:"] {
        assert_eq!(answer(name), of_bert, "{name}");
    }
    assert_eq!(modify(&mut administrator, named("u:anna", b"x")).0, ResultCode::NO_SUCH_OBJECT);
    assert_eq!(modify(&mut pando.connect(), named("u:bert", b"x")).0, ResultCode::STRONGER_AUTH_REQUIRED);
    assert!(binds(&pando, &anna, "fourth") && binds(&pando, &person_dn("bert"), "bert-secret"));
    // OpenLDAP's client gets the same results as our client.
    let url = format!("ldap://{}", pando.address());
    let arguments = ["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-s", "fifth", "u:bert"];
    run("ldappasswd", &arguments, "").expect_code(0);
    assert!(binds(&pando, &person_dn("bert"), "fifth"));
}

/// Regression test: if the server had received the administrator's password at its start, `ldappasswd` for the
/// administrator succeeded without a visible effect.
#[test]
fn the_password_of_a_node_file_is_not_changed_by_clients() {
    let scratch = Scratch::new("passwd-administrator");
    let password = |pando: &Pando, old: &str, new: &str| {
        let url = format!("ldap://{}", pando.address());
        run("ldappasswd", &["-x", "-H", &url, "-D", ADMIN_DN, "-w", old, "-s", new, ADMIN_DN], "")
    };
    let pando = start(&scratch);
    password(&pando, ADMIN_PASSWORD, "changed")
        .expect_code(1)
        .expect_output("Server is unwilling to perform");
    assert!(binds(&pando, ADMIN_DN, ADMIN_PASSWORD));
    assert!(pando.stop().success());
    // If no password is given at the start, the server uses the password that its first start generated and stored.
    let names = ["--admin-dn", ADMIN_DN];
    let pando =
        Start::bare(&scratch, "own").arguments(&names).without_environment("PANDO_ADMIN_PASSWORD").ready();
    let made = pando.said.split_once(&format!("the password of {ADMIN_DN} is ")).expect("it is said").1;
    let made = made.lines().next().unwrap();
    password(&pando, made, "changed").expect_code(0);
    assert!(binds(&pando, ADMIN_DN, "changed") && !binds(&pando, ADMIN_DN, made));
}
