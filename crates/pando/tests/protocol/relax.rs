//! The relax rules control (draft-zeilenga-ldap-relax), as OpenLDAP's tools send it. A migration can set the identity
//! and history of entries, but only to values that the server could have made itself.

use test_support::clients::ldap_utility;
use test_support::tree::{person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

const UUID: &str = "597ae2f6-16a6-1027-98f4-d28b5365dc14";

#[test]
fn the_relax_control_sets_operational_attributes() {
    let scratch = Scratch::new("relax");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let run = |tool: &str, ldif: &str, code: i32| {
        ldap_utility(tool, pando.address(), &["-e", "!relax"], ldif).expect_code(code)
    };
    let unit = format!("ou=unit,{SUFFIX}");
    let given = format!(
        "dn: {unit}\nobjectClass: organizationalUnit\nentryUUID: {}\ncreatorsName: cn=old\n\
         createTimestamp: 20060101000000Z\nmodifiersName: cn=older\nmodifyTimestamp: 20070101000000Z\n",
        UUID.to_uppercase()
    );
    // Without the control, these attributes cannot be set.
    ldap_utility("ldapadd", pando.address(), &[], &given).expect_code(19);
    run("ldapadd", &given, 0);
    let names =
        ["entryUUID", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp", "entryCSN"];
    let mut read = || {
        let entry = admin.entry(&unit, &names).unwrap().unwrap();
        names.map(|name| entry.text(name).unwrap_or_default())
    };
    let before = read();
    assert_eq!(before[..5], [UUID, "cn=old", "20060101000000Z", "cn=older", "20070101000000Z"]);
    let other = format!("dn: ou=other,{SUFFIX}\nobjectClass: organizationalUnit\n");
    run("ldapadd", &format!("{other}entryUUID: {UUID}\n"), 19)
        .expect_error("another entry has this entryUUID");
    run("ldapadd", &format!("{other}createTimestamp: 20060101000000Z\n"), 0);
    for impossible in [
        "createTimestamp: 29990101000000Z\nmodifyTimestamp: 29990101000000Z",
        "modifyTimestamp: 20060101000000Z",
        "entryCSN: 20060101000000.000000Z#000000#000#000000",
        "entryDN: ou=x",
        "creatorsName: no name",
        "creatorsName: cn=a\ncreatorsName: cn=b",
    ] {
        let code = if impossible.starts_with("creatorsName: no") { 21 } else { 19 };
        let more = format!("dn: ou=more,{SUFFIX}\nobjectClass: organizationalUnit\n{impossible}\n");
        run("ldapadd", &more, code);
    }

    // A modify can replace these attributes, except the entryUUID. The server sets those that the client does not set.
    let modify = |changes: &str| format!("dn: {unit}\nchangetype: modify\n{changes}\n");
    run("ldapmodify", &modify("replace: createTimestamp\ncreateTimestamp: 20050101000000Z"), 0);
    let after = read();
    assert_eq!(after[..3], [UUID, "cn=old", "20050101000000Z"]);
    assert!(after[3].starts_with("cn=admin") && after[4] > before[4] && after[5] > before[5], "{after:?}");
    run("ldapmodify", &modify("replace: modifyTimestamp\nmodifyTimestamp: 20100101000000Z"), 0);
    assert_eq!(read()[4], "20100101000000Z");
    run("ldapmodify", &modify("replace: modifyTimestamp\nmodifyTimestamp: 20040101000000Z"), 19);
    run("ldapmodify", &modify("delete: createTimestamp"), 19);
    run("ldapmodify", &modify(&format!("replace: entryUUID\nentryUUID: {UUID}")), 19);

    // The structural class can be changed if the attributes fit the new class.
    let to_class =
        |class: &str, more: &str| modify(&format!("replace: objectClass\nobjectClass: {class}\n-\n{more}"));
    let locality = to_class("locality", "");
    ldap_utility("ldapmodify", pando.address(), &[], &locality).expect_code(69);
    run("ldapmodify", &locality, 65);
    run("ldapmodify", &to_class("alias", "add: aliasedObjectName\naliasedObjectName: cn=a"), 69);
    run("ldapmodify", &to_class("device", "add: cn\ncn: a"), 0);
    assert_eq!(
        admin.entry(&unit, &["structuralObjectClass"]).unwrap().unwrap().text("structuralObjectClass"),
        Some("device".to_owned())
    );
    // The control is valid for every change. It has no effect on a delete or a modify DN.
    let renamed = format!("ou=renamed,{SUFFIX}");
    let change = format!("dn: ou=other,{SUFFIX}\nchangetype: modrdn\nnewrdn: ou=renamed\ndeleteoldrdn: 1\n");
    run("ldapmodify", &change, 0);
    run("ldapmodify", &format!("dn: {renamed}\nchangetype: delete\n"), 0);
    assert!(admin.entry(&renamed, &["1.1"]).unwrap().is_none());
    assert!(pando.stop().success());
}

#[test]
fn an_access_rule_permits_the_relax_control() {
    let scratch = Scratch::new("relax-rules");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let all =
        ["all: allow read to authenticated", &format!("new: allow add below '{SUFFIX}' to authenticated")];
    let try_as = |uid: &str, name: &str| {
        let entry = format!(
            "dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\nentryUUID: {}\n",
            UUID.replace("597a", name)
        );
        let url = format!("ldap://{}", pando.address());
        let (dn, password) = (person_dn(uid), format!("{uid}-secret"));
        let words = ["-x", "-H", &url, "-D", &dn, "-w", &password, "-e", "!relax"];
        test_support::clients::run("ldapadd", &words, &entry)
    };
    replace(&mut admin, "cn=config", "pandoAccessRule", &all);
    try_as("anna", "0001").expect_code(50).expect_error("relax rules is for the administrator");
    refuses_relaxed_changes(&pando);
    let migration = format!("migration: allow use of relax-rules to user '{}'", person_dn("anna"));
    replace(&mut admin, "cn=config", "pandoAccessRule", &[all[0], all[1], &migration]);
    try_as("anna", "0002").expect_code(0);
    assert_ne!(try_as("bert", "0003").code, Some(0), "the rule is not for bert");
    let found = admin.entry(&format!("ou=0002,{SUFFIX}"), &["entryUUID"]).unwrap().unwrap();
    assert_eq!(found.text("entryUUID"), Some(UUID.replace("597a", "0002")));
}

/// A delete and a modify DN with the control need the same right as an add.
fn refuses_relaxed_changes(pando: &Pando) {
    let control = ldap::Control { oid: ldap::oids::RELAX_RULES, critical: true, value: None };
    let controls = ldap::ControlsBuf::from_iter([control]);
    let entry = &person_dn("anna");
    let mut anna = pando.connect();
    assert!(anna.bind(entry, "anna-secret").unwrap().is_success());
    let rename = ldap::ModifyDnRequest { entry, new_rdn: "uid=x", delete_old_rdn: true, new_superior: None };
    for request in [ldap::Request::Delete(ldap::DeleteRequest { entry }), ldap::Request::ModifyDn(rename)] {
        let outcome = anna.request(request, controls.as_controls()).unwrap().outcome;
        assert_eq!(outcome.code, ldap::ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
        assert!(outcome.diagnostic.starts_with("relax rules is for"), "{outcome:?}");
    }
}
