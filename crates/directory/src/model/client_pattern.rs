//! Client patterns: a pattern selects the clients to which a setting about the form of responses applies. Client
//! patterns grant no rights.

use crate::model::client_link::ListenerName;

/// Clients to which a setting applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientPattern<'a> {
    /// `anonymous`: clients without an identity.
    Anonymous,
    /// `users`: clients with an identity.
    Users,
    /// A DN: the client that has bound with this DN.
    Entry(&'a str),
    /// `members of DN`: direct and nested members of a group.
    MembersOf(&'a str),
    /// `listener NAME`: clients connected to a listener.
    Listener(ListenerName),
}

impl<'a> ClientPattern<'a> {
    /// Parses a pattern. DNs are not checked.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub(crate) fn parse(text: &'a str) -> Result<ClientPattern<'a>, String> {
        Ok(match text {
            "anonymous" => ClientPattern::Anonymous,
            "users" => ClientPattern::Users,
            _ => match (text.strip_prefix("members of "), text.strip_prefix("listener ")) {
                (Some(dn), _) => ClientPattern::MembersOf(dn),
                (_, Some(name)) => ClientPattern::Listener(name.parse()?),
                _ => ClientPattern::Entry(text),
            },
        })
    }

    /// Returns the DN in the pattern.
    pub(crate) fn dn(&self) -> Option<&'a str> {
        match self {
            ClientPattern::Entry(dn) | ClientPattern::MembersOf(dn) => Some(dn),
            ClientPattern::Anonymous | ClientPattern::Users | ClientPattern::Listener(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parsed() {
        let of = |text| ClientPattern::parse(text).unwrap();
        assert_eq!(of("anonymous"), ClientPattern::Anonymous);
        assert_eq!(of("users"), ClientPattern::Users);
        assert_eq!(of("cn=app,dc=x"), ClientPattern::Entry("cn=app,dc=x"));
        assert_eq!(of("members of cn=apps,dc=x"), ClientPattern::MembersOf("cn=apps,dc=x"));
        assert_eq!(of("listener ldaps"), ClientPattern::Listener(ListenerName::LDAPS));
        assert!(ClientPattern::parse("listener LDAPS").is_err());
    }
}
