//! Commands that maintain data: export, verify, compact, passwd, ldif.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ldap::ldif::{LdifBody, LdifReader};
use ldap::{ChangeOperation, Scope};
use test_support::clients::{self, Run, ldap_utility};
use test_support::pando::{Start, command, program};
use test_support::tree::{add, add_person, person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Values by attribute, by DN.
type Entries = BTreeMap<String, BTreeMap<String, Vec<Vec<u8>>>>;

fn entries_of(text: &str) -> Entries {
    let mut reader = LdifReader::new(text.as_bytes());
    let mut entries = Entries::new();
    while let Some(record) = reader.next_record().unwrap() {
        let LdifBody::Entry(values) = record.body else { panic!("a change at line {}", record.line) };
        let mut attributes: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for line in values.iter() {
            attributes.entry(line.description.to_owned()).or_default().push(line.value.to_vec());
        }
        assert!(entries.insert(record.dn.to_owned(), attributes).is_none(), "{} comes twice", record.dn);
    }
    entries
}

#[track_caller]
fn export(scratch: &Scratch, name: &str, arguments: &[&str]) -> String {
    let file = scratch.join(name);
    let mut all = vec!["export", "-o", file.to_str().unwrap()];
    all.extend(arguments);
    command(&all, Some(&Pando::data(scratch))).expect_code(0).expect_error("pando: exported");
    file.to_str().unwrap().to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap()
}

fn pando(arguments: &[&str], input: &str) -> Run {
    clients::run(program(), arguments, input)
}

#[test]
fn an_export_is_what_a_search_returns() {
    let scratch = Scratch::new("export");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let dn = format!("cn=æsa,ou=people,{SUFFIX}");
    add(&mut admin, &dn, &[("objectClass", "person"), ("cn", "æsa"), ("sn", " :"), ("description", "a\nb ")]);
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["*"]).unwrap().entries;
    let searched: Entries = found
        .into_iter()
        .map(|entry| {
            let attributes =
                entry.attributes.into_iter().map(|attribute| (attribute.description, attribute.values));
            (entry.dn, attributes.collect())
        })
        .collect();
    let running = export(&scratch, "running.ldif", &[]);
    assert_eq!(entries_of(&read(&running)), searched);
    assert!(read(&running).starts_with("version: 1\n# Pando export at log position "));
    let mode = std::fs::metadata(&running).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    drop(admin);
    assert!(server.stop().success());
    let stopped = export(&scratch, "stopped.ldif", &[]);
    assert_eq!(read(&stopped), read(&running), "the same data, the same text");
    for name in ["packed.ldif.gz", "packed.ldif.zst"] {
        let packed = export(&scratch, name, &[]);
        assert!(std::fs::read(&packed).unwrap() != std::fs::read(&stopped).unwrap());
        pando(&["ldif", "diff", &packed, &stopped], "").expect_code(0);
    }
    let groups = export(&scratch, "groups.ldif", &["--filter", "(member=*)", "--attributes", "cn"]);
    assert_eq!(entries_of(&read(&groups)).len(), 1);
    let printed = command(&["export", "--base", "ou=people,dc=example,dc=com"], Some(&Pando::data(&scratch)));
    assert_eq!(entries_of(&printed.expect_code(0).stdout).len(), 4);
    let left = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("partial")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_export_during_writes_contains_one_state() {
    let scratch = Scratch::new("export-moment");
    let server = Pando::start(&scratch);
    plant(&mut server.administrator());
    let stop = AtomicBool::new(false);
    let mut writer = server.administrator();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..u32::MAX {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Two entries are changed in sequence, so the second entry must never be ahead of the first.
                for uid in ["anna", "bert"] {
                    let text = number.to_string();
                    let changes = [
                        (ChangeOperation::Replace, "title", &[text.as_str()][..]),
                        (ChangeOperation::Replace, "description", &[text.as_str()][..]),
                    ];
                    assert!(writer.modify(&person_dn(uid), &changes).unwrap().is_success());
                }
                let name = format!("new{number}");
                add_person(&mut writer, &name);
                assert!(writer.delete(&person_dn(&name)).unwrap().is_success());
            }
        });
        let mut last = 0;
        for round in 0..8 {
            let file = export(&scratch, &format!("{round}.ldif"), &["--operational"]);
            let text = read(&file);
            let entries = entries_of(&text);
            let number = |uid: &str, name: &str| -> Option<u32> {
                let values = entries[&person_dn(uid)].get(name)?;
                String::from_utf8(values[0].clone()).unwrap().parse().ok()
            };
            let (anna, bert) = (number("anna", "title"), number("bert", "title"));
            assert_eq!(anna, number("anna", "description"));
            assert_eq!(bert, number("bert", "description"));
            assert!(anna == bert || anna == Some(bert.map_or(0, |bert| bert + 1)), "{anna:?} {bert:?}");
            for (dn, attributes) in &entries {
                assert!(
                    attributes.contains_key("entryUUID") && attributes.contains_key("objectClass"),
                    "{dn}"
                );
            }
            let heading = text.lines().nth(1).unwrap();
            let position: u64 = heading.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(position >= last, "{heading}");
            last = position;
        }
        stop.store(true, Ordering::Relaxed);
    });
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0).expect_output("nothing found");
}

#[test]
fn an_export_imported_gives_the_same_export() {
    let scratch = Scratch::new("round-trip");
    let server = Start::new(&scratch).arguments(&["--sample"]).ready();
    assert!(server.stop().success());
    let first = export(&scratch, "first.ldif", &["--operational"]);
    let other = scratch.join("other");
    command(&["import", "--suffix", SUFFIX, &first], Some(&other)).expect_code(0);
    let second = command(&["export", "--operational"], Some(&other)).expect_code(0).stdout;
    // Leave out the second line, which contains the position in the log.
    let without_position = |text: &str| {
        let lines = text.lines().enumerate().filter(|(place, _)| *place != 1).map(|(_, line)| line);
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(without_position(&read(&first)) == without_position(&second), "not the same text");
    command(&["verify"], Some(&other)).expect_code(0).expect_output("nothing found");
}

#[test]
fn ldapmodify_applies_the_differences_in_both_directions() {
    let scratch = Scratch::new("ldif-diff");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let first = export(&scratch, "first.ldif", &[]);
    let title = (ChangeOperation::Add, "title", &["boss", "chief"][..]);
    let sn = (ChangeOperation::Replace, "sn", &["other"][..]);
    assert!(admin.modify(&person_dn("anna"), &[title, sn]).unwrap().is_success());
    assert!(admin.delete(&person_dn("bert")).unwrap().is_success());
    add_person(&mut admin, "carl");
    add(&mut admin, &format!("ou=deep,{SUFFIX}"), &[("objectClass", "organizationalUnit"), ("ou", "deep")]);
    add(&mut admin, &format!("cn=x,ou=deep,{SUFFIX}"), &[("objectClass", "device"), ("cn", "x")]);
    let second = export(&scratch, "second.ldif", &[]);
    for (from, to) in [(&second, &first), (&first, &second)] {
        let changes = pando(&["ldif", "diff", from, to], "").expect_code(1).stdout;
        ldap_utility("ldapmodify", server.address(), &["-c"], &changes).expect_code(0);
        let now = export(&scratch, "now.ldif", &[]);
        pando(&["ldif", "diff", &now, to], "").expect_code(0);
    }
}

#[test]
fn hashes_printed_by_pando_passwd_are_accepted_in_binds() {
    let scratch = Scratch::new("passwd");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    for scheme in ["argon2id", "ssha", "ssha256", "ssha512", "pbkdf2-sha256", "clear"] {
        let password = format!("grün {scheme}");
        let stored = pando(&["passwd", "--scheme", scheme], &format!("{password}\n")).expect_code(0).stdout;
        let stored = stored.strip_suffix('\n').unwrap();
        assert_eq!(stored.contains(&password), scheme == "clear", "{stored}");
        let change = (ChangeOperation::Replace, "userPassword", &[stored][..]);
        assert!(admin.modify(&person_dn("anna"), &[change]).unwrap().is_success());
        assert!(server.connect().bind(&person_dn("anna"), &password).unwrap().is_success(), "{scheme}");
        assert!(!server.connect().bind(&person_dn("anna"), "other").unwrap().is_success(), "{scheme}");
    }
    pando(&["passwd"], "\n").expect_code(2).expect_error("the password is empty");
    pando(&["passwd", "--scheme", "rot13"], "x\n").expect_code(2).expect_error("choose argon2id");
}

#[test]
fn compact_keeps_everything() {
    let scratch = Scratch::new("compact");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    for number in 0..100 {
        add_person(&mut admin, &format!("gone{number}"));
    }
    for number in 0..100 {
        assert!(admin.delete(&person_dn(&format!("gone{number}"))).unwrap().is_success());
    }
    let data = Pando::data(&scratch);
    for refused in [&["compact"][..], &["verify", "--repair"]] {
        command(refused, Some(&data)).expect_code(3).expect_error("in use by process");
    }
    drop(admin);
    assert!(server.stop().success());
    let before = read(&export(&scratch, "before.ldif", &["--operational"]));
    command(&["compact"], Some(&data)).expect_code(0).expect_output("compacted from");
    command(&["verify"], Some(&data)).expect_code(0).expect_output("nothing found in 6 entries");
    command(&["verify", "--repair"], Some(&data)).expect_code(0).expect_output("nothing left in 6 entries");
    assert_eq!(read(&export(&scratch, "after.ldif", &["--operational"])), before);
    let server = Pando::start(&scratch);
    assert!(server.administrator().entry(&person_dn("anna"), &["cn"]).unwrap().is_some());
}

#[test]
fn flipped_bytes_are_found_and_never_exported() {
    const MARK: &[u8] = b"a text that stands nowhere else";
    let scratch = Scratch::new("flipped");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let mark = std::str::from_utf8(MARK).unwrap();
    let change = (ChangeOperation::Replace, "description", &[mark][..]);
    assert!(admin.modify(&person_dn("anna"), &[change]).unwrap().is_success());
    drop(admin);
    assert!(server.stop().success());
    let data = Pando::data(&scratch);
    // Damage the text in the entry, in the log, and in pages that have become free.
    let mut bytes = std::fs::read(data.join("data.mdb")).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - MARK.len()).filter(|at| bytes[*at..].starts_with(MARK)).collect();
    assert!(places.len() >= 2);
    places.iter().for_each(|place| bytes[*place] ^= 1);
    std::fs::write(data.join("data.mdb"), bytes).unwrap();

    let found = command(&["verify"], Some(&data)).expect_code(1).expect_error("2 findings, 0 of them");
    found.expect_output("its attributes are damaged").expect_output("log: ");
    let repaired = command(&["verify", "--repair"], Some(&data)).expect_code(1);
    repaired.expect_output("cannot be repaired: entry").expect_error("2 findings cannot be repaired");
    let file = scratch.join("out.ldif");
    let exported = command(&["export", "-o", file.to_str().unwrap()], Some(&data)).expect_code(4);
    exported.expect_error("the data is damaged");
    let left = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("out.ldif")));
}

#[test]
fn ldif_files_are_checked_and_counted() {
    let scratch = Scratch::new("ldif");
    let good = scratch.write(
        "good.ldif",
        "version: 1\n\ndn: o=a\nobjectClass: organization\no: a\n\ndn: cn=x,o=a\nchangetype: delete\n",
    );
    let good = good.to_str().unwrap();
    pando(&["ldif", "check", good], "").expect_code(0).expect_output("nothing found in 2 records");
    let counted = pando(&["ldif", "count", good], "").expect_code(0);
    counted.expect_output("1 entries\n").expect_output("1 deletions\n").expect_output("2 values");
    let bad = scratch.write(
        "bad.ldif",
        "dn: o=a\nobjectClass: organization\no: a\nshoeSize: 4\n\nnonsense\n\ndn: ,\nchangetype: delete\n",
    );
    let bad = bad.to_str().unwrap();
    let checked = pando(&["ldif", "check", bad], "").expect_code(1).expect_error("3 findings");
    let checked = checked.expect_output("bad.ldif:4: attribute type \"shoeSize\" is not in the schema");
    checked.expect_output("bad.ldif:6: ").expect_output("bad.ldif:8: ");
    pando(&["ldif", "check", "--text-only", bad], "").expect_code(1).expect_error("2 findings");
    let schema =
        "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'shoeSize' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )\n";
    let schema = scratch.write("shoes.schema", schema);
    let with_schema = ["ldif", "check", "--schema", schema.to_str().unwrap(), "-"];
    let input = "dn: o=a\nobjectClass: organization\nobjectClass: extensibleObject\no: a\nshoeSize: 4\n";
    pando(&with_schema, input).expect_code(0);
    pando(&["ldif", "diff", good, bad], "")
        .expect_code(2)
        .expect_error("the first file, line 7: this is a change record");
}

#[test]
fn bad_arguments_have_messages() {
    let scratch = Scratch::new("tools-arguments");
    let server = Pando::start(&scratch);
    plant(&mut server.administrator());
    let data = Pando::data(&scratch);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["export", "--filter", "(cn"], 2, "octet 3"),
        (&["export", "--base", "nonsense"], 2, "is no DN"),
        (
            &["export", "--base", "ou=nowhere,dc=example,dc=com"],
            2,
            "the base \"ou=nowhere,dc=example,dc=com\" does not exist",
        ),
        (&["export", "--attributes", "cn,nonsense"], 2, "\"nonsense\" is not in the schema"),
        (&["export", "--compress", "rar"], 2, "gz, zst"),
        (&["export", "-o", "/nonexistent/file"], 1, "cannot write /nonexistent/file"),
        (&["export", "-o", "/dev/full"], 1, "cannot write /dev/full: No space left"),
        (&["verify", "--node", "/nonexistent/file"], 2, "cannot read /nonexistent/file"),
    ];
    for (arguments, code, text) in cases {
        command(arguments, Some(&data)).expect_code(*code).expect_error(text);
    }
    for verb in ["export", "verify", "compact"] {
        command(&[verb], Some(Path::new("/nonexistent")))
            .expect_code(4)
            .expect_error("contains no Pando database");
        pando(&[verb], "").expect_code(2).expect_error("no data directory");
        pando(&["help", verb], "").expect_code(0).expect_output("Example");
    }
    pando(&["ldif", "count", "/nonexistent"], "").expect_code(2).expect_error("cannot read /nonexistent");
    pando(&["ldif"], "").expect_code(2).expect_error("diff");
}
