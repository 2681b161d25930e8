//! Result codes (RFC 4511 section 4.1.9 and the registry it opens).

use std::fmt;

/// Result code of an operation. Any number can arrive, so this is a number with names; [`fmt::Display`] gives the RFC's
/// name (`noSuchObject`), or the number if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultCode(pub u32);

macro_rules! result_codes {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal;)*) => {
        impl ResultCode {
            $($(#[$doc])* pub const $constant: ResultCode = ResultCode($number);)*

            /// Every code that has a name, in ascending order.
            pub const NAMED: &[ResultCode] = &[$(ResultCode($number)),*];

            /// The name the RFC gives this code, such as `noSuchObject`; `None` if no RFC we know does.
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
    /// The operation was done. For compare see [`COMPARE_TRUE`](Self::COMPARE_TRUE).
    SUCCESS = 0 "success";
    /// Out of order with other operations, or an internal inconsistency.
    OPERATIONS_ERROR = 1 "operationsError";
    /// The request is malformed, or asks for what this protocol version does not have.
    PROTOCOL_ERROR = 2 "protocolError";
    /// The time limit passed before the operation was complete.
    TIME_LIMIT_EXCEEDED = 3 "timeLimitExceeded";
    /// More entries match than the size limit.
    SIZE_LIMIT_EXCEEDED = 4 "sizeLimitExceeded";
    /// The compare assertion is false or undefined.
    COMPARE_FALSE = 5 "compareFalse";
    /// The compare assertion is true.
    COMPARE_TRUE = 6 "compareTrue";
    /// The authentication method or SASL mechanism is not offered.
    AUTH_METHOD_NOT_SUPPORTED = 7 "authMethodNotSupported";
    /// Stronger authentication is needed for this.
    STRONGER_AUTH_REQUIRED = 8 "strongerAuthRequired";
    /// The operation has to go to another server.
    REFERRAL = 10 "referral";
    /// A limit set by the administrator was exceeded.
    ADMIN_LIMIT_EXCEEDED = 11 "adminLimitExceeded";
    /// A critical control is unknown or does not fit the operation.
    UNAVAILABLE_CRITICAL_EXTENSION = 12 "unavailableCriticalExtension";
    /// The connection must be protected first.
    CONFIDENTIALITY_REQUIRED = 13 "confidentialityRequired";
    /// The SASL exchange goes on.
    SASL_BIND_IN_PROGRESS = 14 "saslBindInProgress";
    /// The entry does not have the attribute or value.
    NO_SUCH_ATTRIBUTE = 16 "noSuchAttribute";
    /// The schema does not have the attribute type.
    UNDEFINED_ATTRIBUTE_TYPE = 17 "undefinedAttributeType";
    /// The attribute does not have the matching rule that this takes.
    INAPPROPRIATE_MATCHING = 18 "inappropriateMatching";
    /// A value breaks a rule that is not its syntax.
    CONSTRAINT_VIOLATION = 19 "constraintViolation";
    /// The entry has that attribute or value already.
    ATTRIBUTE_OR_VALUE_EXISTS = 20 "attributeOrValueExists";
    /// A value does not follow its syntax.
    INVALID_ATTRIBUTE_SYNTAX = 21 "invalidAttributeSyntax";
    /// No entry has that name.
    NO_SUCH_OBJECT = 32 "noSuchObject";
    /// An alias points to no entry.
    ALIAS_PROBLEM = 33 "aliasProblem";
    /// A DN is malformed.
    INVALID_DN_SYNTAX = 34 "invalidDNSyntax";
    /// An alias was met that may not be followed there.
    ALIAS_DEREFERENCING_PROBLEM = 36 "aliasDereferencingProblem";
    /// The authentication method is not possible for this identity.
    INAPPROPRIATE_AUTHENTICATION = 48 "inappropriateAuthentication";
    /// Wrong name or password.
    INVALID_CREDENTIALS = 49 "invalidCredentials";
    /// The requester may not do this.
    INSUFFICIENT_ACCESS_RIGHTS = 50 "insufficientAccessRights";
    /// The server is too busy at the moment.
    BUSY = 51 "busy";
    /// The server is shutting down or a part of it is off line.
    UNAVAILABLE = 52 "unavailable";
    /// The server declines.
    UNWILLING_TO_PERFORM = 53 "unwillingToPerform";
    /// Aliases or referrals go in a circle.
    LOOP_DETECT = 54 "loopDetect";
    /// A part of a list is wanted, and no order (draft-ietf-ldapext-ldapv3-vlv).
    SORT_CONTROL_MISSING = 60 "sortControlMissing";
    /// There is no such place in the list (draft-ietf-ldapext-ldapv3-vlv).
    OFFSET_RANGE_ERROR = 61 "offsetRangeError";
    /// The name breaks a naming rule.
    NAMING_VIOLATION = 64 "namingViolation";
    /// The entry would not follow its object classes.
    OBJECT_CLASS_VIOLATION = 65 "objectClassViolation";
    /// Only leaves allow this.
    NOT_ALLOWED_ON_NON_LEAF = 66 "notAllowedOnNonLeaf";
    /// A value of the entry's RDN cannot be removed this way.
    NOT_ALLOWED_ON_RDN = 67 "notAllowedOnRDN";
    /// An entry of that name exists.
    ENTRY_ALREADY_EXISTS = 68 "entryAlreadyExists";
    /// The structural object class cannot be changed.
    OBJECT_CLASS_MODS_PROHIBITED = 69 "objectClassModsProhibited";
    /// It would take more than one server.
    AFFECTS_MULTIPLE_DSAS = 71 "affectsMultipleDSAs";
    /// A part of a list cannot be returned (draft-ietf-ldapext-ldapv3-vlv).
    VIRTUAL_LIST_VIEW_ERROR = 76 "virtualListViewError";
    /// Something else, said in the diagnostic text.
    OTHER = 80 "other";
    /// The operation was cancelled on request (RFC 3909).
    CANCELED = 118 "canceled";
    /// There is no operation of that id to cancel (RFC 3909).
    NO_SUCH_OPERATION = 119 "noSuchOperation";
    /// Too late to cancel the operation (RFC 3909).
    TOO_LATE = 120 "tooLate";
    /// The operation cannot be cancelled (RFC 3909).
    CANNOT_CANCEL = 121 "cannotCancel";
    /// The assertion control's filter is not true (RFC 4528).
    ASSERTION_FAILED = 122 "assertionFailed";
    /// The requester may not act as that identity (RFC 4370).
    AUTHORIZATION_DENIED = 123 "authorizationDenied";
    /// The synchronisation cookie is too old (RFC 4533).
    E_SYNC_REFRESH_REQUIRED = 4096 "e-syncRefreshRequired";
    /// It would have been done, but was only a question (draft-zeilenga-ldap-noop, as OpenLDAP numbers it).
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
    fn names_and_numbers() {
        assert_eq!(ResultCode::NO_SUCH_OBJECT.to_string(), "noSuchObject");
        assert_eq!(format!("{:?}", ResultCode::NOT_ALLOWED_ON_RDN), "notAllowedOnRDN (67)");
        assert_eq!(ResultCode(113).to_string(), "113");
        assert_eq!(ResultCode(9).name(), None);
        assert!(ResultCode::NAMED.is_sorted());
        assert!(ResultCode::NAMED.iter().all(|code| code.name().is_some()));
    }
}
