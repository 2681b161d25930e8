//! Lists: pages by index and by cursor, sorting, selection, and the documents of the service.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Scim, USER, id};

const COUNT: usize = 57;

fn start_with_users(name: &str) -> Scim {
    let scim = Scim::start(name);
    let mut admin = scim.ldap();
    for number in 0..COUNT {
        let name = format!("user{number:03}");
        let dn = format!("uid={name},ou=people,dc=example,dc=com");
        let person = [("objectClass", "inetOrgPerson"), ("uid", &name), ("cn", &name), ("sn", "Huber")];
        assert!(admin.add(&dn, &person).unwrap().is_success());
    }
    scim
}

fn names(list: &Value) -> Vec<String> {
    let resources = list["Resources"].as_array().unwrap();
    resources.iter().map(|resource| resource["userName"].as_str().unwrap_or("?").to_owned()).collect()
}

#[test]
fn pages_contain_every_user_once() {
    let scim = start_with_users("scim-pages");
    let mut seen = Vec::new();
    while seen.len() < COUNT {
        let page = scim.get(&format!("/Users?startIndex={}&count=10", seen.len() + 1)).expect(200, None);
        assert_eq!((&page["totalResults"], &page["startIndex"]), (&json!(COUNT), &json!(seen.len() + 1)));
        seen.extend(names(&page));
    }
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (COUNT, COUNT));
    // Requests an index at which no earlier page has begun.
    let page = scim.get("/Users?startIndex=54&count=7&attributes=userName").expect(200, None);
    assert_eq!((names(&page).as_slice(), &page["totalResults"]), (&seen[53..], &json!(COUNT)));
    for (query, listed) in
        [("startIndex=100", 0), ("count=0", 0), ("count=-1", 0), ("startIndex=-5&count=3", 3)]
    {
        let page = scim.get(&format!("/Users?{query}")).expect(200, None);
        assert_eq!((names(&page).len(), &page["totalResults"]), (listed, &json!(COUNT)), "{query}");
    }

    let (mut by_cursor, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = scim.get(&format!("/Users?cursor={cursor}&count=10")).expect(200, None);
        assert_eq!(page["totalResults"], COUNT);
        by_cursor.extend(names(&page));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(by_cursor, seen);
    // A page without resources has no cursor, because the next page is the first.
    let none = scim.get("/Users?cursor&count=0").expect(200, None);
    assert_eq!((&none["totalResults"], none.get("nextCursor")), (&json!(COUNT), None));
    for stale in ["x", "AAAAAAAAAAAA", &cursor] {
        let filtered = format!("/Users?cursor={stale}&count=10&filter=title%20pr");
        scim.get(&filtered).expect(400, Some("invalidCursor"));
    }
}

#[test]
fn lists_are_sorted_and_attributes_selected() {
    let scim = start_with_users("scim-order");
    let page =
        scim.get("/Users?sortBy=userName&sortOrder=descending&count=2&attributes=userName").expect(200, None);
    assert_eq!(names(&page), ["user056", "user055"]);
    let keys: Vec<&String> = page["Resources"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "schemas", "userName"]);
    let next =
        scim.get("/Users?sortBy=userName&sortOrder=descending&count=2&startIndex=3&attributes=userName");
    assert_eq!(names(&next.expect(200, None)), ["user054", "user053"]);
    let part = scim.get("/Users?count=1&attributes=name.familyName,meta.location").expect(200, None);
    let only = &part["Resources"][0];
    assert_eq!(
        (&only["name"], only["meta"].as_object().unwrap().len()),
        (&json!({ "familyName": "Huber" }), 1)
    );
    let without =
        scim.get("/Users?count=1&excludedAttributes=name.formatted,meta,userName,id").expect(200, None);
    let without = without["Resources"][0].as_object().unwrap();
    assert_eq!((without.get("meta"), without.get("userName")), (None, None));
    assert!(without.contains_key("id") && without["name"].get("formatted").is_none(), "{without:?}");
    scim.get("/Users?attributes=a&excludedAttributes=b").expect(400, Some("invalidValue"));
    scim.get("/Users?sortBy=groups").expect(400, Some("invalidPath"));

    let search = |path: &str, more: Value| {
        let mut body = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scim.ask("POST", path, &body)
    };
    let found =
        search("/Users/.search", json!({ "filter": "userName sw \"user01\"", "attributes": ["userName"] }));
    assert_eq!(names(&found.expect(200, None)).len(), 10);
    scim.create("/Groups", &json!({ "schemas": [crate::GROUP], "displayName": "user team" }));
    let all = search("/.search", json!({ "count": 5, "startIndex": COUNT }));
    let all = all.expect(200, None);
    assert_eq!((&all["totalResults"], names(&all).len()), (&json!(COUNT + 1), 2));
    let one =
        search("/.search", json!({ "filter": "displayName eq \"user team\" or userName eq \"user001\"" }));
    // Groups have no userName, so the comparison does not match them.
    assert_eq!(one.expect(200, None)["totalResults"], 2);
    search("/.search", json!({ "filter": "shoeSize pr" })).expect(400, Some("invalidFilter"));
}

#[test]
fn the_service_describes_itself() {
    let scim = Scim::start("scim-documents");
    let anonymous = |path: &str| scim.ask_with("GET", path, "", b"");
    let config = anonymous("/ServiceProviderConfig").expect(200, None);
    assert!(["patch", "bulk", "filter", "sort", "etag"].iter().all(|name| config[name]["supported"] == true));
    let schemas = anonymous("/Schemas").expect(200, None);
    assert_eq!(schemas["totalResults"], 3);
    let user = anonymous(&format!("/Schemas/{USER}")).expect(200, None);
    let attributes: Vec<&str> =
        user["attributes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(attributes.contains(&"userName") && !attributes.contains(&"nickName"), "{attributes:?}");
    assert_eq!(anonymous("/ResourceTypes/User").expect(200, None)["endpoint"], "/Users");
    anonymous("/Schemas/urn:none").expect(404, None);
    anonymous("/Schemas?filter=id%20pr").expect(403, None);
    anonymous("/Nothing").expect(404, None);
    for (method, path, allowed) in [
        ("PUT", "/Users", "GET, HEAD, POST"),
        ("GET", "/Bulk", "POST"),
        ("POST", "/Users/10000000-0000-4000-8000-000000000000", "GET, HEAD, PUT, PATCH, DELETE"),
        ("DELETE", "/Schemas", "GET, HEAD"),
    ] {
        let answer = scim.ask(method, path, &Value::Null);
        assert_eq!(
            (answer.status, answer.http.headers("allow").concat()),
            (405, allowed.to_owned()),
            "{path}"
        );
    }
    scim.get("/Me/x").expect(404, None);
    // Attributes without a mapping are left out, and unknown names are refused.
    let body = json!({ "schemas": [USER], "userName": "a", "nickName": "b", "ims": [{ "value": "c" }] });
    let user = scim.create("/Users", &body);
    assert_eq!((user.get("nickName"), user.get("ims")), (None, None));
    assert_eq!(scim.get(&format!("/Users/{}", id(&user))).body, user);
}
