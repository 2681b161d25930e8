//! The values of the controls and the message of content synchronization (RFC 4533 section 2).

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

const NEW_COOKIE: Tag = Tag::context(0);
const REFRESH_DELETE: Tag = Tag::context_constructed(1);
const REFRESH_PRESENT: Tag = Tag::context_constructed(2);
const ID_SET: Tag = Tag::context_constructed(3);

/// An entryUUID.
pub type SyncUuid = [u8; 16];

/// Sync Request Control value: parameters of a content synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRequest<'a> {
    /// Whether the client requests changes after the initial content (mode refreshAndPersist).
    pub persists: bool,
    /// Cookie of the previous synchronization.
    pub cookie: Option<&'a [u8]>,
    /// Whether the server may send all content anew if it cannot use the cookie (`reloadHint`).
    pub reload_hint: bool,
}

/// State of an entry in a sync message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// The entry is unchanged.
    Present,
    /// The entry is new to the client; the message contains it.
    Add,
    /// The entry has changed; the message contains it.
    Modify,
    /// The entry no longer belongs to the content.
    Delete,
}

impl SyncState {
    const ALL: [SyncState; 4] = [SyncState::Present, SyncState::Add, SyncState::Modify, SyncState::Delete];
}

/// Sync State Control value, sent with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncStateValue<'a> {
    /// State of the entry.
    pub state: SyncState,
    /// UUID of the entry.
    pub uuid: SyncUuid,
    /// Cookie of the content after this message.
    pub cookie: Option<&'a [u8]>,
}

/// Sync Done Control value, sent with the result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncDone<'a> {
    /// Cookie of the content.
    pub cookie: Option<&'a [u8]>,
    /// Whether the server reported each deleted entry. If false, the client must delete all entries that the server did
    /// not report.
    pub refresh_deletes: bool,
}

/// Set of entries that are reported in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncIdSet {
    /// Whether the entries are deleted; otherwise they are unchanged.
    pub refresh_deletes: bool,
    /// UUIDs of the entries.
    pub uuids: Vec<SyncUuid>,
}

/// Contents of a Sync Info Message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncInfo<'a> {
    /// Cookie of the content.
    NewCookie(&'a [u8]),
    /// The end of a refresh phase.
    Refreshed {
        /// Whether each deleted entry was reported. If false, the client must delete all entries that the server did
        /// not report.
        deletes: bool,
        /// Cookie of the content.
        cookie: Option<&'a [u8]>,
        /// Whether the refresh stage is complete. After this stage, the server sends changes as they happen.
        is_done: bool,
    },
    /// A set of entries.
    IdSet(SyncIdSet),
}

impl<'a> SyncInfo<'a> {
    /// Decodes the value of a message; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<SyncInfo<'a>> {
        let mut reader = Reader::new(value);
        let tag = reader.peek_tag()?;
        let info = match tag {
            NEW_COOKIE => SyncInfo::NewCookie(reader.element(NEW_COOKIE).ok()?),
            REFRESH_DELETE | REFRESH_PRESENT => {
                let mut fields = reader.sequence(tag).ok()?;
                let cookie = fields.optional(Tag::OCTET_STRING).ok()?;
                let has_flag = fields.peek_tag() == Some(Tag::BOOLEAN);
                let is_done = !has_flag || fields.boolean().ok()?;
                if !fields.is_empty() {
                    return None;
                }
                SyncInfo::Refreshed { deletes: tag == REFRESH_DELETE, cookie, is_done }
            }
            _ => return SyncIdSet::decode(value).map(SyncInfo::IdSet),
        };
        reader.is_empty().then_some(info)
    }

    /// Encodes the value of a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        match self {
            SyncInfo::NewCookie(cookie) => writer.element(NEW_COOKIE, cookie),
            SyncInfo::Refreshed { deletes, cookie, is_done } => {
                let fields = writer.begin(if *deletes { REFRESH_DELETE } else { REFRESH_PRESENT });
                cookie.iter().for_each(|cookie| writer.octet_string(cookie));
                if !is_done {
                    writer.boolean(false);
                }
                writer.end(fields);
            }
            SyncInfo::IdSet(set) => value = set.encode(),
        }
        value
    }
}

impl<'a> SyncRequest<'a> {
    /// Decodes the value of a request control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<SyncRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let persists = match fields.enumerated().ok()? {
            1 => false,
            3 => true,
            _ => return None,
        };
        let cookie = fields.optional(Tag::OCTET_STRING).ok()?;
        let reload_hint = flag(&mut fields)?;
        (fields.is_empty() && reader.is_empty()).then_some(SyncRequest { persists, cookie, reload_hint })
    }

    /// Encodes the value of a request control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.enumerated(if self.persists { 3 } else { 1 });
            self.cookie.iter().for_each(|cookie| writer.octet_string(cookie));
            if self.reload_hint {
                writer.boolean(true);
            }
        })
    }
}

impl<'a> SyncStateValue<'a> {
    /// Decodes the value of the control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<SyncStateValue<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let state = usize::try_from(fields.enumerated().ok()?).ok()?;
        let state = *SyncState::ALL.get(state)?;
        let uuid = fields.octet_string().ok()?.try_into().ok()?;
        let cookie = fields.optional(Tag::OCTET_STRING).ok()?;
        (fields.is_empty() && reader.is_empty()).then_some(SyncStateValue { state, uuid, cookie })
    }

    /// Encodes the value of the control.
    pub fn encode(&self) -> Vec<u8> {
        let state = SyncState::ALL.iter().zip(0..).find(|(state, _)| **state == self.state);
        sequence(|writer| {
            writer.enumerated(state.map_or(0, |(_, number)| number));
            writer.octet_string(&self.uuid);
            self.cookie.iter().for_each(|cookie| writer.octet_string(cookie));
        })
    }
}

impl<'a> SyncDone<'a> {
    /// Decodes the value of the control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<SyncDone<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let cookie = fields.optional(Tag::OCTET_STRING).ok()?;
        let refresh_deletes = flag(&mut fields)?;
        (fields.is_empty() && reader.is_empty()).then_some(SyncDone { cookie, refresh_deletes })
    }

    /// Encodes the value of the control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            self.cookie.iter().for_each(|cookie| writer.octet_string(cookie));
            if self.refresh_deletes {
                writer.boolean(true);
            }
        })
    }
}

impl SyncIdSet {
    /// Decodes the value of a Sync Info Message that is a set of entries; returns `None` for any other message.
    pub fn decode(value: &[u8]) -> Option<SyncIdSet> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(ID_SET).ok()?;
        fields.optional(Tag::OCTET_STRING).ok()?;
        let refresh_deletes = flag(&mut fields)?;
        let mut set = fields.sequence(Tag::SET).ok()?;
        let mut uuids = Vec::new();
        while !set.is_empty() {
            uuids.push(set.octet_string().ok()?.try_into().ok()?);
        }
        (fields.is_empty() && reader.is_empty()).then_some(SyncIdSet { refresh_deletes, uuids })
    }

    /// Encodes the value of a Sync Info Message.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.uuids.len() * 18 + 16);
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(ID_SET);
        if self.refresh_deletes {
            writer.boolean(true);
        }
        let set = writer.begin(Tag::SET);
        self.uuids.iter().for_each(|uuid| writer.octet_string(uuid));
        writer.end(set);
        writer.end(fields);
        value
    }
}

/// Reads a BOOLEAN DEFAULT FALSE.
fn flag(fields: &mut Reader<'_>) -> Option<bool> {
    if fields.peek_tag() == Some(Tag::BOOLEAN) { fields.boolean().ok() } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_encoding_of_the_rfc() {
        let request = SyncRequest { persists: false, cookie: Some(b"ab"), reload_hint: true };
        assert_eq!(request.encode(), [0x30, 10, 10, 1, 1, 4, 2, b'a', b'b', 1, 1, 0xff]);
        let bare = SyncRequest { persists: true, cookie: None, reload_hint: false };
        assert_eq!(bare.encode(), [0x30, 3, 10, 1, 3]);
        for request in [request, bare] {
            assert_eq!(SyncRequest::decode(&request.encode()), Some(request));
        }
        for wrong in
            [&[0x30, 3, 10, 1, 2][..], &[0x30, 3, 10, 1, 0], &[0x30, 0], &[0x30, 4, 10, 1, 1, 4], b""]
        {
            assert_eq!(SyncRequest::decode(wrong), None, "{wrong:?}");
        }
        let state = SyncStateValue { state: SyncState::Delete, uuid: [7; 16], cookie: None };
        assert_eq!(state.encode()[..6], [0x30, 21, 10, 1, 3, 4]);
        assert_eq!(SyncStateValue::decode(&state.encode()), Some(state));
        for done in [
            SyncDone { cookie: Some(b"c"), refresh_deletes: false },
            SyncDone { cookie: None, refresh_deletes: true },
        ] {
            assert_eq!(SyncDone::decode(&done.encode()), Some(done));
        }
        for refresh_deletes in [false, true] {
            let set = SyncIdSet { refresh_deletes, uuids: vec![[1; 16], [2; 16]] };
            assert_eq!(SyncIdSet::decode(&set.encode()), Some(set));
        }
        assert_eq!(SyncIdSet { refresh_deletes: false, uuids: vec![] }.encode(), [0xa3, 2, 0x31, 0]);
        let refreshed = |is_done| SyncInfo::Refreshed { deletes: false, cookie: Some(b"c"), is_done };
        assert_eq!(refreshed(true).encode(), [0xa2, 3, 4, 1, b'c']);
        assert_eq!(refreshed(false).encode(), [0xa2, 6, 4, 1, b'c', 1, 1, 0]);
        assert_eq!(SyncInfo::NewCookie(b"c").encode(), [0x80, 1, b'c']);
        let set = SyncInfo::IdSet(SyncIdSet { refresh_deletes: true, uuids: vec![[3; 16]] });
        for info in [refreshed(true), refreshed(false), SyncInfo::NewCookie(b""), set] {
            assert_eq!(SyncInfo::decode(&info.encode()), Some(info));
        }
    }
}
