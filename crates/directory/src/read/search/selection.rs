//! The attributes that a search returns (RFC 4511 section 4.5.1.8, RFC 3673 for `+`, RFC 4529 for `@class`).
//!
//! Names are resolved to attribute numbers once per search, not per entry, and not at all if all user attributes are
//! requested. A name also selects subtypes, and attributes with further options. Such attributes are returned under
//! their own names. A name unknown to the schema selects nothing.

use std::sync::Arc;

use ldap::AttributeSelection;
use schema::{AttributeDescription, Schema, TypeId};

use crate::access::EntryRights;
use crate::catalog::{Catalog, Secrecy, Shown, VirtualAttribute};
use crate::filter::ByValue;
use crate::model::access_rule::READ;
use crate::model::entry::EntryRow;
use crate::model::low_numbers::{LOW_END, LowNumbers};
use crate::model::rows::AttrId;
use crate::read::controls::AttributeOrigin;

/// OID of extensibleObject: `@extensibleObject` means `*` (RFC 4529 section 3).
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// Typical size, in octets, of an attribute with a short value in a result.
const TYPICAL_ATTRIBUTE_LEN: usize = 32;

/// Requested and permitted attributes.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Highest secrecy of the attribute types that may be returned.
    shown: Secrecy,
    /// Rights at the entry that is written; `None` if no access rules restrict the requester.
    pub(super) rights: Option<Arc<EntryRights>>,
    /// Whether all user attributes are selected (`*`).
    all_user: bool,
    /// Whether all operational attributes are selected (`+`).
    all_operational: bool,
    named: Vec<AttributeDescription>,
    /// Whether `named` selects exactly its attributes, without subtypes and further options.
    is_exact: bool,
    /// Names of attributes that the schema does not define, in lower case. Virtual entries can have such attributes.
    pub(super) unknown: Vec<String>,
    /// Attribute numbers below [`LOW_END`] that `named` includes.
    low: LowNumbers,
    /// Attribute numbers from [`LOW_END`] on that `named` includes, ascending.
    high: Vec<AttrId>,
    /// Number of attributes of the catalog when `low` and `high` were computed.
    attribute_count: usize,
    /// Virtual attributes to compute, with their types.
    pub(crate) virtual_attributes: Vec<(VirtualAttribute, TypeId)>,
}

impl Selection {
    /// Creates the selection from the list in a search request.
    pub(crate) fn of(list: AttributeSelection<'_>, catalog: &Catalog, shown: Shown) -> Selection {
        let mut selection = Selection {
            shown: shown.highest(),
            rights: None,
            all_user: list.is_empty(),
            all_operational: false,
            named: Vec::new(),
            is_exact: false,
            unknown: Vec::new(),
            low: LowNumbers::default(),
            high: Vec::new(),
            attribute_count: 0,
            virtual_attributes: Vec::new(),
        };
        for selector in list.iter() {
            selection.add(selector, &catalog.schema);
        }
        selection.select_computed(catalog);
        selection
    }

    /// Selects exactly these attributes, without subtypes or further options.
    #[cold]
    pub(super) fn exactly(named: Vec<AttributeDescription>, catalog: &Catalog, shown: Shown) -> Selection {
        let none = ldap::SelectionBuf::from_iter(["1.1"]);
        let none = Selection::of(none.as_selection(), catalog, shown);
        let mut selection = Selection { named, is_exact: true, ..none };
        selection.select_computed(catalog);
        selection
    }

    /// Returns true if all user attributes are selected.
    #[inline]
    pub(super) fn is_all_user(&self) -> bool {
        self.all_user
    }

    /// Adds memberOf.
    #[cold]
    pub(super) fn add_member_of(&mut self, catalog: &Catalog) {
        let is_it = |(virtual_attributes, _): &(VirtualAttribute, TypeId)| {
            *virtual_attributes == VirtualAttribute::MemberOf
        };
        if !self.virtual_attributes.iter().any(is_it) {
            self.virtual_attributes.extend(VirtualAttribute::all(&catalog.schema).find(is_it));
        }
    }

    /// Sets the selected virtual attributes.
    fn select_computed(&mut self, catalog: &Catalog) {
        let may_be_virtual = |named: &AttributeDescription| catalog.type_facts(named.type_id).has_virtual;
        if self.all_operational || self.named.iter().any(may_be_virtual) {
            let virtual_attributes = VirtualAttribute::all(&catalog.schema);
            let virtual_attributes = virtual_attributes.filter(|(virtual_attributes, type_id)| {
                match virtual_attributes.is_of_all_operational() {
                    true => self.selects(catalog, &AttributeDescription::of(*type_id)),
                    false => self.named.contains(&AttributeDescription::of(*type_id)),
                }
            });
            self.virtual_attributes = virtual_attributes.collect();
        }
    }

    /// Removes all attributes from the selection.
    #[cold]
    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.keep_origin(AttributeOrigin::Computed);
        self.virtual_attributes.clear();
    }

    /// Removes from the selection the attributes that do not have this origin.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_origin(&mut self, origin: AttributeOrigin) {
        match origin {
            AttributeOrigin::Stored => self.virtual_attributes.clear(),
            AttributeOrigin::Computed => {
                (self.all_user, self.all_operational) = (false, false);
                self.named.clear();
                self.unknown.clear();
            }
        }
    }

    fn add(&mut self, selector: &str, schema: &Schema) {
        match selector {
            "*" => self.all_user = true,
            "+" => self.all_operational = true,
            // Alone, `1.1` selects no attributes. Together with other names, `1.1` is ignored (RFC 4511 section
            // 4.5.1.8).
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

    /// Adds `@class`, with or without options: all attributes that the class requires or allows.
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

    /// Returns the memory that the selection uses, without itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let named: usize = self.named.iter().map(|named| named.options.len()).sum();
        let unknown: usize = self.unknown.iter().map(String::capacity).sum();
        named
            + unknown
            + self.named.capacity() * size_of::<AttributeDescription>()
            + self.unknown.capacity() * size_of::<String>()
            + self.high.capacity() * size_of::<AttrId>()
            + self.virtual_attributes.capacity() * size_of::<(VirtualAttribute, TypeId)>()
    }

    /// Returns true if stored attributes may be selected. If this function returns false, entry rows need not be read.
    pub(crate) fn selects_stored(&self) -> bool {
        self.all_user || self.all_operational || !self.named.is_empty()
    }

    /// Estimates the size of the selected attributes in a result, in octets. The estimate is close enough that the BER
    /// length field of the attributes usually has the right number of octets.
    pub(crate) fn guess_len(&self, row: &EntryRow<'_>) -> usize {
        if self.all_user { row.len() } else { self.named.len() * TYPICAL_ATTRIBUTE_LEN }
    }

    /// Returns true if a stored attribute is selected and the requester may read all its values.
    #[inline]
    pub(crate) fn decide(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let def = catalog.attribute(attribute);
        self.selects_attribute(catalog, attribute)
            && def.secrecy <= self.shown
            && self.permits(def.description.type_id)
    }

    /// Returns the attribute numbers below [`LOW_END`] that are selected and that the secrecy of their attributes
    /// permits. The caller must check each attribute with [`permits`](Selection::permits).
    #[inline]
    pub(super) fn low_numbers(&mut self, catalog: &Catalog) -> LowNumbers {
        let returnable = catalog.returnable();
        let mut selected = LowNumbers::default();
        if !self.named.is_empty() {
            if self.attribute_count != catalog.attributes().len() {
                self.number(catalog);
            }
            selected = self.low;
        }
        if self.all_user {
            selected = selected.or(returnable.user());
        }
        if self.all_operational {
            selected = selected.or(returnable.operational());
        }
        selected.and(returnable.visible(self.shown))
    }

    /// Returns true if a stored attribute is selected and the requester may read only some of its values. Rules about
    /// single values do not cover secrets.
    pub(super) fn decide_some(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let type_id = catalog.attribute(attribute).description.type_id;
        self.over_values(type_id).is_some() && self.selects_attribute(catalog, attribute)
    }

    /// Returns true if a stored attribute is selected and the requester may read at least some of its values.
    #[cold]
    pub(super) fn decide_any(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        self.decide(catalog, attribute) || self.decide_some(catalog, attribute)
    }

    /// Returns true if a stored attribute is selected by its kind (user or operational) or by name.
    #[inline]
    fn selects_attribute(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        let by_kind = match catalog.attribute(attribute).is_operational {
            true => self.all_operational,
            false => self.all_user,
        };
        by_kind || self.is_numbered(catalog, attribute)
    }

    /// Returns the rights to single values of a type, if the requester may read only some of them.
    pub(super) fn over_values(&self, type_id: TypeId) -> Option<&Arc<ByValue>> {
        self.rights.as_ref()?.over_values(READ, type_id)
    }

    /// Returns the rights to single values, if there is a type of which the requester may read only some values.
    pub(super) fn by_value(&self) -> Option<&Arc<ByValue>> {
        self.rights.as_ref()?.by_value()
    }

    /// Returns true if all values of a type may be returned when the type is selected.
    pub(super) fn may_return(&self, catalog: &Catalog, type_id: TypeId) -> bool {
        catalog.secrets.of_type(type_id) <= self.shown && self.permits(type_id)
    }

    /// Returns true if access rules permit all values of a type to be read.
    #[inline]
    pub(crate) fn permits(&self, type_id: TypeId) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_read(type_id))
    }

    /// Returns true if a stored attribute is selected by name.
    #[inline]
    fn is_numbered(&mut self, catalog: &Catalog, attribute: AttrId) -> bool {
        if self.named.is_empty() {
            return false;
        }
        if self.attribute_count != catalog.attributes().len() {
            self.number(catalog);
        }
        match attribute.0 {
            low @ ..LOW_END => self.low.contains(low),
            _ => self.high.binary_search(&attribute).is_ok(),
        }
    }

    /// Resolves the numbers of attributes selected by name.
    #[cold]
    fn number(&mut self, catalog: &Catalog) {
        self.attribute_count = catalog.attributes().len();
        self.low = LowNumbers::default();
        self.high.clear();
        for named in &self.named {
            for id in catalog.matching_attributes(named).iter() {
                if self.is_exact && catalog.attribute(*id).description != *named {
                    continue;
                }
                match id.0 {
                    ..LOW_END => self.low.insert(*id),
                    _ => self.high.push(*id),
                }
            }
        }
        self.high.sort_unstable();
    }

    /// Returns true if the attribute is selected and its values may be returned.
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

    /// Returns true if an attribute unknown to the schema is selected.
    pub(crate) fn selects_unknown(&self, name: &str) -> bool {
        self.all_user || self.unknown.iter().any(|unknown| unknown.eq_ignore_ascii_case(name))
    }
}
