//! `pando undelete`: lists deleted entries and brings them back. The command asks the running server.

use std::process::ExitCode;

use clap::Args;
use client::Connection;
use directory::csn::generalized_time;
use directory::virtual_entries::{LIST_DELETED, UNDELETE};
use ldap::{DeletedAnswer, DeletedEntry, DeletedRequest, ResultCode, UndeleteAnswer, UndeleteRequest};
use serde_json::json;
use uuid::Uuid;

use crate::exit;
use crate::online::{TargetArguments, refusal};
use crate::print::Report;
use crate::table::printable;

pub(crate) const HELP: &str = "\
Asks the running server as the administrator, through the socket in the data directory or at --url. Deleted entries are
kept for as long as the setting keep_deleted_seconds says.

Examples:
  pando undelete --data /var/lib/pando
  pando undelete --data /var/lib/pando uid=anna,ou=people,dc=example,dc=com
  pando undelete --data /var/lib/pando 4f0c9b4e-7a9c-4f0e-8b44-0f2f3c1d5e6a --superior ou=former,dc=example,dc=com

Exit codes: as `pando verify`.";

/// The options of `pando undelete`.
#[derive(Debug, Args)]
pub(crate) struct UndeleteArguments {
    /// DN of the deleted entry, or its entryUUID; entries below it that were deleted with it come back too [default:
    /// list all]
    entry: Option<String>,
    /// Bring the entry back below this one instead of below its former superior
    #[arg(long, value_name = "DN", requires = "entry")]
    superior: Option<String>,
    #[command(flatten)]
    server: TargetArguments,
}

pub(crate) fn run(arguments: &UndeleteArguments) -> ExitCode {
    let done = arguments.server.connect().and_then(|mut connection| match &arguments.entry {
        None => list(&mut connection),
        Some(entry) => undelete(&mut connection, entry, arguments.superior.as_deref()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(&error),
    }
}

/// Sends an extended operation, and returns the value of its response.
fn send_request(connection: &mut Connection, name: &str, value: &[u8]) -> Result<Vec<u8>, String> {
    let reply = connection.extended(name, Some(value)).map_err(|error| error.to_string())?;
    match reply.outcome.code {
        ResultCode::SUCCESS => Ok(reply.extended.value.unwrap_or_default()),
        code => Err(refusal(code, &reply.outcome.diagnostic)),
    }
}

/// Calls `each` with the deleted entries that had the DN `name`, newest first. Without a name, calls `each` with all
/// deleted entries. Stops if `each` returns false.
fn each_deleted(
    connection: &mut Connection,
    name: Option<&str>,
    each: &mut dyn FnMut(&DeletedEntry) -> bool,
) -> Result<(), String> {
    let mut from = Vec::new();
    loop {
        let value = send_request(connection, LIST_DELETED, &DeletedRequest { from: &from, name }.encode())?;
        let DeletedAnswer { next, entries } = DeletedAnswer::decode(&value).ok_or(MALFORMED)?;
        if next.is_empty() && entries.is_empty() || !entries.iter().all(&mut *each) || next.is_empty() {
            return Ok(());
        }
        from = next;
    }
}

const MALFORMED: &str = "the server's answer is malformed";

fn list(connection: &mut Connection) -> Result<(), String> {
    each_deleted(connection, None, &mut |entry| {
        let DeletedEntry { uuid, micros, requester, dn } = entry;
        let time = generalized_time(micros / 1_000_000);
        let uuid = Uuid::from_bytes(*uuid).hyphenated().to_string();
        let text = format!("{time}  {uuid}  {}  (by {})", printable(dn), printable(requester));
        Report::result(json!({ "time": time, "uuid": uuid, "dn": dn, "requester": requester }), text).print();
        true
    })
}

fn undelete(connection: &mut Connection, entry: &str, superior: Option<&str>) -> Result<(), String> {
    let uuid = match Uuid::try_parse(entry) {
        Ok(uuid) => uuid.into_bytes(),
        Err(_) => newest(connection, entry)?,
    };
    let value = send_request(connection, UNDELETE, &UndeleteRequest { uuid, superior }.encode())?;
    let UndeleteAnswer { dn, entries } = UndeleteAnswer::decode(&value).ok_or(MALFORMED)?;
    let shown = printable(&dn);
    let text = match entries {
        1 => format!("{shown} is back"),
        _ => format!("{shown} is back, with {} entries below it", entries - 1),
    };
    Report::done(json!({ "dn": dn, "entries": entries }), text).print();
    Ok(())
}

/// Returns the entryUUID of the last deleted entry that had this DN.
fn newest(connection: &mut Connection, dn: &str) -> Result<[u8; 16], String> {
    let mut found = None;
    each_deleted(connection, Some(dn), &mut |entry| {
        found = Some(entry.uuid);
        false
    })?;
    found.ok_or_else(|| {
        format!(
            "no deleted entry {dn} is kept: keep_deleted_seconds says how long they are, 0 for not at all"
        )
    })
}
