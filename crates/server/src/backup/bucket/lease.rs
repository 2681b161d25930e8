//! The lock of a bucket. It is an object that a process creates, renews and finally deletes.
//!
//! If a process ends without deleting its lock, the lock becomes void. A lock is void if the process that reads the
//! lock can detect that the holder has ended (see [`Identity`]), or if the lock was not renewed for the time
//! [`BUCKET_LEASE`]. This time is longer than 15 minutes, the maximum difference between the clocks of S3 and of a
//! client whose requests S3 accepts.

use std::io::{self, Read as _};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;
use std::{fmt, fs};

use data_encoding::HEXLOWER;
use object_store::{ObjectStore as _, PutMode, PutOptions, UpdateVersion};
use tokio::time::sleep;

use super::Shared;
use crate::backup::storage::{Claim, LOCK};
use crate::backup::{BackupError, failed};
use crate::limits::bucket::{BUCKET_LEASE, BUCKET_LEASE_RENEWED, BUCKET_LOCK_SETTLED, BUCKET_SMALL_BYTES};
use crate::stamp::{Random, now_seconds};

/// Maximum number of requests that try to create the lock.
const LOCK_ATTEMPTS: usize = 3;

/// Maximum length of the text about the holder of a lock, in characters.
const HOLDER_CHARS: usize = 200;

/// Word that the lock contains in place of a fact that the system does not provide.
const UNKNOWN: &str = "-";

/// The lock that was found in the bucket, and its holder.
struct Holder {
    /// Process and machine of the holder for messages.
    text: String,
    is_void: bool,
    /// Version (ETag) of the lock object.
    e_tag: Option<String>,
}

/// The lock that this process holds.
pub(super) struct Holding {
    /// Content of the lock object.
    content: Vec<u8>,
    renewed: Instant,
}

/// The exclusive right to write below a prefix. Dropping it deletes the lock.
pub(super) struct Lease(Arc<Shared>);

impl Claim for Lease {}

impl Lease {
    /// Creates the lock. Fails if another process holds it.
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Lease, BackupError> {
        let path = shared.path(LOCK);
        let failed = |error| failed("lock", &path)(error);
        let already_locked = || {
            let text = format!("another process is writing to {}", shared.address);
            BackupError::Refused(text)
        };
        let before = shared.holder().map_err(failed)?;
        if let Some(Holder { text: holder, is_void, .. }) = &before
            && !is_void
        {
            return Err(BackupError::Refused(format!(
                "{holder} is writing to {}, or ended less than {} minutes ago; if it ended, remove {}",
                shared.address,
                BUCKET_LEASE.as_secs() / 60,
                path.display()
            )));
        }
        let nonce: [u8; 16] = Random::default().bytes().map_err(|error| failed(io::Error::other(error)))?;
        let (process, identity) = (std::process::id(), Identity::own());
        let content = format!("{} {process} {} {identity}\n", host(), HEXLOWER.encode(&nonce)).into_bytes();
        let is_conditional = shared.put_lock(&content, before.as_ref()).map_err(failed)?;
        if !is_conditional || before.is_some() {
            // Another process may have found the same state and may still write its own lock. Wait, because the lock
            // that is written last is the valid lock.
            let settled = async {
                sleep(BUCKET_LOCK_SETTLED).await;
                Ok(())
            };
            shared.wait(settled).map_err(failed)?;
        }
        // A storage that ignores the condition of the request keeps the content that was written last. Therefore the
        // lock is read back.
        match shared.small(LOCK) {
            Ok(found) if found == content => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => return Err(already_locked()),
        }
        *shared.holding() = Some(Holding { content, renewed: Instant::now() });
        Ok(Lease(Arc::clone(shared)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The value is taken out of the mutex first, because `small` locks the mutex too.
        let held = self.0.holding().take();
        if held.is_some_and(|held| self.0.small(LOCK).is_ok_and(|content| content == held.content)) {
            // If this request fails, the lock becomes void later.
            let _ = self.0.remove(LOCK);
        }
    }
}

impl Shared {
    fn holding(&self) -> MutexGuard<'_, Option<Holding>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the lock. If `before` is a void lock, replaces that lock, unless it has changed since it was read. The
    /// caller must read the lock afterwards to find out which process holds it. Returns true if the request contained a
    /// condition that the storage supports.
    fn put_lock(&self, content: &[u8], before: Option<&Holder>) -> io::Result<bool> {
        let object = self.object(LOCK);
        let mode = match before {
            None => PutMode::Create,
            Some(Holder { e_tag: Some(e_tag), .. }) => {
                PutMode::Update(UpdateVersion { e_tag: Some(e_tag.clone()), version: None })
            }
            Some(_) => return self.put(LOCK, content.to_vec()).map(|()| false),
        };
        let mut attempt = 1;
        loop {
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let put = self.store.put_opts(&object, content.to_vec().into(), options);
            match self.wait(put).map_err(|error| (error.kind(), error)) {
                Ok(_) | Err((io::ErrorKind::AlreadyExists, _)) => return Ok(true),
                // Another process has removed the void lock meanwhile.
                Err((io::ErrorKind::NotFound, _)) if before.is_some() => return Ok(true),
                // The storage does not support conditional requests.
                Err((io::ErrorKind::Unsupported, _)) => {
                    return self.put(LOCK, content.to_vec()).map(|()| false);
                }
                Err((io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound, error)) => return Err(error),
                // The library does not repeat conditional requests, so this loop does. If the first request was
                // successful, the repeated request returns `AlreadyExists`.
                Err((_, error)) if attempt >= LOCK_ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Renews the lock if this process holds it and it must be renewed now.
    pub(super) fn renew_lease(self: &Arc<Shared>) -> io::Result<()> {
        // The value is taken out of the mutex first, because reading the lock calls this function again.
        let Some(mut held) = self.holding().take_if(|held| held.renewed.elapsed() >= BUCKET_LEASE_RENEWED)
        else {
            return Ok(());
        };
        let content = self.small(LOCK);
        if content.as_ref().is_ok_and(|content| *content != held.content) {
            return Err(io::Error::other("another process has taken over the lock"));
        }
        let renewed = content.and_then(|_| self.put(LOCK, held.content.clone()));
        if renewed.is_ok() {
            held.renewed = Instant::now();
        }
        // Without a renewal, this process still holds the lock, and removes it at the end.
        *self.holding() = Some(held);
        renewed
    }

    /// Reads the lock. Returns `None` if there is no lock.
    fn holder(self: &Arc<Shared>) -> io::Result<Option<Holder>> {
        let read = self.download(LOCK).and_then(|download| {
            let (age, e_tag) = (now_seconds().saturating_sub(download.modified()), download.e_tag());
            let mut content = Vec::new();
            download.take(BUCKET_SMALL_BYTES).read_to_end(&mut content)?;
            Ok((String::from_utf8_lossy(&content).into_owned(), age, e_tag))
        });
        let (content, age, e_tag) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut words = content.split_whitespace();
        let (machine, process) = (words.next().unwrap_or("?"), words.next().unwrap_or("?"));
        let has_ended =
            || process.parse().is_ok_and(|process| Identity::read(words.skip(1)).has_ended(process));
        let is_void = u64::try_from(age).is_ok_and(|age| age > BUCKET_LEASE.as_secs()) || has_ended();
        let text = format!("process {process} on {machine}").escape_debug().take(HOLDER_CHARS).collect();
        Ok(Some(Holder { text, is_void, e_tag }))
    }
}

/// Facts about a process. Another process uses these facts to detect that the process has ended. Host names and process
/// ids alone are not sufficient, because several containers may have the same host name and process ids.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    /// Boot id of the machine on which the process runs.
    boot: String,
    /// Namespace of the process id.
    namespace: String,
    /// Time at which the process started, in ticks after the boot.
    started: String,
}

impl Identity {
    /// Returns the facts about this process. A fact that the system does not provide is empty.
    fn own() -> Identity {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Identity {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
            namespace: namespace.to_string_lossy().split_whitespace().collect(),
            started: started(std::process::id()).unwrap_or_default(),
        }
    }

    /// Parses the facts from the words of a lock.
    fn read<'w>(mut words: impl Iterator<Item = &'w str>) -> Identity {
        let mut next = || words.next().filter(|word| *word != UNKNOWN).unwrap_or_default().to_owned();
        Identity { boot: next(), namespace: next(), started: next() }
    }

    /// Returns true if the process with these facts and this process id is known to have ended. Also returns true if
    /// the facts describe the calling process: the lock then remains from an earlier backup that could not delete the
    /// lock.
    fn has_ended(&self, process: u32) -> bool {
        let own = Identity::own();
        let is_known = ![&self.boot, &self.namespace, &self.started].iter().any(|fact| fact.is_empty());
        if !is_known || (&self.boot, &self.namespace) != (&own.boot, &own.namespace) {
            return false;
        }
        // With the setting `ProtectProc=invisible`, a process cannot see any other process.
        let sees_others = || fs::read("/proc/1/stat").is_ok();
        match started(process) {
            Ok(_) if process == std::process::id() => true,
            Ok(started) => started != self.started,
            Err(error) => error.kind() == io::ErrorKind::NotFound && sees_others(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |fact: &'_ str| if fact.is_empty() { UNKNOWN.to_owned() } else { fact.to_owned() };
        write!(formatter, "{} {} {}", word(&self.boot), word(&self.namespace), word(&self.started))
    }
}

/// Returns the time at which a process started, in ticks after the boot (field 22 in proc_pid_stat(5)).
fn started(process: u32) -> io::Result<String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program is in parentheses and may contain spaces.
    let fields = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    fields.map(str::to_owned).ok_or_else(|| io::Error::other("/proc has another form"))
}

/// Returns the name of this machine, without spaces.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_only_if_its_boot_and_namespace_are_the_same() {
        let own = Identity::own();
        assert!(!own.boot.is_empty() && own.namespace.starts_with("pid:["), "{own:?}");
        let text = own.to_string();
        assert_eq!(Identity::read(text.split(' ')), own);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let alive = Identity { started: started(child.id()).unwrap(), ..own.clone() };
        assert!(!alive.has_ended(child.id()));
        let sees_others = fs::read("/proc/1/stat").is_ok();
        let earlier = Identity { started: "1".to_owned(), ..own.clone() };
        assert!(earlier.has_ended(child.id()), "a later process has its id");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(alive.has_ended(child.id()), sees_others);
        // The first two locks are of processes on another machine and in another container. The third lock, of an
        // earlier release, and the fourth lock contain no facts.
        for other in [
            Identity { boot: "x".to_owned(), ..alive.clone() },
            Identity { namespace: "pid:[1]".to_owned(), ..alive },
            Identity::read("".split_whitespace()),
            Identity::read("- - -".split_whitespace()),
        ] {
            assert!(!other.has_ended(child.id()), "{other:?}");
        }
        assert!(own.has_ended(std::process::id()));
    }
}
