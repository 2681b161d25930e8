//! Access rules that decided operations in the audit trail: evaluated with the rules of that time, as far as the log
//! has them, on the present entries. It runs when a trail is read, so that no request waits for it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use ldap::SearchRequest;
use schema::TypeId;

use super::operation::{
    ASKERS_KEPT_MAX, Act, Askers, At, EntryPlace, Recorded, base_of, moved, new_place_of, place_of,
    rights_at, type_of,
};
use super::rules_history;
use crate::access::{
    ASKED, Access, AccessExplanation, DecidingRule, Requester, RulesInForce, Standing, explain_standing,
};
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, JOIN, LEAVE, PROXY, READ, RENAME, Rights, SEARCH, WRITE,
};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::EntryId;
use crate::read::search::{Extent, SearchAgain, Sight};
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Limits for the entries of a search that are explained.
const EXTENT: Extent = Extent { matching_max: 100, examined_max: 10_000 };

/// Explains which rules decided recorded operations.
pub struct RecordedExplainer<'s> {
    state: TreeState<'s>,
    /// Versions of the rules, each with its start in microseconds since 1970, oldest first.
    versions: Vec<(u64, Arc<RulesInForce>)>,
    askers: Askers,
    standings: HashMap<StandingKey, Arc<Standing>, RandomState>,
}

/// Version, requester, and the rules that apply to the connection.
type StandingKey = (usize, Option<EntryId>, Vec<u64>);

/// Explanations by the word for the right and the deciding rules, with the attributes that they apply to.
#[derive(Default)]
struct Said {
    said: BTreeMap<(&'static str, String), BTreeSet<String>>,
}

/// A requester under the rules of one version.
struct Asking<'a> {
    rules: Arc<RulesInForce>,
    standing: Arc<Standing>,
    asker: &'a Requester,
    recorded: &'a Recorded<'a>,
}

impl Said {
    fn note(&mut self, text: &'static str) {
        self.said.entry((text, String::new())).or_default();
    }

    fn not_there(&mut self) -> Result<()> {
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
        self.said.into_iter().map(text).collect()
    }
}

impl<'s> RecordedExplainer<'s> {
    /// Reads the versions of the rules.
    ///
    /// # Errors
    /// The store failed; a record cannot be read.
    pub fn new(state: TreeState<'s>) -> std::result::Result<RecordedExplainer<'s>, Outcome> {
        let versions = versions(state).map_err(Outcome::from)?;
        Ok(RecordedExplainer { state, versions, askers: Askers::default(), standings: HashMap::default() })
    }

    /// Returns what decides an operation, one text per required right; empty if no rule is involved.
    ///
    /// # Errors
    /// The store failed.
    pub fn explain(&mut self, recorded: &Recorded<'_>) -> std::result::Result<Vec<String>, Outcome> {
        let Some(version) = self.versions.iter().rposition(|(since, _)| *since <= recorded.micros) else {
            return Ok(vec!["the log no longer has the rules of that time".to_owned()]);
        };
        let (own, asker) = self.askers.of(self.state, recorded)?;
        let Some(asker) = asker else { return Ok(vec!["the requester no longer exists".to_owned()]) };
        let mut said = Said::default();
        if let (Some(_), Some(own), Requester::User { id, .. }) = (recorded.acts_as, &own, &asker)
            && let Some(asking) = self.asking(version, own, recorded)?
        {
            let dn = self.state.dn(*id)?.unwrap_or_default();
            if let Some(place) = place_of(self.state, &dn)? {
                asking.say(self.state, place, (PROXY, None), &mut said)?;
            }
        }
        match self.asking(version, &asker, recorded)? {
            Some(asking) => asking.say_act(self.state, &mut said)?,
            None => said.note("the administrator is above all rules"),
        }
        Ok(said.texts())
    }

    /// Returns `None` for the administrator.
    fn asking<'a>(
        &mut self,
        version: usize,
        asker: &'a Requester,
        recorded: &'a Recorded<'a>,
    ) -> Result<Option<Asking<'a>>> {
        let own = match asker {
            Requester::User { id, .. } => Some(*id),
            Requester::Anonymous => None,
            Requester::Administrator { .. } => return Ok(None),
        };
        let Some((_, rules)) = self.versions.get(version) else { return Ok(None) };
        let link = Some(&recorded.link);
        let key = (version, own, rules.rules.holding_over(link));
        let standing = match self.standings.get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let standing = Standing::under(&rules.rules, self.state, asker, link)?;
                let Some(standing) = standing.map(Arc::new) else { return Ok(None) };
                if self.standings.len() >= ASKERS_KEPT_MAX {
                    self.standings.clear();
                }
                self.standings.insert(key, Arc::clone(&standing));
                standing
            }
        };
        Ok(Some(Asking { rules: Arc::clone(rules), standing, asker, recorded }))
    }
}

impl Asking<'_> {
    fn say_act(&self, state: TreeState<'_>, said: &mut Said) -> Result<()> {
        let target = self.recorded.target;
        if let Act::Search { scope, .. } = self.recorded.act {
            return match base_of(state, target, scope)? {
                Some(base) => self.say_search(state, base, said),
                None => said.not_there(),
            };
        }
        let place = match self.recorded.act {
            Act::Add => new_place_of(state, target)?,
            _ => place_of(state, target)?,
        };
        let Some(place) = place else { return said.not_there() };
        let is_change = !matches!(self.recorded.act, Act::Compare(_));
        if is_change && Access::of(self.asker, state.settings).check_modify_some().is_err() {
            said.note("anonymous requesters change nothing");
            return Ok(());
        }
        match self.recorded.act {
            Act::Compare(attribute) => self.say_of(state, place, COMPARE, attribute, said),
            Act::Modify(attributes) => {
                attributes.iter().try_for_each(|attribute| self.say_change(state, place, attribute, said))
            }
            Act::Add => self.say(state, place, (ADD, None), said),
            Act::Delete => self.say(state, place, (DELETE, None), said),
            Act::Rename { rdn, superior } => {
                self.say(state, place, (RENAME, None), said)?;
                let Some(dn) = moved(state, target, rdn, superior) else { return Ok(()) };
                match new_place_of(state, &dn)? {
                    Some(place) => self.say(state, place, (ADD, None), said),
                    None => Ok(()),
                }
            }
            Act::Search { .. } => Ok(()),
        }
    }

    fn say_of(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        right: Rights,
        attribute: &str,
        said: &mut Said,
    ) -> Result<()> {
        match type_of(state, attribute) {
            Some(type_id) => self.say(state, place, (right, Some(type_id)), said),
            None => Ok(()),
        }
    }

    /// Explains changed values: if the requester may not write them, the rules for its own name.
    fn say_change(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        attribute: &str,
        said: &mut Said,
    ) -> Result<()> {
        let Some(type_id) = type_of(state, attribute) else { return Ok(()) };
        let rights = rights_at(state, &self.standing, place)?;
        let own_name = [(JOIN, rights.may_join(type_id)), (LEAVE, rights.may_leave(type_id))];
        let by_own_name = own_name.iter().filter(|(_, may)| *may && !rights.may_write(type_id));
        let rights: Vec<Rights> = by_own_name.map(|(right, _)| *right).collect();
        let rights = if rights.is_empty() { vec![WRITE] } else { rights };
        rights.into_iter().try_for_each(|right| self.say(state, place, (right, Some(type_id)), said))
    }

    /// Explains the entries that the search finds now, or would find if it were allowed.
    fn say_search(&self, state: TreeState<'_>, base: EntryId, said: &mut Said) -> Result<()> {
        let Act::Search { scope, filter, attributes } = self.recorded.act else { return Ok(()) };
        let request = SearchRequest::new(self.recorded.target, scope, filter, attributes);
        let mut again = SearchAgain::of(state, self.asker, base, &request)?;
        let mut sight = Sight::of(Arc::clone(&self.standing));
        // Rights determined by the same rules are explained once.
        let (mut known, mut kept, mut has_any) = (HashSet::new(), Vec::new(), false);
        again.look(state, EXTENT, &mut sight, &mut |candidate, rights, uses| {
            has_any = true;
            kept.push(Arc::clone(rights));
            let searched = uses.searched.iter().map(|type_id| (SEARCH, Some(*type_id)));
            let read = uses.read.iter().map(|type_id| (READ, Some(*type_id)));
            for asked in std::iter::once((BROWSE, None)).chain(searched).chain(read) {
                if known.insert((Arc::as_ptr(rights), asked.0.0, asked.1)) {
                    let dn = self.recorded.target;
                    let place = EntryPlace { dn, at: At::Entry(candidate.id), parent: candidate.node.parent };
                    self.say(state, place, asked, said)?;
                }
            }
            Ok(())
        })?;
        if !has_any {
            said.note("the search finds no visible entries now");
        }
        Ok(())
    }

    /// Explains a right.
    fn say(
        &self,
        state: TreeState<'_>,
        place: EntryPlace<'_>,
        (right, type_id): (Rights, Option<TypeId>),
        said: &mut Said,
    ) -> Result<()> {
        let Some((word, ..)) = ASKED.iter().find(|(_, known, _)| *known == right).copied() else {
            return Ok(());
        };
        let asked = place.asked((word, right, type_id), Some(self.recorded.link));
        let why = explain_standing(state, (&self.rules, &self.standing), self.asker, asked)?;
        let name = type_id.map_or("", |type_id| state.catalog.schema.type_by_id(type_id).name());
        said.said.entry((word, verdict(&why))).or_default().insert(name.to_owned());
        Ok(())
    }
}

/// Returns the decision with the names of the rules.
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

/// Returns the versions of the rules in the log, each with its start; without any change, those in force.
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
