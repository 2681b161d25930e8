//! Limits that `[[limit]]` tables set for a session, and the place of its connection under such a limit.

use std::time::Duration;

use directory::Requester;
use directory::identity::is_named;
use ldap::DecodeLimits;

use super::Session;
use crate::config::ListenerIndex;
use crate::config::limit_tables::StatedLimits;
use crate::limits::{UNSENT_MAX, UNSENT_OWN_MAX};
use crate::net::connection_places::ConnectionPlace;
use crate::session::context::Context;

/// Limits that `[[limit]]` tables set for a session.
pub(super) struct OwnLimits {
    stated: StatedLimits,
    /// Place of the connection under a table's connection limit, if a table has such a limit.
    place: Option<ConnectionPlace>,
}

impl Session {
    /// Finds the `[[limit]]` tables that apply to the session's present requester.
    pub(crate) fn find_limits(&mut self, context: &Context) {
        let settings = &context.settings;
        let place = self.limits.take().and_then(|own| own.place);
        // The administrator has no limits.
        let stated = match settings.limits.is_empty() || self.requester.is_administrator() {
            true => None,
            false => {
                let is_anonymous = *self.requester == Requester::Anonymous;
                let is_named =
                    |dn: &str, as_group| is_named(&context.snapshot, &self.requester, dn, as_group);
                settings.limits_of(self.source.address(), self.listener, is_anonymous, is_named)
            }
        };
        if stated.is_some() || place.is_some() {
            self.limits = Some(Box::new(OwnLimits { stated: stated.unwrap_or_default(), place }));
        }
    }

    /// Takes a place under the connection limit that applies now, and releases the previous place. Connections to the
    /// socket in the data directory need no place, so that the administrator can always connect.
    ///
    /// # Errors
    /// The limit is reached. The session keeps its previous place.
    pub(crate) fn take_place(&mut self, context: &Context) -> Result<(), &'static str> {
        let Some(own) = self.limits.as_deref_mut() else { return Ok(()) };
        let limit = own.stated.connections.as_ref();
        let limit = limit.filter(|_| self.listener != ListenerIndex::DATA_DIRECTORY);
        let is_same = own.place.as_ref().zip(limit).is_some_and(|(place, limit)| place.is_of(limit));
        if !is_same {
            let enter = |limit| context.shared.arrivals.take_place(limit, self.source, context.now);
            own.place = limit.map(enter).transpose()?;
        }
        Ok(())
    }

    /// Returns the limits that the tables set for this session.
    #[inline]
    pub(super) fn stated_limits(&self) -> Option<&StatedLimits> {
        self.limits.as_deref().map(|own| &own.stated)
    }

    /// Returns the idle time after which the connection is closed, if a table sets such a time.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.stated_limits().and_then(|limits| limits.idle)
    }

    /// Returns the number of unsent answer bytes at which searches pause and reading stops.
    #[inline]
    pub(crate) fn unsent_max(&self) -> usize {
        let own = self.stated_limits().and_then(|limits| limits.slow_reader_bytes);
        own.map_or(UNSENT_MAX, |own| own.min(UNSENT_OWN_MAX))
    }

    /// Returns the limits for decoding the next message.
    pub(super) fn decode_limits(&self, context: &Context) -> DecodeLimits {
        let mut usual = context.decode_limits(*self.requester != Requester::Anonymous);
        if let Some(own) = self.stated_limits().and_then(|limits| limits.message_size) {
            usual.message_size_max = own.min(context.settings.message_size_max);
        }
        usual
    }

    /// Returns the maximum number of outstanding requests.
    pub(super) fn outstanding_max(&self, context: &Context) -> usize {
        let own = self.stated_limits().and_then(|limits| limits.outstanding);
        own.unwrap_or(context.settings.outstanding_max)
    }
}
