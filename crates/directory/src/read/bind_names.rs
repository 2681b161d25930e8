//! Simple binds with names that are not DNs, under the rules of the setting `bind_names`.
//!
//! A name denotes an entry if the rules find exactly one entry. If they find several entries, the name denotes no
//! entry. Only indexes are searched, so a lookup reads only a few rows, whether or not the name exists. A name that
//! is a DN is always used as a DN.

use ldap::Dn;

use crate::catalog::bind_names::BindNameRule;
use crate::filter::Covering;
use crate::model::client_link::ListenerName;
use crate::model::limits::BIND_NAME_MAX;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::EntryId;
use crate::read::identity::entries_named;
use crate::snapshot::Snapshot;
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Meaning of the name in a simple bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindName {
    /// The name is a DN, or no rule applies: the bind uses it unchanged.
    AsGiven,
    /// The name denotes the entry with this DN.
    Entry(String),
    /// The name denotes no entry, because rules find none or several.
    Nobody,
}

/// Returns the meaning of the name in a simple bind on a listener.
///
/// # Errors
/// The store failed.
#[inline]
pub fn bind_name(
    snapshot: &Snapshot,
    name: &str,
    listener: impl FnOnce() -> ListenerName,
) -> std::result::Result<BindName, Outcome> {
    match snapshot.state().catalog.bind_names.is_empty() {
        true => Ok(BindName::AsGiven),
        false => resolve(snapshot.state(), name, listener()).map_err(Outcome::from),
    }
}

#[cold]
fn resolve(state: TreeState<'_>, name: &str, listener: ListenerName) -> Result<BindName> {
    let rules = || state.catalog.bind_names.iter().filter(|rule| rule.applies_to(listener));
    if Dn::parse(name).is_ok() || rules().next().is_none() {
        return Ok(BindName::AsGiven);
    }
    if name.len() > BIND_NAME_MAX {
        return Ok(BindName::Nobody);
    }
    let mut found = Vec::new();
    for rule in rules() {
        if let Some(value) = rule.value_in(name)
            && !find(state, rule, value, &mut found)?
        {
            return Ok(BindName::Nobody);
        }
    }
    match found.as_slice() {
        [id] => Ok(BindName::Entry(state.dn(*id)?.ok_or_else(|| damaged_row("nodes", *id))?)),
        _ => Ok(BindName::Nobody),
    }
}

/// Adds to `found` the entries that a rule finds with a value. Returns false if too many entries have the value,
/// because the name is then ambiguous.
fn find(state: TreeState<'_>, rule: &BindNameRule, value: &str, found: &mut Vec<EntryId>) -> Result<bool> {
    let covering = Covering::of(state, &rule.covered)?;
    for type_id in &rule.types {
        let attribute_type = state.catalog.schema.type_by_id(*type_id);
        let Some(named) = entries_named(state, attribute_type, value)? else { return Ok(false) };
        for id in named {
            if !found.contains(&id) && covering.covers(state, id)? {
                found.push(id);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SUFFIX, TestDirectory, ok};

    fn directory(rules: &[&str]) -> TestDirectory {
        let mut directory = TestDirectory::with_suffix_entry();
        for unit in ["people", "other"] {
            ok(directory.add(&format!("ou={unit},{SUFFIX}"), &[("objectClass", &["organizationalUnit"])]));
        }
        directory.change_settings(|settings| {
            settings.general.bind_names = rules.iter().map(|rule| (*rule).to_owned()).collect();
        });
        for (uid, unit, mail) in
            [("ada", "people", "ada@x.org"), ("bob", "people", "b@x.org"), ("bob", "other", "ADA@x.org")]
        {
            let dn = format!("uid={uid},ou={unit},{SUFFIX}");
            let values =
                [("objectClass", &["inetOrgPerson"][..]), ("cn", &["x"]), ("sn", &["x"]), ("mail", &[mail])];
            ok(directory.add(&dn, &values));
        }
        directory
    }

    fn resolve_to_text(directory: &TestDirectory, name: &str, listener: ListenerName) -> String {
        match bind_name(&directory.snapshot, name, || listener).unwrap() {
            BindName::AsGiven => "as given".to_owned(),
            BindName::Nobody => "nobody".to_owned(),
            BindName::Entry(dn) => dn.strip_suffix(&format!(",{SUFFIX}")).unwrap().to_owned(),
        }
    }

    #[test]
    fn names_denote_the_only_entry_with_the_value() {
        let directory = directory(&["staff: uid, mail in 'ou=people,dc=example,dc=com'"]);
        for (name, expected) in [
            ("ada", "uid=ada,ou=people"),
            (" ADA ", "uid=ada,ou=people"),
            ("bob", "uid=bob,ou=people"),
            ("ada@X.org", "uid=ada,ou=people"),
            ("carl", "nobody"),
            ("EXAMPLE\\ada", "nobody"),
            ("", "as given"),
            ("uid=ada", "as given"),
        ] {
            assert_eq!(resolve_to_text(&directory, name, ListenerName::LDAP), expected, "{name:?}");
        }
        assert_eq!(resolve_to_text(&directory, &"a".repeat(BIND_NAME_MAX + 1), ListenerName::LDAP), "nobody");
    }

    #[test]
    fn ambiguous_names_denote_no_entry() {
        let directory = directory(&["all: uid, mail", "again: uid"]);
        for (name, expected) in [("ada", "uid=ada,ou=people"), ("bob", "nobody"), ("ada@x.org", "nobody")] {
            assert_eq!(resolve_to_text(&directory, name, ListenerName::LDAP), expected, "{name}");
        }
        let filtered = self::directory(&["all: uid, mail matching '(mail=b@x.org)'"]);
        assert_eq!(resolve_to_text(&filtered, "bob", ListenerName::LDAP), "uid=bob,ou=people");
        assert_eq!(resolve_to_text(&filtered, "ada", ListenerName::LDAP), "nobody");
    }

    #[test]
    fn domains_and_listeners_select_rules() {
        let directory = directory(&[
            "ad: uid domain example.com, EXAMPLE listener ldaps in 'ou=people,dc=example,dc=com'",
        ]);
        for (name, expected) in [
            ("ada@example.com", "uid=ada,ou=people"),
            ("ada@EXAMPLE", "uid=ada,ou=people"),
            ("example\\bob", "uid=bob,ou=people"),
            ("example.com\\bob", "uid=bob,ou=people"),
            ("ada", "nobody"),
            ("@example.com", "nobody"),
            ("ada@example.org", "nobody"),
        ] {
            assert_eq!(resolve_to_text(&directory, name, ListenerName::LDAPS), expected, "{name}");
            assert_eq!(resolve_to_text(&directory, name, ListenerName::LDAP), "as given", "{name}");
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        let mut directory = TestDirectory::with_suffix_entry();
        for (rule, what) in [
            ("uid", "a rule begins with its name"),
            ("a: ntHash", "is not defined"),
            ("a: userPassword", "is a secret"),
            ("a: member", "names entries"),
            ("a: jpegPhoto", "jpegPhoto has no equality rule"),
            ("a: title", "title has no equality index"),
            ("a: uid domain a@b", "\"a@b\" is not a domain"),
            ("a: uid listener LDAP", "is not a listener name"),
            ("a: uid everywhere", "unexpected \"everywhere\""),
        ] {
            let refused =
                directory.try_change_settings(|settings| settings.general.bind_names = vec![rule.to_owned()]);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("bind_names[0]: ") && refused.contains(what), "{rule}: {refused}");
        }
    }
}
