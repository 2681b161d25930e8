//! Searches outside the tree: the root DSE, the subschema subentry, `cn=monitor`, and for the administrator
//! `cn=config`.
//!
//! None of them is found by a search from above: like other servers, we show them to who asks for them.

use std::borrow::Cow;

use ldap::{Dn, MessageId, Scope, SearchRequest};

use super::evaluate::{Evaluator, InMemory};
use super::filter::{Compiler, Truth};
use super::result::{ResultWriter, resolved};
use super::selection::Selection;
use super::{Results, Work};
use crate::access::{Access, ExternalIdentity};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::virtual_entries::{CONFIG_DN, MONITOR_DN, SUBSCHEMA_DN, VirtualEntry};
use crate::read::own_entries::{config, monitor, root_dse, subschema};
use crate::snapshot::Snapshot;

/// An entry outside the tree with its normal name.
pub(crate) type Named<'s> = (Vec<u8>, Cow<'s, VirtualEntry>);

/// The entries that `dn` names or stands above in one of the trees outside of the tree, with their normal names; `None`
/// where it names nothing there. The entry itself comes first.
///
/// # Errors
/// insufficientAccessRights; noSuchObject for a name below `cn=monitor` or `cn=config` that no entry has.
pub(crate) fn entries<'s>(
    snapshot: &'s Snapshot,
    access: Access,
    dn: &Dn<'_>,
    name: &NormalName,
    external: ExternalIdentity,
) -> Result<Option<Vec<Named<'s>>>, OperationError> {
    let state = snapshot.state();
    if dn.is_empty() {
        return Ok(Some(vec![(Vec::new(), Cow::Owned(root_dse(snapshot, external)))]));
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
        access.check_read_monitor(state)?;
        (MONITOR_DN, monitor(snapshot))
    } else if access.is_administrator() && name.key.starts_with(&normal(CONFIG_DN)?) {
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
    // Superiors come first, and have the shorter names.
    found.sort_by_key(|(key, _)| key.len());
    if found.first().is_none_or(|(key, _)| *key != name.key) {
        let what = format!("there is no entry {}", Quoted(dn.text()));
        return Err(OperationError::NoSuchObject { matched_dn: root.to_owned(), what });
    }
    Ok(Some(found))
}

/// Carries out a search whose base is outside the tree; `None` if it is in the tree.
pub(super) fn start(
    snapshot: &Snapshot,
    access: Access,
    id: MessageId,
    request: &SearchRequest<'_>,
    external: ExternalIdentity,
    dn: &Dn<'_>,
    name: &NormalName,
) -> Result<Option<Work>, OperationError> {
    if dn.is_empty() && request.scope != Scope::BaseObject {
        // The children of the root are the suffix entries.
        return Ok(None);
    }
    let Some(entries) = entries(snapshot, access, dn, name, external)? else { return Ok(None) };
    let catalog = snapshot.state().catalog;
    let filter = Compiler { catalog, access, known: None }.compile(request.filter);
    let selection = Selection::of(request.attributes, catalog, access);
    let writer = ResultWriter::new(id, request.types_only, selection);
    let mut evaluator = Evaluator::new(access);
    let size_limit = access.limit_of(request.size_limit, snapshot.state().settings.general.size_limit);
    let mut results = Results { size_limit, ..Results::default() };
    for (key, entry) in &entries {
        let depth = NormalName::of(&parse_dn(&entry.dn)?, &catalog.schema).depth();
        let is_in_scope = match request.scope {
            Scope::BaseObject => *key == name.key,
            Scope::SingleLevel => depth == name.depth() + 1,
            Scope::WholeSubtree => true,
            Scope::Subordinate => *key != name.key,
        };
        let in_memory = InMemory { dn: &entry.dn, attributes: resolved(&catalog.schema, entry) };
        if is_in_scope && evaluator.truth_in_memory(&filter, &catalog.schema, &in_memory) == Truth::True {
            writer.put_virtual(&mut results.messages, &catalog.schema, entry);
            results.ends.push(results.messages.len());
        }
    }
    Ok(Some(Work::Made(results)))
}
