//! Result codes (RFC 4511 section 4.1.9, and the registry of IANA).

use std::fmt;

/// Result code of an operation: a number and not an enum, because a server may send any number. [`fmt::Display`] writes
/// the RFC's name (`noSuchObject`), or the number if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultCode(pub u32);

macro_rules! result_codes {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal;)*) => {
        impl ResultCode {
            $($(#[$doc])* pub const $constant: ResultCode = ResultCode($number);)*

            /// Every code that has a name, in ascending order.
            pub const NAMED: &[ResultCode] = &[$(ResultCode($number)),*];

            /// Returns the RFC's name of this code, such as `noSuchObject`; `None` if the code is not in this list.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

result_codes! {
    /// The operation succeeded. For compare see [`COMPARE_TRUE`](Self::COMPARE_TRUE).
    SUCCESS = 0 "success";
    /// The operation is out of sequence with other operations, or the server has an internal error.
    OPERATIONS_ERROR = 1 "operationsError";
    /// The request is malformed, or this protocol version does not define it.
    PROTOCOL_ERROR = 2 "protocolError";
    /// The time limit passed before the operation was complete.
    TIME_LIMIT_EXCEEDED = 3 "timeLimitExceeded";
    /// More entries match than the size limit allows.
    SIZE_LIMIT_EXCEEDED = 4 "sizeLimitExceeded";
    /// The compare assertion is false or undefined.
    COMPARE_FALSE = 5 "compareFalse";
    /// The compare assertion is true.
    COMPARE_TRUE = 6 "compareTrue";
    /// The authentication method or SASL mechanism is not offered.
    AUTH_METHOD_NOT_SUPPORTED = 7 "authMethodNotSupported";
    /// The operation requires stronger authentication.
    STRONGER_AUTH_REQUIRED = 8 "strongerAuthRequired";
    /// Another server must perform the operation.
    REFERRAL = 10 "referral";
    /// A limit set by the administrator was exceeded.
    ADMIN_LIMIT_EXCEEDED = 11 "adminLimitExceeded";
    /// A critical control is unknown, or not appropriate for the operation.
    UNAVAILABLE_CRITICAL_EXTENSION = 12 "unavailableCriticalExtension";
    /// The connection must be protected first.
    CONFIDENTIALITY_REQUIRED = 13 "confidentialityRequired";
    /// The SASL exchange continues.
    SASL_BIND_IN_PROGRESS = 14 "saslBindInProgress";
    /// The entry does not have the attribute or value.
    NO_SUCH_ATTRIBUTE = 16 "noSuchAttribute";
    /// The schema does not have the attribute type.
    UNDEFINED_ATTRIBUTE_TYPE = 17 "undefinedAttributeType";
    /// The attribute does not have the matching rule that the operation requires.
    INAPPROPRIATE_MATCHING = 18 "inappropriateMatching";
    /// A value violates a constraint other than its syntax.
    CONSTRAINT_VIOLATION = 19 "constraintViolation";
    /// The entry has that attribute or value already.
    ATTRIBUTE_OR_VALUE_EXISTS = 20 "attributeOrValueExists";
    /// A value does not follow its syntax.
    INVALID_ATTRIBUTE_SYNTAX = 21 "invalidAttributeSyntax";
    /// No entry has that name.
    NO_SUCH_OBJECT = 32 "noSuchObject";
    /// An alias names no entry.
    ALIAS_PROBLEM = 33 "aliasProblem";
    /// A DN is malformed.
    INVALID_DN_SYNTAX = 34 "invalidDNSyntax";
    /// An alias was found at a position at which it may not be dereferenced.
    ALIAS_DEREFERENCING_PROBLEM = 36 "aliasDereferencingProblem";
    /// The authentication method is not possible for this identity.
    INAPPROPRIATE_AUTHENTICATION = 48 "inappropriateAuthentication";
    /// Wrong name or password.
    INVALID_CREDENTIALS = 49 "invalidCredentials";
    /// The requester does not have the right to perform the operation.
    INSUFFICIENT_ACCESS_RIGHTS = 50 "insufficientAccessRights";
    /// The server is too busy at the moment.
    BUSY = 51 "busy";
    /// The server is shutting down, or a part of it is offline.
    UNAVAILABLE = 52 "unavailable";
    /// The server refuses the operation.
    UNWILLING_TO_PERFORM = 53 "unwillingToPerform";
    /// Aliases or referrals form a loop.
    LOOP_DETECT = 54 "loopDetect";
    /// The request has a virtual list view control and no sort control (draft-ietf-ldapext-ldapv3-vlv).
    SORT_CONTROL_MISSING = 60 "sortControlMissing";
    /// The requested offset is not in the list (draft-ietf-ldapext-ldapv3-vlv).
    OFFSET_RANGE_ERROR = 61 "offsetRangeError";
    /// The name violates a naming rule.
    NAMING_VIOLATION = 64 "namingViolation";
    /// The entry would violate the rules of its object classes.
    OBJECT_CLASS_VIOLATION = 65 "objectClassViolation";
    /// The operation is only allowed on leaf entries.
    NOT_ALLOWED_ON_NON_LEAF = 66 "notAllowedOnNonLeaf";
    /// The operation would remove a value of the entry's RDN.
    NOT_ALLOWED_ON_RDN = 67 "notAllowedOnRDN";
    /// An entry of that name exists.
    ENTRY_ALREADY_EXISTS = 68 "entryAlreadyExists";
    /// The structural object class cannot be changed.
    OBJECT_CLASS_MODS_PROHIBITED = 69 "objectClassModsProhibited";
    /// The operation would affect more than one server.
    AFFECTS_MULTIPLE_DSAS = 71 "affectsMultipleDSAs";
    /// The requested part of a list cannot be returned (draft-ietf-ldapext-ldapv3-vlv).
    VIRTUAL_LIST_VIEW_ERROR = 76 "virtualListViewError";
    /// Another error, which the diagnostic text describes.
    OTHER = 80 "other";
    /// The operation was cancelled on request (RFC 3909).
    CANCELED = 118 "canceled";
    /// No operation with that id can be cancelled (RFC 3909).
    NO_SUCH_OPERATION = 119 "noSuchOperation";
    /// The operation can no longer be cancelled (RFC 3909).
    TOO_LATE = 120 "tooLate";
    /// The operation cannot be cancelled (RFC 3909).
    CANNOT_CANCEL = 121 "cannotCancel";
    /// The assertion control's filter is not true (RFC 4528).
    ASSERTION_FAILED = 122 "assertionFailed";
    /// The requester may not act as that identity (RFC 4370).
    AUTHORIZATION_DENIED = 123 "authorizationDenied";
    /// The synchronization cookie is too old (RFC 4533).
    E_SYNC_REFRESH_REQUIRED = 4096 "e-syncRefreshRequired";
    /// The operation would have succeeded, but the client requested no operation (draft-zeilenga-ldap-noop, with
    /// OpenLDAP's number).
    NO_OPERATION = 16_654 "noOperation";
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl fmt::Debug for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_result_codes_display_their_names() {
        assert_eq!(ResultCode::NO_SUCH_OBJECT.to_string(), "noSuchObject");
        assert_eq!(format!("{:?}", ResultCode::NOT_ALLOWED_ON_RDN), "notAllowedOnRDN (67)");
        assert_eq!(ResultCode(113).to_string(), "113");
        assert_eq!(ResultCode(9).name(), None);
        assert!(ResultCode::NAMED.is_sorted());
        assert!(ResultCode::NAMED.iter().all(|code| code.name().is_some()));
    }
}
