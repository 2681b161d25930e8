//! Passwords that another server verifies: here, a second Pando.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::net::TcpListener;

use ldap::{ChangeOperation, ResultCode};
use support::clients::run;
use support::pando::Start;
use support::tree::{bind, person_dn, plant, plant_policy, set_password};
use support::{Pando, Scratch};

/// A server that asks the one at this URL, with anna and bert, whose passwords are there.
fn start(scratch: &Scratch, url: &str, authorities: &str) -> Pando {
    let node = format!(
        "[pass_through]\nserver = \"{url}\"\nauthorities = \"{authorities}\"\ntimeout_seconds = 2\nthreads = 1\n"
    );
    let node = scratch.write("node.toml", node);
    let pando = Start::new(scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    for name in ["anna", "bert"] {
        let elsewhere = format!("{{PASSTHROUGH}}{}", person_dn(name));
        set_password(&mut administrator, name, &elsewhere);
    }
    pando
}

#[test]
fn the_other_server_says_whether_a_password_is_right() {
    let there = Scratch::new("pass-there");
    let other = Start::new(&there).arguments(&["--listen", "ldaps://127.0.0.1:0"]).ready();
    plant(&mut other.administrator());
    let certificate = Pando::data(&there).join("tls/certificate.pem");
    let here = Scratch::new("pass-here");
    // By StartTLS.
    let pando =
        start(&here, &format!("ldap://127.0.0.1:{}", other.address().port()), certificate.to_str().unwrap());
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", "wrong"), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(bind(&pando, "bert", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let url = format!("ldap://{}", pando.address());
    let plain = ["-Q", "-O", "none", "-H", &url, "-Y", "PLAIN", "-U", "anna", "-w", "anna-secret"];
    run("ldapwhoami", &plain, "").expect_code(0).expect_output("uid=anna");
    // Under a policy it is an attempt, and the password comes here where the policy says how it is stored.
    let mut administrator = pando.administrator();
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "2"),
        ("pandoPwdScheme", "ssha512"),
    ];
    plant_policy(&mut administrator, &policy);
    // The writer has done what the same connection asked before when it has done this.
    let mut connection = pando.connect();
    assert!(connection.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    assert!(connection.bind(support::ADMIN_DN, support::ADMIN_PASSWORD).unwrap().is_success());
    let note: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &["x"])];
    assert!(connection.modify(&person_dn("anna"), note).unwrap().is_success());
    for _ in 0..2 {
        assert_eq!(bind(&pando, "bert", "wrong"), ResultCode::INVALID_CREDENTIALS);
    }
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::INVALID_CREDENTIALS, "locked");
    let kept = administrator.entry(&person_dn("anna"), &["userPassword"]).unwrap().unwrap();
    assert!(kept.text("userPassword").unwrap().starts_with("{SSHA512}"), "{kept:?}");
    drop(other);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS, "here by now");
}

/// One that accepts and says nothing holds up who needs it, for the time that is set, and nobody else.
#[test]
fn a_server_that_says_nothing_is_unavailable() {
    let there = Scratch::new("pass-nobody");
    let other = Pando::start(&there);
    let certificate = Pando::data(&there).join("tls/certificate.pem");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = Scratch::new("pass-silent");
    let url = format!("ldaps://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let pando = start(&here, &url, certificate.to_str().unwrap());
    let mut waits = pando.connect();
    let anna = person_dn("anna");
    let authentication = ldap::Authentication::Simple(b"anna-secret");
    let request = ldap::Request::Bind(ldap::BindRequest { version: 3, name: &anna, authentication });
    let id = waits.send(request, ldap::Controls::NONE).unwrap();
    pando.administrator();
    assert_eq!(waits.reply(id).unwrap().outcome.code, ResultCode::UNAVAILABLE);
    assert!(pando.log().contains("does not say whether a password is right"), "{}", pando.log());
    drop((silent, other));
    // Nobody listens there any more.
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::UNAVAILABLE);
}

#[test]
fn passwords_go_over_tls_alone() {
    let scratch = Scratch::new("pass-clear");
    let node = scratch.write("node.toml", "[pass_through]\nserver = \"ldap://127.0.0.1:1\"\n");
    let (_, said) = Start::new(&scratch).arguments(&["--node", node.to_str().unwrap()]).refused();
    assert!(said.contains("over TLS alone"), "{said}");
}
