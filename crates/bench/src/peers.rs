//! Directory servers to compare with each other: each configured, loaded, started and stopped the same way.
//!
//! A [`Peer`] is one product in a folder of its own. What all of them get alike is in a [`Setup`]: suffix,
//! administrator, indexes, schema additions, cores; each peer's file says in its comments what else it sets and where
//! its vendor recommends that (`docs/how-to/peers.md` has the same as a table). [`Data`] is generated once and given to
//! every server's own bulk loader, whose cost is measured ([`process`]); [`answers`] asks all servers the same and
//! tells what differs.
//!
//! Everything runs on loopback, on ports that were free a moment before, as the user who asks; nothing is left behind
//! but what the caller's folder keeps.

pub mod answers;
mod blocks;
pub mod comparison;
mod data;
mod definitions;
pub mod done;
mod ds389;
mod fitted;
mod loading;
pub mod measure;
mod opendj;
mod openldap;
mod pando;
pub mod process;
pub mod ratios;
mod replicas;
pub mod under_load;
mod warmth;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;

use strum::{EnumString, IntoStaticStr};

use crate::workload::Workload;
pub use data::{Data, DataError};
pub use ds389::Ds389;
pub use loading::{Product, Programs, Room, configure, description, export, load_result, room};
pub use opendj::OpenDj;
pub use openldap::{Amendments, OpenLdap, SyncreplRole};
pub use pando::Pando;
pub use process::{Cost, Server};
pub use replicas::Replicas;

/// What a filter asks of an attribute, that an index may answer; read by its word, or by OpenLDAP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
pub enum IndexKind {
    /// `(a=v)`
    #[strum(to_string = "equality", serialize = "eq")]
    Equality,
    /// `(a=*)`
    #[strum(to_string = "presence", serialize = "pres")]
    Presence,
    /// `(a=v*)`, `(a=*v*)`
    #[strum(to_string = "substring", serialize = "sub")]
    Substring,
    /// `(a>=v)`, `(a<=v)`
    #[strum(to_string = "ordering", serialize = "ord")]
    Ordering,
    /// `(a~=v)`
    #[strum(to_string = "approximate", serialize = "approx")]
    Approximate,
}

impl IndexKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An attribute that every server indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub attribute: String,
    /// What for; never empty.
    pub kinds: Vec<IndexKind>,
}

/// As `cn:equality,substring` or `cn:eq,sub`; without kinds, equality.
impl FromStr for Index {
    type Err = String;

    fn from_str(text: &str) -> Result<Index, String> {
        let (attribute, kinds) = text.split_once(':').unwrap_or((text, "equality"));
        if attribute.is_empty() {
            return Err(format!("'{text}' names no attribute; write as cn:equality,substring"));
        }
        let kind = |name: &str| {
            name.trim().parse().map_err(|_| {
                format!(
                    "'{name}' is no kind of index: equality, presence, substring, ordering or approximate"
                )
            })
        };
        let kinds = kinds.split(',').map(kind).collect::<Result<_, _>>()?;
        Ok(Index { attribute: attribute.to_owned(), kinds })
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
        write!(f, "{}:{}", self.attribute, kinds.join(","))
    }
}

/// Both lists' indexes, each attribute once.
pub fn merge_indexes(mut all: Vec<Index>, more: &[Index]) -> Vec<Index> {
    for index in more {
        match all.iter_mut().find(|known| known.attribute.eq_ignore_ascii_case(&index.attribute)) {
            None => all.push(index.clone()),
            Some(known) => {
                known.kinds.extend(&index.kinds);
                known.kinds.sort_unstable();
                known.kinds.dedup();
            }
        }
    }
    all
}

/// How passwords are stored in the data, the same on all servers. New ones are stored as {SSHA}, or in clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr)]
pub enum Passwords {
    /// {SSHA}: one round of SHA-1, which costs a server next to nothing.
    #[default]
    #[strum(serialize = "{SSHA}")]
    Salted,
    /// As they are, for mechanisms that compute with the password itself.
    #[strum(serialize = "clear")]
    Clear,
    /// {CRYPT} with SHA-512 and its default of 5,000 rounds: slow on purpose, and the one slow form that all of the
    /// servers verify.
    #[strum(serialize = "{CRYPT}, SHA-512 of 5,000 rounds")]
    Slow,
}

/// What all servers of a comparison get alike.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The tree's root.
    pub suffix: String,
    /// The administrator: whom the load binds as. Below the suffix, because slapd wants it there; no entry.
    pub admin_dn: String,
    /// The administrator's password.
    pub admin_password: String,
    /// The indexes, and no others but what a server needs for itself.
    pub indexes: Vec<Index>,
    /// Definitions that the data needs beyond standard schema, in OpenLDAP's form.
    pub schema: Option<String>,
    /// How passwords are stored.
    pub passwords: Passwords,
    /// A line is logged for every operation.
    pub operation_log: bool,
    /// Every operation is in an audit trail, where a server has one that is not its operation log.
    pub audit: bool,
    /// Load comes over TLS: a server without a certificate gets one.
    pub tls: bool,
    /// The cores that a server runs on; every core if empty. Bulk loaders run on all.
    pub server_cores: Vec<usize>,
    /// The size of the data as LDIF, from which memory and map sizes are derived where a server wants to be told.
    pub ldif_bytes: u64,
    /// The machine's memory.
    pub memory_bytes: u64,
}

impl Setup {
    /// For a tree; `cn=admin` below it is the administrator.
    pub fn new(suffix: &str, indexes: Vec<Index>, ldif_bytes: u64) -> Setup {
        Setup {
            suffix: suffix.to_owned(),
            admin_dn: format!("cn=admin,{suffix}"),
            admin_password: "peers-password".to_owned(),
            indexes,
            schema: None,
            passwords: Passwords::Salted,
            operation_log: false,
            audit: false,
            tls: false,
            server_cores: Vec::new(),
            ldif_bytes,
            memory_bytes: process::memory_bytes(),
        }
    }
}

impl Setup {
    fn on_or_off(&self) -> &'static str {
        if self.operation_log { "on" } else { "off" }
    }

    fn password_scheme(&self) -> &'static str {
        self.passwords.into()
    }
}

/// What a bulk load cost.
#[derive(Clone, Debug)]
pub struct BulkLoad {
    /// The loader's command, without paths.
    pub command: String,
    /// Time, CPU, memory.
    pub cost: Cost,
    /// What the data takes on disk then, indexes included.
    pub disk_bytes: u64,
}

/// A product, configured in a folder of its own.
pub trait Peer {
    /// Product and version: `OpenLDAP 2.5.13`.
    fn product(&self) -> &str;

    /// What is set on it, for the result.
    fn settings(&self) -> Vec<(String, String)>;

    /// Loads a file into the empty server by the server's own bulk loader, offline.
    ///
    /// # Errors
    /// When the loader fails, or takes less than the whole file.
    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError>;

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// When it ends instead, or does not answer for minutes.
    fn start(&mut self) -> Result<Server, PeerError>;

    /// Whether it has to be started again before this workload, which needs what is said at a start.
    fn wants_start(&mut self, _workload: &Workload) -> bool {
        false
    }

    /// Sets the running server to what the workload needs.
    ///
    /// # Errors
    /// When it refuses.
    fn set_for(&mut self, _workload: &Workload, _server: &Server) -> Result<(), PeerError> {
        Ok(())
    }

    /// Whether it is slow for the first seconds after each start, because it compiles what it runs.
    fn needs_warm_up(&self) -> bool {
        false
    }

    /// Writes its data as LDIF by its own tool, offline, if it has one that we drive.
    ///
    /// # Errors
    /// When the tool fails.
    fn export(&mut self, _ldif: &Path) -> Result<Option<Cost>, PeerError> {
        Ok(None)
    }

    /// Where its data is, to be removed when the server is done with.
    fn folder(&self) -> &Path;
}

/// Why a peer cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It is not installed.
    #[error("{0} is not here: ./dev peers installs slapd, 389 DS and OpenDJ")]
    Missing(PathBuf),
    /// A file or process cannot be handled.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// One of its tools failed.
    #[error("{command} failed ({status}); the end of its output:\n{said}")]
    Failed {
        /// The tool.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        said: String,
    },
    /// One of its tools took too long, and was ended.
    #[error("{command} was ended after {seconds} s, which is too long; the end of its output:\n{said}")]
    TooSlow {
        /// The tool.
        command: String,
        /// How long it was waited for.
        seconds: u64,
        /// Its last lines.
        said: String,
    },
    /// It ended instead of serving.
    #[error("{product} ended when it was started ({status}); the end of its output:\n{said}")]
    Ended {
        /// Which.
        product: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        said: String,
    },
    /// It runs, and does not answer.
    #[error("{product} does not answer after {seconds} s; the end of its output:\n{said}")]
    Silent {
        /// Which.
        product: String,
        /// How long it was asked.
        seconds: u64,
        /// Its last lines.
        said: String,
    },
    /// It answered what it should not.
    #[error("{0}")]
    Answer(String),
    /// Its configuration is not of the form that we know.
    #[error("{file}: {missing} is not there; another version than we know?")]
    Form {
        /// The file.
        file: PathBuf,
        /// What was looked for.
        missing: String,
    },
}

impl PeerError {
    /// For `map_err`.
    pub(crate) fn io<'w>(what: &'w str, path: &'w Path) -> impl FnOnce(io::Error) -> PeerError + use<'w> {
        move |error| PeerError::Io { what: format!("{what} {}", path.display()), error }
    }
}

/// A loopback address on which no process listens at this moment.
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr, PeerError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| PeerError::Io { what: "a free port".to_owned(), error })
}

/// `{SSHA}` of a password (RFC 2307 section 5.3, salted), which all of the servers here verify as it is.
pub(crate) fn ssha(password: &[u8], salt: [u8; 8]) -> String {
    use base64::Engine;
    use sha1::Digest;
    let mut raw = sha1::Sha1::new().chain_update(password).chain_update(salt).finalize().to_vec();
    raw.extend_from_slice(&salt);
    format!("{{SSHA}}{}", base64::engine::general_purpose::STANDARD.encode(raw))
}

fn write_file(path: &Path, text: &str) -> Result<(), PeerError> {
    std::fs::write(path, text).map_err(PeerError::io("write", path))
}

fn read_file(path: &Path) -> Result<String, PeerError> {
    std::fs::read_to_string(path).map_err(PeerError::io("read", path))
}

fn make_folder(path: &Path) -> Result<(), PeerError> {
    std::fs::create_dir_all(path).map_err(PeerError::io("make", path))
}

fn must_exist(path: &Path) -> Result<(), PeerError> {
    if path.exists() { Ok(()) } else { Err(PeerError::Missing(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_merged() {
        let index: Index = "cn:equality,substring".parse().unwrap();
        assert_eq!(index.to_string(), "cn:equality,substring");
        assert_eq!("cn:eq,sub".parse(), Ok(index.clone()));
        assert_eq!("uid".parse::<Index>().unwrap().to_string(), "uid:equality");
        assert!("cn:equal".parse::<Index>().unwrap_err().contains("'equal' is no kind"));
        assert!(":equality".parse::<Index>().is_err());
        let merged =
            merge_indexes(vec![index], &["CN:presence,equality".parse().unwrap(), "sn".parse().unwrap()]);
        let text: Vec<_> = merged.iter().map(Index::to_string).collect();
        assert_eq!(text, ["cn:equality,presence,substring", "sn:equality"]);
    }

    #[test]
    fn ssha_is_as_others_compute_it() {
        // openssl: SHA-1 of "secret12" and the salt "abcdefgh".
        assert_eq!(ssha(b"secret12", *b"abcdefgh"), "{SSHA}QGJnOY3Hwpbyx6Wjt2fvh5mleURhYmNkZWZnaA==");
    }
}
