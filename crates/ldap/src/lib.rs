//! LDAP protocol types: messages, filters, distinguished names, URLs, LDIF text (RFC 4511, 4514, 4515, 4516, 2849).
//!
//! The crate converts between bytes and types. A server finds a message in its buffer with [`frame_len`], decodes it
//! with [`Message::decode`], and answers with the `encode_*` functions of [`response`]; a client does the reverse with
//! [`Message::encode`] and [`ResponseMessage::decode`].
//!
//! Decoding validates a message once, against [`DecodeLimits`]. Repeated and nested parts (attributes, values, filters,
//! controls) stay encoded, and iterators read them without further checks. So a decoded request borrows its buffer, is
//! `Copy`, and needs no allocation, whatever its size. Encoding computes the sizes first, so it appends each octet once
//! to one `Vec<u8>`.
//!
//! Out of scope: sockets, the schema, and the meaning of operations. A DN in this crate is a series of names and
//! values. The names are not looked up in a schema, so two spellings of an attribute name count as different names.
#![forbid(unsafe_code)]
// All of this crate processes octets that peers sent, so no cast may lose bits and no index may panic.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]

mod access_values;
mod account_usability;
mod attributes;
mod backup_values;
mod cancel;
mod content_sync;
mod control;
mod decode;
mod deleted_values;
mod dereference;
mod dir_sync;
mod dn;
mod dn_text;
mod entry_count;
mod excerpt;
mod filter;
mod filter_text;
mod history_values;
pub mod ldif;
mod limits;
mod list_view;
mod matched_values;
mod message;
mod message_id;
pub mod oids;
mod own_credentials;
mod paged_results;
mod password_modify;
mod password_policy;
mod password_state;
mod persistent_search;
mod position_token;
mod refresh;
mod replica_copy;
mod replica_values;
mod request;
mod request_encode;
pub mod response;
mod response_decode;
mod result_code;
mod search_options;
mod server_url;
mod settings_values;
mod sorting;
mod trail_values;
mod transaction;
mod url;
mod verify_credentials;

pub use access_values::{ALL_REQUESTERS, AccessQuestion, EffectiveRightsRequest};
pub use account_usability::{AccountUsability, Unusable};
pub use attributes::{
    AttributeSelection, Attributes, AttributesBuf, Change, ChangeOperation, Changes, ChangesBuf,
    PartialAttribute, SelectionBuf, Values,
};
pub use backup_values::{BackupAnswer, BackupRequest};
pub use ber::{BerError, Tag, read_frame_len as frame_len};
pub use cancel::{decode_cancel, encode_cancel};
pub use content_sync::{SyncDone, SyncIdSet, SyncInfo, SyncRequest, SyncState, SyncStateValue, SyncUuid};
pub use control::{Control, Controls, ControlsBuf, encode_integer};
pub use decode::{DecodeError, DecodeErrorKind, Limit};
pub use deleted_values::{DeletedAnswer, DeletedEntry, DeletedRequest, UndeleteAnswer, UndeleteRequest};
pub use dereference::{DereferenceSpec, Dereferenced, dereferenced_len, put_dereferenced};
pub use dir_sync::{DirSyncDone, DirSyncRequest};
pub use dn::{Ava, Dn, DnError, DnErrorKind, Rdn, is_plain_dn_text};
pub use dn_text::{escape_value, escaped_value};
pub use entry_count::{decode_search_no_op, encode_entry_count, encode_search_no_op, is_entry_count_request};
pub use excerpt::{EXCERPT_MAX, Excerpt};
pub use filter::{Assertion, ExtensibleMatch, Filter, FilterKind, FilterList, SubstringAny, Substrings};
pub use filter_text::{FilterBuf, FilterError, FilterErrorKind, filter_value};
pub use history_values::{
    HistoryAnswer, HistoryChange, HistoryEffect, HistoryKind, HistoryRequest, HistoryValues,
};
pub use limits::*;
pub use list_view::{ListViewRequest, ListViewResult, ListViewTarget};
pub use matched_values::{decode_matched_values, encode_matched_values};
pub use message::{Message, operation_of};
pub use message_id::MessageId;
pub use own_credentials::{GeneratedApplication, OwnCredentials};
pub use paged_results::PagedResults;
pub use password_modify::{PasswordModify, decode_generated_password, encode_generated_password};
pub use password_policy::{PolicyError, PolicyResponse, PolicyWarning};
pub use password_state::{StateOperation, StateRequest, encode_password_state, state_operation};
pub use persistent_search::{ChangeType, EntryChange, PersistentSearch};
pub use position_token::{AtLeast, PositionToken};
pub use refresh::{RefreshRequest, refreshed_value};
pub use replica_copy::{CopyAnswer, CopyPart, CopyRequest};
pub use replica_values::{LogAnswer, LogPart, LogRecords, LogRequest};
pub use request::{
    AddRequest, Authentication, BindRequest, CompareRequest, DeleteRequest, DerefAliases, ExtendedRequest,
    ModifyDnRequest, ModifyRequest, Request, Scope, SearchRequest, request_tag,
};
pub use response::{LdapResult, ResponseOp};
pub use response_decode::{ReceivedResult, Response, ResponseMessage, SearchEntry, Uris};
pub use result_code::ResultCode;
pub use search_options::SearchOptions;
pub use server_url::{ServerUrl, ServerUrlError};
pub use settings_values::{RehearsalAnswer, SettingsInForce, SettingsRequest};
pub use sorting::{SortKey, SortResult};
pub use trail_values::{TrailAnswer, TrailPiece, TrailPosition, TrailRequest};
pub use transaction::{EndTransaction, EndTransactionResult};
pub use url::{LdapUrl, LdapUrlError, LdapUrlErrorKind, UrlExtension, UrlScheme};
pub use verify_credentials::{VerifiedCredentials, VerifyCredentials};
