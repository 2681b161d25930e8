//! Search for the maximum rate of a server: the load is raised until the rate no longer grows.
//!
//! The number of clients starts at [`CLIENTS_FIRST`] and is doubled for each step. Each step is measured for a short
//! time. A step is a gain if its rate exceeds the best rate so far by at least [`GAIN_MIN`]. The search ends at the
//! second consecutive step without a gain. It ends at the first such step if the p99 latency has at least doubled,
//! because more clients would only wait for each other. The load of the last gain is the knee, which is measured for
//! the whole duration.

use std::time::Duration;

use super::{DriveError, Options, Progress, Targets, run_watched};
use crate::result::WorkloadResult;
use crate::workload::Workload;

/// Clients of the first step.
const CLIENTS_FIRST: usize = 1;
/// Maximum number of clients, limited by the open files of one process.
const CLIENTS_MAX: usize = 16_384;
/// Minimum growth of the rate that counts as a gain.
const GAIN_MIN: f64 = 0.03;
/// Duration of a step.
const STEP: Duration = Duration::from_secs(4);
const STEP_WARM_UP: Duration = Duration::from_secs(1);

/// Figures of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    clients: usize,
    per_second: f64,
    p99_micros: u64,
}

/// Raises the load to the knee, and measures there. The notes of the result list the steps. If the server does not
/// support the workload, returns the result that says so.
///
/// # Errors
/// The same as for [`run_watched`].
pub fn find_max(
    workload: &Workload,
    targets: &Targets,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Result<WorkloadResult, DriveError> {
    let mut search = Search::default();
    let mut clients = CLIENTS_FIRST;
    let mut notes = Vec::new();
    while search.goes_on() && clients <= CLIENTS_MAX {
        let step_options = Options {
            clients: Some(clients),
            duration: Some(STEP),
            warm_up: Some(STEP_WARM_UP),
            pause: Some(Duration::ZERO),
            check_data: options.check_data && clients == CLIENTS_FIRST,
            rate: None,
            ..options.clone()
        };
        let result = run_watched(workload, targets, &step_options, watch)?;
        if result.unsupported.is_some() {
            return Ok(result);
        }
        let p99_micros = result.latency().percentile_micros(99.0).unwrap_or_default();
        let step = Step { clients, per_second: result.per_second, p99_micros };
        notes.push(format!("{clients} clients: {:.0}/s, p99 {p99_micros} us", step.per_second));
        search.take(step);
        clients *= 2;
    }
    let knee = search.best.map_or(CLIENTS_FIRST, |step| step.clients);
    let options = Options { clients: Some(knee), check_data: false, rate: None, ..options.clone() };
    let mut result = run_watched(workload, targets, &options, watch)?;
    result.notes.push(format!("load was raised to the knee, {knee} clients; steps: {}", notes.join("; ")));
    Ok(result)
}

/// State of the search by the rule of this module.
#[derive(Debug, Default)]
struct Search {
    best: Option<Step>,
    in_vain: u32,
    has_doubled: bool,
}

impl Search {
    fn goes_on(&self) -> bool {
        self.in_vain < 2 && !self.has_doubled
    }

    fn take(&mut self, step: Step) {
        match self.best {
            Some(best) if step.per_second < best.per_second * (1.0 + GAIN_MIN) => {
                self.in_vain += 1;
                self.has_doubled = step.p99_micros >= 2 * best.p99_micros;
            }
            _ => {
                self.best = Some(step);
                self.in_vain = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee(steps: &[(f64, u64)]) -> (usize, usize) {
        let mut search = Search::default();
        let mut step_count = 0;
        for (index, (per_second, p99_micros)) in steps.iter().enumerate() {
            if !search.goes_on() {
                break;
            }
            step_count += 1;
            search.take(Step { clients: 1 << index, per_second: *per_second, p99_micros: *p99_micros });
        }
        (search.best.unwrap().clients, step_count)
    }

    #[test]
    fn the_knee_is_the_last_load_that_raises_the_rate() {
        // The rate grows at first, then only the latency grows.
        assert_eq!(knee(&[(100.0, 10), (190.0, 11), (300.0, 14), (303.0, 28), (304.0, 56)]), (4, 4));
        // The second step brings no gain, but its latency is not much higher. So the search tries another step, which
        // is a gain.
        assert_eq!(
            knee(&[(100.0, 10), (101.0, 11), (150.0, 12), (151.0, 13), (152.0, 14), (900.0, 1)]),
            (4, 5)
        );
        // The rate falls from the beginning.
        assert_eq!(knee(&[(100.0, 10), (90.0, 30)]), (1, 2));
    }
}
