//! Settings for values, dynamic entries and deleted entries, and what they may reveal.
//!
//! Some of these rules reveal hidden values by design, see `docs/explanation/security.md`:
//!
//! - A rule of `unique`, and a limit with `from`, refuse a value depending on the values of all entries. A request with
//!   a value of [`REVEALED`] makes no change. If its answers differ, each must be noOperation or one of [`REFUSALS`].
//! - `{next}` is the number after the highest of all entries. Here an entry of both directories has the highest.
//! - A limit of the number of values counts hidden values. Here the limited type has none.
//! - A requester with `use of undelete` gets the names of all deleted entries. Here a rule allows it only if both
//!   directories have deleted the same entries.

use std::fmt::Write as _;

use client::Connection;
use directory::catalog::DEFAULT_INDEXES;
use fastrand::Rng;
use ldap::{ChangeOperation, ReceivedResult, ResultCode};

use crate::SUFFIX;

/// Attribute types with rules that reveal whether an entry has a value.
pub(crate) const REVEALED: [&str; 2] = ["roomNumber", "departmentNumber"];

const REFUSALS: [&str; 2] = [
    "roomNumber: the uniqueness rule \"rooms\" allows each value in one entry, and another entry has a value of this \
     entry",
    "departmentNumber: the value limit \"units\" allows only values that uid has in certain entries",
];

/// Number of different values of roomNumber in hidden entries. The number is high, so that many of the values are
/// missing in each directory.
pub(crate) const ROOMS: u32 = 30;

/// The highest number that an entry has. It belongs to a hidden entry in both directories.
pub(crate) const HIGHEST_NUMBER: u32 = 1_500;

/// Value of description that makes an entry join a group. No imported entry has it, so none joins in the background.
pub(crate) const JOINS: &str = "joins";

/// A hidden group that entries join. Both directories have it, because each join is a change, and clients see the
/// number of changes.
pub(crate) const HIDDEN_GROUP: &str = "cn=joined,ou=vault";

/// Options with which requests set the end of a value's validity.
pub(crate) const ENDS: [&str; 5] = [
    "x-until-20990101000000Z",
    "x-until-20980101000000Z",
    "x-until-never",
    "x-until-20010101000000Z",
    "x-until-soon",
];

/// Returns settings with a fast password scheme, with mechanisms that a client can use, and with rules of every kind
/// for data.
pub(crate) fn settings(rng: &mut Rng) -> String {
    let clients = ["", "'users'", "'anonymous', 'users'"][rng.usize(..3)];
    let mut text = format!(
        "suffixes = ['{SUFFIX}']
password_scheme = 'ssha'
sasl_mechanisms = ['EXTERNAL', 'PLAIN', 'ANONYMOUS', 'SCRAM-SHA-256', 'CRAM-MD5', 'DIGEST-MD5']
sasl_realm = 'example'
keep_deleted_seconds = 1_000_000
dynamic_subtrees = ['ou=open,{SUFFIX}']
dynamic_ttl_min_seconds = 4_000_000
dynamic_ttl_max_seconds = 5_000_000
nested_member_of = {}
member_of_clients = [{clients}]
unique = ['rooms: roomNumber']
next_numbers = ['posix: uidNumber from 1000 to 90000']
value_limits = [
    '''phones: telephoneNumber at most 2 values like '[+][0-9 ]+' ''',
    'texts: description at most 24 octets',
    '''units: departmentNumber from 'ldap:///ou=people,{SUFFIX}?uid?one' ''',
]
auto_members = [
    '''a: into 'cn=g0,ou=groups,{SUFFIX}' also modified matching '(description={JOINS})' ''',
    '''b: into '{HIDDEN_GROUP},{SUFFIX}' also modified matching '(description={JOINS})' ''',
]
[schema]
own = '''
attributetype ( 1.3.6.1.4.1.32473.7 NAME 'friend' EQUALITY distinguishedNameMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )
'''
[indexes]
",
        rng.bool(),
    );
    for name in DEFAULT_INDEXES.into_iter().chain(["roomNumber", "entryExpireTimestamp"]) {
        let _ = writeln!(text, "{name} = 'equality'");
    }
    text
}

/// A dynamic entry, which cannot be imported.
pub(crate) struct Dynamic {
    pub(crate) dn: String,
    /// For each of the two directories, whether it contains the entry.
    pub(crate) sides: [bool; 2],
    pub(crate) is_hidden: bool,
}

/// Adds the dynamic entries of a directory, and deletes the entries `deleted`. For each dynamic or deleted entry that
/// the directory lacks, changes a hidden entry instead, because clients see the number of changes.
pub(crate) fn prepare(admin: &mut Connection, side: usize, dynamic: &[Dynamic], deleted: &[String]) {
    let hidden = format!("ou=vault,{SUFFIX}");
    let mut pads = 0;
    let mut pad = |admin: &mut Connection| {
        pads += 1;
        let values: &[(_, &str, &[&str])] =
            &[(ChangeOperation::Replace, "description", &[&format!("changed {pads} times")])];
        assert!(admin.modify(&hidden, values).unwrap().is_success());
    };
    for Dynamic { dn, is_hidden, sides } in dynamic {
        if !sides[side] {
            pad(admin);
            continue;
        }
        let mut attributes =
            ["device", "dynamicObject", "extensibleObject"].map(|class| ("objectClass", class)).to_vec();
        if *is_hidden {
            attributes.push(("employeeType", "secret"));
        }
        let added = admin.add(dn, &attributes).unwrap();
        assert!(added.is_success(), "{dn}: {added:?}");
    }
    for dn in deleted {
        let outcome = admin.delete(dn).unwrap();
        match outcome.code {
            ResultCode::NO_SUCH_OBJECT => pad(admin),
            code => assert_eq!(code, ResultCode::SUCCESS, "{dn}: {outcome:?}"),
        }
    }
}

/// Returns true for the result of a request with a value of [`REVEALED`] that may depend on hidden entries.
pub(crate) fn may_reveal(result: &ReceivedResult<'_>) -> bool {
    match result.code {
        ResultCode::CONSTRAINT_VIOLATION => {
            result.matched_dn.is_empty() && REFUSALS.contains(&result.diagnostic)
        }
        code => code == ResultCode::NO_OPERATION,
    }
}
