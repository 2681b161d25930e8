//! The agent: runs on a load machine and executes a coordinator's orders.

use super::Token;
use super::protocol::{
    AgentMessage, Challenge, GREETING_BYTES_MAX, GREETING_MAX, Greeting, MESSAGE_BYTES_MAX, Order, PROTOCOL,
    Proof, RunOrder, WORD_EVERY, is_proved, now_micros, receive, send,
};
use crate::driver::Targets;
use crate::driver::{self, Options, Progress, StartBarrier};
use crate::result::{Environment, Second, WorkloadResult};
use crate::workload::Workload;
use data_encoding::HEXLOWER;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Maximum number of connections. One of them may run a workload; the others have not authenticated yet.
const CONNECTIONS_MAX: usize = 16;
/// Maximum time between two orders of one run. It is long, because an agent that is ready waits for the slowest agent
/// to prepare.
const ORDERS_MAX: Duration = Duration::from_secs(3600);
/// Maximum time by which a start may lie in the future.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// A listening agent.
pub struct Agent {
    listener: TcpListener,
    state: Arc<State>,
}

struct State {
    token: Token,
    connections: AtomicUsize,
    is_working: AtomicBool,
    report: Box<dyn Fn(AgentEvent) + Send + Sync>,
}

/// Events to show to the operator of the agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A workload begins for a coordinator.
    Begins {
        /// Address of the coordinator.
        coordinator: SocketAddr,
        /// Name of the workload.
        workload: String,
    },
    /// The workload has ended.
    Ended {
        /// Name of the workload.
        workload: String,
        /// Reason, if nothing was measured.
        failure: Option<String>,
    },
    /// A connection was refused.
    Refused {
        /// Address of the peer.
        peer: SocketAddr,
        /// Reason.
        reason: String,
    },
}

impl Agent {
    /// Creates an agent that listens on an address. `report` receives events.
    ///
    /// # Errors
    /// The agent cannot listen on the address.
    pub fn listen(
        address: SocketAddr,
        token: Token,
        report: impl Fn(AgentEvent) + Send + Sync + 'static,
    ) -> io::Result<Agent> {
        let state = State {
            token,
            connections: AtomicUsize::new(0),
            is_working: AtomicBool::new(false),
            report: Box::new(report),
        };
        Ok(Agent { listener: TcpListener::bind(address)?, state: Arc::new(state) })
    }

    /// Returns the address on which the agent listens.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves coordinators, one at a time, until the process ends.
    ///
    /// # Errors
    /// A connection cannot be accepted, or its thread cannot be started.
    pub fn serve(&self) -> io::Result<()> {
        loop {
            let (stream, peer) = self.listener.accept()?;
            let state = Arc::clone(&self.state);
            if state.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
                state.connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            std::thread::Builder::new().name("bench-agent".to_owned()).spawn(move || {
                if let Err(reason) = state.converse(stream, peer) {
                    (state.report)(AgentEvent::Refused { peer, reason });
                }
                state.connections.fetch_sub(1, Ordering::SeqCst);
            })?;
        }
    }
}

impl State {
    /// Serves one connection. Returns an error only for a failure before the workload runs.
    fn converse(&self, mut stream: TcpStream, peer: SocketAddr) -> Result<(), String> {
        let io_error = |error: io::Error| error.to_string();
        stream.set_nodelay(true).map_err(io_error)?;
        stream.set_read_timeout(Some(GREETING_MAX)).map_err(io_error)?;
        stream.set_write_timeout(Some(GREETING_MAX)).map_err(io_error)?;
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let nonce = HEXLOWER.encode(&nonce);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let challenge = Challenge { protocol: PROTOCOL, version: version.clone(), nonce: nonce.clone() };
        send(&mut stream, &challenge).map_err(io_error)?;
        let proof: Proof = receive(&mut stream, GREETING_BYTES_MAX).map_err(io_error)?;
        let refused = if !is_proved(&self.token, &nonce, &proof.mac) {
            Some("the token is not this agent's".to_owned())
        } else if (proof.protocol, &proof.version) != (PROTOCOL, &version) {
            Some(format!("this agent is pando {version}, the coordinator {}: use one version", proof.version))
        } else if self.is_working.swap(true, Ordering::SeqCst) {
            Some("this agent works for another coordinator".to_owned())
        } else {
            None
        };
        if let Some(reason) = refused {
            send(&mut stream, &Greeting::Refused { reason: reason.clone() }).map_err(io_error)?;
            return Err(reason);
        }
        let _working = BusyGuard(&self.is_working);
        send(&mut stream, &Greeting::Welcome { environment: Box::new(Environment::detect()) })
            .map_err(io_error)?;
        stream.set_read_timeout(Some(ORDERS_MAX)).map_err(io_error)?;
        // An error is ignored here, because the coordinator may disconnect when it is done.
        let _ = self.obey(stream, peer);
        Ok(())
    }

    fn obey(&self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        loop {
            match receive(&mut stream, MESSAGE_BYTES_MAX)? {
                Order::Clock => send(&mut stream, &AgentMessage::Clock { micros: now_micros() })?,
                Order::Run(order) => {
                    let workload = order.workload_name.clone();
                    (self.report)(AgentEvent::Begins { coordinator: peer, workload: workload.clone() });
                    let outcome = work(&order, &stream);
                    let failure = outcome.as_ref().err().cloned();
                    (self.report)(AgentEvent::Ended { workload, failure });
                    let word = match outcome {
                        Ok(result) => AgentMessage::Result(Box::new(result)),
                        Err(reason) => AgentMessage::Failed { reason },
                    };
                    send(&mut stream, &word)?;
                }
                Order::Go { .. } => {}
            }
        }
    }
}

/// Marks the agent as idle when dropped.
struct BusyGuard<'a>(&'a AtomicBool);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Runs the workload, and sends a message every second until it is done.
fn work(order: &RunOrder, stream: &TcpStream) -> Result<WorkloadResult, String> {
    let workload =
        Workload::parse(&order.workload_name, &order.workload_text).map_err(|error| error.to_string())?;
    let targets = Targets::resolve(&order.targets).map_err(|error| error.to_string())?;
    let line = Arc::new(Line {
        stream: stream.try_clone().map_err(|error| error.to_string())?,
        writing: Mutex::new(()),
    });
    let (stop, stopped) = mpsc::channel::<()>();
    let alive = Arc::clone(&line);
    let ticker = std::thread::Builder::new().name("bench-alive".to_owned()).spawn(move || {
        // The loop ends when the sender of the channel is dropped.
        while stopped.recv_timeout(WORD_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            if alive.say(&AgentMessage::Alive).is_err() {
                return;
            }
        }
    });
    let ticker = ticker.map_err(|error| error.to_string())?;
    let waiting = Arc::clone(&line);
    let options = Options {
        keep_histograms: true,
        together: Some(StartBarrier::new(move || waiting.wait_for_go().ok())),
        ..order.options.clone()
    };
    let mut watch = |progress: &Progress| {
        let second = progress.second.clone().map(|second| Box::new(Second { latency: None, ..second }));
        // An error is ignored here. If the coordinator has disconnected, sending the result will fail too.
        let _ = line.say(&AgentMessage::Second { phase: progress.phase, left: progress.left, second });
    };
    let result = driver::run_watched(&workload, &targets, &options, &mut watch);
    drop(stop);
    let _ = ticker.join();
    result.map_err(|error| error.to_string())
}

/// A connection to the coordinator. Two threads write to it and one thread reads.
struct Line {
    stream: TcpStream,
    writing: Mutex<()>,
}

impl Line {
    fn say(&self, word: &AgentMessage) -> io::Result<()> {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut &self.stream, word)
    }

    /// Reports that this agent is ready, and waits for the order to continue.
    fn wait_for_go(&self) -> io::Result<Instant> {
        self.say(&AgentMessage::Ready)?;
        match receive(&mut &self.stream, MESSAGE_BYTES_MAX)? {
            Order::Go { at_micros } => {
                let ahead = Duration::from_micros(at_micros.saturating_sub(now_micros()));
                Ok(Instant::now() + ahead.min(AHEAD_MAX))
            }
            order => Err(io::Error::other(format!("{order:?} instead of a moment to go on"))),
        }
    }
}
