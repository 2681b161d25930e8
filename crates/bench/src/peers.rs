//! Directory servers for comparison, all configured, loaded, started and stopped in the same way.
//!
//! A [`Peer`] is one product in its own folder. A [`Setup`] contains the common settings: suffix, administrator,
//! indexes, schema additions, cores. The comments in each peer's file list the peer's other settings, with the vendor's
//! recommendation if there is one. `docs/how-to/peers.md` has these settings as a table. [`Data`] is generated once and
//! given to every server's own bulk loader, whose cost is measured ([`process`]). [`answers`] sends the same searches
//! to all servers and reports differences.
//!
//! All servers run on loopback, on free ports, as the user who runs the comparison. Afterwards, files remain only in
//! the folder that the caller names.

mod adapted;
pub mod answers;
mod blocks;
pub mod comparison;
mod data;
mod definitions;
pub mod done;
mod ds389;
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

/// Kind of filter that an index may answer. It can be parsed from the name that Pando or OpenLDAP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
pub enum IndexKind {
    /// `(a=v)`
    #[strum(to_string = "equality", serialize = "eq")]
    Equality,
    /// `(a=*)`
    #[strum(to_string = "presence", serialize = "pres")]
    Presence,
    /// `(a=v*)` and `(a=*v*)`
    #[strum(to_string = "substring", serialize = "sub")]
    Substring,
    /// `(a>=v)` and `(a<=v)`
    #[strum(to_string = "ordering", serialize = "ord")]
    Ordering,
    /// `(a~=v)` (approximate match)
    #[strum(to_string = "approximate", serialize = "approx")]
    Approximate,
}

impl IndexKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An attribute that every server indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Name of the attribute.
    pub attribute: String,
    /// Kinds of filters; never empty.
    pub kinds: Vec<IndexKind>,
}

/// Parses `cn:equality,substring` or `cn:eq,sub`. If there are no kinds, as in `cn`, the index is an equality index.
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

/// Merges the indexes of both lists, with one index per attribute.
pub fn merge_indexes(mut all: Vec<Index>, more: &[Index]) -> Vec<Index> {
    for index in more {
        match all.iter_mut().find(|existing| existing.attribute.eq_ignore_ascii_case(&index.attribute)) {
            None => all.push(index.clone()),
            Some(existing) => {
                existing.kinds.extend(&index.kinds);
                existing.kinds.sort_unstable();
                existing.kinds.dedup();
            }
        }
    }
    all
}

/// Storage form of passwords in the data, the same on all servers. New passwords are stored as {SSHA} on all servers,
/// or in clear text with [`Clear`](Passwords::Clear).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr)]
pub enum Passwords {
    /// {SSHA}: one round of SHA-1, which costs a server almost no time.
    #[default]
    #[strum(serialize = "{SSHA}")]
    Salted,
    /// Clear text, for SASL mechanisms that need the password itself.
    #[strum(serialize = "clear")]
    Clear,
    /// {CRYPT} with SHA-512 and its default of 5,000 rounds: slow on purpose. It is the only slow form that all servers
    /// can verify.
    #[strum(serialize = "{CRYPT}, SHA-512 of 5,000 rounds")]
    Slow,
}

/// Common setup of all servers of a comparison.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The suffix.
    pub suffix: String,
    /// DN of the administrator. The load binds with this DN. The DN has no entry, and is below the suffix because slapd
    /// requires that.
    pub admin_dn: String,
    /// The administrator's password.
    pub admin_password: String,
    /// The indexes. Servers have no other indexes, except the indexes that they need themselves.
    pub indexes: Vec<Index>,
    /// Definitions that the data needs in addition to the standard schema, in OpenLDAP's form.
    pub schema: Option<String>,
    /// Storage form of passwords.
    pub passwords: Passwords,
    /// Whether the servers log a line for every operation.
    pub operation_log: bool,
    /// Whether the server records every operation in its audit trail, if it has an audit trail.
    pub audit: bool,
    /// Whether the load uses TLS. If so, a server without a certificate receives one.
    pub tls: bool,
    /// Numbers of the cores on which the server runs; all cores if empty. Bulk loaders run on all cores.
    pub server_cores: Vec<usize>,
    /// Size of the data as LDIF, in bytes. The memory and map-size settings of some servers are derived from it.
    pub ldif_bytes: u64,
    /// Memory of the machine.
    pub memory_bytes: u64,
}

impl Setup {
    /// Creates the setup of a suffix. The administrator is `cn=admin` below it.
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

/// Cost of a bulk load.
#[derive(Clone, Debug)]
pub struct BulkLoad {
    /// The loader's command, without paths.
    pub command: String,
    /// Time, CPU time and memory.
    pub cost: Cost,
    /// Size of the loaded data on disk, indexes included.
    pub disk_bytes: u64,
}

/// A server product, configured in its own folder.
pub trait Peer {
    /// Returns product and version: `OpenLDAP 2.5.13`.
    fn product(&self) -> &str;

    /// Returns the settings, for the result.
    fn settings(&self) -> Vec<(String, String)>;

    /// Loads a file into the empty server with the server's own bulk loader, offline.
    ///
    /// # Errors
    /// The loader fails, or does not load the whole file.
    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError>;

    /// Starts the server on an address, and waits until it answers.
    ///
    /// # Errors
    /// The server ends, or does not answer for minutes.
    fn start_at(&mut self, address: SocketAddr) -> Result<Server, PeerError>;

    /// Starts the server on a free address.
    /// # Errors
    /// The same as for [`start_at`](Peer::start_at), or no address is free.
    fn start(&mut self) -> Result<Server, PeerError> {
        self.start_at(free_address()?)
    }

    /// Returns true if the server must be restarted before this workload, because the workload needs a setting that
    /// takes effect only at a start.
    fn wants_start(&mut self, _workload: &Workload) -> bool {
        false
    }

    /// Configures the running server for the workload.
    ///
    /// # Errors
    /// The server refuses.
    fn set_for(&mut self, _workload: &Workload, _server: &Server) -> Result<(), PeerError> {
        Ok(())
    }

    /// Returns true if the server is slow for the first seconds after each start, because it compiles its code.
    fn needs_warm_up(&self) -> bool {
        false
    }

    /// Writes the server's data as LDIF with its own tool, offline. Returns `None` if there is no usable tool.
    ///
    /// # Errors
    /// The tool fails.
    fn export(&mut self, _ldif: &Path) -> Result<Option<Cost>, PeerError> {
        Ok(None)
    }

    /// Returns the folder of the server's data. The folder is removed when the server is no longer needed.
    fn folder(&self) -> &Path;
}

/// Reason why a peer cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The product is not installed.
    #[error("{0} is not here: ./dev peers installs slapd, 389 DS and OpenDJ")]
    Missing(PathBuf),
    /// A file or process cannot be handled.
    #[error("{what}: {error}")]
    Io {
        /// Action that failed.
        what: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A tool of the product failed.
    #[error("{command} failed ({status}); the end of its output:\n{output}")]
    Failed {
        /// The tool.
        command: String,
        /// Exit status.
        status: ExitStatus,
        /// Last lines of the output.
        output: String,
    },
    /// A tool of the product took too long and was ended.
    #[error("{command} was ended after {seconds} s, which is too long; the end of its output:\n{output}")]
    TooSlow {
        /// The tool.
        command: String,
        /// Time after which the tool was ended.
        seconds: u64,
        /// Last lines of the output.
        output: String,
    },
    /// The server ended before it accepted connections.
    #[error("{product} ended when it was started ({status}); the end of its output:\n{output}")]
    Ended {
        /// Name and version.
        product: String,
        /// Exit status.
        status: ExitStatus,
        /// Last lines of the output.
        output: String,
    },
    /// The server runs, but does not answer.
    #[error("{product} does not answer after {seconds} s; the end of its output:\n{output}")]
    Silent {
        /// Name and version.
        product: String,
        /// Time after which the driver gave up.
        seconds: u64,
        /// Last lines of the output.
        output: String,
    },
    /// The server's answer is wrong.
    #[error("{0}")]
    Answer(String),
    /// The product's configuration file does not have the expected form.
    #[error("{file}: {missing} is not there; another version than we know?")]
    Form {
        /// The file.
        file: PathBuf,
        /// Text that was not found.
        missing: String,
    },
}

impl PeerError {
    /// Returns a conversion for `map_err`.
    pub(crate) fn io<'w>(what: &'w str, path: &'w Path) -> impl FnOnce(io::Error) -> PeerError + use<'w> {
        move |error| PeerError::Io { what: format!("{what} {}", path.display()), error }
    }
}

/// Returns a loopback address on which no process listens at present.
///
/// # Errors
/// No port is free.
pub fn free_address() -> Result<SocketAddr, PeerError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| PeerError::Io { what: "a free port".to_owned(), error })
}

/// Returns the `{SSHA}` hash of a password (RFC 2307 section 5.3, salted), a form that all servers can verify.
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
    fn indexes_are_parsed_and_merged() {
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
    fn ssha_matches_the_result_of_openssl() {
        // Computed with openssl: SHA-1 of "secret12" and the salt "abcdefgh".
        assert_eq!(ssha(b"secret12", *b"abcdefgh"), "{SSHA}QGJnOY3Hwpbyx6Wjt2fvh5mleURhYmNkZWZnaA==");
    }
}
