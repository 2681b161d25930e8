//! A tree that is a copy of another server's: clients are referred there, and the state of the copy is a row of the
//! same commit as the changes that lead to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ldap::{LdapUrl, Request, ResultCode};

use super::WriteBatch;
use crate::access::{RequestContext, Requester};
use crate::catalog::{META_FOLLOW, META_PROMOTED};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::META;
use crate::model::settings::Settings;
use crate::snapshot::Directory;

type Result<T> = std::result::Result<T, OperationError>;

impl Directory {
    /// Returns the state of the copy of another server's tree, as [`WriteBatch::put_follow_state`] stored it.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow_state(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.store.view()?.get(META, META_FOLLOW)?.map(<[u8]>::to_vec))
    }

    /// Returns true if the tree was a copy of another server's and was promoted: see [`WriteBatch::promote`].
    pub fn is_promoted(&self) -> bool {
        self.is_promoted.load(Ordering::Acquire)
    }
}

impl WriteBatch<'_> {
    /// Stores the state of the copy of another server's tree, opaque bytes to this crate.
    ///
    /// # Errors
    /// The store failed.
    pub fn put_follow_state(&mut self, state: Option<&[u8]>) -> Result<()> {
        self.check_failure()?;
        match state {
            Some(state) => self.batch.put(META, META_FOLLOW, state)?,
            None => drop(self.batch.delete(META, META_FOLLOW)?),
        }
        Ok(())
    }

    /// Returns true if the tree is a copy of another server's, so that its changes may be repeated.
    pub fn is_copy(&self) -> bool {
        self.settings.node.followed.is_some()
    }

    /// Ends the copy for good: from the commit on, clients may change the tree, and no change of the other server is
    /// repeated. Returns the last state of the copy. A repetition has no effect.
    ///
    /// # Errors
    /// The requester is not the administrator, or the tree is no copy, or none yet; the store failed.
    pub fn promote(&mut self, context: &RequestContext<'_>) -> Result<Vec<u8>> {
        self.check_room()?;
        if !matches!(context.requester, Requester::Administrator { .. }) {
            let text = "only the administrator may promote a copy";
            return Err(OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        if let Some(state) = self.batch.get(META, META_PROMOTED)? {
            return Ok(state.to_vec());
        }
        let refused = |text| Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        if !self.is_copy() {
            return refused("this server follows no other");
        }
        let Some(state) = self.batch.get(META, META_FOLLOW)?.map(<[u8]>::to_vec) else {
            return refused("the copy has never been complete: wait until it follows the source");
        };
        self.batch.put(META, META_PROMOTED, &state)?;
        self.batch.delete(META, META_FOLLOW)?;
        let mut settings = Settings::clone(&self.settings);
        settings.node.followed = None;
        self.settings = Arc::new(settings);
        self.promotes = true;
        Ok(state)
    }

    /// Refuses a change of a client in the tree that is a copy, with a referral to the other server.
    #[cold]
    #[inline(never)]
    pub(super) fn check_not_followed(&self, request: &Request<'_>) -> Result<()> {
        let Some(followed) = &self.settings.node.followed else { return Ok(()) };
        let schema = &*self.catalog.schema;
        let base = NormalName::of(&parse_dn(&followed.base)?, schema);
        let is_within = |name: &str| -> Result<bool> {
            Ok(NormalName::of(&parse_dn(name)?, schema).key.starts_with(&base.key))
        };
        let (name, superior) = match request {
            Request::Add(add) => (add.entry, None),
            Request::Delete(delete) => (delete.entry, None),
            Request::Modify(modify) => (modify.object, None),
            Request::ModifyDn(rename) => (rename.entry, rename.new_superior),
            _ => return Ok(()),
        };
        if !is_within(name)? && !superior.map_or(Ok(false), is_within)? {
            return Ok(());
        }
        let referral = followed.referral.as_deref().and_then(|url| LdapUrl::parse(url).ok());
        match referral {
            Some(mut url) => {
                url.dn = name.to_owned();
                let (matched_dn, referrals) = (followed.base.clone(), vec![url.to_string()]);
                Err(OperationError::Referral { matched_dn, referrals })
            }
            None => Err(copied()),
        }
    }

    /// Refuses a change that could be in the tree that is a copy.
    pub(super) fn check_follows_none(&self) -> Result<()> {
        self.settings.node.followed.as_ref().map_or(Ok(()), |_| Err(copied()))
    }
}

fn copied() -> OperationError {
    let text = "this tree is a copy of another server's, which this server follows: change it there";
    OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text)
}
