//! The machine on which a measurement ran, as its system describes it, and the program that measured.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A machine. Unknown fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's model.
    #[serde(default)]
    pub cpu_model: Option<String>,
    /// Number of processors that the kernel schedules.
    #[serde(default)]
    pub cpus: Option<u64>,
    /// Number of physical cores. Several processors may share a core.
    #[serde(default)]
    pub cores: Option<u64>,
    /// Whether the machine is virtual.
    #[serde(default)]
    pub is_virtual: Option<bool>,
    /// Governor of the processor's clock ("performance", "schedutil").
    #[serde(default)]
    pub frequency_governor: Option<String>,
    /// The kernel's name and release.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The distribution.
    #[serde(default)]
    pub system: Option<String>,
    /// Memory of the machine.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processors to which the load driver was pinned, in the notation of `taskset`; absent if it was not pinned.
    #[serde(default)]
    pub load_generator_cpus: Option<String>,
    /// Processors to which the server was pinned; absent if it was not pinned, or if its processors are unknown.
    #[serde(default)]
    pub server_cpus: Option<String>,
    /// Whether the load driver and the server share this machine.
    #[serde(default)]
    pub is_shared_with_server: Option<bool>,
}

impl Environment {
    /// Returns the description of this Linux machine and of the processors on which this process may run.
    pub fn detect() -> Environment {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut environment = parse_cpuinfo(&read("/proc/cpuinfo"));
        let allowed = status_field(&read("/proc/self/status"), "Cpus_allowed_list");
        environment.load_generator_cpus =
            allowed.filter(|allowed| Some(count_of(allowed)) != environment.cpus.map(|cpus| cpus as usize));
        environment.frequency_governor =
            Some(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned())
                .filter(|governor| !governor.is_empty());
        let release = read("/proc/sys/kernel/osrelease");
        environment.kernel = (!release.is_empty()).then(|| format!("Linux {}", release.trim()));
        environment.system = parse_os_release(&read("/etc/os-release"));
        environment.memory_bytes = parse_memory_total(&read("/proc/meminfo"));
        environment
    }

    /// Records the processors on which the server's process may run, unless the process may run on all processors.
    pub fn set_server_process(&mut self, id: u32) {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        self.server_cpus = status_field(&status, "Cpus_allowed_list")
            .filter(|allowed| Some(count_of(allowed)) != self.cpus.map(|cpus| cpus as usize));
        self.is_shared_with_server = Some(true);
    }
}

/// The program that measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Version of the program.
    pub version: String,
    /// The commit from which the program was built, with `-dirty` if files had been changed; absent outside the
    /// repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether the program was built without optimization. The figures of such a program are meaningless.
    #[serde(default)]
    pub is_debug_build: bool,
}

impl Tool {
    /// Returns the description of this program.
    pub fn this() -> Tool {
        Tool {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit_of_this_program(),
            is_debug_build: cfg!(debug_assertions),
        }
    }
}

/// Returns the present time as RFC 3339 text in UTC, to the second.
pub fn now_text() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}

/// Returns the time `ahead` from now as text, to the millisecond. With this text, the seconds of a run can be matched
/// with other observations of the machine.
pub(crate) fn moment_text(ahead: Duration) -> String {
    let moment = OffsetDateTime::now_utc() + ahead;
    let moment = moment.replace_millisecond(moment.millisecond()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    moment.format(&Rfc3339).unwrap_or_default()
}

/// Returns the commit if this program is in the `target` directory of a repository.
fn commit_of_this_program() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let repository = program.ancestors().find(|folder| folder.join(".git").exists())?;
    program.starts_with(repository.join("target")).then(|| describe_commit(repository))?
}

fn describe_commit(repository: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn parse_cpuinfo(text: &str) -> Environment {
    let fields = |name: &'static str| text.lines().filter_map(move |line| field(line, name));
    let cpus = fields("processor").count() as u64;
    let cores: BTreeSet<_> = fields("physical id").zip(fields("core id")).collect();
    Environment {
        cpu_model: fields("model name").next().map(str::to_owned),
        cpus: (cpus > 0).then_some(cpus),
        cores: (!cores.is_empty()).then_some(cores.len() as u64),
        is_virtual: fields("flags").next().map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        ..Environment::default()
    }
}

/// Returns the value of a `name : value` line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim())
}

fn status_field(status: &str, name: &str) -> Option<String> {
    status.lines().find_map(|line| field(line, name)).map(str::to_owned)
}

/// Returns the number of processors in a list such as `0-2,5`.
fn count_of(list: &str) -> usize {
    let count = |range: &str| -> Option<usize> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (last.parse::<usize>().ok()? + 1).checked_sub(first.parse().ok()?)
    };
    list.split(',').filter_map(count).sum()
}

fn parse_os_release(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

fn parse_memory_total(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| field(line, "MemTotal"))?;
    value.strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_parsed_from_proc_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: 0\n\
            flags\t\t: fpu hypervisor\n\n\
                       processor\t: 1\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: 0\n";
        let environment = parse_cpuinfo(cpuinfo);
        assert_eq!(environment.cpu_model.as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(
            (environment.cpus, environment.cores, environment.is_virtual),
            (Some(2), Some(1), Some(true))
        );
        assert_eq!(parse_cpuinfo(""), Environment::default());
        assert_eq!(parse_os_release("ID=debian\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(parse_memory_total("MemTotal:       24 kB\nMemFree: 1 kB\n"), Some(24 * 1024));
        assert_eq!(parse_memory_total("nothing"), None);
        for (list, count) in [("0", 1), ("0-3", 4), ("0-1,4,6-7", 5), ("", 0)] {
            assert_eq!(count_of(list), count, "{list}");
        }
    }

    #[test]
    fn this_machine_is_described() {
        let environment = Environment::detect();
        assert!(environment.kernel.unwrap().starts_with("Linux "));
        assert!(environment.memory_bytes.unwrap() > 0);
        let now = now_text();
        assert!(now.ends_with('Z') && now.len() == "2026-01-01T00:00:00Z".len(), "{now}");
    }
}
