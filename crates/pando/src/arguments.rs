//! The command line and its help.

mod follow;
mod form;
mod members;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::error::{ErrorKind, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use ldap::ServerUrl;
use server::config::{ADMIN_PASSWORD_VARIABLE, Secret};
use server::values::{DnText, LogLevel};
use server::{Arguments, ConfigError};

pub(crate) use self::follow::FollowArguments;
use crate::access::AccessArguments;
use crate::account::{self, AccountArguments};
use crate::audit::{self, AuditArguments};
use crate::backup::{self, BackupArguments, RestoreArguments};
use crate::bench::BenchArguments;
use crate::change::{self, ChangeArguments};
#[cfg(feature = "kafka")]
use crate::cluster::{self, ClusterArguments};
use crate::compact;
use crate::compare::{self, CompareArguments};
use crate::data_arguments::DataArguments;
use crate::doctor::{self, DoctorArguments};
use crate::explain::{self, ExplainArguments};
use crate::export::{self, ExportArguments};
use crate::generate::{self, GenerateArguments};
use crate::group::{self, GroupArguments};
use crate::import::{self, ImportArguments};
use crate::index::{self, IndexArguments};
use crate::init::{self, InitArguments};
use crate::ldif::{self, LdifArguments};
use crate::migrate::{self, MigrateArguments};
use crate::passwd::{self, PasswdArguments};
use crate::print::Form;
use crate::replica::{self, ReplicaArguments};
use crate::search::{self, SearchArguments};
use crate::settings::{self, ApplyArguments, PlanArguments};
use crate::support::{self, SupportArguments};
use crate::top::{self, TopArguments};
use crate::twin::{self, TwinArguments};
use crate::undelete::{self, UndeleteArguments};
use crate::user::{self, UserArguments};
use crate::verify::{self, VerifyArguments};

/// An LDAP v3 directory server.
#[derive(Debug, Parser)]
#[command(name = "pando", version, subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// Form of the output, which the options `--json` and `--quiet` select.
    #[arg(skip)]
    pub(crate) form: Form,
}

/// The commands of `pando`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve a directory until SIGTERM
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Set up a server: node file, settings, password and data
    #[command(after_help = init::HELP)]
    Init(InitArguments),
    /// Look for what will hurt a server: files, disk, system, certificates, backups
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArguments),
    /// Write a file for others to look at, without secrets
    #[command(after_help = support::HELP)]
    Support(SupportArguments),
    /// Check the data of a directory, running or stopped, and repair it
    #[command(alias = "check", after_help = verify::HELP)]
    Verify(VerifyArguments),
    /// Set up and inspect the nodes of a cluster: one directory on several machines
    #[cfg(feature = "kafka")]
    #[command(after_help = cluster::HELP)]
    Cluster(ClusterArguments),
    /// Not in this build
    #[cfg(not(feature = "kafka"))]
    #[command(hide = true, disable_help_flag = true)]
    Cluster {
        /// Ignored.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Promote a replica: a server that applies the log of another one
    #[command(after_help = replica::HELP)]
    Replica(ReplicaArguments),
    /// Back up a directory, running or stopped, and inspect backups
    #[command(after_help = backup::HELP)]
    Backup(BackupArguments),
    /// Restore a backup to a new data directory, as of any moment that the backup covers
    #[command(after_help = backup::RESTORE_HELP)]
    Restore(RestoreArguments),
    /// Rewrite the data file of a directory without unused pages
    #[command(after_help = compact::HELP)]
    Compact(DataArguments),
    /// Compare the entries of two servers, and group the differences by cause
    #[command(after_help = compare::HELP)]
    Compare(CompareArguments),
    /// Show the clients that cost a running server most
    #[command(after_help = top::HELP)]
    Top(TopArguments),
    /// Put a proxy before an old and a new server, compare their answers, and switch
    #[command(after_help = twin::HELP)]
    Twin(Box<TwinArguments>),
    /// Check, count and compare LDIF files
    #[command(after_help = ldif::HELP)]
    Ldif(LdifArguments),
    /// Explain, rehearse, translate and roll back access rules
    Access(AccessArguments),
    /// Print and verify the audit trail, also while a server writes it
    #[command(after_help = audit::HELP)]
    Audit(AuditArguments),
    /// Search a running server, or any LDAP server
    #[command(after_help = search::HELP)]
    Search(SearchArguments),
    /// Send the changes of an LDIF file to a running server
    #[command(after_help = change::HELP)]
    Change(ChangeArguments),
    /// Add, list, show, change, lock and delete users
    #[command(after_help = user::HELP)]
    User(UserArguments),
    /// Add, list, show, change and delete groups, and their members
    #[command(after_help = group::HELP)]
    Group(GroupArguments),
    /// List deleted entries, and bring them back
    #[command(after_help = undelete::HELP)]
    Undelete(UndeleteArguments),
    /// Copy the tree of another server and follow its changes, or end the copy
    #[command(after_help = follow::HELP)]
    Follow(Box<FollowArguments>),
    /// Show, lock, unlock and reset accounts of a running server
    #[command(after_help = account::HELP)]
    Account(AccountArguments),
    /// Print the stored form of a password
    #[command(after_help = passwd::HELP)]
    Passwd(PasswdArguments),
    /// Load LDIF files into a stopped directory: millions of entries in minutes
    #[command(after_help = import::HELP)]
    Import(ImportArguments),
    /// Propose settings from the configuration of OpenLDAP, 389 DS or OpenDJ
    #[command(after_help = migrate::HELP)]
    Migrate(MigrateArguments),
    /// Write the entries of a directory as LDIF, running or stopped
    #[command(after_help = export::HELP)]
    Export(ExportArguments),
    /// Generate LDIF of any size from a template
    #[command(after_help = generate::HELP)]
    Generate(GenerateArguments),
    /// Show the changes that a settings file would make
    #[command(after_help = settings::PLAN_HELP)]
    Plan(PlanArguments),
    /// Apply the settings of a file: suffixes, indexes, schema, limits, access
    #[command(after_help = settings::APPLY_HELP)]
    Apply(ApplyArguments),
    /// Measure directory servers
    Bench(BenchArguments),
    /// List, add and drop indexes of a directory, running or stopped
    #[command(after_help = index::HELP)]
    Index(IndexArguments),
    /// Explain how a search is carried out, by a running server or on a stopped directory
    #[command(after_help = explain::HELP)]
    Explain(ExplainArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  pando completions bash > /etc/bash_completion.d/pando")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the version of the program, of its data formats, and its features
    Version,
    /// Write the manual pages into a folder: pando.1, and a page for each command
    #[command(after_help = "Example:\n  pando man /usr/local/share/man/man1 && man pando-serve")]
    Man {
        /// The folder, which must exist.
        folder: PathBuf,
    },
}

/// The options of `pando serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The data directory; created if it does not exist, and owned by one process at a time
    #[arg(long, value_name = "DIR", env = "PANDO_DATA")]
    data: Option<PathBuf>,
    /// URL to listen on, ldap://HOST:PORT or ldapi://%2FPATH; may be given several times. Port 0 takes a free port
    /// [default: ldap://127.0.0.1:1389]
    #[arg(long, value_name = "URL", env = "PANDO_LISTEN", value_delimiter = ' ')]
    listen: Vec<ServerUrl>,
    /// Suffix to add to those of the directory; may be given several times [default, for a new directory:
    /// dc=example,dc=com]
    #[arg(long, value_name = "DN", env = "PANDO_SUFFIX")]
    suffix: Vec<DnText>,
    /// DN of the administrator, who needs no entry [default: cn=admin]
    #[arg(long, value_name = "DN", env = "PANDO_ADMIN_DN")]
    admin_dn: Option<DnText>,
    /// File with the administrator's password; one newline at its end is ignored
    #[arg(long, value_name = "FILE", env = "PANDO_ADMIN_PASSWORD_FILE")]
    admin_password_file: Option<PathBuf>,
    /// Run as this user once the ports are open; requires a start as root
    #[arg(long, value_name = "NAME", env = "PANDO_USER")]
    user: Option<String>,
    /// Run in this group [default: that of the user]
    #[arg(long, value_name = "NAME", env = "PANDO_GROUP")]
    group: Option<String>,
    /// Let anonymous clients of this node read the tree (never userPassword), whatever the directory's settings say
    #[arg(long)]
    anonymous_read: bool,
    /// Node file (TOML) with these and more settings of this machine
    #[arg(long, value_name = "FILE", env = "PANDO_NODE")]
    node: Option<PathBuf>,
    /// Load a sample organisation of about 1,000 people below the first suffix, if the directory is empty
    #[arg(long)]
    pub(crate) sample: bool,
    /// Level of the log: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "PANDO_LOG_LEVEL")]
    log_level: Option<LogLevel>,
    /// Log a line for every operation (never a password or a value of one)
    #[arg(long)]
    log_operations: bool,
}

impl CommandLine {
    /// Reads the command line of this process. Exits with help or an error message if no command can be run.
    pub(crate) fn read() -> CommandLine {
        CommandLine::try_read(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn try_read<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<CommandLine> {
        let mut command = CommandLine::with_all_options();
        let mut matches = command.try_get_matches_from_mut(words)?;
        refuse_two_directories(&mut command, &matches)?;
        refuse_without_password(&mut command, &matches)?;
        let form = form::of(&matches);
        CommandLine::from_arg_matches_mut(&mut matches).map(|line| CommandLine { form, ..line })
    }

    /// Returns all commands, with the options `--json` and `--quiet` of [`form`].
    pub(crate) fn with_all_options() -> Command {
        form::with_options(CommandLine::command(), "")
    }
}

/// Rejects `--url`, which names a server, together with an option that names a directory of this machine, because one
/// of the two options would be ignored. A conflict declared to clap is too strict: it would also reject `--url` if only
/// `PANDO_DATA` is set.
fn refuse_two_directories(command: &mut Command, matches: &ArgMatches) -> Result<()> {
    if let Some((verb, matches)) = matches.subcommand() {
        return command
            .find_subcommand_mut(verb)
            .map_or(Ok(()), |verb| refuse_two_directories(verb, matches));
    }
    let is_given = |name: &&str| {
        matches!(matches.try_contains_id(name), Ok(true))
            && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    match ["data", "node"].into_iter().find(is_given) {
        Some(name) if is_given(&"url") => Err(command.error(
            ErrorKind::ArgumentConflict,
            format!("--url names a server, --{name} a directory of this machine: give one of them"),
        )),
        _ => Ok(()),
    }
}

/// Rejects `--bind-dn` without a password if there is no terminal to ask for one.
fn refuse_without_password(command: &mut Command, matches: &ArgMatches) -> Result<()> {
    if let Some((verb, matches)) = matches.subcommand() {
        return command
            .find_subcommand_mut(verb)
            .map_or(Ok(()), |verb| refuse_without_password(verb, matches));
    }
    let has = |name: &str| matches!(matches.try_contains_id(name), Ok(true));
    // `bench run` has another option for the password: `--password`, whose value is the password itself.
    let has_another = matches.try_contains_id("password").is_ok();
    if has_another || !has("bind_dn") || has("password_file") || std::io::stdin().is_terminal() {
        return Ok(());
    }
    let message = "--bind-dn needs --password-file FILE if there is no terminal to ask for a password";
    Err(command.error(ErrorKind::MissingRequiredArgument, message))
}

impl ServeArguments {
    /// Returns the settings of the command line and the environment. The password comes from an environment variable
    /// and has no option, so that the password appears neither in the help nor in a process list.
    pub(crate) fn to_server(&self) -> Result<Arguments, ConfigError> {
        let admin_password = match std::env::var(ADMIN_PASSWORD_VARIABLE) {
            Ok(password) => Some(Secret(password.into_bytes())),
            Err(std::env::VarError::NotPresent) => None,
            Err(std::env::VarError::NotUnicode(_)) => return Err(ConfigError::PasswordNotUtf8),
        };
        Ok(Arguments {
            node_file: self.node.clone(),
            data: self.data.clone(),
            listen: self.listen.clone(),
            suffixes: self.suffix.clone(),
            admin_dn: self.admin_dn.clone(),
            admin_password_file: self.admin_password_file.clone(),
            admin_password,
            user: self.user.clone(),
            group: self.group.clone(),
            anonymous_read: self.anonymous_read,
            log_level: self.log_level,
            log_operations: self.log_operations,
            follow: None,
        })
    }
}

const EXAMPLES: &str = "\
Try it: a sample organisation, served on this machine only

  pando serve --data /tmp/pando --sample
  pando search --data /tmp/pando '(uid=ahuber)'

The first start prints the administrator's password once; --admin-password-file or PANDO_ADMIN_PASSWORD
sets one instead. See `pando help serve`.

Maintain it (`pando help COMMAND` shows examples)

  pando backup make --data /tmp/pando /tmp/pando-backup
  pando export --data /tmp/pando -o people.ldif.zst
  pando verify --data /tmp/pando";

const SERVE_HELP: &str = "\
The command line overrides the environment, the environment overrides the node file, and the node file overrides
the defaults. `pando apply` changes the settings that all nodes of a directory share (indexes, schema, limits, ...).
SIGTERM completes outstanding operations and exits; SIGHUP reads the node file again and reports which changes need
a restart.

When the server is ready, it prints one line on standard output, with the real ports and, last, the socket in the
data directory:
  pando: ready on ldap://127.0.0.1:1389 ldapi://%2Fvar%2Flib%2Fpando%2Fpando.sock

Examples:
  pando serve --data /var/lib/pando --suffix dc=example,dc=org --admin-password-file /etc/pando/password
  pando serve --data /var/lib/pando --listen ldap://:389 --listen ldap://[::1]:1389
  PANDO_ADMIN_PASSWORD=secret pando serve --data /tmp/pando --sample --anonymous-read
  pando serve --node /etc/pando/node.toml

Exit codes:
  0  stopped on request
  1  failed while running
  2  the command line, a setting or a schema file is wrong
  3  another process uses the data directory
  4  the data directory cannot be used as it is
  5  cannot listen on an address";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        CommandLine::with_all_options().debug_assert();
    }

    /// The value of an option has the same meaning in all commands: it is not a node file in one command and a settings
    /// file in another. Three commands are exempt: `bench`, whose commands have their own options; `twin`, which
    /// listens on addresses; and `follow`, which has a key in a file.
    #[test]
    fn an_option_has_one_meaning_in_all_commands() {
        fn gather(command: &Command, seen: &mut BTreeMap<String, BTreeMap<String, Vec<String>>>) {
            for option in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
                let values = option.get_value_names().filter(|_| option.get_action().takes_values());
                let values = values.map(|names| names.join(" ")).unwrap_or_default();
                let meanings = seen.entry(option.get_long().unwrap_or_default().to_owned()).or_default();
                meanings.entry(values).or_default().push(command.get_name().to_owned());
            }
            let others = ["bench", "twin", "follow"];
            let verbs = command.get_subcommands().filter(|verb| !others.contains(&verb.get_name()));
            verbs.for_each(|verb| gather(verb, seen));
        }
        let mut seen = BTreeMap::new();
        gather(&CommandLine::with_all_options(), &mut seen);
        seen.retain(|_, meanings| meanings.len() > 1);
        assert!(seen.is_empty(), "{seen:#?}");
    }

    /// Returns the codes that a help text lists after `Exit codes:`.
    fn exit_codes(help: &str) -> Vec<u8> {
        let lines = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
        lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()?.parse().ok()).collect()
    }

    /// All exit codes of commands are in the table in `errors.md`. The help of a command lists its exit codes, or names
    /// a command with the same exit codes.
    #[test]
    fn one_table_has_all_exit_codes() {
        fn gather(command: &Command, used: &mut BTreeMap<u8, String>) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for code in exit_codes(&help) {
                used.entry(code).or_insert_with(|| command.get_name().to_owned());
            }
            command.get_subcommands().for_each(|verb| gather(verb, used));
        }
        let page = include_str!("../../../docs/reference/errors.md");
        let table = page.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
        let listed =
            table.lines().filter_map(|line| line.strip_prefix("- **")?.split("**").next()?.parse().ok());
        let listed: Vec<u8> = listed.collect();
        assert_eq!(listed, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut used = BTreeMap::new();
        gather(&CommandLine::with_all_options(), &mut used);
        for (code, command) in &used {
            assert!(
                listed.contains(code),
                "{command} ends with {code}, which docs/reference/errors.md lacks"
            );
        }
        assert!(used.len() >= 7, "{used:?}");
        let mut silent = Vec::new();
        without_exit_codes(&CommandLine::with_all_options(), &mut silent);
        silent.retain(|name| !["completions", "man", "version", "bench"].contains(&name.as_str()));
        assert!(
            silent.is_empty(),
            "neither the help of these commands nor of those above has exit codes: {silent:?}"
        );
    }

    /// Gathers the commands for which neither their own help nor the help of a command that contains them lists exit
    /// codes.
    fn without_exit_codes(command: &Command, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let help = below.get_after_help().map(ToString::to_string).unwrap_or_default();
            if help.contains("Exit codes") {
                continue;
            }
            match below.get_name() == "bench" || !below.has_subcommands() {
                true => found.push(below.get_name().to_owned()),
                false => without_exit_codes(below, found),
            }
        }
    }

    #[test]
    fn options_reach_the_server() {
        let line =
            "pando serve --data /d --listen ldap://[::1]:0 --listen ldap://:389 --suffix o=a --suffix o=b";
        let Verb::Serve(serve) = CommandLine::try_read(line.split(' ')).unwrap().verb else {
            panic!("not serve");
        };
        let arguments = serve.to_server().unwrap();
        assert_eq!((arguments.listen.len(), arguments.suffixes.len()), (2, 2));
        assert!(!serve.sample && !arguments.anonymous_read);
    }

    #[test]
    fn bad_values_are_refused_with_a_reason() {
        let check = |line: &str, part: &str| {
            let error = CommandLine::try_read(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(part), "{line}: {error}");
        };
        check("pando serve --listen 127.0.0.1:389", "write ldap://HOST:PORT");
        check("pando serve --listen ldapi:///run/s", "ldapi://%2Frun%2Fs");
        check("pando serve --suffix nonsense", "is no DN");
        check("pando serve --admin-dn =", "is no DN");
        check("pando serve --sampel", "--sample");
        check("pando sevre", "serve");
        check("pando serve --log-level loud", "choose error, warn");
        for verb in ["export", "apply settings.toml", "explain (cn=*)"] {
            check(&format!("pando {verb} --url ldap://:389 --data /d"), "--url names a server, --data");
            check(
                &format!("pando {verb} --url ldap://:389 --online"),
                "'--url <URL>' cannot be used with '--online'",
            );
        }
        check("pando explain (cn=*) --url ldap://:389 --node /f", "--node a directory");
    }
}
