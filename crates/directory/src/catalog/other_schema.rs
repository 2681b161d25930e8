//! The catalog under another schema, and numbers whose definitions were removed.
//!
//! A number never changes its meaning, because log records refer to the number. A definition can be removed if no entry
//! uses it. The numbers of the attributes and class sets that refer to the definition are then *retired*: `meta` marks
//! these numbers, and lookups by name do not find them. Histories show a retired attribute by its OID, without its
//! values. A new definition with the same OID reuses the numbers.

use std::sync::Arc;

use ldap::response::AttributeFrame;
use schema::{AttributeDescription, Schema, TypeId};
use store::Read;

use super::{AttributeDef, Catalog, ClassSet, META_ATTRIBUTE, META_INDEX, meta_key, meta_rows};
use crate::catalog::secret::USER_PASSWORD;
use crate::model::allocation::{AttributeAllocation, ClassSetAllocation};
use crate::model::codec::Decoder;
use crate::model::index_definition::{AttributeIndex, IndexPart, Phase};
use crate::model::link_types::is_declared_link;
use crate::model::open_error::OpenError;
use crate::model::rows::{AttrId, META};

/// Numbers whose meaning differs under another schema.
#[derive(Default)]
pub(crate) struct ChangedNumbers {
    /// Attributes with different matching rules, and attributes that become retired or are reused.
    pub(crate) attributes: Vec<AttributeAllocation>,
    /// Class sets that become retired or are reused.
    pub(crate) class_sets: Vec<ClassSetAllocation>,
    /// Attributes whose values become links, each with the allocation of its second number.
    pub(crate) links: Vec<(AttrId, AttributeAllocation)>,
}

impl Catalog {
    /// Returns the catalog under another schema, and the numbers whose meaning changes. Does not check whether existing
    /// entries permit the change.
    ///
    /// # Errors
    /// A suffix is invalid under the schema.
    pub(crate) fn with_schema(&self, schema: Arc<Schema>) -> Result<(Catalog, ChangedNumbers), OpenError> {
        let mut catalog = Catalog::new(schema);
        let mut changed = ChangedNumbers::default();
        for def in &self.attributes {
            let before = self.allocation(def);
            let is_defined = catalog.schema.attribute_type(&before.oid).is_some();
            let mut now = before.clone();
            if !is_defined {
                now.rules = String::new();
            }
            catalog.add_attribute(&now)?;
            let Some(known) = catalog.attributes.get_mut(def.id.0 as usize) else { continue };
            known.index = def.index;
            if let (true, Some(known)) = (is_defined, catalog.attributes.get(def.id.0 as usize)) {
                now = catalog.allocation(known);
            }
            if now != before {
                changed.attributes.push(now);
            }
        }
        catalog.add_links(&self.becoming_links, &mut changed)?;
        for before in self.class_set_allocations(0) {
            let mut now = before.clone();
            now.oids.retain(|oid| !oid.is_empty());
            if now.oids.iter().any(|oid| catalog.schema.object_class(oid).is_none()) {
                now.oids.push(String::new());
            }
            catalog.add_class_set(&now)?;
            if now != before {
                changed.class_sets.push(now);
            }
        }
        for suffix in &self.suffixes {
            catalog.add_numbered_suffix(suffix.number, &suffix.dn)?;
        }
        catalog.set_settings(self.settings.clone());
        catalog.set_sort_orders(self.sort_orders.iter().map(|order| (order.number, order.row.clone())));
        catalog.schema_times = self.schema_times.clone();
        catalog.administrator = self.administrator.clone();
        catalog.index_version = self.index_version;
        catalog.schema_version = self.schema_version + 1;
        Ok((catalog, changed))
    }

    /// Allocates second numbers for attributes whose values become links under this schema. `pending` lists the
    /// attributes whose conversion is not complete.
    fn add_links(&mut self, pending: &[AttrId], changed: &mut ChangedNumbers) -> Result<(), OpenError> {
        let becomes_link = |def: &&AttributeDef| {
            def.retired.is_none()
                && def.replaced_by.is_none()
                && !def.is_link
                && is_declared_link(self.schema.type_by_id(def.description.type_id))
        };
        let plain: Vec<_> = self.attributes.iter().filter(becomes_link).cloned().collect();
        for def in plain {
            let id = AttrId::after(self.attributes.len());
            let link = AttributeAllocation::of(id, &def.description, &self.schema);
            self.add_attribute(&link)?;
            changed.links.push((def.id, link));
        }
        let new = changed.links.iter().map(|(id, _)| *id);
        self.set_becoming_links(pending.iter().copied().chain(new).collect());
        Ok(())
    }

    /// Returns the allocation of an attribute in the form of `meta`.
    fn allocation(&self, def: &AttributeDef) -> AttributeAllocation {
        match &def.retired {
            None if def.is_link => AttributeAllocation::of(def.id, &def.description, &self.schema),
            None => AttributeAllocation::of(def.id, &def.description, &self.schema).plain(),
            Some(oid) => AttributeAllocation {
                id: def.id,
                oid: oid.to_string(),
                options: def.description.options.to_string(),
                rules: String::new(),
            },
        }
    }

    /// Returns the allocations of the class sets with the number `from` or a higher number.
    pub(crate) fn class_set_allocations(&self, from: usize) -> Vec<ClassSetAllocation> {
        let sets = self.numbered_class_sets().skip(from);
        let allocations = sets.map(|(id, class_set)| {
            let classes = class_set.classes.iter().map(|class| self.schema.class_by_id(*class).oid.clone());
            let oids = class_set.retired.clone().unwrap_or_else(|| classes.collect());
            ClassSetAllocation { id, oids }
        });
        allocations.collect()
    }

    /// Adds an attribute whose definition was removed. The attribute is treated as a variant of userPassword, so that
    /// no requester can read its former values in histories.
    pub(super) fn add_retired_attribute(&mut self, allocation: &AttributeAllocation) {
        let oid = allocation.oid.as_str();
        let type_id = self.schema.attribute_type(USER_PASSWORD).map_or(TypeId(0), |known| known.id);
        let options = allocation.options.as_str();
        let description = AttributeDescription { type_id, options: options.into(), binary: false };
        let name = if options.is_empty() { oid.to_owned() } else { format!("{oid};{options}") };
        let mut variants = self.attributes.iter().filter(|def| def.retired.as_deref() == Some(oid));
        let base = variants.find(|def| def.id == def.base).map_or(allocation.id, |def| def.id);
        self.attributes.push(AttributeDef {
            id: allocation.id,
            base,
            frame: AttributeFrame::new(&name),
            name,
            is_link: false,
            replaced_by: None,
            name_syntax: None,
            index: AttributeIndex::default(),
            equality: None,
            is_operational: false,
            secrecy: self.secrets.of_type(type_id),
            of_account: None,
            description,
            retired: Some(oid.into()),
        });
    }

    /// Adds a class set that contains a class whose definition was removed.
    pub(super) fn add_retired_class_set(&mut self, allocation: &ClassSetAllocation) {
        let known = allocation.oids.iter().filter_map(|oid| self.schema.object_class(oid));
        let known = known.map(|class| class.id).collect();
        let retired = Some(allocation.oids.clone());
        self.class_sets.push(ClassSet { retired, ..ClassSet::of(known, &self.schema) });
    }

    /// Makes searches ignore each index whose rows in `read` were built under matching rules that differ from the
    /// present matching rules.
    ///
    /// # Errors
    /// Rows are damaged.
    pub(crate) fn distrust_stale_indexes(&mut self, read: &Read) -> Result<(), OpenError> {
        for (number, _) in meta_rows(read, META_INDEX)? {
            let Some(def) = self.attributes.get(number as usize) else { continue };
            let row = read.get(META, &meta_key(META_ATTRIBUTE, number))?;
            let stored = row.and_then(|row| AttributeAllocation::decode(&mut Decoder(row)));
            if stored.is_none_or(|stored| stored.rules == self.allocation(def).rules) {
                continue;
            }
            let mut index = def.index;
            for part in IndexPart::ALL.into_iter().filter(|part| def.index.answers(*part)) {
                index.set_phase(part, Phase::Building);
            }
            self.set_index(AttrId(number), index, self.index_version);
        }
        Ok(())
    }
}
