//! Dumps in the forms that other servers write. Each dump is imported completely, and the summary reports the
//! attributes that belong to the other server.
//!
//! The texts are written by hand, in the form of each tool.

use std::process::Command;

use test_support::Scratch;
use test_support::pando::program;

/// Suffix of all dumps.
const SUFFIX: &str = "dc=example,dc=com";

/// Imports a dump, and exports the directory. Returns the summary and the export.
#[track_caller]
fn load(name: &str, ldif: &str, expected_code: i32) -> (String, String) {
    load_with(name, ldif, "", expected_code)
}

/// Does the same as [`load`], with a value of the setting `schema_files`.
#[track_caller]
fn load_with(name: &str, ldif: &str, schema_files: &str, expected_code: i32) -> (String, String) {
    let scratch = Scratch::new(&format!("foreign-{name}"));
    let (file, data) = (scratch.write("dump.ldif", ldif), scratch.join("data"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg(arguments[0]).arg("--data").arg(&data).args(&arguments[1..]);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let settings = format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [{schema_files}]\n");
    let settings = scratch.write("settings.toml", settings);
    let (code, said) = run(&["import", "--settings", settings.to_str().unwrap(), file.to_str().unwrap()]);
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
fn a_dump_by_ldifde_of_active_directory_loads() {
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

/// A dump of a whole small domain, as `ldifde -f` writes it, with the cases that other tests do not cover.
const DOMAIN: &str = "dn: DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: domain\n\
    objectClass: domainDNS\ndistinguishedName: DC=example,DC=com\ninstanceType: 5\nwhenCreated: 20200102030405.0Z\n\
    name: example\ndc: example\nobjectGUID:: bjUEvdcSPUSmCQpZ0Uf+nA==\nobjectSid:: AQQAAAAAAAUVAAAA\n\
    maxPwdAge: -36288000000000\nlockoutThreshold: 0\nwellKnownObjects: B:32:AA312825768811D1ADED00C04FD8D5CD:\n \
    CN=Computers,DC=example,DC=com\ngPLink: [LDAP://CN={31B2F340},CN=Policies,CN=System,DC=example,DC=com;0]\n\
    msDS-Behavior-Version: 7\nfSMORoleOwner: CN=NTDS Settings,CN=DC1,DC=example,DC=com\n\n\
    dn: CN=Computers,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: container\ncn: Computers\n\
    description: Default container\nshowInAdvancedViewOnly: FALSE\nname: Computers\nsystemFlags: -1946157056\n\n\
    dn: CN=WS1,CN=Computers,DC=example,DC=com\nobjectClass: top\nobjectClass: person\n\
    objectClass: organizationalPerson\nobjectClass: user\nobjectClass: computer\ncn: WS1\nname: WS1\n\
    userAccountControl: 4096\nsAMAccountName: WS1$\ndNSHostName: ws1.example.com\noperatingSystem: Windows 11 Pro\n\
    servicePrincipalName: HOST/WS1\nservicePrincipalName: HOST/ws1.example.com\nlocalPolicyFlags: 0\n\
    msDS-SupportedEncryptionTypes: 28\nlastLogonTimestamp: 133485408000000000\n\n\
    dn: OU=Sales,DC=example,DC=com\nobjectClass: top\nobjectClass: organizationalUnit\nou: Sales\nname: Sales\n\
    gPOptions: 1\nc: DE\nmanagedBy: CN=Anna Ames,OU=Sales,DC=example,DC=com\n\n\
    dn: CN=Anna Ames,OU=Sales,DC=example,DC=com\nobjectClass: top\nobjectClass: person\n\
    objectClass: organizationalPerson\nobjectClass: user\ncn: Anna Ames\ngivenName: Anna\nname: Anna Ames\n\
    memberOf: CN=Team,OU=Sales,DC=example,DC=com\nuSNCreated: 12\ncompany: Example\nco: Germany\ncountryCode: 276\n\
    proxyAddresses: SMTP:anna@example.com\nproxyAddresses: smtp:a@example.com\nextensionAttribute15: x\n\
    streetAddress: Main St 1\nuserAccountControl: 66048\naccountExpires: 0\nobjectSid:: AQQAAAAAAAUVAAAB\n\
    sAMAccountName: anna\nuserPrincipalName: anna@example.com\nthumbnailPhoto:: /9j/4A==\n\
    directReports: CN=Bea,OU=Sales,DC=example,DC=com\nmsDS-cloudExtensionAttribute20: y\n\
    unixHomeDirectory: /home/anna\nhomeDirectory: \\\\files\\anna\nlogonHours:: ////////////////////////////\n\n\
    dn: CN=Bea,OU=Sales,DC=example,DC=com\nobjectClass: top\nobjectClass: person\n\
    objectClass: organizationalPerson\nobjectClass: contact\ncn: Bea\nsn: B\nmail: bea@example.com\n\
    manager: CN=Anna Ames,OU=Sales,DC=example,DC=com\ntargetAddress: SMTP:bea@example.com\n\n\
    dn: CN=Team,OU=Sales,DC=example,DC=com\nobjectClass: top\nobjectClass: group\ncn: Team\ngroupType: -2147483646\n\
    sAMAccountName: Team\nsAMAccountType: 268435456\nmember: CN=Anna Ames,OU=Sales,DC=example,DC=com\n\n\
    dn: CN=Empty,OU=Sales,DC=example,DC=com\nobjectClass: top\nobjectClass: group\ncn: Empty\ngroupType: 2\n\n\
    dn: CN=S-1-5-11,CN=Computers,DC=example,DC=com\nobjectClass: top\nobjectClass: foreignSecurityPrincipal\n\
    cn: S-1-5-11\nobjectSid:: AQEAAAAAAAULAAAA\n";

#[test]
fn a_domain_loads_with_the_classes_of_active_directory() {
    let (said, kept) = load_with("ad-domain", DOMAIN, "\"active-directory\"", 0);
    has(&said, &["imported 9 entries of 9 records", "1 values of directReports left out"]);
    let parts = [
        "sAMAccountName: anna\n",
        "extensionAttribute15: x\n",
        "homeDirectory: \\\\files\\anna\n",
        "unixHomeDirectory: /home/anna\n",
        "managedBy: CN=Anna Ames,OU=Sales,DC=example,DC=com\n",
        "dNSHostName: ws1.example.com\n",
        "pwdLastSuccess: 20240101000000Z",
        "groupType: -2147483646\n",
    ];
    has(&kept, &parts);
}

#[test]
fn a_dump_by_ice_of_edirectory_loads() {
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
fn dumps_by_db2ldif_load_with_and_without_replication() {
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
fn dumps_of_opendj_load_with_and_without_replication() {
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
fn dumps_of_ibm_and_oracle_load() {
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
    // An attribute that is in none of the import's tables of foreign attributes is imported or rejected, but never
    // dropped silently.
    let (said, kept) = load("oracle", oracle, 6);
    has(&said, &["imported 1 entries of 2 records", "values of orclACI left out", "1 rejected"]);
    has(&kept, &["entryUUID: 01234567-89ab-cdef-0123-456789abcdef"]);
}
