//! What nodes of a cluster owe each other and their clients, on one broker.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use ldap::ResultCode;
use rustix::process::Signal;
use support::Pando;
use support::cluster::{Cluster, add_unit, figure, read as entry, unit};
use support::positions::{add, at_least, position_of, read, send_read};

#[test]
fn nodes_keep_what_they_promise() {
    let (cluster, first) = Cluster::new("cluster-nodes");
    cluster.join(2);
    let second = cluster.start(2);
    positions_hold_on_every_node(&first, &second);
    assert_eq!((figure(&first, "Alarms"), figure(&second, "Alarms")), ("0".to_owned(), "0".to_owned()));
}

/// What a client has seen on one node it sees on another, if it says so; and its own changes without saying anything.
fn positions_hold_on_every_node(first: &Pando, second: &Pando) {
    let (mut one, mut two) = (first.administrator(), second.administrator());
    // The follower sleeps while something is changed, and is asked with the position before it has read that.
    second.signal(Signal::STOP);
    let seen = position_of(&add(&mut one, &unit("while-asleep"), None));
    let asked = send_read(&mut two, &unit("while-asleep"), at_least(seen, 0, 29_000));
    second.signal(Signal::CONT);
    let reply = two.reply(asked).unwrap();
    assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 1), "{reply:?}");
    assert!(position_of(&reply).position >= seen.position);
    assert_eq!(position_of(&reply).generation, seen.generation, "of one generation on all nodes");

    // What nobody has changed yet: busy at once, or as soon as the other node changes it.
    let reply = read(&mut two, &unit("to-come"), at_least(seen, 1, 0));
    assert_eq!(reply.outcome.code, ResultCode::BUSY, "{reply:?}");
    let asked = send_read(&mut two, &unit("to-come"), at_least(seen, 1, 29_000));
    let made = position_of(&add(&mut one, &unit("to-come"), None));
    assert_eq!(made.position, seen.position + 1);
    assert_eq!(two.reply(asked).unwrap().entries.len(), 1);

    // A forwarded change says where it is shown, and the writer has it by then. Without a word: the own connection.
    for round in 0..20 {
        let name = unit(&format!("own-{round}"));
        let seen = position_of(&add(&mut two, &name, None));
        assert!(entry(&mut two, &name).is_some(), "a connection sees its own changes");
        assert_eq!(read(&mut one, &name, at_least(seen, 0, 0)).entries.len(), 1);
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
