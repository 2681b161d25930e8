//! Existing entries that violate rules of the settings. Such an entry is older than the rule, or was imported.
//!
//! `pando plan` shows the violations before a rule takes effect. The entries stay unchanged. If an entry violates its
//! classes or content rule, later changes of the entry are refused unless they remove the violation.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use store::Direction;

use crate::catalog::value_limits::ValueLimit;
use crate::catalog::{Catalog, ClassSet};
use crate::filter::Covering;
use crate::maintenance::duplicates::duplicates;
use crate::model::entry::EntryRow;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{AttrId, ClassSetId, ENTRIES, EntryId, NODES, NodeRow};
use crate::settings::{DirectorySettings, check};
use crate::tree::stored_values::of_content;
use crate::tree::structure::{GoverningRule, Placed, governing_rule};
use crate::tree::target::entry_dn;
use crate::tree::{TreeState, damaged_row};
use crate::write::schema_check::{Present, check_all_attributes};
use crate::write::value_rules::limits::check_values;

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of entries that a text names.
const EXAMPLES_MAX: usize = 3;

/// Maximum number of different texts. Further violations share one text.
const TEXTS_MAX: usize = 50;

/// Maximum number of cached results: one limit for sets of attributes and one for superiors.
const CACHED_MAX: usize = 100_000;

/// Returns a text for each kind of violation in the entries. Checks uniqueness rules; classes and content rules, if the
/// schema has DIT content rules; name forms and structure rules; and value limits. Uniqueness rules have one text each.
/// Other violations are counted by reason, with examples, in one pass over all entries.
///
/// # Errors
/// The store failed.
pub fn violations(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>> {
    let mut texts = duplicates(state, settings)?;
    // Other checks report problems of the settings and missing definitions.
    let Ok(checked) = check(settings) else { return Ok(texts) };
    let schema = &checked.schema;
    let limits = &checked.settings.general.value_limits;
    if schema.content_rules().is_empty() && !schema.has_name_forms() && limits.is_empty() {
        return Ok(texts);
    }
    let Ok((catalog, _)) = state.catalog.with_schema(checked.schema.clone()) else { return Ok(texts) };
    let read = |text: &String| ValueLimit::read(text, schema, &checked.secrets).ok();
    let limits: Vec<ValueLimit> = limits.iter().filter_map(read).collect();
    let mut pass = Pass::new(TreeState { catalog: &catalog, ..state }, &limits)?;
    pass.run()?;
    texts.extend(pass.found.into_texts());
    Ok(texts)
}

/// Like [`violations`], but limited in time. If the directory has more than `entries_max` entries, examines no entry
/// and returns a text that says so.
///
/// # Errors
/// The store failed.
pub fn violations_of_few(
    state: TreeState<'_>,
    settings: &DirectorySettings,
    entries_max: u64,
) -> Result<Vec<String>> {
    match state.read.row_count(NODES)? {
        count if count > entries_max => Ok(vec![format!(
            "existing entries were not compared with the rules, because there are more than {entries_max}; `pando \
             plan` compares them"
        )]),
        _ => violations(state, settings),
    }
}

/// Returns a text for each uniqueness rule in force that entries violate. If the directory has uniqueness rules and
/// more than `entries_max` entries, reads no indexes and returns `None`.
///
/// # Errors
/// The store failed.
pub fn duplicates_of_few(state: TreeState<'_>, entries_max: u64) -> Result<Option<Vec<String>>> {
    let settings = DirectorySettings::of(state.catalog);
    if !settings.general.unique.is_empty() && state.read.row_count(NODES)? > entries_max {
        return Ok(None);
    }
    duplicates(state, &settings).map(Some)
}

/// Violations, grouped by text.
#[derive(Default)]
struct Found(BTreeMap<Cow<'static, str>, Fault>);

#[derive(Default)]
struct Fault {
    entries: u64,
    examples: Vec<String>,
}

impl Found {
    fn add(&mut self, state: TreeState<'_>, id: EntryId, what: &str) -> Result<()> {
        let what = match self.0.contains_key(what) || self.0.len() < TEXTS_MAX {
            true => Cow::Owned(what.to_owned()),
            false => Cow::Borrowed("further reasons"),
        };
        let fault = self.0.entry(what).or_default();
        fault.entries += 1;
        if fault.examples.len() < EXAMPLES_MAX {
            fault.examples.push(Quoted(entry_dn(state, id)?).to_string());
        }
        Ok(())
    }

    fn into_texts(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(what, Fault { entries, examples })| {
            let more = if entries > examples.len() as u64 { ", and so on" } else { "" };
            let count =
                if entries == 1 { "1 entry breaks".to_owned() } else { format!("{entries} entries break") };
            format!("{count} a rule: {what}: {}{more}", examples.join(", "))
        })
    }
}

/// State of the pass over all entries.
struct Pass<'a> {
    state: TreeState<'a>,
    found: Found,
    /// Limits of values, with the entries that each limit covers.
    limits: Vec<(&'a ValueLimit, Covering)>,
    /// Cached violations of a class set and a set of attributes.
    shapes: HashMap<(ClassSetId, Vec<AttrId>), Vec<String>>,
    /// Cached governing structure rules of superiors.
    superiors: HashMap<EntryId, GoverningRule>,
}

impl<'a> Pass<'a> {
    fn new(state: TreeState<'a>, limits: &'a [ValueLimit]) -> Result<Pass<'a>> {
        let limits = limits.iter().map(|limit| Ok((limit, Covering::of(state, &limit.covered)?)));
        let limits = limits.collect::<Result<Vec<_>>>()?;
        Ok(Pass { state, found: Found::default(), limits, shapes: HashMap::new(), superiors: HashMap::new() })
    }

    fn run(&mut self) -> Result<()> {
        let state = self.state;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let has_content_rules = !state.catalog.schema.content_rules().is_empty();
        for row in state.read.scan(ENTRIES, all, Direction::Forward) {
            let (key, row) = row?;
            let damaged = || damaged_row("entries", EntryId::ROOT);
            let id = key.try_into().map(u64::from_be_bytes).map(EntryId).map_err(|_| damaged())?;
            let row = EntryRow::decode(row).ok_or_else(damaged)?;
            let node = state.read.get(NODES, key)?.and_then(NodeRow::decode);
            let node = node.ok_or_else(|| damaged_row("nodes", id))?;
            if has_content_rules {
                self.check_content(id, &node, &row)?;
            }
            if state.catalog.schema.has_name_forms() {
                self.check_place(id, &node, &row)?;
            }
            self.check_limits(id, &row)?;
        }
        Ok(())
    }

    fn check_content(&mut self, id: EntryId, node: &NodeRow<'_>, row: &EntryRow<'_>) -> Result<()> {
        let shape = (node.class_set, row.attributes().map(|attribute| attribute.id).collect::<Vec<_>>());
        if self.shapes.len() > CACHED_MAX {
            self.shapes.clear();
        }
        let catalog = self.state.catalog;
        let faults = match self.shapes.get(&shape) {
            Some(faults) => faults,
            None => {
                let faults = faults_of(catalog, catalog.class_set(node.class_set), &shape.1)?;
                self.shapes.entry(shape).or_insert(faults)
            }
        };
        faults.iter().try_for_each(|what| self.found.add(self.state, id, what))
    }

    fn check_limits(&mut self, id: EntryId, row: &EntryRow<'_>) -> Result<()> {
        let state = self.state;
        for (limit, covering) in &self.limits {
            for type_id in &limit.types {
                let stored = state.catalog.stored_attributes_of_type(*type_id);
                let mut values = Vec::new();
                for attribute in row.attributes().filter(|attribute| stored.contains(&attribute.id)) {
                    values.extend(of_content(state.read, id, attribute.id, Some(attribute.content))?);
                }
                if values.is_empty() || !covering.matches(state, id)? {
                    continue;
                }
                let name = state.catalog.schema.type_by_id(*type_id).name();
                match check_values(state, limit, name, &values) {
                    Err(OperationError::Refused { diagnostic, .. }) => {
                        self.found.add(state, id, &diagnostic)?
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn check_place(&mut self, id: EntryId, node: &NodeRow<'_>, row: &EntryRow<'_>) -> Result<()> {
        let state = self.state;
        let placed = Placed::of_row(state.read, state.catalog, id, (node, row))?;
        if self.superiors.len() > CACHED_MAX {
            self.superiors.clear();
        }
        let superior = match self.superiors.get(&node.parent) {
            Some(rule) => *rule,
            None => {
                let rule = governing_rule(state, node.parent)?;
                self.superiors.insert(node.parent, rule);
                rule
            }
        };
        match placed.governed_below(&state.catalog.schema, superior) {
            Ok(_) => Ok(()),
            Err(misplaced) => self.found.add(state, id, &misplaced.describe(&state.catalog.schema)),
        }
    }
}

/// Returns the reasons why an entry with these classes and attributes does not conform to its classes or its content
/// rule.
fn faults_of(catalog: &Catalog, class_set: &ClassSet, attributes: &[AttrId]) -> Result<Vec<String>> {
    let present: Vec<Present<'_>> = attributes
        .iter()
        .filter_map(|id| catalog.attributes().get(id.0 as usize))
        .map(|def| Present { description: Cow::Borrowed(&def.description), value_count: 1 })
        .collect();
    let mut faults = Vec::new();
    check_all_attributes(&catalog.schema, class_set, &present, &mut |error| match error {
        OperationError::Refused { diagnostic, .. } => {
            faults.push(diagnostic);
            Ok(())
        }
        other => Err(other),
    })?;
    Ok(faults)
}
