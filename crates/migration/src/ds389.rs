//! 389 Directory Server: dse.ldif, or the same entries below `cn=config` over LDAP.

use directory::index::IndexKinds;

use crate::configuration::{ConfigEntry, ConfigValue, Configuration};
use crate::found::{Found, in_toml, quoted};

/// Enabled plug-ins that need no settings, with Pando's counterpart.
const BUILT_IN: [(&str, &str); 10] = [
    ("MemberOf Plugin", "memberOf and isMemberOf are computed from the groups"),
    ("deref", "the dereference control is built in"),
    ("USN", "entryUSN and lastUSN are built in"),
    ("Content Synchronization", "every server serves RFC 4533"),
    ("Retro Changelog Plugin", "clients follow changes by RFC 4533 or by persistent search"),
    ("Account Usability Plugin", "the account usability control is built in"),
    ("whoami", "the Who am I? operation is built in"),
    ("Views", "searches need no views"),
    ("Password Storage Schemes", "stored hashes are imported as they are"),
    ("PAM Pass Through Auth", "passwords can be verified by PAM: `pass_through.saslauthd` of the node file"),
];

/// Plug-ins that are enabled by default and whose function every server has.
const PARTS: [&str; 36] = [
    "syntax",
    "bit string",
    "linked attributes",
    "managed entries",
    "chaining database",
    "acl plugin",
    "acl preoperation",
    "bitwise plugin",
    "ldbm database",
    "distributed numeric",
    "legacy replication",
    "multimaster replication",
    "multisupplier replication",
    "replication",
    "class of service",
    "roles plugin",
    "state change plugin",
    "internationalization plugin",
    "http client",
    "schema reload",
    "entryuuid",
    "entryuuid_syntax",
    "aes",
    "des",
    "pbkdf2",
    "md5",
    "crypt",
    "clear",
    "sha",
    "ssha",
    "smd5",
    "gost",
    "ns-mta-md5",
    "argon2",
    "tree delete",
    "space insensitive",
];

/// Reads the configuration of a 389 DS.
pub(crate) fn analyse(configuration: &Configuration, found: &mut Found) {
    for entry in configuration.entries.iter().filter(|entry| entry.dn.eq_ignore_ascii_case("cn=schema")) {
        found.add_definitions(entry);
    }
    for entry in &configuration.entries {
        if let Some(suffix) =
            entry.first("nsslapd-suffix").filter(|_| entry.says("objectclass", "nsBackendInstance"))
        {
            found.add_suffix(suffix);
        }
    }
    for entry in &configuration.entries {
        if entry.dn.eq_ignore_ascii_case("cn=config") {
            global(entry, found);
        } else if entry.says("objectclass", "nsIndex") {
            index(entry, found);
        } else if entry.says("objectclass", "nsSlapdPlugin") {
            plugin(entry, found);
        } else if entry.is_below("cn=distributed numeric assignment plugin,cn=plugins,cn=config") {
            next_number(entry, found);
        } else if entry.says("objectclass", "autoMemberDefinition") {
            found.decide(
                &entry.dn,
                "a rule of automatic membership",
                "See `auto_members` in docs/reference/settings.md, or use a dynamic group (memberURL).",
            );
        } else if entry.says("objectclass", "mepTemplateEntry") || entry.first("originfilter").is_some() {
            found.decide(
                &entry.dn,
                "managed entries",
                "Pando makes no entries by itself: the program that adds users does.",
            );
        } else if entry.first("linktype").is_some() {
            found.decide(
                &entry.dn,
                "linked attributes",
                "Pando keeps no values of its own in the other entry.",
            );
        } else if entry.first("nsfarmserverurl").is_some() {
            found.decide(
                &entry.dn,
                "a chained database",
                "Pando has no proxy: load or follow the other server's data.",
            );
        } else if entry.says("objectclass", "nsds5ReplicationAgreement") {
            found.decide(
                &entry.dn,
                "a replication agreement",
                "Set up replication again: docs/how-to/cluster.md.",
            );
        } else if entry.says("objectclass", "nsSaslMapping") && !is_default_mapping(entry) {
            found.decide(
                &entry.dn,
                "a SASL mapping",
                "Names are looked up in `identity_attributes`: docs/how-to/sasl.md.",
            );
        } else if !entry.dn.eq_ignore_ascii_case("cn=schema") {
            entry.values.iter().for_each(|value| other_value(value, found));
        }
    }
    if configuration.data_rules.is_empty() {
        found.decide(
            "access rules",
            "no aci values were given; 389 DS keeps them in the data",
            "Give a dump of the data too. Without access rules, users read everything but passwords.",
        );
    }
}

fn is_default_mapping(entry: &ConfigEntry) -> bool {
    ["kerberos uid mapping", "rfc 2829 dn syntax", "rfc 2829 u syntax", "uid mapping"]
        .iter()
        .any(|name| entry.says("cn", name))
}

/// Reads `cn=config` itself.
fn global(entry: &ConfigEntry, found: &mut Found) {
    for value in &entry.values {
        global_value(entry, value, found);
    }
    policy(entry, found);
}

fn global_value(entry: &ConfigEntry, value: &ConfigValue, found: &mut Found) {
    let text = value.value.trim();
    let is_on = text.eq_ignore_ascii_case("on");
    // 389 DS writes -1 for no limit, and Pando writes 0.
    let number = text.parse::<i64>().ok().map(|number| number.max(0).to_string());
    match (value.name.as_str(), number) {
        ("nsslapd-rootdn", _) => drop(found.settings.insert("administrator", in_toml(text))),
        ("nsslapd-rootpw", _) => found.decide(
            value.place.as_str(),
            "the administrator's password",
            "It is not copied. Set a new one with `admin_password_file` of the node file.",
        ),
        ("nsslapd-sizelimit", Some(number)) => drop(found.settings.insert("limits.size_limit", number)),
        ("nsslapd-timelimit", Some(number)) => drop(found.settings.insert("limits.time_limit_seconds", number)),
        ("nsslapd-idletimeout", Some(number)) => drop(found.node.insert("idle_timeout_seconds", number)),
        ("nsslapd-maxbersize", Some(number)) if number != "0" => drop(found.node.insert("limits.message_size", number)),
        ("nsslapd-allow-anonymous-access", _) if text.eq_ignore_ascii_case("off") => {
            found.node.insert("weakest_bind", in_toml("password"));
        }
        ("nsslapd-allow-anonymous-access", _) if text.eq_ignore_ascii_case("rootdse") => {
            found.node.insert("weakest_bind", in_toml("password"));
            found.decide_value(value, "Proposed as `weakest_bind`, which still shows the root DSE.");
        }
        ("nsslapd-require-secure-binds", _) if is_on => drop(found.node.insert("tls.needed_for", in_toml("passwords"))),
        ("nsslapd-minssf", _) if text != "0" => drop(found.node.insert("tls.needed_for", in_toml("everything"))),
        ("nsslapd-readonly", _) if is_on => found.decide_value(value, "An access rule denies changes here."),
        ("nsslapd-referral", _) => found.decide_value(value, "Pando has no default referral."),
        ("nsslapd-auditlog-logging-enabled", _) if is_on => {
            found.decide_value(value, "The audit trail records changes: `audit.folder` of the node file.");
        }
        ("passwordstoragescheme", _) => found.decide_value(
            value,
            "Stored hashes are imported and verified as they are. New ones get `password_scheme`, by default argon2id.",
        ),
        ("nsslapd-pwpolicy-local", _) if is_on => {
            found.decide_value(value, "Policies of subtrees and entries come with the data, if they are subentries.");
        }
        (name, _) if name.starts_with("password") && policy_line(entry, name).is_some() => {}
        _ => found.skip(value),
    }
}

/// Reads a value of a database, of the encryption settings, or of an entry without a counterpart.
fn other_value(value: &ConfigValue, found: &mut Found) {
    match value.name.as_str() {
        "objectclass" | "cn" | "nsslapd-suffix" => {}
        "nsslapd-readonly" if value.value.eq_ignore_ascii_case("on") => {
            found.decide_value(value, "Pando has no read-only suffix: an access rule denies changes.");
        }
        "nssslclientauth" if value.value.eq_ignore_ascii_case("required") => {
            found.node.insert("tls.client_certificates_required", "true".to_owned());
        }
        "sslversionmin" if value.value.eq_ignore_ascii_case("TLS1.3") => {
            found.node.insert("tls.minimum_version", in_toml("1.3"));
        }
        "nssslpersonalityssl" => found.decide_value(
            value,
            "Export this certificate and its key from the NSS database: `tls.certificate` and `tls.key`.",
        ),
        _ => found.skip(value),
    }
}

/// Reads an index definition of a database.
fn index(entry: &ConfigEntry, found: &mut Found) {
    // Skip definitions for new databases, and the server's own indexes.
    if entry.is_below("cn=default indexes,cn=config,cn=ldbm database,cn=plugins,cn=config")
        || entry.says("nssystemindex", "true")
    {
        return;
    }
    let mut kinds = IndexKinds::NONE;
    for kind in entry.all("nsindextype").flat_map(|value| value.split(',')) {
        kinds = kinds.with(match kind.trim().to_ascii_lowercase().as_str() {
            "eq" => IndexKinds::EQUALITY,
            "pres" => IndexKinds::PRESENCE,
            "sub" => IndexKinds::SUBSTRING.with(IndexKinds::ORDERING),
            "approx" => IndexKinds::APPROXIMATE,
            _ => IndexKinds::NONE,
        });
    }
    if let Some(attribute) = entry.first("cn") {
        found.add_index(&entry.dn, attribute, kinds);
    }
    for rule in entry.all("nsmatchingrule") {
        found.decide(
            &entry.dn,
            format!("matching rule {rule} of an index"),
            "The rules of the schema decide here.",
        );
    }
}

/// Reads an enabled plug-in.
fn plugin(entry: &ConfigEntry, found: &mut Found) {
    if !entry.says("nsslapd-pluginenabled", "on") {
        return;
    }
    let name = entry.first("cn").unwrap_or_default().to_owned();
    let lower = name.to_ascii_lowercase();
    if lower == "referential integrity postoperation" || entry.first("referint-membership-attr").is_some() {
        integrity(entry, found);
    } else if entry.says("nsslapd-pluginid", "NSUniqueAttr")
        || entry.first("uniqueness-attribute-name").is_some()
    {
        let types: Vec<String> = entry.all("uniqueness-attribute-name").map(str::to_owned).collect();
        let subtrees: Vec<String> = entry.all("uniqueness-subtrees").map(str::to_owned).collect();
        let class = entry.first("uniqueness-subtree-entries-oc");
        let filter = class.map(|class| format!("(objectClass={class})")).unwrap_or_default();
        let subtrees = if subtrees.is_empty() { vec![String::new()] } else { subtrees };
        for base in &subtrees {
            found.add_unique(&entry.dn, &types, base, &filter);
        }
        if subtrees.len() > 1 && entry.says("uniqueness-across-all-subtrees", "on") {
            found.decide(
                &entry.dn,
                "unique across all its subtrees",
                "There is a rule for each subtree: give one rule their parent.",
            );
        }
    } else if let Some((_, how)) = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
        found.has_built_in(&format!("plug-in {name}"), how);
    } else if lower == "7-bit check" {
        let advice = "`value_limits` can demand it (docs/how-to/values.md), if old clients need ASCII.";
        found.decide(&entry.dn, "only ASCII in uid, mail and userPassword", advice);
    } else if lower == "auto membership plugin" || is_part(&lower) {
        // Nothing to do: the rules of the plug-in are in entries below it, or every server has its function.
    } else {
        found.decide(&entry.dn, format!("plug-in {name}"), "Pando has no counterpart of this name.");
    }
}

/// Reads the attributes of the referential integrity plug-in.
fn integrity(entry: &ConfigEntry, found: &mut Found) {
    let mut attributes: Vec<String> = entry.all("referint-membership-attr").map(str::to_owned).collect();
    if attributes.is_empty() {
        // In older configurations, the attributes are the arguments after the first three.
        let arguments = entry.values.iter().filter(|value| {
            let number = value.name.strip_prefix("nsslapd-pluginarg");
            number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number >= 3)
        });
        attributes = arguments.map(|value| value.value.trim().to_owned()).collect();
    }
    if attributes.is_empty() {
        let advice = "Its configuration names none: list the attributes in `integrity_attributes`.";
        found.decide(&entry.dn, "referential integrity of no attribute", advice);
    }
    found.add_integrity(&entry.dn, attributes);
}

fn is_part(name: &str) -> bool {
    PARTS
        .iter()
        .any(|part| name.starts_with(part) || name.ends_with(part) || name.contains(&format!(" {part}")))
}

/// Reads a range of the DNA plug-in (Distributed Numeric Assignment).
fn next_number(entry: &ConfigEntry, found: &mut Found) {
    let types: Vec<&str> = entry.all("dnatype").collect();
    if types.is_empty() {
        return;
    }
    let first = entry.number("dnanextvalue").unwrap_or(1).max(0);
    let last = entry.number("dnamaxvalue").filter(|last| *last > 0).unwrap_or(i64::from(i32::MAX));
    let scope = entry.first("dnascope").unwrap_or_default();
    types.iter().for_each(|attribute| found.add_index(&entry.dn, attribute, IndexKinds::EQUALITY));
    match quoted(scope) {
        Some(scope) => {
            let number = found.lists.get("next_numbers").map_or(0, Vec::len) + 1;
            let scope = if scope == "''" { String::new() } else { format!(" in {scope}") };
            found.list(
                "next_numbers",
                format!("range{number}: {} from {first} to {last}{scope}", types.join(", ")),
            );
        }
        None => found.decide(
            &entry.dn,
            "a range of next numbers",
            "Its scope cannot be quoted: write the rule by hand.",
        ),
    }
    let advice = "Clients ask for a number with `{next}` here: docs/how-to/values.md.";
    found.decide(&entry.dn, format!("next numbers for {}", types.join(", ")), advice);
}

/// Password policy attributes of `cn=config`. Each row has the attribute's name, the name of the attribute that enables
/// it (empty for none), and the name in Pando.
const OF_POLICY: [(&str, &str, &str); 11] = [
    ("passwordmaxage", "passwordexp", "pwdMaxAge"),
    ("passwordwarning", "passwordexp", "pwdExpireWarning"),
    ("passwordgracelimit", "passwordexp", "pwdGraceAuthNLimit"),
    ("passwordminage", "", "pwdMinAge"),
    ("passwordinhistory", "passwordhistory", "pwdInHistory"),
    ("passwordminlength", "passwordchecksyntax", "pwdMinLength"),
    ("passwordmincategories", "passwordchecksyntax", "pandoPwdMinClasses"),
    ("passwordmaxfailure", "passwordlockout", "pwdMaxFailure"),
    ("passwordlockoutduration", "passwordlockout", "pwdLockoutDuration"),
    ("passwordresetfailurecount", "passwordlockout", "pwdFailureCountInterval"),
    ("passwordmustchange", "", "pwdMustChange"),
];

/// Returns the line of a password policy that corresponds to an attribute; `None` if there is no such line. The line is
/// empty if the attribute is disabled.
fn policy_line(entry: &ConfigEntry, name: &str) -> Option<String> {
    let switch = |name: &str| name.is_empty() || entry.says(name, "on");
    if ["passwordexp", "passwordhistory", "passwordchecksyntax", "passwordlockout", "passwordunlock"]
        .contains(&name)
    {
        return Some(String::new());
    }
    let (_, needed, attribute) = OF_POLICY.iter().find(|(known, ..)| *known == name)?;
    let value = entry.first(name)?;
    let value = match value.to_ascii_lowercase().as_str() {
        "on" => "TRUE".to_owned(),
        "off" => "FALSE".to_owned(),
        _ => value.to_owned(),
    };
    let is_off = !switch(needed) || value == "0" || value == "FALSE";
    // The account stays locked until an administrator unlocks it.
    let is_endless = *attribute == "pwdLockoutDuration" && entry.says("passwordunlock", "off");
    Some(if is_off || is_endless { String::new() } else { format!("{attribute}: {value}") })
}

/// Converts the global password policy.
fn policy(entry: &ConfigEntry, found: &mut Found) {
    let names = OF_POLICY.iter().map(|(name, ..)| *name);
    let mut lines: Vec<String> =
        names.filter_map(|name| policy_line(entry, name)).filter(|line| !line.is_empty()).collect();
    if entry.says("passwordlockout", "on") {
        lines.push("pwdLockout: TRUE".to_owned());
    }
    if entry.says("passwordchange", "off") {
        lines.push("pwdAllowUserChange: FALSE".to_owned());
    }
    if entry.says("passwordchecksyntax", "on") {
        lines.push("pwdCheckQuality: 1".to_owned());
    }
    // A policy without attributes would have no effect.
    if !lines.is_empty() && !found.suffixes.is_empty() {
        found.add_policy("global", &lines);
    }
}
