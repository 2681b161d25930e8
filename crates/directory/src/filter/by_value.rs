//! Rights to read and write single values: access rules with filters for values.
//!
//! A hidden value is treated as absent: no result contains it, and no filter matches it. The filter of a rule tests
//! only the value that the decision concerns, and not its spelling (`catalog::rule_filter::value_filter`). Therefore
//! a decision about an asserted value reveals nothing about stored values.

use std::sync::Arc;

use schema::{Schema, TypeId};

use super::{Term, Truth};
use crate::catalog::access_rules::TypeSet;
use crate::model::access_rule::{COMPARE, READ, Rights, SEARCH, WRITE};

/// Rights that rules can grant for single values.
const OF_VALUES: [Rights; 4] = [COMPARE, SEARCH, READ, WRITE];

/// A set of types for each right in [`OF_VALUES`].
type TypesByRight = [TypeSet; OF_VALUES.len()];

/// An access rule about the values that match a filter.
#[derive(Debug)]
pub(crate) struct ValueRule {
    pub(crate) is_allow: bool,
    pub(crate) rights: Rights,
    pub(crate) types: TypeSet,
    /// Text of the filter. Comparisons of rules compare this text, not the compiled filter.
    pub(crate) text: String,
    pub(crate) filter: Term,
}

impl PartialEq for ValueRule {
    fn eq(&self, other: &ValueRule) -> bool {
        let key = |rule: &ValueRule| (rule.is_allow, rule.rights);
        key(self) == key(other) && self.types == other.types && self.text == other.text
    }
}

impl Eq for ValueRule {}

impl ValueRule {
    fn is_about(&self, right: Rights, type_id: TypeId) -> bool {
        self.rights.has(right) && self.types.contains(type_id)
    }
}

/// Rights to single values of attributes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ByValue {
    rules: Vec<Arc<ValueRule>>,
    /// For each right, the types for which the right covers only some values.
    some: TypesByRight,
    /// For each right, the types in `some` whose values are allowed unless a rule denies them.
    open: TypesByRight,
}

impl ByValue {
    /// Combines rules about single values with rules about whole attributes. For each right, the rules about whole
    /// attributes allow the types in `allowed` and deny the types in `denied`. Types for which a right depends on the
    /// value are removed from `allowed`. Returns `None` if no right depends on the value.
    pub(crate) fn of(
        rules: Vec<Arc<ValueRule>>,
        allowed: [&mut TypeSet; OF_VALUES.len()],
        denied: &TypesByRight,
    ) -> Option<ByValue> {
        let mut known = ByValue { rules, ..ByValue::default() };
        let sets = known.some.iter_mut().zip(&mut known.open);
        for (((some, open), (right, denied)), allowed) in sets.zip(OF_VALUES.iter().zip(denied)).zip(allowed)
        {
            for rule in known.rules.iter().filter(|rule| rule.rights.has(*right)) {
                let mut types = rule.types.clone();
                match rule.is_allow {
                    true => {
                        types.remove(denied);
                        types.remove(allowed);
                    }
                    false => types = types.and(allowed),
                }
                some.add(&types);
            }
            *open = some.and(allowed);
            allowed.remove(some);
        }
        known.some.iter().any(|some| !some.is_empty()).then_some(known)
    }

    /// Returns true if a right to a type depends on the value.
    pub(crate) fn is_for(&self, right: Rights, type_id: TypeId) -> bool {
        self.sets(right).is_some_and(|(some, _)| some.contains(type_id))
    }

    /// Returns the rules that decide a right to values of a type, and whether values that no rule matches are allowed.
    pub(crate) fn deciding(&self, right: Rights, type_id: TypeId) -> (bool, Vec<&ValueRule>) {
        let is_open = self.sets(right).is_some_and(|(_, open)| open.contains(type_id));
        let rules = self.rules.iter().map(Arc::as_ref).filter(|rule| rule.is_about(right, type_id));
        (is_open, rules.collect())
    }

    /// Returns true if a right to a type depends on the value and covers this value. `key` is a scratch buffer.
    pub(crate) fn allows(
        &self,
        right: Rights,
        type_id: TypeId,
        schema: &Schema,
        value: &[u8],
        key: &mut Vec<u8>,
    ) -> bool {
        let Some((some, open)) = self.sets(right) else { return false };
        if !some.contains(type_id) {
            return false;
        }
        let mut is_allowed = open.contains(type_id);
        for rule in self.rules.iter().filter(|rule| rule.is_about(right, type_id)) {
            match rule.is_allow {
                true if is_allowed => {}
                true => is_allowed = of_value(&rule.filter, schema, value, key) == Truth::True,
                // A `deny` also applies if the result of its filter is Undefined.
                false if of_value(&rule.filter, schema, value, key) != Truth::False => return false,
                false => {}
            }
        }
        is_allowed
    }

    fn sets(&self, right: Rights) -> Option<(&TypeSet, &TypeSet)> {
        let place = OF_VALUES.iter().position(|known| *known == right)?;
        self.some.get(place).zip(self.open.get(place))
    }
}

/// Evaluates the filter of a value rule on one value. All items of the filter concern the attribute of the value.
fn of_value(filter: &Term, schema: &Schema, value: &[u8], key: &mut Vec<u8>) -> Truth {
    match filter {
        Term::Constant(truth) => *truth,
        Term::And(terms) => {
            terms.iter().map(|term| of_value(term, schema, value, key)).min().unwrap_or(Truth::True)
        }
        Term::Or(terms) => {
            terms.iter().map(|term| of_value(term, schema, value, key)).max().unwrap_or(Truth::False)
        }
        Term::Not(term) => !of_value(term, schema, value, key),
        Term::Class(class) => {
            let named = std::str::from_utf8(value).ok().and_then(|name| schema.object_class(name.trim()));
            named.map_or(Truth::Undefined, |named| named.is_subclass_of(*class).into())
        }
        Term::StructuralClass(_) => Truth::Undefined,
        Term::Item(item) => item.test.passes(schema, value, key).into(),
    }
}

/// A test that considers only the values that the requester may use.
#[derive(Clone, Debug)]
pub(crate) struct VisibleTest {
    pub(crate) test: super::Test,
    pub(crate) view: Arc<ByValue>,
    /// The right that a requester needs on a value for it to be visible.
    pub(crate) right: Rights,
}

impl VisibleTest {
    /// Returns true if a value of this type is visible and passes the test.
    pub(super) fn passes(&self, type_id: TypeId, schema: &Schema, value: &[u8], key: &mut Vec<u8>) -> bool {
        self.test.passes(schema, value, key) && self.view.allows(self.right, type_id, schema, value, key)
    }
}
