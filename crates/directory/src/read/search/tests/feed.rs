//! The feed of an event loop: several listening searches, with different bases, under random changes of a tree. After
//! every step, each client's copy equals the results of its search, although most steps wake few searches.

use ldap::{ChangeOperation, ChangeType, ResultCode, Scope};

use super::persistent::{ClientFilter, Listener, changes};
use super::sync::{Consumer, change, some_changes, two_units};
use super::sync_rules::{
    BY_NAME, BY_OTHERS, ChangingRequester, as_requester, change_some, random_seed, with_rules,
};
use crate::model::limits::FOLLOWED_MOVED_MAX;
use crate::read::search::{Advance, Feed, ListenerKey, WakeReason};
use crate::testing::{SUFFIX, TestDirectory};

/// A client that keeps a copy of the results.
enum Client {
    Sync(Consumer),
    /// A persistent search, with the filter test that the client itself applies to received entries.
    Persistent(Listener, ClientFilter),
}

impl Client {
    fn search(&mut self) -> Option<&mut crate::read::search::Search> {
        match self {
            Client::Sync(consumer) => consumer.search.as_mut(),
            Client::Persistent(listener, _) => listener.search.as_mut(),
        }
    }

    /// Receives pending changes. If the search has ended, starts it again and registers it with the feed. Returns the
    /// number of times that the search ended.
    fn receive(&mut self, directory: &mut TestDirectory, feed: &Feed, key: ListenerKey) -> usize {
        let mut ended = 0;
        let was_listening = self.search().is_some();
        match self {
            Client::Sync(consumer) => {
                if !consumer.receive(directory).1 {
                    ended = usize::from(was_listening);
                    consumer.receive(directory);
                }
            }
            Client::Persistent(listener, keeps) => {
                let notified = listener.follow(directory, *keeps);
                ended +=
                    usize::from(was_listening && notified.iter().any(|notified| notified.change.is_none()));
            }
        }
        if (!was_listening || ended > 0)
            && let Some(search) = self.search()
        {
            search.sit(feed, key).unwrap();
            self.receive(directory, feed, key);
        }
        ended
    }

    #[track_caller]
    fn check(&self, directory: &mut TestDirectory, story: &str) {
        match self {
            Client::Sync(consumer) => consumer.check(directory, story),
            Client::Persistent(listener, _) => listener.check(directory, story),
        }
    }
}

/// Advances the feed to the current snapshot. Returns the searches to wake.
fn advance(feed: &mut Feed, directory: &TestDirectory) -> Vec<(ListenerKey, WakeReason)> {
    let mut woken = Vec::new();
    loop {
        // The budget of 1 makes the slices as small as possible.
        match feed.advance(&directory.snapshot, 1).unwrap() {
            Advance::More => {}
            Advance::Nothing => return woken,
            Advance::Done(more) => woken.extend(more),
        }
    }
}

/// Wakes the searches that have changes to send. Returns the numbers of searches that were woken and that ended.
fn feed_all(feed: &mut Feed, directory: &mut TestDirectory, clients: &mut [Client]) -> (usize, usize) {
    let woken = advance(feed, directory);
    let (count, mut ended) = (woken.len(), 0);
    for (key, woken) in woken {
        let client = &mut clients[key.0];
        if let (WakeReason::Changes(set), Some(search)) = (woken, client.search()) {
            search.take_changes(set);
        }
        ended += client.receive(directory, feed, key);
    }
    (count, ended)
}

fn person(directory: &mut TestDirectory, dn: &str) {
    let added = directory.add(dn, &[("objectClass", &["person"]), ("sn", &["s"])]);
    assert_eq!(added.code, ResultCode::SUCCESS, "{dn}");
}

fn unit(directory: &mut TestDirectory, dn: &str) {
    let added = directory.add(dn, &[("objectClass", &["organizationalUnit"])]);
    assert_eq!(added.code, ResultCode::SUCCESS, "{dn}");
}

#[test]
fn every_copy_equals_the_content_after_each_step() {
    for integrity in [false, true] {
        let mut directory = two_units(integrity);
        let mut random = fastrand::Rng::with_seed(random_seed(70, usize::from(integrity)));
        let (a, b) = (format!("ou=a,{SUFFIX}"), format!("ou=b,ou=a,{SUFFIX}"));
        let mut one_level = Consumer::new(SUFFIX, "(objectClass=*)", &["*"]);
        one_level.scope = Scope::SingleLevel;
        let mut below = Listener::new(&a, "(objectClass=*)", &["*"]);
        below.scope = Scope::Subordinate;
        let mut clients = vec![
            Client::Sync(Consumer::new(SUFFIX, "(objectClass=*)", &["*", "+"])),
            Client::Sync(Consumer::new(&a, "(objectClass=*)", &[])),
            Client::Sync(Consumer::new(&b, "(objectClass=*)", &["*"])),
            Client::Sync(Consumer::new(SUFFIX, "(ou:dn:=b)", &["cn"])),
            Client::Sync(Consumer::new(SUFFIX, &format!("(member=cn=p1,ou=a,{SUFFIX})"), &["member"])),
            Client::Sync(one_level),
            Client::Persistent(
                Listener::new(SUFFIX, "(objectClass=*)", &["*", "createTimestamp"]),
                |_, _| true,
            ),
            Client::Persistent(below, |dn, _| dn.ends_with(",ou=a,dc=example,dc=com")),
            Client::Persistent(Listener::new(&b, "(objectClass=*)", &["*"]), |dn, _| {
                dn.ends_with("ou=b,ou=a,dc=example,dc=com")
            }),
        ];
        let mut feed = Feed::default();
        for (slot, client) in clients.iter_mut().enumerate() {
            client.receive(&mut directory, &feed, (slot, 0));
        }
        let (mut woken, mut ended, mut steps) = (0, 0, 0);
        for round in 0..250 {
            let story = some_changes(&mut directory, &mut random, 1..4, change);
            steps += usize::from(!story.is_empty());
            // Only some clients read now; the others catch up later.
            let (count, over) = feed_all(&mut feed, &mut directory, &mut clients);
            (woken, ended) = (woken + count, ended + over);
            for (slot, client) in clients.iter_mut().enumerate() {
                if client.search().is_none() {
                    // The search ended because its base did not exist. The base may exist again.
                    client.receive(&mut directory, &feed, (slot, 0));
                }
                if client.search().is_some() {
                    client.check(&mut directory, &format!("round {round}, client {slot}: {story:?}"));
                }
            }
        }
        assert!(woken > steps && woken < steps * clients.len() * 9 / 10, "{woken} of {steps} steps");
        assert!(ended * 6 < woken, "{ended} of {woken} ended");
    }
}

/// Regression test: a rename of any entry with subordinates ended every listening search, even if its base was
/// elsewhere.
#[test]
fn a_rename_elsewhere_ends_no_listening_search() {
    let mut directory = TestDirectory::with_suffix_entry();
    let (here, there) = (format!("ou=here,{SUFFIX}"), format!("ou=there,{SUFFIX}"));
    for dn in [&here, &there, &format!("ou=deep,{here}")] {
        unit(&mut directory, dn);
    }
    person(&mut directory, &format!("cn=one,ou=deep,{here}"));
    person(&mut directory, &format!("cn=far,{there}"));
    let group = format!("cn=group,{there}");
    let member = format!("cn=one,ou=deep,{here}");
    directory.add(&group, &[("objectClass", &["groupOfNames"]), ("member", &[&member])]);
    let mut listeners = [SUFFIX, &here, &there].map(|base| Listener::new(base, "(objectClass=*)", &["*"]));
    let mut feed = Feed::default();
    for (slot, listener) in listeners.iter_mut().enumerate() {
        listener.follow(&mut directory, |_, _| true);
        listener.search.as_mut().unwrap().sit(&feed, (slot, 0)).unwrap();
        listener.follow(&mut directory, |_, _| true);
    }
    let mut woken = |directory: &TestDirectory, listeners: &mut [Listener]| {
        let mut slots = Vec::new();
        for ((slot, _), woken) in advance(&mut feed, directory) {
            slots.push(slot);
            if let (WakeReason::Changes(set), Some(listener)) = (woken, listeners.get_mut(slot)) {
                listener.search.as_mut().unwrap().take_changes(set);
            }
        }
        slots.sort_unstable();
        slots
    };
    // A rename within one content: all entries below have new DNs, and the value of the group's member changes.
    assert_eq!(
        directory.modify_dn(&format!("ou=deep,{here}"), "ou=low", true, None).code,
        ResultCode::SUCCESS
    );
    assert_eq!(woken(&directory, &mut listeners), [0, 1, 2], "the group is in ou=there");
    let (low, one) = (format!("ou=low,{here}"), format!("cn=one,ou=low,{here}"));
    let (notified, code) = listeners[0].receive(&mut directory);
    assert_eq!(code, None);
    let moved = |dn: &str| dn.replace("ou=low", "ou=deep");
    let mut expected = vec![
        (ChangeType::Modify, group.as_str(), None),
        (ChangeType::ModifyDn, low.as_str(), Some(moved(&low))),
        (ChangeType::ModifyDn, one.as_str(), Some(moved(&one))),
    ];
    let mut found: Vec<_> =
        changes(&notified).into_iter().map(|(kind, dn, old)| (kind, dn, old.map(str::to_owned))).collect();
    // A superior is reported before its subordinates.
    let place = |dn: &str| found.iter().position(|(_, other, _)| *other == dn);
    assert!(place(&low) < place(&one), "{found:?}");
    found.sort_unstable_by_key(|(_, dn, _)| *dn);
    expected.sort_unstable_by_key(|(_, dn, _)| *dn);
    assert_eq!(found, expected);
    assert_eq!(changes(&listeners[2].receive(&mut directory).0), [(ChangeType::Modify, &*group, None)]);
    assert_eq!(listeners[1].receive(&mut directory).0.len(), 2);
    // Moves a unit from the content of one search to the content of another search.
    assert_eq!(directory.modify_dn(&low, "ou=low", true, Some(&there)).code, ResultCode::SUCCESS);
    woken(&directory, &mut listeners);
    let kinds = |notified: &[super::persistent::Notification]| {
        let mut kinds: Vec<_> = changes(notified).iter().map(|(kind, ..)| kind.bit()).collect();
        kinds.sort_unstable();
        kinds
    };
    let (out, into) = (listeners[1].receive(&mut directory).0, listeners[2].receive(&mut directory).0);
    assert_eq!(kinds(&out), [ChangeType::ModifyDn.bit(); 2], "the client sees the new place");
    assert_eq!(
        kinds(&into),
        [ChangeType::Modify.bit(), ChangeType::ModifyDn.bit(), ChangeType::ModifyDn.bit()]
    );
    assert_eq!(listeners[0].receive(&mut directory).1, None);
    // A deleted tree is reported in its content, and no other search is woken.
    assert_eq!(directory.delete_tree(&format!("ou=low,{there}")).code, ResultCode::SUCCESS);
    assert_eq!(woken(&directory, &mut listeners), [0, 2]);
    assert_eq!(
        kinds(&listeners[2].receive(&mut directory).0),
        [ChangeType::Delete.bit(), ChangeType::Delete.bit(), ChangeType::Modify.bit()]
    );
}

/// A move of too many entries ends only the searches with these entries in scope.
#[test]
fn a_large_move_ends_searches_with_moved_entries_in_scope() {
    let mut directory = TestDirectory::with_suffix_entry();
    let (large, other) = (format!("ou=large,{SUFFIX}"), format!("ou=other,{SUFFIX}"));
    for dn in [&large, &other] {
        unit(&mut directory, dn);
    }
    for number in 0..=FOLLOWED_MOVED_MAX {
        person(&mut directory, &format!("cn=p{number},{large}"));
    }
    let group = format!("cn=group,{other}");
    let member = format!("cn=p7,{large}");
    directory.add(&group, &[("objectClass", &["groupOfNames"]), ("member", &[&member])]);
    let mut one_level = Listener::new(SUFFIX, "(objectClass=*)", &["1.1"]);
    one_level.scope = Scope::SingleLevel;
    let mut listeners = [
        Listener::new(SUFFIX, "(objectClass=*)", &["1.1"]),
        Listener::new(&large, "(objectClass=*)", &["1.1"]),
        Listener::new(&other, "(objectClass=*)", &["member"]),
        one_level,
    ];
    for listener in &mut listeners {
        listener.follow(&mut directory, |_, _| true);
    }
    directory.modify_dn(&large, "ou=huge", true, None);
    let renamed = directory.modify(&other, &[(ChangeOperation::Replace, "description", &["d"])]);
    assert_eq!(renamed.code, ResultCode::SUCCESS);
    let codes: Vec<_> = listeners.iter_mut().map(|listener| listener.receive(&mut directory)).collect();
    assert_eq!(codes[0].1, Some(ResultCode::BUSY));
    assert_eq!(codes[1].1, Some(ResultCode::BUSY));
    assert_eq!((codes[2].0.len(), codes[2].1), (2, None), "the group by its member's name, and the unit");
    assert_eq!(
        (codes[3].0.len(), codes[3].1),
        (2, None),
        "the moved entry, now one level below the base, and the other unit"
    );
}

/// A waiting search holds no snapshot, and settings that do not affect reading end no search.
#[test]
fn waiting_searches_share_one_snapshot() {
    let mut directory = two_units(false);
    let mut feed = Feed::default();
    let mut clients: Vec<_> = (0..300)
        .map(|number| {
            let base = if number % 2 == 0 { SUFFIX.to_owned() } else { format!("ou=b,ou=a,{SUFFIX}") };
            Client::Sync(Consumer::new(&base, "(objectClass=*)", &["*"]))
        })
        .collect();
    for (slot, client) in clients.iter_mut().enumerate() {
        person(&mut directory, &format!("cn=p{slot},{SUFFIX}"));
        client.receive(&mut directory, &feed, (slot, 0));
    }
    feed_all(&mut feed, &mut directory, &mut clients);
    assert_eq!(directory.snapshot.directory().shared_snapshots(), 1);
    for client in &mut clients {
        let bytes = client.search().unwrap().memory_bytes();
        assert!(bytes < 8_000, "{bytes}");
    }
    // Searches with another base are not woken, and the copies of all clients are right.
    person(&mut directory, &format!("cn=last,{SUFFIX}"));
    assert_eq!(feed_all(&mut feed, &mut directory, &mut clients), (150, 0));
    directory.change_settings(|settings| settings.general.size_limit = 7);
    assert_eq!(feed_all(&mut feed, &mut directory, &mut clients), (0, 0));
    person(&mut directory, &format!("cn=deep,ou=b,ou=a,{SUFFIX}"));
    assert_eq!(feed_all(&mut feed, &mut directory, &mut clients), (300, 0));
    for client in &clients {
        client.check(&mut directory, "at the end");
    }
    drop(clients);
    assert!(!feed.has_listeners());
    assert!(matches!(feed.advance(&directory.snapshot, 1), Ok(Advance::Nothing)));
    assert_eq!(directory.snapshot.directory().shared_snapshots(), 0);
}

/// Each client that does not read its changes pins a snapshot. The number of pinned snapshots is limited. Above the
/// limit, the searches of the slowest clients end.
#[test]
fn searches_of_clients_that_do_not_read_are_ended() {
    use crate::model::limits::SHARED_SNAPSHOTS_MAX;
    let mut directory = two_units(false);
    let mut feed = Feed::default();
    let mut clients: Vec<_> = (0..SHARED_SNAPSHOTS_MAX + 2)
        .map(|_| Client::Sync(Consumer::new(SUFFIX, "(objectClass=*)", &["*"])))
        .collect();
    for (slot, client) in clients.iter_mut().enumerate() {
        client.receive(&mut directory, &feed, (slot, 0));
    }
    assert!(feed.laggards(&directory.snapshot).unwrap().is_empty());
    for slot in 0..clients.len() {
        person(&mut directory, &format!("cn=p{slot},{SUFFIX}"));
        for (key, woken) in advance(&mut feed, &directory) {
            let client = &mut clients[key.0];
            if let (WakeReason::Changes(set), Some(search)) = (woken, client.search()) {
                search.take_changes(set);
            }
            // With each change one more client stops reading.
            if key.0 > slot {
                client.receive(&mut directory, &feed, key);
            }
        }
    }
    let laggards = feed.laggards(&directory.snapshot).unwrap();
    assert!(laggards.len() >= clients.len() / 2 && laggards.contains(&(0, 0)), "{laggards:?}");
    for (slot, _) in laggards {
        clients[slot] = Client::Sync(Consumer::new(SUFFIX, "(objectClass=*)", &["*"]));
    }
    assert!(feed.laggards(&directory.snapshot).unwrap().is_empty());
}

/// A search under access rules is woken if a change anywhere affects the rules that apply to it.
#[test]
fn feeds_obey_access_rules() {
    for (number, rules) in [&BY_NAME[..], &BY_OTHERS].into_iter().enumerate() {
        let mut directory = with_rules(rules);
        let mut random = fastrand::Rng::with_seed(random_seed(80, number));
        let (mut changing, mut bound, mut feed) = (ChangingRequester::default(), None, Feed::default());
        let (mut clients, mut woken, mut checked) = (Vec::new(), 0, 0);
        for round in 0..300 {
            let story = some_changes(&mut directory, &mut random, 1..3, change_some);
            let requester = changing.find(&directory, round);
            if changing.id != bound || requester.is_none() || clients.is_empty() {
                bound = changing.id;
                let a = format!("ou=a,{SUFFIX}");
                clients = vec![
                    Client::Sync(Consumer::new(SUFFIX, "(objectClass=*)", &["*"])),
                    Client::Sync(Consumer::new(&a, "(sn=s1)", &["cn", "manager"])),
                    Client::Persistent(Listener::new(SUFFIX, "(objectClass=*)", &["*"]), |_, _| true),
                ];
            }
            let Some(requester) = requester else { continue };
            as_requester(&mut directory, &requester, |directory| {
                woken += feed_all(&mut feed, directory, &mut clients).0;
                for (slot, client) in clients.iter_mut().enumerate() {
                    if client.search().is_none() {
                        client.receive(directory, &feed, (slot, 0));
                    }
                    if client.search().is_some() {
                        client.check(directory, &format!("round {round}, client {slot}: {story:?}"));
                        checked += 1;
                    }
                }
            });
        }
        assert!(checked > 300 && woken > 100, "{checked} compared, {woken} woken");
    }
}

/// A client whose content does not change receives a new cookie before its current cookie expires.
#[test]
fn an_idle_search_receives_a_new_cookie_in_time() {
    use crate::model::limits::COOKIE_RECORDS_MAX;
    let mut directory = two_units(false);
    let mut feed = Feed::default();
    let mut clients =
        vec![Client::Sync(Consumer::new(&format!("ou=b,ou=a,{SUFFIX}"), "(objectClass=*)", &["*"]))];
    clients[0].receive(&mut directory, &feed, (0, 0));
    let mut times = 0;
    for number in 0..COOKIE_RECORDS_MAX {
        let text = number.to_string();
        directory.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[text.as_str()])]);
        if number % 20 == 19 {
            times += feed_all(&mut feed, &mut directory, &mut clients).0;
        }
    }
    assert_eq!(times, 1);
    let Client::Sync(consumer) = &clients[0] else { unreachable!("it is the one above") };
    let cookie = String::from_utf8(consumer.cookie.clone().unwrap()).unwrap();
    let newest = crate::catalog::last_csn(directory.snapshot.state().read).unwrap();
    assert!(cookie.starts_with(&format!("csn={newest},")), "{cookie}");
}
