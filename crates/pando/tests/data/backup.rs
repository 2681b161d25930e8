//! `pando backup` and `pando restore` with a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use client::Connection;
use ldap::oids::PASSWORD_STATE;
use ldap::state_operation::CLEAR_HISTORY;
use ldap::{ChangeOperation, ResultCode, StateOperation, encode_password_state};
use test_support::clients::{self, Run, ldap_utility};
use test_support::cluster::until;
use test_support::interrupted::must;
use test_support::pando::{Start, command, program};
use test_support::tree::{add, add_person, bind, person_dn, plant, plant_policy, replace, set_password};
use test_support::{Pando, SUFFIX, Scratch};

fn pando(arguments: &[&str]) -> Run {
    clients::run(program(), arguments, "")
}

/// Returns the entries of a directory as LDIF.
fn exported(data: &Path) -> String {
    command(&["export", "--operational"], Some(data)).expect_code(0).stdout
}

fn position_of(export: &str) -> u64 {
    let heading =
        export.lines().find_map(|line| line.strip_prefix("# Pando export at log position ")).unwrap();
    heading.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

struct Place<'s> {
    scratch: &'s Scratch,
    folder: String,
}

impl<'s> Place<'s> {
    fn new(scratch: &'s Scratch) -> Place<'s> {
        let folder = scratch.join("backup").to_str().unwrap().to_owned();
        Place { scratch, folder }
    }

    fn make(&self, more: &[&str]) -> Run {
        let arguments = [&["backup", "make", &self.folder], more].concat();
        command(&arguments, Some(&Pando::data(self.scratch)))
    }

    fn restore(&self, name: &str, more: &[&str]) -> (PathBuf, Run) {
        let data = self.scratch.join(name);
        let run = pando(&[&["restore", "--data", data.to_str().unwrap(), &self.folder], more].concat());
        (data, run)
    }
}

#[test]
fn a_served_directory_is_restored_to_any_moment() {
    let scratch = Scratch::new("backup");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    set_password(&mut admin, "anna", "annas secret");
    place.make(&[]).expect_code(0).expect_output("it is the first");
    let mut moments = vec![exported(&Pando::data(&scratch))];
    for round in 0..3 {
        add_person(&mut admin, &format!("carl{round}"));
        moments.push(exported(&Pando::data(&scratch)));
        replace(&mut admin, &person_dn("anna"), "title", &[&format!("title {round}")]);
        moments.push(exported(&Pando::data(&scratch)));
        let moved = person_dn(&format!("carl{round}"));
        let new = format!("uid=moved{round}");
        assert!(admin.modify_dn(&moved, &new, None).unwrap().is_success());
        moments.push(exported(&Pando::data(&scratch)));
        place.make(&[]).expect_code(0).expect_output("3 changes up to position");
        place.make(&[]).expect_code(0).expect_output("nothing is new");
    }
    // The running server does not use the restored data.
    for (number, moment) in moments.iter().enumerate() {
        let position = position_of(moment).to_string();
        let (data, run) = place.restore(&format!("then-{number}"), &["--position", &position]);
        run.expect_code(0).expect_output(&format!("after the change at position {position}"));
        assert_eq!(exported(&data), *moment, "the same text, octet by octet");
        command(&["verify"], Some(&data)).expect_code(0);
    }
    let (data, run) = place.restore("end", &["--until", "2100-01-01"]);
    run.expect_code(0).expect_output("the backup has no later change");
    assert_eq!(exported(&data), *moments.last().unwrap());
    place.restore("before", &["--until", "1d"]).1.expect_code(2).expect_error("the oldest moment in");
    place.restore("end", &[]).1.expect_code(2).expect_error("has data already");
    let list = || pando(&["backup", "list", &place.folder]).expect_code(0);
    list().expect_output(": 4 files, ").expect_output(", not verified\n");
    pando(&["backup", "verify", &place.folder])
        .expect_code(0)
        .expect_output("4 files are whole; restored to");
    list().expect_output(", verified 20");
    drop(admin);
    assert!(server.stop().success());
    // The restored data can be served, with its passwords and settings.
    fs::rename(Pando::data(&scratch), scratch.join("lost")).unwrap();
    place.restore("data", &[]).1.expect_code(0);
    let server = Pando::start(&scratch);
    assert_eq!(bind(&server, "anna", "annas secret"), ldap::ResultCode::SUCCESS);
    add_person(&mut server.administrator(), "dora");
    place.make(&[]).expect_code(0).expect_output("the data is another since the last time");
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(Path::new(&place.folder)), 0o700);
    for file in fs::read_dir(&place.folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

/// The procedure in `pando help restore` and docs/how-to/backup.md: one subtree is restored while the server keeps
/// running.
#[test]
fn a_subtree_is_restored_while_the_server_runs() {
    let scratch = Scratch::new("backup-subtree");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    place.make(&[]).expect_code(0);
    let position = position_of(&exported(&Pando::data(&scratch))).to_string();
    let before = exported(&Pando::data(&scratch));
    assert!(admin.delete(&person_dn("bert")).unwrap().is_success());
    let title = (ChangeOperation::Replace, "title", &["wrong"][..]);
    assert!(admin.modify(&person_dn("anna"), &[title]).unwrap().is_success());
    place.make(&[]).expect_code(0);
    let (then, run) = place.restore("then", &["--position", &position]);
    run.expect_code(0).expect_output("the backup has later changes");
    let base = format!("ou=people,{SUFFIX}");
    let export = |data: &Path, name: &str| {
        let file = scratch.join(name);
        command(&["export", "--base", &base, "-o", file.to_str().unwrap()], Some(data)).expect_code(0);
        file.to_str().unwrap().to_owned()
    };
    let (then, now) = (export(&then, "then.ldif"), export(&Pando::data(&scratch), "now.ldif"));
    let back = pando(&["ldif", "diff", &now, &then]).expect_code(1).stdout;
    ldap_utility("ldapmodify", server.address(), &[], &back).expect_code(0);
    let people = |export: &str| {
        let mut people: Vec<_> =
            export.lines().filter(|line| line.starts_with("dn: ")).map(str::to_owned).collect();
        people.sort();
        people
    };
    assert_eq!(people(&exported(&Pando::data(&scratch))), people(&before));
    pando(&["ldif", "diff", &export(&Pando::data(&scratch), "again.ldif"), &then]).expect_code(0);
}

/// Regression test: for a deleted subtree, the procedure failed at the export, because the base did not exist. After
/// the procedure, the restored people must be members of their groups again.
#[test]
fn a_deleted_subtree_is_restored_with_its_memberships() {
    let scratch = Scratch::new("backup-deleted");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let (base, group) = (format!("ou=people,{SUFFIX}"), format!("cn=staff,{SUFFIX}"));
    let [anna, bert] = ["anna", "bert"].map(person_dn);
    add(&mut admin, &group, &[("objectClass", "groupOfNames"), ("member", &anna), ("member", &bert)]);
    place.make(&[]).expect_code(0);
    let position = position_of(&exported(&Pando::data(&scratch))).to_string();
    let deleted = ldap_utility("ldapdelete", server.address(), &["-r", &base], "");
    deleted.expect_code(0);
    let members = |admin: &mut Connection| {
        let mut members = admin.entry(&group, &["member"]).unwrap().unwrap().texts("member");
        members.sort();
        members
    };
    assert_eq!(members(&mut admin), [""]);
    place.make(&[]).expect_code(0);
    let (then, run) = place.restore("then", &["--position", &position]);
    run.expect_code(0);
    let now = Pando::data(&scratch);
    let export = |data: &Path, name: &str, arguments: &[&str]| {
        let file = scratch.join(name);
        let file = file.to_str().unwrap();
        command(&[&["export", "-o", file], arguments].concat(), Some(data)).expect_code(0);
        file.to_owned()
    };
    let below = ["--base", &base, "--if-exists"];
    let back = [export(&now, "now.ldif", &below), export(&then, "then.ldif", &below)];
    let back = pando(&["ldif", "diff", &back[0], &back[1]]).expect_code(1).stdout;
    ldap_utility("ldapmodify", server.address(), &[], &back).expect_code(0);
    let groups = ["--filter", "(|(member=*)(uniqueMember=*))", "--attributes", "member,uniqueMember"];
    let joined = [export(&now, "now-groups.ldif", &groups), export(&then, "then-groups.ldif", &groups)];
    let joined = pando(&["ldif", "diff", &joined[0], &joined[1]]).expect_code(1).stdout;
    ldap_utility("ldapmodify", server.address(), &[], &joined).expect_code(0);
    assert_eq!(members(&mut admin), [anna.clone(), bert]);
    assert!(admin.entry(&anna, &["memberOf"]).unwrap().unwrap().texts("memberOf").contains(&group));
    let nowhere = ["export", "--base", "ou=typo,dc=example,dc=com"];
    command(&nowhere, Some(&now)).expect_code(2).expect_error("does not exist");
}

#[test]
fn a_subtree_is_recovered_with_its_identity_and_memberships() {
    let scratch = Scratch::new("backup-recover");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let (base, group) = (format!("ou=people,{SUFFIX}"), format!("cn=staff,ou=groups,{SUFFIX}"));
    let [anna, bert] = ["anna", "bert"].map(person_dn);
    replace(&mut admin, &anna, "title", &["Engineer"]);
    // No requester can read this attribute, so it does not count as a difference.
    replace(&mut admin, &anna, "pandoTotpSecret", &["GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"]);
    let child = format!("ou=below,{base}");
    add(&mut admin, &child, &[("objectClass", "organizationalUnit"), ("ou", "below"), ("seeAlso", &anna)]);
    let names = ["entryUUID", "createTimestamp", "title", "memberOf", "seeAlso"];
    let seen = |admin: &mut Connection, dn: &str| {
        let entry = admin.entry(dn, &names).unwrap();
        entry.map(|entry| names.map(|name| entry.texts(name)))
    };
    let all = [base.as_str(), &anna, &bert, &child];
    let before = all.map(|dn| seen(&mut admin, dn));
    place.make(&[]).expect_code(0);

    // One entry is changed, one is deleted, and one is new.
    replace(&mut admin, &anna, "title", &["Director"]);
    replace(&mut admin, &anna, "l", &["Vienna"]);
    assert!(admin.delete(&bert).unwrap().is_success());
    add_person(&mut admin, "carl");
    let recover = |more: &[&str]| {
        let words = [&["backup", "recover", &place.folder], more].concat();
        command(&words, Some(&Pando::data(&scratch)))
    };
    let dry = recover(&["--dry-run", &base]).expect_code(0);
    for line in
        [format!("add {bert}"), format!("change {anna}: l, title"), format!("name again in {group}: ")]
    {
        assert!(dry.stdout.contains(&line), "{line}: {dry}");
    }
    assert!(seen(&mut admin, &bert).is_none(), "a dry run changes nothing");
    recover(&["--missing-only", "--entry-only", &anna])
        .expect_code(0)
        .expect_output("0 entries added, 0 changed");
    recover(&["--entry-only", &base]).expect_code(0).expect_output("0 entries added, 0 changed");
    recover(&["--missing-only", &base])
        .expect_code(0)
        .expect_output("1 entries added, 0 changed, 1 named again");
    assert_eq!(bind(&server, "bert", "bert-secret"), ldap::ResultCode::SUCCESS);
    recover(&[&base]).expect_code(0).expect_output("0 entries added, 1 changed, 0 named");
    recover(&[&base]).expect_code(0).expect_output("0 entries added, 0 changed, 0 named");
    // A time after the end of the backup is reported.
    recover(&["--dry-run", "--until", "2999-01-01T00:00:00Z", &base])
        .expect_code(0)
        .expect_output("the backup has no later change");
    assert_eq!(all.map(|dn| seen(&mut admin, dn)), before);
    assert!(seen(&mut admin, &person_dn("carl")).is_some(), "new entries stay");

    // The whole tree is deleted.
    ldap_utility("ldapdelete", server.address(), &["-r", &base], "").expect_code(0);
    recover(&["--json", &base]).expect_code(0).expect_output("\"change\":\"add\"");
    assert_eq!(all.map(|dn| seen(&mut admin, dn)), before);
    // An entry that was moved is not added again, and a different entry with the same name is not overwritten.
    assert!(admin.modify_dn(&bert, "uid=moved", None).unwrap().is_success());
    assert!(admin.delete(&anna).unwrap().is_success());
    add_person(&mut admin, "anna");
    let refused = recover(&[&base]).expect_code(6);
    assert!(refused.stderr.contains("exists under another name: uid=moved"), "{refused}");
    assert!(refused.stderr.contains("another entry of this name"), "{refused}");
    recover(&["ou=nowhere,dc=example,dc=com"]).expect_code(2).expect_error("has no entry ou=nowhere");
    let left = fs::read_dir(&place.folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("recover"));
    assert_eq!(left.count(), 0, "the temporary data is removed");
}

/// Regression test: a referral entry that exists was taken for a missing one.
#[test]
fn a_referral_entry_is_recovered() {
    let scratch = Scratch::new("backup-recover-referral");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    let far = format!("ou=far,{SUFFIX}");
    let classes = [("objectClass", "referral"), ("objectClass", "extensibleObject"), ("ou", "far")];
    add(&mut admin, &far, &[&classes[..], &[("ref", "ldap://far.example.com/")]].concat());
    place.make(&[]).expect_code(0);
    let recover = || {
        let words = ["backup", "recover", &place.folder, &far];
        command(&words, Some(&Pando::data(&scratch)))
    };
    recover().expect_code(0).expect_output("0 entries added, 0 changed");
    let moved = "changetype: modify\nreplace: ref\nref: ldap://near.example.com/\n-\n";
    for (change, found) in
        [(moved, "0 entries added, 1 changed"), ("changetype: delete\n", "1 entries added")]
    {
        ldap_utility("ldapmodify", server.address(), &["-MM"], &format!("dn: {far}\n{change}"))
            .expect_code(0);
        recover().expect_code(0).expect_output(found);
        recover().expect_code(0).expect_output("0 entries added, 0 changed");
    }
}

/// Regression test: if a password policy kept a history, hashed passwords were always answered with busy. The passwords
/// of deleted people can be restored. A password that is still in the history can be restored only after the history is
/// cleared.
#[test]
fn a_subtree_is_restored_under_a_password_policy() {
    let scratch = Scratch::new("backup-policy");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    plant_policy(
        &mut admin,
        &[("objectClass", "pwdPolicy"), ("pwdInHistory", "3"), ("pwdCheckQuality", "1")],
    );
    set_password(&mut admin, "anna", "anna-then");
    set_password(&mut admin, "bert", "bert-then");
    place.make(&[]).expect_code(0);
    assert!(admin.delete(&person_dn("bert")).unwrap().is_success());
    set_password(&mut admin, "anna", "spoiled");
    let (then, run) = place.restore("then", &[]);
    run.expect_code(0);
    let export = |data: &Path, name: &str| {
        let file = scratch.join(name);
        command(&["export", "-o", file.to_str().unwrap()], Some(data)).expect_code(0);
        file.to_str().unwrap().to_owned()
    };
    let (then, now) = (export(&then, "then.ldif"), export(&Pando::data(&scratch), "now.ldif"));
    let back = pando(&["ldif", "diff", &now, &then]).expect_code(1).stdout;
    let again = ldap_utility("ldapmodify", server.address(), &["-c"], &back);
    assert!(again.code == Some(19) && again.stderr.contains("used before"), "{again}");
    assert_eq!(bind(&server, "bert", "bert-then"), ResultCode::SUCCESS);
    // The history is cleared as docs/how-to/backup.md describes.
    let clear = [StateOperation { kind: CLEAR_HISTORY, values: Vec::<String>::new() }];
    let value = encode_password_state(&person_dn("anna"), &clear);
    assert!(admin.extended(PASSWORD_STATE, Some(&value)).unwrap().outcome.is_success());
    let now = export(&Pando::data(&scratch), "later.ldif");
    let back = pando(&["ldif", "diff", &now, &then]).expect_code(1).stdout;
    ldap_utility("ldapmodify", server.address(), &[], &back).expect_code(0);
    assert_eq!(bind(&server, "anna", "anna-then"), ResultCode::SUCCESS);
}

/// A restored backup never contains the second of two successive changes without the first.
#[test]
fn a_backup_during_writes_contains_one_state() {
    let scratch = Scratch::new("backup-moment");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    plant(&mut server.administrator());
    let stop = AtomicBool::new(false);
    let mut writer = server.administrator();
    let positions = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..u32::MAX {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // The changes are sent in sequence, so the second entry must never be ahead of the first.
                for uid in ["anna", "bert"] {
                    replace(&mut writer, &person_dn(uid), "title", &[&number.to_string()]);
                }
            }
        });
        let mut positions = Vec::new();
        for round in 0..8 {
            let made = place.make(if round % 3 == 0 { &["--full"] } else { &[] }).expect_code(0).stdout;
            let position = made.split("up to position ").nth(1).unwrap();
            let position = position.split([',', '\n']).next().unwrap().trim().to_owned();
            positions.push(position);
        }
        stop.store(true, Ordering::Relaxed);
        positions
    });
    for (number, position) in positions.iter().enumerate() {
        let (data, run) = place.restore(&format!("then-{number}"), &["--position", position]);
        run.expect_code(0);
        let export = exported(&data);
        assert_eq!(position_of(&export).to_string(), *position);
        let number_of = |uid: &str| {
            let entry = export
                .split("\n\n")
                .find(|entry| entry.contains(&format!("dn: {}", person_dn(uid))))
                .unwrap();
            let title = entry.lines().find_map(|line| line.strip_prefix("title: "));
            title.map_or(-1, |title| title.parse::<i64>().unwrap_or(-1))
        };
        let (anna, bert) = (number_of("anna"), number_of("bert"));
        assert!(anna == bert || anna == bert + 1, "{anna} and {bert} at position {position}");
        command(&["verify"], Some(&data)).expect_code(0);
    }
}

/// Imported data has no log records, so the next backup writes all entries.
#[test]
fn an_import_is_backed_up_completely() {
    let scratch = Scratch::new("backup-import");
    let place = Place::new(&scratch);
    let server = Pando::start(&scratch);
    plant(&mut server.administrator());
    assert!(server.stop().success());
    place.make(&[]).expect_code(0).expect_output("it is the first");
    let ldif = scratch.write("one.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n"));
    command(&["import", "--replace", ldif.to_str().unwrap()], Some(&Pando::data(&scratch))).expect_code(0);
    place.make(&[]).expect_code(0).expect_output("the data is another since the last time");
    let (data, run) = place.restore("imported", &[]);
    run.expect_code(0);
    assert_eq!(exported(&data), exported(&Pando::data(&scratch)));
    let newest = fs::read_dir(&place.folder).unwrap().map(|file| file.unwrap().path()).max_by_key(|file| {
        file.file_name().map(|name| name.to_string_lossy().ends_with(".pando").then(|| name.to_owned()))
    });
    // Truncate a file, as a disk that ignores syncs would.
    let newest = newest.unwrap();
    let whole = fs::read(&newest).unwrap();
    fs::write(&newest, &whole[..whole.len() / 2]).unwrap();
    let name = newest.to_str().unwrap();
    pando(&["backup", "verify", &place.folder]).expect_code(4).expect_error(name);
    let (data, run) = place.restore("damaged", &[]);
    run.expect_code(4).expect_error(name);
    assert!(!data.join("data.mdb").exists());
    place.make(&["--full"]).expect_code(0);
    assert_eq!(exported(&place.restore("again", &[]).0), exported(&Pando::data(&scratch)));
}

/// Reads an attribute of an entry below `cn=Backup,cn=monitor`.
fn backup_figure(admin: &mut client::Connection, name: &str, attribute: &str) -> Option<String> {
    let dn = format!("cn={name},cn=Backup,cn=monitor");
    Some(admin.entry(&dn, &[attribute]).unwrap()?.texts(attribute).first()?.clone())
}

/// Regression test: when a disk was not mounted, the server created an empty directory at the mount point. The backup
/// then took this empty directory as its newest state.
#[test]
fn lost_data_is_not_replaced_by_an_empty_directory() {
    let scratch = Scratch::new("backup-gone");
    let place = Place::new(&scratch);
    let start = || Start::with_node(&scratch, "[backup]\nfolder = \"backup\"\nminutes = 600\n");
    let server = start().ready();
    let mut admin = server.administrator();
    plant(&mut admin);
    assert!(server.stop().success());
    place.make(&[]).expect_code(0);
    let data = Pando::data(&scratch);
    fs::rename(&data, scratch.join("elsewhere")).unwrap();
    let (status, said) = start().refused();
    assert_eq!(status.code(), Some(4), "{said}");
    assert!(said.contains("pando restore --data") && !data.join("data.mdb").exists(), "{said}");
    command(&["restore", &place.folder], Some(&data)).expect_code(0);
    let server = start().ready();
    assert!(server.administrator().entry(&person_dn("anna"), &["1.1"]).unwrap().is_some());
    assert!(server.stop().success());
    // If the folder has no backup, a new directory is created.
    fs::rename(&data, scratch.join("again")).unwrap();
    fs::remove_dir_all(&place.folder).unwrap();
    assert!(start().ready().stop().success());
}

/// A server makes a backup when it starts, and another one before its log deletes changes that are in no backup. It
/// reports backups that failed.
#[test]
fn a_server_keeps_its_own_backup() {
    let scratch = Scratch::new("backup-server");
    let place = Place::new(&scratch);
    let node = scratch.write("node.toml", "[backup]\nfolder = \"backup\"\nminutes = 600\n");
    // A file is in place of the folder.
    fs::write(&place.folder, "").unwrap();
    let start = || Start::new(&scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    let server = start();
    let failing = |admin: &mut client::Connection| {
        backup_figure(admin, "Failing", "monitoredInfo").filter(|text| text != "no")
    };
    let text = until("a failure to report", || failing(&mut server.administrator()));
    assert!(text.contains("backup"), "{text}");
    assert!(server.log().contains("is not backed up"), "{}", server.log());
    assert!(backup_figure(&mut server.administrator(), "Last Backup", "monitorTimestamp").is_none());
    assert!(server.stop().success());
    fs::remove_file(&place.folder).unwrap();
    let server = start();
    let mut admin = server.administrator();
    let position = |admin: &mut client::Connection| {
        backup_figure(admin, "Position", "monitorCounter").and_then(|text| text.parse::<u64>().ok())
    };
    let first = until("the first backup", || position(&mut admin));
    assert_eq!(failing(&mut admin), None);
    plant(&mut admin);
    let settings =
        scratch.write("settings.toml", "suffixes = [\"dc=example,dc=com\"]\n[limits]\nlog_records = 2000\n");
    must(&["apply", settings.to_str().unwrap()], &Pando::data(&scratch));
    for number in 0..1_100 {
        replace(&mut admin, &person_dn("anna"), "title", &[&number.to_string()]);
    }
    let second =
        until("a backup that is not due yet", || position(&mut admin).filter(|found| *found > first));
    assert!(second > first + 1_000, "{second} is after {first}");
    let log = server.log();
    assert!(
        log.contains("all entries are backed up and read back") && log.contains("changes are backed up"),
        "{log}"
    );
    let (data, run) = place.restore("then", &["--position", &second.to_string()]);
    run.expect_code(0);
    command(&["verify"], Some(&data)).expect_code(0);
    // The command and the server can both write the backup, and lock the folder while they do.
    place.make(&[]).expect_code(0).expect_output("up to position");
    assert!(server.stop().success());
}
