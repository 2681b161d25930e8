//! Applies random operations to a store and to a model made of plain collections, and compares all results. Batches are
//! committed and rolled back, old and new views are read, and the store is closed and opened again. Commits are
//! checkpointed at random points, so results come from memory, from the file, and from mixtures of both.
//!
//! Each run prints its seed. `STORE_MODEL_SEED=n cargo test -p store --test model` repeats one run.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use fastrand::Rng;
use model_state::{Model, apply, compare, compare_some, operation};
use scratch::Scratch;
use store::View;

const BATCHES: usize = 250;

#[test]
fn random_operations_agree_with_a_model() {
    let seeds = match std::env::var("STORE_MODEL_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![1, 2, 3, 4, fastrand::u64(..)],
    };
    std::thread::scope(|scope| {
        for seed in seeds {
            println!("STORE_MODEL_SEED={seed}");
            scope.spawn(move || run(&mut Rng::with_seed(seed)));
        }
    });
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
                compare_some(&batch, &changed, random);
            }
            if random.u32(0..20) == 0 {
                let (savepoint, mut tried) = (batch.savepoint(), changed.clone());
                for _ in 0..random.usize(0..20) {
                    let operation = self::operation(random);
                    assert_eq!(apply(&mut batch, &operation).unwrap(), tried.apply(&operation));
                }
                compare(&batch, &tried);
                batch.roll_back(savepoint);
                compare(&batch, &changed);
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
        if random.u32(0..12) == 0 {
            store.checkpoint().unwrap();
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

/// Checks that old views do not change, and that renewed and new views are up to date.
fn views_agree(store: &store::Store, views: &mut Vec<(View, Model)>, model: &Model, random: &mut Rng) {
    if views.len() < 4 {
        views.push((store.view().unwrap(), model.clone()));
    }
    let place = random.usize(0..views.len());
    let (view, seen) = &mut views[place];
    match random.u32(0..4) {
        0 => compare(view, seen),
        1 => compare_some(view, seen, random),
        2 => {
            if random.bool() {
                view.park();
            }
            view.renew().unwrap();
            *seen = model.clone();
            compare_some(view, seen, random);
        }
        _ => drop(views.swap_remove(place)),
    }
}
