//! The entries that a search covers.
//!
//! To test an entry, a search follows its superiors up to the root of a subtree in scope. The result is the same for
//! all entries with the same immediate superior.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use ldap::{DerefAliases, ResultCode, Scope, SearchRequest};

use super::base::{AliasTarget, dereference};
use crate::access::EffectiveRights;
use crate::model::limits::{ALIASES_FOLLOWED_MAX, COLLECTED_IDS_MAX, TREE_DEPTH_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{CLASSES, EntryId, NodeFlags, NodeRow, class_key};
use crate::read::controls::{AttributeOrigin, RequestControls};
use crate::snapshot::Snapshot;
use crate::snapshot::name_cache::NameCache;
use crate::tree::referral::continuation;
use crate::tree::{TreeState, node};

/// A part of the scope that is on another server.
#[derive(Debug)]
pub(super) enum OtherServer {
    /// The entries below this referral entry.
    Below(EntryId),
    /// The target of an alias, given by the URLs of the target on another server.
    Aliased(Vec<String>),
}

impl OtherServer {
    /// Returns the memory that the value uses, without itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            OtherServer::Below(_) => 0,
            OtherServer::Aliased(urls) => {
                urls.capacity() * size_of::<String>() + urls.iter().map(String::capacity).sum::<usize>()
            }
        }
    }
}

/// Entries by their ids, which no client chooses. So a hasher suffices that costs nothing for an empty set.
type EntryIds = HashSet<EntryId, FixedState>;

/// Scope of a search.
#[derive(Clone, Debug)]
pub(crate) struct SearchScope {
    pub(crate) kind: Scope,
    /// The base object; [`EntryId::ROOT`] for the empty DN.
    pub(crate) base: EntryId,
    /// Roots of further subtrees in scope: targets of aliases.
    pub(crate) aliased: EntryIds,
    /// Further single entries in scope: targets of aliases.
    pub(crate) extras: EntryIds,
    /// Whether aliases below the base are followed. If so, the aliases themselves are not results.
    pub(crate) follows_aliases: bool,
    /// Whether there are aliases in scope.
    pub(crate) has_aliases: bool,
    /// Whether referral entries are treated as ordinary entries (ManageDsaIT).
    pub(crate) manages: bool,
    /// Whether the search sends continuation references for referral entries in scope.
    pub(crate) returns_referrals: bool,
    /// Value of the subentries control: see [`crate::read::controls::RequestControls::subentries`].
    pub(crate) subentries: Option<bool>,
    /// Whether the search reads only the attributes stored in each entry, without collective attributes.
    pub(crate) is_of_stored: bool,
    /// The superior that was tested last, and whether the entries below it are in a subtree in scope.
    pub(crate) last: Option<(EntryId, bool)>,
}

impl SearchScope {
    /// Creates the scope of a request, at `base`.
    pub(super) fn of(base: EntryId, request: &SearchRequest<'_>, controls: &RequestControls) -> SearchScope {
        let dereferences = request.deref_aliases;
        SearchScope {
            kind: request.scope,
            base,
            aliased: EntryIds::default(),
            extras: EntryIds::default(),
            follows_aliases: matches!(dereferences, DerefAliases::InSearching | DerefAliases::Always),
            has_aliases: false,
            manages: controls.manage_dsa_it,
            returns_referrals: !controls.manage_dsa_it && !controls.domain_scope(),
            subentries: controls.subentries,
            // Synchronization reports changes of the entries themselves, not of the subentries that give them
            // collective attributes (RFC 4533 section 4.3).
            is_of_stored: controls.sync().is_some()
                || controls.persistent().is_some()
                || controls.origin() == Some(AttributeOrigin::Stored),
            last: None,
        }
    }

    /// Returns the state in which this search reads entries: with or without collective attributes.
    #[inline]
    pub(super) fn seen_in<'s>(&self, state: TreeState<'s>) -> TreeState<'s> {
        if self.is_of_stored { state.as_stored() } else { state }
    }

    /// Follows the aliases in scope, if requested. Returns the parts of the scope that are on other servers. The search
    /// sends a reference for each part, beginning with the last part.
    pub(super) fn prepare(
        &mut self,
        snapshot: &Snapshot,
        rights: &EffectiveRights,
    ) -> Result<Vec<OtherServer>, OperationError> {
        let (state, names) = (snapshot.state(), &mut *snapshot.names());
        if self.kind == Scope::BaseObject {
            return Ok(Vec::new());
        }
        let mut aliased = match self.follows_aliases {
            true => self.follow_aliases(state, names, rights)?,
            false => Vec::new(),
        };
        if !self.returns_referrals {
            return Ok(Vec::new());
        }
        let referrals = self.referrals(state, names)?;
        if !aliased.is_empty() {
            // If an alias leads to a referral entry that is itself in scope, the reference is sent only once.
            let urls = referrals
                .iter()
                .map(|id| continuation(state, *id, &state.dn(*id)?.unwrap_or_default(), self.kind));
            let known = urls.collect::<Result<HashSet<Vec<String>>, OperationError>>()?;
            aliased.retain(|other| !known.contains(other));
        }
        let mut other_servers: Vec<OtherServer> = aliased.into_iter().map(OtherServer::Aliased).collect();
        other_servers.extend(referrals.into_iter().rev().map(OtherServer::Below));
        Ok(other_servers)
    }

    /// Returns the memory that the scope uses, without itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.aliased.capacity() + self.extras.capacity()) * size_of::<EntryId>()
    }

    /// Returns true if an entry is in scope.
    #[inline]
    pub(crate) fn contains(
        &mut self,
        state: TreeState<'_>,
        names: &mut NameCache,
        id: EntryId,
        row: &NodeRow<'_>,
    ) -> Result<bool, OperationError> {
        Ok(match self.kind {
            Scope::BaseObject => id == self.base,
            Scope::SingleLevel => row.parent == self.base || self.extras.contains(&id),
            Scope::WholeSubtree => self.is_root(id) || self.is_inside(state, names, row.parent)?,
            Scope::Subordinate => self.extras.contains(&id) || self.is_inside(state, names, row.parent)?,
        })
    }

    /// Returns true if the entry is the root of a subtree in scope.
    #[inline]
    fn is_root(&self, id: EntryId) -> bool {
        id == self.base || self.aliased.contains(&id)
    }

    /// Returns true if the entries below `container` are in a subtree in scope.
    #[inline]
    fn is_inside(
        &mut self,
        state: TreeState<'_>,
        names: &mut NameCache,
        container: EntryId,
    ) -> Result<bool, OperationError> {
        if let Some((last, is_inside)) = self.last
            && last == container
        {
            return Ok(is_inside);
        }
        let is_inside = self.has_root_above(state, names, container)?;
        self.last = Some((container, is_inside));
        Ok(is_inside)
    }

    fn has_root_above(
        &self,
        state: TreeState<'_>,
        names: &mut NameCache,
        container: EntryId,
    ) -> Result<bool, OperationError> {
        let mut at = container;
        for _ in 0..TREE_DEPTH_MAX {
            if self.is_root(at) {
                return Ok(true);
            }
            if at == EntryId::ROOT {
                return Ok(false);
            }
            let above = names.container(state, at)?;
            // The entries below a referral entry are on another server.
            if self.is_elsewhere_below(above.flags) {
                return Ok(false);
            }
            at = above.parent;
        }
        Err(endless(container))
    }

    /// Returns true if an entry in scope may be a result according to its kind: alias, referral, subentry or other.
    #[inline]
    pub(crate) fn admits(&self, id: EntryId, flags: NodeFlags) -> bool {
        if flags == NodeFlags::default() {
            // If the subentries control is true, only subentries are visible (RFC 3672 section 3).
            return self.subentries != Some(true) || self.kind == Scope::BaseObject;
        }
        if id == self.base && self.kind == Scope::BaseObject {
            return true;
        }
        let is_signpost = flags.is_referral() && !self.manages;
        let is_followed = flags.is_alias() && self.follows_aliases && id != self.base;
        !is_signpost && !is_followed && flags.is_subentry() == self.subentries.unwrap_or(false)
    }

    /// Follows the aliases in scope (RFC 4511 section 4.5.1.3). In a subtree search, the target becomes the root of
    /// another subtree, whose aliases are followed too. In a search one level below the base, the target becomes a
    /// single entry in scope. Aliases without a target are skipped. Returns the URLs of the aliases that lead to other
    /// servers.
    ///
    /// # Errors
    /// adminLimitExceeded for more than [`ALIASES_FOLLOWED_MAX`] aliases.
    fn follow_aliases(
        &mut self,
        state: TreeState<'_>,
        names: &mut NameCache,
        rights: &EffectiveRights,
    ) -> Result<Vec<Vec<String>>, OperationError> {
        let (mut other_servers, mut known_servers) = (Vec::new(), HashSet::new());
        let mut waiting = self.waiting_aliases(state, names)?;
        let mut in_scope = waiting.take_below(&[self.base]);
        while !in_scope.is_empty() {
            let mut roots = Vec::new();
            for alias in in_scope {
                self.has_aliases |= rights.may_browse(state, alias)?;
                match dereference(state, alias, rights, (self.kind, self.manages))? {
                    AliasTarget::Entry(target) if self.add_target(target) => roots.push(target),
                    AliasTarget::OtherServer(urls) if known_servers.insert(urls.clone()) => {
                        other_servers.push(urls);
                    }
                    AliasTarget::Entry(_) | AliasTarget::OtherServer(_) | AliasTarget::Nowhere => {}
                }
            }
            in_scope = waiting.take_below(&roots);
        }
        Ok(other_servers)
    }

    /// Returns all aliases that may come into scope.
    fn waiting_aliases(
        &self,
        state: TreeState<'_>,
        names: &mut NameCache,
    ) -> Result<WaitingAliases, OperationError> {
        let mut waiting = WaitingAliases::default();
        let aliases = ids_with_flag(
            state,
            NodeFlags::is_alias,
            "aliases, too many for one search: ask without dereferencing",
            ALIASES_FOLLOWED_MAX,
        )?;
        for id in aliases.into_iter().filter(|id| *id != self.base) {
            let Some(row) = node(state.read, id)? else { continue };
            waiting.aliases.insert(id);
            if self.kind != Scope::SingleLevel {
                self.add_waiting(&mut waiting, state, names, (id, row.parent))?;
            } else if row.parent == self.base {
                waiting.add(id, row.parent);
            }
        }
        Ok(waiting)
    }

    /// Adds an alias and its superiors, up to the first superior that is known.
    fn add_waiting(
        &self,
        waiting: &mut WaitingAliases,
        state: TreeState<'_>,
        names: &mut NameCache,
        (alias, parent): (EntryId, EntryId),
    ) -> Result<(), OperationError> {
        let (mut below, mut at) = (alias, parent);
        for _ in 0..TREE_DEPTH_MAX {
            if !waiting.add(below, at) || at == EntryId::ROOT {
                return Ok(());
            }
            let above = names.container(state, at)?;
            if self.is_elsewhere_below(above.flags) {
                return Ok(());
            }
            (below, at) = (at, above.parent);
        }
        Err(endless(parent))
    }

    /// Returns true if the entries below an entry with these flags are on another server.
    #[inline]
    fn is_elsewhere_below(&self, flags: NodeFlags) -> bool {
        flags.is_referral() && !self.manages
    }

    /// Returns the referral entries in scope. The search sends a continuation reference for each (RFC 3296 section
    /// 5.4).
    ///
    /// # Errors
    /// adminLimitExceeded for more than [`COLLECTED_IDS_MAX`] referral entries.
    fn referrals(
        &mut self,
        state: TreeState<'_>,
        names: &mut NameCache,
    ) -> Result<Vec<EntryId>, OperationError> {
        let mut referrals = Vec::new();
        for id in ids_with_flag(
            state,
            NodeFlags::is_referral,
            "referrals, too many for one search: send ManageDsaIT",
            COLLECTED_IDS_MAX,
        )? {
            if let Some(row) = node(state.read, id)?
                && self.contains(state, names, id, &row)?
            {
                referrals.push(id);
            }
        }
        Ok(referrals)
    }

    /// Adds the target of an alias. Returns true if it is the root of a further subtree.
    fn add_target(&mut self, target: EntryId) -> bool {
        if matches!(self.kind, Scope::SingleLevel | Scope::Subordinate) {
            self.extras.insert(target);
        }
        let is_subtree = matches!(self.kind, Scope::WholeSubtree | Scope::Subordinate);
        is_subtree && target != self.base && self.aliased.insert(target)
    }
}

/// The aliases that are not in scope yet, as a forest with their superiors. Each edge is followed only once, so that
/// many aliases that lead to each other take time in proportion to their number.
#[derive(Default)]
struct WaitingAliases {
    aliases: HashSet<EntryId>,
    below: HashMap<EntryId, Vec<EntryId>>,
}

impl WaitingAliases {
    /// Adds an entry below its superior. Returns true if the superior is new.
    fn add(&mut self, entry: EntryId, superior: EntryId) -> bool {
        let below = self.below.entry(superior).or_default();
        below.push(entry);
        below.len() == 1
    }

    /// Removes the aliases below these entries, and returns them in ascending order.
    fn take_below(&mut self, roots: &[EntryId]) -> Vec<EntryId> {
        let mut aliases = Vec::new();
        for root in roots {
            let mut entries = self.below.remove(root).unwrap_or_default();
            while let Some(entry) = entries.pop() {
                if self.aliases.remove(&entry) {
                    aliases.push(entry);
                }
                // If the entry was a root before, nothing is left below it.
                entries.append(&mut self.below.remove(&entry).unwrap_or_default());
            }
        }
        aliases.sort_unstable();
        aliases
    }
}

fn endless(container: EntryId) -> OperationError {
    OperationError::Damaged(format!("the parents of entry {} do not end", container.0))
}

/// Returns the entries whose class sets have a flag, ascending.
fn ids_with_flag(
    state: TreeState<'_>,
    has_flag: fn(NodeFlags) -> bool,
    what: &str,
    count_max: usize,
) -> Result<Vec<EntryId>, OperationError> {
    if !has_flag(state.catalog.class_set_flags()) {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for (id, _) in state.catalog.numbered_class_sets().filter(|(_, set)| has_flag(set.flags)) {
        let key = class_key(id);
        state.read.ids(CLASSES, &key)?.next_block(&mut ids, count_max + 1)?;
        if ids.len() > count_max {
            return Err(OperationError::refused(
                ResultCode::ADMIN_LIMIT_EXCEEDED,
                format!("there are more than {count_max} {what}"),
            ));
        }
    }
    ids.sort_unstable();
    Ok(ids.into_iter().map(EntryId).collect())
}
