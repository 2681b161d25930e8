//! Copies of the data for new replicas.

use super::{Event, World};
use crate::lineage::Lineage;
use crate::replica_simulation::Defect;
use crate::replica_simulation::data::{Role, ServerId};
use crate::replica_simulation::figures::Case;

/// Number of parts of a copy.
const PARTS: u8 = 3;

impl World {
    /// Requests the next part of a copy for a server without data. The supplier makes a consistent copy. The supplier
    /// makes another copy if its log no longer has all records after the first copy.
    pub(super) fn copy(&mut self, server: ServerId) {
        let Some(supplier) = self.nodes[server].table else { return };
        if self.nodes[server].data.is_some() {
            return;
        }
        let is_cut = [server, supplier].iter().any(|id| self.nodes[*id].cut_until > self.now);
        let (name, after) = (self.rng.u64(..), self.rng.u64(2_000..15_000));
        self.schedule(after, Event::Copy { server });
        let node = &mut self.nodes[supplier];
        let Some(data) = node.data.as_ref().filter(|_| node.process.is_some() && !is_cut) else { return };
        let is_useful = node.copy.as_ref().is_some_and(|(_, copy)| data.first <= copy.position() + 1);
        if !is_useful {
            let mut copy = data.clone();
            copy.role = Role::Replica;
            if self.defect == Some(Defect::CopyWithoutLineage) {
                copy.lineage = Lineage::default();
            }
            node.copy = Some((name, copy));
        }
        let Some((name, copy)) = &node.copy else { return };
        let (name, copy) = (*name, copy.clone());
        let receiving = &mut self.nodes[server].receiving;
        let next = if receiving.0 == name { receiving.1 + 1 } else { 1 };
        *receiving = (name, next);
        if next == PARTS {
            self.oracle.figures.count(Case::Copies);
            self.nodes[server].data = Some(copy);
            self.nodes[server].receiving = (0, 0);
            self.start(server);
        }
    }
}
