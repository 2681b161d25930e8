//! Context of a request: facts that the client does not send in the request.

use ldap::PositionToken;

use super::{OfferedBinds, Requester, RequesterLimits};
use crate::model::client_link::ClientLink;

/// Context of a request. The session builds the context; search, compare and `decide` borrow it.
///
/// The context complements [`RequestControls`](crate::controls::RequestControls), which holds the controls that the
/// client sent.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'r> {
    /// Authorization identity.
    pub requester: &'r Requester,
    /// Connection of the client; `None` if no access rule tests it.
    pub link: Option<ClientLink>,
    /// Bind methods that the connection offers. Set for requests that may read the root DSE.
    pub offered: OfferedBinds,
    /// Limits for this requester, which replace the limits in the settings.
    pub limits: RequesterLimits,
    /// Position of the snapshot, if the client asks for it.
    pub position: Option<PositionToken>,
    /// Time in microseconds since 1970; 0 if no answer depends on it.
    pub now: i64,
}

impl<'r> RequestContext<'r> {
    /// Returns the context of a request with this identity over this connection. All other fields have their defaults.
    pub fn new(requester: &'r Requester, link: Option<ClientLink>) -> RequestContext<'r> {
        let (offered, limits) = (OfferedBinds::default(), RequesterLimits::default());
        RequestContext { requester, link, offered, limits, position: None, now: 0 }
    }
}

impl Requester {
    /// Returns the context of a request by this requester. All other fields have their defaults.
    pub fn context(&self) -> RequestContext<'_> {
        RequestContext::new(self, None)
    }
}
