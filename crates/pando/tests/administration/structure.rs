//! DIT content rules, name forms and structure rules, tested with the real server: schema files, plan, import, clients.

use test_support::clients::ldap_utility;
use test_support::pando::command;
use test_support::{Pando, SUFFIX, Scratch};

const RULES: &str = "ditcontentrule ( 2.5.6.6 NAME 'people' NOT seeAlso )\n\
                     nameform ( 1.3.6.1.4.1.32473.5.1 NAME 'domainForm' OC domain MUST dc )\n\
                     nameform ( 1.3.6.1.4.1.32473.5.2 NAME 'personForm' OC person MUST cn )\n\
                     ditstructurerule ( 1 FORM domainForm )\n\
                     ditstructurerule ( 2 FORM personForm SUP 1 )\n";

fn person(dn: &str, more: &str) -> String {
    format!("\ndn: {dn},{SUFFIX}\nobjectClass: person\ncn: a\nsn: b\n{more}")
}

#[test]
fn rules_are_planned_enforced_and_published() {
    let scratch = Scratch::new("structure");
    let data = Pando::data(&scratch);
    let suffix = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n");
    let faulty = [
        suffix.clone(),
        person("cn=good", ""),
        person("sn=b", ""),
        person("cn=below,cn=good", ""),
        person("cn=c", &format!("seeAlso: {SUFFIX}\n")),
    ];
    let ldif = scratch.write("data.ldif", faulty.concat());
    let ldif = ldif.to_str().unwrap();
    scratch.write("own.schema", RULES);
    let with =
        scratch.write("with.toml", format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [\"own.schema\"]\n"));
    let with = with.to_str().unwrap();
    let reasons = [
        "the DIT content rule of person precludes seeAlso",
        "the RDN follows no name form of person: personForm needs cn",
        "no DIT structure rule of person (2) permits it below an entry that the DIT structure rule 2 governs",
    ];

    // An import into a directory with the rules rejects entries that break them.
    let other = scratch.join("other");
    let imported = command(&["import", "--settings", with, "--suffix", SUFFIX, ldif], Some(&other));
    let rejects = std::fs::read_to_string(other.join("rejects-1.ldif")).unwrap_or_default();
    for reason in reasons {
        assert!(format!("{imported}{rejects}").contains(reason), "{imported}\n{rejects}");
    }
    let dump = command(&["export", "--base", SUFFIX], Some(&other)).stdout;
    assert_eq!(dump.matches("dn: ").count(), 2, "{dump}");

    // Rules that existing entries break can be planned and put in force; the violations are counted.
    command(&["import", "--suffix", SUFFIX, ldif], Some(&data)).expect_code(0);
    let mut planned = command(&["plan", with], Some(&data)).expect_code(0);
    for reason in reasons {
        planned = planned.expect_output(&format!("note: 1 entry breaks a rule: {reason}"));
    }
    command(&["apply", with], Some(&data)).expect_code(0);
    command(&["verify"], Some(&data)).expect_code(0).expect_output(reasons[0]);
    let pando = Pando::start(&scratch);
    let add = |ldif: &str| ldap_utility("ldapadd", pando.address(), &[], ldif);
    add(&person("sn=b+cn=a", "")).expect_code(64).expect_error(reasons[1]);
    add(&person("cn=x,cn=good", "")).expect_code(64).expect_error(reasons[2]);
    add(&person("cn=x", &format!("seeAlso: {SUFFIX}\n"))).expect_code(65).expect_error(reasons[0]);
    add(&person("cn=x", "")).expect_code(0);
    let base = ["-b", "cn=subschema", "-s", "base", "dITContentRules", "dITStructureRules", "nameForms"];
    let shown = ldap_utility("ldapsearch", pando.address(), &base, "");
    shown
        .expect_output("dITContentRules: ( 2.5.6.6 NAME 'people' NOT seeAlso )")
        .expect_output("nameForms: ( 1.3.6.1.4.1.32473.5.2 NAME 'personForm' OC person MUST cn )")
        .expect_output("dITStructureRules: ( 2 FORM personForm SUP 1 )");
    let one = format!("cn=x,{SUFFIX}");
    ldap_utility("ldapsearch", pando.address(), &["-b", &one, "governingStructureRule"], "")
        .expect_output("governingStructureRule: 2");
}
