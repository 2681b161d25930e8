//! `pando twin`: a proxy for an old and a new server, which compares their answers and switches between them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::twin::{CONNECTIONS_DEFAULT, Command, Options, QUEUE_BYTES_DEFAULT, Server};
use clap::{Args, Subcommand};
use client::Tls;
use ldap::ServerUrl;
use serde_json::{Value, json};

use crate::exit;
use crate::print::Report;

/// The options of `pando twin`.
#[derive(Debug, Args)]
pub(crate) struct TwinArguments {
    #[command(subcommand)]
    what: TwinVerb,
}

#[derive(Debug, Subcommand)]
enum TwinVerb {
    /// Forward clients to the old server, replay their requests on the new one, and compare the answers
    Run(RunArguments),
    /// Print the differences found so far
    Report(ControlArguments),
    /// Let the new server answer the clients, and replay their requests on the old one
    Switch(ControlArguments),
    /// Let the old server answer the clients again
    Back(ControlArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The old server, ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://%2FPATH
    #[arg(long, value_name = "URL")]
    old: ServerUrl,
    /// The new server
    #[arg(long, value_name = "URL")]
    new: ServerUrl,
    /// Address for clients, ldap://HOST:PORT, or ldaps://HOST:PORT for TLS; repeat the option for several
    #[arg(long, value_name = "URL", required = true)]
    listen: Vec<ServerUrl>,
    /// Certificate chain for ldaps://, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Unix socket to create, for `pando twin report`, `switch` and `back`
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Certificate authorities of both servers, in PEM form; with ldap://, use StartTLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Attribute not to compare; repeat the option for several
    #[arg(long, value_name = "NAME")]
    leave_out: Vec<String>,
    /// Maximum number of connected clients
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS_DEFAULT)]
    connections_max: usize,
    /// Memory for answers that wait for their comparison, in MiB
    #[arg(long, value_name = "MIB", default_value_t = QUEUE_BYTES_DEFAULT >> 20)]
    memory: usize,
}

#[derive(Debug, Args)]
struct ControlArguments {
    /// The socket of a running `pando twin run`
    #[arg(value_name = "PATH")]
    control: PathBuf,
}

pub(crate) fn run(arguments: TwinArguments) -> ExitCode {
    match arguments.what {
        TwinVerb::Run(arguments) => serve(arguments),
        TwinVerb::Report(ControlArguments { control }) => report(&control),
        TwinVerb::Switch(ControlArguments { control }) => order(&control, Command::Switch),
        TwinVerb::Back(ControlArguments { control }) => order(&control, Command::Back),
    }
}

fn serve(arguments: RunArguments) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(error) => return exit::refused(&error),
    };
    let ended = ::twin::run(options, |addresses| {
        for address in addresses {
            eprintln!("pando: twin listens on {address}; the old server answers the clients");
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::refused(&error.to_string()),
    }
}

fn options(arguments: RunArguments) -> Result<Options, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let tls = arguments
        .tls_ca
        .as_deref()
        .map(|path| Tls::authorities(&read(path)?).map_err(|error| format!("{}: {error}", path.display())));
    let tls = tls.transpose()?;
    let server = |url: ServerUrl| {
        let is_local = matches!(url, ServerUrl::Local(_));
        Server { url, tls: tls.clone().filter(|_| !is_local) }
    };
    let certificate = match (&arguments.tls_certificate, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let (listen_tls, listen): (Vec<_>, Vec<_>) = arguments
        .listen
        .iter()
        .map(address)
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .partition(|(is_tls, _)| *is_tls);
    if !listen_tls.is_empty() && certificate.is_none() {
        return Err("ldaps:// needs --tls-certificate and --tls-key".to_owned());
    }
    Ok(Options {
        old: server(arguments.old),
        new: server(arguments.new),
        listen: listen.into_iter().map(|(_, address)| address).collect(),
        listen_tls: listen_tls.into_iter().map(|(_, address)| address).collect(),
        certificate,
        control: arguments.control,
        ignored: arguments.leave_out,
        connections_max: arguments.connections_max,
        queue_bytes: arguments.memory.saturating_mul(1 << 20),
    })
}

/// Returns whether a listener uses TLS, and its socket address.
fn address(url: &ServerUrl) -> Result<(bool, SocketAddr), String> {
    let ServerUrl::Internet { host, port, tls } = url else {
        return Err(format!("{url}: the proxy listens on addresses of the network"));
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, *port).to_socket_addrs().map_err(|error| format!("{url}: {error}"))?;
    found.next().map(|address| (*tls, address)).ok_or_else(|| format!("{url}: no such address"))
}

/// Sends a command that chooses the server that answers clients.
fn order(control: &Path, command: Command) -> ExitCode {
    match answer(control, command) {
        Ok(value) => {
            let server = value["answers_clients"].as_str().unwrap_or_default();
            let text = format!("the {server} server answers the clients");
            Report::done(json!({ "answers_clients": server }), text).print();
            ExitCode::SUCCESS
        }
        Err(error) => exit::refused(&error),
    }
}

fn answer(control: &Path, command: Command) -> Result<Value, String> {
    let value =
        ::twin::send_command(control, command).map_err(|error| format!("{}: {error}", control.display()))?;
    match value["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(value),
    }
}

/// Prints the report. The exit code is 1 if the servers' answers differ, or if the servers are out of step.
fn report(control: &Path) -> ExitCode {
    let value = match answer(control, Command::Report) {
        Ok(value) => value,
        Err(error) => return exit::refused(&error),
    };
    let differences = value["differences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = text(&value, differences);
    Report::result(value.clone(), text).print();
    match differences.is_empty() && value["out_of_step"].is_null() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn text(value: &Value, differences: &[Value]) -> String {
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = format!(
        "the {} server answers {} clients\n{} answers compared: {} equal, {} uncertain because a change overlapped\n",
        string(&value["answers_clients"]),
        number("clients"),
        number("compared"),
        number("equal"),
        number("uncertain")
    );
    if let Some(reason) = value["out_of_step"].as_str() {
        text.push_str(&format!("OUT OF STEP: {reason}\n"));
    }
    for (reason, count) in value["not_compared"].as_object().into_iter().flatten() {
        text.push_str(&format!("{count} not compared: {reason}\n"));
    }
    let waiting = value["not_replayed_yet"]["answers"].as_u64().unwrap_or_default();
    if waiting > 0 {
        text.push_str(&format!("{waiting} not replayed yet\n"));
    }
    for difference in differences {
        let [kind, cause] = [&difference["kind"], &difference["cause"]].map(string);
        text.push_str(&format!("\n{} x {kind}: {cause}\n", difference["count"]));
        for example in difference["examples"].as_array().into_iter().flatten() {
            text.push_str(&format!("    {}\n", string(example)));
        }
    }
    if number("more_differences") > 0 {
        text.push_str(&format!("\n{} more differences of other causes\n", number("more_differences")));
    }
    text.push_str("\nlatency in microseconds     old median      p99   new median      p99\n");
    for (kind, of) in value["latency_microseconds"].as_object().into_iter().flatten() {
        let figure = |server: &str, name: &str| of[server][name].as_u64().unwrap_or_default();
        text.push_str(&format!(
            "{kind:<24} {:>13} {:>8} {:>12} {:>8}\n",
            figure("old", "median"),
            figure("old", "p99"),
            figure("new", "median"),
            figure("new", "p99")
        ));
    }
    text
}

pub(crate) const HELP: &str = "\
Clients connect to this proxy. The old server answers them; the new server gets the same requests in the same order,
and the differences between the answers are grouped by cause. Both servers must have the same entries at the start.

Examples:
  pando twin run --old ldap://old.example.com --new ldap://127.0.0.1:1389 \\
      --listen ldap://0.0.0.0:389 --control /run/twin.sock
  pando twin report /run/twin.sock
  pando twin switch /run/twin.sock
  pando twin back /run/twin.sock

Exit codes of report:
  0  no differences
  1  there are differences, or the other server lacks changes
  2  no proxy answers on the socket";
