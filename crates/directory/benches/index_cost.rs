//! Cost of indexes when entries are added. The bench adds people to directories with an increasing number of indexes.
//! Then it measures the building of an index.
//!
//! Run the bench with `cargo bench -p directory --bench index_cost`. Each line of the output is for the same people,
//! added to a new directory in the system's temporary folder. Each batch adds 200 people with one sync.
//! `docs/explanation/indexes.md` quotes the results.

#![allow(clippy::unwrap_used, reason = "a bench that fails has no result")]
#![allow(dead_code, reason = "testing.rs is shared with tests that use all of it")]

#[path = "../src/testing.rs"]
mod testing;

use std::time::Instant;

use directory::catalog::DEFAULT_INDEXES;
use ldap::AttributesBuf;
use testing::{SUFFIX, TestDirectory};

const PERSON_COUNT: u32 = 20_000;
const ADDS_PER_BATCH: u32 = 200;

fn main() {
    println!("| indexes besides | us per add | KiB on disk per 1,000 entries |");
    println!("|---|---|---|");
    measure("none at all", true, &[]);
    measure("the defaults", false, &[]);
    measure("presence on 1 attribute", false, &[("description", "presence")]);
    measure("approximate on 2", false, &[("cn", "approximate"), ("sn", "approximate")]);
    measure("substring on cn", false, &[("cn", "substring")]);
    measure("substring on a sentence", false, &[("description", "substring")]);
    let five = ["cn", "sn", "givenName", "mail", "description"].map(|name| (name, "substring"));
    measure("substring on 5", false, &five);
    build();
}

fn with_indexes(drops_defaults: bool, indexes: &[(&str, &str)]) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    if drops_defaults {
        DEFAULT_INDEXES.iter().for_each(|name| directory.define_index(name, "none"));
    }
    for (attribute, kinds) in indexes {
        let is_default = DEFAULT_INDEXES.contains(attribute);
        let kinds = if is_default { format!("equality,ordering,{kinds}") } else { (*kinds).to_owned() };
        directory.define_index(attribute, &kinds);
    }
    directory.finish_indexes();
    directory
}

fn measure(what: &str, drops_defaults: bool, indexes: &[(&str, &str)]) {
    let mut directory = with_indexes(drops_defaults, indexes);
    let before = directory.directory.facts().unwrap().used_bytes;
    let started = Instant::now();
    add_people(&mut directory);
    let micros = started.elapsed().as_micros() / u128::from(PERSON_COUNT);
    let used = directory.directory.facts().unwrap().used_bytes - before;
    println!("| {what} | {micros} | {} |", used / 1024 * 1_000 / u64::from(PERSON_COUNT));
}

/// Measures the building of an index that is defined after the entries were added.
fn build() {
    let mut directory = with_indexes(false, &[]);
    add_people(&mut directory);
    for (attribute, kinds) in [("employeeNumber", "equality"), ("description", "substring")] {
        directory.define_index(attribute, kinds);
        let (started, mut longest, mut slices) = (Instant::now(), 0, 0);
        loop {
            let slice = Instant::now();
            let more = directory.run_index_slice(512);
            longest = longest.max(slice.elapsed().as_micros());
            slices += 1;
            if !more {
                break;
            }
        }
        let micros = started.elapsed().as_micros();
        println!(
            "\nbuilding {kinds} of {attribute} over {PERSON_COUNT} entries: {} ms in {slices} slices, the longest {} \
             ms",
            micros / 1_000,
            longest / 1_000
        );
    }
}

fn add_people(directory: &mut TestDirectory) {
    for first in (0..PERSON_COUNT).step_by(ADDS_PER_BATCH as usize) {
        directory.add_all(first..first + ADDS_PER_BATCH, |number| {
            let mut attributes = AttributesBuf::new();
            attributes.push("objectClass", ["inetOrgPerson"]);
            attributes.push("cn", [format!("Given{} Family{number}", number % 500)]);
            attributes.push("sn", [format!("Family{number}")]);
            attributes.push("givenName", [format!("Given{}", number % 500)]);
            attributes.push("mail", [format!("user.{number}@example.com")]);
            attributes.push("employeeNumber", [number.to_string()]);
            for name in ["title", "street", "l", "st", "postalCode", "homePhone", "mobile", "initials"] {
                attributes.push(name, [format!("0{number}")]);
            }
            let text = format!("This is the description of person number {number}, some words long.");
            attributes.push("description", [text]);
            (format!("uid=user.{number},{SUFFIX}"), attributes)
        });
    }
    directory.directory.checkpoint().unwrap();
    directory.snapshot.renew().unwrap();
}
