//! Runs the corpora of this crate's fuzz targets with the stable compiler.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn settings_text_corpus() {
    replay("settings_text", properties::settings_text);
}

#[test]
fn proxy_header_corpus() {
    replay("proxy_header", properties::proxy_header);
}
