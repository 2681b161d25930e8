//! Simulation of whole clusters, determined by a seed: a log, nodes with disks, a network, clients, and all their
//! faults.
//!
//! The nodes run the state machines of this crate, as a server does, over a toy directory (module [`directory`]). The
//! module [`world`] delays, loses and repeats messages, pauses and kills nodes, destroys their disks, isolates them,
//! elects other writers, and lets appends time out and arrive late. Then the faults end, and the simulation continues
//! until the nodes have settled. Finally the module [`check`] checks the clients' answers against the log. It reads the
//! log with a second, simple implementation of the protocol's rules.
//!
//! A run is a function of its seed. `PANDO_TEST_SEED=N` makes only run N, or M runs from N on if `PANDO_TEST_SEEDS=M`
//! is set too. `./dev simulate` sets both.

mod check;
mod client;
mod directory;
mod log;
mod node;
mod rotation;
mod world;

use world::World;

/// Defect that all nodes of a run have, to verify that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The writer answers after it has appended a group, without reading it back.
    AnswerBeforeAccept,
    /// Nodes do not check the epoch of a group or its number in the epoch.
    NoEpochCheck,
    /// Nodes accept a group although an earlier group is missing.
    MissingGroupAccepted,
    /// A retry has a new operation id.
    RetryWithoutId,
    /// A snapshot lacks the applied operation ids.
    WindowLostInSnapshot,
    /// The writer decides any copy of a request, not only the last copy.
    AnyCopyDecided,
    /// A read does not wait for the position that its client has seen.
    StaleRead,
    /// Records and rows are committed separately.
    RowsCommittedLate,
    /// Nodes accept a message under any key that they have, not only under the key in force.
    OldKeyAccepted,
    /// One node compares all its data at a barrier that names a slice.
    SliceIgnored,
    /// A node that restarts has lost the progress of the round of comparisons.
    RoundForgotten,
    /// A node that lacks the new key after a rotation continues with the messages that it can read.
    RotationIgnored,
}

/// Violation of a guarantee of the protocol, as text.
#[derive(Clone, Debug)]
pub(crate) struct Violation(pub(crate) String);

fn run(seed: u64, defect: Option<Defect>) -> Result<world::Figures, Violation> {
    World::new(seed, defect).run()
}

/// Returns the seeds that the environment variables request; without these variables, `count` seeds from 1 on.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let first = variable("PANDO_TEST_SEED");
    let count = variable("PANDO_TEST_SEEDS").unwrap_or(if first.is_some() { 1 } else { count });
    let first = first.unwrap_or(1);
    first..first + count
}

/// Without defects, no acknowledged change is lost, none is applied twice, and all nodes are equal.
#[test]
fn no_seed_violates_the_guarantees() {
    let mut sum = world::Figures::default();
    for seed in seeds(2_000) {
        match run(seed, None) {
            Ok(figures) => sum.add(&figures),
            Err(Violation(text)) => panic!("PANDO_TEST_SEED={seed}: {text}"),
        }
    }
    println!("{sum:?}");
    // A kind of fault that never occurred was not tested.
    if sum.runs >= 2_000 {
        assert!(sum.all().iter().all(|(_, count)| *count > 0), "{sum:?}");
    }
}

/// A faulty log loses messages. Acknowledged changes may be lost then. But all nodes that continue are equal, and a
/// writer detects the loss if its message gets an offset that was used before.
#[test]
fn a_log_that_loses_messages_causes_no_silent_difference() {
    let mut sum = world::Figures::default();
    for seed in seeds(500) {
        match World::losing(seed).run() {
            Ok(figures) => sum.add(&figures),
            Err(Violation(text)) => panic!("PANDO_TEST_SEED={seed}: {text}"),
        }
    }
    println!("{} acknowledgements below what was read, in {} runs", sum.went_back(), sum.runs);
    assert!(sum.runs < 500 || sum.went_back() > 0);
}

/// A value on one node is altered while no faults occur. The present round or the next round detects the alteration,
/// whichever slice contains the value. If there is a majority, the result names the node and the part.
#[test]
fn finds_an_altered_value_within_one_round() {
    let (mut in_the_first, mut in_others) = (0, 0);
    for seed in seeds(200) {
        let planted = match World::new(seed, None).plant() {
            Ok(Some(planted)) => planted,
            Ok(None) => continue,
            Err(Violation(text)) => panic!("PANDO_TEST_SEED={seed}: {text}"),
        };
        let (found, expected) = (&planted.found, &planted.expected);
        assert!(found.contains(expected), "PANDO_TEST_SEED={seed}: {found}, expected: {expected}");
        assert!(planted.rounds <= 1, "PANDO_TEST_SEED={seed}: after {} rounds", planted.rounds);
        *(if planted.is_first_slice { &mut in_the_first } else { &mut in_others }) += 1;
    }
    println!("{in_the_first} were in the first slice, {in_others} in others");
    assert!(in_the_first + in_others < 100 || (in_the_first > 0 && in_others > 0));
}

/// Number of seeds in which a defect must be found. It is far below the number of seeds that are run without a defect.
const DEFECT_SEEDS: u64 = 100;

fn expect_violation(defect: Defect) {
    let found = (1..=DEFECT_SEEDS).find_map(|seed| Some((seed, run(seed, Some(defect)).err()?)));
    let (seed, Violation(text)) = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
    println!("{defect:?}, seed {seed}: {text}");
}

#[test]
fn finds_answers_before_acceptance() {
    expect_violation(Defect::AnswerBeforeAccept);
}

#[test]
fn finds_a_missing_check_of_epochs() {
    expect_violation(Defect::NoEpochCheck);
}

#[test]
fn finds_that_a_missing_group_is_accepted() {
    expect_violation(Defect::MissingGroupAccepted);
}

#[test]
fn finds_retries_without_their_id() {
    expect_violation(Defect::RetryWithoutId);
}

#[test]
fn finds_a_snapshot_without_operation_ids() {
    expect_violation(Defect::WindowLostInSnapshot);
}

#[test]
fn finds_that_any_copy_is_decided() {
    expect_violation(Defect::AnyCopyDecided);
}

#[test]
fn finds_stale_reads() {
    expect_violation(Defect::StaleRead);
}

#[test]
fn finds_rows_that_are_committed_late() {
    expect_violation(Defect::RowsCommittedLate);
}

#[test]
fn finds_that_a_slice_is_ignored() {
    expect_violation(Defect::SliceIgnored);
}

#[test]
fn finds_that_a_round_is_forgotten() {
    expect_violation(Defect::RoundForgotten);
}

#[test]
fn finds_that_an_old_key_is_accepted() {
    expect_violation(Defect::OldKeyAccepted);
}

#[test]
fn finds_that_a_rotation_without_its_key_is_ignored() {
    expect_violation(Defect::RotationIgnored);
}
