//! Unix domain sockets: which users may connect, which user is the administrator without a password, and when the
//! socket file is created, replaced and removed.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use client::Connection;
use ldap::{ResultCode, ServerUrl};
use test_support::clients::{Run, run};
use test_support::pando::Start;
use test_support::tree::plant;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn socket(scratch: &Scratch) -> PathBuf {
    Pando::data(scratch).join("pando.sock")
}

fn url(path: &Path) -> String {
    ServerUrl::local(path).to_string()
}

/// Runs one of OpenLDAP's clients, bound by EXTERNAL.
fn external(program: &str, path: &Path, arguments: &[&str]) -> Run {
    let url = url(path);
    let mut all = vec!["-Q", "-Y", "EXTERNAL", "-H", &url, "-o", "nettimeout=60"];
    all.extend(arguments);
    run(program, &all, "")
}

/// Runs a program as a user who is neither root nor the user that runs the tests.
fn as_unprivileged(program: &str, arguments: &[&str]) -> Run {
    let mut all = vec!["--reuid=65534", "--regid=65534", "--clear-groups", program];
    if rustix::process::geteuid().is_root() {
        all.extend(arguments);
        return run("setpriv", &all, "");
    }
    // `-n`: never ask for a password. sudo prints an error if it would need one.
    all.splice(0..0, ["-n", "setpriv"]);
    all.extend(arguments);
    run("sudo", &all, "")
}

/// Every user of the machine can read the authority's certificate at the path that the server prints, because clients
/// need the certificate. Other users can read no other file.
#[test]
fn other_users_can_read_only_the_authority_certificate() {
    let scratch = Scratch::new("authority");
    let pando = Pando::start(&scratch);
    let authority = Pando::data(&scratch).join("tls/authority.pem");
    let said = format!("pando: clients verify this server by the authority in {}\n", authority.display());
    assert!(pando.said.contains(&said), "{}", pando.said);
    as_unprivileged("cat", &[authority.to_str().unwrap()]).expect_code(0).expect_output("BEGIN CERTIFICATE");
    as_unprivileged("ls", &[Pando::data(&scratch).to_str().unwrap()]).expect_error("Permission denied");
    for name in ["tls/authority-key.pem", "tls/key.pem", "data.mdb", "data.mdb-lock", "lock", "redo.mark"] {
        let file = Pando::data(&scratch).join(name);
        assert!(file.exists(), "{name}");
        as_unprivileged("cat", &[file.to_str().unwrap()]).expect_error("Permission denied");
    }
}

#[test]
fn the_owner_is_the_administrator_without_a_password() {
    let scratch = Scratch::new("local");
    let pando = Pando::start(&scratch);
    let path = socket(&scratch);
    let facts = std::fs::symlink_metadata(&path).unwrap();
    assert!(facts.file_type().is_socket());
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    assert!(pando.ready_line.ends_with(&url(&path)), "{}", pando.ready_line);
    plant(&mut pando.administrator());

    external("ldapwhoami", &path, &[]).expect_code(0).expect_output(&format!("dn:{ADMIN_DN}"));
    external("ldapwhoami", &path, &["-X", &format!("dn:{ADMIN_DN}")]).expect_code(0);
    let anna = "dn:uid=anna,ou=people,dc=example,dc=com";
    external("ldapwhoami", &path, &["-X", anna]).expect_code(0).expect_output(anna);
    external("ldapwhoami", &path, &["-X", "dn:uid=nobody,dc=example,dc=com"]).expect_code(49);
    external("ldapwhoami", &path, &["-X", "u:admin"]).expect_code(49);
    external("ldapsearch", &path, &["-LLL", "-b", SUFFIX, "(uid=anna)", "userPassword"])
        .expect_code(0)
        .expect_output("userPassword:: ");
    // Simple binds and anonymous requests work on a socket as they do over TCP.
    let url = url(&path);
    run("ldapwhoami", &["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD], "").expect_code(0);
    run("ldapwhoami", &["-x", "-H", &url], "").expect_code(0).expect_output("anonymous");
    let script =
        "import ldap, sys\nc = ldap.initialize(sys.argv[1])\nc.sasl_external_bind_s()\nprint(c.whoami_s())";
    run("/usr/bin/python3", &["-c", script, &url], "")
        .expect_code(0)
        .expect_output(&format!("dn:{ADMIN_DN}"));

    let mut local = Connection::open_local(&path).unwrap();
    assert!(local.bind_external(None).unwrap().is_success());
    let counted =
        local.entry("cn=Total Local,cn=Connections,cn=monitor", &["monitorCounter"]).unwrap().unwrap();
    assert!(counted.text("monitorCounter").unwrap().parse::<u32>().unwrap() >= 8, "{counted:?}");
    assert!(pando.stop().success());
    assert!(!path.exists(), "the file goes with the server");
}

#[test]
fn external_is_offered_on_the_local_socket_and_not_over_tcp() {
    let scratch = Scratch::new("external");
    let pando = Pando::start(&scratch);
    let mechanisms = |connection: &mut Connection| {
        let root = connection.entry("", &["supportedSASLMechanisms"]).unwrap().unwrap();
        root.texts("supportedSASLMechanisms")
    };
    let mut local = Connection::open_local(&socket(&scratch)).unwrap();
    assert_eq!(mechanisms(&mut local), ["EXTERNAL", "PLAIN"]);
    let mut remote = pando.administrator();
    assert_eq!(mechanisms(&mut remote), ["PLAIN"]);
    assert_eq!(remote.bind_external(None).unwrap().code, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    // A failed bind leaves the connection anonymous.
    let who = remote.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
    assert_eq!(who.extended.value.unwrap_or_default(), b"");
}

#[test]
fn other_users_bind_with_a_password_at_a_shared_socket() {
    let scratch = Scratch::new("others");
    let path = scratch.join("for all users");
    let pando = Start::new(&scratch).arguments(&["--listen", &url(&path)]).ready();
    plant(&mut pando.administrator());
    let url = url(&path);
    as_unprivileged("ldapwhoami", &["-Q", "-Y", "EXTERNAL", "-H", &url])
        .expect_code(49)
        .expect_error("for root");
    as_unprivileged("ldapwhoami", &["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD]).expect_code(0);
    let root =
        ["-x", "-LLL", "-H", &url, "-s", "base", "-b", "", "supportedSASLMechanisms", "namingContexts"];
    let said = as_unprivileged("ldapsearch", &root).expect_code(0).expect_output(SUFFIX).stdout;
    assert!(!said.contains("EXTERNAL"), "{said}");
    // Other users cannot even enter the data directory.
    let own = self::url(&socket(&scratch));
    as_unprivileged("ldapwhoami", &["-Q", "-Y", "EXTERNAL", "-H", &own]).expect_code(255);
}

#[test]
fn a_dead_server_s_socket_is_replaced() {
    let scratch = Scratch::new("stale");
    let path = scratch.join("s");
    let listen = ["--listen", &url(&path)];
    Start::new(&scratch).arguments(&listen).ready().kill();
    assert!(path.exists() && socket(&scratch).exists(), "a killed server leaves them");
    let pando = Start::new(&scratch).arguments(&listen).ready();
    for path in [&path, &socket(&scratch)] {
        external("ldapwhoami", path, &[]).expect_code(0);
    }
    // A second server does not take over the socket of a running one.
    let (status, said) = Start::bare(&scratch, "other").arguments(&listen).refused();
    assert_eq!(status.code(), Some(5), "{said}");
    assert!(said.contains("another process listens there"), "{said}");
    external("ldapwhoami", &path, &[]).expect_code(0);
    assert!(pando.stop().success());
    assert!(!path.exists());
}

#[test]
fn a_socket_path_may_exceed_the_kernel_limit() {
    let scratch = Scratch::new("long");
    let name = "a-data-directory-".repeat(12);
    let pando = Start::bare(&scratch, &name).ready();
    let path = scratch.join(&name).join("pando.sock");
    let mut connection = Connection::open_local(&path).unwrap();
    assert!(connection.bind_external(None).unwrap().is_success());
    drop(connection);
    assert!(pando.stop().success());
    assert!(!path.exists());
}

#[test]
fn a_place_that_cannot_be_a_socket_is_refused() {
    let scratch = Scratch::new("no-socket");
    let file = scratch.write("precious", "text");
    let check = |url: &str, code: i32, part: &str| {
        let (status, said) = Start::bare(&scratch, "data").arguments(&["--listen", url]).refused();
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    };
    check(&url(&file), 5, "that is no socket");
    check(&url(&scratch.join("nowhere/s")), 5, "No such file or directory");
    check("ldapi:///run/pando/s", 2, "ldapi://%2Frun%2Fpando%2Fs");
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
}

/// Regression test: after `rm DATA/lock`, a second server started on the same data, and both acknowledged changes.
#[test]
fn a_second_server_is_refused_even_without_the_lock_file() {
    let scratch = Scratch::new("locked");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let data = Pando::data(&scratch);
    let ldif = scratch.write("one.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n"));
    let refused = |data: &Path| {
        let (status, said) = Start::bare(&scratch, data.to_str().unwrap()).refused();
        assert_eq!(status.code(), Some(3), "{said}");
        for command in [&["compact"][..], &["import", "--suffix", SUFFIX, ldif.to_str().unwrap()]] {
            test_support::pando::command(command, Some(data)).expect_code(3);
        }
    };
    std::fs::remove_file(data.join("lock")).unwrap();
    refused(&data);
    // The lock still holds after the directory is renamed, and for a data file that is linked into a folder at the old
    // path.
    let moved = scratch.join("moved");
    std::fs::rename(&data, &moved).unwrap();
    refused(&moved);
    std::fs::create_dir(&data).unwrap();
    for entry in std::fs::read_dir(&moved).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() && entry.file_name() != "lock" {
            std::fs::hard_link(entry.path(), data.join(entry.file_name())).unwrap();
        }
    }
    refused(&data);
    // The first server continues, and the changes that it acknowledges stay.
    let mut administrator = pando.connect();
    assert!(administrator.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    test_support::tree::add_person(&mut administrator, "carla");
    assert!(pando.stop().success());
    let again = ["--suffix", SUFFIX, "--admin-dn", ADMIN_DN];
    let pando = Start::bare(&scratch, moved.to_str().unwrap()).arguments(&again).ready();
    assert!(pando.administrator().entry(&test_support::tree::person_dn("carla"), &[]).unwrap().is_some());
    assert!(pando.stop().success());
}

/// Regression test: a mistyped path created an empty directory, which was then served; a path in /proc overflowed the
/// stack.
#[test]
fn only_the_last_folder_of_the_data_is_created() {
    let scratch = Scratch::new("mistyped");
    let above = scratch.join("mistyped");
    for data in [above.join("data"), PathBuf::from("/proc/x"), PathBuf::from("/proc/x/data")] {
        let (status, said) = Start::bare(&scratch, data.to_str().unwrap()).refused();
        assert!(status.code().is_some_and(|code| code > 0), "{status}: {said}");
        assert!(said.contains(data.to_str().unwrap()) && !above.exists(), "{said}");
    }
    let ldif = scratch.write("one.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n"));
    let import = ["import", "--suffix", SUFFIX, ldif.to_str().unwrap()];
    test_support::pando::command(&import, Some(&above.join("data"))).expect_error("there is no directory");
    assert!(!above.exists());
    std::fs::create_dir(&above).unwrap();
    test_support::pando::command(&import, Some(&above.join("data"))).expect_code(0);
}
