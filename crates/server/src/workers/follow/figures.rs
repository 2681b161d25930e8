//! Figures of a copy of another server's tree, for `cn=monitor` and the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use schema::generalized_micros;

use crate::stamp::now_micros;

/// Stage of a copy. Later stages are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FollowStage {
    /// There is no connection to the source.
    #[default]
    Disconnected,
    /// The copy is made for the first time, or is being compared with the source.
    Refreshing,
    /// The copy is complete, and changes arrive as they occur.
    Following,
    /// The copy was promoted and no longer follows the source.
    Promoted,
}

impl FollowStage {
    /// Returns the name of the stage in `cn=monitor`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            FollowStage::Disconnected => "disconnected",
            FollowStage::Refreshing => "refreshing",
            FollowStage::Following => "following",
            FollowStage::Promoted => "promoted",
        }
    }
}

/// Figures of a copy of another server's tree.
#[derive(Debug, Default)]
pub(crate) struct FollowFigures {
    /// Number of changes that were received and made.
    pub(crate) changes: AtomicU64,
    /// Number of entries of the source that are not copied.
    pub(crate) rejected: AtomicU64,
    /// Number of connections that were opened to the source.
    pub(crate) connections: AtomicU64,
    state: Mutex<FollowState>,
}

/// Data of [`FollowFigures`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FollowState {
    pub(crate) stage: FollowStage,
    /// Reason why the last connection ended; `None` when the copy is complete again.
    pub(crate) error: Option<String>,
    /// Cookie of the last commit.
    pub(crate) cookie: Vec<u8>,
    /// Time of the last commit, in seconds since 1970; 0 before the first commit.
    pub(crate) committed: u64,
    /// Time from the newest change at the source until it was durable here, in microseconds. It is computed from the
    /// clocks of both servers.
    pub(crate) delay_micros: u64,
}

impl FollowFigures {
    pub(crate) fn get(&self) -> FollowState {
        self.lock().clone()
    }

    pub(super) fn set_stage(&self, stage: FollowStage) {
        let mut state = self.lock();
        state.stage = stage;
        if stage == FollowStage::Following {
            state.error = None;
        }
    }

    /// Records the end of a connection. Returns true if the reason differs from the previous reason.
    pub(super) fn failed(&self, text: &str) -> bool {
        let mut state = self.lock();
        state.stage = FollowStage::Disconnected;
        let is_new = state.error.as_deref() != Some(text);
        state.error = Some(text.to_owned());
        is_new
    }

    /// Records a commit. `cookie` is the cookie that it stored, if any.
    pub(super) fn committed(&self, changes: u64, cookie: Option<&[u8]>, rejected: u64) {
        self.changes.fetch_add(changes, Ordering::Relaxed);
        self.rejected.store(rejected, Ordering::Relaxed);
        let now = now_micros();
        let mut state = self.lock();
        state.committed = now / 1_000_000;
        if let Some(cookie) = cookie {
            let newest = newest_change(cookie).and_then(|micros| u64::try_from(micros).ok());
            state.delay_micros = newest.map_or(0, |newest| now.saturating_sub(newest));
            state.cookie = cookie.to_vec();
        }
    }

    fn lock(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time of the newest CSN in a cookie, in microseconds since 1970. Cookies of OpenLDAP, Pando and slapd's
/// access log contain CSNs.
fn newest_change(cookie: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(cookie).ok()?;
    let csns = text.split(',').find_map(|field| field.strip_prefix("csn="));
    let csns = csns.or_else(|| text.strip_prefix("accesslog "))?;
    csns.split(';').filter_map(|csn| generalized_micros(csn.split('#').next()?.as_bytes())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_newest_change_is_read_from_cookies() {
        let first = newest_change(b"rid=001,csn=20261127090000.000001Z#000000#000#000000");
        let second =
            b"rid=1,csn=20261127090000.000001Z#000000#001#000000;20261127090001.000000Z#000000#002#0";
        assert_eq!(newest_change(second).unwrap() - first.unwrap(), 999_999);
        let logged = newest_change(b"accesslog 20261127090001.000000Z#000000#000#000000");
        assert_eq!(logged.unwrap() - first.unwrap(), 999_999);
        assert_eq!(newest_change(b"ldap389#cn=x#5"), None);
    }
}
