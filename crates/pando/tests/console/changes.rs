//! Changes by the pages: edit, add, rename, delete, passwords of other users, members.

use client::Connection;
use serde_json::Value;

use crate::start_with_people;
use test_support::http::{Browser, quoted};
use test_support::tree::{add, add_person, person_dn, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

fn texts(administrator: &mut Connection, dn: &str, attribute: &str) -> Vec<String> {
    administrator.entry(dn, &["*"]).unwrap().map(|entry| entry.texts(attribute)).unwrap_or_default()
}

fn model(answer: &test_support::http::Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()))
}

#[test]
fn an_edit_is_previewed_and_loses_no_update() {
    let scratch = Scratch::new("console-edit");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let dn = person_dn("anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let form = browser.json(&format!("/edit?dn={}", quoted(&dn)));
    let csn = form["csn"].as_str().unwrap().to_owned();
    let names: Vec<_> =
        form["inputs"].as_array().unwrap().iter().map(|input| input["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"mail") && names.contains(&"manager") && !names.contains(&"userPassword"),
        "{names:?}"
    );
    let fields = [
        ("dn", dn.as_str()),
        ("csn", &csn),
        ("v:sn", "Huber"),
        ("v:mail", "a@example.com"),
        ("v:mail", ""),
        ("v:title", "=1+1"),
    ];
    let preview = model(&browser.post_json("/edit", &fields));
    let ldif = preview["ldif"].as_str().unwrap();
    assert!(ldif.contains("add: mail\nmail: a@example.com\n-\n") && ldif.contains("delete: sn\n"), "{ldif}");
    assert_eq!(texts(&mut administrator, &dn, "mail"), [""; 0], "nothing is changed yet");
    let mut apply = fields.to_vec();
    apply.push(("step", "apply"));
    assert_eq!(browser.post("/edit", &apply).status, 303);
    assert_eq!(texts(&mut administrator, &dn, "mail"), ["a@example.com"]);
    assert_eq!(texts(&mut administrator, &dn, "sn"), ["Huber"]);
    assert_eq!(texts(&mut administrator, &dn, "cn"), ["anna"], "an attribute that the form lacks stays");

    // The form was made for an earlier version of the entry, and would undo the change of another user.
    assert_eq!(browser.post("/edit", &apply).status, 409);
    let form = browser.json(&format!("/edit?dn={}", quoted(&dn)));
    let fresh =
        [("dn", dn.as_str()), ("csn", form["csn"].as_str().unwrap()), ("v:title", "Dr"), ("step", "apply")];
    replace(&mut administrator, &dn, "title", &["Prof"]);
    assert_eq!(browser.post("/edit", &fresh).status, 409);
    assert_eq!(texts(&mut administrator, &dn, "title"), ["Prof"]);

    // If the schema refuses a change, the form is shown again with the input.
    let form = browser.json(&format!("/edit?dn={}", quoted(&dn)));
    let bad = [
        ("dn", dn.as_str()),
        ("csn", form["csn"].as_str().unwrap()),
        ("v:manager", "no name<b>"),
        ("step", "apply"),
    ];
    let answer = browser.post("/edit", &bad);
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("value=\"no name&lt;b&gt;\""), "{}", answer.text());
    assert!(pando.stop().success());
}

#[test]
fn a_person_and_a_group_are_added_and_the_password_is_generated() {
    let scratch = Scratch::new("console-add");
    let (pando, mut administrator) = start_with_people(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let people = format!("ou=people,{SUFFIX}");
    let fields =
        [("kind", "person"), ("parent", people.as_str()), ("v:uid", "bea,1"), ("v:cn", "Bea"), ("v:sn", "B")];
    let preview = model(&browser.post_json("/add", &fields));
    let dn = preview["dn"].as_str().unwrap().to_owned();
    assert_eq!(dn, format!("uid=bea\\,1,{people}"));
    let mut apply = fields.to_vec();
    apply.push(("step", "apply"));
    let added = browser.post("/add", &apply);
    assert_eq!(added.status, 303, "{}", added.text());
    assert!(added.headers("location")[0].starts_with("/reset-password?"));
    assert_eq!(browser.post("/add", &apply).status, 409, "there is one already");
    let reset = model(&browser.post_json("/reset-password", &[("dn", &dn)]));
    let generated = reset["generated"].as_str().unwrap();
    let own = Browser::signed_in(&pando, &dn, generated);
    assert_eq!(own.json(&format!("/entry?dn={}", quoted(&dn)))["dn"], dn);

    // A user cannot do what is permitted to the administrator only.
    let others = own.post("/reset-password", &[("dn", people.as_str()), ("new", "x"), ("again", "x")]);
    assert!(matches!(others.status, 403 | 422), "{}", others.text());
    let other = [("kind", "unit"), ("parent", SUFFIX), ("v:ou", "own"), ("step", "apply")];
    assert_eq!(own.post("/add", &other).status, 403);
    assert_eq!(own.post("/delete", &[("dn", people.as_str()), ("tree", "1")]).status, 403);

    let group = [
        ("kind", "group"),
        ("parent", SUFFIX),
        ("v:cn", "team"),
        ("v:member", dn.as_str()),
        ("step", "apply"),
    ];
    assert_eq!(browser.post("/add", &group).status, 303);
    assert_eq!(texts(&mut administrator, &format!("cn=team,{SUFFIX}"), "member"), [dn.as_str()]);
    let nameless = [("kind", "unit"), ("parent", SUFFIX), ("v:description", "x"), ("step", "apply")];
    assert_eq!(browser.post("/add", &nameless).status, 422);
    assert!(pando.stop().success());
}

#[test]
fn members_join_and_leave_by_name() {
    let scratch = Scratch::new("console-members");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let team = format!("cn=team,{SUFFIX}");
    let anna = person_dn("anna");
    add(&mut administrator, &team, &[("objectClass", "groupOfNames"), ("cn", "team"), ("member", &anna)]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let send = |action: &str, who: &str| {
        browser
            .post("/members", &[("dn", &team), ("attribute", "member"), ("action", action), ("who", who)])
            .status
    };
    assert_eq!(send("join", "bea"), 303);
    assert_eq!(send("join", "nobody"), 422);
    assert_eq!(send("leave", &anna), 303);
    assert_eq!(texts(&mut administrator, &team, "member"), [person_dn("bea")]);
    let page = browser.json(&format!("/members?dn={}", quoted(&team)));
    assert_eq!(page["members"][0], person_dn("bea"));
    let entry = browser.json(&format!("/entry?dn={}", quoted(&person_dn("bea"))));
    assert!(entry.to_string().contains("memberOf"), "{entry}");
    assert!(pando.stop().success());
}

#[test]
fn entries_are_renamed_and_trees_deleted_on_demand() {
    let scratch = Scratch::new("console-rename");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let people = format!("ou=people,{SUFFIX}");
    let anna = person_dn("anna");
    let renamed = browser.post("/rename", &[("dn", &anna), ("rdn", "uid=ann"), ("parent", &people)]);
    assert_eq!(renamed.status, 303, "{}", renamed.text());
    assert_eq!(texts(&mut administrator, &person_dn("ann"), "uid"), ["ann"]);
    assert_eq!(
        browser.post("/rename", &[("dn", &person_dn("ann")), ("rdn", "x"), ("parent", &people)]).status,
        422
    );
    let question = browser.json(&format!("/delete?dn={}", quoted(&people)));
    assert_eq!((&question["has_subordinates"], &question["below"]), (&Value::Bool(true), &Value::from(2)));
    assert_eq!(browser.post("/delete", &[("dn", &people)]).status, 422, "not without the word");
    assert_eq!(browser.post("/delete", &[("dn", &people), ("tree", "1")]).status, 303);
    assert!(administrator.entry(&people, &["1.1"]).unwrap().is_none());
    assert!(pando.stop().success());
}

/// A template fails if the model lacks a value, so each page is rendered for each kind of user.
#[test]
fn every_page_renders_as_html_and_json() {
    let scratch = Scratch::new("console-pages");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    set_password(&mut administrator, "anna", "secret of anna");
    let team = format!("cn=team,{SUFFIX}");
    let anna = person_dn("anna");
    add(&mut administrator, &team, &[("objectClass", "groupOfNames"), ("cn", "team"), ("member", &anna)]);
    let (anna, team, suffix) = (quoted(&anna), quoted(&team), quoted(SUFFIX));
    let paths = [
        "/".to_owned(),
        "/health".to_owned(),
        "/sign-in?notice=changed".to_owned(),
        "/password?notice=grace".to_owned(),
        "/search".to_owned(),
        "/search?q=an".to_owned(),
        "/search?q=nobody-at-all".to_owned(),
        "/search?filter=(objectClass%3D*)&columns=cn,objectClass".to_owned(),
        "/tree".to_owned(),
        format!("/tree?dn={suffix}&notice=deleted"),
        format!("/tree?dn={anna}"),
        format!("/entry?dn={anna}&notice=saved"),
        format!("/entry?dn={anna}&operational=1"),
        format!("/entry?dn={team}&attribute=member&first=0"),
        "/entry?dn=".to_owned(),
        format!("/edit?dn={anna}"),
        format!("/edit?dn={team}"),
        "/add".to_owned(),
        format!("/add?kind=person&parent={suffix}"),
        "/add?kind=group".to_owned(),
        "/add?kind=unit".to_owned(),
        "/add?class=device".to_owned(),
        format!("/delete?dn={anna}"),
        format!("/delete?dn={suffix}"),
        format!("/rename?dn={anna}"),
        format!("/reset-password?dn={anna}&notice=added"),
        format!("/members?dn={team}&notice=joined"),
        format!("/members?dn={anna}"),
        "/manage".to_owned(),
        "/schema".to_owned(),
        "/schema?q=mail".to_owned(),
        "/schema?type=cn".to_owned(),
        "/schema?class=inetOrgPerson".to_owned(),
    ];
    for (name, password) in [(ADMIN_DN, ADMIN_PASSWORD), ("anna", "secret of anna")] {
        let browser = Browser::signed_in(&pando, name, password);
        for path in &paths {
            let page = browser.get(path);
            let is_refused = name != ADMIN_DN
                && ["/delete", "/manage", "/rename"].iter().any(|form| path.starts_with(form));
            assert_eq!(page.status, if is_refused { 403 } else { 200 }, "{path} for {name}: {}", page.text());
            let text = page.text();
            assert!(text.contains("</html>") && text.len() < 300_000, "{path}: {} bytes", text.len());
            for elsewhere in ["src=\"http", "href=\"http", "//cdn"] {
                assert!(!text.contains(elsewhere), "{path} refers to another origin");
            }
            if !is_refused {
                browser.json(path);
            }
        }
        for (path, status) in
            [("/entry?dn=cn%3Dnone,dc%3Dnone", 404), ("/edit?dn=no%20name", 422), ("/schema?type=none", 404)]
        {
            assert_eq!(browser.get(path).status, status, "{path}: {}", browser.get(path).text());
        }
        let overview = browser.json("/");
        assert_eq!(overview["reads_monitor"], name == ADMIN_DN);
        assert!(browser.get("/openapi.json").text().contains("\"/members\""));
    }
    assert!(!pando.log().contains("cannot show"), "{}", pando.log());
    assert!(pando.stop().success());
}

/// Pages offer only what the requester may do. They show the state of an account only to users who may read it.
#[test]
fn pages_offer_what_the_requester_may_do() {
    let scratch = Scratch::new("console-rights");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let of = |browser: &Browser, uid: &str| browser.json(&format!("/entry?dn={}", quoted(&person_dn(uid))));
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    for uid in ["anna", "bea"] {
        let entry = of(&own, uid);
        for right in ["can_edit", "can_delete", "can_rename"] {
            assert_eq!(entry[right], false, "{right} of {uid}");
        }
        assert_eq!(entry["can_reset"], uid == "anna");
        let form = own.json(&format!("/edit?dn={}", quoted(&person_dn(uid))));
        assert_eq!(form["inputs"].as_array().unwrap().len(), 0);
    }
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let entry = of(&browser, "bea");
    for right in ["can_edit", "can_delete", "can_rename", "can_reset"] {
        assert_eq!(entry[right], true, "{right}");
    }
    assert_eq!(entry["account"].as_array().unwrap().len(), 0);
    replace(&mut administrator, &person_dn("bea"), "pwdAccountLockedTime", &["000001010000Z"]);
    assert_eq!(of(&browser, "bea")["account"][0]["text"], "inactive", "{}", of(&browser, "bea")["account"]);
    assert!(pando.stop().success());
}

#[test]
fn deleted_entries_are_restored_and_access_is_explained() {
    let scratch = Scratch::new("console-undo");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    replace(&mut administrator, "cn=config", "pandoKeepDeletedSeconds", &["3600"]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let anna = person_dn("anna");
    assert_eq!(browser.post("/delete", &[("dn", &anna)]).status, 303);
    let list = browser.json("/deleted");
    assert_eq!(
        (&list["entries"][0]["dn"], &list["entries"][0]["who"]),
        (&Value::from(anna.as_str()), &Value::from(ADMIN_DN))
    );
    let uuid = list["entries"][0]["uuid"].as_str().unwrap();
    let own = Browser::signed_in(&pando, "bea", "bea-secret");
    assert_eq!(own.get("/deleted").status, 403);
    assert_eq!(own.post("/deleted", &[("uuid", uuid)]).status, 403);
    assert_eq!(browser.post("/deleted", &[("uuid", uuid)]).status, 303);
    assert_eq!(texts(&mut administrator, &anna, "uid"), ["anna"]);
    assert_eq!(browser.post("/deleted", &[("uuid", "zz")]).status, 400);
    assert_eq!(browser.get("/deleted").status, 200);

    let asked = |browser: &Browser, who: &str, right: &str, attribute: &str| {
        let query = format!("/access?who={who}&right={right}&attribute={attribute}&dn={}", quoted(&anna));
        browser.json(&query)["answer"]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(&browser, "bea", "read", "mail"), "allowed");
    assert_eq!(asked(&browser, "bea", "write", "mail"), "denied");
    assert_eq!(asked(&browser, "anonymous", "read", "mail"), "denied");
    // The link from an entry names no attribute. If the server refuses the question, the form still contains it.
    let linked = browser.get(&format!("/access?right=read&dn={}", quoted(&anna)));
    assert_eq!(linked.status, 200, "{}", linked.text());
    assert!(linked.text().contains("Name an attribute"), "{}", linked.text());
    let wrong = browser.get(&format!("/access?right=read&attribute=no-such&dn={}", quoted(&anna)));
    assert!(wrong.status >= 400 && wrong.text().contains("value=\"no-such\""), "{}", wrong.text());
    replace(
        &mut administrator,
        "cn=config",
        "pandoAccessRule",
        &["pay: allow read of mail to authenticated"],
    );
    let rules = browser.json("/access?attribute=MAIL")["in_force"].clone();
    assert_eq!((rules.as_array().map(Vec::len), &rules[0]["mentions"]), (Some(1), &true.into()));
    let page = browser.get(&format!("/access?who=bea&right=write&attribute=mail&dn={}", quoted(&anna)));
    assert_eq!(page.status, 200);
    let refused = own.get(&format!("/access?who=anna&right=write&attribute=mail&dn={}", quoted(&anna)));
    assert!(refused.status >= 400, "{}", refused.text());
    assert!(pando.stop().success());
}
