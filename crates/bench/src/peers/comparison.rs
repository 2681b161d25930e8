//! Servers beside each other in one run: loaded in turn, asked the same, and put under the same load in alternation.
//!
//! Only one server runs at any moment: the others are held (SIGSTOP), warm and with their memory, but without housekeeping that would
//! cost the one that is measured. Each round goes through the servers in another order, so that none always has the place
//! after the same neighbour. Where the disk has no room for all data at a time, one server goes through all rounds before the next is
//! loaded, and the result says so.

use std::path::PathBuf;

use super::answers::{self, Answer, Question};
use super::{Data, Peer, PeerError, Product, Programs, Room, Server, Setup, loading};
use crate::result::{Comparison, RunResult, ServerDescription, WorkloadResult, now_text};

/// The name under which loads stand in a result.
pub const BULK_LOAD: &str = "bulk-load";

/// What to compare.
pub struct Plan<'p> {
    /// The servers; answers of the others are held against the first one's.
    pub products: &'p [Product],
    /// Where their programs are.
    pub programs: &'p Programs,
    /// A folder for their data; each gets its own in it.
    pub folder: PathBuf,
    /// What all of them get.
    pub setup: Setup,
    /// Whether they are also to write their data as LDIF.
    pub export: bool,
    /// How often each workload runs on each server.
    pub rounds: u32,
}

/// Puts a load on servers.
pub trait Measure {
    /// How many workloads there are; without any, servers are loaded and asked one after the other.
    fn workloads(&self) -> usize;

    /// Runs one of them once. What goes wrong is part of the result.
    fn measure(&mut self, workload: usize, round: u32, target: &Target<'_>) -> WorkloadResult;
}

/// A server that is ready for load.
pub struct Target<'t> {
    /// Its process.
    pub server: &'t Server,
    /// What it is, for the result.
    pub description: &'t ServerDescription,
    /// Whom to bind as, and the data's root.
    pub setup: &'t Setup,
    /// What it holds.
    pub data: &'t Data,
}

/// A server of the comparison.
struct Contestant {
    peer: Box<dyn Peer>,
    description: ServerDescription,
    server: Option<Server>,
}

/// Compares, and appends to the result what comes out: a load for every server, its workloads, and the comparison of answers. A server that fails
/// stays in the result with the reason, and the others go on.
///
/// # Errors
/// When the disk is too small for any of them.
pub fn compare(
    plan: &Plan<'_>,
    data: &Data,
    measure: &mut dyn Measure,
    result: &mut RunResult,
    say: &mut dyn FnMut(&str),
) -> Result<(), PeerError> {
    let questions = answers::questions(&plan.setup, data);
    let mut run = Run { plan, data, result, say, questions, answers: Vec::new() };
    let is_load_only = measure.workloads() == 0;
    match loading::room(plan.products, data, &plan.folder)? {
        Room::ForAll if !is_load_only => run.all_at_a_time(measure),
        room => {
            if room == Room::ForOne && !is_load_only {
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
    questions: Vec<Question>,
    answers: Vec<(String, Vec<Answer>)>,
}

impl Run<'_> {
    fn all_at_a_time(&mut self, measure: &mut dyn Measure) {
        let mut contestants: Vec<_> =
            self.plan.products.iter().filter_map(|product| self.prepare(*product)).collect();
        for round in 1..=self.plan.rounds {
            for workload in 0..measure.workloads() {
                self.round(measure, workload, round, &mut contestants);
                // Another one begins next time.
                let len = contestants.len().max(1);
                contestants.rotate_left(1 % len);
            }
        }
        contestants.into_iter().for_each(|contestant| self.end(contestant));
    }

    fn one_after_another(&mut self, measure: &mut dyn Measure) {
        for product in self.plan.products {
            let Some(contestant) = self.prepare(*product) else { continue };
            let mut alone = [contestant];
            for round in 1..=self.plan.rounds {
                for workload in 0..measure.workloads() {
                    self.round(measure, workload, round, &mut alone);
                }
            }
            let [contestant] = alone;
            self.end(contestant);
        }
    }

    /// A server with its data, that was asked the questions and is held.
    fn prepare(&mut self, product: Product) -> Option<Contestant> {
        match self.try_prepare(product) {
            Ok(contestant) => Some(contestant),
            Err(error) => {
                (self.say)(&format!("{}: {error}", product.name()));
                let server =
                    ServerDescription { product: product.name().to_owned(), ..ServerDescription::default() };
                let title = "Bulk load by the server's own loader";
                let mut failed = WorkloadResult::unsupported(BULK_LOAD, title, server, error.to_string());
                failed.complete = false;
                self.result.workloads.push(failed);
                None
            }
        }
    }

    fn try_prepare(&mut self, product: Product) -> Result<Contestant, PeerError> {
        let folder = self.plan.folder.join(product.name());
        let mut peer = loading::configure(product, &self.plan.programs.clone(), &folder, &self.plan.setup)?;
        let name = peer.product().to_owned();
        (self.say)(&format!("{name}: loading {} entries", self.data.entries));
        let load = peer.bulk_load(self.data)?;
        let export = if self.plan.export { loading::export(&mut *peer)? } else { None };
        let mut description = loading::description(&*peer, &self.plan.setup, self.data);
        let loaded = loading::load_result(&load, export, self.data);
        (self.say)(&format!(
            "{name}: {} in {:.1} s ({:.1} s CPU), {:.0} MB private memory, {:.0} MB on disk",
            loaded.loader,
            loaded.seconds,
            load.cost.cpu.as_secs_f64(),
            load.cost.rss_anon_peak_bytes as f64 / 1e6,
            load.disk_bytes as f64 / 1e6
        ));
        description.bulk_load = Some(loaded);
        self.result.workloads.push(WorkloadResult {
            workload: BULK_LOAD.to_owned(),
            title: "Bulk load by the server's own loader".to_owned(),
            started: now_text(),
            round: 1,
            server: description.clone(),
            measured_seconds: load.cost.wall.as_secs_f64(),
            per_second: self.data.entries as f64 / load.cost.wall.as_secs_f64().max(1e-9),
            complete: true,
            ..WorkloadResult::default()
        });
        let server = peer.start()?;
        description.uris = vec![format!("ldap://{}", server.address())];
        self.result.environment.set_server_process(server.id());
        let mut connection = server.bound(&self.plan.setup.admin_dn, &self.plan.setup.admin_password)?;
        let answers = answers::ask(&mut connection, &self.questions)?;
        self.answers.push((name, answers));
        server.hold();
        Ok(Contestant { peer, description, server: Some(server) })
    }

    fn round(
        &mut self,
        measure: &mut dyn Measure,
        workload: usize,
        round: u32,
        contestants: &mut [Contestant],
    ) {
        for contestant in contestants {
            let Some(server) = &contestant.server else { continue };
            server.go_on();
            let target = Target {
                server,
                description: &contestant.description,
                setup: &self.plan.setup,
                data: self.data,
            };
            let measured = measure.measure(workload, round, &target);
            server.hold();
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

/// One measurement for a person.
fn line(measured: &WorkloadResult) -> String {
    let mut text = format!("round {}: {} {}: ", measured.round, measured.server.product, measured.workload);
    if let Some(reason) = &measured.unsupported {
        return text + "not measured: " + reason;
    }
    text.push_str(&format!("{:.0}/s", measured.per_second));
    if let Some(cost) = &measured.cost {
        text.push_str(&format!(", {:.1} us of CPU each", cost.cpu_micros_per_operation));
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
