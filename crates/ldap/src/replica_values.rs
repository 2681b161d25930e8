//! Values of Pando's extended operation by which a replica reads the log of its supplier; see
//! `docs/reference/replica-protocol.md`. Request and response:
//!
//! ```text
//! SEQUENCE { generation OCTET STRING (SIZE (16)), position INTEGER, digest OCTET STRING, lineage OCTET STRING,
//!            waitMs INTEGER, bytesMax INTEGER, name UTF8String, comparison OCTET STRING }
//! SEQUENCE { newest INTEGER, lineage OCTET STRING, part CHOICE {
//!            records [0] SEQUENCE { first INTEGER, SEQUENCE OF OCTET STRING },
//!            trimmed [1] INTEGER, diverged [2] INTEGER, replaced [3] NULL, otherData [4] NULL },
//!            comparison OCTET STRING }
//! ```
//!
//! `generation` and `position` describe the replica's data and its last record. The root DSE contains these values as
//! `pandoGeneration` and `pandoPosition`. `digest` is empty, or the first 16 octets of the SHA-256 of that record.
//! `newest` is the supplier's last position. `first` is the position of the first record in the response. `comparison`
//! is empty, or contains a report or a notice: see `crates/replication/src/comparison.rs`.

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

const RECORDS: Tag = Tag::context_constructed(0);
const TRIMMED: Tag = Tag::context(1);
const DIVERGED: Tag = Tag::context(2);
const REPLACED: Tag = Tag::context(3);
const OTHER_DATA: Tag = Tag::context(4);

/// Maximum wait that a replica can request, in milliseconds.
const WAIT_MAX: u32 = i32::MAX as u32;

/// Request for the records after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRequest<'a> {
    /// Generation of the replica's data.
    pub generation: [u8; 16],
    /// Position of the replica's last record.
    pub position: u64,
    /// Digest of the record at `position`; empty if the supplier need not check it.
    pub digest: &'a [u8],
    /// Lineage of the replica's data. This crate does not interpret it.
    pub lineage: &'a [u8],
    /// Milliseconds to wait if there are no records yet, from 0 to 2147483647.
    pub wait_ms: u32,
    /// Maximum size of the records in the response, in bytes. The first record may exceed it.
    pub bytes_max: u32,
    /// Name of the replica in the supplier's metrics.
    pub name: &'a str,
    /// Digests of the replica's rows for a comparison; empty if there are none. This crate does not interpret them.
    pub comparison: &'a [u8],
}

/// Answer to a [`LogRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogAnswer<'a> {
    /// Position of the supplier's last record.
    pub newest: u64,
    /// Lineage of the supplier's data. This crate does not interpret it.
    pub lineage: &'a [u8],
    /// Records, or the reason why there are none.
    pub part: LogPart<'a>,
    /// A digest barrier or the result of a comparison; empty if there is neither. This crate does not interpret it.
    pub comparison: &'a [u8],
}

/// Content of a [`LogAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart<'a> {
    /// Consecutive records; empty if no record arrived within the wait.
    Records {
        /// Position of the first record.
        first: u64,
        /// The records.
        records: Vec<&'a [u8]>,
    },
    /// The supplier has trimmed the records before this position, so the replica needs a copy of the data.
    Trimmed(u64),
    /// The replica's records differ from the supplier's from this position on.
    Diverged(u64),
    /// The supplier has been replaced: the replica has received records of a later writer.
    Replaced,
    /// The supplier has data of another generation.
    OtherData,
}

impl<'a> LogRequest<'a> {
    /// Decodes a request value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<LogRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let request = LogRequest {
            generation: fields.octet_string().ok()?.try_into().ok()?,
            position: number(&mut fields)?,
            digest: fields.octet_string().ok()?,
            lineage: fields.octet_string().ok()?,
            wait_ms: u32::try_from(fields.integer().ok()?).ok().filter(|wait| *wait <= WAIT_MAX)?,
            bytes_max: u32::try_from(fields.integer().ok()?).ok()?,
            name: std::str::from_utf8(fields.octet_string().ok()?).ok()?,
            comparison: fields.octet_string().ok()?,
        };
        (reader.is_empty() && fields.is_empty()).then_some(request)
    }

    /// Returns the request value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(&self.generation);
            put_number(writer, self.position);
            writer.octet_string(self.digest);
            writer.octet_string(self.lineage);
            writer.integer(self.wait_ms.min(WAIT_MAX).into());
            writer.integer(self.bytes_max.into());
            writer.octet_string(self.name.as_bytes());
            writer.octet_string(self.comparison);
        })
    }
}

impl<'a> LogAnswer<'a> {
    /// Decodes a response value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<LogAnswer<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let newest = number(&mut fields)?;
        let lineage = fields.octet_string().ok()?;
        let position =
            |content: &[u8]| ber::integer_content(content).ok().and_then(|number| u64::try_from(number).ok());
        let part = match fields.any().ok()? {
            (RECORDS, content) => {
                let mut items = Reader::new(content);
                let first = number(&mut items)?;
                let mut records = Vec::new();
                while !items.is_empty() {
                    records.push(items.octet_string().ok()?);
                }
                LogPart::Records { first, records }
            }
            (TRIMMED, content) => LogPart::Trimmed(position(content)?),
            (DIVERGED, content) => LogPart::Diverged(position(content)?),
            (REPLACED, []) => LogPart::Replaced,
            (OTHER_DATA, []) => LogPart::OtherData,
            _ => return None,
        };
        let comparison = fields.octet_string().ok()?;
        (reader.is_empty() && fields.is_empty()).then_some(LogAnswer { newest, lineage, part, comparison })
    }

    /// Returns the response value.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoded = LogRecords::default();
        if let LogPart::Records { records, .. } = &self.part {
            records.iter().for_each(|record| encoded.push(record));
        }
        sequence(|writer| {
            put_number(writer, self.newest);
            writer.octet_string(self.lineage);
            match &self.part {
                LogPart::Records { first, .. } => encoded.put(writer, *first),
                LogPart::Trimmed(first) => put_position(writer, TRIMMED, *first),
                LogPart::Diverged(since) => put_position(writer, DIVERGED, *since),
                LogPart::Replaced => writer.element(REPLACED, b""),
                LogPart::OtherData => writer.element(OTHER_DATA, b""),
            }
            writer.octet_string(self.comparison);
        })
    }
}

/// Encoded records, which the responses to several replicas share.
#[derive(Clone, Debug, Default)]
pub struct LogRecords(Vec<u8>);

impl LogRecords {
    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        ber::put_element(&mut self.0, Tag::OCTET_STRING, record);
    }

    /// Returns the number of encoded bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Encodes a response with these records. The first record has the position `first`.
    pub fn answer(&self, newest: u64, lineage: &[u8], first: u64, comparison: &[u8]) -> Vec<u8> {
        sequence(|writer| {
            put_number(writer, newest);
            writer.octet_string(lineage);
            self.put(writer, first);
            writer.octet_string(comparison);
        })
    }

    fn put(&self, writer: &mut Writer<'_>, first: u64) {
        let mark = writer.begin(RECORDS);
        put_number(writer, first);
        writer.raw(&self.0);
        writer.end(mark);
    }
}

fn number(fields: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(fields.integer().ok()?).ok()
}

/// Writes a number. Positions are far below the maximum of an INTEGER here.
fn put_number(writer: &mut Writer<'_>, number: u64) {
    writer.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn put_position(writer: &mut Writer<'_>, tag: Tag, position: u64) {
    let mut content = Vec::new();
    ber::put_integer_content(&mut content, i64::try_from(position).unwrap_or(i64::MAX));
    writer.element(tag, &content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_back() {
        let request = LogRequest {
            generation: [7; 16],
            position: 1 << 40,
            digest: b"digest",
            lineage: b"",
            wait_ms: 500,
            bytes_max: u32::MAX,
            name: "west",
            comparison: b"digests",
        };
        let bytes = request.encode();
        assert_eq!(LogRequest::decode(&bytes), Some(request));
        for end in 0..bytes.len() {
            assert_eq!(LogRequest::decode(&bytes[..end]), None, "{end}");
        }
        let longer = LogRequest { wait_ms: u32::MAX, ..request };
        assert_eq!(LogRequest::decode(&longer.encode()).unwrap().wait_ms, WAIT_MAX);
    }

    #[test]
    fn answers_are_read_back() {
        let parts = [
            LogPart::Records { first: 8, records: vec![b"one", b"", &[0; 300]] },
            LogPart::Records { first: 8, records: Vec::new() },
            LogPart::Trimmed(5),
            LogPart::Diverged(1 << 33),
            LogPart::Replaced,
            LogPart::OtherData,
        ];
        for part in parts {
            let answer = LogAnswer { newest: 99, lineage: b"lineage", part, comparison: b"mark" };
            let bytes = answer.encode();
            assert_eq!(LogAnswer::decode(&bytes), Some(answer.clone()));
            for end in 0..bytes.len() {
                assert_eq!(LogAnswer::decode(&bytes[..end]), None, "{answer:?} {end}");
            }
        }
        let mut shared = LogRecords::default();
        shared.push(b"one");
        let part = LogPart::Records { first: 9, records: vec![b"one"] };
        let answer = LogAnswer { newest: 9, lineage: b"", part, comparison: b"mark" };
        assert_eq!(shared.answer(9, b"", 9, b"mark"), answer.encode());
        // A negative position.
        assert_eq!(LogAnswer::decode(b"\x30\x0a\x02\x01\x01\x04\x00\x81\x01\xff\x04\x00"), None);
    }
}
