//! TLS from the first octet and by StartTLS, with given and generated certificates, client certificates, and requests
//! that are refused without TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use client::{Connection, Tls};
use ldap::{ControlsBuf, ExtendedRequest, Message, MessageId, Request, ResultCode, Scope};
use rcgen::{DnType, KeyPair};
use rustix::process::Signal;
use test_support::certificates::{Authority, anna};
use test_support::clients::{Run, run, unboundid_tool};
use test_support::pando::{ServiceManager, Start};
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, Pando, SUFFIX, Scratch};

/// Starts a server with an ldap:// and an ldaps:// port, and this node file.
fn start(scratch: &Scratch, node: &str) -> Pando {
    let file = scratch.write("node.toml", node);
    let start = Start::new(scratch).arguments(&["--listen", "ldaps://127.0.0.1:0"]);
    start.arguments(&["--node", file.to_str().unwrap()]).ready()
}

fn secure_address(pando: &Pando) -> SocketAddr {
    let rest = pando.ready_line.split_once("ldaps://").unwrap().1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the path of the certificate of the server's own authority.
fn authority(scratch: &Scratch) -> PathBuf {
    Pando::data(scratch).join("tls/authority.pem")
}

fn trusting(file: &Path) -> Tls {
    Tls::authorities(&std::fs::read(file).unwrap()).unwrap()
}

fn identity(connection: &mut Connection) -> String {
    let reply = connection.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
    String::from_utf8(reply.extended.value.unwrap_or_default()).unwrap()
}

/// Runs one of OpenLDAP's clients. The client trusts only `authorities` and binds as the administrator.
fn ldap_client(program: &str, authorities: &Path, url: &str, arguments: &[&str]) -> Run {
    let trust = format!("LDAPTLS_CACERT={}", authorities.display());
    let mut all = vec!["-u", "LDAPNOINIT", &trust, "LDAPTLS_REQCERT=demand", program, "-x", "-H", url];
    all.extend(["-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o", "nettimeout=60"]);
    all.extend(arguments);
    run("env", &all, "")
}

#[test]
fn a_new_server_speaks_tls_with_a_certificate_of_its_own() {
    let scratch = Scratch::new("tls-own");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let certificate = authority(&scratch);
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    for (name, wanted) in [("authority-key.pem", 0o600), ("key.pem", 0o600), ("authority.pem", 0o644)] {
        assert_eq!(mode(&certificate.with_file_name(name)), wanted, "{name}");
    }
    assert!(pando.log().contains("a certificate for "), "{}", pando.log());
    let told = format!("pando: clients verify this server by the authority in {}\n", certificate.display());
    assert!(pando.said.contains(&told), "{}", pando.said);

    let (secure, plain) = (secure_address(&pando), pando.address());
    let tls = trusting(&certificate);
    let from_first = Connection::open_tls(secure, &tls, "127.0.0.1").unwrap();
    let asked = pando.connect().start_tls(&tls, "localhost").unwrap();
    for mut connection in [from_first, asked] {
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        let found = connection.search(SUFFIX, Scope::WholeSubtree, "(uid=*)", &["uid"]).unwrap();
        assert_eq!(found.entries.len(), 2);
    }
    let filter = ["-b", SUFFIX, "(uid=anna)", "uid"];
    let secure_url = format!("ldaps://{secure}");
    ldap_client("ldapsearch", &certificate, &secure_url, &filter).expect_code(0).expect_output("uid: anna");
    let asks = [&["-ZZ"], &filter[..]].concat();
    let plain_url = format!("ldap://{plain}");
    ldap_client("ldapsearch", &certificate, &plain_url, &asks).expect_code(0).expect_output("uid: anna");
    for (server, kind) in [(secure, "--useSSL"), (plain, "--useStartTLS")] {
        let arguments = [kind, "--trustAll", "--baseDN", SUFFIX, "(uid=anna)"];
        let found = unboundid_tool("unboundidds.tools.LDAPSearch", server, &arguments, "");
        found.expect_code(0).expect_output("uid: anna");
    }

    // A restart with the same data uses the same certificate.
    let before = std::fs::read(&certificate).unwrap();
    assert!(pando.stop().success());
    let pando = start(&scratch, "");
    assert_eq!(std::fs::read(&certificate).unwrap(), before);
    let mut connection = Connection::open_tls(secure_address(&pando), &tls, "127.0.0.1").unwrap();
    assert_eq!(identity(&mut connection), "");
    let root = connection.entry("", &["supportedExtension"]).unwrap().unwrap();
    assert!(root.texts("supportedExtension").contains(&ldap::oids::START_TLS.to_owned()));
}

/// Sends and receives messages that are much larger than a TLS record and the socket's buffers.
#[test]
fn large_answers_and_requests_arrive_whole() {
    let scratch = Scratch::new("tls-large");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let tls = trusting(&authority(&scratch));
    let mut connection = Connection::open_tls(secure_address(&pando), &tls, "127.0.0.1").unwrap();
    assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let text = "long ".repeat(200_000);
    let dn = person_dn("large");
    let person = [
        ("objectClass", "inetOrgPerson"),
        ("uid", "large"),
        ("cn", "Large"),
        ("sn", "Large"),
        ("description", &text),
    ];
    assert!(connection.add(&dn, &person).unwrap().is_success());
    // Send all requests before reading the first answer. The answers have 20 MB in total.
    for id in 1_001..=1_020 {
        connection.send_bytes(&search_message(id, &dn)).unwrap();
    }
    for id in 1_001..=1_020 {
        let reply = connection.reply(MessageId(id)).unwrap();
        assert!(reply.outcome.is_success() && reply.entries.len() == 1);
        let entry = &reply.entries[0];
        assert_eq!(entry.text("description").unwrap(), text);
    }
}

fn search_message(id: i32, dn: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let filter = ldap::FilterBuf::parse("(objectClass=*)").unwrap();
    let mut selection = ldap::SelectionBuf::new();
    selection.push("description");
    let (filter, selection) = (filter.as_filter(), selection.as_selection());
    let request = Request::Search(ldap::SearchRequest::new(dn, Scope::BaseObject, filter, selection));
    Message { id: MessageId(id), request, controls: ldap::Controls::NONE }.encode(&mut bytes);
    bytes
}

fn start_tls_message(id: i32, value: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let request = Request::Extended(ExtendedRequest { name: ldap::oids::START_TLS, value });
    let controls = ControlsBuf::default();
    Message { id: MessageId(id), request, controls: controls.as_controls() }.encode(&mut bytes);
    bytes
}

#[test]
fn start_tls_obeys_the_rules_of_rfc_4511() {
    let scratch = Scratch::new("tls-order");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let tls = trusting(&authority(&scratch));

    // StartTLS with a value, and StartTLS within TLS, are refused (RFC 4511 sections 4.14.1 and 4.12; RFC 4513 section
    // 3.1.1).
    let mut connection = pando.connect();
    let refused = connection.extended(ldap::oids::START_TLS, Some(b"value")).unwrap().outcome;
    assert_eq!(refused.code, ResultCode::PROTOCOL_ERROR, "{refused:?}");
    let mut connection = connection.start_tls(&tls, "127.0.0.1").unwrap();
    let refused = connection.extended(ldap::oids::START_TLS, None).unwrap().outcome;
    assert_eq!(refused.code, ResultCode::OPERATIONS_ERROR, "{refused:?}");
    assert_eq!(identity(&mut connection), "", "the connection stays usable");

    // After StartTLS, a bound connection is anonymous.
    let mut connection = pando.administrator();
    assert_eq!(identity(&mut connection), format!("dn:{ADMIN_DN}"));
    let mut connection = connection.start_tls(&tls, "127.0.0.1").unwrap();
    assert_eq!(identity(&mut connection), "");

    // A search before StartTLS in the same packet is answered first, in the clear.
    let mut stream = TcpStream::connect(pando.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&[search_message(1, ""), start_tls_message(2, None)].concat()).unwrap();
    let mut answers = Vec::new();
    while !answers.windows(22).any(|part| part == ldap::oids::START_TLS.as_bytes()) {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{answers:02x?}");
        answers.extend_from_slice(&part[..count]);
    }
    let mut session = tls.session("127.0.0.1").unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).unwrap();
    }
}

/// A client that closes TLS directly after its request still gets the answer. Then the connection ends.
#[test]
fn a_request_before_the_end_of_tls_is_answered() {
    let scratch = Scratch::new("tls-end");
    let pando = start(&scratch, "");
    let tls = trusting(&authority(&scratch));
    let mut stream = TcpStream::connect(secure_address(&pando)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut session = tls.session("127.0.0.1").unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).unwrap();
    }
    session.writer().write_all(&search_message(1, "")).unwrap();
    session.send_close_notify();
    let mut packet = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut packet).unwrap();
    }
    stream.write_all(&packet).unwrap();
    let (mut rest, mut answer) = (Vec::new(), Vec::new());
    stream.read_to_end(&mut rest).unwrap();
    let mut rest = rest.as_slice();
    while session.read_tls(&mut rest).unwrap() > 0 {
        session.process_new_packets().unwrap();
        let _ = session.reader().read_to_end(&mut answer);
    }
    let ids = answer.windows(3).filter(|part| *part == [0x02, 0x01, 0x01]).count();
    assert!(ids >= 2, "an entry and a result: {answer:02x?}");
}

/// CVE-2011-0411 and similar holes: octets that an attacker appends to StartTLS must not count as sent within TLS.
#[test]
fn data_between_start_tls_and_its_handshake_is_rejected() {
    let scratch = Scratch::new("tls-injection");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let read = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(pando.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut all = Vec::new();
        // A connection reset is treated like the end of input.
        let _ = stream.read_to_end(&mut all);
        all
    };
    let injected = read(&[start_tls_message(1, None), search_message(2, "")].concat());
    let notice = b"1.3.6.1.4.1.1466.20036";
    assert!(injected.windows(notice.len()).any(|part| part == notice), "{injected:02x?}");
    assert!(!injected.windows(22).any(|part| part == ldap::oids::START_TLS.as_bytes()), "{injected:02x?}");
    // A plain request in a separate packet after StartTLS is not valid TLS.
    let mut stream = TcpStream::connect(pando.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&start_tls_message(1, None)).unwrap();
    let mut answer = [0; 64];
    assert!(stream.read(&mut answer).unwrap() > 0);
    stream.write_all(&search_message(2, "")).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    // The server sends at most an alert (RFC 8446 section 6).
    assert!(rest.is_empty() || rest[0] == 0x15, "{rest:02x?}");
    // On the ldaps:// port, plain LDAP is refused, and the server keeps serving others.
    let mut stream = TcpStream::connect(secure_address(&pando)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&search_message(1, "")).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest[0] == 0x15, "{rest:02x?}");
    let tls = trusting(&authority(&scratch));
    assert_eq!(identity(&mut Connection::open_tls(secure_address(&pando), &tls, "127.0.0.1").unwrap()), "");
    let mut administrator = pando.administrator();
    let failed = administrator.entry("cn=Failed,cn=TLS,cn=monitor", &["monitorCounter"]).unwrap().unwrap();
    assert_eq!(failed.text("monitorCounter").as_deref(), Some("2"));
}

#[test]
fn certificates_are_swapped_while_the_server_runs() {
    let scratch = Scratch::new("tls-swap");
    let authorities = [Authority::generate(), Authority::generate()];
    let write = |authority: &Authority| {
        let (certificate, key) = authority.issue(&["127.0.0.1"], &[(DnType::CommonName, "server")]);
        scratch.write("certificate.pem", certificate);
        scratch.write("key.pem", key);
    };
    write(&authorities[0]);
    let manager = ServiceManager::listen(&scratch.join("notify"));
    let node = scratch.write("node.toml", "[tls]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n");
    let pando = Start::new(&scratch)
        .arguments(&["--listen", "ldaps://127.0.0.1:0", "--node", node.to_str().unwrap()])
        .environment("NOTIFY_SOCKET", scratch.join("notify"))
        .ready();
    assert_eq!(manager.next_line(), "READY=1");
    let address = secure_address(&pando);
    let connect = |authority: &Authority| {
        Connection::open_tls(address, &authority.trusted_by_client(), "127.0.0.1").map_err(|e| e.to_string())
    };
    let mut early = connect(&authorities[0]).unwrap();
    assert!(connect(&authorities[1]).is_err());
    let reload = |said: &str| {
        pando.signal(Signal::HUP);
        assert_eq!((manager.next_line().as_str(), manager.next_line().as_str()), ("RELOADING=1", "READY=1"));
        assert!(pando.log().contains(said), "{}", pando.log());
    };
    // A key that does not match the certificate leaves everything unchanged.
    scratch.write("key.pem", KeyPair::generate().unwrap().serialize_pem());
    // That includes the log: with the level `error`, the next reload would not be logged.
    let settings = std::fs::read_to_string(&node).unwrap();
    scratch.write("node.toml", format!("{settings}[log]\nlevel = \"error\"\n"));
    reload("reload refused");
    assert!(pando.log().contains("key.pem"), "{}", pando.log());
    scratch.write("node.toml", settings);
    connect(&authorities[0]).unwrap();
    write(&authorities[1]);
    reload("changed: files of certificates");
    connect(&authorities[1]).unwrap();
    assert!(connect(&authorities[0]).is_err());
    assert_eq!(identity(&mut early), "", "a session that exists goes on");
}

#[test]
fn unusable_certificate_files_are_named_at_the_start() {
    let scratch = Scratch::new("tls-files");
    let (certificate, _) = Authority::generate().issue(&["127.0.0.1"], &[]);
    scratch.write("certificate.pem", certificate);
    scratch.write("empty.pem", "");
    let check = |node: &str, parts: &[&str]| {
        let file = scratch.write("node.toml", node);
        let (status, said) = Start::new(&scratch).arguments(&["--node", file.to_str().unwrap()]).refused();
        assert!(!status.success());
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    };
    check("[tls]\ncertificate = \"nowhere.pem\"\n", &["nowhere.pem", "No such file"]);
    check("[tls]\ncertificate = \"empty.pem\"\n", &["empty.pem", "no certificate in PEM form"]);
    check("[tls]\ncertificate = \"certificate.pem\"\n", &["certificate.pem", "no private key in PEM form"]);
    check("[tls]\nclient_authorities = \"empty.pem\"\n", &["empty.pem", "no certificate"]);
    check("[tls]\nminimum_version = \"1.1\"\n", &["node.toml:2", "1.2 or 1.3"]);
    check("[tls]\nneeded_for = \"nothing\"\n", &["node.toml:2", "passwords or everything"]);
    check("\n[tls]\nclear_networks = [\"10.0.0.0/33\"]\n", &["node.toml:3"]);
}

#[test]
fn certificates_of_clients_name_their_entries() {
    let scratch = Scratch::new("tls-clients");
    let authority = Authority::generate();
    scratch.write("authority.pem", &authority.pem);
    let node = "[tls]\nclient_authorities = \"authority.pem\"\n";
    let file = scratch.write("node.toml", node);
    let start = |node: &Path| {
        let listen = ["--listen", "ldaps://127.0.0.1:0", "--suffix", "dc=example"];
        Start::bare(&scratch, "data")
            .arguments(&listen)
            .arguments(&["--node", node.to_str().unwrap()])
            .ready()
    };
    let pando = start(&file);
    let mut administrator = pando.connect();
    assert!(administrator.bind("cn=admin", ADMIN_PASSWORD).unwrap().is_success());
    let add = |administrator: &mut Connection, dn: &str, attributes: &[(&str, &str)]| {
        let outcome = administrator.add(dn, attributes).unwrap();
        assert!(outcome.is_success(), "{dn}: {outcome:?}");
    };
    add(&mut administrator, "dc=example", &[("objectClass", "domain"), ("dc", "example")]);
    let people = [("objectClass", "organizationalUnit"), ("ou", "people")];
    add(&mut administrator, "ou=people,dc=example", &people);
    let person = [("objectClass", "inetOrgPerson"), ("uid", "anna"), ("cn", "Anna"), ("sn", "A")];
    add(&mut administrator, "uid=anna,ou=people,dc=example", &person);

    let server = std::fs::read(Pando::data(&scratch).join("tls/authority.pem")).unwrap();
    let with = |name: &[(DnType, &str)], authority: &Authority| {
        let (certificate, key) = authority.issue(&[], name);
        Tls::with_certificate(&server, certificate.as_bytes(), key.as_bytes()).unwrap()
    };
    let connect = |tls: &Tls| Connection::open_tls(secure_address(&pando), tls, "127.0.0.1").unwrap();
    let is_anna = "dn:uid=anna,ou=people,dc=example";
    let anna_tls = with(&anna(), &authority);
    for mut connection in [connect(&anna_tls), pando.connect().start_tls(&anna_tls, "localhost").unwrap()] {
        assert_eq!(identity(&mut connection), "", "a certificate alone is no bind");
        let root = connection.entry("", &["supportedSASLMechanisms"]).unwrap().unwrap();
        assert_eq!(root.texts("supportedSASLMechanisms"), ["EXTERNAL", "PLAIN"]);
        assert!(connection.bind_external(None).unwrap().is_success());
        assert_eq!(identity(&mut connection), is_anna);
        assert!(connection.bind_external(Some("dn:UID=Anna, ou=people,dc=example")).unwrap().is_success());
        let other = connection.bind_external(Some("dn:cn=admin")).unwrap();
        assert_eq!(other.code, ResultCode::INVALID_CREDENTIALS, "{other:?}");
        assert_eq!(identity(&mut connection), "");
    }
    // A certificate without a matching entry, and a certificate with the administrator's name, give no identity.
    for name in ["nobody", "admin"] {
        let mut connection = connect(&with(&[(DnType::CommonName, name)], &authority));
        let refused = connection.bind_external(None).unwrap();
        assert_eq!(refused.code, ResultCode::INVALID_CREDENTIALS, "{refused:?}");
    }
    // A certificate of another authority is refused. Without a certificate, EXTERNAL is not offered.
    let stranger = with(&anna(), &Authority::generate());
    let refused = Connection::open_tls(secure_address(&pando), &stranger, "127.0.0.1")
        .and_then(|mut connection| connection.bind_external(None));
    assert!(refused.is_err(), "{refused:?}");
    let mut plain = connect(&Tls::authorities(&server).unwrap());
    let refused = plain.bind_external(None).unwrap();
    assert_eq!(refused.code, ResultCode::AUTH_METHOD_NOT_SUPPORTED, "{refused:?}");

    assert!(pando.stop().success());
    let pando = start(&scratch.write("node.toml", format!("{node}client_certificates_required = true\n")));
    let without =
        Connection::open_tls(secure_address(&pando), &Tls::authorities(&server).unwrap(), "127.0.0.1")
            .and_then(|mut connection| connection.bind_external(None));
    assert!(without.is_err());
    let mut connection = Connection::open_tls(secure_address(&pando), &anna_tls, "127.0.0.1").unwrap();
    assert!(connection.bind_external(None).unwrap().is_success());
}

#[test]
fn passwords_or_all_requests_are_refused_without_tls() {
    let scratch = Scratch::new("tls-needed");
    let pando = start(&scratch, "[tls]\nclear_networks = []\n");
    let tls = trusting(&authority(&scratch));
    let secure = |pando: &Pando| {
        let mut connection = Connection::open_tls(secure_address(pando), &tls, "127.0.0.1").unwrap();
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        connection
    };
    plant(&mut secure(&pando));
    let required = ResultCode::CONFIDENTIALITY_REQUIRED;
    let mut clear = pando.connect();
    assert_eq!(clear.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().code, required);
    assert_eq!(clear.bind(ADMIN_DN, "wrong").unwrap().code, required, "before the password is verified");
    assert!(clear.bind("", "").unwrap().is_success(), "an anonymous bind sends no password");
    let compared = clear.compare(&person_dn("anna"), "userPassword", "x").unwrap();
    assert_eq!(compared.code, required, "{compared:?}");
    assert!(clear.entry("", &["namingContexts"]).unwrap().is_some());
    let person =
        [("objectClass", "person"), ("cn", "x"), ("sn", "x"), ("userPassword;x-a", "{SSHA}aGFzaGhhc2g=")];
    assert_eq!(clear.add(&format!("cn=x,{SUFFIX}"), &person).unwrap().code, required);
    let sock = Pando::data(&scratch).join("pando.sock");
    let mut local = Connection::open_local(&sock).unwrap();
    assert!(local.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success(), "a local socket needs no TLS");
    assert!(pando.stop().success());

    let pando = start(&scratch, "[tls]\nclear_networks = []\nneeded_for = \"everything\"\n");
    let mut clear = pando.connect();
    assert_eq!(clear.compare(&person_dn("anna"), "uid", "anna").unwrap().code, required);
    assert_eq!(clear.bind("", "").unwrap().code, required);
    let mut now = clear.start_tls(&tls, "127.0.0.1").unwrap();
    assert!(now.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    assert!(secure(&pando).entry(&person_dn("anna"), &[]).unwrap().is_some());
}

/// OpenSSL's client negotiates TLS versions and resumes sessions.
#[test]
fn openssl_negotiates_versions_and_resumes_sessions() {
    let scratch = Scratch::new("tls-openssl");
    let pando = start(&scratch, "");
    let certificate = authority(&scratch);
    let openssl = |pando: &Pando, version: &str, more: &[&str]| {
        let address = secure_address(pando).to_string();
        let trust = certificate.to_str().unwrap();
        let mut all =
            vec!["s_client", "-connect", &address, "-CAfile", trust, "-verify_return_error", version];
        all.extend(more);
        run("openssl", &all, "")
    };
    openssl(&pando, "-tls1_3", &[]).expect_code(0).expect_output("TLSv1.3");
    let reconnected = openssl(&pando, "-tls1_2", &["-reconnect"]).expect_code(0);
    assert_eq!(reconnected.stdout.matches("Reused, TLSv1.2").count(), 5, "{}", reconnected.stdout);
    assert_ne!(openssl(&pando, "-tls1_1", &[]).code, Some(0));
    let mut administrator = pando.administrator();
    let mut counter = |name: &str| {
        let entry = administrator.entry(&format!("cn={name},cn=TLS,cn=monitor"), &["monitorCounter"]);
        entry.unwrap().unwrap().text("monitorCounter").unwrap()
    };
    assert_eq!((counter("Established").as_str(), counter("Resumed").as_str()), ("7", "5"));
    assert!(pando.stop().success());
    let pando = start(&scratch, "[tls]\nminimum_version = \"1.3\"\n");
    openssl(&pando, "-tls1_3", &[]).expect_code(0);
    assert_ne!(openssl(&pando, "-tls1_2", &[]).code, Some(0));
}

/// Commands of `pando` that ask a server use TLS.
#[test]
fn pando_commands_use_tls() {
    let scratch = Scratch::new("tls-commands");
    let pando = start(&scratch, "");
    plant(&mut pando.administrator());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let certificate = authority(&scratch);
    let bind = ["--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap()];
    let trust = ["--tls-ca", certificate.to_str().unwrap()];
    let secure = format!("ldaps://{}", secure_address(&pando));
    for url in [&secure, &format!("ldap://{}", pando.address())] {
        let arguments = [&["export", "--url", url], &bind[..], &trust[..]].concat();
        test_support::pando::command(&arguments, None).expect_code(0).expect_output("uid: anna");
    }
    let arguments = [&["export", "--url", &secure], &bind[..]].concat();
    let refused = test_support::pando::command(&arguments, None);
    assert!(refused.code != Some(0) && refused.stderr.contains("--tls-ca"), "{refused}");
}
