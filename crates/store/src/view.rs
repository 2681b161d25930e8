//! [`View`]: a long-lived reader that moves to the newest durable state when told to.

use std::ops::Deref;
use std::sync::Arc;

use crate::lmdb::{Failure, Txn, TxnKind};
use crate::shared::Shared;
use crate::{Read, Result};

/// A [`Read`] at one position that shows nothing that is not durable. One for each thread that reads; it may change threads.
///
/// Renew it once per loop pass, never per request: that costs next to nothing while nothing has changed. A view keeps the pages of its
/// position from being reused: an idle loop's view makes the file grow while others write, so call [`park`](View::park) before a wait
/// without end.
///
/// After a failed commit views go on at the last durable position; see [`Writer`](crate::Writer).
pub struct View {
    read: Read,
    shared: Arc<Shared>,
    /// The engine's number of the transaction that is read.
    txn_id: u64,
    /// How much memory may be spent on remembering where rows are.
    remembered_bytes_max: Option<usize>,
}

impl View {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<View> {
        let txn = begin(shared)?;
        let txn_id = txn.id();
        let read = Read::new(txn, shared.maps);
        Ok(View { read, shared: Arc::clone(shared), txn_id, remembered_bytes_max: None })
    }

    /// Remembers what was asked for in up to `bytes_max` bytes of memory, taken as they are needed: the ids of keys that have one, 64 bytes each, and
    /// where the rows of numbered keys are, 16 bytes each. Asking again costs a fraction of a look-up while nothing has been committed;
    /// every commit begins anew. For a view that answers many requests.
    pub fn remember_rows(&mut self, bytes_max: usize) {
        self.remembered_bytes_max = Some(bytes_max);
        self.read.txn.remember_rows(bytes_max);
    }

    /// Moves to the newest durable position. Also wakes a parked view.
    ///
    /// # Errors
    /// `Engine`; the view is then parked.
    pub fn renew(&mut self) -> Result<()> {
        // Renewing costs the engine little, but it then looks up every map's root anew on first use: worth avoiding.
        if !self.read.parked && self.txn_id >= self.shared.committed_txn_id() {
            return Ok(());
        }
        self.park();
        match self.read.txn.renew() {
            Ok(()) => {}
            Err(failure) if failure.code == Failure::PANIC => {
                self.read.txn = begin(&self.shared)?;
                if let Some(bytes_max) = self.remembered_bytes_max {
                    self.read.txn.remember_rows(bytes_max);
                }
            }
            Err(failure) => return Err(failure.into()),
        }
        self.txn_id = self.read.txn.id();
        self.read.parked = false;
        Ok(())
    }

    /// A number that changes exactly when the view moves. Costs nothing, unlike [`position`](Read::position).
    pub fn version(&self) -> u64 {
        self.txn_id
    }

    /// Lets go of the position, so that its pages can be reused. Reads give `Parked` until [`renew`](View::renew).
    pub fn park(&mut self) {
        self.read.txn.reset();
        self.read.parked = true;
    }
}

/// A reading transaction of the environment, or, where that has failed for good, of the frozen one that stands in for it.
fn begin(shared: &Shared) -> Result<Txn> {
    match Txn::begin(&shared.env, TxnKind::Read) {
        Err(failure) if failure.code == Failure::PANIC => {
            Ok(Txn::begin(&shared.frozen_env()?, TxnKind::Read)?)
        }
        outcome => Ok(outcome?),
    }
}

impl Deref for View {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}
