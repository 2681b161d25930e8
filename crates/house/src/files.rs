//! The files of the repository, as listed by Git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository, including files about to be added, but without ignored and deleted files.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// Paths relative to the root, with `/`.
    pub(crate) names: Vec<String>,
}

impl Files {
    pub(crate) fn list(root: &Path) -> Result<Self, String> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git: {error}"))?;
        if !listed.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
        }
        let names = String::from_utf8(listed.stdout).map_err(|error| error.to_string())?;
        let names = names.split_terminator('\0').filter(|name| root.join(name).is_file());
        Ok(Self { root: root.to_owned(), names: names.map(str::to_owned).collect() })
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(name)).map_err(|error| format!("{name}: {error}"))
    }
}
