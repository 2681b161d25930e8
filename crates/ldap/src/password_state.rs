//! Values of the Password Policy State extended operation, as OpenDJ and UnboundID's SDK encode them.
//!
//! ```text
//! SEQUENCE { targetUser LDAPDN,
//!            operations SEQUENCE OF SEQUENCE { opType ENUMERATED,
//!                opValues SEQUENCE OF OCTET STRING OPTIONAL } OPTIONAL }
//! ```
//!
//! The response has the same form. A request without operations asks for the whole state.

use ber::{Reader, Tag};

use crate::control::sequence;
use crate::oids::{PASSWORD_STATE, PASSWORD_STATE_UNBOUNDID};

/// Maximum number of operations of a request.
const OPERATIONS_MAX: usize = 128;

/// Maximum number of values of all operations of a request.
const VALUES_MAX: usize = 1_024;

/// An operation of a request, or its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOperation<V> {
    /// Kind of the operation: one of the numbers in [`state_operation`].
    pub kind: u32,
    /// Values of the operation.
    pub values: Vec<V>,
}

/// Password policy state request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRequest<'a> {
    /// DN of the user.
    pub user: &'a str,
    /// Requested operations; empty for the whole state.
    pub operations: Vec<StateOperation<&'a [u8]>>,
}

impl<'a> StateRequest<'a> {
    /// Returns true if `name` is an OID of this extended operation.
    pub fn is_name(name: &str) -> bool {
        [PASSWORD_STATE, PASSWORD_STATE_UNBOUNDID].contains(&name)
    }

    /// Decodes a request's value; returns `None` if it is malformed, or has more operations or values than the limits.
    pub fn decode(value: Option<&'a [u8]>) -> Option<StateRequest<'a>> {
        let mut reader = Reader::new(value?);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let user = std::str::from_utf8(fields.octet_string().ok()?).ok()?;
        let mut operations = Vec::new();
        let mut value_count = 0;
        if !fields.is_empty() {
            let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
            while !list.is_empty() {
                let mut operation = list.sequence(Tag::SEQUENCE).ok()?;
                let kind = u32::try_from(operation.enumerated().ok()?).ok()?;
                let mut values = Vec::new();
                if !operation.is_empty() {
                    let mut given = operation.sequence(Tag::SEQUENCE).ok()?;
                    while !given.is_empty() {
                        value_count += 1;
                        values.push(given.octet_string().ok().filter(|_| value_count <= VALUES_MAX)?);
                    }
                }
                if !operation.is_empty() || operations.len() == OPERATIONS_MAX {
                    return None;
                }
                operations.push(StateOperation { kind, values });
            }
        }
        (reader.is_empty() && fields.is_empty()).then_some(StateRequest { user, operations })
    }

    /// Returns true if the request is a change.
    pub fn changes(&self) -> bool {
        self.operations.iter().any(|operation| state_operation::is_change(operation.kind))
    }
}

/// Encodes the value of a request or a response.
pub fn encode_password_state<V: AsRef<[u8]>>(user: &str, operations: &[StateOperation<V>]) -> Vec<u8> {
    sequence(|writer| {
        writer.octet_string(user.as_bytes());
        let list = writer.begin(Tag::SEQUENCE);
        for StateOperation { kind, values } in operations {
            let operation = writer.begin(Tag::SEQUENCE);
            writer.enumerated(i64::from(*kind));
            if !values.is_empty() {
                let given = writer.begin(Tag::SEQUENCE);
                values.iter().for_each(|value| writer.octet_string(value.as_ref()));
                writer.end(given);
            }
            writer.end(operation);
        }
        writer.end(list);
    })
}

/// Numbers of the operations in requests and responses.
pub mod state_operation {
    /// Get whether the account is disabled. Operations 2 and 3 change this state.
    pub const GET_DISABLED: u32 = 1;
    /// Set whether the account is disabled.
    pub const SET_DISABLED: u32 = 2;
    /// Enable the account.
    pub const CLEAR_DISABLED: u32 = 3;
    /// Set the time at which the account expires.
    pub const SET_END: u32 = 5;
    /// Clear the time at which the account expires.
    pub const CLEAR_END: u32 = 6;
    /// Set the time at which the password was changed.
    pub const SET_CHANGED: u32 = 9;
    /// Clear the time at which the password was changed.
    pub const CLEAR_CHANGED: u32 = 10;
    /// Add a time of a failed attempt.
    pub const ADD_FAILURE: u32 = 17;
    /// Set the times of failed attempts.
    pub const SET_FAILURES: u32 = 18;
    /// Clear the failed attempts, and the lock that they caused.
    pub const CLEAR_FAILURES: u32 = 19;
    /// Set the time of the last bind.
    pub const SET_LAST_LOGIN: u32 = 23;
    /// Clear the time of the last bind.
    pub const CLEAR_LAST_LOGIN: u32 = 24;
    /// Set whether the password must be changed.
    pub const SET_RESET: u32 = 27;
    /// Clear that the password must be changed.
    pub const CLEAR_RESET: u32 = 28;
    /// Add a use of an expired password.
    pub const ADD_GRACE_USE: u32 = 31;
    /// Set the uses of an expired password.
    pub const SET_GRACE_USES: u32 = 32;
    /// Clear the uses of an expired password.
    pub const CLEAR_GRACE_USES: u32 = 33;
    /// Clear the history of former passwords.
    pub const CLEAR_HISTORY: u32 = 40;
    /// Set the time from which the account is valid.
    pub const SET_START: u32 = 46;
    /// Clear the time from which the account is valid.
    pub const CLEAR_START: u32 = 47;
    /// Set or remove the lock that failed attempts cause.
    pub const SET_FAILURE_LOCKED: u32 = 60;

    /// Set the secret of time-based codes.
    pub const ADD_TOTP: u32 = 76;
    /// Remove the secret of time-based codes if it is equal to the given value.
    pub const REMOVE_TOTP: u32 = 77;
    /// Set or remove the secret of time-based codes.
    pub const SET_TOTP: u32 = 78;
    /// Remove the secret of time-based codes.
    pub const CLEAR_TOTP: u32 = 79;

    /// Returns true if the operation with this number changes stored state.
    pub fn is_change(kind: u32) -> bool {
        matches!(
            kind,
            SET_DISABLED
                | CLEAR_DISABLED
                | SET_END
                | CLEAR_END
                | SET_CHANGED
                | CLEAR_CHANGED
                | ADD_FAILURE
                | SET_FAILURES
                | CLEAR_FAILURES
                | SET_LAST_LOGIN
                | CLEAR_LAST_LOGIN
                | SET_RESET
                | CLEAR_RESET
                | ADD_GRACE_USE
                | SET_GRACE_USES
                | CLEAR_GRACE_USES
                | CLEAR_HISTORY
                | SET_START
                | CLEAR_START
                | SET_FAILURE_LOCKED
                | ADD_TOTP
                | REMOVE_TOTP
                | SET_TOTP
                | CLEAR_TOTP
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_decode_as_encoded() {
        let operations = vec![
            StateOperation { kind: 1, values: Vec::new() },
            StateOperation { kind: 2, values: vec![&b"true"[..]] },
        ];
        let value = encode_password_state("cn=a", &operations);
        let expected =
            b"\x30\x17\x04\x04cn=a\x30\x0f\x30\x03\x0a\x01\x01\x30\x08\x0a\x01\x02\x30\x06\x04\x04true";
        assert_eq!(value.len(), expected.len() + 2 - 2);
        let request = StateRequest::decode(Some(&value)).unwrap();
        assert_eq!(request, StateRequest { user: "cn=a", operations });
        assert!(request.changes());
        let all = StateRequest::decode(Some(b"\x30\x06\x04\x04cn=a")).unwrap();
        assert!(all.operations.is_empty() && !all.changes());
    }

    #[test]
    fn malformed_values_are_refused() {
        let many =
            encode_password_state("", &vec![StateOperation::<&[u8]> { kind: 0, values: Vec::new() }; 129]);
        let values = encode_password_state("", &[StateOperation { kind: 0, values: vec![b""; 1_025] }]);
        for bytes in [
            &b""[..],
            b"\x30\x00",
            b"\x30\x03\x04\x01\xff",
            b"\x30\x04\x04\x00\x04\x00",
            b"\x30\x06\x04\x00\x30\x02\x30\x00",
            b"\x30\x09\x04\x00\x30\x05\x30\x03\x0a\x01\xff",
            b"\x30\x02\x04\x00\x00",
            &many,
            &values,
        ] {
            assert_eq!(StateRequest::decode(Some(bytes)), None, "{bytes:02x?}");
        }
        assert_eq!(StateRequest::decode(None), None);
    }
}
