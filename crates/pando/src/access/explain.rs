//! `pando access explain`: explains whether an operation is allowed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::Connection;
use directory::access::{AccessExplanation, DecidingRule};
use directory::virtual_entries::EXPLAIN_ACCESS;
use ldap::AccessQuestion;
use serde_json::json;
use server::settings::{self, SettingsFile};
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::ServerArguments;
use crate::print::Report;

pub(super) const HELP: &str = "\
With --data, the command reads the data file, whether or not a server is running. With --online or --url, it asks the
server, which answers the administrator and requesters that have the right explain at that entry.
OPERATION is a right: browse, add, delete, rename, explain, reset of an entry; read, search, compare, write of an
attribute; use of a control or an extended operation, which is given in place of the entry.

Examples:
  pando access explain --data /var/lib/pando --as uid=anna,ou=people,dc=example,dc=com \\
    --operation read uid=bert,ou=people,dc=example,dc=com telephoneNumber
  pando access explain --online --data /var/lib/pando --settings settings.toml \\
    --as anonymous --operation browse dc=example,dc=com

Exit codes:
  0  the operation is allowed
  1  the command failed
  4  the data directory cannot be read
  8  the operation is denied";

/// The options of `pando access explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// Requester: a DN, u:NAME, or anonymous
    #[arg(long = "as", value_name = "WHO")]
    requester: String,
    /// The right to check
    #[arg(long, value_name = "OPERATION")]
    operation: String,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// The client uses TLS or a local socket
    #[arg(long)]
    over_tls: bool,
    /// Method of the bind: simple, or a SASL mechanism
    #[arg(long, value_name = "METHOD")]
    bound_by: Option<String>,
    /// Time of the request in UTC, such as "monday 08:30"
    #[arg(long, value_name = "DAY_AND_TIME")]
    time: Option<String>,
    /// Name of the listener that receives the request, such as ldaps
    #[arg(long, value_name = "NAME")]
    at_listener: Option<String>,
    /// The settings file from which the rules were applied, to show the line of each rule
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// DN of the entry; for `add`, of the new entry; for `use`, a control or an extended operation
    dn: String,
    /// The attribute, if the right applies to attributes
    attribute: Option<String>,
}

pub(super) fn run(arguments: &ExplainArguments) -> ExitCode {
    let file = match arguments.settings.as_deref().map(settings::read).transpose() {
        Ok(file) => file,
        Err(error) => return exit::failed(&error),
    };
    let requester = identity(&arguments.requester);
    let (entry, attribute) = match (arguments.operation.as_str(), arguments.attribute.as_deref()) {
        ("use", None) => ("", Some(arguments.dn.as_str())),
        (_, attribute) => (arguments.dn.as_str(), attribute),
    };
    let question = AccessQuestion {
        requester: &requester,
        right: &arguments.operation,
        entry,
        attribute,
        address: arguments.from.as_deref(),
        over_tls: arguments.over_tls,
        bound_by: arguments.bound_by.as_deref(),
        time: arguments.time.as_deref(),
        listener: arguments.at_listener.as_deref(),
    };
    if let Some(url) = arguments.server.server(arguments.data.directory().as_deref()) {
        let connected = arguments.server.connect(&url).map_err(|error| error.to_string());
        return match connected.and_then(|connection| explain(connection, &question)) {
            Ok(explanation) => print(&explanation, file.as_ref()),
            Err(error) => exit::failure(&error),
        };
    }
    let opened = Config::load(&arguments.data.to_server())
        .map_err(ServeError::from)
        .and_then(|config| super::open_review(&config));
    match opened.map(|review| review.explain(&question)) {
        Err(error) => exit::failed(&error),
        Ok(Err(error)) => exit::failure(&error.to_string()),
        Ok(Ok(explanation)) => print(&explanation, file.as_ref()),
    }
}

/// Converts the requester on the command line to an authorization identity (RFC 4513 section 5.2.1.8).
pub(super) fn identity(requester: &str) -> String {
    match requester {
        "anonymous" => String::new(),
        known if known.starts_with("u:") || known.starts_with("dn:") => known.to_owned(),
        dn => format!("dn:{dn}"),
    }
}

fn explain(mut connection: Connection, question: &AccessQuestion<'_>) -> Result<AccessExplanation, String> {
    let reply =
        connection.extended(EXPLAIN_ACCESS, Some(&question.encode())).map_err(|error| error.to_string())?;
    if !reply.outcome.is_success() {
        return Err(format!("{}: {}", reply.outcome.code, reply.outcome.diagnostic));
    }
    let value = reply.extended.value.unwrap_or_default();
    Ok(AccessExplanation::of_lines(&String::from_utf8_lossy(&value)))
}

fn print(explanation: &AccessExplanation, file: Option<&SettingsFile>) -> ExitCode {
    let mut text = format!("{}: {}\n", explanation.word(), explanation.verdict);
    let mut rules = Vec::new();
    for rule in &explanation.rules {
        let line = file.and_then(|file| line(rule, file));
        rules.push(json!({ "rule": rule.to_string(), "line": line }));
        text += &line.map_or_else(|| format!("  {rule}\n"), |line| format!("  {line}: {rule}\n"));
    }
    let AccessExplanation { is_allowed, verdict, notes, needed, .. } = explanation;
    text.extend(notes.iter().map(|note| format!("  {note}\n")));
    for (place, needed) in needed.iter().enumerate() {
        text += &format!("{} {needed}\n", if place == 0 { "needed:" } else { "    or:" });
    }
    let needed: Vec<String> = needed.iter().map(ToString::to_string).collect();
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    let object = json!({
        "allowed": is_allowed, "verdict": verdict.to_string(), "rules": rules, "notes": notes, "needed": needed,
    });
    Report::result(object, text).print();
    if explanation.is_allowed { ExitCode::SUCCESS } else { exit::denied() }
}

/// Returns the line of a settings file that contains the rule, if the file contains it.
fn line(rule: &DecidingRule, file: &SettingsFile) -> Option<String> {
    let rules = &file.settings().general.access_rules;
    let number = rules.iter().position(|text| *text == rule.text)?;
    let (path, line) = file.line_of("access_rules", number);
    Some(format!("{}:{line}", path.display()))
}
