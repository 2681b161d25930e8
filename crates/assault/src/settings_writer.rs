//! A client that changes settings and indexes below `cn=config`, and records the acknowledged changes.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use client::{ClientError, Connection, Outcome};
use ldap::{ChangeOperation, ResultCode};

use test_support::{ADMIN_DN, ADMIN_PASSWORD};

const CONFIG: &str = "cn=config";

/// An index that no other part of the attack uses.
const INDEX: &str = "cn=title,cn=indexes,cn=config";

/// Values of the settings that the client changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Number written to two settings in one change, so that a partial change would be visible.
    number: Option<u64>,
    has_index: bool,
}

/// The client; see the module documentation.
pub(crate) struct SettingsWriter {
    random: fastrand::Rng,
    acknowledged: State,
    under_way: Option<State>,
    number: u64,
}

impl SettingsWriter {
    /// Creates a client. The seed determines its changes.
    pub(crate) fn new(seed: u64) -> SettingsWriter {
        let random = fastrand::Rng::with_seed(seed);
        SettingsWriter { random, acknowledged: State::default(), under_way: None, number: 5_000 }
    }

    /// Changes settings until the server ends.
    pub(crate) fn write_until_the_end(&mut self, server: SocketAddr, acknowledged: &Sender<()>) {
        let _ = self.write(server, acknowledged);
    }

    fn write(&mut self, server: SocketAddr, acknowledged: &Sender<()>) -> Result<(), ClientError> {
        let mut connection = Connection::open(server)?;
        connection.bind(ADMIN_DN, ADMIN_PASSWORD)?;
        loop {
            let mut next = self.acknowledged;
            let outcome = if self.random.bool() {
                self.number += 1;
                next.number = Some(self.number);
                self.under_way = Some(next);
                let text = self.number.to_string();
                let replace = |name| (ChangeOperation::Replace, name, std::slice::from_ref(&text));
                set(&mut connection, [replace("pandoSizeLimit"), replace("pandoTimeLimitSeconds")])?
            } else {
                next.has_index = !next.has_index;
                self.under_way = Some(next);
                if next.has_index {
                    let kinds = [("pandoIndexKind", "equality"), ("pandoIndexKind", "substring")];
                    let attributes =
                        [&[("objectClass", "pandoIndex"), ("cn", "title")][..], &kinds[..]].concat();
                    connection.add(INDEX, &attributes)?
                } else {
                    connection.delete(INDEX)?
                }
            };
            self.under_way = None;
            match outcome.code {
                ResultCode::SUCCESS => self.acknowledged = next,
                // The server is stopping.
                ResultCode::UNAVAILABLE | ResultCode::UNWILLING_TO_PERFORM => return Ok(()),
                _ => panic!("{next:?}: {outcome:?}"),
            }
            if acknowledged.send(()).is_err() {
                return Ok(());
            }
        }
    }

    /// Compares the settings with the acknowledged changes.
    #[track_caller]
    pub(crate) fn check(&mut self, admin: &mut Connection) {
        let config = admin.entry(CONFIG, &[]).unwrap().unwrap();
        let number = |name| config.text(name).map(|text| text.parse::<u64>().unwrap());
        let is_default = |number: &Option<u64>| number.is_none_or(|number| number < 5_000);
        let limits = ["pandoSizeLimit", "pandoTimeLimitSeconds"].map(number);
        assert!(
            limits[0] == limits[1] || limits.iter().all(is_default),
            "half a change of settings: {limits:?}"
        );
        let has_index = admin.entry(INDEX, &["cn"]).unwrap().is_some();
        let found = State { number: limits[0].filter(|number| *number >= 5_000), has_index };
        let as_if_done = self.under_way.take();
        assert!(
            found == self.acknowledged || Some(found) == as_if_done,
            "settings: found {found:?}, acknowledged {:?}, or {as_if_done:?}",
            self.acknowledged
        );
        self.acknowledged = found;
    }
}

fn set(
    connection: &mut Connection,
    changes: [(ChangeOperation, &str, &[String]); 2],
) -> Result<Outcome, ClientError> {
    let values = changes.map(|(operation, name, values)| (operation, name, [values[0].as_str()]));
    let changes: Vec<(ChangeOperation, &str, &[&str])> =
        values.iter().map(|(operation, name, values)| (*operation, *name, &values[..])).collect();
    connection.modify(CONFIG, &changes)
}
