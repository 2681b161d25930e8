//! Apache Kafka brokers on free loopback ports, for tests and `./dev cluster`. This crate starts the brokers from the
//! jars that `need_kafka` of `tools/needs.sh` keeps in `.dev/`, each with its own folder, and ends them by process id.
//!
//! They are real brokers, configured for quick starts, quick elections and synced messages.

mod properties;
mod security;

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub use security::Security;

/// Folder below the repository's root in which `need_kafka` puts the jars of the version in tools/needs.sh.
const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.dev/kafka/lib");

/// Identity of the cluster: any 16 octets in base64.
const CLUSTER_ID: &str = "cGFuZG8tdGVzdC1rYWZrYQ";

/// Time limit of a broker's start.
const DEADLINE: Duration = Duration::from_secs(90);

/// Maximum number of attempts to start. Each attempt chooses other ports, because another process may take a port
/// first.
const ATTEMPTS: usize = 5;

/// Brokers that form one cluster. Dropping this value kills them.
pub struct Brokers {
    folder: PathBuf,
    security: Option<Security>,
    ports: Vec<Ports>,
    running: Vec<Option<Child>>,
}

/// Environment of brokers in tests of faults.
pub trait Surroundings {
    /// Places a proxy before a port of the broker at this index. Returns the port at which clients and other brokers
    /// reach the proxy.
    ///
    /// # Errors
    /// The proxy cannot be started.
    fn before(&self, index: usize, port: u16) -> io::Result<u16>;

    /// Prepares the data folder of a broker. The folder exists and is empty.
    ///
    /// # Errors
    ///
    /// The folder cannot be prepared.
    fn place(&self, index: usize, data: &Path) -> io::Result<()>;
}

#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) clients: u16,
    pub(crate) controller: u16,
    /// Ports that the listeners for clients and for the controller advertise. They differ from the real ports if there
    /// is a proxy.
    pub(crate) advertised_clients: u16,
    pub(crate) advertised_controller: u16,
    /// Ports of the listener with TLS and of the listener with TLS and SASL, if the broker has them.
    pub(crate) tls: u16,
    pub(crate) sasl: u16,
}

impl Brokers {
    /// Starts `count` brokers that keep their data in `folder`, and waits until they serve.
    ///
    /// # Errors
    /// Java or Kafka is missing, or a broker does not start.
    pub fn start(count: usize, folder: &Path) -> io::Result<Brokers> {
        Brokers::start_with(count, folder, None, None)
    }

    /// Does the same as [`start`](Brokers::start), in an environment that may place proxies before the brokers and
    /// prepare their disks.
    ///
    /// # Errors
    /// The same as those of [`start`](Brokers::start).
    pub fn start_in(count: usize, folder: &Path, around: &dyn Surroundings) -> io::Result<Brokers> {
        Brokers::start_with(count, folder, None, Some(around))
    }

    /// Does the same as [`start`](Brokers::start), with two additional listeners: one that requires certificates, and
    /// one with SASL.
    ///
    /// # Errors
    /// The same as those of [`start`](Brokers::start).
    pub fn start_secured(count: usize, folder: &Path) -> io::Result<Brokers> {
        let security = Security::create(&folder.join("security"))?;
        Brokers::start_with(count, folder, Some(security), None)
    }

    fn start_with(
        count: usize,
        folder: &Path,
        security: Option<Security>,
        around: Option<&dyn Surroundings>,
    ) -> io::Result<Brokers> {
        if !Path::new(JARS).exists() {
            return Err(io::Error::other(format!(
                "{JARS} is missing: ./dev test and ./dev cluster fetch it"
            )));
        }
        let mut failure = io::Error::other("not tried");
        for attempt in 0..ATTEMPTS {
            let folder = folder.join(format!("kafka-{attempt}"));
            let mut ports = free_ports(count)?;
            if let Some(around) = around {
                for (index, ports) in ports.iter_mut().enumerate() {
                    ports.advertised_clients = around.before(index, ports.clients)?;
                    ports.advertised_controller = around.before(index, ports.controller)?;
                }
            }
            let running = (0..count).map(|_| None).collect();
            let mut brokers = Brokers { folder, security: security.clone(), ports, running };
            for index in 0..count {
                let data = brokers.data(index);
                std::fs::create_dir_all(&data)?;
                around.map_or(Ok(()), |around| around.place(index, &data))?;
            }
            match brokers.start_all() {
                Ok(()) => return Ok(brokers),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn start_all(&mut self) -> io::Result<()> {
        let all = 0..self.ports.len();
        all.clone().try_for_each(|index| self.format(index))?;
        // All brokers are started before any is awaited, because one controller alone has no quorum.
        let waits: Vec<_> = all.map(|index| self.spawn(index)).collect::<io::Result<_>>()?;
        waits.into_iter().try_for_each(wait_until_started)
    }

    /// Returns the addresses for clients, as the setting `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.addresses(|ports| ports.advertised_clients)
    }

    /// Returns the addresses of the listeners that use TLS and require a certificate of
    /// [`security`](Brokers::security).
    pub fn tls_bootstrap(&self) -> String {
        self.addresses(|ports| ports.tls)
    }

    /// Returns the addresses of the listeners that use TLS and require a password, by PLAIN or SCRAM-SHA-512.
    pub fn sasl_bootstrap(&self) -> String {
        self.addresses(|ports| ports.sasl)
    }

    /// Returns the files that clients need for the listeners with TLS and with SASL.
    ///
    /// # Errors
    /// The brokers were not started with these listeners.
    pub fn security(&self) -> io::Result<&Security> {
        self.security.as_ref().ok_or_else(|| io::Error::other("these brokers have no other listeners"))
    }

    fn addresses(&self, port: impl Fn(&Ports) -> u16) -> String {
        let addresses = self.ports.iter().map(|ports| format!("127.0.0.1:{}", port(ports)));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Returns the number of brokers, including killed ones.
    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// Kills a broker, as a power cut would.
    ///
    /// # Errors
    /// The broker does not run.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        let mut child = self.running.get_mut(index).and_then(Option::take).ok_or_else(not_running)?;
        child.kill()?;
        child.wait().map(drop)
    }

    /// Restarts a killed broker, and waits until it serves clients.
    ///
    /// # Errors
    /// The broker does not start.
    pub fn restart(&mut self, index: usize) -> io::Result<()> {
        wait_until_started(self.spawn(index)?)
    }

    /// Returns the process of a running broker.
    pub fn process(&self, index: usize) -> Option<u32> {
        self.running.get(index)?.as_ref().map(Child::id)
    }

    /// Suspends a broker (SIGSTOP) or resumes it.
    ///
    /// # Errors
    /// The broker does not run.
    pub fn halt(&self, index: usize, is_halted: bool) -> io::Result<()> {
        let child = self.running.get(index).and_then(Option::as_ref).ok_or_else(not_running)?;
        let signal = if is_halted { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal)?;
        Ok(())
    }

    fn home(&self, index: usize) -> PathBuf {
        self.folder.join(format!("broker-{}", index + 1))
    }

    /// Returns the folder of a broker's data.
    pub fn data(&self, index: usize) -> PathBuf {
        self.home(index).join("data")
    }

    fn format(&self, index: usize) -> io::Result<()> {
        let home = self.home(index);
        std::fs::write(home.join("log4j2.properties"), properties::LOGGING)?;
        std::fs::write(
            home.join("server.properties"),
            properties::server(&home, index, &self.ports, self.security.as_ref()),
        )?;
        let output = java(&home)
            .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"])
            .arg(home.join("server.properties"))
            .args(self.security.iter().flat_map(Security::format_arguments))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| io::Error::other(format!("java: {error}; ./dev test installs it")))?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("formatting a broker: {}", String::from_utf8_lossy(&output.stderr))))
    }

    fn spawn(&mut self, index: usize) -> io::Result<ChildStdout> {
        let home = self.home(index);
        let log = std::fs::File::create(home.join("stderr"))?;
        let mut child = java(&home)
            .arg("kafka.Kafka")
            .arg(home.join("server.properties"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(not_running)?;
        if let Some(place) = self.running.get_mut(index) {
            *place = Some(child);
        }
        Ok(stdout)
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn not_running() -> io::Error {
    io::Error::other("the broker does not run")
}

fn java(home: &Path) -> Command {
    let mut command = Command::new("java");
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xms96m", "-Xmx384m"]);
    command.arg(format!("-Dlog4j2.configurationFile={}", home.join("log4j2.properties").display()));
    command.arg("-cp").arg(format!("{JARS}/*"));
    command
}

/// Reads the broker's output until it reports that it serves clients. A thread reads and discards later output,
/// because the broker must never wait for a reader.
fn wait_until_started(stdout: ChildStdout) -> io::Result<()> {
    let (started, is_started) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout);
        let (mut line, mut output) = (String::new(), String::new());
        while matches!(lines.read_line(&mut line), Ok(1..)) {
            if line.contains("Kafka Server started") {
                let _ = started.send(Ok(()));
                let _ = io::copy(&mut lines, &mut io::sink());
                return;
            }
            output.push_str(&line);
            line.clear();
        }
        let _ = lines.read_to_string(&mut output);
        let _ = started.send(Err(io::Error::other(format!("a broker did not start:\n{output}"))));
    });
    let patience = is_started.recv_timeout(DEADLINE);
    patience.unwrap_or_else(|_| Err(io::Error::other("a broker did not start in time")))
}

/// Returns loopback ports that are different and free at this moment.
fn free_ports(count: usize) -> io::Result<Vec<Ports>> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held: Vec<[TcpListener; 4]> =
        (0..count).map(|_| Ok([bind()?, bind()?, bind()?, bind()?])).collect::<io::Result<_>>()?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    held.iter()
        .map(|[a, b, c, d]| {
            let (clients, controller) = (port(a)?, port(b)?);
            let (advertised_clients, advertised_controller) = (clients, controller);
            Ok(Ports {
                clients,
                controller,
                advertised_clients,
                advertised_controller,
                tls: port(c)?,
                sasl: port(d)?,
            })
        })
        .collect()
}
