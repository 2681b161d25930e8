//! Figures that compare servers: medians over the rounds of a workload, and ratios between two servers.

use crate::result::{Ratio, WorkloadResult};

/// Medians of one server in one workload. Figures that were not measured are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Medians {
    /// The workload's name.
    pub workload: String,
    /// The server's product.
    pub server: String,
    /// Number of measured rounds.
    pub rounds: usize,
    /// Operations a second.
    pub per_second: Option<f64>,
    /// CPU time of the server per operation.
    pub cpu_micros: Option<f64>,
    /// The latency that half of the operations did not exceed.
    pub p50_micros: Option<f64>,
    /// The latency that 99% of the operations did not exceed.
    pub p99_micros: Option<f64>,
    /// Wrong answers and unexpected result codes in all rounds.
    pub errors: u64,
    /// Reason why the workload was not measured.
    pub unsupported: Option<String>,
}

/// Returns the medians of every server in every workload. Workloads, and servers within a workload, are in the order of
/// their first appearance in the whole run, because each round begins with a different server.
pub fn medians(all: &[WorkloadResult]) -> Vec<Medians> {
    let servers = in_order(all.iter().map(|result| result.server.product.as_str()));
    let workloads = in_order(all.iter().map(|result| result.workload.as_str()));
    let pairs = workloads.iter().flat_map(|workload| servers.iter().map(move |server| (*workload, *server)));
    let were_run = |(workload, server): &(&str, &str)| {
        all.iter().any(|result| result.workload == *workload && result.server.product == *server)
    };
    pairs.filter(were_run).map(|(workload, server)| medians_of(workload, server, all)).collect()
}

fn in_order<'t>(names: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut found = Vec::new();
    names.for_each(|name| {
        if !found.contains(&name) {
            found.push(name);
        }
    });
    found
}

fn medians_of(workload: &str, server: &str, all: &[WorkloadResult]) -> Medians {
    let rounds: Vec<_> =
        all.iter().filter(|result| result.workload == workload && result.server.product == server).collect();
    let measured: Vec<_> =
        rounds.iter().filter(|result| result.complete && result.unsupported.is_none()).collect();
    let of = |value: &dyn Fn(&WorkloadResult) -> Option<f64>| {
        median(measured.iter().filter_map(|result| value(result)).collect())
    };
    let percentile =
        |percent: f64| of(&|result| result.latency().percentile_micros(percent).map(|micros| micros as f64));
    let not_measured =
        |result: &&WorkloadResult| result.unsupported.clone().or_else(|| result.failures.first().cloned());
    Medians {
        workload: workload.to_owned(),
        server: server.to_owned(),
        rounds: measured.len(),
        per_second: of(&|result| Some(result.per_second)),
        cpu_micros: of(&|result| result.cost.as_ref().map(|cost| cost.cpu_micros_per_operation)),
        p50_micros: percentile(50.0),
        p99_micros: percentile(99.0),
        errors: rounds.iter().map(|result| result.errors_total() + result.wrong_answers_total()).sum(),
        unsupported: rounds.iter().find_map(not_measured).filter(|_| measured.is_empty()),
    }
}

/// Returns the middle value or, for an even number of values, the mean of the two middle values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Returns, for each workload, the medians of the first server divided by the medians of each other server. A ratio is
/// absent if the first server was not measured.
pub fn ratios(medians: &[Medians]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    let reference = medians.first().map(|first| first.server.as_str()).unwrap_or_default();
    for other in medians.iter().filter(|other| other.server != reference) {
        let first =
            medians.iter().find(|first| first.workload == other.workload && first.server == reference);
        let Some(first) = first else { continue };
        let divided = |value: fn(&Medians) -> Option<f64>| {
            let (first, other) = (value(first)?, value(other)?);
            (other > 0.0).then_some(first / other)
        };
        ratios.push(Ratio {
            workload: other.workload.clone(),
            server: first.server.clone(),
            by: other.server.clone(),
            per_second: divided(|medians| medians.per_second),
            cpu_per_operation: divided(|medians| medians.cpu_micros),
            p50: divided(|medians| medians.p50_micros),
            p99: divided(|medians| medians.p99_micros),
        });
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ServerCost, ServerDescription};

    fn round(workload: &str, product: &str, per_second: f64, cpu: f64) -> WorkloadResult {
        WorkloadResult {
            workload: workload.to_owned(),
            server: ServerDescription { product: product.to_owned(), ..ServerDescription::default() },
            per_second,
            cost: Some(ServerCost { cpu_micros_per_operation: cpu, ..ServerCost::default() }),
            complete: true,
            ..WorkloadResult::default()
        }
    }

    #[test]
    fn ratios_divide_the_first_server_by_each_other_server() {
        let mut unsupported = round("w", "C", 0.0, 0.0);
        unsupported.unsupported = Some("cannot".to_owned());
        let all = [
            round("w", "A", 100.0, 5.0),
            round("w", "B", 50.0, 20.0),
            unsupported,
            round("w", "B", 10.0, 40.0),
            round("v", "B", 1.0, 1.0),
            round("w", "A", 300.0, 5.0),
            round("w", "A", 200.0, 4.0),
        ];
        let medians = medians(&all);
        let a = &medians[0];
        assert_eq!((a.rounds, a.per_second, a.cpu_micros), (3, Some(200.0), Some(5.0)));
        assert_eq!(medians[1].per_second, Some(30.0));
        assert_eq!((medians[2].per_second, medians[2].unsupported.as_deref()), (None, Some("cannot")));
        let ratios = ratios(&medians);
        let pairs: Vec<_> = ratios.iter().map(|ratio| (ratio.by.as_str(), ratio.per_second)).collect();
        // The workload v was not measured on A.
        assert_eq!(pairs, [("B", Some(200.0 / 30.0)), ("C", None)]);
        assert_eq!(ratios[0].cpu_per_operation, Some(5.0 / 30.0));
    }
}
