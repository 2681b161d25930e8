//! Properties that hold for any bytes. The fuzz target and `corpus_replay.rs` (on stable Rust) check them.

use replication::comparison::{Notice, Report};
use replication::forward::{decode_answers, decode_requests, encode_answers, encode_requests};
use replication::message::{Body, Generation, Message, encode_generation};
use replication::{ClusterKey, Follower, KeyRing, Verdict};

/// Reads arbitrary bytes as a message with a wrong tag and with a correct tag, as a frame, and as rows. Nothing
/// panics, decoded values encode to the same bytes, and a follower continues.
pub(crate) fn cluster(bytes: &[u8]) {
    frames(bytes);
    comparisons(bytes);
    rows(bytes);
    let keys = KeyRing::new(1, ClusterKey::new(&[1; 32]));
    assert!(Message::decode(bytes, &keys, 1).is_err(), "a tag without the key");
    let mut sealed = bytes.to_vec();
    keys.seal(1, &mut sealed);
    if let Ok(message) = Message::decode(&sealed, &keys, 1)
        && let Body::Group(group) = message.body
    {
        assert_eq!(group.records.iter().count(), group.records.count() as usize);
        let size: usize = group.records.iter().map(|record| 24 + record.bytes.len()).sum();
        assert!(size < sealed.len());
    }
    let generation = Generation { follows: [0; 16], position: 7 };
    let (_, tag) = encode_generation(&keys, 1, &[0; 16], &generation);
    let (mut follower, _) = Follower::seed((keys, 1), [0; 16], [0; 16], &generation, 0, tag);
    let before = *follower.cursor();
    match follower.step(1, &sealed) {
        Verdict::NewEpoch(new) => assert_eq!((new.epoch.offset, follower.cursor().position), (1, 7)),
        Verdict::Apply(_) => panic!("a group without an epoch"),
        Verdict::Member(_) => assert_eq!((follower.cursor().offset, follower.cursor().position), (1, 7)),
        _ => assert_eq!(*follower.cursor(), before),
    }
}

fn frames(bytes: &[u8]) {
    if let Some(requests) = decode_requests(bytes) {
        assert!(encode_requests(&requests) == bytes);
    }
    if let Some(answers) = decode_answers(bytes) {
        assert!(encode_answers(&answers) == bytes);
    }
}

fn comparisons(bytes: &[u8]) {
    if let Some(report) = Report::decode(bytes) {
        assert_eq!(Report::decode(&report.encode()), Some(report));
    }
    if let Some(notice) = Notice::decode(bytes) {
        assert_eq!(Notice::decode(&notice.encode()), Some(notice));
    }
}

/// Splits the bytes into rows: the first byte of each row is the length of its key.
fn rows(bytes: &[u8]) {
    let keys = KeyRing::new(1, ClusterKey::new(&[1; 32]));
    if let Some((length, rest)) = bytes.split_first()
        && let Some((key, value)) = rest.split_at_checked(usize::from(*length))
        && let Ok(follower) = Follower::load(keys, [(key, value)])
    {
        assert_eq!(follower.next_offset(), follower.cursor().offset.saturating_add(1));
    }
}
