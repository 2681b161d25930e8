//! Tests of modify DN: effects of renames and moves, and each error.

use ldap::ResultCode as Code;

use crate::access::Requester;
use crate::testing::{SUFFIX, TestDirectory, ok, refused, refused_at};

const ANN: &str = "cn=Ann,ou=people,dc=example,dc=com";

fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for dn in ["ou=people,dc=example,dc=com", "ou=old,dc=example,dc=com"] {
        ok(directory.add(dn, &[("objectClass", &["organizationalUnit"])]));
    }
    let ann = [("objectClass", &["inetOrgPerson"][..]), ("cn", &["Ann", "Anna"]), ("sn", &["Other"])];
    ok(directory.add(ANN, &ann));
    directory
}

#[test]
fn naming_values_change_with_the_name() {
    let check = |new_rdn: &str, delete_old_rdn: bool, dn: &str, cn: &[&str], uid: &[&str]| {
        let mut directory = directory();
        ok(directory.modify_dn(ANN, new_rdn, delete_old_rdn, None));
        let entry = directory.read(dn).unwrap();
        assert_eq!(entry.dn, dn);
        assert_eq!(
            (entry.texts("cn"), entry.texts("uid")),
            (cn.iter().map(|v| v.to_string()).collect(), uid.iter().map(|v| v.to_string()).collect()),
            "{new_rdn}"
        );
        assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
    };
    let people = "ou=people,dc=example,dc=com";
    check("cn=New", false, &format!("cn=New,{people}"), &["Ann", "Anna", "New"], &[]);
    check("cn=New", true, &format!("cn=New,{people}"), &["Anna", "New"], &[]);
    check("commonName=Anna", true, &format!("cn=Anna,{people}"), &["Anna"], &[]);
    check("uid=ann", true, &format!("uid=ann,{people}"), &["Anna"], &["ann"]);
    check("uid=ann + CN=Ann", true, &format!("uid=ann+cn=Ann,{people}"), &["Ann", "Anna"], &["ann"]);
    // Only the case changes.
    check("cn=ANN", true, &format!("cn=ANN,{people}"), &["Anna", "ANN"], &[]);
    check("cn=ANN", false, &format!("cn=ANN,{people}"), &["Ann", "Anna"], &[]);
    check("cn=Ann", true, ANN, &["Ann", "Anna"], &[]);
}

#[test]
fn the_order_of_several_naming_values_does_not_matter() {
    let mut directory = directory();
    ok(directory.modify_dn(ANN, "cn=Ann+uid=ann", false, None));
    let dn = "uid=ANN+cn=ann,ou=people,dc=example,dc=com";
    ok(directory.modify_dn(dn, "uid=ann+cn=Ann", true, None));
    let entry = directory.read(dn).unwrap();
    assert_eq!(entry.dn, "uid=ann+cn=Ann,ou=people,dc=example,dc=com");
    assert_eq!(entry.texts("uid"), ["ann"]);
    let same = directory.add(
        "cn=ann+uid=ann,ou=people,dc=example,dc=com",
        &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"])],
    );
    refused(same, Code::ENTRY_ALREADY_EXISTS, "uid=ann+cn=Ann");
}

#[test]
fn a_subtree_moves_with_its_top() {
    let mut directory = directory();
    ok(directory.modify_dn(
        "ou=people,dc=example,dc=com",
        "ou=staff",
        true,
        Some("OU=Old,dc=example,dc=com"),
    ));
    let entry = directory.read("cn=ann,ou=staff,ou=old,dc=example,dc=com").unwrap();
    assert_eq!(entry.dn, "cn=Ann,ou=staff,ou=old,dc=example,dc=com");
    assert_eq!(directory.read(ANN), None);
    refused(directory.delete("ou=old,dc=example,dc=com"), Code::NOT_ALLOWED_ON_NON_LEAF, "1 entry");
    ok(directory.modify_dn("ou=staff,ou=old,dc=example,dc=com", "ou=staff", false, Some(SUFFIX)));
    ok(directory.delete("ou=old,dc=example,dc=com"));
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn a_rename_to_the_present_name_changes_nothing() {
    let mut directory = directory();
    let before = directory.read(ANN).unwrap();
    ok(directory.modify_dn(ANN, "cn=Ann", true, Some("ou=people,dc=example,dc=com")));
    assert_eq!(directory.read(ANN).unwrap(), before);
    ok(directory.modify_dn(ANN, "cn=Ann", true, Some("ou=old,dc=example,dc=com")));
    let after = directory.read("cn=Ann,ou=old,dc=example,dc=com").unwrap();
    assert!(after.texts("entryCSN") > before.texts("entryCSN"));
    assert_eq!(after.texts("entryUUID"), before.texts("entryUUID"));
}

#[test]
fn each_refusal_has_its_code() {
    let mut directory = directory();
    let (alias, there, sub) =
        ("cn=alias,dc=example,dc=com", "cn=there,dc=example,dc=com", "cn=sub,dc=example,dc=com");
    ok(directory
        .add(alias, &[("objectClass", &["alias", "extensibleObject"]), ("aliasedObjectName", &[SUFFIX])]));
    ok(directory
        .add(there, &[("objectClass", &["referral", "extensibleObject"]), ("ref", &["ldap://other/"])]));
    ok(directory.add(sub, &[("objectClass", &["subentry"]), ("subtreeSpecification", &["{}"])]));
    ok(directory.add("c=NO,dc=example,dc=com", &[("objectClass", &["country"])]));
    let mut check = |dn: &str, new_rdn: &str, superior: Option<&str>, code, matched_dn: &str, text: &str| {
        refused_at(directory.modify_dn(dn, new_rdn, false, superior), code, matched_dn, text);
    };
    let superior = |dn| Some(dn);
    check("cn", "cn=x", None, Code::INVALID_DN_SYNTAX, "", "not a distinguished name");
    check(ANN, "cn=x,cn=y", None, Code::INVALID_DN_SYNTAX, "", "not one relative");
    check(ANN, "", None, Code::INVALID_DN_SYNTAX, "", "not one relative");
    check(ANN, "nonsense=x", None, Code::INVALID_DN_SYNTAX, "", "nonsense");
    check(ANN, "c=Norway", None, Code::INVALID_DN_SYNTAX, "", "Country");
    check(ANN, "cn=x", superior("cn"), Code::INVALID_DN_SYNTAX, "", "not a distinguished name");
    check(ANN, "entryDN=cn\\=x", None, Code::NAMING_VIOLATION, "", "cannot name");
    check("cn=x,dc=example,dc=com", "cn=y", None, Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    check(there, "cn=y", None, Code::REFERRAL, there, "");
    check("", "cn=y", None, Code::UNWILLING_TO_PERFORM, "", "root DSE");
    check(SUFFIX, "dc=other", None, Code::UNWILLING_TO_PERFORM, "", "is a suffix");
    check(ANN, "c=NO", None, Code::OBJECT_CLASS_VIOLATION, "", "c is not allowed");
    check("c=NO,dc=example,dc=com", "c=SE", None, Code::CONSTRAINT_VIOLATION, "", "c is single-valued");
    check(
        "ou=people,dc=example,dc=com",
        "ou=OLD",
        None,
        Code::ENTRY_ALREADY_EXISTS,
        "",
        "ou=old,dc=example,dc=com",
    );
    check("ou=people,dc=example,dc=com", "cn=there", None, Code::AFFECTS_MULTIPLE_DSAS, "", "referral");
    check(ANN, "cn=x", superior("ou=x,dc=example,dc=com"), Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    check(ANN, "cn=x", superior("dc=org"), Code::AFFECTS_MULTIPLE_DSAS, "", "not in the suffix");
    check(ANN, "cn=x", superior(""), Code::AFFECTS_MULTIPLE_DSAS, "", "not in the suffix");
    check(ANN, "cn=x", superior(there), Code::AFFECTS_MULTIPLE_DSAS, "", "referral");
    check(
        ANN,
        "cn=x",
        superior("cn=x,cn=there,dc=example,dc=com"),
        Code::AFFECTS_MULTIPLE_DSAS,
        "",
        "another server",
    );
    check(ANN, "cn=x", superior(alias), Code::ALIAS_PROBLEM, alias, "is an alias");
    check(ANN, "cn=x", superior(sub), Code::OBJECT_CLASS_VIOLATION, "", "is a subentry");
    check(
        "ou=people,dc=example,dc=com",
        "ou=x",
        superior("OU=people,dc=example,dc=com"),
        Code::UNWILLING_TO_PERFORM,
        "",
        "below itself",
    );
    check(
        "ou=people,dc=example,dc=com",
        "ou=x",
        superior(ANN),
        Code::UNWILLING_TO_PERFORM,
        "",
        "below itself",
    );
    directory.requester = Requester::Anonymous;
    refused(
        directory.modify_dn("cn=x,dc=org", "cn=y", true, None),
        Code::STRONGER_AUTH_REQUIRED,
        "bind first",
    );
}

#[test]
fn refuses_to_remove_an_old_rdn_value_that_the_classes_require() {
    let mut directory = directory();
    let device = "cn=device,dc=example,dc=com";
    ok(directory.add(device, &[("objectClass", &["device"])]));
    let outcome = directory.modify_dn(device, "serialNumber=1", true, None);
    refused(outcome, Code::OBJECT_CLASS_VIOLATION, "device requires cn");
    ok(directory.modify_dn(device, "serialNumber=1", false, None));
    ok(directory.add("c=NO,dc=example,dc=com", &[("objectClass", &["country"])]));
    ok(directory.modify_dn("c=NO,dc=example,dc=com", "c=SE", true, None));
    assert_eq!(directory.read("c=SE,dc=example,dc=com").unwrap().texts("c"), ["SE"]);
}

#[test]
fn refuses_a_move_that_exceeds_the_depth_limit() {
    let mut directory = TestDirectory::with_suffix_entry();
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    let mut dn = SUFFIX.to_owned();
    // Creates a chain of entries that ends at level 200, and another chain of 100 entries. Both begin below the suffix
    // entry.
    for level in 2..=200 {
        dn = format!("ou=l{level},{dn}");
        ok(directory.add(&dn, &unit));
    }
    let mut branch = SUFFIX.to_owned();
    for level in 1..=100 {
        branch = format!("ou=b{level},{branch}");
        ok(directory.add(&branch, &unit));
    }
    let outcome = directory.modify_dn("ou=b1,dc=example,dc=com", "ou=b1", true, Some(&dn));
    refused(outcome, Code::UNWILLING_TO_PERFORM, "more than 255 levels");
    let shorter = dn.split(',').skip(45).collect::<Vec<_>>().join(",");
    ok(directory.modify_dn("ou=b1,dc=example,dc=com", "ou=b1", true, Some(&shorter)));
    let deepest = branch.replace(SUFFIX, &shorter);
    assert!(directory.read(&deepest).is_some());
    let outcome = directory.add(&format!("ou=x,{deepest}"), &unit);
    refused(outcome, Code::UNWILLING_TO_PERFORM, "256 levels deep");
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}
