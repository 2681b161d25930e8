//! Dumps as other servers write them: each loads whole, and the summary says what became of their own attributes.
//!
//! The texts are made here, in the form of each tool.

use crate::support;

use std::process::Command;

use support::Scratch;
use support::pando::PROGRAM;

/// Head of a dump with the suffix that all of them use.
const SUFFIX: &str = "dc=example,dc=com";

/// Imports a dump, and exports the directory. Returns the summary and the export.
#[track_caller]
fn load(name: &str, ldif: &str, expected_code: i32) -> (String, String) {
    let scratch = Scratch::new(&format!("foreign-{name}"));
    let (file, data) = (scratch.write("dump.ldif", ldif), scratch.join("data"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg(arguments[0]).arg("--data").arg(&data).args(&arguments[1..]);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = run(&["import", "--suffix", SUFFIX, file.to_str().unwrap()]);
    assert_eq!(code, Some(expected_code), "{name}: {said}");
    let (code, checked) = run(&["verify"]);
    assert_eq!(code, Some(0), "{name}: {checked}");
    (said, run(&["export", "--operational"]).1)
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
}

#[test]
fn ldifde_of_active_directory() {
    let (said, kept) = load(
        "ad",
        "dn: DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: domain\ndc: example\n\
         objectGUID:: bjUEvdcSPUSmCQpZ0Uf+nA==\nwhenCreated: 20200102030405.0Z\nuSNCreated: 4099\ninstanceType: 5\n\n\
         dn: OU=Staff,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: organizationalUnit\n\
         ou: Staff\ndistinguishedName: OU=Staff,DC=example,DC=com\n\n\
         dn: CN=All\\, of us,OU=Staff,DC=example,DC=com\nobjectClass: groupOfNames\ncn: All, of us\n\
         name: All, of us\ndistinguishedName: CN=All\\, of us,OU=Staff,DC=example,DC=com\n\
         member;range=0-0: CN=Anna Ames,OU=Staff,DC=example,DC=com\n\
         member;range=1-*: OU=Staff,DC=example,DC=com\n\n\
         dn: CN=Some,OU=Staff,DC=example,DC=com\nobjectClass: groupOfNames\ncn: Some\nname: Some\n\
         member;range=0-0: CN=Anna Ames,OU=Staff,DC=example,DC=com\n\n\
         dn: CN=Kept,OU=Staff,DC=example,DC=com\nobjectClass: organizationalRole\nobjectClass: extensibleObject\n\
         cn: Kept\nname: Kept\n\n\
         dn: CN=Anna Ames,OU=Staff,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: person\n\
         objectClass: organizationalPerson\nobjectClass: inetOrgPerson\ncn: Anna Ames\nsn: Ames\n\
         userAccountControl: 514\npwdLastSet: 133485408000000000\naccountExpires: 9223372036854775807\n\
         badPwdCount: 0\nprimaryGroupID: 513\nwhenChanged: 20210102030405.0Z\n",
        0,
    );
    has(
        &said,
        &[
            "imported 6 entries of 6 records",
            "2 values of distinguishedName left out",
            "2 values of name left out",
            "3 values without the option range",
            "1 entries of which Active Directory gave only a part",
            "1 identifiers of another server",
            "1 disabled accounts locked",
            "values of uSNCreated left out",
            "values of instanceType left out",
            "values of primaryGroupID left out",
        ],
    );
    has(
        &kept,
        &[
            "entryUUID: bd04356e-12d7-443d-a609-0a59d147fe9c",
            "createTimestamp: 20200102030405",
            "pwdAccountLockedTime: 000001010000Z",
            "pwdChangedTime: 20240101000000Z",
            "member: cn=Anna Ames,ou=Staff,dc=example,dc=com\n",
            "member: ou=Staff,dc=example,dc=com\n",
            "name: Kept",
        ],
    );
    assert!(!kept.contains("changetype") && !kept.contains("userAccountControl"), "{kept}");
}

#[test]
fn ice_of_edirectory() {
    let (said, kept) = load(
        "edirectory",
        "version: 1\n\ndn: dc=example,dc=com\nchangetype: add\nobjectClass: domain\nobjectClass: top\ndc: example\n\
         ACL: 2#entry#[Root]#xmlData\nGUID:: AAECAwQFBgcICQoLDA0ODw==\n\n\
         dn: cn=bob,dc=example,dc=com\nchangetype: add\nobjectClass: inetOrgPerson\nobjectClass: organizationalPerson\n\
         objectClass: person\nobjectClass: top\ncn: bob\nsn: Brown\nloginDisabled: TRUE\nloginTime: 20230405060708Z\n\
         publicKey:: AAAA\nsecurityEquals: cn=admins,dc=example,dc=com\npasswordRequired: TRUE\n",
        0,
    );
    has(
        &said,
        &[
            "imported 2 entries of 2 records",
            "values of ACL left out",
            "values of publicKey left out",
            "values of securityEquals left out",
            "1 disabled accounts locked",
        ],
    );
    has(&kept, &["entryUUID: 03020100-0504-0706-0809-0a0b0c0d0e0f", "pwdLastSuccess: 20230405060708"]);
}

#[test]
fn db2ldif_of_sun_and_389_with_and_without_replication() {
    let plain = "version: 1\n\n# entry-id: 1\ndn: dc=example,dc=com\nnsUniqueId: 4f2a1c01-0c6a11ee-8a0fb8a1-c2d3e4f5\n\
                 objectClass: top\nobjectClass: domain\ndc: example\naci: (targetattr=\"*\")(version 3.0; acl \"a\"; \
                 allow (read) userdn=\"ldap:///anyone\";)\ncreatorsName: cn=directory manager\n\
                 createTimestamp: 20230101000000Z\n\n\
                 # entry-id: 2\ndn: uid=eva,dc=example,dc=com\nobjectClass: top\nobjectClass: inetOrgPerson\nuid: eva\n\
                 cn: Eva\nsn: Eva\nnsAccountLock: true\nnsRoleDN: cn=role,dc=example,dc=com\n\
                 passwordExpirationTime: 20240101000000Z\nuserPassword: {SSHA}SiFwmLuStANxZXs3YztqjoVuyg9M42h0\n";
    let (said, kept) = load("389", plain, 0);
    has(
        &said,
        &["1 identifiers", "values of aci left out", "values of nsRoleDN left out", "1 disabled accounts"],
    );
    has(&kept, &["entryUUID: 4f2a1c01-0c6a-11ee-8a0f-b8a1c2d3e4f5", "creatorsName: cn=directory manager"]);

    let csn = "64b0a1c2000000010000";
    let replicated = plain
        .replace("cn: Eva\n", &format!("cn;vucsn-{csn};mdcsn-{csn}: Eva\ntitle;vdcsn-{csn};deleted: old\n"))
        .replace("nsAccountLock: true\n", "")
        + &format!(
            "\n# entry-id: 3\ndn: nsuniqueid=4f2a1c02-0c6a11ee-8a0fb8a1-c2d3e4f5,uid=old,dc=example,dc=com\n\
             nsUniqueId: 4f2a1c02-0c6a11ee-8a0fb8a1-c2d3e4f5\nobjectClass;vucsn-{csn}: top\n\
             objectClass: inetOrgPerson\nobjectClass;vucsn-{csn}: nsTombstone\nuid: old\ncn: old\nsn: old\n\
             nsParentUniqueId: 4f2a1c01-0c6a11ee-8a0fb8a1-c2d3e4f5\n"
        );
    let (said, kept) = load("389-replica", &replicated, 0);
    has(
        &said,
        &[
            "imported 2 entries of 3 records",
            "1 entries left out that 389 DS has deleted",
            "1 values left out",
        ],
    );
    assert!(kept.contains("cn: Eva") && !kept.contains("vucsn") && !kept.contains("title"), "{kept}");
}

#[test]
fn export_ldif_of_opendj_with_and_without_replication() {
    let head = "dn: dc=example,dc=com\nobjectClass: top\nobjectClass: domain\ndc: example\n\
                entryUUID: 5aa38b5e-43f4-4aeb-bc2d-2f4b0c9f2a11\nds-sync-generation-id: 48\n\
                ds-sync-state: 0102018a1b2c3d4e0001000000ab\n\n";
    let person = "dn: uid=kim,dc=example,dc=com\nobjectClass: top\nobjectClass: inetOrgPerson\nuid: kim\ncn: Kim\n\
                  sn: Kim\nds-pwp-account-disabled: true\nds-pwp-last-login-time: 20230405060708Z\n\
                  ds-privilege-name: bypass-acl\n\
                  userPassword: {PBKDF2}1000:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==\n";
    let (said, kept) = load("opendj", &format!("{head}{person}"), 0);
    has(
        &said,
        &["values of ds-sync-state left out", "values of ds-privilege-name left out", "1 disabled accounts"],
    );
    has(&kept, &["entryUUID: 5aa38b5e-43f4-4aeb-bc2d-2f4b0c9f2a11", "pwdLastSuccess: 20230405060708"]);
    assert!(!said.contains("cannot be verified"), "{said}");
    let replicated = format!("{head}{person}ds-sync-hist: sn:0102018a1b2c3d4e0001000000ac:repl:Kim\n");
    let (said, _) = load("opendj-replica", &replicated, 0);
    has(&said, &["imported 2 entries of 2 records", "1 values of ds-sync-hist left out"]);
}

#[test]
fn dumps_of_ibm_and_oracle() {
    let ibm = "version: 1\n\ndn: dc=example,dc=com\nobjectclass: top\nobjectclass: domain\ndc: example\n\
               ibm-entryuuid: 9b2a7a40-1111-1026-8fdb-c8b3b1e2a3f4\naclentry: group:CN=READERS:normal:rsc\n\
               aclpropagate: TRUE\nentryowner: access-id:CN=ROOT\n\n\
               dn: cn=lea,dc=example,dc=com\nobjectclass: person\ncn: lea\nsn: lea\nibm-pwdAccountLocked: TRUE\n\
               ownersource: dc=example,dc=com\nuserpassword: {crypt}abNANd1rDfiNc\n";
    let (said, kept) = load("ibm", ibm, 0);
    has(
        &said,
        &["values of aclEntry left out", "values of ownerSource left out", "1 disabled accounts locked"],
    );
    has(&kept, &["entryUUID: 9b2a7a40-1111-1026-8fdb-c8b3b1e2a3f4"]);

    let oracle = "dn: dc=example,dc=com\nobjectclass: domain\ndc: example\norclguid: 0123456789ABCDEF0123456789ABCDEF\n\
                  orclaci: access to entry by * (browse)\n\ndn: cn=tom,dc=example,dc=com\nobjectclass: person\n\
                  cn: tom\nsn: tom\norclnormdn: cn=tom,dc=example,dc=com\nauthpassword;oid: {SASL/MD5}x\nshoeSize: 3\n";
    // An attribute that is in no table is data: it is never dropped silently.
    let (said, kept) = load("oracle", oracle, 6);
    has(&said, &["imported 1 entries of 2 records", "values of orclACI left out", "1 rejected"]);
    has(&kept, &["entryUUID: 01234567-89ab-cdef-0123-456789abcdef"]);
}
