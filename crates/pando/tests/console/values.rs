//! Values that attackers store. They are displayed as text, and cannot end a cell, line or header.

use crate::start_with_people;
use test_support::http::{Browser, quoted};
use test_support::tree::add;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7777 * 7 }}{% raw %}",
    "=HYPERLINK(\"https://evil\",\"x\")",
    "a\r\nSet-Cookie: x=y",
    "</textarea></title><svg/onload=alert(1)>",
];

#[test]
fn hostile_values_are_escaped() {
    let scratch = Scratch::new("console-hostile");
    let (pando, mut administrator) = start_with_people(&scratch);
    for (number, value) in HOSTILE.iter().enumerate() {
        let dn = format!("cn={},{SUFFIX}", ldap::escaped_value(value.as_bytes()));
        let number = number.to_string();
        add(
            &mut administrator,
            &dn,
            &[("objectClass", "person"), ("cn", value), ("sn", &number), ("description", value)],
        );
    }
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let filter = "/search?filter=(objectClass%3Dperson)&columns=cn,description";
    let rows = browser.json(filter);
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), HOSTILE.len());
    let mut pages = vec![browser.get(filter).text()];
    for row in rows {
        let dn = row["dn"].as_str().unwrap();
        pages.push(browser.get(&format!("/entry?dn={}&operational=1", quoted(dn))).text());
        let entry = browser.json(&format!("/entry?dn={}", quoted(dn)));
        let value = row["cells"][0]["values"][0].as_str().unwrap();
        assert!(entry["attributes"].to_string().contains(&serde_json::to_string(value).unwrap()), "{entry}");
    }
    for value in HOSTILE {
        pages.push(
            browser.get(&format!("/search?q={0}&filter={0}&base={0}&columns={0}", quoted(value))).text(),
        );
        pages.push(browser.get(&format!("/sign-in?to={0}&notice={0}", quoted(value))).text());
        pages.push(browser.get(&format!("/entry?dn={}", quoted(value))).text());
    }
    for page in pages {
        for harm in ["<script", "<img src=x", "onmouseover='", "<svg/", "54439", "href=\"javascript"] {
            assert!(!page.contains(harm), "{harm} in {page}");
        }
    }
    assert!(pando.stop().success());
}

#[test]
fn exports_are_complete_and_escape_formulas() {
    let scratch = Scratch::new("console-export");
    let (pando, mut administrator) = start_with_people(&scratch);
    // More entries than one page of a search shows.
    for number in 0..120 {
        let value = HOSTILE[number % HOSTILE.len()];
        let dn = format!("cn={number},{SUFFIX}");
        add(
            &mut administrator,
            &dn,
            &[("objectClass", "person"), ("cn", &number.to_string()), ("sn", "x"), ("description", value)],
        );
    }
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let query = "filter=(objectClass%3Dperson)&columns=cn,description";
    let csv = browser.get(&format!("/search?{query}&as=csv"));
    assert_eq!(csv.headers("content-type"), ["text/csv; charset=utf-8"]);
    assert!(csv.headers("content-disposition")[0].starts_with("attachment"));
    let text = csv.text();
    assert_eq!(text.matches(&format!(",{SUFFIX}\",")).count(), 120);
    assert!(text.contains("\"'=HYPERLINK(\"\"https://evil\"\",\"\"x\"\")\""), "{text}");
    let ldif = browser.get(&format!("/search?{query}&as=ldif")).text();
    assert_eq!(ldif.matches("\ndn: ").count(), 120);
    assert!(!ldif.contains("\r\nSet-Cookie") && !ldif.contains("\nSet-Cookie"));

    // Pages follow one another, and contain each entry once.
    let mut path = format!("/search?{query}");
    let (mut seen, mut pages) = (std::collections::BTreeSet::new(), 0);
    loop {
        let page = browser.json(&path);
        pages += 1;
        for row in page["rows"].as_array().unwrap() {
            assert!(seen.insert(row["dn"].as_str().unwrap().to_owned()));
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/search?{query}&page={next}");
    }
    assert_eq!((seen.len(), pages), (120, 3));
    assert_eq!(browser.get(&format!("/search?{query}&page=!")).status, 400);
    assert_eq!(browser.get("/search?filter=(cn=").status, 400);
    assert!(pando.stop().success());
}

/// Values with limits: a photo, an invalid certificate, and a group that is too large for a page.
#[test]
fn large_and_binary_values_have_bounds() {
    let scratch = Scratch::new("console-large-values");
    let (pando, mut administrator) = start_with_people(&scratch);
    let members: Vec<String> = (0..250).map(|number| format!("cn=m{number},{SUFFIX}")).collect();
    let mut attributes = vec![("objectClass", "groupOfNames"), ("cn", "large")];
    attributes.extend(members.iter().map(|member| ("member", member.as_str())));
    let dn = format!("cn=large,{SUFFIX}");
    add(&mut administrator, &dn, &attributes);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let member = |model: &serde_json::Value| {
        let attributes = model["attributes"].as_array().unwrap();
        attributes.iter().find(|attribute| attribute["name"] == "member").unwrap().clone()
    };
    let (mut count, mut first) = (0, Some(0));
    let mut path = format!("/entry?dn={}", quoted(&dn));
    while first.is_some() {
        let found = member(&browser.json(&path));
        count += found["values"].as_array().unwrap().len();
        assert!(found["values"].as_array().unwrap().len() <= 100);
        first = found["next"].as_u64();
        path = format!("/entry?dn={}&attribute=member&first={}", quoted(&dn), first.unwrap_or(0));
    }
    assert_eq!(count, 250);
    let rows = browser.json("/search?filter=(cn%3Dlarge)&columns=member");
    assert_eq!(rows["rows"][0]["cells"][0]["values"].as_array().unwrap().len(), 5);
    assert_eq!(rows["rows"][0]["cells"][0]["more"], true);
    assert!(pando.stop().success());
}
