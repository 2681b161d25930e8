//! `pando access translate`: translates access rules of other servers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use migration::in_toml;
use serde_json::json;
use server::ConfigError;

use crate::exit;
use crate::print::{self, Report};

pub(super) const HELP: &str = "\
Reads a slapd.conf, or LDIF with olcAccess or aci values (slapcat -n 0, dsconf, ldapsearch of aci), and prints the
setting access_rules. Each clause that cannot be translated is quoted on standard error. Review the rules with
`pando access rehearse`, and write expectations, before you apply them.

Examples:
  slapcat -n 0 | pando access translate /dev/stdin
  ldapsearch -o ldif-wrap=no -LLL ... '(aci=*)' aci > aci.ldif && pando access translate aci.ldif

Exit codes:
  0  all clauses are translated
  2  the file cannot be read
  6  some clauses are left out";

/// The options of `pando access translate`.
#[derive(Debug, Args)]
pub(crate) struct TranslateArguments {
    /// File with the rules of the other server
    file: PathBuf,
}

pub(super) fn run(arguments: &TranslateArguments) -> ExitCode {
    let translation = match std::fs::read_to_string(&arguments.file) {
        Ok(text) => access_rules::translate(&text),
        Err(error) => {
            return exit::failed(&ConfigError::Read { file: arguments.file.clone(), error }.into());
        }
    };
    let left_out: Vec<String> = translation.left_out.iter().map(ToString::to_string).collect();
    let rules: String = translation.rules.iter().map(|rule| format!("  {},\n", in_toml(rule))).collect();
    let object = json!({ "access_rules": translation.rules, "left_out": left_out });
    Report::result(object, format!("access_rules = [\n{rules}]\n")).print();
    if !print::form().is_json {
        left_out.iter().for_each(|left_out| eprintln!("left out: {left_out}"));
    }
    if translation.left_out.is_empty() { ExitCode::SUCCESS } else { exit::some_rejected() }
}
