//! Replicated servers of one product on this machine: slapd with two consumers, and two replicas of OpenDJ.
//!
//! The first server accepts the changes. It is loaded by its bulk loader. The other servers begin with a copy of its
//! database folder. Both vendors document this method of setting up a replica. All servers have the settings of a
//! comparison ([`OpenLdap`], [`OpenDj`]), including durability, and the vendor's default settings for replication. They
//! share the machine's memory.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Connection, Entry};
use ldap::Scope;

use super::{
    Amendments, BulkLoad, Data, OpenDj, OpenLdap, Peer, PeerError, Server, Setup, SyncreplRole, process,
};

/// Interval between comparisons of the servers' states.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Form in which servers report which changes they have received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// In contextCSN of the suffix entry (slapo-syncprov(5)).
    ContextCsn,
    /// In `server-state` of OpenDJ's monitor. For each replica, the attribute contains a change number. The server has
    /// all changes of that replica up to this number.
    ServerState,
}

/// A running group of replicated servers.
pub struct Replicas {
    product: String,
    promise: &'static str,
    settings: Vec<(String, String)>,
    members: Vec<(String, Server)>,
    setup: Setup,
    load: BulkLoad,
    progress: Progress,
}

impl Replicas {
    /// Starts slapd as provider, and two consumers that receive its changes (refreshAndPersist).
    ///
    /// # Errors
    /// slapd is not installed, or one of the three servers cannot be loaded or started.
    pub fn openldap(folder: &Path, setup: &Setup, data: &Data) -> Result<Replicas, PeerError> {
        let mut setup = setup.clone();
        for attribute in ["entryCSN", "entryUUID"] {
            setup.indexes.extend(attribute.parse());
        }
        let configured = |name: &str, role| {
            let amendments = Amendments { syncrepl: Some(role), ..Amendments::default() };
            OpenLdap::amended(&folder.join(name), &setup, &amendments)
        };
        let mut provider = configured("provider", SyncreplRole::Provider)?;
        let load = provider.bulk_load(data)?;
        let copies = ["consumer-1", "consumer-2"];
        for name in copies {
            // The copy is made before the provider runs and writes to its database.
            copy_database(&provider.database(), &folder.join(name).join("data"), &setup)?;
        }
        let server = provider.start()?;
        let role = SyncreplRole::Consumer(server.address());
        let mut settings = labelled("all three", &setup, provider.settings());
        // Replication is the only setting that differs between the servers, so it is listed separately.
        settings.retain(|(name, _)| !name.ends_with(": replication"));
        let role_setting =
            |who: &str, role: SyncreplRole| (format!("{who}: replication"), role.words().to_owned());
        settings.extend([role_setting("provider", SyncreplRole::Provider), role_setting("consumers", role)]);
        let mut members = vec![("slapd provider".to_owned(), server)];
        for name in copies {
            members.push((format!("slapd {name}"), configured(name, role)?.start()?));
        }
        Ok(Replicas {
            product: provider.product().to_owned(),
            promise: "slapd answers when the provider has committed the change to its own disk. Consumers get it \
                      afterwards: no consumer is waited for (slapo-syncprov(5), slapd.conf(5)), so what was \
                      answered can be lost with the provider's disk.",
            settings,
            members,
            setup,
            load,
            progress: Progress::ContextCsn,
        })
    }

    /// Starts two OpenDJ servers, each of which is a directory server and a replication server, as configured by
    /// `dsreplication enable`.
    ///
    /// # Errors
    /// `pristine` contains no OpenDJ, or one of the two servers cannot be loaded, started or replicated.
    pub fn opendj(pristine: &Path, folder: &Path, setup: &Setup, data: &Data) -> Result<Replicas, PeerError> {
        // The heap of a server is a share of the memory in its setup. Two servers share the machine's memory.
        let setup = Setup { memory_bytes: setup.memory_bytes / 2, ..setup.clone() };
        let mut first = OpenDj::configure(pristine, &folder.join("replica-1"), &setup)?;
        let mut second = OpenDj::configure(pristine, &folder.join("replica-2"), &setup)?;
        let load = first.bulk_load(data)?;
        copy_database(&first.database(), &second.database(), &setup)?;
        let servers = [("replica 1", first.start()?), ("replica 2", second.start()?)];
        first.enable_replication(&second)?;
        let mut settings = labelled("both replicas", &setup, first.settings());
        let replication = "dsreplication enable: both are directory and replication server; assured replication off, \
                           its default; changelog written, and not synced, for each change";
        settings.push(("both replicas: replication".to_owned(), replication.to_owned()));
        Ok(Replicas {
            product: first.product().to_owned(),
            promise: "OpenDJ answers when the replica that was asked has committed the change to its own disk, and \
                      sends it to the other one meanwhile (its Administration Guide, chapter on replication: the \
                      client can conclude that the update was successful only on the replica that handled it). \
                      Assured replication, which waits for others, is off.",
            settings,
            members: servers.map(|(name, server)| (format!("OpenDJ {name}"), server)).into(),
            setup,
            load,
            progress: Progress::ServerState,
        })
    }

    /// Returns the product and its version.
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Describes, in a sentence or two, the guarantee that an answer to a change gives.
    pub fn promise(&self) -> &'static str {
        self.promise
    }

    /// Returns the settings of all servers. The name of a setting includes the server.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Returns the cost of loading the first server.
    pub fn load(&self) -> &BulkLoad {
        &self.load
    }

    /// Returns the names and processes of the servers. The server that accepts changes is first.
    pub fn processes(&self) -> impl Iterator<Item = (&str, &Server)> {
        self.members.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Waits until all servers have the same changes. Returns how long that took, or `None` if it takes longer than
    /// `time`.
    ///
    /// # Errors
    /// A server does not report its state.
    pub fn caught_up_within(&self, time: Duration) -> Result<Option<Duration>, PeerError> {
        let started = Instant::now();
        let bound =
            |(_, server): &(String, Server)| server.bound(&self.setup.admin_dn, &self.setup.admin_password);
        let mut connections = self.members.iter().map(bound).collect::<Result<Vec<_>, _>>()?;
        loop {
            let waited = started.elapsed();
            let states = connections.iter_mut().map(|connection| self.state(connection));
            let states = states.collect::<Result<Vec<_>, _>>()?;
            if states.windows(2).all(|pair| pair.first() == pair.last()) {
                return Ok(Some(waited));
            }
            if waited > time {
                return Ok(None);
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Returns a server's state, which shows the changes that the server has received.
    fn state(&self, connection: &mut Connection) -> Result<Vec<String>, PeerError> {
        let suffix = &self.setup.suffix;
        let reply = match self.progress {
            Progress::ContextCsn => {
                connection.search(suffix, Scope::BaseObject, "(objectClass=*)", &["contextCSN"])
            }
            Progress::ServerState => {
                let filter = format!("(&(cn=Directory server*)(domain-name={suffix}))");
                let base = "cn=Replication,cn=monitor";
                connection.search(base, Scope::WholeSubtree, &filter, &["server-state"])
            }
        };
        let reply =
            reply.map_err(|error| PeerError::Answer(format!("{}: its state: {error}", self.product)))?;
        let entry = reply.entries.first();
        entry.map(|entry| state_of(entry, self.progress)).ok_or_else(|| {
            PeerError::Answer(format!(
                "{} does not say which changes it has: {:?}",
                self.product, reply.outcome
            ))
        })
    }
}

/// Returns the values of the state, sorted. Dates that OpenDJ appends to a change number are removed.
fn state_of(entry: &Entry, progress: Progress) -> Vec<String> {
    let mut values = match progress {
        Progress::ContextCsn => entry.texts("contextCSN"),
        Progress::ServerState => entry.texts("server-state"),
    };
    for value in &mut values {
        value.truncate(value.find(' ').unwrap_or(value.len()));
    }
    values.sort();
    values
}

/// Returns the settings of some servers of a group, including indexes.
fn labelled(who: &str, setup: &Setup, settings: Vec<(String, String)>) -> Vec<(String, String)> {
    let indexes: Vec<_> = setup.indexes.iter().map(ToString::to_string).collect();
    let settings = settings.into_iter().chain([("indexes".to_owned(), indexes.join(" "))]);
    settings.map(|(name, value)| (format!("{who}: {name}"), value)).collect()
}

/// Replaces the database of a stopped server by a copy of another stopped server's database. Holes are not copied,
/// because most of slapd's file is a hole.
fn copy_database(from: &Path, to: &Path, setup: &Setup) -> Result<(), PeerError> {
    if to.exists() {
        std::fs::remove_dir_all(to).map_err(PeerError::io("remove", to))?;
    }
    let folder = to.parent().unwrap_or(to);
    super::make_folder(folder)?;
    let mut command = Command::new("cp");
    command.args(["-r", "--sparse=always"]).args([from, to]);
    process::run(&command, &folder.join("copy.log"), process::data_time_max(setup.ldif_bytes)).map(drop)
}

#[cfg(test)]
mod tests {
    use client::Attribute;

    use super::*;

    #[test]
    fn states_are_equal_if_replicas_have_the_same_changes() {
        let entry = |description: &str, values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            let attributes = vec![Attribute { description: description.to_owned(), values }];
            Entry { dn: String::new(), attributes }
        };
        let one = entry("server-state", &["02b Tue 1795545613803", "01a Tue Nov 24 18:40:13 UTC 2026"]);
        let other = entry("server-state", &["01a Tue Nov 24 18:40:13 CET 2026", "02b Wed 1"]);
        assert_eq!(state_of(&one, Progress::ServerState), ["01a", "02b"]);
        assert_eq!(state_of(&one, Progress::ServerState), state_of(&other, Progress::ServerState));
        let csn = entry("contextCSN", &["20261124184013.803812Z#000000#000#000000"]);
        assert_eq!(state_of(&csn, Progress::ContextCsn), ["20261124184013.803812Z#000000#000#000000"]);
        assert!(state_of(&csn, Progress::ServerState).is_empty());
    }
}
