//! Authentication, and the rights of the directory.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::{Scim, USER, basic, id};
use test_support::Scratch;
use test_support::clients::run;
use test_support::pando::command;

#[test]
fn credentials_are_those_of_the_directory() {
    let scim = Scim::start("scim-credentials");
    let user = json!({ "schemas": [USER], "userName": "anna", "password": "geheim-1" });
    let user = scim.create("/Users", &user);
    let path = format!("/Users/{}", id(&user));
    let with = |authorization: &str| {
        let head = if authorization.is_empty() {
            String::new()
        } else {
            format!("Authorization: {authorization}\r\n")
        };
        scim.ask_with("GET", &path, &head, b"")
    };
    let dn = "uid=anna,ou=people,dc=example,dc=com";
    let token = URL_SAFE_NO_PAD.encode("anna:geheim-1");
    for good in [basic("anna", "geheim-1"), basic(dn, "geheim-1"), format!("Bearer {token}")] {
        assert_eq!(with(&good).status, 200, "{good}");
    }
    for bad in [
        String::new(),
        basic("anna", "wrong"),
        basic("nobody", "geheim-1"),
        basic(dn, ""),
        basic("", "geheim-1"),
        "Bearer aa.bb.cc".to_owned(),
        "Bearer opaque".to_owned(),
        "Basic !".to_owned(),
        "Negotiate x".to_owned(),
    ] {
        let answer = with(&bad);
        assert_eq!((answer.status, answer.http.headers("www-authenticate").len()), (401, 2), "{bad}");
    }

    // By default, users can read but not change anything.
    let as_anna = format!("Authorization: {}\r\n", basic("anna", "geheim-1"));
    let body = json!({ "schemas": [USER], "userName": "bert" }).to_string();
    let refused = scim.ask_with("POST", "/Users", &as_anna, body.as_bytes());
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(scim.ask_with("DELETE", &path, &as_anna, b"").status, 403);
    assert_eq!(scim.ask("DELETE", &path, &Value::Null).status, 204);
    assert_eq!(with(&basic("anna", "geheim-1")).status, 401);
}

#[test]
fn me_is_the_user_who_asks() {
    let scim = Scim::start("scim-me");
    let anna = json!({ "schemas": [USER], "userName": "anna", "password": "geheim-1" });
    let anna = scim.create("/Users", &anna);
    scim.user("bert");
    let head = format!("Authorization: {}\r\n", basic("anna", "geheim-1"));
    let own = scim.ask_with("GET", "/Me?attributes=userName", &head, b"");
    assert_eq!((own.status, &own.body["id"], &own.body["userName"]), (200, &anna["id"], &json!("anna")));
    let location = own.http.headers("location").concat();
    assert!(location.ends_with(&format!("/Users/{}", id(&anna))), "the permanent location: {location}");
    assert_eq!(scim.ask_with("DELETE", "/Me", &head, b"").status, 403, "by the rights of the directory");
    assert_eq!(scim.ask_with("POST", "/Me", &head, b"{}").status, 405);
    assert_eq!(scim.ask_with("GET", "/Me", "", b"").status, 401);
    // The administrator has no entry.
    scim.get("/Me").expect(404, None);
}

#[test]
fn a_lock_holds_without_a_policy() {
    let scim = Scim::start("scim-lock");
    let locked = |name: &str| json!({ "schemas": [USER], "userName": name, "active": false });
    let anna = scim.create("/Users", &locked("anna"));
    assert_eq!(anna["active"], false);
    let path = format!("/Users/{}", id(&anna));
    let mut admin = scim.ldap();
    let none = [(ldap::ChangeOperation::Replace, "pandoPasswordPolicy", &[][..])];
    assert!(admin.modify("cn=config", &none).unwrap().is_success());
    assert_eq!(scim.create("/Users", &locked("bert"))["active"], false);
    for active in [true, false] {
        let answer = scim.patch(&path, &json!([{ "op": "replace", "path": "active", "value": active }]));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(scim.get(&path).body["active"], active);
    }
}

/// Python program that prints the status of a request over TLS and verifies the server's certificate.
const ASK: &str = r"
import ssl, sys, urllib.error, urllib.request
url, authority, token = sys.argv[1:]
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
try:
    print(opener.open(urllib.request.Request(url, headers={'Authorization': 'Bearer ' + token})).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read())
";

#[test]
fn tokens_of_the_issuer_are_accepted() {
    let scratch = Scratch::new("scim-tokens");
    let issuer = Ed25519KeyPair::from_seed_unchecked(&[42; 32]).unwrap();
    let encode = |octets: &[u8]| URL_SAFE_NO_PAD.encode(octets);
    let x = encode(issuer.public_key().as_ref());
    scratch
        .write("keys.json", format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"one","x":"{x}"}}]}}"#));
    let table =
        "[oauth]\nissuer = \"https://login.example.com\"\naudience = \"ldap\"\nkeys = \"keys.json\"\n";
    let scim = Scim::start_with(scratch, table, true);
    let mut admin = scim.ldap();
    let mechanisms = [(ldap::ChangeOperation::Replace, "pandoSaslMechanism", &["OAUTHBEARER"][..])];
    assert!(admin.modify("cn=config", &mechanisms).unwrap().is_success());
    let person = [("objectClass", "inetOrgPerson"), ("uid", "idm"), ("cn", "idm"), ("sn", "idm")];
    assert!(admin.add("uid=idm,ou=people,dc=example,dc=com", &person).unwrap().is_success());
    let token = |audience: &str, name: &str| {
        let claims = format!(
            r#"{{"iss":"https://login.example.com","aud":"{audience}","exp":4102444800,"sub":"{name}"}}"#
        );
        let head = encode(br#"{"alg":"EdDSA","kid":"one"}"#);
        let message = format!("{head}.{}", encode(claims.as_bytes()));
        format!("{message}.{}", encode(issuer.sign(message.as_bytes()).as_ref()))
    };
    let url = format!("https://localhost:{}/scim/v2/Users?count=1", scim.at.port());
    let authority = scim.scratch.join("data/tls/certificate.pem");
    for (token, status) in [
        (token("ldap", "idm"), "200"),
        (token("web", "idm"), "401"),
        (token("ldap", "none"), "401"),
        (token("ldap", "idm") + "x", "401"),
    ] {
        run("/usr/bin/python3", &["-c", ASK, &url, authority.to_str().unwrap(), &token], "")
            .expect_code(0)
            .expect_output(status);
    }
}

#[test]
fn application_passwords_are_tokens() {
    let scim = Scim::start("scim-application");
    let mut admin = scim.ldap();
    for (name, values) in
        [("objectClass", &["device", "pandoPwdPolicy"][..]), ("pandoPwdAppPasswords", &["4"])]
    {
        let change = [(ldap::ChangeOperation::Replace, name, values)];
        assert!(admin.modify("cn=policy,dc=example,dc=com", &change).unwrap().is_success(), "{name}");
    }
    let user = json!({ "schemas": [USER], "userName": "idm", "password": "geheim-1" });
    let path = format!("/Users/{}", id(&scim.create("/Users", &user)));
    let with = |text: String| {
        let head = format!("Authorization: Bearer {}\r\n", URL_SAFE_NO_PAD.encode(text));
        scim.ask_with("GET", &path, &head, b"").status
    };
    let data = scim.scratch.join("data");
    let dn = "uid=idm,ou=people,dc=example,dc=com";
    let added = command(&["account", "app-add", dn, "scim"], Some(&data)).expect_code(0);
    let password = added.stdout.split_whitespace().last().unwrap();
    assert_eq!(with(format!("idm:{password}")), 200);
    assert_eq!(with(format!("{dn}:{password}")), 200);
    assert_eq!(with(format!("idm:{password}x")), 401);
}
