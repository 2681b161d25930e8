//! Explanation of a plan: the source of the candidates, the cost of each filter term alone, and missing indexes. The
//! command `pando explain`, the explain control, and the diagnostic messages of refusals use this explanation.
//!
//! Terms are described by attribute and kind of test, never by the asserted value, because explanations end up in logs.

use std::collections::BTreeSet;
use std::fmt;

use schema::Schema;

use super::plan::{Implied, Plan, Planner, Result, Source};
use crate::catalog::{AttributeDef, Catalog, VirtualAttribute};
use crate::filter::{Item, Subject, Term, Test, Truth};
use crate::index::keys::{NeededGrams, needed_grams};
use crate::model::index_definition::{IndexKinds, IndexPart, Phase};
use crate::model::rows::NODES;
use crate::tree::TreeState;

/// Plan and progress of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Number of entries in the directory.
    pub entry_count: u64,
    /// Source of the candidates.
    pub source: CandidateSource,
    /// Upper bound of the number of candidates, as estimated by the plan.
    pub candidate_count: u64,
    /// Number of candidates examined.
    pub examined_count: u64,
    /// Number of entries returned.
    pub returned_count: u64,
    /// Terms, in the order of the filter.
    pub terms: Vec<ExplainedTerm>,
    /// Missing indexes that would have narrowed the search, such as `a substring index on cn`.
    pub missing: Vec<String>,
    /// Time by step, if the caller has a clock.
    pub times: Option<StepTimes>,
}

/// Source of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateSource {
    /// All entries.
    Scan,
    /// The scope: the base entry, its children or its subtree.
    Place,
    /// Indexes.
    Indexes,
    /// A sort order.
    Order,
}

/// A term of the filter, with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedTerm {
    /// Nesting depth in the filter.
    pub depth: usize,
    /// Description of the test: `equality of uid`, `all of`.
    pub what: String,
    /// Number of entries that the term alone selects; `None` if no index narrows it.
    pub estimate: Option<u64>,
    /// Whether the term is a source of the candidates.
    pub is_chosen: bool,
}

/// Time by step, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Time from the request to the plan: lookup of the base, preparation of the filter, estimates, and reading of
    /// short postings.
    pub plan: u64,
    /// Time for gathering ids from ranges of index keys.
    pub gather: u64,
    /// Time for examining candidates and encoding results, summed over all threads.
    pub examine: u64,
    /// Number of slices in which candidates were examined. Between slices, other clients are served.
    pub slices: u64,
    /// Number of these slices that scan threads ran.
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
            CandidateSource::Order => {
                writeln!(f, "in a sort order: {candidates} candidates of {} entries", self.entry_count)?;
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

/// Explains a plan. The caller sets the fields for the progress of the search.
pub(super) fn explain(state: TreeState<'_>, filter: &Term, plan: &Plan) -> Result<Explanation> {
    let entry_count = state.read.row_count(NODES)?;
    let mut explained =
        Explained { planner: Planner { state, entry_count, is_of_member_url: false }, terms: Vec::new() };
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
        missing: missing(state.catalog, filter).iter().map(MissingIndex::to_string).collect(),
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
            // Never occurs in an explained filter, because plans are made without access rules.
            Test::Visible(_) => "what shows",
            Test::Present => "presence",
            Test::Equal(..) => "equality",
            Test::AtLeast(..) => "lower bound",
            Test::AtMost(..) => "upper bound",
            Test::Substring(..) => "substring",
            Test::Extensible(..) => "extensible match",
            Test::Sounds(_) => "sound",
            Test::InChain(_) => "chains",
        };
        match &item.subject {
            Subject::Any => format!("{test} of any attribute"),
            subject => format!("{test} of {}", subject_name(schema, subject)),
        }
    }
}

/// Calls `each` once for each attribute whose terms supply candidates.
pub(super) fn each_index(schema: &Schema, filter: &Term, plan: &Plan, each: &mut dyn FnMut(&str)) {
    if plan.is_by_place || plan.chosen_terms == 0 || matches!(plan.source(), Source::Scan) {
        return;
    }
    let mut names = BTreeSet::new();
    match filter {
        Term::And(terms) => {
            for (place, term) in terms.iter().enumerate().take(64) {
                if plan.chosen_terms & 1 << place != 0 {
                    gather_attributes(schema, term, &mut names);
                }
            }
        }
        term => gather_attributes(schema, term, &mut names),
    }
    names.into_iter().for_each(each);
}

fn gather_attributes<'s>(schema: &'s Schema, term: &Term, names: &mut BTreeSet<&'s str>) {
    let name = match term {
        Term::Item(Item { subject: Subject::Attribute(description), .. }) => {
            schema.type_by_id(description.type_id).name()
        }
        Term::Class(_) | Term::StructuralClass(_) => "objectClass",
        Term::And(terms) | Term::Or(terms) => {
            return terms.iter().for_each(|term| gather_attributes(schema, term, names));
        }
        _ => return,
    };
    names.insert(name);
}

/// Returns the name of the attribute that an item tests; empty if the item tests all attributes.
pub(super) fn subject_name(schema: &Schema, subject: &Subject) -> String {
    match subject {
        Subject::Attribute(description) => description.returned_name(schema).into_owned(),
        Subject::Virtual(attribute) => {
            let of = VirtualAttribute::all(schema).find(|(known, _)| known == attribute);
            of.map_or("an attribute", |(_, type_id)| schema.type_by_id(type_id).name()).to_owned()
        }
        Subject::Any => String::new(),
    }
}

/// A missing index that would narrow a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingIndex {
    /// Name of the attribute type.
    pub attribute: String,
    /// Kind of the index.
    pub kind: IndexKinds,
    /// All kinds of the attribute's index, including `kind`.
    pub kinds: IndexKinds,
    /// Whether the index is defined and being built.
    pub is_building: bool,
}

impl MissingIndex {
    /// Returns the setting that defines the index, as a line of the settings file.
    pub fn setting(&self) -> String {
        format!("indexes.{} = [\"{}\"]", self.attribute, self.kinds.to_string().replace(',', "\", \""))
    }
}

impl fmt::Display for MissingIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_string();
        let article = if kind.starts_with(['a', 'e', 'o']) { "an" } else { "a" };
        let building = if self.is_building { " (being built)" } else { "" };
        write!(f, "{article} {kind} index on {}{building}", self.attribute)
    }
}

/// Returns the remedy in the message of a refusal: the missing indexes, with the settings that define them.
pub(super) fn remedy(catalog: &Catalog, filter: &Term) -> String {
    let missing = missing(catalog, filter);
    if missing.is_empty() {
        return "a narrower base or filter is needed".to_owned();
    }
    let text = |index: &MissingIndex| match index.is_building {
        true => index.to_string(),
        false => format!("{index} ({})", index.setting()),
    };
    format!("missing: {}", missing.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Returns the indexes that would narrow a filter and are absent or incomplete.
pub(super) fn missing(catalog: &Catalog, filter: &Term) -> Vec<MissingIndex> {
    let mut all = Vec::new();
    add_missing(catalog, filter, &mut all);
    all
}

fn add_missing(catalog: &Catalog, term: &Term, all: &mut Vec<MissingIndex>) {
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
        // Other terms need no index. No index can narrow a negation, because no index lists the entries that lack a
        // value.
        _ => {}
    }
}

fn missing_for(catalog: &Catalog, item: &Item) -> Vec<MissingIndex> {
    let Subject::Attribute(_) = item.subject else { return Vec::new() };
    let (parts, kind): (&[IndexPart], _) = match &item.test {
        Test::Equal(..) => (&[IndexPart::Values], IndexKinds::EQUALITY),
        Test::AtLeast(rule, _) | Test::AtMost(rule, _) if rule.is_order_preserving() => {
            (&[IndexPart::Values], IndexKinds::ORDERING)
        }
        Test::Substring(_, assertion) => {
            let mut pieces = assertion.pieces();
            let is_prefix = pieces.next().is_some_and(|piece| piece.at_start) && pieces.next().is_none();
            match needed_grams(assertion.pieces()) {
                NeededGrams::Nothing => return Vec::new(),
                _ if is_prefix => (&[IndexPart::Values, IndexPart::Grams], IndexKinds::ORDERING),
                _ => (&[IndexPart::Grams], IndexKinds::SUBSTRING),
            }
        }
        Test::Present => (&[IndexPart::Values, IndexPart::Presence], IndexKinds::PRESENCE),
        Test::Sounds(_) => (&[IndexPart::Sounds], IndexKinds::APPROXIMATE),
        Test::AtLeast(..) | Test::AtMost(..) | Test::Extensible(..) | Test::InChain(_) | Test::Visible(_) => {
            return Vec::new();
        }
    };
    let defs = item.attributes.iter().map(|id| catalog.attribute(*id));
    let lacking = defs.filter(|def| !def.is_link && !parts.iter().any(|part| def.index.answers(*part)));
    let mut all: Vec<_> = lacking
        .map(|def| {
            let def = catalog.attribute(def.base);
            let kinds = def.index.kinds.with(kind);
            MissingIndex { attribute: def.name.clone(), kind, kinds, is_building: is_building(def, parts) }
        })
        .collect();
    all.dedup();
    all
}

fn is_building(def: &AttributeDef, parts: &[IndexPart]) -> bool {
    parts.iter().any(|part| def.index.phase(*part) == Phase::Building)
}

/// Returns true if a search may have to examine many entries for few results, because the source of its candidates
/// does not imply the whole filter. Returns false for a filter that every entry matches.
pub(super) fn is_unindexed(filter: &Term, plan: &Plan) -> bool {
    plan.implied != Implied::All && !matches!(filter, Term::Constant(Truth::True))
}
