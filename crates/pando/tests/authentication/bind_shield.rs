//! The effect of a flood of binds on other clients, and the cost of binds with a recently verified password.

use std::net::{SocketAddr, TcpStream};

use client::Connection;
use ldap::{
    Authentication, BindRequest, ChangeOperation, ChangesBuf, Controls, Message, MessageId, ModifyRequest,
    Request, ResultCode,
};
use socket2::{Domain, Socket, Type};
use test_support::cluster::until;
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, plant_policy};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

fn start(scratch: &Scratch, node: &str) -> Pando {
    let pando = Start::with_node(scratch, format!("hash_threads = 1\n{node}")).ready();
    plant(&mut pando.administrator());
    pando
}

/// Returns a figure of `cn=Passwords,cn=monitor`.
fn figure(administrator: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Passwords,cn=monitor");
    let entry = administrator.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

fn code(connection: &mut Connection, name: &str, password: &str) -> ResultCode {
    connection.bind(name, password).unwrap().code
}

/// Opens a connection from this address.
fn connect_from(source: [u8; 4], pando: &Pando) -> Connection {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&pando.address().into()).unwrap();
    Connection::over_tcp(TcpStream::from(socket)).unwrap()
}

#[test]
fn a_right_password_is_verified_once_and_a_wrong_one_always() {
    let scratch = Scratch::new("shield-cache");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    let anna = person_dn("anna");
    let hashes = |administrator: &mut Connection| figure(administrator, "Hashes Verified");
    let before = hashes(&mut administrator);
    for _ in 0..5 {
        assert_eq!(code(&mut pando.connect(), &anna, "anna-secret"), ResultCode::SUCCESS);
    }
    assert_eq!(hashes(&mut administrator), before + 1);
    assert_eq!(figure(&mut administrator, "Known"), 4 + 1, "and the administrator's second bind");
    for _ in 0..2 {
        assert_eq!(code(&mut pando.connect(), &anna, "wrong"), ResultCode::INVALID_CREDENTIALS);
    }
    assert_eq!(hashes(&mut administrator), before + 3);
    // After a change of the password, the old password is wrong immediately, and the new password is verified once.
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["other"])];
    assert!(administrator.modify(&anna, change).unwrap().is_success());
    assert_eq!(code(&mut pando.connect(), &anna, "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    for _ in 0..3 {
        assert_eq!(code(&mut pando.connect(), &anna, "other"), ResultCode::SUCCESS);
    }
    assert_eq!(hashes(&mut administrator), before + 5);
    assert!(administrator.delete(&anna).unwrap().is_success());
    assert_eq!(code(&mut pando.connect(), &anna, "other"), ResultCode::INVALID_CREDENTIALS);
}

#[test]
fn the_cache_can_be_switched_off() {
    let scratch = Scratch::new("shield-off");
    let pando = start(&scratch, "bind_cache_seconds = 0\n");
    let mut administrator = pando.administrator();
    let before = figure(&mut administrator, "Hashes Verified");
    for _ in 0..3 {
        assert_eq!(code(&mut pando.connect(), &person_dn("anna"), "anna-secret"), ResultCode::SUCCESS);
    }
    assert_eq!(figure(&mut administrator, "Hashes Verified"), before + 3);
    assert_eq!(figure(&mut administrator, "Known"), 0);
}

/// The cache of verified passwords does not affect locks and failure counts.
#[test]
fn a_locked_account_stays_locked_for_a_known_password() {
    let scratch = Scratch::new("shield-lock");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    let policy = [("objectClass", "pwdPolicy"), ("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")];
    plant_policy(&mut administrator, &policy);
    let anna = person_dn("anna");
    let bind = |password: &str| code(&mut pando.connect(), &anna, password);
    assert_eq!((bind("anna-secret"), bind("anna-secret")), (ResultCode::SUCCESS, ResultCode::SUCCESS));
    // A successful bind from the cache resets the failure count, as any successful bind does.
    assert_eq!((bind("no"), bind("no")), (ResultCode::INVALID_CREDENTIALS, ResultCode::INVALID_CREDENTIALS));
    assert_eq!(bind("anna-secret"), ResultCode::SUCCESS);
    for _ in 0..3 {
        assert_eq!(bind("no"), ResultCode::INVALID_CREDENTIALS);
    }
    let known = figure(&mut administrator, "Known");
    assert_eq!(bind("anna-secret"), ResultCode::INVALID_CREDENTIALS, "locked");
    assert_eq!(figure(&mut administrator, "Known"), known);
    let unlock: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "pwdAccountLockedTime", &[])];
    assert!(administrator.modify(&anna, unlock).unwrap().is_success());
    assert_eq!(bind("anna-secret"), ResultCode::SUCCESS);
}

/// More binds with wrong passwords arrive than the queue holds, each from a different address.
#[test]
fn a_flood_from_many_addresses_does_not_delay_other_clients() {
    let scratch = Scratch::new("shield-flood");
    let pando = start(&scratch, "bind_cache_seconds = 0\n");
    let mut good = connect_from([127, 9, 9, 9], &pando);
    assert_eq!(code(&mut good, &person_dn("anna"), "anna-secret"), ResultCode::SUCCESS);
    let send = |source: [u8; 4]| -> (Connection, MessageId) {
        let mut connection = connect_from(source, &pando);
        let name = person_dn("anna");
        let authentication = Authentication::Simple(b"wrong");
        let request = Request::Bind(BindRequest { version: 3, name: &name, authentication });
        let id = connection.send(request, Controls::NONE).unwrap();
        (connection, id)
    };
    let mut flood: Vec<_> =
        (0..600_u16).map(|number| send([127, 1, (number >> 8) as u8, number as u8])).collect();
    // Wait until the server has received the whole flood.
    let mut watch = Connection::open_local(&Pando::data(&scratch).join("pando.sock")).unwrap();
    assert!(watch.bind_external(None).unwrap().is_success());
    while figure(&mut watch, "Jobs") + figure(&mut watch, "Jobs Refused") < 600 {}
    let verified = figure(&mut watch, "Hashes Verified");
    assert_eq!(code(&mut good, &person_dn("anna"), "anna-secret"), ResultCode::SUCCESS);
    let passed = figure(&mut watch, "Hashes Verified") - verified;
    assert!(passed <= 20, "{passed} binds of the flood were verified first");
    // Event loops read in parallel, so the queue may be full for any bind of the flood. The binds in the queue are
    // answered later.
    let mut codes = flood.iter_mut().map(|(connection, id)| connection.reply(*id).unwrap().outcome.code);
    let answered = codes.by_ref().filter(|&code| code != ResultCode::BUSY).take(3).collect::<Vec<_>>();
    assert_eq!(answered, [ResultCode::INVALID_CREDENTIALS; 3]);
}

/// Returns messages with `count` changes of the user's own password. Each new password is different.
fn changes_of(name: &str, count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let mut changes = ChangesBuf::new();
        let password = format!("another password {number}");
        changes.push(ChangeOperation::Replace, "userPassword", [password]);
        let request = Request::Modify(ModifyRequest { object: name, changes: changes.as_changes() });
        let id = MessageId(i32::try_from(number).unwrap() + 10);
        Message { id, request, controls: Controls::NONE }.encode(&mut bytes);
    }
    bytes
}

/// Regression test: while one user flooded the server with changes of its password, the first bind of every other user
/// was answered with busy. If passwords had a history, this lasted for 87 s after the flood.
#[test]
fn a_flood_of_password_changes_does_not_block_binds() {
    let scratch = Scratch::new("shield-changes");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    plant_policy(&mut administrator, &[("objectClass", "pwdPolicy"), ("pwdInHistory", "24")]);
    let anna = person_dn("anna");
    let mut connections: Vec<Connection> = (2..6)
        .map(|address| {
            let mut connection = connect_from([127, 0, 0, address], &pando);
            assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
            connection
        })
        .collect();
    // Each of anna's addresses sends more changes than may wait in total.
    connections.iter_mut().for_each(|connection| connection.send_bytes(&changes_of(&anna, 600)).unwrap());
    // Anna has a limited share of the queue. Some of her requests are refused, and the rest wait. Binds of other users
    // do not wait.
    let mut busy = 0;
    while busy < 300 {
        let answer = connections[0].receive_any().unwrap();
        let result = answer.message().response.result().map(|result| result.code);
        busy += u32::from(result == Some(ResultCode::BUSY));
    }
    let mut bert = connect_from([127, 0, 0, 9], &pando);
    assert_eq!(code(&mut bert, &person_dn("bert"), "bert-secret"), ResultCode::SUCCESS);
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["other"])];
    assert!(bert.modify(&person_dn("bert"), change).unwrap().is_success());
    assert_eq!(code(&mut bert, ADMIN_DN, ADMIN_PASSWORD), ResultCode::SUCCESS);
    // Waiting jobs are dropped when their connection ends.
    let dropped = figure(&mut administrator, "Jobs Dropped");
    drop(connections);
    until("nothing waits to be hashed", || {
        (figure(&mut administrator, "Jobs Dropped") > dropped).then_some(())
    });
    assert!(pando.stop().success());
}

/// A client that ends its input while its passwords wait to be hashed may have disconnected, so its changes are
/// refused.
#[test]
fn changes_that_wait_for_hashes_are_refused_at_the_end_of_input() {
    let scratch = Scratch::new("shield-ended");
    let pando = start(&scratch, "");
    let anna = person_dn("anna");
    let mut connection = pando.connect();
    assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
    connection.send_bytes(&changes_of(&anna, 60)).unwrap();
    connection.finish_sending().unwrap();
    let mut codes = Vec::new();
    while codes.len() < 60 {
        let answer = connection.receive_any().unwrap();
        codes.extend(answer.message().response.result().map(|result| result.code));
    }
    let busy = codes.iter().filter(|code| **code == ResultCode::BUSY).count();
    assert!(
        busy > 30 && codes.iter().all(|code| [ResultCode::SUCCESS, ResultCode::BUSY].contains(code)),
        "{codes:?}"
    );
    assert_eq!(connection.closed().unwrap(), None);
    assert!(pando.stop().success());
}

/// Regression test: a user could store a value that made each bind with it cost the server a second of Argon2.
#[test]
fn only_the_administrator_may_store_hashes_above_the_cost_limit() {
    let scratch = Scratch::new("shield-costly");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    let anna = person_dn("anna");
    let mut own = pando.connect();
    assert!(own.bind(&anna, "anna-secret").unwrap().is_success());
    let salt_and_hash = "$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let argon2 = |parameters: &str| format!("{{ARGON2}}$argon2id$v=19${parameters}{salt_and_hash}");
    let bcrypt = |cost: u32| format!("{{CRYPT}}$2b${cost:02}${}", "a".repeat(53));
    let costly = [
        argon2("m=262144,t=8,p=1"),
        argon2("m=19456,t=3,p=1"),
        argon2("m=4194304,t=1000,p=1"),
        "{PBKDF2-SHA256}600000$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        "{CRYPT}$6$rounds=999999$salt$hash".to_owned(),
        bcrypt(15),
    ];
    for value in &costly {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[value])];
        let outcome = own.modify(&anna, change).unwrap();
        assert_eq!(outcome.code, ResultCode::CONSTRAINT_VIOLATION, "{value}");
        assert!(outcome.diagnostic.contains("password_scheme"), "{outcome:?}");
        assert_eq!(administrator.modify(&anna, change).unwrap().code, ResultCode::SUCCESS, "{value}");
    }
    for value in [argon2("m=19456,t=2,p=1"), bcrypt(8), "{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned()] {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[&value])];
        assert_eq!(own.modify(&anna, change).unwrap().code, ResultCode::SUCCESS, "{value}");
    }
    assert!(pando.stop().success());
}
