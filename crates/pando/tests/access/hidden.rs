//! What cannot be seen is not to be told from what is not there, by any request.
//!
//! The story: an assertion control (RFC 4528) on a search whose base the asker may not see ended with assertionFailed
//! where the base was there and with noSuchObject where it was not, so its object classes could be asked for one by
//! one; and a rename below a hidden superior was refused in other words than one below none. Tests of each operation
//! had not found that, because nobody had put the two together.

use std::time::Duration;

use crate::hidden_data::{Done, run};
use crate::support::{rounds, seed};

use directory::controls::SUPPORTED_CONTROLS;
use directory::virtual_entries::SUPPORTED_EXTENSIONS;
use ldap::oids::START_TLS;

#[test]
fn what_is_hidden_is_as_what_is_not_there_in_every_answer() {
    let count = usize::try_from(rounds(10_000)).unwrap();
    let done: Done = run(seed(), count, Duration::ZERO);
    println!("{}", done.summary());
    if let Some(difference) = done.difference {
        panic!("the answers differ: {difference}");
    }
    for known in SUPPORTED_CONTROLS {
        assert!(done.controls.contains_key(known.oid), "no request has had the control {}", known.name);
    }
    for (oid, name) in SUPPORTED_EXTENSIONS.iter().filter(|(oid, _)| *oid != START_TLS) {
        assert!(done.extensions.contains_key(oid), "nobody has asked for {name}");
    }
    // Answers are compared of what is carried out, too, not of refusals alone.
    let succeeded = |operations: &[&str]| {
        let of = |((operation, code), count): (&(&str, u32), &usize)| {
            if operations.contains(operation) && *code == 0 { *count } else { 0 }
        };
        done.codes.iter().map(of).sum::<usize>()
    };
    assert!(succeeded(&["search"]) > count / 50, "{:?}", done.codes);
    assert!(succeeded(&["add", "modify", "modify DN", "delete"]) > 0, "{:?}", done.codes);
}
