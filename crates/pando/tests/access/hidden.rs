//! No request may distinguish hidden data from absent data.
//!
//! Regression test: an assertion control (RFC 4528) on a search with a hidden base ended with assertionFailed if the
//! base existed, and with noSuchObject if it did not. A client could therefore guess the object classes of the base one
//! by one. The diagnostic message of a rename below a hidden superior differed from that of a rename below an absent
//! one. Tests of single operations do not find such differences.

use std::time::Duration;

use test_support::hidden_data::{RunResult, run};
use test_support::{rounds, seed};

use directory::controls::SUPPORTED_CONTROLS;
use directory::virtual_entries::{SUPPORTED_EXTENSIONS, UNDELETE};
use ldap::oids::{REFRESH, START_TLS};

#[test]
fn hidden_data_is_absent_from_every_answer() {
    let count = usize::try_from(rounds(10_000)).unwrap();
    let done: RunResult = run(seed(), count, Duration::ZERO);
    println!("{}", done.summary());
    if let Some(difference) = done.difference {
        panic!("the answers differ: {difference}");
    }
    for known in SUPPORTED_CONTROLS {
        assert!(done.controls.contains_key(known.oid), "no request has had the control {}", known.name);
    }
    for (oid, name) in SUPPORTED_EXTENSIONS.iter().filter(|(oid, _)| *oid != START_TLS) {
        assert!(done.extensions.contains_key(oid), "{name} was never requested");
    }
    // Rules for values, such as uniqueness, also apply to hidden values. The hidden values of the two compared servers
    // differ, so some values were refused by only one of the servers.
    assert!(done.revealed > 0, "no rule for values has differed");
    for oid in [UNDELETE, REFRESH] {
        assert!(done.succeeded.contains_key(oid), "{oid} has never succeeded: {:?}", done.succeeded);
    }
    // The comparison also covers the answers of successful requests, not only refusals.
    let succeeded = |operations: &[&str]| {
        let of = |((operation, code), count): (&(&str, u32), &usize)| {
            if operations.contains(operation) && *code == 0 { *count } else { 0 }
        };
        done.codes.iter().map(of).sum::<usize>()
    };
    assert!(succeeded(&["search"]) > count / 50, "{:?}", done.codes);
    assert!(succeeded(&["add", "modify", "modify DN", "delete"]) > 0, "{:?}", done.codes);
}
