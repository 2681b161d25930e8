//! The remaining candidates of a long search while scan threads examine them.

use directory::Snapshot;
use directory::search::{Budget, Search, Step};

use crate::limits::{SLICE_BYTES_MAX, SLICE_ENTRIES_MAX};
use crate::workers::scan_pool::ScanHandle;

/// Budget of one slice of a search.
pub(super) const SLICE: Budget =
    Budget { entries_examined_max: SLICE_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

/// The remaining candidates of a search while scan threads examine them.
pub(super) struct SharedRest {
    scan: ScanHandle,
    /// Whether a result may be ready. If false, the scan threads send a message when they have the next result.
    ready: bool,
}

impl SharedRest {
    pub(super) fn new(scan: ScanHandle) -> SharedRest {
        SharedRest { scan, ready: false }
    }

    /// Records that a result is ready.
    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Returns the maximum number of scan threads that work on the search concurrently.
    pub(super) fn scanners(&self) -> usize {
        self.scan.scanners()
    }

    /// Appends results to `out` until the size of a slice is reached or no further result is ready.
    pub(super) fn take(&mut self, search: &mut Search, snapshot: &Snapshot, out: &mut Vec<u8>) -> Step {
        let start = out.len();
        while out.len() - start < SLICE_BYTES_MAX {
            if search.is_streaming() {
                return search.run(snapshot, out, &SLICE);
            }
            let Some(piece) = self.scan.take() else {
                self.ready = false;
                return Step::More;
            };
            if let Step::Done = search.take(snapshot, piece, out) {
                return Step::Done;
            }
        }
        Step::More
    }
}
