//! Runs the real binary on a free loopback port, with its data in a scratch folder.

use super::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX, Scratch};
use client::Connection;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

/// Returns the path of the binary under test. The binary is in the folder of this executable, or in the parent folder
/// if the folder is Cargo's `deps`.
///
/// # Panics
/// If Cargo has not built the binary. For a test of the package `pando`, Cargo always builds it.
pub fn program() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        let mut folder = std::env::current_exe().unwrap();
        folder.pop();
        if folder.ends_with("deps") {
            folder.pop();
        }
        let path = folder.join("pando");
        assert!(path.is_file(), "{} is missing: build it with cargo build -p pando", path.display());
        path.into_os_string().into_string().expect("a path in UTF-8")
    });
    &PATH
}

/// Options for the start of a server.
pub struct Start {
    command: Command,
    log: PathBuf,
    /// Whether the server's standard error is a closed pipe.
    is_log_closed: bool,
}

impl Start {
    /// Returns a start of `pando serve` on the folder `data` in `scratch`, with the suffix and administrator of the
    /// tests and a free port.
    pub fn new(scratch: &Scratch) -> Start {
        Start::bare(scratch, "data").arguments(&["--suffix", SUFFIX, "--admin-dn", ADMIN_DN])
    }

    /// Does the same as [`new`](Start::new), with this text in a node file.
    pub fn with_node(scratch: &Scratch, text: impl AsRef<[u8]>) -> Start {
        let node = scratch.write("node.toml", text);
        Start::new(scratch).arguments(&["--node", node.to_str().unwrap()])
    }

    /// Returns a start of `pando serve` with only a free port and the administrator's password.
    pub fn bare(scratch: &Scratch, data: &str) -> Start {
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "ldap://127.0.0.1:0", "--data"]).arg(scratch.join(data));
        command.env("PANDO_ADMIN_PASSWORD", ADMIN_PASSWORD);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Start { command, log: scratch.join("pando.log"), is_log_closed: false }
    }

    /// Returns a start of `pando follow` for the suffix of the tests at `source`, bound as the administrator.
    pub fn following(scratch: &Scratch, source: SocketAddr, password: &Path) -> Start {
        let mut command = Command::new(program());
        command.args(["follow", &format!("ldap://{source}"), "--base", SUFFIX, "--bind-dn", ADMIN_DN]);
        command.arg("--password-file").arg(password).args(["--admin-dn", ADMIN_DN]);
        command.args(["--listen", "ldap://127.0.0.1:0", "--data"]).arg(scratch.join("data"));
        command.env("PANDO_ADMIN_PASSWORD", ADMIN_PASSWORD);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Start { command, log: scratch.join("pando.log"), is_log_closed: false }
    }

    /// Returns a start of `pando serve` with only a node file.
    pub fn of_node(scratch: &Scratch, node: &Path) -> Start {
        let mut command = Command::new(program());
        command.args(["serve", "--node"]).arg(node);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Start { command, log: scratch.join("pando.log"), is_log_closed: false }
    }

    /// Adds arguments to the command line.
    pub fn arguments(mut self, arguments: &[&str]) -> Start {
        self.command.args(arguments);
        self
    }

    /// Sets a variable in the server's environment.
    pub fn environment(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Start {
        self.command.env(name, value);
        self
    }

    /// Removes a variable from the server's environment.
    pub fn without_environment(mut self, name: &str) -> Start {
        self.command.env_remove(name);
        self
    }

    /// Gives the server a closed pipe as its standard error.
    pub fn with_closed_log(mut self) -> Start {
        self.is_log_closed = true;
        self
    }

    /// Runs the server with a simulated power cut or a failing system call.
    pub fn with(mut self, power_cut: &powercut::PowerCut) -> Start {
        power_cut.apply(&mut self.command);
        self
    }

    /// Makes system calls of the server fail, and records each fault in `log`.
    pub fn with_faults(mut self, faults: &[powercut::Fault], log: &Path) -> Start {
        powercut::inject_logged(&mut self.command, faults, log);
        self
    }

    /// Limits the open files of the server with prlimit(1), which executes it.
    pub fn open_files_max(self, count: u64) -> Start {
        let mut wrapper = Command::new("prlimit");
        wrapper.arg(format!("--nofile={count}:{count}"));
        self.executed_by(wrapper)
    }

    /// Mounts a separate file system ([`SmallDisk`]) at the existing data folder.
    pub fn on_small_disk(self, data: &Path) -> Start {
        let mut wrapper = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            wrapper.arg("--map-root-user");
        }
        let script = "mount -t tmpfs -o mode=700,size=1g none \"$0\" && exec \"$@\"";
        wrapper.args(["--mount", "--propagation", "private", "bash", "-c", script]).arg(data);
        self.executed_by(wrapper)
    }

    /// Executes the server by systemd-socket-activate(1), which waits for a connection to one of the addresses and
    /// passes the sockets.
    pub fn activated_at(self, addresses: &[SocketAddr]) -> Start {
        let mut wrapper = Command::new("systemd-socket-activate");
        wrapper.args(addresses.iter().map(|address| format!("--listen={address}")));
        for (name, value) in self.command.get_envs() {
            if let Some(value) = value {
                wrapper.arg("--setenv").arg([name, value].join(std::ffi::OsStr::new("=")));
            }
        }
        self.executed_by(wrapper)
    }

    /// Makes another program execute the server. The program gets the command line as its last arguments.
    fn executed_by(mut self, mut command: Command) -> Start {
        command.arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        self.command = command;
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// If the server ends or is not ready in time. The message contains the server's log.
    #[track_caller]
    pub fn ready(self) -> Pando {
        let log = self.log.clone();
        self.ready_or_ended().unwrap_or_else(|(status, said)| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            panic!("pando is not ready ({status}); it said:\n{said}\nand logged:\n{log}");
        })
    }

    /// Starts the server, and waits until it is ready or has ended. Kills the server if it is not ready in time.
    /// Returns the exit status and the output if the server has ended or was killed.
    pub fn ready_or_ended(mut self) -> Result<Pando, (ExitStatus, String)> {
        let log: Stdio = match self.is_log_closed {
            true => std::io::pipe().unwrap().1.into(),
            false => std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap().into(),
        };
        let mut child = self.command.stderr(log).spawn().unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        let started = Instant::now();
        let mut said = String::new();
        loop {
            match lines.recv_timeout(remaining(started)) {
                Ok(line) if line.contains("ready") => {
                    let address = address_in(&line).unwrap_or_else(|| panic!("no address in {line:?}"));
                    return Ok(Pando { child, address, ready_line: line, said, lines, log: self.log });
                }
                Ok(line) => said += &(line + "\n"),
                Err(_) => {
                    // The server has closed its standard output, or does not respond.
                    let _ = child.kill();
                    return Err((child.wait().unwrap(), said));
                }
            }
        }
    }

    /// Starts the server, without waiting until it is ready.
    pub fn spawn(mut self) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        self.command.stderr(log).spawn().unwrap()
    }

    /// Runs a start that must fail. Returns the exit status and standard error.
    ///
    /// # Panics
    /// If the server starts.
    #[track_caller]
    pub fn refused(mut self) -> (ExitStatus, String) {
        let mut child = self.command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        // Standard output ends with the process, unless the server starts and prints the ready line.
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if line.contains("ready") {
                let _ = child.kill();
                let _ = child.wait();
                panic!("pando started, but should have refused to");
            }
        }
        let status = child.wait().unwrap();
        (status, errors.join().unwrap())
    }
}

/// A running server, killed when dropped.
pub struct Pando {
    child: Child,
    address: SocketAddr,
    /// The ready line.
    pub ready_line: String,
    /// Standard output before the ready line.
    pub said: String,
    lines: mpsc::Receiver<String>,
    log: PathBuf,
}

impl Pando {
    /// Starts a server with the tests' suffix and administrator.
    #[track_caller]
    pub fn start(scratch: &Scratch) -> Pando {
        Start::new(scratch).ready()
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id of the server.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Opens an anonymous connection.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap_or_else(|error| panic!("connect: {error}\n{}", self.log()))
    }

    /// Opens a connection bound as the administrator.
    #[track_caller]
    pub fn administrator(&self) -> Connection {
        let mut connection = self.connect();
        let outcome = connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
        assert!(outcome.is_success(), "bind as administrator: {outcome:?}");
        connection
    }

    /// Returns the standard error of the server so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the standard output up to the ready line, and the log so far.
    pub fn output(&self) -> String {
        format!("{}{}\n{}", self.said, self.ready_line, self.log())
    }

    /// Kills the server with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the server with SIGTERM, and waits for its end.
    #[track_caller]
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit()
    }

    /// Waits until the server ends by itself.
    #[track_caller]
    pub fn exit(&mut self) -> ExitStatus {
        // Standard output is closed when the process ends, so no polling is needed.
        let started = Instant::now();
        while self.lines.recv_timeout(remaining(started)).is_ok() {}
        assert!(started.elapsed() < DEADLINE, "pando does not stop; its log:\n{}", self.log());
        let status = self.child.wait().unwrap();
        if !status.success() {
            eprintln!("--- pando ended with {status}; its log:\n{}", self.log());
        }
        status
    }

    /// Returns the data folder of a server started with [`Start::new`].
    pub fn data(scratch: &Scratch) -> PathBuf {
        scratch.join("data")
    }
}

impl Drop for Pando {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- pando's log\n{}", self.log());
        }
    }
}

/// A file system in memory for the data of a server started with [`Start::on_small_disk`], with 1 GiB at first.
pub struct SmallDisk<'p> {
    /// The server with this file system.
    pub pando: &'p Pando,
    /// The data folder, which is the mount point of the file system.
    pub data: PathBuf,
}

impl SmallDisk<'_> {
    /// Sets the size in MiB. Only the files use memory.
    #[track_caller]
    pub fn resize(&self, mebibytes: u32) {
        let id = self.pando.id().to_string();
        let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--user"] };
        let size = format!("remount,size={mebibytes}m");
        let data = self.data.to_str().unwrap();
        let words = [&["--target", &id, "--mount"], user, &["mount", "-o", &size, data]].concat();
        super::clients::run("nsenter", &words, "").expect_code(0);
    }
}

/// The service manager's end of the notification socket.
pub struct ServiceManager(UnixDatagram);

impl ServiceManager {
    /// Creates the socket at this path.
    pub fn listen(path: &Path) -> ServiceManager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        ServiceManager(socket)
    }

    /// Waits for the next message, and returns its first line.
    pub fn next_line(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.recv(&mut bytes).expect("a message for the service manager");
        String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned()
    }
}

/// Runs another command of the binary to its end.
pub fn command(arguments: &[&str], data: Option<&Path>) -> super::clients::Run {
    let mut all: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
    if let Some(data) = data {
        all.extend([std::ffi::OsStr::new("--data"), data.as_os_str()]);
    }
    super::clients::run(program(), &all, "")
}

fn remaining(started: Instant) -> Duration {
    DEADLINE.saturating_sub(started.elapsed())
}

/// Reads lines on a separate thread, so that waiting for a line can have a deadline.
fn read_lines(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the address in the first `ldap://` URL of a line.
fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = line.split_once("ldap://")?.1;
    rest.split(|c: char| c.is_whitespace() || c == '/' || c == ',').next()?.parse().ok()
}
