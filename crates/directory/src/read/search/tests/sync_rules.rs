//! Content synchronization under access rules: the content is what the requester may see, whatever change extends or
//! reduces it.

use ldap::{ChangeOperation, ResultCode};

use super::sync::{Consumer, change, consumers_by_entry, some_changes, two_units};
use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::rows::EntryId;
use crate::testing::{SUFFIX, TestDirectory};

/// The requester: a person who is added, deleted, moved and named by others through random changes.
const REQUESTER_DN: &str = "cn=p1,ou=a,dc=example,dc=com";

/// Rules that depend only on the requester's own name.
pub(super) const BY_NAME: [&str; 7] = [
    "seen: allow read of objectClass, cn, ou, dc to authenticated",
    "all: allow read to users in 'ou=a,dc=example,dc=com'",
    "person: allow read to user 'cn=p1,ou=a,dc=example,dc=com'",
    "place: deny browse in 'ou=b,ou=a,dc=example,dc=com' to users in 'ou=a,dc=example,dc=com'",
    "some: deny read of manager matching '(sn=s1)' to authenticated",
    "one: deny browse matching '(manager=cn=p1,dc=example,dc=com)' to authenticated",
    "hidden: deny browse matching '(description=hidden)' to authenticated",
];

/// Rules that depend on other entries that name the requester.
pub(super) const BY_OTHERS: [&str; 6] = [
    "seen: allow read of objectClass, cn, ou, dc to authenticated",
    "group: allow read of sn to group 'cn=g0,dc=example,dc=com'",
    "other: deny browse in 'ou=b,ou=a,dc=example,dc=com' to group 'cn=g1,ou=a,dc=example,dc=com'",
    "named: allow read to named by manager, self",
    "such: allow read of member to users matching '(|(sn=s2)(manager=cn=p1,dc=example,dc=com))'",
    "hidden: deny browse matching '(description=hidden)' to authenticated",
];

/// A rule that depends on virtual attributes.
const BY_COMPUTED: &str = "made: deny browse matching '(memberOf=cn=g0,dc=example,dc=com)' to authenticated";

pub(super) fn with_rules(rules: &[&str]) -> TestDirectory {
    let mut directory = two_units(false);
    directory.change_settings(|settings| {
        settings.general.access_rules = rules.iter().copied().map(str::to_owned).collect();
    });
    directory
}

/// The requester. It remains the user of its entry when the entry is renamed. If the entry is deleted, and occasionally
/// otherwise, the requester becomes the user of another entry with the DN `REQUESTER_DN`.
#[derive(Default)]
pub(super) struct ChangingRequester {
    pub(super) id: Option<EntryId>,
    /// The newest entry that had the DN `REQUESTER_DN`.
    newest: Option<EntryId>,
}

impl ChangingRequester {
    pub(super) fn find(&mut self, directory: &TestDirectory, round: u32) -> Option<Requester> {
        let state = directory.snapshot.state();
        let dn_of = |id: EntryId| state.dn(id).unwrap();
        let name = NormalName::of(&parse_dn(REQUESTER_DN).unwrap(), &state.catalog.schema);
        let named = state.entry_of(&name).unwrap();
        self.newest = self.newest.max(named);
        if round.is_multiple_of(30) || self.id.and_then(dn_of).is_none() {
            self.id = named;
        }
        let id = self.id?;
        Some(Requester::User { id, dn: dn_of(id)? })
    }
}

/// A consumer, and the requester of its last synchronization.
struct BoundConsumer {
    consumer: Consumer,
    changing: ChangingRequester,
}

impl BoundConsumer {
    /// Changes the requester of the consumer. A consumer that keeps only a CSN cannot distinguish requesters, so such a
    /// consumer normally starts again with an empty copy. The consumer continues if the new requester's entry was added
    /// later or received the DN later.
    fn set_requester(&mut self, changing: &ChangingRequester) {
        let is_known = changing.id == self.changing.id || changing.id > self.changing.newest;
        if self.consumer.keeps_csn_alone && !is_known {
            self.consumer.cookie = None;
        }
        self.changing = ChangingRequester { ..*changing };
    }
}

/// Runs a closure with this requester as the requester of the directory.
pub(super) fn as_requester<T>(
    directory: &mut TestDirectory,
    changing: &Requester,
    action: impl FnOnce(&mut TestDirectory) -> T,
) -> T {
    let own = std::mem::replace(&mut directory.requester, changing.clone());
    let result = action(directory);
    directory.requester = own;
    result
}

fn consumers() -> Vec<BoundConsumer> {
    let mut all = consumers_by_entry();
    let as_slapd = |consumer: &Consumer| {
        let mut same = consumer.empty_copy();
        same.keeps_csn_alone = true;
        same
    };
    let those: Vec<_> = all.iter().map(as_slapd).collect();
    all.extend(those);
    all.into_iter()
        .map(|consumer| BoundConsumer { consumer, changing: ChangingRequester::default() })
        .collect()
}

/// Makes a random change, often to the requester.
pub(super) fn change_some(directory: &mut TestDirectory, random: &mut fastrand::Rng) -> Option<String> {
    let name = format!("s{}", random.u8(..3));
    let group = if random.bool() { format!("cn=g0,{SUFFIX}") } else { format!("cn=g1,ou=a,{SUFFIX}") };
    let operation = *random.choice(&[ChangeOperation::Add, ChangeOperation::Delete]).unwrap();
    let (what, outcome) = match random.u8(..10) {
        0 => {
            let classes = &["inetOrgPerson"][..];
            (
                format!("add the requester, {name}"),
                directory.add(REQUESTER_DN, &[("objectClass", classes), ("sn", &[&name])]),
            )
        }
        1 => {
            let change = (ChangeOperation::Replace, "sn", &[name.as_str()][..]);
            (format!("the requester is {name}"), directory.modify(REQUESTER_DN, &[change]))
        }
        2 => {
            let change = (operation, "member", &[REQUESTER_DN][..]);
            (format!("{operation:?} the requester, member of {group}"), directory.modify(&group, &[change]))
        }
        // Replaces all members. The change does not contain the removed members.
        3 => {
            let change = (ChangeOperation::Replace, "member", &["cn=nobody"][..]);
            (format!("empty {group}"), directory.modify(&group, &[change]))
        }
        4 => {
            let person = format!("cn=p{},{SUFFIX}", random.u8(..8));
            let change = (ChangeOperation::Replace, "manager", &[REQUESTER_DN][..]);
            (format!("the requester manages {person}"), directory.modify(&person, &[change]))
        }
        5 => {
            let unit = if random.bool() { SUFFIX.to_owned() } else { format!("ou=a,{SUFFIX}") };
            let text = if random.u8(..10) == 0 { "hidden" } else { "seen" };
            let change = (ChangeOperation::Replace, "description", &[text][..]);
            (format!("{unit} is {text}"), directory.modify(&unit, &[change]))
        }
        6 => {
            // Gives a person the original DN of the requester. The unit is added again, in case it was deleted.
            let unit = format!("ou=a,{SUFFIX}");
            directory.add(&unit, &[("objectClass", &["organizationalUnit"])]);
            let from = if random.bool() { SUFFIX.to_owned() } else { format!("ou=b,{unit}") };
            let old = format!("cn=p{},{from}", random.u8(..8));
            (
                format!("{old} receives the DN of the requester"),
                directory.modify_dn(&old, "cn=p1", true, Some(&unit)),
            )
        }
        _ => return change(directory, random),
    };
    (outcome.code == ResultCode::SUCCESS).then_some(what)
}

#[test]
fn polls_follow_the_rights_of_the_requester() {
    for (number, rules) in [&BY_NAME[..], &BY_OTHERS].into_iter().enumerate() {
        let mut directory = with_rules(rules);
        let mut random = fastrand::Rng::with_seed(random_seed(10, number));
        let (mut consumers, mut changing) = (consumers(), ChangingRequester::default());
        let (mut polls, mut incremental) = (0, [0, 0]);
        for round in 0..2_000 {
            let story = some_changes(&mut directory, &mut random, 1..4, change_some);
            let Some(requester) = changing.find(&directory, round) else { continue };
            let copying = random.choice(consumers.iter_mut()).unwrap();
            copying.set_requester(&changing);
            let consumer = &mut copying.consumer;
            let had_some = consumer.cookie.is_some();
            let polled = as_requester(&mut directory, &requester, |directory| {
                let polled = consumer.poll(directory, |_| ());
                consumer.check(directory, &format!("round {round}: {story:?}, {polled:?}"));
                polled
            });
            polls += usize::from(had_some);
            incremental[usize::from(consumer.keeps_csn_alone)] +=
                usize::from(polled.present > 0 || polled.listed);
        }
        assert!(incremental[0] > 20, "{incremental:?} of {polls} polls received only changes");
        // If rules depend on groups, a cookie that does not identify the rules is not sufficient.
        assert_eq!(incremental[1] > 20, number == 0, "{incremental:?} of {polls}");
    }
}

#[test]
fn a_listening_search_follows_the_rights_of_the_requester() {
    let mut all_polls = 0;
    for (number, rules) in [&BY_NAME[..], &BY_OTHERS].into_iter().enumerate() {
        let mut directory = with_rules(rules);
        let mut random = fastrand::Rng::with_seed(random_seed(20, number));
        let (mut consumers, mut changing) = (consumers(), ChangingRequester::default());
        let (mut received, mut polls) = (0, 0);
        // The requester as of its last bind, to whom the searches belong.
        let mut bound: Option<EntryId> = None;
        for round in 0..2_000 {
            let story = some_changes(&mut directory, &mut random, 1..4, change_some);
            let requester = changing.find(&directory, round);
            if changing.id != bound {
                bound = changing.id;
                consumers.iter_mut().for_each(|copying| copying.consumer.search = None);
            }
            let Some(requester) = requester else { continue };
            let copying = random.choice(consumers.iter_mut()).unwrap();
            copying.set_requester(&changing);
            let consumer = &mut copying.consumer;
            as_requester(&mut directory, &requester, |directory| {
                let was_listening = consumer.search.is_some();
                let (mut polled, mut goes_on) = consumer.receive(directory);
                if was_listening && goes_on {
                    received += usize::from(polled.sent > 0);
                }
                if !goes_on {
                    polls += 1;
                    (polled, goes_on) = consumer.receive(directory);
                    assert!(goes_on || consumer.cookie.is_none(), "{story:?}");
                }
                consumer.check(directory, &format!("round {round}: {story:?}, {polled:?}"));
            });
        }
        assert!(received > 30, "{received} changes were received, {polls} polls were needed");
        all_polls += polls;
    }
    assert!(all_polls > 100, "{all_polls} polls were needed");
}

#[test]
fn rules_with_computed_attributes_resend_all_entries() {
    let rules: Vec<&str> = BY_NAME.into_iter().chain([BY_COMPUTED]).collect();
    let mut directory = with_rules(&rules);
    let mut random = fastrand::Rng::with_seed(random_seed(30, 0));
    let (mut consumers, mut changing) = (consumers(), ChangingRequester::default());
    let (mut whole, mut unchanged) = (0, 0);
    for round in 0..400 {
        let story = some_changes(&mut directory, &mut random, ..3, change_some);
        let Some(requester) = changing.find(&directory, round) else { continue };
        let copying = random.choice(consumers.iter_mut()).unwrap();
        copying.set_requester(&changing);
        let consumer = &mut copying.consumer;
        as_requester(&mut directory, &requester, |directory| {
            let polled = consumer.poll(directory, |_| ());
            consumer.check(directory, &format!("round {round}: {story:?}, {polled:?}"));
            assert!(polled.sent == 0 || polled.present == 0, "{polled:?}");
            whole += usize::from(polled.sent > 0);
            unchanged += usize::from(polled.present > 0 || polled.listed);
        });
    }
    assert!(whole > 10 && unchanged > 0, "{whole}, {unchanged}");
}

/// The snapshot of an event loop may be older than the snapshot that the search sends. The rules of the sent snapshot
/// apply.
#[test]
fn the_rules_of_the_sent_snapshot_apply() {
    let mut directory = with_rules(&BY_OTHERS);
    add_person(&mut directory, REQUESTER_DN, ("title", &["t"]));
    add_person(&mut directory, &format!("cn=p5,{SUFFIX}"), ("title", &["t"]));
    let group = format!("cn=g0,{SUFFIX}");
    let members = [("objectClass", &["groupOfNames"][..]), ("member", &["cn=nobody"])];
    assert_eq!(directory.add(&group, &members).code, ResultCode::SUCCESS);
    let requester = ChangingRequester::default().find(&directory, 0).unwrap();
    let before = directory.directory.snapshot().unwrap();
    directory.modify(&group, &[(ChangeOperation::Add, "member", &[REQUESTER_DN])]);
    let mut consumer = Consumer::new(SUFFIX, "(objectClass=*)", &["*"]);
    consumer.begin(&before, &requester);
    as_requester(&mut directory, &requester, |directory| {
        assert!(consumer.receive(directory).1);
        consumer.check(directory, "after the first refresh");
    });
    directory.modify(&group, &[(ChangeOperation::Delete, "member", &[REQUESTER_DN])]);
    as_requester(&mut directory, &requester, |directory| {
        assert!(!consumer.receive(directory).1, "other rules apply");
        consumer.poll(directory, |_| ());
        consumer.check(directory, "after the poll under the new rules");
    });
    // Without rules no requester is restricted.
    let before = directory.directory.snapshot().unwrap();
    directory.change_settings(|settings| settings.general.access_rules.clear());
    assert_eq!(consumer.refusal(&before, &requester), Some(ResultCode::BUSY));
}

/// Returns the seed of a test. The environment variable `PANDO_TEST_SEED` shifts the seed for manual runs.
pub(super) fn random_seed(own: u64, number: usize) -> u64 {
    let shift = std::env::var("PANDO_TEST_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    4_533 + own + number as u64 + shift.unwrap_or(0) * 1_000
}

/// Adds a person whom the requester may see by the rules of `BY_NAME`, with an additional attribute.
fn add_person(directory: &mut TestDirectory, dn: &str, more: (&str, &[&str])) {
    let classes = &["inetOrgPerson"][..];
    let outcome = directory.add(dn, &[("objectClass", classes), ("sn", &["s"]), more]);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{outcome:?}");
}

#[test]
fn consumers_follow_single_changes_of_the_requesters_rights() {
    let mut directory = with_rules(&BY_NAME);
    let mut changing = ChangingRequester::default();
    add_person(&mut directory, REQUESTER_DN, ("title", &["first"]));
    let mut polling = Consumer::new(SUFFIX, "(objectClass=*)", &["*"]);
    polling.keeps_csn_alone = true;
    let mut listening = polling.empty_copy();
    let mut poll = |directory: &mut TestDirectory, changing: &mut ChangingRequester, round| {
        let requester = changing.find(directory, round).unwrap();
        as_requester(directory, &requester, |directory| {
            let polled = polling.poll(directory, |_| ());
            polling.check(directory, "a poll");
            polled
        })
    };
    let mut receive = |directory: &mut TestDirectory, changing: &mut ChangingRequester| {
        let requester = changing.find(directory, 1).unwrap();
        as_requester(directory, &requester, |directory| {
            let (_, goes_on) = listening.receive(directory);
            if goes_on {
                listening.check(directory, "after received changes");
            }
            goes_on
        })
    };
    assert!(poll(&mut directory, &mut changing, 1).sent > 0 && receive(&mut directory, &mut changing));

    // Before this change, the attribute in the rule has no number.
    add_person(&mut directory, &format!("cn=p5,{SUFFIX}"), ("manager", &[&format!("cn=p1,{SUFFIX}")]));
    assert!(receive(&mut directory, &mut changing));
    assert_eq!(poll(&mut directory, &mut changing, 1).sent, 0, "the new entry is hidden");

    // Under its new DN the requester may see little. An entry that receives the old DN later may see more.
    directory.modify_dn(REQUESTER_DN, "cn=other", true, Some(SUFFIX));
    assert!(!receive(&mut directory, &mut changing), "the requester was renamed");
    let polled = poll(&mut directory, &mut changing, 1);
    assert!(polled.sent > 0 && polled.present == 0, "{polled:?}");
    directory.delete(&format!("cn=other,{SUFFIX}"));
    add_person(&mut directory, REQUESTER_DN, ("title", &["second"]));
    let polled = poll(&mut directory, &mut changing, 0);
    assert!(polled.sent > 2 && polled.present == 0, "{polled:?}");

    // Entries below a hidden entry cannot be searched.
    assert!(receive(&mut directory, &mut changing));
    directory.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &["hidden"])]);
    assert!(!receive(&mut directory, &mut changing), "the base may not be seen");
}
