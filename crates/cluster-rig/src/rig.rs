//! The rig: brokers and nodes, with their network and disks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafka_broker::{Brokers, Surroundings};

use crate::Result;
use crate::disks::Disks;
use crate::net::{Cut, Net, Party};
use crate::nodes::Nodes;

pub(crate) const BROKERS: usize = 3;
pub(crate) const NODES: usize = 3;

/// Network between brokers and nodes, and their disks.
#[derive(Default)]
pub(crate) struct Infrastructure {
    pub(crate) net: Net,
    pub(crate) disks: Disks,
}

impl Surroundings for Infrastructure {
    fn before(&self, index: usize, port: u16) -> io::Result<u16> {
        let proxy = self.net.before(Party::Broker(index), ([127, 0, 0, 1], port).into())?;
        Ok(proxy.port())
    }

    fn place(&self, _: usize, data: &Path) -> io::Result<()> {
        self.disks.make(data)
    }
}

/// The whole rig. Fields are dropped in their order, so processes end before the disks that they use.
pub(crate) struct Rig {
    pub(crate) nodes: Nodes,
    pub(crate) brokers: Brokers,
    around: Arc<Infrastructure>,
}

impl Rig {
    /// Starts brokers, and nodes that run `program` on new data.
    pub(crate) fn start(program: PathBuf, folder: &Path) -> Result<Rig> {
        let around = Arc::<Infrastructure>::default();
        let brokers = Brokers::start_in(BROKERS, folder, &*around)?;
        let nodes = Nodes::new(program, folder, brokers.bootstrap(), Some(Arc::clone(&around)));
        let mut rig = Rig { nodes, brokers, around };
        (0..BROKERS).for_each(|broker| rig.register(broker));
        rig.nodes.found()?;
        (1..NODES).try_for_each(|_| rig.nodes.join().map(drop))?;
        Ok(rig)
    }

    /// Registers the process of a broker with the network.
    fn register(&self, broker: usize) {
        if let Some(process) = self.brokers.process(broker) {
            self.around.net.runs(Party::Broker(broker), process);
        }
    }

    /// Restarts a broker.
    pub(crate) fn restart_broker(&mut self, broker: usize) -> Result<()> {
        self.brokers.restart(broker)?;
        self.register(broker);
        Ok(())
    }

    /// Cuts connections, runs `done`, and repairs the connections.
    pub(crate) fn cut_while(&self, cut: Cut, done: impl FnOnce() -> Result<()>) -> Result<()> {
        let net = &self.around.net;
        net.cut(cut);
        let done = done();
        let delayed = net.delayed();
        net.mend();
        done?;
        if delayed == 0 { Err(format!("{cut:?} held nothing up").into()) } else { Ok(()) }
    }

    /// Keeps the data of all processes for inspection.
    pub(crate) fn keep(self) {
        let disks = self.around.disks.keep();
        if !disks.is_empty() {
            eprintln!("cluster: afterwards: umount {}", disks.join(" "));
        }
    }

    /// Returns true if nodes and brokers have disks that can be filled.
    pub(crate) fn has_disks(&self) -> bool {
        self.around.disks.has(&self.nodes.disk(1))
    }

    /// Fills the disk of a node or broker, runs `done`, and makes room again.
    pub(crate) fn fill_while(&self, whose: Party, done: impl FnOnce() -> Result<()>) -> Result<()> {
        let disk = match whose {
            Party::Node(node) => self.nodes.disk(node),
            Party::Broker(broker) => self.brokers.data(broker),
        };
        self.around.disks.fill(&disk)?;
        let done = done();
        self.around.disks.clear(&disk)?;
        done
    }
}
