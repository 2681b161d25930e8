//! The event loops and the sockets that they serve.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use ldap::ServerUrl;
use mio::{Poll, Waker};

use crate::config::{Config, OnlineSettings};
use crate::error::ServeError;
use crate::event_loop::{self, EventLoop, EventLoopError};
use crate::net::acceptor::{Acceptor, AcceptorControl};
use crate::net::listener::BoundPorts;
use crate::net::mailbox::Mailbox;
use crate::session::context::{Context, Shared};
use crate::telemetry::counters::Counters;

/// The listening sockets, and the mailbox and poll of each event loop, before the loops run.
pub(super) struct Listening {
    acceptor: Acceptor,
    polls: Vec<Poll>,
    /// Mailbox of each event loop.
    pub(super) mailboxes: Arc<[Mailbox]>,
    pub(super) counters: Arc<[Arc<Counters>]>,
}

impl Listening {
    /// Listens on the addresses in the settings. Uses the sockets in `bound_ports` for the addresses that are already
    /// bound.
    ///
    /// # Errors
    /// The server cannot listen on an address, or the system cannot create an event queue.
    pub(super) fn open(config: &Config, bound_ports: BoundPorts) -> Result<Listening, ServeError> {
        let threads = config.threads.clamp(1, usize::from(u16::MAX));
        let mut polls = Vec::with_capacity(threads);
        let mut mailboxes = Vec::with_capacity(threads);
        for _ in 0..threads {
            let poll = Poll::new()?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), event_loop::WAKER)?));
            polls.push(poll);
        }
        let mailboxes: Arc<[Mailbox]> = mailboxes.into();
        let counters: Arc<[Arc<Counters>]> = (0..threads).map(|_| Arc::default()).collect();
        let acceptor = Acceptor::listen(
            &config.listen,
            &config.data,
            (config.online.connections_max, bound_ports),
            Arc::clone(&mailboxes),
            Arc::clone(&counters),
        )?;
        Ok(Listening { acceptor, polls, mailboxes, counters })
    }

    /// Returns the addresses on which the server listens, with the actual ports. See [`Acceptor::addresses`].
    pub(super) fn addresses(&self) -> (Vec<ServerUrl>, Vec<SocketAddr>) {
        self.acceptor.addresses()
    }

    /// Returns the control of the acceptor, which can stop the event loops.
    pub(super) fn control(&self) -> Arc<AcceptorControl> {
        self.acceptor.control()
    }
}

/// The threads of the event loops. Dropping this struct stops the threads and waits until they have ended.
pub(super) struct EventLoops {
    threads: Vec<JoinHandle<Result<(), EventLoopError>>>,
    control: Arc<AcceptorControl>,
}

impl EventLoops {
    /// Starts the event loops. The first event loop also accepts the connections.
    ///
    /// # Errors
    /// The directory cannot create a snapshot, or the system cannot start a thread.
    pub(super) fn start(
        listening: Listening,
        shared: &Arc<Shared>,
        online: OnlineSettings,
    ) -> Result<EventLoops, ServeError> {
        let online = Arc::new(online);
        let mut loops = EventLoops { threads: Vec::new(), control: listening.control() };
        let Listening { acceptor, polls, mailboxes, counters } = listening;
        let mut acceptor = Some(acceptor);
        for (index, (poll, counters)) in (0..).zip(polls.into_iter().zip(counters.iter())) {
            let context = Context::new(index, Arc::clone(shared), Arc::clone(counters), Arc::clone(&online))?;
            let event_loop = EventLoop::new(poll, Arc::clone(&mailboxes), context, acceptor.take())?;
            let stop = StopsWithLoop(Arc::clone(&loops.control));
            let run = move || {
                let _stop = stop;
                event_loop
                    .run()
                    .inspect_err(|error| tracing::error!(%error, "an event loop ended: the server stops"))
            };
            let name = format!("pando-loop-{index}");
            loops.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        }
        loops.control.count_descriptors();
        Ok(loops)
    }

    /// Waits until all event loops have ended.
    ///
    /// # Errors
    /// An event loop ended with an error.
    pub(super) fn wait(mut self) -> Result<(), ServeError> {
        let mut result = Ok(());
        for thread in std::mem::take(&mut self.threads) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error.into()),
                Err(_) => result = Err(ServeError::Panicked(name)),
            }
        }
        result
    }
}

impl Drop for EventLoops {
    fn drop(&mut self) {
        self.control.stop();
        for thread in self.threads.drain(..) {
            // The event loop has already logged its error.
            let _ = thread.join();
        }
    }
}

/// Stops the server when one of its event loops ends for any reason. The other loops cannot take over the connections
/// of that loop.
struct StopsWithLoop(Arc<AcceptorControl>);

impl Drop for StopsWithLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("an event loop met a defect and ended: the server stops");
        }
        self.0.stop();
    }
}
