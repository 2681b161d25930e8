//! The nodes: processes of `pando`, each with a data directory, a node file and a log of its own.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::Connection;
use ldap::Scope;
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::Proxy;
use crate::{Result, until};

/// The suffix of the tree.
pub(crate) const SUFFIX: &str = "dc=example,dc=com";
const ADMIN_DN: &str = "cn=admin";
const PASSWORD: &str = "cluster";

/// A connection bound as the administrator.
pub(crate) fn connect(address: SocketAddr) -> Result<Connection> {
    let mut connection = Connection::open(address)?;
    let outcome = connection.bind(ADMIN_DN, PASSWORD)?;
    if outcome.is_success() { Ok(connection) } else { Err(format!("bind: {outcome:?}").into()) }
}

/// All nodes; those that run are killed when this is dropped.
pub(crate) struct Nodes {
    program: PathBuf,
    folder: PathBuf,
    nodes: Vec<Node>,
}

struct Node {
    process: Option<Child>,
    address: SocketAddr,
    /// Through which the other nodes reach it.
    proxy: Proxy,
}

/// An address that is free now, and hardly taken in the meantime.
fn free_address() -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// What a node has.
pub(crate) struct Content {
    pub(crate) node: usize,
    /// Its entries as LDIF.
    pub(crate) export: String,
    /// Their DNs.
    pub(crate) names: HashSet<String>,
}

impl Nodes {
    /// Makes a cluster of `count` nodes on new data, and starts them.
    pub(crate) fn make(program: PathBuf, folder: &Path, brokers: &str, count: usize) -> Result<Nodes> {
        let mut nodes = Nodes { program, folder: folder.to_owned(), nodes: Vec::new() };
        for node in 1..=count {
            // A fixed port, so that clients find it again: free now, and hardly taken in the meantime.
            let free = free_address()?;
            let for_nodes = free_address()?;
            let proxy = Proxy::start(for_nodes)?;
            let reached = proxy.address();
            nodes.nodes.push(Node { process: None, address: free, proxy });
            let text = format!(
                "listen = [\"ldap://{free}\"]\n[cluster]\nbrokers = \"{brokers}\"\nlisten = \"{for_nodes}\"\n\
                 address = \"{reached}\"\nsession_timeout_ms = 2000\nkafka = [\"heartbeat.interval.ms=300\"]\n"
            );
            std::fs::write(nodes.file(node, "toml"), text)?;
            if node == 1 {
                nodes.command(1, &["cluster", "init", "--replicas", "3"])?;
                nodes.start(1)?;
                let mut connection = connect(free)?;
                let added = connection.add(SUFFIX, &[("objectClass", "domain"), ("dc", "example")])?;
                if !added.is_success() {
                    return Err(format!("adding the suffix: {added:?}").into());
                }
                continue;
            }
            let invitation = nodes.file(node, "invitation");
            let invitation = invitation.to_str().ok_or("a path in UTF-8")?;
            nodes.command(1, &["cluster", "invite", "-o", invitation])?;
            let from = nodes.file(1, "data");
            let from = from.to_str().ok_or("a path in UTF-8")?;
            nodes.command(node, &["cluster", "join", "--invitation", invitation, "--copy-of", from])?;
            nodes.start(node)?;
        }
        Ok(nodes)
    }

    fn file(&self, node: usize, what: &str) -> PathBuf {
        self.folder.join(format!("node-{node}.{what}"))
    }

    fn pando(&self, node: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--node")
            .arg(self.file(node, "toml"))
            .arg("--data")
            .arg(self.file(node, "data"));
        command.env("PANDO_ADMIN_PASSWORD", PASSWORD).stdin(Stdio::null());
        command
    }

    fn command(&self, node: usize, arguments: &[&str]) -> Result<String> {
        run(self.pando(node, arguments), arguments)
    }

    fn export(&self, node: usize) -> Result<String> {
        let arguments = ["export", "--operational"];
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--data").arg(self.file(node, "data")).stdin(Stdio::null());
        run(command, &arguments)
    }
    fn node(&mut self, node: usize) -> Result<&mut Node> {
        node.checked_sub(1).and_then(|index| self.nodes.get_mut(index)).ok_or_else(|| "no such node".into())
    }

    /// Starts a node, and waits until it serves.
    pub(crate) fn start(&mut self, node: usize) -> Result<()> {
        if self.node(node)?.process.is_some() {
            return Err("it runs".into());
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.file(node, "log"))?;
        let mut child = self.pando(node, &["serve"]).stdout(Stdio::piped()).stderr(log).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let is_ready =
            lines.by_ref().map_while(std::result::Result::ok).any(|line| line.contains("ready on"));
        self.node(node)?.process = Some(child);
        if is_ready { Ok(()) } else { Err(format!("node {node} does not start").into()) }
    }

    /// Kills a node, as a power cut would.
    pub(crate) fn kill(&mut self, node: usize) -> Result<()> {
        let mut child = self.node(node)?.process.take().ok_or("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Halts a node, or lets it go on.
    pub(crate) fn halt(&mut self, node: usize, is_halted: bool) -> Result<()> {
        let child = self.node(node)?.process.as_ref().ok_or("it does not run")?;
        let signal = if is_halted { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Keeps the other nodes from reaching a node, or lets them again.
    pub(crate) fn cut(&mut self, node: usize, is_cut: bool) -> Result<()> {
        self.node(node)?.proxy.cut(is_cut);
        Ok(())
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("ldap://{}", node.address)).collect()
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        (1..).zip(&self.nodes).filter(|(_, node)| node.process.is_some())
    }

    /// The node that writes, by the word of one that runs.
    pub(crate) fn writer(&self) -> Result<usize> {
        let all: Vec<_> = self.running().map(|(number, node)| (number, node.address)).collect();
        until("a node that writes", || {
            all.iter()
                .find_map(|(number, address)| (figure(*address, "Role")? == "writing").then_some(*number))
        })
    }

    /// Prints what each node says of itself.
    pub(crate) fn say(&self) -> Result<()> {
        for (number, node) in self.running() {
            let says = |name: &str| figure(node.address, name).unwrap_or_else(|| "?".to_owned());
            println!(
                "node {number}: {:<10} writer {} epoch {:>6} position {:>8} lag {} messages, {} s",
                says("Role"),
                says("Writer"),
                says("Epoch"),
                says("Position"),
                says("Lag Messages"),
                says("Lag Seconds")
            );
        }
        Ok(())
    }

    /// What every node has, once all have come to the same position.
    pub(crate) fn contents(&self) -> Result<Vec<Content>> {
        let position = |address| figure(address, "Position")?.parse::<u64>().ok();
        until("all nodes at the same position", || {
            let mut all = self.running().map(|(_, node)| position(node.address));
            let first = all.next()??;
            all.all(|other| other == Some(first)).then_some(())
        })?;
        let content = |(node, _)| {
            let export = self.export(node)?;
            let names =
                export.lines().filter_map(|line| line.strip_prefix("dn: ")).map(str::to_owned).collect();
            Ok(Content { node, export, names })
        };
        self.running().map(content).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A figure of `cn=Cluster,cn=monitor`.
fn figure(address: SocketAddr, name: &str) -> Option<String> {
    let mut connection = connect(address).ok()?;
    let dn = format!("cn={name},cn=Cluster,cn=monitor");
    let reply = connection.search(&dn, Scope::BaseObject, "(objectClass=*)", &["*"]).ok()?;
    let entry = reply.entries.into_iter().next()?;
    Some(["monitoredInfo", "monitorCounter"].iter().flat_map(|attribute| entry.texts(attribute)).collect())
}

/// What a command printed.
fn run(mut command: Command, arguments: &[&str]) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("pando {}: {said}", arguments.join(" ")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
