//! Conversion of a slapd.conf to entries of `cn=config`, so that both formats have the same analysis (slapd.conf(5)).

use crate::configuration::{ConfigEntry, ConfigValue, Configuration};

/// Contents of a file that a slapd.conf includes.
pub enum Included {
    /// The text of a configuration file.
    Text(String),
    /// A schema file, which Pando's settings will name.
    Schema,
    /// The file cannot be read, for the given reason.
    Unreadable(String),
}

/// Maximum depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Directives and their attributes in `cn=config`. Most of these attributes are not named `olc` and the directive.
const RENAMED: [(&str, &str); 18] = [
    ("access", "olcaccess"),
    ("index", "olcdbindex"),
    ("directory", "olcdbdirectory"),
    ("maxsize", "olcdbmaxsize"),
    ("checkpoint", "olcdbcheckpoint"),
    ("cachesize", "olcdbcachesize"),
    ("idletimeout", "olcidletimeout"),
    ("allow", "olcallows"),
    ("disallow", "olcdisallows"),
    ("require", "olcrequires"),
    ("limits", "olclimits"),
    ("pidfile", "olcpidfile"),
    ("objectidentifier", "olcobjectidentifier"),
    ("ldapsyntax", "olcldapsyntaxes"),
    ("attributetype", "olcattributetypes"),
    ("attribute", "olcattributetypes"),
    ("objectclass", "olcobjectclasses"),
    ("sasl-regexp", "olcauthzregexp"),
];

/// Directives of overlays, with their names in `cn=config`.
const OF_OVERLAYS: [(&str, &str); 12] = [
    ("ppolicy_default", "olcppolicydefault"),
    ("ppolicy_hash_cleartext", "olcppolicyhashcleartext"),
    ("ppolicy_use_lockout", "olcppolicyuselockout"),
    ("unique_uri", "olcuniqueuri"),
    ("unique_base", "olcuniquebase"),
    ("unique_attributes", "olcuniqueattribute"),
    ("refint_attributes", "olcrefintattribute"),
    ("refint_nothing", "olcrefintnothing"),
    ("constraint_attribute", "olcconstraintattribute"),
    ("memberof-group-oc", "olcmemberofgroupoc"),
    ("memberof-member-ad", "olcmemberofmemberad"),
    ("memberof-memberof-ad", "olcmemberofmemberofad"),
];

/// Adds a slapd.conf to a configuration. Calls `include` to read an included file.
pub fn read_slapd_conf(
    configuration: &mut Configuration,
    file: &str,
    text: &str,
    include: &mut dyn FnMut(&str) -> Included,
) {
    configuration.entries.push(ConfigEntry { dn: "cn=config".to_owned(), values: Vec::new() });
    add_text(configuration, file, text, include, 0);
}

fn add_text(
    configuration: &mut Configuration,
    file: &str,
    text: &str,
    include: &mut dyn FnMut(&str) -> Included,
    depth: usize,
) {
    for (line, logical) in logical_lines(text) {
        let place = format!("{file} line {line}");
        let (directive, rest) = logical.split_once([' ', '\t']).unwrap_or((logical.as_str(), ""));
        let (directive, rest) = (directive.to_ascii_lowercase(), rest.trim());
        match directive.as_str() {
            "include" => {
                let name = unquoted(rest);
                match include(&name) {
                    Included::Schema => configuration.schema_files.push(name),
                    Included::Text(text) if depth < INCLUDE_DEPTH_MAX => {
                        add_text(configuration, &name, &text, include, depth + 1);
                    }
                    Included::Text(_) => {
                        configuration.unread.push(format!("{place}: too many files include others"))
                    }
                    Included::Unreadable(reason) => {
                        configuration.unread.push(format!("{place}: {name}: {reason}"))
                    }
                }
            }
            "database" => {
                let number = configuration.entries.len();
                let dn = format!("olcDatabase={{{number}}}{rest},cn=config");
                let value = ConfigValue { place, name: "olcdatabase".to_owned(), value: rest.to_owned() };
                configuration.entries.push(ConfigEntry { dn, values: vec![value] });
            }
            "overlay" => {
                let parent = database_name(configuration);
                let dn = format!("olcOverlay={rest},{parent}");
                let value = ConfigValue { place, name: "olcoverlay".to_owned(), value: rest.to_owned() };
                configuration.entries.push(ConfigEntry { dn, values: vec![value] });
            }
            _ => add_value(
                configuration,
                &directive,
                ConfigValue { place, name: String::new(), value: rest.to_owned() },
            ),
        }
    }
}

/// Adds a directive to its entry: to the last overlay if the directive belongs to an overlay, otherwise to the last
/// database. Directives before the first database belong to the global entry.
fn add_value(configuration: &mut Configuration, directive: &str, value: ConfigValue) {
    let named = |table: &[(&str, &str)]| {
        table.iter().find(|(name, _)| *name == directive).map(|(_, attribute)| (*attribute).to_owned())
    };
    let of_overlay = named(&OF_OVERLAYS);
    let prefix = directive.split(['-', '_']).next().unwrap_or_default();
    let last = configuration.entries.last();
    let is_of_overlay = of_overlay.is_some()
        || last.is_some_and(|entry| entry.says("olcoverlay", prefix) && prefix != directive);
    let name = of_overlay
        .or_else(|| named(&RENAMED))
        .unwrap_or_else(|| format!("olc{}", directive.replace(['-', '_'], "")));
    let plain = if name == "olcaccess" { value.value.clone() } else { unquoted(&value.value) };
    let value = ConfigValue { name, value: plain, ..value };
    let entries = configuration.entries.iter_mut().rev();
    let entry = if is_of_overlay {
        entries.into_iter().next()
    } else {
        let mut entries = entries;
        entries.find(|entry| !entry.values.iter().any(|value| value.name == "olcoverlay"))
    };
    if let Some(entry) = entry {
        entry.values.push(value);
    }
}

/// Returns the name of the last database.
fn database_name(configuration: &Configuration) -> String {
    let mut entries = configuration.entries.iter().rev();
    let database = entries.find(|entry| entry.dn.starts_with("olcDatabase") || entry.dn == "cn=config");
    database.map(|entry| entry.dn.clone()).unwrap_or_default()
}

/// Returns the logical lines without comments. A physical line that begins with a blank continues the previous line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_continuation = line.starts_with([' ', '\t']);
        match lines.last_mut() {
            // A continuation of a comment is a comment.
            Some((_, last)) if is_continuation => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push((number + 1, line.trim().to_owned())),
        }
    }
    lines.retain(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
}

/// Removes quotes around a whole directive; returns other directives unchanged.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.filter(|inner| !inner.replace("\\\"", "").contains('"'));
    inner.map_or_else(|| text.to_owned(), |inner| inner.replace("\\\"", "\""))
}
