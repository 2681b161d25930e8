//! Replays the corpus of the fuzz target `ber` on stable, so that what fuzzing once found stays fixed.

mod properties;

#[test]
fn corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/ber");
    let mut file_count = 0;
    for file in std::fs::read_dir(directory).expect("the corpus is part of the repository") {
        let bytes =
            std::fs::read(file.expect("the directory is readable").path()).expect("the file is readable");
        properties::elements(&bytes);
        file_count += 1;
    }
    assert!(file_count > 0, "{directory} is empty");
}
