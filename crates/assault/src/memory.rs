//! Memory that hostile connections can make the server use: the requests that need the most memory, measured by the
//! growth of the server's resident memory.
//!
//! Each kind of request (shape) is sent to its own server while another client uses that server. Eight connections may
//! cost 512 MiB. A thousand may cost a quarter of the server's permitted memory, which is twice the limit of request
//! memory (`request_memory_bytes`). The memory is released when the connections are closed.

mod shapes;

use std::time::{Duration, Instant};

use client::Connection;
use ldap::{Controls, FilterBuf, MessageId, Request, Scope, SearchRequest, SelectionBuf};

use crate::bystander::Bystander;
use crate::data::{self, MANY, PERSON, PERSON_PASSWORD};
use crate::hostile_connections::{HostileConnections, connect_from, hostile_source};
use crate::plan::Plan;
use crate::process::{MIB, Memory, connections_possible};
use crate::report::{Finding, Report};
use shapes::{SHAPES, Shape};
use test_support::pando::{Pando, Start};
use test_support::{SUFFIX, Scratch};

/// Maximum memory cost of eight hostile connections.
const FEW_COST_MAX: u64 = 512 * MIB;

/// Number of connections that count as few.
const FEW: usize = 8;

/// Setting of request memory for many connections, so that the cost of the connections is the same on every machine.
pub(crate) const REQUEST_MEMORY: u64 = 256 * MIB;

/// Maximum memory cost of many connections with that setting: twice the value of the setting for requests, and a fixed
/// amount for the connections themselves and the work of the server.
pub(crate) const MANY_COST_MAX: u64 = 2 * REQUEST_MEMORY + 64 * MIB;

/// Maximum growth of the server's memory that may remain after the connections are closed.
const KEPT_MAX: u64 = 64 * MIB;

/// Growth of memory at which an attack ends, so that the machine does not run out of memory.
const ENOUGH: u64 = 6 << 30;

/// Number of entries in one unit, in a quick and in a full run, for searches that gather candidates.
const MANY_ENTRIES: (usize, usize) = (20_000, 100_000);

/// Time that the server gets to read a client's messages before the client reads answers.
const HEARD: Duration = Duration::from_millis(500);

/// Maximum latency of another client's answer during an attack.
const SLOWEST_MAX: Duration = Duration::from_secs(5);

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let wanted: Vec<&Shape> = SHAPES
        .iter()
        .filter(|shape| {
            (shape.in_quick || !plan.is_quick()) && report.wants(&format!("memory/{}", shape.name))
        })
        .collect();
    let over_budget = ["memory/abandon-over-budget", "memory/unbind-over-budget"];
    if wanted.is_empty() && !over_budget.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample_and_many("assault-memory", plan.count(MANY_ENTRIES.0, MANY_ENTRIES.1));
    for shape in wanted {
        report.attack(&format!("memory/{}", shape.name), || attack(plan, &scratch, shape));
    }
    report.attack(over_budget[0], || over_its_budget(&scratch, AndThen::Abandons));
    report.attack(over_budget[1], || over_its_budget(&scratch, AndThen::Unbinds));
}

fn start(scratch: &Scratch, arguments: &[&str]) -> Pando {
    Start::new(scratch).arguments(&["--anonymous-read"]).arguments(arguments).ready()
}

fn attack(plan: &Plan, scratch: &Scratch, shape: &Shape) -> Finding {
    let count = shape.connections.min(connections_possible());
    let is_few = count <= FEW;
    let node_file = scratch.write("node.toml", format!("request_memory_bytes = {REQUEST_MEMORY}\n"));
    let arguments = ["--node", node_file.to_str().unwrap()];
    // The limit for few connections does not depend on settings.
    let pando = start(scratch, if is_few { &[] } else { &arguments });
    let bystander = Bystander::start(pando.address(), &Pando::data(scratch));
    let mut horde = HostileConnections::connect(pando.address(), count, shape.one_source);
    if let Some((dn, password)) = shape.bind {
        horde.bind(dn, password);
    }
    // The first answers read pages and fill caches. Their cost does not count for the attack.
    warm_up(&pando);
    let memory = Memory::watch(pando.id());
    let bound = if is_few { FEW_COST_MAX } else { MANY_COST_MAX };
    let end = Instant::now() + Duration::from_secs(plan.count(3, 40) as u64);
    let enough = (2 * bound).min(ENOUGH);
    let make = (shape.messages)();
    let pushed =
        horde.push(|_, number| make(number), || memory.peak_growth() < enough && Instant::now() < end);
    memory.settle(Duration::from_millis(500), Instant::now() + Duration::from_secs(plan.count(1, 10) as u64));
    let peak = memory.peak_growth();
    drop(horde);
    let retained = memory.given_back(KEPT_MAX);
    let seen = bystander.end();
    let who = if shape.bind.is_some() { "bound" } else { "anonymous" };
    let from = if shape.one_source { " of one source" } else { "" };
    let done = format!(
        "{count} {who} connections{from} send {}: {} messages, {} MiB taken, {} closed, {} not read any further",
        shape.what,
        pushed.messages,
        pushed.octets / MIB,
        pushed.closed,
        pushed.waiting
    );
    let finding = Finding::of(done)
        .bounded(
            peak <= bound,
            format!("+{} MiB on {}", peak / MIB, memory.before() / MIB),
            format!("at most {}", bound / MIB),
        )
        .bounded(
            retained <= KEPT_MAX,
            format!("+{} MiB when they are gone", retained / MIB),
            format!("at most {}", KEPT_MAX / MIB),
        );
    seen.add_to(finding, SLOWEST_MAX)
}

fn warm_up(pando: &Pando) {
    let mut admin = pando.administrator();
    for filter in ["(cn=anna huber)", "(objectClass=inetOrgPerson)", "(description=*number 17*)"] {
        let reply = admin.search(SUFFIX, Scope::WholeSubtree, filter, &["cn"]).unwrap();
        assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    }
}

/// Action of a client after it has sent more requests than may be outstanding.
#[derive(Clone, Copy, PartialEq)]
enum AndThen {
    Abandons,
    Unbinds,
}

/// Maximum number of outstanding requests of a connection in these attacks.
const OUTSTANDING: usize = 100;

/// Number of entries that each search returns: the size limit of users other than the administrator.
const ENTRIES: usize = 1_000;

/// Maximum size in octets of the answers in the client's socket, so that most of them wait in the server.
const RECEIVED_MAX: usize = 64 << 10;

/// Attack with one connection that has the maximum number of outstanding requests and sends one more search. Its client
/// reads nothing. Then the client either abandons all requests and sends a small request (RFC 4511 section 4.11), or
/// unbinds (section 4.3). Finally it reads. Few entries may arrive, because the server reads an abandon or unbind even
/// if it reads no other request.
fn over_its_budget(scratch: &Scratch, then: AndThen) -> Finding {
    let node_file = scratch.write("few.toml", format!("[limits]\noutstanding = {OUTSTANDING}\n"));
    let pando = start(scratch, &["--node", node_file.to_str().unwrap()]);
    let stream = connect_from(hostile_source(0), pando.address()).unwrap();
    socket2::SockRef::from(&stream).set_recv_buffer_size(RECEIVED_MAX).unwrap();
    let mut connection = Connection::over_tcp(stream).unwrap();
    assert!(connection.bind(PERSON, PERSON_PASSWORD).unwrap().is_success());
    let filter = FilterBuf::parse("(objectClass=device)").unwrap();
    let selection = SelectionBuf::new();
    let request = SearchRequest::new(MANY, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let mut send = |_| connection.send(Request::Search(request), Controls::NONE).unwrap();
    let ids: Vec<MessageId> = (0..=OUTSTANDING).map(&mut send).collect();
    let all = ids.len() * ENTRIES;
    let (end, last) = match then {
        AndThen::Abandons => {
            ids.iter().for_each(|id| connection.abandon(*id).unwrap());
            let filter = FilterBuf::parse("(objectClass=*)").unwrap();
            let small =
                SearchRequest::new(PERSON, Scope::BaseObject, filter.as_filter(), selection.as_selection());
            let small = connection.send(Request::Search(small), Controls::NONE).unwrap();
            ("abandons all, and asks for its entry and has it", Some(small))
        }
        AndThen::Unbinds => {
            connection.send(Request::Unbind, Controls::NONE).unwrap();
            ("says goodbye, and is closed", None)
        }
    };
    // The server receives the messages and processes them.
    std::thread::sleep(HEARD);
    let mut entries = 0;
    loop {
        match connection.receive_any() {
            Ok(received) if received.outcome().is_none() => entries += 1,
            Ok(received) if Some(received.id()) == last => break,
            Ok(_) => {}
            Err(error) if last.is_some() => panic!("no answer to the last request: {error}"),
            Err(_) => break,
        }
    }
    Finding::of(format!(
        "a connection asks for {all} entries in {} searches, reads nothing, {end}",
        ids.len()
    ))
    .bounded(entries <= all / 2, format!("{entries} entries come"), format!("at most {}", all / 2))
}
