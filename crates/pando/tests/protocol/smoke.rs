//! The most common operations, end to end: start the binary, add, search, change, compare, rename, delete, stop.

use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::pando::Start;
use test_support::tree::{add, person_dn, plant};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

#[test]
fn an_entry_is_read_changed_renamed_and_deleted() {
    let scratch = Scratch::new("smoke");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");

    let entry = admin.entry(&anna, &["*", "+"]).unwrap().expect("anna is there");
    assert_eq!(entry.dn, anna);
    assert_eq!(entry.texts("cn"), ["anna"]);
    assert_eq!(entry.texts("structuralObjectClass"), ["inetOrgPerson"]);
    assert_eq!(entry.texts("creatorsName"), [ADMIN_DN]);
    assert_eq!(entry.texts("entryDN"), [anna.as_str()]);
    assert_eq!(entry.texts("hasSubordinates"), ["FALSE"]);
    assert_eq!(entry.texts("memberOf"), [format!("cn=staff,ou=groups,{SUFFIX}")]);
    assert_eq!(entry.text("entryUUID").unwrap().len(), 36);

    let change = (ChangeOperation::Replace, "title", &["Head of Trees"][..]);
    assert!(admin.modify(&anna, &[change]).unwrap().is_success());
    assert_eq!(admin.compare(&anna, "title", "head of trees").unwrap().code, ResultCode::COMPARE_TRUE);
    assert_eq!(admin.compare(&anna, "title", "gardener").unwrap().code, ResultCode::COMPARE_FALSE);

    assert!(admin.modify_dn(&anna, "uid=anne", None).unwrap().is_success());
    let reply = admin.search(SUFFIX, Scope::WholeSubtree, "(member=*)", &["member"]).unwrap();
    assert_eq!(
        reply.entries[0].texts("member"),
        [person_dn("anne"), person_dn("bert")],
        "links follow a rename"
    );

    assert!(admin.delete(&person_dn("anne")).unwrap().is_success());
    assert_eq!(admin.delete(&person_dn("anne")).unwrap().code, ResultCode::NO_SUCH_OBJECT);
    assert!(pando.stop().success());
}

#[test]
fn any_client_reads_the_root_dse_and_the_schema() {
    let scratch = Scratch::new("root-dse");
    let pando = Pando::start(&scratch);
    let mut anonymous = pando.connect();
    let root = anonymous.entry("", &["*", "+"]).unwrap().expect("a root DSE");
    assert_eq!(root.texts("namingContexts"), [SUFFIX]);
    assert_eq!(root.texts("supportedLDAPVersion"), ["3"]);
    assert!(root.texts("supportedControl").contains(&ldap::oids::MANAGE_DSA_IT.to_owned()));
    assert!(!root.values("vendorName").is_empty());

    let subschema = root.text("subschemaSubentry").unwrap();
    let filter = "(objectClass=subschema)";
    let wanted = ["attributeTypes", "objectClasses", "matchingRules", "ldapSyntaxes"];
    let reply = anonymous.search(&subschema, Scope::BaseObject, filter, &wanted).unwrap();
    let schema = reply.entries.first().expect("a subschema subentry");
    for (attribute, count_min) in wanted.iter().zip([200, 80, 30, 30]) {
        let count = schema.values(attribute).len();
        assert!(count >= count_min, "{count} {attribute}");
    }
    let inet_org_person =
        schema.texts("objectClasses").into_iter().find(|text| text.contains("'inetOrgPerson'"));
    assert!(inet_org_person.unwrap().contains("2.16.840.1.113730.3.2.2"));
}

#[test]
fn the_sample_organisation_is_loaded() {
    let scratch = Scratch::new("sample");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let mut admin = pando.administrator();
    let reply = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=person)", &["1.1"]).unwrap();
    assert!(reply.entries.len() >= 1000, "{} people", reply.entries.len());
    let groups =
        admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=groupOfNames)", &["member"]).unwrap();
    assert!(groups.entries.len() >= 10);
    for filter in ["(objectClass=posixAccount)", "(userCertificate=*)", "(jpegPhoto=*)", "(memberOf=*)"] {
        let found = admin.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap();
        assert!(!found.entries.is_empty(), "no entry matches {filter}");
    }
    let number = reply.entries.len();
    drop(admin);
    assert!(pando.stop().success());

    // After a restart with --sample, the server keeps its entries and adds none.
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let mut admin = pando.administrator();
    let again = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=person)", &["1.1"]).unwrap();
    assert_eq!(again.entries.len(), number);
}

#[test]
fn a_search_at_the_root_finds_entries_of_all_suffixes() {
    let scratch = Scratch::new("suffixes");
    let pando = Start::new(&scratch).arguments(&["--suffix", "o=other"]).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    add(&mut admin, "o=other", &[("objectClass", "organization"), ("o", "other")]);
    let all = admin.search("", Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    let names: Vec<&str> = all.entries.iter().map(|entry| entry.dn.as_str()).collect();
    assert!(names.contains(&SUFFIX) && names.contains(&"o=other"), "{names:?}");

    assert_eq!(
        admin.modify_dn(&person_dn("anna"), "uid=anna", Some("o=other")).unwrap().code,
        ResultCode::AFFECTS_MULTIPLE_DSAS
    );
    // A suffix entry can be deleted and added again.
    assert!(admin.delete("o=other").unwrap().is_success());
    add(&mut admin, "o=other", &[("objectClass", "organization"), ("o", "other")]);
}

#[test]
fn the_monitor_can_be_read() {
    let scratch = Scratch::new("monitor");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let reply = admin.search("cn=monitor", Scope::WholeSubtree, "(objectClass=*)", &["*", "+"]).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    assert!(!reply.entries.is_empty());
}
