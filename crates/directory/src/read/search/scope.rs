//! The entries that a search covers.
//!
//! To test an entry, a search follows its superiors up to the root of a subtree in scope. The result is the same for
//! all entries with the same immediate superior.

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

/// Scope of a search.
#[derive(Clone, Debug)]
pub(crate) struct SearchScope {
    pub(crate) kind: Scope,
    /// The base object; [`EntryId::ROOT`] for the empty DN.
    pub(crate) base: EntryId,
    /// Roots of further subtrees in scope: targets of aliases.
    pub(crate) aliased: Vec<EntryId>,
    /// Further single entries in scope: targets of aliases.
    pub(crate) extras: Vec<EntryId>,
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
            aliased: Vec::new(),
            extras: Vec::new(),
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
            for id in &referrals {
                let urls = continuation(state, *id, &state.dn(*id)?.unwrap_or_default(), self.kind)?;
                aliased.retain(|other| *other != urls);
            }
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
            if above.flags.is_referral() && !self.manages {
                return Ok(false);
            }
            at = above.parent;
        }
        Err(OperationError::Damaged(format!("the parents of entry {} do not end", container.0)))
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
        let mut other_servers: Vec<Vec<String>> = Vec::new();
        let mut aliases = ids_with_flag(
            state,
            NodeFlags::is_alias,
            "aliases, too many for one search: ask without dereferencing",
            ALIASES_FOLLOWED_MAX,
        )?;
        loop {
            let mut in_scope = Vec::new();
            let mut others = Vec::new();
            for id in aliases {
                let Some(row) = node(state.read, id)? else { continue };
                let is_in_scope = id != self.base && self.contains(state, names, id, &row)?;
                if is_in_scope { &mut in_scope } else { &mut others }.push(id);
            }
            if in_scope.is_empty() {
                return Ok(other_servers);
            }
            for alias in in_scope {
                self.has_aliases |= rights.may_browse(state, alias)?;
                match dereference(state, alias, rights, (self.kind, self.manages))? {
                    AliasTarget::Entry(target) => self.add_target(target),
                    AliasTarget::OtherServer(urls) if !other_servers.contains(&urls) => {
                        other_servers.push(urls)
                    }
                    AliasTarget::OtherServer(_) | AliasTarget::Nowhere => {}
                }
            }
            self.last = None;
            aliases = others;
        }
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

    fn add_target(&mut self, target: EntryId) {
        let is_single = matches!(self.kind, Scope::SingleLevel | Scope::Subordinate);
        if is_single && !self.extras.contains(&target) {
            self.extras.push(target);
        }
        let is_subtree = matches!(self.kind, Scope::WholeSubtree | Scope::Subordinate);
        if is_subtree && !self.is_root(target) {
            self.aliased.push(target);
        }
    }
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
