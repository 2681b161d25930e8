//! Modify DN (RFC 4511 section 4.9): renames an entry, moves it with everything below it, or both.
//!
//! Moving a subtree of any size takes one record and changes one row of `names`. A suffix entry cannot be renamed,
//! because its name is a setting. An entry cannot move below itself. An entry cannot move to another suffix, because
//! the suffix might be on another server (affectsMultipleDSAs). An entry cannot move to or below a referral (RFC 3296
//! section 5.6.2).
//!
//! With deleteOldRDN, the values of the old RDN are removed unless the new RDN contains equal values. Equal values are
//! then stored as spelled in the new RDN. Without deleteOldRDN, stored values stay unchanged, even if the new RDN
//! spells them differently.

use ldap::{Dn, ModifyDnRequest, ResultCode};
use schema::NameError;

use crate::access::{EffectiveRights, NewEntryFacts};
use crate::catalog::Allocations;
use crate::model::access_rule::RENAME;
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::{NormalName, parse_dn, render_rdn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, ModifyDn, Record};
use crate::model::rows::{EntryId, NAMES, children_counter, decode_name_row, id_key, subtree_counter};
use crate::read::search::check_assertion;
use crate::tree::target::{Target, check_not_virtual, entry_dn, locate_name, missing};
use crate::tree::{Found, TreeState, damaged_row};
use crate::write::add::{NamingValue, check_superior, naming_values, new_naming_values};
use crate::write::deciding::Deciding;
use crate::write::dynamic_entries;
use crate::write::permitted;
use crate::write::relaxed;
use crate::write::schema_check::check_attributes;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks a modify DN request. Returns the record of its effect. Returns `None` if nothing changes.
pub(crate) fn decide(deciding: Deciding<'_>, request: &ModifyDnRequest<'_>) -> Result<Option<Record>> {
    let Deciding { state, context, controls, .. } = deciding;
    let schema = &*state.catalog.schema;
    let dn = parse_dn(request.entry)?;
    let new_rdn = parse_rdn(request.new_rdn)?;
    let new_superior = request.new_superior.map(parse_dn).transpose()?;
    let rights = &permitted::tree_writer(state, context)?;
    relaxed::check_use(controls, rights)?;
    let name = NormalName::of(&dn, schema);
    check_not_virtual(state, &dn, &name, ResultCode::UNWILLING_TO_PERFORM)?;
    let naming = new_naming_values(state.catalog, &new_rdn)?;
    let normal_rdn = normal_rdn(state, &new_rdn)?;
    let located = locate_name(state, &dn, &name, controls.manage_dsa_it);
    let target = permitted::target(state, rights, request.entry, located, ("rename", RENAME))?;
    check_assertion(state, rights, controls, target.id)?;
    let node = state.node(target.id)?.ok_or_else(|| damaged_row("nodes", target.id))?;
    if node.parent == EntryId::ROOT {
        return Err(OperationError::refused(
            ResultCode::UNWILLING_TO_PERFORM,
            format!(
                "{} is a suffix of this server: it cannot be renamed; add the new name to the setting suffixes",
                Quoted(&target.dn)
            ),
        ));
    }
    let parent = match &new_superior {
        None => node.parent,
        Some(superior) => {
            let place = Superior { state, rights, target: &target, from: node.parent };
            place.find(&name, superior)?
        }
    };
    if parent != node.parent {
        dynamic_entries::check_place(state, state.catalog.class_set(node.class_set), parent)?;
    }
    dynamic_entries::check_all_below(state, target.id, (parent, &normal_rdn))?;
    check_free(state, rights, &target, (parent, &new_rdn, &normal_rdn), controls.manage_dsa_it)?;
    let mut entry = WorkingEntry::of(state, target.id)?;
    rename(state, &mut entry, &target, naming, request.delete_old_rdn)?;
    check_attributes(schema, state.catalog.class_set(node.class_set), &entry.present()?)?;
    let mut rdn = String::new();
    if let Some(own) = new_rdn.rdn() {
        render_rdn(schema, &own, &mut rdn);
    }
    if parent == node.parent && rdn.as_bytes() == node.rdn && !entry.is_changed() {
        return Ok(None);
    }
    entry.stamp_change(&deciding)?;
    let mut allocations = Allocations::new(state.catalog);
    let changes = entry.changes(&mut allocations);
    let rename = ModifyDn { id: target.id, old_dn: target.dn, parent, rdn, changes };
    Ok(Some(deciding.record(allocations, Change::ModifyDn(rename))))
}

fn parse_rdn(text: &str) -> Result<Dn<'_>> {
    Dn::parse_rdn(text).map_err(|error| {
        let diagnostic = format!("{} is not one relative distinguished name: {error}", Quoted(text));
        OperationError::refused(ResultCode::INVALID_DN_SYNTAX, diagnostic)
    })
}

fn normal_rdn(state: TreeState<'_>, new_rdn: &Dn<'_>) -> Result<Vec<u8>> {
    let normal = NormalName::of(new_rdn, &state.catalog.schema);
    match normal.failure {
        None => Ok(normal.key),
        Some(failure) => {
            // An attribute type that cannot name an entry is a naming violation, not invalid syntax.
            let code = match failure {
                NameError::NoEquality(_) => ResultCode::NAMING_VIOLATION,
                _ => ResultCode::INVALID_DN_SYNTAX,
            };
            Err(OperationError::refused(code, format!("{}: {failure}", Quoted(new_rdn.text()))))
        }
    }
}

/// Data to find and check the new superior of a move.
struct Superior<'s> {
    state: TreeState<'s>,
    rights: &'s EffectiveRights,
    /// The entry that moves.
    target: &'s Target,
    from: EntryId,
}

impl Superior<'_> {
    /// Returns the entry named `superior`, if the target may move below this entry. `name` is the target's name.
    fn find(&self, name: &NormalName, superior: &Dn<'_>) -> Result<EntryId> {
        let Superior { state, rights, target, from } = *self;
        let superior_name = NormalName::of(superior, &state.catalog.schema);
        let several_servers = |why: &str| {
            let why = format!("the new superior {} {why}", Quoted(superior.text()));
            OperationError::refused(ResultCode::AFFECTS_MULTIPLE_DSAS, why)
        };
        let suffix_of = |name: &NormalName| state.catalog.suffix_above(&name.key);
        let own_suffix = suffix_of(name).map_or("", |suffix| suffix.dn.as_str());
        let Some(suffix) = suffix_of(&superior_name).filter(|suffix| suffix.dn == own_suffix) else {
            return Err(several_servers(&format!("is not in the suffix {}", Quoted(own_suffix))));
        };
        let (id, flags) = match state.find(&superior_name)? {
            Found::Entry(id, flags) => (id, flags),
            Found::Missing { nearest: Some((id, flags, _)) }
                if flags.is_referral() && rights.may_browse(state, id)? =>
            {
                return Err(several_servers("is held by another server"));
            }
            Found::Missing { nearest } => {
                let error = missing(state, superior, &superior_name, nearest)?;
                return rights.permitted(state, superior.text(), Err(error));
            }
        };
        // If the requester may not see the superior, the error must not reveal that the superior exists.
        let checked = if flags.is_referral() {
            Err(several_servers("is a referral to another server"))
        } else {
            check_superior(state, id).and_then(|()| self.check_place(id, superior))
        };
        if let Err(error) = checked {
            if id != from && !rights.may_browse(state, id)? {
                return Err(rights.hidden(state, superior.text(), Some(id))?);
            }
            return Err(error);
        }
        if id != from {
            let moved = NewEntryFacts::Moved(target.id);
            permitted::check_new(state, rights, superior.text(), (Some(id), Some(id)), moved)?;
        }
        let superior_depth = superior_name.depth() + 1 - suffix.rdn_count;
        if superior_name.depth() + 1 > name.depth() {
            check_height(state, target, (TREE_DEPTH_MAX - 1).saturating_sub(superior_depth))?;
        }
        Ok(id)
    }

    fn check_place(&self, id: EntryId, superior: &Dn<'_>) -> Result<()> {
        if !self.state.is_at_or_below(id, self.target.id)? {
            return Ok(());
        }
        Err(OperationError::refused(
            ResultCode::UNWILLING_TO_PERFORM,
            format!(
                "{} cannot go below itself: the new superior {} is",
                Quoted(&self.target.dn),
                Quoted(superior.text())
            ),
        ))
    }
}

/// Checks that a subtree has at most `level_max` levels, counting its top entry.
fn check_height(state: TreeState<'_>, target: &Target, level_max: usize) -> Result<()> {
    let subordinates = state.read.count(&subtree_counter(target.id))?;
    if usize::try_from(subordinates).unwrap_or(0) < level_max {
        // A subtree has at most as many levels as entries, so a leaf or a small subtree needs no traversal. This is the
        // usual case.
        return Ok(());
    }
    let mut level_count = 1;
    let mut inner = if subordinates > 0 { vec![target.id] } else { Vec::new() };
    while !inner.is_empty() && level_count <= level_max {
        let mut below = Vec::new();
        for id in inner {
            inner_children(state, id, &mut below)?;
        }
        (inner, level_count) = (below, level_count + 1);
    }
    if level_count <= level_max {
        return Ok(());
    }
    Err(OperationError::refused(
        ResultCode::UNWILLING_TO_PERFORM,
        format!(
            "{} has entries that would be more than {} levels deep there",
            Quoted(&target.dn),
            TREE_DEPTH_MAX - 1
        ),
    ))
}

/// Appends the entries one level below `parent` that have subordinates.
fn inner_children(state: TreeState<'_>, parent: EntryId, found: &mut Vec<EntryId>) -> Result<()> {
    let prefix = id_key(parent);
    for row in state.read.scan_below(NAMES, &prefix) {
        let (_, value) = row?;
        let (child, _) = decode_name_row(value).ok_or_else(|| damaged_row("names", parent))?;
        if state.read.count(&children_counter(child))? > 0 {
            found.push(child);
        }
    }
    Ok(())
}

/// Checks that no other entry has the new name.
fn check_free(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    target: &Target,
    (parent, new_rdn, normal_rdn): (EntryId, &Dn<'_>, &[u8]),
    manage_dsa_it: bool,
) -> Result<()> {
    let Some((id, flags)) = state.child(parent, normal_rdn)?.filter(|(id, _)| *id != target.id) else {
        return Ok(());
    };
    // RFC 3296 section 5.6.2.
    if flags.is_referral() && !manage_dsa_it && rights.may_browse(state, id)? {
        let diagnostic = format!("{} is a referral to another server", Quoted(entry_dn(state, id)?));
        return Err(OperationError::refused(ResultCode::AFFECTS_MULTIPLE_DSAS, diagnostic));
    }
    Err(permitted::name_exists(state, rights, id, || new_rdn.text().to_owned())?)
}

/// Removes the values of the old RDN, if requested, and adds the values of the new RDN.
fn rename(
    state: TreeState<'_>,
    entry: &mut WorkingEntry<'_>,
    target: &Target,
    naming: Vec<NamingValue>,
    delete_old_rdn: bool,
) -> Result<()> {
    if delete_old_rdn {
        let old = Dn::parse(&target.dn).map_err(|_| damaged_row("nodes", target.id))?;
        for NamingValue { description, value } in naming_values(&state.catalog.schema, &old)? {
            let stays = naming.iter().any(|new| new.description == description && new.value == value);
            if !stays {
                entry.remove(&description, &value.key)?;
            }
        }
    }
    for NamingValue { description, value } in naming {
        entry.add(&description, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
