//! How fast the driver is against the null responder, both on the cores they are given by taskset.

use bench::driver::{self, Options, Targets};
use bench::responder::{Faults, Responder};
use bench::workload::shipped;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = shipped("oid-search-sequential").ok_or("no such workload")?;
    for outstanding in [1, 16] {
        let responder = Responder::start(([127, 0, 0, 1], 0).into(), Faults::default())?;
        let targets = Targets::resolve(&[format!("ldap://{}", responder.address())])?;
        let options = Options {
            clients: Some(64),
            outstanding: Some(outstanding),
            warm_up: Some(Duration::from_secs(1)),
            duration: Some(Duration::from_secs(4)),
            canned: true,
            ..Options::default()
        };
        let result = driver::run(&workload, &targets, &options)?;
        let load: u64 = result.seconds.iter().filter_map(|second| second.load_cpu_micros).sum();
        println!(
            "{outstanding}: {:.0}/s, driver {:.3} us/op {:?}",
            result.per_second,
            load as f64 / result.operations_total() as f64,
            result.notes
        );
    }
    Ok(())
}
