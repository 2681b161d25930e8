//! `pando bench peers`: compares Pando with other servers.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::driver::Options;
use bench::peers::comparison::{self, Follower, Plan};
use bench::peers::done;
use bench::peers::under_load::{self, Group, GroupDriver, Grouped};
use bench::peers::{Index, Product, ratios};
use bench::result::{Environment, RunResult};
use bench::workload::{RunSettings, Workload};
use clap::Args;
use client::Tls;

use super::options::{LoadArguments, PlaceArguments};
use super::run::{command_line, of_file, raise_open_files, shipped};
use super::{
    Stop, code_of, failed, is_clean, limit, live, make_folder, parse_duration, read, refused, say, tables,
};

/// Default indexes in the comparison of loads.
const LOAD_INDEXES: [&str; 6] =
    ["objectClass", "uid", "sn", "mail", "member", "cn:equality,substring,presence"];

/// The options of `pando bench peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArguments {
    /// Servers to compare with Pando; `pando` means no other server
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "openldap,ds389,opendj")]
    peers: Vec<Product>,
    /// Shipped workloads (`pando bench list`); a star at the end matches any rest, @N sets the number of clients
    /// [default: people-*, without --workload]
    #[arg(long, value_name = "WORKLOAD[@N]", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Your own workload file; may be given several times
    #[arg(long = "workload", value_name = "FILE[@N]")]
    files: Vec<String>,
    /// Also measure every workload with these settings of Pando, as WORKLOAD@NAME for NAME.toml; may be given several
    /// times, with --peers pando
    #[arg(long, value_name = "FILE", conflicts_with = "load_only")]
    settings: Vec<PathBuf>,
    /// Skip the measurements without the settings of --settings
    #[arg(long, requires = "settings")]
    settings_alone: bool,
    /// Number of entries [default: that of the workload]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// Runs of each workload on each server
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Run everything on one server and remove its data before the next server is loaded, instead of alternating
    #[arg(long)]
    one_at_a_time: bool,
    /// Warm-up of OpenDJ after each start, with all kinds of operations that will be measured
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    java_warmup: Duration,
    #[command(flatten)]
    load: LoadArguments,
    /// Index that all servers maintain in addition to those that a workload needs, such as cn:equality,substring; may
    /// be given several times
    #[arg(long, value_name = "ATTRIBUTE[:KIND,...]")]
    index: Vec<Index>,
    /// Load and export the data of --template and compare search results, without workloads
    #[arg(long, conflicts_with_all = ["files", "rounds", "duration", "warmup", "clients", "outstanding"])]
    load_only: bool,
    /// Template for --load-only (`pando generate --list`)
    #[arg(long, value_name = "NAME", default_value = "people", requires = "load_only")]
    template: String,
    #[command(flatten)]
    place: PlaceArguments,
    /// Use StartTLS, with a trusted certificate for each server; Pando and OpenLDAP only
    #[arg(long, requires = "no_limit", conflicts_with = "load_only")]
    start_tls: bool,
    /// TLS: new connections resume earlier sessions
    #[arg(long, requires = "start_tls")]
    tls_resume: bool,
    /// Do not measure the null responder under the same load
    #[arg(long)]
    no_limit: bool,
    /// File for the result, for `pando bench report`; rewritten after every workload
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the result in --output of the same command: only missing and failed workloads are measured
    #[arg(long, requires = "output")]
    resume: bool,
}

pub(super) fn run(arguments: &PeersArguments) -> Result<ExitCode, Stop> {
    let grouped = groups(arguments)?;
    let folder = arguments.place.own_folder()?;
    let done = measure(arguments, &grouped, &folder);
    // The data are no longer needed, even after an error.
    let _ = std::fs::remove_dir_all(&folder);
    let result = done?;
    print!("{}{}", tables::loads(&result), tables::workloads(&result));
    Ok(code_of(is_clean(&result)))
}

/// Returns the workloads, grouped by the data that they need.
fn groups(arguments: &PeersArguments) -> Result<Grouped, Stop> {
    if arguments.load_only {
        let defaults = LOAD_INDEXES.iter().filter_map(|text| text.parse().ok()).collect();
        let indexes = if arguments.index.is_empty() { defaults } else { arguments.index.clone() };
        let group = Group::load_only(&arguments.template, arguments.entries, indexes);
        return Ok(Grouped { groups: vec![group], left_out: Vec::new() });
    }
    let mut workloads = Vec::new();
    for file in &arguments.files {
        workloads.append(&mut with_clients(file, |file| Ok(vec![of_file(Path::new(file))?]))?);
    }
    let all = ["people-*".to_owned()];
    let is_default = arguments.files.is_empty() && arguments.workloads.is_empty();
    for name in if is_default { &all } else { arguments.workloads.as_slice() } {
        workloads.append(&mut with_clients(name, shipped)?);
    }
    if !arguments.settings.is_empty() && arguments.peers.iter().any(|peer| *peer != Product::Pando) {
        return Err(refused("--settings are Pando's: give --peers pando with them"));
    }
    let has_tls = |peer: &Product| matches!(peer, Product::Pando | Product::OpenLdap);
    if arguments.start_tls && !arguments.peers.iter().all(has_tls) {
        return Err(refused("--start-tls is for Pando and OpenLDAP: give --peers openldap or pando with it"));
    }
    let plain = workloads.clone();
    if arguments.settings_alone {
        workloads.clear();
    }
    for file in &arguments.settings {
        let circumstances = Arc::new(circumstances(file)?);
        workloads.extend(plain.iter().map(|workload| workload.under(&circumstances)));
    }
    Ok(under_load::groups(workloads, arguments.entries, &arguments.index))
}

fn circumstances(file: &Path) -> Result<RunSettings, Stop> {
    RunSettings::parse(&file.to_string_lossy(), &read(file)?).map_err(refused)
}

/// Returns the workloads that `find` returns for a name. If the name ends in `@N`, `find` receives it without this
/// ending, the first job of each workload has N clients, and the names of the workloads end in `@N`. One comparison can
/// therefore contain the same workload under several loads.
fn with_clients(
    name: &str,
    find: impl FnOnce(&str) -> Result<Vec<Workload>, Stop>,
) -> Result<Vec<Workload>, Stop> {
    let Some((name, clients)) = name.rsplit_once('@') else { return find(name) };
    let wrong = |_| refused(format!("{name}@{clients}: write the number of clients after @"));
    let count: NonZeroUsize = clients.parse().map_err(wrong)?;
    let mut found = find(name)?;
    for workload in &mut found {
        workload.name.push_str(&format!("@{count}"));
        if let Some(job) = workload.jobs.first_mut() {
            job.clients = count.get();
        }
    }
    Ok(found)
}

/// Returns the result to which measurements are added: a new one, or that of an earlier run of the same command.
fn begin(arguments: &PeersArguments) -> Result<RunResult, Stop> {
    let command = command_line(std::env::args());
    let mut result = match arguments.output.as_ref().filter(|file| arguments.resume && file.exists()) {
        None => RunResult::begin(command, Environment::detect()),
        Some(file) => {
            let mut result = RunResult::read(file).map_err(failed)?;
            if result.command != command {
                return Err(failed(format!(
                    "{} is the result of another command, which cannot be gone on with:\n  {}\n\
                     hint: give another --output, or that command",
                    file.display(),
                    result.command
                )));
            }
            done::forget_failed(&mut result);
            result
        }
    };
    if !arguments.load_only {
        result.environment.load_generator_cpus = Some(arguments.place.load_cpus.to_string());
    }
    Ok(result)
}

fn measure(arguments: &PeersArguments, grouped: &Grouped, folder: &Path) -> Result<RunResult, Stop> {
    let mut products = vec![Product::Pando];
    products.extend(arguments.peers.iter().filter(|product| **product != Product::Pando));
    let mut result = begin(arguments)?;
    raise_open_files()?;
    for group in &grouped.groups {
        if done::is_group_done(&result, group, &products, arguments.rounds) {
            continue;
        }
        let measured = measure_group(arguments, group, &products, folder, &mut result);
        // Remove these data to make room for the data of the next group.
        let _ = std::fs::remove_dir_all(folder);
        let Err(Stop::Failed(message) | Stop::Refused(message)) = measured else { continue };
        if grouped.groups.len() == 1 {
            return Err(Stop::Failed(message));
        }
        // The other groups are still measured, and results measured so far are kept.
        say(&message);
        for workload in &group.workloads {
            let servers = products.iter().map(|product| done::known_server(&result, *product));
            let rows: Vec<_> = servers.map(|server| workload.failed(server, message.clone())).collect();
            result.workloads.extend(rows);
        }
    }
    for (workload, reason) in &grouped.left_out {
        say(&format!("{}: not measured: {reason}", workload.name));
        result.workloads.retain(|measured| measured.workload != workload.name);
        let servers = products.iter().map(|product| done::known_server(&result, *product));
        let rows: Vec<_> = servers.map(|server| workload.unsupported(server, reason.clone())).collect();
        result.workloads.extend(rows);
    }
    if !arguments.no_limit && !arguments.load_only {
        arguments.place.load_cpus.pin_this_process()?;
        let Options { threads, seed, .. } = arguments.load.options();
        let options = Options { threads, seed, ..Options::default() };
        let added = limit::add_floors(&mut result, &options, Some(&arguments.place.server_cpus));
        if let Err(Stop::Failed(message) | Stop::Refused(message)) = added {
            say(&message);
        }
    }
    save(arguments, &mut result)?;
    Ok(result)
}

/// Generates the data of a group of workloads, and measures the servers with them.
fn measure_group(
    arguments: &PeersArguments,
    group: &Group,
    products: &[Product],
    folder: &Path,
    result: &mut RunResult,
) -> Result<(), Stop> {
    make_folder(folder)?;
    let began = Instant::now();
    let data = group.generate(arguments.load.seed, &folder.join("data.ldif")).map_err(failed)?;
    say(&format!(
        "{}: {} entries, {:.1} MB of LDIF, generated in {:.1} s; {} workloads",
        group.template,
        data.entries,
        data.bytes as f64 / 1e6,
        began.elapsed().as_secs_f64(),
        group.workloads.len()
    ));
    let mut setup = group.setup(&data);
    setup.server_cores.clone_from(&arguments.place.server_cpus.0);
    setup.tls = arguments.start_tls;
    let plan = Plan {
        products,
        programs: &arguments.place.programs()?,
        folder: folder.to_owned(),
        setup,
        export: arguments.load_only,
        rounds: arguments.rounds,
        java_warm_up: arguments.java_warmup,
        one_at_a_time: arguments.one_at_a_time,
    };
    let mut watch = live::of_each();
    let mut driven = GroupDriver {
        workloads: &group.workloads,
        options: options(arguments, group.entries)?,
        cores: arguments.place.load_cpus.0.clone(),
        watch: &mut watch,
        warm: HashSet::new(),
    };
    let mut unsaved = None;
    let mut keep = |result: &RunResult| {
        if let Some(file) = &arguments.output {
            unsaved = result.write(file).err();
        }
    };
    let follower = Follower { say: &mut say, save: &mut keep };
    comparison::compare(&plan, &data, &mut driven, result, follower).map_err(failed)?;
    unsaved.map_or(Ok(()), |error| Err(failed(error)))
}

/// Writes the result, and the figures that are derived from it.
fn save(arguments: &PeersArguments, result: &mut RunResult) -> Result<(), Stop> {
    result.ratios = ratios::ratios(&ratios::medians(&result.workloads));
    match &arguments.output {
        Some(file) => result.write(file).map_err(failed),
        None => Ok(()),
    }
}

fn options(arguments: &PeersArguments, entries: Option<u64>) -> Result<Options, Stop> {
    let tls = arguments.start_tls.then(Tls::insecure).transpose().map_err(failed)?;
    let tls = tls.map(|tls| if arguments.tls_resume { tls.resuming() } else { tls });
    Ok(Options { tls, start_tls: arguments.start_tls, entries, ..arguments.load.options() })
}

pub(crate) const HELP: &str = "\
Servers run one at a time, each on --server-cpus. The data is generated once and loaded into each server by its own bulk
loader. Before the measurements, all servers run the same searches, and differences between the results are printed.
docs/how-to/peers.md explains the settings of each server. With --one-at-a-time, the disk holds the data of only one
server at a time. ./dev peers installs the servers. The result is saved after every workload; with --resume, the same
command continues after an interruption.

Examples:
  pando bench peers --entries 100000 --workloads 'people-*,oid-mixed' -o result.json
  pando bench peers --peers openldap --workload mine.toml --rounds 5 --duration 10s
  pando bench peers --workloads '*' --rounds 1 --duration 3s -o all.json --resume
  pando bench peers --workloads 'm-vault-*' --entries 10000000 --rounds 1 --one-at-a-time -o large.json --resume
  pando bench peers --load-only --entries 1000000 --peers openldap,opendj

Exit codes:
  0  measured
  1  the measurement failed
  2  the command line is wrong
  7  measured incompletely: a server failed or returned errors";
