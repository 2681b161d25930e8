//! `pando bench list`: lists the shipped workloads.

use std::process::ExitCode;

use bench::workload;
use clap::Args;

use super::{Stop, refused};

/// The options of `pando bench list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print the file of this workload, as a start for your own
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,
}

pub(super) fn run(arguments: &ListArguments) -> Result<ExitCode, Stop> {
    let text = match &arguments.workload {
        None => workload::shipped_names().filter_map(workload::shipped).map(|it| line_of(&it)).collect(),
        Some(name) => workload::shipped_text(name).map(str::to_owned).ok_or_else(|| {
            refused(format!("there is no workload {name:?}; `pando bench list` shows them"))
        })?,
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn line_of(workload: &workload::Workload) -> String {
    let document = workload.document.as_ref().map(|document| document.name.as_str()).unwrap_or_default();
    format!("{:<36} {:<11} {}\n", workload.name, document, workload.title)
}

pub(crate) const HELP: &str = "\
A workload is a TOML file. The shipped workloads repeat the rows of published benchmarks; copy one to begin your own.

Keys:
  [data]: template, rdn              where the entries come from; keys are the entries whose RDN has this attribute
  [data]: dn, first                  name of an entry, such as \"uid=user.{n},ou=people,o=x\"; the number of the first
  [needs]: indexes, tls, fresh_start   [\"uid:equality\"]; StartTLS; a new server, without warm-up
  [[job]]: clients, outstanding, rate  several jobs are at work at the same time
  [[job.operation]]: kind, weight, order   random, sequential, or shuffled (no key twice before all)
  expect_code                        the expected result code

Kinds of operations:
  search          base, scope (base, one, sub, children), filter, attributes; dn must be found; expect_attribute =
                  \"cn: user{n}\", expect_entries (a number, \"1+\", \"any\"); page = 100: each page is an operation.
                  slapd keeps one such search a connection, so leave outstanding at 1
  authentication  the same and password: search, then bind as dn over a second connection, one operation
  bind            dn or, with mechanism (CRAM-MD5, SCRAM-SHA-1, -256), user; password; connection = \"new\"
  compare         dn, attribute, value
  modify          dn, changes = [\"replace title: x\", \"add cn: y\", \"delete sn\"]; undo: a second modify of the entry
  add             dn, entry (lines `name: value`), keys = \"new\"
  delete          dn, keys = \"added\": entries that adds of this run have made; alone, it ends with them
  rename          dn, new_rdn; the entry gets its name back by the next operation

Placeholders in texts: {n} the key's number; {part:50} which of 50 equal parts it is in; {dn} and {attribute} those of
the entry in the template, {attribute:4} its first characters; {random:alphanumeric:11} (numeric, hex, base64) random
text. share = 0.02 uses the first 2% of the entries, skip leaves some out. own_entries = 1000 adds entries before the
run and removes them afterwards, for operations with keys = \"own\"; an operation, possibly of weight 0, must say how to
add them.
A list has one filter, LDAP URL, or base, scope and filter (separated by tabs) a line; -b is the base of bare filters. A
log is that of Pando (--log-operations) or slapd (loglevel stats); only its searches are used.

Examples:
  pando bench list
  pando bench list oid-search-sequential > mine.toml";
