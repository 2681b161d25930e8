//! Secrets of other software in a directory, such as Samba hashes and Kerberos keys. Only two kinds of requesters can
//! see a secret: the administrator, and requesters with a rule that names the attribute. No request may reveal a secret
//! to anyone else.

use ldap::{ChangeOperation, ResultCode};
use test_support::clients::{Run, ldap_utility, run};
use test_support::pando::{Start, command};
use test_support::tree::{person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

/// The attribute types with their official OIDs, as in the schemas of Samba and MIT Kerberos.
const SCHEMA: &str = "attributetype ( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' EQUALITY caseIgnoreIA5Match \
                      SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
                      attributetype ( 2.16.840.1.113719.1.301.4.39.1 NAME 'krbPrincipalKey' EQUALITY \
                      octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )\n\
                      objectclass ( 1.3.6.1.4.1.99999.9.1 NAME 'keyHolder' AUXILIARY \
                      MAY ( sambaNTPassword $ krbPrincipalKey ) )\n";
const HASH: &str = "8846F7EAEE8FB117AD06BDD830B7586C";
const KEY: &str = "key-of-bert";

fn as_anna(pando: &Pando, program: &str, arguments: &[&str], input: &str) -> Run {
    let url = format!("ldap://{}", pando.address());
    let bound = ["-x", "-H", &url, "-D", &person_dn("anna"), "-w", "anna-secret"];
    run(program, &[&bound[..], arguments].concat(), input)
}

fn reveals_secret(run: &Run) -> bool {
    let said = format!("{}{}", run.stdout, run.stderr);
    // ldapsearch may print the key in base64.
    [HASH, KEY, "a2V5LW9mLWJlcnQ"].iter().any(|secret| said.contains(secret))
}

/// Regression test: every user could read the Samba hashes and Kerberos keys of all users.
#[test]
fn hashes_and_keys_of_other_software_are_secrets() {
    let scratch = Scratch::new("access-secrets");
    let folder = scratch.join("trail");
    let node = format!("[audit]\nfolder = \"{}\"\nvalues = \"all\"\n", folder.display());
    let mut pando = Start::with_node(&scratch, node).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let schema = [("objectClass", "pandoSchema"), ("cn", "keys"), ("pandoSchemaText", SCHEMA)];
    assert!(admin.add("cn=keys,cn=schema,cn=config", &schema).unwrap().is_success());
    for dn in [&anna, &bert] {
        assert!(
            admin
                .modify(dn, &[(ChangeOperation::Add, "objectClass", &["keyHolder"][..])])
                .unwrap()
                .is_success()
        );
    }
    replace(&mut admin, &bert, "sambaNTPassword", &["00000000000000000000000000000000"]);
    replace(&mut admin, &bert, "sambaNTPassword", &[HASH]);
    replace(&mut admin, &bert, "krbPrincipalKey;x-old", &[KEY]);

    // No kind of request may reveal the secrets.
    let names = [
        "*",
        "+",
        "@keyHolder",
        "sambaNTPassword",
        "2.16.840.1.113719.1.301.4.39.1",
        "krbPrincipalKey;x-old",
    ];
    let searches: [&[&str]; 7] = [
        &[],
        &["-E", "sync=ro"],
        &["-E", "mv=(sambaNTPassword=*)"],
        &["-E", "sss=sambaNTPassword"],
        &["-E", "sss=sambaNTPassword:caseIgnoreIA5Match"],
        &["-E", "deref=member:sambaNTPassword,krbPrincipalKey"],
        &["-E", "pr=1/noprompt"],
    ];
    let by_hash = format!("(sambaNTPassword={HASH})");
    for search in searches {
        let ask = |filter: &str| {
            let found = as_anna(
                &pando,
                "ldapsearch",
                &[&["-LLL", "-b", SUFFIX], search, &[filter], &names].concat(),
                "",
            );
            assert!(!reveals_secret(&found), "{search:?} {filter}: {found}");
            found
        };
        assert!(ask("(objectClass=*)").stdout.contains("dn: uid=bert"), "{search:?}");
        for filter in [&by_hash[..], "(krbPrincipalKey=*)", "(!(sambaNTPassword=0))", "(sambaNTPassword=8*)"]
        {
            assert!(!ask(filter).stdout.contains("uid=bert"), "{search:?} {filter}");
        }
    }
    for compared in [format!("sambaNTPassword:{HASH}"), "sambaNTPassword:0".to_owned()] {
        as_anna(&pando, "ldapcompare", &[&bert, &compared], "").expect_code(50);
    }
    let change =
        format!("dn: {anna}\nchangetype: modify\nreplace: userPassword\nuserPassword: anna-secret\n");
    let copied =
        as_anna(&pando, "ldapmodify", &["-e", "postread=*,sambaNTPassword", "-e", "preread=*"], &change);
    assert!(!reveals_secret(&copied.expect_code(0)));
    let set = format!("dn: {anna}\nchangetype: modify\nreplace: sambaNTPassword\nsambaNTPassword: {HASH}\n");
    as_anna(&pando, "ldapmodify", &[], &set).expect_code(50);

    // The administrator sees the secrets, and an export contains them.
    let found =
        ldap_utility("ldapsearch", pando.address(), &["-b", SUFFIX, &by_hash, "*"], "").expect_code(0);
    assert!(reveals_secret(&found), "{found}");
    let exported = command(&["export"], Some(&Pando::data(&scratch))).expect_code(0);
    assert!(exported.stdout.contains(HASH), "an export is the administrator's");

    // A rule permits access to a secret attribute only if it names the attribute.
    let rules = ["all: allow read to authenticated", "own: allow write of userPassword to self"];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules);
    assert!(!reveals_secret(
        &as_anna(&pando, "ldapsearch", &["-b", SUFFIX, "(objectClass=*)", "*"], "").expect_code(0)
    ));
    let radius = format!("radius: allow read of sambaNTPassword in 'ou=people,{SUFFIX}' to user '{anna}'");
    replace(&mut admin, "cn=config", "pandoAccessRule", &[rules[0], rules[1], &radius]);
    let found = as_anna(&pando, "ldapsearch", &["-b", SUFFIX, &by_hash, "*"], "").expect_code(0);
    assert!(found.stdout.contains(HASH) && !found.stdout.contains("krbPrincipalKey"), "{found}");

    // Neither the log nor the audit trail contains the secrets, although the trail is configured to record values.
    let (log, said) = (pando.log(), pando.output());
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let trail = command(&["audit", "--json", "--folder", folder.to_str().unwrap()], None).expect_code(0);
    assert!(trail.stdout.contains("sambaNTPassword") && trail.stdout.contains("keyHolder"), "{trail}");
    for text in [&log, &said, &trail.stdout] {
        assert!(!text.contains(HASH) && !text.contains(KEY) && !text.contains("0000000000"), "{text}");
    }
}

/// The list of secret attributes is a setting. It may name attributes that the schema does not have yet.
#[test]
fn secret_attributes_are_a_setting() {
    let scratch = Scratch::new("access-secret-list");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let bert = person_dn("bert");
    replace(&mut admin, &bert, "employeeNumber", &["4711"]);
    let mut anna = pando.connect();
    assert!(anna.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    let mut number = || anna.entry(&bert, &["*"]).unwrap().unwrap().text("employeeNumber");
    assert_eq!(number().as_deref(), Some("4711"));
    let config = admin.entry("cn=config", &["*"]).unwrap().unwrap();
    let listed = config.texts("pandoSecretAttribute");
    for name in
        ["sambaNTPassword", "sambaLMPassword", "krbPrincipalKey", "krbMKey", "krbPwdHistory", "unicodePwd"]
    {
        assert!(listed.iter().any(|listed| listed == name), "{name}");
    }
    let add: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Add, "pandoSecretAttribute", &["employeeNumber", "not-yet"])];
    assert!(admin.modify("cn=config", add).unwrap().is_success());
    assert_eq!(number(), None);
    let wrong: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "pandoSecretAttribute", &["member"])];
    assert_eq!(admin.modify("cn=config", wrong).unwrap().code, ResultCode::CONSTRAINT_VIOLATION);
    let delete: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Delete, "pandoSecretAttribute", &["employeeNumber"])];
    assert!(admin.modify("cn=config", delete).unwrap().is_success());
    assert_eq!(number().as_deref(), Some("4711"));
    let text = command(&["export", "--settings-only"], Some(&Pando::data(&scratch))).expect_code(0);
    text.expect_output("secret_attributes = [").expect_output("\"not-yet\"");
}
