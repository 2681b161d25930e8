//! Sources of effective rights, and the log records that invalidate them.
//!
//! Rules name entries, groups, and users who match a filter. A log record invalidates cached rights if a name in a rule
//! now denotes another entry, if an entry begins to name the requester or one of the requester's groups, if a group of
//! the requester changes, or if an entry changes on which a filter for the requester depends. Records that change
//! settings, suffixes or DNs, delete a tree or restore entries invalidate all cached rights. All other records leave
//! cached rights valid.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record, Value, ValueChange};
use crate::model::rows::EntryId;
use crate::tree::{Found, TreeState};

/// Effect of a record on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EntryEffect {
    /// The entry was deleted.
    Gone(EntryId),
    /// The entry was deleted, or its values have changed.
    Changed(EntryId),
    /// An entry was added directly below this entry.
    NewBelow(EntryId),
    /// Another entry may have begun to name this entry.
    Named(EntryId),
    /// Any change of any entry.
    Any,
}

/// Effects of records that invalidate effective rights. A change of the settings or of a DN always invalidates
/// effective rights.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Effects on the entries that rules name. These effects are the same for all requesters.
    pub(crate) names: HashSet<EntryEffect, RandomState>,
    /// Effects on the requester and its groups.
    pub(crate) own: HashSet<EntryEffect, RandomState>,
}

impl Sources {
    /// Resolves the name of an entry in a rule, and adds the effects that could change the result.
    pub(super) fn entry_of(
        &mut self,
        state: TreeState<'_>,
        name: &NormalName,
    ) -> Result<Option<EntryId>, OperationError> {
        let (found, touch) = match state.find(name)? {
            Found::Entry(id, _) => (Some(id), EntryEffect::Gone(id)),
            Found::Missing { nearest: Some((id, ..)) } => (None, EntryEffect::NewBelow(id)),
            Found::Missing { nearest: None } => (None, EntryEffect::NewBelow(EntryId::ROOT)),
        };
        self.names.insert(touch);
        Ok(found)
    }

    /// Returns true if these effects may invalidate the rights; `None` means that any effect is possible.
    pub(crate) fn are_touched_by(&self, touched: Option<&HashSet<EntryEffect, RandomState>>) -> bool {
        let Some(touched) = touched else { return true };
        let is_one = |touch: &EntryEffect| self.names.contains(touch) || self.own.contains(touch);
        self.own.contains(&EntryEffect::Any) || touched.iter().any(is_one)
    }

    /// Adds the groups of the requester as sources, because the groups may change and may become members of other
    /// groups.
    pub(super) fn add_groups(&mut self, own: EntryId, groups: &[u64]) {
        self.own.insert(EntryEffect::Named(own));
        for group in groups.iter().copied().map(EntryId) {
            self.own.extend([EntryEffect::Changed(group), EntryEffect::Named(group)]);
        }
    }
}

/// Returns the effects of a record; `None` if the record may invalidate any rights.
pub(crate) fn touches(record: &Record) -> Option<Vec<EntryEffect>> {
    Some(match &record.change {
        Change::Add(add) => {
            let links = add.values.iter().flat_map(|(_, values)| named(values));
            links.chain([EntryEffect::NewBelow(add.parent)]).collect()
        }
        Change::Modify(modify) => {
            let links = modify.changes.iter().flat_map(|ValueChange { values, .. }| named(values));
            links.chain([EntryEffect::Changed(modify.id)]).collect()
        }
        Change::Delete(delete) => vec![EntryEffect::Gone(delete.id), EntryEffect::Changed(delete.id)],
        Change::Administrator { .. } | Change::Purge { .. } | Change::Joins(_) | Change::Links(_) => {
            Vec::new()
        }
        Change::DeleteTree(_)
        | Change::ModifyDn(_)
        | Change::Undelete(_)
        | Change::Settings(_)
        | Change::Suffix { .. } => return None,
    })
}

fn named(values: &[Value]) -> impl Iterator<Item = EntryEffect> {
    values.iter().filter_map(|value| match value {
        Value::Link(target) => Some(EntryEffect::Named(*target)),
        Value::Bytes(_) => None,
    })
}
