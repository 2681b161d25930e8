//! Work of a writer, of a replaced writer, and of a promoted server that does not know yet whether it is the writer.

use super::Defect;
use super::data::{Data, Role};
use super::oracle::Fact;
use super::server::{Mode, Process, Request, Sent, Work, answer};
use crate::replica::{EpochName, FenceAnswer};

impl Process {
    /// Works on all requests that wait. `epoch` is a new name.
    pub(super) fn work(&mut self, data: &mut Data, epoch: EpochName, sent: &mut Vec<Sent>) {
        match self.mode {
            Mode::Writer { .. } => {
                let batch = std::mem::take(&mut self.queue);
                self.write(batch, data, sent);
            }
            Mode::Replica(_) => self.follow(data, epoch, sent),
            Mode::Replaced | Mode::Undecided => {
                let mut requests = std::mem::take(&mut self.queue).into_iter();
                while let Some(request) = requests.next() {
                    if let Work::Promote { without_supplier: true } = request.work {
                        self.promote(epoch, false, data, sent);
                        self.queue.extend(requests);
                        return;
                    }
                    self.refuse(request, data, sent);
                }
            }
        }
    }

    /// Makes the changes of a batch in one commit, and answers the requests after the commit.
    pub(super) fn write(&mut self, batch: Vec<Request>, data: &mut Data, sent: &mut Vec<Sent>) {
        let role = data.role;
        let mut answers = Vec::new();
        for request in batch {
            let is_success = match request.work {
                Work::Change(change) => {
                    data.append(change);
                    true
                }
                Work::Fence(epoch) => {
                    let replaced_by = match self.has(Defect::SeveralFences) {
                        true => role.replaced_by(),
                        false => data.role.replaced_by(),
                    };
                    let answer = data.lineage.fence(replaced_by, epoch);
                    if answer == FenceAnswer::Stops {
                        data.role = Role::Replaced(epoch);
                    }
                    answer != FenceAnswer::Refused
                }
                Work::Promote { .. } => false,
            };
            answers.push((request.sender, is_success));
        }
        let is_replaced = data.role.replaced_by();
        if let Some(epoch) = is_replaced {
            sent.push(Sent::Fact(stopped(data, epoch)));
            if self.has(Defect::FenceForgotten) || self.has(Defect::FenceIgnored) {
                data.role = role;
            }
            if !self.has(Defect::FenceIgnored) {
                self.mode = Mode::Replaced;
            }
        }
        for (sender, is_success) in answers {
            answer(sender, is_success.then(|| data.position()), data, sent);
        }
    }

    /// Answers a request while this server does not write. An undecided server stops if it is asked to.
    fn refuse(&mut self, request: Request, data: &mut Data, sent: &mut Vec<Sent>) {
        let is_success = match request.work {
            Work::Fence(epoch) => match data.lineage.fence(data.role.replaced_by(), epoch) {
                FenceAnswer::Refused => false,
                FenceAnswer::Unchanged => true,
                FenceAnswer::Stops => {
                    data.role = Role::Replaced(epoch);
                    self.mode = Mode::Replaced;
                    sent.push(Sent::Fact(stopped(data, epoch)));
                    true
                }
            },
            _ => false,
        };
        answer(request.sender, is_success.then(|| data.position()), data, sent);
    }
}

fn stopped(data: &Data, epoch: EpochName) -> Fact {
    Fact::Stopped { own: data.lineage.epochs().last().map(|own| own.id), epoch }
}
