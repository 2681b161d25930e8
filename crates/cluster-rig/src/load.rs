//! Load of changes, with a record of every answer.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::Connection;
use ldap::{AtLeast, Control, ControlsBuf, ResultCode, Scope, oids};

use crate::nodes::{Content, SUFFIX, connect};
use crate::{Result, until};

/// Number of clients per node.
const CLIENTS: usize = 2;

/// Clients that add and delete entries until the load is stopped. Each uses one node.
pub(crate) struct Load {
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<Answers>>,
}

#[derive(Default)]
struct Counts {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    is_stopping: AtomicBool,
    /// Number of the next entry. No name is used twice.
    next: AtomicU64,
}

/// Answers that clients received.
#[derive(Default)]
pub(crate) struct Answers {
    /// Entries that exist.
    added: HashSet<String>,
    /// Entries that were deleted.
    deleted: HashSet<String>,
    /// Entries whose state is unknown.
    doubtful: HashSet<String>,
    /// Entries whose change was refused with the assurance that nothing was changed.
    refused: HashSet<String>,
    /// Answers that must not occur.
    wrong: Vec<String>,
}

impl Load {
    pub(crate) fn start(nodes: &[SocketAddr]) -> Load {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let counts = Arc::new(Counts::default());
        let client = |address: SocketAddr| {
            let counts = Arc::clone(&counts);
            let others = nodes.iter().copied().filter(|other| *other != address).collect::<Vec<_>>();
            std::thread::spawn(move || drive(address, &others, run, &counts))
        };
        let clients = nodes.iter().flat_map(|address| [*address; CLIENTS]).map(client).collect();
        Load { counts, clients }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.counts.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    /// Waits until `count` changes are acknowledged.
    pub(crate) fn wait_for(&self, count: u64) -> Result<()> {
        until("changes that are acknowledged", || (self.acknowledged() >= count).then_some(()))
    }

    /// Stops the load. Returns the answers that the clients received.
    pub(crate) fn stop(self) -> Answers {
        self.counts.is_stopping.store(true, Ordering::Relaxed);
        let mut all = Answers::default();
        for client in self.clients {
            match client.join() {
                Ok(answers) => all.take(answers),
                Err(_) => all.wrong.push("a client met a defect".to_owned()),
            }
        }
        all
    }
}

fn drive(address: SocketAddr, others: &[SocketAddr], run: u64, counts: &Counts) -> Answers {
    let mut answers = Answers::default();
    let mut open: Option<Connection> = None;
    while !counts.is_stopping.load(Ordering::Relaxed) {
        let Some(connection) = open.as_mut() else {
            open = connect(address).ok();
            if open.is_none() {
                std::thread::sleep(Duration::from_millis(100));
            }
            continue;
        };
        let number = counts.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("ou=r{run}n{number},{SUFFIX}");
        if change(connection, &name, number.is_multiple_of(4), counts, &mut answers).is_none() {
            // The node ended during a change, so the state of the entry is unknown.
            answers.doubtful.insert(name);
            open = None;
        } else if number % 4 == 1 && answers.added.contains(&name) {
            let other = others.get(usize::try_from(number / 4).unwrap_or(0) % others.len().max(1));
            let wrong = other.and_then(|other| read_from_other(connection, *other, &name));
            answers.wrong.extend(wrong);
        }
    }
    answers
}

/// Adds an entry and searches for it. If `deletes` is true, also deletes the entry. Returns `None` if the connection
/// ended.
fn change(
    connection: &mut Connection,
    name: &str,
    deletes: bool,
    counts: &Counts,
    answers: &mut Answers,
) -> Option<()> {
    let outcome = connection.add(name, &[("objectClass", "organizationalUnit")]).ok()?;
    match outcome.code {
        ResultCode::SUCCESS => {
            counts.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        ResultCode::UNAVAILABLE => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let is_doubtful = outcome.diagnostic.contains("does not say");
            let set = if is_doubtful { &mut answers.doubtful } else { &mut answers.refused };
            set.insert(name.to_owned());
            return Some(());
        }
        code => {
            // Every name is new, so "entry already exists" means that the entry was added twice.
            answers.wrong.push(format!("{name}: {code} {}", outcome.diagnostic));
            return Some(());
        }
    }
    let found = connection.search(name, Scope::BaseObject, "(objectClass=*)", &["1.1"]);
    let Ok(found) = found else {
        answers.added.insert(name.to_owned());
        return None;
    };
    if found.entries.is_empty() {
        answers.wrong.push(format!("{name} was added, and the same connection does not see it"));
    }
    if !deletes {
        answers.added.insert(name.to_owned());
        return Some(());
    }
    let outcome = connection.delete(name).ok()?;
    match outcome.code {
        ResultCode::SUCCESS => {
            counts.acknowledged.fetch_add(1, Ordering::Relaxed);
            answers.deleted.insert(name.to_owned());
            let found = connection.search(name, Scope::BaseObject, "(objectClass=*)", &["1.1"]).ok()?;
            if !found.entries.is_empty() {
                answers.wrong.push(format!("{name} was deleted, and the same connection still sees it"));
            }
        }
        ResultCode::UNAVAILABLE => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let is_doubtful = outcome.diagnostic.contains("does not say");
            let set = if is_doubtful { &mut answers.doubtful } else { &mut answers.added };
            set.insert(name.to_owned());
        }
        code => answers.wrong.push(format!("deleting {name}: {code} {}", outcome.diagnostic)),
    }
    Some(())
}

/// Searches for an entry on another node, which must have at least the position that the node of `connection` reports.
/// Returns a description if the entry is missing. It is not an error if the other node does not answer or reports that
/// it lags.
fn read_from_other(connection: &mut Connection, other: SocketAddr, name: &str) -> Option<String> {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: oids::POSITION, critical: true, value: None });
    let seen =
        connection.search_with("", Scope::BaseObject, "(objectClass=*)", &["1.1"], controls.as_controls());
    let at_least = AtLeast { token: seen.ok()?.position()?, wait_ms: 1_000 };
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: oids::AT_LEAST, critical: true, value: Some(&at_least.encode()) });
    let mut other = connect(other).ok()?;
    let found =
        other.search_with(name, Scope::BaseObject, "(objectClass=*)", &["1.1"], controls.as_controls());
    let found = found.ok()?;
    let is_stale = found.entries.is_empty() && found.outcome.code != ResultCode::BUSY;
    is_stale.then(|| {
        format!("{name} is not there on another node at position {}: {:?}", at_least.token.position, found)
    })
}

impl Answers {
    fn take(&mut self, other: Answers) {
        self.added.extend(other.added);
        self.deleted.extend(other.deleted);
        self.doubtful.extend(other.doubtful);
        self.refused.extend(other.refused);
        self.wrong.extend(other.wrong);
    }

    /// Returns a description of each difference between the clients' answers and the content of a node.
    pub(crate) fn compare(&self, content: &Content) -> Vec<String> {
        let Content { node, names, .. } = content;
        let lost = self.added.difference(names).filter(|name| !self.doubtful.contains(*name));
        let lost = lost.map(|name| format!("node {node}: {name} was acknowledged and is lost"));
        let back = self.deleted.intersection(names);
        let back = back.map(|name| format!("node {node}: {name} was deleted and is there"));
        let added = self.refused.intersection(names);
        let added = added.map(|name| format!("node {node}: {name} was refused and is there"));
        lost.chain(back).chain(added).chain(self.wrong.iter().cloned()).collect()
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "clients received: {} added, {} added and deleted, {} refused, {} in doubt, {} wrong",
            self.added.len(),
            self.deleted.len(),
            self.refused.len(),
            self.doubtful.len(),
            self.wrong.len()
        )
    }
}
