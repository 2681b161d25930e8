//! The octet stream of a connection, with or without TLS, and the connection's peer.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use directory::bind::ExternalIdentity;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::config::ListenerIndex;
use crate::net::proxy_header::{self, ProxyHeader};
use crate::net::socket::Socket;
use crate::net::tls::{Incoming, TlsSession};
use crate::telemetry::limited_warning::LimitedWarning;

/// Octet stream of a connection: a socket, and the TLS session on it, if there is one.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    tls: Option<Box<TlsSession>>,
}

/// A new connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    /// Number of the connection since the start of the server.
    pub(crate) number: u64,
    pub(crate) listener: ListenerIndex,
    /// Whether TLS begins with the first octet, or with the first octet after a proxy header.
    pub(crate) has_tls: bool,
}

/// Peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A network address, which proves no identity.
    Network(SocketAddr),
    /// A client whose address is from a proxy header.
    Proxied { client: SocketAddr, proxy: SocketAddr },
    /// A client of the console. The console sends the client's requests over this connection. Boxed because such
    /// connections are few.
    Console(Box<ConsoleClient>),
    /// A process on this machine; `None` if the kernel does not identify it.
    Local(Option<Process>),
}

/// A client of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsoleClient {
    pub(crate) address: SocketAddr,
    /// Whether the client uses TLS to connect to the console.
    pub(crate) is_secured: bool,
    /// Subject of the client's certificate, which was verified by TLS.
    pub(crate) certificate_subject: Option<Arc<str>>,
}

/// Network addresses of a connection's client, and of its proxy if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddresses {
    client: IpAddr,
    proxy: Option<IpAddr>,
}

impl PeerAddresses {
    /// Returns the address of the client.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    /// Returns true if `is_such` returns true for the client's address and for the proxy's address, if there is a
    /// proxy. Therefore a proxy on another machine cannot give its clients the privileges of this machine, whatever its
    /// header contains.
    pub(crate) fn are_all(&self, is_such: impl Fn(IpAddr) -> bool) -> bool {
        is_such(self.client) && self.proxy.is_none_or(&is_such)
    }
}

/// Counts of the connections that were closed because a proxy header was missing or unexpected.
#[derive(Debug, Default)]
pub(crate) struct RefusedProxies {
    from_proxies: LimitedWarning,
    from_elsewhere: LimitedWarning,
}

impl RefusedProxies {
    /// Counts and logs a connection from a proxy without a valid header.
    pub(crate) fn refuse(&self, now: Instant, connection: u64, peer: &Peer, error: &io::Error) {
        if let Some(before) = self.from_proxies.happened(now) {
            tracing::warn!(
                "conn={connection} of {peer} is closed: {error}; an address of proxy_networks has to say first, by \
                 the PROXY protocol, who its client is{before}"
            );
        }
    }

    /// Counts and logs a connection with a proxy header from an address that is not a proxy's.
    pub(crate) fn refuse_proxy_header(&self, now: Instant, connection: u64, source: &dyn fmt::Display) {
        if let Some(before) = self.from_elsewhere.happened(now) {
            tracing::warn!("conn={connection} of {source} is closed: {PROXY_ELSEWHERE}{before}");
        }
    }
}

/// Diagnostic message for an unexpected proxy header.
pub(crate) const PROXY_ELSEWHERE: &str =
    "a header of the PROXY protocol, from an address that is not in proxy_networks";

/// Facts from the kernel about the process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) user_id: u32,
    /// Whether the user of the process may act as the administrator.
    pub(crate) is_trusted: bool,
}

impl Process {
    /// Returns the process at the other end of a Unix socket, as it was at the time of the connection.
    pub(crate) fn of_peer(stream: &UnixStream) -> Option<Process> {
        let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
        let user_id = credentials.uid.as_raw();
        let own = rustix::process::geteuid().as_raw();
        Some(Process {
            id: credentials.pid.as_raw_nonzero().get(),
            user_id,
            is_trusted: is_trusted(user_id, own),
        })
    }
}

/// Returns true if processes of this user count as the administrator. The user must be root or the server's own user,
/// who can read the data files anyway.
fn is_trusted(user_id: u32, own: u32) -> bool {
    user_id == own || user_id == 0
}

impl Peer {
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Peer::Local(_))
    }

    /// Returns true if the kernel identifies the user, and this user may act as the administrator.
    pub(crate) fn is_trusted(&self) -> bool {
        self.external_identity() == ExternalIdentity::Administrator
    }

    /// Returns the network addresses of the client and the proxy; `None` for a process on this machine.
    pub(crate) fn hops(&self) -> Option<PeerAddresses> {
        match self {
            Peer::Network(address) => Some(PeerAddresses { client: address.ip(), proxy: None }),
            Peer::Proxied { client, proxy } => {
                Some(PeerAddresses { client: client.ip(), proxy: Some(proxy.ip()) })
            }
            Peer::Console(client) => Some(PeerAddresses { client: client.address.ip(), proxy: None }),
            Peer::Local(_) => None,
        }
    }

    /// Returns the peer with the client's address from a proxy header.
    pub(crate) fn with_proxy_header(self, header: ProxyHeader) -> Peer {
        match (self, header) {
            (Peer::Network(proxy), ProxyHeader::Client(client)) => Peer::Proxied { client, proxy },
            (peer, _) => peer,
        }
    }

    /// Returns the identity of the peer for SASL EXTERNAL.
    pub(crate) fn external_identity(&self) -> ExternalIdentity {
        match self {
            Peer::Console(client) if client.certificate_subject.is_some() => ExternalIdentity::Certificate,
            Peer::Network(_) | Peer::Proxied { .. } | Peer::Console(_) => ExternalIdentity::NotOffered,
            Peer::Local(None) => ExternalIdentity::Unknown,
            Peer::Local(Some(process)) if process.is_trusted => ExternalIdentity::Administrator,
            Peer::Local(Some(_)) => ExternalIdentity::Stranger,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Network(address) => write!(f, "{address}"),
            Peer::Proxied { client, proxy } => write!(f, "{client} by the proxy {proxy}"),
            Peer::Console(client) => write!(f, "{} by the console", client.address),
            Peer::Local(Some(process)) => write!(f, "process {} of user {}", process.id, process.user_id),
            Peer::Local(None) => f.write_str("a process of this machine"),
        }
    }
}

impl Stream {
    /// Returns a stream over TCP, without TLS.
    pub(crate) fn tcp(stream: TcpStream) -> Stream {
        Stream { socket: Socket::Tcp(stream), tls: None }
    }

    /// Returns a stream over a Unix socket.
    pub(crate) fn local(stream: UnixStream) -> Stream {
        Stream { socket: Socket::Local(stream), tls: None }
    }

    /// Reads a proxy header, which must be the first octets of the stream. Returns `None` if the header is incomplete.
    /// Its octets then stay in the kernel's buffer.
    ///
    /// # Errors
    /// The connection is broken or has ended, or `InvalidData` if the octets are not a header.
    pub(crate) fn proxy_header(&self) -> io::Result<Option<ProxyHeader>> {
        let mut buffer = [0; proxy_header::SIZE_MAX];
        let start = match self.socket.peek(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let decoded = ProxyHeader::decode(start);
        let Some((header, size)) = decoded.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?
        else {
            return Ok(None);
        };
        // This removes octets that `peek` has already returned.
        let received = self.socket.receive(buffer.get_mut(..size).unwrap_or_default())?;
        if received == size { Ok(Some(header)) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Begins TLS on the socket. The client sends the first message of the handshake.
    pub(crate) fn start_tls(&mut self, session: TlsSession) {
        self.tls = Some(Box::new(session));
    }

    pub(crate) fn tls(&self) -> Option<&TlsSession> {
        self.tls.as_deref()
    }

    /// Appends received octets to `input`, up to its free capacity.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub(crate) fn receive(&mut self, input: &mut Vec<u8>) -> io::Result<Incoming> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, input);
        }
        let room = input.capacity() - input.len();
        // `recv` is cheaper than `read`, which first does checks that concern only files.
        match rustix::net::recv(&self.socket, spare_capacity(input), RecvFlags::empty()) {
            Ok((0, _)) => Ok(Incoming::End),
            // A short read has emptied the socket.
            Ok((count, _)) => Ok(Incoming::Octets(count, count == room)),
            Err(Errno::AGAIN) => Ok(Incoming::Nothing),
            Err(Errno::INTR) => Ok(Incoming::Octets(0, true)),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends as many bytes as the stream accepts. With TLS, some accepted bytes may not be sent yet.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.send(&self.socket, bytes),
            None => self.socket.send(bytes),
        }
    }

    /// Returns the number of octets that [`send`](Stream::send) has accepted and that are not sent yet.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unsent())
    }

    /// Sends the octets that [`send`](Stream::send) has accepted and that are not sent yet.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not accept all of them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.flush(&self.socket))
    }

    /// Sends the close_notify alert, if the connection uses TLS.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&self.socket);
        }
    }

    /// Shuts down the sending direction.
    pub(crate) fn finish_sending(&mut self) -> io::Result<()> {
        self.end();
        self.socket.finish_sending()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket.register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_identifies_the_connected_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let process = Process::of_peer(&one).unwrap();
        assert_eq!(process.id as u32, std::process::id());
        assert_eq!(process.user_id, rustix::process::geteuid().as_raw());
        assert!(process.is_trusted);
    }

    #[test]
    fn only_the_server_s_user_and_root_are_trusted() {
        for (user_id, own, expected) in
            [(0, 0, true), (0, 7, true), (7, 7, true), (8, 7, false), (7, 0, false)]
        {
            assert_eq!(is_trusted(user_id, own), expected, "{user_id} {own}");
        }
    }

    #[test]
    fn a_proxy_gives_its_clients_no_privileges() {
        let proxied = |client: &str, proxy: &str| {
            let [client, proxy] = [client, proxy].map(|ip| SocketAddr::new(ip.parse().unwrap(), 1));
            Peer::Network(proxy).with_proxy_header(ProxyHeader::Client(client)).hops().unwrap()
        };
        assert!(proxied("127.0.0.1", "127.0.0.2").are_all(|address| address.is_loopback()));
        assert!(!proxied("127.0.0.1", "10.0.0.5").are_all(|address| address.is_loopback()));
        assert!(!proxied("10.0.0.5", "127.0.0.1").are_all(|address| address.is_loopback()));
        let plain = Peer::Network("127.0.0.1:1".parse().unwrap()).hops().unwrap();
        assert!(plain.are_all(|address| address.is_loopback()));
    }

    #[test]
    fn the_identity_of_a_peer_follows_from_its_socket() {
        let process = |is_trusted| Peer::Local(Some(Process { id: 5, user_id: 7, is_trusted }));
        let check = |peer: Peer, text: &str, identity: ExternalIdentity| {
            assert_eq!((peer.to_string().as_str(), peer.external_identity()), (text, identity));
            assert_eq!(peer.is_trusted(), identity == ExternalIdentity::Administrator);
        };
        check(Peer::Network("[::1]:9".parse().unwrap()), "[::1]:9", ExternalIdentity::NotOffered);
        let proxy = || Peer::Network("10.0.0.5:3".parse().unwrap());
        let client = ProxyHeader::Client("192.0.2.7:9".parse().unwrap());
        check(
            proxy().with_proxy_header(client),
            "192.0.2.7:9 by the proxy 10.0.0.5:3",
            ExternalIdentity::NotOffered,
        );
        check(proxy().with_proxy_header(ProxyHeader::Own), "10.0.0.5:3", ExternalIdentity::NotOffered);
        let console = |certificate_subject| {
            let address = "192.0.2.7:9".parse().unwrap();
            Peer::Console(Box::new(ConsoleClient { address, is_secured: true, certificate_subject }))
        };
        check(console(None), "192.0.2.7:9 by the console", ExternalIdentity::NotOffered);
        let certificate = console(Some("cn=a".into()));
        check(certificate, "192.0.2.7:9 by the console", ExternalIdentity::Certificate);
        check(Peer::Local(None), "a process of this machine", ExternalIdentity::Unknown);
        check(process(true), "process 5 of user 7", ExternalIdentity::Administrator);
        check(process(false), "process 5 of user 7", ExternalIdentity::Stranger);
    }
}
