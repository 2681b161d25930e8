//! Network between nodes and brokers. Each of their ports has a proxy, which can cut the connections between two
//! parties.
//!
//! A cut loses no data and closes no connection. Data in flight waits until the cut is repaired, as with TCP, and
//! neither end receives anything until then. The proxy identifies the client of a connection: it looks for the process
//! that has the client's socket open.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of bytes forwarded at a time.
const PART: usize = 64 << 10;

/// Process at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// Node by its number, from 1.
    Node(usize),
    /// Broker by its index, from 0.
    Broker(usize),
}

/// A cut of the connections between parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connections between a node and the other nodes.
    NodeAndNodes(usize),
    /// The connections between a node and all brokers.
    NodeAndBrokers(usize),
    /// The connections between a broker and the other brokers. Nodes still reach the broker.
    BrokerAndBrokers(usize),
}

impl Cut {
    fn is_between(self, from: Party, to: Party) -> bool {
        match (self, from, to) {
            // A connection of a process to itself passes through its own proxy, and is never cut.
            _ if from == to => false,
            (Cut::NodeAndNodes(node), Party::Node(from), Party::Node(to)) => from == node || to == node,
            (Cut::NodeAndBrokers(node), Party::Node(from), Party::Broker(_)) => from == node,
            (Cut::BrokerAndBrokers(broker), Party::Broker(from), Party::Broker(to)) => {
                from == broker || to == broker
            }
            _ => false,
        }
    }
}

/// All proxies. Their threads end with the process.
#[derive(Clone, Default)]
pub(crate) struct Net(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether any cut exists. If not, connections need not check the cuts.
    is_cut: AtomicBool,
    state: Mutex<State>,
    is_mended: Condvar,
}

#[derive(Default)]
struct State {
    processes: HashMap<Party, u32>,
    cuts: Vec<Cut>,
    /// Number of times that data was delayed since the cuts were last repaired.
    delayed: u64,
}

struct Connection {
    /// Port of the client's end, and port of the proxy.
    ports: (u16, u16),
    from: OnceLock<Option<Party>>,
    to: Party,
}

impl Net {
    /// Starts a proxy for a port of `party`. Returns the address that the other parties must use.
    pub(crate) fn before(&self, party: Party, to: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::clone(&self.0);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // If the target does not listen, the client's connection is closed.
                std::thread::spawn(move || drop(shared.serve(client, address.port(), party, to)));
            }
        });
        Ok(address)
    }

    /// Records which process runs as `party`.
    pub(crate) fn runs(&self, party: Party, process: u32) {
        self.0.lock().processes.insert(party, process);
    }

    /// Adds a cut.
    pub(crate) fn cut(&self, cut: Cut) {
        self.0.lock().cuts.push(cut);
        self.0.is_cut.store(true, Ordering::SeqCst);
    }

    /// Returns the number of times that the present cuts have delayed data.
    pub(crate) fn delayed(&self) -> u64 {
        self.0.lock().delayed
    }

    /// Repairs all cuts.
    pub(crate) fn mend(&self) {
        let mut state = self.0.lock();
        state.cuts.clear();
        state.delayed = 0;
        drop(state);
        self.0.is_cut.store(false, Ordering::SeqCst);
        self.0.is_mended.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(
        self: Arc<Shared>,
        client: TcpStream,
        port: u16,
        party: Party,
        to: SocketAddr,
    ) -> io::Result<()> {
        let ports = (client.peer_addr()?.port(), port);
        let connection = Arc::new(Connection { ports, from: OnceLock::new(), to: party });
        self.wait(&connection);
        let server = TcpStream::connect(to)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (answers, receiver) = (server.try_clone()?, client.try_clone()?);
        let (shared, answered) = (Arc::clone(&self), Arc::clone(&connection));
        std::thread::spawn(move || shared.pass_on(&answered, answers, receiver));
        self.pass_on(&connection, client, server);
        Ok(())
    }

    fn pass_on(&self, connection: &Connection, mut from: TcpStream, mut to: TcpStream) {
        let mut part = vec![0; PART];
        loop {
            let count = from.read(&mut part).unwrap_or(0);
            self.wait(connection);
            let bytes = part.get(..count).unwrap_or_default();
            if bytes.is_empty() || to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    /// Waits until there is no cut between the ends of a connection.
    fn wait(&self, connection: &Connection) {
        if !self.is_cut.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.lock();
        while state.separates(connection) {
            state.delayed += 1;
            state = self.is_mended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn separates(&self, connection: &Connection) -> bool {
        if self.cuts.is_empty() {
            return false;
        }
        let from = connection.from.get_or_init(|| self.owner(connection.ports));
        from.is_some_and(|from| self.cuts.iter().any(|cut| cut.is_between(from, connection.to)))
    }

    /// Returns the party that has the socket from one port to another.
    fn owner(&self, ports: (u16, u16)) -> Option<Party> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
        let inode = tables.iter().flatten().find_map(|table| inode_of(table, ports))?;
        let socket = format!("socket:[{inode}]");
        let has_it = |process: u32| {
            let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            open.map(|file| fs::read_link(file.path()))
                .any(|target| target.is_ok_and(|target| target.as_os_str() == &*socket))
        };
        self.processes.iter().find_map(|(party, process)| has_it(*process).then_some(*party))
    }
}

/// Finds the inode of the socket between two ports in a table of the kernel, whose columns are `sl local remote st
/// queues tr retrnsmt uid timeout inode`.
fn inode_of(table: &str, (local, remote): (u16, u16)) -> Option<&str> {
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, from, to, _, _, _, _, _, _, inode, ..] = fields.as_slice() else { return None };
        ((port(from), port(to)) == (Some(local), Some(remote))).then_some(*inode)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cut_delays_data_between_its_parties_and_loses_none() {
        let net = Net::default();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = net.before(Party::Broker(0), server.local_addr().unwrap()).unwrap();
        net.runs(Party::Node(1), std::process::id());
        let mut client = TcpStream::connect(address).unwrap();
        let (mut served, _) = server.accept().unwrap();
        let mut got = [0; 4];
        client.write_all(b"one.").unwrap();
        served.read_exact(&mut got).unwrap();

        // A cut between other parties does not affect this connection.
        net.cut(Cut::NodeAndBrokers(2));
        client.write_all(b"two.").unwrap();
        served.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"two.");

        // Both directions wait until the cut is repaired. After that no data is missing, and new connections work.
        net.cut(Cut::NodeAndBrokers(1));
        let wait = |stream: &TcpStream| stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        client.write_all(b"three").unwrap();
        served.write_all(b"four").unwrap();
        let mut another = TcpStream::connect(address).unwrap();
        another.write_all(b"five").unwrap();
        wait(&served);
        wait(&client);
        assert!(served.read(&mut got).is_err() && client.read(&mut got).is_err());
        server.set_nonblocking(true).unwrap();
        assert!(server.accept().is_err());
        server.set_nonblocking(false).unwrap();
        assert_eq!(net.delayed(), 3);
        net.mend();
        served.set_read_timeout(None).unwrap();
        client.set_read_timeout(None).unwrap();
        let mut three = [0; 5];
        served.read_exact(&mut three).unwrap();
        client.read_exact(&mut got).unwrap();
        assert_eq!((&three, &got), (b"three", b"four"));
        let (mut served, _) = server.accept().unwrap();
        served.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"five");
    }

    #[test]
    fn a_cut_affects_only_its_parties_in_both_directions() {
        let (one, two) = (Party::Node(1), Party::Node(2));
        let (first, second) = (Party::Broker(0), Party::Broker(1));
        for (cut, apart, together) in [
            (Cut::NodeAndNodes(1), [(one, two), (two, one)], [(one, first), (two, Party::Node(3))]),
            (Cut::NodeAndBrokers(1), [(one, first), (one, second)], [(one, two), (two, first)]),
            (Cut::BrokerAndBrokers(0), [(first, second), (second, first)], [(one, first), (first, first)]),
        ] {
            assert!(apart.iter().all(|(from, to)| cut.is_between(*from, *to)), "{cut:?}");
            assert!(together.iter().all(|(from, to)| !cut.is_between(*from, *to)), "{cut:?}");
        }
    }
}
