//! Copied trees, whose data other servers maintain. A client's change in a copied tree is referred to the other server.
//! The state of a copied tree is a row. The row is committed together with the changes that lead to the state.

use std::sync::Arc;

use ldap::{LdapUrl, Request, ResultCode};
use schema::Schema;

use super::WriteBatch;
use crate::access::{RequestContext, Requester};
use crate::catalog::{META_FOLLOW, META_PROMOTED};
use crate::model::copy_states::CopyStates;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::META;
use crate::model::settings::Settings;
use crate::snapshot::{Directory, is_in};

type Result<T> = std::result::Result<T, OperationError>;

fn key(schema: &Schema, base: &str) -> Result<Vec<u8>> {
    Ok(NormalName::of(&parse_dn(base)?, schema).key)
}

impl Directory {
    /// Returns the state of the copied tree at `base`, as [`WriteBatch::put_follow_state`] stored it.
    ///
    /// # Errors
    /// The store failed, or `base` is not a DN.
    pub fn follow_state(&self, base: &str) -> Result<Option<Vec<u8>>> {
        let states = self.store.view()?.get(META, META_FOLLOW)?.map(CopyStates::decode).unwrap_or_default();
        Ok(states.of(&key(&self.catalog.load().schema, base)?).map(<[u8]>::to_vec))
    }

    /// Returns true if the tree at `base` was a copied tree and has been promoted: see [`WriteBatch::promote`].
    pub fn is_promoted(&self, base: &str) -> bool {
        is_in(&self.promoted.load(), &self.catalog.load().schema, base)
    }
}

impl WriteBatch<'_> {
    /// Stores the state of the copied tree at `base`. The state is opaque to this crate.
    ///
    /// # Errors
    /// The store failed, or `base` is not a DN.
    pub fn put_follow_state(&mut self, base: &str, state: &[u8]) -> Result<()> {
        self.check_failure()?;
        let mut all = self.copy_states(META_FOLLOW)?;
        all.0.remove(&[][..]);
        all.0.insert(key(&self.catalog.schema, base)?, state.to_vec());
        Ok(self.batch.put(META, META_FOLLOW, &all.encode())?)
    }

    fn copy_states(&self, row: &[u8]) -> Result<CopyStates> {
        Ok(self.batch.get(META, row)?.map(CopyStates::decode).unwrap_or_default())
    }

    /// Returns true if the tree at `base` is a copied tree, to which changes of the other server may be applied.
    pub fn is_copy(&self, base: &str) -> bool {
        self.settings.node.followed.iter().any(|tree| tree.base() == base)
    }

    /// Ends the copying of the tree at `base`, or of all copied trees, forever. From the commit on, clients may change
    /// the tree, and changes of the other server are no longer applied. Returns the last states of the trees. Promoting
    /// a tree again has no effect.
    ///
    /// # Errors
    /// The requester is not the administrator, the tree is not a copied tree or has not been copied yet, or the store
    /// failed.
    pub fn promote(&mut self, context: &RequestContext<'_>, base: Option<&str>) -> Result<Vec<Vec<u8>>> {
        self.check_room()?;
        if !matches!(context.requester, Requester::Administrator { .. }) {
            let text = "only the administrator may promote a copy";
            return Err(OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let schema = Arc::clone(&self.catalog.schema);
        let wanted = base.map(|base| key(&schema, base)).transpose()?;
        let is_wanted = |key: &[u8]| wanted.as_ref().is_none_or(|wanted| wanted == key);
        let (mut following, mut promoted) =
            (self.copy_states(META_FOLLOW)?, self.copy_states(META_PROMOTED)?);
        let mut settings = Settings::clone(&self.settings);
        let mut now = Vec::new();
        for tree in &self.settings.node.followed {
            let key = key(&schema, tree.base())?;
            if !is_wanted(&key) {
                continue;
            }
            let Some(state) = following.0.remove(&key) else {
                let text = "the copy has never been complete: wait until it follows the source";
                return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
            };
            settings.node.followed.retain(|other| other.base() != tree.base());
            now.push((key, state));
        }
        promoted.0.extend(now);
        let known = promoted.0.iter().filter(|(key, _)| key.is_empty() || is_wanted(key));
        let last: Vec<Vec<u8>> = known.map(|(_, state)| state.clone()).collect();
        if last.is_empty() {
            let text = "this server follows no other";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        self.batch.put(META, META_PROMOTED, &promoted.encode())?;
        self.batch.put(META, META_FOLLOW, &following.encode())?;
        self.settings = Arc::new(settings);
        self.promoted = Some(Arc::new(promoted));
        Ok(last)
    }

    /// Refuses a client's change in a copied tree, with a referral to the other server if the settings contain its URL.
    /// Also refuses to delete or rename a superior of a copied tree.
    #[cold]
    #[inline(never)]
    pub(super) fn check_not_followed(&self, request: &Request<'_>) -> Result<()> {
        let schema = &*self.catalog.schema;
        let (name, superior) = match request {
            Request::Add(add) => (add.entry, None),
            Request::Delete(delete) => (delete.entry, None),
            Request::Modify(modify) => (modify.object, None),
            Request::ModifyDn(rename) => (rename.entry, rename.new_superior),
            _ => return Ok(()),
        };
        let takes_tree = matches!(request, Request::Delete(_) | Request::ModifyDn(_));
        for tree in &self.settings.node.followed {
            let base = key(schema, tree.base())?;
            let NormalName { key: own, failure, .. } = NormalName::of(&parse_dn(name)?, schema);
            if takes_tree && failure.is_none() && base.len() > own.len() && base.starts_with(&own) {
                let text = "a copy of another server's tree is below this entry: it would be changed with it";
                return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
            }
            let is_within = |name: &str| -> Result<bool> { Ok(key(schema, name)?.starts_with(&base)) };
            if !own.starts_with(&base) && !superior.map_or(Ok(false), is_within)? {
                continue;
            }
            let referral = tree.referral.as_deref().and_then(|url| LdapUrl::parse(url).ok());
            let Some(mut url) = referral else { return Err(copied()) };
            url.dn = tree.mapping.inverse().dn(schema, name).unwrap_or_else(|| name.to_owned());
            let (matched_dn, referrals) = (tree.base().to_owned(), vec![url.to_string()]);
            return Err(OperationError::Referral { matched_dn, referrals });
        }
        Ok(())
    }

    /// Refuses a change that may concern any tree, if the node has copied trees.
    pub(super) fn check_follows_none(&self) -> Result<()> {
        if self.settings.node.followed.is_empty() { Ok(()) } else { Err(copied()) }
    }
}

fn copied() -> OperationError {
    let text = "this tree is a copy of another server's, which this server follows: change it there";
    OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text)
}
