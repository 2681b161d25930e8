//! Differences in the duration of failing binds, and the cost of binds of disconnected clients.

use client::Connection;
use ldap::{Authentication, BindRequest, Message, MessageId, Request, ResultCode};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use test_support::cluster::until;
use test_support::pando::Start;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{ADMIN_DN, DEADLINE, Pando, SUFFIX, Scratch};

/// Value of scheme {SSHA} for "right".
const SSHA: &str = "{SSHA}VRnVVuh+V5b2fbnvIY1G2RD/l45zYWx0c2FsdA==";

/// Returns names for which a bind with a wrong password fails, each for a different reason.
fn kinds() -> Vec<(&'static str, String)> {
    let person = |uid| format!("uid={uid},ou=people,{SUFFIX}");
    vec![
        ("unknown name", person("nobody")),
        ("unknown suffix", "o=elsewhere".to_owned()),
        ("unknown attribute type in the name", format!("nonsense=x,{SUFFIX}")),
        ("entry without a password", format!("ou=people,{SUFFIX}")),
        ("quick digest", person("quick")),
        ("scheme of the settings", person_dn("anna")),
        ("unknown scheme", person("foreign")),
        ("alias", person("alias")),
        ("referral", format!("ou=referral,{SUFFIX}")),
        ("administrator", ADMIN_DN.to_owned()),
        ("short name of an entry", "anna".to_owned()),
        ("short name of an entry without a password", "bare".to_owned()),
        ("unknown short name", "nobody".to_owned()),
        ("short name of two entries", "same".to_owned()),
    ]
}

/// Starts a server with an entry for each kind of name.
fn start(scratch: &Scratch) -> Pando {
    let node = scratch.join("node.toml");
    let node = if node.exists() { vec!["--node", node.to_str().unwrap()] } else { Vec::new() };
    let pando = Start::new(scratch).arguments(&node).ready();
    let mut connection = pando.administrator();
    plant(&mut connection);
    for (uid, password) in [("quick", SSHA), ("foreign", "{FOREIGN}x")] {
        let attributes =
            [("objectClass", "inetOrgPerson"), ("cn", uid), ("sn", uid), ("userPassword", password)];
        add(&mut connection, &person_dn(uid), &attributes);
    }
    for (dn, uid) in [("bare", "bare"), ("same", "same"), ("same2", "same")] {
        let attributes = [("objectClass", "inetOrgPerson"), ("cn", dn), ("sn", uid), ("uid", uid)];
        add(&mut connection, &format!("cn={dn},ou=people,{SUFFIX}"), &attributes);
    }
    replace(&mut connection, "cn=config", "pandoBindName", &["staff: uid, mail"]);
    let anna = person_dn("anna");
    let alias =
        [("objectClass", "alias"), ("objectClass", "extensibleObject"), ("aliasedObjectName", anna.as_str())];
    add(&mut connection, &person_dn("alias"), &alias);
    let referral = [
        ("objectClass", "referral"),
        ("objectClass", "extensibleObject"),
        ("ref", "ldap://127.0.0.1/o=elsewhere"),
    ];
    add(&mut connection, &format!("ou=referral,{SUFFIX}"), &referral);
    pando
}

/// Returns a figure of `cn=Passwords,cn=monitor`.
fn figure(administrator: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Passwords,cn=monitor");
    let entry = administrator.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

fn figures(administrator: &mut Connection) -> [u64; 2] {
    ["Jobs", "Hashes Verified"].map(|name| figure(administrator, name))
}

#[test]
fn every_failing_bind_costs_one_hash_on_the_pool() {
    let _alone = crate::alone();
    let scratch = Scratch::new("bind-cost");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let mut connection = pando.connect();
    for (kind, name) in kinds() {
        let before = figures(&mut administrator);
        // A bind with a password above the maximum length costs as much as a bind with a short password.
        for password in ["wrong".to_owned(), "x".repeat(20_000)] {
            let outcome = connection.bind(&name, &password).unwrap();
            assert_eq!(outcome.code, ResultCode::INVALID_CREDENTIALS, "{kind}: {outcome:?}");
            assert_eq!(outcome.diagnostic, "", "{kind}");
        }
        let after = figures(&mut administrator);
        assert_eq!(after, before.map(|count| count + 2), "{kind}: jobs and hashes");
    }
    // A bind with the right password computes only the hash of its storage scheme. The figures do not count a quick
    // digest. They count an Argon2 hash once.
    let before = figures(&mut administrator);
    assert!(connection.bind(&person_dn("quick"), "right").unwrap().is_success());
    assert_eq!(figures(&mut administrator), before);
    assert!(connection.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    assert_eq!(figures(&mut administrator), before.map(|count| count + 1));
    // A compare with the requester's own password also costs one hash.
    assert!(!connection.compare(&person_dn("anna"), "userPassword", "wrong").unwrap().is_success());
    assert_eq!(figures(&mut administrator), before.map(|count| count + 2));
}

/// Measures failing binds: `rounds` for each kind, in a different order in each round.
fn measure(address: SocketAddr, rounds: u64) -> Vec<(&'static str, Vec<Duration>)> {
    let mut connection = Connection::open(address).unwrap();
    let kinds = kinds();
    let mut times: Vec<_> = kinds.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &kind in &order {
            let started = Instant::now();
            let outcome = connection.bind(&kinds[kind].1, "wrong").unwrap();
            times[kind].1.push(started.elapsed());
            assert_eq!(outcome.code, ResultCode::INVALID_CREDENTIALS);
        }
    }
    for (_, times) in &mut times {
        times.sort_unstable();
    }
    times
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

/// Returns how often an attacker guesses the kind of a bind from its duration, with the best threshold between two
/// kinds.
fn best_guess(one: &[Duration], other: &[Duration]) -> f64 {
    let below =
        |sorted: &[Duration], at| sorted.partition_point(|time| *time <= at) as f64 / sorted.len() as f64;
    let difference = |at: &Duration| (below(one, *at) - below(other, *at)).abs();
    0.5 + one.iter().chain(other).map(difference).fold(0.0, f64::max) / 2.0
}

/// Prints and returns the largest relative difference of two medians, and the largest share of right guesses.
fn compare(when: &str, times: &[(&str, Vec<Duration>)]) -> (f64, f64) {
    let medians: Vec<_> = times.iter().map(|(_, times)| median(times)).collect();
    for ((kind, _), median) in times.iter().zip(&medians) {
        println!("{when}: {kind}: median {median:?}");
    }
    let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
    let apart = most.as_secs_f64() / least.as_secs_f64() - 1.0;
    let pairs =
        times.iter().enumerate().flat_map(|(at, one)| times[at + 1..].iter().map(move |two| (one, two)));
    let guess = pairs.map(|(one, two)| best_guess(&one.1, &two.1)).fold(0.5, f64::max);
    println!("{when}: medians at most {:.1}% apart, best guess {:.1}%", apart * 100.0, guess * 100.0);
    (apart, guess)
}

/// Failing binds of all kinds take the same time, idle and under load. With PANDO_TEST_ROUNDS=100, a thousand binds of
/// each kind must be indistinguishable. With fewer rounds, the test only detects whether a hash is computed, because a
/// hash takes far longer than the disturbances by other programs on the machine.
#[test]
fn the_time_of_a_failing_bind_does_not_reveal_the_reason() {
    let _alone = crate::alone();
    let rounds = test_support::rounds(10);
    let (apart_max, guess_max) = if rounds >= 1_000 { (0.05, 0.55) } else { (9.0, 1.0) };
    let scratch = Scratch::new("bind-time");
    // Without the bind cache, the successful binds of the load compute hashes too.
    scratch.write("node.toml", "bind_cache_seconds = 0\n");
    let pando = start(&scratch);
    measure(pando.address(), 2);
    let mut found = vec![compare("idle", &measure(pando.address(), rounds))];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (stop, mut connection) = (&stop, pando.administrator());
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if number == 0 {
                        connection.bind(&person_dn("bert"), "bert-secret").unwrap();
                    } else {
                        connection.entry(&person_dn("bert"), &["*"]).unwrap();
                    }
                }
            });
        }
        found.push(compare("under load", &measure(pando.address(), rounds)));
        stop.store(true, Ordering::Relaxed);
    });
    for (apart, guess) in found {
        assert!(apart <= apart_max && guess <= guess_max, "{apart:.3} {guess:.3}");
    }
}

fn encode(id: i32, request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request, controls: ldap::Controls::NONE }.encode(&mut bytes);
    bytes
}

fn failing_bind() -> Vec<u8> {
    let authentication = Authentication::Simple(b"wrong");
    encode(1, Request::Bind(BindRequest { version: 3, name: "o=elsewhere", authentication }))
}

fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Regression test: a successful bind waited for 4 s after 1,500 binds of clients that had closed their connections.
#[test]
fn binds_of_disconnected_clients_are_not_hashed() {
    let _alone = crate::alone();
    let scratch = Scratch::new("bind-gone");
    let pando = Start::with_node(&scratch, "hash_threads = 1\nbind_cache_seconds = 0\n").ready();
    let mut administrator = pando.administrator();
    let [jobs, hashes] = figures(&mut administrator);
    let bind = failing_bind();
    let with_unbind = [bind.clone(), encode(2, Request::Unbind)].concat();
    let with_request = [bind.clone(), bind.clone()].concat();
    // These open connections keep the single hash thread busy for a second or two.
    let stay: Vec<_> = (0..128).map(|_| send(pando.address(), &bind)).collect();
    const DISCONNECTED: u64 = 50;
    let mut open = Vec::new();
    for _ in 0..DISCONNECTED {
        drop(send(pando.address(), &bind));
        drop(send(pando.address(), &with_unbind));
        // After sending the unbind, the client keeps these connections open.
        open.push(send(pando.address(), &with_unbind));
        let half_closed = send(pando.address(), &bind);
        half_closed.shutdown(Shutdown::Write).unwrap();
        open.push(half_closed);
        let reset = send(pando.address(), &with_request);
        rustix::net::sockopt::set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
    }
    for mut stream in stay {
        // Wait for the response.
        assert!(stream.read(&mut [0; 64]).unwrap() > 0);
    }
    let mut connection = pando.connect();
    assert!(connection.bind(ADMIN_DN, test_support::ADMIN_PASSWORD).unwrap().is_success());
    // Binds of closed connections may come after the administrator's bind in the queue.
    let [jobs_after, hashes_after, dropped] = until("no bind waits", || {
        let [jobs_after, hashes_after] = figures(&mut administrator);
        let dropped = figure(&mut administrator, "Jobs Dropped");
        let is_done = jobs_after - jobs == hashes_after - hashes + dropped;
        is_done.then_some([jobs_after, hashes_after, dropped])
    });
    // A connection may be reset before its bind is read.
    assert!(
        (128 + 1 + 4 * DISCONNECTED..=128 + 1 + 5 * DISCONNECTED).contains(&(jobs_after - jobs)),
        "{}",
        jobs_after - jobs
    );
    assert_eq!(hashes_after - hashes, 128 + 1, "hashes for those who stayed");
    assert_eq!(dropped, jobs_after - jobs - (128 + 1));
}
