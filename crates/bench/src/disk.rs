//! Traffic of the disk that contains a server's files, as counted by the disk's driver.
//!
//! The counters in /proc/PID/io are not usable, because `write_bytes` counts pages that a process made dirty. A page of
//! a mapped file, such as LMDB's, counts again each time the kernel write-protects the page. The count may thus be
//! hundreds of times the number of octets that reach the disk. The disk's driver counts the sectors that reach the
//! disk, but in total for all processes. Therefore the result names the device.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Unit of the kernel's counters, whatever the disk's sector size.
const SECTOR_BYTES: u64 = 512;

/// A block device with files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Device number as `major:minor`.
    number: String,
    /// Device and mount point, for messages: "vda, which holds /".
    pub description: String,
}

/// Traffic of a device since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Octets read.
    pub read_bytes: u64,
    /// Octets written.
    pub written_bytes: u64,
}

impl Disk {
    /// Returns the device of the regular files that these processes have open. Returns `None` unless exactly one of
    /// their devices has counters. Memory and network file systems have none.
    pub fn of_processes(processes: &[u32]) -> Option<Disk> {
        let devices: BTreeSet<u64> = processes.iter().flat_map(|process| devices_of(*process)).collect();
        let mut disks = devices.into_iter().filter_map(Disk::of_device);
        disks.next().filter(|_| disks.next().is_none())
    }

    fn of_device(device: u64) -> Option<Disk> {
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
        let name = folder.file_name()?.to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let holds = mounted_at(&mounts, &number).map(|at| format!(", which holds {at}")).unwrap_or_default();
        let disk = Disk { number, description: format!("{name}{holds}") };
        disk.traffic().is_ok().then_some(disk)
    }

    /// Returns the device's traffic since the machine started.
    ///
    /// # Errors
    /// The device no longer exists.
    pub fn traffic(&self) -> io::Result<Traffic> {
        let stat = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.number))?;
        parse(&stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of a device's stat"))
    }
}

/// Returns the devices of the regular files that a process has open; empty for another user's process.
fn devices_of(process: u32) -> Vec<u64> {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let files = open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
    files.filter(|file| file.is_file()).map(|file| file.dev()).collect()
}

/// Parses the counters: sectors read and written are the third and seventh (Documentation/block/stat.rst of the
/// kernel).
fn parse(stat: &str) -> Option<Traffic> {
    let mut figures = stat.split_whitespace().map(str::parse::<u64>);
    let read = figures.nth(2)?.ok()?;
    let written = figures.nth(3)?.ok()?;
    Some(Traffic { read_bytes: read * SECTOR_BYTES, written_bytes: written * SECTOR_BYTES })
}

/// Returns the first mount point of a device. The third field of a line is the device number, the fifth the mount
/// point.
fn mounted_at(mounts: &str, number: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields.get(2) == Some(&number)).then(|| fields.get(4).map(|at| (*at).to_owned()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;

    #[test]
    fn device_traffic_is_parsed() {
        let stat = " 1690143 61172 111605186 11829259 4245805 502318 336967896 2195919 0 804668 14316795 0 0 0 0 0 0\n";
        let traffic = parse(stat).unwrap();
        assert_eq!(traffic, Traffic { read_bytes: 57_141_855_232, written_bytes: 172_527_562_752 });
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn the_mount_point_of_a_device_is_found() {
        let mounts = "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        assert_eq!(mounted_at(mounts, "254:0").as_deref(), Some("/"));
        assert_eq!(mounted_at(mounts, "8:1"), None);
    }

    /// The test writes and syncs 32 MiB. Other processes may use the disk too, so the test uses the minimum of several
    /// attempts.
    #[test]
    fn written_octets_are_counted_once() {
        const BYTES: usize = 32 << 20;
        // If CARGO_TARGET_DIR is set, Cargo's target folder is elsewhere, but this folder is still on a disk.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("disk-{}", std::process::id()));
        let mut file = fs::File::create(&path).unwrap();
        let disk = Disk::of_processes(&[std::process::id()]).expect("the build's folder is on a disk");
        let mut least = u64::MAX;
        for attempt in 0..8_u8 {
            // A page that is changed again is written to the disk again.
            let before = disk.traffic().unwrap();
            file.set_len(0).unwrap();
            io::Seek::rewind(&mut file).unwrap();
            file.write_all(&vec![attempt + 1; BYTES]).unwrap();
            file.sync_all().unwrap();
            let written = disk.traffic().unwrap().written_bytes - before.written_bytes;
            assert!(written >= BYTES as u64, "{written} octets");
            least = least.min(written);
        }
        fs::remove_file(&path).unwrap();
        assert!(least < BYTES as u64 * 3 / 2, "{least} octets for {BYTES}");
    }

    #[test]
    fn a_file_system_in_memory_is_no_disk() {
        let device = fs::metadata("/proc/self/status").unwrap().dev();
        assert_eq!(Disk::of_device(device), None);
    }
}
