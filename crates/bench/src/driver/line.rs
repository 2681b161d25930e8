//! One connection: its socket, what is half read and half written.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::plan::On;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none.
    Down,
    Connecting,
    /// The bind that every connection begins with is on its way.
    Binding,
    Ready,
    /// There is none and there will be none.
    GivenUp,
}

/// A connection.
pub(crate) struct Line {
    stream: Option<TcpStream>,
    pub(crate) state: State,
    pub(crate) client: usize,
    pub(crate) on: On,
    /// Which of the targets.
    pub(crate) target: usize,
    /// The beginning of a message whose end has not come yet.
    partial: Vec<u8>,
    /// What is to be written; up to `written` it is.
    output: Vec<u8>,
    written: usize,
    /// How often in a row connecting failed, and when to try again.
    pub(crate) attempts: u32,
    pub(crate) retry_at: u64,
    /// Requests of slots that wait for their turn: a connection has one bind at a time.
    pub(crate) queue: std::collections::VecDeque<usize>,
    pub(crate) is_busy: bool,
}

/// What a read brought.
pub(crate) enum ReadEnd {
    /// All that there was.
    Drained,
    /// There may be more.
    More,
    /// The server has closed.
    Closed,
}

impl Line {
    pub(crate) fn new(client: usize, on: On, target: usize) -> Line {
        Line {
            stream: None,
            state: State::Down,
            client,
            on,
            target,
            partial: Vec::new(),
            output: Vec::new(),
            written: 0,
            attempts: 0,
            retry_at: 0,
            queue: std::collections::VecDeque::new(),
            is_busy: false,
        }
    }

    /// Begins to connect.
    pub(crate) fn connect(
        &mut self,
        address: SocketAddr,
        source: Option<IpAddr>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<()> {
        self.close();
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = source {
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let mut stream = TcpStream::from_std(socket.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.stream = Some(stream);
        self.state = State::Connecting;
        Ok(())
    }

    /// Whether connecting has come to its end.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let Some(stream) = &self.stream else { return Ok(false) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Closes the socket and forgets what was on its way.
    pub(crate) fn close(&mut self) {
        self.stream = None;
        self.state = State::Down;
        self.partial = Vec::new();
        self.output.clear();
        self.written = 0;
        self.is_busy = false;
    }

    /// Adds a message to what is to be written.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.output.extend_from_slice(message);
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.written < self.output.len() {
            match stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once, behind what of a message was there already. `buffer` gets both; the number of octets is given.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, size: usize) -> io::Result<(usize, ReadEnd)> {
        let kept = self.partial.len();
        if buffer.len() < kept + size {
            buffer.resize(kept + size, 0);
        }
        buffer[..kept].copy_from_slice(&self.partial);
        self.partial.clear();
        let Some(stream) = &mut self.stream else { return Ok((kept, ReadEnd::Drained)) };
        loop {
            match stream.read(&mut buffer[kept..kept + size]) {
                Ok(0) => return Ok((kept, ReadEnd::Closed)),
                // A short read has emptied the socket; the next octets bring an event of their own.
                Ok(count) if count < size => return Ok((kept + count, ReadEnd::Drained)),
                Ok(count) => return Ok((kept + count, ReadEnd::More)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((kept, ReadEnd::Drained)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the beginning of a message.
    pub(crate) fn keep(&mut self, partial: &[u8]) {
        self.partial.extend_from_slice(partial);
    }
}

/// The connection is being made.
const EINPROGRESS: i32 = 115;
