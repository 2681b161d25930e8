//! `pando index` and `pando explain` on the command line, and the state of an unfinished index after a power cut.

use std::process::Command;

use powercut::PowerCut;
use test_support::pando::{Start, command, program};
use test_support::{Pando, SUFFIX, Scratch};

/// Number of power cuts.
const ROUNDS: u64 = 10;
/// Maximum number of writes and syncs of a command before the power is cut.
const CALLS_MAX: u64 = 100;

/// Returns a folder with the data of the sample organisation, which no server has open.
fn sample(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    assert!(Start::new(&scratch).arguments(&["--sample"]).ready().stop().success());
    scratch
}

fn explain(scratch: &Scratch, filter: &str) -> String {
    command(&["explain", "--base", SUFFIX, filter], Some(&Pando::data(scratch))).expect_code(0).stdout
}

#[test]
fn indexes_are_added_and_dropped() {
    let scratch = sample("indexes");
    let data = Pando::data(&scratch);
    let index = |arguments: &[&str]| command(&[&["index"], arguments].concat(), Some(&data));
    let filter = "(&(objectClass=person)(cn=*ber*))";
    let before = explain(&scratch, filter);
    assert!(
        before.starts_with("scan of all") && before.contains("missing: a substring index on cn"),
        "{before}"
    );

    let added = index(&["add", "commonName", "--kinds", "substring"]).expect_code(0);
    assert_eq!(added.stdout, "commonName equality,ordering,substring\n");
    let after = explain(&scratch, filter);
    assert!(after.starts_with("by indexes:") && after.contains("*   substring of cn:"), "{after}");
    let returned =
        |text: &str| text.lines().find_map(|line| line.split_once("returned: ").map(|(_, n)| n.to_owned()));
    assert_eq!(returned(&before), returned(&after));

    index(&["drop", "cn", "--kinds", "substring"]).expect_code(0);
    index(&["drop", "givenName"]).expect_code(0);
    let list = index(&["list"]).stdout;
    assert!(list.contains("cn equality,ordering\n") && !list.contains("givenName"), "{list}");
    index(&["add", "member"]).expect_code(1).expect_error("always indexed");
    index(&["add", "cn", "--kinds", "exact"]).expect_code(2).expect_error("not a kind of index");
    command(&["explain", "(cn="], Some(&data)).expect_code(2).expect_error("filter:");
    command(&["verify"], Some(&data)).expect_code(0);
}

#[test]
fn indexes_are_advised_from_the_searches_of_a_running_server() {
    let scratch = Scratch::new("indexes-advice");
    let data = Pando::data(&scratch);
    let mut text = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..2_500 {
        text += &format!(
            "dn: uid=p{number},{SUFFIX}\nobjectClass: inetOrgPerson\ncn: x\nsn: y\nemployeeNumber: {number}\n\n"
        );
    }
    let ldif = scratch.write("people.ldif", &text);
    command(&["import", "--suffix", SUFFIX, ldif.to_str().unwrap()], Some(&data)).expect_code(0);
    let advise = || command(&["index", "advise"], Some(&data));
    advise().expect_code(1).expect_error("is the directory being served?");
    let pando = Pando::start(&scratch);
    advise().expect_code(0).expect_output("No search lacked an index");
    let search = |pando: &Pando, filter: &str| {
        let reply =
            pando.administrator().search(SUFFIX, ldap::Scope::WholeSubtree, filter, &["1.1"]).unwrap();
        assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    };
    for number in [7, 77] {
        search(&pando, &format!("(employeeNumber={number})"));
    }
    // Each entry has a row in the index, with an id of 8 octets and a key of up to 28 octets.
    advise()
        .expect_code(0)
        .expect_output("  definition: indexes.employeeNumber = [\"equality\"]\n  size: about 8")
        .expect_output("  gain: 2 searches examined 5002 entries to return 2, in")
        .expect_output("  filter: (employeeNumber=?)\nNothing is changed.");
    command(&["index", "add", "employeeNumber"], Some(&data)).expect_code(0);
    advise().expect_code(0).expect_output("all such indexes exist by now");
    // 1,000 of 2,501 entries are sampled. All entries but one have a unique number.
    let list = command(&["index", "list", "--sizes", "--json"], Some(&data)).expect_code(0).stdout;
    let line = list.lines().find(|line| line.contains("\"employeeNumber\"")).unwrap();
    let size = serde_json::from_str::<serde_json::Value>(line).unwrap()["size"].clone();
    let [rows, keys, bytes] = ["rows", "keys", "bytes"].map(|name| size[name].as_u64().unwrap());
    assert!((2_490..=2_501).contains(&rows) && rows == keys && bytes > 12 * rows, "{line}");
    command(&["index", "list", "--sizes"], Some(&data))
        .expect_code(0)
        .expect_output("employeeNumber equality rows ")
        .expect_output("the sizes are estimates from 1000 of 2501 entries\n");
    assert!(pando.stop().success());
}

#[test]
fn an_index_build_continues_after_power_cuts() {
    let seed = test_support::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = sample("indexes-cut");
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let journal = scratch.join("journal");
    let verb = |round: u64| if round.is_multiple_of(2) { "add" } else { "drop" };
    let kinds = ["--kinds", "substring,approximate"];
    for round in 0..ROUNDS {
        let mut cut = Command::new(program());
        cut.args(["index", verb(round), "cn"]).args(kinds).arg("--data").arg(&data);
        PowerCut::new(&data, &journal).cut_at(random.u64(1..CALLS_MAX)).apply(&mut cut);
        let output = cut.output().unwrap();
        if output.status.code() == Some(powercut::EXIT_STATUS) {
            let discarded = powercut::discard_unsynced(&journal, random.u64(..)).unwrap();
            println!("round {round}: {discarded:?}");
        } else {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        command(&["verify"], Some(&data)).expect_code(0);
    }
    command(&["index", "add", "cn", kinds[0], kinds[1]], Some(&data)).expect_code(0);
    command(&["verify"], Some(&data)).expect_code(0);
    let list = command(&["index", "list"], Some(&data)).stdout;
    assert!(
        list.contains("cn equality,ordering,substring,approximate\n") && !list.contains("building"),
        "{list}"
    );
}
