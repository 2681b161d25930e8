//! Replays the corpus of a fuzz target on stable, so that faults found by fuzzing stay fixed. Each crate with fuzz
//! targets includes this file in its `tests/corpus_replay.rs`. The check `house corpora` finds corpora that no test
//! replays.

/// Checks the property of the fuzz target on each file of `fuzz/corpus/TARGET`.
pub(crate) fn replay(target: &str, property: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut file_count = 0;
    for file in std::fs::read_dir(&folder).expect("the corpus is part of the repository") {
        let path = file.expect("the folder is readable").path();
        println!("{}", path.display());
        property(&std::fs::read(&path).expect("the file is readable"));
        file_count += 1;
    }
    assert!(file_count > 0, "{folder} is empty");
}
