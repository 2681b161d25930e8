//! Tests that the driver measures the faults of the null responder: the whole length of delays and stalls, and the
//! number of wrong answers and closed connections.
//!
//! No test compares latencies that were measured at different times. A busy machine can only increase latencies, so the
//! latency of each request, and thus each percentile, is at least the responder's delay. The upper limit is that the
//! sum of one client's waits fits into its run. `cargo bench -p bench --bench driver_accuracy` prints the accuracy on a
//! quiet machine.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::driver::{self, Options, Targets};
use bench::responder::{Delay, Faults, Report, Responder, Stall};
use bench::result::{Latency, OperationKind, WorkloadResult};
use bench::workload::{Workload, shipped};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn search() -> Workload {
    shipped("oid-search-random").unwrap()
}

/// Runs the driver with a responder that has these faults. Returns the driver's result and the responder's report.
fn run(faults: Faults, options: Options) -> (WorkloadResult, Report) {
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let options = Options { canned: true, warm_up: Some(Duration::ZERO), ..options };
    let result = driver::run(&search(), &targets, &options).unwrap();
    (result, responder.finish().unwrap())
}

fn open_loop(rate: f64, duration: Duration) -> Options {
    Options {
        clients: Some(100),
        outstanding: Some(20),
        rate: Some(rate),
        duration: Some(duration),
        ..Options::default()
    }
}

/// Checks that each measured percentile is at least the same percentile of the given delays. Both histograms are of the
/// same requests.
fn check_at_least(measured: &Latency, given: &Latency, what: &str) {
    assert_eq!(measured.count(), given.count(), "{what}");
    for percentile in [0.1, 1.0, 10.0, 25.0, 50.0, 70.0, 75.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 100.0] {
        let (measured, given) = (measured.percentile_micros(percentile), given.percentile_micros(percentile));
        assert!(
            measured >= given,
            "{what}: p{percentile} is {measured:?} us, less than the given {given:?} us"
        );
    }
}

#[test]
fn measured_latencies_equal_the_injected_delays() {
    for delay in [
        Delay::Constant(millis(250)),
        Delay::Uniform(millis(150), millis(600)),
        Delay::Bimodal { fast: millis(100), slow: millis(700), slow_share: 0.05 },
        Delay::Exponential(millis(200)),
    ] {
        let faults = Faults { delay: delay.clone(), ..Faults::default() };
        let (result, report) = run(faults, open_loop(1000.0, millis(1000)));
        let totals = &result.operations[&OperationKind::Search];
        assert_eq!((totals.errors, totals.wrong_answers), (0, 0), "{delay}");
        // Every intended start in the measured time was sent and has a latency, or counts as unanswered. The last
        // requests were answered after the measured time, and are not part of any rate.
        assert_eq!(totals.latency.count() + result.unanswered, 1000, "{delay}");
        assert!(totals.operations < totals.latency.count(), "{delay}: {}", totals.operations);
        check_at_least(&totals.latency, &report.delays, &delay.to_string());
    }
}

#[test]
fn latencies_of_one_client_do_not_exceed_the_run_time() {
    let options =
        Options { clients: Some(1), outstanding: Some(1), duration: Some(millis(500)), ..Options::default() };
    let began = Instant::now();
    let (result, _) = run(Faults { delay: Delay::Constant(millis(10)), ..Faults::default() }, options);
    let elapsed_micros = began.elapsed().as_micros() as f64;
    let latency = &result.operations[&OperationKind::Search].latency;
    // The values of the histogram are exact to a thousandth.
    let count = latency.count() as f64;
    let waited_micros = latency.mean_micros().unwrap() * count;
    assert!(waited_micros * 1.001 >= 10_000.0 * count, "{count} waited {waited_micros} us");
    assert!(waited_micros <= elapsed_micros * 1.001, "waited {waited_micros} us in {elapsed_micros} us");
}

/// Test for coordinated omission: while the server stalls, requests continue to be due every millisecond. The latency
/// of each request includes the rest of the stall.
fn check_stall(clients: usize, outstanding: usize) {
    let (duration, count) = (millis(1500), 1500);
    let stall = Stall { length: millis(500), every: millis(300), times: Some(1) };
    let options =
        Options { clients: Some(clients), outstanding: Some(outstanding), ..open_loop(1000.0, duration) };
    let began = Instant::now();
    let (result, report) = run(Faults { stall: Some(stall), ..Faults::default() }, options);
    let totals = &result.operations[&OperationKind::Search];
    assert_eq!((totals.errors, totals.wrong_answers, report.stalls.len()), (0, 0, 1));
    // Unsent requests have waited longer than all others.
    let mut measured = totals.latency.clone();
    (0..result.unanswered).for_each(|_| measured.record(Duration::MAX));
    let mut given = Latency::new();
    for (from, to) in &report.stalls {
        // Requests are sent at least until `began + duration`.
        let last = (began + duration).min(*to).saturating_duration_since(*from);
        (1..=last.as_millis() as u32).for_each(|late| given.record(*to - *from - late * millis(1)));
    }
    (given.count()..count).for_each(|_| given.record_micros(1));
    check_at_least(&measured, &given, "a stall");
}

#[test]
fn an_open_loop_measures_stalls_in_full() {
    // There are as many slots as requests in a stall, so all these requests wait within the server.
    check_stall(100, 20);
}

#[test]
fn latency_includes_the_delay_of_requests_sent_late() {
    // There are few slots, so nearly all requests of a stall can only be sent after its end.
    check_stall(4, 1);
}

#[test]
fn wrong_answers_are_counted_one_by_one() {
    for every in [1, 7, 100] {
        let options =
            Options { clients: Some(5), threads: 2, duration: Some(millis(300)), ..Options::default() };
        let (result, report) = run(Faults { wrong_every: Some(every), ..Faults::default() }, options);
        let totals = &result.operations[&OperationKind::Search];
        assert!(!result.is_clean() && totals.errors == 0);
        // Answers that arrive after the end are not counted. There is at most one such answer for each client.
        assert!(report.wrong >= totals.wrong_answers && report.wrong - totals.wrong_answers <= 5, "{every}");
        assert!(totals.wrong_answers + 5 >= (totals.operations + totals.wrong_answers) / every, "{every}");
        assert_eq!(totals.examples, ["not the entry asked for"]);
        let errors: u64 = result.seconds.iter().map(|second| second.errors).sum();
        assert_eq!(errors, totals.wrong_answers);
    }
}

#[test]
fn closed_connections_count_as_failures_and_are_reopened() {
    let options = Options { clients: Some(5), threads: 2, duration: Some(millis(500)), ..Options::default() };
    let (result, report) = run(Faults { close_every: Some(10), ..Faults::default() }, options);
    let (closed, noticed) = (report.closed, result.connections_closed);
    assert!(!result.is_clean() && noticed >= 2, "{closed} {noticed}");
    // Connections that were closed after the end affected no request.
    assert!(closed >= noticed && closed - noticed <= 5, "{closed} {noticed}");
    assert_eq!(result.unanswered, result.connections_closed);
    assert_eq!(result.failures, ["the server closed a connection"]);
    // The driver has opened new connections, because more requests were answered than five connections can send before
    // all of them are closed.
    assert!(result.operations[&OperationKind::Search].operations > 45);
}

#[test]
fn a_server_that_does_not_keep_up_is_reported() {
    // One connection with 100 ms for each answer allows ten answers per second.
    let options = Options { clients: Some(1), outstanding: Some(1), ..open_loop(1000.0, millis(500)) };
    let (result, _) = run(Faults { delay: Delay::Constant(millis(100)), ..Faults::default() }, options);
    assert!(result.unanswered > 300 && !result.is_clean(), "{}", result.unanswered);
    assert!(result.failures[0].contains("could not be sent"), "{:?}", result.failures);
}
