//! Replays the corpus of this crate's fuzz target with the stable toolchain.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn audit_corpus() {
    replay("audit", properties::audit);
}
