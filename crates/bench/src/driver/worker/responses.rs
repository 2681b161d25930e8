//! Matches answers with their requests, checks them and counts them. Also handles broken connections.

use super::requests::{SlotKey, put_sasl_bind};
use super::{
    ATTEMPTS_MAX, MESSAGE_LEN_MAX, PendingStep, READ_SIZE, RETRY_NANOS, SASL_BIND_IN_PROGRESS, Worker,
};
use crate::driver::answers::{Answer, is_same_dn};
use crate::driver::line::{ReadEnd, State};
use crate::driver::plan::{On, PlannedOperation, PlannedStep};
use crate::driver::tally::Ending;

impl Worker<'_> {
    pub(super) fn receive(&mut self, index: usize) {
        loop {
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = self.lines[index].read(&mut buffer, READ_SIZE);
            let end = match read {
                Ok((len, end)) => {
                    if let Err(why) = self.take(index, &buffer[..len]) {
                        self.lost(index, &why);
                    }
                    end
                }
                Err(error) => {
                    self.lost(index, &format!("a connection broke while reading: {error}"));
                    ReadEnd::Drained
                }
            };
            self.buffer = buffer;
            match end {
                ReadEnd::Drained => return,
                ReadEnd::Closed => {
                    if self.lines[index].state.is_open() {
                        self.lost(index, "the server closed a connection");
                    }
                    return;
                }
                ReadEnd::More => {}
            }
        }
    }

    /// Handles the messages of one read. All of them count as received at the time of the read.
    pub(super) fn take(&mut self, index: usize, octets: &[u8]) -> Result<(), String> {
        let now = self.now();
        let mut rest = octets;
        let no_ldap = |error: ber::BerError| format!("the server sent what is no LDAP: {error}");
        while !rest.is_empty() {
            match Answer::read(rest).map_err(no_ldap)? {
                None if rest.len() > MESSAGE_LEN_MAX => {
                    return Err("the server sent a message without end".to_owned());
                }
                None => {
                    self.lines[index].keep(rest);
                    break;
                }
                Some((answer, len)) => {
                    rest = rest.get(len..).unwrap_or_default();
                    self.on_answer(index, &answer, now).map_err(no_ldap)?;
                    if self.lines[index].state == State::Handshaking && !rest.is_empty() {
                        return Err("the server sent octets between StartTLS and TLS".to_owned());
                    }
                    // While an answer was handled, the connection may have been closed or replaced. The remaining
                    // answers belong to the old connection and are dropped.
                    if !self.lines[index].state.is_open() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn on_answer(
        &mut self,
        index: usize,
        answer: &Answer<'_>,
        now: u64,
    ) -> Result<(), ber::BerError> {
        if let state @ (State::Binding | State::StartingTls) = self.lines[index].state {
            let (code, diagnostic) = answer.result()?;
            match state {
                State::Binding if code == 0 => self.on_ready(index),
                State::StartingTls if code == 0 => self.secure(index),
                _ => {
                    let what = if state == State::Binding { "the bind of a connection" } else { "StartTLS" };
                    let diagnostic = String::from_utf8_lossy(diagnostic);
                    self.tally.fail(format!("{what} failed with result code {code}: {diagnostic}"));
                    self.give_up(index);
                }
            }
            return Ok(());
        }
        let client = &self.clients[self.lines[index].client];
        let slot = client.slots + (answer.id.max(1) - 1) as usize % client.slot_count;
        if self.slots[slot].id != answer.id || self.slots[slot].line != Some(index) {
            let (id, tag) = (answer.id, answer.tag);
            self.tally
                .fail(format!("an answer to nothing that was asked: message id {id}, operation {tag:#04x}"));
            return Ok(());
        }
        let operation = &self.shared.plan.jobs[client.job].operations[self.slots[slot].operation];
        let step = &operation.steps[self.slots[slot].step];
        if answer.is_entry() {
            self.on_entry(slot, step, operation, answer)
        } else if answer.is_final() {
            self.on_result(index, slot, step, operation, answer, now)
        } else {
            Ok(())
        }
    }

    pub(super) fn on_entry(
        &mut self,
        slot: usize,
        step: &PlannedStep,
        operation: &PlannedOperation,
        answer: &Answer<'_>,
    ) -> Result<(), ber::BerError> {
        self.slots[slot].entries += 1;
        if self.slots[slot].is_found || (step.expected.dn.is_none() && step.expected.attribute.is_none()) {
            return Ok(());
        }
        let key = SlotKey::new(self.shared.plan, operation, self.slots[slot].key);
        let mut text = std::mem::take(&mut self.text);
        let mut is_found = true;
        if let Some(dn) = &step.expected.dn {
            text.clear();
            dn.fill(&key, &mut self.random, &mut text);
            is_found = is_same_dn(answer.entry_dn()?, &text);
        }
        if let Some((name, value)) = &step.expected.attribute {
            text.clear();
            value.fill(&key, &mut self.random, &mut text);
            is_found = is_found && answer.has_value(name, &text)?;
        }
        self.text = text;
        self.slots[slot].is_found = is_found;
        Ok(())
    }

    pub(super) fn on_result(
        &mut self,
        index: usize,
        slot: usize,
        step: &PlannedStep,
        operation: &PlannedOperation,
        answer: &Answer<'_>,
        now: u64,
    ) -> Result<(), ber::BerError> {
        let (code, diagnostic) = answer.result()?;
        if code == SASL_BIND_IN_PROGRESS
            && let Some(mut exchange) = self.slots[slot].exchange.take()
        {
            let challenge = answer.sasl_credentials().unwrap_or_default();
            match exchange.answer(challenge, &mut self.salted) {
                Ok(response) => {
                    let id = self.next_id(slot);
                    let mut message = Vec::new();
                    put_sasl_bind(id, exchange.mechanism(), Some(&response), &mut message);
                    self.slots[slot].exchange = Some(exchange);
                    self.lines[index].push(&message);
                    self.dirty.push(index);
                }
                Err(why) => {
                    self.tally.fail(why.to_owned());
                    self.end_step(index, slot, operation, code, &Ending::Wrong(why), now);
                }
            }
            return Ok(());
        }
        let expected = &step.expected;
        let state = &self.slots[slot];
        let names_one = expected.dn.is_some() || expected.attribute.is_some();
        let ending = if answer.tag != step.answer {
            Ending::Wrong("an answer of another operation")
        } else if code != expected.code {
            Ending::Error(diagnostic)
        } else if step.answer == ldap::response::response_tag::SEARCH_DONE.0
            && !expected.entries.allows(state.entries)
        {
            Ending::Wrong("another number of entries")
        } else if names_one && !state.is_found && code == 0 {
            Ending::Wrong("not the entry asked for")
        } else if let Some(exchange) = &state.exchange
            && !exchange.is_proven(answer.sasl_credentials())
        {
            Ending::Wrong("the server has not proven that it knows the password")
        } else if step.page.is_some() && answer.cookie().is_none() {
            Ending::Wrong("a page without a cookie")
        } else {
            Ending::Right
        };
        if step.page.is_some() {
            // No further pages are requested after the end.
            let goes_on = matches!(ending, Ending::Right) && !self.is_draining && self.schedule.is_open(now);
            let cookie = answer.cookie().filter(|_| goes_on).unwrap_or_default();
            let slot_cookie = &mut self.slots[slot].cookie;
            slot_cookie.clear();
            slot_cookie.extend_from_slice(cookie);
        }
        self.end_step(index, slot, operation, code, &ending, now);
        Ok(())
    }

    /// Counts a step, and continues with the next step or the next operation.
    pub(super) fn end_step(
        &mut self,
        index: usize,
        slot: usize,
        operation: &PlannedOperation,
        code: u32,
        ending: &Ending<'_>,
        now: u64,
    ) {
        self.active -= 1;
        let is_right = matches!(ending, Ending::Right);
        let state = &mut self.slots[slot];
        state.line = None;
        state.exchange = None;
        let step = &operation.steps[state.step];
        let next = if state.cookie.is_empty() { state.step + 1 } else { state.step };
        let is_last = next == operation.steps.len() || !is_right;
        let job = self.clients[state.client].job;
        let is_open_loop = self.jobs[job].interval.is_some();
        if !operation.is_one || is_last {
            // A rate counts the answers in the measured time. In an open loop, latencies are recorded for all
            // operations that were due in the measured time, however late the answer came. Leaving out late answers
            // would make the server look better than it is.
            let is_answered_in_time = self.tally.is_measured(now);
            let was_due =
                if is_open_loop { self.tally.is_measured(state.intended) } else { is_answered_in_time };
            if is_answered_in_time && state.intended != u64::MAX {
                self.tally.answered(operation.kind_index, code, state.entries, ending);
                self.last = now;
            }
            if was_due && is_right && state.intended != u64::MAX {
                self.tally.took(operation.kind_index, now.saturating_sub(state.intended));
            }
        }
        if is_right && step.answer == ldap::response::response_tag::ADD.0 {
            self.added.push_back(state.key);
        }
        match step.on {
            On::Main => {}
            On::Bind => self.next_bind(index),
            On::New => {
                self.lines[index].push(&UNBIND);
                let _ = self.lines[index].flush();
                self.lines[index].close();
                self.lines[index].attempts = 0;
            }
        }
        let state = &mut self.slots[slot];
        if !is_last && operation.is_one {
            // The operation has more steps. Its entries are counted when its last step ends.
            state.is_found = false;
            state.step = next;
            return self.issue(slot);
        }
        if !is_last && !state.cookie.is_empty() {
            // The slot continues with the next page of the same search.
            if !is_open_loop {
                state.intended = now;
                return self.issue(slot);
            }
        } else {
            if !is_last {
                state.pending.push(PendingStep { operation: state.operation, step: next, key: state.key });
            }
            state.step = 0;
        }
        if is_open_loop {
            self.jobs[job].free.push_back(slot);
            if !self.is_draining {
                self.pump(now);
            }
        } else if !self.is_draining && self.schedule.is_open(now) {
            self.start(slot, now);
        } else {
            self.jobs[job].free.push_back(slot);
        }
    }

    /// Marks a bind connection as free, and sends the next queued bind on it.
    pub(super) fn next_bind(&mut self, index: usize) {
        let line = &mut self.lines[index];
        line.is_busy = false;
        if let Some(slot) = line.queue.pop_front() {
            line.is_busy = true;
            self.send(slot, index);
        }
    }

    /// Handles the loss of a connection with all its outstanding requests.
    pub(super) fn lost(&mut self, index: usize, why: &str) {
        let line = &mut self.lines[index];
        if matches!(line.state, State::GivenUp) {
            return;
        }
        if line.state.is_opening() {
            self.connecting -= 1;
        }
        let now = self.now();
        let line = &mut self.lines[index];
        line.close();
        self.may_be_down = true;
        let line = &mut self.lines[index];
        line.queue.clear();
        line.attempts += 1;
        line.retry_at = now + (RETRY_NANOS << line.attempts.min(8));
        let is_given_up = line.attempts >= ATTEMPTS_MAX;
        let client = line.client;
        self.tally.closed(why.to_owned());
        for slot in self.clients[client].slots..self.clients[client].slots + self.clients[client].slot_count {
            if self.slots[slot].line != Some(index) {
                continue;
            }
            self.active -= 1;
            let job = self.clients[client].job;
            let state = &mut self.slots[slot];
            let counts = self.jobs[job].interval.is_none() || self.tally.is_measured(state.intended);
            self.tally.unanswered += u64::from(counts);
            state.line = None;
            state.step = 0;
            state.cookie.clear();
            state.exchange = None;
            self.clients[client].parked.push(slot);
        }
        if is_given_up {
            self.give_up(index);
        } else if self.lines[index].on == On::New && self.lines[index].attempts > 0 {
            // The client has no persistent connection, so its next operation opens another connection.
            let now = self.now();
            let job = self.clients[client].job;
            for slot in std::mem::take(&mut self.clients[client].parked) {
                if self.schedule.is_open(now) && !self.is_draining && self.jobs[job].interval.is_none() {
                    self.start(slot, now);
                } else {
                    self.jobs[job].free.push_back(slot);
                }
            }
        }
    }

    pub(super) fn give_up(&mut self, index: usize) {
        let line = &mut self.lines[index];
        if line.state.is_opening() {
            self.connecting -= 1;
        }
        line.close();
        line.state = State::GivenUp;
        self.tally.fail("a connection was given up after repeated failures".to_owned());
    }
}

/// An unbind request as message 1. All earlier requests have been answered, so the message id is free.
const UNBIND: [u8; 7] = [0x30, 0x05, 0x02, 0x01, 0x01, 0x42, 0x00];
