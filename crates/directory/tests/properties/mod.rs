//! Properties that must hold for any bytes. The fuzz target and, on stable Rust, `corpus_replay.rs` check these
//! properties.

use directory::record::{Change, Record};

/// Decodes any octets as a log record. A decoded record survives encoding and decoding, and the entries of a deleted
/// tree have names.
pub(crate) fn record(bytes: &[u8]) {
    let Some(record) = Record::decode(bytes) else { return };
    assert_eq!(Record::decode(&record.encode()).as_ref(), Some(&record));
    if let Change::DeleteTree(tree) = &record.change {
        let entries = tree.entries();
        assert_eq!(entries.len(), 1 + tree.below.len());
        assert_eq!(entries.last(), Some(&(tree.top, tree.dn.clone())));
        assert!(entries.iter().all(|(_, dn)| dn.ends_with(&tree.dn)));
    }
}
