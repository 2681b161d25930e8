//! Tests of passwords with options: which passwords the server accepts, which permit a bind, and which a reset keeps.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{
    Authentication, BindRequest, ChangesBuf, ModifyRequest, PolicyError, Request, ResultCode as Code,
};
use schema::AttributeDescription;

use crate::access::Requester;
use crate::catalog::Allocations;
use crate::model::csn::Csn;
use crate::model::name::{NormalName, parse_dn};
use crate::model::origin::Origin;
use crate::model::record::{Change, Modify, Record, Value, ValueChange, ValueChangeKind};
use crate::model::rows::EntryId;
use crate::model::settings::GeneralSettings;
use crate::model::stamp::Stamp;
use crate::password::{StorageScheme, Verification};
use crate::read::bind::{BindOutcome, bind};
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory};

const ADA: &str = "cn=ada,dc=example,dc=com";
const POLICY: &str = "cn=policy,dc=example,dc=com";
const OWN: &str = "{SSHA}own";
/// A value in the form of `pando account app-add`. No test binds with it.
const OF_APP: &str =
    "{SSHA512}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Returns the attributes of a person with this password.
fn person(password: &str) -> [(&'static str, &[&str]); 3] {
    let password = std::slice::from_ref(match password {
        OWN => &OWN,
        other => panic!("{other}"),
    });
    [("objectClass", &["person"]), ("sn", &["x"]), ("userPassword", password)]
}

fn directory(policy: &[(&str, &[&str])]) -> TestDirectory {
    let general = GeneralSettings { password_policy: POLICY.to_owned(), ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(general);
    directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    let fixed: &[(&str, &[&str])] =
        &[("objectClass", &["device", "pandoPwdPolicy"]), ("pwdAttribute", &["userPassword"])];
    assert_eq!(directory.add(POLICY, &[fixed, policy].concat()).code, Code::SUCCESS);
    assert_eq!(directory.add(ADA, &person(OWN)).code, Code::SUCCESS);
    directory
}

fn id_of(directory: &TestDirectory, dn: &str) -> EntryId {
    let state = directory.snapshot.state();
    state.entry_of(&NormalName::of(&parse_dn(dn).unwrap(), &state.catalog.schema)).unwrap().unwrap()
}

/// Stores a value without checks. Data older than the checks may contain such values.
fn store(directory: &mut TestDirectory, description: &str, value: &str) {
    let id = id_of(directory, ADA);
    let record = {
        let state = directory.snapshot.state();
        let parsed: AttributeDescription = state.catalog.schema.parse_description(description).unwrap();
        let node = state.node(id).unwrap().unwrap();
        let mut allocations = Allocations::new(state.catalog);
        let attribute = allocations.attribute(&parsed);
        let values = vec![Value::Bytes(value.as_bytes().to_vec())];
        let changes = vec![ValueChange { attribute, kind: ValueChangeKind::Add, values }];
        let (class_set, flags) = (node.class_set, node.flags);
        let modify = Modify { id, dn: ADA.to_owned(), class_set, flags, changes };
        let (attributes, class_sets) = allocations.into_parts();
        let (requester, origin) = (String::new(), Origin::default());
        Record {
            csn: Csn::default(),
            requester,
            attributes,
            class_sets,
            origin,
            change: Change::Modify(modify),
        }
    };
    let mut batch = directory.writer.begin().unwrap();
    batch.append_unchecked(&record).unwrap();
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    assert!(!directory.read(ADA).unwrap().texts(description).is_empty());
}

/// Returns the stored passwords that permit a bind as the test's user, and the options of the application passwords.
fn accepted_forms(directory: &TestDirectory) -> (Verification, Vec<String>) {
    let request = BindRequest { version: 3, name: ADA, authentication: Authentication::Simple(b"any") };
    let BindOutcome::Verify { verification, account, .. } = bind(&directory.snapshot, &request) else {
        panic!()
    };
    let apps = account.map(|account| account.apps).unwrap_or_default();
    (verification, apps.into_iter().map(|app| app.options).collect())
}

fn only(stored: &str) -> Verification {
    Verification::new(vec![stored.as_bytes().to_vec()], StorageScheme::default())
}

/// Regression test: every user could add `userPassword;x-anything` to their own entry. The value permitted binds, and
/// stayed after a reset of the password.
#[test]
fn refuses_options_without_meaning() {
    let mut directory = directory(&[("pandoPwdAppPasswords", &["4"])]);
    let bad = [
        "userPassword;x-anything",
        "2.5.4.35;X-Anything",
        "USERPASSWORD;lang-de",
        "userPassword;x-app-",
        "userPassword;x-app-mail;lang-de",
        "userPassword;x-app-a;x-app-b",
        "authPassword;x-a",
        "pandoTotpSecret;x-a",
        "pwdAccountLockedTime;x-a",
        "pwdPolicySubentry;lang-de",
        "pwdEndTime;x-a",
        "pwdMaxAge;x-a",
        "pwdAttribute;x-a",
        "objectClass;x-a",
    ];
    for description in bad {
        for values in [&[OF_APP][..], &["clear"], &["{CLEARTEXT}x", "y"]] {
            let given = [&person(OWN)[..], &[(description, values)]].concat();
            let added = directory.add("cn=new,dc=example,dc=com", &given);
            assert_eq!(added.code, Code::CONSTRAINT_VIOLATION, "{description}: {}", added.diagnostic);
            for operation in [Add, Replace] {
                let changed = directory.modify(ADA, &[(operation, description, values)]);
                assert_eq!(changed.code, Code::CONSTRAINT_VIOLATION, "{description}: {}", changed.diagnostic);
                let is_explained =
                    ["no options", "at most one option"].map(|text| changed.diagnostic.contains(text));
                assert!(is_explained.contains(&true), "{}", changed.diagnostic);
            }
        }
        assert_eq!(
            directory.modify(ADA, &[(Replace, description, &[])]).code,
            Code::SUCCESS,
            "{description}"
        );
        assert_eq!(directory.modify(ADA, &[(Delete, description, &[])]).code, Code::NO_SUCH_ATTRIBUTE);
    }
    let of_app =
        [(Add, "2.5.4.35;X-App-Mail", &[OF_APP][..]), (Add, "pwdEndTime;x-app-mail", &["20200101000000Z"])];
    assert_eq!(directory.modify(ADA, &of_app).code, Code::SUCCESS);
    assert_eq!(accepted_forms(&directory), (only(OWN), vec!["x-app-mail".to_owned()]));
}

/// Data older than the checks may contain values with other options.
#[test]
fn passwords_with_invalid_options_permit_no_bind_and_are_replaced() {
    const IDLE: [&str; 3] =
        ["userPassword;x-anything", "userPassword;lang-de;x-app-mail", "userPassword;lang-de"];
    let user = Requester::User { id: EntryId(3), dn: ADA.to_owned() };
    let administrator = || Requester::Administrator { dn: "cn=admin".to_owned() };
    for (requester, has_policy) in [(user, true), (administrator(), true), (administrator(), false)] {
        let mut directory = directory(&[("pandoPwdAppPasswords", &["4"])]);
        if !has_policy {
            directory.change_settings(|settings| settings.general.password_policy = String::new());
        }
        assert_eq!(id_of(&directory, ADA), EntryId(3));
        for idle in IDLE {
            store(&mut directory, idle, "{SSHA}idle");
        }
        assert_eq!(accepted_forms(&directory), (only(OWN), vec![]));
        // Deleting only a value that permits no bind is not a change of the password.
        let changed = directory.read(ADA).unwrap().texts("pwdChangedTime");
        assert_eq!(directory.modify(ADA, &[(Delete, IDLE[0], &["{SSHA}idle"])]).code, Code::SUCCESS);
        assert_eq!(directory.read(ADA).unwrap().texts("pwdChangedTime"), changed);
        directory.requester = requester;
        let set = directory.modify(ADA, &[(Replace, "userPassword", &["{SSHA}new"])]);
        assert_eq!(set.code, Code::SUCCESS, "{}", set.diagnostic);
        directory.requester = administrator();
        assert_eq!(accepted_forms(&directory), (only("{SSHA}new"), vec![]));
        let entry = directory.read(ADA).unwrap();
        for idle in IDLE {
            assert!(entry.texts(idle).is_empty(), "{idle}");
        }
    }
}

/// Regression test: with pwdSafeModify, a delete of any value of userPassword counted as the old password. A user
/// without the old password could replace it by any hash, and delete this hash.
#[test]
fn only_a_password_from_before_the_request_counts_as_the_old_one() {
    let mut directory = directory(&[("pwdSafeModify", &["TRUE"])]);
    let user = Requester::User { id: id_of(&directory, ADA), dn: ADA.to_owned() };
    let administrator = std::mem::replace(&mut directory.requester, user);
    let replace: (_, &str, &[&str]) = (Replace, "userPassword", &["{SSHA}mine"]);
    let add: (_, &str, &[&str]) = (Add, "userPassword", &["{SSHA}new"]);
    let bypasses: [&[(_, &str, &[&str])]; 4] = [
        &[replace, (Delete, "userPassword", &["{SSHA}mine"]), add],
        &[(Delete, "userPassword", &[OWN]), add],
        &[(Delete, "userPassword", &[]), add],
        &[replace],
    ];
    for changes in bypasses {
        let refused = directory.modify(ADA, changes);
        assert_eq!(refused.code, Code::INSUFFICIENT_ACCESS_RIGHTS, "{changes:?}: {}", refused.diagnostic);
        assert_eq!(refused.policy, Some(PolicyError::MustSupplyOldPassword), "{changes:?}");
    }
    let mut changes = ChangesBuf::new();
    changes.push(Delete, "userPassword", ["old"]);
    changes.push(Add, "userPassword", ["{SSHA}new"]);
    let request = Request::Modify(ModifyRequest { object: ADA, changes: changes.as_changes() });
    let stamp =
        Stamp { matched_passwords: vec![(b"old".to_vec(), OWN.as_bytes().to_vec())], ..directory.stamp() };
    let changed = directory.execute_with(&request, &RequestControls::default(), &stamp);
    assert_eq!(changed.code, Code::SUCCESS, "{}", changed.diagnostic);
    // A delete of a password that is stored in clear needs no verification.
    let user = std::mem::replace(&mut directory.requester, administrator);
    assert_eq!(directory.modify(ADA, &[(Replace, "userPassword", &[])]).code, Code::SUCCESS);
    store(&mut directory, "userPassword", "clear");
    directory.requester = user;
    let changed = directory.modify(ADA, &[(Delete, "userPassword", &["clear"]), add]);
    assert_eq!(changed.code, Code::SUCCESS, "{}", changed.diagnostic);
}

/// Regression test: an add stored application passwords that a modify refuses.
#[test]
fn an_add_checks_application_passwords_as_a_modify_does() {
    const BOB: &str = "cn=bob,dc=example,dc=com";
    let (mail, scanner) = ("userPassword;x-app-mail", "userPassword;x-app-scanner");
    type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];
    let given: [(u32, Attributes<'_>); 4] = [
        (0, &[(mail, &[OF_APP])]),
        (1, &[(mail, &["{UNKNOWN}x"])]),
        (1, &[(mail, &[OF_APP]), (scanner, &[OF_APP])]),
        (2, &[(mail, &[OF_APP]), (scanner, &[OF_APP])]),
    ];
    for (allowed, apps) in given {
        let count = allowed.to_string();
        let mut directory = directory(&[("pandoPwdAppPasswords", &[&count])]);
        let expected = if allowed == 2 { Code::SUCCESS } else { Code::CONSTRAINT_VIOLATION };
        let changes: Vec<_> = apps.iter().map(|(name, values)| (Add, *name, *values)).collect();
        assert_eq!(directory.modify(ADA, &changes).code, expected, "{allowed}");
        for own in [&person(OWN)[..], &person(OWN)[..2]] {
            let added = directory.add(BOB, &[own, apps].concat());
            assert_eq!(added.code, expected, "{allowed}: {}", added.diagnostic);
            assert_eq!(directory.delete(BOB).code == Code::SUCCESS, allowed == 2);
        }
    }
}

/// A reset removes application passwords, because other persons may know them. A change by the user keeps application
/// passwords.
#[test]
fn a_reset_removes_application_passwords_and_a_change_keeps_them() {
    let mut directory = directory(&[("pandoPwdAppPasswords", &["4"])]);
    let user = Requester::User { id: EntryId(3), dn: ADA.to_owned() };
    let administrator = directory.requester.clone();
    let names = ["userPassword;x-app-mail", "pwdEndTime;x-app-mail", "pwdLastSuccess;x-app-mail"];
    let mut try_with = |requester: &Requester, changes: &[(_, &str, &[&str])], stays: bool| {
        directory.requester = administrator.clone();
        let of_app = [(Replace, names[0], &[OF_APP][..]), (Replace, names[1], &["20400101000000Z"])];
        assert_eq!(directory.modify(ADA, &of_app).code, Code::SUCCESS);
        if directory.read(ADA).unwrap().texts(names[2]).is_empty() {
            store(&mut directory, names[2], "20200101000000Z");
        }
        directory.requester = requester.clone();
        let changed = directory.modify(ADA, changes);
        assert_eq!(changed.code, Code::SUCCESS, "{}", changed.diagnostic);
        directory.requester = administrator.clone();
        let entry = directory.read(ADA).unwrap();
        for name in names {
            assert_eq!(!entry.texts(name).is_empty(), stays, "{name}: {changes:?}");
        }
        assert_eq!(accepted_forms(&directory).1.is_empty(), !stays);
    };
    try_with(&user, &[(Replace, "userPassword", &["{SSHA}two"])], true);
    try_with(&administrator, &[(Replace, "userPassword", &["{SSHA}three"])], false);
    try_with(
        &administrator,
        &[(Delete, "2.5.4.35", &["{SSHA}three"]), (Add, "userPassword", &["{SSHA}four"])],
        false,
    );
    try_with(&administrator, &[(Delete, "userPassword", &[])], false);
    try_with(&administrator, &[(Replace, "userPassword", &[])], false);
    // The first password of an entry removes no application passwords.
    try_with(&administrator, &[(Add, "userPassword", &["{SSHA}five"])], true);
    // A reset that itself sets application passwords keeps them.
    let both: &[(_, &str, &[&str])] =
        &[(Replace, "userPassword", &["{SSHA}six"]), (Replace, names[0], &[OF_APP])];
    try_with(&administrator, both, true);
}

/// Regression test: if an add named the policy attribute by its OID, the server applied the lists of weak passwords of
/// another policy.
#[test]
fn finds_the_policy_of_an_add_by_any_attribute_name() {
    let mut directory = directory(&[]);
    const STRICT: &str = "cn=strict,dc=example,dc=com";
    let strict: &[(&str, &[&str])] = &[
        ("objectClass", &["device", "pandoPwdPolicy"]),
        ("pwdAttribute", &["userPassword"]),
        ("pandoPwdCheckLists", &["TRUE"]),
    ];
    assert_eq!(directory.add(STRICT, strict).code, Code::SUCCESS);
    for name in ["pwdPolicySubentry", "PWDPOLICYSUBENTRY", "1.3.6.1.4.1.42.2.27.8.1.23"] {
        let mut attributes = ldap::AttributesBuf::new();
        attributes.push("userPassword", ["clear"]);
        attributes.push(name, [STRICT]);
        let add =
            ldap::AddRequest { entry: "cn=new,dc=example,dc=com", attributes: attributes.as_attributes() };
        let rules = crate::write::passwords::new_password_rules(
            &ldap::Request::Add(add),
            &directory.snapshot,
            &directory.requester.context(),
        );
        assert!(rules.unwrap().checks_lists, "{name}");
    }
}
