//! Resource use of processes.

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

/// Clock ticks per second in /proc (USER_HZ).
const TICKS: f64 = 100.0;
/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Processor time of processes since a starting time.
pub(super) struct Processes {
    since: Instant,
    all: Vec<(String, u32, f64)>,
}

impl Processes {
    pub(super) fn begin(all: Vec<(String, u32)>) -> Processes {
        let all = all.into_iter().map(|(name, id)| (name, id, seconds(id).unwrap_or(0.0))).collect();
        Processes { since: Instant::now(), all }
    }

    /// Returns the processor time in seconds that the process with this name has used since the start; 0 if the process
    /// has ended.
    pub(super) fn seconds(&self, name: &str) -> f64 {
        self.all.iter().find(|(known, ..)| known == name).and_then(used).unwrap_or(0.0)
    }

    /// Returns the average number of processors that each process has used since the start. Omits processes that have
    /// ended.
    pub(super) fn cores(&self) -> Value {
        let elapsed = self.since.elapsed().as_secs_f64().max(0.001);
        let share = |process: &(String, u32, f64)| {
            let cores = used(process)? / elapsed;
            Some((process.0.clone(), json!((cores * 1_000.0).round() / 1_000.0)))
        };
        Value::Object(self.all.iter().filter_map(share).collect::<Map<_, _>>())
    }
}

/// Returns the processor time that a process has used since it was recorded, or `None` if it has ended.
fn used((_, id, before): &(String, u32, f64)) -> Option<f64> {
    Some(seconds(*id)? - before)
}

/// Returns the sum of the 14th and 15th field of /proc/PID/stat in seconds. The second field, in parentheses, may
/// contain spaces.
fn seconds(id: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((ticks.next()?? + ticks.next()??) / TICKS)
}

/// Returns the disk space in bytes that the files in a folder occupy.
pub(super) fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => disk_bytes(&entry.path()),
        Ok(facts) => facts.blocks() * BLOCK,
        Err(_) => 0,
    };
    entries.map(of).sum()
}
