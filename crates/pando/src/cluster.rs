//! `pando cluster`: sets up and inspects the nodes of a cluster.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ldap::Scope;
use serde_json::{Map, Value, json};
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::{ServerArguments, socket_in};
use crate::print::Report;

pub(crate) const HELP: &str = "\
A cluster is one directory on several machines, with Apache Kafka as its log (docs/how-to/cluster.md).
The table [cluster] of the node file names the Kafka brokers.

Examples:
  pando cluster init --node /etc/pando/node.toml
  pando cluster invite --node /etc/pando/node.toml -o node2.invitation
  pando cluster copy --data /var/lib/pando /tmp/node1-copy
  pando cluster join --node /etc/pando/node.toml --invitation node2.invitation --copy-from node1:6360
  pando cluster status --data /var/lib/pando
  pando cluster unregister --node /etc/pando/node.toml 3
  pando cluster rotate-key --node /etc/pando/node.toml
  pando cluster snapshot --node /etc/pando/node.toml /var/backups/pando-1
  pando cluster trim --node /etc/pando/node.toml --dry-run

Exit codes: as `pando verify`.";

/// The options of `pando cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
enum ClusterVerb {
    /// Make a stopped or new data directory the first node of a new cluster
    Init {
        #[command(flatten)]
        data: DataArguments,
        /// Replication factor of the topic of the log, if this command creates the topic
        #[arg(long, default_value_t = 3)]
        replicas: usize,
    },
    /// Write an invitation for one more node. Keep it secret: its holder can become that node
    Invite {
        #[command(flatten)]
        data: DataArguments,
        /// The file to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// Include the key of the cluster's authority, so that the new node can invite nodes and renew certificates too
        #[arg(long)]
        may_invite: bool,
    },
    /// Renew the certificate of this node, or write a file that renews the certificate of another node
    Renew {
        #[command(flatten)]
        data: DataArguments,
        /// Number of the other node
        #[arg(long, value_name = "NODE", requires = "output")]
        number: Option<u32>,
        /// The file to write for the other node. Keep it secret
        #[arg(long, short, value_name = "FILE", requires = "number")]
        output: Option<PathBuf>,
        /// Use a file that another node wrote for this one
        #[arg(long, value_name = "FILE", conflicts_with = "number")]
        take: Option<PathBuf>,
    },
    /// Copy the data of a node, running or stopped, to take it to another machine
    Copy {
        #[command(flatten)]
        data: DataArguments,
        /// The new folder for the copy
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Join the cluster with an invitation and a copy of another node's data
    Join {
        #[command(flatten)]
        data: DataArguments,
        /// File with the invitation
        #[arg(long, value_name = "FILE")]
        invitation: PathBuf,
        #[command(flatten)]
        source: CopySource,
    },
    /// Show the role of a node in its cluster, and its replication lag
    Status {
        #[command(flatten)]
        data: DataArguments,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Remove a stopped node from its cluster; the other nodes reject its certificate from then on
    Leave {
        #[command(flatten)]
        data: DataArguments,
        /// Leave even if the log cannot be reached, so that the other nodes are not notified
        #[arg(long)]
        untold: bool,
    },
    /// Remove a lost node from the cluster: all nodes reject its certificate, and the log is no longer kept for it
    Unregister {
        #[command(flatten)]
        data: DataArguments,
        /// Number of the node
        #[arg(value_name = "NODE")]
        number: u32,
    },
    /// Copy the data of a node, running or stopped, verify the copy, and register it with the cluster. Once two
    /// machines have a snapshot, `trim` may delete the part of the log that both contain
    Snapshot {
        #[command(flatten)]
        data: DataArguments,
        /// The new folder for the snapshot
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Replace the data of a stopped node with a copy of another node's. The node keeps its identity
    Reseed {
        #[command(flatten)]
        data: DataArguments,
        #[command(flatten)]
        source: CopySource,
    },
    /// Start a new generation on all nodes with the data of a directory outside the cluster, such as an import. Both
    /// that directory and this node must be stopped; the other nodes stop and need `pando cluster reseed`
    Generation {
        #[command(flatten)]
        data: DataArguments,
        /// The data directory with the new data
        #[arg(value_name = "DIR", required_unless_present = "finish", conflicts_with = "finish")]
        folder: Option<PathBuf>,
        /// Complete an interrupted run of this command
        #[arg(long)]
        finish: bool,
    },
    /// Rotate the key of the cluster: all nodes receive the new key, which replaces the old one once most nodes have
    /// it. The node must be running
    RotateKey {
        #[command(flatten)]
        data: DataArguments,
    },
    /// Fetch the keys of the cluster from another node, if this node has missed them
    FetchKeys {
        #[command(flatten)]
        data: DataArguments,
        /// Address of the other node (its `cluster.listen` or `cluster.address`)
        #[arg(long, value_name = "HOST:PORT")]
        keys_from: String,
        /// Number of the node
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        number_there: u32,
    },
    /// Delete the part of the log that all nodes and two snapshots contain
    Trim {
        #[command(flatten)]
        data: DataArguments,
        /// Only show what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

/// Node whose data is copied.
#[derive(Debug, Args)]
struct CopySource {
    /// Data directory of another node, running or stopped, or a copy made by `pando cluster copy`
    #[arg(long, value_name = "DIR", required_unless_present = "copy_from", conflicts_with = "copy_from")]
    copy_of: Option<PathBuf>,
    /// Copy a running node at this address (its `cluster.listen` or `cluster.address`)
    #[arg(long, value_name = "HOST:PORT")]
    copy_from: Option<String>,
    /// Number of the node
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "copy_from")]
    number_there: u32,
}

impl CopySource {
    /// Calls `of_folder` if the arguments name a directory, or `from_node` if they name a node.
    fn copy<T>(&self, of_folder: impl FnOnce(&Path) -> T, from_node: impl FnOnce(&str, u32) -> T) -> T {
        match &self.copy_of {
            Some(folder) => of_folder(folder),
            None => from_node(self.copy_from.as_deref().unwrap_or_default(), self.number_there),
        }
    }
}

pub(crate) fn run(arguments: &ClusterArguments) -> ExitCode {
    use ClusterVerb as Verb;
    let done = match &arguments.verb {
        Verb::Init { data, replicas } => load(data).and_then(|config| init(config, *replicas)),
        Verb::Invite { data, output, may_invite } => return invite(data, output, *may_invite),
        Verb::Renew { data, number: Some(node), output: Some(output), .. } => {
            return renew_other(data, *node, output);
        }
        Verb::Renew { data, take, .. } => load(data).and_then(|config| renew(&config, take.as_deref())),
        Verb::Copy { data, folder } => load(data).and_then(|config| copy(&config, folder)),
        Verb::Join { data, invitation, source } => {
            load(data).and_then(|config| join(&config, invitation, source))
        }
        Verb::Status { data, server } => {
            return exit::finish(status(data, server));
        }
        Verb::Reseed { data, source } => load(data).and_then(|config| reseed(&config, source)),
        Verb::Generation { data, folder, .. } => {
            load(data).and_then(|config| begin_generation(&config, folder.as_deref()))
        }
        Verb::RotateKey { data } => load(data).and_then(|config| {
            let number = server::rotate_key(&config)?;
            let text =
                format!("key {number} of the cluster is in force; messages under another count no longer");
            Ok(Report::done(json!({ "key": number }), text))
        }),
        Verb::FetchKeys { data, keys_from, number_there } => load(data).and_then(|config| {
            let count = server::fetch_keys(&config, keys_from, *number_there)?;
            let text = format!("this node has the {count} keys that node {number_there} gives");
            Ok(Report::done(json!({ "keys": count, "of_node": number_there }), text))
        }),
        Verb::Unregister { data, number } => load(data).and_then(|config| {
            let offset = server::unregister_node(&config, *number)?;
            let text = format!(
                "node {number} is unregistered from offset {offset} of the log on: other nodes reject it"
            );
            Ok(Report::done(json!({ "node": number, "offset": offset }), text))
        }),
        Verb::Snapshot { data, folder } => load(data).and_then(|config| snapshot(&config, folder)),
        Verb::Trim { data, dry_run } => load(data).and_then(|config| trim(&config, *dry_run)),
        Verb::Leave { data, untold } => load(data).and_then(|config| {
            server::leave_cluster(config, !untold)?;
            let text = "the data directory is no node any longer; take [cluster] out of its node file";
            Ok(Report::done(json!({ "left": true }), text))
        }),
    };
    match done {
        Ok(report) => exit::finish(Ok(report)),
        Err(error) => exit::failed(&error),
    }
}

fn load(data: &DataArguments) -> Result<Config, ServeError> {
    Ok(Config::load(&data.to_server())?)
}

fn init(config: Config, replicas: usize) -> Result<Report, ServeError> {
    let admin_dn = config.admin_dn.to_string();
    let initialized = server::init_cluster(config, replicas)?;
    let mut text = String::new();
    if initialized.has_created_topic {
        text += "the topic is created\n";
    }
    if let Some(password) = &initialized.generated_password {
        text += &format!("the password of {admin_dn} is {password}; it is not shown again\n");
    }
    text += &format!(
        "node 1 of a new cluster is made, with the data up to position {}; its identity is in {}: a secret\n",
        initialized.position,
        initialized.keys.display()
    );
    let object = json!({
        "node": 1, "position": initialized.position, "keys": initialized.keys,
        "created_topic": initialized.has_created_topic,
        "admin_dn": admin_dn, "admin_password": initialized.generated_password,
    });
    Ok(Report::result(object, text))
}

fn invite(data: &DataArguments, output: &Path, may_invite: bool) -> ExitCode {
    match load(data).and_then(|config| server::invite_node(&config, may_invite)) {
        Ok((text, node)) => write_secret(&text, output, (&format!("makes node {node}"), u64::from(node))),
        Err(error) => exit::failed(&error),
    }
}

/// Writes a new certificate for another node.
fn renew_other(data: &DataArguments, node: u32, output: &Path) -> ExitCode {
    match load(data).and_then(|config| server::renew_certificate(&config, node)) {
        Ok(text) => {
            let what = format!("has a new certificate: `pando cluster renew --take` on node {node} takes it");
            write_secret(&text, output, (&what, u64::from(node)))
        }
        Err(error) => exit::failed(&error),
    }
}

fn renew(config: &Config, take: Option<&Path>) -> Result<Report, ServeError> {
    let node = server::take_certificate(config, take)?;
    let text = format!("node {node} has a new certificate, from its next start on");
    Ok(Report::done(json!({ "node": node }), text))
}

fn copy(config: &Config, folder: &Path) -> Result<Report, ServeError> {
    server::copy_of_node(config, folder)?;
    let text =
        format!("{} has the data of the node at this moment; it is as secret as that", folder.display());
    Ok(Report::done(json!({ "folder": folder.to_string_lossy() }), text))
}

fn join(config: &Config, invitation: &Path, source: &CopySource) -> Result<Report, ServeError> {
    let node = source.copy(
        |folder| server::join_cluster(config, invitation, folder),
        |address, there| server::join_from(config, invitation, address, there),
    )?;
    let text = format!("node {node} is made: start it with `pando serve`, and remove the invitation");
    Ok(Report::done(json!({ "node": node }), text))
}

fn reseed(config: &Config, source: &CopySource) -> Result<Report, ServeError> {
    let node = source.copy(
        |folder| server::reseed_node(config, folder),
        |address, there| server::reseed_from(config, address, there),
    )?;
    let from = source.copy(|folder| folder.display().to_string(), |_, there| format!("node {there}"));
    let text = format!("node {node} has the data of {from}: start it with `pando serve`");
    Ok(Report::done(json!({ "node": node, "source": from }), text))
}

/// Begins a new generation with the data of `folder`. If `folder` is `None`, completes an interrupted run.
fn begin_generation(config: &Config, folder: Option<&Path>) -> Result<Report, ServeError> {
    let position = match folder {
        Some(folder) => server::begin_generation(config, folder)?,
        None => server::finish_generation(config)?,
    };
    let text = format!(
        "a new generation begins at position {position}, with the data that this node has now; the other nodes stop \
         until `pando cluster reseed` gives them a copy of it"
    );
    Ok(Report::done(json!({ "position": position }), text))
}

fn snapshot(config: &Config, folder: &Path) -> Result<Report, ServeError> {
    let outcome = server::keep_snapshot(config, folder)?;
    let (place, entries, offset) = (folder.display(), outcome.entries, outcome.offset);
    let text = format!("{place} has all {entries} entries, up to offset {offset} of the log; keep it here");
    let object = json!({ "folder": folder.to_string_lossy(), "entries": entries, "offset": offset });
    Ok(Report::done(object, text))
}

fn trim(config: &Config, is_rehearsal: bool) -> Result<Report, ServeError> {
    let trimmed = server::trim_log(config, is_rehearsal)?;
    let (count, start) = (trimmed.start.saturating_sub(trimmed.before), trimmed.start);
    let what = if is_rehearsal { "would be deleted" } else { "are deleted" };
    let text = format!("{count} messages {what}; the log begins at offset {start}");
    Ok(Report::done(json!({ "messages": count, "start": start, "deleted": !is_rehearsal }), text))
}

/// Writes a file that only its owner can read.
fn write_secret(text: &str, output: &Path, (what, node): (&str, u64)) -> ExitCode {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(output);
    match opened.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all())) {
        Ok(()) => {
            let text = format!("{} {what}; it is a secret", output.display());
            let object = json!({ "file": output.to_string_lossy(), "node": node });
            exit::finish(Ok(Report::done(object, text)))
        }
        Err(error) => exit::not_written(output.display(), &error),
    }
}

fn status(data: &DataArguments, server: &ServerArguments) -> Result<Report, String> {
    let directory = data.directory();
    let url = server.server(directory.as_deref()).or_else(|| directory.as_deref().map(socket_in));
    let url = url.ok_or("say which server: --data DIR or --url URL")?;
    let mut connection = server.connect(&url).map_err(|error| error.to_string())?;
    let wanted = ["cn", "monitoredInfo", "monitorCounter", "monitorTimestamp"];
    let reply = connection.search("cn=Cluster,cn=monitor", Scope::SingleLevel, "(objectClass=*)", &wanted);
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.entries.is_empty() {
        return Err(
            "this server is no node of a cluster, or does not show cn=monitor to this requester".to_owned()
        );
    }
    let (mut text, mut object) = (String::new(), Map::new());
    for entry in &reply.entries {
        let value = wanted.iter().skip(1).flat_map(|name| entry.texts(name)).collect::<Vec<_>>().join(", ");
        let name = entry.texts("cn").join(" ");
        text += &format!("{name:<18} {value}\n");
        object.insert(name, Value::String(value));
    }
    Ok(Report::result(Value::Object(object), text))
}
