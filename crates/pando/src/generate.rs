//! `pando generate`: generates LDIF from a template.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use bench::template::{self, Parameters, SHIPPED, Template};
use clap::Args;

use crate::exit;
use crate::output::{Compression, Output};

/// The options of `pando generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// A shipped template (see --list), or a file
    #[arg(value_name = "TEMPLATE", required_unless_present = "list")]
    template: Option<String>,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Compression [default: by the name of the file (.gz, .zst)]
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    /// Seed of random values: the same seed gives the same file
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of threads; the file does not depend on it [default: one for each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Number of main entries: sets the constant `entries` of the template, or `numusers` if it has no `entries`
    #[arg(long, value_name = "N")]
    entries: Option<u64>,
    /// Set a constant of the template; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_constant)]
    constant: Vec<(String, String)>,
    /// List the shipped templates
    #[arg(long)]
    list: bool,
    /// Print the shipped template, as a start for your own
    #[arg(long, conflicts_with = "list")]
    print: bool,
    /// Print the schema that entries of the shipped template need in addition to Pando's
    #[arg(long, conflicts_with_all = ["list", "print"])]
    print_schema: bool,
}

fn parse_constant(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

pub(crate) fn run(arguments: &GenerateArguments) -> ExitCode {
    if arguments.list {
        print!("{}", SHIPPED.iter().map(line_of).collect::<String>());
        return ExitCode::SUCCESS;
    }
    let Some(name) = arguments.template.as_deref() else {
        return exit::refused("name a template; --list shows those that come with Pando");
    };
    if arguments.print || arguments.print_schema {
        let Some(shipped) = template::shipped(name) else {
            return exit::refused(&format!("{name:?} is not a shipped template; --list shows them"));
        };
        let text = if arguments.print { Some(shipped.text) } else { shipped.schema };
        let Some(text) = text else {
            return exit::refused(&format!("{name} needs no schema but Pando's own"));
        };
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    let constants: BTreeMap<_, _> = arguments.constant.iter().cloned().collect();
    match Template::read(name, &Parameters { constants, entries: arguments.entries }) {
        Err(error) => exit::refused(&error.to_string()),
        Ok(template) => generate(&template, arguments),
    }
}

fn generate(template: &Template, arguments: &GenerateArguments) -> ExitCode {
    let started = Instant::now();
    let threads =
        arguments.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let compression = arguments.compress.or_else(|| Compression::of_name(&arguments.output));
    let written = Output::create(Some(&arguments.output), compression).and_then(|mut output| {
        let octets = template.generate(arguments.seed, threads, &mut output)?;
        output.finish()?;
        Ok(octets)
    });
    match written {
        Err(error) => exit::not_written(arguments.output.display(), &error),
        Ok(octets) => {
            let (megabytes, seconds) = (octets as f64 / 1e6, started.elapsed().as_secs_f64());
            remark!(
                "pando: generated {} entries, {megabytes:.1} MB in {seconds:.1} s ({:.0} MB/s)",
                template.entry_count(),
                megabytes / seconds.max(0.001)
            );
            ExitCode::SUCCESS
        }
    }
}

fn line_of(template: &template::ShippedTemplate) -> String {
    let schema = if template.schema.is_some() { " (needs --print-schema)" } else { "" };
    format!("{:<14} {}{schema}\n", template.name, template.description)
}

pub(crate) const HELP: &str = "\
The template language is that of make-ldif in SLAMD, OpenDJ and UnboundID (docs/how-to/generate.md). Output streams:
memory stays at some megabytes, however many entries or members of a group there are.

Tags of a template:
  <random:alpha:N>, alphanumeric, hex, base64; :MIN:MAX
                                               that many characters, letters in lower case
  <random:chars:SET:N>, :MIN:MAX               characters of the set, ASCII
  <random:numeric:N>                           N digits
  <random:numeric:MIN:MAX>, :FORMAT            a number, ends included; as 00000, #,##0, EUR 0.00, or 5 (digits)
  <random:month>, :N; <random:telephone>       a month's name, cut to N characters; as +1 555 123 4567
  <sequential>, :START, :true or :false        counts from START (0); anew below each parent, unless false
  <list:a;2:b;1> or <list:a:2,b:1>             one of them, by weight (1 if not given)
  <presence:PERCENT>                           nothing; only that share of entries gets the line
  <ifpresent:NAME>, :VALUE; <ifabsent:...>     nothing; the line needs that attribute (value), or its absence
  <first>, <last>                              given name and surname of the entry; no two entries have the same two
  <file:NAME>, :random or :sequential          a line of a file: in the template's folder, or one of those below
  <guid>                                       a random UUID
  <dn>, :N; <_dn>                              the entry's name, its first N RDNs, or last (N below 0); _ for commas
  <rdn>, <parentdn>, <_parentdn>               parts of it
  <members:TEMPLATE>, alone on its line        the entries of the template, divided among all entries with this line
  <dnof:TEMPLATE>                              the name of some entry of the template
  <attributecertificate>                       an X.509 attribute certificate (RFC 5755), its signature random
The files cities, states, streets, first.names and last.names exist. <members>, <dnof> and <attributecertificate> are
specific to Pando.

Examples:
  pando generate --list
  pando generate oid --entries 100000 -o oid.ldif.zst
  pando generate directorymark --entries 1000000 | pando import --data /tmp/pando --suffix c=GB -
  pando generate m-vault --print > mine.template
  pando generate mine.template --constant suffix=dc=example,dc=com --seed 7

Exit codes:
  0  generated
  1  the output could not be written
  2  the command line or the template is wrong; the message names the line";
