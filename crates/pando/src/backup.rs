//! `pando backup` and `pando restore`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use directory::backup::Until;
use serde_json::json;
use server::{
    BackupChain, BackupOutcome, BackupPlace, BackupRecipient, BackupRules, Config, Restored, ServeError,
    TrialRestore, WrittenPart, time_text,
};

use crate::data_arguments::{DataArguments, IdentityArguments};
use crate::exit;
use crate::print::Report;
use crate::progress::Elapsed;
use crate::recover::{self, RecoverArguments, later_changes};
use crate::time::Time;

const DAY: u64 = 86_400;

/// The options of `pando backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    verb: BackupVerb,
}

#[derive(Debug, Subcommand)]
enum BackupVerb {
    /// Add the new changes of a directory, running or stopped, to a backup; first and at intervals, all entries
    Make {
        #[command(flatten)]
        data: DataArguments,
        /// The folder of the backup, created if it does not exist, or s3://BUCKET/PREFIX
        #[arg(value_name = "PLACE")]
        place: BackupPlace,
        /// Write all entries now
        #[arg(long)]
        full: bool,
        /// Write all entries again after this number of days
        #[arg(long, value_name = "DAYS", default_value_t = 7)]
        full_days: u64,
        /// Remove files that are needed only for moments older than this number of days [default: keep all]
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
        /// Encrypt to this public key of age; may be given several times [default: backup.recipients of the node file]
        #[arg(long, value_name = "AGE1...")]
        recipient: Vec<BackupRecipient>,
    },
    /// List the moments that a backup covers
    List {
        /// The folder of the backup, or s3://BUCKET/PREFIX
        #[arg(value_name = "PLACE")]
        place: BackupPlace,
        /// List the files too; --json always lists them
        #[arg(long, conflicts_with = "json")]
        files: bool,
    },
    /// Read every file of a backup, restore its newest moment to a temporary folder, and run `pando verify` on it
    Verify {
        /// The folder of the backup, or s3://BUCKET/PREFIX
        #[arg(value_name = "PLACE")]
        place: BackupPlace,
        #[command(flatten)]
        identity: IdentityArguments,
        /// Only read the files, and compare encrypted ones with their checksums, which needs no identity
        #[arg(long, conflicts_with_all = ["identity", "scratch"])]
        checksums: bool,
        /// New folder for the restored data, removed afterwards [default: in the backup's folder; for a bucket or with
        /// --identity, in TMPDIR or /var/tmp]
        #[arg(long, value_name = "DIR")]
        scratch: Option<PathBuf>,
    },
    /// Bring a subtree or an entry back into the running server, with entryUUIDs and memberships
    #[command(after_help = recover::HELP)]
    Recover(RecoverArguments),
}

/// The options of `pando restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    data: DataArguments,
    /// The folder of the backup, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: BackupPlace,
    #[command(flatten)]
    identity: IdentityArguments,
    /// Moment to restore: 2026-01-31T12:00:00Z, or 30m, 12h, 7d ago [default: the newest in the backup]
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// Restore the state after the change at this position of the log
    #[arg(long, value_name = "NUMBER", conflicts_with = "until")]
    position: Option<u64>,
}

pub(crate) fn run(arguments: &BackupArguments) -> ExitCode {
    let done = match &arguments.verb {
        BackupVerb::Make { data, place, full, full_days, keep_days, recipient } => {
            let days = |days: u64| Duration::from_secs(days.saturating_mul(DAY));
            let rules = BackupRules {
                is_full: *full,
                full_after: days(*full_days),
                keep: keep_days.map(days),
                recipients: recipient.clone(),
            };
            let (began, elapsed) = (Instant::now(), Elapsed::start("backing up"));
            let outcome = load(data).and_then(|config| server::make_backup(&config, place, &rules));
            drop(elapsed);
            outcome.map(|outcome| {
                summary(&outcome, began.elapsed()).print();
                ExitCode::SUCCESS
            })
        }
        BackupVerb::List { place, files } => server::list_backup(place).map(|chains| {
            if chains.is_empty() {
                return exit::failure(&format!("{place} has no backup"));
            }
            for chain in &chains {
                Report::result(chain_json(chain), chain_text(chain, *files)).print();
            }
            ExitCode::SUCCESS
        }),
        BackupVerb::Verify { place, checksums: true, .. } => check(place),
        BackupVerb::Verify { place, identity, scratch, .. } => verify(place, identity, scratch.as_deref()),
        BackupVerb::Recover(arguments) => return recover::run(arguments),
    };
    done.unwrap_or_else(|error| exit::failed(&error))
}

fn load(data: &DataArguments) -> Result<Config, ServeError> {
    Ok(Config::load(&data.to_server())?)
}

fn summary(outcome: &BackupOutcome, took: Duration) -> Report {
    let BackupOutcome { position, written, bytes, removed } = outcome;
    let size = size_text(*bytes);
    let seconds = took.as_secs_f64();
    let mut text = match written {
        WrittenPart::Nothing => format!("nothing is new: the backup has all up to position {position}"),
        WrittenPart::Rows(why) => {
            format!("all entries up to position {position}, {size}, read back, in {seconds:.1} s; {why}")
        }
        WrittenPart::Changes(count) => {
            format!("{count} changes up to position {position}, {size}, read back, in {seconds:.1} s")
        }
    };
    if *removed > 0 {
        text += &format!("; {removed} old files are removed");
    }
    let part = match written {
        WrittenPart::Nothing => "nothing",
        WrittenPart::Rows(_) => "entries",
        WrittenPart::Changes(_) => "changes",
    };
    let object = json!({ "position": position, "written": part, "bytes": bytes, "removed_files": removed });
    Report::done(object, text)
}

fn size_text(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn chain_text(chain: &BackupChain, with_files: bool) -> String {
    let time = |seconds: u64| time_text(seconds.saturating_mul(1_000_000));
    let mut text = format!(
        "{} to {}, positions {} to {}: {} files, {}, {}{}\n",
        time(chain.rows_seconds),
        time(chain.last_seconds),
        chain.rows_position,
        chain.last_position,
        chain.files.len(),
        size_text(chain.bytes),
        if chain.is_encrypted { "encrypted, " } else { "" },
        match chain.verified {
            None => "not verified".to_owned(),
            Some((seconds, position)) if position == chain.last_position =>
                format!("verified {}", time(seconds)),
            Some((seconds, position)) => format!("verified {} up to position {position}", time(seconds)),
        }
    );
    for file in chain.files.iter().filter(|_| with_files) {
        text += &format!("  {file}\n");
    }
    text
}

fn chain_json(chain: &BackupChain) -> serde_json::Value {
    let time = |seconds: u64| time_text(seconds.saturating_mul(1_000_000));
    let verified =
        chain.verified.map(|(seconds, position)| json!({ "time": time(seconds), "position": position }));
    json!({
        "from": time(chain.rows_seconds), "to": time(chain.last_seconds), "from_position": chain.rows_position,
        "to_position": chain.last_position, "files": chain.files, "bytes": chain.bytes, "encrypted": chain.is_encrypted,
        "verified": verified,
    })
}

fn check(place: &BackupPlace) -> Result<ExitCode, ServeError> {
    let elapsed = Elapsed::start("reading");
    let files = server::check_backup(place);
    drop(elapsed);
    let files = files?;
    Report::done(json!({ "files": files }), format!("{files} files are whole; nothing is restored")).print();
    Ok(ExitCode::SUCCESS)
}

fn verify(
    place: &BackupPlace,
    identity: &IdentityArguments,
    scratch: Option<&Path>,
) -> Result<ExitCode, ServeError> {
    let identities = identity.read()?;
    let scratch = scratch
        .map_or_else(|| server::scratch_folder(place, &identities, "verify"), |path| Ok(path.to_owned()))?;
    let elapsed = Elapsed::start("restoring and verifying");
    let tried = server::try_backup(place, &identities, &scratch, &mut |finding| {
        Report::result(json!({ "finding": finding.text }), finding.text.as_str()).print();
    });
    drop(elapsed);
    let TrialRestore { files, restored, checked } = tried?;
    if checked.findings > 0 {
        return Ok(exit::failure(&format!("{} findings in what was restored", checked.findings)));
    }
    let (position, time, entries, rows) =
        (restored.position, time_text(restored.micros), checked.entries, checked.rows);
    let text = format!(
        "{files} files are whole; restored to position {position}, of {time}: nothing found in {entries} entries and \
         {rows} rows"
    );
    let object =
        json!({ "files": files, "position": position, "time": time, "entries": entries, "rows": rows });
    Report::done(object, text).print();
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn restore(arguments: &RestoreArguments) -> ExitCode {
    let until = Until {
        position: arguments.position.unwrap_or(Until::END.position),
        micros: arguments.until.map_or(Until::END.micros, |Time(micros)| micros),
    };
    let elapsed = Elapsed::start("restoring");
    let restored = load(&arguments.data).and_then(|config| {
        let identities = arguments.identity.read()?;
        Ok((server::restore_backup(&config, &arguments.place, &identities, until)?, config.data))
    });
    drop(elapsed);
    match restored {
        Ok((restored, data)) => {
            let rest = later_changes(&restored, arguments.until.is_some());
            let Restored { position, micros, has_later } = restored;
            let time = time_text(micros);
            let text = format!(
                "{} has the directory as it was after the change at position {position}, of {time}{rest}",
                data.display()
            );
            let object = json!({
                "data": data.to_string_lossy(), "position": position, "time": time,
                "has_later_changes": has_later,
            });
            Report::done(object, text).print();
            ExitCode::SUCCESS
        }
        Err(error) => exit::failed(&error),
    }
}

pub(crate) const HELP: &str = "\
A backup is a folder of files with all entries and the changes that followed, so that the directory can be restored as
of any moment in between. Each run adds the new changes, usually some kilobytes; run it as often as you can afford to
lose changes. A backup contains settings, schema, passwords and access rules, so it is as secret as the data. It does
not contain the files of the node (node file, certificates, keys).

Each file is synced and read back before it gets its name. `verify` also restores the backup.

With `--recipient` each file is encrypted in the format of age. The commands that restore then need `--identity`, the
file that `age-keygen` wrote; `make`, `list` and `verify --checksums` do not. Other recipients hold from the next run
on, which writes all entries.

Examples:
  pando backup make --data /var/lib/pando --keep-days 35 /var/backups/pando
  pando backup list /var/backups/pando
  pando backup verify /var/backups/pando

A place s3://BUCKET/PREFIX is in S3-compatible storage. The environment has its keys, as for Amazon's tools:
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE; and AWS_REGION and AWS_ENDPOINT_URL.

Exit codes:
  0  done
  1  failed, or verify found a defect; the backup is unchanged
  2  the command line is wrong, another process writes to the folder, there is no backup, or it is encrypted and no
     identity or recipient is named, or another
  4  the data does not exist or cannot be read, or a file of the backup is damaged";

pub(crate) const RESTORE_HELP: &str = "\
The data directory must not exist: nothing is ever overwritten. It appears when it is complete. Serve it, or export the
lost entries from it:

  pando restore --data /var/lib/pando-then --until 2026-01-31T12:00:00Z /var/backups/pando
  pando export --data /var/lib/pando-then --base ou=Sales,dc=example,dc=com -o then.ldif
  pando export --data /var/lib/pando --base ou=Sales,dc=example,dc=com --if-exists -o now.ldif
  pando ldif diff now.ldif then.ldif > back.ldif

and review back.ldif before you apply it with `ldapmodify -f back.ldif`.

Exit codes:
  0  done
  1  failed; no data directory was created
  2  the command line is wrong, the data directory exists, the backup does not cover the moment, or it is encrypted and
     the identity is missing or another
  4  a file of the backup is damaged or missing";
