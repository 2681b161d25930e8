//! `pando bench agent`: this machine as one of several that make load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::agents::{Agent, AgentEvent, Token};
use clap::Args;

use super::{Stop, failed, read, refused, say};

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

pub(super) fn run(arguments: &AgentArguments) -> Result<ExitCode, Stop> {
    let token = read_token(&arguments.token_file)?;
    let served = Agent::listen(arguments.listen, token, tell).and_then(|agent| {
        println!("pando: load agent waits on {}", agent.address()?);
        agent.serve()
    });
    served.map_err(|error| failed(format!("cannot listen on {}: {error}", arguments.listen)))?;
    Ok(ExitCode::SUCCESS)
}

/// The token of a file.
pub(super) fn read_token(path: &Path) -> Result<Token, Stop> {
    Token::new(&read(path)?).map_err(|error| refused(format!("{}: {error}", path.display())))
}

fn tell(event: AgentEvent) {
    match event {
        AgentEvent::Begins { coordinator, workload } => say(&format!("{workload} for {coordinator}")),
        AgentEvent::Ended { workload, failure: None } => say(&format!("{workload} is done")),
        AgentEvent::Ended { workload, failure: Some(reason) } => say(&format!("{workload}: {reason}")),
        AgentEvent::Refused { peer, reason } => say(&format!("{peer} was turned away: {reason}")),
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
