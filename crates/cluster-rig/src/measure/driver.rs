//! Runs of `pando bench run`, with their results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Measure, clients};
use crate::Result;

/// Load driver for servers of one kind.
pub(super) struct Driver<'m> {
    pub(super) what: &'m Measure,
    /// Path of the pando binary.
    pub(super) program: PathBuf,
    /// DN of the administrator. The next field is the file with the password.
    pub(super) user: String,
    pub(super) password: PathBuf,
}

impl Driver<'_> {
    /// Returns the path of the result of a step.
    pub(super) fn result_path(&self, step: &str) -> PathBuf {
        let name: String = step.replace(", ", "-").replace(' ', "-");
        self.what.to.join(format!("{name}.json.zst"))
    }

    /// Returns the command without the number of clients and the duration.
    pub(super) fn command(&self, workload: &str, target: &str, process: u32, to: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["bench", "run", workload, "--target", target, "-D", &self.user, "--no-limit", "-y"])
            .arg(&self.password)
            .args(["--entries", &self.what.entries.to_string(), "--server-pid", &process.to_string()])
            // Each step has a different seed, because a change to an existing value would need no record.
            .args(["--seed", &fastrand::u64(1..1 << 32).to_string(), "--warmup", "1s", "-o"])
            .arg(to)
            .stdout(Stdio::null());
        command
    }

    /// Runs the command. Returns the figures of the step.
    pub(super) fn run(
        &self,
        step: &str,
        workload: &str,
        target: &str,
        process: u32,
        more: &[&str],
    ) -> Result<Value> {
        let result_path = self.result_path(step);
        let mut command = self.command(workload, target, process, &result_path);
        command.args(more).args(["--duration", &format!("{}s", self.what.seconds)]);
        // Results other than success are in the figures.
        let status = command.status()?;
        if !result_path.exists() {
            return Err(format!("{step}: pando bench: {status}").into());
        }
        clients::read_result(&result_path)
    }
}
