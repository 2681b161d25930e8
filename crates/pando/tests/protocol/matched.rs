//! The matched values control, as ldapsearch sends it: of many values, only those that match are returned (RFC 3876).

use test_support::clients::ldap_utility;
use test_support::{Pando, SUFFIX, Scratch};

#[test]
fn ldapsearch_gets_one_member_of_many() {
    use std::fmt::Write as _;
    let scratch = Scratch::new("matched");
    let pando = Pando::start(&scratch);
    let mut ldif = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: uid=anna,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Anna\nsn: A\nmail: a@example.com\n\
         mail: anna@example.com\n\n\
         dn: cn=many,{SUFFIX}\nobjectClass: groupOfNames\nmember: uid=anna,{SUFFIX}\n"
    );
    (0..10_000).for_each(|number| writeln!(ldif, "member: uid=p{number},ou=elsewhere,{SUFFIX}").unwrap());
    ldap_utility("ldapadd", pando.address(), &[], &ldif).expect_code(0);
    let search = |matched: &str, filter: &str, attributes: &[&str]| {
        let options = [&["-E", matched, "-b", SUFFIX, filter][..], attributes].concat();
        ldap_utility("ldapsearch", pando.address(), &options, "").expect_code(0).stdout
    };
    let member = format!("!mv=((member=uid=anna,{SUFFIX})(member=uid=p77,ou=elsewhere,{SUFFIX}))");
    let found = search(&member, "(cn=many)", &[]);
    assert_eq!(found.matches("member: ").count(), 2, "{found}");
    assert!(found.contains("member: uid=p77,ou=elsewhere,"), "{found}");
    let found = search("!mv=((mail=anna*)(sn=*))", "(uid=anna)", &["*"]);
    let lines: Vec<&str> =
        found.lines().filter(|line| !line.is_empty() && !line.starts_with("dn: ")).collect();
    assert_eq!(lines, ["sn: A", "mail: anna@example.com"]);
}
