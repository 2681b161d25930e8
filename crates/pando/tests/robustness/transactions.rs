//! The power is cut while clients commit transactions. The data has all changes of a transaction or none, and it has
//! every transaction that was acknowledged.

use std::net::SocketAddr;

use client::Connection;
use ldap::ResultCode;
use powercut::PowerCut;
use test_support::pando::{self, Pando, Start};
use test_support::transactions::{end, part_of, start, with_replace};
use test_support::tree::add;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

const CLIENTS: usize = 4;
const ROUNDS: u64 = 8;
/// Number of entries that a transaction changes.
const ENTRIES: usize = 5;
/// Maximum number of writes and syncs before the power is cut.
const CALLS_MAX: u64 = 300;

fn unit(client: usize, entry: usize) -> String {
    format!("ou=unit-{client}-{entry},{SUFFIX}")
}

/// Commits transactions that write the next number into the entries of a client, until the server has lost its power.
/// Returns the last number that was acknowledged, and the last that was sent.
fn commit_until_the_power_cut(address: SocketAddr, client: usize, from: u64) -> (u64, u64) {
    let (mut acknowledged, mut sent) = (from, from);
    let mut commits = || -> Result<(), client::ClientError> {
        let mut connection = Connection::open(address)?;
        connection.bind(ADMIN_DN, ADMIN_PASSWORD)?;
        loop {
            let identifier = start_of(&mut connection)?;
            let control = part_of(&identifier, &[]);
            for entry in 0..ENTRIES {
                with_replace(&unit(client, entry), "description", &(sent + 1).to_string(), |replace| {
                    connection.send(replace, control.as_controls())
                })?;
            }
            sent += 1;
            let value = ldap::EndTransaction { commits: true, identifier: &identifier }.encode();
            let ended = connection.extended(ldap::oids::END_TRANSACTION, Some(&value))?;
            assert_eq!(ended.outcome.code, ResultCode::SUCCESS, "{ended:?}");
            acknowledged = sent;
        }
    };
    let _ended_with_the_server = commits();
    (acknowledged, sent)
}

fn start_of(connection: &mut Connection) -> Result<Vec<u8>, client::ClientError> {
    let reply = connection.extended(ldap::oids::START_TRANSACTION, None)?;
    Ok(reply.extended.value.unwrap_or_default())
}

#[test]
fn a_power_cut_leaves_no_part_of_a_transaction() {
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let scratch = Scratch::new("transaction-powercut");
    {
        let pando = Pando::start(&scratch);
        let mut admin = pando.administrator();
        add(&mut admin, SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
        for (client, entry) in (0..CLIENTS).flat_map(|client| (0..ENTRIES).map(move |entry| (client, entry)))
        {
            let attributes = [("objectClass", "organizationalUnit"), ("description", "0")];
            add(&mut admin, &unit(client, entry), &attributes);
        }
        let identifier = start(&mut admin);
        assert!(end(&mut admin, &identifier, true).outcome.is_success());
        assert!(pando.stop().success());
    }
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let journal = scratch.join("journal");
    let mut numbers = [(0, 0); CLIENTS];
    for round in 0..test_support::rounds(ROUNDS) {
        let call = random.u64(1..CALLS_MAX);
        let power_cut = PowerCut::new(&data, &journal).cut_at(call);
        match Start::new(&scratch).with(&power_cut).ready_or_ended() {
            Ok(mut pando) => {
                let address = pando.address();
                std::thread::scope(|scope| {
                    for (client, number) in numbers.iter_mut().enumerate() {
                        scope.spawn(move || *number = commit_until_the_power_cut(address, client, number.1));
                    }
                });
                assert_eq!(pando.exit().code(), Some(powercut::EXIT_STATUS));
            }
            Err((status, said)) => assert_eq!(status.code(), Some(powercut::EXIT_STATUS), "{said}"),
        }
        let discarded = powercut::discard_unsynced(&journal, random.u64(..)).unwrap();
        println!("round {round}: cut at call {call}, {discarded:?}, {numbers:?}");
        let pando = Start::new(&scratch).ready();
        let mut admin = pando.administrator();
        for (client, (acknowledged, sent)) in numbers.iter_mut().enumerate() {
            let found: Vec<u64> = (0..ENTRIES)
                .map(|entry| admin.entry(&unit(client, entry), &["description"]).unwrap().unwrap())
                .map(|entry| entry.text("description").unwrap().parse().unwrap())
                .collect();
            assert!(found.iter().all(|number| *number == found[0]), "client {client}: {found:?}");
            assert!((*acknowledged..=*sent).contains(&found[0]), "{found:?}, {acknowledged} to {sent}");
            (*acknowledged, *sent) = (found[0], found[0]);
        }
        assert!(pando.stop().success());
        pando::command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    }
    assert!(numbers.iter().any(|(acknowledged, _)| *acknowledged > 0), "{numbers:?}");
}
