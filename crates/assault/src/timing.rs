//! Measurements of the information about names and passwords that an attacker can gain from the duration of failing
//! binds, and of the cost of binds whose clients have disconnected.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};

use crate::bystander::ms;
use crate::data::{self, PERSON_PASSWORD};
use crate::plan::Plan;
use crate::process::connections_possible;
use crate::report::{Finding, Report};
use crate::wire;
use test_support::pando::{Pando, Start};
use test_support::{ADMIN_DN, SUFFIX};

/// Maximum relative difference of medians, with [`SAMPLES`] binds of each kind.
const MEDIANS_MAX: f64 = 0.05;

/// Maximum share of binds that an attacker may classify correctly as one of two kinds by a threshold on the duration.
/// Random guesses classify half of the binds correctly.
const CLASSIFIED_MAX: f64 = 0.55;

/// Number of failing binds of each kind in the full run. With n times fewer binds, both limits are wider by a factor of
/// the square root of n.
const SAMPLES: usize = 1_000;

/// Number of failing binds of each kind in the quick run.
const SAMPLES_QUICK: usize = 30;

/// Maximum latency of a bind after many binds of disconnected clients.
const RIGHT_BIND_MAX: Duration = Duration::from_secs(1);

/// Number of disconnected clients.
const DISCONNECTED: usize = 1_500;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = ["timing/idle", "timing/load", "timing/gone-clients"];
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-timing");
    let pando = Start::new(&scratch).ready();
    let kinds = kinds(&pando);
    report.attack(names[0], || failing_binds(plan, &pando, &kinds, "an idle server"));
    report.attack(names[1], || {
        let load = Load::start(pando.address());
        let finding = failing_binds(plan, &pando, &kinds, "a server under load");
        load.end();
        finding
    });
    report.attack(names[2], || disconnected_clients(&pando));
}

/// A kind of failing bind: description and name. The password is wrong in each.
type Kind = (&'static str, String);

fn kinds(pando: &Pando) -> Vec<Kind> {
    let mut admin = pando.administrator();
    let mut kinds = vec![
        ("an unknown name", format!("uid=nobody,ou=people,{SUFFIX}")),
        ("an unknown parent", format!("uid=x,ou=none,{SUFFIX}")),
        ("another suffix", "uid=x,o=else".to_owned()),
        ("no password", format!("ou=people,{SUFFIX}")),
        ("the administrator", ADMIN_DN.to_owned()),
    ];
    for scheme in ["ssha", "ssha512", "clear", "argon2id"] {
        set_scheme(&mut admin, scheme);
        let dn = person_with(scheme);
        let attributes = [
            ("objectClass", "inetOrgPerson"),
            ("cn", scheme),
            ("sn", scheme),
            ("userPassword", PERSON_PASSWORD),
        ];
        let outcome = admin.add(&dn, &attributes).unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
        kinds.push((scheme, dn));
    }
    kinds
}

/// Returns a user whose password, [`PERSON_PASSWORD`], is stored with this scheme.
fn person_with(scheme: &str) -> String {
    format!("uid=with-{scheme},ou=people,{SUFFIX}")
}

fn set_scheme(admin: &mut Connection, scheme: &str) {
    let outcome =
        admin.modify("cn=config", &[(ChangeOperation::Replace, "pandoPasswordScheme", &[scheme])]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
}

/// Sends failing binds of all kinds on one connection, in random order. For each pair of kinds, compares the medians
/// and finds the best threshold.
fn failing_binds(plan: &Plan, pando: &Pando, kinds: &[Kind], where_: &str) -> Finding {
    let samples = plan.count(SAMPLES_QUICK, SAMPLES);
    let wider = (SAMPLES as f64 / samples as f64).sqrt();
    let mut random = plan.random("timing");
    let mut connection = pando.connect();
    let mut times: Vec<Vec<f64>> = vec![Vec::with_capacity(samples); kinds.len()];
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    for _ in 0..samples {
        random.shuffle(&mut order);
        for &kind in &order {
            let started = Instant::now();
            let outcome = connection.bind(&kinds[kind].1, "a wrong password").unwrap();
            times[kind].push(started.elapsed().as_secs_f64());
            assert_eq!(outcome.code, ResultCode::INVALID_CREDENTIALS, "{}: {outcome:?}", kinds[kind].0);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let median = |kind: usize| times[kind][samples / 2];
    let pairs = || (0..kinds.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let apart = |(one, other)| (median(one) / median(other)).max(median(other) / median(one)) - 1.0;
    let tells = |(one, other): (usize, usize)| best_threshold(&times[one], &times[other]);
    let (far, how_far) = worst(pairs(), apart);
    let (classified, how_well) = worst(pairs(), tells);
    let (medians_max, classified_max) = (MEDIANS_MAX * wider, 0.5 + (CLASSIFIED_MAX - 0.5) * wider);
    let name = |(one, other): (usize, usize)| format!("{} and {}", kinds[one].0, kinds[other].0);
    Finding::of(format!("{samples} failing binds of each of {} kinds at {where_}", kinds.len()))
        .timely(
            true,
            how_far <= medians_max,
            format!(
                "medians {:.1}% apart at most ({}: {} and {})",
                how_far * 1e2,
                name(far),
                ms_of(median(far.0)),
                ms_of(median(far.1))
            ),
            format!("{:.1}%", medians_max * 1e2),
        )
        .timely(
            true,
            how_well <= classified_max,
            format!("a threshold classifies {} in {:.1} of 100", name(classified), how_well * 1e2),
            format!("{:.1}", classified_max * 1e2),
        )
}

fn ms_of(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

fn worst(
    pairs: impl Iterator<Item = (usize, usize)>,
    how: impl Fn((usize, usize)) -> f64,
) -> ((usize, usize), f64) {
    pairs.map(|pair| (pair, how(pair))).max_by(|one, other| one.1.total_cmp(&other.1)).unwrap()
}

/// Returns the share of all times that the best threshold classifies correctly. Both lists are sorted.
fn best_threshold(one: &[f64], other: &[f64]) -> f64 {
    let below =
        |times: &[f64], limit: f64| times.partition_point(|time| *time <= limit) as f64 / times.len() as f64;
    let apart = one.iter().chain(other).map(|limit| (below(one, *limit) - below(other, *limit)).abs());
    0.5 + apart.fold(0.0, f64::max) / 2.0
}

/// Load of a server: clients that search continuously, and a client that binds continuously.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(server: SocketAddr) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |pace: Duration, binds: bool| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let name = person_with("argon2id");
                let mut connection = Connection::open(server).unwrap();
                connection.bind(&name, PERSON_PASSWORD).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let code = if binds {
                        connection.bind(&name, PERSON_PASSWORD).unwrap().code
                    } else {
                        connection
                            .search(SUFFIX, Scope::WholeSubtree, "(sn=huber)", &[])
                            .unwrap()
                            .outcome
                            .code
                    };
                    assert_eq!(code, ResultCode::SUCCESS);
                    std::thread::sleep(pace);
                }
            })
        };
        // This load binds so rarely that most of the measured binds do not wait for its binds.
        let (searching, binding) = (Duration::from_micros(300), Duration::from_millis(250));
        let threads = vec![thread(searching, false), thread(searching, false), thread(binding, true)];
        Load { stop, threads }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Many clients send a bind and disconnect without waiting. Then one client binds and waits.
fn disconnected_clients(pando: &Pando) -> Finding {
    let count = DISCONNECTED.min(connections_possible());
    let name = person_with("argon2id");
    let message = wire::bind(1, &name, "a wrong password");
    let mut good = pando.connect();
    let mut streams = Vec::new();
    for index in 0..count {
        let mut stream = wire::open(pando.address(), index);
        stream.write_all(&message).unwrap();
        streams.push(stream);
    }
    drop(streams);
    let started = Instant::now();
    let outcome = good.bind(&name, PERSON_PASSWORD).unwrap();
    let took = started.elapsed();
    Finding::of(format!(
        "{count} clients bind and go without waiting; then one binds with the right password"
    ))
    .bounded(outcome.is_success(), outcome.code, "success")
    .timely(true, took <= RIGHT_BIND_MAX, ms(took), format!("within {}", ms(RIGHT_BIND_MAX)))
}
