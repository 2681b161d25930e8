//! `pando apply` is killed, loses power or runs out of disk space at any moment. The old or the new settings must be in
//! force as a whole, and the next run must continue.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use powercut::PowerCut;
use test_support::pando::{Start, command, program};
use test_support::{Pando, SUFFIX, Scratch};

/// Number of kills in each test.
const ROUNDS: u64 = 12;

/// Returns two settings files that differ in every part, except for a definition that is in use.
fn two_settings(scratch: &Scratch) -> [PathBuf; 2] {
    let colour = "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY caseIgnoreMatch \
                  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    let one = format!(
        "suffixes = [\"{SUFFIX}\", \"o=one\"]\n[limits]\nsize_limit = 1\n[indexes]\nuid = \"equality\"\n\
         [schema]\nown = \"{colour}\"\n"
    );
    let other = format!(
        "suffixes = [\"o=a\", \"{SUFFIX}\", \"o=b\"]\nanonymous_read = true\nintegrity_attributes = [\"owner\"]\n\
         [limits]\nsize_limit = 2\n[indexes]\ncn = \"equality,substring\"\ndescription = \"presence\"\n\
         [schema]\nown = '''\n{colour}\n# more\n'''\nextra = '# nothing'\n"
    );
    [scratch.write("one.toml", one), scratch.write("other.toml", other)]
}

fn exported(data: &Path) -> String {
    command(&["export", "--settings-only"], Some(data)).expect_code(0).stdout
}

/// Returns the exported settings of two new directories, one for each settings file.
fn expected(scratch: &Scratch, settings: &[PathBuf; 2]) -> [String; 2] {
    let mut number = 0;
    settings.each_ref().map(|file| {
        number += 1;
        let data = scratch.join(&format!("expected-{number}"));
        command(&["apply", file.to_str().unwrap()], Some(&data)).expect_code(0);
        sorted(&exported(&data))
    })
}

/// Returns the text with its lines and suffixes sorted, because their order does not matter.
fn sorted(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("suffixes = [") {
        None => line.to_owned(),
        Some(list) => {
            let mut names: Vec<&str> =
                list.trim_end_matches(']').split("\", ").map(|name| name.trim_matches('"')).collect();
            names.sort_unstable();
            format!("suffixes: {}", names.join(" "))
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Checks that one of the two settings is in force, and that `pando verify` passes. Returns the index of these
/// settings.
#[track_caller]
fn is_whole(data: &Path, expected: &[String; 2]) -> usize {
    let found = sorted(&exported(data));
    let which = expected.iter().position(|expected| *expected == found);
    command(&["verify"], Some(data)).expect_code(0);
    which.unwrap_or_else(|| panic!("neither of the two settings:\n{found}"))
}

#[test]
fn a_killed_apply_has_changed_nothing_or_everything() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new("settings-killed");
    assert!(Start::new(&scratch).arguments(&["--sample"]).ready().stop().success());
    let settings = two_settings(&scratch);
    let expected = expected(&scratch, &settings);
    let data = Pando::data(&scratch).canonicalize().unwrap();
    command(&["apply", settings[0].to_str().unwrap()], Some(&data)).expect_code(0);
    let (journal, counts) = (scratch.join("journal"), scratch.join("counts"));
    let run = |file: &PathBuf, power: PowerCut| {
        let mut apply = Command::new(program());
        apply.arg("apply").arg(file).arg("--data").arg(&data);
        power.apply(&mut apply);
        apply.output().unwrap()
    };
    // Count the calls of a whole run. The command can be killed at each of them.
    let counted = run(&settings[1], PowerCut::new(&data, &journal).count(&counts));
    assert!(counted.status.success(), "{counted:?}");
    let whole = powercut::counted(&counts).unwrap();
    let room = scratch.join("room");
    let mut killed = 0;
    for round in 0..ROUNDS {
        let target = (round % 2) as usize;
        let call = random.u64(1..=whole.calls);
        let way = random.u8(0..3);
        let power = PowerCut::new(&data, &journal);
        let power = match way {
            0 => power.kill_at(call),
            1 => power.cut_at(call),
            _ => {
                // If the file does not grow, the space is sufficient.
                std::fs::write(&room, random.i64(0..=whole.grown_bytes.max(0)).to_string()).unwrap();
                power.room(&room)
            }
        };
        let output = run(&settings[target], power);
        if way == 1 && output.status.code() == Some(powercut::EXIT_STATUS) {
            powercut::discard_unsynced(&journal, random.u64(..)).unwrap();
        }
        killed += u64::from(!output.status.success());
        is_whole(&data, &expected);
        // The next run continues after the interruption, and completes the indexes.
        let again = command(&["apply", settings[target].to_str().unwrap()], Some(&data));
        again.expect_code(0);
        assert_eq!(is_whole(&data, &expected), target);
        let list = command(&["index", "list"], Some(&data)).stdout;
        assert!(!list.contains("building") && !list.contains("removing"), "{list}");
    }
    assert!(killed > 0, "it was never killed");
}

#[test]
fn a_killed_first_apply_leaves_nothing_or_a_directory() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new("settings-killed-first");
    let settings = two_settings(&scratch);
    let expected = expected(&scratch, &settings);
    for round in 0..ROUNDS {
        let folder = scratch.join(&format!("data-{round}"));
        std::fs::create_dir_all(&folder).unwrap();
        let data = folder.canonicalize().unwrap();
        let mut apply = Command::new(program());
        apply.arg("apply").arg(&settings[0]).arg("--data").arg(&data);
        PowerCut::new(&data, &scratch.join("journal")).kill_at(random.u64(1..20)).apply(&mut apply);
        apply.stdout(Stdio::null()).stderr(Stdio::null());
        apply.status().unwrap();
        // The remaining files are a complete directory, or do not prevent the creation of a new one.
        let planned = command(&["plan", settings[0].to_str().unwrap()], Some(&data)).expect_code(0);
        if planned.stdout.starts_with("no change") {
            assert_eq!(is_whole(&data, &expected), 0);
        } else {
            assert!(planned.stdout.starts_with("makes a new directory"), "{planned}");
        }
        command(&["apply", settings[0].to_str().unwrap()], Some(&data)).expect_code(0);
        assert_eq!(is_whole(&data, &expected), 0);
    }
}

#[test]
fn a_server_killed_while_it_takes_settings_has_all_of_them_or_none() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new("settings-killed-served");
    assert!(Start::new(&scratch).arguments(&["--sample"]).ready().stop().success());
    let settings = two_settings(&scratch);
    let expected = expected(&scratch, &settings);
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let apply = |target: usize| command(&["apply", settings[target].to_str().unwrap()], Some(&data));
    // Count the calls of a start and a stop, without and with a change of the settings in between.
    let (journal, counts) = (scratch.join("journal"), scratch.join("counts"));
    let calls_with = |change: &dyn Fn()| {
        let pando =
            Start::bare(&scratch, "data").with(&PowerCut::new(&data, &journal).count(&counts)).ready();
        change();
        assert!(pando.stop().success());
        powercut::counted(&counts).unwrap().calls
    };
    // Without a server, the command also completes pending work on indexes.
    apply(0).expect_code(0);
    let start = calls_with(&|| ());
    let all = calls_with(&|| drop(apply(1).expect_code(0)));
    let mut killed = 0;
    for round in 0..ROUNDS {
        let target = (round % 2) as usize;
        // In most rounds the server is killed while the change itself is written; in the others, while index rows are
        // written.
        let last = if random.u32(0..4) == 0 { all } else { start + 4 };
        let call = random.u64(start + 1..=last.min(all));
        let power = PowerCut::new(&data, &journal).kill_at(call);
        // The server may be killed during its start.
        let Ok(pando) = Start::bare(&scratch, "data").with(&power).ready_or_ended() else { continue };
        let applied = apply(target);
        println!("killed at {call} of {start} to {all}: {:?}", applied.code);
        killed += u64::from(applied.code != Some(0));
        drop(pando);
        let found = is_whole(&data, &expected);
        assert!(applied.code != Some(0) || found == target, "acknowledged settings are in force: {applied}");
        apply(found).expect_code(0).expect_output("no change");
    }
    // A restart continues to build the indexes, and a last apply succeeds.
    assert!(Start::bare(&scratch, "data").ready().stop().success());
    apply(1).expect_code(0);
    assert_eq!(is_whole(&data, &expected), 1);
    assert!(killed > 0, "every change was answered");
}
