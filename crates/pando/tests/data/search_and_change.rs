//! `pando search` and `pando change` with Pando and with Debian's slapd.

use bench::peers::Amendments;
use client::Connection;
use ldap::ldif::LdifReader;
use ldap::{ChangeOperation, Scope};
use test_support::clients::{Run, run};
use test_support::pando::{command, program};
use test_support::slapd::Slapd;
use test_support::tree::{add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn search(scratch: &Scratch, arguments: &[&str]) -> Run {
    command(&[&["search"], arguments].concat(), Some(&Pando::data(scratch)))
}

/// Runs `pando change` with a text as its standard input.
fn change(scratch: &Scratch, arguments: &[&str], text: &str) -> Run {
    let data = Pando::data(scratch);
    let all = [&["change", "--data", data.to_str().unwrap()], arguments].concat();
    run(program(), &all, text)
}

/// Returns the DNs of an LDIF text, sorted.
fn dns(ldif: &str) -> Vec<String> {
    let mut reader = LdifReader::new(ldif.as_bytes());
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        found.push(record.dn.to_owned());
    }
    found.sort();
    found
}

/// Reads lines of JSON.
fn json(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn exists(admin: &mut Connection, dn: &str) -> bool {
    admin.entry(dn, &["1.1"]).unwrap().is_some()
}

fn start_with_tree(scratch: &Scratch) -> (Pando, Connection) {
    let pando = Pando::start(scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    (pando, admin)
}

#[test]
fn every_entry_is_found_in_pages_and_in_each_form() {
    let scratch = Scratch::new("search-all");
    let mut people = String::new();
    for number in 0..1_100 {
        people += &format!(
            "dn: {}\nobjectClass: inetOrgPerson\ncn: p\nsn: p\n\n",
            person_dn(&format!("p{number}"))
        );
    }
    let file = scratch.write("people.ldif", format!("{TREE}{people}"));
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&Pando::data(&scratch)))
        .expect_code(0);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    let all = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    let mut expected: Vec<String> = all.entries.into_iter().map(|entry| entry.dn).collect();
    expected.sort();
    let ldif = search(&scratch, &[]).expect_code(0).stdout;
    assert_eq!(dns(&ldif), expected);
    let lines = search(&scratch, &["--json", "(uid=p*)", "uid"]).expect_code(0).stdout;
    let json = json(&lines);
    assert_eq!(json.len(), 1_100);
    assert!(json.iter().all(|entry| entry["attributes"]["uid"][0].is_string()), "{json:?}");
    let sorted = search(&scratch, &["--table", "--sort=-uid", "(uid=p*)", "uid"]).expect_code(0).stdout;
    let mut uids: Vec<&str> =
        sorted.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((uids.len(), uids.first()), (1_100, Some(&"p999")));
    uids.reverse();
    assert!(uids.is_sorted(), "across pages too");
}

#[test]
fn values_are_printed_safely_in_each_format() {
    let scratch = Scratch::new("search-values");
    let (_pando, mut admin) = start_with_tree(&scratch);
    let anna = person_dn("anna");
    replace(&mut admin, &anna, "description", &["Jürgen's \u{1b}[2J"]);
    replace(&mut admin, &anna, "title", &["\u{1b}[2Jlead\u{7f}"]);
    let photo: &[u8] = &[0xff, 0xd8, 0xff, 0xe0, 0];
    let mut changes = ldap::ChangesBuf::new();
    changes.push(ChangeOperation::Replace, "jpegPhoto", [photo]);
    let request = ldap::ModifyRequest { object: &anna, changes: changes.as_changes() };
    let made = admin.request(ldap::Request::Modify(request), ldap::Controls::NONE).unwrap().outcome;
    assert!(made.is_success(), "{made:?}");
    let wanted = ["(uid=anna)", "jpegPhoto", "description", "title"];
    let lines = search(&scratch, &[&["--json"], &wanted[..]].concat()).expect_code(0).stdout;
    let json = json(&lines);
    assert_eq!(json[0]["dn"], anna);
    assert_eq!(json[0]["attributes"]["jpegPhoto"][0]["base64"], "/9j/4AA=");
    assert_eq!(json[0]["attributes"]["description"][0], "Jürgen's \u{1b}[2J");
    let table = search(&scratch, &[&["--table"], &wanted[..]].concat()).expect_code(0).stdout;
    assert!(table.contains("(5 octets)") && table.contains("Jürgen's \u{fffd}[2J"), "{table}");
    assert!(!table.contains('\u{1b}'), "no value reaches a terminal as a command");
    let ldif = search(&scratch, &wanted).expect_code(0).stdout;
    assert!(ldif.contains("jpegPhoto:: /9j/4AA=") && ldif.contains("title:: G1sySmxlYWR/"), "{ldif}");
    assert!(!ldif.contains(['\u{1b}', '\u{7f}']), "{ldif}");
    search(&scratch, &["--json", "(uid=norbert)"]).expect_code(0).expect_output("");
}

#[test]
fn limits_and_errors_have_exit_codes() {
    let scratch = Scratch::new("search-limits");
    let (pando, _admin) = start_with_tree(&scratch);
    let three = search(&scratch, &["--limit", "3", "(objectClass=*)", "1.1"]).expect_code(0).stdout;
    assert_eq!(dns(&three).len(), 3);
    search(&scratch, &["--base", "ou=nowhere,dc=example,dc=com"]).expect_code(1).expect_error("noSuchObject");
    search(&scratch, &["(uid=anna"]).expect_code(2);
    search(&scratch, &["--table", "(uid=anna)"]).expect_code(2).expect_error("ATTRIBUTE");
    search(&scratch, &["--sort", "jpegPhoto", "--base", SUFFIX]).expect_code(1).expect_error("refuses");
    let root = search(&scratch, &["--scope", "base", "(objectClass=*)", "namingContexts"]);
    root.expect_code(0).expect_output(&format!("namingContexts: {SUFFIX}"));
    command(&["search", "--url", "ldap://127.0.0.1:1"], None).expect_code(1).expect_error("cannot connect");
    let url = format!("ldap://{}", pando.address());
    let file = scratch.write("password", "anna-secret\n");
    let anna = person_dn("anna");
    // The environment can contain the identity and the name of the password file. It never contains the password.
    let environment = [
        &format!("PANDO_BIND_DN={anna}"),
        &format!("PANDO_BIND_PASSWORD_FILE={}", file.display()),
        program(),
        "search",
        "--url",
        &url,
        "--base",
        &anna,
    ];
    run("env", &environment, "").expect_code(0).expect_output("dn: uid=anna");
}

const TREE: &str = "\
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

";

const CHANGES: &str = "\
dn: uid=carla,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: Carla
sn: C

dn: uid=carla,ou=people,dc=example,dc=com
changetype: modify
replace: description
description: new
-

dn: uid=norbert,ou=people,dc=example,dc=com
changetype: delete

dn: uid=bert,ou=people,dc=example,dc=com
changetype: modrdn
newrdn: uid=berta
deleteoldrdn: 1
";

#[test]
fn changes_stop_at_the_first_that_is_refused_and_continue_from_the_rejects() {
    let scratch = Scratch::new("change");
    let (_pando, mut admin) = start_with_tree(&scratch);
    let rejects = scratch.join("rejects.ldif");
    let path = rejects.to_str().unwrap();
    let run = change(&scratch, &["--rejects", path], CHANGES).expect_code(1);
    let run = run.expect_error("standard input:12: delete uid=norbert").expect_error("noSuchObject");
    assert_eq!(run.stdout.lines().count(), 2, "{run}");
    let (berta, norbert) = (person_dn("berta"), person_dn("norbert"));
    assert!(!exists(&mut admin, &berta));
    let text = std::fs::read_to_string(&rejects).unwrap();
    assert!(text.contains("# the server refuses that: noSuchObject"), "{text}");
    assert_eq!(dns(&text), [person_dn("bert"), norbert.clone()]);
    change(&scratch, &["--rejects", path, path], "").expect_code(2).expect_error("exists");
    // Once the cause is removed, the remaining changes succeed.
    add_person(&mut admin, "norbert");
    change(&scratch, &[path], "").expect_code(0).expect_error("2 changes made, 0 refused");
    assert!(exists(&mut admin, &berta) && !exists(&mut admin, &norbert));
    let description = admin.entry(&person_dn("carla"), &["description"]).unwrap().unwrap();
    assert_eq!(description.text("description").as_deref(), Some("new"));
}

#[test]
fn changes_continue_after_one_that_is_refused() {
    let scratch = Scratch::new("change-on");
    let (_pando, mut admin) = start_with_tree(&scratch);
    let rejects = scratch.join("rejects.ldif");
    let broken = format!("dn: cn=x\nchangetype: nonsense\n\n{CHANGES}");
    change(&scratch, &[], &broken).expect_code(2).expect_error("standard input:");
    assert!(!exists(&mut admin, &person_dn("carla")));
    let arguments = ["--keep-going", "--json", "--rejects", rejects.to_str().unwrap()];
    let run = change(&scratch, &arguments, &broken).expect_code(6).expect_error("3 changes made, 2 refused");
    let json = json(&run.stdout);
    let results: Vec<&str> = json.iter().filter_map(|change| change["result"].as_str()).collect();
    assert_eq!(results, ["made", "made", "refused", "made"]);
    assert!(exists(&mut admin, &person_dn("berta")));
    let text = std::fs::read_to_string(&rejects).unwrap();
    assert_eq!(dns(&text), [person_dn("norbert")]);
    assert!(text.contains("# standard input:"), "{text}");
    let quiet =
        change(&scratch, &["--quiet"], "dn: uid=carla,ou=people,dc=example,dc=com\nchangetype: delete\n");
    let quiet = quiet.expect_code(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

/// Regression test: a record that is not LDIF ended the command, and it and the records after it were in no file.
#[test]
fn rejects_continue_after_a_record_that_is_not_ldif() {
    let scratch = Scratch::new("change-rest");
    let (_pando, mut admin) = start_with_tree(&scratch);
    let (first, second) = (scratch.join("first.ldif"), scratch.join("second.ldif"));
    let bad = "dn: cn=x\nchangetype: non\n sense\n\n";
    let delete = |uid: &str| format!("dn: {}\nchangetype: delete\n\n", person_dn(uid));
    let text = format!("{}{bad}{}", delete("norbert"), delete("bert"));
    let run = change(&scratch, &["--rejects", first.to_str().unwrap()], &text).expect_code(1);
    run.expect_error("standard input:1: delete uid=norbert").expect_error("standard input:5: ");
    let left = std::fs::read_to_string(&first).unwrap();
    assert_eq!(dns(&left), [person_dn("bert"), person_dn("norbert")]);
    assert!(left.contains("\n# standard input:5: "), "{left}");
    assert!(left.contains("\n# dn: cn=x\n# changetype: nonsense\n\n"), "{left}");
    let text = format!("{bad}{}", delete("bert"));
    change(&scratch, &["--rejects", second.to_str().unwrap()], &text).expect_code(2);
    assert_eq!(dns(&std::fs::read_to_string(&second).unwrap()), [person_dn("bert")]);
    assert!(exists(&mut admin, &person_dn("bert")));
}

#[test]
fn a_dry_run_decides_and_changes_nothing() {
    let scratch = Scratch::new("change-dry");
    let (_pando, mut admin) = start_with_tree(&scratch);
    let run = change(&scratch, &["--dry-run"], CHANGES).expect_code(6);
    let run = run.expect_error("2 changes would be made, 1 refused, 1 not checked");
    let run = run.expect_output("add uid=carla,ou=people,dc=example,dc=com: would be made");
    run.expect_output("modify uid=carla,ou=people,dc=example,dc=com: not checked");
    assert!(exists(&mut admin, &person_dn("bert")) && !exists(&mut admin, &person_dn("carla")));
    let bad = "dn: uid=anna,ou=people,dc=example,dc=com\nchangetype: modify\ndelete: sn\n-\n";
    change(&scratch, &["--dry-run"], bad).expect_code(6).expect_error("objectClassViolation");
}

#[test]
fn another_server_is_searched_and_changed() {
    let scratch = Scratch::new("search-slapd");
    let rules = Some("access to * by * write\nlimits anonymous size=1".to_owned());
    let slapd = Slapd::amended(&scratch, &[], Amendments { rules, ..Amendments::default() });
    let mut admin = Connection::open(slapd.address()).unwrap();
    assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant(&mut admin);
    let file = scratch.write("password", ADMIN_PASSWORD);
    let url = format!("ldap://{}", slapd.address());
    let bind = ["--url", &url, "--bind-dn", ADMIN_DN, "--password-file", file.to_str().unwrap()];
    let changes = scratch.write("changes.ldif", CHANGES.replace("uid=norbert", "uid=anna"));
    command(&[&["change"], &bind[..], &[changes.to_str().unwrap()]].concat(), None)
        .expect_code(0)
        .expect_error("4 changes made");
    let found = command(&[&["search"], &bind[..], &["(uid=*)", "uid"]].concat(), None).expect_code(0).stdout;
    assert_eq!(dns(&found), [person_dn("berta"), person_dn("carla")]);
    let part = command(&["search", "--url", &url, "(uid=*)", "uid"], None).expect_code(6);
    assert_eq!(dns(&part.expect_error("not all entries: sizeLimitExceeded").stdout).len(), 1);
}
