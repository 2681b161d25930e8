//! The real binary, started on a free loopback port over a scratch folder.

use super::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX, Scratch};
use client::Connection;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The binary under test: the one that Cargo built for a test; elsewhere, as in the assault, the release build below
/// the current folder.
pub const PROGRAM: &str = match option_env!("CARGO_BIN_EXE_pando") {
    Some(program) => program,
    None => "target/release/pando",
};

/// How to start a server.
pub struct Start {
    command: Command,
    log: PathBuf,
    /// Whether nobody reads its standard error.
    is_log_closed: bool,
}

impl Start {
    /// `pando serve` over the folder `data` inside `scratch`, with the tests' suffix, administrator and a free port.
    pub fn new(scratch: &Scratch) -> Start {
        Start::bare(scratch, "data").arguments(&["--suffix", SUFFIX, "--admin-dn", ADMIN_DN])
    }

    /// `pando serve` with a free port and the administrator's password, and nothing else.
    pub fn bare(scratch: &Scratch, data: &str) -> Start {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "ldap://127.0.0.1:0", "--data"]).arg(scratch.join(data));
        command.env("PANDO_ADMIN_PASSWORD", ADMIN_PASSWORD);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Start { command, log: scratch.join("pando.log"), is_log_closed: false }
    }

    /// More of the command line.
    pub fn arguments(mut self, arguments: &[&str]) -> Start {
        self.command.args(arguments);
        self
    }

    /// Sets a variable in the server's environment.
    pub fn environment(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Start {
        self.command.env(name, value);
        self
    }

    /// Takes a variable out of the server's environment.
    pub fn without_environment(mut self, name: &str) -> Start {
        self.command.env_remove(name);
        self
    }

    /// Gives it a pipe that nobody reads as its standard error.
    pub fn with_closed_log(mut self) -> Start {
        self.is_log_closed = true;
        self
    }

    /// Cuts the power under it, or makes a call of its fail.
    pub fn with(mut self, power_cut: &powercut::PowerCut) -> Start {
        power_cut.apply(&mut self.command);
        self
    }

    /// Lets its calls fail, each fault with a line in `log`.
    pub fn with_faults(mut self, faults: &[powercut::Fault], log: &Path) -> Start {
        powercut::inject_logged(&mut self.command, faults, log);
        self
    }

    /// Lets it have so many open files, by prlimit(1), which becomes the server.
    pub fn open_files_max(mut self, count: u64) -> Start {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={count}:{count}")).arg(self.command.get_program());
        command.args(self.command.get_args());
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

    /// Starts it and waits until it says that it is ready.
    ///
    /// # Panics
    /// When it ends, or says nothing, instead; with what it wrote to its log.
    #[track_caller]
    pub fn ready(self) -> Pando {
        let log = self.log.clone();
        self.ready_or_ended().unwrap_or_else(|(status, said)| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            panic!("pando is not ready ({status}); it said:\n{said}\nand logged:\n{log}");
        })
    }

    /// Starts it and waits until it says that it is ready, or until it has ended: with its exit status and what it
    /// said.
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
                    // It has closed its standard output, or hangs.
                    let _ = child.kill();
                    return Err((child.wait().unwrap(), said));
                }
            }
        }
    }

    /// Runs it to its end, for starts that must fail: the exit status and what it wrote to standard error.
    ///
    /// # Panics
    /// When it starts all the same.
    #[track_caller]
    pub fn refused(mut self) -> (ExitStatus, String) {
        let mut child = self.command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        // Standard output ends when the process does, or has the line that says it runs.
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
    /// What it said when it was ready.
    pub ready_line: String,
    /// What it said on standard output before.
    pub said: String,
    lines: mpsc::Receiver<String>,
    log: PathBuf,
}

impl Pando {
    /// Starts one with the tests' suffix and administrator.
    #[track_caller]
    pub fn start(scratch: &Scratch) -> Pando {
        Start::new(scratch).ready()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A connection that has not bound.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap_or_else(|error| panic!("connect: {error}\n{}", self.log()))
    }

    /// A connection bound as the administrator.
    #[track_caller]
    pub fn administrator(&self) -> Connection {
        let mut connection = self.connect();
        let outcome = connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
        assert!(outcome.is_success(), "bind as administrator: {outcome:?}");
        connection
    }

    /// What it wrote to standard error until now.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// All that it said on standard output until it was ready, and logged until now.
    pub fn everything_said(&self) -> String {
        format!("{}{}\n{}", self.said, self.ready_line, self.log())
    }

    /// Kills it as a power cut of the process would: SIGKILL, no chance to clean up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    #[track_caller]
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit()
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub fn exit(&mut self) -> ExitStatus {
        // Its standard output closes when it ends, so waiting for that needs no polling.
        let started = Instant::now();
        while self.lines.recv_timeout(remaining(started)).is_ok() {}
        assert!(started.elapsed() < DEADLINE, "pando does not stop; its log:\n{}", self.log());
        let status = self.child.wait().unwrap();
        if !status.success() {
            eprintln!("--- pando ended with {status}; its log:\n{}", self.log());
        }
        status
    }

    /// The folder that a start with [`Start::new`] keeps its data in.
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

/// The service manager's end of its socket.
pub struct ServiceManager(UnixDatagram);

impl ServiceManager {
    /// One whose socket has this path.
    pub fn listen(path: &Path) -> ServiceManager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        ServiceManager(socket)
    }

    /// Waits for the next message and returns its first line.
    pub fn hears(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.recv(&mut bytes).expect("a message for the service manager");
        String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned()
    }
}

/// Runs another of the binary's commands to its end.
pub fn command(arguments: &[&str], data: Option<&Path>) -> super::clients::Run {
    let mut all: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
    if let Some(data) = data {
        all.extend([std::ffi::OsStr::new("--data"), data.as_os_str()]);
    }
    super::clients::run(PROGRAM, &all, "")
}

fn remaining(started: Instant) -> Duration {
    DEADLINE.saturating_sub(started.elapsed())
}

/// Reads lines on a thread of its own, so that waiting for one can have a deadline.
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

/// The address in the first `ldap://` URL of a line.
fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = line.split_once("ldap://")?.1;
    rest.split(|c: char| c.is_whitespace() || c == '/' || c == ',').next()?.parse().ok()
}
