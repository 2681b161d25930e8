//! Comparison of servers in one run. The servers are loaded in turn. All receive the same searches, and they take turns
//! under the same load.
//!
//! Only one server runs at a time. The others are stopped (SIGSTOP). A stopped server stays warm and retains its
//! memory, but its background work cannot disturb the measured server. Before a server's turn, pages of its files that
//! the system has reclaimed are read again. The order of the servers rotates from round to round, so that successive
//! rounds begin with different servers. If the disk has no space for the data of all servers, or on request, one server
//! completes all rounds before the next is loaded. The result states this.
//!
//! No measurement is lost: the caller receives and saves the result after every workload, and a comparison can continue
//! from the result of an earlier comparison ([`super::done`]). A server that ends during a workload is restarted for
//! the next workload.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::answers::{self, Answer, Question};
use super::measure::{BULK_LOAD, Measure, Target};
use super::{Data, Peer, PeerError, Product, Programs, Room, Server, Setup, done, loading, process, warmth};
use crate::result::{Comparison, RunResult, ServerDescription, WorkloadResult, now_text};
use crate::workload::Workload;

/// Maximum time that a server may be busy after its clients have disconnected. The time is enough for a garbage
/// collection or a checkpoint.
const SETTLE_MAX: Duration = Duration::from_secs(10);

const LOAD_TITLE: &str = "Bulk load by the server's own loader";

/// Parameters of a comparison.
pub struct Plan<'p> {
    /// The servers. All others are compared with the first server.
    pub products: &'p [Product],
    /// Paths of the servers' programs.
    pub programs: &'p Programs,
    /// Folder for the data. Each server has a subfolder.
    pub folder: PathBuf,
    /// Common setup.
    pub setup: Setup,
    /// Whether the servers also export their data as LDIF.
    pub export: bool,
    /// Number of runs of each workload on each server.
    pub rounds: u32,
    /// Length of the warm-up, after each start, of servers that compile their code.
    pub java_warm_up: Duration,
    /// Whether one server completes all rounds before the next is loaded, even if there is space for all. With this
    /// option, the data of one server can use all memory.
    pub one_at_a_time: bool,
}

/// Receivers of progress reports.
pub struct Follower<'f> {
    /// Receives the progress as text, line by line.
    pub say: &'f mut dyn FnMut(&str),
    /// Receives the result after every workload, to save it.
    pub save: &'f mut dyn FnMut(&RunResult),
}

/// A server of the comparison.
struct Contestant {
    peer: Box<dyn Peer>,
    description: ServerDescription,
    server: Option<Server>,
}

impl Contestant {
    /// Continues the server after SIGSTOP, and configures it for a workload.
    fn set_for(&mut self, workload: &Workload) -> Result<(), PeerError> {
        let Some(server) = &self.server else { return Ok(()) };
        server.go_on();
        self.peer.set_for(workload, server)
    }
}

/// Compares the servers, and appends to the result: the load of every server, its workloads, and the comparison of
/// answers. A server that fails stays in the result with the reason, and the comparison continues with the other
/// servers. Complete measurements that the result already contains are not repeated.
///
/// # Errors
/// The disk cannot hold the data of even one server at a time.
pub fn compare(
    plan: &Plan<'_>,
    data: &Data,
    measure: &mut dyn Measure,
    result: &mut RunResult,
    follower: Follower<'_>,
) -> Result<(), PeerError> {
    let questions = answers::questions(&plan.setup, data);
    let Follower { say, save } = follower;
    let mut run = Run { plan, data, result, say, save, questions, answers: Vec::new() };
    let is_load_only = measure.workloads().is_empty();
    match loading::room(plan.products, data, &plan.folder)? {
        Room::ForAll if !is_load_only && !plan.one_at_a_time => run.all_at_a_time(measure),
        room => {
            if room == Room::ForOne && !is_load_only && !plan.one_at_a_time {
                (run.say)(
                    "the disk has no room for all servers' data: one server after the other, not in alternation",
                );
            }
            run.one_after_another(measure);
        }
    }
    let comparison = answers::compare(&data.template, &run.questions, &run.answers);
    if comparison.servers.len() > 1 {
        (run.say)(&agreement(&comparison));
        run.result.comparisons.push(comparison);
    }
    (run.save)(run.result);
    Ok(())
}

fn agreement(comparison: &Comparison) -> String {
    let mut text =
        format!("{} of {} searches were answered differently", comparison.differing, comparison.requests);
    for example in &comparison.examples {
        text.push_str(&format!("\n  {example}"));
    }
    text
}

struct Run<'r> {
    plan: &'r Plan<'r>,
    data: &'r Data,
    result: &'r mut RunResult,
    say: &'r mut dyn FnMut(&str),
    save: &'r mut dyn FnMut(&RunResult),
    questions: Vec<Question>,
    answers: Vec<(String, Vec<Answer>)>,
}

impl Run<'_> {
    fn all_at_a_time(&mut self, measure: &mut dyn Measure) {
        let products = self.plan.products;
        let mut contestants: Vec<_> =
            products.iter().filter_map(|product| self.prepare(*product, measure)).collect();
        for round in 1..=self.plan.rounds {
            for workload in 0..measure.workloads().len() {
                self.round(measure, workload, round, &mut contestants);
                (self.save)(self.result);
                // The next round begins with a different server.
                let len = contestants.len().max(1);
                contestants.rotate_left(1 % len);
            }
        }
        contestants.into_iter().for_each(|contestant| self.end(contestant));
    }

    /// Compares one server at a time. A server that an earlier run completed is not loaded again, and its answers are
    /// not compared with the answers of this run.
    fn one_after_another(&mut self, measure: &mut dyn Measure) {
        for product in self.plan.products {
            if done::is_product_done(self.result, measure.workloads(), *product, self.plan.rounds) {
                (self.say)(&format!("{}: was measured by the run before", product.label()));
                continue;
            }
            let Some(contestant) = self.prepare(*product, measure) else { continue };
            let mut alone = [contestant];
            for round in 1..=self.plan.rounds {
                for workload in 0..measure.workloads().len() {
                    self.round(measure, workload, round, &mut alone);
                    (self.save)(self.result);
                }
            }
            let [contestant] = alone;
            self.end(contestant);
        }
    }

    /// Returns a server that is loaded, checked, warmed up and stopped by SIGSTOP. If the server fails, the result
    /// contains the reason, for its load and for every workload.
    fn prepare(&mut self, product: Product, measure: &mut dyn Measure) -> Option<Contestant> {
        match self.try_prepare(product, measure) {
            Ok(contestant) => Some(contestant),
            Err(error) => {
                (self.say)(&format!("{}: {error}", product.label()));
                let server = done::known_server(self.result, product);
                let mut row =
                    WorkloadResult::unsupported(BULK_LOAD, LOAD_TITLE, server.clone(), error.to_string());
                row.complete = false;
                self.result.workloads.push(row);
                let reason = format!("the server could not be set up: {error}");
                let rows = measure.workloads().iter();
                let rows = rows.map(|workload| workload.failed(server.clone(), reason.clone()));
                self.result.workloads.extend(rows);
                None
            }
        }
    }

    fn try_prepare(&mut self, product: Product, measure: &mut dyn Measure) -> Result<Contestant, PeerError> {
        let folder = self.plan.folder.join(product.name());
        let began = Instant::now();
        let mut peer = loading::configure(product, self.plan.programs, &folder, &self.plan.setup)?;
        let name = peer.product().to_owned();
        (self.say)(&format!(
            "{name}: set up in {:.1} s; loading {} entries",
            began.elapsed().as_secs_f64(),
            self.data.entries
        ));
        let description = self.load(&mut *peer)?;
        let began = Instant::now();
        let server = peer.start()?;
        let started = began.elapsed();
        let mut contestant = Contestant { peer, description, server: None };
        self.take(&mut contestant, server);
        let Some(server) = &contestant.server else { return Ok(contestant) };
        let began = Instant::now();
        let mut connection = server.bound(&self.plan.setup.admin_dn, &self.plan.setup.admin_password)?;
        let answers = answers::send_all(&mut connection, &self.questions, self.plan.setup.passwords)?;
        (self.say)(&format!(
            "{name}: started in {:.1} s, answered {} questions in {:.1} s",
            started.as_secs_f64(),
            self.questions.len(),
            began.elapsed().as_secs_f64()
        ));
        self.answers.push((name, answers));
        self.warm_up(&mut contestant, measure);
        if let Some(server) = &contestant.server {
            server.hold();
        }
        Ok(contestant)
    }

    /// Loads the data into the server and records the cost. Returns the server's description for the result.
    fn load(&mut self, peer: &mut dyn Peer) -> Result<ServerDescription, PeerError> {
        let load = peer.bulk_load(self.data)?;
        let export = if self.plan.export { loading::export(peer)? } else { None };
        let mut description = loading::description(peer, &self.plan.setup, self.data);
        let loaded = loading::load_result(&load, export, self.data);
        (self.say)(&format!(
            "{}: {} in {:.1} s ({:.1} s CPU), {:.0} MB private memory, {:.0} MB on disk",
            peer.product(),
            loaded.loader,
            loaded.seconds,
            load.cost.cpu.as_secs_f64(),
            load.cost.rss_anon_peak_bytes as f64 / 1e6,
            load.disk_bytes as f64 / 1e6
        ));
        description.bulk_load = Some(loaded);
        // If this run continues an earlier run, the result may already contain this load.
        if !self.result.workloads.iter().any(|load| done::is_load_of(load, &description)) {
            self.result.workloads.push(WorkloadResult {
                workload: BULK_LOAD.to_owned(),
                title: LOAD_TITLE.to_owned(),
                started: now_text(),
                round: 1,
                server: description.clone(),
                measured_seconds: load.cost.wall.as_secs_f64(),
                per_second: self.data.entries as f64 / load.cost.wall.as_secs_f64().max(1e-9),
                complete: true,
                ..WorkloadResult::default()
            });
            (self.save)(self.result);
        }
        Ok(description)
    }

    /// Assigns a started server to its [`Contestant`].
    fn take(&mut self, contestant: &mut Contestant, server: Server) {
        contestant.description.uris = vec![format!("ldap://{}", server.address())];
        self.result.environment.set_server_process(server.id());
        contestant.server = Some(server);
    }

    /// Warms up a server that compiles its code.
    fn warm_up(&mut self, contestant: &mut Contestant, measure: &mut dyn Measure) {
        let time = self.plan.java_warm_up;
        if !contestant.peer.needs_warm_up() || measure.workloads().is_empty() || time.is_zero() {
            return;
        }
        let Some(server) = &contestant.server else { return };
        let warm_up = format!("{:.0} s of the workloads' operations after each start", time.as_secs_f64());
        contestant.description.set("warm-up", warm_up);
        (self.say)(&format!("{}: warming up for {:.0} s", contestant.peer.product(), time.as_secs_f64()));
        let description = &contestant.description;
        let target = Target { server, description, setup: &self.plan.setup, data: self.data };
        measure.warm_up(time, &target);
    }

    /// Restarts or starts the server, with cold caches if the workload requires that.
    fn start_again(
        &mut self,
        contestant: &mut Contestant,
        measure: &mut dyn Measure,
        stays_cold: bool,
    ) -> Result<(), PeerError> {
        if let Some(Err(error)) = contestant.server.take().map(Server::stop) {
            (self.say)(&error.to_string());
        }
        let server = contestant.peer.start()?;
        self.take(contestant, server);
        if !stays_cold {
            self.warm_up(contestant, measure);
        }
        Ok(())
    }

    fn round(
        &mut self,
        measure: &mut dyn Measure,
        workload: usize,
        round: u32,
        contestants: &mut [Contestant],
    ) {
        let takes_turns = contestants.len() > 1;
        for contestant in contestants {
            let Workload { name, needs, .. } = &measure.workloads()[workload];
            let wants_start = needs.fresh_start;
            if done::is_done(self.result, name, round, &contestant.description.product) {
                continue;
            }
            let has_ended = contestant.server.as_ref().is_none_or(Server::has_ended);
            if has_ended {
                (self.say)(&format!("{}: has ended, and is started again", contestant.description.product));
            }
            let is_other = contestant.peer.wants_start(&measure.workloads()[workload]);
            let was_held = takes_turns && !wants_start && !is_other;
            let ready = match has_ended || wants_start || is_other {
                true => self.start_again(contestant, measure, wants_start),
                false => Ok(()),
            };
            let ready = ready.and_then(|()| contestant.set_for(&measure.workloads()[workload]));
            if let Err(error) = ready {
                (self.say)(&error.to_string());
                let server = ServerDescription { bulk_load: None, ..contestant.description.clone() };
                let row = measure.workloads()[workload].failed(server, error.to_string());
                self.result.workloads.push(WorkloadResult { round, ..row });
                continue;
            }
            let Some(server) = &contestant.server else { continue };
            let folder = contestant.peer.folder();
            if was_held && process::disk_bytes(folder) < process::memory_bytes() / 2 {
                process::read_in(folder);
            }
            server.go_on();
            let target = Target {
                server,
                description: &contestant.description,
                setup: &self.plan.setup,
                data: self.data,
            };
            let mut measured = measure.measure(workload, round, &target);
            if !server.settles_within(SETTLE_MAX) {
                (self.say)(&format!(
                    "{} is still at work, and is started again",
                    contestant.description.product
                ));
                if let Err(error) = self.start_again(contestant, measure, false) {
                    (self.say)(&error.to_string());
                }
            }
            if let Some(server) = &contestant.server {
                server.hold();
            }
            if has_ended {
                measured.notes.push("the server had ended before this, and was started again".to_owned());
            }
            (self.say)(&line(&measured));
            self.result.workloads.push(measured);
        }
    }

    /// Stops a server and removes its data.
    fn end(&mut self, mut contestant: Contestant) {
        if let Some(Err(error)) = contestant.server.take().map(Server::stop) {
            (self.say)(&error.to_string());
        }
        if let Err(error) = std::fs::remove_dir_all(contestant.peer.folder()) {
            (self.say)(&format!("remove {}: {error}", contestant.peer.folder().display()));
        }
    }
}

/// Formats one measurement as a line of progress.
fn line(measured: &WorkloadResult) -> String {
    let mut text = format!("round {}: {} {}: ", measured.round, measured.server.product, measured.workload);
    if let Some(reason) = &measured.unsupported {
        return text + "not measured: " + reason;
    }
    text.push_str(&format!("{:.0}/s", measured.per_second));
    if let Some(cost) = &measured.cost {
        text.push_str(&format!(", {:.1} us of CPU each", cost.cpu_micros_per_operation));
    }
    if let Some(warm_up) = &measured.warm_up {
        text.push_str(&format!(", {}", warmth::sentence(warm_up)));
    }
    let latency = measured.latency();
    if let (Some(p50), Some(p99)) = (latency.percentile_micros(50.0), latency.percentile_micros(99.0)) {
        text.push_str(&format!(", p50 {p50} us, p99 {p99} us"));
    }
    let errors = measured.errors_total() + measured.wrong_answers_total();
    if errors > 0 {
        text.push_str(&format!(", {errors} ERRORS"));
    }
    for failure in &measured.failures {
        text.push_str(&format!("\n  {failure}"));
    }
    text
}
