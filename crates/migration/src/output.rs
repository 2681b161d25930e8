//! The files of a proposal.

use std::fmt::Write as _;

use directory::index::IndexKinds;

use crate::Product;
use crate::found::{Found, in_toml};

/// Files that Pando needs in place of another server's configuration.
pub struct Proposal {
    product: Product,
    found: Found,
}

/// Name of the file with definitions, as used in the settings file.
pub const SCHEMA_FILE: &str = "schema.ldif";

impl Proposal {
    pub(crate) fn of(product: Product, found: Found) -> Proposal {
        Proposal { product, found }
    }

    /// Returns the settings file, with one value per line.
    pub fn settings(&self) -> String {
        settings(self.product, &self.found)
    }

    /// Returns the proposed node file.
    pub fn node(&self) -> String {
        node(self.product, &self.found)
    }

    /// Returns password policies as LDIF; empty if there are none.
    pub fn policies(&self) -> &str {
        &self.found.policies
    }

    /// Returns definitions of the schema as LDIF; empty if there are none.
    pub fn schema(&self) -> String {
        if self.found.definitions.is_empty() { String::new() } else { self.found.definitions_text() }
    }

    /// Returns the page of decisions, in Markdown.
    pub fn page(&self) -> String {
        page(self.product, &self.found)
    }

    /// Returns the number of decisions.
    pub fn decisions(&self) -> usize {
        self.found.decisions.len()
    }

    /// Adds a decision about a line of the settings file that the caller found invalid and omitted.
    pub fn leave_out(&mut self, line: &str, reason: &str) {
        self.found.decide("settings.toml", line, format!("Left out: {reason}."));
    }
}

fn list(out: &mut String, key: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    let lines: String = texts.iter().map(|text| format!("    {},\n", in_toml(text))).collect();
    let _ = writeln!(out, "{key} = [\n{lines}]");
}

/// Writes keys and values; keys of tables come after all other keys.
fn keys<'k>(out: &mut String, pairs: impl Iterator<Item = (&'k str, &'k str)>) {
    let (plain, of_tables): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| !key.contains('.'));
    for (key, value) in plain {
        let _ = writeln!(out, "{key} = {value}");
    }
    let mut table = "";
    for (key, value) in of_tables {
        let (name, key) = key.split_once('.').unwrap_or(("", key));
        if name != table {
            let _ = writeln!(out, "\n[{name}]");
            table = name;
        }
        let _ = writeln!(out, "{key} = {value}");
    }
}

fn settings(product: Product, found: &Found) -> String {
    let mut out = format!(
        "# Settings of the directory, proposed from the configuration of {}. Read decide.md, then check them with\n\
         # `pando plan` and put them in force with `pando apply`.\n\n",
        product.name()
    );
    list(&mut out, "suffixes", &found.suffixes);
    for (key, texts) in &found.lists {
        list(&mut out, key, texts);
    }
    let mut schema_files = found.schema_files.clone();
    if !found.definitions.is_empty() {
        schema_files.push(SCHEMA_FILE.to_owned());
    }
    list(&mut out, "schema_files", &schema_files);
    list(&mut out, "access_rules", &found.access_rules);
    keys(&mut out, found.settings.iter().map(|(key, value)| (*key, value.as_str())));
    let _ = writeln!(out, "\n[indexes]");
    for (attribute, kinds) in &found.indexes {
        let names: Vec<String> = kind_names(*kinds).map(in_toml).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "{} = [{}]", key_in_toml(attribute), names.join(", "));
        }
    }
    out
}

fn kind_names(kinds: IndexKinds) -> impl Iterator<Item = &'static str> {
    IndexKinds::ALL.iter().filter(move |(kind, _)| kinds.contains(*kind)).map(|(_, name)| *name)
}

/// Returns a key, quoted if TOML requires it.
fn key_in_toml(key: &str) -> String {
    let is_bare = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_bare { key.to_owned() } else { in_toml(key) }
}

fn node(product: Product, found: &Found) -> String {
    let mut out = format!(
        "# The node file of this server, proposed from the configuration of {}. Read decide.md.\n\
         # Addresses are not taken over, so that both servers can run: the default is ldap://127.0.0.1:1389.\n\
         # listen = [\"ldap://:389\", \"ldaps://:636\"]\n\n",
        product.name()
    );
    keys(&mut out, found.node.iter().map(|(key, value)| (*key, value.as_str())));
    for table in &found.limits {
        let _ = writeln!(out, "\n[[limit]]\n{}", table.join("\n"));
    }
    out
}

fn page(product: Product, found: &Found) -> String {
    let mut out = format!("# What to decide before you leave {}\n\n", product.name());
    if found.decisions.is_empty() {
        out += "Nothing: everything that was read is in the proposed files.\n";
    } else {
        let _ = writeln!(out, "The proposed files leave {} questions open.\n", found.decisions.len());
    }
    for decision in &found.decisions {
        let what = decision.what.replace('\n', " ");
        let _ =
            writeln!(out, "- [ ] **{}**: `{}`. {}", decision.place, what.replace('`', "'"), decision.advice);
    }
    if !found.built_in.is_empty() {
        out += "\n## What needs nothing\n\n";
        for what in &found.built_in {
            let _ = writeln!(out, "- {what}.");
        }
    }
    if !found.no_counterpart.is_empty() {
        out += "\n## Without a counterpart\n\n\
                These attributes of the configuration, and enabled entries of these classes, are not used:\n\n";
        let names: Vec<String> = found
            .no_counterpart
            .iter()
            .map(|(name, count)| if *count > 1 { format!("`{name}` ({count})") } else { format!("`{name}`") })
            .collect();
        let _ = writeln!(out, "{}.", names.join(", "));
    }
    out += "\n## Next\n\n\
            1. Check the settings: `pando plan --data DIR settings.toml`.\n\
            2. Load the data: `pando import --data DIR --settings settings.toml export.ldif`.\n\
            3. If there is a policies.ldif, add it to the data before the import, or with ldapadd afterwards.\n\
            4. Rehearse the access rules: `pando access rehearse`.\n\
            5. Compare both servers: `pando compare`.\n";
    out
}
