//! Running workloads on the servers of a comparison, grouped by the data and settings that they need.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use super::adapted::{self, AdaptedWorkload};
use super::measure::{Measure, Target};
use super::{Data, DataError, Index, Passwords, Setup, merge_indexes, process, warmth};
use crate::driver::{self, Options, Progress, Targets};
use crate::result::setting;
use crate::result::{WarmUp, WorkloadResult};
use crate::template::Parameters;
use crate::workload::{Operation, OperationName, Scope, Workload};

/// Workloads with the same data and the same settings of the servers.
#[derive(Clone, Debug)]
pub struct Group {
    /// The template of the data.
    pub template: String,
    /// Constants that replace constants of the template.
    pub constants: BTreeMap<String, String>,
    /// Number of entries that are keys; `None` for the number in the template.
    pub entries: Option<u64>,
    /// Indexes of all servers.
    pub indexes: Vec<Index>,
    /// Storage form of passwords.
    pub passwords: Passwords,
    /// Whether a line is logged for every operation.
    pub operation_log: bool,
    /// Whether an audit trail contains every operation.
    pub audit: bool,
    /// Workloads of the group. A workload without jobs measures only the bulk load.
    pub workloads: Vec<Workload>,
}

impl Group {
    /// Returns a group that only loads data: `entries` is the number of main entries; `None` stands for the number in
    /// the template.
    pub fn load_only(template: &str, entries: Option<u64>, indexes: Vec<Index>) -> Group {
        Group {
            template: template.to_owned(),
            constants: BTreeMap::new(),
            entries,
            indexes,
            passwords: Passwords::Salted,
            operation_log: false,
            audit: false,
            workloads: Vec::new(),
        }
    }

    /// Returns the setup of the servers of this group.
    pub fn setup(&self, data: &Data) -> Setup {
        let mut setup = Setup::new(&data.suffix, self.indexes.clone(), data.bytes);
        setup.schema.clone_from(&data.schema);
        setup.passwords = self.passwords;
        setup.operation_log = self.operation_log;
        setup.audit = self.audit;
        setup
    }

    fn has_data_of(&self, other: &Group) -> bool {
        self.template == other.template
            && self.constants == other.constants
            && self.entries == other.entries
            && self.passwords == other.passwords
            && self.operation_log == other.operation_log
            && self.audit == other.audit
    }

    fn has_indexes_of(&self, other: &Group) -> bool {
        let sorted = |group: &Group| {
            let mut text: Vec<_> = group.indexes.iter().map(ToString::to_string).collect();
            text.sort_unstable();
            text
        };
        sorted(self) == sorted(other)
    }

    /// Generates the group's data.
    ///
    /// # Errors
    /// The template is invalid or the file cannot be written.
    pub fn generate(&self, seed: u64, path: &Path) -> Result<Data, DataError> {
        let parameters = Parameters { constants: self.constants.clone(), entries: self.entries };
        Data::generate_with(&self.template, &parameters, seed, path, self.passwords)
    }
}

/// Workloads, grouped by the data and settings that they need.
#[derive(Clone, Debug, Default)]
pub struct Grouped {
    /// Groups in the order of their first appearance.
    pub groups: Vec<Group>,
    /// Workloads that are left out, each with the reason: a setting that cannot be made on all servers.
    pub left_out: Vec<(Workload, String)>,
}

/// Sorts workloads into groups. `entries` replaces the numbers of entries in the workloads, and `more` are additional
/// indexes. A workload that neither uses nor excludes indexes joins a group with the same data and any indexes, because
/// loading the data separately without indexes would give the same result.
pub fn groups(workloads: Vec<Workload>, entries: Option<u64>, more: &[Index]) -> Grouped {
    let Grouped { mut groups, mut left_out } = Grouped::default();
    let (indifferent, others): (Vec<_>, Vec<_>) = workloads.into_iter().partition(is_indifferent);
    for workload in others.into_iter().chain(indifferent) {
        match group_of(&workload, entries, more) {
            Err(reason) => left_out.push((workload, reason)),
            Ok(wanted) => {
                let may_join = |group: &&mut Group| {
                    group.has_data_of(&wanted) && (is_indifferent(&workload) || group.has_indexes_of(&wanted))
                };
                match groups.iter_mut().find(may_join) {
                    Some(group) => group.workloads.push(workload),
                    None => groups.push(Group { workloads: vec![workload], ..wanted }),
                }
            }
        }
    }
    let mut groups = joined(groups);
    for group in &mut groups {
        // Workloads that need a fresh start come last. After such a workload the servers have cold caches, and this
        // would affect other workloads.
        group.workloads.sort_by_key(|workload| workload.needs.fresh_start);
    }
    Grouped { groups, left_out }
}

/// Merges a group of read-only workloads into another group with the same data and at least the same indexes. An unused
/// index does not slow reads.
fn joined(mut groups: Vec<Group>) -> Vec<Group> {
    let mut number = 0;
    while number < groups.len() {
        let group = &groups[number];
        let serves = |other: &Group| {
            other.has_data_of(group) && group.indexes.iter().all(|index| other.indexes.contains(index))
        };
        let is_read = group.workloads.iter().all(only_reads);
        let found = (0..groups.len()).find(|other| is_read && *other != number && serves(&groups[*other]));
        match found {
            None => number += 1,
            Some(other) => {
                let workloads = std::mem::take(&mut groups[number].workloads);
                groups[other].workloads.extend(workloads);
                groups.remove(number);
            }
        }
    }
    groups
}

/// Returns true if the workload only reads, and does not require an index to be absent.
fn only_reads(workload: &Workload) -> bool {
    let reads = |operation: &Operation| {
        matches!(
            operation.kind.get_ref(),
            OperationName::Search
                | OperationName::Bind
                | OperationName::Compare
                | OperationName::Authentication
        )
    };
    !workload.jobs.is_empty()
        && !speaks_of_indexes(workload)
        && workload.jobs.iter().flat_map(|job| &job.operations).all(reads)
}

fn speaks_of_indexes(workload: &Workload) -> bool {
    workload.needs.settings.iter().any(|setting| setting.contains("index"))
}

/// Returns true if the workload reads, compares, binds or changes entries only by DN, so that indexes do not matter.
fn is_indifferent(workload: &Workload) -> bool {
    let by_name = |operation: &Operation| match operation.kind.get_ref() {
        OperationName::Search => operation.scope == Scope::Base,
        OperationName::Bind | OperationName::Compare | OperationName::Modify => true,
        _ => false,
    };
    !workload.jobs.is_empty()
        && workload.needs.indexes.is_empty()
        && !speaks_of_indexes(workload)
        && workload.jobs.iter().flat_map(|job| &job.operations).all(by_name)
}

fn group_of(workload: &Workload, entries: Option<u64>, more: &[Index]) -> Result<Group, String> {
    if workload.data.template.is_empty() {
        return Err(
            "it names no template, and a comparison needs data that all servers can be given".to_owned()
        );
    }
    if workload.needs.tls {
        return Err("it needs TLS, which servers that are started for a measurement have not".to_owned());
    }
    let is_indexed = workload.load.as_ref().is_none_or(|load| load.indexed);
    let named = workload.needs.indexes.iter().filter(|_| is_indexed);
    let named = named.map(|text| text.parse::<Index>());
    let passwords = match workload.needs.password_scheme.as_deref() {
        // These mechanisms need the password itself.
        None if matches!(workload.needs.sasl.as_deref(), Some("CRAM-MD5" | "DIGEST-MD5" | "SCRAM-SHA-1")) => {
            Passwords::Clear
        }
        None => Passwords::Salted,
        Some(scheme) if scheme.eq_ignore_ascii_case("ssha") => Passwords::Salted,
        Some(scheme) if scheme.eq_ignore_ascii_case("clear") => Passwords::Clear,
        Some(scheme) if scheme.eq_ignore_ascii_case("crypt-sha512") => Passwords::Slow,
        Some(scheme) => return Err(format!("password scheme {scheme} cannot be set on all servers")),
    };
    Ok(Group {
        template: workload.data.template.clone(),
        constants: workload.data.constants.clone(),
        entries: Some(entries.unwrap_or(workload.data.entries)),
        indexes: merge_indexes(named.collect::<Result<_, _>>()?, more),
        passwords,
        operation_log: workload.needs.operation_log || workload.needs.audit,
        audit: workload.needs.audit,
        workloads: Vec::new(),
    })
}

/// Factor by which a run is longer when it is repeated because it completed no operation.
const LONGER: u32 = 10;
/// Maximum length of a warm-up window.
const WARM_UP_WINDOW_MAX: Duration = Duration::from_secs(2);
/// Difference between the seeds of warm-up windows and the seeds of rounds.
const WARM_UP_SEED: u64 = 1_000_000;
/// Number of connections of a warm-up.
const WARM_UP_CLIENTS: usize = 16;

/// Driver of the workloads of a group.
pub struct GroupDriver<'d> {
    /// Workloads of the group.
    pub workloads: &'d [Workload],
    /// Options of the driver. Target, identity and entries are set separately for each server.
    pub options: Options,
    /// Cores of the driver; all cores if empty.
    pub cores: Vec<usize>,
    /// Receives the progress of each run, once a second.
    pub watch: &'d mut dyn FnMut(&str, &Progress),
    /// Workloads that are already warmed up, each as the workload's index and the process id of the server.
    pub warm: HashSet<(usize, u32)>,
}

impl Measure for GroupDriver<'_> {
    fn workloads(&self) -> &[Workload] {
        self.workloads
    }

    fn measure(&mut self, number: usize, round: u32, target: &Target<'_>) -> WorkloadResult {
        let workload = &self.workloads[number];
        let mut result = if workload.jobs.is_empty() {
            load_row(workload, target)
        } else {
            let earlier = &self.workloads[..number];
            match adapted::fit(workload, earlier, &self.options, target, adapted::open_files_max()) {
                Err(reason) => workload.unsupported(target.description.clone(), reason),
                Ok(adapted) => {
                    let warm_up = self.warm_until_steady(number, &adapted, target);
                    let mut result = self.drive_adapted(&adapted, round, target);
                    result.notes.extend(warm_up.as_ref().map(warmth::sentence));
                    result.warm_up = warm_up;
                    result
                }
            }
        };
        say_if_all_failed(&mut result);
        result.round = round;
        let agreed = result.server.setting(setting::TLS).map(str::to_owned);
        let bind_identity = std::mem::take(&mut result.server.bind_identity);
        result.server = target.description.clone();
        if let Some(agreed) = agreed {
            result.server.set(setting::TLS, agreed);
        }
        if !bind_identity.is_empty() {
            result.server.bind_identity = bind_identity;
        }
        result
    }

    fn warm_up(&mut self, time: Duration, target: &Target<'_>) {
        let kinds = adapted::one_of_each(self.workloads);
        let each = time / u32::try_from(kinds.len()).unwrap_or(u32::MAX).max(1);
        for workload in kinds {
            let options = Options {
                clients: Some(self.options.clients.unwrap_or(WARM_UP_CLIENTS).min(WARM_UP_CLIENTS)),
                duration: Some(each),
                warm_up: Some(Duration::ZERO),
                pause: Some(Duration::ZERO),
                ..self.options.clone()
            };
            // Failures are ignored here. They occur again and are reported when the workload is measured.
            let _ = self.drive(workload, &options, 1, target);
        }
    }
}

impl GroupDriver<'_> {
    /// Runs a workload for short periods (windows), which are not part of the result, until the cost of an operation is
    /// steady. Does so once for each start of a server. The warm-up is skipped if it would use up the workload's
    /// entries, if the server must be freshly started, or if the options have no warm-up.
    fn warm_until_steady(
        &mut self,
        number: usize,
        adapted: &AdaptedWorkload,
        target: &Target<'_>,
    ) -> Option<WarmUp> {
        let AdaptedWorkload { workload, options, .. } = adapted;
        let wants_none = workload.needs.fresh_start
            || workload.can_be_used_up()
            || options.warm_up.is_some_and(|time| time.is_zero());
        if wants_none || !self.warm.insert((number, target.server.id())) {
            return None;
        }
        let duration = options.duration.unwrap_or(Duration::from_secs(workload.duration_seconds));
        let window = Options {
            duration: Some(duration.min(WARM_UP_WINDOW_MAX)),
            warm_up: Some(Duration::ZERO),
            pause: Some(Duration::ZERO),
            ..options.clone()
        };
        warmth::warm_up(|number| {
            // This seed differs from the seed of the measurement, so the warm-up uses other keys.
            let seed = options.seed.wrapping_add(WARM_UP_SEED + number as u64);
            let done = self.drive(workload, &Options { seed, ..window.clone() }, 1, target).ok()?;
            let cost = done.cost.as_ref().filter(|_| done.operations_total() > 0)?;
            Some((done.measured_seconds, cost.cpu_micros_per_operation))
        })
    }

    fn drive_adapted(
        &mut self,
        adapted: &AdaptedWorkload,
        round: u32,
        target: &Target<'_>,
    ) -> WorkloadResult {
        let mut result = self.drive_once(&adapted.workload, &adapted.options, round, target);
        result.notes.extend(adapted.notes.iter().cloned());
        if !is_unfinished(&result) {
            return result;
        }
        // A short run may end before its first operation, because searches that examine every entry take long.
        let short =
            adapted.options.duration.unwrap_or(Duration::from_secs(adapted.workload.duration_seconds));
        let longer = short * LONGER;
        let options = Options { duration: Some(longer), ..adapted.options.clone() };
        result = self.drive_once(&adapted.workload, &options, round, target);
        result.notes.extend(adapted.notes.iter().cloned());
        let reason = format!("nothing was finished in {:.1} s", short.as_secs_f64());
        if is_unfinished(&result) {
            result.unsupported = Some(format!("{reason}, nor in {:.0} s", longer.as_secs_f64()));
        } else {
            result.notes.push(format!("measured for {:.0} s, because {reason}", longer.as_secs_f64()));
        }
        result
    }

    fn drive_once(
        &mut self,
        workload: &Workload,
        options: &Options,
        round: u32,
        target: &Target<'_>,
    ) -> WorkloadResult {
        let done = self.drive(workload, options, round, target);
        done.unwrap_or_else(|failure| WorkloadResult { failures: vec![failure], ..workload.result() })
    }

    fn drive(
        &mut self,
        workload: &Workload,
        options: &Options,
        round: u32,
        target: &Target<'_>,
    ) -> Result<WorkloadResult, String> {
        let targets = Targets::resolve(&[format!("ldap://{}", target.server.address())])
            .map_err(|error| error.to_string())?;
        let administrator = (target.setup.admin_dn.clone(), target.setup.admin_password.clone());
        let is_user = workload.circumstances.as_ref().is_some_and(|of| of.user);
        let bind = match (&target.data.user, workload.needs.access_control || is_user) {
            (Some(user), true) => user.clone(),
            (None, true) => return Err("no entry of the data has a password to bind with".to_owned()),
            (_, false) => administrator,
        };
        let options = Options {
            bind: Some(bind),
            server_processes: vec![target.server.id()],
            data_seed: target.data.seed,
            // The seed gives the same keys on every server, but different keys in every round.
            seed: options.seed.wrapping_add(u64::from(round) - 1),
            ..options.clone()
        };
        let watch = &mut *self.watch;
        let run = || {
            let watch = &mut |progress: &Progress| watch(&workload.name, progress);
            Ok(driver::run_watched(workload, &targets, &options, watch))
        };
        // The threads of the driver inherit the cores.
        let done = process::on_cores(&self.cores, run).map_err(|error| format!("pin the load: {error}"))?;
        done.map_err(|error| error.to_string())
    }
}

/// Returns true if a run completed without any operation.
fn is_unfinished(result: &WorkloadResult) -> bool {
    result.complete
        && result.unsupported.is_none()
        && result.failures.is_empty()
        && result.operations_total() == 0
}

/// Marks a result as unsupported if at least as many operations failed as succeeded. The server then cannot run the
/// workload, so a rate would have no meaning.
fn say_if_all_failed(result: &mut WorkloadResult) {
    let failed = result.errors_total() + result.wrong_answers_total();
    if failed == 0 || failed < result.operations_total() {
        return;
    }
    let example = result.operations.values().flat_map(|totals| &totals.examples).next();
    let example = example.map(|example| format!(", such as: {example}")).unwrap_or_default();
    result.unsupported = Some(format!("all of {failed} operations failed{example}"));
}

/// Returns the result of a workload that measures only the bulk load. The figures come from the load that was already
/// measured.
fn load_row(workload: &Workload, target: &Target<'_>) -> WorkloadResult {
    let load = target.description.bulk_load.as_ref();
    let seconds = load.map_or(0.0, |load| load.seconds);
    WorkloadResult {
        measured_seconds: seconds,
        per_second: load.map_or(0.0, |load| load.entries as f64 / seconds.max(1e-9)),
        complete: true,
        ..workload.result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, indexes: &str, more: &str) -> Workload {
        let text = format!(
            "title = \"t\"\n[data]\ntemplate = \"people\"\nrdn = \"uid\"\n\
             dn = \"uid=user.{{n}},ou=people,dc=example,dc=com\"\nfirst = 0\n\
             [needs]\nindexes = [{indexes}]\n{more}\n[[job]]\nclients = 1\n[[job.operation]]\nkind = \"search\"\n\
             base = \"dc=example,dc=com\"\nfilter = \"(uid=user.{{n}})\"\n"
        );
        Workload::parse(&format!("{name}.toml"), &text).unwrap()
    }

    /// Returns a workload of renames, which update every index.
    fn rename_workload(name: &str, indexes: &str) -> Workload {
        let text = workload(name, indexes, "").text.replace("kind = \"search\"", "kind = \"rename\"");
        let text =
            text.replace("base = \"dc=example,dc=com\"", "dn = \"uid=user.{n},ou=people,dc=example,dc=com\"");
        let text = text.replace("filter = \"(uid=user.{n})\"", "new_rdn = \"uid=other.{n}\"");
        Workload::parse(&format!("{name}.toml"), &text).unwrap()
    }

    /// Returns a workload of reads by name.
    fn by_name(name: &str, more: &str) -> Workload {
        let mut workload = workload(name, "", more);
        workload.jobs[0].operations[0].scope = Scope::Base;
        workload
    }

    #[test]
    fn workloads_with_compatible_needs_share_data() {
        let workloads = vec![
            workload("a", "\"uid\", \"cn:sub\"", ""),
            workload("b", "\"uid\"", ""),
            workload("c", "\"cn:substring\", \"uid:eq\"", ""),
            workload("d", "\"uid\"", "operation_log = true"),
            workload("h", "\"uid\"", "audit = true"),
            rename_workload("g", "\"sn\""),
            by_name("e", ""),
            by_name("f", "settings = [\"no index on cn\"]"),
        ];
        let groups = groups(workloads, Some(50), &["mail".parse().unwrap()]).groups;
        let names: Vec<Vec<_>> = groups
            .iter()
            .map(|group| group.workloads.iter().map(|workload| workload.name.as_str()).collect())
            .collect();
        assert_eq!(names, [vec!["a", "c", "e", "b"], vec!["d"], vec!["h"], vec!["g"], vec!["f"]]);
        assert!(groups[1].operation_log && groups[0].entries == Some(50));
        assert!(groups[2].operation_log && groups[2].audit && !groups[1].audit);
        assert_eq!(groups[3].indexes.len(), 2);
    }

    #[test]
    fn every_shipped_workload_can_be_compared() {
        let shipped: Vec<_> = crate::workload::shipped_names().filter_map(crate::workload::shipped).collect();
        let count = shipped.len();
        let grouped = super::groups(shipped, Some(1000), &[]);
        assert!(grouped.left_out.is_empty(), "{:?}", grouped.left_out);
        assert_eq!(grouped.groups.iter().map(|group| group.workloads.len()).sum::<usize>(), count);
        // Loading data takes as long as many workloads, so the number of groups must be small.
        assert!(grouped.groups.len() <= 12, "{}", grouped.groups.len());
        let forms: Vec<_> = grouped.groups.iter().map(|group| group.passwords).collect();
        assert!(forms.contains(&Passwords::Slow) && forms.contains(&Passwords::Clear));
    }

    #[test]
    fn workloads_that_no_server_supports_are_left_out() {
        let grouped = super::groups(vec![workload("a", "", "password_scheme = \"md5\"")], None, &[]);
        let (left_out, reason) = &grouped.left_out[0];
        assert!(grouped.groups.is_empty() && left_out.name == "a" && reason.contains("md5"), "{reason}");
    }

    #[test]
    fn workloads_with_slow_operations_run_longer() {
        let delay = "constant:700ms".parse().unwrap();
        let faults = crate::responder::Faults { delay, ..Default::default() };
        let responder = crate::responder::Responder::start("127.0.0.1:0".parse().unwrap(), faults).unwrap();
        let workloads = [by_name("slow", "")];
        let options = Options {
            canned: true,
            entries: Some(10),
            clients: Some(1),
            duration: Some(Duration::from_millis(300)),
            warm_up: Some(Duration::ZERO),
            ..Options::default()
        };
        let mut watch = |_: &str, _: &Progress| {};
        let (cores, warm) = (Vec::new(), HashSet::new());
        let mut driven = GroupDriver { workloads: &workloads, options, cores, watch: &mut watch, warm };
        let result = adapted::tests::with_target("Pando 1", Some(responder.address()), |target| {
            driven.measure(0, 1, target)
        });
        assert!(result.is_clean() && result.operations_total() > 0, "{:?}", result.failures);
        assert!(result.notes[0].contains("3 s, because nothing was finished in 0.3 s"), "{:?}", result.notes);
    }

    #[test]
    fn a_workload_whose_operations_all_fail_is_unsupported() {
        let mut result = WorkloadResult::default();
        let totals = crate::result::OperationTotals {
            operations: 5,
            errors: 5,
            examples: vec!["49".to_owned()],
            ..Default::default()
        };
        result.operations.insert(crate::result::OperationKind::Bind, totals.clone());
        say_if_all_failed(&mut result);
        assert!(result.unsupported.unwrap().contains("all of 5 operations failed, such as: 49"));
        let mut result = WorkloadResult::default();
        let totals = crate::result::OperationTotals { errors: 4, ..totals };
        result.operations.insert(crate::result::OperationKind::Bind, totals);
        say_if_all_failed(&mut result);
        assert_eq!(result.unsupported, None);
    }
}
