//! The TLS layer of a connection (RFC 4513 section 3), between the socket and the LDAP messages.
//!
//! The layer never blocks. Reading takes the octets that the socket has, and returns plaintext. Sending encrypts at
//! most [`TLS_CHUNK_MAX`] octets more than the socket has accepted. Therefore the layer buffers at most that many
//! octets for a peer that does not read. An idle session has only its keys and an empty read buffer.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::limits::{TLS_CHUNK_MAX, TLS_FILLS_MAX, TLS_HANDSHAKE_SIZE_MAX};
use crate::net::socket::Socket;

/// Server side of a TLS session.
#[derive(Debug)]
pub(crate) struct TlsSession {
    session: ServerConnection,
    /// Data of the channel binding tls-server-end-point, if the certificate has any.
    end_point: Option<Arc<[u8]>>,
    /// Time at which the handshake began; `None` after its end.
    handshake_since: Option<Instant>,
    /// Number of octets that the client has sent during the handshake.
    handshake_octets: usize,
    /// Number of plaintext octets that are decrypted and not taken yet.
    plaintext: usize,
    /// Number of plaintext octets that are encrypted and not sent yet.
    unsent: usize,
    /// Whether the socket and the TLS session will return no further octets.
    has_ended: bool,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Number of octets that were read. The flag is true if more may be available at once.
    Octets(usize, bool),
    /// No octets, until the socket is readable again.
    Nothing,
    /// The stream has ended.
    End,
}

/// Channel binding data with which proofs are bound to the TLS session.
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
            // OpenLDAP's clients use this name for every type, and put the name of the type before the data.
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
    /// certificate, if it has any.
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

    /// Returns the maximum number of octets that the layer buffers now.
    pub(crate) fn buffered_bytes(&self) -> usize {
        if self.handshake_since.is_some() { self.handshake_octets } else { self.unsent() }
    }

    /// Returns the time at which the handshake began; `None` after its end.
    pub(crate) fn handshake_since(&self) -> Option<Instant> {
        self.handshake_since
    }

    /// Returns true if the handshake has resumed an earlier session.
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

    /// Returns the channel binding data. The handshake must be done.
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
    /// The socket failed. `InvalidData` means that the octets are not TLS or were tampered with. In that case the layer
    /// has sent an alert, if the socket accepted it.
    pub(crate) fn receive(&mut self, socket: &Socket, input: &mut Vec<u8>) -> io::Result<Incoming> {
        let room = input.capacity() - input.len();
        let (mut is_drained, mut fills) = (false, 0);
        while self.plaintext == 0 && !is_drained && !self.has_ended {
            // Records without plaintext, such as empty records and key updates, must not keep other clients waiting.
            if fills == TLS_FILLS_MAX {
                return Ok(Incoming::Octets(0, true));
            }
            fills += 1;
            is_drained = self.fill(socket)?;
        }
        let mut count = 0;
        while count < room && self.plaintext > 0 {
            let mut reader = self.session.reader();
            let chunk = reader.fill_buf()?;
            let copied = chunk.get(..room - count).unwrap_or(chunk);
            input.extend_from_slice(copied);
            let copied = copied.len();
            reader.consume(copied);
            count += copied;
            self.plaintext = if copied == 0 { 0 } else { self.plaintext.saturating_sub(copied) };
        }
        if count > 0 || room == 0 {
            // The stream may have ended after these octets. No event would announce the end, so the caller must read
            // again.
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
        // The octets may require a handshake message or an alert in response.
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

    /// Encrypts octets and begins to send them. Returns the number of octets that were accepted. If the socket does not
    /// take all accepted octets now, the rest is sent later.
    ///
    /// # Errors
    /// `WouldBlock` if the socket has not accepted all octets that were encrypted before.
    pub(crate) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        if self.session.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let chunk = bytes.get(..TLS_CHUNK_MAX).unwrap_or(bytes);
        let written = self.session.writer().write(chunk)?;
        self.unsent = written;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    /// Sends the octets that are encrypted and not sent yet.
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

    /// Returns the approximate number of octets that are encrypted and not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        if self.session.wants_write() { self.unsent.max(1) } else { 0 }
    }

    /// Sends the close_notify alert, if the socket accepts it (RFC 8446 section 6.1).
    pub(crate) fn end(&mut self, socket: &Socket) {
        self.session.send_close_notify();
        // An error is ignored, because the peer sees the socket close in any case.
        let _ = self.flush(socket);
    }
}

/// Reader of a socket that records whether it has emptied the socket.
struct Source<'a> {
    socket: &'a Socket,
    is_drained: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.receive(buffer)?;
        // A read of zero octets means the end of the stream, and does not show that the socket is empty.
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
        // Most answers are one record. For one record, the simpler call is cheaper.
        match pieces {
            [piece] => self.0.send(piece),
            pieces => self.0.send_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
