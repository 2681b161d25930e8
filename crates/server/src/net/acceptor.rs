//! The acceptor: listens, accepts, and hands each connection to the event loop that has the fewest.
//!
//! It works on the thread of the first event loop, which it wakes by its own epoll instance standing in the loop's, so
//! its own connections cost no hand-over, and with one loop that is all of them: a thread of its own costs a connection
//! two switches between threads and the waking of the loop. Listeners of every loop's own (SO_REUSEPORT) would spare
//! the hand-over to the other loops, too. But the kernel then spreads connections by a hash, and the few long-lived
//! ones that LDAP clients keep would crowd on one core while another idles; two servers could share a port without
//! noticing; and the limit on connections, running out of file descriptors, and the end of accepting would each have to
//! be agreed on between threads.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ldap::{ResultCode, ServerUrl, response};
use mio::{Events, Poll, Token, Waker};

use crate::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_INTERVAL, ACCEPTS_PER_PASS_MAX};
use crate::net::descriptors::{self, DescriptorLimits};
use crate::net::listener::{ListenError, Listener};
use crate::net::mailbox::{LoopMessage, Mailbox};
use crate::net::stream::{Peer, Stream};
use crate::telemetry::counters::Counters;

/// The token of the waker; listeners have their index.
const WAKER: Token = Token(usize::MAX);

/// What others tell the acceptor, and learn from it.
#[derive(Debug)]
pub(crate) struct AcceptorControl {
    waker: Waker,
    stopping: AtomicBool,
    /// Connections open at a time, as the settings say.
    pub(crate) connections_max: AtomicUsize,
    descriptors: DescriptorLimits,
    /// Connections that there are descriptors for, as was known at the start.
    connections_possible: AtomicUsize,
    /// Connections accepted since start.
    pub(crate) accepted: AtomicU64,
    /// Those of them that came by a socket of the file system.
    pub(crate) accepted_local: AtomicU64,
    /// Connections refused because there were too many.
    pub(crate) refused: AtomicU64,
    /// Why accepting ended by itself.
    pub(crate) failure: OnceLock<io::Error>,
}

impl AcceptorControl {
    /// Ends accepting.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor could not be woken");
        }
    }

    /// Finds out how many connections there can be, once everything else is open.
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
                 files, of \
                 which {reserved} are kept for the store; a higher hard limit (ulimit -n, LimitNOFILE) allows more",
                wanted - possible
            );
        }
    }

    /// Sets how many connections may be open at a time.
    pub(crate) fn set_connections_max(&self, connections_max: usize) {
        if self.connections_max.swap(connections_max, Ordering::Relaxed) != connections_max {
            self.warn_of_few_descriptors();
        }
    }

    /// Connections open at a time: what the settings say, or less where there are too few descriptors.
    pub(crate) fn effective_max(&self) -> usize {
        let possible = self.connections_possible.load(Ordering::Relaxed);
        self.connections_max.load(Ordering::Relaxed).min(possible)
    }
}

/// A connection that was accepted, its peer and its number.
pub(crate) type Accepted = (Stream, Peer, u64);

/// The listening sockets. When they go, all event loops are told to finish.
pub(crate) struct Acceptor {
    poll: Poll,
    events: Events,
    places: Vec<Place>,
    control: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    counters: Arc<[Arc<Counters>]>,
    /// When accepting goes on after the system had nothing left to give.
    paused_until: Option<Instant>,
    /// When the log last heard of a pause.
    warned: Option<Instant>,
    /// When it last heard of a connection that was refused, and how many have been since.
    refusal_told: Option<Instant>,
    refused_since: u64,
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
    /// The first place that is taken, forbidden, or unknown. Not the data directory's own socket: there are file
    /// systems that have none, and without it everything but the tools beside the server works.
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
            descriptors: DescriptorLimits::read(),
            connections_possible: AtomicUsize::new(usize::MAX),
            accepted: AtomicU64::new(0),
            accepted_local: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failure: OnceLock::new(),
        });
        let events = Events::with_capacity(places.len() + 1);
        Ok(Acceptor {
            poll,
            events,
            places,
            control,
            mailboxes,
            counters,
            paused_until: None,
            warned: None,
            refusal_told: None,
            refused_since: 0,
        })
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

    /// Readable when there is something to [`accept`](Acceptor::accept), or the server stops.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Whether there is more to accept at once.
    pub(crate) fn has_more(&self) -> bool {
        self.paused_until.is_none() && self.places.iter().any(|place| place.ready)
    }

    /// When to ask again although nothing happens.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Accepts what waits, up to a bound. Connections for the event loop `own` are appended to `accepted`, the others
    /// get theirs by mail. False when the server stops.
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
            if let Some(place) = self.places.get_mut(event.token().0) {
                place.ready = true;
            }
        }
        if self.paused_until.is_none_or(|until| until <= Instant::now()) {
            self.paused_until = None;
            self.accept_all(own, accepted);
        }
        true
    }

    fn accept_all(&mut self, own: u16, accepted: &mut Vec<Accepted>) {
        let mut count = 0;
        for index in 0..self.places.len() {
            while let Some(place) = self.places.get_mut(index).filter(|place| place.ready) {
                if count == ACCEPTS_PER_PASS_MAX {
                    return;
                }
                match place.listener.accept() {
                    Ok((stream, peer)) => {
                        count += 1;
                        self.hand_over(stream, peer, own, accepted);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => place.ready = false,
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // Out of descriptors or memory. The connection stays in the kernel's queue; asking again at
                        // once would spin.
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

    /// Tells a peer that there is no place for it, and the log now and then.
    fn refuse(&mut self, stream: &Stream, open: u64, is_full: bool) {
        self.control.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_since += 1;
        let why =
            if is_full { "too many connections" } else { "too many connections for the open files allowed" };
        let mut notice = Vec::new();
        response::encode_notice_of_disconnection(&mut notice, ResultCode::BUSY, why);
        // A new socket takes this much; if not, the peer sees the end of the connection all the same.
        let _ = stream.send(&notice);
        let now = Instant::now();
        if self.refusal_told.is_none_or(|told| now.duration_since(told) >= ACCEPT_WARNING_INTERVAL) {
            self.refusal_told = Some(now);
            tracing::warn!(open, refused = self.refused_since, "connections are refused: {why}");
            self.refused_since = 0;
        }
    }

    /// Gives a connection to the event loop that has the fewest.
    fn hand_over(&mut self, stream: Stream, peer: Peer, own: u16, accepted: &mut Vec<Accepted>) {
        let open: u64 = self.counters.iter().map(|counters| counters.connections()).sum();
        // Who looks after the server gets in when everybody else has to wait.
        let is_trusted = peer.is_trusted();
        let is_full = open >= self.control.connections_max.load(Ordering::Relaxed) as u64 && !is_trusted;
        let descriptor = u64::try_from(stream.as_fd().as_raw_fd()).unwrap_or(0);
        if is_full || !self.control.descriptors.admits(descriptor, is_trusted) {
            self.refuse(&stream, open, is_full);
            return;
        }
        let number = self.control.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        if peer.is_local() {
            self.control.accepted_local.fetch_add(1, Ordering::Relaxed);
        }
        let loops = self.counters.iter().zip(self.mailboxes.iter()).enumerate();
        let fewest = loops.min_by_key(|(_, (counters, _))| counters.connections());
        if let Some((index, (counters, mailbox))) = fewest {
            counters.connection_opened();
            if index == usize::from(own) {
                accepted.push((stream, peer, number));
            } else {
                mailbox.post(LoopMessage::Connection(stream, peer, number));
            }
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // Nothing is listened on any more, before anybody is told.
        self.places.clear();
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(LoopMessage::Drain));
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
