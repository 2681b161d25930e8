//! The PROXY protocol: a trusted proxy states the client's address, and headers from other sources are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use client::{Connection, Tls};
use ldap::{BindRequest, Controls, Message, MessageId, Request, ResultCode};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, Pando, Scratch};

/// Returns a header of version 2 for this client.
fn header_for(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().unwrap();
    let SocketAddr::V4(client) = client else { panic!("{client}") };
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client.ip().octets());
    header.extend([10, 0, 0, 1]);
    header.extend(client.port().to_be_bytes());
    header.extend([1, 0x85]);
    header
}

const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Starts a server that trusts the proxies in 127.0.0.0/25, which includes the address of these tests.
fn start(scratch: &Scratch, more: &str) -> Pando {
    let node = scratch.write("node.toml", format!("proxy_networks = [\"127.0.0.0/25\"]\n{more}"));
    let start = Start::new(scratch).arguments(&["--listen", "ldaps://127.0.0.1:0", "--log-level", "debug"]);
    start.arguments(&["--node", node.to_str().unwrap()]).ready()
}

fn secure_address(pando: &Pando) -> SocketAddr {
    let rest = pando.ready_line.split_once("ldaps://").unwrap().1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Opens a connection and sends these octets.
fn connect(address: SocketAddr, start: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(start).unwrap();
    stream
}

fn client_of(pando: &Pando, header: &[u8]) -> Connection {
    Connection::over_tcp(connect(pando.address(), header)).unwrap()
}

fn bind_message(name: &str, password: &str) -> Vec<u8> {
    let authentication = ldap::Authentication::Simple(password.as_bytes());
    let request = Request::Bind(BindRequest { version: 3, name, authentication });
    let mut bytes = Vec::new();
    Message { id: MessageId(1), request, controls: Controls::NONE }.encode(&mut bytes);
    bytes
}

/// Reads until the server closes the connection.
fn rest_of(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    rest
}

fn bind_code(connection: &mut Connection) -> ResultCode {
    connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().code
}

#[test]
fn a_trusted_proxy_names_the_client() {
    let scratch = Scratch::new("proxy-told");
    let pando = start(&scratch, "");
    // The client in the header is on this machine.
    let here = b"PROXY TCP4 127.0.0.77 127.0.0.1 4711 389\r\n";
    for header in [&here[..], b"PROXY UNKNOWN\r\n", LOCAL, &header_for("127.9.9.9:5")] {
        assert_eq!(bind_code(&mut client_of(&pando, header)), ResultCode::SUCCESS);
    }
    assert!(pando.log().contains("is of 127.0.0.77:4711 by the proxy 127.0.0.1:"), "{}", pando.log());
    // Only local clients may send passwords without TLS.
    for header in [&b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 389\r\n"[..], &header_for("192.0.2.7:4711")] {
        let mut elsewhere = client_of(&pando, header);
        assert_eq!(bind_code(&mut elsewhere), ResultCode::CONFIDENTIALITY_REQUIRED);
        assert!(elsewhere.entry("", &[]).unwrap().is_some(), "it is served");
    }
    assert!(pando.log().contains("is of 192.0.2.7:4711 by the proxy 127.0.0.1:"), "{}", pando.log());
    // The header may arrive one octet at a time, or together with a request.
    let mut slow = connect(pando.address(), b"");
    slow.set_nodelay(true).unwrap();
    for octet in header_for("192.0.2.8:9") {
        slow.write_all(&[octet]).unwrap();
    }
    assert_eq!(bind_code(&mut Connection::over_tcp(slow).unwrap()), ResultCode::CONFIDENTIALITY_REQUIRED);
    let together = [&here[..], &bind_message(ADMIN_DN, ADMIN_PASSWORD)].concat();
    let mut both = Connection::over_tcp(connect(pando.address(), &together)).unwrap();
    assert!(both.reply(MessageId(1)).unwrap().outcome.is_success());
}

#[test]
fn the_proxy_header_precedes_tls() {
    let scratch = Scratch::new("proxy-tls");
    let pando = start(&scratch, "");
    let tls = Tls::authorities(&std::fs::read(Pando::data(&scratch).join("tls/certificate.pem")).unwrap());
    let tls = tls.unwrap();
    let stream = connect(secure_address(&pando), &header_for("192.0.2.7:4711"));
    let mut secure = Connection::secured(stream, &tls, "localhost").unwrap();
    assert_eq!(bind_code(&mut secure), ResultCode::SUCCESS);
    let asked = client_of(&pando, &header_for("192.0.2.7:4711"));
    let mut asked = asked.start_tls(&tls, "localhost").unwrap();
    assert_eq!(bind_code(&mut asked), ResultCode::SUCCESS);
    // A header within TLS is refused.
    assert!(Connection::open_tls(secure_address(&pando), &tls, "localhost").is_err());
}

#[test]
fn a_malformed_header_closes_the_connection_silently() {
    let scratch = Scratch::new("proxy-refused");
    let pando = start(&scratch, "first_request_seconds = 1\n");
    let bind = bind_message(ADMIN_DN, ADMIN_PASSWORD);
    let broken = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 66000\r\n";
    let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat();
    let huge = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff";
    for start in [&bind[..], broken, &long, huge, b"\x16\x03\x01\x02\0"] {
        assert_eq!(rest_of(connect(pando.address(), start)), b"", "{}", start.escape_ascii());
    }
    // Sends half of a header, followed by the end of input, or by silence until the time limit of the first request.
    let half = connect(pando.address(), &header_for("192.0.2.7:1")[..20]);
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest_of(half), b"");
    assert_eq!(rest_of(connect(pando.address(), &header_for("192.0.2.7:1")[..20])), b"");
    assert_eq!(rest_of(connect(secure_address(&pando), b"")), b"");
    let log = pando.log();
    assert!(log.contains("of 127.0.0.1:") && log.contains("proxy_networks has to say first"), "{log}");
    assert_eq!(bind_code(&mut client_of(&pando, LOCAL)), ResultCode::SUCCESS, "others are served");
}

#[test]
fn headers_from_other_sources_are_refused() {
    let scratch = Scratch::new("proxy-elsewhere");
    let pando = Start::with_node(&scratch, "proxy_networks = [\"192.0.2.0/24\"]\n").ready();
    for header in [&b"PROXY TCP4 127.0.0.1 127.0.0.1 4711 389\r\n"[..], &header_for("127.0.0.1:4711")] {
        let answer = rest_of(connect(pando.address(), header));
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("not in proxy_networks"), "{answer}");
    }
    let log = pando.log();
    assert!(log.contains("of 127.0.0.1 is closed") && log.contains("not in proxy_networks"), "{log}");
    assert_eq!(bind_code(&mut pando.connect()), ResultCode::SUCCESS);
}

/// Failed binds are attributed to the client that the proxy states, so one client does not delay another.
#[test]
fn failed_binds_count_for_the_named_client() {
    let scratch = Scratch::new("proxy-guesses");
    let everywhere = "trusted_networks = []\n[tls]\nclear_networks = [\"0.0.0.0/0\"]\n";
    let pando = start(&scratch, everywhere);
    let mut administrator = client_of(&pando, LOCAL);
    assert_eq!(bind_code(&mut administrator), ResultCode::SUCCESS);
    let quick: &[(_, &str, &[&str])] = &[(ldap::ChangeOperation::Replace, "pandoPasswordScheme", &["ssha"])];
    assert!(administrator.modify("cn=config", quick).unwrap().is_success());
    plant(&mut administrator);
    let guess = |client: &str| {
        connect(pando.address(), &[header_for(client), bind_message(&person_dn("anna"), "x")].concat())
    };
    // The test sends more binds than the queue holds, so the last ones are answered with busy.
    let guesses: Vec<_> = (0..20).map(|_| guess("192.0.2.7:1")).collect();
    let first =
        |stream: TcpStream| Connection::over_tcp(stream).unwrap().reply(MessageId(1)).unwrap().outcome.code;
    assert_eq!(first(guess("192.0.2.9:1")), ResultCode::INVALID_CREDENTIALS);
    let codes: Vec<_> = guesses.into_iter().map(first).collect();
    assert!(codes.contains(&ResultCode::BUSY), "{codes:?}");
}
