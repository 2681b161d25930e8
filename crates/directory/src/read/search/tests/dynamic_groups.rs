//! Tests of dynamic groups: members that a `memberURL` describes.

use ldap::{ChangeOperation, CompareRequest, ResultCode, Scope};

use super::{Question, leaves};
use crate::access::Requester;
use crate::model::limits::DYNAMIC_GROUPS_MAX;
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::RequestControls;
use crate::read::identity::identify;
use crate::testing::{SUFFIX, TestDirectory};

const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

fn add(directory: &mut TestDirectory, name: &str, attributes: &[(&str, &[&str])]) {
    let dn = format!("cn={name},{SUFFIX}");
    let outcome = directory.add(&dn, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {}", outcome.diagnostic);
}

fn add_described(directory: &mut TestDirectory, name: &str, urls: &[&str]) {
    add(directory, name, &[("objectClass", &["groupOfURLs"]), ("memberURL", urls)]);
}

/// Returns a directory with two dynamic groups: the URL of tall describes ann and bob, and the URLs of few describe
/// bob. The group staff has the member tall, and the group all has the member staff.
fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for (name, title) in [("ann", "tall"), ("bob", "tall"), ("cid", "small")] {
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("sn", &["s"]), ("title", &[title])];
        add(&mut directory, name, person);
    }
    add_described(&mut directory, "tall", &["ldap:///dc=example,dc=com??one?(title=tall)"]);
    let few = ["ldap:///cn=bob,dc=example,dc=com", "ldap:///cn=ghost,dc=example,dc=com??sub", "no url"];
    add_described(&mut directory, "few", &few);
    for (group, member) in [("staff", "cn=tall,dc=example,dc=com"), ("all", "cn=staff,dc=example,dc=com")] {
        add(&mut directory, group, &[("objectClass", &["groupOfNames"]), ("member", &[member])]);
    }
    directory
}

fn values(directory: &mut TestDirectory, of: &str, name: &str) -> Vec<String> {
    let found = directory.search(&format!("cn={of},{SUFFIX}"), Scope::BaseObject, "(cn=*)", &[name]);
    let texts = found.entries[0].texts(name);
    texts.iter().map(|dn| dn.replace(",dc=example,dc=com", "").replace("cn=", "")).collect()
}

fn check_found(directory: &TestDirectory, cases: &[(&str, &[&str])]) {
    for (filter, expected) in cases {
        let filter = filter.replace('@', ",dc=example,dc=com)");
        let found = Question::everywhere(&filter).run(directory);
        assert_eq!(leaves(&found), *expected, "{filter}");
    }
}

fn compared(directory: &TestDirectory, entry: &str, description: &str, value: &str) -> ResultCode {
    let (entry, value) = (format!("cn={entry},{SUFFIX}"), format!("CN={value}, {SUFFIX}"));
    let request = CompareRequest { entry: &entry, description, value: value.as_bytes() };
    let controls = RequestControls::default();
    match compare(&directory.snapshot, &directory.requester.context(), &request, &controls) {
        CompareOutcome::Done(outcome) => outcome.code,
        other => panic!("{other:?}"),
    }
}

fn act_as(directory: &mut TestDirectory, name: &str) {
    let dn = format!("dn:cn={name},{SUFFIX}");
    directory.requester = identify(&directory.snapshot, &dn).unwrap().unwrap().requester;
}

#[test]
fn described_members_count_in_values_filters_and_compares() {
    let mut directory = sample();
    assert_eq!(values(&mut directory, "ann", "memberOf"), ["tall"]);
    assert_eq!(values(&mut directory, "bob", "memberOf"), ["tall", "few"]);
    assert_eq!(values(&mut directory, "bob", "isMemberOf"), ["tall", "few", "staff", "all"]);
    assert_eq!(values(&mut directory, "cid", "isMemberOf"), [] as [&str; 0]);
    check_found(
        &directory,
        &[
            ("(memberOf=cn=tall@", &["cn=ann", "cn=bob"]),
            ("(&(cn=b*)(memberOf=cn=tall@)", &["cn=bob"]),
            ("(!(memberOf=cn=tall@)", &["cn=all", "cn=cid", "cn=few", "cn=staff", "cn=tall", "dc=example"]),
            ("(|(memberOf=cn=few@(title=small))", &["cn=bob", "cn=cid"]),
            ("(memberOf=cn=staff@", &["cn=tall"]),
            ("(isMemberOf=cn=tall@", &["cn=ann", "cn=bob"]),
            ("(isMemberOf=cn=all@", &["cn=ann", "cn=bob", "cn=staff", "cn=tall"]),
            (&format!("(memberOf:{IN_CHAIN}:=cn=staff@"), &["cn=ann", "cn=bob", "cn=tall"]),
            ("(memberOf=cn=ghost@", &[]),
            ("(&(title=*)(memberOf=*))", &["cn=ann", "cn=bob"]),
        ],
    );
    for (entry, description, value, code) in [
        ("ann", "memberOf", "tall", ResultCode::COMPARE_TRUE),
        ("ann", "memberOf", "few", ResultCode::COMPARE_FALSE),
        ("cid", "memberOf", "tall", ResultCode::NO_SUCH_ATTRIBUTE),
        ("ann", "isMemberOf", "all", ResultCode::COMPARE_TRUE),
        ("tall", "member", "ann", ResultCode::COMPARE_TRUE),
        ("tall", "member", "cid", ResultCode::COMPARE_FALSE),
        ("tall", "uniqueMember", "bob", ResultCode::COMPARE_TRUE),
        ("tall", "member", "ghost", ResultCode::COMPARE_FALSE),
        ("tall", "seeAlso", "ann", ResultCode::NO_SUCH_ATTRIBUTE),
        ("staff", "member", "tall", ResultCode::COMPARE_TRUE),
    ] {
        assert_eq!(compared(&directory, entry, description, value), code, "{entry} {description} {value}");
    }
    let (count, notices) = directory.directory.dynamic_groups();
    assert_eq!((count, notices.len()), (2, 1), "{notices:?}");
    assert!(notices[0].contains("few") && notices[0].contains("no url"), "{notices:?}");
}

#[test]
fn member_finds_the_groups_that_describe_an_entry() {
    let mut directory = sample();
    let cases: &[(&str, &[&str])] = &[
        ("(member=cn=bob@", &["cn=few", "cn=tall"]),
        ("(uniqueMember=cn=bob@", &["cn=few", "cn=tall"]),
        ("(uniqueMember=cn=bob,dc=example,dc=com#'01'B)", &[]),
        ("(member:2.5.13.1:=cn=ann@", &["cn=tall"]),
        ("(member:dn:=cn=ann@", &["cn=tall"]),
        ("(member=cn=cid@", &[]),
        ("(member=cn=ghost@", &[]),
        ("(member;lang-en=cn=ann@", &[]),
        ("(seeAlso=cn=ann@", &[]),
        ("(member=cn=tall@", &["cn=staff"]),
        ("(&(cn=t*)(member=cn=bob@)", &["cn=tall"]),
        ("(|(member=cn=bob@(title=small))", &["cn=cid", "cn=few", "cn=tall"]),
        ("(|(carLicense=x)(member=cn=ann@)", &["cn=tall"]),
        ("(&(objectClass=groupOfURLs)(!(member=cn=ann@))", &["cn=few"]),
        (&format!("(member:{IN_CHAIN}:=cn=bob@"), &["cn=all", "cn=few", "cn=staff", "cn=tall"]),
        (&format!("(&(cn=*a*)(member:{IN_CHAIN}:=cn=ann@)"), &["cn=all", "cn=staff", "cn=tall"]),
        (&format!("(member:{IN_CHAIN}:=cn=tall@"), &["cn=all", "cn=staff"]),
        (&format!("(uniqueMember:{IN_CHAIN}:=cn=ann@"), &["cn=tall"]),
        (&format!("(!(|(cn=*i*)(objectClass=person)(dc=*)(member:{IN_CHAIN}:=cn=ann@))"), &["cn=few"]),
        // Only these groups have stored values of member.
        ("(member=*)", &["cn=all", "cn=staff"]),
    ];
    let cases: Vec<_> = cases.iter().map(|(filter, found)| (with_suffix(filter), *found)).collect();
    for (filter, expected) in &cases {
        assert_eq!(leaves(&Question::everywhere(filter).run(&directory)), **expected, "{filter}");
    }
    // A base search and a compare agree with the filter.
    for (group, member) in
        [("tall", "ann"), ("tall", "cid"), ("few", "bob"), ("few", "ann"), ("staff", "tall")]
    {
        let filter = format!("(member=cn={member},{SUFFIX})");
        let base = format!("cn={group},{SUFFIX}");
        let found = Question::new(&base, Scope::BaseObject, &filter).run(&directory).entries.len();
        let code = compared(&directory, group, "member", member);
        assert_eq!(found == 1, code == ResultCode::COMPARE_TRUE, "{group} {member}");
    }
    // A URL that tests member considers stored members only.
    let url = format!("ldap:///{SUFFIX}??sub?(member=cn=ann,{SUFFIX})");
    add_described(&mut directory, "holders", &[&url]);
    check_found(&directory, &[("(memberOf=cn=holders@", &[]), ("(member=cn=tall@", &["cn=staff"])]);
}

/// Replaces `@` in a filter by the rest of a DN.
fn with_suffix(filter: &str) -> String {
    filter.replace('@', ",dc=example,dc=com)")
}

#[test]
fn member_finds_groups_even_if_no_entry_has_the_attribute() {
    let mut directory = TestDirectory::with_suffix_entry();
    let person: &[(&str, &[&str])] = &[("objectClass", &["person"]), ("sn", &["s"])];
    add(&mut directory, "ann", person);
    let question = "(|(member=cn=ann,dc=example,dc=com)(sn=none))";
    add_described(&mut directory, "any", &["ldap:///dc=example,dc=com??one"]);
    assert_eq!(leaves(&Question::everywhere(question).run(&directory)), ["cn=any"]);
    let chain = format!("(member:{IN_CHAIN}:=cn=ann,dc=example,dc=com)");
    assert_eq!(leaves(&Question::everywhere(&chain).run(&directory)), ["cn=any"]);
}

#[test]
fn members_follow_changes_of_entries_and_of_groups() {
    let mut directory = sample();
    let title = |directory: &mut TestDirectory, of: &str, value: &str| {
        let change: &[(ChangeOperation, &str, &[&str])] = &[(ChangeOperation::Replace, "title", &[value])];
        assert_eq!(directory.modify(&format!("cn={of},{SUFFIX}"), change).code, ResultCode::SUCCESS);
    };
    title(&mut directory, "cid", "tall");
    title(&mut directory, "ann", "small");
    check_found(&directory, &[("(memberOf=cn=tall@", &["cn=bob", "cn=cid"])]);
    let url = ["ldap:///dc=example,dc=com??sub?(title=small)"];
    let tall = format!("cn=tall,{SUFFIX}");
    directory.modify(&tall, &[(ChangeOperation::Replace, "memberURL", &url)]);
    check_found(&directory, &[("(memberOf=cn=tall@", &["cn=ann"])]);
    directory.modify_dn(&tall, "cn=short", true, None);
    assert_eq!(values(&mut directory, "ann", "isMemberOf"), ["short", "staff", "all"]);
    directory.modify(&format!("cn=short,{SUFFIX}"), &[(ChangeOperation::Delete, "memberURL", &[])]);
    check_found(&directory, &[("(memberOf=cn=short@", &[])]);
    directory.delete(&format!("cn=few,{SUFFIX}"));
    assert_eq!(values(&mut directory, "bob", "isMemberOf"), [] as [&str; 0]);
    assert_eq!(directory.directory.dynamic_groups(), (0, Vec::new()));
}

/// Regression test: a change of the schema that changed no setting dropped the password policies.
#[test]
fn a_schema_change_keeps_dynamic_groups_and_password_policies() {
    let mut directory = sample();
    add(
        &mut directory,
        "policy",
        &[("objectClass", &["device", "pwdPolicy"]), ("pwdAttribute", &["userPassword"])],
    );
    assert_eq!((directory.directory.policy_count(), directory.directory.dynamic_groups().0), (1, 2));
    let own = "( 1.3.6.1.4.1.99999.5.1 NAME 'colour' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    directory.change_settings(|settings| {
        settings.schema.insert("own".to_owned(), format!("attributetype {own}\n"));
    });
    assert_eq!((directory.directory.policy_count(), directory.directory.dynamic_groups().0), (1, 2));
    assert_eq!(values(&mut directory, "ann", "memberOf"), ["tall"]);
}

#[test]
fn a_url_that_tests_groups_considers_stored_members_only() {
    let mut directory = sample();
    add_described(
        &mut directory,
        "circle",
        &[
            "ldap:///dc=example,dc=com??sub?(|(memberOf=cn=circle,dc=example,dc=com)(memberOf=cn=tall,dc=example,dc=com)\
           (isMemberOf=cn=all,dc=example,dc=com))",
        ],
    );
    // In the filter of a URL, only stored members form chains to the group all. These are the chains of tall and staff.
    check_found(&directory, &[("(memberOf=cn=circle@", &["cn=staff", "cn=tall"])]);
    assert_eq!(values(&mut directory, "staff", "memberOf"), ["all", "circle"]);
    assert_eq!(values(&mut directory, "ann", "isMemberOf"), ["tall", "staff", "all"]);
}

#[test]
fn groups_beyond_the_limit_have_no_members() {
    let mut directory = sample();
    let url = ["ldap:///dc=example,dc=com??one?(title=tall)"];
    for number in 0..DYNAMIC_GROUPS_MAX {
        add_described(&mut directory, &format!("d{number}"), &url);
    }
    let known = values(&mut directory, "ann", "memberOf");
    assert_eq!(known.len(), DYNAMIC_GROUPS_MAX - 1);
    let (count, notices) = directory.directory.dynamic_groups();
    assert_eq!((count, notices.len()), (DYNAMIC_GROUPS_MAX, 2), "{notices:?}");
    assert!(notices[0].starts_with("2 "), "{notices:?}");
    // Deleting groups makes room for other groups.
    directory.delete(&format!("cn=tall,{SUFFIX}"));
    directory.delete(&format!("cn=few,{SUFFIX}"));
    assert_eq!(values(&mut directory, "ann", "memberOf").len(), DYNAMIC_GROUPS_MAX);
    assert!(directory.directory.dynamic_groups().1.is_empty());
}

#[test]
fn a_membership_reveals_no_more_than_a_search_by_the_url() {
    let mut directory = sample();
    let hidden = "ldap:///dc=example,dc=com??sub?(telephoneNumber=*)";
    add_described(&mut directory, "phones", &[hidden]);
    let phone: &[(ChangeOperation, &str, &[&str])] = &[(ChangeOperation::Add, "telephoneNumber", &["+1"])];
    assert_eq!(directory.modify(&format!("cn=ann,{SUFFIX}"), phone).code, ResultCode::SUCCESS);
    let rules = [
        "names: allow browse, read, search, compare of cn, title, memberOf, isMemberOf, objectClass, member to users",
        "urls: allow read, search, compare of memberURL to user 'cn=bob,dc=example,dc=com'",
        "phones: allow search of telephoneNumber to user 'cn=cid,dc=example,dc=com'",
    ];
    directory.change_settings(|settings| {
        settings.general.access_rules =
            rules.map(|rule| rule.replace("to users", "to authenticated")).to_vec();
    });
    let chain = format!("(member:{IN_CHAIN}:=cn=ann@");
    let visible = [
        // If a requester may not see the URLs, the group describes no members for that requester.
        ("ann", &[] as &[&str], ResultCode::NO_SUCH_ATTRIBUTE),
        ("bob", &["tall"], ResultCode::COMPARE_TRUE),
        ("cid", &[], ResultCode::NO_SUCH_ATTRIBUTE),
    ];
    for (who, groups, code) in visible {
        act_as(&mut directory, who);
        assert_eq!(values(&mut directory, "ann", "memberOf"), groups, "{who}");
        assert_eq!(compared(&directory, "tall", "member", "ann"), code, "{who}");
        let found = Question::everywhere("(memberOf=cn=phones,dc=example,dc=com)").run(&directory);
        assert!(leaves(&found).is_empty(), "{who}");
        for (filter, holders) in [("(member=cn=ann@", &[] as &[&str]), (&chain, &["cn=all", "cn=staff"])] {
            let found = leaves(&Question::everywhere(&with_suffix(filter)).run(&directory));
            let expected = groups.iter().map(|group| format!("cn={group}"));
            let holders = holders.iter().filter(|_| !groups.is_empty()).map(|holder| holder.to_string());
            assert_eq!(found, holders.chain(expected).collect::<Vec<_>>(), "{who} {filter}");
        }
    }
    // The right to search memberURL is not enough without the right to search member.
    let without = rules[0].replace(", member to", " to");
    directory.change_settings(|settings| {
        let rules = [without.as_str(), rules[1], rules[2]];
        settings.general.access_rules =
            rules.map(|rule| rule.replace("to users", "to authenticated")).to_vec();
    });
    act_as(&mut directory, "bob");
    for filter in ["(member=cn=ann@", &chain, "(!(member=cn=ann@)"] {
        assert!(leaves(&Question::everywhere(&with_suffix(filter)).run(&directory)).is_empty(), "{filter}");
    }
    directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    assert_eq!(values(&mut directory, "ann", "memberOf"), ["tall", "phones"]);
    check_found(&directory, &[("(member=cn=ann@", &["cn=phones", "cn=tall"])]);
}
