//! Checks of the promises: what clients may see, which changes may be lost, and which servers may write.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{Response, Token};
use super::data::{Data, ServerId};
use super::figures::{Case, Figures};
use crate::lineage::Relation;
use crate::replica::{EpochName, Refusal};
use crate::simulation::Violation;

/// Event inside a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fact {
    /// The server has agreed to write no more in its epoch `own`, because another server begins `epoch`.
    Stopped { own: Option<EpochName>, epoch: EpochName },
    /// The server became the writer.
    Promoted { epoch: EpochName, is_planned: bool },
    /// The server refused a read because the position of its token is lost.
    Lost { token: Token },
    /// The supplier's records began before the next position.
    Overlap,
    /// The outcome of a decided change is unknown, because the connection to the supplier broke.
    Unknown,
}

pub(super) struct Oracle {
    /// Acknowledged changes that must not be lost.
    acknowledged: BTreeSet<u64>,
    /// The server that was promoted last. It must have all changes in `acknowledged`.
    pub(super) authority: ServerId,
    /// Servers that stopped for an epoch.
    stopped: BTreeMap<EpochName, Vec<Stopped>>,
    /// Epochs whose writer has agreed to stop, with the last position of the epoch.
    closed: BTreeMap<Option<EpochName>, u64>,
    /// Writer of each epoch.
    writers: BTreeMap<Option<EpochName>, ServerId>,
    pub(super) figures: Figures,
}

/// Server that has stopped for an epoch.
#[derive(Debug)]
struct Stopped {
    server: ServerId,
    /// Data of the server when it stopped.
    data: Data,
    /// Whether the server was promoted again since it stopped, without its supplier.
    has_resumed: bool,
}

pub(super) fn violation<T>(text: String) -> Result<T, Violation> {
    Err(Violation(text))
}

impl Oracle {
    pub(super) fn new() -> Oracle {
        Oracle {
            acknowledged: BTreeSet::new(),
            authority: 0,
            stopped: BTreeMap::new(),
            closed: BTreeMap::new(),
            writers: BTreeMap::from([(None, 0)]),
            figures: Figures::of_run(),
        }
    }

    /// Checks a fact about the server `id`, whose data is `all[id]`.
    pub(super) fn take(&mut self, id: ServerId, fact: Fact, all: &[Option<&Data>]) -> Result<(), Violation> {
        let Some(data) = all[id] else { return Ok(()) };
        match fact {
            Fact::Stopped { own, epoch } => {
                self.figures.count(Case::Stops);
                let stopped = Stopped { server: id, data: data.clone(), has_resumed: false };
                self.stopped.entry(epoch).or_default().push(stopped);
                self.closed.entry(own).or_insert(data.position());
            }
            Fact::Promoted { epoch, is_planned } => {
                let writer = self.writers.insert(Some(epoch), id);
                if let Some(writer) = writer {
                    return violation(format!("servers {writer} and {id} write in the same epoch"));
                }
                match is_planned {
                    true => self.planned(id, epoch, data)?,
                    false => {
                        self.figures.count(Case::ForcedPromotions);
                        self.becomes_authority(id, data);
                    }
                }
            }
            Fact::Lost { token } => {
                self.figures.count(Case::LostTokens);
                if data.digest(token.position) == Some(token.digest) {
                    return violation(format!("server {id} has what it calls lost: {token:?}"));
                }
            }
            Fact::Overlap => self.figures.count(Case::Overlaps),
            Fact::Unknown => self.figures.count(Case::UnknownOutcomes),
        }
        Ok(())
    }

    /// A planned promotion loses no record of the writer that stopped for it.
    fn planned(&mut self, id: ServerId, epoch: EpochName, data: &Data) -> Result<(), Violation> {
        self.figures.count(Case::PlannedPromotions);
        let stopped = self.stopped.get(&epoch).map(Vec::as_slice).unwrap_or_default();
        let complete: Vec<&Stopped> = stopped.iter().filter(|one| data.begins_with(&one.data)).collect();
        if complete.is_empty() {
            return violation(format!("server {id} at {} lacks records of {stopped:?}", data.position()));
        }
        let is_last = complete.iter().any(|one| one.server == self.authority && !one.has_resumed);
        if is_last {
            if let Some(lost) = self.acknowledged.iter().find(|change| !data.has(**change)) {
                return violation(format!("change {lost} is lost by the promotion of server {id}"));
            }
            self.authority = id;
        }
        Ok(())
    }

    /// A promotion without the supplier loses the changes that the server lacks.
    fn becomes_authority(&mut self, id: ServerId, data: &Data) {
        let before = self.acknowledged.len();
        self.acknowledged.retain(|change| data.has(*change));
        if self.acknowledged.len() < before {
            self.figures.count(Case::LostChanges);
        }
        self.authority = id;
        let all = self.stopped.values_mut().flatten();
        all.filter(|one| one.server == id).for_each(|one| one.has_resumed = true);
    }

    /// Checks a server's answer to a client. The client sent its token and perhaps a change.
    pub(super) fn answered(
        &mut self,
        id: ServerId,
        (token, change): (Option<Token>, Option<u64>),
        response: Response,
        all: &[Option<&Data>],
    ) -> Result<(), Violation> {
        match response {
            Response::Changed(_) => self.acknowledged(id, change.unwrap_or_default(), all),
            Response::Read(shown) => {
                self.figures.count(Case::Reads);
                let Some(token) = token else { return Ok(()) };
                if shown.position < token.position {
                    return violation(format!("server {id} at {} went back from {token:?}", shown.position));
                }
                match all[id].and_then(|data| data.digest(token.position)) == Some(token.digest) {
                    true => Ok(()),
                    false => violation(format!("server {id} shows other records than those of {token:?}")),
                }
            }
            Response::Busy => {
                self.figures.count(Case::Busy);
                Ok(())
            }
            Response::Unavailable => {
                self.figures.count(Case::Unavailable);
                Ok(())
            }
            Response::Lost => Ok(()),
        }
    }

    /// Checks the acknowledgement of a change by the server `id`.
    fn acknowledged(&mut self, id: ServerId, change: u64, all: &[Option<&Data>]) -> Result<(), Violation> {
        self.figures.count(Case::Acknowledged);
        let Some(data) = all[id] else { return Ok(()) };
        let Some(position) = (1..=data.position()).rev().find(|at| data.change(*at) == Some(change)) else {
            return violation(format!("server {id} acknowledges change {change}, which it does not show"));
        };
        let epoch = data.lineage.epoch_of(position);
        if self.closed.get(&epoch).is_some_and(|last| position > *last) {
            return violation(format!("change {change} at {position} was made after its writer had stopped"));
        }
        if all[self.authority].is_some_and(|data| data.has(change)) {
            self.acknowledged.insert(change);
        } else if self.figures.of(Case::ForcedPromotions) == 0 {
            return violation(format!("server {id} acknowledges change {change}, which the writer lacks"));
        }
        Ok(())
    }

    /// Checks the data of all servers. Runs after every event.
    pub(super) fn check(&self, all: &[Option<&Data>]) -> Result<(), Violation> {
        let present = || all.iter().enumerate().filter_map(|(id, data)| Some((id, (*data)?)));
        for (one, supplier) in present() {
            for (other, replica) in present().filter(|(other, _)| *other != one) {
                let relation =
                    supplier.lineage.judge(supplier.position(), &replica.lineage, replica.position());
                if relation == Relation::Continues && !supplier.begins_with(replica) {
                    return violation(format!(
                        "servers {one} and {other} agree by their lineages, but not by their records: {supplier:?} \
                         {replica:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the server with authority has all changes that must be kept.
    pub(super) fn check_acknowledged(&self, all: &[Option<&Data>]) -> Result<(), Violation> {
        let Some(data) = all[self.authority] else { return violation("the writer has no data".to_owned()) };
        match self.acknowledged.iter().find(|change| !data.has(**change)) {
            Some(lost) => violation(format!("server {} lacks change {lost}", self.authority)),
            None => Ok(()),
        }
    }

    /// Checks the refusal of a supplier to send records.
    pub(super) fn refused(
        &mut self,
        refusal: Refusal,
        supplier: &Data,
        replica: &Data,
    ) -> Result<(), Violation> {
        match refusal {
            Refusal::Trimmed(_) => self.figures.count(Case::Trimmed),
            Refusal::Replaced => self.figures.count(Case::Replaced),
            Refusal::Diverged(_) => {
                self.figures.count(Case::Diverged);
                if supplier.begins_with(replica) {
                    return violation(format!(
                        "histories that agree are called different: {supplier:?} {replica:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
