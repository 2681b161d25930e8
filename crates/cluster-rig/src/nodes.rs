//! Nodes: processes of `pando`, each with its own data directory, node file and log file.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use client::Connection;
use ldap::{ResultCode, Scope};
use rustix::process::{Pid, Signal, kill_process};

use crate::net::Party;
use crate::rig::Infrastructure;
use crate::{Result, until};

/// Suffix of the directory.
pub(crate) const SUFFIX: &str = "dc=example,dc=com";
pub(crate) const ADMIN_DN: &str = "cn=admin";
pub(crate) const PASSWORD: &str = "cluster";

/// Environment variable that allows the server to leave core dumps. Without it, only root can read the server's files
/// in /proc.
const READABLE: &str = "PANDO_CORE_DUMPS";

/// Opens a connection bound as the administrator.
pub(crate) fn connect(address: SocketAddr) -> Result<Connection> {
    let mut connection = Connection::open(address)?;
    let outcome = connection.bind(ADMIN_DN, PASSWORD)?;
    if outcome.is_success() { Ok(connection) } else { Err(format!("bind: {outcome:?}").into()) }
}

/// All nodes. Dropping this struct kills the running nodes.
pub(crate) struct Nodes {
    program: PathBuf,
    folder: PathBuf,
    /// Addresses of the brokers.
    brokers: String,
    around: Option<Arc<Infrastructure>>,
    nodes: Vec<Node>,
}

struct Node {
    process: Option<Child>,
    address: SocketAddr,
    /// Address at which other nodes reach this node.
    for_nodes: SocketAddr,
}

/// Returns an address that is free at present and unlikely to be taken soon.
fn free_address() -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Content of a node.
pub(crate) struct Content {
    pub(crate) node: usize,
    /// Entries as LDIF.
    pub(crate) export: String,
    /// DNs of the entries.
    pub(crate) names: HashSet<String>,
}

impl Nodes {
    /// Returns an empty set of nodes for these brokers.
    pub(crate) fn new(
        program: PathBuf,
        folder: &Path,
        brokers: String,
        around: Option<Arc<Infrastructure>>,
    ) -> Nodes {
        Nodes { program, folder: folder.to_owned(), brokers, around, nodes: Vec::new() }
    }

    /// Creates the first node, from existing data if there is any, and starts it.
    pub(crate) fn found(&mut self) -> Result<()> {
        self.place()?;
        self.command(1, &["cluster", "init", "--replicas", "3"])?;
        self.start(1)?;
        let mut connection = connect(self.address(1)?)?;
        let added = connection.add(SUFFIX, &[("objectClass", "domain"), ("dc", "example")])?;
        if added.is_success() || added.code == ResultCode::ENTRY_ALREADY_EXISTS {
            return Ok(());
        }
        Err(format!("adding the suffix: {added:?}").into())
    }

    /// Creates one more node from the data of the first node, and starts it. Returns its number.
    pub(crate) fn join(&mut self) -> Result<usize> {
        let (node, invitation) = self.invite()?;
        let from = self.data(1);
        let from = from.to_str().ok_or("a path in UTF-8")?;
        self.command(node, &["cluster", "join", "--invitation", &invitation, "--copy-of", from])?;
        self.start(node)?;
        Ok(node)
    }

    /// Invites one more node. Returns its number and the invitation.
    pub(crate) fn invite(&mut self) -> Result<(usize, String)> {
        let node = self.place()?;
        let invitation = self.file(node, "invitation");
        let invitation = invitation.to_str().ok_or("a path in UTF-8")?.to_owned();
        self.command(1, &["cluster", "invite", "-o", &invitation])?;
        Ok((node, invitation))
    }

    /// Creates the folder and the node file of one more node. Returns its number.
    fn place(&mut self) -> Result<usize> {
        // The ports stay the same, so that clients find the node again after a restart.
        let (free, for_nodes) = (free_address()?, free_address()?);
        let node = self.nodes.len() + 1;
        std::fs::create_dir_all(self.disk(node))?;
        let mut reached = for_nodes;
        if let Some(around) = &self.around {
            reached = around.net.before(Party::Node(node), for_nodes)?;
            around.disks.make(&self.disk(node))?;
        }
        self.nodes.push(Node { process: None, address: free, for_nodes: reached });
        let brokers = &self.brokers;
        let text = format!(
            "listen = [\"ldap://{free}\"]\n[cluster]\nbrokers = \"{brokers}\"\nlisten = \"{for_nodes}\"\n\
             address = \"{reached}\"\nsession_timeout_ms = 2000\nkafka = [\"heartbeat.interval.ms=300\"]\n"
        );
        std::fs::write(self.file(node, "toml"), text)?;
        Ok(node)
    }

    /// Returns the folder with a node's data and nothing else.
    pub(crate) fn disk(&self, node: usize) -> PathBuf {
        self.file(node, "disk")
    }

    pub(crate) fn data(&self, node: usize) -> PathBuf {
        self.disk(node).join("data")
    }

    fn file(&self, node: usize, what: &str) -> PathBuf {
        self.folder.join(format!("node-{node}.{what}"))
    }

    fn pando(&self, node: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--node").arg(self.file(node, "toml")).arg("--data").arg(self.data(node));
        command.env("PANDO_ADMIN_PASSWORD", PASSWORD).env(READABLE, "1").stdin(Stdio::null());
        command
    }

    /// Runs a command of the program on a node.
    pub(crate) fn command(&self, node: usize, arguments: &[&str]) -> Result<String> {
        run(self.pando(node, arguments), arguments)
    }

    fn export(&self, node: usize) -> Result<String> {
        let arguments = ["export", "--operational"];
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--data").arg(self.data(node)).stdin(Stdio::null());
        run(command, &arguments)
    }

    fn node(&mut self, node: usize) -> Result<&mut Node> {
        node.checked_sub(1).and_then(|index| self.nodes.get_mut(index)).ok_or_else(|| "no such node".into())
    }

    /// Starts a node, and waits until it serves clients.
    pub(crate) fn start(&mut self, node: usize) -> Result<()> {
        if self.node(node)?.process.is_some() {
            return Err("it runs".into());
        }
        let (child, is_ready) = serve(self.pando(node, &["serve"]), &self.file(node, "log"))?;
        if let Some(around) = &self.around {
            around.net.runs(Party::Node(node), child.id());
        }
        self.node(node)?.process = Some(child);
        if is_ready { Ok(()) } else { Err(format!("node {node} does not start").into()) }
    }

    /// Kills a node by SIGKILL.
    pub(crate) fn kill(&mut self, node: usize) -> Result<()> {
        let mut child = self.node(node)?.process.take().ok_or("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Halts a node, or lets it continue.
    pub(crate) fn halt(&mut self, node: usize, is_halted: bool) -> Result<()> {
        let child = self.node(node)?.process.as_ref().ok_or("it does not run")?;
        let signal = if is_halted { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Returns the address of a node for clients.
    pub(crate) fn address(&self, node: usize) -> Result<SocketAddr> {
        let place = node.checked_sub(1).and_then(|index| self.nodes.get(index));
        Ok(place.ok_or("no such node")?.address)
    }

    /// Returns the address at which other nodes reach a node.
    pub(crate) fn address_for_nodes(&self, node: usize) -> Result<SocketAddr> {
        let place = node.checked_sub(1).and_then(|index| self.nodes.get(index));
        Ok(place.ok_or("no such node")?.for_nodes)
    }

    /// Returns the process id of each running node, with its number.
    pub(crate) fn processes(&self) -> Vec<(usize, u32)> {
        self.running().filter_map(|(number, node)| Some((number, node.process.as_ref()?.id()))).collect()
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

    /// Returns the writer, as a running node reports it.
    pub(crate) fn writer(&self) -> Result<usize> {
        let all: Vec<_> = self.running().map(|(number, node)| (number, node.address)).collect();
        until("a node that writes", || {
            all.iter()
                .find_map(|(number, address)| (figure(*address, "Role")? == "writing").then_some(*number))
        })
    }

    /// Waits until a node other than `former` is the writer.
    pub(crate) fn writer_after(&self, former: usize) -> Result<usize> {
        let others: Vec<_> = self.running().filter(|(number, _)| *number != former).collect();
        until("another node that writes", || {
            let writes = |node: &Node| figure(node.address, "Role").is_some_and(|role| role == "writing");
            others.iter().find_map(|(number, node)| writes(node).then_some(*number))
        })
    }

    /// Waits until another node has at least `records` records that this node lacks.
    pub(crate) fn wait_for_lag(&self, node: usize, records: u64) -> Result<()> {
        until("a node that lags", || {
            let positions = self.running().filter_map(|(number, of)| Some((number, position(of.address)?)));
            let (own, others): (Vec<_>, Vec<_>) = positions.partition(|(number, _)| *number == node);
            let own = own.first()?.1;
            others.iter().any(|(_, position)| *position >= own + records).then_some(())
        })
    }

    /// Prints the state that each node reports.
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

    /// Returns the content of every node, after all nodes have reached the same position.
    pub(crate) fn contents(&self) -> Result<Vec<Content>> {
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

/// A single server that is not a node.
pub(crate) struct Alone {
    process: Child,
    address: SocketAddr,
}

impl Alone {
    /// Starts a server on existing data.
    pub(crate) fn start(program: &Path, data: &Path, log: &Path) -> Result<Alone> {
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--admin-dn", ADMIN_DN, "--listen", &format!("ldap://{address}"), "--data"])
            .arg(data);
        command.env("PANDO_ADMIN_PASSWORD", PASSWORD).env(READABLE, "1").stdin(Stdio::null());
        let (process, is_ready) = serve(command, log)?;
        let alone = Alone { process, address };
        if is_ready { Ok(alone) } else { Err("the server alone does not start".into()) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server and waits until it serves clients. Returns its process, and false if it does not serve.
fn serve(mut command: Command, log: &Path) -> Result<(Child, bool)> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let is_ready = lines.by_ref().map_while(std::result::Result::ok).any(|line| line.contains("ready on"));
    Ok((child, is_ready))
}

/// Returns the position of a node.
pub(crate) fn position(address: SocketAddr) -> Option<u64> {
    figure(address, "Position")?.parse().ok()
}

/// Returns a figure of `cn=Cluster,cn=monitor`.
pub(crate) fn figure(address: SocketAddr, name: &str) -> Option<String> {
    let mut connection = connect(address).ok()?;
    let dn = format!("cn={name},cn=Cluster,cn=monitor");
    let reply = connection.search(&dn, Scope::BaseObject, "(objectClass=*)", &["*"]).ok()?;
    let entry = reply.entries.into_iter().next()?;
    Some(["monitoredInfo", "monitorCounter"].iter().flat_map(|attribute| entry.texts(attribute)).collect())
}

/// Runs a command and returns its output.
pub(crate) fn run(mut command: Command, arguments: &[&str]) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("pando {}: {stderr}", arguments.join(" ")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
