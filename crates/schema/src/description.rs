//! Attribute descriptions: a type with options (RFC 4512 section 2.5).

use std::borrow::Cow;

use crate::{Schema, TypeId};

/// An attribute description resolved against a schema. `(type_id, options)` is what values are stored under.
///
/// The `binary` option (RFC 4522) is a way of transfer, not part of what is stored, so it is kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttributeDescription {
    /// The attribute type.
    pub type_id: TypeId,
    /// Options without `binary`: lower case, sorted, each once, joined by `;`. Empty when there are none.
    pub options: Box<str>,
    /// Whether `;binary` was given.
    pub binary: bool,
}

impl AttributeDescription {
    /// The description of a type without options.
    pub fn of(type_id: TypeId) -> AttributeDescription {
        AttributeDescription { type_id, options: Box::default(), binary: false }
    }

    /// The name under which values are returned: the schema's spelling, `;binary` where the syntax needs it, and the
    /// options. Borrowed when there are no options.
    pub fn returned_name<'s>(&self, _schema: &'s Schema) -> Cow<'s, str> {
        todo!()
    }

    /// Whether values stored under `self` answer to a request for `requested`: its type is that type or a subtype, and
    /// it has all options requested (RFC 4512 section 2.5.2). A requested `lang-en-` is a language range (RFC 3866 section 2.1).
    pub fn is_subtype_of(&self, _schema: &Schema, _requested: &AttributeDescription) -> bool {
        todo!()
    }

    /// Whether any option is a language range (`lang-en-`): fine in requests and filters, not in what is stored.
    pub fn has_language_range(&self) -> bool {
        self.options.split(';').any(|option| option.starts_with("lang-") && option.ends_with('-'))
    }
}
