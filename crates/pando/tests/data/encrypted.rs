//! Backups encrypted to public keys of age, with Debian's `age` as a second implementation.

use std::fs;
use std::path::Path;

use ldap::{BackupRequest, ResultCode, oids};
use test_support::clients::{Run, run};
use test_support::cluster::until;
use test_support::pando::{Start, command, program};
use test_support::s3::{BUCKET, S3, SECRET, pando_at};
use test_support::tree::{add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

/// Creates an identity with `age-keygen`. Returns its file and its public key.
fn identity(scratch: &Scratch, name: &str) -> (String, String) {
    let file = scratch.join(name).to_str().unwrap().to_owned();
    run("age-keygen", &["-o", &file], "").expect_code(0);
    let public = run("age-keygen", &["-y", &file], "").expect_code(0).stdout.trim().to_owned();
    (file, public)
}

fn exported(data: &Path) -> String {
    command(&["export", "--operational"], Some(data)).expect_code(0).stdout
}

/// Starts a server whose node file has this `[backup]` table.
fn start(scratch: &Scratch, backup: &str) -> Pando {
    Start::with_node(scratch, format!("[backup]\nminutes = 600\n{backup}")).ready()
}

#[test]
fn only_an_identity_decrypts_the_backup_of_a_server() {
    let scratch = Scratch::new("encrypted");
    let (annas, anna) = identity(&scratch, "anna.key");
    let (berts, bert) = identity(&scratch, "bert.key");
    let place = scratch.join("backup").to_str().unwrap().to_owned();
    let server = start(&scratch, &format!("folder = \"{place}\"\nrecipients = [\"{anna}\", \"{bert}\"]\n"));
    let pando = |arguments: &[&str]| run(program(), arguments, "");
    let list = || pando(&["backup", "list", &place]);
    until("the first backup", || (list().code == Some(0)).then_some(()));
    let mut admin = server.administrator();
    plant(&mut admin);
    add_person(&mut admin, "carl");
    let data = Pando::data(&scratch);
    let make = |more: &[&str]| {
        let arguments =
            [&["backup", "make", &place, "--recipient", &anna, "--recipient", &bert], more].concat();
        // The server may still be writing its backup.
        until("the lock", || {
            Some(command(&arguments, Some(&data))).filter(|run| !run.stderr.contains("another process"))
        })
    };
    make(&[]).expect_code(0).expect_output("changes up to position");
    let moment = exported(&data);
    list().expect_code(0).expect_output(" MB, encrypted, not verified");
    // If the option for encryption is forgotten, nothing is written.
    let forgotten = command(&["backup", "make", &place], Some(&data));
    forgotten.expect_code(2).expect_error("is encrypted: name its recipients");

    // Each recipient can restore the backup with the recipient's own identity. Without an identity, or with the
    // identity of anyone else, the restore fails.
    let (others, _) = identity(&scratch, "other.key");
    for (number, identity) in [&annas, &berts].into_iter().enumerate() {
        let then = scratch.join(&format!("then-{number}"));
        command(&["restore", &place, "--identity", identity], Some(&then)).expect_code(0);
        assert_eq!(exported(&then), moment);
    }
    let then = scratch.join("then");
    let refused = |run: Run, why: &str| drop(run.expect_code(2).expect_error(why));
    refused(command(&["restore", &place], Some(&then)), "name the file of an identity");
    refused(command(&["restore", &place, "--identity", &others], Some(&then)), "to other recipients");
    refused(pando(&["backup", "verify", &place]), "name the file of an identity");
    refused(pando(&["backup", "verify", &place, "--identity", &others]), "to other recipients");
    assert!(!then.exists() || !then.join("data.mdb").exists());
    let checked = pando(&["backup", "verify", &place, "--checksums"]);
    checked.expect_code(0).expect_output("2 files are whole; nothing is restored");
    let verified = pando(&["backup", "verify", &place, "--identity", &annas]);
    verified.expect_code(0).expect_output("2 files are whole; restored to");
    list().expect_code(0).expect_output(" MB, encrypted, verified 2");

    // The command has the identity and restores an entry. The server has no identity, so it cannot restore anything.
    let carl = person_dn("carl");
    replace(&mut admin, &carl, "title", &["spoiled"]);
    assert!(admin.delete(&carl).unwrap().is_success());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let url = format!("ldap://{}", server.address());
    let recover =
        ["backup", "recover", &place, &carl, "--url", &url, "--bind-dn", ADMIN_DN, "--password-file"];
    let recover = [&recover[..], &[password.to_str().unwrap()]].concat();
    pando(&recover).expect_code(2).expect_error("name the file of an identity");
    pando(&[&recover[..], &["--identity", &berts]].concat()).expect_code(0).expect_output("1 entries added");
    let request = BackupRequest { entry: &carl, micros: i64::MAX as u64, is_tree: false }.encode();
    let answer = admin.extended(oids::READ_BACKUP, Some(&request)).unwrap();
    assert_eq!(answer.outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{:?}", answer.outcome);
    assert!(answer.outcome.diagnostic.contains("--identity"), "{:?}", answer.outcome);
    assert!(server.stop().success());
    files_decrypted_by_age_are_a_backup(&scratch, &place, &annas, &moment);
}

/// Debian's `age` decrypts each file. The decrypted files are a backup that needs no identity.
fn files_decrypted_by_age_are_a_backup(scratch: &Scratch, place: &str, identity: &str, moment: &str) {
    let plain = scratch.join("plain");
    fs::create_dir(&plain).unwrap();
    let mut count = 0;
    for file in fs::read_dir(place).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|ending| ending == "age") {
            let output = plain.join(file.file_stem().unwrap());
            let [file, output] = [&file, &output].map(|path| path.to_str().unwrap());
            run("age", &["--decrypt", "-i", identity, "-o", output, file], "").expect_code(0);
            let checksum = format!("{file}.sha256");
            let mut sha256sum = std::process::Command::new("sha256sum");
            assert!(sha256sum.arg("-c").arg(checksum).current_dir(place).output().unwrap().status.success());
            count += 1;
        }
    }
    assert_eq!(count, 2);
    let restored = scratch.join("from-plain");
    command(&["restore", plain.to_str().unwrap()], Some(&restored)).expect_code(0);
    assert_eq!(exported(&restored), moment);
}

#[test]
fn a_bucket_is_encrypted_and_damage_is_found() {
    let scratch = Scratch::new("encrypted-bucket");
    let storage = S3::rclone(&scratch);
    let (file, public) = identity(&scratch, "key");
    let place = format!("s3://{BUCKET}/safe");
    S3::credentials(&scratch, "keys", SECRET);
    let server = start(
        &scratch,
        &format!(
            "folder = \"{place}\"\nregion = \"r\"\nendpoint = \"http://{}\"\ncredentials_file = \"keys\"\n\
             recipients = [\"{public}\"]\n",
            storage.address()
        ),
    );
    let pando = |arguments: &[&str]| {
        let mut command = pando_at(storage.address(), SECRET);
        command.args(arguments);
        test_support::s3::run(command)
    };
    until("the first backup", || (pando(&["backup", "list", &place]).code == Some(0)).then_some(()));
    let moment = exported(&Pando::data(&scratch));
    assert!(server.stop().success());
    let then = scratch.join("then").to_str().unwrap().to_owned();
    let restore = ["restore", &place, "--data", &then, "--identity", &file];
    pando(&restore).expect_code(0);
    assert_eq!(exported(Path::new(&then)), moment);
    pando(&["backup", "verify", &place, "--identity", &file]).expect_code(0);
    pando(&["backup", "verify", &place, "--checksums"]).expect_code(0);
    let object = fs::read_dir(storage.folder().join("safe")).unwrap().map(|file| file.unwrap().path());
    let object =
        object.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "age")).unwrap();
    let whole = fs::read(&object).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() - 1]] {
        fs::write(&object, damaged).unwrap();
        pando(&["backup", "verify", &place, "--checksums"]).expect_code(4).expect_error("another checksum");
        pando(&["backup", "verify", &place, "--identity", &file]).expect_code(4).expect_error(".pando.age: ");
    }
}
