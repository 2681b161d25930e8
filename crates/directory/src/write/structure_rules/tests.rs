//! Tests of DIT content rules, name forms and structure rules: what each kind of change may do.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{ResultCode as Code, Scope};

use crate::testing::{SUFFIX, TestDirectory, ok, refused};
use crate::violations::violations;

const CONTENT: &str = "ditcontentrule ( 2.16.840.1.113730.3.2.2 NAME 'people' AUX ( posixAccount $ eduThing ) \
                       MUST mail MAY buildingName NOT ( fax $ pager ) )\n\
                       objectclass ( 1.3.6.1.4.1.32473.2.1 NAME 'eduThing' SUP eduBase AUXILIARY )\n\
                       objectclass ( 1.3.6.1.4.1.32473.2.2 NAME 'eduBase' AUXILIARY )\n";

const FORMS: &str = "nameform ( 1.3.6.1.4.1.32473.5.1 NAME 'domainForm' OC domain MUST dc )\n\
                     nameform ( 1.3.6.1.4.1.32473.5.2 NAME 'unitForm' OC organizationalUnit MUST ou )\n\
                     nameform ( 1.3.6.1.4.1.32473.5.3 NAME 'personForm' OC inetOrgPerson MUST uid MAY cn )\n\
                     nameform ( 1.3.6.1.4.1.32473.5.4 NAME 'oldForm' OBSOLETE OC device MUST serialNumber )\n";

const RULES: &str = "ditstructurerule ( 1 FORM domainForm )\n\
                     ditstructurerule ( 2 NAME 'units' FORM unitForm SUP ( 1 2 ) )\n\
                     ditstructurerule ( 3 FORM personForm SUP 2 )\n\
                     ditstructurerule ( 4 OBSOLETE FORM personForm SUP 1 )\n";

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const UNIT: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
const PERSON: &[(&str, &[&str])] =
    &[("objectClass", &["inetOrgPerson"]), ("cn", &["x"]), ("sn", &["x"]), ("mail", &["x@y"])];

fn define(directory: &mut TestDirectory, text: &str) {
    directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), text.to_owned())));
}

fn with(text: &str) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    define(&mut directory, text);
    directory
}

fn rule_of(directory: &mut TestDirectory, dn: &str) -> Vec<String> {
    let found = directory.search(dn, Scope::BaseObject, "(objectClass=*)", &["+"]);
    found.entries[0].texts("governingStructureRule")
}

#[test]
fn content_rules_govern_classes_and_attributes() {
    let mut directory = with(CONTENT);
    let dn = format!("uid=a,{SUFFIX}");
    let person = |more: &[(&'static str, &'static [&'static str])]| [PERSON, more].concat();
    let check = |directory: &mut TestDirectory, more: &[_], text: &str| {
        let what = format!("the DIT content rule of inetOrgPerson {text}");
        refused(directory.add(&dn, &person(more)), Code::OBJECT_CLASS_VIOLATION, &what);
    };
    check(&mut directory, &[("objectClass", &["labeledURIObject"])], "does not list the auxiliary class");
    check(&mut directory, &[("facsimileTelephoneNumber", &["1"])], "precludes facsimileTelephoneNumber");
    refused(directory.add(&dn, &PERSON[..3]), Code::OBJECT_CLASS_VIOLATION, "requires mail");
    // An auxiliary class in the content rule implies its superclass. The rule also allows attributes that the classes
    // do not allow.
    ok(directory.add(&dn, &person(&[("objectClass", &["eduThing", "eduBase"]), ("buildingName", &["b"])])));
    let fails = [
        (Add, "pager", &["1"][..], "precludes pager"),
        (Delete, "mail", &[][..], "requires mail"),
        (Add, "objectClass", &["extensibleObject"][..], "does not list the auxiliary class extensibleObject"),
    ];
    for (operation, name, values, text) in fails {
        refused(directory.modify(&dn, &[(operation, name, values)]), Code::OBJECT_CLASS_VIOLATION, text);
    }
    ok(directory.modify(&dn, &[(Replace, "mail", &["z@y"])]));
    // The content rule of a superclass does not apply. Entries of a class without a content rule have no such
    // restrictions.
    let person = [("objectClass", &["person"][..]), ("sn", &["x"]), ("cn", &["p"])];
    ok(directory.add(&format!("cn=p,{SUFFIX}"), &person));
    // Without the content rule, the classes no longer allow the attribute. The entry keeps the attribute until the
    // entry is changed.
    define(&mut directory, CONTENT.split_once('\n').unwrap().1);
    refused(
        directory.modify(&dn, &[(Replace, "mail", &["q@y"])]),
        Code::OBJECT_CLASS_VIOLATION,
        "buildingName",
    );
}

#[test]
fn name_forms_govern_names_even_without_structure_rules() {
    let mut directory = with(FORMS);
    let text = "the RDN follows no name form of inetOrgPerson: personForm needs uid and allows cn";
    refused(directory.add(&format!("cn=x,{SUFFIX}"), PERSON), Code::NAMING_VIOLATION, text);
    refused(directory.add(&format!("uid=a+sn=x,{SUFFIX}"), PERSON), Code::NAMING_VIOLATION, text);
    ok(directory.add(&format!("uid=a+cn=x,{SUFFIX}"), PERSON));
    ok(directory.add(&format!("uid=b,{SUFFIX}"), PERSON));
    refused(
        directory.modify_dn(&format!("uid=b,{SUFFIX}"), "cn=x", false, None),
        Code::NAMING_VIOLATION,
        text,
    );
    ok(directory.modify_dn(&format!("uid=b,{SUFFIX}"), "uid=c", true, None));
    // An obsolete name form is not active.
    ok(directory.add(&format!("cn=d,{SUFFIX}"), &[("objectClass", &["device"])]));
    assert_eq!(rule_of(&mut directory, &format!("uid=c,{SUFFIX}")), [] as [&str; 0]);
}

#[test]
fn structure_rules_govern_the_superior_of_an_entry() {
    let mut directory = with(&[FORMS, RULES].concat());
    assert_eq!(rule_of(&mut directory, SUFFIX), ["1"]);
    let text =
        "no DIT structure rule of inetOrgPerson (3) permits it below an entry that the DIT structure rule 1";
    refused(directory.add(&format!("uid=a,{SUFFIX}"), PERSON), Code::NAMING_VIOLATION, text);
    ok(directory.add(PEOPLE, UNIT));
    let ann = format!("uid=ann,{PEOPLE}");
    ok(directory.add(&ann, PERSON));
    assert_eq!(
        (rule_of(&mut directory, PEOPLE), rule_of(&mut directory, &ann)),
        (vec!["2".into()], vec!["3".into()])
    );
    let found = directory.search(SUFFIX, Scope::WholeSubtree, "(governingStructureRule=2)", &["ou"]);
    assert_eq!(found.dns(), [PEOPLE]);
    let below = format!("ou=x,{ann}");
    refused(directory.add(&below, UNIT), Code::NAMING_VIOLATION, "organizationalUnit (2) permits it below");
    // Below a governed entry, a class without structure rules has no permitted place. A subentry needs no rule.
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"])];
    let text = "device has no DIT structure rule";
    refused(directory.add(&format!("cn=d,{PEOPLE}"), device), Code::NAMING_VIOLATION, text);
    let subentry: &[(&str, &[&str])] =
        &[("objectClass", &["subentry", "collectiveAttributeSubentry"]), ("subtreeSpecification", &["{}"])];
    ok(directory.add(&format!("cn=s,{PEOPLE}"), subentry));
    // Moves and renames of an entry with entries below it.
    refused(
        directory.modify_dn(&ann, "uid=ann", true, Some(SUFFIX)),
        Code::NAMING_VIOLATION,
        "permits it below",
    );
    let other = format!("ou=other,{SUFFIX}");
    ok(directory.add(&other, UNIT));
    ok(directory.modify_dn(PEOPLE, "ou=folk", true, Some(&other)));
    let ann = format!("uid=ann,ou=folk,{other}");
    assert_eq!(rule_of(&mut directory, &ann), ["3"]);
    // The lowest rule number that fits governs, regardless of the order of definitions.
    define(&mut directory, &[FORMS, "ditstructurerule ( 9 FORM unitForm SUP 1 )\n", RULES].concat());
    assert_eq!(rule_of(&mut directory, &other), ["2"]);
}

#[test]
fn a_rename_that_changes_structure_rules_of_subordinates_is_refused() {
    let forms = "nameform ( 1.3.6.1.4.1.32473.5.5 NAME 'byPlace' OC organizationalUnit MUST l )\n";
    let rules = "ditstructurerule ( 5 FORM byPlace SUP 1 )\n";
    let mut directory = with(&[FORMS, forms, RULES, rules].concat());
    let unit = [UNIT, &[("l", &["here"])]].concat();
    ok(directory.add(PEOPLE, &unit));
    ok(directory.modify_dn(PEOPLE, "l=here", false, None));
    let renamed = format!("l=here,{SUFFIX}");
    assert_eq!(rule_of(&mut directory, &renamed), ["5"]);
    refused(directory.add(&format!("uid=a,{renamed}"), PERSON), Code::NAMING_VIOLATION, "structure rule 5");
    ok(directory.modify_dn(&renamed, "ou=people", false, None));
    ok(directory.add(&format!("ou=sub,{PEOPLE}"), UNIT));
    ok(directory.add(&format!("uid=a,ou=sub,{PEOPLE}"), PERSON));
    let text = "an entry below would break the rules: no DIT structure rule of organizationalUnit";
    refused(directory.modify_dn(PEOPLE, "l=here", false, None), Code::NAMING_VIOLATION, text);
}

#[test]
fn administrative_points_begin_areas_of_their_own() {
    let rules = "ditstructurerule ( 1 FORM unitForm )\nditstructurerule ( 2 FORM personForm SUP 1 )\n";
    let mut directory = with(&[FORMS, rules].concat());
    let text =
        "no DIT structure rule of organizationalUnit (1) permits it here: no DIT structure rule governs";
    refused(directory.add(PEOPLE, UNIT), Code::NAMING_VIOLATION, text);
    ok(directory.add(PEOPLE, &[UNIT, &[("administrativeRole", &["2.5.23.4"])]].concat()));
    ok(directory.add(&format!("uid=a,{PEOPLE}"), PERSON));
    assert_eq!(rule_of(&mut directory, &format!("uid=a,{PEOPLE}")), ["2"]);
    let text = "no DIT structure rule of organizationalUnit";
    let change = [(Delete, "administrativeRole", &[][..])];
    refused(directory.modify(PEOPLE, &change), Code::OBJECT_CLASS_VIOLATION, text);
    ok(directory.modify(PEOPLE, &[(Replace, "administrativeRole", &["2.5.23.1"])]));
    ok(directory.modify(PEOPLE, &[(Add, "description", &["still an area"])]));
}

/// Entries that violate newer rules stay and can be changed. The violations are counted by their reasons.
#[test]
fn existing_violations_are_kept_and_counted() {
    let mut directory = TestDirectory::with_suffix_entry();
    ok(directory.add(PEOPLE, UNIT));
    let old = format!("cn=old,{PEOPLE}");
    ok(directory.add(&old, PERSON));
    ok(directory.add(&format!("uid=here,{SUFFIX}"), &[PERSON, &[("pager", &["1"])]].concat()));
    let rules = [CONTENT, FORMS, RULES].concat();
    let mut settings = crate::DirectorySettings::of(directory.snapshot.state().catalog);
    settings.schema.insert("own".to_owned(), rules.clone());
    let expected = [
        format!(
            "1 entry breaks a rule: no DIT structure rule of inetOrgPerson (3) permits it below an entry that the DIT \
             structure rule 1 governs: \"uid=here,{SUFFIX}\""
        ),
        format!(
            "1 entry breaks a rule: the DIT content rule of inetOrgPerson precludes pager: \"uid=here,{SUFFIX}\""
        ),
        format!(
            "1 entry breaks a rule: the RDN follows no name form of inetOrgPerson: personForm needs uid and allows cn: \
             \"{old}\""
        ),
    ];
    assert_eq!(violations(directory.snapshot.state(), &settings).unwrap(), expected);
    define(&mut directory, &rules);
    assert_eq!(violations(directory.snapshot.state(), &settings).unwrap(), expected);
    ok(directory.modify(&old, &[(Replace, "description", &["new"])]));
    ok(directory.modify_dn(&old, "uid=new", true, None));
    ok(directory.delete(&format!("uid=here,{SUFFIX}")));
    assert_eq!(violations(directory.snapshot.state(), &settings).unwrap(), [] as [&str; 0]);
    directory = directory.reopen();
    assert_eq!(rule_of(&mut directory, &format!("uid=new,{PEOPLE}")), ["3"]);
}

#[test]
fn a_deleted_tree_is_restored_only_to_a_permitted_place() {
    let mut directory = with(&[FORMS, RULES].concat());
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3_600);
    for dn in [PEOPLE.to_owned(), format!("ou=sub,{PEOPLE}")] {
        ok(directory.add(&dn, UNIT));
    }
    ok(directory.add(&format!("uid=a,ou=sub,{PEOPLE}"), PERSON));
    let sub = format!("ou=sub,{PEOPLE}");
    ok(directory.delete_tree(&sub));
    assert_eq!(directory.undelete(&sub, Some(SUFFIX)).unwrap().entries, 2);
    let ann = format!("uid=a,ou=sub,{SUFFIX}");
    ok(directory.delete(&ann));
    let refusal = directory.undelete(&ann, Some(SUFFIX)).unwrap_err();
    assert_eq!(refusal.code, Code::NAMING_VIOLATION, "{}", refusal.diagnostic);
    assert_eq!(directory.undelete(&ann, Some(PEOPLE)).unwrap().entries, 1);
}
