//! Opening a data directory, and starting and stopping the threads that serve it.
//!
//! There is no global state: a process may run several servers, and tests do.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::{Directory, DirectorySettings, NodeSettings, OpenOptions, Stamp, Writer, password};
use ldap::ServerUrl;
use mio::{Poll, Waker};
use schema::{Schema, SchemaBuilder};

#[cfg(feature = "kafka")]
use crate::cluster_host;
use crate::config::metrics::MetricsSettings;
use crate::config::{Config, ConfigError, PassThroughSettings, Secret};
use crate::error::ServeError;
use crate::event_loop::{self, EventLoop, EventLoopError};
use crate::kerberos::KerberosExchanges;
use crate::limits::{
    CLUSTER_LOGINS_MAX, HTTP_CONNECTION_TIME, LOGINS_MAX, RELOAD_PATIENCE, ROW_CACHE_WRITER_DIVISOR,
};
use crate::monitor::{Monitor, Sources};
use crate::net::acceptor::{Acceptor, AcceptorControl};
use crate::net::arrivals::Arrivals;
use crate::net::certificate::{AuthorityFile, Certificates, TlsError, own_hosts};
use crate::net::http;
use crate::net::listener::{BoundPorts, listen_for_requests};
use crate::net::listening_places::ListeningPlaces;
use crate::net::mailbox::{LoopMessage, Mailbox};
use crate::net::request_memory::RequestMemory;
use crate::net::stream::RefusedProxies;
use crate::session::context::{Context, Shared};
use crate::stamp::{Random, now_micros, now_seconds, readable_password};
use crate::telemetry::counters::Counters;
use crate::telemetry::health::Health;
use crate::workers::audit;
use crate::workers::audit_feed::AuditFeed;
use crate::workers::backups::{self, BackupFigures};
use crate::workers::bad_passwords::BadPasswords;
use crate::workers::certificate_watch;
use crate::workers::delays::Delays;
use crate::workers::hash_pool::HashPool;
use crate::workers::logins::{self, Logins};
use crate::workers::pass_through::{PassThrough, StartError};
use crate::workers::read_age::ReadAge;
use crate::workers::read_ahead::ReadAheadPool;
use crate::workers::scan_pool::ScanPool;
use crate::workers::trail_reader::TrailReader;
use crate::workers::warm_up;
use crate::workers::writer::{self, WriteQueue};
#[cfg(feature = "kafka")]
use cluster::Cluster;

/// An open data directory that is not served yet.
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
    /// Opens, or creates, the data directory.
    ///
    /// A clear administrator password of the settings is hashed here. Without one, on the very first start, one is
    /// generated and kept: see [`generated_password`](Opened::generated_password).
    ///
    /// # Errors
    /// Schema files, settings or the data directory are not usable.
    pub fn open(config: Config) -> Result<Opened, ServeError> {
        let is_clustered = config.cluster.is_some();
        let mut opened = Opened::open_to(config, is_clustered)?;
        if is_clustered {
            // The password comes from the cluster, and only the cluster's log may write.
            return Ok(opened);
        }
        if !opened.directory.log_rows()?.is_empty() {
            return Err(ServeError::IsNode { path: opened.config.data });
        }
        if !opened.directory.has_administrator_password() {
            opened.generate_password()?;
        }
        Ok(opened)
    }

    /// Opens a data directory that exists, without changing it.
    pub(crate) fn open_for_reading(mut config: Config) -> Result<Opened, ServeError> {
        // A new suffix would be written to the directory.
        config.suffixes.clear();
        Opened::open_as_is(config)
    }

    pub(crate) fn open_as_is(config: Config) -> Result<Opened, ServeError> {
        Opened::open_to(config, false)
    }

    /// Opens the data directory, as a node that follows the cluster's log or not.
    pub(crate) fn open_to(config: Config, follows_log: bool) -> Result<Opened, ServeError> {
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
        };
        let opened = Directory::open(&config.data, options);
        let (directory, writer) =
            opened.map_err(|error| ServeError::Open { path: config.data.clone(), error })?;
        for file in directory.set_aside() {
            tracing::warn!(file = %file.display(), "a redo log of other data was in the data directory, and is set \
                                                    aside");
        }
        if let Some(Secret(clear)) = &config.admin_password {
            // The password scheme of the directory is known only now.
            let stored =
                password::hash(directory.settings().general.password_scheme, clear, &random.bytes()?);
            let node = NodeSettings { admin_password: Some(stored), ..node_settings(&config) };
            let set = directory.set_node_settings(node);
            set.map_err(|error| ServeError::Open { path: config.data.clone(), error })?;
        }
        let (generated_password, bound_ports) = Default::default();
        Ok(Opened { config, directory, writer, monitor, health, random, generated_password, bound_ports })
    }

    /// Sets sockets that are already bound, to listen with.
    pub(crate) fn with_ports(mut self, bound_ports: BoundPorts) -> Opened {
        self.bound_ports = bound_ports;
        self
    }

    /// Returns the administrator's password, if this start generated one. Show it once: only a hash is stored.
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

    /// Listens and starts to serve.
    ///
    /// # Errors
    /// An address cannot be listened on, or the system cannot start a thread.
    pub fn start(self) -> Result<Server, ServeError> {
        let threads = self.config.threads.clamp(1, usize::from(u16::MAX));
        let mut polls = Vec::with_capacity(threads);
        let mut mailboxes = Vec::with_capacity(threads);
        for _ in 0..threads {
            let poll = Poll::new()?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), event_loop::WAKER)?));
            polls.push(poll);
        }
        let mailboxes: Arc<[Mailbox]> = mailboxes.into();
        let counters: Arc<[Arc<Counters>]> = (0..threads).map(|_| Arc::default()).collect();
        let certificates = Arc::new(open_certificates(&self.config)?);
        let lists = &self.config.bad_passwords;
        let bad_passwords = BadPasswords::open(lists.words.as_deref(), lists.breached.as_deref())?;
        let acceptor = Acceptor::listen(
            &self.config.listen,
            &self.config.data,
            (self.config.online.connections_max, self.bound_ports),
            Arc::clone(&mailboxes),
            Arc::clone(&counters),
        )?;
        let (urls, addresses) = acceptor.addresses();
        let writer_cache_bytes = self.config.row_cache_bytes / ROW_CACHE_WRITER_DIVISOR;
        let data = &self.config.data;
        let trail = audit::open(&self.config.audit, data, &self.directory)?;
        let feed = trail.as_ref().map(|_| Arc::new(AuditFeed::new(self.config.audit.clone())));
        let generation = generation(&self.directory)?;
        let read_age = self.config.cluster.as_ref().and_then(|cluster| cluster.read_age);
        let logins_max = if self.config.cluster.is_some() { CLUSTER_LOGINS_MAX } else { LOGINS_MAX };
        let shared = Arc::new(Shared {
            directory: Arc::clone(&self.directory),
            writes: Arc::new(WriteQueue::new(Arc::clone(&mailboxes)).audited(feed.clone())),
            logins: Arc::new(Logins::new(logins_max)),
            read_age: read_age.map(|max| Arc::new(ReadAge::new(max, Instant::now()))),
            pass_through: match &self.config.pass_through {
                Some(settings) => Some(start_pass_through(settings, &mailboxes)?),
                None => None,
            },
            hash_pool: HashPool::start(self.config.hash_threads, bad_passwords, Arc::clone(&mailboxes))?,
            kerberos: KerberosExchanges::default(),
            guesses: Arc::default(),
            delays: Delays::start(Arc::clone(&mailboxes))?,
            scan_pool: ScanPool::start(self.config.scan_threads, &self.directory, &mailboxes)?,
            read_ahead: ReadAheadPool::new(self.config.read_ahead_threads, &self.directory, &mailboxes),
            request_memory: Arc::new(RequestMemory::new(
                self.config.request_memory_bytes,
                self.config.online.message_size_max,
            )),
            listening: Arc::default(),
            arrivals: Arrivals::new(acceptor.control(), Arc::clone(&counters)),
            proxies: RefusedProxies::default(),
            health: Arc::clone(&self.health),
            certificates: Arc::clone(&certificates),
            row_cache_bytes: (self.config.row_cache_bytes - writer_cache_bytes) / threads,
            trail_reader: match &self.config.audit.folder {
                Some(folder) => Some(TrailReader::start(folder, &mailboxes)?),
                None => None,
            },
            audit: feed.clone(),
            generation,
        });
        #[cfg(feature = "kafka")]
        let cluster = match &self.config.cluster {
            Some(settings) => {
                let age = shared.read_age.clone();
                Some(cluster_host::open(settings, &self.config.data, &self.directory, &shared.writes, age)?)
            }
            None => None,
        };
        #[cfg(not(feature = "kafka"))]
        if self.config.cluster.is_some() {
            return Err(ServeError::NoKafka);
        }
        let metrics = match &self.config.metrics {
            Some(settings) => Some(open_metrics(settings, &self.monitor, &certificates)?),
            None => None,
        };
        let backup = self.config.backup.clone().map(|settings| (settings, Arc::<BackupFigures>::default()));
        shared.listening.set_count_max(self.config.online.persistent_searches.count_max);
        self.monitor.attach(Sources {
            #[cfg(feature = "kafka")]
            cluster: cluster.as_ref().map(Cluster::figures),
            generation,
            counters: Arc::clone(&counters),
            acceptor: acceptor.control(),
            writes: Arc::clone(&shared.writes),
            scans: shared.scan_pool.figures(),
            hashes: shared.hash_pool.figures(),
            read_ahead: shared.read_ahead.figures(),
            request_memory: Arc::clone(&shared.request_memory),
            listening: Arc::clone(&shared.listening),
            health: Arc::clone(&self.health),
            certificates: Arc::clone(&certificates),
            read_age: shared.read_age.clone(),
            directory: Arc::downgrade(&self.directory),
            audit: feed.clone(),
            backup: backup.as_ref().map(|(_, figures)| Arc::clone(figures)),
        });
        let warm_up_bytes = self.config.warm_up_bytes;
        let handle = Handle {
            acceptor: acceptor.control(),
            mailboxes: Arc::clone(&mailboxes),
            directory: Arc::downgrade(&self.directory),
            certificates: Arc::clone(&certificates),
            listening: Arc::clone(&shared.listening),
            config: Arc::new(Mutex::new(self.config)),
        };
        let writes = Arc::clone(&shared.writes);
        let mut writer = self.writer;
        if writer_cache_bytes > 0 {
            writer.cache_rows(writer_cache_bytes);
        }
        let (certificate_watch, stop_watch) = mpsc::channel();
        let (backup_stop, backup_end) = mpsc::channel();
        let (metrics_stop, metrics_end) = UnixStream::pair()?;
        let (login_stop, stop_logins) = mpsc::channel();
        let (logins, queue) = (Arc::clone(&shared.logins), Arc::clone(&writes));
        let directory = Arc::clone(&self.directory);
        let run = move || logins::run(&logins, &queue, &directory, &stop_logins);
        let logins = spawn("pando-logins", run)?;
        let mut server = Server {
            handle,
            urls,
            addresses,
            writes,
            health: self.health,
            loops: Vec::new(),
            others: Vec::new(),
            logins: (login_stop, logins),
            audit: None,
            is_stopping: Arc::default(),
            certificate_watch,
            backup_stop,
            metrics_stop,
        };
        if let Some((listener, rules)) = metrics {
            server.others.push(spawn("pando-metrics", move || http::run(&listener, &rules, &metrics_end))?);
        }
        if let Some((settings, figures)) = backup {
            let (directory, is_stopping) = (Arc::clone(&self.directory), Arc::clone(&server.is_stopping));
            let run = move || backups::run(&settings, &directory, &figures, &backup_end, &is_stopping);
            server.others.push(spawn("pando-backup", run)?);
        }
        let watch = move || certificate_watch::run(&certificates, &stop_watch);
        server.others.push(spawn("pando-certificates", watch)?);
        if warm_up_bytes > 0 {
            let (directory, is_stopping) = (Arc::clone(&self.directory), Arc::clone(&server.is_stopping));
            let run = move || warm_up::run(&directory, warm_up_bytes, &is_stopping);
            server.others.push(spawn("pando-warm-up", run)?);
        }
        let (queue, health) = (Arc::clone(&server.writes), Arc::clone(&server.health));
        #[cfg(not(feature = "kafka"))]
        let write = move || writer::run(writer, &queue, &health);
        #[cfg(feature = "kafka")]
        let stop = server.handle.clone();
        #[cfg(feature = "kafka")]
        let write = move || match cluster {
            Some(cluster) => cluster_host::run(cluster, writer, &queue, &health, &|| stop.stop()),
            None => writer::run(writer, &queue, &health),
        };
        server.others.push(spawn("pando-writer", write)?);
        if let (Some(trail), Some(feed)) = (trail, feed) {
            let (directory, told) = (Arc::clone(&self.directory), Arc::clone(&feed));
            let thread = spawn("pando-audit", move || audit::run(trail, &told, &directory))?;
            server.audit = Some((feed, thread));
        }
        let online = Arc::new(server.handle.lock_config().online.clone());
        let mut acceptor = Some(acceptor);
        for (index, (poll, counters)) in (0..).zip(polls.into_iter().zip(counters.iter())) {
            let (shared, counters) = (Arc::clone(&shared), Arc::clone(counters));
            let context = Context::new(index, shared, counters, Arc::clone(&online))?;
            let event_loop = EventLoop::new(poll, Arc::clone(&mailboxes), context, acceptor.take())?;
            let stop = server.handle.clone();
            let name = format!("pando-loop-{index}");
            let run = move || {
                let _stop = StopsWithLoop(stop);
                event_loop
                    .run()
                    .inspect_err(|error| tracing::error!(%error, "an event loop ended: the server stops"))
            };
            server.loops.push(spawn(&name, run)?);
        }
        server.handle.acceptor.count_descriptors();
        Ok(server)
    }
}

/// Opens the listener of the metrics.
fn open_metrics(
    settings: &MetricsSettings,
    monitor: &Arc<Monitor>,
    certificates: &Arc<Certificates>,
) -> Result<(TcpListener, Arc<http::Rules>), ServeError> {
    let failed = |error| ServeError::Metrics { address: settings.listen, error };
    let listener = listen_for_requests(settings.listen, HTTP_CONNECTION_TIME).map_err(failed)?;
    tracing::info!("metrics at {}", settings.url(listener.local_addr().map_err(failed)?));
    if settings.token.is_none() && !settings.listen.ip().is_loopback() {
        tracing::warn!(
            "whoever reaches {} reads the metrics: metrics.token_file names a token",
            settings.listen
        );
    }
    let (monitor, gathered) = (Arc::clone(monitor), Arc::clone(monitor));
    let rules = http::Rules {
        certificates: settings.tls.then(|| Arc::clone(certificates)),
        token: settings.token.clone(),
        pages: Box::new(move |path, knows_token| monitor.page(path, knows_token)),
        metrics: Arc::new(move || gathered.metrics_page()),
    };
    Ok((listener, Arc::new(rules)))
}

/// Stops the server when one of its loops ends for any reason: the others cannot take over its connections.
struct StopsWithLoop(Handle);

impl Drop for StopsWithLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("an event loop met a defect and ended: the server stops");
        }
        self.0.stop();
    }
}

/// A running server.
pub struct Server {
    handle: Handle,
    urls: Vec<ServerUrl>,
    addresses: Vec<SocketAddr>,
    writes: Arc<WriteQueue>,
    health: Arc<Health>,
    loops: Vec<JoinHandle<Result<(), EventLoopError>>>,
    others: Vec<JoinHandle<()>>,
    /// The thread of the last logins, which ends before the writer, and the sender that ends it when it is dropped.
    logins: (mpsc::Sender<()>, JoinHandle<()>),
    /// The thread of the audit trail, which ends after the threads that send it events.
    audit: Option<(Arc<AuditFeed>, JoinHandle<()>)>,
    /// Stops threads that are not joined.
    is_stopping: Arc<AtomicBool>,
    /// Dropped to end the watch over the files of certificates.
    certificate_watch: mpsc::Sender<()>,
    /// Dropped to end the backup.
    backup_stop: mpsc::Sender<()>,
    /// Dropped to end the listener of the metrics.
    metrics_stop: UnixStream,
}

impl Server {
    /// Returns the addresses that it listens on, with the real ports; the socket in the data directory last.
    pub fn listeners(&self) -> &[ServerUrl] {
        &self.urls
    }

    /// Returns the network addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the certificate by which clients verify this server, if its own authority signs its certificate.
    pub fn authority(&self) -> Option<AuthorityFile> {
        self.handle.certificates.authority()
    }

    /// Returns a handle that stops it and changes its settings, from any thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the server has stopped: outstanding operations are answered, as far as time allowed, and all
    /// answered changes are on disk.
    ///
    /// # Errors
    /// It stopped by itself.
    pub fn wait(self) -> Result<(), ServeError> {
        let mut result = Ok(());
        for thread in self.loops {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error.into()),
                Err(_) => result = Err(ServeError::Panicked(name)),
            }
        }
        // Only the loops submit changes, so no more can arrive now.
        self.handle.stop();
        let (login_stop, logins) = self.logins;
        drop(login_stop);
        if logins.join().is_err() {
            result = Err(ServeError::Panicked("pando-logins".to_owned()));
        }
        self.writes.close();
        self.is_stopping.store(true, Ordering::Relaxed);
        drop((self.certificate_watch, self.backup_stop, self.metrics_stop));
        let audit = self.audit.map(|(feed, thread)| (Some(feed), thread));
        for (feed, thread) in self.others.into_iter().map(|thread| (None, thread)).chain(audit) {
            feed.iter().for_each(|feed: &Arc<AuditFeed>| feed.close());
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                result = Err(ServeError::Panicked(name));
            }
        }
        result?;
        if let Some(error) = self.handle.acceptor.failure.get() {
            return Err(ServeError::Accepting(error.to_string()));
        }
        match self.health.changes_stopped() {
            Some(cause) => Err(ServeError::ChangesStopped(cause.to_owned())),
            None => Ok(()),
        }
    }
}

/// Controls a server from outside.
#[derive(Clone)]
pub struct Handle {
    acceptor: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    /// Weak, so that a handle that is kept does not keep the data directory open.
    directory: Weak<Directory>,
    certificates: Arc<Certificates>,
    listening: Arc<ListeningPlaces>,
    config: Arc<Mutex<Config>>,
}

/// Result of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Settings that changed and apply now.
    pub applied: Vec<&'static str>,
    /// Settings that changed and need a restart.
    pub need_restart: Vec<&'static str>,
}

impl Handle {
    /// Makes the server finish its outstanding operations and stop.
    pub fn stop(&self) {
        self.acceptor.stop();
    }

    /// Applies those settings of `new` that can be applied to a running server. Does nothing once the server has
    /// stopped.
    ///
    /// # Errors
    /// A setting of the directory is invalid, or there is no random salt for the administrator's password; then nothing
    /// is applied.
    pub fn reload(&self, new: Config) -> Result<Reloaded, ServeError> {
        let mut reloaded = Reloaded::default();
        let Some(directory) = self.directory.upgrade() else { return Ok(reloaded) };
        let has_new_certificates = self.certificates.reload(Some(&new.tls), now_seconds())?;
        let mut config = self.lock_config();
        for (name, online) in config.changes(&new) {
            let list = if online { &mut reloaded.applied } else { &mut reloaded.need_restart };
            list.push(name);
        }
        if has_new_certificates {
            reloaded.applied.push("files of certificates");
        }
        let in_force = directory.settings();
        let mut node = node_settings(&new);
        node.admin_password = match &new.admin_password {
            same if *same == config.admin_password => in_force.node.admin_password.clone(),
            Some(Secret(clear)) => {
                Some(password::hash(in_force.general.password_scheme, clear, &Random::default().bytes()?))
            }
            None => None,
        };
        let path = config.data.clone();
        directory.set_node_settings(node).map_err(|error| ServeError::Open { path, error })?;
        self.acceptor.set_connections_max(new.online.connections_max);
        self.listening.set_count_max(new.online.persistent_searches.count_max);
        let mut online = new.online.clone();
        online.find_rules(&config.listen);
        let online = Arc::new(online);
        let (in_force, ended) = mpsc::channel();
        for mailbox in self.mailboxes.iter() {
            mailbox.post(LoopMessage::Settings(Arc::clone(&online), in_force.clone()));
        }
        drop(in_force);
        config.take_online(new);
        // Waits until all loops have the settings, so that the end of the reload is reliable. Nothing is ever sent.
        if ended.recv_timeout(RELOAD_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("an event loop has not taken the new settings yet");
        }
        Ok(reloaded)
    }

    fn lock_config(&self) -> std::sync::MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the generation of the data: in a cluster the cluster's, which all nodes share, otherwise the directory's
/// own.
fn generation(directory: &Directory) -> Result<[u8; 16], ServeError> {
    #[cfg(feature = "kafka")]
    if let Some(cursor) = replication::Cursor::of_rows(&directory.log_rows()?) {
        return Ok(cursor.generation);
    }
    Ok(directory.generation()?)
}

/// Opens the certificate that the settings name, or the server's own.
fn open_certificates(config: &Config) -> Result<Certificates, TlsError> {
    let hosts = config.listen.iter().filter_map(|url| match url {
        ServerUrl::Internet { host, .. } => Some(host.clone()),
        ServerUrl::Local(_) => None,
    });
    let certificates = Certificates::open(&config.tls, &config.data, &own_hosts(hosts), now_seconds())?;
    if let Some(authority) = certificates.authority() {
        tracing::info!("{authority}");
    }
    Ok(certificates)
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Returns the shipped schema with the schema texts of the settings, by name, and with files.
///
/// # Errors
/// A file cannot be read, or definitions cannot be used.
pub fn load_schema(texts: &BTreeMap<String, String>, files: &[PathBuf]) -> Result<Arc<Schema>, ServeError> {
    if texts.is_empty() && files.is_empty() {
        return Ok(Schema::shipped());
    }
    let mut builder = SchemaBuilder::shipped();
    for (name, text) in texts {
        builder.add_text(name, text)?;
    }
    for file in files {
        let text =
            std::fs::read_to_string(file).map_err(|error| ConfigError::Read { file: file.clone(), error })?;
        builder.add_text(&file.display().to_string(), &text)?;
    }
    Ok(builder.build()?)
}

/// Returns the stored form of a clear password.
///
/// # Errors
/// The system provides no random salt.
pub fn hash_password(scheme: password::StorageScheme, clear: &[u8]) -> Result<Vec<u8>, ServeError> {
    Ok(password::hash(scheme, clear, &Random::default().bytes()?))
}

/// Returns the settings of the node, without the administrator's password.
pub fn node_settings(config: &Config) -> NodeSettings {
    NodeSettings {
        admin_dn: config.admin_dn.as_str().to_owned(),
        admin_password: None,
        anonymous_read: config.anonymous_read,
    }
}

/// Returns the directory-wide settings of a new data directory. Suffixes of the command line replace the default one.
fn initial_settings(config: &Config) -> DirectorySettings {
    match &config.initial {
        Some(stated) => stated.clone(),
        None if config.suffixes.is_empty() => DirectorySettings::default(),
        None => DirectorySettings { suffixes: Vec::new(), ..DirectorySettings::default() },
    }
}

/// Returns a stamp for an operation of the start itself.
pub(crate) fn new_stamp(random: &mut Random) -> Result<Stamp, getrandom::Error> {
    Ok(Stamp { now_micros: now_micros(), uuid: random.uuid()?, ..Stamp::default() })
}
fn start_pass_through(
    settings: &PassThroughSettings,
    mailboxes: &Arc<[Mailbox]>,
) -> Result<PassThrough, ServeError> {
    PassThrough::start(settings, mailboxes).map_err(|error| match error {
        StartError::Settings(error) => error.into(),
        StartError::System(error) => error.into(),
    })
}
