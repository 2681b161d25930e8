//! `pando explain`: how a search would be carried out, on a directory that nobody serves.

use std::process::ExitCode;

use clap::Args;
use ldap::{FilterBuf, Scope};
use server::{Config, ExplainError, ServeError};

use crate::arguments::DataArguments;
use crate::exit;

pub(crate) const HELP: &str = "\
The search is carried out without its results. Terms with a star are those that its candidates come from; numbers behind
terms say how many entries each leads to by itself. On a directory that is being served, the administrator sends
the control 1.3.6.1.4.1.99999.4.1 with a search instead.

Example:
  pando explain --data /var/lib/pando --base dc=example,dc=com '(&(objectClass=person)(cn=*smith*))'

Exit codes: as `pando verify`.";

/// The options of `pando explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Where the search begins [default: the whole directory]
    #[arg(long, value_name = "DN", default_value = "", hide_default_value = true)]
    base: String,
    /// How far it goes
    #[arg(long, value_enum, default_value = "sub")]
    scope: ScopeName,
    /// The filter (RFC 4515)
    filter: String,
}

/// A scope as ldapsearch calls it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ScopeName {
    Base,
    One,
    Sub,
    Children,
}

impl ScopeName {
    fn scope(self) -> Scope {
        match self {
            ScopeName::Base => Scope::BaseObject,
            ScopeName::One => Scope::SingleLevel,
            ScopeName::Sub => Scope::WholeSubtree,
            ScopeName::Children => Scope::Subordinate,
        }
    }
}

pub(crate) fn run(arguments: &ExplainArguments) -> ExitCode {
    let filter = match FilterBuf::parse(&arguments.filter) {
        Ok(filter) => filter,
        Err(error) => {
            return exit::refused(&format!("filter: {error}"));
        }
    };
    let config = match Config::load(&arguments.data.to_server()).map_err(ServeError::from) {
        Ok(config) => config,
        Err(error) => return exit::failed(&error),
    };
    match server::explain(config, &arguments.base, arguments.scope.scope(), &filter) {
        Ok(explanation) => {
            print!("{explanation}");
            ExitCode::SUCCESS
        }
        Err(ExplainError::Serve(error)) => exit::failed(&error),
        Err(error) => exit::failure(&error.to_string()),
    }
}
