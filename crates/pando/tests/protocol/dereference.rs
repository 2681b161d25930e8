//! Attributes of a group's members, as ldapsearch requests them (draft-masarati-ldap-deref).

use test_support::clients::ldap_utility;
use test_support::{Pando, SUFFIX, Scratch};

#[test]
fn ldapsearch_gets_members_with_their_names() {
    let scratch = Scratch::new("dereference");
    let pando = Pando::start(&scratch);
    let ldif = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: uid=anna,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Anna\nsn: A\n\n\
         dn: uid=bert,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Bert\nsn: B\n\n\
         dn: cn=both,{SUFFIX}\nobjectClass: groupOfNames\nmember: uid=anna,{SUFFIX}\nmember: uid=bert,{SUFFIX}\n\n"
    );
    ldap_utility("ldapadd", pando.address(), &[], &ldif).expect_code(0);
    let search = ["-E", "!deref=member:cn,sn", "-b", SUFFIX, "(cn=both)", "1.1"];
    let run = ldap_utility("ldapsearch", pando.address(), &search, "").expect_code(0);
    for (member, line) in [("anna", "<cn=Anna>;<sn=A>"), ("bert", "<cn=Bert>;<sn=B>")] {
        assert!(run.stdout.contains(member) && run.stdout.contains(line), "{run}");
    }
    let search = ["-E", "!deref=sn:cn", "-b", SUFFIX, "(cn=both)", "1.1"];
    ldap_utility("ldapsearch", pando.address(), &search, "").expect_code(2);
}

/// Regression test: a group with more than 2,000 members was returned without the control and with success, so that
/// SSSD showed no members.
#[test]
fn a_large_group_returns_every_member() {
    const DANGLING_MEMBERS: usize = 3_000;
    let scratch = Scratch::new("dereference-large");
    let pando = Pando::start(&scratch);
    let dangling: String =
        (0..DANGLING_MEMBERS).map(|number| format!("member: uid=n{number},{SUFFIX}\n")).collect();
    let ldif = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: uid=anna,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Anna\nsn: A\n\n\
         dn: cn=large,{SUFFIX}\nobjectClass: groupOfNames\nmember: uid=anna,{SUFFIX}\n{dangling}\n"
    );
    ldap_utility("ldapadd", pando.address(), &[], &ldif).expect_code(0);
    let search = ["-o", "ldif-wrap=no", "-E", "!deref=member:cn", "-b", SUFFIX, "(cn=large)", "1.1"];
    let run = ldap_utility("ldapsearch", pando.address(), &search, "").expect_code(0);
    let lines = run.stdout.lines().filter(|line| line.starts_with("# member: "));
    assert_eq!(lines.count(), 1 + DANGLING_MEMBERS);
    assert!(run.stdout.contains(&format!("# member: <cn=Anna>;uid=anna,{SUFFIX}")), "{run}");
}
