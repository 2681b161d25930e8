//! Requests: draws operations, takes keys, and writes messages.

use std::sync::atomic::Ordering;

use super::{DRAWS_MAX, PendingStep, Worker};
use crate::driver::keys::{DataKey, KeyStream};
use crate::driver::pattern::Key;
use crate::driver::plan::{On, Plan, PlannedKeys, PlannedOperation, Requests};
use crate::driver::request::page_controls;
use crate::driver::sasl::Exchange;

impl Worker<'_> {
    /// Starts an operation, or the next step or page of an operation.
    pub(super) fn start(&mut self, slot: usize, intended: u64) {
        let client = self.slots[slot].client;
        if !self.is_ready(client) {
            self.clients[client].parked.push(slot);
            return;
        }
        let job = self.clients[client].job;
        if self.slots[slot].step == 0 && self.slots[slot].cookie.is_empty() {
            let Some(PendingStep { operation, step, key }) = self.draw(job, slot) else {
                // No operation or key is left for this slot.
                self.jobs[job].free.push_back(slot);
                return;
            };
            let state = &mut self.slots[slot];
            (state.operation, state.step, state.key) = (operation, step, key);
        }
        self.slots[slot].intended = intended;
        self.issue(slot);
    }

    /// Draws an operation by weight, and a key for it. If a step of that operation is still pending in the slot,
    /// returns the pending step instead.
    fn draw(&mut self, job: usize, slot: usize) -> Option<PendingStep> {
        let planned = &self.shared.plan.jobs[job];
        for _ in 0..DRAWS_MAX {
            let operation = match planned.operations.as_slice() {
                [_] => 0,
                operations => {
                    let mut left = self.random.below(planned.weight as usize) as u64;
                    operations.iter().position(|operation| {
                        let is_it = left < operation.weight;
                        left = left.saturating_sub(operation.weight);
                        is_it
                    })?
                }
            };
            let pending = &mut self.slots[slot].pending;
            if let Some(index) = pending.iter().position(|pending| pending.operation == operation) {
                return Some(pending.swap_remove(index));
            }
            let key = match &planned.operations[operation].keys {
                PlannedKeys::Sequence { .. } => {
                    self.jobs[job].streams[operation].as_mut().map(KeyStream::next_position)
                }
                PlannedKeys::New => Some(self.shared.plan.next_new.fetch_add(1, Ordering::Relaxed)),
                PlannedKeys::Added => self.added.pop_front(),
            };
            if let Some(key) = key {
                return Some(PendingStep { operation, step: 0, key });
            }
        }
        None
    }

    /// Sends a slot's request, or queues it if the connection allows only one request at a time and is busy.
    pub(super) fn issue(&mut self, slot: usize) {
        self.active += 1;
        let client = &self.clients[self.slots[slot].client];
        let state = &mut self.slots[slot];
        let operation = &self.shared.plan.jobs[client.job].operations[state.operation];
        let on = operation.steps[state.step].on;
        if state.step == 0 || !operation.is_one {
            state.entries = 0;
            state.is_found = false;
        }
        let line = if on == On::Main { client.main } else { client.bind };
        let Some(index) = line else { return };
        self.slots[slot].line = Some(index);
        match on {
            On::Main => self.send(slot, index),
            On::Bind if self.lines[index].is_busy => self.lines[index].queue.push_back(slot),
            On::Bind => {
                self.lines[index].is_busy = true;
                self.send(slot, index);
            }
            On::New => {
                self.lines[index].queue.push_back(slot);
                self.connect(index);
            }
        }
    }

    pub(super) fn next_id(&mut self, slot: usize) -> i32 {
        let client = &mut self.clients[self.slots[slot].client];
        let count = client.slot_count as i32;
        client.next_sequence =
            if client.next_sequence >= i32::MAX / count - 1 { 0 } else { client.next_sequence + 1 };
        let id = client.next_sequence * count + (slot - client.slots) as i32 + 1;
        self.slots[slot].id = id;
        id
    }

    /// Writes a slot's request.
    pub(super) fn send(&mut self, slot: usize, index: usize) {
        let id = self.next_id(slot);
        let state = &self.slots[slot];
        let plan = self.shared.plan;
        let operation = &plan.jobs[self.clients[state.client].job].operations[state.operation];
        let key = SlotKey::new(plan, operation, state.key);
        let step = &operation.steps[state.step];
        match &step.request {
            Requests::Template(template) => {
                let controls = step.page.map(|size| page_controls(size.get(), &state.cookie));
                self.scratch.clear();
                let controls = controls.as_deref().unwrap_or_default();
                template.write(id, &key, controls, &mut self.random, &mut self.scratch);
                self.lines[index].push(self.scratch.written());
            }
            Requests::Listed(list) => {
                if let Some(template) = list.get(state.key as usize) {
                    self.scratch.clear();
                    template.write(id, &key, &[], &mut self.random, &mut self.scratch);
                    self.lines[index].push(self.scratch.written());
                }
            }
            Requests::Sasl(sasl) => {
                let (mut user, mut password) = (Vec::new(), Vec::new());
                sasl.user.fill(&key, &mut self.random, &mut user);
                sasl.password.fill(&key, &mut self.random, &mut password);
                let mut exchange = Exchange::new(sasl.mechanism, user, password, self.random.next_u64());
                let mut message = Vec::new();
                put_sasl_bind(id, exchange.mechanism(), exchange.first().as_deref(), &mut message);
                self.slots[slot].exchange = Some(Box::new(exchange));
                self.lines[index].push(&message);
            }
        }
        self.dirty.push(index);
    }
}

/// The key of a slot: an entry of the data, or the number of one of the workload's own entries.
pub(super) struct SlotKey<'a> {
    data: DataKey<'a>,
    number: u64,
}

impl<'a> SlotKey<'a> {
    pub(super) fn new(plan: &'a Plan, operation: &PlannedOperation, key: u64) -> SlotKey<'a> {
        let number = match operation.keys {
            PlannedKeys::Sequence { is_own: false, .. } => plan.data.first + key,
            PlannedKeys::Sequence { is_own: true, .. } => plan.own_first + key,
            PlannedKeys::New | PlannedKeys::Added => key,
        };
        let position = if plan.data.count > 0 { key % plan.data.count } else { 0 };
        SlotKey { data: DataKey { data: &plan.data, position }, number }
    }
}

impl Key for SlotKey<'_> {
    fn number(&self) -> u64 {
        self.number
    }

    fn part(&self, parts: u64) -> u64 {
        self.data.part(parts)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.data.column(column)
    }
}

pub(super) fn put_sasl_bind(id: i32, mechanism: &str, credentials: Option<&[u8]>, out: &mut Vec<u8>) {
    let authentication = ldap::Authentication::Sasl { mechanism, credentials };
    let request = ldap::Request::Bind(ldap::BindRequest { version: 3, name: "", authentication });
    ldap::Message { id: ldap::MessageId(id), request, controls: ldap::Controls::NONE }.encode(out);
}
