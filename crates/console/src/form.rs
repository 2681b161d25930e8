//! Forms for the attributes of an entry. A form is made from the schema. A completed form is converted to changes of
//! the entry.

use std::collections::{BTreeSet, HashMap, HashSet};

use ldap::ldif::LdifWriter;
use ldap::{ChangeOperation, ChangesBuf, filter_value};
use schema::{Schema, TypeId};
use serde_json::{Value, json};

use crate::describe::{input_of, type_of};
use crate::fields::Fields;
use crate::page_error::PageError;
use crate::requests::{self, Values, WholeEntry};

/// Prefix of the names of form fields that contain attribute values.
const VALUE: &str = "v:";

/// Attributes that a form never changes. The object classes determine the form, and the password has its own page.
const NEVER: [&str; 2] = ["objectClass", "userPassword"];

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) operation: ChangeOperation,
    pub(crate) description: String,
    pub(crate) values: Vec<Vec<u8>>,
}

/// Returns the model of a form. The model has an input for each attribute that can be edited as text, if the classes
/// require or allow the attribute or the entry contains it.
pub(crate) fn inputs(schema: &Schema, classes: &[String], present: &[Values]) -> Vec<Value> {
    let (must, may) = allowed(schema, classes);
    let has = |name: &str| present.iter().find(|values| values.description.eq_ignore_ascii_case(name));
    let mut inputs = Vec::new();
    for (types, is_required) in [(&must, true), (&may, false)] {
        for id in types {
            let found = schema.type_by_id(*id);
            // The entry may contain the attribute under another name of the attribute type.
            let values = found.names.iter().find_map(|name| has(name));
            inputs.extend(input(schema, found.name(), is_required, values));
        }
    }
    for values in present {
        let id = type_of(schema, &values.description).map(|found| found.id);
        let is_plain = !values.description.contains(';');
        let is_listed = is_plain && id.is_some_and(|id| must.contains(&id) || may.contains(&id));
        if !is_listed {
            inputs.extend(input(schema, &values.description, false, Some(values)));
        }
    }
    // Required attributes are first, then attributes with values, then all other attributes. Within each group,
    // attributes are sorted by name.
    inputs.sort_by_key(|input| {
        let is_required = input["required"] == true;
        let is_empty = input["values"].as_array().is_none_or(Vec::is_empty) && !is_required;
        (!is_required, is_empty, input["name"].as_str().unwrap_or_default().to_ascii_lowercase())
    });
    inputs
}

/// Returns the attributes that the classes require, and the attributes that they allow.
fn allowed(schema: &Schema, classes: &[String]) -> (BTreeSet<TypeId>, BTreeSet<TypeId>) {
    let definitions: Vec<_> = classes.iter().filter_map(|class| schema.object_class(class)).collect();
    let must: BTreeSet<TypeId> =
        definitions.iter().flat_map(|class| class.all_must.iter().copied()).collect();
    let may = definitions.iter().flat_map(|class| class.all_may.iter().copied());
    let may = may.filter(|id| !must.contains(id)).collect();
    (must, may)
}

/// Returns the model of an input. Returns `None` if the attribute cannot be edited as text or has too many values.
fn input(schema: &Schema, description: &str, is_required: bool, values: Option<&Values>) -> Option<Value> {
    let kind = input_of(schema, description);
    let is_never = NEVER.iter().any(|never| never.eq_ignore_ascii_case(description));
    let found = type_of(schema, description);
    if kind == "none" || is_never || found.is_some_and(|found| found.is_operational() || found.collective) {
        return None;
    }
    if values.is_some_and(|values| values.next.is_some()) {
        return None;
    }
    let octets = values.map(|values| values.values.as_slice()).unwrap_or_default();
    let texts: Option<Vec<&str>> = octets.iter().map(|value| std::str::from_utf8(value).ok()).collect();
    Some(json!({
        "name": description,
        "kind": kind,
        "required": is_required,
        "single": found.is_some_and(|found| found.single_value),
        "description": found.and_then(|found| found.description.as_deref()),
        "values": texts?,
    }))
}

/// Returns the attribute values in a completed form, in the order of the form. Empty inputs are ignored.
pub(crate) fn filled(fields: &Fields) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut filled: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    let (mut places, mut seen) = (HashMap::new(), HashSet::new());
    for (name, text) in fields.pairs() {
        let Some(description) = name.strip_prefix(VALUE) else { continue };
        let place = *places.entry(description.to_ascii_lowercase()).or_insert_with(|| {
            filled.push((description.to_owned(), Vec::new()));
            filled.len() - 1
        });
        let value = plain_lines(text).into_bytes();
        if let Some((_, values)) = filled.get_mut(place)
            && !value.is_empty()
            && seen.insert((place, value.clone()))
        {
            values.push(value);
        }
    }
    filled
}

/// The attribute values in a completed form.
pub(crate) type Filled = Vec<(String, Vec<Vec<u8>>)>;

/// Converts each value that is not a DN, in attributes with DN syntax, to the DN that `resolve` returns for it.
pub(crate) fn resolved<E>(
    schema: &Schema,
    mut filled: Filled,
    mut resolve: impl FnMut(&str) -> Result<String, E>,
) -> Result<Filled, E> {
    let named = filled.iter_mut().filter(|(description, _)| input_of(schema, description) == "dn");
    for value in named.flat_map(|(_, values)| values) {
        let text = String::from_utf8_lossy(value);
        let dn = schema::split_name_and_uid(text.as_bytes()).0;
        if !std::str::from_utf8(dn).is_ok_and(|dn| dn.contains('=') && ldap::Dn::parse(dn).is_ok()) {
            *value = resolve(text.trim())?.into_bytes();
        }
    }
    Ok(filled)
}

/// Returns the form fields that contain these values. A page that asks for confirmation contains these fields, so the
/// user confirms exactly the values that were shown.
pub(crate) fn fields_of(filled: &[(String, Vec<Vec<u8>>)]) -> Vec<(String, String)> {
    let field = |description: &str, value: &[u8]| {
        (format!("{VALUE}{description}"), String::from_utf8_lossy(value).into_owned())
    };
    let fields = filled.iter().flat_map(|(description, values)| {
        let none = values.is_empty().then(|| field(description, b""));
        none.into_iter().chain(values.iter().map(move |value| field(description, value)))
    });
    fields.collect()
}

/// Converts line ends from CR LF, which browsers send, to LF.
fn plain_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Returns the changes after which the entry has the values of the form. Attributes that the form does not contain are
/// not changed.
pub(crate) fn changes(schema: &Schema, entry: &WholeEntry, filled: &[(String, Vec<Vec<u8>>)]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (description, new) in filled {
        let is_it = |values: &&Values| is_same(schema, &values.description, description);
        let found = entry.attributes.iter().find(is_it);
        if input(schema, description, false, found).is_none() {
            continue;
        }
        let old = found.map(|values| values.values.as_slice()).unwrap_or_default();
        let text = |value: &Vec<u8>| plain_lines(&String::from_utf8_lossy(value));
        let [before, after] =
            [old, new.as_slice()].map(|values| values.iter().map(text).collect::<HashSet<_>>());
        let removed: Vec<_> = old.iter().filter(|value| !after.contains(&text(value))).cloned().collect();
        let added: Vec<_> = new.iter().filter(|value| !before.contains(&text(value))).cloned().collect();
        let mut push = |operation, values: Vec<Vec<u8>>| {
            changes.push(Change { operation, description: description.clone(), values });
        };
        let can_match = type_of(schema, description).is_some_and(|found| found.equality.is_some());
        match (removed.is_empty(), added.is_empty()) {
            (true, true) => {}
            (true, false) if old.is_empty() || can_match => push(ChangeOperation::Add, added),
            (false, true) if new.is_empty() => push(ChangeOperation::Delete, Vec::new()),
            (false, true) if can_match => push(ChangeOperation::Delete, removed),
            (false, false) if can_match => {
                push(ChangeOperation::Delete, removed);
                push(ChangeOperation::Add, added);
            }
            _ => push(ChangeOperation::Replace, new.clone()),
        }
    }
    changes
}

/// Returns true if both descriptions denote the same attribute. An attribute may have several names.
fn is_same(schema: &Schema, one: &str, other: &str) -> bool {
    let options = |text: &str| text.split_once(';').map(|(_, options)| options.to_ascii_lowercase());
    let id = |text: &str| type_of(schema, text).map(|found| found.id);
    one.eq_ignore_ascii_case(other)
        || (id(one).is_some() && id(one) == id(other) && options(one) == options(other))
}

/// Converts the changes to the changes of a Modify request.
pub(crate) fn request_changes(changes: &[Change]) -> ChangesBuf {
    let mut list = ChangesBuf::new();
    for Change { operation, description, values } in changes {
        list.push(*operation, description, values.iter().map(Vec::as_slice));
    }
    list
}

/// Returns the changes as the text of an LDIF record.
pub(crate) fn ldif(dn: &str, changes: &[Change]) -> String {
    let mut text = Vec::new();
    let list = changes.iter().map(|change| {
        (
            change.operation,
            change.description.as_str(),
            change.values.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        )
    });
    // Writing to memory cannot fail.
    let _ = LdifWriter::new(&mut text).modify(dn, &[], list);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the value of an assertion control that requires that the entry still has this CSN. Returns `None` if no CSN
/// is known.
pub(crate) fn unchanged_since(csn: Option<&str>) -> Result<Option<Vec<u8>>, PageError> {
    csn.map(|csn| requests::assertion(&format!("(entryCSN={})", filter_value(csn)))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pairs: &[(&str, &[&str])]) -> WholeEntry {
        let attributes = pairs.iter().map(|(description, values)| Values {
            description: (*description).to_owned(),
            values: values.iter().map(|value| value.as_bytes().to_vec()).collect(),
            next: None,
        });
        WholeEntry { dn: "cn=a".to_owned(), attributes: attributes.collect() }
    }

    fn changes_of(entry: &WholeEntry, pairs: &[(&str, &str)]) -> Vec<(ChangeOperation, String, Vec<String>)> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let fields = Fields::of(pairs.collect());
        let changes = changes(&Schema::shipped(), entry, &filled(&fields));
        let text = |values: Vec<Vec<u8>>| {
            values.into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
        };
        changes
            .into_iter()
            .map(|change| (change.operation, change.description, text(change.values)))
            .collect()
    }

    #[test]
    fn a_form_changes_only_values_that_differ() {
        use ChangeOperation::{Add, Delete};
        let entry = entry(&[("cn", &["Anna", "Anna B"]), ("mail", &["a@b"]), ("description", &["one\ntwo"])]);
        let same = [("v:cn", "Anna"), ("v:cn", "Anna B"), ("v:cn", ""), ("v:description", "one\r\ntwo")];
        assert_eq!(changes_of(&entry, &same), []);
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let changes = changes_of(
            &entry,
            &[("v:cn", "Anna"), ("v:cn", "Bea"), ("v:mail", ""), ("v:title", "Dr"), ("v:title", "Dr")],
        );
        let expected = [
            (Delete, "cn".to_owned(), own(&["Anna B"])),
            (Add, "cn".to_owned(), own(&["Bea"])),
            (Delete, "mail".to_owned(), own(&[])),
            (Add, "title".to_owned(), own(&["Dr"])),
        ];
        assert_eq!(changes, expected);
        for name in
            ["v:objectClass", "v:userPassword", "v:entryUUID", "v:createTimestamp", "v:jpegPhoto", "cn"]
        {
            assert_eq!(changes_of(&entry, &[(name, "x")]), [], "{name}");
        }
    }

    /// Regression test: comparing each value with every other value took minutes, because the body of a form can
    /// contain 1 MiB of values.
    #[test]
    fn many_values_are_compared_by_hash() {
        let values: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
        let old: Vec<&str> = values.iter().map(String::as_str).collect();
        let new: Vec<(&str, &str)> = old.iter().skip(1).map(|value| ("v:description", *value)).collect();
        let changes = changes_of(&entry(&[("description", &old)]), &new);
        assert_eq!(changes, [(ChangeOperation::Delete, "description".to_owned(), vec!["0".to_owned()])]);
        let names: Vec<String> = (0..20_000).map(|number| format!("v:x{number}")).collect();
        let fields = names.iter().map(|name| (name.clone(), "a".to_owned())).collect();
        assert_eq!(filled(&Fields::of(fields)).len(), 20_000);
    }

    #[test]
    fn a_form_has_the_attributes_that_the_classes_allow() {
        let schema = Schema::shipped();
        let inputs = inputs(
            &schema,
            &["inetOrgPerson".to_owned()],
            &entry(&[("sn", &["B"]), ("mail", &["a@b"])]).attributes,
        );
        let names: Vec<_> = inputs.iter().map(|input| input["name"].as_str().unwrap()).collect();
        assert_eq!(names[..3], ["cn", "sn", "mail"]);
        assert!(
            names.contains(&"manager") && !names.contains(&"userPassword") && !names.contains(&"jpegPhoto")
        );
        assert_eq!(inputs[1]["values"][0], "B");
        assert_eq!(inputs[0]["required"], true);
    }
}
