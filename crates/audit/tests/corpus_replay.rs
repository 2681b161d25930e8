//! Replays the corpus of the fuzz target for this crate. The replay needs only the stable toolchain.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn audit_corpus() {
    replay("audit", properties::audit);
}
