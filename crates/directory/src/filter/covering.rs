//! The entries that a rule of the settings covers, in one state of the directory.

use super::{Candidate, Compiler, Matcher, Term, Truth};
use crate::catalog::Shown;
use crate::catalog::covered_entries::CoveredEntries;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::{TreeState, damaged_row};

/// Base and filter of a rule, resolved for one state.
pub(crate) struct Covering {
    /// The filter, if the rule has one.
    pub(crate) filter: Option<Term>,
    has_base: bool,
    /// The base entry, if it exists.
    base: Option<EntryId>,
}

impl Covering {
    pub(crate) fn of(state: TreeState<'_>, covered: &CoveredEntries) -> Result<Covering, OperationError> {
        let compiler = Compiler { catalog: state.catalog, shown: Shown::Plain, known: None };
        let base = covered.base.as_ref().map(|name| state.entry_of(name)).transpose()?;
        Ok(Covering {
            filter: covered.filter.as_ref().map(|filter| compiler.compile(filter.as_filter())),
            has_base: base.is_some(),
            base: base.flatten(),
        })
    }

    /// Returns true if the rule covers an entry.
    pub(crate) fn covers(&self, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        Ok(self.has_in_base(state, id)? && self.matches(state, id)?)
    }

    /// Returns true if an entry is at or below the base, or the rule has no base.
    pub(crate) fn has_in_base(&self, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        match self.base {
            Some(base) => state.is_at_or_below(id, base),
            None => Ok(!self.has_base),
        }
    }

    /// Returns true if an entry is the base.
    pub(crate) fn has_as_base(&self, id: EntryId) -> bool {
        self.base == Some(id)
    }

    /// Returns true if an entry matches the filter, or if there is no filter.
    pub(crate) fn matches(&self, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
        let candidate = Candidate::new(id, node);
        Ok(Matcher::new(Shown::Plain).truth(filter, state.as_stored(), &candidate)? == Truth::True)
    }
}
