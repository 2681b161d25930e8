//! Directories of the nodes of a run.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use directory::check::check;
use directory::digest::{RowSlice, each_row};
use directory::index::maintenance::SliceBudget;
use directory::violations::violations;
use directory::virtual_entries::{MonitorSource, VirtualEntry};
use directory::{Directory, OpenOptions, Requester, Stamp, Writer, joins, linking};
use ldap::{DecodeLimits, Message, ResultCode};

use super::workload::{SUFFIX, first_entries, settings};

struct NoMonitor;

impl MonitorSource for NoMonitor {
    fn entries(&self) -> Vec<VirtualEntry> {
        Vec::new()
    }
}

pub(super) fn open(path: &Path) -> (Arc<Directory>, Writer) {
    let options = OpenOptions {
        initial: settings(),
        suffixes: vec![SUFFIX.to_owned()],
        node: Default::default(),
        monitor: Arc::new(NoMonitor),
        vendor_version: String::new(),
        store: store::Options { reserve_bytes: 0, map_bytes: Some(1 << 26), ..store::Options::default() },
        stamp: Stamp { now_micros: 1_000, uuid: [9; 16], ..Stamp::default() },
        follows_log: true,
        becomes_replica: false,
    };
    Directory::open(path, options).unwrap()
}

pub(super) fn administrator() -> Requester {
    Requester::Administrator { dn: directory::NodeSettings::default().admin_dn }
}

/// Returns all rows that must be equal on all nodes.
pub(super) fn rows(directory: &Arc<Directory>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let snapshot = directory.snapshot().unwrap();
    let broken = each_row(&snapshot, RowSlice { from: &[], to: &[] }, &mut |_, key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(broken.unwrap().is_continue());
    rows
}

/// Returns all values of rows as one text, in which tokens can be searched.
pub(super) fn text_of(rows: &[(Vec<u8>, Vec<u8>)]) -> String {
    rows.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect()
}

/// Adds the first entries to a new directory.
pub(super) fn fill(writer: &mut Writer) {
    let (requester, mut batch) = (administrator(), writer.begin().unwrap());
    for (message, number) in first_entries().iter().zip(1..) {
        let message = Message::decode(message, &DecodeLimits::AUTHENTICATED).unwrap();
        let stamp = Stamp { now_micros: 2_000 + u64::from(number), uuid: [number; 16], ..Stamp::default() };
        let context = requester.context();
        let outcome = batch.execute(&context, &message.request, &Default::default(), &stamp);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{:?}: {}", message.request, outcome.diagnostic);
    }
    batch.commit().unwrap();
    while writer.run_maintenance_slice(&SliceBudget::default(), &mut || {}).unwrap() {}
}

/// Checks that the rows of a directory agree with each other, that no update of memberships or links is pending, and
/// that no entry violates a rule of the settings.
pub(super) fn check_directory(directory: &Arc<Directory>) -> Result<(), String> {
    let snapshot = directory.snapshot().unwrap();
    let pending = joins::pending(snapshot.state()).unwrap();
    if !pending.is_empty() || linking::is_pending(snapshot.state()) {
        return Err(format!("memberships or links are not complete: {pending:?}"));
    }
    let violations = violations(snapshot.state(), &directory.directory_settings()).unwrap();
    if let Some(violation) = violations.first() {
        return Err(violation.clone());
    }
    match check(&snapshot).unwrap().first() {
        Some(finding) => Err(format!("rows that do not agree: {finding}")),
        None => Ok(()),
    }
}
