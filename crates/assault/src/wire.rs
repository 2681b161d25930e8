//! Octets of LDAP, connections that send them, and the ends of these connections.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ldap::{
    Authentication, BindRequest, Controls, ExtendedRequest, FilterBuf, Message, MessageId, Request,
    ResponseMessage, ResultCode, Scope, SearchRequest, SelectionBuf,
};

use crate::hostile_connections::{connect_from, hostile_source};
use crate::process::wait_until;
use test_support::pando::Pando;

/// Maximum number of octets of a server's output that are stored.
const SAID_MAX: usize = 4 << 10;

/// Number of addresses of hostile connections.
const SOURCES: usize = 60_000;

/// Opens a hostile connection. Each number has its own address.
pub(crate) fn open(server: SocketAddr, index: usize) -> TcpStream {
    let stream = connect_from(hostile_source(index % SOURCES), server).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Returns the TLS listener of a server that was started with one.
pub(crate) fn secure_address(pando: &Pando) -> SocketAddr {
    let rest = pando.ready_line.split_once("ldaps://").expect("a listener for TLS").1;
    rest.split_whitespace().next().and_then(|text| text.parse().ok()).expect("its address")
}

pub(crate) fn message(id: i32, request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request, controls: Controls::NONE }.encode(&mut bytes);
    bytes
}

pub(crate) fn search(id: i32, base: &str, filter: &str) -> Vec<u8> {
    let (filter, selection) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::new());
    let request = SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    message(id, Request::Search(request))
}

pub(crate) fn bind(id: i32, name: &str, password: &str) -> Vec<u8> {
    let authentication = Authentication::Simple(password.as_bytes());
    message(id, Request::Bind(BindRequest { version: 3, name, authentication }))
}

pub(crate) fn sasl_bind(id: i32, mechanism: &str, credentials: &[u8]) -> Vec<u8> {
    let authentication = Authentication::Sasl { mechanism, credentials: Some(credentials) };
    message(id, Request::Bind(BindRequest { version: 3, name: "", authentication }))
}

pub(crate) fn start_tls(id: i32) -> Vec<u8> {
    message(id, Request::Extended(ExtendedRequest { name: ldap::oids::START_TLS, value: None }))
}

/// End of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// The first octets from the server.
    pub(crate) received: Vec<u8>,
    /// Whether the server has closed the connection.
    pub(crate) is_closed: bool,
}

impl Ending {
    /// Returns the ids of the messages from the server, and their result codes if they have one. A notice of
    /// disconnection has the id 0 (RFC 4511 section 4.4.1).
    pub(crate) fn answers(&self) -> Vec<(i32, Option<ResultCode>)> {
        let (limits, mut rest, mut answers) =
            (ldap::DecodeLimits::AUTHENTICATED, &self.received[..], Vec::new());
        while let Ok(Some(len)) = ldap::frame_len(rest)
            && let Some((frame, behind)) = rest.split_at_checked(len)
            && let Ok(message) = ResponseMessage::decode(frame, &limits)
        {
            answers.push((message.id.0, message.response.result().map(|result| result.code)));
            rest = behind;
        }
        answers
    }
}

/// Reads from all connections until the server has closed them, at most for `longest`.
pub(crate) fn endings(streams: &mut [TcpStream], longest: Duration) -> Vec<Ending> {
    let mut endings = vec![Ending::default(); streams.len()];
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    wait_until(longest, || {
        streams.iter_mut().zip(&mut endings).for_each(|(stream, ending)| read_some(stream, ending));
        endings.iter().all(|ending| ending.is_closed)
    });
    endings
}

fn read_some(stream: &mut TcpStream, ending: &mut Ending) {
    let mut buffer = [0; SAID_MAX];
    while !ending.is_closed {
        match stream.read(&mut buffer) {
            Ok(0) => ending.is_closed = true,
            Ok(count) => {
                let room = SAID_MAX.saturating_sub(ending.received.len());
                ending.received.extend_from_slice(&buffer[..count.min(room)]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => ending.is_closed = true,
        }
    }
}

/// Returns the number of connections that the server has closed.
pub(crate) fn closed(endings: &[Ending]) -> usize {
    endings.iter().filter(|ending| ending.is_closed).count()
}
