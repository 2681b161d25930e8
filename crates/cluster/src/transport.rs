//! Communication between nodes: frames over mutual TLS. A node sends frames of requests to the writer, one at a time,
//! and receives one frame of answers for each. Changes that arrive while a frame is in flight are sent together in the
//! next frame.

pub mod keys;
pub mod snapshot;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use replication::NodeId;
use replication::forward::{self, Answer, FRAME_BYTES_MAX, Link, Request};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::environment::Peers;
use crate::event::{Frame, NodeEvent};
use crate::former_members::FormerMembers;
use crate::identity::{node_of, server_name};
use crate::limits::{CONNECTIONS_MAX, FRAME_PATIENCE};

/// Time limit of each step of opening a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which a thread that waits for answers checks whether the answers are still wanted.
const LOOK: Duration = Duration::from_millis(250);

/// State that a listener needs to serve other nodes.
pub(crate) struct Services {
    pub(super) config: Arc<ServerConfig>,
    pub(super) former_members: Arc<FormerMembers>,
    pub(super) copies: snapshot::Sender,
    pub(super) keys: keys::Keys,
    pub(super) events: Sender<NodeEvent>,
}

/// Listener for connections of other nodes.
pub(crate) struct Listener {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(listen: &str, services: Services) -> io::Result<Listener> {
        let listener = TcpListener::bind(listen)
            .map_err(|error| io::Error::new(error.kind(), format!("cluster.listen {listen}: {error}")))?;
        let address = listener.local_addr()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let services = Arc::new(services);
        let run = move || accept(&listener, &services, &stop);
        let thread = std::thread::Builder::new().name("pando-cluster".to_owned()).spawn(run)?;
        Ok(Listener { address, is_stopping, thread: Some(thread) })
    }

    /// Returns the address of the listener, with the real port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        // The listener's thread waits for a connection. This connection wakes the thread, so that the thread can end.
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let woken = TcpStream::connect_timeout(&own, CONNECT_PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, services: &Arc<Services>, is_stopping: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if is_stopping.load(Ordering::Relaxed) {
            return;
        }
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting another node");
                std::thread::park_timeout(LOOK);
                continue;
            }
        };
        if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            tracing::warn!(%peer, "more connections of other nodes than there may be: this one is closed");
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (services, counted) = (Arc::clone(services), Arc::clone(&open));
        let run = move || {
            if let Err(error) = serve(socket, &services)
                && error.kind() != ErrorKind::UnexpectedEof
            {
                tracing::warn!(%peer, %error, "a connection of another node ended");
            }
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("pando-peer".to_owned()).spawn(run) {
            open.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%error, "another node cannot be served");
        }
    }
}

fn serve(socket: TcpStream, services: &Services) -> io::Result<()> {
    let Services { config, former_members, copies, keys, events } = services;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(FRAME_PATIENCE))?;
    // A peer that fails the handshake is not a node, and must not occupy a connection for long.
    socket.set_read_timeout(Some(CONNECT_PATIENCE))?;
    let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut socket = socket;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    socket.set_read_timeout(None)?;
    let node = session.peer_certificates().and_then(|chain| node_of(chain.first()?));
    let mut stream = StreamOwned::new(session, socket);
    let unusable = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
    let node = node.ok_or_else(|| unusable("a certificate that is no node's"))?;
    let is_revoked = || unusable(&format!("{node} does not belong to the cluster any longer"));
    if former_members.contains(node) {
        return Err(is_revoked());
    }
    loop {
        let frame = read_frame(&mut stream, &|| true)?;
        // The node may have left after it opened the connection.
        if former_members.contains(node) {
            return Err(is_revoked());
        }
        if frame == snapshot::REQUEST {
            return copies.send(node, &mut stream);
        }
        if frame == keys::REQUEST {
            keys.send(node, &mut stream)?;
            continue;
        }
        let requests =
            forward::decode_requests(&frame).ok_or_else(|| unusable("a frame that is no requests"))?;
        drop(frame);
        if requests.iter().any(|request| request.operation.node != node) {
            return Err(unusable("requests in the name of another node"));
        }
        let (reply, answers) = sync_channel(1);
        let closed = || io::Error::new(ErrorKind::UnexpectedEof, "this node stops");
        events.send(NodeEvent::Frame(Frame { requests, reply })).map_err(|_| closed())?;
        let answers = answers.recv().map_err(|_| closed())?;
        write_frame(&mut stream, &forward::encode_answers(&answers))?;
    }
}

/// Other nodes, over TLS.
pub(crate) struct TlsPeers {
    forwarder: Forwarder,
    config: Arc<ClientConfig>,
    events: Sender<NodeEvent>,
}

impl TlsPeers {
    /// Returns the peers of a node; `incarnation` is the number of this start of the node.
    pub(crate) fn start(
        config: Arc<ClientConfig>,
        incarnation: u64,
        events: Sender<NodeEvent>,
    ) -> io::Result<TlsPeers> {
        let forwarder = Forwarder::start(Arc::clone(&config), incarnation, events.clone())?;
        Ok(TlsPeers { forwarder, config, events })
    }
}

impl Peers for TlsPeers {
    fn send(&mut self, number: u64, to: NodeId, address: &str, requests: Vec<Request>) {
        self.forwarder.send(number, to, address.to_owned(), requests);
    }

    fn forget(&mut self) {
        self.forwarder.forget();
    }

    fn fetch_keys(&mut self, sources: Vec<(NodeId, String)>, number: u32) -> io::Result<()> {
        let (config, events) = (Arc::clone(&self.config), self.events.clone());
        let fetch = move || {
            let _ = events.send(NodeEvent::Keys(keys::receive_from_any(&sources, &config, number)));
        };
        std::thread::Builder::new().name("pando-keys".to_owned()).spawn(fetch).map(drop)
    }
}

/// Frames that this node sends to the writer, one at a time.
pub(crate) struct Forwarder {
    frames: Sender<Outgoing>,
    /// Number of the newest frame whose answers are still wanted; 0 if no answers are wanted.
    wanted: Arc<AtomicU64>,
}

struct Outgoing {
    number: u64,
    to: NodeId,
    address: String,
    requests: Vec<Request>,
}

impl Forwarder {
    /// Starts the forwarder; `incarnation` is the number of this start of the node.
    pub(super) fn start(
        config: Arc<ClientConfig>,
        incarnation: u64,
        events: Sender<NodeEvent>,
    ) -> io::Result<Forwarder> {
        let (frames, incoming) = channel();
        let wanted = Arc::new(AtomicU64::new(0));
        let look = Arc::clone(&wanted);
        let run = move || forward_all(&incoming, &config, incarnation, &events, &look);
        std::thread::Builder::new().name("pando-forward".to_owned()).spawn(run)?;
        Ok(Forwarder { frames, wanted })
    }

    /// Sends a frame. One [`NodeEvent::Answers`] with this number follows.
    pub(super) fn send(&self, number: u64, to: NodeId, address: String, requests: Vec<Request>) {
        self.wanted.store(number, Ordering::Relaxed);
        let _ = self.frames.send(Outgoing { number, to, address, requests });
    }

    /// Records that the answers are no longer wanted, because another node has become the writer.
    pub(super) fn forget(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }
}

/// Connection to a writer. A failed connection is never used again, because the writer accepts only the copy of a
/// request that arrived on the newest connection.
struct Connection {
    node: NodeId,
    address: String,
    link: Link,
    stream: StreamOwned<ClientConnection, TcpStream>,
}

fn forward_all(
    frames: &Receiver<Outgoing>,
    config: &Arc<ClientConfig>,
    incarnation: u64,
    events: &Sender<NodeEvent>,
    wanted: &AtomicU64,
) {
    let mut open: Option<Connection> = None;
    let mut link = Link { incarnation, number: 0 };
    while let Ok(mut frame) = frames.recv() {
        let (number, is_fitting) =
            (frame.number, |open: &Connection| (open.node, &open.address) == (frame.to, &frame.address));
        open = open.filter(is_fitting);
        let is_wanted = || wanted.load(Ordering::Relaxed) == number;
        let answers = forward(&mut open, &mut link, &mut frame, config, &is_wanted);
        if answers.is_err() {
            open = None;
        }
        let answers = answers.map_err(|error| format!("{} at {}: {error}", frame.to, frame.address));
        if events.send(NodeEvent::Answers(number, answers)).is_err() {
            return;
        }
    }
}

fn forward(
    open: &mut Option<Connection>,
    link: &mut Link,
    frame: &mut Outgoing,
    config: &Arc<ClientConfig>,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Vec<Answer>> {
    if let Some(connection) = open {
        // The writer may have been restarted. An idle connection detects a restart only when it is used, so a failure
        // is followed by one attempt on a new connection.
        if let Ok(answers) = exchange(connection, frame, is_wanted) {
            return Ok(answers);
        }
        if !is_wanted() {
            return Err(io::Error::new(ErrorKind::TimedOut, "another node writes by now"));
        }
    }
    *open = None;
    link.number += 1;
    let stream = connect(frame.to, &frame.address, config)?;
    let connection = Connection { node: frame.to, address: frame.address.clone(), link: *link, stream };
    exchange(open.insert(connection), frame, is_wanted)
}

fn exchange(
    connection: &mut Connection,
    frame: &mut Outgoing,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Vec<Answer>> {
    frame.requests.iter_mut().for_each(|request| request.link = connection.link);
    write_frame(&mut connection.stream, &forward::encode_requests(&frame.requests))?;
    let answers = read_frame(&mut connection.stream, is_wanted)?;
    forward::decode_answers(&answers)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "a frame that is no answers"))
}

pub(super) fn connect(
    node: NodeId,
    address: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let unusable = |what: &str| io::Error::new(ErrorKind::InvalidInput, what.to_owned());
    let resolved = address.to_socket_addrs()?.next().ok_or_else(|| unusable("no address"))?;
    let socket = TcpStream::connect_timeout(&resolved, CONNECT_PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(FRAME_PATIENCE))?;
    let name = server_name(node).ok_or_else(|| unusable("no name"))?;
    let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(session, socket))
}

pub(super) fn write_frame(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::new(ErrorKind::InvalidInput, "a frame that is too long");
    let length = u32::try_from(bytes.len()).map_err(too_long)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// Reads a frame. If the stream has a read timeout, waits as long as `is_wanted` returns true, for at most
/// [`FRAME_PATIENCE`]. The buffer grows with the bytes that arrive, and is not allocated from the announced length.
pub(super) fn read_frame(stream: &mut impl Read, is_wanted: &dyn Fn() -> bool) -> io::Result<Vec<u8>> {
    let started = Instant::now();
    let mut bytes = Vec::new();
    let mut wanted = size_of::<u32>();
    let mut is_head = true;
    let mut part = vec![0; 64 << 10];
    loop {
        let left = wanted - bytes.len();
        if left == 0 {
            if !is_head {
                return Ok(bytes);
            }
            let head = bytes.as_slice().try_into().map(u32::from_be_bytes).unwrap_or(u32::MAX);
            wanted = usize::try_from(head).unwrap_or(usize::MAX);
            if wanted > FRAME_BYTES_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "a frame that is too long"));
            }
            (bytes, is_head) = (Vec::new(), false);
            continue;
        }
        let part_len = left.min(part.len());
        let room = part.get_mut(..part_len).unwrap_or_default();
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if !is_wanted() || started.elapsed() > FRAME_PATIENCE {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no answer"));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use replication::OperationId;
    use replication::forward::{BindMethod, ForwardedRequester, Link, Reply, Work};

    use super::*;
    use crate::identity::Identity;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("pando-transport-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn request(node: u32, sequence: u64) -> Request {
        Request {
            operation: OperationId { node: NodeId(node), incarnation: 1, sequence },
            epoch: 1,
            link: Link::default(),
            position: 0,
            requester: ForwardedRequester::Anonymous,
            method: BindMethod::None,
            strength: 0,
            network: None,
            listener: None,
            work: Work::Account { id: 1, update: forward::AccountUpdate::default() },
        }
    }

    /// Returns node 2 of a cluster, by an invitation of node 1.
    fn invited(first: &Identity, folder: &Folder) -> Identity {
        let (invitation, node) = first.invite(false).unwrap();
        assert_eq!(node, NodeId(2));
        std::fs::create_dir_all(&folder.0).unwrap();
        let file = folder.0.join("invitation");
        std::fs::write(&file, invitation).unwrap();
        Identity::accept(&folder.0.join("keys"), &file).unwrap()
    }

    /// Sends a request with a given certificate, and returns the answers.
    fn send_as(as_whom: Arc<ClientConfig>, to: SocketAddr, node: u32) -> Result<Vec<Answer>, String> {
        let (sender, events) = channel();
        let forwarder = Forwarder::start(as_whom, 1, sender).unwrap();
        forwarder.send(1, NodeId(1), to.to_string(), vec![request(node, 7)]);
        match events.recv_timeout(Duration::from_secs(60)).unwrap() {
            NodeEvent::Answers(1, answers) => answers,
            _ => panic!("something else happened"),
        }
    }

    #[test]
    fn only_nodes_with_their_own_certificate_are_accepted() {
        let folders = ["first", "second", "other", "other-second"].map(Folder::new);
        let first = Identity::create(&folders[0].0).unwrap();
        let second = invited(&first, &folders[1]);
        let other = Identity::create(&folders[2].0).unwrap();
        let foreign = invited(&other, &folders[3]);

        let (sender, events) = channel();
        let former_members = Arc::new(FormerMembers::default());
        let config = first.server_config().unwrap();
        let services = |config, former_members, events| Services {
            config,
            former_members,
            copies: snapshot::Sender::new(std::sync::Weak::new(), Path::new("nowhere")),
            keys: keys::Keys(folders[0].0.clone()),
            events,
        };
        let listener =
            Listener::start("127.0.0.1:0", services(config, Arc::clone(&former_members), sender)).unwrap();
        // This thread takes the role of the node's thread: it answers every frame that arrives.
        let answering = std::thread::spawn(move || {
            let mut count = 0;
            while let Ok(NodeEvent::Frame(frame)) = events.recv() {
                count += 1;
                let answer =
                    |request: &Request| Answer { operation: request.operation, reply: Reply::NotWriter };
                let _ = frame.reply.send(frame.requests.iter().map(answer).collect());
            }
            count
        });

        let answers = send_as(second.client_config().unwrap(), listener.address(), 2).unwrap();
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].operation, request(2, 7).operation);

        // The node receives the keys that the log has; other peers receive none.
        let take =
            |config: Arc<ClientConfig>| keys::receive(NodeId(1), &listener.address().to_string(), &config);
        let next_key = first.make_next_key().unwrap();
        assert_eq!(take(second.client_config().unwrap()).unwrap().len(), 1);
        assert!(first.keep_next_key(&next_key).unwrap());
        assert_eq!(take(second.client_config().unwrap()).unwrap().len(), 2);
        assert!(take(foreign.client_config().unwrap()).is_err());

        // The listener refuses a request that does not come from the node in the certificate, a certificate of another
        // cluster, and a client without a certificate.
        assert!(send_as(second.client_config().unwrap(), listener.address(), 1).is_err());
        assert!(send_as(foreign.client_config().unwrap(), listener.address(), 2).is_err());
        let anonymous =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .with_root_certificates(second.roots().unwrap())
                .with_no_client_auth();
        assert!(send_as(Arc::new(anonymous), listener.address(), 2).is_err());

        // A node sends nothing to a peer that is not the node to which it wants to connect.
        let (sender, _events) = channel();
        let config = second.server_config().unwrap();
        let impostor = Listener::start("127.0.0.1:0", services(config, Arc::default(), sender)).unwrap();
        assert!(send_as(second.client_config().unwrap(), impostor.address(), 2).is_err());

        // After a node has left, it cannot use its connection, and cannot open a new one.
        let (sender, events) = channel();
        let forwarder = Forwarder::start(second.client_config().unwrap(), 1, sender).unwrap();
        let send = |number| {
            forwarder.send(number, NodeId(1), listener.address().to_string(), vec![request(2, number)]);
            match events.recv_timeout(Duration::from_secs(60)).unwrap() {
                NodeEvent::Answers(_, answers) => answers,
                _ => panic!("something else happened"),
            }
        };
        assert!(send(1).is_ok());
        former_members.add(NodeId(2));
        assert!(send(2).is_err() && send(3).is_err());
        assert!(take(second.client_config().unwrap()).is_err());

        drop(listener);
        assert_eq!(answering.join().unwrap(), 2, "two frames got in");
    }

    #[test]
    fn refuses_frames_that_are_too_long_or_end_early() {
        let mut too_long: &[u8] = &[0xff; 8];
        assert_eq!(read_frame(&mut too_long, &|| true).unwrap_err().kind(), ErrorKind::InvalidData);
        let mut short: &[u8] = &[0, 0, 0, 9, 1, 2];
        assert_eq!(read_frame(&mut short, &|| true).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let mut whole: &[u8] = &[0, 0, 0, 2, 1, 2, 3];
        assert_eq!(read_frame(&mut whole, &|| true).unwrap(), [1, 2]);
    }
}
