//! Changes that return the entry before and after the change, as requested by OpenLDAP's tools (RFC 4527).

use test_support::clients::ldap_utility;
use test_support::{Pando, SUFFIX, Scratch};

#[test]
fn ldapmodify_gets_the_entry_before_and_after() {
    let scratch = Scratch::new("copies");
    let pando = Pando::start(&scratch);
    let run = |tool: &str, options: &[&str], ldif: &str, code: i32| {
        ldap_utility(tool, pando.address(), options, ldif).expect_code(code)
    };
    run("ldapadd", &[], &format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n"), 0);
    let anna = format!("uid=anna,{SUFFIX}");
    let person = format!("dn: {anna}\nobjectClass: inetOrgPerson\ncn: Anna\nsn: A\nuserPassword: secret\n");
    let added = run("ldapadd", &["-e", "!postread=entryUUID,userPassword,cn"], &person, 0);
    assert!(added.stdout.contains("entryUUID: ") && added.stdout.contains("cn: Anna"), "{added}");

    let change = format!("dn: {anna}\nchangetype: modify\nreplace: sn\nsn: B\n");
    let changed = run("ldapmodify", &["-e", "!preread=sn", "-e", "!postread=sn,modifiersName"], &change, 0);
    let (before, after) = (changed.stdout.find("sn: A").unwrap(), changed.stdout.find("sn: B").unwrap());
    assert!(before < after && changed.stdout.contains("modifiersName: "), "{changed}");

    // The Password Modify operation does not support controls that apply only to a modify.
    let options = ["-e", "!preread=sn", "-s", "other", &anna];
    run("ldappasswd", &options, "", 1).expect_output("Critical extension is unavailable");
    assert!(pando.connect().bind(&anna, "secret").unwrap().is_success(), "it is the one of before");
    let deleted = run("ldapdelete", &["-e", "!preread=*", &anna], "", 0);
    assert!(deleted.stdout.contains("sn: B"), "{deleted}");
}
