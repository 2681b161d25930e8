//! Figures of a cluster node: its role, the cluster's log, and its lag.

use std::sync::Weak;

use ::cluster::figures::{Figures, NodeState};
use data_encoding::HEXLOWER;
use directory::Directory;
use directory::csn::generalized_time;

use super::newest_position;
use crate::monitor::figure::{Group, Value};

/// Returns the figures of this node.
pub(super) fn group(figures: &Figures, directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Cluster");
    let state = figures.get();
    add_role(&mut group, &state);
    add_comparison(&mut group, &state);
    // The position is read from the directory, because the node's thread reports a position only after it has answered
    // the change.
    group.level("Position", "The last change that reads show", newest_position(directory));
    add_log(&mut group, &state);
    add_retention(&mut group, &state);
    for (node, row) in &state.members {
        group.text(format!("Node {}", node.0), "What the log says of a node", member_text(row));
    }
    let help = "Messages of the log after the last commit that a node has announced, by its number";
    group.add("Node Lag Messages", help, Value::By("node", false, lag_by_node(&state)));
    add_changes(&mut group, &state);
    group
}

/// Adds the role of this node, and the state that all nodes share.
fn add_role(group: &mut Group, state: &NodeState) {
    group.text("Node", "The number of this node", state.node);
    group.text("Address", "Address at which other nodes reach this one", &state.address);
    group.text("Generation", "Which data positions are of", HEXLOWER.encode(&state.generation));
    group.add(
        "Role",
        "What this node does in its cluster",
        Value::State(state.activity.word(), state.role.clone()),
    );
    let writer = state.writer.map_or_else(|| "none".to_owned(), |node| node.0.to_string());
    group.text("Writer", "The node that decides changes", writer);
    group.level("Epoch", "The offset of the log from which on the writer writes", state.epoch);
    if state.epoch_since > 0 {
        group.time("Last Failover", "Since when the writer writes", state.epoch_since);
    }
    let log = state.unreachable.clone().map_or(Ok("reachable"), Err);
    group.add("Log", "Why the log of the cluster cannot be reached", Value::Fault(log));
    group.level("Level", "The feature level that all nodes have", state.level);
    group.level("Key", "The number of the key in force", state.key.into());
    if let Some(number) = state.key_offered {
        group.level("Key Offered", "The number of the key that comes next", number.into());
    }
    group.text("Seals Groups", "Whether changes are encrypted", if state.seals { "yes" } else { "no" });
}

/// Adds the results of the comparisons of this node's data with the data of the other nodes.
fn add_comparison(group: &mut Group, state: &NodeState) {
    if let Some((mark, digest)) = &state.digest {
        group.text("Digest", "What the last comparison came to", format!("at offset {mark}: {digest}"));
    }
    group.text("Comparison Round", "The comparison of all data", round_text(&state.round));
    if state.round.ended > 0 {
        group.time(
            "Last Comparison Round",
            "When the last comparison of all data ended",
            state.round.ended_at,
        );
    }
}

/// Adds the size of the cluster's log, and the position up to which this node has read it.
fn add_log(group: &mut Group, state: &NodeState) {
    group.level("Next Offset", "The message of the log that is read next", state.next_offset);
    group.level("Log Start Offset", "The first message that the log has", state.start_offset);
    let messages = state.end_offset.saturating_sub(state.start_offset);
    group.level("Log Messages", "Messages that the log has", messages);
    group.level("Log Bytes", "About what the log takes", state.log_bytes);
    if let Some(bytes) = state.log_bytes_per_day {
        group.level("Log Bytes Per Day", "What a day adds to the log", bytes);
        // Assumes that no messages of the log are deleted. The figure helps to choose the size of a disk.
        let in_30_days = state.log_bytes.saturating_add(bytes.saturating_mul(30));
        group.level("Log Bytes In 30 Days", "What the log takes then if nothing is deleted", in_30_days);
    }
}

/// Adds the size of the part of the log that may be deleted, and the snapshots that permit its deletion.
fn add_retention(group: &mut Group, state: &NodeState) {
    group.level("Deletable Bytes", "Estimated bytes of the log that no node needs", state.deletable_bytes);
    match &state.snapshot {
        Some(Ok((offset, at))) => {
            let text = format!("of offset {offset}, at {}", generalized_time(*at));
            group.text("Own Snapshot", "The last snapshot of this node", text);
        }
        Some(Err(error)) => {
            group.text("Own Snapshot", "The last snapshot of this node", format!("failed: {error}"));
        }
        None => {}
    }
    match &state.trimmed {
        Some(Ok(at)) => group.time("Last Trim", "When messages of the log were last deleted", *at),
        Some(Err(error)) => {
            group.text("Last Trim", "Why no messages of the log were deleted", format!("failed: {error}"))
        }
        None => {}
    }
    match &state.deletable {
        Some(Ok(offset)) => {
            group.level("Deletable Before", "Oldest message of the log that a node needs", *offset)
        }
        Some(Err(reason)) => group.text("Kept Whole", "Why all messages of the log are needed", reason),
        None => {}
    }
}

/// Adds the lag of this node, and the numbers of changes and of groups of changes.
fn add_changes(group: &mut Group, state: &NodeState) {
    group.level("Lag Messages", "Messages that this node has not read", state.lag_messages());
    group.level("Lag Seconds", "Age of the last message read, if others follow it", state.lag_seconds);
    group.level("Waiting Changes", "Changes of this node's clients without an answer", state.waiting);
    group.count("Groups Followed", "Groups of changes of other nodes", state.groups_followed);
    group.count("Groups Decided", "Groups of changes that this node decided", state.groups_decided);
    group.count("Groups Dropped", "Groups decided in vain: another node wrote by then", state.groups_dropped);
    group.count("Groups Sealed", "Groups of changes that were encrypted", state.groups_sealed);
    group.count("Forwarded", "Changes passed on to the writer", state.forwarded);
    group.count("Alarms", "Messages that are a matter for an operator", state.alarms);
}

/// Returns a text about the progress of the comparison of all data.
fn round_text(round: &replication::Round) -> String {
    let last = match round.ended {
        0 => String::new(),
        ended => format!("; round {ended} had {} bytes", round.ended_bytes),
    };
    match round.next.is_empty() {
        true => format!("none under way{last}"),
        false => format!(
            "round {} since {}: {} bytes{last}",
            round.ended.saturating_add(1),
            generalized_time(round.began_at),
            round.bytes
        ),
    }
}

/// Returns, for each node, the number of messages in the log after the last commit that the node has announced. Omits
/// nodes that have left the cluster.
fn lag_by_node(state: &NodeState) -> Vec<(String, u64)> {
    let present = state.members.iter().filter(|(_, row)| !row.has_left);
    let lag = |row: &replication::MemberRow| {
        let next = row.durable.map_or(state.start_offset, |offset| offset.saturating_add(1));
        state.end_offset.saturating_sub(next)
    };
    present.map(|(node, row)| (node.0.to_string(), lag(row))).collect()
}

/// Returns a text with the facts in the log about a node.
fn member_text(row: &replication::MemberRow) -> String {
    if row.has_left {
        return "gone: its certificate is refused".to_owned();
    }
    let offset = |offset: Option<u64>| offset.map_or_else(|| "none".to_owned(), |offset| offset.to_string());
    format!("committed up to offset {}, snapshot of offset {}", offset(row.durable), offset(row.snapshot))
}
