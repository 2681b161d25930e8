//! The acceptor listens, accepts connections, and passes each one to the event loop with the fewest connections.
//!
//! The acceptor runs on the thread of the first event loop, whose epoll instance includes the acceptor's epoll
//! instance. Therefore connections of that loop are not passed between threads. A separate thread would cost two
//! context switches and a wake-up for each connection.
//!
//! One listener per loop (SO_REUSEPORT) would make the messages to the other loops unnecessary, but has disadvantages.
//! The kernel spreads connections by a hash, so that the few long-lived connections of LDAP clients may crowd on one
//! core while another idles. Two servers could share a port without noticing. The threads would also have to agree on
//! the connection limit, on a lack of file descriptors, and on the time to stop accepting.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ldap::{ResultCode, ServerUrl, response};
use mio::net::UnixStream;
use mio::{Events, Poll, Token, Waker};

use crate::config::ListenerIndex;
use crate::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_INTERVAL, ACCEPTS_PER_PASS_MAX};
use crate::net::descriptors::{self, DescriptorLimits};
use crate::net::listener::{BoundPorts, ListenError, Listener};
use crate::net::mailbox::{LoopMessage, Mailbox};
use crate::net::stream::{Accepted, Peer, Stream};
use crate::telemetry::counters::Counters;

/// Epoll token of the waker. The token of a listener is its index.
const WAKER: Token = Token(usize::MAX);

/// State of the acceptor that other threads access: limits, counters, and the request to stop.
#[derive(Debug)]
pub(crate) struct AcceptorControl {
    waker: Waker,
    stopping: AtomicBool,
    /// Maximum number of open connections, from the settings.
    pub(crate) connections_max: AtomicUsize,
    descriptors: DescriptorLimits,
    /// Maximum number of connections that the process's file descriptors allow, computed once at the start.
    connections_possible: AtomicUsize,
    /// Number of connections accepted since the start.
    pub(crate) accepted: AtomicU64,
    /// Number of connections accepted over a Unix socket.
    pub(crate) accepted_local: AtomicU64,
    /// Number of connections refused because of a limit on connections.
    pub(crate) refused: AtomicU64,
    /// Error that ended accepting, if there was one.
    pub(crate) failure: OnceLock<io::Error>,
    /// New connections of the console that wait for an event loop; `None` after accepting has ended.
    brought: Mutex<Option<Vec<Accepted>>>,
}

impl AcceptorControl {
    /// Adds a connection that no listener has accepted. The server then treats it like an accepted connection.
    ///
    /// # Errors
    /// The server is stopping, or the acceptor cannot be woken.
    pub(crate) fn bring(&self, stream: UnixStream, peer: Peer, listener: ListenerIndex) -> io::Result<()> {
        let stream = Stream::local(stream);
        let new = Accepted { stream, peer, number: 0, listener, has_tls: false };
        self.brought().as_mut().ok_or(ErrorKind::ConnectionAborted)?.push(new);
        self.waker.wake()
    }

    /// The list is consistent after every step. Therefore a poisoned lock is usable.
    fn brought(&self) -> MutexGuard<'_, Option<Vec<Accepted>>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends accepting.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor could not be woken");
        }
    }

    /// Returns true if the server is to stop accepting connections.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Computes how many connections the file descriptors allow. Must be called after all other descriptors are open.
    pub(crate) fn count_descriptors(&self) {
        let possible = self.descriptors.connections_max(descriptors::open_count());
        self.connections_possible.store(usize::try_from(possible).unwrap_or(usize::MAX), Ordering::Relaxed);
        self.warn_of_few_descriptors();
    }

    fn warn_of_few_descriptors(&self) {
        let wanted = self.connections_max.load(Ordering::Relaxed);
        let possible = self.connections_possible.load(Ordering::Relaxed);
        if wanted > possible {
            let DescriptorLimits { open_max, reserved, .. } = self.descriptors;
            tracing::warn!(
                "at most {possible} connections instead of {wanted}, {} fewer: the process may have {open_max} open \
                 files, of which {reserved} are kept for the store; a higher hard limit (ulimit -n, LimitNOFILE) \
                 allows more",
                wanted - possible
            );
        }
    }

    /// Sets the maximum number of open connections.
    pub(crate) fn set_connections_max(&self, connections_max: usize) {
        if self.connections_max.swap(connections_max, Ordering::Relaxed) != connections_max {
            self.warn_of_few_descriptors();
        }
    }

    /// Returns the maximum number of open connections: the setting, or less if the file descriptors do not suffice.
    pub(crate) fn effective_max(&self) -> usize {
        let possible = self.connections_possible.load(Ordering::Relaxed);
        self.connections_max.load(Ordering::Relaxed).min(possible)
    }
}

/// The listening sockets. Dropping this struct closes them and then makes all event loops drain.
pub(crate) struct Acceptor {
    poll: Poll,
    events: Events,
    listeners: Vec<PolledListener>,
    control: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    counters: Arc<[Arc<Counters>]>,
    /// Time at which accepting continues after a lack of file descriptors or memory.
    paused_until: Option<Instant>,
    /// Time at which a pause was last logged.
    pause_logged: Option<Instant>,
    /// Time at which refusals were last logged. `refused_since` is the number of refusals since then.
    refusal_logged: Option<Instant>,
    refused_since: u64,
}

struct PolledListener {
    listener: Listener,
    place: ListenerIndex,
    /// Whether the listener may have a connection to accept. That is the case if the kernel has reported a connection,
    /// and `accept` has not returned `WouldBlock` since then.
    ready: bool,
}

impl Acceptor {
    /// Listens on every URL, and on the socket in the data directory.
    ///
    /// # Errors
    /// The address of a URL is in use, forbidden, or unknown. The error names the first such URL. A failure of the
    /// socket in the data directory is only logged, because some file systems have no sockets, and only the local tools
    /// need that socket.
    pub(crate) fn listen(
        urls: &[ServerUrl],
        data: &Path,
        (connections_max, mut bound): (usize, BoundPorts),
        mailboxes: Arc<[Mailbox]>,
        counters: Arc<[Arc<Counters>]>,
    ) -> Result<Acceptor, ListenError> {
        let failed = |error| ListenError { url: ServerUrl::local(data), error };
        let poll = Poll::new().map_err(failed)?;
        let mut opened = Vec::new();
        for (url, place) in urls.iter().zip(0..) {
            let listeners = Listener::open(url, &mut bound)?;
            opened.extend(listeners.into_iter().map(|listener| (listener, ListenerIndex(place))));
        }
        match Listener::open_in(data) {
            Ok(listener) => opened.push((listener, ListenerIndex::DATA_DIRECTORY)),
            Err(error) => tracing::warn!(%error, "commands cannot reach the server"),
        }
        let mut listeners = Vec::with_capacity(opened.len());
        for (index, (mut listener, place)) in opened.into_iter().enumerate() {
            let url = listener.address().unwrap_or_else(|_| ServerUrl::local(data));
            listener.register(poll.registry(), Token(index)).map_err(|error| ListenError { url, error })?;
            listeners.push(PolledListener { listener, place, ready: false });
        }
        let control = Arc::new(AcceptorControl {
            waker: Waker::new(poll.registry(), WAKER).map_err(failed)?,
            stopping: AtomicBool::new(false),
            connections_max: AtomicUsize::new(connections_max),
            descriptors: DescriptorLimits::read(),
            connections_possible: AtomicUsize::new(usize::MAX),
            accepted: AtomicU64::new(0),
            accepted_local: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failure: OnceLock::new(),
            brought: Mutex::new(Some(Vec::new())),
        });
        let events = Events::with_capacity(listeners.len() + 1);
        Ok(Acceptor {
            poll,
            events,
            listeners,
            control,
            mailboxes,
            counters,
            paused_until: None,
            pause_logged: None,
            refusal_logged: None,
            refused_since: 0,
        })
    }

    /// Returns the addresses on which the server listens, with the actual ports. The first list contains all addresses
    /// as URLs. The second list contains only the network addresses.
    pub(crate) fn addresses(&self) -> (Vec<ServerUrl>, Vec<SocketAddr>) {
        let listeners = || self.listeners.iter().map(|polled| &polled.listener);
        let urls = listeners().filter_map(|listener| listener.address().ok()).collect();
        (urls, listeners().filter_map(Listener::network_address).collect())
    }

    pub(crate) fn control(&self) -> Arc<AcceptorControl> {
        Arc::clone(&self.control)
    }

    /// Returns a file descriptor that is readable when [`accept`](Acceptor::accept) has work or the server must stop.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Returns true if another connection can be accepted at once.
    pub(crate) fn has_more(&self) -> bool {
        self.paused_until.is_none() && self.listeners.iter().any(|polled| polled.ready)
    }

    /// Returns the time at which [`accept`](Acceptor::accept) must be called without an event, if there is a pause.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Accepts at most [`ACCEPTS_PER_PASS_MAX`] waiting connections. Appends the connections of the event loop `own` to
    /// `accepted`, and posts the other connections to the mailboxes of their loops. Returns false if the server is
    /// stopping.
    pub(crate) fn accept(&mut self, own: u16, accepted: &mut Vec<Accepted>) -> bool {
        if self.control.stopping.load(Ordering::SeqCst) {
            return false;
        }
        if let Err(error) = self.poll.poll(&mut self.events, Some(Duration::ZERO))
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::error!(%error, "waiting for new connections failed: the server stops");
            let _ = self.control.failure.set(error);
            return false;
        }
        for event in &self.events {
            if let Some(polled) = self.listeners.get_mut(event.token().0) {
                polled.ready = true;
            }
        }
        if self.paused_until.is_none_or(|until| until <= Instant::now()) {
            self.paused_until = None;
            self.accept_all(own, accepted);
        }
        true
    }

    fn accept_all(&mut self, own: u16, accepted: &mut Vec<Accepted>) {
        let brought = self.control.brought().as_mut().map(std::mem::take);
        for new in brought.into_iter().flatten() {
            self.hand_over(new, own, accepted);
        }
        let mut count = 0;
        for index in 0..self.listeners.len() {
            while let Some(polled) = self.listeners.get_mut(index).filter(|polled| polled.ready) {
                if count == ACCEPTS_PER_PASS_MAX {
                    return;
                }
                let (has_tls, listener) = (polled.listener.has_tls(), polled.place);
                match polled.listener.accept() {
                    Ok((stream, peer)) => {
                        count += 1;
                        self.hand_over(
                            Accepted { stream, peer, number: 0, listener, has_tls },
                            own,
                            accepted,
                        );
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => polled.ready = false,
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // The process lacks file descriptors or memory. The connection stays in the kernel's queue, so
                        // that an immediate retry would fail again and again.
                        self.pause(&error);
                        return;
                    }
                }
            }
        }
    }

    fn pause(&mut self, error: &io::Error) {
        let now = Instant::now();
        self.paused_until = Some(now + ACCEPT_PAUSE);
        if is_due(self.pause_logged, now) {
            self.pause_logged = Some(now);
            tracing::warn!(%error, "new connections wait");
        }
    }

    /// Sends a refused peer a notice of disconnection, unless TLS is expected. Logs a warning unless the last warning
    /// was recent.
    fn refuse(&mut self, refused: &mut Accepted, open: u64, is_full: bool) {
        self.control.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_since += 1;
        let why =
            if is_full { "too many connections" } else { "too many connections for the open files allowed" };
        // With TLS, a notice would require a handshake.
        if !refused.has_tls {
            let mut notice = Vec::new();
            response::encode_notice_of_disconnection(&mut notice, ResultCode::BUSY, why);
            // A new socket has room for the notice. If sending fails, the peer still sees the connection close.
            let _ = refused.stream.send(&notice);
        }
        let now = Instant::now();
        if is_due(self.refusal_logged, now) {
            self.refusal_logged = Some(now);
            tracing::warn!(open, refused = self.refused_since, "connections are refused: {why}");
            self.refused_since = 0;
        }
    }

    /// Passes a connection to the event loop with the fewest connections, or refuses it.
    fn hand_over(&mut self, mut new: Accepted, own: u16, accepted: &mut Vec<Accepted>) {
        let open: u64 = self.counters.iter().map(|counters| counters.connections()).sum();
        // The administrator must be able to connect even if the server is full.
        let is_trusted = new.peer.is_trusted();
        let is_full = open >= self.control.connections_max.load(Ordering::Relaxed) as u64 && !is_trusted;
        let descriptor = u64::try_from(new.stream.as_fd().as_raw_fd()).unwrap_or(0);
        if is_full || !self.control.descriptors.admits(descriptor, is_trusted) {
            self.refuse(&mut new, open, is_full);
            return;
        }
        new.number = self.control.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        if new.peer.is_local() {
            self.control.accepted_local.fetch_add(1, Ordering::Relaxed);
        }
        let loops = self.counters.iter().zip(self.mailboxes.iter()).enumerate();
        let fewest = loops.min_by_key(|(_, (counters, _))| counters.connections());
        if let Some((index, (counters, mailbox))) = fewest {
            counters.connection_opened();
            if index == usize::from(own) {
                accepted.push(new);
            } else {
                mailbox.post(LoopMessage::Connection(new));
            }
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // The listeners must be closed first, because a draining loop must not receive another connection.
        self.listeners.clear();
        *self.control.brought() = None;
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(LoopMessage::Drain));
    }
}

/// Returns true if the last warning, at `logged`, is old enough for another warning.
fn is_due(logged: Option<Instant>, now: Instant) -> bool {
    logged.is_none_or(|logged| now.duration_since(logged) >= ACCEPT_WARNING_INTERVAL)
}

/// Returns true if the error concerns only one connection. The next connection can then be accepted at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
            | ErrorKind::PermissionDenied
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::TimedOut
    )
}
