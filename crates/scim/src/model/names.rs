//! Names of the LDAP attributes: the default names, and the names in the settings.

use std::collections::{BTreeMap, BTreeSet};

/// Names of the LDAP attributes for one resource type.
pub(super) struct Names<'a> {
    setting: &'static str,
    stated: BTreeMap<&'a str, &'a str>,
    known: BTreeSet<&'static str>,
    problem: Option<String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(setting: &'static str, stated: &'a [String]) -> Names<'a> {
        let mut names = Names { setting, stated: BTreeMap::new(), known: BTreeSet::new(), problem: None };
        for text in stated {
            let Some((name, attribute)) = text.split_once('=') else {
                names.problem = Some(format!("{setting}: {text:?} is not NAME=ATTRIBUTE"));
                break;
            };
            if names.stated.insert(name.trim(), attribute.trim()).is_some() {
                names.problem = Some(format!("{setting}: {} is given twice", name.trim()));
            }
        }
        names
    }

    /// Returns the LDAP attribute that stores the SCIM attribute `key`. `default` is empty if there is no default.
    pub(super) fn of(&mut self, key: &'static str, default: &str) -> Option<String> {
        self.known.insert(key);
        let name = self.stated.get(key).copied().unwrap_or(default);
        if name.is_empty() {
            return None;
        }
        if let Err(why) = check(name) {
            self.problem.get_or_insert(format!("{}: {key}: {why}", self.setting));
        }
        Some(name.to_owned())
    }

    /// Returns the LDAP attribute that stores the SCIM attribute `key`. The settings must define an LDAP attribute for
    /// it.
    pub(super) fn required(&mut self, key: &'static str, default: &str) -> String {
        let name = self.of(key, default);
        if name.is_none() {
            self.problem.get_or_insert(format!("{}: {key}: an attribute is needed", self.setting));
        }
        name.unwrap_or_default()
    }

    /// Checks that each setting was used.
    ///
    /// # Errors
    /// A key is not the name of a SCIM attribute, or a value is not the name of an LDAP attribute.
    pub(super) fn finish(self) -> Result<(), String> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        match self.stated.keys().find(|key| !self.known.contains(**key)) {
            Some(key) => {
                let known = self.known.into_iter().collect::<Vec<_>>().join(", ");
                Err(format!("{}: {key:?} is none of {known}", self.setting))
            }
            None => Ok(()),
        }
    }
}

/// Checks that a text is the name or the OID of an attribute type or an object class. Options are not permitted.
pub(super) fn check(name: &str) -> Result<(), String> {
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    let is_oid = name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_digit() || char == '.');
    if is_name || is_oid { Ok(()) } else { Err(format!("{name:?} is no name of an attribute or class")) }
}
