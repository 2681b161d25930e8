//! Values of the DirSync control of Active Directory (MS-ADTS section 3.1.1.3.4.1.3).

use ber::{Reader, Tag, Writer};

/// Flag that requests superiors before their subordinates.
const ANCESTORS_FIRST: i64 = 0x800;

/// DirSync control value of a request: changes since a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirSyncRequest<'a> {
    /// Maximum size in octets of the attributes to return.
    pub bytes_max: u32,
    /// Cookie of the previous answer; empty for all objects.
    pub cookie: &'a [u8],
}

impl DirSyncRequest<'_> {
    /// Encodes the value of the control.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let value = writer.begin(Tag::SEQUENCE);
        writer.integer(ANCESTORS_FIRST);
        writer.integer(self.bytes_max.into());
        writer.octet_string(self.cookie);
        writer.end(value);
        out
    }
}

/// DirSync control value of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirSyncDone<'a> {
    /// Whether the client must send another request because there are more changes than this response contains.
    pub has_more: bool,
    /// Cookie of the state after these changes.
    pub cookie: &'a [u8],
}

impl<'a> DirSyncDone<'a> {
    /// Decodes the value of the control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<DirSyncDone<'a>> {
        let mut fields = Reader::new(value).sequence(Tag::SEQUENCE).ok()?;
        let has_more = fields.integer().ok()? != 0;
        fields.integer().ok()?;
        let cookie = fields.octet_string().ok()?;
        fields.is_empty().then_some(DirSyncDone { has_more, cookie })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_encoding_of_ms_adts() {
        let request = DirSyncRequest { bytes_max: 256, cookie: b"c" };
        assert_eq!(request.encode(), b"\x30\x0b\x02\x02\x08\x00\x02\x02\x01\x00\x04\x01c");
        let answer = b"\x30\x0a\x02\x01\x01\x02\x01\x00\x04\x02ab";
        assert_eq!(DirSyncDone::decode(answer), Some(DirSyncDone { has_more: true, cookie: b"ab" }));
        for length in 0..answer.len() {
            assert_eq!(DirSyncDone::decode(&answer[..length]), None);
        }
    }
}
