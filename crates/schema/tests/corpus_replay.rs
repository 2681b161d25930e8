//! Replays the corpora of this crate's fuzz targets on stable, so that what fuzzing once found stays fixed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod properties;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut file_count = 0;
    for file in std::fs::read_dir(&directory).expect("the corpus is part of the repository") {
        let path = file.unwrap().path();
        println!("{}", path.display());
        property(&std::fs::read(&path).unwrap());
        file_count += 1;
    }
    assert!(file_count > 0, "{directory} is empty");
}

#[test]
fn schema_text_corpus() {
    replay("schema_text", properties::schema_text);
}

#[test]
fn schema_value_corpus() {
    replay("schema_value", properties::value);
}
