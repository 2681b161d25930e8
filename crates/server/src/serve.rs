//! The server as a process: settings, log, signals and the service manager.

mod first_copy;
pub(crate) mod privileges;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::{Handle as SignalHandle, Signals};
use socket2::Socket;

use crate::admin::backup::list_backup;
use crate::admin::verify::check_data;
use crate::config::{Arguments, Config};
use crate::error::ServeError;
use crate::log::{self, LogHandle};
use crate::net::descriptors;
use crate::net::listener::BoundPorts;
use crate::open::{Handle, Opened, Server, copy_supplier};
use crate::serve::privileges::Account;
use crate::telemetry::health::notify;

/// Serves until the process receives SIGTERM or SIGINT. SIGHUP reloads the node file.
///
/// `prepare` is called before any client is served. It may read the directory and load entries. `ready` is called when
/// the server listens. Both run on the calling thread.
///
/// # Errors
/// The settings cannot be used, the server cannot start, or the server stopped because of an error.
pub fn serve(
    arguments: &Arguments,
    prepare: impl FnOnce(&mut Opened) -> Result<(), ServeError>,
    ready: impl FnOnce(&Server),
) -> Result<(), ServeError> {
    let config = Config::load(arguments)?;
    privileges::forbid_new_privileges()?;
    let account = config.run_as.as_ref().map(Account::of).transpose()?.flatten();
    let inherited: Vec<Socket> = system::inherited_sockets()?.into_iter().map(Socket::from).collect();
    let mut ports = BoundPorts::default();
    if account.is_some() || !inherited.is_empty() {
        // Some ports can be bound only by root. Everything else is opened as the user in the settings, because a reload
        // opens it as that user too.
        ports = BoundPorts::bind(&config.listen, inherited)?;
    }
    if let Some(account) = &account {
        account.assume()?;
        account.can_use(&config.data)?;
    }
    let log = log::start(&config.log)?;
    let mut logged = HashSet::new();
    warn_once(&mut logged, config.exposed_files(arguments.node_file.as_deref()));
    if let Some(account) = &account {
        let read_again =
            arguments.node_file.as_deref().into_iter().chain(config.admin_password_file.as_deref());
        warn_once(&mut logged, account.unreadable(read_again));
    }
    refuse_lost_data(&config)?;
    // From here on, SIGHUP is queued. The reload happens when the server runs.
    let signals = Signals::new([SIGHUP])?;
    // SIGTERM and SIGINT end the process at once during a first copy. That is safe: an import makes all of its changes
    // or none, and a replica continues its copy at the next start.
    let ends = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, Arc::clone(&ends))?;
    }
    first_copy::make(&config)?;
    copy_supplier(&config)?;
    // From here on, these signals are queued, so that they do not interrupt the opening of the data directory.
    for signal in [SIGTERM, SIGINT] {
        signals.add_signal(signal)?;
    }
    ends.store(false, Ordering::SeqCst);
    descriptors::raise_limit();
    let mut opened = Opened::open(config)?.with_ports(ports);
    prepare(&mut opened)?;
    let server = opened.start()?;
    let listeners: Vec<String> = server.listeners().iter().map(ToString::to_string).collect();
    tracing::info!("serving on {}", listeners.join(" "));
    let (signal_handle, signal_thread) =
        watch_signals(signals, server.handle(), arguments.clone(), (log, logged))?;
    notify(&[NotifyState::Ready]);
    ready(&server);
    let result = server.wait();
    signal_handle.close();
    if signal_thread.join().is_err() {
        return Err(ServeError::Panicked("pando-signals".to_owned()));
    }
    match &result {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => tracing::error!(%error, "stopped"),
    }
    result
}

/// Fails if the data directory contains no data but has a backup. In that case its disk may be lost or not mounted.
/// Replicas and servers that follow another server are exempt, because they get their data from that server.
fn refuse_lost_data(config: &Config) -> Result<(), ServeError> {
    let Some(backup) = &config.backup else { return Ok(()) };
    let has_source = config.replica.is_some() || !config.follow.is_empty();
    // Other errors are reported later: an error of the data directory when it is opened, and an error of the backup by
    // the backup thread.
    if has_source || !matches!(check_data(config), Err(ServeError::NoData { .. })) {
        return Ok(());
    }
    match list_backup(&backup.place) {
        Ok(chains) if !chains.is_empty() => {
            Err(ServeError::LostData { path: config.data.clone(), backup: backup.place.to_string() })
        }
        _ => Ok(()),
    }
}

/// Logs the warnings that are not in `logged`, and adds them to it.
fn warn_once(logged: &mut HashSet<String>, warnings: Vec<String>) {
    for warning in warnings {
        if !logged.contains(&warning) {
            tracing::warn!("{warning}");
            logged.insert(warning);
        }
    }
}

/// Starts the thread that handles signals.
fn watch_signals(
    mut signals: Signals,
    server: Handle,
    arguments: Arguments,
    (log, mut logged): (LogHandle, HashSet<String>),
) -> io::Result<(SignalHandle, JoinHandle<()>)> {
    let handle = signals.handle();
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                reload(&server, &arguments, (&log, &mut logged));
            } else {
                tracing::info!("stopping: finishing what is outstanding");
                notify(&[NotifyState::Stopping]);
                server.stop();
            }
        }
    };
    let thread = std::thread::Builder::new().name("pando-signals".to_owned()).spawn(watch)?;
    Ok((handle, thread))
}

/// Reads the node file again, applies its settings and logs the changes. Changes nothing if the file is invalid.
fn reload(server: &Handle, arguments: &Arguments, (log, logged): (&LogHandle, &mut HashSet<String>)) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic clock"),
    }
    let applied = Config::load(arguments).map_err(ServeError::from).and_then(|config| {
        let new_log = log.open(&config.log)?;
        let exposed = config.exposed_files(arguments.node_file.as_deref());
        let reloaded = server.reload(config)?;
        new_log.apply();
        warn_once(logged, exposed);
        Ok(reloaded)
    });
    match applied {
        Ok(reloaded) => {
            let list =
                |names: &[&str]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            tracing::info!("reloaded; changed: {}", list(&reloaded.applied));
            if !reloaded.need_restart.is_empty() {
                tracing::warn!("changed in the node file, needs a restart: {}", list(&reloaded.need_restart));
            }
        }
        Err(error) => tracing::error!(%error, "reload refused, the settings stay as they are"),
    }
    notify(&[NotifyState::Ready]);
}
