//! OpenLDAP's slapd with the mdb backend, as Debian packages it.
//!
//! The sources of the settings are the manual pages of OpenLDAP 2.5, and an article on threads by Symas, who maintain
//! OpenLDAP. The settings:
//! - mdb: "the recommended primary database backend" (slapd-mdb(5)).
//! - `maxsize`: the maximum size of the map, which may be generous because the file is sparse (slapd-mdb(5)). The
//!   setting is eight times the size of the LDIF, at least 8 GiB. Small entries take 3.5 times the size of their LDIF,
//!   and pages that changes have freed need additional space.
//! - `threads 16`: the default, and the best value on machines with few cores according to Symas's article on threads.
//! - `index`: the indexes of the comparison, with the default slots (`idlexp 16`). objectClass is always indexed,
//!   because slapd uses this index to find referrals in every search of a subtree. Without the index, slapd would read
//!   every entry.
//! - No `checkpoint`: it "is only needed if the dbnosync option is used" (slapd-mdb(5)). That option would lose
//!   durability. Every commit is synced.
//! - `loglevel 0`: no server of a comparison logs its operations, unless the workload requires it (then `-d stats`,
//!   into a file).
//! - No size and time limits, as for every server of a comparison.
//! - `password-hash {SSHA}`: the default, set explicitly for passwords that the load adds in clear text.
//! - If passwords are in clear text, as some SASL mechanisms require: `sasl-auxprops slapd`, and `authz-regexp` for
//!   users named by their DN (`dn:cn=...`). slapd converts such a name to a value with escapes. Debian has the
//!   mechanisms in libsasl2-modules.
//! - For load over TLS, a P-256 certificate, as Pando creates for itself; versions and ciphers are the defaults of
//!   GnuTLS.
//! - With replication, the lines of the Administrator's Guide (chapter on replication) for syncrepl with
//!   refreshAndPersist: `syncprov-checkpoint 100 10`, `syncprov-sessionlog 100`, indexes of entryCSN and entryUUID.
//!   `slapadd -w` writes a contextCSN, so that copies of the database begin with it.
//! - Bulk load by slapadd with `-q` and as many `tool-threads` as cores, the maximum of slapd.conf(5).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    BulkLoad, Data, Index, IndexKind, Passwords, Peer, PeerError, Server, Setup, free_address, make_folder,
    must_exist, process, write_file,
};

/// Path in Debian's package.
const PROGRAM: &str = "/usr/sbin/slapd";
const LOADER: &str = "/usr/sbin/slapadd";
const EXPORTER: &str = "/usr/sbin/slapcat";
const THREADS: u32 = 16;

/// Role of a server in replication by syncrepl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncreplRole {
    /// The server accepts changes, and sends them to its consumers.
    Provider,
    /// The server receives the changes of the provider at this address.
    Consumer(SocketAddr),
}

/// Changes to the slapd configuration that comparisons use by default.
#[derive(Clone, Debug, Default)]
pub struct Amendments {
    /// Additional lines for the global part of slapd.conf.
    pub global: String,
    /// Access clauses for the end of the database section. They replace the access clauses that comparisons use by
    /// default.
    pub rules: Option<String>,
    /// Whether to listen for `ldaps://` too. If so, `global` must contain the settings for TLS.
    pub secure: bool,
    /// Role of the server in replication; `None` without replication.
    pub syncrepl: Option<SyncreplRole>,
}

/// slapd in a folder.
pub struct OpenLdap {
    folder: PathBuf,
    setup: Setup,
    product: String,
    secure: Option<SocketAddr>,
    syncrepl: Option<SyncreplRole>,
}

impl OpenLdap {
    /// Writes the configuration.
    ///
    /// # Errors
    /// slapd is not installed or the folder cannot be written.
    pub fn configure(folder: &Path, setup: &Setup) -> Result<OpenLdap, PeerError> {
        let global = if setup.tls { certificate(folder)? } else { String::new() };
        OpenLdap::amended(folder, setup, &Amendments { global, ..Amendments::default() })
    }

    /// Writes the configuration with the given changes.
    ///
    /// # Errors
    /// The same as for [`OpenLdap::configure`].
    pub fn amended(folder: &Path, setup: &Setup, amendments: &Amendments) -> Result<OpenLdap, PeerError> {
        OpenLdap::must_be_installed()?;
        make_folder(&folder.join("data"))?;
        let (_, output) = process::output(Command::new(PROGRAM).arg("-VV"))?;
        let product = format!("OpenLDAP {}", version_in(&output).unwrap_or("of an unknown version"));
        if let Some(schema) = &setup.schema {
            write_file(&folder.join("data.schema"), schema)?;
        }
        let secure = amendments.secure.then(free_address).transpose()?;
        let syncrepl = amendments.syncrepl;
        let peer = OpenLdap { folder: folder.to_owned(), setup: setup.clone(), product, secure, syncrepl };
        write_file(&peer.file(), &configuration(folder, setup, amendments))?;
        Ok(peer)
    }

    /// Checks that slapd is installed.
    ///
    /// # Errors
    /// slapd is missing; the error describes how to get it.
    pub fn must_be_installed() -> Result<(), PeerError> {
        must_exist(Path::new(PROGRAM))
    }

    /// Returns the folder of the server's database.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns the address on which the server listens for `ldaps://`; `None` if it does not.
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.secure
    }

    fn file(&self) -> PathBuf {
        self.folder.join("slapd.conf")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("slapd.log")
    }
}

impl Peer for OpenLdap {
    fn product(&self) -> &str {
        &self.product
    }

    fn settings(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut settings = vec![
            text("database", "mdb"),
            ("maxsize".to_owned(), format!("{} bytes", map_bytes(&self.setup))),
            ("threads".to_owned(), THREADS.to_string()),
            text("durability", "every commit synced (no dbnosync)"),
            text("password scheme", self.setup.password_scheme()),
            text("operation log", self.setup.on_or_off()),
            text("access control", "anonymous reads, userPassword for authentication only"),
            text("limits", "none"),
        ];
        if let Some(role) = self.syncrepl {
            settings.push(text("replication", role.words()));
        }
        settings
    }

    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError> {
        let mut command = Command::new(LOADER);
        // The option `-w` writes a contextCSN. A provider without it would send every entry to a consumer.
        let quick = if self.syncrepl.is_some() { "-qw" } else { "-q" };
        command.args([quick, "-f"]).arg(self.file()).arg("-l").arg(&data.path);
        let cost = process::run(&command, &self.log(), process::data_time_max(data.bytes))?;
        Ok(BulkLoad {
            command: format!("slapadd {quick}"),
            cost,
            disk_bytes: process::disk_bytes(&self.database()),
        })
    }

    fn start_at(&mut self, address: SocketAddr) -> Result<Server, PeerError> {
        let mut command = Command::new(PROGRAM);
        // With `-d`, slapd runs in the foreground and logs to standard error.
        let logged = if self.setup.operation_log { "stats" } else { "none" };
        let secure = self.secure.map(|secure| format!(" ldaps://{secure}")).unwrap_or_default();
        command.args(["-d", logged, "-h", &format!("ldap://{address}{secure}"), "-f"]).arg(self.file());
        Server::start(&self.product, &command, &self.log(), address, &self.setup.server_cores)
    }

    fn export(&mut self, ldif: &Path) -> Result<Option<process::Cost>, PeerError> {
        let mut command = Command::new(EXPORTER);
        command.arg("-f").arg(self.file()).arg("-l").arg(ldif);
        process::run(&command, &self.log(), process::data_time_max(self.setup.ldif_bytes)).map(Some)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl SyncreplRole {
    /// Returns the text that describes this role in the result of the benchmark.
    pub(super) fn words(self) -> &'static str {
        match self {
            SyncreplRole::Provider => "syncprov overlay, syncprov-checkpoint 100 10, syncprov-sessionlog 100",
            SyncreplRole::Consumer(_) => "syncrepl type=refreshAndPersist retry=\"1 +\"",
        }
    }

    /// Returns the last lines of the database section. Other lines load the module of the overlay.
    fn lines(self, setup: &Setup) -> String {
        match self {
            SyncreplRole::Provider => {
                "overlay syncprov\nsyncprov-checkpoint 100 10\nsyncprov-sessionlog 100\n".to_owned()
            }
            SyncreplRole::Consumer(provider) => format!(
                "syncrepl rid=1 provider=ldap://{provider} type=refreshAndPersist retry=\"1 +\" searchbase=\"{}\" \
                 bindmethod=simple binddn=\"{}\" credentials=\"{}\"\nupdateref ldap://{provider}\n",
                setup.suffix, setup.admin_dn, setup.admin_password
            ),
        }
    }
}

/// Creates a certificate like Pando's, and returns the configuration lines that use it.
fn certificate(folder: &Path) -> Result<String, PeerError> {
    let wrong = |error: rcgen::Error| PeerError::Io {
        what: "make a certificate".to_owned(),
        error: std::io::Error::other(error),
    };
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(wrong)?;
    make_folder(folder)?;
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    write_file(&certificate, &certified.cert.pem())?;
    write_file(&key, &certified.signing_key.serialize_pem())?;
    Ok(format!("TLSCertificateFile {}\nTLSCertificateKeyFile {}\n", certificate.display(), key.display()))
}

fn map_bytes(setup: &Setup) -> u64 {
    (setup.ldif_bytes * 8).max(8 << 30)
}

fn configuration(folder: &Path, setup: &Setup, amendments: &Amendments) -> String {
    let folder = folder.display();
    let mut text = String::new();
    for name in ["core", "cosine", "nis", "inetorgperson"] {
        text.push_str(&format!("include /etc/ldap/schema/{name}.schema\n"));
    }
    if setup.schema.is_some() {
        text.push_str(&format!("include {folder}/data.schema\n"));
    }
    text.push_str(&format!(
        "modulepath /usr/lib/ldap\nmoduleload back_mdb\n{}loglevel 0\nthreads {THREADS}\ntool-threads {}\n\
         sizelimit unlimited\ntimelimit unlimited\npassword-hash {}\n{}{}\n\
         database mdb\nsuffix \"{}\"\nrootdn \"{}\"\nrootpw \"{}\"\ndirectory {folder}/data\nmaxsize {}\n",
        if amendments.syncrepl.is_some() { "moduleload syncprov\n" } else { "" },
        std::thread::available_parallelism().map_or(1, usize::from),
        if setup.passwords == Passwords::Clear { "{CLEARTEXT}" } else { "{SSHA}" },
        if setup.passwords == Passwords::Clear { sasl_users() } else { String::new() },
        amendments.global,
        setup.suffix,
        setup.admin_dn,
        setup.admin_password,
        map_bytes(setup),
    ));
    let is_object_class = |index: &Index| index.attribute.eq_ignore_ascii_case("objectClass");
    if !setup.indexes.iter().any(is_object_class) {
        text.push_str("index objectClass eq\n");
    }
    for index in &setup.indexes {
        let kinds: Vec<_> = index.kinds.iter().filter_map(|kind| index_word(*kind)).collect();
        if !kinds.is_empty() {
            text.push_str(&format!("index {} {}\n", index.attribute, kinds.join(",")));
        }
    }
    let rules =
        "access to attrs=userPassword by anonymous auth by self write by * none\naccess to * by * read";
    text.push_str(amendments.rules.as_deref().unwrap_or(rules));
    text.push('\n');
    if let Some(role) = amendments.syncrepl {
        text.push_str(&role.lines(setup));
    }
    text
}

/// Returns rules for the identity of a SASL bind as `dn:NAME`, which slapd writes as
/// `uid=dn:cn\3Da\2Co\3Db,cn=cram-md5,cn=auth`. There is one rule for each number of RDNs. Rules for more RDNs come
/// first, because a rule for fewer RDNs also matches longer names.
fn sasl_users() -> String {
    let rule = |rdns: usize| {
        let pattern = vec!["([^,]+).3D([^,]+)"; rdns].join(".2C");
        let name: Vec<_> = (0..rdns).map(|rdn| format!("${}=${}", 2 * rdn + 1, 2 * rdn + 2)).collect();
        format!("authz-regexp \"uid=dn:{pattern},cn=[^,]+,cn=auth\" \"{}\"\n", name.join(","))
    };
    let rules: String = [4, 3, 2].map(rule).concat();
    format!("sasl-host localhost\nsasl-auxprops slapd\n{rules}")
}

fn index_word(kind: IndexKind) -> Option<&'static str> {
    match kind {
        // An equality index also answers ordering filters on integers. slapd has no ordering index for other types.
        IndexKind::Equality | IndexKind::Ordering => Some("eq"),
        IndexKind::Presence => Some("pres"),
        IndexKind::Substring => Some("sub"),
        IndexKind::Approximate => Some("approx"),
    }
}

/// Parses the version from `@(#) $OpenLDAP: slapd 2.5.13+dfsg-5 (...)`.
fn version_in(output: &str) -> Option<&str> {
    output.split_once("slapd ")?.1.split([' ', '+']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_contains_the_setup() {
        let indexes = vec!["uid".parse().unwrap(), "cn:equality,substring,presence".parse().unwrap()];
        let mut setup = Setup::new("o=a b,c=GB", indexes, 1 << 40);
        setup.schema = Some("attributetype ( 1 )".to_owned());
        let text = configuration(Path::new("/f"), &setup, &Amendments::default());
        for line in [
            "suffix \"o=a b,c=GB\"",
            "rootdn \"cn=admin,o=a b,c=GB\"",
            "maxsize 8796093022208",
            "index objectClass eq",
            "index uid eq",
            "index cn eq,sub,pres",
            "include /f/data.schema",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
        }
        assert!(!text.contains("dbnosync") && !text.contains("checkpoint") && !text.contains("sasl"));
        setup.passwords = Passwords::Clear;
        let text = configuration(Path::new("/f"), &setup, &Amendments::default());
        let rule =
            "authz-regexp \"uid=dn:([^,]+).3D([^,]+).2C([^,]+).3D([^,]+),cn=[^,]+,cn=auth\" \"$1=$2,$3=$4\"";
        assert!(text.lines().any(|found| found == rule), "{text}");
    }

    #[test]
    fn the_configuration_of_a_replica_contains_its_role() {
        let setup = Setup::new("dc=a", vec!["uid".parse().unwrap()], 0);
        let text = |syncrepl| {
            let amendments = Amendments { syncrepl, ..Amendments::default() };
            configuration(Path::new("/f"), &setup, &amendments)
        };
        let provider = text(Some(SyncreplRole::Provider));
        assert!(provider.contains("moduleload syncprov\n"), "{provider}");
        let end = "by * read\noverlay syncprov\nsyncprov-checkpoint 100 10\nsyncprov-sessionlog 100\n";
        assert!(provider.ends_with(end), "{provider}");
        let consumer = text(Some(SyncreplRole::Consumer("127.0.0.1:9".parse().unwrap())));
        for part in [
            "\nsyncrepl rid=1 provider=ldap://127.0.0.1:9 type=refreshAndPersist ",
            " searchbase=\"dc=a\" bindmethod=simple binddn=\"cn=admin,dc=a\" credentials=\"peers-password\"\n",
            "\nupdateref ldap://127.0.0.1:9\n",
        ] {
            assert!(consumer.contains(part), "no {part:?} in\n{consumer}");
        }
        assert!(!text(None).contains("sync"));
    }

    #[test]
    fn the_version_is_parsed() {
        assert_eq!(version_in("@(#) $OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023) $"), Some("2.5.13"));
        assert_eq!(version_in("nothing"), None);
    }
}
