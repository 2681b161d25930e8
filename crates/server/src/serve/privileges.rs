//! Privileges of the process, and protection from other processes.
//!
//! Root is needed only for ports below 1024. A process started as root binds the ports, changes to the user in the
//! settings, and then opens the data directory, the log and the keys as that user. So a file that the user cannot open
//! is reported at the start, and not when a certificate is renewed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, initgroups, setgid, setuid};
use rustix::fs::Access;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::config::RunAs;
use crate::error::RunAsError;

/// Environment variable that permits core dumps and debuggers, for developers.
pub const CORE_DUMPS_VARIABLE: &str = "PANDO_CORE_DUMPS";

/// Protects the memory of the process, which contains passwords. Forbids core dumps, and access by debuggers and other
/// processes of the same user, unless [`CORE_DUMPS_VARIABLE`] is set.
///
/// # Errors
/// The system refuses.
pub fn forbid_core_dumps() -> io::Result<()> {
    if wants_core_dumps() {
        return Ok(());
    }
    // The limit does not apply to core dumps that are piped to a program.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

fn wants_core_dumps() -> bool {
    std::env::var_os(CORE_DUMPS_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Prevents programs that this process runs from gaining privileges, for example by set-user-ID. Also applies to
/// threads that start later.
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
    /// Returns the user that the settings name; `None` if the process is that user already.
    ///
    /// # Errors
    /// The user does not exist, or the process is not root and cannot become this user.
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

    /// Makes the process run as this user permanently.
    ///
    /// # Errors
    /// The system refuses, or the change would not be permanent.
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
        // The kernel forbids core dumps of a process that has changed its user.
        if wants_core_dumps() {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
        Ok(())
    }

    /// Checks that this user, as which the process runs, can read and write all files of the data directory.
    ///
    /// # Errors
    /// A file cannot be used. A directory that is missing or cannot be listed is reported when it is opened.
    pub(super) fn can_use(&self, data: &Path) -> Result<(), RunAsError> {
        let refused = |file| Err(RunAsError::Data { file, data: data.to_owned(), user: self.user.clone() });
        let mut left = vec![data.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let wanted = match found.is_dir() {
                true => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
                false => Access::READ_OK | Access::WRITE_OK,
            };
            // A link may point to a key outside the directory that is only read.
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

    /// Returns a text for each of these files that a reload as this user could not read.
    pub(super) fn unreadable<'a>(&self, files: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
        let is_refused = |file: &&Path| rustix::fs::access(*file, Access::READ_OK).is_err();
        let told = |file: &Path| {
            format!("{} cannot be read as {}, so a reload will be refused", file.display(), self.user)
        };
        files.into_iter().filter(is_refused).map(told).collect()
    }
}
