//! Result of analyzing a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use access_rules::Translation;
use directory::catalog::is_link_type;
use directory::index::{IndexKinds, check_kinds};
use directory::settings::default_indexes;
use schema::{Schema, SchemaBuilder};

use crate::configuration::{ConfigEntry, ConfigValue};
use crate::secrets::{MASK, is_secret, masked};

/// Findings, expressed as settings of Pando.
pub(crate) struct Found {
    pub(crate) suffixes: Vec<String>,
    /// Settings of the directory: key, value in TOML.
    pub(crate) settings: BTreeMap<&'static str, String>,
    pub(crate) indexes: BTreeMap<String, IndexKinds>,
    pub(crate) access_rules: Vec<String>,
    /// Texts of list settings, such as `unique`.
    pub(crate) lists: BTreeMap<&'static str, Vec<String>>,
    /// Keys of the node file: key, value in TOML. Keys of tables are written with a dot.
    pub(crate) node: BTreeMap<&'static str, String>,
    /// Tables `[[limit]]` of the node file, as lines.
    pub(crate) limits: Vec<Vec<String>>,
    /// Password policies as LDIF.
    pub(crate) policies: String,
    pub(crate) schema_files: Vec<String>,
    /// Lines of LDIF with definitions.
    pub(crate) definitions: Vec<String>,
    /// Features that Pando has without a setting.
    pub(crate) built_in: BTreeSet<String>,
    pub(crate) decisions: Vec<Decision>,
    /// Number of values or entries without a counterpart, by attribute, directive or object class.
    pub(crate) no_counterpart: BTreeMap<String, usize>,
    schema: Arc<Schema>,
}

/// A decision that the administrator must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Position in the source.
    pub(crate) place: String,
    /// Text of the source.
    pub(crate) what: String,
    /// Counterpart in Pando, or the reason why there is none.
    pub(crate) advice: String,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            suffixes: Vec::new(),
            settings: BTreeMap::new(),
            indexes: default_indexes(),
            access_rules: Vec::new(),
            lists: BTreeMap::new(),
            node: BTreeMap::new(),
            limits: Vec::new(),
            policies: String::new(),
            schema_files: Vec::new(),
            definitions: Vec::new(),
            built_in: BTreeSet::new(),
            decisions: Vec::new(),
            no_counterpart: BTreeMap::new(),
            schema: Schema::shipped(),
        }
    }
}

impl Found {
    /// Adds a decision. Secrets in the text of the source are masked.
    pub(crate) fn decide(
        &mut self,
        place: impl Into<String>,
        what: impl AsRef<str>,
        advice: impl Into<String>,
    ) {
        let what = masked(what.as_ref());
        self.decisions.push(Decision { place: place.into(), what, advice: advice.into() });
    }

    /// Adds a decision about one value.
    pub(crate) fn decide_value(&mut self, value: &ConfigValue, advice: impl Into<String>) {
        let text = if is_secret(&value.name) { MASK } else { &value.value };
        self.decide(value.place.as_str(), format!("{}: {text}", value.name), advice);
    }

    pub(crate) fn has_built_in(&mut self, what: &str, how: &str) {
        self.built_in.insert(format!("{what}: {how}"));
    }

    pub(crate) fn skip(&mut self, value: &ConfigValue) {
        *self.no_counterpart.entry(value.name.clone()).or_default() += 1;
    }

    /// Counts an entry without a counterpart, under its object class.
    pub(crate) fn skip_entry(&mut self, entry: &ConfigEntry) {
        let class = entry.all("objectclass").last().unwrap_or("none");
        *self.no_counterpart.entry(format!("objectClass: {class}")).or_default() += 1;
    }

    pub(crate) fn add_suffix(&mut self, suffix: &str) {
        if !self.suffixes.iter().any(|known| known.eq_ignore_ascii_case(suffix)) {
            self.suffixes.push(suffix.to_owned());
        }
    }

    pub(crate) fn list(&mut self, key: &'static str, text: String) {
        self.lists.entry(key).or_default().push(text);
    }

    /// Adds definitions of the schema, so that later steps know their attributes.
    pub(crate) fn add_definitions(&mut self, entry: &ConfigEntry) {
        const KINDS: [&str; 6] = [
            "olcobjectidentifier",
            "olcldapsyntaxes",
            "olcattributetypes",
            "olcobjectclasses",
            "attributetypes",
            "objectclasses",
        ];
        let before = self.definitions.len();
        for value in entry.values.iter().filter(|value| KINDS.contains(&value.name.as_str())) {
            let text = without_number(&value.value).replace(['\r', '\n'], " ");
            if is_shipped(&text) {
                continue;
            }
            self.definitions.push(format!("{}: {text}", value.name));
        }
        if self.definitions.len() > before {
            let mut builder = SchemaBuilder::shipped();
            builder.add_text("definitions", &self.definitions_text());
            // `pando plan` reports the faults in the definitions.
            if let Ok(schema) = builder.build() {
                self.schema = schema;
            }
        }
    }

    pub(crate) fn definitions_text(&self) -> String {
        format!("dn: cn=schema\nobjectClass: subschema\n{}\n", self.definitions.join("\n"))
    }

    /// Adds the kinds of an index that Pando supports.
    pub(crate) fn add_index(&mut self, place: &str, attribute: &str, kinds: IndexKinds) {
        let schema = Arc::clone(&self.schema);
        let Some(known) = schema.attribute_type(attribute) else {
            let advice =
                "No schema that is known here has this attribute. Add the index after its schema file.";
            self.decide(place, format!("index of {attribute}"), advice);
            return;
        };
        // Links and object classes are always indexed.
        if check_kinds(known, &schema, IndexKinds::NONE).is_err() {
            return;
        }
        let name = known.name().to_owned();
        // The equality index answers presence if few entries have the attribute. If many entries have the attribute, no
        // index helps.
        let kinds =
            if kinds.contains(IndexKinds::EQUALITY) { kinds.without(IndexKinds::PRESENCE) } else { kinds };
        let (possible, impossible): (Vec<_>, Vec<_>) = IndexKinds::ALL
            .iter()
            .filter(|(kind, _)| kinds.contains(*kind))
            .map(|(kind, text)| (*kind, *text, check_kinds(known, &schema, *kind)))
            .partition(|(.., checked)| checked.is_ok());
        for (_, text, checked) in impossible {
            let reason = checked.err().unwrap_or_default();
            self.decide(place, format!("{text} index of {name}"), format!("Left out: {reason}."));
        }
        let entry = self.indexes.entry(name).or_insert(IndexKinds::NONE);
        *entry = possible.into_iter().fold(*entry, |all, (kind, ..)| all.with(kind));
        // An equality index also answers ranges, prefixes and sorting at no extra cost.
        if entry.contains(IndexKinds::EQUALITY) && check_kinds(known, &schema, IndexKinds::ORDERING).is_ok() {
            *entry = entry.with(IndexKinds::ORDERING);
        }
    }

    /// Returns true if values of an attribute are links between entries.
    pub(crate) fn is_link(&self, attribute: &str) -> bool {
        self.schema.attribute_type(attribute).is_some_and(is_link_type)
    }

    /// Adds settings that preserve referential integrity: link attributes are updated when entries are deleted.
    pub(crate) fn add_integrity(&mut self, place: &str, attributes: impl IntoIterator<Item = String>) {
        for attribute in attributes {
            if self.is_link(&attribute) {
                self.list("integrity_attributes", attribute);
            } else {
                let advice =
                    "Pando keeps no integrity of this attribute: it is no link between entries here.";
                self.decide(place, format!("referential integrity of {attribute}"), advice);
            }
        }
    }

    /// Adds a uniqueness rule, and the indexes that it needs.
    pub(crate) fn add_unique(&mut self, place: &str, attributes: &[String], base: &str, filter: &str) {
        for attribute in attributes {
            self.add_index(place, attribute, IndexKinds::EQUALITY);
        }
        let number = self.lists.get("unique").map_or(0, Vec::len) + 1;
        let Some((base, filter)) = quoted(base).zip(quoted(filter)) else {
            let advice = "Pando's rules cannot quote this name or filter: write the rule by hand.";
            self.decide(place, format!("unique {}", attributes.join(", ")), advice);
            return;
        };
        let base = if base == "''" { String::new() } else { format!(" in {base}") };
        let filter = if filter == "''" { String::new() } else { format!(" matching {filter}") };
        self.list("unique", format!("unique{number}: {}{base}{filter}", attributes.join(", ")));
    }

    pub(crate) fn add_rules(&mut self, translation: &Translation) {
        self.access_rules.extend(translation.rules.iter().cloned());
        for left_out in &translation.left_out {
            let advice =
                format!("Left out: {}. What it denies, if anything, may be allowed now.", left_out.why);
            self.decide("access rules", left_out.clause.clone(), advice);
        }
    }

    /// Adds a password policy as an entry below the first suffix.
    pub(crate) fn add_policy(&mut self, name: &str, lines: &[String]) {
        let suffix = self.suffixes.first().cloned().unwrap_or_default();
        if self.policies.is_empty() {
            self.policies =
                format!("dn: ou=policies,{suffix}\nobjectClass: organizationalUnit\nou: policies\n");
            self.settings.insert("password_policy", in_toml(&format!("cn={name},ou=policies,{suffix}")));
        }
        self.policies += &format!(
            "\ndn: cn={name},ou=policies,{suffix}\nobjectClass: device\nobjectClass: pandoPwdPolicy\ncn: {name}\n\
             pwdAttribute: userPassword\n{}\n",
            lines.join("\n")
        );
    }
}

/// Returns true if Pando ships a definition with this OID. The migration then keeps the shipped definition.
fn is_shipped(definition: &str) -> bool {
    let oid = definition.trim_start_matches(['(', ' ']).split_whitespace().next().unwrap_or_default();
    let schema = Schema::shipped();
    schema.attribute_type(oid).is_some() || schema.object_class(oid).is_some()
}

/// Quotes a text as in access rules and rules for values; returns `None` if it contains the quote.
pub(crate) fn quoted(text: &str) -> Option<String> {
    (!text.contains(['\'', '\n'])).then(|| format!("'{text}'"))
}

/// Quotes a text as a TOML string on one line.
pub fn in_toml(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns a value without its order number, as in `{0}cn=admin`.
pub(crate) fn without_number(value: &str) -> &str {
    let rest = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    rest.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
        .map_or(value, |(_, rest)| rest)
}
