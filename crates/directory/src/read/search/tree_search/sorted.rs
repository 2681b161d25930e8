//! A sorted search first keeps the sort keys of the results (see `sorting`). Then it examines the entries again in sort
//! order and writes them.

use ldap::{ListViewResult, ResultCode};

use super::TreeSearch;
use crate::catalog::Catalog;
use crate::model::outcome::OperationError;
use crate::read::controls::{ListViewOptions, SortOptions};
use crate::read::search::budget::Budget;
use crate::read::search::ordered::OrderedSearch;
use crate::read::search::plan::Plan;
use crate::read::search::scanner::{Reached, Scanner};
use crate::read::search::sorting::{SortOutcome, Sorting};
use crate::read::search::window::{WINDOW_TOO_LARGE, WindowError};
use crate::snapshot::Snapshot;

type Result<T> = std::result::Result<T, OperationError>;

impl TreeSearch {
    /// Sorts the results, if possible.
    pub(in crate::read::search) fn sort_by(
        &mut self,
        requested: &SortOptions,
        catalog: &Catalog,
    ) -> SortOutcome {
        match Sorting::of(requested, catalog, &self.scanner.rights) {
            Ok(mut sorting) => {
                sorting.room = room(self.tally.size_limit);
                self.sorting = Some(Box::new(sorting));
                SortOutcome::success()
            }
            Err(outcome) => outcome,
        }
    }

    /// Limits a sorted search to a page of up to `entries_max` results after the key `after`.
    pub(in crate::read::search) fn turn_to_sorted(&mut self, after: Option<Box<[u8]>>, entries_max: u32) {
        if after.is_some() {
            self.begins_later();
        }
        self.tally.size_limit = entries_max;
        if let Some(sorting) = &mut self.sorting {
            (sorting.room, sorting.after) = (room(entries_max), after);
        }
    }

    /// Limits a sorted search to a part of its results.
    pub(in crate::read::search) fn show(
        &mut self,
        requested: &ListViewOptions,
        catalog: &Catalog,
    ) -> std::result::Result<(), WindowError> {
        self.sorting.as_mut().map_or(Ok(()), |sorting| sorting.show(requested, catalog))
    }

    /// Takes the results from a sort order if that costs less than sorting. Call it after the page and the part of the
    /// list are set.
    ///
    /// # Errors
    /// The store failed.
    #[cold]
    pub(in crate::read::search) fn use_order(&mut self, snapshot: &Snapshot) -> Result<()> {
        let Some(sorting) = self.sorting.as_deref_mut() else { return Ok(()) };
        let Scanner { rights, filter, scope, plan, .. } = &self.scanner;
        let (state, size_limit) = (scope.seen_in(snapshot.state()), self.tally.size_limit);
        let search = OrderedSearch { state, rights, scope, filter, plan, size_limit };
        if let Some(traversal) = search.find_traversal(sorting)? {
            (sorting.traversal, sorting.is_complete) = (Some(traversal), true);
            self.scanner.examine_given_entries();
        }
        Ok(())
    }

    /// Returns true if the results come from a sort order.
    pub(in crate::read::search) fn uses_order(&self) -> bool {
        self.sorting.as_ref().is_some_and(|sorting| sorting.traversal.is_some())
    }

    /// Returns true if the results are exactly the entries of a sort order.
    pub(super) fn examines_results_only(&self) -> bool {
        let traversal = self.sorting.as_ref().and_then(|sorting| sorting.traversal.as_ref());
        traversal.is_some_and(|traversal| traversal.is_exact)
    }

    /// Returns the list view response; `None` until all results are known.
    pub(in crate::read::search) fn window(&self) -> Option<ListViewResult> {
        self.sorting.as_ref()?.window.as_ref()?.result()
    }

    /// Returns true if the results are sorted.
    pub(in crate::read::search) fn is_sorted(&self) -> bool {
        self.sorting.as_ref().is_some_and(|sorting| sorting.given_up.is_none())
    }

    /// Returns the reason why sorting was given up, if it was.
    pub(in crate::read::search) fn sorting_failure(&self) -> Option<&SortOutcome> {
        self.sorting.as_ref()?.given_up.as_ref()
    }

    /// Returns the sort key of the last result. The next page begins after it.
    pub(in crate::read::search) fn last_key(&self) -> Option<&[u8]> {
        self.sorting.as_ref().filter(|sorting| sorting.given_up.is_none())?.last.as_deref()
    }

    /// Runs one slice. Returns the result code after the last slice.
    #[cold]
    #[inline(never)]
    pub(super) fn run_sorted(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        let Some(sorting) = &mut self.sorting else { return Ok(None) };
        sorting.catch_up(snapshot.state().catalog, self.scanner.rights.shown());
        if sorting.is_complete {
            return self.send_sorted(snapshot, out, budget);
        }
        self.scanner.sorting = self.sorting.take();
        let reached = self.scanner.examine(snapshot, (self.next_id, u64::MAX), budget, out, &mut self.tally);
        self.sorting = self.scanner.sorting.take();
        let Some(sorting) = &mut self.sorting else { return Ok(None) };
        match reached? {
            Reached::Budget(next_id) | Reached::RangeEnd(next_id) => self.next_id = next_id,
            // `Giant` does not occur, because no result is written in this phase.
            Reached::End | Reached::Giant(_) => sorting.complete(),
            Reached::Full(_) => {
                sorting.clear();
                if sorting.window.is_some() {
                    return Err(WINDOW_TOO_LARGE.refusal());
                }
                if let Some(outcome) = sorting.given_up.as_ref().filter(|_| sorting.is_critical) {
                    return Err(outcome.refusal());
                }
                // The search starts again and sends its results unsorted.
                (self.next_id, self.tally.rejected_count) = (0, 0);
            }
        }
        Ok(None)
    }

    /// Writes the next results.
    fn send_sorted(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        let Some(sorting) = &mut self.sorting else { return Ok(None) };
        let ids = sorting.next_ids(snapshot.state())?;
        if ids.is_empty() {
            if sorting.is_cut {
                return Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED));
            }
            self.check_base(snapshot.state())?;
            return Ok(Some(ResultCode::SUCCESS));
        }
        let counted = (self.tally.examined_count, self.tally.rejected_count);
        let found = std::mem::replace(&mut self.scanner.plan, Plan::in_order(ids));
        let reached = self.scanner.examine(snapshot, (0, u64::MAX), budget, out, &mut self.tally);
        self.scanner.plan = found;
        let looked_at = self.tally.examined_count - counted.0;
        if sorting.traversal.is_none() {
            // The results were counted when they were found.
            (self.tally.examined_count, self.tally.rejected_count) = counted;
        }
        let reached = reached?;
        // If the page is full, the last result examined did not fit. That result belongs to the next page.
        let done = looked_at - u64::from(matches!(reached, Reached::Full(_)));
        sorting.done(usize::try_from(done).unwrap_or(usize::MAX));
        match reached {
            Reached::Budget(_) | Reached::RangeEnd(_) | Reached::End => Ok(None),
            Reached::Giant(id) => self.begin_stream(snapshot, id).map(|()| None),
            Reached::Full(_) => Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED)),
        }
    }
}

/// Converts a size limit to a number of results.
fn room(size_limit: u32) -> usize {
    if size_limit == 0 { usize::MAX } else { size_limit as usize }
}
