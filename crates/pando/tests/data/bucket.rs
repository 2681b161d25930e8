//! Backups in S3-compatible storage. The storage is served by rclone, and in `./dev test-peers` also by SeaweedFS.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use test_support::clients::Run;
use test_support::cluster::until;
use test_support::pando::{Start, command};
use test_support::relay::{ConnectionEnd, Relay};
use test_support::s3::{self, BUCKET, S3, SECRET, pando_at};
use test_support::tree::{add_person, person_dn, plant, replace};
use test_support::{Pando, Scratch};

/// Runs a command with the credentials of a bucket in its environment.
fn run(address: SocketAddr, arguments: &[&str], data: Option<&Path>) -> Run {
    let mut command = pando_at(address, SECRET);
    command.args(arguments);
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    s3::run(command)
}

fn exported(data: &Path) -> String {
    command(&["export", "--operational"], Some(data)).expect_code(0).stdout
}

fn place(prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}")
}

#[test]
fn a_bucket_restores_every_moment() {
    let scratch = Scratch::new("bucket");
    check_every_moment(&scratch, &S3::rclone(&scratch));
}

#[test]
#[ignore = "./dev test-peers"]
fn s3_of_seaweedfs_restores_every_moment() {
    let scratch = Scratch::new("bucket-seaweedfs");
    let storage = S3::seaweedfs(&scratch);
    check_every_moment(&scratch, &storage);
    large_files_are_uploaded_in_parts(&scratch, &storage);
}

/// A server writes a backup to a bucket. Commands list, verify, prune and restore it. Each command locks the bucket
/// while it runs.
fn check_every_moment(scratch: &Scratch, storage: &S3) {
    let place = place("of/node-1");
    S3::credentials(scratch, "keys", SECRET);
    let server = Start::with_node(scratch, format!(
            "[backup]\nfolder = \"{place}\"\nminutes = 600\nregion = \"us-east-1\"\nendpoint = \"http://{}\"\n\
             credentials_file = \"keys\"\n",
            storage.address()
        )).ready();
    let pando = |arguments: &[&str]| run(storage.address(), arguments, None);
    let mut admin = server.administrator();
    until("the first backup", || (pando(&["backup", "list", &place]).code == Some(0)).then_some(()));
    plant(&mut admin);
    add_person(&mut admin, "carl");
    let data = Pando::data(scratch);
    let make = |more: &[&str]| {
        let arguments = [&["backup", "make", &place], more].concat();
        // The server may still be writing its backup.
        until("the lock", || {
            Some(run(storage.address(), &arguments, Some(&data))).filter(|run| run.code != Some(2))
        })
    };
    make(&[]).expect_code(0).expect_output("changes up to position");
    let moment = exported(&data);
    replace(&mut admin, &person_dn("carl"), "title", &["spoiled"]);
    make(&[]).expect_code(0).expect_output("1 changes up to position");
    make(&[]).expect_code(0).expect_output("nothing is new");
    let position = moment.split("log position ").nth(1).unwrap().split_whitespace().next().unwrap();
    let position = position.trim_end_matches([',', ';']);
    let then = scratch.join("then");
    let restored = run(storage.address(), &["restore", &place, "--position", position], Some(&then));
    restored.expect_code(0).expect_output("the backup has later changes");
    assert_eq!(exported(&then), moment);
    pando(&["backup", "list", &place])
        .expect_code(0)
        .expect_output(": 3 files, ")
        .expect_output("not verified");
    pando(&["backup", "verify", &place]).expect_code(0).expect_output("3 files are whole");
    pando(&["backup", "list", &place]).expect_code(0).expect_output(", verified 2");
    // The command keeps files that were written in the present second, so the test tries again.
    until("a removal", || make(&["--full", "--keep-days", "0"]).stdout.contains("removed").then_some(()));
    pando(&["backup", "verify", &place]).expect_code(0).expect_output("files are whole");
    let dn = person_dn("carl");
    assert!(admin.delete(&dn).unwrap().is_success());
    let password = scratch.write("password", test_support::ADMIN_PASSWORD);
    let url = format!("ldap://{}", server.address());
    let recover = ["backup", "recover", &place, &dn, "--url", &url, "--bind-dn", test_support::ADMIN_DN];
    let password = ["--password-file", password.to_str().unwrap()];
    pando(&[&recover[..], &password].concat()).expect_code(0).expect_output("1 entries added");
    // Wrong credentials are refused, and no message contains the secret.
    let wrong = s3::run({
        let mut command = pando_at(storage.address(), "another secret");
        command.args(["backup", "list", &place]);
        command
    });
    assert!(wrong.stderr.contains("the storage answers ") && wrong.code == Some(1), "{wrong}");
    let keys_are_wrong = S3::credentials(scratch, "wrong", "another secret");
    let mut command = pando_at(storage.address(), SECRET);
    command.env("AWS_SHARED_CREDENTIALS_FILE", keys_are_wrong).args(["backup", "list", &place]);
    assert_eq!(s3::run(command).code, Some(0), "the variables are preferred to the file");
    let said = [server.output(), server.log(), wrong.stderr].concat();
    assert!(!said.contains(SECRET) && !said.contains("another secret"), "{said}");
    assert!(server.stop().success());
}

#[test]
fn large_uploads_survive_broken_connections() {
    let scratch = Scratch::new("bucket-large");
    large_files_are_uploaded_in_parts(&scratch, &S3::rclone(&scratch));
}

/// Uploads files that are larger than one part of an upload. Meanwhile, connections break and the process is killed.
fn large_files_are_uploaded_in_parts(scratch: &Scratch, storage: &S3) {
    let large = &scratch.join("large");
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = format!("dn: {}\nobjectClass: domain\ndc: example\n", test_support::SUFFIX);
    for number in 0..17 {
        // Random octets cannot be compressed.
        let mut photo = vec![0; 1 << 20];
        random.fill(&mut photo);
        text += &format!(
            "\ndn: cn=p{number},{}\nobjectClass: person\nobjectClass: organizationalPerson\nobjectClass: \
             inetOrgPerson\ncn: p{number}\nsn: p\njpegPhoto:: {}\n",
            test_support::SUFFIX,
            data_encoding::BASE64.encode(&photo)
        );
    }
    let ldif = scratch.write("large.ldif", text);
    command(&["import", "--suffix", test_support::SUFFIX, ldif.to_str().unwrap()], Some(large))
        .expect_code(0);
    let place = place("large");
    // The answer of the storage to the first part never arrives.
    let relay = Relay::to(storage.address(), |_| ConnectionEnd::HeldAfterSent(8 << 20));
    let mut killed = pando_at(relay.address(), SECRET);
    killed.args(["backup", "make", &place, "--data"]).arg(large).stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = killed.spawn().unwrap();
    relay.wait_for_hold();
    let list = || run(storage.address(), &["backup", "list", &place], None);
    list().expect_code(1).expect_error("has no backup");
    let make = |address| run(address, &["backup", "make", &place], Some(large));
    make(storage.address()).expect_code(2).expect_error(&format!("process {} on ", killed.id()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    list().expect_code(1).expect_error("has no backup");
    // Connections are cut during answers. The lock of the killed process is no longer valid.
    let relay = Relay::to(storage.address(), |number| match number {
        0 => ConnectionEnd::CutAfter(500),
        1 => ConnectionEnd::CutAfter(1_000),
        2 => ConnectionEnd::CutAfter(5 << 20),
        _ => ConnectionEnd::ToTheEnd,
    });
    make(relay.address()).expect_code(0).expect_output("it is the first");
    let copy = scratch.join("large-copy");
    run(storage.address(), &["restore", &place], Some(&copy)).expect_code(0);
    assert_eq!(exported(&copy), exported(large));
    // A truncated file is found.
    let names = list().expect_code(0).stdout;
    assert!(names.contains(", 17.8 MB"), "more than one part: {names}");
    if let Ok(files) = fs::read_dir(storage.folder().join("large")) {
        let file = files.map(|file| file.unwrap().path()).find(|path| path.extension().is_some()).unwrap();
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        run(storage.address(), &["backup", "verify", &place], None).expect_code(4).expect_error(&name);
    }
}
