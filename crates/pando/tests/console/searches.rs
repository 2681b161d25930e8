//! Filters from the rows of a form, and searches that the browser stores.

use crate::start_with_people;
use test_support::http::{Browser, quoted};
use test_support::tree::{add_person, person_dn, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Scratch};

#[test]
fn conditions_become_a_filter_without_scripts() {
    let scratch = Scratch::new("console-conditions");
    let (pando, mut administrator) = start_with_people(&scratch);
    for name in ["anna", "bert", "carl"] {
        add_person(&mut administrator, name);
    }
    replace(&mut administrator, &person_dn("anna"), "title", &["Head (of) *all*"]);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let found = |query: &str| {
        let page = browser.json(&format!("/search?{query}"));
        let rows = page["rows"].as_array().unwrap();
        let mut names: Vec<String> = rows.iter().map(|row| row["dn"].as_str().unwrap().to_owned()).collect();
        names.sort();
        (names, page["asked"].as_str().unwrap_or_default().to_owned())
    };
    let title = quoted("(of) *");
    let (names, filter) = found(&format!("a=title&o=contains&v={title}"));
    assert_eq!((names, filter.as_str()), (vec![person_dn("anna")], "(title=*\\28of\\29 \\2a*)"));
    let two = "a=uid&o=is&v=bert&a=uid&o=begins&v=car&a=&o=is&v=";
    assert_eq!(found(two).0, Vec::<String>::new());
    assert_eq!(found(&format!("{two}&any=1")).0, [person_dn("bert"), person_dn("carl")]);
    assert_eq!(found("a=uid&o=present&v=&a=title&o=absent&v=").0, [person_dn("bert"), person_dn("carl")]);
    // The letters of a name are an additional condition, and links of the page keep all conditions.
    assert_eq!(found("q=be&a=title&o=absent&v=").0, [person_dn("bert")]);
    let page = browser.get(&format!("/search?a=title&o=contains&v={title}")).text();
    assert!(page.contains("&amp;a=title&amp;o=contains&amp;v="), "{page}");
    assert!(page.contains("value=\"(of) *\""), "the rows keep their values: {page}");
    assert!(!page.contains("<script"));
    assert!(pando.stop().success());
}

#[test]
fn searches_are_kept_in_the_browser_of_their_user() {
    let scratch = Scratch::new("console-saved");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let mut browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let fields =
        [("name", "the <b>annas"), ("a", "uid"), ("o", "begins"), ("v", "an"), ("columns", "cn uid")];
    let kept = browser.post("/searches", &fields);
    assert_eq!(kept.status, 303, "{}", kept.text());
    let at = kept.headers("location")[0].to_owned();
    let cookie = kept.headers("set-cookie")[0].to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.len() < 4_096);
    let session = browser.cookie.clone();
    browser.cookie = format!("{session}; {}", cookie.split(';').next().unwrap());
    assert_eq!(browser.json(&at)["rows"][0]["dn"], person_dn("anna"));
    assert_eq!(browser.json("/search")["saved"][0]["at"], at);
    let page = browser.get("/search").text();
    assert!(page.contains("the &lt;b&gt;annas"), "{page}");
    // The next user of the browser does not see the stored searches.
    let mut other = Browser::signed_in(&pando, &person_dn("anna"), "anna-secret");
    other.cookie = format!("{}; {}", other.cookie, cookie.split(';').next().unwrap());
    assert_eq!(other.json("/search")["saved"].as_array().unwrap().len(), 0);
    let gone = browser.post("/searches", &[("name", "the <b>annas"), ("action", "remove")]);
    let cookie = gone.headers("set-cookie")[0].split(';').next().unwrap().to_owned();
    browser.cookie = format!("{session}; {cookie}");
    assert_eq!(browser.json("/search")["saved"].as_array().unwrap().len(), 0);
    assert_eq!(browser.post("/searches", &[("name", " ")]).status, 422);
    assert_eq!(browser.post("/searches", &[("name", "x"), ("token", "wrong")]).status, 403);
    assert!(pando.stop().success());
}
