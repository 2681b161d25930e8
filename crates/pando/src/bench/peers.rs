//! `pando bench peers`: Pando beside other servers.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::driver::Options;
use bench::peers::comparison::{self, BULK_LOAD, Plan};
use bench::peers::under_load::{self, Driven, Group, Grouped};
use bench::peers::{Index, Product, Programs, ratios};
use bench::result::{Environment, RunResult, ServerDescription, WorkloadResult, setting};
use clap::Args;

use super::run::{command_line, of_file, shipped};
use super::{Cpus, limit, live, parse_duration};
use crate::exit;

/// The indexes that the comparison of loaders has.
const LOAD_INDEXES: [&str; 6] =
    ["objectClass", "uid", "sn", "mail", "member", "cn:equality,substring,presence"];

/// The options of `pando bench peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArguments {
    /// Servers to measure beside Pando; with `pando` none
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "openldap,ds389,opendj")]
    peers: Vec<Product>,
    /// Shipped workloads (`pando bench list`); a star at the end takes all that begin so
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',', default_value = "people-*")]
    workloads: Vec<String>,
    /// A workload file of one's own, instead of shipped ones; may be given several times
    #[arg(long = "workload", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Entries [default: as the workload says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// How often each workload runs on each server
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// How long each run measures: 10s, 5m [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// How long each run goes before that; OpenDJ's compiler needs some [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,
    /// Clients of a workload, instead of what it says; of one with several groups, those of the first
    #[arg(long, value_name = "N")]
    clients: Option<NonZeroUsize>,
    /// Requests outstanding on each connection
    #[arg(long, value_name = "N")]
    outstanding: Option<NonZeroUsize>,
    /// Threads of the load
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Seed of the data, and of the keys of the first round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// An index that all servers keep besides those that a workload needs, as cn:equality,substring; may be given several times
    #[arg(long, value_name = "ATTRIBUTE[:KIND,...]")]
    index: Vec<Index>,
    /// Load and export the data of --template, compare answers, and run no workloads
    #[arg(long, conflicts_with_all = ["files", "rounds", "duration", "warmup", "clients", "outstanding"])]
    load_only: bool,
    /// Template for --load-only (`pando generate --list`)
    #[arg(long, value_name = "NAME", default_value = "people", requires = "load_only")]
    template: String,
    /// Where data is kept meanwhile; a folder of the run's own is made in it and removed [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// OpenDJ as it was unpacked; ./dev peers puts it there
    #[arg(long, value_name = "DIR", env = "PANDO_OPENDJ", default_value = ".dev/peers/opendj")]
    opendj: PathBuf,
    /// Processors that each server runs on, alone of the servers
    #[arg(long, value_name = "CPUS", default_value = "0")]
    server_cpus: Cpus,
    /// Processors that the load runs on
    #[arg(long, value_name = "CPUS", default_value = "1")]
    load_cpus: Cpus,
    /// Do not measure the null responder under the same load
    #[arg(long)]
    no_limit: bool,
    /// File for the result, for `pando bench report`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &PeersArguments) -> ExitCode {
    let grouped = match groups(arguments) {
        Ok(grouped) => grouped,
        Err(message) => return exit::refused(&message),
    };
    let folder = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = match std::path::absolute(&folder) {
        Ok(folder) => folder.join(format!("pando-peers-{}", std::process::id())),
        Err(error) => return exit::refused(&format!("{}: {error}", folder.display())),
    };
    let done = measure(arguments, &grouped, &folder);
    // Whatever happened: what servers left there is of no use to anybody.
    let _ = std::fs::remove_dir_all(&folder);
    match done {
        Ok(result) => {
            print!("{}{}", loads_table(&result), workloads_table(&result));
            let is_clean = result.workloads.iter().all(WorkloadResult::is_clean);
            if is_clean { ExitCode::SUCCESS } else { exit::some_failed() }
        }
        Err(message) => exit::failure(&message),
    }
}

/// What is to be loaded, and measured on it.
fn groups(arguments: &PeersArguments) -> Result<Grouped, String> {
    if arguments.load_only {
        let defaults = LOAD_INDEXES.iter().filter_map(|text| text.parse().ok()).collect();
        let indexes = if arguments.index.is_empty() { defaults } else { arguments.index.clone() };
        let group = Group::load_only(&arguments.template, arguments.entries, indexes);
        return Ok(Grouped { groups: vec![group], left_out: Vec::new() });
    }
    let mut workloads = Vec::new();
    for file in &arguments.files {
        workloads.push(of_file(file)?);
    }
    if arguments.files.is_empty() {
        for name in &arguments.workloads {
            workloads.append(&mut shipped(name)?);
        }
    }
    Ok(under_load::groups(workloads, arguments.entries, &arguments.index))
}

fn measure(arguments: &PeersArguments, grouped: &Grouped, folder: &Path) -> Result<RunResult, String> {
    let pando = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let programs = Programs { pando, opendj: arguments.opendj.clone() };
    let mut products = vec![Product::Pando];
    products.extend(arguments.peers.iter().filter(|product| **product != Product::Pando));
    let mut result = RunResult::begin(command_line(std::env::args()), Environment::detect());
    if !arguments.load_only {
        result.environment.load_generator_cpus = Some(arguments.load_cpus.to_string());
    }
    let mut say = |text: &str| eprintln!("pando: {text}");
    for group in &grouped.groups {
        std::fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
        say(&format!("{}: generating", group.template));
        let data =
            group.generate(arguments.seed, &folder.join("data.ldif")).map_err(|error| error.to_string())?;
        say(&format!("{} entries, {:.1} MB of LDIF", data.entries, data.bytes as f64 / 1e6));
        let mut setup = group.setup(&data);
        setup.server_cores.clone_from(&arguments.server_cpus.0);
        let plan = Plan {
            products: &products,
            programs: &programs,
            folder: folder.to_owned(),
            setup,
            export: arguments.load_only,
            rounds: arguments.rounds,
        };
        let mut watch = live::of_each();
        let mut driven = Driven {
            workloads: &group.workloads,
            options: options(arguments, group.entries),
            cores: arguments.load_cpus.0.clone(),
            watch: &mut watch,
        };
        comparison::compare(&plan, &data, &mut driven, &mut result, &mut say)
            .map_err(|error| error.to_string())?;
        // The next group's data may be as large.
        let _ = std::fs::remove_dir_all(folder);
    }
    for (workload, reason) in &grouped.left_out {
        say(&format!("{}: not measured: {reason}", workload.name));
        for (index, product) in products.iter().enumerate() {
            // As it stands with its load, which is the first thing that each server has in a result.
            let load = result.workloads.iter().filter(|loaded| loaded.workload == BULK_LOAD).nth(index);
            let server = load.map(|loaded| ServerDescription { bulk_load: None, ..loaded.server.clone() });
            let server = server.unwrap_or_else(|| ServerDescription {
                product: product.name().to_owned(),
                ..ServerDescription::default()
            });
            let result_of =
                WorkloadResult::unsupported(&workload.name, &workload.title, server, reason.clone());
            result.workloads.push(result_of);
        }
    }
    if !arguments.no_limit && !arguments.load_only {
        arguments.load_cpus.pin_this_process()?;
        let options =
            Options { threads: arguments.threads.get(), seed: arguments.seed, ..Options::default() };
        limit::add_floors(&mut result, &options, Some(&arguments.server_cpus))?;
    }
    result.ratios = ratios::ratios(&ratios::medians(&result.workloads));
    if let Some(file) = &arguments.output {
        result.write(file).map_err(|error| error.to_string())?;
    }
    Ok(result)
}

fn options(arguments: &PeersArguments, entries: Option<u64>) -> Options {
    Options {
        entries,
        clients: arguments.clients.map(NonZeroUsize::get),
        outstanding: arguments.outstanding.map(NonZeroUsize::get),
        duration: arguments.duration,
        warm_up: arguments.warmup,
        threads: arguments.threads.get(),
        seed: arguments.seed,
        ..Options::default()
    }
}

/// Each workload: medians of every server, and Pando's figures divided by each other's.
fn workloads_table(result: &RunResult) -> String {
    let medians = ratios::medians(&result.workloads);
    let mut text = String::new();
    let mut workload = "";
    for medians in medians.iter().filter(|medians| medians.workload != BULK_LOAD) {
        if workload != medians.workload {
            workload = &medians.workload;
            text.push_str(&format!(
                "\n{workload:<22}{:>11}{:>10}{:>10}{:>10}   Pando's / theirs: {:>7}{:>7}{:>7}{:>7}\n",
                "a second", "CPU us", "p50 us", "p99 us", "rate", "CPU", "p50", "p99"
            ));
        }
        if let Some(reason) = &medians.unsupported {
            text.push_str(&format!("{:<22} not measured: {reason}\n", medians.server));
            continue;
        }
        let number = |value: Option<f64>, places: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.places$}"))
        };
        text.push_str(&format!(
            "{:<22}{:>11}{:>10}{:>10}{:>10}",
            medians.server,
            number(medians.per_second, 0),
            number(medians.cpu_micros, 2),
            number(medians.p50_micros, 0),
            number(medians.p99_micros, 0)
        ));
        let ratio =
            result.ratios.iter().find(|ratio| ratio.workload == *workload && ratio.by == medians.server);
        if let Some(ratio) = ratio {
            text.push_str(&format!(
                "{:>27}{:>7}{:>7}{:>7}",
                number(ratio.per_second, 2),
                number(ratio.cpu_per_operation, 2),
                number(ratio.p50, 2),
                number(ratio.p99, 2)
            ));
        }
        if medians.errors > 0 {
            text.push_str(&format!("   {} ERRORS", medians.errors));
        }
        text.push('\n');
    }
    text
}

/// Loads side by side, for each data set that was loaded: Pando first and the others' times as multiples of its.
fn loads_table(result: &RunResult) -> String {
    let mut text = String::new();
    let mut loaded = String::new();
    let mut first = None;
    for measured in result.workloads.iter().filter(|measured| measured.workload == BULK_LOAD) {
        let server = &measured.server;
        let Some(load) = &server.bulk_load else {
            let reason = measured.unsupported.as_deref().unwrap_or_default();
            text.push_str(&format!("{:<22} not measured: {reason}\n", server.product));
            continue;
        };
        let template = server.data.as_ref().map(|data| data.template.as_str()).unwrap_or_default();
        let name = format!("{template}, indexes {}", server.setting(setting::INDEXES).unwrap_or_default());
        if name != loaded {
            text.push_str(&format!(
                "\nload of {name}\n{:<22}{:>9}{:>8}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
                "", "wall s", "times", "CPU s", "private MB", "disk MB", "x LDIF", "export MB/s"
            ));
            (loaded, first) = (name, None);
        }
        let number = |value: Option<f64>, places: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.places$}"))
        };
        let megabytes = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / 1e6), 0);
        let export = load.export_bytes.zip(load.export_seconds);
        let share = load.disk_bytes.zip(load.ldif_bytes).map(|(disk, ldif)| disk as f64 / ldif as f64);
        text.push_str(&format!(
            "{:<22}{:>9.2}{:>8.2}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
            server.product,
            load.seconds,
            load.seconds / *first.get_or_insert(load.seconds),
            number(load.cpu_seconds, 1),
            megabytes(load.rss_anon_peak_bytes),
            megabytes(load.disk_bytes),
            number(share, 2),
            number(export.map(|(bytes, seconds)| bytes as f64 / 1e6 / seconds), 0),
        ));
    }
    text
}

pub(crate) const HELP: &str = "\
Servers run one at a time, each on --server-cpus. Data is generated once, loaded into each by its own bulk loader, and the same searches
are answered by all before anything is measured; differences are printed. docs/peers.md says what is set on each server and why.
./dev peers installs the servers.

Examples:
  pando bench peers --entries 100000 --workloads 'people-*,oid-mixed' -o result.json
  pando bench peers --peers openldap --workload mine.toml --rounds 5 --duration 10s
  pando bench peers --load-only --entries 1000000 --peers openldap,opendj

Exit codes:
  0  measured
  1  nothing could be measured
  2  the command line is wrong
  7  measured, but not everything: a server failed or gave errors";
