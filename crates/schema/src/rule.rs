//! Matching rules: identity, use, and keys.
//!
//! A rule is an index into the table in [`crate::rule_table`]. Rules that normalize values in the same way (such as
//! `caseIgnoreMatch`, `caseIgnoreOrderingMatch` and `caseIgnoreSubstringsMatch`) share one [`Form`], so their keys are
//! equal and one index can serve all three.

use std::sync::OnceLock;

use crate::form::Form;
use crate::names::NameTable;
use crate::rule_table::{Comparison, RULES, RuleInfo, RuleUse};
use crate::{Fault, ValueError, plain};

/// A matching rule. Cheap to copy and compare; this crate defines all rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatchingRule(u8);

impl std::fmt::Debug for MatchingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl MatchingRule {
    /// Returns true if keys of values depend on definitions of the schema. The values that such a rule compares contain
    /// names of types or classes.
    pub fn reads_definitions(self) -> bool {
        matches!(
            self.form(),
            Form::Name
                | Form::NameAndUid
                | Form::ObjectIdentifier
                | Form::OidFirst
                | Form::Certificate
                | Form::AttributeCertificate
                | Form::CertificatePair
                | Form::CertificateList
                | Form::CertificateParts
                | Form::CertificatePairParts
                | Form::CertificateListParts
                | Form::AttributeCertificateParts
        )
    }

    /// Returns the rule with this name or OID, in any case.
    pub fn find(name_or_oid: &str) -> Option<MatchingRule> {
        static NAMES: OnceLock<NameTable> = OnceLock::new();
        let names = NAMES.get_or_init(|| {
            let mut names = NameTable::default();
            for (index, rule) in RULES.iter().enumerate() {
                names.insert(rule.oid, index);
                names.insert(rule.name, index);
            }
            names
        });
        u8::try_from(names.find(name_or_oid)?).ok().map(MatchingRule)
    }

    /// Returns all rules, in the order of the table.
    pub fn all() -> impl Iterator<Item = MatchingRule> {
        (0..=u8::MAX).take(RULES.len()).map(MatchingRule)
    }

    fn info(self) -> &'static RuleInfo {
        #[expect(clippy::indexing_slicing, reason = "rules are made of positions in the table")]
        &RULES[usize::from(self.0)]
    }

    /// Returns the canonical name, such as `caseIgnoreMatch`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the numeric OID as text.
    pub fn oid(self) -> &'static str {
        self.info().oid
    }

    /// Returns the OID of the assertion syntax.
    pub fn assertion_syntax(self) -> &'static str {
        self.info().assertion_syntax
    }

    /// Returns the use of the rule.
    pub fn rule_use(self) -> RuleUse {
        self.info().rule_use
    }

    /// Returns true for LDAP_MATCHING_RULE_TRANSITIVE_EVAL ([MS-ADTS] section 3.1.1.3.4.4.3). The rule follows values
    /// from entry to entry, so it cannot be evaluated on the values of one entry.
    pub fn follows_chains(self) -> bool {
        self.comparison() == Comparison::Chain
    }

    /// Returns true for the rules of OpenLDAP that compare names by their positions in the tree, such as
    /// `dnSubtreeMatch`.
    pub fn relates_names(self) -> bool {
        matches!(self.comparison(), Comparison::Related(_))
    }

    pub(crate) fn comparison(self) -> Comparison {
        self.info().comparison
    }

    pub(crate) fn form(self) -> Form {
        self.info().form
    }

    /// Returns true if keys of the two rules are interchangeable, because they normalize values in the same way.
    pub fn shares_key_with(self, other: MatchingRule) -> bool {
        self.form().key_kind() == other.form().key_kind()
    }

    /// Returns true if keys sort (bytewise) as the values do, so that one index answers equality, ranges and prefixes.
    pub fn is_order_preserving(self) -> bool {
        self.form().is_order_preserving()
    }

    /// Returns true if `key` is the key of a value. Does not compute the value's key. Returns `None` if the key must be
    /// computed.
    #[inline]
    pub fn has_key_plainly(self, value: &[u8], key: &[u8]) -> Option<bool> {
        plain::has_key(self.form(), value, key)
    }

    /// Returns true if a value certainly has a key. Does not compute the key. `false` means unknown.
    pub fn surely_has_key(self, value: &[u8]) -> bool {
        plain::surely_has_key(self.form(), value)
    }

    pub(crate) fn error(self, fault: Fault) -> ValueError {
        ValueError { rule: self.name(), fault }
    }
}
