//! Rehearsal on an audit trail. Each recorded operation is evaluated twice on the present entries: under the rules in
//! force and under the proposed rules.
//!
//! Differences are aggregated by requester, entry and right, with a count and the last time. Memory is therefore
//! bounded, regardless of the length of the trail. Rights of requesters and results of searches are cached between
//! operations, because clients repeat the same requests.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use ldap::{Scope, SearchRequest};
use schema::TypeId;

use super::gain;
use super::operation::{
    At, EntryPlace, OperationType, REQUESTERS_CACHED_MAX, RecordedOperation, RequesterCache, base_of, moved,
    name_of, new_place_of, place_of, rights_at, type_of,
};
use crate::access::{
    ASKED, AccessExplanation, EffectiveRights, EntryRights, Requester, RightExtent, RulesInForce,
    explain_under, right_over_password,
};
use crate::catalog::{Secrets, Shown};
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, JOIN, LEAVE, PROXY, READ, RENAME, Rights, SEARCH, WRITE,
};
use crate::model::client_link::ClientLink;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::EntryId;
use crate::model::settings::GeneralSettings;
use crate::read::search::{Extent, RequesterView, ResultDifference, SearchAgain};
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum size of cached searches with their results, in octets.
const SEARCHES_KEPT_BYTES: usize = 16 << 20;

/// Maximum number of unlisted differences that are counted.
const UNLISTED_MAX: usize = 1_000_000;

/// Maximum number of deciding rules that the reason for a decision names.
const RULES_NAMED_MAX: usize = 3;

/// Limits of a rehearsal.
#[derive(Clone, Copy, Debug)]
pub struct RecordedLimits {
    /// Maximum number of listed differences.
    pub lines_max: usize,
    /// Maximum number of matching entries that are examined for one search.
    pub matching_max: u64,
    /// Maximum number of entries, matching or not, that are examined for one search.
    pub examined_max: u64,
}

/// A decision that differs under the proposed rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionChange {
    /// Authorization identity of the requester; `anonymous` for the anonymous client.
    pub requester: String,
    /// DN of the entry.
    pub dn: String,
    /// Required right, such as `browse` or `read mail`.
    pub right: String,
    /// True if the right would be newly allowed, false if it would be newly denied.
    pub is_gained: bool,
    /// Number of operations with this change.
    pub count: u64,
    /// Time of the last of these operations, in microseconds since 1970.
    pub last_micros: u64,
    /// Reason for the decision under the rules in force.
    pub before: String,
    /// Reason for the decision under the proposed rules.
    pub after: String,
}

/// Counts of the operations of a rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTally {
    /// Number of operations that were evaluated.
    pub decided: u64,
    /// Times of the earliest and the latest operation, in microseconds since 1970; `None` before the first operation.
    pub times: Option<(u64, u64)>,
    /// Number of operations whose decision changes.
    pub changed: u64,
    /// Number of operations of the administrator, to whom no rule applies.
    pub of_administrator: u64,
    /// Number of operations that could not be evaluated, because the requester no longer exists.
    pub requester_gone: u64,
    /// Number of operations that could not be evaluated, because the entry no longer exists.
    pub entry_gone: u64,
    /// Number of changes of entries that no longer exist. Such a change is evaluated by the entry's place in the tree.
    pub by_place: u64,
    /// Number of searches for which not all entries were examined.
    pub cut: u64,
    /// Number of differences that are not listed.
    pub unlisted: usize,
    /// Whether more differences exist that are neither listed nor counted.
    pub has_more_unlisted: bool,
}

/// A rehearsal that receives the recorded operations one by one.
pub struct RecordedRehearsal<'s> {
    state: TreeState<'s>,
    rules: [RulesInForce; 2],
    limits: RecordedLimits,
    requesters: RequesterCache,
    pairs: HashMap<PairKey, Pair, RandomState>,
    searches: HashMap<Box<[u8]>, Effect, RandomState>,
    searches_bytes: usize,
    lines: Vec<DecisionChange>,
    places: HashMap<LineKey, usize, RandomState>,
    unlisted: HashSet<u64, RandomState>,
    tally: RecordedTally,
}

/// Requester, entry, right, and whether the right is gained.
type LineKey = (Box<str>, Box<str>, Box<str>, bool);

/// A requester, and the rules that apply to the connection, as bits: first the rules in force, then the proposed rules.
type PairKey = (Option<EntryId>, Vec<u64>, Vec<u64>);

/// Rights of a requester under both sets of rules.
struct Pair {
    before: RequesterView,
    after: RequesterView,
}

/// Cached result of a search.
#[derive(Clone, Debug, Default)]
struct Effect {
    /// Listed differences to which the search contributes.
    lines: Vec<usize>,
    /// Whether the search contributes to unlisted differences.
    has_unlisted: bool,
    is_cut: bool,
}

/// An operation that is being evaluated.
struct PendingOperation<'a> {
    requester: &'a Requester,
    link: ClientLink,
    micros: u64,
    effect: Effect,
}

impl<'s> RecordedRehearsal<'s> {
    /// Creates a rehearsal of the rules in these settings.
    pub fn new(
        state: TreeState<'s>,
        proposal: &GeneralSettings,
        limits: RecordedLimits,
    ) -> RecordedRehearsal<'s> {
        let anonymous_read = proposal.anonymous_read || state.settings.node.anonymous_read;
        let schema = &*state.catalog.schema;
        let secrets = Secrets::of(schema, &proposal.secret_attributes);
        let proposed = RulesInForce::proposed(&proposal.access_rules, anonymous_read, (schema, &secrets));
        RecordedRehearsal {
            state,
            rules: [RulesInForce::of(state), proposed],
            limits,
            requesters: RequesterCache::default(),
            pairs: HashMap::default(),
            searches: HashMap::default(),
            searches_bytes: 0,
            lines: Vec::new(),
            places: HashMap::default(),
            unlisted: HashSet::default(),
            tally: RecordedTally::default(),
        }
    }

    /// Returns true if a rule of either set depends on the connection or the time of a request.
    pub fn depends_on_link(&self) -> bool {
        self.rules.iter().any(|rules| rules.rules.depend_on_link())
    }

    /// Returns true if a rule of either set depends on the listener. Audit trails do not record listeners.
    pub fn depends_on_listener(&self) -> bool {
        self.rules.iter().any(|rules| rules.rules.depend_on_listener())
    }

    /// Evaluates an operation under both sets of rules.
    ///
    /// # Errors
    /// The store failed. An operation that cannot be evaluated causes no error, but is only counted.
    pub fn decide(&mut self, recorded: &RecordedOperation<'_>) -> std::result::Result<(), Outcome> {
        let (own, requester) = self.requesters.of(self.state, recorded)?;
        let Some(requester) = requester else {
            self.tally.requester_gone += 1;
            return Ok(());
        };
        let mut deciding = PendingOperation {
            requester: &requester,
            link: recorded.link,
            micros: recorded.micros,
            effect: Effect::default(),
        };
        let acts_for_another = recorded.acts_as.is_some();
        if let (true, Some(own), Requester::User { id, .. }) = (acts_for_another, &own, &requester) {
            let by_own = PendingOperation { requester: own, effect: Effect::default(), ..deciding };
            deciding.effect = self.decide_proxy(by_own, *id)?;
        }
        if requester.is_administrator() {
            if deciding.effect.lines.is_empty() {
                self.tally.of_administrator += 1;
            }
        } else {
            let is_decided = self.decide_act(recorded, &mut deciding)?;
            if !is_decided {
                self.tally.entry_gone += 1;
                // The requester may still have gained or lost the right to act for the user.
                if deciding.effect.lines.is_empty() && !deciding.effect.has_unlisted {
                    return Ok(());
                }
            }
        }
        self.count(recorded.micros, deciding.effect);
        Ok(())
    }

    /// Returns the changed decisions, sorted by requester, entry and right, and the counts.
    pub fn finish(mut self) -> (Vec<DecisionChange>, RecordedTally) {
        self.lines.sort_by(|one, other| {
            (&one.requester, &one.dn, &one.right, one.is_gained).cmp(&(
                &other.requester,
                &other.dn,
                &other.right,
                other.is_gained,
            ))
        });
        self.tally.unlisted = self.unlisted.len();
        (self.lines, self.tally)
    }

    fn count(&mut self, micros: u64, mut effect: Effect) {
        let tally = &mut self.tally;
        let (first, last) = tally.times.unwrap_or((micros, micros));
        tally.times = Some((first.min(micros), last.max(micros)));
        tally.decided += 1;
        tally.cut += u64::from(effect.is_cut);
        effect.lines.sort_unstable();
        effect.lines.dedup();
        tally.changed += u64::from(effect.has_unlisted || !effect.lines.is_empty());
        for place in effect.lines {
            if let Some(line) = self.lines.get_mut(place) {
                line.count += 1;
                line.last_micros = line.last_micros.max(micros);
            }
        }
    }

    /// Evaluates whether a requester may act as the user of an entry.
    fn decide_proxy(&mut self, mut deciding: PendingOperation<'_>, id: EntryId) -> Result<Effect> {
        if !matches!(deciding.requester, Requester::User { .. }) {
            return Ok(Effect::default());
        }
        let dn = self.state.dn(id)?.unwrap_or_default();
        let Some(node) = self.state.node(id)? else { return Ok(Effect::default()) };
        let place = EntryPlace { dn: &dn, at: At::Entry(id), parent: node.parent };
        let (key, pair) = self.pair(&deciding)?;
        if let Some(pair) = pair {
            self.hold(&pair, &mut deciding, place, (PROXY, None))?;
            self.keep_pair(key, pair);
        }
        Ok(deciding.effect)
    }

    /// Evaluates the operation itself. Returns false if the entry is not in the tree.
    fn decide_act(
        &mut self,
        recorded: &RecordedOperation<'_>,
        deciding: &mut PendingOperation<'_>,
    ) -> Result<bool> {
        let (key, pair) = self.pair(deciding)?;
        let Some(mut pair) = pair else { return Ok(true) };
        let may_change = pair.before.rights.check_bound().is_ok();
        let is_decided = match recorded.act {
            OperationType::Search { scope, filter, attributes } => {
                let request = SearchRequest::new(recorded.target, scope, filter, attributes);
                self.decide_search(&mut pair, deciding, &key, &request)?
            }
            OperationType::Compare(attribute) => {
                self.decide_compare(&pair, deciding, recorded.target, attribute)?
            }
            // Anonymous requesters may not change entries under any rules.
            _ if !may_change => true,
            OperationType::Modify(attributes) => {
                self.decide_modify(&pair, deciding, recorded.target, attributes)?
            }
            OperationType::Add => self.decide_add(&pair, deciding, recorded.target)?,
            OperationType::Delete => self.decide_change(&pair, deciding, recorded.target, DELETE)?,
            OperationType::Rename { rdn, superior } => {
                let is_decided = self.decide_change(&pair, deciding, recorded.target, RENAME)?;
                if let Some(dn) = moved(self.state, recorded.target, rdn, superior) {
                    self.decide_add(&pair, deciding, &dn)?;
                }
                is_decided
            }
        };
        self.keep_pair(key, pair);
        Ok(is_decided)
    }

    fn decide_search(
        &mut self,
        pair: &mut Pair,
        deciding: &mut PendingOperation<'_>,
        pair_key: &PairKey,
        request: &SearchRequest<'_>,
    ) -> Result<bool> {
        let state = self.state;
        let Some(base) = base_of(state, request.base_object, request.scope)? else { return Ok(false) };
        let key = search_key(pair_key, base, request);
        if let Some(known) = self.searches.get(&key[..]) {
            deciding.effect.lines.extend_from_slice(&known.lines);
            deciding.effect.has_unlisted |= known.has_unlisted;
            deciding.effect.is_cut = known.is_cut;
            return Ok(true);
        }
        let extent =
            Extent { examined_max: self.limits.examined_max, matching_max: self.limits.matching_max };
        let mut own = PendingOperation { effect: Effect::default(), ..*deciding };
        let mut again = SearchAgain::of(state, base, request)?;
        // The number of differences is limited by the attributes of the examined entries.
        let mut shifts = Vec::new();
        let is_whole =
            again.compare(state, extent, (&mut pair.before, &mut pair.after), &mut |candidate, shift| {
                shifts.push((candidate.id, candidate.node.parent, shift));
                Ok(())
            })?;
        for (id, parent, shift) in shifts {
            self.add_shift(pair, &mut own, (id, parent), shift)?;
        }
        own.effect.is_cut = !is_whole;
        deciding.effect.lines.extend_from_slice(&own.effect.lines);
        deciding.effect.has_unlisted |= own.effect.has_unlisted;
        deciding.effect.is_cut = own.effect.is_cut;
        self.keep_search(key, own.effect);
        Ok(true)
    }

    fn keep_search(&mut self, key: Box<[u8]>, effect: Effect) {
        let bytes = size_of::<(Box<[u8]>, Effect)>() + key.len() + size_of_val(&effect.lines[..]);
        if self.searches_bytes + bytes > SEARCHES_KEPT_BYTES {
            self.searches.clear();
            self.searches_bytes = 0;
        }
        self.searches_bytes += bytes;
        self.searches.insert(key, effect);
    }

    fn add_shift(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        at: (EntryId, EntryId),
        shift: ResultDifference,
    ) -> Result<()> {
        let (at, asked) = match shift {
            ResultDifference::Browse => (at, (BROWSE, None)),
            ResultDifference::Search(type_id) => (at, (SEARCH, Some(type_id))),
            ResultDifference::Read(type_id) => (at, (READ, Some(type_id))),
            // For a group, memberOf depends on the decision about its member attribute.
            ResultDifference::Group { group, member, in_filter } => {
                let Some(node) = self.state.node(group)? else { return Ok(()) };
                let type_id = self.state.catalog.attribute(member).description.type_id;
                ((group, node.parent), (if in_filter { SEARCH } else { READ }, Some(type_id)))
            }
        };
        let dn = self.state.dn(at.0)?.unwrap_or_default();
        let place = EntryPlace { dn: &dn, at: At::Entry(at.0), parent: at.1 };
        // If the entry is no longer visible, the loss of all rights is reported as the loss of `browse`.
        let (old, new) = self.rights_at(pair, place)?;
        let asked = if old.may_browse() != new.may_browse() { (BROWSE, None) } else { asked };
        self.hold(pair, deciding, place, asked)
    }

    fn decide_compare(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        dn: &str,
        attribute: &str,
    ) -> Result<bool> {
        let Some(name) = name_of(self.state, dn) else { return Ok(false) };
        let Some(id) = self.state.entry_of(&name)? else { return Ok(false) };
        let node = self.state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
        let place = EntryPlace { dn, at: At::Entry(id), parent: node.parent };
        if self.hold_browse(pair, deciding, place)? {
            return Ok(true);
        }
        if let Some(type_id) = type_of(self.state, attribute) {
            self.hold(pair, deciding, place, (COMPARE, Some(type_id)))?;
        }
        Ok(true)
    }

    fn decide_modify(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        dn: &str,
        attributes: &[&str],
    ) -> Result<bool> {
        let Some(place) = self.place(dn)? else { return Ok(false) };
        if self.hold_browse(pair, deciding, place)? {
            return Ok(true);
        }
        let (old, new) = self.rights_at(pair, place)?;
        let types: Vec<TypeId> = attributes.iter().filter_map(|name| type_of(self.state, name)).collect();
        for type_id in types {
            let is_own = matches!(place.at, At::Entry(id) if pair.before.rights.own() == Some(id));
            let password = right_over_password(&self.state.catalog.schema, is_own, (WRITE, Some(type_id)));
            if password != (WRITE, Some(type_id)) {
                self.hold(pair, deciding, place, password)?;
                continue;
            }
            // The trail does not record whether a value was the requester's own name. If the requester may write only
            // this value, the right to join and the right to leave both count.
            let writes = |rights: &EntryRights| rights.extent(WRITE, Some(type_id)) != RightExtent::Nothing;
            let rights = match writes(&old) || writes(&new) {
                true => [WRITE].as_slice(),
                false => [JOIN, LEAVE].as_slice(),
            };
            for right in rights {
                self.hold(pair, deciding, place, (*right, Some(type_id)))?;
            }
        }
        Ok(true)
    }

    fn decide_add(&mut self, pair: &Pair, deciding: &mut PendingOperation<'_>, dn: &str) -> Result<bool> {
        let Some(place) = new_place_of(self.state, dn)? else { return Ok(false) };
        self.hold(pair, deciding, place, (ADD, None))?;
        Ok(true)
    }

    fn decide_change(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        dn: &str,
        right: Rights,
    ) -> Result<bool> {
        let Some(place) = self.place(dn)? else { return Ok(false) };
        if !self.hold_browse(pair, deciding, place)? {
            self.hold(pair, deciding, place, (right, None))?;
        }
        Ok(true)
    }

    fn place<'a>(&mut self, dn: &'a str) -> Result<Option<EntryPlace<'a>>> {
        let place = place_of(self.state, dn)?;
        self.tally.by_place += u64::from(place.is_some_and(|place| matches!(place.at, At::New(_))));
        Ok(place)
    }

    /// Returns the rights at a place under the rules in force and under the proposed rules.
    fn rights_at(&self, pair: &Pair, place: EntryPlace<'_>) -> Result<(Arc<EntryRights>, Arc<EntryRights>)> {
        let at = |view: &RequesterView| rights_at(self.state, &view.rights, place);
        Ok((at(&pair.before)?, at(&pair.after)?))
    }

    /// Records whether the right to browse the entry differs. Returns true if no other right has to be compared.
    fn hold_browse(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        place: EntryPlace<'_>,
    ) -> Result<bool> {
        let (old, new) = self.rights_at(pair, place)?;
        self.hold(pair, deciding, place, (BROWSE, None))?;
        Ok(!old.may_browse() || !new.may_browse())
    }

    /// Records whether a right differs.
    fn hold(
        &mut self,
        pair: &Pair,
        deciding: &mut PendingOperation<'_>,
        place: EntryPlace<'_>,
        (right, type_id): (Rights, Option<TypeId>),
    ) -> Result<()> {
        let is_write = [WRITE, JOIN, LEAVE].contains(&right);
        let shows = |type_id| Shown::AsRulesSay.includes(&self.state.catalog.secrets, type_id);
        if type_id.is_some_and(|type_id| !is_write && !shows(type_id)) {
            return Ok(());
        }
        let (old, new) = self.rights_at(pair, place)?;
        let (word, ..) = ASKED.iter().find(|(_, known, _)| *known == right).copied().unwrap_or_default();
        let name = type_id.map(|type_id| self.state.catalog.schema.type_by_id(type_id).name());
        let (was, will) = (old.extent(right, type_id), new.extent(right, type_id));
        let gained = gain(&was, &will).map(|gain| (gain, true));
        let Some((gain, is)) = gained.or_else(|| gain(&will, &was).map(|loss| (loss, false))) else {
            return Ok(());
        };
        let right_name = match name {
            Some(name) => format!("{word} {gain}{name}"),
            None => word.to_owned(),
        };
        let requester = match deciding.requester {
            Requester::Anonymous => "anonymous",
            known => known.dn(),
        };
        let key: LineKey = (requester.into(), place.dn.into(), right_name.as_str().into(), is);
        if let Some(known) = self.places.get(&key) {
            deciding.effect.lines.push(*known);
            return Ok(());
        }
        if self.lines.len() >= self.limits.lines_max {
            deciding.effect.has_unlisted = true;
            self.note_unlisted(&key);
            return Ok(());
        }
        let question = place.question((word, right, type_id), Some(deciding.link));
        let [before, after] = &self.rules;
        let why = |rules| {
            explain_under(self.state, rules, deciding.requester, question).map(|why| deciding_text(&why))
        };
        let line = DecisionChange {
            requester: requester.to_owned(),
            dn: place.dn.to_owned(),
            right: right_name,
            is_gained: is,
            count: 0,
            last_micros: deciding.micros,
            before: why(before)?,
            after: why(after)?,
        };
        deciding.effect.lines.push(self.lines.len());
        self.places.insert(key, self.lines.len());
        self.lines.push(line);
        Ok(())
    }

    fn note_unlisted(&mut self, key: &impl Hash) {
        let hash = self.unlisted.hasher().hash_one(key);
        if self.unlisted.len() < UNLISTED_MAX {
            self.unlisted.insert(hash);
        } else if !self.unlisted.contains(&hash) {
            self.tally.has_more_unlisted = true;
        }
    }

    /// Takes a requester's rights out of the cache, or computes them. [`keep_pair`](RecordedRehearsal::keep_pair) puts
    /// the rights back. For the administrator, returns `None` instead of rights.
    fn pair(&mut self, deciding: &PendingOperation<'_>) -> Result<(PairKey, Option<Pair>)> {
        let own = match deciding.requester {
            Requester::User { id, .. } => Some(*id),
            Requester::Anonymous | Requester::Administrator { .. } => None,
        };
        let [before, after] = &self.rules;
        let link = Some(&deciding.link);
        let key = (own, before.rules.holding_over(link), after.rules.holding_over(link));
        if let Some(pair) = self.pairs.remove(&key) {
            return Ok((key, Some(pair)));
        }
        let view = |rules: &RulesInForce| {
            EffectiveRights::under(&rules.rules, self.state, deciding.requester, link).map(RequesterView::of)
        };
        let (Some(before), Some(after)) = (view(before)?, view(after)?) else { return Ok((key, None)) };
        Ok((key, Some(Pair { before, after })))
    }

    fn keep_pair(&mut self, key: PairKey, pair: Pair) {
        if self.pairs.len() >= REQUESTERS_CACHED_MAX {
            self.pairs.clear();
        }
        self.pairs.insert(key, pair);
    }
}

/// Returns the cache key for the result of a requester's search.
fn search_key((own, before, after): &PairKey, base: EntryId, request: &SearchRequest<'_>) -> Box<[u8]> {
    let mut key = Vec::new();
    let own = own.map_or(0, |own| own.0);
    let scope = match request.scope {
        Scope::BaseObject => 0,
        Scope::SingleLevel => 1,
        Scope::WholeSubtree => 2,
        Scope::Subordinate => 3_u64,
    };
    let filter_len = request.filter.encoded_len() as u64;
    for number in [own, base.0, scope, filter_len].iter().chain(before).chain(after) {
        key.extend_from_slice(&number.to_be_bytes());
    }
    request.filter.encode(&mut key);
    key.extend_from_slice(request.attributes.as_bytes());
    key.into()
}

/// Describes the deciding rules in one line.
fn deciding_text(why: &AccessExplanation) -> String {
    let mut texts: Vec<String> = why.rules.iter().take(RULES_NAMED_MAX).map(ToString::to_string).collect();
    if let Some(more @ 1..) = why.rules.len().checked_sub(RULES_NAMED_MAX) {
        texts.push(format!("and {more} more"));
    }
    if texts.is_empty() {
        texts.extend(why.notes.iter().cloned());
    }
    texts.join("; ")
}
