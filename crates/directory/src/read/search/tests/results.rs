//! Tests of the attributes and values that searches return.

use ldap::{ChangeOperation, ResultCode, Scope};

use super::{Question, add, leaves, sample};
use crate::testing::{SUFFIX, TestDirectory};

const ADA: &str = "uid=ada,ou=people,dc=example,dc=com";

/// Returns the names and values returned for an entry, in the order of the names.
fn returned(directory: &TestDirectory, dn: &str, attributes: &[&str]) -> Vec<String> {
    let found = Question::new(dn, Scope::BaseObject, "(objectClass=*)").attributes(attributes).run(directory);
    let entry = found.entries.first().expect("the entry is there");
    entry.attributes.keys().map(|name| format!("{name}: {}", entry.texts(name).join(" | "))).collect()
}

#[test]
fn attributes_are_returned_as_requested() {
    let directory = sample();
    let check = |attributes: &[&str], expected: &[&str]| {
        assert_eq!(returned(&directory, ADA, attributes), expected, "{attributes:?}");
    };
    check(&["1.1"], &[]);
    check(&["dn", "nonsense", "1.1"], &[]);
    check(&["SN", "2.5.4.42", "1.1"], &["givenName: Ada | Augusta", "sn: Lovelace"]);
    check(&["cn"], &["cn: Ada Lovelace", "cn;lang-fr: Ada de Lovelace"]);
    check(&["cn;LANG-fr"], &["cn;lang-fr: Ada de Lovelace"]);
    check(
        &["name"],
        &["cn: Ada Lovelace", "cn;lang-fr: Ada de Lovelace", "givenName: Ada | Augusta", "sn: Lovelace"],
    );
    // By RFC 4522 section 3, `binary` on a type without a binary form makes the description unrecognized.
    check(&["cn;binary", "SN;BINARY", "name;binary", "entryDN;binary", "uid"], &["uid: ada"]);
    check(&["sn;binary"], &[]);
    check(&["@person;binary"], &[]);
    // An attribute selected twice, or together with a wider selection, is returned once.
    check(&["uid", "UID", "uid", "1.1"], &["uid: ada"]);
    assert_eq!(returned(&directory, ADA, &["*", "+", "*", "uid"]), returned(&directory, ADA, &["+", "*"]));
    check(&["userPassword"], &["userPassword: {SSHA}AAAA"]);
    check(&["structuralObjectClass"], &["structuralObjectClass: inetOrgPerson"]);
    check(
        &["memberOf", "entryDN", "hasSubordinates", "numSubordinates"],
        &[
            "entryDN: uid=ada,ou=people,dc=example,dc=com",
            "hasSubordinates: FALSE",
            "memberOf: cn=all,ou=groups,dc=example,dc=com | cn=few,ou=groups,dc=example,dc=com",
            "numSubordinates: 0",
        ],
    );
    check(
        &["@posixAccount"],
        &[
            "cn: Ada Lovelace",
            "cn;lang-fr: Ada de Lovelace",
            "description: mathematician | poet's daughter",
            "objectClass: inetOrgPerson",
            "uid: ada",
            "userPassword: {SSHA}AAAA",
        ],
    );
    let user: Vec<String> = returned(&directory, ADA, &[]);
    assert_eq!(user, returned(&directory, ADA, &["*"]));
    assert_eq!(user, returned(&directory, ADA, &["@extensibleObject"]));
    assert!(
        user.iter().all(|line| !line.starts_with("entryUUID") && !line.starts_with("memberOf")),
        "{user:?}"
    );
    let operational = returned(&directory, ADA, &["+"]);
    for name in [
        "entryUUID",
        "entryCSN",
        "createTimestamp",
        "modifiersName",
        "entryDN",
        "memberOf",
        "subschemaSubentry",
    ] {
        assert!(operational.iter().any(|line| line.starts_with(name)), "{name} in {operational:?}");
    }
    assert!(
        operational.iter().all(|line| !line.starts_with("cn:") && !line.starts_with("entryUSN")),
        "{operational:?}"
    );
}

#[test]
fn usn_attributes_are_returned_if_requested_and_increase() {
    let mut directory = sample();
    let last = |directory: &TestDirectory| {
        let [line] = &returned(directory, "", &["lastUSN"])[..] else { panic!("not one value") };
        line.strip_prefix("lastUSN: ").unwrap().parse::<u64>().unwrap()
    };
    let before = last(&directory);
    let changed = directory.modify(ADA, &[(ChangeOperation::Replace, "description", &["x"])]);
    assert_eq!(changed.code, ResultCode::SUCCESS);
    assert_eq!(last(&directory), before + 1);
    let number = format!("entryUSN: {}", before + 1);
    assert_eq!(returned(&directory, ADA, &["ENTRYUSN"]), std::slice::from_ref(&number));
    assert!(returned(&directory, ADA, &["*", "+", "entryUSN"]).contains(&number));
    let found =
        Question::new(SUFFIX, Scope::WholeSubtree, &format!("(entryUSN>={})", before + 1)).run(&directory);
    assert_eq!(found.entries.iter().map(|entry| entry.dn.as_str()).collect::<Vec<_>>(), [ADA]);
}

#[test]
fn links_are_returned_as_dns_before_text_values() {
    let mut directory = sample();
    let odd = "cn=odd,ou=groups,dc=example,dc=com";
    let members = |directory: &TestDirectory| returned(directory, odd, &["member"]);
    assert_eq!(
        members(&directory),
        ["member: cn=all,ou=groups,dc=example,dc=com | cn=ghost,dc=example,dc=com"]
    );
    directory.modify_dn("cn=all,ou=groups,dc=example,dc=com", "cn=most", true, Some(SUFFIX));
    assert_eq!(members(&directory), ["member: cn=most,dc=example,dc=com | cn=ghost,dc=example,dc=com"]);
}

/// Regression test: DN values without an entry were returned in forms that clients cannot read:
/// `uid=jsmith;o=example;c=us`, in quotes, with `OID.` before a number, with spaces. They are now returned in the form
/// of RFC 4514. Values already in that form stay as they were written.
#[test]
fn names_without_an_entry_are_returned_in_the_form_of_rfc_4514() {
    let mut directory = sample();
    let written = [
        "uid=jsmith;o=example;c=us",
        "cn=\"Smith, John\", o = example",
        r"CN=Doe\, Jane,O=Example",
        "OID.2.5.4.3=number,OID.1.2.3=unknown",
        "UID=ADA ; OU=people; DC=example; DC=com",
    ];
    let expected = [
        "uid=ada,ou=people,dc=example,dc=com",
        "cn=number,1.2.3=unknown",
        r"CN=Doe\, Jane,O=Example",
        r"cn=Smith\, John,o=example",
        "uid=jsmith,o=example,c=us",
    ];
    let group = "cn=legacy,ou=groups,dc=example,dc=com";
    add(
        &mut directory,
        group,
        &[("objectClass", &["groupOfNames"]), ("member", &written), ("seeAlso", &written)],
    );
    let unique = ["cn=a;o=b#'0101'B", "cn=\"a;c\";o=b"];
    let other = "cn=unique,ou=groups,dc=example,dc=com";
    add(&mut directory, other, &[("objectClass", &["groupOfUniqueNames"]), ("uniqueMember", &unique)]);
    // DN values that are not links, in each storage layout: in the entry row, in rows of their own, as a table.
    let document = "cn=document,ou=groups,dc=example,dc=com";
    let long = format!("cn=\"{}\";o=x", "a, ".repeat(700));
    let many: Vec<String> = (0..200).map(|number| format!("cn={number:03};o=x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let classes: &[&str] = &["device", "extensibleObject"];
    add(
        &mut directory,
        document,
        &[
            ("objectClass", classes),
            ("aliasedObjectName", &["cn=\"a;b\"; o=x"]),
            ("associatedName", &[&long, "OID.0.9.2342.19200300.100.1.1=x;o=y"]),
            ("documentAuthor", &many),
        ],
    );
    let values = |directory: &TestDirectory, dn: &str, attribute: &str| {
        let lines = returned(directory, dn, &[attribute]);
        let (_, values) = lines[0].split_once(": ").unwrap();
        let mut values: Vec<String> = values.split(" | ").map(str::to_owned).collect();
        values[1..].sort();
        values
    };
    let mut sorted = expected;
    sorted[1..].sort_unstable();
    assert_eq!(values(&directory, group, "member"), sorted);
    assert_eq!(values(&directory, group, "seeAlso"), sorted);
    let unique = values(&directory, other, "uniqueMember");
    assert_eq!(
        unique.iter().filter(|name| name.contains(';') && !name.contains(r"\;")).count(),
        0,
        "{unique:?}"
    );
    assert!(unique.contains(&"cn=a,o=b#'0101'B".to_owned()), "{unique:?}");
    assert!(unique.contains(&r"cn=a\;c,o=b".to_owned()), "{unique:?}");
    assert_eq!(values(&directory, document, "aliasedObjectName"), [r"cn=a\;b,o=x"]);
    let long = format!(r"cn={}\ ,o=x", r"a\, ".repeat(700).trim_end());
    assert_eq!(values(&directory, document, "associatedName"), [long.as_str(), "uid=x,o=y"]);
    let authors = values(&directory, document, "documentAuthor");
    assert_eq!((authors.len(), authors.iter().any(|name| name.contains(';'))), (200, false));
    // A value can be found and deleted in the form in which it is returned.
    for name in &expected[1..] {
        let filter = format!("(member={})", name.replace('\\', "\\5c"));
        assert_eq!(leaves(&Question::everywhere(&filter).run(&directory)), ["cn=legacy"], "{filter}");
        let change = (ldap::ChangeOperation::Delete, "member", &[*name][..]);
        assert_eq!(directory.modify(group, &[change]).code, ResultCode::SUCCESS, "{name}");
    }
    assert_eq!(values(&directory, group, "member"), &expected[..1]);
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

/// Without an equality rule, two spellings of a DN are two values. If both spellings were returned in one form, they
/// would be duplicates, and an import refuses duplicates.
#[test]
fn names_without_an_equality_rule_are_returned_as_written() {
    let mut directory = sample();
    directory.change_settings(|settings| {
        let text =
            "attributetype ( 1.3.6.1.4.1.32473.7.1 NAME 'dnOnly' SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )";
        settings.schema.insert("local".to_owned(), text.to_owned());
    });
    let dn = "cn=two,ou=groups,dc=example,dc=com";
    let classes: &[&str] = &["device", "extensibleObject"];
    add(&mut directory, dn, &[("objectClass", classes), ("dnOnly", &["cn=a;o=b", "cn=a,o=b"])]);
    assert_eq!(returned(&directory, dn, &["dnOnly"]), ["dnOnly: cn=a;o=b | cn=a,o=b"]);
}

#[test]
fn large_values_and_many_values_are_all_returned() {
    let mut directory = sample();
    let long = "x".repeat(5_000);
    let many: Vec<String> = (0..200).map(|number| format!("value {number:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let replace = ldap::ChangeOperation::Replace;
    let outcome =
        directory.modify(ADA, &[(replace, "description", &[&long, "short"]), (replace, "title", &many)]);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    let lines = returned(&directory, ADA, &["description", "title"]);
    assert_eq!(lines[0], format!("description: {long} | short"));
    assert_eq!(lines[1], format!("title: {}", many.join(" | ")));
    let check = |filter: &str, expected: &[&str]| {
        assert_eq!(leaves(&Question::everywhere(filter).run(&directory)), expected, "{filter}");
    };
    check(&format!("(description={long})"), &["uid=ada"]);
    check("(description=xxx*x)", &["uid=ada"]);
    check("(title=VALUE 150)", &["uid=ada"]);
    check("(title=*ue 15*)", &["uid=ada"]);
    check("(title=value 200)", &[]);
}

#[test]
fn types_only_leaves_the_values_out() {
    let directory = sample();
    let question = Question {
        types_only: true,
        ..Question::everywhere("(uid=ada)").attributes(&["cn", "memberOf", "sn"])
    };
    let found = question.run(&directory);
    let attributes = &found.entries[0].attributes;
    assert_eq!(attributes.keys().collect::<Vec<_>>(), ["cn", "cn;lang-fr", "memberOf", "sn"]);
    assert!(attributes.values().all(Vec::is_empty));
    let question =
        Question { types_only: true, ..Question::everywhere("(sn=lang)").attributes(&["memberOf"]) };
    assert_eq!(question.run(&directory).entries[0].attributes.len(), 0);
}

#[test]
fn passwords_are_returned_to_the_administrator_only() {
    let mut directory = sample();
    directory.requester =
        crate::access::Requester::User { id: crate::model::rows::EntryId(4), dn: ADA.to_owned() };
    for attributes in [&["userPassword"][..], &["*", "+"], &["@person"], &[]] {
        let lines = returned(&directory, ADA, attributes);
        assert!(lines.iter().all(|line| !line.starts_with("userPassword")), "{attributes:?}: {lines:?}");
    }
}

#[test]
fn the_root_dse_lists_the_supported_features() {
    let directory = sample();
    let lines = returned(&directory, "", &["+", "*"]);
    for expected in [
        "defaultNamingContext: dc=example,dc=com",
        "namingContexts: dc=example,dc=com",
        "objectClass: top | extensibleObject",
        "subschemaSubentry: cn=subschema",
        "supportedLDAPVersion: 3",
        "vendorName: Pando",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:?}");
    }
    assert_eq!(returned(&directory, "", &[]), ["objectClass: top | extensibleObject"]);
    let check = |filter, count| {
        let found = Question::new("", Scope::BaseObject, filter).run(&directory);
        assert_eq!(found.entries.len(), count, "{filter}");
    };
    check("(supportedFeatures=1.3.6.1.1.14)", 1);
    check("(supportedFeatures=1.2.3)", 0);
    check("(supportedLDAPVersion=*)", 1);
    check("(objectClass=top)", 1);
    check("(&(objectClass=*)(!(cn=*)))", 1);
    check("(objectClass=person)", 0);
    check("(nonsense=*)", 0);
}

#[test]
fn the_schema_is_published() {
    let directory = sample();
    let found = Question::new("cn=Subschema", Scope::BaseObject, "(objectClass=subschema)")
        .attributes(&["attributeTypes", "objectClasses"])
        .run(&directory);
    let entry = &found.entries[0];
    assert_eq!(entry.dn, "cn=subschema");
    assert!(entry.texts("attributeTypes").iter().any(|text| text.contains("NAME ( 'cn' 'commonName' )")));
    assert!(entry.texts("objectClasses").iter().any(|text| text.contains("'inetOrgPerson'")));
    let lines = returned(&directory, "cn=subschema", &[]);
    assert!(lines.iter().all(|line| !line.starts_with("attributeTypes")), "{lines:?}");
}
