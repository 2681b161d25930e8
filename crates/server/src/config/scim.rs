//! Users and groups over SCIM: the table `[scim]` of the node file.

use scim::{ScimSettings, Service};
use serde::Deserialize;

use super::ConfigError;

/// The table `[scim]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScimKeys {
    users: Option<String>,
    groups: Option<String>,
    user_rdn: Option<String>,
    group_rdn: Option<String>,
    user_classes: Option<Vec<String>>,
    group_classes: Option<Vec<String>>,
    other_group_classes: Option<Vec<String>>,
    user_attributes: Option<Vec<String>>,
    group_attributes: Option<Vec<String>>,
    url: Option<String>,
}

impl ScimKeys {
    /// Returns the settings. Requires the console, because SCIM uses its addresses.
    pub(super) fn settings(self, has_console: bool) -> Result<ScimSettings, ConfigError> {
        let idle = |table, needs| ConfigError::Idle { table, needs };
        let users = self.users.ok_or_else(|| idle("scim", "users"))?;
        let groups = self.groups.ok_or_else(|| idle("scim", "groups"))?;
        if !has_console {
            return Err(ConfigError::Scim(
                "scim: it is served at the addresses of console.listen, and there is none".to_owned(),
            ));
        }
        let default = ScimSettings::new(users, groups);
        let settings = ScimSettings {
            user_rdn: self.user_rdn.unwrap_or(default.user_rdn),
            group_rdn: self.group_rdn.unwrap_or(default.group_rdn),
            user_classes: self.user_classes.unwrap_or(default.user_classes),
            group_classes: self.group_classes.unwrap_or(default.group_classes),
            other_group_classes: self.other_group_classes.unwrap_or(default.other_group_classes),
            user_attributes: self.user_attributes.unwrap_or_default(),
            group_attributes: self.group_attributes.unwrap_or_default(),
            url: self.url,
            users: default.users,
            groups: default.groups,
        };
        Service::new(&settings).map_err(ConfigError::Scim)?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_scim_settings_are_reported_with_their_key() {
        let settings = |more: &str| {
            let text = format!("users = \"ou=people,dc=x\"\ngroups = \"ou=groups,dc=x\"\n{more}");
            toml::from_str::<ScimKeys>(&text).unwrap().settings(true).map_err(|error| error.to_string())
        };
        let changed = settings("user_attributes = [\"emails.home=homeMail\", \"userType=\"]").unwrap();
        assert_eq!((changed.user_rdn.as_str(), changed.user_attributes.len()), ("uid", 2));
        for (more, expected) in [
            ("user_attributes = [\"shoeSize=x\"]", "scim.user_attributes: \"shoeSize\" is none of"),
            ("user_attributes = [\"title\"]", "\"title\" is not NAME=ATTRIBUTE"),
            ("user_attributes = [\"title=a\", \"title=b\"]", "title is given twice"),
            ("user_attributes = [\"title=a;b\"]", "\"a;b\" is no name of an attribute or class"),
            ("user_attributes = [\"title=mail\"]", "two attributes of a User are mapped to mail"),
            ("user_attributes = [\"userName=\"]", "userName: an attribute is needed"),
            ("group_attributes = [\"displayName=)\"]", "\")\" is no name"),
            ("user_classes = []", "scim.user_classes: at least one"),
            ("group_rdn = \"c n\"", "\"c n\" is no name"),
        ] {
            let error = settings(more).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let keys = || toml::from_str::<ScimKeys>("users = \"x\"\ngroups = \"dc=x\"").unwrap();
        assert!(keys().settings(true).unwrap_err().to_string().contains("scim.users"));
        assert!(keys().settings(false).unwrap_err().to_string().contains("console.listen"));
        assert!(ScimKeys::default().settings(true).unwrap_err().to_string().contains("has no users"));
    }
}
