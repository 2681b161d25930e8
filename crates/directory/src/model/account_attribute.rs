//! Attributes of an entry that record the state of its password (draft-behera section 5.3).
//!
//! Every bind under a password policy reads all of these attributes. The catalog marks their numbers, so that one pass
//! over an entry's row finds all of them.

/// An attribute of the password state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountAttribute {
    ChangedTime,
    LockedTime,
    FailureTime,
    GraceUseTime,
    Reset,
    PolicySubentry,
    StartTime,
    EndTime,
    LastSuccess,
    ScramKeys,
    AuthPassword,
    TotpSecret,
    TotpLastStep,
}

impl AccountAttribute {
    /// All attributes of the password state, in the order of their numbers.
    pub(crate) const ALL: [AccountAttribute; 13] = [
        AccountAttribute::ChangedTime,
        AccountAttribute::LockedTime,
        AccountAttribute::FailureTime,
        AccountAttribute::GraceUseTime,
        AccountAttribute::Reset,
        AccountAttribute::PolicySubentry,
        AccountAttribute::StartTime,
        AccountAttribute::EndTime,
        AccountAttribute::LastSuccess,
        AccountAttribute::ScramKeys,
        AccountAttribute::AuthPassword,
        AccountAttribute::TotpSecret,
        AccountAttribute::TotpLastStep,
    ];

    /// Returns true if an administrator can restrict binds with the attribute even without a password policy.
    pub(crate) const fn restricts_binds(self) -> bool {
        matches!(self, AccountAttribute::LockedTime | AccountAttribute::StartTime | AccountAttribute::EndTime)
    }

    /// Returns the attribute's name in the schema.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            AccountAttribute::ChangedTime => "pwdChangedTime",
            AccountAttribute::LockedTime => "pwdAccountLockedTime",
            AccountAttribute::FailureTime => "pwdFailureTime",
            AccountAttribute::GraceUseTime => "pwdGraceUseTime",
            AccountAttribute::Reset => "pwdReset",
            AccountAttribute::PolicySubentry => "pwdPolicySubentry",
            AccountAttribute::StartTime => "pwdStartTime",
            AccountAttribute::EndTime => "pwdEndTime",
            AccountAttribute::LastSuccess => "pwdLastSuccess",
            AccountAttribute::ScramKeys => "pandoScramKeys",
            // Other servers keep SCRAM keys in this attribute (RFC 5803).
            AccountAttribute::AuthPassword => "authPassword",
            AccountAttribute::TotpSecret => "pandoTotpSecret",
            AccountAttribute::TotpLastStep => "pandoTotpLastStep",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_has_the_number_of_its_position() {
        for (number, attribute) in AccountAttribute::ALL.into_iter().enumerate() {
            assert_eq!(attribute as usize, number, "{}", attribute.name());
        }
    }
}
