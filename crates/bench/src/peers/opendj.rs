//! OpenDJ (Open Identity Platform) with the Berkeley DB Java Edition backend, from Maven Central.
//!
//! An instance is a copy of the unpacked folder that `./dev peers` creates. OpenDJ's own `setup` configures the copy.
//! Settings that `setup` does not support are then written to `config/config.ldif` and `config/java.properties`, while
//! the server is stopped.
//!
//! The sources of the settings are the OpenDJ Administration Guide, chapter on tuning servers for performance, and the
//! configuration reference. The settings:
//! - JVM: `-server`, `-Xms` equal to `-Xmx`; a quarter of the memory, at least 2 GiB, so that all servers of a
//!   comparison fit into memory. G1 is set explicitly, because a JVM with one core would use the serial collector,
//!   which the guide advises against for servers.
//! - `db-cache-percent 60`: the default of 50 is for heaps up to 2 GiB; the guide allows more for larger heaps.
//! - `db-txn-write-no-sync false`: every transaction is synced. With the default of true, a crash may lose acknowledged
//!   changes of up to a second. Every server of a comparison syncs before it answers.
//! - Both access loggers are off. No server of a comparison logs its operations, unless the workload requires it; then
//!   the file-based logger is on.
//! - Salted SHA-1 is the default scheme, and is set explicitly.
//! - No size, time and look-through limits, as for every server of a comparison.
//! - Indexes: those of the comparison replace the default indexes, except those that the server itself needs. The index
//!   entry limit is the default.
//! - `import-ldif` offline, with half of the memory as its heap: the guide recommends as much memory as possible.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::blocks::Blocks;
use super::{
    BulkLoad, Data, Passwords, Peer, PeerError, Server, Setup, definitions, free_address, must_exist,
    process, read_file, write_file,
};

const BACKEND: &str = "ds-cfg-backend-id=userRoot,cn=Backends,cn=config";
const REPLICATION: &str = "cn=Multimaster Synchronization,cn=Synchronization Providers,cn=config";
/// Indexes that the server itself needs. The server reports errors if an index is missing.
const OWN_INDEXES: [&str; 5] = ["aci", "ds-sync-conflict", "ds-sync-hist", "entryUUID", "objectClass"];
const CACHE_PERCENT: &str = "60";

/// OpenDJ in a folder.
pub struct OpenDj {
    folder: PathBuf,
    setup: Setup,
    product: String,
    administration: Option<SocketAddr>,
}

impl OpenDj {
    /// Copies the pristine folder and sets the copy up.
    ///
    /// # Errors
    /// OpenDJ is not installed, its setup fails, or its files do not have the expected form.
    pub fn configure(pristine: &Path, folder: &Path, setup: &Setup) -> Result<OpenDj, PeerError> {
        OpenDj::must_be_installed(pristine)?;
        copy_folder(pristine, folder)?;
        let peer = OpenDj {
            folder: folder.to_owned(),
            setup: setup.clone(),
            product: String::new(),
            administration: None,
        };
        let port = |address: SocketAddr| address.port().to_string();
        let mut command = Command::new(folder.join("setup"));
        command.args(["--cli", "--no-prompt", "--doNotStart", "--acceptLicense", "--noPropertiesFile"]);
        command.args(["--skipPortCheck", "--backendType", "je", "--hostname", "localhost"]);
        command.args(["--baseDN", &setup.suffix, "--rootUserDN", &setup.admin_dn]);
        command.args(["--rootUserPassword", &setup.admin_password]);
        command.args(["--ldapPort", &port(free_address()?), "--adminConnectorPort", &port(free_address()?)]);
        process::run(&command, &peer.log(), process::SETUP_MAX)?;
        let file = folder.join("config/config.ldif");
        write_file(&file, &configuration(&read_file(&file)?, &file, setup)?)?;
        write_file(&folder.join("config/java.properties"), &java_properties(setup))?;
        if let Some(schema) = &setup.schema {
            write_file(&folder.join("config/schema/99-user.ldif"), &definitions::as_ldif(schema))?;
        }
        let (_, output) = process::output(Command::new(folder.join("bin/start-ds")).arg("--version"))?;
        let product = format!("OpenDJ {}", version_in(&output).unwrap_or("of an unknown version"));
        Ok(OpenDj { product, ..peer })
    }

    /// Environment variable with the path of OpenDJ's unpacked folder. If the variable is not set, the folder is
    /// [`USUAL_FOLDER`](OpenDj::USUAL_FOLDER).
    pub const VARIABLE: &str = "PANDO_OPENDJ";
    /// Folder that `./dev peers` creates, relative to the current folder.
    pub const USUAL_FOLDER: &str = ".dev/peers/opendj";

    /// Returns the folder of OpenDJ that the environment names, or the usual folder.
    pub fn unpacked() -> PathBuf {
        std::env::var_os(OpenDj::VARIABLE).unwrap_or_else(|| OpenDj::USUAL_FOLDER.into()).into()
    }

    /// Checks that OpenDJ is installed.
    ///
    /// # Errors
    /// OpenDJ is missing; the error describes how to get it.
    pub fn must_be_installed(pristine: &Path) -> Result<(), PeerError> {
        must_exist(&pristine.join("setup"))
    }

    /// Returns the folder of the server's database.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("db/userRoot")
    }

    /// Enables replication of the suffix between this server and another server. Both servers must be started and have
    /// the same data. `dsreplication` needs a common administrator. Its name is `replication`, and its password is the
    /// administrator's password in the setup.
    ///
    /// # Errors
    /// The servers are not started, or the tool fails.
    pub(super) fn enable_replication(&self, other: &OpenDj) -> Result<(), PeerError> {
        let mut command = Command::new(self.folder.join("bin/dsreplication"));
        command.args(["enable", "--no-prompt", "--trustAll", "--noPropertiesFile", "--skipPortCheck"]);
        command.args(["--baseDN", &self.setup.suffix, "--adminUID", "replication"]);
        command.args(["--adminPassword", &self.setup.admin_password]);
        for (peer, number) in [(self, 1), (other, 2)] {
            let address = peer.administration;
            let address =
                address.ok_or_else(|| PeerError::Answer(format!("{} is not started", self.product)))?;
            let option = |name: &str| format!("--{name}{number}");
            command.args([
                option("host"),
                "localhost".to_owned(),
                option("port"),
                address.port().to_string(),
            ]);
            command.args([option("bindDN"), peer.setup.admin_dn.clone()]);
            command.args([option("bindPassword"), peer.setup.admin_password.clone()]);
            command.args([option("replicationPort"), free_address()?.port().to_string()]);
        }
        process::run(&command, &self.log(), process::SETUP_MAX).map(drop)
    }

    /// Makes the server a replication server of its own suffix, so that it has an external change log. Call this
    /// before the start.
    ///
    /// # Errors
    /// The configuration file has an unknown form, or no address is free.
    pub fn keep_changes(&self) -> Result<(), PeerError> {
        let (file, mut blocks) = self.configuration()?;
        let port = free_address()?.port().to_string();
        let own = format!("127.0.0.1:{port}");
        blocks.add(
            &format!("cn=replication server,{REPLICATION}"),
            [
                ("objectClass", "top"),
                ("objectClass", "ds-cfg-replication-server"),
                ("cn", "replication server"),
                ("ds-cfg-replication-port", &port),
                ("ds-cfg-replication-server-id", "1"),
                ("ds-cfg-replication-db-directory", "changelogDb"),
                ("ds-cfg-replication-server", &own),
            ],
        );
        blocks.add(
            &format!("cn=suffix,cn=domains,{REPLICATION}"),
            [
                ("objectClass", "top"),
                ("objectClass", "ds-cfg-replication-domain"),
                ("cn", "suffix"),
                ("ds-cfg-base-dn", &self.setup.suffix),
                ("ds-cfg-server-id", "2"),
                ("ds-cfg-replication-server", &own),
            ],
        );
        write_file(&file, &blocks.text())
    }

    /// Returns the configuration file and its entries.
    fn configuration(&self) -> Result<(PathBuf, Blocks), PeerError> {
        let file = self.folder.join("config/config.ldif");
        let blocks = Blocks::parse(&read_file(&file)?);
        Ok((file, blocks))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("opendj.log")
    }
}

impl Peer for OpenDj {
    fn product(&self) -> &str {
        &self.product
    }

    fn settings(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            text("database", "je"),
            ("Java".to_owned(), server_arguments(&self.setup)),
            ("Java of the loader".to_owned(), loader_arguments(&self.setup)),
            text("database cache", &format!("{CACHE_PERCENT}% of the heap")),
            text("durability", "every transaction synced (db-txn-write-no-sync false)"),
            text("password scheme", self.setup.password_scheme()),
            text("operation log", self.setup.on_or_off()),
            text("access control", "as set up: anonymous reads, userPassword excepted"),
            text("limits", "none"),
        ]
    }

    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError> {
        let mut command = Command::new(self.folder.join("bin/import-ldif"));
        command.args(["--offline", "--backendID", "userRoot", "--ldifFile"]).arg(&data.path);
        let cost = process::run(&command, &self.log(), process::data_time_max(data.bytes))?;
        let output = process::end_of(&self.log());
        data.must_be_loaded(imported_in(&output), &format!("{}: import-ldif", self.product), &output)?;
        let disk_bytes = process::disk_bytes(&self.database());
        Ok(BulkLoad { command: "import-ldif --offline".to_owned(), cost, disk_bytes })
    }

    fn start_at(&mut self, address: SocketAddr) -> Result<Server, PeerError> {
        let administration = free_address()?;
        let (file, mut blocks) = self.configuration()?;
        let port = address.port().to_string();
        blocks.set(
            &file,
            "cn=LDAP Connection Handler,cn=Connection Handlers,cn=config",
            &[("ds-cfg-listen-port", &port)],
        )?;
        let port = administration.port().to_string();
        blocks.set(
            &file,
            "cn=Administration Connector,cn=config",
            &[("ds-cfg-listen-port", &port), ("ds-cfg-listen-address", "127.0.0.1")],
        )?;
        write_file(&file, &blocks.text())?;
        self.administration = Some(administration);
        let mut command = Command::new(self.folder.join("bin/start-ds"));
        // The server runs in the foreground: the script becomes the server process.
        command.arg("--nodetach");
        Server::start(&self.product, &command, &self.log(), address, &self.setup.server_cores)
    }

    fn needs_warm_up(&self) -> bool {
        true
    }

    fn export(&mut self, ldif: &Path) -> Result<Option<process::Cost>, PeerError> {
        let mut command = Command::new(self.folder.join("bin/export-ldif"));
        command.args(["--offline", "--backendID", "userRoot", "--ldifFile"]).arg(ldif);
        process::run(&command, &self.log(), process::data_time_max(self.setup.ldif_bytes)).map(Some)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

fn server_arguments(setup: &Setup) -> String {
    let heap = mib(setup.memory_bytes / 4).max(2048);
    format!("-server -Xms{heap}m -Xmx{heap}m -XX:+UseG1GC")
}

fn loader_arguments(setup: &Setup) -> String {
    format!("-server -Xmx{}m -XX:+UseParallelGC", mib(setup.memory_bytes / 2).max(2048))
}

fn java_properties(setup: &Setup) -> String {
    format!(
        "overwrite-env-java-home=false\noverwrite-env-java-args=false\ndefault.java-args=-client\n\
         start-ds.java-args={}\nimport-ldif.offline.java-args={}\nexport-ldif.offline.java-args=-server\n",
        server_arguments(setup),
        loader_arguments(setup)
    )
}

fn configuration(text: &str, file: &Path, setup: &Setup) -> Result<String, PeerError> {
    let mut blocks = Blocks::parse(text);
    blocks.set(
        file,
        "cn=config",
        &[("ds-cfg-size-limit", "0"), ("ds-cfg-lookthrough-limit", "0"), ("ds-cfg-time-limit", "0 seconds")],
    )?;
    let handler = |name: &str| format!("cn={name},cn=Connection Handlers,cn=config");
    blocks.set(file, &handler("LDAP Connection Handler"), &[("ds-cfg-listen-address", "127.0.0.1")])?;
    blocks.set(file, &handler("JMX Connection Handler"), &[("ds-cfg-enabled", "false")])?;
    let logged = if setup.operation_log { "true" } else { "false" };
    for (logger, enabled) in
        [("File-Based Access Logger", logged), ("Json File-Based Access Logger", "false")]
    {
        blocks.set(file, &format!("cn={logger},cn=Loggers,cn=config"), &[("ds-cfg-enabled", enabled)])?;
    }
    let scheme = if setup.passwords == Passwords::Clear { "Clear" } else { "Salted SHA-1" };
    let scheme = format!("cn={scheme},cn=Password Storage Schemes,cn=config");
    blocks.set(
        file,
        "cn=Default Password Policy,cn=Password Policies,cn=config",
        &[("ds-cfg-default-password-storage-scheme", &scheme)],
    )?;
    // The loader ignores the password policy. It takes the scheme from this plugin.
    blocks.set(
        file,
        "cn=Password Policy Import,cn=Plugins,cn=config",
        &[("ds-cfg-default-user-password-storage-scheme", &scheme)],
    )?;
    blocks.set(
        file,
        BACKEND,
        &[("ds-cfg-db-txn-write-no-sync", "false"), ("ds-cfg-db-cache-percent", CACHE_PERCENT)],
    )?;
    let index_folder = format!("cn=Index,{BACKEND}");
    blocks.remove(|dn, _| {
        let is_own = OWN_INDEXES.iter().any(|own| dn.starts_with(&format!("ds-cfg-attribute={own},")));
        dn.ends_with(&format!(",{index_folder}")) && !is_own
    });
    for index in setup.indexes.iter().filter(|index| !OWN_INDEXES.contains(&index.attribute.as_str())) {
        let attribute = &index.attribute;
        let kinds = index.kinds.iter().map(|kind| ("ds-cfg-index-type", kind.name()));
        let values = [
            ("objectClass", "top"),
            ("objectClass", "ds-cfg-backend-index"),
            ("ds-cfg-attribute", attribute),
        ];
        blocks.add(&format!("ds-cfg-attribute={attribute},{index_folder}"), values.into_iter().chain(kinds));
    }
    Ok(blocks.text())
}

/// Parses the version from `OpenDJ Server 5.0.3`.
fn version_in(output: &str) -> Option<&str> {
    output.split_once("OpenDJ Server ")?.1.split_whitespace().next()
}

/// Parses the number of entries from `... msg=Processed 2002 entries, imported 2002, skipped 0, rejected 0 and migrated
/// 0 in 2 seconds ...`.
fn imported_in(output: &str) -> Option<u64> {
    output.rsplit_once(" entries, imported ")?.1.split(',').next()?.parse().ok()
}

/// Copies a folder's files with their permissions.
fn copy_folder(from: &Path, to: &Path) -> Result<(), PeerError> {
    super::make_folder(to)?;
    let entries = std::fs::read_dir(from).map_err(PeerError::io("read", from))?;
    for entry in entries {
        let entry = entry.map_err(PeerError::io("read", from))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(PeerError::io("read", &from))?.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            std::fs::copy(&from, &to).map_err(PeerError::io("copy", &from))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small_file() -> String {
        let mut text = "dn: cn=config\nds-cfg-size-limit: 1000\n\n".to_owned();
        for dn in [
            "cn=LDAP Connection Handler,cn=Connection Handlers,cn=config",
            "cn=JMX Connection Handler,cn=Connection Handlers,cn=config",
            "cn=File-Based Access Logger,cn=Loggers,cn=config",
            "cn=Json File-Based Access Logger,cn=Loggers,cn=config",
            "cn=Default Password Policy,cn=Password Policies,cn=config",
            "cn=Password Policy Import,cn=Plugins,cn=config",
            BACKEND,
            &format!("cn=Index,{BACKEND}"),
            &format!("ds-cfg-attribute=aci,cn=Index,{BACKEND}"),
            &format!("ds-cfg-attribute=mail,cn=Index,{BACKEND}"),
        ] {
            text.push_str(&format!("dn: {dn}\nds-cfg-enabled: true\n\n"));
        }
        text
    }

    #[test]
    fn the_configuration_is_adapted_to_the_setup() {
        let indexes = vec!["cn:equality,presence".parse().unwrap(), "entryUUID".parse().unwrap()];
        let setup = Setup::new("dc=example,dc=com", indexes, 0);
        let clear = Setup { passwords: Passwords::Clear, ..setup.clone() };
        let text = configuration(&small_file(), Path::new("f"), &clear).unwrap();
        assert!(text.contains("ds-cfg-default-user-password-storage-scheme: cn=Clear,"), "{text}");
        let text = configuration(&small_file(), Path::new("f"), &setup).unwrap();
        assert!(!text.contains("ds-cfg-attribute=mail"), "{text}");
        for part in [
            "ds-cfg-size-limit: 0\n",
            "ds-cfg-db-txn-write-no-sync: false\n",
            "ds-cfg-attribute=aci,",
            "ds-cfg-attribute: cn\nds-cfg-index-type: equality\nds-cfg-index-type: presence\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        // The server already has its own index of entryUUID, so no index of entryUUID is added.
        assert!(!text.contains("ds-cfg-attribute: entryUUID"));
        assert!(configuration("dn: cn=x\n", Path::new("f"), &setup).is_err());
    }

    #[test]
    fn the_heap_size_depends_on_the_memory() {
        let mut setup = Setup::new("dc=example,dc=com", Vec::new(), 0);
        setup.memory_bytes = 24 << 30;
        assert!(server_arguments(&setup).contains("-Xms6144m -Xmx6144m"));
        setup.memory_bytes = 1 << 30;
        assert!(loader_arguments(&setup).contains("-Xmx2048m"));
    }

    #[test]
    fn version_and_import_count_are_parsed() {
        assert_eq!(version_in("OpenDJ Server 5.0.3\nBuild 20260204063702\n"), Some("5.0.3"));
        let output =
            "msg=Processed 2002 entries, imported 2002, skipped 0, rejected 0 and migrated 0 in 2 s\n";
        assert_eq!(imported_in(output), Some(2002));
        assert_eq!(imported_in(""), None);
    }
}
