//! Listening sockets: TCP and Unix.
//!
//! The file of a Unix socket remains if the server is killed. The server may replace the socket in the data directory,
//! because it holds the directory's lock. Any other socket may belong to another process. Therefore the server connects
//! to it first, to find out whether a process listens.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ldap::ServerUrl;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::limits::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, LISTEN_BACKLOG};
use crate::net::stream::{Peer, Process, Stream};

/// Name of the socket in the data directory.
pub const SOCKET_NAME: &str = "pando.sock";

/// Mode of the socket in the data directory. Only the directory's owner may connect.
const OWNER_ONLY: u32 = 0o600;

/// Mode of a socket that the settings name. As with a port, all users of the machine may connect, unless the
/// permissions of its folder forbid it.
const ALL_USERS: u32 = 0o666;

/// Error of listening on a URL.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {url}: {error}{}", remedy(error))]
pub struct ListenError {
    /// URL on which the server cannot listen.
    pub url: ServerUrl,
    /// Error of the system.
    pub error: io::Error,
}

/// Returns the remedy for an error of listening, or an empty text.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": ports below 1024 need root, the capability CAP_NET_BIND_SERVICE, or socket activation"
        }
        _ => "",
    }
}

/// A non-blocking listening socket.
pub(crate) enum Listener {
    /// A TCP socket. The flag is true if TLS begins with the first octet.
    Tcp(TcpListener, bool),
    Local(LocalListener),
}

/// A listening Unix socket. Dropping it removes its file.
pub(crate) struct LocalListener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket file that this listener created.
    identity: (u64, u64),
}

/// Sockets that are bound to their ports but do not listen yet. Until they listen, the kernel refuses all connections.
#[derive(Debug, Default)]
pub(crate) struct BoundPorts(Vec<(ServerUrl, Vec<Socket>)>);

impl BoundPorts {
    /// Binds the ports of all network URLs. An inherited socket already listens, and is used for the URL with the same
    /// address.
    ///
    /// # Errors
    /// A port cannot be bound, or no URL has the address of an inherited socket.
    pub(crate) fn bind(urls: &[ServerUrl], mut inherited: Vec<Socket>) -> Result<BoundPorts, ListenError> {
        let mut bound = Vec::new();
        for url in urls {
            if let ServerUrl::Internet { host, port, .. } = url {
                bound.push((url.clone(), bind_all(url, host, *port, &mut inherited)?));
            }
        }
        match inherited.first() {
            None => Ok(BoundPorts(bound)),
            Some(socket) => Err(unwanted(socket)),
        }
    }

    fn take(&mut self, url: &ServerUrl) -> Option<Vec<Socket>> {
        let index = self.0.iter().position(|(bound, _)| bound == url)?;
        Some(self.0.swap_remove(index).1)
    }
}

impl Listener {
    /// Listens on all addresses of a URL. Uses the sockets that `bound` contains for this URL.
    pub(crate) fn open(url: &ServerUrl, bound: &mut BoundPorts) -> Result<Vec<Listener>, ListenError> {
        let failed = |error| ListenError { url: url.clone(), error };
        match url {
            ServerUrl::Internet { host, port, tls } => {
                let sockets =
                    bound.take(url).map_or_else(|| bind_all(url, host, *port, &mut Vec::new()), Ok)?;
                let listen = |socket| listen(socket).map(|socket| Listener::Tcp(socket, *tls));
                sockets.into_iter().map(listen).collect::<io::Result<_>>().map_err(failed)
            }
            ServerUrl::Local(path) => {
                remove_if_dead(path).map_err(failed)?;
                let listener = LocalListener::open(path, ALL_USERS).map_err(failed)?;
                Ok(vec![Listener::Local(listener)])
            }
        }
    }

    /// Listens on the socket in a data directory. The caller must hold the directory's lock.
    pub(crate) fn open_in(data: &Path) -> Result<Listener, ListenError> {
        let path = data.join(SOCKET_NAME);
        let listener = remove_socket(&path).and_then(|()| LocalListener::open(&path, OWNER_ONLY));
        listener.map(Listener::Local).map_err(|error| ListenError { url: ServerUrl::local(path), error })
    }

    /// Returns the URL of the listener, with the actual port.
    pub(crate) fn address(&self) -> io::Result<ServerUrl> {
        match self {
            Listener::Tcp(socket, tls) => {
                socket.local_addr().map(|address| ServerUrl::internet(address, *tls))
            }
            Listener::Local(listener) => Ok(ServerUrl::local(&listener.path)),
        }
    }

    /// Returns the listener's network address; `None` for a Unix socket.
    pub(crate) fn network_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(socket, _) => socket.local_addr().ok(),
            Listener::Local(_) => None,
        }
    }

    /// Returns true if TLS begins with the first octet of a connection.
    pub(crate) fn has_tls(&self) -> bool {
        matches!(self, Listener::Tcp(_, true))
    }

    pub(crate) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(socket, _) => {
                let (stream, address) = socket.accept()?;
                Ok((Stream::tcp(stream), Peer::Network(address)))
            }
            Listener::Local(listener) => {
                let (stream, _) = listener.socket.accept()?;
                let process = Process::of_peer(&stream);
                Ok((Stream::local(stream), Peer::Local(process)))
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(socket, _) => socket.register(registry, token, Interest::READABLE),
            Listener::Local(listener) => listener.socket.register(registry, token, Interest::READABLE),
        }
    }
}

/// Returns the addresses of a host, which is a name or an address.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if host.is_empty() {
        // One socket serves both versions of IP. `bind_port` falls back to IPv4 if the system has no IPv6.
        return Ok(vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))]);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Returns a bound socket for each address of a host. Takes a socket from `inherited` if it has the address.
fn bind_all(
    url: &ServerUrl,
    host: &str,
    port: u16,
    inherited: &mut Vec<Socket>,
) -> Result<Vec<Socket>, ListenError> {
    let mut bind = |address| match inherited.iter().position(|socket| has_address(socket, address)) {
        Some(index) => prepare(inherited.swap_remove(index)),
        None => bind_port(address),
    };
    let bound = resolve(host, port).and_then(|addresses| addresses.into_iter().map(&mut bind).collect());
    bound.map_err(|error| ListenError { url: url.clone(), error })
}

/// Returns true if a TCP socket is bound to this address.
fn has_address(socket: &Socket, address: SocketAddr) -> bool {
    socket.r#type().is_ok_and(|kind| kind == Type::STREAM)
        && socket.local_addr().is_ok_and(|bound| bound.as_socket() == Some(address))
}

/// Returns the error for an inherited socket that no URL uses.
fn unwanted(socket: &Socket) -> ListenError {
    let address = socket.local_addr().ok();
    let url = match address.as_ref().and_then(SockAddr::as_socket) {
        Some(address) => ServerUrl::internet(address, false),
        None => ServerUrl::local(address.as_ref().and_then(SockAddr::as_pathname).unwrap_or(Path::new(""))),
    };
    let text =
        "the service manager passes this socket, and `listen` has no ldap or ldaps URL with its address";
    ListenError { url, error: io::Error::new(ErrorKind::AddrNotAvailable, text) }
}

/// Sets the options of a socket that will listen. On Linux, accepted sockets inherit TCP_NODELAY and the keepalive
/// settings. That saves four system calls for each connection.
fn prepare(socket: Socket) -> io::Result<Socket> {
    socket.set_tcp_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Binds a socket to an address.
fn bind_port(address: SocketAddr) -> io::Result<Socket> {
    let unspecified_v6 = address.is_ipv6() && address.ip().is_unspecified();
    let (address, socket) = match new_socket(address) {
        // On a system without IPv6, "every address" means every IPv4 address.
        Err(_) if unspecified_v6 => {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            (v4, new_socket(v4)?)
        }
        other => (address, other?),
    };
    if unspecified_v6 && address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    prepare(socket)
}

fn listen(socket: Socket) -> io::Result<TcpListener> {
    listen_std(socket).map(TcpListener::from_std)
}

fn listen_std(socket: Socket) -> io::Result<std::net::TcpListener> {
    socket.listen(LISTEN_BACKLOG)?;
    Ok(std::net::TcpListener::from(OwnedFd::from(socket)))
}

/// Returns a non-blocking listener of the standard library. Its accept queue is as long as that of an LDAP listener, so
/// that a flood of clients does not prevent other clients from connecting. The kernel accepts no connection before its
/// client has sent something or `silence_max` has passed.
pub(crate) fn listen_for_requests(
    address: SocketAddr,
    silence_max: Duration,
) -> io::Result<std::net::TcpListener> {
    let socket = bind_port(address)?;
    system::defer_accept(&socket, silence_max)?;
    listen_std(socket)
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
}

impl LocalListener {
    /// Creates the socket file, sets its permissions, and only then listens. Until it listens, the kernel refuses all
    /// connections.
    fn open(path: &Path, mode: u32) -> io::Result<LocalListener> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        bind(&socket, path)?;
        let opened = fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .and_then(|()| socket.listen(LISTEN_BACKLOG))
            .and_then(|()| identity(path));
        let identity = opened.inspect_err(|_| drop(fs::remove_file(path)))?;
        let socket = UnixListener::from_std(std::os::unix::net::UnixListener::from(OwnedFd::from(socket)));
        Ok(LocalListener { socket, path: path.to_owned(), identity })
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // The file is removed only if this listener created it. Another server may have replaced it while no process
        // listened.
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "{} could not be removed", self.path.display());
        }
    }
}

/// Binds a socket to a path. The kernel accepts paths of up to 107 octets. A socket with a longer path is bound
/// relative to its folder.
fn bind(socket: &Socket, path: &Path) -> io::Result<()> {
    if let Ok(address) = SockAddr::unix(path) {
        return socket.bind(&address);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidFilename.into());
    };
    let folder = fs::File::open(folder)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    socket.bind(&SockAddr::unix(short)?)
}

/// Returns the device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Removes a socket at `path`, whichever process created it. A file of another kind is an error and is not removed.
fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => {
            Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file of that name that is no socket"))
        }
    }
}

/// Removes a socket at `path` if no process listens on it.
fn remove_if_dead(path: &Path) -> io::Result<()> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => remove_socket(path),
        // Either there is no socket, or binding will report the error.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A temporary folder for one test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("pando-listener-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn hosts_resolve_to_socket_addresses() {
        assert_eq!(resolve("[::1]", 77).unwrap(), ["[::1]:77".parse().unwrap()]);
        assert_eq!(resolve("", 5).unwrap(), ["[::]:5".parse().unwrap()]);
    }

    #[test]
    fn only_the_owner_can_use_the_socket_of_a_data_directory() {
        let folder = Folder::new("owner");
        let path = folder.0.join(SOCKET_NAME);
        // The socket of a server that has died is replaced. A file of another kind is not replaced.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = Listener::open_in(&folder.0).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        let error = Listener::open_in(&folder.0).err().unwrap().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_is_replaced_only_if_its_server_has_died() {
        let folder = Folder::new("dead");
        let url = ServerUrl::local(folder.0.join("s"));
        let first = Listener::open(&url, &mut BoundPorts::default()).unwrap();
        let error = Listener::open(&url, &mut BoundPorts::default()).err().unwrap().to_string();
        assert!(error.contains("another process listens there"), "{error}");
        drop(first);
        drop(std::os::unix::net::UnixListener::bind(folder.0.join("s")).unwrap());
        let second = Listener::open(&url, &mut BoundPorts::default()).unwrap();
        // A listener does not remove the file of the listener that has replaced it.
        fs::remove_file(folder.0.join("s")).unwrap();
        let third = Listener::open(&url, &mut BoundPorts::default()).unwrap();
        drop(second);
        UnixStream::connect(folder.0.join("s")).unwrap();
        drop(third);
    }

    #[test]
    fn a_socket_path_may_exceed_the_system_limit() {
        let folder = Folder::new(&"long".repeat(40));
        let listener = Listener::open_in(&folder.0).unwrap();
        assert_eq!(listener.address().unwrap(), ServerUrl::local(folder.0.join(SOCKET_NAME)));
        let opened = fs::File::open(&folder.0).unwrap();
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_NAME}", opened.as_raw_fd())).unwrap();
    }
}
