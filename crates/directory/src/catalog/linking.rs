//! Conversion of plain values to links, after the definition of their attribute type received `X-LINK`.
//!
//! The attribute receives a second number, under which entries have links. Until all entries are converted, some
//! entries have plain values under the first number, and the other entries have links under the second number. Reads
//! of the type find the values under both numbers. A change of an entry first converts the entry, so new values are
//! always under the second number. After the conversion, lookups of the type find only the second number. Records and
//! histories that contain the first number remain readable.

use std::sync::Arc;

use schema::{Schema, TypeId};
use store::{Batch, Read};

use super::{Catalog, META_ATTRIBUTE, META_INDEX_VERSION, META_LINKS, index_version, meta_key, meta_rows};
use crate::model::allocation::AttributeAllocation;
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::codec::Decoder;
pub(crate) use crate::model::link_progress::LinkProgress;
use crate::model::link_types::is_declared_link;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, META};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the progress of the conversion to links.
///
/// # Errors
/// The row is damaged.
pub(crate) fn progress(read: &Read) -> Result<LinkProgress> {
    let Some(row) = read.get(META, META_LINKS)? else { return Ok(LinkProgress::default()) };
    LinkProgress::decode(row).ok_or_else(|| OperationError::Damaged("links".to_owned()))
}

/// Stores the progress of the conversion. If the list of attributes that are being converted has changed, also
/// increases the version of the indexes, so that snapshots load the indexes again.
///
/// # Errors
/// The store failed.
pub(crate) fn put_progress(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    progress: &LinkProgress,
) -> Result<()> {
    batch.put(META, META_LINKS, &progress.encode())?;
    if catalog.becoming_links != progress.attributes {
        let version = index_version(batch)? + 1;
        batch.put(META, META_INDEX_VERSION, &version.to_be_bytes())?;
        let loaded = Arc::make_mut(catalog).load_indexes(batch);
        loaded.map_err(|error| OperationError::Damaged(error.to_string()))?;
    }
    Ok(())
}

/// Starts the conversion of the attributes `new` at the record `position`.
///
/// # Errors
/// The store failed, or the row is damaged.
pub(crate) fn begin(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    position: u64,
    new: &[AttrId],
) -> Result<()> {
    let mut progress = progress(batch)?;
    if !progress.is_pending() {
        (progress.values, progress.dangling) = (0, 0);
    }
    (progress.position, progress.after) = (position, EntryId::ROOT);
    progress.attributes.extend(new);
    progress.attributes.sort_unstable();
    progress.attributes.dedup();
    put_progress(batch, catalog, &progress)
}

/// Returns the schema without `X-LINK` on types whose values the rows do not store as links. Earlier builds accepted
/// `X-LINK` without effect. The next change of the definitions starts the conversion to links.
pub(super) fn with_stored_links(
    schema: Arc<Schema>,
    read: &Read,
) -> std::result::Result<Arc<Schema>, OpenError> {
    if !schema.attribute_types().iter().any(is_declared_link) {
        return Ok(schema);
    }
    let mut newest = std::collections::HashMap::new();
    for (_, row) in meta_rows(read, META_ATTRIBUTE)? {
        let allocation =
            AttributeAllocation::decode(&mut Decoder(row)).ok_or(OpenError::damaged("attribute"))?;
        let is_link = allocation.is_declared_link();
        newest.insert((allocation.oid, allocation.options), is_link);
    }
    let is_unknown = |oid: &str| newest.iter().any(|((known, _), is_link)| known == oid && !is_link);
    Ok(match schema.attribute_types().iter().any(|one| is_declared_link(one) && is_unknown(&one.oid)) {
        false => schema,
        true => Arc::new(schema.without_links(|one| is_unknown(&one.oid))),
    })
}

impl Catalog {
    /// Returns the attributes for which some entries may still have plain values.
    #[inline]
    pub(crate) fn becoming_links(&self) -> &[AttrId] {
        &self.becoming_links
    }

    /// Sets the attributes for which some entries may still have plain values.
    pub(super) fn set_becoming_links(&mut self, attributes: Vec<AttrId>) {
        if self.becoming_links != attributes || self.attributes.iter().any(|def| def.replaced_by.is_some()) {
            self.becoming_links = attributes;
            self.number_types();
        }
    }

    /// Reads the attributes for which some entries may still have plain values. The rows may be older than the catalog.
    ///
    /// # Errors
    /// The row is damaged.
    pub(super) fn load_becoming_links(&mut self, read: &Read) -> Result<()> {
        if self.attributes.iter().all(|def| def.replaced_by.is_none()) {
            return Ok(());
        }
        let mut attributes = progress(read)?.attributes;
        for def in &self.attributes {
            if let Some(now) = def.replaced_by
                && read.get(META, &meta_key(META_ATTRIBUTE, now.0))?.is_none()
            {
                attributes.push(def.id);
            }
        }
        attributes.sort_unstable();
        attributes.dedup();
        self.set_becoming_links(attributes);
        Ok(())
    }

    /// Makes `now` the number of an attribute for new values. `former` is the previous number.
    pub(super) fn replace_attribute(&mut self, former: AttrId, now: AttrId) {
        if let Some(def) = self.attributes.get_mut(former.0 as usize) {
            def.replaced_by = Some(now);
        }
        self.number_types();
    }

    /// Returns the attribute's number for new values.
    pub(crate) fn current_number(&self, mut id: AttrId) -> AttrId {
        while let Some(now) = self.attribute(id).replaced_by {
            id = now;
        }
        id
    }

    /// Returns true if the definition of a type makes its values links, but some values may still be plain.
    pub(crate) fn is_becoming_link(&self, type_id: TypeId) -> bool {
        self.becoming_links.iter().any(|id| {
            let def = self.attribute(*id);
            def.retired.is_none() && def.description.type_id == type_id
        })
    }

    /// Returns true if all values of the attribute are links, so that inchainMatch can follow them.
    pub(crate) fn follows_chains(&self, id: AttrId) -> bool {
        let def = self.attribute(id);
        def.is_link && !self.is_becoming_link(def.description.type_id)
    }

    /// Computes the attribute numbers of each type again. The number for new values is the first of each type.
    fn number_types(&mut self) {
        self.by_type.iter_mut().for_each(Vec::clear);
        self.answering.iter_mut().for_each(|numbers| *numbers = AttributeNumbers::default());
        for is_former in [false, true] {
            for def in &self.attributes {
                if def.retired.is_none()
                    && def.replaced_by.is_some() == is_former
                    && (!is_former || self.becoming_links.contains(&def.id))
                    && let Some(numbers) = self.by_type.get_mut(def.description.type_id.0 as usize)
                {
                    numbers.push(def.id);
                }
            }
        }
        for def in &self.attributes {
            if def.retired.is_some() || def.replaced_by.is_some() && !self.becoming_links.contains(&def.id) {
                continue;
            }
            let mut answers_to = Some(def.description.type_id);
            while let Some(type_id) = answers_to {
                if let Some(numbers) = self.answering.get_mut(type_id.0 as usize) {
                    numbers.push(def.id);
                }
                answers_to = self.schema.type_by_id(type_id).sup;
            }
        }
    }
}
