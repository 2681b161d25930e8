//! Errors in the form in which clients receive them (RFC 7644 section 3.12).

use client::{ClientError, Outcome};
use ldap::ResultCode;
use serde_json::{Value, json};

/// URN of the schema of an error.
const SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// An error: an HTTP status, a SCIM keyword with the statuses 400 and 409, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimError {
    /// The HTTP status.
    pub status: u16,
    /// The keyword, from table 9 in RFC 7644 or from RFC 9865.
    pub scim_type: Option<&'static str>,
    /// Description of the error. It contains the wrong value, if there is one.
    pub detail: String,
}

pub(crate) type Result<T> = std::result::Result<T, ScimError>;

impl ScimError {
    pub(crate) fn new(status: u16, detail: impl Into<String>) -> ScimError {
        ScimError { status, scim_type: None, detail: detail.into() }
    }

    fn bad(scim_type: &'static str, detail: impl Into<String>) -> ScimError {
        ScimError { status: 400, scim_type: Some(scim_type), detail: detail.into() }
    }

    pub(crate) fn syntax(detail: impl Into<String>) -> ScimError {
        ScimError::bad("invalidSyntax", detail)
    }

    pub(crate) fn value(detail: impl Into<String>) -> ScimError {
        ScimError::bad("invalidValue", detail)
    }

    pub(crate) fn filter(detail: impl Into<String>) -> ScimError {
        ScimError::bad("invalidFilter", detail)
    }

    pub(crate) fn path(detail: impl Into<String>) -> ScimError {
        ScimError::bad("invalidPath", detail)
    }

    pub(crate) fn no_target(detail: impl Into<String>) -> ScimError {
        ScimError::bad("noTarget", detail)
    }

    pub(crate) fn mutability(detail: impl Into<String>) -> ScimError {
        ScimError::bad("mutability", detail)
    }

    pub(crate) fn too_many(detail: impl Into<String>) -> ScimError {
        ScimError::bad("tooMany", detail)
    }

    /// Returns an error about a cursor (RFC 9865 section 2.1).
    pub(crate) fn cursor(detail: impl Into<String>) -> ScimError {
        ScimError::bad("invalidCursor", detail)
    }

    pub(crate) fn not_found(what: &str) -> ScimError {
        ScimError::new(404, format!("{what} does not exist, or you may not see it"))
    }

    /// Returns the error about a version in the request that is not the current version (RFC 7644 section 3.14).
    pub(crate) fn version() -> ScimError {
        ScimError::new(412, "the resource has changed: its version is not the one in If-Match")
    }

    /// Returns the error of a search that failed.
    pub(crate) fn of_search(outcome: &Outcome) -> ScimError {
        let text = describe(outcome);
        match outcome.code {
            ResultCode::SIZE_LIMIT_EXCEEDED
            | ResultCode::TIME_LIMIT_EXCEEDED
            | ResultCode::ADMIN_LIMIT_EXCEEDED
            | ResultCode::UNWILLING_TO_PERFORM
            | ResultCode::UNAVAILABLE_CRITICAL_EXTENSION => ScimError::too_many(text),
            ResultCode::INAPPROPRIATE_MATCHING => ScimError::filter(text),
            ResultCode::NO_SUCH_OBJECT => {
                ScimError::new(404, format!("the base of these resources cannot be read: {text}"))
            }
            _ => ScimError::of_change(outcome),
        }
    }

    /// Returns the error of a change that failed.
    pub(crate) fn of_change(outcome: &Outcome) -> ScimError {
        let text = describe(outcome);
        match outcome.code {
            ResultCode::INSUFFICIENT_ACCESS_RIGHTS | ResultCode::UNWILLING_TO_PERFORM => {
                ScimError::new(403, text)
            }
            ResultCode::NO_SUCH_OBJECT => ScimError::new(404, text),
            ResultCode::ENTRY_ALREADY_EXISTS | ResultCode::ATTRIBUTE_OR_VALUE_EXISTS => {
                ScimError { status: 409, scim_type: Some("uniqueness"), detail: text }
            }
            ResultCode::NOT_ALLOWED_ON_NON_LEAF => ScimError::new(409, text),
            ResultCode::CONSTRAINT_VIOLATION if is_uniqueness(&outcome.diagnostic) => {
                ScimError { status: 409, scim_type: Some("uniqueness"), detail: text }
            }
            ResultCode::CONSTRAINT_VIOLATION
            | ResultCode::INVALID_ATTRIBUTE_SYNTAX
            | ResultCode::INVALID_DN_SYNTAX
            | ResultCode::NO_SUCH_ATTRIBUTE
            | ResultCode::UNDEFINED_ATTRIBUTE_TYPE
            | ResultCode::NAMING_VIOLATION
            | ResultCode::OBJECT_CLASS_VIOLATION => ScimError::value(text),
            ResultCode::NOT_ALLOWED_ON_RDN | ResultCode::OBJECT_CLASS_MODS_PROHIBITED => {
                ScimError::mutability(text)
            }
            ResultCode::SIZE_LIMIT_EXCEEDED
            | ResultCode::TIME_LIMIT_EXCEEDED
            | ResultCode::ADMIN_LIMIT_EXCEEDED => ScimError::too_many(text),
            ResultCode::STRONGER_AUTH_REQUIRED | ResultCode::CONFIDENTIALITY_REQUIRED => {
                ScimError::new(403, text)
            }
            ResultCode::BUSY | ResultCode::UNAVAILABLE => ScimError::new(503, text),
            _ => ScimError::new(500, text),
        }
    }

    /// Returns the error of a bind that failed.
    pub(crate) fn of_bind(outcome: &Outcome) -> ScimError {
        match outcome.code {
            ResultCode::BUSY | ResultCode::UNAVAILABLE => ScimError::new(503, describe(outcome)),
            _ => ScimError::new(401, describe(outcome)),
        }
    }

    /// Returns the JSON document of the error.
    pub(crate) fn document(&self) -> Value {
        // The status in the document is a string and no number (RFC 7644 section 3.12).
        let mut document = json!({
            "schemas": [SCHEMA],
            "status": self.status.to_string(),
            "detail": self.detail,
        });
        if let Some(scim_type) = self.scim_type {
            document["scimType"] = scim_type.into();
        }
        document
    }
}

/// Converts an error of the connection to the directory. The reason is logged for the administrator, and the client
/// does not receive it.
impl From<ClientError> for ScimError {
    fn from(error: ClientError) -> ScimError {
        match error {
            ClientError::TooLarge(_) => {
                ScimError::too_many("the answer would be too large: exclude members, or ask for less")
            }
            ClientError::Filter(error) => ScimError::filter(error.to_string()),
            error => {
                tracing::warn!("SCIM: the directory did not answer: {error}");
                ScimError::new(503, "the directory did not answer; the server's log says why")
            }
        }
    }
}

/// Returns true if the directory refused a value because another entry already has the value.
fn is_uniqueness(diagnostic: &str) -> bool {
    diagnostic.contains("another entry has")
}

fn describe(outcome: &Outcome) -> String {
    if outcome.diagnostic.is_empty() {
        outcome.code.to_string()
    } else {
        format!("{}: {}", outcome.code, outcome.diagnostic)
    }
}
