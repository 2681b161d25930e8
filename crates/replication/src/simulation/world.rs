//! The network between nodes, log and clients, and the faults of a run.

mod marks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::client::{Client, Response};
use super::directory::ClientAction;
use super::node::{Counted, Disk, Node, Process, Sent};
use super::{Defect, Violation, check};
use crate::follower::Follower;
use crate::forward::Link;
use crate::key::{ClusterKey, KeyRing};
use crate::limits::SLICES_LEVEL;
use crate::message::{self, Announcement, Generation, GenerationId};
use crate::operation::{NodeId, OperationId};
use crate::rows::RowChange;
use crate::shared_log::{AppendError, LogEvent};

pub(super) const TOPIC: [u8; 16] = [3; 16];
pub(super) const GENERATION: GenerationId = [4; 16];

/// Length of the phase with faults. All times are in microseconds.
const FAULTS_END: u64 = 2_500_000;
const QUIET: u64 = 6_000_000;
const APPEND_TIMEOUT: u64 = 40_000;
const CLIENT_TIMEOUT: u64 = 300_000;
const TICK: u64 = 10_000;
const EVENTS_MAX: u64 = 200_000;
const REQUESTS_MAX: u32 = 60;

/// The simulated world: a cluster, its log, its network, its clients, and the clock.
pub(super) struct World {
    rng: fastrand::Rng,
    now: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    /// Keys with which the cluster begins.
    pub(super) keys: KeyRing,
    /// Rows with which every node begins.
    pub(super) first_rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether groups are sealed.
    seals: bool,
    pub(super) log: Vec<Vec<u8>>,
    /// Fetches that wait for messages.
    waiting: Vec<(usize, u64, u64, usize)>,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    /// Time until which a node can reach neither the log nor other nodes.
    cut_until: Vec<u64>,
    incarnation: u64,
    /// Whether faults occur at present.
    has_faults: bool,
    /// Probabilities of faults in this run, in 256ths.
    odds: FaultProbabilities,
    pub(super) defect: Option<Defect>,
    /// Time at which the log loses its last messages, once, as if it had elected a leader that lacked them.
    loses_at: Option<u64>,
    figures: Figures,
}

/// Probabilities of faults. Each run chooses its own probabilities at random. Therefore some runs have many faults of
/// one kind and none of another kind.
struct FaultProbabilities {
    lost: u8,
    repeated: u8,
    late: u8,
    skipped: u8,
    slow_disk: u8,
}

/// Counters over runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) runs: u64,
    facts: u64,
    records: u64,
    epochs: u64,
    crashes: u64,
    disks_lost: u64,
    pauses: u64,
    cuts: u64,
    unknown: u64,
    counted: Counted,
}

impl Figures {
    pub(super) fn add(&mut self, other: &Figures) {
        *self = Figures {
            runs: self.runs + other.runs,
            facts: self.facts + other.facts,
            records: self.records + other.records,
            epochs: self.epochs + other.epochs,
            crashes: self.crashes + other.crashes,
            disks_lost: self.disks_lost + other.disks_lost,
            pauses: self.pauses + other.pauses,
            cuts: self.cuts + other.cuts,
            unknown: self.unknown + other.unknown,
            counted: self.counted.with(&other.counted),
        };
    }

    /// Returns the number of acknowledgements by which nodes detected that the log had lost messages.
    pub(super) fn went_back(&self) -> u64 {
        self.counted.went_back
    }

    pub(super) fn all(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("facts", self.facts),
            ("records", self.records),
            ("epochs", self.epochs),
            ("crashes", self.crashes),
            ("disks lost", self.disks_lost),
            ("pauses", self.pauses),
            ("cuts", self.cuts),
            ("unknown", self.unknown),
        ];
        own.into_iter().chain(self.counted.all()).collect()
    }
}

#[derive(Debug)]
enum Event {
    Tick {
        node: usize,
    },
    /// A message reaches the log.
    Append {
        node: usize,
        incarnation: u64,
        ticket: u64,
        message: Vec<u8>,
    },
    /// The result of an append reaches its node.
    AppendOutcome {
        node: usize,
        incarnation: u64,
        event: LogEvent,
    },
    Fetch {
        node: usize,
        incarnation: u64,
        fetch: u64,
        from: usize,
    },
    Fetched {
        node: usize,
        incarnation: u64,
        fetch: u64,
        messages: Vec<(u64, Vec<u8>)>,
    },
    Requests {
        from: usize,
        to: usize,
        link: Link,
        frame: Vec<u8>,
    },
    Answers {
        to: usize,
        link: Link,
        frame: Vec<u8>,
    },
    KeyRequest {
        from: usize,
        to: usize,
        number: u32,
    },
    KeyResponse {
        to: usize,
        keys: KeyRing,
    },
    Request {
        node: usize,
        request: ClientAction,
        token: u64,
        operation: Option<OperationId>,
    },
    Response {
        client: usize,
        number: u32,
        response: Response,
    },
    ClientWaits {
        client: usize,
        number: u32,
        attempt: u32,
    },
    ClientTurn {
        client: usize,
    },
    Elect,
    Elected {
        node: usize,
        is_elected: bool,
    },
    Restart {
        node: usize,
    },
    /// A node sets a barrier for a slice. This event occurs only while there are no faults.
    Mark,
    Fault,
}

struct Scheduled {
    at: u64,
    order: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl World {
    pub(super) fn new(seed: u64, defect: Option<Defect>) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys = KeyRing::new(1, ClusterKey::new(&[9; 32]));
        let generation = Generation { follows: [0; 16], position: 0 };
        let (first, tag) = message::encode_generation(&keys, 1, &GENERATION, &generation);
        let (_, rows) = Follower::seed((keys.clone(), 1), TOPIC, GENERATION, &generation, 0, tag);
        let mut disk = Disk::default();
        disk.put_rows(rows);
        disk.put_rows(vec![RowChange::level(SLICES_LEVEL)]);
        let node_count = rng.usize(2..=4);
        let nodes = (0..node_count)
            .map(|id| Node {
                id: id as u32,
                disk: disk.clone(),
                keys: keys.clone(),
                process: None,
                paused_until: 0,
            })
            .collect();
        let mut draw = |max: u8| if rng.bool() { rng.u8(..max) } else { 0 };
        let odds = FaultProbabilities {
            lost: draw(40),
            repeated: draw(60),
            late: draw(40),
            skipped: draw(30),
            slow_disk: draw(100),
        };
        let mut world = World {
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            keys,
            first_rows: disk.rows,
            seals: rng.bool(),
            log: vec![first],
            waiting: Vec::new(),
            nodes,
            clients: (0..rng.u32(3..=8)).map(Client::new).collect(),
            cut_until: vec![0; node_count],
            incarnation: 0,
            has_faults: true,
            odds,
            defect,
            loses_at: None,
            figures: Figures { runs: 1, ..Figures::default() },
            rng,
        };
        for node in 0..node_count {
            world.restart(node);
            world.schedule(TICK, Event::Tick { node });
        }
        for client in 0..world.clients.len() {
            world.schedule(client as u64 * 1_000, Event::ClientTurn { client });
        }
        world.schedule(1_000, Event::Elect);
        world.schedule(50_000, Event::Fault);
        world
    }

    /// Returns a world in which the log loses messages.
    pub(super) fn losing(seed: u64) -> World {
        let mut world = World::new(seed, None);
        world.loses_at = Some(world.rng.u64(FAULTS_END / 10..FAULTS_END));
        for process in world.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            process.may_stop = true;
        }
        world
    }

    /// Runs the phase with faults, then the quiet phase, then the check.
    pub(super) fn run(mut self) -> Result<Figures, Violation> {
        while self.step()? {}
        for node in &self.nodes {
            if let Some(process) = &node.process {
                self.figures.counted = self.figures.counted.with(&process.counted);
            }
        }
        if self.loses_at.is_some() {
            check::check_equal_or_stopped(&self)?;
            return Ok(self.figures);
        }
        let checked = check::check(&self)?;
        self.figures.records = checked.records;
        self.figures.epochs = checked.epochs;
        self.figures.facts = self.clients.iter().map(|client| client.facts.len() as u64).sum();
        self.figures.unknown = self.clients.iter().map(|client| client.unknown).sum();
        Ok(self.figures)
    }

    /// Handles the next event. Returns false if no event is left, or at the end of the simulated time.
    fn step(&mut self) -> Result<bool, Violation> {
        let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() else { return Ok(false) };
        self.now = at;
        if self.order > EVENTS_MAX {
            return Err(Violation(format!("it does not come to rest: {EVENTS_MAX} events")));
        }
        if self.loses_at.is_some_and(|loses_at| at > loses_at) {
            self.loses_at = Some(u64::MAX);
            let kept = self.log.len().saturating_sub(self.rng.usize(1..5)).max(1);
            self.log.truncate(kept);
        }
        if self.has_faults && at > FAULTS_END {
            self.end_faults();
        }
        if at > QUIET {
            return Ok(false);
        }
        self.handle(event).map(|()| true)
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Scheduled { at: self.now + after, order: self.order, event }));
    }

    fn chance(&mut self, odds: u8) -> bool {
        self.has_faults && self.rng.u8(..) < odds
    }

    /// Sends a message to or from the log. The event may arrive late, twice, or not at all.
    fn send(&mut self, is_cut: bool, event: impl Fn() -> Event) {
        if self.chance(self.odds.repeated) {
            self.send_once(is_cut, event());
        }
        self.send_once(is_cut, event());
    }

    /// Sends a message on a connection. The event may arrive late, after later events, or not at all, but not twice.
    fn send_once(&mut self, is_cut: bool, event: Event) {
        if is_cut || self.chance(self.odds.lost) {
            return;
        }
        let delay = match self.chance(self.odds.late) {
            true => self.rng.u64(1_000..400_000),
            false => self.rng.u64(100..3_000),
        };
        self.schedule(delay, event);
    }

    fn is_cut(&self, node: usize) -> bool {
        self.cut_until[node] > self.now
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        // Events of a paused node are delivered when the node continues.
        if let Some(node) = event.node()
            && self.nodes[node].paused_until > self.now
        {
            let after = self.nodes[node].paused_until - self.now;
            self.schedule(after, event);
            return Ok(());
        }
        match event {
            Event::Tick { node } => {
                self.schedule(TICK, Event::Tick { node });
                return self.turn(node);
            }
            Event::Append { node, incarnation, ticket, message } => {
                self.append(node, incarnation, ticket, message);
            }
            Event::AppendOutcome { node, incarnation, event } => {
                return self.give(node, Some(incarnation), |process| process.log.events.push_back(event));
            }
            Event::Fetch { node, incarnation, fetch, from } => self.fetch(node, incarnation, fetch, from),
            Event::Fetched { node, incarnation, fetch, messages } => {
                return self.give(node, Some(incarnation), |process| process.log.fetched(fetch, messages));
            }
            Event::Requests { from, to, link, frame } => {
                return self.give(to, None, |process| process.requests(from as u32, link, &frame));
            }
            Event::Answers { to, link, frame } => {
                let now = self.now;
                return self.give(to, None, |process| process.answers(now, link, &frame));
            }
            Event::KeyRequest { from, to, number } => self.key_request(from, to, number),
            Event::KeyResponse { to, keys } => {
                return self.give(to, None, |process| process.keys_received(&keys));
            }
            Event::Request { node, request, token, operation } => {
                return self.give(node, None, |process| process.submit(request, token, operation));
            }
            Event::Response { client, number, response } => {
                self.clients[client].answered(number, response);
            }
            Event::ClientTurn { client } => self.client_turn(client),
            Event::ClientWaits { client, number, attempt } => self.client_waits(client, number, attempt),
            Event::Elect => self.elect(),
            Event::Elected { node, is_elected } => {
                return self.give(node, None, |process| process.elect(is_elected));
            }
            Event::Restart { node } => self.restart(node),
            Event::Mark => self.mark_in_peace(),
            Event::Fault => self.inject_fault(),
        }
        Ok(())
    }

    /// Calls `give` on the process of a node and then gives the process a turn. Does nothing if the node has no process
    /// with the incarnation `incarnation`.
    fn give(
        &mut self,
        node: usize,
        incarnation: Option<u64>,
        give: impl FnOnce(&mut Process),
    ) -> Result<(), Violation> {
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        if incarnation.is_some_and(|incarnation| incarnation != process.incarnation) {
            return Ok(());
        }
        give(process);
        self.turn(node)
    }

    /// Appends a message to the log, and serves the fetches that wait for it.
    fn append(&mut self, node: usize, incarnation: u64, ticket: u64, message: Vec<u8>) {
        let offset = self.log.len() as u64;
        self.log.push(message);
        let event = LogEvent::Appended { ticket, offset };
        let is_cut = self.is_cut(node);
        self.send(is_cut, || Event::AppendOutcome { node, incarnation, event: event.clone() });
        for (node, incarnation, fetch, from) in std::mem::take(&mut self.waiting) {
            self.fetch(node, incarnation, fetch, from);
        }
    }

    /// Answers a node that requests the key of this number from another node.
    fn key_request(&mut self, from: usize, to: usize, number: u32) {
        let process = self.nodes[to].process.as_ref();
        let given = process.and_then(|process| process.key_requested(from as u32, number));
        if let Some(Sent::KeyResponse { keys, .. }) = given {
            let is_cut = self.is_cut(to) || self.is_cut(from);
            self.send_once(is_cut, Event::KeyResponse { to: from, keys });
        }
    }

    fn turn(&mut self, node: usize) -> Result<(), Violation> {
        let disk_delay = match self.chance(self.odds.slow_disk) {
            true => self.rng.u64(1_000..200_000),
            false => self.rng.u64(100..2_000),
        };
        let Node { disk, keys, process, .. } = &mut self.nodes[node];
        let Some(process) = process else { return Ok(()) };
        let (mut sent, incarnation) = (Vec::new(), process.incarnation);
        process.turn(self.now, disk, disk_delay, &mut sent)?;
        // A node stores a key before any message mentions the key.
        keys.extend(process.member.follower().keys());
        let is_cut = self.is_cut(node);
        for sent in sent {
            match sent {
                Sent::Append { ticket, message } => {
                    self.send(is_cut, || Event::Append {
                        node,
                        incarnation,
                        ticket,
                        message: message.clone(),
                    });
                    let event = LogEvent::Failed { ticket, error: AppendError::Unknown };
                    self.schedule(APPEND_TIMEOUT, Event::AppendOutcome { node, incarnation, event });
                }
                Sent::Fetch { fetch, from } => {
                    self.send(is_cut, || Event::Fetch { node, incarnation, fetch, from: from as usize });
                }
                Sent::Requests { to, link, frame } => {
                    let to = to as usize;
                    let is_cut = node != to && (is_cut || self.is_cut(to));
                    self.send_once(is_cut, Event::Requests { from: node, to, link, frame });
                }
                Sent::Answers { to, link, frame } => {
                    let to = to as usize;
                    let is_cut = node != to && (is_cut || self.is_cut(to));
                    self.send_once(is_cut, Event::Answers { to, link, frame });
                }
                Sent::KeyRequest { to, number } => {
                    let to = to as usize;
                    let is_cut = is_cut || self.is_cut(to);
                    self.send_once(is_cut, Event::KeyRequest { from: node, to, number });
                }
                Sent::KeyResponse { to, keys } => {
                    self.send_once(is_cut, Event::KeyResponse { to: to as usize, keys });
                }
                Sent::Response { client, number, response } => {
                    let client = client as usize;
                    self.send_once(false, Event::Response { client, number, response });
                }
            }
        }
        Ok(())
    }

    /// Handles a fetch at the log.
    fn fetch(&mut self, node: usize, incarnation: u64, fetch: u64, from: usize) {
        if from > self.log.len() && self.loses_at.is_some() {
            // The offset does not exist. Kafka reports this as an error, and the node stops.
            self.nodes[node].process = None;
            return;
        }
        if from >= self.log.len() {
            self.waiting.push((node, incarnation, fetch, from));
            return;
        }
        let until = self.log.len().min(from + 8);
        let mut messages: Vec<_> = (from..until).map(|at| (at as u64, self.log[at].clone())).collect();
        if messages.len() > 1 && self.chance(self.odds.skipped) {
            messages.remove(self.rng.usize(..messages.len() - 1));
        }
        let is_cut = self.is_cut(node);
        self.send(is_cut, || Event::Fetched { node, incarnation, fetch, messages: messages.clone() });
    }

    fn client_turn(&mut self, client: usize) {
        let next = self.rng.u64(1_000..60_000);
        let client_state = &mut self.clients[client];
        if client_state.outstanding.is_none() && client_state.number < REQUESTS_MAX {
            client_state.choose(&mut self.rng);
            self.send_request(client);
        }
        self.schedule(next, Event::ClientTurn { client });
    }

    fn send_request(&mut self, client: usize) {
        let client_state = &self.clients[client];
        let Some(request) = client_state.outstanding else { return };
        let (token, operation, attempt) =
            (client_state.token, client_state.operation(&request), client_state.attempt);
        let node = self.rng.usize(..self.nodes.len());
        self.send_once(false, Event::Request { node, request, token, operation });
        self.schedule(CLIENT_TIMEOUT, Event::ClientWaits { client, number: request.number, attempt });
    }

    fn client_waits(&mut self, client: usize, number: u32, attempt: u32) {
        let client_state = &mut self.clients[client];
        let is_waiting = client_state.outstanding.is_some_and(|request| request.number == number)
            && client_state.attempt == attempt;
        if !is_waiting {
            return;
        }
        // Without an operation id of its own, a client does not retry, because it does not know the outcome of the
        // request.
        if client_state.is_smart && attempt < 20 {
            client_state.attempt += 1;
            self.send_request(client);
        } else {
            client_state.outstanding = None;
            client_state.unknown += 1;
        }
    }

    /// Elects a random node. Notifies all nodes whether they are elected, perhaps late.
    fn elect(&mut self) {
        let alive = self.nodes.iter().filter(|node| node.process.is_some()).map(|node| node.id as usize);
        let alive: Vec<usize> = alive.collect();
        if let Some(&chosen) = alive.get(self.rng.usize(..alive.len().max(1))) {
            for node in 0..self.nodes.len() {
                let after = if self.has_faults { self.rng.u64(100..100_000) } else { 100 };
                self.schedule(after, Event::Elected { node, is_elected: node == chosen });
            }
        }
        if self.has_faults {
            let after = self.rng.u64(50_000..600_000);
            self.schedule(after, Event::Elect);
        }
    }

    fn inject_fault(&mut self) {
        if !self.has_faults {
            return;
        }
        let node = self.rng.usize(..self.nodes.len());
        let long = self.rng.u64(1_000..400_000);
        match self.rng.u8(..9) {
            8 => self.forge(),
            0 | 1 => self.crash(node, long, false),
            2 => self.crash(node, long, true),
            3 | 4 => {
                self.figures.pauses += 1;
                self.nodes[node].paused_until = self.now + long;
            }
            5 | 6 => {
                self.figures.cuts += 1;
                self.cut_until[node] = self.now + long;
            }
            _ => self.announce(node),
        }
        let next = self.rng.u64(10_000..200_000);
        self.schedule(next, Event::Fault);
    }

    /// Appends an announcement about a node.
    fn announce(&mut self, node: usize) {
        let Some(process) = &self.nodes[node].process else { return };
        let follower = process.member.follower();
        let (incarnation, offset) = (process.incarnation, follower.cursor().offset);
        let kind = self.rng.u8(..5);
        let own = NodeId(node as u32);
        let (who, announcement) = match kind {
            0 => (own, Announcement::Durable(offset)),
            1 => (own, Announcement::Snapshot(offset)),
            2 => (own, Announcement::Level(self.rng.u64(1..=3))),
            // A node that does not exist has left, according to this announcement.
            _ => (NodeId(99), Announcement::Left),
        };
        let message = match kind {
            3 => process.mark(self.now),
            _ => Some(follower.announcement_of(who, announcement)),
        };
        let Some(message) = message else { return };
        self.send(false, || Event::Append { node, incarnation, ticket: u64::MAX, message: message.clone() });
    }

    fn crash(&mut self, node: usize, long: u64, loses_disk: bool) {
        let Some(process) = self.nodes[node].process.take() else { return };
        self.figures.counted = self.figures.counted.with(&process.counted);
        self.figures.crashes += 1;
        self.nodes[node].paused_until = 0;
        if loses_disk {
            // The node receives the snapshot of another node, from the disk of that node.
            let others: Vec<usize> = (0..self.nodes.len()).filter(|other| *other != node).collect();
            let giver = others[self.rng.usize(..others.len())];
            let mut disk = self.nodes[giver].disk.clone();
            // The keys are copied together with the data.
            let keys = self.nodes[giver].keys.clone();
            self.nodes[node].keys.extend(&keys);
            if self.defect == Some(Defect::WindowLostInSnapshot) {
                disk.rows.retain(|key, _| key.first() == Some(&b'c'));
            }
            self.nodes[node].disk = disk;
            self.figures.disks_lost += 1;
        }
        self.schedule(long, Event::Restart { node });
    }

    fn restart(&mut self, node: usize) {
        if self.nodes[node].process.is_some() {
            return;
        }
        self.incarnation += 1;
        let Node { id, disk, keys, process, .. } = &mut self.nodes[node];
        if self.defect == Some(Defect::RoundForgotten) {
            disk.rows.remove(&b"r"[..]);
        }
        let mut started = Process::start(*id, disk, self.incarnation, keys, self.defect);
        started.keys.seals = self.seals;
        started.may_stop = self.loses_at.is_some();
        let cursor = *started.member.follower().cursor();
        let message = self.log.get(cursor.offset as usize).map(Vec::as_slice);
        let end = self.log.len() as u64;
        let place = started.member.follower().check_start(TOPIC, 0, end, message);
        if place.is_err() && started.may_stop {
            return;
        }
        assert_eq!(place, Ok(()));
        *process = Some(started);
    }

    fn end_faults(&mut self) {
        self.has_faults = false;
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = 0;
            self.cut_until[node] = 0;
            self.restart(node);
        }
        self.schedule(TICK, Event::Mark);
        // This election is scheduled after all remaining events of earlier elections.
        self.schedule(600_000, Event::Elect);
    }
}

impl Event {
    /// Returns the node that handles the event.
    fn node(&self) -> Option<usize> {
        match self {
            Event::Tick { node }
            | Event::AppendOutcome { node, .. }
            | Event::Fetched { node, .. }
            | Event::Request { node, .. }
            | Event::Elected { node, .. } => Some(*node),
            Event::Requests { to, .. }
            | Event::Answers { to, .. }
            | Event::KeyRequest { to, .. }
            | Event::KeyResponse { to, .. } => Some(*to),
            _ => None,
        }
    }
}

impl Counted {
    fn with(&self, other: &Counted) -> Counted {
        Counted {
            dropped: self.dropped + other.dropped,
            doubted: self.doubted + other.doubted,
            settled: self.settled + other.settled,
            applied_before: self.applied_before + other.applied_before,
            too_old: self.too_old + other.too_old,
            ignored: self.ignored + other.ignored,
            cut: self.cut + other.cut,
            other_copies: self.other_copies + other.other_copies,
            missing: self.missing + other.missing,
            compared: self.compared + other.compared,
            slices: self.slices + other.slices,
            rounds: self.rounds + other.rounds,
            old_keys: self.old_keys + other.old_keys,
            rotations: self.rotations + other.rotations,
            lacked: self.lacked + other.lacked,
            sealed: self.sealed + other.sealed,
            went_back: self.went_back + other.went_back,
        }
    }

    fn all(&self) -> [(&'static str, u64); 16] {
        [
            ("dropped", self.dropped),
            ("doubted", self.doubted),
            ("settled", self.settled),
            ("applied before", self.applied_before),
            ("too old", self.too_old),
            ("ignored", self.ignored),
            ("cut", self.cut),
            ("other copies", self.other_copies),
            ("missing", self.missing),
            ("compared", self.compared),
            ("slices", self.slices),
            ("rounds", self.rounds),
            ("old keys", self.old_keys),
            ("rotations", self.rotations),
            ("lacked", self.lacked),
            ("sealed", self.sealed),
        ]
    }
}

/// Values of a key by position, according to the log.
pub(super) type History = BTreeMap<u32, Vec<(u64, Option<u32>)>>;
