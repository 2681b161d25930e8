//! Nodes of a cluster, each a process of the real binary, on a real broker.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Connection, Entry};
use kafka_broker::Brokers;
use ldap::Scope;

use super::clients::Run;
use super::pando::{Pando, Start, command};
pub use super::tree::add;
use super::{ADMIN_DN, DEADLINE, SUFFIX, Scratch};

/// The nodes and the broker of a cluster.
pub struct Cluster {
    /// The broker.
    pub brokers: Brokers,
    /// Folder of the broker and of all nodes.
    pub scratch: Scratch,
}

impl Cluster {
    /// Starts a broker and the first node, which has the suffix entry.
    pub fn new(name: &str) -> (Cluster, Pando) {
        let scratch = Scratch::new(name);
        let brokers = Brokers::start(1, scratch.path()).unwrap();
        Cluster::on(brokers, scratch)
    }

    /// Does the same as [`new`](Cluster::new), but the nodes connect to the broker with TLS and a password.
    pub fn secured(name: &str) -> (Cluster, Pando) {
        let scratch = Scratch::new(name);
        let brokers = Brokers::start_secured(1, scratch.path()).unwrap();
        Cluster::on(brokers, scratch)
    }

    fn on(brokers: Brokers, scratch: Scratch) -> (Cluster, Pando) {
        let cluster = Cluster { brokers, scratch };
        cluster.write_node_file(1);
        let data = cluster.data(1);
        // The existing data becomes the first data of the cluster.
        let server =
            Start::bare(&cluster.scratch, "node-1").arguments(&["--suffix", SUFFIX, "--admin-dn", ADMIN_DN]);
        let server = server.ready();
        add(&mut server.administrator(), SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
        server.stop();
        let node_file = cluster.node_file(1);
        let node_file = node_file.to_str().unwrap();
        let made =
            command(&["cluster", "init", "--node", node_file, "--replicas", "1"], Some(&data)).expect_code(0);
        made.expect_output("node 1 of a new cluster is made");
        let first = cluster.start(1);
        (cluster, first)
    }

    /// Returns the data folder of a node.
    pub fn data(&self, node: u32) -> PathBuf {
        self.scratch.join(&format!("node-{node}"))
    }

    /// Returns the path of a node file.
    pub fn node_file(&self, node: u32) -> PathBuf {
        self.scratch.join(&format!("node-{node}.toml"))
    }

    /// Writes the node file of a node.
    pub fn write_node_file(&self, node: u32) {
        let (brokers, security) = match self.brokers.security() {
            Err(_) => (self.brokers.bootstrap(), String::new()),
            Ok(security) => {
                let (ca, user) = (security.ca.display(), security.user());
                let password = security.password_file.display();
                let keys = format!(
                    "kafka_tls = true\nkafka_ca = \"{ca}\"\nkafka_sasl = \"SCRAM-SHA-512\"\n\
                     kafka_user = \"{user}\"\nkafka_password_file = \"{password}\"\n"
                );
                (self.brokers.sasl_bootstrap(), keys)
            }
        };
        let text = format!(
            "admin_dn = \"{ADMIN_DN}\"\n[cluster]\nbrokers = \"{brokers}\"\nlisten = \"127.0.0.1:0\"\n\
             session_timeout_ms = 2000\n\
             {security}change_timeout_ms = 5000\nappend_timeout_ms = 3000\nkafka = [\"heartbeat.interval.ms=300\"]\n"
        );
        self.scratch.write(&format!("node-{node}.toml"), text);
    }

    /// Invites the next node, and creates it from a copy of the first node's data.
    pub fn join(&self, node: u32) {
        let from = self.scratch.join(&format!("copy-for-{node}"));
        let copied = command(&["cluster", "copy", from.to_str().unwrap()], Some(&self.data(1)));
        copied.expect_code(0).expect_output("has the data of the node at this moment");
        self.join_from(node, &from);
    }

    /// Invites the next node, and creates it from the copy in `from`.
    pub fn join_from(&self, node: u32, from: &Path) {
        let invitation = self.invite(node);
        let join = ["join", "--invitation", &invitation, "--copy-of", from.to_str().unwrap()];
        self.cluster_command(node, &join).expect_code(0).expect_output(&format!("node {node} is made"));
    }

    /// Writes a node file and an invitation for the next node. Returns the path of the invitation.
    pub fn invite(&self, node: u32) -> String {
        self.write_node_file(node);
        let invitation = self.scratch.join(&format!("node-{node}.invitation")).to_str().unwrap().to_owned();
        let invited = self.cluster_command(1, &["invite", "-o", &invitation]);
        invited.expect_code(0).expect_output(&format!("makes node {node}"));
        invitation
    }

    /// Runs `pando cluster` for a node.
    pub fn cluster_command(&self, node: u32, words: &[&str]) -> Run {
        let file = self.node_file(node);
        let words = [&["cluster", words[0], "--node", file.to_str().unwrap()], &words[1..]].concat();
        command(&words, Some(&self.data(node)))
    }

    /// Starts a node.
    pub fn start(&self, node: u32) -> Pando {
        let node_file = self.node_file(node);
        let data = format!("node-{node}");
        Start::bare(&self.scratch, &data).arguments(&["--node", node_file.to_str().unwrap()]).ready()
    }

    /// Returns the data of a node: its entries as exported, and the records of its log.
    pub fn content(&self, node: u32) -> (String, Vec<(u64, Vec<u8>)>) {
        let export = command(&["export"], Some(&self.data(node))).expect_code(0).stdout;
        let store = store::Store::open_read_only(&self.data(node), directory::rows::MAPS).unwrap();
        let view = store.view().unwrap();
        let records = view.log_records(0).map(|record| record.map(|(at, bytes)| (at, bytes.to_vec())));
        (export, records.collect::<Result<_, _>>().unwrap())
    }

    /// Waits until these nodes have the same position, and checks that they have the same data. Returns the number of
    /// records.
    pub fn expect_equal(&self, nodes: &[(u32, &Pando)]) -> usize {
        let last = nodes.iter().map(|(_, server)| position(server)).max().unwrap();
        for (_, server) in nodes {
            until("the node has every record", || (position(server) >= last).then_some(()));
        }
        let contents: Vec<_> = nodes.iter().map(|(node, _)| self.content(*node)).collect();
        for (content, (node, _)) in contents.iter().zip(nodes) {
            assert!(
                content.0 == contents[0].0,
                "node {node} exports something else than node {}",
                nodes[0].0
            );
            assert!(content.1 == contents[0].1, "node {node} has another log than node {}", nodes[0].0);
        }
        contents[0].1.len()
    }
}

/// Calls `ask` until it returns a value.
#[track_caller]
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_within(DEADLINE, what, ask)
}

/// Does the same as `until`, with a given deadline.
#[track_caller]
pub fn until_within<T>(deadline: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the DN of an organizational unit below the suffix.
pub fn unit(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

/// Adds an organizational unit below the suffix.
pub fn add_unit(connection: &mut Connection, name: &str) -> client::Outcome {
    connection.add(&unit(name), &[("objectClass", "organizationalUnit")]).unwrap()
}

/// Reads an entry with all its attributes. Returns `None` if it does not exist.
pub fn read(connection: &mut Connection, dn: &str) -> Option<Entry> {
    connection.search(dn, Scope::BaseObject, "(objectClass=*)", &["*", "+"]).unwrap().entries.pop()
}

/// Returns a figure of the cluster from the monitor.
pub fn figure(server: &Pando, name: &str) -> String {
    figure_of(server, name).unwrap_or_else(|| panic!("no cn={name},cn=Cluster,cn=monitor"))
}

/// Does the same as [`figure`], but returns `None` if the figure is missing.
pub fn figure_of(server: &Pando, name: &str) -> Option<String> {
    let dn = format!("cn={name},cn=Cluster,cn=monitor");
    let entry = read(&mut server.administrator(), &dn)?;
    Some(["monitoredInfo", "monitorCounter"].iter().flat_map(|attribute| entry.texts(attribute)).collect())
}

/// Returns the position of the last change that reads on the node show.
pub fn position(server: &Pando) -> u64 {
    figure(server, "Position").parse().unwrap()
}
