//! Allocation of numbers for attributes and class sets that no entry had before.
//!
//! Records refer to attributes and class sets by number. An operation that needs new numbers takes the next numbers and
//! lists them in its record. `apply` adds them to the catalog. A refused operation allocates no numbers.

use ldap::ResultCode;
use schema::{AttributeDescription, ClassId};

use crate::catalog::Catalog;
use crate::model::allocation::{AttributeAllocation, ClassSetAllocation};
use crate::model::limits::{ATTRIBUTES_MAX, CLASS_SETS_MAX};
use crate::model::outcome::OperationError;
use crate::model::record::Record;
use crate::model::rows::{AttrId, ClassSetId};

/// Numbers that one operation allocates.
pub(crate) struct Allocations<'a> {
    catalog: &'a Catalog,
    attributes: Vec<(AttributeDescription, AttributeAllocation)>,
    class_sets: Vec<ClassSetAllocation>,
}

impl<'a> Allocations<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Allocations<'a> {
        Allocations { catalog, attributes: Vec::new(), class_sets: Vec::new() }
    }

    /// Returns the number of an attribute. Allocates a number if the attribute has none.
    pub(crate) fn attribute(&mut self, description: &AttributeDescription) -> AttrId {
        if let Some(id) = self.catalog.attribute_id(description.type_id, &description.options) {
            return id;
        }
        let is_same = |known: &AttributeDescription| {
            known.type_id == description.type_id && known.options == description.options
        };
        if let Some((_, allocation)) = self.attributes.iter().find(|(known, _)| is_same(known)) {
            return allocation.id;
        }
        if !description.options.is_empty() {
            // Values with options are indexed under the type without options, so the number of this type is allocated
            // first.
            self.attribute(&AttributeDescription::of(description.type_id));
        }
        let id = AttrId::after(self.catalog.attributes().len() + self.attributes.len());
        let allocation = AttributeAllocation::of(id, description, &self.catalog.schema);
        self.attributes.push((description.clone(), allocation));
        id
    }

    /// Returns the number of a set of classes (ascending by OID). Allocates a number if the set has none. Must be
    /// called at most once per operation.
    pub(crate) fn class_set(&mut self, classes: &[ClassId]) -> ClassSetId {
        if let Some(id) = self.catalog.class_set_id(classes) {
            return id;
        }
        let id = ClassSetId::after(self.catalog.class_sets().len() + self.class_sets.len());
        let oids = classes.iter().map(|class| self.catalog.schema.class_by_id(*class).oid.clone()).collect();
        self.class_sets.push(ClassSetAllocation { id, oids });
        id
    }

    /// Returns the allocated numbers for the record.
    pub(crate) fn into_parts(self) -> (Vec<AttributeAllocation>, Vec<ClassSetAllocation>) {
        (self.attributes.into_iter().map(|(_, allocation)| allocation).collect(), self.class_sets)
    }
}

impl Catalog {
    /// Checks that the catalog has room for the attributes and class sets that a record allocates. The catalog keeps
    /// them forever, and clients can choose any options and combine auxiliary classes. Therefore requesters other than
    /// the administrator may fill only half of the room.
    ///
    /// # Errors
    /// adminLimitExceeded.
    pub(crate) fn check_allocations(
        &self,
        record: Option<&Record>,
        is_administrator: bool,
    ) -> Result<(), OperationError> {
        let Some(record) = record else { return Ok(()) };
        let has_room = |known: usize, new: usize, max: usize| {
            let max = if is_administrator { max } else { max / 2 };
            if new == 0 || known + new <= max { Ok(()) } else { Err(max) }
        };
        let text = if let Err(max) =
            has_room(self.attributes().len(), record.attributes.len(), ATTRIBUTES_MAX)
        {
            format!(
                "the entries of this directory have {max} attributes, counting options; there is no room for another: \
                 use attributes and options that other entries have"
            )
        } else if let Err(max) = has_room(self.class_sets().len(), record.class_sets.len(), CLASS_SETS_MAX) {
            format!(
                "the entries of this directory have {max} sets of object classes; there is no room for another: use \
                 object classes that another entry has together"
            )
        } else {
            return Ok(());
        };
        Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text))
    }
}

#[cfg(test)]
mod tests {
    use schema::Schema;

    use super::*;

    #[test]
    fn each_attribute_description_is_allocated_once_after_its_type() {
        let schema = Schema::shipped();
        let catalog = Catalog::new(schema.clone());
        let mut allocations = Allocations::new(&catalog);
        let german = schema.parse_description("cn;lang-DE").unwrap();
        assert_eq!(allocations.attribute(&german), AttrId(1));
        assert_eq!(allocations.attribute(&schema.parse_description("commonName").unwrap()), AttrId(0));
        assert_eq!(allocations.attribute(&german), AttrId(1));
        let person = schema.object_class("person").unwrap().id;
        assert_eq!(allocations.class_set(&[person]), ClassSetId(0));
        let (attributes, class_sets) = allocations.into_parts();
        let options: Vec<_> = attributes.iter().map(|attribute| attribute.options.as_str()).collect();
        assert_eq!(options, ["", "lang-de"]);
        assert_eq!(class_sets[0].oids, ["2.5.6.6"]);
    }
}
