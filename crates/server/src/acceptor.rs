//! The acceptor: one thread that listens, accepts, and hands each connection to the event loop that has the fewest.
//!
//! Listeners of every loop's own (SO_REUSEPORT) would spare the hand-over, about two microseconds a connection. But the
//! kernel then spreads connections by a hash, and the few long-lived ones that LDAP clients keep would crowd on one core
//! while another idles; two servers could share a port without noticing; and the limit on connections, running out of
//! file descriptors, and the end of accepting would each have to be agreed on between threads.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use ldap::{ResultCode, response};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::counters::Counters;
use crate::limits::{
    ACCEPT_PAUSE, ACCEPT_WARNING_INTERVAL, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, LISTEN_BACKLOG,
};
use crate::mailbox::{Letter, Mailbox};
use crate::values::ListenUrl;

/// The token of the waker; listeners have their index.
const WAKER: Token = Token(usize::MAX);

/// Why a place cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {url}: {error}")]
pub struct ListenError {
    /// The place.
    pub url: ListenUrl,
    /// Why.
    pub error: io::Error,
}

/// What others tell the acceptor, and learn from it.
#[derive(Debug)]
pub(crate) struct AcceptorControl {
    waker: Waker,
    stopping: AtomicBool,
    /// Connections open at a time.
    pub(crate) connections_max: AtomicUsize,
    /// Connections accepted since start.
    pub(crate) accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub(crate) refused: AtomicU64,
}

impl AcceptorControl {
    /// Ends accepting.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor could not be woken");
        }
    }
}

/// The listening sockets.
pub(crate) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    control: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    counters: Arc<[Arc<Counters>]>,
    /// When accepting goes on after the system had nothing left to give.
    paused_until: Option<Instant>,
    /// When the log last heard of a pause.
    warned: Option<Instant>,
}

struct Listener {
    socket: TcpListener,
    /// The kernel said that there is a connection, and we have not seen the last of them.
    ready: bool,
}

impl Acceptor {
    /// Listens on every place.
    ///
    /// # Errors
    /// The first place that is taken, forbidden, or unknown.
    pub(crate) fn listen(
        urls: &[ListenUrl],
        connections_max: usize,
        mailboxes: Arc<[Mailbox]>,
        counters: Arc<[Arc<Counters>]>,
    ) -> Result<(Acceptor, Vec<SocketAddr>), ListenError> {
        let anywhere = |error| ListenError { url: urls.first().cloned().unwrap_or_default(), error };
        let poll = Poll::new().map_err(anywhere)?;
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for url in urls {
            let failed = |error| ListenError { url: url.clone(), error };
            for address in url.resolve().map_err(failed)? {
                let mut socket = listen(address).map_err(failed)?;
                addresses.push(socket.local_addr().map_err(failed)?);
                let token = Token(listeners.len());
                poll.registry().register(&mut socket, token, Interest::READABLE).map_err(failed)?;
                listeners.push(Listener { socket, ready: false });
            }
        }
        let control = Arc::new(AcceptorControl {
            waker: Waker::new(poll.registry(), WAKER).map_err(anywhere)?,
            stopping: AtomicBool::new(false),
            connections_max: AtomicUsize::new(connections_max),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let acceptor =
            Acceptor { poll, listeners, control, mailboxes, counters, paused_until: None, warned: None };
        Ok((acceptor, addresses))
    }

    pub(crate) fn control(&self) -> Arc<AcceptorControl> {
        Arc::clone(&self.control)
    }

    /// Accepts until the server stops. Then nothing is listened on any more, and the event loops are told.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.listeners.len() + 1);
        while !self.control.stopping.load(Ordering::SeqCst) {
            let pause = self.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, pause)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for new connections failed: the server stops");
                break;
            }
            for event in &events {
                if let Some(listener) = self.listeners.get_mut(event.token().0) {
                    listener.ready = true;
                }
            }
            if self.paused_until.is_some_and(|until| until > Instant::now()) {
                continue;
            }
            self.paused_until = None;
            self.accept_all();
        }
        drop(self.listeners);
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Drain));
    }

    fn accept_all(&mut self) {
        for index in 0..self.listeners.len() {
            while let Some(listener) = self.listeners.get_mut(index).filter(|listener| listener.ready) {
                match listener.socket.accept() {
                    Ok((stream, peer)) => self.hand_over(stream, peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => listener.ready = false,
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // Out of descriptors or memory. The connection stays in the kernel's queue; asking again at once
                        // would spin.
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
        if self.warned.is_none_or(|warned| now.duration_since(warned) >= ACCEPT_WARNING_INTERVAL) {
            self.warned = Some(now);
            tracing::warn!(%error, "new connections wait");
        }
    }

    /// Gives a connection to the event loop that has the fewest.
    fn hand_over(&self, mut stream: TcpStream, peer: SocketAddr) {
        let open: u64 = self.counters.iter().map(|counters| counters.connections()).sum();
        if open >= self.control.connections_max.load(Ordering::Relaxed) as u64 {
            self.control.refused.fetch_add(1, Ordering::Relaxed);
            let mut notice = Vec::new();
            let why = "too many connections";
            response::encode_notice_of_disconnection(&mut notice, ResultCode::BUSY, why);
            // A new socket takes this much; if not, the peer sees the end of the connection all the same.
            let _ = stream.write(&notice);
            return;
        }
        let number = self.control.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let loops = self.counters.iter().zip(self.mailboxes.iter());
        if let Some((counters, mailbox)) = loops.min_by_key(|(counters, _)| counters.connections()) {
            counters.connection_opened();
            mailbox.post(Letter::Connection(stream, peer, number));
        }
    }
}

/// Whether accepting failed for a peer that went away again, so that the next one can be asked for at once.
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

/// Opens a listening socket. On Linux accepted sockets inherit TCP_NODELAY and the keepalive settings, which spares four
/// system calls a connection.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let unspecified_v6 = address.is_ipv6() && address.ip().is_unspecified();
    let (address, socket) = match new_socket(address) {
        // No IPv6 here: "every address" then means every IPv4 address.
        Err(_) if unspecified_v6 => {
            let v4 = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, address.port()));
            (v4, new_socket(v4)?)
        }
        other => (address, other?),
    };
    if unspecified_v6 && address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(OwnedFd::from(socket))))
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
}
