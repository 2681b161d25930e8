//! Checks of files, data, disk and system, with or without a running server.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{statfs, statvfs};
use server::Config;
use server::unfinished::UnfinishedFile;

use super::Finding;

/// Free disk space in bytes below which the server refuses changes.
const RESERVE_BYTES: u64 = 128 << 20;

/// Number of syncs that are measured.
const SYNCS: usize = 15;

/// Minimum plausible duration of a sync. Even the fastest disks with a protected cache need longer.
const SYNC_MIN: Duration = Duration::from_micros(15);

/// Maximum number of entries in a directory up to which values are compared with the setting `unique`. At this size,
/// the comparison takes some seconds.
const COMPARED_ENTRIES_MAX: u64 = 1_000_000;

/// Type number of tmpfs, a file system in memory (statfs(2)).
const TMPFS: u64 = 0x0102_1994;

/// Tolerance for times of files that are in the future.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

pub(super) fn examine(config: &Config, node_file: Option<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !config.data.is_dir() {
        findings.push(Finding::problem("data", format!("{} does not exist", config.data.display())));
        return findings;
    }
    findings.extend(permissions(config, node_file));
    findings.push(space(&config.data));
    findings.push(sync(&config.data));
    findings.push(clock(&config.data));
    findings.extend(memory());
    findings.extend(duplicates(config));
    findings
}

fn permissions(config: &Config, node_file: Option<&Path>) -> Vec<Finding> {
    let exposed = config.exposed_files(node_file);
    if exposed.is_empty() {
        return vec![Finding::fine("permissions", "only their owner reads the data and the secrets")];
    }
    exposed.into_iter().map(|text| Finding::problem("permissions", text)).collect()
}

/// Finds values that several entries have, although the setting `unique` forbids it.
fn duplicates(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "duplicates";
    match server::duplicates_of_few(config, COMPARED_ENTRIES_MAX) {
        Ok(Some(texts)) if texts.is_empty() => {
            vec![Finding::fine(CHECK, "no value violates the setting unique")]
        }
        Ok(Some(texts)) => texts.into_iter().map(|text| Finding::warning(CHECK, text)).collect(),
        Ok(None) => vec![Finding::fine(CHECK, "not counted in a directory of this size: see `pando verify`")],
        Err(error) => vec![Finding::warning(CHECK, format!("not counted: {error}"))],
    }
}

fn space(data: &Path) -> Finding {
    let place = data.display();
    let found = match statvfs(data) {
        Ok(found) => found,
        Err(error) => return Finding::problem("disk", format!("{place}: {error}")),
    };
    let (free, all) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
    let text = format!("{} MiB of {} MiB are free on the disk of {place}", free >> 20, all >> 20);
    if free < RESERVE_BYTES {
        Finding::problem("disk", format!("{text}: changes are refused below {} MiB", RESERVE_BYTES >> 20))
    } else if free < all / 10 {
        Finding::warning("disk", text)
    } else {
        Finding::fine("disk", text)
    }
}

/// Measures syncs of a small file. If a disk confirms a sync at once, it has the data only in memory, perhaps without
/// protection against a power failure.
fn sync(data: &Path) -> Finding {
    let place = data.display();
    let in_memory =
        statfs(data).is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == TMPFS));
    if in_memory {
        return Finding::warning(
            "sync",
            format!("{place} is in memory: a restart of the machine loses all data"),
        );
    }
    match time_syncs(data) {
        Err(error) => Finding::warning("sync", format!("cannot measure syncs in {place}: {error}")),
        Ok(median) if median < SYNC_MIN => Finding::warning(
            "sync",
            format!(
                "a sync takes {} us: does the disk keep what it confirms when power fails?",
                median.as_micros()
            ),
        ),
        Ok(median) => Finding::fine("sync", format!("a sync takes {} us", median.as_micros())),
    }
}

/// Returns the median duration of a sync after a write.
fn time_syncs(data: &Path) -> std::io::Result<Duration> {
    let (_file, mut out) = UnfinishedFile::create(&data.join("doctor"))?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        out.write_all(&[0; 4096])?;
        let started = Instant::now();
        out.sync_data()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}

/// Compares the clock with the time of the newest file in the data directory.
fn clock(data: &Path) -> Finding {
    let newest = fs::read_dir(data)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.metadata().ok()?.modified().ok())
        .max();
    let ahead = newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok());
    match ahead {
        Some(ahead) if ahead > CLOCK_SLACK => Finding::problem(
            "clock",
            format!(
                "the newest file of the data is {} seconds in the future: correct the clock",
                ahead.as_secs()
            ),
        ),
        _ => Finding::fine("clock", "the data has no time in the future"),
    }
}

fn memory() -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut findings = Vec::new();
    let huge = read("/sys/kernel/mm/transparent_hugepage/enabled");
    findings.push(match huge.contains("[always]") {
        true => Finding::warning(
            "huge pages",
            "transparent huge pages are set to always, which can stall searches: set madvise in \
             /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        false => Finding::fine("huge pages", "transparent huge pages are not forced"),
    });
    findings.push(match read("/proc/sys/vm/overcommit_memory").trim() {
        "2" => Finding::warning(
            "overcommit",
            "vm.overcommit_memory is 2: mapping a large data file may be refused; 0 is the usual value",
        ),
        _ => Finding::fine("overcommit", "the system permits mapping files larger than memory"),
    });
    findings
}
