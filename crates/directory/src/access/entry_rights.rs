//! Rights of a requester at one entry: the combined effect of the rules that apply there.

use std::sync::Arc;

use schema::TypeId;

use crate::catalog::access_rules::{Rule, TypeSet, is_testable_with_browse};
use crate::catalog::{Catalog, Shown, counts_entries};
use crate::filter::{ByValue, ValueRule};
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, EXPLAIN, JOIN, LEAVE, PROXY, READ, RENAME, RESET, Rights, SEARCH, WRITE,
};

/// Rights to a whole entry, not to single attributes.
const OF_ENTRY: Rights = Rights(BROWSE.0 | ADD.0 | DELETE.0 | RENAME.0 | EXPLAIN.0 | PROXY.0 | RESET.0);

/// Rights of the requester at an entry. Each `TypeSet` contains the attribute types of which the right covers all
/// values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryRights {
    entry: Rights,
    compare: TypeSet,
    search: TypeSet,
    read: TypeSet,
    write: TypeSet,
    join: TypeSet,
    leave: TypeSet,
    /// Rights to single values of attributes; `None` if no right depends on the value.
    by_value: Option<Arc<ByValue>>,
}

/// Extent of a right: all, nothing, or some values of an attribute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RightExtent<'r> {
    Nothing,
    /// The right covers the values that these rules allow and do not deny. If the first field is true, the right also
    /// covers values that none of the rules matches.
    Some(bool, Vec<&'r ValueRule>),
    All,
}

impl From<bool> for RightExtent<'static> {
    fn from(is_allowed: bool) -> RightExtent<'static> {
        if is_allowed { RightExtent::All } else { RightExtent::Nothing }
    }
}

impl EntryRights {
    /// Computes the rights that these rules grant. Each rule comes with its restriction to single values, if any.
    /// `is_uniform` means that the rights are the same at every entry.
    pub(super) fn of(
        rules: &[(&Rule, Option<&Arc<ValueRule>>)],
        catalog: &Catalog,
        is_uniform: bool,
    ) -> EntryRights {
        let schema = &*catalog.schema;
        let mut rights = EntryRights::default();
        let mut denied = EntryRights::default();
        for (rule, by_value) in rules {
            let sum = if rule.is_allow { &mut rights } else { &mut denied };
            sum.entry = sum.entry.with(rule.rights.of(OF_ENTRY));
            if by_value.is_none() {
                let sets = sum.sets().into_iter().filter(|(right, _)| rule.rights.has(*right));
                sets.for_each(|(_, types)| types.add(&rule.types));
            }
        }
        rights.entry = rights.entry.without(denied.entry);
        if !rights.entry.has(BROWSE) {
            return EntryRights::default();
        }
        rights.sets().into_iter().zip(denied.sets()).for_each(|((_, own), (_, denied))| own.remove(denied));
        let by_value: Vec<_> = rules.iter().filter_map(|(_, by_value)| by_value.cloned()).collect();
        if !by_value.is_empty() {
            let EntryRights { compare, search, read, write, .. } = &mut rights;
            let denied = [denied.compare, denied.search, denied.read, denied.write];
            rights.by_value = ByValue::of(by_value, [compare, search, read, write], &denied).map(Arc::new);
        }
        for type_id in (0..).map(TypeId).take(schema.attribute_types().len()) {
            if is_testable_with_browse(schema, type_id) {
                rights.search.insert(type_id);
            }
            let is_counted = counts_entries(schema, type_id) && !is_uniform;
            if is_counted || catalog.secrets.of_type(type_id) > Shown::AsRulesSay.highest() {
                let EntryRights { compare, search, read, .. } = &mut rights;
                [compare, search, read].into_iter().for_each(|set| set.take_out(type_id));
            }
        }
        rights
    }

    fn sets(&mut self) -> [(Rights, &mut TypeSet); 6] {
        let EntryRights { compare, search, read, write, join, leave, .. } = self;
        [(COMPARE, compare), (SEARCH, search), (READ, read), (WRITE, write), (JOIN, join), (LEAVE, leave)]
    }

    /// Returns true if the requester may see the entry.
    pub(crate) fn may_browse(&self) -> bool {
        self.entry.has(BROWSE)
    }

    /// Returns true if a right that concerns the whole entry is granted.
    pub(crate) fn may(&self, right: Rights) -> bool {
        self.entry.has(right)
    }

    /// Returns true if all values of the type may be compared.
    pub(crate) fn may_compare(&self, type_id: TypeId) -> bool {
        self.compare.contains(type_id)
    }

    /// Returns true if a filter may test all values of the type.
    pub(crate) fn may_search(&self, type_id: TypeId) -> bool {
        self.search.contains(type_id)
    }

    /// Returns true if all values of the type may be returned.
    pub(crate) fn may_read(&self, type_id: TypeId) -> bool {
        self.read.contains(type_id)
    }

    /// Returns true if the requester may add its own name to the values of the type.
    pub(crate) fn may_join(&self, type_id: TypeId) -> bool {
        self.join.contains(type_id)
    }

    /// Returns true if the requester may delete its own name from the values of the type.
    pub(crate) fn may_leave(&self, type_id: TypeId) -> bool {
        self.leave.contains(type_id)
    }

    /// Returns true if all values of at least one type may be changed.
    pub(crate) fn may_write_some(&self) -> bool {
        !self.write.is_empty()
    }

    /// Returns true if all values of the type may be changed.
    pub(crate) fn may_write(&self, type_id: TypeId) -> bool {
        self.write.contains(type_id)
    }

    /// Returns the rights to single values of attributes; `None` if no right depends on the value.
    pub(crate) fn by_value(&self) -> Option<&Arc<ByValue>> {
        self.by_value.as_ref()
    }

    /// Returns the rights to single values, if they restrict the right `right` to the type `type_id`.
    pub(crate) fn over_values(&self, right: Rights, type_id: TypeId) -> Option<&Arc<ByValue>> {
        self.by_value.as_ref().filter(|by_value| by_value.is_for(right, type_id))
    }

    /// Returns the extent of a right. If `type_id` is `None`, the right concerns the whole entry, and is granted in
    /// whole or not at all.
    pub(crate) fn extent(&self, right: Rights, type_id: Option<TypeId>) -> RightExtent<'_> {
        if let Some(type_id) = type_id
            && let Some(by_value) = self.over_values(right, type_id)
        {
            let (is_open, rules) = by_value.deciding(right, type_id);
            return RightExtent::Some(is_open, rules);
        }
        self.has(right, type_id).into()
    }

    /// Returns true if a right covers the whole entry, or all values of the type.
    pub(crate) fn has(&self, right: Rights, type_id: Option<TypeId>) -> bool {
        match (right, type_id) {
            (JOIN, Some(type_id)) => self.may_join(type_id),
            (LEAVE, Some(type_id)) => self.may_leave(type_id),
            (COMPARE, Some(type_id)) => self.may_compare(type_id),
            (SEARCH, Some(type_id)) => self.may_search(type_id),
            (READ, Some(type_id)) => self.may_read(type_id),
            (WRITE, Some(type_id)) => self.may_write(type_id),
            (BROWSE | ADD | DELETE | RENAME | EXPLAIN | PROXY | RESET, _) => self.entry.has(right),
            _ => false,
        }
    }
}
