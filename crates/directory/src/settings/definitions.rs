//! Changes of the schema of a directory with entries.
//!
//! A definition can be removed if no entry uses it. The syntax and matching rules of an attribute type can change if
//! all values of the type are valid under the new definition. The indexes of the type are then built again. A name of a
//! type can be removed if no DN contains the name. Tombstones count as entries.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use schema::{AttributeType, MatchingRule, ObjectClassDef, Schema};
use store::Direction;

use super::difference::grouped;
use super::{CheckedSettings, DirectorySettings, SettingsProblem};
use crate::catalog::access_rules::Rule;
use crate::catalog::{Catalog, normal_value, schema_of};
use crate::model::allocation::AttributeAllocation;
use crate::model::entry::{AttributeRow, Content, EntryRow};
use crate::model::index_definition::IndexPart;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::Value;
use crate::model::rows::{AttrId, CLASSES, ClassSetId, DELETED, ENTRIES, EntryId, NODES, class_key};
use crate::model::tombstone::{KIND_ENTRY, Tombstone, TombstonePlace};
use crate::tree::entry_rows::normal_rdn;
use crate::tree::stored_values::{for_each_value, table_values};
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of entries that an error names.
const NAMED_MAX: usize = 3;

/// Returns the catalog under the proposed schema. The inner error contains the reasons against the schema: entries use
/// a removed definition, or have values that are invalid under a changed definition.
///
/// # Errors
/// The store failed.
pub(super) fn change(
    state: TreeState<'_>,
    checked: &CheckedSettings,
) -> Result<std::result::Result<Catalog, Vec<SettingsProblem>>> {
    let refuse = |what: String| SettingsProblem::key("schema", what);
    let (catalog, changed) = match state.catalog.with_schema(checked.schema.clone()) {
        Ok(changed) => changed,
        Err(error) => return Ok(Err(vec![refuse(error.to_string())])),
    };
    let mut obstacles = Obstacles { state, catalog: &catalog, found: BTreeMap::new() };
    let mut attributes: Vec<_> = changed.attributes.iter().map(|allocation| allocation.id).collect();
    attributes.extend(also_changed(state.catalog, &catalog));
    let retired = changed.class_sets.iter().filter(|set| set.is_retired());
    let class_sets: Vec<_> = retired.map(|set| set.id).collect();
    obstacles.examine_entries(&attributes, changes_names(&state.catalog.schema, &catalog.schema))?;
    obstacles.examine_classes(&class_sets)?;
    if !attributes.is_empty() || !class_sets.is_empty() {
        obstacles.examine_tombstones(&attributes, &class_sets)?;
    }
    let problems: Vec<_> = obstacles.found.into_values().map(|found| refuse(found.text())).collect();
    Ok(if problems.is_empty() { Ok(catalog) } else { Err(problems) })
}

/// Returns attributes whose types lose a name or become collective. DNs may contain the name, and entries cannot have
/// their own values of a collective type.
fn also_changed<'c>(before: &'c Catalog, now: &'c Catalog) -> impl Iterator<Item = AttrId> + 'c {
    before.attributes().iter().filter_map(|def| {
        let old = before.schema.type_by_id(def.description.type_id);
        let new = now.schema.attribute_type(&old.oid)?;
        let is_changed = !keeps_names(&old.names, &new.names) || becomes_collective(old, new);
        (def.retired.is_none() && is_changed).then_some(def.id)
    })
}

fn keeps_names(before: &[String], now: &[String]) -> bool {
    before.iter().all(|name| now.iter().any(|kept| kept.eq_ignore_ascii_case(name)))
}

fn becomes_collective(before: &AttributeType, now: &AttributeType) -> bool {
    now.collective && !before.collective
}

/// Returns true if a definition is removed, loses a name, or has another equality rule. Values that contain names may
/// then have other normal forms.
fn changes_names(before: &Schema, now: &Schema) -> bool {
    let same_type = |old: &AttributeType| {
        let new = now.attribute_type(&old.oid);
        new.is_some_and(|new| new.equality == old.equality && keeps_names(&old.names, &new.names))
    };
    let same_class = |old: &ObjectClassDef| {
        now.object_class(&old.oid).is_some_and(|new| keeps_names(&old.names, &new.names))
    };
    !before.attribute_types().iter().all(same_type) || !before.object_classes().iter().all(same_class)
}

/// Returns a notice for each attribute type whose values the proposed settings would compare by other rules.
///
/// # Errors
/// The store failed.
pub(super) fn notes(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>> {
    if settings.schema == *state.catalog.settings.schema {
        return Ok(Vec::new());
    }
    let Ok(schema) = schema_of(&settings.schema) else { return Ok(Vec::new()) };
    let Ok((catalog, changed)) = state.catalog.with_schema(schema) else { return Ok(Vec::new()) };
    let entries = grouped(state.read.row_count(NODES)?);
    let is_new = |allocation: &&AttributeAllocation| {
        !allocation.is_retired()
            && allocation.options.is_empty()
            && state.catalog.attribute(allocation.id).retired.is_none()
    };
    let note = |allocation: &AttributeAllocation| {
        let def = catalog.attribute(allocation.id);
        let rebuilt = if def.index.kinds.is_none() { "" } else { ", and builds its index again" };
        format!("{} gets another syntax or other rules: looks at {entries} entries{rebuilt}", def.name)
    };
    Ok(changed.attributes.iter().filter(is_new).map(note).collect())
}

/// Returns a problem for each access rule that uses links of an attribute with plain values left. Until these values
/// are converted, the rule would not apply to the entries with these values.
pub(super) fn early_rules(catalog: &Catalog, checked: &CheckedSettings) -> Vec<SettingsProblem> {
    if catalog.becoming_links().is_empty() {
        return Vec::new();
    }
    let schema = checked.schema.without_links(|one| catalog.is_becoming_link(one.id));
    let rules = checked.settings.general.access_rules.iter().enumerate();
    let early = rules.filter(|(_, text)| Rule::read(text, &schema, &checked.secrets).is_err());
    let problem = |(number, text): (usize, &String)| {
        let what = format!(
            "access rule {text:?}: values of its attribute become links now; add the rule when cn=Links,cn=monitor \
             has no pending attribute"
        );
        SettingsProblem::member("access_rules", number, what)
    };
    early.map(problem).collect()
}

/// Entries that prevent a change of definitions.
struct Obstacles<'o> {
    state: TreeState<'o>,
    /// The catalog under the proposed schema.
    catalog: &'o Catalog,
    /// Obstacles, each by the OID of its definition.
    found: BTreeMap<String, Obstacle>,
}

/// Entries that prevent the change of one definition.
struct Obstacle {
    /// Name of the definition, in messages for the administrator.
    subject: String,
    /// Reason why the entries prevent the change, and advice.
    reason: &'static str,
    count: u64,
    /// DNs of the first entries that prevent the change.
    names: Vec<String>,
}

impl Obstacle {
    fn text(&self) -> String {
        let Obstacle { subject, reason, count, names } = self;
        let entries =
            if *count == 1 { "an entry".to_owned() } else { format!("{} entries", grouped(*count)) };
        format!("{subject} is used by {entries} ({}), {reason}", names.join(", "))
    }
}

impl Obstacles<'_> {
    /// Finds entries with attributes that are removed, or with values that are invalid under new definitions. If
    /// `changes_names` is true, also finds entries with values that contain names, if the normal forms of these values
    /// change. Normal forms are the keys of the values' rows.
    fn examine_entries(&mut self, attributes: &[AttrId], changes_names: bool) -> Result<()> {
        let state = self.state;
        let mut wanted = Vec::with_capacity(attributes.len());
        for attribute in attributes {
            if !is_unused(state, *attribute)? {
                wanted.push(*attribute);
            }
        }
        if wanted.is_empty() && !changes_names {
            return Ok(());
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        for row in state.read.scan(ENTRIES, all, Direction::Forward) {
            let (key, row) = row?;
            let id = crate::index::slice::key_id(key)?;
            let row = EntryRow::decode(row).ok_or_else(|| damaged_row("entries", id))?;
            for attribute in row.attributes() {
                if wanted.contains(&attribute.id) && !self.fits(id, &attribute)? {
                    let dn = state.dn(id)?.unwrap_or_default();
                    self.add_attribute(attribute.id, Quoted(&dn).to_string());
                } else if changes_names && !self.keeps_forms(id, &attribute)? {
                    let dn = state.dn(id)?.unwrap_or_default();
                    self.add_named(attribute.id, Quoted(&dn).to_string());
                }
            }
        }
        Ok(())
    }

    /// Returns true if all values of an attribute keep their normal forms, although the values may contain names.
    fn keeps_forms(&self, id: EntryId, attribute: &AttributeRow<'_>) -> Result<bool> {
        let (state, now) = (self.state, self.catalog);
        let def = state.catalog.attribute(attribute.id);
        if !def.equality.is_some_and(MatchingRule::reads_definitions) {
            return Ok(true);
        }
        let keeps = |value: &[u8]| {
            normal_value(&state.catalog.schema, def, value) == normal_value(&now.schema, def, value)
        };
        // A link is stored as an id. Only dangling links contain names.
        if attribute.content == Content::Links {
            for value in table_values(state.read, id, attribute.id) {
                if !keeps(value?.1) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut all_keep = true;
        for_each_value(state, id, attribute, &mut |value| {
            all_keep = keeps(value);
            if all_keep { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(all_keep)
    }

    /// Finds entries whose class set contains a removed class.
    fn examine_classes(&mut self, class_sets: &[ClassSetId]) -> Result<()> {
        for class_set in class_sets {
            let mut ids = Vec::new();
            let mut posting = self.state.read.ids(CLASSES, &class_key(*class_set))?;
            let count = posting.estimate();
            posting.next_block(&mut ids, NAMED_MAX)?;
            let mut names = Vec::with_capacity(ids.len());
            for id in ids {
                let dn = self.state.dn(EntryId(id))?.unwrap_or_default();
                names.push(Quoted(&dn).to_string());
            }
            if count > 0 {
                self.add_classes(*class_set, count, &names);
            }
        }
        Ok(())
    }

    /// Finds tombstones with attributes or classes that are removed, or with values that are invalid under new
    /// definitions.
    fn examine_tombstones(&mut self, attributes: &[AttrId], class_sets: &[ClassSetId]) -> Result<()> {
        let (first, end) = ([KIND_ENTRY], [KIND_ENTRY + 1]);
        let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
        for row in self.state.read.scan(DELETED, range, Direction::Forward) {
            let (key, row) = row?;
            let id = TombstonePlace::of_key(key).map_or(EntryId::ROOT, |place| place.id);
            let tombstone = Tombstone::decode(row).ok_or_else(|| damaged_row("deleted", id))?;
            let name = format!("{}, deleted", Quoted(&tombstone.dn));
            for (attribute, values) in &tombstone.values {
                let octets = || values.iter().filter_map(Value::as_bytes);
                if attributes.contains(attribute) && self.forms(*attribute, octets()).is_none() {
                    self.add_attribute(*attribute, name.clone());
                }
            }
            if class_sets.contains(&tombstone.class_set) {
                self.add_classes(tombstone.class_set, 1, &[name]);
            }
        }
        Ok(())
    }

    /// Returns true if an attribute of an entry can stay as it is stored.
    fn fits(&self, id: EntryId, attribute: &AttributeRow<'_>) -> Result<bool> {
        let mut values: Vec<Vec<u8>> = Vec::new();
        for_each_value(self.state, id, attribute, &mut |value| {
            values.push(value.to_vec());
            ControlFlow::Continue(())
        })?;
        let Some(forms) = self.forms(attribute.id, values.iter().map(Vec::as_slice)) else {
            return Ok(false);
        };
        if attribute.content == Content::Table {
            // The normal forms are the keys of the values' rows, so the normal forms must not change.
            let (def, schema) = (self.state.catalog.attribute(attribute.id), &self.state.catalog.schema);
            let mut before: Vec<_> = values.iter().map(|value| normal_value(schema, def, value)).collect();
            before.sort_unstable();
            if before != forms {
                return Ok(false);
            }
        }
        let Some(node) = self.state.node(id)? else { return Ok(true) };
        let rdn = node.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
        let now = normal_rdn(self.catalog, node.parent, rdn);
        Ok(now.is_ok_and(|now| normal_rdn(self.state.catalog, node.parent, rdn).is_ok_and(|was| was == now)))
    }

    /// Returns the sorted normal forms of values under the proposed schema. Returns `None` if the type is removed,
    /// becomes collective or no longer has links, if a value is invalid, or if two values are equal.
    fn forms<'v>(&self, id: AttrId, values: impl Iterator<Item = &'v [u8]>) -> Option<Vec<Vec<u8>>> {
        let def = self.catalog.attribute(id);
        let schema = &self.catalog.schema;
        let attribute_type = schema.type_by_id(def.description.type_id);
        let before = self.state.catalog.attribute(id).description.type_id;
        if self.state.catalog.attribute(id).is_link && !def.is_link {
            return None;
        }
        if becomes_collective(self.state.catalog.schema.type_by_id(before), attribute_type) {
            return None;
        }
        let mut forms = Vec::new();
        for value in values {
            let is_valid = def.retired.is_none() && schema.validate_value(attribute_type, value).is_ok();
            let mut form = Vec::new();
            match attribute_type.equality {
                _ if !is_valid => return None,
                Some(rule) => rule.normalize(schema, value, &mut form).ok()?,
                None => form.extend_from_slice(value),
            }
            forms.push(form);
        }
        forms.sort_unstable();
        let is_distinct = forms.windows(2).all(|pair| pair.first() != pair.last());
        (is_distinct && def.retired.is_none()).then_some(forms)
    }

    fn add_attribute(&mut self, id: AttrId, name: String) {
        let known = &self.state.catalog.schema;
        let attribute_type = known.type_by_id(self.state.catalog.attribute(id).description.type_id);
        let reason = match self.catalog.attribute(id).retired {
            Some(_) => "so its definition must stay: remove the values first",
            None => {
                "whose values do not fit the new definition: it is COLLECTIVE, or lacks X-LINK and they are links, \
                 or a value is invalid, equals another \
                 one, is part of the name of an entry (each NAME of the type must stay), or is one of very many that \
                 are stored by their order. Change the values first"
            }
        };
        let subject = format!("attribute type {}", attribute_type.name());
        add(&mut self.found, &attribute_type.oid, (subject, reason), (1, &[name]));
    }

    fn add_named(&mut self, id: AttrId, name: String) {
        let schema = &self.state.catalog.schema;
        let known = schema.type_by_id(self.state.catalog.attribute(id).description.type_id);
        let reason =
            "with values that contain a name of a definition that changes or goes: change the values first";
        let subject = format!("attribute type {}", known.name());
        add(&mut self.found, &known.oid, (subject, reason), (1, &[name]));
    }

    fn add_classes(&mut self, id: ClassSetId, count: u64, names: &[String]) {
        let schema = &self.state.catalog.schema;
        let classes = &self.state.catalog.class_set(id).classes;
        for class in classes.iter().map(|class| schema.class_by_id(*class)) {
            if self.catalog.schema.object_class(&class.oid).is_none() {
                let reason = "so its definition must stay: remove the class from them first";
                let subject = format!("object class {}", class.name());
                add(&mut self.found, &class.oid, (subject, reason), (count, names));
            }
        }
    }
}

fn add(
    found: &mut BTreeMap<String, Obstacle>,
    oid: &str,
    (subject, reason): (String, &'static str),
    (count, names): (u64, &[String]),
) {
    let new = || Obstacle { subject, reason, count: 0, names: Vec::new() };
    let obstacle = found.entry(oid.to_owned()).or_insert_with(new);
    obstacle.count += count;
    let room = NAMED_MAX.saturating_sub(obstacle.names.len());
    obstacle.names.extend(names.iter().take(room).cloned());
}

/// Returns true if an index shows that no entry has the attribute, with any options.
fn is_unused(state: TreeState<'_>, attribute: AttrId) -> Result<bool> {
    let def = state.catalog.attribute(attribute);
    let parts = [IndexPart::Presence, IndexPart::Values];
    let Some(part) = parts.into_iter().find(|part| def.index.answers(*part)) else { return Ok(false) };
    let prefix = part.key_prefix(def.base);
    let mut keys = state.read.scan_keys_below(part.map(), &prefix);
    Ok(keys.next().transpose()?.is_none())
}
