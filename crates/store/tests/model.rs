//! Random operations on a store and on plain collections, compared answer by answer: batches committed and rolled back, views old and new,
//! the store closed and opened again.
//!
//! Each run prints its seed. `STORE_MODEL_SEED=n cargo test -p store --test model` repeats one.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use std::ops::Bound::{Excluded, Included};

use fastrand::Rng;
use model_state::{Model, apply, compare, key, operation};
use scratch::{ROWS, SETS, Scratch};
use store::{Direction, Read, View};

const BATCHES: usize = 250;

#[test]
fn random_operations_agree_with_a_model() {
    let seeds = match std::env::var("STORE_MODEL_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![1, 2, 3, 4, fastrand::u64(..)],
    };
    for seed in seeds {
        println!("STORE_MODEL_SEED={seed}");
        run(&mut Rng::with_seed(seed));
    }
}

fn run(random: &mut Rng) {
    let scratch = Scratch::new();
    let mut opened = scratch.open();
    let mut model = Model::default();
    let mut views: Vec<(View, Model)> = Vec::new();
    for _ in 0..BATCHES {
        let (store, writer) = &mut opened;
        let mut changed = model.clone();
        let mut batch = writer.begin().unwrap();
        for _ in 0..random.usize(0..80) {
            let operation = operation(random);
            assert_eq!(apply(&mut batch, &operation).unwrap(), changed.apply(&operation), "{operation:?}");
            if random.u32(0..20) == 0 {
                look(&batch, &changed, random);
            }
        }
        match random.u32(0..10) {
            0 => drop(batch),
            1 => {
                compare(&batch, &changed);
                assert_eq!(batch.commit().unwrap(), changed.position());
                model = changed;
            }
            _ => {
                assert_eq!(batch.commit().unwrap(), changed.position());
                model = changed;
            }
        }
        views_agree(store, &mut views, &model, random);
        if random.u32(0..40) == 0 {
            views.clear();
            drop(opened);
            opened = scratch.open();
            compare(&opened.0.view().unwrap(), &model);
        }
    }
    compare(&opened.0.view().unwrap(), &model);
}

/// Old views stand still, renewed and new ones are up to date.
fn views_agree(store: &store::Store, views: &mut Vec<(View, Model)>, model: &Model, random: &mut Rng) {
    if views.len() < 4 {
        views.push((store.view().unwrap(), model.clone()));
    }
    let place = random.usize(0..views.len());
    let (view, seen) = &mut views[place];
    match random.u32(0..4) {
        0 => compare(view, seen),
        1 => look(view, seen, random),
        2 => {
            if random.bool() {
                view.park();
            }
            view.renew().unwrap();
            *seen = model.clone();
            look(view, seen, random);
        }
        _ => drop(views.swap_remove(place)),
    }
}

/// Some questions with random answers.
fn look(read: &Read, model: &Model, random: &mut Rng) {
    let (one, other) = (key(random), key(random));
    assert_eq!(read.get(ROWS, &one).unwrap(), model.rows.get(&one).map(|value| &value[..]));
    assert_eq!(read.count(&one).unwrap(), model.counts.get(&one).copied().unwrap_or(0));

    let (low, high) = (one.clone().min(other.clone()), one.clone().max(other));
    if low < high {
        let range = (Included(&low[..]), Excluded(&high[..]));
        let expected = model.rows.range::<[u8], _>(range).map(|(key, value)| (&key[..], &value[..]));
        assert!(read.scan(ROWS, range, Direction::Forward).map(|row| row.unwrap()).eq(expected.clone()));
        assert!(read.scan(ROWS, range, Direction::Backward).map(|row| row.unwrap()).eq(expected.rev()));
        let range = (Excluded(&low[..]), Included(&high[..]));
        let expected = model.sets.range::<[u8], _>(range).map(|(key, ids)| (&key[..], ids.len() as u64));
        assert!(read.scan_keys(SETS, range, Direction::Forward).map(|row| row.unwrap()).eq(expected.clone()));
        assert!(read.scan_keys(SETS, range, Direction::Backward).map(|row| row.unwrap()).eq(expected.rev()));
    }

    let none = Default::default();
    let ids = model.sets.get(&one).unwrap_or(&none);
    let mut cursor = read.ids(SETS, &one).unwrap();
    assert_eq!(cursor.estimate(), ids.len() as u64);
    for _ in 0..5 {
        let (at_least, limit) = (random.u64(0..5_100), random.usize(0..1_500));
        assert_eq!(cursor.seek(at_least).unwrap(), ids.range(at_least..).next().copied());
        assert_eq!(read.contains_id(SETS, &one, at_least).unwrap(), ids.contains(&at_least));
        let mut block = Vec::new();
        cursor.next_block(&mut block, limit).unwrap();
        assert!(block.iter().eq(ids.range(at_least..).take(limit)));
    }
}
