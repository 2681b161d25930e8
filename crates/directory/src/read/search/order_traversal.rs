//! Traversal of a sort order, a limited number of keys at a time.

use std::ops::Bound;

use ldap::ResultCode;
use store::Direction;

use crate::catalog::sort_orders::{SortOrder, SortOrderRule};
use crate::index::sort_orders::rows_of;
use crate::model::index_definition::Phase;
use crate::model::outcome::OperationError;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// State of the traversal of a sort order by a search.
pub(super) struct OrderTraversal {
    pub(super) number: u32,
    pub(super) is_reversed: bool,
    /// Bound at which the traversal starts.
    pub(super) start: Bound<Vec<u8>>,
    /// Number of keys to take.
    pub(super) left: u64,
    /// Whether the entries of the order are exactly the results, so that every entry examined is a result.
    pub(super) is_exact: bool,
}

impl OrderTraversal {
    /// Returns the keys after `last`; without `last`, the keys from the start.
    ///
    /// # Errors
    /// busy if the sort order no longer exists; the store failed.
    pub(super) fn next_keys(
        &mut self,
        state: TreeState<'_>,
        last: Option<&[u8]>,
        keys_max: usize,
    ) -> Result<Vec<Box<[u8]>>> {
        if !complete(state).any(|(order, _)| order.number == self.number) {
            return Err(OperationError::refused(
                ResultCode::BUSY,
                "the sort order was dropped while this search ran: ask again",
            ));
        }
        let last = last.map(|last| Bound::Excluded(self.turned(last)));
        let near = last.as_ref().unwrap_or(&self.start).as_ref().map(Vec::as_slice);
        let direction = if self.is_reversed { Direction::Backward } else { Direction::Forward };
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(keys_max);
        let rows = rows_of(self.number);
        let keys = rows.members(state.read, near, direction).take(count);
        let keys: Vec<Box<[u8]>> =
            keys.map(|key| Ok(self.turned(key?).into_boxed_slice())).collect::<Result<_>>()?;
        self.left -= keys.len() as u64;
        Ok(keys)
    }

    /// Converts a key of the sort order to a key of the results, or back. The two keys differ if the direction is
    /// reversed.
    pub(super) fn turned(&self, key: &[u8]) -> Vec<u8> {
        key.iter().map(|octet| if self.is_reversed { !octet } else { *octet }).collect()
    }
}

/// Returns the sort orders whose rows are all built.
pub(super) fn complete<'s>(state: TreeState<'s>) -> impl Iterator<Item = (&'s SortOrder, &'s SortOrderRule)> {
    let orders = state.catalog.sort_orders.iter().filter(|order| order.row.phase == Phase::Complete);
    orders.filter_map(|order| Some((order, order.rule.as_ref()?)))
}
