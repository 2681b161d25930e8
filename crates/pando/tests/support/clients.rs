//! Programs of other projects that the tests run. If one is missing, the test that needs it fails and states what
//! installs it.

use super::{ADMIN_DN, ADMIN_PASSWORD};
use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and end of a program.
pub struct Run {
    /// The command line, for messages.
    pub command: String,
    /// Its exit code, `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Panics unless the exit code is `code`; for the ldap-utils it is the LDAP result code.
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

/// Runs a program to its end, with `input` on its standard input. Each of these programs has a deadline of its own
/// for an answer of the server, so it ends whatever the server does.
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
        // A program that ends without reading everything is judged by its exit code.
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

/// One of OpenLDAP's command line clients (ldapsearch, ldapadd ...), bound as the administrator, plain LDIF output.
pub fn ldap_utility(program: &str, server: SocketAddr, arguments: &[&str], input: &str) -> Run {
    let url = format!("ldap://{server}");
    let mut all = vec!["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o", "nettimeout=60"];
    if program == "ldapsearch" {
        all.extend(["-LLL", "-o", "ldif-wrap=no"]);
    }
    all.extend(arguments);
    run(program, &all, input)
}

/// One of the tools in the UnboundID LDAP SDK's jar, by the end of its class name, bound as the administrator.
pub fn unboundid_tool(class: &str, server: SocketAddr, arguments: &[&str], input: &str) -> Run {
    let port = server.port().to_string();
    let bound = ["--hostname", "127.0.0.1", "--port", &port, "--bindDN", ADMIN_DN];
    let all = [&bound[..], &["--bindPassword", ADMIN_PASSWORD], arguments].concat();
    unboundid_jar_tool(class, &all, input)
}

/// Runs a tool with all of its command line. It is started by its class, because the jar's own launcher always exits
/// with 0.
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

/// Runs a script of tests/clients with Debian's Python, which is the one that the Debian packages of python-ldap and
/// ldap3 belong to, whatever other Python is first on the PATH.
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

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
