//! Comparison of replicas with their supplier. A replica and its supplier share no log. One comparison covers one slice
//! of the data: a range of rows. Nodes of a cluster compare slices in the same way.
//!
//! The supplier sets a [`Mark`]: a slice of the rows, and the position of the supplier's newest record. No replica has
//! a record beyond that position yet, so each replica can stop at the position and read the slice in that state.
//! Replicas receive the mark together with records. Each replica sends its digests with a later request for records.
//! The supplier computes its own digests once for all replicas.
//!
//! Encodings (integers are big-endian, and a length (4) precedes each text):
//!
//! - report: position (8), beginning and end of the slice, number of parts (4), and for each part its name and digest
//!   (32);
//! - notice: flags (1), then the items whose flags are set. Flag 1 is for a mark: position (8), beginning and end of
//!   the slice. Flag 2 is for a verdict (1): 0 pending, 1 unknown, 2 compared, with the number (4) and names of the
//!   parts that differ.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::codec::{Reader, put_length};
use crate::digest::{self, Parts, put_parts, read_parts};
use crate::limits::{COMPARISONS_KEPT, DIFFERENCES_MAX, DIGEST_PARTS_MAX};
use crate::operation::NodeId;
use crate::round::{Slice, put_slice, read_slice};

const HAS_MARK: u8 = 1;
const HAS_VERDICT: u8 = 2;

/// Slice that supplier and replicas compare at one position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Position of the last record that the compared data contains.
    pub position: u64,
    /// The slice.
    pub slice: Slice,
}

/// Digests of a replica at a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The mark.
    pub mark: Mark,
    /// Digests by part of the data.
    pub parts: Parts,
}

/// Answer to a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The supplier has not computed its digests yet. The replica must send the report again.
    Pending,
    /// The supplier has dropped the mark of the report.
    Unknown,
    /// The slices were compared. The set has the names of the parts that differ; it is empty if the slices are equal.
    Compared(BTreeSet<String>),
}

/// Information about comparisons in an answer to a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The newest mark, if the replica has no record beyond the mark's position.
    pub mark: Option<Mark>,
    /// Answer to the report in the request.
    pub verdict: Option<Verdict>,
}

/// The latest marks of a supplier, with the supplier's digests at these marks.
#[derive(Debug, Default)]
pub struct Marks {
    /// Point at which the next slice begins. Empty if the next slice begins a round.
    next: Vec<u8>,
    set: VecDeque<(Mark, Option<Parts>)>,
}

/// Results of the comparisons of a replica.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Slices in which the replica differs from the supplier, with the names of the parts that differ in each slice.
    differing: Vec<(Slice, BTreeSet<String>)>,
    /// End of the data that the present round has found equal, from the beginning of the data and without a gap.
    /// `None` if the last slice differed or did not continue the previous slice.
    equal_up_to: Option<Vec<u8>>,
    comparisons: u64,
    rounds: u64,
}

impl Mark {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.position.to_be_bytes());
        put_slice(out, &self.slice);
    }

    fn read(reader: &mut Reader<'_>) -> Option<Mark> {
        Some(Mark { position: reader.u64()?, slice: read_slice(reader)? })
    }
}

impl Report {
    /// Decodes a report; returns `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Report> {
        let mut reader = Reader(bytes);
        Some(Report { mark: Mark::read(&mut reader)?, parts: read_parts(&mut reader)? })
    }

    /// Encodes the report.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.mark.put(&mut out);
        put_parts(&mut out, &self.parts);
        out
    }
}

impl Notice {
    /// Decodes a notice; returns `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Notice> {
        let mut reader = Reader(bytes);
        if bytes.is_empty() {
            return Some(Notice::default());
        }
        let flags = reader.u8().filter(|flags| *flags <= HAS_MARK | HAS_VERDICT)?;
        let mark = match flags & HAS_MARK {
            0 => None,
            _ => Some(Mark::read(&mut reader)?),
        };
        let verdict = match flags & HAS_VERDICT {
            0 => None,
            _ => Some(read_verdict(&mut reader)?),
        };
        reader.end()?;
        Some(Notice { mark, verdict })
    }

    /// Encodes the notice. The encoding of an empty notice is empty.
    pub fn encode(&self) -> Vec<u8> {
        let Notice { mark, verdict } = self;
        if mark.is_none() && verdict.is_none() {
            return Vec::new();
        }
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        let mut out = vec![flag(mark.is_some(), HAS_MARK) | flag(verdict.is_some(), HAS_VERDICT)];
        if let Some(mark) = mark {
            mark.put(&mut out);
        }
        match verdict {
            None => {}
            Some(Verdict::Pending) => out.push(0),
            Some(Verdict::Unknown) => out.push(1),
            Some(Verdict::Compared(parts)) => {
                out.push(2);
                put_length(&mut out, parts.len());
                for part in parts {
                    put_length(&mut out, part.len());
                    out.extend(part.as_bytes());
                }
            }
        }
        out
    }
}

fn read_verdict(reader: &mut Reader<'_>) -> Option<Verdict> {
    match reader.u8()? {
        0 => Some(Verdict::Pending),
        1 => Some(Verdict::Unknown),
        2 => {
            let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= DIGEST_PARTS_MAX)?;
            let mut part = || Some(std::str::from_utf8(reader.bytes()?).ok()?.to_owned());
            Some(Verdict::Compared((0..count).map(|_| part()).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

impl Marks {
    /// Returns the point at which the next slice begins.
    pub fn next(&self) -> &[u8] {
        &self.next
    }

    /// Sets the mark of the next slice. No replica may have received records beyond the mark's position.
    pub fn set(&mut self, mark: Mark) {
        self.next.clone_from(&mark.slice.to);
        self.set.push_back((mark, None));
        while self.set.len() > COMPARISONS_KEPT {
            self.set.pop_front();
        }
    }

    /// Records the supplier's own digests at a mark.
    pub fn summed(&mut self, mark: &Mark, parts: Parts) {
        if let Some((_, own)) = self.set.iter_mut().find(|(of, _)| of == mark) {
            *own = Some(parts);
        }
    }

    /// Returns the newest mark, if a replica that has the records up to `position` can still stop at the mark.
    pub fn for_replica(&self, position: u64) -> Option<&Mark> {
        self.set.back().map(|(mark, _)| mark).filter(|mark| position <= mark.position)
    }

    /// Returns the verdict on a replica's report, by comparison with the supplier's digests.
    pub fn judge(&self, report: &Report) -> Verdict {
        match self.set.iter().find(|(mark, _)| *mark == report.mark) {
            None => Verdict::Unknown,
            Some((_, None)) => Verdict::Pending,
            Some((_, Some(own))) => Verdict::Compared(differing(own, &report.parts)),
        }
    }
}

/// Returns the parts in which the digests of two servers differ.
fn differing(own: &Parts, theirs: &Parts) -> BTreeSet<String> {
    let both = [NodeId(1), NodeId(2)];
    let reported = BTreeMap::from([(both[0], own.clone()), (both[1], theirs.clone())]);
    // Two servers have no majority, so every difference is disputed.
    digest::compare(&BTreeSet::from(both), &reported).disputed
}

impl Findings {
    /// Records that a slice was compared and that `parts` differ in it. Returns true if a part differs that did not
    /// differ in any slice before.
    ///
    /// A recorded difference is removed when a slice that covers the differing slice is equal, or when all slices of a
    /// round are equal. The second rule is needed because the bounds of slices move as rows are added.
    pub fn take(&mut self, slice: Slice, parts: BTreeSet<String>) -> bool {
        self.comparisons += 1;
        let is_new = {
            let known = self.parts();
            parts.iter().any(|part| !known.contains(part.as_str()))
        };
        self.differing.retain(|(of, _)| !slice.covers(of));
        if !parts.is_empty() {
            self.equal_up_to = None;
            self.differing.truncate(DIFFERENCES_MAX - 1);
            self.differing.push((slice, parts));
            return is_new;
        }
        let continues = slice.from.is_empty() || self.equal_up_to.as_ref() == Some(&slice.from);
        self.equal_up_to = (continues && !slice.to.is_empty()).then(|| slice.to.clone());
        if continues && slice.to.is_empty() {
            self.rounds += 1;
            self.differing.clear();
        }
        false
    }

    /// Returns the parts that differ.
    pub fn parts(&self) -> BTreeSet<&str> {
        self.differing.iter().flat_map(|(_, parts)| parts.iter().map(String::as_str)).collect()
    }

    /// Returns the number of slices that were compared.
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Returns the number of rounds in which all data was compared and equal.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::RollingDigest;

    fn slice(from: &[u8], to: &[u8]) -> Slice {
        Slice { from: from.to_vec(), to: to.to_vec() }
    }

    fn parts(rows: &[(&str, &[u8])]) -> Parts {
        let mut parts = Parts::new();
        rows.iter().for_each(|(part, row)| parts.entry((*part).to_owned()).or_default().add(b"key", row));
        parts
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn messages_are_decoded_and_truncated_ones_are_refused() {
        let mark = Mark { position: 7, slice: slice(b"e1", b"") };
        let report = Report { mark: mark.clone(), parts: parts(&[("o=a", b"1"), ("o=b", b"2")]) };
        let bytes = report.encode();
        assert_eq!(Report::decode(&bytes), Some(report));
        assert!((0..bytes.len()).all(|end| Report::decode(&bytes[..end]).is_none()));
        let verdicts = [Verdict::Pending, Verdict::Unknown, Verdict::Compared(names(&["o=a", "o=b"]))];
        for verdict in verdicts.map(Some).into_iter().chain([None]) {
            for mark in [None, Some(mark.clone())] {
                let notice = Notice { mark, verdict: verdict.clone() };
                let bytes = notice.encode();
                assert_eq!(Notice::decode(&bytes), Some(notice));
                // An empty encoding is an empty notice. A notice that is truncated to at least one byte is invalid.
                assert!((1..bytes.len()).all(|end| Notice::decode(&bytes[..end]).is_none()));
            }
        }
        // A slice that ends before it begins is invalid, and so is an unknown flag.
        let backwards = Mark { position: 7, slice: slice(b"e2", b"e1") };
        assert_eq!(Notice::decode(&Notice { mark: Some(backwards), verdict: None }.encode()), None);
        assert_eq!(Notice::decode(&[4]), None);
    }

    #[test]
    fn a_supplier_compares_the_digests_that_replicas_report() {
        let mut marks = Marks::default();
        assert_eq!((marks.next(), marks.for_replica(0)), (&b""[..], None));
        let first = Mark { position: 10, slice: slice(b"", b"e5") };
        marks.set(first.clone());
        assert_eq!(marks.next(), b"e5");
        // A replica that has passed the position can no longer read the rows at that position.
        assert_eq!((marks.for_replica(10), marks.for_replica(11)), (Some(&first), None));
        let own = parts(&[("o=a", b"1"), ("o=b", b"2")]);
        let report = |mark: &Mark, parts| Report { mark: mark.clone(), parts };
        assert_eq!(marks.judge(&report(&first, own.clone())), Verdict::Pending);
        marks.summed(&first, own.clone());
        assert_eq!(marks.judge(&report(&first, own.clone())), Verdict::Compared(names(&[])));
        let other = parts(&[("o=a", b"1"), ("o=b", b"3"), ("o=c", b"4")]);
        assert_eq!(marks.judge(&report(&first, other)), Verdict::Compared(names(&["o=b", "o=c"])));
        let unset = Mark { position: 9, ..first.clone() };
        assert_eq!(marks.judge(&report(&unset, own.clone())), Verdict::Unknown);
        for position in 11..11 + COMPARISONS_KEPT as u64 {
            marks.set(Mark { position, slice: slice(b"e5", b"") });
        }
        assert_eq!(marks.judge(&report(&first, own)), Verdict::Unknown, "only the latest marks are kept");
        assert_eq!(RollingDigest::default(), RollingDigest::of_bytes([0; 32]));
    }

    #[test]
    fn a_difference_remains_until_its_slice_or_a_whole_round_is_equal() {
        let mut found = Findings::default();
        let none = || names(&[]);
        assert!(!found.take(slice(b"", b"e5"), none()));
        assert!(found.take(slice(b"e5", b""), names(&["o=a"])));
        assert!(!found.take(slice(b"e5", b""), names(&["o=a"])), "the difference is already known");
        assert_eq!((found.rounds(), found.parts()), (0, BTreeSet::from(["o=a"])));
        // First an unrelated slice is equal. Then a slice that covers the differing slice is equal.
        found.take(slice(b"", b"e6"), none());
        assert_eq!(found.parts().len(), 1);
        found.take(slice(b"e4", b""), none());
        assert_eq!((found.rounds(), found.parts().len()), (0, 0));
        // These slices have other bounds and do not form a round.
        assert!(found.take(slice(b"e2", b"e5"), names(&["o=b"])));
        for (from, to) in [(&b"e3"[..], &b""[..]), (b"", b"e3"), (b"e4", b""), (b"", b"e3")] {
            found.take(slice(from, to), none());
        }
        assert_eq!((found.rounds(), found.parts().len()), (0, 1), "no round was complete");
        found.take(slice(b"e3", b""), none());
        assert_eq!((found.rounds(), found.parts().len()), (1, 0));
    }
}
