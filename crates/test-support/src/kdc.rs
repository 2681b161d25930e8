//! A key distribution center (KDC) of MIT Kerberos, with a new realm in a scratch folder, on a free loopback port.

use crate::Scratch;
use crate::clients::{Run, run};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Name of the realm.
pub const REALM: &str = "PANDO.TEST";

/// Host name in the server's principal. Clients must connect to this name.
pub const HOST: &str = "localhost";

/// Number of ports to try, because another process may use a port before the server does.
const PORTS: usize = 10;

/// A running KDC, ended when dropped.
pub struct Kdc {
    folder: PathBuf,
    child: Child,
}

impl Kdc {
    /// Creates a realm with `principals`, and a keytab for each principal. A keytab is named after its principal, with
    /// hyphens in place of slashes.
    pub fn start(scratch: &Scratch, principals: &[&str]) -> Kdc {
        let folder = scratch.join("kdc");
        std::fs::create_dir_all(&folder).unwrap();
        for _ in 0..PORTS {
            write_settings(&folder, free_port());
            if !folder.join("principal").exists() {
                let created = administer(&folder, "kdb5_util", &["create", "-s", "-P", "of the whole realm"]);
                created.expect_code(0);
            }
            if let Some(child) = serve(&folder) {
                let kdc = Kdc { folder, child };
                principals.iter().for_each(|name| kdc.add(name));
                return kdc;
            }
        }
        panic!("the centre found no port");
    }

    fn add(&self, name: &str) {
        self.kadmin(&format!("addprinc -randkey {name}"));
        self.kadmin(&format!("ktadd -norandkey -k {} {name}", self.keytab(name)));
    }

    /// Runs a kadmin request on the database.
    pub fn kadmin(&self, request: &str) {
        administer(&self.folder, "kadmin.local", &["-r", REALM, "-q", request]).expect_code(0);
    }

    /// Returns the keytab of a principal.
    pub fn keytab(&self, name: &str) -> String {
        self.folder.join(format!("{}.keytab", name.replace('/', "-"))).to_str().unwrap().to_owned()
    }

    /// Returns the file with the realm's configuration for clients.
    pub fn settings(&self) -> String {
        self.folder.join("krb5.conf").to_str().unwrap().to_owned()
    }

    /// Runs a program as a principal with a fresh ticket.
    pub fn run_as(&self, name: &str, program: &str, arguments: &[&str]) -> Run {
        let cache = self.folder.join(format!("{name}.cache"));
        let cache = format!("KRB5CCNAME=FILE:{}", cache.display());
        let settings = format!("KRB5_CONFIG={}", self.settings());
        let keytab = self.keytab(name);
        run("env", &[&settings, &cache, "kinit", "-k", "-t", &keytab, name], "").expect_code(0);
        let environment = ["-u", "LDAPNOINIT", settings.as_str(), &cache, "LDAPTLS_REQCERT=never", program];
        run("env", &[&environment[..], arguments].concat(), "")
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        // All files of the KDC are in the scratch folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that is free for both TCP and UDP.
fn free_port() -> u16 {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    UdpSocket::bind(("127.0.0.1", port)).map_or_else(|_| free_port(), |_| port)
}

fn write_settings(folder: &std::path::Path, port: u16) {
    let shown = folder.display();
    let client = format!(
        "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n \
         dns_canonicalize_hostname = false\n rdns = false\n\
         [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n\
         [domain_realm]\n {HOST} = {REALM}\n"
    );
    let server = format!(
        "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
         [realms]\n {REALM} = {{\n  database_name = {shown}/principal\n  key_stash_file = {shown}/stash\n \
         acl_file = {shown}/acl\n }}\n\
         [logging]\n kdc = STDERR\n"
    );
    std::fs::write(folder.join("krb5.conf"), client).unwrap();
    std::fs::write(folder.join("kdc.conf"), server).unwrap();
}

/// Starts the KDC. Returns `None` if another process has taken the port.
fn serve(folder: &std::path::Path) -> Option<Child> {
    let mut child = Command::new("/usr/sbin/krb5kdc")
        .arg("-n")
        .env("KRB5_CONFIG", folder.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", folder.join("kdc.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("krb5kdc: {error}. ./dev test installs it"));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    if lines.any(|line| line.contains("commencing operation")) {
        // Read the server's messages, so that the server does not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        return Some(child);
    }
    child.wait().unwrap();
    None
}

/// Runs an administration program of the KDC.
fn administer(folder: &std::path::Path, program: &str, arguments: &[&str]) -> Run {
    let settings = format!("KRB5_CONFIG={}", folder.join("krb5.conf").display());
    let profile = format!("KRB5_KDC_PROFILE={}", folder.join("kdc.conf").display());
    let program = format!("/usr/sbin/{program}");
    run("env", &[&[settings.as_str(), &profile, &program], arguments].concat(), "")
}
