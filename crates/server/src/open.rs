//! Opening of a data directory, and the start of the parts that serve it.
//!
//! A process may run several servers at once, as tests do. Therefore the servers have no global state.

mod clock;
mod cluster;
mod console;
mod event_loops;
mod handle;
mod metrics;
mod replica;
mod scim;
mod server;
mod settings;
mod shared;
mod writer;

use std::sync::Arc;
use std::time::Instant;

use directory::replica::ReplicationRole;
use directory::{Directory, NodeSettings, OpenOptions, Writer, password};

use self::console::ConsoleListener;
use self::event_loops::{EventLoops, Listening};
pub use self::handle::{Handle, Reloaded};
use self::metrics::MetricsListener;
use self::replica::Part;
pub(crate) use self::replica::copy_supplier;
pub use self::server::Server;
use self::settings::initial_settings;
pub use self::settings::{hash_password, load_schema, node_settings};
use crate::config::{Config, FollowSettings, Secret};
use crate::error::ServeError;
use crate::monitor::{Monitor, Sources, named_listeners};
use crate::net::listener::BoundPorts;
use crate::session::context::Shared;
use crate::stamp::{Random, new_stamp, readable_password};
use crate::telemetry::health::Health;
use crate::telemetry::readiness::Readiness;
use crate::workers::follow::FollowFigures;
use crate::workers::index_sizes::MeasuredIndexes;
use crate::workers::readiness::{self, Probed};
use crate::workers::service::Services;
use crate::workers::{audit, backups, certificate_watch, follow, index_sizes, logins, traces, warm_up};

/// A data directory that is open but not served yet.
pub struct Opened {
    config: Config,
    directory: Arc<Directory>,
    writer: Writer,
    monitor: Arc<Monitor>,
    health: Arc<Health>,
    random: Random,
    generated_password: Option<String>,
    bound_ports: BoundPorts,
}

impl Opened {
    /// Opens the data directory. Creates it if it does not exist.
    ///
    /// If the settings contain a clear administrator password, it is hashed. If the data directory has no administrator
    /// password and receives no changes from a log, a password is generated, which
    /// [`generated_password`](Opened::generated_password) returns.
    ///
    /// # Errors
    /// The schema files, the settings or the data directory cannot be used, or the directory belongs to a replica or a
    /// cluster node, and the settings do not.
    pub fn open(config: Config) -> Result<Opened, ServeError> {
        let is_clustered = config.cluster.is_some();
        let part = replica::part(&config)?;
        let follows_log = is_clustered || part != Part::Alone;
        let mut opened = Opened::open_to(config, follows_log, part == Part::Replica)?;
        if follows_log {
            // The administrator's password is in the log, and only the writer may append to the log.
            return Ok(opened);
        }
        match opened.directory.replication_role()? {
            ReplicationRole::Replica => return Err(ServeError::IsReplica { path: opened.config.data }),
            // The administrator's password came from the log of the former writer.
            ReplicationRole::Replaced { .. } => return Ok(opened),
            ReplicationRole::Writer | ReplicationRole::Promoted { .. } => {}
        }
        if !opened.directory.log_rows()?.is_empty() {
            return Err(ServeError::IsNode { path: opened.config.data });
        }
        if !opened.directory.has_administrator_password() {
            opened.generate_password()?;
        }
        Ok(opened)
    }

    /// Opens an existing data directory without changing it. Ignores the suffixes in the settings.
    pub(crate) fn open_for_reading(mut config: Config) -> Result<Opened, ServeError> {
        // A suffix that is new to the directory would be stored in it.
        config.suffixes.clear();
        Opened::open_as_is(config)
    }

    pub(crate) fn open_as_is(config: Config) -> Result<Opened, ServeError> {
        Opened::open_to(config, false, false)
    }

    /// Opens the data directory. `follows_log` must be true for a cluster node and for a replica, because they receive
    /// changes from a log. If `becomes_replica` is true, the directory becomes a replica.
    pub(crate) fn open_to(
        config: Config,
        follows_log: bool,
        becomes_replica: bool,
    ) -> Result<Opened, ServeError> {
        let mut random = Random::default();
        let monitor = Arc::new(Monitor::new());
        let health = Arc::new(Health::default());
        let observer = Some(Arc::clone(&health) as Arc<dyn store::Observer>);
        let options = OpenOptions {
            initial: initial_settings(&config),
            suffixes: config.suffixes.iter().map(|suffix| suffix.as_str().to_owned()).collect(),
            node: NodeSettings { admin_password: None, ..node_settings(&config) },
            monitor: Arc::clone(&monitor) as Arc<dyn directory::virtual_entries::MonitorSource>,
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            store: store::Options { observer, ..store::Options::default() },
            stamp: new_stamp(&mut random)?,
            follows_log,
            becomes_replica,
        };
        let opened = Directory::open(&config.data, options);
        let (directory, writer) =
            opened.map_err(|error| ServeError::Open { path: config.data.clone(), error })?;
        for file in directory.set_aside() {
            tracing::warn!(file = %file.display(), "a redo log of other data was in the data directory, and is set \
                                                    aside");
        }
        if let Some(Secret(clear)) = &config.admin_password {
            // The directory's password scheme is known only now that the directory is open.
            let stored =
                password::hash(directory.settings().general.password_scheme, clear, &random.bytes()?);
            let node = NodeSettings { admin_password: Some(stored), ..node_settings(&config) };
            let set = directory.set_node_settings(node);
            set.map_err(|error| ServeError::Open { path: config.data.clone(), error })?;
        }
        let (generated_password, bound_ports) = Default::default();
        Ok(Opened { config, directory, writer, monitor, health, random, generated_password, bound_ports })
    }

    /// Sets the sockets that are already bound. The server will listen on them.
    pub(crate) fn with_ports(mut self, bound_ports: BoundPorts) -> Opened {
        self.bound_ports = bound_ports;
        self
    }

    /// Returns the administrator's password if this start generated one. The caller must show it to the administrator,
    /// because only a hash of it is stored.
    pub fn generated_password(&self) -> Option<&str> {
        self.generated_password.as_deref()
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn writer(&mut self) -> (&mut Writer, &mut Random) {
        (&mut self.writer, &mut self.random)
    }

    fn generate_password(&mut self) -> Result<(), ServeError> {
        let clear = readable_password(&self.random.bytes()?);
        let scheme = self.directory.settings().general.password_scheme;
        let stored = password::hash(scheme, clear.as_bytes(), &self.random.bytes()?);
        let stamp = new_stamp(&mut self.random)?;
        self.writer.set_administrator_password(stored, &stamp)?;
        self.generated_password = Some(clear);
        Ok(())
    }

    /// Starts to listen and to serve.
    ///
    /// First opens everything that can fail because of wrong settings. Then starts the services, each one after the
    /// services that it uses. The event loops are started last.
    ///
    /// # Errors
    /// A part of the server cannot be opened or started, for example because an address is in use. The parts that were
    /// already started are stopped.
    pub fn start(self) -> Result<Server, ServeError> {
        let Opened { config, directory, writer, monitor, health, bound_ports, .. } = self;
        clock::warn_of_late_clock(&directory);
        let certificates = Arc::new(certificate_watch::open(&config)?);
        let listening = Listening::open(&config, bound_ports)?;
        let trail = audit::open(&config.audit, &config.data, &directory)?;
        let feed = trail.as_ref().map(|(_, feed)| Arc::clone(feed));
        let shared = shared::start(
            &config,
            &directory,
            Arc::clone(&health),
            Arc::clone(&certificates),
            feed,
            &listening,
        )?;
        let node = cluster::open(&config, &shared)?;
        let metrics = (config.metrics.as_ref())
            .map(|settings| MetricsListener::open(settings, &monitor, &certificates))
            .transpose()?;
        let console = (config.console.as_ref())
            .map(|settings| {
                let way = (listening.control(), shared.reset_mails.clone());
                ConsoleListener::open((settings, config.scim.as_ref()), way, &certificates)
            })
            .transpose()?;
        let backup = config.backup.as_ref().map(|settings| (settings, Arc::default()));
        let follow: Vec<(&FollowSettings, Arc<FollowFigures>)> =
            config.follow.iter().map(|settings| (settings, Arc::default())).collect();
        let replica = replica::parts(&config, &shared);
        let (urls, addresses) = listening.addresses();
        let readiness =
            (metrics.as_ref()).map(|_| Arc::new(Readiness::new(listening.mailboxes.len(), Instant::now())));
        let index_sizes: Arc<MeasuredIndexes> = Arc::default();
        let sources = Sources {
            index_sizes: Arc::clone(&index_sizes),
            #[cfg(feature = "kafka")]
            cluster: node.as_ref().map(cluster::Node::figures),
            backup: backup.as_ref().map(|(_, figures)| Arc::clone(figures)),
            readiness: readiness.clone(),
            follow: follow.iter().map(|(of, figures)| (of.name(), Arc::clone(figures))).collect(),
            replica: replica.as_ref().map(|replica| Arc::clone(&replica.figures)),
            listener_names: named_listeners(&config.online, config.listen.len()),
            ..sources(&shared, &listening)
        };
        monitor.attach(sources);

        let mut services = Services::default();
        if let Some((trail, feed)) = trail {
            services.add(audit::start(trail, &feed, &directory)?);
        }
        if let (Some(settings), Some(feed)) = (&config.traces, &shared.traces) {
            services.add(traces::start(settings, feed)?);
        }
        services.add(writer::start(writer, (node, replica), &config, &shared, listening.control())?);
        services.add(certificate_watch::start(&certificates)?);
        services.add(index_sizes::start(&index_sizes, &directory)?);
        if let Some(readiness) = readiness {
            services.add(readiness::start(probed(readiness, &shared, &listening))?);
        }
        if let Some(metrics) = metrics {
            services.add(metrics.start()?);
        }
        if let Some(console) = console {
            services.add(console.start()?);
        }
        if let Some((settings, figures)) = backup {
            services.add(backups::start(settings, &directory, figures)?);
        }
        if config.warm_up_bytes > 0 {
            services.add(warm_up::start(&directory, config.warm_up_bytes)?);
        }
        for (settings, figures) in follow {
            services.add(follow::start(settings, &directory, &shared.writes, figures)?);
        }
        services.add(logins::start(&shared.logins, &shared.writes, &directory)?);
        let online = config.online.clone();
        let handle = Handle::new(config, &listening, &shared);
        let loops = EventLoops::start(listening, &shared, online)?;
        Ok(Server { handle, urls, addresses, health, loops, services })
    }
}

/// Returns the parts of the server that the readiness thread probes for the page `/ready`.
fn probed(readiness: Arc<Readiness>, shared: &Shared, listening: &Listening) -> Probed {
    Probed {
        readiness,
        mailboxes: Arc::clone(&listening.mailboxes),
        health: Arc::clone(&shared.health),
        directory: Arc::clone(&shared.directory),
    }
}

/// Returns the sources of the monitor that exist in every server.
fn sources(shared: &Shared, listening: &Listening) -> Sources {
    Sources {
        #[cfg(feature = "kafka")]
        cluster: None,
        backup: None,
        readiness: None,
        follow: Vec::new(),
        replica: None,
        generation: shared.generation,
        counters: Arc::clone(&listening.counters),
        usage: Arc::clone(&shared.usage),
        listener_names: Vec::new(),
        acceptor: listening.control(),
        writes: Arc::clone(&shared.writes),
        scans: shared.scan_pool.figures(),
        mails: shared.reset_mails.as_ref().map(|mails| mails.figures()),
        slow: Arc::clone(&shared.slow),
        scan_shares: Arc::clone(&shared.scan_shares),
        index_advice: Arc::clone(&shared.index_advice),
        index_sizes: Arc::default(),
        hashes: shared.hash_pool.figures(),
        read_ahead: shared.read_ahead.figures(),
        request_memory: Arc::clone(&shared.request_memory),
        listening: Arc::clone(&shared.listening),
        health: Arc::clone(&shared.health),
        certificates: Arc::clone(&shared.certificates),
        read_age: shared.read_age.clone(),
        log_reader: Arc::clone(&shared.log_reader),
        directory: Arc::downgrade(&shared.directory),
        audit: shared.audit.clone(),
        traces: shared.traces.clone(),
    }
}
