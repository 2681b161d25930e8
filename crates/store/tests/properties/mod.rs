//! Properties that hold for any bytes in the redo log and in pages of the data file. The fuzz targets `redo` and
//! `pages` and the replay of their corpora check them. The store's own modules that decode bytes are compiled in here;
//! they access no files.

#![allow(dead_code, reason = "each fuzz target uses its part")]

pub(crate) mod pages;

#[allow(dead_code, reason = "only the decoding functions are used")]
#[path = "../../src/redo/frame.rs"]
mod frame;
#[allow(dead_code, reason = "only the decoding functions are used")]
#[path = "../../src/redo/group.rs"]
mod group;

use std::io;

use frame::{BLOCK_LEN, Found, Life};
use group::{Change, Group};

const LIFE: Life = Life { identity: *b"identity of data", number: 7 };

/// Reading never panics, and finds only groups within the bytes. A group that it finds encodes to the same bytes.
/// Groups that were written are found as they were written, whatever other bytes follow them.
pub(crate) fn redo(bytes: &[u8]) {
    let changes = changes(bytes);
    let _ = frame::parse_header(bytes);
    let frames = frames(bytes);
    assert!(frames.is_sorted_by(|one, next| one.end() <= next.offset));
    assert!(frames.iter().all(|found| found.payload_at() + found.payload_len <= bytes.len() as u64));

    let mut written = Group::new();
    changes.iter().for_each(|change| written.push(*change));
    let mut segment = frame::header(&LIFE);
    segment.extend_from_slice(Group::of_payload(bytes).framed(&LIFE, 1));
    let second_at = segment.len() as u64;
    segment.extend_from_slice(written.framed(&LIFE, 2));
    segment.extend_from_slice(bytes);
    assert_eq!(frame::parse_header(&segment), Some(frame::Header::Of(LIFE)));
    let found = self::frames(&segment);
    let places = found.iter().map(|found| (found.sequence, found.offset)).collect::<Vec<_>>();
    assert!(places.starts_with(&[(1, BLOCK_LEN as u64), (2, second_at)]));
    let payload = |found: &Found| &segment[found.payload_at() as usize..][..found.payload_len as usize];
    assert_eq!(payload(&found[0]), bytes);
    assert!(bytes.starts_with(payload(&found[1])));
}

/// Returns the changes before the first invalid one.
fn changes(payload: &[u8]) -> Vec<Change<'_>> {
    group::decode(payload).map_while(Result::ok).collect()
}

fn frames(segment: &[u8]) -> Vec<Found> {
    let mut read = |buffer: &mut [u8], offset: u64| {
        let from = usize::try_from(offset).ok().and_then(|offset| segment.get(offset..));
        let bytes = from.and_then(|from| from.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let (mut found, mut from) = (Vec::new(), 0);
    while let Ok(Some(next)) = frame::next_frame(&LIFE, from, segment.len() as u64, &mut read, &mut |_| ()) {
        from = next.end();
        found.push(next);
    }
    found
}
