//! A model of servers that follow each other without a shared log. In random order they write, receive records, are
//! promoted with or without their supplier, restart, and are restored from backups. Suppliers are chosen at random, so
//! chains and cycles occur. The model behaves like `server/src/workers/{replica,log_reader}`: a consumer requests
//! records with its position and lineage, and on a new connection also with a digest of its last record.

use super::{Lineage, Relation};

const SERVERS: usize = 5;
const STEPS: u32 = 300;

/// A server. Its records are unique numbers; in the real log, position and time make a record unique.
#[derive(Clone, Default)]
struct Server {
    records: Vec<u32>,
    lineage: Lineage,
    role: Role,
    /// The server that this server follows, and whether the two have compared the last record on the present
    /// connection.
    supplier: Option<(usize, bool)>,
    backup: Option<(Vec<u32>, Lineage, Role)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Replica,
    Writer,
    /// Another server began the epoch with this name, so this server makes no changes.
    Replaced([u8; 16]),
}

/// Number of occurrences of each case.
#[derive(Debug, Default)]
struct Counts {
    continued: u32,
    diverged: u32,
    other_last_record: u32,
    replaced: u32,
    planned: u32,
}

struct Model {
    servers: Vec<Server>,
    rng: fastrand::Rng,
    counts: Counts,
    step: u32,
    /// Whether a backup was restored.
    is_restored: bool,
}

impl Server {
    fn position(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the length of the common prefix of the records of both servers.
    fn common_prefix(&self, other: &Server) -> u64 {
        self.records.iter().zip(&other.records).take_while(|(own, other)| own == other).count() as u64
    }
}

impl Model {
    /// Ends a server's process and the connections of its replicas.
    fn restart(&mut self, server: usize) {
        for (number, one) in self.servers.iter_mut().enumerate() {
            if let Some((supplier, is_compared)) = &mut one.supplier
                && (*supplier == server || number == server)
            {
                *is_compared = false;
            }
        }
    }

    fn promote(&mut self, number: usize, epoch: [u8; 16]) {
        let server = &mut self.servers[number];
        server.lineage = server.lineage.promoted(server.position(), epoch).unwrap();
        server.role = Role::Writer;
        server.supplier = None;
    }

    /// A consumer requests records from its supplier and applies the first of these records.
    fn pull(&mut self, number: usize, records_max: usize) {
        let Some((supplier, is_compared)) = self.servers[number].supplier else { return };
        let (consumer, theirs) = (self.servers[number].clone(), self.servers[supplier].clone());
        let position = consumer.position();
        match theirs.lineage.judge(theirs.position(), &consumer.lineage, position) {
            Relation::SupplierReplaced => {
                let epoch = consumer.lineage.epochs().last().unwrap().id;
                if self.servers[supplier].role == Role::Writer {
                    self.servers[supplier].role = Role::Replaced(epoch);
                }
                self.counts.replaced += 1;
            }
            Relation::Diverged { since } => {
                // A writer that was restored from a backup reuses positions of the epoch for other records.
                let agree = theirs.common_prefix(&consumer);
                let is_known = self.is_restored || since <= agree + 1;
                assert!(is_known, "step {}: {since}, but they agree up to {agree}", self.step);
                self.counts.diverged += 1;
            }
            Relation::Continues => {
                let last = consumer.records.last();
                if !is_compared && last != theirs.records[..consumer.records.len()].last() {
                    self.counts.other_last_record += 1;
                    return;
                }
                let known = consumer.records.len();
                assert_eq!(consumer.records, theirs.records[..known], "step {}", self.step);
                let more = records_max.min(theirs.records.len() - known);
                let consumer = &mut self.servers[number];
                consumer.records = theirs.records[..known + more].to_vec();
                consumer.lineage = theirs.lineage.up_to(consumer.position());
                consumer.supplier = Some((supplier, true));
                self.counts.continued += 1;
            }
        }
    }

    /// Promotes a replica after the writer at the end of its chain of suppliers was stopped. The replica first receives
    /// the writer's remaining records.
    fn promote_planned(&mut self, number: usize) {
        let epoch = self.rng.u128(..).to_be_bytes();
        let (mut writer, mut chain) = (number, vec![number]);
        while let Some((supplier, _)) = self.servers[writer].supplier {
            if chain.contains(&supplier) {
                return;
            }
            writer = supplier;
            chain.push(supplier);
        }
        if writer == number || self.servers[writer].role != Role::Writer {
            return;
        }
        self.servers[writer].role = Role::Replaced(epoch);
        let last = self.servers[writer].records.clone();
        chain.iter().rev().for_each(|server| self.pull(*server, usize::MAX));
        // A server of the chain could not continue, so the promotion fails. The administrator must then promote by
        // force.
        if self.servers[number].records != last {
            return;
        }
        self.promote(number, epoch);
        assert_eq!(self.servers[number].records, last, "nothing that was acknowledged is lost");
        self.counts.planned += 1;
    }

    fn run_step(&mut self) {
        let one = self.rng.usize(..SERVERS);
        let step = self.step;
        match self.rng.u32(..40) {
            0..12 if self.servers[one].role == Role::Writer => self.servers[one].records.push(step),
            0..30 => {
                let records_max = self.rng.usize(..4);
                self.pull(one, records_max);
            }
            30..33 => {
                // A replaced writer becomes a replica; the current writer does not.
                let supplier = self.rng.usize(..SERVERS);
                if supplier != one && self.servers[one].role != Role::Writer {
                    self.servers[one].role = Role::Replica;
                    self.servers[one].supplier = Some((supplier, false));
                }
            }
            33 => self.promote_planned(one),
            34 if self.servers[one].role != Role::Writer => {
                let epoch = self.rng.u128(..).to_be_bytes();
                self.promote(one, epoch);
            }
            35 | 36 => self.restart(one),
            37 => {
                let Server { records, lineage, role, .. } = self.servers[one].clone();
                self.servers[one].backup = Some((records, lineage, role));
            }
            38 => {
                if let Some((records, lineage, role)) = self.servers[one].backup.clone() {
                    self.is_restored = true;
                    let server = &mut self.servers[one];
                    (server.records, server.lineage, server.role) = (records, lineage, role);
                    if role == Role::Writer {
                        server.supplier = None;
                    }
                    self.restart(one);
                }
            }
            _ => {}
        }
    }
}

/// A consumer that continues always has a prefix of its supplier's records, even after restores from backups. A planned
/// promotion loses no records. A replaced supplier stops writing.
#[test]
fn a_continuing_consumer_has_a_prefix_of_its_suppliers_records() {
    let seed = std::env::var("PANDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("PANDO_TEST_SEED={seed}");
    let mut model = Model {
        servers: Vec::new(),
        rng: fastrand::Rng::with_seed(seed),
        counts: Counts::default(),
        step: 0,
        is_restored: false,
    };
    for _ in 0..400 {
        model.servers = vec![Server::default(); SERVERS];
        model.servers[0].role = Role::Writer;
        model.is_restored = false;
        (1..SERVERS).for_each(|number| model.servers[number].supplier = Some((number - 1, false)));
        for step in 0..STEPS {
            model.step = step;
            model.run_step();
        }
    }
    let Counts { continued, diverged, other_last_record, replaced, planned } = model.counts;
    let rare = [diverged, other_last_record, replaced, planned].into_iter().min();
    assert!(continued > 1_000 && rare > Some(50), "{:?}", model.counts);
}
