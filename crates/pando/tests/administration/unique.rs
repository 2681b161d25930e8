//! Uniqueness rules and next numbers on the real server, with simultaneous clients, and the duplicates that commands
//! report.

use std::sync::atomic::{AtomicU32, Ordering};

use ldap::{ResultCode, Scope};
use test_support::clients::ldap_utility;
use test_support::pando::command;
use test_support::tree::{plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

const CLIENTS: u32 = 64;
const VALUES: u32 = 40;

/// All clients try to add entries with the same mail addresses, which a uniqueness rule covers.
#[test]
fn each_unique_value_is_added_by_one_of_64_clients() {
    let scratch = Scratch::new("unique-clients");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    replace(&mut admin, "cn=config", "pandoUnique", &["names: mail"]);
    let (won, lost) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (mut connection, won, lost) = (pando.administrator(), &won, &lost);
            scope.spawn(move || {
                for value in 0..VALUES {
                    let name = format!("{client}-{value}");
                    let (dn, mail) = (format!("uid={name},ou=people,{SUFFIX}"), format!("{value}@x"));
                    let attributes =
                        [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "x"), ("mail", mail.as_str())];
                    match connection.add(&dn, &attributes).unwrap().code {
                        ResultCode::SUCCESS => won.fetch_add(1, Ordering::Relaxed),
                        ResultCode::CONSTRAINT_VIOLATION => lost.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{dn}: {other:?}"),
                    };
                }
            });
        }
    });
    assert_eq!((won.into_inner(), lost.into_inner()), (VALUES, VALUES * (CLIENTS - 1)));
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(mail=*)", &["mail"]).unwrap();
    let mut mails: Vec<_> = found.entries.iter().flat_map(|entry| entry.texts("mail")).collect();
    mails.sort_unstable();
    mails.dedup();
    assert_eq!((found.entries.len(), mails.len()), (VALUES as usize, VALUES as usize));
}

/// Each add gets a different number, which the post-read control returns.
#[test]
fn simultaneous_clients_get_different_numbers() {
    let scratch = Scratch::new("next-numbers");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    replace(&mut admin, "cn=config", "pandoNextNumber", &["posix: uidNumber from 1000 to 9999"]);
    let ldif = |name: &str| {
        format!(
            "dn: uid={name},ou=people,{SUFFIX}\nobjectClass: account\nobjectClass: posixAccount\ncn: x\n\
             homeDirectory: /\ngidNumber: 1\nuidNumber: {{next}}\n"
        )
    };
    let first = ldap_utility("ldapadd", pando.address(), &["-e", "!postread=uidNumber"], &ldif("first"));
    first.expect_code(0).expect_output("uidNumber: 1000");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut connection = pando.administrator();
            scope.spawn(move || {
                for number in 0..10 {
                    let dn = format!("uid={client}-{number},ou=people,{SUFFIX}");
                    let attributes = [
                        ("objectClass", "account"),
                        ("objectClass", "posixAccount"),
                        ("cn", "x"),
                        ("homeDirectory", "/"),
                        ("gidNumber", "1"),
                        ("uidNumber", "{next}"),
                    ];
                    assert!(connection.add(&dn, &attributes).unwrap().is_success());
                }
            });
        }
    });
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(uidNumber=*)", &["uidNumber"]).unwrap();
    let mut numbers: Vec<u32> = found
        .entries
        .iter()
        .flat_map(|entry| entry.texts("uidNumber"))
        .map(|text| text.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(1000..=1000 + 10 * CLIENTS));
}

#[test]
fn commands_report_existing_duplicates() {
    let scratch = Scratch::new("unique-duplicates");
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n");
    for (name, mail) in [("a", "1@x"), ("b", "1@X"), ("c", "2@x"), ("d", "2@x"), ("e", "3@x")] {
        ldif +=
            &format!("\ndn: uid={name},{SUFFIX}\nobjectClass: inetOrgPerson\ncn: x\nsn: x\nmail: {mail}\n");
    }
    let ldif = scratch.write("data.ldif", ldif);
    let data = Pando::data(&scratch);
    let text = "unique = [\"all: mail\", \"people: mail matching '(!(uid=d))'\", \"uids: uid\"]\n";
    let settings = scratch.write("settings.toml", text);
    let (settings, ldif) = (settings.to_str().unwrap(), ldif.to_str().unwrap());
    let all = format!(
        "uniqueness rule \"all\": 2 values are in several entries, which keep them: \"uid=a,{SUFFIX}\" and \
         \"uid=b,{SUFFIX}\"; \"uid=c,{SUFFIX}\" and \"uid=d,{SUFFIX}\""
    );
    let some = "uniqueness rule \"people\": 1 value is in several entries";
    let import = ["import", "--settings", settings, "--suffix", SUFFIX, ldif];
    let imported = command(&import, Some(&data)).expect_code(0);
    imported.expect_error(&all).expect_error(some);
    let verified = command(&["verify"], Some(&data)).expect_code(0);
    assert!(!verified.stdout.contains("uids"), "{verified}");
    verified.expect_output(&all).expect_output("nothing found");
    let doctor = command(&["doctor"], Some(&data));
    doctor.expect_output(&format!("warning  duplicates     {all}")).expect_output(some);

    let none = scratch.write("none.toml", "unique = []\n");
    command(&["apply", none.to_str().unwrap()], Some(&data)).expect_code(0);
    let planned = command(&["plan", settings], Some(&data)).expect_code(0);
    planned.expect_output(&format!("note: {all}\n")).expect_output("changes unique");
    command(&["apply", settings], Some(&data)).expect_code(0).expect_output(&all);
    let wrong = scratch.write("wrong.toml", "\nunique = [\"all: mail\",\n\"b: title\"]\n");
    command(&["plan", wrong.to_str().unwrap()], Some(&data))
        .expect_code(2)
        .expect_error("wrong.toml:3: uniqueness rule \"b: title\": title has no equality index");
}
