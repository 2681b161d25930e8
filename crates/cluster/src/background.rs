//! Priority of threads that no client waits for.

use crate::limits::BACKGROUND_NICENESS;

/// Gives the calling thread the lowest priority. If the system refuses, logs a warning that begins with `failed`.
pub(crate) fn lower_priority(failed: &str) {
    if let Err(error) = system::set_thread_niceness(BACKGROUND_NICENESS) {
        tracing::warn!(%error, "{failed} and may slow down others");
    }
}
