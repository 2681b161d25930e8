//! State of a copy of another server's tree, as the directory stores it: a version (1 octet), the number of entries
//! that could not be copied (8), the length of the description of the content (4), the description, and the cookie.

use crate::config::FollowSettings;

const VERSION: u8 = 1;

/// State of a copy of another server's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyState {
    /// Description of the source and the content to which the cookie belongs.
    content: String,
    /// Number of the source's entries that could not be copied.
    pub(crate) rejected: u64,
    /// Cookie that the source sent (RFC 4533).
    pub(crate) cookie: Vec<u8>,
}

impl CopyState {
    pub(crate) fn new(settings: &FollowSettings, rejected: u64, cookie: Vec<u8>) -> CopyState {
        CopyState { content: content(settings), rejected, cookie }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.content.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.rejected.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(self.content.as_bytes());
        bytes.extend_from_slice(&self.cookie);
        bytes
    }

    /// Decodes a stored state. Returns `None` if the state belongs to content other than that in the settings, or has
    /// an unknown version.
    pub(crate) fn decode(bytes: &[u8], settings: &FollowSettings) -> Option<CopyState> {
        let (version, rest) = bytes.split_first()?;
        let (rejected, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (text, cookie) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let content = content(settings);
        let is_same = *version == VERSION && text == content.as_bytes();
        let (rejected, cookie) = (u64::from_be_bytes(*rejected), cookie.to_vec());
        is_same.then_some(CopyState { content, rejected, cookie })
    }
}

/// Returns the cookie in a stored state, even if the state belongs to content other than that in the settings.
pub(crate) fn last_cookie(state: &[u8]) -> Vec<u8> {
    let cookie = || {
        let (_, rest) = state.split_first()?;
        let (_, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk()?;
        rest.get(u32::from_be_bytes(*length) as usize..)
    };
    cookie().unwrap_or_default().to_vec()
}

fn content(settings: &FollowSettings) -> String {
    let FollowSettings { url, mapping, filter, leave_out, .. } = settings;
    let names = mapping.names.iter().map(|(old, new)| format!("{old}={new}"));
    let (names, (there, here)) = (names.collect::<Vec<_>>().join(","), &mapping.bases);
    format!("{url}\n{there}\n{here}\n{filter}\n{}\n{names}", leave_out.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FollowIdentity;
    use directory::NameMapping;

    #[test]
    fn a_copy_state_is_valid_only_for_the_same_settings() {
        let mut settings = FollowSettings {
            url: "ldap://localhost:389".parse().unwrap(),
            mapping: NameMapping::default(),
            filter: "(cn=*)".to_owned(),
            identity: FollowIdentity::Socket,
            authorities: None,
            leave_out: Vec::new(),
        };
        let state = CopyState::new(&settings, 7, b"cookie".to_vec());
        assert_eq!(CopyState::decode(&state.encode(), &settings), Some(state.clone()));
        assert_eq!(last_cookie(&state.encode()), b"cookie");
        assert_eq!(last_cookie(&state.encode()[..12]), b"");
        for length in 0..state.encode().len() - 6 {
            assert_eq!(CopyState::decode(&state.encode()[..length], &settings), None, "{length}");
        }
        settings.mapping.names.push(("a".to_owned(), "b".to_owned()));
        assert_eq!(CopyState::decode(&state.encode(), &settings), None);
    }
}
