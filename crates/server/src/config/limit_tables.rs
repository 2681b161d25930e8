//! The tables `[[limit]]`: limits for some clients. Each limit of a client comes from the first table that applies to
//! the client and states the limit.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use directory::bind::RequesterLimits;
use ipnet::IpNet;
use ldap::ServerUrl;

use crate::config::values::DnText;

/// A table `[[limit]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitTable {
    /// Clients to which the table applies.
    pub who: Arc<[LimitedWho]>,
    /// Limits that the table states.
    pub limits: StatedLimits,
}

/// Clients to which a table applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitedWho {
    /// Clients that have not bound.
    Anonymous,
    /// Clients that have bound.
    Users,
    /// The user of an entry.
    Entry(DnText),
    /// The members of a group, including those of nested groups.
    MembersOf(DnText),
    /// Clients of a network.
    Network(IpNet),
    /// Clients of a listener.
    Listener(ServerUrl),
}

/// Limits of a client. A limit is `None` if it is not stated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedLimits {
    /// Limits on searches.
    pub search: RequesterLimits,
    /// Maximum number of unanswered requests of one connection.
    pub outstanding: Option<usize>,
    /// Maximum size of a message, in octets.
    pub message_size: Option<usize>,
    /// Idle time after which a connection is closed; zero for never.
    pub idle: Option<Duration>,
    /// Maximum size of unsent answers of one connection, in octets.
    pub slow_reader_bytes: Option<usize>,
    /// Limit on the number of connections.
    pub connections: Option<ConnectionsLimit>,
}

/// Limit on the total number of connections of the clients to which a table applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionsLimit {
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Clients to which the table applies.
    pub who: Arc<[LimitedWho]>,
}

/// Error of a text that does not describe clients of a table `[[limit]]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\": write anonymous, users, a DN, members of and a DN, network and such as 10.0.0.0/8, or listener and \
     the URL of one: {why}"
)]
pub struct LimitedWhoError {
    text: String,
    why: String,
}

/// Facts about a client that are known from its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitedClient<'a> {
    pub(crate) address: Option<IpAddr>,
    pub(crate) listener: Option<&'a ServerUrl>,
    pub(crate) is_anonymous: bool,
}

impl FromStr for LimitedWho {
    type Err = LimitedWhoError;

    fn from_str(text: &str) -> Result<LimitedWho, LimitedWhoError> {
        let error = |why: &dyn fmt::Display| LimitedWhoError { text: text.to_owned(), why: why.to_string() };
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "anonymous" if rest.is_empty() => Ok(LimitedWho::Anonymous),
            "users" if rest.is_empty() => Ok(LimitedWho::Users),
            "network" => rest.parse().map(LimitedWho::Network).map_err(|why| error(&why)),
            "listener" => rest.parse().map(LimitedWho::Listener).map_err(|why| error(&why)),
            "members" => match rest.strip_prefix("of ") {
                Some(dn) => dn.parse().map(LimitedWho::MembersOf).map_err(|why| error(&why)),
                None => Err(error(&"members of which group?")),
            },
            _ => text.parse().map(LimitedWho::Entry).map_err(|why| error(&why)),
        }
    }
}

impl fmt::Display for LimitedWho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitedWho::Anonymous => f.write_str("anonymous"),
            LimitedWho::Users => f.write_str("users"),
            LimitedWho::Entry(dn) => write!(f, "{dn}"),
            LimitedWho::MembersOf(dn) => write!(f, "members of {dn}"),
            LimitedWho::Network(network) => write!(f, "network {network}"),
            LimitedWho::Listener(url) => write!(f, "listener {url}"),
        }
    }
}

impl fmt::Display for ConnectionsLimit {
    /// Writes the limit as the reason why a connection was refused, for a log message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the table [[limit]] for ")?;
        for (index, who) in self.who.iter().enumerate() {
            write!(f, "{}\"{who}\"", if index > 0 { ", " } else { "" })?;
        }
        write!(f, " allows {} connections, and so many are open", self.connections_max)
    }
}

impl LimitedWho {
    /// Returns true if this value describes `client`. For an entry or a group, calls `is_named` with the DN, and with a
    /// flag that is true for a group. `is_named` must return true if the client is the user of that entry, or a member
    /// of that group.
    pub(crate) fn is(&self, client: &LimitedClient<'_>, is_named: impl Fn(&str, bool) -> bool) -> bool {
        match self {
            LimitedWho::Anonymous => client.is_anonymous,
            LimitedWho::Users => !client.is_anonymous,
            LimitedWho::Entry(dn) => !client.is_anonymous && is_named(dn.as_str(), false),
            LimitedWho::MembersOf(dn) => !client.is_anonymous && is_named(dn.as_str(), true),
            LimitedWho::Network(network) => {
                client.address.is_some_and(|address| network.contains(&address.to_canonical()))
            }
            LimitedWho::Listener(url) => client.listener == Some(url),
        }
    }
}

impl StatedLimits {
    /// Sets each limit that this value does not state to the limit in `others`.
    pub(crate) fn fill_up(&mut self, others: &StatedLimits) {
        let search = &mut self.search;
        search.size = search.size.or(others.search.size);
        search.time_seconds = search.time_seconds.or(others.search.time_seconds);
        search.examined = search.examined.or(others.search.examined);
        search.scan_share = search.scan_share.or(others.search.scan_share);
        self.outstanding = self.outstanding.or(others.outstanding);
        self.message_size = self.message_size.or(others.message_size);
        self.idle = self.idle.or(others.idle);
        self.slow_reader_bytes = self.slow_reader_bytes.or(others.slow_reader_bytes);
        if self.connections.is_none() {
            self.connections.clone_from(&others.connections);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_clients_of_a_limit_table() {
        let who = |text: &str| {
            let who = text.parse::<LimitedWho>();
            who.inspect(|who| assert_eq!(who.to_string(), text))
        };
        assert_eq!(who("anonymous"), Ok(LimitedWho::Anonymous));
        assert_eq!(who("users"), Ok(LimitedWho::Users));
        assert_eq!(who("cn=a,o=b c"), Ok(LimitedWho::Entry("cn=a,o=b c".parse().unwrap())));
        assert_eq!(who("members of cn=a"), Ok(LimitedWho::MembersOf("cn=a".parse().unwrap())));
        assert_eq!(who("network 10.0.0.0/8"), Ok(LimitedWho::Network("10.0.0.0/8".parse().unwrap())));
        assert_eq!(who("listener ldap://:389"), Ok(LimitedWho::Listener("ldap://:389".parse().unwrap())));
        for text in
            ["everybody", "anonymous users", "network x", "listener x", "members cn=a", "members of", ""]
        {
            let error = who(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?}: write anonymous, users, a DN")), "{error}");
        }
    }

    #[test]
    fn a_limit_table_matches_the_clients_it_names() {
        let listener = "ldap://:389".parse().unwrap();
        let client = |is_anonymous| LimitedClient {
            address: Some("::ffff:10.1.2.3".parse().unwrap()),
            listener: Some(&listener),
            is_anonymous,
        };
        let named =
            |dn: &str, as_group: bool| (dn, as_group) == ("cn=a", false) || (dn, as_group) == ("cn=g", true);
        let check = |text: &str, anonymous: bool, bound: bool| {
            let who: LimitedWho = text.parse().unwrap();
            assert_eq!(
                (who.is(&client(true), named), who.is(&client(false), named)),
                (anonymous, bound),
                "{text}"
            );
        };
        check("anonymous", true, false);
        check("users", false, true);
        check("cn=a", false, true);
        check("cn=g", false, false);
        check("members of cn=g", false, true);
        check("network 10.0.0.0/8", true, true);
        check("network 11.0.0.0/8", false, false);
        check("listener ldap://:389", true, true);
        check("listener ldap://:390", false, false);
    }

    #[test]
    fn the_first_table_that_states_a_limit_decides() {
        let stated = |size, outstanding| StatedLimits {
            search: RequesterLimits { size, ..RequesterLimits::default() },
            outstanding,
            ..StatedLimits::default()
        };
        let mut limits = stated(None, Some(3));
        limits.fill_up(&stated(Some(5), Some(4)));
        limits.fill_up(&stated(Some(6), None));
        assert_eq!(limits, stated(Some(5), Some(3)));
    }
}
