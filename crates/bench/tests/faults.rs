//! What the null responder does wrong comes out of the driver: delays and stalls to the hair, wrong answers and
//! hang-ups by number.
//!
//! No figure here is compared with one of another moment. The responder reports how long it really held each answer,
//! and stood still; the driver must say the same, within 2%: a histogram of three digits is exact to 0.1%, the rest is
//! two passes through the kernel on delays of a hundred milliseconds and more. What a busy machine does to either of
//! them in between can only add to a latency, never take from it. So no run may be below, and of several runs the least
//! disturbed may not be above; [`Hiccups`] notes by how much a thread that only wants to sleep is woken late meanwhile,
//! and that much is allowed on top.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::driver::{self, Options, Targets};
use bench::responder::{Delay, Faults, Report, Responder, Stall};
use bench::result::{Latency, OperationKind, WorkloadResult};
use bench::workload::{Workload, shipped};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn search() -> Workload {
    shipped("oid-search-random").unwrap()
}

/// By how much the machine holds threads up: the longest that one was woken late.
struct Hiccups {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Hiccups {
    fn watch() -> Hiccups {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(millis(1));
                longest = longest.max(began.elapsed().saturating_sub(millis(1)));
            }
            longest
        });
        Hiccups { stop, thread }
    }

    fn longest(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Runs against a responder with these faults: what the driver says, what the responder did, and the machine's longest
/// hiccup.
fn run(faults: Faults, options: Options) -> (WorkloadResult, Report, Duration) {
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let hiccups = Hiccups::watch();
    let options = Options { canned: true, warm_up: Some(Duration::ZERO), ..options };
    let result = driver::run(&search(), &targets, &options).unwrap();
    let longest = hiccups.longest();
    (result, responder.finish().unwrap(), longest)
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

/// Runs that are tried until one is not disturbed by the machine.
const RUNS_MAX: u32 = 6;

/// Whether the driver's latencies at these percentiles are the ones that were really given, within 2% and the machine's
/// hiccups; if not, which one.
///
/// # Panics
/// When one is below what was given, for which no machine can be blamed.
fn compare(measured: &Latency, given: &Latency, percentiles: &[f64], hiccup: Duration) -> Result<(), String> {
    for percentile in percentiles.iter().copied() {
        let (measured, given) =
            (measured.percentile_micros(percentile).unwrap(), given.percentile_micros(percentile).unwrap());
        assert!(measured + given / 50 >= given, "p{percentile} is {measured} us, {given} us were given");
        // Request and answer may each be held up once, at either end.
        let allowed = given / 50 + 2 * hiccup.as_micros() as u64;
        if measured > given + allowed {
            return Err(format!(
                "p{percentile} is {measured} us, {given} us were given, {allowed} us more are allowed"
            ));
        }
    }
    Ok(())
}

/// Tries until a run is right.
fn until_undisturbed(what: &str, attempt: impl Fn() -> Result<(), String>) {
    let disturbed: Vec<String> = (0..RUNS_MAX).map_while(|_| attempt().err()).collect();
    assert!(disturbed.len() < RUNS_MAX as usize, "{what}: {disturbed:#?}");
}

#[test]
fn injected_delays_come_out_as_they_were() {
    let bimodal = Delay::Bimodal { fast: millis(100), slow: millis(700), slow_share: 0.05 };
    for delay in [
        Delay::Constant(millis(250)),
        Delay::Uniform(millis(150), millis(600)),
        bimodal,
        Delay::Exponential(millis(200)),
    ] {
        until_undisturbed(&delay.to_string(), || {
            let faults = Faults { delay: delay.clone(), ..Faults::default() };
            let (result, report, hiccup) = run(faults, open_loop(1500.0, millis(2500)));
            assert!(result.is_clean(), "{delay}: {:?} {:?}", result.failures, result.operations);
            let totals = &result.operations[&OperationKind::Search];
            // Every intended start of the time was sent and has its latency; the last ones were answered after it, and
            // are in no rate.
            assert_eq!((totals.latency.count(), report.delays.count()), (3750, 3750), "{delay}");
            assert!((1..3750).contains(&totals.operations), "{delay}: {}", totals.operations);
            let percentiles = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9];
            compare(&totals.latency, &report.delays, &percentiles, hiccup)
        });
    }
}

/// The test of coordinated omission: while the server stands still for a second, requests come every millisecond all
/// the same, and each waits for the rest of that second.
fn check_stalls(clients: usize, outstanding: usize, percentiles: &[f64]) {
    let stall = Stall { length: millis(1000), every: millis(1500), times: Some(2) };
    until_undisturbed("stalls", || {
        let options = Options {
            clients: Some(clients),
            outstanding: Some(outstanding),
            ..open_loop(1000.0, Duration::from_secs(6))
        };
        let (result, report, hiccup) = run(Faults { stall: Some(stall), ..Faults::default() }, options);
        let totals = &result.operations[&OperationKind::Search];
        assert!(result.is_clean(), "{:?}", result.failures);
        assert_eq!((totals.latency.count(), report.stalls.len()), (6000, 2));
        let mut given = Latency::new();
        for (from, to) in &report.stalls {
            let length = to.duration_since(*from);
            (0..length.as_millis() as u32).for_each(|late| given.record(length - late * millis(1)));
        }
        (given.count()..6000).for_each(|_| given.record_micros(1));
        compare(&totals.latency, &given, percentiles, hiccup)
    });
}

#[test]
fn stalls_come_out_of_an_open_loop_in_full() {
    // As many slots as there are requests in a stall: all wait within the server.
    check_stalls(100, 20, &[70.0, 75.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9]);
}

#[test]
fn requests_that_are_late_to_start_have_waited() {
    // Few slots: nearly all requests of a stall could not even be sent. Those at its end wait for the others too, so
    // only the long waits are known.
    check_stalls(4, 1, &[97.0, 99.0, 99.5, 99.9]);
}

#[test]
fn wrong_answers_are_counted_one_by_one() {
    for every in [1, 7, 100] {
        let options =
            Options { clients: Some(5), threads: 2, duration: Some(millis(300)), ..Options::default() };
        let (result, report, _) = run(Faults { wrong_every: Some(every), ..Faults::default() }, options);
        let totals = &result.operations[&OperationKind::Search];
        assert!(!result.is_clean() && totals.errors == 0);
        // Answers after the end are not counted: at most one for each client.
        assert!(report.wrong >= totals.wrong_answers && report.wrong - totals.wrong_answers <= 5, "{every}");
        assert!(totals.wrong_answers >= (totals.operations + totals.wrong_answers) / every - 5, "{every}");
        assert_eq!(totals.examples, ["not the entry asked for"]);
        let errors: u64 = result.seconds.iter().map(|second| second.errors).sum();
        assert_eq!(errors, totals.wrong_answers);
    }
}

#[test]
fn closed_connections_are_failures_and_are_made_anew() {
    let options = Options { clients: Some(5), threads: 2, duration: Some(millis(500)), ..Options::default() };
    let (result, report, _) = run(Faults { close_every: Some(50), ..Faults::default() }, options);
    assert!(!result.is_clean());
    assert!(
        report.closed >= 2 && result.connections_closed >= 2,
        "{} {}",
        report.closed,
        result.connections_closed
    );
    // Those that were closed after the end did not disturb anybody.
    assert!(
        report.closed - result.connections_closed <= 5,
        "{} {}",
        report.closed,
        result.connections_closed
    );
    assert_eq!(result.unanswered, result.connections_closed);
    assert_eq!(result.failures, ["the server closed a connection"]);
    // They came back: more was answered than the first connections could have asked.
    assert!(result.operations[&OperationKind::Search].operations > 100);
}

#[test]
fn a_server_that_does_not_keep_up_is_told() {
    // One connection and 100 ms an answer are ten a second.
    let options = Options { clients: Some(1), outstanding: Some(1), ..open_loop(1000.0, millis(500)) };
    let (result, _, _) = run(Faults { delay: Delay::Constant(millis(100)), ..Faults::default() }, options);
    assert!(result.unanswered > 300 && !result.is_clean(), "{}", result.unanswered);
    assert!(result.failures[0].contains("could not be sent"), "{:?}", result.failures);
}
