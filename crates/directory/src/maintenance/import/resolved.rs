//! Cache of attribute descriptions, so that each spelling in the text is resolved once.

use std::collections::HashMap;

use ldap::ResultCode;
use schema::{AttributeDescription, MatchingRule};

use super::foreign::{self, State};
use super::job::Job;
use super::vendor::{self, Vendor, vendor};
use crate::catalog::{
    AttributeDef, VirtualAttribute, is_user_password, password_options_problem, read_description,
};
use crate::model::index_definition::{IndexPart, IndexParts};
use crate::model::outcome::OperationError;
use crate::model::value_end::of_option;

/// Maximum number of cached spellings, because a hostile text can contain any number of spellings. Further spellings
/// are resolved every time.
const SPELLINGS_MAX: usize = 16_384;

/// Maximum number of lines of a record whose attributes are cached for the next record.
const RECENT_MAX: usize = 64;

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";

/// Handling of the values under one attribute description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueHandling {
    /// The values are dropped, because the server computes them when requested.
    Virtual,
    /// The values are dropped, because no bind uses a password attribute with these options.
    Meaningless,
    /// The values are stored in the attribute at this place of [`ResolvedAttributes`].
    Stored(usize),
    /// The description has options of 389 DS's replication state. The values are stored without these options.
    State(usize),
    /// The description has Active Directory's option `range`. The values are stored without this option. The flag is
    /// true for the last range.
    Part(usize, bool),
    /// Active Directory repeats the name of the entry in this attribute. The values are stored if the classes allow the
    /// attribute.
    Name(usize),
    /// The values are stored with this end time.
    Ending(usize, u64),
    /// The values are dropped, because 389 DS has deleted them and keeps them only for replication.
    Deleted,
    /// The values of another server's attribute are converted. The values are also stored if the schema defines the
    /// attribute.
    Converted(Vendor, Option<usize>),
    /// The values are dropped. The schema defines the attribute, but an import ignores it.
    Foreign,
    /// The values are dropped: the attribute is known from other servers, or the options leave it out. Contains the
    /// place of the attribute's name in the job's list.
    LeftOut(usize),
    /// Object classes, some of which the options leave out.
    Classes(usize),
}

/// A resolved attribute.
#[derive(Clone, Debug)]
pub(super) struct ResolvedAttribute {
    pub(super) def: AttributeDef,
    pub(super) is_single_valued: bool,
    pub(super) is_user_password: bool,
    /// Name of the attribute, if its values are secrets that no bind uses.
    pub(super) other_secret: Option<&'static str>,
    /// Whether the normal forms of all values are indexed.
    pub(super) has_value_rows: bool,
    /// Equality rule, if normal forms are needed only to compare several values. This is the case if the attribute is
    /// not a link and normal forms are not indexed.
    spared_rule: Option<MatchingRule>,
    /// Index parts of the attribute, except normal values.
    pub(super) other_parts: IndexParts,
}

fn is_object_class(job: &Job, description: &AttributeDescription) -> bool {
    job.schema.type_by_id(description.type_id).oid == OBJECT_CLASS
}

impl ResolvedAttribute {
    /// Returns true if the normal form of an entry's only value need not be computed, because the value certainly has
    /// a normal form.
    pub(super) fn spares_normal(&self, value: &[u8]) -> bool {
        self.spared_rule.is_some_and(|rule| rule.surely_has_key(value))
    }

    /// Returns true if the normal form of an entry's only value is not needed.
    pub(super) fn spares_normals(&self) -> bool {
        self.spared_rule.is_some()
    }
}

/// Attributes that one thread has resolved.
#[derive(Default)]
pub(super) struct ResolvedAttributes {
    by_spelling: HashMap<Box<str>, ValueHandling>,
    /// Attribute descriptions on the lines of the previous record. The next record usually has the same descriptions.
    recent: Vec<(Box<str>, ValueHandling)>,
    line: usize,
    all: Vec<ResolvedAttribute>,
}

impl ResolvedAttributes {
    /// Begins a new record.
    pub(super) fn begin_record(&mut self) {
        self.line = 0;
    }

    /// Returns the handling of the description on the next line of a record.
    ///
    /// # Errors
    /// See [`find`](ResolvedAttributes::find).
    pub(super) fn find_next(&mut self, job: &Job, text: &str) -> Result<ValueHandling, OperationError> {
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

    /// Returns the handling of a description in the text.
    ///
    /// # Errors
    /// undefinedAttributeType and similar codes.
    pub(super) fn find(&mut self, job: &Job, text: &str) -> Result<ValueHandling, OperationError> {
        if let Some(named) = self.by_spelling.get(text) {
            return Ok(*named);
        }
        if let Some(named) = self.foreign(job, text)? {
            return Ok(named);
        }
        let description = read_description(&job.schema, text)?;
        let named = match VirtualAttribute::of(job.schema.type_by_id(description.type_id)) {
            Some(_) => ValueHandling::Virtual,
            None if password_options_problem(&job.schema, &description).is_some() => {
                ValueHandling::Meaningless
            }
            None if foreign::has_no_effect(&job.schema.type_by_id(description.type_id).oid) => {
                ValueHandling::Foreign
            }
            None if job.leaves_classes_out && is_object_class(job, &description) => {
                ValueHandling::Classes(self.place(job, &description)?)
            }
            None => ValueHandling::Stored(self.place(job, &description)?),
        };
        if self.by_spelling.len() < SPELLINGS_MAX {
            self.by_spelling.insert(text.into(), named);
        }
        Ok(named)
    }

    /// Returns the handling of a description of another server, if the schema alone does not determine it.
    #[cold]
    fn foreign(&mut self, job: &Job, text: &str) -> Result<Option<ValueHandling>, OperationError> {
        match foreign::without_state(text) {
            State::None => {}
            State::Deleted => return Ok(Some(ValueHandling::Deleted)),
            State::Present(plain) => {
                return Ok(Some(match self.find(job, &plain)? {
                    ValueHandling::Stored(place) => ValueHandling::State(place),
                    other => other,
                }));
            }
        }
        if let Some((plain, is_last)) = foreign::without_range(text) {
            return Ok(Some(match self.find(job, &plain)? {
                ValueHandling::Stored(place) => ValueHandling::Part(place, is_last),
                other => other,
            }));
        }
        if let Some(ending) = self.ending(job, text)? {
            return Ok(Some(ending));
        }
        let (name, options) = text.split_at(text.find(';').unwrap_or(text.len()));
        if let Some(place) = job.left_out_by_operator(name) {
            return Ok(Some(ValueHandling::LeftOut(place)));
        }
        if let Some(other) = job.renamed(name) {
            return self.find(job, &format!("{other}{options}")).map(Some);
        }
        if name.eq_ignore_ascii_case(vendor::OTHER_FORM) {
            return Ok(job.left_out(name).map(ValueHandling::LeftOut));
        }
        if options.is_empty() && vendor::repeats_name(name) {
            let description = read_description(&job.schema, name)?;
            return self.place(job, &description).map(|place| Some(ValueHandling::Name(place)));
        }
        let is_defined = job.defines(name);
        Ok(match vendor(name) {
            Some(vendor @ Vendor::Disabled(_)) => {
                let description = is_defined.then(|| read_description(&job.schema, text)).transpose()?;
                let place = description.map(|description| self.place(job, &description)).transpose()?;
                Some(ValueHandling::Converted(vendor, place))
            }
            Some(Vendor::LeftOut) if !is_defined => job.left_out(name).map(ValueHandling::LeftOut),
            Some(vendor) if !is_defined => Some(ValueHandling::Converted(vendor, None)),
            _ => None,
        })
    }

    /// Returns the handling of a description with the option for an end time.
    fn ending(&mut self, job: &Job, text: &str) -> Result<Option<ValueHandling>, OperationError> {
        let Some(end) = text.split(';').skip(1).find_map(of_option) else { return Ok(None) };
        let refuse = |what: &str| {
            Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, format!("{text}: {what}")))
        };
        let Ok(until) = end else {
            return refuse("the end is a time in UTC such as 20270101000000Z, or \"never\"");
        };
        let others: Vec<&str> = text.split(';').filter(|option| of_option(option).is_none()).collect();
        match self.find(job, &others.join(";"))? {
            ValueHandling::Stored(place) if !self.at(place).def.is_link => {
                refuse("only values that name entries, such as member, can have an end")
            }
            ValueHandling::Stored(place) if until > 0 => Ok(Some(ValueHandling::Ending(place, until))),
            other => Ok(Some(other)),
        }
    }

    /// Returns the index of an attribute. Adds the attribute if it is not known.
    pub(super) fn place(
        &mut self,
        job: &Job,
        description: &AttributeDescription,
    ) -> Result<usize, OperationError> {
        let is_this = |resolved: &ResolvedAttribute| {
            resolved.def.description.type_id == description.type_id
                && resolved.def.description.options == description.options
        };
        if let Some(place) = self.all.iter().position(is_this) {
            return Ok(place);
        }
        let def = job.attribute(description).map_err(|error| OperationError::Damaged(error.to_string()))?;
        let attribute_type = job.schema.type_by_id(description.type_id);
        let parts = def.index.maintained_parts();
        let other = |part: &IndexPart| *part != IndexPart::Values && parts.has(*part);
        let has_value_rows = parts.has(IndexPart::Values);
        let is_needed = has_value_rows || def.is_link;
        self.all.push(ResolvedAttribute {
            def,
            has_value_rows,
            spared_rule: attribute_type.equality.filter(|_| !is_needed),
            other_parts: IndexPart::ALL.into_iter().filter(other).fold(IndexParts::NONE, IndexParts::with),
            is_single_valued: attribute_type.single_value,
            is_user_password: is_user_password(&job.schema, description.type_id),
            other_secret: vendor::other_secret(attribute_type),
        });
        Ok(self.all.len() - 1)
    }

    /// Returns the attribute at an index.
    #[expect(clippy::indexing_slicing, reason = "the place is one that this table gave out")]
    pub(super) fn at(&self, place: usize) -> &ResolvedAttribute {
        &self.all[place]
    }
}
