//! `pando bench peers`: Pando beside other servers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::peers::comparison::{self, BULK_LOAD, LoadOnly, Plan};
use bench::peers::{Data, Index, Product, Programs, Setup, merge_indexes};
use bench::result::{Environment, RunResult, WorkloadResult};
use bench::template::Parameters;
use clap::Args;

use crate::exit;

/// The indexes that the comparison of loaders has.
const INDEXES: [&str; 6] = ["objectClass", "uid", "sn", "mail", "member", "cn:equality,substring,presence"];

/// The options of `pando bench peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArguments {
    /// Servers to measure beside Pando
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "openldap,ds389,opendj")]
    peers: Vec<Product>,
    /// Entries
    #[arg(long, value_name = "N")]
    entries: Option<u64>,
    /// Template of the data (`pando generate --list`)
    #[arg(long, value_name = "NAME", default_value = "people")]
    template: String,
    /// Seed of the data and of the keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// An index that all servers keep, as cn:equality,substring; may be given several times
    #[arg(long, value_name = "ATTRIBUTE[:KIND,...]", default_values = INDEXES)]
    index: Vec<Index>,
    /// Load the data, export it and compare answers, and run no workloads
    #[arg(long)]
    load_only: bool,
    /// Where data is kept meanwhile; a folder of the run's own is made in it and removed [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// OpenDJ as it was unpacked; ./dev peers puts it there
    #[arg(long, value_name = "DIR", env = "PANDO_OPENDJ", default_value = ".dev/peers/opendj")]
    opendj: PathBuf,
    /// Core that each server runs on, alone of the servers
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    server_core: usize,
    /// File for the result [default: none]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &PeersArguments) -> ExitCode {
    let folder = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = folder.join(format!("pando-peers-{}", std::process::id()));
    let done = measure(arguments, &folder);
    // Whatever happened: what servers left there is of no use to anybody.
    let _ = std::fs::remove_dir_all(&folder);
    match done {
        Ok(result) => {
            print!("{}", table(&result));
            if result.workloads.iter().all(WorkloadResult::is_clean) {
                ExitCode::SUCCESS
            } else {
                exit::some_failed()
            }
        }
        Err(message) => exit::failure(&message),
    }
}

fn measure(arguments: &PeersArguments, folder: &Path) -> Result<RunResult, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
    let mut say = |text: &str| eprintln!("pando: {text}");
    say(&format!("{}: generating", arguments.template));
    let parameters = Parameters { entries: arguments.entries, ..Parameters::default() };
    let data = Data::generate(&arguments.template, &parameters, arguments.seed, &folder.join("data.ldif"))
        .map_err(|error| error.to_string())?;
    say(&format!("{} entries, {:.1} MB of LDIF", data.entries, data.bytes as f64 / 1e6));
    let mut setup = Setup::new(&data.suffix, merge_indexes(Vec::new(), &arguments.index), data.bytes);
    setup.schema.clone_from(&data.schema);
    setup.server_cores = vec![arguments.server_core];
    let mut products = vec![Product::Pando];
    products.extend(arguments.peers.iter().filter(|product| **product != Product::Pando));
    let pando = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let programs = Programs { pando, opendj: arguments.opendj.clone() };
    let plan = Plan {
        products: &products,
        programs: &programs,
        folder: folder.to_owned(),
        setup,
        export: arguments.load_only,
        rounds: 0,
    };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut result = RunResult::begin(command, Environment::detect());
    comparison::compare(&plan, &data, &mut LoadOnly, &mut result, &mut say)
        .map_err(|error| error.to_string())?;
    if let Some(file) = &arguments.output {
        result.write(file).map_err(|error| error.to_string())?;
    }
    Ok(result)
}

/// Loads side by side, Pando first and the others' times as multiples of its.
fn table(result: &RunResult) -> String {
    let mut text = format!(
        "\n{:<22}{:>9}{:>8}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
        "load", "wall s", "times", "CPU s", "private MB", "disk MB", "x LDIF", "export MB/s"
    );
    let loads = result.workloads.iter().filter(|measured| measured.workload == BULK_LOAD);
    let mut first = None;
    for measured in loads {
        let Some(load) = &measured.server.bulk_load else {
            text.push_str(&format!(
                "{:<22} not measured: {}\n",
                measured.server.product,
                measured.unsupported.as_deref().unwrap_or_default()
            ));
            continue;
        };
        let first = *first.get_or_insert(load.seconds);
        let number = |value: Option<f64>, places: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.places$}"))
        };
        let megabytes = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / 1e6), 0);
        let export =
            load.export_bytes.zip(load.export_seconds).map(|(bytes, seconds)| bytes as f64 / 1e6 / seconds);
        let share = load.disk_bytes.zip(load.ldif_bytes).map(|(disk, ldif)| disk as f64 / ldif as f64);
        text.push_str(&format!(
            "{:<22}{:>9.2}{:>8.2}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
            measured.server.product,
            load.seconds,
            load.seconds / first,
            number(load.cpu_seconds, 1),
            megabytes(load.rss_anon_peak_bytes),
            megabytes(load.disk_bytes),
            number(share, 2),
            number(export, 0),
        ));
    }
    text
}

pub(crate) const HELP: &str = "\
Servers run one at a time, each pinned to --server-core. Data is generated once, loaded into each by its own bulk loader, and the same searches
are answered by all before anything is measured; differences are printed. docs/peers.md says what is set on each server and why.
./dev peers installs the servers.

Examples:
  pando bench peers --entries 100000 -o result.json
  pando bench peers --load-only --entries 1000000 --peers openldap,opendj

Exit codes:
  0  measured
  1  nothing could be measured
  2  the command line is wrong
  7  measured, but not everything: a server failed or gave errors";
