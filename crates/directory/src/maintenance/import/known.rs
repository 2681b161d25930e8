//! Attributes as texts name them, looked up once a spelling.

use std::collections::HashMap;

use schema::{AttributeDescription, MatchingRule};

use super::foreign::{self, State};
use super::job::Job;
use crate::catalog::{
    AttributeDef, VirtualAttribute, is_user_password, password_options_problem, read_description,
};
use crate::model::index_definition::{IndexPart, IndexParts};
use crate::model::outcome::OperationError;

/// Spellings kept; a hostile text could have any number. What is beyond is looked up every time.
const SPELLINGS_MAX: usize = 16_384;

/// Lines of a record whose attribute is kept in mind for the next record.
const RECENT_MAX: usize = 64;

/// What is done with the values of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// They are left out: the server makes them when asked for.
    Virtual,
    /// They are left out: of an attribute of passwords, under options that nothing follows.
    Idle,
    /// They are values of this attribute, by its place in [`KnownAttributes`].
    Stored(usize),
    /// The same, under a description that has options of 389 DS's replication state besides.
    State(usize),
    /// They have been deleted: 389 DS keeps them for replication.
    Deleted,
    /// They say what the entry is by, as entryUUID does: nsUniqueId of 389 DS, where the schema lacks it.
    UniqueId,
    /// They say whether the account is disabled; where the schema has the attribute they are stored as well.
    Disabled(Option<usize>),
    /// They are left out: what another server keeps for itself, and nothing here follows.
    Foreign,
}

/// An attribute that some entry has.
#[derive(Clone, Debug)]
pub(super) struct KnownAttribute {
    pub(super) def: AttributeDef,
    pub(super) is_single_valued: bool,
    pub(super) is_user_password: bool,
    /// Whether normal values are indexed.
    pub(super) has_value_rows: bool,
    /// The rule of normal forms that nobody needs unless an entry has several values: those of attributes that are no
    /// links and whose normal values are not indexed.
    spared_rule: Option<MatchingRule>,
    /// What else is indexed.
    pub(super) other_parts: IndexParts,
}

impl KnownAttribute {
    /// Whether the normal form of an entry's only value is not needed, and surely exists.
    pub(super) fn spares_normal(&self, value: &[u8]) -> bool {
        self.spared_rule.is_some_and(|rule| rule.surely_has_key(value))
    }

    /// Whether the normal form of an entry's only value is not needed.
    pub(super) fn spares_normals(&self) -> bool {
        self.spared_rule.is_some()
    }
}

/// The attributes that one thread has met.
#[derive(Default)]
pub(super) struct KnownAttributes {
    by_spelling: HashMap<Box<str>, Named>,
    /// What the lines of the record before were, and the number of the line at hand: records are mostly alike.
    recent: Vec<(Box<str>, Named)>,
    line: usize,
    all: Vec<KnownAttribute>,
}

impl KnownAttributes {
    /// Says that a new record begins.
    pub(super) fn begin_record(&mut self) {
        self.line = 0;
    }

    /// The attribute of the description on the next line of a record.
    ///
    /// # Errors
    /// As [`find`](KnownAttributes::find).
    pub(super) fn find_next(&mut self, job: &Job, text: &str) -> Result<Named, OperationError> {
        let line = self.line;
        self.line += 1;
        if let Some((spelling, named)) = self.recent.get(line)
            && **spelling == *text
        {
            return Ok(*named);
        }
        let named = self.find(job, text)?;
        if let Some(recent) = self.recent.get_mut(line) {
            *recent = (text.into(), named);
        } else if line == self.recent.len() && line < RECENT_MAX {
            self.recent.push((text.into(), named));
        }
        Ok(named)
    }

    /// The attribute of a description as a text has it.
    ///
    /// # Errors
    /// undefinedAttributeType and the like.
    pub(super) fn find(&mut self, job: &Job, text: &str) -> Result<Named, OperationError> {
        if let Some(named) = self.by_spelling.get(text) {
            return Ok(*named);
        }
        if let Some(named) = self.foreign(job, text)? {
            return Ok(named);
        }
        let description = read_description(&job.schema, text)?;
        let named = match VirtualAttribute::of(job.schema.type_by_id(description.type_id)) {
            Some(_) => Named::Virtual,
            None if password_options_problem(&job.schema, &description).is_some() => Named::Idle,
            None if foreign::is_idle(&job.schema.type_by_id(description.type_id).oid) => Named::Foreign,
            None => Named::Stored(self.place(job, &description)?),
        };
        if self.by_spelling.len() < SPELLINGS_MAX {
            self.by_spelling.insert(text.into(), named);
        }
        Ok(named)
    }

    /// What a description of another server stands for, where it needs more than the schema says.
    #[cold]
    fn foreign(&mut self, job: &Job, text: &str) -> Result<Option<Named>, OperationError> {
        match foreign::without_state(text) {
            State::None => {}
            State::Deleted => return Ok(Some(Named::Deleted)),
            State::Present(plain) => {
                return Ok(Some(match self.find(job, &plain)? {
                    Named::Stored(place) => Named::State(place),
                    other => other,
                }));
            }
        }
        let name = text.split(';').next().unwrap_or_default();
        let is_defined = job.schema.attribute_type(name).is_some();
        if foreign::says_disabled(name) {
            let description = is_defined.then(|| read_description(&job.schema, text)).transpose()?;
            let place = description.map(|description| self.place(job, &description)).transpose()?;
            return Ok(Some(Named::Disabled(place)));
        }
        Ok(match is_defined {
            false if foreign::is_unique_id(name) => Some(Named::UniqueId),
            false if foreign::is_foreign(name) => Some(Named::Foreign),
            _ => None,
        })
    }

    /// The place of an attribute.
    pub(super) fn place(
        &mut self,
        job: &Job,
        description: &AttributeDescription,
    ) -> Result<usize, OperationError> {
        let is_this = |known: &KnownAttribute| {
            known.def.description.type_id == description.type_id
                && known.def.description.options == description.options
        };
        if let Some(place) = self.all.iter().position(is_this) {
            return Ok(place);
        }
        let def = job.attribute(description).map_err(|error| OperationError::Damaged(error.to_string()))?;
        let attribute_type = job.schema.type_by_id(description.type_id);
        let parts = def.index.kept_parts();
        let other = |part: &IndexPart| *part != IndexPart::Values && parts.has(*part);
        let has_value_rows = parts.has(IndexPart::Values);
        let is_needed = has_value_rows || def.is_link;
        self.all.push(KnownAttribute {
            def,
            has_value_rows,
            spared_rule: attribute_type.equality.filter(|_| !is_needed),
            other_parts: IndexPart::ALL.into_iter().filter(other).fold(IndexParts::NONE, IndexParts::with),
            is_single_valued: attribute_type.single_value,
            is_user_password: is_user_password(&job.schema, description.type_id),
        });
        Ok(self.all.len() - 1)
    }

    /// The attribute at a place.
    #[expect(clippy::indexing_slicing, reason = "the place is one that this table gave out")]
    pub(super) fn at(&self, place: usize) -> &KnownAttribute {
        &self.all[place]
    }
}
