//! The privileges of the process, and its protection from other processes.
//!
//! Only the binding of ports below 1024 requires root. If the settings contain a user, a process that root starts binds
//! the ports, changes to that user, and only then opens the data directory, the log and the keys. Therefore a file that
//! this user cannot open causes an error at the start. Otherwise the error would occur later, for example when a
//! certificate is renewed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, initgroups, setgid, setuid};
use rustix::fs::Access;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::config::RunAs;
use crate::error::RunAsError;

/// Environment variable with which developers permit core dumps and debuggers.
pub const CORE_DUMPS_VARIABLE: &str = "PANDO_CORE_DUMPS";

/// Protects the memory of the process, because it contains passwords. Core dumps become impossible, and debuggers and
/// other processes of the same user cannot read the memory. Does nothing if [`CORE_DUMPS_VARIABLE`] is set.
///
/// # Errors
/// The system refuses the change.
pub fn forbid_core_dumps() -> io::Result<()> {
    if wants_core_dumps() {
        return Ok(());
    }
    // The limit on core dumps does not apply if the system pipes them to a program. Therefore this attribute is also
    // needed.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

fn wants_core_dumps() -> bool {
    std::env::var_os(CORE_DUMPS_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Prevents programs that this process runs from gaining privileges, for example by their set-user-ID bit. Also applies
/// to threads that start later.
pub(super) fn forbid_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// A user account of this machine.
pub(super) struct Account {
    user: String,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Returns the user and group in the settings. Returns `None` if the process already runs as this user and group.
    ///
    /// # Errors
    /// The user or the group does not exist, or the process is not root and cannot become this user.
    pub(super) fn of(run_as: &RunAs) -> Result<Option<Account>, RunAsError> {
        let RunAs { user, group } = run_as;
        let found = User::from_name(user).ok().flatten().ok_or_else(|| RunAsError::NoUser(user.clone()))?;
        let gid = match group {
            None => found.gid,
            Some(group) => {
                let found = Group::from_name(group).ok().flatten();
                found.ok_or_else(|| RunAsError::NoGroup(group.clone()))?.gid
            }
        };
        let account = Account { user: user.clone(), uid: found.uid, gid };
        match (account.uid == geteuid(), geteuid().is_root()) {
            (true, _) if account.gid == getegid() => Ok(None),
            (_, true) => Ok(Some(account)),
            (_, false) => Err(RunAsError::NotRoot { user: user.clone(), own: geteuid().as_raw() }),
        }
    }

    /// Changes the user and the groups of the process to those of this account, permanently.
    ///
    /// # Errors
    /// The system refuses the change, or the process could become root again.
    pub(super) fn assume(&self) -> Result<(), RunAsError> {
        let user = || self.user.clone();
        let name = CString::new(self.user.as_str()).map_err(|_| RunAsError::NoUser(user()))?;
        initgroups(&name, self.gid)
            .and_then(|()| setgid(self.gid))
            .and_then(|()| setuid(self.uid))
            .map_err(|error| RunAsError::Refused { user: user(), error: error.into() })?;
        if !self.uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
            return Err(RunAsError::Root { user: user() });
        }
        // The kernel forbids core dumps of a process that has changed its user. Permit them again.
        if wants_core_dumps() {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
        Ok(())
    }

    /// Checks that the process can read and write all files of the data directory. The process must already run as this
    /// user.
    ///
    /// # Errors
    /// A file cannot be read or written. A directory that does not exist or cannot be listed is no error here: it is
    /// reported when the data directory is opened.
    pub(super) fn can_use(&self, data: &Path) -> Result<(), RunAsError> {
        let refused = |file| Err(RunAsError::Data { file, data: data.to_owned(), user: self.user.clone() });
        let mut left = vec![data.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let wanted = match found.is_dir() {
                true => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
                false => Access::READ_OK | Access::WRITE_OK,
            };
            // Symbolic links are not checked. A link may lead to a key outside of the data directory that the process
            // must only read.
            if !found.is_symlink() && rustix::fs::access(&path, wanted).is_err() {
                return refused(path);
            }
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
            }
        }
        Ok(())
    }

    /// Returns a warning for each of `files` that the process could not read in a reload. The process must already run
    /// as this user.
    pub(super) fn unreadable<'a>(&self, files: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
        let is_refused = |file: &&Path| rustix::fs::access(*file, Access::READ_OK).is_err();
        let describe = |file: &Path| {
            format!("{} cannot be read as {}, so a reload will be refused", file.display(), self.user)
        };
        files.into_iter().filter(is_refused).map(describe).collect()
    }
}
