//! Damage to a data directory.

use std::path::Path;

/// Alters the row of the entry that contains `text`. No server may have the data directory open.
pub fn alter_row(data: &Path, text: &[u8]) {
    let (_store, mut writer) =
        store::Store::open(data, directory::rows::MAPS, &store::Options::default()).unwrap();
    let mut batch = writer.begin().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let rows = batch.scan(directory::rows::ENTRIES, all, store::Direction::Forward).map(Result::unwrap);
    let (key, mut value) = rows
        .filter(|(_, value)| value.windows(text.len()).any(|part| part == text))
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .next()
        .unwrap();
    *value.last_mut().unwrap() ^= 1;
    batch.put(directory::rows::ENTRIES, &key, &value).unwrap();
    batch.commit().unwrap();
}
