//! Searches of virtual entries: the root DSE, the subschema subentry, `cn=monitor`, and for the administrator
//! `cn=config`.
//!
//! A search from the root of the tree finds none of these entries. As in other servers, a client must name one of these
//! entries as the base.

use std::borrow::Cow;

use ldap::{Dn, ResultCode, Scope};

use super::matched::MatchedValues;
use super::result::{ResultWriter, resolved};
use super::selection::Selection;
use super::{SearchInputs, check_assertion_in_memory};
use crate::access::{EffectiveRights, OfferedBinds};
use crate::filter::{InMemory, Matcher, Truth};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::virtual_entries::{CONFIG_DN, MONITOR_DN, SUBSCHEMA_DN, VirtualEntry};
use crate::read::own_entries::{config, monitor, root_dse, subschema};
use crate::snapshot::Snapshot;

/// A virtual entry and the normal form of its DN.
pub(crate) type NamedEntry<'s> = (Vec<u8>, Cow<'s, VirtualEntry>);

/// Returns the virtual entries at and below `dn`, first the entry `dn`. For the empty DN, returns only the root DSE.
/// Returns `None` if `dn` names no virtual entry, or if `dn` is at or below `cn=config` and the requester is not the
/// administrator.
///
/// # Errors
/// insufficientAccessRights; noSuchObject if no entry below `cn=monitor` or `cn=config` has the name.
pub(crate) fn entries<'s>(
    snapshot: &'s Snapshot,
    rights: &EffectiveRights,
    dn: &Dn<'_>,
    name: &NormalName,
    offered: OfferedBinds,
) -> Result<Option<Vec<NamedEntry<'s>>>, OperationError> {
    let state = snapshot.state();
    if dn.is_empty() {
        return Ok(Some(vec![(Vec::new(), Cow::Owned(root_dse(snapshot, offered)))]));
    }
    if name.failure.is_some() || state.catalog.suffix_above(&name.key).is_some() {
        return Ok(None);
    }
    let schema = &state.catalog.schema;
    let normal = |dn: &str| Ok::<_, OperationError>(NormalName::of(&parse_dn(dn)?, schema).key);
    if name.key == normal(SUBSCHEMA_DN)? {
        let entry =
            state.catalog.subschema.get_or_init(|| subschema(schema, state.catalog.schema_times.as_ref()));
        return Ok(Some(vec![(name.key.clone(), Cow::Borrowed(entry))]));
    }
    let (root, all) = if name.key.starts_with(&normal(MONITOR_DN)?) {
        rights.check_read_monitor(state)?;
        (MONITOR_DN, monitor(snapshot))
    } else if rights.is_administrator() && name.key.starts_with(&normal(CONFIG_DN)?) {
        (CONFIG_DN, config(state.catalog))
    } else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for entry in all {
        let key = normal(&entry.dn)?;
        if key.starts_with(&name.key) {
            found.push((key, Cow::Owned(entry)));
        }
    }
    // Superiors come first, because their names are shorter.
    found.sort_by_key(|(key, _)| key.len());
    if found.first().is_none_or(|(key, _)| *key != name.key) {
        let what = format!("there is no entry {}", Quoted(dn.text()));
        return Err(OperationError::NoSuchObject { matched_dn: root.to_owned(), what });
    }
    Ok(Some(found))
}

/// Results of a search of virtual entries. All of them are computed when the search starts.
#[derive(Default)]
pub(super) struct Results {
    messages: Vec<u8>,
    /// End of each message in `messages`.
    ends: Vec<usize>,
    /// Number of results on earlier pages.
    passed_over: usize,
    /// Maximum number of further results to send; 0 for no limit.
    size_limit: u32,
    pub(super) entries_sent: u64,
}

impl Results {
    /// Searches `entries`: the base, followed by the entries below it.
    ///
    /// # Errors
    /// assertionFailed; unwillingToPerform and unavailableCriticalExtension for controls that apply only to entries of
    /// the tree.
    pub(super) fn of(
        inputs: &SearchInputs<'_>,
        entries: &[NamedEntry<'_>],
    ) -> Result<Results, OperationError> {
        let SearchInputs { snapshot, rights, id, request, controls, .. } = *inputs;
        let catalog = snapshot.state().catalog;
        if let Some((_, base)) = entries.first() {
            let base = InMemory { dn: &base.dn, attributes: resolved(&catalog.schema, base) };
            check_assertion_in_memory(catalog, rights, controls, &base)?;
        }
        if controls.sync().is_some() || controls.persistent().is_some() {
            let text = "what is not in the tree is not synchronized, and changes of it are not told";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        if let Some(name) = controls.needs_tree() {
            let text = format!(
                "critical control {name} is about entries of the tree, and the base is outside of it"
            );
            return Err(OperationError::refused(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text));
        }
        let filter = rights.compiler(catalog).compile(request.filter);
        let selection = Selection::of(request.attributes, catalog, rights.shown());
        let writer = ResultWriter::new(id, request.types_only, selection, None);
        let matched = MatchedValues::of(inputs)?;
        let mut matcher = Matcher::new(rights.shown());
        let size_limit = rights.size_limit(request.size_limit);
        let mut results = Results { size_limit, ..Results::default() };
        let depth_of = |entry: &VirtualEntry| {
            Ok::<_, OperationError>(NormalName::of(&parse_dn(&entry.dn)?, &catalog.schema).depth())
        };
        let base_depth = entries.first().map_or(Ok(0), |(_, base)| depth_of(base))?;
        for (place, (_, entry)) in entries.iter().enumerate() {
            let is_in_scope = match request.scope {
                Scope::BaseObject => place == 0,
                Scope::SingleLevel => depth_of(entry)? == base_depth + 1,
                Scope::WholeSubtree => true,
                Scope::Subordinate => place > 0,
            };
            let in_memory = InMemory { dn: &entry.dn, attributes: resolved(&catalog.schema, entry) };
            if is_in_scope && matcher.truth_in_memory(&filter, catalog, &in_memory) == Truth::True {
                let entry = match &matched {
                    Some(matched) => Cow::Owned(matched.of_virtual(catalog, entry)),
                    None => Cow::Borrowed(&**entry),
                };
                writer.put_virtual(&mut results.messages, catalog, &entry);
                results.ends.push(results.messages.len());
            }
        }
        Ok(results)
    }

    /// Limits the results to a page of up to `room` entries, after the first `from` entries.
    pub(super) fn turn_to(&mut self, from: u64, room: u32) {
        self.passed_over = usize::try_from(from).unwrap_or(usize::MAX).min(self.ends.len());
        self.size_limit = room;
    }

    /// Appends the results within the limits. Returns the result code of the search.
    pub(super) fn send(&mut self, out: &mut Vec<u8>) -> ResultCode {
        let limit = if self.size_limit == 0 { usize::MAX } else { self.size_limit as usize };
        let left = self.ends.len() - self.passed_over;
        let count = left.min(limit);
        let end_of =
            |count: usize| count.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |end| *end);
        let (start, end) = (end_of(self.passed_over), end_of(self.passed_over + count));
        out.extend_from_slice(self.messages.get(start..end).unwrap_or_default());
        self.entries_sent = count as u64;
        if count < left { ResultCode::SIZE_LIMIT_EXCEEDED } else { ResultCode::SUCCESS }
    }

    /// Returns the number of results on all pages.
    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Returns the total number of results on earlier pages and on this page.
    pub(super) fn next(&self) -> u64 {
        self.passed_over as u64 + self.entries_sent
    }

    /// Returns the memory that the results use, without themselves, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.messages.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}
