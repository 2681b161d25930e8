//! Lists of passwords that attackers try first: words, and passwords from breaches.
//!
//! No data leaves the machine. Words are held in memory and compared without regard to case. Breached passwords are in
//! a file of SHA-1 digests in ascending order, in the format of haveibeenpwned.com ("ordered by hash"): each line has
//! 40 hexadecimal digits, a colon and a count. The file may have tens of gigabytes. A binary search on the disk finds a
//! digest with about forty reads.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXUPPER;
use directory::password;
use sha1::{Digest, Sha1};

use crate::limits::{BAD_WORDS_SIZE_MAX, BREACHED_LINE_MAX};

/// The lists of a node.
#[derive(Default)]
pub(crate) struct BadPasswords {
    words: HashSet<Box<str>>,
    breached: Option<File>,
}

/// Error of a list that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the list of bad passwords {}: {error}", file.display())]
pub struct BadPasswordsError {
    /// File of the list.
    pub file: PathBuf,
    /// Cause of the error.
    pub error: io::Error,
}

impl BadPasswords {
    /// Reads the words, and checks that the file of breached passwords can be searched.
    ///
    /// # Errors
    /// A file cannot be read, or has the wrong format.
    pub(crate) fn open(
        words: Option<&Path>,
        breached: Option<&Path>,
    ) -> Result<BadPasswords, BadPasswordsError> {
        let mut lists = BadPasswords::default();
        if let Some(file) = words {
            let failed = |error| BadPasswordsError { file: file.to_owned(), error };
            let size = std::fs::metadata(file).map_err(failed)?.len();
            if size > BAD_WORDS_SIZE_MAX {
                let text =
                    format!("{size} octets are more than the {BAD_WORDS_SIZE_MAX} that are kept in memory");
                return Err(failed(io::Error::other(text)));
            }
            let text = std::fs::read(file).map_err(failed)?;
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().map(str::trim).filter(|word| !word.is_empty());
            lists.words = lines.map(|word| word.to_lowercase().into()).collect();
        }
        if let Some(file) = breached {
            let failed = |error| BadPasswordsError { file: file.to_owned(), error };
            lists.breached = Some(File::open(file).map_err(failed)?);
            lists.is_breached(b"password").map_err(failed)?;
        }
        Ok(lists)
    }

    /// Returns true if a list contains the password `sent`, in the form that the client sent. If a list can no longer
    /// be read, it counts as empty and the error is logged.
    pub(crate) fn have(&self, sent: &[u8]) -> bool {
        let clear = password::clear_of(sent);
        let word = String::from_utf8_lossy(clear).to_lowercase();
        self.words.contains(word.as_str())
            || self.is_breached(clear).unwrap_or_else(|error| {
                tracing::error!(%error, "the list of breached passwords cannot be searched");
                false
            })
    }

    fn is_breached(&self, clear: &[u8]) -> io::Result<bool> {
        let Some(file) = &self.breached else { return Ok(false) };
        let wanted = HEXUPPER.encode(&Sha1::digest(clear));
        let (mut low, mut high) = (0, file.metadata()?.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let Some((start, digest)) = line_from(file, middle)?.filter(|(start, _)| *start < high) else {
                high = middle;
                continue;
            };
            match digest.as_str().cmp(&wanted) {
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Less => low = start + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(false)
    }
}

/// Returns the offset and the digest of the first line that begins at or after `offset`; `None` if no line does.
fn line_from(file: &File, offset: u64) -> io::Result<Option<(u64, String)>> {
    let malformed =
        || io::Error::new(io::ErrorKind::InvalidData, "a line is not 40 hexadecimal digits and a count");
    // The search for a newline starts one octet earlier, because a line begins at `offset` if a newline precedes it.
    let from = offset.saturating_sub(1);
    let mut bytes = [0; 2 * BREACHED_LINE_MAX];
    let mut count = 0;
    while let Some(room) = bytes.get_mut(count..).filter(|room| !room.is_empty()) {
        match file.read_at(room, from + count as u64)? {
            0 => break,
            read => count += read,
        }
    }
    let bytes = bytes.get(..count).unwrap_or_default();
    let skipped = if offset == 0 {
        0
    } else {
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if count < 2 * BREACHED_LINE_MAX => return Ok(None),
            None => return Err(malformed()),
        }
    };
    let line = bytes.get(skipped..).unwrap_or_default();
    if line.is_empty() {
        return Ok(None);
    }
    let digest = line.get(..40).and_then(|digest| std::str::from_utf8(digest).ok()).ok_or_else(malformed)?;
    let is_end = |byte: &u8| matches!(byte, b':' | b'\r' | b'\n');
    if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) || !line.get(40).is_none_or(is_end) {
        return Err(malformed());
    }
    Ok(Some((from + skipped as u64, digest.to_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("pando-lists-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            std::fs::write(self.0.join(name), text).unwrap();
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn digest(password: &str) -> String {
        HEXUPPER.encode(&Sha1::digest(password.as_bytes()))
    }

    #[test]
    fn every_breached_password_is_found_and_no_other() {
        let folder = Folder::new("breached");
        for (count, end) in [(0, "\n"), (1, "\n"), (2, "\r\n"), (1_000, "\n"), (1_000, "\r\n")] {
            let mut lines: Vec<String> = (0..count)
                .map(|number| format!("{}:{}", digest(&format!("bad{number}")), number * 37))
                .collect();
            lines.sort_unstable();
            let file = folder
                .write("breached.txt", &lines.iter().map(|line| line.clone() + end).collect::<String>());
            let lists = BadPasswords::open(None, Some(&file)).unwrap();
            for number in 0..count {
                assert!(lists.have(format!("bad{number}").as_bytes()), "{number} of {count}");
                assert!(!lists.have(format!("good{number}").as_bytes()), "{number} of {count}");
            }
            assert!(!lists.have(b"other"));
        }
        // The last line has no newline.
        let file = folder.write("one.txt", &format!("{}:3", digest("bad")));
        assert!(BadPasswords::open(None, Some(&file)).unwrap().have(b"{CLEARTEXT}bad"));
    }

    #[test]
    fn words_match_in_any_letter_case() {
        let folder = Folder::new("words");
        let file = folder.write("words.txt", "Password\n\n  Über \r\n");
        let lists = BadPasswords::open(Some(&file), None).unwrap();
        assert!(lists.have(b"pAssword") && lists.have("ÜBER".as_bytes()));
        assert!(!lists.have(b"") && !lists.have(b"passwords"));
    }

    #[test]
    fn files_that_are_no_lists_of_hashes_are_refused() {
        let folder = Folder::new("refused");
        let refused = |file: &Path| BadPasswords::open(None, Some(file)).err().unwrap().to_string();
        assert!(refused(&folder.0.join("none")).contains("none"));
        for text in ["hello\n", &"x".repeat(1_000), &"A".repeat(50)] {
            let file = folder.write("other.txt", text);
            assert!(refused(&file).contains("40 hexadecimal digits"), "{text}");
        }
        assert!(BadPasswords::open(Some(&folder.0.join("none")), None).is_err());
    }
}
