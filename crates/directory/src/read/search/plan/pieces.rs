//! Candidates from index keys that are parts of values: grams for inner substrings, and sounds for approximate matches.
//! The keys for presence tests are in the same map.
//!
//! A matching entry is listed under all keys that the filter requires. Therefore the shortest posting is read, and its
//! ids are looked up in the other postings. Entries with values too long to be split are listed under a special key.
//! The ids under that key are always candidates.

use schema::{MatchingRule, SubstringAssertion};

use super::ranges::KeyRange;
use super::{FEW, Narrowed, Planner, Result, to_usize};
use crate::catalog::AttributeDef;
use crate::filter::Item;
use crate::index::keys::{NeededGrams, needed_grams};
use crate::model::index_definition::IndexPart;
use crate::model::limits::{COLLECTED_IDS_MAX, ITEM_LOOKUPS_MAX, POSTINGS_INTERSECTED_MAX};
use crate::model::rows::{AttrId, PIECES};

impl Planner<'_> {
    /// Narrows to the entries whose values may contain all parts of a substring filter, by the grams of these parts.
    pub(super) fn narrow_grams(
        &self,
        item: &Item,
        rule: MatchingRule,
        assertion: &SubstringAssertion,
        limit: u64,
    ) -> Result<Option<Narrowed>> {
        let is_of_rule = |def: &AttributeDef| {
            def.index.answers(IndexPart::Grams)
                && def.index.gram_rule.is_some_and(|own| own.shares_key_with(rule))
        };
        let Some(bases) = self.bases(item, is_of_rule) else { return Ok(None) };
        let mut all = Narrowed::default();
        match needed_grams(assertion.pieces()) {
            NeededGrams::Nothing => return Ok(None),
            NeededGrams::Beginning(head) => {
                for &base in bases.iter() {
                    self.add_posting(&mut all, PIECES, &IndexPart::Grams.key_prefix(base))?;
                    self.add_range(&mut all, limit, || KeyRange::of_gram(base, &head))?;
                }
            }
            NeededGrams::All(grams) => {
                for &base in bases.iter() {
                    self.add_all_of(&mut all, IndexPart::Grams, base, &grams)?;
                }
            }
        }
        Ok(all.within(limit))
    }

    /// Narrows to the entries with a value that may have words with all of the sounds `codes`.
    pub(super) fn narrow_sounds(
        &self,
        item: &Item,
        codes: &[String],
        limit: u64,
    ) -> Result<Option<Narrowed>> {
        let Some(bases) = self.bases(item, |def| def.index.answers(IndexPart::Sounds)) else {
            return Ok(None);
        };
        let codes: Vec<Vec<u8>> = codes.iter().map(|code| code.as_bytes().to_vec()).collect();
        let mut all = Narrowed::default();
        for &base in bases.iter() {
            self.add_all_of(&mut all, IndexPart::Sounds, base, &codes)?;
        }
        Ok(all.within(limit))
    }

    /// Narrows to the entries that have one of an item's attributes, if presence is indexed.
    pub(super) fn narrow_presence(
        &self,
        item: &Item,
        is_exact: bool,
        limit: u64,
    ) -> Result<Option<Narrowed>> {
        let Some(bases) = self.bases(item, |def| def.index.answers(IndexPart::Presence)) else {
            return Ok(None);
        };
        let mut all = Narrowed { is_exact, ..Narrowed::default() };
        for &base in bases.iter() {
            self.add_posting(&mut all, PIECES, &IndexPart::Presence.key_prefix(base))?;
        }
        Ok(all.within(limit))
    }

    /// Adds the entries that are listed under all keys with `contents`, and the entries with a value too long to be
    /// split.
    fn add_all_of(
        &self,
        all: &mut Narrowed,
        part: IndexPart,
        base: AttrId,
        contents: &[Vec<u8>],
    ) -> Result<()> {
        self.add_posting(all, PIECES, &part.key_prefix(base))?;
        let mut postings = Vec::with_capacity(contents.len().min(ITEM_LOOKUPS_MAX));
        for content in contents.iter().take(ITEM_LOOKUPS_MAX) {
            let key = part.key(base, content);
            let count = self.state.read.ids(PIECES, &key)?.estimate();
            if count == 0 {
                return Ok(());
            }
            postings.push((count, key));
        }
        postings.sort_unstable();
        let Some(((count, shortest), others)) = postings.split_first() else { return Ok(()) };
        if *count > COLLECTED_IDS_MAX as u64 {
            return self.add_posting(all, PIECES, shortest);
        }
        let mut ids = Vec::with_capacity(to_usize(*count));
        self.state.read.ids(PIECES, shortest)?.next_block(&mut ids, usize::MAX)?;
        for (_, key) in others.iter().take(POSTINGS_INTERSECTED_MAX) {
            if ids.len() as u64 <= FEW {
                break;
            }
            let mut cursor = self.state.read.ids(PIECES, key)?;
            let mut kept = Vec::with_capacity(ids.len());
            for id in ids {
                if cursor.seek(id)? == Some(id) {
                    kept.push(id);
                }
            }
            ids = kept;
        }
        all.count += ids.len() as u64;
        all.ids.append(&mut ids);
        Ok(())
    }
}
