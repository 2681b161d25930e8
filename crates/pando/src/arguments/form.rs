//! The options `--json` and `--quiet`. They are defined once for all commands that print results or progress.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::members;
use crate::print::Form;

/// Commands that have neither `--json` nor `--quiet`, each with the reason. An item also applies to the subcommands of
/// its command.
const WITHOUT: [(&str, &str); 6] = [
    ("serve", "it writes a log"),
    ("follow", "it writes a log"),
    ("twin run", "it runs until it is stopped; `twin report` has the results"),
    ("bench", "its results are files of JSON"),
    ("completions", "it prints a script"),
    ("man", "it writes manual pages"),
];

/// Commands without `--json`, each with the format of its output.
const WITHOUT_JSON: [(&str, &str); 3] =
    [("export", "LDIF, or settings in TOML"), ("generate", "LDIF"), ("ldif diff", "LDIF")];

/// Adds the options to a command and its subcommands. `path` is the command's name without `pando`.
pub(super) fn with_options(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_options(below, path.trim_start())
    });
    let prints = !path.is_empty() && !command.is_hide_set() && !is_among(&WITHOUT, path);
    if !prints || (command.has_subcommands() && command.is_subcommand_required_set()) {
        return command;
    }
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let quiet = flag("quiet").help("Print results and errors only: no progress, no account of what was done");
    let command = command.arg(quiet);
    match is_among(&WITHOUT_JSON, path) {
        true => command,
        false => {
            let help =
                command.get_after_help().map(ToString::to_string).unwrap_or_default() + &members::help(path);
            command.arg(flag("json").help("Print each result as a line of JSON")).after_help(help)
        }
    }
}

fn is_among(table: &[(&str, &str)], path: &str) -> bool {
    table
        .iter()
        .any(|(name, _)| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

/// Returns the output form that a command line selects.
pub(super) fn of(matches: &ArgMatches) -> Form {
    if let Some((_, below)) = matches.subcommand() {
        return of(below);
    }
    let is_set = |name: &str| matches!(matches.try_get_one::<bool>(name), Ok(Some(true)));
    Form { is_json: is_set("json"), is_quiet: is_set("quiet") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::CommandLine;

    /// Gathers the paths of the commands that can be run. A command that only groups subcommands cannot.
    fn commands(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        let is_run = !(command.has_subcommands() && command.is_subcommand_required_set());
        if is_run && !path.is_empty() {
            found.push((path.to_owned(), command.clone()));
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name());
            commands(below, path.trim_start(), found);
        }
    }

    fn all() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        commands(&CommandLine::with_all_options(), "", &mut found);
        assert!(found.len() > 60, "{}", found.len());
        found
    }

    /// The help of every command lists both options, unless a table in this module exempts the command.
    #[test]
    fn every_command_has_json_and_quiet_unless_exempt() {
        for (path, mut command) in all() {
            let help = command.render_long_help().to_string();
            let has = |option: &str| help.lines().any(|line| line.trim_start().starts_with(option));
            let is_without = is_among(&WITHOUT, &path);
            if path.starts_with("bench") {
                continue;
            }
            assert_eq!(has("--quiet"), !is_without, "{path}: {help}");
            assert_eq!(has("--json"), !is_without && !is_among(&WITHOUT_JSON, &path), "{path}: {help}");
        }
    }

    /// The table of members contains exactly the commands with `--json`.
    #[test]
    fn the_help_lists_the_json_members_of_every_command() {
        let known = all();
        for (path, command) in &known {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_members = help.contains("\n\nMembers of the objects of --json:\n  ");
            let prints = !is_among(&WITHOUT, path) && !is_among(&WITHOUT_JSON, path);
            assert_eq!(has_members, prints, "{path}: {help}");
        }
        let listed = members::MEMBERS.iter().flat_map(|(commands, _)| commands.split(", "));
        let is_left_out = |name: &str| !cfg!(feature = "kafka") && name.starts_with("cluster ");
        let unknown: Vec<_> =
            listed.filter(|name| !is_left_out(name) && !known.iter().any(|(path, _)| path == name)).collect();
        assert!(unknown.is_empty(), "no commands: {unknown:?}");
    }

    #[test]
    fn json_and_quiet_select_the_output_form() {
        let chosen = |line: &str| CommandLine::try_read(line.split(' ')).unwrap().form;
        assert_eq!(chosen("pando verify --data /d"), Form::default());
        assert_eq!(chosen("pando backup list --json /b"), Form { is_json: true, is_quiet: false });
        assert_eq!(chosen("pando audit --json --quiet --folder /a"), Form { is_json: true, is_quiet: true });
        assert_eq!(chosen("pando export --quiet --data /d"), Form { is_json: false, is_quiet: true });
        assert!(CommandLine::try_read("pando export --json".split(' ')).is_err());
        assert!(CommandLine::try_read("pando audit --csv --json".split(' ')).is_err());
    }
}
