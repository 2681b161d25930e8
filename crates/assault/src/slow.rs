//! Slow senders, slow readers, half-closed connections, and storms of connections. Other clients must be answered in
//! the meantime, and no connection may stay open.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use ldap::{Response, ResponseMessage};

use crate::bystander::ms;
use crate::data::{self, MANY};
use crate::plan::Plan;
use crate::process::{MIB, connections_possible, descriptors, wait_until};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use crate::wire::{open, search};
use test_support::pando::{Pando, Start};
use test_support::{SUFFIX, Scratch};

/// Maximum memory cost of slow peers, which is low because they send little.
const BOUNDS: Bounds = Bounds { cost: 64 * MIB, slowest: Duration::from_secs(2) };

/// Number of entries in a large result.
const ENTRIES: usize = 20_000;

/// Idle time after which the server closes a connection with an incomplete message or answer (see
/// `server/src/limits.rs`), plus a margin until the server notices.
const STALL: Duration = Duration::from_secs(120 + 15);

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = ["octet-by-octet", "half-closed", "slow-reader", "storm", "stalled"]
        .map(|name| format!("slow/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample_and_many("assault-slow", ENTRIES);
    let count = plan.count(200, 1_000).min(connections_possible());
    report.attack(&names[0], || attack(&scratch, |pando| octet_by_octet(pando, count)));
    report.attack(&names[1], || attack(&scratch, |pando| half_closed(pando, count)));
    report.attack(&names[2], || attack(&scratch, |pando| slow_reader(pando, plan.count(4, 16))));
    report.attack(&names[3], || attack(&scratch, |pando| storm(pando, plan.count(2_000, 20_000))));
    if !plan.is_quick() {
        report.attack(&names[4], || attack(&scratch, stalled));
    }
}

fn attack(scratch: &Scratch, attack: impl FnOnce(&Pando) -> Finding) -> Finding {
    under_attack(scratch, Start::new(scratch).arguments(&["--anonymous-read"]), BOUNDS, attack)
}

/// Reads answers until this number of searches is complete. Returns the number of entries, or the reason of a failure.
fn read_answers(
    stream: &mut TcpStream,
    searches: usize,
    piece: usize,
    pause: Duration,
) -> Result<usize, String> {
    let limits = ldap::DecodeLimits::AUTHENTICATED;
    let (mut input, mut entries, mut done) = (Vec::new(), 0, 0);
    let mut buffer = vec![0; piece];
    while done < searches {
        let count =
            stream.read(&mut buffer).map_err(|error| format!("{done} of {searches} answered: {error}"))?;
        if count == 0 {
            return Err(format!("closed with {done} of {searches} answered"));
        }
        input.extend_from_slice(&buffer[..count]);
        let mut consumed = 0;
        while let Some(len) = ldap::frame_len(&input[consumed..]).map_err(|error| error.to_string())?
            && len <= input.len() - consumed
        {
            let message = ResponseMessage::decode(&input[consumed..consumed + len], &limits)
                .map_err(|error| error.to_string())?;
            match message.response {
                Response::SearchEntry(_) => entries += 1,
                response => done += usize::from(response.result().is_some()),
            }
            consumed += len;
        }
        input.drain(..consumed);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    Ok(entries)
}

/// Each client sends a request octet by octet.
fn octet_by_octet(pando: &Pando, count: usize) -> Finding {
    let mut streams: Vec<TcpStream> = (0..count).map(|index| open(pando.address(), index)).collect();
    let message = search(1, SUFFIX, "(uid=ahuber)");
    for octet in &message {
        streams.iter_mut().for_each(|stream| stream.write_all(&[*octet]).unwrap());
    }
    let answers = streams.iter_mut().map(|stream| read_answers(stream, 1, 4_096, Duration::ZERO));
    let answered = answers.filter(|answer| *answer == Ok(1)).count();
    Finding::of(format!("{count} connections send a search of {} octets one at a time", message.len()))
        .bounded(answered == count, format!("{answered} answered"), "all")
}

/// Each client sends ten requests and closes its sending half. Every answer must arrive, and then the end.
fn half_closed(pando: &Pando, count: usize) -> Finding {
    let requests: Vec<u8> = (1..=10).flat_map(|id| search(id, SUFFIX, "(uid=ahuber)")).collect();
    let mut streams: Vec<TcpStream> = (0..count).map(|index| open(pando.address(), index)).collect();
    for stream in &mut streams {
        stream.write_all(&requests).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut answered = 0;
    for stream in &mut streams {
        let is_answered = read_answers(stream, 10, 4_096, Duration::ZERO) == Ok(10);
        answered += usize::from(is_answered && matches!(stream.read(&mut [0; 1]), Ok(0)));
    }
    Finding::of(format!("{count} connections send 10 searches each and close their half")).bounded(
        answered == count,
        format!("{answered} have all answers and are closed"),
        "all",
    )
}

/// Each client requests a large result several times and reads it slowly. Each result must be complete.
fn slow_reader(pando: &Pando, count: usize) -> Finding {
    const SEARCHES: usize = 3;
    let size_limit = 1_000;
    let requests: Vec<u8> =
        (1..=SEARCHES as i32).flat_map(|id| search(id, MANY, "(objectClass=device)")).collect();
    let address = pando.address();
    let threads: Vec<_> = (0..count)
        .map(|index| {
            let requests = requests.clone();
            std::thread::spawn(move || {
                let mut stream = open(address, index);
                stream.write_all(&requests).unwrap();
                read_answers(&mut stream, SEARCHES, 2_048, Duration::from_millis(2))
            })
        })
        .collect();
    let answers: Vec<Result<usize, String>> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let complete = answers.iter().filter(|answer| **answer == Ok(SEARCHES * size_limit)).count();
    let other = answers.iter().find(|answer| **answer != Ok(SEARCHES * size_limit));
    Finding::of(format!(
        "{count} connections read {SEARCHES} results of {size_limit} entries, 1 MB a second at most"
    ))
    .bounded(
        complete == count,
        format!("{complete} complete{}", other.map_or(String::new(), |other| format!(", {other:?}"))),
        "all",
    )
}

/// Opens and closes connections as quickly as possible, some in the middle of a message or a result.
fn storm(pando: &Pando, count: usize) -> Finding {
    let large = search(1, MANY, "(objectClass=device)");
    let started = Instant::now();
    for index in 0..count {
        let mut stream = open(pando.address(), index);
        // The server may already have closed the connection.
        let _ = match index % 4 {
            0 => Ok(()),
            1 => stream.write_all(&large[..large.len() / 2]),
            2 => stream.write_all(&large),
            _ => stream.write_all(&[0x16, 3, 1, 2, 0]),
        };
    }
    let took = ms(started.elapsed());
    Finding::of(format!(
        "{count} connections in {took}, idle, in half a message, without their answer, no LDAP"
    ))
}

/// Half of the clients send a part of a message, and the others do not read their answers. All connections must be
/// closed in time.
fn stalled(pando: &Pando) -> Finding {
    const COUNT: usize = 50;
    let before = descriptors(pando.id());
    let large: Vec<u8> = (1..=500).flat_map(|id| search(id, MANY, "(objectClass=device)")).collect();
    let mut streams: Vec<TcpStream> = (0..COUNT).map(|index| open(pando.address(), index)).collect();
    for (index, stream) in streams.iter_mut().enumerate() {
        let part = if index % 2 == 0 { &large[..20] } else { &large[..] };
        stream.write_all(part).unwrap();
    }
    let reached = descriptors(pando.id());
    let closed = wait_until(STALL, || descriptors(pando.id()) <= before + 4);
    drop(streams);
    let done = format!(
        "{COUNT} connections stop in a message or read nothing: {before} descriptors, then {reached}"
    );
    Finding::of(done).bounded(
        closed,
        if closed { "all closed" } else { "not all closed" },
        format!("within {} s", STALL.as_secs()),
    )
}
