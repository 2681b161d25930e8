//! Attacks with binds: floods of wrong passwords, incomplete SASL exchanges, storms of binds whose clients do not wait,
//! malformed SASL messages, and stored passwords whose verification would take hours.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{ChangeOperation, ResultCode};

use crate::bind_flood::{BINDS_PER_SECOND, Flood, SOURCES, p99_of_searches};
use crate::bystander::ms;
use crate::data::{self, PERSON, PERSON_PASSWORD};
use crate::plan::Plan;
use crate::process::{MIB, connections_possible};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use crate::wire::{bind, endings, open, sasl_bind, start_tls};
use test_support::pando::{Pando, Start};
use test_support::{SUFFIX, Scratch};

/// Maximum ratio between the 99th percentile of another client's searches during a flood and the same percentile
/// without a flood.
const P99_TIMES_MAX: f64 = 2.0;

/// Number of measurements. Their median is compared with the limit.
const P99_RUNS: usize = 5;

/// Maximum latency of a bind of a known client after an attack.
const RIGHT_BIND_MAX: Duration = Duration::from_secs(1);

/// Maximum latency of a hostile request that costs at most one hash.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Limits for the hash threads, and for waiting jobs and connections.
const BOUNDS: Bounds = Bounds { cost: 128 * MIB, slowest: Duration::from_secs(2) };

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names =
        ["flood", "sasl-half-done", "storm", "hostile", "costly", "p99"].map(|name| format!("binds/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-binds");
    let attack = |attack: fn(&Pando, usize) -> Finding, count: usize| {
        under_attack(&scratch, start(&scratch), BOUNDS, |pando| attack(pando, count))
    };
    report.attack(&names[0], || attack(flood, plan.count(4, 30)));
    let count = plan.count(1_000, 8_000).min(connections_possible());
    report.attack(&names[1], || attack(sasl_half_done, count));
    report.attack(&names[2], || attack(storm, plan.count(250, 10_000)));
    report.attack(&names[3], || attack(hostile, plan.count(2, 50)));
    report.attack(&names[4], || attack(costly, plan.count(10, 100)));
    if !plan.is_quick() || report.is_named(&names[5]) {
        report.attack(&names[5], || p99(plan, &scratch));
    }
}

/// Returns a server that trusts only the network of the legitimate clients.
fn start(scratch: &Scratch) -> Start {
    let node = scratch.write("node.toml", "trusted_networks = [\"127.0.0.0/24\"]\n");
    Start::new(scratch).arguments(&["--anonymous-read", "--node", node.to_str().unwrap()])
}

fn offer_scram(pando: &Pando) {
    let mechanisms = ["EXTERNAL", "PLAIN", "SCRAM-SHA-256"];
    let change = [(ChangeOperation::Replace, "pandoSaslMechanism", &mechanisms[..])];
    let outcome = pando.administrator().modify("cn=config", &change).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
}

/// Adds to `finding` the latency of a bind with the right password, from an address that other clients share.
fn with_a_right_bind(pando: &Pando, finding: Finding) -> Finding {
    let started = Instant::now();
    let outcome = pando.connect().bind(PERSON, PERSON_PASSWORD).unwrap();
    let took = started.elapsed();
    finding.timely(
        outcome.is_success(),
        took <= RIGHT_BIND_MAX,
        format!("a right bind afterwards: {}, {}", outcome.code, ms(took)),
        format!("success within {}", ms(RIGHT_BIND_MAX)),
    )
}

/// Floods the server for this number of seconds.
fn flood(pando: &Pando, seconds: usize) -> Finding {
    let flood = Flood::start(pando.address());
    std::thread::sleep(Duration::from_secs(seconds as u64));
    let flooded = flood.end();
    let first = flooded.others.first().map_or(String::new(), |first| format!(", first {first}"));
    let finding = Finding::of(format!(
        "{SOURCES} addresses send {BINDS_PER_SECOND} wrong binds a second for {seconds} s: {} verified, {} busy",
        flooded.wrong, flooded.busy
    ))
    .bounded(
        flooded.others.is_empty() && flooded.wrong > 0,
        format!("{} answered by something else{first}", flooded.others.len()),
        "none",
    );
    with_a_right_bind(pando, finding)
}

/// Returns the first message of SCRAM, with this nonce.
fn scram_first(nonce: &str) -> Vec<u8> {
    format!("n,,n=ahuber,r={nonce}").into_bytes()
}

/// Sends SASL exchanges that are started again and again and never completed.
fn sasl_half_done(pando: &Pando, count: usize) -> Finding {
    const TIMES: i32 = 3;
    offer_scram(pando);
    let nonce = "n".repeat(500);
    let mut streams: Vec<TcpStream> = (0..count).map(|index| open(pando.address(), index)).collect();
    let (mut answered, mut wrong) = (0, Vec::new());
    for id in 1..=TIMES {
        let begin = sasl_bind(id, "SCRAM-SHA-256", &scram_first(&nonce));
        streams.iter_mut().for_each(|stream| stream.write_all(&begin).unwrap());
        for stream in &mut streams {
            let mut answer_bytes = vec![0; 4_096];
            let octets = stream.read(&mut answer_bytes).unwrap_or_default();
            answer_bytes.truncate(octets);
            let answers = crate::wire::Ending { received: answer_bytes, is_closed: false }.answers();
            // If a second first message follows, the server treats the second message as the last message of the
            // exchange.
            let expected = match id % 2 {
                1 => ResultCode::SASL_BIND_IN_PROGRESS,
                _ => ResultCode::PROTOCOL_ERROR,
            };
            if answers == [(id, Some(expected))] {
                answered += 1;
            } else {
                wrong.push(answers);
            }
        }
    }
    drop(streams);
    let first = wrong.first().map_or(String::new(), |first| format!(", first {first:?}"));
    let finding = Finding::of(format!(
        "{count} connections begin SCRAM {TIMES} times with a nonce of {} octets and never end it",
        nonce.len()
    ))
    .bounded(
        wrong.is_empty(),
        format!("{answered} asked for more or refused, {} not{first}", wrong.len()),
        "all",
    );
    with_a_right_bind(pando, finding)
}

/// Sends binds of clients that do not wait: they abandon the bind, unbind, send another bind or StartTLS, or close the
/// connection.
fn storm(pando: &Pando, count: usize) -> Finding {
    let wrong = |id| bind(id, PERSON, "a wrong password");
    let abandon = |id| crate::wire::message(id, ldap::Request::Abandon(ldap::MessageId(1)));
    let unbind = crate::wire::message(9, ldap::Request::Unbind);
    let shapes = [
        [wrong(1), abandon(2), unbind.clone()].concat(),
        [wrong(1), unbind].concat(),
        (1..=50).flat_map(wrong).collect(),
        [wrong(1), abandon(2), wrong(3), start_tls(4)].concat(),
        [wrong(1), wrong(1)].concat(),
    ];
    for index in 0..count {
        let mut stream = open(pando.address(), index);
        // The server may already have closed the connection.
        let _ = stream.write_all(&shapes[index % shapes.len()]);
        if index % 2 == 0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    let finding = Finding::of(format!("{count} connections bind and abandon, unbind, bind again, or go"));
    with_a_right_bind(pando, finding)
}

/// Sends malformed SASL messages. None of these may succeed as a bind, and the server must close each connection.
fn hostile(pando: &Pando, each: usize) -> Finding {
    offer_scram(pando);
    let (long, first) = ("x".repeat(1_000_000), scram_first("nonce"));
    let scram = "SCRAM-SHA-256";
    let messages: Vec<(&str, &str, Vec<u8>)> = vec![
        ("no message", scram, Vec::new()),
        ("an empty nonce", scram, scram_first("")),
        ("a nonce of a megabyte", scram, scram_first(&long)),
        ("a nonce with a comma", scram, scram_first("a,b=c")),
        ("a nonce with a zero", scram, scram_first("a\0b")),
        ("a name of a megabyte", scram, format!("n,,n={long},r=nonce").into_bytes()),
        ("a broken escape", scram, b"n,,n=a=2,r=nonce".to_vec()),
        ("another user", scram, b"n,a=u:root,n=ahuber,r=nonce".to_vec()),
        ("an extension that is a must", scram, b"n,,m=x,n=ahuber,r=nonce".to_vec()),
        ("a channel that there is not", scram, b"p=tls-unique,,n=ahuber,r=nonce".to_vec()),
        ("no text", scram, vec![0xff; 1_000]),
        ("the last message first", scram, b"c=biws,r=nonce,p=AAAA".to_vec()),
        ("a mechanism of a megabyte", &long, b"x".to_vec()),
        ("zeros", "PLAIN", vec![0; 100_000]),
        ("a name of a megabyte, and a password", "PLAIN", format!("\0{long}\0x").into_bytes()),
    ];
    // After a valid first message, the final message is wrong in every part.
    let last = ["c=biws,r=nonce,p=AAAA", "c=biws,r=nonce,i=4294967295,p=AAAA", "r=x", "c=biws", ""];
    let exchange = |last: &str| [sasl_bind(1, scram, &first), sasl_bind(2, scram, last.as_bytes())].concat();
    let alone =
        |(what, mechanism, octets): &(&'static str, &str, Vec<u8>)| (*what, sasl_bind(1, mechanism, octets));
    let shapes: Vec<(&str, Vec<u8>)> =
        messages.iter().map(alone).chain(last.map(|last| ("a last message", exchange(last)))).collect();
    let mut wrong = Vec::new();
    for (shape, (what, octets)) in shapes.iter().enumerate() {
        let connect = |index| {
            let mut stream = open(pando.address(), shape * each + index);
            // A server that closes early reads no more.
            let _ = stream.write_all(octets);
            let _ = stream.shutdown(Shutdown::Write);
            stream
        };
        let mut streams: Vec<TcpStream> = (0..each).map(connect).collect();
        for ending in endings(&mut streams, AT_ONCE) {
            let answers = ending.answers();
            if !ending.is_closed || answers.iter().any(|(_, code)| *code == Some(ResultCode::SUCCESS)) {
                wrong.push(*what);
            }
        }
    }
    let first = wrong.first().map_or(String::new(), |first| format!(", first {first}"));
    let finding = Finding::of(format!("{each} times each of {} messages of SASL", shapes.len())).bounded(
        wrong.is_empty(),
        format!("{} taken, or left open{first}", wrong.len()),
        format!("none after {} s", AT_ONCE.as_secs()),
    );
    with_a_right_bind(pando, finding)
}

/// Binds with stored passwords whose verification requires hours, or all memory. A bind with such a password must fail
/// as fast as other binds.
fn costly(pando: &Pando, count: usize) -> Finding {
    let stored = [
        "{PBKDF2-SHA256}2000000000$MDEyMzQ1Njc4OWFiY2RlZg$uwFxsdBRF2CLLoqwi4RcVSZqX3wqfj0VVtWvFRVuDzE",
        "{ARGON2}$argon2id$v=19$m=4000000,t=4000,p=1$c29tZXNhbHRzb21lc2FsdA$\
         uwFxsdBRF2CLLoqwi4RcVSZqX3wqfj0VVtWvFRVuDzE",
        "{CRYPT}$2b$31$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234",
        "{CRYPT}$6$rounds=999999999$saltsalt$xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
         xxxxxxxxxxxxxxxxxxxxxxx",
    ];
    let mut admin = pando.administrator();
    let name = |index: usize| format!("uid=costly{index},ou=people,{SUFFIX}");
    for (index, stored) in stored.iter().enumerate() {
        // Write the entries as an import does, because an import stores passwords in the given form.
        let attributes =
            [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "x"), ("userPassword", *stored)];
        let outcome = admin.add(&name(index), &attributes).unwrap();
        assert!(outcome.is_success(), "{stored}: {outcome:?}");
    }
    let (mut slowest, mut wrong) = (Duration::ZERO, Vec::new());
    for index in 0..count {
        let mut connection = Connection::over_tcp(open(pando.address(), index)).unwrap();
        let started = Instant::now();
        let code = connection.bind(&name(index % stored.len()), "a password").unwrap().code;
        slowest = slowest.max(started.elapsed());
        if code != ResultCode::INVALID_CREDENTIALS {
            wrong.push(code);
        }
    }
    (0..stored.len()).for_each(|index| assert!(admin.delete(&name(index)).unwrap().is_success()));
    let finding = Finding::of(format!("{count} binds with {} stored forms that want hours", stored.len()))
        .timely(
            true,
            slowest <= AT_ONCE,
            format!("slowest {}", ms(slowest)),
            format!("within {}", ms(AT_ONCE)),
        )
        .bounded(wrong.is_empty(), format!("{} other than invalidCredentials", wrong.len()), "none");
    with_a_right_bind(pando, finding)
}

/// Compares the searches of another client with and without a flood, alternately.
fn p99(plan: &Plan, scratch: &Scratch) -> Finding {
    let length = (plan.share(10) / P99_RUNS as u32 / 2).max(Duration::from_secs(3));
    let pando = start(scratch).ready();
    let measure = || p99_of_searches(pando.address(), length);
    measure();
    let mut runs: Vec<(f64, Duration, Duration)> = (0..P99_RUNS)
        .map(|_| {
            let quiet = measure();
            let flood = Flood::start(pando.address());
            let under_flood = measure();
            assert!(flood.end().wrong > 0);
            (under_flood.as_secs_f64() / quiet.as_secs_f64(), quiet, under_flood)
        })
        .collect();
    runs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (times, quiet, under_flood) = runs[P99_RUNS / 2];
    let (least, most) = (runs[0].0, runs[P99_RUNS - 1].0);
    Finding::of(format!(
        "{P99_RUNS} runs of {:.0} s without and with {BINDS_PER_SECOND} wrong binds a second of {SOURCES} addresses",
        length.as_secs_f64()
    ))
    .bounded(
        times <= P99_TIMES_MAX,
        format!(
            "p99 of others' searches {times:.2} times as long ({} and {}; {least:.2} to {most:.2})",
            ms(quiet),
            ms(under_flood)
        ),
        format!("{P99_TIMES_MAX:.1} in the median"),
    )
}
