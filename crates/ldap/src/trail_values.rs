//! Values of the extended operation with which `pando audit --url` reads the audit trail of a server.

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

/// Position in an audit trail: a segment, and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailPosition {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in the segment, in octets.
    pub offset: u64,
}

/// Request for a part of the audit trail: `SEQUENCE { sinceMicros INTEGER, [segment INTEGER, offset INTEGER] }`. The
/// optional fields are the position at which the previous answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailRequest {
    /// Omit blocks written before this time, in microseconds since 1970-01-01T00:00:00Z.
    pub since_micros: u64,
    /// Position to continue from; `None` to begin with the oldest block.
    pub from: Option<TrailPosition>,
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailPiece<'a> {
    /// A block of events: number, time of writing in microseconds, and the events in the format of
    /// `docs/reference/audit-format.md`.
    Block(u64, u64, &'a [u8]),
    /// Description of damage.
    Damage(&'a str),
    /// The last write is incomplete, because of a crash or because the write is still in progress. The text is the
    /// position of the write.
    Torn(&'a str),
}

/// A decoded answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailAnswer<'a> {
    /// Position from which the next request continues.
    pub next: TrailPosition,
    /// Whether the answer reaches the present end of the trail.
    pub is_end: bool,
    /// Contents of the trail before `next`.
    pub pieces: Vec<TrailPiece<'a>>,
}

const BLOCK: Tag = Tag::SEQUENCE;
const DAMAGE: Tag = Tag::OCTET_STRING;
const TORN: Tag = Tag::context(0);

impl TrailRequest {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<TrailRequest> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let since_micros = number(&mut fields)?;
        let from = match fields.is_empty() {
            true => None,
            false => Some(TrailPosition { segment: number(&mut fields)?, offset: number(&mut fields)? }),
        };
        (reader.is_empty() && fields.is_empty()).then_some(TrailRequest { since_micros, from })
    }

    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            put_number(writer, self.since_micros);
            if let Some(TrailPosition { segment, offset }) = self.from {
                put_number(writer, segment);
                put_number(writer, offset);
            }
        })
    }
}

impl<'a> TrailAnswer<'a> {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<TrailAnswer<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let next = TrailPosition { segment: number(&mut fields)?, offset: number(&mut fields)? };
        let is_end = fields.boolean().ok()?;
        let mut pieces = Vec::new();
        while !fields.is_empty() {
            pieces.push(match fields.any().ok()? {
                (BLOCK, content) => {
                    let mut block = Reader::new(content);
                    let (number, micros) = (number(&mut block)?, number(&mut block)?);
                    let events = block.octet_string().ok()?;
                    block.is_empty().then_some(TrailPiece::Block(number, micros, events))?
                }
                (DAMAGE, text) => TrailPiece::Damage(std::str::from_utf8(text).ok()?),
                (TORN, text) => TrailPiece::Torn(std::str::from_utf8(text).ok()?),
                _ => return None,
            });
        }
        reader.is_empty().then_some(TrailAnswer { next, is_end, pieces })
    }

    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            put_number(writer, self.next.segment);
            put_number(writer, self.next.offset);
            writer.boolean(self.is_end);
            for piece in &self.pieces {
                match piece {
                    TrailPiece::Block(number, micros, events) => {
                        let block = writer.begin(BLOCK);
                        put_number(writer, *number);
                        put_number(writer, *micros);
                        writer.octet_string(events);
                        writer.end(block);
                    }
                    TrailPiece::Damage(text) => writer.element(DAMAGE, text.as_bytes()),
                    TrailPiece::Torn(text) => writer.element(TORN, text.as_bytes()),
                }
            }
        })
    }
}

fn number(fields: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(fields.integer().ok()?).ok()
}

/// Writes a number. The numbers of a trail are far below the maximum of an INTEGER here.
fn put_number(writer: &mut Writer<'_>, number: u64) {
    writer.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let from = Some(TrailPosition { segment: 7, offset: 1 << 40 });
        for asked in [TrailRequest::default(), TrailRequest { since_micros: 5, from }] {
            assert_eq!(TrailRequest::decode(&asked.encode()), Some(asked));
        }
        let pieces = vec![
            TrailPiece::Block(3, 4, b"events"),
            TrailPiece::Damage("damage"),
            TrailPiece::Block(4, 5, b""),
            TrailPiece::Torn("torn"),
        ];
        let answer = TrailAnswer { next: TrailPosition { segment: 1, offset: 2 }, is_end: true, pieces };
        let value = answer.encode();
        assert_eq!(TrailAnswer::decode(&value), Some(answer));
        for len in 0..value.len() {
            assert_eq!(TrailAnswer::decode(&value[..len]), None, "cut to {len}");
        }
        assert_eq!(TrailRequest::decode(b"\x30\x03\x02\x01\xff"), None, "a number below 0");
        assert_eq!(
            TrailRequest::decode(b"\x30\x06\x02\x01\x01\x02\x01\x01"),
            None,
            "a segment without an offset"
        );
        assert_eq!(TrailRequest::decode(b""), None);
    }
}
