//! Announcements in the log by this node and by other nodes.

use std::time::Instant;

use kafka_log::Message;
use replication::limits::LEVEL_MAX;
use replication::message::Announcement;
use replication::{MemberUpdate, Verdict};

use super::Node;
use super::follow::GatheredCommit;
use crate::limits::ANNOUNCEMENT_INTERVAL;

/// Reason why an unregistered node stops.
pub(super) const UNREGISTERED: &str =
    "this node was taken out of the cluster; `pando cluster join` makes it a new one";

/// Announcements of durable commits that this node has made.
#[derive(Default)]
pub(crate) struct AnnouncedCommits {
    last: Option<Instant>,
    /// Whether the node has applied a group since its last announcement.
    pub(super) is_new: bool,
}

impl AnnouncedCommits {
    /// Returns true after the first announcement of this process.
    pub(super) fn is_known(&self) -> bool {
        self.last.is_some()
    }
}

impl Node {
    /// Announces the offset up to which this node has committed. The first announcement, at the start, registers the
    /// node. Further announcements follow at intervals if the node has applied more groups. Also announces the feature
    /// level of this node if the log has another level for it.
    pub(super) fn announce_if_due(&mut self) {
        let Some(member) = self.member.as_ref().filter(|_| self.parts.log.is_open()) else { return };
        let is_due = match self.announced.last {
            None => true,
            Some(last) => self.announced.is_new && self.elapsed(last) >= ANNOUNCEMENT_INTERVAL,
        };
        if !is_due || self.stopped.is_some() {
            return;
        }
        self.announced = AnnouncedCommits { last: Some(self.now()), is_new: false };
        // The thread commits everything that it reads, so the cursor is durable at this point.
        let follower = member.follower();
        let message =
            follower.announcement_of(self.ids.node, Announcement::Durable(follower.cursor().offset));
        let own = follower.members().find(|(node, _)| *node == self.ids.node);
        let level = own
            .is_none_or(|(_, row)| row.level != LEVEL_MAX)
            .then(|| follower.announcement_of(self.ids.node, Announcement::Level(LEVEL_MAX)));
        self.append(&message);
        if let Some(level) = level {
            self.append(&level);
        }
    }

    /// Stores the reason why this node's data has diverged, so that the data is not served after a restart either.
    pub(super) fn note_diverged(&self, cause: &str) {
        if let Err(error) = self.parts.identity.set_diverged(Some(cause)) {
            tracing::error!(%error, "a restart does not know that this node must not be served");
        }
    }

    pub(super) fn take_announcement(&mut self, update: MemberUpdate, gathered: &mut GatheredCommit) {
        gathered.rows.extend(update.rows);
        if update.announcement != Announcement::Left {
            return;
        }
        tracing::warn!(
            "{} does not belong to the cluster any longer: its certificate is refused",
            update.node
        );
        self.parts.former_members.add(update.node);
        if update.node == self.ids.node {
            self.stop(UNREGISTERED);
        }
    }

    /// Records the time of a message. Also counts the message for the estimate of the log's size, unless the node has
    /// read it before or messages before it are missing.
    pub(super) fn count(&mut self, verdict: &Verdict<'_>, message: &Message) {
        self.last_millis = message.millis;
        if !matches!(verdict, Verdict::Seen | Verdict::Missing { .. }) {
            self.growth.read(message);
        }
    }
}
