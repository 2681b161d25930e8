//! What a plan looks like to a person: where candidates come from, what each term of the filter would cost by itself,
//! which index is missing. For `pando explain`, for the request control of that name, and for refusals.
//!
//! Terms are told by attribute and kind of test, never by the asserted value: explanations end up in logs.

use std::fmt;

use super::plan::{Implied, Plan, Planner, Result, Source};
use crate::catalog::{AttributeDef, Catalog, VirtualAttribute};
use crate::filter::{Item, Subject, Term, Test, Truth};
use crate::index::keys::{NeededGrams, needed_grams};
use crate::model::index_definition::{IndexPart, Phase};
use crate::model::rows::NODES;
use crate::tree::TreeState;

/// How a search goes about it, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Entries in the directory.
    pub entry_count: u64,
    /// Where the candidates come from.
    pub source: CandidateSource,
    /// How many candidates there are at most, as estimated by the plan.
    pub candidate_count: u64,
    /// Candidates looked at.
    pub examined_count: u64,
    /// Entries returned.
    pub returned_count: u64,
    /// The filter's terms in the order of the filter.
    pub terms: Vec<ExplainedTerm>,
    /// The indexes that would have helped, `a substring index on cn` for example.
    pub missing: Vec<String>,
    /// Microseconds spent, by step, where the caller has a clock.
    pub times: Option<StepTimes>,
}

/// Where candidates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateSource {
    /// All entries are gone through.
    Scan,
    /// The base entry, its children or its subtree: wherever the search looks.
    Place,
    /// Indexes.
    Indexes,
}

/// A term of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedTerm {
    /// How deep it stands in the filter.
    pub depth: usize,
    /// What it tests: `equality of uid`, `all of`.
    pub what: String,
    /// How many entries it leads to by itself; `None` where no index narrows it down.
    pub estimate: Option<u64>,
    /// Whether the candidates of the search come from it.
    pub is_chosen: bool,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// From the request to the plan: base, filter, estimates, short postings.
    pub plan: u64,
    /// Gathering ids from ranges of keys.
    pub gather: u64,
    /// Looking at candidates and encoding results, all threads together.
    pub examine: u64,
    /// Slices in which that was done; between them other clients had their turn.
    pub slices: u64,
    /// Those of them that were parts shared out among threads.
    pub part_slices: u64,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let candidates = self.candidate_count;
        match self.source {
            CandidateSource::Scan => writeln!(f, "scan of all {} entries", self.entry_count)?,
            CandidateSource::Place => {
                writeln!(f, "the entries at and below the base: {candidates} of {}", self.entry_count)?;
            }
            CandidateSource::Indexes => {
                writeln!(f, "by indexes: {candidates} candidates of {} entries", self.entry_count)?;
            }
        }
        for term in &self.terms {
            let mark = if term.is_chosen { "*" } else { " " };
            write!(f, "{mark} {:indent$}{}", "", term.what, indent = term.depth * 2)?;
            match term.estimate {
                Some(estimate) => writeln!(f, ": {estimate}")?,
                None => writeln!(f)?,
            }
        }
        writeln!(f, "examined: {}, returned: {}", self.examined_count, self.returned_count)?;
        for missing in &self.missing {
            writeln!(f, "missing: {missing}")?;
        }
        if let Some(times) = self.times {
            let StepTimes { plan, gather, examine, slices, part_slices } = times;
            write!(f, "microseconds: plan {plan}, gather {gather}, examine {examine}, in {slices} slices")?;
            match part_slices {
                0 => writeln!(f)?,
                parts => writeln!(f, ", {parts} of them on scan threads")?,
            }
        }
        Ok(())
    }
}

/// Explains a plan. What the search has done so far is for the caller to fill in.
pub(super) fn explain(state: TreeState<'_>, filter: &Term, plan: &Plan) -> Result<Explanation> {
    let entry_count = state.read.row_count(NODES)?;
    let mut explained = Explained { planner: Planner { state, entry_count }, terms: Vec::new() };
    let source = match plan.source() {
        Source::Scan => CandidateSource::Scan,
        Source::Indexed { .. } if plan.is_by_place => CandidateSource::Place,
        Source::Indexed { .. } => CandidateSource::Indexes,
    };
    let chosen = if source == CandidateSource::Indexes { plan.chosen_terms } else { 0 };
    match filter {
        Term::And(terms) => {
            explained.put(0, "all of".to_owned(), None, false);
            for (place, term) in terms.iter().enumerate() {
                explained.term(term, 1, place < 64 && chosen & 1 << place != 0)?;
            }
        }
        _ => explained.term(filter, 0, chosen != 0)?,
    }
    Ok(Explanation {
        entry_count,
        source,
        candidate_count: plan.candidate_count,
        examined_count: 0,
        returned_count: 0,
        terms: explained.terms,
        missing: missing(state.catalog, filter),
        times: None,
    })
}

struct Explained<'a> {
    planner: Planner<'a>,
    terms: Vec<ExplainedTerm>,
}

impl Explained<'_> {
    fn put(&mut self, depth: usize, what: String, estimate: Option<u64>, is_chosen: bool) {
        self.terms.push(ExplainedTerm { depth, what, estimate, is_chosen });
    }

    fn term(&mut self, term: &Term, depth: usize, is_chosen: bool) -> Result<()> {
        let schema = &self.planner.state.catalog.schema;
        let what = match term {
            Term::And(_) => "all of".to_owned(),
            Term::Or(_) => "any of".to_owned(),
            Term::Not(_) => "not".to_owned(),
            Term::Constant(Truth::True) => "every entry".to_owned(),
            Term::Constant(Truth::False) => "no entry".to_owned(),
            Term::Constant(Truth::Undefined) => "undefined: no entry".to_owned(),
            Term::Class(class) => format!("object class {}", schema.class_by_id(*class).name()),
            Term::StructuralClass(class) => {
                format!("structural object class {}", schema.class_by_id(*class).name())
            }
            Term::Item(item) => self.item(item),
        };
        let estimate = self.planner.narrow(term, u64::MAX)?.map(|narrowed| narrowed.count);
        self.put(depth, what, estimate, is_chosen);
        match term {
            Term::And(terms) | Term::Or(terms) => {
                terms.iter().try_for_each(|term| self.term(term, depth + 1, is_chosen))
            }
            Term::Not(term) => self.term(term, depth + 1, false),
            _ => Ok(()),
        }
    }

    fn item(&self, item: &Item) -> String {
        let schema = &self.planner.state.catalog.schema;
        let test = match &item.test {
            // No plan is made by it.
            Test::Visible(_) => "what shows",
            Test::Present => "presence",
            Test::Equal(..) => "equality",
            Test::AtLeast(..) => "lower bound",
            Test::AtMost(..) => "upper bound",
            Test::Substring(..) => "substring",
            Test::Extensible(..) => "extensible match",
            Test::Sounds(_) => "sound",
        };
        match &item.subject {
            Subject::Attribute(description) => {
                format!("{test} of {}", description.returned_name(schema))
            }
            Subject::Virtual(attribute) => {
                let mut all = VirtualAttribute::all(schema);
                let of = all.find(|(known, _)| known == attribute);
                let name = of.map_or("an attribute", |(_, type_id)| schema.type_by_id(type_id).name());
                format!("{test} of {name}")
            }
            Subject::Any => format!("{test} of any attribute"),
        }
    }
}

/// The indexes that would narrow a filter down and are not there, or not yet.
pub(super) fn missing(catalog: &Catalog, filter: &Term) -> Vec<String> {
    let mut all = Vec::new();
    add_missing(catalog, filter, &mut all);
    all
}

fn add_missing(catalog: &Catalog, term: &Term, all: &mut Vec<String>) {
    match term {
        Term::And(terms) | Term::Or(terms) => {
            terms.iter().for_each(|term| add_missing(catalog, term, all));
        }
        Term::Item(item) if !item.dn_attributes => {
            for missing in missing_for(catalog, item) {
                if !all.contains(&missing) {
                    all.push(missing);
                }
            }
        }
        // No index tells which entries lack something.
        _ => {}
    }
}

fn missing_for(catalog: &Catalog, item: &Item) -> Vec<String> {
    let Subject::Attribute(_) = item.subject else { return Vec::new() };
    let (parts, kind): (&[IndexPart], _) = match &item.test {
        Test::Equal(..) => (&[IndexPart::Values], "an equality"),
        Test::AtLeast(rule, _) | Test::AtMost(rule, _) if rule.is_order_preserving() => {
            (&[IndexPart::Values], "an ordering")
        }
        Test::Substring(_, assertion) => {
            let mut pieces = assertion.pieces();
            let is_prefix = pieces.next().is_some_and(|piece| piece.at_start) && pieces.next().is_none();
            match needed_grams(assertion.pieces()) {
                NeededGrams::Nothing => return Vec::new(),
                _ if is_prefix => (&[IndexPart::Values, IndexPart::Grams], "an ordering"),
                _ => (&[IndexPart::Grams], "a substring"),
            }
        }
        Test::Present => (&[IndexPart::Values, IndexPart::Presence], "a presence"),
        Test::Sounds(_) => (&[IndexPart::Sounds], "an approximate"),
        Test::AtLeast(..) | Test::AtMost(..) | Test::Extensible(..) | Test::Visible(_) => return Vec::new(),
    };
    let defs = item.attributes.iter().map(|id| catalog.attribute(*id));
    let lacking = defs.filter(|def| !def.is_link && !parts.iter().any(|part| def.index.answers(*part)));
    let mut all: Vec<String> = lacking
        .map(|def| {
            let def = catalog.attribute(def.base);
            format!("{kind} index on {}{}", def.name, building(def, parts))
        })
        .collect();
    all.dedup();
    all
}

fn building(def: &AttributeDef, parts: &[IndexPart]) -> &'static str {
    let is_building = parts.iter().any(|part| def.index.phase(*part) == Phase::Building);
    if is_building { " (being built)" } else { "" }
}

/// Whether a search may have to look at many entries for few results: its plan knows no way to those that pass.
pub(super) fn is_unindexed(filter: &Term, plan: &Plan) -> bool {
    plan.implied != Implied::All && !matches!(filter, Term::Constant(Truth::True))
}
