//! Encryption of the files of a backup in the format of age (`age-encryption.org/v1`), so that the tools of age can
//! decrypt the files.
//!
//! The server has no private key. The data that it needs to continue a backup is not encrypted: the names and sizes of
//! the files, a checksum file for each file, and a line in the header of each file. For age, this line is the stanza of
//! an unknown recipient. Age ignores the line, but authenticates it together with the rest of the header:
//!
//! ```text
//! -> pando-backup MOMENT RECIPIENTS
//! ```
//!
//! MOMENT is a hash of the generation, the position and the last record. With this hash, the server detects whether a
//! log continues the file. RECIPIENTS is a hash of the recipients. With this hash, the server detects whether the
//! recipients have changed. Both are hexadecimal numbers.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::Path;

use age::stream::StreamWriter;
use age::{Decryptor, EncryptError, Encryptor};
use age_core::format::{FileKey, Stanza};
use data_encoding::HEXLOWER;
use directory::backup::Moment;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::backup::{BackupError, failed};
use crate::config::backup::BackupRecipient;
use crate::limits::BACKUP_HEADER_BYTES;

/// Tag of the server's own stanza.
const TAG: &str = "pando-backup";
/// The text that begins the last line of a header.
const HEADER_END: &[u8] = b"---";
/// The text that begins every file in the age format. A file of encrypted identities also begins with this text.
const AGE: &[u8] = b"age-encryption.org/";
/// The text that begins an age file in its text form.
const ARMOR: &[u8] = b"-----BEGIN AGE ";

/// Private keys that can decrypt the files of a backup. Age calls them identities.
#[derive(Default)]
pub struct BackupIdentities(Vec<Box<dyn age::Identity + Send + Sync>>);

impl std::fmt::Debug for BackupIdentities {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} identities", self.0.len())
    }
}

impl BackupIdentities {
    /// Reads a file in the format of `age-keygen`. Each line is an identity or a comment.
    ///
    /// # Errors
    /// The file cannot be read, is encrypted with a passphrase, contains no identity, or contains other text.
    pub fn read(path: &Path) -> Result<BackupIdentities, BackupError> {
        let mut text = Zeroizing::new(Vec::new());
        let opened = File::open(path).map(|file| file.take(BACKUP_HEADER_BYTES));
        opened.and_then(|mut file| file.read_to_end(&mut text)).map_err(failed("read", path))?;
        let refused = |why: &str| Err(BackupError::Refused(format!("{} {why}", path.display())));
        if text.starts_with(AGE) || text.starts_with(ARMOR) {
            return refused("is encrypted: decrypt it with `age --decrypt` first");
        }
        let read = age::IdentityFile::from_buffer(&text[..]).ok();
        match read.and_then(|file| file.into_identities().ok()) {
            Some(identities) if identities.is_empty() => refused("has no identity of age"),
            Some(identities) => Ok(BackupIdentities(identities)),
            None => refused("has a line that is no identity of age (AGE-SECRET-KEY-1...)"),
        }
    }

    /// Returns true if this struct contains no identity.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The content of the server's own stanza in a header. It can be read without an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    moment: String,
    recipients: String,
}

impl Label {
    /// Returns the label of a file that ends at `moment` and is encrypted for `recipients`.
    pub(crate) fn new(moment: &Moment, recipients: &[BackupRecipient]) -> Label {
        // The record determines the time. Therefore the hash does not need the time.
        let Moment { generation, position, fingerprint, .. } = moment;
        let mut hash = Sha256::new();
        hash.update(generation);
        hash.update(position.to_be_bytes());
        hash.update(fingerprint);
        let mut keys: Vec<_> = recipients.iter().map(ToString::to_string).collect();
        keys.sort_unstable();
        keys.dedup();
        Label {
            moment: HEXLOWER.encode(&hash.finalize()),
            recipients: HEXLOWER.encode(&Sha256::digest(keys.join("\n"))),
        }
    }

    /// Returns true if both files have the same recipients.
    pub(crate) fn has_recipients_of(&self, other: &Label) -> bool {
        self.recipients == other.recipients
    }

    /// Reads the label from an encrypted file.
    pub(crate) fn read(file: Box<dyn Read>, path: &Path) -> Result<Label, BackupError> {
        let (header, _) = split_header(file, path)?;
        let lines = header.split(|octet| *octet == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let label = lines.filter_map(|line| line.strip_prefix("-> ")?.strip_prefix(TAG)?.strip_prefix(' '));
        let label = label.filter_map(|rest| rest.split_once(' ')).next();
        let (moment, recipients) =
            label.ok_or_else(|| damaged(path, "it is encrypted by another program"))?;
        Ok(Label { moment: moment.to_owned(), recipients: recipients.to_owned() })
    }
}

/// The age library writes the label to the header as the stanza of a recipient. The stanza contains no key. Therefore
/// the stanza cannot decrypt the file.
impl age::Recipient for Label {
    fn wrap_file_key(&self, _: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        let args = vec![self.moment.clone(), self.recipients.clone()];
        let stanza = Stanza { tag: TAG.to_owned(), args, body: Vec::new() };
        Ok((vec![stanza], HashSet::new()))
    }
}

/// Returns a writer that encrypts for `recipients` and writes to `out`. There must be at least one recipient.
pub(crate) fn encrypt<W: Write>(
    out: W,
    recipients: &[BackupRecipient],
    label: &Label,
) -> io::Result<StreamWriter<W>> {
    let recipients = recipients.iter().map(|BackupRecipient(recipient)| recipient as &dyn age::Recipient);
    let encryptor = Encryptor::with_recipients([label as &dyn age::Recipient].into_iter().chain(recipients));
    encryptor.map_err(|error| io::Error::other(error.to_string()))?.wrap_output(out)
}

/// Returns a reader of the decrypted content of a file.
pub(crate) fn decrypt(
    file: Box<dyn Read>,
    identities: &BackupIdentities,
    path: &Path,
) -> Result<Box<dyn Read>, BackupError> {
    if identities.is_empty() {
        return Err(BackupError::Encrypted {
            path: path.to_owned(),
            why: "name the file of an identity that decrypts it (--identity)",
        });
    }
    let (header, rest) = split_header(file, path)?;
    let decryptor = Decryptor::new_buffered(Cursor::new(header).chain(rest));
    let identities = identities.0.iter().map(|identity| identity.as_ref() as &dyn age::Identity);
    match decryptor.and_then(|decryptor| decryptor.decrypt(identities)) {
        Ok(content) => Ok(Box::new(content)),
        Err(age::DecryptError::NoMatchingKeys) => Err(BackupError::Encrypted {
            path: path.to_owned(),
            why: "to other recipients than the identity's, or its header is damaged",
        }),
        Err(age::DecryptError::Io(error)) => Err(failed("read", path)(error)),
        Err(_) => Err(damaged(path, "its header is damaged")),
    }
}

/// A file from the end of its header on.
type Rest = BufReader<Box<dyn Read>>;

/// Reads the header of a file, at most [`BACKUP_HEADER_BYTES`]. Returns the header, and the file from the end of the
/// header on.
fn split_header(file: Box<dyn Read>, path: &Path) -> Result<(Vec<u8>, Rest), BackupError> {
    let mut file = BufReader::new(file);
    let mut header = Vec::new();
    loop {
        let start = header.len();
        let left = BACKUP_HEADER_BYTES.saturating_sub(start as u64);
        file.by_ref().take(left).read_until(b'\n', &mut header).map_err(failed("read", path))?;
        match header.get(start..) {
            Some(line) if line.starts_with(HEADER_END) && line.ends_with(b"\n") => return Ok((header, file)),
            Some(line) if !header.starts_with(AGE) || !line.ends_with(b"\n") => {
                return Err(damaged(path, "it is no encrypted file of a backup, or is cut off"));
            }
            _ => {}
        }
    }
}

fn damaged(path: &Path, what: &str) -> BackupError {
    BackupError::Damaged { path: path.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";

    #[test]
    fn a_label_depends_on_the_moment_and_the_set_of_recipients() {
        let keys = [0; 2].map(|_| BackupRecipient(age::x25519::Identity::generate().to_public()));
        let moment = Moment { generation: [1; 16], position: 9, micros: 7, fingerprint: [255; 16] };
        let label = Label::new(&moment, &keys);
        let turned = [keys[1].clone(), keys[0].clone(), keys[1].clone()];
        assert_eq!(Label::new(&moment, &turned), label);
        assert!(!Label::new(&moment, &keys[..1]).has_recipients_of(&label));
        for other in [
            Moment { generation: [2; 16], ..moment },
            Moment { position: 8, ..moment },
            Moment { fingerprint: [0; 16], ..moment },
        ] {
            let other = Label::new(&other, &keys);
            assert!(other != label && other.has_recipients_of(&label));
        }
        let mut out = encrypt(Vec::new(), &keys, &label).unwrap();
        out.write_all(b"content").unwrap();
        let file = out.finish().unwrap();
        let read = |bytes: &[u8]| Label::read(Box::new(Cursor::new(bytes.to_vec())), Path::new("f"));
        assert_eq!(read(&file).unwrap(), label);
        for (number, wrong) in
            [&file[..100], &file[1..], b"", &[b'a'; 100_000], &[AGE, &[b'\n'; 100_000]].concat()]
                .into_iter()
                .enumerate()
        {
            assert!(matches!(read(wrong), Err(BackupError::Damaged { .. })), "{number}");
        }
    }

    #[test]
    fn an_identity_file_contains_only_identities() {
        let path = std::env::temp_dir().join(format!("pando-identities-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            BackupIdentities::read(&path)
        };
        let two = format!("# created: now\n# public key: age1...\n{IDENTITY}\n\n{IDENTITY}\n");
        assert_eq!(read(&two).unwrap().0.len(), 2);
        for (text, why) in [
            ("", "has no identity"),
            ("# only a comment\n", "has no identity"),
            ("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n", "is no identity of age"),
            (&IDENTITY[1..], "is no identity of age"),
            ("age-encryption.org/v1\n-> scrypt x 18\n", "is encrypted"),
            ("-----BEGIN AGE ENCRYPTED FILE-----\n", "is encrypted"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("GQ9778"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(BackupIdentities::read(&path).unwrap_err().to_string().contains("cannot read"));
    }
}
