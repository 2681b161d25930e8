//! Comparison of existing rows with expected rows. Reads the existing and the expected rows map by map, in the order
//! of keys.

use std::ops::Bound;

use data_encoding::HEXLOWER;
use store::{Direction, MapId, Read, Sorted};
use uuid::Uuid;

use super::expected::{ExpectedRows, REQUIRED, UUIDS};
use super::{Fix, Report, Result};
use crate::catalog::Catalog;
use crate::model::index_definition::{IndexPart, Phase};
use crate::model::outcome::OperationError;
use crate::model::rows::{
    AttrId, CLASSES, DANGLING, DUE, ENDS, EntryId, INDEX, LINKED, LINKS, NAMES, PIECES, VALUES,
    decode_name_row, map_spec,
};
use crate::tree::{TreeState, dn_of};

/// Number of ids read in one step.
const BLOCK: usize = 512;

/// Compares all rows.
pub(super) fn compare(state: TreeState<'_>, expected: ExpectedRows, report: &mut Report<'_>) -> Result<()> {
    let ExpectedRows { rows, counters, indexes } = expected;
    let cleared = indexes.iter().flat_map(|(base, row)| {
        let parts = IndexPart::ALL.into_iter().filter(|part| row.index.phase(*part) == Phase::Clearing);
        parts.map(|part| (part.map(), part.key_prefix(*base))).collect::<Vec<_>>()
    });
    let cleared = cleared.collect();
    let mut comparison = Comparison {
        read: state.read,
        catalog: state.catalog,
        cleared,
        ahead: Lookahead::new(rows)?,
        report,
    };
    // Compare the maps in the order of their numbers, because the expected rows are sorted in this order.
    comparison.plain(VALUES)?;
    comparison.plain(NAMES)?;
    for map in [LINKS, LINKED, DANGLING, INDEX, CLASSES, PIECES] {
        comparison.ids(map)?;
    }
    comparison.plain(ENDS)?;
    comparison.plain(DUE)?;
    comparison.uuids()?;
    counters_of(state.read, state.catalog, Lookahead::new(counters)?, report)
}

/// Reader of sorted rows that reads one row ahead.
struct Lookahead {
    sorted: Sorted,
    key: Vec<u8>,
    value: Vec<u8>,
    is_at_end: bool,
}

impl Lookahead {
    fn new(sorted: Sorted) -> Result<Lookahead> {
        let mut ahead = Lookahead { sorted, key: Vec::new(), value: Vec::new(), is_at_end: false };
        ahead.advance()?;
        Ok(ahead)
    }

    fn advance(&mut self) -> Result<()> {
        match self.sorted.next()? {
            Some((key, value)) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value.clear();
                self.value.extend_from_slice(value);
            }
            None => self.is_at_end = true,
        }
        Ok(())
    }

    /// Returns the key of the next row, if this row belongs to the map.
    fn key_of(&self, map: MapId) -> Option<&[u8]> {
        let (number, key) = self.key.split_first()?;
        (!self.is_at_end && usize::from(*number) == map.index()).then_some(key)
    }

    /// Returns the id of the next row.
    fn id(&self) -> u64 {
        self.value.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    fn is_required(&self) -> bool {
        self.value.last() == Some(&REQUIRED)
    }
}

struct Comparison<'a, 'e, 'r> {
    read: &'a Read,
    catalog: &'a Catalog,
    /// Key prefixes of index parts that are being removed. Rows of these parts may exist or not.
    cleared: Vec<(MapId, Vec<u8>)>,
    ahead: Lookahead,
    report: &'r mut Report<'e>,
}

impl Comparison<'_, '_, '_> {
    /// Checks that no two entries have the same entryUUID.
    fn uuids(&mut self) -> Result<()> {
        let (mut last, mut first) = (Vec::new(), 0);
        while !self.ahead.is_at_end && self.ahead.key.first() == Some(&UUIDS) {
            let id = self.ahead.id();
            if self.ahead.key == last {
                let uuid = last.get(1..).and_then(|octets| Uuid::from_slice(octets).ok()).unwrap_or_default();
                let name = |id| Ok::<_, OperationError>(dn_of(self.read, EntryId(id))?.unwrap_or_default());
                let text = format!(
                    "entry {id} ({}): its entryUUID {uuid} is that of entry {first} ({}) as well, so copies lose one \
                     of them; export, delete it from one of the two, and import",
                    name(id)?,
                    name(first)?
                );
                self.report.found(text, Vec::new())?;
            } else {
                last.clone_from(&self.ahead.key);
                first = id;
            }
            self.ahead.advance()?;
        }
        Ok(())
    }

    fn plain(&mut self, map: MapId) -> Result<()> {
        let read = self.read;
        for row in read.scan(map, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            self.report.checked.rows += 1;
            while self.ahead.key_of(map).is_some_and(|expected| expected < key) {
                self.missing_row(map)?;
            }
            if self.ahead.key_of(map) != Some(key) {
                self.surplus_row(map, key, value)?;
                continue;
            }
            // Expected rows of `values` contain no values. Each value was compared with its key when the expected row
            // was derived.
            if map == NAMES && self.ahead.value != value {
                self.wrong_name(key)?;
            }
            self.ahead.advance()?;
            while self.ahead.key_of(map) == Some(key) {
                if map == NAMES {
                    let id = self.ahead.id();
                    self.report
                        .found(format!("entry {id}: its name belongs to another entry"), Vec::new())?;
                }
                self.ahead.advance()?;
            }
        }
        while self.ahead.key_of(map).is_some() {
            self.missing_row(map)?;
        }
        Ok(())
    }

    fn missing_row(&mut self, map: MapId) -> Result<()> {
        let key = self.ahead.key_of(map).unwrap_or_default().to_vec();
        let text = format!("{}: row is missing", self.place(map, &key));
        let fix = Fix::Put(map, key, self.ahead.value.clone());
        self.ahead.advance()?;
        self.report.found(text, if map == NAMES || map == DUE { vec![fix] } else { Vec::new() })
    }

    fn wrong_name(&mut self, key: &[u8]) -> Result<()> {
        let text = format!("{}: row contradicts entry {}", self.place(NAMES, key), self.ahead.id());
        let fix = Fix::Put(NAMES, key.to_vec(), self.ahead.value.clone());
        self.report.found(text, vec![fix])
    }

    fn surplus_row(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        let owner = match map {
            NAMES => decode_name_row(value).map(|(id, _)| id.0),
            _ => key.first_chunk().copied().map(u64::from_be_bytes),
        };
        if owner.is_some_and(|owner| self.report.is_unreadable(owner)) {
            return Ok(());
        }
        let text = format!("{}: row belongs to no entry", self.place(map, key));
        self.report.found(text, vec![Fix::Delete(map, key.to_vec())])
    }

    fn ids(&mut self, map: MapId) -> Result<()> {
        let read = self.read;
        let mut block = Vec::with_capacity(BLOCK);
        for row in read.scan_keys(map, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, count) = row?;
            while self.ahead.key_of(map).is_some_and(|expected| expected < key) {
                self.missing_id(map)?;
            }
            let mut ids = read.ids(map, key)?;
            let mut seen = 0;
            while ids.next_block(&mut block, BLOCK)? > 0 {
                for id in block.drain(..) {
                    seen += 1;
                    self.id(map, key, id)?;
                }
            }
            if seen != count {
                let text = format!("{}: has {seen} ids, but its count is {count}", self.place(map, key));
                self.report.found(text, Vec::new())?;
            }
            while self.ahead.key_of(map) == Some(key) {
                self.missing_id(map)?;
            }
        }
        while self.ahead.key_of(map).is_some() {
            self.missing_id(map)?;
        }
        Ok(())
    }

    fn id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<()> {
        self.report.checked.rows += 1;
        while self.ahead.key_of(map) == Some(key) && self.ahead.id() < id {
            self.missing_id(map)?;
        }
        if self.ahead.key_of(map) != Some(key) || self.ahead.id() != id {
            return self.surplus_id(map, key, id);
        }
        // Several values of an entry may produce the same row.
        while self.ahead.key_of(map) == Some(key) && self.ahead.id() == id {
            self.ahead.advance()?;
        }
        Ok(())
    }

    fn missing_id(&mut self, map: MapId) -> Result<()> {
        let key = self.ahead.key_of(map).unwrap_or_default().to_vec();
        let (id, is_required) = (self.ahead.id(), self.ahead.is_required());
        while self.ahead.key_of(map) == Some(&key) && self.ahead.id() == id {
            self.ahead.advance()?;
        }
        if !is_required {
            return Ok(());
        }
        let text = format!("{}: id {id} is missing", self.place(map, &key));
        self.report.found(text, vec![Fix::InsertId(map, key, id)])
    }

    fn surplus_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<()> {
        let is_cleared =
            self.cleared.iter().any(|(cleared, prefix)| *cleared == map && key.starts_with(prefix));
        let owner = if map == LINKS { key.first_chunk().copied().map_or(0, u64::from_be_bytes) } else { id };
        if is_cleared || self.report.is_unreadable(owner) {
            return Ok(());
        }
        let text = format!("{}: id {id} belongs to no entry", self.place(map, key));
        self.report.found(text, vec![Fix::RemoveId(map, key.to_vec(), id)])
    }

    /// Describes a row for a finding: its map, its entry, and its attribute or key.
    fn place(&self, map: MapId, key: &[u8]) -> String {
        let name = map_spec(map).name;
        let (id, rest) = key.split_at_checked(8).unwrap_or((key, &[]));
        let id = id.first_chunk().copied().map_or(0, u64::from_be_bytes);
        match map {
            NAMES => format!("{name} below entry {id}, key {}", HEXLOWER.encode(rest)),
            VALUES => format!("{name} of entry {id}, {}", attribute_and_key(self.catalog, rest)),
            LINKS => format!("{name} of entry {id}, {}", attribute_and_key(self.catalog, rest)),
            LINKED => format!("{name} to entry {id}, {}", attribute_and_key(self.catalog, rest)),
            CLASSES => format!("{name}, set {}", key.first_chunk().copied().map_or(0, u32::from_be_bytes)),
            _ => format!("{name} of {}", attribute_and_key(self.catalog, key)),
        }
    }
}

/// Describes a key that begins with an attribute number: the attribute's name, and the rest of the key.
fn attribute_and_key(catalog: &Catalog, key: &[u8]) -> String {
    let Some((number, rest)) = key.split_first_chunk() else {
        return format!("key {}", HEXLOWER.encode(key));
    };
    let attribute = AttrId(u32::from_be_bytes(*number));
    let name = catalog.attributes().get(attribute.0 as usize).map(|def| def.name.as_str());
    let name = name.map_or_else(|| format!("attribute {}", attribute.0), str::to_owned);
    if rest.is_empty() { name } else { format!("{name}, key {}", HEXLOWER.encode(rest)) }
}

/// Compares the counters with the expected counters.
fn counters_of(read: &Read, catalog: &Catalog, mut ahead: Lookahead, report: &mut Report<'_>) -> Result<()> {
    for counter in read.counters() {
        let (key, count) = counter?;
        while !ahead.is_at_end && ahead.key.as_slice() < key {
            let (key, sum) = next_sum(&mut ahead)?;
            wrong_counter(catalog, &key, 0, sum, report)?;
        }
        report.checked.rows += 1;
        let sum = if !ahead.is_at_end && ahead.key == key { next_sum(&mut ahead)?.1 } else { 0 };
        wrong_counter(catalog, key, count, sum, report)?;
    }
    while !ahead.is_at_end {
        let (key, sum) = next_sum(&mut ahead)?;
        wrong_counter(catalog, &key, 0, sum, report)?;
    }
    Ok(())
}

/// Returns the key of the next counter, and the sum of its contributions.
fn next_sum(ahead: &mut Lookahead) -> Result<(Vec<u8>, i64)> {
    let key = ahead.key.clone();
    let mut sum = 0;
    while !ahead.is_at_end && ahead.key == key {
        sum += ahead.value.first_chunk().copied().map_or(0, i64::from_be_bytes);
        ahead.advance()?;
    }
    Ok((key, sum))
}

fn wrong_counter(
    catalog: &Catalog,
    key: &[u8],
    there: i64,
    right: i64,
    report: &mut Report<'_>,
) -> Result<()> {
    let (Some((&kind, rest)), true) = (key.split_first(), there != right) else { return Ok(()) };
    let Some((id, rest)) = rest.split_first_chunk() else { return Ok(()) };
    let id = u64::from_be_bytes(*id);
    let (what, is_sure) = match kind {
        b'c' => ("entries one level below it".to_owned(), !report.lost_nodes),
        b's' => ("entries below it".to_owned(), !report.lost_nodes),
        b'v' => (format!("values of {}", attribute_and_key(catalog, rest)), !report.is_unreadable(id)),
        _ => return Ok(()),
    };
    let text = format!("entry {id}: {there} {what} are counted, there are {right}");
    let fix = is_sure.then(|| Fix::Count(key.to_vec(), right - there));
    report.found(text, fix.into_iter().collect())
}
