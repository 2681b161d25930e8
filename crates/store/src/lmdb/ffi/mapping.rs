//! [`Mapping`]: the memory range of the mapped data file.

use std::marker::PhantomData;
use std::ptr;

use super::{Failure, Result, Transaction, TxnKind};

/// Memory range of the mapped data file, valid until the transaction writes or ends.
///
/// All of it is mapped: the file never becomes shorter, and the map never moves while the environment is open.
#[derive(Clone, Copy)]
pub(crate) struct Mapping<'t> {
    start: usize,
    len: usize,
    transaction: PhantomData<&'t Transaction>,
}

impl Mapping<'_> {
    /// Returns the address of the first byte.
    #[inline]
    pub(crate) fn start(self) -> *const u8 {
        ptr::with_exposed_provenance(self.start)
    }

    /// Returns the size in bytes of the newest committed state's pages.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the file offset of bytes returned by a reading transaction.
    #[inline]
    pub(crate) fn offset_of(self, bytes: &[u8]) -> Option<u64> {
        let offset = bytes.as_ptr().expose_provenance().checked_sub(self.start)?;
        (offset < self.len).then_some(offset as u64)
    }

    /// Returns true if the page at an offset is in memory, according to the kernel. A page of unknown residency counts
    /// as resident.
    pub(crate) fn is_resident(self, offset: u64) -> bool {
        let Some(address) = usize::try_from(offset).ok().filter(|offset| *offset < self.len) else {
            return true;
        };
        let mut answer = 1u8;
        // SAFETY: the kernel looks up this address, which is in the map, in its own tables. The kernel writes one
        // octet, because a length of one octet covers one page.
        let code = unsafe { libc::mincore(self.start().add(address).cast_mut().cast(), 1, &mut answer) };
        code != 0 || answer & 1 != 0
    }
}

impl Transaction {
    /// Returns the mapped data file. `None` while it is not mapped, and in a writing transaction, whose changed pages
    /// are not in the mapped file.
    #[inline]
    pub(crate) fn mapping(&self) -> Result<Option<Mapping<'_>>> {
        let (start, len) = match self.mapped.get() {
            Some(mapped) => mapped,
            None => match self.find_mapping()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        Ok(Some(Mapping { start, len, transaction: PhantomData }))
    }

    #[cold]
    fn find_mapping(&self) -> Result<Option<(usize, usize)>> {
        if !self.is_readable {
            return Err(Failure { operation: "mdb_txn_get", code: lmdb_master_sys::MDB_BAD_TXN });
        }
        if self.kind == TxnKind::Write {
            return Ok(None);
        }
        let start = match self.environment().start.get() {
            Some(start) => *start,
            None => {
                let Some(start) = self.map_start()? else { return Ok(None) };
                *self.environment().start.get_or_init(|| start)
            }
        };
        let len = usize::try_from(self.environment().facts()?.used_bytes).unwrap_or(0);
        self.mapped.set(Some((start, len)));
        Ok(Some((start, len)))
    }

    /// Returns the address at which the data file is mapped, computed from any page: each page contains its own number.
    fn map_start(&self) -> Result<Option<usize>> {
        let Some(record) = self.map_record(0)? else { return Ok(None) };
        let page_bytes = self.environment().page_bytes;
        let page_start = record.as_ptr().expose_provenance() & !(page_bytes - 1);
        // SAFETY: the record lies on a page of the mapped file, like everything that a reading transaction returns, and
        // pages begin at multiples of their length.
        let number: u64 = unsafe { ptr::with_exposed_provenance::<u64>(page_start).read() };
        let before = usize::try_from(number).ok().and_then(|number| number.checked_mul(page_bytes));
        Ok(before.and_then(|before| page_start.checked_sub(before)))
    }
}
