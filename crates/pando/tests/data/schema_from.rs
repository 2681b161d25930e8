//! `pando import --schema-from`: imports the schema of the old server together with its data.

use test_support::clients::{self, Run};
use test_support::pando::program;
use test_support::slapd::Slapd;
use test_support::{SUFFIX, Scratch};

/// Definitions of 389 DS: internal attributes of that server, definitions for mail users, and `cn`, which Pando also
/// defines.
const OF_389: &str = "dn: cn=schema\n\
    attributeTypes: ( 2.16.840.1.113730.3.1.542 NAME 'nsUniqueId' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 \
    NO-USER-MODIFICATION USAGE directoryOperation )\n\
    attributeTypes: ( 2.16.840.1.113730.3.1.610 NAME 'nsAccountLock' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 \
    USAGE directoryOperation )\n\
    attributeTypes: ( 2.16.840.1.113730.3.1.55 NAME 'aci' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 \
    USAGE directoryOperation )\n\
    attributeTypes: ( 2.16.840.1.113730.3.1.13 NAME 'mailAlternateAddress' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n\
    attributeTypes: ( 2.5.4.3 NAME 'cn' SUP name SINGLE-VALUE )\n\
    objectClasses: ( 2.16.840.1.113730.3.2.3 NAME 'mailRecipient' SUP top AUXILIARY MAY mailAlternateAddress )\n";

/// Definitions that users of 389 DS have added. `revision` has the same name as an attribute of eDirectory.
const OF_USERS: &str = "dn: cn=schema\n\
    attributeTypes: ( 1.3.6.1.4.1.32473.1.1 NAME 'badge' SUP name X-ORIGIN 'user defined' )\n\
    attributeTypes: ( 1.3.6.1.4.1.32473.1.2 NAME 'revision' SUP name X-ORIGIN 'user defined' )\n\
    objectClasses: ( 1.3.6.1.4.1.32473.2.1 NAME 'badgeHolder' AUXILIARY MAY ( badge $ revision ) )\n";

const DUMP: &str = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\naci: (x)\n\
    nsUniqueId: 00000001-11112222-33334444-55556666\n\n\
    dn: uid=mia,dc=example,dc=com\nobjectClass: inetOrgPerson\nobjectClass: badgeHolder\nobjectClass: mailRecipient\n\
    uid: mia\ncn: Mia\nsn: Mia\nbadge: 4\nrevision: 7\nmailAlternateAddress: m@example.com\nnsAccountLock: true\n\
    nsUniqueId: 00000002-11112222-33334444-55556666\n";

fn pando(scratch: &Scratch, arguments: &[&str], more: &[&str]) -> Run {
    let data = scratch.join("data").display().to_string();
    let all = [&arguments[..1], &["--data", &data], &arguments[1..], more].concat();
    clients::run(program(), &all, "")
}

#[test]
fn an_import_reads_the_schema_folder_of_389_ds() {
    let scratch = Scratch::new("schema-from-389");
    std::fs::create_dir(scratch.join("schema")).unwrap();
    scratch.write("schema/50ns.ldif", OF_389);
    scratch.write("schema/99user.ldif", OF_USERS);
    let dump = scratch.write("dump.ldif", DUMP).display().to_string();
    let folder = scratch.join("schema").display().to_string();
    let load = ["import", "--suffix", SUFFIX, "--schema-from", &folder, &dump];
    pando(&scratch, &load, &[])
        .expect_code(0)
        .expect_error("50ns.ldif:6: \"cn\": stays as shipped: multi-valued, not single-valued")
        .expect_error("2 identifiers of another server")
        .expect_error("1 disabled accounts locked")
        .expect_error("1 values of aci left out")
        .expect_error("imported 2 entries of 2 records");
    let said = pando(&scratch, &["export", "--operational"], &[]).expect_code(0);
    for line in [
        "badge: 4",
        "revision: 7",
        "mailAlternateAddress: m@example.com",
        "pwdAccountLockedTime: 000001010000Z",
        "entryUUID: 00000002-1111-2222-3333-444455556666",
    ] {
        assert!(said.stdout.contains(line), "{line:?} is missing from {said}");
    }
    assert!(!said.stdout.contains("nsAccountLock") && !said.stdout.contains("nsUniqueId"), "{said}");
    // In a second run, the directory has the schema already.
    let again = pando(&scratch, &load, &["--replace"]).expect_code(0);
    assert!(!again.stderr.contains("schema text"), "{again}");
    // A changed definition replaces the earlier one, even in an existing directory.
    scratch.write(
        "schema/99user.ldif",
        OF_USERS.replace("badge $", "badge $ badgeColour $").replace(
            "objectClasses:",
            "attributeTypes: ( 1.3.6.1.4.1.32473.1.3 NAME 'badgeColour' SUP name )\nobjectClasses:",
        ),
    );
    pando(&scratch, &load, &["--replace"]).expect_code(0).expect_error("schema text 99user");
    scratch.write("schema/99user.ldif", OF_USERS);
    let quiet = pando(&scratch, &load, &["--replace", "--quiet"]).expect_code(0);
    assert_eq!(quiet.stderr, "", "no summary, and no notice about definitions");
    pando(&scratch, &["verify"], &[]).expect_code(0);
}

#[test]
fn an_import_combines_the_schemas_of_a_server_and_settings() {
    let scratch = Scratch::new("schema-from-server");
    let slapd = Slapd::start(&scratch, &[]);
    let url = format!("ldap://{}", slapd.address());
    let local =
        scratch.write("local.schema", "attributetype ( 1.3.6.1.4.1.32473.1.9 NAME 'house' SUP name )\n");
    let settings = format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [\"{}\"]\n", local.display());
    let settings = scratch.write("settings.toml", &settings).display().to_string();
    let entry =
        format!("dn: {SUFFIX}\nobjectClass: domain\nobjectClass: extensibleObject\ndc: example\nhouse: 1\n");
    let dump = scratch.write("dump.ldif", &entry).display().to_string();
    pando(&scratch, &["import", "--settings", &settings, "--schema-from", &url, &dump], &[])
        .expect_code(0)
        .expect_error("imported 1 entries");
    let stored = pando(&scratch, &["export", "--settings-only"], &[]).expect_code(0).stdout;
    for part in ["NAME 'house'", "NAME 'inetOrgPerson'", "[schema]"] {
        assert!(stored.contains(part), "{part:?} is missing");
    }
    assert!(!stored.contains("'olcDatabase'"), "slapd's own configuration is no part of it");
}

#[test]
fn unusable_schemas_change_nothing() {
    let scratch = Scratch::new("schema-from-wrong");
    let dump = scratch.write("dump.ldif", DUMP).display().to_string();
    let contradiction =
        "attributetype ( 2.5.4.49 NAME 'distinguishedName' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )\n";
    let wrong = scratch.write("wrong.schema", contradiction).display().to_string();
    let missing = scratch.join("missing.schema").display().to_string();
    for (source, reason) in [
        (wrong.as_str(), "wrong.schema:1: distinguishedName contradicts distinguishedName"),
        (&dump, "dump.ldif:1: there are no definitions of a schema"),
        (&missing, "cannot read"),
        ("ldap://127.0.0.1:1", "cannot connect"),
        ("ldap://", "cannot read the schema of ldap://"),
    ] {
        pando(&scratch, &["import", "--schema-from", source, &dump], &[]).expect_code(2).expect_error(reason);
        assert!(!scratch.join("data").exists(), "{source}");
    }
    // A definition can be left out.
    let both =
        scratch.write("both.schema", format!("{contradiction}{}", OF_USERS.replace("dn: cn=schema\n", "")));
    let both = both.display().to_string();
    let left = [
        "import",
        "--schema-from",
        &both,
        "--leave-out",
        "distinguishedName",
        "--leave-out",
        "mailRecipient",
    ];
    pando(&scratch, &left, &["--leave-out", "mailAlternateAddress", &dump])
        .expect_code(0)
        .expect_error("1 values of mailRecipient left out");
}
