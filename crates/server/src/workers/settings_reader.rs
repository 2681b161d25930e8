//! The thread that reads settings for the administrator and compares proposed settings with them. A comparison may read
//! many entries. Therefore neither an event loop nor the writer makes it.

use std::sync::{Arc, Weak};
use std::time::Instant;

use directory::rehearse::{self, Rehearsal};
use directory::settings::{self, SettingsError};
use directory::tree::TreeState;
use directory::{Directory, DirectorySettings, Outcome};
use ldap::{RehearsalAnswer, ResultCode, SettingsInForce, SettingsRequest};

use crate::config::settings_text;
use crate::limits::{
    REHEARSAL_ENTRIES, REHEARSAL_LINES, REHEARSAL_TIME, REHEARSAL_USERS, SETTINGS_REQUESTS_MAX,
};
use crate::net::mailbox::Mailbox;
use crate::workers::jobs::Jobs;
use crate::workers::settings_change::{Extent, Planned, malformed, read, refusal};

/// The thread. A job is the value of a request.
pub(crate) type SettingsReader = Jobs<Vec<u8>>;

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    directory: &Arc<Directory>,
    mailboxes: &Arc<[Mailbox]>,
) -> std::io::Result<SettingsReader> {
    // Weak because waiting jobs must not keep the directory open after the server has ended.
    let directory = Arc::downgrade(directory);
    let work = move |value: Vec<u8>| execute(&directory, &value);
    Jobs::start("pando-settings", SETTINGS_REQUESTS_MAX, mailboxes, work)
}

fn execute(directory: &Weak<Directory>, value: &[u8]) -> (Outcome, Option<Vec<u8>>) {
    let Some(directory) = directory.upgrade() else {
        return (Outcome::new(ResultCode::UNAVAILABLE, "the server stops"), None);
    };
    let snapshot = match directory.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return (SettingsError::from(error).into(), None),
    };
    let state = snapshot.state();
    match SettingsRequest::decode(Some(value)) {
        Some(SettingsRequest::Read) => (Outcome::success(), Some(in_force(state).encode())),
        Some(SettingsRequest::Plan { text }) => match read(text) {
            Err(outcome) => (outcome, None),
            Ok(stated) => match Planned::of(state, &stated.settings, Extent::Bounded) {
                Ok(planned) => (Outcome::success(), Some(planned.to_value())),
                Err(error) => refusal(error, &stated),
            },
        },
        Some(SettingsRequest::Rehearse { text, requesters }) => match read(text) {
            Err(outcome) => (outcome, None),
            Ok(stated) => match rehearse(state, &stated.settings, &requesters) {
                Ok(answer) => (Outcome::success(), Some(answer.encode())),
                Err(error) => refusal(error, &stated),
            },
        },
        Some(SettingsRequest::Apply { .. }) | None => (malformed(), None),
    }
}

/// Rehearses access rules for the requesters in turn until a time limit is over. Always evaluates at least one
/// requester.
fn rehearse(
    state: TreeState<'_>,
    proposed: &DirectorySettings,
    requesters: &[&str],
) -> Result<RehearsalAnswer, SettingsError> {
    settings::check(proposed)?;
    let rehearsal = |requesters: Vec<String>| Rehearsal {
        requesters,
        requesters_max: REHEARSAL_USERS,
        entries_max: REHEARSAL_ENTRIES,
    };
    let named = rehearsal(requesters.iter().map(|identity| (*identity).to_owned()).collect());
    let rehearsal = rehearsal(rehearse::identities(state, &named)?);
    let (started, mut has_started, mut lines) = (Instant::now(), false, Vec::new());
    let summary = rehearse::rehearse(
        state,
        &proposed.general,
        &rehearsal,
        &mut |change| {
            if lines.len() < REHEARSAL_LINES {
                lines.push(change.to_string());
            }
        },
        &mut || !std::mem::replace(&mut has_started, true) || started.elapsed() < REHEARSAL_TIME,
    )?;
    Ok(RehearsalAnswer {
        requesters: rehearsal.requesters,
        done: summary.requesters as u64,
        entries: summary.entries,
        changes: summary.changes,
        lines,
    })
}

fn in_force(state: TreeState<'_>) -> SettingsInForce {
    let text = settings_text::write(&DirectorySettings::of(state.catalog));
    SettingsInForce { version: settings::version(state.catalog), text }
}
