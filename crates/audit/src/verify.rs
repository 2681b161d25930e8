//! Verification of a whole trail: its chain, its signatures, and anchors that were recorded outside of the trail.

use std::fs;
use std::path::Path;

use data_encoding::HEXLOWER;

use crate::error::{AuditError, Damage, TrailPlace};
use crate::event::{Events, Field, Kind};
use crate::format::{Hash, HeadFile};
use crate::key::{PublicKey, parse_hex};
use crate::traversal::{Block, Item, Traversal};

/// An anchor that is recorded outside of the trail, in the form of [`Report::anchored`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchored {
    /// Number of the anchor's block.
    pub block: u64,
    /// Hash of the anchor's block.
    pub hash: [u8; 32],
}

impl std::fmt::Display for Anchored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.block, HEXLOWER.encode_display(&self.hash))
    }
}

impl std::str::FromStr for Anchored {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Anchored, &'static str> {
        let parse = || {
            let (block, hash) = text.split_once(':')?;
            Some(Anchored { block: block.parse().ok()?, hash: parse_hex(hash)? })
        };
        parse().ok_or("a block is noted as its number, a colon and 64 hexadecimal digits")
    }
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Report {
    /// Numbers of the first and the last segment.
    pub segments: Option<(u64, u64)>,
    /// Number of whole blocks.
    pub blocks: u64,
    /// Number of events in the whole blocks.
    pub events: u64,
    /// Number of events that the server lost, according to the trail.
    pub lost: u64,
    /// Number of anchors with valid signatures.
    pub anchors: u64,
    /// The last anchor.
    pub anchored: Option<Anchored>,
    /// Number of blocks after the last anchor. No signature covers them.
    pub unanchored: u64,
    /// Log position up to which the trail contains all changes.
    pub position: u64,
    /// Public key of the node that signs the trail.
    pub public_key: Option<PublicKey>,
    /// Ranges of torn bytes that crashes left. Later blocks record them, or they are at the end of the trail.
    pub torn: Vec<TrailPlace>,
    /// Damage that was found, in the order of places.
    pub damage: Vec<(TrailPlace, Damage)>,
}

/// Verifies the trail in a folder. If `key` is given, the signatures must have been made with it. `noted` are anchors
/// that the trail must contain.
///
/// # Errors
/// The folder cannot be read, or contains no trail. Damage is not an error: see [`Report::damage`].
pub fn verify(folder: &Path, key: Option<PublicKey>, noted: &[Anchored]) -> Result<Report, AuditError> {
    let mut traversal = Traversal::begin(folder)?;
    let head = fs::read(folder.join("head")).ok();
    let mut report = Report::default();
    let head_block = head.as_deref().and_then(HeadFile::decode).map(|(head, ..)| head.block);
    let wanted: Vec<u64> = noted.iter().map(|noted| noted.block).chain(head_block).collect();
    let mut seen: Vec<(u64, Hash)> = Vec::new();
    let (mut retired, mut last_block) = (0, 0);
    while let Some(item) = traversal.next().transpose()? {
        let segment = match item {
            Item::Block(block) => {
                if wanted.contains(&block.number) {
                    seen.push((block.number, block.hash));
                }
                last_block = block.number;
                let segment = block.place.segment;
                count_block(&mut report, &mut retired, &block);
                segment
            }
            Item::Damage(place, damage) => {
                report.damage.push((place, damage));
                place.segment
            }
            Item::Torn(place) => {
                report.torn.push(place);
                place.segment
            }
        };
        let (first, _) = report.segments.unwrap_or((segment, segment));
        report.segments = Some((first, segment));
    }
    report.public_key = traversal.public_key();
    let end = TrailPlace {
        segment: traversal.segment().unwrap_or(0),
        offset: traversal.offset(),
        ..TrailPlace::default()
    };
    if let Some((first, _)) = report.segments
        && retired + 1 < first
    {
        let place = TrailPlace { segment: first, ..TrailPlace::default() };
        report.damage.insert(0, (place, Damage::Unretired(first - 1)));
    }
    if let (Some(given), Some(found)) = (key, traversal.public_key())
        && given != found
    {
        report.damage.push((TrailPlace::default(), Damage::OtherKey));
    }
    let is_there = |block: u64, hash: Hash| seen.contains(&(block, hash));
    match head.as_deref().and_then(HeadFile::decode) {
        Some((head, text, signature)) => {
            // If no header can be read, no key is known with which the signature could be checked, so the signature
            // counts as valid. The damaged headers are reported in any case.
            let is_signed = traversal.public_key().is_none_or(|key| key.has_signed(&text, &signature));
            if !is_signed || traversal.trail().is_some_and(|trail| trail != head.trail) {
                report.damage.push((end, Damage::HeadFile));
            } else if !is_there(head.block, head.hash) {
                let damage = match last_block < head.block {
                    true => Damage::Shortened { block: head.block },
                    false => Damage::AnchorMismatch { block: head.block },
                };
                report.damage.push((end, damage));
            }
        }
        // If the trail has no anchor, the file `head` may be missing: the writer may have stopped before it wrote the
        // first anchor.
        None if report.anchors > 0 || head.is_some() => report.damage.push((end, Damage::HeadFile)),
        None => {}
    }
    for noted in noted.iter().filter(|noted| !is_there(noted.block, noted.hash)) {
        report.damage.push((end, Damage::AnchorMismatch { block: noted.block }));
    }
    Ok(report)
}

fn count_block(report: &mut Report, retired: &mut u64, block: &Block) {
    report.blocks += 1;
    report.events += u64::from(block.event_count);
    report.position = block.position;
    if block.is_anchor {
        report.anchors += 1;
        report.unanchored = 0;
        report.anchored = Some(Anchored { block: block.number, hash: block.hash });
    } else {
        report.unanchored += 1;
    }
    for event in Events::of(&block.events).filter_map(Result::ok) {
        match event.kind() {
            Some(Kind::Retired) => *retired = (*retired).max(event.number(Field::Segment).unwrap_or(0)),
            Some(Kind::Lost) => report.lost += event.number(Field::Count).unwrap_or(0),
            _ => {}
        }
    }
}
