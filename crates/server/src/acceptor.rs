//! The acceptor: one thread that listens, accepts, and hands each connection to the event loop that has the fewest.
//!
//! Listeners of every loop's own (SO_REUSEPORT) would spare the hand-over, about two microseconds a connection. But the
//! kernel then spreads connections by a hash, and the few long-lived ones that LDAP clients keep would crowd on one core
//! while another idles; two servers could share a port without noticing; and the limit on connections, running out of
//! file descriptors, and the end of accepting would each have to be agreed on between threads.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use ldap::{ResultCode, ServerUrl, response};
use mio::{Events, Poll, Token, Waker};

use crate::counters::Counters;
use crate::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_INTERVAL};
use crate::listener::{ListenError, Listener};
use crate::mailbox::{Letter, Mailbox};
use crate::stream::{Peer, Stream};

/// The token of the waker; listeners have their index.
const WAKER: Token = Token(usize::MAX);

/// What others tell the acceptor, and learn from it.
#[derive(Debug)]
pub(crate) struct AcceptorControl {
    waker: Waker,
    stopping: AtomicBool,
    /// Connections open at a time.
    pub(crate) connections_max: AtomicUsize,
    /// Connections accepted since start.
    pub(crate) accepted: AtomicU64,
    /// Those of them that came by a socket of the file system.
    pub(crate) accepted_local: AtomicU64,
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
    places: Vec<Place>,
    control: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    counters: Arc<[Arc<Counters>]>,
    /// When accepting goes on after the system had nothing left to give.
    paused_until: Option<Instant>,
    /// When the log last heard of a pause.
    warned: Option<Instant>,
}

struct Place {
    listener: Listener,
    /// The kernel said that there is a connection, and we have not seen the last of them.
    ready: bool,
}

impl Acceptor {
    /// Listens on every place, and on the socket in the data directory.
    ///
    /// # Errors
    /// The first place that is taken, forbidden, or unknown. Not the data directory's own socket: there are file systems
    /// that have none, and without it everything but the tools beside the server works.
    pub(crate) fn listen(
        urls: &[ServerUrl],
        data: &Path,
        connections_max: usize,
        mailboxes: Arc<[Mailbox]>,
        counters: Arc<[Arc<Counters>]>,
    ) -> Result<Acceptor, ListenError> {
        let anywhere = |error| ListenError { url: ServerUrl::local(data), error };
        let poll = Poll::new().map_err(anywhere)?;
        let mut places = Vec::new();
        for url in urls {
            for mut listener in Listener::open(url)? {
                let token = Token(places.len());
                let failed = |error| ListenError { url: url.clone(), error };
                listener.register(poll.registry(), token).map_err(failed)?;
                places.push(Place { listener, ready: false });
            }
        }
        match Listener::open_in(data) {
            Ok(mut listener) => {
                listener.register(poll.registry(), Token(places.len())).map_err(anywhere)?;
                places.push(Place { listener, ready: false });
            }
            Err(error) => tracing::warn!(%error, "commands beside the server cannot reach it"),
        }
        let control = Arc::new(AcceptorControl {
            waker: Waker::new(poll.registry(), WAKER).map_err(anywhere)?,
            stopping: AtomicBool::new(false),
            connections_max: AtomicUsize::new(connections_max),
            accepted: AtomicU64::new(0),
            accepted_local: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        Ok(Acceptor { poll, places, control, mailboxes, counters, paused_until: None, warned: None })
    }

    /// Where it listens, with the real ports, as URLs and, those of the network, as addresses.
    pub(crate) fn addresses(&self) -> (Vec<ServerUrl>, Vec<SocketAddr>) {
        let listeners = || self.places.iter().map(|place| &place.listener);
        let urls = listeners().filter_map(|listener| listener.address().ok()).collect();
        (urls, listeners().filter_map(Listener::network_address).collect())
    }

    pub(crate) fn control(&self) -> Arc<AcceptorControl> {
        Arc::clone(&self.control)
    }

    /// Accepts until the server stops. Then nothing is listened on any more, and the event loops are told.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.places.len() + 1);
        while !self.control.stopping.load(Ordering::SeqCst) {
            let pause = self.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, pause)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for new connections failed: the server stops");
                break;
            }
            for event in &events {
                if let Some(place) = self.places.get_mut(event.token().0) {
                    place.ready = true;
                }
            }
            if self.paused_until.is_some_and(|until| until > Instant::now()) {
                continue;
            }
            self.paused_until = None;
            self.accept_all();
        }
        drop(self.places);
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Drain));
    }

    fn accept_all(&mut self) {
        for index in 0..self.places.len() {
            while let Some(place) = self.places.get_mut(index).filter(|place| place.ready) {
                match place.listener.accept() {
                    Ok((stream, peer)) => self.hand_over(stream, peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => place.ready = false,
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
    fn hand_over(&self, stream: Stream, peer: Peer) {
        let open: u64 = self.counters.iter().map(|counters| counters.connections()).sum();
        // Who looks after the server gets in when everybody else has to wait.
        if open >= self.control.connections_max.load(Ordering::Relaxed) as u64 && !peer.is_trusted() {
            self.control.refused.fetch_add(1, Ordering::Relaxed);
            let mut notice = Vec::new();
            let why = "too many connections";
            response::encode_notice_of_disconnection(&mut notice, ResultCode::BUSY, why);
            // A new socket takes this much; if not, the peer sees the end of the connection all the same.
            let _ = stream.send(&notice);
            return;
        }
        let number = self.control.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        if peer.is_local() {
            self.control.accepted_local.fetch_add(1, Ordering::Relaxed);
        }
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
