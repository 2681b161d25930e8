//! Replays the corpus of the fuzz target `redo` on stable, so that what fuzzing once found stays fixed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod properties;

#[test]
fn redo_corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/redo");
    let mut file_count = 0;
    for file in std::fs::read_dir(directory).expect("the corpus is part of the repository") {
        let path = file.unwrap().path();
        println!("{}", path.display());
        properties::redo(&std::fs::read(&path).unwrap());
        file_count += 1;
    }
    assert!(file_count > 0, "{directory} is empty");
}
