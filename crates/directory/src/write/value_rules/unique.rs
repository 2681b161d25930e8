//! Uniqueness rules: a rule allows each value of its attribute types in at most one of the entries that it covers.
//!
//! The rule's base and filter are evaluated on the entry after the change. A move, a rename or a value that the filter
//! tests may make the rule cover the entry. All values of the entry are then checked. Otherwise only the values that
//! the entry gains are checked. Equal values that are older than the rule therefore stay until one of them is added
//! again. One entry may have equal values in several types, as in 389 Directory Server.
//!
//! An error always reveals that another entry has the value. The error names the other entry only to a requester that
//! may read the value there.

use std::collections::HashMap;

use ldap::ResultCode;
use schema::TypeId;

use super::changed::{Changed, has_normal_value, stored_of_type};
use super::indexed;
use crate::access::EffectiveRights;
use crate::catalog::uniqueness::UniqueRule;
use crate::filter::Covering;
use crate::model::limits::{INDEX_KEY_MAX, VALUE_RULE_ENTRIES_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, ModifyDn};
use crate::model::rows::{EntryId, INDEX, NAMES, decode_name_row, id_key, subtree_counter, with_index_key};
use crate::tree::target::entry_dn;
use crate::tree::{TreeState, damaged_row, normal_dn_of};
use crate::write::deciding::Deciding;
use crate::write::given_values::normal_value;

type Result<T> = std::result::Result<T, OperationError>;

/// Number of entries with the value that are read in one step.
const BLOCK: usize = 64;

/// Checks a change against all uniqueness rules.
///
/// # Errors
/// constraintViolation for a value that another entry has; busy while an index is being built; adminLimitExceeded if
/// too many entries would have to be compared; unwillingToPerform if this version of the server does not know a rule.
pub(super) fn check(deciding: Deciding<'_>, changed: &Changed<'_>) -> Result<()> {
    let uniqueness = &deciding.state.catalog.uniqueness;
    if uniqueness.is_broken {
        let what = "a rule of the setting unique is unknown to this version of the server, which makes no change \
                    without it";
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, what));
    }
    let is_move = matches!(changed.change(), Change::ModifyDn(_));
    if !is_move && !changed.touches(&uniqueness.watched) {
        return Ok(());
    }
    uniqueness.rules.iter().try_for_each(|rule| RuleCheck::of(deciding, rule, changed)?.run(changed))
}

/// Values of the entries that one change adds. The first check compares such an entry only with stored entries.
#[derive(Default)]
pub(crate) struct AddedValues {
    /// The first entry that has a value in normal form, by the place of the rule in the settings.
    holders: HashMap<(usize, Vec<u8>), EntryId>,
}

impl AddedValues {
    /// Checks that no other entry of the same change has a value of this entry.
    ///
    /// # Errors
    /// constraintViolation.
    pub(super) fn check(&mut self, deciding: Deciding<'_>, changed: &Changed<'_>) -> Result<()> {
        let state = deciding.state;
        let (schema, uniqueness) = (&*state.catalog.schema, &state.catalog.uniqueness);
        let Change::Add(add) = changed.change() else { return Ok(()) };
        if !changed.touches(&uniqueness.watched) {
            return Ok(());
        }
        for (place, rule) in uniqueness.rules.iter().enumerate() {
            let check = RuleCheck::of(deciding, rule, changed)?;
            if !check.has_inside(&add.dn)?
                || changed.begins_to_match(&check.covering, &rule.covered)?.is_none()
            {
                continue;
            }
            for type_id in rule.types.iter().copied() {
                for value in changed.added(type_id) {
                    let Ok(normal) = normal_value(schema, schema.type_by_id(type_id), value) else {
                        continue;
                    };
                    if *self.holders.entry((place, normal)).or_insert(add.id) != add.id {
                        let what = format!(
                            "{}: the uniqueness rule {} allows each value in one entry, and several of these entries \
                             have the same value",
                            schema.type_by_id(type_id).name(),
                            Quoted(&rule.name)
                        );
                        return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The check of one change against one rule.
struct RuleCheck<'a> {
    deciding: Deciding<'a>,
    rule: &'a UniqueRule,
    covering: Covering,
    /// The subtree that the change renames or moves. `None` for any other change, or if the rule has no base.
    moved: Option<Moved>,
}

/// A subtree whose name changes.
struct Moved {
    top: EntryId,
    /// Normal DN of the subtree's top entry, before and after the change.
    before: Vec<u8>,
    after: Vec<u8>,
}

impl<'a> RuleCheck<'a> {
    fn of(deciding: Deciding<'a>, rule: &'a UniqueRule, changed: &Changed<'_>) -> Result<RuleCheck<'a>> {
        let state = deciding.state;
        let moved = match changed.change() {
            Change::ModifyDn(rename) if rule.covered.base.is_some() => Some(Moved::of(state, rename)?),
            _ => None,
        };
        Ok(RuleCheck { deciding, rule, covering: Covering::of(state, &rule.covered)?, moved })
    }

    /// Returns the normal DN of the rule's base; empty if the rule covers the whole directory.
    fn base_key(&self) -> &[u8] {
        self.rule.covered.base.as_ref().map_or(&[], |name| &name.key)
    }

    /// Returns true if a new entry with this DN is in the base.
    fn has_inside(&self, dn: &str) -> Result<bool> {
        let base = self.base_key();
        Ok(base.is_empty() || normal_key(self.deciding.state, dn)?.starts_with(base))
    }

    fn run(&self, changed: &Changed<'_>) -> Result<()> {
        let state = self.deciding.state;
        if let Change::Add(add) = changed.change() {
            return if self.has_inside(&add.dn)? { self.check_changed(changed, false) } else { Ok(()) };
        }
        let moved_in = match &self.moved {
            Some(moved) => moved.moved_in(state, self.base_key())?,
            None => Vec::new(),
        };
        let has_moved_in = moved_in.contains(&changed.id);
        let adds = self.rule.types.iter().any(|type_id| !changed.added(*type_id).is_empty());
        if (has_moved_in || adds || changed.touches(&self.rule.covered.tests))
            && self.is_in_base(changed.id)?
        {
            self.check_changed(changed, has_moved_in)?;
        }
        for id in moved_in.into_iter().filter(|id| *id != changed.id) {
            if self.covering.matches(state, id)? {
                for type_id in &self.rule.types {
                    let values = stored_of_type(state, id, *type_id)?;
                    self.check_values(id, *type_id, values.iter().map(Vec::as_slice))?;
                }
            }
        }
        Ok(())
    }

    /// Checks the changed entry. The entry must be in the base. Checks all of its values if the rule did not cover the
    /// entry before the change, otherwise only the added values. `has_moved_in` is true if the change moved the entry
    /// into the base.
    fn check_changed(&self, changed: &Changed<'_>, has_moved_in: bool) -> Result<()> {
        let begins = changed.begins_to_match(&self.covering, &self.rule.covered)?;
        let Some(begins) = begins else { return Ok(()) };
        let checks_all = has_moved_in || begins;
        for type_id in &self.rule.types {
            match checks_all {
                true => {
                    let values = changed.values(*type_id)?;
                    self.check_values(changed.id, *type_id, values.iter().map(Vec::as_slice))?;
                }
                false => self.check_values(changed.id, *type_id, changed.added(*type_id).into_iter())?,
            }
        }
        Ok(())
    }

    /// Checks values of type `type_id` in the entry `own`: no other entry that the rule covers may have one of these
    /// values.
    fn check_values<'v>(
        &self,
        own: EntryId,
        type_id: TypeId,
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<()> {
        let state = self.deciding.state;
        let schema = &*state.catalog.schema;
        for value in values {
            let Ok(normal) = normal_value(schema, schema.type_by_id(type_id), value) else { continue };
            for other_type in &self.rule.types {
                if let Some(other) = self.holder(own, *other_type, &normal)? {
                    return Err(self.refusal(type_id, other, *other_type)?);
                }
            }
        }
        Ok(())
    }

    /// Finds an entry other than `own` that the rule covers and that has a value of this type with this normal form.
    fn holder(&self, own: EntryId, type_id: TypeId, normal: &[u8]) -> Result<Option<EntryId>> {
        let state = self.deciding.state;
        let Some(def) = indexed(state, type_id, "unique")? else { return Ok(None) };
        let mut ids = with_index_key(def.id, normal, |key| state.read.ids(INDEX, key))?;
        let (mut block, mut examined) = (Vec::new(), 0);
        while ids.next_block(&mut block, BLOCK)? > 0 {
            for other in block.drain(..).map(EntryId).filter(|other| *other != own) {
                let is_covered = self.is_in_base(other)?
                    && self.covering.matches(state, other)?
                    && (normal.len() <= INDEX_KEY_MAX || has_normal_value(state, other, type_id, normal)?);
                if is_covered {
                    return Ok(Some(other));
                }
                examined += 1;
            }
            if examined > VALUE_RULE_ENTRIES_MAX {
                return Err(self.too_many("have the value without being covered by it"));
            }
        }
        Ok(None)
    }

    /// Returns true if a stored entry is in the base after the change.
    fn is_in_base(&self, id: EntryId) -> Result<bool> {
        let state = self.deciding.state;
        match &self.moved {
            Some(moved) if state.is_at_or_below(id, moved.top)? => {
                Ok(moved.name_after(state, id)?.starts_with(self.base_key()))
            }
            _ => self.covering.has_in_base(state, id),
        }
    }

    fn too_many(&self, which: &str) -> OperationError {
        too_many(&format!(
            "the uniqueness rule {} cannot be checked: more than {VALUE_RULE_ENTRIES_MAX} entries {which}",
            Quoted(&self.rule.name)
        ))
    }

    /// Returns the error for a value of `type_id` that the entry `other` already has in `other_type`.
    fn refusal(&self, type_id: TypeId, other: EntryId, other_type: TypeId) -> Result<OperationError> {
        let Deciding { state, context, .. } = self.deciding;
        let name = |type_id| state.catalog.schema.type_by_id(type_id).name();
        let at = EffectiveRights::of(state, context)?.at_entry(state, other)?;
        let is_shown = at.is_none_or(|at| at.may_browse() && at.may_read(other_type));
        let mut what = format!(
            "{}: the uniqueness rule {} allows each value in one entry, and another entry has a value of this entry",
            name(type_id),
            Quoted(&self.rule.name)
        );
        if is_shown {
            what += &format!(": {} has it in {}", Quoted(entry_dn(state, other)?), name(other_type));
        }
        Ok(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what))
    }
}

fn too_many(what: &str) -> OperationError {
    OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, what)
}

impl Moved {
    fn of(state: TreeState<'_>, rename: &ModifyDn) -> Result<Moved> {
        let parent = state.dn(rename.parent)?.ok_or_else(|| damaged_row("nodes", rename.parent))?;
        let after = normal_key(state, &[rename.rdn.as_str(), ",", parent.as_str()].concat())?;
        Ok(Moved { top: rename.id, before: name_of(state, rename.id)?, after })
    }

    /// Returns the normal DN of an entry in the subtree after the change.
    fn name_after(&self, state: TreeState<'_>, id: EntryId) -> Result<Vec<u8>> {
        let before = name_of(state, id)?;
        let below = before.get(self.before.len()..).unwrap_or_default();
        Ok([self.after.as_slice(), below].concat())
    }

    /// Returns the entries of the subtree that are in the base after the change, but not before the change.
    fn moved_in(&self, state: TreeState<'_>, base: &[u8]) -> Result<Vec<EntryId>> {
        let is_inside = self.after.starts_with(base);
        if self.before == self.after
            || self.before.starts_with(base)
            || !(is_inside || base.starts_with(&self.after))
        {
            return Ok(Vec::new());
        }
        if usize::try_from(state.read.count(&subtree_counter(self.top))?).unwrap_or(usize::MAX)
            > VALUE_RULE_ENTRIES_MAX
        {
            return Err(too_many(&format!(
                "at most {VALUE_RULE_ENTRIES_MAX} entries at once can come among those that a rule of the setting \
                 unique covers: move smaller parts"
            )));
        }
        let (mut found, mut pending) = (Vec::new(), vec![self.top]);
        while let Some(id) = pending.pop() {
            let prefix = id_key(id);
            for row in state.read.scan_below(NAMES, &prefix) {
                let (child, _) = decode_name_row(row?.1).ok_or_else(|| damaged_row("names", id))?;
                pending.push(child);
            }
            if is_inside || self.name_after(state, id)?.starts_with(base) {
                found.push(id);
            }
        }
        Ok(found)
    }
}

fn name_of(state: TreeState<'_>, id: EntryId) -> Result<Vec<u8>> {
    let name = normal_dn_of(state.read, &state.catalog.schema, id)?;
    name.ok_or_else(|| damaged_row("nodes", id))
}

fn normal_key(state: TreeState<'_>, dn: &str) -> Result<Vec<u8>> {
    Ok(NormalName::of(&parse_dn(dn)?, &state.catalog.schema).key)
}
