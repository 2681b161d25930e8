//! A server's process: the requests that it accepts, and its work as a replica. [`super::writer`] contains the work
//! of a writer, [`super::supplier`] the work of a supplier.

use std::collections::VecDeque;

use super::Defect;
use super::client::{Read, Response, Token};
use super::data::{Data, Role, ServerId};
use super::oracle::Fact;
use crate::lineage::Lineage;
use crate::replica::{EpochName, ForwardBasis, Progress, Refusal, Visibility};

/// Number of blocks of records that may wait for their commit.
const BLOCKS_MAX: usize = 3;

/// Connection of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) server: ServerId,
    pub(super) incarnation: u64,
    pub(super) link: u64,
}

/// Request for records.
#[derive(Clone, Debug)]
pub(super) struct LogRequest {
    /// Number of the request in its process.
    pub(super) number: u64,
    pub(super) caller: Caller,
    pub(super) position: u64,
    /// The last record, in the first request of a connection.
    pub(super) last: Option<u64>,
    pub(super) lineage: Lineage,
    /// Time at which the request is answered without records.
    pub(super) until: u64,
    pub(super) count: usize,
}

#[derive(Clone, Debug)]
pub(super) struct LogAnswer {
    /// Position in the request.
    pub(super) request_position: u64,
    /// Incarnation of the supplier.
    pub(super) incarnation: u64,
    pub(super) lineage: Lineage,
    pub(super) part: Result<(u64, Vec<u64>), Refusal>,
}

/// Work for the thread that changes the data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Change(u64),
    Fence(EpochName),
    Promote { without_supplier: bool },
}

/// Sender of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    Client {
        client: usize,
        number: u32,
    },
    Replica {
        caller: Caller,
        operation: u64,
    },
    /// The administrator or the server itself. Neither receives an answer.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) sender: Sender,
    pub(super) work: Work,
}

/// Message that a process sends, or a fact for the oracle.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// `peer` is the incarnation of the supplier, if the connection is open already.
    Log {
        to: ServerId,
        peer: Option<u64>,
        request: LogRequest,
    },
    LogAnswer {
        to: Caller,
        answer: LogAnswer,
    },
    Forward {
        to: ServerId,
        peer: u64,
        operation: u64,
        work: Work,
    },
    /// Answer to a forwarded change. `decided` is the position of the change; `None` if the change was refused or its
    /// outcome is unknown.
    Forwarded {
        to: Caller,
        operation: u64,
        decided: Option<u64>,
    },
    Response {
        client: usize,
        number: u32,
        response: Response,
    },
    /// The process connects again after a pause.
    Reconnect,
    Fact(Fact),
}

/// Role of a process.
#[derive(Debug)]
pub(super) enum Mode {
    /// `watches` is true if the node file still names the former supplier.
    Writer {
        watches: bool,
    },
    Replaced,
    Undecided,
    Replica(Box<Replica>),
}

/// Consecutive records of the supplier.
#[derive(Debug)]
struct Block {
    link: u64,
    first: u64,
    records: Vec<u64>,
    lineage: Lineage,
}

/// Change that was forwarded.
#[derive(Debug)]
struct Forwarded {
    operation: u64,
    sender: Sender,
    is_promotion: bool,
    /// `None` if the defect lets a replica forward changes at any time.
    basis: Option<ForwardBasis>,
    /// Position, when the supplier has decided the change.
    decided: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) progress: Progress,
    /// Position and lineage up to which records were read.
    read: (u64, Lineage),
    blocks: VecDeque<Block>,
    /// Number of the last connection whose records are ignored.
    unwanted: u64,
    pub(super) halted: Option<Refusal>,
    /// Changes that wait to be forwarded. The flag is true if the request promotes this server.
    waiting: Vec<(Request, bool)>,
    forwarded: Vec<Forwarded>,
    /// Name of the epoch that this server will begin.
    epoch: Option<EpochName>,
    promoting: Option<IsPlanned>,
}

/// Whether a promotion asked the writer to stop.
type IsPlanned = bool;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ServerId,
    pub(super) incarnation: u64,
    pub(super) mode: Mode,
    /// Supplier in the node file.
    pub(super) supplier: Option<ServerId>,
    pub(super) defect: Option<Defect>,
    /// Whether an epoch is stored only with the first record that arrives after it was received.
    pub(super) stores_epochs_late: bool,
    /// Number of the present connection to the supplier.
    pub(super) link: u64,
    /// Incarnation of the supplier that answers on the connection.
    peer: u64,
    pub(super) queue: Vec<Request>,
    pub(super) log_requests: Vec<LogRequest>,
    pub(super) reads: Vec<Read>,
    operation: u64,
    /// Number of the unanswered request for records, if there is one. The last request has the number `request_count`.
    pub(super) unanswered: Option<u64>,
    request_count: u64,
    pub(super) has_turn: bool,
}

impl Process {
    /// Starts a server. The role in its data and the supplier in its node file determine its mode.
    pub(super) fn start(
        id: ServerId,
        data: &mut Data,
        incarnation: u64,
        supplier: Option<ServerId>,
        defect: Option<Defect>,
    ) -> Process {
        let mode = match (supplier, data.role) {
            (None, role) if role.may_write() => Mode::Writer { watches: false },
            (None, _) => Mode::Replaced,
            (Some(supplier), Role::Promoted { supplier: former }) if supplier == former => Mode::Undecided,
            (Some(_), _) => {
                data.role = Role::Replica;
                Mode::Replica(Box::new(Replica::new(data)))
            }
        };
        Process {
            id,
            incarnation,
            mode,
            supplier,
            defect,
            stores_epochs_late: false,
            link: 0,
            peer: 0,
            queue: Vec::new(),
            log_requests: Vec::new(),
            reads: Vec::new(),
            operation: 0,
            unanswered: None,
            request_count: 0,
            has_turn: false,
        }
    }

    pub(super) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    pub(super) fn replica(&self) -> Option<&Replica> {
        match &self.mode {
            Mode::Replica(replica) => Some(replica),
            _ => None,
        }
    }

    /// Returns true if the process can work on something that has arrived.
    pub(super) fn has_work(&self) -> bool {
        match &self.mode {
            Mode::Replica(replica) => {
                let is_unchecked = self.has(Defect::UnconfirmedPosition);
                let forwards = !replica.waiting.is_empty() && replica.may_forward(is_unchecked);
                let has_requests = !self.queue.is_empty() || forwards;
                !replica.blocks.is_empty()
                    || replica.promoting.is_some()
                    || has_requests
                    || replica.has_decided()
            }
            _ => !self.queue.is_empty(),
        }
    }

    /// Ends all connections to the supplier. Changes without an answer may have been made.
    pub(super) fn break_connections(&mut self, data: &Data, sent: &mut Vec<Sent>) {
        let Mode::Replica(replica) = &mut self.mode else { return };
        for forwarded in replica.forwarded.extract_if(.., |one| one.decided.is_none()) {
            answer(forwarded.sender, None, data, sent);
        }
    }

    /// Connects to the supplier and sends the first request.
    pub(super) fn connect(&mut self, data: &Data, now: u64, sent: &mut Vec<Sent>) {
        let Some(supplier) = self.supplier else { return };
        self.link += 1;
        let keeps_confirmed = self.has(Defect::UnconfirmedPosition);
        let waits = match &mut self.mode {
            Mode::Replica(replica) => {
                replica.read = (data.position(), data.lineage.clone());
                if !keeps_confirmed {
                    replica.progress.connected(self.link);
                }
                true
            }
            Mode::Undecided | Mode::Writer { watches: true } => false,
            Mode::Writer { .. } | Mode::Replaced => return,
        };
        let request = self.log_request(data.position(), data.lineage.clone(), data.change(data.position()));
        let until = if waits { now + super::world::LOG_WAIT } else { now };
        sent.push(Sent::Log { to: supplier, peer: None, request: LogRequest { until, ..request } });
    }

    fn log_request(&mut self, position: u64, lineage: Lineage, last: Option<u64>) -> LogRequest {
        let caller = Caller { server: self.id, incarnation: self.incarnation, link: self.link };
        self.request_count += 1;
        self.unanswered = Some(self.request_count);
        LogRequest { number: self.request_count, caller, position, last, lineage, until: 0, count: 4 }
    }

    /// Asks for the next records, if the answer to the last request has arrived and there is room.
    pub(super) fn request_records(&mut self, now: u64, sent: &mut Vec<Sent>) {
        let (Some(supplier), Mode::Replica(replica)) = (self.supplier, &mut self.mode) else { return };
        let is_open = replica.halted.is_none() && self.link > replica.unwanted;
        if self.unanswered.is_some() || !is_open || replica.blocks.len() >= BLOCKS_MAX {
            return;
        }
        let (position, lineage) = replica.read.clone();
        let request = self.log_request(position, lineage, None);
        let request = LogRequest { until: now + super::world::LOG_WAIT, ..request };
        sent.push(Sent::Log { to: supplier, peer: Some(self.peer), request });
    }

    /// Handles the answer to a request for records.
    pub(super) fn take_log(&mut self, link: u64, answer: LogAnswer, data: &mut Data, sent: &mut Vec<Sent>) {
        if link != self.link {
            return;
        }
        (self.unanswered, self.peer) = (None, answer.incarnation);
        let replica = match &mut self.mode {
            Mode::Undecided => return self.decide(&answer.lineage, data, sent),
            Mode::Writer { .. } => {
                if let Some(later) = answer.lineage.later_epoch(&data.lineage) {
                    self.queue.push(Request { sender: Sender::Other, work: Work::Fence(later.id) });
                }
                return sent.push(Sent::Reconnect);
            }
            Mode::Replaced => return,
            Mode::Replica(replica) => replica,
        };
        match answer.part {
            Ok((first, records)) if first == replica.read.0 + 1 => {
                replica.halted = None;
                let position = replica.read.0 + records.len() as u64;
                replica.read = (position, answer.lineage.up_to(position));
                replica.blocks.push_back(Block { link, first, records, lineage: answer.lineage });
            }
            Ok(_) => sent.push(Sent::Reconnect),
            Err(refusal) => {
                replica.halted = Some(refusal);
                if self.defect != Some(Defect::UnconfirmedPosition) {
                    replica.progress.disconnected();
                }
                sent.push(Sent::Reconnect);
            }
        }
    }

    /// Decides the role of a promoted server by the lineage of its former supplier.
    fn decide(&mut self, theirs: &Lineage, data: &mut Data, sent: &mut Vec<Sent>) {
        self.mode = match theirs.has_further_epoch(&data.lineage) {
            true => {
                data.role = Role::Replica;
                Mode::Replica(Box::new(Replica::new(data)))
            }
            false => Mode::Writer { watches: true },
        };
        sent.push(Sent::Reconnect);
    }

    /// Handles the supplier's answer to a forwarded change: the position of the change, or `None` if the change was
    /// refused or its outcome is unknown.
    pub(super) fn take_forwarded(
        &mut self,
        operation: u64,
        decided: Option<u64>,
        data: &Data,
        sent: &mut Vec<Sent>,
    ) {
        let Mode::Replica(replica) = &mut self.mode else { return };
        let Some(at) = replica.forwarded.iter().position(|one| one.operation == operation) else { return };
        match decided {
            Some(position) => replica.forwarded[at].decided = Some(position),
            None => {
                let forwarded = replica.forwarded.remove(at);
                answer(forwarded.sender, None, data, sent);
            }
        }
    }

    /// Gives up waiting for a forwarded change, whose outcome is then unknown.
    pub(super) fn expire_forwarded(&mut self, operation: u64, data: &Data, sent: &mut Vec<Sent>) {
        let Mode::Replica(replica) = &mut self.mode else { return };
        for forwarded in replica.forwarded.extract_if(.., |one| one.operation == operation) {
            answer(forwarded.sender, None, data, sent);
        }
    }

    /// Works as a replica: applies records, forwards changes, and answers the changes that the data shows.
    pub(super) fn follow(&mut self, data: &mut Data, epoch: EpochName, sent: &mut Vec<Sent>) {
        for request in std::mem::take(&mut self.queue) {
            self.take_request(request, epoch);
        }
        self.forward(sent);
        self.apply(data, sent);
        self.answer_shown(data, sent);
        let Mode::Replica(replica) = &mut self.mode else { return };
        if let Some(is_planned) = replica.promoting.take()
            && let Some(epoch) = replica.epoch
        {
            self.promote(epoch, is_planned, data, sent);
        }
    }

    /// Accepts a request that is to be forwarded. `epoch` is a new name.
    fn take_request(&mut self, request: Request, epoch: EpochName) {
        let passes_fences = self.has(Defect::FencePassedOn);
        let Mode::Replica(replica) = &mut self.mode else { return };
        match request.work {
            Work::Promote { without_supplier } => {
                let epoch = *replica.epoch.get_or_insert(epoch);
                match without_supplier {
                    true => replica.promoting = Some(false),
                    false => replica.waiting.push((Request { work: Work::Fence(epoch), ..request }, true)),
                }
            }
            // Only a writer stops if a request for records has a further epoch. This server may not have learned yet
            // that its supplier has a later epoch.
            Work::Fence(_) if matches!(request.sender, Sender::Other) && !passes_fences => {}
            _ => replica.waiting.push((request, false)),
        }
    }

    /// Forwards the changes that wait, unless earlier changes are unanswered.
    fn forward(&mut self, sent: &mut Vec<Sent>) {
        let is_unchecked = self.has(Defect::UnconfirmedPosition);
        let (Some(supplier), Mode::Replica(replica)) = (self.supplier, &mut self.mode) else { return };
        if !replica.may_forward(is_unchecked) {
            return;
        }
        for (request, is_promotion) in std::mem::take(&mut replica.waiting) {
            self.operation += 1;
            let (operation, sender, basis) = (self.operation, request.sender, replica.progress.basis());
            replica.forwarded.push(Forwarded { operation, sender, is_promotion, basis, decided: None });
            sent.push(Sent::Forward { to: supplier, peer: self.peer, operation, work: request.work });
        }
    }

    /// Applies records that have arrived. All records of one connection are in one commit.
    fn apply(&mut self, data: &mut Data, sent: &mut Vec<Sent>) {
        let mixes = self.has(Defect::ConnectionsMixed);
        let Mode::Replica(replica) = &mut self.mode else { return };
        let blocks: Vec<Block> = replica.blocks.drain(..).collect();
        let last = blocks.last().map_or(0, |block| block.link);
        let is_one_commit = |one: &Block, next: &Block| one.link == next.link || (mixes && next.link != last);
        for group in blocks.chunk_by(is_one_commit) {
            self.apply_group(group, data, sent);
        }
    }

    fn apply_group(&mut self, group: &[Block], data: &mut Data, sent: &mut Vec<Sent>) {
        let (defect, stores_late) = (self.defect, self.stores_epochs_late);
        let (Mode::Replica(replica), Some(begin), Some(last)) = (&mut self.mode, group.first(), group.last())
        else {
            return;
        };
        if last.link <= replica.unwanted {
            return;
        }
        let mut first = begin.first;
        let mut records: Vec<u64> = group.iter().flat_map(|block| &block.records).copied().collect();
        if defect == Some(Defect::OverlapSkipped) && first <= data.position() {
            let known = (data.position() + 1 - first) as usize;
            records = records.split_off(known.min(records.len()));
            first = data.position() + 1;
        }
        let count = records.len() as u64;
        let Some(progress) = replica.progress.after(last.link, first, count, &last.lineage) else {
            replica.unwanted = last.link;
            sent.push(Sent::Fact(Fact::Overlap));
            sent.push(Sent::Reconnect);
            return;
        };
        let lineage = match defect {
            Some(Defect::EpochAdoptedEarly) => last.lineage.clone(),
            _ => progress.lineage().clone(),
        };
        if !records.is_empty() || !stores_late {
            data.lineage = lineage;
        }
        records.into_iter().for_each(|record| data.append(record));
        replica.progress = progress;
    }

    /// Answers the forwarded changes that the data shows or whose outcome is unknown.
    fn answer_shown(&mut self, data: &Data, sent: &mut Vec<Sent>) {
        let defect = self.defect;
        let Mode::Replica(replica) = &mut self.mode else { return };
        let mut promoting = None;
        for one in std::mem::take(&mut replica.forwarded) {
            let visibility = match (defect, one.decided) {
                (Some(Defect::AnswerBeforeShown), Some(_)) => Visibility::Shown,
                _ => replica.visibility(&one),
            };
            match visibility {
                Visibility::Later => replica.forwarded.push(one),
                Visibility::Shown if one.is_promotion => promoting = Some(true),
                Visibility::Shown => answer(one.sender, Some(data.position()), data, sent),
                Visibility::Unknown => {
                    sent.push(Sent::Fact(Fact::Unknown));
                    answer(one.sender, None, data, sent);
                }
            }
        }
        replica.promoting = replica.promoting.or(promoting);
    }

    /// Makes this server the writer, in a new epoch.
    pub(super) fn promote(
        &mut self,
        epoch: EpochName,
        is_planned: bool,
        data: &mut Data,
        sent: &mut Vec<Sent>,
    ) {
        let Some(lineage) = data.lineage.promoted(data.position(), epoch) else { return };
        data.lineage = lineage;
        data.role = Role::Promoted { supplier: self.supplier.unwrap_or(usize::MAX) };
        sent.push(Sent::Fact(Fact::Promoted { epoch, is_planned }));
        if let Mode::Replica(replica) = &mut self.mode {
            let senders = replica.forwarded.iter().map(|forwarded| forwarded.sender);
            for sender in senders.chain(replica.waiting.iter().map(|(request, _)| request.sender)) {
                answer(sender, None, data, sent);
            }
        }
        self.mode = Mode::Writer { watches: self.supplier.is_some() };
        sent.push(Sent::Reconnect);
    }
}

impl Replica {
    fn new(data: &Data) -> Replica {
        Replica {
            progress: Progress::new(data.position(), data.lineage.clone()),
            read: (data.position(), data.lineage.clone()),
            blocks: VecDeque::new(),
            unwanted: 0,
            halted: None,
            waiting: Vec::new(),
            forwarded: Vec::new(),
            epoch: None,
            promoting: None,
        }
    }

    /// Returns true if the data shows a forwarded change, or its outcome is unknown.
    fn has_decided(&self) -> bool {
        self.forwarded.iter().any(|one| self.visibility(one) != Visibility::Later)
    }

    fn visibility(&self, one: &Forwarded) -> Visibility {
        match (one.decided, &one.basis) {
            (Some(position), Some(basis)) if one.is_promotion => self.progress.may_promote(basis, position),
            (Some(position), Some(basis)) => self.progress.visibility(basis, position),
            (Some(position), None) if position <= self.progress.position() => Visibility::Shown,
            _ => Visibility::Later,
        }
    }

    /// Returns true if changes can be forwarded now.
    fn may_forward(&self, is_unchecked: bool) -> bool {
        let awaits_answer = self.forwarded.iter().any(|forwarded| forwarded.decided.is_none());
        !awaits_answer && (is_unchecked || self.progress.basis().is_some())
    }
}

/// Answers the sender of a change. `decided` is a position at which this server shows it; `None` if it was refused, or
/// if its outcome is unknown.
pub(super) fn answer(sender: Sender, decided: Option<u64>, data: &Data, sent: &mut Vec<Sent>) {
    match sender {
        Sender::Other => {}
        Sender::Client { client, number } => {
            let response = decided.map_or(Response::Unavailable, |_| Response::Changed(Token::of(data)));
            sent.push(Sent::Response { client, number, response });
        }
        Sender::Replica { caller, operation } => {
            sent.push(Sent::Forwarded { to: caller, operation, decided })
        }
    }
}
