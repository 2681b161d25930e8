//! Servers of S3-compatible storage: rclone, which starts quickly, and SeaweedFS.

use super::clients::{Run, repository};
use super::{DEADLINE, Scratch};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Name of the bucket.
pub const BUCKET: &str = "pando-test";
const KEY: &str = "testkey";
/// A secret that must not appear in any output of Pando.
pub const SECRET: &str = "s3-secret-that-is-not-shown";

/// A server with one bucket, killed when dropped.
pub struct S3 {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl S3 {
    /// Starts rclone, whose bucket is a folder of files.
    pub fn rclone(scratch: &Scratch) -> S3 {
        let folder = scratch.join("s3");
        fs::create_dir_all(folder.join(BUCKET)).unwrap();
        let mut command = Command::new(program("rclone"));
        command.args(["serve", "s3", "--addr", "127.0.0.1:0", "--config", "/dev/null", "--auth-key"]);
        command.arg(format!("{KEY},{SECRET}")).arg(&folder).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(&mut process);
        let address = loop {
            let line = lines.recv_timeout(DEADLINE).expect("rclone says its address");
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.trim_end_matches("/]").parse().unwrap();
            }
        };
        S3 { process, address, folder: folder.join(BUCKET) }
    }

    /// Starts SeaweedFS with all of its components in one process.
    pub fn seaweedfs(scratch: &Scratch) -> S3 {
        let folder = scratch.join("s3");
        fs::create_dir_all(&folder).unwrap();
        let keys = format!(
            "{{\"identities\":[{{\"name\":\"test\",\"credentials\":[{{\"accessKey\":\"{KEY}\",\"secretKey\":\
             \"{SECRET}\"}}],\"actions\":[\"Admin\",\"Read\",\"Write\",\"List\"]}}]}}"
        );
        let keys = scratch.write("s3.json", keys);
        let mut command = Command::new(program("weed"));
        command.args(["-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]);
        command.arg("-master.volumeSizeLimitMB=64").arg(format!("-dir={}", folder.display()));
        command.arg(format!("-s3.config={}", keys.display()));
        let ports = free_ports();
        let of = ["master", "volume", "filer", "s3"];
        let grpc = ports.iter().skip(of.len());
        command.args(of.iter().zip(&ports).map(|(part, port)| format!("-{part}.port={port}")));
        command.args(of.iter().zip(grpc).map(|(part, port)| format!("-{part}.port.grpc={port}")));
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[3]));
        let server = S3 { process, address, folder };
        super::cluster::until("SeaweedFS to listen", || TcpStream::connect(address).ok());
        let mut shell = Command::new(program("weed"));
        shell.arg("shell").arg(format!("-master=127.0.0.1:{}.{}", ports[0], ports[4]));
        super::cluster::until("a bucket", || {
            let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            use std::io::Write as _;
            writeln!(child.stdin.take().unwrap(), "s3.bucket.create -name {BUCKET}\ns3.bucket.list").unwrap();
            let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
            said.contains(&format!("  {BUCKET}\t")).then_some(())
        });
        server
    }

    /// Returns the address of the S3 service.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the folder of rclone's bucket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a credentials file.
    pub fn credentials(scratch: &Scratch, name: &str, secret: &str) -> PathBuf {
        let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n");
        let file = scratch.write(name, text);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a `pando` command with the environment variables for a bucket at an address.
pub fn pando_at(address: SocketAddr, secret: &str) -> Command {
    let mut command = Command::new(super::pando::program());
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", secret).env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT_URL", format!("http://{address}")).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Run {
    let output = command.output().unwrap();
    Run {
        command: format!("{command:?}"),
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn program(name: &str) -> PathBuf {
    let path = repository().join(".dev/s3/bin").join(name);
    assert!(path.exists(), "{} is missing: run the tests by ./dev, which installs it", path.display());
    path
}

/// Returns the lines of standard error. A thread reads them to the end.
fn lines_of(process: &mut Child) -> Receiver<String> {
    let errors = BufReader::new(process.stderr.take().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Returns eight ports that were free a moment ago.
fn free_ports() -> Vec<u16> {
    let bound: Vec<_> = (0..8).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
