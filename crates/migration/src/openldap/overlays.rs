//! The overlays of a database, which the manual pages slapo-*(5) describe.

use directory::index::IndexKinds;
use ldap::LdapUrl;

use super::{NEEDLESS, quoted, words_of};
use crate::configuration::{ConfigEntry, ConfigValue};
use crate::found::{Found, in_toml, without_number};

/// Overlays that need no settings, with Pando's counterpart.
const BUILT_IN: [(&str, &str); 11] = [
    ("memberof", "memberOf is computed from the groups, and cannot be out of date"),
    ("syncprov", "every server serves RFC 4533"),
    ("sssvlv", "sorting and virtual list views are built in"),
    ("deref", "the dereference control is built in"),
    ("dynlist", "groupOfURLs are evaluated by the server; lists of attributes are not"),
    ("dyngroup", "groupOfURLs are evaluated by the server"),
    ("nestgroup", "isMemberOf includes nested groups; see `nested_member_of`"),
    ("noopsrch", "the search No-Op control is built in"),
    ("otp", "one-time codes are part of password policies; users need new keys"),
    ("lastbind", "`pandoPwdLastSuccess` of a policy records the last bind"),
    ("slapover", "overlays are part of the server"),
];

/// Overlays without an equivalent counterpart, with advice.
const ADVICE: [(&str, &str); 14] = [
    ("accesslog", "Changes are in Pando's log, and in the audit trail: `audit.folder` of the node file."),
    ("auditlog", "The audit trail records changes: `audit.folder` of the node file."),
    ("dds", "Dynamic entries (RFC 2589): see docs/reference/protocol.md for what this version has."),
    ("collect", "Collective attributes are in subentries (RFC 3671): see docs/how-to/values.md."),
    ("valsort", "Values are not sorted: sort them in the client."),
    ("rwm", "Names and attributes are not rewritten: change the data once, with `--map` of `pando import`."),
    ("chain", "Referrals are not chased by the server."),
    ("pcache", "Pando has no proxy cache."),
    ("translucent", "Pando has no proxy."),
    ("retcode", "Pando returns no prepared errors."),
    ("remoteauth", "Passwords can be verified by another server: `pass_through` of the node file."),
    ("homedir", "Home directories are not created by the server."),
    ("smbk5pwd", "Samba and Kerberos keys are not derived from passwords."),
    ("autogroup", "groupOfURLs are evaluated by the server; its static members are not updated."),
];

/// Reads one overlay of the database with this suffix. The suffix is empty for an overlay of all databases.
pub(super) fn analyse(entry: &ConfigEntry, suffix: &str, found: &mut Found) {
    let name = without_number(entry.first("olcoverlay").unwrap_or_default()).to_ascii_lowercase();
    let own = |value: &&ConfigValue| !NEEDLESS.contains(&value.name.as_str());
    match name.as_str() {
        "ppolicy" => entry.values.iter().filter(own).for_each(|value| password_policy(value, found)),
        "refint" => {
            let attributes =
                entry.all("olcrefintattribute").flat_map(str::split_whitespace).map(str::to_owned);
            found.add_integrity(&entry.dn, attributes);
            for value in entry.values.iter().filter(own).filter(|value| value.name != "olcrefintattribute") {
                found.decide_value(
                    value,
                    "The value of a deleted entry is removed, or replaced by the empty name.",
                );
            }
        }
        "unique" => unique(entry, suffix, found),
        "constraint" => {
            entry.all("olcconstraintattribute").for_each(|text| constraint(entry, text, suffix, found));
        }
        _ => {
            if let Some((_, how)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
                found.has_built_in(&format!("overlay {name}"), how);
            } else {
                let known = ADVICE.iter().find(|(known, _)| *known == name).map(|(_, advice)| *advice);
                found.decide(
                    &entry.dn,
                    format!("overlay {name}"),
                    known.unwrap_or("Pando has no counterpart."),
                );
            }
            for value in entry.values.iter().filter(own) {
                member_of(value, found);
            }
        }
    }
}

fn password_policy(value: &ConfigValue, found: &mut Found) {
    match value.name.as_str() {
        // The policy itself is an entry of the data, which is imported.
        "olcppolicydefault" => drop(found.settings.insert("password_policy", in_toml(&value.value))),
        "olcppolicyhashcleartext" => {
            found.has_built_in("ppolicy_hash_cleartext", "clear passwords are always hashed")
        }
        "olcppolicyuselockout" if !value.value.eq_ignore_ascii_case("false") => {
            found.decide_value(
                value,
                "`pandoPwdTellLock` of a policy: whether a bind reports that the account is locked.",
            );
        }
        // slapd also writes disabled switches to its configuration.
        _ if value.value.eq_ignore_ascii_case("false") => {}
        _ => found
            .decide_value(value, "Policies have no such switch here: see docs/how-to/password-policies.md."),
    }
}

/// Reads an attribute of the overlay memberof. Pando computes memberOf without settings.
fn member_of(value: &ConfigValue, found: &mut Found) {
    let is_default = match value.name.as_str() {
        "olcmemberofgroupoc" => value.value.eq_ignore_ascii_case("groupOfNames"),
        "olcmemberofmemberad" => value.value.eq_ignore_ascii_case("member"),
        "olcmemberofmemberofad" => value.value.eq_ignore_ascii_case("memberOf"),
        "olcmemberofdangling" => {
            if !value.value.eq_ignore_ascii_case("ignore") {
                found.decide_value(value, "A group may name members that do not exist here.");
            }
            return;
        }
        "olcmemberofrefint" | "olcmemberofdn" => true,
        _ => {
            found.skip(value);
            return;
        }
    };
    if !is_default {
        found.decide_value(
            value,
            "memberOf is computed from member and uniqueMember, for every class of groups.",
        );
    }
}

/// Reads `olcUniqueURI: [strict] [ignore] ldap:///BASE?ATTRIBUTES?SCOPE?FILTER`, and the older form.
fn unique(entry: &ConfigEntry, suffix: &str, found: &mut Found) {
    let base = entry.first("olcuniquebase").unwrap_or(suffix);
    let attributes: Vec<String> =
        entry.all("olcuniqueattribute").flat_map(str::split_whitespace).map(str::to_owned).collect();
    for attribute in attributes {
        found.add_unique(&entry.dn, &[attribute], base, "");
    }
    for domain in entry.values.iter().filter(|value| value.name == "olcuniqueuri") {
        let words = words_of(&domain.value);
        if words.iter().any(|word| word.eq_ignore_ascii_case("ignore")) {
            found.decide_value(
                domain,
                "Pando has no rule for all attributes except some: write one for each.",
            );
            continue;
        }
        for uri in words.iter().filter(|word| word.starts_with("ldap:")) {
            let url = LdapUrl::parse(uri);
            let Ok(url) = url else {
                found.decide_value(domain, "The URL cannot be read.");
                continue;
            };
            let types: Vec<String> = url.attributes.clone();
            if types.is_empty() {
                found.decide_value(domain, "Pando has no rule for all attributes: write one for each.");
            }
            let base = if url.dn.is_empty() { suffix } else { &url.dn };
            // Different attributes of one URL may have the same value, so each attribute gets a separate rule.
            for attribute in types {
                found.add_unique(
                    &domain.place,
                    &[attribute],
                    base,
                    url.filter.as_deref().unwrap_or_default(),
                );
            }
        }
    }
}

/// Reads `olcConstraintAttribute: ATTRIBUTES KIND VALUE [restrict=URL]`.
fn constraint(entry: &ConfigEntry, text: &str, suffix: &str, found: &mut Found) {
    let words = words_of(without_number(text));
    match limit(&words, suffix, found) {
        Ok(Limit { text, source }) => {
            if let Some(source) = source {
                found.add_index(&entry.dn, &source, IndexKinds::EQUALITY);
            }
            let number = found.lists.get("value_limits").map_or(0, Vec::len) + 1;
            found.list("value_limits", format!("limit{number}: {text}"));
        }
        Err(why) => found.decide(&entry.dn, format!("constraint {text}"), why),
    }
}

/// A rule that limits the values of an attribute.
struct Limit {
    /// Text of the rule without its name.
    text: String,
    /// Attribute with the allowed values, which needs an index.
    source: Option<String>,
}

/// Converts a constraint. If that is not possible, the error contains advice for the administrator.
fn limit(words: &[String], suffix: &str, found: &Found) -> Result<Limit, &'static str> {
    let (Some(attributes), Some(kind), Some(value)) = (words.first(), words.get(1), words.get(2)) else {
        return Err("Not understood: see docs/how-to/values.md.");
    };
    let value = value.trim_matches('"');
    let mut source = None;
    let limit = match (kind.as_str(), value.parse::<u32>()) {
        ("count", Ok(count)) => format!("at most {count} values"),
        ("size", Ok(size)) => format!("at most {size} octets"),
        ("negregex", _) => return Err("Pando has no pattern that values must not match."),
        ("regex", _) => match quoted(&whole_value_pattern(value)) {
            Some(pattern) => format!("like {pattern}"),
            None => return Err("The pattern has a quote: write the limit by hand (docs/how-to/values.md)."),
        },
        ("uri", _) => {
            let mut url = LdapUrl::parse(value).map_err(|_| "The URL cannot be read.")?;
            let [attribute] = url.attributes.as_slice() else {
                return Err("Allowed values come from one attribute here: see docs/how-to/values.md.");
            };
            if url.host.is_some() || found.is_link(attribute) {
                return Err("Allowed values come from this directory, and name no entries.");
            }
            source = Some(attribute.clone());
            if url.dn.is_empty() {
                suffix.clone_into(&mut url.dn);
            }
            let text = quoted(&url.to_string());
            format!("from {}", text.ok_or("The URL has a quote: write the limit by hand.")?)
        }
        _ => return Err("Pando has no constraint of this kind: see docs/how-to/values.md."),
    };
    let mut text = format!("{} {limit}", attributes.replace(',', ", "));
    for word in words.iter().skip(3) {
        let url = word.strip_prefix("restrict=").and_then(|url| LdapUrl::parse(url.trim_matches('"')).ok());
        let url = url.filter(|url| url.dn.is_empty() || url.dn.eq_ignore_ascii_case(suffix));
        let filter = url.and_then(|url| url.filter).and_then(|filter| quoted(&filter));
        let filter = filter.ok_or("Only filters can limit a constraint: see docs/how-to/values.md.")?;
        text += &format!(" matching {filter}");
    }
    Ok(Limit { text, source })
}

/// Converts a pattern that is searched within a value to a pattern for the whole value.
fn whole_value_pattern(pattern: &str) -> String {
    let (start, rest) = pattern.strip_prefix('^').map_or((".*", pattern), |rest| ("", rest));
    let (end, rest) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => ("", rest),
        _ => (".*", rest),
    };
    // Anchors may be used only if there are no alternatives, because an anchor applies only to its own alternative.
    if start.is_empty() && end.is_empty() && !rest.contains('|') {
        return rest.to_owned();
    }
    if rest.contains('|') && (start.is_empty() || end.is_empty()) {
        return format!(".*(?:{pattern}).*");
    }
    format!("{start}(?:{rest}){end}")
}
