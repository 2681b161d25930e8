//! Comparison of a replica's data with its supplier's data.

use crate::replicas::{Place, figure, wait_until_equal};

use std::sync::atomic::{AtomicBool, Ordering};

use test_support::altered_rows::alter_row;
use test_support::cluster::until;
use test_support::pando::command;
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

/// Maximum number of people to add until the data has been compared.
const CHANGES_MAX: u32 = 3_000;

/// A comparison succeeds although clients change the data all the time. Then a row of an entry is altered while the
/// replica is stopped. The next comparison finds the part that contains the entry. A new copy of the data ends the
/// alert.
#[test]
fn an_altered_entry_of_a_replica_is_found() {
    let scratch = Scratch::new("compare-supplier");
    let supplier = Pando::start(&scratch);
    plant(&mut supplier.administrator());
    add(
        &mut supplier.administrator(),
        &format!("ou=planted,{SUFFIX}"),
        &[("objectClass", "organizationalUnit")],
    );
    let mut place = Place::new("compare-replica", supplier.address());
    let replica = compared_under_load(&supplier, &place);
    assert_eq!(figure(&replica, "Differing"), "no");
    wait_until_equal(&scratch, &supplier, &replica);
    assert!(replica.stop().success());
    alter_row(&Pando::data(&place.scratch), b"planted");
    // A supplier starts a comparison when its first replica reads the log, and then at intervals.
    assert!(supplier.stop().success());
    let supplier = Pando::start(&scratch);
    place.set_supplier(supplier.address(), "");
    let replica = place.start();
    until("a difference", || (figure(&replica, "Differing") == SUFFIX).then_some(()));
    assert!(replica.log().contains("differs from the supplier's at position"), "{}", replica.log());
    assert!(supplier.log().contains("replica \"test\" has other data at position"), "{}", supplier.log());
    assert!(
        replica.administrator().entry(&person_dn("anna"), &["1.1"]).unwrap().is_some(),
        "reads are still answered"
    );
    let doctor =
        command(&["doctor", "--node", place.node()], Some(&Pando::data(&place.scratch))).expect_code(1);
    assert!(doctor.stdout.contains(&format!("differs from its supplier's, in: {SUFFIX}.")), "{doctor}");
    let at_supplier = command(&["doctor"], Some(&Pando::data(&scratch))).expect_code(1);
    assert!(at_supplier.stdout.contains("comparisons found other data"), "{at_supplier}");
    assert!(replica.stop().success());
    std::fs::rename(Pando::data(&place.scratch), place.scratch.join("old")).unwrap();
    assert!(supplier.stop().success());
    let supplier = Pando::start(&scratch);
    place.set_supplier(supplier.address(), "");
    let replica = place.start();
    until("a round", || (figure(&replica, "Rounds") != "0").then_some(()));
    assert_eq!(figure(&replica, "Differing"), "no");
    assert!(replica.stop().success());
    assert!(supplier.stop().success());
}

/// Starts a replica, and waits until all of its data has been compared while a client makes changes.
fn compared_under_load(supplier: &Pando, place: &Place) -> Pando {
    let is_over = AtomicBool::new(false);
    let mut admin = supplier.administrator();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..CHANGES_MAX {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("n{number}");
                add_person(&mut admin, &name);
                replace(&mut admin, &person_dn(&name), "title", &[&name]);
            }
        });
        let replica = place.start();
        until("a round", || (figure(&replica, "Rounds") != "0").then_some(()));
        is_over.store(true, Ordering::Relaxed);
        replica
    })
}
