//! Copies of another server's tree that follow its changes: from Debian's slapd, and from Pando.

mod access_log;
mod ds389;
mod lists;
mod mapped;
mod opendj;
mod proof;
mod scripted;

use std::net::SocketAddr;
use std::time::Duration;

use bench::peers::{Amendments, Peer};
use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::cluster::{until, until_within};
use test_support::pando::{Start, command};
use test_support::running::Running;
use test_support::slapd::Slapd;
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch, rounds, seed};

/// Starts a server in `scratch` that follows the server at this address.
fn follower(scratch: &Scratch, source: SocketAddr) -> Pando {
    let password = scratch.write("password", ADMIN_PASSWORD);
    let node = format!(
        "[follow]\nurl = \"ldap://{source}\"\nbase = \"{SUFFIX}\"\nbind_dn = \"{ADMIN_DN}\"\npassword_file = \"{}\"\n",
        password.display()
    );
    Start::with_node(scratch, node).ready()
}

/// Maximum time until the servers are equal. It allows two comparisons, a minute apart, because a slow slapd repairs
/// some values late.
const EQUAL_MAX: Duration = Duration::from_secs(180);

/// Waits until both servers have the same entries, without comparing the attributes in `leave_out`.
#[track_caller]
fn wait_until_equal(scratch: &Scratch, source: SocketAddr, copy: &Pando, leave_out: &[&str]) {
    wait_until_equal_within(EQUAL_MAX, scratch, source, copy, leave_out);
}

#[track_caller]
fn wait_until_equal_within(
    max: Duration,
    scratch: &Scratch,
    source: SocketAddr,
    copy: &Pando,
    leave_out: &[&str],
) {
    let password = scratch.join("password");
    let (source, copy) = (format!("ldap://{source}"), format!("ldap://{}", copy.address()));
    let bind = ["--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap(), "--operational"];
    let leave_out: Vec<&str> = leave_out.iter().flat_map(|name| ["--leave-out", name]).collect();
    let base = ["--base", SUFFIX];
    let compare = [&["compare", &source, &copy], &bind[..], &base, &leave_out].concat();
    let mut last = String::new();
    let equal = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until_within(max, "an equal copy", || {
            let run = command(&compare, None);
            last = format!("{}{}", run.stdout, run.stderr);
            run.stderr
                .contains("0 with other values, 0 only in the first, 0 only in the second")
                .then_some(())
        })
    }));
    assert!(equal.is_ok(), "{last}");
}

/// Returns a figure of `cn=Follow,cn=monitor`.
fn figure(pando: &Pando, name: &str) -> String {
    let dn = format!("cn={name},cn=Follow,cn=monitor");
    let entry = pando.administrator().entry(&dn, &["monitorCounter", "monitoredInfo"]).unwrap().unwrap();
    entry.text("monitorCounter").or_else(|| entry.text("monitoredInfo")).unwrap()
}

/// Makes random changes: people, groups and units are added, changed, renamed, moved and deleted.
struct Changes {
    random: fastrand::Rng,
    connection: Connection,
    count: u32,
    /// Whether the source changes links when it renames the entries that they name, and replicates these changes. slapd
    /// does not. If true, two people may also exchange their names.
    links_follow: bool,
}

impl Changes {
    fn of(&mut self, class: &str) -> Vec<String> {
        // Leave out anna, because other entries name her as their manager.
        let filter = format!("(&(objectClass={class})(!(uid=anna)))");
        let found = self.connection.search(SUFFIX, Scope::WholeSubtree, &filter, &["1.1"]);
        found.unwrap().entries.into_iter().map(|entry| entry.dn).collect()
    }

    fn one(&mut self, class: &str) -> Option<String> {
        let all = self.of(class);
        self.random.choice(all)
    }

    /// Makes one random change, which the server may refuse.
    fn make(&mut self) {
        self.count += 1;
        let (number, kind) = (self.count, self.random.u8(..12));
        let Some(unit) = self.one("organizationalUnit") else { return };
        let Some(person) = self.one("inetOrgPerson") else { return };
        let named = if self.links_follow { person.clone() } else { person_dn("anna") };
        let connection = &mut self.connection;
        let outcome = match kind {
            0 => connection.add(&format!("ou=u{number},{unit}"), &[("objectClass", "organizationalUnit")]),
            1 | 2 => {
                let attributes =
                    [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "y"), ("manager", &named)];
                connection.add(&format!("uid=p{number},{unit}"), &attributes)
            }
            3 => connection.delete(&person),
            4 => {
                let title = format!("title {number}");
                connection.modify(&person, &[(ChangeOperation::Replace, "title", &[&title, "x"])])
            }
            5 => connection.modify(&person, &[(ChangeOperation::Replace, "title", &[])]),
            6 => connection.modify_dn(&person, &format!("uid=r{number}"), Some(&unit)),
            7 => {
                let units =
                    self.of("organizationalUnit").into_iter().filter(|dn| !dn.starts_with("ou=people"));
                let Some(moved) = self.random.choice(units.collect::<Vec<_>>()) else { return };
                self.connection.modify_dn(&moved, &format!("ou=m{number}"), Some(&unit))
            }
            8 | 9 => {
                let Some(group) = self.one("groupOfNames") else { return };
                let operation = if kind == 8 { ChangeOperation::Add } else { ChangeOperation::Delete };
                self.connection.modify(&group, &[(operation, "member", &[&named])])
            }
            10 => {
                let attributes =
                    [("objectClass", "groupOfNames"), ("member", named.as_str()), ("member", SUFFIX)];
                connection.add(&format!("cn=g{number},{unit}"), &attributes)
            }
            _ if self.links_follow => self.exchange(&person),
            _ => connection.modify(&person, &[(ChangeOperation::Replace, "sn", &["Z"])]),
        };
        outcome.unwrap();
    }

    fn exchange(&mut self, first: &str) -> Result<client::Outcome, client::ClientError> {
        let second = self.one("inetOrgPerson").unwrap();
        let split =
            |dn: &str| dn.split_once(',').map(|(rdn, above)| (rdn.to_owned(), above.to_owned())).unwrap();
        let ((first_rdn, first_above), (second_rdn, second_above)) = (split(first), split(&second));
        self.connection.modify_dn(first, "uid=between", Some(&first_above))?;
        self.connection.modify_dn(&second, &first_rdn, Some(&first_above))?;
        self.connection.modify_dn(&format!("uid=between,{first_above}"), &second_rdn, Some(&second_above))
    }
}

fn plant_more(connection: &mut Connection) {
    plant(connection);
    // Members of the group that `plant` adds are renamed later.
    assert!(connection.delete(&format!("cn=staff,ou=groups,{SUFFIX}")).unwrap().is_success());
    (0..20).for_each(|number| add_person(connection, &format!("p{number}")));
}

fn source_changes(connection: Connection, links_follow: bool) -> Changes {
    Changes { random: fastrand::Rng::with_seed(seed()), connection, count: 100, links_follow }
}

/// Properties of a source for [`follows`].
struct Traits<'t> {
    /// Text that every cookie of the source contains.
    cookie: &'t str,
    /// Attributes that are not compared.
    own: &'t [&'t str],
    /// Whether the source loses changes that are made while it sends a refresh.
    has_deaf_refresh: bool,
}

/// Makes random changes while the copy runs, while it is stopped, and around a kill of the source, and compares both
/// servers each time. Returns the copy's log.
#[track_caller]
fn follows<P: Peer>(name: &str, mut source: Running<P>, traits: &Traits<'_>) -> String {
    let (scratch, own) = (Scratch::new(name), traits.own);
    let refreshes = |copy: &Pando| copy.log().matches("the copy is complete").count();
    let refreshed = |copy: &Pando, before: usize| {
        if traits.has_deaf_refresh {
            until("a refresh", || (refreshes(copy) > before).then_some(()));
        }
    };
    let bound = |address| {
        let mut theirs = Connection::open(address).unwrap();
        assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        theirs
    };
    let mut theirs = bound(source.address());
    plant_more(&mut theirs);
    // The source does not check that members exist.
    let group = |theirs: &mut Connection, name: &str, members: &[&str]| {
        let members: Vec<String> = members.iter().map(|uid| person_dn(uid)).collect();
        let members = members.iter().map(|dn| ("member", dn.as_str()));
        let attributes: Vec<_> = [("objectClass", "groupOfNames")].into_iter().chain(members).collect();
        add(theirs, &format!("cn={name},ou=groups,{SUFFIX}"), &attributes);
    };
    group(&mut theirs, "dangling-at-first", &["never-at-first"]);
    let mut copy = follower(&scratch, source.address());
    refreshed(&copy, 0);
    group(&mut theirs, "dangling-later", &["never-later"]);
    wait_until_equal(&scratch, source.address(), &copy, own);
    assert_eq!(test_support::tree::bind(&copy, "p7", "p7-secret"), ResultCode::SUCCESS);
    // The source also does not change members when their entries are renamed or deleted.
    group(&mut theirs, "of-changed", &["p1", "p2", "p3"]);
    group(&mut theirs, "of-deleted", &["p1"]);
    wait_until_equal(&scratch, source.address(), &copy, own);
    assert!(theirs.delete(&person_dn("p1")).unwrap().is_success());
    assert!(theirs.modify_dn(&person_dn("p2"), "uid=q2", None).unwrap().is_success());
    wait_until_equal(&scratch, source.address(), &copy, own);
    let mut changes = source_changes(theirs, false);
    for round in 0..rounds(5) {
        (0..40).for_each(|_| changes.make());
        let before = refreshes(&copy);
        copy.kill();
        (0..60).for_each(|_| changes.make());
        copy = follower(&scratch, source.address());
        refreshed(&copy, before);
        (0..40).for_each(|_| changes.make());
        if round % 2 == 0 {
            let before = refreshes(&copy);
            source.restart();
            changes.connection = bound(source.address());
            refreshed(&copy, before);
            (0..20).for_each(|_| changes.make());
        }
        wait_until_equal(&scratch, source.address(), &copy, own);
        assert_eq!(figure(&copy, "Rejected"), "0", "round {round}: {}", copy.log());
    }
    assert!(figure(&copy, "Cookie").contains(traits.cookie), "{}", figure(&copy, "Cookie"));
    let log = copy.log();
    assert!(copy.stop().success());
    command(&["verify", "--data", Pando::data(&scratch).to_str().unwrap()], None).expect_code(0);
    log
}

#[test]
fn a_copy_follows_slapd_through_kills() {
    let (scratch, folder) = (Scratch::new("follow-slapd"), Scratch::new("follow-slapd-source"));
    let rules = "access to * by * write\noverlay syncprov\nsyncprov-sessionlog 100\n";
    let global = "moduleload syncprov\nattributetype ( 1.3.6.1.4.1.99999.1 NAME 'shoeSize' SYNTAX \
                  1.3.6.1.4.1.1466.115.121.1.15 )\nobjectclass ( 1.3.6.1.4.1.99999.2 NAME 'shoeOwner' SUP top \
                  AUXILIARY MAY shoeSize )\n";
    let (global, rules) = (global.to_owned(), Some(rules.to_owned()));
    let slapd =
        Slapd::amended(&folder, &["entryUUID"], Amendments { global, rules, ..Amendments::default() });
    let mut theirs = Connection::open(slapd.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant_more(&mut theirs);
    // slapd stores passwords in clear, so the stored passwords differ.
    let not_compared = ["userPassword"];
    let mut copy = follower(&scratch, slapd.address());
    wait_until_equal(&scratch, slapd.address(), &copy, &not_compared);
    assert_eq!(test_support::tree::bind(&copy, "p7", "p7-secret"), ResultCode::SUCCESS);
    let mut changes = source_changes(theirs, false);
    for round in 0..rounds(3) {
        (0..20).for_each(|_| changes.make());
        copy.kill();
        (0..40).for_each(|_| changes.make());
        copy = follower(&scratch, slapd.address());
        (0..20).for_each(|_| changes.make());
        wait_until_equal(&scratch, slapd.address(), &copy, &not_compared);
        assert_eq!(figure(&copy, "Rejected"), "0", "round {round}");
    }
    // The monitor counts an entry that violates the schema, and the log names the entry. The entry is copied as soon as
    // the schema permits it.
    let mut theirs = changes.connection;
    let shoes = format!("uid=shoes,{SUFFIX}");
    let attributes = [
        ("objectClass", "inetOrgPerson"),
        ("objectClass", "shoeOwner"),
        ("cn", "x"),
        ("sn", "y"),
        ("shoeSize", "44"),
    ];
    add(&mut theirs, &shoes, &attributes);
    until("a rejected entry", || (figure(&copy, "Rejected") == "1").then_some(()));
    assert!(copy.log().contains(&format!("entry=\"{shoes}\"")), "{}", copy.log());
    let without = [
        (ChangeOperation::Delete, "objectClass", &["shoeOwner"][..]),
        (ChangeOperation::Delete, "shoeSize", &[]),
    ];
    assert!(theirs.modify(&shoes, &without).unwrap().is_success());
    wait_until_equal(&scratch, slapd.address(), &copy, &not_compared);
    assert_eq!(figure(&copy, "Rejected"), "0");
}

#[test]
fn a_copy_follows_pando_through_kills_of_both() {
    let (scratch, folder) = (Scratch::new("follow-pando"), Scratch::new("follow-pando-source"));
    let mut source = Pando::start(&folder);
    let address = source.address();
    plant_more(&mut source.administrator());
    let mut copy = follower(&scratch, address);
    wait_until_equal(&scratch, address, &copy, &[]);
    let mut changes = source_changes(source.administrator(), true);
    for round in 0..rounds(3) {
        (0..20).for_each(|_| changes.make());
        copy.kill();
        (0..30).for_each(|_| changes.make());
        copy = follower(&scratch, address);
        (0..20).for_each(|_| changes.make());
        if round % 2 == 0 {
            source.kill();
            let listen = format!("ldap://{address}");
            source = Start::new(&folder).arguments(&["--listen", &listen]).ready();
            changes.connection = Connection::open(address).unwrap();
            assert!(changes.connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
            (0..20).for_each(|_| changes.make());
        }
        wait_until_equal(&scratch, address, &copy, &[]);
        assert_eq!(
            (figure(&copy, "Rejected"), figure(&copy, "State")),
            ("0".to_owned(), "following".to_owned())
        );
    }
    command(&["verify", "--data", Pando::data(&scratch).to_str().unwrap()], None).expect_code(0);
}

#[test]
fn clients_are_referred_to_the_source() {
    let (scratch, folder) = (Scratch::new("follow-referral"), Scratch::new("follow-referral-source"));
    let source = Pando::start(&folder);
    plant(&mut source.administrator());
    let copy = follower(&scratch, source.address());
    wait_until_equal(&scratch, source.address(), &copy, &[]);
    let mut admin = copy.administrator();
    let anna = person_dn("anna");
    let refused = |outcome: client::Outcome| {
        assert_eq!(outcome.code, ResultCode::REFERRAL, "{outcome:?}");
        let url = outcome.referrals.first().unwrap();
        assert!(url.starts_with(&format!("ldap://{}/", source.address())), "{url}");
    };
    refused(admin.delete(&anna).unwrap());
    refused(admin.modify(&anna, &[(ChangeOperation::Replace, "title", &["x"])]).unwrap());
    refused(admin.modify_dn(&anna, "uid=other", None).unwrap());
    refused(admin.add(&format!("ou=new,{SUFFIX}"), &[("objectClass", "organizationalUnit")]).unwrap());
    replace(&mut admin, "cn=config", "pandoKeepDeletedSeconds", &["60"]);
    assert_eq!(test_support::tree::bind(&copy, "anna", "anna-secret"), ResultCode::SUCCESS);
    // Without the table `[follow]`, the directory is no longer a copy but independent.
    copy.stop();
    let copy = Pando::start(&scratch);
    assert!(copy.administrator().delete(&anna).unwrap().is_success());
}

#[test]
fn a_promoted_copy_follows_no_longer() {
    let (scratch, folder) = (Scratch::new("follow-promote"), Scratch::new("follow-promote-source"));
    let source = Pando::start(&folder);
    plant_more(&mut source.administrator());
    let password = scratch.write("password", ADMIN_PASSWORD);
    let start = || Start::following(&scratch, source.address(), &password);
    let copy = start().ready();
    // The entries exist as soon as the server is ready, because they were imported and not added one by one.
    assert_eq!(test_support::tree::bind(&copy, "p7", "p7-secret"), ResultCode::SUCCESS);
    assert!(copy.log().contains("the first copy is made"), "{}", copy.log());
    wait_until_equal(&scratch, source.address(), &copy, &[]);
    add_person(&mut source.administrator(), "later");
    wait_until_equal(&scratch, source.address(), &copy, &[]);
    assert_eq!(figure(&copy, "Rejected"), "0");
    copy.stop();
    add_person(&mut source.administrator(), "meanwhile");
    let copy = start().ready();
    wait_until_equal(&scratch, source.address(), &copy, &[]);
    let mut admin = copy.administrator();
    let anna = person_dn("anna");
    assert_eq!(admin.delete(&anna).unwrap().code, ResultCode::REFERRAL);
    let anonymous = copy.connect().extended(directory::virtual_entries::PROMOTE, None).unwrap();
    assert_eq!(anonymous.outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let data = Pando::data(&scratch);
    let promote = ["follow", "--promote", "--data", data.to_str().unwrap()];
    for _ in 0..2 {
        let said = command(&promote, None).expect_code(0).stdout;
        assert!(said.starts_with("promoted: the last change of the source has the cookie csn="), "{said}");
    }
    assert!(admin.delete(&anna).unwrap().is_success());
    until("the end of the thread", || (figure(&copy, "State") == "promoted").then_some(()));
    // A start with the same settings does not make the directory a copy again.
    copy.stop();
    let copy = start().ready();
    until("the stage", || (figure(&copy, "State") == "promoted").then_some(()));
    assert!(copy.administrator().entry(&anna, &["1.1"]).unwrap().is_none());
    add_person(&mut copy.administrator(), "own");
    let other = command(&["follow", "--promote", "--data", Pando::data(&folder).to_str().unwrap()], None);
    assert!(other.expect_code(1).stderr.contains("this server follows no other"));
    command(&["verify", "--data", data.to_str().unwrap()], None).expect_code(0);
}

#[test]
fn a_copy_equals_a_slapd_that_repairs_names_later() {
    // slapd's overlay refint renames members some time after the entry, without a sync message. If a client changes the
    // group in the meantime, slapd sends the group with the old name.
    let (scratch, folder) = (Scratch::new("follow-refint"), Scratch::new("follow-refint-source"));
    let rules = "access to * by * write\noverlay syncprov\noverlay refint\nrefint_attributes member manager\n\
                 refint_nothing cn=nothing\n";
    let (global, rules) = ("moduleload syncprov\nmoduleload refint\n".to_owned(), Some(rules.to_owned()));
    let indexes = ["entryUUID", "member", "manager"];
    let slapd = Slapd::amended(&folder, &indexes, Amendments { global, rules, ..Amendments::default() });
    let mut theirs = Connection::open(slapd.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant_more(&mut theirs);
    let group = format!("cn=all,ou=groups,{SUFFIX}");
    let members: Vec<String> = (0..20).map(|number| person_dn(&format!("p{number}"))).collect();
    let members = members.iter().map(|dn| ("member", dn.as_str()));
    let attributes: Vec<_> = [("objectClass", "groupOfNames")].into_iter().chain(members).collect();
    add(&mut theirs, &group, &attributes);
    add(&mut theirs, &format!("cn=one,ou=groups,{SUFFIX}"), &[attributes[0], attributes[1]]);
    // refint also sets modifiersName.
    let not_compared = ["userPassword", "modifiersName"];
    let copy = follower(&scratch, slapd.address());
    until("a connection", || (figure(&copy, "State") == "following").then_some(()));
    for number in 1..20 {
        // The client changes the group without waiting for refint.
        let (from, rdn) = (person_dn(&format!("p{number}")), format!("uid=q{number}"));
        assert!(theirs.modify_dn(&from, &rdn, None).unwrap().is_success());
        replace(&mut theirs, &group, "description", &[&rdn]);
    }
    // A person's unit and the unit of the person's manager are renamed at the same time. refint may then fail to repair
    // the manager value, so that the old name stays at the source.
    for number in 0..10 {
        let (above, below) = (format!("ou=a{number},{SUFFIX}"), format!("ou=b{number},{SUFFIX}"));
        [&above, &below]
            .iter()
            .for_each(|unit| add(&mut theirs, unit, &[("objectClass", "organizationalUnit")]));
        let (boss, person) = (format!("uid=boss,{above}"), format!("uid=person,{below}"));
        let class = ("objectClass", "inetOrgPerson");
        add(&mut theirs, &boss, &[class, ("cn", "x"), ("sn", "y")]);
        add(&mut theirs, &person, &[class, ("cn", "x"), ("sn", "y"), ("manager", &boss)]);
        assert!(theirs.modify_dn(&above, &format!("ou=c{number}"), None).unwrap().is_success());
        assert!(theirs.modify_dn(&below, &format!("ou=d{number}"), None).unwrap().is_success());
    }
    // Delete the only member of the other group.
    assert!(theirs.delete(&person_dn("p0")).unwrap().is_success());
    wait_until_equal(&scratch, slapd.address(), &copy, &not_compared);
    assert_eq!(figure(&copy, "Rejected"), "0");
}
