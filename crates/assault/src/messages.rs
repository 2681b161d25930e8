//! Mutated messages over raw sockets. The server must keep running and report no defect, and its data must stay sound.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest,
    Control, Controls, ControlsBuf, DeleteRequest, ExtendedRequest, FilterBuf, Message, MessageId,
    ModifyDnRequest, ModifyRequest, PagedResults, Request, Scope, SearchRequest, SelectionBuf, oids,
};

use crate::data::{self, PERSON, PERSON_PASSWORD};
use crate::hostile_connections::{connect_from, hostile_source};
use crate::plan::Plan;
use crate::report::{Finding, Report};
use test_support::pando::{Pando, Start, command};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX};

/// Maximum number of mutated messages on one connection. A message that is not LDAP ends the connection.
const MESSAGES_PER_CONNECTION: usize = 40;

/// Minimum number of messages.
const MESSAGES_MIN: usize = 2_000;

/// Number of sending threads.
const SENDERS: usize = 4;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    report.attack("messages/mutated", || mutated(plan));
}

fn mutated(plan: &Plan) -> Finding {
    let scratch = data::sample("assault-messages");
    let pando = Start::new(&scratch).arguments(&["--log-operations"]).ready();
    let mut random = plan.random("messages");
    let seeds: [u64; SENDERS] = std::array::from_fn(|_| random.u64(..));
    let (address, time) = (pando.address(), plan.share(18));
    let sent: usize = std::thread::scope(|scope| {
        let senders: Vec<_> = seeds
            .iter()
            .enumerate()
            .map(|(sender, seed)| scope.spawn(move || send(address, sender, *seed, time)))
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    let mut admin = pando.administrator();
    let is_answering = admin.entry(PERSON, &["cn"]).is_ok();
    drop(admin);
    let log = pando.log();
    let bad = |line: &&str| line.contains("ERROR") || line.contains("defect") || line.contains("panicked");
    let errors: Vec<&str> = log.lines().filter(bad).collect();
    let status = pando.stop();
    let verified = command(&["verify"], Some(&Pando::data(&scratch)));
    Finding::of(format!("{sent} mutated messages, anonymous, bound and as the administrator"))
        .bounded(is_answering, "it answers afterwards", "it does")
        .bounded(
            errors.is_empty(),
            format!("{} lines of errors {}", errors.len(), errors.first().unwrap_or(&"")),
            "none",
        )
        .bounded(status.success(), status, "it stops with exit code 0")
        .bounded(verified.code == Some(0), format!("verify ends with {:?}", verified.code), "finds nothing")
}

/// Sends mutated messages for this time; returns their number.
fn send(server: SocketAddr, sender: usize, seed: u64, time: Duration) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let originals = originals();
    let started = Instant::now();
    let mut sent = 0;
    while started.elapsed() < time || sent < MESSAGES_MIN / SENDERS {
        let mut stream = connect_from(hostile_source(sender), server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = bind(&mut random);
        for _ in 0..random.usize(1..MESSAGES_PER_CONNECTION) {
            bytes.extend(mutate(&originals, &mut random));
            sent += 1;
        }
        // The server may close the connection in the middle of a message, and then reads no more.
        if stream.write_all(&bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
            read_to_the_end(&mut stream);
        }
    }
    sent
}

/// Reads until the server ends the connection by close or reset, as it must.
fn read_to_the_end(stream: &mut TcpStream) {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("a connection whose half is closed is neither answered nor closed: {error}"),
        }
    }
}

fn encode(request: Request<'_>, controls: Controls<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(7), request, controls }.encode(&mut bytes);
    bytes
}

fn bind(random: &mut fastrand::Rng) -> Vec<u8> {
    let (name, password) = match random.u8(..10) {
        0..6 => return Vec::new(),
        6 => (PERSON, PERSON_PASSWORD),
        _ => (ADMIN_DN, ADMIN_PASSWORD),
    };
    let authentication = Authentication::Simple(password.as_bytes());
    encode(Request::Bind(BindRequest { version: 3, name, authentication }), Controls::NONE)
}

/// Returns a valid message of each kind.
fn originals() -> Vec<Vec<u8>> {
    let dn = format!("uid=mutant,ou=people,{SUFFIX}");
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["inetOrgPerson"]);
    attributes.push("cn", ["Mutant", "Another"]);
    attributes.push("sn", ["Mutant"]);
    attributes.push("manager", [PERSON]);
    attributes.push("telephoneNumber", ["+49 30 1234"]);
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Replace, "title", ["x"]);
    changes.push(ChangeOperation::Add, "description;lang-en", ["y"]);
    changes.push(ChangeOperation::Delete, "telephoneNumber", [""; 0]);
    let page = PagedResults { size: 3, cookie: b"cookie" }.encode();
    let controls = ControlsBuf::from_iter([
        Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&page) },
        Control { oid: oids::MANAGE_DSA_IT, critical: false, value: None },
    ]);
    let filters = [
        "(&(objectClass=person)(|(cn=A*n*a)(sn>=b)(!(mail~=x)))(cn:caseExactMatch:=y))",
        "(createTimestamp<=20300101000000Z)",
        "(member=uid=ahuber,ou=people,dc=example,dc=com)",
        "(:dn:2.5.13.2:=people)",
        "(telephoneNumber=*1*2*3*)",
    ];
    let selection = SelectionBuf::from_iter(["*", "+", "cn;lang-de", "1.1"]);
    let mut all: Vec<Vec<u8>> = Vec::new();
    for filter in filters {
        let filter = FilterBuf::parse(filter).unwrap();
        for scope in [Scope::WholeSubtree, Scope::SingleLevel] {
            let search = SearchRequest::new(SUFFIX, scope, filter.as_filter(), selection.as_selection());
            all.push(encode(Request::Search(search), controls.as_controls()));
            all.push(encode(Request::Search(search), Controls::NONE));
        }
    }
    let sasl = Authentication::Sasl { mechanism: "EXTERNAL", credentials: Some(b"dn:cn=x") };
    let requests = [
        Request::Add(AddRequest { entry: &dn, attributes: attributes.as_attributes() }),
        Request::Modify(ModifyRequest { object: &dn, changes: changes.as_changes() }),
        Request::ModifyDn(ModifyDnRequest {
            entry: &dn,
            new_rdn: "uid=m2",
            delete_old_rdn: true,
            new_superior: Some(SUFFIX),
        }),
        Request::Delete(DeleteRequest { entry: &dn }),
        Request::Compare(CompareRequest { entry: PERSON, description: "uidNumber", value: b"0001" }),
        Request::Bind(BindRequest { version: 3, name: &dn, authentication: Authentication::Simple(b"") }),
        Request::Bind(BindRequest { version: 3, name: "", authentication: sasl }),
        Request::Extended(ExtendedRequest { name: "1.3.6.1.4.1.4203.1.11.3", value: None }),
        Request::Extended(ExtendedRequest { name: oids::START_TLS, value: Some(b"value") }),
        Request::Abandon(MessageId(3)),
    ];
    all.extend(requests.into_iter().map(|request| encode(request, Controls::NONE)));
    all
}

/// Returns one of the originals with some changes.
fn mutate(originals: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = originals[random.usize(..originals.len())].clone();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match random.u8(..9) {
            0..3 if !bytes.is_empty() => bytes[at] = random.u8(..),
            3 if !bytes.is_empty() => bytes[at] ^= 1 << random.u8(..8),
            4 => bytes.insert(at, random.u8(..)),
            5 if bytes.len() > 1 => _ = bytes.remove(at),
            6 => bytes.truncate(at),
            // A part of another message, with valid tags and lengths.
            7 => {
                let other = &originals[random.usize(..originals.len())];
                let from = random.usize(..other.len());
                let piece = &other[from..(from + random.usize(1..24)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            // Lengths beyond the end of the message, up to the maximum.
            _ if !bytes.is_empty() => bytes[at] = [0x80, 0x84, 0xff, 0x7f, 0][random.usize(..5)],
            _ => {}
        }
    }
    // Most mutated messages keep a valid envelope, so that the server reads the content.
    if random.u8(..4) > 0 { in_envelope(bytes) } else { bytes }
}

/// Corrects the length of a message.
fn in_envelope(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() < 2 || bytes[0] != 0x30 {
        return bytes;
    }
    let header = 2 + if bytes[1] & 0x80 == 0 { 0 } else { usize::from(bytes[1] & 0x7f) };
    let content = bytes.split_off(header.min(bytes.len()));
    let length = content.len() as u32;
    let mut whole = vec![0x30, 0x84];
    whole.extend(length.to_be_bytes());
    whole.extend(content);
    whole
}
