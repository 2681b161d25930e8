//! Collective attributes (RFC 3671) as OpenLDAP's clients see them, and a copy of the data without them.

use test_support::clients::ldap_utility;
use test_support::pando::command;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

#[test]
fn entries_have_the_values_of_a_subentry() {
    let scratch = Scratch::new("collective");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let subentry = format!("cn=office,{SUFFIX}");
    let ldif = format!(
        "dn: {subentry}\nobjectClass: subentry\nobjectClass: collectiveAttributeSubentry\n\
         subtreeSpecification: {{ specificationFilter item:person }}\nc-l: Oslo\nc-TelephoneNumber: +47 22 00 00 00\n"
    );
    ldap_utility("ldapadd", pando.address(), &[], &ldif).expect_code(0);
    let search = |words: &[&str]| {
        let words = [&["-b", SUFFIX], words].concat();
        ldap_utility("ldapsearch", pando.address(), &words, "").expect_code(0).stdout
    };
    let all = search(&["(objectClass=person)", "1.1"]);
    assert!(all.contains(&person_dn("anna")), "{all}");
    assert_eq!(search(&["(l=oslo)", "1.1"]), all);
    let anna = search(&["(uid=anna)", "*", "collectiveAttributeSubentries"]);
    for line in ["c-l: Oslo", "c-TelephoneNumber: +47 22 00 00 00"] {
        assert!(anna.lines().any(|other| other == line), "{anna}");
    }
    assert!(anna.contains(&format!("collectiveAttributeSubentries: {subentry}")), "{anna}");
    let compare = [&person_dn("anna"), "c-l:OSLO"];
    ldap_utility("ldapcompare", pando.address(), &compare, "").expect_code(6);

    let modify = |dn: &str, change: &str| {
        let text = format!("dn: {dn}\nchangetype: modify\n{change}\n");
        ldap_utility("ldapmodify", pando.address(), &[], &text)
    };
    modify(&person_dn("anna"), "add: c-l\nc-l: Rome").expect_code(65).expect_error("c-l is collective");
    modify(&subentry, "replace: c-l\nc-l: Rome").expect_code(0);
    assert_eq!(search(&["(l=rome)", "1.1"]), all, "the change has effect at once");
    modify(&person_dn("anna"), "add: collectiveExclusions\ncollectiveExclusions: c-l").expect_code(0);
    assert_eq!(search(&["(uid=anna)", "c-l"]).trim(), format!("dn: {}", person_dn("anna")));

    // An export over LDAP has the values only in the subentry, so that it can be imported again.
    let file = scratch.join("export.ldif");
    let url = format!("ldap://{}", pando.address());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let bind = ["--url", &url, "--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap()];
    let words = [&["export", "-o", file.to_str().unwrap()][..], &bind].concat();
    command(&words, None).expect_code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("c-l: Rome").count(), 1, "{text}");
    let other = Scratch::new("collective-other");
    command(&["import", file.to_str().unwrap()], Some(&Pando::data(&other))).expect_code(0);
}
