//! The value of the account usability response control, which a server sends with the entries of a search. Sun
//! Directory Server defined it; OpenDJ and 389 DS send the same control.
//!
//! ```text
//! CHOICE { is_available [0] INTEGER,
//!          is_not_available [1] SEQUENCE { inactive [0] BOOLEAN DEFAULT FALSE, reset [1] BOOLEAN DEFAULT FALSE,
//!              expired [2] BOOLEAN DEFAULT FALSE, remaining_grace [3] INTEGER OPTIONAL,
//!              seconds_before_unlock [4] INTEGER OPTIONAL } }
//! ```

use ber::{Reader, Tag, Writer};

const AVAILABLE: Tag = Tag::context(0);
const NOT_AVAILABLE: Tag = Tag::context_constructed(1);
const INACTIVE: Tag = Tag::context(0);
const RESET: Tag = Tag::context(1);
const EXPIRED: Tag = Tag::context(2);
const GRACE: Tag = Tag::context(3);
const UNLOCK: Tag = Tag::context(4);

/// Usability of an account for binds with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountUsability {
    /// The account is usable. The number is the seconds until the password expires; `None` if it never expires.
    Usable(Option<u32>),
    /// The account is not usable without further action.
    Unusable(Unusable),
}

/// Reasons that prevent a bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unusable {
    /// The account is disabled, not valid yet, or no longer valid.
    pub is_inactive: bool,
    /// The password has to be changed first.
    pub is_reset: bool,
    /// The password has expired.
    pub is_expired: bool,
    /// Number of binds that the expired password still allows.
    pub grace_left: Option<u32>,
    /// Seconds until the lock ends; `Some(None)` if only an administrator can unlock the account, `None` if it is not
    /// locked.
    pub locked: Option<Option<u32>>,
}

/// Value for "no end", as OpenDJ sends it.
const NEVER: i64 = -1;
/// maxInt of RFC 4511 section 4.1.1. A larger number is replaced by this maximum, whether sent or received.
const NUMBER_MAX: u32 = i32::MAX.unsigned_abs();

impl AccountUsability {
    /// Encodes the control's value.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let number = |seconds: Option<u32>| {
            let mut content = Vec::new();
            let seconds = seconds.map_or(NEVER, |seconds| i64::from(seconds.min(NUMBER_MAX)));
            ber::put_integer_content(&mut content, seconds);
            content
        };
        match self {
            AccountUsability::Usable(seconds) => writer.element(AVAILABLE, &number(*seconds)),
            AccountUsability::Unusable(why) => {
                let more = writer.begin(NOT_AVAILABLE);
                for (tag, is) in
                    [(INACTIVE, why.is_inactive), (RESET, why.is_reset), (EXPIRED, why.is_expired)]
                {
                    if is {
                        writer.element(tag, &[0xff]);
                    }
                }
                if let Some(grace) = why.grace_left {
                    writer.element(GRACE, &number(Some(grace)));
                }
                if let Some(seconds) = why.locked {
                    writer.element(UNLOCK, &number(seconds));
                }
                writer.end(more);
            }
        }
        value
    }

    /// Decodes the control's value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<AccountUsability> {
        let mut reader = Reader::new(value);
        let number = |content: &[u8]| match ber::integer_content(content).ok()? {
            NEVER => Some(None),
            seconds => Some(Some(u32::try_from(seconds).ok()?.min(NUMBER_MAX))),
        };
        let found = if reader.peek_tag() == Some(AVAILABLE) {
            AccountUsability::Usable(number(reader.element(AVAILABLE).ok()?)?)
        } else {
            let mut more = reader.sequence(NOT_AVAILABLE).ok()?;
            let mut is =
                |tag| more.optional(tag).ok().map(|content| content.is_some_and(|content| content != [0]));
            let (is_inactive, is_reset, is_expired) = (is(INACTIVE)?, is(RESET)?, is(EXPIRED)?);
            let grace_left = match more.optional(GRACE).ok()? {
                Some(content) => number(content)?,
                None => None,
            };
            let locked = match more.optional(UNLOCK).ok()? {
                Some(content) => Some(number(content)?),
                None => None,
            };
            if !more.is_empty() {
                return None;
            }
            AccountUsability::Unusable(Unusable { is_inactive, is_reset, is_expired, grace_left, locked })
        };
        reader.is_empty().then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_decode_as_encoded() {
        let check = |usability: AccountUsability, bytes: &[u8]| {
            assert_eq!(usability.encode(), bytes, "{usability:?}");
            assert_eq!(AccountUsability::decode(bytes), Some(usability));
        };
        check(AccountUsability::Usable(None), &[0x80, 1, 0xff]);
        check(AccountUsability::Usable(Some(300)), &[0x80, 2, 1, 44]);
        let none = Unusable::default();
        check(AccountUsability::Unusable(none), &[0xa1, 0]);
        let all = Unusable {
            is_inactive: true,
            is_reset: true,
            is_expired: true,
            grace_left: Some(2),
            locked: Some(Some(60)),
        };
        let bytes = [0xa1, 15, 0x80, 1, 0xff, 0x81, 1, 0xff, 0x82, 1, 0xff, 0x83, 1, 2, 0x84, 1, 60];
        check(AccountUsability::Unusable(all), &bytes);
        check(AccountUsability::Unusable(Unusable { locked: Some(None), ..none }), &[0xa1, 3, 0x84, 1, 0xff]);
    }

    #[test]
    fn numbers_above_max_int_are_reduced_to_it() {
        let most = AccountUsability::Usable(Some(NUMBER_MAX));
        assert_eq!(AccountUsability::Usable(Some(u32::MAX)).encode(), most.encode());
        assert_eq!(AccountUsability::decode(&[0x80, 5, 0, 0xff, 0xff, 0xff, 0xff]), Some(most));
    }

    #[test]
    fn malformed_values_are_refused() {
        for bytes in [&b""[..], &[0x80], &[0x80, 0], &[0xa1, 1, 0], &[0xa1, 2, 0x85, 0], &[0x80, 1, 1, 0]] {
            assert_eq!(AccountUsability::decode(bytes), None, "{bytes:02x?}");
        }
    }
}
