//! What a standing came from, and which records of the log touch that.
//!
//! Rules name entries, and put askers into groups. A standing holds until the log says otherwise of one of those: a
//! name of a rule comes to mean another entry, somebody comes to name the asker or a group that the asker is in, or a
//! group is changed that the asker is in. All other changes leave it as it is.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record, Value, ValueChange};
use crate::model::rows::EntryId;
use crate::tree::{Found, TreeState};

/// Something that a record does to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Touch {
    /// The entry is gone.
    Gone(EntryId),
    /// The entry is gone, or has other values.
    Changed(EntryId),
    /// There is a new entry below it.
    NewBelow(EntryId),
    /// An entry names it that may not have done so before.
    Named(EntryId),
    /// Something happened, whatever it was.
    Any,
}

/// What would make a standing another one. A change of the settings, or of a name, always does.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Of the names in rules, which are the same for all askers.
    pub(crate) names: HashSet<Touch, RandomState>,
    /// Of the asker.
    pub(crate) own: HashSet<Touch, RandomState>,
}

impl Sources {
    /// The entry that a name in a rule means.
    pub(super) fn entry_of(
        &mut self,
        state: TreeState<'_>,
        name: &NormalName,
    ) -> Result<Option<EntryId>, OperationError> {
        let (found, touch) = match state.find(name)? {
            Found::Entry(id, _) => (Some(id), Touch::Gone(id)),
            Found::Missing { nearest: Some((id, ..)) } => (None, Touch::NewBelow(id)),
            Found::Missing { nearest: None } => (None, Touch::NewBelow(EntryId::ROOT)),
        };
        self.names.insert(touch);
        Ok(found)
    }

    /// Whether records that touch these make the standing another one, or may; `None` is anything.
    pub(crate) fn are_touched_by(&self, touched: Option<&HashSet<Touch, RandomState>>) -> bool {
        let Some(touched) = touched else { return true };
        let is_one = |touch: &Touch| self.names.contains(touch) || self.own.contains(touch);
        self.own.contains(&Touch::Any) || touched.iter().any(is_one)
    }

    /// The asker has these groups, which may lose members.
    pub(super) fn add_groups(&mut self, own: EntryId, groups: &[u64]) {
        self.own.insert(Touch::Named(own));
        for group in groups.iter().copied().map(EntryId) {
            self.own.extend([Touch::Changed(group), Touch::Named(group)]);
        }
    }
}

/// What a record touches; `None` where it may change any standing.
pub(crate) fn touches(record: &Record) -> Option<Vec<Touch>> {
    Some(match &record.change {
        Change::Add(add) => {
            let links = add.values.iter().flat_map(|(_, values)| named(values));
            links.chain([Touch::NewBelow(add.parent)]).collect()
        }
        Change::Modify(modify) => {
            let links = modify.changes.iter().flat_map(|ValueChange { values, .. }| named(values));
            links.chain([Touch::Changed(modify.id)]).collect()
        }
        Change::Delete(delete) => vec![Touch::Gone(delete.id), Touch::Changed(delete.id)],
        Change::Administrator { .. } => Vec::new(),
        Change::DeleteTree(_) | Change::ModifyDn(_) | Change::Settings(_) | Change::Suffix { .. } => {
            return None;
        }
    })
}

fn named(values: &[Value]) -> impl Iterator<Item = Touch> {
    values.iter().filter_map(|value| match value {
        Value::Link(target) => Some(Touch::Named(*target)),
        Value::Bytes(_) => None,
    })
}
