//! Figures of the work of the event loops: by listener, by index, and for the clients that cause the most work.

use std::time::Instant;

use directory::index::sizes::IndexSize;

use super::Sources;
use super::figure::{Group, Value};
use crate::config::{ListenerIndex, OnlineSettings};
use crate::limits::TOP_CLIENTS_MAX;
use crate::workers::usage::{IndexUse, ListenerUse, index_uses, listener_use, top_clients};

/// Returns the listeners of a server and their names: the `count` listeners of the settings, and the listeners that
/// every server has.
pub(crate) fn named_listeners(settings: &OnlineSettings, count: usize) -> Vec<(ListenerIndex, String)> {
    let stated = (0..ListenerIndex::CONSOLE.0).take(count).map(ListenerIndex);
    let all = stated.chain([ListenerIndex::DATA_DIRECTORY, ListenerIndex::CONSOLE]);
    all.map(|listener| (listener, settings.listener_name(listener).to_string())).collect()
}

/// Returns the figures of each listener. Listeners with the same name are added up.
pub(super) fn listeners(sources: &Sources) -> Group {
    let mut sums: Vec<(&str, ListenerUse)> = Vec::new();
    for (listener, name) in &sources.listener_names {
        let ListenerUse { opened, closed, work } = listener_use(&sources.usage, *listener);
        let place = sums.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            sums.push((name, ListenerUse::default()));
            sums.len() - 1
        });
        if let Some((_, sum)) = sums.get_mut(place) {
            sum.opened += opened;
            sum.closed += closed;
            sum.work.add(&work);
        }
    }
    let mut group = Group::new("Listeners");
    let mut add = |name: &'static str, help: &'static str, is_count: bool, of: fn(&ListenerUse) -> u64| {
        let values = sums.iter().map(|(name, sum)| ((*name).to_owned(), of(sum))).collect();
        group.add(name, help, Value::By("listener", is_count, values));
    };
    let open = |sum: &ListenerUse| sum.opened.saturating_sub(sum.closed);
    add("Connections", "Connections that are open, by listener", false, open);
    add("Accepted", "Connections accepted, by listener", true, |sum| sum.opened);
    add("Operations", "Operations finished, by listener", true, |sum| sum.work.operations);
    add("Bytes", "Octets sent, by listener", true, |sum| sum.work.bytes_sent);
    add("Bytes Received", "Octets received, by listener", true, |sum| sum.work.bytes_received);
    group
}

/// Returns the figures of each index.
pub(super) fn indexes(sources: &Sources) -> Group {
    let uses = index_uses(&sources.usage);
    let mut group = Group::new("Index Use");
    let mut add = |name: &'static str, help: &'static str, of: fn(&IndexUse) -> u64| {
        let values = uses.iter().map(|(name, used)| (name.clone(), of(used))).collect();
        group.add(name, help, Value::By("index", true, values));
    };
    add("Searches", "Searches whose candidates came from an index", |used| used.searches);
    add("Entries Examined", "Candidates from an index that searches looked at", |used| used.examined);
    add("Entries", "Entries that these searches returned", |used| used.returned);
    group
}

/// Returns the sizes of the indexes. The sizes are texts and not metrics, because each read may request a new
/// measurement.
pub(super) fn index_sizes(sources: &Sources) -> Group {
    let mut group = Group::new("Index Sizes");
    let Some(sizes) = sources.index_sizes.read(Instant::now()) else { return group };
    let (sampled, entries) = (sizes.sampled, sizes.entries);
    for (attribute, IndexSize { rows, keys, bytes }) in &sizes.by_attribute {
        let help = "Pairs of a key and an entry, keys, and bytes of both, from a sample of the entries";
        let text = format!("rows {rows}; keys {keys}; bytes {bytes}; sampled {sampled} of {entries}");
        group.text(attribute.clone(), help, text);
    }
    group
}

/// Returns the clients that caused the most work in the last minutes, in descending order of their work. The clients
/// are shown as texts and not as metrics, because the number of different clients over time is not bounded.
pub(super) fn clients(sources: &Sources) -> Group {
    let mut group = Group::new("Top Clients");
    let top = top_clients(&sources.usage, TOP_CLIENTS_MAX, Instant::now());
    for (rank, client) in (1..).zip(top) {
        let help = "Work for a client in the last five to ten minutes, the costliest first";
        group.text(format!("{rank:02}"), help, client);
    }
    group
}
