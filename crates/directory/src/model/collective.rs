//! Collective attributes (RFC 3671): values that subentries give to all entries of a subtree.
//!
//! The catalog keeps all collective attribute subentries in memory, so that reading an entry needs no search for them.

use std::sync::Arc;

use ldap::Dn;
use schema::{ClassId, Refinement, Schema, SpecificExclusion, SubtreeSpecification, TypeId};

use crate::model::limits::{
    COLLECTIVE_OCTETS_MAX, COLLECTIVE_SUBENTRIES_MAX, COLLECTIVE_SUBENTRY_OCTETS_MAX, POLICY_NOTICES_MAX,
};
use crate::model::name::NormalName;
use crate::model::rows::{AttrId, EntryId};

/// Number of subentries whose evaluation costs as much as one candidate of a search. [`OCTETS_PER_CANDIDATE`] is the
/// corresponding number of octets of values.
const SUBENTRIES_PER_CANDIDATE: usize = 8;
const OCTETS_PER_CANDIDATE: usize = 512;

/// An attribute of a subentry, with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveAttribute {
    pub(crate) id: AttrId,
    pub(crate) type_id: TypeId,
    pub(crate) values: Vec<Vec<u8>>,
}

/// A subtree specification (RFC 3672 section 2.1) with names and classes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subtree {
    /// Name of the base, relative to the administrative point.
    pub(crate) base: NormalName,
    /// Names relative to the base. The flag is true if the subtree excludes the named entry and everything below it.
    /// The flag is false if the subtree excludes only the entries below the named entry.
    pub(crate) exclusions: Vec<(NormalName, bool)>,
    /// Depth below the base at which the subtree begins (`minimum`) and ends (`maximum`), in levels.
    pub(crate) minimum: usize,
    pub(crate) maximum: Option<usize>,
    pub(crate) filter: Option<ClassCondition>,
}

/// A condition on the object classes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClassCondition {
    Has(ClassId),
    All(Vec<ClassCondition>),
    Any(Vec<ClassCondition>),
    Not(Box<ClassCondition>),
}

impl Subtree {
    /// Resolves a subtreeSpecification value. Returns `None` if the value is malformed or names a definition that is
    /// missing in the schema.
    pub(crate) fn of(schema: &Schema, value: &[u8]) -> Option<Subtree> {
        let SubtreeSpecification { base, exclusions, minimum, maximum, filter } =
            SubtreeSpecification::parse(value)?;
        let name = |text: &str| {
            let name = NormalName::of(&Dn::parse(text).ok()?, schema);
            name.failure.is_none().then_some(name)
        };
        let exclusion = |of: &SpecificExclusion| Some((name(&of.name)?, of.is_before));
        let filter = match filter {
            Some(filter) => Some(ClassCondition::of(schema, &filter)?),
            None => None,
        };
        let exclusions = exclusions.iter().map(exclusion).collect::<Option<_>>()?;
        Some(Subtree { base: name(&base)?, exclusions, minimum, maximum, filter })
    }
}

impl ClassCondition {
    fn of(schema: &Schema, refinement: &Refinement) -> Option<ClassCondition> {
        let all = |of: &[Refinement]| -> Option<Vec<ClassCondition>> {
            of.iter().map(|of| ClassCondition::of(schema, of)).collect()
        };
        Some(match refinement {
            Refinement::Item(name) => ClassCondition::Has(schema.object_class(name)?.id),
            Refinement::And(of) => ClassCondition::All(all(of)?),
            Refinement::Or(of) => ClassCondition::Any(all(of)?),
            Refinement::Not(of) => ClassCondition::Not(Box::new(ClassCondition::of(schema, of)?)),
        })
    }

    /// Returns true if an entry with these classes satisfies the condition. `classes` includes all superclasses.
    pub(crate) fn holds(&self, classes: &[ClassId]) -> bool {
        match self {
            ClassCondition::Has(class) => classes.contains(class),
            ClassCondition::All(all) => all.iter().all(|of| of.holds(classes)),
            ClassCondition::Any(any) => any.iter().any(|of| of.holds(classes)),
            ClassCondition::Not(of) => !of.holds(classes),
        }
    }
}

/// A collective attribute subentry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveSubentry {
    pub(crate) id: EntryId,
    /// The administrative point: the superior of the subentry.
    pub(crate) point: EntryId,
    /// The subtree; `None` if its specification cannot be applied. No entry then receives the attributes.
    pub(crate) subtree: Option<Subtree>,
    /// Length of the subtreeSpecification value.
    pub(crate) subtree_octets: usize,
    pub(crate) attributes: Vec<CollectiveAttribute>,
}

impl CollectiveSubentry {
    /// Returns the total length of all values, including subtreeSpecification.
    pub(crate) fn octets(&self) -> usize {
        let values = self.attributes.iter().flat_map(|attribute| &attribute.values);
        self.subtree_octets + values.map(Vec::len).sum::<usize>()
    }
}

/// The collective attribute subentries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectiveSubentries {
    /// Subentries, sorted by administrative point, then by id.
    subentries: Vec<Arc<CollectiveSubentry>>,
    /// Numbers of the collective attributes of all subentries, ascending.
    numbers: Vec<AttrId>,
    octets: usize,
    /// Number of subentries that exceed the limits. Entries do not receive values from such subentries.
    left_out: usize,
    faults: Vec<String>,
}

impl CollectiveSubentries {
    /// Adds a subentry. Callers add subentries in ascending order of ids. Ignores the subentry and returns false if a
    /// length limit is exceeded.
    pub(crate) fn add(&mut self, subentry: CollectiveSubentry) -> bool {
        let own = subentry.octets();
        if own > COLLECTIVE_SUBENTRY_OCTETS_MAX || self.octets + own > COLLECTIVE_OCTETS_MAX {
            self.left_out += 1;
            return false;
        }
        self.octets += own;
        for attribute in &subentry.attributes {
            if let Err(place) = self.numbers.binary_search(&attribute.id) {
                self.numbers.insert(place, attribute.id);
            }
        }
        let place = self.subentries.partition_point(|other| other.point <= subentry.point);
        self.subentries.insert(place, Arc::new(subentry));
        true
    }

    /// Counts `count` more subentries as ignored. These subentries were not read, because there are too many.
    pub(crate) fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// Stores the description of a fault, if fewer than [`POLICY_NOTICES_MAX`] are stored.
    pub(crate) fn add_fault(&mut self, fault: String) {
        if self.faults.len() < POLICY_NOTICES_MAX {
            self.faults.push(fault);
        }
    }

    /// Returns true if there are descriptions of faults.
    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Returns true if the directory has no collective attribute subentries, not even ignored ones.
    pub(crate) fn is_empty(&self) -> bool {
        self.subentries.is_empty() && self.left_out == 0 && self.faults.is_empty()
    }

    /// Returns the number of subentries whose values entries receive.
    pub(crate) fn len(&self) -> usize {
        self.subentries.len()
    }

    /// Returns the subentries of one administrative point.
    pub(crate) fn at(&self, point: EntryId) -> &[Arc<CollectiveSubentry>] {
        let first = self.subentries.partition_point(|subentry| subentry.point < point);
        let rest = self.subentries.get(first..).unwrap_or_default();
        let count = rest.partition_point(|subentry| subentry.point == point);
        rest.get(..count).unwrap_or_default()
    }

    /// Returns the maximum cost of merging collective values into one entry, as a number of search candidates. The work
    /// consists of name lookups and of copying values.
    pub(crate) fn cost(&self) -> u32 {
        let cost = self.subentries.len() / SUBENTRIES_PER_CANDIDATE + self.octets / OCTETS_PER_CANDIDATE;
        u32::try_from(1 + cost).unwrap_or(u32::MAX)
    }

    /// Returns true if entries can receive one of these attributes from a subentry.
    pub(crate) fn have_one_of(&self, attributes: &[AttrId]) -> bool {
        attributes.iter().any(|attribute| self.numbers.binary_search(attribute).is_ok())
    }

    /// Returns notices about ignored subentries and about subentries that cannot be applied as written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subentries_beyond_the_memory_limit_are_left_out() {
        let subentry = |id, octets| CollectiveSubentry {
            id: EntryId(id),
            point: EntryId(id % 2),
            subtree: None,
            subtree_octets: 0,
            attributes: vec![CollectiveAttribute {
                id: AttrId(7),
                type_id: TypeId(0),
                values: vec![vec![b'x'; octets]],
            }],
        };
        let mut all = CollectiveSubentries::default();
        assert!(!all.add(subentry(9, COLLECTIVE_SUBENTRY_OCTETS_MAX + 1)));
        for id in 10..26 {
            assert!(all.add(subentry(id, COLLECTIVE_SUBENTRY_OCTETS_MAX)), "{id}");
        }
        assert!(!all.add(subentry(26, 17)));
        assert!(all.add(subentry(27, 16)));
        let ids: Vec<u64> = all.at(EntryId(1)).iter().map(|subentry| subentry.id.0).collect();
        assert_eq!(ids, [11, 13, 15, 17, 19, 21, 23, 25, 27]);
        assert!(all.len() == 17 && all.have_one_of(&[AttrId(7)]));
        all.leave_out(3);
        for number in 0..=POLICY_NOTICES_MAX {
            all.add_fault(number.to_string());
        }
        assert_eq!(all.faults.len(), POLICY_NOTICES_MAX);
        assert!(all.notices()[0].starts_with("5 collective"), "{:?}", all.notices()[0]);
    }
}
