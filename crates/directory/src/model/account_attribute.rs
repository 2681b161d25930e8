//! The attributes in which an entry has on record what decides about its password (draft-behera section 5.3).
//!
//! Every bind under a policy reads all of them, so an attribute of the catalogue knows which of them it is: one pass
//! over the entry's row finds those that are there.

/// One of them.
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
    /// All of them, in the order of their numbers.
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

    /// Its name in the schema.
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
            // Where others keep such keys (RFC 5803).
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
    fn each_has_its_number() {
        for (number, attribute) in AccountAttribute::ALL.into_iter().enumerate() {
            assert_eq!(attribute as usize, number, "{}", attribute.name());
        }
    }
}
