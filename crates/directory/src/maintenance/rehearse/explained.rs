//! Explanation of recorded operations: the access rules that decided the operations in an audit trail. Uses the present
//! entries, and the rules that were in force at the time of the operation, if the log still has them. Explanations are
//! computed when an audit trail is read, so that no request waits for them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use ldap::SearchRequest;
use schema::TypeId;

use super::operation::{
    At, EntryPlace, OperationType, REQUESTERS_CACHED_MAX, RecordedOperation, RequesterCache, base_of, moved,
    new_place_of, place_of, rights_at, type_of,
};
use super::rules_history;
use crate::access::{
    ASKED, AccessExplanation, DecidingRule, EffectiveRights, Requester, RulesInForce, explain_rights,
};
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, JOIN, LEAVE, PROXY, READ, RENAME, Rights, SEARCH, WRITE,
};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::EntryId;
use crate::read::search::{Extent, RequesterView, SearchAgain};
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Limits of a search whose entries are explained.
const EXTENT: Extent = Extent { matching_max: 100, examined_max: 10_000 };

/// Explains which access rules decided recorded operations.
pub struct RecordedExplainer<'s> {
    state: TreeState<'s>,
    /// Versions of the rules, the oldest first. Each version has the time at which it came into force, in microseconds
    /// since 1970.
    versions: Vec<(u64, Arc<RulesInForce>)>,
    requesters: RequesterCache,
    rights: HashMap<RightsKey, EffectiveRights, RandomState>,
}

/// Key of cached rights: version of the rules, requester, and one bit for each rule that applies to the connection.
type RightsKey = (usize, Option<EntryId>, Vec<u64>);

/// Explanations, grouped by the right and the deciding rules. Each explanation has the attributes to which it applies.
#[derive(Default)]
struct Explanations {
    explanations: BTreeMap<(&'static str, String), BTreeSet<String>>,
}

/// A requester under the rules of one version.
struct OperationView<'a> {
    rules: Arc<RulesInForce>,
    rights: EffectiveRights,
    requester: &'a Requester,
    recorded: &'a RecordedOperation<'a>,
}

impl Explanations {
    fn note(&mut self, text: &'static str) {
        self.explanations.entry((text, String::new())).or_default();
    }

    fn note_missing_entry(&mut self) -> Result<()> {
        self.note("the entry no longer exists");
        Ok(())
    }

    fn texts(self) -> Vec<String> {
        let text = |((word, verdict), types): ((&str, String), BTreeSet<String>)| {
            let types: Vec<String> = types.into_iter().filter(|name| !name.is_empty()).collect();
            match types.is_empty() {
                _ if verdict.is_empty() => word.to_owned(),
                true => format!("{word}: {verdict}"),
                false => format!("{word} {}: {verdict}", types.join(", ")),
            }
        };
        self.explanations.into_iter().map(text).collect()
    }
}

impl<'s> RecordedExplainer<'s> {
    /// Reads the versions of the rules from the log.
    ///
    /// # Errors
    /// The store failed, or a record cannot be read.
    pub fn new(state: TreeState<'s>) -> std::result::Result<RecordedExplainer<'s>, Outcome> {
        let versions = versions(state).map_err(Outcome::from)?;
        Ok(RecordedExplainer {
            state,
            versions,
            requesters: RequesterCache::default(),
            rights: HashMap::default(),
        })
    }

    /// Returns the rules that decide an operation, as one text for each required right. Returns no text if no rule
    /// decides the operation. If the rules of that time or the requester no longer exist, the only text says so.
    ///
    /// # Errors
    /// The store failed.
    pub fn explain(&mut self, recorded: &RecordedOperation<'_>) -> std::result::Result<Vec<String>, Outcome> {
        let Some(version) = self.versions.iter().rposition(|(since, _)| *since <= recorded.micros) else {
            return Ok(vec!["the log no longer has the rules of that time".to_owned()]);
        };
        let (own, requester) = self.requesters.of(self.state, recorded)?;
        let Some(requester) = requester else { return Ok(vec!["the requester no longer exists".to_owned()]) };
        let mut explanations = Explanations::default();
        if let (Some(_), Some(own), Requester::User { id, .. }) = (recorded.acts_as, &own, &requester)
            && let Some(operation_view) = self.operation_view(version, own, recorded)?
        {
            let dn = self.state.dn(*id)?.unwrap_or_default();
            if let Some(place) = place_of(self.state, &dn)? {
                operation_view.explain_right(self.state, place, (PROXY, None), &mut explanations)?;
            }
        }
        match self.operation_view(version, &requester, recorded)? {
            Some(operation_view) => operation_view.explain_act(self.state, &mut explanations)?,
            None => explanations.note("the administrator is above all rules"),
        }
        Ok(explanations.texts())
    }

    /// Returns the requester of an operation under the rules of that time. Returns `None` for the administrator, to
    /// whom rules do not apply.
    fn operation_view<'a>(
        &mut self,
        version: usize,
        requester: &'a Requester,
        recorded: &'a RecordedOperation<'a>,
    ) -> Result<Option<OperationView<'a>>> {
        let own = match requester {
            Requester::User { id, .. } => Some(*id),
            Requester::Anonymous => None,
            Requester::Administrator { .. } => return Ok(None),
        };
        let Some((_, rules)) = self.versions.get(version) else { return Ok(None) };
        let link = Some(&recorded.link);
        let key = (version, own, rules.rules.holding_over(link));
        let rights = match self.rights.get(&key) {
            Some(known) => known.clone(),
            None => {
                let rights = EffectiveRights::under(&rules.rules, self.state, requester, link)?;
                if self.rights.len() >= REQUESTERS_CACHED_MAX {
                    self.rights.clear();
                }
                self.rights.insert(key, rights.clone());
                rights
            }
        };
        Ok(Some(OperationView { rules: Arc::clone(rules), rights, requester, recorded }))
    }
}

impl OperationView<'_> {
    fn explain_act(&self, state: TreeState<'_>, explanations: &mut Explanations) -> Result<()> {
        let target = self.recorded.target;
        if let OperationType::Search { scope, .. } = self.recorded.act {
            return match base_of(state, target, scope)? {
                Some(base) => self.explain_search(state, base, explanations),
                None => explanations.note_missing_entry(),
            };
        }
        let place = match self.recorded.act {
            OperationType::Add => new_place_of(state, target)?,
            _ => place_of(state, target)?,
        };
        let Some(place) = place else { return explanations.note_missing_entry() };
        let is_change = !matches!(self.recorded.act, OperationType::Compare(_));
        if is_change && self.rights.check_bound().is_err() {
            explanations.note("anonymous requesters change nothing");
            return Ok(());
        }
        match self.recorded.act {
            OperationType::Compare(attribute) => {
                self.explain_attribute(state, place, COMPARE, attribute, explanations)
            }
            OperationType::Modify(attributes) => attributes
                .iter()
                .try_for_each(|attribute| self.explain_change(state, place, attribute, explanations)),
            OperationType::Add => self.explain_right(state, place, (ADD, None), explanations),
            OperationType::Delete => self.explain_right(state, place, (DELETE, None), explanations),
            OperationType::Rename { rdn, superior } => {
                self.explain_right(state, place, (RENAME, None), explanations)?;
                let Some(dn) = moved(state, target, rdn, superior) else { return Ok(()) };
                match new_place_of(state, &dn)? {
                    Some(place) => self.explain_right(state, place, (ADD, None), explanations),
                    None => Ok(()),
                }
            }
            OperationType::Search { .. } => Ok(()),
        }
    }

    fn explain_attribute(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        right: Rights,
        attribute: &str,
        explanations: &mut Explanations,
    ) -> Result<()> {
        match type_of(state, attribute) {
            Some(type_id) => self.explain_right(state, place, (right, Some(type_id)), explanations),
            None => Ok(()),
        }
    }

    /// Explains a change of values. If the requester may not write the values, explains the rights to add and delete
    /// the requester's own name.
    fn explain_change(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        attribute: &str,
        explanations: &mut Explanations,
    ) -> Result<()> {
        let Some(type_id) = type_of(state, attribute) else { return Ok(()) };
        let rights = rights_at(state, &self.rights, place)?;
        let own_name = [(JOIN, rights.may_join(type_id)), (LEAVE, rights.may_leave(type_id))];
        let by_own_name = own_name.iter().filter(|(_, may)| *may && !rights.may_write(type_id));
        let rights: Vec<Rights> = by_own_name.map(|(right, _)| *right).collect();
        let rights = if rights.is_empty() { vec![WRITE] } else { rights };
        rights
            .into_iter()
            .try_for_each(|right| self.explain_right(state, place, (right, Some(type_id)), explanations))
    }

    /// Explains the rights to the entries that the search finds now, or would find if the requester had more rights.
    fn explain_search(
        &self,
        state: TreeState<'_>,
        base: EntryId,
        explanations: &mut Explanations,
    ) -> Result<()> {
        let OperationType::Search { scope, filter, attributes } = self.recorded.act else { return Ok(()) };
        let request = SearchRequest::new(self.recorded.target, scope, filter, attributes);
        let mut again = SearchAgain::of(state, base, &request)?;
        let Some(mut view) = RequesterView::of(self.rights.clone()) else { return Ok(()) };
        // If the same rules decide the rights to several entries, the rights are explained once.
        let (mut known, mut kept, mut has_any) = (HashSet::new(), Vec::new(), false);
        again.visit_matches(state, EXTENT, &mut view, &mut |candidate, rights, uses| {
            has_any = true;
            kept.push(Arc::clone(rights));
            let searched = uses.searched.iter().map(|type_id| (SEARCH, Some(*type_id)));
            let read = uses.read.iter().map(|type_id| (READ, Some(*type_id)));
            for asked in std::iter::once((BROWSE, None)).chain(searched).chain(read) {
                if known.insert((Arc::as_ptr(rights), asked.0.0, asked.1)) {
                    let dn = self.recorded.target;
                    let place = EntryPlace { dn, at: At::Entry(candidate.id), parent: candidate.node.parent };
                    self.explain_right(state, place, asked, explanations)?;
                }
            }
            Ok(())
        })?;
        if !has_any {
            explanations.note("the search finds no visible entries now");
        }
        Ok(())
    }

    /// Explains a right.
    fn explain_right(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        (right, type_id): (Rights, Option<TypeId>),
        explanations: &mut Explanations,
    ) -> Result<()> {
        let Some((word, ..)) = ASKED.iter().find(|(_, known, _)| *known == right).copied() else {
            return Ok(());
        };
        let question = place.question((word, right, type_id), Some(self.recorded.link));
        let why = explain_rights(state, &self.rules, &self.rights, self.requester, question)?;
        let name = type_id.map_or("", |type_id| state.catalog.schema.type_by_id(type_id).name());
        explanations.explanations.entry((word, verdict(&why))).or_default().insert(name.to_owned());
        Ok(())
    }
}

/// Returns the decision, and the names of the deciding rules. If no rule decides, returns the notes of the explanation.
fn verdict(why: &AccessExplanation) -> String {
    let names: Vec<&str> = why.rules.iter().map(DecidingRule::name).collect();
    match (why.is_allowed, names.is_empty()) {
        (true, false) => format!("allowed by {}", names.join(", ")),
        (false, false) if why.is_partly => format!("some values by {}", names.join(", ")),
        (false, false) => format!("denied by {}", names.join(", ")),
        (false, true) if why.notes.is_empty() => "none allows it".to_owned(),
        _ => why.notes.join("; "),
    }
}

/// Returns the versions of the rules in the log, each with the time at which it came into force. If the log contains no
/// change of the rules, returns the rules in force, with time 0. If the log is complete, the first version contains no
/// rules and has time 0.
fn versions(state: TreeState<'_>) -> Result<Vec<(u64, Arc<RulesInForce>)>> {
    let types = (&*state.catalog.schema, &state.catalog.secrets);
    let in_force =
        |rules: &[String]| Arc::new(RulesInForce::proposed(rules, state.settings.anonymous_read(), types));
    let history = rules_history(state)?;
    let has_all = state.read.first_position()?.unwrap_or(0) <= 1;
    let mut versions = Vec::new();
    match (history.is_empty(), has_all) {
        (true, _) => versions.push((0, Arc::new(RulesInForce::of(state)))),
        (false, true) => versions.push((0, in_force(&[]))),
        (false, false) => {}
    }
    versions.extend(history.iter().map(|version| (version.micros, in_force(&version.rules))));
    Ok(versions)
}
