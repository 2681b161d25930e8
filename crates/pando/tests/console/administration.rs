//! Pages for administrators.

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};
use serde_json::Value;

use crate::{start, start_with_people};
use test_support::cluster::until;
use test_support::http::{Browser, quoted};
use test_support::pando::command;
use test_support::tree::{add, add_person, bind, person_dn, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Waits until a condition holds.
fn wait_until(is_met: impl Fn() -> bool) {
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
    let (pando, mut administrator) = start_with_people(&scratch);
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
    wait_until(|| {
        let model = browser.json("/indexes");
        let work = model["indexes"].as_array().unwrap().iter().map(|index| index["work"].clone());
        work.chain([model["removed"].clone()]).all(|work| work.as_array().unwrap().is_empty())
    });
    // Of the three entries (the suffix, ou=people and anna), one has a uid.
    wait_until(|| {
        let model = browser.json("/indexes");
        let uid = model["indexes"].as_array().unwrap().iter().find(|index| index["attribute"] == "uid");
        uid.is_some_and(|uid| uid["size"]["rows"] == 1 && uid["size"]["is_estimate"] == false)
    });
    assert!(browser.get("/indexes").text().contains("1 rows · 1 keys"));
    let remove = [("attribute", "description"), ("action", "remove")];
    assert_eq!(browser.post("/indexes", &remove).status, 303);
    assert_eq!(kinds("description"), None);

    // After a refusal, the form is shown again with the reason.
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
    // The directory has 3,000 entries, because searches that examine fewer entries are not counted.
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
    wait_until(|| !browser.json("/indexes")["advice"].as_array().unwrap().is_empty());
    let advice = browser.json("/indexes")["advice"][0].clone();
    assert_eq!(
        (&advice["attribute"], texts(&advice["kinds"])),
        (&Value::from("description"), vec!["equality"])
    );
    assert!(advice["examined"].as_u64() >= Some(3_000), "{advice}");
    assert_eq!(browser.post("/indexes", &[("attribute", "description"), ("kind", "equality")]).status, 303);
    wait_until(|| browser.json("/indexes")["advice"].as_array().unwrap().is_empty());
    assert!(pando.stop().success());
}

#[test]
fn the_audit_trail_is_searched_by_requester_operation_and_time() {
    let scratch = Scratch::new("console-audit");
    let trail = scratch.path().join("trail");
    let pando =
        start(&scratch, &format!("[audit]\nfolder = {:?}\nvalues = \"all\"", trail.to_str().unwrap()));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let hostile = "<script>alert(1)</script>";
    let _ = pando.connect().bind(&person_dn("anna"), "wrong").unwrap();
    let _ = pando.connect().bind(&format!("cn={hostile},{SUFFIX}"), "wrong").unwrap();
    replace(&mut administrator, &person_dn("anna"), "title", &["=1+1", hostile]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let events = |query: &str| {
        let model = browser.json(&format!("/audit?{query}"));
        model["events"].as_array().unwrap().clone()
    };
    wait_until(|| !events("target=anna&operation=modify").is_empty());
    wait_until(|| events("operation=bind&result=failed").len() == 2);
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
    // Select events by entries below a DN, by the requester, and by the end of a time range.
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
    // Neither signing in nor the pages of a user cause a request that the server refuses.
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!((own.get("/").status, own.get("/search?q=anna").status), (200, 200));
    wait_until(|| !events("who=anna&operation=search").is_empty());
    let refused: Vec<Value> = events("who=anna").into_iter().filter(|event| event["code"] == 50).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!((own.get("/audit").status, own.get("/audit?as=csv").status), (403, 403));
    assert!(pando.stop().success());
}

#[test]
fn histories_list_changes_and_can_undo_them() {
    let scratch = Scratch::new("console-history");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let (anna, bea, sales) = (person_dn("anna"), person_dn("bea"), format!("cn=sales,{SUFFIX}"));
    add(&mut administrator, &sales, &[("objectClass", "groupOfNames"), ("cn", "sales"), ("member", &anna)]);
    replace(&mut administrator, &sales, "description", &["one"]);
    replace(&mut administrator, &sales, "description", &["two"]);
    let swap = [
        (ChangeOperation::Add, "member", &[bea.as_str()][..]),
        (ChangeOperation::Delete, "member", &[&anna]),
    ];
    assert!(administrator.modify(&sales, &swap).unwrap().is_success());
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let history = |dn: &str| browser.json(&format!("/history?dn={}", quoted(dn)))["changes"].clone();
    let changes = history(&sales);
    let kinds: Vec<_> = changes.as_array().unwrap().iter().map(|change| change["kind"].clone()).collect();
    assert_eq!(kinds, ["modify", "modify", "modify", "add"]);
    assert_eq!((&changes[0]["who"], &changes[0]["can_undo"]), (&Value::from(ADMIN_DN), &Value::Bool(true)));
    assert!(changes[0]["values"].to_string().contains(&bea), "{changes}");
    assert_eq!(browser.get(&format!("/history?dn={}&notice=undone", quoted(&sales))).status, 200);

    // Undo the change of the members, after a preview.
    let undo = |change: &Value, apply: bool| {
        let position = change["position"].to_string();
        let fields = [("dn", sales.as_str()), ("position", &position)];
        let preview = browser.post_json("/history", &fields);
        let model: Value = serde_json::from_slice(&preview.body).unwrap();
        let csn = model["csn"].as_str().unwrap_or_default();
        let with = [("csn", csn), ("step", "apply")];
        let made = apply.then(|| browser.post("/history", &[&fields[..], &with].concat()));
        (model, made.map(|made| made.status))
    };
    let values = |administrator: &mut Connection, name: &str| {
        administrator.entry(&sales, &[name]).unwrap().unwrap().texts(name)
    };
    let (preview, made) = undo(&changes[0], true);
    assert!(preview["ldif"].as_str().unwrap().contains("add: member"), "{preview}");
    assert_eq!((made, values(&mut administrator, "member")), (Some(303), vec![anna.clone()]));
    // The previous value of a replaced attribute is found in the preceding change.
    assert_eq!(undo(&changes[1], true).1, Some(303));
    assert_eq!(values(&mut administrator, "description"), ["one"]);
    assert_eq!(undo(&changes[2], true).1, Some(303));
    assert_eq!(values(&mut administrator, "description"), [""; 0]);
    // The members are again as before the change, and the description is no longer "two".
    for (change, name) in [(&changes[0], "member"), (&changes[1], "description")] {
        let (refusal, made) = undo(change, true);
        let said = refusal["error"].to_string();
        assert!(made == Some(409) && said.contains("have changed since") && said.contains(name), "{refusal}");
    }
    assert_eq!(values(&mut administrator, "member"), [anna.as_str()]);
    // The server refuses a preview that is out of date, an undo of an add, and a change of another entry.
    let stale = [("dn", sales.as_str()), ("position", "1"), ("csn", "x"), ("step", "apply")];
    assert_eq!(browser.post("/history", &stale).status, 422);
    let position = changes[0]["position"].to_string();
    let stale = [("dn", sales.as_str()), ("position", &position), ("csn", "x"), ("step", "apply")];
    assert_eq!(browser.post("/history", &stale).status, 409);
    let of_other = [("dn", anna.as_str()), ("position", &position)];
    assert_eq!(browser.post("/history", &of_other).status, 422);

    // No page reveals a password, and users without the right see no history.
    let own = history(&anna).to_string();
    assert!(own.contains("userPassword") && !own.to_lowercase().contains("argon2"));
    assert_eq!(browser.get("/history?dn=cn%3Dnone,dc%3Dnone").status, 404);
    let anna = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(anna.get(&format!("/history?dn={}", quoted(&sales))).status, 403);
    assert!(pando.stop().success());
}

/// An undo needs the rights that its change needs, and keeps what other users have changed since.
#[test]
fn an_undo_needs_rights_and_keeps_later_changes() {
    let scratch = Scratch::new("console-undo-rights");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea", "vera"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let (anna, bea, vera, sales) =
        (person_dn("anna"), person_dn("bea"), person_dn("vera"), format!("cn=sales,{SUFFIX}"));
    add(&mut administrator, &sales, &[("objectClass", "groupOfNames"), ("cn", "sales"), ("member", &anna)]);
    let rules = [
        "all: allow browse, read to authenticated".to_owned(),
        format!("vera: allow use of read-audit to user '{vera}'"),
        format!("text: allow write of description at '{sales}' to user '{vera}'"),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    let modify = |administrator: &mut Connection, operation, name: &str, value: &str| {
        assert!(administrator.modify(&sales, &[(operation, name, &[value])]).unwrap().is_success());
    };
    modify(&mut administrator, ChangeOperation::Add, "member", &bea);
    modify(&mut administrator, ChangeOperation::Replace, "description", "Sales");
    modify(&mut administrator, ChangeOperation::Add, "member", &vera);
    let browser = Browser::signed_in(&pando, &vera, "vera-secret");
    let history = browser.json(&format!("/history?dn={}", quoted(&sales)));
    let undo = |browser: &Browser, place: usize| {
        let position = history["changes"][place]["position"].to_string();
        let fields = [("dn", sales.as_str()), ("position", &position)];
        let preview = browser.post_json("/history", &fields);
        if preview.status != 200 {
            return preview.status;
        }
        let model: Value = serde_json::from_slice(&preview.body).unwrap();
        let with = [("csn", model["csn"].as_str().unwrap()), ("step", "apply")];
        browser.post("/history", &[&fields[..], &with].concat()).status
    };
    assert_eq!((undo(&browser, 0), undo(&browser, 1)), (403, 303), "vera may write the description alone");
    let of = |administrator: &mut Connection, name: &str| {
        administrator.entry(&sales, &[name]).unwrap().unwrap().texts(name)
    };
    assert_eq!(of(&mut administrator, "description"), [""; 0]);
    // The administrator removes bea again. Vera, who was added later, stays.
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    assert_eq!((undo(&browser, 2), undo(&browser, 2)), (303, 409));
    assert_eq!(of(&mut administrator, "member"), [anna, vera]);
    // A different spelling that the directory regards as equal is not a change.
    modify(&mut administrator, ChangeOperation::Replace, "description", "of  SALES");
    let history = browser.json(&format!("/history?dn={}", quoted(&sales)));
    modify(&mut administrator, ChangeOperation::Replace, "description", "Of Sales");
    let position = history["changes"][0]["position"].to_string();
    let preview = browser.post_json("/history", &[("dn", &sales), ("position", &position)]);
    assert_eq!(preview.status, 200, "{}", preview.text());
    assert!(pando.stop().success());
}

/// The page lists the rules about a right, and the requesters to whom they apply, as the server reports them.
#[test]
fn the_access_page_lists_requesters_with_a_right() {
    let scratch = Scratch::new("console-access-list");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "bea"].iter().for_each(|uid| add_person(&mut administrator, uid));
    let pay = format!("cn=pay,{SUFFIX}");
    let bea = person_dn("bea");
    add(&mut administrator, &pay, &[("objectClass", "groupOfNames"), ("cn", "pay"), ("member", &bea)]);
    let rules = [
        "names: allow read of cn, objectClass to anyone",
        &format!("pay: allow read of employeeNumber in 'ou=people,{SUFFIX}' to group '{pay}', self"),
        "guests: deny read of employeeNumber to anonymous",
    ];
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    // The form names the suffix if no entry is given.
    assert_eq!(browser.json("/access")["dn"], SUFFIX);
    let at = |dn: &str| format!("/access?right=read&attribute=employeeNumber&dn={}", quoted(dn));
    let list = browser.json(&at(&person_dn("anna")))["list"].clone();
    assert_eq!(list["may"][0]["text"], rules[1]);
    let who = &list["may"][0]["who"];
    assert_eq!(
        (&who[0]["kind"], &who[0]["dn"], &who[1]["kind"]),
        (&"group".into(), &pay.into(), &"self".into())
    );
    assert_eq!(
        (&list["may_not"][0]["text"], list["below"].as_array().map(Vec::len)),
        (&rules[2].into(), Some(0))
    );
    let list = browser.json(&at(SUFFIX))["list"].clone();
    assert_eq!((list["may"].as_array().map(Vec::len), &list["below"][0]["number"]), (Some(0), &"2".into()));
    let page = browser.get(&at(&person_dn("anna"))).text();
    assert!(
        page.contains("members of <a href")
            && page.contains("cn=pay,dc=example,dc=com</a>")
            && page.contains("the user of the entry"),
        "{page}"
    );
    assert!(browser.get(&at(SUFFIX)).text().contains("Only the administrator"));
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(own.get(&at(&person_dn("bea"))).status, 403);
    assert!(pando.stop().success());
}

#[test]
fn the_history_of_the_settings_names_what_changed() {
    let scratch = Scratch::new("console-settings-history");
    let (pando, mut administrator) = start_with_people(&scratch);
    replace(&mut administrator, "cn=config", "pandoSizeLimit", &["500"]);
    replace(&mut administrator, "cn=config", "pandoSizeLimit", &["700"]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let changes = browser.json("/history?dn=cn%3Dconfig")["changes"].clone();
    let newest = &changes[0]["values"];
    assert_eq!(newest.as_array().unwrap().len(), 2, "{newest}");
    assert_eq!(newest[0]["attribute"], "limits.size_limit");
    assert_eq!(
        (&newest[0]["values"][0], &newest[1]["values"][0]),
        (&Value::from("500"), &Value::from("700"))
    );
    assert_eq!(browser.get("/history?dn=cn%3Dconfig").status, 200);
    assert!(pando.stop().success());
}

/// A reader of histories sees only the values that the rules permit now, and no names of hidden entries.
#[test]
fn a_history_contains_what_its_reader_may_see() {
    let scratch = Scratch::new("console-history-rights");
    let (pando, mut administrator) = start_with_people(&scratch);
    ["anna", "vera"].iter().for_each(|uid| add_person(&mut administrator, uid));
    replace(&mut administrator, &person_dn("anna"), "description", &["hidden-text"]);
    replace(&mut administrator, &person_dn("anna"), "title", &["Dr"]);
    let vera = person_dn("vera");
    let rules = [
        format!("vera: allow use of read-audit to user '{vera}'"),
        format!("names: allow browse, read of cn, title, objectClass to user '{vera}'"),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    let browser = Browser::signed_in(&pando, &vera, "vera-secret");
    let changes = browser.json(&format!("/history?dn={}", quoted(&person_dn("anna"))))["changes"].clone();
    let text = changes.to_string();
    assert!(
        text.contains("\"Dr\"") && !text.contains("hidden-text") && !text.contains("description"),
        "{text}"
    );
    assert!(!text.contains("userPassword"), "{text}");
    assert_eq!(browser.get("/history?dn=cn%3Dconfig").status, 404);
    assert!(pando.stop().success());
}

#[test]
fn policies_are_explained_and_a_locked_account_is_unlocked() {
    let scratch = Scratch::new("console-policies");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    assert_eq!(browser.json("/policies")["policies"].as_array().unwrap().len(), 0);
    let form = [
        ("kind", "policy"),
        ("parent", SUFFIX),
        ("v:cn", "default"),
        ("v:pwdAttribute", "userPassword"),
        ("v:pwdLockout", "TRUE"),
        ("v:pwdMaxFailure", "2"),
        ("v:pwdMaxAge", "31536000"),
        ("step", "apply"),
    ];
    let added = browser.post("/add", &form);
    assert_eq!(added.status, 303, "{}", added.text());
    let policy = format!("cn=default,{SUFFIX}");
    let of = |browser: &Browser| browser.json(&format!("/account-state?dn={}", quoted(&person_dn("anna"))));
    assert_eq!(of(&browser)["policy"], Value::Null);
    replace(&mut administrator, "cn=config", "pandoPasswordPolicy", &[&policy]);
    let shown = browser.json("/policies")["policies"][0].clone();
    assert_eq!((&shown["dn"], &shown["is_default"]), (&Value::from(policy.as_str()), &Value::Bool(true)));
    assert!(shown["rules"].to_string().contains("365 d"), "{shown}");

    // Wrong passwords lock the account. The page says so, and can unlock it.
    assert_eq!(of(&browser)["can_bind"], true);
    for _ in 0..2 {
        assert_eq!(bind(&pando, "anna", "wrong"), ResultCode::INVALID_CREDENTIALS);
    }
    until("the account is locked", || (of(&browser)["can_bind"] == false).then_some(()));
    let state = of(&browser);
    let names: Vec<_> = state["facts"].as_array().unwrap().iter().map(|fact| fact["name"].clone()).collect();
    assert!(
        names.contains(&Value::from("failure_locked")) && names.contains(&Value::from("failures")),
        "{state}"
    );
    assert_eq!(state["policy"], policy);
    let page = browser.get(&format!("/account-state?dn={}", quoted(&person_dn("anna")))).text();
    assert!(page.contains("Locked after wrong passwords") && page.contains("value=\"unlock\""), "{page}");
    let anna = person_dn("anna");
    assert_eq!(browser.post("/account-state", &[("dn", &anna), ("action", "unlock")]).status, 303);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(browser.post("/account-state", &[("dn", &anna), ("action", "lock")]).status, 303);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(
        (&of(&browser)["is_locked"], &of(&browser)["can_bind"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert_eq!(browser.post("/account-state", &[("dn", &anna), ("action", "x")]).status, 422);
    assert_eq!(browser.get("/account-state?dn=cn%3Dnone").status, 404);
    assert!(pando.stop().success());
}

#[test]
fn only_monitor_readers_see_replication_and_backup() {
    let scratch = Scratch::new("console-nodes");
    let folder = scratch.path().join("backup");
    let pando = start(&scratch, &format!("[backup]\nfolder = {:?}", folder.to_str().unwrap()));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let backup = || {
        let model = browser.json("/nodes");
        let groups = model["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == "backup").unwrap()["figures"].to_string()
    };
    until("a backup is made", || backup().contains("Last Backup").then_some(()));
    until("the backup is listed", || {
        let moments = browser.json("/nodes")["moments"].clone();
        moments.as_array().filter(|moments| !moments.is_empty()).map(|moments| {
            assert_eq!((&moments[0]["verified"], &moments[0]["files"]), (&Value::Null, &1.into()));
            assert!(moments[0]["bytes"].as_u64() > Some(0), "{moments:?}");
        })
    });
    let page = browser.get("/nodes").text();
    assert!(page.contains("Moments that can be restored"), "{page}");
    assert!(browser.json("/")["figures"].to_string().contains("last_backup"));
    assert_eq!(browser.get("/manage").status, 200);
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(own.get("/nodes").status, 403);
    assert!(pando.stop().success());
}

#[test]
fn the_overview_has_rates_for_readers_of_the_monitor() {
    let scratch = Scratch::new("console-rates");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let rates = until("two readings", || Some(browser.json("/")["rates"].clone()).filter(Value::is_object));
    // Reading the figures also causes searches.
    let searches = &rates["rates"][0];
    assert!(searches["name"] == "searches" && searches["per_second"].as_f64() > Some(0.0), "{rates}");
    assert!(searches["mean_microseconds"].is_u64(), "{rates}");
    let live = browser.get("/?live=1").text();
    assert!(live.contains("<meta http-equiv=\"refresh\" content=\"5\">"), "{live}");
    assert!(!browser.get("/").text().contains("http-equiv"));
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert!(own.json("/")["rates"].is_null() && !own.get("/").text().contains("id=\"live\""));
    assert!(pando.stop().success());
}

#[test]
fn auditors_see_only_the_link_to_the_audit_trail() {
    let scratch = Scratch::new("console-auditor");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    add_person(&mut administrator, "bert");
    let audit = format!("audit: allow use of read-audit to user '{}'", person_dn("bert"));
    let rules = ["all: allow read, search, browse to authenticated", &audit];
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    let links = |name: &str, password: &str| {
        let page = Browser::signed_in(&pando, name, password).get("/").text();
        (page.contains("href=\"/audit\""), page.contains("href=\"/manage\""))
    };
    assert_eq!(links("bert", "bert-secret"), (true, false));
    assert_eq!(links("anna", "anna-secret"), (false, false));
    assert_eq!(links(ADMIN_DN, ADMIN_PASSWORD), (false, true));
    assert!(pando.stop().success());
}
