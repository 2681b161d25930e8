//! Memory that is available to this process: the memory of the machine, or the limit of a control group, for example in
//! a container.

use std::path::{Path, PathBuf};

/// Returns the memory that this process may use in octets, including the page cache; `None` if the system does not
/// report it.
pub fn available_memory_bytes() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = total_bytes(&read(Path::new("/proc/meminfo"))?)?;
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| read(&path)?.trim().parse::<u64>().ok());
    Some(limits.fold(machine, u64::min))
}

/// Returns `MemTotal` of `/proc/meminfo` in octets.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Returns the files that may contain a memory limit for a process, given its `/proc/PID/cgroup`. These are the files
/// of its control group and of each superior group, in both versions of control groups. In a container the kernel may
/// report the path outside the container, so the root group is included. A file that does not exist or contains `max`
/// sets no limit.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|controller| controller == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own = Path::new(path.trim_start_matches('/'));
        files.extend(own.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_limits_of_both_cgroup_versions() {
        let check = |groups: &str, expected: &[&str]| {
            let files: Vec<String> =
                limit_files(groups).iter().map(|file| file.display().to_string()).collect();
            assert_eq!(files, expected, "{groups}");
        };
        check("", &[]);
        check("0::/\n", &["/sys/fs/cgroup/memory.max"]);
        let second =
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        check("0::/a/b\n", &second);
        let first =
            ["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        check("7:cpu,cpuacct:/a\n4:memory:/a\nnonsense\n", &first);
    }

    #[test]
    fn memory_sizes_are_read_from_the_system() {
        assert_eq!(total_bytes("MemTotal:       24 kB\nMemFree: 1 kB\n"), Some(24 << 10));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert!(available_memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
