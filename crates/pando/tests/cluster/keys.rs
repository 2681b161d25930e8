//! Key rotation and encrypted groups of a cluster, with real nodes and a real broker.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use data_encoding::HEXLOWER;
use kafka_log::{Appender, Event, Settings, fetch};
use ldap::ResultCode;
use replication::{ClusterKey, KeyRing, Tag};
use rustix::process::Signal;
use test_support::Pando;
use test_support::cluster::{Cluster, add_unit, figure, figure_of, read, unit, until};

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns settings with which a client that is not a node opens the log.
fn log_of(cluster: &Cluster) -> Settings {
    Settings {
        brokers: cluster.brokers.bootstrap().to_owned(),
        topic: "pando".to_owned(),
        group: "somebody-else".to_owned(),
        session_timeout_ms: 2_000,
        append_timeout_ms: 10_000,
        properties: Vec::new(),
    }
}

fn messages(log: &Settings) -> Vec<Vec<u8>> {
    let (_, start, end) = fetch(log, 0, PATIENCE).unwrap();
    (start..end).map(|offset| fetch(log, offset, PATIENCE).unwrap().0.unwrap().bytes).collect()
}

fn append(log: &Settings, message: &[u8]) {
    let (sender, events) = channel();
    let appender = Appender::start(log, Arc::new(move |event| drop(sender.send(event)))).unwrap();
    appender.append(0, b"", message);
    while !matches!(events.recv_timeout(PATIENCE).unwrap(), Event::Appended { .. }) {}
}

/// Reads the first cluster key from a node's identity. A former node still has this key.
fn first_key(identity: PathBuf) -> KeyRing {
    let text = std::fs::read_to_string(identity.join("identity.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("key = ")).unwrap();
    let secret: [u8; 32] =
        HEXLOWER.decode(line.split('"').nth(1).unwrap().as_bytes()).unwrap().try_into().unwrap();
    KeyRing::new(1, ClusterKey::new(&secret))
}

/// Forges the next group with an old key. The group is a copy of the last group, with the next number and position, and
/// another entry name.
fn forged(log: &Settings, keys: &KeyRing) -> Vec<u8> {
    let all = messages(log);
    let last = all.iter().rfind(|message| message[1] == 3).unwrap();
    let number_at = |at: usize| u64::from_be_bytes(last[at..at + 8].try_into().unwrap());
    let count = u32::from_be_bytes(last[78..82].try_into().unwrap());
    let mut message = last[..last.len() - 32].to_vec();
    message[2..6].copy_from_slice(&1_u32.to_be_bytes());
    message[30..38].copy_from_slice(&(number_at(30) + 1).to_be_bytes());
    message[38..46].copy_from_slice(&(number_at(38) + u64::from(count)).to_be_bytes());
    message[46..78].copy_from_slice(&Tag::of_message(last).unwrap().0);
    let name = message.windows(6).rposition(|window| window == b"genuin").expect("the name of the entry");
    message[name..name + 6].copy_from_slice(b"forged");
    keys.seal(1, &mut message);
    message
}

fn key(server: &Pando) -> u64 {
    figure(server, "Key").parse().unwrap()
}

fn wait_for_level(server: &Pando) {
    until("all nodes know the level", || {
        figure_of(server, "Level").filter(|level| level.parse::<u64>().unwrap() >= 2)
    });
}

#[test]
fn a_former_node_cannot_write_with_an_old_key() {
    let (cluster, first) = Cluster::new("cluster-keys");
    cluster.join(2);
    cluster.join(3);
    let (second, third) = (cluster.start(2), cluster.start(3));
    let mut one = first.administrator();
    wait_for_level(&first);
    assert_eq!(add_unit(&mut one, "before").code, ResultCode::SUCCESS);
    assert_eq!((key(&first), key(&second)), (1, 1));

    // Rotate the key by command while clients make changes. All running nodes receive the new key. The stopped node
    // receives it later.
    assert!(third.stop().success());
    let said = cluster.cluster_command(2, &["rotate-key"]).expect_code(0);
    said.expect_output("is in force; messages under another count no longer");
    let by_hand = until("the writer has it", || Some(key(&first)).filter(|key| *key != 1));
    assert_eq!(key(&second), by_hand);
    assert_eq!(add_unit(&mut second.administrator(), "under-the-second").code, ResultCode::SUCCESS);
    let third = cluster.start(3);
    until("the third one follows", || read(&mut third.administrator(), &unit("under-the-second")));
    assert_eq!(key(&third), by_hand);
    assert_eq!(add_unit(&mut third.administrator(), "by-the-third").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &second), (3, &third)]);

    // After a node has left, the writer rotates the key by itself. The former node does not receive the new key.
    let theirs = first_key(cluster.data(3).join("cluster"));
    let identity = cluster.scratch.join("kept-identity");
    std::fs::create_dir(&identity).unwrap();
    for entry in std::fs::read_dir(cluster.data(3).join("cluster")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, identity.join(path.file_name().unwrap())).unwrap();
    }
    assert!(third.stop().success());
    cluster.cluster_command(3, &["leave"]).expect_code(0).expect_output("no node any longer");
    let after = until("a new key is in force", || Some(key(&first)).filter(|key| *key != by_hand));
    until("on the other node too", || (key(&second) == after).then_some(()));
    assert!(!identity.join("keys.toml").exists() || !contains(&identity.join("keys.toml"), after));
    let returns = cluster.data(3).join("cluster");
    std::fs::rename(&identity, &returns).unwrap();
    let address = figure(&first, "Address");
    let refused = cluster.cluster_command(3, &["fetch-keys", "--keys-from", &address]);
    assert!(refused.code != Some(0) && refused.stderr.contains("no keys of node 1"), "{refused}");

    // The former node uses its old key to forge a group that would be the next one. All nodes ignore the group and
    // report it.
    assert_eq!(figure(&first, "Alarms"), "0");
    assert_eq!(add_unit(&mut first.administrator(), "genuine").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    let log = log_of(&cluster);
    append(&log, &forged(&log, &theirs));
    for server in [&first, &second] {
        until("the message arrives", || Some(figure(server, "Alarms")).filter(|alarms| alarms == "1"));
        assert!(read(&mut server.administrator(), &unit("forgede")).is_none());
    }
    assert_eq!(add_unit(&mut second.administrator(), "goes-on").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &second)]);

    // A joining node receives the keys with a copy over the network, and with a copy in a folder.
    let invitation = cluster.invite(4);
    let words = ["join", "--invitation", &invitation, "--copy-from", &address];
    cluster.cluster_command(4, &words).expect_code(0);
    cluster.join(5);
    let (fourth, fifth) = (cluster.start(4), cluster.start(5));
    assert_eq!(add_unit(&mut fourth.administrator(), "of-4").code, ResultCode::SUCCESS);
    assert_eq!(add_unit(&mut fifth.administrator(), "of-5").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &second), (4, &fourth), (5, &fifth)]);
    assert_eq!((key(&fourth), key(&fifth)), (after, after));

    // All nodes keep their keys after a restart. A node with an older identity folder reports the missing key, and
    // receives it.
    for server in [fourth, fifth, second] {
        assert!(server.stop().success());
    }
    let not_served = cluster.cluster_command(2, &["rotate-key"]);
    assert!(not_served.code != Some(0) && not_served.stderr.contains("is not served"), "{not_served}");
    let keys = cluster.data(2).join("cluster/keys.toml");
    std::fs::remove_file(&keys).unwrap();
    let second = cluster.start(2);
    until("it says so", || figure_of(&second, "Role").filter(|role| role.contains("fetch-keys")));
    assert!(second.stop().success());
    let fetched = cluster.cluster_command(2, &["fetch-keys", "--keys-from", &address]).expect_code(0);
    fetched.expect_output("this node has the 3 keys that node 1 gives");
    first.kill();
    let (first, second) = (cluster.start(1), cluster.start(2));
    until("changes are possible", || {
        (add_unit(&mut second.administrator(), "last").is_success()).then_some(())
    });
    cluster.expect_equal(&[(1, &first), (2, &second)]);
}

fn contains(file: &std::path::Path, number: u64) -> bool {
    std::fs::read_to_string(file).unwrap().contains(&number.to_string())
}

/// The nodes can read an encrypted group. The broker cannot.
#[test]
fn groups_are_sealed_if_the_writer_is_set_to_encrypt() {
    let (cluster, first) = Cluster::new("cluster-sealed");
    cluster.join(2);
    let second = cluster.start(2);
    wait_for_level(&first);
    let secret = |name: &str| format!("{name}-of-nobody-else");
    let mut one = first.administrator();
    assert_eq!(add_unit(&mut one, &secret("clear")).code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert!(first.stop().success() && second.stop().success());

    // If only one node is set to encrypt, the writer's setting applies, and all nodes read encrypted and unencrypted
    // groups.
    let text = std::fs::read_to_string(cluster.node_file(1)).unwrap();
    cluster.scratch.write("node-1.toml", text.replace("[cluster]\n", "[cluster]\nseal = true\n"));
    let first = cluster.start(1);
    let mut one = first.administrator();
    until("it writes", || {
        let outcome = add_unit(&mut one, &secret("sealed"));
        (outcome.is_success() && figure(&first, "Role") == "writing").then_some(())
    });
    assert_eq!(figure(&first, "Seals Groups"), "yes");
    let second = cluster.start(2);
    assert_eq!(figure(&second, "Seals Groups"), "no");
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert!(read(&mut second.administrator(), &unit(&secret("sealed"))).is_some());
    assert_ne!(figure(&second, "Groups Sealed"), "0");
    let all = messages(&log_of(&cluster));
    let holds =
        |name: &str| all.iter().any(|message| message.windows(name.len()).any(|at| at == name.as_bytes()));
    assert!(holds(&secret("clear")), "unsealed records can be read by any client of a broker");
    assert!(!holds(&secret("sealed")), "clients of a broker cannot read sealed records");
    a_key_rotation_continues_after_a_restart(&cluster, first, &second);
}

/// A node stops after it has announced a new key in the log, and before any other node has the key. After its next
/// start, it continues the rotation.
fn a_key_rotation_continues_after_a_restart(cluster: &Cluster, first: Pando, second: &Pando) {
    second.signal(Signal::STOP);
    let offered = std::thread::scope(|scope| {
        let asking = scope.spawn(|| cluster.cluster_command(1, &["rotate-key"]));
        let offered = until("it is offered", || figure_of(&first, "Key Offered"));
        first.kill();
        second.signal(Signal::CONT);
        let first = cluster.start(1);
        until("it is in force", || (figure(&first, "Key") == offered).then_some(()));
        until("on the other node too", || (figure(second, "Key") == offered).then_some(()));
        asking.join().unwrap().expect_code(0).expect_output(&offered);
        until("changes are possible", || {
            add_unit(&mut second.administrator(), "after-a-crash").is_success().then_some(())
        });
        cluster.expect_equal(&[(1, &first), (2, second)]);
        offered
    });
    assert_ne!(offered, "1");
}
