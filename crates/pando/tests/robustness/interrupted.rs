//! Commands that create data are killed, or find the disk full, at random points of their run. Either the old or the
//! new data must be there, complete and sound. The same command must then succeed, and leave nothing else.

use std::path::{Path, PathBuf};

use directory::rows::{INDEX, LINKED, MAPS, NAMES};
use store::{Direction, Options, Store};
use test_support::interrupted::{Interruption, Stopped, must};
use test_support::pando::Start;
use test_support::{Pando, SUFFIX, Scratch};

/// Number of kills, power cuts and full disks for each command.
const ROUNDS: u64 = 3;
/// Number of interruptions of each kind for commands that take long.
const ROUNDS_LARGE: u64 = 2;

/// Creates the sample organisation as data that no server has open, and as LDIF.
fn sample(scratch: &Scratch) -> (PathBuf, PathBuf) {
    assert!(Start::new(scratch).arguments(&["--sample"]).ready().stop().success());
    let data = Pando::data(scratch);
    let file = scratch.join("sample.ldif");
    must(&["export", "--operational", "-o", file.to_str().unwrap()], &data);
    (data, file)
}

/// Interrupts a command in each way, at random points.
fn interrupt(interruption: &Interruption<'_>, rounds: u64) {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let mut stopped = Vec::new();
    let (calls, bytes) = (interruption.whole.calls, interruption.whole.grown_bytes);
    for _ in 0..test_support::rounds(rounds) {
        // Some points are near the beginning and the end, because the outcome changes there.
        let range = match random.u8(..3) {
            0 => 1..=calls.min(24),
            1 => calls.saturating_sub(8).max(1)..=calls,
            _ => 1..=calls,
        };
        stopped.push(interruption.kill_at(random.u64(range.clone())));
        stopped.push(interruption.cut_at(random.u64(range), random.u64(..)));
        stopped.push(interruption.full_after(random.i64(0..bytes.max(1))));
    }
    assert!(stopped.iter().any(|stopped| *stopped != Stopped::Done), "no command was interrupted");
}

#[test]
fn an_import_into_an_empty_directory_can_be_interrupted() {
    let scratch = Scratch::new("interrupted-import");
    let (_, file) = sample(&scratch);
    let arguments = ["import", "--suffix", SUFFIX, file.to_str().unwrap()];
    interrupt(&Interruption::of(&scratch, None, true, &arguments), ROUNDS);
}

#[test]
fn an_import_in_place_of_entries_can_be_interrupted() {
    let scratch = Scratch::new("interrupted-replace");
    let (_, file) = sample(&scratch);
    let old = scratch.join("old");
    let first = scratch.write("old.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\ndescription: old\n"));
    must(&["import", "--suffix", SUFFIX, first.to_str().unwrap()], &old);
    let arguments = ["import", "--replace", file.to_str().unwrap()];
    interrupt(&Interruption::of(&scratch, Some(&old), true, &arguments), ROUNDS);
}

/// The text is so large that the import sorts rows in temporary files.
#[test]
fn an_import_that_sorts_on_the_disk_can_be_interrupted() {
    const GROUPS: usize = 2_000;
    let scratch = Scratch::new("interrupted-large");
    let mut text = format!("dn: {SUFFIX}\nobjectClass: domain\n\n");
    let filling = "x".repeat(20_000);
    for number in 0..GROUPS {
        let other = GROUPS - 1 - number;
        text += &format!(
            "dn: cn={number},{SUFFIX}\nobjectClass: groupOfNames\nmember: cn={other},{SUFFIX}\n\
             description: {filling}\n\n"
        );
    }
    let (raw, first) = (scratch.join("raw"), scratch.write("raw.ldif", text));
    must(&["import", "--suffix", SUFFIX, first.to_str().unwrap()], &raw);
    // The export contains all values that an import would otherwise generate, so that imports are equal.
    let file = scratch.join("all.ldif");
    let file = file.to_str().unwrap();
    must(&["export", "--operational", "-o", file], &raw);
    let arguments = ["import", "--suffix", SUFFIX, "--memory", "64", file];
    interrupt(&Interruption::of(&scratch, None, true, &arguments), ROUNDS_LARGE);
}

#[test]
fn a_compaction_can_be_interrupted() {
    let scratch = Scratch::new("interrupted-compact");
    let (data, _) = sample(&scratch);
    interrupt(&Interruption::of(&scratch, Some(&data), true, &["compact"]), ROUNDS);
}

#[test]
fn a_repair_can_be_interrupted() {
    let scratch = Scratch::new("interrupted-repair");
    let (data, _) = sample(&scratch);
    damage(&data);
    let found = test_support::pando::command(&["verify"], Some(&data)).expect_code(1);
    found.expect_error("in rows that follow from entries");
    interrupt(&Interruption::of(&scratch, Some(&data), false, &["verify", "--repair"]), ROUNDS);
}

/// Either all settings take effect or none. Index rows are built in slices afterwards, so missing rows may be added
/// later.
#[test]
fn an_apply_of_settings_can_be_interrupted() {
    let scratch = Scratch::new("interrupted-apply");
    let (data, _) = sample(&scratch);
    let text = format!(
        "suffixes = [\"{SUFFIX}\", \"o=partners\"]\n[limits]\nsize_limit = 77\n[indexes]\nuid = \"equality\"\n\
         cn = [\"equality\", \"ordering\", \"substring\", \"approximate\"]\nsn = [\"substring\"]\n\
         mail = [\"substring\"]\n"
    );
    let file = scratch.write("settings.toml", text);
    let mut apply = Interruption::of(&scratch, Some(&data), true, &["apply", file.to_str().unwrap()]);
    apply.has_steps = true;
    interrupt(&apply, ROUNDS);
}

/// Removes every third row of the data derived from entries.
fn damage(data: &Path) {
    let (store, mut writer) = Store::open(data, MAPS, &Options::default()).unwrap();
    let view = store.view().unwrap();
    let mut batch = writer.begin().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for row in view.scan(NAMES, all, Direction::Forward).step_by(3) {
        assert!(batch.delete(NAMES, row.unwrap().0).unwrap());
    }
    for map in [INDEX, LINKED] {
        for row in view.scan_keys(map, all, Direction::Forward).step_by(3) {
            let key = row.unwrap().0;
            let mut ids = Vec::new();
            view.ids(map, key).unwrap().next_block(&mut ids, 1).unwrap();
            assert!(batch.remove_id(map, key, ids[0]).unwrap());
        }
    }
    batch.commit().unwrap();
}
