//! The value of the password policy response control (draft-behera-ldap-password-policy section 6.2).

use ber::{Reader, Tag};

use crate::control::sequence;

const WARNING: Tag = Tag::context_constructed(0);
const ERROR: Tag = Tag::context(1);
const TIME_BEFORE_EXPIRATION: Tag = Tag::context(0);
const GRACE_LEFT: Tag = Tag::context(1);

/// Password policy response control: state of a password in addition to the result code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyResponse {
    /// Warning for the user.
    pub warning: Option<PolicyWarning>,
    /// Error of the password, or the reason why the user may only change the password.
    pub error: Option<PolicyError>,
}

/// Warning for the user of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyWarning {
    /// The password expires in this many seconds.
    TimeBeforeExpiration(u32),
    /// The password has expired and can be used this many times more.
    GraceLeft(u32),
}

/// Violation of a password policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The password has expired.
    PasswordExpired,
    /// The account is locked.
    AccountLocked,
    /// The password was reset, and the user must change it before any other operation.
    ChangeAfterReset,
    /// The user may not change the password.
    ModificationNotAllowed,
    /// The old password must be supplied with the new one.
    MustSupplyOldPassword,
    /// The password is too easy to guess.
    InsufficientQuality,
    /// The password is too short.
    TooShort,
    /// The old password was changed too recently.
    TooYoung,
    /// The password was used before.
    InHistory,
    /// The password is too long.
    TooLong,
}

impl PolicyError {
    /// All errors, in the order of their numbers.
    const ALL: [PolicyError; 10] = [
        PolicyError::PasswordExpired,
        PolicyError::AccountLocked,
        PolicyError::ChangeAfterReset,
        PolicyError::ModificationNotAllowed,
        PolicyError::MustSupplyOldPassword,
        PolicyError::InsufficientQuality,
        PolicyError::TooShort,
        PolicyError::TooYoung,
        PolicyError::InHistory,
        PolicyError::TooLong,
    ];

    /// Returns the number of the error (draft-behera-ldap-password-policy section 6.2).
    pub fn number(self) -> u8 {
        let place = PolicyError::ALL.iter().position(|known| *known == self);
        place.and_then(|place| u8::try_from(place).ok()).unwrap_or(0)
    }

    /// Returns the error with this number.
    pub fn of_number(number: u8) -> Option<PolicyError> {
        PolicyError::ALL.get(usize::from(number)).copied()
    }
}

impl PolicyResponse {
    /// Returns a response with this error and without a warning.
    pub fn error(error: PolicyError) -> PolicyResponse {
        PolicyResponse { warning: None, error: Some(error) }
    }

    /// Encodes the control's value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            if let Some(warning) = self.warning {
                let (tag, number) = match warning {
                    PolicyWarning::TimeBeforeExpiration(seconds) => (TIME_BEFORE_EXPIRATION, seconds),
                    PolicyWarning::GraceLeft(count) => (GRACE_LEFT, count),
                };
                let mut content = Vec::new();
                // maxInt of RFC 4511 section 4.1.1.
                ber::put_integer_content(&mut content, i64::from(number.min(i32::MAX.unsigned_abs())));
                let choice = writer.begin(WARNING);
                writer.element(tag, &content);
                writer.end(choice);
            }
            if let Some(place) = PolicyError::ALL.iter().position(|known| Some(*known) == self.error) {
                writer.element(ERROR, &[u8::try_from(place).unwrap_or(0)]);
            }
        })
    }

    /// Decodes the control's value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<PolicyResponse> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut response = PolicyResponse::default();
        if fields.peek_tag() == Some(WARNING) {
            let mut choice = fields.sequence(WARNING).ok()?;
            let (tag, content) = choice.any().ok()?;
            let number = u32::try_from(ber::integer_content(content).ok()?).ok()?;
            response.warning = Some(match tag {
                TIME_BEFORE_EXPIRATION => PolicyWarning::TimeBeforeExpiration(number),
                GRACE_LEFT => PolicyWarning::GraceLeft(number),
                _ => return None,
            });
        }
        if let Some(content) = fields.optional(ERROR).ok()? {
            let number = usize::try_from(ber::integer_content(content).ok()?).ok()?;
            response.error = Some(*PolicyError::ALL.get(number)?);
        }
        (reader.is_empty() && fields.is_empty()).then_some(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_decode_as_encoded() {
        let check = |warning, error, bytes: &[u8]| {
            let response = PolicyResponse { warning, error };
            assert_eq!(response.encode(), bytes, "{response:?}");
            assert_eq!(PolicyResponse::decode(bytes), Some(response));
        };
        check(None, None, &[0x30, 0]);
        check(None, Some(PolicyError::PasswordExpired), &[0x30, 3, 0x81, 1, 0]);
        check(None, Some(PolicyError::TooLong), &[0x30, 3, 0x81, 1, 9]);
        check(Some(PolicyWarning::GraceLeft(3)), None, &[0x30, 5, 0xa0, 3, 0x81, 1, 3]);
        let both = [0x30, 9, 0xa0, 4, 0x80, 2, 0x0e, 0x10, 0x81, 1, 2];
        check(Some(PolicyWarning::TimeBeforeExpiration(3_600)), Some(PolicyError::ChangeAfterReset), &both);
    }

    #[test]
    fn malformed_values_are_refused() {
        for bytes in [&b""[..], &[0x30], &[0x30, 3, 0x81, 1, 10], &[0x30, 0, 0], &[0x30, 2, 0xa0, 0]] {
            assert_eq!(PolicyResponse::decode(bytes), None, "{bytes:02x?}");
        }
    }
}
