//! Results of the comparison: groups of differences, counts, and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::difference::{Category, Difference};
use crate::exchange::Kind;
use crate::limits::{EXAMPLES_MAX, GROUPS_MAX, LATENCY_COUNT_MIN, SLOWER_FACTOR, SLOWER_MICROS, TEXT_MAX};

/// Maximum latency that a histogram distinguishes, in microseconds.
const LATENCY_MAX: u64 = 600_000_000;

/// Differences with the same cause.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    examples: Vec<String>,
}

/// Result of the comparison so far. Its size is bounded by [`GROUPS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Number of exchanges that were compared.
    compared: u64,
    /// Number of compared exchanges with equal answers.
    equal: u64,
    /// Number of exchanges that overlapped a change and have different answers. The difference may be due to the
    /// change.
    uncertain: u64,
    /// Number of exchanges that were not compared, by reason.
    skipped: BTreeMap<&'static str, u64>,
    groups: BTreeMap<(Category, String), Group>,
    /// Number of differences that were not assigned to a group because the maximum number of groups was reached.
    more: u64,
    latencies: BTreeMap<Kind, Latencies>,
}

/// Latencies of the old and the new server, in microseconds.
#[derive(Debug)]
struct Latencies([Option<Histogram<u32>>; 2]);

impl Latencies {
    fn new() -> Latencies {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_MAX, 2).ok();
        Latencies([histogram(), histogram()])
    }

    fn record(&mut self, server: usize, latency: Duration) {
        if let Some(Some(histogram)) = self.0.get_mut(server) {
            histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX).max(1));
        }
    }

    /// Returns the count, median and 99th percentile of a server.
    fn summary(&self, server: usize) -> (u64, u64, u64) {
        let histogram = self.0.get(server).and_then(Option::as_ref);
        histogram
            .map_or((0, 0, 0), |all| (all.len(), all.value_at_quantile(0.5), all.value_at_quantile(0.99)))
    }

    fn is_slower(&self) -> bool {
        let ((count, old, _), (_, new, _)) = (self.summary(0), self.summary(1));
        count >= LATENCY_COUNT_MIN && new > old * SLOWER_FACTOR && new > old + SLOWER_MICROS
    }
}

impl Figures {
    /// Counts a comparison and its differences.
    pub(crate) fn compared(&mut self, differences: Vec<Difference>, overlaps_change: bool) {
        self.compared += 1;
        if differences.is_empty() {
            self.equal += 1;
        } else if overlaps_change {
            self.uncertain += 1;
        } else {
            differences.into_iter().for_each(|difference| self.add(difference));
        }
    }

    fn add(&mut self, Difference { category, cause, example }: Difference) {
        let key = (category, shortened(&cause));
        if !self.groups.contains_key(&key) && self.groups.len() >= GROUPS_MAX {
            self.more += 1;
            return;
        }
        let group = self.groups.entry(key).or_default();
        group.count += 1;
        let example = shortened(&example);
        if group.examples.len() < EXAMPLES_MAX && !group.examples.contains(&example) {
            group.examples.push(example);
        }
    }

    /// Counts an exchange that is not compared.
    pub(crate) fn skipped(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Records the latency of a server.
    pub(crate) fn latency(&mut self, kind: Kind, server: usize, latency: Duration) {
        self.latencies.entry(kind).or_insert_with(Latencies::new).record(server, latency);
    }

    /// Returns all figures as JSON.
    pub(crate) fn report(&self) -> Value {
        let mut groups: Vec<Value> = self
            .groups
            .iter()
            .map(|((category, cause), group)| {
                let Group { count, examples } = group;
                json!({"kind": category.name(), "cause": cause, "count": count, "examples": examples})
            })
            .collect();
        let slower = self.latencies.iter().filter(|(_, latencies)| latencies.is_slower());
        groups.extend(slower.map(|(kind, latencies)| {
            let (old, new) = (latencies.summary(0).1, latencies.summary(1).1);
            let examples = [format!("median {old} us on the old server, {new} us on the new one")];
            json!({"kind": "latency", "cause": kind.name(), "count": 1, "examples": examples})
        }));
        let latencies: serde_json::Map<String, Value> = self
            .latencies
            .iter()
            .map(|(kind, latencies)| {
                let of = |server| {
                    let (count, median, p99) = latencies.summary(server);
                    json!({"count": count, "median": median, "p99": p99})
                };
                (kind.name().to_owned(), json!({"old": of(0), "new": of(1)}))
            })
            .collect();
        json!({
            "compared": self.compared,
            "equal": self.equal,
            "uncertain": self.uncertain,
            "not_compared": self.skipped,
            "differences": groups,
            "more_differences": self.more,
            "latency_microseconds": latencies,
        })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(cause: &str, example: &str) -> Vec<Difference> {
        let (cause, example) = (cause.to_owned(), example.to_owned());
        vec![Difference { category: Category::Attributes, cause, example }]
    }

    #[test]
    fn groups_and_examples_are_bounded() {
        let mut figures = Figures::default();
        for number in 0..GROUPS_MAX + 5 {
            figures.compared(difference(&format!("cause {number}"), "x"), false);
        }
        for number in 0..10 {
            figures.compared(difference("cause 0", &format!("{}{number}", "y".repeat(300))), false);
        }
        figures.compared(difference("cause 1", "overlapping"), true);
        figures.compared(Vec::new(), true);
        let report = figures.report();
        assert_eq!(report["differences"].as_array().unwrap().len(), GROUPS_MAX);
        assert_eq!((&report["more_differences"], &report["uncertain"]), (&json!(5), &json!(1)));
        assert_eq!(report["compared"], json!(GROUPS_MAX + 17));
        assert_eq!(report["equal"], json!(1));
        let first = &report["differences"][0];
        assert_eq!((&first["cause"], &first["count"]), (&json!("cause 0"), &json!(11)));
        assert!(first["examples"].as_array().unwrap().len() <= EXAMPLES_MAX);
    }

    #[test]
    fn a_slower_server_is_reported_as_a_difference() {
        let mut figures = Figures::default();
        for _ in 0..LATENCY_COUNT_MIN {
            for (kind, new) in [(Kind::Add, 500), (Kind::Bind, 9_000)] {
                figures.latency(kind, 0, Duration::from_micros(400));
                figures.latency(kind, 1, Duration::from_micros(new));
            }
        }
        let report = figures.report();
        let groups = report["differences"].as_array().unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!((&groups[0]["kind"], &groups[0]["cause"]), (&json!("latency"), &json!("bind")));
        assert_eq!(report["latency_microseconds"]["add"]["old"]["count"], json!(100));
    }
}
