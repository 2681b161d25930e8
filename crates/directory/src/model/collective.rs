//! Collective attributes (RFC 3671): values that subentries give to the entries of an area.
//!
//! The catalogue has all subentries in memory, so that entries are read without a search for them.

use std::sync::Arc;

use schema::{SubtreeSpecification, TypeId};

use crate::model::limits::{
    COLLECTIVE_OCTETS_MAX, COLLECTIVE_SUBENTRIES_MAX, COLLECTIVE_SUBENTRY_OCTETS_MAX, POLICY_NOTICES_MAX,
};
use crate::model::name::NormalName;
use crate::model::rows::{AttrId, EntryId};

/// An attribute of a subentry, with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveAttribute {
    pub(crate) id: AttrId,
    pub(crate) type_id: TypeId,
    pub(crate) values: Vec<Vec<u8>>,
}

/// A collective attribute subentry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveSubentry {
    pub(crate) id: EntryId,
    /// The administrative point: the entry above the subentry.
    pub(crate) point: EntryId,
    /// Name of the root of the subtree, relative to the point.
    pub(crate) base: NormalName,
    /// The subtree; `None` if the value cannot be applied, so that no entry has the attributes.
    pub(crate) subtree: Option<SubtreeSpecification>,
    pub(crate) attributes: Vec<CollectiveAttribute>,
}

impl CollectiveSubentry {
    /// Returns the length of the values.
    pub(crate) fn octets(&self) -> usize {
        self.attributes.iter().flat_map(|attribute| &attribute.values).map(Vec::len).sum()
    }
}

/// The collective attribute subentries of a directory that has at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectiveSubentries {
    /// Ascending by point and id.
    subentries: Vec<Arc<CollectiveSubentry>>,
    /// Numbers of the attributes that they have, ascending.
    numbers: Vec<AttrId>,
    octets: usize,
    /// Number of further subentries, whose attributes no entry has.
    left_out: usize,
    faults: Vec<String>,
}

impl CollectiveSubentries {
    /// Adds subentries, of which the first ones count if there are too many.
    pub(crate) fn of(subentries: Vec<CollectiveSubentry>, faults: Vec<String>) -> CollectiveSubentries {
        let mut all = CollectiveSubentries { faults, ..CollectiveSubentries::default() };
        for subentry in subentries {
            let own = subentry.octets();
            let is_full = all.subentries.len() >= COLLECTIVE_SUBENTRIES_MAX
                || own > COLLECTIVE_SUBENTRY_OCTETS_MAX
                || all.octets + own > COLLECTIVE_OCTETS_MAX;
            if is_full {
                all.left_out += 1;
                continue;
            }
            all.octets += own;
            all.numbers.extend(subentry.attributes.iter().map(|attribute| attribute.id));
            all.subentries.push(Arc::new(subentry));
        }
        all.subentries.sort_by_key(|subentry| (subentry.point, subentry.id));
        all.numbers.sort_unstable();
        all.numbers.dedup();
        all
    }

    /// Returns true if there are none at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.subentries.is_empty() && self.left_out == 0 && self.faults.is_empty()
    }

    /// Returns the number of subentries that count.
    pub(crate) fn len(&self) -> usize {
        self.subentries.len()
    }

    /// Returns the subentries of an administrative point.
    pub(crate) fn at(&self, point: EntryId) -> &[Arc<CollectiveSubentry>] {
        let first = self.subentries.partition_point(|subentry| subentry.point < point);
        let rest = self.subentries.get(first..).unwrap_or_default();
        let count = rest.partition_point(|subentry| subentry.point == point);
        rest.get(..count).unwrap_or_default()
    }

    /// Returns true if entries may have one of these attributes by a subentry.
    pub(crate) fn have_one_of(&self, attributes: &[AttrId]) -> bool {
        attributes.iter().any(|attribute| self.numbers.binary_search(attribute).is_ok())
    }

    /// Returns what does not work as written.
    pub(crate) fn notices(&self) -> Vec<String> {
        let left_out = (self.left_out > 0).then(|| {
            format!(
                "{} collective attribute subentries have no effect: there may be {COLLECTIVE_SUBENTRIES_MAX}, with \
                 values of {COLLECTIVE_SUBENTRY_OCTETS_MAX} octets each and {COLLECTIVE_OCTETS_MAX} octets together",
                self.left_out
            )
        });
        left_out.into_iter().chain(self.faults.iter().cloned()).take(POLICY_NOTICES_MAX).collect()
    }
}
