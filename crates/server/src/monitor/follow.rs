//! Figures of the copies of followed servers' trees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::monitor::figure::{Group, Value};
use crate::workers::follow::FollowFigures;

/// Returns the figures as sums over all copies. If there are several copies, adds a text about each of them.
pub(super) fn group(copies: &[(String, Arc<FollowFigures>)]) -> Option<Group> {
    let states: Vec<_> = copies.iter().map(|(name, figures)| (name, figures, figures.get())).collect();
    let stage = states.iter().map(|(.., state)| state.stage).min()?.word();
    let mut group = Group::new("Follow");
    let sum = |figure: fn(&FollowFigures) -> &AtomicU64| {
        copies.iter().map(|(_, figures)| figure(figures).load(Ordering::Relaxed)).sum()
    };
    group.add("State", "Stage of the copy that is least advanced", Value::State(stage, stage.to_owned()));
    group.count("Changes", "Changes of the source that were made here", sum(|of| &of.changes));
    group.level("Rejected", "Entries of the source that are not copied", sum(|of| &of.rejected));
    group.count("Connections", "Connections to the source", sum(|of| &of.connections));
    let cookies = states.iter().map(|(.., state)| String::from_utf8_lossy(&state.cookie));
    group.text("Cookie", "The source's name of the last change", cookies.collect::<Vec<_>>().join(" "));
    let committed = states.iter().map(|(.., state)| state.committed).max().unwrap_or(0);
    if committed > 0 {
        group.time("Last Change", "When a copy last changed", committed);
    }
    let help = "Microseconds from the newest change at the source until it was durable here";
    group.level("Delay", help, states.iter().map(|(.., state)| state.delay_micros).max().unwrap_or(0));
    let error = states.iter().find_map(|(.., state)| state.error.clone());
    group.add("Failing", "Why the source is not followed", Value::Fault(error.map_or(Ok("no"), Err)));
    if states.len() > 1 {
        for (number, (name, figures, state)) in (1..).zip(&states) {
            let (stage, rejected) = (state.stage.word(), figures.rejected.load(Ordering::Relaxed));
            let failing = state.error.as_deref().unwrap_or("no");
            let text = format!("{name}: {stage}, {rejected} rejected, failing: {failing}");
            group.text(format!("Source {number}"), "A source", text);
        }
    }
    Some(group)
}
