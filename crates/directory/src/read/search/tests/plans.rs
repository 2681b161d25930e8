//! Searches of directories that are large enough for streamed postings, gathered ranges and traversed subtrees. Every
//! plan has the same results as a scan, in ascending entry id.

use ldap::{AttributesBuf, ResultCode, Scope};

use super::{Question, add};
use crate::testing::{SUFFIX, TestDirectory};

const COUNT: u32 = 300;

/// Returns a directory with `ou=even` and `ou=odd`, which contain 150 people each: uid=0 to uid=299 in turn. A third of
/// the people are POSIX accounts.
fn crowd() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in ["even", "odd"] {
        let attributes: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"]), ("ou", &[unit])];
        add(&mut directory, &format!("ou={unit},{SUFFIX}"), attributes);
    }
    directory.add_all(0..COUNT, |number| {
        let unit = if number % 2 == 0 { "even" } else { "odd" };
        let mut attributes = AttributesBuf::new();
        let is_account = number % 3 == 0;
        let classes: &[&str] =
            if is_account { &["inetOrgPerson", "posixAccount"] } else { &["inetOrgPerson"] };
        attributes.push("objectClass", classes);
        attributes.push("cn", [format!("Person {number:03}")]);
        attributes.push("sn", [format!("Family {}", number % 2)]);
        attributes.push("givenName", [format!("Given {}", number % 100)]);
        if is_account {
            attributes.push("uidNumber", [(number * 10).to_string()]);
            attributes.push("gidNumber", ["1"]);
            attributes.push("homeDirectory", ["/"]);
        }
        (format!("uid={number},ou={unit},{SUFFIX}"), attributes)
    });
    directory
}

/// Searches the whole tree, the subtree of `ou=odd`, and one level below `ou=odd`. Expects the people for whom
/// `expected` returns true; in `ou=odd`, only the people with odd numbers.
fn check(directory: &TestDirectory, filter: &str, expected: impl Fn(u32) -> bool) {
    let odd = format!("ou=odd,{SUFFIX}");
    let everywhere: Vec<u32> = (0..COUNT).filter(|number| expected(*number)).collect();
    let odd_ones: Vec<u32> = everywhere.iter().copied().filter(|number| number % 2 == 1).collect();
    for (base, scope, expected) in [
        (SUFFIX, Scope::WholeSubtree, &everywhere),
        ("", Scope::Subordinate, &everywhere),
        (&odd, Scope::WholeSubtree, &odd_ones),
        (&odd, Scope::Subordinate, &odd_ones),
        (&odd, Scope::SingleLevel, &odd_ones),
    ] {
        let found = Question::new(base, scope, filter).run(directory);
        assert_eq!(found.code, ResultCode::SUCCESS);
        let number = |dn: &str| dn.strip_prefix("uid=")?.split(',').next()?.parse().ok();
        let numbers: Vec<u32> = found.dns().into_iter().filter_map(number).collect();
        assert_eq!(numbers, *expected, "{filter} {scope:?} {base:?}");
    }
}

#[test]
fn every_plan_finds_the_same_entries_as_a_scan() {
    let directory = crowd();
    let check = |filter, expected: &dyn Fn(u32) -> bool| check(&directory, filter, expected);
    check("(objectClass=person)", &|_| true);
    check("(objectClass=posixAccount)", &|number| number % 3 == 0);
    check("(&(objectClass=posixAccount)(sn=family 1))", &|number| number % 3 == 0 && number % 2 == 1);
    check("(&(objectClass=posixAccount)(givenName=given 12))", &|number| number % 300 == 12);
    check("(sn=Family 0)", &|number| number % 2 == 0);
    check("(|(sn=Family 0)(sn=Family 1))", &|_| true);
    check("(|(sn=Family 0)(uid=5)(uid=6)(uid=7))", &|number| number % 2 == 0 || number == 5 || number == 7);
    check("(|(givenName=given 1)(givenName=given 2))", &|number| number % 100 == 1 || number % 100 == 2);
    check("(|(uid=5)(description=x))", &|number| number == 5);
    check("(cn=person 01*)", &|number| (10..20).contains(&number));
    check("(cn=person 2*)", &|number| number >= 200);
    check("(cn=person 2*9)", &|number| number >= 200 && number % 10 == 9);
    check("(name=person 15*)", &|number| (150..160).contains(&number));
    check("(uidNumber>=2000)", &|number| number % 3 == 0 && number >= 200);
    check("(uidNumber<=300)", &|number| number % 3 == 0 && number <= 30);
    check("(&(uidNumber>=300)(uidNumber<=600))", &|number| number % 3 == 0 && (30..=60).contains(&number));
    check("(|(uidNumber<=30)(cn=person 29*))", &|number| (number % 3 == 0 && number <= 3) || number >= 290);
    check("(uidNumber=*)", &|number| number % 3 == 0);
    check("(!(uidNumber=*))", &|number| number % 3 != 0);
    check("(&(uid=*)(!(sn=family 0)))", &|number| number % 2 == 1);
    check("(&(uid=7)(!(uid=7)))", &|_| false);
    check("(&(cn=*)(|(uid=3)(&(sn=family 1)(uidNumber=90))))", &|number| number == 3 || number == 9);
}
