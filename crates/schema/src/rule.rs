//! Matching rules: identity, what each is for, and the keys they make.

use crate::{Schema, ValueError};

/// How a rule is used (RFC 4517 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleUse {
    /// `EQUALITY`.
    Equality,
    /// `ORDERING`.
    Ordering,
    /// `SUBSTR`.
    Substring,
    /// Only in extensible filters.
    Extensible,
}

/// A matching rule. Cheap to copy and compare; the set is fixed by this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatchingRule(u8);

impl MatchingRule {
    /// The rule of this name or OID, in any case.
    pub fn find(_name_or_oid: &str) -> Option<MatchingRule> {
        todo!()
    }

    /// Canonical name, `caseIgnoreMatch` for example.
    pub fn name(self) -> &'static str {
        todo!()
    }

    /// Numeric OID as text.
    pub fn oid(self) -> &'static str {
        todo!()
    }

    /// OID of the assertion syntax.
    pub fn assertion_syntax(self) -> &'static str {
        todo!()
    }

    /// What the rule is for.
    pub fn rule_use(self) -> RuleUse {
        todo!()
    }

    /// Whether keys of the two rules are interchangeable: made from a value by the same normalisation.
    pub fn shares_key_with(self, _other: MatchingRule) -> bool {
        todo!()
    }

    /// Whether keys sort (bytewise) as the values do, so that one index answers equality, ranges and prefixes.
    pub fn is_order_preserving(self) -> bool {
        todo!()
    }

    /// Appends the key of an attribute value to `out`. Two values match exactly when their keys are equal as bytes.
    ///
    /// Nothing but `out` is allocated for ASCII text and for all fixed-form syntaxes.
    ///
    /// # Errors
    /// The value does not follow the rule's syntax. `out` is then as it was.
    pub fn normalize(self, _schema: &Schema, _value: &[u8], _out: &mut Vec<u8>) -> Result<(), ValueError> {
        todo!()
    }

    /// Appends the key of an assertion value to `out`: the same as [`Self::normalize`] except for rules whose assertion
    /// has another syntax than the value (`objectIdentifierFirstComponentMatch`, `certificateExactMatch`) or
    /// whose assertion must be known to the schema (`objectIdentifierMatch`).
    ///
    /// # Errors
    /// As [`Self::normalize`]; the filter item is then Undefined.
    pub fn normalize_assertion(
        self,
        _schema: &Schema,
        _value: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        todo!()
    }
}

/// An assertion of any rule, ready to be tried on many values: what an extensible filter item needs.
#[derive(Debug, Clone)]
pub struct RuleAssertion {
    _rule: MatchingRule,
}

impl RuleAssertion {
    /// Prepares the assertion `value` for `rule`. For substring rules the value is the text form of a Substring Assertion
    /// (`abc*def`, RFC 4517 section 3.3.30).
    ///
    /// # Errors
    /// The value does not follow the rule's assertion syntax: the filter item is Undefined.
    pub fn new(_schema: &Schema, _rule: MatchingRule, _value: &[u8]) -> Result<RuleAssertion, ValueError> {
        todo!()
    }

    /// Whether the value with this key (made by the same rule's [`MatchingRule::normalize`]) matches. Ordering rules
    /// match values *less than* the assertion (RFC 4517 section 4.2), as extensible filters use them.
    pub fn matches(&self, _key: &[u8]) -> bool {
        todo!()
    }
}
