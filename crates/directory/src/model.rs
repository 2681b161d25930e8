//! Types that every other floor uses: entry ids and rows, entries, records of changes, outcomes, limits. This floor
//! reads no store.

pub(crate) mod access_rule;
pub(crate) mod account_attribute;
pub(crate) mod allocation;
pub(crate) mod attribute_numbers;
pub(crate) mod client_link;
pub(crate) mod client_pattern;
pub(crate) mod codec;
pub mod csn;
pub(crate) mod dynamic_groups;
pub mod entry;
pub(crate) mod expectation;
pub mod index_definition;
pub mod limits;
pub(crate) mod link_conditions;
pub mod name;
pub(crate) mod open_error;
pub mod origin;
pub mod outcome;
pub(crate) mod password_kind;
pub(crate) mod password_policy;
pub(crate) mod quoted;
pub mod record;
pub(crate) mod record_value;
pub mod rows;
pub(crate) mod rule_tokens;
pub(crate) mod sasl_keys;
pub(crate) mod sasl_mechanisms;
pub(crate) mod schema_times;
pub(crate) mod settings;
pub(crate) mod stamp;
pub(crate) mod storage_scheme;
pub mod tombstone;
pub(crate) mod usable;
pub(crate) mod value_list;
pub mod virtual_entries;
