//! `pando explain`: explains how a search is carried out, by a running server or on a stopped directory.

use std::process::ExitCode;

use clap::Args;
use client::Connection;
use directory::controls::EXPLAIN;
use ldap::{Control, ControlsBuf, FilterBuf, SearchRequest, SelectionBuf, ServerUrl};
use serde_json::json;
use server::{Config, ExplainError, Fault, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::{ScopeName, ServerArguments, socket_in};
use crate::print::Report;

pub(crate) const HELP: &str = "\
The search is carried out without its results. A star marks the terms that provide the candidates; the number after a
term is that of the entries that it matches by itself. If the directory is running, the command asks the server, through
the socket in the data directory or at --url. Only the administrator may ask.

Examples:
  pando explain --data /var/lib/pando --base dc=example,dc=com '(&(objectClass=person)(cn=*smith*))'
  pando explain --url ldap://ldap.example.com --bind-dn cn=admin --password-file secret '(mail=*)'

Exit codes: as `pando verify`.";

/// The options of `pando explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// Base of the search [default: the whole directory]
    #[arg(long, value_name = "DN", default_value = "", hide_default_value = true)]
    base: String,
    /// Scope of the search
    #[arg(long, value_enum, default_value = "sub")]
    scope: ScopeName,
    /// The filter (RFC 4515)
    filter: String,
}

pub(crate) fn run(arguments: &ExplainArguments) -> ExitCode {
    let filter = match FilterBuf::parse(&arguments.filter) {
        Ok(filter) => filter,
        Err(error) => {
            return exit::refused(&format!("filter: {error}"));
        }
    };
    if let Some(url) = arguments.server.server(arguments.data.directory().as_deref()) {
        return online(arguments, &url);
    }
    let config = match Config::load(&arguments.data.to_server()).map_err(ServeError::from) {
        Ok(config) => config,
        Err(error) => return exit::failed(&error),
    };
    let socket = socket_in(&config.data);
    match server::explain(config, &arguments.base, arguments.scope.scope(), &filter) {
        Ok(explanation) => report(Ok(explanation.to_string())),
        Err(ExplainError::Serve(error)) if error.fault() == Fault::InUse => {
            match arguments.server.connect(&socket) {
                Ok(connection) => report(explain(arguments, connection)),
                // If the process that uses the directory is not a server, report the original error.
                Err(_) => exit::failed(&error),
            }
        }
        Err(ExplainError::Serve(error)) => exit::failed(&error),
        Err(error) => exit::failure(&error.to_string()),
    }
}

fn online(arguments: &ExplainArguments, url: &ServerUrl) -> ExitCode {
    match arguments.server.connect(url) {
        Ok(connection) => report(explain(arguments, connection)),
        Err(error) => exit::failure(&error.to_string()),
    }
}

fn report(explained: Result<String, String>) -> ExitCode {
    match explained {
        Ok(explanation) => {
            let lines: Vec<&str> = explanation.lines().collect();
            Report::result(json!({ "explanation": lines }), explanation.as_str()).print();
            ExitCode::SUCCESS
        }
        Err(error) => exit::failure(&error),
    }
}

/// Sends the search with the control that requests an explanation. Ignores the entries of the response.
fn explain(arguments: &ExplainArguments, mut connection: Connection) -> Result<String, String> {
    let filter = FilterBuf::parse(&arguments.filter).map_err(|error| error.to_string())?;
    let selection = SelectionBuf::from_iter(["1.1"]);
    let scope = arguments.scope.scope();
    let request = SearchRequest::new(&arguments.base, scope, filter.as_filter(), selection.as_selection());
    let controls = ControlsBuf::from_iter([Control { oid: EXPLAIN, critical: true, value: None }]);
    let last = connection
        .search_each(request, controls.as_controls(), |_| Ok::<_, client::ClientError>(()))
        .map_err(|error| error.to_string())?;
    let message = last.message();
    let explanation = message.controls.iter().find(|control| control.oid == EXPLAIN);
    match (explanation.and_then(|control| control.value), last.outcome()) {
        (Some(text), _) => Ok(String::from_utf8_lossy(text).into_owned()),
        (None, Some(outcome)) if !outcome.is_success() => {
            Err(format!("{}: {}", outcome.code, outcome.diagnostic))
        }
        (None, _) => Err(ExplainError::NoPlan.to_string()),
    }
}
