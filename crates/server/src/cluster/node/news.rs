//! What this node tells the log of itself, and what the log says of the others.

use std::time::Instant;

use kafka_log::Message;
use replication::limits::LEVEL_MAX;
use replication::message::News;
use replication::{MemberNews, Verdict};

use super::Node;
use super::follow::Gathered;
use crate::limits::CLUSTER_NEWS_INTERVAL;

/// Why a node that is gone takes part no longer.
pub(super) const GONE: &str =
    "this node was taken out of the cluster; `pando cluster join` makes it a new one";

/// What this node has told the log of its durable commits.
#[derive(Default)]
pub(super) struct Told {
    last: Option<Instant>,
    /// Whether there was a group since.
    pub(super) is_new: bool,
}

impl Told {
    /// Whether the log was told of this node, so that others know of it.
    pub(super) fn is_known(&self) -> bool {
        self.last.is_some()
    }
}

impl Node {
    /// Tells the log up to where this node has committed: at the start, which makes it known, and from time to time
    /// where there was something.
    pub(super) fn tell_if_due(&mut self) {
        let (Some(member), Some(clients)) = (&self.member, &self.clients) else { return };
        let is_due = match self.told.last {
            None => true,
            Some(last) => self.told.is_new && last.elapsed() >= CLUSTER_NEWS_INTERVAL,
        };
        if !is_due || self.stopped.is_some() {
            return;
        }
        self.told = Told { last: Some(Instant::now()), is_new: false };
        // Whatever the thread has read at this point is committed.
        let follower = member.follower();
        let message = follower.news_of(self.ids.node, News::Durable(follower.cursor().offset));
        self.tickets += 1;
        clients.appender.append(self.tickets, b"", &message);
        let own = follower.members().find(|(node, _)| *node == self.ids.node);
        if own.is_none_or(|(_, row)| row.level != LEVEL_MAX) {
            self.tickets += 1;
            let message = follower.news_of(self.ids.node, News::Level(LEVEL_MAX));
            clients.appender.append(self.tickets, b"", &message);
        }
    }

    /// A restart is to know that the data must not be served.
    pub(super) fn note_diverged(&self, cause: &str) {
        if let Err(error) = self.parts.identity.set_diverged(Some(cause)) {
            tracing::error!(%error, "a restart does not know that this node must not be served");
        }
    }

    pub(super) fn take_news(&mut self, news: MemberNews, gathered: &mut Gathered) {
        gathered.rows.extend(news.rows);
        if news.news != News::Gone {
            return;
        }
        tracing::warn!("{} does not belong to the cluster any longer: its certificate is refused", news.node);
        self.parts.gone.add(news.node);
        if news.node == self.ids.node {
            self.stop(GONE);
        }
    }

    /// Counts a message for what is said of the log's size and age.
    pub(super) fn count(&mut self, verdict: &Verdict<'_>, message: &Message) {
        self.last_millis = message.millis;
        if !matches!(verdict, Verdict::Seen | Verdict::Missing { .. }) {
            self.growth.read(message);
        }
    }
}
