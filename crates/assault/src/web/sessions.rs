//! Sessions whose time has passed.

use powercut::Fault;

use super::CONSOLE;
use crate::data::{PERSON, PERSON_PASSWORD};
use crate::report::Finding;
use test_support::Scratch;
use test_support::http::Browser;
use test_support::pando::Start;

/// Seconds without a request after which a session ends: see `console/src/limits.rs`.
const IDLE: u32 = 15 * 60;

/// Uses sessions after their time has passed, in three ways: with the cookie, with the token, and by requests for live
/// figures, which a browser sends by itself. Each attempt must be refused, and so must a second attempt. The clock is
/// never set back, because a monotonic clock does not go back.
pub(super) fn expired(scratch: &Scratch) -> Finding {
    let (almost, late) = (scratch.join("almost"), scratch.join("late"));
    let faults = [
        Fault::clock_ahead(IDLE - 30).only_while(&almost),
        Fault::clock_ahead(2 * IDLE + 60).only_while(&late),
    ];
    let node = scratch.write("sessions.toml", CONSOLE);
    let pando = Start::new(scratch)
        .arguments(&["--node", node.to_str().unwrap()])
        .with_faults(&faults, &scratch.join("faults"))
        .ready();
    let browser = Browser::signed_in(&pando, PERSON, PERSON_PASSWORD);
    let other = Browser::signed_in(&pando, PERSON, PERSON_PASSWORD);
    std::fs::write(&almost, "").unwrap();
    let before = [browser.get("/search").status, other.get("/?live=1").status];
    std::fs::rename(&almost, &late).unwrap();
    let mut opened = Vec::new();
    let mut look = |what: &str, status: u16| {
        if ![303, 401].contains(&status) {
            opened.push(format!("{what}: {status}"));
        }
    };
    look("the live figures", other.get("/?live=1").status);
    look("a page", browser.get("/search").status);
    look("a form with the token", browser.post_json("/sign-out", &[]).status);
    look("a page, again", browser.get("/search").status);
    look("another form", other.post_json("/account/applications", &[("action", "remove")]).status);
    let again = Browser::signed_in(&pando, PERSON, PERSON_PASSWORD).get("/search").status;
    Finding::of("two sessions are used after their time")
        .bounded(before == [200, 200], format!("before: {before:?}"), "200 each")
        .bounded(opened.is_empty(), format!("{} open something: {opened:?}", opened.len()), "none")
        .bounded(again == 200, format!("a new one: {again}"), "200")
}
