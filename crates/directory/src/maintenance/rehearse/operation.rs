//! Operations recorded in an audit trail, and the corresponding entries in the present directory.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ldap::{AttributeSelection, Filter, Scope};
use schema::TypeId;

use crate::access::{EffectiveRights, EntryRights, NewEntryFacts, Requester, RightQuestion, TraversalCache};
use crate::model::access_rule::Rights;
use crate::model::client_link::ClientLink;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::identity;
use crate::tree::{Found, TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of cached requesters. The identities and the effective rights of one requester take up to a
/// megabyte.
pub(super) const REQUESTERS_CACHED_MAX: usize = 128;

/// An operation recorded in an audit trail.
#[derive(Clone, Copy, Debug)]
pub struct RecordedOperation<'a> {
    /// DN with which the client had bound; empty for anonymous.
    pub who: &'a str,
    /// Authorization identity of the operation, if it differs from `who`.
    pub acts_as: Option<&'a str>,
    /// Connection of the client at the time of the request.
    pub link: ClientLink,
    /// Time of the request in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// DN of the entry, or base of the search.
    pub target: &'a str,
    /// The operation.
    pub act: OperationType<'a>,
}

/// Kind of a recorded operation.
#[derive(Clone, Copy, Debug)]
pub enum OperationType<'a> {
    /// A search at or below the target.
    Search {
        /// Scope of the search.
        scope: Scope,
        /// Filter of the search.
        filter: Filter<'a>,
        /// Requested attributes.
        attributes: AttributeSelection<'a>,
    },
    /// A compare of this attribute.
    Compare(&'a str),
    /// A modify of these attributes.
    Modify(&'a [&'a str]),
    /// An add.
    Add,
    /// A delete.
    Delete,
    /// A rename, possibly with a move.
    Rename {
        /// The new RDN.
        rdn: &'a str,
        /// DN of the new superior, if the superior changes.
        superior: Option<&'a str>,
    },
}

/// Entry, existing or not, for which rights are evaluated.
#[derive(Clone, Copy)]
pub(super) struct EntryPlace<'a> {
    pub(super) dn: &'a str,
    pub(super) at: At,
    pub(super) parent: EntryId,
}

#[derive(Clone, Copy)]
pub(super) enum At {
    Entry(EntryId),
    /// An entry before its addition. Contains the present entry with the same name, if there is such an entry.
    New(Option<EntryId>),
}

impl<'a> EntryPlace<'a> {
    /// Returns the question about a requester's right at this place.
    pub(super) fn question(
        self,
        (word, right, type_id): (&'a str, Rights, Option<TypeId>),
        link: Option<ClientLink>,
    ) -> RightQuestion<'a> {
        let id = match self.at {
            At::Entry(id) | At::New(Some(id)) => id,
            At::New(None) => EntryId::ROOT,
        };
        RightQuestion { word, right, type_id, id, parent: self.parent, dn: self.dn, link }
    }
}

/// Returns the base entry of a search; `None` if the base is not in the tree.
pub(super) fn base_of(state: TreeState<'_>, dn: &str, scope: Scope) -> Result<Option<EntryId>> {
    if dn.is_empty() {
        // With the scope baseObject, the empty DN is the root DSE.
        return Ok((scope != Scope::BaseObject).then_some(EntryId::ROOT));
    }
    name_of(state, dn).map_or(Ok(None), |name| state.entry_of(&name))
}

/// Returns the normal form of a name; `None` if the name is not a DN.
pub(super) fn name_of(state: TreeState<'_>, dn: &str) -> Option<NormalName> {
    parse_dn(dn).ok().map(|dn| NormalName::of(&dn, &state.catalog.schema))
}

/// Returns the place of an entry, even if the entry no longer exists. Returns `None` if neither the entry nor its
/// superior exists.
pub(super) fn place_of<'a>(state: TreeState<'_>, dn: &'a str) -> Result<Option<EntryPlace<'a>>> {
    let Some(name) = name_of(state, dn) else { return Ok(None) };
    let (at, parent) = match state.find(&name)? {
        Found::Entry(id, _) => {
            let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
            (At::Entry(id), node.parent)
        }
        Found::Missing { nearest: Some((parent, _, depth)) } if depth + 1 == name.depth() => {
            (At::New(None), parent)
        }
        Found::Missing { .. } => return Ok(None),
    };
    Ok(Some(EntryPlace { dn, at, parent }))
}

/// Returns the place of an added entry, whether the entry exists now or not.
pub(super) fn new_place_of<'a>(state: TreeState<'_>, dn: &'a str) -> Result<Option<EntryPlace<'a>>> {
    let place = place_of(state, dn)?;
    Ok(place.map(|place| match place.at {
        At::Entry(id) => EntryPlace { at: At::New(Some(id)), ..place },
        At::New(_) => place,
    }))
}

/// Returns the DN to which an entry was moved; `None` if its superior did not change.
pub(super) fn moved(state: TreeState<'_>, target: &str, rdn: &str, superior: Option<&str>) -> Option<String> {
    let superior = superior?;
    let (from, to) = (name_of(state, target)?, name_of(state, superior)?);
    let end_above = from.depth().checked_sub(2).and_then(|place| from.ends.get(place)).copied();
    let has_moved = from.key.get(..end_above.unwrap_or(0)) != Some(to.key.as_slice());
    has_moved.then(|| if superior.is_empty() { rdn.to_owned() } else { format!("{rdn},{superior}") })
}

/// Returns the requester's rights at a place under these rules.
pub(super) fn rights_at(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    place: EntryPlace<'_>,
) -> Result<Arc<EntryRights>> {
    let at = match place.at {
        At::Entry(id) => rights.at(state, &mut TraversalCache::default(), id, place.parent)?,
        At::New(there) => {
            let newcomer = there.map_or(NewEntryFacts::Unknown, NewEntryFacts::Moved);
            rights.below(state, place.parent, newcomer)?
        }
    };
    Ok(at.unwrap_or_default())
}

pub(super) fn type_of(state: TreeState<'_>, attribute: &str) -> Option<TypeId> {
    state.catalog.schema.parse_description(attribute).ok().map(|known| known.type_id)
}

/// Cache of the requesters that an audit trail names. Requesters are looked up in the present directory.
#[derive(Default)]
pub(super) struct RequesterCache {
    /// Requesters by authorization identity; `None` for an identity that no longer exists.
    known: HashMap<Box<str>, Option<Requester>, RandomState>,
}

impl RequesterCache {
    /// Returns two requesters: the bound identity of the client, and the authorization identity of the operation. Each
    /// requester is `None` if it no longer exists.
    pub(super) fn of(
        &mut self,
        state: TreeState<'_>,
        recorded: &RecordedOperation<'_>,
    ) -> Result<(Option<Requester>, Option<Requester>)> {
        let own = match recorded.who {
            "" => Some(Requester::Anonymous),
            dn => self.requester(state, &format!("dn:{dn}"))?,
        };
        let requester = match recorded.acts_as {
            None => own.clone(),
            Some(identity) => self.requester(state, identity)?,
        };
        Ok((own, requester))
    }

    fn requester(&mut self, state: TreeState<'_>, identity: &str) -> Result<Option<Requester>> {
        if let Some(known) = self.known.get(identity) {
            return Ok(known.clone());
        }
        let found = match identity {
            "" | "dn:" => Some(Requester::Anonymous),
            known => identity::requester(state, known)?,
        };
        if self.known.len() >= REQUESTERS_CACHED_MAX {
            self.known.clear();
        }
        self.known.insert(identity.into(), found.clone());
        Ok(found)
    }
}
