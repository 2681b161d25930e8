//! `pando access rehearse`: shows the effect of access rules before they are in force.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use access_rules::{RecordedRehearsal, Review, ReviewError};
use audit::Event;
use clap::Args;
use directory::DirectorySettings;
use directory::rehearse::{RecordedLimits, Rehearsal};
use serde_json::json;
use server::Config;
use server::settings;

use super::explain::identity;
use super::open_review;
use crate::audit::{ChoiceArguments, rfc3339};
use crate::data_arguments::DataArguments;
use crate::exit;
use crate::print::Report;

/// Maximum number of entries that a recorded search may examine, as a multiple of the maximum number of entries that
/// may match it.
const EXAMINED_PER_ENTRY: u64 = 100;

pub(super) const HELP: &str = "\
Reads the data file, whether or not a server is running, and changes nothing.

With an audit trail, named by --trail or the node file, each recorded operation is decided under the rules in force
and under those of the file. Each line shows a requester, an entry, the rights lost or gained there, how often and when
they were last used, and the rules that decide before and after. The operations are decided on the present entries: a
search is carried out again. Options such as --since and --who select operations.

Without a trail, or with --sample or --as, the rules are compared on a sample of entries and users. Only attributes
that an entry has are reported.

A summary comes first, then the differences, at most --lines-max of them.

Examples:
  pando access rehearse --node /etc/pando/node.toml --since 7d settings.toml
  pando access rehearse --data /var/lib/pando --trail /var/lib/pando-audit --who ou=apps,dc=example,dc=com settings.toml
  pando access rehearse --data /var/lib/pando settings.toml
  pando access rehearse --data /var/lib/pando --as uid=anna,ou=people,dc=example,dc=com --as anonymous settings.toml

Exit codes: as `pando plan`; 1 if the trail is damaged (the readable part is used).";

/// The options of `pando access rehearse`.
#[derive(Debug, Args)]
pub(crate) struct RehearseArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Folder of an audit trail whose operations are decided again [default: the trail of the node file]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sample", "requesters"])]
    trail: Option<PathBuf>,
    /// Use a sample of entries and users even if the node has an audit trail
    #[arg(long)]
    sample: bool,
    /// Requester: a DN, u:NAME, or anonymous; may be given several times [default: anonymous, and users among the
    /// entries]
    #[arg(long = "as", value_name = "WHO")]
    requesters: Vec<String>,
    /// Maximum number of users in the sample, if no --as option names requesters
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    requesters_max: usize,
    /// Maximum number of entries: of the sample, or of each search in the trail
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    entries_max: u64,
    /// Maximum number of differences to list
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    lines_max: usize,
    #[command(flatten)]
    choice: ChoiceArguments,
    /// The settings file (TOML)
    file: PathBuf,
}

pub(super) fn run(arguments: &RehearseArguments) -> ExitCode {
    let read = settings::read(&arguments.file)
        .and_then(|file| Ok((file, Config::load(&arguments.data.to_server())?)));
    let (file, config) = match read {
        Ok(read) => read,
        Err(error) => return exit::failed(&error),
    };
    let of_node =
        || config.audit.folder.clone().filter(|_| !arguments.sample && arguments.requesters.is_empty());
    let folder = arguments.trail.clone().or_else(of_node);
    if folder.is_none() && arguments.choice.is_any() {
        return exit::refused(
            "no audit trail to choose operations of: give --trail DIR, or leave --sample out",
        );
    }
    let review = match file.check().and_then(|()| open_review(&config)) {
        Ok(review) => review,
        Err(error) => return exit::failed(&error),
    };
    let done = match folder {
        Some(folder) => recorded(&review, (file.settings(), &folder), arguments),
        None => sampled(&review, file.settings(), arguments),
    };
    match done {
        Ok(code) => code,
        Err(ReviewError::Trail(error)) => exit::damaged(&error.to_string()),
        Err(error) => exit::failure(&error.to_string()),
    }
}

/// Compares the rules on a sample of entries and users.
fn sampled(
    review: &Review,
    proposed: &DirectorySettings,
    arguments: &RehearseArguments,
) -> Result<ExitCode, ReviewError> {
    let rehearsal = Rehearsal {
        requesters: arguments.requesters.iter().map(|requester| identity(requester)).collect(),
        requesters_max: arguments.requesters_max,
        entries_max: arguments.entries_max,
    };
    let mut lines = Vec::new();
    let rehearsed = review.rehearse(proposed, &rehearsal, &mut |change| {
        if lines.len() < arguments.lines_max {
            lines.push(change.to_string());
        }
    })?;
    let (requesters, entries, changes) = (rehearsed.requesters, rehearsed.entries, rehearsed.changes);
    let mut text = format!("{requesters} requesters at {entries} entries: {changes} would change\n");
    text.extend(lines.iter().map(|line| format!("{line}\n")));
    let more = changes.saturating_sub(lines.len() as u64);
    if more > 0 {
        text += &format!("not listed (--lines-max): {more}\n");
    }
    let object = json!({
        "requesters": requesters, "entries": entries, "changes": changes, "listed": lines, "not_listed": more,
    });
    Report::result(object, text).print();
    Ok(ExitCode::SUCCESS)
}

/// Compares the rules on the operations in an audit trail.
fn recorded(
    review: &Review,
    place: (&DirectorySettings, &Path),
    arguments: &RehearseArguments,
) -> Result<ExitCode, ReviewError> {
    let limits = RecordedLimits {
        lines_max: arguments.lines_max,
        matching_max: arguments.entries_max,
        examined_max: arguments.entries_max.saturating_mul(EXAMINED_PER_ENTRY),
    };
    let wanted = |event: Event<'_>| arguments.choice.has(event);
    let rehearsed = review.rehearse_recorded(place, limits, &wanted, &mut |damage| {
        eprintln!("pando: {damage}");
    })?;
    summarize(&rehearsed);
    for change in &rehearsed.changes {
        let may = if change.is_gained { "may now" } else { "may no longer" };
        let times = if change.count == 1 { "once" } else { &format!("{} times, last", change.count) };
        let last = rfc3339(change.last_micros);
        let right = change.right.to_string();
        let text = format!(
            "{} at {}: {may} {right} ({times} {last})\n  before: {}\n  after: {}",
            change.requester, change.dn, change.before, change.after
        );
        let object = json!({
            "requester": change.requester, "dn": change.dn, "gained": change.is_gained, "right": right,
            "count": change.count, "last": last, "before": change.before.to_string(), "after": change.after.to_string(),
        });
        Report::result(object, text).print();
    }
    Ok(match rehearsed.damages {
        0 => ExitCode::SUCCESS,
        _ => exit::failure("the trail is damaged: `pando audit verify` reports all damage"),
    })
}

fn summarize(rehearsed: &RecordedRehearsal) {
    let RecordedRehearsal { changes, tally, withheld, link_unknown, .. } = rehearsed;
    let when = tally
        .times
        .map_or_else(String::new, |(first, last)| format!(" from {} to {}", rfc3339(first), rfc3339(last)));
    let (decided, changed, kinds) = (tally.decided, tally.changed, changes.len());
    let mut text = format!(
        "{decided} operations{when}, with the present entries: {changed} would change, in {kinds} kinds\n"
    );
    let more = if tally.has_more_unlisted { " or more" } else { "" };
    let unlisted = format!("{}{more}", tally.unlisted);
    if tally.unlisted > 0 {
        text += &format!("kinds that are not listed (--lines-max): {unlisted}\n");
    }
    for (what, count) in [
        ("left out, of the administrator, whom no rule binds", tally.of_administrator),
        ("left out, the requester no longer exists", tally.requester_gone),
        ("left out, the entry is not in the tree now", tally.entry_gone),
        ("left out, the trail withholds a name or filter", *withheld),
        ("changes decided by their place, the entry is not there now", tally.by_place),
        ("searches of which not all entries were looked at (--entries-max)", tally.cut),
        ("decided as in the clear and without a bind method, which the trail does not have", *link_unknown),
    ] {
        if count > 0 {
            text += &format!("{what}: {count}\n");
        }
    }
    let (from, to) = tally.times.map(|(first, last)| (rfc3339(first), rfc3339(last))).unzip();
    let left_out = json!({
        "administrator": tally.of_administrator, "requester_gone": tally.requester_gone,
        "entry_gone": tally.entry_gone, "withheld": withheld,
    });
    let object = json!({
        "operations": decided, "from": from, "to": to, "changes": changed, "kinds": kinds,
        "not_listed": tally.unlisted, "left_out": left_out, "by_place": tally.by_place, "cut": tally.cut,
        "link_unknown": link_unknown,
    });
    Report::result(object, text).print();
}
