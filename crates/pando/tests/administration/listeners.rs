//! Listeners with separate rules: which requests each accepts without TLS, and which kinds of bind.

use std::net::SocketAddr;
use std::time::Instant;

use client::{Connection, Tls};
use ldap::{ResultCode, Scope};
use rustix::process::Signal;
use test_support::pando::{ServiceManager, Start};
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, Pando, SUFFIX, Scratch};

const RULES: &str = r#"
[[listener]]
url = "ldap://127.0.0.2:0"
tls_needed_for = "everything"
clear_networks = []

[[listener]]
url = "ldap://127.0.0.3:0"
weakest_bind = "password"

[[listener]]
url = "ldap://127.0.0.4:0"
weakest_bind = "proof"

[[listener]]
url = "ldap://127.0.0.5:0"
weakest_bind = "certificate"
"#;

fn start(scratch: &Scratch) -> (Pando, ServiceManager) {
    let node = scratch.write("node.toml", RULES);
    let manager = ServiceManager::listen(&scratch.join("notify"));
    let pando = Start::new(scratch)
        .arguments(&["--node", node.to_str().unwrap()])
        .environment("NOTIFY_SOCKET", scratch.join("notify"))
        .ready();
    assert_eq!(manager.next_line(), "READY=1");
    (pando, manager)
}

/// Connects to the listener at this host.
fn connect(pando: &Pando, host: &str) -> Connection {
    let rest = pando.ready_line.split_once(&format!("ldap://{host}:")).unwrap().1;
    let port: u16 = rest.split_whitespace().next().unwrap().parse().unwrap();
    Connection::open(SocketAddr::new(host.parse().unwrap(), port)).unwrap()
}

fn bind_code(connection: &mut Connection) -> ResultCode {
    connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().code
}

fn search_code(connection: &mut Connection) -> ResultCode {
    connection.search(SUFFIX, Scope::BaseObject, "(objectClass=*)", &[]).unwrap().outcome.code
}

fn mechanisms(connection: &mut Connection) -> Vec<String> {
    let root = connection.entry("", &["supportedSASLMechanisms"]).unwrap().unwrap();
    root.texts("supportedSASLMechanisms").iter().map(ToString::to_string).collect()
}

#[test]
fn one_listener_can_require_tls_for_all_requests() {
    let scratch = Scratch::new("listeners-tls");
    let (pando, _manager) = start(&scratch);
    let mut plain = connect(&pando, "127.0.0.2");
    assert_eq!(search_code(&mut plain), ResultCode::CONFIDENTIALITY_REQUIRED);
    assert_eq!(bind_code(&mut plain), ResultCode::CONFIDENTIALITY_REQUIRED);
    let who = plain.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
    assert_eq!(who.outcome.code, ResultCode::CONFIDENTIALITY_REQUIRED);
    // The root DSE lists StartTLS, with which a client can continue.
    let root = plain.entry("", &["supportedExtension"]).unwrap().unwrap();
    assert!(root.texts("supportedExtension").contains(&ldap::oids::START_TLS.to_owned()));
    let below = plain.search("", Scope::WholeSubtree, "(objectClass=*)", &[]).unwrap();
    assert_eq!(below.outcome.code, ResultCode::CONFIDENTIALITY_REQUIRED);
    let authorities = std::fs::read(Pando::data(&scratch).join("tls/certificate.pem")).unwrap();
    let tls = Tls::authorities(&authorities).unwrap();
    let mut secured = plain.start_tls(&tls, "localhost").unwrap();
    assert_eq!(bind_code(&mut secured), ResultCode::SUCCESS);
    // Another listener of the same server accepts a bind without TLS from this machine.
    assert_eq!(bind_code(&mut pando.connect()), ResultCode::SUCCESS);
}

#[test]
fn a_listener_can_require_stronger_binds() {
    let scratch = Scratch::new("listeners-binds");
    let (pando, manager) = start(&scratch);
    let scram = ["PLAIN", "ANONYMOUS", "SCRAM-SHA-256", "EXTERNAL"];
    let mut administrator = pando.administrator();
    let offers = &[(ldap::ChangeOperation::Replace, "pandoSaslMechanism", &scram[..])];
    assert!(administrator.modify("cn=config", offers).unwrap().is_success());
    plant(&mut administrator);
    let anonymous = |connection: &mut Connection| connection.bind("", "").unwrap().code;

    let mut password = connect(&pando, "127.0.0.3");
    assert_eq!(anonymous(&mut password), ResultCode::INAPPROPRIATE_AUTHENTICATION);
    assert_eq!(search_code(&mut password), ResultCode::STRONGER_AUTH_REQUIRED);
    assert_eq!(mechanisms(&mut password), ["SCRAM-SHA-256", "PLAIN"]);
    assert_eq!(bind_code(&mut password), ResultCode::SUCCESS);
    assert_eq!(search_code(&mut password), ResultCode::SUCCESS);
    // A failed bind leaves the connection anonymous, and anonymous requests are refused.
    assert_eq!(anonymous(&mut password), ResultCode::INAPPROPRIATE_AUTHENTICATION);
    assert_eq!(search_code(&mut password), ResultCode::STRONGER_AUTH_REQUIRED);

    let mut proof = connect(&pando, "127.0.0.4");
    assert_eq!(bind_code(&mut proof), ResultCode::STRONGER_AUTH_REQUIRED);
    assert_eq!(proof.bind(&person_dn("anna"), "wrong").unwrap().code, ResultCode::STRONGER_AUTH_REQUIRED);
    assert_eq!(mechanisms(&mut proof), ["SCRAM-SHA-256"]);
    assert_eq!(search_code(&mut proof), ResultCode::STRONGER_AUTH_REQUIRED);

    let mut certificate = connect(&pando, "127.0.0.5");
    assert_eq!(bind_code(&mut certificate), ResultCode::STRONGER_AUTH_REQUIRED);
    assert!(mechanisms(&mut certificate).is_empty());

    // A reload changes the rules for open connections too.
    assert_eq!(bind_code(&mut connect(&pando, "127.0.0.3")), ResultCode::SUCCESS);
    scratch.write("node.toml", RULES.replace("weakest_bind = \"password\"", "weakest_bind = \"proof\""));
    pando.signal(Signal::HUP);
    assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
    assert_eq!(bind_code(&mut password), ResultCode::STRONGER_AUTH_REQUIRED);
    assert!(pando.log().contains("changed: weakest_bind or rules of listeners"), "{}", pando.log());
}

/// Returns a loopback address that only this test process uses.
fn address_of_the_test(port: u16) -> SocketAddr {
    let [.., third, second, first] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, third | 0x40, second, first], port))
}

/// Connects as soon as the address accepts connections.
fn connect_when_accepting(address: SocketAddr) -> Connection {
    let begun = Instant::now();
    loop {
        match Connection::open(address) {
            Ok(connection) => return connection,
            Err(error) => assert!(begun.elapsed() < DEADLINE, "{error}"),
        }
    }
}

/// Returns the text of a file below `packaging`.
fn packaged(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    std::fs::read_to_string(std::path::Path::new(folder).join(name)).unwrap()
}

/// The sockets of the shipped unit match the URLs of the shipped node file. The test uses a separate address, and ports
/// above 1023.
#[test]
fn the_service_manager_passes_sockets() {
    let scratch = Scratch::new("listeners-activated");
    let moved = |port: &str| address_of_the_test(1000 + port.parse::<u16>().unwrap());
    let unit = packaged("systemd/optional/pando.socket");
    let ports = unit.lines().filter_map(|line| line.strip_prefix("ListenStream=127.0.0.1:"));
    let addresses: Vec<SocketAddr> = ports.map(moved).collect();
    let node: toml::Table = packaged("debian/node.toml").parse().unwrap();
    let urls = node["listen"].as_array().unwrap().iter().map(|url| {
        let (scheme, port) = url.as_str().unwrap().split_once("://127.0.0.1:").unwrap();
        format!("--listen={scheme}://{}", moved(port))
    });
    let urls: Vec<String> = urls.collect();
    assert_eq!(addresses.len(), urls.len());
    let address = addresses[0];
    let first = std::thread::spawn(move || connect_when_accepting(address));
    let arguments: Vec<&str> = urls.iter().map(String::as_str).collect();
    let pando = Start::new(&scratch).arguments(&arguments).activated_at(&addresses).ready();
    for address in addresses {
        assert!(pando.ready_line.contains(&address.to_string()), "{}", pando.ready_line);
    }
    // This connection was opened before the server was started.
    let mut first = first.join().unwrap();
    assert!(first.entry("", &["supportedExtension"]).unwrap().is_some());
    // The other listener has a socket that the server has opened itself.
    let other = pando.ready_line.split("ldap://").map(|url| url.split(' ').next().unwrap());
    assert!(other.filter_map(|url| url.parse().ok()).any(|found: SocketAddr| found != address));
}

#[test]
fn a_passed_socket_that_matches_no_url_prevents_the_start() {
    let scratch = Scratch::new("listeners-unwanted");
    let address = address_of_the_test(1390);
    let first = std::thread::spawn(move || connect_when_accepting(address));
    let ended = Start::new(&scratch).activated_at(&[address]).ready_or_ended();
    assert!(ended.is_err_and(|(status, _)| !status.success()));
    let log = std::fs::read_to_string(scratch.join("pando.log")).unwrap();
    assert!(log.contains(&format!("cannot listen on ldap://{address}: the service manager passes")), "{log}");
    drop(first.join().unwrap());
}
