//! Settings that a reload applies to connections at once, including the rules of each listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use directory::ListenerName;
use directory::bind::BindStrength;
use ipnet::IpNet;
use ldap::ServerUrl;
use sasl::TokenRules;

use super::token_rules;
use crate::config::ConfigError;
use crate::config::kerberos::{KerberosRules, kerberos_rules};
use crate::config::limit_tables::{LimitTable, LimitedClient, StatedLimits};
use crate::config::node_file::{ListenerKeys, NodeFile};
use crate::config::values::{FromText, TlsNeed};
use crate::limits;

/// Settings of connections that a reload applies at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlineSettings {
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Maximum number of connections from one address. The limit applies only while at least half of `connections_max`
    /// connections are open. `None` means an eighth of `connections_max`.
    pub connections_per_address_max: Option<usize>,
    /// Maximum number of new connections from one address in a second; `None` for any number.
    pub connects_per_second_max: Option<usize>,
    /// Maximum number of unanswered requests of one connection.
    pub outstanding_max: usize,
    /// Limits on persistent searches.
    pub persistent_searches: PersistentSearchLimits,
    /// Maximum size of a message on a connection that has bound, in octets.
    pub message_size_max: usize,
    /// Maximum size of a message on a connection that has not bound, in octets.
    pub message_size_unauthenticated_max: usize,
    /// Idle time after which a connection without outstanding operations is closed; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// Time after which an open transaction is aborted; `None` for never.
    pub transaction_timeout: Option<Duration>,
    /// Time within which a new connection must send its first request; `None` for any time.
    pub first_request_timeout: Option<Duration>,
    /// Time for which a verified password is cached; `None` if passwords are not cached.
    pub bind_cache: Option<Duration>,
    /// The tables `[[limit]]` with limits for some clients.
    pub limits: Vec<LimitTable>,
    /// URLs on which the server listens. Each has the same index as its rules in `listeners`.
    pub(crate) listen: Vec<ServerUrl>,
    /// Networks of trusted clients. They have neither an idle timeout nor a timeout for the first request.
    pub trusted_networks: Vec<IpNet>,
    /// Networks of proxies. A connection from them must begin with a proxy header.
    pub proxy_networks: Vec<IpNet>,
    /// Whether a line is logged for each operation.
    pub log_operations: bool,
    /// Rule for logging slow operations; `None` if slow operations are not logged.
    pub slow: Option<SlowRule>,
    /// Rules of a listener without rules of its own.
    pub usual: ListenerRules,
    /// Rules of each listener, in the order of [`Config::listen`](crate::config::Config::listen). The list may be
    /// shorter. Listeners after its end have the usual rules.
    pub listeners: Vec<ListenerRules>,
    /// Rules that the node file states for listeners, by their URL.
    pub stated: Vec<(ServerUrl, ListenerRules)>,
    /// Rules for tokens with which clients bind; `None` if no tokens are accepted.
    pub token_rules: Option<Arc<TokenRules>>,
    /// File with the keys that verify these tokens.
    pub(crate) token_key_file: Option<PathBuf>,
    /// Rules for Kerberos tickets; `None` if no tickets are accepted.
    pub kerberos: Option<Arc<KerberosRules>>,
}

/// Rule that determines which operations are logged as slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRule {
    /// Minimum duration of a slow operation.
    pub threshold: Duration,
    /// Whether the log lines contain the values in filters.
    pub shows_values: bool,
}

/// Limits on the number of persistent searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentSearchLimits {
    /// Maximum number of persistent searches of all clients.
    pub count_max: usize,
    /// Maximum number of persistent searches of one identity, and of one source. The limit applies only while at least
    /// half of `count_max` searches are running. `None` means an eighth of `count_max`.
    pub share_max: Option<usize>,
}

impl Default for OnlineSettings {
    fn default() -> OnlineSettings {
        OnlineSettings {
            connections_max: limits::CONNECTIONS_MAX,
            connections_per_address_max: None,
            connects_per_second_max: None,
            outstanding_max: limits::OUTSTANDING_MAX,
            persistent_searches: PersistentSearchLimits {
                count_max: limits::PERSISTENT_SEARCHES_MAX,
                share_max: None,
            },
            message_size_max: ldap::MESSAGE_SIZE_MAX,
            message_size_unauthenticated_max: ldap::MESSAGE_SIZE_MAX_UNAUTHENTICATED,
            idle_timeout: Some(limits::IDLE_TIMEOUT),
            transaction_timeout: Some(limits::TRANSACTION_TIMEOUT),
            first_request_timeout: Some(limits::FIRST_REQUEST_TIMEOUT),
            bind_cache: Some(limits::BIND_CACHE),
            limits: Vec::new(),
            listen: Vec::new(),
            trusted_networks: this_machine(),
            proxy_networks: Vec::new(),
            log_operations: false,
            slow: None,
            usual: ListenerRules::default(),
            listeners: Vec::new(),
            stated: Vec::new(),
            token_rules: None,
            token_key_file: None,
            kerberos: None,
        }
    }
}

impl OnlineSettings {
    /// Takes the settings from the node file. [`find_rules`](OnlineSettings::find_rules) must be called to find the
    /// rules of each listener.
    pub(super) fn of(file: &mut NodeFile, logs_operations: bool) -> Result<OnlineSettings, ConfigError> {
        let usual = ListenerRules::default().with(ListenerKeys {
            url: None,
            name: None,
            tls_needed_for: file.tls.needed_for.take(),
            clear_networks: file.tls.clear_networks.take(),
            weakest_bind: file.weakest_bind.take(),
        });
        let stated = std::mem::take(&mut file.listeners).into_iter().filter_map(|mut keys| {
            let FromText(url) = keys.url.take()?;
            Some((url, usual.with(keys)))
        });
        let stated = stated.collect();
        let (keys, oauth) = (std::mem::take(&mut file.limits), std::mem::take(&mut file.oauth));
        let or = |stated: Option<NonZeroUsize>, default| stated.map_or(default, NonZeroUsize::get);
        Ok(OnlineSettings {
            connections_max: or(keys.connections, limits::CONNECTIONS_MAX),
            connections_per_address_max: keys.connections_per_address.map(NonZeroUsize::get),
            connects_per_second_max: keys.connects_per_second.map(NonZeroUsize::get),
            outstanding_max: or(keys.outstanding, limits::OUTSTANDING_MAX),
            persistent_searches: PersistentSearchLimits {
                count_max: or(keys.persistent_searches, limits::PERSISTENT_SEARCHES_MAX),
                share_max: keys.persistent_searches_share.map(NonZeroUsize::get),
            },
            message_size_max: or(keys.message_size, ldap::MESSAGE_SIZE_MAX),
            message_size_unauthenticated_max: or(
                keys.message_size_unauthenticated,
                ldap::MESSAGE_SIZE_MAX_UNAUTHENTICATED,
            ),
            idle_timeout: timeout(file.idle_timeout_seconds, limits::IDLE_TIMEOUT),
            transaction_timeout: timeout(file.transaction_timeout_seconds, limits::TRANSACTION_TIMEOUT),
            first_request_timeout: timeout(file.first_request_seconds, limits::FIRST_REQUEST_TIMEOUT),
            limits: std::mem::take(&mut file.limit_tables).into_iter().map(LimitTable::from).collect(),
            listen: Vec::new(),
            bind_cache: timeout(file.bind_cache_seconds, limits::BIND_CACHE),
            trusted_networks: file.trusted_networks.take().unwrap_or_else(this_machine),
            proxy_networks: file.proxy_networks.take().unwrap_or_default(),
            log_operations: logs_operations || file.log.operations.unwrap_or(false),
            slow: file.log.slow_milliseconds.map(|milliseconds| SlowRule {
                threshold: Duration::from_millis(u64::from(milliseconds)),
                shows_values: file.log.slow_values.unwrap_or(false),
            }),
            usual,
            listeners: Vec::new(),
            stated,
            token_key_file: oauth.keys.clone(),
            token_rules: token_rules(oauth)?,
            kerberos: kerberos_rules(std::mem::take(&mut file.kerberos))?,
        })
    }

    /// Returns true if the log needs an event for each operation. Such an event is prepared when the operation begins.
    #[inline]
    pub(crate) fn describes_operations(&self) -> bool {
        self.log_operations | self.slow.is_some()
    }

    /// Returns the rules of a listener.
    #[inline]
    pub(crate) fn rules(&self, listener: ListenerIndex) -> &ListenerRules {
        self.listeners.get(usize::from(listener.0)).unwrap_or(&self.usual)
    }

    /// Returns the name of a listener. If the node file states no name, the name is the scheme of the URL. The socket
    /// in the data directory and the console, which have no URL, have fixed names.
    pub(crate) fn listener_name(&self, listener: ListenerIndex) -> ListenerName {
        let stated = self.rules(listener).name;
        stated.unwrap_or_else(|| match self.listen.get(usize::from(listener.0)) {
            Some(ServerUrl::Internet { tls: false, .. }) => ListenerName::LDAP,
            Some(ServerUrl::Internet { tls: true, .. }) => ListenerName::LDAPS,
            None if listener == ListenerIndex::CONSOLE => ListenerName::CONSOLE,
            Some(ServerUrl::Local(_)) | None => ListenerName::LDAPI,
        })
    }

    /// Returns the limits that the tables set for a client; `None` if no table applies. `is_named` gets a DN and
    /// whether the DN is that of a group. `is_named` returns true if the client is that user, or a member of that
    /// group.
    pub(crate) fn limits_of(
        &self,
        address: Option<IpAddr>,
        listener: ListenerIndex,
        is_anonymous: bool,
        is_named: impl Fn(&str, bool) -> bool,
    ) -> Option<StatedLimits> {
        let client =
            LimitedClient { address, listener: self.listen.get(usize::from(listener.0)), is_anonymous };
        let mut found = None;
        for table in &self.limits {
            if table.who.iter().any(|who| who.is(&client, &is_named)) {
                found.get_or_insert_with(StatedLimits::default).fill_up(&table.limits);
            }
        }
        found
    }

    /// Finds the rules of each open listener. `listen` must contain the URLs with which the server started, because a
    /// reload neither opens nor closes listeners.
    pub(crate) fn find_rules(&mut self, listen: &[ServerUrl]) {
        let stated = |url: &ServerUrl| self.stated.iter().find(|(stated, _)| stated == url);
        let rules = |url| stated(url).map_or_else(|| self.usual.clone(), |(_, rules)| rules.clone());
        self.listeners = listen.iter().map(rules).collect();
        self.listen = listen.to_vec();
    }

    /// Returns true if clients at this address are trusted. Trusted clients have no idle timeout and no timeout for the
    /// first request.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        is_in(address, &self.trusted_networks)
    }

    /// Returns true if connections from this address must begin with a proxy header.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        is_in(address, &self.proxy_networks)
    }
}

/// Requirements of a listener that clients must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRules {
    /// Name of the listener in access rules; `None` for the scheme of its URL.
    pub name: Option<ListenerName>,
    /// Networks whose clients need no TLS.
    pub clear_networks: Vec<IpNet>,
    /// Uses for which clients outside of `clear_networks` need TLS.
    pub tls_needed_for: TlsNeed,
    /// Weakest bind method that is accepted.
    pub weakest_bind: BindStrength,
}

impl Default for ListenerRules {
    fn default() -> ListenerRules {
        ListenerRules {
            name: None,
            clear_networks: this_machine(),
            tls_needed_for: TlsNeed::Passwords,
            weakest_bind: BindStrength::Anonymous,
        }
    }
}

impl ListenerRules {
    /// Returns true if a client at this address needs no TLS.
    pub(crate) fn allow_clear(&self, address: IpAddr) -> bool {
        is_in(address, &self.clear_networks)
    }

    /// Returns these rules with the changes that a table `[[listener]]` states.
    pub(super) fn with(&self, keys: ListenerKeys) -> ListenerRules {
        ListenerRules {
            name: keys.name.map(|name| name.0),
            clear_networks: keys.clear_networks.unwrap_or_else(|| self.clear_networks.clone()),
            tls_needed_for: keys.tls_needed_for.map_or(self.tls_needed_for, |need| need.0),
            weakest_bind: keys.weakest_bind.map_or(self.weakest_bind, |weakest| weakest.0.0),
        }
    }
}

/// Number of a listener: its index in [`Config::listen`](crate::config::Config::listen).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerIndex(pub(crate) u8);

impl ListenerIndex {
    /// Number of the socket in the data directory, which no setting names.
    pub(crate) const DATA_DIRECTORY: ListenerIndex = ListenerIndex(u8::MAX);

    /// Number of the console. Its requests do not arrive through a listener in
    /// [`Config::listen`](crate::config::Config::listen).
    pub(crate) const CONSOLE: ListenerIndex = ListenerIndex(u8::MAX - 1);
}

/// Returns a timeout in the node file as a duration. Zero seconds mean no timeout.
fn timeout(seconds: Option<u64>, default: Duration) -> Option<Duration> {
    let timeout = seconds.map_or(default, Duration::from_secs);
    (timeout > Duration::ZERO).then_some(timeout)
}

fn is_in(address: IpAddr, networks: &[IpNet]) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// Returns the default of `trusted_networks` and `clear_networks`: the loopback addresses of this machine.
fn this_machine() -> Vec<IpNet> {
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    loopback.into_iter().zip([8, 128]).filter_map(|(address, size)| IpNet::new(address, size).ok()).collect()
}
