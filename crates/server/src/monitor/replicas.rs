//! Figures of the replicas that read the log of this server.

use crate::monitor::figure::Group;
use crate::workers::log_reader::LogReader;

/// Returns the figures, if there are replicas. `newest` is the position of the last record.
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
    for (connection, consumer) in &consumers {
        let (name, who, position) = (&consumer.name, &consumer.who, consumer.position);
        let text = format!("{name:?} as {who}: position {position}, lacks {} changes", lag(position));
        group.text(format!("Connection {connection}"), "A replica", text);
    }
    Some(group)
}
