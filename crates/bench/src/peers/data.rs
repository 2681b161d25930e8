//! The data of a comparison: generated once, as a file that every server's own loader reads, and synced to the disk
//! before the first load.
//!
//! Clear-text passwords of a template are hashed when the file is written, so that no loader spends time on hashing and
//! every server verifies the same hashes. A few evenly distributed entries are stored as samples for searches.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Attribute, Entry};
use ldap::ldif::{LdifBody, LdifReader};
use sha_crypt::{PasswordHasher as _, ShaCrypt};

use super::{Passwords, PeerError, ssha};
use crate::Seeded;
use crate::template::{Parameters, Template, TemplateError, shipped};

/// Number of slow hashes computed for a password.
const SLOW_SALTS: usize = 16;
/// Maximum number of entries stored as samples.
const SAMPLES_MAX: u64 = 64;
/// Maximum size of a sample in bytes. Larger entries, such as a group of millions, are not stored.
const SAMPLE_BYTES_MAX: usize = 1 << 20;

/// An LDIF file.
#[derive(Clone, Debug)]
pub struct Data {
    /// The file.
    pub path: PathBuf,
    /// The template from which the file was generated.
    pub template: String,
    /// The seed with which the file was generated.
    pub seed: u64,
    /// Number of entries.
    pub entries: u64,
    /// Size of the file.
    pub bytes: u64,
    /// The suffix: the DN of the first entry.
    pub suffix: String,
    /// Schema definitions that the data needs in addition to the standard schema, in OpenLDAP's form.
    pub schema: Option<String>,
    /// Samples: entries that are evenly distributed over the file.
    pub samples: Vec<Entry>,
    /// A user of the data, with the password in clear text.
    pub user: Option<(String, String)>,
}

/// Reason why data cannot be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The template is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The file cannot be written.
    #[error("write {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The template generates no entry.
    #[error("the template {0} makes no entry")]
    Empty(String),
}

impl Data {
    /// Generates the data of a template, with hashed passwords, into the file `path`. `template` is the name of a
    /// built-in template, or a file.
    ///
    /// # Errors
    /// The template is invalid or the file cannot be written.
    pub fn generate(
        template: &str,
        parameters: &Parameters,
        seed: u64,
        path: &Path,
    ) -> Result<Data, DataError> {
        Data::generate_with(template, parameters, seed, path, Passwords::Salted)
    }

    /// Generates data with passwords in the given form.
    ///
    /// # Errors
    /// The same as for [`Data::generate`].
    pub fn generate_with(
        template: &str,
        parameters: &Parameters,
        seed: u64,
        path: &Path,
        passwords: Passwords,
    ) -> Result<Data, DataError> {
        let io = |error| DataError::Io { path: path.to_owned(), error };
        let parsed = Template::read(template, parameters)?;
        let count = parsed.entry_count();
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let file = File::create(path).map_err(io)?;
        let out = BufWriter::with_capacity(1 << 20, &file);
        let mut filter = Filter::new(out, seed, count.div_ceil(SAMPLES_MAX).max(1), passwords);
        parsed.generate(seed, threads, &mut filter).map_err(io)?;
        let filtered = filter.finish().map_err(io)?;
        // Without this sync, the system would write the file to the disk while the first loader is measured.
        file.sync_all().map_err(io)?;
        Ok(Data {
            path: path.to_owned(),
            template: template.to_owned(),
            seed,
            entries: filtered.entries,
            bytes: filtered.bytes,
            suffix: filtered.suffix.ok_or_else(|| DataError::Empty(template.to_owned()))?,
            schema: shipped(template).and_then(|shipped| shipped.schema).map(str::to_owned),
            samples: filtered.samples,
            user: filtered.user,
        })
    }
}

impl Data {
    /// Checks that a loader has loaded all entries, by the loader's own count.
    pub(super) fn must_be_loaded(
        &self,
        loaded: Option<u64>,
        by: &str,
        output: &str,
    ) -> Result<(), PeerError> {
        if loaded == Some(self.entries) {
            return Ok(());
        }
        let wanted = self.entries;
        Err(PeerError::Answer(format!("{by} took {loaded:?} of {wanted} entries; it said:\n{output}")))
    }
}

/// A writer that receives LDIF in chunks of any size, and passes it on line by line with hashed passwords.
struct Filter<W> {
    out: W,
    salts: Seeded,
    /// Interval between the entries that are stored as samples.
    stride: u64,
    /// Storage form that replaces clear-text passwords.
    passwords: Passwords,
    /// Slow hashes computed so far, by password.
    slow: BTreeMap<Vec<u8>, Vec<String>>,
    /// DN of the current record, until a user with a password is found.
    dn: String,
    /// Beginning of an incomplete line.
    partial: Vec<u8>,
    /// The current record, if it is a sample.
    record: Option<Vec<u8>>,
    filtered: Filtered,
}

/// Properties of the whole file.
#[derive(Default)]
struct Filtered {
    entries: u64,
    bytes: u64,
    suffix: Option<String>,
    samples: Vec<Entry>,
    user: Option<(String, String)>,
}

impl<W: Write> Filter<W> {
    fn new(out: W, seed: u64, stride: u64, passwords: Passwords) -> Filter<W> {
        Filter {
            out,
            salts: Seeded::new(seed),
            stride,
            passwords,
            slow: BTreeMap::new(),
            dn: String::new(),
            partial: Vec::new(),
            record: None,
            filtered: Filtered::default(),
        }
    }

    fn finish(mut self) -> io::Result<Filtered> {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            self.line(&rest)?;
        }
        self.end_of_record();
        self.out.flush()?;
        Ok(self.filtered)
    }

    /// Processes one line, including its end.
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if line == b"\n" {
            self.end_of_record();
        } else if line.starts_with(b"dn:") {
            self.begin_record(line);
        } else if let Some(clear) = clear_password(line) {
            if self.filtered.user.is_none() {
                let password = String::from_utf8_lossy(&clear).into_owned();
                self.filtered.user = Some((std::mem::take(&mut self.dn), password));
            }
            if let Some(hashed) = self.hashed(&clear)? {
                return self.pass(format!("userPassword: {hashed}\n").as_bytes());
            }
        }
        self.pass(line)
    }

    /// Returns a password in its storage form; `None` if the storage form is clear text.
    fn hashed(&mut self, clear: &[u8]) -> io::Result<Option<String>> {
        match self.passwords {
            Passwords::Salted => Ok(Some(ssha(clear, self.salts.bytes()))),
            Passwords::Clear => Ok(None),
            Passwords::Slow => {
                // A slow hash takes milliseconds, so users with the same password share a few hashes. The cost of
                // verifying a password does not change.
                let hashes = self.slow.entry(clear.to_vec()).or_default();
                if hashes.len() < SLOW_SALTS {
                    // crypt(3) expects 16 characters of salt, which encode twelve octets.
                    let salt = self.salts.bytes::<12>();
                    let hashed = ShaCrypt::default().hash_password_with_salt(clear, &salt);
                    let hashed =
                        hashed.map_err(|error| io::Error::other(format!("hash a password: {error}")))?;
                    hashes.push(format!("{{CRYPT}}{}", hashed.as_str()));
                    return Ok(hashes.last().cloned());
                }
                Ok(hashes.get(self.filtered.entries as usize % SLOW_SALTS).cloned())
            }
        }
    }

    fn pass(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(record) = &mut self.record {
            record.extend_from_slice(line);
            if record.len() > SAMPLE_BYTES_MAX {
                self.record = None;
            }
        }
        self.filtered.bytes += line.len() as u64;
        self.out.write_all(line)
    }

    fn begin_record(&mut self, line: &[u8]) {
        if self.filtered.entries.is_multiple_of(self.stride) {
            self.record = Some(Vec::new());
        }
        if self.filtered.user.is_none() {
            self.dn = String::from_utf8_lossy(&line[3..]).trim().to_owned();
        }
        if self.filtered.suffix.is_none() {
            self.filtered.suffix = Some(self.dn.clone());
        }
        self.filtered.entries += 1;
    }

    fn end_of_record(&mut self) {
        let Some(record) = self.record.take() else { return };
        let mut reader = LdifReader::new(record.as_slice());
        if let Ok(Some(found)) = reader.next_record()
            && let LdifBody::Entry(values) = &found.body
        {
            let mut attributes: Vec<Attribute> = Vec::new();
            for value in values.iter() {
                let existing =
                    attributes.iter_mut().find(|existing| existing.description == value.description);
                match existing {
                    Some(attribute) => attribute.values.push(value.value.to_vec()),
                    None => attributes.push(Attribute {
                        description: value.description.to_owned(),
                        values: vec![value.value.to_vec()],
                    }),
                }
            }
            self.filtered.samples.push(Entry { dn: found.dn.to_owned(), attributes });
        }
    }
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut rest = text;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            if self.partial.is_empty() {
                self.line(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole)?;
            }
            rest = after;
        }
        self.partial.extend_from_slice(rest);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the password in a line, if the line has a password in clear text. Templates write passwords on one line.
fn clear_password(line: &[u8]) -> Option<Vec<u8>> {
    let rest = line.strip_prefix(b"userPassword:")?;
    let clear = match rest.strip_prefix(b":") {
        Some(encoded) => STANDARD.decode(encoded.trim_ascii()).ok()?,
        None => rest.trim_ascii().to_vec(),
    };
    if clear.starts_with(b"{") { None } else { Some(clear) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hashed_for_any_split_of_the_input() {
        let text = "dn: o=a\nobjectClass: top\no: a\n\ndn: cn=b,o=a\nuserPassword: secret\nuserPassword:: MTIzNA==\n\
                    userPassword: {SSHA}xyz\ncn: b\n";
        for size in [1, 7, 4096] {
            let mut out = Vec::new();
            let mut filter = Filter::new(&mut out, 1, 1, Passwords::Salted);
            for piece in text.as_bytes().chunks(size) {
                filter.write_all(piece).unwrap();
            }
            let filtered = filter.finish().unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!((filtered.entries, filtered.bytes), (2, text.len() as u64));
            assert_eq!(filtered.suffix.as_deref(), Some("o=a"));
            assert_eq!(text.matches("userPassword: {SSHA}").count(), 3, "{text}");
            assert!(text.contains("{SSHA}xyz\n") && !text.contains("secret"), "{text}");
            assert_eq!(filtered.user, Some(("cn=b,o=a".to_owned(), "secret".to_owned())));
            assert_eq!(filtered.samples.len(), 2);
            assert_eq!(filtered.samples[1].values("userPassword").len(), 3);
        }
    }

    #[test]
    fn few_slow_hashes_are_computed_and_reused() {
        let text = "dn: o=a\nuserPassword: secret\n\n".repeat(40);
        let mut out = Vec::new();
        let mut filter = Filter::new(&mut out, 1, 1, Passwords::Slow);
        filter.write_all(text.as_bytes()).unwrap();
        filter.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        let hashes: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("userPassword: {CRYPT}$6$rounds=5000$"))
            .collect();
        assert_eq!(hashes.len(), 40, "{text}");
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), SLOW_SALTS);
        // crypt(3) limits the salt to 16 characters.
        assert!(hashes.iter().all(|hash| hash.split_once('$').unwrap().0.len() == 16), "{text}");
    }

    #[test]
    fn a_template_generates_a_data_file() {
        let path = std::env::temp_dir().join(format!("pando-peers-data-{}.ldif", std::process::id()));
        let parameters = Parameters { entries: Some(500), ..Parameters::default() };
        let data = Data::generate("people", &parameters, 1, &path).unwrap();
        assert_eq!((data.entries, data.suffix.as_str()), (502, "dc=example,dc=com"));
        assert_eq!(data.bytes, std::fs::metadata(&path).unwrap().len());
        assert!((32..=65).contains(&data.samples.len()), "{}", data.samples.len());
        std::fs::remove_file(&path).unwrap();
        assert!(Data::generate("nothing-like-it", &parameters, 1, &path).is_err());
    }
}
