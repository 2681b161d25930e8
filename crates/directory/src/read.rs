//! Operations that change nothing: search, compare, bind.

pub mod access_question;
pub mod bind;
pub mod bind_names;
pub mod compare;
pub mod controls;
pub mod deleted;
pub mod history;
pub mod identity;
pub mod log_changes;
pub mod own_credentials;
pub(crate) mod own_entries;
pub(crate) mod page_request;
pub mod password_state;
pub mod read_ahead;
pub mod reset_by_mail;
pub mod search;
