//! The servers, the network between them, the clients and the administrator, and the faults of a run.

mod administrator;
mod copies;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Defect;
use super::client::{Client, Read, Response};
use super::data::{Data, Role, ServerId};
use super::figures::{Case, Figures};
use super::oracle::{Fact, Oracle, violation};
use super::server::{Caller, LogAnswer, LogRequest, Mode, Process, Request, Sender, Sent, Work};
use crate::replica::EpochName;
use crate::simulation::Violation;

const SERVERS: usize = 5;
const CLIENTS: usize = 3;

/// Length of the phase with faults. All times are in microseconds.
const FAULTS_END: u64 = 1_000_000;
/// Length of each phase without faults. A run may have several such phases.
const QUIET: u64 = 400_000;
/// Longest wait of a request for records at the supplier.
pub(super) const LOG_WAIT: u64 = 20_000;
const READ_WAIT: u64 = 30_000;
const LINK_TIMEOUT: u64 = 50_000;
const CLIENT_TIMEOUT: u64 = 120_000;
const TICK: u64 = 10_000;
const EVENTS_MAX: u64 = 100_000;

/// A server's machine.
pub(super) struct Node {
    data: Option<Data>,
    process: Option<Process>,
    /// Supplier in the node file.
    table: Option<ServerId>,
    /// Name of the copy that is being received, and number of the next part.
    receiving: (u64, u8),
    /// Name of the copy that this server has made for others, and the data.
    copy: Option<(u64, Data)>,
    cut_until: u64,
}

pub(super) struct World {
    rng: fastrand::Rng,
    now: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    oracle: Oracle,
    defect: Option<Defect>,
    /// Whether faults occur at present.
    has_faults: bool,
    /// Probabilities of this run, in 256ths: of a lost message, and of a slow disk.
    lost: u8,
    slow_disk: u8,
    /// Longest delay of a slow disk.
    disk_delay_max: u64,
    /// Whether replicas store an epoch only with its first record.
    stores_epochs_late: bool,
    incarnation: u64,
    /// Number of the last change.
    change: u64,
}

#[derive(Debug)]
enum Event {
    Start {
        server: ServerId,
    },
    /// A process works on what has arrived.
    Turn {
        server: ServerId,
        incarnation: u64,
    },
    Tick {
        server: ServerId,
        incarnation: u64,
    },
    /// A process connects to its supplier, unless it has done so since connection `link`.
    Connect {
        server: ServerId,
        incarnation: u64,
        link: u64,
    },
    LogRequest {
        to: (ServerId, u64),
        request: LogRequest,
    },
    LogAnswer {
        to: Caller,
        answer: LogAnswer,
    },
    /// The request with this number was not answered.
    LogTimeout {
        to: Caller,
        request: u64,
    },
    Forward {
        to: (ServerId, u64),
        request: Request,
    },
    Forwarded {
        to: Caller,
        operation: u64,
        decided: Option<u64>,
    },
    ForwardTimeout {
        server: ServerId,
        incarnation: u64,
        operation: u64,
    },
    ClientActs {
        client: usize,
    },
    ClientRequest {
        to: ServerId,
        client: usize,
        number: u32,
    },
    Response {
        client: usize,
        number: u32,
        response: Response,
    },
    ClientTimeout {
        client: usize,
        number: u32,
    },
    /// A new replica asks for the next part of a copy.
    Copy {
        server: ServerId,
    },
    Fault,
}

struct Scheduled {
    time: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

impl World {
    pub(super) fn new(seed: u64, defect: Option<Defect>) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = (0..SERVERS).map(|id| {
            // Servers 1 to 3 form a chain of replicas. Each further server follows any server with a lower number.
            let table = match id {
                0 => None,
                1..4 => Some(id - 1),
                _ => Some(rng.usize(..id)),
            };
            let data = (id == 0).then(|| Data::new(Role::Writer));
            Node { data, process: None, table, receiving: (0, 0), copy: None, cut_until: 0 }
        });
        let nodes = nodes.collect();
        let (lost, slow_disk, stores_epochs_late) = (rng.u8(..20), rng.u8(..100), rng.bool());
        let disk_delay_max = if rng.bool() { 30_000 } else { 200_000 };
        World {
            rng,
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            nodes,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            oracle: Oracle::new(),
            defect,
            has_faults: true,
            lost,
            slow_disk,
            disk_delay_max,
            stores_epochs_late,
            incarnation: 0,
            change: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Figures, Violation> {
        for server in 0..SERVERS {
            self.schedule(server as u64 * 1_000, Event::Start { server });
        }
        for client in 0..CLIENTS {
            self.schedule(5_000, Event::ClientActs { client });
        }
        self.schedule(30_000, Event::Fault);
        self.run_until(FAULTS_END)?;
        self.settle()?;
        Ok(self.oracle.figures)
    }

    fn run_until(&mut self, end: u64) -> Result<(), Violation> {
        while self.queue.peek().is_some_and(|Reverse(next)| next.time <= end) {
            let Some(Reverse(Scheduled { time, event, .. })) = self.queue.pop() else { break };
            self.now = time;
            if self.order > EVENTS_MAX {
                return violation(format!("too many events, the last one is {event:?}"));
            }
            self.handle(event)?;
            self.oracle.check(&self.all())?;
        }
        self.now = end;
        Ok(())
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Scheduled { time: self.now + after, order: self.order, event }));
    }

    fn chance(&mut self, of_256: u8) -> bool {
        self.has_faults && self.rng.u8(..) < of_256
    }

    /// Sends a message between two servers, or between a client and a server (`None`).
    fn send(&mut self, between: [Option<ServerId>; 2], event: Event) {
        let is_cut = between.iter().flatten().any(|id| self.nodes[*id].cut_until > self.now);
        let is_between_servers = between.iter().all(Option::is_some);
        if (is_cut && is_between_servers) || self.chance(self.lost) {
            self.oracle.figures.count(Case::LostMessages);
            return;
        }
        let delay = if self.chance(16) { self.rng.u64(1_000..30_000) } else { self.rng.u64(50..1_000) };
        self.schedule(delay, event);
    }

    fn all(&self) -> Vec<Option<&Data>> {
        self.nodes.iter().map(|node| node.data.as_ref()).collect()
    }

    fn epoch(&mut self) -> EpochName {
        self.rng.u128(..).to_be_bytes()
    }

    /// Returns the process of a server and its data, if the process has this incarnation.
    fn process(&mut self, server: ServerId, incarnation: u64) -> Option<(&mut Process, &mut Data)> {
        let Node { process, data, .. } = &mut self.nodes[server];
        process.as_mut().filter(|process| process.incarnation == incarnation).zip(data.as_mut())
    }

    fn incarnation_of(&self, server: ServerId) -> u64 {
        self.nodes[server].process.as_ref().map_or(0, |process| process.incarnation)
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        let now = self.now;
        match event {
            Event::Start { server } => self.start(server),
            Event::Turn { server, incarnation } => self.turn(server, incarnation)?,
            Event::Tick { server, incarnation } => {
                self.give(server, incarnation, |_, _, _| {})?;
                if self.incarnation_of(server) == incarnation {
                    self.schedule(TICK, Event::Tick { server, incarnation });
                }
            }
            Event::Connect { server, incarnation, link } => {
                self.give(server, incarnation, |process, data, sent| {
                    if process.link == link {
                        process.connect(data, now, sent);
                    }
                })?
            }
            Event::LogRequest { to: (server, incarnation), request } => {
                self.give(server, incarnation, |process, data, _| process.take_log_request(request, data))?;
            }
            Event::LogAnswer { to, answer } => {
                self.give(to.server, to.incarnation, |process, data, sent| {
                    process.take_log(to.link, answer, data, sent);
                })?
            }
            Event::LogTimeout { to, request } => {
                self.give(to.server, to.incarnation, |process, data, sent| {
                    if process.unanswered == Some(request) {
                        process.connect(data, now, sent);
                    }
                })?
            }
            Event::Forward { to: (server, incarnation), request } => {
                self.give(server, incarnation, |process, _, _| process.queue.push(request))?;
            }
            Event::Forwarded { to, operation, decided } => {
                self.give(to.server, to.incarnation, |process, data, sent| {
                    process.take_forwarded(operation, decided, data, sent);
                })?;
            }
            Event::ForwardTimeout { server, incarnation, operation } => {
                self.give(server, incarnation, |process, data, sent| {
                    process.expire_forwarded(operation, data, sent);
                })?;
            }
            Event::ClientActs { client } => self.client_acts(client),
            Event::ClientRequest { to, client, number } => self.client_request(to, client, number)?,
            Event::Response { client, number, response } => self.response(client, number, response),
            Event::ClientTimeout { client, number } => {
                if self.clients[client].number == number {
                    self.clients[client].outstanding = None;
                }
            }
            Event::Copy { server } => self.copy(server),
            Event::Fault => self.inject_fault()?,
        }
        Ok(())
    }

    /// Calls `give` on a process, sends its messages, and gives it a turn later if it has work.
    fn give(
        &mut self,
        server: ServerId,
        incarnation: u64,
        give: impl FnOnce(&mut Process, &mut Data, &mut Vec<Sent>),
    ) -> Result<(), Violation> {
        let (now, mut sent) = (self.now, Vec::new());
        let Some((process, data)) = self.process(server, incarnation) else { return Ok(()) };
        give(process, data, &mut sent);
        process.answer_ready(data, now, &mut sent);
        process.request_records(now, &mut sent);
        let wants_turn = process.has_work() && !process.has_turn;
        process.has_turn |= wants_turn;
        if wants_turn {
            let delay = if self.chance(self.slow_disk) {
                self.rng.u64(1_000..self.disk_delay_max)
            } else {
                self.rng.u64(100..2_000)
            };
            self.schedule(delay, Event::Turn { server, incarnation });
        }
        self.dispatch(server, incarnation, sent)
    }

    fn turn(&mut self, server: ServerId, incarnation: u64) -> Result<(), Violation> {
        let epoch = self.epoch();
        self.give(server, incarnation, |process, data, sent| {
            process.has_turn = false;
            process.work(data, epoch, sent);
        })
    }

    fn dispatch(&mut self, server: ServerId, incarnation: u64, sent: Vec<Sent>) -> Result<(), Violation> {
        for sent in sent {
            match sent {
                Sent::Log { to, peer, request } => {
                    let (caller, number) = (request.caller, request.number);
                    let target = (to, peer.unwrap_or_else(|| self.incarnation_of(to)));
                    self.send([Some(server), Some(to)], Event::LogRequest { to: target, request });
                    self.schedule(LINK_TIMEOUT, Event::LogTimeout { to: caller, request: number });
                }
                Sent::LogAnswer { to, answer } => {
                    if let (Err(refusal), Some(supplier), Some(replica)) =
                        (&answer.part, &self.nodes[server].data, &self.nodes[to.server].data)
                        && replica.position() == answer.request_position
                        && self.incarnation_of(to.server) == to.incarnation
                    {
                        self.oracle.refused(*refusal, supplier, replica)?;
                    }
                    self.send([Some(server), Some(to.server)], Event::LogAnswer { to, answer });
                }
                Sent::Forward { to, peer, operation, work } => {
                    let caller = Caller { server, incarnation, link: 0 };
                    let request = Request { sender: Sender::Replica { caller, operation }, work };
                    let target = (to, peer);
                    self.send([Some(server), Some(to)], Event::Forward { to: target, request });
                    self.schedule(LINK_TIMEOUT * 2, Event::ForwardTimeout { server, incarnation, operation });
                }
                Sent::Forwarded { to, operation, decided } => {
                    self.send([Some(server), Some(to.server)], Event::Forwarded { to, operation, decided });
                }
                Sent::Response { client, number, response } => {
                    self.check_response(server, client, number, response)?;
                    self.send([Some(server), None], Event::Response { client, number, response });
                }
                Sent::Reconnect => {
                    let link = self.nodes[server].process.as_ref().map_or(0, |process| process.link);
                    let after = self.rng.u64(2_000..30_000);
                    self.schedule(after, Event::Connect { server, incarnation, link });
                }
                Sent::Fact(fact) => self.fact(server, fact)?,
            }
        }
        Ok(())
    }

    fn fact(&mut self, server: ServerId, fact: Fact) -> Result<(), Violation> {
        let all: Vec<Option<&Data>> = self.nodes.iter().map(|node| node.data.as_ref()).collect();
        self.oracle.take(server, fact, &all)?;
        self.oracle.check_acknowledged(&all)
    }

    /// Checks a response when the server sends it, if the client still waits for it.
    fn check_response(
        &mut self,
        server: ServerId,
        client: usize,
        number: u32,
        response: Response,
    ) -> Result<(), Violation> {
        let client = &self.clients[client];
        let Some(change) = client.outstanding.filter(|_| client.number == number) else { return Ok(()) };
        let all: Vec<Option<&Data>> = self.nodes.iter().map(|node| node.data.as_ref()).collect();
        self.oracle.answered(server, (client.token, change), response, &all)
    }

    fn client_acts(&mut self, client: usize) {
        let next = self.rng.u64(500..15_000);
        self.schedule(next, Event::ClientActs { client });
        if self.clients[client].outstanding.is_some() || self.clients[client].is_finished {
            return;
        }
        let is_change = self.rng.bool();
        self.change += u64::from(is_change);
        let change = is_change.then_some(self.change);
        let state = &mut self.clients[client];
        state.number += 1;
        state.outstanding = Some(change);
        let number = state.number;
        let to = self.rng.usize(..SERVERS);
        self.send([None, Some(to)], Event::ClientRequest { to, client, number });
        self.schedule(CLIENT_TIMEOUT, Event::ClientTimeout { client, number });
    }

    fn client_request(&mut self, to: ServerId, client: usize, number: u32) -> Result<(), Violation> {
        let state = &self.clients[client];
        let Some(change) = state.outstanding.filter(|_| state.number == number) else { return Ok(()) };
        let read = Read { client, number, token: state.token, until: self.now + READ_WAIT };
        let incarnation = self.incarnation_of(to);
        self.give(to, incarnation, |process, _, _| match change {
            Some(change) => {
                let sender = Sender::Client { client, number };
                process.queue.push(Request { sender, work: Work::Change(change) });
            }
            None => process.reads.push(read),
        })
    }

    fn response(&mut self, client: usize, number: u32, response: Response) {
        let state = &mut self.clients[client];
        if state.number != number || state.outstanding.take().is_none() {
            return;
        }
        match response {
            Response::Changed(token) | Response::Read(token) => state.token = Some(token),
            Response::Lost => state.token = None,
            Response::Busy | Response::Unavailable => {}
        }
    }

    fn start(&mut self, server: ServerId) {
        let authority = self.oracle.authority;
        let node = &mut self.nodes[server];
        if node.process.is_some() {
            return;
        }
        let Some(data) = &mut node.data else {
            if node.table.is_none_or(|supplier| supplier == server) {
                node.table = Some(authority);
            }
            self.schedule(500, Event::Copy { server });
            return;
        };
        if data.role == Role::Replica && node.table.is_none() {
            // The server refuses to start, and the administrator names a supplier.
            node.table = Some(if authority == server { (server + 1) % SERVERS } else { authority });
        }
        self.incarnation += 1;
        let mut process = Process::start(server, data, self.incarnation, node.table, self.defect);
        process.stores_epochs_late = self.stores_epochs_late;
        if matches!(process.mode, Mode::Undecided) {
            self.oracle.figures.count(Case::Undecided);
        }
        let incarnation = process.incarnation;
        node.process = Some(process);
        self.schedule(TICK, Event::Tick { server, incarnation });
        self.schedule(500, Event::Connect { server, incarnation, link: 0 });
    }

    /// Kills a server. Requests that wait are lost. A commit may be durable although its answers are lost.
    fn crash(&mut self, server: ServerId) -> Result<(), Violation> {
        let (is_committed, epoch) = (self.rng.bool(), self.epoch());
        let node = &mut self.nodes[server];
        node.copy = None;
        let (Some(mut process), Some(data)) = (node.process.take(), node.data.as_mut()) else {
            return Ok(());
        };
        self.oracle.figures.count(Case::Crashes);
        let (incarnation, mut sent) = (process.incarnation, Vec::new());
        match self.defect {
            Some(Defect::AnswerBeforeDurable) => process.work(&mut data.clone(), epoch, &mut sent),
            _ if is_committed => {
                process.work(data, epoch, &mut sent);
                sent.retain(|sent| matches!(sent, Sent::Fact(_)));
            }
            _ => {}
        }
        self.dispatch(server, incarnation, sent)
    }
}
