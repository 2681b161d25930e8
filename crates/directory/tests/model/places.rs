//! Removal and moves of trees in maps of entries by DN. All names have one spelling.

use std::collections::BTreeMap;

pub(crate) fn is_at_or_below(dn: &str, base: &str) -> bool {
    dn.strip_suffix(base).is_some_and(|rest| rest.is_empty() || rest.ends_with(','))
}

pub(crate) fn parent(dn: &str) -> &str {
    dn.split_once(',').map_or("", |(_, parent)| parent)
}

/// Removes the entries at or below `top`, and returns them.
pub(crate) fn take_tree<T>(entries: &mut BTreeMap<String, T>, top: &str) -> BTreeMap<String, T> {
    let (taken, kept) = std::mem::take(entries).into_iter().partition(|(dn, _)| is_at_or_below(dn, top));
    *entries = kept;
    taken
}

/// Returns the entries of a tree after its top entry was renamed or moved from `top` to `to`.
pub(crate) fn moved<T>(tree: BTreeMap<String, T>, top: &str, to: &str) -> BTreeMap<String, T> {
    let moved = |dn: String| [dn.strip_suffix(top).unwrap(), to].concat();
    tree.into_iter().map(|(dn, entry)| (moved(dn), entry)).collect()
}
