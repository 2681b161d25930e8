//! The scope of a search.

use serde::Deserialize;
use strum::{Display, EnumString};

/// Scope of a search. The scope is parsed from the name that ldapsearch uses. In lists and logs, the scope is also
/// parsed from its number in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Display, EnumString)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Scope {
    #[strum(to_string = "base", serialize = "0")]
    Base,
    #[strum(to_string = "one", serialize = "1")]
    One,
    #[default]
    #[strum(to_string = "sub", serialize = "2", serialize = "")]
    Sub,
    #[strum(to_string = "children", serialize = "subord", serialize = "3")]
    Children,
}

impl Scope {
    /// Returns the scope of a request.
    pub fn to_ldap(self) -> ldap::Scope {
        match self {
            Scope::Base => ldap::Scope::BaseObject,
            Scope::One => ldap::Scope::SingleLevel,
            Scope::Sub => ldap::Scope::WholeSubtree,
            Scope::Children => ldap::Scope::Subordinate,
        }
    }
}
