//! The thread that copies another server's tree and keeps the copy up to date, by content synchronization (RFC 4533).
//!
//! The cookie of the other server is stored in the same commit as the changes up to it. After a crash of either server
//! the copy continues from the cookie. Changes that are sent again have no effect, because entries are compared by
//! entryUUID. A cookie belongs to one source and its content. If the source or the content changes in the settings,
//! everything is compared again.

pub(crate) mod changes;
mod cookie;
mod figures;
mod latest;
mod recheck;
mod refresh;
mod rejected;
mod session;
pub(crate) mod source;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use client::ClientError;
use directory::{Directory, OperationError};

pub(crate) use self::figures::{FollowFigures, FollowStage};
use self::session::Session;
pub(crate) use self::session::counts_text;
use crate::config::FollowSettings;
use crate::limits::follow::{FOLLOW_RETRY_MAX, FOLLOW_RETRY_MIN};
use crate::workers::service::Service;
use crate::workers::source_connection::SourceError;
use crate::workers::writer::WriteQueue;

/// Error if the source returns no entry. It stops the copy, which would otherwise delete all its entries.
const NO_ENTRY: &str =
    "the source shows no entry at all: may the bind's identity read them? Nothing is deleted here";

/// Reason why a connection to the other server ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// This server is stopping.
    #[error("the server stops")]
    Stopping,
    /// The copy was promoted to an independent tree.
    #[error("the copy was promoted")]
    Promoted,
    /// The other server requires a new search, on a new connection.
    #[error("the source asks to begin again")]
    Again,
    /// The other server no longer has all changes after the cookie.
    #[error(
        "the source no longer has all changes since the last one here, so that the whole content is compared"
    )]
    CookieRefused,
    #[error(transparent)]
    Connect(#[from] SourceError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the source refuses {what}: {code}: {diagnostic}")]
    Refused { what: &'static str, code: ldap::ResultCode, diagnostic: String },
    #[error("{0}")]
    Source(&'static str),
    #[error("the copy cannot be changed: {0}")]
    Writer(String),
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl From<store::StoreError> for FollowError {
    fn from(error: store::StoreError) -> FollowError {
        FollowError::Operation(error.into())
    }
}

/// State of the thread.
struct Follow {
    settings: FollowSettings,
    directory: Arc<Directory>,
    queue: Arc<WriteQueue>,
    figures: Arc<FollowFigures>,
    is_stopping: Arc<AtomicBool>,
    /// Start time of the source whose entries were last compared with the copy, if the source can lose deletes.
    compared_start: RefCell<Option<String>>,
}

/// Starts the thread. It submits changes to the writer. Therefore it must be stopped before the writer.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    settings: &FollowSettings,
    directory: &Arc<Directory>,
    queue: &Arc<WriteQueue>,
    figures: Arc<FollowFigures>,
) -> io::Result<Service> {
    let is_stopping = Arc::<AtomicBool>::default();
    let (stop, stopped) = channel();
    let stopping = Arc::clone(&is_stopping);
    let (settings, directory, queue) = (settings.clone(), Arc::clone(directory), Arc::clone(queue));
    let compared_start = RefCell::default();
    let mut follow = Follow { settings, directory, queue, figures, is_stopping, compared_start };
    let run = move || run(&mut follow, &stopped);
    Service::start("pando-follow", run, move || {
        stopping.store(true, Ordering::Relaxed);
        drop(stop);
    })
}

/// Connects again whenever a connection ends, until the sender of `stop` is dropped.
fn run(follow: &mut Follow, stop: &Receiver<()>) {
    let mut pause = FOLLOW_RETRY_MIN;
    loop {
        if follow.directory.is_promoted(follow.settings.base()) {
            follow.figures.set_stage(FollowStage::Promoted);
            let source = &follow.settings.url;
            tracing::warn!(%source, "the copy was promoted and follows no longer: remove the table [follow]");
            return;
        }
        let mut session = Session::new(follow);
        let ended = session.run();
        let was_complete = session.was_complete();
        match ended {
            Ok(()) | Err(FollowError::Stopping) => return,
            Err(FollowError::Promoted) => continue,
            Err(FollowError::Again) => tracing::info!("the source asks to begin again"),
            Err(error) => {
                let text = error.to_string();
                if follow.figures.failed(&text) {
                    tracing::warn!(source = %follow.settings.url, "the source is not followed: {text}");
                }
            }
        }
        if was_complete {
            pause = FOLLOW_RETRY_MIN;
        }
        if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        pause = (pause * 2).min(FOLLOW_RETRY_MAX);
    }
}
