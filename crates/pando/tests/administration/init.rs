//! A server works with the files that `pando init` writes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use client::Connection;
use ldap::{ResultCode, Scope};
use test_support::clients::Run;
use test_support::pando::{Start, command};
use test_support::{Pando, Scratch};

fn init(folder: &Path, arguments: &[&str]) -> Run {
    let all = [&["init", folder.to_str().unwrap(), "--yes", "--listen", "ldap://127.0.0.1:0"], arguments];
    command(&all.concat(), None)
}

/// Starts a server with only the node file that `pando init` wrote.
fn serve(scratch: &Scratch, folder: &Path) -> Pando {
    Start::of_node(scratch, &folder.join("node.toml")).ready()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_server_is_set_up_once() {
    let scratch = Scratch::new("init");
    let folder = scratch.join("pando");
    let said = init(&folder, &["--suffix", "dc=example,dc=org"]).expect_code(0).stdout;
    assert!(said.contains("pando serve --node") && said.contains("admin-password"), "{said}");
    for name in ["node.toml", "settings.toml", "admin-password"] {
        let mode = folder.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let password = read(&folder, "admin-password");
    assert!(!said.contains(password.trim_end()), "the password is in its file alone");
    assert!(!password.ends_with('\n'), "`ldapsearch -y` sends all of the file");
    let pando = serve(&scratch, &folder);
    let mut admin = pando.connect();
    assert!(admin.bind("cn=admin", password.trim_end()).unwrap().is_success());
    let found = admin.search("dc=example,dc=org", Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!(found.entries.len(), 3, "{found:?}");
    let top = admin.entry("dc=example,dc=org", &["*"]).unwrap().unwrap();
    assert_eq!(top.texts("o"), ["example"], "nothing of the sample is in a directory without it");
    assert_eq!(top.texts("description"), [""; 0]);
    let node = folder.join("node.toml");
    let node = node.to_str().unwrap();
    command(&["user", "add", "--node", node, "anna"], None).expect_code(0);
    init(&folder, &["--suffix", "dc=example,dc=org"]).expect_code(3);
    drop(admin);
    assert!(pando.stop().success());
    // `pando init` runs again, with the same answers and with different ones.
    init(&folder, &["--suffix", "dc=example,dc=org"]).expect_code(0).expect_output("stays as it is");
    init(&folder, &["--suffix", "dc=example,dc=net"]).expect_code(2).expect_error("settings.toml exists");
    init(&folder, &["--suffix", "nonsense"]).expect_code(2);
    assert_eq!(read(&folder, "admin-password"), password);
    command(
        &[
            "plan",
            "--data",
            folder.join("data").to_str().unwrap(),
            folder.join("settings.toml").to_str().unwrap(),
        ],
        None,
    )
    .expect_code(0)
    .expect_output("no change");
}

/// Regression test: a second setup put the settings of the first one in force again.
#[test]
fn settings_changed_since_the_first_setup_stay() {
    let scratch = Scratch::new("init-again");
    let folder = scratch.join("pando");
    init(&folder, &["--readers", "self"]).expect_code(0);
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let added = "suffixes = [\"dc=example,dc=org\", ";
    let settings = read(&folder, "settings.toml").replace("suffixes = [", added);
    let settings = scratch.write("settings.toml", settings);
    command(&["apply", "--data", data, settings.to_str().unwrap()], None).expect_code(0);
    init(&folder, &["--readers", "self"]).expect_code(2).expect_error("pando plan");
    let plan = command(&["plan", "--data", data, settings.to_str().unwrap()], None).expect_code(0);
    plan.expect_output("no change");
}

/// Returns whether an anonymous client can read an entry, and whether a user can read the entry of another user.
fn reads(pando: &Pando) -> (bool, bool) {
    let user = |uid: &str| format!("uid={uid},ou=people,dc=example,dc=com");
    let sees = |connection: &mut Connection| {
        connection.entry(&user("ahuber"), &["cn"]).unwrap().is_some_and(|entry| entry.text("cn").is_some())
    };
    let anonymous = sees(&mut pando.connect());
    let mut bound = pando.connect();
    let other = bound.search("", Scope::BaseObject, "(objectClass=*)", &["1.1"]).unwrap();
    assert!(other.outcome.is_success());
    assert_eq!(bound.bind(&user("mrossi"), "password").unwrap().code, ResultCode::SUCCESS);
    (anonymous, sees(&mut bound))
}

#[test]
fn the_readers_option_decides_who_can_read() {
    for (readers, expected) in
        [("anonymous", (true, true)), ("users", (false, true)), ("self", (false, false))]
    {
        let scratch = Scratch::new("init-readers");
        let folder = scratch.join("pando");
        init(&folder, &["--sample", "--readers", readers])
            .expect_code(0)
            .expect_output("sample organisation");
        let pando = serve(&scratch, &folder);
        assert_eq!(reads(&pando), expected, "{readers}");
        assert!(pando.stop().success());
    }
}

#[test]
fn init_accepts_an_existing_certificate() {
    let scratch = Scratch::new("init-tls");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = scratch.write("certificate.pem", made.cert.pem());
    let key = scratch.write("key.pem", made.signing_key.serialize_pem());
    let folder = scratch.join("pando");
    let tls = ["--certificate", certificate.to_str().unwrap(), "--private-key", key.to_str().unwrap()];
    init(&folder, &tls).expect_code(0);
    let pando = serve(&scratch, &folder);
    assert!(!folder.join("data/tls/authority.pem").exists());
    assert!(pando.stop().success());
    init(&scratch.join("other"), &["--certificate", "/nonexistent", "--private-key", "/nonexistent"])
        .expect_code(2);
    let asked = command(&["init", scratch.join("third").to_str().unwrap()], None).expect_code(2);
    asked.expect_error("no terminal");
    assert!(!scratch.join("other").exists() && !scratch.join("third").exists());
}

/// Regression test: if an answer was refused only when the settings were applied, the files that were already written
/// stayed. A second attempt with another answer then failed.
#[test]
fn a_refused_answer_leaves_no_file() {
    let scratch = Scratch::new("init-refused");
    let folder = scratch.join("new/pando");
    let suffix = ["--suffix", "nonsense=x"];
    init(&folder, &suffix).expect_code(2).expect_error("nonsense");
    assert!(!scratch.join("new").exists());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("notes"), "own").unwrap();
    init(&folder, &suffix).expect_code(2);
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["notes"]);
    init(&folder, &["--suffix", "dc=example,dc=org"]).expect_code(0);
}
