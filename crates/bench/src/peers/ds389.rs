//! 389 Directory Server (ns-slapd) with the bdb backend, as Debian packages it.
//!
//! The vendor's `dscreate` sets up instances in the system's folders. Instead, this module fills in the package's
//! template (`template-dse.ldif`), so that everything is in the given folder.
//!
//! The sources of the settings are Red Hat Directory Server's "Configuration and schema reference" and its guide to
//! performance tuning, which also document 389 DS. The settings:
//! - Caches: left to autotuning (`nsslapd-cache-autosize`, on by default), as the tuning guide recommends, based on the
//!   free memory at the start.
//! - `nsslapd-import-cache-autosize -1`: the default, half of the free memory for `ldif2db`.
//! - `nsslapd-threadnumber -1`: the default, autotuned to the machine.
//! - `nsslapd-db-durable-transaction on`: the default; every transaction is synced.
//! - `passwordStorageScheme SSHA` in place of PBKDF2, so that no server spends more time on hashing than another. For
//!   the same reason, a bind does not rewrite the stored password (`nsslapd-enable-upgrade-hash`).
//! - Access, security and audit log are off. No server of a comparison logs its operations, unless the workload
//!   requires it; then the access log is on.
//! - Indexes: those of the comparison replace the template's default indexes, except those that the server itself
//!   needs.
//! - Anonymous clients may read all attributes except userPassword, by an access control item in the suffix entry.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use ldap::ChangeOperation;

use super::blocks::Blocks;
use super::{
    BulkLoad, Data, IndexKind, Passwords, Peer, PeerError, Server, Setup, definitions, make_folder,
    must_exist, process, read_file, ssha, write_file,
};

/// Paths in Debian's packages.
const PROGRAM: &str = "/usr/sbin/ns-slapd";
const TEMPLATE: &str = "/usr/share/dirsrv/data/template-dse.ldif";
const FILES: [&str; 2] = ["/etc/dirsrv/config/slapd-collations.conf", "/etc/dirsrv/config/certmap.conf"];

const BACKEND: &str = "cn=userRoot,cn=ldbm database,cn=plugins,cn=config";
const READ_ACCESS: &str = "(targetattr!=\"userPassword\")(version 3.0; acl \"anonymous reads\"; \
                           allow (read, search, compare) userdn=\"ldap:///anyone\";)";
/// Maximum number of locks of the database. A group with millions of members needs more than the default of 10,000.
const LOCKS: &str = "100000";

/// ns-slapd in a folder.
pub struct Ds389 {
    folder: PathBuf,
    setup: Setup,
    product: String,
    is_open: bool,
}

impl Ds389 {
    /// Writes the configuration.
    ///
    /// # Errors
    /// 389 DS is not installed, the template does not have the expected form, or the folder cannot be written.
    pub fn configure(folder: &Path, setup: &Setup) -> Result<Ds389, PeerError> {
        must_exist(Path::new(PROGRAM))?;
        for name in ["config/schema", "db", "home", "log", "run", "lock", "bak", "ldif", "tmp"] {
            make_folder(&folder.join(name))?;
        }
        for file in FILES.map(Path::new) {
            let to = folder.join("config").join(file.file_name().unwrap_or_default());
            std::fs::copy(file, to).map_err(PeerError::io("copy", file))?;
        }
        let schema = definitions::as_ldif(setup.schema.as_deref().unwrap_or_default());
        write_file(&folder.join("config/schema/99user.ldif"), &schema)?;
        write_file(
            &folder.join("config/dse.ldif"),
            &configuration(&read_file(Path::new(TEMPLATE))?, folder, setup)?,
        )?;
        let (_, output) = process::output(Command::new(PROGRAM).arg("-v"))?;
        let product = format!("389 DS {}", version_in(&output).unwrap_or("of an unknown version"));
        Ok(Ds389 { folder: folder.to_owned(), setup: setup.clone(), product, is_open: false })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("ns-slapd.log")
    }

    fn command(&self, verb: Option<&str>) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(verb).arg("-D").arg(self.folder.join("config"));
        command
    }

    /// Adds the access control item that allows anonymous clients to read, if the suffix entry exists.
    fn open_for_reading(&self, server: &Server) -> Result<bool, PeerError> {
        let mut connection = server.bound(&self.setup.admin_dn, &self.setup.admin_password)?;
        let done = connection.modify(&self.setup.suffix, &[(ChangeOperation::Add, "aci", &[READ_ACCESS])]);
        match done {
            Ok(outcome) if outcome.is_success() => Ok(true),
            // The suffix entry may not exist yet, in a test that loads no data or loads it over LDAP.
            Ok(outcome) if outcome.code == ldap::ResultCode::NO_SUCH_OBJECT => Ok(false),
            Ok(outcome) => Err(PeerError::Answer(format!(
                "{}: access control: {} {}",
                self.product, outcome.code, outcome.diagnostic
            ))),
            Err(error) => Err(PeerError::Answer(format!("{}: access control: {error}", self.product))),
        }
    }
}

impl Peer for Ds389 {
    fn product(&self) -> &str {
        &self.product
    }

    fn settings(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            text("database", "bdb"),
            text("caches", "autotuned (nsslapd-cache-autosize, nsslapd-import-cache-autosize)"),
            text("threads", "autotuned (nsslapd-threadnumber -1)"),
            text("durability", "every transaction synced (nsslapd-db-durable-transaction on)"),
            text("locks", LOCKS),
            text("password scheme", self.setup.password_scheme()),
            text("operation log", self.setup.on_or_off()),
            text("access control", "anonymous reads, userPassword excepted"),
            text("limits", "none for the administrator"),
        ]
    }

    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError> {
        let mut command = self.command(Some("ldif2db"));
        command.args(["-n", "userRoot", "-i"]).arg(&data.path);
        let cost = process::run(&command, &self.log(), process::data_time_max(data.bytes))?;
        // The server writes its messages to its own log.
        let output = process::end_of(&self.folder.join("log/errors"));
        data.must_be_loaded(imported_in(&output), &format!("{}: ldif2db", self.product), &output)?;
        let disk_bytes = process::disk_bytes(&self.folder.join("db"));
        Ok(BulkLoad { command: "ns-slapd ldif2db".to_owned(), cost, disk_bytes })
    }

    fn start_at(&mut self, address: SocketAddr) -> Result<Server, PeerError> {
        let file = self.folder.join("config/dse.ldif");
        let mut blocks = Blocks::parse(&read_file(&file)?);
        blocks.set(&file, "cn=config", &[("nsslapd-port", &address.port().to_string())])?;
        write_file(&file, &blocks.text())?;
        let mut command = self.command(None);
        // `-d` runs the server in the foreground.
        command.arg("-i").arg(self.folder.join("run/pid")).args(["-d", "0"]);
        let cores = &self.setup.server_cores;
        let server = Server::start(&self.product, &command, &self.log(), address, cores)?;
        if !self.is_open {
            self.is_open = self.open_for_reading(&server)?;
        }
        Ok(server)
    }

    fn export(&mut self, ldif: &Path) -> Result<Option<process::Cost>, PeerError> {
        let mut command = self.command(Some("db2ldif"));
        command.args(["-n", "userRoot", "-a"]).arg(ldif);
        process::run(&command, &self.log(), process::data_time_max(self.setup.ldif_bytes)).map(Some)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

fn configuration(template: &str, folder: &Path, setup: &Setup) -> Result<String, PeerError> {
    let mut text = template.to_owned();
    let inside = |name: &str| folder.join(name).display().to_string();
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    for (name, value) in [
        ("schema_dir", inside("config/schema")),
        ("config_dir", inside("config")),
        ("cert_dir", inside("config")),
        ("lock_dir", inside("lock")),
        ("tmp_dir", inside("tmp")),
        ("ldif_dir", inside("ldif")),
        ("bak_dir", inside("bak")),
        ("run_dir", inside("run")),
        ("log_dir", inside("log")),
        ("db_dir", inside("db")),
        ("db_home_dir", inside("home")),
        ("inst_dir", folder.display().to_string()),
        ("ldapi", inside("run/ldapi")),
        ("ldapi_enabled", "off".to_owned()),
        ("ldapi_autobind", "off".to_owned()),
        ("db_lib", "bdb".to_owned()),
        ("fqdn", "localhost".to_owned()),
        ("ds_port", "389".to_owned()),
        ("ds_user", user),
        ("ds_suffix", setup.suffix.clone()),
        ("rootdn", setup.admin_dn.clone()),
        ("ds_passwd", ssha(setup.admin_password.as_bytes(), *b"comparer")),
    ] {
        text = text.replace(&format!("%{name}%"), &value);
    }
    let mut blocks = Blocks::parse(&text);
    set_options(&mut blocks, setup)?;
    blocks.remove(|dn, lines| {
        dn.contains("cn=default indexes") && lines.iter().any(|line| line == "nssystemindex: false")
    });
    add_backend(&mut blocks, folder, setup);
    Ok(blocks.text())
}

fn set_options(blocks: &mut Blocks, setup: &Setup) -> Result<(), PeerError> {
    let file = Path::new(TEMPLATE);
    blocks.set(
        file,
        "cn=config",
        &[
            ("nsslapd-listenhost", "127.0.0.1"),
            ("nsslapd-rootpwstoragescheme", "SSHA"),
            ("passwordStorageScheme", if setup.passwords == Passwords::Clear { "CLEAR" } else { "SSHA" }),
            ("nsslapd-accesslog-logging-enabled", setup.on_or_off()),
            ("nsslapd-securitylog-logging-enabled", "off"),
            ("nsslapd-auditlog-logging-enabled", "off"),
            ("nsslapd-sizelimit", "-1"),
            ("nsslapd-timelimit", "-1"),
        ],
    )?;
    blocks.set(file, "cn=config,cn=ldbm database,cn=plugins,cn=config", &[("nsslapd-db-locks", LOCKS)])
}

/// Adds the backend of the suffix, with its indexes.
fn add_backend(blocks: &mut Blocks, folder: &Path, setup: &Setup) {
    let top = ("objectclass", "top");
    let directory = folder.join("db/userRoot").display().to_string();
    let entry_cache = entry_cache_bytes(setup).to_string();
    blocks.add(
        BACKEND,
        [
            top,
            ("objectclass", "extensibleObject"),
            ("objectclass", "nsBackendInstance"),
            ("cn", "userRoot"),
            ("nsslapd-suffix", &setup.suffix),
            ("nsslapd-directory", &directory),
            ("nsslapd-cachememsize", &entry_cache),
        ],
    );
    let index_folder = format!("cn=index,{BACKEND}");
    blocks.add(&index_folder, [top, ("objectclass", "extensibleObject"), ("cn", "index")]);
    for index in &setup.indexes {
        let attribute = &index.attribute;
        let kinds = index.kinds.iter().filter_map(|kind| index_word(*kind));
        let kinds = kinds.map(|word| ("nsindextype", word));
        let values = [top, ("objectclass", "nsIndex"), ("cn", attribute), ("nssystemindex", "false")];
        blocks.add(&format!("cn={attribute},{index_folder}"), values.into_iter().chain(kinds));
    }
    let quoted = format!("\"{}\"", setup.suffix);
    blocks.add(
        &format!("cn={quoted},cn=mapping tree,cn=config"),
        [
            top,
            ("objectclass", "extensibleObject"),
            ("objectclass", "nsMappingTree"),
            ("cn", &setup.suffix),
            ("cn", &quoted),
            ("nsslapd-state", "backend"),
            ("nsslapd-backend", "userRoot"),
        ],
    );
}

/// Returns the size of the entry cache for the loader: a tenth of the memory, which is about the result of autotuning.
/// Autotuning stores the size when the server starts, and `dscreate` starts each new server once. Without a stored
/// size, the loader would use the minimum of 512,000 octets. The loader derives the length of the queue between its
/// threads from the size, and with the minimum its threads would sleep nearly all the time. The server overwrites the
/// value when it starts.
fn entry_cache_bytes(setup: &Setup) -> u64 {
    (setup.memory_bytes / 10).max(1 << 28)
}

fn index_word(kind: IndexKind) -> Option<&'static str> {
    match kind {
        // The equality index also answers ordering filters, for types with an ordering rule.
        IndexKind::Equality | IndexKind::Ordering => Some("eq"),
        IndexKind::Presence => Some("pres"),
        IndexKind::Substring => Some("sub"),
        IndexKind::Approximate => Some("approx"),
    }
}

/// Parses the version from the output. The output has the line `389 Project`, and a line with `389-Directory/2.3.1
/// B2025...`.
fn version_in(output: &str) -> Option<&str> {
    output.split_once("389-Directory/")?.1.split_whitespace().next()
}

/// Parses the number of entries from `... Import complete. Processed 2002 entries in 9 seconds. (222.44 entries/sec)`.
fn imported_in(output: &str) -> Option<u64> {
    output.rsplit_once("Import complete.  Processed ")?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL_TEMPLATE: &str = "dn: cn=config\ncn: config\nnsslapd-schemadir: %schema_dir%\n\
        nsslapd-rootdn: %rootdn%\n\n\
        dn: cn=config,cn=ldbm database,cn=plugins,cn=config\nnsslapd-directory: %db_dir%\n\n\
        dn: cn=sn,cn=default indexes, cn=config,cn=ldbm database,cn=plugins,cn=config\nnssystemindex: false\n\n\
        dn: cn=parentid,cn=default indexes, cn=config,cn=ldbm database,cn=plugins,cn=config\nnssystemindex: true\n";

    #[test]
    fn the_configuration_template_is_filled_with_the_setup() {
        let indexes = vec!["cn:equality,substring".parse().unwrap()];
        let setup = Setup::new("dc=example,dc=com", indexes, 0);
        let text = configuration(SMALL_TEMPLATE, Path::new("/f"), &setup).unwrap();
        assert!(!text.contains('%') && !text.contains("cn=sn,"), "{text}");
        for part in [
            "nsslapd-schemadir: /f/config/schema\n",
            "nsslapd-rootdn: cn=admin,dc=example,dc=com\n",
            "dn: cn=parentid,",
            "passwordStorageScheme: SSHA\n",
            "cn: cn\nnssystemindex: false\nnsindextype: eq\nnsindextype: sub\n",
            "dn: cn=\"dc=example,dc=com\",cn=mapping tree,cn=config\n",
            // This setting reduces the time of the loader from minutes to seconds.
            &format!("nsslapd-cachememsize: {}\n", entry_cache_bytes(&setup)),
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        let error = configuration("dn: cn=other\n", Path::new("/f"), &setup).unwrap_err();
        assert!(error.to_string().contains("cn=config"), "{error}");
    }

    #[test]
    fn version_and_import_count_are_parsed() {
        assert_eq!(version_in("389 Project\n389-Directory/2.3.1 B2025.016.1616\n"), Some("2.3.1"));
        let output = "x Import complete.  Processed 2002 entries in 9 seconds. (222.44 entries/sec)\n";
        assert_eq!(imported_in(output), Some(2002));
        assert_eq!(imported_in("nothing"), None);
    }
}
