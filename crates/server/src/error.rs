//! Errors that concern the whole server or its data, and their classification for exit codes.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use directory::OperationError;
use ldap::ResultCode;

use crate::backup::BackupError;
use crate::config::ConfigError;
use crate::event_loop::EventLoopError;
use crate::limits::LOAD_ENTRIES_MAX;
use crate::net::certificate::TlsError;
use crate::net::listener::ListenError;
use crate::workers::bad_passwords::BadPasswordsError;
use crate::workers::pass_through::{PassThroughError, StartError};
use crate::workers::reset_mails::MailError;

/// Error because of which the server does not start, or stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The running server refused a request of a command.
    #[error("{code}: {diagnostic}")]
    Refused {
        /// The result code.
        code: ResultCode,
        /// The diagnostic message for the administrator.
        diagnostic: String,
    },
    /// Settings of the directory are invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\npando: "))]
    Settings(Vec<ConfigError>),
    /// The process cannot run as the user in the settings.
    #[error(transparent)]
    RunAs(#[from] RunAsError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] crate::log::LogError),
    /// A schema file cannot be used.
    #[error("schema: {}", .0.to_string().replace('\n', "\npando: schema: "))]
    Schema(#[from] schema::SchemaErrors),
    /// The data directory cannot be opened. For example, another process has opened it.
    #[error("{}", in_directory(path, error))]
    Open {
        /// The data directory.
        path: PathBuf,
        /// The cause.
        error: directory::OpenError,
    },
    /// The supplier's data cannot be copied.
    #[error("the data of the supplier cannot be copied: {0}")]
    Copy(#[from] crate::workers::replica::copy::CopyError),
    /// The data directory belongs to a replica, but the settings contain no supplier.
    #[error(
        "{} contains a replica: it needs the table [replica] of the node file with its supplier; `pando replica \
         promote` makes it a directory of its own",
        path.display()
    )]
    IsReplica {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory contains no database.
    #[error("{} contains no Pando database", path.display())]
    NoData {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory contains no database although it has a backup. If the server served an empty directory, that
    /// would hide the loss, and the next backup would contain the empty directory.
    #[error(
        "{} contains no Pando database, but {} has a backup: `pando restore --data {} {}` restores it; to begin anew, \
         name another folder in [backup]",
        path.display(), backup, path.display(), backup
    )]
    LostData {
        /// The data directory.
        path: PathBuf,
        /// Path or address of the backup.
        backup: String,
    },
    /// The directory refused an operation that is part of the start.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The listener of the metrics cannot be opened.
    #[error("cannot serve metrics on {address}: {error}")]
    Metrics {
        /// Address of the listener.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// A listener of the console cannot be opened.
    #[error("cannot serve the console on {address}: {error}")]
    Console {
        /// Address of the listener.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The files for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The audit trail cannot be written.
    #[error("audit trail: {0}")]
    Audit(#[from] audit::AuditError),
    /// A list of bad passwords cannot be used.
    #[error(transparent)]
    BadPasswords(#[from] BadPasswordsError),
    /// Passwords cannot be verified by a bind at another server.
    #[error(transparent)]
    PassThrough(#[from] PassThroughError),
    /// The settings for sending mail cannot be used.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// The node cannot run in its cluster.
    #[cfg(feature = "kafka")]
    #[error("cluster: {0}")]
    Cluster(#[from] cluster::ClusterError),
    /// The node file contains a table `[cluster]`, but this program was built without cluster support.
    #[error("the node file has a table [cluster], but this program was built without the feature `kafka`")]
    NoKafka,
    /// The data directory belongs to a cluster node, but the node file contains no table `[cluster]`.
    #[error(
        "{} is a node of a cluster: add the table [cluster] to the node file, or run `pando cluster \
         leave`",
        path.display()
    )]
    IsNode {
        /// The data directory.
        path: PathBuf,
    },
    /// The system returns no random bytes.
    #[error("the system provides no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A function of the operating system failed, such as starting a thread or creating an event queue.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// An event loop ended with an error.
    #[error(transparent)]
    EventLoop(#[from] EventLoopError),
    /// The server stopped making changes while it ran. All answered changes are on disk. The next start reports the
    /// state of the data.
    #[error("changes were stopped: {0}")]
    ChangesStopped(String),
    /// The server could not continue to accept connections.
    #[error("waiting for new connections failed: {0}")]
    Accepting(String),
    /// A thread panicked.
    #[error("thread {0} ended because of a defect in the server")]
    Panicked(String),
    /// There is no example data for the suffix.
    #[error("{0}")]
    Sample(String),
    /// An import failed. The data did not change.
    #[error("cannot import into {}: {error}", path.display())]
    Import {
        /// The data directory.
        path: PathBuf,
        /// The cause.
        error: directory::import::ImportError,
    },
    /// A file to import cannot be read.
    #[error("cannot read {name}: {error}")]
    Text {
        /// Name of the file.
        name: String,
        /// The cause.
        error: io::Error,
    },
    /// No entry of the files can be imported. Therefore the existing data was not replaced.
    #[error("no entry can be imported, so nothing is changed: {reason}{}", all_reasons(rejects.as_deref()))]
    NothingImported {
        /// The reason why the first record was rejected.
        reason: String,
        /// The file with the rejected records and the reasons.
        rejects: Option<PathBuf>,
    },
    /// The file for rejected records cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Rejects {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file for rejected records already exists.
    #[error("{} already exists: choose another file for --rejects", path.display())]
    RejectsExist {
        /// The file.
        path: PathBuf,
    },
    /// A backup cannot be made or used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// An entry that was to be loaded before the start was refused.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<StartError> for ServeError {
    fn from(error: StartError) -> ServeError {
        match error {
            StartError::Settings(error) => error.into(),
            StartError::System(error) => error.into(),
        }
    }
}

/// The process cannot change to the user in the settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunAsError {
    /// The user does not exist.
    #[error("user {0:?} does not exist on this machine")]
    NoUser(String),
    /// The group does not exist.
    #[error("group {0:?} does not exist on this machine")]
    NoGroup(String),
    /// The settings contain a user, but the server was started by another user who is not root.
    #[error(
        "only root can become {user}; the server was started by user id {own}: start it as root or as {user}"
    )]
    NotRoot {
        /// User in the setting `user`.
        user: String,
        /// Id of the user who started the server.
        own: u32,
    },
    /// The system refused the change to the user.
    #[error("cannot become {user}: {error}")]
    Refused {
        /// User in the setting `user`.
        user: String,
        /// The cause.
        error: io::Error,
    },
    /// After the change to the user, the process could still become root again.
    #[error("{user} can become root again: choose another user")]
    Root {
        /// User in the setting `user`.
        user: String,
    },
    /// The user cannot read or write a file of the data directory.
    #[error(
        "{} cannot be read and written as {user}, the user of the server: chown -R {user}: {}",
        file.display(), data.display()
    )]
    Data {
        /// The first file that the user cannot read or write.
        file: PathBuf,
        /// The data directory.
        data: PathBuf,
        /// User in the setting `user`.
        user: String,
    },
}

fn all_reasons(rejects: Option<&Path>) -> String {
    rejects.map_or_else(String::new, |file| format!("; all reasons: {}", file.display()))
}

/// Returns a message about a data directory. Adds the path of the directory if the error does not contain it.
fn in_directory(path: &Path, error: &directory::OpenError) -> String {
    let (path, error) = (path.display().to_string(), error.to_string());
    if error.contains(&path) { error } else { format!("cannot use the data directory {path}: {error}") }
}

/// Classification of a [`ServeError`] for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The settings, the schema files or the command line are wrong.
    Settings,
    /// Another process has opened the data directory.
    InUse,
    /// The data directory cannot be used in its present state.
    Data,
    /// The server cannot listen on an address.
    Listen,
    /// Any other error of the system, or a fault of the server.
    Other,
}

impl ServeError {
    /// Returns the classification of the error.
    pub fn fault(&self) -> Fault {
        use directory::OpenError;
        match self {
            ServeError::Open { error, .. } if is_passing(error) => Fault::Other,
            ServeError::Config(_)
            | ServeError::Settings(_)
            | ServeError::Log(_)
            | ServeError::Schema(_)
            | ServeError::BadPasswords(_)
            | ServeError::Sample(_) => Fault::Settings,
            ServeError::Open { error: OpenError::Open(store::OpenError::InUse { .. }), .. } => Fault::InUse,
            ServeError::Open { error: OpenError::Suffix { .. } | OpenError::Setting { .. }, .. } => {
                Fault::Settings
            }
            ServeError::Open { .. } | ServeError::NoData { .. } | ServeError::LostData { .. } => Fault::Data,
            ServeError::Import { error, .. } => import_fault(error),
            ServeError::Text { .. }
            | ServeError::RejectsExist { .. }
            | ServeError::NothingImported { .. } => Fault::Settings,
            ServeError::RunAs(RunAsError::Data { .. }) => Fault::Data,
            ServeError::RunAs(_) => Fault::Settings,
            ServeError::Backup(error) => backup_fault(error),
            ServeError::Listen(_) | ServeError::Metrics { .. } => Fault::Listen,
            _ => Fault::Other,
        }
    }
}

impl ServeError {
    /// Returns true if changes that were already answered are missing or damaged. The administrator must then check the
    /// data.
    pub fn is_lost_data(&self) -> bool {
        let error = match self {
            ServeError::Open {
                error: directory::OpenError::Open(store::OpenError::DataFileMissing { .. }),
                ..
            } => {
                return true;
            }
            ServeError::Open {
                error: directory::OpenError::Open(store::OpenError::Store(error)), ..
            }
            | ServeError::Open { error: directory::OpenError::Store(error), .. }
            | ServeError::Store(error) => error,
            _ => return false,
        };
        matches!(error, store::StoreError::DamagedRedo { .. } | store::StoreError::RedoContradicted { .. })
    }
}

/// Returns true if a data directory could not be opened only because disk space, file descriptors or memory are
/// exhausted.
fn is_passing(error: &directory::OpenError) -> bool {
    use rustix::io::Errno;
    let is_exhausted = |code: i32| {
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN]
            .iter()
            .any(|errno| errno.raw_os_error() == code)
    };
    match error {
        directory::OpenError::Open(store::OpenError::File { source, .. }) => {
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
                || source.raw_os_error().is_some_and(is_exhausted)
        }
        directory::OpenError::Open(store::OpenError::Store(error)) | directory::OpenError::Store(error) => {
            match error {
                store::StoreError::DiskFull { .. } | store::StoreError::Exhausted { .. } => true,
                store::StoreError::Engine { code, .. } => is_exhausted(*code),
                _ => false,
            }
        }
        _ => false,
    }
}

fn backup_fault(error: &BackupError) -> Fault {
    use directory::backup::BackupError as DataError;
    match error {
        BackupError::Refused(_) | BackupError::Encrypted { .. } => Fault::Settings,
        BackupError::Data(DataError::Open(error)) if is_passing(error) => Fault::Other,
        BackupError::Data(DataError::Open(_)) | BackupError::Damaged { .. } => Fault::Data,
        _ => Fault::Other,
    }
}

fn import_fault(error: &directory::import::ImportError) -> Fault {
    use directory::import::ImportError;
    match error {
        ImportError::Open(error) if is_passing(error) => Fault::Other,
        ImportError::Open(directory::OpenError::Open(store::OpenError::InUse { .. })) => Fault::InUse,
        ImportError::UnknownSuffix { .. }
        | ImportError::NotEmpty { .. }
        | ImportError::WhichSuffix { .. } => Fault::Settings,
        ImportError::Open(_) | ImportError::Operation(_) | ImportError::Replica => Fault::Data,
        _ => Fault::Other,
    }
}

/// Error of loading entries before the start. No entry was added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The directory refused an entry.
    #[error("loading {dn:?}: {code}: {diagnostic}")]
    Refused {
        /// DN of the entry.
        dn: String,
        /// The result code.
        code: ResultCode,
        /// The diagnostic message for the administrator.
        diagnostic: String,
    },
    /// The data directory belongs to a cluster node. A start must not change the data of a node.
    #[error("the directory is a node of a cluster: load the entries while the server runs")]
    Node,
    /// There are more entries than a start can load.
    #[error("cannot load more than {LOAD_ENTRIES_MAX} entries at a start: use `pando import`")]
    TooMany,
}
