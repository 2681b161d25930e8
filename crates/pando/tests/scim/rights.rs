//! Authentication, and the rights of the directory.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::{Scim, USER, basic, id};

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

    // By default users read, and change nothing.
    let as_anna = format!("Authorization: {}\r\n", basic("anna", "geheim-1"));
    let body = json!({ "schemas": [USER], "userName": "bert" }).to_string();
    let refused = scim.ask_with("POST", "/Users", &as_anna, body.as_bytes());
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(scim.ask_with("DELETE", &path, &as_anna, b"").status, 403);
    assert_eq!(scim.ask("DELETE", &path, &Value::Null).status, 204);
    assert_eq!(with(&basic("anna", "geheim-1")).status, 401);
}

#[test]
fn a_lock_without_effect_is_refused() {
    let scim = Scim::start("scim-lock");
    let locked = |name: &str| json!({ "schemas": [USER], "userName": name, "active": false });
    let anna = scim.create("/Users", &locked("anna"));
    assert_eq!(anna["active"], false);
    let path = format!("/Users/{}", id(&anna));
    let mut admin = scim.ldap();
    let none = [(ldap::ChangeOperation::Replace, "pandoPasswordPolicy", &[][..])];
    assert!(admin.modify("cn=config", &none).unwrap().is_success());
    scim.ask("POST", "/Users", &locked("bert")).expect(400, Some("invalidValue"));
    assert!(scim.found("/Users", r#"userName eq "bert""#).is_empty());
    for (active, status) in [(true, 200), (false, 400)] {
        let answer = scim.patch(&path, &json!([{ "op": "replace", "path": "active", "value": active }]));
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(scim.get(&path).body["active"], true);
}
