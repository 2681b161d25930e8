//! Persistent search (draft-ietf-ldapext-psearch): the client is notified of each change, and a client that applies the
//! notifications keeps a correct copy.

use std::collections::BTreeMap;

use ldap::{
    ChangeOperation, ChangeType, DecodeLimits, DerefAliases, EntryChange, FilterBuf, MessageId,
    PersistentSearch, Response, ResponseMessage, ResultCode, Scope, SearchRequest, SelectionBuf, oids,
};

use super::large::{GHOSTS, with_large_group};
use super::sync::{change, some_changes, two_units};
use super::sync_rules::{
    BY_NAME, BY_OTHERS, ChangingRequester, as_requester, change_some, random_seed, with_rules,
};
use crate::access::Requester;
use crate::read::controls::{RareControls, RequestControls};
use crate::read::page_request::PageRequest;
use crate::read::search::{Budget, Search, Step};
use crate::testing::{SUFFIX, TestDirectory};

pub(super) type Attributes = BTreeMap<String, Vec<Vec<u8>>>;

/// Test that the client applies to received entries: whether the entry still matches the filter.
pub(super) type ClientFilter = fn(&str, &Attributes) -> bool;

/// An entry that the client received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notification {
    /// The change type and the previous DN; `None` for an initial result.
    pub(super) change: Option<(ChangeType, Option<String>)>,
    dn: String,
    attributes: Attributes,
}

/// A client with a persistent search.
pub(super) struct Listener {
    base: String,
    pub(super) scope: Scope,
    filter: FilterBuf,
    attributes: SelectionBuf,
    aliases: DerefAliases,
    control: PersistentSearch,
    pub(super) search: Option<Search>,
    /// The client's copy of the results, by DN.
    copy: BTreeMap<String, Attributes>,
}

const BUDGET: Budget = Budget { entries_examined_max: 5, out_bytes_max: 2_000 };

fn controls(control: PersistentSearch) -> RequestControls {
    let seldom = RareControls { persistent: Some(control), ..RareControls::default() };
    RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() }
}

impl Listener {
    pub(super) fn new(base: &str, filter: &str, attributes: &[&str]) -> Listener {
        Listener {
            base: base.to_owned(),
            scope: Scope::WholeSubtree,
            filter: FilterBuf::parse(filter).unwrap(),
            attributes: attributes.iter().copied().collect(),
            aliases: DerefAliases::Never,
            control: PersistentSearch {
                change_types: PersistentSearch::ALL_TYPES,
                changes_only: false,
                returns_entry_changes: true,
            },
            search: None,
            copy: BTreeMap::new(),
        }
    }

    /// Returns a listener for changes only, without initial results.
    fn of_changes(filter: &str, types: &[ChangeType]) -> Listener {
        let mut listener = Listener::new(SUFFIX, filter, &["*"]);
        listener.control.changes_only = true;
        if !types.is_empty() {
            listener.control.change_types = types.iter().map(|change| change.bit()).sum();
        }
        listener
    }

    fn request(&self) -> SearchRequest<'_> {
        let (filter, attributes) = (self.filter.as_filter(), self.attributes.as_selection());
        let mut request = SearchRequest::new(&self.base, self.scope, filter, attributes);
        request.deref_aliases = self.aliases;
        request
    }

    fn start(&self, directory: &TestDirectory) -> Result<Search, ResultCode> {
        let (request, controls) = (self.request(), controls(self.control));
        let started = Search::start(
            &directory.snapshot,
            &directory.requester.context(),
            MessageId(7),
            &request,
            &controls,
        );
        started.map_err(|outcome| outcome.code)
    }

    /// Receives pending notifications, and starts the search if it is not running. Returns the result code if the
    /// search ended.
    pub(super) fn receive(
        &mut self,
        directory: &mut TestDirectory,
    ) -> (Vec<Notification>, Option<ResultCode>) {
        let mut search = match self.search.take().map_or_else(|| self.start(directory), Ok) {
            Ok(search) => search,
            Err(code) => return (Vec::new(), Some(code)),
        };
        let mut out = Vec::new();
        let step = loop {
            match search.run(&directory.snapshot, &mut out, &BUDGET) {
                Step::More => {}
                step => break step,
            }
        };
        if step == Step::Waits {
            // As long as nothing changes, nothing is sent.
            let mut silence = Vec::new();
            assert_eq!(search.run(&directory.snapshot, &mut silence, &BUDGET), Step::Waits);
            assert!(silence.is_empty());
            self.search = Some(search);
        }
        let (sent, code) = received(&out);
        assert_eq!(code.is_some(), step == Step::Done);
        (sent, code)
    }

    /// Applies notifications to the copy. If the search ended, starts it once more. Returns the notifications.
    pub(super) fn follow(&mut self, directory: &mut TestDirectory, keeps: ClientFilter) -> Vec<Notification> {
        let (sent, code) = self.receive(directory);
        let Some(code) = code else {
            sent.iter().for_each(|sent| self.apply_notification(sent, keeps));
            return sent;
        };
        assert!([ResultCode::BUSY, ResultCode::NO_SUCH_OBJECT].contains(&code), "{code:?}");
        self.copy.clear();
        let (sent, code) = self.receive(directory);
        assert!(matches!(code, None | Some(ResultCode::NO_SUCH_OBJECT)), "{code:?}");
        assert!(sent.iter().all(|sent| sent.change.is_none()));
        sent.iter().for_each(|sent| self.apply_notification(sent, keeps));
        sent
    }

    fn apply_notification(&mut self, sent: &Notification, keeps: ClientFilter) {
        let had_it = match &sent.change {
            Some((_, Some(previous))) => self.copy.remove(previous),
            _ => self.copy.remove(&sent.dn),
        };
        let change = sent.change.as_ref().map(|(change, _)| *change);
        match change {
            None | Some(ChangeType::Add) => assert_eq!(had_it, None, "{sent:?}"),
            Some(ChangeType::Delete) => {
                assert_eq!(
                    had_it.as_ref(),
                    Some(&sent.attributes),
                    "a deleted entry is sent as it was last sent: {sent:?}"
                );
                return;
            }
            Some(ChangeType::Modify | ChangeType::ModifyDn) => {}
        }
        // The client itself recognizes entries that no longer match.
        if keeps(&sent.dn, &sent.attributes) {
            let there = self.copy.insert(sent.dn.clone(), sent.attributes.clone());
            assert_eq!(there, None, "{sent:?}");
        }
    }

    /// Compares the copy with a search.
    #[track_caller]
    pub(super) fn check(&self, directory: &mut TestDirectory, story: &str) {
        let found = directory.search_request(&self.request(), &RequestControls::default());
        let mut expected: Vec<_> =
            found.entries.into_iter().map(|entry| (entry.dn, entry.attributes)).collect();
        expected.sort();
        let copied = self.copy.iter().map(|(dn, attributes)| (dn.clone(), attributes.clone()));
        let copied: Vec<_> = copied.collect();
        assert_eq!(copied, expected, "{story}");
    }
}

fn received(mut bytes: &[u8]) -> (Vec<Notification>, Option<ResultCode>) {
    let (mut sent, mut code) = (Vec::new(), None);
    while let Some(length) = ldap::frame_len(bytes).unwrap() {
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        let message = ResponseMessage::decode(message, &DecodeLimits::default()).unwrap();
        match message.response {
            Response::SearchEntry(entry) => {
                let control = message.controls.find(oids::ENTRY_CHANGE_NOTIFICATION);
                let change = control.map(|control| {
                    let change = EntryChange::decode(control.value.unwrap()).unwrap();
                    assert_eq!(change.change_number, None);
                    assert_eq!(change.previous_dn.is_some(), change.change_type == ChangeType::ModifyDn);
                    (change.change_type, change.previous_dn.map(str::to_owned))
                });
                let values = |values: ldap::Values<'_>| values.iter().map(<[u8]>::to_vec).collect();
                let attributes = entry.attributes.iter();
                let attributes = attributes.map(|a| (a.description.to_owned(), values(a.values))).collect();
                sent.push(Notification { change, dn: entry.object_name.to_owned(), attributes });
            }
            Response::SearchDone(result) => code = Some(result.code),
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes.is_empty());
    (sent, code)
}

/// Change type, DN, and previous DN.
pub(super) type Change<'t> = (ChangeType, &'t str, Option<&'t str>);

/// Returns the notifications without attributes.
pub(super) fn changes(sent: &[Notification]) -> Vec<Change<'_>> {
    let mut changes = Vec::new();
    for Notification { change, dn, .. } in sent {
        let (change, previous_dn) = change.as_ref().unwrap();
        changes.push((*change, dn.as_str(), previous_dn.as_deref()));
    }
    changes
}

fn count(counts: &mut BTreeMap<u8, usize>, sent: &[Notification]) {
    for (change, _) in sent.iter().filter_map(|sent| sent.change.as_ref()) {
        *counts.entry(change.bit()).or_default() += 1;
    }
}

#[test]
fn a_copy_built_from_notifications_equals_the_content() {
    for integrity in [false, true] {
        let mut directory = two_units(integrity);
        let mut random = fastrand::Rng::with_seed(random_seed(50, usize::from(integrity)));
        let is_below = |dn: &str, _: &Attributes| dn.ends_with("ou=a,dc=example,dc=com");
        let is_s1 = |_: &str, attributes: &Attributes| attributes.get("sn").is_some_and(|sn| sn[0] == b"s1");
        let mut listeners: Vec<(Listener, ClientFilter)> = vec![
            (Listener::new(SUFFIX, "(objectClass=*)", &["*", "createTimestamp"]), |_, _| true),
            (Listener::new(&format!("ou=a,{SUFFIX}"), "(objectClass=*)", &[]), is_below),
            (Listener::new(SUFFIX, "(sn=s1)", &["cn", "sn", "manager"]), is_s1),
        ];
        let (mut counts, mut restarts) = (BTreeMap::new(), 0);
        for round in 0..600 {
            let story = some_changes(&mut directory, &mut random, 1..4, change);
            let (listener, keeps) = random.choice(listeners.iter_mut()).unwrap();
            let sent = listener.follow(&mut directory, *keeps);
            restarts += usize::from(sent.iter().any(|sent| sent.change.is_none()));
            count(&mut counts, &sent);
            if listener.search.is_some() {
                listener.check(&mut directory, &format!("round {round}: {story:?}, {sent:?}"));
            }
        }
        assert!(counts.len() == 4 && counts.values().all(|count| *count > 20), "{counts:?}");
        assert!(restarts < 200, "the search restarted {restarts} times");
    }
}

#[test]
fn notifications_obey_access_rules() {
    let mut counts = BTreeMap::new();
    for (number, rules) in [&BY_NAME[..], &BY_OTHERS].into_iter().enumerate() {
        let mut directory = with_rules(rules);
        let mut random = fastrand::Rng::with_seed(random_seed(60, number));
        let (mut changing, mut bound) = (ChangingRequester::default(), None);
        let mut listener = Listener::new(SUFFIX, "(objectClass=*)", &["*"]);
        for round in 0..1_500 {
            let story = some_changes(&mut directory, &mut random, 1..3, change_some);
            let requester = changing.find(&directory, round);
            if changing.id != bound {
                bound = changing.id;
                listener.search = None;
                listener.copy.clear();
            }
            let Some(requester) = requester else { continue };
            as_requester(&mut directory, &requester, |directory| {
                let sent = listener.follow(directory, |_, _| true);
                count(&mut counts, &sent);
                if listener.search.is_some() {
                    listener.check(directory, &format!("round {round}: {story:?}, {sent:?}"));
                }
            });
        }
    }
    assert!(counts.len() == 4 && counts.values().all(|count| *count > 20), "{counts:?}");
}

/// The filter is compiled while the directory has no dynamic group.
#[test]
fn the_first_dynamic_group_that_describes_an_entry_is_sent() {
    let mut directory = two_units(false);
    let (one, group) = (format!("cn=one,{SUFFIX}"), format!("cn=group,{SUFFIX}"));
    directory.add(&one, &[("objectClass", &["person"]), ("sn", &["s"])]);
    let mut listener = Listener::of_changes(&format!("(member={one})"), &[]);
    assert_eq!(listener.receive(&mut directory), (vec![], None));
    let url = format!("ldap:///{SUFFIX}??sub?(sn=s)");
    directory.add(&group, &[("objectClass", &["groupOfURLs"]), ("memberURL", &[&url])]);
    let (sent, code) = listener.receive(&mut directory);
    assert_eq!((changes(&sent), code), (vec![(ChangeType::Add, &*group, None)], None));
}

#[test]
fn each_change_is_sent_with_its_change_type() {
    use ChangeType::{Add, Delete, Modify, ModifyDn};
    let mut directory = two_units(false);
    let mut all = Listener::of_changes("(objectClass=person)", &[]);
    let mut some = Listener::of_changes("(&(objectClass=person)(sn=seen))", &[]);
    let mut deletes = Listener::of_changes("(objectClass=person)", &[Delete]);
    let mut silent = Listener::of_changes("(objectClass=person)", &[Modify, ModifyDn]);
    silent.control.returns_entry_changes = false;
    for listener in [&mut all, &mut some, &mut deletes, &mut silent] {
        assert_eq!(listener.receive(&mut directory), (vec![], None));
    }
    let (one, other) = (format!("cn=one,{SUFFIX}"), format!("cn=other,ou=a,{SUFFIX}"));
    let modify = |directory: &mut TestDirectory, dn: &str, name: &str| {
        let outcome = directory.modify(dn, &[(ChangeOperation::Replace, "sn", &[name])]);
        assert_eq!(outcome.code, ResultCode::SUCCESS);
    };
    let receive = |listener: &mut Listener, directory: &mut TestDirectory| {
        let (sent, code) = listener.receive(directory);
        assert_eq!(code, None);
        sent
    };

    directory.add(&one, &[("objectClass", &["person"]), ("sn", &["seen"])]);
    for listener in [&mut all, &mut some] {
        assert_eq!(changes(&receive(listener, &mut directory)), [(Add, &*one, None)]);
    }
    // First the entry no longer matches. The client recognizes this itself. Then the entry matches again.
    for name in ["unseen", "seen"] {
        modify(&mut directory, &one, name);
        let sent = receive(&mut some, &mut directory);
        assert_eq!(changes(&sent), [(Modify, &*one, None)]);
        assert_eq!(sent[0].attributes["sn"], [name.as_bytes()]);
    }
    directory.modify_dn(&one, "cn=other", true, Some(&format!("ou=a,{SUFFIX}")));
    for listener in [&mut all, &mut some] {
        let sent = receive(listener, &mut directory);
        assert_eq!(changes(&sent).last(), Some(&(ModifyDn, &*other, Some(&*one))));
    }
    modify(&mut directory, &other, "unseen");
    assert_eq!(receive(&mut some, &mut directory).len(), 1);
    modify(&mut directory, &other, "unseen again");
    assert_eq!(receive(&mut some, &mut directory), [], "it did not match before and does not match now");
    directory.delete(&other);
    let sent = receive(&mut all, &mut directory);
    assert_eq!(changes(&sent), [(Delete, &*other, None)]);
    assert_eq!(sent[0].attributes["sn"], [b"seen"], "the values that were last sent");
    assert_eq!(receive(&mut some, &mut directory), []);
    assert_eq!(
        changes(&receive(&mut deletes, &mut directory)),
        [],
        "it was added and deleted between two reads"
    );

    directory.add(&one, &[("objectClass", &["person"]), ("sn", &["seen"])]);
    for listener in [&mut deletes, &mut silent] {
        assert_eq!(receive(listener, &mut directory), []);
    }
    modify(&mut directory, &one, "unseen");
    assert_eq!(receive(&mut deletes, &mut directory), []);
    let sent = receive(&mut silent, &mut directory);
    assert!(sent.len() == 1 && sent[0].change.is_none(), "{sent:?}");
    directory.delete(&one);
    assert_eq!(changes(&receive(&mut deletes, &mut directory)), [(Delete, &*one, None)]);
    assert_eq!(receive(&mut silent, &mut directory), []);
}

#[test]
fn a_persistent_search_ends_when_its_base_is_deleted_or_renamed() {
    use ChangeType::{Delete, ModifyDn};
    let base = format!("ou=x,{SUFFIX}");
    let listening = || {
        let mut directory = two_units(false);
        for dn in [&base, &format!("cn=p,{base}")] {
            let classes = if dn == &base { "organizationalUnit" } else { "applicationProcess" };
            directory.add(dn, &[("objectClass", &[classes])]);
        }
        let mut listener = Listener::new(&base, "(objectClass=*)", &["1.1"]);
        assert_eq!(listener.receive(&mut directory).0.len(), 2);
        (directory, listener)
    };
    let base_deleted = Some(ResultCode::NO_SUCH_OBJECT);
    let (mut directory, mut listener) = listening();
    assert_eq!(directory.delete_tree(&base).code, ResultCode::SUCCESS);
    let (sent, code) = listener.receive(&mut directory);
    let below = format!("cn=p,{base}");
    assert_eq!((changes(&sent), code), (vec![(Delete, &*base, None), (Delete, &*below, None)], base_deleted));

    let (mut directory, mut listener) = listening();
    directory.delete(&below);
    assert_eq!(listener.receive(&mut directory).1, None);
    directory.modify_dn(&base, "ou=y", true, None);
    let (sent, code) = listener.receive(&mut directory);
    let renamed = format!("ou=y,{SUFFIX}");
    assert_eq!((changes(&sent), code), (vec![(ModifyDn, &*renamed, Some(&*base))], base_deleted));

    // All entries below the renamed entry have new DNs too.
    let (mut directory, mut listener) = listening();
    directory.modify_dn(&base, "ou=y", true, None);
    let (sent, code) = listener.receive(&mut directory);
    let renamed_below = format!("cn=p,{renamed}");
    let expected = [(ModifyDn, &*renamed, Some(&*base)), (ModifyDn, &*renamed_below, Some(&*below))];
    assert_eq!((changes(&sent), code), (expected.to_vec(), base_deleted));
}

#[test]
fn large_entries_are_sent() {
    let mut directory = with_large_group();
    let mut listener = Listener::of_changes("(objectClass=groupOfNames)", &[]);
    assert_eq!(listener.receive(&mut directory), (vec![], None));
    let groups = directory.search_request(
        &Listener::new(SUFFIX, "(objectClass=groupOfNames)", &["member"]).request(),
        &RequestControls::default(),
    );
    let large = groups.entries.into_iter().max_by_key(|entry| entry.attributes["member"].len()).unwrap();
    let (dn, members) = (large.dn, large.attributes["member"].len());
    directory.modify(&dn, &[(ChangeOperation::Add, "member", &["cn=nobody"])]);
    let (sent, _) = listener.receive(&mut directory);
    assert_eq!(changes(&sent), [(ChangeType::Modify, &*dn, None)]);
    assert_eq!(sent[0].attributes["member"].len(), members + 1);
    // The former state of a deleted entry cannot be streamed, so only its DN is sent.
    directory.delete(&dn);
    let (sent, _) = listener.receive(&mut directory);
    assert_eq!(changes(&sent), [(ChangeType::Delete, &*dn, None)]);
    assert!(sent[0].attributes.is_empty());
}

/// Regression test: a large entry that no longer matched was sent with only its DN, as if it had lost all its
/// attributes.
#[test]
fn entries_that_no_longer_match_are_sent_with_all_attributes() {
    let mut directory = with_large_group();
    let dn = "cn=large,ou=groups,dc=example,dc=com";
    let mut listener = Listener::of_changes("(description=d)", &[]);
    assert_eq!(listener.receive(&mut directory), (vec![], None));
    directory.modify(dn, &[(ChangeOperation::Replace, "description", &["another"])]);
    let (sent, _) = listener.receive(&mut directory);
    assert_eq!(changes(&sent), [(ChangeType::Modify, dn, None)]);
    assert_eq!(sent[0].attributes["member"].len(), GHOSTS + 3);
    assert_eq!(sent[0].attributes["description"], [b"another"]);
}

#[test]
fn unsupported_persistent_searches_are_refused() {
    let mut directory = two_units(false);
    let code = |directory: &TestDirectory, change: &dyn Fn(&mut Listener)| {
        let mut listener = Listener::new(SUFFIX, "(objectClass=*)", &[]);
        change(&mut listener);
        listener.start(directory).err()
    };
    let unwilling = Some(ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(code(&directory, &|_| ()), None);
    assert_eq!(
        code(&directory, &|listener| listener.filter = FilterBuf::parse("(memberOf=*)").unwrap()),
        unwilling
    );
    assert_eq!(code(&directory, &|listener| listener.base = "cn=subschema".to_owned()), unwilling);
    let with = |change: &dyn Fn(&mut RareControls)| {
        let listener = Listener::new(SUFFIX, "(objectClass=*)", &[]);
        let mut controls = controls(listener.control);
        change(controls.seldom.as_mut().unwrap());
        let request = listener.request();
        let started = Search::start(
            &directory.snapshot,
            &directory.requester.context(),
            MessageId(7),
            &request,
            &controls,
        );
        started.err().map(|outcome| outcome.code)
    };
    let page = ldap::PagedResults { size: 5, cookie: b"" };
    assert_eq!(with(&|seldom| seldom.page = Some(PageRequest::of(page))), unwilling);
    assert_eq!(with(&|seldom| seldom.sort = Some(crate::read::controls::SortOptions::default())), unwilling);
    let sync = crate::read::controls::SyncOptions { persists: true, cookie: None };
    assert_eq!(with(&|seldom| seldom.sync = Some(sync.clone())), Some(ResultCode::PROTOCOL_ERROR));

    // Clients such as JNDI follow aliases by default. In a directory without aliases, this option has no effect.
    let mut following = Listener::new(SUFFIX, "(objectClass=*)", &["1.1"]);
    following.aliases = DerefAliases::Always;
    assert_eq!(following.receive(&mut directory).1, None);
    let alias = format!("cn=alias,ou=a,{SUFFIX}");
    let attributes = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[SUFFIX])];
    assert_eq!(directory.add(&alias, &attributes).code, ResultCode::SUCCESS);
    assert_eq!(following.receive(&mut directory), (vec![], Some(ResultCode::BUSY)));
    assert_eq!(following.receive(&mut directory), (vec![], unwilling));
    assert_eq!(code(&directory, &|_| ()), None, "an alias is an entry for a client that does not follow it");

    directory.requester = Requester::Anonymous;
    directory.change_settings(|settings| settings.general.anonymous_read = true);
    assert_eq!(code(&directory, &|_| ()), unwilling);
}

/// A search with changesOnly needs no index.
#[test]
fn a_search_for_changes_only_needs_no_index() {
    let mut directory = with_rules(&["all: allow read to authenticated"]);
    directory.change_settings(|settings| settings.general.unindexed_examined_max = 10);
    for number in 0..50 {
        let dn = format!("cn=p{number},ou=a,{SUFFIX}");
        directory.add(&dn, &[("objectClass", &["person"]), ("sn", &["s"]), ("description", &["d"])]);
    }
    // The administrator may run expensive searches.
    let requester = ChangingRequester::default().find(&directory, 0).unwrap();
    let mut listener = Listener::of_changes("(description=d)", &[]);
    listener.control.changes_only = false;
    as_requester(&mut directory, &requester, |directory| {
        assert_eq!(listener.start(directory).err(), Some(ResultCode::UNWILLING_TO_PERFORM));
        listener.control.changes_only = true;
        assert_eq!(listener.receive(directory), (vec![], None));
    });
    directory.delete(&format!("cn=p7,ou=a,{SUFFIX}"));
    as_requester(&mut directory, &requester, |directory| assert_eq!(listener.receive(directory).0.len(), 1));
}

/// Between two rounds, DNs pass from one entry to another. An entry that loses a DN is reported before the entry that
/// receives it.
#[test]
fn the_old_holder_of_a_dn_is_reported_before_the_new_holder() {
    type Scenario<'t> = (&'t [(&'t str, &'t str)], &'t [Change<'t>]);
    use ChangeType::{Add, Delete, Modify, ModifyDn};
    let dn = |name: &str| format!("cn={name},{SUFFIX}");
    let listening = || {
        let mut directory = TestDirectory::with_suffix_entry();
        for name in ["a", "b"] {
            directory.add(&dn(name), &[("objectClass", &["person"]), ("sn", &[name])]);
        }
        let mut listener = Listener::new(SUFFIX, "(objectClass=person)", &["sn"]);
        listener.follow(&mut directory, |_, _| true);
        (directory, listener)
    };
    let rename = |directory: &mut TestDirectory, from: &str, to: &str| {
        let outcome = directory.modify_dn(&dn(from), &format!("cn={to}"), true, None);
        assert_eq!(outcome.code, ResultCode::SUCCESS);
    };
    let (a, b, c) = (dn("a"), dn("b"), dn("c"));
    let stories: [Scenario<'_>; 4] = [
        // An entry takes the DN of another entry that the change set lists later. The other entry was deleted in the
        // first case and renamed in the second.
        (&[("b", ""), ("a", "b")], &[(Delete, &b, None), (ModifyDn, &b, Some(&a))]),
        (&[("b", "c"), ("a", "b")], &[(Delete, &b, None), (ModifyDn, &b, Some(&a)), (Add, &c, None)]),
        // A deletion and a rename in one round.
        (
            &[("b", "c"), ("a", "b"), ("c", "a")],
            &[(Delete, &b, None), (ModifyDn, &b, Some(&a)), (Add, &a, None)],
        ),
        // Two entries exchange their DNs and exchange them back.
        (&[("b", "c"), ("a", "b"), ("b", "a"), ("c", "b")], &[(Modify, &a, None), (Modify, &b, None)]),
    ];
    for (renames, expected) in stories {
        let (mut directory, mut listener) = listening();
        for (from, to) in renames {
            match *to {
                "" => assert_eq!(directory.delete(&dn(from)).code, ResultCode::SUCCESS),
                to => rename(&mut directory, from, to),
            }
        }
        let sent = listener.follow(&mut directory, |_, _| true);
        assert_eq!(changes(&sent), expected, "{renames:?}");
        listener.check(&mut directory, &format!("{renames:?}"));
    }
}

/// A persistent search with a hidden base does not reveal that the base exists.
#[test]
fn a_hidden_base_is_treated_as_missing_by_persistent_searches() {
    let mut directory = with_rules(&BY_NAME);
    let changing = "cn=p1,ou=a,dc=example,dc=com";
    directory.add(changing, &[("objectClass", &["person"]), ("sn", &["s"])]);
    for (unit, text) in [("ou=shown", "seen"), ("ou=hidden", "hidden")] {
        let classes = ("objectClass", &["organizationalUnit"][..]);
        directory.add(&format!("{unit},{SUFFIX}"), &[classes, ("description", &[text])]);
    }
    let requester = ChangingRequester::default().find(&directory, 0).unwrap();
    let mut end_at = |unit: &str, changes_only| {
        let mut listener = Listener::new(&format!("{unit},{SUFFIX}"), "(objectClass=*)", &["1.1"]);
        listener.control.changes_only = changes_only;
        as_requester(&mut directory, &requester, |directory| listener.receive(directory).1)
    };
    for changes_only in [false, true] {
        assert_eq!(end_at("ou=shown", changes_only), None);
        for unit in ["ou=hidden", "ou=none"] {
            assert_eq!(end_at(unit, changes_only), Some(ResultCode::NO_SUCH_OBJECT), "{unit}");
        }
    }
}
