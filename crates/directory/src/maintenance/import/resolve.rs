//! Resolves sorted names to places in the tree: finds superiors, duplicates, orphans, link targets and numbers of
//! subordinates.

use std::collections::HashMap;
use std::sync::Arc;

use schema::{ClassId, Schema};
use store::Sorter;

use super::ids::IdBits;
use super::job::{ImportError, Job};
use super::sorters::{NameUse, RowBlock, Rows};
use crate::catalog::normal_value;
use crate::model::rows::{
    AttrId, DANGLING, EntryId, LINKED, LINKS, NAMES, NodeFlags, VALUES, children_counter, dangling_key,
    encode_name_row, link_key, name_key, subtree_counter, value_counter, value_key,
};
use crate::model::value_end::EndingValue;

/// Maximum number of pairs of entries with the same entryUUID in which both entries are reported. In further pairs,
/// only the later entry is reported.
const SAME_UUID_NAMED_MAX: usize = 65_536;
use crate::tree::structure::{GoverningRule, Misplaced, Placed};

type Result<T> = std::result::Result<T, ImportError>;

/// Result of resolving names.
pub struct Resolution {
    /// Ids of entries without a place in the tree.
    pub(super) rejected: IdBits,
    /// Superior or refusal of every entry, sorted by id.
    pub(super) outcomes: Sorter,
    /// Number of link values that name no entry.
    pub dangling: u64,
    /// Entries with the same entryUUID as an earlier entry, each with the earlier entry; at most
    /// [`SAME_UUID_NAMED_MAX`].
    pub(super) same_uuid: HashMap<EntryId, EntryId>,
    /// The schema. Texts of refusals contain names from the schema.
    pub(super) schema: Arc<Schema>,
}

/// Place of an entry in the tree, or the reason why the entry has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameOutcome {
    /// The superior of the entry.
    Parent(EntryId),
    /// An earlier entry, with the contained id, has the same name.
    Duplicate(EntryId),
    /// The superior does not exist, or was refused.
    Orphan,
    /// The superior cannot have subordinates.
    Leaf(NodeFlags),
    /// An earlier entry has the same entryUUID.
    SameUuid,
    /// No structure rule permits an entry of this class below a superior with this governing rule.
    Misplaced(ClassId, GoverningRule),
}

impl NameOutcome {
    fn encode(self) -> [u8; 9] {
        let (kind, number) = match self {
            NameOutcome::Parent(id) => (0, id.0),
            NameOutcome::Duplicate(id) => (1, id.0),
            NameOutcome::Orphan => (2, 0),
            NameOutcome::Leaf(flags) => (3, u64::from(flags.0)),
            NameOutcome::SameUuid => (4, 0),
            NameOutcome::Misplaced(class, None) => (5, u64::from(class.0)),
            NameOutcome::Misplaced(class, Some(rule)) => (6, u64::from(class.0) << 32 | u64::from(rule)),
        };
        let mut bytes = [kind; 9];
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<NameOutcome> {
        let (&kind, number) = bytes.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some(match kind {
            0 => NameOutcome::Parent(EntryId(number)),
            1 => NameOutcome::Duplicate(EntryId(number)),
            2 => NameOutcome::Orphan,
            4 => NameOutcome::SameUuid,
            5 => NameOutcome::Misplaced(ClassId(u32::try_from(number).ok()?), None),
            6 => {
                let (class, rule) = (u32::try_from(number >> 32).ok()?, number & u64::from(u32::MAX));
                NameOutcome::Misplaced(ClassId(class), u32::try_from(rule).ok())
            }
            _ => NameOutcome::Leaf(NodeFlags(u8::try_from(number).ok()?)),
        })
    }
}

/// Resolves the names of all entries and links, and adds the resulting rows to `rows`. The names are in the order of
/// [`SortedRows::merge_names`](super::SortedRows::merge_names). `outcomes` is an empty sorter. `progress` receives the
/// number of names resolved so far.
///
/// # Errors
/// The first error in the blocks, or the disk is full or failed.
pub fn resolve(
    job: &Job,
    names: impl Iterator<Item = Result<RowBlock>>,
    rows: &mut Rows,
    outcomes: Sorter,
    mut progress: impl FnMut(u64),
) -> Result<Resolution> {
    let (rejected, same_uuid) = (IdBits::default(), HashMap::new());
    let schema = Arc::clone(&job.schema);
    let resolved = Resolution { rejected, outcomes, dangling: 0, same_uuid, schema };
    let mut resolver = Resolver {
        job,
        rows,
        resolved,
        path: Vec::new(),
        open: vec![PathEntry::root()],
        at: CurrentName::default(),
        same_uuid: IdBits::default(),
    };
    let mut count = 0;
    for block in names {
        let block = block?;
        for (key, value) in block.rows() {
            let named = NameUse::decode(value).ok_or(ImportError::Damaged("names"))?;
            resolver.take(key, named)?;
        }
        count += block.ends.len() as u64;
        progress(count);
    }
    resolver.close_down_to(0)?;
    resolver.count_below()?;
    Ok(resolver.resolved)
}

/// An entry on the path from the root to the current name.
struct PathEntry {
    /// Length of the entry's normal DN, in bytes.
    length: usize,
    id: EntryId,
    flags: NodeFlags,
    children: i64,
    subtree: i64,
    /// Structure rule that governs the entry.
    rule: GoverningRule,
}

impl PathEntry {
    /// Returns the empty DN, the superior of suffix entries.
    fn root() -> PathEntry {
        PathEntry { length: 0, id: EntryId::ROOT, flags: NodeFlags(0), children: 0, subtree: 0, rule: None }
    }
}

/// Entries and links with the current name.
#[derive(Default)]
struct CurrentName {
    key: Vec<u8>,
    /// First entry with the name.
    first: Option<EntryId>,
    /// Entry to which the name belongs: the first entry, if this entry has a place in the tree.
    owner: Option<EntryId>,
    /// Attribute and source of the previous link.
    last_link: Option<(AttrId, EntryId)>,
}

struct Resolver<'a> {
    job: &'a Job,
    rows: &'a mut Rows,
    resolved: Resolution,
    /// Normal DN of the last entry with a place in the tree.
    path: Vec<u8>,
    /// Entries on the path, starting with the root. Never empty.
    open: Vec<PathEntry>,
    at: CurrentName,
    /// Ids of entries with the same entryUUID as an earlier entry.
    same_uuid: IdBits,
}

impl Resolver<'_> {
    fn take(&mut self, key: &[u8], named: NameUse<'_>) -> Result<()> {
        if self.at.key != key {
            self.at.key.clear();
            self.at.key.extend_from_slice(key);
            (self.at.first, self.at.owner, self.at.last_link) = (None, None, None);
        }
        match named {
            NameUse::Entry { id, flags, rdn_start, placed } => self.entry(id, flags, rdn_start, placed),
            NameUse::Link { attribute, source, text, until } => self.link((source, attribute), text, until),
            NameUse::Uuid { id } => {
                self.uuid(id);
                Ok(())
            }
        }
    }

    /// Processes an entryUUID. All entryUUIDs precede the first name. Equal entryUUIDs are in the order of entry ids.
    fn uuid(&mut self, id: EntryId) {
        let first = *self.at.first.get_or_insert(id);
        // Existing entries are not refused, even if they are invalid.
        if first == id || id <= self.job.last_old_id {
            return;
        }
        self.same_uuid.insert(id);
        if self.resolved.same_uuid.len() < SAME_UUID_NAMED_MAX {
            self.resolved.same_uuid.insert(id, first);
        }
    }

    fn entry(&mut self, id: EntryId, flags: NodeFlags, rdn_start: usize, placed: &[u8]) -> Result<()> {
        let mut rule = None;
        let outcome = match self.at.first {
            Some(first) => NameOutcome::Duplicate(first),
            None => match self.superior(rdn_start)? {
                NameOutcome::Parent(_) if self.same_uuid.contains(id) => NameOutcome::SameUuid,
                NameOutcome::Parent(parent) if !placed.is_empty() => {
                    let superior = self.open.last().and_then(|open| open.rule);
                    match self.governed(placed, superior)? {
                        Ok(governing) => rule = governing,
                        // Existing entries are not refused, even if no rule permits them.
                        Err(_) if id <= self.job.last_old_id => {}
                        Err(class) => return self.refuse(id, NameOutcome::Misplaced(class, superior)),
                    }
                    NameOutcome::Parent(parent)
                }
                outcome => outcome,
            },
        };
        let NameOutcome::Parent(parent) = outcome else { return self.refuse(id, outcome) };
        self.at.first.get_or_insert(id);
        self.resolved.outcomes.push(&id.0.to_be_bytes(), &outcome.encode())?;
        self.at.owner = Some(id);
        let rdn = if parent == EntryId::ROOT { Some(&*self.at.key) } else { self.at.key.get(rdn_start..) };
        let rdn = rdn.unwrap_or_default();
        self.rows.plain(NAMES, &name_key(parent, rdn), &encode_name_row(id, flags))?;
        if let Some(superior) = self.open.last_mut() {
            superior.children += 1;
        }
        self.path.clone_from(&self.at.key);
        self.open.push(PathEntry { length: self.path.len(), id, flags, children: 0, subtree: 0, rule });
        Ok(())
    }

    /// Returns the structure rule that governs an entry. `superior` is the rule that governs the entry's superior.
    /// Returns the class of the entry as an error if no rule permits the entry below this superior.
    #[cold]
    fn governed(
        &self,
        placed: &[u8],
        superior: GoverningRule,
    ) -> Result<std::result::Result<GoverningRule, ClassId>> {
        let placed = Placed::decode(placed).ok_or(ImportError::Damaged("names"))?;
        let governed = placed.governed_below(&self.job.schema, superior);
        Ok(governed.map_err(|(Misplaced::Name(class) | Misplaced::Place(class, _))| class))
    }

    fn refuse(&mut self, id: EntryId, outcome: NameOutcome) -> Result<()> {
        self.at.first.get_or_insert(id);
        self.resolved.outcomes.push(&id.0.to_be_bytes(), &outcome.encode())?;
        self.resolved.rejected.insert(id);
        Ok(())
    }

    /// Removes entries from the path up to the superior of the current name. Returns the superior, or the reason why
    /// there is none.
    fn superior(&mut self, rdn_start: usize) -> Result<NameOutcome> {
        let shared = self.path.iter().zip(&self.at.key).take_while(|(one, other)| one == other).count();
        self.close_down_to(shared)?;
        if self.job.suffixes.iter().any(|suffix| suffix.key == self.at.key) {
            self.close_down_to(0)?;
            return Ok(NameOutcome::Parent(EntryId::ROOT));
        }
        match self.open.last() {
            Some(superior) if superior.length == rdn_start && superior.id != EntryId::ROOT => {
                match superior.flags {
                    NodeFlags(0) => Ok(NameOutcome::Parent(superior.id)),
                    flags => Ok(NameOutcome::Leaf(flags)),
                }
            }
            _ => Ok(NameOutcome::Orphan),
        }
    }

    /// Removes from the path the entries whose names are longer than `length`. No later name is below these entries.
    fn close_down_to(&mut self, length: usize) -> Result<()> {
        while self.open.len() > 1 && self.open.last().is_some_and(|open| open.length > length) {
            self.count_below()?;
            let subtree = self.open.pop().map_or(0, |open| open.subtree);
            if let Some(superior) = self.open.last_mut() {
                superior.subtree += subtree + 1;
            }
        }
        Ok(())
    }

    /// Writes the counters of the last entry on the path.
    fn count_below(&mut self) -> Result<()> {
        let Some(open) = self.open.last().filter(|open| open.subtree > 0) else { return Ok(()) };
        self.rows.count(&children_counter(open.id), open.children)?;
        self.rows.count(&subtree_counter(open.id), open.subtree)?;
        Ok(())
    }

    fn link(&mut self, (source, attribute): (EntryId, AttrId), text: &[u8], until: u64) -> Result<()> {
        // Two spellings of a name in one attribute are the same value. Two spellings can occur only in attributes that
        // were too large for an earlier check.
        if self.at.last_link.replace((attribute, source)) == Some((attribute, source)) {
            self.rows.count(&value_counter(source, attribute), -1)?;
            return Ok(());
        }
        if let Some(target) = self.at.owner {
            self.rows.id(LINKS, &link_key(source, attribute), target)?;
            self.rows.id(LINKED, &link_key(target, attribute), source)?;
            return Ok(self.rows.end((source, attribute), EndingValue::Link(target), until)?);
        }
        self.resolved.dangling += 1;
        let normal = {
            let catalog = self.job.catalog();
            normal_value(&self.job.schema, catalog.attribute(attribute), text)
        };
        self.rows.plain(VALUES, &value_key(source, attribute, &normal), text)?;
        self.rows.id(DANGLING, &dangling_key(attribute, &self.at.key), source)?;
        self.rows.end((source, attribute), EndingValue::Text(&normal), until)?;
        Ok(())
    }
}
