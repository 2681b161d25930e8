//! The five people who use the console, and what each of them sees and may do: an anonymous visitor, a user, a help
//! desk, an auditor, and the administrator.

use crate::browser::sample;
use crate::compare::NEWEST;
use ldap::ResultCode;
use test_support::http::{Browser, quoted};
use test_support::tree::{add_person, bind, person_dn};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// The people who sign in, each with a name in the [`sample`].
pub(crate) const SIGNED_IN: [(&str, &str); 4] =
    [("administrator", ADMIN_DN), ("auditor", "bert"), ("help desk", "carl"), ("user", "anna")];

/// Pages that need no session.
pub(crate) const OPEN: [&str; 4] = ["/forgotten-password", "/health", "/new-password", "/sign-in"];

/// Pages that only some people may see. Every person who signs in may see all other pages.
const RESTRICTED: [(&str, &[&str]); 14] = [
    ("/access/rehearse", &["administrator"]),
    ("/audit", &["administrator", "auditor"]),
    ("/compare", &["administrator"]),
    ("/compare/tree", &["administrator"]),
    ("/delete", &["administrator"]),
    ("/deleted", &["administrator"]),
    ("/history", &["administrator", "auditor"]),
    ("/indexes", &["administrator"]),
    ("/manage", &["administrator"]),
    ("/nodes", &["administrator"]),
    ("/photo/change", &["administrator"]),
    ("/rename", &["administrator"]),
    // The user may open this page, because the link contains the user's own entry.
    ("/reset-password", &["administrator", "help desk", "user"]),
    ("/settings", &["administrator"]),
];

pub(crate) fn signed_in(pando: &Pando, (person, name): (&str, &str)) -> Browser {
    match person {
        "administrator" => Browser::signed_in(pando, name, ADMIN_PASSWORD),
        _ => Browser::signed_in(pando, name, &format!("{name}-secret")),
    }
}

/// Returns the path of a page with the parameters of a link to it.
pub(crate) fn with_query(path: &str) -> String {
    let dn = match path {
        "/members" => format!("cn=staff,ou=groups,{SUFFIX}"),
        _ => person_dn("anna"),
    };
    format!("{path}?dn={}&right=read&q=a", quoted(&dn))
}

/// Returns the status with which a page answers a person.
pub(crate) fn status(person: &str, path: &str) -> u16 {
    let restricted = RESTRICTED.iter().find(|(known, _)| *known == path);
    match (person, path) {
        _ if OPEN.contains(&path) => 200,
        // The visitor is redirected to the page for signing in.
        ("anonymous", _) => 303,
        // The administrator has no entry. Other users are redirected to their own entry.
        ("administrator", "/account/seen") => 404,
        ("administrator", "/me") => 200,
        (_, "/me") => 303,
        _ if restricted.is_none_or(|(_, people)| people.contains(&person)) => 200,
        _ => 403,
    }
}

/// Returns the paths of the links among the actions of an entry.
fn actions(browser: &Browser, dn: &str) -> Vec<String> {
    let page = browser.get(&format!("/entry?dn={}", quoted(dn))).text().replace("&#x2f;", "/");
    let (_, rest) = page.split_once("<p class=\"actions\">").unwrap();
    let (actions, _) = rest.split_once("</p>").unwrap();
    let targets = actions.split("href=\"").skip(1).map(|rest| rest.split(['?', '"']).next().unwrap());
    targets.map(str::to_owned).collect()
}

#[test]
fn pages_offer_each_person_its_actions() {
    let scratch = Scratch::new("console-people-links");
    let pando = sample(&scratch);
    add_person(&mut pando.administrator(), "emil");
    let emil = person_dn("emil");
    let all = [
        "/edit",
        "/photo/change",
        "/reset-password",
        "/history",
        "/compare",
        "/account-state",
        "/tree",
        "/access",
        "/rename",
        "/delete",
        "/entry",
    ];
    for (person, expected) in SIGNED_IN.into_iter().zip([
        &all[..],
        &["/history", "/tree", "/access", "/entry"],
        &["/reset-password", "/account-state", "/tree", "/access", "/entry"],
        &["/tree", "/access", "/entry"],
    ]) {
        let browser = signed_in(&pando, person);
        assert_eq!(actions(&browser, &emil), expected, "{person:?}");
        let manages = person.0 == "administrator";
        let state = browser.get(&format!("/account-state?dn={}", quoted(&emil))).text();
        let offers = |text: &str| state.contains(text);
        let may_lock = manages || person.0 == "help desk";
        assert_eq!((offers("value=\"lock\""), offers("reset-password")), (may_lock, may_lock), "{person:?}");
        assert_eq!(offers("audit?"), manages || person.0 == "auditor", "{person:?}");
        let members = browser.get(&with_query("/members")).text();
        assert_eq!(members.contains("action=\"/members\""), manages, "{person:?}");
        let history = browser.get(&with_query("/history"));
        let has_undo = history.text().contains("action=\"/history\"");
        assert_eq!(
            (history.status == 200, has_undo),
            (manages || person.0 == "auditor", manages),
            "{person:?}"
        );
    }
    assert!(pando.stop().success());
}

/// A form: its name, its path, and its fields.
type Form<'f> = (&'f str, &'f str, Vec<(&'f str, &'f str)>);

/// Sends forms, and returns the names of the accepted forms.
fn accepted<'f>(browser: &Browser, forms: &[Form<'f>]) -> Vec<&'f str> {
    let is_accepted = |(name, path, fields): &&Form<'f>| {
        let answer = browser.post(path, fields);
        assert!([200, 303, 403].contains(&answer.status), "{name}: {} {}", answer.status, answer.text());
        answer.status != 403
    };
    forms.iter().filter(is_accepted).map(|(name, ..)| *name).collect()
}

#[test]
fn each_person_may_change_what_the_rules_allow() {
    let scratch = Scratch::new("console-people-changes");
    let pando = sample(&scratch);
    let mut connection = pando.administrator();
    add_person(&mut connection, "emil");
    let (emil, anna, staff) = (person_dn("emil"), person_dn("anna"), format!("cn=staff,ou=groups,{SUFFIX}"));
    let administrator = signed_in(&pando, SIGNED_IN[0]);
    let csn_of = |dn: &str| administrator.json(&format!("/edit?dn={}", quoted(dn)))["csn"].clone();
    let (csn, csn_of_anna) = (csn_of(&emil), csn_of(&anna));
    let position =
        administrator.json(&format!("/history?dn={}", quoted(&anna)))["changes"][0]["position"].to_string();
    let settings = administrator.json("/settings");
    let (text, version) = (settings["text"].as_str().unwrap(), settings["version"].to_string());
    let (of_emil, of_anna) = (("dn", emil.as_str()), ("dn", anna.as_str()));
    let (people, new) = (format!("ou=people,{SUFFIX}"), "a secret of the help desk");
    let member = [("dn", staff.as_str()), ("attribute", "member"), ("who", emil.as_str())];
    let forms = [
        ("edit", "/edit", vec![of_emil, ("csn", csn.as_str().unwrap()), ("v:title", "x"), ("step", "apply")]),
        ("rename", "/rename", vec![of_emil, ("rdn", "uid=emilia"), ("parent", &people)]),
        ("delete", "/delete", vec![of_emil]),
        ("add", "/add", vec![("kind", "unit"), ("parent", SUFFIX), ("v:ou", "new"), ("step", "apply")]),
        ("join", "/members", [&member[..], &[("action", "join")]].concat()),
        ("leave", "/members", [&member[..], &[("action", "leave")]].concat()),
        ("photo", "/photo/change", vec![of_emil, ("action", "remove")]),
        ("lock", "/account-state", vec![of_emil, ("action", "lock")]),
        ("unlock", "/account-state", vec![of_emil, ("action", "unlock")]),
        ("reset", "/reset-password", vec![of_emil, ("new", new), ("again", new)]),
        ("settings", "/settings", vec![("text", text), ("version", &version), ("step", "apply")]),
        ("index", "/indexes", vec![("attribute", "title"), ("kind", "equality")]),
        (
            "undo",
            "/history",
            vec![of_anna, ("position", &position), ("csn", csn_of_anna.as_str().unwrap()), ("step", "apply")],
        ),
        ("restore", "/compare", vec![of_anna, ("at", NEWEST)]),
        ("undelete", "/deleted", vec![("uuid", "00000000000000000000000000000000")]),
    ];
    for (person, expected) in
        [(SIGNED_IN[1], &[][..]), (SIGNED_IN[3], &[]), (SIGNED_IN[2], &["lock", "unlock", "reset"])]
    {
        assert_eq!(accepted(&signed_in(&pando, person), &forms), expected, "{person:?}");
        let is_same = csn_of(&emil) == csn && csn_of(&anna) == csn_of_anna;
        assert_eq!(is_same, expected.is_empty(), "{person:?}");
    }
    assert_eq!(bind(&pando, "emil", new), ResultCode::SUCCESS);
    // A visitor goes to the page for signing in, and changes nothing.
    let (visitor, before) = (Browser::new(&pando), (csn_of(&emil), csn_of(&anna)));
    assert!(forms.iter().all(|(_, path, fields)| [303, 403].contains(&visitor.post(path, fields).status)));
    assert_eq!((csn_of(&emil), csn_of(&anna)), before);
    assert!(pando.stop().success());
}
