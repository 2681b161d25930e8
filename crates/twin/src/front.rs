//! Forwards the requests of clients to the active server, and its responses to the clients. Records both.
//!
//! One thread runs all connections, so that their order needs no locks. Complete messages are forwarded unchanged, as
//! soon as they arrive. Forwarding never waits for the replay.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ldap::response::{LdapResult, encode_extended_response, encode_notice_of_disconnection};
use ldap::{Controls, Request, Response, ResponseMessage, ResultCode, oids};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, Notify};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::exchange::{DECODE_LIMITS, Event, Exchange, Kind, charge_of, decode};
use crate::limits::{DRAIN, DRAIN_LOOK, EXCHANGE_BYTES_MAX, MESSAGE_SIZE_MAX, READ_SIZE};
use crate::shared::Shared;
use crate::upstream::{self, BoxedSocket};
use crate::worker::Server;

/// Time for which a closed connection waits for the answers to its changes.
const LINGER: Duration = Duration::from_secs(5);

/// State of forwarding, used only by its one thread.
pub(crate) struct Front {
    servers: [Server; 2],
    /// Number of the active server, which answers clients.
    active: Cell<usize>,
    is_paused: Cell<bool>,
    resumed: Notify,
    changes_started: Cell<u64>,
    changes_outstanding: Cell<u64>,
    last_client: Cell<u64>,
    /// For each connection of a client, the handle that ends the connection.
    clients: RefCell<HashMap<u64, Rc<Notify>>>,
    /// Number of accepted connections, including those without a connection to the active server yet.
    accepted: Cell<usize>,
    connections_max: usize,
    pub(crate) shared: Arc<Shared>,
    events: Sender<Event>,
}

/// Place of a client among the maximum number of connections. Dropping it makes room for another client.
pub(crate) struct Place(Rc<Front>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.accepted.set(self.0.accepted.get().saturating_sub(1));
    }
}

/// A request that has not received its last response.
struct Pending {
    kind: Kind,
    request: Vec<u8>,
    responses: Vec<u8>,
    is_complete: bool,
    started: Instant,
    changes_started: u64,
    overlaps_change: bool,
    charge: usize,
}

/// Connection of a client.
struct Client {
    front: Rc<Front>,
    number: u64,
    server: usize,
    pending: RefCell<HashMap<i32, Pending>>,
    /// Whether the last bind was not recorded, so that the other server has another identity for this client.
    lacks_bind: Cell<bool>,
    /// Notified when a pending request gets its last response.
    answered: Notify,
}

impl Front {
    pub(crate) fn new(
        servers: [Server; 2],
        connections_max: usize,
        shared: Arc<Shared>,
        events: Sender<Event>,
    ) -> Front {
        Front {
            servers,
            active: Cell::new(0),
            is_paused: Cell::new(false),
            resumed: Notify::new(),
            changes_started: Cell::new(0),
            changes_outstanding: Cell::new(0),
            last_client: Cell::new(0),
            clients: RefCell::default(),
            accepted: Cell::new(0),
            connections_max,
            shared,
            events,
        }
    }

    /// Returns the number of the active server: 0 is the old server.
    pub(crate) fn active(&self) -> usize {
        self.active.get()
    }

    pub(crate) fn client_count(&self) -> usize {
        self.clients.borrow().len()
    }

    /// Makes a server active once all changes are replayed on it, and ends all connections of clients. The clients must
    /// then connect again. Fails if the replay takes longer than [`DRAIN`] or the other server lacks changes.
    pub(crate) async fn switch(&self, to: usize) -> Result<(), String> {
        if self.active.get() == to {
            return Err("this server answers the clients already".to_owned());
        }
        if self.is_paused.replace(true) {
            return Err("a switch is in progress".to_owned());
        }
        let drained = timeout(DRAIN, self.drained()).await;
        let outcome = match (drained, self.shared.out_of_step()) {
            (_, Some(reason)) => Err(format!("the other server lacks changes: {reason}")),
            (Err(_), None) => Err(format!(
                "{} answers are not replayed yet and {} changes have no answer after {} seconds: try again later",
                self.shared.waiting(),
                self.changes_outstanding.get(),
                DRAIN.as_secs()
            )),
            (Ok(()), None) => {
                self.active.set(to);
                self.clients.borrow().values().for_each(|client| client.notify_one());
                Ok(())
            }
        };
        self.is_paused.set(false);
        self.resumed.notify_waiters();
        outcome
    }

    async fn drained(&self) {
        while self.changes_outstanding.get() > 0 || self.shared.waiting() > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    /// Returns a place for a new connection; `None` if there are as many connections as are allowed.
    pub(crate) fn admit(self: &Rc<Front>) -> Option<Place> {
        let count = self.accepted.get();
        (count < self.connections_max).then(|| {
            self.accepted.set(count + 1);
            Place(Rc::clone(self))
        })
    }

    /// Serves a client until one side ends the connection.
    pub(crate) async fn serve(self: Rc<Front>, socket: BoxedSocket) {
        let (from_client, to_client) = tokio::io::split(socket);
        let to_client = Rc::new(Mutex::new(to_client));
        let (server, url, connected) = loop {
            while self.is_paused.get() {
                self.resumed.notified().await;
            }
            let server = self.active.get();
            let Some(url) = self.servers.get(server) else { return };
            let connected = upstream::connect(url).await;
            // A switch ends only the connections in `clients`, and this one is not yet in there. So there must be no
            // await between this check and the insertion.
            if self.active.get() == server {
                break (server, url, connected);
            }
        };
        let upstream = match connected {
            Ok(upstream) => upstream,
            Err(error) => {
                eprintln!("pando: cannot connect to {}: {error}", url.url);
                notify(&to_client, ResultCode::UNAVAILABLE, "the server of this proxy does not answer").await;
                return;
            }
        };
        let number = self.last_client.get() + 1;
        self.last_client.set(number);
        let ended = Rc::new(Notify::new());
        self.clients.borrow_mut().insert(number, Rc::clone(&ended));
        let (from_server, to_server) = tokio::io::split(upstream);
        let client = Rc::new(Client::new(Rc::clone(&self), number, server));
        client.run((from_client, to_client), (from_server, to_server), ended).await;
        self.clients.borrow_mut().remove(&number);
    }

    fn send(&self, event: Event) {
        self.shared.queued();
        if self.events.send(event).is_err() {
            self.shared.replayed();
            self.shared.set_out_of_step("the thread that replays has failed");
        }
    }
}

type ToClient = Rc<Mutex<WriteHalf<BoxedSocket>>>;

impl Client {
    fn new(front: Rc<Front>, number: u64, server: usize) -> Client {
        let (pending, lacks_bind) = (RefCell::default(), Cell::new(false));
        Client { front, number, server, pending, lacks_bind, answered: Notify::new() }
    }

    async fn run(
        self: Rc<Client>,
        (from_client, to_client): (ReadHalf<BoxedSocket>, ToClient),
        (from_server, to_server): (ReadHalf<BoxedSocket>, WriteHalf<BoxedSocket>),
        ended: Rc<Notify>,
    ) {
        let requests = spawn_local({
            let (client, to_client, ended) = (Rc::clone(&self), Rc::clone(&to_client), Rc::clone(&ended));
            async move {
                client.requests(from_client, to_server, &to_client).await;
                // The client has disconnected, but the comparison still needs the answers to its changes.
                let _ = timeout(LINGER, client.changes_answered()).await;
                ended.notify_one();
            }
        });
        let responses = spawn_local({
            let (client, to_client, ended) = (Rc::clone(&self), Rc::clone(&to_client), Rc::clone(&ended));
            async move {
                client.responses(from_server, &to_client).await;
                ended.notify_one();
            }
        });
        ended.notified().await;
        requests.abort();
        responses.abort();
        if self.front.active.get() != self.server {
            notify(&to_client, ResultCode::UNAVAILABLE, "another server takes over: connect again").await;
        }
        let _ = to_client.lock().await.shutdown().await;
        let rest: Vec<i32> = self.pending.borrow().keys().copied().collect();
        for id in rest {
            self.unanswered(id);
        }
        self.front.send(Event::Closed(self.number));
    }

    async fn changes_answered(&self) {
        while self.pending.borrow().values().any(|pending| pending.kind.is_change()) {
            self.answered.notified().await;
        }
    }

    /// Forwards requests until the client ends the connection.
    async fn requests(
        &self,
        mut from: ReadHalf<BoxedSocket>,
        mut to: WriteHalf<BoxedSocket>,
        to_client: &ToClient,
    ) {
        let mut buffer = Vec::with_capacity(READ_SIZE);
        let mut forwarded = Vec::new();
        loop {
            let mut consumed = 0;
            while let Some(frame) = next_frame(buffer.get(consumed..).unwrap_or_default()) {
                let Ok(frame) = frame else { return };
                while self.front.is_paused.get() {
                    self.front.resumed.notified().await;
                }
                consumed += frame.len();
                match self.request(frame) {
                    Some(refusal) => {
                        if to_client.lock().await.write_all(&refusal).await.is_err() {
                            return;
                        }
                    }
                    None => forwarded.extend_from_slice(frame),
                }
            }
            buffer.drain(..consumed);
            if !forwarded.is_empty() {
                if to.write_all(&forwarded).await.is_err() || to.flush().await.is_err() {
                    return;
                }
                forwarded.clear();
                forwarded.shrink_to(READ_SIZE);
                buffer.shrink_to(READ_SIZE);
            }
            buffer.reserve(READ_SIZE);
            if !matches!(from.read_buf(&mut buffer).await, Ok(read) if read > 0) {
                return;
            }
        }
    }

    /// Records a request. Returns the answer if the proxy itself answers the request: the refusal of StartTLS.
    fn request(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let message = decode(frame)?;
        if let Request::Abandon(id) = message.request {
            // A bind cannot be abandoned (RFC 4511 section 4.11).
            let is_bind = self.pending.borrow().get(&id.0).is_some_and(|pending| pending.kind == Kind::Bind);
            if !is_bind {
                self.unanswered(id.0);
            }
        }
        if let Request::Extended(extended) = message.request
            && extended.name == oids::START_TLS
        {
            let mut refusal = Vec::new();
            let text = "this proxy offers TLS on a port of its own: connect with ldaps://";
            let result = LdapResult::new(ResultCode::UNAVAILABLE, text);
            let name = Some(oids::START_TLS);
            encode_extended_response(&mut refusal, message.id, &result, name, None, Controls::NONE);
            return Some(refusal);
        }
        let kind = Kind::of(&message.request)?;
        let front = &self.front;
        let overlaps_change = front.changes_outstanding.get() > 0;
        // Ends an earlier request if the client has used its message id again before its answer.
        self.unanswered(message.id.0);
        let charge = charge_of(frame);
        if !self.reserve(kind, charge) {
            return None;
        }
        if kind.is_change() {
            front.changes_started.set(front.changes_started.get() + 1);
            front.changes_outstanding.set(front.changes_outstanding.get() + 1);
        }
        let pending = Pending {
            kind,
            request: frame.to_vec(),
            responses: Vec::new(),
            is_complete: true,
            started: Instant::now(),
            changes_started: front.changes_started.get(),
            overlaps_change,
            charge,
        };
        self.pending.borrow_mut().insert(message.id.0, pending);
        None
    }

    /// Reserves the queue's bytes for a request. Returns false if the request cannot be replayed.
    fn reserve(&self, kind: Kind, charge: usize) -> bool {
        let shared = &self.front.shared;
        let is_bound = kind == Kind::Bind || !self.lacks_bind.get();
        let is_reserved = is_bound && shared.reserve(charge, kind.is_needed());
        if kind == Kind::Bind {
            self.lacks_bind.set(!is_reserved);
        }
        if is_reserved {
            return true;
        }
        if kind.is_change() {
            shared.set_out_of_step(match is_bound {
                true => "the queue of changes to replay was full",
                false => "the queue was full at the bind of a client that then made a change",
            });
        }
        shared.figures().skipped(match is_bound {
            true => "the queue was full",
            false => "the queue was full at the bind of the client",
        });
        false
    }

    /// Forwards responses until the server ends the connection.
    async fn responses(&self, mut from: ReadHalf<BoxedSocket>, to: &ToClient) {
        let mut buffer = Vec::with_capacity(READ_SIZE);
        loop {
            let mut whole = 0;
            while let Some(frame) = next_frame(buffer.get(whole..).unwrap_or_default()) {
                let Ok(frame) = frame else { return };
                self.response(frame);
                whole += frame.len();
            }
            if whole > 0 {
                let mut to = to.lock().await;
                let bytes = buffer.get(..whole).unwrap_or_default();
                if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
                    return;
                }
                buffer.drain(..whole);
                buffer.shrink_to(READ_SIZE);
            }
            buffer.reserve(READ_SIZE);
            if !matches!(from.read_buf(&mut buffer).await, Ok(read) if read > 0) {
                return;
            }
        }
    }

    /// Records a response. The last response to a request completes its exchange.
    fn response(&self, frame: &[u8]) {
        let Ok(message) = ResponseMessage::decode(frame, &DECODE_LIMITS) else { return };
        let id = message.id.0;
        let is_last = message.response.result().is_some();
        let mut all = self.pending.borrow_mut();
        let Some(pending) = all.get_mut(&id) else { return };
        let is_counted = !matches!(message.response, Response::Intermediate { .. });
        if is_counted && pending.is_complete {
            let fits = pending.responses.len() + frame.len() <= EXCHANGE_BYTES_MAX;
            if fits && self.front.shared.reserve(frame.len(), pending.kind.is_needed()) {
                pending.charge += frame.len();
                pending.responses.extend_from_slice(frame);
            } else {
                self.front.shared.release(pending.responses.len());
                pending.charge -= pending.responses.len();
                (pending.responses, pending.is_complete) = (Vec::new(), false);
            }
        }
        if !is_last {
            return;
        }
        let pending = all.remove(&id);
        drop(all);
        if let Some(pending) = pending {
            self.complete(pending);
        }
    }

    /// Passes a request to the replay.
    fn complete(&self, pending: Pending) {
        let front = &self.front;
        front.ended(pending.kind);
        let own = u64::from(pending.kind.is_change());
        let others_before = pending.overlaps_change;
        let others_since = front.changes_started.get() > pending.changes_started;
        let others_now = front.changes_outstanding.get() > 0 && own == 1;
        self.answered.notify_one();
        front.send(Event::Exchange(Box::new(Exchange {
            client: self.number,
            answered_by: self.server,
            kind: pending.kind,
            request: pending.request,
            responses: pending.responses,
            is_complete: pending.is_complete,
            overlaps_change: others_before || others_since || others_now,
            latency: pending.started.elapsed(),
            charge: pending.charge,
        })));
    }

    /// Ends a request that received no response. A change or a bind is replayed, because the server may have made it.
    fn unanswered(&self, id: i32) {
        let Some(mut pending) = self.pending.borrow_mut().remove(&id) else { return };
        if pending.kind.is_needed() {
            pending.is_complete = false;
            self.complete(pending);
        } else {
            self.front.shared.release(pending.charge);
            self.front.shared.figures().skipped("the client did not wait for the answer");
        }
    }
}

impl Front {
    fn ended(&self, kind: Kind) {
        if kind.is_change() {
            self.changes_outstanding.set(self.changes_outstanding.get().saturating_sub(1));
        }
    }
}

/// Returns the complete message at the beginning of `bytes`; `None` if it is incomplete. Returns an error if the bytes
/// cannot begin a message.
fn next_frame(bytes: &[u8]) -> Option<Result<&[u8], ()>> {
    if bytes.is_empty() {
        return None;
    }
    match ldap::frame_len(bytes) {
        Ok(Some(len)) if len > MESSAGE_SIZE_MAX => Some(Err(())),
        Ok(Some(len)) => bytes.get(..len).map(Ok),
        Ok(None) => None,
        Err(_) => Some(Err(())),
    }
}

async fn notify(to_client: &ToClient, code: ResultCode, text: &str) {
    let mut notice = Vec::new();
    encode_notice_of_disconnection(&mut notice, code, text);
    let mut to_client = to_client.lock().await;
    let _ = to_client.write_all(&notice).await;
    let _ = to_client.flush().await;
}

#[cfg(test)]
mod tests;
