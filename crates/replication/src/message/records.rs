//! Records of a group, plain or sealed. The records of a sealed group are encrypted with AES-256-GCM (NIST SP 800-38D),
//! so that brokers and their backups cannot reveal the content of entries.
//!
//! A sealed group names the node that wrote it, that node's incarnation, and a proposal number. No two groups have the
//! same three numbers, even if the log loses messages. So no two groups are encrypted with the same key and nonce: the
//! key is derived from node and incarnation, and the proposal number is the nonce.

use std::borrow::Cow;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::codec::{Reader, put_length, put_operation};
use crate::key::ClusterKey;
use crate::limits::GROUP_RECORDS_MAX;
use crate::message::GenerationId;
use crate::operation::{NodeId, OperationId};

/// Bytes that sealing adds to a group: node, incarnation, proposal, and the tag of AES-GCM.
pub(super) const SEAL_SIZE: usize = 4 + 8 + 8 + 16;

/// Bytes of operation id and length.
const RECORD_HEAD_SIZE: usize = 4 + 8 + 8 + 4;

/// Returns the bytes that a record of `length` bytes occupies in a group.
pub const fn record_size(length: usize) -> usize {
    RECORD_HEAD_SIZE + length
}

/// One record in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'m> {
    /// Operation that the record belongs to.
    pub operation: OperationId,
    /// The record.
    pub bytes: &'m [u8],
}

/// Records of a group, in order.
#[derive(Clone, PartialEq, Eq)]
pub struct Records<'m> {
    /// Encoded records, known to be complete.
    bytes: Cow<'m, [u8]>,
    count: u32,
}

impl<'m> Records<'m> {
    /// Returns the number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Iterates over the records.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut reader = Reader(&self.bytes);
        std::iter::from_fn(move || record(&mut reader))
    }

    pub(crate) fn decode(count: u32, bytes: Cow<'m, [u8]>) -> Option<Records<'m>> {
        let is_possible = (1..=GROUP_RECORDS_MAX).contains(&usize::try_from(count).ok()?);
        let mut reader = Reader(is_possible.then_some(&*bytes)?);
        for _ in 0..count {
            record(&mut reader)?;
        }
        reader.end()?;
        Some(Records { bytes, count })
    }
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records", self.count)
    }
}

fn record<'m>(reader: &mut Reader<'m>) -> Option<Record<'m>> {
    Some(Record { operation: reader.operation()?, bytes: reader.bytes()? })
}

pub(crate) fn put_record(out: &mut Vec<u8>, operation: &OperationId, bytes: &[u8]) {
    put_operation(out, operation);
    put_length(out, bytes.len());
    out.extend(bytes);
}

/// Identity of a sealed group: its node, incarnation and proposal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
    /// Number of the proposal in the incarnation, from 1, including proposals that failed.
    pub(crate) number: u64,
}

impl Proposal {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Proposal> {
        Some(Proposal { node: NodeId(reader.u32()?), incarnation: reader.u64()?, number: reader.u64()? })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.node.0.to_be_bytes());
        out.extend(self.incarnation.to_be_bytes());
        out.extend(self.number.to_be_bytes());
    }

    fn key(&self, cluster: &ClusterKey, generation: &GenerationId) -> Option<LessSafeKey> {
        let (node, incarnation) = (self.node.0.to_be_bytes(), self.incarnation.to_be_bytes());
        let key = cluster.derive(&[b"pando sealed groups", generation, &node, &incarnation]);
        UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; 12];
        nonce.iter_mut().skip(4).zip(self.number.to_be_bytes()).for_each(|(to, from)| *to = from);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `records` and appends them to `out`. The present content of `out` is authenticated together with the
    /// records. Returns `None` if the records are too long.
    pub(super) fn seal(
        &self,
        cluster: &ClusterKey,
        generation: &GenerationId,
        out: &mut Vec<u8>,
        records: &[u8],
    ) -> Option<()> {
        let mut content = records.to_vec();
        let key = self.key(cluster, generation)?;
        let tag = key.seal_in_place_separate_tag(self.nonce(), Aad::from(&*out), &mut content).ok()?;
        out.extend(content);
        out.extend(tag.as_ref());
        Some(())
    }

    /// Decrypts the output of [`seal`](Proposal::seal), which is authenticated together with `head`.
    pub(super) fn open(
        &self,
        cluster: &ClusterKey,
        generation: &GenerationId,
        head: &[u8],
        content: &[u8],
    ) -> Option<Vec<u8>> {
        let mut content = content.to_vec();
        let key = self.key(cluster, generation)?;
        let length = key.open_in_place(self.nonce(), Aad::from(head), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}
