//! Drives an LDAP server with one of a few workloads and prints one line of figures. `bench/floor.sh` runs it.

use bench::load::requests::{AddPeople, ReplaceAttribute, SearchByUid, Workload, encode_add};
use bench::load::{self, Options, Summary};
use bench::people;
use clap::{Parser, Subcommand};
use ldap::MessageId;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Drives an LDAP server and prints what it did.
#[derive(Parser)]
struct Arguments {
    /// The server, as ADDRESS:PORT.
    #[arg(long, default_value = "127.0.0.1:1389")]
    server: SocketAddr,
    /// Simple bind DN on every connection.
    #[arg(long, requires = "password")]
    bind_dn: Option<String>,
    /// Its password.
    #[arg(long)]
    password: Option<String>,
    /// How many people there are, or shall be.
    #[arg(long, default_value_t = 100_000)]
    people: u32,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests outstanding on each connection.
    #[arg(long, default_value_t = 1)]
    outstanding: usize,
    /// Seconds to drive before counting.
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Seconds to count.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The server's process id, to read its CPU time.
    #[arg(long)]
    process: Option<u32>,
    /// Where random keys start.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    workload: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Write the people as LDIF to standard output.
    Ldif,
    /// Add the people and their parents to an empty server.
    Add,
    /// Search the subtree for (uid=...), returning the attributes named, or only the DN.
    Search {
        #[arg(default_value = "1.1")]
        attributes: Vec<String>,
    },
    /// Replace an attribute of one person after the other.
    Modify {
        #[arg(default_value = "description")]
        attribute: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(Some(summary)) => {
            print(&summary);
            if summary.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Option<Summary>, Box<dyn std::error::Error>> {
    let mut options = Options {
        address: arguments.server,
        connections: arguments.connections,
        outstanding: arguments.outstanding,
        bind: arguments.bind_dn.clone().zip(arguments.password.clone()),
        warm_up: Duration::from_secs(arguments.warm_up),
        measure: Some(Duration::from_secs(arguments.seconds)),
        server_process: arguments.process,
    };
    let Arguments { people, seed, .. } = *arguments;
    let summary = match &arguments.workload {
        Kind::Ldif => {
            people::write_ldif(&mut BufWriter::new(std::io::stdout().lock()), people)?;
            return Ok(None);
        }
        Kind::Add => {
            options.warm_up = Duration::ZERO;
            options.measure = None;
            let one = Options { connections: 1, outstanding: 1, ..options.clone() };
            load::drive(&one, &mut Parents(people::parents()))?;
            load::drive(&options, &mut AddPeople::new(people))?
        }
        Kind::Search { attributes } => {
            let attributes: Vec<&str> = attributes.iter().map(String::as_str).collect();
            let summary = load::drive(&options, &mut SearchByUid::new(seed, people, &attributes))?;
            // The answers that the clock cut off are at most the requests outstanding.
            let allowed = (options.connections * options.outstanding) as u64;
            if summary.entries.abs_diff(summary.operations) > allowed {
                return Err(format!("{} entries in {} answers", summary.entries, summary.operations).into());
            }
            summary
        }
        Kind::Modify { attribute } => {
            load::drive(&options, &mut ReplaceAttribute::new(seed, people, attribute))?
        }
    };
    Ok(Some(summary))
}

/// The entries above the people, each after its parent.
struct Parents(Vec<people::Person>);

impl Workload for Parents {
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        encode_add(id, &self.0.remove(0), out);
        true
    }
}

/// One line of NAME=VALUE, easy to read and to take apart.
fn print(summary: &Summary) {
    let latency = &summary.latency_micros;
    print!(
        "operations={} failures={} seconds={:.2} rate={:.0} p50_us={} p99_us={} max_us={}",
        summary.operations,
        summary.failures(),
        summary.elapsed.as_secs_f64(),
        summary.rate(),
        latency.value_at_quantile(0.5),
        latency.value_at_quantile(0.99),
        latency.max(),
    );
    if let Some(micros) = summary.cpu_micros_per_operation() {
        print!(" server_cpu_us={micros:.2}");
    }
    println!();
    if summary.failures() > 0 {
        eprintln!("load: result codes {:?}", summary.codes);
    }
}
