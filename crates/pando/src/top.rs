//! `pando top`: lists the clients that cost a running server most.

use std::process::ExitCode;

use clap::Args;
use client::ClientError;
use ldap::Scope;
use serde_json::json;
use server::{ClientUse, Work};

use crate::exit;
use crate::online::TargetArguments;
use crate::print::{self, Report};
use crate::table::Table;

pub(crate) const HELP: &str = "\
Asks the running server, through the socket in its data directory or at --url, for the clients (an identity at an
address) that took most of its time in the last five to ten minutes: that of event loops and of threads for long
searches. Time for hashing passwords and for changes on the writer's thread is not included.
The identity needs the right to read cn=monitor.

Examples:
  pando top --data /var/lib/pando
  pando top --url ldap://ldap.example.com --bind-dn cn=admin --password-file secret --json

Exit codes: as `pando verify`.";

/// The options of `pando top`.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    server: TargetArguments,
}

/// Entry of `cn=monitor` below which each client has an entry.
const CLIENTS: &str = "cn=Top Clients,cn=monitor";

pub(crate) fn run(arguments: &TopArguments) -> ExitCode {
    match clients(arguments) {
        Ok(found) => {
            show(&found);
            ExitCode::SUCCESS
        }
        Err(error) => exit::failure(&error),
    }
}

fn clients(arguments: &TopArguments) -> Result<Vec<ClientUse>, String> {
    let failed = |error: ClientError| error.to_string();
    let mut connection = arguments.server.connect()?;
    let reply =
        connection.search(CLIENTS, Scope::SingleLevel, "(cn=*)", &["monitoredInfo"]).map_err(failed)?;
    if !reply.outcome.is_success() {
        let outcome = &reply.outcome;
        return Err(format!("{CLIENTS}: {}: {}", outcome.code, outcome.diagnostic));
    }
    let texts = reply.entries.iter().filter_map(|entry| entry.text("monitoredInfo"));
    texts.map(|text| text.parse().map_err(|error| format!("{text}: {error}"))).collect()
}

fn show(clients: &[ClientUse]) {
    let heading = ["milliseconds", "operations", "examined", "received", "sent", "address", "dn"];
    let (mut table, mut text) = (Table::new(heading), Vec::new());
    for ClientUse { work, source, dn } in clients {
        let Work { micros, operations, examined, bytes_received, bytes_sent } = work;
        if print::form().is_json {
            let object = json!({
                "micros": micros, "operations": operations, "examined": examined, "bytes_received": bytes_received,
                "bytes_sent": bytes_sent, "address": source, "dn": dn,
            });
            Report::result(object, "").print();
            continue;
        }
        let numbers = [&(micros / 1_000), operations, examined, bytes_received, bytes_sent];
        let dn = if dn.is_empty() { "(anonymous)" } else { dn };
        let names = [source.clone(), dn.to_owned()];
        table.row(numbers.into_iter().map(u64::to_string).chain(names).collect(), &mut text);
    }
    table.finish(&mut text);
    print!("{}", String::from_utf8_lossy(&text));
}
