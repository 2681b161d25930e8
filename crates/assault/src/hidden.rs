//! Sends the same requests to two servers whose data differs only in values and entries that the requesters may not
//! see. All answers must be equal. `crates/pando/tests/access/hidden.rs` sends the same requests.

use std::time::Duration;

use crate::plan::Plan;
use crate::report::{Finding, Report};
use test_support::hidden_data;

/// Minimum number of requests in a quick run and, in the next constant, in a full run.
const QUICK: usize = 5_000;
const FULL: usize = 100_000;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    report.attack("hidden/requests", || requests(plan));
}

fn requests(plan: &Plan) -> Finding {
    let time = if plan.is_quick() { Duration::ZERO } else { plan.share(10) };
    let seed = plan.random("hidden").u64(..);
    let done = hidden_data::run(seed, plan.count(QUICK, FULL), time);
    if let Some(difference) = &done.difference {
        eprintln!("PANDO_TEST_SEED={seed}\n{difference}");
    }
    Finding::of("requests of every kind to two servers, of which each hides its own")
        .noted(done.summary())
        .bounded(
            done.difference.is_none(),
            format!("{} answers that differ", u8::from(done.difference.is_some())),
            "none",
        )
}
