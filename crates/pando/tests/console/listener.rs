//! The console's listener: its limits, headers, and the addresses of its clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::start;
use test_support::clients::run;
use test_support::http::{console_address, get, send};
use test_support::pando::{Start, command};
use test_support::{DEADLINE, Pando, Scratch};

#[test]
fn every_answer_carries_the_headers_of_security() {
    let scratch = Scratch::new("console-headers");
    let pando = start(&scratch, "");
    let at = console_address(&pando);
    for (path, status) in
        [("/sign-in", 200), ("/health", 200), ("/style.css", 200), ("/none", 404), ("/../../etc/passwd", 404)]
    {
        let answer = get(at, path, "");
        assert_eq!(answer.status, status, "{path}");
        let policy = answer.headers("content-security-policy").concat();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers("x-content-type-options"), ["nosniff"]);
        assert_eq!(answer.headers("referrer-policy"), ["same-origin"]);
        assert_eq!(answer.headers("cache-control").len(), 1);
        for elsewhere in ["http://", "https://", "//cdn"] {
            assert!(!answer.text().contains(elsewhere), "{path} refers to another origin");
        }
    }
    let answer = get(at, "/health", "Accept: application/json\r\n");
    assert_eq!(answer.headers("content-type"), ["application/json"]);
    assert!(answer.text().contains("\"answers\":true"), "{answer:?}");
    assert!(pando.stop().success());
}

/// Python program that requests a page over TLS, and verifies the server's certificate.
const ASK: &str = r"
import ssl, sys, urllib.request
url, authority = sys.argv[1:]
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
with opener.open(url) as answer:
    print(answer.status, answer.read().decode())
";

#[test]
fn the_console_requires_tls_except_on_this_machine() {
    let scratch = Scratch::new("console-tls");
    let pando = Start::with_node(&scratch, "[console]\nlisten = [\"127.0.0.1:0\"]\n").ready();
    let at = console_address(&pando);
    let authority = Pando::data(&scratch).join("tls/certificate.pem");
    let url = format!("https://localhost:{}/health", at.port());
    run("/usr/bin/python3", &["-c", ASK, &url, authority.to_str().unwrap()], "")
        .expect_code(0)
        .expect_output("200 ")
        .expect_output("answers searches");
    let mut clear = TcpStream::connect(at).unwrap();
    clear.set_read_timeout(Some(DEADLINE)).unwrap();
    clear.write_all(b"GET / HTTP/1.1\r\nHost: pando\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = clear.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(pando.stop().success());

    let (_, said) =
        Start::with_node(&scratch, "[console]\nlisten = [\"0.0.0.0:0\"]\ntls = false\n").refused();
    assert!(said.contains("the table [console]") && said.contains("tls = false"), "{said}");
}

#[test]
fn the_audit_trail_has_the_address_of_the_browser() {
    let scratch = Scratch::new("console-audit");
    let trail = scratch.join("trail");
    let pando = start(&scratch, &format!("[audit]\nfolder = {trail:?}\n"));
    let at = console_address(&pando);
    assert_eq!(get(at, "/health", "").status, 200);
    assert!(pando.stop().success());
    let read = command(&["audit", "--folder", trail.to_str().unwrap(), "--json"], None).expect_code(0);
    assert!(read.stdout.contains("127.0.0.1:") && read.stdout.contains("by the console"), "{}", read.stdout);
}

#[test]
fn idle_connections_do_not_delay_the_shutdown() {
    let scratch = Scratch::new("console-stop");
    let pando = start(&scratch, "");
    let at = console_address(&pando);
    let _idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(at).unwrap()).collect();
    let mut kept = TcpStream::connect(at).unwrap();
    kept.write_all(b"GET /health HTTP/1.1\r\nHost: pando\r\n\r\n").unwrap();
    kept.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(kept.read(&mut [0; 64]).unwrap() > 0);
    let begun = Instant::now();
    assert!(pando.stop().success());
    assert!(begun.elapsed() < DEADLINE / 2);
}

#[test]
fn malformed_requests_end_their_connection_only() {
    let scratch = Scratch::new("console-malformed");
    let pando = start(&scratch, "");
    let at = console_address(&pando);
    for octets in [
        &b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\nX: y\r\n\r\n",
        b"\r\n\r\nPOST\r\n\r\n",
    ] {
        assert!(send(at, octets).status >= 400, "{octets:?}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: pando\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(matches!(send(at, long.as_bytes()).status, 400 | 431));
    assert_eq!(get(at, "/health", "").status, 200);
    assert!(pando.stop().success());
}
