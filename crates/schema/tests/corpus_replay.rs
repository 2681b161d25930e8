//! Replays the corpora of this crate's fuzz targets on stable.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn schema_text_corpus() {
    replay("schema_text", properties::schema_text);
}

#[test]
fn schema_value_corpus() {
    replay("schema_value", properties::value);
}
