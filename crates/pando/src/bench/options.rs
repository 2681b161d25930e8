//! Options that several commands of `pando bench` have.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bench::driver::Options;
use bench::peers::{OpenDj, Programs};
use clap::Args;

use super::{Cpus, Stop, parse_duration, refused, this_program};

/// The load.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// Clients of a workload, instead of what it says; of one with several groups, those of the first
    #[arg(long, value_name = "N")]
    pub(super) clients: Option<NonZeroUsize>,
    /// Requests outstanding on each connection
    #[arg(long, value_name = "N")]
    outstanding: Option<NonZeroUsize>,
    /// How long each run measures: 10s, 5m, 8h [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// How long each run goes before that; OpenDJ's compiler needs some [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,
    /// How long it does nothing between the two [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pause: Option<Duration>,
    /// Threads of the load
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Where random keys and values begin; of peers and sweep the seed of the data as well
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Keep the latency histogram of every second in the result
    #[arg(long)]
    keep_histograms: bool,
}

impl LoadArguments {
    pub(super) fn options(&self) -> Options {
        Options {
            clients: self.clients.map(NonZeroUsize::get),
            outstanding: self.outstanding.map(NonZeroUsize::get),
            duration: self.duration,
            warm_up: self.warmup,
            pause: self.pause,
            threads: self.threads.get(),
            seed: self.seed,
            keep_histograms: self.keep_histograms,
            ..Options::default()
        }
    }
}

/// Where servers that are started for a measurement run.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Where data is kept meanwhile; a folder of the run's own is made in it and removed [default: the temporary
    /// folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// OpenDJ as it was unpacked; ./dev peers puts it there
    #[arg(long, value_name = "DIR", env = OpenDj::VARIABLE, default_value = OpenDj::USUAL_FOLDER)]
    opendj: PathBuf,
    /// Processors that each server runs on, alone of the servers
    #[arg(long, value_name = "CPUS", default_value = "0")]
    pub(super) server_cpus: Cpus,
    /// Processors that the load runs on
    #[arg(long, value_name = "CPUS", default_value = "1")]
    pub(super) load_cpus: Cpus,
}

impl PlaceArguments {
    /// A folder of this run's own, which is to be made and removed.
    pub(super) fn own_folder(&self) -> Result<PathBuf, Stop> {
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = std::path::absolute(&folder)
            .map_err(|error| refused(format!("{}: {error}", folder.display())))?;
        Ok(folder.join(format!("pando-bench-{}", std::process::id())))
    }

    pub(super) fn programs(&self) -> Result<Programs, Stop> {
        Ok(Programs { pando: this_program()?, opendj: self.opendj.clone() })
    }
}
