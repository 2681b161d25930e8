//! The pages for administrators.

use client::Connection;
use ldap::Scope;
use serde_json::Value;

use crate::support::cluster::until;
use crate::support::http::{Browser, quoted};
use crate::support::pando::command;
use crate::support::tree::{add, add_person, person_dn};
use crate::support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};
use crate::{filled, start};

/// Waits until a condition holds.
fn patiently(is_met: impl Fn() -> bool) {
    until("the page shows it", || is_met().then_some(()));
}

/// Adds `ou=people` and a person.
fn plant(administrator: &mut Connection) {
    add(administrator, SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
    let people = format!("ou=people,{SUFFIX}");
    add(administrator, &people, &[("objectClass", "organizationalUnit"), ("ou", "people")]);
    add_person(administrator, "anna");
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn indexes_are_built_changed_and_removed() {
    let scratch = Scratch::new("console-indexes");
    let (pando, mut administrator) = filled(&scratch);
    add_person(&mut administrator, "anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let kinds = |attribute: &str| {
        let model = browser.json("/indexes");
        let indexes = model["indexes"].as_array().unwrap();
        let found = indexes.iter().find(|index| index["attribute"] == attribute);
        found.map(|index| texts(&index["kinds"]).join(","))
    };
    assert_eq!(kinds("description"), None);
    let form = [("attribute", "description"), ("kind", "substring"), ("kind", "equality")];
    assert_eq!(browser.post("/indexes", &form).headers("location"), ["/indexes?notice=index_set"]);
    assert_eq!(kinds("description").as_deref(), Some("equality,substring"));
    assert_eq!(browser.post("/indexes", &[("attribute", "description"), ("kind", "presence")]).status, 303);
    assert_eq!(kinds("description").as_deref(), Some("presence"));
    let page = browser.get("/indexes?attribute=description&notice=index_set").text();
    assert!(page.contains("value=\"presence\" checked") && page.contains("The index was changed."), "{page}");
    patiently(|| {
        let model = browser.json("/indexes");
        let work = model["indexes"].as_array().unwrap().iter().map(|index| index["work"].clone());
        work.chain([model["removed"].clone()]).all(|work| work.as_array().unwrap().is_empty())
    });
    let remove = [("attribute", "description"), ("action", "remove")];
    assert_eq!(browser.post("/indexes", &remove).status, 303);
    assert_eq!(kinds("description"), None);

    // What is refused shows the form again, with the reason.
    for (fields, status) in [
        (&[("attribute", "no-such<b>"), ("kind", "equality")][..], 422),
        (&[("attribute", "description")], 422),
        (&[("attribute", "jpegPhoto"), ("kind", "substring")], 422),
        (&[("kind", "equality")], 422),
    ] {
        let answer = browser.post("/indexes", fields);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains("role=\"alert\"") && !answer.text().contains("<b>"));
    }
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(own.get("/indexes").status, 403);
    assert!(own.post("/indexes", &form).status >= 400);
    assert!(!own.get("/").text().contains("href=\"/manage\"") && browser.get("/").text().contains("/manage"));
    assert!(pando.stop().success());
}

#[test]
fn the_adviser_proposes_what_searches_lacked() {
    let scratch = Scratch::new("console-advice");
    // Searches that examine fewer entries are not counted.
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..3_000 {
        ldif += &format!("dn: cn={number},{SUFFIX}\nobjectClass: person\nsn: x\ndescription: {number}\n\n");
    }
    let ldif = scratch.write("people.ldif", ldif);
    command(&["import", ldif.to_str().unwrap()], Some(&Pando::data(&scratch))).expect_code(0);
    let pando = start(&scratch, "");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    assert_eq!(browser.json("/indexes")["advice"].as_array().unwrap().len(), 0);
    let found = pando.administrator().search(SUFFIX, Scope::WholeSubtree, "(description=7)", &["cn"]);
    assert_eq!(found.unwrap().entries.len(), 1);
    patiently(|| !browser.json("/indexes")["advice"].as_array().unwrap().is_empty());
    let advice = browser.json("/indexes")["advice"][0].clone();
    assert_eq!(
        (&advice["attribute"], texts(&advice["kinds"])),
        (&Value::from("description"), vec!["equality"])
    );
    assert!(advice["examined"].as_u64() >= Some(3_000), "{advice}");
    assert_eq!(browser.post("/indexes", &[("attribute", "description"), ("kind", "equality")]).status, 303);
    patiently(|| browser.json("/indexes")["advice"].as_array().unwrap().is_empty());
    assert!(pando.stop().success());
}

#[test]
fn the_audit_trail_is_searched_by_who_what_and_when() {
    let scratch = Scratch::new("console-audit");
    let trail = scratch.path().join("trail");
    let pando =
        start(&scratch, &format!("[audit]\nfolder = {:?}\nvalues = \"all\"", trail.to_str().unwrap()));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let hostile = "<script>alert(1)</script>";
    let _ = pando.connect().bind(&person_dn("anna"), "wrong").unwrap();
    let _ = pando.connect().bind(&format!("cn={hostile},{SUFFIX}"), "wrong").unwrap();
    crate::support::tree::replace(&mut administrator, &person_dn("anna"), "title", &["=1+1", hostile]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let events = |query: &str| {
        let model = browser.json(&format!("/audit?{query}"));
        model["events"].as_array().unwrap().clone()
    };
    patiently(|| !events("target=anna&operation=modify").is_empty());
    patiently(|| events("operation=bind&result=failed").len() == 2);
    let failed = events("target=anna&operation=bind&result=failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (&failed[0]["code"], &failed[0]["target"]),
        (&Value::from(49), &Value::from(person_dn("anna")))
    );
    assert!(failed[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    let change = &events("target=anna&operation=modify")[0];
    assert_eq!(change["who"], ADMIN_DN);
    assert!(change["values"].to_string().contains("=1+1"), "{change}");
    // Below a DN, by a part of the requester's name, before a time.
    assert_eq!(events(&format!("target={}&operation=add", quoted(&format!("ou=people,{SUFFIX}")))).len(), 2);
    assert_eq!(events("who=nobody-at-all").len(), 0);
    assert_eq!(events(&format!("who={}&operation=add", quoted(&ADMIN_DN.to_uppercase()))).len(), 3);
    assert_eq!(events("until=2026-01-01&since=2025-01-01").len(), 0);
    let adds = events("operation=add");
    let first = adds[0]["time"].as_str().unwrap();
    assert_eq!(events(&format!("operation=add&until={first}")).len(), adds.len() - 1, "the newest is first");

    let page = browser.get("/audit").text();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    let csv = browser.get("/audit?operation=modify&as=csv");
    assert_eq!(csv.headers("content-type"), ["text/csv; charset=utf-8"]);
    assert!(csv.text().starts_with("\"time\",\"operation\",\"who\"") && csv.text().contains("title"));
    for wrong in ["since=yesterday", "until=x", "page=a.b", "page=1"] {
        assert_eq!(browser.get(&format!("/audit?{wrong}")).status, 422, "{wrong}");
    }
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!((own.get("/audit").status, own.get("/audit?as=csv").status), (403, 403));
    assert!(pando.stop().success());
}
