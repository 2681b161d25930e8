//! Repeated kills under load. Every acknowledged change is kept, none is applied in part, and `pando verify` passes.

use ldap::ChangeOperation;
use powercut::{FailKind, PowerCut};
use std::sync::mpsc;
use test_support::pando::{self, Pando, Start};
use test_support::writers::{Writer, plant_suffix};
use test_support::{SUFFIX, Scratch};

const WRITERS: u64 = 12;
const ROUNDS: u64 = 12;
/// Maximum number of acknowledgements in a round before the kill.
const ACKNOWLEDGEMENTS_MAX: u64 = 400;
/// Maximum number of writes and syncs before the power is cut.
const CALLS_MAX: u64 = 600;
/// Number of the sync that fails, counted from the start.
const SYNC_FAILING: u64 = 20;
/// Error number of an input/output error.
const EIO: i32 = 5;

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new("crash");
    let mut writers;
    {
        let pando = Pando::start(&scratch);
        writers = Writer::planted(WRITERS, &mut random, &mut pando.administrator());
        // The server is first killed directly after these entries are added.
        pando.kill();
    }
    for round in 0..ROUNDS {
        let pando = Start::new(&scratch).ready();
        check_all(&mut writers, &pando);
        let acknowledgements = random.u64(1..ACKNOWLEDGEMENTS_MAX);
        println!("round {round}: killed after {acknowledgements} changes");
        write_and_kill(&mut writers, pando, acknowledgements);
    }
    let pando = Start::new(&scratch).ready();
    check_all(&mut writers, &pando);
    assert!(pando.stop().success());
    pando::command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
}

/// Lets the writers write, and kills the server after this number of acknowledged changes.
fn write_and_kill(writers: &mut [Writer], pando: Pando, acknowledgements: u64) {
    let address = pando.address();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for writer in writers {
            let sender = sender.clone();
            scope.spawn(move || writer.write_until_the_end(address, &sender));
        }
        drop(sender);
        for _ in 0..acknowledgements {
            receiver.recv_timeout(test_support::DEADLINE).expect("changes go on being acknowledged");
        }
        pando.kill();
    });
}

fn check_all(writers: &mut [Writer], pando: &Pando) {
    let mut admin = pando.administrator();
    writers.iter_mut().for_each(|writer| writer.check(&mut admin));
}

/// Simulates a power failure of the machine: any part of the unsynced writes is lost.
#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new("powercut");
    let mut writers;
    {
        let pando = Start::new(&scratch).ready();
        writers = Writer::planted(WRITERS, &mut random, &mut pando.administrator());
        assert!(pando.stop().success());
    }
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let journal = scratch.join("journal");
    for round in 0..ROUNDS {
        let call = random.u64(1..CALLS_MAX);
        let power_cut = PowerCut::new(&data, &journal).cut_at(call);
        match Start::new(&scratch).with(&power_cut).ready_or_ended() {
            Ok(pando) => write_until_the_cut(&mut writers, pando),
            Err((status, said)) => assert_eq!(status.code(), Some(powercut::EXIT_STATUS), "{said}"),
        }
        let discarded = powercut::discard_unsynced(&journal, random.u64(..)).unwrap();
        println!("round {round}: cut at call {call}, {discarded:?}");
        let pando = Start::new(&scratch).ready();
        check_all(&mut writers, &pando);
        assert!(pando.stop().success());
        pando::command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    }
}

/// Lets the writers write until the server loses its power.
fn write_until_the_cut(writers: &mut [Writer], mut pando: Pando) {
    let address = pando.address();
    let (sender, _receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for writer in writers {
            let sender = sender.clone();
            scope.spawn(move || writer.write_until_the_end(address, &sender));
        }
    });
    assert_eq!(pando.exit().code(), Some(powercut::EXIT_STATUS));
}

/// After a failed sync, the content of the disk is unknown. The change is not acknowledged, and no other change is
/// accepted until a restart. Reads are still answered.
#[test]
fn a_failed_sync_stops_writes_and_not_reads() {
    let scratch = Scratch::new("failed-sync");
    {
        let pando = Start::new(&scratch).ready();
        plant_suffix(&mut pando.administrator());
        assert!(pando.stop().success());
    }
    let data = Pando::data(&scratch).canonicalize().unwrap();
    // The failure comes after the start of the server, and after a few changes.
    let failure = PowerCut::new(&data, &scratch.join("journal")).fail_at(FailKind::Sync, SYNC_FAILING, EIO);
    let pando = Start::new(&scratch).with(&failure).ready();
    let mut admin = pando.administrator();
    let mut acknowledged = Vec::new();
    let refused = loop {
        let number = acknowledged.len().to_string();
        let outcome = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[&number])]).unwrap();
        if !outcome.is_success() {
            break outcome;
        }
        acknowledged.push(number);
        assert!(acknowledged.len() < 2 * SYNC_FAILING as usize, "the sync has not failed");
    };
    assert!(!acknowledged.is_empty());
    println!("the failed change: {refused:?}");
    let again = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &["again"])]).unwrap();
    assert!(!again.is_success(), "writes have stopped: {again:?}");
    let read = admin.entry(SUFFIX, &["description"]).unwrap().expect("reads are still answered");
    assert_eq!(read.text("description").as_ref(), acknowledged.last());
    pando.kill();

    let pando = Start::new(&scratch).ready();
    let mut admin = pando.administrator();
    let found = admin.entry(SUFFIX, &["description"]).unwrap().unwrap().text("description").unwrap();
    let in_doubt = acknowledged.len().to_string();
    assert!(Some(&found) == acknowledged.last() || found == in_doubt, "{found} after {acknowledged:?}");
    let outcome = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &["again"])]).unwrap();
    assert!(outcome.is_success(), "and after a restart they go on: {outcome:?}");
}
