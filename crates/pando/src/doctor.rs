//! `pando doctor`: looks for problems in the files, the disk, the system, and the figures that the running server
//! reports.

mod machine;
mod running;

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::{Identity, socket_in};
use crate::print::{self, Report};

pub(crate) const HELP: &str = "\
Looks at the data directory, the files that the node file names, this machine, and what the running server shows in
cn=monitor. Run it as the user of the server or as root. It writes a temporary file to measure the disk, and the table
of readers of the data file.

Examples:
  pando doctor --data /var/lib/pando --node /etc/pando/node.toml
  pando doctor --node /etc/pando/node.toml --json

Exit codes:
  0  no problem; there may be warnings
  1  a problem was found
  2  the command line or the node file is wrong";

/// The options of `pando doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    data: DataArguments,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Fine,
    Warning,
    Problem,
}

/// Result of one check.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Short stable name of the check.
    pub(crate) check: &'static str,
    pub(crate) weight: Severity,
    /// The fact that was found, and the action that it requires, if any.
    pub(crate) text: String,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Fine => "fine",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

impl Finding {
    pub(crate) fn fine(check: &'static str, text: impl Into<String>) -> Finding {
        Finding { check, weight: Severity::Fine, text: text.into() }
    }

    pub(crate) fn warning(check: &'static str, text: impl Into<String>) -> Finding {
        Finding { check, weight: Severity::Warning, text: text.into() }
    }

    pub(crate) fn problem(check: &'static str, text: impl Into<String>) -> Finding {
        Finding { check, weight: Severity::Problem, text: text.into() }
    }

    /// Returns the finding as a JSON object.
    pub(crate) fn json(&self) -> serde_json::Value {
        json!({ "check": self.check, "weight": self.weight.word(), "text": self.text })
    }

    /// Returns the finding as a line of text.
    pub(crate) fn line(&self) -> String {
        format!("{:<8} {:<14} {}\n", self.weight.word(), self.check, self.text)
    }
}

pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    let config = match Config::load(&arguments.data.to_server()).map_err(ServeError::from) {
        Ok(config) => config,
        Err(error) => return exit::failed(&error),
    };
    let findings = examine(&config, &arguments.data);
    for finding in &findings {
        // With `--quiet`, findings of severity `Fine` are omitted from the text and from the JSON output.
        if !print::form().is_quiet || finding.weight != Severity::Fine {
            Report::result(finding.json(), finding.line()).print();
        }
    }
    let has_problem = findings.iter().any(|finding| finding.weight == Severity::Problem);
    if has_problem { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs all checks.
pub(crate) fn examine(config: &Config, data: &DataArguments) -> Vec<Finding> {
    let mut findings = machine::examine(config, data.node_file());
    let url = socket_in(&config.data);
    match (Identity { bind_dn: None, password_file: None, tls_ca: None }).connect(&url) {
        Ok(mut connection) => match running::examine(&mut connection, config) {
            Ok(found) => findings.extend(found),
            Err(error) => {
                findings.push(Finding::problem("server", format!("the server does not answer: {error}")))
            }
        },
        Err(error) => findings.push(Finding::warning("server", format!("not asked: {error}"))),
    }
    findings
}
