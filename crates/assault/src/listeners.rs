//! Thousands of persistent searches whose clients close the connection or half of it, stop reading, or use up the
//! permitted number of searches. Other clients must receive changes in the meantime, and the server must release every
//! search.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{
    ChangeOperation, Control, ControlsBuf, FilterBuf, Message, MessageId, PersistentSearch, Request,
    Response, ResponseMessage, ResultCode, Scope, SearchRequest, SelectionBuf, oids,
};

use crate::bystander::ms;
use crate::data::{self, PERSON, PERSON_PASSWORD};
use crate::hostile_connections::connect_from;
use crate::memory::{MANY_COST_MAX, REQUEST_MEMORY};
use crate::plan::Plan;
use crate::process::{MIB, connections_possible, wait_until};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use crate::wire::{bind, open};
use test_support::pando::{Pando, Start};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

/// Limits of memory and latency. The memory allows some kilobytes for each search, and space for changes that clients
/// do not read.
const BOUNDS: Bounds = Bounds { cost: 256 * MIB, slowest: Duration::from_secs(2) };

/// Maximum time until a search ends after its client closed the connection.
const END_MAX: Duration = Duration::from_secs(5);

/// Number of searches on each connection.
const PER_CONNECTION: usize = 10;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = ["close", "half-close", "stall", "greedy"].map(|name| format!("listeners/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-listeners");
    let connections = plan.count(100, 900).min(connections_possible());
    report.attack(&names[0], || attack(&scratch, |pando| leave(pando, connections, Leave::Close)));
    report.attack(&names[1], || attack(&scratch, |pando| leave(pando, connections, Leave::CloseSide)));
    report.attack(&names[2], || {
        let node_file = scratch.write("stall.toml", format!("request_memory_bytes = {REQUEST_MEMORY}\n"));
        let start = Start::new(&scratch).arguments(&["--node", node_file.to_str().unwrap()]);
        // For clients that do not read, the setting of request memory limits the cost, as for other searches.
        let bounds = Bounds { cost: MANY_COST_MAX, ..BOUNDS };
        under_attack(&scratch, start, bounds, |pando| stall(pando, connections, plan.count(50, 2_000)))
    });
    report.attack(&names[3], || attack(&scratch, greedy));
}

fn attack(scratch: &Scratch, attack: impl FnOnce(&Pando) -> Finding) -> Finding {
    under_attack(scratch, Start::new(scratch), BOUNDS, attack)
}

fn listen(id: i32, base: &str) -> Vec<u8> {
    let (filter, selection) = (FilterBuf::parse("(objectClass=*)").unwrap(), SelectionBuf::new());
    let request = SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let search = PersistentSearch {
        change_types: PersistentSearch::ALL_TYPES,
        changes_only: true,
        returns_entry_changes: true,
    };
    let control = Control { oid: oids::PERSISTENT_SEARCH, critical: true, value: Some(&search.encode()) };
    let controls: ControlsBuf = [control].into_iter().collect();
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request: Request::Search(request), controls: controls.as_controls() }
        .encode(&mut bytes);
    bytes
}

/// Opens connections with [`PER_CONNECTION`] searches each.
fn listeners(pando: &Pando, connections: usize, (name, password): (&str, &str)) -> Vec<TcpStream> {
    (0..connections)
        .map(|index| {
            let mut stream = open(pando.address(), index);
            stream.write_all(&bind(1, name, password)).unwrap();
            let searches = (2..).take(PER_CONNECTION).map(|id| listen(id, SUFFIX));
            stream.write_all(&searches.flatten().collect::<Vec<_>>()).unwrap();
            stream
        })
        .collect()
}

/// Returns the number in `cn=NAME,cn=Persistent Searches,cn=monitor`.
fn figure(admin: &mut Connection, name: &str) -> usize {
    let dn = format!("cn={name},cn=Persistent Searches,cn=monitor");
    let entry = admin.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    std::str::from_utf8(&entry.attributes[0].values[0]).unwrap().parse().unwrap()
}

/// Waits until this number of searches is registered. Returns the time that this took; `None` if the number was not
/// reached.
fn until_listening(admin: &mut Connection, count: usize) -> Option<Duration> {
    let started = Instant::now();
    wait_until(Duration::from_secs(30), || figure(admin, "Current") == count).then(|| started.elapsed())
}

/// Changes an entry that all searches cover. The values must differ, because equal values are not a change.
fn change(admin: &mut Connection) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let value = format!("{} of {}", NUMBER.fetch_add(1, Ordering::Relaxed), std::process::id());
    let change = (ChangeOperation::Replace, "description", &[value.as_str()][..]);
    assert!(admin.modify(SUFFIX, &[change]).unwrap().is_success());
}

/// Reads until `count` results have arrived, the peer has closed the connection, or no more messages arrive. Returns
/// the number of search results with a change, and the result codes that ended searches.
fn read_notifications(stream: &mut TcpStream, count: usize) -> (usize, Vec<ResultCode>) {
    let limits = ldap::DecodeLimits::AUTHENTICATED;
    let (mut input, mut buffer, mut entries, mut codes) = (Vec::new(), vec![0; 16 << 10], 0, Vec::new());
    while entries + codes.len() < count {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => input.extend_from_slice(&buffer[..read]),
        }
        let mut consumed = 0;
        while let Some(len) = ldap::frame_len(&input[consumed..]).unwrap()
            && len <= input.len() - consumed
        {
            let message = ResponseMessage::decode(&input[consumed..consumed + len], &limits).unwrap();
            match message.response {
                Response::SearchEntry(_) => entries += 1,
                Response::SearchDone(result) => codes.push(result.code),
                _ => {}
            }
            consumed += len;
        }
        input.drain(..consumed);
    }
    (entries, codes)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Close,
    CloseSide,
}

/// All searches receive a change, and then their clients disconnect. The server must release every search.
fn leave(pando: &Pando, connections: usize, how: Leave) -> Finding {
    let mut admin = pando.administrator();
    let mut streams = listeners(pando, connections, (ADMIN_DN, ADMIN_PASSWORD));
    let count = connections * PER_CONNECTION;
    let all_listen = until_listening(&mut admin, count).is_some();
    let started = Instant::now();
    change(&mut admin);
    let changed = started.elapsed();
    let heard: usize = streams.iter_mut().map(|stream| read_notifications(stream, PER_CONNECTION).0).sum();
    let took = started.elapsed();
    let mut ended = count;
    match how {
        Leave::Close => drop(std::mem::take(&mut streams)),
        Leave::CloseSide => {
            streams.iter().for_each(|stream| stream.shutdown(Shutdown::Write).unwrap());
            let codes = streams.iter_mut().flat_map(|stream| read_notifications(stream, PER_CONNECTION).1);
            ended = codes.filter(|code| *code == ResultCode::CANCELED).count();
        }
    }
    let all_ended = until_listening(&mut admin, 0);
    let what = if how == Leave::Close { "close" } else { "close their side" };
    Finding::of(format!(
        "{count} searches on {connections} connections receive a change, and their clients {what}"
    ))
    .bounded(all_listen, "all listen", "all")
    .timely(true, changed < Duration::from_secs(2), format!("the change took {}", ms(changed)), "2 s")
    .bounded(heard == count, format!("{heard} heard of it within {}", ms(took)), "all")
    .bounded(ended == count, format!("{ended} received a result"), "all")
    .bounded(
        all_ended.is_some_and(|took| took < END_MAX),
        all_ended.map_or_else(|| "some stay".to_owned(), |took| format!("gone within {}", ms(took))),
        ms(END_MAX),
    )
}

/// Some clients do not read while entries change. A client that reads must receive each change, and the server's memory
/// for the other clients must be bounded.
fn stall(pando: &Pando, connections: usize, changes: usize) -> Finding {
    let mut admin = pando.administrator();
    let streams = listeners(pando, connections, (ADMIN_DN, ADMIN_PASSWORD));
    let count = connections * PER_CONNECTION;
    let all_listen = until_listening(&mut admin, count).is_some();
    let mut reader = open(pando.address(), connections);
    reader.write_all(&[bind(1, PERSON, PERSON_PASSWORD), listen(2, SUFFIX)].concat()).unwrap();
    let reads = until_listening(&mut admin, count + 1).is_some();
    let (mut slowest, mut heard) = (Duration::ZERO, 0);
    for _ in 0..changes {
        let started = Instant::now();
        change(&mut admin);
        heard += read_notifications(&mut reader, 1).0;
        slowest = slowest.max(started.elapsed());
    }
    drop((streams, reader));
    let ended = until_listening(&mut admin, 0);
    Finding::of(format!("{count} searches whose clients do not read, and {changes} changes"))
        .bounded(all_listen && reads, "all listen", "all")
        .bounded(heard == changes, format!("one that reads heard of {heard}"), "all")
        .timely(true, slowest < Duration::from_secs(2), format!("the slowest within {}", ms(slowest)), "2 s")
        .bounded(ended.is_some(), "all are gone when their clients are", "all")
}

/// One user opens as many searches as possible. Another user's search must still receive changes.
fn greedy(pando: &Pando) -> Finding {
    let mut admin = pando.administrator();
    let all = figure(&mut admin, "Max");
    // Opens more searches than the server permits, from many addresses.
    let connections = (all / PER_CONNECTION + 20).min(connections_possible());
    let streams = listeners(pando, connections, (PERSON, PERSON_PASSWORD));
    let requested = connections * PER_CONNECTION;
    wait_until(Duration::from_secs(60), || {
        figure(&mut admin, "Current") + figure(&mut admin, "Refused") >= requested
    });
    let current = figure(&mut admin, "Current");
    let mut other = connect_from(crate::bystander::PERSON_SOURCE, pando.address()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let other_name = "uid=ftoth,ou=people,dc=example,dc=com";
    other.write_all(&[bind(1, other_name, PERSON_PASSWORD), listen(2, SUFFIX)].concat()).unwrap();
    let listens = until_listening(&mut admin, current + 1).is_some();
    change(&mut admin);
    let (heard, codes) = read_notifications(&mut other, 1);
    drop(streams);
    Finding::of(format!("one user asks for {requested} searches from {connections} addresses"))
        .bounded(current <= all / 2 + 1, format!("it gets {current} of {all} places"), "half")
        .bounded(listens && heard == 1, format!("another receives {heard} change {codes:?}"), "1")
}
