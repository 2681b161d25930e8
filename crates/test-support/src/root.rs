//! Tests that need root.

use std::process::Command;

/// Runs the test again in a process with root privileges, unless this process has them. Returns true if the test was
/// run that way; the caller then has nothing left to do. `module` is the path of the test's module.
///
/// # Panics
/// If the test cannot be run as root, or fails as root.
pub fn was_run_as_root(module: &str, test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let program = std::env::current_exe().unwrap();
    // The name of the test within this binary is the path of the module without the crate.
    let (_, module) = module.split_once("::").unwrap();
    let mut sudo = Command::new("sudo");
    sudo.arg("-n").arg(program).arg("--exact").arg(format!("{module}::{test}"));
    let output = sudo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let is_passed = output.status.success() && said.contains("1 passed");
    assert!(is_passed, "{test} needs root, and fails as root or there is no way to it: {output:?}");
    true
}
