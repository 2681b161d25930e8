//! Options shared by several commands of `pando bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bench::driver::Options;
use bench::peers::{OpenDj, Programs};
use clap::Args;

use super::{Cpus, Stop, parse_duration, refused, this_program};

/// Options of the load.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// Number of clients, instead of that of the workload; if the workload has several groups, that of the first
    #[arg(long, value_name = "N")]
    pub(super) clients: Option<NonZeroUsize>,
    /// Requests outstanding on each connection
    #[arg(long, value_name = "N")]
    outstanding: Option<NonZeroUsize>,
    /// Duration of each measurement: 10s, 5m, 8h [default: that of the workload]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Warm-up before each measurement, which OpenDJ's just-in-time compiler needs [default: that of the workload]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,
    /// Pause between warm-up and measurement [default: that of the workload]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pause: Option<Duration>,
    /// Threads of the load
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Seed of random keys and values; for peers and sweep also the seed of the data
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

/// Folders and processors of servers that a measurement starts.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Folder for temporary data, in which the run creates and removes its own folder [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Folder of the unpacked OpenDJ, as ./dev peers installs it
    #[arg(long, value_name = "DIR", env = OpenDj::VARIABLE, default_value = OpenDj::USUAL_FOLDER)]
    opendj: PathBuf,
    /// Processors of each server, one server at a time
    #[arg(long, value_name = "CPUS", default_value = "0")]
    pub(super) server_cpus: Cpus,
    /// Processors that the load runs on
    #[arg(long, value_name = "CPUS", default_value = "1")]
    pub(super) load_cpus: Cpus,
}

impl PlaceArguments {
    /// Returns the path of the directory for this run. The caller creates and removes the directory.
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
