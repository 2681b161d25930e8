//! What the process may do, and what others may do with it.
//!
//! Root is needed for ports below 1024 only. So a start as root takes the ports, becomes the user of the settings, and
//! then opens the data directory, the log and the keys as that user: what it cannot open is told at once, and not when
//! a certificate is renewed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, initgroups, setgid, setuid};
use rustix::fs::Access;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::config::RunAs;
use crate::error::RunAsError;

/// The environment variable that lets developers have core dumps and attach debuggers.
pub const CORE_DUMPS_VARIABLE: &str = "PANDO_CORE_DUMPS";

/// Keeps what is in memory, passwords among it, out of core dumps, and from debuggers and other processes of the same
/// user, unless [`CORE_DUMPS_VARIABLE`] is set.
///
/// # Errors
/// The system refuses.
pub fn forbid_core_dumps() -> io::Result<()> {
    if wants_core_dumps() {
        return Ok(());
    }
    // A core that a program is piped does not ask for the limit.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

fn wants_core_dumps() -> bool {
    std::env::var_os(CORE_DUMPS_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Nothing that this process ever runs gets more than it has itself: no set-user-ID program is of any use. For threads
/// that are started afterwards as well.
pub(super) fn forbid_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// A user of this machine.
pub(super) struct Account {
    user: String,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// The user that the settings name. `None` where the process is that user already.
    ///
    /// # Errors
    /// There is none of that name, or only root could become it.
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

    /// Makes the process this user's, for good.
    ///
    /// # Errors
    /// The system refuses, or it would not be for good.
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
        // The kernel forbids cores of a process that has changed its user.
        if wants_core_dumps() {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
        Ok(())
    }

    /// Looks whether this user, whom the process runs as, can read and write all of the data directory.
    ///
    /// # Errors
    /// A file cannot be used. A directory that is not there, or cannot be listed, is left to who opens it.
    pub(super) fn can_use(&self, data: &Path) -> Result<(), RunAsError> {
        let refused = |file| Err(RunAsError::Data { file, data: data.to_owned(), user: self.user.clone() });
        let mut left = vec![data.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let wanted = match found.is_dir() {
                true => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
                false => Access::READ_OK | Access::WRITE_OK,
            };
            // A link may lead out of it, to a key that is only read.
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

    /// What of these files a reload could not read again, as this user.
    pub(super) fn unreadable<'a>(&self, files: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
        let is_refused = |file: &&Path| rustix::fs::access(*file, Access::READ_OK).is_err();
        let told = |file: &Path| {
            format!("{} cannot be read as {}, so a reload will be refused", file.display(), self.user)
        };
        files.into_iter().filter(is_refused).map(told).collect()
    }
}
