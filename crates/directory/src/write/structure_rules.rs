//! Checks the record of an operation against name forms and DIT structure rules.
//!
//! The rules are checked after an add, a rename, a move, or a change of the structural class or of administrativeRole.
//! The entry must then have a permitted name at a permitted place. Other changes are not checked, so they succeed for
//! entries that violate the rules. If the governing rule of the entry changes, the entries below this entry are
//! checked, too, if their governing rules also change.

use std::borrow::Cow;
use std::collections::HashMap;

use ldap::ResultCode;
use schema::TypeId;

use super::value_rules::Changed;
use crate::catalog::access_rules::TypeSet;
use crate::catalog::{Catalog, ClassSet};
use crate::model::limits::VALUE_RULE_ENTRIES_MAX;
use crate::model::outcome::OperationError;
use crate::model::record::{Add, Change, Record};
use crate::model::rows::{ClassSetId, EntryId, NAMES, decode_name_row, id_key};
use crate::tree::structure::{
    GoverningRule, Misplaced, Placed, governing_rule, is_administrative_point, role_type,
};
use crate::tree::{TreeState, damaged_row};
use crate::write::deciding::Deciding;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks the record of an operation.
///
/// # Errors
/// namingViolation for a name or a place that no rule permits, or objectClassViolation if the operation is a modify;
/// adminLimitExceeded if too many entries would have to be checked.
#[inline]
pub(crate) fn check(deciding: Deciding<'_>, record: &Record) -> Result<()> {
    match deciding.state.catalog.schema.has_name_forms() {
        true => check_record(deciding.state, record),
        false => Ok(()),
    }
}

#[cold]
fn check_record(state: TreeState<'_>, record: &Record) -> Result<()> {
    let schema = &*state.catalog.schema;
    let refusal = |misplaced: Misplaced| refusal(state, misplaced, ResultCode::NAMING_VIOLATION);
    match &record.change {
        Change::Add(add) => {
            let placed = placed_new(state, record, add, add.parent)?;
            let superior = governing_rule(state, add.parent)?;
            placed.governed_below(schema, superior).map(drop).map_err(refusal)
        }
        Change::ModifyDn(rename) => {
            let node = state.node(rename.id)?.ok_or_else(|| damaged_row("nodes", rename.id))?;
            let before = Placed::of_node(state, rename.id, &node)?;
            let after = Placed::of(schema, (before.class, node.flags), &rename.rdn, before.is_point);
            let superior = governing_rule(state, rename.parent)?;
            let rule = after.governed_below(schema, superior).map_err(refusal)?;
            check_below(state, rename.id, (governing_rule(state, rename.id)?, rule))
        }
        Change::Modify(modify) => {
            let node = state.node(modify.id)?.ok_or_else(|| damaged_row("nodes", modify.id))?;
            let class = class_set(state.catalog, record, modify.class_set).structural;
            let changed = Changed::of(state, record)?;
            let role = role_type(schema).filter(|role| changes(&changed, *role));
            if state.catalog.class_set(node.class_set).structural == class && role.is_none() {
                return Ok(());
            }
            let before = Placed::of_node(state, modify.id, &node)?;
            let is_point = match role {
                Some(role) => node.parent == EntryId::ROOT || has_point_role(&changed, role)?,
                None => before.is_point,
            };
            let rdn = node.rdn_text().ok_or_else(|| damaged_row("nodes", modify.id))?;
            let after = Placed::of(schema, (class, modify.flags), rdn, is_point);
            let superior = governing_rule(state, node.parent)?;
            let rule = after
                .governed_below(schema, superior)
                .map_err(|misplaced| refusal_of_modify(state, misplaced))?;
            check_below(state, modify.id, (governing_rule(state, modify.id)?, rule))
        }
        _ => Ok(()),
    }
}

fn changes(changed: &Changed<'_>, type_id: TypeId) -> bool {
    let mut types = TypeSet::default();
    types.insert(type_id);
    changed.touches(&types)
}

fn has_point_role(changed: &Changed<'_>, role: TypeId) -> Result<bool> {
    let roles = changed.values(role)?;
    Ok(is_administrative_point(roles.iter().map(Vec::as_slice)))
}

fn refusal_of_modify(state: TreeState<'_>, misplaced: Misplaced) -> OperationError {
    refusal(state, misplaced, ResultCode::OBJECT_CLASS_VIOLATION)
}

fn refusal(state: TreeState<'_>, misplaced: Misplaced, code: ResultCode) -> OperationError {
    OperationError::refused(code, misplaced.describe(&state.catalog.schema))
}

/// Returns the class set with this number. The record itself may allocate the number.
fn class_set<'a>(catalog: &'a Catalog, record: &Record, id: ClassSetId) -> Cow<'a, ClassSet> {
    let Some(new) = record.class_sets.iter().find(|allocation| allocation.id == id) else {
        return Cow::Borrowed(catalog.class_set(id));
    };
    let schema = &*catalog.schema;
    let class = |oid: &String| schema.object_class(oid).map(|class| class.id);
    Cow::Owned(ClassSet::of(new.oids.iter().filter_map(class).collect(), schema))
}

/// Returns the properties of an added entry that structure rules examine, as if the entry were below `superior`.
fn placed_new(state: TreeState<'_>, record: &Record, add: &Add, superior: EntryId) -> Result<Placed> {
    let class = class_set(state.catalog, record, add.class_set).structural;
    let schema = &*state.catalog.schema;
    let is_point = match role_type(schema) {
        _ if superior == EntryId::ROOT => true,
        Some(role) => has_point_role(&Changed::of(state, record)?, role)?,
        None => false,
    };
    Ok(Placed::of(schema, (class, add.flags), &add.rdn, is_point))
}

/// Checks the entries below `top` if the change gives `top` another governing rule. Skips entries that already violated
/// the rules before the change.
fn check_below(
    state: TreeState<'_>,
    top: EntryId,
    (before, after): (GoverningRule, GoverningRule),
) -> Result<()> {
    let schema = &*state.catalog.schema;
    let (mut pending, mut examined) = (Vec::new(), 0);
    if before != after {
        pending.push((top, before, after));
    }
    while let Some((superior, before, after)) = pending.pop() {
        let prefix = id_key(superior);
        for row in state.read.scan_below(NAMES, &prefix) {
            let (child, _) = decode_name_row(row?.1).ok_or_else(|| damaged_row("names", superior))?;
            let node = state.node(child)?.ok_or_else(|| damaged_row("nodes", child))?;
            let placed = Placed::of_node(state, child, &node)?;
            let Ok(rule_before) = placed.governed_below(schema, before) else { continue };
            let rule_after = placed.governed_below(schema, after).map_err(|misplaced| {
                let what = misplaced.describe(schema);
                let text = format!("an entry below would break the rules: {what}");
                OperationError::refused(ResultCode::NAMING_VIOLATION, text)
            })?;
            if rule_before != rule_after {
                pending.push((child, rule_before, rule_after));
            }
            examined += 1;
            if examined > VALUE_RULE_ENTRIES_MAX {
                let text = format!(
                    "another DIT structure rule would govern the entry, and more than {VALUE_RULE_ENTRIES_MAX} entries \
                     below it would have to be checked: move them first"
                );
                return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
            }
        }
    }
    Ok(())
}

/// Checks structure rules for a deleted tree that is restored. The caller passes the entries of the tree one by one,
/// each after its superior.
pub(crate) struct Returning {
    /// Governing rule of the entry below which the tree is restored.
    superior: GoverningRule,
    /// Governing rules of the entries checked so far.
    rules: HashMap<EntryId, GoverningRule>,
}

impl Returning {
    /// Begins the check of a tree that is restored below an entry; `None` if the schema has no name forms.
    pub(crate) fn below(state: TreeState<'_>, parent: EntryId) -> Result<Option<Returning>> {
        if !state.catalog.schema.has_name_forms() {
            return Ok(None);
        }
        Ok(Some(Returning { superior: governing_rule(state, parent)?, rules: HashMap::new() }))
    }

    /// Checks the next entry of the tree. `record` adds the entry. `superior` was its superior in the deleted tree.
    ///
    /// # Errors
    /// namingViolation.
    pub(crate) fn check(&mut self, state: TreeState<'_>, record: &Record, superior: EntryId) -> Result<()> {
        let Change::Add(add) = &record.change else { return Ok(()) };
        let rule = self.rules.get(&superior).copied().unwrap_or(self.superior);
        let placed = placed_new(state, record, add, superior)?;
        let rule = placed.governed_below(&state.catalog.schema, rule);
        let rule = rule.map_err(|misplaced| refusal(state, misplaced, ResultCode::NAMING_VIOLATION))?;
        self.rules.insert(add.id, rule);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
