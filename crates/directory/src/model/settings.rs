//! Values of settings, for records, rows and operations.

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
    /// The administrator's password in stored form. `None` to use the one in the data directory.
    pub admin_password: Option<Vec<u8>>,
    /// Whether anonymous clients of this node may read the tree, regardless of the directory's settings.
    pub anonymous_read: bool,
    /// Trees that are copies of other servers' trees.
    pub followed: Vec<FollowedTree>,
}

/// A tree that is a copy of another server's tree. Clients cannot change it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedTree {
    /// Mapping of the other server's names to local names.
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
    /// Returns the local DN of the top entry.
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
    /// Combines the settings of a node and of the directory. If both name an administrator, the directory's one is
    /// used.
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

    /// Returns true if the node or the directory allows anonymous clients to read the tree (never userPassword).
    pub fn anonymous_read(&self) -> bool {
        self.node.anonymous_read || self.general.anonymous_read
    }
}
