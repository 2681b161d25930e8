//! Files that declare entries, with `pando plan` and `pando apply`.

use client::Connection;
use ldap::ResultCode;
use test_support::clients::Run;
use test_support::pando::command;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

const APPLICATIONS: &str = r#"
owner = "applications"

[[entry]]
dn = "ou=apps,dc=example,dc=com"
objectClass = "organizationalUnit"

[[group]]
dn = "cn=wiki-users,ou=apps,dc=example,dc=com"
members = ["anna", "wiki"]
description = "May use the wiki"

[[entry]]
dn = "uid=wiki,ou=apps,dc=example,dc=com"
objectClass = ["account", "simpleSecurityObject"]
description = ["The wiki", "Reads people"]
userPassword = { file = "wiki-password" }
"#;

fn start_with_tree(name: &str) -> (Scratch, Pando, Connection) {
    let scratch = Scratch::new(name);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    scratch.write("wiki-password", "let the wiki in\n");
    (scratch, server, admin)
}

/// Runs `pando VERB OPTIONS` with a file of this text.
fn run_with_file(scratch: &Scratch, words: &[&str], text: &str) -> Run {
    let file = scratch.write("applications.toml", text);
    let words = [words, &[file.to_str().unwrap()]].concat();
    command(&words, Some(&Pando::data(scratch)))
}

fn dn(rdn: &str) -> String {
    format!("{rdn},ou=apps,{SUFFIX}")
}

#[test]
fn apply_makes_entries_as_declared_and_is_idempotent() {
    let (scratch, server, mut admin) = start_with_tree("declared");
    let planned = run_with_file(&scratch, &["plan"], APPLICATIONS).expect_code(0);
    assert!(planned.stdout.contains("3 to add, 0 to change, 0 to delete"), "{planned}");
    assert!(planned.stdout.contains("userPassword: (from wiki-password)"), "{planned}");
    assert!(
        !planned.stdout.contains("let the wiki in") && !planned.stdout.contains("pandoOwner"),
        "{planned}"
    );
    assert!(admin.entry(&dn("uid=wiki"), &["1.1"]).unwrap().is_none(), "a plan changes nothing");
    run_with_file(&scratch, &["apply"], APPLICATIONS)
        .expect_code(0)
        .expect_output("3 added, 0 changed, 0 deleted");
    let bound = server.connect().bind(&dn("uid=wiki"), "let the wiki in").unwrap();
    assert_eq!(bound.code, ResultCode::SUCCESS);
    let group = admin.entry(&dn("cn=wiki-users"), &["member"]).unwrap().unwrap();
    assert_eq!(group.texts("member"), [person_dn("anna"), dn("uid=wiki")]);
    // A second run finds no difference and writes nothing.
    let csn = |admin: &mut Connection| {
        admin.entry(&dn("uid=wiki"), &["entryCSN"]).unwrap().unwrap().text("entryCSN")
    };
    let before = csn(&mut admin);
    run_with_file(&scratch, &["apply"], APPLICATIONS).expect_code(0).expect_output("no change");
    assert_eq!(csn(&mut admin), before);

    // Values that differ only in spelling are equal; other values are changed.
    let text = APPLICATIONS.replace("The wiki", "the  WIKI").replace("\"anna\"", "\"bert\"");
    let changed = run_with_file(&scratch, &["apply"], &text).expect_code(0);
    assert!(changed.stdout.contains("0 added, 1 changed, 0 deleted"), "{changed}");
    let lines = [format!("- member: {}", person_dn("anna")), format!("+ member: {}", person_dn("bert"))];
    assert!(lines.iter().all(|line| changed.stdout.contains(line)), "{changed}");
    // A new password is set. An attribute that is no longer declared is removed, and other attributes stay.
    scratch.write("wiki-password", "another");
    replace(&mut admin, &dn("uid=wiki"), "l", &["Vienna"]);
    let text = text.replace("description = [\"the  WIKI\", \"Reads people\"]\n", "");
    run_with_file(&scratch, &["apply"], &text).expect_code(0).expect_output("0 added, 1 changed, 0 deleted");
    assert!(server.connect().bind(&dn("uid=wiki"), "another").unwrap().is_success());
    let wiki = admin.entry(&dn("uid=wiki"), &["*"]).unwrap().unwrap();
    assert_eq!((wiki.texts("description").len(), wiki.texts("l").len()), (0, 1));
}

#[test]
fn only_owned_entries_are_pruned() {
    let (scratch, _server, mut admin) = start_with_tree("declared-prune");
    run_with_file(&scratch, &["apply"], APPLICATIONS).expect_code(0);
    let others = "owner = \"others\"\n[[entry]]\ndn = \"cn=others,ou=apps,dc=example,dc=com\"\n\
                  objectClass = \"applicationProcess\"\n";
    run_with_file(&scratch, &["apply"], others).expect_code(0);
    add(&mut admin, &dn("cn=mine"), &[("objectClass", "applicationProcess"), ("cn", "mine")]);
    let none = "owner = \"applications\"\n";
    run_with_file(&scratch, &["apply", "--no-prune"], none).expect_code(0).expect_output("no change");
    let planned = run_with_file(&scratch, &["plan"], none).expect_code(0);
    assert!(planned.stdout.contains("3 to delete; refused: 0"), "{planned}");
    assert!(planned.stdout.contains("delete ou=apps,dc=example,dc=com (not checked)"), "{planned}");
    // The unit contains entries of other owners, so it stays. All other entries of the owner are deleted.
    let applied = run_with_file(&scratch, &["apply"], none).expect_code(6);
    assert!(applied.stdout.contains("2 deleted; refused: 1"), "{applied}");
    assert!(applied.stderr.contains("notAllowedOnNonLeaf"), "{applied}");
    for (rdn, is_there) in
        [("uid=wiki", false), ("cn=wiki-users", false), ("cn=others", true), ("cn=mine", true)]
    {
        assert_eq!(admin.entry(&dn(rdn), &["1.1"]).unwrap().is_some(), is_there, "{rdn}");
    }
    assert!(admin.delete(&dn("cn=mine")).unwrap().is_success());
    run_with_file(&scratch, &["apply"], "owner = \"others\"\n").expect_code(0).expect_output("1 deleted");
    run_with_file(&scratch, &["apply"], none).expect_code(0).expect_output("1 deleted");
    assert!(admin.entry(&format!("ou=apps,{SUFFIX}"), &["1.1"]).unwrap().is_none());
}

#[test]
fn entries_of_other_owners_are_refused_unless_adopted() {
    let (scratch, _server, mut admin) = start_with_tree("declared-others");
    let anna = format!("owner = \"hr\"\n[[entry]]\ndn = \"{}\"\ntitle = \"Engineer\"\n", person_dn("anna"));
    run_with_file(&scratch, &["apply"], &anna).expect_code(6).expect_error("adopt = true takes it over");
    run_with_file(&scratch, &["apply"], &format!("{anna}adopt = true\n"))
        .expect_code(0)
        .expect_output("1 changed");
    let entry = admin.entry(&person_dn("anna"), &["*", "pandoOwner"]).unwrap().unwrap();
    assert_eq!((entry.text("title"), entry.text("pandoOwner")), (Some("Engineer".into()), Some("hr".into())));
    assert_eq!(entry.texts("sn"), ["anna"], "what is not declared stays");
    let other = anna.replace("hr", "it");
    run_with_file(&scratch, &["apply"], &other).expect_code(6).expect_error("belongs to the owner hr");
    // Each entry is a separate change. If the server refuses a change, the refusal is reported, and the other changes
    // are made.
    let text = "owner = \"it\"\n[[entry]]\ndn = \"cn=a,ou=groups,dc=example,dc=com\"\nobjectClass = \"person\"\n\
                [[entry]]\ndn = \"cn=b,ou=groups,dc=example,dc=com\"\nobjectClass = \"applicationProcess\"\n";
    let planned = run_with_file(&scratch, &["plan"], text).expect_code(6);
    assert!(
        planned.stderr.contains("applications.toml:2: add cn=a") && planned.stderr.contains("sn"),
        "{planned}"
    );
    let applied = run_with_file(&scratch, &["apply"], text).expect_code(6);
    assert!(
        applied.stdout.contains("1 added") && applied.stderr.contains("objectClassViolation"),
        "{applied}"
    );
}

#[test]
fn a_plan_that_is_no_longer_true_is_refused() {
    let (scratch, _server, mut admin) = start_with_tree("declared-plan");
    let planned = run_with_file(&scratch, &["plan", "--json"], APPLICATIONS).expect_code(0);
    let lines: Vec<serde_json::Value> =
        planned.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.last().unwrap();
    assert_eq!((lines.len(), &summary["add"]), (4, &serde_json::json!(3)), "{planned}");
    assert_eq!(lines[0]["operation"], "add");
    assert_eq!(lines[1]["attributes"]["userPassword"]["added"][0]["file"], "wiki-password", "{planned}");
    let number = summary["plan"].as_str().unwrap();
    let unit = [("objectClass", "organizationalUnit"), ("ou", "apps")];
    add(&mut admin, &format!("ou=apps,{SUFFIX}"), &unit);
    let late = ["apply", "--expect", number];
    run_with_file(&scratch, &late, APPLICATIONS).expect_code(1).expect_error("run `pando plan` again");
    assert!(admin.entry(&dn("uid=wiki"), &["1.1"]).unwrap().is_none(), "nothing is changed");
    assert!(admin.delete(&format!("ou=apps,{SUFFIX}")).unwrap().is_success());
    run_with_file(&scratch, &late, APPLICATIONS).expect_code(0).expect_output("3 added");
    // A change of an entry after the plan and before apply also makes the plan invalid.
    let text = APPLICATIONS.replace("Reads people", "Reads groups");
    let planned = run_with_file(&scratch, &["plan"], &text).expect_code(0).stdout;
    let number = planned.trim_end().rsplit(' ').next().unwrap();
    replace(&mut admin, &dn("uid=wiki"), "l", &["Graz"]);
    run_with_file(&scratch, &["apply", "--expect", number], &text)
        .expect_code(1)
        .expect_error("have changed");
}

#[test]
fn files_are_read_before_anything_is_done() {
    let (scratch, _server, _admin) = start_with_tree("declared-files");
    let settings = scratch.write("settings.toml", format!("suffixes = [\"{SUFFIX}\", \"o=more\"]\n"));
    let settings = settings.to_str().unwrap();
    let bad = "owner = \"a\"\n[[entry]]\ndn = \"cn=a,o=more\"\nuserPassword = \"clear\"\n";
    let run = run_with_file(&scratch, &["apply", settings], bad).expect_code(2);
    assert!(run.stderr.contains("applications.toml:4: userPassword: a password comes from a file"), "{run}");
    let good = "owner = \"a\"\n[[entry]]\ndn = \"o=more\"\nobjectClass = \"organization\"\n";
    run_with_file(&scratch, &["apply", "--expect", "00", settings], good)
        .expect_code(2)
        .expect_error("--expect");
    run_with_file(&scratch, &["apply", settings, settings], good)
        .expect_code(2)
        .expect_error("both settings files");
    let run = run_with_file(&scratch, &["plan", settings], good).expect_code(0);
    assert!(run.stdout.contains("adds the suffix o=more") && run.stdout.contains("1 to add"), "{run}");
    let run = run_with_file(&scratch, &["apply", settings], good).expect_code(0);
    assert!(run.stdout.contains("adds the suffix o=more") && run.stdout.contains("1 added"), "{run}");
    run_with_file(&scratch, &["apply", "--quiet", settings], good).expect_code(0);
}
