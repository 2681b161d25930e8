//! `pando bench run --serve`: starts a server on generated data in a temporary directory. Workloads that need the same
//! data share a server.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use bench::driver::Options;
use bench::peers::comparison::{self, Follower, Plan};
use bench::peers::measure::BULK_LOAD;
use bench::peers::under_load::{self, Group, GroupDriver, Grouped};
use bench::peers::{Product, Programs, Server, free_address};
use bench::result::{RunResult, ServerDescription};
use bench::workload::Workload;

use super::{Cpus, Stop, failed, live, make_folder, say, summary, this_program};

/// Starts a server on an existing data directory, on a free port. The log of the server is discarded. If the start
/// fails, the error contains the last lines of the log.
pub(super) fn existing(data: &Path, cpus: Option<&Cpus>) -> Result<Server, Stop> {
    // A missing directory is refused, because `pando serve` would create it.
    if !data.is_dir() {
        return Err(failed(format!("{} is no data directory", data.display())));
    }
    let address = free_address().map_err(failed)?;
    let mut command = Command::new(this_program()?);
    command.arg("serve").arg("--data").arg(data).args(["--listen", &format!("ldap://{address}")]);
    let log = std::env::temp_dir().join(format!("pando-bench-{}.log", std::process::id()));
    let cores = cpus.map(|cpus| cpus.0.clone()).unwrap_or_default();
    let server = Server::start("Pando", &command, &log, address, &cores);
    // The server keeps the removed file open, and continues to write to it.
    let _ = std::fs::remove_file(&log);
    server.map_err(failed)
}

/// Options of the load, and the processors of the servers and of the load.
pub(super) struct Serving<'a> {
    pub(super) options: &'a Options,
    pub(super) server_cpus: Option<&'a Cpus>,
    pub(super) load_cpus: Option<&'a Cpus>,
}

/// Generates data, starts servers and measures them. Prints each result.
pub(super) fn measure(
    workloads: Vec<Workload>,
    serving: &Serving<'_>,
    run: &mut RunResult,
) -> Result<(), Stop> {
    let Grouped { groups, left_out } = under_load::groups(workloads, serving.options.entries, &[]);
    for (workload, reason) in left_out {
        let result = workload.unsupported(ServerDescription::default(), reason);
        print!("{}", summary::of(&result));
        run.workloads.push(result);
    }
    // Only Pando is started, so no path of OpenDJ is needed.
    let programs = Programs { pando: this_program()?, opendj: std::path::PathBuf::new() };
    let folder = std::env::temp_dir().join(format!("pando-bench-{}", std::process::id()));
    for group in &groups {
        let done = measure_group(group, &programs, &folder, serving, run);
        // The data are no longer needed, even after an error.
        let _ = std::fs::remove_dir_all(&folder);
        done?;
    }
    Ok(())
}

fn measure_group(
    group: &Group,
    programs: &Programs,
    folder: &Path,
    serving: &Serving<'_>,
    run: &mut RunResult,
) -> Result<(), Stop> {
    let cpus = |cpus: Option<&Cpus>| cpus.map(|cpus| cpus.0.clone()).unwrap_or_default();
    make_folder(folder)?;
    let data = group.generate(serving.options.data_seed, &folder.join("data.ldif")).map_err(failed)?;
    let mut setup = group.setup(&data);
    setup.server_cores = cpus(serving.server_cpus);
    let plan = Plan {
        products: &[Product::Pando],
        programs,
        folder: folder.to_owned(),
        setup,
        export: false,
        rounds: 1,
        java_warm_up: std::time::Duration::ZERO,
        one_at_a_time: false,
    };
    let mut watch = live::of_each();
    let mut driven = GroupDriver {
        workloads: &group.workloads,
        options: Options { entries: group.entries, ..serving.options.clone() },
        cores: cpus(serving.load_cpus),
        watch: &mut watch,
        warm: HashSet::new(),
    };
    let before = run.workloads.len();
    // Only progress is printed here; the results are printed below.
    let mut say = |text: &str| {
        if !text.starts_with("round ") {
            say(text);
        }
    };
    let follower = Follower { say: &mut say, save: &mut |_| {} };
    comparison::compare(&plan, &data, &mut driven, run, follower).map_err(failed)?;
    drop(watch);
    for result in run.workloads[before..].iter().filter(|result| result.workload != BULK_LOAD) {
        print!("{}", summary::of(result));
    }
    Ok(())
}
