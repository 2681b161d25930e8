//! A server whose disk is full, or that is killed while it builds an index. Only changes are refused. All work
//! continues once there is space, or after the next start.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use client::Outcome;
use ldap::{ResultCode, Scope};
use powercut::PowerCut;
use test_support::interrupted::must;
use test_support::metrics;
use test_support::pando::Start;
use test_support::writers::Writer;
use test_support::{ADMIN_DN, DEADLINE, Pando, SUFFIX, Scratch};

const WRITERS: u64 = 4;
/// Number of times that the disk becomes full.
const ROUNDS: u64 = 4;
const ROOM_MAX: u64 = 200_000;
/// Free space that is never used up, in bytes.
const PLENTY: &str = "999999999999";
/// Number of interruptions of each kind while indexes are built.
const INDEX_ROUNDS: u64 = 4;
/// Maximum duration of building indexes. Their thread has the lowest priority, and other tests use the processors.
const INDEX_DEADLINE: Duration = DEADLINE.saturating_mul(5);
/// Name of the client that writes, if there is only one.
const WRITER: &str = "w";
/// Indexes that take several slices to build.
const INDEXED: [(&str, &str); 4] = [
    ("cn", "equality,ordering,presence,substring,approximate"),
    ("sn", "equality,ordering,presence,substring,approximate"),
    ("description", "equality,ordering,presence,substring"),
    ("mail", "equality,ordering,presence,substring"),
];

#[test]
fn a_full_disk_refuses_changes_and_nothing_else() {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let scratch = Scratch::new("full");
    let mut writers;
    {
        let pando = Pando::start(&scratch);
        writers = Writer::planted(WRITERS, &mut random, &mut pando.administrator());
        assert!(pando.stop().success());
    }
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let room = scratch.join("room");
    for round in 0..test_support::rounds(ROUNDS) {
        // At the first start, there is no free space.
        let bytes = if round == 0 { 0 } else { random.u64(..ROOM_MAX) };
        println!("round {round}: room for {bytes} bytes");
        std::fs::write(&room, bytes.to_string()).unwrap();
        let plan = PowerCut::new(&data, &scratch.join("journal")).room(&room);
        let node = scratch.write("node.toml", metrics::NODE_FILE);
        let arguments = ["--node", node.to_str().unwrap()];
        let pando = Start::new(&scratch).arguments(&arguments).with(&plan).ready();
        let logged_before = pando.log().len();
        for refusal in write_until_refused(&mut writers, &pando) {
            assert_eq!(refusal.code, ResultCode::UNWILLING_TO_PERFORM, "{refusal:?}");
            assert!(refusal.diagnostic.contains("the disk of the server is full"), "{refusal:?}");
            assert!(!refusal.diagnostic.contains(data.to_str().unwrap()), "{refusal:?}");
        }
        check_all(&mut writers, &pando);
        let log = pando.log()[logged_before..].to_owned();
        assert!(log.contains("changes are refused until there is room"), "{log}");
        assert!(log.contains(&format!("the disk of {} is full", Pando::data(&scratch).display())), "{log}");

        metrics::expect_not_ready_now(&pando, "the disk is full");
        if random.bool() {
            // Free some space. Changes are accepted again.
            std::fs::write(&room, PLENTY).unwrap();
            write_some(&mut writers, &pando, 60);
            metrics::wait_for_ready(&pando, 200);
            check_all(&mut writers, &pando);
            assert!(pando.log()[logged_before..].contains("the disk has room again"), "{}", pando.log());
        }
        if random.bool() {
            pando.kill()
        } else {
            assert!(pando.stop().success())
        }
        must(&["verify"], &data);
        let pando = Pando::start(&scratch);
        check_all(&mut writers, &pando);
        write_some(&mut writers, &pando, 60);
        check_all(&mut writers, &pando);
        assert!(pando.stop().success());
        must(&["verify"], &data);
    }
}

fn write_until_refused(writers: &mut [Writer], pando: &Pando) -> Vec<Outcome> {
    let address = pando.address();
    let (sender, _receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let sender = sender.clone();
                scope.spawn(move || writer.write_until_refused(address, &sender))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap().expect("a refusal")).collect()
    })
}

/// Lets the writers write until this number of changes is acknowledged.
fn write_some(writers: &mut [Writer], pando: &Pando, acknowledgements: u64) {
    let address = pando.address();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for writer in writers {
            let sender = sender.clone();
            scope.spawn(move || writer.write_until_the_end(address, &sender));
        }
        for _ in 0..acknowledgements {
            receiver.recv_timeout(DEADLINE).expect("changes go on being acknowledged");
        }
        drop(receiver);
    });
}

fn check_all(writers: &mut [Writer], pando: &Pando) {
    let mut admin = pando.administrator();
    writers.iter_mut().for_each(|writer| writer.check(&mut admin));
}

/// Creates the sample organisation, the entries that a writer needs, and indexes that are defined but not built.
fn with_indexes_to_make(scratch: &Scratch) -> PathBuf {
    let template = scratch.join("template");
    let server = Start::bare(scratch, "template").arguments(&["--sample", "--admin-dn", ADMIN_DN]).ready();
    Writer::new(WRITER, 0).plant(&mut server.administrator());
    assert!(server.stop().success());
    let mut opened = server::Opened::open(server::Config::new(&template)).unwrap();
    for (attribute, kinds) in INDEXED {
        opened.define_index(attribute, kinds.parse().unwrap()).unwrap();
    }
    template
}

fn copy(template: &Path, data: &Path) {
    let _ = std::fs::remove_dir_all(data);
    std::fs::create_dir(data).unwrap();
    for name in ["data.mdb", "lock"] {
        std::fs::copy(template.join(name), data.join(name)).unwrap();
    }
}

/// Waits until no index is being built.
fn wait_for_indexes(pando: &Pando) {
    let mut admin = pando.administrator();
    let started = Instant::now();
    loop {
        let work = admin.search("cn=Indexes,cn=monitor", Scope::SingleLevel, "(cn=*)", &["1.1"]).unwrap();
        assert!(work.outcome.is_success(), "{:?}", work.outcome);
        if work.entries.is_empty() {
            return;
        }
        assert!(started.elapsed() < INDEX_DEADLINE, "indexes are not made; the log:\n{}", pando.log());
    }
}

fn check_indexes(data: &Path) {
    must(&["verify"], data);
    let list = must(&["index", "list"], data).stdout;
    for (attribute, kinds) in INDEXED {
        assert!(list.contains(&format!("{attribute} {kinds}\n")) && !list.contains("building"), "{list}");
    }
    must(&["explain", "--base", SUFFIX, "(description=*e*)"], data);
    must(&["explain", "--base", SUFFIX, "(mail=*son*)"], data).expect_output("by indexes:");
}

/// Counts the calls and bytes of a server that does nothing but build all of the indexes.
fn whole_build(scratch: &Scratch, template: &Path) -> powercut::Counted {
    let (data, count) = (scratch.path().canonicalize().unwrap().join("data"), scratch.join("count"));
    copy(template, &data);
    let plan = PowerCut::new(&data, &scratch.join("journal")).count(&count);
    let pando = Start::new(scratch).with(&plan).ready();
    wait_for_indexes(&pando);
    assert!(pando.stop().success());
    check_indexes(&data);
    let whole = powercut::counted(&count).unwrap();
    println!("all indexes: {whole:?}");
    whole
}

#[test]
fn an_index_build_continues_after_kills() {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let scratch = Scratch::new("index-kill");
    let template = with_indexes_to_make(&scratch);
    let whole = whole_build(&scratch, &template);
    let data = Pando::data(&scratch).canonicalize().unwrap();
    for _ in 0..test_support::rounds(INDEX_ROUNDS) {
        copy(&template, &data);
        let mut writer = Writer::new(WRITER, random.u64(..));
        let call = random.u64(1..=whole.calls);
        println!("killed at call {call}");
        let plan = PowerCut::new(&data, &scratch.join("journal")).kill_at(call);
        if let Ok(mut pando) = Start::new(&scratch).with(&plan).ready_or_ended() {
            let (sender, _receiver) = mpsc::channel();
            writer.write_until_the_end(pando.address(), &sender);
            assert_eq!(pando.exit().code(), None, "killed: {}", pando.log());
        }
        // The server is killed once more during the build, after some acknowledged changes.
        let pando = Pando::start(&scratch);
        writer.check(&mut pando.administrator());
        write_some(std::slice::from_mut(&mut writer), &pando, random.u64(1..20));
        pando.kill();
        let pando = Pando::start(&scratch);
        writer.check(&mut pando.administrator());
        wait_for_indexes(&pando);
        writer.check(&mut pando.administrator());
        assert!(pando.stop().success());
        check_indexes(&data);
    }
}

/// Number of bytes that opening existing data writes, for LMDB's reader table.
const OPENING_BYTES: i64 = 128 << 10;

/// Sends searches until the disk is full. Returns false if all indexes are complete before that.
fn build_until_full(pando: &Pando) -> bool {
    let mut admin = pando.administrator();
    let started = Instant::now();
    loop {
        let log = pando.log();
        if log.contains("index rows are not made for now") {
            return true;
        }
        if log.contains("all indexes are complete") {
            return false;
        }
        assert!(started.elapsed() < INDEX_DEADLINE, "{log}");
        // An incomplete index is not used, so answers are always the same.
        let found = admin.search(SUFFIX, Scope::WholeSubtree, "(cn=*ber*)", &["1.1"]).unwrap();
        let all = admin.search(SUFFIX, Scope::WholeSubtree, "(&(cn=*ber*)(!(cn=x)))", &["1.1"]).unwrap();
        assert_eq!(found.entries.len(), all.entries.len());
    }
}

#[test]
fn an_index_build_waits_for_disk_space() {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let scratch = Scratch::new("index-full");
    let template = with_indexes_to_make(&scratch);
    let whole = whole_build(&scratch, &template);
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let room = scratch.join("room");
    for _ in 0..test_support::rounds(INDEX_ROUNDS) {
        let mut bytes = random.i64(OPENING_BYTES..whole.grown_bytes / 4 * 3);
        let pando = loop {
            println!("room for {bytes} bytes");
            copy(&template, &data);
            std::fs::write(&room, bytes.to_string()).unwrap();
            let plan = PowerCut::new(&data, &scratch.join("journal")).room(&room);
            let pando = Start::new(&scratch).with(&plan).ready();
            if build_until_full(&pando) {
                break pando;
            }
            // Slices end after a certain time, so each build writes a different number of bytes. This build was
            // complete, so the next attempt has less space.
            pando.kill();
            bytes = OPENING_BYTES + (bytes - OPENING_BYTES) / 2;
        };
        if random.bool() {
            std::fs::write(&room, PLENTY).unwrap();
            wait_for_indexes(&pando);
            assert!(pando.stop().success());
        } else {
            pando.kill();
            let pando = Pando::start(&scratch);
            wait_for_indexes(&pando);
            assert!(pando.stop().success());
        }
        check_indexes(&data);
    }
}
