//! Comparison of compiled filters: whether one implies another.

use super::{Item, Subject, Term, Test, Truth};

impl Term {
    /// Returns true if every entry that matches this filter surely matches `other`, because this filter contains all
    /// conditions of `other`. `None` stands for a filter that matches every entry.
    pub(crate) fn implies(&self, other: Option<&Term>) -> bool {
        let own = conditions(Some(self));
        conditions(other).iter().all(|wanted| own.iter().any(|term| is_same(term, wanted)))
    }

    /// Returns true if every entry that matches `other` surely matches this filter.
    pub(crate) fn is_implied_by(&self, other: Option<&Term>) -> bool {
        let others = conditions(other);
        conditions(Some(self)).iter().all(|own| others.iter().any(|term| is_same(term, own)))
    }
}

/// Returns the conditions of a filter. An entry must meet all of them.
fn conditions(filter: Option<&Term>) -> &[Term] {
    match filter {
        None | Some(Term::Constant(Truth::True)) => &[],
        Some(Term::And(terms)) => terms,
        Some(term) => std::slice::from_ref(term),
    }
}

/// Returns true if two filters are known to be the same.
fn is_same(one: &Term, other: &Term) -> bool {
    let all = |one: &[Term], other: &[Term]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
    };
    match (one, other) {
        (Term::Class(one), Term::Class(other)) => one == other,
        (Term::And(one), Term::And(other)) | (Term::Or(one), Term::Or(other)) => all(one, other),
        (Term::Not(one), Term::Not(other)) => is_same(one, other),
        (Term::Item(one), Term::Item(other)) => is_same_item(one, other),
        _ => false,
    }
}

fn is_same_item(one: &Item, other: &Item) -> bool {
    let (Subject::Attribute(own), Subject::Attribute(others)) = (&one.subject, &other.subject) else {
        return false;
    };
    let is_same_test = match (&one.test, &other.test) {
        (Test::Present, Test::Present) => true,
        (Test::Equal(own, key), Test::Equal(others, other_key))
        | (Test::AtLeast(own, key), Test::AtLeast(others, other_key))
        | (Test::AtMost(own, key), Test::AtMost(others, other_key)) => own == others && key == other_key,
        (Test::Sounds(own), Test::Sounds(others)) => own == others,
        _ => false,
    };
    is_same_test && own == others && !one.dn_attributes && !other.dn_attributes
}
