//! Attacks on the console while the server's writer has stopped, is slow, or does not answer in time.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use powercut::{Fault, FaultCall};

use super::{BROWSER_MAX, CONSOLE, form, send_from};
use crate::bystander::ms;
use crate::data::{PERSON, PERSON_PASSWORD};
use crate::report::Finding;
use test_support::http::{Browser, quoted};
use test_support::pando::Start;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

/// Duration of each sync of the slow writer.
const SLOW: Duration = Duration::from_secs(2);

/// Duration of the sync that does not return in time: the page waits for 20 seconds.
const HALT: Duration = Duration::from_secs(24);

/// Maximum latency of a page that waits for the writer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Number of browsers that add entries at the same time, all signed in as the administrator.
const ADDING: usize = 6;

/// Limits a fault to the syncs of the writer.
fn syncing(fault: Fault) -> Fault {
    fault.thread("pando-writer").path("*/redo-*")
}

fn start(scratch: &Scratch) -> Start {
    let node = scratch.write("writers.toml", CONSOLE);
    Start::new(scratch).arguments(&["--node", node.to_str().unwrap()])
}

/// Adds a unit; returns the status.
fn add(browser: &Browser, name: &str) -> u16 {
    let fields = [("kind", "unit"), ("parent", SUFFIX), ("v:ou", name), ("step", "apply")];
    browser.post("/add", &fields).status
}

/// The writer stops while a user changes an entry. The page must report that, and the overview must not claim that all
/// is well.
pub(super) fn dead(scratch: &Scratch) -> Finding {
    let switch = scratch.join("disk-is-broken");
    let fault = syncing(Fault::new(FaultCall::Sync, 5)).only_while(&switch);
    let pando = start(scratch).with_faults(&[fault], &scratch.join("faults")).ready();
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let before = add(&browser, "before");
    std::fs::write(&switch, "").unwrap();
    let during = [add(&browser, "during"), add(&browser, "after")];
    let overview = browser.json("/");
    let attention = overview["attention"].to_string();
    let searched = browser.get("/search?q=huber").status;
    let wrong = send_from(Ipv4Addr::LOCALHOST, browser.address, &form("/add", &[], "")).status;
    std::fs::remove_file(&switch).unwrap();
    drop(pando);
    Finding::of("the writer stops because a sync fails, while a user adds entries")
        .bounded(before == 303, format!("before: {before}"), "303")
        .bounded(during.iter().all(|status| *status >= 400), format!("then {during:?}"), "an error each")
        .bounded(
            attention.contains("writes_stopped"),
            format!("the overview reports {attention}"),
            "writes_stopped",
        )
        .bounded(searched == 200 && wrong == 401, format!("searches: {searched}"), "200")
}

/// Each sync of the writer takes two seconds while several users add entries, and then one sync does not return in
/// time. Meanwhile other users search. Every entry whose page reports success must exist.
pub(super) fn slow(scratch: &Scratch) -> Finding {
    let (slow, halted) = (scratch.join("disk-is-slow"), scratch.join("disk-hangs"));
    let faults = [
        syncing(Fault::delay(FaultCall::Sync, SLOW)).only_while(&slow),
        syncing(Fault::delay(FaultCall::Sync, HALT)).only_while(&halted).times(1),
    ];
    let pando = start(scratch).with_faults(&faults, &scratch.join("faults")).ready();
    let adding: Vec<Browser> =
        (0..ADDING).map(|_| Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD)).collect();
    let reading = Browser::signed_in(&pando, PERSON, PERSON_PASSWORD);
    // Adds entries with these names at the same time. Returns the answers to a client that reads meanwhile, and to the
    // clients that add the entries.
    let under = |names: &[String]| {
        std::thread::scope(|scope| {
            let added: Vec<_> = (adding.iter().zip(names))
                .map(|(browser, name)| {
                    scope.spawn(move || {
                        let started = Instant::now();
                        (add(browser, name), started.elapsed())
                    })
                })
                .collect();
            let (mut longest, mut failed) = (Duration::ZERO, 0);
            while !added.iter().all(|thread| thread.is_finished()) {
                let started = Instant::now();
                failed += usize::from(reading.get("/search?q=huber").status != 200);
                longest = longest.max(started.elapsed());
            }
            let added: Vec<_> = added.into_iter().map(|thread| thread.join().unwrap()).collect();
            (added, longest, failed)
        })
    };
    let names: Vec<String> = (0..ADDING).map(|number| format!("slow-{number}")).collect();
    std::fs::write(&slow, "").unwrap();
    let (during, longest, failed) = under(&names);
    std::fs::remove_file(&slow).unwrap();
    std::fs::write(&halted, "").unwrap();
    let (unanswered, longest_halted, failed_halted) = under(&["halted".to_owned()]);
    std::fs::remove_file(&halted).unwrap();
    let after = add(&adding[0], "afterwards");
    let is_there = |name: &str| {
        reading.get(&format!("/entry?dn={}", quoted(&format!("ou={name},{SUFFIX}")))).status == 200
    };
    let lost =
        names.iter().zip(&during).filter(|(name, (status, _))| *status == 303 && !is_there(name)).count();
    let slowest = during.iter().chain(&unanswered).map(|(_, took)| *took).max().unwrap_or_default();
    let statuses: Vec<u16> = during.iter().map(|(status, _)| *status).collect();
    let halted: Vec<u16> = unanswered.iter().map(|(status, _)| *status).collect();
    Finding::of(format!("{ADDING} users add entries while each sync takes {}, then {}", ms(SLOW), ms(HALT)))
        .bounded(statuses.iter().all(|status| *status == 303), format!("slow: {statuses:?}"), "303 each")
        .bounded(halted == [504], format!("no answer: {halted:?}"), "504")
        .bounded(lost == 0 && after == 303, format!("{lost} lost, then {after}"), "none, 303")
        .bounded(failed + failed_halted == 0, format!("{} searches failed", failed + failed_halted), "none")
        .timely(
            true,
            longest.max(longest_halted) <= BROWSER_MAX && slowest <= ANSWER_MAX,
            format!("a search took {}, a change {}", ms(longest.max(longest_halted)), ms(slowest)),
            format!("{}, {}", ms(BROWSER_MAX), ms(ANSWER_MAX)),
        )
}
