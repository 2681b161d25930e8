//! Encoding what a client sends.
use crate::Message;

impl Message<'_> {
    /// Appends the message. [`Unrecognized`](crate::Authentication::Unrecognized) authentication goes out without
    /// content.
    pub fn encode(&self, out: &mut Vec<u8>) {
        todo!("{out:?}")
    }
}
