//! A full disk or map refuses the batch and has no other effect.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use scratch::{ROWS, Scratch};
use store::{Options, Store, StoreError, Writer};

fn put(writer: &mut Writer, key: &[u8], length: usize) -> store::Result<()> {
    let mut batch = writer.begin()?;
    batch.put(ROWS, key, &vec![1; length])?;
    batch.append_record(key)?;
    batch.commit().map(drop)
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::DiskFull { .. })
}

#[test]
fn a_full_map_rolls_the_batch_back_and_the_store_stays_usable() {
    let scratch = Scratch::new();
    let options = Options { map_bytes: Some(1 << 20), ..Options::default() };
    let (store, mut writer) = scratch.open_with(&options);
    put(&mut writer, b"before", 1000).unwrap();

    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"half", b"of it").unwrap();
    batch.put(ROWS, b"big", &vec![0; 2 << 20]).unwrap();
    let error = batch.commit().unwrap_err();
    assert!(is_full(&error), "{error:?}");

    let view = store.view().unwrap();
    assert_eq!(view.get(ROWS, b"half").unwrap(), None);
    assert_eq!(view.position().unwrap(), 1);
    put(&mut writer, b"after", 1000).unwrap();

    drop(view);

    // Fills the map completely with small rows, then makes room again.
    let mut rows = 0u32;
    let full = loop {
        match put(&mut writer, &rows.to_be_bytes(), 3000) {
            Ok(()) => rows += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&full), "{full:?}");
    for number in 0..rows {
        let mut batch = writer.begin().unwrap();
        assert!(batch.delete(ROWS, &number.to_be_bytes()).unwrap());
        batch.commit().unwrap();
    }
    put(&mut writer, b"room again", 3000).unwrap();
    let view = store.view().unwrap();
    for key in [&b"before"[..], b"after", b"room again"] {
        assert!(view.get(ROWS, key).unwrap().is_some());
    }
    drop((store, writer, view));
    // The same file can be opened with a larger map.
    let (_store, mut writer) = scratch.open();
    put(&mut writer, b"big", 2 << 20).unwrap();
}

#[test]
fn below_the_reserve_only_batches_that_free_space_begin() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    put(&mut writer, b"k", 10).unwrap();
    drop((store, writer));
    let options = Options { reserve_bytes: u64::MAX, ..Options::default() };
    let (store, mut writer): (Store, Writer) = scratch.open_with(&options);
    let error = writer.begin().err().unwrap();
    assert!(is_full(&error), "{error:?}");
    let expected = format!("the disk of {} is full: ", scratch.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    let mut batch = writer.begin_in_reserve().unwrap();
    assert!(batch.delete(ROWS, b"k").unwrap());
    batch.commit().unwrap();
    assert_eq!(store.view().unwrap().get(ROWS, b"k").unwrap(), None);
    assert!(!store.facts().unwrap().writes_stopped);
}
