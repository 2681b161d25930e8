//! The pages with a large directory, as each person sees them: lists come page by page, no page is slow or large, and a
//! search without an index ends at its limit.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::Connection;
use serde_json::Value;
use test_support::http::{Browser, quoted};
use test_support::tree::{plant_staff, replace};
use test_support::{Pando, SUFFIX, Scratch};

use crate::browser::{OpenedPage, Pages, open_and_inspect_pages};
use crate::compare::NEWEST;
use crate::people;

/// Maximum time for a page. Programs without optimization are slower.
const PAGE_TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// Maximum time for a rehearsal of access rules. After 15 seconds, the rehearsal starts with no further requester.
const REHEARSAL_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum size of a page, in bytes.
const PAGE_BYTES_MAX: usize = 128 * 1024;

/// Default number of people in the directory.
const ENTRIES: u64 = 1_000_000;

/// A filter that no index answers, and that matches no entry.
const UNINDEXED: &str = "(description=*no entry has this*)";

/// Returns the DN of the group of all imported people.
fn group() -> String {
    format!("cn=everyone,{SUFFIX}")
}

/// Imports the suffix entry, `ou=people` with this number of people, and a group of them, into a new data folder.
pub(crate) fn import(scratch: &Scratch, people: u64) {
    let mut ldif = format!("dn: {}\nobjectClass: groupOfNames\ncn: everyone\n", group());
    for number in 0..people {
        writeln!(ldif, "member: uid=user.{number},ou=people,{SUFFIX}").unwrap();
    }
    let ldif = scratch.write("group.ldif", ldif);
    let command = || Command::new(test_support::pando::program());
    let mut generator = command()
        .args(["generate", "people", "--entries", &people.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let import = command()
        .args(["import", "--keep-clear-passwords", "--suffix", SUFFIX, "--data"])
        .args([&Pando::data(scratch), &ldif])
        .arg("-")
        .stdin(generator.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(generator.wait().unwrap().success());
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
}

/// Adds the people of the sample to the imported ones. Searches without an index may examine at most half of the
/// entries, and at most 10,000 entries.
pub(crate) fn limit_scans(administrator: &mut Connection, people: u64) {
    plant_staff(administrator);
    let examined = (people / 2).min(10_000).to_string();
    replace(administrator, "cn=config", "pandoUnindexedExamined", &[&examined]);
}

/// Opens the lists that have as many lines as the directory has people.
pub(crate) fn see_lists(pages: &mut Pages, person: &str, browser: &Browser, people: u64) {
    let (unit, group) = (quoted(&format!("ou=people,{SUFFIX}")), quoted(&group()));
    for (path, list) in [
        (format!("/tree?dn={unit}"), "children"),
        ("/search?q=user.".to_owned(), "rows"),
        (format!("/search?filter={}", quoted("(objectClass=inetOrgPerson)")), "rows"),
    ] {
        let first = browser.json(&path);
        let next = format!("{path}&page={}", first["next"].as_str().unwrap());
        let second = browser.json(&next);
        let names = |model: &Value| -> BTreeSet<String> {
            model[list].as_array().unwrap().iter().map(|one| one["dn"].to_string()).collect()
        };
        let (first, second) = (names(&first), names(&second));
        assert_eq!((first.len(), second.len()), (50, 50), "{path} as {person}");
        assert!(first.is_disjoint(&second), "{path} as {person}");
        pages.see(person, browser, &path, 200);
        pages.open(person, browser, &next, 200);
    }
    let unindexed = format!("/search?filter={}", quoted(UNINDEXED));
    if person == "administrator" {
        assert_eq!(browser.json(&unindexed)["rows"], Value::Array(Vec::new()));
        pages.see(person, browser, &unindexed, 200);
        let advice = browser.json("/indexes")["advice"].to_string();
        // The server proposes indexes for searches with at least 2,048 candidates.
        assert!(people < 2_048 || advice.contains("description"), "{advice}");
        // The trees that the console restores have up to 1,000 entries.
        pages.see(person, browser, &format!("/compare/tree?dn={unit}&at={NEWEST}"), 422);
        let tree = browser.json(&format!("/tree?dn={}", quoted(SUFFIX)));
        let mut children = tree["children"].as_array().unwrap().iter();
        assert!(children.any(|child| child["below"].as_u64() >= Some(people)), "{tree}");
    } else {
        pages.see(person, browser, &unindexed, 422);
        let text = browser.get(&unindexed).text();
        assert!(text.contains("missing: a substring index on description"), "{text}");
    }
    for path in ["/entry", "/members", "/access", "/edit", "/rename", "/delete"] {
        let (status, path) = (people::status(person, path), format!("{path}?dn={group}&right=read"));
        match person {
            "administrator" => pages.see(person, browser, &path, status),
            _ => drop(pages.open(person, browser, &path, status)),
        }
    }
}

#[test]
#[ignore = "./dev test --profile trial -p pando --test console -- --ignored --nocapture large::"]
fn pages_are_fast_and_small_for_every_role_in_a_large_directory() {
    let people = std::env::var("PANDO_CONSOLE_ENTRIES").map_or(ENTRIES, |text| text.parse().unwrap());
    let mut opened = open_and_inspect_pages(people);
    opened.sort_by_key(|page| std::cmp::Reverse(page.time));
    for page in opened.iter().take(25) {
        println!("{:8.1} ms {:8} octets {}", page.time.as_secs_f64() * 1e3, page.octets, page.name);
    }
    println!("{} pages", opened.len());
    let time_max = |page: &OpenedPage| match page.name.as_str() {
        "/access/rehearse, sent" => REHEARSAL_TIME_MAX,
        _ => PAGE_TIME_MAX,
    };
    let is_bad = |page: &&OpenedPage| page.time > time_max(page) || page.octets > PAGE_BYTES_MAX;
    let bad: Vec<&str> = opened.iter().filter(is_bad).map(|page| page.name.as_str()).collect();
    assert!(bad.is_empty(), "slow or large: {bad:?}");
}
