//! Additions of existing entries to groups, after a rule of the setting `auto_members` was added or changed.
//!
//! The record of the changed settings lists the pending rules. The writer then examines the entries in the order of
//! their ids, a limited number at a time. One ordinary record adds the entries that a rule covers to the group, and
//! another record stores the progress. After a restart or a change of the writer, the examination continues from the
//! stored progress.

use std::ops::Bound;

use store::Direction;

use crate::catalog::auto_members::{AutoMemberRule, pending_joins};
use crate::filter::Covering;
use crate::index::slice::key_id;
use crate::model::limits::JOIN_ENTRIES_MAX;
use crate::model::outcome::OperationError;
pub use crate::model::pending_join::PendingJoin;
use crate::model::rows::{EntryId, LINKS, NODES, id_key, link_key};
use crate::settings::DirectorySettings;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the pending rules.
///
/// # Errors
/// The store failed.
pub fn pending(state: TreeState<'_>) -> Result<Vec<PendingJoin>> {
    Ok(pending_joins(state.read)?.list)
}

/// Returns true if a pending rule has entries left to examine.
///
/// # Errors
/// The store failed.
pub fn is_one_due(state: TreeState<'_>) -> Result<bool> {
    Ok(due(state, &pending(state)?)?.is_some())
}

/// A pending rule that can be processed: see [`due`].
pub(crate) struct DueJoin {
    /// Place of the rule in the list of pending rules.
    pub(crate) place: usize,
    pub(crate) rule: AutoMemberRule,
    group: EntryId,
}

/// Returns the first rule that can be processed: the text of the rule is valid, its group exists, and no addition to
/// the group was refused.
pub(crate) fn due(state: TreeState<'_>, pending: &[PendingJoin]) -> Result<Option<DueJoin>> {
    let catalog = state.catalog;
    for (place, join) in pending.iter().enumerate().filter(|(_, join)| join.refusal.is_empty()) {
        let Ok(rule) = AutoMemberRule::read(&join.rule, &catalog.schema, &catalog.secrets) else { continue };
        if let Some(group) = state.entry_here(&rule.group.1)? {
            return Ok(Some(DueJoin { place, rule, group }));
        }
    }
    Ok(None)
}

/// Entries that one record adds to a group.
#[derive(Default)]
pub(crate) struct Joining {
    pub(crate) dns: Vec<String>,
    /// The last entry examined; `None` if no entries are left to examine.
    pub(crate) last: Option<EntryId>,
}

impl DueJoin {
    /// Returns the entries with ids above `after` that have to join the group, at most `count_max`. Examines at most
    /// [`JOIN_ENTRIES_MAX`] entries.
    pub(crate) fn joining(&self, state: TreeState<'_>, after: EntryId, count_max: usize) -> Result<Joining> {
        let covering = Covering::of(state, &self.rule.covered)?;
        let from = id_key(after);
        let mut joining = Joining::default();
        let range = (Bound::Excluded(&from[..]), Bound::Unbounded);
        for (count, row) in state.read.scan(NODES, range, Direction::Forward).enumerate() {
            if count == JOIN_ENTRIES_MAX || joining.dns.len() == count_max {
                return Ok(joining);
            }
            let id = key_id(row?.0)?;
            if self.is_to_join(state, &covering, id)? {
                joining.dns.extend(state.dn(id)?);
            }
            joining.last = Some(id);
        }
        joining.last = None;
        Ok(joining)
    }

    fn is_to_join(&self, state: TreeState<'_>, covering: &Covering, id: EntryId) -> Result<bool> {
        if id == self.group || !covering.covers(state, id)? {
            return Ok(false);
        }
        let Some(member) = state.catalog.attribute_id(self.rule.member, "") else { return Ok(true) };
        Ok(!state.read.contains_id(LINKS, &link_key(self.group, member), id.0)?)
    }
}

/// Returns a notice for each new rule in these settings by which existing entries would join a group.
///
/// # Errors
/// The store failed.
pub fn notes(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>> {
    let known = &state.catalog.settings.general.auto_members;
    let new = settings.general.auto_members.iter().filter(|rule| !known.contains(rule));
    let new: Vec<PendingJoin> = new.cloned().map(PendingJoin::new).collect();
    let mut notes = Vec::new();
    for join in new {
        let Some(due) = due(state, &[join])? else { continue };
        let covering = Covering::of(state, &due.rule.covered)?;
        let mut count: u64 = 0;
        for row in state.read.scan(NODES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            count += u64::from(due.is_to_join(state, &covering, key_id(row?.0)?)?);
        }
        notes.push(format!(
            "auto_members: by the rule {:?}, {count} existing entries join the group in the background",
            due.rule.name
        ));
    }
    Ok(notes)
}
