//! The server process, as an operator and a service manager see it: signals, notifications, the log.

use ldap::Scope;
use rustix::process::Signal;
use test_support::cluster::until;
use test_support::pando::{ServiceManager, Start, program};
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

#[test]
fn a_reload_applies_what_it_can_and_notifies_the_service_manager() {
    let scratch = Scratch::new("reload");
    let manager = ServiceManager::listen(&scratch.join("notify"));
    let log = scratch.join("pando.txt");
    let node_file = |operations: bool, text: &str| {
        let log = format!("[log]\nfile = \"pando.txt\"\noperations = {operations}\n");
        scratch.write("node.toml", format!("{text}\n{log}"))
    };
    let config = node_file(false, "");
    let mut pando = Start::new(&scratch)
        .arguments(&["--node", config.to_str().unwrap()])
        .environment("NOTIFY_SOCKET", scratch.join("notify"))
        .ready();
    assert_eq!(manager.next_line(), "READY=1");
    plant(&mut pando.administrator());
    let search = |pando: &test_support::Pando| {
        pando.administrator().search(SUFFIX, Scope::WholeSubtree, "(uid=anna)", &["1.1"]).unwrap();
    };
    search(&pando);
    assert!(!std::fs::read_to_string(&log).unwrap().contains("(uid=anna)"), "operations are not logged");

    node_file(true, "threads = 7");
    std::fs::rename(&log, scratch.join("pando.txt.1")).unwrap();
    pando.signal(Signal::HUP);
    assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
    search(&pando);
    let logged = std::fs::read_to_string(&log).expect("the log was opened again");
    assert!(logged.contains("(uid=anna)"), "operations are logged now: {logged}");
    assert!(logged.contains("changed: log"), "{logged}");
    assert!(logged.contains("needs a restart: threads"), "{logged}");

    node_file(false, "thread = 7");
    pando.signal(Signal::HUP);
    assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
    search(&pando);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("node.toml:1: unknown field `thread`"), "{logged}");
    assert_eq!(logged.matches("(uid=anna)").count(), 2, "a file with an error changes nothing: {logged}");

    pando.signal(Signal::TERM);
    assert_eq!(manager.next_line(), "STOPPING=1");
    assert!(pando.exit().success());
}

#[test]
fn the_log_has_a_line_for_each_operation_and_no_secret() {
    let scratch = Scratch::new("operation-log");
    let mut pando = Start::new(&scratch).arguments(&["--log-operations"]).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    admin.compare(&anna, "userPassword", "compared-secret").unwrap();
    admin.search(SUFFIX, Scope::WholeSubtree, "(userPassword=filtered-secret)", &[]).unwrap();
    admin.search(SUFFIX, Scope::WholeSubtree, "(uid=anna)", &[]).unwrap();
    admin
        .modify(&anna, &[(ldap::ChangeOperation::Replace, "userPassword", &["modified-secret"][..])])
        .unwrap();
    pando.connect().bind(&anna, "wrong-secret").unwrap();
    pando.signal(Signal::TERM);
    assert!(pando.exit().success());
    let log = pando.log();
    for line in [
        format!("bind dn={ADMIN_DN:?} method=simple result=success"),
        format!("add dn={anna:?} result=success"),
        format!("compare dn={anna:?} attribute=\"userPassword\" result=compareFalse"),
        format!("search dn={SUFFIX:?} scope=sub filter=\"(uid=anna)\" result=success entries=1"),
        "filter=\"withheld, it may assert a password\"".to_owned(),
        format!("modify dn={anna:?} result=success"),
        format!("bind dn={anna:?} method=simple result=invalidCredentials"),
    ] {
        assert!(log.contains(&line), "no {line:?} in\n{log}");
    }
    for secret in ["secret", ADMIN_PASSWORD] {
        assert!(!log.contains(secret), "{secret:?} is in\n{log}");
    }
}

#[test]
fn slow_operations_are_logged_with_their_plan() {
    let scratch = Scratch::new("slow-operations");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    assert!(pando.stop().success());
    let anna = person_dn("anna");
    // A limit of 0 milliseconds logs every operation; a limit of a month logs none.
    let run = |log: &str| {
        let node = scratch.write("node.toml", format!("[log]\n{log}\n"));
        std::fs::remove_file(scratch.join("pando.log")).unwrap();
        let pando = Start::new(&scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
        let mut client = pando.connect();
        assert!(client.bind(&anna, "anna-secret").unwrap().is_success());
        client.search(SUFFIX, Scope::WholeSubtree, "(&(uid=anna)(userPassword=x-secret))", &[]).unwrap();
        client.search(SUFFIX, Scope::WholeSubtree, "(description=*Example*)", &[]).unwrap();
        let figures = "cn=Slow Operations,cn=Statistics,cn=monitor";
        let slow = pando.administrator().entry(figures, &["monitorCounter"]).unwrap().unwrap();
        let log = pando.log();
        assert!(pando.stop().success());
        (slow.text("monitorCounter").unwrap().parse::<u64>().unwrap(), log)
    };
    let (slow, log) = run("slow_milliseconds = 0");
    assert_eq!(slow, 4, "two binds and two searches before this one; {log}");
    for part in [
        format!("slow: conn=1 op=1 bind dn={anna:?} method=simple result=success"),
        "filter=\"(&(uid=?)(|))\"".to_owned(),
        "filter=\"(description=*?*)\" result=success entries=0".to_owned(),
        format!("who={anna:?} plan=\"by indexes: "),
        "substring of description".to_owned(),
        "examined: ".to_owned(),
    ] {
        assert!(log.contains(&part), "no {part:?} in\n{log}");
    }
    assert!(!log.contains("Example*") && !log.contains("secret"), "{log}");
    let (_, log) = run("slow_milliseconds = 0\nslow_values = true");
    assert!(log.contains("filter=\"(description=*Example*)\""), "{log}");
    assert!(log.contains("withheld, it may assert a password") && !log.contains("secret"), "{log}");
    let (slow, log) = run("slow_milliseconds = 4000000000");
    assert!(slow == 0 && !log.contains("slow: "), "{log}");
}

#[test]
fn a_generated_password_is_printed_once_and_never_logged() {
    let scratch = Scratch::new("generated");
    let start = || Start::bare(&scratch, "data").without_environment("PANDO_ADMIN_PASSWORD");
    let pando = start().ready();
    let password = pando.said.split_once("the password of cn=admin is ").expect("it is said").1;
    let password = password.lines().next().unwrap().to_owned();
    assert!(pando.connect().bind("cn=admin", &password).unwrap().is_success());
    assert!(!pando.log().contains(&password));
    assert!(pando.stop().success());

    let pando = start().ready();
    assert!(!pando.said.contains("password"), "{}", pando.said);
    assert!(pando.connect().bind("cn=admin", &password).unwrap().is_success(), "it is kept");
}

/// Regression test: `nohup pando export` ended with its terminal, because the command handled the signal that `nohup`
/// had set to be ignored.
#[test]
fn a_command_keeps_ignoring_signals_ignored_at_its_start() {
    let scratch = Scratch::new("nohup-command");
    let file = scratch.join("people.ldif.zst");
    let size = || {
        let entries = std::fs::read_dir(scratch.join("")).unwrap();
        entries.map(|entry| entry.unwrap().metadata().map_or(0, |metadata| metadata.len())).sum::<u64>()
    };
    let mut command = std::process::Command::new("nohup")
        .arg(program())
        .args(["generate", "people", "--entries", "4000000000", "-o", file.to_str().unwrap()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the command has begun its file", || (size() > 0).then_some(()));
    let id = rustix::process::Pid::from_child(&command);
    rustix::process::kill_process(id, Signal::HUP).unwrap();
    let then = size();
    until("it goes on", || (size() > then || command.try_wait().unwrap().is_some()).then_some(()));
    assert_eq!(command.try_wait().unwrap(), None);
    rustix::process::kill_process(id, Signal::TERM).unwrap();
    command.wait().unwrap();
    assert_eq!(size(), 0);
}

/// Regression test: Ctrl-C on a command left its unfinished file `NAME.NUMBER.partial`.
#[test]
fn an_interrupted_command_leaves_no_unfinished_file() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scratch = Scratch::new("interrupted-command");
        let names = || {
            let entries = std::fs::read_dir(scratch.join("")).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let file = scratch.join("people.ldif.zst");
        // The command generates more data than fits on the disk, so that it does not end by itself. The signals need
        // their default actions, because a shell lets its background jobs ignore them.
        let mut command = std::process::Command::new("env")
            .args([
                "--default-signal",
                program(),
                "generate",
                "people",
                "--entries",
                "4000000000",
                "-o",
                file.to_str().unwrap(),
            ])
            .spawn()
            .unwrap();
        until("the command has begun its file", || {
            names().into_iter().find(|name| name.ends_with(".partial"))
        });
        rustix::process::kill_process(rustix::process::Pid::from_child(&command), signal).unwrap();
        let status = command.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert_eq!(names(), Vec::<String>::new());
    }
}

#[test]
fn the_log_can_be_json() {
    let scratch = Scratch::new("log-json");
    let pando = Start::with_node(&scratch, "[log]\nformat = \"json\"\noperations = true\n").ready();
    drop(pando.administrator());
    assert!(pando.stop().success());
    let log = std::fs::read_to_string(scratch.join("pando.log")).unwrap();
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for name in ["timestamp", "level", "message"] {
            assert!(object[name].is_string(), "{name}: {line}");
        }
    }
    assert!(log.contains("serving on ldap://") && log.lines().count() > 3, "{log}");
    let (status, said) = Start::with_node(&scratch, "[log]\nformat = \"xml\"\n").refused();
    assert_eq!(status.code(), Some(2));
    assert!(said.contains("choose text or json"), "{said}");
}
