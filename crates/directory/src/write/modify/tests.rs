//! Tests of modify: its effects on an entry, the contents of its records, and each error.

use ldap::ChangeOperation::{Add, Delete, Increment, Replace};
use ldap::{ChangeOperation, ChangesBuf, ModifyRequest, Request, ResultCode as Code};

use crate::access::Requester;
use crate::model::record::{Change, Value, ValueChangeKind};
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory, ok, refused, refused_at};
use crate::tree::Found;
use crate::write::decide::decide;

const ANN: &str = "cn=Ann,dc=example,dc=com";

type Changes<'c> = &'c [(ChangeOperation, &'c str, &'c [&'c str])];

fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let ann = [
        ("objectClass", &["top", "person", "organizationalPerson", "inetOrgPerson", "posixAccount"][..]),
        ("sn", &["Other"]),
        ("description", &["one", "two", "three"]),
        ("uid", &["ann"]),
        ("uidNumber", &["1000"]),
        ("gidNumber", &["-5"]),
        ("homeDirectory", &["/home/ann"]),
    ];
    ok(directory.add(ANN, &ann));
    directory
}

/// Returns the value changes in the record of a modify of [`ANN`], except the changes of operational attributes.
/// Returns `None` if the modify writes no record.
fn recorded(
    directory: &mut TestDirectory,
    changes: Changes<'_>,
) -> Option<Vec<(ValueChangeKind, String, Vec<Value>)>> {
    let mut buffer = ChangesBuf::new();
    changes.iter().for_each(|(operation, name, values)| buffer.push(*operation, name, *values));
    let request = Request::Modify(ModifyRequest { object: ANN, changes: buffer.as_changes() });
    let stamp = directory.stamp();
    let state = directory.snapshot.state();
    let controls = RequestControls::default();
    let record = decide(
        state,
        &directory.requester.context(),
        &request,
        &controls,
        &stamp,
        crate::model::csn::Csn::default(),
    )
    .unwrap()?;
    let Change::Modify(modify) = record.change else { panic!("not a modify") };
    let named = modify.changes.into_iter().map(|change| {
        let known = state.catalog.attributes().get(change.attribute.0 as usize);
        (change.kind, known.map_or("new".to_owned(), |def| def.name.clone()), change.values)
    });
    let own = ["entryCSN", "modifiersName", "modifyTimestamp"];
    Some(named.filter(|(_, name, _)| !own.contains(&name.as_str())).collect())
}

fn bytes(values: &[&str]) -> Vec<Value> {
    values.iter().map(|value| Value::Bytes(value.as_bytes().to_vec())).collect()
}

#[test]
fn changes_apply_in_order_and_only_the_final_state_is_checked() {
    let check = |changes: Changes<'_>, attribute: &str, expected: &[&str]| {
        let mut directory = directory();
        ok(directory.modify(ANN, changes));
        assert_eq!(directory.read(ANN).unwrap().texts(attribute), expected, "{changes:?}");
        assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
    };
    check(&[(Add, "description", &["four"])], "description", &["one", "two", "three", "four"]);
    check(&[(Delete, "description", &["TWO"])], "description", &["one", "three"]);
    check(&[(Delete, "description", &["two", "TWO"])], "description", &["one", "three"]);
    check(&[(Delete, "description", &[])], "description", &[]);
    check(&[(Replace, "description", &["five"])], "description", &["five"]);
    check(&[(Replace, "description", &[])], "description", &[]);
    check(&[(Replace, "mail", &[])], "mail", &[]);
    // Changes of a value's spelling.
    check(
        &[(Delete, "description", &["two"]), (Add, "description", &["TWO"])],
        "description",
        &["one", "three", "TWO"],
    );
    check(&[(Replace, "sn", &["OTHER"])], "sn", &["OTHER"]);
    check(&[(Delete, "sn", &[]), (Add, "sn", &["Name"])], "sn", &["Name"]);
    check(&[(Replace, "cn", &["ANN", "Anna"])], "cn", &["ANN", "Anna"]);
    check(
        &[(Replace, "description;lang-no;x-a", &["en"]), (Add, "description;X-A;lang-NO", &["to"])],
        "description;lang-no;x-a",
        &["en", "to"],
    );
    check(&[(Increment, "uidNumber", &["41"])], "uidNumber", &["1041"]);
    check(&[(Increment, "gidNumber", &["-10"]), (Increment, "gidNumber", &["5"])], "gidNumber", &["-10"]);
    // The class and the attributes that it allows change together.
    check(
        &[
            (Add, "labeledURI;x-b", &["http://a"]),
            (Delete, "objectClass", &["posixAccount"]),
            (Delete, "uidNumber", &[]),
            (Delete, "gidNumber", &[]),
            (Delete, "homeDirectory", &[]),
        ],
        "objectClass",
        &["top", "person", "organizationalPerson", "inetOrgPerson"],
    );
    check(
        &[(Replace, "objectClass", &["inetOrgPerson", "posixAccount"])],
        "objectClass",
        &["inetOrgPerson", "posixAccount"],
    );
}

#[test]
fn records_contain_only_the_difference() {
    let mut directory = directory();
    let mut check = |changes: Changes<'_>, expected: &[(ValueChangeKind, &str, &[&str])]| {
        let expected = expected.iter().map(|(kind, name, values)| (*kind, (*name).to_owned(), bytes(values)));
        assert_eq!(recorded(&mut directory, changes), Some(expected.collect()), "{changes:?}");
    };
    use ValueChangeKind as Kind;
    check(&[(Add, "description", &["four"])], &[(Kind::Add, "description", &["four"])]);
    check(&[(Delete, "description", &["ONE"])], &[(Kind::Remove, "description", &["one"])]);
    check(
        &[(Delete, "description", &["ONE"]), (Add, "description", &["ONE"])],
        &[(Kind::Remove, "description", &["one"]), (Kind::Add, "description", &["ONE"])],
    );
    check(
        &[(Replace, "description", &["two", "three", "four"])],
        &[(Kind::Remove, "description", &["one"]), (Kind::Add, "description", &["four"])],
    );
    check(
        &[(Replace, "description", &["three", "one", "two"])],
        &[(Kind::Replace, "description", &["three", "one", "two"])],
    );
    check(&[(Delete, "description", &[])], &[(Kind::Replace, "description", &[])]);
    check(
        &[(Add, "mail", &["a@b"]), (Delete, "mail", &["A@B"]), (Add, "sn", &["x"])],
        &[(Kind::Add, "sn", &["x"])],
    );
    let nothing: [Changes<'_>; 4] = [
        &[],
        &[(Replace, "mail", &[])],
        &[(Replace, "description", &["one", "two", "three"])],
        &[(Add, "description", &["x"]), (Delete, "description", &["x"])],
    ];
    for changes in nothing {
        assert_eq!(recorded(&mut directory, changes), None, "{changes:?}");
    }
}

#[test]
fn each_refusal_has_its_code_and_changes_nothing() {
    let mut directory = directory();
    let before = directory.read(ANN).unwrap();
    let mut check = |changes: Changes<'_>, code, text: &str| {
        // The request begins with a valid change, so that the test notices a modify that is applied in part.
        let changes = [&[(Add, "title", &["x"][..])], changes].concat();
        refused(directory.modify(ANN, &changes), code, text);
        assert_eq!(directory.read(ANN).unwrap(), before, "{changes:?}");
    };
    check(&[(Add, "nonsense", &["x"])], Code::UNDEFINED_ATTRIBUTE_TYPE, "nonsense");
    check(&[(Add, "description", &[])], Code::PROTOCOL_ERROR, "at least one value");
    check(
        &[(Add, "description", &["ONE"])],
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "description: the entry already has value 1",
    );
    check(
        &[(Add, "description", &["x", "X"])],
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "description: value 2 is given more",
    );
    check(
        &[(Replace, "description", &["x", "X"])],
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "description: value 2 is given more",
    );
    check(&[(Delete, "mail", &[])], Code::NO_SUCH_ATTRIBUTE, "mail: the entry does not have this attribute");
    check(
        &[(Delete, "mail", &["a@b"])],
        Code::NO_SUCH_ATTRIBUTE,
        "mail: the entry does not have this attribute",
    );
    check(&[(Delete, "description", &["one", "four"])], Code::NO_SUCH_ATTRIBUTE, "value 2 of the delete");
    check(&[(Delete, "description;x-a", &[])], Code::NO_SUCH_ATTRIBUTE, "description;x-a");
    check(
        &[(Delete, "description", &[]), (Delete, "description", &[])],
        Code::NO_SUCH_ATTRIBUTE,
        "description",
    );
    check(&[(Add, "manager", &["x"])], Code::INVALID_ATTRIBUTE_SYNTAX, "manager: value 1");
    check(&[(Delete, "manager", &["x"])], Code::INVALID_ATTRIBUTE_SYNTAX, "manager: value 1");
    check(&[(Add, "uidNumber", &["7"])], Code::CONSTRAINT_VIOLATION, "uidNumber is single-valued");
    check(
        &[(Replace, "entryUUID", &["x"])],
        Code::CONSTRAINT_VIOLATION,
        "entryUUID is set by the server only",
    );
    check(&[(Delete, "createTimestamp", &[])], Code::CONSTRAINT_VIOLATION, "createTimestamp");
    check(&[(Add, "memberOf", &[SUFFIX])], Code::CONSTRAINT_VIOLATION, "memberOf");
    check(&[(Delete, "cn", &["ann"]), (Add, "cn", &["Anna"])], Code::NOT_ALLOWED_ON_RDN, "rename the entry");
    check(&[(Replace, "cn", &["Anna"])], Code::NOT_ALLOWED_ON_RDN, "cn");
    check(&[(Delete, "cn", &[])], Code::NOT_ALLOWED_ON_RDN, "cn");
    check(&[(Delete, "sn", &[])], Code::OBJECT_CLASS_VIOLATION, "requires sn");
    check(&[(Add, "dc", &["x"])], Code::OBJECT_CLASS_VIOLATION, "dc is not allowed");
    check(&[(Delete, "objectClass", &["posixAccount"])], Code::OBJECT_CLASS_VIOLATION, "is not allowed");
    check(&[(Delete, "objectClass", &[])], Code::OBJECT_CLASS_VIOLATION, "objectClass");
    check(&[(Replace, "objectClass", &[])], Code::OBJECT_CLASS_VIOLATION, "objectClass");
    check(&[(Add, "objectClass", &["nonsense"])], Code::INVALID_ATTRIBUTE_SYNTAX, "nonsense");
    check(&[(Add, "objectClass", &["device"])], Code::OBJECT_CLASS_VIOLATION, "neither is a subclass");
    check(
        &[(Delete, "objectClass", &["inetOrgPerson"])],
        Code::OBJECT_CLASS_MODS_PROHIBITED,
        "from inetOrgPerson to organizationalPerson",
    );
    check(
        &[(Delete, "objectClass", &["person"])],
        Code::OBJECT_CLASS_MODS_PROHIBITED,
        "person is a superclass",
    );
    check(&[(Increment, "description", &["1"])], Code::CONSTRAINT_VIOLATION, "only integers");
    check(&[(Increment, "uidNumber", &["1", "2"])], Code::PROTOCOL_ERROR, "exactly one value");
    check(&[(Increment, "uidNumber", &[])], Code::PROTOCOL_ERROR, "exactly one value");
    check(&[(Increment, "uidNumber", &["x"])], Code::INVALID_ATTRIBUTE_SYNTAX, "uidNumber: value 1");
    check(&[(Increment, "shadowMax", &["1"])], Code::NO_SUCH_ATTRIBUTE, "nothing to increment");
    check(&[(Increment, "uidNumber", &[&"9".repeat(60)])], Code::CONSTRAINT_VIOLATION, "128 bits");
}

#[test]
fn refuses_names_without_an_entry_on_this_server() {
    let mut directory = directory();
    let alias = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[ANN])];
    let referral = [("objectClass", &["referral", "extensibleObject"][..]), ("ref", &["ldap://other/"])];
    ok(directory.add("cn=alias,dc=example,dc=com", &alias));
    ok(directory.add("cn=there,dc=example,dc=com", &referral));
    let mut check = |dn: &str, code, matched_dn: &str| {
        refused_at(directory.modify(dn, &[(Replace, "description", &["x"])]), code, matched_dn, "");
    };
    check("cn", Code::INVALID_DN_SYNTAX, "");
    check("nonsense=x,dc=example,dc=com", Code::INVALID_DN_SYNTAX, "");
    check("cn=x,cn=y,dc=example,dc=com", Code::NO_SUCH_OBJECT, SUFFIX);
    check("cn=x,cn=alias,dc=example,dc=com", Code::NO_SUCH_OBJECT, "cn=alias,dc=example,dc=com");
    check("dc=org", Code::NO_SUCH_OBJECT, "");
    check("", Code::UNWILLING_TO_PERFORM, "");
    check("cn=subschema", Code::UNWILLING_TO_PERFORM, "");
    check("cn=monitor", Code::UNWILLING_TO_PERFORM, "");
    check("cn=there,dc=example,dc=com", Code::REFERRAL, "cn=there,dc=example,dc=com");
    check("nonsense=x,cn=there,dc=example,dc=com", Code::REFERRAL, "cn=there,dc=example,dc=com");
    // The alias itself is modified, not its target.
    ok(directory.modify("cn=alias,dc=example,dc=com", &[(Replace, "description", &["x"])]));
    assert_eq!(directory.read("cn=alias,dc=example,dc=com").unwrap().texts("description"), ["x"]);
}

#[test]
fn records_the_modifier_and_time_of_a_change() {
    let mut directory = directory();
    let before = directory.read(ANN).unwrap();
    ok(directory.modify(ANN, &[(Replace, "title", &["x"])]));
    let after = directory.read(ANN).unwrap();
    for kept in ["entryUUID", "creatorsName", "createTimestamp"] {
        assert_eq!(after.texts(kept), before.texts(kept));
    }
    assert!(after.texts("entryCSN") > before.texts("entryCSN"));
    assert_eq!(after.texts("modifiersName"), ["cn=admin"]);
}

#[test]
fn users_may_change_only_their_own_password() {
    let mut directory = directory();
    let name = crate::model::name::NormalName::of(
        &ldap::Dn::parse(ANN).unwrap(),
        &directory.snapshot.state().catalog.schema,
    );
    let Found::Entry(id, _) = directory.snapshot.state().find(&name).unwrap() else { panic!("no entry") };
    directory.requester = Requester::User { id, dn: ANN.to_owned() };
    let password: Changes<'_> = &[(Replace, "userPassword", &["{SSHA}x"])];
    ok(directory.modify(ANN, password));
    refused(directory.modify(SUFFIX, password), Code::INSUFFICIENT_ACCESS_RIGHTS, "entries of others");
    let more = [password, &[(Replace, "title", &["x"][..])]].concat();
    refused(directory.modify(ANN, &more), Code::INSUFFICIENT_ACCESS_RIGHTS, "title");
    directory.requester = Requester::Anonymous;
    for dn in [ANN, "cn=nobody,dc=example,dc=com"] {
        refused(directory.modify(dn, password), Code::STRONGER_AUTH_REQUIRED, "bind first");
    }
    directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    let entry = directory.read(ANN).unwrap();
    assert_eq!(
        (entry.texts("userPassword"), entry.texts("modifiersName")),
        (vec!["{SSHA}x".to_owned()], vec![ANN.to_owned()])
    );
}

#[test]
fn compares_values_without_an_equality_rule_by_bytes() {
    let mut directory = directory();
    let photo = "photo".repeat(1_000);
    ok(directory.modify(ANN, &[(Add, "jpegPhoto", &[&photo, "small"])]));
    let again = directory.modify(ANN, &[(Add, "jpegPhoto", &[&photo])]);
    refused(again, Code::ATTRIBUTE_OR_VALUE_EXISTS, "jpegPhoto");
    refused(
        directory.modify(ANN, &[(Delete, "jpegPhoto", &["SMALL"])]),
        Code::NO_SUCH_ATTRIBUTE,
        "jpegPhoto",
    );
    ok(directory.modify(ANN, &[(Delete, "jpegPhoto", &[&photo])]));
    assert_eq!(directory.read(ANN).unwrap().texts("jpegPhoto"), ["small"]);
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn attributes_with_a_row_per_value_change_like_others() {
    let mut directory = directory();
    let many: Vec<String> = (0..200).map(|number| format!("Value {number:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    ok(directory.modify(ANN, &[(Replace, "description", &many)]));
    refused(
        directory.modify(ANN, &[(Add, "description", &["VALUE 007"])]),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "",
    );
    refused(directory.modify(ANN, &[(Delete, "description", &["value 200"])]), Code::NO_SUCH_ATTRIBUTE, "");
    use ValueChangeKind as Kind;
    let changes: Changes<'_> = &[
        (Delete, "description", &["value 007", "value 008", "value 009"]),
        (Add, "description", &["VALUE 007", "Value 008", "more"]),
        (Delete, "description", &["MORE"]),
    ];
    let expected = vec![
        (Kind::Remove, "description".to_owned(), bytes(&["Value 007", "Value 009"])),
        (Kind::Add, "description".to_owned(), bytes(&["VALUE 007"])),
    ];
    assert_eq!(recorded(&mut directory, changes), Some(expected));
    ok(directory.modify(ANN, changes));
    let values = directory.read(ANN).unwrap().texts("description");
    assert_eq!((values.len(), values[7].as_str(), values[9].as_str()), (199, "VALUE 007", "Value 010"));
    let twice = directory
        .modify(ANN, &[(Delete, "description", &["value 010"]), (Delete, "description", &["value 010"])]);
    refused(twice, Code::NO_SUCH_ATTRIBUTE, "description");
    ok(directory.modify(ANN, &[(Delete, "description", &[]), (Add, "description", &["one"])]));
    assert_eq!(directory.read(ANN).unwrap().texts("description"), ["one"]);
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn a_link_and_a_text_with_the_same_name_are_one_value() {
    let mut directory = directory();
    let group = "cn=group,dc=example,dc=com";
    let missing = "cn=Nobody,dc=example,dc=com";
    ok(directory.add(group, &[("objectClass", &["groupOfNames"]), ("member", &[ANN, missing])]));
    refused(
        directory.modify(group, &[(Add, "member", &["CN=ann,dc=example,dc=com"])]),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "member",
    );
    refused(
        directory.modify(group, &[(Add, "member", &["CN=NOBODY,dc=example,dc=com"])]),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "member",
    );
    refused(directory.modify(group, &[(Delete, "member", &[SUFFIX])]), Code::NO_SUCH_ATTRIBUTE, "member");
    // After an entry with this name was added, the text is a link, but still the same value.
    ok(directory.add(missing, &[("objectClass", &["device"])]));
    refused(
        directory.modify(group, &[(Add, "member", &[missing])]),
        Code::ATTRIBUTE_OR_VALUE_EXISTS,
        "member",
    );
    // After a rename of the entry, the value is its new name.
    ok(directory.modify_dn(missing, "cn=Other", true, None));
    refused(directory.modify(group, &[(Delete, "member", &[missing])]), Code::NO_SUCH_ATTRIBUTE, "member");
    ok(directory
        .modify(group, &[(Delete, "member", &["cn=other,dc=example,dc=com"]), (Add, "member", &[group])]));
    let mut members = directory.read(group).unwrap().texts("member");
    members.sort();
    assert_eq!(members, [ANN, group]);
    refused(
        directory.modify(group, &[(Delete, "member", &[])]),
        Code::OBJECT_CLASS_VIOLATION,
        "requires member",
    );
    ok(directory.modify(group, &[(Replace, "member", &["cn=gone,dc=example,dc=com"])]));
    assert_eq!(directory.read(group).unwrap().texts("member"), ["cn=gone,dc=example,dc=com"]);
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn a_certificate_is_one_attribute_with_and_without_binary() {
    let mut directory = directory();
    let mut attribute = |description: &str| directory.modify(ANN, &[(Delete, description, &[])]);
    refused(attribute("userCertificate"), Code::NO_SUCH_ATTRIBUTE, "userCertificate");
    refused(attribute("userCertificate;binary"), Code::NO_SUCH_ATTRIBUTE, "userCertificate;binary");
    refused(attribute("userCertificate;BINARY;x-a"), Code::NO_SUCH_ATTRIBUTE, "userCertificate;BINARY;x-a");
    refused(attribute("description;binary"), Code::UNDEFINED_ATTRIBUTE_TYPE, "no binary form");
    refused(attribute("jpegPhoto;binary"), Code::UNDEFINED_ATTRIBUTE_TYPE, "no binary form");
    assert_eq!(crate::catalog::last_entry_id(directory.snapshot.state().read).unwrap(), EntryId(2));
}

#[test]
fn a_permissive_modify_accepts_existing_additions_and_missing_deletions() {
    let permissive = RequestControls { permissive_modify: true, ..RequestControls::default() };
    let run = |directory: &mut TestDirectory, changes: Changes<'_>, controls: &RequestControls| {
        let mut buffer = ChangesBuf::new();
        changes.iter().for_each(|(operation, name, values)| buffer.push(*operation, name, *values));
        let request = Request::Modify(ModifyRequest { object: ANN, changes: buffer.as_changes() });
        let stamp = directory.stamp();
        directory.execute_with(&request, controls, &stamp)
    };
    let cases: [(Changes<'_>, Code, &[&str]); 6] = [
        (
            &[(Add, "description", &["ONE", "four"])],
            Code::ATTRIBUTE_OR_VALUE_EXISTS,
            &["one", "two", "three", "four"],
        ),
        (&[(Delete, "description", &["two", "six"])], Code::NO_SUCH_ATTRIBUTE, &["one", "three"]),
        (&[(Delete, "mail", &[])], Code::NO_SUCH_ATTRIBUTE, &["one", "two", "three"]),
        (&[(Delete, "mail", &["a@b"])], Code::NO_SUCH_ATTRIBUTE, &["one", "two", "three"]),
        (&[(Add, "description", &["three"])], Code::ATTRIBUTE_OR_VALUE_EXISTS, &["one", "two", "three"]),
        (&[(Delete, "description", &[]), (Delete, "description", &[])], Code::NO_SUCH_ATTRIBUTE, &[]),
    ];
    for (changes, code, expected) in cases {
        let mut directory = directory();
        assert_eq!(run(&mut directory, changes, &RequestControls::default()).code, code, "{changes:?}");
        ok(run(&mut directory, changes, &permissive));
        assert_eq!(directory.read(ANN).unwrap().texts("description"), expected, "{changes:?}");
        assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
    }
    let mut directory = directory();
    // With the permissive modify control, other errors are still reported, and deleting a wrong password fails.
    for (changes, code) in [
        (&[(Delete, "sn", &[][..])] as Changes<'_>, Code::OBJECT_CLASS_VIOLATION),
        (&[(Delete, "cn", &["Ann"])], Code::NOT_ALLOWED_ON_RDN),
        (&[(Add, "uidNumber", &["5"])], Code::CONSTRAINT_VIOLATION),
        (&[(Add, "nonsense", &["5"])], Code::UNDEFINED_ATTRIBUTE_TYPE),
        (&[(Increment, "description", &["1"])], Code::CONSTRAINT_VIOLATION),
        (
            &[(Delete, "userPassword", &["wrong"]), (Add, "userPassword", &["{SSHA}x"])],
            Code::NO_SUCH_ATTRIBUTE,
        ),
    ] {
        assert_eq!(run(&mut directory, changes, &permissive).code, code, "{changes:?}");
    }
}
