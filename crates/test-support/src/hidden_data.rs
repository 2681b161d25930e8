//! Two servers that differ only in data that their users may not see get the same requests. Every answer must be the
//! same, octet by octet.
//!
//! Requests are generated from the server's own tables: its operations ([`ControlContext`]), controls
//! ([`SUPPORTED_CONTROLS`]), extended operations ([`SUPPORTED_EXTENSIONS`]), features and SASL mechanisms, as the root
//! DSE lists them. An addition to one of these tables is covered automatically: the test fails until [`values`] has
//! values for it.
//!
//! Parts that may differ are replaced before answers are compared, see [`answers`]. There are three exceptions, which
//! `docs/explanation/security.md` explains:
//!
//! - A requester who may add or rename entries at a place learns that a name is taken. If only one directory has a
//!   hidden entry of that name, the request may end there with entryAlreadyExists, and the message contains the name as
//!   the request spells it.
//! - A rule for values may refuse a value because a hidden entry has it, see [`data_rules`].
//! - The order of values that are names may differ, if some of them are names of entries of only one directory.

mod answers;
mod data_rules;
mod requests;
mod values;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use client::Connection;
use directory::controls::{ControlContext, SUPPORTED_CONTROLS};
use directory::virtual_entries::{SUPPORTED_EXTENSIONS, SUPPORTED_FEATURES};
use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode, oids};

use self::answers::{Answers, Link, ServerValues, code_of, decoded, in_order, in_words};
use self::requests::{AccessRequest, Dice, Operation, Sent, TestRequest};
use self::values::{Kind, control, extended, feature, sasl};
use self::world::{REQUESTERS, World, requester_dn};
use crate::pando::{Pando, Start, command};
use crate::{DEADLINE, Scratch};

/// Number of requests under one set of rules.
const SCENE: usize = 400;

/// Number of requests to one pair of directories.
const PAIR: usize = 2_500;

/// Numbers of requests that are sent at once.
const READS: usize = 48;
const WRITES: usize = 24;

/// Definition that turns the values of `friend` into links.
const FRIENDS_ARE_LINKS: &str = "( 1.3.6.1.4.1.32473.7 NAME 'friend' EQUALITY distinguishedNameMatch SYNTAX \
                                 1.3.6.1.4.1.1466.115.121.1.12 X-LINK 'TRUE' )";

/// Counts and result of a run.
#[derive(Debug, Default)]
pub struct RunResult {
    /// Number of requests, each sent to both servers.
    pub requests: usize,
    /// Numbers of answers, by the operation and the result code.
    pub codes: BTreeMap<(&'static str, u32), usize>,
    /// Numbers of requests with a control, by its name.
    pub controls: BTreeMap<&'static str, usize>,
    /// Number of requests with each extended operation.
    pub extensions: BTreeMap<&'static str, usize>,
    /// Number of successes of each extended operation.
    pub succeeded: BTreeMap<&'static str, usize>,
    /// Number of answers that differ because only one directory has an entry of the new name.
    pub taken: usize,
    /// Number of answers that differ only in the order of names.
    pub reordered: usize,
    /// Number of values that a rule refused on one server only.
    pub revealed: usize,
    /// The first difference between the two servers that is not permitted.
    pub difference: Option<String>,
}

impl RunResult {
    /// Returns the counts in one line.
    pub fn summary(&self) -> String {
        let mut text = format!("{} requests", self.requests);
        let mut by_code: BTreeMap<u32, usize> = BTreeMap::new();
        self.codes.iter().for_each(|((_, code), count)| *by_code.entry(*code).or_default() += count);
        let codes: Vec<String> = by_code.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        let _ = write!(text, ", answers by code {{{}}}", codes.join(", "));
        let _ = write!(text, ", {} names taken in one alone, {} orders of names", self.taken, self.reordered);
        let _ = write!(text, ", {} values refused in one alone", self.revealed);
        let _ = write!(text, ", successes of extended operations {:?}", self.succeeded);
        text
    }
}

/// Sends requests to pairs of servers until `requests` are sent and `time` has passed, or until an answer differs.
pub fn run(seed: u64, requests: usize, time: Duration) -> RunResult {
    check_tables();
    let mut rng = Rng::with_seed(seed);
    let mut done = RunResult::default();
    let started = Instant::now();
    for pair in 0.. {
        if done.difference.is_some() || (done.requests >= requests && started.elapsed() >= time) {
            break;
        }
        let until = match started.elapsed() < time {
            true => done.requests + PAIR,
            false => requests.min(done.requests + PAIR),
        };
        let rng = &mut Rng::with_seed(rng.u64(..));
        run_pair(World::random(rng, pair % 2 == 0), rng, until, &mut done);
    }
    done
}

/// Checks that requests can be generated for every operation, control and extension in the server's tables.
fn check_tables() {
    for known in SUPPORTED_CONTROLS {
        assert!(
            control(known.oid).is_some(),
            "values.rs makes no value for the control {} ({})",
            known.oid,
            known.name
        );
    }
    for (oid, name) in SUPPORTED_EXTENSIONS {
        assert!(
            extended(oid).is_some(),
            "values.rs makes no value for the extended operation {oid} ({name})"
        );
    }
    for (oid, name) in SUPPORTED_FEATURES {
        assert!(feature(oid).is_some(), "values.rs does not know the feature {oid} ({name})");
    }
}

/// Two servers with different hidden data.
struct Pair {
    servers: [Pando; 2],
    admins: [Connection; 2],
    /// Connections of each requester to both servers; the last one is anonymous.
    links: Vec<[Link; 2]>,
    own: [ServerValues; 2],
    next_id: i32,
    rules: Vec<String>,
}

fn run_pair(world: World, rng: &mut Rng, until: usize, done: &mut RunResult) {
    let scratch = [Scratch::new("hidden-one"), Scratch::new("hidden-other")];
    let servers = std::thread::scope(|scope| {
        let starting = [0, 1].map(|side| {
            let (scratch, world) = (&scratch[side], &world);
            scope.spawn(move || serve(scratch, world, side))
        });
        starting.map(|server| server.join().unwrap())
    });
    let admins = servers.each_ref().map(Pando::administrator);
    let mut pair =
        Pair { servers, admins, links: Vec::new(), own: Default::default(), next_id: 1, rules: Vec::new() };
    pair.read_root();
    while done.difference.is_none() && done.requests < until {
        pair.begin_scene(&world, rng);
        let end = until.min(done.requests + SCENE);
        let mut dice = Dice { rng, world: &world, sync_cookie: None, position: None, follows: false };
        while done.difference.is_none() && done.requests < end {
            pair.send_requests(&mut dice, done);
        }
    }
}

fn serve(scratch: &Scratch, world: &World, side: usize) -> Pando {
    let data = Pando::data(scratch);
    let file = scratch.write("all.ldif", &world.ldif[side]);
    let settings = scratch.write("settings.toml", &world.settings);
    let arguments = [
        "import",
        "--settings",
        settings.to_str().unwrap(),
        "--keep-clear-passwords",
        file.to_str().unwrap(),
    ];
    command(&arguments, Some(&data)).expect_code(0);
    let pando = Start::bare(scratch, "data").arguments(&["--admin-dn", crate::ADMIN_DN]).ready();
    let mut admin = pando.administrator();
    convert(&mut admin);
    data_rules::prepare(&mut admin, side, &world.dynamic, &world.deleted);
    pando
}

/// Turns the values of `friend` into links, and waits until the server has converted them.
fn convert(admin: &mut Connection) {
    let changes: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Delete, "attributeTypes", &["( 1.3.6.1.4.1.32473.7 NAME 'friend' SUP name )"]),
        (ChangeOperation::Add, "attributeTypes", &[FRIENDS_ARE_LINKS]),
    ];
    let changed = admin.modify("cn=subschema", changes).unwrap();
    assert!(changed.is_success(), "{changed:?}");
    let (begun, dn) = (Instant::now(), "cn=Pending,cn=Links,cn=monitor");
    let pending = |admin: &mut Connection| admin.entry(dn, &["monitorCounter"]).unwrap().unwrap();
    while pending(admin).text("monitorCounter").as_deref() != Some("0") {
        assert!(begun.elapsed() < DEADLINE, "not in time: no plain values are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Pair {
    /// Reads the values that identify each server, and checks that these tests cover everything that the root DSE
    /// lists.
    fn read_root(&mut self) {
        for (admin, own) in self.admins.iter_mut().zip(&mut self.own) {
            let root = admin.entry("", &["*", "+"]).unwrap().unwrap();
            own.texts.extend(root.texts("pandoGeneration"));
            for oid in root.texts("supportedControl") {
                assert!(control(&oid).is_some(), "values.rs makes no value for the control {oid}");
            }
            for oid in root.texts("supportedExtension") {
                assert!(
                    extended(&oid).is_some(),
                    "values.rs makes no value for the extended operation {oid}"
                );
            }
            for oid in root.texts("supportedFeatures") {
                assert!(feature(&oid).is_some(), "values.rs does not know the feature {oid}");
            }
            for mechanism in root.texts("supportedSASLMechanisms") {
                assert!(sasl(&mechanism, "x").is_some(), "values.rs does not know the mechanism {mechanism}");
            }
        }
    }

    /// Changes the access rules, and binds all connections again.
    fn begin_scene(&mut self, world: &World, rng: &mut Rng) {
        self.rules = world.rules(rng);
        let size_limit = rng.u32(..3) * 4;
        self.links.clear();
        for admin in &mut self.admins {
            let rules: Vec<&str> = self.rules.iter().map(String::as_str).collect();
            let size_limit = size_limit.to_string();
            let changes: &[(_, &str, &[&str])] = &[
                (ChangeOperation::Replace, "pandoAccessRule", &rules),
                (ChangeOperation::Replace, "pandoSizeLimit", &[&size_limit]),
            ];
            let changed = admin.modify("cn=config", changes).unwrap();
            assert!(changed.is_success(), "{changed:?} {:#?}", self.rules);
            for number in 0..REQUESTERS {
                let password = format!("a{number}-secret");
                let change: &[(_, &str, &[&str])] =
                    &[(ChangeOperation::Replace, "userPassword", &[&password])];
                assert!(admin.modify(&requester_dn(number), change).unwrap().is_success());
            }
        }
        for number in 0..REQUESTERS {
            let mut both = self.open();
            let proof = format!("a{number}-secret").into_bytes();
            let operation = Operation::Bind { name: requester_dn(number), mechanism: None, proof };
            let request = TestRequest::plain(operation);
            for (side, link) in both.iter_mut().enumerate() {
                let mut octets = Vec::new();
                request.encode(1, side, &mut octets);
                link.send(&octets);
                assert_eq!(code_of(&link.answers(vec![1])[&1]), Some(ResultCode::SUCCESS));
            }
            self.links.push(both);
        }
        let anonymous = self.open();
        self.links.push(anonymous);
    }

    fn open(&self) -> [Link; 2] {
        self.servers.each_ref().map(|server| Link::open(server.address()))
    }

    /// Sends some requests at once on one connection.
    fn send_requests(&mut self, dice: &mut Dice<'_>, done: &mut RunResult) {
        let mut requests = Vec::new();
        match dice.rng.u32(..20) {
            0 => return self.binds(dice, done),
            1 => return self.own_connection(dice, done),
            2..=7 => {
                for _ in 0..WRITES {
                    let context = self.context_of(dice, Kind::Writes);
                    requests.push(dice.request(context, Kind::Writes));
                }
            }
            _ => {
                for _ in 0..READS {
                    let context = self.context_of(dice, Kind::Reads);
                    requests.push(dice.request(context, Kind::Reads));
                }
            }
        }
        let place = dice.rng.usize(..2 * REQUESTERS + 1) / 2;
        // A search that continues is cancelled immediately. Send it alone, so that both servers cancel it at the same
        // point.
        for sent in requests.chunk_by(|one, other| !one.follows && !other.follows) {
            if done.difference.is_none() {
                self.send_and_compare(place, sent, dice, done);
            }
        }
        // Request the next pages of a paged search.
        let mut paged: Option<TestRequest> = requests.into_iter().rev().find(|request| {
            matches!(request.operation, Operation::Search(_)) && has(request, oids::PAGED_RESULTS)
        });
        while let Some(request) = paged.as_mut().filter(|_| done.difference.is_none()) {
            let [Some(one), Some(other)] = self.own.each_ref().map(|own| own.page_cookie.clone()) else {
                return;
            };
            let size = dice.rng.u32(..3);
            let encode = |cookie: &[u8]| ldap::PagedResults { size, cookie }.encode();
            let page = request.controls.iter_mut().find(|asked| asked.oid == oids::PAGED_RESULTS);
            page.unwrap().value = Some([encode(&one), encode(&other)]);
            self.own.iter_mut().for_each(|own| own.page_cookie = None);
            let next = [request.clone()];
            self.send_and_compare(place, &next, dice, done);
        }
    }

    fn context_of(&self, dice: &mut Dice<'_>, kind: Kind) -> ControlContext {
        // An abandon, which has no answer, is possible only if this number is 0.
        let number = dice.rng.u32(..8);
        let fits = |context: &ControlContext| match context {
            ControlContext::Search | ControlContext::Compare => kind == Kind::Reads,
            ControlContext::Add
            | ControlContext::Delete
            | ControlContext::Modify
            | ControlContext::ModifyDn => kind == Kind::Writes,
            ControlContext::Extended => kind != Kind::OfConnection,
            ControlContext::Unanswered => kind == Kind::Reads && number == 0,
            ControlContext::Bind => false,
        };
        if kind == Kind::Reads && dice.rng.u32(..3) > 0 {
            return ControlContext::Search;
        }
        let all: Vec<ControlContext> = ControlContext::ALL.into_iter().filter(fits).collect();
        all[dice.rng.usize(..all.len())]
    }

    /// Binds on a new connection, and asks for the identity after each bind.
    fn binds(&mut self, dice: &mut Dice<'_>, done: &mut RunResult) {
        self.links.push(self.open());
        let mechanisms =
            ["EXTERNAL", "PLAIN", "ANONYMOUS", "SCRAM-SHA-256", "CRAM-MD5", "DIGEST-MD5", "NONE"];
        for _ in 0..4 {
            let mut request = dice.request(ControlContext::Bind, Kind::Reads);
            if dice.rng.bool() {
                let mechanism = mechanisms[dice.rng.usize(..mechanisms.len())];
                let name = match dice.rng.bool() {
                    true => format!("dn:{}", dice.user()),
                    false => dice.identity(),
                };
                let proof = sasl(mechanism, &name).unwrap_or_default();
                request.operation =
                    Operation::Bind { name: String::new(), mechanism: Some(mechanism.to_owned()), proof };
            }
            let who = Operation::Extended { name: oids::WHO_AM_I.to_owned(), value: Sent(None) };
            let who = TestRequest::plain(who);
            self.send_and_compare(self.links.len() - 1, &[request, who], dice, done);
        }
        self.links.pop();
    }

    /// Sends a request that ends or changes a connection, on a new connection.
    fn own_connection(&mut self, dice: &mut Dice<'_>, done: &mut RunResult) {
        let mut links = self.open();
        let first = dice.request(ControlContext::Search, Kind::Reads);
        let context = if dice.rng.bool() { ControlContext::Unanswered } else { ControlContext::Extended };
        let mut last = dice.request(context, Kind::OfConnection);
        // The last request changes the connection, so its result must be known.
        last.controls.retain(|asked| !asked.oid.is_empty());
        let request = [first, last];
        let mut shown = [String::new(), String::new()];
        for (side, link) in links.iter_mut().enumerate() {
            for (number, request) in request.iter().enumerate() {
                let mut octets = Vec::new();
                request.encode(number as i32 + 1, side, &mut octets);
                link.send(&octets);
                if request.follows {
                    break;
                }
                if matches!(request.operation, Operation::Unbind) {
                    assert!(link.frame().is_none(), "closed after an unbind");
                    continue;
                }
                for (_, messages) in link.answers(vec![number as i32 + 1]) {
                    for frame in messages {
                        let masked = self.own[side].masked(&frame);
                        let _ = writeln!(shown[side], "{}", in_order(&masked, true));
                    }
                }
            }
        }
        done.requests += request.len();
        if shown[0] != shown[1] {
            done.difference = Some(format!("{request:#?}\none: {}\nother: {}", shown[0], shown[1]));
        }
    }

    /// Sends requests to both servers, and compares the answers.
    fn send_and_compare(
        &mut self,
        place: usize,
        requests: &[TestRequest],
        dice: &mut Dice<'_>,
        done: &mut RunResult,
    ) {
        let first = self.next_id;
        self.next_id += requests.len() as i32 * 2;
        let links = &mut self.links[place];
        let mut wanted = Vec::new();
        for (side, link) in links.iter_mut().enumerate() {
            let mut octets = Vec::new();
            wanted.clear();
            for (request, id) in requests.iter().zip((first..).step_by(2)) {
                request.encode(id, side, &mut octets);
                if !matches!(request.operation, Operation::Abandon(_)) {
                    wanted.push(id);
                }
                if request.follows {
                    let cancel = ldap::encode_cancel(ldap::MessageId(id));
                    let value = Sent(Some([cancel.clone(), cancel]));
                    let operation = Operation::Extended { name: oids::CANCEL.to_owned(), value };
                    let cancel = TestRequest::plain(operation);
                    cancel.encode(id + 1, side, &mut octets);
                    wanted.push(id + 1);
                }
            }
            link.send(&octets);
        }
        let answers = links.each_mut().map(|link| link.answers(wanted.clone()));
        for (request, id) in requests.iter().zip((first..).step_by(2)) {
            done.requests += 1;
            done.note(request, &answers[0], id);
            for id in [id, id + 1] {
                if done.difference.is_some() {
                    return;
                }
                self.compare(place, request, id, &answers, dice, done);
            }
        }
        if let [Some(one), Some(other)] = self.own.each_ref().map(|own| own.sync_cookie.clone()) {
            dice.sync_cookie = Some([one, other]);
        }
        if let [Some(one), Some(other)] = self.own.each_ref().map(|own| own.position) {
            dice.position = Some([one, other]);
        }
    }

    fn compare(
        &mut self,
        place: usize,
        request: &TestRequest,
        id: i32,
        answers: &[Answers; 2],
        dice: &Dice<'_>,
        done: &mut RunResult,
    ) {
        const NONE: &Vec<Vec<u8>> = &Vec::new();
        let all = answers.each_ref().map(|answers| answers.get(&id).unwrap_or(NONE));
        let mut masked =
            [0, 1].map(|side| all[side].iter().map(|frame| self.own[side].masked(frame)).collect::<Vec<_>>());
        if request.follows {
            // Ignore messages that depend on the moment at which the search is cancelled.
            let is_end =
                |frame: &Vec<u8>| matches!(decoded(frame).response, ldap::Response::Intermediate { .. });
            masked.iter_mut().for_each(|frames| frames.retain(|frame| !is_end(frame)));
        }
        if masked[0] == masked[1] {
            return;
        }
        let [plain, sets] = [false, true].map(|are_sets| {
            masked.each_ref().map(|all| all.iter().map(|frame| in_order(frame, are_sets)).collect::<Vec<_>>())
        });
        if plain[0] == plain[1] {
            return;
        }
        let names_one = |text: &String| dice.world.one.iter().any(|(name, _)| text.contains(name));
        if sets[0] == sets[1] && sets[0].iter().any(names_one) {
            done.reordered += 1;
            return;
        }
        if let Some(side) = request.taken_in {
            // The message contains the name as the request spells it, not as the hidden entry does.
            let name = match &request.operation {
                Operation::ModifyDn { new_rdn, .. } => new_rdn.as_str(),
                Operation::Add { entry, .. } => entry.as_str(),
                _ => "",
            };
            let is_taken = all[side].last().is_some_and(|last| {
                let result = decoded(last).response.result().copied();
                result.is_some_and(|result| {
                    result.code == ResultCode::ENTRY_ALREADY_EXISTS
                        && result.matched_dn.is_empty()
                        && result.diagnostic == format!("there is an entry {name:?}")
                })
            });
            let is_open = code_of(all[1 - side]) != Some(ResultCode::NO_SUCH_OBJECT);
            if is_taken && is_open {
                done.taken += 1;
                return;
            }
        }
        let may_reveal = |frames: &Vec<Vec<u8>>| {
            frames.len() == 1 && decoded(&frames[0]).response.result().is_some_and(data_rules::may_reveal)
        };
        if request.reveals && all.iter().all(|frames| may_reveal(frames)) {
            done.revealed += 1;
            return;
        }
        let asks =
            if place < REQUESTERS { requester_dn(place) } else { "anonymous, or just bound".to_owned() };
        let only: Vec<String> = dice.world.one.iter().map(|(dn, side)| format!("{dn} in {side}")).collect();
        let first = masked[0].iter().zip(&masked[1]).position(|(one, other)| one != other);
        let first = first.unwrap_or(masked[0].len().min(masked[1].len()));
        let words = all.map(|frames| {
            let shown: Vec<_> = frames.iter().skip(first).take(2).map(|frame| in_words(frame)).collect();
            format!("{} messages, those that differ first: {shown:#?}", frames.len())
        });
        done.difference = Some(format!(
            "{request:#?}\nas {asks}, request {} of the run, under {:#?}\none: {}\nother: {}\nhidden in one: {only:#?}",
            done.requests, self.rules, words[0], words[1]
        ));
    }
}

impl RunResult {
    fn note(&mut self, request: &TestRequest, answers: &Answers, id: i32) {
        let code = answers.get(&id).and_then(|messages| code_of(messages)).map_or(u32::MAX, |code| code.0);
        let operation = match &request.operation {
            Operation::Bind { .. } => "bind",
            Operation::Search(_) => "search",
            Operation::Compare { .. } => "compare",
            Operation::Add { .. } => "add",
            Operation::Delete { .. } => "delete",
            Operation::Modify { .. } => "modify",
            Operation::ModifyDn { .. } => "modify DN",
            Operation::Extended { .. } => "extended",
            Operation::Abandon(_) => "abandon",
            Operation::Unbind => "unbind",
        };
        *self.codes.entry((operation, code)).or_default() += 1;
        for AccessRequest { oid, .. } in &request.controls {
            if let Some(known) = SUPPORTED_CONTROLS.iter().find(|known| known.oid == oid) {
                *self.controls.entry(known.oid).or_default() += 1;
            }
        }
        if let Operation::Extended { name, .. } = &request.operation
            && let Some((oid, _)) = SUPPORTED_EXTENSIONS.iter().find(|(oid, _)| oid == name)
        {
            *self.extensions.entry(oid).or_default() += 1;
            if code == ResultCode::SUCCESS.0 {
                *self.succeeded.entry(oid).or_default() += 1;
            }
        }
    }
}

fn has(request: &TestRequest, oid: &str) -> bool {
    request.controls.iter().any(|asked| asked.oid == oid)
}
