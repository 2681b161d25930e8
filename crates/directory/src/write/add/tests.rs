//! Tests of add: accepted requests, stored values, and each error with its code and text.

use ldap::{AddRequest, AttributesBuf, Request, ResultCode as Code};

use crate::access::Requester;
use crate::model::limits::{ATTRIBUTES_MAX, CLASS_SETS_MAX, ENTRY_ATTRIBUTES_MAX};
use crate::model::rows::EntryId;
use crate::model::settings::GeneralSettings;
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory, ok, refused, refused_at};

const PERSON: &[(&str, &[&str])] = &[("objectClass", &["person"]), ("cn", &["a"]), ("sn", &["b"])];

/// Creates the suffix entry with an alias, a referral and a subentry below it.
fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let alias = [
        ("objectClass", &["alias", "extensibleObject"][..]),
        ("aliasedObjectName", &[SUFFIX]),
        ("cn", &["alias"]),
    ];
    let referral = [
        ("objectClass", &["referral", "extensibleObject"][..]),
        ("ref", &["ldap://other/ou=there"]),
        ("cn", &["there"]),
    ];
    let subentry = [
        ("objectClass", &["top", "subentry", "collectiveAttributeSubentry"][..]),
        ("subtreeSpecification", &["{}"]),
        ("c-l", &["Oslo"]),
    ];
    ok(directory.add("cn=alias,dc=example,dc=com", &alias));
    ok(directory.add("cn=there,dc=example,dc=com", &referral));
    ok(directory.add("cn=sub,dc=example,dc=com", &subentry));
    directory
}

#[test]
fn returns_the_given_values_and_adds_operational_attributes() {
    let mut directory = directory();
    let attributes = [
        ("OBJECTclass", &["inetOrgPerson"][..]),
        ("CN", &["Ann Other", "Ann"]),
        ("surname", &["Other"]),
        ("description;lang-en", &["one"]),
        ("description", &["two"]),
        ("Description", &["three"]),
    ];
    ok(directory.add("CN = ann  other + uid=ann,dc=EXAMPLE,dc=com", &attributes));
    let entry = directory.read("uid=ANN+cn=Ann Other,dc=example,dc=com").unwrap();
    assert_eq!(entry.dn, "cn=ann  other+uid=ann,dc=example,dc=com");
    assert_eq!(entry.texts("objectClass"), ["inetOrgPerson"]);
    assert_eq!(entry.texts("cn"), ["Ann Other", "Ann"]);
    assert_eq!(entry.texts("uid"), ["ann"]);
    assert_eq!(entry.texts("description"), ["two", "three"]);
    assert_eq!(entry.texts("description;lang-en"), ["one"]);
    assert_eq!(entry.texts("creatorsName"), ["cn=admin"]);
    assert_eq!(entry.texts("modifiersName"), ["cn=admin"]);
    assert_eq!(entry.texts("createTimestamp"), ["20231114221320Z"]);
    assert_eq!(entry.texts("modifyTimestamp"), ["20231114221320Z"]);
    assert_eq!(entry.texts("entryUUID"), ["00000000-0000-4000-8000-000000000005"]);
    assert!(
        entry.texts("entryCSN")[0].starts_with("20231114221320.005000Z#"),
        "{:?}",
        entry.texts("entryCSN")
    );
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn refuses_names_without_a_superior() {
    let mut directory = directory();
    let mut check = |dn: &str, code, matched_dn: &str, text: &str| {
        refused_at(directory.add(dn, PERSON), code, matched_dn, text);
    };
    check("cn", Code::INVALID_DN_SYNTAX, "", "not a distinguished name");
    check("nonsense=a,dc=example,dc=com", Code::INVALID_DN_SYNTAX, "", "nonsense");
    check("c=Norway,dc=example,dc=com", Code::INVALID_DN_SYNTAX, "", "Country String");
    check("cn=a,ou=x,ou=y,dc=example,dc=com", Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    check(
        "cn=a,dc=org",
        Code::NO_SUCH_OBJECT,
        "",
        "no suffix of this server, which has \"dc=example,dc=com\"",
    );
    check(
        "cn=a,cn=alias,dc=example,dc=com",
        Code::ALIAS_PROBLEM,
        "cn=alias,dc=example,dc=com",
        "is an alias",
    );
    check(
        "cn=a,cn=b,cn=alias,dc=example,dc=com",
        Code::NO_SUCH_OBJECT,
        "cn=alias,dc=example,dc=com",
        "is an alias",
    );
    check("cn=a,cn=sub,dc=example,dc=com", Code::OBJECT_CLASS_VIOLATION, "", "is a subentry");
    check("", Code::ENTRY_ALREADY_EXISTS, "", "the root DSE");
    check("cn=Subschema", Code::ENTRY_ALREADY_EXISTS, "", "the subschema subentry");
    check("cn=a,cn=monitor", Code::ENTRY_ALREADY_EXISTS, "", "cn=monitor");
    let mut empty = TestDirectory::new();
    refused(empty.add("cn=a,dc=example,dc=com", PERSON), Code::NO_SUCH_OBJECT, "has no entry yet");
}

#[test]
fn refuses_a_name_that_an_entry_or_a_referral_has() {
    let mut directory = directory();
    ok(directory.add("cn=a,dc=example,dc=com", PERSON));
    let again = directory.add("cn=A,dc=Example,dc=com", PERSON);
    refused(again, Code::ENTRY_ALREADY_EXISTS, "cn=a,dc=example,dc=com");
    let again = directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    refused(again, Code::ENTRY_ALREADY_EXISTS, SUFFIX);
    let there = "cn=there,dc=example,dc=com";
    let below = directory.add("cn=a,cn=b,cn=there,dc=example,dc=com", PERSON);
    assert_eq!((below.code, below.matched_dn.as_str()), (Code::REFERRAL, there));
    assert_eq!(below.referrals, ["ldap://other/cn=a,cn=b,ou=there"]);
    let at = directory.add(there, &[("objectClass", &["device"]), ("cn", &["there"])]);
    assert_eq!((at.code, at.referrals), (Code::REFERRAL, vec!["ldap://other/ou=there".to_owned()]));
    // With ManageDsaIT the referral itself is an ordinary entry, but entries below it are still on another server.
    let manage = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    for (dn, code) in
        [(there, Code::ENTRY_ALREADY_EXISTS), ("cn=a,cn=there,dc=example,dc=com", Code::REFERRAL)]
    {
        let mut attributes = AttributesBuf::new();
        PERSON.iter().for_each(|(name, values)| attributes.push(name, *values));
        let request = Request::Add(AddRequest { entry: dn, attributes: attributes.as_attributes() });
        let stamp = directory.stamp();
        assert_eq!(directory.execute_with(&request, &manage, &stamp).code, code);
    }
}

#[test]
fn checks_attributes_and_values() {
    let mut directory = directory();
    let dn = "cn=a,dc=example,dc=com";
    let mut check = |more: &[(&str, &[&str])], code, text: &str| {
        let attributes = [PERSON, more].concat();
        refused(directory.add(dn, &attributes), code, text);
    };
    check(
        &[("nonsense", &["x"])],
        Code::UNDEFINED_ATTRIBUTE_TYPE,
        "attribute type \"nonsense\" is not defined",
    );
    check(&[("de scription", &["x"])], Code::UNDEFINED_ATTRIBUTE_TYPE, "de scription");
    check(&[("description;binary", &["x"])], Code::UNDEFINED_ATTRIBUTE_TYPE, "no binary form");
    check(&[("description;lang-en-", &["x"])], Code::UNDEFINED_ATTRIBUTE_TYPE, "language range");
    check(&[("seeAlso", &[dn, "no name"])], Code::INVALID_ATTRIBUTE_SYNTAX, "seeAlso: value 2");
    check(
        &[("description", &["x", "X "])],
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "description: value 2 is given more than once",
    );
    check(&[("description", &["x"]), ("description", &["X"])], Code::ATTRIBUTE_OR_VALUE_EXISTS, "value 1");
    check(&[("userPassword", &["{MD5}x", "{MD5}x"])], Code::ATTRIBUTE_OR_VALUE_EXISTS, "value 2");
    check(
        &[("entryUUID", &["00000000-0000-4000-8000-000000000005"])],
        Code::CONSTRAINT_VIOLATION,
        "set by the server only",
    );
    check(&[("memberOf", &[dn])], Code::CONSTRAINT_VIOLATION, "set by the server only");
    check(&[("mail", &["a@b"])], Code::OBJECT_CLASS_VIOLATION, "mail is not allowed by the classes person");
    check(&[("c-l", &["Oslo"])], Code::OBJECT_CLASS_VIOLATION, "c-l is collective");
    check(
        &[("objectClass", &["extensibleObject"]), ("c", &["NO", "SE"])],
        Code::CONSTRAINT_VIOLATION,
        "c is single-valued and would have 2 values",
    );
    check(&[("objectClass", &["nonsense"])], Code::INVALID_ATTRIBUTE_SYNTAX, "objectClass");
    check(&[("objectClass", &["device"])], Code::OBJECT_CLASS_VIOLATION, "neither is a subclass");
    check(&[("objectClass", &["posixAccount"])], Code::OBJECT_CLASS_VIOLATION, "posixAccount requires uid, ");
    assert_eq!(directory.read(dn), None);
    // Refused requests have no effect, so they allocate no entry id.
    assert_eq!(crate::catalog::last_entry_id(directory.snapshot.state().read).unwrap(), EntryId(4));
}

#[test]
fn checks_object_classes() {
    let mut directory = directory();
    let mut check = |classes: &[&str], code, text: &str| {
        let attributes = [("objectClass", classes), ("cn", &["a"])];
        let attributes = if classes.is_empty() { &attributes[1..] } else { &attributes[..] };
        refused(directory.add("cn=a,dc=example,dc=com", attributes), code, text);
    };
    check(&[], Code::OBJECT_CLASS_VIOLATION, "at least one structural class");
    check(&["top"], Code::OBJECT_CLASS_VIOLATION, "top: none of these classes is structural");
    check(&["top", "posixAccount"], Code::OBJECT_CLASS_VIOLATION, "structural");
    check(&["person"], Code::OBJECT_CLASS_VIOLATION, "person requires sn");
    check(&["device", "2.5.6.6"], Code::OBJECT_CLASS_VIOLATION, "neither is a subclass");
    ok(directory.add(
        "cn=b,dc=example,dc=com",
        &[("objectClass", &["top", "2.5.6.14", "extensibleObject"]), ("mail", &["a@b"])],
    ));
}

#[test]
fn accepts_a_posix_group_with_and_without_a_structural_class() {
    let mut directory = directory();
    let group = [("objectClass", &["posixGroup"][..]), ("gidNumber", &["7"])];
    ok(directory.add("cn=g,dc=example,dc=com", &group));
    let both =
        [("objectClass", &["groupOfNames", "posixGroup"][..]), ("gidNumber", &["8"]), ("member", &[SUFFIX])];
    ok(directory.add("cn=h,dc=example,dc=com", &both));
}

#[test]
fn naming_attributes_follow_the_schema() {
    let mut directory = directory();
    let country = [("objectClass", &["country"][..]), ("c", &["SE"])];
    let outcome = directory.add("c=NO,dc=example,dc=com", &country);
    refused(outcome, Code::NAMING_VIOLATION, "c is single-valued, and the request gives it another value");
    ok(directory.add("c=NO,dc=example,dc=com", &[("objectClass", &["country"]), ("c", &["no"])]));
    let outcome = directory.add("uid=a,dc=example,dc=com", PERSON);
    refused(outcome, Code::OBJECT_CLASS_VIOLATION, "uid is not allowed");
    let extensible: &[(&str, &[&str])] = &[("objectClass", &["device", "extensibleObject"]), ("cn", &["a"])];
    for name in ["userPassword=x", "entryUUID=00000000-0000-4000-8000-000000000005", "seeAlso=cn\\=x"] {
        let outcome = directory.add(&format!("{name},{SUFFIX}"), extensible);
        refused(outcome, Code::NAMING_VIOLATION, "cannot name an entry");
    }
}

#[test]
fn stores_links_as_ids_and_names_without_an_entry_as_text() {
    let mut directory = directory();
    ok(directory.add("cn=a,dc=example,dc=com", PERSON));
    let dn = "cn=group,dc=example,dc=com";
    let members = [
        "CN=A,dc=example,dc=com",
        "cn=GROUP, dc=example,dc=com",
        "cn=Nobody,dc=example,dc=com",
        "nonsense=x",
    ];
    ok(directory.add(dn, &[("objectClass", &["groupOfNames"]), ("member", &members)]));
    let mut found = directory.read(dn).unwrap().texts("member");
    found.sort();
    assert_eq!(found, ["cn=Nobody,dc=example,dc=com", "cn=a,dc=example,dc=com", dn, "nonsense=x"]);
    let twice = [
        ("objectClass", &["groupOfNames"][..]),
        ("member", &["cn=a,dc=example,dc=com", "cn=A,dc=example,dc=com"]),
    ];
    refused(
        directory.add("cn=g2,dc=example,dc=com", &twice),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "member: value 2",
    );
    let twice = [
        ("objectClass", &["groupOfNames"][..]),
        ("member", &["cn=q,dc=example,dc=com", "cn=Q,dc=example,dc=com"]),
    ];
    refused(
        directory.add("cn=g2,dc=example,dc=com", &twice),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "member: value 2",
    );
    // An optional UID distinguishes values with the same DN (RFC 4517 section 3.3.21).
    let unique = ["cn=a,dc=example,dc=com", "cn=a,dc=example,dc=com#'01'B"];
    ok(directory.add(
        "cn=u,dc=example,dc=com",
        &[("objectClass", &["groupOfUniqueNames"]), ("uniqueMember", &unique)],
    ));
    assert_eq!(directory.read("cn=u,dc=example,dc=com").unwrap().texts("uniqueMember").len(), 2);
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn stores_passwords_by_the_configured_scheme() {
    let mut directory = directory();
    let mut attributes = AttributesBuf::new();
    PERSON.iter().for_each(|(name, values)| attributes.push(name, *values));
    attributes.push("userPassword", ["secret", "{SSHA}AAAA"]);
    let request =
        Request::Add(AddRequest { entry: "cn=a,dc=example,dc=com", attributes: attributes.as_attributes() });
    refused(directory.execute(&request), Code::UNAVAILABLE, "was not hashed");
    let hashed_passwords = vec![(b"secret".to_vec(), b"{ARGON2}x".to_vec())];
    let stamp = Stamp { hashed_passwords, ..directory.stamp() };
    ok(directory.execute_with(&request, &RequestControls::default(), &stamp));
    let stored = directory.read("cn=a,dc=example,dc=com").unwrap().texts("userPassword");
    assert_eq!(stored, ["{ARGON2}x", "{SSHA}AAAA"]);
    let password_scheme = crate::password::StorageScheme::Clear;
    let settings = GeneralSettings { password_scheme, ..GeneralSettings::default() };
    let mut clear = TestDirectory::with_settings(settings);
    ok(clear.add(SUFFIX, &[("objectClass", &["domain"]), ("userPassword", &["secret"])]));
    assert_eq!(clear.read(SUFFIX).unwrap().texts("userPassword"), ["secret"]);
}

#[test]
fn only_the_administrator_adds() {
    let mut directory = directory();
    directory.requester = Requester::Anonymous;
    // The DN is refused before it is resolved, so the error reveals nothing about entries.
    for dn in ["cn=a,dc=example,dc=com", SUFFIX, "cn=a,cn=there,dc=example,dc=com"] {
        refused(directory.add(dn, PERSON), Code::STRONGER_AUTH_REQUIRED, "bind first");
    }
    directory.requester = Requester::User { id: EntryId(1), dn: SUFFIX.to_owned() };
    refused(directory.add(SUFFIX, PERSON), Code::INSUFFICIENT_ACCESS_RIGHTS, "administrator");
}

#[test]
fn refuses_entries_deeper_than_the_limit() {
    let mut directory = TestDirectory::with_suffix_entry();
    let mut dn = SUFFIX.to_owned();
    for _ in 2..crate::model::limits::TREE_DEPTH_MAX {
        dn = format!("ou=x,{dn}");
        ok(directory.add(&dn, &[("objectClass", &["organizationalUnit"])]));
    }
    let outcome = directory.add(&format!("ou=x,{dn}"), &[("objectClass", &["organizationalUnit"])]);
    refused(outcome, Code::UNWILLING_TO_PERFORM, "256 levels deep");
    assert!(directory.read(&dn).is_some());
}

/// Clients choose options freely, and the catalog keeps the number of each attribute with its options forever.
#[test]
fn attributes_with_new_options_are_limited_by_request_and_in_total() {
    let mut directory = TestDirectory::with_suffix_entry();
    let name = |number: usize| format!("description;x-{number}");
    let person = |range: std::ops::Range<usize>| -> Vec<String> { range.map(name).collect() };
    let add = |directory: &mut TestDirectory, cn: usize, names: &[String]| {
        let mut all: Vec<(&str, &[&str])> = PERSON.to_vec();
        all.extend(names.iter().map(|name| (name.as_str(), &["x"][..])));
        directory.add(&format!("cn={cn},dc=example,dc=com"), &all)
    };
    let text = "one request concerns at most 1024 attributes";
    refused(add(&mut directory, 1, &person(0..ENTRY_ATTRIBUTES_MAX)), Code::ADMIN_LIMIT_EXCEEDED, text);
    ok(add(&mut directory, 1, &person(0..1_000)));
    let names = person(0..ENTRY_ATTRIBUTES_MAX + 1);
    let replaced: Vec<_> =
        names.iter().map(|name| (ldap::ChangeOperation::Replace, name.as_str(), &[][..])).collect();
    refused(directory.modify("cn=1,dc=example,dc=com", &replaced), Code::ADMIN_LIMIT_EXCEEDED, text);
    directory.change_settings(|settings| {
        settings.general.access_rules = vec!["all: allow read, write, add to authenticated".to_owned()];
    });
    let administrator = directory.requester.clone();
    let user = Requester::User { id: EntryId(1), dn: SUFFIX.to_owned() };
    let first = |directory: &TestDirectory| directory.snapshot.state().catalog.attributes().len() / 1_000;
    for (requester, max) in [(user, ATTRIBUTES_MAX / 2), (administrator, ATTRIBUTES_MAX)] {
        directory.requester = requester;
        let mut number = 1_000 * first(&directory);
        let mut outcome = add(&mut directory, number, &person(number..number + 1_000));
        while number < max && outcome.code == Code::SUCCESS {
            number += 1_000;
            outcome = add(&mut directory, number, &person(number..number + 1_000));
        }
        refused(outcome, Code::ADMIN_LIMIT_EXCEEDED, &format!("have {max} attributes, counting options"));
        ok(add(&mut directory, 77_000 + max, &person(0..1_000)));
    }
}

/// Clients combine auxiliary classes freely, and the catalog keeps the number of each set of classes forever.
#[test]
fn new_sets_of_classes_are_limited_in_total() {
    const AUXILIARY: [&str; 7] =
        ["extensibleObject", "labeledURIObject", "pkiUser", "pkiCA", "deltaCRL", "pmiUser", "ieee802Device"];
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| {
        settings.general.access_rules = vec!["all: allow read, write, add to authenticated".to_owned()];
    });
    let classes = |set: usize| -> Vec<&str> {
        let chosen = AUXILIARY.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
        std::iter::once("person").chain(chosen.map(|(_, class)| *class)).collect()
    };
    let add = |directory: &mut TestDirectory, cn: &str, set: usize| {
        let names = classes(set);
        let values: [(&str, &[&str]); 3] = [("objectClass", &names), ("cn", &["a"]), ("sn", &["b"])];
        directory.add(&format!("cn={cn},dc=example,dc=com"), &values)
    };
    let count = |directory: &TestDirectory| directory.snapshot.state().catalog.class_sets().len();
    let administrator = directory.requester.clone();
    let user = Requester::User { id: EntryId(1), dn: SUFFIX.to_owned() };
    let mut set = 0;
    for (requester, max) in [(user, CLASS_SETS_MAX / 2), (administrator, CLASS_SETS_MAX)] {
        directory.requester = requester;
        while count(&directory) < max {
            ok(add(&mut directory, &format!("{set}"), set));
            set += 1;
        }
        let text = format!("have {max} sets of object classes");
        refused(add(&mut directory, "new", set), Code::ADMIN_LIMIT_EXCEEDED, &text);
        let changed = [(ldap::ChangeOperation::Replace, "objectClass", &classes(set)[..])];
        refused(directory.modify("cn=0,dc=example,dc=com", &changed), Code::ADMIN_LIMIT_EXCEEDED, &text);
        ok(add(&mut directory, &format!("again {max}"), 1));
    }
}
