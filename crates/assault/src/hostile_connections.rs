//! Many hostile connections at once. Each sends its messages as fast as the server reads them, and reads nothing unless
//! the attack requires it.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::{ClientError, Connection};
use ldap::{Authentication, BindRequest, Controls, MessageId, Request, ResultCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

/// If the server has read from no connection for this time, it counts as no longer reading.
const QUIET: Duration = Duration::from_millis(1_200);

/// Interval between checks while all sockets are full.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Maximum time for the server to answer a bind of a hostile connection.
const BIND_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of octets sent on one connection before the next connection gets its turn.
const TURN: usize = 256 << 10;

/// First source address of hostile connections. Each connection has its own address, which is the worst case for limits
/// per source.
const FIRST_SOURCE: u32 = u32::from_be_bytes([127, 1, 0, 1]);

/// A group of hostile connections.
pub(crate) struct HostileConnections {
    members: Vec<Member>,
}

struct Member {
    stream: TcpStream,
    pending: Vec<u8>,
    written: usize,
    sent: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Sending,
    Done,
    /// The server has closed the connection.
    Closed,
}

/// Progress of sending on hostile connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FloodProgress {
    /// Number of messages that the kernel accepted completely.
    pub(crate) messages: usize,
    pub(crate) octets: u64,
    /// Number of connections that the server closed.
    pub(crate) closed: usize,
    /// Number of connections from which the server no longer reads.
    pub(crate) waiting: usize,
}

/// Connects from an address of the loopback network.
pub(crate) fn connect_from(source: Ipv4Addr, server: SocketAddr) -> Result<TcpStream, ClientError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

/// Returns the source address of a hostile connection.
pub(crate) fn hostile_source(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_SOURCE + index as u32)
}

impl HostileConnections {
    /// Opens connections, all from one address if `one_source` is true, otherwise each from its own address.
    pub(crate) fn connect(server: SocketAddr, count: usize, one_source: bool) -> HostileConnections {
        let member = |index| {
            let source = hostile_source(if one_source { 0 } else { index });
            let stream = connect_from(source, server).unwrap();
            stream.set_nonblocking(true).unwrap();
            // Closing the socket then resets the connection. After an orderly close, the server would still handle the
            // messages in its socket.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            Member { stream, pending: Vec::new(), written: 0, sent: 0, state: State::Sending }
        };
        HostileConnections { members: (0..count).map(member).collect() }
    }

    /// Binds each connection.
    pub(crate) fn bind(&mut self, dn: &str, password: &str) {
        let authentication = Authentication::Simple(password.as_bytes());
        let request = Request::Bind(BindRequest { version: 3, name: dn, authentication });
        for member in &mut self.members {
            let stream = member.stream.try_clone().unwrap();
            stream.set_nonblocking(false).unwrap();
            let mut connection = Connection::over_tcp(stream).unwrap();
            connection.set_timeout(BIND_TIMEOUT).unwrap();
            connection.send_as(MessageId(i32::MAX), request, Controls::NONE).unwrap();
            let outcome = connection.reply(MessageId(i32::MAX)).unwrap().outcome;
            assert_eq!(outcome.code, ResultCode::SUCCESS, "{outcome:?}");
            member.stream.set_nonblocking(true).unwrap();
        }
    }

    /// Sends messages on all connections. `message` returns the message for a connection and a message number, both
    /// from 0. Ends when there are no more messages, when the server stops reading, or when `goes_on` returns false.
    pub(crate) fn push(
        &mut self,
        message: impl Fn(usize, usize) -> Option<Vec<u8>>,
        mut goes_on: impl FnMut() -> bool,
    ) -> FloodProgress {
        let mut pushed = FloodProgress::default();
        let mut last_taken = Instant::now();
        while self.members.iter().any(|member| member.state == State::Sending) && goes_on() {
            let mut sent = 0;
            for (index, member) in self.members.iter_mut().enumerate() {
                sent += member.turn(|number| message(index, number), &mut pushed.messages);
            }
            pushed.octets += sent;
            if sent > 0 {
                last_taken = Instant::now();
            } else if last_taken.elapsed() > QUIET {
                break;
            } else {
                self.wait_for_room();
            }
        }
        let count = |state| self.members.iter().filter(|member| member.state == state).count();
        (pushed.closed, pushed.waiting) = (count(State::Closed), count(State::Sending));
        pushed
    }

    fn wait_for_room(&self) {
        let sending = self.members.iter().filter(|member| member.state == State::Sending);
        let mut fds: Vec<PollFd<'_>> =
            sending.map(|member| PollFd::new(&member.stream, PollFlags::OUT)).collect();
        let _ = poll(&mut fds, Some(&POLL));
    }
}

impl Member {
    /// Sends as much as the kernel accepts, at most [`TURN`] octets. Returns the number of octets.
    fn turn(&mut self, message: impl Fn(usize) -> Option<Vec<u8>>, messages: &mut usize) -> u64 {
        let mut sent = 0;
        while self.state == State::Sending && sent < TURN {
            if self.written == self.pending.len() {
                match message(self.sent) {
                    Some(next) => (self.pending, self.written) = (next, 0),
                    None => {
                        self.state = State::Done;
                        break;
                    }
                }
            }
            match self.stream.write(&self.pending[self.written..]) {
                Ok(count) => {
                    sent += count;
                    self.written += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.state = State::Closed,
            }
            if self.written == self.pending.len() {
                self.sent += 1;
                *messages += 1;
            }
        }
        sent as u64
    }
}
