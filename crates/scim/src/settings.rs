//! Settings of the service: bases, object classes and the mapping of attributes.

/// Settings of the service, the table `[scim]` of the node file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimSettings {
    /// DN below which users are, and new ones are added.
    pub users: String,
    /// DN below which groups are, and new ones are added.
    pub groups: String,
    /// Attribute of the name of new users.
    pub user_rdn: String,
    /// Attribute of the name of new groups.
    pub group_rdn: String,
    /// Object classes of new users; entries with the first are users.
    pub user_classes: Vec<String>,
    /// Object classes of new groups; entries with the first are groups.
    pub group_classes: Vec<String>,
    /// Object classes of other entries that are groups.
    pub other_group_classes: Vec<String>,
    /// Attributes of users, each `NAME=ATTRIBUTE`: the name in SCIM and the LDAP attribute, empty for none.
    pub user_attributes: Vec<String>,
    /// Attributes of groups, in the same form.
    pub group_attributes: Vec<String>,
    /// URL of the service as clients see it, if a proxy changes it.
    pub url: Option<String>,
}

impl ScimSettings {
    /// Returns the default settings for these two places.
    pub fn new(users: String, groups: String) -> ScimSettings {
        ScimSettings {
            users,
            groups,
            user_rdn: "uid".to_owned(),
            group_rdn: "cn".to_owned(),
            user_classes: vec!["inetOrgPerson".to_owned()],
            group_classes: vec!["groupOfMembers".to_owned()],
            other_group_classes: vec!["groupOfNames".to_owned()],
            user_attributes: Vec::new(),
            group_attributes: Vec::new(),
            url: None,
        }
    }
}
