//! Modify (RFC 4511 section 4.6; increments: RFC 4525).
//!
//! Changes are applied in their order to a [`WorkingEntry`]. An error refuses all changes. Only the final state must
//! satisfy the schema. Therefore a request can delete a value and add the value again in another spelling, or change
//! classes and attributes together. A modify that changes nothing succeeds without a record.
//!
//! Values of the RDN cannot be removed (notAllowedOnRDN): only a rename changes them. A delete cannot name a superclass
//! in objectClass while a subclass stays (RFC 4512 section 3.3). A replacement of objectClass may omit superclasses,
//! because an entry has the superclasses of its classes even if they are not stored.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use ldap::{Change, ChangeOperation, Dn, ModifyRequest, ResultCode, Values};
use schema::{AttributeDescription, ClassId, Schema};

use crate::access::{EffectiveRights, EntryRights, denied, hint};
use crate::catalog::{Allocations, ClassSet, check_options, is_user_password, read_description};
use crate::filter::ByValue;
use crate::model::access_rule::{BROWSE, READ, WRITE};
use crate::model::limits::VALUES_COMPARED_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::password_kind::{PasswordKind, names_application};
use crate::model::record::{self, Modify, Record, Value};
use crate::model::rows::{EntryId, LINKS, link_key};
use crate::model::stamp::Stamp;
use crate::model::value_end::EndingValue;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::password::is_hashed;
use crate::read::bind::is_administrator;
use crate::read::search::{check_assertion, check_no_assertion};
use crate::tree::target::{Target, check_not_virtual, locate_name};
use crate::tree::value_ends::of_value;
use crate::tree::{TreeState, damaged_row};
use crate::write::add::naming_values;
use crate::write::collective;
use crate::write::deciding::Deciding;
use crate::write::dynamic_entries;
use crate::write::given_values::{read_value, read_values};
use crate::write::password_rules::{self, OwnPasswordChange};
use crate::write::passwords::deleted_form;
use crate::write::permitted;
use crate::write::relaxed;
use crate::write::schema_check::{check_attributes, check_same_structural, object_class_type, read_classes};
use crate::write::value_ends::{self, ValueEnds};
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// Syntax of values that can be incremented (RFC 4517 section 3.3.16).
const INTEGER_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.27";

/// A change of the request with its description and values parsed and checked.
struct ReadChange<'r> {
    operation: ChangeOperation,
    /// Attribute description as spelled by the client.
    text: &'r str,
    description: AttributeDescription,
    values: ValueList,
    /// End time in the option of the description, in seconds since 1970; 0 for `x-until-never`. `None` if the
    /// description has no such option.
    until: Option<u64>,
}

/// Checks a modify request. Returns the record of its effect. Returns `None` if nothing changes.
pub(crate) fn decide(deciding: Deciding<'_>, request: &ModifyRequest<'_>) -> Result<Option<Record>> {
    let Deciding { state, context, controls, .. } = deciding;
    let schema = &*state.catalog.schema;
    let dn = parse_dn(request.object)?;
    let rights = &EffectiveRights::of(state, context)?;
    rights.check_bound().and_then(|()| relaxed::check_use(controls, rights))?;
    let name = NormalName::of(&dn, schema);
    check_not_virtual(state, &dn, &name, ResultCode::UNWILLING_TO_PERFORM)?;
    let changes =
        request.changes.iter().map(|change| read_change(deciding, change)).collect::<Result<Vec<_>>>()?;
    let located = locate_name(state, &dn, &name, controls.manage_dsa_it);
    if located.is_err() && rights.is_administrator() && is_administrator(state, &name)? {
        check_no_assertion(controls)?;
        return administrator_password(deciding, &changes).map(Some);
    }
    let target = permitted::target(state, rights, request.object, located, ("change", BROWSE))?;
    let rules = match rights.at_entry(state, target.id)? {
        None => {
            let types = changes.iter().map(|change| change.description.type_id);
            rights.check_modify(state.catalog, target.id, types)?;
            None
        }
        Some(at) => {
            let rules = Rules { state, rights, id: target.id, at };
            changes.iter().try_for_each(|change| rules.check(change))?;
            Some(rules)
        }
    };
    check_assertion(state, rights, controls, target.id)?;
    let mut entry = WorkingEntry::of(state, target.id)?;
    let is_of_app = |change: &ReadChange<'_>| names_application(&change.description.options);
    let is_any_password = |change: &ReadChange<'_>| is_user_password(schema, change.description.type_id);
    let is_password = |change: &ReadChange<'_>| {
        is_any_password(change) && PasswordKind::of(&change.description.options) == PasswordKind::Own
    };
    let checks_password = !controls.follows_source() && changes.iter().any(is_password);
    let passwords =
        checks_password.then(|| password_rules::passwords(&mut entry, state.catalog)).transpose()?;
    for change in &changes {
        // The old password in the request proves that the user knows it, so a wrong password must cause an error.
        let is_lenient = controls.permissive_modify && !is_any_password(change);
        match rules.as_ref().and_then(|rules| Some((rules, rules.outcome_filters(change)?))) {
            None => carry_out(schema, &mut entry, change, is_lenient)?,
            Some((rules, view)) => rules.carry_out(&mut entry, change, is_lenient, view)?,
        }
    }
    if let Some(before) = passwords {
        let with_old = changes.iter().any(|of| is_password(of) && proves_old(deciding.stamp, of, &before));
        let only_adds = !changes.iter().any(|of| is_password(of) && of.operation != ChangeOperation::Add);
        let change = OwnPasswordChange { before: &before, with_old, only_adds };
        password_rules::changed(&deciding, &mut entry, target.id, change)?;
    }
    let adds_app = |change: &ReadChange<'_>| is_any_password(change) && is_of_app(change) && adds(change);
    if !controls.follows_source() && changes.iter().any(adds_app) {
        password_rules::check_app_passwords(&deciding, &mut entry, target.id)?;
    }
    if !controls.follows_source() {
        password_rules::unlocked(&mut entry, state.catalog)?;
    }
    let ends = given_ends(deciding, target.id, &mut entry, &changes)?;
    check_naming(state, &mut entry, &dn, &target)?;
    let class_set = check_classes(deciding, &mut entry, &target, &changes)?;
    check_attributes(schema, &class_set, &entry.present()?)?;
    password_rules::check_policy_entry(state.catalog, &class_set, |description| entry.values(description))?;
    if class_set.is_collective {
        let checked = collective::checked(state.catalog, &entry.present()?);
        collective::check(state.catalog, &checked, |of| entry.values(of))?;
    }
    if !entry.is_changed() && ends.is_empty() {
        return Ok(None);
    }
    relaxed::stamp_changed(&deciding, &mut entry)?;
    Ok(Some(record_of(deciding, target, &class_set, entry, ends)))
}

fn record_of(
    deciding: Deciding<'_>,
    target: Target,
    class_set: &ClassSet,
    entry: WorkingEntry<'_>,
    ends: ValueEnds,
) -> Record {
    let mut allocations = Allocations::new(deciding.state.catalog);
    let class_set_id = allocations.class_set(&class_set.classes);
    let mut changes = entry.changes(&mut allocations);
    changes.extend(ends.into_changes(&mut allocations));
    let (id, dn, flags) = (target.id, target.dn, class_set.flags);
    let modify = Modify { id, dn, class_set: class_set_id, flags, changes };
    deciding.record(allocations, record::Change::Modify(modify))
}

/// Returns the end times that the changes give to values of the entry.
fn given_ends(
    deciding: Deciding<'_>,
    id: EntryId,
    entry: &mut WorkingEntry<'_>,
    changes: &[ReadChange<'_>],
) -> Result<ValueEnds> {
    let state = deciding.state;
    let mut ends = ValueEnds::default();
    // A replace may keep values that have an end time.
    let may_keep = |change: &ReadChange<'_>| {
        change.operation == ChangeOperation::Replace
            && state.catalog.type_facts(change.description.type_id).is_link
    };
    if !changes.iter().any(|change| change.until.is_some() || may_keep(change)) {
        return Ok(ends);
    }
    for ReadChange { operation, text, description, values, until } in changes {
        match (operation, until) {
            (ChangeOperation::Add, Some(until)) => {
                let is_lenient = deciding.controls.permissive_modify;
                ends.give((state, id), (text, description), values, (*until, is_lenient))?;
            }
            (ChangeOperation::Add, None) => {}
            (ChangeOperation::Delete, Some(until)) => {
                ends.check((state, id), (text, description), values, *until)?;
                ends.remove(description, values);
            }
            (ChangeOperation::Delete, _) if values.len() > 0 => ends.remove(description, values),
            _ => ends.remove_all(description),
        }
    }
    ends.settle(state, id, entry)?;
    Ok(ends)
}

/// Returns true if a change of the own password deletes an old password and proves that the requester knows it.
/// `before` are the passwords before the request. A delete of a password that the same request added proves nothing,
/// and neither does a delete by a hash.
fn proves_old(stamp: &Stamp, change: &ReadChange<'_>, before: &[Vec<u8>]) -> bool {
    let is_proved = |value: &[u8]| {
        let is_verified = stamp.matched_passwords.iter().any(|(_, stored)| stored == value);
        before.iter().any(|stored| stored == value) && (is_verified || !is_hashed(value))
    };
    let mut values = change.values.iter().filter_map(|keyed| keyed.value.as_bytes());
    change.operation == ChangeOperation::Delete && values.any(is_proved)
}

/// Returns true if a change adds values.
fn adds(change: &ReadChange<'_>) -> bool {
    change.operation != ChangeOperation::Delete && change.values.len() > 0
}

/// Access rules for the requester's change of an entry.
struct Rules<'r> {
    state: TreeState<'r>,
    rights: &'r EffectiveRights,
    id: EntryId,
    /// The requester's rights to the entry.
    at: Arc<EntryRights>,
}

impl Rules<'_> {
    /// Refuses a change that the access rules do not allow. [`carry_out`](Self::carry_out) checks changes of values
    /// that the request does not name.
    fn check(&self, change: &ReadChange<'_>) -> Result<()> {
        match self.may_make(change) {
            true if !self.is_of_own_name(change) || !self.changes_end(change)? => Ok(()),
            true => self
                .refuse(change, ": the right to join does not cover the end of a value that the entry has"),
            false => self.refuse(change, ""),
        }
    }

    /// Returns true if only the right to join or to leave permits the change. The access rules must allow the change.
    fn is_of_own_name(&self, change: &ReadChange<'_>) -> bool {
        let type_id = change.description.type_id;
        !is_user_password(&self.state.catalog.schema, type_id)
            && !self.at.may_write(type_id)
            && self.at.over_values(WRITE, type_id).is_none()
    }

    /// Returns true if the entry already has the requester's own name as a value, with any options, and the change
    /// would alter the end time of this value. A delete needs no check: a delete only ends the membership earlier, and
    /// a requester with the right to join may join again anyway.
    fn changes_end(&self, change: &ReadChange<'_>) -> Result<bool> {
        let type_id = change.description.type_id;
        let Some(own) = self.rights.own() else { return Ok(false) };
        if change.operation == ChangeOperation::Delete {
            return Ok(false);
        }
        let gives_end = change.operation == ChangeOperation::Add && change.until.is_some();
        for number in self.state.catalog.stored_attributes_of_type(type_id).iter().copied() {
            let is_joined = || self.state.read.contains_id(LINKS, &link_key(self.id, number), own.0);
            let end = of_value(self.state.read, (self.id, number), EndingValue::Link(own))?;
            if end > 0 || (gives_end && is_joined()?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn refuse(&self, change: &ReadChange<'_>, why: &str) -> Result<()> {
        let type_id = change.description.type_id;
        let name = self.state.catalog.schema.type_by_id(type_id).name();
        let hint = hint(self.state, self.rights, &self.at, (self.id, WRITE, Some(type_id)))?;
        Err(denied(format!("no access rule lets you change {name} of this entry{why}{hint}")))
    }

    /// Returns true if the rules allow a change. The rules may allow all values of the attribute, certain values, a
    /// password, or only the requester's own name.
    fn may_make(&self, change: &ReadChange<'_>) -> bool {
        let Rules { rights, id, at, .. } = self;
        let schema = &*self.state.catalog.schema;
        let type_id = change.description.type_id;
        if is_user_password(schema, type_id) {
            // An application password permits binds in addition to the user's own password, so the right to reset is
            // not enough.
            let is_of_app = names_application(&change.description.options);
            return rights.may_change_password(at, *id, type_id) && (!is_of_app || at.may_write(type_id));
        }
        if at.may_write(type_id) {
            return true;
        }
        if let Some(view) = at.over_values(WRITE, type_id) {
            let mut key = Vec::new();
            let mut may = |value: &[u8]| view.allows(WRITE, type_id, schema, value, &mut key);
            return self.outcome_filters(change).is_some()
                || change.values.iter().all(|keyed| keyed.value.as_bytes().is_some_and(&mut may));
        }
        let may = match change.operation {
            ChangeOperation::Add => at.may_join(type_id),
            ChangeOperation::Delete => at.may_leave(type_id),
            _ => false,
        };
        let Some(own) = rights.own().filter(|_| may) else { return false };
        let is_own = |keyed: &KeyedValue| matches!(keyed.value, record::Value::Link(id) if id == own);
        change.values.len() > 0 && change.values.iter().all(is_own)
    }

    /// Returns the filters on the values that the requester may write. Returns `None` if the requester may write all
    /// values, or if the request names all values that it changes.
    fn outcome_filters(&self, change: &ReadChange<'_>) -> Option<&Arc<ByValue>> {
        let names_all = match change.operation {
            ChangeOperation::Add => true,
            ChangeOperation::Delete => change.values.len() > 0,
            ChangeOperation::Replace | ChangeOperation::Increment => false,
        };
        if names_all { None } else { self.at.over_values(WRITE, change.description.type_id) }
    }

    /// Applies a change for which [`outcome_filters`](Self::outcome_filters) returned filters. Refuses the change if
    /// it removes or adds a value that the requester may not write. A request may name an unchanged value only if the
    /// requester may read the value. Otherwise the response would reveal whether the value exists.
    fn carry_out(
        &self,
        entry: &mut WorkingEntry<'_>,
        change: &ReadChange<'_>,
        is_lenient: bool,
        view: &ByValue,
    ) -> Result<()> {
        let (schema, description) = (&*self.state.catalog.schema, &change.description);
        let type_id = description.type_id;
        if entry.value_count(description)?.max(change.values.len()) > VALUES_COMPARED_MAX {
            let why = format!(
                " so: it has more than {VALUES_COMPARED_MAX} values, and you may write only some: name those to be \
                 added and deleted"
            );
            return self.refuse(change, &why);
        }
        let before: BTreeSet<Vec<u8>> = entry.values(description)?.into_iter().collect();
        carry_out(schema, entry, change, is_lenient)?;
        let after: BTreeSet<Vec<u8>> = entry.values(description)?.into_iter().collect();
        let mut key = Vec::new();
        let mut may = |right, value: &[u8]| view.allows(right, type_id, schema, value, &mut key);
        let reads_all = self.at.may_read(type_id);
        let takes_other = before.difference(&after).any(|value| !may(WRITE, value));
        let brings_other = after
            .iter()
            .any(|value| !may(WRITE, value) && !(before.contains(value) && (reads_all || may(READ, value))));
        match takes_other || brings_other {
            true => self.refuse(change, " so: you may write only some of its values"),
            false => Ok(()),
        }
    }
}

/// Changes the stored password of the administrator, who has no entry.
fn administrator_password(deciding: Deciding<'_>, changes: &[ReadChange<'_>]) -> Result<Record> {
    let schema = &*deciding.state.catalog.schema;
    let mut values = match changes {
        [ReadChange { operation: ChangeOperation::Replace, description, values, .. }]
            if is_user_password(schema, description.type_id) && description.options.is_empty() =>
        {
            values.iter()
        }
        _ => return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, ONLY_THE_PASSWORD)),
    };
    let (Some(KeyedValue { value: Value::Bytes(stored), .. }), None) = (values.next(), values.next()) else {
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, ONLY_THE_PASSWORD));
    };
    let change = record::Change::Administrator { stored: stored.clone() };
    Ok(deciding.record(Allocations::new(deciding.state.catalog), change))
}

const ONLY_THE_PASSWORD: &str = "of the administrator, who has no entry, only userPassword can be changed: \
 replace it by one value, without the old one";

fn read_change<'r>(deciding: Deciding<'_>, change: Change<'r>) -> Result<ReadChange<'r>> {
    let schema = &*deciding.state.catalog.schema;
    let ldap::PartialAttribute { description: text, values } = change.attribute;
    let (description, until) = value_ends::without_end(deciding, read_description(schema, text)?)?;
    let attribute_type = schema.type_by_id(description.type_id);
    let may_name_end = match change.operation {
        ChangeOperation::Add => true,
        ChangeOperation::Delete => !values.is_empty(),
        ChangeOperation::Replace | ChangeOperation::Increment => false,
    };
    if until.is_some() && !may_name_end {
        let what = format!("{text}: name values with their end to add or delete them one by one");
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, what));
    }
    relaxed::check_attribute(&deciding, &description, false)?;
    if matches!(change.operation, ChangeOperation::Add | ChangeOperation::Replace) && !values.is_empty() {
        check_options(schema, &description)?;
    }
    let protocol_error =
        |what: &str| Err(OperationError::refused(ResultCode::PROTOCOL_ERROR, format!("{text}: {what}")));
    let values = match change.operation {
        ChangeOperation::Add if values.is_empty() => {
            return protocol_error("an add needs at least one value");
        }
        ChangeOperation::Add | ChangeOperation::Replace => read_values(deciding, None, &description, values)?,
        ChangeOperation::Delete => values_to_find(deciding, &description, values)?,
        ChangeOperation::Increment if values.len() != 1 => {
            return protocol_error("an increment takes exactly one value (RFC 4525 section 2)");
        }
        ChangeOperation::Increment if schema.syntax_by_id(attribute_type.syntax).oid != INTEGER_SYNTAX => {
            return Err(OperationError::refused(
                ResultCode::CONSTRAINT_VIOLATION,
                format!("{text}: only integers can be incremented"),
            ));
        }
        ChangeOperation::Increment => values_to_find(deciding, &description, values)?,
    };
    Ok(ReadChange { operation: change.operation, text, description, values, until })
}

/// Reads the values that a delete names. Ignores repeated values. Replaces clear passwords by the stored forms that
/// the clear passwords match.
fn values_to_find(
    deciding: Deciding<'_>,
    description: &AttributeDescription,
    values: Values<'_>,
) -> Result<ValueList> {
    let Deciding { state, stamp, .. } = deciding;
    let is_password = is_user_password(&state.catalog.schema, description.type_id);
    let mut found = ValueList::default();
    for (place, bytes) in values.iter().enumerate() {
        let bytes = if is_password { deleted_form(stamp, bytes) } else { bytes };
        found.insert(read_value(&state, None, description, place + 1, bytes)?);
    }
    Ok(found)
}

/// Applies a change. With `is_lenient`, adding an existing value and deleting a missing value succeed.
fn carry_out(
    schema: &Schema,
    entry: &mut WorkingEntry<'_>,
    change: &ReadChange<'_>,
    is_lenient: bool,
) -> Result<()> {
    let ReadChange { operation, text, description, values, until } = change;
    // An add with an end time may name existing values. The add then changes the end times of these values.
    let is_lenient = is_lenient || (until.is_some() && *operation == ChangeOperation::Add);
    let no_such = |what: String| OperationError::refused(ResultCode::NO_SUCH_ATTRIBUTE, what);
    match operation {
        ChangeOperation::Add => {
            for (place, value) in values.iter().enumerate() {
                if !entry.add(description, value.clone())? && !is_lenient {
                    return Err(OperationError::refused(
                        ResultCode::ATTRIBUTE_OR_VALUE_EXISTS,
                        format!("{text}: the entry already has value {} of the add", place + 1),
                    ));
                }
            }
        }
        ChangeOperation::Replace => {
            entry.clear(description)?;
            for value in values.iter() {
                entry.add(description, value.clone())?;
            }
        }
        ChangeOperation::Delete if entry.value_count(description)? == 0 && !is_lenient => {
            return Err(no_such(format!("{text}: the entry does not have this attribute")));
        }
        ChangeOperation::Delete if values.len() == 0 => entry.clear(description)?,
        ChangeOperation::Delete => {
            for (place, value) in values.iter().enumerate() {
                if !entry.remove(description, &value.key)? && !is_lenient {
                    let place = place + 1;
                    return Err(no_such(format!(
                        "{text}: the entry does not have value {place} of the delete"
                    )));
                }
            }
        }
        ChangeOperation::Increment => increment(schema, entry, change)?,
    }
    Ok(())
}

/// Adds a number to every value of an attribute.
fn increment(schema: &Schema, entry: &mut WorkingEntry<'_>, change: &ReadChange<'_>) -> Result<()> {
    let ReadChange { text, description, values, .. } = change;
    let too_large = || {
        let diagnostic = format!("{text}: numbers beyond 128 bits cannot be incremented");
        OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, diagnostic)
    };
    let number = |bytes: &[u8]| -> Result<i128> {
        std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or_else(too_large)
    };
    let Some(step) = values.iter().find_map(|keyed| keyed.value.as_bytes()) else { return Ok(()) };
    let step = number(step)?;
    let before = entry.values(description)?;
    if before.is_empty() {
        return Err(OperationError::refused(
            ResultCode::NO_SUCH_ATTRIBUTE,
            format!("{text}: the entry does not have this attribute, so there is nothing to increment"),
        ));
    }
    entry.clear(description)?;
    for value in before {
        let sum = number(&value)?.checked_add(step).ok_or_else(too_large)?.to_string().into_bytes();
        let attribute_type = schema.type_by_id(description.type_id);
        let key = crate::write::given_values::normal_value(schema, attribute_type, &sum)
            .map_err(|_| too_large())?;
        entry.add(description, KeyedValue { key, value: record::Value::Bytes(sum) })?;
    }
    Ok(())
}

/// Checks that the entry has all values of its RDN. `given` is the DN in the request.
fn check_naming(
    state: TreeState<'_>,
    entry: &mut WorkingEntry<'_>,
    given: &Dn<'_>,
    target: &Target,
) -> Result<()> {
    let schema = &*state.catalog.schema;
    let types = given.rdn().into_iter().flat_map(|rdn| rdn.avas);
    let mut types = types.filter_map(|ava| schema.attribute_type(ava.attribute));
    // Most modifies change no naming attribute. The DN in the request suffices for this check, because its RDN has the
    // same attribute types as the RDN of the entry.
    if !types.any(|attribute_type| entry.has_touched(attribute_type.id)) {
        return Ok(());
    }
    let dn = Dn::parse(&target.dn).map_err(|_| damaged_row("nodes", target.id))?;
    for naming in naming_values(&state.catalog.schema, &dn)? {
        if !entry.contains(&naming.description, &naming.value.key)? {
            let name = schema.type_by_id(naming.description.type_id).name();
            return Err(OperationError::refused(
                ResultCode::NOT_ALLOWED_ON_RDN,
                format!("a value of {name} is part of the entry's name: rename the entry to change it"),
            ));
        }
    }
    Ok(())
}

/// Returns the classes of the entry after the changes, and checks that these classes may replace the former classes.
fn check_classes<'s>(
    Deciding { state, controls, .. }: Deciding<'s>,
    entry: &mut WorkingEntry<'_>,
    target: &Target,
    changes: &[ReadChange<'_>],
) -> Result<Cow<'s, ClassSet>> {
    let schema = &*state.catalog.schema;
    let node = state.node(target.id)?.ok_or_else(|| damaged_row("nodes", target.id))?;
    let before = state.catalog.class_set(node.class_set);
    let object_class = object_class_type(schema)?;
    if !entry.has_touched(object_class) {
        return Ok(Cow::Borrowed(before));
    }
    let values = entry.values(&AttributeDescription::of(object_class))?;
    let after = read_classes(schema, values.iter().map(Vec::as_slice))?;
    match controls.relaxes_rules() {
        true => relaxed::check_same_kind(before, &after)?,
        false => check_same_structural(schema, before, &after)?,
    }
    dynamic_entries::check_same_lifetime(before, &after)?;
    let deletes = changes.iter().filter(|change| {
        change.operation == ChangeOperation::Delete && change.description.type_id == object_class
    });
    let deleted = deletes.flat_map(|change| change.values.iter()).filter_map(|keyed| class_of(schema, keyed));
    for class in deleted {
        if after.closure.contains(&class) && !after.classes.contains(&class) {
            let name = schema.class_by_id(class).name();
            return Err(OperationError::refused(
                ResultCode::OBJECT_CLASS_MODS_PROHIBITED,
                format!(
                    "{name} is a superclass of a class that the entry keeps, so it must stay (RFC 4512 section 3.3)"
                ),
            ));
        }
    }
    Ok(Cow::Owned(after))
}

fn class_of(schema: &Schema, value: &KeyedValue) -> Option<ClassId> {
    let name = std::str::from_utf8(value.value.as_bytes()?).ok()?;
    schema.object_class(name).map(|class| class.id)
}

#[cfg(test)]
mod tests;
