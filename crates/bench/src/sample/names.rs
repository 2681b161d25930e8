//! Names and offices of the people at Sample Works, read once from `sample/company.toml`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Content of `sample/company.toml`.
#[derive(Deserialize)]
pub(crate) struct Company {
    pub(crate) given_names: Vec<String>,
    pub(crate) surnames: Vec<String>,
    pub(super) contractors: Vec<(String, String, String)>,
    pub(super) hosts: Vec<(String, usize)>,
    pub(super) services: Vec<(String, String)>,
    pub(super) notable: Vec<NotableName>,
    pub(super) departments: Vec<Department>,
    pub(super) offices: Vec<Office>,
    ascii: HashMap<char, String>,
}

pub(crate) static COMPANY: LazyLock<Company> = LazyLock::new(|| {
    let file = include_str!("../../sample/company.toml");
    toml::from_str(file).expect("a shipped file, which a test reads")
});

/// A name that is written in another script, or with letters of another alphabet.
#[derive(Deserialize)]
pub(super) struct NotableName {
    /// ASCII user name.
    pub(super) uid: String,
    /// Given name and surname in Latin letters.
    pub(super) latin: (String, String),
    /// Language tag of `native`.
    pub(super) language: String,
    /// Given name and surname in the language's own script. `native_full` has them in the order of that language.
    pub(super) native: (String, String),
    /// The full name as it is written in the language.
    pub(super) native_full: String,
}

/// A place of work.
#[derive(Deserialize)]
pub(super) struct Office {
    pub(super) locality: String,
    pub(super) state: String,
    pub(super) street: String,
    pub(super) postal_code: String,
    pub(super) country: String,
    /// Country and area code of telephone numbers.
    pub(super) telephone_prefix: String,
    /// Language tag for preferredLanguage (RFC 2798 section 2.7).
    pub(super) language: String,
}

/// A department: its name, the number and the titles of its people, and its teams.
#[derive(Deserialize)]
pub(super) struct Department {
    pub(super) name: String,
    /// ASCII name of the department's groups.
    pub(super) key: String,
    pub(super) people: usize,
    pub(super) titles: Vec<String>,
    pub(super) teams: Vec<String>,
}

/// Returns the nearest ASCII spelling of Latin letters, for user names, mail and gecos (all IA5 strings). Text in other
/// scripts is never passed to this function, because names in other scripts also have a Latin spelling.
pub(super) fn fold_to_ascii(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for letter in text.chars() {
        match COMPANY.ascii.get(&letter) {
            Some(spelling) => folded.push_str(spelling),
            None => folded.push(if letter.is_ascii() { letter } else { '?' }),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_people_with_ascii_user_names() {
        let Company { departments, notable, given_names, surnames, .. } = &*COMPANY;
        assert_eq!(departments.iter().map(|department| department.people).sum::<usize>(), 1000);
        let latin = notable.iter().flat_map(|person| [&person.latin.0, &person.latin.1]);
        for name in latin.chain(given_names).chain(surnames) {
            assert!(!fold_to_ascii(name).contains('?'), "{name}");
        }
        assert!(notable.iter().all(|person| person.uid.is_ascii()));
    }
}
