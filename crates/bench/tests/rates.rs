//! Tests that the reported rate of an open loop is the rate of answers in the measured time, and never the requested
//! rate.
//!
//! The null responder delays every answer by 100 ms, and each connection has one outstanding request. So 200
//! connections behave like a server with 2,000 operations a second, however fast the machine is.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::driver::{self, Options, Targets};
use bench::responder::{Delay, Faults, Responder};
use bench::result::{Load, WorkloadResult};
use bench::workload::shipped;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(100);
const CONNECTIONS: usize = 200;
/// Maximum rate of the responder: number of connections divided by the time for an answer.
const SPEED: f64 = 2_000.0;

fn run_at(times_speed: f64) -> WorkloadResult {
    let faults = Faults { delay: Delay::Constant(HOLD), ..Faults::default() };
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let options = Options {
        clients: Some(CONNECTIONS),
        outstanding: Some(1),
        rate: Some(SPEED * times_speed),
        warm_up: Some(Duration::from_millis(200)),
        pause: Some(Duration::ZERO),
        duration: Some(Duration::from_millis(1500)),
        canned: true,
        server_processes: vec![std::process::id()],
        ..Options::default()
    };
    driver::run(&shipped("oid-search-random").unwrap(), &targets, &options).unwrap()
}

/// Checks that all derived figures refer to the same answers. This holds at any rate.
fn check_figures(result: &WorkloadResult, times_speed: f64) {
    let operations = result.operations_total();
    assert_eq!(result.parameters.load, Load::Open { per_second: SPEED * times_speed });
    assert_eq!(result.measured_seconds, 1.5);
    assert_eq!(result.per_second, operations as f64 / 1.5);
    let in_rows: u64 = result.seconds.iter().map(|second| second.operations_total()).sum();
    assert_eq!(in_rows, operations, "the rows of the run add up to its figure");
    assert!(result.seconds.len() <= 2, "no row is of the time after measuring: {}", result.seconds.len());
    let cost = result.cost.as_ref().unwrap();
    assert_eq!(cost.cpu_micros_per_operation, cost.cpu_micros as f64 / operations as f64);
    // A server cannot answer faster than its delay permits. Only the upper limit is checked, because the machine may be
    // slow.
    assert!(result.per_second <= SPEED * 1.02, "{}/s", result.per_second);
    assert!(result.drain_seconds.is_some_and(|seconds| seconds < 10.0), "{:?}", result.drain_seconds);
}

#[test]
fn a_rate_below_capacity_is_achieved() {
    for times_speed in [0.5, 0.95] {
        // A busy machine may stop this process for so long that it cannot catch up at this rate. The result then
        // reports that the rate was missed. So one good attempt is enough, because a defect would appear in every
        // attempt.
        let is_kept = |_| {
            let result = run_at(times_speed);
            check_figures(&result, times_speed);
            eprintln!("{times_speed}: {}/s, {:?}", result.per_second, result.failures);
            result.is_clean() && (result.per_second / (SPEED * times_speed) - 1.0).abs() < 0.02
        };
        assert!((0..5).any(is_kept), "{times_speed} times the speed");
    }
}

#[test]
fn a_rate_above_capacity_is_reported_first_as_a_failure() {
    for times_speed in [1.05, 3.0, 10.0] {
        let result = run_at(times_speed);
        check_figures(&result, times_speed);
        assert!(!result.is_clean());
        assert!(
            result.failures[0].starts_with("the server did not keep up with the rate"),
            "{:?}",
            result.failures
        );
        let due = (SPEED * times_speed * 1.5) as u64;
        assert!(result.failures[0].contains(&format!("of {due} requests")), "{:?}", result.failures);
        assert!(result.unanswered > 0);
    }
}

#[test]
fn unanswered_requests_do_not_count_in_the_rate() {
    // There are enough connections for all requests that are due. All are sent, and wait in the server.
    let faults = Faults { delay: Delay::Constant(Duration::from_secs(2)), ..Faults::default() };
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let options = Options {
        clients: Some(50),
        outstanding: Some(20),
        rate: Some(500.0),
        warm_up: Some(Duration::ZERO),
        duration: Some(Duration::from_secs(1)),
        canned: true,
        ..Options::default()
    };
    let result = driver::run(&shipped("oid-search-random").unwrap(), &targets, &options).unwrap();
    assert_eq!((result.per_second, result.operations_total()), (0.0, 0));
    assert_eq!(result.operations.values().map(|totals| totals.latency.count()).sum::<u64>(), 500);
    assert!(
        result.failures[0].contains("0 could not be sent, and 500 were sent and not answered"),
        "{result:?}"
    );
    assert!(result.drain_seconds.unwrap() > 0.5, "{:?}", result.drain_seconds);
}

#[test]
fn wrong_answers_do_not_count_in_the_rate() {
    // No entry has this name, so the answer does not contain the expected entry.
    let faults = Faults { wrong_every: Some(1), ..Faults::default() };
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let options = Options {
        clients: Some(4),
        warm_up: Some(Duration::ZERO),
        duration: Some(Duration::from_millis(200)),
        canned: true,
        ..Options::default()
    };
    let result = driver::run(&shipped("oid-search-random").unwrap(), &targets, &options).unwrap();
    assert_eq!((result.per_second, result.operations_total()), (0.0, 0));
    assert!(result.wrong_answers_total() > 0 && !result.is_clean());
}
