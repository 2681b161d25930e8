//! Users: their life cycle, and their entries over LDAP.

use std::thread;

use serde_json::{Value, json};

use crate::{ENTERPRISE, PATCH, Scim, USER, exchange, id};

fn anna() -> Value {
    json!({
        "schemas": [USER, ENTERPRISE],
        "userName": "anna",
        "externalId": "Ext-1",
        "name": { "formatted": "Anna Huber", "familyName": "Huber", "givenName": "Anna" },
        "displayName": "Anna",
        "emails": [{ "value": "anna@example.com", "type": "work", "primary": true }],
        "phoneNumbers": [{ "value": "+43 1 234", "type": "mobile" }],
        "addresses": [{ "type": "work", "formatted": "Line $1\nLine \\2", "locality": "Wien" }],
        "active": true,
        "password": "geheim-1",
        ENTERPRISE: { "department": "Sales", "employeeNumber": "7" },
    })
}

#[test]
fn a_user_is_an_entry() {
    let scim = Scim::start("scim-life");
    let answer = scim.ask("POST", "/Users", &anna());
    assert_eq!(answer.status, 201, "{answer:?}");
    let user = answer.body.clone();
    let path = format!("/Users/{}", id(&user));
    assert_eq!(answer.http.headers("location"), [format!("http://{}/scim/v2{path}", scim.at)]);
    assert_eq!(answer.http.headers("content-type"), ["application/scim+json"]);
    assert_eq!(user["meta"]["location"].as_str(), Some(answer.http.headers("location")[0]));
    let mut expected = anna();
    expected.as_object_mut().unwrap().remove("password");
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&user[name], value, "{name}");
    }

    let mut admin = scim.ldap();
    let dn = "uid=anna,ou=people,dc=example,dc=com";
    let entry = admin.entry(dn, &["*", "entryUUID"]).unwrap().unwrap();
    for (name, value) in [
        ("sn", "Huber"),
        ("cn", "Anna Huber"),
        ("mail", "anna@example.com"),
        ("mobile", "+43 1 234"),
        ("postalAddress", "Line \\241$Line \\5C2"),
        ("pandoExternalId", "Ext-1"),
        ("departmentNumber", "Sales"),
        ("entryUUID", id(&user)),
    ] {
        assert_eq!(entry.text(name).as_deref(), Some(value), "{name}");
    }
    assert!(scim.pando.connect().bind(dn, "geheim-1").unwrap().is_success());

    scim.ask("POST", "/Users", &anna()).expect(409, Some("uniqueness"));
    for filter in [
        r#"userName eq "ANNA""#,
        r#"externalId eq "Ext-1" and active eq true"#,
        r#"emails[type eq "work" and value ew "@example.com"]"#,
        r#"emails co "anna" or userName eq "none""#,
        // The form in which Microsoft Entra ID looks up users by mail address.
        r#"emails[type eq "work"].value eq "anna@example.com""#,
        r#"name.familyName sw "hub" and not (title pr)"#,
        r#"phoneNumbers.type eq "mobile""#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "sales""#,
        r#"meta.created gt "2020-01-01T00:00:00Z" and meta.resourceType eq "User""#,
    ] {
        assert_eq!(scim.found("/Users", filter).len(), 1, "{filter}");
    }
    for filter in [
        r#"externalId eq "ext-1""#,
        r#"active eq false"#,
        r#"emails[type eq "home"]"#,
        r#"userName eq "*""#,
        r#"userName eq "anna)(uid=*""#,
        r#"id eq "*""#,
        r#"groups.value eq "00000000-0000-0000-0000-000000000000""#,
    ] {
        assert!(scim.found("/Users", filter).is_empty(), "{filter}");
    }

    assert_eq!(scim.ask("DELETE", &path, &Value::Null).status, 204);
    scim.get(&path).expect(404, None);
    assert!(admin.entry(dn, &[]).unwrap().is_none());
}

#[test]
fn a_patch_changes_what_it_names() {
    let scim = Scim::start("scim-patch");
    let user = scim.create("/Users", &anna());
    let path = format!("/Users/{}", id(&user));
    let manager = scim.user("boss");
    let mut admin = scim.ldap();
    let dn = "uid=anna,ou=people,dc=example,dc=com";
    // SCIM does not show these values, and keeps them.
    let more = [
        (ldap::ChangeOperation::Add, "cn", &["Annie"][..]),
        (ldap::ChangeOperation::Add, "uid", &["ah"][..]),
    ];
    assert!(admin.modify(dn, &more).unwrap().is_success());

    // A request in the form that Microsoft Entra ID sends.
    let answer = scim.patch(
        &path,
        &json!([
            { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "huber@example.com" },
            { "op": "Add", "path": "phoneNumbers[type eq \"work\"].value", "value": "+43 1 9" },
            { "op": "Replace", "path": "active", "value": "False" },
            { "op": "Replace", "value": { "name.familyName": "Gruber", "title": "CTO" } },
            { "op": "Add", "path": format!("{ENTERPRISE}:manager"), "value": id(&manager) },
            { "op": "Remove", "path": format!("{ENTERPRISE}:department") },
        ]),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    let changed = answer.body;
    assert_eq!(changed["emails"], json!([{ "value": "huber@example.com", "type": "work", "primary": true }]));
    assert_eq!(changed["phoneNumbers"].as_array().unwrap().len(), 2);
    assert_eq!(changed["active"], false);
    assert_eq!(changed["name"]["familyName"], "Gruber");
    assert_eq!(changed["name"]["givenName"], "Anna");
    assert_eq!(changed[ENTERPRISE]["manager"]["value"], manager["id"]);
    assert_eq!(changed[ENTERPRISE].get("department"), None);
    assert_eq!(
        scim.pando.connect().bind(dn, "geheim-1").unwrap().code,
        ldap::ResultCode::INVALID_CREDENTIALS
    );
    let filter = format!("{ENTERPRISE}:manager.value eq \"{}\" and active eq false", id(&manager));
    assert_eq!(scim.found("/Users", &filter).len(), 1);

    // Sends a new name together with other changes.
    let renamed = scim.patch(
        &path,
        &json!([
            { "op": "replace", "path": "userName", "value": "anna, the \"first\"" },
            { "op": "replace", "path": "active", "value": true },
            { "op": "remove", "path": "title" },
        ]),
    );
    assert_eq!(renamed.status, 200, "{renamed:?}");
    assert_eq!((renamed.body["id"].clone(), renamed.body.get("title")), (user["id"].clone(), None));
    assert!(admin.entry(dn, &[]).unwrap().is_none());
    let dn = "uid=anna\\, the \\\"first\\\",ou=people,dc=example,dc=com";
    let entry = admin.entry(dn, &["cn", "uid"]).unwrap().unwrap();
    assert_eq!(entry.values("cn").len(), 2);
    assert!(entry.texts("uid").contains(&"ah".to_owned()));
    assert!(scim.pando.connect().bind(dn, "geheim-1").unwrap().is_success());

    for (operations, scim_type) in [
        (json!([{ "op": "replace", "path": "id", "value": "x" }]), "mutability"),
        (json!([{ "op": "replace", "path": "groups", "value": [] }]), "mutability"),
        (json!([{ "op": "remove", "path": "userName" }]), "invalidValue"),
        (json!([{ "op": "remove" }]), "noTarget"),
        (json!([{ "op": "replace", "path": "emails[type eq \"home\"].value", "value": "x" }]), "noTarget"),
        (json!([{ "op": "replace", "path": "shoeSize", "value": 4 }]), "invalidPath"),
        (json!([{ "op": "replace", "path": "emails[", "value": 4 }]), "invalidFilter"),
        (json!([{ "op": "replace", "path": "title", "value": 4 }]), "invalidValue"),
        (
            json!([{ "op": "add", "path": "emails", "value": [{ "value": "x", "type": "moon" }] }]),
            "invalidValue",
        ),
        (json!([{ "op": "move", "path": "title" }]), "invalidSyntax"),
        (json!([]), "invalidSyntax"),
    ] {
        scim.patch(&path, &operations).expect(400, Some(scim_type));
    }
    let unchanged = scim.get(&path);
    assert_eq!(unchanged.body, renamed.body);
}

/// Regression test: each PATCH wrote all attributes of the resource. It deleted a manager whom the client does not see,
/// and gave entries a default name.
#[test]
fn a_patch_keeps_what_the_client_does_not_see() {
    let scim = Scim::start("scim-unseen");
    let mut admin = scim.ldap();
    let gone = "uid=gone,ou=people,dc=example,dc=com";
    for (dn, attributes) in [
        (
            "cn=wiki,ou=people,dc=example,dc=com",
            vec![("cn", "wiki"), ("sn", "wiki"), ("uid", "wiki"), ("displayName", "Wiki service")],
        ),
        (
            "cn=Boss,ou=people,dc=example,dc=com",
            vec![("cn", "Chief"), ("cn", "Boss"), ("sn", "B"), ("uid", "boss"), ("manager", gone)],
        ),
    ] {
        let attributes = [vec![("objectClass", "inetOrgPerson")], attributes].concat();
        assert!(admin.add(dn, &attributes).unwrap().is_success(), "{dn}");
        let uid = attributes.iter().find(|(name, _)| *name == "uid").unwrap().1;
        let user = scim.found("/Users", &format!("userName eq {uid:?}")).remove(0);
        let before = admin.entry(dn, &["cn", "sn", "uid", "manager"]).unwrap().unwrap();
        let path = format!("/Users/{}", id(&user));
        let changed = scim.patch(&path, &json!([{ "op": "add", "path": "title", "value": "CTO" }]));
        assert_eq!((changed.status, &changed.body["title"]), (200, &json!("CTO")), "{changed:?}");
        assert_eq!(changed.body["name"], user["name"]);
        assert_eq!(admin.entry(dn, &["cn", "sn", "uid", "manager"]).unwrap().unwrap(), before);
    }
    let boss = scim.found("/Users", r#"userName eq "boss""#).remove(0);
    assert_eq!(boss["name"]["formatted"], "Boss", "the value in the RDN");
    assert_eq!(boss[ENTERPRISE].get("manager"), None);
    let path = format!("/Users/{}", id(&boss));
    let named = scim.patch(&path, &json!([{ "op": "replace", "path": "name.formatted", "value": "Head" }]));
    assert_eq!((named.status, &named.body["name"]["formatted"]), (200, &json!("Head")), "{named:?}");
    let entry = admin.entry("cn=Head,ou=people,dc=example,dc=com", &["cn"]).unwrap().unwrap();
    assert_eq!(entry.values("cn").len(), 2);
}

#[test]
fn versions_prevent_lost_changes() {
    let scim = Scim::start("scim-versions");
    let user = scim.create("/Users", &anna());
    let path = format!("/Users/{}", id(&user));
    let head =
        |name: &str, version: &str| format!("Authorization: {}\r\n{name}: {version}\r\n", scim.authorization);
    let version = user["meta"]["version"].as_str().unwrap().to_owned();
    let known = scim.ask_with("GET", &path, &head("If-None-Match", &version), b"");
    assert_eq!((known.status, known.body), (304, Value::Null));
    assert_eq!(known.http.headers("etag"), [version.as_str()]);

    let mut body = anna();
    body["title"] = "CEO".into();
    let body = body.to_string();
    let replaced = scim.ask_with("PUT", &path, &head("If-Match", &version), body.as_bytes());
    assert_eq!((replaced.status, &replaced.body["title"]), (200, &json!("CEO")), "{replaced:?}");
    for method in ["PUT", "DELETE"] {
        let stale = scim.ask_with(method, &path, &head("If-Match", &version), body.as_bytes());
        stale.expect(412, None);
    }
    // A PUT removes the attributes that it does not contain, except the password.
    let bare = json!({ "schemas": [USER], "userName": "anna", "active": true });
    let cleared = scim.ask("PUT", &path, &bare).expect(200, None);
    assert_eq!((cleared.get("title"), cleared.get("emails"), cleared.get("externalId")), (None, None, None));
    assert!(
        scim.pando.connect().bind("uid=anna,ou=people,dc=example,dc=com", "geheim-1").unwrap().is_success()
    );
    assert_eq!(scim.ask_with("DELETE", &path, &head("If-Match", "*"), b"").status, 204);
}

#[test]
fn simultaneous_patches_all_take_effect() {
    let scim = Scim::start("scim-simultaneous");
    let user = scim.user("anna");
    let path = format!("/Users/{}", id(&user));
    let (at, head) = (scim.at, format!("Authorization: {}\r\n", scim.authorization));
    thread::scope(|scope| {
        for number in 0..3 {
            let (head, path) = (&head, &path);
            scope.spawn(move || {
                for more in 0..10 {
                    let mail = json!([{ "value": format!("{number}-{more}@example.com"), "type": "work" }]);
                    let operations = json!([{ "op": "add", "path": "emails", "value": mail }]);
                    let body = json!({ "schemas": [PATCH], "Operations": operations }).to_string();
                    while exchange(at, "PATCH", path, head, body.as_bytes()).status == 503 {}
                }
            });
        }
    });
    assert_eq!(scim.get(&path).body["emails"].as_array().unwrap().len(), 30);
}

#[test]
fn the_parts_of_a_name_are_kept_consistent() {
    let scim = Scim::start("scim-names");
    let user = scim.user("anna");
    assert_eq!(user.get("name"), None);
    let path = format!("/Users/{}", id(&user));
    let mut admin = scim.ldap();
    let mut cn = || admin.entry("uid=anna,ou=people,dc=example,dc=com", &["cn", "sn"]).unwrap().unwrap();
    assert_eq!((cn().text("cn"), cn().text("sn")), (Some("anna".to_owned()), Some("anna".to_owned())));
    for (operation, name, in_ldap) in [
        (
            json!({ "op": "add", "path": "name", "value": { "givenName": "Anna", "familyName": "Huber" } }),
            json!({ "givenName": "Anna", "familyName": "Huber", "formatted": "Anna Huber" }),
            ("Anna Huber", "Huber"),
        ),
        (
            json!({ "op": "replace", "path": "name.familyName", "value": "Gruber" }),
            json!({ "givenName": "Anna", "familyName": "Gruber", "formatted": "Anna Gruber" }),
            ("Anna Gruber", "Gruber"),
        ),
        (
            json!({ "op": "replace", "path": "name.formatted", "value": "Dr. Anna Gruber" }),
            json!({ "givenName": "Anna", "familyName": "Gruber", "formatted": "Dr. Anna Gruber" }),
            ("Dr. Anna Gruber", "Gruber"),
        ),
        (
            json!({ "op": "replace", "path": "name.familyName", "value": "Huber" }),
            json!({ "givenName": "Anna", "familyName": "Huber", "formatted": "Dr. Anna Gruber" }),
            ("Dr. Anna Gruber", "Huber"),
        ),
        (json!({ "op": "remove", "path": "name" }), Value::Null, ("anna", "anna")),
        (json!({ "op": "add", "path": "displayName", "value": "Anna" }), Value::Null, ("Anna", "anna")),
        (json!({ "op": "add", "path": "displayName", "value": "Ana" }), Value::Null, ("Ana", "anna")),
    ] {
        let answer = scim.patch(&path, &json!([operation])).expect(200, None);
        assert_eq!(answer["name"], name, "{operation}");
        let entry = cn();
        let found = (entry.text("cn").unwrap(), entry.text("sn").unwrap());
        assert_eq!((found.0.as_str(), found.1.as_str()), in_ldap, "{operation}");
    }
}
