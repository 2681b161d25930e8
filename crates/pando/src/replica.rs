//! `pando replica`: promotes a replica. The command asks the running server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use directory::virtual_entries::PROMOTE_REPLICA;
use ldap::ResultCode;
use serde_json::json;

use crate::exit;
use crate::online::{TargetArguments, refusal};
use crate::print::Report;

pub(crate) const HELP: &str = "\
A replica is a server that applies the log of another one, its supplier (docs/how-to/replica.md). `promote` makes it the
one that decides changes. It first has the supplier write no more, and waits until it has all changes.

Examples:
  pando replica promote --data /var/lib/pando
  pando replica promote --data /var/lib/pando --without-supplier

Exit codes: as `pando verify`.";

/// The options of `pando replica`.
#[derive(Debug, Args)]
pub(crate) struct ReplicaArguments {
    #[command(subcommand)]
    verb: ReplicaVerb,
}

#[derive(Debug, Subcommand)]
enum ReplicaVerb {
    /// Promote a running replica: from then on, it decides changes itself
    Promote {
        /// Do not ask the supplier, because it is lost for good. Changes that it has and the replica lacks are lost
        #[arg(long)]
        without_supplier: bool,
        #[command(flatten)]
        server: TargetArguments,
    },
}

pub(crate) fn run(arguments: &ReplicaArguments) -> ExitCode {
    let ReplicaVerb::Promote { without_supplier, server } = &arguments.verb;
    match server.connect().and_then(|mut connection| {
        let value = without_supplier.then_some("without supplier");
        let reply = connection
            .extended(PROMOTE_REPLICA, value.map(str::as_bytes))
            .map_err(|error| error.to_string())?;
        match reply.outcome.code {
            ResultCode::SUCCESS => Ok(()),
            code => Err(refusal(code, &reply.outcome.diagnostic)),
        }
    }) {
        Ok(()) => {
            let text =
                "promoted: this server decides changes now; remove the table [replica] of its node file";
            Report::done(json!({ "promoted": true }), text).print();
            ExitCode::SUCCESS
        }
        Err(error) => exit::failure(&error),
    }
}
