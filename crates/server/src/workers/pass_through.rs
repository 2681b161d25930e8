//! Passwords that another service verifies. The service is an LDAP server, which receives a bind with the name in the
//! stored value, or `saslauthd`, which asks PAM.
//!
//! Separate threads wait for the service, each for a bounded time. Therefore an unavailable service delays only its own
//! users. The connection to an LDAP server uses TLS, and the server's certificate is verified. An empty password or
//! name is never sent. The bind would be anonymous, and an anonymous bind succeeds (RFC 4513 section 6.3.1).

mod saslauthd;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{ClientError, Connection, Tls};
use directory::password::{self, StorageScheme};
use ldap::{ResultCode, ServerUrl};
use zeroize::Zeroizing;

use crate::config::{PassThroughSettings, Verifier};
use crate::limits::PASS_THROUGH_JOBS_PER_THREAD_MAX;
use crate::net::mailbox::{Address, HashDone, HashResult, LoopMessage, Mailbox, VerifiedPassword};
use crate::stamp::Random;

/// Error in the settings for pass-through verification.
#[derive(Debug, thiserror::Error)]
#[error("pass_through.authorities, {}: {what}", file.display())]
pub struct PassThroughError {
    /// File of the certification authorities.
    file: PathBuf,
    /// Description of the problem.
    what: String,
}

/// A password that another service must verify. It does not implement `Debug`, because it contains the password.
pub(crate) struct PassedPassword {
    /// Address of the operation that waits for the result.
    pub(crate) address: Address,
    /// The stored value, which refers to the other service.
    pub(crate) stored: Vec<u8>,
    /// User name at the other service.
    pub(crate) name: String,
    pub(crate) asserted: Zeroizing<Vec<u8>>,
    /// Scheme with which a right password is hashed and stored on this server; `None` if the policy requires no hash
    /// here.
    pub(crate) kept_as: Option<StorageScheme>,
}

/// The threads and their queue. Dropping this struct ends each thread after its current job.
pub(crate) struct PassThrough {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

struct Queue {
    settings: PassThroughSettings,
    tls: Option<Tls>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<PassedPassword>,
    closed: bool,
}

impl PassThrough {
    /// Starts the threads.
    ///
    /// # Errors
    /// The certificates cannot be read, or the system cannot start a thread.
    pub(crate) fn start(
        settings: &PassThroughSettings,
        mailboxes: &Arc<[Mailbox]>,
    ) -> Result<PassThrough, StartError> {
        let tls = match settings.verifier.authorities() {
            None => None,
            Some(file) => {
                let error = |what: String| PassThroughError { file: file.to_owned(), what };
                let pem = std::fs::read(file).map_err(|found| error(found.to_string()))?;
                Some(Tls::authorities(&pem).map_err(|found| error(found.to_string()))?)
            }
        };
        let queue = Arc::new(Queue {
            settings: settings.clone(),
            tls,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
        });
        let mut pool = PassThrough { queue, threads: Vec::new() };
        for index in 0..settings.threads {
            let (queue, mailboxes) = (Arc::clone(&pool.queue), Arc::clone(mailboxes));
            let name = format!("pando-pass-{index}");
            pool.threads.push(std::thread::Builder::new().name(name).spawn(move || queue.work(&mailboxes))?);
        }
        Ok(pool)
    }

    /// Queues a password. The result goes to the mailbox of the event loop in the job's address. Returns false if too
    /// many passwords wait.
    pub(crate) fn submit(&self, job: PassedPassword) -> bool {
        let mut waiting = self.queue.lock();
        if waiting.jobs.len() >= self.queue.settings.threads * PASS_THROUGH_JOBS_PER_THREAD_MAX {
            return false;
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.queue.arrived.notify_one();
        true
    }
}

/// Error of starting the threads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The certificates cannot be used.
    #[error(transparent)]
    Settings(#[from] PassThroughError),
    /// The system cannot start a thread.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl Drop for PassThrough {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn work(&self, mailboxes: &[Mailbox]) {
        let mut random = Random::default();
        while let Some(job) = self.next() {
            let (address, started) = (job.address, Instant::now());
            let result = match self.verify(&job) {
                Ok(is_right) => {
                    // Without random numbers for a salt, the password is not stored on this server.
                    let salt = job.kept_as.filter(|_| is_right).and_then(|_| random.bytes().ok());
                    let hashed = job.kept_as.zip(salt);
                    let rehashed = hashed.map(|(scheme, salt)| {
                        (job.stored.clone(), password::hash(scheme, &job.asserted, &salt))
                    });
                    let verified = VerifiedPassword { is_right, rehashed, ..VerifiedPassword::default() };
                    HashResult::Verified(verified)
                }
                Err(why) => {
                    let verifier = &self.settings.verifier;
                    tracing::warn!("{verifier} does not say whether a password is right: {why}");
                    HashResult::Unreachable
                }
            };
            let stages = Some([("wait for a thread", started), ("ask the other service", Instant::now())]);
            if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
                mailbox.post(LoopMessage::Hashed(HashDone { address, result, stages }));
            }
        }
    }

    fn next(&self) -> Option<PassedPassword> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            match waiting.jobs.pop_front() {
                Some(job) => return Some(job),
                None => waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Returns true if the password is right.
    fn verify(&self, job: &PassedPassword) -> Result<bool, String> {
        if job.asserted.is_empty() || job.name.is_empty() {
            return Ok(false);
        }
        let timeout = Duration::from_secs(self.settings.timeout_seconds);
        match &self.settings.verifier {
            Verifier::Ldap { server, .. } => self.verify_by_bind(server, job, timeout),
            Verifier::Saslauthd { socket, service } => {
                saslauthd::verify(socket, service, &job.name, &job.asserted, timeout)
            }
        }
    }

    /// Returns true if the other server accepts a bind with the password.
    fn verify_by_bind(
        &self,
        server: &ServerUrl,
        job: &PassedPassword,
        timeout: Duration,
    ) -> Result<bool, String> {
        let Ok(asserted) = std::str::from_utf8(&job.asserted) else { return Ok(false) };
        let to_text = |error: ClientError| error.to_string();
        let mut connection = Connection::open_within(server, self.tls.as_ref(), timeout).map_err(to_text)?;
        let outcome = connection.bind(&job.name, asserted).map_err(to_text)?;
        match outcome.code {
            ResultCode::SUCCESS => Ok(true),
            ResultCode::INVALID_CREDENTIALS | ResultCode::NO_SUCH_OBJECT => Ok(false),
            code => Err(format!("{code} {}", outcome.diagnostic)),
        }
    }

    /// The queue is consistent after every step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
