//! What must hold for any bytes. The fuzz target calls this, and so does `corpus_replay.rs` on stable.

#![allow(dead_code)]

use directory::settings::{self, Difference};
use server::config::settings_text as text;

/// Any text as a settings file: it is read, or refused with lines that exist; what is read is written so that it reads
/// back; what can be is in canonical form, which is the same once more.
pub(crate) fn settings_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = 1..=text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let mut files = |_: &str, path: &str| Ok(format!("# {path}").replace(['\n', '\r'], " "));
    let read = match text::parse(text, &mut files) {
        Ok(read) => read,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| lines.contains(&problem.line)));
            return;
        }
    };
    let written = text::write(&read.settings);
    let again =
        text::parse(&written, &mut files).unwrap_or_else(|problems| panic!("{problems:?} in\n{written}"));
    assert_eq!(again.settings, read.settings, "{written}");
    match settings::check(&read.settings) {
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let place: settings::Place =
                    problem.place.to_string().parse().unwrap_or_else(|error| match error {});
                assert_eq!(place, problem.place);
                assert!(read.line(&problem.place) >= 1, "{problem}");
            }
        }
        Ok(checked) => {
            let twice = settings::check(&checked.settings).expect("canonical settings can be");
            assert_eq!(twice.settings, checked.settings);
            assert!(Difference::between(&checked.settings, &twice.settings).is_empty());
        }
    }
}
