//! Account under which the process runs after it has bound the privileged ports.

use crate::config::ConfigError;

/// A user of this machine, and a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    /// The user's name.
    pub user: String,
    /// Name of the group; `None` for the user's own group.
    pub group: Option<String>,
}

impl RunAs {
    pub(super) fn of(user: Option<String>, group: Option<String>) -> Result<Option<RunAs>, ConfigError> {
        match (user, group) {
            (Some(user), group) => Ok(Some(RunAs { user, group })),
            (None, Some(_)) => Err(ConfigError::GroupWithoutUser),
            (None, None) => Ok(None),
        }
    }
}
