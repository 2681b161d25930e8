//! Guarantees that nodes give each other and clients, on one broker.

use client::Entry;
use ldap::{ChangeOperation, ResultCode, Scope, oids};
use replication::limits::LEVEL_MAX;
use rustix::process::Signal;
use test_support::altered_rows::alter_row;
use test_support::clients::{ldap_utility, run};
use test_support::cluster::{Cluster, add_unit, figure, read as entry, unit, until};
use test_support::pando::{Start, command};
use test_support::positions::{add, at_least, position_of, read, send_read};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX};

#[test]
fn nodes_keep_their_guarantees() {
    let (cluster, first) = Cluster::new("cluster-nodes");
    cluster.join(2);
    let second = cluster.start(2);
    positions_are_valid_on_every_node(&first, &second);
    a_forwarded_change_has_the_listener_of_its_client(&cluster, &second);
    a_forwarded_change_returns_copies_and_deletes_trees(&cluster, &first, &second);
    nodes_report_their_state_in_the_root_dse(&cluster, &first, &second);
    let second = the_administrator_is_the_same_on_every_node(&cluster, &first, second);
    let third = a_node_with_other_data_stops_serving(&cluster, &first, &second);
    the_data_of_all_nodes_is_replaced(&cluster, first, [second, third]);
}

/// Access rules apply to the listener of the client, even if another node decides the change.
fn a_forwarded_change_has_the_listener_of_its_client(cluster: &Cluster, second: &Pando) {
    let mut admin = second.administrator();
    let ada = format!("uid=ada,{SUFFIX}");
    let attributes =
        [("objectClass", "inetOrgPerson"), ("cn", "Ada"), ("sn", "A"), ("userPassword", "secret")];
    assert!(admin.add(&ada, &attributes).unwrap().is_success());
    let rules = [
        "all: allow read to authenticated",
        "socket: allow write of description to self at listener ldapi",
        "wire: allow write of title to self at listener ldap",
    ];
    let mut set = |rules: &[&str]| {
        let changed =
            admin.modify("cn=config", &[(ChangeOperation::Replace, "pandoAccessRule", rules)]).unwrap();
        assert!(changed.is_success(), "{changed:?}");
    };
    set(&rules);
    assert_ne!(figure(second, "Writer"), "2", "its changes are forwarded");
    let mut wire = second.connect();
    assert!(wire.bind(&ada, "secret").unwrap().is_success());
    let mut by_wire = |attribute: &str| {
        wire.modify(&ada, &[(ChangeOperation::Replace, attribute, &["by wire"])]).unwrap().code
    };
    assert_eq!(by_wire("title"), ResultCode::SUCCESS);
    assert_eq!(by_wire("description"), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let socket = ldap::ServerUrl::local(cluster.data(2).join("pando.sock")).to_string();
    let by_socket = |attribute: &str| {
        let ldif = format!("dn: {ada}\nchangetype: modify\nreplace: {attribute}\n{attribute}: by socket\n");
        run("ldapmodify", &["-x", "-H", &socket, "-D", &ada, "-w", "secret"], &ldif)
    };
    by_socket("description").expect_code(0);
    by_socket("title").expect_code(50);
    set(&[]);
    assert!(admin.delete(&ada).unwrap().is_success());
}

/// For a forwarded change, the writer returns the entries of the pre-read and post-read controls (RFC 4527). All nodes
/// delete the same tree.
fn a_forwarded_change_returns_copies_and_deletes_trees(cluster: &Cluster, first: &Pando, second: &Pando) {
    assert_ne!(figure(second, "Writer"), "2", "its changes are forwarded");
    let ldif = ["", "ou=middle,", "ou=low,ou=middle,"].map(|place| {
        let name = if place.is_empty() { "top" } else { place.split(['=', ',']).nth(1).unwrap() };
        format!("dn: {place}ou=top,{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n")
    });
    let added = ldap_utility("ldapadd", second.address(), &["-e", "!postread=entryUUID"], &ldif.concat());
    let added = added.expect_code(0);
    assert_eq!(added.stdout.matches("entryUUID: ").count(), 3, "{added}");
    until("all nodes know trees", || (figure(first, "Level") == LEVEL_MAX.to_string()).then_some(()));
    let options = ["-e", "!1.2.840.113556.1.4.805", "-e", "!preread=ou", &unit("top")];
    let deleted = ldap_utility("ldapdelete", second.address(), &options, "").expect_code(0);
    assert!(deleted.stdout.contains("ou: top"), "{deleted}");
    for server in [first, second] {
        until("the tree is gone", || {
            let gone = |dn: &str| entry(&mut server.administrator(), dn).is_none();
            (gone(&unit("top")) && gone(&format!("ou=low,ou=middle,{}", unit("top")))).then_some(())
        });
    }
    cluster.expect_equal(&[(1, first), (2, second)]);
}

/// A client that sends its position sees the same state on another node. On the same node, it sees its own changes even
/// without sending a position.
fn positions_are_valid_on_every_node(first: &Pando, second: &Pando) {
    let (mut one, mut two) = (first.administrator(), second.administrator());
    // The follower is suspended during a change. Before it has read the change from the log, it receives a read with
    // the position of that change.
    second.signal(Signal::STOP);
    let seen = position_of(&add(&mut one, &unit("while-asleep"), None));
    let asked = send_read(&mut two, &unit("while-asleep"), at_least(seen, 0, 29_000));
    second.signal(Signal::CONT);
    let reply = two.reply(asked).unwrap();
    assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 1), "{reply:?}");
    assert!(position_of(&reply).position >= seen.position);
    assert_eq!(position_of(&reply).generation, seen.generation, "of one generation on all nodes");

    // A read at a future position is answered with busy if the read may not wait. Otherwise it is answered with the
    // entry as soon as another node adds the entry.
    let reply = read(&mut two, &unit("to-come"), at_least(seen, 1, 0));
    assert_eq!(reply.outcome.code, ResultCode::BUSY, "{reply:?}");
    let asked = send_read(&mut two, &unit("to-come"), at_least(seen, 1, 29_000));
    let made = position_of(&add(&mut one, &unit("to-come"), None));
    assert_eq!(made.position, seen.position + 1);
    assert_eq!(two.reply(asked).unwrap().entries.len(), 1);

    // The answer to a forwarded change contains the change's position. Even without the control, the client's
    // connection waits for that position.
    for round in 0..20 {
        let name = unit(&format!("own-{round}"));
        let seen = position_of(&add(&mut two, &name, None));
        assert!(entry(&mut two, &name).is_some(), "a connection sees its own changes");
        assert_eq!(read(&mut one, &name, at_least(seen, 0, 29_000)).entries.len(), 1);
        assert_eq!(add_unit(&mut one, &format!("other-{round}")).code, ResultCode::SUCCESS);
        let seen = position_of(&read(&mut one, &name, None));
        let other = unit(&format!("other-{round}"));
        assert_eq!(
            read(&mut two, &other, at_least(seen, 0, 29_000)).entries.len(),
            1,
            "reads do not go back"
        );
    }
}

/// The root DSE shows all clients the part of `cn=monitor` that describes the node. `pando cluster status` prints the
/// same part.
fn nodes_report_their_state_in_the_root_dse(cluster: &Cluster, first: &Pando, second: &Pando) {
    let root_dse = |server: &Pando| -> Entry {
        let reply = server.connect().search("", Scope::BaseObject, "(objectClass=*)", &["+"]).unwrap();
        reply.entries.into_iter().next().unwrap()
    };
    until("both show the same", || {
        let [one, two] = [root_dse(first), root_dse(second)];
        let same = ["pandoGeneration", "pandoPosition", "pandoClusterEpoch", "pandoClusterLastFailover"];
        let is_same = |name: &&str| one.text(name).is_some() && one.text(name) == two.text(name);
        let own = |entry: &Entry, name: &str| entry.text(&format!("pandoCluster{name}")).unwrap_or_default();
        let is_whole = same[..3].iter().all(is_same)
            && (own(&one, "Node"), own(&two, "Node")) == ("1".to_owned(), "2".to_owned())
            && [&one, &two].iter().all(|entry| own(entry, "LagMessages") == "0");
        // On a busy machine, the writer may change.
        let writer = own(&one, "Writer");
        let role = |entry: &Entry| if own(entry, "Node") == writer { "writing" } else { "following" };
        let is_whole = is_whole && own(&two, "Writer") == writer;
        let is_whole = is_whole && [&one, &two].iter().all(|entry| own(entry, "Role") == role(entry));
        is_whole.then_some(())
    });
    let status = command(&["cluster", "status"], Some(&cluster.data(2))).expect_code(0).stdout;
    let generation = root_dse(second).text("pandoGeneration").unwrap();
    for (name, value) in [("Generation", &*generation), ("Lag Messages", "0"), ("Node", "2")] {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.ends_with(value), "{name}: {status}");
    }
}

/// The settings name the administrator. The administrator's password is changed like that of a user, and the new
/// password applies on all nodes without an administrator password in their node files.
fn the_administrator_is_the_same_on_every_node(cluster: &Cluster, first: &Pando, second: Pando) -> Pando {
    let name = "cn=root,o=elsewhere";
    let mut one = first.administrator();
    let set = one.modify("cn=config", &[(ChangeOperation::Replace, "pandoAdministrator", &[name])]).unwrap();
    assert!(set.is_success(), "{set:?}");
    let mut one = first.connect();
    assert!(one.bind(name, ADMIN_PASSWORD).unwrap().is_success(), "with the password that this node has");
    let changed = one.modify(name, &[(ChangeOperation::Replace, "userPassword", &["of all"])]).unwrap();
    assert!(changed.is_success(), "{changed:?}");
    let refused = one.modify(name, &[(ChangeOperation::Replace, "cn", &["x"])]).unwrap();
    assert_eq!(refused.code, ResultCode::UNWILLING_TO_PERFORM, "{refused:?}");

    assert!(second.stop().success());
    let node_file = cluster.node_file(2);
    let second = Start::bare(&cluster.scratch, "node-2").arguments(&["--node", node_file.to_str().unwrap()]);
    let second = second.without_environment("PANDO_ADMIN_PASSWORD").ready();
    let mut two = second.connect();
    until("the password is known on the other node", || {
        two.bind(name, "of all").unwrap().is_success().then_some(())
    });
    // The Password Modify operation changes the password too, even on a node that forwards it. A request that names no
    // user changes the password of its requester.
    let value = ldap::PasswordModify { new_password: Some(b"of all, again"), ..Default::default() }.encode();
    let reply = two.extended(oids::MODIFY_PASSWORD, Some(&value)).unwrap();
    assert!(reply.outcome.is_success(), "{reply:?}");
    assert!(!second.connect().bind(name, "of all").unwrap().is_success());
    assert!(second.connect().bind(name, "of all, again").unwrap().is_success());

    // Without the setting, each node uses the administrator of its node file again.
    let set = two.modify("cn=config", &[(ChangeOperation::Replace, "pandoAdministrator", &[])]).unwrap();
    assert!(set.is_success(), "{set:?}");
    assert!(second.stop().success());
    let second = cluster.start(2);
    assert_eq!((figure(first, "Alarms"), figure(&second, "Alarms")), ("0".to_owned(), "0".to_owned()));
    second
}

/// A row of a stopped node is altered. When the node starts, it detects the difference, reports which part of the data
/// differs, and stops serving. It cannot be started again until it has other data.
fn a_node_with_other_data_stops_serving(cluster: &Cluster, first: &Pando, second: &Pando) -> Pando {
    cluster.join(3);
    let third = cluster.start(3);
    let mut one = first.administrator();
    assert_eq!(add_unit(&mut one, "planted").code, ResultCode::SUCCESS);
    assert_eq!(add_unit(&mut one, "leaf,ou=planted").code, ResultCode::SUCCESS);
    until("node 3 has it", || entry(&mut third.administrator(), &unit("leaf,ou=planted")));
    let digests = || {
        [first, second, &third].map(|server| {
            let dn = "cn=Digest,cn=Cluster,cn=monitor";
            entry(&mut server.administrator(), dn).and_then(|entry| entry.text("monitoredInfo"))
        })
    };
    until("all have summed up the same", || {
        let [one, two, three] = digests();
        (one.is_some() && one == two && two == three).then_some(())
    });
    assert_eq!(figure(&third, "Level"), LEVEL_MAX.to_string());

    assert!(third.stop().success());
    alter_row(&cluster.data(3), b"leaf");
    let mut third = cluster.start(3);
    let status = third.exit();
    assert!(!status.success(), "{status:?}");
    let said = third.log();
    let place = format!("in: ou=planted,{SUFFIX}.");
    assert!(said.contains("is not that of the cluster") && said.contains(&place), "{said}");
    drop(third);
    let node_file = cluster.node_file(3);
    let again = Start::bare(&cluster.scratch, "node-3").arguments(&["--node", node_file.to_str().unwrap()]);
    let refused = again.refused().1;
    assert!(refused.contains("must not be served") && refused.contains(&place), "{refused}");
    // The other nodes continue, and learn of the difference.
    assert_eq!(add_unit(&mut one, "unmoved").code, ResultCode::SUCCESS);
    until("they know", || (figure(first, "Alarms") != "0" && figure(second, "Alarms") != "0").then_some(()));

    reseed_from(cluster, 3, first);
    let third = cluster.start(3);
    until("it follows", || entry(&mut third.administrator(), &unit("unmoved")));
    cluster.expect_equal(&[(1, first), (2, second), (3, &third)]);
    third
}

/// Replaces the data of a node by the data of the first node, over the cluster listener.
fn reseed_from(cluster: &Cluster, node: u32, first: &Pando) {
    let (own, address) = (cluster.node_file(node), figure(first, "Address"));
    let arguments = ["cluster", "reseed", "--node", own.to_str().unwrap(), "--copy-from", &address];
    command(&arguments, Some(&cluster.data(node)))
        .expect_code(0)
        .expect_output(&format!("node {node} has the data of node 1"));
}

/// Replaces the data of a node by the data of the first node, from its folder.
pub(crate) fn reseed(cluster: &Cluster, node: u32) {
    let (own, from) = (cluster.node_file(node), cluster.data(1));
    let arguments =
        ["cluster", "reseed", "--node", own.to_str().unwrap(), "--copy-of", from.to_str().unwrap()];
    command(&arguments, Some(&cluster.data(node)))
        .expect_code(0)
        .expect_output(&format!("node {node} has the data"));
}

/// Data that did not result from changes becomes the data of all nodes, by one command and a copy to each node.
fn the_data_of_all_nodes_is_replaced(cluster: &Cluster, first: Pando, others: [Pando; 2]) {
    let fresh = Start::bare(&cluster.scratch, "fresh")
        .arguments(&["--suffix", SUFFIX, "--admin-dn", ADMIN_DN])
        .ready();
    let mut administrator = fresh.administrator();
    administrator.add(SUFFIX, &[("objectClass", "domain"), ("dc", "example")]).unwrap();
    assert_eq!(add_unit(&mut administrator, "fresh").code, ResultCode::SUCCESS);
    assert!(fresh.stop().success());
    let seen = position_of(&read(&mut first.administrator(), SUFFIX, None));

    let (node_file, folder) = (cluster.node_file(1), cluster.scratch.join("fresh"));
    let begin = ["cluster", "generation", "--node", node_file.to_str().unwrap(), folder.to_str().unwrap()];
    let refused = command(&begin, Some(&cluster.data(1)));
    assert!(refused.code != Some(0), "it is served: {refused}");
    // No other command replaces the data of a node.
    let import = command(&["import", "/dev/null"], Some(&cluster.data(2)));
    assert!(import.code != Some(0), "{import}");

    assert!(first.stop().success());
    // The command is interrupted after it has announced the new generation and before the node has the data, because a
    // folder is in the way.
    let obstacle = cluster.data(1).join("data.new");
    std::fs::create_dir(&obstacle).unwrap();
    let broken = command(&begin, Some(&cluster.data(1)));
    assert!(broken.code != Some(0), "{broken}");
    let served = Start::bare(&cluster.scratch, "node-1").arguments(&["--node", node_file.to_str().unwrap()]);
    let refused = served.refused().1;
    assert!(refused.contains("cluster generation --finish"), "{refused}");
    let twice = command(&begin, Some(&cluster.data(1)));
    assert!(twice.code != Some(0) && twice.stderr.contains("not finished"), "{twice}");
    std::fs::remove_dir(&obstacle).unwrap();
    let finish = ["cluster", "generation", "--node", node_file.to_str().unwrap(), "--finish"];
    command(&finish, Some(&cluster.data(1)))
        .expect_code(0)
        .expect_output("a new generation begins at position");
    let nothing = command(&finish, Some(&cluster.data(1)));
    assert!(nothing.code != Some(0) && nothing.stderr.contains("no generation was begun"), "{nothing}");
    let first = cluster.start(1);
    let mut one = first.administrator();
    until("it writes", || (add_unit(&mut one, "begun").code == ResultCode::SUCCESS).then_some(()));
    assert!(entry(&mut one, &unit("fresh")).is_some() && entry(&mut one, &unit("planted")).is_none());
    let reply = read(&mut one, SUFFIX, at_least(seen, 0, 0));
    assert_eq!(reply.outcome.code, ResultCode::UNWILLING_TO_PERFORM, "a position of other data: {reply:?}");
    let restarted = others.into_iter().zip([2, 3]).map(|(server, node)| {
        until("it stops", || {
            figure(&server, "Role").contains("all data of the cluster is new").then_some(())
        });
        assert_eq!(add_unit(&mut server.administrator(), "too-late").code, ResultCode::UNAVAILABLE);
        server.stop();
        reseed_from(cluster, node, &first);
        cluster.start(node)
    });
    let restarted: Vec<Pando> = restarted.collect();
    assert_eq!(add_unit(&mut restarted[0].administrator(), "passed-on").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &restarted[0]), (3, &restarted[1])]);
}
