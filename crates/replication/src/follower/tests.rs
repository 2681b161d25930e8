use super::*;
use crate::key::ClusterKey;
use crate::limits::{IDS_PER_NODE, LEVEL_MAX, NODES_MAX, SLICES_LEVEL, TRANSACTIONS_LEVEL};
use crate::message::{GroupHead, put_record};
use crate::round::PlannedSlice;
use std::collections::BTreeMap;

const TOPIC: [u8; 16] = [1; 16];
const GENERATION: GenerationId = [2; 16];

/// A log and a follower of it.
struct Fixture {
    follower: Follower,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    log: Vec<Vec<u8>>,
}

impl Fixture {
    /// Returns a topic with its first generation, which begins at position 100.
    fn new() -> Fixture {
        let generation = Generation { follows: [0; 16], position: 100 };
        let (message, tag) = message::encode_generation(&keys(), 1, &GENERATION, &generation);
        let (follower, rows) = Follower::seed((keys(), 1), TOPIC, GENERATION, &generation, 0, tag);
        let mut fixture = Fixture { follower, rows: BTreeMap::new(), log: vec![message] };
        fixture.store(rows);
        fixture
    }

    /// Returns a topic in epoch 1, with node 1 as the writer.
    fn with_writer() -> Fixture {
        let mut fixture = Fixture::new();
        let claim = fixture.follower.claim_of(NodeId(1), 1, 1);
        assert_eq!(fixture.push(claim), "epoch 1");
        fixture
    }

    fn store(&mut self, rows: Vec<RowChange>) {
        for RowChange { key, value } in rows {
            match value {
                Some(value) => drop(self.rows.insert(key, value)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }

    /// Appends a message and returns a short form of its verdict.
    fn push(&mut self, message: Vec<u8>) -> String {
        let offset = self.log.len() as u64;
        self.log.push(message.clone());
        match self.follower.step(offset, &message) {
            Verdict::Apply(accepted) => {
                let text = format!("apply {}..{}", accepted.first_position, self.follower.position());
                self.store(accepted.rows);
                text
            }
            Verdict::NewEpoch(new) => {
                self.store(new.rows);
                format!("epoch {}", new.epoch.offset)
            }
            Verdict::Member(update) => {
                self.store(update.rows);
                format!("{}: {:?}", update.node, update.announcement)
            }
            Verdict::Key(update) => {
                self.store(update.rows);
                format!("{:?}", update.what)
            }
            Verdict::Mark(mark) if !mark.rows.is_empty() => {
                let [from, to] =
                    [&mark.slice.from, &mark.slice.to].map(|point| String::from_utf8_lossy(point));
                let text = format!("mark {from:?}..{to:?}");
                self.store(mark.rows);
                text
            }
            other => format!("{other:?}"),
        }
    }

    /// Returns the group that a correct writer would append now, modified by `change`.
    fn group(&self, sequences: &[u64], change: impl FnOnce(&mut GroupHead)) -> Vec<u8> {
        let Cursor { key, generation, epoch, number, position, previous, .. } = *self.follower.cursor();
        let mut records = Vec::new();
        sequences.iter().for_each(|sequence| put_record(&mut records, &operation(*sequence), b"record"));
        let mut head = GroupHead {
            key,
            generation,
            epoch: epoch.map_or(0, |epoch| epoch.offset),
            number: number + 1,
            first_position: position + 1,
            previous,
            count: sequences.len() as u32,
        };
        change(&mut head);
        message::encode_group(&keys(), &head, None, &records).unwrap().0
    }

    fn reload(&self) -> Follower {
        Follower::load(keys(), &self.rows).unwrap()
    }
}

fn keys() -> KeyRing {
    KeyRing::new(1, ClusterKey::new(&[5; 32])).with(2, ClusterKey::new(&[6; 32]))
}

fn operation(sequence: u64) -> OperationId {
    OperationId { node: NodeId(1), incarnation: 1, sequence }
}

#[test]
fn groups_of_the_epoch_are_accepted_in_order() {
    let mut fixture = Fixture::with_writer();
    for (sequences, verdict) in [(vec![1], "apply 101..101"), (vec![2, 3], "apply 102..103")] {
        let group = fixture.group(&sequences, |_| ());
        assert_eq!(fixture.push(group), verdict);
    }
    assert_eq!(fixture.follower.operation(&operation(3)), OperationStatus::Applied { position: 103 });
    assert_eq!(fixture.follower.operation(&operation(4)), OperationStatus::New);
    assert_eq!(fixture.follower.step(2, &fixture.log[2]), Verdict::Seen);
    assert_eq!(fixture.follower.step(9, &fixture.log[2]), Verdict::Missing { expected: 4 });
}

#[test]
fn ignores_or_rejects_a_group_that_is_not_the_next_of_its_epoch() {
    fn check(change: impl FnOnce(&mut GroupHead), verdict: &str) {
        let mut fixture = Fixture::with_writer();
        let group = fixture.group(&[1], |_| ());
        fixture.push(group);
        let claim = fixture.follower.claim_of(NodeId(2), 1, 1);
        assert_eq!(fixture.push(claim), "epoch 3");
        let first = fixture.group(&[2], |_| ());
        assert_eq!(fixture.push(first), "apply 102..102");
        let (cursor, rows) = (*fixture.follower.cursor(), fixture.rows.clone());
        let group = fixture.group(&[3], change);
        assert_eq!(fixture.push(group), verdict);
        assert_eq!((cursor, rows), (*fixture.follower.cursor(), fixture.rows));
    }
    check(|head| head.epoch = 1, "Ignored(OlderEpoch)");
    check(|head| head.number = 1, "Ignored(Repeated)");
    check(|head| head.number = 3, "Alarm(Gap { number: 3, expected: 2 })");
    check(|head| head.epoch = 4, "Alarm(UnknownEpoch(4))");
    check(|head| head.first_position = 104, "Alarm(OtherHistory { position: 102 })");
    check(|head| head.previous.0[0] ^= 1, "Alarm(OtherHistory { position: 102 })");
    check(|head| head.generation = [3; 16], "Ignored(OtherGeneration)");
    check(|head| head.key = 2, "Alarm(OtherKey(2))");
    check(|head| (head.key, head.epoch) = (2, 1), "Ignored(OlderEpoch)");
    check(|head| head.key = 3, "Alarm(NotAuthentic)");
    check(|head| head.count = 2, "Alarm(Malformed)");
}

#[test]
fn a_stopped_follower_restarts_after_its_last_accepted_message() {
    let mut fixture = Fixture::with_writer();
    let group = fixture.group(&[1], |head| head.number = 2);
    assert_eq!(fixture.push(group), "Alarm(Gap { number: 2, expected: 1 })");
    let right = fixture.group(&[1], |_| ());
    let before = fixture.follower.cursor().offset;
    assert_eq!(fixture.push(right), "Alarm(Gap { number: 2, expected: 1 })");
    assert!(fixture.follower.stopped().is_some());
    let again = fixture.reload();
    assert_eq!((again.stopped(), again.next_offset()), (None, before + 1));
}

#[test]
fn an_operation_is_applied_once() {
    let mut fixture = Fixture::with_writer();
    let twice = fixture.group(&[1, 1], |_| ());
    assert_eq!(fixture.push(twice), "Alarm(RepeatedOperation)");
    let group = fixture.group(&[1, 2], |_| ());
    assert_eq!(fixture.push(group), "apply 101..102");
    let again = fixture.group(&[3, 2], |_| ());
    assert_eq!(fixture.push(again), "Alarm(RepeatedOperation)");
    let group = fixture.group(&[3], |_| ());
    assert_eq!(fixture.push(group), "apply 103..103");
}

/// All records of a transaction belong to one operation. The position of the operation is the position of its last
/// record. Nodes do not accept a group with several records of one operation until all nodes support transactions.
#[test]
fn records_of_a_transaction_follow_each_other() {
    let (mut fixture, ..) = with_two_nodes();
    let early = fixture.group(&[1, 1], |_| ());
    assert_eq!(fixture.push(early), "Alarm(RepeatedOperation)");
    for node in [1, 2] {
        let message = fixture.follower.announcement_of(NodeId(node), Announcement::Level(TRANSACTIONS_LEVEL));
        fixture.push(message);
    }
    let before = fixture.follower.position();
    let apart = fixture.group(&[1, 2, 1], |_| ());
    assert_eq!(fixture.push(apart), "Alarm(RepeatedOperation)");
    let group = fixture.group(&[1, 2, 2, 2, 3], |_| ());
    assert_eq!(fixture.push(group), format!("apply {}..{}", before + 1, before + 5));
    let again = fixture.group(&[2], |_| ());
    assert_eq!(fixture.push(again), "Alarm(RepeatedOperation)");
    for follower in [&fixture.follower, &fixture.reload()] {
        let position = |sequence| follower.operation(&operation(sequence));
        let known = [1, 2, 3].map(position);
        assert_eq!(known, [1, 4, 5].map(|place| OperationStatus::Applied { position: before + place }));
    }
}

#[test]
fn ids_below_the_window_are_too_old() {
    let mut fixture = Fixture::with_writer();
    // The operations are not in the order of their ids, and number 3 is missing.
    let last = IDS_PER_NODE as u64 + 4;
    for sequence in [2, 1, 4].into_iter().chain(5..=last) {
        let group = fixture.group(&[sequence], |_| ());
        assert!(fixture.push(group).starts_with("apply"));
    }
    for follower in [&fixture.follower, &fixture.reload()] {
        let known = |sequence| follower.operation(&operation(sequence));
        assert_eq!([known(1), known(2), known(3), known(4)], [OperationStatus::TooOld; 4]);
        assert_eq!(
            (known(5), known(last + 1)),
            (OperationStatus::Applied { position: 104 }, OperationStatus::New)
        );
        let of_next_start = OperationId { incarnation: 2, ..operation(1) };
        assert_eq!(follower.operation(&of_next_start), OperationStatus::New);
    }
    let old = fixture.group(&[3], |_| ());
    assert_eq!(fixture.push(old), "Alarm(RepeatedOperation)");
    assert!(fixture.rows.len() <= IDS_PER_NODE + 2);
}

#[test]
fn ignores_claims_older_than_the_last_of_the_node() {
    let mut fixture = Fixture::with_writer();
    let late = fixture.follower.claim_of(NodeId(1), 1, 2);
    let newer = fixture.follower.claim_of(NodeId(1), 1, 3);
    assert_eq!(fixture.push(newer.clone()), "epoch 2");
    assert_eq!(fixture.push(late), "Ignored(OlderClaim)");
    assert_eq!(fixture.push(newer), "Ignored(OlderClaim)");
    let started_again = fixture.follower.claim_of(NodeId(1), 2, 1);
    assert_eq!(fixture.push(started_again), "epoch 5");
}

#[test]
fn a_claim_with_another_history_stops_the_node() {
    fn check(claim: impl FnOnce(u64, Tag) -> (u64, Tag), verdict: &str) {
        let mut fixture = Fixture::with_writer();
        let group = fixture.group(&[1], |_| ());
        fixture.push(group);
        let (position, previous) = claim(101, fixture.follower.cursor().previous);
        let claim = Claim { node: NodeId(2), incarnation: 1, attempt: 1, position, previous };
        assert_eq!(fixture.push(message::encode_claim(&keys(), 1, &GENERATION, &claim)), verdict);
    }
    check(|position, tag| (position, tag), "epoch 3");
    check(|_, _| (100, Tag([0; 32])), "epoch 3");
    check(|position, _| (position, Tag([0; 32])), "Alarm(OtherHistory { position: 101 })");
    check(|position, tag| (position + 1, tag), "Alarm(OtherHistory { position: 101 })");
}

#[test]
fn the_number_of_nodes_is_limited() {
    let mut fixture = Fixture::new();
    for node in 1..=NODES_MAX as u32 {
        let claim = fixture.follower.claim_of(NodeId(node), 1, 1);
        assert!(fixture.push(claim).starts_with("epoch"));
    }
    let claim = fixture.follower.claim_of(NodeId(1_000), 1, 1);
    assert_eq!(fixture.push(claim), "Alarm(TooManyNodes)");
    let mut records = Vec::new();
    put_record(&mut records, &OperationId { node: NodeId(1_000), ..operation(1) }, b"");
    let epoch = fixture.follower.epoch().unwrap().offset;
    let (group, _) = fixture.follower.group_of(epoch, 1, None, &records).unwrap();
    assert_eq!(fixture.push(group), "Alarm(TooManyNodes)");
}

#[test]
fn a_new_generation_ends_its_predecessor() {
    let mut fixture = Fixture::with_writer();
    let after = |follows| {
        let generation = Generation { follows, position: 500 };
        message::encode_generation(&keys(), 1, &[9; 16], &generation).0
    };
    assert_eq!(fixture.push(after([8; 16])), "Ignored(OtherGeneration)");
    assert_eq!(fixture.push(after(GENERATION)), format!("NewGeneration({:?})", [9; 16]));
    assert_eq!(fixture.follower.next_offset(), 3);
}

#[test]
fn a_restart_continues_only_on_the_same_log() {
    let mut fixture = Fixture::with_writer();
    let group = fixture.group(&[1], |_| ());
    fixture.push(group);
    let follower = fixture.reload();
    assert_eq!(follower.cursor(), fixture.follower.cursor());
    let [claim, group] = [&fixture.log[1], &fixture.log[2]];
    assert_eq!(follower.check_start(TOPIC, 0, 3, Some(group)), Ok(()));
    assert_eq!(follower.check_start(TOPIC, 2, 3, Some(group)), Ok(()));
    assert_eq!(follower.check_start([0; 16], 0, 3, Some(group)), Err(Reseed::OtherTopic));
    assert_eq!(follower.check_start(TOPIC, 3, 3, None), Err(Reseed::Deleted { offset: 2, start: 3 }));
    assert_eq!(follower.check_start(TOPIC, 0, 2, None), Err(Reseed::Shorter { offset: 2, end: 2 }));
    assert_eq!(follower.check_start(TOPIC, 0, 3, Some(claim)), Err(Reseed::OtherMessage { offset: 2 }));
    assert_eq!(follower.check_start(TOPIC, 0, 3, None), Err(Reseed::OtherMessage { offset: 2 }));

    let without = KeyRing::new(7, ClusterKey::new(&[5; 32]));
    assert_eq!(Follower::load(without, &fixture.rows).err(), Some(StateError::NoKey(1)));
    assert_eq!(Follower::load(keys(), [([0u8; 0], [0u8; 0])]).err(), Some(StateError::Damaged(Vec::new())));
    assert_eq!(Follower::load(keys(), [([0u8; 0], [0u8; 0]); 0]).err(), Some(StateError::NoCursor));
}

#[test]
fn a_node_that_left_cannot_write_or_return() {
    let mut fixture = Fixture::with_writer();
    let announcement =
        |fixture: &Fixture, node, announcement| fixture.follower.announcement_of(NodeId(node), announcement);
    for (node, what) in [(1, Announcement::Durable(1)), (2, Announcement::Durable(1))] {
        let message = announcement(&fixture, node, what);
        assert_eq!(fixture.push(message), format!("node {node}: Durable(1)"));
    }
    let group = fixture.group(&[1], |_| ());
    assert_eq!(fixture.push(group), "apply 101..101", "announcements of nodes do not end an epoch");

    // The writer leaves. Groups that it appended before leaving are accepted; later groups are not.
    let late = fixture.group(&[2], |_| ());
    let leaving = announcement(&fixture, 1, Announcement::Left);
    assert_eq!(fixture.push(leaving.clone()), "node 1: Left");
    let claim = fixture.follower.claim_of(NodeId(1), 9, 9);
    let back = announcement(&fixture, 1, Announcement::Durable(3));
    for message in [late, claim, back, leaving] {
        assert_eq!(fixture.push(message), "Ignored(FormerMember)");
    }
    let claim = fixture.follower.claim_of(NodeId(2), 1, 1);
    assert_eq!(fixture.push(claim), "epoch 10");
    let group = fixture.group(&[2], |_| ());
    assert_eq!(fixture.push(group), "apply 102..102");

    // A follower that is loaded from the rows has the same members.
    let again = fixture.reload();
    assert!(again.has_left(NodeId(1)) && !again.has_left(NodeId(2)));
    assert_eq!(again.members().collect::<Vec<_>>(), fixture.follower.members().collect::<Vec<_>>());
}

#[test]
fn a_level_takes_effect_once_all_nodes_support_it() {
    let mut fixture = Fixture::with_writer();
    let announcement =
        |fixture: &Fixture, node, announcement| fixture.follower.announcement_of(NodeId(node), announcement);
    assert_eq!(fixture.follower.level(), 1);
    let steps = [
        // Node 2 has announced no level yet, so its level is 1.
        ((1, Announcement::Durable(1)), 1),
        ((2, Announcement::Durable(1)), 1),
        ((1, Announcement::Level(LEVEL_MAX)), 1),
        ((2, Announcement::Level(2)), 2),
        // Neither an older build nor a new node lowers the level in force.
        ((2, Announcement::Level(1)), 2),
        ((3, Announcement::Durable(1)), 2),
        // Nodes that have left do not affect the level.
        ((3, Announcement::Left), 2),
        ((2, Announcement::Left), LEVEL_MAX),
    ];
    for ((node, what), level) in steps {
        let message = announcement(&fixture, node, what);
        fixture.push(message);
        assert_eq!((fixture.follower.level(), fixture.reload().level()), (level, level), "{node} {what:?}");
    }
    let newer = LEVEL_MAX + 1;
    let message = announcement(&fixture, 1, Announcement::Level(newer));
    assert_eq!(fixture.push(message), format!("Alarm(NewerLevel({newer}))"));
    assert!(fixture.follower.stopped().is_some_and(Alarm::stops));

    let rows = [(b"l".to_vec(), newer.to_be_bytes().to_vec())];
    assert_eq!(Follower::load(keys(), rows).err(), Some(StateError::NewerLevel(newer)), "of a snapshot");
}

#[test]
fn marks_and_digests_do_not_change_the_state() {
    let mut fixture = Fixture::with_writer();
    let before = *fixture.follower.cursor();
    let mark = mark_of(&fixture, 1, (b"", b"m"));
    let expected = Mark { offset: before.offset + 1, slice: Slice::default(), rows: Vec::new() };
    assert_eq!(fixture.push(mark), format!("Mark({expected:?})"), "all nodes do not know slices yet");
    let parts = crate::digest::Parts::from([("a".to_owned(), Default::default())]);
    let digests = fixture.follower.digests_of(NodeId(1), 2, &parts);
    assert!(fixture.push(digests).starts_with("Digests { node: NodeId(1), mark: 2"));
    assert_eq!(*fixture.follower.cursor(), before);
    let group = fixture.group(&[1], |_| ());
    assert_eq!(fixture.push(group), "apply 101..101");
    let leaving = fixture.follower.announcement_of(NodeId(1), Announcement::Left);
    fixture.push(leaving);
    let mark = mark_of(&fixture, 1, (b"", b"m"));
    assert_eq!(fixture.push(mark), "Ignored(FormerMember)");
}

fn mark_of(fixture: &Fixture, node: u32, slice: (&[u8], &[u8])) -> Vec<u8> {
    let slice = Slice { from: slice.0.to_vec(), to: slice.1.to_vec() };
    fixture
        .follower
        .mark_of(NodeId(node), PlannedSlice { slice, bytes: 5 }, 77)
        .expect("it is the next slice")
}

/// Every slice of a round is compared once. This holds although two nodes set barriers for the same slice, a barrier is
/// in the log twice, and a node restarts from its rows in the middle of the round.
#[test]
fn the_log_alone_determines_the_slices_of_a_round() {
    let (mut fixture, ..) = with_two_nodes();
    assert!(!fixture.follower.compares_slices());
    for node in [1, 2] {
        let message = fixture.follower.announcement_of(NodeId(node), Announcement::Level(SLICES_LEVEL));
        fixture.push(message);
    }
    let first = mark_of(&fixture, 1, (b"", b"k"));
    let rival = mark_of(&fixture, 2, (b"", b"m"));
    assert_eq!(fixture.push(first.clone()), "mark \"\"..\"k\"");
    for late in [first, rival] {
        assert_eq!(fixture.push(late), "Ignored(ComparedAlready)");
    }
    fixture.follower = fixture.reload();
    fixture.follower.next_offset = fixture.log.len() as u64;
    assert_eq!(fixture.follower.round().next, b"k");
    let last = mark_of(&fixture, 2, (b"k", b""));
    assert_eq!(fixture.push(last), "mark \"k\"..\"\"");
    let before = fixture.follower.round().clone();
    let slice = Slice { from: b"a".to_vec(), to: b"b".to_vec() };
    let again = fixture.follower.mark_again_of(NodeId(1), slice.clone(), 99);
    for _ in 0..2 {
        let expected = Mark { offset: fixture.log.len() as u64, slice: slice.clone(), rows: Vec::new() };
        assert_eq!(fixture.push(again.clone()), format!("Mark({expected:?})"), "besides the round");
    }
    assert_eq!(*fixture.follower.round(), before);
    let round = fixture.reload().round().clone();
    assert_eq!((round.ended, round.ended_at, round.ended_bytes), (1, 77, 10));
    let leaving = fixture.follower.announcement_of(NodeId(2), Announcement::Left);
    fixture.push(leaving);
    let by_a_former_member = mark_of(&fixture, 2, (b"", b""));
    assert_eq!(fixture.push(by_a_former_member), "Ignored(FormerMember)");
}

#[test]
fn announcements_determine_the_deletable_part_of_the_log() {
    let mut fixture = Fixture::with_writer();
    let mut announce = |node, announcement| {
        let message = fixture.follower.announcement_of(NodeId(node), announcement);
        fixture.push(message);
        fixture.follower.deletable_before()
    };
    assert_eq!(announce(1, Announcement::Durable(40)), Err(RetentionReason::TooFewSnapshots { machines: 0 }));
    assert_eq!(
        announce(1, Announcement::Snapshot(30)),
        Err(RetentionReason::TooFewSnapshots { machines: 1 })
    );
    assert_eq!(announce(2, Announcement::Snapshot(35)), Err(RetentionReason::Unheard(NodeId(2))));
    assert_eq!(announce(2, Announcement::Durable(20)), Ok(20));
    assert_eq!(announce(2, Announcement::Durable(39)), Ok(30));
    // A late announcement does not lower the offset before which the log may be deleted.
    assert_eq!(announce(2, Announcement::Durable(1)), Ok(30));
    // No messages are retained for a node that has left, and its snapshots do not count.
    assert_eq!(announce(3, Announcement::Durable(5)), Ok(5));
    assert_eq!(announce(3, Announcement::Left), Ok(30));
    assert_eq!(announce(1, Announcement::Left), Err(RetentionReason::TooFewSnapshots { machines: 1 }));
    assert_eq!(fixture.reload().deletable_before(), Err(RetentionReason::TooFewSnapshots { machines: 1 }));
}

/// Returns a follower whose nodes 1 and 2 support key rotation, with node 1 as the writer, and a new key with its
/// number.
fn with_two_nodes() -> (Fixture, ClusterKey, u32) {
    let mut fixture = Fixture::with_writer();
    for (node, announcement) in [1, 2]
        .map(|node| (node, Announcement::Durable(1)))
        .into_iter()
        .chain([1, 2].map(|node| (node, Announcement::Level(2))))
    {
        let message = fixture.follower.announcement_of(NodeId(node), announcement);
        fixture.push(message);
    }
    let key = ClusterKey::new(&[7; 32]);
    let number = key.fingerprint().number();
    (fixture, key, number)
}

fn offer(fixture: &Fixture, key: &ClusterKey) -> Vec<u8> {
    fixture.follower.offer_of(NodeId(1), key.fingerprint(), "host:1")
}

fn holder(fixture: &Fixture, node: u32, number: u32) -> Vec<u8> {
    let Cursor { key, generation, .. } = *fixture.follower.cursor();
    let holder = message::KeyHolder { node: NodeId(node), number, address: "host:2" };
    holder.encode(&keys(), key, &generation)
}

#[test]
fn a_key_that_most_nodes_have_replaces_the_previous_one() {
    let (mut fixture, key, number) = with_two_nodes();
    let rotation = |epoch| message::KeyRotation { epoch, number }.encode(&keys(), 1, &GENERATION);
    assert_eq!(fixture.push(rotation(1)), "Ignored(NotOffered)");
    let too_early = holder(&fixture, 2, number);
    assert_eq!(fixture.push(too_early), "Ignored(NotOffered)");
    let offered = offer(&fixture, &key);
    assert_eq!(fixture.push(offered), "Offered(NodeId(1))");
    assert!(fixture.follower.lacks_offered() && fixture.follower.holder_of(NodeId(1), "").is_none());
    let has = |node| format!("Stored(NodeId({node}))");
    let message = holder(&fixture, 1, number);
    assert_eq!(fixture.push(message), has(1));
    assert_eq!(fixture.push(rotation(1)), "Ignored(NotOffered)", "one of two has it");
    assert_eq!(fixture.push(rotation(0)), "Ignored(OlderEpoch)");
    for (node, verdict) in [(7, "Ignored(NotOffered)".to_owned()), (2, has(2))] {
        let message = holder(&fixture, node, number);
        assert_eq!(fixture.push(message), verdict);
    }
    let mut again = fixture.reload();
    assert_eq!(again.key_holders().collect::<Vec<_>>().len(), 2, "the holders are part of the state");
    again.set_keys(keys().with(number, key.clone()));
    assert!(again.holder_of(NodeId(1), "host:2").is_none(), "the node has already announced it");
    assert!(again.holder_of(NodeId(1), "host:3").is_some(), "the address of the node has changed");

    // A node without the key stops reading, whatever messages follow, until it has the key.
    let before = fixture.reload();
    let late = fixture.group(&[1], |_| ());
    assert_eq!(fixture.push(rotation(1)), format!("NeedsKey({number})"));
    let mut restarted = before;
    let offset = fixture.log.len() as u64 - 1;
    for follower in [&mut fixture.follower, &mut restarted] {
        assert_eq!(follower.next_offset(), offset);
        follower.set_keys(keys().with(number, key.clone()));
        let message = rotation(1);
        let verdict = follower.step(offset, &message);
        assert!(
            matches!(verdict, Verdict::Key(KeyUpdate { what: Rotated::InForce(at), .. }) if at == number)
        );
        assert_eq!((follower.cursor().key, follower.offered()), (number, None));
    }

    // A group under the old key raises an alarm. A claim or a rotation that was sent before the rotation is ignored.
    assert_eq!(fixture.push(late), "Alarm(OtherKey(1))");
    assert_eq!(fixture.push(rotation(1)), "Ignored(OtherKey)");
    let claim =
        message::Claim { node: NodeId(2), incarnation: 1, attempt: 1, position: 0, previous: Tag([0; 32]) };
    assert_eq!(fixture.push(message::encode_claim(&keys(), 1, &GENERATION, &claim)), "Ignored(OtherKey)");
    let ends = Generation { follows: GENERATION, position: 500 };
    assert_eq!(fixture.push(message::encode_generation(&keys(), 1, &[9; 16], &ends).0), "Alarm(OtherKey(1))");
    let (group, _) = fixture.follower.group_of(1, 1, None, &record_bytes()).unwrap();
    assert_eq!(fixture.push(group), "apply 101..101");
}

fn record_bytes() -> Vec<u8> {
    let mut records = Vec::new();
    put_record(&mut records, &operation(1), b"record");
    records
}

#[test]
fn a_leaving_node_ends_a_key_offer_and_makes_a_new_key_due() {
    let (mut fixture, key, number) = with_two_nodes();
    let offered = offer(&fixture, &key);
    fixture.push(offered);
    for node in [1, 2] {
        let message = holder(&fixture, node, number);
        fixture.push(message);
    }
    assert!(fixture.follower.all_have_key() && !fixture.follower.key_is_due());
    let leaving = fixture.follower.announcement_of(NodeId(2), Announcement::Left);
    fixture.push(leaving);
    let again = fixture.reload();
    assert!(again.key_is_due() && again.offered().is_none() && again.key_holders().next().is_none());
    let rotation = message::KeyRotation { epoch: 1, number }.encode(&keys(), 1, &GENERATION);
    assert_eq!(fixture.push(rotation), "Ignored(NotOffered)");
    let by_a_former_member = holder(&fixture, 2, number);
    assert_eq!(fixture.push(by_a_former_member), "Ignored(FormerMember)");
}

#[test]
fn ignores_messages_of_a_level_before_it_is_in_force() {
    let mut fixture = Fixture::with_writer();
    let offered = offer(&fixture, &ClusterKey::new(&[7; 32]));
    assert_eq!(fixture.push(offered), "Alarm(Malformed)");
    let seal = message::Proposal { node: NodeId(1), incarnation: 1, number: 1 };
    let sealed = |fixture: &Fixture| fixture.follower.group_of(1, 1, Some(seal), &record_bytes()).unwrap().0;
    // At the present level, a correct writer does not seal groups.
    assert_eq!(Message::level(&sealed(&fixture)), 1);
    let (mut fixture, ..) = with_two_nodes();
    let group = sealed(&fixture);
    assert_eq!(Message::level(&group), 2);
    assert_eq!(fixture.push(group), "apply 101..101");
}
