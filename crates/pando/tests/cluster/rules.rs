//! Rules about data in a cluster of three nodes, whose clients use all nodes at the same time. The writer applies each
//! rule, and every node gives the same answers. The simulation of `crates/cluster` makes such changes in many more
//! orders; this test makes them on a real log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

use client::Connection;
use directory::csn::generalized_time;
use ldap::{
    ChangeOperation, Control, ControlsBuf, EndTransactionResult, RefreshRequest, ResultCode, Scope,
    SelectionBuf, UndeleteRequest, oids,
};
use replication::limits::LEVEL_MAX;
use test_support::cluster::{Cluster, figure, figure_of, position, unit, until};
use test_support::transactions::{change, end, failure, send, start, with_add, with_replace};
use test_support::tree::{add, person_dn, replace};
use test_support::{Pando, SUFFIX};

/// Number of clients of each node.
const CLIENTS: usize = 3;

/// Number of values for which all clients compete.
const VALUES: usize = 8;

/// Size of a range of numbers. Clients request more numbers than the range contains.
const NUMBERS: usize = 20;

/// OID of the matching rule that follows chains of links.
const CHAIN: &str = "1.2.840.113556.1.4.1941";

const CLASS: &str = "( 1.3.6.1.4.1.32473.2.90 NAME 'led' SUP top AUXILIARY MAY ( boss $ deputy ) )";

#[test]
fn rules_about_data_have_one_effect_on_all_nodes() {
    let mut nodes = Nodes::start();
    add(&mut nodes.forwarder(), &unit("people"), &[("objectClass", "organizationalUnit")]);
    one_of_simultaneous_adds_of_a_value_succeeds(&nodes);
    simultaneous_clients_get_all_numbers_of_a_range(&nodes);
    a_forwarded_transaction_makes_all_changes_or_none(&nodes);
    one_of_simultaneous_transactions_with_a_value_commits(&nodes);
    entries_and_memberships_end_on_all_nodes(&nodes);
    an_undeleted_entry_is_a_member_again_on_all_nodes(&nodes);
    definitions_and_links_reach_all_nodes(&nodes);
    entries_join_groups_by_rules_on_all_nodes(&nodes);
    all_nodes_answer_alike_and_have_equal_digests(&mut nodes);
    a_new_writer_keeps_the_rules_and_finishes_what_was_begun(&mut nodes);
}

/// The running nodes with their numbers, and the cluster of the test.
struct Nodes {
    running: Vec<(u32, Pando)>,
    cluster: Cluster,
}

impl Nodes {
    fn start() -> Nodes {
        let (cluster, first) = Cluster::new("cluster-rules");
        let mut running = vec![(1, first)];
        for node in [2, 3] {
            cluster.join(node);
            running.push((node, cluster.start(node)));
        }
        let nodes = Nodes { running, cluster };
        let level = LEVEL_MAX.to_string();
        until("all nodes know every record", || (figure(nodes.any(), "Level") == level).then_some(()));
        nodes
    }

    fn any(&self) -> &Pando {
        &self.running[0].1
    }

    /// Returns the index of the writer, or of a node that forwards changes.
    fn index(&self, is_writer: bool) -> usize {
        let writer = figure(self.any(), "Writer");
        let is_wanted = |(node, _): &(u32, Pando)| (node.to_string() == writer) == is_writer;
        self.running.iter().position(is_wanted).unwrap()
    }

    /// Returns the administrator's connection to a node that forwards changes.
    fn forwarder(&self) -> Connection {
        self.running[self.index(false)].1.administrator()
    }

    /// Runs clients of all nodes at the same time, each with its number. Returns their results.
    fn at_once<T: Send>(&self, run: impl Fn(usize, &mut Connection) -> T + Sync) -> Vec<T> {
        self.at_once_while(run, || ())
    }

    /// Does the same as [`at_once`](Nodes::at_once), and calls `meanwhile` while the clients run.
    fn at_once_while<T: Send>(
        &self,
        run: impl Fn(usize, &mut Connection) -> T + Sync,
        meanwhile: impl FnOnce(),
    ) -> Vec<T> {
        let connections = (0..CLIENTS).flat_map(|_| &self.running).map(|(_, server)| server.administrator());
        let connections: Vec<Connection> = connections.collect();
        let run = &run;
        std::thread::scope(|scope| {
            let clients = connections.into_iter().enumerate();
            let clients = clients.map(|(client, mut own)| scope.spawn(move || run(client, &mut own)));
            let clients: Vec<_> = clients.collect();
            meanwhile();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        })
    }

    /// Waits until every node has the changes that any node has. Then expects the same answer from each node, and
    /// returns it.
    #[track_caller]
    fn same_answer<T: PartialEq + Debug>(&self, ask: impl Fn(&mut Connection) -> T) -> T {
        let last = self.running.iter().map(|(_, server)| position(server)).max().unwrap();
        let mut answers = self.running.iter().map(|(_, server)| {
            until("the node has all changes", || (position(server) >= last).then_some(()));
            ask(&mut server.administrator())
        });
        let first = answers.next().unwrap();
        answers.for_each(|answer| assert_eq!(answer, first));
        first
    }

    /// Waits until every node gives the expected answer.
    #[track_caller]
    fn until_all_answer<T: PartialEq>(&self, what: &str, expected: &T, ask: impl Fn(&mut Connection) -> T) {
        for (_, server) in &self.running {
            let mut connection = server.administrator();
            until(what, || (ask(&mut connection) == *expected).then_some(()));
        }
    }

    /// Starts a node. All nodes then compare their data, and must have equal digests.
    fn start_and_compare(&mut self, node: u32) {
        let digests = |nodes: &Nodes| -> BTreeSet<Option<String>> {
            nodes.running.iter().map(|(_, server)| figure_of(server, "Digest")).collect()
        };
        let before = digests(self);
        self.running.push((node, self.cluster.start(node)));
        until("nodes have compared equal digests", || {
            let now = digests(self);
            (now.len() == 1 && !now.contains(&None) && now.is_disjoint(&before)).then_some(())
        });
    }

    /// Expects that all nodes have the same answers, exports and logs, and no alarms.
    fn expect_equal(&self) {
        self.same_answer(answers);
        let nodes: Vec<_> = self.running.iter().map(|(node, server)| (*node, server)).collect();
        self.cluster.expect_equal(&nodes);
        nodes.iter().for_each(|(node, server)| assert_eq!(figure(server, "Alarms"), "0", "node {node}"));
    }
}

fn group(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

/// Adds a group with the suffix entry as its first member.
fn add_group(connection: &mut Connection, name: &str) {
    add(connection, &group(name), &[("objectClass", "groupOfNames"), ("member", SUFFIX)]);
}

/// Returns the attributes of a person, followed by `others`.
fn person_with<'a>(name: &'a str, others: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let attributes = [("objectClass", "inetOrgPerson"), ("cn", name), ("sn", "x")];
    [&attributes[..], others].concat()
}

/// Returns the attributes of a person whose uidNumber is the next free number.
fn person_with_number(name: &str) -> Vec<(&str, &str)> {
    let others = [
        ("objectClass", "posixAccount"),
        ("homeDirectory", "/"),
        ("gidNumber", "1"),
        ("uidNumber", "{next}"),
    ];
    person_with(name, &others)
}

#[track_caller]
fn modify(connection: &mut Connection, dn: &str, changes: &[(ChangeOperation, &str, &[&str])]) {
    let outcome = connection.modify(dn, changes).unwrap();
    assert!(outcome.is_success(), "{dn}: {outcome:?}");
}

/// Returns the values of an attribute of all entries that match a filter, by DN.
fn values(connection: &mut Connection, filter: &str, name: &str) -> BTreeMap<String, Vec<String>> {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, filter, &[name]).unwrap();
    assert!(found.outcome.is_success(), "{filter}: {:?}", found.outcome);
    found.entries.into_iter().map(|entry| (entry.dn.clone(), entry.texts(name))).collect()
}

/// Returns the names of the entries that match a filter.
fn found(connection: &mut Connection, filter: &str) -> BTreeSet<String> {
    values(connection, filter, "1.1").into_keys().collect()
}

fn names(uids: &[&str]) -> BTreeSet<String> {
    uids.iter().map(|uid| person_dn(uid)).collect()
}

/// Returns all entries, including deleted ones, with computed values, and the definitions. Leaves out the remaining
/// time of dynamic entries.
fn answers(connection: &mut Connection) -> Vec<client::Entry> {
    let control = Control { oid: oids::SHOW_DELETED, critical: true, value: None };
    let controls: ControlsBuf = [control].into_iter().collect();
    let all = ["*", "+", "memberOf", "valueEnd", "membershipEnd"];
    let (scope, filter) = (Scope::WholeSubtree, "(objectClass=*)");
    let reply = connection.search_with(SUFFIX, scope, filter, &all, controls.as_controls()).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    let mut entries = reply.entries;
    entries.extend(connection.entry("cn=subschema", &["*", "+"]).unwrap());
    for entry in &mut entries {
        entry.attributes.retain(|attribute| attribute.description != "entryTtl");
    }
    entries
}

/// Adds a person, and repeats that until a node decides. Returns false if a rule refuses the person. If an add was made
/// but answered with `unavailable`, the repeated add finds its entry.
#[track_caller]
fn add_if_allowed(connection: &mut Connection, uid: &str, attributes: &[(&str, &str)]) -> bool {
    let code = until("a node decides", || {
        let code = connection.add(&person_dn(uid), attributes).unwrap().code;
        (code != ResultCode::UNAVAILABLE).then_some(code)
    });
    match code {
        ResultCode::SUCCESS | ResultCode::ENTRY_ALREADY_EXISTS => true,
        ResultCode::CONSTRAINT_VIOLATION => false,
        other => panic!("{uid}: {other:?}"),
    }
}

/// Adds people who have a number, and values for which all clients compete. Returns the people that were added, with
/// their values. Reports each answer on `answered`.
fn compete(
    connection: &mut Connection,
    client: usize,
    mails: &str,
    answered: &mpsc::Sender<()>,
) -> Vec<(String, Vec<String>)> {
    let tried = (0..VALUES).map(|value| (format!("{mails}-{client}-{value}"), format!("{value}@{mails}")));
    let won = tried.filter(|(uid, mail)| {
        let attributes = [&person_with_number(uid)[..], &[("mail", mail)]].concat();
        let is_added = add_if_allowed(connection, uid, &attributes);
        answered.send(()).unwrap();
        is_added
    });
    won.map(|(uid, mail)| (person_dn(&uid), vec![mail])).collect()
}

/// Expects that each value belongs to one entry, which the winning client added, and that all numbers differ. Returns
/// the numbers.
#[track_caller]
fn expect_one_of_each(nodes: &Nodes, mails: &str, won: Vec<(String, Vec<String>)>) -> BTreeSet<usize> {
    let different: BTreeSet<_> = won.iter().flat_map(|(_, mail)| mail).collect();
    assert_eq!((won.len(), different.len()), (VALUES, VALUES), "{won:?}");
    let filter = format!("(mail=*@{mails})");
    assert_eq!(
        nodes.same_answer(|connection| values(connection, &filter, "mail")),
        won.into_iter().collect()
    );
    let numbers = nodes.same_answer(|connection| values(connection, "(uidNumber=*)", "uidNumber"));
    let different: BTreeSet<_> = numbers.values().flatten().map(|number| number.parse().unwrap()).collect();
    assert_eq!(different.len(), numbers.len(), "{numbers:?}");
    different
}

fn one_of_simultaneous_adds_of_a_value_succeeds(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    replace(&mut client, "cn=config", "pandoUnique", &["mails: mail"]);
    replace(&mut client, "cn=config", "pandoNextNumber", &["many: uidNumber from 2000 to 2999"]);
    let (answered, _answers) = mpsc::channel();
    let won = nodes.at_once(|client, connection| compete(connection, client, "early", &answered));
    let numbers = expect_one_of_each(nodes, "early", won.concat());
    assert_eq!(numbers, (2_000..2_000 + VALUES).collect(), "an add that is refused takes no number");
}

/// The range has fewer numbers than clients ask for.
fn simultaneous_clients_get_all_numbers_of_a_range(nodes: &Nodes) {
    let range = 1_000..1_000 + NUMBERS;
    let rule = format!("few: uidNumber from {} to {}", range.start, range.end - 1);
    replace(&mut nodes.forwarder(), "cn=config", "pandoNextNumber", &[&rule]);
    let added = nodes.at_once(|client, connection| {
        [0, 1, 2].map(|number| {
            let uid = format!("number-{client}-{number}");
            add_if_allowed(connection, &uid, &person_with_number(&uid))
        })
    });
    assert_eq!(added.concat().iter().filter(|is_added| **is_added).count(), NUMBERS);
    let numbers = nodes.same_answer(|connection| values(connection, "(uid=number-*)", "uidNumber"));
    let numbers: BTreeSet<usize> = numbers.values().flatten().map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers, range.collect());
}

/// The client receives the numbers of the entries that its transaction adds. If one change breaks a rule, no change is
/// made, and the answer names the change.
fn a_forwarded_transaction_makes_all_changes_or_none(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    replace(&mut client, "cn=config", "pandoNextNumber", &["some: uidNumber from 3000 to 3999"]);
    let mut selection = Vec::new();
    let wanted = SelectionBuf::from_iter(["uidNumber"]);
    ber::put_element(&mut selection, ber::Tag::SEQUENCE, wanted.as_selection().as_bytes());
    let post_read = Control { oid: oids::POST_READ, critical: true, value: Some(&selection) };
    let identifier = start(&mut client);
    let ids = ["anna", "bert"].map(|uid| {
        let (dn, attributes) = (person_dn(uid), person_with_number(uid));
        with_add(&dn, &attributes, |add| send(&mut client, &identifier, add, &[post_read]))
    });
    ids.iter().for_each(|id| assert!(client.reply(*id).unwrap().outcome.is_success()));
    assert!(found(&mut client, "(cn=anna)").is_empty(), "before the commit");
    let reply = end(&mut client, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::SUCCESS, None), "{reply:?}");
    let result = EndTransactionResult::decode(reply.extended.value.as_deref().unwrap()).unwrap();
    assert_eq!(result.controls.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    for ((_, controls), number) in result.controls.iter().zip(["3000", "3001"]) {
        let copy = controls.find(oids::POST_READ).and_then(|control| control.value).unwrap();
        assert!(String::from_utf8_lossy(copy).contains(number), "{number}: {copy:02x?}");
    }
    let numbers = nodes.same_answer(|connection| values(connection, "(uidNumber>=3000)", "uidNumber"));
    let numbers: Vec<_> = numbers.into_iter().collect();
    assert_eq!(
        numbers,
        [("anna", "3000"), ("bert", "3001")].map(|(uid, n)| (person_dn(uid), vec![n.into()]))
    );

    let identifier = start(&mut client);
    let mut add_with_mail = |uid: &str| {
        let (dn, attributes) = (person_dn(uid), person_with(uid, &[("mail", "only@x")]));
        with_add(&dn, &attributes, |add| change(&mut client, &identifier, add)).0
    };
    add_with_mail("carl");
    let failing = add_with_mail("dora");
    with_replace(&person_dn("anna"), "title", "none", |replace| change(&mut client, &identifier, replace));
    let reply = end(&mut client, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::CONSTRAINT_VIOLATION, Some(failing)), "{reply:?}");
    let filter = "(|(cn=carl)(cn=dora)(mail=only@x)(title=none))";
    assert!(nodes.same_answer(|connection| found(connection, filter)).is_empty());
}

fn one_of_simultaneous_transactions_with_a_value_commits(nodes: &Nodes) {
    let parts = |client: usize| ["first", "last"].map(|part| format!("{part}-{client}"));
    let codes = nodes.at_once(|client, connection| {
        let identifier = start(connection);
        for (uid, others) in parts(client).iter().zip([&[][..], &[("mail", "shared@x")]]) {
            let (dn, attributes) = (person_dn(uid), person_with(uid, others));
            with_add(&dn, &attributes, |add| change(connection, &identifier, add));
        }
        end(connection, &identifier, true).outcome.code
    });
    let made = codes.iter().position(|code| *code == ResultCode::SUCCESS).expect("one is made");
    let refused = codes.iter().filter(|code| **code == ResultCode::CONSTRAINT_VIOLATION).count();
    assert_eq!(refused, codes.len() - 1, "{codes:?}");
    let expected = parts(made).iter().map(|uid| person_dn(uid)).collect();
    assert_eq!(nodes.same_answer(|connection| found(connection, "(|(cn=first-*)(cn=last-*))")), expected);
}

/// Adds a member of a group for a number of seconds, counted by the clock that the writer uses.
fn add_guest(connection: &mut Connection, group: &str, member: &str, seconds: u64) {
    until("the end is in the future when the writer reads it", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let attribute = format!("member;x-until-{}", generalized_time(now + seconds));
        let outcome = connection.modify(group, &[(ChangeOperation::Add, &attribute, &[member])]).unwrap();
        outcome.is_success().then_some(())
    });
}

/// Adds a dynamic entry that ends after so many seconds.
fn add_dynamic(connection: &mut Connection, uid: &str, ttl_seconds: u32) {
    let (dn, attributes) = (person_dn(uid), person_with(uid, &[("objectClass", "dynamicObject")]));
    add(connection, &dn, &attributes);
    let value = RefreshRequest { entry: &dn, ttl_seconds }.encode();
    let reply = connection.extended(oids::REFRESH, Some(&value)).unwrap();
    assert!(reply.outcome.is_success(), "{reply:?}");
}

fn entries_and_memberships_end_on_all_nodes(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    let index = [("objectClass", "pandoIndex"), ("pandoIndexKind", "equality")];
    add(&mut client, "cn=entryExpireTimestamp,cn=indexes,cn=config", &index);
    replace(&mut client, "cn=config", "pandoDynamicSubtree", &[&unit("people")]);
    add_dynamic(&mut client, "stays", 80_000);
    add_dynamic(&mut client, "ends", 1);
    add_group(&mut client, "guests");
    add_guest(&mut client, &group("guests"), &person_dn("anna"), 80_000);
    add_guest(&mut client, &group("guests"), &person_dn("bert"), 2);
    let filter = format!("(memberOf={})", group("guests"));
    let members = [names(&["anna"]), [SUFFIX.to_owned()].into()].into_iter().flatten().collect();
    nodes.until_all_answer("the membership has ended", &members, |connection| found(connection, &filter));
    let dynamic = |connection: &mut Connection| found(connection, "(objectClass=dynamicObject)");
    nodes.until_all_answer("the entry has ended", &names(&["stays"]), dynamic);
    // The membership was ended by a record from the writer.
    let last = nodes.same_answer(|connection| values(connection, "(cn=guests)", "modifiersName"));
    assert_eq!(last[&group("guests")], ["cn=ended values,cn=config"]);
    nodes.same_answer(|connection| values(connection, "(cn=guests)", "entryCSN"));
    nodes.same_answer(|connection| values(connection, "(cn=stays)", "entryExpireTimestamp"));
}

fn an_undeleted_entry_is_a_member_again_on_all_nodes(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    replace(&mut client, "cn=config", "pandoKeepDeletedSeconds", &["3600"]);
    let anna = person_dn("anna");
    add_group(&mut client, "team");
    modify(&mut client, &group("team"), &[(ChangeOperation::Add, "member", &[&anna])]);
    let ask = |connection: &mut Connection| {
        connection.entry(&anna, &["*", "entryUUID", "memberOf", "membershipEnd"]).unwrap()
    };
    let before = nodes.same_answer(ask).unwrap();
    assert_eq!((before.texts("memberOf").len(), before.texts("membershipEnd").len()), (2, 1), "{before:?}");
    assert!(client.delete(&anna).unwrap().is_success());
    assert_eq!(nodes.same_answer(ask), None);
    let uuid = uuid::Uuid::try_parse(&before.text("entryUUID").unwrap()).unwrap().into_bytes();
    let value = UndeleteRequest { uuid, superior: None }.encode();
    let reply = client.extended(oids::UNDELETE, Some(&value)).unwrap();
    assert!(reply.outcome.is_success(), "{reply:?}");
    assert_eq!(nodes.same_answer(ask), Some(before));
}

/// Returns the definition of an attribute whose values are DNs. The length of its name makes its OID unique.
fn definition(name: &str, extension: &str) -> String {
    let number = name.len();
    format!(
        "( 1.3.6.1.4.1.32473.1.{number} NAME '{name}' EQUALITY distinguishedNameMatch SYNTAX \
         1.3.6.1.4.1.1466.115.121.1.12 {extension})"
    )
}

/// Turns the values of an attribute into links.
fn make_links(connection: &mut Connection, name: &str) {
    let (plain, linked) = (definition(name, ""), definition(name, "X-LINK 'TRUE' "));
    let changes: [(_, &str, &[&str]); 2] = [
        (ChangeOperation::Delete, "attributeTypes", &[&plain]),
        (ChangeOperation::Add, "attributeTypes", &[&linked]),
    ];
    modify(connection, "cn=subschema", &changes);
}

/// Waits until all nodes have completed a task in the background.
fn wait_for_background_work(nodes: &Nodes, task: &str) {
    let dn = format!("cn=Pending,cn={task},cn=monitor");
    let pending =
        |connection: &mut Connection| connection.entry(&dn, &["*"]).unwrap()?.text("monitorCounter");
    nodes.until_all_answer(task, &Some("0".to_owned()), pending);
}

/// Clients of all nodes add entries with new attributes. The values of one attribute become links, so that they follow
/// a rename.
fn definitions_and_links_reach_all_nodes(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    let (boss, deputy) = (definition("boss", ""), definition("deputy", ""));
    let changes: [(_, &str, &[&str]); 2] = [
        (ChangeOperation::Add, "attributeTypes", &[&boss, &deputy]),
        (ChangeOperation::Add, "objectClasses", &[CLASS]),
    ];
    modify(&mut client, "cn=subschema", &changes);
    let led = nodes.at_once(|client, connection| {
        let (uid, [boss, deputy]) = (format!("led-{client}"), ["anna", "bert"].map(person_dn));
        let others = [("objectClass", "led"), ("boss", &*boss), ("deputy", &*deputy)];
        add(connection, &person_dn(&uid), &person_with(&uid, &others));
        person_dn(&uid)
    });
    let led = led.into_iter().collect();
    make_links(&mut client, "boss");
    wait_for_background_work(nodes, "Links");
    assert!(client.modify_dn(&person_dn("anna"), "uid=anne", None).unwrap().is_success());
    for rule in ["", &format!(":{CHAIN}:")] {
        let filter = format!("(boss{rule}={})", person_dn("anne"));
        assert_eq!(nodes.same_answer(|connection| found(connection, &filter)), led, "{filter}");
    }
    let delete = [(ChangeOperation::Delete, "objectClasses", &[CLASS][..])];
    assert!(!client.modify("cn=subschema", &delete).unwrap().is_success(), "entries have the class");
    let unused = definition("unusedName", "");
    for operation in [ChangeOperation::Add, ChangeOperation::Delete] {
        modify(&mut client, "cn=subschema", &[(operation, "attributeTypes", &[&unused])]);
    }
}

/// New entries join a group when they are added. Existing entries join by records that the writer makes in the
/// background. The group is a member of another group.
fn entries_join_groups_by_rules_on_all_nodes(nodes: &Nodes) {
    let mut client = nodes.forwarder();
    for uid in ["anne", "bert"] {
        replace(&mut client, &person_dn(uid), "title", &["Clerk"]);
    }
    ["staff", "everyone"].iter().for_each(|name| add_group(&mut client, name));
    modify(&mut client, &group("everyone"), &[(ChangeOperation::Add, "member", &[&group("staff")])]);
    let rule = format!("staff: into '{}' matching '(title=Clerk)'", group("staff"));
    replace(&mut client, "cn=config", "pandoAutoMember", &[&rule]);
    let added = nodes.at_once(|client, connection| {
        let uid = format!("clerk-{client}");
        add(connection, &person_dn(&uid), &person_with(&uid, &[("title", "Clerk")]));
        person_dn(&uid)
    });
    wait_for_background_work(nodes, "Automatic Members");
    let mut members: BTreeSet<String> = added.into_iter().chain(names(&["anne", "bert"])).collect();
    members.insert(SUFFIX.to_owned());
    let filter = format!("(memberOf={})", group("staff"));
    assert_eq!(nodes.same_answer(|connection| found(connection, &filter)), members);
    members.insert(group("staff"));
    let filter = format!("(memberOf:{CHAIN}:={})", group("everyone"));
    assert_eq!(nodes.same_answer(|connection| found(connection, &filter)), members);
}

fn all_nodes_answer_alike_and_have_equal_digests(nodes: &mut Nodes) {
    nodes.expect_equal();
    let (node, server) = nodes.running.remove(nodes.index(false));
    assert!(server.stop().success());
    nodes.start_and_compare(node);
    nodes.expect_equal();
}

/// The writer is killed while much is in progress: clients of the other nodes compete for values, a rule lets existing
/// entries join a group, values become links, and an entry and a membership are about to end.
fn a_new_writer_keeps_the_rules_and_finishes_what_was_begun(nodes: &mut Nodes) {
    let mut client = nodes.forwarder();
    ["late", "short"].iter().for_each(|name| add_group(&mut client, name));
    let (killed, server) = nodes.running.remove(nodes.index(true));
    add_dynamic(&mut client, "short", 2);
    add_guest(&mut client, &group("short"), &person_dn("bert"), 2);
    let rule = format!("late: into '{}' matching '(sn=x)'", group("late"));
    modify(&mut client, "cn=config", &[(ChangeOperation::Add, "pandoAutoMember", &[&rule])]);
    make_links(&mut client, "deputy");
    let (answered, answers) = mpsc::channel();
    let kill = || {
        answers.recv().unwrap();
        server.kill();
    };
    let won = nodes.at_once_while(|client, own| compete(own, client, "late", &answered), kill);
    expect_one_of_each(nodes, "late", won.concat());
    let attributes = person_with("again", &[("mail", "0@early")]);
    assert!(
        !add_if_allowed(&mut nodes.forwarder(), "again", &attributes),
        "the former writer accepted the value"
    );

    ["Links", "Automatic Members"].iter().for_each(|task| wait_for_background_work(nodes, task));
    let filter = format!("(memberOf={})", group("short"));
    let only = [SUFFIX.to_owned()].into();
    nodes.until_all_answer("the membership has ended", &only, |connection| found(connection, &filter));
    nodes.until_all_answer("the entry has ended", &BTreeSet::new(), |connection| {
        found(connection, "(uid=short)")
    });
    let filter = format!("(&(sn=x)(!(memberOf={})))", group("late"));
    assert_eq!(
        nodes.same_answer(|connection| found(connection, &filter)),
        BTreeSet::new(),
        "all have joined"
    );
    assert!(client.modify_dn(&person_dn("bert"), "uid=bart", None).unwrap().is_success());
    let filter = format!("(deputy={})", person_dn("bart"));
    let led = nodes.same_answer(|connection| found(connection, &filter));
    assert_eq!(led, nodes.same_answer(|connection| found(connection, "(objectClass=led)")));
    nodes.start_and_compare(killed);
    nodes.expect_equal();
}
