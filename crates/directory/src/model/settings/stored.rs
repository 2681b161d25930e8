//! Settings in records and in `meta`.
//!
//! Settings have four parts: suffixes, schema texts, general settings, and indexes. A record contains only parts that
//! change. Each changed part is contained as a whole, except that a record lists only the indexes that change. `meta`
//! stores the position of the last record that changed any part. `apply` ignores older records, so that replay never
//! applies an old schema. An old schema may lack attributes that entries have now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::GeneralSettings;
use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::index_definition::IndexKinds;
use crate::model::pending_join::{PendingJoin, put_joins, take_joins};
use crate::model::rows::AttrId;

/// Number of a naming context. All existing naming contexts have different numbers.
pub type SuffixNumber = u32;

/// Change of directory-wide settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsRecord {
    /// All schema texts by name.
    pub schema: Option<BTreeMap<String, String>>,
    /// All naming contexts.
    pub suffixes: Option<Vec<(SuffixNumber, String)>>,
    /// Indexes that change, each with all its kinds.
    pub indexes: Vec<(AttrId, IndexKinds)>,
    /// All other settings.
    pub general: Option<GeneralSettings>,
    /// All pending rules of `auto_members`.
    pub joins: Option<Vec<PendingJoin>>,
}

const HAS_SCHEMA: u8 = 1;
const HAS_SUFFIXES: u8 = 2;
const HAS_GENERAL: u8 = 4;
const HAS_JOINS: u8 = 8;

impl SettingsRecord {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == SettingsRecord::default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let part = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
        out.push(
            part(self.schema.is_some(), HAS_SCHEMA)
                | part(self.suffixes.is_some(), HAS_SUFFIXES)
                | part(self.general.is_some(), HAS_GENERAL)
                | part(self.joins.is_some(), HAS_JOINS),
        );
        if let Some(schema) = &self.schema {
            put_schema(out, schema);
        }
        if let Some(suffixes) = &self.suffixes {
            put_list(out, suffixes, |out, (number, dn)| {
                put_varint(out, u64::from(*number));
                put_bytes(out, dn.as_bytes());
            });
        }
        put_list(out, &self.indexes, |out, (attribute, kinds)| {
            put_varint(out, u64::from(attribute.0));
            out.push(kinds.bits());
        });
        if let Some(general) = &self.general {
            general.encode(out);
        }
        if let Some(joins) = &self.joins {
            put_joins(out, joins);
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<SettingsRecord> {
        let parts = decoder.byte()?;
        if parts & !(HAS_SCHEMA | HAS_SUFFIXES | HAS_GENERAL | HAS_JOINS) != 0 {
            return None;
        }
        let mut record = SettingsRecord::default();
        if parts & HAS_SCHEMA != 0 {
            record.schema = Some(take_schema(decoder)?);
        }
        if parts & HAS_SUFFIXES != 0 {
            record.suffixes = Some(decoder.list(|d| Some((d.number()?, d.string()?)))?);
        }
        record.indexes = decoder.list(|d| Some((AttrId(d.number()?), IndexKinds::from_bits(d.byte()?)?)))?;
        if parts & HAS_GENERAL != 0 {
            record.general = Some(GeneralSettings::decode(decoder)?);
        }
        if parts & HAS_JOINS != 0 {
            record.joins = Some(take_joins(decoder)?);
        }
        Some(record)
    }
}

fn put_schema(out: &mut Vec<u8>, schema: &BTreeMap<String, String>) {
    let texts: Vec<_> = schema.iter().collect();
    put_list(out, &texts, |out, (name, text)| {
        put_bytes(out, name.as_bytes());
        put_bytes(out, text.as_bytes());
    });
}

fn take_schema(decoder: &mut Decoder<'_>) -> Option<BTreeMap<String, String>> {
    Some(decoder.list(|d| Some((d.string()?, d.string()?)))?.into_iter().collect())
}

/// General settings and schema texts, as the catalog stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredSettings {
    /// Position of the last record that changed any setting, including suffixes and indexes.
    pub(crate) position: u64,
    /// Schema texts by name.
    pub(crate) schema: Arc<BTreeMap<String, String>>,
    /// All general settings.
    pub(crate) general: GeneralSettings,
}

/// Version of the row. The version is the first byte of the row.
const ROW_VERSION: u8 = 1;

impl StoredSettings {
    /// Encodes the row of the general settings. Schema texts have a row of their own.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION];
        put_varint(&mut out, self.position);
        self.general.encode(&mut out);
        out
    }

    pub(crate) fn encode_schema(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_schema(&mut out, &self.schema);
        out
    }

    /// Decodes the row of the general settings and the row of the schema texts. Each row may be missing. Returns `None`
    /// if one of the rows is damaged or has an unknown version.
    pub(crate) fn decode(settings: Option<&[u8]>, schema: Option<&[u8]>) -> Option<StoredSettings> {
        let mut stored = StoredSettings::default();
        if let Some(bytes) = settings {
            let mut decoder = Decoder(bytes);
            if decoder.byte()? != ROW_VERSION {
                return None;
            }
            stored.position = decoder.varint()?;
            stored.general = GeneralSettings::decode(&mut decoder)?;
            if !decoder.is_empty() {
                return None;
            }
        }
        if let Some(bytes) = schema {
            let mut decoder = Decoder(bytes);
            stored.schema = Arc::new(take_schema(&mut decoder)?);
            if !decoder.is_empty() {
                return None;
            }
        }
        Some(stored)
    }
}
