//! Creation of the state that all event loops share, and of the thread pools that work for them.

use std::sync::Arc;
use std::time::Instant;

use directory::Directory;

use super::cluster::generation;
use super::event_loops::Listening;
use crate::config::Config;
use crate::error::ServeError;
use crate::kerberos::KerberosExchanges;
use crate::limits::{CLUSTER_LOGINS_MAX, LOGINS_MAX, ROW_CACHE_WRITER_DIVISOR};
use crate::net::arrivals::Arrivals;
use crate::net::certificate::Certificates;
use crate::net::request_memory::RequestMemory;
use crate::net::stream::RefusedProxies;
use crate::session::context::Shared;
use crate::stamp::now_micros;
use crate::telemetry::health::Health;
use crate::telemetry::traces::TraceFeed;
use crate::workers::audit_feed::AuditFeed;
use crate::workers::bad_passwords::BadPasswords;
use crate::workers::copies::Copies;
use crate::workers::delays::Delays;
use crate::workers::hash_pool::HashPool;
use crate::workers::log_reader::LogReader;
use crate::workers::logins::Logins;
use crate::workers::pass_through::PassThrough;
use crate::workers::read_age::ReadAge;
use crate::workers::read_ahead::ReadAheadPool;
use crate::workers::reset_mails::ResetMails;
use crate::workers::scan_pool::ScanPool;
use crate::workers::scan_shares::ScanShares;
use crate::workers::writer::WriteQueue;
use crate::workers::{backup_reader, settings_reader, trail_reader};

/// Returns the size of the writer's row cache, in bytes.
pub(super) fn writer_cache_bytes(config: &Config) -> usize {
    config.row_cache_bytes / ROW_CACHE_WRITER_DIVISOR
}

/// Creates the shared state and starts the thread pools. Each pool ends when the last event loop has dropped the state.
///
/// # Errors
/// A file in the settings cannot be used, or the system cannot start a thread.
pub(super) fn start(
    config: &Config,
    directory: &Arc<Directory>,
    health: Arc<Health>,
    certificates: Arc<Certificates>,
    audit: Option<Arc<AuditFeed>>,
    listening: &Listening,
) -> Result<Arc<Shared>, ServeError> {
    let (mailboxes, counters) = (&listening.mailboxes, &listening.counters);
    let lists = &config.bad_passwords;
    let bad_passwords = BadPasswords::open(lists.words.as_deref(), lists.breached.as_deref())?;
    let read_age = config.cluster.as_ref().and_then(|cluster| cluster.read_age);
    let read_age = read_age.or_else(|| config.replica.as_ref().and_then(|replica| replica.read_age));
    let read_age = read_age.map(|max| Arc::new(ReadAge::new(max, Instant::now())));
    let logins_max =
        if config.cluster.is_some() || config.replica.is_some() { CLUSTER_LOGINS_MAX } else { LOGINS_MAX };
    let pass_through = config.pass_through.as_ref().map(|settings| PassThrough::start(settings, mailboxes));
    let reset_mails = config.mail.as_ref().map(|settings| ResetMails::start(settings, directory));
    let trail_reader = config.audit.folder.as_ref().map(|folder| trail_reader::start(folder, mailboxes));
    let backup = config.backup.as_ref();
    backup_reader::remove_left(backup.map(|settings| &settings.place), &config.data);
    let backup_reader = backup
        .map(|settings| backup_reader::start(&settings.place, &config.data, directory, mailboxes))
        .transpose()?;
    let generation = generation(directory)?;
    let log_reader = Arc::new(LogReader::new(directory, [generation, directory.generation()?], mailboxes));
    let forwards = config.cluster.is_some() || config.replica.is_some();
    let traces = config.traces.as_ref().map(|settings| TraceFeed::new(settings, forwards, now_micros()));
    let traces = traces.map(Arc::new);
    let writes = WriteQueue::new(Arc::clone(mailboxes)).noticed(audit.clone(), Arc::clone(&log_reader));
    let writes = writes.aging(read_age.clone()).timed(traces.is_some());
    Ok(Arc::new(Shared {
        directory: Arc::clone(directory),
        writes: Arc::new(writes),
        logins: Arc::new(Logins::new(logins_max)),
        read_age,
        pass_through: pass_through.transpose()?,
        reset_mails: reset_mails.transpose()?.map(Arc::new),
        hash_pool: HashPool::start(config.hash_threads, bad_passwords, Arc::clone(mailboxes))?,
        kerberos: KerberosExchanges::default(),
        guesses: Arc::default(),
        delays: Delays::start(Arc::clone(mailboxes))?,
        scan_pool: ScanPool::start(config.scan_threads, directory, mailboxes)?,
        index_advice: Arc::default(),
        slow: Arc::default(),
        scan_shares: Arc::new(ScanShares::new(config.scan_threads)),
        read_ahead: ReadAheadPool::new(config.read_ahead_threads, directory, mailboxes),
        request_memory: Arc::new(RequestMemory::new(
            config.request_memory_bytes,
            config.online.message_size_max,
        )),
        usage: counters.iter().map(|_| Arc::default()).collect(),
        listening: Arc::default(),
        arrivals: Arrivals::new(listening.control(), Arc::clone(counters)),
        proxies: RefusedProxies::default(),
        health,
        certificates,
        row_cache_bytes: (config.row_cache_bytes - writer_cache_bytes(config)) / counters.len(),
        trail_reader: trail_reader.transpose()?,
        backup_reader,
        settings_reader: settings_reader::start(directory, mailboxes)?,
        audit,
        copies: Copies::new(directory, &config.data, mailboxes),
        log_reader,
        traces,
        generation,
    }))
}
