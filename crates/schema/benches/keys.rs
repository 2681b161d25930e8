//! Costs of look-ups and keys, which every search needs.
//!
//! Run with `cargo bench -p schema --bench keys`. Each figure is the best of 100 runs of 20,000 operations, to exclude
//! other work on the machine. On one core of a Xeon under KVM, 2026-11-20:
//!
//! | operation | ns |
//! |---|---|
//! | attribute type `uid`, `telephoneNumber` | 10, 28 |
//! | description `uid` | 17 |
//! | caseIgnoreMatch, 12 and 46 ASCII characters | 22, 28 |
//! | caseIgnoreMatch, `Jürgen Müller` | 550 |
//! | telephoneNumberMatch | 60 |
//! | integerMatch, generalizedTimeMatch | 12, 24 |
//! | objectIdentifierMatch, `inetOrgPerson` | 41 |
//! | distinguishedNameMatch, four RDNs, parsing included | 300 |

#![allow(clippy::unwrap_used, reason = "a bench that fails reports nothing")]

use std::hint::black_box;
use std::time::Instant;

use schema::{MatchingRule, Schema};

const RUN_COUNT: u32 = 100;
const OPERATION_COUNT: u32 = 20_000;

fn main() {
    let schema = Schema::shipped();
    for name in ["uid", "CN", "objectClass", "telephoneNumber"] {
        measure(&format!("attribute type {name}"), || {
            black_box(schema.attribute_type(black_box(name)));
        });
    }
    measure("description uid", || {
        black_box(schema.parse_description(black_box("uid")).is_ok());
    });
    for (rule, value) in [
        ("caseIgnoreMatch", "user.0012345"),
        ("caseIgnoreMatch", "John Smith of the long name and the many words"),
        ("caseIgnoreMatch", "Jürgen Müller"),
        ("telephoneNumberMatch", "+1 512 315 0280"),
        ("integerMatch", "12345"),
        ("generalizedTimeMatch", "20261120133441Z"),
        ("objectIdentifierMatch", "inetOrgPerson"),
        ("distinguishedNameMatch", "uid=user.12345,ou=People,dc=example,dc=com"),
    ] {
        let rule = MatchingRule::find(rule).unwrap();
        let mut key = Vec::with_capacity(256);
        measure(&format!("{} of {value}", rule.name()), || {
            key.clear();
            rule.normalize(&schema, black_box(value.as_bytes()), &mut key).unwrap();
            black_box(&key);
        });
    }
}

fn measure(what: &str, mut operation: impl FnMut()) {
    let run = |_| {
        let start = Instant::now();
        (0..OPERATION_COUNT).for_each(|_| operation());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATION_COUNT)
    };
    let best = (0..RUN_COUNT).map(run).fold(f64::MAX, f64::min);
    println!("{what}: {best:.1} ns");
}
