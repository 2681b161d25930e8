//! Settings of the service: the base DNs, the object classes, and the LDAP attributes.

/// Settings of the service. They are the table `[scim]` of the node file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimSettings {
    /// DN below which the users are. New users are added there.
    pub users: String,
    /// DN below which the groups are. New groups are added there.
    pub groups: String,
    /// Attribute in the RDN of a new user.
    pub user_rdn: String,
    /// Attribute in the RDN of a new group.
    pub group_rdn: String,
    /// Object classes of a new user. Every entry with the first of these classes is a user.
    pub user_classes: Vec<String>,
    /// Object classes of a new group. Every entry with the first of these classes is a group.
    pub group_classes: Vec<String>,
    /// Additional object classes. Every entry with one of these classes is a group too.
    pub other_group_classes: Vec<String>,
    /// LDAP attributes of users. Each text has the form `NAME=ATTRIBUTE`. NAME is the SCIM attribute, and ATTRIBUTE the
    /// LDAP attribute that stores it. If ATTRIBUTE is empty, no LDAP attribute stores it.
    pub user_attributes: Vec<String>,
    /// LDAP attributes of groups, in the same form.
    pub group_attributes: Vec<String>,
    /// URL at which clients reach the service. The setting is necessary if a proxy changes the URL.
    pub url: Option<String>,
}

impl ScimSettings {
    /// Returns the default settings for users and groups below these two DNs.
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
