//! UnboundID's extended operation Get Connection ID, which returns the number of the connection. The log and the audit
//! trail contain the same number.

use directory::Outcome;
use ldap::{ExtendedRequest, ResultCode};

use super::Session;
use crate::session::context::Context;

impl Session {
    /// Returns the number of the connection as an INTEGER.
    pub(super) fn connection_id(
        &mut self,
        _: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        match request.value {
            Some(_) => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "Get Connection ID takes no value")),
            None => Ok(ldap::encode_integer(i64::try_from(self.number).unwrap_or(i64::MAX))),
        }
    }
}
