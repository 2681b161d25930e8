//! Values of settings, as records and rows store them and operations read them.

mod general;
mod problem;
mod secret_attributes;
mod stored;

pub use general::{GENERAL, GeneralSetting, GeneralSettings, SettingValue};
pub use problem::{SettingPath, SettingsProblem};
pub(crate) use stored::StoredSettings;
pub use stored::{SettingsRecord, SuffixNumber};

use crate::model::name_mapping::NameMapping;

/// Settings of one node, in addition to those of the directory.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// DN of the administrator; it needs no entry.
    pub admin_dn: String,
    /// The administrator's password in stored form; `None` for the one in the data directory.
    pub admin_password: Option<Vec<u8>>,
    /// Whether anonymous clients of this node may read the tree, whatever the directory's settings say.
    pub anonymous_read: bool,
    /// The trees that are copies of other servers'.
    pub followed: Vec<FollowedTree>,
}

/// A tree that is a copy of another server's: clients cannot change it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedTree {
    /// Names there, and names here.
    pub mapping: NameMapping,
    /// URL of the other server, for referrals; `None` if clients cannot reach it.
    pub referral: Option<String>,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            admin_dn: "cn=admin".to_owned(),
            admin_password: None,
            anonymous_read: false,
            followed: Vec::new(),
        }
    }
}

impl FollowedTree {
    /// Returns the DN of its top entry.
    pub fn base(&self) -> &str {
        &self.mapping.bases.1
    }
}

/// The settings in force.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Settings of this node.
    pub node: NodeSettings,
    /// Settings of the directory.
    pub general: GeneralSettings,
}

impl Settings {
    /// Combines the settings of a node and of the directory. The directory's administrator takes precedence.
    pub fn of(node: &NodeSettings, general: &GeneralSettings) -> Settings {
        let mut node = node.clone();
        if !general.administrator.is_empty() {
            node.admin_dn.clone_from(&general.administrator);
        }
        Settings { node, general: general.clone() }
    }

    /// Returns true if access rules determine the effective rights.
    pub fn has_access_rules(&self) -> bool {
        !self.general.access_rules.is_empty()
    }

    /// Returns true if anonymous clients may read the tree (never userPassword): either setting is enough.
    pub fn anonymous_read(&self) -> bool {
        self.node.anonymous_read || self.general.anonymous_read
    }
}
