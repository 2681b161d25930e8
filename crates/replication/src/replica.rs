//! Decisions of servers that replicate a directory without a shared log. The decisions determine the answer of a
//! supplier to a request for records, the answer of a writer to a request to stop, the progress of a replica, and
//! whether a server can serve a read that requires a position.
//!
//! The module `replica_simulation` runs these decisions with servers that fail.

use crate::lineage::{Lineage, Relation};

/// Name of an epoch.
pub type EpochName = [u8; 16];

/// Part of the log that a supplier has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedLog {
    /// Position of the oldest record, or the position after `newest` if the log is empty.
    pub first: u64,
    /// Position of the last record, or the position of the data if the log is empty.
    pub newest: u64,
}

/// Reason why a supplier sends no records to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The replica knows a later writer than the supplier does.
    Replaced,
    /// The histories differ from this position on.
    Diverged(u64),
    /// The log begins at this position, which is after the next record that the replica needs. The replica needs a copy
    /// of the data.
    Trimmed(u64),
}

/// Answer of a server to the request to stop writing. The request is sent because another server begins an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAnswer {
    /// The server stores the epoch's name and stops. Then it answers with success.
    Stops,
    /// The server has already stopped for this epoch, or its lineage contains the epoch. The server answers with
    /// success and changes nothing.
    Unchanged,
    /// The server has stopped for another epoch. It refuses the request.
    Refused,
}

/// Relation of a server's data to the position that a read requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The data includes the state at that position.
    Shown,
    /// The data may include that state later.
    Later,
    /// The promotion of a server that lacked that state has lost the state. Later data never includes it.
    Lost,
}

/// Whether a replica's data shows a change that another server has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The data shows the change.
    Shown,
    /// The records with the change have not arrived yet.
    Later,
    /// The connection to the supplier broke. Another server may be the supplier now, and may lack the change.
    Unknown,
}

/// Knowledge that a replica has of its supplier when it forwards a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardBasis {
    /// Number of the connection whose records the replica applies.
    connection: u64,
    /// Lineage of the supplier in its last answer on that connection.
    lineage: Lineage,
}

/// Position of a replica in the log of its supplier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    position: u64,
    lineage: Lineage,
    /// Lineage of the supplier in its last answer.
    theirs: Lineage,
    /// Number of the present connection, if there is one.
    connection: Option<u64>,
    /// Whether the supplier has sent records on the present connection. Only then are the replica's records a prefix of
    /// the supplier's records, so that positions of the two servers can be compared.
    is_confirmed: bool,
}

impl Lineage {
    /// Returns the reason to send no records to a replica that has the records up to `position`. This lineage belongs
    /// to the supplier. If there is no reason, the caller must still compare the digest of the replica's last record.
    pub fn refusal(&self, log: RetainedLog, replica: &Lineage, position: u64) -> Option<Refusal> {
        match self.judge(log.newest, replica, position) {
            Relation::SupplierReplaced => Some(Refusal::Replaced),
            Relation::Diverged { since } => Some(Refusal::Diverged(since)),
            Relation::Continues => (log.first > position + 1).then_some(Refusal::Trimmed(log.first)),
        }
    }

    /// Answers a request to stop writing. `replaced_by` is the epoch for which the server has already stopped, perhaps
    /// by an earlier request in the same commit.
    pub fn fence(&self, replaced_by: Option<EpochName>, epoch: EpochName) -> FenceAnswer {
        match replaced_by {
            Some(other) if other == epoch => FenceAnswer::Unchanged,
            Some(_) => FenceAnswer::Refused,
            // The request is from a replica that does not know the later epochs yet.
            None if self.epochs().iter().any(|own| own.id == epoch) => FenceAnswer::Unchanged,
            None => FenceAnswer::Stops,
        }
    }

    /// Returns the name of the epoch in which the record at `position` was written; `None` before the first epoch.
    pub fn epoch_of(&self, position: u64) -> Option<EpochName> {
        self.epochs().iter().rfind(|epoch| epoch.from <= position).map(|epoch| epoch.id)
    }

    /// Returns whether a read that requires the record at `position` of the epoch `epoch`
    /// ([`epoch_of`](Lineage::epoch_of)) can be served by data with this lineage at the position `shown`.
    pub fn reach(&self, shown: u64, position: u64, epoch: Option<EpochName>) -> Reach {
        let mut later = self.epochs().iter();
        if let Some(epoch) = epoch
            && !later.any(|own| own.id == epoch)
        {
            // This server does not know the epoch, so it cannot compare its positions with `position`. It may learn of
            // the epoch later.
            return Reach::Later;
        }
        match later.next() {
            Some(next) if next.from <= position => Reach::Lost,
            _ if shown >= position => Reach::Shown,
            _ => Reach::Later,
        }
    }
}

impl Progress {
    /// Creates the progress of a replica that starts at `position`.
    pub fn new(position: u64, lineage: Lineage) -> Progress {
        Progress { position, theirs: lineage.clone(), lineage, connection: None, is_confirmed: false }
    }

    /// Returns the position of the last applied record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the lineage at the position.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Records that a connection to the supplier begins. This supplier may have other records than the previous
    /// supplier.
    pub fn connected(&mut self, connection: u64) {
        (self.connection, self.is_confirmed) = (Some(connection), false);
    }

    /// Records that the connection ended, or that the supplier refused to send records.
    pub fn disconnected(&mut self) {
        (self.connection, self.is_confirmed) = (None, false);
    }

    /// Returns the progress after a commit of `count` records that begin at the position `first` and arrived on the
    /// connection `connection`. `theirs` is the supplier's lineage. Returns `None` if `first` is not the next position:
    /// earlier records were applied after the request was sent, so the supplier has not compared them. The replica must
    /// then request records again.
    #[must_use]
    pub fn after(&self, connection: u64, first: u64, count: u64, theirs: &Lineage) -> Option<Progress> {
        let position = self.position + count;
        (first == self.position + 1).then(|| Progress {
            position,
            lineage: theirs.up_to(position),
            theirs: theirs.clone(),
            connection: self.connection,
            // Records of an earlier connection say nothing about the present supplier.
            is_confirmed: self.connection == Some(connection),
        })
    }

    /// Returns the state of the supplier as this replica knows it. The caller stores the result with a change that it
    /// forwards. Returns `None` if no change can be forwarded, because the supplier's records may differ from the
    /// records of the replica.
    pub fn basis(&self) -> Option<ForwardBasis> {
        let connection = self.connection.filter(|_| self.is_confirmed)?;
        Some(ForwardBasis { connection, lineage: self.theirs.clone() })
    }

    /// Returns whether the replica's data shows the change that the supplier has decided at `position`. `basis` is from
    /// the time when the change was forwarded.
    pub fn visibility(&self, basis: &ForwardBasis, position: u64) -> Visibility {
        // Another connection may lead to a server with other records. The epoch in which the change was decided is
        // not known, so it cannot be compared with the epoch of the replica's record at `position`.
        if self.connection != Some(basis.connection) {
            Visibility::Unknown
        } else if self.position < position {
            Visibility::Later
        } else {
            Visibility::Shown
        }
    }

    /// Returns whether this replica can be promoted after the writer has stopped at `position`. `basis` is from the
    /// time when the writer was asked to stop.
    pub fn may_promote(&self, basis: &ForwardBasis, position: u64) -> Visibility {
        match self.visibility(basis, position) {
            // Meanwhile another server was promoted, or the writer was promoted again. The new writer has not been
            // asked to stop. In a chain, `position` may belong to the new epoch already.
            Visibility::Shown if self.lineage.has_further_epoch(&basis.lineage) => Visibility::Unknown,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: EpochName = [1; 16];
    const SECOND: EpochName = [2; 16];

    fn lineage(epochs: &[(EpochName, u64)]) -> Lineage {
        let bytes: Vec<u8> =
            epochs.iter().flat_map(|(id, from)| [&id[..], &from.to_be_bytes()].concat()).collect();
        Lineage::decode(&bytes).unwrap()
    }

    #[test]
    fn a_writer_stops_for_one_epoch_only() {
        let known = lineage(&[(FIRST, 5)]);
        assert_eq!(known.fence(None, SECOND), FenceAnswer::Stops);
        assert_eq!(known.fence(None, FIRST), FenceAnswer::Unchanged);
        assert_eq!(known.fence(Some(SECOND), SECOND), FenceAnswer::Unchanged);
        assert_eq!(known.fence(Some([3; 16]), SECOND), FenceAnswer::Refused);
    }

    #[test]
    fn positions_are_mapped_to_epochs() {
        let known = lineage(&[(FIRST, 5), (SECOND, 9)]);
        assert_eq!(
            [4, 5, 8, 9].map(|position| known.epoch_of(position)),
            [None, Some(FIRST), Some(FIRST), Some(SECOND)]
        );
        let check = |shown, position, epoch, expected| {
            assert_eq!(known.reach(shown, position, epoch), expected, "{position} {epoch:?} at {shown}");
        };
        check(20, 4, None, Reach::Shown);
        check(3, 4, None, Reach::Later);
        check(20, 5, None, Reach::Lost);
        check(20, 8, Some(FIRST), Reach::Shown);
        check(20, 9, Some(FIRST), Reach::Lost);
        check(20, 21, Some(SECOND), Reach::Later);
        check(20, 9, Some(SECOND), Reach::Shown);
        check(20, 9, Some([3; 16]), Reach::Later);
    }

    #[test]
    fn a_supplier_that_lacks_the_next_record_refuses_the_request() {
        let (own, log) = (lineage(&[(FIRST, 9)]), RetainedLog { first: 6, newest: 12 });
        let check = |of: &[(EpochName, u64)], position, expected| {
            assert_eq!(own.refusal(log, &lineage(of), position), expected, "{of:?} at {position}");
        };
        check(&[], 5, None);
        check(&[], 4, Some(Refusal::Trimmed(6)));
        check(&[], 9, Some(Refusal::Diverged(9)));
        check(&[(FIRST, 9), (SECOND, 11)], 10, Some(Refusal::Replaced));
    }

    #[test]
    fn progress_is_confirmed_on_each_connection() {
        let mut progress = Progress::new(7, Lineage::default());
        progress.connected(1);
        assert_eq!(progress.basis(), None, "the supplier has not compared the records yet");
        assert_eq!(progress.after(1, 7, 3, &Lineage::default()), None);
        let theirs = lineage(&[(FIRST, 8), (SECOND, 11)]);
        progress = progress.after(1, 8, 0, &theirs).unwrap();
        assert_eq!((progress.position(), progress.lineage()), (7, &lineage(&[(FIRST, 8)])));
        let basis = progress.basis().unwrap();
        let check = |progress: &Progress, position, expected| {
            assert_eq!(progress.visibility(&basis, position), expected, "{position} in {progress:?}");
        };
        check(&progress, 7, Visibility::Shown);
        check(&progress, 8, Visibility::Later);
        assert_eq!(progress.may_promote(&basis, 7), Visibility::Shown, "the writer has made no change yet");
        let before = ForwardBasis { lineage: Lineage::default(), ..basis.clone() };
        assert_eq!(
            progress.may_promote(&before, 7),
            Visibility::Unknown,
            "the writer was promoted meanwhile"
        );
        progress.connected(2);
        progress = progress.after(1, 8, 0, &theirs).unwrap();
        check(&progress, 7, Visibility::Unknown);
        assert_eq!(progress.basis(), None, "the records are from the last connection");
        progress = progress.after(2, 8, 5, &lineage(&[(FIRST, 8), ([3; 16], 10)])).unwrap();
        check(&progress, 12, Visibility::Unknown);
        assert_ne!(progress.basis(), Some(basis));
    }
}
