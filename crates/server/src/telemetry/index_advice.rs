//! Statistics about searches without a suitable index, and the indexes that they needed.
//!
//! Searches are counted by the shape of their filter. A shape contains no values. The number of shapes in the table is
//! bounded. If the table is full, a new shape replaces the shape with the lowest cost and inherits that cost (the
//! *space-saving* algorithm). Therefore the table certainly contains every shape whose cost is high. The recorded cost
//! of a shape is too high by at most its inherited cost.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::search::{FilterShape, MissingIndex};

use crate::limits::{ADVISED_FILTERS_MAX, ADVISED_INDEXES_MAX, ADVISED_SHAPES_MAX};

/// Cost, in entries, of a search that was refused at its start. Such a search would have examined many entries.
const REFUSED_COST: u64 = 100_000;

/// Statistics about searches without a suitable index.
#[derive(Debug, Default)]
pub(crate) struct IndexAdvice {
    counted: Mutex<Vec<CountedShape>>,
}

/// The searches with filters of one shape.
#[derive(Debug)]
struct CountedShape {
    shape: FilterShape,
    use_of: SearchCosts,
    /// Cost that this shape inherited when it replaced another shape.
    inherited: u64,
}

/// Sums over a number of searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCosts {
    /// Number of searches.
    pub searches: u64,
    /// Number of searches that reached a limit.
    pub refused: u64,
    /// Number of entries that the searches examined.
    pub examined: u64,
    /// Number of entries that the searches returned.
    pub returned: u64,
    /// Processor time of the searches in microseconds. The first slice of each search is not included.
    pub micros: u64,
    /// Largest number of candidates that one of the searches had.
    pub candidates: u64,
}

/// A proposal to define an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProposal {
    /// The line of the settings file that defines the index.
    pub setting: String,
    /// Costs of the searches that needed the index.
    pub costs: SearchCosts,
    /// Shapes of the filters of these searches. The shape with the highest cost is first.
    pub filters: Vec<String>,
}

impl SearchCosts {
    fn add(&mut self, other: &SearchCosts) {
        self.searches = self.searches.saturating_add(other.searches);
        self.refused = self.refused.saturating_add(other.refused);
        self.examined = self.examined.saturating_add(other.examined);
        self.returned = self.returned.saturating_add(other.returned);
        self.micros = self.micros.saturating_add(other.micros);
        self.candidates = self.candidates.max(other.candidates);
    }

    fn cost(&self) -> u64 {
        self.examined.saturating_add(self.refused.saturating_mul(REFUSED_COST))
    }
}

impl CountedShape {
    fn cost(&self) -> u64 {
        self.use_of.cost().saturating_add(self.inherited)
    }
}

impl IndexAdvice {
    /// Counts a search whose filter shape lacks an index. Ignores other searches, because no index would help them.
    pub(crate) fn count(&self, mut shape: FilterShape, costs: &SearchCosts) {
        shape.missing.truncate(ADVISED_INDEXES_MAX);
        if shape.missing.is_empty() {
            return;
        }
        let mut counted = self.lock();
        if let Some(entry) = counted.iter_mut().find(|entry| entry.shape.text == shape.text) {
            entry.use_of.add(costs);
            // Indexes may have been defined since the shape was counted last.
            entry.shape.missing = shape.missing;
            return;
        }
        let mut new = CountedShape { shape, use_of: *costs, inherited: 0 };
        if counted.len() < ADVISED_SHAPES_MAX {
            counted.push(new);
        } else if let Some(least) = counted.iter_mut().min_by_key(|entry| entry.cost()) {
            new.inherited = least.cost();
            *least = new;
        }
    }

    /// Returns one proposal for each attribute. The proposal with the highest cost is first. `is_defined` must return
    /// true for an index that is defined now. Such an index, and an index that was being built during the search, is
    /// not proposed.
    pub(crate) fn proposals(
        &self,
        is_defined: impl Fn(&MissingIndex) -> bool,
    ) -> Vec<(String, IndexProposal)> {
        let mut counted = self.lock();
        counted.sort_by_key(|entry| std::cmp::Reverse(entry.cost()));
        let mut all: Vec<(MissingIndex, IndexProposal)> = Vec::new();
        for entry in counted.iter() {
            for index in entry.shape.missing.iter().filter(|index| !index.is_building && !is_defined(index)) {
                let at = all.iter().position(|(other, _)| other.attribute == index.attribute);
                let at = at.unwrap_or_else(|| {
                    let setting = String::new();
                    let costs = SearchCosts::default();
                    all.push((index.clone(), IndexProposal { setting, costs, filters: Vec::new() }));
                    all.len() - 1
                });
                let Some((merged, proposal)) = all.get_mut(at) else { continue };
                merged.kinds = merged.kinds.with(index.kinds);
                if proposal.filters.last() == Some(&entry.shape.text) {
                    // The same filter also lacks an index of another kind for this attribute. The filter is already
                    // counted.
                    continue;
                }
                proposal.costs.add(&entry.use_of);
                if proposal.filters.len() < ADVISED_FILTERS_MAX {
                    proposal.filters.push(entry.shape.text.clone());
                }
            }
        }
        drop(counted);
        all.sort_by_key(|(_, proposal)| std::cmp::Reverse(proposal.costs.cost()));
        let done = |(index, proposal): (MissingIndex, IndexProposal)| {
            (index.attribute.clone(), IndexProposal { setting: index.setting(), ..proposal })
        };
        all.into_iter().map(done).collect()
    }

    /// Each change leaves the table consistent. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Vec<CountedShape>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Separator of the parts of a proposal's text. A shape cannot contain it, because a shape contains no values.
const SEPARATOR: &str = "; ";

impl fmt::Display for IndexProposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SearchCosts { searches, refused, examined, returned, micros, candidates } = self.costs;
        write!(
            f,
            "{}{SEPARATOR}searches {searches}{SEPARATOR}refused {refused}{SEPARATOR}examined {examined}{SEPARATOR}\
             returned {returned}{SEPARATOR}microseconds {micros}{SEPARATOR}candidates {candidates}",
            self.setting
        )?;
        self.filters.iter().try_for_each(|filter| write!(f, "{SEPARATOR}{filter}"))
    }
}

/// Error of a text that is not the text of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no proposal of an index as this version writes it")]
pub struct NoProposal;

impl FromStr for IndexProposal {
    type Err = NoProposal;

    fn from_str(text: &str) -> Result<IndexProposal, NoProposal> {
        let mut parts = text.split(SEPARATOR);
        let setting = parts.next().ok_or(NoProposal)?.to_owned();
        let mut number = |name: &str| {
            let (found, number) = parts.next()?.split_once(' ')?;
            if found == name { number.parse().ok() } else { None }
        };
        let mut costs = || {
            Some(SearchCosts {
                searches: number("searches")?,
                refused: number("refused")?,
                examined: number("examined")?,
                returned: number("returned")?,
                micros: number("microseconds")?,
                candidates: number("candidates")?,
            })
        };
        let costs = costs().ok_or(NoProposal)?;
        Ok(IndexProposal { setting, costs, filters: parts.map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use directory::index::IndexKinds;

    use super::*;

    fn missing_index(attribute: &str, kind: IndexKinds) -> MissingIndex {
        MissingIndex { attribute: attribute.to_owned(), kind, kinds: kind, is_building: false }
    }

    fn shape(text: &str, missing: Vec<MissingIndex>) -> FilterShape {
        FilterShape { text: text.to_owned(), missing }
    }

    fn costs(examined: u64) -> SearchCosts {
        SearchCosts { searches: 1, examined, returned: 2, micros: examined / 10, candidates: 7, refused: 0 }
    }

    #[test]
    fn proposals_sum_the_searches_of_an_attribute() {
        let advice = IndexAdvice::default();
        let cn = || missing_index("cn", IndexKinds::SUBSTRING);
        let l = || missing_index("l", IndexKinds::EQUALITY);
        advice.count(shape("(cn=*?*)", vec![cn()]), &costs(100));
        advice.count(shape("(cn=*?*)", vec![cn()]), &costs(100));
        advice.count(shape("(|(cn=*?*)(l=?))", vec![cn(), l()]), &costs(50));
        advice.count(shape("(l=*)", vec![missing_index("l", IndexKinds::PRESENCE)]), &costs(500));
        advice.count(shape("(!(l=?))", Vec::new()), &costs(9_000));
        let proposals = advice.proposals(|_| false);
        let names: Vec<_> = proposals.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["l", "cn"]);
        let (l, cn) = (&proposals[0].1, &proposals[1].1);
        assert_eq!(l.setting, "indexes.l = [\"equality\", \"presence\"]");
        assert_eq!((l.costs.searches, l.costs.examined), (2, 550));
        assert_eq!(l.filters, ["(l=*)", "(|(cn=*?*)(l=?))"]);
        assert_eq!((cn.costs.searches, cn.costs.examined, cn.costs.returned), (3, 250, 6));
        for (_, proposal) in &proposals {
            assert_eq!(proposal.to_string().parse(), Ok(proposal.clone()));
        }
        let left = advice.proposals(|index| index.attribute == "l");
        assert_eq!(left.len(), 1, "existing indexes are not proposed");
        assert_eq!("indexes.l = []; searches x".parse::<IndexProposal>(), Err(NoProposal));
    }

    /// Adds many shapes that occur once each. They do not displace a shape whose cost equals the sum of their costs.
    #[test]
    fn a_full_table_keeps_the_costliest_filter_shapes() {
        let advice = IndexAdvice::default();
        let count = |text: &str, examined| {
            advice.count(shape(text, vec![missing_index("l", IndexKinds::EQUALITY)]), &costs(examined));
        };
        for round in 0..ADVISED_SHAPES_MAX * 3 {
            count(&format!("(l=?)(x{round}=?)"), 10);
            count("(l=?)", 100);
        }
        assert_eq!(advice.lock().len(), ADVISED_SHAPES_MAX);
        let proposal = advice.proposals(|_| false).remove(0).1;
        assert_eq!(proposal.filters[0], "(l=?)");
        assert_eq!(proposal.filters.len(), ADVISED_FILTERS_MAX);
    }
}
