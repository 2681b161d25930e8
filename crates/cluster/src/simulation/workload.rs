//! Changes that the clients of a run make, and the possible results of each.
//!
//! Most changes add a value that no other change adds, a *token*, so that a lost or repeated change is visible. The
//! other changes use the rules about data: memberships by rules, ends of values, links, transactions, deleted entries,
//! next numbers, unique values and dynamic entries. Their results depend on the order of changes. They make additional
//! records, so a group may have room for only some of the records of a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use directory::csn::generalized_time;
use directory::index_definition::IndexKinds;
use directory::virtual_entries::MAKE_DUE_CHANGES;
use directory::{Directory, DirectorySettings, deleted};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Controls, DeleteRequest, DeletedRequest,
    ExtendedRequest, MessageId, ModifyDnRequest, ModifyRequest, RefreshRequest, Request, ResultCode,
    UndeleteRequest, oids,
};

use crate::host::{LocalWork, TransactionChange};

pub(super) const SUFFIX: &str = "dc=example";
const MEETINGS: &str = "ou=meetings,dc=example";

/// Suffixes of the two values of a transaction, after the token.
const BOTH: [&str; 2] = ["+first", "+second"];

/// Suffix of the value of a transaction whose second change is refused.
const REFUSED: &str = "+refused";

/// Length of `token-000-000000`.
const TOKEN_LEN: usize = 16;

/// Number of entries that clients modify, rename, delete and restore.
const DEVICES: usize = 6;

/// Number of groups whose memberships end at the same times.
const GUESTS: usize = 10;

/// Number of attribute types that become links, one after the other.
const BOSSES: usize = 6;

/// Seconds between the times at which memberships end.
const ENDS_SECONDS: u64 = 5;

/// Seconds for which all clients use the same unique value.
const UNIQUE_SECONDS: u64 = 2;

/// Number of changes of a transaction that is too large for every kind of log: see [`LogLimits::random`].
const TOO_MANY: usize = 1_000;

/// Possible results of the changes whose results depend on the order of all changes. If the end of a membership has
/// passed in the meantime, the result is a constraint violation. A cluster whose level is too low answers
/// `unavailable`.
const POSSIBLE: [ResultCode; 8] = [
    ResultCode::SUCCESS,
    ResultCode::NO_SUCH_OBJECT,
    ResultCode::ENTRY_ALREADY_EXISTS,
    ResultCode::ATTRIBUTE_OR_VALUE_EXISTS,
    ResultCode::NO_SUCH_ATTRIBUTE,
    ResultCode::OBJECT_CLASS_VIOLATION,
    ResultCode::CONSTRAINT_VIOLATION,
    ResultCode::UNAVAILABLE,
];

/// Limits of the messages of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub(super) group_bytes_max: usize,
    pub(super) group_records_max: usize,
}

impl LogLimits {
    /// Returns random limits: few bytes, or few records. Several waiting changes may exceed them.
    pub(super) fn random(rng: &mut fastrand::Rng) -> LogLimits {
        let (group_bytes_max, group_records_max) = match rng.u8(..4) {
            0 => (1 << 20, 24),
            1 => (8_192, 1 << 16),
            _ => (4_096, 1 << 16),
        };
        LogLimits { group_bytes_max, group_records_max }
    }
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Value,
    Both,
    RefusedTransaction,
    TooLarge,
    Person,
    Ends,
    Dynamic,
    Refresh,
    Delete,
    Add,
    Undelete,
    Modify,
    Rename,
    Unique,
    Links,
    Rules,
    Due,
}

/// Number of kinds.
pub(super) const KINDS: usize = Kind::Due as usize + 1;

/// A change, and what its client expects.
pub(super) struct ChangeRequest {
    pub(super) kind: Kind,
    pub(super) work: LocalWork,
    pub(super) expected: Expected,
}

/// Expected result of a change. Every change may also be answered with `unavailable`.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Success. Afterwards, the data of every node contains this text.
    Token(String),
    Refusal(ResultCode),
    /// Any result in [`POSSIBLE`].
    Possible,
}

impl ChangeRequest {
    fn of(kind: Kind, message: Vec<u8>) -> ChangeRequest {
        ChangeRequest { kind, work: LocalWork::Message(message), expected: Expected::Possible }
    }

    fn transaction(
        kind: Kind,
        messages: impl IntoIterator<Item = Vec<u8>>,
        expected: Expected,
    ) -> ChangeRequest {
        let change = |message| TransactionChange { message, passwords: Default::default(), origin: None };
        ChangeRequest {
            kind,
            work: LocalWork::Transaction(messages.into_iter().map(change).collect()),
            expected,
        }
    }

    /// Returns the request of a node for the changes that are due.
    pub(super) fn due() -> ChangeRequest {
        ChangeRequest::of(Kind::Due, extended(MAKE_DUE_CHANGES, None))
    }
}

impl Expected {
    pub(super) fn allows(&self, code: ResultCode) -> bool {
        match self {
            Expected::Token(_) => [ResultCode::SUCCESS, ResultCode::UNAVAILABLE].contains(&code),
            Expected::Refusal(refusal) => [*refusal, ResultCode::UNAVAILABLE].contains(&code),
            Expected::Possible => POSSIBLE.contains(&code),
        }
    }
}

/// State of the clients of a run.
#[derive(Default)]
pub(super) struct Workload {
    /// Number of attribute types that have become links.
    linked: usize,
    /// Number of times that the rules of memberships were changed.
    rules: usize,
    /// Name of the last dynamic entry.
    dynamic: String,
}

impl Workload {
    /// Returns the next changes of a client. The client sends all of them together to the node that has `directory`.
    pub(super) fn next(
        &mut self,
        rng: &mut fastrand::Rng,
        token: &str,
        now_micros: u64,
        directory: &Arc<Directory>,
    ) -> Vec<ChangeRequest> {
        let seconds = now_micros / 1_000_000;
        let request = match rng.u32(..33) {
            0 | 1 => {
                let messages = BOTH.map(|end| add_value(&format!("{token}{end}")));
                ChangeRequest::transaction(Kind::Both, messages, Expected::Token(token.to_owned()))
            }
            2 | 3 => {
                let messages = [add_value(&format!("{token}{REFUSED}")), delete("ou=nowhere,dc=example")];
                let expected = Expected::Refusal(ResultCode::NO_SUCH_OBJECT);
                ChangeRequest::transaction(Kind::RefusedTransaction, messages, expected)
            }
            4 => too_large(token),
            5..8 => {
                let request = ChangeRequest::of(Kind::Person, add_person(token));
                ChangeRequest { expected: Expected::Token(token.to_owned()), ..request }
            }
            8 | 9 => {
                ChangeRequest::transaction(Kind::Ends, end_memberships(rng, seconds), Expected::Possible)
            }
            10 => {
                self.dynamic = format!("cn={token},{MEETINGS}");
                let class = ("objectClass", &["device", "dynamicObject"][..]);
                ChangeRequest::of(Kind::Dynamic, add(&self.dynamic, &[class]))
            }
            11 => {
                let value = RefreshRequest { entry: &self.dynamic, ttl_seconds: 8 }.encode();
                ChangeRequest::of(Kind::Refresh, extended(oids::REFRESH, Some(&value)))
            }
            12 => ChangeRequest::of(Kind::Delete, delete(&device(rng.usize(..DEVICES)))),
            13 => ChangeRequest::of(Kind::Add, add_device(rng.usize(..DEVICES))),
            14 | 15 => return deleted_entry(rng, directory).into_iter().map(undelete).collect(),
            16..19 => ChangeRequest::of(Kind::Modify, modify_device(rng, token)),
            19 => ChangeRequest::of(Kind::Rename, rename(rng)),
            20 => return self.make_links(rng, token),
            21 => ChangeRequest::of(Kind::Rules, self.change_rules()),
            22..25 => ChangeRequest::of(Kind::Unique, add_unique_value(rng, seconds)),
            _ => ChangeRequest {
                expected: Expected::Token(token.to_owned()),
                ..ChangeRequest::of(Kind::Value, add_value(token))
            },
        };
        vec![request]
    }

    /// Adds `X-LINK` to the next attribute type, and changes entries that have plain values of that type at the same
    /// time. A change of such an entry first converts the entry.
    fn make_links(&mut self, rng: &mut fastrand::Rng, token: &str) -> Vec<ChangeRequest> {
        let boss = self.linked % BOSSES;
        self.linked += 1;
        let change = modify(
            "cn=subschema",
            &[
                (ChangeOperation::Delete, "attributeTypes", &[&boss_definition(boss, "")]),
                (ChangeOperation::Add, "attributeTypes", &[&boss_definition(boss, "X-LINK 'TRUE'")]),
            ],
        );
        let mut requests = vec![ChangeRequest::of(Kind::Links, change)];
        requests.extend((0..4).map(|_| ChangeRequest::of(Kind::Modify, modify_device(rng, token))));
        requests.push(ChangeRequest::of(Kind::Rename, rename(rng)));
        requests
    }

    /// Returns the message that changes the rules of memberships, so that existing entries join another group.
    fn change_rules(&mut self) -> Vec<u8> {
        self.rules += 1;
        let rules = rules(self.rules);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        modify("cn=config", &[(ChangeOperation::Replace, "pandoAutoMember", &rules)])
    }
}

/// Returns the rules of memberships after they were changed `changes` times.
fn rules(changes: usize) -> Vec<String> {
    let mut rules = vec![
        "staff: into 'cn=staff,dc=example' matching '(title=boss)'".to_owned(),
        "all: into 'cn=all,dc=example' also modified matching '(cn=*)'".to_owned(),
    ];
    if changes > 0 {
        let filter = if changes.is_multiple_of(2) { "(objectClass=device)" } else { "(title=boss)" };
        rules.push(format!("more {changes}: into 'cn=more,dc=example' matching '{filter}'"));
    }
    rules
}

/// Returns the settings of the directory of a run.
pub(super) fn settings() -> DirectorySettings {
    let mut settings =
        DirectorySettings { suffixes: vec![SUFFIX.to_owned()], ..DirectorySettings::default() };
    let kinds = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
    settings.indexes.insert("entryExpireTimestamp".to_owned(), kinds);
    settings.indexes.insert("serialNumber".to_owned(), IndexKinds::EQUALITY);
    let bosses = (0..BOSSES).map(|boss| format!("attributetype {}\n", boss_definition(boss, "")));
    let names: Vec<String> = (0..BOSSES).map(|boss| format!("boss{boss}")).collect();
    let class =
        format!("objectclass ( 1.3.6.1.4.1.32473.2 NAME 'led' AUXILIARY MAY ( {} ) )\n", names.join(" $ "));
    settings.schema.insert("own".to_owned(), bosses.chain([class]).collect());
    let general = &mut settings.general;
    general.auto_members = rules(0);
    general.unique = vec!["serials: serialNumber".to_owned()];
    general.next_numbers = vec!["users: uidNumber from 1000 to 9999".to_owned()];
    general.dynamic_subtrees = vec![MEETINGS.to_owned()];
    general.dynamic_ttl_max_seconds = 8;
    general.keep_deleted_seconds = 10;
    settings
}

fn boss_definition(boss: usize, extension: &str) -> String {
    format!(
        "( 1.3.6.1.4.1.32473.1.{boss} NAME 'boss{boss}' EQUALITY distinguishedNameMatch SYNTAX \
         1.3.6.1.4.1.1466.115.121.1.12 {extension} )"
    )
}

/// Returns the messages that add the entries of a new directory.
pub(super) fn first_entries() -> Vec<Vec<u8>> {
    let mut messages = vec![
        add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]),
        add(MEETINGS, &[("objectClass", &["organizationalUnit"])]),
    ];
    let groups = ["staff", "all", "more"].map(|name| format!("cn={name},{SUFFIX}"));
    let group = ("objectClass", &["groupOfNames"][..]);
    messages.extend(groups.into_iter().chain((0..GUESTS).map(guests)).map(|dn| {
        let member = ("member", &[SUFFIX][..]);
        add(&dn, &[group, member])
    }));
    messages.extend((0..DEVICES).map(add_device));
    messages
}

/// Returns the message that adds a value.
fn add_value(value: &str) -> Vec<u8> {
    modify(SUFFIX, &[(ChangeOperation::Add, "description", &[value])])
}

/// Returns a transaction of more records than any log of a run allows.
pub(super) fn too_large(token: &str) -> ChangeRequest {
    let messages = (0..TOO_MANY).map(|number| add_value(&format!("{token}{REFUSED}-{number}")));
    ChangeRequest::transaction(Kind::TooLarge, messages, Expected::Refusal(ResultCode::ADMIN_LIMIT_EXCEEDED))
}

/// Returns the message that adds an entry that joins groups by rules and receives a number.
fn add_person(token: &str) -> Vec<u8> {
    let attributes: [(&str, &[&str]); 9] = [
        ("objectClass", &["inetOrgPerson", "posixAccount"]),
        ("sn", &["x"]),
        ("uid", &[token]),
        ("title", &["boss"]),
        ("description", &[token]),
        ("homeDirectory", &["/"]),
        ("gidNumber", &["1"]),
        ("uidNumber", &["{next}"]),
        ("cn", &[token]),
    ];
    add(&format!("cn={token},{SUFFIX}"), &attributes)
}

fn guests(number: usize) -> String {
    format!("cn=guests whose memberships end at the same time {number},{SUFFIX}")
}

/// Returns the messages that make an entry a member of all groups of guests. The memberships that are added in the same
/// interval of [`ENDS_SECONDS`] end at the same time.
fn end_memberships(rng: &mut fastrand::Rng, seconds: u64) -> Vec<Vec<u8>> {
    let end = (seconds / ENDS_SECONDS + 1) * ENDS_SECONDS;
    let attribute = format!("member;x-until-{}", generalized_time(end));
    let member = device(rng.usize(..DEVICES));
    let message = |number: usize| modify(&guests(number), &[(ChangeOperation::Add, &attribute, &[&member])]);
    (0..GUESTS).map(message).collect()
}

fn device(number: usize) -> String {
    format!("cn=device-{number},{SUFFIX}")
}

fn add_device(number: usize) -> Vec<u8> {
    let others = [device((number + 1) % DEVICES), device(DEVICES)];
    let others = others.each_ref().map(String::as_str);
    let names: Vec<String> = (0..BOSSES).map(|boss| format!("boss{boss}")).collect();
    let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &["device", "led"])];
    attributes.extend(names.iter().map(|name| (name.as_str(), &others[..])));
    add(&device(number), &attributes)
}

/// Returns the message that gives an entry a value of up to 1,500 octets, and plain values or links in other
/// attributes.
fn modify_device(rng: &mut fastrand::Rng, token: &str) -> Vec<u8> {
    let text = format!("{token}: {}", "x".repeat(rng.usize(..1_500)));
    let (boss, other) = (format!("boss{}", rng.usize(..BOSSES)), device(rng.usize(..=DEVICES)));
    let changes: [(_, &str, &[&str]); 2] =
        [(ChangeOperation::Replace, "description", &[&text]), (ChangeOperation::Replace, &boss, &[&other])];
    modify(&device(rng.usize(..DEVICES)), &changes)
}

/// Returns the message that gives an entry a unique value. At any moment, all clients use the same value.
fn add_unique_value(rng: &mut fastrand::Rng, seconds: u64) -> Vec<u8> {
    let value = (seconds / UNIQUE_SECONDS % DEVICES as u64).to_string();
    modify(&device(rng.usize(..DEVICES)), &[(ChangeOperation::Replace, "serialNumber", &[&value])])
}

fn rename(rng: &mut fastrand::Rng) -> Vec<u8> {
    let (entry, new_rdn) = (device(rng.usize(..DEVICES)), format!("cn=device-{}", rng.usize(..DEVICES)));
    message(Request::ModifyDn(ModifyDnRequest {
        entry: &entry,
        new_rdn: &new_rdn,
        delete_old_rdn: true,
        new_superior: None,
    }))
}

/// Returns the entryUUID of a deleted entry, if the directory has deleted entries.
fn deleted_entry(rng: &mut fastrand::Rng, directory: &Arc<Directory>) -> Option<[u8; 16]> {
    let snapshot = directory.snapshot().unwrap();
    let list = deleted::list(snapshot.state(), &DeletedRequest { from: &[], name: None }).unwrap();
    rng.choice(list.entries).map(|entry| entry.uuid)
}

fn undelete(uuid: [u8; 16]) -> ChangeRequest {
    let value = UndeleteRequest { uuid, superior: None }.encode();
    ChangeRequest::of(Kind::Undelete, extended(oids::UNDELETE, Some(&value)))
}

fn delete(dn: &str) -> Vec<u8> {
    message(Request::Delete(DeleteRequest { entry: dn }))
}

fn add(dn: &str, values: &[(&str, &[&str])]) -> Vec<u8> {
    let mut attributes = AttributesBuf::new();
    values.iter().for_each(|(name, values)| attributes.push(name, *values));
    message(Request::Add(AddRequest { entry: dn, attributes: attributes.as_attributes() }))
}

fn modify(dn: &str, values: &[(ChangeOperation, &str, &[&str])]) -> Vec<u8> {
    let mut changes = ChangesBuf::new();
    values.iter().for_each(|(operation, name, values)| changes.push(*operation, name, *values));
    message(Request::Modify(ModifyRequest { object: dn, changes: changes.as_changes() }))
}

fn extended(name: &str, value: Option<&[u8]>) -> Vec<u8> {
    message(Request::Extended(ExtendedRequest { name, value }))
}

fn message(request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    ldap::Message { id: MessageId(7), request, controls: Controls::default() }.encode(&mut bytes);
    bytes
}

/// Checks that the values of a transaction are both present or both missing, and that the values of refused
/// transactions are missing.
pub(super) fn check_transactions(text: &str) -> Result<(), String> {
    let of = |end: &str| -> BTreeSet<String> {
        let ends =
            text.match_indices(end).filter_map(|(place, _)| text.get(place.checked_sub(TOKEN_LEN)?..place));
        ends.filter(|token| token.starts_with("token-")).map(str::to_owned).collect()
    };
    let [first, second] = BOTH.map(of);
    match (first.symmetric_difference(&second).next(), of(REFUSED).first()) {
        (Some(token), _) => Err(format!("one change of the transaction {token}")),
        (_, Some(token)) => Err(format!("a change of the transaction {token}, which was refused")),
        _ => Ok(()),
    }
}
