//! Bit sets of the attributes that a search may return. The bit sets replace a lookup in the catalog for each attribute
//! of each result.

use super::{AttributeDef, Secrecy};
use crate::model::low_numbers::LowNumbers;

/// Attributes whose numbers have at most seven bits, grouped by kind and by secrecy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returnable {
    operational: LowNumbers,
    /// For each level of secrecy, the attributes of this level and of all lower levels.
    visible: [LowNumbers; 4],
}

impl Returnable {
    /// Returns the sets of these attributes.
    pub(super) fn of(attributes: &[AttributeDef]) -> Returnable {
        let mut sets = Returnable::default();
        attributes.iter().for_each(|def| sets.add(def));
        sets
    }

    /// Adds an attribute.
    pub(super) fn add(&mut self, def: &AttributeDef) {
        if def.is_operational {
            self.operational.insert(def.id);
        }
        self.visible.iter_mut().skip(def.secrecy as usize).for_each(|visible| visible.insert(def.id));
    }

    /// Returns the operational attributes.
    #[inline(always)]
    pub(crate) fn operational(&self) -> LowNumbers {
        self.operational
    }

    /// Returns the complement of the operational attributes: all user attributes and unused numbers.
    #[inline(always)]
    pub(crate) fn user(&self) -> LowNumbers {
        self.operational.complement()
    }

    /// Returns the attributes of this level of secrecy and of all lower levels.
    #[inline(always)]
    pub(crate) fn visible(&self, shown: Secrecy) -> LowNumbers {
        match shown {
            Secrecy::Open => self.visible[0],
            Secrecy::Guarded => self.visible[1],
            Secrecy::Administrator => self.visible[2],
            Secrecy::Nobody => self.visible[3],
        }
    }
}
