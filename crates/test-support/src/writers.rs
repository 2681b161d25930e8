//! Concurrent writers, each with a model of its data, for tests in which the server ends while they write. Every
//! acknowledged change must exist afterwards. The last request, which has no answer, may have been carried out
//! completely or not at all.

use super::tree::add;
use super::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX};
use client::{ClientError, Connection, Outcome};
use ldap::{ChangeOperation, ResultCode, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// Expected state of the part of the tree that one writer changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// People by uid, with the number that several of their attributes contain.
    people: BTreeMap<String, u64>,
    /// uids of the group's members, even if no such person exists.
    members: BTreeSet<String>,
}

/// A writer, with a separate organizational unit and group, and their expected state.
pub struct Writer {
    name: String,
    random: fastrand::Rng,
    acknowledged: State,
    /// Expected state if the last request was carried out although it was not answered.
    under_way: Option<State>,
    /// Expected state if the refused change was carried out nevertheless.
    refused: Option<State>,
    number: u64,
}

/// A change by a writer.
enum Change {
    Add(String),
    Number(String),
    Rename(String, String),
    Delete(String),
    Join(String),
    Leave(String),
}

/// Maximum number of people of a writer.
const PEOPLE_MAX: usize = 12;

impl Writer {
    /// Creates a writer with this name. Its changes depend on the seed.
    pub fn new(name: &str, seed: u64) -> Writer {
        Writer {
            name: name.to_owned(),
            random: fastrand::Rng::with_seed(seed),
            acknowledged: State::default(),
            under_way: None,
            refused: None,
            number: 0,
        }
    }

    /// Adds the suffix entry, and the units and groups of `count` writers. Returns the writers.
    pub fn planted(count: u64, random: &mut fastrand::Rng, connection: &mut Connection) -> Vec<Writer> {
        plant_suffix(connection);
        let writers = (0..count).map(|index| Writer::new(&format!("w{index}"), random.u64(..)));
        writers.inspect(|writer| writer.plant(connection)).collect()
    }

    fn unit(&self) -> String {
        format!("ou={},{SUFFIX}", self.name)
    }

    fn group(&self) -> String {
        format!("cn={},{SUFFIX}", self.name)
    }

    fn person(&self, uid: &str) -> String {
        format!("uid={uid},{}", self.unit())
    }

    /// Adds the unit and the group.
    pub fn plant(&self, connection: &mut Connection) {
        let (unit, group) = (self.unit(), self.group());
        add(connection, &unit, &[("objectClass", "organizationalUnit"), ("ou", &self.name)]);
        // The unit is the first member, because a group must not be empty.
        add(connection, &group, &[("objectClass", "groupOfNames"), ("cn", &self.name), ("member", &unit)]);
    }

    /// Sends changes one after another until the server ends. Reports each acknowledgement on `acknowledged`.
    pub fn write_until_the_end(&mut self, server: SocketAddr, acknowledged: &Sender<()>) {
        if let Some(refusal) = self.write_until_refused(server, acknowledged) {
            panic!("{}: {refusal:?}", self.name);
        }
    }

    /// Sends changes until the server ends or refuses one. The refused change is not applied to the model. Returns the
    /// refusal.
    pub fn write_until_refused(&mut self, server: SocketAddr, acknowledged: &Sender<()>) -> Option<Outcome> {
        let mut connection = Connection::open(server).ok()?;
        let outcome = connection.bind(ADMIN_DN, ADMIN_PASSWORD).ok()?;
        assert!(outcome.is_success(), "{outcome:?}");
        loop {
            let change = self.choose();
            let next = self.after(&change);
            self.under_way = Some(next.clone());
            let outcome = self.send(&mut connection, &change).ok()?;
            self.under_way = None;
            if !outcome.is_success() {
                self.refused = Some(next);
                let diagnostic = format!("{}: {}", change.text(), outcome.diagnostic);
                return Some(Outcome { diagnostic, ..outcome });
            }
            self.acknowledged = next;
            acknowledged.send(()).ok()?;
        }
    }

    fn choose(&mut self) -> Change {
        self.number += 1;
        let uids: Vec<String> = self.acknowledged.people.keys().cloned().collect();
        let fresh = format!("{}-{}", self.name, self.number);
        if uids.is_empty() || (uids.len() < PEOPLE_MAX && self.random.u8(..4) == 0) {
            return Change::Add(fresh);
        }
        let uid = uids[self.random.usize(..uids.len())].clone();
        let member = self.acknowledged.members.contains(&uid);
        match self.random.u8(..8) {
            0 => Change::Delete(uid),
            1 | 2 => Change::Rename(uid, fresh),
            3 | 4 if member => Change::Leave(uid),
            3 | 4 => Change::Join(uid),
            _ => Change::Number(uid),
        }
    }

    fn after(&self, change: &Change) -> State {
        let mut state = self.acknowledged.clone();
        match change {
            Change::Add(uid) | Change::Number(uid) => _ = state.people.insert(uid.clone(), self.number),
            Change::Rename(old, new) => {
                let number = state.people.remove(old).expect("an entry to rename");
                state.people.insert(new.clone(), number);
                // Links follow the rename.
                if state.members.remove(old) {
                    state.members.insert(new.clone());
                }
            }
            // The deleted person is removed from the group, which has other members.
            Change::Delete(uid) => {
                state.people.remove(uid);
                state.members.remove(uid);
            }
            Change::Join(uid) => _ = state.members.insert(uid.clone()),
            Change::Leave(uid) => _ = state.members.remove(uid),
        }
        state
    }

    fn send(&self, connection: &mut Connection, change: &Change) -> Result<Outcome, ClientError> {
        let number = self.number.to_string();
        match change {
            Change::Add(uid) => {
                let attributes = [
                    ("objectClass", "inetOrgPerson"),
                    ("uid", uid.as_str()),
                    ("cn", uid),
                    ("sn", &number),
                    ("title", &number),
                    ("employeeNumber", &number),
                ];
                connection.add(&self.person(uid), &attributes)
            }
            Change::Number(uid) => {
                let value = [number.as_str()];
                let replace = |name| (ChangeOperation::Replace, name, &value[..]);
                connection
                    .modify(&self.person(uid), &[replace("sn"), replace("title"), replace("employeeNumber")])
            }
            Change::Rename(old, new) => connection.modify_dn(&self.person(old), &format!("uid={new}"), None),
            Change::Delete(uid) => connection.delete(&self.person(uid)),
            Change::Join(uid) => self.change_group(connection, ChangeOperation::Add, uid),
            Change::Leave(uid) => self.change_group(connection, ChangeOperation::Delete, uid),
        }
    }

    fn change_group(
        &self,
        connection: &mut Connection,
        operation: ChangeOperation,
        uid: &str,
    ) -> Result<Outcome, ClientError> {
        connection.modify(&self.group(), &[(operation, "member", &[&self.person(uid)])])
    }

    /// Checks the data after a failed sync has refused a change. It is unknown whether the change is on the disk.
    #[track_caller]
    pub fn check_with_refused(&mut self, connection: &mut Connection) {
        self.under_way = self.under_way.take().or(self.refused.take());
        self.check(connection);
    }

    /// Compares the data of the server with the expected state. For the request without an answer, the server's state
    /// becomes the expected state.
    #[track_caller]
    pub fn check(&mut self, connection: &mut Connection) {
        let found = self.read(connection);
        let as_if_done = self.under_way.take();
        if found != self.acknowledged && Some(&found) != as_if_done.as_ref() {
            panic!(
                "{}:\nfound        {found:?}\nacknowledged {:?}\nor           {as_if_done:?}",
                self.name, self.acknowledged
            );
        }
        self.acknowledged = found;
    }

    fn read(&self, connection: &mut Connection) -> State {
        let mut state = State::default();
        let attributes = ["uid", "cn", "sn", "title", "employeeNumber", "memberOf"];
        let reply =
            connection.search(&self.unit(), Scope::SingleLevel, "(objectClass=*)", &attributes).unwrap();
        assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
        let mut member_of = BTreeSet::new();
        for entry in &reply.entries {
            let uid = entry.text("uid").unwrap();
            assert_eq!(entry.dn, self.person(&uid));
            assert_eq!(entry.texts("title"), entry.texts("employeeNumber"), "half a change of {uid}");
            assert_eq!(entry.texts("title"), entry.texts("sn"), "half a change of {uid}");
            state.people.insert(uid.clone(), entry.text("title").unwrap().parse().unwrap());
            if !entry.values("memberOf").is_empty() {
                member_of.insert(uid.clone());
            }
            // The index must contain the person too.
            let by_index =
                connection.search(SUFFIX, Scope::WholeSubtree, &format!("(uid={uid})"), &["1.1"]).unwrap();
            assert_eq!(by_index.entries.len(), 1, "(uid={uid})");
        }
        let counted = connection.entry(&self.unit(), &["numSubordinates"]).unwrap().unwrap();
        let count = counted.text("numSubordinates").map_or(0, |text| text.parse().unwrap());
        assert_eq!(state.people.len(), count, "numSubordinates of {}", self.unit());

        let group = connection.entry(&self.group(), &["member"]).unwrap().unwrap();
        let below = format!(",{}", self.unit());
        let uids =
            group.texts("member").into_iter().filter_map(|dn| Some(dn.strip_suffix(&below)?.to_owned()));
        state.members = uids.map(|rdn| rdn.trim_start_matches("uid=").to_owned()).collect();
        let linked: BTreeSet<_> =
            state.members.iter().filter(|uid| state.people.contains_key(*uid)).cloned().collect();
        assert_eq!(member_of, linked, "memberOf of {}", self.name);
        state
    }
}

impl Change {
    fn text(&self) -> String {
        match self {
            Change::Add(uid) => format!("add {uid}"),
            Change::Number(uid) => format!("number {uid}"),
            Change::Rename(old, new) => format!("rename {old} {new}"),
            Change::Delete(uid) => format!("delete {uid}"),
            Change::Join(uid) => format!("join {uid}"),
            Change::Leave(uid) => format!("leave {uid}"),
        }
    }
}

/// Adds the suffix entry if it does not exist.
pub fn plant_suffix(connection: &mut Connection) {
    let attributes =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    let outcome = connection.add(SUFFIX, &attributes).unwrap();
    assert!(matches!(outcome.code, ResultCode::SUCCESS | ResultCode::ENTRY_ALREADY_EXISTS), "{outcome:?}");
}
