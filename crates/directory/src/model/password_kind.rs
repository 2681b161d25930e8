//! Whose password a value of userPassword is: its options say that (decision 0084).

/// What the option of userPassword begins with that names an application.
const OPTION: &str = "x-app-";

/// Whose a value of userPassword is, by its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordKind {
    /// The user's own, without options.
    Own,
    /// That of an application.
    Application,
    /// Nobody's: it lets nobody in. Requests cannot store one, older data may have some.
    Idle,
}

impl PasswordKind {
    /// The kind of a password with these options, in lower case.
    pub(crate) fn of(options: &str) -> PasswordKind {
        match options {
            "" => PasswordKind::Own,
            options if names_application(options) => PasswordKind::Application,
            _ => PasswordKind::Idle,
        }
    }
}

/// Whether options of userPassword name an application: they are one option.
pub(crate) fn names_application(options: &str) -> bool {
    options.strip_prefix(OPTION).is_some_and(|name| !name.is_empty() && !name.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_say_whose_a_password_is() {
        assert_eq!(PasswordKind::of(""), PasswordKind::Own);
        assert_eq!(PasswordKind::of("x-app-mail"), PasswordKind::Application);
        for idle in ["x-app-", "x-application", "lang-de", "lang-de;x-app-mail", "x-app-a;x-app-b", "x-foo"] {
            assert_eq!(PasswordKind::of(idle), PasswordKind::Idle, "{idle}");
        }
    }
}
