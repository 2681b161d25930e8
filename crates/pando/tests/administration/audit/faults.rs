//! The audit trail when the server is killed, and when its disk is cut off or full.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use powercut::PowerCut;

use super::*;

/// Adds entries from several connections until the server ends. Returns the names of the acknowledged entries.
fn add_until_the_server_ends(pando: &Pando, round: usize, stop: impl FnOnce()) -> Vec<String> {
    let (acknowledged, count) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let mut connection = pando.administrator();
            let (acknowledged, count) = (&acknowledged, &count);
            scope.spawn(move || {
                for number in 0.. {
                    let dn = format!("ou=r{round}w{writer}n{number},{SUFFIX}");
                    let unit = [("objectClass", "organizationalUnit")];
                    match connection.add(&dn, &unit) {
                        Ok(outcome) if outcome.is_success() => acknowledged.lock().unwrap().push(dn),
                        _ => return,
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        stop_after(&count, 60 + round * 37, stop);
    });
    acknowledged.into_inner().unwrap()
}

fn stop_after(count: &AtomicUsize, wanted: usize, stop: impl FnOnce()) {
    let begun = std::time::Instant::now();
    while count.load(Ordering::Relaxed) < wanted {
        assert!(begun.elapsed() < DEADLINE, "changes go on being acknowledged");
        std::thread::yield_now();
    }
    stop();
}

/// Checks that the trail is intact and contains each of these entries once.
#[track_caller]
fn check_adds(scratch: &Scratch, acknowledged: &[String]) {
    let run = audit(scratch, &["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    let mut last = 0;
    for event in events(scratch, &["--operation", "add"]) {
        let position = event["position"].as_u64().unwrap();
        assert!(position > last, "position {position} after {last}");
        last = position;
        *told.entry(event["target"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    for dn in acknowledged {
        assert_eq!(told.get(dn), Some(&1), "{dn}");
    }
}

#[test]
fn no_acknowledged_change_is_missing_after_kill_9() {
    let scratch = Scratch::new("audit-kill");
    let pando = start(&scratch, "").ready();
    plant_suffix(&mut pando.administrator());
    assert!(pando.stop().success());
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let pando = start(&scratch, "").ready();
        let id = rustix::process::Pid::from_raw(i32::try_from(pando.id()).unwrap()).unwrap();
        let kill = || rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        acknowledged.extend(add_until_the_server_ends(&pando, round, kill));
    }
    assert!(start(&scratch, "").ready().stop().success());
    check_adds(&scratch, &acknowledged);
    let starts = events(&scratch, &["--operation", "started"]);
    assert_eq!(starts.len(), 6);
}

/// A power cut loses everything that was not synced, both in the data and in the trail.
#[test]
fn no_acknowledged_change_is_missing_after_a_power_cut() {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let scratch = Scratch::new("audit-power");
    let in_data = |scratch: &Scratch| start_in(scratch, &scratch.join("data/trail"));
    let pando = in_data(&scratch).ready();
    plant_suffix(&mut pando.administrator());
    assert!(pando.stop().success());
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let journal = scratch.join("journal");
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let plan = PowerCut::new(&data, &journal).cut_at(random.u64(30..250));
        if let Ok(pando) = in_data(&scratch).with(&plan).ready_or_ended() {
            acknowledged.extend(add_until_cut(&pando, round));
        }
        let discarded = powercut::discard_unsynced(&journal, random.u64(..)).unwrap();
        println!("round {round}: {discarded:?}");
    }
    assert!(in_data(&scratch).ready().stop().success());
    std::fs::rename(data.join("trail"), folder(&scratch)).unwrap();
    check_adds(&scratch, &acknowledged);
}

fn start_in(scratch: &Scratch, folder: &Path) -> Start {
    Start::with_node(scratch, format!("[audit]\nfolder = \"{}\"\n", folder.display()))
}

fn add_until_cut(pando: &Pando, round: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = Connection::open(pando.address()) else { return acknowledged };
    if !connection.bind(ADMIN_DN, ADMIN_PASSWORD).is_ok_and(|outcome| outcome.is_success()) {
        return acknowledged;
    }
    for number in 0.. {
        let dn = format!("ou=r{round}n{number},{SUFFIX}");
        match connection.add(&dn, &[("objectClass", "organizationalUnit")]) {
            Ok(outcome) if outcome.is_success() => acknowledged.push(dn),
            _ => break,
        }
    }
    acknowledged
}

fn monitor(admin: &mut Connection, name: &str, attribute: &str) -> String {
    let dn = format!("cn={name},cn=Audit,cn=monitor");
    let entry = admin.entry(&dn, &[attribute]).unwrap().expect("the monitor has it");
    entry.texts(attribute).first().expect("it has a value").clone()
}

const SEARCHES: usize = 500;

/// Sends many searches with long random filters, which do not compress.
fn search_many(connection: &mut Connection, random: &mut fastrand::Rng) {
    let mut ids = Vec::new();
    for _ in 0..SEARCHES {
        let value: String = (0..900).map(|_| random.alphanumeric()).collect();
        let filter = ldap::FilterBuf::parse(&format!("(description={value})")).unwrap();
        let all = ldap::AttributeSelection::default();
        let request = ldap::SearchRequest::new(SUFFIX, ldap::Scope::BaseObject, filter.as_filter(), all);
        ids.push(connection.send(ldap::Request::Search(request), ldap::Controls::NONE).unwrap());
    }
    ids.into_iter().for_each(|id| {
        connection.reply(id).unwrap();
    });
}

#[test]
fn a_full_disk_loses_events_and_reports_their_number() {
    let scratch = Scratch::new("audit-count");
    let room = scratch.write("room", "40000");
    std::fs::create_dir(folder(&scratch)).unwrap();
    let plan = PowerCut::new(&folder(&scratch).canonicalize().unwrap(), &scratch.join("journal")).room(&room);
    let pando = start(&scratch, "overload = \"count\"\n").with(&plan).ready();
    let mut admin = pando.administrator();
    plant_suffix(&mut admin);
    let mut random = fastrand::Rng::with_seed(7);
    let begun = std::time::Instant::now();
    let lost =
        |admin: &mut Connection| monitor(admin, "Lost Events", "monitorCounter").parse::<u64>().unwrap();
    let mut searches = 0;
    while lost(&mut admin) == 0 {
        assert!(begun.elapsed() < DEADLINE, "the disk is full, and what waits has a bound");
        search_many(&mut admin, &mut random);
        searches += SEARCHES;
    }
    assert!(searches > 0);
    assert_eq!(monitor(&mut admin, "Failing", "monitoredInfo"), "true");
    assert!(pando.log().contains("the audit trail cannot be written"), "{}", pando.log());
    add(&mut admin, &format!("ou=while full,{SUFFIX}"), &[("objectClass", "organizationalUnit")]);
    std::fs::write(&room, "999999999").unwrap();
    while monitor(&mut admin, "Failing", "monitoredInfo") == "true" {
        assert!(begun.elapsed() < DEADLINE, "there is room again");
    }
    assert!(pando.stop().success());
    let report = audit(&scratch, &["verify"]).expect_code(0).expect_output("events were lost");
    let told: u64 =
        events(&scratch, &["--operation", "lost"]).iter().map(|e| e["count"].as_u64().unwrap()).sum();
    assert!(told > 0, "{report}");
    // No change is missing from the trail, because the trail takes changes from the log.
    assert_eq!(events(&scratch, &["--target", &format!("ou=while full,{SUFFIX}")]).len(), 1);
}

#[test]
fn a_full_disk_delays_responses_until_space_is_free() {
    let scratch = Scratch::new("audit-hold");
    let room = scratch.write("room", "40000");
    std::fs::create_dir(folder(&scratch)).unwrap();
    let plan = PowerCut::new(&folder(&scratch).canonicalize().unwrap(), &scratch.join("journal")).room(&room);
    let pando = start(&scratch, "").with(&plan).ready();
    plant_suffix(&mut pando.administrator());
    let answered = AtomicUsize::new(0);
    const ROUNDS: usize = 50;
    std::thread::scope(|scope| {
        let (mut connection, answered) = (pando.administrator(), &answered);
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(7);
            for _ in 0..ROUNDS {
                search_many(&mut connection, &mut random);
                answered.fetch_add(SEARCHES, Ordering::Relaxed);
            }
        });
        // The queue of events to write is bounded. When the queue is full, the server logs this and sends no responses.
        let begun = std::time::Instant::now();
        while !pando.log().contains("requests are held back") {
            assert!(begun.elapsed() < DEADLINE, "{}", pando.log());
            std::thread::yield_now();
        }
        assert!(answered.load(Ordering::Relaxed) < ROUNDS * SEARCHES, "some requests must wait");
        std::fs::write(&room, "999999999").unwrap();
    });
    assert_eq!(answered.load(Ordering::Relaxed), ROUNDS * SEARCHES, "all requests are answered at the end");
    assert!(pando.stop().success());
    audit(&scratch, &["verify"]).expect_code(0);
    assert_eq!(events(&scratch, &["--operation", "search"]).len(), ROUNDS * SEARCHES, "and none is missing");
    assert_eq!(events(&scratch, &["--operation", "lost"]).len(), 0);
}
