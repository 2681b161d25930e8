//! Adaptation of a workload to its environment: the open files of a process, the duration of the run, and the features
//! of a server. The notes of the result state each adaptation. If the adaptation would change the meaning of a
//! workload, the workload is not measured.

use std::time::Duration;

use super::measure::Target;
use super::{Passwords, Product};
use crate::driver::Options;
use crate::workload::{BindConnection, Operation, OperationName, Workload};

/// Number of open files of a server in addition to connections: its data, its logs, the archives of a JVM, and the file
/// descriptors that 389 DS reserves.
const OTHER_FILES: u64 = 1_000;
/// Minimum number of own entries, even for a short run.
const OWN_ENTRIES_MIN: u64 = 1_000;
/// Minimum duration of a run that measures how a freshly started server reaches full speed.
const FRESH_DURATION_MIN: Duration = Duration::from_secs(10);
/// The result code of a compare with a different value (RFC 4511 section 4.10).
const COMPARE_FALSE: u32 = 5;

/// A workload, adapted to its environment.
pub(super) struct AdaptedWorkload {
    pub(super) workload: Workload,
    pub(super) options: Options,
    /// Differences from the original workload, for the reader.
    pub(super) notes: Vec<String>,
}

/// Returns the maximum number of open files of a process. Servers and the driver have the same maximum.
pub(super) fn open_files_max() -> u64 {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limits.maximum.unwrap_or(u64::MAX)
}

/// Adapts a workload, or returns the reason why it cannot be measured. `earlier` contains the previous workloads of the
/// same group.
pub(super) fn fit(
    workload: &Workload,
    earlier: &[Workload],
    options: &Options,
    target: &Target<'_>,
    files_max: u64,
) -> Result<AdaptedWorkload, String> {
    let mut adapted =
        AdaptedWorkload { workload: workload.clone(), options: options.clone(), notes: Vec::new() };
    fit_connections(&mut adapted, earlier, files_max)?;
    fit_own_entries(&mut adapted);
    if workload.needs.fresh_start {
        adapted.options.warm_up = Some(Duration::ZERO);
        adapted.options.duration = options.duration.map(|duration| duration.max(FRESH_DURATION_MIN));
        adapted.notes.push("the server was started just before".to_owned());
    }
    fit_password_compares(&mut adapted, target)?;
    Ok(adapted)
}

/// Returns the number of connections that a client has at a time.
fn connections_each(operations: &[Operation]) -> u64 {
    let kinds = |wanted: &dyn Fn(&Operation) -> bool| operations.iter().any(wanted);
    let binds = kinds(&|operation| match operation.kind.get_ref() {
        OperationName::Authentication => true,
        OperationName::Bind => operation.connection != BindConnection::New,
        _ => false,
    });
    let others = kinds(&|operation| *operation.kind.get_ref() != OperationName::Bind);
    (u64::from(binds) + u64::from(others)).max(1)
}

fn connections(workload: &Workload, options: &Options) -> u64 {
    let first = workload.jobs.first().map_or(1, |job| job.clients);
    let clients =
        |own: usize| options.clients.map_or(own, |given| (given * own).div_ceil(first).max(1)) as u64;
    workload.jobs.iter().map(|job| clients(job.clients) * connections_each(&job.operations)).sum()
}

fn fit_connections(
    adapted: &mut AdaptedWorkload,
    earlier: &[Workload],
    files_max: u64,
) -> Result<(), String> {
    let wanted = connections(&adapted.workload, &adapted.options);
    let most = files_max.saturating_sub(OTHER_FILES).max(1);
    if wanted <= most {
        return Ok(());
    }
    let same = |other: &&Workload| {
        connections(other, &adapted.options) > most && is_same_workload(other, &adapted.workload)
    };
    if let Some(other) = earlier.iter().find(same) {
        return Err(format!(
            "{wanted} connections: a process may have {files_max} files open here (ulimit -Hn), and with as many \
             connections as that allows it would be {} again",
            other.name
        ));
    }
    let first = adapted.workload.jobs.first().map_or(1, |job| job.clients) as u64;
    let clients = adapted.options.clients.map_or(first, |given| given as u64) * most / wanted;
    adapted.options.clients = Some(clients.max(1) as usize);
    let opened = connections(&adapted.workload, &adapted.options);
    adapted.notes.push(format!(
        "{opened} connections instead of {wanted}: a process may have {files_max} files open here (ulimit -Hn)"
    ));
    Ok(())
}

/// Returns true if two workloads differ only in the number of clients.
fn is_same_workload(one: &Workload, other: &Workload) -> bool {
    let text = |text: &Option<crate::workload::Text>| text.as_ref().map(|text| text.get_ref().clone());
    let load_of = |workload: &Workload| {
        let jobs = workload.jobs.iter().enumerate();
        let operations = jobs.flat_map(|(number, job)| {
            job.operations.iter().map(move |operation| {
                let what = (*operation.kind.get_ref(), operation.weight, operation.order, operation.scope);
                let attributes: Vec<_> =
                    operation.attributes.iter().map(|attribute| attribute.get_ref().clone()).collect();
                let texts = [&operation.base, &operation.filter, &operation.dn, &operation.value].map(text);
                (number, job.outstanding, what, operation.share.map(f64::to_bits), attributes, texts)
            })
        });
        operations.collect::<Vec<_>>()
    };
    load_of(one) == load_of(other)
}

/// Reduces the number of the workload's own entries in proportion to the length of a run that is shorter than planned.
/// The number is reduced only if the entries exist only to be deleted, and never below [`OWN_ENTRIES_MIN`].
fn fit_own_entries(adapted: &mut AdaptedWorkload) {
    let workload = &mut adapted.workload;
    let planned = workload.duration_seconds as f64;
    let run = adapted.options.duration.map_or(planned, |duration| duration.as_secs_f64());
    if !workload.can_be_used_up() || workload.own_entries <= OWN_ENTRIES_MIN || run >= planned {
        return;
    }
    let own = ((workload.own_entries as f64 * run / planned) as u64).max(OWN_ENTRIES_MIN);
    adapted.notes.push(format!("{own} own entries instead of {}, for a shorter run", workload.own_entries));
    workload.own_entries = own;
}

/// Refuses or changes compares of passwords. slapd, 389 DS and OpenDJ compare userPassword octet by octet
/// (octetStringMatch, RFC 4519 section 2.41), so a hashed password never matches. Pando verifies the password against
/// the hash. The benchmark that contains these compares was published for a server that does the same.
fn fit_password_compares(adapted: &mut AdaptedWorkload, target: &Target<'_>) -> Result<(), String> {
    let is_hashed = target.setup.passwords != Passwords::Clear;
    let product = &target.description.product;
    if !is_hashed || product.starts_with(Product::Pando.label()) {
        return Ok(());
    }
    let compares_password = |operation: &Operation| {
        *operation.kind.get_ref() == OperationName::Compare
            && operation
                .attribute
                .as_ref()
                .is_some_and(|name| name.get_ref().eq_ignore_ascii_case("userPassword"))
    };
    let mut operations: Vec<_> =
        adapted.workload.jobs.iter_mut().flat_map(|job| &mut job.operations).collect();
    if operations.iter().all(|operation| compares_password(operation)) {
        return Err("it compares the stored octets of userPassword, which a hashed password never equals; the workload \
            is about verifying"
            .to_owned());
    }
    for operation in operations.iter_mut().filter(|operation| compares_password(operation)) {
        operation.expect_code = Some(COMPARE_FALSE);
        adapted.notes.push(format!(
            "{product} answers compares of userPassword with compareFalse, for it compares the stored octets; that \
             counts as right, though it verifies no password, as Pando does"
        ));
    }
    Ok(())
}

/// Returns one workload for every mix of operations. Workloads that take long to prepare are left out.
pub(super) fn one_of_each(workloads: &[Workload]) -> Vec<&Workload> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for workload in workloads {
        let operations = workload.jobs.iter().flat_map(|job| &job.operations);
        let mix: Vec<_> = operations
            .map(|operation| {
                (*operation.kind.get_ref(), operation.scope, operation.connection, operation.attributes.len())
            })
            .collect();
        if mix.is_empty() || workload.own_entries > OWN_ENTRIES_MIN || seen.contains(&mix) {
            continue;
        }
        seen.push(mix);
        found.push(workload);
    }
    found
}

#[cfg(test)]
pub(super) mod tests;
