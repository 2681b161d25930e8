//! The values of settings: what records and rows keep of them, and what operations ask.

mod general;
mod problem;
mod secret_attributes;
mod stored;

pub use general::{GENERAL, GeneralSetting, GeneralSettings, SettingValue};
pub use problem::{SettingPath, SettingsProblem};
pub(crate) use stored::StoredSettings;
pub use stored::{SettingsRecord, SuffixNumber};

/// What one node adds to the directory's settings.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// DN of the administrator; it needs no entry.
    pub admin_dn: String,
    /// The administrator's password in stored form; `None` means the one kept in the data directory.
    pub admin_password: Option<Vec<u8>>,
    /// Whether anonymous clients of this node read the tree, whatever the directory says.
    pub anonymous_read: bool,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings { admin_dn: "cn=admin".to_owned(), admin_password: None, anonymous_read: false }
    }
}

/// The settings in force, as operations ask for them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What this node says.
    pub node: NodeSettings,
    /// What the directory says.
    pub general: GeneralSettings,
}

impl Settings {
    /// What is in force where the directory and the node say this: the directory's administrator before the node's.
    pub fn of(node: &NodeSettings, general: &GeneralSettings) -> Settings {
        let mut node = node.clone();
        if !general.administrator.is_empty() {
            node.admin_dn.clone_from(&general.administrator);
        }
        Settings { node, general: general.clone() }
    }

    /// Whether access rules say who may do what.
    pub fn has_access_rules(&self) -> bool {
        !self.general.access_rules.is_empty()
    }

    /// Whether anonymous clients read the tree (never userPassword): one of both is enough.
    pub fn anonymous_read(&self) -> bool {
        self.node.anonymous_read || self.general.anonymous_read
    }
}
