//! Figures of this server as a replica, and of the replicas that read its log.

use std::collections::BTreeMap;

use crate::limits::REPLICAS_NAMED_MAX;
use crate::monitor::figure::{Group, Value};
use crate::workers::log_reader::{Consumer, LogReader};
use crate::workers::replica::figures::ReplicaFigures;

/// Returns the figures of this server as a replica.
pub(super) fn own(figures: &ReplicaFigures) -> Group {
    let mut group = Group::new("Replica");
    let state = figures.get();
    let stage = state.stage.word();
    group.add("State", "What the replica does", Value::State(stage, stage.to_owned()));
    group.text("Supplier", "The server whose log it applies", &state.supplier);
    group.level("Epoch", "Number of the writer's epoch", state.epoch);
    group.level("Position", "The last record applied", state.position);
    group.level("Supplier Position", "The supplier's last record", state.newest);
    group.level("Lag Records", "Records that it lacks", state.lag_records());
    let seconds = state.complete.elapsed().as_secs();
    group.level("Lag Seconds", "Seconds since it last had all records", seconds);
    let help = "Microseconds from the last change at its writer until it was durable here";
    group.level("Delay", help, state.delay_micros);
    group.count("Records", "Records applied", state.records);
    group.count("Connections", "Connections to read the supplier's log", state.connections);
    group.count("Forwarded", "Changes passed on to the supplier and answered", state.forwarded);
    group.level("Waiting Changes", "Changes of this server's clients without an answer", state.waiting);
    let differing = state.differing().map_or(Ok("no"), Err);
    group.add("Failing", "Why it does not follow", Value::Fault(state.error.map_or(Ok("no"), Err)));
    let apply = state.apply_error.map_or(Ok("no"), Err);
    group.add("Apply", "Why records are not applied", Value::Fault(apply));
    group.count(
        "Comparisons",
        "Slices of the data compared with the supplier's",
        state.findings.comparisons(),
    );
    group.count("Rounds", "How often all of the data was equal to the supplier's", state.findings.rounds());
    group.add("Differing", "Subtrees whose data differs from the supplier's", Value::Fault(differing));
    group
}

/// Returns the figures of the replicas that read this server's log; `None` if there are none. `newest` is the position
/// of the last record in the log.
pub(super) fn group(reader: &LogReader, newest: u64) -> Option<Group> {
    let consumers = reader.consumers();
    if consumers.is_empty() {
        return None;
    }
    let mut group = Group::new("Replicas");
    let lag = |position: u64| newest.saturating_sub(position);
    group.level("Current", "Replicas that read the log of this server", consumers.len() as u64);
    let most = consumers.iter().map(|(_, consumer)| lag(consumer.position)).max().unwrap_or(0);
    group.level("Most Lag", "Changes that the slowest of them lacks", most);
    let help = "Changes that a replica lacks, by the name in its node file";
    group.add("Lag Records", help, Value::By("replica", false, lag_by_name(&consumers, newest)));
    let help = "Comparisons that found other data at a replica";
    group.count("Differences", help, reader.differences());
    for (connection, consumer) in &consumers {
        let (name, who, position) = (&consumer.name, &consumer.who, consumer.position);
        let text = format!("{name:?} as {who}: position {position}, lacks {} changes", lag(position));
        group.text(format!("Connection {connection}"), "A replica", text);
    }
    Some(group)
}

/// Returns the lag of each replica by its name. If several replicas have the same name, the largest lag is returned.
/// The result contains at most [`REPLICAS_NAMED_MAX`] names, in alphabetical order.
fn lag_by_name(consumers: &[(u64, Consumer)], newest: u64) -> Vec<(String, u64)> {
    let mut lags = BTreeMap::new();
    for (_, Consumer { name, position, .. }) in consumers {
        let lag: &mut u64 = lags.entry(name.as_str()).or_default();
        *lag = newest.saturating_sub(*position).max(*lag);
    }
    lags.into_iter().take(REPLICAS_NAMED_MAX).map(|(name, lag)| (name.to_owned(), lag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_named_up_to_a_limit() {
        let consumer = |name: &str, position| {
            (position, Consumer { name: name.to_owned(), who: "cn=replica".to_owned(), position })
        };
        let few = [consumer("west", 7), consumer("east", 12), consumer("west", 9)];
        assert_eq!(lag_by_name(&few, 10), [("east".to_owned(), 0), ("west".to_owned(), 3)]);
        let many: Vec<_> = (0..200).map(|number| consumer(&format!("{number:03}"), number)).collect();
        let named = lag_by_name(&many, 300);
        assert_eq!((named.len(), named[0].1), (REPLICAS_NAMED_MAX, 300));
    }
}
