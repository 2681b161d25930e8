//! Floods of requests that need password hashing, by 64 users from 64 addresses, while other clients bind for the first
//! time.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{
    Authentication, BindRequest, ChangeOperation, ChangesBuf, Controls, MessageId, ModifyRequest, Request,
    ResultCode, Scope,
};

use crate::bystander::ms;
use crate::data::{self, PERSON_PASSWORD};
use crate::hostile_connections::{connect_from, hostile_source};
use crate::plan::Plan;
use crate::report::{Finding, Report};
use test_support::pando::{Pando, Start, command};
use test_support::tree::plant_policy;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

/// Number of attacking users, each with its own address.
const ATTACKERS: usize = 64;

/// Number of outstanding requests of each attacker.
const PIPELINE: i32 = 16;

/// Number of former passwords of each attacker, if there is a password history.
const HISTORY: usize = 24;

/// Maximum latency of other clients' first binds (99th percentile).
const FIRST_BIND_MAX: Duration = Duration::from_secs(1);

/// Time after the end of a flood at which binds must again be as fast as before the flood.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Allowance for noise of the machine when the binds before and after a flood are compared.
const SLACK: Duration = Duration::from_millis(100);

/// Number of binds that are measured before and after a flood.
const BINDS: usize = 10;

/// Niceness of the attackers' threads. Low priority, because real attackers do not share the server's machine.
const NICENESS: i32 = 10;

/// First source address of the measured binds.
const FIRST_VICTIM: u32 = u32::from_be_bytes([127, 200, 0, 1]);

/// Requests of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloodRequests {
    /// Changes of the attacker's own password.
    Changes,
    /// Binds with the right password, binds with a wrong password, and changes.
    Mixed,
}

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let attacks = [
        ("changes", FloodRequests::Changes, false),
        ("history", FloodRequests::Changes, true),
        ("mixed", FloodRequests::Mixed, true),
    ];
    let attacks = attacks.map(|(name, manner, history)| (format!("hash-flood/{name}"), manner, history));
    if !attacks.iter().any(|(name, ..)| report.wants(name)) {
        return;
    }
    let (scratch, people) = people_with_history();
    let length = Duration::from_secs(plan.count(3, 30) as u64);
    for (name, manner, has_history) in attacks {
        report.attack(&name, || {
            let node = scratch.write("node.toml", "bind_cache_seconds = 0\n");
            let pando = Start::new(&scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
            if has_history
                && pando.administrator().entry(&format!("cn=policy,{SUFFIX}"), &[]).unwrap().is_none()
            {
                let history = HISTORY.to_string();
                plant_policy(
                    &mut pando.administrator(),
                    &[("objectClass", "pwdPolicy"), ("pwdInHistory", &history)],
                );
            }
            let longest = FIRST_BIND_MAX;
            flood(&pando, &people, manner, (length, longest))
        });
    }
}

/// Returns the sample, with a password history for the attackers, and the names of all people.
fn people_with_history() -> (Scratch, Vec<String>) {
    let scratch = data::sample("assault-hash-flood");
    let pando = Start::new(&scratch).ready();
    let base = format!("ou=people,{SUFFIX}");
    let reply = pando.administrator().search(&base, Scope::WholeSubtree, "(uid=*)", &["1.1"]).unwrap();
    let people: Vec<String> = reply.entries.iter().map(|entry| entry.dn.clone()).collect();
    let change = [(ChangeOperation::Replace, "userPassword", &[PERSON_PASSWORD][..])];
    assert!(pando.administrator().modify(&people[0], &change).unwrap().is_success());
    assert!(pando.stop().success());
    let data = Pando::data(&scratch);
    let file = scratch.join("all.ldif");
    let file_name = file.to_str().unwrap();
    command(&["export", "--operational", "-o", file_name], Some(&data)).expect_code(0);
    let (mut text, exported) = (String::new(), fs::read_to_string(&file).unwrap().replace("\n ", ""));
    fn value_of<'t>(entry: &'t str, name: &str) -> Option<&'t str> {
        entry.lines().find(|line| line.starts_with(name))
    }
    // Every password is stored in the same form as the first one, so every bind costs a hash.
    let first =
        exported.split("\n\n").find(|entry| value_of(entry, "dn: ") == Some(&format!("dn: {}", people[0])));
    let password = first.and_then(|entry| value_of(entry, "userPassword")).unwrap();
    for entry in exported.split("\n\n") {
        let name = value_of(entry, "dn: ").and_then(|line| line.strip_prefix("dn: "));
        for line in entry.lines() {
            let line = if line.starts_with("userPassword") { password } else { line };
            writeln!(text, "{line}").unwrap();
        }
        if people.iter().take(ATTACKERS).any(|person| name == Some(person)) {
            for number in 0..HISTORY {
                let form = format!(
                    "{{ARGON2}}$argon2id$v=19$m=19456,t=2,p=1${}AA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                    "A".repeat(20)
                );
                let syntax = "1.3.6.1.4.1.1466.115.121.1.40";
                writeln!(text, "pwdHistory: 202501010000{number:02}Z#{syntax}#{}#{form}", form.len())
                    .unwrap();
            }
        }
        text.push('\n');
    }
    fs::write(&file, text).unwrap();
    fs::remove_dir_all(&data).unwrap();
    command(&["import", "--suffix", SUFFIX, file_name], Some(&data)).expect_code(0);
    (scratch, people)
}

fn flood(
    pando: &Pando,
    people: &[String],
    manner: FloodRequests,
    (length, longest): (Duration, Duration),
) -> Finding {
    let server = pando.address();
    let (attackers, victims) = people.split_at(ATTACKERS);
    let mut victims = victims.iter().enumerate();
    // Each name and each address is used only once, so that each bind is a first bind.
    let mut first_bind = |name: Option<(&str, &str)>| {
        let (number, victim) = victims.next().expect("people enough");
        let (name, password) = name.unwrap_or((victim, PERSON_PASSWORD));
        time_bind(server, Ipv4Addr::from(FIRST_VICTIM + number as u32), name, password)
    };
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let before = median((0..BINDS).map(|_| first_bind(None).1).collect());
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut people_times, mut administrator_times, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let bound: Vec<Connection> = attackers
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let mut connection =
                    Connection::over_tcp(connect_from(hostile_source(index), server).unwrap()).unwrap();
                assert!(connection.bind(name, PERSON_PASSWORD).unwrap().is_success());
                connection
            })
            .collect();
        for (index, (connection, name)) in bound.into_iter().zip(attackers).enumerate() {
            let (is_over, answered) = (&is_over, &answered);
            scope.spawn(move || attack(connection, name, (manner, index), is_over, answered));
        }
        let until = Instant::now() + length;
        while Instant::now() < until {
            for name in [None, Some((ADMIN_DN, ADMIN_PASSWORD))] {
                let (code, took) = first_bind(name);
                if code != Ok(ResultCode::SUCCESS) {
                    failures.push(format!("{code:?}"));
                }
                if name.is_some() { administrator_times.push(took) } else { people_times.push(took) }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    std::thread::sleep(AFTERWARDS);
    let after = median((0..BINDS).map(|_| first_bind(None).1).collect());
    let p99 = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() * 99 / 100]
    };
    let (binds, first) = (people_times.len() + administrator_times.len(), failures.first().cloned());
    let (people, administrator) = (p99(people_times), p99(administrator_times));
    Finding::of(format!(
        "{ATTACKERS} users from {ATTACKERS} addresses, {manner:?}, {} s, {} requests answered",
        length.as_secs(),
        answered.into_inner()
    ))
    .timely(
        failures.is_empty(),
        people.max(administrator) <= longest,
        format!(
            "{} of {binds} first binds of others fail ({first:?}), p99 {}, of the administrator {}",
            failures.len(),
            ms(people),
            ms(administrator)
        ),
        format!("none, each within {}", ms(longest)),
    )
    .timely(
        true,
        after <= before * 2 + SLACK,
        format!("a bind takes {} before, {} afterwards", ms(before), ms(after)),
        format!("as before after {} s", AFTERWARDS.as_secs()),
    )
}

/// Binds on a new connection from this address. Returns the result and the latency.
fn time_bind(
    server: SocketAddr,
    source: Ipv4Addr,
    name: &str,
    password: &str,
) -> (Result<ResultCode, String>, Duration) {
    let started = Instant::now();
    let outcome = connect_from(source, server).and_then(Connection::over_tcp).and_then(|mut connection| {
        connection.set_timeout(Duration::from_secs(60))?;
        connection.bind(name, password)
    });
    (outcome.map(|outcome| outcome.code).map_err(|error| error.to_string()), started.elapsed())
}

/// Keeps requests outstanding until the flood is over or the server closes the connection.
fn attack(
    mut connection: Connection,
    name: &str,
    (manner, index): (FloodRequests, usize),
    is_over: &AtomicBool,
    answered: &AtomicU64,
) {
    connection.set_timeout(Duration::from_secs(60)).unwrap();
    // Low priority, because real attackers use other machines.
    rustix::process::setpriority_process(None, NICENESS).unwrap();
    let send = |connection: &mut Connection, id: i32| {
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "userPassword", [PERSON_PASSWORD]);
        let change = Request::Modify(ModifyRequest { object: name, changes: changes.as_changes() });
        let bind = |password: &'static str| {
            let authentication = Authentication::Simple(password.as_bytes());
            Request::Bind(BindRequest { version: 3, name, authentication })
        };
        let request = match (manner, index % 3) {
            (FloodRequests::Changes, _) | (FloodRequests::Mixed, 0) => change,
            (FloodRequests::Mixed, 1) => bind(PERSON_PASSWORD),
            (FloodRequests::Mixed, _) => bind("a wrong password"),
        };
        connection.send_as(MessageId(id), request, Controls::NONE).is_ok()
    };
    let mut next = 1;
    while next <= PIPELINE && send(&mut connection, next) {
        next += 1;
    }
    while !is_over.load(Ordering::Relaxed) && connection.receive_any().is_ok() {
        answered.fetch_add(1, Ordering::Relaxed);
        if !send(&mut connection, next) {
            break;
        }
        next += 1;
    }
}
