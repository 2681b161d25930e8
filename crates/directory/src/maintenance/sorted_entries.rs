//! Entries sorted by name, for comparisons. The disk is used if memory is not enough.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use ldap::Dn;
use schema::{MatchingRule, Schema, TypeId};
use store::{Sorted, Sorter, StoreError};

use crate::catalog::VirtualAttribute;
use crate::model::codec::{Decoder, put_bytes, put_varint};

/// Reason why an entry cannot be sorted.
#[derive(Debug, thiserror::Error)]
pub enum EntryFault {
    /// The name of the entry cannot be compared.
    #[error("{0}")]
    Name(String),
    /// The disk failed.
    #[error(transparent)]
    Sort(#[from] StoreError),
}

/// Attributes that are compared.
#[derive(Clone, Debug)]
pub struct Compared<'s> {
    schema: &'s Schema,
    /// Whether to compare attributes that only the server writes, unless they are ignored.
    operational: bool,
    left_out: HashSet<TypeId>,
    /// Names of attributes to ignore that the schema does not define, in lower case.
    left_out_names: HashSet<String>,
}

/// Operational attributes that describe the progress of one server. Their values differ in a copy.
const OF_ONE_SERVER: [&str; 2] = ["entryCSN", "contextCSN"];

impl<'s> Compared<'s> {
    /// Compares only attributes that clients can write.
    pub fn user(schema: &'s Schema) -> Compared<'s> {
        Compared { schema, operational: false, left_out: HashSet::new(), left_out_names: HashSet::new() }
    }

    /// Compares the attributes that clients can write. With `operational`, also compares attributes that only the
    /// server writes, except computed attributes and attributes that describe the progress of one server. Ignores the
    /// attributes in `leave_out`.
    pub fn stored(schema: &'s Schema, operational: bool, leave_out: &[String]) -> Compared<'s> {
        let mut compared = Compared { operational, ..Compared::user(schema) };
        for name in leave_out.iter().map(String::as_str).chain(OF_ONE_SERVER) {
            match schema.parse_description(name) {
                Ok(known) => drop(compared.left_out.insert(known.type_id)),
                Err(_) => drop(compared.left_out_names.insert(name.to_ascii_lowercase())),
            }
        }
        let computed = VirtualAttribute::all(schema).map(|(_, type_id)| type_id);
        compared.left_out.extend(computed);
        compared
    }

    /// Returns the normalized form of an attribute description. Equal descriptions have the same normalized form.
    /// Returns `None` if the attribute is not compared.
    pub(super) fn name(&self, description: &str) -> Option<String> {
        match self.schema.parse_description(description) {
            Ok(known) if self.left_out.contains(&known.type_id) => None,
            Ok(known) => {
                let counts = self.operational || !self.schema.type_by_id(known.type_id).no_user_modification;
                counts.then(|| known.returned_name(self.schema).into_owned())
            }
            Err(_) => {
                let name = description.to_ascii_lowercase();
                let bare = name.split(';').next().unwrap_or_default();
                (!self.left_out_names.contains(bare)).then_some(name)
            }
        }
    }
}

/// Sorter of entries. The entries may be added in any order.
pub struct EntrySorter<'s> {
    schema: &'s Schema,
    sorter: Sorter,
    key: Vec<u8>,
    row: Vec<u8>,
    count: u64,
}

impl<'s> EntrySorter<'s> {
    /// Creates a sorter that uses `memory_bytes` of memory, then temporary files in `folder`.
    pub fn new(schema: &'s Schema, folder: &Path, memory_bytes: usize) -> EntrySorter<'s> {
        let sorter = Sorter::new(folder, memory_bytes);
        EntrySorter { schema, sorter, key: Vec::new(), row: Vec::new(), count: 0 }
    }

    /// Adds an entry with its values by attribute. Messages identify the entry by `number`.
    ///
    /// # Errors
    /// The schema cannot compare the name, or the disk failed.
    pub fn push<'v>(
        &mut self,
        number: u64,
        dn: &str,
        values: impl Iterator<Item = (&'v str, &'v [u8])>,
    ) -> std::result::Result<(), EntryFault> {
        self.name_key(dn).map_err(EntryFault::Name)?;
        self.row.clear();
        put_varint(&mut self.row, number);
        put_bytes(&mut self.row, dn.as_bytes());
        for (description, value) in values {
            put_bytes(&mut self.row, description.as_bytes());
            put_bytes(&mut self.row, value);
        }
        self.count += 1;
        Ok(self.sorter.push(&self.key, &self.row)?)
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the entries in the order of their names.
    ///
    /// # Errors
    /// The disk failed.
    pub(super) fn finish(self) -> Result<SortedEntries, StoreError> {
        let sorted = self.sorter.finish()?;
        let mut entries =
            SortedEntries { sorted, key: Vec::new(), row: Vec::new(), is_at_end: false, is_repeated: false };
        entries.advance()?;
        Ok(entries)
    }

    fn name_key(&mut self, dn: &str) -> Result<(), String> {
        self.key.clear();
        let parsed = Dn::parse(dn).map_err(|error| format!("{dn:?} is not a distinguished name: {error}"))?;
        self.schema.normalize_dn(&parsed, &mut self.key).map_err(|error| format!("{dn:?}: {error}"))
    }
}

/// Reader of entries in the order of their names. The reader is at a current entry, or at the end.
pub(super) struct SortedEntries {
    sorted: Sorted,
    pub(super) key: Vec<u8>,
    row: Vec<u8>,
    pub(super) is_at_end: bool,
    /// Whether the previous entry has the same name as the current entry.
    pub(super) is_repeated: bool,
}

impl SortedEntries {
    pub(super) fn advance(&mut self) -> Result<(), StoreError> {
        let is_first = self.row.is_empty();
        match self.sorted.next()? {
            Some((key, row)) => {
                self.is_repeated = !is_first && key == self.key;
                self.key.clear();
                self.key.extend_from_slice(key);
                self.row.clear();
                self.row.extend_from_slice(row);
            }
            None => self.is_at_end = true,
        }
        Ok(())
    }

    /// Compares the names of the current entries of both readers. The end is greater than every name.
    pub(super) fn order(&self, other: &SortedEntries) -> std::cmp::Ordering {
        (self.is_at_end, &self.key).cmp(&(other.is_at_end, &other.key))
    }

    /// Returns the number with which the current entry was added.
    pub(super) fn number(&self) -> u64 {
        Decoder(&self.row).varint().unwrap_or(0)
    }

    pub(super) fn dn(&self) -> &str {
        let mut decoder = Decoder(&self.row);
        decoder.varint();
        decoder.str().unwrap_or_default()
    }

    /// Returns the lines of the current entry: description and value.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut decoder = Decoder(&self.row);
        decoder.varint();
        decoder.bytes();
        std::iter::from_fn(move || Some((decoder.str()?, decoder.bytes()?)))
    }

    /// Returns the attributes of the current entry that are compared, by name.
    pub(super) fn attributes(&self, compared: &Compared<'_>) -> BTreeMap<String, ComparedAttribute<'_>> {
        let mut attributes: BTreeMap<String, ComparedAttribute<'_>> = BTreeMap::new();
        let mut last: Option<(&str, Option<String>)> = None;
        for (description, value) in self.lines() {
            // Usually, the line has the same attribute as the previous line.
            if last.as_ref().is_none_or(|(known, _)| *known != description) {
                last = Some((description, compared.name(description)));
            }
            let Some((_, Some(name))) = &last else { continue };
            match attributes.get_mut(name) {
                Some(attribute) => attribute.values.push(value),
                None => {
                    let attribute = ComparedAttribute::new(compared.schema, description, value);
                    attributes.insert(name.clone(), attribute);
                }
            }
        }
        attributes
    }
}

/// The values of one attribute, and how values of the attribute are compared.
pub(super) struct ComparedAttribute<'e> {
    pub(super) equality: Option<MatchingRule>,
    pub(super) is_single: bool,
    pub(super) values: Vec<&'e [u8]>,
}

impl<'e> ComparedAttribute<'e> {
    fn new(schema: &Schema, description: &str, value: &'e [u8]) -> ComparedAttribute<'e> {
        let known = schema.parse_description(description).ok();
        let attribute_type = known.map(|known| schema.type_by_id(known.type_id));
        ComparedAttribute {
            equality: attribute_type.and_then(|known| known.equality),
            is_single: attribute_type.is_some_and(|known| known.single_value),
            values: vec![value],
        }
    }

    fn key(&self, schema: &Schema, value: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(value.len() + 8);
        match self.equality {
            Some(rule) if rule.normalize(schema, value, &mut key).is_ok() => key,
            _ => value.to_vec(),
        }
    }

    /// Returns the values that `other` does not have.
    pub(super) fn without(&self, compared: &Compared<'_>, other: &ComparedAttribute<'_>) -> Vec<&'e [u8]> {
        let schema = compared.schema;
        let others: HashSet<Vec<u8>> = other.values.iter().map(|value| other.key(schema, value)).collect();
        self.values.iter().copied().filter(|value| !others.contains(&self.key(schema, value))).collect()
    }
}
