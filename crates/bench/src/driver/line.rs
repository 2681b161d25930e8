//! A connection: its socket, its TLS session if it has one, and its incomplete input and output.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;
use socket2::{Domain, Protocol, Socket, Type};

use super::plan::On;

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not connected.
    #[default]
    Down,
    Connecting,
    /// The StartTLS request was sent; its response has not arrived.
    StartingTls,
    /// In the TLS handshake.
    Handshaking,
    /// Waiting for the result of the initial bind.
    Binding,
    Ready,
    /// Not connected, and the driver makes no more attempts.
    GivenUp,
}

impl State {
    /// Returns true if no LDAP requests can be sent yet.
    pub(crate) fn is_opening(self) -> bool {
        matches!(self, State::Connecting | State::StartingTls | State::Handshaking)
    }

    /// Returns true if the connection is established, so that answers may arrive.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, State::StartingTls | State::Binding | State::Ready)
    }
}

/// A connection.
#[derive(Default)]
pub(crate) struct Line {
    stream: Option<TcpStream>,
    tls: Option<Box<ClientConnection>>,
    pub(crate) state: State,
    pub(crate) client: usize,
    pub(crate) on: On,
    /// Index of the target.
    pub(crate) target: usize,
    /// Received octets of a message that is not complete yet.
    partial: Vec<u8>,
    /// Octets to write. The octets before the index `written` have been written.
    output: Vec<u8>,
    written: usize,
    /// Number of consecutive failed attempts to connect. The next field is the time of the next attempt.
    pub(crate) attempts: u32,
    pub(crate) retry_at: u64,
    /// Slots whose binds wait, because a connection can have only one outstanding bind.
    pub(crate) queue: std::collections::VecDeque<usize>,
    pub(crate) is_busy: bool,
}

/// Outcome of a read.
pub(crate) enum ReadEnd {
    /// All available octets have been read.
    Drained,
    /// More octets may be available.
    More,
    /// The server has closed the connection.
    Closed,
}

impl Line {
    pub(crate) fn new(client: usize, on: On, target: usize) -> Line {
        Line { client, on, target, ..Line::default() }
    }

    /// Starts to connect.
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

    /// Returns true if the connection is established.
    ///
    /// # Errors
    /// The reason why connecting failed.
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

    /// Closes the socket and discards pending input and output.
    pub(crate) fn close(&mut self) {
        self.stream = None;
        self.tls = None;
        self.state = State::Down;
        self.partial = Vec::new();
        self.output.clear();
        self.written = 0;
        self.is_busy = false;
    }

    /// Starts TLS on an established connection.
    pub(crate) fn secure(&mut self, session: ClientConnection) {
        self.tls = Some(Box::new(session));
        self.state = State::Handshaking;
    }

    /// Continues the TLS handshake as far as the socket allows. Returns true when the handshake is complete.
    ///
    /// # Errors
    /// The reason why the handshake failed, such as a certificate that is not trusted.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        let (Some(stream), Some(tls)) = (&mut self.stream, &mut self.tls) else { return Ok(false) };
        loop {
            while tls.wants_write() {
                match tls.write_tls(stream) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match tls.read_tls(stream) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed it")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = tls.process_new_packets() {
                // If possible, send the server the TLS alert with the reason.
                let _ = tls.write_tls(stream);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
    }

    /// Returns the negotiated TLS version and cipher: "TLSv1_3, TLS13_AES_256_GCM_SHA384".
    pub(crate) fn tls(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let version = format!("{:?}", tls.protocol_version()?);
        Some(format!("{version}, {:?}", tls.negotiated_cipher_suite()?.suite()))
    }

    /// Appends a message to the output.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.output.extend_from_slice(message);
    }

    /// Writes as much output as the socket accepts.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if let Some(tls) = &mut self.tls {
            if tls.is_handshaking() {
                return Ok(());
            }
            let result = write_secured(tls, stream, &self.output);
            self.output.clear();
            return result;
        }
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

    /// Reads at most `size` octets. Fills `buffer` with the stored incomplete message and the octets that were read
    /// after it. Returns the number of octets in `buffer`, and how the read ended.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, size: usize) -> io::Result<(usize, ReadEnd)> {
        let start = self.partial.len();
        if buffer.len() < start + size {
            buffer.resize(start + size, 0);
        }
        buffer[..start].copy_from_slice(&self.partial);
        self.partial.clear();
        let Some(stream) = &mut self.stream else { return Ok((start, ReadEnd::Drained)) };
        if let Some(tls) = &mut self.tls {
            let (count, end) = read_secured(tls, stream, &mut buffer[start..start + size])?;
            return Ok((start + count, end));
        }
        loop {
            match stream.read(&mut buffer[start..start + size]) {
                Ok(0) => return Ok((start, ReadEnd::Closed)),
                // A short read has emptied the socket. Octets that arrive later cause a new event.
                Ok(count) if count < size => return Ok((start + count, ReadEnd::Drained)),
                Ok(count) => return Ok((start + count, ReadEnd::More)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((start, ReadEnd::Drained)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores the beginning of an incomplete message.
    pub(crate) fn keep(&mut self, partial: &[u8]) {
        self.partial.extend_from_slice(partial);
    }
}

/// Encrypts the output and writes as much as the socket accepts. TLS buffers the rest.
fn write_secured(tls: &mut ClientConnection, stream: &mut TcpStream, output: &[u8]) -> io::Result<()> {
    tls.writer().write_all(output)?;
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads from the buffer of TLS, and then from the socket, until `buffer` is full or nothing more is available.
fn read_secured(
    tls: &mut ClientConnection,
    stream: &mut TcpStream,
    buffer: &mut [u8],
) -> io::Result<(usize, ReadEnd)> {
    let mut count = 0;
    let mut socket = Draining { stream, is_drained: false };
    loop {
        while count < buffer.len() {
            match tls.reader().read(&mut buffer[count..]) {
                Ok(0) => return Ok((count, ReadEnd::Closed)),
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if count == buffer.len() {
            return Ok((count, ReadEnd::More));
        }
        if socket.is_drained {
            return Ok((count, ReadEnd::Drained));
        }
        match tls.read_tls(&mut socket) {
            // The octets that were read before the end must still be handled.
            Ok(0) if count > 0 => return Ok((count, ReadEnd::Closed)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((count, ReadEnd::Drained)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}

/// A socket that records whether a read has emptied it.
struct Draining<'s> {
    stream: &'s mut TcpStream,
    is_drained: bool,
}

impl Read for Draining<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.is_drained = count < buffer.len();
        Ok(count)
    }
}

/// Error number: connecting is in progress.
const EINPROGRESS: i32 = 115;
