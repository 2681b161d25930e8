//! Preparer: converts text into entry rows, and adds all other data of the entries to the sorters.
//!
//! Each thread has a preparer. The preparer checks every entry like an add request, with the same functions.
//! [`super::resolve()`] checks the conditions for which all entries are needed: whether the superior exists, whether
//! the name is free, and which entries links name. Entries that fail a check are returned as [`RejectedRecord`]s, with
//! a reason for the administrator.

mod foreign_state;
mod problems;
mod server_values;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use ldap::ldif::{LdifBody, LdifErrorKind, LdifReader, LdifRecord, LdifValues};
use ldap::{Dn, ResultCode};
use schema::{AttributeDescription, Schema, TypeId};

use super::draft::{Draft, DraftAttribute};
use super::foreign;
use super::job::{ImportError, Job};
use super::resolved::{ResolvedAttributes, ValueHandling};
use super::sorters::Sorters;
use crate::catalog::ClassSet;
use crate::model::csn::Csn;
use crate::model::limits::CLASS_SETS_CACHED_MAX;
use crate::model::name::{NormalName, parse_dn, render_dn, render_rdn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{ClassSetId, EntryId, NodeFlags};
use crate::password::{StorageScheme, hash, is_hashed, unverifiable_form};
use crate::tree::structure::{Placed, is_administrative_point, role_type};
use crate::tree::target::check_depth;
use crate::write::add::{contradicts_name, naming_values};
use crate::write::given_values::{check_syntax, check_value, given_twice};
use crate::write::schema_check::{
    Present, check_all_attributes, check_imported, object_class_type, read_classes,
};
use crate::write::value_ends::check_count;
use foreign_state::ForeignState;
pub(super) use problems::Problems;
use server_values::{ServerValues, random};

/// Maximum number of cached sets of attributes that the classes of an entry allow.
const SHAPES_MAX: usize = 1_024;

/// Reason to reject a change record.
pub(super) const IS_A_CHANGE: &str =
    "this is a change, and only entries are imported: apply it with ldapmodify afterwards";

/// Source of sixteen random bytes. The error is the reason why no random bytes are available.
pub type RandomSource = Box<dyn FnMut() -> Result<[u8; 16], String> + Send>;

/// Place of a record in the imported texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPlace {
    /// Number of the text, as counted by the caller.
    pub source: u32,
    /// Number of bytes in that text before the record.
    pub offset: u64,
    /// Length of the record in bytes, including comments and empty lines before it.
    pub length: u64,
    /// Number of the line with `dn:`, counted from 1.
    pub line: u64,
}

/// A chunk of text that consists of whole records.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// Number of the text that contains the chunk.
    pub source: u32,
    /// Number of bytes in that text before the chunk.
    pub offset: u64,
    /// Number of lines in that text before the chunk.
    pub line: u64,
    /// Entry id of the first record. Each record, rejected or not, uses one id.
    pub first_id: u64,
    /// The bytes.
    pub bytes: &'t [u8],
}

/// Category of a reason to reject a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The text is not LDIF.
    Malformed,
    /// The entry is invalid, or this kind of record is not supported.
    Bad,
    /// The entry is outside of the imported naming contexts.
    Outside,
    /// An earlier entry has the same name.
    Duplicate,
    /// The superior of the entry does not exist or was refused too.
    Orphan,
    /// An earlier entry has the same entryUUID.
    SameUuid,
}

/// A record that is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Place of the record.
    pub place: RecordPlace,
    /// Category of the reason.
    pub refusal: Refusal,
    /// Description of the reason, for the administrator.
    pub reason: String,
}

/// Counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of records read, valid or not.
    pub records: u64,
    /// Number of values that were dropped, because the server computes them (memberOf and others).
    pub virtual_values: u64,
    /// Number of values of password attributes that were dropped, because their options would permit no bind.
    pub unusable_passwords: u64,
    /// Number of clear passwords that were hashed.
    pub hashed_passwords: u64,
    /// Number of values whose options of 389 DS's replication state were removed.
    pub state_options: u64,
    /// Number of values that were dropped, because 389 DS has deleted them and keeps them for replication.
    pub deleted_values: u64,
    /// Number of entries that were dropped, because 389 DS has deleted them and keeps them for replication.
    pub deleted_entries: u64,
    /// Number of values whose option `range` of Active Directory was removed.
    pub range_options: u64,
    /// Number of entries for which Active Directory returned only some values of an attribute.
    pub partial_entries: u64,
    /// Number of identifiers of other servers, such as nsUniqueId, that were converted to entryUUID.
    pub unique_ids: u64,
    /// Number of values that were dropped, because they are internal to another server.
    pub foreign_values: u64,
    /// Number of accounts locked because another server disabled them.
    pub disabled_accounts: u64,
    /// Number of times of other servers that were converted to an operational attribute, for example createTimestamp.
    pub converted_times: u64,
    /// Number of groups without a member, although RFC 4519 requires one.
    pub empty_groups: u64,
}

impl PreparedRows {
    /// Returns the buffer of the rows, after they have been written.
    pub fn into_buffer(self) -> Vec<u8> {
        self.rows
    }
}

impl Statistics {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Statistics) {
        self.records += other.records;
        self.virtual_values += other.virtual_values;
        self.unusable_passwords += other.unusable_passwords;
        self.hashed_passwords += other.hashed_passwords;
        self.state_options += other.state_options;
        self.deleted_values += other.deleted_values;
        self.deleted_entries += other.deleted_entries;
        self.range_options += other.range_options;
        self.partial_entries += other.partial_entries;
        self.unique_ids += other.unique_ids;
        self.foreign_values += other.foreign_values;
        self.disabled_accounts += other.disabled_accounts;
        self.converted_times += other.converted_times;
        self.empty_groups += other.empty_groups;
    }
}

/// Result of preparing a chunk.
#[derive(Debug)]
pub struct PreparedRows {
    /// Concatenated entry rows.
    pub(super) rows: Vec<u8>,
    /// Ids in ascending order, each with the end of its row in `rows`.
    pub(super) ends: Vec<(EntryId, usize)>,
    /// Fields of each entry for `nodes`, see [`super::emit`].
    pub(super) nodes: Vec<u8>,
    /// Ids of rejected records, some of whose rows exist.
    pub(super) refused: Vec<EntryId>,
    /// Rejected records in the order of the text.
    pub rejected: Vec<RejectedRecord>,
    /// Counts of the chunk.
    pub statistics: Statistics,
    /// Numbers of values that were left out, by place in the list of names to leave out ([`Job::left_out_name`]).
    pub left_out: BTreeMap<usize, u64>,
    /// Numbers of stored passwords that cannot be verified, by scheme and form.
    pub unverifiable: BTreeMap<String, u64>,
    /// Numbers of secret values for other protocols, by attribute. No bind uses these values.
    pub other_secrets: BTreeMap<&'static str, u64>,
    /// Highest CSN in an entry.
    pub(super) latest_csn: Csn,
    /// Highest id in use.
    pub(super) last_id: EntryId,
}

/// Converts text to entry rows, on one thread.
pub struct Preparer<'j> {
    pub(super) job: &'j Job,
    pub(super) sorters: Sorters,
    pub(super) resolved: ResolvedAttributes,
    pub(super) draft: Draft,
    /// State of the current record according to attributes of another server.
    pub(super) foreign_state: ForeignState,
    /// Superior of the previous entry, as text and in normal form.
    superior: Option<(String, NormalName)>,
    class_sets: HashMap<Vec<u8>, (ClassSetId, Arc<ClassSet>)>,
    object_class: TypeId,
    /// Sets of attributes that the classes are known to allow, see [`Preparer::check_attributes`]. The value is true if
    /// a set belongs to a group without members.
    shapes: HashMap<Vec<u32>, bool>,
    shape: Vec<u32>,
    server_values: Option<ServerValues>,
    pub(super) random: RandomSource,
    /// Buffer for the rows of the next text.
    buffer: Vec<u8>,
    pub(super) statistics: Statistics,
    left_out: BTreeMap<usize, u64>,
    unverifiable: BTreeMap<String, u64>,
    other_secrets: BTreeMap<&'static str, u64>,
    /// Reasons to reject the current record, with the lines of the values.
    pub(super) problems: Problems,
    pub(super) latest_csn: Csn,
    /// End times of the current record's values. The key is the place of the attribute and of the value in the draft.
    pub(super) ends: HashMap<(usize, usize), u64>,
    /// Number of end times in the current record, including end times of values whose rows have already been made.
    end_count: usize,
}

/// Properties of an entry that has passed every check. Its values are in the draft.
pub(super) struct CheckedEntry {
    pub(super) id: EntryId,
    pub(super) name: NormalName,
    pub(super) rdn: String,
    pub(super) class_set: ClassSetId,
    pub(super) flags: NodeFlags,
    /// Properties that structure rules examine, if the schema has name forms.
    pub(super) placed: Option<Placed>,
}

/// Reason why a record is not imported: the entry is only counted and dropped, the record is refused, or an error ends
/// the import.
pub(super) enum Failure {
    LeftOut,
    Refused(Refusal, u64, String),
    Ended(ImportError),
}

impl<'j> Preparer<'j> {
    /// Creates a preparer. Its sorters use `memory` bytes, and files in `directory`.
    ///
    /// # Errors
    /// The schema does not define objectClass.
    pub fn new(
        job: &'j Job,
        directory: &Path,
        memory: usize,
        random: RandomSource,
    ) -> Result<Preparer<'j>, ImportError> {
        Ok(Preparer {
            job,
            sorters: Sorters::new(directory, memory),
            resolved: ResolvedAttributes::default(),
            draft: Draft::default(),
            foreign_state: ForeignState::default(),
            superior: None,
            class_sets: HashMap::new(),
            object_class: object_class_type(&job.schema)?,
            shapes: HashMap::new(),
            shape: Vec::new(),
            server_values: None,
            random,
            buffer: Vec::new(),
            statistics: Statistics::default(),
            left_out: BTreeMap::new(),
            unverifiable: BTreeMap::new(),
            other_secrets: BTreeMap::new(),
            problems: Problems::default(),
            latest_csn: Csn::default(),
            ends: HashMap::new(),
            end_count: 0,
        })
    }

    /// Returns the sorters with the data of all prepared entries.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn into_sorters(mut self) -> Result<Sorters, ImportError> {
        self.sorters.settle()?;
        Ok(self.sorters)
    }

    /// Returns a buffer, after its rows were written ([`PreparedRows::into_buffer`]), so that the next text can use it.
    pub fn reuse_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Makes the rows of the records in a text.
    ///
    /// # Errors
    /// An error that ends the import. A rejected record does not end the import.
    pub fn prepare(&mut self, text: &Text<'_>) -> Result<PreparedRows, ImportError> {
        // Rows take about as many bytes as the text, and a quarter more for attributes that the server adds.
        let mut prepared = self.begin(text.bytes.len() + text.bytes.len() / 4);
        self.problems.lines_before = text.line;
        let mut reader = LdifReader::with_record_size_max(Cursor::new(text.bytes), text.bytes.len());
        let mut end = 0;
        loop {
            let start = end;
            let record = reader.next_record();
            // Process the content before the place is read from the reader, because the record borrows the reader.
            let id = EntryId(text.first_id + self.statistics.records);
            let outcome = match record {
                Ok(None) => break,
                Ok(Some(record)) => {
                    let line = record.line;
                    self.record(id, &record).map(|checked| (line, checked))
                }
                Err(error) => {
                    Err(Failure::Refused(refusal_of(&error.kind), error.line, error.kind.to_string()))
                }
            };
            end = reader.get_ref().position();
            self.statistics.records += 1;
            let place = RecordPlace {
                source: text.source,
                offset: text.offset + start,
                length: end - start,
                line: text.line,
            };
            match outcome {
                Ok((line, checked)) => {
                    let place = RecordPlace { line: text.line + line, ..place };
                    self.emit(&checked, place, &mut prepared)?;
                }
                Err(Failure::Ended(error)) => return Err(error),
                Err(Failure::LeftOut) => self.statistics.deleted_entries += 1,
                Err(Failure::Refused(refusal, line, reason)) => {
                    let place = RecordPlace { line: text.line + line, ..place };
                    prepared.rejected.push(RejectedRecord { place, refusal, reason });
                }
            }
            prepared.last_id = id;
        }
        self.complete_statistics(&mut prepared);
        Ok(prepared)
    }

    /// Resets the counts, and returns a result with room for `size` bytes of rows.
    pub(super) fn begin(&mut self, size: usize) -> PreparedRows {
        self.statistics = Statistics::default();
        self.latest_csn = Csn::default();
        let mut rows = std::mem::take(&mut self.buffer);
        rows.clear();
        rows.reserve(size);
        PreparedRows {
            rows,
            ends: Vec::new(),
            nodes: Vec::new(),
            refused: Vec::new(),
            rejected: Vec::new(),
            statistics: Statistics::default(),
            left_out: BTreeMap::new(),
            unverifiable: BTreeMap::new(),
            other_secrets: BTreeMap::new(),
            latest_csn: Csn::default(),
            last_id: EntryId::ROOT,
        }
    }

    pub(super) fn complete_statistics(&mut self, prepared: &mut PreparedRows) {
        prepared.statistics = self.statistics;
        prepared.left_out = std::mem::take(&mut self.left_out);
        prepared.unverifiable = std::mem::take(&mut self.unverifiable);
        prepared.other_secrets = std::mem::take(&mut self.other_secrets);
        prepared.latest_csn = self.latest_csn;
    }

    /// Reads a record into the draft, and checks the entry.
    fn record(&mut self, id: EntryId, record: &LdifRecord<'_>) -> Result<CheckedEntry, Failure> {
        let (LdifBody::Entry(values) | LdifBody::Add(values)) = record.body else {
            return Err(Failure::Refused(Refusal::Bad, record.line, IS_A_CHANGE.to_owned()));
        };
        let counted = self.statistics;
        let read = self.entry(id, record.dn, values);
        // A tombstone of 389 DS may fail other checks before its class is read, so the class is looked up.
        if self.foreign_state.is_deleted || (read.is_err() && foreign::is_deleted(values)) {
            self.statistics = counted;
            return Err(Failure::LeftOut);
        }
        match read {
            Ok(Some(checked)) => Ok(checked),
            Ok(None) => Err(self.problems.refusal(record.line)),
            Err(error) => Err(Failure::Ended(error.into())),
        }
    }

    /// Reads an entry into the draft, and checks the entry. Returns `None` if [`Self::problems`] is not empty.
    fn entry(
        &mut self,
        id: EntryId,
        dn: &str,
        values: LdifValues<'_>,
    ) -> Result<Option<CheckedEntry>, OperationError> {
        self.begin_record();
        for value in values.iter() {
            if let Err(error) = self.value(value.description, value.value) {
                self.problems.add(Some(value.line), error)?;
            }
        }
        self.finish(id, dn)
    }

    /// Clears the draft for the next record.
    pub(super) fn begin_record(&mut self) {
        self.draft.clear();
        self.resolved.begin_record();
        self.problems.clear();
        self.foreign_state = ForeignState::default();
        if self.end_count > 0 {
            self.ends.clear();
            self.end_count = 0;
        }
    }

    /// Counts a value with an end time. Returns an error if the record has more end times than allowed.
    pub(super) fn count_end(&mut self) -> Result<(), OperationError> {
        self.end_count += 1;
        check_count(self.end_count)
    }

    /// Reads a value into the draft.
    pub(super) fn value(&mut self, description: &str, value: &[u8]) -> Result<(), OperationError> {
        let place = match self.resolved.find_next(self.job, description)? {
            ValueHandling::Stored(place) => place,
            ValueHandling::Ending(place, until) => {
                self.count_end()?;
                let number = self.draft.attribute(place);
                self.ends.insert((place, self.draft.value_count(number)), until);
                place
            }
            named => match self.foreign_value(named, value) {
                Some(place) => place,
                None => return Ok(()),
            },
        };
        self.foreign_state.is_deleted |= foreign::is_tombstone(description, value);
        self.store(place, value)
    }

    /// Adds a value to the attribute at this place.
    fn store(&mut self, place: usize, value: &[u8]) -> Result<(), OperationError> {
        let Preparer { job, resolved, draft, .. } = self;
        let number = draft.attribute(place);
        let count = draft.value_count(number);
        let description = &resolved.at(place).def.description;
        if count == 0 && resolved.at(place).spares_normal(value) {
            check_syntax(&job.schema, description, 1, value)?;
            draft.add_alone(number, value);
            return Ok(());
        }
        complete_normal(job, resolved, draft, number)?;
        draft.add(number, value, |value, normal| {
            check_value(&job.schema, description, count + 1, value, normal)
        })
    }

    /// Completes the draft with the values of the RDN and the operational attributes that the server maintains, and
    /// checks the entry. Returns `None` if [`Self::problems`] is not empty.
    ///
    /// # Errors
    /// An error that ends the import.
    pub(super) fn finish(&mut self, id: EntryId, dn: &str) -> Result<Option<CheckedEntry>, OperationError> {
        match self.checked(id, dn) {
            Ok(checked) if self.problems.is_empty() => return Ok(checked),
            Ok(_) => {}
            Err(error) => self.problems.add(None, error)?,
        }
        Ok(None)
    }

    /// Checks the entry in the draft. Returns an error for a problem that prevents further checks. Collects other
    /// problems in [`Self::problems`], and returns `None` if there are any such problems.
    fn checked(&mut self, id: EntryId, dn: &str) -> Result<Option<CheckedEntry>, OperationError> {
        let job = self.job;
        let dn = parse_dn(dn)?;
        let name = self.name(&dn);
        if let Some(error) = &name.failure {
            let diagnostic = format!("{}: {error}", Quoted(dn.text()));
            return Err(OperationError::refused(ResultCode::INVALID_DN_SYNTAX, diagnostic));
        }
        let Some(suffix) = job.target_above(&name.key) else {
            let suffixes: Vec<_> = job.target_suffixes().collect();
            let diagnostic =
                format!("it is not below {}: choose the suffix to load with --suffix", suffixes.join(" or "));
            return Err(OperationError::refused(ResultCode::NO_SUCH_OBJECT, diagnostic));
        };
        check_depth(name.depth(), suffix.rdn_count)?;
        let mut rdn = String::new();
        if name.key == suffix.key {
            rdn = render_dn(&job.schema, &dn);
        } else if let Some(own) = dn.rdn() {
            render_rdn(&job.schema, &own, &mut rdn);
        }
        if let Err(error) = self.take_names(&dn, &name) {
            self.problems.add(None, error)?;
        }
        if let Err(error) = self.check_repetitions() {
            self.problems.add(None, error)?;
        }
        if let Err(error) = self.add_naming(&dn) {
            self.problems.add(None, error)?;
        }
        let (class_set, classes) = self.classes()?;
        self.check_attributes(class_set, &classes)?;
        let placed = match job.schema.has_name_forms() {
            true => Some(self.placed(&classes, &rdn, name.key == suffix.key)?),
            false => None,
        };
        if !self.problems.is_empty() {
            return Ok(None);
        }
        self.hash_passwords()?;
        self.apply_foreign_state()?;
        self.complete(id)?;
        Ok(Some(CheckedEntry { id, name, rdn, class_set, flags: classes.flags, placed }))
    }

    /// Returns the normal form of a DN. Caches the superior's normal form, because adjacent entries usually have the
    /// same superior.
    fn name(&mut self, dn: &Dn<'_>) -> NormalName {
        let schema = &self.job.schema;
        let Some(rdn) = dn.rdn() else { return NormalName::of(dn, schema) };
        let text = dn.text_from(1);
        match &self.superior {
            Some((resolved, superior)) if resolved == text => superior.below(&rdn, schema),
            _ => {
                let superior = NormalName::of(&dn.ancestor(1), schema);
                let name = superior.below(&rdn, schema);
                self.superior = Some((text.to_owned(), superior));
                name
            }
        }
    }

    fn check_repetitions(&self) -> Result<(), OperationError> {
        for attribute in self.draft.attributes() {
            if let Some(place) = self.draft.given_twice(attribute) {
                return Err(given_twice(&self.resolved.at(attribute.place).def.name, place));
            }
        }
        Ok(())
    }

    /// Adds to the draft the values of the RDN that the entry lacks.
    #[expect(clippy::indexing_slicing, reason = "the draft has just given out the number")]
    fn add_naming(&mut self, dn: &Dn<'_>) -> Result<(), OperationError> {
        for naming in naming_values(&self.job.schema, dn)? {
            let place = self.resolved.place(self.job, &naming.description)?;
            let number = self.draft.attribute(place);
            complete_normal(self.job, &self.resolved, &mut self.draft, number)?;
            let attribute = &self.draft.attributes()[number];
            if self.draft.values(attribute).any(|(_, normal)| normal == naming.value.key) {
                continue;
            }
            if self.resolved.at(place).is_single_valued && self.draft.value_count(number) > 0 {
                let attribute_type = self.job.schema.type_by_id(naming.description.type_id);
                return Err(contradicts_name(attribute_type));
            }
            let bytes = naming.value.value.as_bytes().unwrap_or_default();
            let _ = self.draft.add(number, bytes, |_, normal| {
                normal.extend_from_slice(&naming.value.key);
                Ok::<(), OperationError>(())
            });
        }
        Ok(())
    }

    /// Returns the object classes. Caches the class sets by the spellings of the classes.
    fn classes(&mut self) -> Result<(ClassSetId, Arc<ClassSet>), OperationError> {
        let place = self.resolved.place(self.job, &AttributeDescription::of(self.object_class))?;
        let mut values = Vec::new();
        if let Some(attribute) = self.draft.find(place) {
            values.extend(self.draft.values(attribute).map(|(value, _)| value));
        }
        let spelling = values.join(&0);
        if let Some((id, class_set)) = self.class_sets.get(&spelling) {
            return Ok((*id, Arc::clone(class_set)));
        }
        let class_set = Arc::new(read_classes(&self.job.schema, values.into_iter())?);
        check_imported(&class_set)?;
        let id = self.job.class_set(&class_set.classes).map_err(fatal)?;
        if self.class_sets.len() < CLASS_SETS_CACHED_MAX {
            self.class_sets.insert(spelling, (id, Arc::clone(&class_set)));
        }
        Ok((id, class_set))
    }

    /// Checks that the classes allow the attributes. Caches the allowed sets, because most entries have the same
    /// attributes.
    fn check_attributes(&mut self, class_set: ClassSetId, classes: &ClassSet) -> Result<(), OperationError> {
        self.shape.clear();
        self.shape.push(class_set.0);
        for (number, attribute) in self.draft.attributes().iter().enumerate() {
            let has_several = self.draft.value_count(number) > 1;
            self.shape.push(u32::try_from(attribute.place).unwrap_or(u32::MAX) << 1 | u32::from(has_several));
        }
        if let Some(is_empty_group) = self.shapes.get(&self.shape) {
            self.statistics.empty_groups += u64::from(*is_empty_group);
            return Ok(());
        }
        let attributes = self.draft.attributes().iter().enumerate();
        let present = attributes.map(|(number, attribute)| Present {
            description: Cow::Borrowed(&self.resolved.at(attribute.place).def.description),
            value_count: self.draft.value_count(number),
        });
        let problems = &mut self.problems;
        let count = problems.len();
        let present = present.collect::<Vec<_>>();
        check_all_attributes(&self.job.schema, classes, &present, &mut |error| problems.add(None, error))?;
        if problems.len() == count {
            let is_empty_group = is_empty_group(&self.job.schema, classes, &present);
            self.statistics.empty_groups += u64::from(is_empty_group);
            if self.shapes.len() < SHAPES_MAX {
                self.shapes.insert(self.shape.clone(), is_empty_group);
            }
        }
        Ok(())
    }

    /// Returns the properties on which structure rules depend. Records a problem if no name form permits the name.
    #[cold]
    fn placed(&mut self, classes: &ClassSet, rdn: &str, is_suffix: bool) -> Result<Placed, OperationError> {
        let schema = &self.job.schema;
        let role = role_type(schema);
        let is_role = |attribute: &&DraftAttribute| {
            Some(self.resolved.at(attribute.place).def.description.type_id) == role
        };
        let attributes = self.draft.attributes().iter().filter(is_role);
        let mut roles = attributes.flat_map(|attribute| self.draft.values(attribute)).map(|(value, _)| value);
        let is_point = is_suffix || is_administrative_point(&mut roles);
        let placed = Placed::of(schema, (classes.structural, classes.flags), rdn, is_point);
        if let Err(misplaced) = placed.check_name(schema) {
            let text = misplaced.describe(schema);
            self.problems.add(None, OperationError::refused(ResultCode::NAMING_VIOLATION, text))?;
        }
        Ok(placed)
    }

    /// Hashes clear passwords with a fast scheme. A slow scheme would take hours for a million passwords.
    #[expect(clippy::indexing_slicing, reason = "the numbers run over the attributes of the draft")]
    fn hash_passwords(&mut self) -> Result<(), OperationError> {
        for attribute in self.draft.attributes() {
            let resolved = self.resolved.at(attribute.place);
            if resolved.is_user_password {
                let forms = self.draft.values(attribute).filter_map(|(value, _)| unverifiable_form(value));
                forms.for_each(|form| *self.unverifiable.entry(form).or_default() += 1);
            } else if let Some(name) = resolved.other_secret {
                let count = self.draft.values(attribute).len() as u64;
                *self.other_secrets.entry(name).or_default() += count;
            }
        }
        if self.job.keep_clear_passwords {
            return Ok(());
        }
        for number in 0..self.draft.attributes().len() {
            let attribute = &self.draft.attributes()[number];
            if !self.resolved.at(attribute.place).is_user_password
                || self.draft.values(attribute).all(|(value, _)| is_hashed(value))
            {
                continue;
            }
            let mut stored = Vec::new();
            for (value, _) in self.draft.values(attribute) {
                if is_hashed(value) {
                    stored.push(value.to_vec());
                } else {
                    stored.push(hash(StorageScheme::Ssha512, value, &random(&mut self.random)?));
                    self.statistics.hashed_passwords += 1;
                }
            }
            let description = &self.resolved.at(attribute.place).def.description;
            self.draft.replace(number, &stored, |value, normal| {
                check_value(&self.job.schema, description, 1, value, normal)
            })?;
        }
        Ok(())
    }
}

/// Returns true if the entry is a group without members, although RFC 4519 requires one.
fn is_empty_group(schema: &Schema, classes: &ClassSet, present: &[Present<'_>]) -> bool {
    [("groupOfNames", "member"), ("groupOfUniqueNames", "uniqueMember")].iter().any(|(class, member)| {
        let class = schema.object_class(class).is_some_and(|class| classes.closure.contains(&class.id));
        let member = schema.attribute_type(member).map(|member| member.id);
        class && !present.iter().any(|attribute| Some(attribute.description.type_id) == member)
    })
}

/// Computes the normal form of an attribute's value if the normal form is missing. Must be called before the
/// attribute's values are compared.
#[expect(clippy::indexing_slicing, reason = "the number is of one of the attributes of the draft")]
fn complete_normal(
    job: &Job,
    resolved: &ResolvedAttributes,
    draft: &mut Draft,
    number: usize,
) -> Result<(), OperationError> {
    let description = &resolved.at(draft.attributes()[number].place).def.description;
    draft.complete_normal(number, |value, normal| check_value(&job.schema, description, 1, value, normal))
}

fn fatal(error: crate::model::open_error::OpenError) -> OperationError {
    OperationError::Damaged(error.to_string())
}

/// Returns the kind of refusal for an error of the LDIF reader. A value given by URL is valid LDIF, but not supported.
/// All other errors mean that the text is not LDIF.
pub(super) fn refusal_of(kind: &LdifErrorKind) -> Refusal {
    match kind {
        LdifErrorKind::UrlValue => Refusal::Bad,
        _ => Refusal::Malformed,
    }
}
