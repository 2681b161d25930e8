//! Tests of schema changes in a directory with entries.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{ResultCode, Scope};

use crate::settings::notes;
use crate::testing::{SUFFIX, TestDirectory, ok};

/// Returns the definitions of the type `badge` and of a class that allows it.
fn definition(syntax: u8, rules: &str) -> String {
    format!(
        "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'badge' {rules} SYNTAX 1.3.6.1.4.1.1466.115.121.1.{syntax} )\n\
         objectclass ( 1.3.6.1.4.1.32473.2 NAME 'badgeHolder' AUXILIARY MAY badge )\n"
    )
}

const IGNORE: &str =
    "EQUALITY caseIgnoreMatch ORDERING caseIgnoreOrderingMatch SUBSTR caseIgnoreSubstringsMatch";
const EXACT: &str = "EQUALITY caseExactMatch ORDERING caseExactOrderingMatch SUBSTR caseExactSubstringsMatch";
const INTEGER: &str = "EQUALITY integerMatch ORDERING integerOrderingMatch";

fn name(cn: &str) -> String {
    format!("cn={cn},{SUFFIX}")
}

/// Returns a directory in which the entries `a` and `b` have these badges.
fn directory(a: &[&str], b: &[&str]) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    set(&mut directory, &definition(15, IGNORE)).unwrap();
    for (cn, badges) in [("a", a), ("b", b)] {
        let class: &[&str] = &["device", "badgeHolder"];
        ok(directory.add(&name(cn), &[("objectClass", class), ("badge", badges)]));
    }
    directory
}

/// Replaces the schema text. Returns the text of a refusal as the error.
fn set(directory: &mut TestDirectory, text: &str) -> Result<(), String> {
    let changed = directory
        .try_change_settings(|settings| drop(settings.schema.insert("own".to_owned(), text.to_owned())));
    changed.map(drop).map_err(|error| error.to_string())
}

fn check(directory: &TestDirectory) {
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

fn found(directory: &mut TestDirectory, filter: &str) -> usize {
    directory.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).entries.len()
}

#[test]
fn new_matching_rules_that_fit_all_values_rebuild_the_indexes() {
    let mut directory = directory(&["Red 7"], &["red 7", "blue"]);
    directory.define_index("badge", "equality,ordering,substring");
    directory.finish_indexes();
    assert_eq!(found(&mut directory, "(badge=RED 7)"), 2);

    let mut proposal = directory.directory.directory_settings();
    proposal.schema.insert("own".to_owned(), definition(15, EXACT));
    let notes = notes(directory.snapshot.state(), &proposal).unwrap();
    assert_eq!(
        notes,
        ["badge gets another syntax or other rules: looks at 3 entries, and builds its index again"]
    );
    set(&mut directory, &definition(15, EXACT)).unwrap();
    // The first pass has no index, and the second pass has a complete index.
    for _ in 0..2 {
        assert_eq!(found(&mut directory, "(badge=RED 7)"), 0);
        assert_eq!(found(&mut directory, "(badge=Red 7)"), 1);
        assert_eq!(found(&mut directory, "(badge=*ed*)"), 2);
        assert_eq!(found(&mut directory, "(badge>=blue)"), 1);
        check(&directory);
        directory.finish_indexes();
        check(&directory);
        directory = directory.reopen();
    }
    assert!(!crate::index::maintenance::is_pending(directory.snapshot.state().catalog));
    ok(directory.modify(&name("b"), &[(Add, "badge", &["BLUE"])]));
    // Under the former rule, the two values are equal.
    let refused = set(&mut directory, &definition(15, IGNORE)).unwrap_err();
    let text = format!("badge is used by an entry (\"{}\"), whose values do not fit", name("b"));
    assert!(refused.contains(&text), "{refused}");
    assert_eq!(found(&mut directory, "(badge=BLUE)"), 1);
}

#[test]
fn values_that_do_not_fit_are_counted() {
    let mut directory = directory(&["1"], &["02", "x"]);
    let refused = set(&mut directory, &definition(27, INTEGER)).unwrap_err();
    assert!(refused.contains("used by an entry (\"cn=b,"), "{refused}");
    ok(directory.modify(&name("a"), &[(Replace, "badge", &["y"])]));
    let refused = set(&mut directory, &definition(27, INTEGER)).unwrap_err();
    assert!(refused.contains("used by 2 entries (\"cn=a,") && refused.contains("\"cn=b,"), "{refused}");
    ok(directory.modify(&name("a"), &[(Replace, "badge", &["10"])]));
    ok(directory.modify(&name("b"), &[(Delete, "badge", &["x"])]));
    set(&mut directory, &definition(27, "EQUALITY integerMatch")).unwrap_err();
    ok(directory.modify(&name("b"), &[(Replace, "badge", &["2"])]));
    set(&mut directory, &definition(27, INTEGER)).unwrap();
    assert_eq!(found(&mut directory, "(badge>=9)"), 1);
    assert_eq!(
        directory.modify(&name("b"), &[(Add, "badge", &["x"])]).code,
        ResultCode::INVALID_ATTRIBUTE_SYNTAX
    );
}

#[test]
fn refuses_rules_that_change_the_normal_form_of_an_rdn() {
    let mut directory = directory(&["1"], &["2"]);
    let named = format!("badge=Seven,{SUFFIX}");
    ok(directory.add(&named, &[("objectClass", &["device", "badgeHolder"]), ("cn", &["x"])]));
    let refused = set(&mut directory, &definition(15, EXACT)).unwrap_err();
    assert!(refused.contains("used by an entry (\"badge=Seven,"), "{refused}");
    ok(directory.modify_dn(&named, "badge=seven", true, None));
    set(&mut directory, &definition(15, EXACT)).unwrap();
    assert!(directory.read(&format!("badge=seven,{SUFFIX}")).is_some());
    assert!(directory.read(&named).is_none());
    check(&directory);
}

/// Regression test: after a type received another NAME, DNs with the former name could not be parsed, and `verify`
/// reported damage.
#[test]
fn a_type_name_that_occurs_in_a_dn_cannot_be_removed() {
    let mut directory = directory(&["1"], &["2"]);
    let renamed =
        |names: &str| definition(15, IGNORE).replace("'badge'", names).replace("MAY badge", "MAY tag");
    set(&mut directory, &renamed("'tag'")).unwrap();
    check(&directory);
    set(&mut directory, &definition(15, IGNORE)).unwrap();
    let named = format!("badge=Seven,{SUFFIX}");
    ok(directory.add(&named, &[("objectClass", &["device", "badgeHolder"]), ("cn", &["x"])]));
    let refused = set(&mut directory, &renamed("'tag'")).unwrap_err();
    assert!(refused.contains("used by an entry (\"badge=Seven,"), "{refused}");
    set(&mut directory, &renamed("( 'tag' 'badge' )")).unwrap();
    assert!(directory.read(&format!("tag=seven,{SUFFIX}")).is_some());
    check(&directory);
}

/// Regression test: a member was a dangling link whose name used a type. After the type was removed or received another
/// rule, the member could not be removed, and the delete of its group never ended.
#[test]
fn a_type_that_occurs_in_values_keeps_its_rules() {
    let mut directory = directory(&["1"], &["2"]);
    let (group, member) = (format!("cn=group,{SUFFIX}"), format!("badge=Seven,{SUFFIX}"));
    let attributes: [(&str, &[&str]); 2] = [("objectClass", &["groupOfNames"]), ("member", &[&member])];
    ok(directory.add(&group, &attributes));
    for text in [definition(15, EXACT), String::new()] {
        let refused = set(&mut directory, &text).unwrap_err();
        assert!(refused.contains("attribute type member is used by an entry (\"cn=group,"), "{refused}");
    }
    ok(directory.modify(&group, &[(Add, "member", &[&name("a")]), (Delete, "member", &[&member])]));
    set(&mut directory, &definition(15, EXACT)).unwrap();
    check(&directory);
    // A definition that is added later changes the normal form of this value.
    let later = format!("later=Seven,{SUFFIX}");
    ok(directory.modify(&group, &[(Add, "member", &[&later])]));
    let added = definition(15, EXACT) + "attributetype ( 1.3.6.1.4.1.32473.7 NAME 'later' SUP name )\n";
    set(&mut directory, &added).unwrap();
    ok(directory.delete(&group));
    check(&directory);
}

#[test]
fn a_type_with_values_does_not_become_collective() {
    let mut directory = directory(&["1"], &["2"]);
    let collective = definition(15, IGNORE).replace("115.121.1.15 )", "115.121.1.15 COLLECTIVE )");
    let refused = set(&mut directory, &collective).unwrap_err();
    assert!(refused.contains("attribute type badge is used by 2 entries"), "{refused}");
    for cn in ["a", "b"] {
        ok(directory.modify(&name(cn), &[(Delete, "badge", &[])]));
    }
    set(&mut directory, &collective).unwrap();
    check(&directory);
}

#[test]
fn a_definition_is_removed_when_no_entry_uses_it() {
    let mut directory = directory(&["1"], &["2"]);
    directory.define_index("badge", "equality");
    directory.finish_indexes();
    let only_class = "objectclass ( 1.3.6.1.4.1.32473.2 NAME 'badgeHolder' AUXILIARY )";
    // The rows of the index are removed only after the definition is removed.
    directory.change_settings(|settings| {
        settings.indexes.remove("badge");
    });
    let refused = set(&mut directory, only_class).unwrap_err();
    assert!(refused.contains("attribute type badge is used by 2 entries (\"cn=a,"), "{refused}");
    for cn in ["a", "b"] {
        ok(directory.modify(&name(cn), &[(Delete, "badge", &[])]));
    }
    set(&mut directory, only_class).unwrap();
    let refused = set(&mut directory, "# none").unwrap_err();
    assert!(refused.contains("object class badgeHolder is used by 2 entries (\"cn=a,"), "{refused}");
    ok(directory.modify(&name("a"), &[(Delete, "objectClass", &["badgeHolder"])]));
    ok(directory.delete(&name("b")));
    set(&mut directory, "# none").unwrap();

    let mut directory = directory.reopen();
    check(&directory);
    directory.finish_indexes();
    check(&directory);
    assert_eq!(found(&mut directory, "(objectClass=badgeHolder)"), 0);
    assert_eq!(found(&mut directory, "(badge=*)"), 0);
    let class: &[&str] = &["device", "badgeHolder"];
    assert_ne!(directory.add(&name("c"), &[("objectClass", class)]).code, ResultCode::SUCCESS);
    // The same OIDs are defined again with other rules, and reuse their numbers.
    let numbers = directory.snapshot.state().catalog.attributes().len();
    set(&mut directory, &definition(27, INTEGER)).unwrap();
    ok(directory.add(&name("c"), &[("objectClass", class), ("badge", &["3"])]));
    let mut directory = directory.reopen();
    assert_eq!(found(&mut directory, "(&(badge=3)(objectClass=badgeHolder))"), 1);
    assert_eq!(directory.snapshot.state().catalog.attributes().len(), numbers);
    check(&directory);
}

#[test]
fn a_deleted_entry_keeps_its_definitions_until_it_is_purged() {
    let mut directory = directory(&["1"], &["2"]);
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3600);
    ok(directory.delete(&name("a")));
    ok(directory.delete(&name("b")));
    let refused = set(&mut directory, "# none").unwrap_err();
    for part in ["type badge is used by 2 entries (\"cn=a,", "class badgeHolder is used by 2", ", deleted"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(set(&mut directory, &definition(7, "EQUALITY booleanMatch")).is_err());
    directory.undelete(&name("a"), None).unwrap();
    assert_eq!(found(&mut directory, "(badge=1)"), 1);
}

/// Regression test: a definition that was added later changed the normal form of values that contain its name. The rows
/// of these values were then not found. A client could remove such a value only together with all other values of the
/// attribute.
#[test]
fn values_older_than_a_definition_are_found_by_their_new_normal_form() {
    let mut directory = TestDirectory::with_suffix_entry();
    let boss = "attributetype ( 1.3.6.1.4.1.32473.3 NAME 'boss' EQUALITY distinguishedNameMatch \
                SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )\n\
                objectclass ( 1.3.6.1.4.1.32473.4 NAME 'bossed' AUXILIARY MAY boss )\n";
    set(&mut directory, boss).unwrap();
    directory.define_index("boss", "equality");
    directory.finish_indexes();
    let red = format!("badge=Red  7,{SUFFIX}");
    let (plain, twin) = (format!("badge=x,{SUFFIX}"), format!("1.3.6.1.4.1.32473.1=red 7,{SUFFIX}"));
    let until = "member;x-until-20270101000000Z";
    let group = [("objectClass", &["groupOfNames"][..]), ("member", &[SUFFIX, &plain]), (until, &[&red])];
    ok(directory.add(&name("g"), &group));
    ok(directory.modify(&name("g"), &[(Add, "member", &[&twin])]));
    ok(directory.add(&name("d"), &[("objectClass", &["device", "bossed"]), ("boss", &[&red])]));
    check(&directory);

    set(&mut directory, &format!("{boss}{}", definition(15, IGNORE))).unwrap();
    check(&directory);
    // Two texts that have become equal are stored as one value.
    assert_eq!(directory.read(&name("g")).unwrap().texts("member").len(), 3);
    let other = format!("(boss=badge=RED 7,{SUFFIX})");
    assert_eq!(found(&mut directory, &other), 1);
    directory.finish_indexes();
    assert_eq!(found(&mut directory, &other), 1);
    check(&directory);
    ok(directory.modify(&name("g"), &[(Delete, "member", &[&format!("badge=RED 7,{SUFFIX}")])]));
    ok(directory.modify(&name("d"), &[(Delete, "boss", &[&red])]));
    check(&directory);
    // The text `plain` becomes a link when an entry with this name is added.
    let class: &[&str] = &["device", "badgeHolder"];
    ok(directory.add(&plain, &[("objectClass", class), ("cn", &["x"]), ("badge", &["x"])]));
    assert_eq!(found(&mut directory, &format!("(memberOf={})", name("g"))), 2);
    check(&directory);
    directory = directory.reopen();
    check(&directory);
}

/// Regression test: a member whose DN used a name that its type received later stayed text, although the entry existed.
#[test]
fn values_that_name_an_entry_by_a_later_name_become_links() {
    let mut directory = directory(&["1"], &["2"]);
    let (named, stray) = (format!("badge=1,{SUFFIX}"), format!("tag=1,{SUFFIX}"));
    ok(directory.add(&named, &[("objectClass", &["device", "badgeHolder"]), ("cn", &["x"])]));
    let class = ("objectClass", &["groupOfNames"][..]);
    let until = "member;x-until-20270101000000Z";
    ok(directory.add(&name("g"), &[class, ("member", &[SUFFIX]), (until, &[&stray])]));
    ok(directory.add(&name("h"), &[class, ("member", &[SUFFIX, &stray, &named])]));
    set(&mut directory, &definition(15, IGNORE).replace("'badge'", "( 'badge' 'tag' )")).unwrap();
    check(&directory);
    for (group, spelling) in [("g", &stray), ("h", &named)] {
        let entry = directory.read(&name(group)).unwrap();
        assert!(entry.texts("member").contains(&named), "{group}");
        assert_eq!(entry.texts("member").len(), 2, "{group}");
        assert_eq!(found(&mut directory, &format!("(&(memberOf={})(badge=1))", name(group))), 1);
        ok(directory.modify(&name(group), &[(Delete, "member", &[spelling])]));
        assert_eq!(found(&mut directory, &format!("(&(memberOf={})(badge=1))", name(group))), 0);
    }
    check(&directory);
    directory = directory.reopen();
    check(&directory);
}
