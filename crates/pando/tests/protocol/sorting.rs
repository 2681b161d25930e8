//! Sorted results, as ldapsearch requests them (RFC 2891).

use std::path::Path;

use test_support::clients::{Run, ldap_utility};
use test_support::pando::command;
use test_support::{Pando, SUFFIX, Scratch};

/// Number of people. Surnames repeat, and numbers are unique; every tenth person has no room number.
const PEOPLE: usize = 2_000;

fn people(scratch: &Scratch) -> Pando {
    let settings = scratch.join("none.toml");
    std::fs::write(&settings, format!("suffixes = [{SUFFIX:?}]\n")).unwrap();
    people_with(scratch, &settings)
}

/// Imports the people into a directory with the settings of a file, and starts a server.
fn people_with(scratch: &Scratch, settings: &Path) -> Pando {
    use std::fmt::Write as _;
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..PEOPLE {
        let turned = number * 7_919 % PEOPLE;
        let room = if number % 10 == 0 { String::new() } else { format!("roomNumber: {:05}\n", turned / 2) };
        writeln!(
            ldif,
            "dn: uid=p{number},{SUFFIX}\nobjectClass: inetOrgPerson\ncn: x\nsn: Name {:02}\n\
             employeeNumber: {turned:05}\n{room}",
            turned % 40
        )
        .unwrap();
    }
    let file = scratch.join("people.ldif");
    std::fs::write(&file, ldif).unwrap();
    let settings = settings.to_str().unwrap();
    command(&["import", "--settings", settings, file.to_str().unwrap()], Some(&Pando::data(scratch)))
        .expect_code(0);
    Pando::start(scratch)
}

/// Returns the values of an attribute in the order of ldapsearch's output, with `-` for an entry without a value.
fn values<'r>(run: &'r Run, attribute: &str) -> Vec<&'r str> {
    let entries = run.stdout.split("\n\n").filter(|entry| entry.contains("dn: uid="));
    let value = |entry: &'r str| {
        entry.lines().find_map(|line| line.strip_prefix(attribute)?.strip_prefix(": ")).unwrap_or("-")
    };
    entries.map(value).collect()
}

fn is_sorted(values: &[&str]) -> bool {
    values.windows(2).all(|pair| pair[0] <= pair[1])
}

#[test]
fn ldapsearch_gets_the_order_it_asks_for() {
    let scratch = Scratch::new("sorting");
    let pando = people(&scratch);
    let search = |options: &[&str], code: i32| {
        let all = [options, &["-b", SUFFIX, "(uid=*)", "employeeNumber", "sn", "roomNumber"]].concat();
        ldap_utility("ldapsearch", pando.address(), &all, "").expect_code(code)
    };
    let root = ldap_utility("ldapsearch", pando.address(), &["-s", "base", "-b", "", "supportedControl"], "");
    root.expect_code(0).expect_output("supportedControl: 1.2.840.113556.1.4.473");

    let run = search(&["-E", "!sss=employeeNumber"], 0).expect_output("sortResult: (0) Success");
    let numbers = values(&run, "employeeNumber");
    assert!(numbers.len() == PEOPLE && is_sorted(&numbers), "{run}");

    // Sort by two keys, one of them reversed, in pages.
    let paged = search(&["-E", "!sss=sn/-employeeNumber", "-E", "pr=300/noprompt"], 0);
    let (names, mut numbers) = (values(&paged, "sn"), values(&paged, "employeeNumber"));
    assert!(names.len() == PEOPLE && is_sorted(&names));
    for name in numbers.chunks(PEOPLE / 40) {
        assert!(name.windows(2).all(|pair| pair[0] > pair[1]), "{name:?}");
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), PEOPLE);

    // Missing values count as the greatest, so they come first in reverse order.
    let rooms = search(&["-E", "!sss=-roomNumber:caseIgnoreOrderingMatch", "-z", "250"], 4);
    let rooms = values(&rooms, "roomNumber");
    assert_eq!(rooms.len(), 250);
    assert!(rooms[..200].iter().all(|room| *room == "-") && !rooms[200..].contains(&"-"));
    assert_eq!(rooms[200], format!("{:05}", PEOPLE / 2 - 1));

    let plain = search(&[], 0);
    let unsorted = search(&["-E", "sss=nonsense"], 0).expect_output("sortResult: (16) No such attribute");
    assert_eq!(values(&unsorted, "employeeNumber"), values(&plain, "employeeNumber"));
    let refused = search(&["-E", "!sss=nonsense"], 12);
    assert_eq!(values(&refused, "employeeNumber").len(), 0);
}

/// An import builds sort orders. Changes update them, even with kills in between, and `pando verify` finds no
/// difference.
#[test]
fn sort_orders_answer_virtual_list_views() {
    let scratch = Scratch::new("sort-orders");
    let settings = scratch.join("orders.toml");
    let order = "numbers: employeeNumber matching '(objectClass=person)'";
    std::fs::write(&settings, format!("suffixes = [{SUFFIX:?}]\nsort_orders = [{order:?}]\n")).unwrap();
    let mut pando = people_with(&scratch, &settings);
    let part = |pando: &Pando, place: usize| {
        let window = format!("!vlv=1/1/{place}/0");
        let options = ["-E", "!sss=employeeNumber", "-E", &window, "-b", SUFFIX];
        let all = [&options[..], &["(objectClass=person)", "employeeNumber"]].concat();
        // Because it has no input, ldapsearch requests all later parts, and then fails.
        let run = ldap_utility("ldapsearch", pando.address(), &all, "");
        values(&run, "employeeNumber").into_iter().take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    for round in 0..3 {
        let place = 1_000 + round;
        let expected: Vec<String> = (place - 2..=place).map(|number| format!("{number:05}")).collect();
        assert_eq!(part(&pando, place - round), expected, "the first {round} are deleted");
        let least = (0..PEOPLE).find(|number| number * 7_919 % PEOPLE == round).unwrap();
        assert!(pando.administrator().delete(&format!("uid=p{least},{SUFFIX}")).unwrap().is_success());
        pando.kill();
        command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
        pando = Pando::start(&scratch);
    }
}
