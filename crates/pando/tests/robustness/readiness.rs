//! `/ready` becomes false within five seconds after a problem begins, and true again after the problem ends. The module
//! `faults` tests failed syncs and hanging loops; the module `full` tests full disks.

use std::time::Instant;

use ldap::ResultCode;
use rustix::process::Signal;
use test_support::metrics::{self, expect_not_ready, expect_not_ready_now, page};
use test_support::pando::{SmallDisk, Start};
use test_support::tree::plant;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Starts a server with this table in its node file, and with metrics.
fn start(scratch: &Scratch, table: &str) -> Start {
    Start::with_node(scratch, format!("{table}{}", metrics::NODE_FILE))
}

/// The server measures the free space, so it reports a full disk before any change fails.
#[test]
fn a_disk_below_its_reserve_is_reported_full() {
    let scratch = Scratch::new("full-by-space");
    let data = Pando::data(&scratch);
    std::fs::create_dir(&data).unwrap();
    let pando = start(&scratch, "").on_small_disk(&data).ready();
    let disk = SmallDisk { pando: &pando, data };
    let mut admin = pando.administrator();
    plant(&mut admin);
    metrics::wait_for_ready(&pando, 200);
    for is_changed in [false, true] {
        disk.resize(100);
        let text = expect_not_ready(&pando, Instant::now(), "the disk is full");
        assert!(text.contains("MiB are free"), "{text}");
        let (status, text) = page(&pando, "/ready/read");
        assert!(status == 200 && text.contains("the disk is full"), "{status} {text}");
        let unit = [("objectClass", "organizationalUnit")];
        let dn = format!("ou=more,{SUFFIX}");
        if is_changed {
            let refused = admin.add(&dn, &unit).unwrap();
            assert_eq!(refused.code, ResultCode::UNWILLING_TO_PERFORM, "{refused:?}");
            expect_not_ready_now(&pando, "the disk is full");
        }
        // The server becomes ready again without a change, because clients may send their changes to another server
        // until this server is ready.
        disk.resize(1_000);
        metrics::wait_for_ready(&pando, 200);
        if is_changed {
            assert!(admin.add(&dn, &unit).unwrap().is_success());
        }
    }
    assert!(pando.stop().success());
}

/// The supplier is suspended: its connections stay open, and no data arrives.
#[test]
fn a_replica_that_lags_more_than_its_limit_is_not_ready() {
    let (of_supplier, of_replica) = (Scratch::new("lag-supplier"), Scratch::new("lag-replica"));
    let supplier = Pando::start(&of_supplier);
    plant(&mut supplier.administrator());
    let password = of_replica.write("password", ADMIN_PASSWORD);
    let table = format!(
        "[replica]\nsupplier = \"ldap://{}\"\nname = \"test\"\nbind_dn = \"{ADMIN_DN}\"\n\
         password_file = {password:?}\nread_age_seconds = 1\n",
        supplier.address()
    );
    let replica = start(&of_replica, &table).ready();
    metrics::wait_for_ready(&replica, 200);
    supplier.signal(Signal::STOP);
    expect_not_ready(&replica, Instant::now(), "are allowed (read_age_seconds)");
    assert_eq!(page(&replica, "/ready/read").0, 503, "its data is too old for reads, too");
    supplier.signal(Signal::CONT);
    metrics::wait_for_ready(&replica, 200);
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}
