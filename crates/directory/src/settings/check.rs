//! Checks of settings that need no entries: the schema defines all names, values are within limits, and lists have no
//! duplicates.
//!
//! [`decide`](mod@super::decide) checks conditions that depend on entries. For example, a removed suffix must have no
//! entries, and a removed definition must not be in use.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use schema::Schema;

use super::user_template::UserTemplate;
use super::{DirectorySettings, SettingsProblem, expectations, value_rules};
use crate::catalog::access_rules::Rule;
use crate::catalog::{Catalog, Secrets, VirtualAttribute, is_link_type, schema_of, schema_problem};
use crate::index::check_kinds;
use crate::model::client_pattern::ClientPattern;
use crate::model::index_definition::{IndexKinds, IndexPart};
use crate::model::limits::{
    ACCESS_RULES_MAX, DYNAMIC_TTL_LIMIT, IDENTITIES_MAX, REALM_SIZE_MAX, SCHEMA_NAME_MAX,
    SCHEMA_TEXTS_BYTES_MAX, SECRET_ATTRIBUTES_MAX,
};
use crate::model::link_types::LINK_TYPES_TEXT;
use crate::model::name::{NormalName, parse_dn};
use crate::model::quoted::Quoted;
use crate::model::sasl_mechanisms::{DIGEST_MD5, MECHANISMS};
use crate::model::virtual_entries::{CONFIG_DN, MONITOR_DN, SUBSCHEMA_DN};
use crate::tree::operational::EXPIRE_TIME;

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";

/// Settings in canonical form: names in the schema's spelling, DNs in the form for clients, lists without duplicates.
#[derive(Clone, Debug)]
pub struct CheckedSettings {
    /// The settings.
    pub settings: DirectorySettings,
    /// The schema under these settings.
    pub schema: Arc<Schema>,
    /// Secret attribute types of the schema.
    pub(crate) secrets: Secrets,
}

/// Checks settings.
///
/// # Errors
/// All problems found. If the schema is unusable, nothing else is checked, because names have no meaning without a
/// schema.
pub fn check(proposal: &DirectorySettings) -> Result<CheckedSettings, Vec<SettingsProblem>> {
    check_schema_names(&proposal.schema)?;
    let schema = schema_of(&proposal.schema)?;
    let mut problems: Vec<_> = schema.unusable_links().iter().map(schema_problem).collect();
    let mut settings = proposal.clone();
    settings.suffixes = check_suffixes(&proposal.suffixes, &schema, &mut problems);
    settings.indexes = check_indexes(&proposal.indexes, &schema, &mut problems);
    let general = &proposal.general;
    settings.general.integrity_attributes =
        check_links(&general.integrity_attributes, &schema, &mut problems);
    settings.general.password_comparers =
        check_names("password_comparers", &general.password_comparers, &schema, &mut problems);
    settings.general.monitor_readers =
        check_names("monitor_readers", &general.monitor_readers, &schema, &mut problems);
    settings.general.dynamic_subtrees =
        check_names("dynamic_subtrees", &general.dynamic_subtrees, &schema, &mut problems);
    check_lifetimes(&settings, &mut problems);
    check_clients(&general.member_of_clients, &schema, &mut problems);
    check_capabilities(&general.supported_capabilities, &mut problems);
    check_templates(&general.user_templates, &schema, &mut problems);
    settings.general.sasl_mechanisms = check_mechanisms(&general.sasl_mechanisms, &mut problems);
    settings.general.secret_attributes = check_secrets(&general.secret_attributes, &schema, &mut problems);
    let secrets = Secrets::of(&schema, &settings.general.secret_attributes);
    settings.general.identity_attributes =
        check_identities(&general.identity_attributes, (&schema, &secrets), &mut problems);
    check_realm(&general.sasl_realm, &settings.general.sasl_mechanisms, &mut problems);
    check_access_rules(&general.access_rules, (&schema, &secrets), &mut problems);
    value_rules::check(&settings, (&schema, &secrets), &mut problems);
    expectations::check(&general.access_expectations, &schema, &mut problems);
    check_name("password_policy", &general.password_policy, &schema, &mut problems);
    check_name("administrator", &general.administrator, &schema, &mut problems);
    if problems.is_empty() { Ok(CheckedSettings { settings, schema, secrets }) } else { Err(problems) }
}

/// Checks the settings of dynamic entries. The indexes in `settings` must already be checked.
fn check_lifetimes(settings: &DirectorySettings, problems: &mut Vec<SettingsProblem>) {
    let general = &settings.general;
    let (min, max) = (general.dynamic_ttl_min_seconds, general.dynamic_ttl_max_seconds);
    if !(1..=max).contains(&min) || max > DYNAMIC_TTL_LIMIT {
        let what = format!(
            "{min} and {max} (dynamic_ttl_max_seconds) are no range within 1 to {DYNAMIC_TTL_LIMIT} seconds"
        );
        problems.push(SettingsProblem::key("dynamic_ttl_min_seconds", what));
    }
    let index = settings.indexes.get(EXPIRE_TIME);
    if !general.dynamic_subtrees.is_empty() && !index.is_some_and(|kinds| IndexPart::Values.is_of(*kinds)) {
        let what = format!("{EXPIRE_TIME} has no equality index: add it to the setting indexes");
        problems.push(SettingsProblem::key("dynamic_subtrees", what));
    }
}

fn check_access_rules(
    texts: &[String],
    (schema, secrets): (&Schema, &Secrets),
    problems: &mut Vec<SettingsProblem>,
) {
    if texts.len() > ACCESS_RULES_MAX {
        let what = format!("there are {} rules, but at most {ACCESS_RULES_MAX} are allowed", texts.len());
        problems.push(SettingsProblem::key("access_rules", what));
        return;
    }
    let mut names: Vec<String> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut refuse = |what| problems.push(SettingsProblem::member("access_rules", number, what));
        match Rule::read(text, schema, secrets) {
            Ok(rule) if names.iter().any(|name| name.eq_ignore_ascii_case(&rule.name)) => {
                refuse(format!("there is another rule {:?}", rule.name));
            }
            Ok(rule) => names.push(rule.name),
            Err(what) => refuse(format!("access rule {text:?}: {what}")),
        }
    }
}

fn check_schema_names(texts: &BTreeMap<String, String>) -> Result<(), Vec<SettingsProblem>> {
    let is_name = |name: &str| {
        let all = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !name.is_empty() && name.len() <= SCHEMA_NAME_MAX && name.bytes().all(all)
    };
    let bad = texts.keys().filter(|name| !is_name(name)).map(|name| {
        let what = format!(
            "{name:?} cannot name a schema text: write 1 to {SCHEMA_NAME_MAX} letters a to z, digits, - and _"
        );
        SettingsProblem::key("schema", what)
    });
    let mut problems: Vec<_> = bad.collect();
    let names: Vec<&String> = texts.keys().collect();
    for (place, name) in names.iter().enumerate() {
        if names.iter().take(place).any(|other| other.eq_ignore_ascii_case(name)) {
            problems
                .push(SettingsProblem::key("schema", format!("{name:?} occurs twice, in different case")));
        }
    }
    let bytes: usize = texts.values().map(String::len).sum();
    if bytes > SCHEMA_TEXTS_BYTES_MAX {
        let what =
            format!("the schema texts have {bytes} octets, but at most {SCHEMA_TEXTS_BYTES_MAX} are allowed");
        problems.push(SettingsProblem::key("schema", what));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn check_suffixes(dns: &[String], schema: &Arc<Schema>, problems: &mut Vec<SettingsProblem>) -> Vec<String> {
    // Adding the suffixes to an empty catalog checks that no suffix is above or below another suffix.
    let mut catalog = Catalog::new(Arc::clone(schema));
    for (number, dn) in dns.iter().enumerate() {
        let mut refuse = |what| problems.push(SettingsProblem::member("suffixes", number, what));
        if let Some(reserved) = reserved(&catalog, dn) {
            refuse(format!("suffix {dn:?}: {reserved} is reserved for the server"));
            continue;
        }
        match catalog.add_suffix(dn) {
            Ok(Some(_)) => {}
            Ok(None) => refuse(format!("suffix {dn:?} occurs twice")),
            Err(error) => refuse(error.to_string()),
        }
    }
    catalog.suffixes.into_iter().map(|suffix| suffix.dn).collect()
}

/// Returns the DN of the server's own tree that contains the suffix; `None` if the suffix is in none of these trees.
fn reserved(catalog: &Catalog, dn: &str) -> Option<&'static str> {
    let key = |dn: &str| catalog.suffix_of(dn).ok().map(|suffix| suffix.key);
    let requested = key(dn)?;
    [CONFIG_DN, MONITOR_DN, SUBSCHEMA_DN]
        .into_iter()
        .find(|own| key(own).is_some_and(|own| requested.starts_with(&own)))
}

fn check_indexes(
    indexes: &BTreeMap<String, IndexKinds>,
    schema: &Schema,
    problems: &mut Vec<SettingsProblem>,
) -> BTreeMap<String, IndexKinds> {
    let mut canonical = BTreeMap::new();
    for (name, kinds) in indexes.iter().filter(|(_, kinds)| !kinds.is_none()) {
        let mut refuse = |what: String| problems.push(SettingsProblem::key(format!("indexes.{name}"), what));
        let Some(attribute_type) = schema.attribute_type(name) else {
            refuse(undefined(name));
            continue;
        };
        if let Err(what) = check_kinds(attribute_type, schema, *kinds) {
            refuse(what);
        } else if canonical.insert(attribute_type.name().to_owned(), *kinds).is_some() {
            refuse(format!(
                "{name} is another name of {}, which already has an index",
                attribute_type.name()
            ));
        }
    }
    canonical
}

fn check_links(names: &[String], schema: &Schema, problems: &mut Vec<SettingsProblem>) -> Vec<String> {
    let mut canonical = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut refuse = |what| problems.push(SettingsProblem::member("integrity_attributes", number, what));
        match schema.attribute_type(name) {
            None => refuse(undefined(name)),
            Some(attribute_type) if !is_link_type(attribute_type) => {
                refuse(format!("values of {name} are not links to entries: it takes {LINK_TYPES_TEXT}"))
            }
            Some(attribute_type) => canonical.push(attribute_type.name().to_owned()),
        }
    }
    canonical.sort_unstable();
    canonical.dedup();
    canonical
}

/// Checks the SASL mechanisms. Returns them in the order in which the server offers them.
fn check_mechanisms(names: &[String], problems: &mut Vec<SettingsProblem>) -> Vec<String> {
    let is = |known: &str, name: &String| known.eq_ignore_ascii_case(name);
    for (number, name) in names.iter().enumerate() {
        if !MECHANISMS.iter().any(|known| is(known, name)) {
            let what = format!("there is no SASL mechanism {name:?}; choose from {}", MECHANISMS.join(", "));
            problems.push(SettingsProblem::member("sasl_mechanisms", number, what));
        }
    }
    let named = MECHANISMS.iter().filter(|known| names.iter().any(|name| is(known, name)));
    named.map(|known| (*known).to_owned()).collect()
}

/// Checks the realm of DIGEST-MD5. A realm may contain only characters that need no escape in messages and keys.
fn check_realm(realm: &str, mechanisms: &[String], problems: &mut Vec<SettingsProblem>) {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-._@".contains(letter);
    if realm.len() > REALM_SIZE_MAX || !realm.chars().all(is_fit) {
        let what =
            format!("a realm consists of up to {REALM_SIZE_MAX} letters and digits of ASCII, and - . _ @");
        problems.push(SettingsProblem::key("sasl_realm", what));
    }
    if realm.is_empty() && mechanisms.iter().any(|mechanism| mechanism == DIGEST_MD5) {
        let what = "DIGEST-MD5 needs the setting sasl_realm (pandoSaslRealm), on which its keys depend";
        problems.push(SettingsProblem::key("sasl_mechanisms", what.to_owned()));
    }
}

/// Checks the attribute types whose values identify users.
fn check_identities(
    names: &[String],
    (schema, secrets): (&Schema, &Secrets),
    problems: &mut Vec<SettingsProblem>,
) -> Vec<String> {
    let mut canonical: Vec<String> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut refuse = |what| problems.push(SettingsProblem::member("identity_attributes", number, what));
        match schema.attribute_type(name) {
            None => refuse(undefined(name)),
            Some(known) if secrets.has(known.id) => {
                refuse(format!("users cannot be found by {name}: it is a secret"));
            }
            Some(known) if known.equality.is_none() => {
                refuse(format!("users cannot be found by {name}: it has no equality rule"));
            }
            Some(known) if canonical.iter().any(|other| other == known.name()) => {}
            Some(known) => canonical.push(known.name().to_owned()),
        }
    }
    if canonical.len() > IDENTITIES_MAX {
        let what = format!("more than {IDENTITIES_MAX} attributes");
        problems.push(SettingsProblem::key("identity_attributes", what));
    }
    canonical
}

/// Checks the secret attribute types. Keeps the names as written, because the schema may define some of them later.
fn check_secrets(names: &[String], schema: &Schema, problems: &mut Vec<SettingsProblem>) -> Vec<String> {
    let mut canonical: Vec<String> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut refuse = |what| problems.push(SettingsProblem::member("secret_attributes", number, what));
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || name.len() > SCHEMA_NAME_MAX || !name.bytes().all(is_part) {
            refuse(format!("{} is not the name or OID of an attribute type", Quoted(name)));
            continue;
        }
        let types = schema.attribute_type(name).map_or(&[][..], |known| schema.subtypes(known.id));
        let shows = |known: &schema::AttributeType| {
            known.oid == OBJECT_CLASS || is_link_type(known) || VirtualAttribute::of(known).is_some()
        };
        if let Some(shown) = types.iter().map(|id| schema.type_by_id(*id)).find(|known| shows(known)) {
            refuse(format!(
                "{} cannot be a secret: the tree, groups and classes reveal it; an access rule can deny it",
                shown.name()
            ));
        } else if !canonical.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            canonical.push(name.clone());
        }
    }
    if canonical.len() > SECRET_ATTRIBUTES_MAX {
        let what = format!("more than {SECRET_ATTRIBUTES_MAX} attributes");
        problems.push(SettingsProblem::key("secret_attributes", what));
    }
    canonical.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    canonical
}

/// Checks a DN. The DN may be empty, and an entry with the DN need not exist.
fn check_name(key: &str, text: &str, schema: &Schema, problems: &mut Vec<SettingsProblem>) {
    if !text.is_empty()
        && let Err(what) = entry_name(text, schema)
    {
        problems.push(SettingsProblem::key(key, what));
    }
}

/// Checks DNs. Of equal DNs, keeps the first spelling. Entries with these DNs need not exist.
fn check_names(
    key: &str,
    dns: &[String],
    schema: &Schema,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<String> {
    let mut canonical = BTreeMap::new();
    for (number, text) in dns.iter().enumerate() {
        match entry_name(text, schema) {
            Ok(name) => {
                canonical.entry(name.key).or_insert_with(|| text.clone());
            }
            Err(what) => problems.push(SettingsProblem::member(key, number, what)),
        }
    }
    if canonical.len() > IDENTITIES_MAX {
        problems.push(SettingsProblem::key(key, format!("more than {IDENTITIES_MAX} names")));
    }
    canonical.into_values().collect()
}

/// Checks the setting `member_of_clients`.
fn check_clients(texts: &[String], schema: &Schema, problems: &mut Vec<SettingsProblem>) {
    for (number, text) in texts.iter().enumerate() {
        let parsed = ClientPattern::parse(text);
        if let Err(what) =
            parsed.and_then(|known| known.dn().map_or(Ok(()), |dn| entry_name(dn, schema).map(|_| ())))
        {
            problems.push(SettingsProblem::member("member_of_clients", number, what));
        }
    }
    if texts.len() > IDENTITIES_MAX {
        problems
            .push(SettingsProblem::key("member_of_clients", format!("more than {IDENTITIES_MAX} clients")));
    }
}

/// Checks the user templates.
fn check_templates(texts: &[String], schema: &Schema, problems: &mut Vec<SettingsProblem>) {
    let mut names = HashSet::new();
    for (number, text) in texts.iter().enumerate() {
        let unknown = |template: &UserTemplate| {
            let unknown =
                template.attributes.iter().find(|(name, _)| schema.parse_description(name).is_err());
            unknown.map(|(name, _)| format!("attribute type {} is not defined", Quoted(name)))
        };
        let what = match UserTemplate::parse(text) {
            Err(what) => Some(what),
            Ok(template) if !names.insert(template.name.to_ascii_lowercase()) => {
                Some(format!("there is another template {}", template.name))
            }
            Ok(template) => unknown(&template),
        };
        problems.extend(what.map(|what| SettingsProblem::member("user_templates", number, what)));
    }
    if texts.len() > IDENTITIES_MAX {
        problems
            .push(SettingsProblem::key("user_templates", format!("more than {IDENTITIES_MAX} templates")));
    }
}

/// Checks that capabilities are OIDs (RFC 4512 section 1.4).
fn check_capabilities(oids: &[String], problems: &mut Vec<SettingsProblem>) {
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    for (number, oid) in oids.iter().enumerate() {
        if oid.len() > SCHEMA_NAME_MAX || !oid.contains('.') || !oid.split('.').all(is_number) {
            let what = format!("{} is not an OID such as 1.2.840.113556.1.4.800", Quoted(oid));
            problems.push(SettingsProblem::member("supported_capabilities", number, what));
        }
    }
    if oids.len() > IDENTITIES_MAX {
        problems
            .push(SettingsProblem::key("supported_capabilities", format!("more than {IDENTITIES_MAX} OIDs")));
    }
}

/// Parses the DN of an entry. The error says why the text is not the DN of an entry.
fn entry_name(text: &str, schema: &Schema) -> Result<NormalName, String> {
    let dn = parse_dn(text).map_err(|error| error.to_string())?;
    let name = NormalName::of(&dn, schema);
    match dn.is_empty() || name.failure.is_some() {
        true => Err(format!("{} is not the name of an entry", Quoted(text))),
        false => Ok(name),
    }
}

fn undefined(name: &str) -> String {
    format!(
        "attribute type {name:?} is not defined: check its spelling, or add the schema text that defines it"
    )
}
