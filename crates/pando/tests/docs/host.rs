//! A separate host for the commands of a page: namespaces with the folders, names and ports that the pages use. The
//! machine is not changed, and pages that use the same port can run at the same time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use test_support::clients::{Run, repository, run};
use test_support::page::without_output;
use test_support::pando::program;
use test_support::{DEADLINE, Scratch};

/// Script that creates the namespaces. The first argument is the scratch folder, and the others are host names.
const SET_UP: &str = r#"
set -e
scratch=$1; shift
[ $# -eq 0 ] || hostname "$1"
ip link set lo up
mount --bind /etc /mnt
mount -t tmpfs none /etc
ln -s /mnt/* /etc/
rm -f /etc/hosts /etc/ldap
mkdir /etc/ldap
ln -s /mnt/ldap/schema /etc/ldap/schema
for name in localhost "$@"; do echo "127.0.0.1 $name"; done > /etc/hosts
for file in passwd group; do rm /etc/$file; cp /mnt/$file /etc/; done
echo pando:x:64389:64389::/var/lib/pando:/bin/false >> /etc/passwd
echo pando:x:64389: >> /etc/group
mkdir /etc/pando
for folder in var/lib var/backups var/tmp srv run; do
    mkdir -p $scratch/$folder
    mount --bind $scratch/$folder /$folder
done
mkdir $scratch/home
echo up
exec sleep infinity
"#;

/// The host. Its processes end when this value is dropped.
pub(crate) struct Host {
    /// The process of unshare. When it ends, all processes in the namespaces end.
    child: Child,
    /// Process id of the first process in the namespaces.
    within: String,
    /// Whether root created the namespaces. Otherwise the user is mapped to root in them.
    is_root: bool,
    home: String,
}

impl Host {
    /// Creates the host. `names` are its host names. The first one is the host's own name.
    #[track_caller]
    pub(crate) fn new(scratch: &Scratch, names: &[&str]) -> Host {
        let is_root = rustix::process::geteuid().is_root();
        let mut unshare = Command::new("unshare");
        if !is_root {
            unshare.arg("--map-root-user");
        }
        unshare.args(["--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]);
        unshare
            .args(["--propagation", "private", "bash", "-c", SET_UP, "bash"])
            .arg(scratch.path())
            .args(names);
        let piped = unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first != "up\n" {
            let mut errors = String::new();
            let _ = child.kill();
            let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("there is no host in namespaces of its own: {errors}");
        }
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let within = std::fs::read_to_string(children).unwrap().trim().to_owned();
        Host { child, within, is_root, home: scratch.join("home").display().to_string() }
    }

    /// Returns the command line that runs commands of a page in a shell, up to the first command that fails.
    fn shell(&self, commands: &str, has_terminal: bool) -> Vec<String> {
        let programs = Path::new(program()).parent().unwrap().display();
        let commands = without_output(commands);
        let script =
            format!("PATH={programs}:$PATH; unset LDAPNOINIT; export HOME={}; cd\n{commands}", self.home);
        let typed = repository().join("crates/pando/tests/clients/typed.py").display().to_string();
        let user: &[&str] = if self.is_root { &[] } else { &["--user"] };
        let within = ["--target", &self.within, "--mount", "--net", "--pid", "--uts"];
        let session = ["setsid", "--wait"];
        let terminal: &[&str] = if has_terminal { &["/usr/bin/python3", &typed] } else { &[] };
        let words = ["bash", "-euo", "pipefail", "-c", &script];
        within
            .iter()
            .chain(user)
            .chain(&session)
            .chain(terminal)
            .chain(&words)
            .map(|word| (*word).to_owned())
            .collect()
    }

    /// Runs commands to their end on a terminal. At each question for a password, types the next line of `typed`.
    #[track_caller]
    pub(crate) fn run_typing(&self, commands: &str, typed: &str) -> Run {
        run("nsenter", &self.shell(commands, true), typed)
    }

    /// Runs commands to their end.
    #[track_caller]
    pub(crate) fn run_any(&self, commands: &str) -> Run {
        run("nsenter", &self.shell(commands, false), "")
    }

    /// Runs commands, which must succeed.
    #[track_caller]
    pub(crate) fn run(&self, commands: &str) -> Run {
        self.run_any(commands).expect_code(0)
    }

    /// Starts commands whose last one is a server, and waits until it is ready. Returns the output up to the ready
    /// line.
    #[track_caller]
    pub(crate) fn serve(&self, commands: &str) -> String {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(format!("{}/log", self.home)).unwrap();
        let mut command = Command::new("nsenter");
        command.args(self.shell(commands, false)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
            let _ = child.wait();
        });
        let mut said = String::new();
        loop {
            let line = lines.recv_timeout(DEADLINE);
            let Ok(line) = line else { panic!("{commands} is not ready: {said}\n{}", self.log()) };
            said += &format!("{line}\n");
            if line.contains("ready on ") || line.contains("listens on ") {
                return said;
            }
        }
    }

    /// Returns the standard error of all servers.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(format!("{}/log", self.home)).unwrap_or_default()
    }

    /// Sends SIGTERM to all processes of the host except the first, and waits until they have ended.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.run("kill -TERM -1; pidwait -x pando || true");
    }

    /// Runs a function in the host's network. Processes that the function starts are in that network too. Requires
    /// root.
    #[cfg(feature = "kafka")]
    #[track_caller]
    pub(crate) fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        use std::os::fd::AsFd as _;

        let network = std::fs::File::open(format!("/proc/{}/ns/net", self.within)).unwrap();
        // A thread cannot be moved back without another open file, so this thread ends.
        let in_network = || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(in_network).join().unwrap())
    }

    /// Writes a file in the folder in which commands run.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(format!("{}/{name}", self.home), text).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the host\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
