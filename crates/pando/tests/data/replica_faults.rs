//! Replicas with unreliable networks and full disks, stops during the first copy, and imports into their data.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::channel;

use crate::replicas::{Place, figure, wait_until_equal};

use client::Connection;
use ldap::ResultCode;
use powercut::PowerCut;
use test_support::cluster::until;
use test_support::pando::{Start, command};
use test_support::relay::{ConnectionEnd, Relay};
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::writers::Writer;
use test_support::{DEADLINE, Pando, SUFFIX, Scratch, rounds, seed};

/// Free space that is never used up, in bytes.
const PLENTY: &str = "999999999999";

/// Number of large entries, which make the first copy several megabytes.
const LARGE_ENTRIES: usize = 24;

/// Size of each large entry, in octets. The octets cannot be compressed.
const LARGE_BYTES: usize = 150_000;

/// Adds data of some megabytes, so that a copy has several parts.
fn fill(admin: &mut Connection, random: &mut fastrand::Rng) {
    plant(admin);
    for number in 0..LARGE_ENTRIES {
        let text: String = (0..LARGE_BYTES).map(|_| random.alphanumeric()).collect();
        let attributes = [("objectClass", "organizationalUnit"), ("description", text.as_str())];
        add(admin, &format!("ou=large{number},{SUFFIX}"), &attributes);
    }
}

fn change_some(admin: &mut Connection, random: &mut fastrand::Rng, prefix: &str) {
    for number in 0..random.u32(10..30) {
        let name = format!("{prefix}n{number}");
        add_person(admin, &name);
        match random.u8(..3) {
            0 => replace(admin, &person_dn(&name), "title", &[&name]),
            1 => assert!(admin.delete(&person_dn(&name)).unwrap().is_success()),
            _ => {}
        }
    }
}

/// The network fails at random bytes, during the first copy and while records arrive.
#[test]
fn cut_connections_end_with_equal_data() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new("replica-cut-supplier");
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    fill(&mut admin, &mut random);
    let mut cuts = random.fork();
    let cut_count = usize::try_from(rounds(8)).unwrap();
    let relay = Relay::to(supplier.address(), move |number| match number {
        0..3 => ConnectionEnd::CutAfter(cuts.u64(..2_000_000)),
        // The first `cut_count` connections read the log, and are cut after a few answers.
        _ if number < cut_count => ConnectionEnd::CutAfter(cuts.u64(..20_000)),
        _ => ConnectionEnd::ToTheEnd,
    });
    let place = Place::new("replica-cut", relay.address());
    let replica = place.start();
    change_some(&mut admin, &mut random, "a");
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    change_some(&mut admin, &mut random, "b");
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert_eq!(figure(&replica, "State"), "following");
    assert!(replica.stop().success());
    command(&["verify"], Some(&Pando::data(&place.scratch))).expect_code(0);
    assert!(supplier.stop().success());
}

/// Regression test: a stop during the first copy had no effect until the copy was complete, and a reload ended the
/// process.
#[test]
fn a_stop_during_the_first_copy_is_prompt_and_continues_later() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new("replica-stopped-supplier");
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    fill(&mut admin, &mut random);
    let relay = Relay::to(supplier.address(), |_| ConnectionEnd::HeldAfter(1_500_000));
    let mut place = Place::new("replica-stopped", relay.address());
    let mut child = place.to_start().spawn();
    relay.wait_for_hold();
    // Octets that the relay has passed may not have arrived yet.
    let parts = Pando::data(&place.scratch).join("copy-being-received");
    until("a part of the copy", || {
        let files = std::fs::read_dir(&parts).ok()?.flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 0).then_some(())
    });
    // The copy holds password hashes, which only the owner may read.
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&parts), 0o700);
    let process = rustix::process::Pid::from_child(&child);
    for signal in [rustix::process::Signal::HUP, rustix::process::Signal::TERM] {
        rustix::process::kill_process(process, signal).unwrap();
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    place.set_supplier(supplier.address(), "");
    let replica = place.start();
    assert!(replica.log().contains("the copy of the supplier's data is continued at "), "{}", replica.log());
    wait_until_equal(&scratch, &supplier, &replica);
    assert_eq!(mode(&Pando::data(&place.scratch).join("data.mdb")), 0o600);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// The disk of the replica is full during the first copy, and again while records arrive.
#[test]
fn full_disks_end_with_equal_data() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new("replica-full-supplier");
    let supplier = Pando::start(&scratch);
    let mut admin = supplier.administrator();
    fill(&mut admin, &mut random);
    let place = Place::new("replica-full", supplier.address());
    let data = Pando::data(&place.scratch);
    std::fs::create_dir(&data).unwrap();
    let room = place.scratch.write("room", random.u32(..2_000_000).to_string());
    let plan = PowerCut::new(&data.canonicalize().unwrap(), &place.scratch.join("journal")).room(&room);
    let (status, said) = place.to_start().with(&plan).refused();
    assert!(!status.success() && said.contains("the data of the supplier cannot be copied"), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    std::fs::write(&room, PLENTY).unwrap();
    let replica = place.to_start().with(&plan).ready();
    wait_until_equal(&scratch, &supplier, &replica);
    for round in 0..rounds(2) {
        std::fs::write(&room, random.u32(..2_000).to_string()).unwrap();
        change_some(&mut admin, &mut random, &format!("r{round}"));
        // Reads are still answered.
        assert!(replica.administrator().entry(&person_dn("anna"), &["1.1"]).unwrap().is_some());
        std::fs::write(&room, PLENTY).unwrap();
        wait_until_equal(&scratch, &supplier, &replica);
    }
    std::fs::write(&room, "0").unwrap();
    // Sends changes until the space that the log had allocated earlier is used up.
    until("the reason", || {
        let text: String = (0..LARGE_BYTES).map(|_| random.alphanumeric()).collect();
        replace(&mut admin, &format!("ou=large0,{SUFFIX}"), "description", &[&text]);
        (figure(&replica, "Apply") != "no").then_some(())
    });
    let doctor = command(&["doctor", "--node", place.node()], Some(&data)).expect_code(1);
    assert!(doctor.stdout.contains("it cannot apply records"), "{doctor}");
    replica.kill();
    std::fs::write(&room, PLENTY).unwrap();
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    command(&["verify"], Some(&data)).expect_code(0);
    assert!(supplier.stop().success());
}

/// An import would give a replica another history. So it is refused, both while the replica runs and after it has
/// stopped.
#[test]
fn imports_into_a_replica_are_refused() {
    let scratch = Scratch::new("replica-import-supplier");
    let supplier = Pando::start(&scratch);
    plant(&mut supplier.administrator());
    let place = Place::new("replica-import", supplier.address());
    let data = Pando::data(&place.scratch);
    let ldif = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n";
    let ldif = place.scratch.write("new.ldif", ldif).display().to_string();
    let schema =
        place.scratch.write("new.schema", "attributetype ( 1.3.6.1.4.1.32473.1.1 NAME 'badge' SUP name )");
    let schema = schema.display().to_string();
    let replica = place.start();
    let refused = || {
        for more in [&["--replace"][..], &["--add"], &["--suffix", "o=new"], &["--schema-from", &schema]] {
            let arguments = [&["import"][..], more, &[&ldif]].concat();
            command(&arguments, Some(&data)).expect_code(4).expect_error("import at the supplier");
        }
    };
    refused();
    until("the doctor's findings", || {
        let doctor = command(&["doctor", "--node", place.node()], Some(&data));
        let at_supplier = command(&["doctor"], Some(&Pando::data(&scratch)));
        let is_found = doctor.stdout.contains("it follows ldap://")
            && at_supplier.stdout.contains("1 read the log of this server");
        is_found.then_some(())
    });
    assert!(replica.stop().success());
    refused();
    let replica = place.start();
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// A server of a chain. It is always started on the same address.
struct Link<'s> {
    to_start: Box<dyn Fn() -> Start + 's>,
    pando: Option<Pando>,
    address: SocketAddr,
}

impl<'s> Link<'s> {
    fn new(to_start: impl Fn() -> Start + 's) -> Link<'s> {
        let pando = to_start().ready();
        Link { to_start: Box::new(to_start), address: pando.address(), pando: Some(pando) }
    }

    fn kill(&mut self) {
        self.pando.take().unwrap().kill();
    }

    fn start(&mut self) {
        let listen = format!("ldap://{}", self.address);
        self.pando = Some((self.to_start)().arguments(&["--listen", &listen]).ready());
    }

    fn pando(&self) -> &Pando {
        self.pando.as_ref().unwrap()
    }
}

/// A supplier, its replica and a replica of this replica are killed in random order while clients of all three make
/// changes. No acknowledged change is lost, and all three servers end with the same data.
#[test]
fn killed_chains_end_with_every_acknowledged_change() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new("replica-chain-killed");
    let supplier = Link::new(|| Start::new(&scratch));
    let mut writers = Writer::planted(3, &mut random, &mut supplier.pando().administrator());
    let middle_place = Place::new("replica-chain-killed-middle", supplier.address);
    let middle = Link::new(|| middle_place.to_start());
    let last_place = Place::new("replica-chain-killed-last", middle.address);
    let mut chain = [supplier, middle, Link::new(|| last_place.to_start())];
    for round in 0..rounds(6) {
        let (sender, acknowledged) = channel();
        let (victim, wanted) = (random.usize(..3), random.usize(5..60));
        let addresses = chain.each_ref().map(|link| link.address);
        std::thread::scope(|scope| {
            for (writer, address) in writers.iter_mut().zip(addresses) {
                let sender = sender.clone();
                scope.spawn(move || {
                    if let Some(refusal) = writer.write_until_refused(address, &sender) {
                        assert_eq!(refusal.code, ResultCode::UNAVAILABLE, "{refusal:?}");
                    }
                });
            }
            for _ in 0..wanted {
                acknowledged.recv_timeout(DEADLINE).unwrap();
            }
            chain[victim].kill();
            // The clients of the other servers end at their next answer.
            drop(acknowledged);
        });
        chain[victim].start();
        let [supplier, middle, last] = chain.each_ref().map(Link::pando);
        replace(&mut supplier.administrator(), SUFFIX, "description", &[&format!("round {round}")]);
        wait_until_equal(&scratch, supplier, middle);
        wait_until_equal(&scratch, supplier, last);
        for writer in &mut writers {
            writer.check_with_refused(&mut supplier.administrator());
            writer.check(&mut middle.administrator());
            writer.check(&mut last.administrator());
        }
    }
    for link in chain.iter_mut().rev() {
        assert!(link.pando.take().unwrap().stop().success());
    }
    for scratch in [&scratch, &middle_place.scratch, &last_place.scratch] {
        command(&["verify"], Some(&Pando::data(scratch))).expect_code(0);
    }
}
