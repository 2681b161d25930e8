//! The TLS layer of a connection (RFC 4513 section 3), between the socket and the LDAP messages.
//!
//! The layer never blocks. Reading takes the available octets of the socket and returns plaintext. Sending encrypts at
//! most [`TLS_CHUNK_MAX`] octets more than the socket has accepted. So for a peer that does not read, the layer buffers
//! no more than that. An idle session has only its keys and an empty read buffer.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::limits::{TLS_CHUNK_MAX, TLS_HANDSHAKE_SIZE_MAX};
use crate::net::socket::Socket;

/// Server side of a TLS session on one socket.
#[derive(Debug)]
pub(crate) struct TlsSession {
    session: ServerConnection,
    /// Data of the channel binding tls-server-end-point.
    end_point: Option<Arc<[u8]>>,
    /// Start of the handshake; `None` after its end.
    handshake_since: Option<Instant>,
    /// Number of octets that the client has sent for the handshake.
    handshake_octets: usize,
    /// Number of plaintext octets that are decrypted but not taken yet.
    plaintext: usize,
    /// Number of plaintext octets that are encrypted but not sent yet.
    unsent: usize,
    /// Whether neither the socket nor the TLS session will return another octet.
    has_ended: bool,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Number of octets, and whether more may be available at once.
    Octets(usize, bool),
    /// No octets are available until the socket is readable again.
    Nothing,
    /// The stream has ended.
    End,
}

/// Channel binding data for proofs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelBindings {
    /// Data of tls-exporter (RFC 9266 section 2).
    exporter: Option<[u8; 32]>,
    /// Data of tls-server-end-point (RFC 5929 section 4).
    end_point: Option<Arc<[u8]>>,
}

impl ChannelBindings {
    /// Returns the data of a channel binding type; `None` if the type is unknown or has no data.
    pub(crate) fn data(&self, kind: &str) -> Option<Vec<u8>> {
        match kind {
            "tls-exporter" => self.exporter.map(Vec::from),
            "tls-server-end-point" => self.end_point.as_deref().map(Vec::from),
            // OpenLDAP's clients use this name for every type, and prefix the data with the name of the type.
            "ldap" => Some([b"tls-server-end-point:", self.end_point.as_deref()?].concat()),
            _ => None,
        }
    }

    /// Returns true if there is any channel binding data.
    pub(crate) fn is_there(&self) -> bool {
        self.exporter.is_some() || self.end_point.is_some()
    }
}

impl TlsSession {
    /// Creates a session that waits for the client's first message. `end_point` is the tls-server-end-point data of the
    /// certificate.
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        end_point: Option<Arc<[u8]>>,
        now: Instant,
    ) -> Result<TlsSession, rustls::Error> {
        let session = ServerConnection::new(config)?;
        Ok(TlsSession {
            session,
            end_point,
            handshake_since: Some(now),
            handshake_octets: 0,
            plaintext: 0,
            unsent: 0,
            has_ended: false,
        })
    }

    /// Returns the maximum number of octets that the layer buffers.
    pub(crate) fn buffered_bytes(&self) -> usize {
        if self.handshake_since.is_some() { self.handshake_octets } else { self.unsent() }
    }

    /// Returns the start of the handshake; `None` after its end.
    pub(crate) fn handshake_since(&self) -> Option<Instant> {
        self.handshake_since
    }

    /// Returns true if the handshake resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the version and cipher suite for the log.
    pub(crate) fn description(&self) -> String {
        let version = self.session.protocol_version().and_then(|version| version.as_str());
        let suite = self.session.negotiated_cipher_suite().map(|suite| suite.suite());
        let suite = suite.and_then(|suite| suite.as_str()).unwrap_or_default();
        format!("{} {suite}", version.unwrap_or("TLS"))
    }

    /// Returns the channel binding data. Requires that the handshake is done.
    pub(crate) fn channel_bindings(&self) -> ChannelBindings {
        let label = b"EXPORTER-Channel-Binding";
        ChannelBindings {
            exporter: self.session.export_keying_material([0; 32], label, Some(b"")).ok(),
            end_point: self.end_point.clone(),
        }
    }

    /// Returns the client's certificate, if it sent one. The certificate was verified against the authorities in the
    /// settings.
    pub(crate) fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.peer_certificates().and_then(<[_]>::first)
    }

    /// Appends decrypted octets to `input`, up to its free capacity.
    ///
    /// # Errors
    /// An error of the socket, or `InvalidData` if the octets are not TLS or were tampered with. In the latter case the
    /// layer has sent an alert, if the socket accepted it.
    pub(crate) fn receive(&mut self, socket: &Socket, input: &mut Vec<u8>) -> io::Result<Incoming> {
        let room = input.capacity() - input.len();
        let mut is_drained = false;
        while self.plaintext == 0 && !is_drained && !self.has_ended {
            is_drained = self.fill(socket)?;
        }
        let mut count = 0;
        while count < room && self.plaintext > 0 {
            let mut reader = self.session.reader();
            let chunk = reader.fill_buf()?;
            let taken = chunk.get(..room - count).unwrap_or(chunk);
            input.extend_from_slice(taken);
            let taken = taken.len();
            reader.consume(taken);
            count += taken;
            self.plaintext = if taken == 0 { 0 } else { self.plaintext.saturating_sub(taken) };
        }
        if count > 0 || room == 0 {
            // The end of the stream follows the octets, and no event announces it.
            return Ok(Incoming::Octets(count, self.plaintext > 0 || self.has_ended || !is_drained));
        }
        Ok(if self.has_ended { Incoming::End } else { Incoming::Nothing })
    }

    /// Reads from the socket once. Returns true if the socket is empty.
    fn fill(&mut self, socket: &Socket) -> io::Result<bool> {
        let mut source = Source { socket, is_drained: false };
        match self.session.read_tls(&mut source) {
            Ok(count) => {
                self.has_ended = count == 0;
                if self.handshake_since.is_some() {
                    self.handshake_octets += count;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_drained = source.is_drained;
        let processed = self.session.process_new_packets();
        // There may be handshake messages or an alert to send.
        let flushed = self.flush(socket);
        let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match flushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        self.plaintext = state.plaintext_bytes_to_read();
        self.has_ended |= state.peer_has_closed();
        if self.handshake_since.is_some() && !self.session.is_handshaking() {
            self.handshake_since = None;
        } else if self.handshake_since.is_some() && self.handshake_octets > TLS_HANDSHAKE_SIZE_MAX {
            let text = format!("a handshake of more than {TLS_HANDSHAKE_SIZE_MAX} octets");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        Ok(is_drained)
    }

    /// Encrypts and sends octets. Returns the number of accepted octets. They are sent now, or when the socket accepts
    /// more.
    ///
    /// # Errors
    /// `WouldBlock` if the socket did not accept all octets that were encrypted before.
    pub(crate) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        if self.session.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let chunk = bytes.get(..TLS_CHUNK_MAX).unwrap_or(bytes);
        let taken = self.session.writer().write(chunk)?;
        self.unsent = taken;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends the encrypted octets.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not accept all of them.
    pub(crate) fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Sink(socket)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent = 0;
        Ok(())
    }

    /// Returns the approximate number of octets that are encrypted but not sent.
    pub(crate) fn unsent(&self) -> usize {
        if self.session.wants_write() { self.unsent.max(1) } else { 0 }
    }

    /// Sends the close_notify alert, if the socket accepts it (RFC 8446 section 6.1).
    pub(crate) fn end(&mut self, socket: &Socket) {
        self.session.send_close_notify();
        // The peer sees the socket close in any case.
        let _ = self.flush(socket);
    }
}

/// Reader of a socket that records whether the socket was emptied.
struct Source<'a> {
    socket: &'a Socket,
    is_drained: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.receive(buffer)?;
        // A read of zero octets means the end of the stream. It does not show that the socket was emptied.
        self.is_drained = count > 0 && count < buffer.len();
        Ok(count)
    }
}

struct Sink<'a>(&'a Socket);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        // Most answers are one record, for which the simpler call is cheaper.
        match pieces {
            [piece] => self.0.send(piece),
            pieces => self.0.send_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
