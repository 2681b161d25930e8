//! Matching rules: identity, what each is for, and the keys they make.
//!
//! A rule is an index into the table in [`crate::rule_table`]. Rules that look at values the same way
//! (`caseIgnoreMatch`, `caseIgnoreOrderingMatch` and `caseIgnoreSubstringsMatch`, say) share one [`Form`], and
//! with it their keys; that is what lets one index answer all three.

use std::sync::OnceLock;

use crate::certificate_match::ComponentAssertion;
use crate::form::Form;
use crate::names::NameTable;
use crate::rule_table::{RULES, RuleInfo};
use crate::{Fault, Schema, SubstringAssertion, ValueError, integer, plain, time};

/// Use of a rule (RFC 4517 section 4.1).
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatchingRule(u8);

impl std::fmt::Debug for MatchingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl MatchingRule {
    /// The rule of this name or OID, in any case.
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

    /// All rules, in the order of their OIDs' registration.
    pub fn all() -> impl Iterator<Item = MatchingRule> {
        (0..=u8::MAX).take(RULES.len()).map(MatchingRule)
    }

    fn info(self) -> &'static RuleInfo {
        #[expect(clippy::indexing_slicing, reason = "rules are made of positions in the table")]
        &RULES[usize::from(self.0)]
    }

    /// Canonical name, `caseIgnoreMatch` for example.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Numeric OID as text.
    pub fn oid(self) -> &'static str {
        self.info().oid
    }

    /// OID of the assertion syntax.
    pub fn assertion_syntax(self) -> &'static str {
        self.info().assertion_syntax
    }

    /// Returns the use of the rule.
    pub fn rule_use(self) -> RuleUse {
        self.info().rule_use
    }

    pub(crate) fn form(self) -> Form {
        self.info().form
    }

    /// Whether keys of the two rules are interchangeable: made from a value by the same normalisation.
    pub fn shares_key_with(self, other: MatchingRule) -> bool {
        self.form().key_kind() == other.form().key_kind()
    }

    /// Whether keys sort (bytewise) as the values do, so that one index answers equality, ranges and prefixes.
    pub fn is_order_preserving(self) -> bool {
        self.form().is_order_preserving()
    }

    /// Appends the key of an attribute value to `out`. Two values match exactly when their keys are equal as bytes.
    ///
    /// Nothing but `out` is allocated for ASCII text and for all fixed-form syntaxes.
    ///
    /// # Errors
    /// The value does not follow the rule's syntax. `out` is then as it was.
    pub fn normalize(self, schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.key_at(schema, value, 0, out)
    }

    /// [`Self::normalize`] inside `depth` distinguished names.
    pub(crate) fn key_at(
        self,
        schema: &Schema,
        value: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let start = out.len();
        self.form().value_key(schema, value, depth, out).map_err(|fault| {
            out.truncate(start);
            self.error(fault)
        })
    }

    /// Appends the key of an assertion value to `out`: the same as [`Self::normalize`] except for rules whose assertion
    /// has another syntax than the value (`objectIdentifierFirstComponentMatch`, `certificateExactMatch`) or
    /// whose assertion must be known to the schema (`objectIdentifierMatch`).
    ///
    /// # Errors
    /// As [`Self::normalize`]; the filter item is then Undefined.
    pub fn normalize_assertion(
        self,
        schema: &Schema,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let start = out.len();
        self.form().assertion_key(schema, value, out).map_err(|fault| {
            out.truncate(start);
            self.error(fault)
        })
    }

    /// Whether the key of a value is `key`, from the value itself; `None` where the key has to be made.
    #[inline]
    pub fn has_key_plainly(self, value: &[u8], key: &[u8]) -> Option<bool> {
        plain::has_key(self.form(), value, key)
    }

    /// Whether a value has a key for sure, as can be said without making it. `false` says nothing.
    pub fn surely_has_key(self, value: &[u8]) -> bool {
        plain::surely_has_key(self.form(), value)
    }

    pub(crate) fn error(self, fault: Fault) -> ValueError {
        ValueError { rule: self.name(), fault }
    }
}

/// Comparison of an extensible filter, if it is not plain equality of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// As the rule's use says.
    ByUse,
    /// All bits of the assertion are set in the value.
    AllBits,
    /// Any bit of the assertion is set in the value.
    AnyBit,
    /// The assertion is one of the value's words.
    Word,
    /// The assertion is the replica id of the value.
    CsnReplica,
    /// The assertion is a password, the value a hash of one.
    Password,
    /// The assertion names parts of a certificate or revocation list.
    Parts,
}

/// An assertion of any rule, ready to be tried on many values: what an extensible filter item needs.
#[derive(Debug, Clone)]
pub struct RuleAssertion(Prepared);

#[derive(Debug, Clone)]
enum Prepared {
    Equal(Vec<u8>),
    Less(Vec<u8>),
    Substring(SubstringAssertion),
    Bits { mask: i64, all: bool },
    Word(String),
    CsnReplica(Vec<u8>),
    Parts(ComponentAssertion),
    Password(Vec<u8>),
}

impl RuleAssertion {
    /// Bytes of memory that it holds besides itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Prepared::Equal(bytes)
            | Prepared::Less(bytes)
            | Prepared::CsnReplica(bytes)
            | Prepared::Password(bytes) => bytes.capacity(),
            Prepared::Substring(assertion) => assertion.heap_bytes(),
            Prepared::Word(word) => word.capacity(),
            Prepared::Bits { .. } => 0,
            Prepared::Parts(assertion) => assertion.heap_bytes(),
        }
    }

    /// Prepares the assertion `value` for `rule`. For substring rules the value is the text form of a Substring
    /// Assertion (`abc*def`, RFC 4517 section 3.3.30).
    ///
    /// # Errors
    /// The value does not follow the rule's assertion syntax: the filter item is Undefined.
    pub fn new(schema: &Schema, rule: MatchingRule, value: &[u8]) -> Result<RuleAssertion, ValueError> {
        if rule.rule_use() == RuleUse::Substring {
            return Ok(RuleAssertion(Prepared::Substring(SubstringAssertion::parse(rule, value)?)));
        }
        let mut key = Vec::new();
        if rule.info().comparison == Comparison::CsnReplica {
            time::csn_replica_key(value, &mut key).map_err(|fault| rule.error(fault))?;
            return Ok(RuleAssertion(Prepared::CsnReplica(key)));
        }
        if rule.info().comparison == Comparison::Password {
            return Ok(RuleAssertion(Prepared::Password(value.to_vec())));
        }
        if rule.info().comparison == Comparison::Parts {
            let assertion = match rule.form() {
                Form::CertificatePairParts => ComponentAssertion::pair(schema, value),
                Form::CertificateListParts => ComponentAssertion::list(schema, value),
                _ => ComponentAssertion::certificate(schema, value),
            };
            return Ok(RuleAssertion(Prepared::Parts(assertion.map_err(|fault| rule.error(fault))?)));
        }
        rule.normalize_assertion(schema, value, &mut key)?;
        Ok(RuleAssertion(match rule.info().comparison {
            Comparison::ByUse if rule.rule_use() == RuleUse::Ordering => Prepared::Less(key),
            Comparison::ByUse | Comparison::CsnReplica | Comparison::Parts | Comparison::Password => {
                Prepared::Equal(key)
            }
            Comparison::Word => Prepared::Word(String::from_utf8_lossy(&key).into_owned()),
            Comparison::AllBits | Comparison::AnyBit => {
                let out_of_range = || rule.error(Fault::OutOfRange { what: "the bit mask" });
                let mask = integer::small_number(&key).ok_or_else(out_of_range)?;
                Prepared::Bits { mask, all: rule.info().comparison == Comparison::AllBits }
            }
        }))
    }

    /// Returns the password of an authPasswordMatch (RFC 3112 section 2.3). A caller that can hash has to verify it;
    /// here it matches nothing.
    pub fn password(&self) -> Option<&[u8]> {
        match &self.0 {
            Prepared::Password(password) => Some(password),
            _ => None,
        }
    }

    /// Whether the value with this key (made by the same rule's [`MatchingRule::normalize`]) matches. Ordering rules
    /// match values *less than* the assertion (RFC 4517 section 4.2), as extensible filters use them.
    pub fn matches(&self, key: &[u8]) -> bool {
        match &self.0 {
            Prepared::Equal(asserted) => key == asserted,
            Prepared::Less(asserted) => key < asserted.as_slice(),
            Prepared::Substring(assertion) => assertion.matches(key),
            Prepared::Bits { mask, all } => integer::small_number(key)
                .is_some_and(|number| if *all { number & mask == *mask } else { number & mask != 0 }),
            Prepared::Word(word) => std::str::from_utf8(key).is_ok_and(|text| has_word(text, word)),
            Prepared::Parts(assertion) => assertion.matches(key),
            Prepared::Password(_) => false,
            Prepared::CsnReplica(replica) => key.get(time::CSN_REPLICA_RANGE) == Some(replica),
        }
    }
}

/// Returns true if `word` occurs in `text` with no letter or digit next to it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, found)| {
        let before = text.get(..start).and_then(|before| before.chars().next_back());
        let behind = text.get(start + found.len()..).and_then(|behind| behind.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !behind.is_some_and(char::is_alphanumeric)
    })
}
