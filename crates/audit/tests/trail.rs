//! Tests of trails: writing, torn bytes, changed bytes and verification.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use audit::{
    Anchored, AuditError, Damage, EventWriter, Events, Field, Item, Kind, NodeKey, Opening, Options, Report,
    Trail, TrailPlace, Traversal, verify,
};

const SECOND: u64 = 1_000_000;

/// Folder of a test, which is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pando-audit-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn trail(&self) -> PathBuf {
        self.0.join("trail")
    }

    fn options(&self) -> Options {
        Options {
            folder: self.trail(),
            key: NodeKey::load_or_create(&self.0.join("audit.key")).unwrap(),
            segment_bytes: 1 << 20,
            segment_micros: 86_400 * SECOND,
            keep_bytes: 0,
            keep_micros: 0,
        }
    }

    fn open(&self, now: u64) -> (Trail, Opening) {
        Trail::open(self.options(), 5, now).unwrap()
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.trail().join(format!("audit-{number:016}"))
    }

    fn verify(&self) -> Report {
        verify(&self.trail(), None, &[]).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn event(text: &str) -> Vec<u8> {
    let (mut fields, mut events) = (Vec::new(), Vec::new());
    EventWriter::new(&mut fields).kind(Kind::Search).text(Field::Target, text);
    EventWriter::finish(&mut events, &[&fields]);
    events
}

/// Writes a trail of three segments, two of them complete. The trail has about 12 blocks with a few events each.
/// Returns the places of the blocks; the flag is true for an anchor.
fn sample(folder: &Folder) -> Vec<(TrailPlace, bool)> {
    for start in 0..3 {
        let (mut trail, _) = folder.open(start * 100 * SECOND);
        for number in 0..3 {
            trail.write(&event(&format!("cn=a{start}{number}")), 1, 10 * start + number, SECOND).unwrap();
        }
        trail.close((start * 100 + 1) * SECOND).unwrap();
    }
    blocks(&folder.trail())
}

fn blocks(folder: &Path) -> Vec<(TrailPlace, bool)> {
    let items = Traversal::begin(folder).unwrap().map(Result::unwrap);
    items
        .filter_map(
            |item| if let Item::Block(block) = item { Some((block.place, block.is_anchor)) } else { None },
        )
        .collect()
}

fn targets(folder: &Path) -> Vec<String> {
    let mut targets = Vec::new();
    for item in Traversal::begin(folder).unwrap() {
        if let Item::Block(block) = item.unwrap() {
            let events = Events::of(&block.events).map(Result::unwrap);
            targets.extend(events.filter_map(|event| Some(event.text(Field::Target)?.into_owned())));
        }
    }
    targets
}

#[test]
fn a_trail_continues_after_a_stop() {
    let folder = Folder::new();
    let places = sample(&folder);
    let report = folder.verify();
    assert_eq!(report.damage, []);
    assert_eq!(report.segments, Some((1, 3)));
    assert_eq!((report.blocks, report.anchors), (places.len() as u64, 6));
    assert_eq!((report.position, report.unanchored), (22, 0));
    let (_, opening) = folder.open(400 * SECOND);
    assert_eq!(opening, Opening { position: Some(22), torn: None });
    let (_, opening) = Folder::new().open(SECOND);
    assert_eq!(opening, Opening { position: None, torn: None });
    let expected = ["cn=a00", "cn=a01", "cn=a02", "cn=a10", "cn=a11", "cn=a12", "cn=a20", "cn=a21", "cn=a22"];
    assert_eq!(targets(&folder.trail()), expected);
}

/// Changes single bytes of each kind: header, heads, links, payloads, hashes, signatures. Each change must be reported
/// with its segment and a range that contains the byte. The test changes every byte of one header and of the blocks
/// after it, and a sample of all other bytes.
#[test]
fn reports_the_place_of_a_changed_byte() {
    let folder = Folder::new();
    let places = sample(&folder);
    for segment in 1..=3 {
        let path = folder.segment(segment);
        let whole = fs::read(&path).unwrap();
        let chosen = |&offset: &usize| (segment == 2 && offset < 420) || offset % 11 == 0;
        for offset in (0..whole.len()).filter(chosen) {
            let mut changed = whole.clone();
            changed[offset] ^= 1 << (offset % 8);
            fs::write(&path, &changed).unwrap();
            let report = folder.verify();
            let contains = |place: &TrailPlace| {
                let offset = offset as u64;
                place.segment == segment && (place.offset..place.offset + place.length).contains(&offset)
            };
            // In the head of the last block, a change looks like a cut, because no later block exists.
            let is_last = places.last().is_some_and(|(place, _)| contains(place));
            let is_reported = report.damage.iter().any(|(place, _)| contains(place))
                || (is_last && report.torn.iter().any(contains));
            assert!(is_reported, "segment {segment}, offset {offset}: {:?} {:?}", report.damage, report.torn);
            assert!(!report.damage.is_empty(), "segment {segment}, offset {offset}");
            assert!(report.damage.len() <= 2, "one change is reported as {:?}", report.damage);
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(folder.verify().damage, []);
}

#[test]
fn reports_removed_and_reordered_blocks() {
    let folder = Folder::new();
    let places = sample(&folder);
    let path = folder.segment(2);
    let whole = fs::read(&path).unwrap();
    let blocks: Vec<&[u8]> = places
        .iter()
        .filter(|(place, _)| place.segment == 2)
        .map(|(place, _)| &whole[place.offset as usize..(place.offset + place.length) as usize])
        .collect();
    assert!(blocks.len() > 5);
    for first in 0..blocks.len() {
        let mut without = blocks.clone();
        without.remove(first);
        fs::write(&path, [&whole[..120], &without.concat()].concat()).unwrap();
        let report = folder.verify();
        assert!(
            report.damage.iter().any(|(place, damage)| {
                (2..=3).contains(&place.segment) && matches!(damage, Damage::Order { .. } | Damage::Link)
            }),
            "without {first}: {:?}",
            report.damage
        );
        for second in first + 1..blocks.len() {
            let mut swapped = blocks.clone();
            swapped.swap(first, second);
            fs::write(&path, [&whole[..120], &swapped.concat()].concat()).unwrap();
            assert_ne!(folder.verify().damage, [], "{first} for {second}");
        }
    }
    // Replaces a block by a block with the same number from another trail with the same key.
    let other = Folder::new();
    fs::copy(folder.0.join("audit.key"), other.0.join("audit.key")).unwrap();
    let (mut trail, _) = other.open(0);
    for number in 0..12 {
        trail.write(&event(&format!("cn=forged{number}")), 1, number, SECOND).unwrap();
    }
    fs::write(&path, &whole).unwrap();
    for (place, _) in crate::blocks(&other.trail()) {
        let forged = &fs::read(other.segment(1)).unwrap()[place.offset as usize..][..place.length as usize];
        let mut forged_blocks = blocks.clone();
        forged_blocks[2] = forged;
        fs::write(&path, [&whole[..120], &forged_blocks.concat()].concat()).unwrap();
        assert_ne!(folder.verify().damage, [], "{place}");
    }
}

#[test]
fn reports_a_trail_cut_at_any_length() {
    let folder = Folder::new();
    sample(&folder);
    for segment in [2, 3] {
        let path = folder.segment(segment);
        let whole = fs::read(&path).unwrap();
        for length in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            let report = folder.verify();
            assert!(!report.damage.is_empty(), "segment {segment} cut to {length}");
        }
        fs::remove_file(&path).unwrap();
        assert_ne!(folder.verify().damage, [], "segment {segment} removed");
        fs::write(&path, &whole).unwrap();
    }
    // The first segment is removed, but the trail has no record of the removal.
    fs::remove_file(folder.segment(1)).unwrap();
    assert_eq!(folder.verify().damage[0].1, Damage::Unretired(1));
    // The file `head`, which records how far the trail reaches, is removed.
    fs::remove_file(folder.trail().join("head")).unwrap();
    assert!(folder.verify().damage.iter().any(|(_, damage)| *damage == Damage::HeadFile));
}

/// A crash leaves a part of a block at the end. The restart does not remove these bytes, but records them in the chain,
/// and continues.
#[test]
fn a_torn_end_is_recorded_and_the_chain_continues() {
    let folder = Folder::new();
    let (mut trail, _) = folder.open(0);
    trail.write(&event("cn=kept"), 1, 6, SECOND).unwrap();
    let whole = fs::metadata(folder.segment(1)).unwrap().len();
    trail.write(&event("cn=torn"), 1, 7, SECOND).unwrap();
    drop(trail);
    let bytes = fs::read(folder.segment(1)).unwrap();
    let head = fs::read(folder.trail().join("head")).unwrap();
    for length in (whole + 1..bytes.len() as u64).step_by(5) {
        for second in 2..4 {
            let _ = fs::remove_file(folder.segment(second));
        }
        fs::write(folder.trail().join("head"), &head).unwrap();
        fs::write(folder.segment(1), &bytes[..length as usize]).unwrap();
        // Before a restart, the bytes are reported as torn, not as damaged.
        let report = folder.verify();
        assert_eq!(report.damage, [], "{length}");
        assert_eq!(report.torn.len(), 1);
        let (trail, opening) = folder.open(2 * SECOND);
        assert_eq!(opening.position, Some(6));
        let torn = opening.torn.unwrap();
        assert_eq!((torn.segment, torn.offset, torn.bytes), (1, whole, length - whole));
        trail.close(3 * SECOND).unwrap();
        let report = folder.verify();
        assert_eq!((report.damage.as_slice(), report.torn.len()), (&[][..], 1), "{length}");
        assert_eq!(targets(&folder.trail()), ["cn=kept"]);
        // Torn bytes are evidence, so changing them is damage.
        fs::write(folder.segment(1), &bytes[..length as usize - 1]).unwrap();
        assert_eq!(folder.verify().damage[0].1, Damage::TornChanged);
    }
}

/// The disk may write pages in any order, so a power cut may leave a hole before whole blocks. Blocks after the hole
/// are ignored, because their changes are read from the log again.
#[test]
fn ignores_blocks_after_a_hole_that_a_power_cut_left() {
    let folder = Folder::new();
    let (mut trail, _) = folder.open(0);
    trail.write(&event("cn=kept"), 1, 6, SECOND).unwrap();
    let whole = fs::metadata(folder.segment(1)).unwrap().len() as usize;
    for number in 0..4 {
        trail.write(&event(&format!("cn=lost{number}")), 1, 7 + number, SECOND).unwrap();
    }
    drop(trail);
    let bytes = fs::read(folder.segment(1)).unwrap();
    let head = fs::read(folder.trail().join("head")).unwrap();
    let last = blocks(&folder.trail()).last().unwrap().0.offset as usize;
    for hole in [whole..whole + 10, whole + 80..whole + 81, whole..last, whole + 50..last + 3] {
        let mut cut = bytes.clone();
        cut[hole.clone()].fill(0);
        fs::write(folder.segment(1), &cut).unwrap();
        fs::write(folder.trail().join("head"), &head).unwrap();
        let _ = fs::remove_file(folder.segment(2));
        let report = folder.verify();
        assert_eq!(
            (report.damage.as_slice(), report.torn.len(), report.position),
            (&[][..], 1, 6),
            "{hole:?}"
        );
        let (mut trail, opening) = folder.open(2 * SECOND);
        assert_eq!(opening.position, Some(6), "{hole:?}");
        let torn = opening.torn.unwrap();
        assert_eq!((torn.offset, torn.bytes), (whole as u64, (bytes.len() - whole) as u64));
        trail.write(&event("cn=again"), 1, 10, 2 * SECOND).unwrap();
        trail.close(3 * SECOND).unwrap();
        let report = folder.verify();
        assert_eq!((report.damage.as_slice(), report.torn.len()), (&[][..], 1), "{hole:?}");
        assert_eq!(targets(&folder.trail()), ["cn=kept", "cn=again"]);
    }
}

/// A power cut cannot lose blocks that an anchor proves to be durable. A hole before an anchor is therefore always
/// reported as damage.
#[test]
fn a_hole_before_an_anchor_is_damage() {
    let folder = Folder::new();
    let (mut trail, _) = folder.open(0);
    let hole = fs::metadata(folder.segment(1)).unwrap().len() as usize;
    for number in 0..3 {
        trail.write(&event(&format!("cn=a{number}")), 1, 6 + number, SECOND).unwrap();
    }
    trail.anchor(SECOND).unwrap();
    drop(trail);
    let mut bytes = fs::read(folder.segment(1)).unwrap();
    bytes[hole..hole + 20].fill(0);
    fs::write(folder.segment(1), &bytes).unwrap();
    let is_reported = |report: &Report| report.damage.iter().any(|(_, damage)| *damage == Damage::Head);
    assert!(is_reported(&folder.verify()));
    let (trail, opening) = folder.open(2 * SECOND);
    assert_eq!((opening.position, opening.torn), (Some(8), None));
    trail.close(3 * SECOND).unwrap();
    assert!(is_reported(&folder.verify()));
}

/// A crash during the creation of a segment leaves a segment without blocks, or without a complete header.
#[test]
fn a_segment_without_a_block_is_replaced() {
    let folder = Folder::new();
    let (trail, _) = folder.open(0);
    trail.close(SECOND).unwrap();
    let (trail, _) = folder.open(2 * SECOND);
    drop(trail);
    let second = fs::read(folder.segment(2)).unwrap();
    for length in [0, 60, 120, 150] {
        fs::write(folder.segment(2), &second[..length]).unwrap();
        let (trail, _) = folder.open(3 * SECOND);
        trail.close(4 * SECOND).unwrap();
        let report = folder.verify();
        assert_eq!((report.damage.as_slice(), report.segments), (&[][..], Some((1, 2))), "{length}");
    }
}

#[test]
fn segments_end_and_are_removed_by_size_and_age() {
    let folder = Folder::new();
    let small = || Options { segment_bytes: 1_000, ..folder.options() };
    let (mut trail, _) = Trail::open(small(), 0, 0).unwrap();
    for number in 0..40 {
        trail.write(&event(&format!("cn={number}")), 1, number, number * SECOND).unwrap();
    }
    drop(trail);
    let report = folder.verify();
    assert_eq!(report.damage, []);
    assert!(report.segments.unwrap().1 > 5, "{report:?}");
    assert_eq!(targets(&folder.trail()).len(), 40);
    // Age: the trail begins a new segment after 10 seconds, and removes segments after 30 seconds.
    let aged = Options { segment_micros: 10 * SECOND, keep_micros: 30 * SECOND, ..folder.options() };
    let now =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    let (mut trail, _) = Trail::open(aged, 0, now()).unwrap();
    let before = folder.verify().segments.unwrap();
    trail.write(&event("cn=later"), 1, 41, now() + 11 * SECOND).unwrap();
    assert_eq!(folder.verify().segments.unwrap(), (1, before.1 + 1));
    trail.write(&event("cn=much later"), 1, 41, now() + 100 * SECOND).unwrap();
    let report = folder.verify();
    assert_eq!(report.damage, []);
    assert_eq!(report.segments.unwrap(), (before.1 + 1, before.1 + 2));
    drop(trail);
    // Size: the trail removes old segments when it is opened with a lower limit.
    let few = Options { keep_bytes: 1, ..folder.options() };
    drop(Trail::open(few, 0, now()).unwrap());
    let report = folder.verify();
    assert_eq!((report.damage.as_slice(), report.segments), (&[][..], Some((before.1 + 3, before.1 + 3))));
}

#[test]
fn compares_the_key_and_blocks_recorded_outside() {
    let folder = Folder::new();
    sample(&folder);
    let report = folder.verify();
    let noted: Anchored = report.anchored.unwrap().to_string().parse().unwrap();
    assert_eq!(verify(&folder.trail(), report.public_key, &[noted]).unwrap().damage, []);
    let other = NodeKey::load_or_create(&folder.0.join("other.key")).unwrap().public();
    assert_eq!(verify(&folder.trail(), Some(other), &[]).unwrap().damage[0].1, Damage::OtherKey);
    let wrong = Anchored { hash: [0; 32], ..noted };
    let report = verify(&folder.trail(), None, &[wrong]).unwrap();
    assert_eq!(report.damage[0].1, Damage::AnchorMismatch { block: noted.block });
    // A trail is forged with a different key. Only the key that was recorded outside of the trail reveals the forgery.
    let forged = Folder::new();
    sample(&forged);
    assert_eq!(forged.verify().damage, []);
    let key = folder.verify().public_key;
    assert_eq!(verify(&forged.trail(), key, &[]).unwrap().damage[0].1, Damage::OtherKey);
}

#[test]
fn only_one_process_writes_to_a_folder() {
    let folder = Folder::new();
    let (_trail, _) = folder.open(0);
    let error = Trail::open(folder.options(), 0, 0).err().unwrap();
    assert!(matches!(&error, AuditError::Io { .. }), "{error}");
    assert!(error.to_string().contains("another server"), "{error}");
}

#[test]
fn a_traversal_follows_new_blocks() {
    let folder = Folder::new();
    let (mut trail, _) = folder.open(0);
    let mut walk = Traversal::begin(&folder.trail()).unwrap();
    let mut seen = Vec::new();
    let mut read = |walk: &mut Traversal| {
        while let Some(item) = walk.follow().unwrap() {
            let Item::Block(block) = item else { panic!("{item:?}") };
            let events = Events::of(&block.events).map(Result::unwrap);
            seen.extend(events.filter_map(|event| Some(event.text(Field::Target)?.into_owned())));
        }
        std::mem::take(&mut seen)
    };
    assert_eq!(read(&mut walk), Vec::<String>::new());
    trail.write(&event("cn=1"), 1, 0, SECOND).unwrap();
    assert_eq!(read(&mut walk), ["cn=1"]);
    assert_eq!(read(&mut walk), Vec::<String>::new());
    trail.write(&event("cn=2"), 1, 0, SECOND).unwrap();
    trail.close(SECOND).unwrap();
    let (mut trail, _) = folder.open(2 * SECOND);
    trail.write(&event("cn=3"), 1, 0, 2 * SECOND).unwrap();
    assert_eq!(read(&mut walk), ["cn=2", "cn=3"]);
}

#[test]
fn a_traversal_can_resume_at_any_block() {
    let folder = Folder::new();
    let places = sample(&folder);
    let rest = |segment: u64, offset: u64| -> Vec<TrailPlace> {
        let mut walk = Traversal::resume(&folder.trail(), segment, offset).unwrap();
        let items = std::iter::from_fn(|| walk.follow().unwrap());
        items
            .map(|item| if let Item::Block(block) = item { block.place } else { panic!("{item:?}") })
            .collect()
    };
    let all: Vec<TrailPlace> = places.iter().map(|(place, _)| *place).collect();
    assert_eq!(rest(0, 0), all);
    for (number, place) in all.iter().enumerate() {
        assert_eq!(rest(place.segment, place.offset + place.length), all[number + 1..], "after {place}");
        assert_eq!(rest(place.segment, place.offset), all[number..], "at {place}");
    }
    assert_eq!(rest(1, u64::MAX), all.iter().filter(|place| place.segment > 1).copied().collect::<Vec<_>>());
    assert_eq!(rest(4, 0), []);
    // If the segment of the block was removed, the traversal continues with the segments that remain.
    fs::remove_file(folder.segment(1)).unwrap();
    assert_eq!(rest(1, 200), all.iter().filter(|place| place.segment > 1).copied().collect::<Vec<_>>());
}

#[test]
fn random_batches_are_read_in_order() {
    let seed = std::env::var("PANDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("PANDO_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new();
    let (mut written, mut now) = (Vec::new(), 0);
    for _ in 0..8 {
        let options = Options { segment_bytes: random.u64(200..5_000), ..folder.options() };
        let (mut trail, _) = Trail::open(options, 0, now).unwrap();
        for _ in 0..random.usize(0..20) {
            let mut events = Vec::new();
            let count = random.u32(0..50);
            for _ in 0..count {
                let text: String = (0..random.usize(0..100)).map(|_| random.alphanumeric()).collect();
                events.extend(event(&text));
                written.push(text);
            }
            now += random.u64(0..40) * SECOND;
            trail.write(&events, count, 0, now).unwrap();
            trail.anchor_if_due(now).unwrap();
        }
        if random.bool() {
            trail.close(now).unwrap();
        }
    }
    let report = folder.verify();
    assert_eq!((report.damage.as_slice(), report.torn.as_slice()), (&[][..], &[][..]));
    assert_eq!(targets(&folder.trail()), written);
}

/// The attacker can compute hashes, but does not have the key.
#[test]
fn reports_an_anchor_that_the_key_did_not_sign() {
    let folder = Folder::new();
    let places = sample(&folder);
    let (place, is_anchor) = *places.last().unwrap();
    assert!(is_anchor);
    let path = folder.segment(place.segment);
    let mut bytes = fs::read(&path).unwrap();
    let (from, to) = (place.offset as usize, (place.offset + place.length) as usize - 32);
    // Changes a byte of the signature, and corrects the hash of the block.
    bytes[from + 80] ^= 1;
    let hash = ring::digest::digest(&ring::digest::SHA256, &bytes[from..to]);
    bytes[to..].copy_from_slice(hash.as_ref());
    fs::write(&path, bytes).unwrap();
    let report = folder.verify();
    assert!(report.damage.contains(&(place, Damage::Signature)), "{:?}", report.damage);
    // Puts the new hash of the block into the file `head`, whose signature is then invalid.
    let head = folder.trail().join("head");
    let mut forged = fs::read(&head).unwrap();
    forged[40..72].copy_from_slice(hash.as_ref());
    fs::write(&head, forged).unwrap();
    let is_reported = |damage: &Damage| folder.verify().damage.iter().any(|(_, found)| found == damage);
    assert!(is_reported(&Damage::Signature) && is_reported(&Damage::HeadFile));
}
