//! Names and places to choose from: files beside the template, and our own where there is no such file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::error::{TemplateError, TemplateFault, TemplateLine};
use crate::sample::{GIVEN_NAMES, SURNAMES};

/// Given names for `<first>`: those of the sample organisation that are plain ASCII, so that a DN stays readable.
pub(super) static FIRST_NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| plain(GIVEN_NAMES));

/// Surnames for `<last>`.
pub(super) static LAST_NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| plain(SURNAMES));

fn plain(names: &[&'static str]) -> Vec<&'static str> {
    let mut names: Vec<_> = names.iter().copied().filter(|name| name.is_ascii()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

const CITIES: &[&str] = &[
    "Aarhus",
    "Antwerp",
    "Athens",
    "Basel",
    "Belfast",
    "Bergen",
    "Berlin",
    "Bologna",
    "Boston",
    "Bratislava",
    "Cadiz",
    "Cardiff",
    "Chicago",
    "Cork",
    "Dallas",
    "Denver",
    "Dresden",
    "Dublin",
    "Espoo",
    "Faro",
    "Gdansk",
    "Geneva",
    "Gent",
    "Graz",
    "Haarlem",
    "Hamburg",
    "Helsinki",
    "Kyoto",
    "Leeds",
    "Leipzig",
    "Lima",
    "Linz",
    "Lisbon",
    "Ljubljana",
    "Lyon",
    "Madrid",
    "Malmo",
    "Manchester",
    "Milan",
    "Montreal",
    "Nantes",
    "Oslo",
    "Padua",
    "Porto",
    "Prague",
    "Riga",
    "Rome",
    "Salford",
    "Seville",
    "Tallinn",
    "Tampere",
    "Turin",
    "Utrecht",
    "Vienna",
    "Vilnius",
    "Warsaw",
    "York",
    "Zagreb",
    "Zurich",
];

const STREETS: &[&str] = &[
    "Abbey", "Bridge", "Canal", "Castle", "Cedar", "Chapel", "Chestnut", "Church", "Dover", "East", "Elm",
    "Factory", "Field", "Forest", "Garden", "Green", "Harbour", "Hazel", "High", "Hill", "Lake", "Linden",
    "Main", "Maple", "Market", "Meadow", "Mill", "New", "North", "Oak", "Orchard", "Park", "Pine", "Queen",
    "Railway", "River", "School", "South", "Spring", "Station", "Tower", "Valley", "Walnut", "Water", "West",
    "Willow", "Wood",
];

const STATES: &[&str] = &[
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS", "KY",
    "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY", "NC", "ND",
    "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY",
];

/// The lines of a file for `<file:NAME>`: beside the template if it is there, else of the lists that OpenDJ's templates
/// expect to find.
pub(super) fn lines(
    name: &str,
    folder: Option<&Path>,
    place: &TemplateLine,
) -> Result<Arc<[String]>, TemplateError> {
    let name = name.trim();
    let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    let own: &[&str] = match name {
        "first.names" => &FIRST_NAMES,
        "last.names" => &LAST_NAMES,
        "cities" => CITIES,
        "streets" => STREETS,
        "states" => STATES,
        _ => &[],
    };
    let lines: Arc<[String]> = match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        Err(_) if !own.is_empty() => own.iter().map(|line| (*line).to_owned()).collect(),
        Err(error) => return Err(place.fault(TemplateFault::Read { path, error })),
    };
    if lines.is_empty() {
        return Err(place.fault(TemplateFault::EmptyFile(path)));
    }
    Ok(lines)
}
