//! Sort keys of entries (RFC 2891): octets whose order is the order of the entries. Sorted searches and sort orders use
//! them.
//!
//! A key has a part for each attribute:
//!
//! ```text
//! with a value     1, the normal form of the least value with 0xff after each zero octet, and two zero octets
//! without a value  2, because NULL is larger than all values (section 2.2)
//! ```
//!
//! All octets of a part are complemented if the order of its attribute is reversed.
//!
//! Only the first [`SORT_KEY_MAX`] octets of these parts are used. The entry id (8 octets) follows, so that all keys
//! differ, and entries with equal values are in order of ids. The id is complemented if the order of the first
//! attribute is reversed. Thus reversing the order of all attributes exactly reverses the order of the keys.

use std::ops::ControlFlow;

use schema::{AttributeDescription, AttributeType, MatchingRule, RuleUse, Schema};

use crate::access::EntryRights;
use crate::catalog::{Catalog, Shown};
use crate::filter::{Candidate, Compiler, Item, Subject, Term};
use crate::model::access_rule::READ;
use crate::model::entry::Content;
use crate::model::limits::{NAME_KEY_MAX, SORT_KEY_MAX, SORT_VALUES_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::TreeState;
use crate::tree::stored_values::for_each_value;

type Result<T> = std::result::Result<T, OperationError>;

/// Octets of an entry id.
const ID_SIZE: usize = size_of::<u64>();

/// Number of leading octets of a normal form by which value rows are certainly ordered. The keys of value rows contain
/// at least that many octets of the normal form.
const ORDERED_MAX: usize = NAME_KEY_MAX / 2;

/// One attribute to sort by.
pub(crate) struct SortKey {
    item: Item,
    pub(crate) description: AttributeDescription,
    pub(crate) rule: MatchingRule,
    pub(crate) is_reversed: bool,
}

/// Buffers for computing the keys of entries, and facts about the last key.
#[derive(Default)]
pub(crate) struct KeyBuffers {
    /// The key.
    pub(crate) key: Vec<u8>,
    normal: Vec<u8>,
    least: Vec<u8>,
    shown: Vec<u8>,
    /// Number of values that were examined. `octets` is their total length.
    pub(crate) values: usize,
    pub(crate) octets: usize,
    /// Whether the entry has more values than may be examined, so that the key may be wrong.
    pub(crate) is_cut: bool,
}

impl KeyBuffers {
    /// Returns the size of the heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let KeyBuffers { key, normal, least, shown, .. } = self;
        [key, normal, least, shown].map(Vec::capacity).iter().sum()
    }
}

/// Returns true if the order of the rule's normal forms is the order of the values.
pub(crate) fn orders(rule: MatchingRule) -> bool {
    matches!(rule.rule_use(), RuleUse::Ordering | RuleUse::Equality) && rule.is_order_preserving()
}

/// Returns the rule by which values of a type are sorted if a request names no rule. Types without an ordering rule can
/// be sorted too, because clients sort by them and most types of RFC 4519 have no ordering rule.
pub(crate) fn sort_rule(known: &AttributeType) -> Option<MatchingRule> {
    known.ordering.or(known.equality).filter(|rule| orders(*rule))
}

/// Writes the key of an entry into the buffers. If `rights` is given, only values that the requester may read are used.
pub(crate) fn make_key<'s>(
    keys: &[SortKey],
    state: TreeState<'s>,
    candidate: &Candidate<'s>,
    rights: Option<&EntryRights>,
    buffers: &mut KeyBuffers,
) -> Result<()> {
    buffers.key.clear();
    (buffers.values, buffers.octets, buffers.is_cut) = (0, 0, false);
    for by in keys {
        let is_there = by.find_least(state, candidate, rights, buffers)?;
        let KeyBuffers { key, least, .. } = buffers;
        by.put(is_there.then_some(least.as_slice()), key);
    }
    buffers.key.truncate(SORT_KEY_MAX);
    let id = if is_reversed(keys) { !candidate.id.0 } else { candidate.id.0 };
    buffers.key.extend_from_slice(&id.to_be_bytes());
    Ok(())
}

/// Returns the entry id at the end of a key.
pub(crate) fn id_of(keys: &[SortKey], key: &[u8]) -> EntryId {
    let id = key.last_chunk::<ID_SIZE>().map_or(0, |id| u64::from_be_bytes(*id));
    EntryId(if is_reversed(keys) { !id } else { id })
}

fn is_reversed(keys: &[SortKey]) -> bool {
    keys.first().is_some_and(|first| first.is_reversed)
}

impl SortKey {
    /// Returns true if entries may have values of the key's attribute from collective subentries.
    pub(crate) fn tests_collective(&self, state: TreeState<'_>) -> bool {
        self.item.tests_collective(state)
    }

    /// Returns the sort key for an attribute; `None` if its values cannot be sorted.
    pub(crate) fn of(
        compiler: &Compiler<'_>,
        description: AttributeDescription,
        (rule, is_reversed): (MatchingRule, bool),
    ) -> Option<SortKey> {
        match compiler.presence_of(description.clone()) {
            Term::Item(item) => Some(SortKey { item, description, rule, is_reversed }),
            _ => None,
        }
    }

    /// Adds attribute numbers that were allocated after the sort key was created.
    pub(crate) fn find_attributes(&mut self, catalog: &Catalog, shown: Shown) {
        self.item.find_attributes(catalog, shown);
    }

    /// Appends to a key the part for a value in normal form, or the part for a missing value.
    fn put(&self, value: Option<&[u8]>, key: &mut Vec<u8>) {
        let start = key.len();
        if let Some(value) = value {
            key.push(1);
            for octet in value.iter().take(SORT_KEY_MAX) {
                key.push(*octet);
                if *octet == 0 {
                    key.push(0xff);
                }
            }
            key.extend_from_slice(&[0, 0]);
        } else {
            key.push(2);
        }
        if self.is_reversed {
            key.iter_mut().skip(start).for_each(|octet| *octet = !*octet);
        }
    }

    /// Returns the part of a key for a value, for use as a bound. Entries that sort before the value have lower keys.
    /// Returns `None` if the value is invalid.
    pub(crate) fn key_of(&self, schema: &Schema, value: &[u8]) -> Option<Vec<u8>> {
        let (mut normal, mut key) = (Vec::new(), Vec::new());
        self.rule.normalize_assertion(schema, value, &mut normal).ok()?;
        self.put(Some(&normal), &mut key);
        key.truncate(SORT_KEY_MAX);
        Some(key)
    }

    /// Writes the normal form of the least readable value into the buffer. Returns false if the entry has no readable
    /// value.
    fn find_least<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        rights: Option<&EntryRights>,
        KeyBuffers { normal, least, shown, values, octets, is_cut, .. }: &mut KeyBuffers,
    ) -> Result<bool> {
        let schema = &state.catalog.schema;
        let (mut is_there, mut seen) = (false, 0);
        // Keeps the value if it is the least so far. Returns true if its first octets are greater than those of the
        // least value, so that all later values in the order of rows are greater too.
        let mut look = |value: &[u8]| {
            normal.clear();
            let is_value = self.rule.normalize(schema, value, normal).is_ok();
            let is_behind = is_value && is_there && beginning(normal) > beginning(least);
            if is_value && (!is_there || normal < least) {
                std::mem::swap(normal, least);
                is_there = true;
            }
            is_behind
        };
        let mut go_on = |value: &[u8]| {
            seen += 1;
            (*values, *octets) = (*values + 1, *octets + value.len());
            *is_cut |= seen > SORT_VALUES_MAX;
            if *is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let may_read = |type_id| rights.is_none_or(|rights| rights.has(READ, Some(type_id)));
        match &self.item.subject {
            Subject::Virtual(attribute) if !attribute.is_membership() => {
                if may_read(self.description.type_id) {
                    attribute.for_each_value(state, candidate.id, &candidate.node, &mut |value| {
                        look(value);
                        go_on(value)
                    })?;
                }
            }
            Subject::Virtual(_) | Subject::Any => {}
            Subject::Attribute(_) => {
                let mut rows = candidate.entry(state)?.attributes();
                while let Some(row) = rows.next_of(&self.item.attributes) {
                    let type_id = state.catalog.attribute(row.id).description.type_id;
                    let by_value = rights.and_then(|rights| rights.over_values(READ, type_id));
                    if by_value.is_none() && !may_read(type_id) {
                        continue;
                    }
                    // Values with rows of their own are read in the order of their keys.
                    let equality = state.catalog.attribute(row.id).equality;
                    let is_in_order = row.content == Content::Table
                        && equality.is_some_and(|equality| equality.shares_key_with(self.rule));
                    for_each_value(state, candidate.id, &row, &mut |value| {
                        if by_value.is_none_or(|rule| rule.allows(READ, type_id, schema, value, shown))
                            && look(value)
                            && is_in_order
                        {
                            return ControlFlow::Break(());
                        }
                        go_on(value)
                    })?;
                }
            }
        }
        Ok(is_there)
    }
}

/// Returns the leading octets of a normal form by which value rows are certainly ordered.
fn beginning(normal: &[u8]) -> &[u8] {
    normal.get(..ORDERED_MAX).unwrap_or(normal)
}
