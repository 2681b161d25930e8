//! Replays the corpora of this crate's fuzz targets on stable, so that what fuzzing once found stays fixed.

mod properties;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut file_count = 0;
    for file in std::fs::read_dir(&directory).expect("the corpus is part of the repository") {
        let path = file.expect("the directory is readable").path();
        println!("{}", path.display());
        property(&std::fs::read(&path).expect("the file is readable"));
        file_count += 1;
    }
    assert!(file_count > 0, "{directory} is empty");
}

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
fn url_corpus() {
    replay("url", properties::url);
}

#[test]
fn ldif_corpus() {
    replay("ldif", properties::ldif);
}
