//! Kinds of userPassword values, distinguished by their attribute options (decision 0084).

/// Prefix of the userPassword option that names an application.
const OPTION: &str = "x-app-";

/// Maximum number of characters in an application's name.
const NAME_SIZE_MAX: usize = 40;

/// Kind of a userPassword value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordKind {
    /// The user's own password, without options.
    Own,
    /// The password of an application.
    Application,
    /// A value with other options. Such a value permits no bind. Requests cannot store such a value, but older data
    /// may contain one.
    Unusable,
}

impl PasswordKind {
    /// Returns the kind of a userPassword value. `options` are the options of its description, in lower case.
    pub(crate) fn of(options: &str) -> PasswordKind {
        match options {
            "" => PasswordKind::Own,
            options if names_application(options) => PasswordKind::Application,
            _ => PasswordKind::Unusable,
        }
    }
}

/// Returns true if these options of userPassword are exactly one option, which names an application.
pub(crate) fn names_application(options: &str) -> bool {
    options.strip_prefix(OPTION).is_some_and(|name| !name.is_empty() && !name.contains(';'))
}

/// Returns the name of the application in these options of userPassword.
pub(crate) fn application_name(options: &str) -> Option<&str> {
    options.strip_prefix(OPTION).filter(|_| names_application(options))
}

/// Returns the options of userPassword for an application. Returns `None` unless the name consists of 1 to 40
/// characters of a-z, 0-9 and -.
pub(crate) fn application_options(name: &str) -> Option<Box<str>> {
    let is_fit = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
    let is_name = !name.is_empty() && name.len() <= NAME_SIZE_MAX && name.bytes().all(is_fit);
    is_name.then(|| format!("{OPTION}{name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_names_convert_to_options_and_back() {
        assert_eq!(application_options("mail-2").as_deref(), Some("x-app-mail-2"));
        assert_eq!(application_name("x-app-mail-2"), Some("mail-2"));
        for wrong in ["", "Mail", "a b", "a;b", "ü", &"a".repeat(41)] {
            assert_eq!(application_options(wrong), None, "{wrong}");
        }
        assert_eq!(application_name("lang-de"), None);
    }

    #[test]
    fn options_determine_the_kind_of_a_password() {
        assert_eq!(PasswordKind::of(""), PasswordKind::Own);
        assert_eq!(PasswordKind::of("x-app-mail"), PasswordKind::Application);
        for idle in ["x-app-", "x-application", "lang-de", "lang-de;x-app-mail", "x-app-a;x-app-b", "x-foo"] {
            assert_eq!(PasswordKind::of(idle), PasswordKind::Unusable, "{idle}");
        }
    }
}
