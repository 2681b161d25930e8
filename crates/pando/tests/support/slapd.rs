//! Debian's slapd as a peer: its own folder, configuration, port and process.

use super::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX, Scratch};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Where Debian puts it.
pub const PROGRAM: &str = "/usr/sbin/slapd";

/// A running slapd, killed when dropped.
pub struct Slapd {
    child: Child,
    address: SocketAddr,
    secure_address: SocketAddr,
}

impl Slapd {
    /// Starts one over an empty mdb database in `scratch`. `extra` is added to the database's part of slapd.conf.
    ///
    /// # Panics
    /// When slapd is not installed, or never answers on its port.
    pub fn start(scratch: &Scratch, extra: &str) -> Slapd {
        Slapd::start_with(scratch, "", extra)
    }

    /// The same; `global` is added to the global part of slapd.conf. If that speaks of TLS, slapd also listens for
    /// `ldaps://`.
    ///
    /// # Panics
    /// As [`Slapd::start`].
    pub fn start_with(scratch: &Scratch, global: &str, extra: &str) -> Slapd {
        Slapd::start_ruled(scratch, global, &format!("access to * by * write\n{extra}"))
    }

    /// The same without any access clause but those of `rules`, which end the database's part.
    ///
    /// # Panics
    /// As [`Slapd::start`].
    pub fn start_ruled(scratch: &Scratch, global: &str, rules: &str) -> Slapd {
        assert!(
            Path::new(PROGRAM).exists(),
            "{PROGRAM} is missing: run the tests by ./dev test, which installs it"
        );
        let database = scratch.join("slapd-data");
        std::fs::create_dir_all(&database).unwrap();
        let configuration = scratch.write("slapd.conf", configuration(&database, global, rules));
        // Another process may take the port between our letting go and slapd's bind: then slapd exits, try again.
        let mut log = String::new();
        for _ in 0..10 {
            let (address, secure_address) = (free_address(), free_address());
            let mut listens = format!("ldap://{address}");
            if global.contains("TLS") {
                listens += &format!(" ldaps://{secure_address}");
            }
            let mut child = Command::new(PROGRAM)
                // In the foreground, with messages that are always logged and no others.
                .args(["-d", "none", "-h", &listens, "-f"])
                .arg(&configuration)
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            match wait_until_it_starts(&mut child) {
                Ok(()) if wait_until_it_listens(&mut child, address) => {
                    return Slapd { child, address, secure_address };
                }
                Ok(()) => {}
                Err(said) => log = said,
            }
            let _ = child.wait();
        }
        panic!("slapd does not start:\n{log}");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for `ldaps://`.
    pub fn secure_address(&self) -> SocketAddr {
        self.secure_address
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(database: &Path, global: &str, rules: &str) -> String {
    format!(
        "include /etc/ldap/schema/core.schema\n\
         include /etc/ldap/schema/cosine.schema\n\
         include /etc/ldap/schema/nis.schema\n\
         include /etc/ldap/schema/inetorgperson.schema\n\
         modulepath /usr/lib/ldap\n\
         moduleload back_mdb\n\
         {global}\n\
         database mdb\n\
         suffix \"{SUFFIX}\"\n\
         rootdn \"{ADMIN_DN}\"\n\
         rootpw \"{ADMIN_PASSWORD}\"\n\
         directory {}\n\
         maxsize 1073741824\n\
         {rules}\n",
        database.display()
    )
}

/// A loopback address that nobody listens on at this moment.
pub fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap()
}

/// Waits for the line with which slapd says that it starts; what it said instead, when it ends.
fn wait_until_it_starts(child: &mut Child) -> Result<(), String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in lines.by_ref() {
        if line.contains("slapd starting") {
            // Whatever else it says must not block it.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(());
        }
        said += &(line + "\n");
    }
    Err(said)
}

/// It listens a moment after it has said that it starts. True once a connection is accepted, false when it ends first.
fn wait_until_it_listens(child: &mut Child, address: SocketAddr) -> bool {
    let started = Instant::now();
    loop {
        if let Ok(stream) = TcpStream::connect(address)
            // A connection from a port to itself is one that nobody listens to.
            && stream.local_addr().ok() != Some(address)
        {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(started.elapsed() < DEADLINE, "slapd runs but does not listen on {address}");
        std::thread::yield_now();
    }
}
