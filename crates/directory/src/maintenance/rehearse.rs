//! Rehearsal of proposed access rules: reports the rights that these rules would change, by requester and entry. Also
//! reads earlier versions of the rules from the log.

mod explained;
mod operation;
mod recorded;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use schema::TypeId;
use store::Direction;

use crate::access::{EffectiveRights, EntryRights, Requester, RightExtent, RulesInForce, TraversalCache};
use crate::catalog::{Secrets, Shown, USER_PASSWORD};
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, EXPLAIN, JOIN, LEAVE, PROXY, READ, RENAME, RESET, SEARCH, WRITE,
};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::model::rows::{EntryId, NODES, NodeRow};
use crate::model::settings::GeneralSettings;
use crate::read::access_question::subject;
use crate::read::bind::stored_passwords;
use crate::tree::{TreeState, damaged_row, entry_row};
pub use explained::RecordedExplainer;
pub use operation::{OperationType, RecordedOperation};
pub use recorded::{DecisionChange, RecordedLimits, RecordedRehearsal, RecordedTally};

type Result<T> = std::result::Result<T, OperationError>;

/// Scope of a rehearsal.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// Authorization identities of the requesters (RFC 4513 section 5.2.1.8). An empty text stands for the anonymous
    /// client. If the list is empty, the requesters are the anonymous client and the users among the sampled entries.
    pub requesters: Vec<String>,
    /// Maximum number of users in the sample, if `requesters` is empty.
    pub requesters_max: usize,
    /// Maximum number of sampled entries. The sample is evenly distributed over all entries.
    pub entries_max: u64,
}

/// Changed rights of one requester to one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessChange {
    /// Authorization identity of the requester; `anonymous` for the anonymous client.
    pub requester: String,
    /// DN of the entry.
    pub dn: String,
    /// Rights that the requester would gain, such as `browse` or `read mail`.
    pub gained: Vec<String>,
    /// Rights that the requester would lose.
    pub lost: Vec<String>,
}

impl fmt::Display for AccessChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:", self.requester, self.dn)?;
        if !self.lost.is_empty() {
            write!(f, " may no longer {}", self.lost.join(", "))?;
        }
        if !self.gained.is_empty() {
            let separator = if self.lost.is_empty() { "" } else { ";" };
            write!(f, "{separator} may now {}", self.gained.join(", "))?;
        }
        Ok(())
    }
}

/// Counts of a rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RehearsalSummary {
    /// Number of requesters examined.
    pub requesters: usize,
    /// Number of entries examined.
    pub entries: u64,
    /// Number of pairs of a requester and an entry with changed rights.
    pub changes: u64,
}

/// Returns the authorization identities of the requesters: the requesters that the rehearsal names, or the requesters
/// of the rehearsal's sample.
///
/// # Errors
/// A requester does not exist, or the store failed.
pub fn identities(state: TreeState<'_>, rehearsal: &Rehearsal) -> Result<Vec<String>> {
    // Sampling reads a row of every entry, so entries are sampled only if no requesters are named.
    let ids = match rehearsal.requesters.is_empty() {
        true => sampled(state, rehearsal.entries_max)?,
        false => Vec::new(),
    };
    Ok(requesters(state, rehearsal, &ids)?.iter().map(Requester::authorization_id).collect())
}

/// Compares the proposed rules with the rules in force on existing entries. Examines one requester after another as
/// long as `continues` returns true.
///
/// # Errors
/// A requester does not exist, or the store failed.
pub fn rehearse(
    state: TreeState<'_>,
    proposal: &GeneralSettings,
    rehearsal: &Rehearsal,
    each: &mut dyn FnMut(&AccessChange),
    continues: &mut dyn FnMut() -> bool,
) -> Result<RehearsalSummary> {
    let now = RulesInForce::of(state);
    let anonymous_read = proposal.anonymous_read || state.settings.node.anonymous_read;
    let schema = &*state.catalog.schema;
    let secrets = Secrets::of(schema, &proposal.secret_attributes);
    let then = RulesInForce::proposed(&proposal.access_rules, anonymous_read, (schema, &secrets));
    let ids = sampled(state, rehearsal.entries_max)?;
    let requesters = requesters(state, rehearsal, &ids)?;
    let mut rehearsed = RehearsalSummary { requesters: 0, entries: ids.len() as u64, changes: 0 };
    for requester in &requesters {
        if !continues() {
            break;
        }
        rehearsed.requesters += 1;
        let before = EffectiveRights::under(&now.rules, state, requester, None)?;
        let after = EffectiveRights::under(&then.rules, state, requester, None)?;
        let may_change = before.check_bound().is_ok();
        let name = if requester.dn().is_empty() { "anonymous" } else { requester.dn() };
        let mut walks = [TraversalCache::default(), TraversalCache::default()];
        let [walk_before, walk_after] = &mut walks;
        for id in &ids {
            let node = state.node(*id)?.ok_or_else(|| damaged_row("nodes", *id))?;
            let (Some(old), Some(new)) = (
                before.at(state, walk_before, *id, node.parent)?,
                after.at(state, walk_after, *id, node.parent)?,
            ) else {
                // Rules do not apply to the administrator.
                break;
            };
            if Arc::ptr_eq(&old, &new) || old == new {
                continue;
            }
            let types = types_of(state, *id)?;
            let (gained, lost) = (
                difference(state, &old, &new, &types, may_change),
                difference(state, &new, &old, &types, may_change),
            );
            if gained.is_empty() && lost.is_empty() {
                continue;
            }
            rehearsed.changes += 1;
            let dn = state.dn(*id)?.unwrap_or_default();
            each(&AccessChange { requester: name.to_owned(), dn, gained, lost });
        }
    }
    Ok(rehearsed)
}

/// Returns entries that are evenly distributed over all entries.
fn sampled(state: TreeState<'_>, count_max: u64) -> Result<Vec<EntryId>> {
    let stride = state.read.row_count(NODES)?.div_ceil(count_max.max(1)).max(1);
    let mut ids = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    for (row, place) in state.read.scan(NODES, all, Direction::Forward).zip(0_u64..) {
        let (key, value) = row?;
        if place % stride == 0 && NodeRow::decode(value).is_some() {
            ids.push(EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default())));
        }
    }
    Ok(ids)
}

fn requesters(state: TreeState<'_>, rehearsal: &Rehearsal, ids: &[EntryId]) -> Result<Vec<Requester>> {
    if !rehearsal.requesters.is_empty() {
        return rehearsal.requesters.iter().map(|identity| subject(state, identity)).collect();
    }
    let mut users = Vec::new();
    for id in ids {
        if !stored_passwords(state, *id)?.is_empty() {
            users.push(*id);
        }
    }
    let stride = users.len().div_ceil(rehearsal.requesters_max.max(1)).max(1);
    let mut requesters = vec![Requester::Anonymous];
    for id in users.into_iter().step_by(stride) {
        requesters.push(Requester::User { id, dn: state.dn(id)?.unwrap_or_default() });
    }
    Ok(requesters)
}

/// Returns the types of an entry's attributes, ascending, without duplicates.
fn types_of(state: TreeState<'_>, id: EntryId) -> Result<Vec<TypeId>> {
    let entry = entry_row(state.read, id)?;
    let types = entry.attributes().map(|row| state.catalog.attribute(row.id).description.type_id);
    let mut types: Vec<TypeId> = types.collect();
    types.sort_unstable();
    types.dedup();
    Ok(types)
}

/// Returns the rights in `with` that are missing in `without`.
fn difference<'r>(
    state: TreeState<'_>,
    without: &'r EntryRights,
    with: &'r EntryRights,
    types: &[TypeId],
    may_change: bool,
) -> Vec<String> {
    let mut rights = Vec::new();
    let of_entry = [
        ("browse", BROWSE, true),
        ("add", ADD, may_change),
        ("delete", DELETE, may_change),
        ("rename", RENAME, may_change),
        ("explain", EXPLAIN, true),
        ("proxy", PROXY, may_change),
        ("reset", RESET, may_change),
    ];
    let password = state.catalog.schema.attribute_type(USER_PASSWORD).map(|password| password.id);
    for (word, right, counts) in of_entry {
        // The right to write a password includes the right to reset it, so `reset` is not listed in addition to
        // `write`.
        let is_said =
            word == "reset" && password.is_some_and(|id| with.may_write(id) && !without.may_write(id));
        if counts && !is_said && with.may(right) && !without.may(right) {
            rights.push(word.to_owned());
        }
    }
    let of_types = [
        ("read", READ, false),
        ("search", SEARCH, false),
        ("compare", COMPARE, false),
        ("write", WRITE, true),
        ("join", JOIN, true),
        ("leave", LEAVE, true),
    ];
    for (word, right, is_write) in of_types {
        for type_id in types {
            let may_show = Shown::AsRulesSay.includes(&state.catalog.secrets, *type_id);
            let counts = if is_write { may_change } else { may_show };
            // The right to write includes the rights to join and leave, so `join` and `leave` are not listed in
            // addition to `write`.
            let is_said = matches!(word, "join" | "leave") && with.may_write(*type_id);
            let extent = |rights: &'r EntryRights| rights.extent(right, Some(*type_id));
            if let (true, false, Some(gain)) = (counts, is_said, gain(&extent(without), &extent(with))) {
                rights.push(format!("{word} {gain}{}", state.catalog.schema.type_by_id(*type_id).name()));
            }
        }
    }
    rights
}

/// Describes the values of an attribute for which a right is gained, as a prefix of the attribute's name. Returns
/// `None` if no right is gained.
fn gain(without: &RightExtent<'_>, with: &RightExtent<'_>) -> Option<&'static str> {
    match (without, with) {
        (RightExtent::Nothing, RightExtent::All) => Some(""),
        (RightExtent::Some(..), RightExtent::All) => Some("all values of "),
        (RightExtent::Nothing, RightExtent::Some(..)) => Some("some values of "),
        (RightExtent::Some(..), RightExtent::Some(..)) if without != with => Some("other values of "),
        _ => None,
    }
}

/// A version of the access rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesVersion {
    /// Log position of the change.
    pub position: u64,
    /// Time of the change, in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// DN of the requester that set the rules.
    pub requester: String,
    /// The access rules.
    pub rules: Vec<String>,
    /// Access expectations of the settings, as they were last set while these rules were in force.
    pub expectations: Vec<String>,
}

/// Returns the versions of the access rules in the log, the oldest first. A change of other settings makes no version.
///
/// # Errors
/// The store failed, or a record cannot be read.
pub fn rules_history(state: TreeState<'_>) -> Result<Vec<RulesVersion>> {
    let mut versions: Vec<RulesVersion> = Vec::new();
    let first = state.read.first_position()?.unwrap_or(0);
    for record in state.read.log_records(first) {
        let (position, bytes) = record?;
        let Some(Record { csn, requester, change: Change::Settings(settings), .. }) = Record::decode(bytes)
        else {
            continue;
        };
        let Some(general) = settings.general else { continue };
        let (rules, expectations) = (general.access_rules, general.access_expectations);
        match versions.last_mut() {
            Some(last) if last.rules == rules => last.expectations = expectations,
            _ => versions.push(RulesVersion { position, micros: csn.micros, requester, rules, expectations }),
        }
    }
    Ok(versions)
}
