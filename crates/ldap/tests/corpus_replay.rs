//! Replays the corpora of this crate's fuzz targets on stable.

mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn message_corpus() {
    replay("message", properties::message);
}

#[test]
fn filter_text_corpus() {
    replay("filter_text", properties::filter_text);
}

#[test]
fn dn_corpus() {
    replay("dn", properties::dn);
}

#[test]
fn operation_values_corpus() {
    replay("operation_values", properties::operation_values);
}

#[test]
fn url_corpus() {
    replay("url", properties::url);
}

#[test]
fn ldif_corpus() {
    replay("ldif", properties::ldif);
}

#[test]
fn access_values_corpus() {
    replay("access_values", properties::access_values);
}
