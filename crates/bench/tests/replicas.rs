//! Tests of replicating servers, which are set up as by `./dev cluster --measure`. A change that one server accepts
//! must reach all servers.
//!
//! `./dev test` uses slapd; `./dev test-peers` fetches OpenDJ and runs the ignored test too.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::peers::{Data, OpenDj, PeerError, Replicas, Setup};
use bench::template::Parameters;
use ldap::{ChangeOperation, Scope};

const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(60);
const CHANGED: &str = "uid=user.7,ou=people,dc=example,dc=com";

/// Starts a group of servers with three hundred people in a separate folder. Changes one person at the first server,
/// and finds the change on each server.
#[track_caller]
fn check(name: &str, servers: &[&str], start: impl Fn(&Path, &Setup, &Data) -> Result<Replicas, PeerError>) {
    let folder = std::env::temp_dir().join(format!("pando-replicas-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let parameters = Parameters { entries: Some(300), ..Parameters::default() };
    let data = Data::generate("people", &parameters, 1, &folder.join("people.ldif")).unwrap();
    let setup = Setup::new(&data.suffix, vec!["uid".parse().unwrap()], data.bytes);
    let group = start(&folder, &setup, &data).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = group.processes().map(|(name, _)| name).collect();
    assert_eq!(names, servers);
    let is_synced =
        |(name, value): &(String, String)| name.ends_with("durability") && value.contains("synced");
    assert!(group.settings().iter().any(is_synced), "{:?}", group.settings());
    let bound = |number: usize| {
        let (_, server) = group.processes().nth(number).unwrap();
        server.bound(&setup.admin_dn, &setup.admin_password).unwrap()
    };
    let mut first = bound(0);
    for round in 1..=20 {
        let value = format!("round {round}");
        let outcome = first.modify(CHANGED, &[(ChangeOperation::Replace, "description", &[&value])]);
        let outcome = outcome.unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert!(group.caught_up_within(CAUGHT_UP_WITHIN).unwrap().is_some(), "{name}");
    for (number, server) in servers.iter().enumerate() {
        let mut connection = bound(number);
        let found =
            connection.search(CHANGED, Scope::BaseObject, "(objectClass=*)", &["description"]).unwrap();
        assert_eq!(found.entries[0].texts("description"), ["round 20"], "{server}");
        let all = connection.search(&setup.suffix, Scope::WholeSubtree, "(uid=user.*)", &["1.1"]).unwrap();
        assert_eq!(all.entries.len(), 300, "{server}");
    }
    drop(group);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn consumers_of_slapd_receive_the_providers_changes() {
    check("slapd", &["slapd provider", "slapd consumer-1", "slapd consumer-2"], Replicas::openldap);
}

#[test]
#[ignore = "needs OpenDJ, which ./dev test-peers fetches"]
fn a_replica_of_opendj_receives_the_others_changes() {
    let pristine: PathBuf =
        std::env::var_os(OpenDj::VARIABLE).expect("PANDO_OPENDJ, as ./dev sets it").into();
    check("opendj", &["OpenDJ replica 1", "OpenDJ replica 2"], |folder, setup, data| {
        Replicas::opendj(&pristine, folder, setup, data)
    });
}
