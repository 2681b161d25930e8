//! Guessed passwords from one address: their answers are delayed, and other clients are not affected.
//!
//! Each test runs alone: some of its binds must arrive while other binds wait, and a busy machine prevents that.

use client::Connection;
use ldap::{Authentication, BindRequest, ChangeOperation, Controls, MessageId, Request, ResultCode};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

const ANNA: &str = "uid=anna,ou=people,dc=example,dc=com";

/// Number of binds sent at the same time.
const GUESSES: usize = 40;

fn start(scratch: &Scratch, node: &str) -> Pando {
    let pando = Start::with_node(scratch, node).ready();
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

type PendingBinds = Vec<(Connection, MessageId)>;

/// Sends many wrong binds at the same time.
fn guess(pando: &Pando, name: &str) -> PendingBinds {
    (0..GUESSES).map(|number| send(pando, name, &format!("guess{number}"))).collect()
}

/// Returns how many binds were answered with invalidCredentials, and how many with busy.
fn answers(sent: PendingBinds) -> (usize, usize) {
    let codes: Vec<_> =
        sent.into_iter().map(|(mut asked, id)| asked.reply(id).unwrap().outcome.code).collect();
    let count = |code| codes.iter().filter(|found| **found == code).count();
    (count(ResultCode::INVALID_CREDENTIALS), count(ResultCode::BUSY))
}

#[test]
fn guesses_are_delayed_and_few_are_verified_at_once() {
    let _alone = crate::alone();
    let scratch = Scratch::new("guessing");
    let pando = start(&scratch, "trusted_networks = []\n");
    let names = [person_dn("anna"), person_dn("ghost")];
    let sent = names.each_ref().map(|name| guess(&pando, name));
    // Other clients are served meanwhile.
    assert!(pando.connect().bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    assert!(pando.connect().bind(&person_dn("bert"), "bert-secret").unwrap().is_success());
    for (name, sent) in names.iter().zip(sent) {
        let (wrong, busy) = answers(sent);
        assert_eq!(wrong + busy, GUESSES, "{name}");
        // Three binds are verified at the same time, and eight wait. Some may be finished before the last bind is sent.
        assert!(wrong >= 11 && busy >= 1, "{name}: {wrong} wrong, {busy} busy");
    }
    // The right password is accepted immediately, and resets the delay.
    assert!(pando.connect().bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
}

/// Guesses by a short name and by the DN of the same entry are counted together.
#[test]
fn guesses_by_both_names_of_an_entry_are_counted_together() {
    let _alone = crate::alone();
    let scratch = Scratch::new("guessing-names");
    let pando = start(&scratch, "trusted_networks = []\n");
    replace(&mut pando.administrator(), "cn=config", "pandoBindName", &["staff: uid"]);
    let sent: PendingBinds = (0..GUESSES)
        .map(|number| send(&pando, if number % 2 == 0 { "anna" } else { ANNA }, &format!("guess{number}")))
        .collect();
    let (wrong, busy) = answers(sent);
    // For each account, three binds are verified at the same time, and eight wait. If the names counted as two
    // accounts, at least 22 binds would be wrong.
    assert!((11..22).contains(&wrong) && wrong + busy == GUESSES, "{wrong} wrong, {busy} busy");
}

#[test]
fn guesses_from_this_machine_are_not_delayed() {
    let _alone = crate::alone();
    let scratch = Scratch::new("guessing-trusted");
    let pando = start(&scratch, "");
    assert_eq!(answers(guess(&pando, &person_dn("anna"))), (GUESSES, 0));
}
