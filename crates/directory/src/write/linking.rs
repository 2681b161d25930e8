//! Conversion of plain values to links, after the definition of their type received the extension `X-LINK`.
//!
//! The record of the changed settings gives the attribute a second number, for links: see [`crate::catalog::linking`].
//! The writer then examines the entries in the order of their ids, a limited number at a time, and lists the entries
//! with plain values in a record. Applying the record converts each value to a link to the entry that it names, or to a
//! dangling link. A change of an entry with plain values first converts these values. After a restart or a change of
//! the writer, the conversion continues after the last record.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ldap::Request;
use store::{Batch, Direction};

use crate::catalog::{Catalog, linking, schema_of};
use crate::index::slice::key_id;
use crate::model::entry::{AttributeRow, Content, EntryRow};
use crate::model::limits::{LINK_ENTRIES_MAX, LINKED_VALUES_MAX};
pub use crate::model::link_progress::LinkProgress;
use crate::model::link_progress::LinkStep;
use crate::model::name::{NormalName, name_in, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::ValueChangeKind;
use crate::model::rows::{AttrId, ENTRIES, EntryId, id_key, value_counter};
use crate::settings::DirectorySettings;
use crate::tree::entry_rows::{ChangedEntry, load, save};
use crate::tree::stored_values::{all, for_each_value};
use crate::tree::{Found, TreeState, damaged_row};
use crate::write::tombstones::linked;
use crate::write::values;

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the progress of the conversion.
///
/// # Errors
/// The row is damaged.
pub fn progress(state: TreeState<'_>) -> Result<LinkProgress> {
    linking::progress(state.read)
}

/// Returns true if the conversion is not complete.
pub fn is_pending(state: TreeState<'_>) -> bool {
    !state.catalog.becoming_links().is_empty()
}

/// Returns the next step of the conversion, with at most `entries_max` entries to convert. Returns `None` if no
/// conversion is pending.
pub(crate) fn next_step(state: TreeState<'_>, entries_max: usize) -> Result<Option<LinkStep>> {
    let progress = progress(state)?;
    if !progress.is_pending() {
        return Ok(None);
    }
    let from = id_key(progress.after);
    let mut step = LinkStep { entries: Vec::new(), after: progress.after, is_last: false };
    let mut values = 0;
    let range = (Bound::Excluded(&from[..]), Bound::Unbounded);
    for (count, row) in state.read.scan(ENTRIES, range, Direction::Forward).enumerate() {
        if count == LINK_ENTRIES_MAX || values >= LINKED_VALUES_MAX || step.entries.len() == entries_max {
            return Ok(Some(step));
        }
        let (key, row) = row?;
        let id = key_id(key)?;
        let own = plain_values(state, id, row)?;
        if own > 0 {
            step.entries.push(id);
        }
        values += own;
        step.after = id;
    }
    step.is_last = true;
    Ok(Some(step))
}

/// Returns the step that converts the entry of a request before the request changes it. Returns `None` if the entry
/// does not exist or has no plain values, and for a request other than modify or modify DN.
#[cold]
pub(crate) fn step_of(state: TreeState<'_>, request: &Request<'_>) -> Result<Option<LinkStep>> {
    let dn = match request {
        Request::Modify(modify) => modify.object,
        Request::ModifyDn(rename) => rename.entry,
        _ => return Ok(None),
    };
    // `decide` refuses a malformed DN.
    let Ok(dn) = parse_dn(dn) else { return Ok(None) };
    let Found::Entry(id, _) = state.find(&NormalName::of(&dn, &state.catalog.schema))? else {
        return Ok(None);
    };
    let Some(row) = state.read.get(ENTRIES, &id_key(id))? else { return Ok(None) };
    let is_plain = plain_values(state, id, row)? > 0;
    Ok(is_plain.then(|| LinkStep { entries: vec![id], after: EntryId::ROOT, is_last: false }))
}

/// Returns the number of values of an entry that are to be converted.
fn plain_values(state: TreeState<'_>, id: EntryId, row: &[u8]) -> Result<usize> {
    let row = EntryRow::decode(row).ok_or_else(|| damaged_row("entries", id))?;
    let mut count = 0;
    for attribute in row.attributes().filter(|own| state.catalog.becoming_links().contains(&own.id)) {
        count += match attribute.content {
            Content::Inline(values) => values.iter().count(),
            Content::Table | Content::Links => {
                usize::try_from(state.read.count(&value_counter(id, attribute.id))?).unwrap_or(0)
            }
        };
    }
    Ok(count)
}

/// Applies a step at `position`. Entries without plain values do not change. A step older than the stored progress does
/// not change the progress.
///
/// # Errors
/// The store failed, or rows are damaged.
pub(crate) fn apply(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    position: u64,
    step: &LinkStep,
) -> Result<()> {
    let (mut values, mut dangling) = (0, 0);
    for id in &step.entries {
        let (own, texts) = convert(batch, catalog, *id)?;
        (values, dangling) = (values + own, dangling + texts);
    }
    let mut progress = linking::progress(batch)?;
    if position <= progress.position || !progress.is_pending() {
        return Ok(());
    }
    progress.position = position;
    progress.after = progress.after.max(step.after);
    progress.values += values;
    progress.dangling += dangling;
    if step.is_last {
        progress.attributes.clear();
    }
    linking::put_progress(batch, catalog, &progress)
}

/// Converts the plain values of an entry to links. Returns the number of converted values and, among them, of dangling
/// links. Nothing else in the entry changes, not even the position of its last change.
fn convert(batch: &mut Batch<'_>, catalog: &Catalog, id: EntryId) -> Result<(u64, u64)> {
    let Some(mut entry) = load(batch, id)? else { return Ok((0, 0)) };
    let former: Vec<AttrId> =
        entry.ids().filter(|attribute| catalog.attribute(*attribute).replaced_by.is_some()).collect();
    if former.is_empty() {
        return Ok((0, 0));
    }
    let (mut count, mut dangling) = (0, 0);
    for attribute in former {
        let mut given = Vec::new();
        for text in all(batch, id, &entry, attribute)? {
            let value = linked(batch, catalog, text)?;
            count += 1;
            dangling += u64::from(value.as_bytes().is_some());
            given.push(value);
        }
        let now = catalog.current_number(attribute);
        let mut changed = ChangedEntry { catalog, id, entry: &mut entry };
        values::change(batch, &mut changed, attribute, ValueChangeKind::Replace, &[])?;
        values::change(batch, &mut changed, now, ValueChangeKind::Add, &given)?;
    }
    save(batch, id, &entry)?;
    Ok((count, dangling))
}

/// Numbers of values that a proposed change of the settings would convert.
#[derive(Default)]
struct Planned {
    values: u64,
    entries: u64,
    dangling: u64,
}

/// Returns a notice for each attribute whose values these settings would convert. Reads all entries.
///
/// # Errors
/// The store failed.
pub fn notes(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>> {
    if settings.schema == *state.catalog.settings.schema {
        return Ok(Vec::new());
    }
    let Ok(schema) = schema_of(&settings.schema) else { return Ok(Vec::new()) };
    let Ok((catalog, changed)) = state.catalog.with_schema(schema) else { return Ok(Vec::new()) };
    let mut notes = Vec::new();
    for (id, _) in changed.links {
        let Planned { values, entries, dangling } = planned(state, id)?;
        notes.push(format!(
            "{}: {values} values of {entries} entries become links in the background; {dangling} of them name no \
             entry, and become links when one of that name is added",
            catalog.attribute(id).name
        ));
    }
    Ok(notes)
}

fn planned(state: TreeState<'_>, attribute: AttrId) -> Result<Planned> {
    let mut planned = Planned::default();
    for row in state.read.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
        let (key, row) = row?;
        let id = key_id(key)?;
        let row = EntryRow::decode(row).ok_or_else(|| damaged_row("entries", id))?;
        for own in row.attributes().filter(|own| own.id == attribute) {
            planned.entries += 1;
            planned.add(state, id, &own)?;
        }
    }
    Ok(planned)
}

impl Planned {
    fn add(&mut self, state: TreeState<'_>, id: EntryId, own: &AttributeRow<'_>) -> Result<()> {
        let mut names = Vec::new();
        for_each_value(state, id, own, &mut |value| {
            self.values += 1;
            names.push(name_in(&state.catalog.schema, value));
            ControlFlow::Continue(())
        })?;
        for name in names {
            let is_entry = match name {
                Some(name) => matches!(state.find(&name)?, Found::Entry(..)),
                None => false,
            };
            self.dangling += u64::from(!is_entry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
