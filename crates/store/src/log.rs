//! Frame around each record of the log.
//!
//! A record is a row of the map `store.log`; its key is its position. The engine's pages carry no checksum. All other
//! rows can be rebuilt from the log, so a damaged record must be refused and never applied. The checksum covers the
//! position, so a record with the key of another record is detected. Positions increase by one, so a missing record is
//! detected.
//!
//! ```text
//! offset  size
//!      0     1  frame version, 1
//!      1     4  crc32c (Castagnoli), little-endian: of the position (u64, big-endian), the frame version and the
//!              record
//!      5     n  the record
//! ```

use crate::error::LogDamage;
use crate::maps::Map;
use crate::{Position, Result, StoreError};

const FRAME_VERSION: u8 = 1;
const HEAD_LEN: usize = 5;

fn checksum(position: Position, record: &[u8]) -> u32 {
    let mut covered_head = [0; 9];
    covered_head[..8].copy_from_slice(&position.to_be_bytes());
    covered_head[8] = FRAME_VERSION;
    crc32c::crc32c_append(crc32c::crc32c(&covered_head), record)
}

/// Encodes a record into `frame`, replacing its content.
pub(crate) fn frame(position: Position, record: &[u8], frame: &mut Vec<u8>) {
    frame.clear();
    frame.reserve(HEAD_LEN + record.len());
    frame.push(FRAME_VERSION);
    frame.extend_from_slice(&checksum(position, record).to_le_bytes());
    frame.extend_from_slice(record);
}

/// Returns the record in a frame.
pub(crate) fn unframe(position: Position, frame: &[u8]) -> Result<&[u8], LogDamage> {
    let (head, record) = frame.split_first_chunk::<HEAD_LEN>().ok_or(LogDamage::Short)?;
    let [version, stored @ ..] = *head;
    if version != FRAME_VERSION {
        return Err(LogDamage::Version(version));
    }
    if u32::from_le_bytes(stored) != checksum(position, record) {
        return Err(LogDamage::Checksum);
    }
    Ok(record)
}

/// Parses a key of the log as a position.
pub(crate) fn position_of(key: &[u8]) -> Result<Position> {
    match key.try_into() {
        Ok(bytes) => Ok(Position::from_be_bytes(bytes)),
        Err(_) => Err(StoreError::DamagedRow { map: Map::LOG.spec.name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(position: Position, record: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame(position, record, &mut bytes);
        bytes
    }

    #[test]
    fn frames_round_trip() {
        for record in [&b""[..], b"a", &[7; 10_000]] {
            assert_eq!(unframe(42, &framed(42, record)), Ok(record));
        }
    }

    #[test]
    fn the_frame_has_the_documented_layout() {
        let bytes = framed(1, b"abc");
        assert_eq!(bytes[0], 1);
        let covered = [0, 0, 0, 0, 0, 0, 0, 1, 1, b'a', b'b', b'c'];
        assert_eq!(bytes[1..5], crc32c::crc32c(&covered).to_le_bytes());
        assert_eq!(&bytes[5..], b"abc");
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let whole = framed(9, b"record");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 8 { LogDamage::Version(bytes[0]) } else { LogDamage::Checksum };
            assert_eq!(unframe(9, &bytes), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_or_misplaced_frame_is_detected() {
        let whole = framed(9, b"record");
        for length in 0..whole.len() {
            let expected = if length < HEAD_LEN { LogDamage::Short } else { LogDamage::Checksum };
            assert_eq!(unframe(9, &whole[..length]), Err(expected), "length {length}");
        }
        assert_eq!(unframe(10, &whole), Err(LogDamage::Checksum));
    }
}
