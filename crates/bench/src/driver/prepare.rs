//! Steps before and after a run. They check the features of the server and the presence of the data, and add and remove
//! the workload's own entries.

use std::collections::VecDeque;

use client::Connection;
use ldap::{ResultCode, Scope};

use super::data::KeyData;
use super::keys::DataKey;
use super::pattern::{ColumnNames, Key, Pattern, Placeholders};
use super::plan::{self, PlannedStep, Requests};
use super::request::Backward;
use super::{DriveError, Options, Targets, secured};
use crate::Seeded;
use crate::workload::{Operation, Workload};

/// Number of entries that are looked for as a sample of the data.
const SAMPLES: u64 = 50;
/// Maximum number of outstanding requests of the preparation.
const WINDOW: usize = 64;

/// Opens a connection with the identity of the run.
fn connect(targets: &Targets, options: &Options) -> Result<Connection, DriveError> {
    let mut connection = secured::connect(targets, options)?;
    if let Some((name, password)) = &options.bind {
        let failed =
            |source| DriveError::Server { what: format!("cannot bind to {}", targets.uris[0]), source };
        let outcome = connection.bind(name, password).map_err(failed)?;
        if !outcome.is_success() {
            let what = format!("binding as {name}");
            return Err(DriveError::Refused { what, code: outcome.code.0, diagnostic: outcome.diagnostic });
        }
    }
    Ok(connection)
}

/// Returns a reason if the server does not support the SASL mechanism of the workload: the server is the null
/// responder, or its root DSE does not list the mechanism. Otherwise returns `None`.
pub(crate) fn unsupported(
    workload: &Workload,
    targets: &Targets,
    options: &Options,
) -> Result<Option<String>, DriveError> {
    let Some(mechanism) = &workload.needs.sasl else { return Ok(None) };
    if options.canned {
        return Ok(Some(format!("the null responder has no {mechanism}")));
    }
    let mut connection = connect(targets, options)?;
    let root = connection
        .search("", Scope::BaseObject, "(objectClass=*)", &["supportedSASLMechanisms"])
        .map_err(|source| DriveError::Server { what: "reading the root DSE".to_owned(), source })?;
    let found: Vec<String> =
        root.entries.iter().flat_map(|entry| entry.texts("supportedSASLMechanisms")).collect();
    if found.iter().any(|found| found.eq_ignore_ascii_case(mechanism)) {
        return Ok(None);
    }
    let list = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    Ok(Some(format!("{mechanism} is not among the server's supportedSASLMechanisms ({list})")))
}

/// Returns the server's product and version from its root DSE (RFC 3045), if the root DSE has them.
pub(crate) fn product(targets: &Targets, options: &Options) -> Option<String> {
    let mut connection = connect(targets, options).ok()?;
    let wanted = ["objectClass", "vendorName", "vendorVersion"];
    let root = connection.search("", Scope::BaseObject, "(objectClass=*)", &wanted).ok()?;
    let entry = root.entries.first()?;
    // slapd's root DSE has no vendor name, but a special object class.
    let is_slapd = entry.texts("objectClass").iter().any(|class| class == "OpenLDAProotDSE");
    let name = entry.text("vendorName").or(is_slapd.then(|| "OpenLDAP".to_owned()));
    match (name, entry.text("vendorVersion")) {
        (Some(name), Some(version)) if !version.contains(&name) => Some(format!("{name} {version}")),
        (name, version) => version.or(name),
    }
}

/// Returns the pattern of the data's DNs.
fn dn_pattern(workload: &Workload) -> Option<(Pattern, ColumnNames)> {
    let mut columns = plan::columns(workload).ok()?;
    let pattern = Placeholders::new(&mut columns).pattern(workload.data.dn.get_ref()).ok()?;
    Some((pattern, columns))
}

/// Looks for a sample of entries from the whole range of the data. Fails if some of them are missing.
pub(crate) fn check_data(
    workload: &Workload,
    data: &KeyData,
    targets: &Targets,
    options: &Options,
) -> Result<(), DriveError> {
    let Some((pattern, _)) = dn_pattern(workload) else { return Ok(()) };
    let mut connection = connect(targets, options)?;
    let (mut missing, mut example) = (0, String::new());
    let samples = SAMPLES.min(data.count);
    for sample in 0..samples {
        // The samples include the first and the last entry.
        let position = if samples > 1 { (data.count - 1) * sample / (samples - 1) } else { 0 };
        let mut dn = Vec::new();
        pattern.fill(&DataKey { data, position }, &mut Seeded::new(1), &mut dn);
        let dn = String::from_utf8_lossy(&dn).into_owned();
        let found = connection.search(&dn, Scope::BaseObject, "(objectClass=*)", &["1.1"]);
        let found =
            found.map_err(|source| DriveError::Server { what: format!("looking for {dn}"), source })?;
        if found.entries.len() != 1 {
            missing += 1;
            example = format!("{dn} ({})", found.outcome.code);
        }
    }
    if missing == 0 {
        return Ok(());
    }
    Err(DriveError::MissingData {
        missing,
        sampled: samples as usize,
        example,
        identity: options.bind.as_ref().map_or("anonymous", |(name, _)| name).to_owned(),
        hint: hint(workload, data.count, options),
    })
}

fn hint(workload: &Workload, count: u64, options: &Options) -> String {
    if workload.data.template.is_empty() {
        return "load the data that the workload asks for; --entries says how much there is, -D who asks"
            .to_owned();
    }
    let constants: String =
        workload.data.constants.iter().map(|(name, value)| format!(" --constant {name}={value}")).collect();
    format!(
        "load it, `pando generate {} --entries {count} --seed {}{constants}` makes it; --entries says how much there \
         is, -D who asks",
        workload.data.template, options.data_seed
    )
}

/// A key that is only a number.
struct Number(u64);

impl Key for Number {
    fn number(&self) -> u64 {
        self.0
    }

    fn part(&self, _: u64) -> u64 {
        1
    }

    fn column(&self, _: usize) -> &[u8] {
        &[]
    }
}

/// Returns the numbers of the workload's own entries.
pub(crate) fn own_numbers(workload: &Workload, options: &Options) -> std::ops::Range<u64> {
    let first = plan::own_first(options.shard);
    first..first + workload.own_entries
}

/// Adds the workload's own entries. Entries that remain from an earlier run are kept.
pub(crate) fn add_own(workload: &Workload, targets: &Targets, options: &Options) -> Result<(), DriveError> {
    let Some(operation) = workload.add_operation().filter(|_| workload.own_entries > 0) else {
        return Ok(());
    };
    let numbers = own_numbers(workload, options);
    let right = [ResultCode::SUCCESS, ResultCode::ENTRY_ALREADY_EXISTS];
    change_all(
        "adding an entry of the workload's own",
        operation,
        plan::add,
        numbers,
        &right,
        targets,
        options,
    )
}

/// Removes the workload's own entries, and the entries that the run added.
pub(crate) fn remove_own(
    workload: &Workload,
    added: &[u64],
    targets: &Targets,
    options: &Options,
) -> Result<(), DriveError> {
    let Some(operation) = workload.add_operation() else { return Ok(()) };
    let own = own_numbers(workload, options);
    let numbers = own.clone().chain(added.iter().copied().filter(|number| *number >= own.end));
    let right = [ResultCode::SUCCESS, ResultCode::NO_SUCH_OBJECT];
    change_all(
        "removing an entry of the workload's own",
        operation,
        plan::removal,
        numbers,
        &right,
        targets,
        options,
    )
}

fn change_all(
    what: &str,
    operation: &Operation,
    compile: fn(&Operation, &mut Placeholders<'_>) -> plan::PlanResult<PlannedStep>,
    numbers: impl Iterator<Item = u64>,
    right: &[ResultCode],
    targets: &Targets,
    options: &Options,
) -> Result<(), DriveError> {
    let mut columns = ColumnNames::default();
    // The operation was already compiled when the workload was read, so this cannot fail.
    let Ok(step) = compile(operation, &mut Placeholders::new(&mut columns)) else { return Ok(()) };
    let Requests::Template(template) = step.request else { return Ok(()) };
    let failed = |source| DriveError::Server { what: what.to_owned(), source };
    let mut connection = connect(targets, options)?;
    let (mut random, mut scratch) = (Seeded::new(options.seed ^ 0x6f77_6e00), Backward::default());
    let mut outstanding: VecDeque<ldap::MessageId> = VecDeque::new();
    let take = |connection: &mut Connection, outstanding: &mut VecDeque<ldap::MessageId>| {
        let Some(id) = outstanding.pop_front() else { return Ok(()) };
        let outcome = connection.reply(id).map_err(failed)?.outcome;
        if right.contains(&outcome.code) {
            return Ok(());
        }
        Err(DriveError::Refused {
            what: what.to_owned(),
            code: outcome.code.0,
            diagnostic: outcome.diagnostic,
        })
    };
    // Message ids start at a number that the connection itself has not used.
    for (id, number) in (1_000_i32..).zip(numbers) {
        if outstanding.len() == WINDOW {
            take(&mut connection, &mut outstanding)?;
        }
        scratch.clear();
        template.write(id, &Number(number), &[], &mut random, &mut scratch);
        connection.send_bytes(scratch.written()).map_err(failed)?;
        outstanding.push_back(ldap::MessageId(id));
    }
    while !outstanding.is_empty() {
        take(&mut connection, &mut outstanding)?;
    }
    Ok(())
}
