//! Values for every known control and extended operation. If a control in the server's tables has no value here, the
//! test fails, so that each new control gets a value.

use directory::controls::MANAGE_DSA_IT;
use directory::controls::{EXPLAIN, SUBENTRIES};
use directory::virtual_entries::{
    APPLY_SETTINGS, COPY_DATA, EXPLAIN_ACCESS, FORWARD, LIST_DELETED, OWN_CREDENTIALS, PROMOTE,
    PROMOTE_REPLICA, READ_AUDIT, READ_BACKUP, READ_HISTORY, READ_LOG, UNDELETE,
};
use fastrand::Rng;
use ldap::{
    AccessQuestion, AtLeast, BackupRequest, Controls, CopyRequest, DeletedRequest, DereferenceSpec,
    EndTransaction, FilterBuf, HistoryRequest, ListViewRequest, ListViewTarget, LogRequest, MessageId,
    OwnCredentials, PagedResults, PasswordModify, PersistentSearch, PositionToken, RefreshRequest,
    SelectionBuf, SettingsRequest, SortKey, StateOperation, SyncRequest, TrailRequest, UndeleteRequest,
    VerifyCredentials, encode_cancel, encode_matched_values, encode_password_state, oids,
};

use replication::comparison::{Mark, Report};
use replication::forward::{self, ForwardedRequester, encode_requests};
use replication::{NodeId, OperationId, Slice};

use super::requests::{Dice, filter};
use super::world::{one_of, pick, uuid_of};

/// A value for each of the two servers. The values differ if they are values that the servers returned before.
pub(crate) type Values = Option<[Vec<u8>; 2]>;

/// Function that generates a value.
pub(crate) type Maker = fn(&mut Dice<'_>) -> Values;

/// Kind of an extended operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reads,
    Writes,
    /// The request changes the state of the connection.
    OfConnection,
}

/// Controls without a value.
const WITHOUT_VALUE: &[&str] = &[
    MANAGE_DSA_IT,
    oids::PERMISSIVE_MODIFY,
    oids::TREE_DELETE,
    oids::NO_OPERATION,
    oids::NO_OPERATION_UNBOUNDID,
    oids::DOMAIN_SCOPE,
    oids::SHOW_DELETED,
    oids::RELAX_RULES,
    oids::SUBENTRIES_DRAFT,
    oids::REAL_ATTRIBUTES_ONLY,
    oids::VIRTUAL_ATTRIBUTES_ONLY,
    oids::DONT_USE_COPY,
    oids::LAZY_COMMIT,
    oids::WHAT_FAILED,
    oids::SEARCH_NO_OP,
    oids::PASSWORD_POLICY,
    oids::ACCOUNT_USABILITY,
    oids::AUTHORIZATION_IDENTITY_REQUEST,
    oids::POSITION,
    EXPLAIN,
];

/// Returns the function that generates a control's value, or `None` for an unknown control.
pub(crate) fn control(oid: &str) -> Option<Maker> {
    Some(match oid {
        _ if WITHOUT_VALUE.contains(&oid) => |_| None,
        oids::ASSERTION => |dice| {
            let mut bytes = Vec::new();
            filter(dice, 2).as_filter().encode(&mut bytes);
            same(bytes)
        },
        oids::PRE_READ | oids::POST_READ => |dice| {
            let selection: SelectionBuf = dice.attributes().into_iter().collect();
            let names = selection.as_selection().as_bytes().to_vec();
            same([vec![0x30, names.len() as u8], names].concat())
        },
        oids::TRANSACTION_SPECIFICATION => |dice| same(dice.rng.u32(1..5).to_string().into_bytes()),
        oids::SEARCH_OPTIONS => |dice| same(vec![0x30, 3, 2, 1, dice.rng.u8(..4)]),
        SUBENTRIES => |dice| same(vec![1, 1, if dice.rng.bool() { 0xff } else { 0 }]),
        oids::PAGED_RESULTS => |dice| {
            let size = dice.rng.u32(..5);
            same(PagedResults { size, cookie: b"" }.encode())
        },
        oids::SORT_REQUEST => sort_keys,
        oids::VLV_REQUEST => |dice| {
            let target = match dice.rng.u32(..3) {
                0 => ListViewTarget::Value(b"p"),
                _ => ListViewTarget::Offset { offset: dice.rng.u32(..9), count: dice.rng.u32(..9) },
            };
            let (before, after) = (dice.rng.u32(..4), dice.rng.u32(..4));
            same(ListViewRequest { before, after, target, context: None }.encode())
        },
        oids::MATCHED_VALUES => matched_values,
        oids::SYNC_REQUEST => synchronization,
        oids::PERSISTENT_SEARCH => persistent_search,
        oids::DEREFERENCE => dereference,
        oids::SESSION_TRACKING | oids::ENTRY_COUNT_REQUEST => |_| same(b"\x30\x00".to_vec()),
        oids::PROXIED_AUTHORIZATION => |dice| same(dice.identity().into_bytes()),
        oids::PROXIED_AUTHORIZATION_V1 => |dice| {
            let dn = dice.user();
            let mut value = vec![0x30, dn.len() as u8 + 2, 0x04, dn.len() as u8];
            value.extend(dn.bytes());
            same(value)
        },
        oids::EFFECTIVE_RIGHTS => |dice| {
            let identity = if dice.rng.bool() { String::new() } else { dice.identity() };
            same(identity.into_bytes())
        },
        oids::AT_LEAST => at_least,
        _ => return None,
    })
}

fn at_least(dice: &mut Dice<'_>) -> Option<[Vec<u8>; 2]> {
    let tokens = dice.position.unwrap_or([[0; 24]; 2]);
    let encode =
        |bytes: &[u8; 24]| AtLeast { token: PositionToken::decode(bytes).unwrap(), wait_ms: 0 }.encode();
    Some([encode(&tokens[0]), encode(&tokens[1])])
}

/// Makes one or two sort keys.
fn sort_keys(dice: &mut Dice<'_>) -> Values {
    let keys = [
        "cn",
        "sn",
        "mail",
        "homePhone",
        "employeeNumber",
        "title",
        "description",
        "nonsense",
        "member",
        "o",
        "uidNumber",
        "roomNumber",
        "membershipEnd",
    ];
    let collective = ["c-PostalCode", "postalCode", "c-o", "l"];
    let key = |rng: &mut Rng| {
        let rule =
            (rng.u32(..5) == 0).then(|| pick(rng, &["caseIgnoreOrderingMatch", "caseExactOrderingMatch"]));
        let attribute = if rng.u32(..4) == 0 { pick(rng, &collective) } else { pick(rng, &keys) };
        SortKey { attribute, rule, reverse: rng.bool() }
    };
    let all: Vec<_> = (0..dice.rng.usize(1..3)).map(|_| key(dice.rng)).collect();
    same(SortKey::encode_list(&all))
}

/// Makes one or two filters for matched values.
fn matched_values(dice: &mut Dice<'_>) -> Values {
    let items = [
        "(description=*)",
        "(description=secret*)",
        "(homePhone=*)",
        "(member=*)",
        "(objectClass=alias)",
        "(postalCode=*)",
        "(c-o=secret*)",
        "(o=*)",
    ];
    let items: Vec<FilterBuf> =
        (0..dice.rng.usize(1..3)).map(|_| FilterBuf::parse(pick(dice.rng, &items)).unwrap()).collect();
    same(encode_matched_values(items.iter().map(FilterBuf::as_filter)))
}

/// Makes a request for synchronization, with or without the last cookie.
fn synchronization(dice: &mut Dice<'_>) -> Values {
    let persists = dice.rng.u32(..4) == 0;
    dice.follows |= persists;
    let cookie = if dice.rng.bool() { dice.sync_cookie.clone() } else { None };
    let encode = |cookie: Option<&[u8]>| SyncRequest { persists, cookie, reload_hint: false }.encode();
    Some(match cookie {
        Some([one, other]) => [encode(Some(&one)), encode(Some(&other))],
        None => [encode(None), encode(None)],
    })
}

/// Returns the value of a control that requests changes (persistent search).
fn persistent_search(dice: &mut Dice<'_>) -> Values {
    dice.follows = true;
    let change_types = dice.rng.u8(1..16);
    let (changes_only, returns_entry_changes) = (dice.rng.bool(), dice.rng.bool());
    same(PersistentSearch { change_types, changes_only, returns_entry_changes }.encode())
}

/// Makes a request for attributes of dereferenced entries.
fn dereference(dice: &mut Dice<'_>) -> Values {
    let attribute =
        pick(dice.rng, &["member", "manager", "seeAlso", "friend", "member", "cn", "aliasedObjectName"]);
    let wanted = vec![
        pick(dice.rng, &["cn", "mail", "homePhone"]),
        pick(dice.rng, &["memberOf", "entryDN", "objectClass", "membershipEnd", "valueEnd"]),
    ];
    same(DereferenceSpec::encode_list(&[DereferenceSpec { attribute, wanted }]))
}

/// Returns the kind of an extended operation, and the function that generates its value. Returns `None` for an unknown
/// operation.
pub(crate) fn extended(oid: &str) -> Option<(Kind, Maker)> {
    Some(match oid {
        oids::START_TLS => (Kind::OfConnection, |_| None),
        oids::MODIFY_PASSWORD => (Kind::Writes, |dice| {
            let user = match dice.rng.u32(..6) {
                0 => None,
                1 => Some(dice.identity()),
                2 => Some(format!("dn:{}", dice.name())),
                3 => Some(dice.user()),
                _ => Some(dice.name()),
            };
            let old = (dice.rng.u32(..3) == 0).then_some(&b"wrong"[..]);
            let new = dice.rng.bool().then_some(&b"another"[..]);
            let user_identity = user.as_deref().map(str::as_bytes);
            same(PasswordModify { user_identity, old_password: old, new_password: new }.encode())
        }),
        oids::PASSWORD_STATE | oids::PASSWORD_STATE_UNBOUNDID => (Kind::Writes, |dice| {
            let operation = |rng: &mut Rng| {
                let values = if rng.u32(..4) == 0 { vec!["true"] } else { Vec::new() };
                StateOperation { kind: rng.u32(..60), values }
            };
            let operations: Vec<_> = (0..dice.rng.usize(..3)).map(|_| operation(dice.rng)).collect();
            let user = if dice.rng.bool() { dice.user() } else { dice.name() };
            same(encode_password_state(&user, &operations))
        }),
        oids::CONNECTION_ID => (Kind::Reads, |_| None),
        oids::START_TRANSACTION => (Kind::Reads, |_| None),
        oids::END_TRANSACTION => (Kind::Writes, |dice| {
            let identifier = dice.rng.u32(1..5).to_string();
            same(EndTransaction { commits: dice.rng.bool(), identifier: identifier.as_bytes() }.encode())
        }),
        oids::WHO_AM_I => (Kind::Reads, |_| None),
        oids::REFRESH => (Kind::Writes, |dice| {
            let entry = match dice.rng.bool() {
                true => one_of(dice.rng, &dice.world.dynamic).dn.clone(),
                false => dice.name(),
            };
            let ttl_seconds = dice.rng.u32(..100_000);
            same(RefreshRequest { entry: &entry, ttl_seconds }.encode())
        }),
        // The value contains no password, because a wrong one would count as a failed bind.
        oids::VERIFY_CREDENTIALS => {
            (Kind::Reads, |dice| same(VerifyCredentials::encode_simple(&dice.name(), b"", Controls::NONE)))
        }
        // The id belongs to no operation.
        oids::CANCEL => {
            (Kind::Reads, |dice| same(encode_cancel(MessageId(2_000_000_000 + dice.rng.i32(..9)))))
        }
        _ => return own_operation(oid),
    })
}

/// Does the same as [`extended`], for Pando's private operations.
fn own_operation(oid: &str) -> Option<(Kind, Maker)> {
    Some(match oid {
        APPLY_SETTINGS => (Kind::Writes, |dice| {
            let text = "size_limit = 1";
            same(match dice.rng.u32(..5) {
                0 => SettingsRequest::Read.encode(),
                3 => SettingsRequest::Rehearse { text, requesters: Vec::new() }.encode(),
                1 => SettingsRequest::Plan { text }.encode(),
                2 => SettingsRequest::Apply { text, version: Some(dice.rng.u64(..9)) }.encode(),
                _ => SettingsRequest::Apply { text, version: None }.encode(),
            })
        }),
        EXPLAIN_ACCESS => (Kind::Reads, |dice| {
            let rights = ["browse", "read", "write", "add", "delete", "use", "compare", "search", "nonsense"];
            let (requester_dn, entry) = (dice.identity(), dice.name());
            let right = pick(dice.rng, &rights);
            let entry = if right == "use" { String::new() } else { entry };
            let attribute = match right {
                "use" => Some("paging"),
                "browse" | "add" | "delete" => None,
                _ => Some(pick(dice.rng, &["cn", "homePhone", "description", "member"])),
            };
            same(
                AccessQuestion {
                    requester: &requester_dn,
                    right,
                    entry: &entry,
                    attribute,
                    address: dice.rng.bool().then_some("127.0.0.1"),
                    over_tls: false,
                    bound_by: None,
                    time: None,
                    listener: None,
                }
                .encode(),
            )
        }),
        READ_AUDIT => (Kind::Reads, |_| same(TrailRequest { since_micros: 0, from: None }.encode())),
        READ_LOG => (Kind::Reads, log_request),
        COPY_DATA => {
            (Kind::Reads, |dice| same(CopyRequest { copy: &[], offset: dice.rng.u64(..1_000) }.encode()))
        }
        FORWARD => (Kind::Writes, forwarded_change),
        PROMOTE_REPLICA => (Kind::Writes, |_| None),
        LIST_DELETED => (Kind::Reads, |dice| {
            let name = dice.rng.bool().then(|| dice.name());
            same(DeletedRequest { from: &[], name: name.as_deref() }.encode())
        }),
        READ_HISTORY => (Kind::Reads, |dice| {
            let (entry, before) = (dice.name(), dice.rng.u64(..40));
            same(HistoryRequest { entry: &entry, before }.encode())
        }),
        READ_BACKUP => (Kind::Reads, |dice| {
            let (entry, micros, is_tree) = (dice.name(), dice.rng.u64(..1 << 52), dice.rng.bool());
            same(BackupRequest { entry: &entry, micros, is_tree }.encode())
        }),
        PROMOTE => (Kind::Writes, |_| same(Vec::new())),
        UNDELETE => (Kind::Writes, |dice| {
            // Do not move entries below the first user, because they are hidden by their place.
            let shown = dice.world.shown.iter().filter(|dn| !dn.starts_with("uid=v0,")).collect::<Vec<_>>();
            let uuid = match dice.rng.u32(..6) {
                0 => dice.rng.u128(..),
                1 => uuid_of(one_of::<&String>(dice.rng, &shown)),
                _ => uuid_of(one_of::<String>(dice.rng, &dice.world.deleted)),
            };
            let superior = (dice.rng.u32(..4) == 0).then(|| dice.name());
            same(UndeleteRequest { uuid: uuid.to_be_bytes(), superior: superior.as_deref() }.encode())
        }),
        OWN_CREDENTIALS => (Kind::Writes, own_credentials),
        _ => return None,
    })
}

/// Makes a forwarded change in the name of another requester, as a replica sends it.
fn forwarded_change(dice: &mut Dice<'_>) -> Values {
    let requester = match dice.rng.u32(..3) {
        0 => ForwardedRequester::Anonymous,
        1 => ForwardedRequester::Administrator { dn: dice.identity() },
        _ => ForwardedRequester::Entry { id: dice.rng.u64(..50), dn: dice.identity() },
    };
    let name = dice.name();
    let mut message = Vec::new();
    let request = ldap::Request::Delete(ldap::DeleteRequest { entry: &name });
    ldap::Message { id: MessageId(1), request, controls: ldap::Controls::NONE }.encode(&mut message);
    same(encode_requests(&[forward::Request {
        operation: OperationId { node: NodeId(0), incarnation: 1, sequence: dice.rng.u64(..9) },
        epoch: 0,
        link: forward::Link::default(),
        position: 0,
        requester,
        method: forward::BindMethod::Simple,
        strength: 0,
        network: None,
        listener: None,
        work: forward::Work::Change { message, passwords: forward::Prepared::default() },
    }]))
}

/// Makes a request for the log of other data, so that the answer contains no records.
fn log_request(dice: &mut Dice<'_>) -> Values {
    let (position, bytes_max) = (dice.rng.u64(..1_000), dice.rng.u32(..100_000));
    let (digest, lineage) = (&[][..], &[][..]);
    let slice = Slice { from: vec![b'e', dice.rng.u8(..)], to: Vec::new() };
    let report = Report { mark: Mark { position, slice }, parts: Default::default() }.encode();
    let comparison = match dice.rng.u8(..3) {
        0 => &[][..],
        1 => &report,
        _ => &report[1..],
    };
    let (generation, name) = ([0; 16], "any");
    same(
        LogRequest { generation, position, digest, lineage, wait_ms: 0, bytes_max, name, comparison }
            .encode(),
    )
}

/// Makes a request about the requester's own credentials.
fn own_credentials(dice: &mut Dice<'_>) -> Values {
    let request = match dice.rng.u32(..5) {
        0 => OwnCredentials::AddApplication { name: "mail", days: dice.rng.bool().then_some(30) },
        1 => OwnCredentials::RemoveApplication { name: "mail" },
        2 => OwnCredentials::SetCodes { secret: "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", code: "123456" },
        3 => OwnCredentials::ClearCodes,
        _ => OwnCredentials::Read,
    };
    same(request.encode())
}

/// Returns how random requests use a feature (RFC 3674), or `None` for an unknown feature.
pub(crate) fn feature(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "1.3.6.1.4.1.4203.1.5.1" => "+ among the attributes",
        "1.3.6.1.4.1.4203.1.5.2" => "@person among the attributes",
        "1.3.6.1.4.1.4203.1.5.3" => "(&) and (|) among the filters",
        "1.3.6.1.4.1.4203.1.5.4" => "title;lang-de among the attributes",
        "1.3.6.1.4.1.4203.1.5.5" => "title;lang- among the attributes",
        "1.3.6.1.1.14" => "increments among the changes",
        "1.3.6.1.4.1.4203.666.8.1" => "the scope below the base",
        _ => return None,
    })
}

/// Returns the first message of a client that authenticates as `name`, or `None` for an unknown mechanism.
pub(crate) fn sasl(mechanism: &str, name: &str) -> Option<Vec<u8>> {
    Some(match mechanism {
        "EXTERNAL" | "ANONYMOUS" => name.as_bytes().to_vec(),
        "PLAIN" => format!("\0{name}\0wrong").into_bytes(),
        "SCRAM-SHA-1" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => {
            format!("n,,n={},r=clientnonce", name.replace('=', "=3D").replace(',', "=2C")).into_bytes()
        }
        "CRAM-MD5" | "DIGEST-MD5" => Vec::new(),
        _ => return None,
    })
}

/// Returns the same value for both servers.
fn same(value: Vec<u8>) -> Values {
    Some([value.clone(), value])
}
