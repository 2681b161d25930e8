//! Paged results, as ldapsearch requests them. They contain each entry once, whatever the plan of the search.

use std::fmt::Write as _;

use test_support::clients::{Run, ldap_utility};
use test_support::pando::command;
use test_support::{Pando, SUFFIX, Scratch};

/// Number of people below each of two units.
const PEOPLE: usize = 1_200;

fn people(scratch: &Scratch) -> Pando {
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for unit in ["people", "others"] {
        writeln!(ldif, "dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n").unwrap();
    }
    for number in 0..2 * PEOPLE {
        let unit = if number % 2 == 0 { "people" } else { "others" };
        let sn = if number % 3 == 0 { "third" } else { "other" };
        let entry =
            format!("objectClass: inetOrgPerson\ncn: Person {number}\nsn: {sn}\ndescription: no. {number}");
        writeln!(ldif, "dn: uid=p{number},ou={unit},{SUFFIX}\n{entry}\n").unwrap();
    }
    std::fs::write(scratch.join("people.ldif"), ldif).unwrap();
    let file = scratch.join("people.ldif");
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&Pando::data(scratch)))
        .expect_code(0);
    Pando::start(scratch)
}

/// Returns the names in ldapsearch's output, sorted.
fn names(run: &Run) -> Vec<&str> {
    let mut names: Vec<&str> = run.stdout.lines().filter_map(|line| line.strip_prefix("dn: ")).collect();
    names.sort_unstable();
    names
}

#[test]
fn ldapsearch_gets_every_entry_once() {
    let scratch = Scratch::new("pages");
    let pando = people(&scratch);
    let server = pando.address();
    let unit = format!("ou=people,{SUFFIX}");
    for (base, scope, filter, count) in [
        (unit.as_str(), "one", "(objectClass=*)", PEOPLE),
        (&unit, "sub", "(objectClass=person)", PEOPLE),
        (SUFFIX, "sub", "(sn=third)", 2 * PEOPLE / 3),
        (SUFFIX, "sub", "(cn=person 1*)", 1_111),
        (SUFFIX, "sub", "(description=*no*)", 2 * PEOPLE),
        (SUFFIX, "sub", "(description=*)", 2 * PEOPLE),
        (SUFFIX, "sub", "(ou=*)", 2),
        (SUFFIX, "base", "(objectClass=*)", 1),
        (SUFFIX, "sub", "(sn=nobody)", 0),
    ] {
        let plain = ["-b", base, "-s", scope, filter, "1.1"];
        let whole = ldap_utility("ldapsearch", server, &plain, "").expect_code(0);
        assert_eq!(names(&whole).len(), count, "{filter}");
        for page in ["pr=100/noprompt", "!pr=500/noprompt", "pr=100000/noprompt"] {
            let paged = [&["-E", page][..], &plain].concat();
            let run = ldap_utility("ldapsearch", server, &paged, "").expect_code(0);
            assert!(names(&run) == names(&whole), "{filter} with {page}: {run}");
        }
    }
    // A size limit applies to all pages together.
    let limited = ["-z", "250", "-E", "pr=100/noprompt", "-b", SUFFIX, "(sn=third)", "1.1"];
    let run = ldap_utility("ldapsearch", server, &limited, "").expect_code(4);
    assert_eq!(names(&run).len(), 250);
}
