//! Privileges of the server process: the user that it switches to, core dumps, permissions of its files, and the
//! sandbox of the shipped systemd unit.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use test_support::clients::run;
use test_support::pando::{ServiceManager, Start, command};
use test_support::root::was_run_as_root;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Id of the unprivileged user.
const UNPRIVILEGED_ID: u32 = 65_534;

/// Creates a folder of the unprivileged user in the scratch folder.
fn home(scratch: &Scratch) {
    fs::create_dir(scratch.join("home")).unwrap();
    chown(scratch.join("home"), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
}

/// Starts a server that switches to the unprivileged user.
fn as_unprivileged(scratch: &Scratch) -> Start {
    let names = ["--suffix", SUFFIX, "--admin-dn", ADMIN_DN];
    Start::bare(scratch, "home/data").arguments(&names).arguments(&["--user", "nobody"])
}

/// Returns the words after a name in a file below the server's `/proc` folder.
fn proc_values(pando: &Pando, file: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{}/{file}", pando.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Writes `certificate.pem` and its key.
fn write_certificate(scratch: &Scratch) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    scratch.write("certificate.pem", params.self_signed(&key).unwrap().pem());
    scratch.write("key.pem", key.serialize_pem());
}

#[test]
fn root_privileges_are_dropped_after_the_ports_are_bound() {
    if was_run_as_root(module_path!(), "root_privileges_are_dropped_after_the_ports_are_bound") {
        return;
    }
    let scratch = Scratch::new("nobody");
    home(&scratch);
    write_certificate(&scratch);
    let key = scratch.join("key.pem");
    chown(&key, Some(UNPRIVILEGED_ID), None).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    let manager = ServiceManager::listen(&scratch.join("notify"));
    fs::set_permissions(scratch.join("notify"), Permissions::from_mode(0o666)).unwrap();
    let node = "[tls]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    let node = scratch.write("node.toml", node);
    // Each test process uses a different loopback address, so that port 389 is free there.
    let [.., third, second, first] = std::process::id().to_be_bytes();
    let privileged = format!("ldap://127.{}.{second}.{first}:389", third | 0x40);
    let start = || {
        as_unprivileged(&scratch)
            .arguments(&["--listen", &privileged, "--node", node.to_str().unwrap()])
            .environment("NOTIFY_SOCKET", scratch.join("notify"))
            .ready()
    };
    let pando = start();
    assert_eq!(manager.next_line(), "READY=1");
    assert!(pando.ready_line.contains(&privileged), "{}", pando.ready_line);
    let nobody = vec![UNPRIVILEGED_ID.to_string(); 4];
    assert_eq!(
        (proc_values(&pando, "status", "Uid:"), proc_values(&pando, "status", "Gid:")),
        (nobody.clone(), nobody)
    );
    let groups = proc_values(&pando, "status", "Groups:");
    assert!(!groups.contains(&"0".to_owned()), "{groups:?}");
    assert_eq!(proc_values(&pando, "status", "NoNewPrivs:"), ["1"]);
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(proc_values(&pando, "status", set), ["0000000000000000"], "{set}");
    }
    // Core dumps are disabled for every thread, not only the first.
    for thread in fs::read_dir(format!("/proc/{}/task", pando.id())).unwrap() {
        assert_eq!(fs::metadata(thread.unwrap().path().join("status")).unwrap().uid(), 0, "no core dumps");
    }
    let data = fs::metadata(scratch.join("home/data")).unwrap();
    assert_eq!((data.uid(), data.gid(), data.mode() & 0o777), (UNPRIVILEGED_ID, UNPRIVILEGED_ID, 0o711));
    // The server answers on both ports and on its socket. The user that runs the server process is the administrator on
    // the socket.
    plant(&mut pando.administrator());
    run("ldapwhoami", &["-x", "-H", &privileged, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD], "").expect_code(0);
    let local = pando.ready_line.split_whitespace().last().unwrap().to_owned();
    let owner =
        ["--reuid=65534", "--regid=65534", "--clear-groups", "ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H"];
    run("setpriv", &[&owner[..], &[&local]].concat(), "").expect_code(0).expect_output(ADMIN_DN);
    // Write a new certificate and key to the same files, so that their permissions stay.
    write_certificate(&scratch);
    pando.signal(Signal::HUP);
    assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
    assert!(pando.log().contains("changed: files of certificates"), "{}", pando.log());
    assert!(!pando.log().contains("others can use"), "{}", pando.log());
    pando.kill();
    let pando = start();
    assert!(pando.administrator().entry(&person_dn("anna"), &["cn"]).unwrap().is_some());
    assert!(pando.stop().success());
}

/// Regression test: an import by root left root's files in the folder of the server's user, and the server did not
/// start.
#[test]
fn files_that_root_creates_belong_to_the_owner_of_the_folder() {
    if was_run_as_root(module_path!(), "files_that_root_creates_belong_to_the_owner_of_the_folder") {
        return;
    }
    let scratch = Scratch::new("ownership");
    home(&scratch);
    let data = scratch.join("home/data");
    let ldif = scratch.write("people.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n"));
    let settings =
        scratch.write("settings.toml", format!("suffixes = [{SUFFIX:?}]\n[indexes]\nsn = [\"equality\"]\n"));
    let (ldif, settings) = (ldif.to_str().unwrap(), settings.to_str().unwrap());
    let backup = scratch.join("home/backup");
    fs::create_dir(&backup).unwrap();
    chown(&backup, Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
    let restored = scratch.join("home/restored");
    let [backup_text, restored_text] = [&backup, &restored].map(|path| path.to_str().unwrap());
    let commands: [(&[&str], &Path); 10] = [
        (&["import", "--suffix", SUFFIX, ldif], &data),
        (&["apply", settings], &data),
        (&["index", "add", "cn", "--kinds", "substring"], &data),
        (&["verify", "--repair"], &data),
        (&["compact"], &data),
        (&["verify"], &data),
        (&["export"], &data),
        (&["backup", "make", backup_text], &data),
        (&["restore", backup_text], Path::new(restored_text)),
        (&["verify"], Path::new(restored_text)),
    ];
    for (arguments, data) in commands {
        // Even commands that only read create the reader table (`data.mdb-lock`).
        let _ = fs::remove_file(data.join("data.mdb-lock"));
        command(arguments, Some(data)).expect_code(0);
        let owners = owners(data);
        assert!(
            owners.len() > 1 && owners.iter().all(|(_, owner)| *owner == UNPRIVILEGED_ID),
            "{arguments:?}: {owners:?}"
        );
    }
    let kept = owners(&backup);
    assert!(kept.len() > 1 && kept.iter().all(|(_, owner)| *owner == UNPRIVILEGED_ID), "{kept:?}");
    // A command of root does not change the owner of a system file, although a hard link or a symbolic link in the
    // folder leads to the file.
    let system = scratch.write("of-the-system", "root's");
    fs::hard_link(&system, data.join("hard")).unwrap();
    std::os::unix::fs::symlink(&system, data.join("soft")).unwrap();
    command(&["compact"], Some(&data)).expect_code(0);
    assert_eq!(fs::metadata(&system).unwrap().uid(), 0);
    assert!(as_unprivileged(&scratch).refused().1.contains("hard cannot be read and written as nobody"));
    fs::remove_file(data.join("hard")).unwrap();
    fs::remove_file(data.join("soft")).unwrap();
    assert!(as_unprivileged(&scratch).ready().stop().success());
}

/// Returns the files at and below a folder, with their owners.
fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut owners = vec![(folder.to_owned(), fs::metadata(folder).unwrap().uid())];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        match metadata.is_dir() {
            true => owners.extend(self::owners(&path)),
            false => owners.push((path, metadata.uid())),
        }
    }
    owners
}

#[test]
fn files_that_the_server_user_cannot_open_are_reported() {
    if was_run_as_root(module_path!(), "files_that_the_server_user_cannot_open_are_reported") {
        return;
    }
    let scratch = Scratch::new("not-nobody");
    home(&scratch);
    assert!(Start::bare(&scratch, "home/data").ready().stop().success(), "as root");
    let (status, said) = as_unprivileged(&scratch).refused();
    let data = scratch.join("home/data");
    assert_eq!(status.code(), Some(4), "{said}");
    assert!(said.contains("cannot be read and written as nobody"), "{said}");
    assert!(said.contains(&format!("chown -R nobody: {}", data.display())), "{said}");
    // One file belongs to root, as after an import by root.
    assert!(Command::new("chown").args(["-R", "nobody:"]).arg(&data).status().unwrap().success());
    chown(data.join("data.mdb"), Some(0), Some(0)).unwrap();
    let (status, said) = as_unprivileged(&scratch).refused();
    assert!(status.code() == Some(4) && said.contains("data.mdb cannot be read"), "{said}");
    chown(data.join("data.mdb"), Some(UNPRIVILEGED_ID), None).unwrap();
    // A password file that only root can read is used, with a warning, because a reload will not be able to read it.
    let password = scratch.write("password", "secret\n");
    fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let file = ["--admin-password-file", password.to_str().unwrap()];
    let pando = as_unprivileged(&scratch).arguments(&file).ready();
    let told = format!("{} cannot be read as nobody, so a reload will be refused", password.display());
    assert!(pando.log().contains(&told), "{}", pando.log());
    assert!(pando.stop().success());
    for (arguments, part) in [
        (["--user", "no such user"], "user \"no such user\" does not exist on this machine"),
        (["--group", "nogroup"], "group needs the setting user"),
    ] {
        let (status, said) = Start::bare(&scratch, "data").arguments(&arguments).refused();
        assert!(status.code() == Some(2) && said.contains(part), "{said}");
    }
    let arguments = ["--user", "nobody", "--group", "no such group"];
    let (status, said) = Start::bare(&scratch, "data").arguments(&arguments).refused();
    assert!(status.code() == Some(2) && said.contains("group \"no such group\" does not exist"), "{said}");
}

#[test]
fn core_dumps_contain_no_passwords() {
    let scratch = Scratch::new("core");
    let core_size = ["Max core file size", "0", "0", "bytes"].map(str::to_owned);
    let mut pando = Pando::start(&scratch);
    let limit = proc_values(&pando, "limits", "Max core file size");
    assert_eq!(limit, core_size[1..]);
    pando.signal(Signal::ABORT);
    let ended = pando.exit();
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(Signal::ABORT.as_raw()), false));
    // Developers can enable core dumps.
    let pando = Start::new(&scratch).environment("PANDO_CORE_DUMPS", "1").ready();
    let own = fs::read_to_string("/proc/self/limits").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(
        proc_values(&pando, "limits", "Max core file size").join(" "),
        own.split_whitespace().collect::<Vec<_>>().join(" ")
    );
}

/// Returns the mappings of a process's writable memory that contain these octets.
fn in_memory(pando: &Pando, octets: &[u8]) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", pando.id())).unwrap();
    let memory = fs::File::open(format!("/proc/{}/mem", pando.id())).unwrap();
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        let (mut at, end) = (address(start), address(end));
        // Read overlapping chunks. Reading unmapped memory fails.
        let mut piece = vec![0; 1 << 20];
        while at < end {
            let wanted = piece.len().min(usize::try_from(end - at).unwrap());
            let Ok(count) = memory.read_at(&mut piece[..wanted], at) else { break };
            if memchr::memmem::find(&piece[..count], octets).is_some() {
                found.push(line.to_owned());
            }
            at += (count.saturating_sub(octets.len())).max(1) as u64;
            if count < wanted || count <= octets.len() {
                break;
            }
        }
    }
    found
}

/// Passwords are erased from the connection's buffer, the queue and the hash threads.
#[test]
fn memory_contains_no_verified_password() {
    if was_run_as_root(module_path!(), "memory_contains_no_verified_password") {
        return;
    }
    let scratch = Scratch::new("memory");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    assert!(pando.stop().success());
    let pando = Pando::start(&scratch);
    let anna = person_dn("anna");
    let mut connection = pando.connect();
    for password in ["anna-secret", "never-anna-s", "anna-secret"] {
        let right = password == "anna-secret";
        assert_eq!(connection.bind(&anna, password).unwrap().is_success(), right);
    }
    let plain = ["-Q", "-O", "none", "-Y", "PLAIN", "-U", "anna", "-w", "anna-secret", "-H"];
    let url = format!("ldap://{}", pando.address());
    run("ldapwhoami", &[&plain[..], &[&url]].concat(), "").expect_code(0);
    assert!(connection.entry(&anna, &["cn"]).unwrap().is_some());
    assert!(!in_memory(&pando, b"ou=people,dc=example").is_empty(), "a text in memory is found");
    for password in [&b"anna-secret"[..], b"never-anna-s"] {
        assert_eq!(in_memory(&pando, password), Vec::<String>::new());
    }
}

/// The sandbox of the unit may become tighter, but not wider. systemd 252 rates its exposure 1.7; other versions differ
/// slightly. A threshold of 20 means 2.0.
#[test]
fn the_shipped_unit_is_a_tight_sandbox() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/pando.service");
    let judged = run("systemd-analyze", &["security", "--offline=true", "--threshold=20", unit], "");
    judged.expect_code(0).expect_output("Overall exposure level for pando.service");
}

#[test]
fn files_with_open_permissions_are_reported_once() {
    let scratch = Scratch::new("exposed");
    let manager = ServiceManager::listen(&scratch.join("notify"));
    write_certificate(&scratch);
    let node =
        "admin_password_file = \"password\"\n[tls]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    let node = scratch.write("node.toml", node);
    let password = scratch.write("password", ADMIN_PASSWORD);
    let set = |file: &std::path::Path, mode| fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    set(&password, 0o600);
    let key = scratch.join("key.pem");
    set(&key, 0o644);
    let pando = Start::new(&scratch)
        .arguments(&["--node", node.to_str().unwrap()])
        .without_environment("PANDO_ADMIN_PASSWORD")
        .environment("NOTIFY_SOCKET", scratch.join("notify"))
        .ready();
    assert_eq!(manager.next_line(), "READY=1");
    let count = |what: &str, file: &std::path::Path, mode: &str| {
        let line = format!("others can use {what} in {}, mode {mode}: chmod ", file.display());
        pando.log().lines().filter(|said| said.contains(" WARN ") && said.contains(&line)).count()
    };
    assert_eq!(count("the private key of TLS", &key, "0644"), 1, "{}", pando.log());
    set(&password, 0o604);
    set(&Pando::data(&scratch), 0o755);
    for _ in 0..2 {
        pando.signal(Signal::HUP);
        assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
    }
    assert_eq!(count("the private key of TLS", &key, "0644"), 1);
    assert_eq!(count("the administrator's password", &password, "0604"), 1, "{}", pando.log());
    assert_eq!(count("the data", &Pando::data(&scratch), "0755"), 1, "{}", pando.log());
    assert!(!pando.log().contains(ADMIN_PASSWORD));
}
