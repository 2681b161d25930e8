//! Times at which the schema was created and last changed. These times are createTimestamp and modifyTimestamp of the
//! subschema subentry.
//!
//! Clients cache the schema and read it again when modifyTimestamp has changed (RFC 4512 section 4.2). Therefore
//! modifyTimestamp changes exactly when the published definitions change. A settings record may change the definitions;
//! the time is then the time in the record's CSN. A new program may also ship other definitions than the previous
//! program; a digest in `meta` shows such a change. The times survive a restart. Each change has a later time than the
//! previous change, even within the same second.

use schema::Schema;
use sha2::{Digest, Sha256};

use crate::model::csn::generalized_time;

/// Version of the row. The version is the first byte of the row.
const ROW_VERSION: u8 = 1;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// Times of the schema, and a digest of its definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaTimes {
    /// Unix time at which the directory was created, or first opened by a program that stores these times.
    created_seconds: u64,
    /// Unix time of the last change.
    modified_seconds: u64,
    /// SHA-256 of the published definitions.
    digest: [u8; 32],
}

impl SchemaTimes {
    /// Returns the times of `schema`. If the digest of its definitions is equal to the digest in `known`, returns
    /// `known`.
    pub(crate) fn with(known: Option<&SchemaTimes>, schema: &Schema, now_micros: u64) -> SchemaTimes {
        let (digest, now_seconds) = (digest_of(schema), now_micros / MICROS_PER_SECOND);
        match known {
            None => SchemaTimes { created_seconds: now_seconds, modified_seconds: now_seconds, digest },
            Some(known) if known.digest == digest => known.clone(),
            Some(known) => {
                let modified_seconds = now_seconds.max(known.modified_seconds + 1);
                SchemaTimes { created_seconds: known.created_seconds, modified_seconds, digest }
            }
        }
    }

    pub(crate) fn create_timestamp(&self) -> String {
        generalized_time(self.created_seconds)
    }

    pub(crate) fn modify_timestamp(&self) -> String {
        generalized_time(self.modified_seconds)
    }

    /// Encodes the row in `meta`: version, both times in eight octets each, digest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = vec![ROW_VERSION];
        row.extend_from_slice(&self.created_seconds.to_be_bytes());
        row.extend_from_slice(&self.modified_seconds.to_be_bytes());
        row.extend_from_slice(&self.digest);
        row
    }

    /// Decodes the row; `None` if it is damaged or of an unknown version.
    pub(crate) fn decode(row: &[u8]) -> Option<SchemaTimes> {
        let (version, rest) = row.split_first()?;
        let (created, rest) = rest.split_first_chunk()?;
        let (modified, digest) = rest.split_first_chunk()?;
        (*version == ROW_VERSION).then_some(SchemaTimes {
            created_seconds: u64::from_be_bytes(*created),
            modified_seconds: u64::from_be_bytes(*modified),
            digest: digest.try_into().ok()?,
        })
    }
}

fn digest_of(schema: &Schema) -> [u8; 32] {
    let publication = schema.publish();
    let lists = [
        &publication.attribute_types,
        &publication.object_classes,
        &publication.ldap_syntaxes,
        &publication.matching_rules,
        &publication.matching_rule_use,
        &publication.dit_content_rules,
        &publication.dit_structure_rules,
        &publication.name_forms,
    ];
    let mut digest = Sha256::new();
    for list in lists {
        digest.update((list.len() as u64).to_be_bytes());
        for definition in list {
            digest.update((definition.len() as u64).to_be_bytes());
            digest.update(definition);
        }
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDirectory;

    fn times(directory: &mut TestDirectory) -> (String, String) {
        let found = directory.search(
            "cn=subschema",
            ldap::Scope::BaseObject,
            "(modifyTimestamp>=20000101000000Z)",
            &["createTimestamp", "modifyTimestamp"],
        );
        let entry = found.entries.first().expect("the subschema subentry is found by its time");
        let [created, modified] = ["createTimestamp", "modifyTimestamp"].map(|name| {
            let texts = entry.texts(name);
            assert_eq!(texts.len(), 1, "{name}");
            texts[0].clone()
        });
        (created, modified)
    }

    fn define(directory: &mut TestDirectory, text: &str) {
        directory.change_settings(|settings| {
            settings.schema.insert("local".to_owned(), text.to_owned());
        });
    }

    /// Regression test: the subschema subentry lacked both timestamps, so clients could not determine whether their
    /// copy was current (RFC 4512 section 4.2).
    #[test]
    fn modify_timestamp_changes_exactly_when_the_schema_does() {
        const ONE: &str =
            "attributetype ( 1.3.6.1.4.1.99999.9.1 NAME 'one' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n";
        const TWO: &str =
            "attributetype ( 1.3.6.1.4.1.99999.9.2 NAME 'two' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n";
        let mut directory = TestDirectory::with_suffix_entry();
        let (created, first) = times(&mut directory);
        assert_eq!(created, first);
        // Changes of other settings, changes of entries, and a restart do not change the times.
        directory.change_settings(|settings| settings.general.size_limit += 1);
        directory.add("cn=x,dc=example,dc=com", &[("objectClass", &["device"])]);
        directory = directory.reopen();
        assert_eq!(times(&mut directory), (created.clone(), first.clone()));
        // Each change of the schema has its own time, even if two changes happen in one second.
        define(&mut directory, ONE);
        let (same, second) = times(&mut directory);
        define(&mut directory, &format!("{ONE}{TWO}"));
        let (_, third) = times(&mut directory);
        assert!(same == created && first < second && second < third, "{created} {first} {second} {third}");
        directory = directory.reopen();
        assert_eq!(times(&mut directory), (created.clone(), third.clone()));
        // A text with the same definitions does not change the times. A text without one of the definitions does.
        define(&mut directory, &format!("# a comment\n{ONE}{TWO}"));
        assert_eq!(times(&mut directory).1, third);
        define(&mut directory, ONE);
        let (same, fourth) = times(&mut directory);
        assert!(same == created && third < fourth, "{third} {fourth}");
    }

    #[test]
    fn a_change_of_the_shipped_schema_updates_the_modification_time() {
        let shipped = Schema::shipped();
        let known = SchemaTimes { digest: [7; 32], ..SchemaTimes::with(None, &shipped, 10_000_000) };
        let changed = SchemaTimes::with(Some(&known), &shipped, 90_000_000);
        assert_eq!((changed.created_seconds, changed.modified_seconds), (10, 90));
        assert_eq!(SchemaTimes::with(Some(&changed), &shipped, 99_000_000), changed);
        // The times increase even if the clock was set back.
        assert_eq!(SchemaTimes::with(Some(&known), &shipped, 0).modified_seconds, 11);
        assert_eq!(SchemaTimes::decode(&changed.encode()), Some(changed.clone()));
        assert_eq!(SchemaTimes::decode(&changed.encode()[1..]), None);
        assert_eq!(SchemaTimes::decode(&[]), None);
    }
}
