//! Properties that every sequence of octets must have. The fuzz target calls these functions, and `corpus_replay.rs`
//! calls them with the stable compiler.

#![allow(dead_code)]

use directory::settings::{self, Difference};
use server::config::settings_text as text;
use server::proxy_header::{ProxyHeader, ProxyHeaderError, SIZE_MAX};

/// Checks a text as a settings file. Parsing succeeds, or reports errors on lines that exist. If parsed settings are
/// written as a text, that text has the same settings. The canonical form of valid settings does not change if it is
/// formed again.
pub(crate) fn settings_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = 1..=text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let mut files = |path: &str| {
        let stem = std::path::Path::new(path).file_stem().and_then(std::ffi::OsStr::to_str);
        Ok(vec![(stem.unwrap_or_default().to_owned(), format!("# {path}").replace(['\n', '\r'], " "))])
    };
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
                let place: settings::SettingPath =
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

/// Checks octets as the beginning of a connection from a proxy. A complete header is decoded to the same value,
/// whichever octets follow it. An incomplete header is never accepted. The decoder never waits for more octets than a
/// header can have.
pub(crate) fn proxy_header(bytes: &[u8]) {
    match ProxyHeader::decode(bytes) {
        Ok(Some((header, size))) => {
            assert!(size <= bytes.len() && size <= SIZE_MAX && ProxyHeader::is_at_start_of(bytes));
            assert_eq!(ProxyHeader::decode(&bytes[..size]), Ok(Some((header, size))));
            assert!((0..size).all(|end| ProxyHeader::decode(&bytes[..end]) == Ok(None)));
        }
        Ok(None) => assert!(bytes.len() < SIZE_MAX),
        Err(error) => {
            assert!(error != ProxyHeaderError::Absent || !ProxyHeader::is_at_start_of(bytes));
            // Octets that follow the header do not change the result.
            assert_eq!(ProxyHeader::decode(&[bytes, b"\r\n\r\n0"].concat()), Err(error));
        }
    }
}
