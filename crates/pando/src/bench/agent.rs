//! `pando bench agent`: generates load on one of several machines, for a coordinator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::agents::{Agent, AgentEvent, Token};
use clap::Args;

use super::{Stop, failed, read, refused, say};

/// The options of `pando bench agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Address to listen on for a coordinator. The traffic is not encrypted: use loopback, or a private network of the
    /// load machines
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4390")]
    listen: SocketAddr,
    /// File with the secret that coordinator and agents share
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

pub(super) fn run(arguments: &AgentArguments) -> Result<ExitCode, Stop> {
    let token = read_token(&arguments.token_file)?;
    let served = Agent::listen(arguments.listen, token, print_event).and_then(|agent| {
        println!("pando: load agent waits on {}", agent.address()?);
        agent.serve()
    });
    served.map_err(|error| failed(format!("cannot listen on {}: {error}", arguments.listen)))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the token from a file.
pub(super) fn read_token(path: &Path) -> Result<Token, Stop> {
    Token::new(&read(path)?).map_err(|error| refused(format!("{}: {error}", path.display())))
}

fn print_event(event: AgentEvent) {
    match event {
        AgentEvent::Begins { coordinator, workload } => say(&format!("{workload} for {coordinator}")),
        AgentEvent::Ended { workload, failure: None } => say(&format!("{workload} is done")),
        AgentEvent::Ended { workload, failure: Some(reason) } => say(&format!("{workload}: {reason}")),
        AgentEvent::Refused { peer, reason } => say(&format!("{peer} was turned away: {reason}")),
        _ => {}
    }
}

pub(crate) const HELP: &str = "\
Run one agent on each load machine, of the same version as the coordinator. It works for one coordinator at a time,
until it is stopped. The token is not transmitted, but the password of the server is: do not listen on an address that
others can reach.

Examples:
  openssl rand -hex 24 > token
  pando bench agent --listen 10.0.0.11:4390 --token-file token
  pando bench run oid-search-random --agents 10.0.0.11:4390,10.0.0.12:4390 --token-file token --target ldap://10.0.0.1

Exit codes:
  1  cannot listen on the address
  2  the command line or the token is wrong";
