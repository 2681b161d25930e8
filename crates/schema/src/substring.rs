//! Substring assertions, matched against keys.

use crate::{MatchingRule, ValueError};

/// The pieces of a substring filter, prepared once and tried on the keys of many values.
#[derive(Debug, Clone)]
pub struct SubstringAssertion {
    prefix: Option<Vec<u8>>,
}

impl SubstringAssertion {
    /// Prepares the pieces for a substring `rule` (or an equality rule of the same keys).
    ///
    /// # Errors
    /// A piece does not follow the rule's syntax: the filter item is Undefined.
    pub fn new<'a>(
        _rule: MatchingRule,
        _initial: Option<&'a [u8]>,
        _any: impl IntoIterator<Item = &'a [u8]>,
        _final: Option<&'a [u8]>,
    ) -> Result<SubstringAssertion, ValueError> {
        todo!()
    }

    /// Whether the value with this key, made by the rule's `normalize`, contains the pieces in order.
    pub fn matches(&self, _key: &[u8]) -> bool {
        todo!()
    }

    /// Bytes that the key of every matching value begins with; `None` when nothing is known.
    pub fn prefix(&self) -> Option<&[u8]> {
        self.prefix.as_deref()
    }
}
