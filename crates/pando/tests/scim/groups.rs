//! Groups, whose members are values.

use serde_json::{Value, json};

use crate::{GROUP, Scim, id};

fn group(name: &str, members: &[&Value]) -> Value {
    let members: Vec<Value> = members.iter().map(|member| json!({ "value": member["id"] })).collect();
    json!({ "schemas": [GROUP], "displayName": name, "members": members })
}

fn members(group: &Value) -> Vec<String> {
    let members = group["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut ids: Vec<String> =
        members.iter().map(|member| member["value"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn single_members_are_added_and_removed() {
    let scim = Scim::start("scim-groups");
    let users: Vec<Value> = ["anna", "bert", "cora"].iter().map(|name| scim.user(name)).collect();
    let empty = scim.create("/Groups", &group("empty", &[]));
    let sales = scim.create("/Groups", &group("sales", &[&users[0], &empty]));
    let path = format!("/Groups/{}", id(&sales));
    let kinds: Vec<&Value> =
        sales["members"].as_array().unwrap().iter().map(|member| &member["type"]).collect();
    assert!(kinds.contains(&&json!("User")) && kinds.contains(&&json!("Group")), "{sales}");

    let added = scim.patch(
        &path,
        &json!([{ "op": "add", "path": "members", "value": [
        { "value": users[1]["id"] }, { "value": users[0]["id"] }, { "value": users[2]["id"] }] }]),
    );
    assert_eq!((added.status, members(&added.body).len()), (200, 4), "{added:?}");
    assert_eq!(scim.get(&format!("/Users/{}", id(&users[1]))).body["groups"][0]["value"], sales["id"]);
    for endpoint_and_filter in [
        ("/Groups", format!("members.value eq \"{}\"", id(&users[1]))),
        ("/Groups", format!("members[value eq \"{}\"] and displayName sw \"sal\"", id(&users[1]))),
        ("/Users", format!("groups.value eq \"{}\" and userName eq \"bert\"", id(&sales))),
    ] {
        assert_eq!(
            scim.found(endpoint_and_filter.0, &endpoint_and_filter.1).len(),
            1,
            "{endpoint_and_filter:?}"
        );
    }

    let removed = scim.patch(
        &path,
        &json!([
        { "op": "remove", "path": format!("members[value eq \"{}\"]", id(&users[0])) },
        { "op": "Remove", "path": "members", "value": [{ "value": empty["id"] }] },
        { "op": "replace", "value": { "displayName": "sellers", "externalId": "s" } }]),
    );
    let mut expected = vec![id(&users[1]).to_owned(), id(&users[2]).to_owned()];
    expected.sort();
    assert_eq!(
        (members(&removed.body), &removed.body["displayName"]),
        (expected, &json!("sellers")),
        "{removed:?}"
    );

    let replaced = scim.ask("PUT", &path, &group("sellers", &[&users[0], &users[2]])).expect(200, None);
    assert_eq!((members(&replaced).len(), replaced.get("externalId")), (2, None));
    let entry = scim.ldap().entry("cn=sellers,ou=groups,dc=example,dc=com", &["member"]).unwrap().unwrap();
    assert_eq!(entry.values("member").len(), 2);
    let none = scim.patch(&path, &json!([{ "op": "remove", "path": "members" }]));
    assert_eq!((none.status, none.body.get("members")), (200, None), "{none:?}");

    let unknown = json!([{ "op": "add", "path": "members", "value": [
        { "value": "00000000-0000-4000-8000-000000000000" }] }]);
    scim.patch(&path, &unknown).expect(400, Some("invalidValue"));
    let without_id = json!([{ "op": "replace", "path": "members", "value": [{ "value": "" }] }]);
    scim.patch(&path, &without_id).expect(400, Some("invalidValue"));
    let part = json!([{ "op": "replace", "path": "members.value", "value": "x" }]);
    scim.patch(&path, &part).expect(400, Some("mutability"));
    scim.ask("POST", "/Groups", &group("empty", &[])).expect(409, Some("uniqueness"));
}

/// The request for a new group in the documentation of Microsoft Entra ID. It names a schema of Microsoft.
#[test]
fn unknown_schemas_are_ignored() {
    let scim = Scim::start("scim-entra-group");
    let body = json!({
        "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        "displayName": "displayName",
        "members": [],
        "meta": { "resourceType": "Group" },
    });
    let created = scim.create("/Groups", &body);
    assert_eq!(
        (&created["schemas"], &created["externalId"]),
        (&json!([GROUP]), &json!("8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159"))
    );
    let mut other = body;
    other["schemas"].as_array_mut().unwrap().remove(0);
    scim.ask("POST", "/Groups", &other).expect(400, Some("invalidSyntax"));
}

#[test]
fn a_large_group_is_changed_without_being_read() {
    let scim = Scim::start("scim-large-group");
    let mut admin = scim.ldap();
    let mut attributes =
        vec![("objectClass".to_owned(), "groupOfMembers".to_owned()), ("cn".to_owned(), "all".to_owned())];
    for number in 0..1500 {
        let name = format!("user{number}");
        let dn = format!("uid={name},ou=people,dc=example,dc=com");
        let person = [("objectClass", "inetOrgPerson"), ("uid", &name), ("cn", &name), ("sn", &name)];
        assert!(admin.add(&dn, &person).unwrap().is_success());
        attributes.push(("member".to_owned(), dn));
    }
    let attributes: Vec<(&str, &str)> =
        attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert!(admin.add("cn=all,ou=groups,dc=example,dc=com", &attributes).unwrap().is_success());
    let anna = scim.user("anna");
    let all = scim.found("/Groups", r#"displayName eq "all""#).remove(0);
    assert_eq!(members(&all).len(), 1500);
    let path = format!("/Groups/{}", id(&all));
    let add = json!([{ "op": "add", "path": "members", "value": [{ "value": anna["id"] }] }]);
    let answer = scim.patch(&path, &add);
    // The group is too large to be returned after every change.
    assert_eq!((answer.status, answer.body), (204, Value::Null));
    assert_eq!(answer.http.headers("etag").len(), 1);
    let shown = scim.ask(
        "PATCH",
        &format!("{path}?excludedAttributes=members"),
        &json!({
        "schemas": [crate::PATCH], "Operations": add }),
    );
    assert_eq!((shown.status, shown.body.get("members")), (200, None));
    assert_eq!(members(&scim.get(&path).body).len(), 1501);
}
