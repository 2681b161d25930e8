//! Dynamic groups as sources of candidates: the entries that searches with their URLs find.

use ldap::Scope;

use super::{KeyRange, Narrowed, Planner, Result};
use crate::filter::Item;
use crate::filter::described::{Described, base_of, compiled, groups_toward};
use crate::model::dynamic_groups::MemberUrl;
use crate::model::limits::{COLLECTED_IDS_MAX, SUBTREE_WALKED_MAX};
use crate::model::rows::{EntryId, children_counter, subtree_counter};
use crate::tree::node;

impl Planner<'_> {
    /// Adds to the stored members of the asserted group the entries that dynamic groups describe. These dynamic groups
    /// are the asserted group itself and, if nested groups count, the groups that are its members directly or through
    /// other groups.
    #[inline]
    pub(super) fn with_described(
        &self,
        stored: Option<Narrowed>,
        item: &Item,
        of: (bool, u64),
    ) -> Result<Option<Narrowed>> {
        match self.is_of_member_url || self.state.catalog.dynamic_groups.is_empty() {
            true => Ok(stored),
            false => self.add_described(stored, item, of),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_described(
        &self,
        stored: Option<Narrowed>,
        item: &Item,
        (is_nested, limit): (bool, u64),
    ) -> Result<Option<Narrowed>> {
        let Some(mut all) = stored else { return Ok(None) };
        for group in groups_toward(self.state, item, is_nested)? {
            for url in &group.urls {
                let Some(narrowed) = self.narrow_url(url, limit.saturating_sub(all.count))? else {
                    return Ok(None);
                };
                all.add(narrowed);
                if all.ids.len() > COLLECTED_IDS_MAX {
                    return Ok(None);
                }
                // Candidates may come from the filter of the URL alone and lie outside its scope.
                all.is_exact = false;
            }
        }
        Ok(all.within(limit))
    }

    /// Adds the dynamic groups that may describe the asserted entry: the groups with a URL whose scope contains the
    /// entry.
    #[cold]
    #[inline(never)]
    pub(super) fn add_describing(&self, all: &mut Narrowed, item: &Item) -> Result<()> {
        let Some(member) = item.target.as_ref().and_then(|target| target.entry) else { return Ok(()) };
        let Some(row) = node(self.state.read, member)? else { return Ok(()) };
        // A candidate need not match the filter of the URL.
        all.is_exact = false;
        let mut described = Described::new(self.state, (member, &row), None);
        for group in self.state.catalog.dynamic_groups.iter() {
            if described.is_in_a_scope(group)? {
                all.ids.push(group.id.0);
                all.count += 1;
            }
        }
        Ok(())
    }

    /// Returns the candidates for a URL, from its filter or from its scope, whichever has fewer.
    fn narrow_url(&self, url: &MemberUrl, limit: u64) -> Result<Option<Narrowed>> {
        let Some(base) = base_of(self.state, url)? else { return Ok(Some(Narrowed::default())) };
        if url.scope == Scope::BaseObject {
            return Ok(Some(Narrowed { ids: vec![base.0], count: 1, ..Narrowed::default() }));
        }
        let by_filter =
            Planner { is_of_member_url: true, ..*self }.narrow(&compiled(self.state, url)?, limit)?;
        let limit = by_filter.as_ref().map_or(limit, |narrowed| narrowed.count);
        let counter = match url.scope {
            Scope::SingleLevel => children_counter(base),
            _ if base == EntryId::ROOT => return Ok(by_filter),
            _ => subtree_counter(base),
        };
        let count = self.state.read.count(&counter)? as u64 + 1;
        if count >= limit.min(SUBTREE_WALKED_MAX) {
            return Ok(by_filter);
        }
        let mut all = Narrowed { count, ..Narrowed::default() };
        match url.scope {
            Scope::SingleLevel => all.ranges.push(KeyRange::children(base)),
            _ => self.add_subtree(base, &mut all.ids)?,
        }
        Ok(Some(all))
    }
}
