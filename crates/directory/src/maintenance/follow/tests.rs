use super::*;
use crate::model::settings::{FollowedTree, NodeSettings, Settings};
use crate::testing::{SUFFIX, TemporaryFolder, TestDirectory, refused};

fn entry(number: u8, dn: &str, attributes: &[(&str, &[&str])]) -> SourceChange {
    let attributes = attributes.iter().map(|(description, values)| SourceAttribute {
        description: (*description).to_owned(),
        values: values.iter().map(|value| value.as_bytes().to_vec()).collect(),
    });
    SourceChange::Entry(SourceEntry {
        uuid: [number; 16],
        dn: dn.to_owned(),
        attributes: attributes.collect(),
    })
}

const PERSON: &[(&str, &[&str])] = &[
    ("objectClass", &["top", "person", "organizationalPerson", "inetOrgPerson"]),
    ("sn", &["x"]),
    ("cn", &["one", "two"]),
    ("userPassword", &["{SSHA}x"]),
    ("createTimestamp", &["20200101000000Z"]),
    ("modifyTimestamp", &["20990101000000Z"]),
    ("modifiersName", &["cn=there"]),
    ("pwdHistory", &["20200101000000Z#1.3.6.1.4.1.1466.115.121.1.40#7#{SSHA}y"]),
];

fn unit(number: u8, dn: &str) -> SourceChange {
    entry(number, dn, &[("objectClass", &["organizationalUnit"]), ("ou", &["x"])])
}

fn start() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.define_index("entryUUID", "equality");
    directory.finish_indexes();
    directory
}

/// Applies a change. Returns its result code and whether an entry was renamed.
fn apply_change(directory: &mut TestDirectory, change: &SourceChange) -> (ResultCode, bool) {
    apply_change_at(directory, SUFFIX, change)
}

fn apply_change_at(directory: &mut TestDirectory, base: &str, change: &SourceChange) -> (ResultCode, bool) {
    let stamp = directory.stamp();
    let mut renames = false;
    let mut batch = directory.writer.begin().unwrap();
    let outcome = follow(&mut batch, base, change, &stamp, &mut renames);
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    (outcome.code, renames)
}

#[track_caller]
fn apply_successfully(directory: &mut TestDirectory, change: &SourceChange) {
    assert_eq!(apply_change(directory, change).0, ResultCode::SUCCESS);
}

#[test]
fn an_unchanged_entry_that_is_sent_again_writes_no_record() {
    let mut directory = start();
    let person = entry(1, "cn=one,dc=example,dc=com", PERSON);
    apply_successfully(&mut directory, &person);
    let position = directory.snapshot.position().unwrap();
    apply_successfully(&mut directory, &person);
    assert_eq!(directory.snapshot.position().unwrap(), position);
    let found = directory.read("cn=one,dc=example,dc=com").unwrap();
    for (name, values) in PERSON.iter().filter(|(name, _)| *name != "objectClass") {
        assert_eq!(found.texts(name), *values, "{name}");
    }
}

#[test]
fn a_renamed_entry_keeps_the_modifiers_name_of_the_source() {
    let mut directory = start();
    apply_successfully(&mut directory, &entry(1, "cn=one,dc=example,dc=com", PERSON));
    let changed: Vec<_> =
        PERSON.iter().filter(|(name, _)| *name != "cn").copied().chain([("cn", &["two"][..])]).collect();
    apply_successfully(&mut directory, &entry(1, "cn=two,dc=example,dc=com", &changed));
    let found = directory.read("cn=two,dc=example,dc=com").unwrap();
    assert_eq!(
        (found.texts("cn"), found.texts("modifiersName")),
        (vec!["two".to_owned()], vec!["cn=there".to_owned()])
    );
}

#[test]
fn entries_may_exchange_their_names() {
    let mut directory = start();
    let at = |number, name: &str| entry(number, &format!("cn={name},dc=example,dc=com"), PERSON);
    apply_successfully(&mut directory, &at(1, "one"));
    apply_successfully(&mut directory, &at(2, "two"));
    let (one, two) = ("cn=one,dc=example,dc=com", "cn=two,dc=example,dc=com");
    let before = directory.read(one).unwrap().texts("entryUUID");
    assert_eq!(apply_change(&mut directory, &at(1, "two")), (ResultCode::SUCCESS, true));
    assert_eq!(apply_change(&mut directory, &at(2, "one")), (ResultCode::SUCCESS, true));
    assert_eq!(directory.read(two).unwrap().texts("entryUUID"), before);
    assert_eq!(directory.read(one).unwrap().texts("cn"), ["one", "two"]);
    assert_eq!(crate::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn changes_that_arrive_too_early_are_refused() {
    let mut directory = start();
    let below = unit(2, "ou=x,ou=above,dc=example,dc=com");
    assert_eq!(apply_change(&mut directory, &below).0, ResultCode::NO_SUCH_OBJECT);
    apply_successfully(&mut directory, &unit(1, "ou=above,dc=example,dc=com"));
    apply_successfully(&mut directory, &below);
    assert_eq!(
        apply_change(&mut directory, &SourceChange::Delete([1; 16])).0,
        ResultCode::NOT_ALLOWED_ON_NON_LEAF
    );
    let others = others_below(&directory.snapshot, SUFFIX, &|uuid| uuid == &[1; 16]).unwrap();
    assert_eq!(others.first(), Some(&[2; 16]));
    let below = |uuid| at_and_below(&directory.snapshot, SUFFIX, &[uuid; 16]).unwrap();
    assert_eq!((below(1), below(2), below(3)), (vec![[2; 16], [1; 16]], vec![[2; 16]], vec![]));
    assert!(has_entry(&directory.snapshot, &[2; 16]).unwrap());
    apply_successfully(&mut directory, &SourceChange::Delete([2; 16]));
    apply_successfully(&mut directory, &SourceChange::Delete([1; 16]));
    apply_successfully(&mut directory, &SourceChange::Delete([1; 16]));
}

#[test]
fn attributes_that_apply_only_to_the_source_are_left_out() {
    let directory = start();
    let given: &[(&str, &[&str])] = &[
        ("cn", &["one"]),
        ("entryCSN", &["x"]),
        ("memberOf", &["cn=x"]),
        ("nsAccountLock", &["TRUE"]),
        ("ACI", &["x", "y"]),
        ("auditContext", &["cn=accesslog"]),
        ("pwdFailureTime", &["20200101000000Z"]),
        ("shoeSize", &["x"]),
        ("userPassword", &["clear", "{SSHA}x"]),
    ];
    let SourceChange::Entry(mut source) = entry(1, "cn=one,dc=example,dc=com", given) else { panic!() };
    let mut left_out = BTreeMap::new();
    assert!(!source.adapt(&directory.snapshot, &mut || [7; 16], &mut left_out).unwrap());
    assert_eq!(left_out, BTreeMap::from([("aci", 2), ("auditContext", 1)]));
    let names: Vec<&str> = source.attributes.iter().map(|of| of.description.as_str()).collect();
    assert_eq!(names, ["cn", "shoeSize", "userPassword", "pwdAccountLockedTime"]);
    assert!(is_hashed(&source.attributes[2].values[0]));
    assert_eq!(source.attributes[2].values[1], b"{SSHA}x");
}

#[test]
fn remote_names_become_local_names() {
    let directory = start();
    let given: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "user", "shoeOwner", "inetOrgPerson"]),
        ("sAMAccountName", &["one"]),
        ("uid", &["ONE", "two"]),
        ("cn;lang-de", &["eins"]),
        ("manager", &["sAMAccountName=boss,ou=old", "cn=elsewhere", "uid=other,dc=example,dc=com"]),
        ("uniqueMember", &["cn=x,ou=old#'01'B"]),
        ("description", &["cn=x,ou=old"]),
        ("shoeSize", &["44"]),
    ];
    let SourceChange::Entry(mut source) = entry(1, "sAMAccountName=one,ou=old", given) else { panic!() };
    let mapping = NameMapping {
        bases: ("ou=old".to_owned(), SUFFIX.to_owned()),
        names: [("sAMAccountName", "uid"), ("user", "inetOrgPerson")]
            .map(|(old, new)| (old.to_owned(), new.to_owned()))
            .to_vec(),
    };
    let leave_out = ["SHOESIZE".to_owned(), "shoeowner".to_owned()];
    // One remote manager has the local DN of another copied entry.
    assert_eq!(source.map(&directory.snapshot.state().catalog.schema, &mapping, &leave_out), 1);
    let expected: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "inetOrgPerson"]),
        ("uid", &["one", "two"]),
        ("cn;lang-de", &["eins"]),
        ("manager", &["uid=boss,dc=example,dc=com", "cn=elsewhere"]),
        ("uniqueMember", &["cn=x,dc=example,dc=com#'01'B"]),
        ("description", &["cn=x,ou=old"]),
    ];
    assert_eq!(SourceChange::Entry(source), entry(1, "uid=one,dc=example,dc=com", expected));
}

const BERLIN: &str = "ou=berlin,dc=example,dc=com";
const PARIS: &str = "ou=paris,dc=example,dc=com";

/// Returns a directory with copied trees at [`BERLIN`] and [`PARIS`], and an entry outside of both.
fn two_copies() -> TestDirectory {
    let copy = |base: &str| FollowedTree {
        mapping: NameMapping { bases: (base.to_owned(), base.to_owned()), names: Vec::new() },
        referral: None,
    };
    let node = NodeSettings { followed: vec![copy(BERLIN), copy(PARIS)], ..NodeSettings::default() };
    let settings = Settings { node, ..Settings::default() };
    let folder = std::sync::Arc::new(TemporaryFolder::new());
    let mut directory = TestDirectory::open(folder, settings, &[SUFFIX], 0).unwrap();
    directory.define_index("entryUUID", "equality");
    directory.finish_indexes();
    let domain: &[(&str, &[&str])] = &[("objectClass", &["domain"]), ("dc", &["example"])];
    apply_successfully(&mut directory, &entry(1, SUFFIX, domain));
    apply_successfully(&mut directory, &unit(2, BERLIN));
    apply_successfully(&mut directory, &unit(3, PARIS));
    apply_successfully(&mut directory, &unit(4, "ou=local,dc=example,dc=com"));
    directory
}

#[test]
fn a_source_changes_its_own_copy_only() {
    let mut directory = two_copies();
    let (berlin, paris) = ("cn=one,ou=berlin,dc=example,dc=com", "cn=one,ou=paris,dc=example,dc=com");
    assert_eq!(apply_change_at(&mut directory, BERLIN, &entry(9, berlin, PERSON)).0, ResultCode::SUCCESS);
    // The entry moves from one source to the other. The message of the new source arrives first.
    assert_eq!(apply_change_at(&mut directory, PARIS, &entry(9, paris, PERSON)), (ResultCode::SUCCESS, true));
    assert_eq!(
        apply_change_at(&mut directory, BERLIN, &SourceChange::Delete([9; 16])).0,
        ResultCode::SUCCESS
    );
    assert!(directory.read(paris).is_some() && directory.read(berlin).is_none());
    // An entry outside of the copied trees is neither deleted nor moved.
    assert_eq!(apply_change_at(&mut directory, PARIS, &SourceChange::Delete([4; 16])).0, ResultCode::SUCCESS);
    let position = directory.snapshot.position().unwrap();
    let refused = ResultCode::UNWILLING_TO_PERFORM;
    assert_eq!(
        apply_change_at(&mut directory, PARIS, &unit(4, "ou=x,ou=paris,dc=example,dc=com")).0,
        refused
    );
    // A DN outside of the copied tree is refused, and so is another entry for the base of the tree.
    assert_eq!(apply_change_at(&mut directory, PARIS, &entry(8, berlin, PERSON)).0, refused);
    assert_eq!(apply_change_at(&mut directory, PARIS, &unit(3, "ou=gone,dc=example,dc=com")).0, refused);
    assert_eq!(apply_change_at(&mut directory, PARIS, &unit(7, PARIS)).0, ResultCode::ENTRY_ALREADY_EXISTS);
    assert_eq!(directory.snapshot.position().unwrap(), position);
    assert_eq!(apply_change_at(&mut directory, PARIS, &SourceChange::Delete([9; 16])).0, ResultCode::SUCCESS);
    assert!(directory.read(paris).is_none());
}

#[test]
fn refuses_to_rename_or_delete_a_copied_tree_or_its_superiors() {
    let mut directory = two_copies();
    let text = "a copy of another server's tree is below this entry: it would be changed with it";
    let code = ResultCode::UNWILLING_TO_PERFORM;
    refused(directory.delete_tree(SUFFIX), code, text);
    refused(directory.modify_dn(SUFFIX, "dc=other", true, None), code, text);
    let within = "this tree is a copy of another server's, which this server follows: change it there";
    refused(directory.delete_tree(PARIS), code, within);
    assert!(directory.read(PARIS).is_some());
    assert_eq!(directory.delete_tree("ou=local,dc=example,dc=com").code, ResultCode::SUCCESS);
}

#[test]
fn a_base_without_a_normal_form_is_refused_at_the_start() {
    let (good, bad) = ("ou=x,dc=example,dc=com", "shoeSize=1,dc=example,dc=com");
    for (there, here, setting) in [(bad, good, "follow.base"), (good, bad, "follow.to")] {
        let mapping = NameMapping { bases: (there.to_owned(), here.to_owned()), names: Vec::new() };
        let followed = vec![FollowedTree { mapping, referral: None }];
        let node = NodeSettings { followed, ..NodeSettings::default() };
        let settings = Settings { node, ..Settings::default() };
        let opened = TestDirectory::open(std::sync::Arc::new(TemporaryFolder::new()), settings, &[SUFFIX], 0);
        let text = opened.err().unwrap().to_string();
        assert!(text.contains(setting) && text.contains("shoeSize"), "{text}");
    }
}
