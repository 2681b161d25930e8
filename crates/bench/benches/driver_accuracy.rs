//! Accuracy of the driver's latencies compared with the null responder's actual delays.
//!
//! `cargo bench -p bench --bench driver_accuracy`, on a quiet machine, because any disturbance of a thread adds to the
//! measured latency. A histogram with three digits is exact to 0.1%. The remaining difference is the time of two passes
//! through the kernel. If the differences are large when the responder stalls, the driver does not measure latencies
//! from the intended start.

#![allow(clippy::unwrap_used, reason = "a bench that fails has no figures")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bench::driver::{self, Options, Targets};
use bench::responder::{Delay, Faults, Report, Responder, Stall};
use bench::result::{Latency, OperationKind};
use bench::workload::shipped;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECONDS: u32 = 6;

fn main() {
    for delay in [
        Delay::Constant(250 * MILLISECOND),
        Delay::Uniform(150 * MILLISECOND, 600 * MILLISECOND),
        Delay::Bimodal { fast: 100 * MILLISECOND, slow: 700 * MILLISECOND, slow_share: 0.05 },
        Delay::Exponential(200 * MILLISECOND),
    ] {
        let (measured, report) = run(Faults { delay: delay.clone(), ..Faults::default() });
        print(&delay.to_string(), &measured, &report.delays);
    }
    let stall = Stall { length: 1000 * MILLISECOND, every: 1500 * MILLISECOND, times: Some(2) };
    let (measured, report) = run(Faults { stall: Some(stall), ..Faults::default() });
    let mut given = Latency::new();
    for (from, to) in &report.stalls {
        let length = to.duration_since(*from);
        (0..length.as_millis() as u32).for_each(|late| given.record(length - late * MILLISECOND));
    }
    (given.count()..measured.count()).for_each(|_| given.record_micros(1));
    print(&format!("stall {stall}"), &measured, &given);
}

/// Sends a thousand requests a second, with enough slots for all requests that may be outstanding at a time.
fn run(faults: Faults) -> (Latency, Report) {
    let responder = Responder::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), faults).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", responder.address())]).unwrap();
    let options = Options {
        clients: Some(100),
        outstanding: Some(20),
        rate: Some(1000.0),
        duration: Some(SECONDS * 1000 * MILLISECOND),
        warm_up: Some(Duration::ZERO),
        canned: true,
        ..Options::default()
    };
    let result = driver::run(&shipped("oid-search-random").unwrap(), &targets, &options).unwrap();
    (result.operations[&OperationKind::Search].latency.clone(), responder.finish().unwrap())
}

fn print(what: &str, measured: &Latency, given: &Latency) {
    println!("{what}\n  percentile  given us  measured us  more");
    for percentile in [50.0, 75.0, 90.0, 95.0, 99.0, 99.9] {
        let of = |latency: &Latency| latency.percentile_micros(percentile).unwrap();
        let (given, measured) = (of(given), of(measured));
        let more = (measured as f64 / given as f64 - 1.0) * 100.0;
        println!("  {percentile:>10}  {given:>8}  {measured:>11}  {more:.2}%");
    }
}
