//! Replays the corpus of the fuzz target for this crate. The stable toolchain suffices for it.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn audit_corpus() {
    replay("audit", properties::audit);
}
