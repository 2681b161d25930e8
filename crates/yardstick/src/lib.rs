//! A second load generator, against which `pando bench` is checked.
//!
//! It shares no code with `pando bench` or any other crate. Each connection has a blocking thread, which encodes and
//! decodes messages octet by octet. The thread binds, searches for one entry after the other by its number, reads every
//! answer up to its result code, and counts the correct answers in the measured time. It has no other features.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: yardstick ADDRESS BIND_DN PASSWORD BASE ATTRIBUTE PREFIX ENTRIES CLIENTS OUTSTANDING \
                     WARM_UP_SECONDS SECONDS
  searches BASE for (ATTRIBUTE=PREFIXn), n from 0 below ENTRIES, and prints what was answered a second";

/// Requests of a connection, and their rate.
struct Work {
    address: SocketAddr,
    bind_dn: String,
    password: String,
    base: String,
    attribute: String,
    prefix: String,
    entries: u64,
    outstanding: u32,
}

/// State that all connections share.
#[derive(Default)]
struct Shared {
    /// Phase: 0 warm-up, 1 measurement, 2 end.
    phase: AtomicU8,
    right: AtomicU64,
    wrong: AtomicU64,
}

/// Runs the measurement that a command line describes. Returns the line to print.
///
/// # Errors
/// The command line is wrong, or a connection fails.
pub fn run(arguments: &[String]) -> Result<String, String> {
    let [address, bind_dn, password, base, attribute, prefix, numbers @ ..] = arguments else {
        return Err(USAGE.to_owned());
    };
    let numbers: Vec<u64> = numbers.iter().filter_map(|text| text.parse().ok()).collect();
    let [entries, clients, outstanding, warm_up, seconds] = numbers[..] else { return Err(USAGE.to_owned()) };
    let work = Arc::new(Work {
        address: address.parse().map_err(|_| format!("{address:?} is no address such as 127.0.0.1:1389"))?,
        bind_dn: bind_dn.clone(),
        password: password.clone(),
        base: base.clone(),
        attribute: attribute.clone(),
        prefix: prefix.clone(),
        entries: entries.max(1),
        outstanding: u32::try_from(outstanding.max(1)).map_err(|error| error.to_string())?,
    });
    let shared = Arc::new(Shared::default());
    let mut threads = Vec::new();
    for number in 0..clients {
        let (work, shared) = (Arc::clone(&work), Arc::clone(&shared));
        threads.push(std::thread::spawn(move || client(&work, &shared, number)));
    }
    std::thread::sleep(Duration::from_secs(warm_up));
    shared.phase.store(1, Ordering::SeqCst);
    let from = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    shared.phase.store(2, Ordering::SeqCst);
    let measured = from.elapsed();
    for thread in threads {
        let ended = thread.join().map_err(|_| "a client met a defect".to_owned())?;
        ended.map_err(|error| error.to_string())?;
    }
    // Read the counters only after all threads have ended, because on a busy machine, threads are still counting
    // answers at the end of the measured time.
    let right = shared.right.load(Ordering::SeqCst);
    let wrong = shared.wrong.load(Ordering::SeqCst);
    Ok(format!(
        "{:.0} searches a second, {right} right in {:.2} s, {wrong} wrong",
        right as f64 / measured.as_secs_f64(),
        measured.as_secs_f64()
    ))
}

/// Runs one connection, from its bind to the last answer.
fn client(work: &Work, shared: &Shared, number: u64) -> io::Result<()> {
    let stream = TcpStream::connect(work.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    let mut writer = stream;
    writer.write_all(&bind(&work.bind_dn, &work.password))?;
    if (Answer { id: 1, is_end: true, code: 0 }) != read_answer(&mut reader)? {
        return Err(io::Error::other("the bind was refused"));
    }
    // Each connection uses a different sequence of keys, from a multiplicative generator with a full period.
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut id = 1;
    let mut append_request = |requests: &mut Vec<u8>| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        id = if id == i32::MAX { 2 } else { id + 1 };
        requests.extend(search(work, id, (random >> 33) % work.entries));
    };
    let mut requests = Vec::new();
    (0..work.outstanding).for_each(|_| append_request(&mut requests));
    let mut waiting = work.outstanding;
    // Count received entries by message id, because the entries of several answers may be interleaved.
    let mut entries: HashMap<u32, u32> = HashMap::new();
    while waiting > 0 {
        if reader.buffer().is_empty() {
            // Send the collected requests together, after all received data has been processed.
            writer.write_all(&requests)?;
            requests.clear();
        }
        let answer = read_answer(&mut reader)?;
        if !answer.is_end {
            *entries.entry(answer.id).or_default() += 1;
            continue;
        }
        let phase = shared.phase.load(Ordering::Relaxed);
        let is_right = answer.code == 0 && entries.remove(&answer.id) == Some(1);
        match (phase, is_right) {
            (1, true) => _ = shared.right.fetch_add(1, Ordering::Relaxed),
            (_, false) => _ = shared.wrong.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
        if phase == 2 {
            waiting -= 1;
        } else {
            append_request(&mut requests);
        }
    }
    Ok(())
}

/// A received message: an entry, or the end of an operation with its result code.
#[derive(PartialEq)]
struct Answer {
    id: u32,
    is_end: bool,
    code: u8,
}

fn read_answer(reader: &mut impl Read) -> io::Result<Answer> {
    let mut head = [0; 2];
    reader.read_exact(&mut head)?;
    let size = match head[1] {
        short @ 0..=0x7f => usize::from(short),
        long => {
            let mut octets = [0; 4];
            let count = usize::from(long & 0x7f);
            let start =
                octets.len().checked_sub(count).ok_or_else(|| io::Error::other("a length too long"))?;
            reader.read_exact(&mut octets[start..])?;
            u32::from_be_bytes(octets) as usize
        }
    };
    let mut body = vec![0; size];
    reader.read_exact(&mut body)?;
    // The message id, an INTEGER, precedes the operation, whose result begins with an ENUMERATED of one octet.
    let (_, behind) = body.split_at_checked(2).ok_or_else(|| io::Error::other("a message without an id"))?;
    let (id, operation) = behind.split_at_checked(usize::from(body[1])).unwrap_or_default();
    let id = id.iter().fold(0, |id, octet| id << 8 | u32::from(*octet));
    let tag = operation.first().copied().unwrap_or(0);
    let header = match operation.get(1) {
        Some(long) if *long >= 0x80 => 2 + usize::from(long & 0x7f),
        _ => 2,
    };
    let code = operation.get(header + 2).copied().unwrap_or(u8::MAX);
    Ok(Answer { id, is_end: tag != 0x64, code })
}

/// Encodes a tag, a length and a content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut octets = vec![tag];
    match content.len() {
        short @ 0..=0x7f => octets.push(u8::try_from(short).unwrap_or(0)),
        long => {
            octets.push(0x84);
            octets.extend(u32::try_from(long).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    octets.extend_from_slice(content);
    octets
}

fn message(id: i32, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[element(0x02, &id.to_be_bytes()), operation.to_vec()].concat())
}

fn bind(dn: &str, password: &str) -> Vec<u8> {
    let parts = [element(0x02, &[3]), element(0x04, dn.as_bytes()), element(0x80, password.as_bytes())];
    message(1, &element(0x60, &parts.concat()))
}

/// Encodes a search of the whole subtree for one entry, which returns only its name.
fn search(work: &Work, id: i32, number: u64) -> Vec<u8> {
    let value = format!("{}{number}", work.prefix);
    let equality = [element(0x04, work.attribute.as_bytes()), element(0x04, value.as_bytes())].concat();
    let parts = [
        element(0x04, work.base.as_bytes()),
        element(0x0a, &[2]),
        element(0x0a, &[0]),
        element(0x02, &[0]),
        element(0x02, &[0]),
        element(0x01, &[0]),
        element(0xa3, &equality),
        element(0x30, &element(0x04, b"1.1")),
    ];
    message(id, &element(0x63, &parts.concat()))
}
