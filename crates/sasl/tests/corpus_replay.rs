//! Runs the corpus of this crate's fuzz target with the stable compiler.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn sasl_corpus() {
    replay("sasl", properties::sasl);
}
