//! Running other programs, in two ways: to their end, with a measurement of their cost, or as servers that are started
//! and stopped.
//!
//! CPU time is the kernel's count for the process and all children for which it waited. The count is read after the
//! process has ended and before it is reaped, so it is complete. Memory is sampled for the process and its descendants.

use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use client::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::PeerError;
use crate::cpu;

/// Interval between samples of memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// Interval between requests to a starting server. It is long enough that the requests cost the server very little.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Maximum time from the start of a server to its first answer.
const START_MAX: Duration = Duration::from_secs(150);
/// Maximum time for a server to stop before it is killed.
const STOP_MAX: Duration = Duration::from_secs(120);
/// Window in which idleness is measured. A server is idle if it uses CPU time for less than a third of the window.
const SETTLE_WINDOW: Duration = Duration::from_millis(60);
/// Maximum number of octets of a program's output in an error.
const SAID_MAX: u64 = 4096;
const SAID_LINES_MAX: usize = 12;

/// Cost of running a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time from start to end.
    pub wall: Duration,
    /// User and system time of the program and its children.
    pub cpu: Duration,
    /// Maximum resident memory, mapped files included.
    pub rss_peak_bytes: u64,
    /// Maximum private memory (RssAnon).
    pub rss_anon_peak_bytes: u64,
}

/// Maximum time of a tool that processes no data, such as one that writes a configuration.
pub(crate) const SETUP_MAX: Duration = Duration::from_secs(180);

/// Returns the maximum time of a tool that reads or writes all data. In this time the slowest loader, which reads half
/// a megabyte per second on a busy machine, can read twice the file.
pub(crate) fn data_time_max(ldif_bytes: u64) -> Duration {
    Duration::from_secs(120 + ldif_bytes / 250_000)
}

/// Runs a program to its end on all cores, with its output in `log`. The program is killed after `time_max`.
///
/// # Errors
/// The program cannot be run, takes too long or fails.
pub fn run(command: &Command, log: &Path, time_max: Duration) -> Result<Cost, PeerError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut child = spawn(command, log, &[])?;
    let io = |error| PeerError::Io { what: format!("wait for {name}"), error };
    let pid = pid_of(&child);
    let (ended, has_ended) = mpsc::channel::<()>();
    let id = child.id();
    let sampler = std::thread::spawn(move || {
        let mut peak = Memory::default();
        while let Err(RecvTimeoutError::Timeout) = has_ended.recv_timeout(SAMPLE_EVERY) {
            let now = Memory::of_tree(id);
            peak = Memory { rss: peak.rss.max(now.rss), anon: peak.anon.max(now.anon) };
        }
        peak
    });
    let in_time = ends_within(pid, time_max).map_err(|error| io(error.into()))?;
    if !in_time {
        end_tree(id);
    }
    // The process is not reaped yet, so /proc still has its times.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .map_err(|error| io(error.into()))?;
    let wall = started.elapsed();
    let cpu = cpu::process_time_with_children(id).map_err(io)?;
    drop(ended);
    let peak = sampler.join().unwrap_or_default();
    let status = child.wait().map_err(io)?;
    if !in_time {
        return Err(PeerError::TooSlow { command: name, seconds: time_max.as_secs(), output: end_of(log) });
    }
    if !status.success() {
        return Err(PeerError::Failed { command: name, status, output: end_of(log) });
    }
    Ok(Cost { wall, cpu, rss_peak_bytes: peak.rss, rss_anon_peak_bytes: peak.anon })
}

/// Memory of a process and its descendants, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    rss: u64,
    anon: u64,
}

impl Memory {
    fn of_tree(id: u32) -> Memory {
        let mut sum = Memory::default();
        for id in tree(id) {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let field = |name| status_kib(&status, name).unwrap_or_default() * 1024;
            sum.rss += field("VmRSS:");
            sum.anon += field("RssAnon:");
        }
        sum
    }
}

/// Returns a process and its descendants.
fn tree(id: u32) -> Vec<u32> {
    let mut all = vec![id];
    let mut next = 0;
    while let Some(id) = all.get(next).copied() {
        // The kernel lists a child under the thread that created it.
        for thread in std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// Kills a process and its descendants. A loader is often a shell script that runs the program.
fn end_tree(id: u32) {
    for pid in tree(id).into_iter().filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        // The process may already have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns true if a process ends within the given time.
fn ends_within(pid: Pid, time: Duration) -> rustix::io::Result<bool> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn status_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the memory of the machine; 0 if /proc does not report it.
pub fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    status_kib(&text, "MemTotal:").unwrap_or_default() * 1024
}

/// Returns the disk space that a folder's files occupy. Holes in files do not count.
pub fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sum += disk_bytes(&entry.path()),
            Ok(metadata) => sum += metadata.blocks() * 512,
            Err(_) => {}
        }
    }
    sum
}

/// Reads all files of a folder once, so that they are in the page cache. Returns the number of octets. Some systems
/// reclaim pages that were not used for half a minute (DAMON's proactive reclaim). Such pages include the data of a
/// stopped server. Without this call, the server would read them from the disk in its next workload. Files that cannot
/// be read are skipped, because the server will report them.
pub fn read_in(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sum += read_in(&entry.path()),
            // Of a sparse file, only the data is read, not the holes.
            Ok(metadata) if metadata.is_file() => {
                let file = std::fs::File::open(entry.path()).map(|file| file.take(metadata.blocks() * 512));
                sum += file.and_then(|mut file| io::copy(&mut file, &mut io::sink())).unwrap_or(0);
            }
            Ok(_) | Err(_) => {}
        }
    }
    sum
}

/// Returns the free space of a folder's disk.
///
/// # Errors
/// There is no such folder.
pub fn free_disk_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

/// A running server. It is killed when the value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    product: String,
}

impl Server {
    /// Starts a server on these cores, and waits until the server accepts a connection and returns its root DSE.
    ///
    /// # Errors
    /// The server ends, or does not answer.
    pub fn start(
        product: &str,
        command: &Command,
        log: &Path,
        address: SocketAddr,
        cores: &[usize],
    ) -> Result<Server, PeerError> {
        let child = spawn(command, log, cores)?;
        let mut server = Server { child, address, product: product.to_owned() };
        let started = Instant::now();
        loop {
            if answers(address) {
                return Ok(server);
            }
            let product = product.to_owned();
            if server.wait(ASK_EVERY)? {
                let wait = server.child.wait();
                let status = wait.map_err(|error| PeerError::Io { what: product.clone(), error })?;
                return Err(PeerError::Ended { product, status, output: end_of(log) });
            }
            if started.elapsed() > START_MAX {
                return Err(PeerError::Silent { product, seconds: START_MAX.as_secs(), output: end_of(log) });
            }
        }
    }

    /// Returns a process that is not a server, for tests.
    #[cfg(test)]
    pub(super) fn of_child(child: Child, address: SocketAddr, product: &str) -> Server {
        Server { child, address, product: product.to_owned() }
    }

    /// Returns the address of the server's listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns a bound connection.
    ///
    /// # Errors
    /// The connection cannot be opened, or the bind fails.
    pub fn bound(&self, name: &str, password: &str) -> Result<Connection, PeerError> {
        let failed = |why: &dyn std::fmt::Display| PeerError::Answer(format!("{}: {why}", self.product));
        let mut connection = Connection::open(self.address).map_err(|error| failed(&error))?;
        let outcome = connection.bind(name, password).map_err(|error| failed(&error))?;
        if outcome.is_success() {
            return Ok(connection);
        }
        Err(failed(&format!("bind as {name}: {} {}", outcome.code, outcome.diagnostic)))
    }

    /// Stops all threads of the server (SIGSTOP), so that its housekeeping does not disturb other servers until
    /// [`go_on`](Server::go_on) is called.
    pub fn hold(&self) {
        // This fails only if the process has ended. The next request to the server will show that.
        let _ = kill_process(pid_of(&self.child), Signal::STOP);
    }

    /// Continues the server (SIGCONT).
    pub fn go_on(&self) {
        let _ = kill_process(pid_of(&self.child), Signal::CONT);
    }

    /// Requests the server to stop, and waits for its end. The server is killed if it does not stop in time.
    ///
    /// # Errors
    /// The server had to be killed.
    pub fn stop(self) -> Result<(), PeerError> {
        let io = |error: rustix::io::Errno| PeerError::Io { what: self.product.clone(), error: error.into() };
        self.go_on();
        kill_process(pid_of(&self.child), Signal::TERM).map_err(io)?;
        if self.wait(STOP_MAX)? {
            return Ok(());
        }
        let seconds = STOP_MAX.as_secs();
        Err(PeerError::Answer(format!("{} did not stop within {seconds} s and was killed", self.product)))
    }

    /// Waits until the server is idle. Searches of a disconnected client may continue for a long time. Returns true if
    /// the server became idle, or ended, within the time.
    pub fn settles_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let used = || cpu::process_time(self.id()).unwrap_or_default();
        let mut before = used();
        loop {
            if self.wait(SETTLE_WINDOW).unwrap_or(true) {
                return true;
            }
            let now = used();
            if now.saturating_sub(before) < SETTLE_WINDOW / 3 {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            before = now;
        }
    }

    /// Returns true if the server has ended.
    pub fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO).unwrap_or(true)
    }

    /// Returns true if the server ends within the given time.
    fn wait(&self, time: Duration) -> Result<bool, PeerError> {
        ends_within(pid_of(&self.child), time)
            .map_err(|error| PeerError::Io { what: self.product.clone(), error: error.into() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn answers(address: SocketAddr) -> bool {
    let Ok(mut connection) = Connection::open(address) else { return false };
    let reply = connection.search("", ldap::Scope::BaseObject, "(objectClass=*)", &["1.1"]);
    // A server that is still opening its data answers busy or unavailable. A server that requires TLS answers
    // confidentialityRequired when it is ready.
    reply.is_ok_and(|reply| {
        reply.outcome.is_success() || reply.outcome.code == ldap::ResultCode::CONFIDENTIALITY_REQUIRED
    })
}

/// Starts a program on these cores, or on all cores, with its output in `log`. The kernel kills the program when the
/// thread that started it ends. Without this, a server stopped by SIGSTOP would continue to exist after Ctrl-C.
fn spawn(command: &Command, log: &Path, cores: &[usize]) -> Result<Child, PeerError> {
    let program = PathBuf::from(command.get_program());
    if program.is_absolute() && !program.exists() {
        return Err(PeerError::Missing(program));
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let file = file.map_err(PeerError::io("open", log))?;
    let twin = file.try_clone().map_err(PeerError::io("open", log))?;
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(&program).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.stdin(Stdio::null()).stdout(file).stderr(twin);
    let spawned = on_cores(cores, || wrapped.spawn());
    spawned.map_err(|error| PeerError::Io { what: format!("start {} by setpriv", program.display()), error })
}

/// Runs a function on certain cores. A program that the function starts inherits these cores. If `cores` is empty, the
/// cores are not restricted.
pub(crate) fn on_cores<T>(cores: &[usize], run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return run();
    }
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set)?;
    let done = run();
    sched_setaffinity(None, &before)?;
    done
}

/// Runs a program that ends soon, such as one that prints its version. Returns its exit status and its output,
/// including standard error.
pub(crate) fn output(command: &mut Command) -> Result<(ExitStatus, String), PeerError> {
    let name = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PeerError::Missing(name.clone()),
        _ => PeerError::Io { what: format!("run {}", name.display()), error },
    })?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ok((output.status, text.into_owned()))
}

/// Returns the last lines of a log.
pub(crate) fn end_of(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(SAID_MAX)))?;
        let mut output = Vec::new();
        file.read_to_end(&mut output)?;
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<_> = output.lines().collect();
        let first = lines.len().saturating_sub(SAID_LINES_MAX);
        Ok(lines[first..].iter().map(|line| format!("{line}\n")).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_program_and_what_it_started_is_counted() {
        let log = std::env::temp_dir().join(format!("pando-process-{}", std::process::id()));
        let mut command = Command::new("sh");
        // The subshell uses the CPU time, and the shell waits for it.
        command.args(["-c", "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); echo done"]);
        let cost = run(&command, &log, SETUP_MAX).unwrap();
        assert!(cost.wall >= cost.cpu / 2 && cost.cpu > Duration::ZERO, "{cost:?}");
        assert!(cost.rss_peak_bytes >= cost.rss_anon_peak_bytes, "{cost:?}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "done\n");
        let error = run(Command::new("sh").args(["-c", "echo no; exit 3"]), &log, SETUP_MAX).unwrap_err();
        assert!(error.to_string().contains("no\n"), "{error}");
        // The script has a child that would run forever.
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 100000 & wait"]);
        let error = run(&command, &log, Duration::from_millis(300)).unwrap_err();
        assert!(matches!(&error, PeerError::TooSlow { output, .. } if output.contains("begun")), "{error}");
        let _ = std::fs::remove_file(&log);
    }

    #[test]
    fn a_server_program_that_ends_is_an_error() {
        let log = std::env::temp_dir().join(format!("pando-no-server-{}", std::process::id()));
        let address = super::super::free_address().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo sorry >&2; exit 1"]);
        let error = Server::start("sh", &command, &log, address, &[0]).unwrap_err();
        assert!(matches!(&error, PeerError::Ended { output, .. } if output.contains("sorry")), "{error}");
        let command = Command::new("/nowhere/slapd");
        let error = Server::start("x", &command, &log, address, &[]).unwrap_err();
        assert!(error.to_string().contains("./dev peers"), "{error}");
        let _ = std::fs::remove_file(&log);
    }

    #[test]
    fn all_files_of_a_folder_are_read() {
        let folder = std::env::temp_dir().join(format!("pando-read-in-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        std::fs::write(folder.join("one"), [1; 5_000]).unwrap();
        std::fs::write(folder.join("below/other"), [1; 70_000]).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("endless")).unwrap();
        // Some systems allocate blocks only when a file is synced.
        for name in ["one", "below/other"] {
            std::fs::File::open(folder.join(name)).unwrap().sync_all().unwrap();
        }
        assert_eq!(read_in(&folder), 75_000);
        assert_eq!(read_in(&folder.join("nowhere")), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn memory_and_disk_sizes_are_read_from_the_system() {
        assert!(memory_bytes() > 1 << 28);
        assert_eq!(status_kib("VmRSS:\t  120 kB\nRssAnon:\t 7 kB\n", "RssAnon:"), Some(7));
        assert!(free_disk_bytes(&std::env::temp_dir()).unwrap() > 0);
    }
}
