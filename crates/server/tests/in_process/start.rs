//! Starts that fail. After a failed start, nothing is still running.

use std::net::TcpListener;
use std::time::Duration;

use server::config::audit::AuditSettings;
use server::config::backup::BackupSettings;
use server::{Config, Opened, ServeError};
use store::StoreError;

use crate::running::{Folder, Running, config};

/// Maximum number of snapshots of a directory. It is `views_max` in the options of the store.
const SNAPSHOTS_MAX: usize = 1024;

const HOUR: Duration = Duration::from_secs(3_600);

/// Asserts that a start with the settings `failing` fails, and that a server can then start with the same data.
fn start_after_failure(folder: &Folder, failing: Config, is_expected: impl FnOnce(&ServeError) -> bool) {
    let error = Opened::open(failing).unwrap().start().err().unwrap();
    assert!(is_expected(&error), "{error:?}");
    // If a thread of the first start were still running, it would have locked the data directory.
    let mut running = Running::start(config(folder));
    running.administrator();
    running.stop();
}

#[test]
fn a_port_in_use_stops_the_start() {
    let folder = Folder::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = vec![format!("ldap://{}", other.local_addr().unwrap()).parse().unwrap()];
    let failing = Config { listen, ..config(&folder) };
    start_after_failure(&folder, failing, |error| matches!(error, ServeError::Listen(_)));
}

#[test]
fn a_failed_start_of_an_event_loop_stops_other_loops_and_services() {
    let folder = Folder::new();
    // Each thread needs a snapshot. The scan threads are started first. After them, only 20 snapshots are left for 40
    // event loops.
    let failing = Config {
        threads: 40,
        scan_threads: SNAPSHOTS_MAX - 20,
        warm_up_bytes: 1 << 20,
        audit: AuditSettings { folder: Some(folder.path().join("audit")), ..AuditSettings::default() },
        backup: Some(BackupSettings {
            place: server::BackupPlace::Folder(folder.path().join("backup")),
            interval: HOUR,
            full_after: 24 * HOUR,
            keep: None,
            recipients: Vec::new(),
        }),
        ..config(&folder)
    };
    start_after_failure(&folder, failing, |error| {
        matches!(error, ServeError::Store(StoreError::TooManyViews))
    });
}
