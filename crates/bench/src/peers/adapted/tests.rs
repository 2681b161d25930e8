use super::*;
use crate::peers::{Data, Server, Setup};
use crate::result::ServerDescription;
use crate::workload::{self, shipped};
use std::net::SocketAddr;
use std::process::Command;

/// Runs `use_it` with a target at this address. If `address` is `None`, no server listens at the target's address, and
/// `use_it` must not connect to it.
pub(in crate::peers) fn with_target<T>(
    product: &str,
    address: Option<SocketAddr>,
    use_it: impl FnOnce(&Target<'_>) -> T,
) -> T {
    let address = address.unwrap_or_else(|| "127.0.0.1:1".parse().unwrap());
    let server = Server::of_child(Command::new("true").spawn().unwrap(), address, product);
    let description = ServerDescription { product: product.to_owned(), ..ServerDescription::default() };
    let data = Data {
        path: "f".into(),
        template: "oid".to_owned(),
        seed: 1,
        entries: 1,
        bytes: 0,
        suffix: "dc=com".to_owned(),
        schema: None,
        samples: Vec::new(),
        user: None,
    };
    let setup = Setup::new("dc=com", Vec::new(), 0);
    use_it(&Target { server: &server, description: &description, setup: &setup, data: &data })
}

#[track_caller]
fn adapt_shipped(
    name: &str,
    product: &str,
    options: &Options,
    files_max: u64,
) -> Result<AdaptedWorkload, String> {
    let all: Vec<_> = workload::shipped_names().filter_map(shipped).collect();
    let number = all.iter().position(|workload| workload.name == name).unwrap();
    with_target(product, None, |target| fit(&all[number], &all[..number], options, target, files_max))
}

#[test]
fn the_open_files_limit_reduces_the_number_of_connections() {
    let options = Options::default();
    let whole = adapt_shipped("oid-search-random", "Pando 1", &options, 20_000).unwrap();
    assert_eq!((whole.options.clients, whole.notes.len()), (None, 0));
    let reduced = adapt_shipped("oid-search-random-32000", "Pando 1", &options, 20_000).unwrap();
    assert_eq!(reduced.options.clients, Some(19_000));
    assert!(reduced.notes[0].contains("19000 connections instead of 32000"), "{:?}", reduced.notes);
    // The adapted workload would be the same as oid-search-random-32000, so it is not measured.
    let same = adapt_shipped("oid-search-random-64000", "Pando 1", &options, 20_000).err().unwrap();
    assert!(same.contains("oid-search-random-32000 again"), "{same}");
    assert!(
        adapt_shipped("oid-search-random-64000", "Pando 1", &options, 50_000).unwrap().options.clients
            == Some(49_000)
    );
    // A client that searches and binds has two connections.
    let two = adapt_shipped("oid-authentication-random", "Pando 1", &options, 5_000).unwrap();
    assert_eq!(two.options.clients, Some(2_000));
    // The command line takes precedence.
    let few = Options { clients: Some(20), ..Options::default() };
    assert_eq!(
        adapt_shipped("oid-search-random-100000", "Pando 1", &few, 20_000).unwrap().options.clients,
        Some(20)
    );
}

#[test]
fn short_runs_delete_fewer_entries() {
    let short = Options {
        duration: Some(Duration::from_secs(2)),
        warm_up: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    let whole = shipped("salford-d1a").unwrap();
    let reduced = adapt_shipped("salford-d1a", "Pando 1", &short, 20_000).unwrap();
    assert_eq!(reduced.workload.own_entries, whole.own_entries * 2 / whole.duration_seconds);
    assert!(reduced.notes[0].contains("own entries instead of 20000"), "{:?}", reduced.notes);
    let long = adapt_shipped("salford-d1a", "Pando 1", &Options::default(), 20_000).unwrap();
    assert_eq!((long.workload.own_entries, long.notes.len()), (whole.own_entries, 0));
    // Own entries that are used repeatedly are needed even for a short run.
    assert_eq!(adapt_shipped("salford-x1", "Pando 1", &short, 20_000).unwrap().workload.own_entries, 1_000);
}

#[test]
fn a_fresh_server_is_not_warmed_up() {
    let short = Options {
        duration: Some(Duration::from_secs(2)),
        warm_up: Some(Duration::from_secs(5)),
        ..Options::default()
    };
    let fresh = adapt_shipped("m-vault-time-to-full-speed", "Pando 1", &short, 20_000).unwrap();
    assert!(fresh.workload.needs.fresh_start && !fresh.notes.is_empty());
    assert_eq!(fresh.options.warm_up, Some(Duration::ZERO));
    assert_eq!(fresh.options.duration, Some(FRESH_DURATION_MIN));
}

#[test]
fn password_compares_are_not_measured_on_servers_that_compare_octets() {
    let options = Options::default();
    for product in ["OpenLDAP 2.5.13", "389 DS 2.3.1", "OpenDJ 5.0.3"] {
        let reason = adapt_shipped("oid-compare-random", product, &options, 20_000).err().unwrap();
        assert!(reason.contains("stored octets"), "{reason}");
        let mixed = adapt_shipped("oid-mixed", product, &options, 20_000).unwrap();
        let codes: Vec<_> =
            mixed.workload.jobs[0].operations.iter().map(|operation| operation.expect_code).collect();
        assert_eq!(codes, [None, None, Some(COMPARE_FALSE), None]);
        assert!(mixed.notes[0].contains(product), "{:?}", mixed.notes);
        // All servers compare attributes other than passwords in the same way.
        assert!(adapt_shipped("people-compare", product, &options, 20_000).unwrap().notes.is_empty());
    }
    assert!(adapt_shipped("oid-compare-random", "Pando 1", &options, 20_000).unwrap().notes.is_empty());
}

#[test]
fn a_warm_up_runs_one_workload_of_each_mix() {
    let oid: Vec<_> =
        workload::shipped_names().filter(|name| name.starts_with("oid-")).filter_map(shipped).collect();
    let names: Vec<_> = one_of_each(&oid).iter().map(|workload| workload.name.as_str()).collect();
    assert!(names.len() < 10 && names.contains(&"oid-add") && names.contains(&"oid-mixed"), "{names:?}");
}
