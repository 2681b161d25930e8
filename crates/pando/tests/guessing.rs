//! Guesses of passwords from one address: their answers take longer, and other clients are not affected.
//!
//! A binary of its own: its binds have to arrive while others of them wait, which a busy machine hinders.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use client::Connection;
use ldap::{Authentication, BindRequest, ChangeOperation, Controls, MessageId, Request, ResultCode};
use support::pando::Start;
use support::tree::{person_dn, plant, replace};
use support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

const ANNA: &str = "uid=anna,ou=people,dc=example,dc=com";

/// Binds that are tried at the same time.
const GUESSES: usize = 40;

fn start(scratch: &Scratch, node: &str) -> Pando {
    let node = scratch.write("node.toml", node);
    let pando = Start::new(scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    let mut administrator = pando.administrator();
    let quick: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPasswordScheme", &["ssha"])];
    assert!(administrator.modify("cn=config", quick).unwrap().is_success());
    plant(&mut administrator);
    pando
}

fn send(pando: &Pando, name: &str, password: &str) -> (Connection, MessageId) {
    let authentication = Authentication::Simple(password.as_bytes());
    let request = Request::Bind(BindRequest { version: 3, name, authentication });
    let mut connection = pando.connect();
    let id = connection.send(request, Controls::NONE).unwrap();
    (connection, id)
}

type Sent = Vec<(Connection, MessageId)>;

/// Many wrong binds at the same time.
fn guess(pando: &Pando, name: &str) -> Sent {
    (0..GUESSES).map(|number| send(pando, name, &format!("guess{number}"))).collect()
}

/// Returns how many were answered as wrong, and how many as too many.
fn answers(sent: Sent) -> (usize, usize) {
    let codes: Vec<_> =
        sent.into_iter().map(|(mut asked, id)| asked.reply(id).unwrap().outcome.code).collect();
    let count = |code| codes.iter().filter(|found| **found == code).count();
    (count(ResultCode::INVALID_CREDENTIALS), count(ResultCode::BUSY))
}

#[test]
fn answers_to_guesses_wait_and_few_at_a_time() {
    let scratch = Scratch::new("guessing");
    let pando = start(&scratch, "trusted_networks = []\n");
    let names = [person_dn("anna"), person_dn("ghost")];
    let sent = names.each_ref().map(|name| guess(&pando, name));
    // Meanwhile others are served.
    assert!(pando.connect().bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    assert!(pando.connect().bind(&person_dn("bert"), "bert-secret").unwrap().is_success());
    for (name, sent) in names.iter().zip(sent) {
        let (wrong, busy) = answers(sent);
        assert_eq!(wrong + busy, GUESSES, "{name}");
        // Three at once and eight that wait; some of those may be over before the last one is sent.
        assert!(wrong >= 11 && busy >= 1, "{name}: {wrong} wrong, {busy} busy");
    }
    // The right password is good at once, and ends it.
    assert!(pando.connect().bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
}

/// A short name and a DN of one entry share their guesses.
#[test]
fn both_names_of_an_entry_count_as_one() {
    let scratch = Scratch::new("guessing-names");
    let pando = start(&scratch, "trusted_networks = []\n");
    replace(&mut pando.administrator(), "cn=config", "pandoBindName", &["staff: uid"]);
    let sent: Sent = (0..GUESSES)
        .map(|number| send(&pando, if number % 2 == 0 { "anna" } else { ANNA }, &format!("guess{number}")))
        .collect();
    let (wrong, busy) = answers(sent);
    // Three at once and eight that wait for each account: of two accounts, 22 at least would be wrong.
    assert!((11..22).contains(&wrong) && wrong + busy == GUESSES, "{wrong} wrong, {busy} busy");
}

#[test]
fn this_machine_is_trusted() {
    let scratch = Scratch::new("guessing-trusted");
    let pando = start(&scratch, "");
    assert_eq!(answers(guess(&pando, &person_dn("anna"))), (GUESSES, 0));
}
