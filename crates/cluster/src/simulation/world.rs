//! The simulated world of a run: time, the log, the network, clients, and all faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use directory::Directory;
use kafka_log::{Event as LogEvent, Message};
use ldap::ResultCode;
use replication::forward::{self, Answer as ForwardAnswer, Link};
use replication::message::{Generation, encode_generation};
use replication::{AppendError, FIRST_KEY, Follower, RowChange};

use super::data::{administrator, check_directory, fill, open, rows, text_of};
use super::runtime::{
    Action, Killed, ProcessEnvironment, Shared, SimulatedHost, SimulatedLog, SimulatedPeers,
    SimulatedRuntime, WaitUntil,
};
use super::workload::{ChangeRequest, Expected, KINDS, Kind, LogLimits, Workload, check_transactions};
use crate::event::{Frame, LogPlace, NodeEvent};
use crate::figures::{Activity, Figures as NodeFigures};
use crate::former_members::FormerMembers;
use crate::host::LocalChange;
use crate::identity::Identity;
use crate::node::{Node, Parts};

const FAULTS_END: Duration = Duration::from_secs(20);
/// Length of the phase without faults. It exceeds the maximum wait of a change, so that every client gets an answer.
const PEACE: Duration = Duration::from_secs(30);
const APPEND_TIMEOUT: Duration = Duration::from_millis(2_000);
const FRAME_TIMEOUT: Duration = Duration::from_millis(1_000);

/// Time within which the cluster of [`World::quiet`] has a writer, and within which the writer answers.
const QUIET: Duration = Duration::from_secs(5);
/// Interval at which a node requests the changes that are due.
const DUE: Duration = Duration::from_millis(300);

/// Event counts over runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Number of changes by [`Kind`] that had an effect or were refused as expected.
    pub(super) kinds: [u64; KINDS],
    /// Number of changes refused because another entry had the unique value.
    duplicates: u64,
    unknown: u64,
    forwarded: u64,
    dropped: u64,
    restarts: u64,
    epochs: u64,
    digests: u64,
    lost_answers: u64,
}

impl Figures {
    pub(super) fn all(&self) -> Vec<u64> {
        let Figures {
            kinds,
            duplicates,
            unknown,
            forwarded,
            dropped,
            restarts,
            epochs,
            digests,
            lost_answers,
        } = *self;
        let others = [duplicates, unknown, forwarded, dropped, restarts, epochs, digests, lost_answers];
        [&kinds[..], &others].concat()
    }

    pub(super) fn add(&mut self, other: &Figures) {
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, count)| *sum += count);
        self.duplicates += other.duplicates;
        self.unknown += other.unknown;
        self.forwarded += other.forwarded;
        self.dropped += other.dropped;
        self.restarts += other.restarts;
        self.epochs += other.epochs;
        self.digests += other.digests;
        self.lost_answers += other.lost_answers;
    }
}

enum Event {
    /// An event reaches the process with this number, if the process is still running.
    Deliver {
        node: usize,
        process: u64,
        event: NodeEvent,
    },
    /// The wait of a node is over.
    Wake {
        node: usize,
        process: u64,
    },
    /// A message reaches the log.
    Append {
        node: usize,
        process: u64,
        ticket: usize,
        key: Vec<u8>,
        bytes: Vec<u8>,
        is_reported: bool,
    },
    ClientTurn {
        client: usize,
    },
    /// A node requests the changes that are due.
    Due,
    Start {
        node: usize,
    },
    Elect,
    Fault,
}

/// A running process of a node.
struct Process {
    number: u64,
    events: Sender<NodeEvent>,
    control: Sender<()>,
    waits: Receiver<WaitUntil>,
    thread: JoinHandle<Result<(), String>>,
    figures: Arc<NodeFigures>,
    directory: Arc<Directory>,
    /// Number of the reader, the next offset to deliver, and the arrival time of the last message. `None` while no
    /// reader is open.
    reader: Option<(u64, usize, Duration)>,
    /// Time of the scheduled wake-up.
    wakes_at: Duration,
    link: Link,
}

#[derive(Default)]
struct Client {
    number: u32,
    /// Number of changes without an answer.
    waiting: usize,
}

/// Change that waits for its answer. A change that a node requested has no client.
struct Waiting {
    client: Option<usize>,
    node: usize,
    kind: Kind,
    expected: Expected,
}

/// Answers of nodes, each with its diagnostic message.
type Answers = Arc<Mutex<Vec<(Waiting, ResultCode, String)>>>;

/// Frame that a node has received: node, process and frame number of the sender, and the receiver of the answers.
type PendingFrame = (usize, u64, u64, Receiver<Vec<ForwardAnswer>>);

/// One cluster and its time.
pub(super) struct World {
    rng: fastrand::Rng,
    shared: Arc<Shared>,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    events: BTreeMap<u64, Event>,
    order: u64,
    folder: PathBuf,
    log: Vec<Message>,
    processes: Vec<Option<Process>>,
    process_count: u64,
    incarnations: u64,
    elected: Option<usize>,
    frames: Vec<PendingFrame>,
    clients: Vec<Client>,
    workload: Workload,
    limits: LogLimits,
    answers: Answers,
    /// Tokens of changes that were acknowledged to clients.
    acknowledged: Vec<String>,
    is_peace: bool,
    /// Probability of a loss or delay in this run, in 256ths.
    lost: u8,
    figures: Figures,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (node_count, limits) = (rng.usize(2..=4), LogLimits::random(&mut rng));
        let mut world = World::of(node_count, limits, rng);
        world.clients.resize_with(world.rng.usize(2..=5), Client::default);
        world.lost = if world.rng.bool() { world.rng.u8(..40) } else { 0 };
        for client in 0..world.clients.len() {
            world.schedule(Duration::from_millis(300 + client as u64), Event::ClientTurn { client });
        }
        world.schedule(Duration::from_millis(50), Event::Elect);
        world.schedule(DUE, Event::Due);
        world.schedule(Duration::from_secs(1), Event::Fault);
        world
    }

    /// Returns a cluster of one node, without clients and faults.
    pub(super) fn quiet(limits: LogLimits) -> World {
        let mut world = World::of(1, limits, fastrand::Rng::with_seed(1));
        world.is_peace = true;
        world.schedule(Duration::from_millis(50), Event::Elect);
        world
    }

    /// Returns a cluster whose nodes start.
    fn of(node_count: usize, limits: LogLimits, rng: fastrand::Rng) -> World {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let base = Path::new("/dev/shm");
        let base = if base.is_dir() { base.to_owned() } else { std::env::temp_dir() };
        let mut world = World {
            shared: Shared::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            log: Vec::new(),
            processes: (0..node_count).map(|_| None).collect(),
            process_count: 0,
            incarnations: 0,
            elected: None,
            frames: Vec::new(),
            clients: Vec::new(),
            workload: Workload::default(),
            limits,
            answers: Answers::default(),
            acknowledged: Vec::new(),
            is_peace: false,
            lost: 0,
            figures: Figures::default(),
            folder: base.join(format!("pando-simulation-{}-{run}", std::process::id())),
            rng,
        };
        world.make_cluster(node_count);
        for node in 0..node_count {
            world.schedule(Duration::ZERO, Event::Start { node });
        }
        world
    }

    fn data(&self, node: usize) -> PathBuf {
        self.folder.join(format!("data-{node}"))
    }

    fn keys(&self, node: usize) -> PathBuf {
        self.folder.join(format!("keys-{node}"))
    }

    /// Creates the data of the first node, begins the log with this data, and copies the data for the other nodes.
    fn make_cluster(&mut self, node_count: usize) {
        std::fs::create_dir_all(&self.folder).unwrap();
        let first = Identity::create(&self.keys(0)).unwrap();
        for node in 1..node_count {
            let file = self.folder.join("invitation");
            std::fs::write(&file, first.invite(false).unwrap().0).unwrap();
            Identity::accept(&self.keys(node), &file).unwrap();
        }
        let data = self.data(0);
        let (directory, mut writer) = open(&data);
        fill(&mut writer);
        let generation = Generation { follows: [0; 16], position: directory.facts().unwrap().position };
        let keys = first.keys().unwrap();
        let (bytes, tag) = encode_generation(&keys, FIRST_KEY, &[4; 16], &generation);
        let (_, seeded) = Follower::seed((keys, FIRST_KEY), [4; 16], [4; 16], &generation, 0, tag);
        let seeded: Vec<_> =
            seeded.iter().map(|RowChange { key, value }| (&**key, value.as_deref())).collect();
        writer.apply_group(1, [], &seeded).unwrap();
        drop((writer, directory));
        self.log.push(Message { offset: 0, key: Vec::new(), bytes, millis: 0 });
        for node in 1..node_count {
            directory::replicated::copy_node(&data, &self.data(node), &store::Options::default()).unwrap();
        }
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((self.shared.time() + after, self.order)));
        self.events.insert(self.order, event);
    }

    fn is_lost(&mut self) -> bool {
        !self.is_peace && self.rng.u8(..) < self.lost
    }

    /// Returns a random transit time.
    fn delay(&mut self) -> Duration {
        match !self.is_peace && self.rng.u8(..) < self.lost {
            true => Duration::from_millis(self.rng.u64(100..3_000)),
            false => Duration::from_micros(self.rng.u64(100..3_000)),
        }
    }

    /// Runs the phase with faults, then the phase without faults, then the checks.
    pub(super) fn run(mut self) -> Result<Figures, String> {
        let result = self.run_events(FAULTS_END + PEACE).and_then(|()| self.check());
        self.end(result)
    }

    /// Sends one change to the first node, and waits for its answer.
    pub(super) fn run_one(mut self, request: ChangeRequest) -> Result<Figures, String> {
        let settled = self.run_events(QUIET).and_then(|()| self.send_local(None, 0, vec![request]));
        let result = settled.and_then(|()| self.run_events(2 * QUIET));
        self.end(result)
    }

    fn end(mut self, result: Result<(), String>) -> Result<Figures, String> {
        for node in 0..self.processes.len() {
            self.kill(node)?;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        result.map(|()| self.figures)
    }

    fn run_events(&mut self, until: Duration) -> Result<(), String> {
        while let Some(Reverse((at, order))) = self.queue.peek().copied() {
            if at > until {
                return Ok(());
            }
            self.queue.pop();
            self.shared.set_time(at);
            if at > FAULTS_END && !self.is_peace {
                self.is_peace = true;
                let stopped = (0..self.processes.len()).filter(|node| self.processes[*node].is_none());
                for node in stopped.collect::<Vec<_>>() {
                    self.schedule(Duration::ZERO, Event::Start { node });
                }
                self.schedule(Duration::ZERO, Event::Elect);
            }
            if let Some(event) = self.events.remove(&order) {
                self.handle(event)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Deliver { node, process, event } => {
                if let Some(running) =
                    self.processes[node].as_ref().filter(|running| running.number == process)
                {
                    let _ = running.events.send(event);
                    self.give_control(node)?;
                }
            }
            Event::Wake { node, process } => {
                let now = self.shared.time();
                let running = self.processes[node].as_ref();
                if running.is_some_and(|running| running.number == process && running.wakes_at <= now) {
                    self.give_control(node)?;
                }
            }
            Event::Append { node, process, ticket, key, bytes, is_reported } => {
                let offset = self.log.len() as u64;
                let millis = i64::try_from(self.shared.now_micros() / 1_000).unwrap();
                self.log.push(Message { offset, key, bytes, millis });
                if is_reported {
                    self.deliver_log(node, process, LogEvent::Appended { ticket, offset });
                }
                (0..self.processes.len()).for_each(|node| self.bring_messages(node));
            }
            Event::ClientTurn { client } => self.client_turn(client)?,
            Event::Due => self.request_due_changes()?,
            Event::Start { node } => self.start(node)?,
            Event::Elect => self.elect(),
            Event::Fault => self.inject_fault()?,
        }
        Ok(())
    }

    fn deliver_log(&mut self, node: usize, process: u64, event: LogEvent) {
        let delay = self.delay();
        // The reader number is 0, because an event that is not a message is valid for every reader.
        self.schedule(delay, Event::Deliver { node, process, event: NodeEvent::Log(0, event) });
    }

    /// Delivers to an open reader, in order, the messages that it has not received. Skips messages at random.
    fn bring_messages(&mut self, node: usize) {
        loop {
            let (delay, is_left_out) = (self.delay(), self.is_lost() && self.rng.u8(..8) == 0);
            let now = self.shared.time();
            let Some(running) = &mut self.processes[node] else { return };
            let (number, Some((reading, next, last))) = (running.number, &mut running.reader) else { return };
            let Some(message) = self.log.get(*next).cloned() else { return };
            *next += 1;
            *last = (*last).max(now + delay);
            let (reading, after) = (*reading, *last - now);
            if !is_left_out {
                let event = NodeEvent::Log(reading, LogEvent::Message(message));
                self.schedule(after, Event::Deliver { node, process: number, event });
            }
        }
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        if self.processes[node].is_some() {
            return Ok(());
        }
        let (directory, writer) = open(&self.data(node));
        let identity = Identity::open(&self.keys(node)).unwrap();
        self.process_count += 1;
        self.incarnations += 1;
        let (events, received) = channel();
        let (control, given) = channel();
        let (waiting, waits) = channel();
        let outside = ProcessEnvironment { shared: Arc::clone(&self.shared), node };
        let figures = Arc::new(NodeFigures::default());
        let parts = Parts {
            claim_patience: APPEND_TIMEOUT,
            patience: Duration::from_secs(10),
            identity,
            address: format!("node-{node}"),
            group_bytes_max: self.limits.group_bytes_max,
            group_records_max: self.limits.group_records_max,
            directory: Arc::clone(&directory),
            host: Box::new(SimulatedHost {
                outside: outside.clone(),
                rng: fastrand::Rng::with_seed(self.rng.u64(..)),
            }),
            figures: Arc::clone(&figures),
            runtime: Box::new(SimulatedRuntime {
                outside: outside.clone(),
                events: received,
                sender: events.clone(),
                control: given,
                waits: waiting,
            }),
            log: Box::new(SimulatedLog { outside: outside.clone(), is_open: false }),
            peers: Box::new(SimulatedPeers(outside)),
            seals: self.rng.bool(),
            former_members: Arc::new(FormerMembers::default()),
            snapshots: None,
            digest_interval: Some(Duration::from_secs(5)),
            digest_bytes_max: 1 << 16,
        };
        let now = Duration::from_secs(self.incarnations).as_micros() as u64;
        let incarnation = parts.identity.next_incarnation(now).unwrap();
        let thread = std::thread::spawn(move || {
            let end = |cause: &str| panic!("the node diverged: {cause}");
            let ran = catch_unwind(AssertUnwindSafe(|| Node::new(parts, incarnation).run(writer, &end)));
            ran.or_else(|payload| match payload.is::<Killed>() {
                true => Ok(()),
                false => {
                    Err(payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned()))
                }
            })
        });
        self.processes[node] = Some(Process {
            number: self.process_count,
            events,
            control,
            waits,
            thread,
            figures,
            directory,
            reader: None,
            wakes_at: Duration::ZERO,
            link: Link { incarnation, number: 1 },
        });
        // The process runs until it waits for the first time.
        self.take_control(node)
    }

    fn give_control(&mut self, node: usize) -> Result<(), String> {
        let Some(running) = &self.processes[node] else { return Ok(()) };
        let _ = running.control.send(());
        self.take_control(node)
    }

    /// Waits until the node's thread hands control back, and handles its requests.
    fn take_control(&mut self, node: usize) -> Result<(), String> {
        let Some(running) = &mut self.processes[node] else { return Ok(()) };
        match running.waits.recv_timeout(Duration::from_secs(60)) {
            Ok(WaitUntil(until)) => {
                running.wakes_at = until;
                let (process, now) = (running.number, self.shared.time());
                self.schedule(until - now, Event::Wake { node, process });
            }
            Err(RecvTimeoutError::Timeout) => return Err(format!("node {node} does not come back")),
            Err(RecvTimeoutError::Disconnected) => {
                self.kill(node)?;
                return Err(format!("node {node} ended"));
            }
        }
        for (node, action) in self.shared.actions() {
            self.act(node, action);
        }
        self.pass_answers();
        self.take_client_answers()
    }

    /// Ends a process at its next wait. No other node is notified.
    fn kill(&mut self, node: usize) -> Result<(), String> {
        let Some(Process { control, thread, directory, events, .. }) = self.processes[node].take() else {
            return Ok(());
        };
        drop((control, events, directory));
        let ended = thread.join().unwrap_or_else(|_| Err("a panic".to_owned()));
        self.shared.actions();
        ended.map_err(|cause| format!("node {node}: {cause}"))
    }

    fn act(&mut self, node: usize, action: Action) {
        let Some(running) = &mut self.processes[node] else { return };
        let process = running.number;
        match action {
            Action::Find { number, offset, delay } => {
                let message = self.log.get(offset as usize).cloned();
                let place = LogPlace { message, start: 0, end: self.log.len() as u64 };
                let event = NodeEvent::LogPlace(number, Ok(place));
                self.schedule(delay + Duration::from_millis(1), Event::Deliver { node, process, event });
            }
            Action::FindAddress { epoch } => {
                let message = self.log.get(epoch as usize);
                let address = message.and_then(|message| String::from_utf8(message.key.clone()).ok());
                let event = NodeEvent::WriterAddress(epoch, address);
                self.schedule(Duration::from_millis(1), Event::Deliver { node, process, event });
            }
            Action::Open { reading, next } => {
                let now = self.shared.time();
                running.reader = Some((reading, next as usize, now));
                if self.elected == Some(node) {
                    self.deliver_log(node, process, LogEvent::Elected(true));
                }
                self.bring_messages(node);
            }
            Action::Close => running.reader = None,
            Action::Append { ticket, key, bytes } => self.append(node, process, ticket, key, bytes),
            Action::Send { number, to, requests } => self.send(node, process, number, to.0, requests),
            Action::FetchKeys { sources, number } => {
                let giver =
                    sources.iter().find_map(|source| self.processes.get(source.0 as usize - 1)?.as_ref());
                let place = giver.map(|giver| giver.figures.lock().node as usize - 1);
                let keys = place.and_then(|place| Identity::open(&self.keys(place)).ok()?.given_keys().ok());
                let keys = keys.filter(|keys| keys.iter().any(|(given, _)| *given == number));
                let event = NodeEvent::Keys(keys.ok_or_else(|| "no node has it".to_owned()));
                self.schedule(Duration::from_millis(2), Event::Deliver { node, process, event });
            }
        }
    }

    /// Handles an append. The message may be lost, and the result may not reach the node in time.
    fn append(&mut self, node: usize, process: u64, ticket: usize, key: Vec<u8>, bytes: Vec<u8>) {
        let (delay, is_lost, is_reported) = (self.delay(), self.is_lost(), !self.is_lost());
        if !is_lost {
            self.schedule(delay, Event::Append { node, process, ticket, key, bytes, is_reported });
        }
        if is_lost || !is_reported {
            let error =
                if is_lost && self.rng.bool() { AppendError::NotAppended } else { AppendError::Unknown };
            let event = LogEvent::Failed { ticket, error, reason: "simulated".to_owned() };
            let event = NodeEvent::Log(0, event);
            self.schedule(APPEND_TIMEOUT, Event::Deliver { node, process, event });
        }
    }

    /// Sends a frame to the writer. If the frame is lost or the writer's process does not run, the node receives an
    /// error after [`FRAME_TIMEOUT`] and uses a new connection.
    fn send(&mut self, node: usize, process: u64, number: u64, to: u32, requests: Vec<forward::Request>) {
        let (is_lost, delay) = (self.is_lost(), self.delay());
        let to = to as usize - 1;
        let mut requests = forward::decode_requests(&forward::encode_requests(&requests)).unwrap();
        let target = self.processes[to].as_ref().map(|target| target.number);
        let Some(running) = &mut self.processes[node] else { return };
        requests.iter_mut().for_each(|request| request.link = running.link);
        let Some(target) = target.filter(|_| !is_lost) else {
            running.link.number += 1;
            let event = NodeEvent::Answers(number, Err("simulated".to_owned()));
            return self.schedule(FRAME_TIMEOUT, Event::Deliver { node, process, event });
        };
        let (reply, answers) = sync_channel(1);
        let event = NodeEvent::Frame(Frame { requests, reply });
        self.schedule(delay, Event::Deliver { node: to, process: target, event });
        self.frames.push((node, process, number, answers));
    }

    /// Delivers the writers' answers to frames, and loses some of them at random.
    fn pass_answers(&mut self) {
        for (node, process, number, answers) in std::mem::take(&mut self.frames) {
            let result = match answers.try_recv() {
                Ok(given) => Ok(forward::decode_answers(&forward::encode_answers(&given)).unwrap()),
                Err(TryRecvError::Disconnected) => Err("the connection broke".to_owned()),
                Err(TryRecvError::Empty) => {
                    self.frames.push((node, process, number, answers));
                    continue;
                }
            };
            let is_lost = result.is_ok() && self.is_lost();
            self.figures.lost_answers += u64::from(is_lost);
            let result = if is_lost { Err("the answer was lost".to_owned()) } else { result };
            let delay = if is_lost { FRAME_TIMEOUT } else { self.delay() };
            if let (Err(_), Some(running)) = (&result, &mut self.processes[node]) {
                running.link.number += 1;
            }
            let event = NodeEvent::Answers(number, result);
            self.schedule(delay, Event::Deliver { node, process, event });
        }
    }

    /// A client sends its next changes to a node.
    fn client_turn(&mut self, client: usize) -> Result<(), String> {
        if self.shared.time() > FAULTS_END + PEACE / 2 {
            return Ok(());
        }
        self.schedule(Duration::from_millis(200), Event::ClientTurn { client });
        let node = self.rng.usize(..self.processes.len());
        let Some(running) = &self.processes[node] else { return Ok(()) };
        if self.clients[client].waiting > 0 {
            return Ok(());
        }
        self.clients[client].number += 1;
        let token = format!("token-{client:03}-{:06}", self.clients[client].number);
        let now = self.shared.now_micros();
        let requests = self.workload.next(&mut self.rng, &token, now, &running.directory);
        self.clients[client].waiting = requests.len();
        self.send_local(Some(client), node, requests)
    }

    /// A node requests the changes that are due, as the server around a real node does.
    fn request_due_changes(&mut self) -> Result<(), String> {
        self.schedule(DUE, Event::Due);
        let node = self.rng.usize(..self.processes.len());
        match self.shared.time() < FAULTS_END + PEACE - QUIET {
            true => self.send_local(None, node, vec![ChangeRequest::due()]),
            false => Ok(()),
        }
    }

    fn send_local(
        &mut self,
        client: Option<usize>,
        node: usize,
        requests: Vec<ChangeRequest>,
    ) -> Result<(), String> {
        let Some(running) = &self.processes[node] else { return Ok(()) };
        let change = |ChangeRequest { kind, work, expected }| {
            let answer = Answer(Some((Arc::clone(&self.answers), Waiting { client, node, kind, expected })));
            LocalChange {
                requester: Arc::new(administrator()),
                link: None,
                work,
                passwords: Default::default(),
                origin: None,
                keeps_old_values: false,
                reply: Box::new(move |given| answer.give(given.outcome.code, given.outcome.diagnostic)),
            }
        };
        let _ = running.events.send(NodeEvent::Local(requests.into_iter().map(change).collect()));
        self.give_control(node)
    }

    fn take_client_answers(&mut self) -> Result<(), String> {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap());
        for (Waiting { client, node, kind, expected }, code, text) in answers {
            if let Some(client) = client {
                self.clients[client].waiting -= 1;
            }
            if !expected.allows(code) {
                return Err(format!("{kind:?} ({expected:?}) was answered with {code:?}: {text}"));
            }
            match (code, expected) {
                (ResultCode::UNAVAILABLE, _) => self.figures.unknown += 1,
                (ResultCode::SUCCESS, Expected::Token(token)) => {
                    // Reading all rows is slow, so only every eighth answer is checked.
                    let is_checked = self.acknowledged.len().is_multiple_of(8);
                    let checked = self.processes[node].as_ref().filter(|_| is_checked);
                    let visible = checked.map(|running| rows(&running.directory));
                    if visible.is_some_and(|visible| !text_of(&visible).contains(&token)) {
                        return Err(format!("node {node} answered {token} and does not show it"));
                    }
                    self.figures.kinds[kind as usize] += 1;
                    self.acknowledged.push(token);
                }
                (ResultCode::SUCCESS, _) | (_, Expected::Refusal(_)) => {
                    self.figures.kinds[kind as usize] += 1;
                }
                (ResultCode::CONSTRAINT_VIOLATION, _) if kind == Kind::Unique => self.figures.duplicates += 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn elect(&mut self) {
        let candidates: Vec<usize> =
            (0..self.processes.len()).filter(|node| self.processes[*node].is_some()).collect();
        let chosen = self.rng.choice(candidates);
        if let Some(before) = self.elected.filter(|before| Some(*before) != chosen) {
            self.notify_elected(before, false);
        }
        self.elected = chosen;
        if let Some(node) = chosen {
            self.notify_elected(node, true);
        }
    }

    fn notify_elected(&mut self, node: usize, is_elected: bool) {
        if let Some(process) = self.processes[node].as_ref().map(|running| running.number) {
            self.deliver_log(node, process, LogEvent::Elected(is_elected));
        }
    }

    fn inject_fault(&mut self) -> Result<(), String> {
        if self.is_peace {
            return Ok(());
        }
        let node = self.rng.usize(..self.processes.len());
        match self.rng.u8(..4) {
            0 | 1 => {
                self.kill(node)?;
                self.figures.restarts += 1;
                let after = Duration::from_millis(self.rng.u64(10..4_000));
                self.schedule(after, Event::Start { node });
                let after = Duration::from_millis(self.rng.u64(10..2_000));
                self.schedule(after, Event::Elect);
            }
            2 => self.elect(),
            _ => Identity::open(&self.keys(node)).and_then(|keys| keys.want_key(true)).unwrap(),
        }
        let after = Duration::from_millis(self.rng.u64(500..6_000));
        self.schedule(after, Event::Fault);
        Ok(())
    }

    /// Checks that all nodes run, have equal rows, and contain every acknowledged change.
    fn check(&mut self) -> Result<(), String> {
        let mut first: Option<Vec<(Vec<u8>, Vec<u8>)>> = None;
        for (node, process) in self.processes.iter().enumerate() {
            let Some(process) = process else { return Err(format!("node {node} does not run")) };
            let state = process.figures.get();
            if !matches!(state.activity, Activity::Following | Activity::Writing) {
                return Err(format!("node {node} is {:?}: {}", state.activity, state.role));
            }
            self.figures.forwarded += state.forwarded;
            self.figures.dropped += state.groups_dropped;
            self.figures.epochs += state.epoch;
            self.figures.digests += u64::from(state.digest.is_some());
            let rows = rows(&process.directory);
            let text = text_of(&rows);
            if let Some(token) = self.acknowledged.iter().find(|token| !text.contains(*token)) {
                return Err(format!("node {node} lacks {token}, which was acknowledged"));
            }
            check_transactions(&text).map_err(|error| format!("node {node} has {error}"))?;
            check_directory(&process.directory).map_err(|error| format!("node {node} has {error}"))?;
            match &first {
                Some(first) if *first != rows => return Err(format!("node {node} differs from node 0")),
                Some(_) => {}
                None => first = Some(rows),
            }
        }
        match self.clients.iter().position(|client| client.waiting > 0) {
            Some(client) => Err(format!("client {client} has no answer")),
            None => Ok(()),
        }
    }
}

/// Answer to a waiting client or node. If the process is killed before it answers, the answer is `unavailable`, because
/// the outcome is unknown.
struct Answer(Option<(Answers, Waiting)>);

impl Answer {
    fn give(mut self, code: ResultCode, text: String) {
        if let Some((answers, waiting)) = self.0.take() {
            answers.lock().unwrap().push((waiting, code, text));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some((answers, waiting)) = self.0.take() {
            answers.lock().unwrap().push((waiting, ResultCode::UNAVAILABLE, String::new()));
        }
    }
}
