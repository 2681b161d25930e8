//! Tests that need root.

use std::process::Command;

/// If this process has no root privileges, runs the test in a new process that has them, and returns true. The caller
/// must then return without running the test. Returns false if this process has root privileges. `module` is the path
/// of the test's module.
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
