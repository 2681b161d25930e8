//! `pando bench agent`: this machine as one of several that make load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::agents::{Agent, AgentEvent, Token};
use clap::Args;

use crate::exit;

/// The options of `pando bench agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Where to wait for a coordinator. What it sends is not encrypted: loopback, or a network of the load machines'
    /// own
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4390")]
    listen: SocketAddr,
    /// File with the secret that coordinator and agents share
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

pub(crate) fn run(arguments: &AgentArguments) -> ExitCode {
    let token = match read_token(&arguments.token_file) {
        Ok(token) => token,
        Err(message) => return exit::refused(&message),
    };
    let served = Agent::listen(arguments.listen, token, say).and_then(|agent| {
        println!("pando: load agent waits on {}", agent.address()?);
        agent.serve()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(&format!("cannot listen on {}: {error}", arguments.listen)),
    }
}

/// The token of a file.
pub(crate) fn read_token(path: &Path) -> Result<Token, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Token::new(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn say(event: AgentEvent) {
    match event {
        AgentEvent::Begins { coordinator, workload } => eprintln!("pando: {workload} for {coordinator}"),
        AgentEvent::Ended { workload, failure: None } => eprintln!("pando: {workload} is done"),
        AgentEvent::Ended { workload, failure: Some(reason) } => eprintln!("pando: {workload}: {reason}"),
        AgentEvent::Refused { peer, reason } => eprintln!("pando: {peer} was turned away: {reason}"),
        _ => {}
    }
}

pub(crate) const HELP: &str = "\
One on each load machine, of the same version as the coordinator; it works for one coordinator at a time until it is
ended. The token does not travel, but the password of the server does: do not listen where others can.

Examples:
  openssl rand -hex 24 > token
  pando bench agent --listen 10.0.0.11:4390 --token-file token
  pando bench run oid-search-random --agents 10.0.0.11:4390,10.0.0.12:4390 --token-file token --target ldap://10.0.0.1

Exit codes:
  1  cannot listen there
  2  the command line or the token is wrong";
