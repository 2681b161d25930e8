//! Steps of this node in a rotation of the cluster's key.
//!
//! A node creates a key if an administrator requests one. The writer also creates a key after a node has left. The node
//! that created the key offers it in the log. Every other node fetches the key over mutual TLS from a node that has it,
//! and announces in the log that it has the key. The writer puts the key in force when all nodes have it, or when most
//! have it and a time limit has passed. All state is in the log, so after a crash at any step the other nodes, or the
//! same node after its restart, can continue.

use std::time::{Duration, Instant};

use replication::limits::KEYS_LEVEL;
use replication::{AppendError, Follower, KeyUpdate, NodeId, Role, Rotated};

use super::Node;
use super::follow::GatheredCommit;
use crate::identity::IdentityError;
use crate::identity::keys::NumberedKey;
use crate::limits::{KEY_PATIENCE, KEY_RETRY};

/// State of a key change on this node, in addition to the state in the log.
#[derive(Default)]
pub(crate) struct Keys {
    /// Number of the key that is in force and that this node lacks.
    pub(super) needed: Option<u32>,
    /// Number of the offered key, and the time at which this node read the offer.
    offered: Option<(u32, Instant)>,
    /// Times of this node's last actions. `created`: it offered a key. `announced`: it announced that it has the
    /// offered key. `checked`: it checked whether an administrator requests a key. `requested`: it fetched a key.
    created: Option<Instant>,
    announced: Option<Instant>,
    checked: Option<Instant>,
    requested: Option<Instant>,
    is_asking: bool,
    /// Ticket of the rotation in flight.
    rotation: Option<usize>,
    /// Whether the node has logged that a key is requested and cannot be made yet.
    is_logged: bool,
}

/// Returns true if `interval` has passed since `last`, and then sets `last` to `now`.
pub(super) fn is_due(last: &mut Option<Instant>, now: Instant, interval: Duration) -> bool {
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= interval);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl Node {
    /// Performs the steps of a rotation that are due.
    pub(super) fn keys_if_due(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        let Some(member) = &self.member else { return };
        if self.keys.needed.is_some() || member.follower().lacks_offered() {
            self.keep_own_key();
            self.request_key();
        }
        if !self.parts.log.is_open() {
            return;
        }
        self.offer_if_due();
        self.say_key();
        self.rotate_if_due();
    }

    /// Adds the key that this node created to its keys, once the node has read its own offer back.
    fn keep_own_key(&mut self) {
        let Some(member) = &self.member else { return };
        let Some(offered) = member.follower().offered().map(|offered| offered.fingerprint) else { return };
        match self.parts.identity.keep_next_key(&offered) {
            Ok(true) => self.reload_keys(),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "a new key of the cluster is not kept"),
        }
    }

    fn reload_keys(&mut self) {
        match (self.parts.identity.keys(), &mut self.member) {
            (Ok(keys), Some(member)) => member.set_keys(keys),
            (Err(error), _) => tracing::error!(%error, "the keys of the cluster cannot be read"),
            _ => {}
        }
    }

    /// Offers a new key if an administrator requests one. The writer also offers a key if a new key is due, or if the
    /// offered key is lost.
    fn offer_if_due(&mut self) {
        let now = self.now();
        let Some(member) = &self.member else { return };
        let follower = member.follower();
        let is_lost = follower.lacks_offered()
            && (self.keys.offered)
                .is_some_and(|(_, since)| now.saturating_duration_since(since) > 3 * KEY_PATIENCE);
        let is_leading = matches!(member.role(), Role::Leading { .. });
        let is_own = is_leading && (follower.key_is_due() || is_lost);
        let looks = follower.offered().is_none() && is_due(&mut self.keys.checked, now, KEY_RETRY / 8);
        let is_wanted = looks && self.parts.identity.is_key_wanted();
        if is_wanted && follower.level() < KEYS_LEVEL {
            if !std::mem::replace(&mut self.keys.is_logged, true) {
                tracing::warn!(
                    "a new key is wanted, and not all nodes know feature level {KEYS_LEVEL}: update them"
                );
            }
            return;
        }
        if (is_own || is_wanted) && is_due(&mut self.keys.created, now, KEY_RETRY) {
            match self.parts.identity.make_next_key() {
                Ok(fingerprint) => {
                    let message = follower.offer_of(self.ids.node, fingerprint, &self.parts.address);
                    self.append(&message);
                }
                Err(error) => tracing::error!(%error, "no new key of the cluster is made"),
            }
        }
    }

    /// Announces that this node has the offered key, if the log does not contain this announcement yet. Repeats the
    /// announcement at intervals.
    fn say_key(&mut self) {
        let now = self.now();
        let Some(member) = &self.member else { return };
        let holder_message = member.follower().holder_of(self.ids.node, &self.parts.address);
        if let Some(message) = holder_message
            && is_due(&mut self.keys.announced, now, KEY_RETRY)
        {
            self.append(&message);
        }
    }

    /// Puts the offered key in force if this node is the writer, and all nodes have the key, or most nodes have it and
    /// the time limit has passed.
    fn rotate_if_due(&mut self) {
        let now = self.now();
        let (Some(member), Some((_, since))) = (&mut self.member, self.keys.offered) else { return };
        if !member.follower().all_have_key() && now.saturating_duration_since(since) < KEY_PATIENCE {
            return;
        }
        let Some(message) = member.rotate() else { return };
        let ticket = self.append(&message);
        self.note_appended(ticket, &message);
        self.keys.rotation = Some(ticket);
    }

    pub(super) fn rotation_failed(&mut self, ticket: usize, error: AppendError, reason: &str) {
        if self.keys.rotation.take_if(|own| *own == ticket).is_some() {
            tracing::warn!("putting a new key in force: {reason}");
            if let Some(member) = &mut self.member {
                member.rotation_failed(error);
            }
        }
    }

    /// Fetches keys from a node that has the offered key, if this node lacks that key or the key in force.
    fn request_key(&mut self) {
        let now = self.now();
        let Some(member) = &self.member else { return };
        let follower = member.follower();
        let is_lacking = self.keys.needed.is_some() || follower.lacks_offered();
        let Some(offered) = follower.offered().filter(|_| is_lacking && !self.keys.is_asking) else { return };
        if !is_due(&mut self.keys.requested, now, KEY_RETRY) {
            return;
        }
        let (number, own) = (offered.fingerprint.number(), self.ids.node);
        let maker = (offered.node, offered.address.clone());
        let holders = follower.key_holders().map(|(node, address)| (node, address.to_owned()));
        let sources: Vec<(NodeId, String)> =
            std::iter::once(maker).chain(holders).filter(|(node, _)| *node != own).collect();
        match self.parts.peers.fetch_keys(sources, number) {
            Ok(()) => self.keys.is_asking = true,
            Err(error) => tracing::warn!(%error, "the cluster's key is not asked for"),
        }
    }

    /// Stores keys that another node sent.
    pub(super) fn take_keys(&mut self, given: Result<Vec<NumberedKey>, String>) {
        self.keys.is_asking = false;
        let result = given.and_then(|keys| self.keep_keys(&keys).map_err(|error| error.to_string()));
        if let Err(error) = result {
            return tracing::warn!("the cluster's new key is not here yet: {error}; it is tried again");
        }
        self.keys.requested = None;
        self.reload_keys();
        let has =
            |number: u32| self.member.as_ref().is_some_and(|member| member.follower().keys().has(number));
        if self.keys.needed.is_some_and(has) {
            self.keys.needed = None;
            // The node has the key in force now, so it resumes reading after the last message that it has committed.
            self.find_place(Duration::ZERO);
        }
    }

    fn keep_keys(&self, keys: &[NumberedKey]) -> Result<(), IdentityError> {
        self.parts.identity.take_keys(keys)?;
        let offered = self.member.as_ref().and_then(|member| member.follower().offered());
        offered.map_or(Ok(()), |offered| self.parts.identity.note_seen(offered.fingerprint.number()))
    }

    /// Stops reading until this node has the key that is in force.
    pub(super) fn need_key(&mut self, number: u32) {
        tracing::warn!("key {number} of the cluster is in force, and is not here yet: it is asked for");
        self.keys.needed = Some(number);
        self.close_log();
    }

    /// Records which keys the log contains, because only these keys may be given to other nodes.
    pub(super) fn see_keys(&mut self, follower: &Follower) {
        let offered = follower.offered().map(|offered| offered.fingerprint.number());
        for number in offered.into_iter().chain([follower.cursor().key]) {
            if let Err(error) = self.parts.identity.note_seen(number) {
                tracing::error!(%error, "a key of the cluster is not kept as it should be");
            }
        }
        let (known, now) = (self.keys.offered, self.now());
        self.keys.offered =
            offered.map(|number| known.filter(|(known, _)| *known == number).unwrap_or((number, now)));
    }

    pub(super) fn take_key_update(&mut self, update: KeyUpdate, gathered: &mut GatheredCommit) {
        gathered.rows.extend(update.rows);
        match update.what {
            Rotated::Offered(node) => {
                tracing::info!("{node} offers a new key of the cluster");
                (self.keys.announced, self.keys.requested) = (None, None);
                self.keep_own_key();
            }
            Rotated::Stored(node) => tracing::info!("{node} has the new key of the cluster"),
            Rotated::InForce(number) => {
                tracing::warn!(
                    "key {number} of the cluster is in force: messages under another count no longer"
                );
                (self.keys.created, self.keys.rotation, self.claim) = (None, None, None);
                // Announcements in flight were made under the old key and have no effect, so the node repeats them.
                self.announced = super::AnnouncedCommits::default();
                if let Err(error) = self.parts.identity.want_key(false) {
                    tracing::error!(%error, "a new key is made again");
                }
            }
        }
        if let Some(member) = self.member.take() {
            self.see_keys(member.follower());
            self.member = Some(member);
        }
    }
}
