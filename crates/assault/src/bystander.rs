//! A client that uses the server during an attack, from its own address. Every answer must arrive, and the latency of
//! the slowest answer is reported.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{ClientError, Connection};

use crate::data::{PERSON, PERSON_PASSWORD};
use crate::hostile_connections::connect_from;
use crate::report::Finding;

/// Address of the client.
pub(crate) const PERSON_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

/// Maximum wait for an answer. A later answer counts as missing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two requests of the client.
const PACE: Duration = Duration::from_millis(4);

/// Number of requests on the first connection for each new connection, and for each use of the socket in the data
/// directory.
const REQUESTS_PER_CONNECT: u64 = 25;

/// A user of the server, on its own thread.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Observations>,
}

/// Results that the client has measured.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    answers: u64,
    /// Slowest answer on the client's first connection.
    slowest: Duration,
    /// Slowest sequence of connect, bind and search on a new connection.
    slowest_new: Duration,
    /// Slowest sequence of connect, bind and search over the socket in the data directory, as the administrator.
    slowest_local: Duration,
    failures: Vec<String>,
}

impl Bystander {
    /// Starts the client. `data` is the folder with the server's socket.
    pub(crate) fn start(server: SocketAddr, data: &Path) -> Bystander {
        let stop = Arc::new(AtomicBool::new(false));
        // The client binds before the attack begins.
        let mut connection = open(PERSON_SOURCE, server).unwrap();
        let (socket, stopped) = (data.join("pando.sock"), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut seen = Observations::default();
            while !stopped.load(Ordering::Relaxed) {
                seen.use_all(server, &socket, &mut connection);
                std::thread::sleep(PACE);
            }
            seen
        });
        Bystander { stop, thread }
    }

    /// Ends the client, and returns its observations.
    pub(crate) fn end(self) -> Observations {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Observations {
    fn use_all(&mut self, server: SocketAddr, socket: &Path, connection: &mut Connection) {
        let started = Instant::now();
        let answer = search(connection);
        self.slowest = self.slowest.max(started.elapsed());
        if self.count("search", answer).is_none() {
            // The connection is no longer usable, so the client opens a new one.
            let fresh = open(PERSON_SOURCE, server);
            if let Some(fresh) = self.count("connect again", fresh) {
                *connection = fresh;
            }
        }
        if self.answers % REQUESTS_PER_CONNECT == 1 {
            let started = Instant::now();
            let answer = open(PERSON_SOURCE, server).and_then(|mut connection| search(&mut connection));
            self.slowest_new = self.slowest_new.max(started.elapsed());
            self.count("new connection", answer);
            let started = Instant::now();
            let answer = local(socket);
            self.slowest_local = self.slowest_local.max(started.elapsed());
            self.count("local socket", answer);
        }
    }

    fn count<T>(&mut self, what: &str, answer: Result<T, ClientError>) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.answers += 1;
                Some(answer)
            }
            Err(error) => {
                self.failures.push(format!("{what}: {error}"));
                None
            }
        }
    }

    /// Adds the client's observations to a finding. `slowest_max` is the maximum latency of an answer.
    pub(crate) fn add_to(&self, finding: Finding, slowest_max: Duration) -> Finding {
        let slowest = self.slowest.max(self.slowest_new).max(self.slowest_local);
        let answered = match self.failures.first() {
            None => format!("another client has {} of {} answers", self.answers, self.answers),
            Some(first) => format!("another client lacks {} answers, first: {first}", self.failures.len()),
        };
        let measured = format!(
            "{answered}, slowest {}, with a new connection {}, over the local socket {}",
            ms(self.slowest),
            ms(self.slowest_new),
            ms(self.slowest_local)
        );
        let is_answered = self.failures.is_empty() && self.answers > 0;
        finding.timely(
            is_answered,
            slowest <= slowest_max,
            measured,
            format!("all, each within {}", ms(slowest_max)),
        )
    }
}

/// Formats a time.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// Opens a connection from this address, bound as the person.
pub(crate) fn open(source: Ipv4Addr, server: SocketAddr) -> Result<Connection, ClientError> {
    let mut connection = Connection::over_tcp(connect_from(source, server)?)?;
    connection.set_timeout(PATIENCE)?;
    let outcome = connection.bind(PERSON, PERSON_PASSWORD)?;
    if outcome.is_success() {
        Ok(connection)
    } else {
        Err(ClientError::Unexpected(format!("bind: {outcome:?}")))
    }
}

fn search(connection: &mut Connection) -> Result<(), ClientError> {
    match connection.entry(PERSON, &["cn"])? {
        Some(_) => Ok(()),
        None => Err(ClientError::Unexpected("no entry".to_owned())),
    }
}

/// Binds as the administrator over the socket in the data directory and reads the server's state.
fn local(socket: &Path) -> Result<(), ClientError> {
    let mut connection = Connection::open_local(socket)?;
    connection.set_timeout(PATIENCE)?;
    let outcome = connection.bind_external(None)?;
    if !outcome.is_success() {
        return Err(ClientError::Unexpected(format!("bind: {outcome:?}")));
    }
    match connection.entry("cn=monitor", &[])? {
        Some(_) => Ok(()),
        None => Err(ClientError::Unexpected("no cn=monitor".to_owned())),
    }
}
