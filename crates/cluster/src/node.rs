//! The node's thread: it owns the directory's writer, follows the log, and decides changes while this node is the
//! writer.
//!
//! All inputs of the thread are events of one channel. The thread guarantees:
//!
//! - This node commits only what the log has accepted, and answers only what it has committed.
//! - A decided batch is committed when the node reads its group back. If the node reads a message that excludes the
//!   group, the node drops the batch, and the new writer decides the changes of the batch again.
//! - A change has the same id wherever it is forwarded, so it is made once no matter how often it is sent.

mod announcements;
mod digests;
mod follow;
mod keys;
mod lead;
mod requests;
pub(crate) mod snapshots;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::{Directory, OperationError, Writer};
use kafka_log::{Event, Message};
use replication::forward::Gate;
use replication::limits::KEYS_LEVEL;
use replication::{Alarm, AppendError, Follower, GroupOutcome, Member, Role, RowChange, Tag};
use store::StoreError;

use crate::environment::{Log, Peers, Runtime};
use crate::event::{LogPlace, NodeEvent};
use crate::figures::{Activity, Figures};
use crate::former_members::FormerMembers;
use crate::growth::Growth;
use crate::host::Host;
use crate::identity::Identity;
use crate::limits::{RETRY, START_OVER};
use crate::operation::{Ids, Operation};
use announcements::AnnouncedCommits;
use digests::Digests;
use keys::Keys;
use requests::{Decided, RemoteFrame, Sent};
use snapshots::{Schedule, Snapshots};

/// Maximum wait for an event. The thread must check regularly whether changes expire and claims are due.
const TICK: Duration = Duration::from_millis(100);

/// Number of last appended messages whose tags are stored.
const APPENDED_KEPT: usize = 16;

/// Configuration of a node, and its interfaces.
pub(crate) struct Parts {
    /// Time limit of a claim in flight.
    pub(super) claim_patience: Duration,
    /// Time limit of a waiting change.
    pub(super) patience: Duration,
    pub(super) identity: Identity,
    /// Address at which other nodes reach this one.
    pub(super) address: String,
    pub(super) group_bytes_max: usize,
    /// Maximum number of records in a group; at most the limit of the protocol.
    pub(super) group_records_max: usize,
    pub(super) directory: Arc<Directory>,
    pub(super) host: Box<dyn Host>,
    pub(super) figures: Arc<Figures>,
    pub(super) runtime: Box<dyn Runtime>,
    pub(super) log: Box<dyn Log>,
    pub(super) peers: Box<dyn Peers>,
    /// Whether the node seals the groups that it writes.
    pub(super) seals: bool,
    pub(super) former_members: Arc<FormerMembers>,
    /// Folder and interval of the snapshots that this node makes by itself.
    pub(super) snapshots: Option<Schedule>,
    /// Interval between comparisons of a slice of the nodes' data; `None` disables comparisons. `digest_bytes_max` is
    /// the maximum size of a slice, in bytes of rows.
    pub(super) digest_interval: Option<Duration>,
    pub(super) digest_bytes_max: u64,
}

/// The node's thread.
pub(crate) struct Node {
    parts: Parts,
    /// State of this node in the protocol. `None` until the node has found its position in the log.
    member: Option<Member>,
    /// Reason why the node has stopped following the log; it does not resume.
    stopped: Option<String>,
    /// Number of the search for the node's last committed message in the log, and the state from which to continue.
    finding: Option<(u64, Follower)>,
    finds: u64,
    /// Number of the present reader. Messages of other readers are ignored.
    reading: u64,
    /// Events taken from the channel that could not be handled at that time.
    ahead: VecDeque<NodeEvent>,
    is_elected: bool,
    /// Ticket and start of the claim in flight.
    claim: Option<(usize, Instant)>,
    claim_after: Instant,
    tickets: usize,
    /// Ticket and bytes of the group in flight.
    group: Option<(usize, Vec<u8>)>,
    /// Tags of the last appended messages, by ticket.
    appended: VecDeque<(usize, Tag)>,
    /// Value of the next offset to read at the time when the end of the log was last reported.
    read_at_last_end: u64,
    /// Last known end of the log, and the time of the query.
    last_end: Option<(u64, Instant)>,
    /// Address of the writer, taken from the writer's claim.
    writer_address: Option<String>,
    ids: Ids,
    waiting: VecDeque<Operation>,
    sent: Option<Sent>,
    send_after: Instant,
    frames: HashMap<u64, RemoteFrame>,
    gate: Gate,
    /// Number given to the last frame that was sent or received.
    numbers: u64,
    decided: Vec<Decided>,
    /// Time at which the clients of this node stopped sending changes.
    is_closing: Option<Instant>,
    /// Append time of the last message read, in milliseconds since 1970.
    last_millis: i64,
    holes: u32,
    /// Whether the node has started over since its last commit.
    has_started_over: bool,
    /// Set while the disk is full. When the disk has room again, the node waits for this delay and then follows the log
    /// again.
    waits_for_room: Option<Duration>,
    growth: Growth,
    announced: AnnouncedCommits,
    digests: Digests,
    keys: Keys,
    snapshots: Snapshots,
    /// Rows of messages that were read while a batch was open. The next commit contains them.
    log_rows: Vec<RowChange>,
}

impl Node {
    pub(super) fn new(parts: Parts, incarnation: u64) -> Node {
        let now = parts.runtime.now();
        let ids = Ids { node: parts.identity.node(), incarnation, sequence: 0 };
        Node {
            parts,
            member: None,
            stopped: None,
            finding: None,
            finds: 0,
            reading: 0,
            ahead: VecDeque::new(),
            is_elected: false,
            claim: None,
            claim_after: now,
            tickets: 0,
            group: None,
            appended: VecDeque::new(),
            read_at_last_end: 0,
            last_end: None,
            writer_address: None,
            ids,
            waiting: VecDeque::new(),
            sent: None,
            send_after: now,
            frames: HashMap::new(),
            gate: Gate::default(),
            numbers: 0,
            decided: Vec::new(),
            is_closing: None,
            last_millis: 0,
            holes: 0,
            has_started_over: false,
            waits_for_room: None,
            growth: Growth::default(),
            announced: AnnouncedCommits::default(),
            digests: Digests::default(),
            keys: Keys::default(),
            snapshots: Snapshots::default(),
            log_rows: Vec::new(),
        }
    }

    /// Runs until the queue of changes is closed and empty. Calls `end` with the cause if the server must stop.
    pub(super) fn run(mut self, mut writer: Writer, end: &dyn Fn(&str)) {
        self.find_place(Duration::ZERO);
        loop {
            self.expire();
            self.refuse_if_stopped();
            if let Some(cause) = self.digests.diverged.take() {
                self.note_diverged(&cause);
                end(&cause);
            }
            if self.may_end() {
                break;
            }
            self.go_on_with_room(&mut writer);
            if self.member.as_ref().is_some_and(Member::may_decide) && !self.waiting.is_empty() {
                self.lead(&mut writer);
                if self.parts.host.is_maintenance_due(&writer) {
                    self.run_maintenance(&mut writer);
                }
                continue;
            }
            self.claim_if_due();
            self.announce_if_due();
            self.set_barrier_if_due();
            self.keys_if_due();
            self.snapshot_if_due();
            self.compare_late();
            self.forward_if_due();
            self.update_figures();
            let patience =
                self.parts.host.maintenance_patience(&writer).map_or(TICK, |patience| patience.min(TICK));
            match self.next_event(patience) {
                Some(NodeEvent::Log(reading, Event::Message(message))) if reading == self.reading => {
                    self.follow(&mut writer, message);
                }
                Some(event) => self.take(event),
                None if writer.maintenance_pending() => self.run_maintenance(&mut writer),
                None => {}
            }
        }
        self.set_role(Activity::Stopped, "stopped");
        let Parts { runtime, log, .. } = self.parts;
        // The event receiver is dropped first, so that a thread that waits to send an event ends.
        drop(runtime);
        drop(log);
    }

    fn now(&self) -> Instant {
        self.parts.runtime.now()
    }

    fn now_seconds(&self) -> u64 {
        self.parts.runtime.now_micros() / 1_000_000
    }

    /// Returns the present time in milliseconds since 1970, the unit of times in messages of the log.
    fn now_millis(&self) -> i64 {
        i64::try_from(self.parts.runtime.now_micros() / 1_000).unwrap_or(i64::MAX)
    }

    fn elapsed(&self, since: Instant) -> Duration {
        self.now().saturating_duration_since(since)
    }

    /// Runs a slice of index work, and then makes readers renew their snapshots. If the slice completes an index, the
    /// next search must use that index.
    fn run_maintenance(&mut self, writer: &mut Writer) {
        self.parts.host.run_maintenance(writer);
        self.parts.host.committed();
    }

    /// Starts an append of a message without a key. Returns its ticket.
    fn append(&mut self, message: &[u8]) -> usize {
        self.tickets += 1;
        self.parts.log.append(self.tickets, b"", message);
        self.tickets
    }

    fn may_end(&self) -> bool {
        let Some(since) = self.is_closing else { return false };
        let is_done = self.waiting.is_empty() && self.sent.is_none() && self.decided.is_empty();
        is_done || self.elapsed(since) > self.parts.patience
    }

    fn next_event(&mut self, patience: Duration) -> Option<NodeEvent> {
        self.ahead.pop_front().or_else(|| self.parts.runtime.next_event(patience))
    }

    /// Handles an event for which it does not matter whether a batch is open. Messages of the log are handled by
    /// [`Node::follow`], or by [`Node::lead`] while a batch is open.
    fn take(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::LogPlace(number, found) => self.found_place(number, found),
            NodeEvent::Log(reading, event)
                if reading == self.reading || !matches!(event, Event::Message(_)) =>
            {
                self.log_event(event);
            }
            other => self.take_request(other),
        }
    }

    /// Handles every event other than those of the log: requests, frames of other nodes, and results of worker threads.
    fn take_request(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Local(requests) => requests.into_iter().for_each(|request| self.take_local(request)),
            NodeEvent::Closed => self.close(),
            NodeEvent::Frame(frame) => self.take_frame(frame),
            NodeEvent::Answers(number, answers) => self.take_answers(number, answers),
            NodeEvent::SlicePlanned(planned) => self.slice_planned(planned),
            NodeEvent::Digested(mark, summed) => self.digested(mark, summed),
            NodeEvent::Keys(given) => self.take_keys(given),
            NodeEvent::SnapshotWritten(result) => self.snapshot_written(result),
            NodeEvent::Trimmed(trimmed) => self.trimmed(trimmed),
            NodeEvent::WriterAddress(epoch, address) => {
                let current = self.member.as_ref().and_then(|member| member.follower().epoch());
                if current.is_some_and(|current| current.offset == epoch) {
                    self.writer_address = address;
                }
            }
            NodeEvent::LogPlace(..) | NodeEvent::Log(..) => {}
        }
    }

    /// Handles an event of the log, other than a message, while no batch is open.
    fn log_event(&mut self, event: Event) {
        match event {
            Event::Lost(reason) => {
                self.stop(&format!("the log cannot be read on from where this node stands: {reason}"));
            }
            other => drop(self.log_outcome(other)),
        }
    }

    /// If `event` reports that the node's own group was appended, returns the group as a message of the log, without
    /// waiting for the reader to deliver it. Returns `None` for other events, and if the node has to read another
    /// message first.
    fn own_group(&self, event: &Event) -> Option<Message> {
        let Event::Appended { ticket, offset } = event else { return None };
        let (own, bytes) = self.group.as_ref()?;
        let next = self.member.as_ref()?.follower().next_offset();
        (own == ticket && *offset == next).then(|| Message {
            offset: *offset,
            key: Vec::new(),
            bytes: bytes.clone(),
            millis: self.now_millis(),
        })
    }

    /// Handles results of the election, of appends and of queries for the log's end. If the event determines the
    /// outcome of an open batch, returns that outcome.
    fn log_outcome(&mut self, event: Event) -> Option<GroupOutcome> {
        match event {
            Event::Elected(is_elected) => {
                self.is_elected = is_elected;
                self.claim = None;
                if let (false, Some(member)) = (is_elected, &mut self.member) {
                    member.resign();
                }
                None
            }
            Event::Ends { requested, ends } => {
                self.take_ends(requested, ends);
                None
            }
            Event::Failed { ticket, error, reason } => {
                if self.claim.is_some_and(|(claim, _)| claim == ticket) {
                    tracing::warn!("claiming to write: {reason}");
                    self.note_failed_change(&reason);
                    self.claim = None;
                    self.claim_after = self.now() + RETRY;
                    return None;
                }
                self.rotation_failed(ticket, error, &reason);
                if self.group.as_ref().is_some_and(|(group, _)| *group == ticket) {
                    tracing::warn!(
                        "appending a group: {reason}{}",
                        match error {
                            AppendError::NotAppended => "",
                            AppendError::Unknown => "; whether the log has it is not known yet",
                        }
                    );
                    return self.member.as_mut().and_then(|member| member.group_failed(error));
                }
                None
            }
            Event::Appended { ticket, offset } => {
                self.check_acknowledged(ticket, offset);
                None
            }
            Event::Message(_) | Event::Lost(_) => None,
        }
    }

    fn note_appended(&mut self, ticket: usize, message: &[u8]) {
        if self.appended.len() == APPENDED_KEPT {
            self.appended.pop_front();
        }
        self.appended.extend(Tag::of_message(message).map(|tag| (ticket, tag)));
    }

    /// Checks the offset that the log reports for a message of this node. If the node has read another message at that
    /// offset, the log has lost messages.
    fn check_acknowledged(&mut self, ticket: usize, offset: u64) {
        let found = self.appended.iter().find(|(own, _)| *own == ticket);
        let (Some((_, tag)), Some(member)) = (found.copied(), &mut self.member) else { return };
        if let Err(alarm) = member.acknowledged(tag, offset) {
            self.raise(&alarm, offset);
        }
    }

    /// Reports an alarm to the administrator, and stops the node if the alarm demands it.
    fn raise(&mut self, alarm: &Alarm, offset: u64) {
        self.parts.figures.lock().alarms += 1;
        tracing::error!(offset, "the cluster's log: {alarm}");
        if alarm.stops() {
            self.stop(&format!("the log, at offset {offset}: {alarm}"));
        }
    }

    /// Records the offsets of the log's beginning and end, or the reason why they are unknown.
    fn take_ends(&mut self, requested: Instant, ends: Result<(u64, u64), String>) {
        let next = self.member.as_ref().map_or(0, |member| member.follower().next_offset());
        let (start, end) = match ends {
            Ok(ends) => ends,
            Err(reason) => {
                let mut figures = self.parts.figures.lock();
                if figures.unreachable.is_none() {
                    tracing::warn!("the cluster's log cannot be reached: {reason}");
                }
                figures.unreachable = Some(reason);
                return;
            }
        };
        // Events arrive in order. Therefore all messages that this node had read at the time of the last answer were in
        // the log before this query.
        let read = std::mem::replace(&mut self.read_at_last_end, next);
        if end < read
            && let Some(member) = &mut self.member
        {
            let alarm = member.went_back(end);
            return self.raise(&alarm, end);
        }
        self.last_end = Some((end, requested));
        let now_millis = u64::try_from(self.now_millis()).unwrap_or(0);
        let mut figures = self.parts.figures.lock();
        (figures.start_offset, figures.end_offset) = (start, end.max(next));
        figures.unreachable = None;
        let messages = figures.end_offset.saturating_sub(figures.start_offset);
        figures.log_bytes = self.growth.bytes_of(messages);
        let needed_from = self.member.as_ref().and_then(|member| member.follower().deletable_before().ok());
        let deletable = needed_from.map_or(0, |before| before.saturating_sub(figures.start_offset));
        figures.deletable_bytes = self.growth.bytes_of(deletable);
        figures.log_bytes_per_day = self.growth.bytes_per_day(now_millis);
        if let Some(member) = &self.member {
            let follower = member.follower();
            figures.members = follower.members().collect();
            figures.deletable = Some(follower.deletable_before().map_err(|reason| reason.to_string()));
        }
    }

    /// Claims to be the writer if this node is elected, is not the writer, has no claim in flight and has not stopped,
    /// the log is open, and the time is not before `claim_after`.
    fn claim_if_due(&mut self) {
        let now = self.now();
        let patience = self.parts.claim_patience + TICK;
        if self.claim.is_some_and(|(_, since)| now - since > patience) {
            self.claim = None;
        }
        let Some(member) = self.member.as_mut().filter(|_| self.parts.log.is_open()) else { return };
        let is_due = self.is_elected
            && self.claim.is_none()
            && now >= self.claim_after
            && self.stopped.is_none()
            && !matches!(member.role(), Role::Leading { .. });
        if !is_due {
            return;
        }
        match member.claim() {
            Ok(claim) => {
                self.tickets += 1;
                self.claim = Some((self.tickets, now));
                self.parts.log.append(self.tickets, self.parts.address.as_bytes(), &claim);
                self.note_appended(self.tickets, &claim);
            }
            Err(error) => {
                tracing::warn!(%error, "this node cannot claim to write");
                self.claim_after = now + RETRY;
            }
        }
    }

    /// Fetches the last message that this node has committed, to check that the log still has it.
    fn find_place(&mut self, delay: Duration) {
        let rows = match self.parts.directory.log_rows() {
            Ok(rows) => rows,
            Err(error) => {
                return self.stop(&format!("what this node knows of the log cannot be read: {error}"));
            }
        };
        let keys = match self.parts.identity.keys() {
            Ok(keys) => keys,
            Err(error) => return self.stop(&error.to_string()),
        };
        let follower = match Follower::load(keys, rows) {
            Ok(follower) => follower,
            Err(error) => return self.stop(&error.to_string()),
        };
        let cursor = follower.cursor().offset;
        self.member = None;
        self.set_role(Activity::Connecting, "connecting");
        self.finds += 1;
        self.finding = Some((self.finds, follower));
        if let Err(error) = self.parts.log.find(self.finds, cursor, delay) {
            self.stop(&error.to_string());
        }
    }

    fn found_place(&mut self, number: u64, found: Result<LogPlace, String>) {
        if self.finding.as_ref().is_none_or(|(current, _)| *current != number) {
            // The result belongs to an earlier search.
            return;
        }
        let place = match found {
            Ok(place) => place,
            Err(reason) => {
                let mut figures = self.parts.figures.lock();
                if figures.unreachable.is_none() {
                    tracing::warn!(
                        "the cluster's log cannot be reached: {reason}; changes are refused meanwhile"
                    );
                }
                figures.unreachable = Some(reason);
                return;
            }
        };
        let Some((_, follower)) = self.finding.take() else { return };
        self.parts.former_members.set(&follower);
        // Kafka does not report the id of a topic to clients, so the stored id is passed in its place. The generation
        // and the message show whether the topic is the right one.
        let topic = follower.cursor().topic;
        let bytes = place.message.as_ref().map(|message| &*message.bytes);
        if let Err(reseed) = follower.check_start(topic, place.start, place.end, bytes) {
            let advice = "copy the data of another node: `pando cluster join`";
            return self.stop(&format!("this node cannot continue where it stopped: {reseed}; {advice}"));
        }
        if follower.has_left(self.ids.node) {
            return self.stop(announcements::UNREGISTERED);
        }
        if let Some(message) = &place.message {
            self.growth.read(message);
        }
        self.parts.figures.lock().unreachable = None;
        if let Some(epoch) = follower.epoch() {
            self.request_address(epoch.offset);
        }
        self.see_keys(&follower);
        if self.has_started_over {
            // Claims of the earlier incarnation may still reach the log, so the node needs a new incarnation.
            match self.parts.identity.next_incarnation(self.parts.runtime.now_micros()) {
                Ok(incarnation) => self.ids.incarnation = incarnation,
                Err(error) => {
                    tracing::error!(%error, "this node cannot go on; it is tried again");
                    return self.find_place(START_OVER);
                }
            }
        }
        let next = follower.next_offset();
        let member = Member::new(follower, self.ids.node, self.ids.incarnation);
        self.member = Some(member);
        {
            let mut figures = self.parts.figures.lock();
            (figures.start_offset, figures.end_offset) = (place.start, place.end);
        }
        self.announced = AnnouncedCommits::default();
        if let Err(error) = self.open_log(next) {
            self.stop(&error.to_string());
        }
    }

    fn open_log(&mut self, next: u64) -> Result<(), kafka_log::LogError> {
        self.reading += 1;
        self.parts.log.open(self.reading, next)
    }

    /// Fetches the writer's claim, because the claim contains the address of the writer.
    fn request_address(&mut self, epoch: u64) {
        if let Err(error) = self.parts.log.find_address(epoch) {
            tracing::warn!(%error, "the address of the writer is not looked up");
        }
    }

    /// Starts over from the last commit of this node. Called if a message of the log could not be committed, or the
    /// disk is full.
    fn start_over(&mut self, error: &OperationError) {
        self.claim_after = self.now() + RETRY;
        // Messages of the present reader are no longer valid. The node also leaves the election, because a node that
        // cannot commit should not be the writer.
        self.close_log();
        let delay = if self.has_started_over { START_OVER } else { RETRY };
        self.has_started_over = true;
        if let OperationError::Store(StoreError::DiskFull { .. }) = error {
            self.member = None;
            self.waits_for_room = Some(delay);
            self.set_role(Activity::Waiting, "waiting for room on its disk");
        } else {
            self.find_place(delay);
        }
    }

    fn go_on_with_room(&mut self, writer: &mut Writer) {
        let Some(delay) = self.waits_for_room.filter(|_| self.stopped.is_none()) else { return };
        if writer.begin().is_ok_and(|batch| batch.disk_full().is_none()) {
            tracing::info!("there is room on the disk: this node goes on");
            self.waits_for_room = None;
            self.find_place(delay);
        }
    }

    /// Stops applying the log for good. The node still answers reads.
    fn stop(&mut self, cause: &str) {
        if self.stopped.is_none() {
            tracing::error!("this node follows its cluster no longer: {cause}");
            self.stopped = Some(cause.to_owned());
            // Leaves the election, so that another node becomes the writer.
            self.close_log();
            self.set_role(Activity::Stopped, &format!("stopped: {cause}"));
        }
    }

    /// Records that a message of the reader was handled, so that the reader may read more.
    fn release(&mut self, message: &Message) {
        self.parts.log.release(message.bytes.len());
    }

    /// Closes the log and leaves the election.
    fn close_log(&mut self) {
        self.reading += 1;
        self.parts.log.close();
        (self.read_at_last_end, self.last_end) = (0, None);
        (self.is_elected, self.claim, self.group) = (false, None, None);
    }

    fn set_role(&self, activity: Activity, role: &str) {
        let mut figures = self.parts.figures.lock();
        figures.node = self.ids.node.0;
        figures.activity = activity;
        figures.role = role.to_owned();
    }

    fn update_figures(&mut self) {
        let now_millis = self.now_millis();
        let mut figures = self.parts.figures.lock();
        figures.node = self.ids.node.0;
        figures.waiting = self.waiting.len() as u64;
        if figures.disputed.as_ref() != self.digests.dispute() {
            figures.disputed = self.digests.dispute().cloned();
        }
        let Some(member) = &self.member else { return };
        let follower = member.follower();
        if self.stopped.is_none() {
            let (activity, role) = match member.role() {
                Role::Following => (Activity::Following, "following"),
                Role::Claiming { .. } => (Activity::Claiming, "claiming"),
                Role::Leading { .. } => (Activity::Writing, "writing"),
                Role::Doubtful { .. } => (Activity::Doubtful, "in doubt"),
            };
            (figures.activity, figures.role) = (activity, role.to_owned());
        }
        if let Some(number) = self.keys.needed.filter(|_| self.stopped.is_none()) {
            figures.activity = Activity::Waiting;
            figures.role = format!("waiting for key {number} of the cluster");
        }
        figures.key = follower.cursor().key;
        figures.key_offered = follower.offered().map(|offered| offered.fingerprint.number());
        figures.seals = self.parts.seals && follower.level() >= KEYS_LEVEL;
        figures.generation = follower.cursor().generation;
        figures.level = follower.level();
        if figures.round != *follower.round() {
            figures.round = follower.round().clone();
        }
        figures.next_offset = follower.next_offset();
        figures.end_offset = figures.end_offset.max(follower.next_offset());
        if let Some(epoch) = follower.epoch() {
            figures.writer = Some(epoch.node);
            figures.epoch = epoch.offset;
        }
        if let Some((end, requested)) = self.last_end
            && follower.next_offset() >= end
        {
            self.parts.host.is_complete_as_of(requested);
        }
        let is_behind = figures.end_offset > figures.next_offset;
        let lag = if is_behind && self.last_millis > 0 {
            (now_millis - self.last_millis).max(0) / 1_000
        } else {
            0
        };
        figures.lag_seconds = u64::try_from(lag).unwrap_or(0);
    }
}
