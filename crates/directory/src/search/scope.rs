//! Which entries a search is about, and what they are called.
//!
//! Both questions go up the parent chain, and all entries of one container share the answer, so it is kept per container:
//! its DN, and whether it lies in the scope. The parent chain of a million people below one `ou=people` is walked once.

use std::collections::HashMap;

use ldap::{ResultCode, Scope};

use super::base::dereference;
use crate::OperationError;
use crate::limits::{ALIASES_FOLLOWED_MAX, COLLECTED_IDS_MAX, CONTAINERS_CACHED_MAX, TREE_DEPTH_MAX};
use crate::rows::{CLASSES, ClassSetId, EntryId, NodeFlags, NodeRow, class_key};
use crate::tree::{State, damaged_row, node};

/// The entries that a search is about.
#[derive(Debug)]
pub(crate) struct SearchScope {
    pub(crate) kind: Scope,
    /// The base object; [`EntryId::ROOT`] for the empty DN.
    pub(crate) base: EntryId,
    /// Roots of the subtrees in scope: the base and, where aliases are followed, what they lead to.
    pub(crate) vertices: Vec<EntryId>,
    /// Single entries in scope besides, to which aliases lead.
    pub(crate) extras: Vec<EntryId>,
    /// Whether aliases below the base are followed, so that they are not results themselves.
    pub(crate) follows_aliases: bool,
    /// Whether referral entries count as ordinary ones (ManageDsaIT).
    pub(crate) manages: bool,
    /// The subentries control, see [`crate::controls::RequestControls::subentries`].
    pub(crate) subentries: Option<bool>,
}

/// A container's DN, as a piece of [`Containers::texts`], and whether entries one level below it are in a subtree of
/// the scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    start: usize,
    end: usize,
    pub(crate) is_inside: bool,
}

/// What is known of containers, at one position of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    known: HashMap<EntryId, Container>,
    last: Option<(EntryId, Container)>,
    texts: Vec<u8>,
}

impl Containers {
    /// Forgets everything: the snapshot has moved.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.last = None;
        self.texts.clear();
    }

    /// The DN of a container (UTF-8); empty for the root.
    pub(crate) fn dn(&self, container: Container) -> &[u8] {
        &self.texts[container.start..container.end]
    }

    /// What is to know of the container `id`.
    #[inline]
    pub(crate) fn container(
        &mut self,
        state: State<'_>,
        scope: &SearchScope,
        id: EntryId,
    ) -> Result<Container, OperationError> {
        if let Some((last, container)) = self.last
            && last == id
        {
            return Ok(container);
        }
        if self.known.len() >= CONTAINERS_CACHED_MAX {
            self.clear();
        }
        let container = self.look_up(state, scope, id, 0)?;
        self.last = Some((id, container));
        Ok(container)
    }

    fn look_up(
        &mut self,
        state: State<'_>,
        scope: &SearchScope,
        id: EntryId,
        depth: usize,
    ) -> Result<Container, OperationError> {
        if id == EntryId::ROOT {
            return Ok(Container { start: 0, end: 0, is_inside: scope.vertices.contains(&id) });
        }
        if let Some(container) = self.known.get(&id) {
            return Ok(*container);
        }
        if depth > TREE_DEPTH_MAX {
            return Err(OperationError::Damaged(format!("the parents of entry {} do not end", id.0)));
        }
        let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
        let parent = self.look_up(state, scope, row.parent, depth + 1)?;
        let start = self.texts.len();
        self.texts.extend_from_slice(row.rdn.as_bytes());
        if parent.start < parent.end {
            self.texts.push(b',');
            self.texts.extend_from_within(parent.start..parent.end);
        }
        let hides_what_is_below = row.flags.is_referral() && !scope.manages;
        let is_inside = scope.vertices.contains(&id) || (parent.is_inside && !hides_what_is_below);
        let container = Container { start, end: self.texts.len(), is_inside };
        self.known.insert(id, container);
        Ok(container)
    }
}

impl SearchScope {
    /// Whether an entry is in scope.
    #[inline]
    pub(crate) fn contains(
        &self,
        state: State<'_>,
        containers: &mut Containers,
        id: EntryId,
        row: &NodeRow<'_>,
    ) -> Result<bool, OperationError> {
        Ok(match self.kind {
            Scope::BaseObject => id == self.base,
            Scope::SingleLevel => row.parent == self.base || self.extras.contains(&id),
            Scope::WholeSubtree => {
                self.vertices.contains(&id) || containers.container(state, self, row.parent)?.is_inside
            }
            Scope::Subordinate => {
                self.extras.contains(&id) || containers.container(state, self, row.parent)?.is_inside
            }
        })
    }

    /// Whether an entry in scope may be a result, going by what kind of entry it is.
    #[inline]
    pub(crate) fn admits(&self, id: EntryId, flags: NodeFlags) -> bool {
        if flags == NodeFlags::default() {
            // RFC 3672 section 3: with the control set, nothing but subentries.
            return self.subentries != Some(true) || self.kind == Scope::BaseObject;
        }
        if id == self.base && self.kind == Scope::BaseObject {
            return true;
        }
        let is_signpost = flags.is_referral() && !self.manages;
        let is_followed = flags.is_alias() && self.follows_aliases && id != self.base;
        !is_signpost && !is_followed && flags.is_subentry() == self.subentries.unwrap_or(false)
    }

    /// Follows the aliases in scope (RFC 4511 section 4.5.1.3): in a subtree search what they lead to becomes the root of
    /// another subtree, with its own aliases; one level below the base, a result by itself. Aliases that lead nowhere are
    /// passed over.
    ///
    /// # Errors
    /// adminLimitExceeded for more than [`ALIASES_FOLLOWED_MAX`] aliases.
    pub(crate) fn follow_aliases(
        &mut self,
        state: State<'_>,
        containers: &mut Containers,
    ) -> Result<(), OperationError> {
        let mut aliases = ids_with_flag(state, NodeFlags::is_alias, "aliases", ALIASES_FOLLOWED_MAX)?;
        loop {
            let mut in_scope = Vec::new();
            let mut others = Vec::new();
            for id in aliases {
                let Some(row) = node(state.read, id)? else { continue };
                let is_in_scope = id != self.base && self.contains(state, containers, id, &row)?;
                if is_in_scope { &mut in_scope } else { &mut others }.push(id);
            }
            if in_scope.is_empty() {
                return Ok(());
            }
            for alias in in_scope {
                if let Some(target) = dereference(state, alias)? {
                    self.add_target(target);
                }
            }
            containers.clear();
            aliases = others;
        }
    }

    /// The referral entries in scope, for which the search sends continuation references (RFC 3296 section 5.4).
    ///
    /// # Errors
    /// adminLimitExceeded for more than [`COLLECTED_IDS_MAX`] referral entries.
    pub(crate) fn referrals(
        &self,
        state: State<'_>,
        containers: &mut Containers,
    ) -> Result<Vec<EntryId>, OperationError> {
        let mut referrals = Vec::new();
        for id in ids_with_flag(state, NodeFlags::is_referral, "referrals", COLLECTED_IDS_MAX)? {
            if let Some(row) = node(state.read, id)?
                && self.contains(state, containers, id, &row)?
            {
                referrals.push(id);
            }
        }
        Ok(referrals)
    }

    fn add_target(&mut self, target: EntryId) {
        let list = match self.kind {
            Scope::BaseObject => return,
            Scope::SingleLevel => &mut self.extras,
            Scope::WholeSubtree => &mut self.vertices,
            Scope::Subordinate => {
                if !self.extras.contains(&target) {
                    self.extras.push(target);
                }
                &mut self.vertices
            }
        };
        if !list.contains(&target) {
            list.push(target);
        }
    }
}

/// The entries whose classes give them a flag, ascending.
fn ids_with_flag(
    state: State<'_>,
    has_flag: fn(NodeFlags) -> bool,
    what: &str,
    count_max: usize,
) -> Result<Vec<EntryId>, OperationError> {
    let mut ids = Vec::new();
    for (number, _) in state.catalog.class_sets().iter().enumerate().filter(|(_, set)| has_flag(set.flags)) {
        let key = class_key(ClassSetId(number as u32));
        state.read.ids(CLASSES, &key)?.next_block(&mut ids, count_max + 1)?;
        if ids.len() > count_max {
            return Err(OperationError::refused(
                ResultCode::ADMIN_LIMIT_EXCEEDED,
                format!("there are more than {count_max} {what}, too many for one search"),
            ));
        }
    }
    ids.sort_unstable();
    Ok(ids.into_iter().map(EntryId).collect())
}
