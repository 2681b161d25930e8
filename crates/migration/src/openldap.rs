//! OpenLDAP: slapd.conf(5), slapd-config(5), and the overlays of its releases 2.4 to 2.6.

mod overlays;

use access_rules::translate;
use directory::index::IndexKinds;
use ldap::ldif::put_ldif_line;

use crate::configuration::{ConfigEntry, ConfigValue, Configuration};
use crate::found::{Found, in_toml, quoted, without_number};

/// Types of databases with data.
const OF_DATA: [&str; 5] = ["mdb", "hdb", "bdb", "ldif", "wt"];

/// Types of databases that have no suffix and do not belong to an overlay.
const ALONE: [&str; 3] = ["config", "frontend", "monitor"];

/// Attributes that Pando does not need, because it sizes, names and writes its files itself.
const NEEDLESS: [&str; 49] = [
    "createtimestamp",
    "creatorsname",
    "modifiersname",
    "modifytimestamp",
    "entrycsn",
    "entryuuid",
    "structuralobjectclass",
    "objectclass",
    "cn",
    "olcdatabase",
    "olcoverlay",
    "olcargsfile",
    "olcpidfile",
    "olcconfigfile",
    "olcconfigdir",
    "olcmodulepath",
    "olcmoduleload",
    "olcdbdirectory",
    "olcdbmaxsize",
    "olcdbmaxreaders",
    "olcdbcheckpoint",
    "olcdbcachesize",
    "olcdbidlcachesize",
    "olcdbconfig",
    "olcdbmode",
    "olcdbsearchstack",
    "olcdbenvflags",
    "olcdbnosync",
    "olcdbrtxnsize",
    "olctoolthreads",
    "olcthreads",
    "olcthreadqueues",
    "olclistenerthreads",
    "olcindexsubstrifmaxlen",
    "olcindexsubstrifminlen",
    "olcindexsubstranylen",
    "olcindexsubstranystep",
    "olcindexintlen",
    "olcindexhash64",
    "olclastmod",
    "olcaddcontentacl",
    "olcschemadn",
    "olcmaxderefdepth",
    "olcsaslsecprops",
    "olcreverselookup",
    // These attributes are read before all other attributes.
    "olcobjectidentifier",
    "olcldapsyntaxes",
    "olcattributetypes",
    "olcobjectclasses",
];

/// Database to which the overlays that follow in the configuration belong.
enum Place {
    /// The frontend, whose overlays apply to all databases. In a slapd.conf, these overlays come first.
    All,
    Data,
    /// A database whose data are not migrated.
    Other,
}

/// Access rules of one database.
struct DatabaseRules {
    suffix: String,
    rules: Vec<String>,
}

/// Reads the configuration of a slapd.
pub(crate) fn analyse(configuration: &Configuration, found: &mut Found) {
    // Definitions that are written in slapd.conf itself are in the entry `cn=config`.
    for entry in configuration.entries.iter().filter(|entry| !has_definitions_of_slapd(entry)) {
        found.add_definitions(entry);
    }
    let mut databases: Vec<DatabaseRules> = Vec::new();
    let mut for_all: Vec<String> = Vec::new();
    let mut place = Place::All;
    for entry in configuration.entries.iter().filter(|entry| !is_schema(entry)) {
        let rules =
            || entry.all("olcaccess").map(|rule| without_number(rule).to_owned()).collect::<Vec<String>>();
        let database = entry.first("olcdatabase").map(|name| without_number(name).to_ascii_lowercase());
        if entry.first("olcoverlay").is_some() {
            match place {
                Place::All => overlays::analyse(entry, "", found),
                Place::Data => {
                    overlays::analyse(entry, databases.last().map_or("", |last| &last.suffix), found)
                }
                Place::Other => {}
            }
            continue;
        }
        match database.as_deref() {
            // This is a database of an overlay: those of chain, pcache and translucent have no suffix.
            Some(kind) if !ALONE.contains(&kind) && entry.first("olcsuffix").is_none() => {
                entry
                    .values
                    .iter()
                    .filter(|value| !NEEDLESS.contains(&value.name.as_str()))
                    .for_each(|value| found.skip(value));
            }
            None | Some("frontend") => {
                if database.is_some() {
                    place = Place::All;
                }
                for_all.extend(rules());
                values(entry, found);
            }
            Some(kind) if OF_DATA.contains(&kind) && !is_of_log(entry) => {
                place = Place::Data;
                let suffix = entry.first("olcsuffix").unwrap_or_default().to_owned();
                databases.push(DatabaseRules { suffix, rules: rules() });
                values(entry, found);
            }
            Some(kind) => {
                place = Place::Other;
                other_database(entry, kind, found);
            }
        }
    }
    access(&databases, &for_all, found);
}

/// Returns true if an entry contains slapd's built-in schema definitions. Users' definitions are in other entries.
fn has_definitions_of_slapd(entry: &ConfigEntry) -> bool {
    ["cn=schema", "cn=schema,cn=config"].iter().any(|name| entry.dn.eq_ignore_ascii_case(name))
}

/// Returns true if an entry contains only schema definitions.
fn is_schema(entry: &ConfigEntry) -> bool {
    let is_numbered = entry.dn.to_ascii_lowercase().starts_with("cn={");
    is_numbered
        && (entry.says("objectclass", "olcSchemaConfig") || entry.first("olcattributetypes").is_some())
}

/// Returns true if a database stores the log of the overlay accesslog.
fn is_of_log(entry: &ConfigEntry) -> bool {
    entry.first("olcsuffix").is_some_and(|suffix| suffix.to_ascii_lowercase().starts_with("cn=accesslog"))
}

fn other_database(entry: &ConfigEntry, kind: &str, found: &mut Found) {
    let place = entry.dn.clone();
    match kind {
        "config" => {
            found.has_built_in("cn=config", "the settings are entries below cn=config, for the administrator")
        }
        "monitor" => found.has_built_in("cn=monitor", "the administrator and `monitor_readers` may read it"),
        _ if is_of_log(entry) => found.decide(
            place,
            "the database of the overlay accesslog",
            "Its entries are not migrated. The audit trail records changes: `audit.folder` of the node file.",
        ),
        "ldap" | "meta" | "asyncmeta" | "relay" => found.decide(
            place,
            format!("a database of type {kind}"),
            "Pando has no proxy. Load the other server's data into a suffix of its own, or follow it.",
        ),
        _ => found.decide(
            place,
            format!("a database of type {kind}"),
            "Pando has no counterpart. Export its data, and import that into a suffix.",
        ),
    }
}

/// Reads the attributes of the global entry, the frontend, or a database with data.
fn values(entry: &ConfigEntry, found: &mut Found) {
    for value in &entry.values {
        value_of(value, found);
    }
}

fn value_of(value: &ConfigValue, found: &mut Found) {
    let text = value.value.trim();
    match value.name.as_str() {
        "olcaccess" => {}
        "olcsuffix" => found.add_suffix(text),
        "olcrootdn" => {
            if !text.to_ascii_lowercase().ends_with("cn=config") {
                found.settings.insert("administrator", in_toml(text));
            }
        }
        "olcrootpw" => found.decide(
            value.place.as_str(),
            "the administrator's password",
            "It is not copied. Set a new one with `admin_password_file` of the node file.",
        ),
        "olcdbindex" => index(value, found),
        "olcsizelimit" | "olctimelimit" => limit(value, found),
        "olclimits" => limits(value, found),
        "olcidletimeout" => number(value, "idle_timeout_seconds", found),
        "olcconnmaxpendingauth" => number(value, "limits.outstanding", found),
        "olcsockbufmaxincomingauth" => number(value, "limits.message_size", found),
        "olctlscertificatefile" => drop(found.node.insert("tls.certificate", in_toml(text))),
        "olctlscertificatekeyfile" => drop(found.node.insert("tls.key", in_toml(text))),
        "olctlscacertificatefile" => drop(found.node.insert("tls.client_authorities", in_toml(text))),
        "olctlsverifyclient" if ["never", "allow"].contains(&text) => {}
        "olctlsverifyclient" => {
            found.node.insert("tls.client_certificates_required", (text == "demand" || text == "hard").to_string());
        }
        "olctlsprotocolmin" => {
            found.node.insert("tls.minimum_version", if text == "3.4" { "\"1.3\"" } else { "\"1.2\"" }.to_owned());
        }
        "olcdisallows" if text.contains("bind_anon") => drop(found.node.insert("weakest_bind", in_toml("password"))),
        "olcrequires" if text.to_ascii_lowercase().contains("authc") => {
            found.node.insert("weakest_bind", in_toml("password"));
        }
        "olcsecurity" => security(value, found),
        "olcpasswordhash" => found.decide_value(
            value,
            "Stored hashes are imported and verified as they are. New passwords get the scheme of the setting \
             `password_scheme`, by default argon2id.",
        ),
        "olcreadonly" if text.eq_ignore_ascii_case("true") => {
            found.decide_value(value, "Pando has no read-only suffix: an access rule denies changes.");
        }
        "olcsyncrepl" | "olcmirrormode" | "olcmultiprovider" | "olcupdateref" | "olcupdatedn" => found.decide_value(
            value,
            "Set up replication again: a cluster, or a server that follows another (docs/how-to/follow.md).",
        ),
        "olcauthzpolicy" if text == "none" => {}
        "olcauthzregexp" | "olcauthidrewrite" | "olcsaslrealm" | "olcsaslhost" | "olcauthzpolicy" => found.decide_value(
            value,
            "Names of SASL are looked up in `identity_attributes`, by default uid: see docs/how-to/sasl.md.",
        ),
        "olcloglevel" => found.decide_value(value, "See `log.level` and `log.operations` of the node file."),
        "olcreferral" => found.decide_value(value, "There is no default referral here; referral entries are kept."),
        "olcallows" | "olcdisallows" | "olcrequires" | "olcrestrict" => {
            found.decide_value(value, "See `weakest_bind` of the node file, and access rules.");
        }
        "olcsubordinate" => found.has_built_in("subordinate databases", "all suffixes are one tree"),
        "olcmonitoring" => found.has_built_in("olcMonitoring", "cn=monitor counts all operations"),
        name if NEEDLESS.contains(&name) => {}
        _ => found.skip(value),
    }
}

/// Reads `olcSecurity: ssf=N tls=N simple_bind=N ...`. A factor of 0 requires nothing (slapd.conf(5)).
fn security(value: &ConfigValue, found: &mut Found) {
    let mut need = None;
    let mut is_whole = true;
    for word in value.value.split_whitespace() {
        let (factor, number) = word.split_once('=').unwrap_or((word, ""));
        match (factor.to_ascii_lowercase().as_str(), number.parse::<u32>()) {
            (_, Ok(0)) => {}
            ("ssf" | "tls" | "transport", Ok(_)) => need = Some("everything"),
            ("simple_bind", Ok(_)) => need = need.or(Some("passwords")),
            _ => is_whole = false,
        }
    }
    // Keep a stricter requirement of the global entry, because a database may require less.
    let everything = in_toml("everything");
    if let Some(need) = need.map(in_toml).filter(|_| found.node.get("tls.needed_for") != Some(&everything)) {
        found.node.insert("tls.needed_for", need);
    }
    // slapd repeats the factors of the global entry in each database.
    let is_repeated =
        found.decisions.iter().any(|known| known.what.strip_prefix("olcsecurity: ") == Some(&value.value));
    match need {
        _ if is_repeated => {}
        Some(need) if is_whole => {
            let advice = format!("Proposed as `tls.needed_for = \"{need}\"`; there are no strengths here.");
            found.decide_value(value, advice);
        }
        _ if !is_whole => found.decide_value(
            value,
            "Only ssf, tls, transport and simple_bind have a counterpart: see `tls.needed_for` of the node file.",
        ),
        _ => found.has_built_in("olcSecurity", "it demands nothing; Pando still wants TLS for passwords"),
    }
}

/// Reads `olcDbIndex: cn,sn eq,sub`.
fn index(value: &ConfigValue, found: &mut Found) {
    let mut words = value.value.split_whitespace();
    let attributes = words.next().unwrap_or_default();
    let mut kinds = IndexKinds::NONE;
    for kind in words.flat_map(|word| word.split(',')) {
        kinds = kinds.with(match kind.to_ascii_lowercase().as_str() {
            "eq" => IndexKinds::EQUALITY,
            // The equality index answers presence if few entries have the attribute.
            "pres" => IndexKinds::PRESENCE,
            "sub" | "subany" => IndexKinds::SUBSTRING.with(IndexKinds::ORDERING),
            "subinitial" => IndexKinds::ORDERING,
            "subfinal" => IndexKinds::SUBSTRING,
            "approx" => IndexKinds::APPROXIMATE,
            "nolang" | "nosubtypes" | "notags" => IndexKinds::NONE,
            _ => {
                found.decide_value(value, format!("Pando has no index of the kind {kind}."));
                IndexKinds::NONE
            }
        });
    }
    for attribute in attributes.split(',').filter(|attribute| *attribute != "default") {
        found.add_index(&value.place, attribute, kinds);
    }
}

/// Reads `olcSizeLimit: 500`, or with words such as `size.soft=500 size.hard=1000`.
fn limit(value: &ConfigValue, found: &mut Found) {
    let key = if value.name == "olcsizelimit" { "limits.size_limit" } else { "limits.time_limit_seconds" };
    // Uses the hard limit, if there is one: Pando has no soft limits.
    let words: Vec<&str> = value.value.split_whitespace().collect();
    let hard = words.iter().find_map(|word| word.split_once('=').filter(|(name, _)| name.ends_with("hard")));
    let chosen = hard.or_else(|| words.first().map(|word| word.split_once('=').unwrap_or(("", word))));
    let number = match chosen.map(|(_, number)| number) {
        Some("unlimited" | "none" | "-1") => Some(0),
        number => number.and_then(|number| number.parse::<u32>().ok()),
    };
    match number {
        Some(number) => drop(found.settings.insert(key, number.to_string())),
        None => found.decide_value(value, format!("Not understood: see `{key}`.")),
    }
}

/// Reads `olcLimits: WHO size=... time=...` as a table `[[limit]]`.
fn limits(value: &ConfigValue, found: &mut Found) {
    let text = without_number(&value.value);
    let words = words_of(text);
    let who = words.first().map(String::as_str).unwrap_or_default();
    let group =
        |rest: &str| rest.split_once('=').map(|(_, dn)| format!("members of {}", dn.trim_matches('"')));
    let selector = match who {
        "anonymous" => Some("anonymous".to_owned()),
        "users" => Some("users".to_owned()),
        _ if who.starts_with("group") => group(who),
        _ if who.starts_with("dn=") || who.starts_with("dn.exact=") || who.starts_with("dn.base=") => {
            who.split_once('=').map(|(_, dn)| dn.trim_matches('"').to_owned())
        }
        _ => None,
    };
    let mut lines = Vec::new();
    let mut is_whole = selector.is_some();
    for word in words.iter().skip(1) {
        let (name, number) = word.split_once('=').unwrap_or((word, ""));
        let number = if ["unlimited", "none", "-1"].contains(&number) { "0" } else { number };
        match name {
            "size" | "size.hard" if number.parse::<u32>().is_ok() => lines.push(format!("size = {number}")),
            "time" | "time.hard" if number.parse::<u32>().is_ok() => {
                lines.push(format!("time_seconds = {number}"))
            }
            "size.unchecked" if number.parse::<u32>().is_ok() => lines.push(format!("examined = {number}")),
            "size.soft" | "time.soft" | "size.pr" | "size.prtotal" => {}
            _ => is_whole = false,
        }
    }
    match selector.filter(|_| is_whole && !lines.is_empty()) {
        Some(selector) => {
            lines.insert(0, format!("for = [{}]", in_toml(&selector)));
            found.limits.push(lines);
        }
        None => {
            found.decide_value(value, "Not translated: write a table `[[limit]]` (docs/how-to/limits.md).")
        }
    }
}

fn number(value: &ConfigValue, key: &'static str, found: &mut Found) {
    match value.value.trim().parse::<u32>() {
        Ok(number) => drop(found.node.insert(key, number.to_string())),
        Err(_) => found.decide_value(value, format!("Not a number: see `{key}` of the node file.")),
    }
}

/// Translates the access rules. slapd applies the rules of the database, then the rules for all databases. If there are
/// no rules, slapd allows all clients to read. Rules that apply in only some of the databases are not translated.
fn access(databases: &[DatabaseRules], for_all: &[String], found: &mut Found) {
    let (ruled, unruled): (Vec<&DatabaseRules>, Vec<&DatabaseRules>) =
        databases.iter().partition(|database| !database.rules.is_empty());
    if ruled.is_empty() && for_all.is_empty() {
        if !databases.is_empty() {
            found.settings.insert("anonymous_read", "true".to_owned());
            found.decide(
                "access rules",
                "there are none: anonymous clients read everything",
                "Proposed as `anonymous_read = true`. Without it, only users read.",
            );
        }
        return;
    }
    if !ruled.is_empty() && databases.len() > 1 {
        let suffixes = |of: &[&DatabaseRules]| {
            of.iter().map(|database| database.suffix.as_str()).collect::<Vec<&str>>().join(", ")
        };
        let what = match unruled.as_slice() {
            [] => format!("rules of several databases: {}", suffixes(&ruled)),
            unruled => {
                format!("rules of: {}; databases without rules: {}", suffixes(&ruled), suffixes(unruled))
            }
        };
        found.decide(
            "access rules",
            what,
            "The rules of one database do not apply in the others, but translated together they would. They are left \
             out, so that users read everything but passwords: translate each with `pando access translate`, and limit \
             them to their suffix with `in`. In a database without rules, slapd applies only the rules for all \
             databases; if there are none, anonymous clients read everything.",
        );
        return;
    }
    let mut text = Vec::new();
    put_ldif_line(&mut text, "dn", b"olcDatabase={1}mdb,cn=config");
    for rule in ruled.iter().flat_map(|database| &database.rules).chain(for_all) {
        put_ldif_line(&mut text, "olcAccess", rule.as_bytes());
    }
    found.add_rules(&translate(&String::from_utf8_lossy(&text)));
}

/// Splits at blanks outside of quotes.
fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
