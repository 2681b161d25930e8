//! Access rules of a data directory: what `pando access` does.

use directory::access::AccessExplanation;
use directory::tree::State;
use directory::{NodeSettings, Requester, Settings, access_question};
use ldap::AccessQuestion;

use crate::admin::indexes::ExplainError;
use crate::admin::verify::open_read_only;
use crate::config::Config;

/// Says who may do what in a data directory, and by which rule. The directory may be served meanwhile.
///
/// # Errors
/// There is no data, it cannot be read, or the question is about nobody or no entry.
pub fn explain_access(
    config: &Config,
    question: &AccessQuestion<'_>,
) -> Result<AccessExplanation, ExplainError> {
    let directory = open_read_only(config)?;
    let admin_dn = config.admin_dn.as_str().to_owned();
    let node = NodeSettings {
        admin_dn: admin_dn.clone(),
        anonymous_read: config.anonymous_read,
        ..NodeSettings::default()
    };
    let settings = Settings::of(&node, &directory.state().settings.general);
    let state = State { settings: &settings, ..directory.state() };
    let explained = access_question::answer(state, &Requester::Administrator { dn: admin_dn }, question);
    explained.map_err(|outcome| ExplainError::Refused { code: outcome.code, diagnostic: outcome.diagnostic })
}
