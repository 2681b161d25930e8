//! Applies settings records to rows and catalog. An old record changes nothing, so that replay never applies an old
//! schema.

use std::sync::Arc;

use store::Batch;

use super::{SettingsRecord, SuffixNumber};
use crate::catalog::auto_members::apply_joins;
use crate::catalog::linking;
use crate::catalog::{
    Catalog, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_SCHEMA, META_SCHEMA_TIMES, META_SETTINGS,
    META_SUFFIX, meta_key, schema_of,
};
use crate::index::{maintenance, sort_orders};
use crate::links::forms;
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::rows::META;
use crate::model::schema_times::SchemaTimes;

type Result<T> = std::result::Result<T, OperationError>;

/// Applies the schema in a record. Call this before the allocations of the record are applied, because their types may
/// be new in the schema.
///
/// # Errors
/// The store failed, or the schema cannot be built, because this program ships a different schema than the program
/// that made the record.
pub(crate) fn apply_schema(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    record: &SettingsRecord,
    position: u64,
) -> Result<()> {
    let Some(texts) = &record.schema else { return Ok(()) };
    let damaged = |error: String| OperationError::Damaged(format!("schema of a settings record: {error}"));
    let schema = schema_of(texts).map_err(|problems| {
        let problem = problems.first().map_or_else(String::new, ToString::to_string);
        damaged(problem)
    })?;
    let (mut changed, numbers) = catalog.with_schema(schema).map_err(|error| damaged(error.to_string()))?;
    for allocation in &numbers.attributes {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &meta_key(META_ATTRIBUTE, allocation.id.0), &bytes)?;
    }
    for allocation in &numbers.class_sets {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &meta_key(META_CLASS_SET, allocation.id.0), &bytes)?;
    }
    for (_, allocation) in &numbers.links {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &meta_key(META_ATTRIBUTE, allocation.id.0), &bytes)?;
    }
    changed.settings.schema = Arc::new(texts.clone());
    batch.put(META, META_SCHEMA, &changed.settings.encode_schema())?;
    let before = std::mem::replace(catalog, Arc::new(changed));
    if !numbers.links.is_empty() {
        let new: Vec<_> = numbers.links.iter().map(|(former, _)| *former).collect();
        linking::begin(batch, catalog, position, &new)?;
    }
    let mut changed: Vec<_> = numbers.attributes.iter().map(|allocation| allocation.id).collect();
    changed.extend(forms::follow_schema(batch, &before, catalog, position)?);
    maintenance::follow_schema(batch, catalog, &changed)
}

/// Sets the times of the schema, at the first settings record (which creates a directory) and at each record that
/// changes definitions. The times depend only on the log.
///
/// # Errors
/// The store failed.
pub(crate) fn apply_schema_times(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    csn: Csn,
    record: &SettingsRecord,
) -> Result<()> {
    if record.schema.is_some() || catalog.schema_times.is_none() {
        let times = SchemaTimes::with(catalog.schema_times.as_ref(), &catalog.schema, csn.micros);
        batch.put(META, META_SCHEMA_TIMES, &times.encode())?;
        Arc::make_mut(catalog).schema_times = Some(times);
    }
    Ok(())
}

/// Applies the parts of a record other than the schema.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn apply_rest(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    position: u64,
    record: &SettingsRecord,
) -> Result<()> {
    if let Some(suffixes) = &record.suffixes {
        apply_suffixes(batch, catalog, suffixes)?;
    }
    if let Some(joins) = &record.joins {
        apply_joins(batch, position, joins)?;
    }
    for (attribute, kinds) in &record.indexes {
        maintenance::define(batch, catalog, *attribute, *kinds)?;
    }
    let mut settings = catalog.settings.clone();
    if let Some(general) = &record.general {
        settings.general = general.clone();
    }
    settings.position = position;
    batch.put(META, META_SETTINGS, &settings.encode())?;
    Arc::make_mut(catalog).set_settings(settings);
    match &record.general {
        Some(general) => sort_orders::define(batch, catalog, &general.sort_orders),
        None => Ok(()),
    }
}

fn apply_suffixes(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    suffixes: &[(SuffixNumber, String)],
) -> Result<()> {
    for known in &catalog.suffixes {
        if !suffixes.iter().any(|(number, _)| *number == known.number) {
            batch.delete(META, &meta_key(META_SUFFIX, known.number))?;
            batch.delete(META, &meta_key(META_CONTEXT_CSN, known.number))?;
        }
    }
    for (number, dn) in suffixes {
        batch.put(META, &meta_key(META_SUFFIX, *number), dn.as_bytes())?;
    }
    let set = Arc::make_mut(catalog).set_suffixes(suffixes);
    set.map_err(|error| OperationError::Damaged(error.to_string()))
}
