//! Replays the corpus of this crate's fuzz target on stable Rust.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn cluster_corpus() {
    replay("cluster", properties::cluster);
}
