//! The log that a server provides to replicas. Replicas and the server have no shared log.

use std::time::{Duration, Instant};

use client::Connection;
use directory::virtual_entries::READ_LOG;
use ldap::{ChangeOperation, LogAnswer, LogPart, LogRequest, ResultCode};
use test_support::cluster::until;
use test_support::pando::Start;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Returns the generation of a server's data and its newest position.
fn generation_and_position(connection: &mut Connection) -> ([u8; 16], u64) {
    let root = connection.entry("", &["pandoGeneration", "pandoPosition"]).unwrap().unwrap();
    let generation = u128::from_str_radix(&root.text("pandoGeneration").unwrap(), 16).unwrap();
    (generation.to_be_bytes(), root.text("pandoPosition").unwrap().parse().unwrap())
}

fn request(generation: [u8; 16], position: u64) -> LogRequest<'static> {
    LogRequest {
        generation,
        position,
        digest: &[],
        lineage: &[],
        wait_ms: 0,
        bytes_max: 1 << 20,
        name: "test",
        comparison: &[],
    }
}

/// Sends a request for the log, and returns the value of the answer.
#[track_caller]
fn read(connection: &mut Connection, asked: &LogRequest<'_>) -> Vec<u8> {
    let reply = connection.extended(READ_LOG, Some(&asked.encode())).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    reply.extended.value.unwrap()
}

fn records(value: &[u8]) -> (u64, Vec<Vec<u8>>) {
    match LogAnswer::decode(value).unwrap().part {
        LogPart::Records { first, records } => (first, records.into_iter().map(<[u8]>::to_vec).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_log_is_served_from_any_position_in_parts() {
    let scratch = Scratch::new("replica-log");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    (0..40).for_each(|number| replace(&mut admin, &person_dn("anna"), "title", &[&format!("t{number}")]));
    let (generation, newest) = generation_and_position(&mut admin);
    let asked = request(generation, 0);
    let (first, all) = records(&read(&mut admin, &asked));
    assert_eq!((first, all.len() as u64), (1, newest));
    // Reads small parts. Each part begins at the end of the previous part.
    let mut parts: Vec<Vec<u8>> = Vec::new();
    while (parts.len() as u64) < newest {
        let next = LogRequest { position: parts.len() as u64, bytes_max: 700, ..asked };
        let (first, part) = records(&read(&mut admin, &next));
        assert_eq!(first, parts.len() as u64 + 1);
        assert!(!part.is_empty() && (part.len() as u64) < newest, "{}", part.len());
        parts.extend(part);
    }
    assert!(parts == all);
    // The digest of the reader's last record is compared with the log, and a digest from another history is detected.
    let last = ring::digest::digest(&ring::digest::SHA256, &all[9]);
    let last = last.as_ref();
    let same = LogRequest { position: 10, digest: &last[..16], ..asked };
    assert_eq!(records(&read(&mut admin, &same)).0, 11);
    let other = LogRequest { digest: &last[16..], ..same };
    assert_eq!(LogAnswer::decode(&read(&mut admin, &other)).unwrap().part, LogPart::Diverged(10));
    // The answer contains no records if the position is beyond the log, if the request is for other data, or if the
    // requester knows a later writer.
    let beyond = LogRequest { position: newest + 5, ..asked };
    assert_eq!(LogAnswer::decode(&read(&mut admin, &beyond)).unwrap().part, LogPart::Diverged(newest + 1));
    let foreign = LogRequest { generation: [1; 16], ..asked };
    assert_eq!(LogAnswer::decode(&read(&mut admin, &foreign)).unwrap().part, LogPart::OtherData);
    let lineage = [&[7; 16][..], &5_u64.to_be_bytes()].concat();
    let later = LogRequest { lineage: &lineage, ..asked };
    assert_eq!(LogAnswer::decode(&read(&mut admin, &later)).unwrap().part, LogPart::Replaced);
    for wrong in [&b""[..], b"\x30\x00", &asked.encode()[1..]] {
        let reply = admin.extended(READ_LOG, Some(wrong)).unwrap();
        assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    }
    let replicas = admin.entry("cn=Most Lag,cn=Replicas,cn=monitor", &["monitorCounter"]).unwrap();
    assert!(replicas.is_some(), "the administrator's connection counts as a replica");
    assert!(pando.stop().success());
}

#[test]
fn a_request_waits_for_the_next_change() {
    let scratch = Scratch::new("replica-wait");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (generation, newest) = generation_and_position(&mut admin);
    let waiting = LogRequest { wait_ms: u32::MAX, ..request(generation, newest) };
    let mut consumers: Vec<Connection> = (0..20).map(|_| pando.administrator()).collect();
    let mut ids = Vec::new();
    for consumer in &mut consumers {
        let value = waiting.encode();
        let operation = ldap::ExtendedRequest { name: READ_LOG, value: Some(&value) };
        ids.push(consumer.send(ldap::Request::Extended(operation), ldap::Controls::NONE).unwrap());
    }
    let unit = format!("ou=new,{SUFFIX}");
    add(&mut admin, &unit, &[("objectClass", "organizationalUnit")]);
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for (consumer, id) in consumers.iter_mut().zip(ids) {
        answers.push(consumer.reply(id).unwrap().extended.value.unwrap());
    }
    for value in &answers {
        let (first, found) = records(value);
        // On a slow machine, the wait may end before the record arrives.
        assert!(first == newest + 1 && found.len() <= 1, "{first} {}", found.len());
    }
    // Without a change, the answer comes at the end of the wait.
    let begun = Instant::now();
    let (_, newest) = generation_and_position(&mut admin);
    let idle = LogRequest { wait_ms: 50, ..request(generation, newest) };
    assert!(records(&read(&mut admin, &idle)).1.is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(pando.stop().success());
}

#[test]
fn reading_the_log_needs_the_replication_right() {
    let scratch = Scratch::new("replica-right");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let (generation, _) = generation_and_position(&mut admin);
    let asked = request(generation, 0).encode();
    let code = |dn: &str, password: &str| {
        let mut connection = pando.connect();
        if !dn.is_empty() {
            assert!(connection.bind(dn, password).unwrap().is_success());
        }
        connection.extended(READ_LOG, Some(&asked)).unwrap().outcome.code
    };
    let set = |rules: &[&str]| {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", rules)];
        assert!(pando.administrator().modify("cn=config", change).unwrap().is_success());
    };
    let all = "all: allow read to authenticated";
    for rules in [&[][..], &[all], &[all, "any: allow use to authenticated"]] {
        set(rules);
        assert_eq!(code("", ""), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
        assert_eq!(code(&anna, "anna-secret"), ResultCode::INSUFFICIENT_ACCESS_RIGHTS, "{rules:?}");
    }
    set(&[all, &format!("replicas: allow use of replication to user '{anna}'")]);
    assert_eq!(code(&anna, "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(code(&person_dn("bert"), "bert-secret"), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert!(pando.stop().success());
}

/// On a listener for IPv6 that also accepts IPv4, the address of this machine is `::ffff:127.0.0.1`.
#[test]
fn a_client_on_this_machine_reads_the_log_from_a_listener_for_all_addresses() {
    let scratch = Scratch::new("replica-dual-stack");
    let pando = Start::new(&scratch).arguments(&["--listen", "ldap://[::]:0"]).ready();
    let output = pando.output();
    let (_, rest) = output.split_once("ldap://[::]:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let mut admin = Connection::open(([127, 0, 0, 1], port.parse().unwrap()).into()).unwrap();
    assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let (generation, newest) = generation_and_position(&mut admin);
    assert_eq!(records(&read(&mut admin, &request(generation, 0))).1.len() as u64, newest);
}

/// The log keeps a limited number of records. If older records are requested, the answer is the first position that is
/// kept.
#[test]
fn a_trimmed_log_says_where_it_begins() {
    let scratch = Scratch::new("replica-trimmed");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoLogRecords", &["5"])];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let (generation, _) = generation_and_position(&mut admin);
    let mut number = 0;
    let kept_from = until("a shorter log", || {
        number += 1;
        replace(&mut admin, &person_dn("anna"), "title", &[&format!("t{number}")]);
        match LogAnswer::decode(&read(&mut admin, &request(generation, 0))).unwrap().part {
            LogPart::Trimmed(first) => Some(first),
            _ => None,
        }
    });
    assert_eq!(records(&read(&mut admin, &request(generation, kept_from - 1))).0, kept_from);
    assert!(pando.stop().success());
}
