//! The settings of a node. In order of precedence, they come from the command line, the environment, the node file, and
//! the defaults.
//!
//! A node file is TOML, and every key is optional. An unknown key is refused, because a misspelt limit would otherwise
//! be ignored silently. Values are checked while they are read, so that an error contains the file, the line and the
//! problem. Settings of the directory, as opposed to this machine, are in [`crate::admin::settings`].

pub mod audit;
pub mod backup;
mod cluster;
pub mod console;
mod exposed;
pub(crate) mod follow;
pub mod kerberos;
pub mod limit_tables;
pub mod mail;
pub mod metrics;
mod mistakes;
mod node_file;
mod online;
mod pass_through;
mod replica;
mod run_as;
mod scim;
pub mod settings_text;
mod source_keys;
#[cfg(test)]
mod tests;
pub mod traces;
pub mod values;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::scim::ScimSettings;
use directory::DirectorySettings;
use ldap::ServerUrl;
use sasl::{TokenKeys, TokenRules};
use serde::Deserialize;
use zeroize::Zeroize as _;

use crate::config::audit::AuditSettings;
use crate::config::backup::BackupSettings;
use crate::config::console::ConsoleSettings;
use crate::config::mail::MailSettings;
use crate::config::metrics::MetricsSettings;
use crate::config::node_file::{NodeFile, OauthKeys, TlsKeys};
use crate::config::replica::ReplicaKeys;
use crate::config::traces::TraceSettings;
use crate::config::values::{DnText, LogFormat, LogLevel, OneOrMore, TlsVersion};
use crate::limits;
pub use cluster::ClusterSettings;
pub use follow::{FollowIdentity, FollowKeys, FollowSettings};
pub use mistakes::nearest;
pub(crate) use online::ListenerIndex;
pub use online::{ListenerRules, OnlineSettings, PersistentSearchLimits, SlowRule};
pub use pass_through::{PassThroughSettings, Verifier};
pub use replica::ReplicaSettings;
pub use run_as::RunAs;

/// Returns the default URL to listen on. It accepts connections from this machine only, and its port needs no
/// privileges.
fn default_listen() -> ServerUrl {
    ServerUrl::Internet { host: "127.0.0.1".to_owned(), port: 1389, tls: false }
}

/// Default DN of the administrator. No entry need have this DN.
pub const DEFAULT_ADMIN_DN: &str = "cn=admin";

/// Environment variable with the administrator's password.
pub const ADMIN_PASSWORD_VARIABLE: &str = "PANDO_ADMIN_PASSWORD";

/// Error in the settings that the operator must correct.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the error.
        error: std::io::Error,
    },
    /// A node file is not TOML, or has an unknown key or an invalid value.
    #[error("{}:{line}: {what}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Line of the error, counted from 1.
        line: usize,
        /// Description of the problem.
        what: String,
    },
    /// A file has several errors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\npando: "))]
    Several(Vec<ConfigError>),
    /// No setting names the data directory.
    #[error("no data directory: give --data DIR, or `data = \"DIR\"` in the node file")]
    NoDataDirectory,
    /// There are more URLs to listen on than a [`ListenerIndex`] can distinguish.
    #[error("too many places to listen on: {} at most", limits::LISTENERS_MAX)]
    TooManyListeners,
    /// The administrator's password is empty.
    #[error("the administrator's password from {origin} is empty")]
    EmptyPassword {
        /// Source of the password.
        origin: String,
    },
    /// The settings name a group but no user.
    #[error("group needs the setting user")]
    GroupWithoutUser,
    /// The table `[oauth]` has some of its required keys, but not all.
    #[error("[oauth] takes issuer, audience and keys together")]
    OauthInPart,
    /// The table `[pass_through]` has some of its required keys, but not all.
    #[error(
        "[pass_through] takes server and authorities, because passwords go over TLS alone, but to ldapi://; or \
         saslauthd, which may have a service"
    )]
    PassThroughInPart,
    /// A table `[follow]` lacks a required key or has an invalid value, or its keys contradict each other.
    #[error("the table [follow] of the node file: {0}")]
    Follow(&'static str),
    /// The table `[replica]` lacks a required key or has an invalid value, or its keys contradict each other.
    #[error("the table [replica] of the node file: {0}")]
    Replica(&'static str),
    /// The table `[kerberos]` has keys, but no keytab.
    #[error("[kerberos] needs keytab, the file with the key of the server's principal")]
    KerberosWithoutKeytab,
    /// The keytab cannot be used.
    #[error("kerberos.keytab, {}: {what}", file.display())]
    Keytab {
        /// Path of the keytab.
        file: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// The keys of the token issuer cannot be used.
    #[error("{}: {what}", file.display())]
    TokenKeys {
        /// File with the keys.
        file: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// The table `[cluster]` lacks a required key.
    #[error("the table [cluster] of the node file needs the key {0:?}")]
    ClusterKey(&'static str),
    /// Kafka keys of the table `[cluster]` contradict each other.
    #[error("the table [cluster] of the node file: {0}")]
    ClusterKafka(&'static str),
    /// Keys of the table `[metrics]` contradict each other.
    #[error("the table [metrics] of the node file: {0}")]
    Metrics(&'static str),
    /// A key of the table `[traces]` has an invalid value, or keys contradict each other.
    #[error("the table [traces] of the node file: {0}")]
    Traces(&'static str),
    /// Keys of the table `[console]` contradict each other.
    #[error("the table [console] of the node file: {0}")]
    Console(&'static str),
    /// A key of the table `[mail]` has an invalid value, or keys contradict each other.
    #[error("the table [mail] of the node file: {0}")]
    Mail(String),
    /// Keys of the table `[scim]` contradict each other.
    #[error("the table [scim] of the node file: {0}")]
    Scim(String),
    /// Keys of a table have no effect, because another key of the table is missing.
    #[error("the table [{table}] of the node file has no {needs}, so its other keys would have no effect")]
    Idle {
        /// Name of the table.
        table: &'static str,
        /// The key that is missing.
        needs: &'static str,
    },
    /// A backup has more recipients than fit into the header of a file.
    #[error("backup.recipients has {0} recipients: at most {max} are possible", max = limits::BACKUP_RECIPIENTS_MAX)]
    TooManyRecipients(usize),
    /// The environment variable with the password is not UTF-8.
    #[error("{ADMIN_PASSWORD_VARIABLE} is not UTF-8")]
    PasswordNotUtf8,
}

/// Arguments of the command line and the environment. `None` and an empty list mean that the argument was not given.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The node file.
    pub node_file: Option<PathBuf>,
    /// The data directory.
    pub data: Option<PathBuf>,
    /// URLs to listen on.
    pub listen: Vec<ServerUrl>,
    /// Suffixes to serve.
    pub suffixes: Vec<DnText>,
    /// DN of the administrator.
    pub admin_dn: Option<DnText>,
    /// File with the administrator's password.
    pub admin_password_file: Option<PathBuf>,
    /// User under whom the process runs after it has bound the ports.
    pub user: Option<String>,
    /// Group under which the process runs; `None` for the user's own group.
    pub group: Option<String>,
    /// Password of the administrator, from the environment.
    pub admin_password: Option<Secret>,
    /// Whether anonymous clients may read the tree.
    pub anonymous_read: bool,
    /// Log level.
    pub log_level: Option<LogLevel>,
    /// Whether a line is logged for each operation.
    pub log_operations: bool,
    /// Server to follow. It replaces the servers in the tables `[follow]`.
    pub follow: Option<FollowKeys>,
}

/// A password or another secret. Its `Debug` output hides the secret, and its memory is overwritten before it is freed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// All settings of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// URLs to listen on.
    pub listen: Vec<ServerUrl>,
    /// Number of event loops.
    pub threads: usize,
    /// Number of threads that hash passwords.
    pub hash_threads: usize,
    /// Number of scan threads, which run long searches. If it is 0, the event loops run these searches in slices.
    pub scan_threads: usize,
    /// Maximum number of prefetch threads, which wait for the disk if the data is larger than memory. If it is 0, the
    /// event loops wait.
    pub read_ahead_threads: usize,
    /// Total size of the row caches of all event loops and the writer, in octets; 0 for no caches.
    pub row_cache_bytes: usize,
    /// Maximum size of the data that is read into memory at the start, in octets. Larger data is not read.
    pub warm_up_bytes: u64,
    /// Maximum request memory of all connections, in octets. Administrators have a reserve in addition.
    pub request_memory_bytes: usize,
    /// Suffixes that are added to those of the data directory. In a new directory they replace the default suffix.
    pub suffixes: Vec<DnText>,
    /// Settings of the directory for a new data directory; `None` for the defaults.
    pub initial: Option<DirectorySettings>,
    /// DN of the administrator.
    pub admin_dn: DnText,
    /// Password of the administrator; `None` for the password that the data directory stores.
    pub admin_password: Option<Secret>,
    /// File from which the administrator's password was read.
    pub admin_password_file: Option<PathBuf>,
    /// Account under which the process runs after it has bound the ports; `None` for the account that started it.
    pub run_as: Option<RunAs>,
    /// Whether anonymous clients may read the tree on this node, except `userPassword`. This setting has an effect only
    /// if the directory's setting `anonymous_read` is off.
    pub anonymous_read: bool,
    /// Settings that a reload can change while connections are open.
    pub online: OnlineSettings,
    /// Level, format and destination of the log.
    pub log: LogSettings,
    /// Certificates and other settings of TLS.
    pub tls: TlsSettings,
    /// Lists of passwords that policies may refuse.
    pub bad_passwords: BadPasswordFiles,
    /// Settings of the audit trail.
    pub audit: AuditSettings,
    /// Listener of the metrics; `None` if there is no listener.
    pub metrics: Option<MetricsSettings>,
    /// Receiver of traces.
    pub traces: Option<TraceSettings>,
    /// Listener of the web console.
    pub console: Option<ConsoleSettings>,
    /// SCIM service for users and groups. The service uses the console's addresses.
    pub scim: Option<ScimSettings>,
    /// Mail to users who forgot their password, with a link for setting a new one.
    pub mail: Option<MailSettings>,
    /// The backup that the server keeps up to date.
    pub backup: Option<BackupSettings>,
    /// Cluster to which this node belongs.
    pub cluster: Option<ClusterSettings>,
    /// Service that verifies passwords that this server does not store.
    pub pass_through: Option<PassThroughSettings>,
    /// Servers whose trees this server copies.
    pub follow: Vec<FollowSettings>,
    /// Supplier whose log this server applies.
    pub replica: Option<ReplicaSettings>,
}

/// The table `[bad_passwords]`: files of passwords that attackers try first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadPasswordFiles {
    /// File of words, one per line.
    pub words: Option<PathBuf>,
    /// File of SHA-1 digests in ascending order, one per line.
    pub breached: Option<PathBuf>,
}

/// Certificates and other settings of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// File with the server's certificate and its chain, in PEM form. `None` for a certificate that the server's own
    /// authority signs.
    pub certificate: Option<PathBuf>,
    /// File with the private key, in PEM form; `None` if the certificate's file contains the key.
    pub key: Option<PathBuf>,
    /// File with the authorities that sign client certificates. `None` if clients are not asked for certificates.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub client_certificates_required: bool,
    /// Oldest version of TLS that is accepted.
    pub minimum_version: TlsVersion,
}

impl TlsSettings {
    fn of(keys: TlsKeys) -> Result<TlsSettings, ConfigError> {
        if keys.client_certificates_required == Some(true) && keys.client_authorities.is_none() {
            return Err(ConfigError::Idle { table: "tls", needs: "client_authorities" });
        }
        Ok(TlsSettings {
            certificate: keys.certificate,
            key: keys.key,
            client_authorities: keys.client_authorities,
            client_certificates_required: keys.client_certificates_required.unwrap_or(false),
            minimum_version: keys.minimum_version.map(|version| version.0).unwrap_or_default(),
        })
    }
}

/// Returns the rules for tokens in the table `[oauth]`.
fn token_rules(table: OauthKeys) -> Result<Option<Arc<TokenRules>>, ConfigError> {
    let OauthKeys { issuer, audience, keys, claim, clock_skew_seconds } = table;
    let (issuer, audience, file) = match (issuer, audience, keys) {
        (None, None, None) if claim.is_none() && clock_skew_seconds.is_none() => return Ok(None),
        (Some(issuer), Some(audience), Some(file)) => (issuer, audience, file),
        _ => return Err(ConfigError::OauthInPart),
    };
    let text =
        std::fs::read_to_string(&file).map_err(|error| ConfigError::Read { file: file.clone(), error })?;
    let keys = TokenKeys::parse(&text).map_err(|what| ConfigError::TokenKeys { file, what })?;
    Ok(Some(Arc::new(TokenRules {
        issuer,
        audience,
        claim: claim.unwrap_or_else(|| "sub".to_owned()),
        clock_skew_seconds: clock_skew_seconds.unwrap_or(limits::CLOCK_SKEW_SECONDS),
        keys,
    })))
}

/// Level, format and destination of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Format of the lines.
    pub format: LogFormat,
    /// Level up to which messages are logged.
    pub level: LogLevel,
    /// The log file; `None` for standard error.
    pub file: Option<PathBuf>,
}

fn follow(tables: Vec<FollowKeys>, is_node: bool) -> Result<Vec<FollowSettings>, ConfigError> {
    if !tables.is_empty() && is_node {
        return Err(ConfigError::Follow("a node of a cluster follows the cluster alone"));
    }
    tables.into_iter().map(FollowSettings::of).collect()
}

fn replica(table: Option<ReplicaKeys>, has_other: bool) -> Result<Option<ReplicaSettings>, ConfigError> {
    if table.is_some() && has_other {
        return Err(ConfigError::Replica("a replica has no table [follow] or [cluster]"));
    }
    table.map(ReplicaSettings::of).transpose()
}

impl Config {
    /// Returns the default settings for a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Config {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Config {
            data: data.into(),
            listen: vec![default_listen()],
            threads: cores,
            hash_threads: (cores / 2).max(1),
            scan_threads: cores,
            read_ahead_threads: limits::READ_AHEAD_THREADS,
            row_cache_bytes: default_row_cache_bytes(),
            warm_up_bytes: default_warm_up_bytes(),
            request_memory_bytes: default_request_memory_bytes(),
            suffixes: Vec::new(),
            initial: None,
            admin_dn: DnText(DEFAULT_ADMIN_DN.to_owned()),
            admin_password: None,
            admin_password_file: None,
            run_as: None,
            anonymous_read: false,
            online: OnlineSettings::default(),
            log: LogSettings { format: LogFormat::Text, level: LogLevel::Info, file: None },
            tls: TlsSettings::default(),
            bad_passwords: BadPasswordFiles::default(),
            pass_through: None,
            follow: Vec::new(),
            replica: None,
            audit: AuditSettings::default(),
            backup: None,
            metrics: None,
            traces: None,
            console: None,
            scim: None,
            mail: None,
            cluster: None,
        }
    }

    /// Reads the node file, if there is one, and combines the settings of all sources.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(arguments: &Arguments) -> Result<Config, ConfigError> {
        let file = match &arguments.node_file {
            Some(path) => NodeFile::read(path)?,
            None => NodeFile::default(),
        };
        Config::merge(arguments, file)
    }

    fn merge(arguments: &Arguments, mut file: NodeFile) -> Result<Config, ConfigError> {
        if let Some(given) = &arguments.follow {
            file.follow = OneOrMore(vec![given.clone()]);
        }
        let data =
            arguments.data.clone().or_else(|| file.data.clone()).ok_or(ConfigError::NoDataDirectory)?;
        let defaults = Config::new(data);
        let admin_password = admin_password(arguments, file.admin_password_file.as_deref())?;
        let admin_password_file = match (&arguments.admin_password_file, &arguments.admin_password) {
            (Some(given), _) => Some(given.clone()),
            (None, Some(_)) => None,
            (None, None) => file.admin_password_file.clone(),
        };
        let mut online = OnlineSettings::of(&mut file, arguments.log_operations)?;
        let listen = listen(arguments, file.listen, &online.stated)?;
        online.find_rules(&listen);
        let console = ConsoleSettings::of(file.console)?;
        let replica = replica(file.replica, !file.follow.0.is_empty() || file.cluster.is_some())?;
        let scim = file.scim.map(|keys| keys.settings(console.is_some())).transpose()?;
        let mail = file.mail.map(|keys| keys.settings(console.is_some())).transpose()?;
        Ok(Config {
            listen,
            threads: file.threads.map_or(defaults.threads, NonZeroUsize::get),
            hash_threads: file.hash_threads.map_or(defaults.hash_threads, NonZeroUsize::get),
            scan_threads: file.scan_threads.unwrap_or(defaults.scan_threads),
            read_ahead_threads: file.read_ahead_threads.unwrap_or(defaults.read_ahead_threads),
            row_cache_bytes: file.row_cache_bytes.unwrap_or(defaults.row_cache_bytes),
            warm_up_bytes: file.warm_up_bytes.unwrap_or(defaults.warm_up_bytes),
            request_memory_bytes: file.request_memory_bytes.unwrap_or(defaults.request_memory_bytes),
            suffixes: arguments.suffixes.clone(),
            initial: None,
            admin_dn: arguments
                .admin_dn
                .clone()
                .or(file.admin_dn.map(|dn| dn.0))
                .unwrap_or(defaults.admin_dn),
            admin_password,
            admin_password_file,
            run_as: RunAs::of(arguments.user.clone().or(file.user), arguments.group.clone().or(file.group))?,
            anonymous_read: arguments.anonymous_read,
            online,
            log: LogSettings {
                format: file.log.format.map_or(LogFormat::Text, |format| format.0),
                level: arguments
                    .log_level
                    .or(file.log.level.map(|level| level.0))
                    .unwrap_or(defaults.log.level),
                file: file.log.file,
            },
            tls: TlsSettings::of(file.tls)?,
            bad_passwords: file.bad_passwords,
            pass_through: PassThroughSettings::of(file.pass_through)?,
            follow: follow(file.follow.0, file.cluster.is_some())?,
            replica,
            audit: file.audit.settings()?,
            backup: file.backup.settings()?,
            metrics: MetricsSettings::of(file.metrics)?,
            traces: TraceSettings::of(file.traces)?,
            scim,
            mail,
            console,
            cluster: file.cluster.map(|keys| ClusterSettings::of(keys, &defaults.data)).transpose()?,
            data: defaults.data,
        })
    }

    /// Takes the settings of `new` that a reload can apply. Keeps the settings that require a restart.
    pub(crate) fn take_online(&mut self, new: Config) {
        self.initial = new.initial;
        self.admin_dn = new.admin_dn;
        self.admin_password = new.admin_password;
        self.admin_password_file = new.admin_password_file;
        self.anonymous_read = new.anonymous_read;
        self.online = new.online;
        self.online.find_rules(&self.listen);
        self.log = LogSettings { format: self.log.format, ..new.log };
        self.tls = new.tls;
    }

    /// Returns the names of the settings that are different in `new`. The flag of a name is true if a reload applies
    /// the setting.
    pub fn changes(&self, new: &Config) -> Vec<(&'static str, bool)> {
        let log = LogSettings { format: self.log.format, ..new.log.clone() };
        let log_changed = self.log != log
            || (self.online.log_operations, self.online.slow) != (new.online.log_operations, new.online.slow);
        let tls_of = |config: &Config| {
            let usual = &config.online.usual;
            (config.tls.clone(), usual.clear_networks.clone(), usual.tls_needed_for)
        };
        let listeners_of = |config: &Config| (config.online.usual.weakest_bind, config.online.stated.clone());
        // The fields that are replaced here are compared separately.
        let others = |online: &OnlineSettings| OnlineSettings {
            log_operations: false,
            slow: None,
            usual: ListenerRules::default(),
            listeners: Vec::new(),
            listen: Vec::new(),
            stated: Vec::new(),
            token_rules: None,
            token_key_file: None,
            kerberos: None,
            ..online.clone()
        };
        let compared = [
            ("data", self.data != new.data, false),
            ("listen", self.listen != new.listen, false),
            ("threads", self.threads != new.threads, false),
            ("hash_threads", self.hash_threads != new.hash_threads, false),
            ("scan_threads", self.scan_threads != new.scan_threads, false),
            ("read_ahead_threads", self.read_ahead_threads != new.read_ahead_threads, false),
            ("row_cache_bytes", self.row_cache_bytes != new.row_cache_bytes, false),
            ("warm_up_bytes", self.warm_up_bytes != new.warm_up_bytes, false),
            ("request_memory_bytes", self.request_memory_bytes != new.request_memory_bytes, false),
            ("user or group", self.run_as != new.run_as, false),
            ("suffixes", self.suffixes != new.suffixes, false),
            ("pass_through", self.pass_through != new.pass_through, false),
            ("follow", self.follow != new.follow, false),
            ("replica", self.replica != new.replica, false),
            ("bad_passwords", self.bad_passwords != new.bad_passwords, false),
            ("audit", self.audit != new.audit, false),
            ("backup", self.backup != new.backup, false),
            ("metrics", self.metrics != new.metrics, false),
            ("traces", self.traces != new.traces, false),
            ("console", self.console != new.console, false),
            ("scim", self.scim != new.scim, false),
            ("mail", self.mail != new.mail, false),
            ("cluster", self.cluster != new.cluster, false),
            ("admin_dn", self.admin_dn != new.admin_dn, true),
            ("admin_password_file", self.admin_password != new.admin_password, true),
            ("anonymous_read", self.anonymous_read != new.anonymous_read, true),
            ("limits or timeouts", others(&self.online) != others(&new.online), true),
            ("log", log_changed, true),
            ("log.format", self.log.format != new.log.format, false),
            ("weakest_bind or rules of listeners", listeners_of(self) != listeners_of(new), true),
            ("tls", tls_of(self) != tls_of(new), true),
            ("oauth", self.online.token_rules != new.online.token_rules, true),
            ("kerberos", self.online.kerberos != new.online.kerberos, true),
        ];
        compared
            .into_iter()
            .filter(|(_, changed, _)| *changed)
            .map(|(name, _, online)| (name, online))
            .collect()
    }
}

/// Returns the URLs to listen on. First come the URLs of the command line, or those of the node file if the command
/// line has none. The URLs of the tables `[[listener]]` follow. If there is no URL at all, returns the default URL.
fn listen(
    arguments: &Arguments,
    of_file: Vec<ServerUrl>,
    stated: &[(ServerUrl, ListenerRules)],
) -> Result<Vec<ServerUrl>, ConfigError> {
    let mut listen = if arguments.listen.is_empty() { of_file } else { arguments.listen.clone() };
    listen.extend(stated.iter().map(|(url, _)| url.clone()));
    if listen.is_empty() {
        listen.push(default_listen());
    }
    if listen.len() > limits::LISTENERS_MAX {
        return Err(ConfigError::TooManyListeners);
    }
    Ok(listen)
}

/// Returns the default size of the row caches.
fn default_row_cache_bytes() -> usize {
    let share = system::available_memory_bytes().map(|bytes| bytes / limits::ROW_CACHE_MEMORY_DIVISOR);
    share
        .and_then(|share| usize::try_from(share).ok())
        .map_or(limits::ROW_CACHE_BYTES, |share| share.min(limits::ROW_CACHE_BYTES))
}

/// Returns the default size of the request memory. The size is the minimum if the system does not report its memory.
fn default_request_memory_bytes() -> usize {
    let share = system::available_memory_bytes().map(|bytes| bytes / limits::REQUEST_MEMORY_DIVISOR);
    let share = share.and_then(|share| usize::try_from(share).ok());
    share.unwrap_or(0).max(limits::REQUEST_MEMORY_MIN)
}

/// Returns the default for the maximum size of data that is read into memory at the start. It is 0 if the system does
/// not report its memory.
fn default_warm_up_bytes() -> u64 {
    system::available_memory_bytes().map_or(0, |bytes| bytes / 4 * limits::WARM_UP_MEMORY_QUARTERS)
}

/// Returns the administrator's password from the first source that has it: the file on the command line, the
/// environment, or the file that the node file names.
fn admin_password(arguments: &Arguments, node_file: Option<&Path>) -> Result<Option<Secret>, ConfigError> {
    let (secret, origin) = if let Some(file) = &arguments.admin_password_file {
        (read_password(file)?, file.display().to_string())
    } else if let Some(secret) = &arguments.admin_password {
        (secret.clone(), ADMIN_PASSWORD_VARIABLE.to_owned())
    } else if let Some(file) = node_file {
        (read_password(file)?, file.display().to_string())
    } else {
        return Ok(None);
    };
    // An empty password could never be used, because a bind with it is an unauthenticated bind (RFC 4513 section
    // 5.1.2).
    if secret.0.is_empty() { Err(ConfigError::EmptyPassword { origin }) } else { Ok(Some(secret)) }
}

/// Returns true if the host of a URL is certainly this machine: `localhost`, or a loopback address, which may be in
/// brackets.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads a password file. One newline at its end does not belong to the password.
fn read_password(file: &Path) -> Result<Secret, ConfigError> {
    let mut bytes =
        std::fs::read(file).map_err(|error| ConfigError::Read { file: file.to_owned(), error })?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(Secret(bytes))
}
