//! Restarts of promoted servers whose settings still name their former supplier. There must never be two writers.

use crate::replicas::{figure, wait_until_equal};

use std::path::PathBuf;

use ldap::ResultCode;
use test_support::cluster::until;
use test_support::metrics;
use test_support::pando::{Start, command};
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

const LOST: [&str; 3] = ["replica", "promote", "--without-supplier"];

/// One of two servers. Each server names the other server as its supplier.
struct Twin {
    scratch: Scratch,
    node: PathBuf,
}

impl Twin {
    /// Writes a node file that names the socket in the supplier's data directory. The socket keeps its name, so the
    /// node file remains valid after each restart.
    fn of(scratch: Scratch, supplier: &Scratch) -> Twin {
        let password = scratch.write("password", ADMIN_PASSWORD);
        let socket = Pando::data(supplier).join("pando.sock").display().to_string().replace('/', "%2F");
        let table = format!(
            "[replica]\nsupplier = \"ldapi://{socket}\"\nbind_dn = \"{ADMIN_DN}\"\npassword_file = {password:?}\n{}",
            metrics::NODE_FILE
        );
        let node = scratch.write("node.toml", table);
        Twin { scratch, node }
    }

    fn start(&self) -> Pando {
        Start::new(&self.scratch).arguments(&["--node", self.node.to_str().unwrap()]).ready()
    }

    fn promote(&self, verb: &[&str]) -> test_support::clients::Run {
        command(verb, Some(&Pando::data(&self.scratch)))
    }
}

fn add_code(pando: &Pando, name: &str) -> (ResultCode, String) {
    let attributes = [("objectClass", "inetOrgPerson"), ("cn", name), ("sn", name)];
    let outcome = pando.administrator().add(&person_dn(name), &attributes).unwrap();
    (outcome.code, outcome.diagnostic)
}

fn has(pando: &Pando, name: &str) -> bool {
    pando.administrator().entry(&person_dn(name), &["1.1"]).unwrap().is_some()
}

/// Returns a former supplier, which refuses changes, and the writer that replaced it. Both servers are stopped.
fn promoted_pair(name: &str) -> (Twin, Twin) {
    let scratches = ["a", "b"].map(|end| Scratch::new(&format!("{name}-{end}")));
    let first = Pando::start(&scratches[0]);
    plant(&mut first.administrator());
    let [a, b] = scratches;
    let b = Twin::of(b, &a);
    let a = Twin::of(a, &b.scratch);
    let second = b.start();
    wait_until_equal(&b.scratch, &first, &second);
    b.promote(&["replica", "promote"]).expect_code(0);
    assert!(second.stop().success());
    // The former supplier knows no later promotion. The first change after the start waits for the former supplier's
    // answer, and is then made.
    let second = b.start();
    assert_eq!(add_code(&second, "kept").0, ResultCode::SUCCESS);
    assert_eq!(figure(&second, "State"), "promoted");
    assert!(second.log().contains("remove the table [replica]"), "{}", second.log());
    assert_eq!(add_code(&first, "late").0, ResultCode::UNAVAILABLE);
    assert!(second.stop().success());
    assert!(first.stop().success());
    (a, b)
}

/// Until the former supplier answers, no change is made.
#[test]
fn a_promoted_server_writes_only_when_it_knows_that_it_is_the_writer() {
    let (a, b) = promoted_pair("doubt-alone");
    let second = b.start();
    let (code, text) = add_code(&second, "doubted");
    assert_eq!(code, ResultCode::UNAVAILABLE);
    assert!(text.contains("remove the table and restart it"), "{text}");
    assert!(has(&second, "kept"), "reads are answered");
    let ready = metrics::wait_for_ready(&second, 503);
    assert!(ready.contains("has not said whether it was promoted later"), "{ready}");
    assert_eq!(figure(&second, "State"), "undecided");
    b.promote(&["replica", "promote"]).expect_code(1).expect_error("--without-supplier");
    // The promoted server asks again. The former supplier then follows the promoted server, and knows no later epoch.
    let first = a.start();
    until("a change", || (add_code(&second, "known").0 == ResultCode::SUCCESS).then_some(()));
    wait_until_equal(&a.scratch, &first, &second);
    metrics::wait_for_ready(&second, 200);
    assert_eq!(figure(&first, "State"), "following");
    assert!(first.stop().success());
    assert!(second.stop().success());
    // The administrator first declares that the former supplier is lost, and then removes the table [replica].
    let second = b.start();
    b.promote(&LOST).expect_code(0);
    assert_eq!(add_code(&second, "promoted").0, ResultCode::SUCCESS);
    assert!(second.stop().success());
    let second = Pando::start(&b.scratch);
    assert_eq!(add_code(&second, "without").0, ResultCode::SUCCESS, "the table is removed");
    assert!(second.stop().success());
}

/// Regression test: the former writer made changes until a replica of the promoted server asked it for records.
#[test]
fn a_restarted_former_writer_is_stopped_by_the_promoted_server() {
    let scratches = ["a", "b"].map(|end| Scratch::new(&format!("doubt-watch-{end}")));
    let first = Pando::start(&scratches[0]);
    plant(&mut first.administrator());
    let [a, b] = scratches;
    let b = Twin::of(b, &a);
    let second = b.start();
    wait_until_equal(&b.scratch, &first, &second);
    assert!(first.stop().success());
    b.promote(&LOST).expect_code(0);
    assert_eq!(add_code(&second, "new").0, ResultCode::SUCCESS);
    let first = Pando::start(&a);
    until("the fence", || (add_code(&first, "old").0 == ResultCode::UNAVAILABLE).then_some(()));
    assert_eq!(add_code(&second, "newer").0, ResultCode::SUCCESS);
    assert!(second.stop().success());
    // Regression test: users could not read a promoted server. It follows no log, so its data counted as too old.
    let table = std::fs::read_to_string(&b.node).unwrap();
    std::fs::write(&b.node, table.replace("[replica]\n", "[replica]\nread_age_seconds = 60\n")).unwrap();
    let second = b.start();
    until("a change", || (add_code(&second, "newest").0 == ResultCode::SUCCESS).then_some(()));
    let (mut user, anna) = (second.connect(), person_dn("anna"));
    assert!(user.bind(&anna, "anna-secret").unwrap().is_success());
    assert!(user.entry(&anna, &["1.1"]).unwrap().is_some());
    assert!(second.stop().success());
    assert!(first.stop().success());
}

/// Regression test: after promotions of A, B and A, B was started with A as its supplier, and both were writers.
#[test]
fn two_promotions_leave_one_writer() {
    let (a, b) = promoted_pair("doubt-back");
    let (second, first) = (b.start(), a.start());
    wait_until_equal(&a.scratch, &first, &second);
    second.kill();
    a.promote(&LOST).expect_code(0);
    assert_eq!(add_code(&first, "again").0, ResultCode::SUCCESS);
    let second = b.start();
    wait_until_equal(&a.scratch, &first, &second);
    assert_eq!((&*figure(&second, "State"), &*figure(&second, "Epoch")), ("following", "3"));
    assert_eq!(add_code(&second, "forwarded").0, ResultCode::SUCCESS);
    assert!(has(&first, "forwarded"));
    // Each server names the other one as its supplier. The server with the last epoch is the writer, whichever server
    // starts first.
    assert!(first.stop().success());
    assert!(second.stop().success());
    let first = a.start();
    assert_eq!(add_code(&first, "doubted").0, ResultCode::UNAVAILABLE);
    let second = b.start();
    until("a change", || (add_code(&first, "known").0 == ResultCode::SUCCESS).then_some(()));
    wait_until_equal(&a.scratch, &first, &second);
    // The second server is promoted again, and makes a change that the first server never receives.
    b.promote(&["replica", "promote"]).expect_code(0);
    assert!(first.stop().success());
    assert_eq!(add_code(&second, "lost").0, ResultCode::SUCCESS);
    second.kill();
    let first = a.start();
    a.promote(&LOST).expect_code(0);
    assert_eq!(add_code(&first, "last").0, ResultCode::SUCCESS);
    let second = b.start();
    until("the reason", || figure(&second, "Failing").contains("histories differ").then_some(()));
    assert!(has(&second, "lost") && !has(&first, "lost"), "nothing is merged");
    assert!(second.stop().success());
    assert!(first.stop().success());
}
