//! Properties that hold for any bytes. The fuzz target calls them, and so does `corpus_replay.rs` on stable.

use directory::record::{Change, Record};

/// Decodes any octets as a record of the log: a decoded record survives encoding and decoding, and the entries of a
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
