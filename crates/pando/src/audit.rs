//! `pando audit`: prints and verifies the audit trail.

mod chosen;
mod rows;
mod source;
mod syslog;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use access_rules::{EventPlace, Review, ReviewError};
use audit::{Anchored, AuditError, Events, PublicKey, Report};
use clap::{Args, Subcommand};
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::ServerArguments;
use crate::print;
pub(crate) use chosen::ChoiceArguments;
pub(crate) use rows::rfc3339;
use rows::{Form, Printer};
use serde_json::json;
use source::{Source, SourceError, TrailItem};
use syslog::SyslogTarget;

/// The options of `pando audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    verb: Option<AuditVerb>,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    choice: ChoiceArguments,
    /// Print CSV with a header line
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Send each event to a syslog server (RFC 5424), as a message in JSON: tcp://HOST:PORT, udp://HOST:PORT or
    /// unix:///PATH
    #[arg(long, value_name = "URL", conflicts_with_all = ["json", "csv"])]
    syslog: Option<SyslogTarget>,
    /// Keep printing new events until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Show the access rules that decide each operation: the rules in force at its time, applied to the present
    /// entries; needs the data directory too
    #[arg(long, conflicts_with_all = ["follow", "url", "online"])]
    explain: bool,
}

#[derive(Debug, Subcommand)]
enum AuditVerb {
    /// Verify every byte of the trail against its hashes, links and signatures
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArguments),
}

#[derive(Debug, Args)]
struct PlaceArguments {
    /// The folder of the trail [default: that of the node file]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Args)]
struct VerifyArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// Public key that must have signed the trail: 64 hexadecimal digits, or a file that contains them
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// An anchor noted earlier, as a verification prints it; may be given several times
    #[arg(long, value_name = "NUMBER:HASH")]
    noted: Vec<Anchored>,
}

pub(crate) fn run(arguments: &AuditArguments) -> ExitCode {
    match &arguments.verb {
        Some(AuditVerb::Verify(arguments)) => match folder(&arguments.place) {
            Ok(folder) => verify(&folder, arguments),
            Err(code) => code,
        },
        None => print(arguments).unwrap_or_else(|code| code),
    }
}

/// Returns the directory of the audit trail.
fn folder(place: &PlaceArguments) -> Result<PathBuf, ExitCode> {
    if let Some(folder) = &place.folder {
        return Ok(folder.clone());
    }
    let config = Config::load(&place.data.to_server()).map_err(|error| exit::failed(&error.into()))?;
    config.audit.folder.ok_or_else(|| {
        exit::refused("no audit trail is set: give --folder DIR, or --node FILE with `folder` in its [audit]")
    })
}

fn failed(error: &AuditError) -> ExitCode {
    exit::damaged(&error.to_string())
}

fn print(arguments: &AuditArguments) -> Result<ExitCode, ExitCode> {
    let server = arguments.server.server(arguments.place.data.directory().as_deref());
    let mut source = match server {
        Some(url) => {
            let connected =
                arguments.server.connect(&url).map_err(|error| exit::failure(&error.to_string()))?;
            Source::server(connected, arguments.choice.since_micros())
        }
        None => Source::folder(&folder(&arguments.place)?).map_err(|error| failed(&error))?,
    };
    let (form, out, target): (_, Box<dyn Write>, _) = match &arguments.syslog {
        Some(target) => match target.connect() {
            Ok(writer) => (Form::Syslog, Box::new(writer), "to the syslog server"),
            Err(error) => return Err(exit::failure(&format!("cannot reach the syslog server: {error}"))),
        },
        None => {
            let form = match (print::form().is_json, arguments.csv) {
                (true, _) => Form::Json,
                (_, true) => Form::Csv,
                _ => Form::Text,
            };
            (form, Box::new(BufWriter::new(io::stdout().lock())), "standard output")
        }
    };
    let mut out = Printer::new(out, form);
    if arguments.explain {
        return Ok(explain(&folder(&arguments.place)?, arguments, &mut out, target));
    }
    let mut damages = 0;
    loop {
        let written = match source.next(arguments.follow) {
            Err(SourceError::Trail(error)) => return Err(failed(&error)),
            Err(error) => return Err(exit::failure(&error.to_string())),
            Ok(None) if arguments.follow => out.flush().map(|()| std::thread::sleep(source.interval())),
            Ok(None) => break,
            Ok(Some(TrailItem::Damage(text))) => {
                damages += 1;
                eprintln!("pando: {text}");
                Ok(())
            }
            Ok(Some(TrailItem::Torn(place))) => {
                eprintln!("pando: {place}: a crash cut the last write here");
                Ok(())
            }
            Ok(Some(TrailItem::Block { number, written_micros, events })) => {
                let mut events = Events::of(&events).filter_map(Result::ok);
                let written = EventPlace { block: number, micros: written_micros };
                events.try_for_each(|event| match arguments.choice.has(event) {
                    true => out.event(event, written, Vec::new()),
                    false => Ok(()),
                })
            }
        };
        if let Err(error) = written {
            return Err(exit::not_written(target, &error));
        }
    }
    Ok(end(&mut out, damages, target))
}

fn end(out: &mut Printer<Box<dyn Write>>, damages: u64, target: &str) -> ExitCode {
    match out.flush() {
        Err(error) => exit::not_written(target, &error),
        Ok(()) if damages > 0 => {
            exit::failure("the trail is damaged: `pando audit verify` reports all damage")
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Prints events, each with the access rules that decide its operation.
fn explain(
    folder: &Path,
    arguments: &AuditArguments,
    out: &mut Printer<Box<dyn Write>>,
    target: &str,
) -> ExitCode {
    let opened =
        Config::load(&arguments.place.data.to_server()).map_err(ServeError::from).and_then(|config| {
            Ok(Review::new(server::open_read_only(&config)?, &server::node_settings(&config)))
        });
    let review = match opened {
        Ok(review) => review,
        Err(error) => return exit::failed(&error),
    };
    let mut damages = 0;
    let explained = review.explain_recorded(
        folder,
        &|event| arguments.choice.has(event),
        &mut |event, written, explained| out.event(event, written, explained),
        &mut |damage| {
            damages += 1;
            eprintln!("pando: {damage}");
        },
    );
    match explained {
        Ok(()) => end(out, damages, target),
        Err(ReviewError::Trail(error)) => failed(&error),
        Err(ReviewError::Written(error)) => exit::not_written(target, &error),
        Err(error) => exit::failure(&error.to_string()),
    }
}

fn verify(folder: &Path, arguments: &VerifyArguments) -> ExitCode {
    let key = match &arguments.key {
        None => None,
        Some(given) => {
            let text = std::fs::read_to_string(given).unwrap_or_else(|_| given.clone());
            match PublicKey::parse(&text) {
                Some(key) => Some(key),
                None => return exit::refused("--key takes 64 hexadecimal digits, or a file with them"),
            }
        }
    };
    let report = match audit::verify(folder, key, &arguments.noted) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    for (place, damage) in &report.damage {
        let object = json!({ "place": place.to_string(), "damage": damage.to_string() });
        crate::print::Report::result(object, format!("{place}: {damage}")).print();
    }
    for place in &report.torn {
        let text = format!("{place}: a crash cut the last write here, which is no damage");
        crate::print::Report::result(json!({ "place": place.to_string(), "torn": true }), text).print();
    }
    say(&report);
    match report.damage.len() {
        0 => ExitCode::SUCCESS,
        count => exit::failure(&format!("the trail is damaged in {count} places")),
    }
}

fn say(report: &Report) {
    let (first, last) = report.segments.unwrap_or_default();
    let mut text = format!(
        "segments {first} to {last}: {} events in {} blocks, {} anchors; changes up to position {}\n",
        report.events, report.blocks, report.anchors, report.position
    );
    if report.lost > 0 {
        text += &format!("{} events were lost, as the trail says itself\n", report.lost);
    }
    let anchored = report.anchored.map(|anchored| anchored.to_string());
    if let Some(anchored) = &anchored {
        text += &format!("the last anchor, to be noted elsewhere: {anchored}\n");
    }
    if report.unanchored > 0 {
        text += &format!("{} blocks after it are chained, not signed yet\n", report.unanchored);
    }
    let key = report.public_key.map(|key| key.to_string());
    if let Some(key) = &key {
        text += &format!("signed by the key {key}\n");
    }
    let object = json!({
        "damages": report.damage.len(), "first_segment": first, "last_segment": last, "events": report.events,
        "blocks": report.blocks, "anchors": report.anchors, "position": report.position, "lost": report.lost,
        "last_anchor": anchored, "unanchored": report.unanchored, "key": key,
    });
    crate::print::Report::result(object, text).print();
}

pub(crate) const HELP: &str = "\
Prints the events of the trail, oldest first, whether or not a server is writing it. An event must satisfy all options;
of an option that is given several times, one value suffices. With --online or --url, the command asks the server, which
answers the administrator and requesters that may use read-audit.

Examples:
  pando audit --folder /var/lib/pando-audit --since 1h --operation bind --result failed
  pando audit --node /etc/pando/node.toml --target ou=payroll,dc=example,dc=com --operation modify --json
  pando audit --node /etc/pando/node.toml --follow --json | vector --config ship.toml
  pando audit --node /etc/pando/node.toml --follow --syslog tcp://log.example.com:514
  pando audit --node /etc/pando/node.toml --operation modify --explain
  pando audit --url ldaps://ldap.example.com --bind-dn uid=auditor,dc=example,dc=com --password-file secret --since 7d
  pando audit verify --folder /var/lib/pando-audit --key key.pub --noted 812:9f...

Exit codes:
  0  printed
  1  the trail is damaged (what can be read is printed), or output could not be written
  2  the command line or the node file is wrong
  4  there is no trail, or it cannot be read";

const VERIFY_HELP: &str = "\
Reports each place where bytes were changed, removed, moved or cut off: segment, block, offset, length. A write that a
crash cut short is reported, but is no damage. An attacker with the node's key can forge the whole trail, and one who
can write to the folder can remove its end together with the file `head`. Therefore keep the public key (`key.pub`) and,
regularly, the last anchor in another place, and give them here.

Exit codes:
  0  the trail is intact
  1  the trail is damaged
  2  the command line or the node file is wrong
  4  there is no trail, or it cannot be read";
