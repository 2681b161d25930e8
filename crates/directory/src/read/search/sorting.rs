//! Sorted results (RFC 2891).
//!
//! A match is not written at once. Its key is kept in a set that never exceeds the number of results to return: a page,
//! or the size limit. When all candidates are examined, the entries of the set are examined again in their order,
//! because they may have changed, and written. No state remains between pages: a page has the first results after the
//! last key of the previous page, which is in the cookie.
//!
//! A key is a string of octets that compare as the results do. For each sort key:
//!
//! ```text
//! 1, the normal form of the least value, of which the first SORT_VALUE_MAX octets count, with 0xff after each zero
//! octet, and two zero octets. Or 2, if there is no value: NULL is larger than all others (section 2.2).
//! All of it complemented if the order is reversed.
//! ```
//!
//! The entry id (8 octets) comes last, so that all keys differ and equal results are in order of ids.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use ldap::{ResultCode, SORT_KEYS_MAX};
use schema::{AttributeDescription, MatchingRule, RuleUse, Schema};

use super::window::{Key, Window, WindowError};
use crate::access::{EffectiveRights, EntryRights};
use crate::catalog::{Catalog, Shown};
use crate::filter::{Candidate, Compiler, Item, Subject, Term};
use crate::model::access_rule::READ;
use crate::model::entry::Content;
use crate::model::limits::{
    NAME_KEY_MAX, SORT_BYTES_MAX, SORT_VALUE_MAX, SORT_VALUES_MAX, STREAMED_PER_ENTRY,
};
use crate::model::outcome::OperationError;
use crate::read::controls::{ListViewOptions, RequestedSortKey, SortOptions};
use crate::tree::TreeState;
use crate::tree::stored_values::for_each_value;

type Result<T> = std::result::Result<T, OperationError>;

/// Octets of an entry id.
const ID_SIZE: usize = size_of::<u64>();

/// Approximate bytes of a kept key in addition to its octets.
const KEPT_BYTES: usize = 48;

/// Octets of values that cost as much as one candidate.
const OCTETS_PER_ENTRY: usize = 512;

/// Octets of a normal form by which values in rows of their own are certainly in order: the keys of rows are longer.
const ORDERED_MAX: usize = NAME_KEY_MAX / 2;

/// Number of results taken out of the set at a time.
const TAKEN: usize = 256;

/// Result of the sort request, which the response control reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortOutcome {
    /// Success, or the reason for failure.
    pub(super) code: ResultCode,
    /// The attribute that caused the failure.
    pub(super) attribute: Option<String>,
    /// Text of the failure.
    pub(super) text: String,
}

impl SortOutcome {
    pub(super) fn success() -> SortOutcome {
        SortOutcome::not(ResultCode::SUCCESS, "")
    }

    pub(super) fn not(code: ResultCode, text: &str) -> SortOutcome {
        SortOutcome { code, attribute: None, text: text.to_owned() }
    }

    fn too_much() -> SortOutcome {
        let text = format!(
            "sorting takes more than the {} KiB that a search has for it: ask in small pages (RFC 2696) or for less",
            SORT_BYTES_MAX >> 10
        );
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, &text)
    }

    fn too_many(max: u64) -> SortOutcome {
        let text = format!(
            "there are more results than the {max} that are sorted (limits.unindexed_examined, or limit.examined of \
             the node file): ask for less"
        );
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, &text)
    }

    /// Returns the outcome for a page that follows unsorted pages.
    pub(super) fn as_before() -> SortOutcome {
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, "the pages before are not sorted")
    }

    fn too_many_values() -> SortOutcome {
        let text = format!("there is an entry with more than {SORT_VALUES_MAX} values to find the least of");
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, &text)
    }

    /// Returns the error for a client that requires sorted results (section 2, scenario 3).
    pub(super) fn refusal(&self) -> OperationError {
        let text = format!("critical control server-side sorting: {}", self.text);
        OperationError::refused(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text)
    }
}

/// One sort key.
struct SortBy {
    item: Item,
    description: AttributeDescription,
    rule: MatchingRule,
    is_reversed: bool,
}

/// A search that sorts.
pub(super) struct Sorting {
    by: Vec<SortBy>,
    pub(super) is_critical: bool,
    /// Number of attributes of the catalog that are taken into account.
    attribute_count: usize,
    /// Keys of the first results.
    first: BTreeSet<Box<[u8]>>,
    /// Bytes of memory of these keys.
    bytes: usize,
    /// Maximum number of keys.
    pub(super) room: usize,
    /// Results follow this key.
    pub(super) after: Option<Box<[u8]>>,
    /// Whether there were more results than room.
    pub(super) is_cut: bool,
    /// Whether all candidates were examined, so that the results can be sent.
    pub(super) is_complete: bool,
    /// Reason why the results are sent unsorted after all.
    pub(super) given_up: Option<SortOutcome>,
    /// Number of results so far, and the most that are sorted for the requester: a page of ten may be one of millions.
    result_count: u64,
    results_max: u64,
    /// Part of the results to send; `None` for all.
    pub(super) window: Option<Box<Window>>,
    /// Results to send next.
    coming: VecDeque<Box<[u8]>>,
    /// Last result that was sent, or that no longer matched.
    pub(super) last: Option<Box<[u8]>>,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    normal: Vec<u8>,
    least: Vec<u8>,
    shown: Vec<u8>,
    /// Number of values of the last entry that were examined, and their octets.
    values: usize,
    octets: usize,
    /// Whether there were more values than are examined.
    is_cut: bool,
}

impl SortBy {
    fn of(asked: &RequestedSortKey, compiler: &Compiler<'_>) -> std::result::Result<SortBy, SortOutcome> {
        let wrong = |code, text: &str| SortOutcome {
            code,
            attribute: Some(asked.attribute.clone()),
            text: format!("{:?} {text}", ldap::Excerpt(&asked.attribute)),
        };
        // An attribute that the requester may not search is treated as unknown to the schema.
        let Some(description) = compiler.readable(&asked.attribute) else {
            return Err(wrong(ResultCode::NO_SUCH_ATTRIBUTE, "is no attribute type"));
        };
        let schema = &compiler.catalog.schema;
        let known = schema.type_by_id(description.type_id);
        let rule = match &asked.rule {
            Some(name) => MatchingRule::find(name).filter(|rule| schema.rule_applies(*rule, known)),
            // Most types of RFC 4519 have no ordering rule, and clients sort by them all the same.
            None => known.ordering.or(known.equality),
        };
        let orders = |rule: &MatchingRule| {
            matches!(rule.rule_use(), RuleUse::Ordering | RuleUse::Equality) && rule.is_order_preserving()
        };
        let Some(rule) = rule.filter(orders) else {
            return Err(wrong(ResultCode::INAPPROPRIATE_MATCHING, "has no such rule to sort by"));
        };
        match compiler.presence_of(description.clone()) {
            Term::Item(item) => Ok(SortBy { item, description, rule, is_reversed: asked.reverse }),
            _ => Err(wrong(ResultCode::UNWILLING_TO_PERFORM, "has no values to sort by")),
        }
    }

    /// Appends the key of an entry.
    fn put_key<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        rights: Option<&EntryRights>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let is_there = self.find_least(state, candidate, rights, buffers)?;
        let Buffers { key, least, .. } = buffers;
        self.put(is_there.then_some(least.as_slice()), key);
        Ok(())
    }

    /// Appends the key of a value in normal form, or of a missing value.
    fn put(&self, value: Option<&[u8]>, key: &mut Vec<u8>) {
        let start = key.len();
        if let Some(value) = value {
            key.push(1);
            for octet in value.iter().take(SORT_VALUE_MAX) {
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

    /// Returns the key of a value; the keys of all entries with lower values are less. Returns `None` if the value is
    /// invalid.
    fn key_of(&self, schema: &Schema, value: &[u8]) -> Option<Key> {
        let (mut normal, mut key) = (Vec::new(), Vec::new());
        self.rule.normalize_assertion(schema, value, &mut normal).ok()?;
        self.put(Some(&normal), &mut key);
        Some(key.into())
    }

    /// Puts the normal form of the least readable value into the buffer. Returns false if there is none.
    fn find_least<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        rights: Option<&EntryRights>,
        Buffers { normal, least, shown, values, octets, is_cut, .. }: &mut Buffers,
    ) -> Result<bool> {
        let schema = &state.catalog.schema;
        let (mut is_there, mut seen) = (false, 0);
        // Compares the value with the least one by its first octets.
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
                    // Values in rows of their own are in the order of their keys.
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

impl Sorting {
    /// Checks whether the results can be sorted as requested.
    pub(super) fn of(
        asked: &SortOptions,
        catalog: &Catalog,
        rights: &EffectiveRights,
    ) -> std::result::Result<Sorting, SortOutcome> {
        let unwilling = |text: &str| SortOutcome::not(ResultCode::UNWILLING_TO_PERFORM, text);
        if asked.keys.len() > SORT_KEYS_MAX {
            return Err(unwilling(&format!("results are sorted by at most {SORT_KEYS_MAX} keys")));
        }
        let compiler = rights.compiler(catalog);
        let mut by: Vec<SortBy> = Vec::with_capacity(asked.keys.len());
        for key in &asked.keys {
            let next = SortBy::of(key, &compiler)?;
            if by.iter().any(|other| other.description == next.description) {
                let attribute = Some(key.attribute.clone());
                return Err(SortOutcome { attribute, ..unwilling("an attribute is given twice") });
            }
            by.push(next);
        }
        Ok(Sorting {
            by,
            is_critical: asked.is_critical,
            attribute_count: catalog.attributes().len(),
            first: BTreeSet::new(),
            bytes: 0,
            room: usize::MAX,
            after: None,
            is_cut: false,
            is_complete: false,
            given_up: None,
            result_count: 0,
            results_max: rights.examined_max(),
            window: None,
            coming: VecDeque::new(),
            last: None,
            buffers: Buffers::default(),
        })
    }

    /// Returns the bytes of memory that it holds, without itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let Buffers { key, normal, least, shown, .. } = &self.buffers;
        let buffers = [key, normal, least, shown].map(Vec::capacity).iter().sum::<usize>();
        let places = [&self.after, &self.last].into_iter().flatten().map(|key| key.len()).sum::<usize>();
        self.bytes + buffers + places + self.by.capacity() * size_of::<SortBy>()
    }

    /// Adds attributes that received their numbers after the start.
    pub(super) fn catch_up(&mut self, catalog: &Catalog, shown: Shown) {
        if catalog.attributes().len() != self.attribute_count {
            self.attribute_count = catalog.attributes().len();
            self.by.iter_mut().for_each(|by| by.item.find_attributes(catalog, shown));
        }
    }

    /// Keeps a result if it is among the first. Returns the cost in candidates; `None` if the sorting gives up.
    pub(super) fn keep<'s>(
        &mut self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        rights: Option<&EntryRights>,
    ) -> Result<Option<u32>> {
        self.result_count += 1;
        if self.result_count > self.results_max {
            self.given_up = Some(SortOutcome::too_many(self.results_max));
            return Ok(None);
        }
        self.buffers.key.clear();
        (self.buffers.values, self.buffers.octets, self.buffers.is_cut) = (0, 0, false);
        for by in &self.by {
            by.put_key(state, candidate, rights, &mut self.buffers)?;
        }
        if self.buffers.is_cut {
            self.given_up = Some(SortOutcome::too_many_values());
            return Ok(None);
        }
        let cost = self.buffers.values / STREAMED_PER_ENTRY + self.buffers.octets / OCTETS_PER_ENTRY;
        let cost = Some(u32::try_from(cost).unwrap_or(u32::MAX));
        let key = &mut self.buffers.key;
        key.extend_from_slice(&candidate.id.0.to_be_bytes());
        if self.after.as_deref().is_some_and(|after| **key <= *after) {
            return Ok(cost);
        }
        if let Some(window) = self.window.as_deref_mut().filter(|window| window.takes(key)) {
            let (came, went) = window.take(key);
            self.bytes += came.map_or(0, |len| KEPT_BYTES + len);
            self.bytes -= went.map_or(0, |len| KEPT_BYTES + len);
            return Ok(self.within_bounds(cost));
        }
        if self.first.len() >= self.room {
            self.is_cut = true;
            if self.first.last().is_some_and(|last| **last <= **key) {
                return Ok(cost);
            }
            if let Some(last) = self.first.pop_last() {
                self.bytes -= KEPT_BYTES + last.len();
            }
        }
        self.bytes += KEPT_BYTES + key.len();
        self.first.insert(key.as_slice().into());
        Ok(self.within_bounds(cost))
    }

    /// Returns the cost of a result; `None` if too much memory is used.
    fn within_bounds(&mut self, cost: Option<u32>) -> Option<u32> {
        if self.bytes > SORT_BYTES_MAX {
            self.given_up = Some(SortOutcome::too_much());
        }
        cost.filter(|_| self.given_up.is_none())
    }

    /// Limits the results to a part of the list.
    ///
    /// # Errors
    /// There is no such part.
    pub(super) fn show(
        &mut self,
        asked: &ListViewOptions,
        catalog: &Catalog,
    ) -> std::result::Result<(), WindowError> {
        let window = Window::of(asked, |value| self.by.first()?.key_of(&catalog.schema, value))?;
        self.room = window.room();
        self.window = Some(Box::new(window));
        Ok(())
    }

    /// Marks all candidates as examined, so that the results can be sent.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
        if let Some(window) = &mut self.window {
            window.settle(&mut self.first, self.result_count);
            self.is_cut = false;
            self.bytes = self.first.iter().map(|key| KEPT_BYTES + key.len()).sum();
        }
    }

    /// Drops all kept keys.
    pub(super) fn clear(&mut self) {
        (self.first, self.bytes) = (BTreeSet::new(), 0);
    }

    /// Returns the ids of the next results.
    pub(super) fn next_ids(&mut self) -> Vec<u64> {
        if self.coming.is_empty() {
            self.coming.extend(std::iter::from_fn(|| self.first.pop_first()).take(TAKEN));
        }
        self.coming.iter().map(|key| id_of(key)).collect()
    }

    /// Records that `count` of them were sent or no longer match.
    pub(super) fn done(&mut self, count: usize) {
        for key in self.coming.drain(..count.min(self.coming.len())) {
            self.bytes -= KEPT_BYTES + key.len();
            self.last = Some(key);
        }
    }
}

/// Returns the octets of a normal form by which rows are ordered.
fn beginning(normal: &[u8]) -> &[u8] {
    normal.get(..ORDERED_MAX).unwrap_or(normal)
}

/// Returns the id at the end of a key.
fn id_of(key: &[u8]) -> u64 {
    key.last_chunk::<ID_SIZE>().map_or(0, |id| u64::from_be_bytes(*id))
}
