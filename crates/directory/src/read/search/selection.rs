//! Which attributes a search returns (RFC 4511 section 4.5.1.8, RFC 3673 for `+`, RFC 4529 for `@class`).
//!
//! What the catalogue's numbers stand for is looked up once a search, not once an entry, and not at all where every
//! user attribute is asked for. A name asks for its subtypes and for any further options, each returned under its own
//! name; names that the schema does not know ask for nothing.

use std::sync::Arc;

use ldap::AttributeSelection;
use schema::{AttributeDescription, Schema, TypeId};

use crate::access::{Access, EntryRights};
use crate::catalog::{Catalog, Secrecy, VirtualAttribute};
use crate::filter::ByValue;
use crate::model::access_rule::READ;
use crate::model::entry::EntryRow;
use crate::model::rows::AttrId;

/// OID of extensibleObject: `@extensibleObject` means `*` (RFC 4529 section 3).
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// Octets that an attribute with a short value takes in a result.
const TYPICAL_ATTRIBUTE_LEN: usize = 32;

/// The attributes asked for and allowed.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// The highest secrecy of types that are returned.
    shown: Secrecy,
    /// What access rules let of the entry that is written be read; `None` where none bind.
    pub(super) rights: Option<Arc<EntryRights>>,
    /// `*`: every user attribute.
    all_user: bool,
    /// `+`: every operational attribute.
    all_operational: bool,
    named: Vec<AttributeDescription>,
    /// Whether neither subtypes nor further options come with what is named.
    is_exact: bool,
    /// Names that the schema does not know, in lower case; entries outside the tree can have such attributes.
    unknown: Vec<String>,
    /// A bit for each attribute number, set where `named` asks for it.
    numbers: Vec<u64>,
    /// How many attributes the catalogue had when `numbers` was made.
    attribute_count: usize,
    /// Virtual attributes to make, with their types.
    pub(crate) made: Vec<(VirtualAttribute, TypeId)>,
}

impl Selection {
    /// Reads the list of a search request.
    pub(crate) fn of(list: AttributeSelection<'_>, catalog: &Catalog, access: Access) -> Selection {
        let mut selection = Selection {
            shown: access.shown().highest(),
            rights: None,
            all_user: list.is_empty(),
            all_operational: false,
            named: Vec::new(),
            is_exact: false,
            unknown: Vec::new(),
            numbers: Vec::new(),
            attribute_count: 0,
            made: Vec::new(),
        };
        for selector in list.iter() {
            selection.add(selector, &catalog.schema);
        }
        selection.select_made(catalog);
        selection
    }

    /// Of these attributes each by itself: no subtypes, and no further options.
    #[cold]
    pub(super) fn exactly(named: Vec<AttributeDescription>, catalog: &Catalog, access: Access) -> Selection {
        let none = ldap::SelectionBuf::from_iter(["1.1"]);
        let none = Selection::of(none.as_selection(), catalog, access);
        let mut selection = Selection { named, is_exact: true, ..none };
        selection.select_made(catalog);
        selection
    }

    /// Finds the virtual attributes that are asked for.
    fn select_made(&mut self, catalog: &Catalog) {
        let may_be_virtual = |named: &AttributeDescription| catalog.type_facts(named.type_id).has_virtual;
        if self.all_operational || self.named.iter().any(may_be_virtual) {
            let made = VirtualAttribute::all(&catalog.schema);
            let made = made.filter(|(_, type_id)| self.selects(catalog, &AttributeDescription::of(*type_id)));
            self.made = made.collect();
        }
    }

    fn add(&mut self, selector: &str, schema: &Schema) {
        match selector {
            "*" => self.all_user = true,
            "+" => self.all_operational = true,
            // No attributes; beside others it is ignored (RFC 4511 section 4.5.1.8).
            "1.1" => {}
            _ => match selector.strip_prefix('@') {
                Some(class) => self.add_class(class, schema),
                None => match schema.parse_description(selector) {
                    Ok(description) => self.named.push(description),
                    Err(_) => self.unknown.push(selector.to_ascii_lowercase()),
                },
            },
        }
    }

    /// `@class`, with or without options behind it: all attributes that the class requires or allows.
    fn add_class(&mut self, class: &str, schema: &Schema) {
        let (name, options) = class.split_once(';').unwrap_or((class, ""));
        let Some(class) = schema.object_class(name) else { return };
        if class.oid == EXTENSIBLE_OBJECT {
            self.all_user = true;
            return;
        }
        for type_id in class.all_must.iter().chain(&class.all_may) {
            let description = if options.is_empty() {
                Some(AttributeDescription::of(*type_id))
            } else {
                schema.parse_description(&format!("{};{options}", schema.type_by_id(*type_id).name())).ok()
            };
            self.named.extend(description);
        }
    }

    /// Bytes of memory that it holds besides itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let named: usize = self.named.iter().map(|named| named.options.len()).sum();
        let unknown: usize = self.unknown.iter().map(String::capacity).sum();
        named
            + unknown
            + self.named.capacity() * size_of::<AttributeDescription>()
            + self.unknown.capacity() * size_of::<String>()
            + self.numbers.capacity() * size_of::<u64>()
            + self.made.capacity() * size_of::<(VirtualAttribute, TypeId)>()
    }

    /// Whether any stored attribute can be asked for: otherwise entries need not be opened.
    pub(crate) fn selects_stored(&self) -> bool {
        self.all_user || self.all_operational || !self.named.is_empty()
    }

    /// About how many octets the attributes asked for take in a result: right as to the number of octets that say it,
    /// mostly.
    pub(crate) fn guess_len(&self, row: &EntryRow<'_>) -> usize {
        if self.all_user { row.len() } else { self.named.len() * TYPICAL_ATTRIBUTE_LEN }
    }

    /// Whether a stored attribute is asked for and all its values may be read.
    #[inline]
    pub(crate) fn decide(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let def = catalog.attribute(attribute);
        self.asks_for(catalog, attribute)
            && def.secrecy <= self.shown
            && self.permits(def.description.type_id)
    }

    /// Whether a stored attribute is asked for of which only some values may be read. There are none of secrets.
    pub(super) fn decide_some(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let type_id = catalog.attribute(attribute).description.type_id;
        self.over_values(type_id).is_some() && self.asks_for(catalog, attribute)
    }

    /// Whether a stored attribute is asked for and at least some of its values may be read.
    #[cold]
    pub(super) fn decide_any(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        self.decide(catalog, attribute) || self.decide_some(catalog, attribute)
    }

    /// Whether a stored attribute is asked for, by its kind or by name.
    #[inline]
    fn asks_for(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let by_kind = match catalog.attribute(attribute).is_operational {
            true => self.all_operational,
            false => self.all_user,
        };
        by_kind || self.is_numbered(catalog, attribute)
    }

    /// What tells values of a type apart, where access rules let only some be read.
    pub(super) fn over_values(&self, type_id: TypeId) -> Option<&Arc<ByValue>> {
        self.rights.as_ref()?.over_values(READ, type_id)
    }

    /// What tells values apart, where access rules let only some of any type be read.
    pub(super) fn by_value(&self) -> Option<&Arc<ByValue>> {
        self.rights.as_ref()?.by_value()
    }

    /// Whether access rules let all values of a type be read.
    #[inline]
    pub(crate) fn permits(&self, type_id: TypeId) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_read(type_id))
    }

    /// Whether a stored attribute is asked for by name.
    #[inline]
    fn is_numbered(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        if self.named.is_empty() {
            return false;
        }
        if self.attribute_count != catalog.attributes().len() {
            self.number(catalog);
        }
        let place = attribute.0 as usize;
        self.numbers.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0)
    }

    /// Looks up the numbers of what is asked for by name.
    #[cold]
    fn number(&mut self, catalog: &Catalog) {
        self.attribute_count = catalog.attributes().len();
        self.numbers.clear();
        self.numbers.resize(self.attribute_count.div_ceil(64), 0);
        for named in &self.named {
            for id in catalog.matching_attributes(named).iter() {
                if self.is_exact && catalog.attribute(*id).description != *named {
                    continue;
                }
                let place = id.0 as usize;
                if let Some(bits) = self.numbers.get_mut(place / 64) {
                    *bits |= 1 << (place % 64);
                }
            }
        }
    }

    /// Whether the attribute is asked for and may be read.
    pub(crate) fn selects(&self, catalog: &Catalog, description: &AttributeDescription) -> bool {
        let schema = &*catalog.schema;
        let is_operational = schema.type_by_id(description.type_id).is_operational();
        self.is_named(schema, description, is_operational)
            && catalog.secrets.of_type(description.type_id) <= self.shown
    }

    fn is_named(&self, schema: &Schema, description: &AttributeDescription, is_operational: bool) -> bool {
        let by_kind = if is_operational { self.all_operational } else { self.all_user };
        let is_meant = |named: &AttributeDescription| match self.is_exact {
            true => description == named,
            false => description.is_subtype_of(schema, named),
        };
        by_kind || self.named.iter().any(is_meant)
    }

    /// Whether an attribute that the schema does not know is asked for.
    pub(crate) fn selects_unknown(&self, name: &str) -> bool {
        self.all_user || self.unknown.iter().any(|unknown| unknown.eq_ignore_ascii_case(name))
    }
}
