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

/// Settings of one node. The settings of the directory are separate.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// DN of the administrator. An entry with this DN need not exist.
    pub admin_dn: String,
    /// The administrator's password in stored form; `None` for the password in the data directory.
    pub admin_password: Option<Vec<u8>>,
    /// Whether anonymous clients of this node may read the tree, even if the directory's settings do not allow it.
    pub anonymous_read: bool,
    /// Copied trees, which other servers own.
    pub followed: Vec<FollowedTree>,
}

/// A copied tree, which another server owns. Clients cannot change its entries here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedTree {
    /// Mapping of the other server's names to local names.
    pub mapping: NameMapping,
    /// URL of the other server for referrals; `None` if clients cannot reach that server.
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
    /// Combines the settings of a node and of the directory. The administrator of the directory, if there is one,
    /// takes precedence over the administrator of the node.
    pub fn of(node: &NodeSettings, general: &GeneralSettings) -> Settings {
        let mut node = node.clone();
        if !general.administrator.is_empty() {
            node.admin_dn.clone_from(&general.administrator);
        }
        Settings { node, general: general.clone() }
    }

    /// Returns true if the settings contain access rules. The access rules then determine the effective rights.
    pub fn has_access_rules(&self) -> bool {
        !self.general.access_rules.is_empty()
    }

    /// Returns true if the node or the directory allows anonymous clients to read the tree. Anonymous clients can
    /// never read userPassword.
    pub fn anonymous_read(&self) -> bool {
        self.node.anonymous_read || self.general.anonymous_read
    }
}
