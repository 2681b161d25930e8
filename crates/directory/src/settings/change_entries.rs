//! Settings that a request proposes as a change of `cn=config`, of an entry below `cn=config`, or of `cn=subschema`.
//!
//! An add, delete or modify request is applied to the entry in memory. The result is checked against the entry's
//! object class, like other entries, and parsed as settings. The settings then take effect like settings from a
//! settings file. For example, an add defines an index, a modify changes it, and a delete drops it, with one record
//! each.

use ldap::{AddRequest, ChangeOperation, ModifyRequest, Request, ResultCode, Values};
use schema::{AttributeType, Schema};

use super::entries::{ConfigEntry, INDEX_KIND, INDEXES_DN, SCHEMA_DN, SCHEMA_TEXT, SUFFIX, entries};
use super::{DirectorySettings, GENERAL, SettingsError, subschema};
use crate::access::Requester;
use crate::catalog::{VirtualAttribute, check_modifiable, read_description};
use crate::model::index_definition::IndexKinds;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::quoted::Quoted;
use crate::model::virtual_entries::{CONFIG_DN, SUBSCHEMA_DN, VirtualEntry};
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the settings that a request proposes. Returns `None` if the request does not concern `cn=config` or
/// `cn=subschema`, or if the requester is not the administrator.
///
/// # Errors
/// The request itself is faulty.
pub(crate) fn proposal(
    state: TreeState<'_>,
    requester: &Requester,
    request: &Request<'_>,
) -> Result<Option<DirectorySettings>> {
    let (Some(text), true) = (target(request), requester.is_administrator()) else { return Ok(None) };
    // This code runs for every change. The last characters of the DN exclude most requests.
    let tail = text.trim_end().as_bytes();
    let ends_with =
        |word: &[u8; 6]| tail.last_chunk().is_some_and(|end: &[u8; 6]| end.eq_ignore_ascii_case(word));
    let is_subschema = ends_with(b"schema");
    if !is_subschema && !ends_with(b"config") {
        return Ok(None);
    }
    let dn = parse_dn(text)?;
    let schema = &state.catalog.schema;
    let name = NormalName::of(&dn, schema);
    if is_subschema {
        let Request::Modify(request) = request else { return Ok(None) };
        if name.key != key_of(schema, SUBSCHEMA_DN)? {
            return Ok(None);
        }
        let mut settings = DirectorySettings::of(state.catalog);
        subschema::modify(&mut settings, schema, request)?;
        return Ok(Some(settings));
    }
    if state.catalog.suffix_above(&name.key).is_some() || !name.key.starts_with(&key_of(schema, CONFIG_DN)?) {
        return Ok(None);
    }
    let mut settings = DirectorySettings::of(state.catalog);
    let known = entries(&settings);
    let mut found = None;
    for (entry, known) in known {
        if key_of(schema, &known.dn)? == name.key {
            found = Some((entry, known));
        }
    }
    match (request, found) {
        (Request::Add(_), Some(_)) => {
            return Err(refused(
                ResultCode::ENTRY_ALREADY_EXISTS,
                format!("there is an entry {}", Quoted(text)),
            ));
        }
        (Request::Add(request), None) => add(&mut settings, schema, &dn, &name, request)?,
        (_, None) => {
            let what = format!("there is no entry {}", Quoted(text));
            return Err(OperationError::NoSuchObject { matched_dn: CONFIG_DN.to_owned(), what });
        }
        (Request::Delete(_), Some((entry, _))) => delete(&mut settings, &entry)?,
        (Request::Modify(request), Some((entry, known))) => {
            let draft = modify(schema, &entry, known, request)?;
            take(&mut settings, &entry, &draft, schema)?;
        }
        (_, Some(_)) => {
            return Err(unwilling(
                "an entry of cn=config is named after its subject: delete it and add another",
            ));
        }
    }
    Ok(Some(settings))
}

/// Returns the DN of the entry that a request changes.
fn target<'r>(request: &Request<'r>) -> Option<&'r str> {
    match request {
        Request::Add(request) => Some(request.entry),
        Request::Delete(request) => Some(request.entry),
        Request::Modify(request) => Some(request.object),
        Request::ModifyDn(request) => Some(request.entry),
        _ => None,
    }
}

fn refused(code: ResultCode, diagnostic: impl Into<String>) -> OperationError {
    OperationError::refused(code, diagnostic)
}

fn unwilling(diagnostic: &str) -> OperationError {
    refused(ResultCode::UNWILLING_TO_PERFORM, diagnostic)
}

fn key_of(schema: &Schema, dn: &str) -> Result<Vec<u8>> {
    Ok(NormalName::of(&parse_dn(dn)?, schema).key)
}

/// Converts an error of a change of settings to the error for an LDAP client.
pub(crate) fn refusal(error: SettingsError) -> OperationError {
    match error {
        SettingsError::Operation(error) => error,
        SettingsError::Problems(problems) => match problems.into_iter().next() {
            Some(problem) => refused(problem.code, problem.what),
            None => unwilling("the settings are not valid"),
        },
    }
}

/// Converts an error of a change of settings to an outcome.
impl From<SettingsError> for Outcome {
    fn from(error: SettingsError) -> Outcome {
        refusal(error).into()
    }
}

/// An entry in memory to which a request is applied: values by attribute type.
struct Draft<'s> {
    schema: &'s Schema,
    attributes: Vec<(&'s AttributeType, Vec<Vec<u8>>)>,
}

impl<'s> Draft<'s> {
    fn of(schema: &'s Schema, entry: VirtualEntry) -> Draft<'s> {
        let known = |name: &str| schema.attribute_type(name);
        let attributes = entry.attributes.into_iter();
        let attributes = attributes.filter_map(|(name, values)| Some((known(&name)?, values))).collect();
        Draft { schema, attributes }
    }

    fn attribute_type(&self, description: &str) -> Result<&'s AttributeType> {
        let read = read_description(self.schema, description)?;
        let attribute_type = self.schema.type_by_id(read.type_id);
        check_modifiable(attribute_type, VirtualAttribute::of(attribute_type))?;
        if !read.options.is_empty() {
            let what = format!("{description}: attributes of cn=config have no options");
            return Err(refused(ResultCode::CONSTRAINT_VIOLATION, what));
        }
        Ok(attribute_type)
    }

    #[expect(clippy::indexing_slicing, reason = "found, or added just before")]
    fn values(&mut self, of: &'s AttributeType) -> &mut Vec<Vec<u8>> {
        let place = self.attributes.iter().position(|(known, _)| known.id == of.id);
        let place = place.unwrap_or_else(|| {
            self.attributes.push((of, Vec::new()));
            self.attributes.len() - 1
        });
        &mut self.attributes[place].1
    }

    /// Returns a key that is the same for equal values.
    fn key(&self, of: &AttributeType, value: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        match of.equality.map(|rule| rule.normalize(self.schema, value, &mut key)) {
            Some(Ok(())) => key,
            _ => value.to_vec(),
        }
    }

    fn add(&mut self, of: &'s AttributeType, values: Values<'_>) -> Result<()> {
        for (number, value) in values.iter().enumerate() {
            if let Err(error) = self.schema.validate_value(of, value) {
                let what = format!("{}: value {}: {error}", of.name(), number + 1);
                return Err(refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, what));
            }
            let key = self.key(of, value);
            if self.position(of, &key).is_some() {
                let what = format!("{} already has value {}", of.name(), number + 1);
                return Err(refused(ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, what));
            }
            self.values(of).push(value.to_vec());
        }
        Ok(())
    }

    fn position(&self, of: &AttributeType, key: &[u8]) -> Option<usize> {
        let (_, values) = self.attributes.iter().find(|(known, _)| known.id == of.id)?;
        values.iter().position(|value| self.key(of, value) == key)
    }

    fn remove(&mut self, of: &'s AttributeType, values: Values<'_>) -> Result<()> {
        let none = |what: String| refused(ResultCode::NO_SUCH_ATTRIBUTE, what);
        if self.values(of).is_empty() {
            return Err(none(format!("the entry does not have {}", of.name())));
        }
        if values.is_empty() {
            self.values(of).clear();
        }
        for (number, value) in values.iter().enumerate() {
            let Some(place) = self.position(of, &self.key(of, value)) else {
                return Err(none(format!("{} has no value equal to value {}", of.name(), number + 1)));
            };
            self.values(of).remove(place);
        }
        Ok(())
    }

    /// Checks that the entry conforms to the object class `class`. Except for `class` and its superclasses, the entry
    /// may have no object classes.
    fn check(&self, class: &str) -> Result<()> {
        let violation = |what: String| Err(refused(ResultCode::OBJECT_CLASS_VIOLATION, what));
        let Some(class) = self.schema.object_class(class) else {
            return Err(OperationError::Damaged(format!("the schema does not define {class}")));
        };
        let classes = self.texts("objectClass");
        let is_allowed = |name: &String| {
            let named = self.schema.object_class(name).map(|named| named.id);
            named.is_some_and(|named| class.closure.contains(&named))
        };
        if !classes.iter().all(is_allowed)
            || !classes.iter().any(|name| name.eq_ignore_ascii_case(class.name()))
        {
            return violation(format!("objectClass must be {} here", class.name()));
        }
        for (attribute_type, values) in self.attributes.iter().filter(|(_, values)| !values.is_empty()) {
            let name = attribute_type.name();
            if !class.all_must.contains(&attribute_type.id) && !class.all_may.contains(&attribute_type.id) {
                return violation(format!("{name} is not allowed by {}", class.name()));
            }
            if attribute_type.single_value && values.len() > 1 {
                return Err(refused(ResultCode::CONSTRAINT_VIOLATION, format!("{name} is single-valued")));
            }
        }
        for must in &class.all_must {
            let name = self.schema.type_by_id(*must).name();
            if self.texts(name).is_empty() {
                return violation(format!("{name} is needed by {}", class.name()));
            }
        }
        Ok(())
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let of = self.schema.attribute_type(name).map(|of| of.id);
        let found = self.attributes.iter().find(|(known, _)| Some(known.id) == of);
        let values = found.map(|(_, values)| values.iter());
        values.into_iter().flatten().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

fn modify<'s>(
    schema: &'s Schema,
    entry: &ConfigEntry,
    known: VirtualEntry,
    request: &ModifyRequest<'_>,
) -> Result<Draft<'s>> {
    let mut draft = Draft::of(schema, known);
    let names = draft.texts("cn");
    for change in request.changes.iter() {
        let of = draft.attribute_type(change.attribute.description)?;
        match change.operation {
            ChangeOperation::Add => draft.add(of, change.attribute.values)?,
            ChangeOperation::Delete => draft.remove(of, change.attribute.values)?,
            ChangeOperation::Replace => {
                draft.values(of).clear();
                draft.add(of, change.attribute.values)?;
            }
            ChangeOperation::Increment => {
                return Err(unwilling("settings cannot be incremented: replace them"));
            }
        }
    }
    if draft.texts("cn") != names {
        let what = "cn is the entry's name and cannot change: delete the entry and add another";
        return Err(refused(ResultCode::NOT_ALLOWED_ON_RDN, what));
    }
    draft.check(match entry {
        ConfigEntry::Root => "pandoConfig",
        ConfigEntry::Indexes | ConfigEntry::Schema => "pandoConfigContainer",
        ConfigEntry::Index(_) => "pandoIndex",
        ConfigEntry::SchemaText(_) => "pandoSchema",
    })?;
    Ok(draft)
}

fn add(
    settings: &mut DirectorySettings,
    schema: &Schema,
    dn: &ldap::Dn<'_>,
    name: &NormalName,
    request: &AddRequest<'_>,
) -> Result<()> {
    let above = name.depth().checked_sub(2).and_then(|place| name.key.get(..*name.ends.get(place)?));
    let is_below = |container: &str| Ok::<_, OperationError>(above == Some(&key_of(schema, container)?[..]));
    let named = dn.rdn().and_then(|rdn| match rdn.avas {
        [ava] => String::from_utf8(ava.value.to_vec()).ok(),
        _ => None,
    });
    let named = named.unwrap_or_default();
    let (entry, class) = if is_below(INDEXES_DN)? {
        let canonical = schema.attribute_type(&named).map_or(named.as_str(), AttributeType::name);
        if !canonical.eq_ignore_ascii_case(&named) {
            let what = format!("{named} is another name of {canonical}: name the entry cn={canonical}");
            return Err(refused(ResultCode::NAMING_VIOLATION, what));
        }
        (ConfigEntry::Index(canonical.to_owned()), "pandoIndex")
    } else if is_below(SCHEMA_DN)? {
        if let Some(text) = subschema::text_of_openldap(request)? {
            let name = subschema::without_order(&named);
            if settings.schema.keys().any(|known| known.eq_ignore_ascii_case(name)) {
                let what = format!("there is a schema text {}", Quoted(name));
                return Err(refused(ResultCode::ENTRY_ALREADY_EXISTS, what));
            }
            settings.schema.insert(name.to_owned(), text);
            return Ok(());
        }
        (ConfigEntry::SchemaText(named.clone()), "pandoSchema")
    } else {
        return Err(unwilling(
            "only indexes can be added, below cn=indexes,cn=config, and schema texts, below cn=schema,cn=config",
        ));
    };
    let mut draft = Draft { schema, attributes: Vec::new() };
    for attribute in request.attributes.iter() {
        let of = draft.attribute_type(attribute.description)?;
        draft.add(of, attribute.values)?;
    }
    let names = draft.texts("cn");
    match names.as_slice() {
        // The request may omit the naming value, as in other entries.
        [] => {
            if let Some(of) = schema.attribute_type("cn") {
                draft.values(of).push(named.into_bytes());
            }
        }
        [cn] if cn.eq_ignore_ascii_case(&named) => {}
        _ => {
            let what = format!("cn must be {named:?}, as in the entry's name");
            return Err(refused(ResultCode::NAMING_VIOLATION, what));
        }
    }
    draft.check(class)?;
    take(settings, &entry, &draft, schema)
}

fn delete(settings: &mut DirectorySettings, entry: &ConfigEntry) -> Result<()> {
    match entry {
        ConfigEntry::Index(attribute) => drop(settings.indexes.remove(attribute)),
        ConfigEntry::SchemaText(name) => drop(settings.schema.remove(name)),
        ConfigEntry::Root | ConfigEntry::Indexes | ConfigEntry::Schema => {
            return Err(unwilling("this entry of cn=config cannot be deleted"));
        }
    }
    Ok(())
}

/// Updates the settings from the changed entry.
fn take(
    settings: &mut DirectorySettings,
    entry: &ConfigEntry,
    draft: &Draft<'_>,
    schema: &Schema,
) -> Result<()> {
    let wrong = |attribute: &str, what: String| {
        refused(ResultCode::CONSTRAINT_VIOLATION, format!("{attribute}: {what}"))
    };
    match entry {
        ConfigEntry::Root => {
            settings.suffixes = draft.texts(SUFFIX);
            for setting in &GENERAL {
                let set = setting.set_texts(&mut settings.general, &draft.texts(setting.attribute));
                set.map_err(|what| wrong(setting.attribute, what))?;
            }
        }
        ConfigEntry::Index(attribute) => {
            let mut kinds = IndexKinds::NONE;
            for text in draft.texts(INDEX_KIND) {
                kinds = kinds.with(text.parse().map_err(|what| wrong(INDEX_KIND, what))?);
            }
            let name = schema.attribute_type(attribute).map_or(attribute.as_str(), AttributeType::name);
            settings.indexes.insert(name.to_owned(), kinds);
        }
        ConfigEntry::SchemaText(name) => {
            settings.schema.insert(name.clone(), draft.texts(SCHEMA_TEXT).concat());
        }
        ConfigEntry::Indexes | ConfigEntry::Schema => {}
    }
    Ok(())
}
