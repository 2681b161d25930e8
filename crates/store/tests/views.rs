//! Tests of the contents and versions of views.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use scratch::{ROWS, SETS, Scratch};
use store::{Options, StoreError, View, Writer};

fn put(writer: &mut Writer, value: &[u8]) {
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"k", value).unwrap();
    batch.append_record(value).unwrap();
    batch.commit().unwrap();
}

fn value(view: &View) -> Option<Vec<u8>> {
    view.get(ROWS, b"k").unwrap().map(<[u8]>::to_vec)
}

#[test]
fn a_view_shows_nothing_uncommitted_and_nothing_later_until_renewed() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    let mut view = store.view().unwrap();
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"k", b"1").unwrap();
    view.renew().unwrap();
    assert_eq!(value(&view), None, "uncommitted");
    assert_eq!(value(&store.view().unwrap()), None);
    batch.commit().unwrap();
    assert_eq!(value(&view), None, "not renewed");
    assert_eq!(value(&store.view().unwrap()), Some(b"1".to_vec()));
    view.renew().unwrap();
    assert_eq!(value(&view), Some(b"1".to_vec()));
    for number in 0..50 {
        put(&mut writer, &[number]);
        assert_ne!(value(&view), Some(vec![number]));
        view.renew().unwrap();
        assert_eq!(value(&view), Some(vec![number]));
        view.renew().unwrap();
        assert_eq!(value(&view), Some(vec![number]));
    }
}

#[test]
fn an_old_view_keeps_its_state_while_pages_are_reused() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for number in 0..2_000u32 {
        batch.put(ROWS, &number.to_be_bytes(), &[1; 100]).unwrap();
    }
    batch.commit().unwrap();
    let old = store.view().unwrap();
    for round in 2..12 {
        let mut batch = writer.begin().unwrap();
        for number in 0..2_000u32 {
            batch.put(ROWS, &number.to_be_bytes(), &[round; 100]).unwrap();
        }
        batch.commit().unwrap();
        if round % 2 == 0 {
            store.checkpoint().unwrap();
        }
    }
    for number in 0..2_000u32 {
        assert_eq!(old.get(ROWS, &number.to_be_bytes()).unwrap(), Some(&[1; 100][..]));
    }
}

#[test]
fn a_parked_view_releases_its_pages_and_can_be_renewed() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    put(&mut writer, b"1");
    let mut view = store.view().unwrap();
    view.park();
    assert_eq!(view.get(ROWS, b"k"), Err(StoreError::Parked));
    assert_eq!(view.position(), Err(StoreError::Parked));
    assert_eq!(view.log_records(1).next(), Some(Err(StoreError::Parked)));
    view.park();
    view.renew().unwrap();
    assert_eq!(value(&view), Some(b"1".to_vec()));
    view.park();
    let grown_by = |writer: &mut Writer, batches: usize| {
        let before = store.facts().unwrap().used_bytes;
        for _ in 0..batches {
            let mut batch = writer.begin().unwrap();
            batch.put(ROWS, b"k", &[0; 100_000]).unwrap();
            batch.commit().unwrap();
            store.checkpoint().unwrap();
        }
        store.facts().unwrap().used_bytes - before
    };
    grown_by(&mut writer, 10);
    assert_eq!(grown_by(&mut writer, 20), 0, "parked: every batch reuses the pages of earlier ones");
    view.renew().unwrap();
    assert!(grown_by(&mut writer, 20) >= 18 * 100_000, "reading: the pages pile up");
}

#[test]
fn a_version_changes_exactly_with_the_visible_state() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    let mut view = store.view().unwrap();
    let mut last = view.version();
    let mut renewed = |view: &mut View| {
        view.renew().unwrap();
        let before = std::mem::replace(&mut last, view.version());
        view.version() != before
    };
    assert!(!renewed(&mut view));
    for number in 0..20 {
        put(&mut writer, &[number]);
        assert!(renewed(&mut view), "a commit");
        writer.begin().unwrap().commit().unwrap();
        drop(writer.begin().unwrap());
        assert!(!renewed(&mut view), "batches without changes");
        store.checkpoint().unwrap();
        if number % 2 == 0 {
            view.park();
        }
        assert!(!renewed(&mut view), "a checkpoint changes no visible state");
        assert_eq!(value(&view), Some(vec![number]));
    }
}

#[test]
fn a_view_may_change_threads() {
    fn send<T: Send>(_: &T) {}
    fn share<T: Sync>(_: &T) {}
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    send(&writer);
    send(&store);
    share(&store);
    put(&mut writer, b"1");
    let mut view = store.view().unwrap();
    let view = std::thread::spawn(move || {
        assert_eq!(value(&view), Some(b"1".to_vec()));
        view.renew().unwrap();
        view
    })
    .join()
    .unwrap();
    assert_eq!(value(&view), Some(b"1".to_vec()));
}

#[test]
fn readers_on_other_threads_see_whole_batches_in_order() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    put(&mut writer, &[0]);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut view = store.view().unwrap();
            std::thread::spawn(move || {
                let mut seen = 0;
                while seen < 200 {
                    view.renew().unwrap();
                    let value = value(&view).unwrap()[0];
                    // The row and the record were written by one batch.
                    assert_eq!(view.position().unwrap(), u64::from(value) + 1);
                    assert!(value >= seen, "back from {seen} to {value}");
                    seen = value;
                }
            })
        })
        .collect();
    for number in 1..=200 {
        put(&mut writer, &[number]);
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Writes a state that differs from every other state and from any mixture of two: every value is the number of the
/// batch.
fn write_number(writer: &mut Writer, number: u64) {
    let mut batch = writer.begin().unwrap();
    for row in 0..10u64 {
        batch.put(ROWS, &row.to_be_bytes(), &number.to_be_bytes()).unwrap();
    }
    if number.is_multiple_of(16) {
        // This value makes the batch too large for the redo log.
        batch.put(ROWS, b"large", &number.to_be_bytes().repeat(1_500)).unwrap();
    }
    batch.delete(SETS, b"number").unwrap();
    batch.insert_id(SETS, b"number", number).unwrap();
    batch.insert_id(SETS, b"all", number).unwrap();
    batch.bump(b"count", 1).unwrap();
    batch.append_record(b"record").unwrap();
    batch.trim_log(number.saturating_sub(5), 3).unwrap();
    assert_eq!(batch.commit().unwrap(), number);
}

/// Returns the number of the batch whose state this is, after checking that the state is complete.
fn number(view: &View) -> u64 {
    let number = view.position().unwrap();
    for row in 0..10u64 {
        let value = view.get(ROWS, &row.to_be_bytes()).unwrap();
        assert_eq!(value, (number > 0).then_some(&number.to_be_bytes()[..]));
    }
    let large =
        view.get(ROWS, b"large").unwrap().map(|value| u64::from_be_bytes(value[..8].try_into().unwrap()));
    assert_eq!(large.unwrap_or(0), number - number % 16);
    assert_eq!(view.ids(SETS, b"number").unwrap().seek(0).unwrap(), (number > 0).then_some(number));
    let (mut all, mut ids) = (view.ids(SETS, b"all").unwrap(), Vec::new());
    assert_eq!(all.estimate(), number);
    all.next_block(&mut ids, usize::MAX).unwrap();
    assert!(ids.into_iter().eq(1..=number));
    assert_eq!(view.row_count(SETS).unwrap(), number + u64::from(number > 0));
    assert_eq!(view.count(b"count").unwrap(), number as i64);
    let records: Vec<u64> = view.log_records(1).map(|record| record.unwrap().0).collect();
    assert_eq!(records.last().copied().unwrap_or(0), number);
    assert_eq!(records.first().copied(), view.first_position().unwrap());
    number
}

#[test]
fn readers_see_whole_batches_during_checkpoints() {
    const LAST: u64 = 1_500;
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open_with(&Options { pending_bytes_max: 20_000, ..Options::default() });
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut view = store.view().unwrap();
                let (mut seen, mut version) = (number(&view), view.version());
                while seen < LAST {
                    if reader < 2 {
                        view.park();
                    }
                    view.renew().unwrap();
                    let now = number(&view);
                    assert!(now >= seen, "back from {seen} to {now}");
                    assert!(now == seen || view.version() != version, "{now} under the version of {seen}");
                    assert_eq!(number(&view), now);
                    (seen, version) = (now, view.version());
                }
            })
        })
        .collect();
    for number in 1..=LAST {
        write_number(&mut writer, number);
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn views_beyond_the_maximum_are_refused_until_a_slot_is_free() {
    let scratch = Scratch::in_memory();
    let (store, _writer) = scratch.open_with(&Options { views_max: 3, ..Options::default() });
    let mut views: Vec<View> = (0..3).map(|_| store.view().unwrap()).collect();
    assert_eq!(store.view().err(), Some(StoreError::TooManyViews));
    views.pop();
    store.view().unwrap();
}

#[test]
fn a_view_outlives_store_and_writer_and_keeps_the_directory_locked() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    put(&mut writer, b"1");
    let view = store.view().unwrap();
    drop((store, writer));
    assert_eq!(value(&view), Some(b"1".to_vec()));
    assert!(store::Store::open(scratch.path(), scratch::MAPS, &Options::default()).is_err());
    drop(view);
    scratch.open();
}
