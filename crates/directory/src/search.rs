//! Search (RFC 4511 section 4.5): a state machine that owns its request and no snapshot.
//!
//! [`Search::start`] finds the base, makes the filter ready and chooses a plan; [`Search::run`] goes on for as
//! long as its budget lasts, on whatever snapshot the calling thread has by then. So a long search never holds up a
//! thread or a position of the store, and any thread may run its next slice.
//!
//! Results come in ascending entry id. An entry that matches throughout is returned exactly once, one that changes
//! meanwhile at most once, and each is consistent in itself: between slices the search remembers the last id and goes on
//! behind it. When the snapshot has moved, names in the filter are looked up again and nothing is taken for granted of
//! candidates found before.
//!
//! - `base`: from a DN to the entry, through aliases and referrals
//! - `filter`, `evaluate`: three-valued logic on an entry
//! - `plan`, `pieces`, `ranges`, `candidates`: which entries to look at
//! - `explain`: the plan, for a person
//! - `scope`: which of them the search is about, and their DNs
//! - `selection`, `result`: what is returned of them
//! - `outside`: the root DSE, the schema and the monitor, which are not in the tree

mod base;
mod candidates;
mod evaluate;
mod explain;
mod filter;
mod outside;
mod pieces;
mod plan;
mod ranges;
mod result;
mod scope;
mod selection;
#[cfg(test)]
mod tests;

use ldap::response::{LdapResult, ResponseOp, encode_result, encode_search_reference};
use ldap::{Control, Controls, ControlsBuf, DerefAliases, MessageId, ResultCode, Scope, SearchRequest};

pub(crate) use base::{Finding, find_entry};
pub(crate) use evaluate::{Candidate, Evaluator, InMemory, for_each_value};
pub use explain::{CandidateSource, ExplainedTerm, Explanation, StepTimes};
pub(crate) use filter::{Compiler, Term, Truth};
pub(crate) use outside::entries as entries_outside;
pub(crate) use result::resolved;
pub(crate) use scope::SearchScope;
pub(crate) use selection::Selection;

use crate::access::{Access, Requester};
use crate::controls::{EXPLAIN, RequestControls};
use crate::name_cache::NameCache;
use crate::rows::EntryId;
use crate::tree::{NormalName, State, node, parse_dn};
use crate::{OperationError, Outcome, Snapshot};
use candidates::Candidates;
use plan::{Implied, Plan};
use result::ResultWriter;

/// Keys of an index that are gone through for the work that one candidate costs.
const KEYS_PER_ENTRY: usize = 8;

/// Tests of a filter that are tried for the work that one candidate costs otherwise.
const TESTS_PER_ENTRY: usize = 8;

/// How much one slice of a search may do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Candidates looked at, whether they pass or not.
    pub entries_examined_max: u32,
    /// Bytes appended; the slice ends with the result that reaches it.
    pub out_bytes_max: usize,
}

/// Whether a search wants another slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call [`Search::run`] again.
    More,
    /// The searchResDone is written.
    Done,
}

/// A search under way. `Send`; owns everything it needs.
pub struct Search {
    id: MessageId,
    size_limit: u32,
    time_limit_seconds: u32,
    entries_sent: u64,
    result_code: Option<ResultCode>,
    work: Work,
}

enum Work {
    /// Results that were made at the start.
    Made(Results),
    Tree(Box<TreeSearch>),
}

/// Messages of entries, one after another.
#[derive(Default)]
struct Results {
    messages: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// Microseconds since some point, as the caller of a search measures them: this crate reads no clock.
pub type Clock = Box<dyn Fn() -> u64 + Send>;

/// A search in the tree.
struct TreeSearch {
    access: Access,
    filter: Term,
    scope: SearchScope,
    plan: Plan,
    evaluator: Evaluator,
    writer: ResultWriter,
    /// Referral entries in scope, to be sent before the entries; the next one last.
    referrals: Vec<EntryId>,
    /// What a candidate counts for in the budget: more, the longer the filter is.
    candidate_cost: u32,
    /// The lowest id not looked at.
    next_id: u64,
    /// Version of the snapshot at the start, when the candidates were collected.
    planned_version: u64,
    /// Version of the snapshot of the last slice.
    version: u64,
    /// Attributes of the catalogue that the filter has taken into account.
    attribute_count: usize,
    /// Version of the indexes that the plan is about.
    index_version: u64,
    uses_indexes: bool,
    /// Candidates looked at.
    examined_count: u64,
    /// Those of them that did not pass.
    rejected_count: u64,
    /// Whether the searchResDone explains the plan.
    explains: bool,
    clock: Option<Clock>,
    times: StepTimes,
}

impl Search {
    /// Prepares a search.
    ///
    /// # Errors
    /// The outcome to answer with: the base is not there, may not be read, or is held elsewhere.
    pub fn start(
        snapshot: &Snapshot,
        requester: &Requester,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Search, Outcome> {
        Search::try_start(snapshot, requester, id, request, controls).map_err(Outcome::from)
    }

    fn try_start(
        snapshot: &Snapshot,
        requester: &Requester,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Search, OperationError> {
        let state = snapshot.state();
        let access = Access::of(requester, state.settings);
        if controls.explain && !access.is_administrator() {
            // Estimates count entries, whoever may read them.
            return Err(OperationError::refused(
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "only the administrator may ask how a search is carried out",
            ));
        }
        // The administrator has no limits but those of the request.
        let limit = |asked: u32, set: u32| match (asked, if access.is_administrator() { 0 } else { set }) {
            (0, limit) | (limit, 0) => limit,
            (asked, set) => asked.min(set),
        };
        let work = match Search::known_base(snapshot, request, controls) {
            Some(base) => {
                access.check_read_tree()?;
                Work::Tree(Box::new(TreeSearch::start(snapshot, access, id, request, controls, base)?))
            }
            None => Search::find_base(snapshot, access, id, request, controls)?,
        };
        Ok(Search {
            id,
            size_limit: limit(request.size_limit, state.settings.size_limit),
            time_limit_seconds: limit(request.time_limit_seconds, state.settings.time_limit_seconds),
            entries_sent: 0,
            result_code: None,
            work,
        })
    }

    /// The base, where the snapshot remembers it and it is an ordinary entry to this request.
    fn known_base(
        snapshot: &Snapshot,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Option<EntryId> {
        let (id, flags) = snapshot.names().base(request.base_object)?;
        (!finding(request, controls).is_special(flags)).then_some(id)
    }

    fn find_base(
        snapshot: &Snapshot,
        access: Access,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Work, OperationError> {
        let state = snapshot.state();
        let dn = parse_dn(request.base_object)?;
        let name = NormalName::of(&dn, &state.catalog.schema);
        if let Some(work) = outside::start(snapshot, access, id, request, controls.external, &dn, &name)? {
            return Ok(work);
        }
        access.check_read_tree()?;
        let base = if dn.is_empty() {
            EntryId::ROOT
        } else {
            let finding = finding(request, controls);
            let found = find_entry(state, &dn, &name, finding)?;
            let has_aliases = state.catalog.class_sets().iter().any(|set| set.flags.is_alias());
            // A base for one entry is rarely asked for twice.
            if request.scope != Scope::BaseObject && !(finding.follows_aliases && has_aliases) {
                snapshot.names().keep_base(request.base_object, found);
            }
            found.0
        };
        Ok(Work::Tree(Box::new(TreeSearch::start(snapshot, access, id, request, controls, base)?)))
    }

    /// Makes the search scan all entries, whatever indexes there are. The results are the same; that is what tests are
    /// for.
    #[doc(hidden)]
    pub fn ignore_indexes(&mut self) {
        if let Work::Tree(search) = &mut self.work {
            search.uses_indexes = false;
            search.plan = Plan::scan(0);
        }
    }

    /// Goes on with the search until it ends or the budget is used up. Appends whole messages to `out`, the
    /// searchResDone last. Not to be called again after [`Step::Done`].
    pub fn run(&mut self, snapshot: &Snapshot, out: &mut Vec<u8>, budget: &Budget) -> Step {
        let outcome = match &mut self.work {
            Work::Made(results) => {
                let limit = if self.size_limit == 0 { usize::MAX } else { self.size_limit as usize };
                let count = results.ends.len().min(limit);
                let end = count.checked_sub(1).map_or(0, |last| results.ends[last]);
                out.extend_from_slice(&results.messages[..end]);
                self.entries_sent = count as u64;
                let is_cut = count < results.ends.len();
                Ok(Some(if is_cut { ResultCode::SIZE_LIMIT_EXCEEDED } else { ResultCode::SUCCESS }))
            }
            Work::Tree(search) => {
                search.run_measured(snapshot, out, budget, self.size_limit, &mut self.entries_sent)
            }
        };
        let outcome = match outcome {
            Ok(None) => return Step::More,
            Ok(Some(code)) => Outcome::code(code),
            Err(error) => Outcome::from(error),
        };
        self.result_code = Some(outcome.code);
        let result = LdapResult {
            code: outcome.code,
            matched_dn: &outcome.matched_dn,
            diagnostic: &outcome.diagnostic,
            referrals: &outcome.referrals,
        };
        let controls = self.response_controls(snapshot);
        encode_result(out, self.id, ResponseOp::SearchDone, &result, controls.as_controls());
        Step::Done
    }

    /// How the search goes about it and what it has done so far; `None` where there is no plan: the root DSE, the schema
    /// and the monitor are not in the tree.
    ///
    /// # Errors
    /// The store failed.
    pub fn explanation(&self, snapshot: &Snapshot) -> Result<Option<Explanation>, OperationError> {
        let Work::Tree(search) = &self.work else { return Ok(None) };
        let explanation = explain::explain(snapshot.state(), &search.filter, &search.plan)?;
        Ok(Some(Explanation {
            examined_count: search.examined_count,
            returned_count: self.entries_sent,
            times: search.clock.is_some().then_some(search.times),
            ..explanation
        }))
    }

    /// Whether the request asks for an explanation: then [`measure`](Search::measure) is worth a call.
    pub fn explains(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.explains)
    }

    /// Lets the explanation say how long each step takes. `plan_micros` went by until [`start`](Search::start) returned.
    pub fn measure(&mut self, plan_micros: u64, clock: Clock) {
        if let Work::Tree(search) = &mut self.work {
            search.times.plan = plan_micros;
            search.clock = Some(clock);
        }
    }

    /// The control with the explanation, if the request asks for one.
    fn response_controls(&self, snapshot: &Snapshot) -> ControlsBuf {
        let mut controls = ControlsBuf::new();
        if self.explains()
            && let Ok(Some(explanation)) = self.explanation(snapshot)
        {
            let text = explanation.to_string();
            controls.push(Control { oid: EXPLAIN, critical: false, value: Some(text.as_bytes()) });
        }
        controls
    }

    /// Ends the search before its time, with a searchResDone of this code: timeLimitExceeded, for example.
    pub fn stop(self, out: &mut Vec<u8>, code: ResultCode) {
        encode_result(out, self.id, ResponseOp::SearchDone, &LdapResult::new(code, ""), Controls::NONE);
    }

    /// Seconds that the search may take; 0 for any time.
    pub fn time_limit_seconds(&self) -> u32 {
        self.time_limit_seconds
    }

    /// The message that it answers.
    pub fn message_id(&self) -> MessageId {
        self.id
    }

    /// Entries returned so far.
    pub fn entries_sent(&self) -> u64 {
        self.entries_sent
    }

    /// The result code, once the search is done.
    pub fn result_code(&self) -> Option<ResultCode> {
        self.result_code
    }
}

impl TreeSearch {
    fn start(
        snapshot: &Snapshot,
        access: Access,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
        base: EntryId,
    ) -> Result<TreeSearch, OperationError> {
        let state = snapshot.state();
        let mut scope = SearchScope {
            kind: request.scope,
            base,
            vertices: vec![base],
            extras: Vec::new(),
            follows_aliases: matches!(
                request.deref_aliases,
                DerefAliases::InSearching | DerefAliases::Always
            ),
            manages: controls.manage_dsa_it,
            subentries: controls.subentries,
            last: None,
        };
        let mut referrals = Vec::new();
        if scope.kind != Scope::BaseObject {
            if scope.follows_aliases {
                scope.follow_aliases(state, &mut snapshot.names())?;
            }
            if !scope.manages {
                referrals = scope.referrals(state, &mut snapshot.names())?;
                referrals.reverse();
            }
        }
        let mut filter = Compiler { catalog: state.catalog, access }.compile(request.filter);
        filter.find_targets(state)?;
        let selection = Selection::of(request.attributes, state.catalog, access);
        let plan = Plan::choose(state, &scope, &filter)?;
        check_cost(state, access, &filter, &plan)?;
        Ok(TreeSearch {
            access,
            plan,
            candidate_cost: (filter.test_count() / TESTS_PER_ENTRY).clamp(1, u32::MAX as usize) as u32,
            filter,
            scope,
            evaluator: Evaluator::new(access),
            writer: ResultWriter::new(id, request.types_only, selection),
            referrals,
            next_id: 0,
            planned_version: snapshot.version(),
            version: snapshot.version(),
            attribute_count: state.catalog.attributes().len(),
            index_version: state.catalog.index_version(),
            uses_indexes: true,
            examined_count: 0,
            rejected_count: 0,
            explains: controls.explain,
            clock: None,
            times: StepTimes::default(),
        })
    }

    fn now(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock())
    }

    /// One slice and what it took.
    fn run_measured(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
        size_limit: u32,
        entries_sent: &mut u64,
    ) -> Result<Option<ResultCode>, OperationError> {
        let (start, gathered) = (self.now(), self.times.gather);
        let result = self.run(snapshot, out, budget, size_limit, entries_sent);
        let took = self.now().saturating_sub(start);
        self.times.examine += took.saturating_sub(self.times.gather - gathered);
        self.times.slices += 1;
        result
    }

    /// One slice; the result code if it is the last.
    fn run(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
        size_limit: u32,
        entries_sent: &mut u64,
    ) -> Result<Option<ResultCode>, OperationError> {
        let state = snapshot.state();
        self.catch_up(snapshot)?;
        let names = &mut *snapshot.names();
        let out_start = out.len();
        let mut left = budget.entries_examined_max.max(1);
        while let Some(referral) = self.referrals.pop() {
            self.put_reference(out, state, names, referral)?;
            left = left.saturating_sub(1);
            if left == 0 || out.len() - out_start >= budget.out_bytes_max {
                return Ok(None);
            }
        }
        let before = self.now();
        let is_gathered = self.plan.gather(state.read, left as usize * KEYS_PER_ENTRY)?;
        self.times.gather += self.now().saturating_sub(before);
        if !is_gathered {
            return Ok(None);
        }
        let implied = if self.version == self.planned_version { self.plan.implied } else { Implied::Nothing };
        let rejected_max = examined_max(state, self.access);
        let mut candidates = Candidates::open(state.read, &self.plan.source, self.next_id)?;
        while let Some((id, row)) = candidates.next()? {
            if left == 0 || out.len() - out_start >= budget.out_bytes_max {
                return Ok(None);
            }
            left = left.saturating_sub(self.candidate_cost);
            self.next_id = id.0 + 1;
            self.examined_count += 1;
            let row = match row {
                Some(row) => row,
                // Deleted since it was collected.
                None => match node(state.read, id)? {
                    Some(row) => row,
                    None => continue,
                },
            };
            let candidate = Candidate::new(id, row);
            if !self.scope.admits(id, row.flags)
                || !self.scope.contains(state, names, id, &row)?
                || truth(&mut self.evaluator, &self.filter, implied, state, &candidate)? != Truth::True
            {
                self.rejected_count += 1;
                if self.rejected_count > rejected_max {
                    return Err(unindexed(state, &self.filter, self.examined_count, rejected_max));
                }
                continue;
            }
            if size_limit > 0 && *entries_sent >= u64::from(size_limit) {
                return Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED));
            }
            self.writer.put_entry(out, state, names, &candidate)?;
            *entries_sent += 1;
        }
        Ok(Some(ResultCode::SUCCESS))
    }

    /// Brings what was found out on an earlier snapshot up to date.
    fn catch_up(&mut self, snapshot: &Snapshot) -> Result<(), OperationError> {
        if snapshot.version() == self.version {
            return Ok(());
        }
        self.version = snapshot.version();
        let state = snapshot.state();
        self.scope.last = None;
        self.filter.find_targets(state)?;
        if state.catalog.attributes().len() != self.attribute_count {
            self.attribute_count = state.catalog.attributes().len();
            self.filter.find_attributes(state.catalog, self.access)?;
        }
        // What the plan goes by may be gone: an index dropped meanwhile no longer follows changes.
        if self.uses_indexes && state.catalog.index_version() != self.index_version {
            self.index_version = state.catalog.index_version();
            self.plan = Plan::choose(state, &self.scope, &self.filter)?;
            self.planned_version = self.version;
        }
        Ok(())
    }

    /// Appends the continuation reference for a referral entry, if it is still one in scope.
    fn put_reference(
        &mut self,
        out: &mut Vec<u8>,
        state: State<'_>,
        names: &mut NameCache,
        id: EntryId,
    ) -> Result<(), OperationError> {
        let Some(row) = node(state.read, id)? else { return Ok(()) };
        if !row.flags.is_referral() || !self.scope.contains(state, names, id, &row)? {
            return Ok(());
        }
        let dn = state.dn(id)?.unwrap_or_default();
        let uris = crate::referral::continuation(state, id, &dn, self.scope.kind)?;
        if !uris.is_empty() {
            encode_search_reference(out, self.writer.id, &uris, Controls::NONE);
        }
        Ok(())
    }
}

/// Most entries that a search may look at in vain.
fn examined_max(state: State<'_>, access: Access) -> u64 {
    match state.settings.unindexed_examined_max {
        0 => u64::MAX,
        _ if access.is_administrator() => u64::MAX,
        max => max,
    }
}

/// Refuses a search that an index is missing for and that would look at too many entries without it. What only shows on
/// the way is refused on the way.
fn check_cost(state: State<'_>, access: Access, filter: &Term, plan: &Plan) -> Result<(), OperationError> {
    let max = examined_max(state, access);
    let is_long = plan.candidate_count > max && explain::is_unindexed(filter, plan);
    if is_long && !explain::missing(state.catalog, filter).is_empty() {
        return Err(unindexed(state, filter, plan.candidate_count, max));
    }
    Ok(())
}

fn unindexed(state: State<'_>, filter: &Term, examined: u64, max: u64) -> OperationError {
    let help = match explain::missing(state.catalog, filter).as_slice() {
        [] => "a narrower base or filter is needed".to_owned(),
        missing => format!("missing: {}", missing.join(", ")),
    };
    OperationError::refused(
        ResultCode::UNWILLING_TO_PERFORM,
        format!("{examined} entries to look at, searches without an index may look at {max}; {help}"),
    )
}

/// How the base of a search is to be found.
fn finding(request: &SearchRequest<'_>, controls: &RequestControls) -> Finding {
    Finding {
        follows_aliases: matches!(request.deref_aliases, DerefAliases::FindingBase | DerefAliases::Always),
        manages: controls.manage_dsa_it,
        scope: Some(request.scope),
    }
}

/// What the filter says of a candidate, where it has not been said by where it was found.
#[inline]
fn truth<'s>(
    evaluator: &mut Evaluator,
    filter: &Term,
    implied: Implied,
    state: State<'s>,
    candidate: &Candidate<'s>,
) -> Result<Truth, OperationError> {
    match (implied, filter) {
        (Implied::All, _) => Ok(Truth::True),
        (Implied::Terms(implied), Term::And(terms)) => {
            for (place, term) in terms.iter().enumerate() {
                if (place >= 64 || implied & 1 << place == 0)
                    && evaluator.truth(term, state, candidate)? != Truth::True
                {
                    return Ok(Truth::False);
                }
            }
            Ok(Truth::True)
        }
        _ => evaluator.truth(filter, state, candidate),
    }
}
