//! Values of Pando's own controls that contain log positions. In a response, the control contains the position of the
//! state that the response shows. In a request, the control contains the minimum position of that state. See
//! `docs/reference/protocol.md`.

use ber::{Reader, Tag, Writer};

/// Maximum wait that a client can request (maxInt of RFC 4511 section 4.1.1).
const WAIT_MAX: u32 = i32::MAX as u32;

/// A position in the log of a generation. The encoded form consists of the generation (16 octets), the position (8),
/// and the epoch, if there is one (16). Clients must not interpret the encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionToken {
    /// Generation of the data: positions of different generations cannot be compared.
    pub generation: [u8; 16],
    /// Position in the log of that generation.
    pub position: u64,
    /// Name of the epoch of the record at the position; `None` before the first promotion of a replica. If a replica is
    /// promoted without the supplier, its new records may have positions that records of the supplier already had.
    pub epoch: Option<[u8; 16]>,
}

impl PositionToken {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<PositionToken> {
        let (generation, rest) = value.split_first_chunk()?;
        let (position, epoch) = rest.split_first_chunk()?;
        let epoch = match epoch {
            [] => None,
            epoch => Some(epoch.try_into().ok()?),
        };
        Some(PositionToken { generation: *generation, position: u64::from_be_bytes(*position), epoch })
    }

    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = self.generation.to_vec();
        value.extend(self.position.to_be_bytes());
        value.extend(self.epoch.iter().flatten());
        value
    }
}

/// Request for a response from a state at or after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtLeast {
    /// The position.
    pub token: PositionToken,
    /// Maximum wait for the position in milliseconds, from 0 to 2147483647.
    pub wait_ms: u32,
}

impl AtLeast {
    /// Decodes a control's value, a SEQUENCE of token and wait. Returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<AtLeast> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let token = PositionToken::decode(fields.octet_string().ok()?)?;
        let wait_ms = u32::try_from(fields.integer().ok()?).ok().filter(|wait| *wait <= WAIT_MAX)?;
        (reader.is_empty() && fields.is_empty()).then_some(AtLeast { token, wait_ms })
    }

    /// Encodes the value. A wait that is too long is replaced by the maximum.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(56);
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.octet_string(&self.token.encode());
        writer.integer(i64::from(self.wait_ms.min(WAIT_MAX)));
        writer.end(fields);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_and_others_are_refused() {
        let in_epoch = PositionToken { generation: [7; 16], position: 0x0102_0304, epoch: Some([9; 16]) };
        let value = in_epoch.encode();
        assert_eq!(value.len(), 40);
        assert_eq!(PositionToken::decode(&value), Some(in_epoch));
        assert_eq!(PositionToken::decode(&value[..39]), None);
        let token = PositionToken { epoch: None, ..in_epoch };
        let value = token.encode();
        assert_eq!(value.len(), 24);
        assert_eq!(&value[16..], [0, 0, 0, 0, 1, 2, 3, 4]);
        assert_eq!(PositionToken::decode(&value), Some(token));
        assert_eq!(PositionToken::decode(&value[1..]), None);
        assert_eq!(PositionToken::decode(&[&value[..], b"x"].concat()), None);

        for wait_ms in [0, 1_500, WAIT_MAX] {
            let asked = AtLeast { token, wait_ms };
            let value = asked.encode();
            assert_eq!(AtLeast::decode(&value), Some(asked));
            for len in 0..value.len() {
                assert_eq!(AtLeast::decode(&value[..len]), None);
            }
            assert_eq!(AtLeast::decode(&[&value[..], b"x"].concat()), None);
        }
        // Waits below zero and above the maximum.
        let head = [&[0x30, 29, 4, 24][..], &value[..]].concat();
        assert_eq!(AtLeast::decode(&[&head[..], &[2, 1, 0xff]].concat()), None);
        let long = [&[0x30, 33, 4, 24][..], &value[..], &[2, 5, 0, 0x80, 0, 0, 0]].concat();
        assert_eq!(AtLeast::decode(&long), None);
    }
}
