//! OpenDJ: config.ldif, or the same entries below `cn=config` over LDAP.

use directory::index::IndexKinds;

use crate::configuration::{ConfigEntry, ConfigValue, Configuration};
use crate::found::{Found, in_toml};

/// Reads the configuration of an OpenDJ.
pub(crate) fn analyse(configuration: &Configuration, found: &mut Found) {
    for entry in configuration.entries.iter().filter(|entry| entry.dn.eq_ignore_ascii_case("cn=schema")) {
        found.add_definitions(entry);
    }
    let mut backends: Vec<String> = Vec::new();
    for entry in &configuration.entries {
        if is_data(entry) && !entry.says("ds-cfg-enabled", "false") {
            entry.all("ds-cfg-base-dn").for_each(|suffix| found.add_suffix(suffix));
            backends.push(entry.dn.to_ascii_lowercase().replace(", ", ","));
        }
    }
    for entry in &configuration.entries {
        if entry.dn.eq_ignore_ascii_case("cn=config") {
            entry.values.iter().for_each(|value| global_value(value, found));
        } else if entry.says("objectclass", "ds-cfg-backend-index") {
            if backends.iter().any(|backend| entry.is_below(backend)) {
                index(entry, found);
            }
        } else if entry.says("objectclass", "ds-cfg-backend-vlv-index") {
            let advice = "Virtual list views need no index; one helps: docs/explanation/indexes.md.";
            found.decide(&entry.dn, "a VLV index", advice);
        } else if entry.says("objectclass", "ds-cfg-plugin") {
            plugin(entry, found);
        } else if entry.says("objectclass", "ds-cfg-password-policy") {
            policy(entry, found);
        } else if entry.says("objectclass", "ds-cfg-root-dn-user") {
            administrator(entry, found);
        } else if entry.says("objectclass", "ds-cfg-replication-domain") {
            found.decide(
                &entry.dn,
                "a domain of replication",
                "Set up replication again: docs/how-to/cluster.md.",
            );
        } else if is_left_out(entry) {
            found.skip_entry(entry);
        }
        let rules: Vec<&str> = entry.all("ds-cfg-global-aci").collect();
        if !rules.is_empty() {
            let text: String = rules
                .iter()
                .map(|rule| format!("ds-cfg-global-aci: {}\n", rule.replace('\n', " ")))
                .collect();
            found.add_rules(&access_rules::translate(&format!("dn: {}\n{text}", entry.dn)));
        }
    }
}

/// Returns true if an entry that was not read has an effect in OpenDJ: it is enabled, and is not only a container of
/// other entries.
fn is_left_out(entry: &ConfigEntry) -> bool {
    !(is_data(entry)
        || entry.says("ds-cfg-enabled", "false")
        || entry.says("objectclass", "ds-cfg-branch")
        || entry.dn.eq_ignore_ascii_case("cn=schema"))
}

/// Returns true if an entry is a backend with data, not a backend for the schema, tasks, backups and similar.
fn is_data(entry: &ConfigEntry) -> bool {
    ["ds-cfg-local-db-backend", "ds-cfg-pluggable-backend", "ds-cfg-je-backend", "ds-cfg-pdb-backend"]
        .iter()
        .any(|class| entry.says("objectclass", class))
}

fn global_value(value: &ConfigValue, found: &mut Found) {
    let text = value.value.trim();
    let first = text.split_whitespace().next().unwrap_or_default();
    match value.name.as_str() {
        "ds-cfg-size-limit" => drop(found.settings.insert("limits.size_limit", first.to_owned())),
        "ds-cfg-time-limit" => match seconds(text) {
            Some(seconds) => drop(found.settings.insert("limits.time_limit_seconds", seconds.to_string())),
            None => found.decide_value(value, "Not understood: see `limits.time_limit_seconds`."),
        },
        "ds-cfg-idle-time-limit" => match seconds(text) {
            Some(seconds) => drop(found.node.insert("idle_timeout_seconds", seconds.to_string())),
            None => found.decide_value(value, "Not understood: see `idle_timeout_seconds` of the node file."),
        },
        "ds-cfg-reject-unauthenticated-requests" if text == "true" => {
            found.node.insert("weakest_bind", in_toml("password"));
        }
        "ds-cfg-writability-mode" if text != "enabled" => {
            found.decide_value(value, "Pando has no such switch: an access rule denies changes.");
        }
        "ds-cfg-lookthrough-limit" => {
            found.decide_value(
                value,
                "Searches without an index are limited by their cost: docs/how-to/limits.md.",
            );
        }
        _ => found.skip(value),
    }
}

fn administrator(entry: &ConfigEntry, found: &mut Found) {
    let names: Vec<&str> = entry.all("ds-cfg-alternate-bind-dn").collect();
    match names.as_slice() {
        [] => {}
        [name] if !found.settings.contains_key("administrator") => {
            found.settings.insert("administrator", in_toml(name));
            let advice =
                "The password is not copied. Set a new one with `admin_password_file` of the node file.";
            found.decide(&entry.dn, "the administrator's password", advice);
        }
        _ => {
            let advice = "Pando has one administrator: give others their rights by access rules.";
            found.decide(&entry.dn, format!("further administrators: {}", names.join("; ")), advice);
        }
    }
}

fn index(entry: &ConfigEntry, found: &mut Found) {
    let mut kinds = IndexKinds::NONE;
    for kind in entry.all("ds-cfg-index-type") {
        kinds = kinds.with(match kind {
            "equality" => IndexKinds::EQUALITY,
            "ordering" => IndexKinds::ORDERING,
            "presence" => IndexKinds::PRESENCE,
            "substring" => IndexKinds::SUBSTRING.with(IndexKinds::ORDERING),
            "approximate" => IndexKinds::APPROXIMATE,
            _ => {
                let advice = "The rules of the schema decide here.";
                found.decide(&entry.dn, format!("an index of the kind {kind}"), advice);
                IndexKinds::NONE
            }
        });
    }
    // Skips the server's own indexes, for replication and configuration.
    let attribute = entry.first("ds-cfg-attribute").filter(|name| !name.starts_with("ds-"));
    if let Some(attribute) = attribute.filter(|name| *name != "aci") {
        found.add_index(&entry.dn, attribute, kinds);
    }
}

fn plugin(entry: &ConfigEntry, found: &mut Found) {
    if !entry.says("ds-cfg-enabled", "true") {
        return;
    }
    if entry.says("objectclass", "ds-cfg-unique-attribute-plugin") {
        let types: Vec<String> = entry.all("ds-cfg-type").map(str::to_owned).collect();
        let bases: Vec<String> = entry.all("ds-cfg-base-dn").map(str::to_owned).collect();
        let bases = if bases.is_empty() { vec![String::new()] } else { bases };
        bases.iter().for_each(|base| found.add_unique(&entry.dn, &types, base, ""));
    } else if entry.says("objectclass", "ds-cfg-referential-integrity-plugin") {
        let attributes: Vec<String> = entry.all("ds-cfg-attribute-type").map(str::to_owned).collect();
        found.add_integrity(&entry.dn, attributes);
    } else if entry.says("objectclass", "ds-cfg-samba-password-plugin") {
        found.decide(
            &entry.dn,
            "a plug-in for Samba passwords",
            "Samba's hashes are not derived from passwords.",
        );
    } else {
        // The functions of most plug-ins, such as entryUUID or the change number control, are part of any server.
        found.skip_entry(entry);
    }
}

/// Attributes of a policy, with their names in OpenDJ and in Pando.
const NUMBERS: [(&str, &str); 4] = [
    ("ds-cfg-lockout-failure-count", "pwdMaxFailure"),
    ("ds-cfg-password-history-count", "pwdInHistory"),
    ("ds-cfg-grace-login-count", "pwdGraceAuthNLimit"),
    ("ds-cfg-maximum-recorded-failures", "pwdMaxRecordedFailure"),
];
const DURATIONS: [(&str, &str); 6] = [
    ("ds-cfg-lockout-duration", "pwdLockoutDuration"),
    ("ds-cfg-lockout-failure-expiration-interval", "pwdFailureCountInterval"),
    ("ds-cfg-max-password-age", "pwdMaxAge"),
    ("ds-cfg-min-password-age", "pwdMinAge"),
    ("ds-cfg-password-expiration-warning-interval", "pwdExpireWarning"),
    ("ds-cfg-idle-lockout-interval", "pwdMaxIdle"),
];

/// Other attributes that are read.
const POLICY_SWITCHES: [&str; 4] = [
    "ds-cfg-force-change-on-reset",
    "ds-cfg-allow-user-password-changes",
    "ds-cfg-password-change-requires-current-password",
    "ds-cfg-password-validator",
];

fn policy(entry: &ConfigEntry, found: &mut Found) {
    let name = entry.first("cn").unwrap_or("default").to_owned();
    // Pando has no policy that corresponds to the policy of OpenDJ's administrators.
    if name == "Root Password Policy" || found.suffixes.is_empty() {
        return;
    }
    let is_known = |name: &str| {
        NUMBERS.iter().chain(&DURATIONS).any(|(theirs, _)| *theirs == name) || POLICY_SWITCHES.contains(&name)
    };
    let others = entry.values.iter().filter(|value| value.name.starts_with("ds-cfg-"));
    others.filter(|value| !is_known(&value.name)).for_each(|value| found.skip(value));
    let mut lines = Vec::new();
    for (theirs, ours) in NUMBERS {
        if let Some(number) = entry.number(theirs).filter(|number| *number > 0) {
            lines.push(format!("{ours}: {number}"));
        }
    }
    for (theirs, ours) in DURATIONS {
        let Some(text) = entry.first(theirs) else { continue };
        match seconds(text) {
            Some(0) => {}
            Some(seconds) => lines.push(format!("{ours}: {seconds}")),
            None => {
                found.decide(&entry.dn, format!("{theirs}: {text}"), format!("Not understood: see {ours}."))
            }
        }
    }
    let has_expiry = lines.iter().any(|line| line.starts_with("pwdMaxAge"));
    // In OpenDJ, expiry warnings and grace logins have no effect unless passwords expire.
    lines
        .retain(|line| has_expiry || !(line.starts_with("pwdExpireWarning") || line.starts_with("pwdGrace")));
    if lines.iter().any(|line| line.starts_with("pwdMaxFailure")) {
        lines.push("pwdLockout: TRUE".to_owned());
    } else {
        lines.retain(|line| {
            !line.starts_with("pwdLockoutDuration") && !line.starts_with("pwdFailureCountInterval")
        });
    }
    if entry.says("ds-cfg-force-change-on-reset", "true") {
        lines.push("pwdMustChange: TRUE".to_owned());
    }
    if entry.says("ds-cfg-allow-user-password-changes", "false") {
        lines.push("pwdAllowUserChange: FALSE".to_owned());
    }
    if entry.says("ds-cfg-password-change-requires-current-password", "true") {
        lines.push("pwdSafeModify: TRUE".to_owned());
    }
    let validators: Vec<&str> = entry.all("ds-cfg-password-validator").collect();
    if !validators.is_empty() {
        found.decide(
            &entry.dn,
            format!("validators of passwords: {}", validators.join("; ")),
            "See pwdMinLength, pandoPwdMinClasses and pandoPwdCheckLists in docs/how-to/password-policies.md.",
        );
    }
    if !lines.is_empty() {
        found.add_policy(&name.replace([',', '+', '"', '\\', '<', '>', ';', '='], " "), &lines);
    }
}

/// Returns the seconds of a duration such as `5 minutes` or `0 s`.
fn seconds(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" | "s" | "sec" | "second" | "seconds" => 1,
        "ms" | "millisecond" | "milliseconds" => return Some(number / 1000),
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    number.checked_mul(unit)
}
