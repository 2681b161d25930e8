//! Replicas without a shared log: they copy their supplier's data, apply its log, and forward changes.

use std::net::SocketAddr;
use std::path::PathBuf;

use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::cluster::until;
use test_support::metrics;
use test_support::pando::{Start, command};
use test_support::positions;
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch, rounds, seed};

/// Folder and node file of a replica.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    node: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str, supplier: SocketAddr) -> Place {
        let scratch = Scratch::new(name);
        let mut place = Place { node: scratch.join("node.toml"), scratch };
        place.set_supplier(supplier, "");
        place
    }

    /// Writes the node file with this supplier, and more keys of its `[replica]` table.
    pub(crate) fn set_supplier(&mut self, supplier: SocketAddr, more: &str) {
        let password = self.scratch.write("password", ADMIN_PASSWORD);
        let table = format!(
            "[replica]\nsupplier = \"ldap://{supplier}\"\nname = \"test\"\nbind_dn = \"{ADMIN_DN}\"\n\
             password_file = \"{}\"\n{more}",
            password.display()
        );
        self.node = self.scratch.write("node.toml", table);
    }

    pub(crate) fn node(&self) -> &str {
        self.node.to_str().unwrap()
    }

    pub(crate) fn start(&self) -> Pando {
        self.to_start().ready()
    }

    pub(crate) fn to_start(&self) -> Start {
        Start::new(&self.scratch).arguments(&["--node", self.node()])
    }
}

/// Waits until both servers have the same entries.
#[track_caller]
pub(crate) fn wait_until_equal(scratch: &Scratch, one: &Pando, other: &Pando) {
    let password = scratch.write("password", ADMIN_PASSWORD);
    let (one, other) = (format!("ldap://{}", one.address()), format!("ldap://{}", other.address()));
    let bind = ["--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap(), "--operational"];
    let compare = [&["compare", &one, &other], &bind[..], &["--base", SUFFIX]].concat();
    until("equal servers", || {
        let run = command(&compare, None);
        run.stderr.contains("0 with other values, 0 only in the first, 0 only in the second").then_some(())
    });
}

/// Returns a figure of the replica from cn=monitor.
pub(crate) fn figure(pando: &Pando, name: &str) -> String {
    let dn = format!("cn={name},cn=Replica,cn=monitor");
    let entry = pando.administrator().entry(&dn, &["monitorCounter", "monitoredInfo"]).unwrap().unwrap();
    entry.text("monitorCounter").or_else(|| entry.text("monitoredInfo")).unwrap()
}

#[test]
fn a_replica_copies_data_follows_the_log_and_forwards_changes() {
    let scratch = Scratch::new("replica-supplier");
    let node = scratch.write("node.toml", metrics::NODE_FILE);
    let supplier = Start::new(&scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    let mut admin = supplier.administrator();
    plant(&mut admin);
    let place = Place::new("replica-first", supplier.address());
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    // A position at the supplier is the same position at the replica.
    let unit = format!("ou=token,{SUFFIX}");
    let token = positions::position_of(&positions::add(&mut admin, &unit, None));
    let mut reader = replica.administrator();
    let read = positions::read(&mut reader, &unit, positions::at_least(token, 0, 20_000));
    assert_eq!((read.outcome.code, read.entries.len()), (ResultCode::SUCCESS, 1));
    // A client of the replica makes a change and reads it immediately. The supplier decides the change.
    let mut anna = replica.connect();
    assert!(anna.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    let title: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "title", &["forwarded"])];
    for number in 0..20 {
        let new = format!("ou=own{number},{SUFFIX}");
        add(&mut reader, &new, &[("objectClass", "organizationalUnit")]);
        assert!(reader.entry(&new, &["1.1"]).unwrap().is_some(), "the replica shows what it has answered");
    }
    // The supplier applies the rights of the client.
    let refused = anna.modify(&person_dn("bert"), title).unwrap();
    assert_eq!(refused.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS, "{refused:?}");
    let refused = reader.modify(&format!("ou=none,{SUFFIX}"), title).unwrap();
    assert_eq!((refused.code, &*refused.matched_dn), (ResultCode::NO_SUCH_OBJECT, SUFFIX));
    assert!(reader.modify(&person_dn("anna"), title).unwrap().is_success());
    let changed = admin.entry(&person_dn("anna"), &["title", "modifiersName"]).unwrap().unwrap();
    assert_eq!(changed.texts("title"), ["forwarded"]);
    // The replica hashes a new password, which both servers then accept.
    let password: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["new-secret"])];
    assert!(reader.modify(&person_dn("anna"), password).unwrap().is_success());
    for server in [&supplier, &replica] {
        let mut connection = server.connect();
        assert!(connection.bind(&person_dn("anna"), "new-secret").unwrap().is_success());
        let stored = server.administrator().entry(&person_dn("anna"), &["userPassword"]).unwrap().unwrap();
        assert!(!stored.texts("userPassword").iter().any(|value| value == "new-secret"));
    }
    wait_until_equal(&scratch, &supplier, &replica);
    assert_eq!(figure(&replica, "State"), "following");
    until("no lag", || (figure(&replica, "Lag Records") == "0").then_some(()));
    let shown = supplier.administrator().search(
        "cn=Replicas,cn=monitor",
        Scope::SingleLevel,
        "(monitoredInfo=\"test\"*)",
        &["monitoredInfo"],
    );
    assert_eq!(shown.unwrap().entries.len(), 1, "the supplier shows its replica by name");
    until("the replica among the metrics", || {
        let metrics = metrics::page(&supplier, "/metrics").1;
        metrics::expect_documented(&metrics);
        metrics.contains("pando_replicas_lag_records{replica=\"test\"} 0\n").then_some(())
    });
    // After a restart, the replica continues from its position.
    assert!(replica.stop().success());
    add_person(&mut admin, "later");
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
    // Other programs can only read the data of a replica. A server does not serve the data without a supplier in its
    // settings.
    let run = command(&["verify"], Some(&Pando::data(&place.scratch)));
    run.expect_code(0);
    let (_, said) = Start::new(&place.scratch).refused();
    assert!(said.contains("contains a replica"), "{said}");
}

/// While the supplier is stopped, the replica answers reads, and reports that it is not ready for changes.
#[test]
fn a_replica_without_its_supplier_is_ready_for_reads_only() {
    let scratch = Scratch::new("replica-alone-supplier");
    let supplier = Pando::start(&scratch);
    plant(&mut supplier.administrator());
    let place = Scratch::new("replica-alone");
    let password = place.write("password", ADMIN_PASSWORD);
    // The socket in the data directory keeps its name when the supplier restarts.
    let socket = Pando::data(&scratch).join("pando.sock").display().to_string().replace('/', "%2F");
    let table = format!(
        "[replica]\nsupplier = \"ldapi://{socket}\"\nname = \"test\"\nbind_dn = \"{ADMIN_DN}\"\n\
         password_file = {password:?}\n{}",
        metrics::NODE_FILE
    );
    let node = place.write("node.toml", table);
    let replica = Start::new(&place).arguments(&["--node", node.to_str().unwrap()]).ready();
    metrics::wait_for_ready(&replica, 200);
    assert!(supplier.stop().success());
    let text = metrics::wait_for_ready(&replica, 503);
    assert!(text.contains("this replica cannot reach its supplier"), "{text}");
    let (status, text) = metrics::page(&replica, "/ready/read");
    assert!(status == 200 && text.contains("ready for reads only"), "{status} {text}");
    let supplier = Pando::start(&scratch);
    metrics::wait_for_ready(&replica, 200);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// Both servers are killed while clients make changes. After their restart, the servers continue.
#[test]
fn killed_replicas_and_suppliers_end_equal() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new("replica-kill");
    let first = Pando::start(&scratch);
    let address = first.address();
    plant(&mut first.administrator());
    let place = Place::new("replica-killed", address);
    let listen = format!("ldap://{address}");
    let mut replica = place.start();
    let mut supplier = first;
    for round in 0..rounds(4) {
        let mut admin = supplier.administrator();
        let count = random.u32(5..40);
        for number in 0..count {
            let name = format!("r{round}n{number}");
            add_person(&mut admin, &name);
            if random.bool() {
                replace(&mut admin, &person_dn(&name), "title", &[&name]);
            }
            if random.u8(..4) == 0 {
                assert!(admin.delete(&person_dn(&name)).unwrap().is_success());
            }
            if number == count / 2 {
                match random.u8(..3) {
                    0 => {
                        replica.kill();
                        replica = place.start();
                    }
                    1 => {
                        supplier.kill();
                        supplier = Start::new(&scratch).arguments(&["--listen", &listen]).ready();
                        admin = supplier.administrator();
                    }
                    _ => {}
                }
            }
        }
    }
    // The replica's settings still contain the address that the supplier had at its first start.
    let again = supplier.address() != address;
    if again {
        let mut place = place;
        assert!(replica.stop().success());
        place.set_supplier(supplier.address(), "");
        replica = place.start();
        wait_until_equal(&scratch, &supplier, &replica);
    } else {
        wait_until_equal(&scratch, &supplier, &replica);
    }
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// A replica of a replica. The middle server passes records on to the last server, and changes to the first server.
#[test]
fn replicas_form_chains() {
    let scratch = Scratch::new("replica-chain");
    let supplier = Pando::start(&scratch);
    plant(&mut supplier.administrator());
    let middle_place = Place::new("replica-middle", supplier.address());
    let middle = middle_place.start();
    let last_place = Place::new("replica-last", middle.address());
    let last = last_place.start();
    let mut admin = last.administrator();
    for number in 0..10 {
        let new = format!("ou=chain{number},{SUFFIX}");
        add(&mut admin, &new, &[("objectClass", "organizationalUnit")]);
        assert!(admin.entry(&new, &["1.1"]).unwrap().is_some());
    }
    wait_until_equal(&scratch, &supplier, &last);
    wait_until_equal(&scratch, &middle, &last);
    // While the supplier of the middle replica is stopped, changes are refused and reads are answered.
    assert!(supplier.stop().success());
    until("a refused change", || {
        let refused =
            admin.add(&format!("ou=lost,{SUFFIX}"), &[("objectClass", "organizationalUnit")]).unwrap();
        (refused.code == ResultCode::UNAVAILABLE).then_some(())
    });
    assert!(admin.entry(&person_dn("anna"), &["1.1"]).unwrap().is_some());
    assert!(last.stop().success());
    assert!(middle.stop().success());
}

/// Failed binds at the replica count at the supplier, so an account is locked on both servers.
#[test]
fn failed_binds_lock_an_account_everywhere() {
    let scratch = Scratch::new("replica-lock");
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    plant(&mut admin);
    let policy = format!("cn=default,{SUFFIX}");
    let attributes = [
        ("objectClass", "device"),
        ("objectClass", "pandoPwdPolicy"),
        ("cn", "default"),
        ("pwdAttribute", "userPassword"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "3"),
    ];
    add(&mut admin, &policy, &attributes);
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPasswordPolicy", &[&policy])];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let place = Place::new("replica-locked", supplier.address());
    let replica = place.start();
    let anna = person_dn("anna");
    until("a locked account", || {
        let wrong = replica.connect().bind(&anna, "wrong").unwrap();
        assert_eq!(wrong.code, ResultCode::INVALID_CREDENTIALS);
        let state = supplier.administrator().entry(&anna, &["pwdAccountLockedTime"]).unwrap().unwrap();
        state.text("pwdAccountLockedTime").map(drop)
    });
    for server in [&supplier, &replica] {
        until("a refused bind", || {
            let refused = server.connect().bind(&anna, "anna-secret").unwrap();
            (refused.code == ResultCode::INVALID_CREDENTIALS).then_some(())
        });
    }
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// If a supplier's log no longer contains the next record, the replica reports that and keeps serving its data, until a
/// new copy replaces the data. If a supplier has lost records, its replica does not merge the two histories.
#[test]
fn a_replica_without_records_says_why_it_halts() {
    let scratch = Scratch::new("replica-halt");
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    plant(&mut admin);
    let mut place = Place::new("replica-halted", supplier.address());
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoLogRecords", &["3"])];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    for number in 0..300 {
        replace(&mut admin, &person_dn("anna"), "title", &[&format!("t{number}")]);
    }
    let replica = place.start();
    until("the reason", || figure(&replica, "Failing").contains("keeps its log from position").then_some(()));
    assert_eq!(figure(&replica, "State"), "halted");
    assert!(replica.administrator().entry(&person_dn("anna"), &["1.1"]).unwrap().is_some());
    assert!(replica.stop().success());
    let data = Pando::data(&place.scratch);
    std::fs::rename(&data, place.scratch.join("old")).unwrap();
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    // The supplier is restored to an older state, and continues from there.
    assert!(supplier.stop().success());
    let backup = scratch.join("backup");
    let copy = |from: &PathBuf, to: &PathBuf| {
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        test_support::clients::run("cp", &["-a", from, to], "").expect_code(0);
    };
    let data = Pando::data(&scratch);
    copy(&data, &backup);
    let supplier = Pando::start(&scratch);
    add_person(&mut supplier.administrator(), "lost");
    place.set_supplier(supplier.address(), "");
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&backup, &data).unwrap();
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    ["other", "more", "yet"].iter().for_each(|name| add_person(&mut admin, name));
    place.set_supplier(supplier.address(), "");
    let replica = place.start();
    until("the reason", || figure(&replica, "Failing").contains("histories differ").then_some(()));
    assert!(replica.administrator().entry(&person_dn("lost"), &["1.1"]).unwrap().is_some());
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// Adds people until one is refused. Returns the number of people added.
fn add_until_refused(connection: &mut client::Connection, prefix: &str) -> u32 {
    let mut number = 0;
    until("a refused change", || {
        let name = format!("{prefix}{number}");
        let attributes = [("objectClass", "inetOrgPerson"), ("cn", &*name), ("sn", &*name)];
        let outcome = connection.add(&person_dn(&name), &attributes).unwrap();
        number += u32::from(outcome.is_success());
        assert!(outcome.is_success() || outcome.code == ResultCode::UNAVAILABLE, "{outcome:?}");
        (!outcome.is_success()).then_some(number)
    })
}

/// A planned promotion loses no change, although clients change the supplier meanwhile. The old supplier makes no
/// further changes, even after a restart, and becomes a replica.
#[test]
fn a_promotion_loses_nothing() {
    let scratch = Scratch::new("promote-old");
    let old = Pando::start(&scratch);
    plant(&mut old.administrator());
    let place = Place::new("promote-new", old.address());
    let new = place.start();
    wait_until_equal(&scratch, &old, &new);
    let refused = command(&["replica", "promote"], Some(&Pando::data(&scratch))).expect_code(1);
    refused.expect_error("is no replica");
    let mut client = old.administrator();
    let (added, promoted) = std::thread::scope(|scope| {
        let adding = scope.spawn(|| add_until_refused(&mut client, "p"));
        let promoted = command(&["replica", "promote"], Some(&Pando::data(&place.scratch)));
        (adding.join().unwrap(), promoted)
    });
    promoted.expect_code(0).expect_output("promoted");
    for number in 0..added {
        let found = new.administrator().entry(&person_dn(&format!("p{number}")), &["1.1"]).unwrap();
        assert!(found.is_some(), "{number} of {added} is missing");
    }
    add_person(&mut new.administrator(), "later");
    assert_eq!((&*figure(&new, "State"), &*figure(&new, "Epoch")), ("promoted", "2"));
    // Neither a restart nor the old node file makes the new writer a replica again.
    assert!(new.stop().success());
    let new = place.start();
    add_person(&mut new.administrator(), "restarted");
    assert!(old.stop().success());
    let old = Pando::start(&scratch);
    let mut client = old.administrator();
    assert_eq!(add_until_refused(&mut client, "q"), 0);
    assert!(client.entry(&person_dn("p0"), &["1.1"]).is_ok(), "reads are still answered");
    assert!(old.stop().success());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let table = format!(
        "[replica]\nsupplier = \"ldap://{}\"\nbind_dn = \"{ADMIN_DN}\"\npassword_file = \"{}\"\n",
        new.address(),
        password.display()
    );
    let old = Start::with_node(&scratch, table).ready();
    wait_until_equal(&scratch, &old, &new);
    add_person(&mut old.administrator(), "forwarded");
    assert!(new.administrator().entry(&person_dn("forwarded"), &["1.1"]).unwrap().is_some());
    assert!(old.stop().success());
    assert!(new.stop().success());
}

/// After a promotion without the supplier, the histories may differ. They are never merged: the old writer does not
/// become a replica. The old writer stops making changes as soon as a replica of the new writer asks the old writer for
/// records.
#[test]
fn a_replaced_writer_is_fenced_and_never_merged() {
    let scratch = Scratch::new("fence-old");
    let old = Pando::start(&scratch);
    plant(&mut old.administrator());
    let place = Place::new("fence-new", old.address());
    let new = place.start();
    let mut other_place = Place::new("fence-other", old.address());
    let other = other_place.start();
    wait_until_equal(&scratch, &old, &new);
    wait_until_equal(&scratch, &old, &other);
    assert!(old.stop().success());
    let promote = ["replica", "promote", "--without-supplier"];
    command(&promote, Some(&Pando::data(&place.scratch))).expect_code(0);
    add_person(&mut new.administrator(), "new");
    let kept = positions::read(&mut new.administrator(), &person_dn("new"), None);
    // The other replica follows the new writer.
    assert!(other.stop().success());
    other_place.set_supplier(new.address(), "");
    let other = other_place.start();
    wait_until_equal(&scratch, &new, &other);
    assert_eq!(figure(&other, "Epoch"), "2");
    assert!(other.stop().success());
    // The old writer is started again. It does not know of the promotion, and makes a change.
    let old = Pando::start(&scratch);
    add_person(&mut old.administrator(), "old");
    let lost = positions::read(&mut old.administrator(), &person_dn("old"), None);
    // By mistake, a replica of the new writer requests records from the old writer.
    other_place.set_supplier(old.address(), "");
    let other = other_place.start();
    until("the reason", || figure(&other, "Failing").contains("a later writer was promoted").then_some(()));
    add_until_refused(&mut old.administrator(), "late");
    assert!(other.stop().success());
    assert!(old.stop().success());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let table = format!(
        "[replica]\nsupplier = \"ldap://{}\"\nbind_dn = \"{ADMIN_DN}\"\npassword_file = \"{}\"\n",
        new.address(),
        password.display()
    );
    let old = Start::with_node(&scratch, table).ready();
    until("the reason", || figure(&old, "Failing").contains("histories differ").then_some(()));
    assert!(old.administrator().entry(&person_dn("old"), &["1.1"]).unwrap().is_some());
    assert!(new.administrator().entry(&person_dn("old"), &["1.1"]).unwrap().is_none());
    // Positions of one history are not positions of the other.
    let read_after = |server: &Pando, seen: &client::Reply| {
        let seen = positions::at_least(positions::position_of(seen), 0, 0);
        positions::read(&mut server.administrator(), SUFFIX, seen).outcome.code
    };
    assert_eq!(read_after(&new, &kept), ResultCode::SUCCESS);
    assert_eq!(read_after(&new, &lost), ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(read_after(&old, &lost), ResultCode::SUCCESS);
    assert_eq!(read_after(&old, &kept), ResultCode::BUSY);
    assert!(old.stop().success());
    assert!(new.stop().success());
}
