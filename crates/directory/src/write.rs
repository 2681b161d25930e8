//! Changes of entries. `decide`, with one file per operation, converts a request to a record. `apply` converts a record
//! to rows.

pub mod account_update;
pub(crate) mod add;
pub mod apply;
pub(crate) mod collective;
pub mod decide;
pub(crate) mod deciding;
pub(crate) mod delete;
pub mod dynamic_entries;
#[cfg(test)]
mod every_description;
pub(crate) mod given_values;
pub mod joins;
pub mod linking;
pub(crate) mod modify;
pub(crate) mod modify_dn;
pub(crate) mod new_entry;
pub(crate) mod next_number;
pub(crate) mod own_credentials;
pub(crate) mod password_rules;
pub(crate) mod password_state;
pub mod passwords;
mod permitted;
pub(crate) mod relaxed;
pub(crate) mod schema_check;
pub(crate) mod structure_rules;
pub(crate) mod tombstones;
pub(crate) mod undelete;
pub mod value_ends;
pub(crate) mod value_rules;
pub(crate) mod values;
pub(crate) mod whole_entry;
pub(crate) mod working_entry;
