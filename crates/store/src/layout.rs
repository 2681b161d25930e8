//! Names, versions and limits of the on-disk layout, in one place. docs/store-format.md draws it.

/// Version of the store's own layout: maps, key order, counters, log frame. Checked at every open.
pub const FORMAT_VERSION: u32 = 1;

/// Longest key in bytes: a key and its node head must fit twice on a page of the engine.
pub const KEY_LEN_MAX: usize = 511;

/// Longest value of a plain map in bytes.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

/// What a map holds under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// One value of any bytes.
    Plain,
    /// A set of `u64` ids, kept sorted; 8 bytes an id. A key without ids does not exist.
    IdSet,
}

/// A map as the store's user declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSpec {
    /// Name in the data file. Names that begin with `store.` are the store's own.
    pub name: &'static str,
    /// What the map holds.
    pub kind: MapKind,
}

/// A map by its index in the slice given to [`Store::open`](crate::Store::open).
///
/// Operations on a `MapId` beyond that slice panic: it is a mistake of the program, not of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapId(usize);

impl MapId {
    /// The map at `index` of the slice given to [`Store::open`](crate::Store::open).
    pub const fn new(index: usize) -> MapId {
        MapId(index)
    }

    /// The index again.
    pub const fn index(self) -> usize {
        self.0
    }
}
