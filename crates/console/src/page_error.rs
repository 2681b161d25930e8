//! Errors of pages. Each error determines the status and the text of the response.

use axum::http::StatusCode;
use client::{ClientError, Outcome};
use ldap::{PolicyError, PolicyResponse, ResultCode};
use serde::Serialize;

use crate::host::ConversationError;

/// The reason why a page cannot be shown or a change cannot be made.
#[derive(Debug)]
pub(crate) enum PageError {
    /// The directory refused the request. A password policy may have added an error.
    Refused(Outcome, Option<PolicyError>),
    /// The directory did not answer.
    Client(ClientError),
    /// The conversation with the directory could not be run.
    Conversation(ConversationError),
    /// The request is invalid. The string is the path of the explanation in the texts.
    Request(StatusCode, &'static str),
    /// A change cannot be undone, because the values were changed again later. The text describes these values.
    ValuesChanged(String),
}

/// Explanation of an error for a page.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    /// Path of the explanation in the texts.
    pub(crate) text: String,
    /// The server's diagnostic message, if it returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// Number and name of the LDAP result code, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
}

impl From<ClientError> for PageError {
    fn from(error: ClientError) -> PageError {
        PageError::Client(error)
    }
}

impl PageError {
    /// Returns an error if the outcome is not a success.
    pub(crate) fn unless_success(outcome: Outcome, policy: Option<PolicyResponse>) -> Result<(), PageError> {
        if outcome.is_success() {
            return Ok(());
        }
        Err(PageError::Refused(outcome, policy.and_then(|policy| policy.error)))
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            PageError::Refused(outcome, _) => status_of(outcome.code),
            PageError::Client(ClientError::TimedOut) => StatusCode::GATEWAY_TIMEOUT,
            PageError::Client(ClientError::Filter(_)) => StatusCode::BAD_REQUEST,
            PageError::Client(_) => StatusCode::BAD_GATEWAY,
            PageError::Conversation(ConversationError::Overloaded) => StatusCode::SERVICE_UNAVAILABLE,
            PageError::Conversation(_) => StatusCode::INTERNAL_SERVER_ERROR,
            PageError::Request(status, _) => *status,
            PageError::ValuesChanged(_) => StatusCode::CONFLICT,
        }
    }

    /// Returns the explanation of the error for a page.
    pub(crate) fn explain(&self) -> Explanation {
        let of =
            |text: &str, detail: Option<String>| Explanation { text: text.to_owned(), detail, result: None };
        match self {
            PageError::Refused(_, Some(policy)) => of(policy_text(*policy), None),
            PageError::Refused(outcome, None) => Explanation {
                text: refused_text(outcome.code).to_owned(),
                detail: Some(outcome.diagnostic.clone()).filter(|words| !words.is_empty()),
                result: Some(outcome.code.to_string()),
            },
            PageError::Client(ClientError::TimedOut) => of("trouble.timed_out", None),
            PageError::Client(error @ ClientError::Filter(_)) => {
                of("trouble.filter", Some(error.to_string()))
            }
            PageError::Client(error) => of("trouble.no_answer", Some(error.to_string())),
            PageError::Conversation(ConversationError::Overloaded) => of("trouble.overloaded", None),
            PageError::Conversation(_) => of("trouble.defect", None),
            PageError::Request(_, text) => of(text, None),
            PageError::ValuesChanged(values) => of("history.changed_since", Some(values.clone())),
        }
    }
}

fn status_of(code: ResultCode) -> StatusCode {
    match code {
        ResultCode::NO_SUCH_OBJECT => StatusCode::NOT_FOUND,
        ResultCode::INSUFFICIENT_ACCESS_RIGHTS => StatusCode::FORBIDDEN,
        ResultCode::INVALID_CREDENTIALS => StatusCode::UNAUTHORIZED,
        ResultCode::ASSERTION_FAILED | ResultCode::ENTRY_ALREADY_EXISTS => StatusCode::CONFLICT,
        ResultCode::BUSY | ResultCode::UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
        ResultCode::OTHER | ResultCode::OPERATIONS_ERROR => StatusCode::BAD_GATEWAY,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn refused_text(code: ResultCode) -> &'static str {
    match code {
        ResultCode::NO_SUCH_OBJECT => "trouble.no_such_entry",
        ResultCode::INSUFFICIENT_ACCESS_RIGHTS => "trouble.no_right",
        ResultCode::ASSERTION_FAILED => "trouble.changed_meanwhile",
        ResultCode::ENTRY_ALREADY_EXISTS => "trouble.exists",
        ResultCode::BUSY | ResultCode::UNAVAILABLE => "trouble.unavailable",
        ResultCode::SIZE_LIMIT_EXCEEDED => "trouble.size_limit",
        ResultCode::TIME_LIMIT_EXCEEDED | ResultCode::ADMIN_LIMIT_EXCEEDED => "trouble.limit",
        _ => "trouble.refused",
    }
}

/// Returns the path of the text for an error of a password policy.
pub(crate) fn policy_text(error: PolicyError) -> &'static str {
    match error {
        PolicyError::PasswordExpired => "policy.expired",
        PolicyError::AccountLocked => "policy.locked",
        PolicyError::ChangeAfterReset => "policy.must_change",
        PolicyError::ModificationNotAllowed => "policy.not_allowed",
        PolicyError::MustSupplyOldPassword => "policy.old_password",
        PolicyError::InsufficientQuality => "policy.quality",
        PolicyError::TooShort => "policy.too_short",
        PolicyError::TooYoung => "policy.too_young",
        PolicyError::InHistory => "policy.in_history",
        PolicyError::TooLong => "policy.too_long",
    }
}
