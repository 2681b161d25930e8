//! Settings of the service: bases, object classes, and the mapping of attributes.

/// Settings of the service: the table `[scim]` in the node file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimSettings {
    /// DN below which users are found and added.
    pub users: String,
    /// DN below which groups are found and added.
    pub groups: String,
    /// RDN attribute of new users.
    pub user_rdn: String,
    /// RDN attribute of new groups.
    pub group_rdn: String,
    /// Object classes of new users. Entries with the first one are users.
    pub user_classes: Vec<String>,
    /// Object classes of new groups. Entries with the first one are groups.
    pub group_classes: Vec<String>,
    /// Further object classes whose entries are groups.
    pub other_group_classes: Vec<String>,
    /// Attributes of users in the form `NAME=ATTRIBUTE`, with the SCIM name and the LDAP attribute, which may be empty
    /// for none.
    pub user_attributes: Vec<String>,
    /// Attributes of groups, in the same form.
    pub group_attributes: Vec<String>,
    /// URL of the service as seen by clients, if a proxy changes it.
    pub url: Option<String>,
}

impl ScimSettings {
    /// Returns the default settings for these two DNs.
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
