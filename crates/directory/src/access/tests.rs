mod access_list;
mod hidden;
mod values;

use ldap::{ChangeOperation, CompareRequest, ResultCode, Scope};

use super::Requester;
use crate::compare::{CompareOutcome, compare};
use crate::controls::RequestControls;
use crate::model::name::{NormalName, parse_dn};
use crate::testing::{Found, SUFFIX, TestDirectory};

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const STAFF: &str = "ou=staff,ou=people,dc=example,dc=com";
const GROUPS: &str = "ou=groups,dc=example,dc=com";

fn person(name: &str, unit: &str) -> String {
    format!("uid={name},{unit}")
}

/// Sample. anna is in ou=people; bert and carl are in ou=staff. anna is bert's manager. bert is a member of cn=inner,
/// which is a member of cn=outer.
fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in [PEOPLE, STAFF, GROUPS] {
        ok(&mut directory, |of| of.add(unit, &[("objectClass", &["organizationalUnit"])]));
    }
    for (name, unit, phone) in [("anna", PEOPLE, "+1"), ("bert", STAFF, "+2"), ("carl", STAFF, "+3")] {
        let mail = format!("{name}@example.com");
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &[name]),
            ("sn", &["Person"]),
            ("mail", &[&mail]),
            ("telephoneNumber", &[phone]),
            ("description", &["same for all"]),
            ("userPassword", &["{SSHA}x"]),
        ];
        ok(&mut directory, |of| of.add(&person(name, unit), attributes));
    }
    let (anna, bert) = (person("anna", PEOPLE), person("bert", STAFF));
    ok(&mut directory, |of| of.modify(&bert, &[(ChangeOperation::Add, "manager", &[&anna])]));
    let (inner, outer) = (format!("cn=inner,{GROUPS}"), format!("cn=outer,{GROUPS}"));
    for (group, member) in [(&inner, &bert), (&outer, &inner)] {
        ok(&mut directory, |of| of.add(group, &[("objectClass", &["groupOfNames"]), ("member", &[member])]));
    }
    directory
}

#[track_caller]
fn ok(directory: &mut TestDirectory, change: impl FnOnce(&mut TestDirectory) -> crate::Outcome) {
    let outcome = change(directory);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
}

fn set_rules(directory: &mut TestDirectory, rules: &[&str]) {
    let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
    directory.change_settings(|settings| settings.general.access_rules = rules);
}

/// Sets the requester to the user of this entry, or to anonymous for an empty DN.
fn act_as(directory: &mut TestDirectory, dn: &str) {
    directory.requester = match dn {
        "" => Requester::Anonymous,
        "cn=admin" => Requester::Administrator { dn: dn.to_owned() },
        _ => {
            let state = directory.snapshot.state();
            let name = NormalName::of(&parse_dn(dn).unwrap(), &state.catalog.schema);
            Requester::User { id: state.entry_of(&name).unwrap().unwrap(), dn: dn.to_owned() }
        }
    };
}

fn search_all(directory: &mut TestDirectory, filter: &str) -> Found {
    directory.search(SUFFIX, Scope::WholeSubtree, filter, &["*", "+"])
}

fn compared(directory: &TestDirectory, dn: &str, description: &str, value: &str) -> (ResultCode, String) {
    let request = CompareRequest { entry: dn, description, value: value.as_bytes() };
    let none = RequestControls::default();
    match compare(&directory.snapshot, &directory.requester.context(), &request, &none) {
        CompareOutcome::Done(outcome) => (outcome.code, outcome.diagnostic),
        CompareOutcome::Verify { .. } => panic!("a verification of {description}"),
    }
}

#[test]
fn denied_attributes_are_absent_from_every_answer() {
    let mut directory = sample();
    set_rules(
        &mut directory,
        &["all: allow read to authenticated", "phones: deny read of telephoneNumber to authenticated"],
    );
    let (anna, bert) = (person("anna", PEOPLE), person("bert", STAFF));
    act_as(&mut directory, &anna);
    let found = search_all(&mut directory, "(uid=bert)");
    assert_eq!(found.dns(), [bert.as_str()]);
    assert_eq!(found.entries[0].texts("mail"), ["bert@example.com"]);
    for hidden in ["telephoneNumber", "userPassword"] {
        assert!(found.entries[0].texts(hidden).is_empty(), "{hidden}");
    }
    let named = directory.search(&bert, Scope::BaseObject, "(objectClass=*)", &["telephoneNumber", "mail"]);
    assert_eq!(named.entries[0].attributes.keys().collect::<Vec<_>>(), ["mail"]);
    for filter in [
        "(telephoneNumber=*)",
        "(telephoneNumber=+2)",
        "(!(telephoneNumber=+2))",
        "(!(telephoneNumber=*))",
        "(&(uid=bert)(telephoneNumber=+2))",
        "(&(uid=bert)(!(telephoneNumber=+9)))",
        "(telephoneNumber:telephoneNumberMatch:=+2)",
        "(:telephoneNumberMatch:=+2)",
    ] {
        assert!(search_all(&mut directory, filter).dns().is_empty(), "{filter}");
    }
    assert_eq!(search_all(&mut directory, "(|(uid=bert)(telephoneNumber=+3))").dns(), [bert.as_str()]);
    let refused = compared(&directory, &bert, "telephoneNumber", "+2");
    assert_eq!(refused.0, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert_eq!(refused, compared(&directory, &bert, "telephoneNumber", "+9"));
    assert_eq!(compared(&directory, &bert, "mail", "bert@example.com").0, ResultCode::COMPARE_TRUE);
    // An anonymous client sees nothing, and the administrator sees everything.
    act_as(&mut directory, "");
    let nothing = search_all(&mut directory, "(objectClass=*)");
    assert_eq!((nothing.code, nothing.matched_dn.as_str()), (ResultCode::NO_SUCH_OBJECT, ""));
    act_as(&mut directory, "cn=admin");
    assert_eq!(search_all(&mut directory, "(telephoneNumber=+2)").dns(), [bert.as_str()]);
}

#[test]
fn hidden_entries_are_treated_as_missing() {
    let mut directory = sample();
    set_rules(
        &mut directory,
        &[
            "all: allow read, write, delete, rename, add to authenticated",
            &format!("staff: deny browse in \"{STAFF}\" to user \"{}\"", person("anna", PEOPLE)),
        ],
    );
    let (anna, bert) = (person("anna", PEOPLE), person("bert", STAFF));
    act_as(&mut directory, &anna);
    let found = search_all(&mut directory, "(objectClass=*)");
    assert!(found.dns().iter().all(|dn| !dn.ends_with(STAFF)), "{:?}", found.dns());
    let nobody = person("nobody", STAFF);
    let nowhere = "uid=x,ou=nowhere,ou=people,dc=example,dc=com";
    let same = |found: (ResultCode, String, String), other: (ResultCode, String, String), dns: [&str; 2]| {
        assert_eq!((found.0, &found.1), (other.0, &other.1), "{dns:?}");
        assert_eq!(found.2.replace(dns[0], "DN"), other.2.replace(dns[1], "DN"));
        assert_eq!((found.0, found.1.as_str()), (ResultCode::NO_SUCH_OBJECT, PEOPLE));
    };
    let outcome = |of: crate::Outcome| (of.code, of.matched_dn, of.diagnostic);
    for other in [nobody.as_str(), nowhere] {
        let dns = [bert.as_str(), other];
        let mut search = |dn: &str| {
            let found = directory.search(dn, Scope::BaseObject, "(objectClass=*)", &[]);
            (found.code, found.matched_dn, found.diagnostic)
        };
        same(search(&bert), search(other), dns);
        let rename = |directory: &mut TestDirectory, dn: &str| directory.modify_dn(dn, "uid=z", true, None);
        same(outcome(rename(&mut directory, &bert)), outcome(rename(&mut directory, other)), dns);
        same(outcome(directory.delete(&bert)), outcome(directory.delete(other)), dns);
        let change: &[(ChangeOperation, &str, &[&str])] = &[(ChangeOperation::Replace, "mail", &["x"])];
        same(outcome(directory.modify(&bert, change)), outcome(directory.modify(other, change)), dns);
        let (code, text) = compared(&directory, &bert, "mail", "x");
        let expected = compared(&directory, other, "mail", "x");
        assert_eq!((code, text.replace(&bert, "DN")), (expected.0, expected.1.replace(other, "DN")));
        let below = directory.modify_dn(&anna, "uid=anna", false, Some(STAFF));
        assert_eq!(below.code, ResultCode::NO_SUCH_OBJECT, "{}", below.diagnostic);
        let new: &[(&str, &[&str])] = &[("objectClass", &["account"])];
        let added = outcome(directory.add(&bert, new));
        assert_eq!((added.0, added.1.as_str()), (ResultCode::NO_SUCH_OBJECT, PEOPLE));
        assert_eq!(added.2, outcome(directory.add(&nobody, new)).2.replace(&nobody, &bert));
    }
    // Counts exclude hidden entries.
    let people = directory.read(PEOPLE).unwrap();
    assert!(people.texts("numSubordinates").is_empty() && people.texts("hasSubordinates").is_empty());
    assert_eq!(people.texts("ou"), ["people"]);
}

#[test]
fn rules_apply_to_their_requesters_only() {
    let mut directory = sample();
    let (anna, bert, carl) = (person("anna", PEOPLE), person("bert", STAFF), person("carl", STAFF));
    let mut sees = |text: &str, requester: &str| {
        set_rules(&mut directory, &[text]);
        act_as(&mut directory, requester);
        let found = search_all(&mut directory, "(uid=*)");
        let mut names: Vec<String> = found.entries.iter().flat_map(|entry| entry.texts("uid")).collect();
        names.sort();
        names.join(" ")
    };
    let outer = format!("x: allow read to group \"cn=outer,{GROUPS}\"");
    assert_eq!(sees(&outer, &bert), "anna bert carl");
    assert_eq!(sees(&outer, &anna), "");
    let users = format!("x: allow read to users in \"{STAFF}\", user \"{PEOPLE}\"");
    assert_eq!(sees(&users, &carl), "anna bert carl");
    assert_eq!(sees(&users, &anna), "");
    assert_eq!(sees("x: allow read to anyone", ""), "anna bert carl");
    assert_eq!(sees("x: allow read to anonymous", ""), "anna bert carl");
    assert_eq!(sees("x: allow read to anonymous", &anna), "");
    let root = "top: allow browse at \"dc=example,dc=com\" to authenticated";
    for (text, requester, expected) in [
        ("x: allow read to self, named by manager", &anna, "anna bert"),
        ("x: allow read to self, named by manager", &bert, "bert"),
        ("x: allow read below \"ou=people,dc=example,dc=com\" to authenticated", &bert, "anna bert carl"),
        ("x: allow read at \"ou=people,dc=example,dc=com\" to authenticated", &bert, ""),
        ("x: allow read in \"ou=staff,ou=people,dc=example,dc=com\" to authenticated", &bert, "bert carl"),
        ("x: allow read in \"ou=gone,dc=example,dc=com\" to authenticated", &bert, ""),
        ("x: allow read below \"\" to authenticated", &bert, "anna bert carl"),
    ] {
        let mut both = directory_with(&[root, text]);
        act_as(&mut both, requester);
        let found = search_all(&mut both, "(uid=*)");
        let mut names: Vec<String> = found.entries.iter().flat_map(|entry| entry.texts("uid")).collect();
        names.sort();
        assert_eq!(names.join(" "), expected, "{text} as {requester}");
    }
}

fn directory_with(rules: &[&str]) -> TestDirectory {
    let mut directory = sample();
    set_rules(&mut directory, rules);
    directory
}

#[test]
fn each_change_requires_its_right() {
    let (anna, bert) = (person("anna", PEOPLE), person("bert", STAFF));
    let mut directory = directory_with(&[
        "see: allow read to authenticated",
        "own: allow write of userPassword, mail to self",
        &format!("desk: allow write of description in \"{STAFF}\" to user \"{anna}\""),
        &format!("moves: allow add, delete, rename in \"{STAFF}\" to user \"{anna}\""),
    ]);
    act_as(&mut directory, &bert);
    let check =
        |outcome: crate::Outcome, code: ResultCode| assert_eq!(outcome.code, code, "{}", outcome.diagnostic);
    let no = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;
    fn set<'a>(name: &'a str, value: &'a [&'a str]) -> [(ChangeOperation, &'a str, &'a [&'a str]); 1] {
        [(ChangeOperation::Replace, name, value)]
    }
    check(directory.modify(&bert, &set("mail", &["b@example.com"])), ResultCode::SUCCESS);
    check(directory.modify(&bert, &set("userPassword", &["{SSHA}y"])), ResultCode::SUCCESS);
    check(directory.modify(&bert, &set("description", &["y"])), no);
    check(directory.modify(&anna, &set("mail", &["b@example.com"])), no);
    check(directory.delete(&anna), no);
    check(directory.modify_dn(&bert, "uid=b", true, None), no);
    let account: &[(&str, &[&str])] = &[("objectClass", &["account"])];
    check(directory.add(&person("new", STAFF), account), no);
    act_as(&mut directory, &anna);
    check(directory.modify(&bert, &set("description", &["y"])), ResultCode::SUCCESS);
    check(directory.modify(&bert, &set("mail", &["y"])), no);
    check(directory.modify(&bert, &set("userPassword", &["{SSHA}z"])), no);
    check(directory.add(&person("new", STAFF), account), ResultCode::SUCCESS);
    check(directory.add(&person("new", PEOPLE), account), no);
    check(directory.add(&person("new", GROUPS), account), no);
    check(directory.modify_dn(&person("new", STAFF), "uid=newer", true, None), ResultCode::SUCCESS);
    check(directory.modify_dn(&person("newer", STAFF), "uid=newer", true, Some(PEOPLE)), no);
    check(directory.delete(&person("newer", STAFF)), ResultCode::SUCCESS);
    check(directory.delete(&anna), no);
    act_as(&mut directory, "");
    check(directory.delete(&anna), ResultCode::STRONGER_AUTH_REQUIRED);
    check(directory.modify(&anna, &set("mail", &["x"])), ResultCode::STRONGER_AUTH_REQUIRED);
}

#[test]
fn users_need_write_for_their_own_password_and_reset_for_others() {
    let (anna, bert, carl) = (person("anna", PEOPLE), person("bert", STAFF), person("carl", STAFF));
    let desk = format!("desk: allow reset below '{STAFF}' to user '{anna}'");
    let see = "see: allow read to authenticated";
    let own = "own: allow write of userPassword to self";
    let (yes, no) = (ResultCode::SUCCESS, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let set = |directory: &mut TestDirectory, requester: &str, dn: &str, name: &str, code| {
        act_as(directory, requester);
        for operation in [ChangeOperation::Delete, ChangeOperation::Add, ChangeOperation::Replace] {
            let value: &[&str] = if operation == ChangeOperation::Delete { &[] } else { &["{SSHA}x"] };
            let outcome = directory.modify(dn, &[(operation, name, value)]);
            assert_eq!(outcome.code, code, "{requester} {operation:?} {dn}: {}", outcome.diagnostic);
        }
    };
    let mut directory = directory_with(&[see, own, &desk]);
    set(&mut directory, &anna, &bert, "userPassword", yes);
    set(&mut directory, &anna, &bert, "mail", no);
    set(&mut directory, &bert, &anna, "userPassword", no);
    set(&mut directory, &bert, &bert, "userPassword", yes);
    // An application password is a separate credential, so setting it requires the right to write.
    set(&mut directory, &anna, &bert, "userPassword;x-app-mail", no);
    // The right to reset does not cover the user's own password.
    set_rules(&mut directory, &[see, "all: allow reset to anyone"]);
    set(&mut directory, &anna, &anna, "userPassword", no);
    set(&mut directory, &anna, &carl, "userPassword", yes);
    // The right to write the passwords of others includes the right to reset them; a rule that denies either right
    // refuses both.
    let writes = format!("desk: allow write of userPassword to user '{anna}'");
    set_rules(&mut directory, &[see, &writes]);
    set(&mut directory, &anna, &bert, "userPassword", yes);
    let deny = format!("not carl: deny reset at '{carl}' to authenticated");
    set_rules(&mut directory, &[see, own, &writes, &deny]);
    set(&mut directory, &anna, &bert, "userPassword", yes);
    set(&mut directory, &anna, &carl, "userPassword", no);
    set(&mut directory, &anna, &carl, "userPassword;x-app-mail", no);
    set(&mut directory, &carl, &carl, "userPassword", yes);
    let no_write = format!("not bert: deny write of userPassword at '{bert}' to user '{anna}'");
    set_rules(&mut directory, &[see, &desk, &no_write]);
    set(&mut directory, &anna, &bert, "userPassword", no);
    set(&mut directory, &anna, &carl, "userPassword", yes);
    // A rule that denies the right to all attributes covers passwords; a rule that allows this right does not.
    set_rules(&mut directory, &[see, &desk, "no: deny write to authenticated"]);
    set(&mut directory, &anna, &carl, "userPassword", no);
    set_rules(&mut directory, &[see, &desk, "no: deny write but not of userPassword to authenticated"]);
    set(&mut directory, &anna, &carl, "userPassword", yes);
    set_rules(&mut directory, &[see, "all: allow write to authenticated"]);
    set(&mut directory, &anna, &carl, "userPassword", no);
    // A hidden entry is treated as missing.
    set_rules(&mut directory, &[&desk, "no: deny browse of cn to authenticated"]);
    set(&mut directory, &anna, &carl, "userPassword", ResultCode::NO_SUCH_OBJECT);
}

#[test]
fn at_least_one_requester_can_read_the_rules() {
    let mut directory = sample();
    let (anna, nobody) = (person("anna", PEOPLE), person("nobody", PEOPLE));
    let mut set = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let changed = directory.try_change_settings(|settings| settings.general.access_rules = rules);
        changed.map(drop).map_err(|error| error.to_string())
    };
    let see = "see: allow read to authenticated";
    let helpers = format!("helpers: allow explain to user '{anna}'");
    // The first rules of a directory are accepted even if no requester can read them.
    assert_eq!(set(&[see]), Ok(()));
    assert_eq!(set(&[see, &helpers]), Ok(()));
    for wrong in [
        &[see][..],
        &[see, &format!("x: allow explain to user '{nobody}'")],
        &[see, &format!("x: allow explain in 'ou=nowhere,{SUFFIX}' to anyone")],
        &[see, &helpers, "x: deny browse to anyone"],
        &[see, "x: deny explain to authenticated"],
        &[see, &format!("x: deny explain in '{STAFF}' to anyone")],
    ] {
        let error = set(wrong).unwrap_err();
        assert!(error.contains("only the administrator could query"), "{wrong:?}: {error}");
        assert!(error.contains("deny explain to anyone"), "{error}");
    }
    for right in [
        &[see, "x: allow explain to group 'cn=outer,ou=groups,dc=example,dc=com'"][..],
        &[see, &helpers, &format!("x: deny explain in '{STAFF}' to anyone")],
        &[see, "x: deny explain to anyone"],
        // No requester could read the rules before, so nothing is lost.
        &[see],
        &[see, &helpers],
        &[],
    ] {
        assert_eq!(set(right), Ok(()), "{right:?}");
    }
}

#[test]
fn removing_a_member_from_a_group_revokes_its_rights_at_once() {
    let mut directory = directory_with(&[&format!("x: allow read to group \"cn=inner,{GROUPS}\"")]);
    let bert = person("bert", STAFF);
    act_as(&mut directory, &bert);
    assert_eq!(search_all(&mut directory, "(uid=carl)").dns().len(), 1);
    act_as(&mut directory, "cn=admin");
    let anna = person("anna", PEOPLE);
    let inner = format!("cn=inner,{GROUPS}");
    ok(&mut directory, |of| of.modify(&inner, &[(ChangeOperation::Replace, "member", &[&anna])]));
    act_as(&mut directory, &bert);
    assert_eq!(search_all(&mut directory, "(uid=carl)").code, ResultCode::NO_SUCH_OBJECT);
    act_as(&mut directory, &anna);
    assert_eq!(search_all(&mut directory, "(uid=carl)").dns().len(), 1);
    // After a restart, the rules have the same effect.
    let mut directory = directory.reopen();
    act_as(&mut directory, &anna);
    assert_eq!(search_all(&mut directory, "(uid=carl)").dns().len(), 1);
    act_as(&mut directory, &bert);
    assert_eq!(search_all(&mut directory, "(uid=carl)").code, ResultCode::NO_SUCH_OBJECT);
}

#[test]
fn invalid_rules_are_refused() {
    let mut directory = sample();
    for (rules, expected) in [
        (&["x: allow read to unknown"][..], "found \"unknown\""),
        (&["x: allow read of shoeSize to anyone"], "shoeSize is not an attribute type"),
        (&["x: allow read of @shoe to anyone"], "shoe is not an object class"),
        (&["x: allow read in \"no dn\" to anyone"], "no dn"),
        (&["x: allow read matching '(sn=a' to anyone"], "is not a filter"),
        (&["x: allow read matching '(shoeSize=1)' to anyone"], "shoeSize"),
        (&["x: allow read matching '(objectClass=shoe)' to anyone"], "shoe is not an object class"),
        (&["x: allow read matching '(userPassword=*)' to anyone"], "is a secret"),
        (
            &["x: allow read matching '(createTimestamp>=soon)' to anyone"],
            "not a valid value of createTimestamp",
        ),
        (&["x: allow read matching '(member>=a)' to anyone"], "member has no ordering rule"),
        (&["x: allow read matching '(:caseIgnoreMatch:=a)' to anyone"], "all of them"),
        (&["x: allow read matching '(numSubordinates=1)' to anyone"], "depends on other entries"),
        (&["x: allow read matching '(membershipEnd=*)' to anyone"], "depends on other entries"),
        (&["x: allow read to users matching '(shoeSize=1)'"], "shoeSize"),
        (&["x: allow read to named by mail"], "values of mail are not links"),
        (&["x: allow read to anyone", "X: deny read to self"], "there is another rule"),
    ] {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let error =
            directory.try_change_settings(|settings| settings.general.access_rules = rules).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn requesters_read_only_entries_that_name_them() {
    let mut directory = sample();
    set_rules(&mut directory, &["managed: allow read of cn, mail to named by manager"]);
    let anna = person("anna", PEOPLE);
    let mails = |directory: &mut TestDirectory| {
        act_as(directory, &anna);
        let found = directory.search("", Scope::WholeSubtree, "(mail=*)", &["mail"]);
        act_as(directory, "cn=admin");
        found.entries.len()
    };
    // At first only bert names anna. The rights hold a list of the entries that name the requester. Later more entries
    // name anna than the list can hold.
    assert_eq!(mails(&mut directory), 1);
    for number in 0..crate::limits::ENTRIES_NAMING_REQUESTER_MAX {
        let dn = format!("cn={number},{GROUPS}");
        let attributes: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("mail", &["x"]), ("manager", &[&anna])];
        ok(&mut directory, |of| of.add(&dn, attributes));
    }
    directory.change_settings(|settings| settings.general.size_limit = 0);
    assert_eq!(mails(&mut directory), 1 + crate::limits::ENTRIES_NAMING_REQUESTER_MAX);
    let other: &[(&str, &[&str])] = &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("mail", &["x"])];
    ok(&mut directory, |of| of.add(&format!("cn=other,{GROUPS}"), other));
    assert_eq!(mails(&mut directory), 1 + crate::limits::ENTRIES_NAMING_REQUESTER_MAX);
}

#[test]
fn filters_of_rules_restrict_adds_moves_and_changes() {
    let mut directory = sample();
    let movable = format!("movable: allow rename below '{STAFF}' to authenticated");
    let rules = [
        "all: allow read to authenticated",
        "accounts: allow add, delete matching '(&(objectClass=account)(uid=c*))' to authenticated",
        "locked: deny add matching '(description=locked)' to authenticated",
        "phones: allow write of telephoneNumber matching '(!(uid=carl))' to authenticated",
        &movable,
    ];
    set_rules(&mut directory, &rules);
    act_as(&mut directory, &person("anna", PEOPLE));
    let (yes, no) = (ResultCode::SUCCESS, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let check = |outcome: crate::Outcome, code| assert_eq!(outcome.code, code, "{}", outcome.diagnostic);
    // The filter of the rule also tests the value in the DN of the new entry.
    let account: &[(&str, &[&str])] = &[("objectClass", &["account"])];
    let locked: &[(&str, &[&str])] = &[("objectClass", &["account"]), ("description", &["Locked"])];
    check(directory.add(&person("cleo", PEOPLE), account), yes);
    check(directory.add(&person("dora", PEOPLE), account), no);
    check(directory.add(&person("cora", PEOPLE), locked), no);
    let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
    check(directory.add(&format!("ou=c,{PEOPLE}"), unit), no);
    check(directory.delete(&person("bert", STAFF)), no);
    let phone: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "telephoneNumber", &["+9"])];
    check(directory.modify(&person("bert", STAFF), phone), yes);
    check(directory.modify(&person("carl", STAFF), phone), no);
    // A move requires that the entry matches the filter of the rule for adds.
    check(directory.modify_dn(&person("carl", STAFF), "uid=carl", true, Some(PEOPLE)), no);
    act_as(&mut directory, "cn=admin");
    ok(&mut directory, |of| of.add(&person("cilla", STAFF), account));
    act_as(&mut directory, &person("anna", PEOPLE));
    check(directory.modify_dn(&person("cilla", STAFF), "uid=cilla", true, Some(PEOPLE)), yes);
    check(directory.delete(&person("cilla", PEOPLE)), yes);
}

#[test]
fn members_of_dynamic_groups_count_as_members() {
    let mut directory = sample();
    let group = format!("cn=described,{GROUPS}");
    let urls = [
        "ldap://elsewhere.example.com/dc=example,dc=com??sub?(uid=*)".to_owned(),
        "ldap:///ou=nowhere,dc=example,dc=com??sub".to_owned(),
        "ldap:///dc=example,dc=com??sub?(userPassword=*)".to_owned(),
        format!("ldap:///{PEOPLE}??one?(mail=anna@example.com)"),
        format!("ldap:///{STAFF}??sub?(uid=c*)"),
    ];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    ok(&mut directory, |of| of.add(&group, &[("objectClass", &["groupOfURLs"]), ("memberURL", &urls)]));
    set_rules(&mut directory, &[&format!("described: allow read to group '{group}'")]);
    for (dn, is_member) in
        [(person("anna", PEOPLE), true), (person("bert", STAFF), false), (person("carl", STAFF), true)]
    {
        act_as(&mut directory, &dn);
        assert_eq!(!search_all(&mut directory, "(uid=bert)").dns().is_empty(), is_member, "{dn}");
    }
    // The next request uses the new state of the entry.
    act_as(&mut directory, "cn=admin");
    let carl = person("carl", STAFF);
    ok(&mut directory, |of| of.modify_dn(&carl, "uid=ziggy", true, None));
    act_as(&mut directory, &person("ziggy", STAFF));
    assert!(search_all(&mut directory, "(uid=bert)").dns().is_empty());
}
