//! Assertions of matching rules, as extensible filter items use them.

use crate::certificate::component::ComponentAssertion;
use crate::form::Form;
use crate::name_key::is_related;
use crate::rule_table::{Comparison, Relation, RuleUse};
use crate::{Fault, MatchingRule, Schema, SubstringAssertion, ValueError, integer, time};

/// An assertion of a rule, prepared for evaluation on many values.
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
    Related(Relation, Vec<u8>),
}

impl RuleAssertion {
    /// Returns the bytes of heap memory.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Prepared::Equal(bytes)
            | Prepared::Less(bytes)
            | Prepared::CsnReplica(bytes)
            | Prepared::Password(bytes)
            | Prepared::Related(_, bytes) => bytes.capacity(),
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
        if rule.comparison() == Comparison::CsnReplica {
            time::csn_replica_key(value, &mut key).map_err(|fault| rule.error(fault))?;
            return Ok(RuleAssertion(Prepared::CsnReplica(key)));
        }
        if rule.comparison() == Comparison::Password {
            return Ok(RuleAssertion(Prepared::Password(value.to_vec())));
        }
        if rule.comparison() == Comparison::Parts {
            let assertion = match rule.form() {
                Form::CertificatePairParts => ComponentAssertion::pair(schema, value),
                Form::CertificateListParts => ComponentAssertion::list(schema, value),
                Form::AttributeCertificateParts => ComponentAssertion::attribute(schema, value),
                _ => ComponentAssertion::certificate(schema, value),
            };
            return Ok(RuleAssertion(Prepared::Parts(assertion.map_err(|fault| rule.error(fault))?)));
        }
        rule.normalize_assertion(schema, value, &mut key)?;
        Ok(RuleAssertion(match rule.comparison() {
            Comparison::ByUse if rule.rule_use() == RuleUse::Ordering => Prepared::Less(key),
            Comparison::ByUse
            | Comparison::CsnReplica
            | Comparison::Parts
            | Comparison::Password
            | Comparison::Chain => Prepared::Equal(key),
            Comparison::Related(relation) => Prepared::Related(relation, key),
            Comparison::Word => Prepared::Word(String::from_utf8_lossy(&key).into_owned()),
            Comparison::AllBits | Comparison::AnyBit => {
                let out_of_range = || rule.error(Fault::OutOfRange { what: "the bit mask" });
                let mask = integer::small_number(&key).ok_or_else(out_of_range)?;
                Prepared::Bits { mask, all: rule.comparison() == Comparison::AllBits }
            }
        }))
    }

    /// Returns the password of an authPasswordMatch assertion (RFC 3112 section 2.3). The caller must verify the
    /// password, because this crate cannot hash: [`Self::matches`] returns false.
    pub fn password(&self) -> Option<&[u8]> {
        match &self.0 {
            Prepared::Password(password) => Some(password),
            _ => None,
        }
    }

    /// Returns true if the value with this key, computed by [`MatchingRule::normalize`] of the same rule, matches.
    /// Ordering rules match values *less than* the assertion in extensible filters (RFC 4517 section 4.2).
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
            Prepared::Related(relation, asserted) => is_related(*relation, key, asserted),
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
