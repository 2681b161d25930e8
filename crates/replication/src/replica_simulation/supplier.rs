//! The part of a server that answers requests for records and reads.

use super::Defect;
use super::client::{Read, Response, Token};
use super::data::Data;
use super::oracle::Fact;
use super::server::{LogAnswer, LogRequest, Process, Request, Sender, Sent, Work};
use crate::lineage::Lineage;
use crate::replica::{Reach, Refusal, RetainedLog};

impl Process {
    /// Handles a request for records. If the replica knows a later writer, this server is asked to stop.
    pub(super) fn take_log_request(&mut self, request: LogRequest, data: &Data) {
        let replaced = data.lineage.refusal(data.retained_log(), &request.lineage, request.position);
        if replaced == Some(Refusal::Replaced)
            && !self.has(Defect::LineageIgnored)
            && let Some(last) = request.lineage.epochs().last()
        {
            self.queue.push(Request { sender: Sender::Other, work: Work::Fence(last.id) });
        }
        self.log_requests.push(request);
    }

    /// Answers the requests for records and the reads that need not wait.
    pub(super) fn answer_ready(&mut self, data: &Data, now: u64, sent: &mut Vec<Sent>) {
        let requests = std::mem::take(&mut self.log_requests);
        for request in requests {
            match self.log_answer(&request, data, now) {
                Some(answer) => sent.push(Sent::LogAnswer { to: request.caller, answer }),
                None => self.log_requests.push(request),
            }
        }
        let reads = std::mem::take(&mut self.reads);
        for read in reads {
            match self.read_response(&read, data, now, sent) {
                Some(response) => {
                    sent.push(Sent::Response { client: read.client, number: read.number, response });
                }
                None => self.reads.push(read),
            }
        }
    }

    fn log_answer(&self, request: &LogRequest, data: &Data, now: u64) -> Option<LogAnswer> {
        let (lineage, position) = (data.lineage.clone(), request.position);
        let refused = |refusal| {
            Some(LogAnswer {
                request_position: position,
                incarnation: self.incarnation,
                lineage: data.lineage.clone(),
                part: Err(refusal),
            })
        };
        let refusal = match self.has(Defect::LineageIgnored) {
            true => Lineage::default().refusal(data.retained_log(), &Lineage::default(), position),
            false => lineage.refusal(data.retained_log(), &request.lineage, position),
        };
        if let Some(refusal) = refusal {
            return refused(refusal);
        }
        let RetainedLog { first, newest } = data.retained_log();
        let is_other = request.last.is_some() && first <= position && data.change(position) != request.last;
        if is_other && !self.has(Defect::LineageIgnored) {
            return refused(Refusal::Diverged(position));
        }
        if newest == position && request.until > now {
            return None;
        }
        let part = Ok((position + 1, data.records(position + 1, request.count)));
        Some(LogAnswer { request_position: position, incarnation: self.incarnation, lineage, part })
    }

    pub(super) fn read_response(
        &self,
        read: &Read,
        data: &Data,
        now: u64,
        sent: &mut Vec<Sent>,
    ) -> Option<Response> {
        let reach = match read.token {
            None => Reach::Shown,
            Some(_) if self.has(Defect::StaleRead) => Reach::Shown,
            Some(token) if self.has(Defect::TokenWithoutEpoch) => {
                if data.position() >= token.position {
                    Reach::Shown
                } else {
                    Reach::Later
                }
            }
            Some(token) => data.lineage.reach(data.position(), token.position, token.epoch),
        };
        match reach {
            Reach::Shown => Some(Response::Read(Token::of(data))),
            Reach::Later if read.until > now => None,
            Reach::Later => Some(Response::Busy),
            Reach::Lost => {
                if let Some(token) = read.token {
                    sent.push(Sent::Fact(Fact::Lost { token }));
                }
                Some(Response::Lost)
            }
        }
    }
}
