//! A connection: sends requests, and matches responses to them by message id.

use crate::stream::Stream;
use crate::{ClientError, Outcome, Received, Reply, Tls};
use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest,
    Control, Controls, ControlsBuf, DeleteRequest, ExtendedRequest, FilterBuf, Message, MessageId,
    ModifyDnRequest, ModifyRequest, PagedResults, Request, Response, Scope, SearchEntry, SearchRequest,
    SelectionBuf, ServerUrl,
};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use zeroize::Zeroize as _;

/// Default time limit of a read; see [`Connection::set_timeout`].
pub const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// Octets read from the socket at a time.
const READ_SIZE: usize = 64 * 1024;

/// A connection to an LDAP server. Dropping it closes the socket without an unbind.
pub struct Connection {
    stream: Stream,
    last_id: i32,
    output: Vec<u8>,
    /// Octets received from the server. The first `consumed` of them have been processed.
    input: Vec<u8>,
    consumed: usize,
    /// Messages that were read while waiting for a different message. No queue is empty.
    waiting: HashMap<MessageId, VecDeque<Received>>,
    /// Result of a notice of disconnection, if one was received.
    notice: Option<String>,
    message_size_max: usize,
}

impl Connection {
    /// Connects to a network address.
    ///
    /// # Errors
    /// [`ClientError::Io`] if no process listens on the address.
    pub fn open(address: SocketAddr) -> Result<Connection, ClientError> {
        Connection::over_tcp(TcpStream::connect(address)?)
    }

    /// Connects to a Unix domain socket, whose path may have any length.
    ///
    /// # Errors
    /// [`ClientError::Io`] if no process listens on the socket, or this user may not connect.
    pub fn open_local(path: &Path) -> Result<Connection, ClientError> {
        Connection::over(Stream::local(path)?)
    }

    /// Connects to the address of a URL. If `tls` is given, a network connection always uses TLS, by StartTLS if the
    /// URL is `ldap`.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the host is unknown, no process listens on the address, or TLS fails;
    /// [`ClientError::Unexpected`] for `ldaps` without `tls`.
    pub fn open_url(url: &ServerUrl, tls: Option<&Tls>) -> Result<Connection, ClientError> {
        let (host, port, is_tls) = match url {
            ServerUrl::Local(path) => return Connection::open_local(path),
            ServerUrl::Internet { host, port, tls } => (host, *port, *tls),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { "localhost" } else { host };
        let socket = TcpStream::connect((host, port))?;
        match tls {
            Some(tls) if is_tls => Connection::secured(socket, tls, host),
            Some(tls) => Connection::over_tcp(socket)?.start_tls(tls, host),
            None if is_tls => {
                Err(ClientError::Unexpected(format!("{url}: nothing says which certificates to trust")))
            }
            None => Connection::over_tcp(socket),
        }
    }

    /// Does the same as [`Connection::open_url`], but waits at most `timeout` for the network at each step. `tls` is
    /// required except for a Unix domain socket.
    ///
    /// # Errors
    /// The same as [`Connection::open_url`].
    pub fn open_within(
        url: &ServerUrl,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> Result<Connection, ClientError> {
        let (host, port, is_tls) = match url {
            ServerUrl::Local(path) => {
                let mut connection = Connection::open_local(path)?;
                connection.set_timeout(timeout)?;
                return Ok(connection);
            }
            ServerUrl::Internet { host, port, tls } => (host, *port, *tls),
        };
        let unexpected = |what: &str| ClientError::Unexpected(format!("{url}: {what}"));
        let tls = tls.ok_or_else(|| unexpected("nothing says which certificates to trust"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = (host, port).to_socket_addrs()?.next().ok_or_else(|| unexpected("no address"))?;
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let mut connection = if is_tls {
            Connection::over(Stream::secured(socket, tls.session(host)?)?)?
        } else {
            let mut clear = Connection::over_tcp(socket)?;
            clear.set_timeout(timeout)?;
            clear.start_tls(tls, host)?
        };
        connection.set_timeout(timeout)?;
        Ok(connection)
    }

    /// Connects with TLS from the first octet (`ldaps://`). The server's certificate must be valid for `host`.
    ///
    /// # Errors
    /// [`ClientError::Io`] if no process listens on the address, or TLS fails, with the reason if the certificate is
    /// not trusted.
    pub fn open_tls(address: SocketAddr, tls: &Tls, host: &str) -> Result<Connection, ClientError> {
        Connection::secured(TcpStream::connect(address)?, tls, host)
    }

    /// Does the same as [`Connection::open_tls`] over a connection that the caller has opened.
    ///
    /// # Errors
    /// The same as [`Connection::open_tls`].
    pub fn secured(stream: TcpStream, tls: &Tls, host: &str) -> Result<Connection, ClientError> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT_DEFAULT))?;
        Connection::over(Stream::secured(stream, tls.session(host)?)?)
    }

    /// Starts TLS on a connection that has none (StartTLS, RFC 4511 section 4.14).
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the server refuses, or sends other octets after it has accepted; otherwise the
    /// errors of [`Connection::open_tls`].
    pub fn start_tls(mut self, tls: &Tls, host: &str) -> Result<Connection, ClientError> {
        let outcome = self.extended(ldap::oids::START_TLS, None)?.outcome;
        if !outcome.is_success() {
            return Err(ClientError::Unexpected(format!(
                "StartTLS: {} {}",
                outcome.code, outcome.diagnostic
            )));
        }
        // Bytes received before TLS are unauthenticated.
        if self.consumed < self.input.len() {
            return Err(ClientError::Unexpected("octets between StartTLS and TLS".to_owned()));
        }
        let Stream::Tcp(stream) = self.stream else {
            return Err(ClientError::Unexpected("StartTLS is for TCP without TLS".to_owned()));
        };
        self.stream = Stream::secured(stream, tls.session(host)?)?;
        Ok(self)
    }

    /// Returns the data of the channel binding tls-exporter (RFC 9266); `None` without TLS.
    pub fn channel_binding(&self) -> Option<[u8; 32]> {
        let Stream::Tls(stream) = &self.stream else { return None };
        stream.conn.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b"")).ok()
    }

    /// Returns the certificate of the server in DER; `None` without TLS.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        let Stream::Tls(stream) = &self.stream else { return None };
        Some(stream.conn.peer_certificates()?.first()?.as_ref())
    }

    /// Creates a connection over a connected socket, such as one that the caller bound to a local address.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the socket cannot be used.
    pub fn over_tcp(stream: TcpStream) -> Result<Connection, ClientError> {
        stream.set_nodelay(true)?;
        Connection::over(Stream::Tcp(stream))
    }

    /// Creates a connection over a connected Unix domain socket, such as one end of a pair.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the socket cannot be used.
    pub fn over_local(stream: UnixStream) -> Result<Connection, ClientError> {
        Connection::over(Stream::Local(stream))
    }

    fn over(stream: Stream) -> Result<Connection, ClientError> {
        stream.set_timeouts(READ_TIMEOUT_DEFAULT, Some(READ_TIMEOUT_DEFAULT))?;
        Ok(Connection {
            stream,
            last_id: 0,
            output: Vec::new(),
            input: Vec::new(),
            consumed: 0,
            waiting: HashMap::new(),
            notice: None,
            message_size_max: usize::MAX,
        })
    }

    /// Sets the time limit of each read.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), ClientError> {
        Ok(self.stream.set_timeouts(timeout, None)?)
    }

    /// Sets the maximum size in bytes of a message of the server. After a larger message the connection cannot be used.
    pub fn set_message_size_max(&mut self, size: usize) {
        self.message_size_max = size;
    }

    /// Returns the server's network address.
    ///
    /// # Panics
    /// The socket is no longer connected, or is a Unix domain socket.
    pub fn peer(&self) -> SocketAddr {
        match self.stream.tcp() {
            Some(stream) => stream.peer_addr().expect("a connected socket"),
            None => panic!("a socket of the file system has no address"),
        }
    }

    /// Sends a request with the next free id, without waiting.
    pub fn send(&mut self, request: Request<'_>, controls: Controls<'_>) -> Result<MessageId, ClientError> {
        // Message ids are positive (RFC 4511 section 4.1.1).
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        let id = MessageId(self.last_id);
        self.send_as(id, request, controls)?;
        Ok(id)
    }

    /// Sends a request with an id that the caller chooses.
    pub fn send_as(
        &mut self,
        id: MessageId,
        request: Request<'_>,
        controls: Controls<'_>,
    ) -> Result<(), ClientError> {
        self.output.clear();
        Message { id, request, controls }.encode(&mut self.output);
        let sent = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        if matches!(request, Request::Bind(_)) {
            self.output.zeroize();
        }
        Ok(sent?)
    }

    /// Sends octets unchanged, to test requests that no correct client sends.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Closes the sending half of the connection.
    pub fn finish_sending(&mut self) -> Result<(), ClientError> {
        Ok(self.stream.finish_sending()?)
    }

    /// Ends the data of TLS (RFC 8446 section 6.1) and leaves the socket open. Without TLS, does the same as
    /// [`finish_sending`](Connection::finish_sending).
    pub fn finish_data(&mut self) -> Result<(), ClientError> {
        Ok(self.stream.finish_data()?)
    }

    /// Returns the next message for this id. Messages for other ids are stored for later calls.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`], [`ClientError::Closed`], or an error if the octets are not LDAP.
    pub fn receive(&mut self, id: MessageId) -> Result<Received, ClientError> {
        if let Entry::Occupied(mut stored) = self.waiting.entry(id) {
            let received = stored.get_mut().pop_front();
            if stored.get().is_empty() {
                stored.remove();
            }
            if let Some(received) = received {
                return Ok(received);
            }
        }
        loop {
            let received = self.read_message()?;
            if received.id() == id {
                return Ok(received);
            }
            self.waiting.entry(received.id()).or_default().push_back(received);
        }
    }

    /// Returns the next message from the server, whatever its id. Does not return messages that
    /// [`receive`](Self::receive) stored.
    pub fn receive_any(&mut self) -> Result<Received, ClientError> {
        self.read_message()
    }

    /// Returns true if a whole message has been received and not returned yet, so that
    /// [`receive_any`](Self::receive_any) would not wait.
    pub fn has_message(&self) -> bool {
        let unread = self.input.get(self.consumed..).unwrap_or_default();
        ldap::frame_len(unread).is_ok_and(|len| len.is_some_and(|len| len <= unread.len()))
    }

    /// Returns all messages for this id up to and including its final response.
    pub fn reply(&mut self, id: MessageId) -> Result<Reply, ClientError> {
        let mut messages = Vec::new();
        loop {
            let received = self.receive(id)?;
            let last = received.outcome().is_some();
            messages.push(received);
            if last {
                return Reply::gather(messages)
                    .ok_or_else(|| ClientError::Unexpected("a reply without a result".to_owned()));
            }
        }
    }

    /// Sends a request and waits for all of its responses.
    pub fn request(&mut self, request: Request<'_>, controls: Controls<'_>) -> Result<Reply, ClientError> {
        let id = self.send(request, controls)?;
        self.reply(id)
    }

    /// Sends a simple bind.
    pub fn bind(&mut self, name: &str, password: &str) -> Result<Outcome, ClientError> {
        let authentication = Authentication::Simple(password.as_bytes());
        self.outcome(Request::Bind(BindRequest { version: 3, name, authentication }))
    }

    /// Sends a SASL EXTERNAL bind (RFC 4513 section 5.2.3) that requests the authorization identity `wanted`, an
    /// authzId. If it is `None`, the server derives the identity from the socket.
    pub fn bind_external(&mut self, wanted: Option<&str>) -> Result<Outcome, ClientError> {
        let credentials = wanted.map(str::as_bytes);
        let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials };
        self.outcome(Request::Bind(BindRequest { version: 3, name: "", authentication }))
    }

    /// Searches without following aliases and without limits. An empty list of attributes requests all user attributes.
    pub fn search(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
    ) -> Result<Reply, ClientError> {
        self.search_with(base, scope, filter, attributes, Controls::NONE)
    }

    /// Does the same as [`search`](Self::search) with the ManageDsaIT control (RFC 3296), which treats referral entries
    /// as ordinary entries.
    pub fn search_managing(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
    ) -> Result<Reply, ClientError> {
        let control = Control { oid: ldap::oids::MANAGE_DSA_IT, critical: true, value: None };
        let controls = ControlsBuf::from_iter([control]);
        self.search_with(base, scope, filter, attributes, controls.as_controls())
    }

    /// Does the same as [`search`](Self::search) with the given controls.
    pub fn search_with(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        controls: Controls<'_>,
    ) -> Result<Reply, ClientError> {
        let filter = FilterBuf::parse(filter).map_err(ClientError::Filter)?;
        let selection = SelectionBuf::from_iter(attributes);
        let request = SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection());
        self.request(Request::Search(request), controls)
    }

    /// Reads one page of a search (RFC 2696); [`Reply::page`] returns the cookie of the next page.
    pub fn search_page(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: &[&str],
        page: PagedResults<'_>,
    ) -> Result<Reply, ClientError> {
        let value = page.encode();
        let control = Control { oid: ldap::oids::PAGED_RESULTS, critical: true, value: Some(&value) };
        let controls = ControlsBuf::from_iter([control]);
        self.search_with(base, scope, filter, attributes, controls.as_controls())
    }

    /// Searches, and passes each entry to `each` as it arrives, without storing it. Reads nothing while `each` runs.
    /// Returns the final response.
    ///
    /// # Errors
    /// `each` failed, or there was no response. If `each` fails, the remaining responses stay unread.
    pub fn search_each<E: From<ClientError>>(
        &mut self,
        request: SearchRequest<'_>,
        controls: Controls<'_>,
        mut each: impl FnMut(&SearchEntry<'_>) -> Result<(), E>,
    ) -> Result<Received, E> {
        let id = self.send(Request::Search(request), controls)?;
        loop {
            let received = self.receive(id)?;
            match received.message().response {
                Response::SearchEntry(entry) => each(&entry)?,
                response if response.result().is_some() => return Ok(received),
                _ => {}
            }
        }
    }

    /// Returns the entry with this name, if it exists and the client may read it.
    pub fn entry(&mut self, dn: &str, attributes: &[&str]) -> Result<Option<crate::Entry>, ClientError> {
        let reply = self.search(dn, Scope::BaseObject, "(objectClass=*)", attributes)?;
        Ok(reply.entries.into_iter().next())
    }

    /// Adds an entry. The values of an attribute that is listed more than once are combined.
    pub fn add(&mut self, entry: &str, attributes: &[(&str, &str)]) -> Result<Outcome, ClientError> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in attributes {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let mut list = AttributesBuf::new();
        for name in names {
            list.push(name, attributes.iter().filter(|(other, _)| *other == name).map(|(_, value)| value));
        }
        self.outcome(Request::Add(AddRequest { entry, attributes: list.as_attributes() }))
    }

    /// Modifies an entry.
    pub fn modify(
        &mut self,
        object: &str,
        changes: &[(ChangeOperation, &str, &[&str])],
    ) -> Result<Outcome, ClientError> {
        let mut list = ChangesBuf::new();
        changes
            .iter()
            .for_each(|(operation, description, values)| list.push(*operation, description, *values));
        self.outcome(Request::Modify(ModifyRequest { object, changes: list.as_changes() }))
    }

    /// Renames an entry, and moves it if there is a new superior. Deletes the values of the old RDN.
    pub fn modify_dn(
        &mut self,
        entry: &str,
        new_rdn: &str,
        new_superior: Option<&str>,
    ) -> Result<Outcome, ClientError> {
        let delete_old_rdn = true;
        self.outcome(Request::ModifyDn(ModifyDnRequest { entry, new_rdn, delete_old_rdn, new_superior }))
    }

    /// Deletes an entry.
    pub fn delete(&mut self, entry: &str) -> Result<Outcome, ClientError> {
        self.outcome(Request::Delete(DeleteRequest { entry }))
    }

    /// Compares a value.
    pub fn compare(&mut self, entry: &str, description: &str, value: &str) -> Result<Outcome, ClientError> {
        self.outcome(Request::Compare(CompareRequest { entry, description, value: value.as_bytes() }))
    }

    /// Sends an extended operation.
    pub fn extended(&mut self, name: &str, value: Option<&[u8]>) -> Result<Reply, ClientError> {
        self.request(Request::Extended(ExtendedRequest { name, value }), Controls::NONE)
    }

    /// Sends an Abandon request, which has no response.
    pub fn abandon(&mut self, id: MessageId) -> Result<(), ClientError> {
        self.send(Request::Abandon(id), Controls::NONE).map(drop)
    }

    /// Sends an unbind and waits until the server has closed the connection.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the server sends a response.
    pub fn unbind(mut self) -> Result<(), ClientError> {
        self.send(Request::Unbind, Controls::NONE)?;
        self.closed().map(drop)
    }

    /// Waits until the server has closed the connection. Returns the notice of disconnection, if the server sent one.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the server sends anything else.
    pub fn closed(&mut self) -> Result<Option<String>, ClientError> {
        match self.read_message() {
            Err(ClientError::Closed { notice }) => Ok(notice),
            // If a server closes the connection before it has read all octets of the client, the connection is reset.
            Err(ClientError::Io(error)) if error.kind() == ErrorKind::ConnectionReset => {
                Ok(self.notice.take())
            }
            Ok(received) => Err(ClientError::Unexpected(format!("{received:?}"))),
            Err(error) => Err(error),
        }
    }

    fn outcome(&mut self, request: Request<'_>) -> Result<Outcome, ClientError> {
        Ok(self.request(request, Controls::NONE)?.outcome)
    }

    /// Reads one message. Stores a notice of disconnection, because the error for a closed connection contains it.
    fn read_message(&mut self) -> Result<Received, ClientError> {
        loop {
            let unread = &self.input[self.consumed..];
            let len = ldap::frame_len(unread).map_err(ClientError::Framing)?;
            if len.is_some_and(|len| len > self.message_size_max) {
                return Err(ClientError::TooLarge(self.message_size_max));
            }
            if let Some(len) = len
                && len <= unread.len()
            {
                let bytes = unread[..len].to_vec();
                self.consumed += len;
                let received = Received::check(bytes).map_err(ClientError::Decode)?;
                if !self.is_notice_of_disconnection(&received) {
                    return Ok(received);
                }
                continue;
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Result<(), ClientError> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let filled = self.input.len();
        self.input.resize(filled + READ_SIZE, 0);
        let result = self.stream.read(&mut self.input[filled..]);
        self.input.truncate(filled + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Err(ClientError::Closed { notice: self.notice.take() }),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(ClientError::TimedOut)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn is_notice_of_disconnection(&mut self, received: &Received) -> bool {
        let message = received.message();
        match message.response {
            Response::Extended { result, name, .. }
                if message.id == MessageId::UNSOLICITED
                    && name == Some(ldap::oids::NOTICE_OF_DISCONNECTION) =>
            {
                self.notice = Some(format!("{}: {}", result.code, result.diagnostic));
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap::{LdapResult, ResponseOp, ResultCode, response};

    /// Regression test: the connection kept an empty queue for each id that was ever used, and the id after the
    /// greatest one was negative.
    #[test]
    fn a_used_message_id_leaves_nothing_behind() {
        let (own, mut peer) = UnixStream::pair().unwrap();
        let mut connection = Connection::over_local(own).unwrap();
        connection.last_id = i32::MAX - 2;
        let sent = [(); 3]
            .map(|()| connection.send(Request::Delete(DeleteRequest { entry: "o=x" }), Controls::NONE));
        let sent = sent.map(Result::unwrap);
        assert_eq!(sent, [MessageId(i32::MAX - 1), MessageId(i32::MAX), MessageId(1)]);
        for id in [1, 0, 2] {
            let (result, mut answer) = (LdapResult::new(ResultCode::SUCCESS, ""), Vec::new());
            response::encode_result(&mut answer, sent[id], ResponseOp::Delete, &result, Controls::NONE);
            peer.write_all(&answer).unwrap();
        }
        for id in sent {
            assert_eq!(connection.receive(id).unwrap().id(), id);
        }
        assert!(connection.waiting.is_empty());
    }
}
