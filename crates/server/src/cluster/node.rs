//! The node's thread: it owns the directory's writer, follows the log, and decides while this node writes.
//!
//! Everything reaches it as an event of one channel. What it promises:
//!
//! - Nothing is committed here that the log has not accepted, and nothing is answered before it is committed here.
//! - A batch is held open from its decision until the node reads its group back, or anything that makes that
//!   impossible. Then it is committed, or dropped and its changes are decided anew, by whoever writes.
//! - A change keeps its id on all its ways, so it is made once however often it is sent.

mod digests;
mod errands;
mod follow;
mod keys;
mod lead;
mod news;
mod requests;
pub(super) mod snapshots;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use directory::{Directory, OperationError, Writer};
use kafka_log::{Appender, Election, Event, Message, Reader, Settings, Sink};
use replication::forward::Gate;
use replication::limits::KEYS_LEVEL;
use replication::{Alarm, AppendError, Follower, Held, Member, Role, RowChange, Tag};
use rustls::ClientConfig;
use store::StoreError;

use super::budget::Budget;
use super::figures::{Activity, Figures};
use super::gone::Gone;
use super::growth::Growth;
use super::identity::Identity;
use super::operation::{Ids, Operation};
use super::transport::Forwarder;
use super::{LogPlace, NodeEvent};
use crate::limits::{CLUSTER_CHANGE_PATIENCE, CLUSTER_RETRY, CLUSTER_START_OVER};
use crate::stamp::{Random, now_micros};
use crate::workers::index_upkeep::Upkeep;
use crate::workers::read_age::ReadAge;
use crate::workers::writer::WriteQueue;
use digests::Digests;
use errands::Errands;
use keys::Keys;
use news::Told;
use requests::{RemoteFrame, Sent, Shown};
use snapshots::{Schedule, Snapshots};

/// How often time itself is looked at: changes that have waited too long, claims that are due.
const TICK: Duration = Duration::from_millis(100);

/// How many of the messages that were appended last are known.
const APPENDED_KEPT: usize = 16;

/// What the node's thread begins with.
pub(super) struct Parts {
    pub(super) settings: Settings,
    /// How long a change waits.
    pub(super) patience: Duration,
    pub(super) identity: Identity,
    /// Where other nodes reach this one.
    pub(super) address: String,
    pub(super) group_bytes_max: usize,
    pub(super) directory: Arc<Directory>,
    pub(super) queue: Arc<WriteQueue>,
    pub(super) figures: Arc<Figures>,
    pub(super) events: Receiver<NodeEvent>,
    pub(super) sender: Sender<NodeEvent>,
    pub(super) forwarder: Forwarder,
    /// How this node goes to others.
    pub(super) client: Arc<ClientConfig>,
    /// Whether the groups that it writes are sealed.
    pub(super) seals: bool,
    pub(super) gone: Arc<Gone>,
    /// Where and how often this node keeps snapshots by itself.
    pub(super) snapshots: Option<Schedule>,
    /// Bounds how old what this node shows may be.
    pub(super) read_age: Option<Arc<ReadAge>>,
    /// How often nodes are compared, and what that costs at a time, in bytes of rows.
    pub(super) digest_interval: Option<Duration>,
    pub(super) digest_bytes_max: u64,
}

/// The node's thread.
pub(super) struct Node {
    parts: Parts,
    /// `None` until the place in the log is verified.
    member: Option<Member>,
    /// Why the node takes no more of the log, for good.
    stopped: Option<String>,
    clients: Option<Clients>,
    errands: Errands,
    /// Which reader's messages count.
    reading: u64,
    budget: Arc<Budget>,
    /// Events that were taken from the channel too early.
    ahead: VecDeque<NodeEvent>,
    is_elected: bool,
    /// The claim on its way: its ticket, and since when.
    claim: Option<(usize, Instant)>,
    claim_after: Instant,
    tickets: usize,
    /// The group on its way: its ticket, and its bytes.
    group: Option<(usize, Vec<u8>)>,
    /// The tags of what was appended last, by ticket.
    appended: VecDeque<(usize, Tag)>,
    /// Up to where the log was read when its end was last asked for.
    read_at_last_end: u64,
    /// Where the log ended when that was asked for last, and when that was.
    end_heard: Option<(u64, Instant)>,
    /// Where the writer is reached, as its claim said.
    writer_address: Option<String>,
    ids: Ids,
    waiting: VecDeque<Operation>,
    sent: Option<Sent>,
    send_after: Instant,
    frames: HashMap<u64, RemoteFrame>,
    gate: Gate,
    /// Numbers frames of both directions.
    numbers: u64,
    shown: Vec<Shown>,
    /// No client of this node brings more.
    is_closing: Option<Instant>,
    random: Random,
    upkeep: Upkeep,
    /// When the last message was appended that was read, and when the end of the log was last reached.
    last_millis: i64,
    holes: u32,
    /// Since the last commit.
    has_started_over: bool,
    /// The disk is full: the node takes part again when there is room, after this delay.
    waits_for_room: Option<Duration>,
    growth: Growth,
    told: Told,
    digests: Digests,
    keys: Keys,
    snapshots: Snapshots,
    /// Rows of messages that were read while a batch is held: they go into the commit that follows.
    kept: Vec<RowChange>,
}

/// What a node has open of Kafka.
struct Clients {
    reader: Reader,
    appender: Appender,
    _election: Election,
}

impl Node {
    pub(super) fn new(parts: Parts, incarnation: u64) -> Node {
        let now = Instant::now();
        let ids = Ids { node: parts.identity.node(), incarnation, sequence: 0 };
        Node {
            parts,
            member: None,
            stopped: None,
            clients: None,
            errands: Errands::default(),
            reading: 0,
            budget: Arc::default(),
            ahead: VecDeque::new(),
            is_elected: false,
            claim: None,
            claim_after: now,
            tickets: 0,
            group: None,
            appended: VecDeque::new(),
            read_at_last_end: 0,
            end_heard: None,
            writer_address: None,
            ids,
            waiting: VecDeque::new(),
            sent: None,
            send_after: now,
            frames: HashMap::new(),
            gate: Gate::default(),
            numbers: 0,
            shown: Vec::new(),
            is_closing: None,
            random: Random::default(),
            upkeep: Upkeep::default(),
            last_millis: 0,
            holes: 0,
            has_started_over: false,
            waits_for_room: None,
            growth: Growth::default(),
            told: Told::default(),
            digests: Digests::default(),
            keys: Keys::default(),
            snapshots: Snapshots::default(),
            kept: Vec::new(),
        }
    }

    /// Runs until the queue of changes is closed and empty. `end` ends the server, for a cause.
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
                if self.upkeep.is_due(&writer) {
                    self.upkeep.run(&mut writer);
                    self.parts.queue.committed();
                }
                continue;
            }
            self.claim_if_due();
            self.tell_if_due();
            self.mark_if_due();
            self.keys_if_due();
            self.snapshot_if_due();
            self.compare_late();
            self.forward_if_due();
            self.say();
            let patience = self.upkeep.patience(&writer).map_or(TICK, |patience| patience.min(TICK));
            match self.next_event(patience) {
                Some(NodeEvent::Log(reading, Event::Message(message))) if reading == self.reading => {
                    self.follow(&mut writer, message);
                }
                Some(event) => self.take(event),
                None if writer.maintenance_pending() => {
                    self.upkeep.run(&mut writer);
                    self.parts.queue.committed();
                }
                None => {}
            }
        }
        self.say_role(Activity::Stopped, "stopped");
        // The channel first: a client of Kafka that waits for room in it would never end.
        self.budget.close();
        let Node { parts, clients, errands, .. } = self;
        drop(parts.events);
        drop(clients);
        drop(errands);
    }

    fn may_end(&self) -> bool {
        let Some(since) = self.is_closing else { return false };
        let is_done = self.waiting.is_empty() && self.sent.is_none() && self.shown.is_empty();
        is_done || since.elapsed() > self.parts.patience
    }

    fn next_event(&mut self, patience: Duration) -> Option<NodeEvent> {
        if let Some(event) = self.ahead.pop_front() {
            return Some(event);
        }
        // This thread holds a sender itself, so there is no other error than that the time is over.
        self.parts.events.recv_timeout(patience).ok()
    }

    /// Whatever does not depend on a batch being held. Messages of the log come by [`Node::follow`], or by
    /// [`Node::lead`] while a batch is held.
    fn take(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::LogPlace(found) => self.placed(found),
            NodeEvent::Log(reading, event)
                if reading == self.reading || !matches!(event, Event::Message(_)) =>
            {
                self.log_event(event);
            }
            other => self.take_request(other),
        }
    }

    /// What has to do with clients and other nodes.
    fn take_request(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Local(requests) => requests.into_iter().for_each(|request| self.take_local(request)),
            NodeEvent::Closed => self.close(),
            NodeEvent::Frame(frame) => self.take_frame(frame),
            NodeEvent::Answers(number, answers) => self.take_answers(number, answers),
            NodeEvent::SlicePlanned(planned) => self.slice_planned(planned),
            NodeEvent::Digested(mark, summed) => self.digested(mark, summed),
            NodeEvent::Keys(given) => self.take_keys(given),
            NodeEvent::SnapshotMade(made) => self.snapshot_made(made),
            NodeEvent::Trimmed(trimmed) => self.trimmed(trimmed),
            NodeEvent::WriterAddress(epoch, address) => {
                let current = self.member.as_ref().and_then(|member| member.follower().epoch());
                if current.is_some_and(|current| current.offset == epoch) {
                    self.writer_address = address;
                }
            }
            NodeEvent::LogPlace(_) | NodeEvent::Log(..) => {}
        }
    }

    /// What the log said, apart from messages, while no batch is held.
    fn log_event(&mut self, event: Event) {
        match event {
            Event::Lost(reason) => {
                self.stop(&format!("the log cannot be read on from where this node stands: {reason}"));
            }
            other => drop(self.log_news(other)),
        }
    }

    /// The node's own group as a message of the log, where that can be told before the reader brings it: nothing lies
    /// between.
    fn own_group(&self, event: &Event) -> Option<Message> {
        let Event::Appended { ticket, offset } = event else { return None };
        let (own, bytes) = self.group.as_ref()?;
        let next = self.member.as_ref()?.follower().next_offset();
        (own == ticket && *offset == next).then(|| Message {
            offset: *offset,
            key: Vec::new(),
            bytes: bytes.clone(),
            millis: i64::try_from(now_micros() / 1_000).unwrap_or(i64::MAX),
        })
    }

    /// News of the election, of appends and of the log's end. The fate of a held batch, if that is known by it.
    fn log_news(&mut self, event: Event) -> Option<Held> {
        match event {
            Event::Elected(is_elected) => {
                self.is_elected = is_elected;
                self.claim = None;
                if let (false, Some(member)) = (is_elected, &mut self.member) {
                    member.resign();
                }
                None
            }
            Event::Ends { asked, ends } => {
                self.take_ends(asked, ends);
                None
            }
            Event::Failed { ticket, error, reason } => {
                if self.claim.is_some_and(|(claim, _)| claim == ticket) {
                    tracing::warn!("claiming to write: {reason}");
                    self.claim = None;
                    self.claim_after = Instant::now() + CLUSTER_RETRY;
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

    /// The log says where a message of this node stands: it must not be where another one was read.
    fn check_acknowledged(&mut self, ticket: usize, offset: u64) {
        let found = self.appended.iter().find(|(own, _)| *own == ticket);
        let (Some((_, tag)), Some(member)) = (found.copied(), &mut self.member) else { return };
        if let Err(alarm) = member.acknowledged(tag, offset) {
            self.raise(&alarm, offset);
        }
    }

    /// Something in the log is a matter for an operator. Where it cannot be gone past, the node stops.
    fn raise(&mut self, alarm: &Alarm, offset: u64) {
        self.parts.figures.lock().alarms += 1;
        tracing::error!(offset, "the cluster's log: {alarm}");
        if alarm.stops() {
            self.stop(&format!("the log, at offset {offset}: {alarm}"));
        }
    }

    /// The log begins and ends there, or nobody can say.
    fn take_ends(&mut self, asked: Instant, ends: Result<(u64, u64), String>) {
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
        // Events come in their order, so what was read by the last answer was there before this one was asked for.
        let read = std::mem::replace(&mut self.read_at_last_end, next);
        if end < read
            && let Some(member) = &mut self.member
        {
            let alarm = member.went_back(end);
            return self.raise(&alarm, end);
        }
        self.end_heard = Some((end, asked));
        let mut figures = self.parts.figures.lock();
        (figures.start_offset, figures.end_offset) = (start, end.max(next));
        figures.unreachable = None;
        let messages = figures.end_offset.saturating_sub(figures.start_offset);
        figures.log_bytes = self.growth.bytes_of(messages);
        let kept = self.member.as_ref().and_then(|member| member.follower().deletable_before().ok());
        let deletable = kept.map_or(0, |before| before.saturating_sub(figures.start_offset));
        figures.deletable_bytes = self.growth.bytes_of(deletable);
        figures.log_bytes_per_day = self.growth.bytes_per_day(now_micros() / 1_000);
        if let Some(member) = &self.member {
            let follower = member.follower();
            figures.members = follower.members().collect();
            figures.deletable = Some(follower.deletable_before().map_err(|kept| kept.to_string()));
        }
    }

    /// Claims to write, where this node is elected and neither writes nor claims.
    fn claim_if_due(&mut self) {
        let now = Instant::now();
        let patience = Duration::from_millis(self.parts.settings.append_timeout_ms.into()) + TICK;
        if self.claim.is_some_and(|(_, since)| now - since > patience) {
            self.claim = None;
        }
        let (Some(member), Some(clients)) = (&mut self.member, &self.clients) else { return };
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
                clients.appender.append(self.tickets, self.parts.address.as_bytes(), &claim);
                self.note_appended(self.tickets, &claim);
            }
            Err(error) => {
                tracing::warn!(%error, "this node cannot claim to write");
                self.claim_after = now + CLUSTER_RETRY;
            }
        }
    }

    /// Has a thread look whether this node's last message is where it was.
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
        let (settings, sender) = (self.parts.settings.clone(), self.parts.sender.clone());
        let cursor = follower.cursor().offset;
        self.member = None;
        self.say_role(Activity::Connecting, "connecting");
        let look = move |is_ending: &AtomicBool| {
            std::thread::park_timeout(delay);
            while !is_ending.load(Ordering::Relaxed) {
                let found = kafka_log::fetch_unless(&settings, cursor, CLUSTER_CHANGE_PATIENCE, is_ending);
                let is_found = found.is_ok();
                let follower = Box::new(follower.clone());
                let found = found.map(|(message, start, end)| LogPlace { follower, message, start, end });
                if sender.send(NodeEvent::LogPlace(found.map_err(|error| error.to_string()))).is_err()
                    || is_found
                {
                    return;
                }
                std::thread::park_timeout(CLUSTER_RETRY);
            }
        };
        if let Err(error) = self.errands.run("pando-place", look) {
            self.stop(&error.to_string());
        }
    }

    fn placed(&mut self, found: Result<LogPlace, String>) {
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
        let follower = *place.follower;
        self.parts.gone.set(&follower);
        // Kafka does not tell clients which topic is which; the generation stands for it, and the message itself.
        let topic = follower.cursor().topic;
        let bytes = place.message.as_ref().map(|message| &*message.bytes);
        if let Err(reseed) = follower.check_start(topic, place.start, place.end, bytes) {
            let advice = "copy the data of another node: `pando cluster join`";
            return self.stop(&format!("this node cannot go on where it was: {reseed}; {advice}"));
        }
        if follower.is_gone(self.ids.node) {
            return self.stop(news::GONE);
        }
        if let Some(message) = &place.message {
            self.growth.read(message);
        }
        self.parts.figures.lock().unreachable = None;
        if let Some(epoch) = follower.epoch() {
            self.ask_address(epoch.offset);
        }
        self.see_keys(&follower);
        if self.has_started_over {
            // Claims of the incarnation of before count as made.
            match self.parts.identity.next_incarnation() {
                Ok(incarnation) => self.ids.incarnation = incarnation,
                Err(error) => {
                    tracing::error!(%error, "this node cannot go on; it is tried again");
                    return self.find_place(CLUSTER_START_OVER);
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
        self.told = Told::default();
        if let Err(error) = self.open_clients(next) {
            self.stop(&error.to_string());
        }
    }

    fn open_clients(&mut self, next: u64) -> Result<(), kafka_log::LogError> {
        self.reading += 1;
        self.budget.close();
        self.budget = Arc::default();
        let (reading, sender, budget) = (self.reading, self.parts.sender.clone(), Arc::clone(&self.budget));
        let sink: Sink = Arc::new(move |event| {
            if let Event::Message(message) = &event
                && !budget.take(message.bytes.len())
            {
                return;
            }
            let _ = sender.send(NodeEvent::Log(reading, event));
        });
        let settings = &self.parts.settings;
        let reader = Reader::start(settings, next, Arc::clone(&sink))?;
        match &mut self.clients {
            Some(clients) => clients.reader = reader,
            None => {
                let appender = Appender::start(settings, Arc::clone(&sink))?;
                let election = Election::start(settings, sink)?;
                self.clients = Some(Clients { reader, appender, _election: election });
            }
        }
        Ok(())
    }

    /// Asks the log where the writer is reached: its claim has it.
    fn ask_address(&mut self, epoch: u64) {
        let (settings, sender) = (self.parts.settings.clone(), self.parts.sender.clone());
        let ask = move |is_ending: &AtomicBool| {
            let found = kafka_log::fetch_unless(&settings, epoch, CLUSTER_CHANGE_PATIENCE, is_ending);
            let message = found.ok().and_then(|(message, ..)| message);
            let address = message.and_then(|message| String::from_utf8(message.key).ok());
            let _ = sender.send(NodeEvent::WriterAddress(epoch, address));
        };
        if let Err(error) = self.errands.run("pando-address", ask) {
            tracing::warn!(%error, "the address of the writer is not looked up");
        }
    }

    /// Begins again from what is committed here: something could not be committed that the log has, or there is no
    /// room for anything to come.
    fn start_over(&mut self, error: &OperationError) {
        self.claim_after = Instant::now() + CLUSTER_RETRY;
        // What the present reader still brings does not count any longer. A node that cannot commit should not write.
        self.close_clients();
        let delay = if self.has_started_over { CLUSTER_START_OVER } else { CLUSTER_RETRY };
        self.has_started_over = true;
        if let OperationError::Store(StoreError::DiskFull { .. }) = error {
            self.member = None;
            self.waits_for_room = Some(delay);
            self.say_role(Activity::Waiting, "waiting for room on its disk");
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

    /// Takes no more of the log, for good. Reading goes on.
    fn stop(&mut self, cause: &str) {
        if self.stopped.is_none() {
            tracing::error!("this node follows its cluster no longer: {cause}");
            self.stopped = Some(cause.to_owned());
            // Somebody else is to be elected.
            self.close_clients();
            self.say_role(Activity::Stopped, &format!("stopped: {cause}"));
        }
    }

    /// A message that the reader brought is through.
    fn release(&self, message: &Message) {
        self.budget.release(message.bytes.len());
    }

    /// Leaves the log, and the election with it.
    fn close_clients(&mut self) {
        self.reading += 1;
        self.budget.close();
        self.clients = None;
        (self.read_at_last_end, self.end_heard) = (0, None);
        (self.is_elected, self.claim, self.group) = (false, None, None);
    }

    fn say_role(&self, activity: Activity, role: &str) {
        let mut figures = self.parts.figures.lock();
        figures.node = self.ids.node.0;
        figures.activity = activity;
        figures.role = role.to_owned();
    }

    fn say(&mut self) {
        let mut figures = self.parts.figures.lock();
        figures.node = self.ids.node.0;
        figures.waiting = self.waiting.len() as u64;
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
        if let (Some(age), Some((end, asked))) = (&self.parts.read_age, self.end_heard)
            && follower.next_offset() >= end
        {
            age.is_complete_as_of(asked);
        }
        let is_behind = figures.end_offset > figures.next_offset;
        let now = i64::try_from(now_micros() / 1_000).unwrap_or(i64::MAX);
        let lag = if is_behind && self.last_millis > 0 { (now - self.last_millis).max(0) / 1_000 } else { 0 };
        figures.lag_seconds = u64::try_from(lag).unwrap_or(0);
    }
}
