//! Adding entries to a directory before clients are served.

use directory::Requester;
use directory::controls::RequestControls;
use ldap::{AddRequest, AttributesBuf, Request, ResultCode};

use crate::error::{LoadError, ServeError};
use crate::limits::LOAD_ENTRIES_MAX;
use crate::open::Opened;
use crate::stamp::new_stamp;

/// An entry to add: its DN, and its attribute descriptions with their values.
pub type NewEntry = (String, Vec<(String, Vec<Vec<u8>>)>);

impl Opened {
    /// Adds entries in one commit and returns their number. A superior must precede its subordinates.
    ///
    /// Clear passwords are stored unchanged. The caller must hash them before the call.
    ///
    /// # Errors
    /// The directory refuses an entry or fails, there are more than [`LOAD_ENTRIES_MAX`] entries, or the settings are
    /// those of a cluster node. In each case no entry is added.
    pub fn load(&mut self, entries: impl IntoIterator<Item = NewEntry>) -> Result<usize, ServeError> {
        if self.config().cluster.is_some() {
            return Err(LoadError::Node.into());
        }
        let requester = Requester::Administrator { dn: self.config().admin_dn.as_str().to_owned() };
        // With this control, referral objects are added like other entries (RFC 3296).
        let controls = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
        let (writer, random) = self.writer();
        let mut batch = writer.begin()?;
        let mut count = 0;
        for (dn, attributes) in entries {
            if count == LOAD_ENTRIES_MAX {
                return Err(LoadError::TooMany.into());
            }
            let mut encoded = AttributesBuf::new();
            for (description, values) in &attributes {
                encoded.push(description, values);
            }
            let request = Request::Add(AddRequest { entry: &dn, attributes: encoded.as_attributes() });
            let outcome = batch.execute(&requester.context(), &request, &controls, &new_stamp(random)?);
            if outcome.code != ResultCode::SUCCESS {
                let (code, diagnostic) = (outcome.code, outcome.diagnostic);
                return Err(LoadError::Refused { dn, code, diagnostic }.into());
            }
            count += 1;
        }
        batch.commit()?;
        Ok(count)
    }
}
