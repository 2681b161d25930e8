//! `pando doctor` and `pando support`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use test_support::clients::run;
use test_support::pando::{Start, command, program};
use test_support::{Pando, Scratch};

fn findings(lines: &str) -> Vec<(String, String, String)> {
    let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    lines.lines().map(read).map(|of| (text(&of["check"]), text(&of["weight"]), text(&of["text"]))).collect()
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let scratch = Scratch::new("doctor");
    let data = Pando::data(&scratch);
    command(&["doctor"], Some(&data)).expect_code(1).expect_output("problem").expect_output("does not exist");
    let pando = Pando::start(&scratch);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let run = command(&["doctor", "--json"], Some(&data)).expect_code(0);
    let found = findings(&run.stdout);
    let weight = |check: &str| {
        let of = found.iter().find(|(name, ..)| name == check);
        of.unwrap_or_else(|| panic!("no {check}: {run}")).1.clone()
    };
    for check in
        ["permissions", "clock", "duplicates", "server", "changes", "reclaim", "certificate", "indexes"]
    {
        assert_eq!(weight(check), "fine", "{check}: {run}");
    }
    for check in ["disk", "sync", "huge pages", "overcommit"] {
        assert_ne!(weight(check), "problem", "{check}: {run}");
    }
    assert_eq!(weight("open files"), "warning", "the tests have few descriptors: {run}");
    assert_eq!(weight("backup"), "warning");
    // Only a temporary file was written, and it was removed.
    let names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("doctor")));
    std::fs::set_permissions(data.join("tls/key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let quiet = command(&["doctor", "--quiet"], Some(&data)).expect_code(1);
    assert!(quiet.stdout.contains("key.pem") && !quiet.stdout.contains("fine "), "{quiet}");
    assert!(pando.stop().success());
    command(&["doctor"], Some(&data)).expect_code(1).expect_output("is the directory being served?");
    command(&["doctor", "--node", "/nonexistent"], Some(&data)).expect_code(2);
}

#[test]
fn a_bundle_path_may_be_invalid_utf_8() {
    let scratch = Scratch::new("support-path");
    let (data, bundle) = (Pando::data(&scratch), scratch.join("").join(OsStr::from_bytes(b"\xff.tar")));
    command(&["import", "--suffix", "dc=example,dc=org", "/dev/null"], Some(&data));
    let words = ["support", "--json", "--data"].map(OsStr::new);
    let words = [&words[..], &[data.as_os_str(), OsStr::new("-o"), bundle.as_os_str()]].concat();
    run(program(), &words, "").expect_code(0).expect_output("\u{fffd}.tar");
    assert!(bundle.exists());
}

#[test]
fn a_bundle_for_support_has_no_secrets() {
    let scratch = Scratch::new("support");
    let log = scratch.join("server.log");
    let node =
        scratch.write("node.toml", format!("# pl4nted\nadmin_dn = \"cn=admin\"\n[log]\nfile = {log:?}\n"));
    let data = Pando::data(&scratch);
    let node = node.to_str().unwrap();
    let start = Start::bare(&scratch, "data").arguments(&["--node", node]);
    let pando = start.environment("PANDO_ADMIN_PASSWORD", "pl4nted").ready();
    let mut admin = pando.connect();
    assert!(admin.bind("cn=admin", "pl4nted").unwrap().is_success());
    let bundle = scratch.join("bundle.tar");
    command(&["support", "--node", node, "-o", bundle.to_str().unwrap()], Some(&data)).expect_code(0);
    assert_eq!(bundle.metadata().unwrap().permissions().mode() & 0o077, 0, "only its owner reads it");
    let octets = std::fs::read(&bundle).unwrap();
    let text = String::from_utf8_lossy(&octets);
    for secret in ["pl4nted", "PRIVATE KEY", "{ARGON2"] {
        assert!(!text.contains(secret), "{secret} is in the bundle");
    }
    let list = run("tar", &["-tf", bundle.to_str().unwrap()], "").expect_code(0).stdout;
    for name in
        ["version.json", "node.toml", "settings.toml", "doctor.txt", "monitor.ldif", "files.txt", "log.txt"]
    {
        assert!(list.contains(&format!("pando-support/{name}")), "{list}");
    }
    for part in ["cn=Time,cn=monitor", "INFO serving on", "suffixes", "data.mdb", "certificate"] {
        assert!(text.contains(part), "{part} is missing");
    }
    assert!(pando.stop().success());
    // The command works without a running server too.
    command(&["support", "--node", node, "-o", bundle.to_str().unwrap()], Some(&data)).expect_code(0);
}
