//! Lineage of a replicated directory: the sequence of its writers, with the position at which each writer began.
//!
//! A directory that is replicated without a shared log has one writer. A promotion makes another server the writer and
//! begins an *epoch* at the next position. Random bytes identify the epoch. The list of epochs is the lineage of the
//! data. If [`Lineage::judge`] finds that the lineages and positions of two servers agree, then their records are equal
//! up to the lower position.
//!
//! Only one server writes in an epoch, because the promotion of that server creates the epoch. So equal epochs up to a
//! position imply equal records up to it. A server that has written in an old epoch after its replacement is recognized
//! by its position.

use crate::codec::Reader;

/// Maximum number of epochs of a lineage. Each promotion adds one epoch.
pub const EPOCHS_MAX: usize = 1_024;

/// Bytes of an encoded epoch.
const EPOCH_BYTES: usize = 16 + 8;

/// Period of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterEpoch {
    /// Random name.
    pub id: [u8; 16],
    /// Position of the first record of the epoch.
    pub from: u64,
}

/// Epochs of the data, the oldest first. Records before the first epoch were written by the server that created the
/// data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(Vec<WriterEpoch>);

/// Relation of a consumer's data to the data of its supplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The consumer's records equal the supplier's up to the consumer's position.
    Continues,
    /// The consumer knows a later writer than the supplier does. The supplier must stop writing.
    SupplierReplaced,
    /// The histories differ from this position on.
    Diverged {
        /// The first position that may differ.
        since: u64,
    },
}

impl Lineage {
    /// Decodes a lineage; returns `None` if it is malformed, too long, or its positions descend.
    pub fn decode(bytes: &[u8]) -> Option<Lineage> {
        if bytes.len() > EPOCHS_MAX * EPOCH_BYTES {
            return None;
        }
        let mut reader = Reader(bytes);
        let mut epochs: Vec<WriterEpoch> = Vec::with_capacity(bytes.len() / EPOCH_BYTES);
        while reader.end().is_none() {
            let epoch = WriterEpoch { id: reader.array()?, from: reader.u64()? };
            if epochs.last().is_some_and(|last| last.from > epoch.from) {
                return None;
            }
            epochs.push(epoch);
        }
        Some(Lineage(epochs))
    }

    /// Encodes the lineage. A lineage without epochs has no bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * EPOCH_BYTES);
        for epoch in &self.0 {
            out.extend(epoch.id);
            out.extend(epoch.from.to_be_bytes());
        }
        out
    }

    /// Returns the number of the epoch in force: 1 before the first promotion.
    pub fn number(&self) -> u64 {
        self.0.len() as u64 + 1
    }

    /// Returns the epochs.
    pub fn epochs(&self) -> &[WriterEpoch] {
        &self.0
    }

    /// Returns the relation of a consumer that has applied the records up to `consumer_position`. This lineage and
    /// `position` are those of the consumer's supplier.
    pub fn judge(&self, position: u64, consumer: &Lineage, consumer_position: u64) -> Relation {
        let common = self.common(consumer);
        match (self.0.get(common), consumer.0.get(common)) {
            (None, None) if consumer_position <= position => Relation::Continues,
            // The supplier has lost records, for example because an older copy of its data was restored.
            (None, None) => Relation::Diverged { since: position + 1 },
            (Some(next), None) if consumer_position < next.from => Relation::Continues,
            (Some(next), None) => Relation::Diverged { since: next.from },
            (None, Some(_)) => Relation::SupplierReplaced,
            // Each lineage has a further epoch, but neither of these epochs has a record up to the consumer's position.
            (Some(own), Some(other)) if consumer_position < own.from.min(other.from) => Relation::Continues,
            (Some(own), Some(other)) => Relation::Diverged { since: own.from.min(other.from) },
        }
    }

    /// Returns the number of epochs in the common prefix of both lineages.
    fn common(&self, other: &Lineage) -> usize {
        self.0.iter().zip(&other.0).take_while(|(own, other)| own == other).count()
    }

    /// Returns true if this lineage has an epoch that `other` lacks. The server with the lineage `other` then does not
    /// know of a promotion.
    pub fn has_further_epoch(&self, other: &Lineage) -> bool {
        self.common(other) < self.0.len()
    }

    /// Returns the last epoch if this lineage extends `other`. The server with the lineage `other` then does not know
    /// of a promotion.
    pub fn later_epoch(&self, other: &Lineage) -> Option<&WriterEpoch> {
        let continues = self.common(other) == other.0.len() && self.0.len() > other.0.len();
        self.0.last().filter(|_| continues)
    }

    /// Returns the part of this lineage that a consumer with the records up to `position` adopts. This lineage is that
    /// of the consumer's supplier.
    #[must_use]
    pub fn up_to(&self, position: u64) -> Lineage {
        Lineage(self.0.iter().take_while(|epoch| epoch.from <= position + 1).copied().collect())
    }

    /// Returns the lineage of a server that is promoted at `position`, or `None` if there were too many promotions.
    #[must_use]
    pub fn promoted(&self, position: u64, id: [u8; 16]) -> Option<Lineage> {
        let Lineage(mut epochs) = self.up_to(position);
        epochs.push(WriterEpoch { id, from: position + 1 });
        (epochs.len() <= EPOCHS_MAX).then_some(Lineage(epochs))
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(epochs: &[(u8, u64)]) -> Lineage {
        Lineage(epochs.iter().map(|(id, from)| WriterEpoch { id: [*id; 16], from: *from }).collect())
    }

    #[test]
    fn a_lineage_decodes_as_encoded_and_invalid_ones_are_refused() {
        let known = lineage(&[(1, 5), (2, 5), (3, 9)]);
        assert_eq!(Lineage::decode(&known.encode()), Some(known.clone()));
        assert_eq!(Lineage::decode(b""), Some(Lineage::default()));
        assert_eq!(known.number(), 4);
        let bytes = known.encode();
        assert_eq!(Lineage::decode(&bytes[1..]), None);
        assert_eq!(Lineage::decode(&lineage(&[(1, 5), (2, 4)]).encode()), None, "positions descend");
        assert_eq!(Lineage::decode(&vec![0; EPOCH_BYTES * (EPOCHS_MAX + 1)]), None);
        let mut most = Lineage::default();
        for _ in 0..EPOCHS_MAX {
            most = most.promoted(7, [1; 16]).unwrap();
        }
        assert_eq!(most.promoted(7, [1; 16]), None);
    }

    #[test]
    fn finds_an_epoch_that_the_other_lineage_lacks() {
        let check = |own: &[(u8, u64)], other: &[(u8, u64)]| lineage(own).has_further_epoch(&lineage(other));
        assert!(!check(&[], &[(1, 9)]), "the former supplier, which knows of no promotion");
        assert!(!check(&[(1, 9)], &[(1, 9)]), "it follows the promoted server");
        assert!(check(&[(1, 9), (2, 9)], &[(1, 9)]), "it was promoted later");
        assert!(check(&[(3, 4)], &[(1, 9)]), "both were promoted from the same data");
        let later = |own: &[(u8, u64)], other: &[(u8, u64)]| {
            lineage(own).later_epoch(&lineage(other)).map(|epoch| epoch.id[0])
        };
        assert_eq!(later(&[(1, 9), (2, 9), (3, 12)], &[(1, 9)]), Some(3));
        assert_eq!(later(&[(1, 9)], &[(1, 9)]), None);
        assert_eq!(later(&[], &[(1, 9)]), None);
        assert_eq!(later(&[(3, 4), (4, 6)], &[(1, 9)]), None, "neither continues the other");
    }

    #[test]
    fn consumers_are_judged_by_epochs_and_positions() {
        let check = |supplier: &[(u8, u64)], at: u64, consumer: &[(u8, u64)], position: u64, expected| {
            let found = lineage(supplier).judge(at, &lineage(consumer), position);
            assert_eq!(found, expected, "{supplier:?} at {at}, {consumer:?} at {position}");
        };
        let diverged = |since| Relation::Diverged { since };
        check(&[], 10, &[], 0, Relation::Continues);
        check(&[], 10, &[], 10, Relation::Continues);
        check(&[], 10, &[], 11, diverged(11));
        // The supplier was promoted at position 8. A consumer with records up to that position may follow it. A
        // consumer with later records has records of the old writer.
        check(&[(1, 9)], 20, &[], 8, Relation::Continues);
        check(&[(1, 9)], 20, &[], 9, diverged(9));
        // In the reverse direction, the supplier is a replaced writer, whatever its position is.
        check(&[], 5, &[(1, 9)], 20, Relation::SupplierReplaced);
        check(&[], 50, &[(1, 9)], 8, Relation::SupplierReplaced);
        // Two copies of the same data were promoted.
        check(&[(1, 9)], 20, &[(2, 12)], 11, diverged(9));
        check(&[(1, 9), (2, 15)], 20, &[(1, 9)], 14, Relation::Continues);
        // Regression test: a server was promoted and made no change before its replica was promoted. The server was
        // reported as diverged, because the replica had not stored the server's epoch.
        check(&[(1, 9)], 20, &[(2, 9)], 8, Relation::Continues);
        check(&[(1, 9)], 20, &[(2, 9)], 9, diverged(9));
    }
}
