//! Rules of the settings for bind names. A bind name is a name, other than a DN, by which a simple bind finds an entry.

use schema::{Schema, TypeId};

use super::covered_entries::{CoveredEntries, is_determined, types_of};
use super::is_link_type;
use super::secret::Secrets;
use crate::model::client_link::ListenerName;
use crate::model::limits::{BIND_NAME_MAX, IDENTITIES_MAX};
use crate::model::rule_tokens::{Parser, named, tokens};

/// A rule for bind names.
#[derive(Clone, Debug)]
pub(crate) struct BindNameRule {
    pub(crate) name: String,
    /// Attribute types whose values are bind names; at least one type.
    pub(crate) types: Vec<TypeId>,
    /// Domains. With domains, a bind name has the form `NAME@DOMAIN` or `DOMAIN\NAME`, in which `NAME` is the value.
    /// Without domains, the bind name is the value.
    domains: Vec<String>,
    /// Listeners whose clients may bind by the rule; empty for all.
    listeners: Vec<ListenerName>,
    /// Entries that a bind name may find.
    pub(crate) covered: CoveredEntries,
}

impl BindNameRule {
    /// Compiles a rule: `NAME: ATTRIBUTE, ... [domain DOMAIN, ...] [listener NAME, ...] [in 'DN'] [matching
    /// 'FILTER']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<BindNameRule, String> {
        let (name, rest) = named(text, "staff: uid, mail in 'ou=people,dc=example,dc=com'")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let types = types_of(&mut parser, schema, |known, _| {
            if is_determined(known) || is_link_type(known) || secrets.has(known.id) {
                return Err(format!(
                    "{} is a secret, names entries, or is determined by the server",
                    known.name()
                ));
            }
            match known.equality {
                Some(_) => Ok(()),
                None => Err(format!("{} has no equality rule", known.name())),
            }
        })?;
        let (mut domains, mut listeners) = (Vec::new(), Vec::new());
        if parser.takes("domain") {
            for domain in parser.list("a domain")? {
                if domain.len() > BIND_NAME_MAX || domain.contains(['@', '\\', '=']) {
                    return Err(format!("{domain:?} is not a domain such as example.com"));
                }
                domains.push(domain.to_owned());
            }
        }
        if parser.takes("listener") {
            for listener in parser.list("the name of a listener")? {
                listeners.push(listener.parse()?);
            }
        }
        if domains.len().max(listeners.len()) > IDENTITIES_MAX {
            return Err(format!("more than {IDENTITIES_MAX} domains or listeners"));
        }
        let covered = CoveredEntries::read(&parser.covered_entries()?, (schema, secrets))?;
        Ok(BindNameRule { name: name.to_owned(), types, domains, listeners, covered })
    }

    /// Returns true if the rule applies to the clients of a listener.
    pub(crate) fn applies_to(&self, listener: ListenerName) -> bool {
        self.listeners.is_empty() || self.listeners.contains(&listener)
    }

    /// Returns the attribute value that a bind name contains. Returns `None` if the bind name does not have the rule's
    /// form.
    pub(crate) fn value_in<'n>(&self, name: &'n str) -> Option<&'n str> {
        if self.domains.is_empty() {
            return Some(name);
        }
        let is_known = |domain: &str| self.domains.iter().any(|known| known.eq_ignore_ascii_case(domain));
        let with_at = name.rsplit_once('@').filter(|(_, domain)| is_known(domain)).map(|(user, _)| user);
        let with_backslash =
            || name.split_once('\\').filter(|(domain, _)| is_known(domain)).map(|(_, user)| user);
        with_at.or_else(with_backslash).filter(|user| !user.is_empty())
    }
}
