//! Programs of other projects that tests run. If a program is missing, the test fails and states how to install it.

use super::{ADMIN_DN, ADMIN_PASSWORD};
use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and exit code of a program.
pub struct Run {
    /// Command line, for messages.
    pub command: String,
    /// Exit code, or `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Panics unless the exit code is `code`. For the ldap-utils, that is the LDAP result code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "exit code of {self}");
        self
    }

    /// Panics unless standard output contains `text`.
    #[track_caller]
    pub fn expect_output(self, text: &str) -> Run {
        assert!(self.stdout.contains(text), "{text:?} is missing from the output of {self}");
        self
    }

    /// Panics unless standard error contains `text`.
    #[track_caller]
    pub fn expect_error(self, text: &str) -> Run {
        assert!(self.stderr.contains(text), "{text:?} is missing from the errors of {self}");
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n--- stdout\n{}", self.command, self.stdout)?;
        write!(formatter, "--- stderr\n{}\n--- exit code {:?}", self.stderr, self.code)
    }
}

/// Runs a program to its end, with `input` as its standard input. This function has no time limit. Therefore the
/// program must limit its wait for an answer.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A], input: &str) -> Run {
    let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let command = format!("{program} {}", arguments.join(OsStr::new(" ")).to_string_lossy());
    let mut child = Command::new(program)
        .args(&arguments)
        .env("LDAPNOINIT", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{program}: {error}. ./dev test installs every client that the tests use")
        });
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        // A program may end without reading all of its input. Its exit code shows whether it succeeded.
        let _ = std::io::Write::write_all(&mut stdin, input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        command,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs one of OpenLDAP's command line clients (ldapsearch, ldapadd ...), bound as the administrator, with plain LDIF
/// output.
pub fn ldap_utility(program: &str, server: SocketAddr, arguments: &[&str], input: &str) -> Run {
    let url = format!("ldap://{server}");
    let mut all = vec!["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o", "nettimeout=60"];
    if program == "ldapsearch" {
        all.extend(["-LLL", "-o", "ldif-wrap=no"]);
    }
    all.extend(arguments);
    run(program, &all, input)
}

/// Runs a tool from the jar of the UnboundID LDAP SDK, bound as the administrator. `class` is the end of the tool's
/// class name.
pub fn unboundid_tool(class: &str, server: SocketAddr, arguments: &[&str], input: &str) -> Run {
    let port = server.port().to_string();
    let bound = ["--hostname", "127.0.0.1", "--port", &port, "--bindDN", ADMIN_DN];
    let all = [&bound[..], &["--bindPassword", ADMIN_PASSWORD], arguments].concat();
    unboundid_jar_tool(class, &all, input)
}

/// Runs a tool with a complete command line. The tool is started by its class, because the launcher of the jar always
/// exits with 0.
pub fn unboundid_jar_tool(class: &str, arguments: &[&str], input: &str) -> Run {
    let jar = unboundid_jar();
    let class = format!("com.unboundid.ldap.sdk.{class}");
    let all = [&["-cp", jar.to_str().expect("a path in UTF-8"), &class], arguments].concat();
    run("java", &all, input)
}

/// Runs a Java program of tests/clients with the UnboundID LDAP SDK, from its source.
pub fn unboundid_program(name: &str, server: SocketAddr) -> Run {
    let (jar, program) = (unboundid_jar(), repository().join("crates/pando/tests/clients").join(name));
    let [jar, program] = [&jar, &program].map(|path| path.to_str().expect("a path in UTF-8"));
    let port = server.port().to_string();
    run("java", &["-cp", jar, program, &port, ADMIN_DN, ADMIN_PASSWORD], "")
}

/// Runs a script in tests/clients with Debian's Python, even if another Python comes first in the PATH. Only Debian's
/// Python finds the Debian packages of python-ldap and ldap3.
pub fn python_script(name: &str, server: SocketAddr, arguments: &[&str]) -> Run {
    let script = repository().join("crates/pando/tests/clients").join(name);
    let url = format!("ldap://{server}");
    let mut all = vec![script.to_str().expect("a path in UTF-8"), &url, ADMIN_DN, ADMIN_PASSWORD];
    all.extend(arguments);
    run("/usr/bin/python3", &all, "")
}

fn unboundid_jar() -> PathBuf {
    let jar = repository().join(".dev/unboundid-ldapsdk.jar");
    assert!(jar.exists(), "{} is missing: run the tests by ./dev test, which fetches it", jar.display());
    jar
}

/// Returns the root folder of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
