//! Content synchronization by polls (RFC 4533): after a poll, the client's copy equals the content, whatever happened
//! since the previous poll.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, DecodeLimits, DerefAliases, FilterBuf, MessageId, Request,
    Response, ResponseMessage, ResultCode, Scope, SearchRequest, SelectionBuf, SyncDone, SyncInfo, SyncState,
    SyncStateValue, SyncUuid, oids,
};

use super::large::with_large_group;
use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::Outcome;
use crate::read::controls::{RareControls, RequestControls, SyncOptions};
use crate::read::search::{Budget, Search, Step};
use crate::snapshot::Snapshot;
use crate::testing::{SUFFIX, TestDirectory};

type Attributes = BTreeMap<String, Vec<Vec<u8>>>;

/// A client with its copy of a content.
pub(super) struct Consumer {
    base: String,
    pub(super) scope: Scope,
    filter: FilterBuf,
    attributes: SelectionBuf,
    pub(super) copy: BTreeMap<SyncUuid, (String, Attributes)>,
    pub(super) cookie: Option<Vec<u8>>,
    /// The search that sends later changes, if it is running.
    pub(super) search: Option<Search>,
    /// UUIDs of the entries that were listed or sent in this refresh.
    seen: Vec<SyncUuid>,
    /// Whether the client keeps only the CSN of a cookie, as OpenLDAP's consumers do.
    pub(super) keeps_csn_alone: bool,
}

/// Result of one poll.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PollCounts {
    pub(super) sent: usize,
    pub(super) present: usize,
    /// Whether the poll listed deleted entries (a delete phase) instead of unchanged entries.
    pub(super) listed: bool,
}

fn controls(persists: bool, cookie: Option<Vec<u8>>) -> RequestControls {
    let sync = Some(SyncOptions { persists, cookie });
    let seldom = Some(Box::new(RareControls { sync, ..RareControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

impl Consumer {
    pub(super) fn new(base: &str, filter: &str, attributes: &[&str]) -> Consumer {
        Consumer {
            base: base.to_owned(),
            scope: Scope::WholeSubtree,
            filter: FilterBuf::parse(filter).unwrap(),
            attributes: attributes.iter().copied().collect(),
            copy: BTreeMap::new(),
            cookie: None,
            search: None,
            seen: Vec::new(),
            keeps_csn_alone: false,
        }
    }

    /// Returns an empty copy of the same content.
    pub(super) fn empty_copy(&self) -> Consumer {
        Consumer {
            base: self.base.clone(),
            scope: self.scope,
            filter: self.filter.clone(),
            attributes: self.attributes.clone(),
            ..Consumer::new(SUFFIX, "(objectClass=*)", &[])
        }
    }

    /// Returns the cookie for the next request.
    fn cookie(&self) -> Option<Vec<u8>> {
        let cookie = self.cookie.clone()?;
        let csn = cookie.split(|octet| *octet == b',').next().unwrap_or_default().to_vec();
        Some(if self.keeps_csn_alone { csn } else { cookie })
    }

    fn request(&self) -> SearchRequest<'_> {
        SearchRequest::new(&self.base, self.scope, self.filter.as_filter(), self.attributes.as_selection())
    }

    /// Polls in small slices, between which `meanwhile` runs.
    pub(super) fn poll(
        &mut self,
        directory: &mut TestDirectory,
        mut meanwhile: impl FnMut(&mut TestDirectory),
    ) -> PollCounts {
        let mut out = Vec::new();
        self.seen.clear();
        let controls = controls(false, self.cookie());
        let mut search = {
            let request = self.request();
            let id = MessageId(7);
            match Search::start(&directory.snapshot, &directory.requester.context(), id, &request, &controls)
            {
                Ok(search) => search,
                // If the base does not exist, the content is empty.
                Err(Outcome { code: ResultCode::NO_SUCH_OBJECT, .. }) => {
                    (self.copy, self.cookie) = (BTreeMap::new(), None);
                    return PollCounts::default();
                }
                Err(other) => panic!("{other:?}"),
            }
        };
        let budget = Budget { entries_examined_max: 5, out_bytes_max: 2_000 };
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {
            meanwhile(directory);
        }
        self.apply_messages(&out)
    }

    /// Starts a persistent synchronization, as an event loop with this snapshot does.
    pub(super) fn begin(&mut self, snapshot: &Snapshot, requester: &Requester) {
        self.seen.clear();
        let (request, controls) = (self.request(), controls(true, self.cookie()));
        let started = Search::start(snapshot, &requester.context(), MessageId(7), &request, &controls);
        self.search = Some(started.unwrap_or_else(|outcome| panic!("{outcome:?}")));
    }

    /// Returns the code that refuses a persistent synchronization.
    pub(super) fn refusal(&self, snapshot: &Snapshot, requester: &Requester) -> Option<ResultCode> {
        let (request, controls) = (self.request(), controls(true, None));
        let started = Search::start(snapshot, &requester.context(), MessageId(7), &request, &controls);
        started.err().map(|outcome| outcome.code)
    }

    /// Receives later changes, and starts the search if it is not running. Returns true if the search continues.
    pub(super) fn receive(&mut self, directory: &mut TestDirectory) -> (PollCounts, bool) {
        let mut search = match self.search.take() {
            Some(search) => search,
            None => {
                self.seen.clear();
                let (request, id) = (self.request(), MessageId(7));
                let controls = controls(true, self.cookie());
                match Search::start(
                    &directory.snapshot,
                    &directory.requester.context(),
                    id,
                    &request,
                    &controls,
                ) {
                    Ok(search) => search,
                    Err(Outcome { code: ResultCode::NO_SUCH_OBJECT, .. }) => {
                        (self.copy, self.cookie) = (BTreeMap::new(), None);
                        return (PollCounts::default(), false);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        };
        let mut out = Vec::new();
        let budget = Budget { entries_examined_max: 5, out_bytes_max: 2_000 };
        let step = loop {
            match search.run(&directory.snapshot, &mut out, &budget) {
                Step::More => {}
                step => break step,
            }
        };
        let polled = self.apply_messages(&out);
        if step == Step::Waits {
            // As long as nothing changes, nothing is sent.
            let mut silence = Vec::new();
            assert_eq!(search.run(&directory.snapshot, &mut silence, &budget), Step::Waits);
            assert!(silence.is_empty());
            self.search = Some(search);
        }
        (polled, step == Step::Waits)
    }

    fn apply_messages(&mut self, mut bytes: &[u8]) -> PollCounts {
        let mut polled = PollCounts::default();
        while let Some(length) = ldap::frame_len(bytes).unwrap() {
            let (message, rest) = bytes.split_at(length);
            bytes = rest;
            let message = ResponseMessage::decode(message, &DecodeLimits::default()).unwrap();
            let value = |oid| message.controls.find(oid).and_then(|control| control.value);
            match message.response {
                Response::SearchEntry(entry) => {
                    let state = SyncStateValue::decode(value(oids::SYNC_STATE).unwrap()).unwrap();
                    assert_eq!(state.cookie, None);
                    polled.sent += 1;
                    if state.state == SyncState::Delete {
                        assert!(entry.attributes.iter().next().is_none());
                        self.copy.remove(&state.uuid).expect("an entry that is not in the copy is deleted");
                        continue;
                    }
                    let values = |values: ldap::Values<'_>| values.iter().map(<[u8]>::to_vec).collect();
                    let attributes = entry.attributes.iter();
                    let attributes = attributes.map(|a| (a.description.to_owned(), values(a.values)));
                    let entry = (entry.object_name.to_owned(), attributes.collect());
                    let before = self.copy.insert(state.uuid, entry);
                    match state.state {
                        SyncState::Add => {}
                        SyncState::Modify => {
                            assert!(before.is_some(), "an entry that is not in the copy is modified")
                        }
                        other => panic!("{other:?}"),
                    }
                    self.seen.push(state.uuid);
                }
                Response::Intermediate { name, value } => {
                    assert_eq!(name, Some(oids::SYNC_INFO));
                    match SyncInfo::decode(value.unwrap()).unwrap() {
                        SyncInfo::IdSet(set) => {
                            assert!(!set.uuids.is_empty());
                            if set.refresh_deletes {
                                self.copy.retain(|uuid, _| !set.uuids.contains(uuid));
                                continue;
                            }
                            polled.present += set.uuids.len();
                            self.seen.extend(set.uuids);
                        }
                        SyncInfo::NewCookie(cookie) => self.cookie = Some(cookie.to_vec()),
                        SyncInfo::Refreshed { deletes, cookie, is_done } => {
                            assert!(is_done);
                            polled.listed = deletes;
                            self.end_refresh(cookie, deletes);
                        }
                    }
                }
                Response::SearchDone(result) if result.code == ResultCode::NO_SUCH_OBJECT => {
                    // If the base is hidden, the content is empty.
                    (self.copy, self.cookie) = (BTreeMap::new(), None);
                    return polled;
                }
                Response::SearchDone(result) => {
                    let done = SyncDone::decode(value(oids::SYNC_DONE).unwrap()).unwrap();
                    polled.listed = done.refresh_deletes;
                    match result.code {
                        ResultCode::SUCCESS => self.end_refresh(done.cookie, done.refresh_deletes),
                        // The client keeps the received entries, and must poll next.
                        ResultCode::E_SYNC_REFRESH_REQUIRED => self.cookie = done.cookie.map(<[u8]>::to_vec),
                        other => panic!("{other:?}"),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(bytes.is_empty() && self.cookie.is_some());
        polled
    }

    /// Ends a refresh. In a present phase, removes from the copy the entries that were neither sent nor listed. In a
    /// delete phase (`deletes`), the listed entries have already been removed.
    fn end_refresh(&mut self, cookie: Option<&[u8]>, deletes: bool) {
        let seen = std::mem::take(&mut self.seen);
        if !deletes {
            self.copy.retain(|uuid, _| seen.contains(uuid));
        }
        self.cookie = cookie.map(<[u8]>::to_vec);
    }

    /// Compares the copy with the content.
    #[track_caller]
    pub(super) fn check(&self, directory: &mut TestDirectory, story: &str) {
        let found = directory.search_request(&self.request(), &RequestControls::default());
        let computed =
            ["entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "memberOf", "isMemberOf"];
        let mut expected: Vec<_> =
            found.entries.into_iter().map(|entry| (entry.dn, entry.attributes)).collect();
        for (_, attributes) in &mut expected {
            attributes.retain(|name, _| !computed.contains(&name.as_str()) && name != "contextCSN");
        }
        let mut copied: Vec<_> = self.copy.values().cloned().collect();
        expected.sort();
        copied.sort();
        for (copied, expected) in copied.iter().zip(&expected) {
            assert_eq!(copied, expected, "{story}");
        }
        assert_eq!(copied.len(), expected.len(), "{story}");
    }
}

/// Makes a random change. Returns its description if it succeeded.
pub(super) fn change(directory: &mut TestDirectory, random: &mut fastrand::Rng) -> Option<String> {
    let units = [SUFFIX.to_owned(), format!("ou=a,{SUFFIX}"), format!("ou=b,ou=a,{SUFFIX}")];
    let unit = random.choice(&units).unwrap().clone();
    let other = random.choice(&units).unwrap().clone();
    let number = random.u8(..8);
    let (person, rdn) = (format!("cn=p{number},{unit}"), format!("cn=p{}", random.u8(..8)));
    let group = format!("cn=g{},{unit}", random.u8(..2));
    let name = format!("s{}", random.u8(..3));
    let (what, outcome) = match random.u8(..12) {
        0..3 => {
            let classes = &["inetOrgPerson"][..];
            let attributes =
                [("objectClass", classes), ("sn", &[&name]), ("manager", &[&format!("cn=p1,{other}")])];
            (format!("add {person}"), directory.add(&person, &attributes))
        }
        3 => {
            let members = [format!("cn=p1,{other}"), person.clone(), format!("CN=P2, {other}")];
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            let attributes = [("objectClass", &["groupOfNames"][..]), ("member", &members)];
            (format!("add {group}"), directory.add(&group, &attributes))
        }
        4 => (format!("delete {person}"), directory.delete(&person)),
        5 => (format!("delete {group}"), directory.delete(&group)),
        6..8 => {
            let change = (ChangeOperation::Replace, "sn", &[name.as_str()][..]);
            (format!("modify {person}: {name}"), directory.modify(&person, &[change]))
        }
        8 => {
            let member = format!("cn=p{number},{other}");
            let operation = *random.choice(&[ChangeOperation::Add, ChangeOperation::Delete]).unwrap();
            let change = (operation, "member", &[member.as_str()][..]);
            (format!("{operation:?} {member} of {group}"), directory.modify(&group, &[change]))
        }
        9..11 => {
            let moved = directory.modify_dn(&person, &rdn, true, random.bool().then_some(&*other));
            (format!("rename {person} to {rdn} in {other}"), moved)
        }
        _ => match random.u8(..4) {
            0 => {
                let new = if random.bool() { "ou=a" } else { "ou=c" };
                let old = if random.bool() { "ou=a" } else { "ou=c" };
                let moved = directory.modify_dn(&format!("{old},{SUFFIX}"), new, true, None);
                (format!("rename {old} to {new}"), moved)
            }
            1 => {
                let places = [format!("ou=b,{SUFFIX}"), format!("ou=b,ou=a,{SUFFIX}")];
                let (from, to) = if random.bool() { (0, SUFFIX) } else { (1, &*units[1]) };
                let moved = directory.modify_dn(
                    &places[from],
                    "ou=b",
                    true,
                    Some(if from == 0 { &units[1] } else { SUFFIX }),
                );
                (format!("move ou=b, {to}"), moved)
            }
            2 => (
                format!("delete tree {unit}"),
                match unit == SUFFIX {
                    true => return None,
                    false => directory.delete_tree(&unit),
                },
            ),
            _ => {
                for unit in &units[1..] {
                    directory.add(unit, &[("objectClass", &["organizationalUnit"])]);
                }
                return Some("add units".to_owned());
            }
        },
    };
    (outcome.code == ResultCode::SUCCESS).then_some(what)
}

/// Returns a directory with one unit inside another. With `integrity`, values that name a deleted entry are removed.
pub(super) fn two_units(integrity: bool) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in ["ou=a", "ou=b,ou=a"] {
        directory.add(&format!("{unit},{SUFFIX}"), &[("objectClass", &["organizationalUnit"])]);
    }
    if integrity {
        directory.change_settings(|settings| {
            settings.general.integrity_attributes = vec!["member".to_owned(), "manager".to_owned()];
        });
    }
    directory
}

/// Makes a random number of changes. Returns descriptions of those that succeeded.
pub(super) fn some_changes(
    directory: &mut TestDirectory,
    random: &mut fastrand::Rng,
    counts: impl RangeBounds<u8>,
    change: fn(&mut TestDirectory, &mut fastrand::Rng) -> Option<String>,
) -> Vec<String> {
    (0..random.u8(counts)).filter_map(|_| change(directory, random)).collect()
}

/// Returns consumers whose filters depend only on the tested entry.
pub(super) fn consumers_by_entry() -> Vec<Consumer> {
    vec![
        Consumer::new(SUFFIX, "(objectClass=*)", &["*", "+"]),
        Consumer::new(&format!("ou=a,{SUFFIX}"), "(objectClass=*)", &[]),
        Consumer::new(SUFFIX, "(sn=s1)", &["cn", "manager"]),
        Consumer::new(SUFFIX, &format!("(member=cn=p1,ou=a,{SUFFIX})"), &["member"]),
    ]
}

fn consumers_of_all_kinds() -> Vec<Consumer> {
    let mut consumers = consumers_by_entry();
    consumers.push(Consumer::new(SUFFIX, "(ou:dn:=b)", &["cn"]));
    consumers.push(Consumer { scope: Scope::SingleLevel, ..Consumer::new(SUFFIX, "(cn=*)", &["*"]) });
    consumers
}

#[test]
fn a_copy_equals_its_content_after_random_changes() {
    for integrity in [false, true] {
        let mut directory = two_units(integrity);
        let mut random = fastrand::Rng::with_seed(4_533 + u64::from(integrity));
        let mut consumers = consumers_of_all_kinds();
        consumers.push(Consumer::new(SUFFIX, &format!("(memberOf=cn=g1,{SUFFIX})"), &["*"]));
        let (mut incremental, mut listed) = (0, 0);
        for round in 0..600 {
            // Records of earlier versions lack the traces of deletes.
            directory.omits_delete_traces = random.bool();
            let story = some_changes(&mut directory, &mut random, 1..4, change);
            let consumer = random.choice(consumers.iter_mut()).unwrap();
            let mut others = fastrand::Rng::with_seed(random.u64(..));
            // A poll may or may not include changes that happen during the poll. After another poll without changes,
            // the copy is right.
            if round % 3 == 0 {
                consumer.poll(&mut directory, |directory| drop(change(directory, &mut others)));
            }
            let polled = consumer.poll(&mut directory, |_| ());
            incremental += usize::from(polled.present > 0);
            listed += usize::from(polled.listed);
            consumer.check(&mut directory, &format!("round {round}: {story:?}, {polled:?}"));
        }
        assert!(incremental > 50 && listed > 50, "{incremental} and {listed} polls received only changes");
    }
}

#[test]
fn a_copy_receives_every_kind_of_change() {
    for integrity in [false, true] {
        let mut directory = two_units(integrity);
        let mut random = fastrand::Rng::with_seed(45_330 + u64::from(integrity));
        let mut consumers = consumers_of_all_kinds();
        let (mut received, mut polls) = (0, 0);
        for round in 0..600 {
            let story = some_changes(&mut directory, &mut random, 1..4, change);
            let consumer = random.choice(consumers.iter_mut()).unwrap();
            let was_listening = consumer.search.is_some();
            let (mut polled, mut goes_on) = consumer.receive(&mut directory);
            if was_listening && goes_on {
                received += usize::from(polled.sent > 0);
            }
            if !goes_on {
                polls += 1;
                (polled, goes_on) = consumer.receive(&mut directory);
                assert!(goes_on || consumer.cookie.is_none(), "{story:?}");
            }
            consumer.check(&mut directory, &format!("round {round}: {story:?}, {polled:?}"));
        }
        assert!(received > 100 && polls > 10, "{received} changes were received, {polls} polls were needed");
    }
}

#[test]
fn a_poll_sends_changed_entries_and_lists_deleted_ones() {
    let mut directory = TestDirectory::with_suffix_entry();
    let person = [("objectClass", &["person"][..]), ("sn", &["s"])];
    for number in 0..1_200 {
        directory.add(&format!("cn=p{number},{SUFFIX}"), &person);
    }
    let mut consumer = Consumer::new(SUFFIX, "(objectClass=person)", &["*"]);
    assert_eq!(consumer.poll(&mut directory, |_| ()), PollCounts { sent: 1_200, ..PollCounts::default() });
    assert_eq!(consumer.poll(&mut directory, |_| ()), PollCounts { listed: true, ..PollCounts::default() });
    // Only changed entries are examined. Changed entries that are no longer results are listed as deleted.
    let change = (ChangeOperation::Replace, "sn", &["first"][..]);
    directory.modify(&format!("cn=p7,{SUFFIX}"), &[change]);
    directory.add(&format!("cn=new,{SUFFIX}"), &person);
    let listed = PollCounts { sent: 2, present: 0, listed: true };
    assert_eq!(consumer.poll(&mut directory, |_| ()), listed);
    consumer.check(&mut directory, "listed changes");
    let change = (ChangeOperation::Replace, "sn", &["other"][..]);
    directory.modify(&format!("cn=p7,{SUFFIX}"), &[change]);
    directory.delete(&format!("cn=new,{SUFFIX}"));
    directory.delete(&format!("cn=p8,{SUFFIX}"));
    directory.modify_dn(&format!("cn=p9,{SUFFIX}"), "cn=q9", true, None);
    assert_eq!(consumer.poll(&mut directory, |_| ()), listed);
    consumer.check(&mut directory, "deletes");
    // A restarted server accepts the cookie. OpenLDAP's consumers build their own cookie from this cookie.
    let mut directory = directory.reopen();
    assert_eq!(consumer.poll(&mut directory, |_| ()).sent, 0);
    let cookie = String::from_utf8(consumer.cookie.clone().unwrap()).unwrap();
    let csn = cookie.split(',').next().unwrap();
    for (given, is_known) in [
        (format!("rid=001,sid=002,{csn}"), true),
        (csn.to_owned(), true),
        (format!("{csn},data=0000000000000000"), false),
        ("rid=001".to_owned(), false),
        ("csn=20200101000000.000000Z#000000#000#000000".to_owned(), false),
        ("csn=nonsense".to_owned(), false),
        (String::new(), false),
    ] {
        consumer.cookie = Some(given.clone().into_bytes());
        let polled = consumer.poll(&mut directory, |_| ());
        assert_eq!(polled.sent == 0, is_known, "{given:?}: {polled:?}");
        consumer.check(&mut directory, &given);
    }
    // A cookie for a different content is invalid.
    let mut other = Consumer::new(SUFFIX, "(sn=other)", &["*"]);
    other.cookie.clone_from(&consumer.cookie);
    assert_eq!(other.poll(&mut directory, |_| ()), PollCounts { sent: 1, ..PollCounts::default() });
    // A change of settings may change the content for any requester, so all entries are sent.
    directory.change_settings(|settings| settings.general.size_limit = 5_000);
    assert_eq!(consumer.poll(&mut directory, |_| ()).sent, 1_199);
}

#[test]
fn a_poll_lists_deleted_entries() {
    let mut directory = TestDirectory::with_suffix_entry();
    let person = [("objectClass", &["person"][..]), ("sn", &["s"])];
    let unit = [("objectClass", &["organizationalUnit"][..])];
    directory.add(&format!("ou=u,{SUFFIX}"), &unit);
    let members: Vec<String> = (0..20).map(|number| format!("cn=p{number},ou=u,{SUFFIX}")).collect();
    for dn in &members {
        directory.add(dn, &person);
    }
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    directory.add(&format!("cn=g,{SUFFIX}"), &[("objectClass", &["groupOfNames"][..]), ("member", &members)]);
    let mut consumer = Consumer::new(SUFFIX, "(objectClass=*)", &["*"]);
    consumer.poll(&mut directory, |_| ());
    // With integrity the group loses the member, otherwise the link becomes text. In both cases, the group has changed.
    for dn in [format!("cn=p1,ou=u,{SUFFIX}"), format!("cn=p2,ou=u,{SUFFIX}")] {
        directory.delete(&dn);
        let listed = PollCounts { sent: 1, present: 0, listed: true };
        assert_eq!(consumer.poll(&mut directory, |_| ()), listed);
        consumer.check(&mut directory, &dn);
        directory.change_settings(|settings| settings.general.integrity_attributes.clear());
        consumer.poll(&mut directory, |_| ());
    }
    // An entry with the same DN and entryUUID is added again.
    let uuid = directory.read(&format!("cn=p3,ou=u,{SUFFIX}")).unwrap().texts("entryUUID").remove(0);
    directory.delete(&format!("cn=p3,ou=u,{SUFFIX}"));
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["person"]);
    attributes.push("sn", ["s"]);
    attributes.push("entryUUID", [uuid]);
    let (dn, attributes) = (format!("cn=p3,ou=u,{SUFFIX}"), attributes.as_attributes());
    let again = Request::Add(AddRequest { entry: &dn, attributes });
    let stamp = directory.stamp();
    let outcome = directory.execute_with(&again, &RequestControls::of_follower(), &stamp);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{outcome:?}");
    assert_eq!(consumer.poll(&mut directory, |_| ()), PollCounts { sent: 2, present: 0, listed: true });
    consumer.check(&mut directory, "added again");
    directory.delete_tree(&format!("ou=u,{SUFFIX}"));
    assert_eq!(consumer.poll(&mut directory, |_| ()), PollCounts { sent: 1, present: 0, listed: true });
    consumer.check(&mut directory, "a tree");
    assert_eq!(consumer.copy.len(), 2);
}

/// A group too large for memory also has the Sync State control.
#[test]
fn a_large_entry_is_synchronized() {
    let mut directory = with_large_group();
    let mut consumer = Consumer::new(SUFFIX, "(objectClass=groupOfNames)", &["member", "cn"]);
    let first = consumer.poll(&mut directory, |_| ());
    assert!(first.sent > 0 && first.present == 0);
    consumer.check(&mut directory, "the first poll");
    assert_eq!(consumer.poll(&mut directory, |_| ()), PollCounts { listed: true, ..PollCounts::default() });
    // The message for a later change of the group has the control too.
    assert!(consumer.receive(&mut directory).1);
    let large =
        consumer.copy.values().max_by_key(|(_, attributes)| attributes["member"].len()).unwrap().0.clone();
    let change = (ChangeOperation::Add, "member", &["cn=nobody"][..]);
    assert_eq!(directory.modify(&large, &[change]).code, ResultCode::SUCCESS);
    assert_eq!(consumer.receive(&mut directory), (PollCounts { sent: 1, ..PollCounts::default() }, true));
    consumer.check(&mut directory, "a member more");
}

#[test]
fn unsupported_synchronizations_are_refused() {
    let directory = TestDirectory::with_suffix_entry();
    let refusal_of = |filter: &str, change: &dyn Fn(&mut SearchRequest<'_>, &mut RequestControls)| {
        let filter = FilterBuf::parse(filter).unwrap();
        let all = ldap::AttributeSelection::default();
        let mut request = SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), all);
        let mut controls = controls(false, None);
        change(&mut request, &mut controls);
        let started = Search::start(
            &directory.snapshot,
            &directory.requester.context(),
            MessageId(1),
            &request,
            &controls,
        );
        started.err().map(|outcome| outcome.code)
    };
    let refusal =
        |change: &dyn Fn(&mut SearchRequest<'_>, &mut RequestControls)| refusal_of("(objectClass=*)", change);
    assert_eq!(refusal(&|_, _| ()), None);
    assert_eq!(refusal(&|request, _| request.deref_aliases = DerefAliases::FindingBase), None);
    for aliases in [DerefAliases::InSearching, DerefAliases::Always] {
        let code = refusal(&|request, _| request.deref_aliases = aliases);
        assert_eq!(code, Some(ResultCode::PROTOCOL_ERROR), "{aliases:?}");
    }
    let unwilling = Some(ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(refusal(&|request, _| request.types_only = true), unwilling);
    assert_eq!(refusal(&|request, _| request.base_object = ""), None, "all suffixes");
    assert_eq!(
        refusal(&|request, _| (request.base_object, request.scope) = ("", Scope::BaseObject)),
        unwilling,
        "the root DSE"
    );
    assert_eq!(refusal(&|request, _| request.base_object = "cn=subschema"), unwilling);
    // A search that sends changes as they occur is accepted, except for anonymous clients.
    let persists = |_: &mut SearchRequest<'_>, controls: &mut RequestControls| {
        controls.seldom.as_mut().unwrap().sync = Some(SyncOptions { persists: true, cookie: None });
    };
    assert_eq!(refusal(&persists), None);
    let anonymous = {
        let filter = FilterBuf::parse("(objectClass=*)").unwrap();
        let all = ldap::AttributeSelection::default();
        let request = SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), all);
        let mut readable = TestDirectory::with_suffix_entry();
        readable.change_settings(|settings| settings.general.anonymous_read = true);
        let start = |persists| {
            let controls = controls(persists, None);
            Search::start(
                &readable.snapshot,
                &Requester::Anonymous.context(),
                MessageId(1),
                &request,
                &controls,
            )
            .err()
            .map(|outcome| outcome.code)
        };
        [start(false), start(true)]
    };
    assert_eq!(anonymous, [None, unwilling]);
    // The effect of a rule with times can change without a record in the log.
    let under = |rule: &str| {
        let mut directory = TestDirectory::with_suffix_entry();
        let rules = vec![rule.to_owned(), "base: allow browse to authenticated".to_owned()];
        directory.change_settings(|settings| settings.general.access_rules = rules);
        let dn = format!("cn=requester,{SUFFIX}");
        directory.add(&dn, &[("objectClass", &["person"]), ("sn", &["s"])]);
        let state = directory.snapshot.state();
        let name = NormalName::of(&parse_dn(&dn).unwrap(), &state.catalog.schema);
        let requester = Requester::User { id: state.entry_of(&name).unwrap().unwrap(), dn };
        Consumer::new(SUFFIX, "(objectClass=*)", &["*"]).refusal(&directory.snapshot, &requester)
    };
    assert_eq!(under("all: allow read to authenticated"), None);
    assert_eq!(under("all: allow read to authenticated between 00:00 and 12:00"), unwilling);
    for computed in
        ["(|(cn=a)(!(memberOf=*)))", "(entryDN:distinguishedNameMatch:=dc=com)", "(:2.5.13.1:=dc=com)"]
    {
        assert_eq!(refusal_of(computed, &persists), unwilling, "{computed}");
        assert_eq!(refusal_of(computed, &|_, _| ()), None, "{computed}");
    }
}
