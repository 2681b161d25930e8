//! Comparison of the machine's clock with the last change of the data, when the server starts.

use std::sync::Arc;

use directory::{Directory, catalog};

use crate::stamp::now_micros;

/// Maximum difference in microseconds that causes no warning. The clocks of machines that exchange data differ
/// slightly.
const SLACK_MICROS: u64 = 60_000_000;

/// Warns if the time of the data's last change is in the future.
pub(super) fn warn_of_late_clock(directory: &Arc<Directory>) {
    let last = directory.snapshot().ok().and_then(|snapshot| catalog::last_csn(snapshot.state().read).ok());
    if let Some(warning) = last.and_then(|last| warning(last.micros, now_micros())) {
        tracing::warn!("{warning}");
    }
}

fn warning(last_micros: u64, now_micros: u64) -> Option<String> {
    let late_micros = last_micros.checked_sub(now_micros).filter(|late| *late > SLACK_MICROS)?;
    Some(format!(
        "the clock is late: the last change of the data is {} seconds in the future; correct the clock, because \
         locks and the ends of passwords and certificates follow it",
        late_micros / 1_000_000
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_earlier_than_the_last_change_is_reported() {
        let hour = 3_600_000_000;
        assert_eq!((warning(hour, hour), warning(hour, 2 * hour)), (None, None));
        assert_eq!(warning(hour + SLACK_MICROS, hour), None);
        assert!(warning(2 * hour, hour).unwrap().contains("3600 seconds in the future"));
        assert_eq!(warning(0, hour), None, "no change yet");
    }
}
