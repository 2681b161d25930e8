//! Kinds of userPassword values, as their attribute options show them (decision 0084).

/// Prefix of the option of userPassword that names an application.
const OPTION: &str = "x-app-";

/// Kind of a userPassword value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordKind {
    /// The user's own password, without options.
    Own,
    /// The password of an application.
    Application,
    /// A password that allows no bind. Requests cannot store one; older data may contain some.
    Unusable,
}

impl PasswordKind {
    /// Returns the kind of a password with these options, in lower case.
    pub(crate) fn of(options: &str) -> PasswordKind {
        match options {
            "" => PasswordKind::Own,
            options if names_application(options) => PasswordKind::Application,
            _ => PasswordKind::Unusable,
        }
    }
}

/// Returns true if the options of userPassword are exactly one option that names an application.
pub(crate) fn names_application(options: &str) -> bool {
    options.strip_prefix(OPTION).is_some_and(|name| !name.is_empty() && !name.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_determine_the_kind_of_a_password() {
        assert_eq!(PasswordKind::of(""), PasswordKind::Own);
        assert_eq!(PasswordKind::of("x-app-mail"), PasswordKind::Application);
        for idle in ["x-app-", "x-application", "lang-de", "lang-de;x-app-mail", "x-app-a;x-app-b", "x-foo"] {
            assert_eq!(PasswordKind::of(idle), PasswordKind::Unusable, "{idle}");
        }
    }
}
