//! Add (RFC 4511 section 4.7).
//!
//! The values of an attribute that occurs several times in the request are combined. Values of the RDN that the entry
//! lacks are added, as on other servers. A single-valued naming attribute has only the value in the RDN. Naming
//! attributes must satisfy the schema like other attributes. Operational attributes and links cannot name an entry,
//! because the server may change them without a request for the entry. Passwords cannot name an entry, because a
//! password must not appear in a DN.
//!
//! As in slapd, the entry's content is checked before its place in the tree.

use ldap::{AddRequest, Dn, ResultCode};
use schema::{AttributeDescription, AttributeType, Schema};

use crate::access::{self, EffectiveRights};
use crate::catalog::{
    Allocations, Catalog, check_options, is_link_type, is_user_password, last_entry_id, read_description,
};
use crate::filter::InMemory;
use crate::model::name::{NormalName, parse_dn, render_dn, render_rdn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Add, Change, Record, Value};
use crate::model::rows::EntryId;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::read::search::check_assertion_in_memory;
use crate::tree::referral::referral;
use crate::tree::target::{check_depth, check_not_virtual, entry_dn, missing};
use crate::tree::{Found, TreeState};
use crate::write::collective;
use crate::write::deciding::Deciding;
use crate::write::dynamic_entries;
use crate::write::given_values::{AddedEntry, check_value, given_twice, only_value, read_values};
use crate::write::new_entry::NewEntry;
use crate::write::password_rules;
use crate::write::permitted;
use crate::write::relaxed;
use crate::write::schema_check::{check_attributes, object_class_type, read_classes};
use crate::write::value_ends::{self, ValueEnds};
use crate::write::working_entry::check_attribute_count;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks an add request. Returns the record of its effect.
pub(crate) fn decide(deciding: Deciding<'_>, request: &AddRequest<'_>) -> Result<Record> {
    let Deciding { state, context, controls, .. } = deciding;
    let schema = &*state.catalog.schema;
    let dn = parse_dn(request.entry)?;
    let rights = &permitted::tree_writer(state, context)?;
    relaxed::check_use(controls, rights)?;
    let name = NormalName::of(&dn, schema);
    check_not_virtual(state, &dn, &name, ResultCode::ENTRY_ALREADY_EXISTS)?;
    if name.failure.is_some()
        && let Found::Missing { nearest } = state.find(&name)?
    {
        return rights.permitted(state, request.entry, Err(missing(state, &dn, &name, nearest)?));
    }
    if rights.is_restricted() {
        check_permitted(state, rights, request, &dn, place_of(state, &name)?)?;
    }
    if controls.assertion().is_some() {
        let values = given_values(schema, request, &dn);
        check_assertion_in_memory(state.catalog, rights, controls, &in_memory(request, &values))?;
    }
    let newcomer = AddedEntry { id: EntryId(last_entry_id(state.read)?.0 + 1), name: &name };
    let (mut entry, mut ends) = (NewEntry::new(state.catalog), ValueEnds::default());
    add_given(deciding, &newcomer, (&mut entry, &mut ends), request)?;
    for ava in new_naming_values(state.catalog, &dn)? {
        add_naming(&mut entry, ava, schema)?;
    }
    let class_set =
        read_classes(schema, entry.values(&AttributeDescription::of(object_class_type(schema)?)))?;
    check_attributes(schema, &class_set, &entry.present())?;
    password_rules::check_policy_entry(state.catalog, &class_set, |description| {
        Ok(entry.values(description).map(<[u8]>::to_vec).collect())
    })?;
    if class_set.is_collective {
        let checked = collective::checked(state.catalog, &entry.present());
        collective::check(state.catalog, &checked, |of| Ok(entry.values(of).map(<[u8]>::to_vec).collect()))?;
    }
    let place = find_place(deciding, rights, &dn, &name)?;
    if !controls.follows_source() {
        password_rules::added(&deciding, &mut entry, place.parent)?;
    }
    dynamic_entries::added(&deciding, &mut entry, &class_set, place.parent)?;
    if controls.relaxes_rules() {
        relaxed::stamp_new(&deciding, &mut entry)?;
    } else {
        for (description, value) in deciding.creation().chain(deciding.change()) {
            entry.set(description, value);
        }
    }
    let mut allocations = Allocations::new(state.catalog);
    let ends = ends.into_changes(&mut allocations);
    let add = Add {
        id: newcomer.id,
        parent: place.parent,
        rdn: place.rdn,
        dn: place.dn,
        class_set: allocations.class_set(&class_set.classes),
        flags: class_set.flags,
        values: entry.into_values(&mut allocations),
        ends,
    };
    Ok(deciding.record(allocations, Change::Add(add)))
}

/// Checks that the requester may add this entry at this place.
fn check_permitted(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    request: &AddRequest<'_>,
    dn: &Dn<'_>,
    place: (Option<EntryId>, Option<EntryId>),
) -> Result<()> {
    if !rights.has_entry_filters() {
        return permitted::check_new(state, rights, request.entry, place, access::NewEntryFacts::Unknown);
    }
    let values = given_values(&state.catalog.schema, request, dn);
    let given = in_memory(request, &values);
    permitted::check_new(state, rights, request.entry, place, access::NewEntryFacts::Given(&given))
}

/// Returns all values that a request gives an entry, including the values of its RDN. Omits attributes that the schema
/// does not define: later checks refuse the request because of such attributes, but only if the requester may add the
/// entry.
fn given_values(
    schema: &Schema,
    request: &AddRequest<'_>,
    dn: &Dn<'_>,
) -> Vec<(AttributeDescription, Vec<Vec<u8>>)> {
    let read = |name| schema.parse_description(name).ok();
    let given = request.attributes.iter().filter_map(|attribute| {
        Some((read(attribute.description)?, attribute.values.iter().map(<[u8]>::to_vec).collect()))
    });
    let naming = dn
        .rdn()
        .into_iter()
        .flat_map(|rdn| rdn.avas)
        .filter_map(|ava| Some((read(ava.attribute)?, vec![ava.value.as_ref().to_vec()])));
    given.chain(naming).collect()
}

fn in_memory<'e>(
    request: &AddRequest<'e>,
    values: &'e [(AttributeDescription, Vec<Vec<u8>>)],
) -> InMemory<'e> {
    let attributes = values.iter().map(|(description, values)| (description.clone(), values.as_slice()));
    InMemory { dn: request.entry, attributes: attributes.collect() }
}

/// Adds the attributes of the request to the entry.
fn add_given(
    deciding: Deciding<'_>,
    newcomer: &AddedEntry<'_>,
    (entry, ends): (&mut NewEntry<'_>, &mut ValueEnds),
    request: &AddRequest<'_>,
) -> Result<()> {
    let schema = &*deciding.state.catalog.schema;
    for attribute in request.attributes.iter() {
        let description = read_description(schema, attribute.description)?;
        let (description, until) = value_ends::without_end(deciding, description)?;
        relaxed::check_attribute(&deciding, &description, true)?;
        check_options(schema, &description)?;
        if attribute.values.is_empty() {
            return Err(OperationError::refused(
                ResultCode::PROTOCOL_ERROR,
                format!("{} has no values: an added attribute needs at least one", attribute.description),
            ));
        }
        check_attribute_count(entry.len())?;
        if !entry.has(&description)
            && let Some(value) = only_value(deciding.state, &description, attribute.values)?
        {
            entry.add_only(description, value.to_vec());
            continue;
        }
        let values = read_values(deciding, Some(newcomer), &description, attribute.values)?;
        if let Some(until) = until {
            ends.give_new(&description, &values, until)?;
        }
        if let Some(place) = entry.add_all(description, values) {
            return Err(given_twice(attribute.description, place + 1));
        }
    }
    Ok(())
}

/// A value in an RDN.
pub(crate) struct NamingValue {
    /// Attribute type, without options.
    pub(crate) description: AttributeDescription,
    /// The value.
    pub(crate) value: KeyedValue,
}

/// Like [`naming_values`], for a name that a request gives to an entry. Also refuses secret attributes, because every
/// name is visible.
///
/// # Errors
/// See [`naming_values`]; also namingViolation for a secret.
pub(crate) fn new_naming_values(catalog: &Catalog, dn: &Dn<'_>) -> Result<Vec<NamingValue>> {
    let values = naming_values(&catalog.schema, dn)?;
    match values.iter().map(|value| value.description.type_id).find(|id| catalog.secrets.has(*id)) {
        None => Ok(values),
        Some(secret) => {
            let name = catalog.schema.type_by_id(secret).name();
            let text = format!("{name} is a secret and cannot name an entry");
            Err(OperationError::refused(ResultCode::NAMING_VIOLATION, text))
        }
    }
}

/// Returns the values of the first RDN in an entry's DN.
///
/// # Errors
/// invalidDNSyntax for a type that is not defined, or for a value that its syntax does not allow (RFC 4511 section
/// 4.1.9); namingViolation for an attribute that cannot name an entry.
pub(crate) fn naming_values(schema: &Schema, dn: &Dn<'_>) -> Result<Vec<NamingValue>> {
    let mut values = Vec::new();
    for ava in dn.rdn().iter().flat_map(|rdn| rdn.avas) {
        let invalid = |reason: String| {
            OperationError::refused(ResultCode::INVALID_DN_SYNTAX, format!("{}: {reason}", Quoted(dn.text())))
        };
        let Some(attribute_type) = schema.attribute_type(ava.attribute) else {
            return Err(invalid(format!(
                "attribute type {:?} is not defined in the schema",
                ldap::Excerpt(ava.attribute)
            )));
        };
        let is_unstable = attribute_type.no_user_modification
            || attribute_type.is_operational()
            || is_link_type(attribute_type);
        if is_unstable || is_user_password(schema, attribute_type.id) {
            return Err(OperationError::refused(
                ResultCode::NAMING_VIOLATION,
                format!("{} cannot name an entry", attribute_type.name()),
            ));
        }
        let description = AttributeDescription::of(attribute_type.id);
        let mut key = Vec::with_capacity(ava.value.len() + 8);
        check_value(schema, &description, 1, &ava.value, &mut key).map_err(|error| match error {
            OperationError::Refused { diagnostic, .. } => invalid(diagnostic),
            other => other,
        })?;
        let value = Value::Bytes(ava.value.to_vec());
        values.push(NamingValue { description, value: KeyedValue { key, value } });
    }
    Ok(values)
}

fn add_naming(entry: &mut NewEntry<'_>, naming: NamingValue, schema: &Schema) -> Result<()> {
    let NamingValue { description, value } = naming;
    let Some(values) = entry.values_mut(&description) else {
        let mut values = ValueList::with_capacity(1);
        values.insert(value);
        entry.add_all(description, values);
        return Ok(());
    };
    let attribute_type = schema.type_by_id(description.type_id);
    if !values.contains(&value.key) && attribute_type.single_value {
        return Err(contradicts_name(attribute_type));
    }
    values.insert(value);
    Ok(())
}

/// Returns the error for a single-valued attribute whose value differs from the value in the RDN.
pub(crate) fn contradicts_name(attribute_type: &AttributeType) -> OperationError {
    OperationError::refused(
        ResultCode::NAMING_VIOLATION,
        format!(
            "{} is single-valued, and the request gives it another value than the name",
            attribute_type.name()
        ),
    )
}

/// Place of a new entry in the tree.
struct NewEntryPlace {
    parent: EntryId,
    rdn: String,
    dn: String,
}

/// Returns the parent that an entry with this name has or would have, if the parent exists. Also returns the nearest
/// existing superior of the name, if there is one.
fn place_of(state: TreeState<'_>, name: &NormalName) -> Result<(Option<EntryId>, Option<EntryId>)> {
    let suffix = state.catalog.suffix_above(&name.key);
    if suffix.is_some_and(|suffix| suffix.key == name.key) {
        return Ok((Some(EntryId::ROOT), None));
    }
    Ok(match state.find(name)? {
        Found::Entry(id, _) => {
            let parent = state.node(id)?.map(|node| node.parent);
            (parent, parent)
        }
        Found::Missing { nearest: Some((id, _, depth)) } => {
            ((depth + 1 == name.depth()).then_some(id), Some(id))
        }
        Found::Missing { nearest: None } => (None, None),
    })
}

fn find_place(
    deciding: Deciding<'_>,
    rights: &EffectiveRights,
    dn: &Dn<'_>,
    name: &NormalName,
) -> Result<NewEntryPlace> {
    let Deciding { state, controls, .. } = deciding;
    let schema = &*state.catalog.schema;
    let Some(suffix) = state.catalog.suffix_above(&name.key) else {
        return Err(missing(state, dn, name, None)?);
    };
    let nearest = match state.find(name)? {
        Found::Entry(id, flags)
            if flags.is_referral() && !controls.manage_dsa_it && rights.may_browse(state, id)? =>
        {
            return Err(referral(state, id, "", None)?);
        }
        Found::Entry(id, _) => {
            return Err(permitted::name_exists(state, rights, id, || dn.text().to_owned())?);
        }
        Found::Missing { nearest } => nearest,
    };
    if name.key == suffix.key {
        let dn = render_dn(schema, dn);
        return Ok(NewEntryPlace { parent: EntryId::ROOT, rdn: dn.clone(), dn });
    }
    let parent_depth = name.depth() - 1;
    let Some((parent, _, _)) =
        nearest.filter(|(_, flags, depth)| *depth == parent_depth && !flags.is_referral())
    else {
        return rights.permitted(state, dn.text(), Err(missing(state, dn, name, nearest)?));
    };
    if let Err(error) = check_superior(state, parent) {
        // If the requester may not see the parent, the error must not reveal that the parent is an alias or a subentry.
        rights.at_visible(state, parent, dn.text())?;
        return Err(error);
    }
    check_depth(name.depth(), suffix.rdn_count)?;
    let mut rdn = String::with_capacity(48);
    if let Some(own) = dn.rdn() {
        render_rdn(schema, &own, &mut rdn);
    }
    let dn = [rdn.as_str(), ",", entry_dn(state, parent)?.as_str()].concat();
    Ok(NewEntryPlace { parent, rdn, dn })
}

/// Checks that an entry can have subordinates.
///
/// # Errors
/// aliasProblem below an alias (RFC 4512 section 2.6), objectClassViolation below a subentry (RFC 3672 section 2).
pub(crate) fn check_superior(state: TreeState<'_>, superior: EntryId) -> Result<()> {
    let Some(node) = state.node(superior)? else { return Ok(()) };
    let dn = || entry_dn(state, superior);
    if node.flags.is_alias() {
        let diagnostic = format!("{} is an alias, and nothing is below an alias", Quoted(dn()?));
        return Err(OperationError::Alias { code: ResultCode::ALIAS_PROBLEM, matched_dn: dn()?, diagnostic });
    }
    if node.flags.is_subentry() {
        return Err(OperationError::refused(
            ResultCode::OBJECT_CLASS_VIOLATION,
            format!("{} is a subentry, and nothing is below a subentry", Quoted(dn()?)),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
