//! Faults, what the administrator does during them, and how the administrator brings all servers together at the end.

use super::{Event, QUIET, SERVERS, World};
use crate::replica::Refusal;
use crate::replica_simulation::client::{Read, Response};
use crate::replica_simulation::data::{Data, ServerId};
use crate::replica_simulation::figures::Case;
use crate::replica_simulation::oracle::violation;
use crate::replica_simulation::server::{Mode, Request, Sender, Work};
use crate::simulation::Violation;

impl World {
    pub(super) fn inject_fault(&mut self) -> Result<(), Violation> {
        if !self.has_faults {
            return Ok(());
        }
        let next = self.rng.u64(1_000..30_000);
        self.schedule(next, Event::Fault);
        let server = self.rng.usize(..SERVERS);
        let long = self.rng.u64(1_000..100_000);
        match self.rng.u8(..24) {
            0..4 => {
                self.crash(server)?;
                self.schedule(long, Event::Start { server });
            }
            4..7 => {
                self.oracle.figures.count(Case::Cuts);
                self.nodes[server].cut_until = self.now + long;
            }
            7..9 => {
                if let Some(data) = &mut self.nodes[server].data {
                    data.first = self.rng.u64(data.first..=data.position() + 1);
                }
            }
            9..13 => self.promote(server, false)?,
            13 => self.promote(server, true)?,
            14..17 => self.new_supplier(server)?,
            17..19 => self.move_address(server)?,
            19 => self.remove_table(server)?,
            _ => self.mend(server)?,
        }
        Ok(())
    }

    fn mode(&self, server: ServerId) -> Option<&Mode> {
        self.nodes[server].process.as_ref().map(|process| &process.mode)
    }

    fn promote(&mut self, server: ServerId, without_supplier: bool) -> Result<(), Violation> {
        if matches!(self.mode(server), None | Some(Mode::Writer { .. })) {
            return Ok(());
        }
        // Often two administrators promote different servers at once.
        let other = self.rng.usize(..SERVERS);
        let is_twice = self.has_faults && !without_supplier && self.rng.bool();
        for server in std::iter::once(server).chain(is_twice.then_some(other)) {
            let incarnation = self.incarnation_of(server);
            let request = Request { sender: Sender::Other, work: Work::Promote { without_supplier } };
            self.give(server, incarnation, |process, _, _| process.queue.push(request))?;
        }
        Ok(())
    }

    /// Restarts a server with this supplier in its node file.
    fn restart_with(&mut self, server: ServerId, supplier: Option<ServerId>) -> Result<(), Violation> {
        self.crash(server)?;
        self.nodes[server].table = supplier;
        self.start(server);
        Ok(())
    }

    /// Returns a supplier for a server: mostly the present writer, sometimes any other server.
    fn choose_supplier(&mut self, server: ServerId) -> ServerId {
        let (authority, other) = (self.oracle.authority, self.rng.usize(..SERVERS - 1));
        match self.rng.u8(..3) {
            0 if authority != server => authority,
            _ => (server + 1 + other) % SERVERS,
        }
    }

    /// Gives a replica or a replaced writer another supplier.
    fn new_supplier(&mut self, server: ServerId) -> Result<(), Violation> {
        if !matches!(self.mode(server), Some(Mode::Replica(_) | Mode::Replaced)) {
            return Ok(());
        }
        self.oracle.figures.count(Case::NewSuppliers);
        let supplier = self.choose_supplier(server);
        self.restart_with(server, Some(supplier))
    }

    /// The address of the supplier now leads to another server. The connections break, and no process restarts.
    fn move_address(&mut self, server: ServerId) -> Result<(), Violation> {
        let (supplier, now) = (self.choose_supplier(server), self.now);
        if !matches!(self.mode(server), Some(Mode::Replica(_))) {
            return Ok(());
        }
        self.oracle.figures.count(Case::MovedAddresses);
        self.nodes[server].table = Some(supplier);
        let incarnation = self.incarnation_of(server);
        self.give(server, incarnation, |process, data, sent| {
            process.supplier = Some(supplier);
            process.break_connections(data, sent);
            process.connect(data, now, sent);
        })
    }

    /// Removes the supplier from the node file of a server that was promoted.
    fn remove_table(&mut self, server: ServerId) -> Result<(), Violation> {
        match self.mode(server) {
            Some(Mode::Writer { watches: true } | Mode::Undecided) => self.restart_with(server, None),
            _ => Ok(()),
        }
    }

    /// Returns the reason why a server does not follow its supplier.
    fn halted(&self, server: ServerId) -> Option<Refusal> {
        self.nodes[server].process.as_ref()?.replica()?.halted
    }

    /// Deletes the data of a server that has halted, so that the server receives a copy of the writer's data.
    fn mend(&mut self, server: ServerId) -> Result<(), Violation> {
        let needs_copy = matches!(self.halted(server), Some(Refusal::Trimmed(_) | Refusal::Diverged(_)));
        if !needs_copy || server == self.oracle.authority {
            return Ok(());
        }
        self.crash(server)?;
        if server == self.oracle.authority {
            // It was promoted in its last commit.
            self.start(server);
            return Ok(());
        }
        self.nodes[server].data = None;
        self.nodes[server].table = Some(self.oracle.authority);
        self.start(server);
        Ok(())
    }

    /// Ends the faults. The administrator makes the server with authority the writer, and the other servers its
    /// replicas, in a chain. Servers that cannot follow get copies. Then all servers must be equal, and changes and
    /// reads must succeed.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        self.has_faults = false;
        for server in 0..SERVERS {
            self.crash(server)?;
            self.nodes[server].cut_until = 0;
        }
        let writer = self.oracle.authority;
        let has_role = self.nodes[writer].data.as_ref().is_some_and(|data| data.role.may_write());
        self.nodes[writer].table = (!has_role).then_some((writer + 1) % SERVERS);
        self.start(writer);
        if !has_role {
            let incarnation = self.incarnation_of(writer);
            let request = Request { sender: Sender::Other, work: Work::Promote { without_supplier: true } };
            self.give(writer, incarnation, |process, _, _| process.queue.push(request))?;
            self.run_until(self.now + QUIET)?;
            self.restart_with(writer, None)?;
        }
        let mut supplier = writer;
        for server in (0..SERVERS).filter(|server| *server != writer) {
            self.restart_with(server, Some(supplier))?;
            supplier = if server % 2 == 0 { server } else { writer };
        }
        for _ in 0..SERVERS {
            self.run_until(self.now + QUIET)?;
            for server in (0..SERVERS).filter(|server| *server != writer) {
                self.mend(server)?;
                if matches!(self.mode(server), Some(Mode::Writer { .. } | Mode::Replaced)) {
                    // A promoted server asks its former supplier at each start. That supplier may have learned only
                    // now of the present writer.
                    let table = self.nodes[server].table;
                    self.restart_with(server, table)?;
                }
            }
        }
        self.clients.iter_mut().for_each(|client| client.is_finished = true);
        self.run_until(self.now + QUIET)?;
        self.check_settled(writer)?;
        // Two promotions in turn, without a change between them, leave all servers equal.
        let one = (writer + self.rng.usize(1..SERVERS)) % SERVERS;
        let other = (one + self.rng.usize(1..SERVERS)) % SERVERS;
        self.promote_in_peace(one)?;
        self.promote_in_peace(other)
    }

    /// Promotes a replica while there are no faults, and makes the other servers its replicas.
    fn promote_in_peace(&mut self, server: ServerId) -> Result<(), Violation> {
        self.promote(server, false)?;
        self.run_until(self.now + QUIET)?;
        if !matches!(self.mode(server), Some(Mode::Writer { .. })) {
            return violation(format!("server {server} is not promoted: {:?}", self.all()));
        }
        for other in (0..SERVERS).filter(|other| *other != server) {
            self.restart_with(other, Some(server))?;
        }
        self.run_until(self.now + QUIET)?;
        self.check_settled(server)
    }

    /// Checks that all servers have the data of the writer, and that the writer makes changes.
    fn check_settled(&mut self, writer: ServerId) -> Result<(), Violation> {
        let all = self.all();
        self.oracle.check_acknowledged(&all)?;
        let Some(expected) = all[writer] else { return violation("the writer has no data".to_owned()) };
        for (id, data) in all.iter().enumerate() {
            let is_equal = data.is_some_and(|data| {
                let is_complete = data.position() == expected.position() && data.begins_with(expected);
                let is_known = data.lineage == expected.lineage || self.stores_epochs_late;
                is_complete && is_known
            });
            if !is_equal {
                let halted = self.halted(id);
                return violation(format!(
                    "server {id} does not reach the writer {writer}: {halted:?} {all:?}"
                ));
            }
        }
        let has_role = expected.role.may_write() && matches!(self.mode(writer), Some(Mode::Writer { .. }));
        if !has_role || self.oracle.authority != writer {
            return violation(format!("server {writer} does not write: {:?}; {all:?}", self.mode(writer)));
        }
        self.last_reads(&expected.clone())
    }

    /// Without faults, each client is answered: its token is shown or lost.
    fn last_reads(&mut self, data: &Data) -> Result<(), Violation> {
        for client in 0..self.clients.len() {
            let state = &mut self.clients[client];
            (state.number, state.outstanding) = (state.number + 1, Some(None));
            let (number, token) = (state.number, state.token);
            let read = Read { client, number, token, until: self.now };
            for server in 0..SERVERS {
                let mut sent = Vec::new();
                let Some(process) = &self.nodes[server].process else { continue };
                let response = process.read_response(&read, data, self.now, &mut sent);
                if response.is_none_or(|response| response == Response::Busy) {
                    return violation(format!("server {server} does not answer {token:?}: {response:?}"));
                }
            }
        }
        Ok(())
    }
}
