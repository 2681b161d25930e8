//! Tests of the load driver with the null responder as the server.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::driver::{self, Options, Targets};
use bench::responder::{Faults, Responder};
use bench::result::OperationKind;
use bench::workload::{Workload, shipped};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

fn responder(faults: Faults) -> (Responder, Targets) {
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    (responder, targets)
}

fn options() -> Options {
    Options {
        clients: Some(8),
        threads: 2,
        warm_up: Some(Duration::ZERO),
        duration: Some(Duration::from_millis(300)),
        canned: true,
        ..Options::default()
    }
}

fn search() -> Workload {
    shipped("oid-search-sequential").unwrap()
}

#[test]
fn seconds_keep_their_histograms_on_request() {
    for keeps in [false, true] {
        let (_responder, targets) = responder(Faults::default());
        let options = Options { keep_histograms: keeps, ..options() };
        let result = driver::run(&search(), &targets, &options).unwrap();
        let counted: u64 =
            result.seconds.iter().filter_map(|second| Some(second.latency.as_ref()?.count())).sum();
        assert_eq!(counted, if keeps { result.operations_total() } else { 0 });
    }
}

#[test]
fn consuming_workloads_have_no_warm_up() {
    let (_responder, targets) = responder(Faults::default());
    let hour = Some(Duration::from_secs(3_600));
    // The responder runs in this process.
    let server_processes = vec![std::process::id()];
    let options = Options { clients: None, warm_up: hour, duration: hour, server_processes, ..options() };
    let mut deletes = shipped("salford-d1a").unwrap();
    deletes.own_entries = 10_000;
    let result = driver::run(&deletes, &targets, &options).unwrap();
    assert!(result.is_clean(), "{result:?}");
    assert_eq!((result.parameters.warm_up_seconds, result.operations_total()), (0.0, 10_000));
    assert!(result.cost.as_ref().is_some_and(|cost| cost.cpu_micros > 0), "the last second of it, too");
    assert!(result.notes.iter().any(|note| note.contains("used up")), "{:?}", result.notes);
}

#[test]
fn every_answer_is_counted() {
    let (responder, targets) = responder(Faults::default());
    let result = driver::run(&search(), &targets, &options()).unwrap();
    let report = responder.finish().unwrap();
    let totals = &result.operations[&OperationKind::Search];
    println!("{} operations, {:.0}/s", totals.operations, result.per_second);
    assert!(result.is_clean(), "{result:?}");
    assert!(totals.operations > 0 && totals.entries == totals.operations);
    assert_eq!(totals.latency.count(), totals.operations);
    assert_eq!(result.seconds.iter().map(|second| second.operations_total()).sum::<u64>(), totals.operations);
    // Answers that arrive after the end do not count. There is at most one such answer for each client.
    assert!(
        (0..=8).contains(&(report.answered - totals.operations)),
        "{} {}",
        report.answered,
        totals.operations
    );
}

/// A published document states the shares of its mix in requests. A request that restores an entry, such as the second
/// rename, counts as one of these requests.
#[test]
fn operations_of_a_mix_occur_by_their_weights() {
    let mut mixes = 0;
    for name in bench::workload::shipped_names() {
        let workload = shipped(name).unwrap();
        let [job] = workload.jobs.as_slice() else { continue };
        if job.operations.len() < 2 {
            continue;
        }
        mixes += 1;
        let (_responder, targets) = responder(Faults::default());
        let options = Options { clients: None, entries: Some(1000), ..options() };
        let result = driver::run(&workload, &targets, &options).unwrap();
        assert!(result.is_clean(), "{name}: {result:?}");
        let total: u32 = job.operations.iter().map(|operation| operation.weight).sum();
        let mut wanted = std::collections::BTreeMap::<OperationKind, f64>::new();
        for operation in &job.operations {
            *wanted.entry(operation.kind()).or_default() += f64::from(operation.weight) / f64::from(total);
        }
        let count = result.operations_total() as f64;
        for (kind, share) in wanted {
            let measured = result.operations.get(&kind).map_or(0, |totals| totals.operations) as f64 / count;
            // Draws are random, so the share may deviate by five standard deviations, and also by the number of
            // requests that are outstanding at the end.
            let allowed = 5.0 * (share * (1.0 - share) / count).sqrt() + 20.0 / count;
            assert!(
                (measured - share).abs() <= allowed,
                "{name}, {kind}: {measured:.4} instead of {share:.4}"
            );
        }
    }
    assert!(mixes >= 3, "{mixes}");
}
