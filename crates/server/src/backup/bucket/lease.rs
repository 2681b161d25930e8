//! The lock of a bucket: an object that a process creates, renews and deletes.
//!
//! The lock of a process that ended without deleting it is void if the process ran on this machine, or once it was not
//! renewed for [`BUCKET_LEASE`]. That is longer than the difference of clocks (15 minutes) above which S3 refuses
//! requests.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use data_encoding::HEXLOWER;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};

use super::Shared;
use crate::backup::storage::{Claim, LOCK};
use crate::backup::{BackupError, failed};
use crate::limits::{BUCKET_LEASE, BUCKET_LEASE_RENEWED};
use crate::stamp::{Random, now_seconds};

/// Most requests to create the lock.
const LOCK_ATTEMPTS: usize = 3;

/// A lock that this process holds.
pub(super) struct Holding {
    /// Content of the object.
    content: Vec<u8>,
    renewed: Instant,
}

/// Exclusive right to write below a prefix, until it is dropped.
pub(super) struct Lease(Arc<Shared>);

impl Claim for Lease {}

impl Lease {
    /// Creates the lock, or refuses if another process holds it.
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Lease, BackupError> {
        let path = shared.path(LOCK);
        let failed = |error| failed("lock", &path)(error);
        let taken = || {
            let text = format!("another process is writing to {}", shared.address);
            BackupError::Refused(text)
        };
        if let Some((holder, is_void)) = shared.holder().map_err(failed)? {
            if !is_void {
                return Err(BackupError::Refused(format!(
                    "{holder} is writing to {}, or ended less than {} minutes ago; if it ended, remove {}",
                    shared.address,
                    BUCKET_LEASE.as_secs() / 60,
                    path.display()
                )));
            }
            shared.remove(LOCK).map_err(failed)?;
        }
        let nonce: [u8; 16] = Random::default().bytes().map_err(|error| failed(io::Error::other(error)))?;
        let content = format!("{} {} {}\n", host(), std::process::id(), HEXLOWER.encode(&nonce)).into_bytes();
        shared.create_lock(&content).map_err(failed)?;
        // Storage that ignores the condition keeps the last content.
        if shared.small(LOCK).map_err(failed)? != content {
            return Err(taken());
        }
        *shared.holding() = Some(Holding { content, renewed: Instant::now() });
        Ok(Lease(Arc::clone(shared)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Out of the lock, which reading the object takes too.
        let held = self.0.holding().take();
        if held.is_some_and(|held| self.0.small(LOCK).is_ok_and(|content| content == held.content)) {
            // If this fails, the lock becomes void.
            let _ = self.0.remove(LOCK);
        }
    }
}

impl Shared {
    fn holding(&self) -> MutexGuard<'_, Option<Holding>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the lock. The caller reads whose it is.
    fn create_lock(&self, content: &[u8]) -> io::Result<()> {
        let object = self.object(LOCK);
        let mut attempt = 1;
        loop {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let put = self.store.put_opts(&object, content.to_vec().into(), options);
            match self.wait(put).map_err(|error| (error.kind(), error)) {
                Ok(_) | Err((io::ErrorKind::AlreadyExists, _)) => return Ok(()),
                // Some storage has no conditional requests.
                Err((io::ErrorKind::Unsupported, _)) => return self.put(LOCK, content.to_vec()),
                Err((io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound, error)) => return Err(error),
                // The library does not repeat a conditional request. It may have arrived, and is then found to exist.
                Err((_, error)) if attempt >= LOCK_ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Renews the lock, if this process holds it and that is due.
    pub(super) fn renew_lease(self: &Arc<Shared>) -> io::Result<()> {
        // Taken out, so that reading the lock does not come here again.
        let Some(mut held) = self.holding().take_if(|held| held.renewed.elapsed() >= BUCKET_LEASE_RENEWED)
        else {
            return Ok(());
        };
        if self.small(LOCK)? != held.content {
            return Err(io::Error::other("another process has taken over the lock"));
        }
        self.put(LOCK, held.content.clone())?;
        held.renewed = Instant::now();
        *self.holding() = Some(held);
        Ok(())
    }

    /// Returns the holder of the lock, and whether the lock is void; `None` if there is no lock.
    fn holder(self: &Arc<Shared>) -> io::Result<Option<(String, bool)>> {
        let found = match self.wait(self.store.head(&self.object(LOCK))) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let content = match self.small(LOCK) {
            Ok(content) => String::from_utf8_lossy(&content).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut words = content.split_whitespace();
        let (machine, process) = (words.next().unwrap_or("?"), words.next().unwrap_or("?"));
        let age = now_seconds().saturating_sub(found.last_modified.timestamp());
        let is_void = u64::try_from(age).is_ok_and(|age| age > BUCKET_LEASE.as_secs())
            || machine == host() && process.parse().is_ok_and(has_ended);
        Ok(Some((format!("process {process} on {machine}"), is_void)))
    }
}

/// Whether a process of this machine has ended. A process with this one's own id is an earlier one.
fn has_ended(process: u32) -> bool {
    process == std::process::id() || !std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// Name of this machine, as one word.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split_whitespace().collect()
}
