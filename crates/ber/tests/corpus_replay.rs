//! Replays the corpora of this crate's fuzz targets on stable.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn ber_corpus() {
    replay("ber", properties::elements);
}
