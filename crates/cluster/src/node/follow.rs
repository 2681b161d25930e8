//! Following: applying groups that another node decided.

use directory::Writer;
use kafka_log::{Event, Message};
use replication::{NewEpoch, RowChange, Slice, Verdict};

use super::Node;
use crate::event::NodeEvent;
use crate::limits::{FOLLOW_BYTES_MAX, RETRY};

/// Records and rows of several messages, for one commit.
#[derive(Default)]
pub(crate) struct GatheredCommit {
    first_position: Option<u64>,
    records: Vec<Vec<u8>>,
    bytes: usize,
    pub(super) rows: Vec<RowChange>,
    groups: u64,
    /// The digest barrier, if the last message is a digest barrier.
    pub(super) mark: Option<(u64, Slice)>,
}

impl GatheredCommit {
    /// Returns gathered rows without records.
    pub(super) fn of_rows(rows: Vec<RowChange>) -> GatheredCommit {
        GatheredCommit { rows, ..GatheredCommit::default() }
    }
}

impl Node {
    /// Applies a message of the log, and the later messages that have already arrived, in one commit.
    pub(super) fn follow(&mut self, writer: &mut Writer, message: Message) {
        let mut gathered = GatheredCommit::default();
        self.gather(&message, &mut gathered);
        while gathered.bytes < FOLLOW_BYTES_MAX && gathered.mark.is_none() && self.stopped.is_none() {
            let next = self.ahead.pop_front().or_else(|| self.parts.runtime.ready_event());
            match next {
                Some(NodeEvent::Log(reading, Event::Message(message))) => {
                    if reading == self.reading {
                        self.gather(&message, &mut gathered);
                    }
                }
                Some(other) => {
                    self.ahead.push_front(other);
                    break;
                }
                None => break,
            }
        }
        self.commit(writer, &gathered);
        // The barrier is skipped if the changes before it could not be committed: there is no member in that case.
        if let Some((mark, slice)) = gathered.mark.take().filter(|_| self.member.is_some()) {
            self.sum_up(mark, slice);
        }
    }

    /// Judges a message while no batch is open, and collects the result.
    fn gather(&mut self, message: &Message, gathered: &mut GatheredCommit) {
        let Some(member) = &mut self.member else { return self.release(message) };
        let step = member.step(message.offset, &message.bytes);
        self.parts.log.release(message.bytes.len());
        self.count(&step.verdict, message);
        self.gather_verdict(step.verdict, message, gathered);
    }

    /// Collects the result of a verdict.
    pub(super) fn gather_verdict(
        &mut self,
        verdict: Verdict<'_>,
        message: &Message,
        gathered: &mut GatheredCommit,
    ) {
        match verdict {
            Verdict::Apply(accepted) => {
                gathered.first_position.get_or_insert(accepted.first_position);
                gathered.bytes += message.bytes.len();
                self.parts.figures.lock().groups_sealed += u64::from(accepted.is_sealed);
                gathered.records.extend(accepted.records.iter().map(|record| record.bytes.to_vec()));
                gathered.rows.extend(accepted.rows);
                gathered.groups += 1;
                self.announced.is_new = true;
                self.holes = 0;
            }
            Verdict::NewEpoch(epoch) => self.new_epoch(epoch, message, gathered),
            Verdict::Member(update) => self.take_announcement(update, gathered),
            Verdict::Key(update) => self.take_key_update(update, gathered),
            Verdict::NeedsKey(number) => self.need_key(number),
            Verdict::Mark(mark) => {
                gathered.rows.extend(mark.rows);
                gathered.mark = Some((mark.offset, mark.slice));
            }
            Verdict::Digests { node, mark, parts } => self.take_digests(node, mark, parts),
            Verdict::NewGeneration(_) => {
                self.stop("all data of the cluster is new: copy another node's with `pando cluster reseed`");
            }
            Verdict::Ignored(reason) => {
                tracing::info!(offset = message.offset, "all nodes ignore a message of the log: {reason}");
            }
            Verdict::Alarm(alarm) => self.raise(&alarm, message.offset),
            Verdict::Seen => {}
            Verdict::Missing { expected } => self.missing(expected),
        }
    }

    fn new_epoch(&mut self, epoch: NewEpoch, message: &Message, gathered: &mut GatheredCommit) {
        let (node, offset) = (epoch.epoch.node, epoch.epoch.offset);
        gathered.rows.extend(epoch.rows);
        self.writer_address =
            String::from_utf8(message.key.clone()).ok().filter(|address| !address.is_empty());
        let address = self.writer_address.as_deref().unwrap_or("an unknown address");
        tracing::info!("{node} writes for the cluster now, at {address} (epoch {offset})");
        let now_seconds = self.now_seconds();
        self.parts.figures.lock().epoch_since = now_seconds;
        if node == self.ids.node {
            self.claim = None;
        } else {
            // Delay this node's next claim. If two nodes both believe that they are elected, they must not displace
            // each other again and again.
            self.claim_after = self.now() + RETRY;
        }
        self.parts.peers.forget();
    }

    /// Reads missing messages again. If they are still missing after repeated attempts, the node stops.
    fn missing(&mut self, expected: u64) {
        self.holes += 1;
        if self.holes > 3 {
            return self.stop(&format!("the log has no message at offset {expected}"));
        }
        tracing::warn!("messages of the log were left out: reading again from offset {expected}");
        if let Err(error) = self.open_log(expected) {
            self.stop(&error.to_string());
        }
    }

    /// Commits the gathered records and rows. If that fails, the node starts over from its last commit.
    pub(super) fn commit(&mut self, writer: &mut Writer, gathered: &GatheredCommit) {
        if gathered.rows.is_empty() {
            return;
        }
        let rows: Vec<_> = gathered.rows.iter().map(|row| (&*row.key, row.value.as_deref())).collect();
        let records = gathered.records.iter().map(Vec::as_slice);
        // Without records, the position is not used.
        match writer.apply_group(gathered.first_position.unwrap_or(1), records, &rows) {
            Ok(()) => {
                self.has_started_over = false;
                self.parts.host.committed();
                self.parts.figures.lock().groups_followed += gathered.groups;
                self.answer_decided();
            }
            Err(error) => {
                tracing::error!(%error, "records of the cluster's log cannot be applied; it is tried again");
                self.start_over(&error);
            }
        }
    }
}
