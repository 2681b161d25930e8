//! Replays the corpora of this crate's fuzz targets on stable Rust.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn redo_corpus() {
    replay("redo", properties::redo);
}

#[test]
fn pages_corpus() {
    replay("pages", properties::pages::pages);
}
