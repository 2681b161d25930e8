//! Origin of a change: optional fields of a record, in addition to the requester.
//!
//! A record without any of these fields has version 1, otherwise version 2. A reader skips unknown fields, so that
//! later versions can add fields. A field consists of its number, the length of its bytes, and the bytes. The fields
//! are:
//!
//! - 1: operation id
//! - 2: epoch
//! - 3: DN of the bound user, if the connection acts as another identity
//! - 4: address of the client
//! - 5: number of the connection
//! - 6: message id
//! - 7: session tracking, which consists of four texts; may be repeated
//! - 8: access rule
//! - 9: an attribute with the values that the change replaced or removed; may be repeated

use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::record_value::{Value, put_value, take_value};
use crate::model::rows::AttrId;

/// Maximum length of an operation id, in bytes.
pub const OPERATION_ID_BYTES_MAX: usize = 64;

const OPERATION_ID: u64 = 1;
const EPOCH: u64 = 2;
const ACTS_FOR: u64 = 3;
const NETWORK: u64 = 4;
const CONNECTION: u64 = 5;
const MESSAGE_ID: u64 = 6;
const TRACKING: u64 = 7;
const RULE: u64 = 8;
const OLD_VALUES: u64 = 9;

/// Origin of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Identifier of the operation. A repeated request with the same identifier is not applied again. Empty for none.
    pub operation_id: Vec<u8>,
    /// Epoch of the cluster's writer that made the change.
    pub epoch: Option<u64>,
    /// DN with which the client has bound, if the client acts as another identity. The requester of the record is that
    /// other identity. Empty if the client acts as itself.
    pub acts_for: String,
    /// Address of the client.
    pub network: String,
    /// Number of the connection.
    pub connection: Option<u64>,
    /// Message id of the request.
    pub message_id: Option<u64>,
    /// Texts of each session tracking control (draft-wahl-ldap-session): source address, source name, format OID,
    /// identifier.
    pub tracking: Vec<[String; 4]>,
    /// Access rule that allowed the change.
    pub rule: String,
    /// Values that the change replaced or removed, if the settings require their recording.
    pub old_values: Vec<(AttrId, Vec<Value>)>,
}

impl Origin {
    /// Returns true if all fields are empty.
    pub fn is_empty(&self) -> bool {
        *self == Origin::default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut put = |tag: u64, bytes: &[u8]| {
            if !bytes.is_empty() {
                fields.push((tag, bytes.to_vec()));
            }
        };
        let number = |number: Option<u64>| {
            let mut bytes = Vec::new();
            number.iter().for_each(|&number| put_varint(&mut bytes, number));
            bytes
        };
        put(OPERATION_ID, &self.operation_id);
        put(EPOCH, &number(self.epoch));
        put(ACTS_FOR, self.acts_for.as_bytes());
        put(NETWORK, self.network.as_bytes());
        put(CONNECTION, &number(self.connection));
        put(MESSAGE_ID, &number(self.message_id));
        for parts in &self.tracking {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| put_bytes(&mut bytes, part.as_bytes()));
            put(TRACKING, &bytes);
        }
        put(RULE, self.rule.as_bytes());
        for (attribute, values) in &self.old_values {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, u64::from(attribute.0));
            put_list(&mut bytes, values, put_value);
            put(OLD_VALUES, &bytes);
        }
        put_list(out, &fields, |out, (tag, bytes)| {
            put_varint(out, *tag);
            put_bytes(out, bytes);
        });
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<Origin> {
        let mut origin = Origin::default();
        let fields = decoder.list(|decoder| Some((decoder.varint()?, decoder.bytes()?)))?;
        for (tag, bytes) in fields {
            let text = || std::str::from_utf8(bytes).ok().map(str::to_owned);
            let number = || Decoder(bytes).varint();
            match tag {
                OPERATION_ID if bytes.len() <= OPERATION_ID_BYTES_MAX => origin.operation_id = bytes.to_vec(),
                OPERATION_ID => return None,
                EPOCH => origin.epoch = Some(number()?),
                ACTS_FOR => origin.acts_for = text()?,
                NETWORK => origin.network = text()?,
                CONNECTION => origin.connection = Some(number()?),
                MESSAGE_ID => origin.message_id = Some(number()?),
                RULE => origin.rule = text()?,
                OLD_VALUES => {
                    let mut decoder = Decoder(bytes);
                    origin.old_values.push((AttrId(decoder.number()?), decoder.list(take_value)?));
                }
                TRACKING => {
                    let mut decoder = Decoder(bytes);
                    let mut parts = <[String; 4]>::default();
                    for part in &mut parts {
                        *part = decoder.string()?;
                    }
                    origin.tracking.push(parts);
                }
                _ => {}
            }
        }
        Some(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rows::EntryId;

    #[test]
    fn origins_round_trip_and_unknown_fields_are_skipped() {
        let origin = Origin {
            operation_id: vec![7; 20],
            epoch: Some(0),
            acts_for: "cn=admin".to_owned(),
            network: "10.0.0.1:389".to_owned(),
            connection: Some(300),
            message_id: Some(1),
            tracking: vec![
                ["192.0.2.1", "", "1.2", "bloggs"].map(str::to_owned),
                ["192.0.2.2", "gate", "1.3", ""].map(str::to_owned),
            ],
            rule: "staff".to_owned(),
            old_values: vec![
                (AttrId(3), vec![Value::Bytes(b"x".to_vec()), Value::Link(EntryId(9))]),
                (AttrId(4), Vec::new()),
            ],
        };
        let mut bytes = Vec::new();
        origin.encode(&mut bytes);
        assert_eq!(Origin::decode(&mut Decoder(&bytes)), Some(origin.clone()));
        for end in 0..bytes.len() {
            assert_eq!(Origin::decode(&mut Decoder(&bytes[..end])), None, "{end}");
        }
        // Change a field's number to an unassigned one.
        bytes[0] += 1;
        put_varint(&mut bytes, 999);
        put_bytes(&mut bytes, b"later");
        assert_eq!(Origin::decode(&mut Decoder(&bytes)), Some(origin));
        assert!(Origin::default().is_empty());
    }
}
