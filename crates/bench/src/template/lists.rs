//! Lists of names and places from which values are chosen: files in the template's folder, or lists of this crate.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::error::{TemplateError, TemplateFault, TemplateLine};
use crate::sample::COMPANY;

/// Given names for `<first>`: the given names of the sample organization that are plain ASCII, so that DNs stay
/// readable.
pub(super) static FIRST_NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| plain(&COMPANY.given_names));

/// Surnames for `<last>`.
pub(super) static LAST_NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| plain(&COMPANY.surnames));

fn plain(names: &'static [String]) -> Vec<&'static str> {
    let mut names: Vec<_> = names.iter().map(String::as_str).filter(|name| name.is_ascii()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the lines of a file for `<file:NAME>`. If the file cannot be read and has the name of one of the lists
/// that OpenDJ's templates expect, returns this list.
pub(super) fn lines(
    name: &str,
    folder: Option<&Path>,
    place: &TemplateLine,
) -> Result<Arc<[String]>, TemplateError> {
    let name = name.trim();
    let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    let own: Vec<&str> = match name {
        "first.names" => FIRST_NAMES.clone(),
        "last.names" => LAST_NAMES.clone(),
        "cities" => include_str!("../../templates/cities").lines().collect(),
        "streets" => include_str!("../../templates/streets").lines().collect(),
        "states" => include_str!("../../templates/states").lines().collect(),
        _ => Vec::new(),
    };
    let lines: Arc<[String]> = match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        Err(_) if !own.is_empty() => own.into_iter().map(str::to_owned).collect(),
        Err(error) => return Err(place.fault(TemplateFault::Read { path, error })),
    };
    if lines.is_empty() {
        return Err(place.fault(TemplateFault::EmptyFile(path)));
    }
    Ok(lines)
}
