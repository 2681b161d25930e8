//! Encoding of fixed-width numbers in big-endian order. Readers return `None` if the bytes end early.

use crate::operation::{NodeId, OperationId};

pub(crate) struct Reader<'m>(pub(crate) &'m [u8]);

impl<'m> Reader<'m> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads an operation id.
    pub(crate) fn operation(&mut self) -> Option<OperationId> {
        let node = NodeId(self.u32()?);
        Some(OperationId { node, incarnation: self.u64()?, sequence: self.u64()? })
    }

    /// Reads a length as u32 and that many bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'m [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Returns `None` if unread bytes remain.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Writes a length as four bytes. The caller keeps the length below [`crate::limits::MESSAGE_BYTES_MAX`].
pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

pub(crate) fn put_operation(out: &mut Vec<u8>, operation: &OperationId) {
    out.extend(operation.node.0.to_be_bytes());
    out.extend(operation.incarnation.to_be_bytes());
    out.extend(operation.sequence.to_be_bytes());
}
