//! Sorted results (RFC 2891).
//!
//! A match is not written at once. Instead, its sort key is added to a set. The size of the set is limited to the
//! number of results to return: the size of a page, or the size limit. When all candidates are examined, the entries
//! in the set are examined again in sort order, because they may have changed. Entries that still match are written.
//! The server keeps no state between pages. The cookie contains the last key of a page, and the next page has the
//! first results after that key.
//!
//! `index::sort_key` makes the sort keys. If a sort order in the settings has the same keys, the results come from that
//! order and no set is needed: see [`super::ordered`].

use std::collections::{BTreeSet, VecDeque};

use ldap::{ResultCode, SORT_KEYS_MAX};
use schema::MatchingRule;

use super::order_traversal::OrderTraversal;
use super::window::{Window, WindowError};
use crate::access::{EffectiveRights, EntryRights};
use crate::catalog::{Catalog, Shown};
use crate::filter::{Candidate, Compiler};
use crate::index::sort_key::{KeyBuffers, SortKey, id_of, make_key, orders, sort_rule};
use crate::model::limits::{SORT_BYTES_MAX, SORT_VALUES_MAX, STREAMED_PER_ENTRY};
use crate::model::outcome::OperationError;
use crate::read::controls::{ListViewOptions, RequestedSortKey, SortOptions};
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Approximate memory for a key in the set, in addition to the octets of the key, in bytes.
const KEPT_BYTES: usize = 48;

/// Number of octets of values that cost as much as one candidate.
const OCTETS_PER_ENTRY: usize = 512;

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

    /// Returns the outcome for a page that must not be sorted because the previous page was not sorted.
    pub(super) fn as_before() -> SortOutcome {
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, "the pages before are not sorted")
    }

    fn too_many_values() -> SortOutcome {
        let text = format!("there is an entry with more than {SORT_VALUES_MAX} values to find the least of");
        SortOutcome::not(ResultCode::ADMIN_LIMIT_EXCEEDED, &text)
    }

    /// Returns the error for a client whose sort control is critical (section 2, scenario 3).
    pub(super) fn refusal(&self) -> OperationError {
        let text = format!("critical control server-side sorting: {}", self.text);
        OperationError::refused(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text)
    }
}

/// A search that sorts.
pub(super) struct Sorting {
    pub(super) by: Vec<SortKey>,
    pub(super) is_critical: bool,
    /// Number of attributes of the catalog when the keys were resolved.
    attribute_count: usize,
    /// Sort keys of the results to return: the lowest keys found so far.
    first: BTreeSet<Box<[u8]>>,
    /// Memory of the kept keys, in bytes.
    bytes: usize,
    /// Maximum number of keys in `first`.
    pub(super) room: usize,
    /// Key after which the results start; `None` on the first page.
    pub(super) after: Option<Box<[u8]>>,
    /// Whether more than `room` results were found.
    pub(super) is_cut: bool,
    /// Whether all candidates were examined, so that the results can be sent.
    pub(super) is_complete: bool,
    /// Reason why sorting was given up and the results are sent unsorted.
    pub(super) given_up: Option<SortOutcome>,
    /// Number of results found so far. `results_max` limits this number, because even a page of ten results may require
    /// sorting millions.
    result_count: u64,
    results_max: u64,
    /// Part of the results to send; `None` for all.
    pub(super) window: Option<Box<Window>>,
    /// Results to send next.
    coming: VecDeque<Box<[u8]>>,
    /// Key of the last result that was sent or was omitted because it no longer matched.
    pub(super) last: Option<Box<[u8]>>,
    /// Traversal of a sort order of the settings, if that order supplies the results; `None` if the search sorts the
    /// results itself.
    pub(super) traversal: Option<OrderTraversal>,
    buffers: KeyBuffers,
}

/// Checks one sort key of a request.
fn sort_key(
    requested: &RequestedSortKey,
    compiler: &Compiler<'_>,
) -> std::result::Result<SortKey, SortOutcome> {
    let wrong = |code, text: &str| SortOutcome {
        code,
        attribute: Some(requested.attribute.clone()),
        text: format!("{:?} {text}", ldap::Excerpt(&requested.attribute)),
    };
    // An attribute that the requester may not search is treated as if the schema lacked it.
    let Some(description) = compiler.readable(&requested.attribute) else {
        return Err(wrong(ResultCode::NO_SUCH_ATTRIBUTE, "is no attribute type"));
    };
    let schema = &compiler.catalog.schema;
    let known = schema.type_by_id(description.type_id);
    let rule = match &requested.rule {
        Some(name) => MatchingRule::find(name)
            .filter(|rule| schema.rule_applies(*rule, known))
            .filter(|rule| orders(*rule)),
        None => sort_rule(known),
    };
    let Some(rule) = rule else {
        return Err(wrong(ResultCode::INAPPROPRIATE_MATCHING, "has no such rule to sort by"));
    };
    SortKey::of(compiler, description, (rule, requested.reverse))
        .ok_or_else(|| wrong(ResultCode::UNWILLING_TO_PERFORM, "has no values to sort by"))
}

impl Sorting {
    /// Checks whether the results can be sorted as requested.
    pub(super) fn of(
        requested: &SortOptions,
        catalog: &Catalog,
        rights: &EffectiveRights,
    ) -> std::result::Result<Sorting, SortOutcome> {
        let unwilling = |text: &str| SortOutcome::not(ResultCode::UNWILLING_TO_PERFORM, text);
        if requested.keys.len() > SORT_KEYS_MAX {
            return Err(unwilling(&format!("results are sorted by at most {SORT_KEYS_MAX} keys")));
        }
        let compiler = rights.compiler(catalog);
        let mut by: Vec<SortKey> = Vec::with_capacity(requested.keys.len());
        for key in &requested.keys {
            let next = sort_key(key, &compiler)?;
            if by.iter().any(|other| other.description == next.description) {
                let attribute = Some(key.attribute.clone());
                return Err(SortOutcome { attribute, ..unwilling("an attribute is given twice") });
            }
            by.push(next);
        }
        Ok(Sorting {
            by,
            is_critical: requested.is_critical,
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
            traversal: None,
            buffers: KeyBuffers::default(),
        })
    }

    /// Returns the memory that the sorting uses, without itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let buffers = self.buffers.heap_bytes();
        let places = [&self.after, &self.last].into_iter().flatten().map(|key| key.len()).sum::<usize>();
        self.bytes + buffers + places + self.by.capacity() * size_of::<SortKey>()
    }

    /// Updates the sort keys with matching attributes that were added to the catalog since the search began.
    pub(super) fn catch_up(&mut self, catalog: &Catalog, shown: Shown) {
        if catalog.attributes().len() != self.attribute_count {
            self.attribute_count = catalog.attributes().len();
            self.by.iter_mut().for_each(|by| by.find_attributes(catalog, shown));
        }
    }

    /// Keeps the key of a result if the result may be among the results to return. Returns the cost as a number of
    /// candidates; `None` if sorting is given up.
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
        make_key(&self.by, state, candidate, rights, &mut self.buffers)?;
        if self.buffers.is_cut {
            self.given_up = Some(SortOutcome::too_many_values());
            return Ok(None);
        }
        let cost = self.buffers.values / STREAMED_PER_ENTRY + self.buffers.octets / OCTETS_PER_ENTRY;
        let cost = Some(u32::try_from(cost).unwrap_or(u32::MAX));
        let key = &self.buffers.key;
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

    /// Gives up sorting if the keys use too much memory. Returns `cost`, or `None` if sorting was given up.
    fn within_bounds(&mut self, cost: Option<u32>) -> Option<u32> {
        if self.bytes > SORT_BYTES_MAX {
            self.given_up = Some(SortOutcome::too_much());
        }
        cost.filter(|_| self.given_up.is_none())
    }

    /// Limits the results to a part of the list.
    ///
    /// # Errors
    /// The requested part is invalid for any list.
    pub(super) fn show(
        &mut self,
        requested: &ListViewOptions,
        catalog: &Catalog,
    ) -> std::result::Result<(), WindowError> {
        let window = Window::of(requested, |value| {
            self.by.first()?.key_of(&catalog.schema, value).map(Vec::into_boxed_slice)
        })?;
        self.room = window.room();
        self.window = Some(Box::new(window));
        Ok(())
    }

    /// Records that all candidates are examined, so that the results can be sent.
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
    ///
    /// # Errors
    /// busy if the sort order no longer exists; the store failed.
    pub(super) fn next_ids(&mut self, state: TreeState<'_>) -> Result<Vec<u64>> {
        if self.coming.is_empty() {
            match &mut self.traversal {
                Some(traversal) => {
                    let keys = traversal.next_keys(state, self.last.as_deref(), TAKEN)?;
                    self.bytes += keys.iter().map(|key| KEPT_BYTES + key.len()).sum::<usize>();
                    self.coming.extend(keys);
                }
                None => self.coming.extend(std::iter::from_fn(|| self.first.pop_first()).take(TAKEN)),
            }
        }
        Ok(self.coming.iter().map(|key| id_of(&self.by, key).0).collect())
    }

    /// Records that the first `count` of the next results were sent or no longer match.
    pub(super) fn done(&mut self, count: usize) {
        for key in self.coming.drain(..count.min(self.coming.len())) {
            self.bytes -= KEPT_BYTES + key.len();
            self.last = Some(key);
        }
    }
}
