//! `pando verify --salvage`: writes the intact entries of a damaged directory as LDIF, and reports the lost changes.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use directory::DirectorySettings;
use directory::export::{ExportError, ExportRequest, ExportSummary, export};
use directory::salvage::{ChangePoint, SalvagedDirectory};
use directory::tree::TreeState;
use serde_json::json;
use server::{Config, ServeError};

use crate::exit;
use crate::output::{Background, Compression, Output};
use crate::print::Report;

/// Files that a salvage writes.
pub(crate) struct Targets<'a> {
    /// File for the entries.
    pub(crate) ldif: &'a Path,
    /// File for the directory's settings, if requested.
    pub(crate) settings: Option<&'a Path>,
}

pub(crate) fn run(config: &Config, targets: &Targets<'_>) -> Result<ExitCode, ServeError> {
    for target in [Some(targets.ldif), targets.settings].into_iter().flatten() {
        if let Err(reason) = check_target(target, &config.data) {
            return Ok(exit::refused(&reason));
        }
    }
    let salvaged = server::salvage(config)?;
    let saved = salvaged.state().and_then(|state| save(state, targets));
    for damage in salvaged.damage() {
        say("damage", format!("{} at byte {}: {}", damage.file.display(), damage.offset, damage.what));
    }
    if let Some(groups) = salvaged.applied() {
        let groups = groups_text(&groups);
        say("applied", format!("{groups} of the redo log are not in the data file yet and are applied"));
    }
    let lost = report_lost(&salvaged)?;
    match saved {
        Ok(summary) => {
            let when = salvaged.last_change()?.map_or_else(
                || "before the first change".to_owned(),
                |when| format!("after the change at {}", when_text(&when)),
            );
            let ExportSummary { entries, bytes, .. } = summary;
            let ldif = targets.ldif.display();
            say(
                "written",
                format!("{entries} entries, {bytes} bytes written to {ldif}, as they were {when}"),
            );
        }
        Err(reason) => return Ok(exit::failure(&format!("no entries are written: {reason}"))),
    }
    if salvaged.is_whole() {
        say("whole", "nothing is lost".to_owned());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit::failure(&lost))
}

/// Prints a line of the report. Only the JSON output contains `kind`.
fn say(kind: &str, text: String) {
    Report::result(json!({ "kind": kind, "text": text }), text).print();
}

/// Prints each lost change, as far as its record can be read. Returns a summary.
fn report_lost(salvaged: &SalvagedDirectory) -> Result<String, ServeError> {
    for groups in salvaged.missing() {
        say("lost", format!("lost: {} of the redo log cannot be read", groups_text(groups)));
    }
    if let Some(group) = salvaged.in_doubt() {
        let text = format!(
            "in doubt: group {group} of the redo log is not whole: it was being written when the process or the power \
             ended, so its changes were never acknowledged, or it is damaged"
        );
        say("in_doubt", text);
    }
    let (mut with_change, mut without_change, mut first) = (0_u64, 0_u64, None);
    salvaged.for_each_lost(&mut |lost| match &lost.change {
        Some((when, what)) => {
            with_change += 1;
            if first.is_none() {
                first = Some(*when);
                let text = format!("first change after the gap that can be read: {}", when_text(when));
                say("first_after", text);
            }
            say("not_applied", format!("not applied: {}: {what}", when_text(when)));
        }
        None => without_change += 1,
    })?;
    if without_change > 0 {
        say("not_applied", format!("not applied: {without_change} groups that change no entry"));
    }
    let unread = match (salvaged.last_change()?, first) {
        (Some(last), Some(first)) if first.position > last.position + 1 => {
            let (from, to) = (last.position + 1, first.position - 1);
            say("lost", format!("lost: the changes at positions {from} to {to} cannot be read"));
            format!("{} changes are lost, ", to - from + 1)
        }
        (Some(_), None) if !salvaged.missing().is_empty() => "changes are lost, ".to_owned(),
        _ => String::new(),
    };
    Ok(format!("not everything is there: {unread}{with_change} that follow are listed and not applied"))
}

fn groups_text(groups: &RangeInclusive<u64>) -> String {
    match (groups.start(), groups.end()) {
        (first, last) if first == last => format!("group {first}"),
        (first, last) => format!("groups {first} to {last}"),
    }
}

/// Formats a position and its time. The time is a GeneralizedTime (RFC 4517 section 3.3.13) with microseconds.
fn when_text(when: &ChangePoint) -> String {
    let time = when.csn.map(|csn| csn.to_string());
    let time = time.as_deref().and_then(|text| text.split('#').next()).unwrap_or("time unknown");
    format!("position {}, {time}", when.position)
}

/// Checks that an output file does not exist, and that it is outside of the directory. The directory must stay
/// unchanged.
fn check_target(target: &Path, data: &Path) -> Result<(), String> {
    let name = target.display();
    if target.as_os_str() == "-" || target.file_name().is_none() {
        return Err("--salvage wants a name for a new file".to_owned());
    }
    if target.symlink_metadata().is_ok() {
        return Err(format!("{name} exists already: --salvage wants a name for a new file"));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder: PathBuf = folder
        .unwrap_or(Path::new("."))
        .canonicalize()
        .map_err(|error| format!("cannot write {name}: {error}"))?;
    match data.canonicalize() {
        Ok(data) if folder.starts_with(&data) => {
            Err(format!("{name} is in the data directory, which is to stay as it is"))
        }
        _ => Ok(()),
    }
}

fn save(state: TreeState<'_>, targets: &Targets<'_>) -> Result<ExportSummary, String> {
    let request = ExportRequest { operational: true, ..ExportRequest::default() };
    let summary = write(targets.ldif, |output| export(state, &request, output));
    let summary = summary.map_err(|error| not_written(targets.ldif, &error))?;
    if let Some(path) = targets.settings {
        let text = server::config::settings_text::write(&DirectorySettings::of(state.catalog));
        let written = write(path, |output| output.write_all(text.as_bytes()).map_err(ExportError::from));
        written.map_err(|error| not_written(path, &error))?;
    }
    Ok(summary)
}

fn write<T>(
    path: &Path,
    make: impl FnOnce(&mut dyn Write) -> Result<T, ExportError>,
) -> Result<T, ExportError> {
    let output = Output::create(Some(path), Compression::of_name(path));
    let mut output = output.and_then(Background::start)?;
    let outcome = make(&mut output);
    output.finish(outcome)
}

fn not_written(path: &Path, error: &ExportError) -> String {
    match error {
        ExportError::Write(error) => format!("{}: {error}", path.display()),
        error => format!("the data file is damaged: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_times_are_described_in_words() {
        assert_eq!(groups_text(&(7..=7)), "group 7");
        assert_eq!(groups_text(&(7..=9)), "groups 7 to 9");
        let csn = directory::csn::Csn::parse("20231114221320.123456Z#00000a#001#000000");
        assert_eq!(when_text(&ChangePoint { position: 5, csn }), "position 5, 20231114221320.123456Z");
        assert_eq!(when_text(&ChangePoint { position: 5, csn: None }), "position 5, time unknown");
    }

    #[test]
    fn a_target_is_a_new_file_outside_the_data_directory() {
        let data = std::env::temp_dir().join(format!("pando-salvage-{}", std::process::id()));
        std::fs::create_dir(&data).unwrap_or_else(|error| panic!("{error}"));
        let refused = |target: &Path| check_target(target, &data).err().unwrap_or_default();
        assert!(refused(Path::new("-")).contains("wants a name"));
        assert!(refused(&data).contains("exists already"));
        assert!(refused(&data.join("out.ldif")).contains("is in the data directory"));
        assert!(refused(&data.join("none").join("out.ldif")).contains("cannot write"));
        assert_eq!(check_target(&data.with_extension("ldif"), &data), Ok(()));
        let _ = std::fs::remove_dir(&data);
    }
}
