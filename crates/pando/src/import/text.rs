//! Conversion of LDIF texts before an import. ISO 8859-1 becomes UTF-8, and values in files (`:<`) become base64.
//!
//! The number of lines stays the same, so that the reasons in the rejects file name the lines of the original text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Maximum size of a file that contains a value, in bytes.
const VALUE_SIZE_MAX: u64 = 16 << 20;

/// Maximum length of a line that names a file, in bytes. A longer line is passed on in parts.
const LINE_SIZE_MAX: u64 = 64 << 10;

/// Directory whose files contain values.
#[derive(Debug)]
pub(super) struct ValueFiles {
    folder: File,
    path: PathBuf,
}

impl ValueFiles {
    /// Opens the directory.
    pub(super) fn open(path: &Path) -> io::Result<ValueFiles> {
        let path = path.canonicalize()?;
        let folder = File::open(&path)?;
        if !folder.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(ValueFiles { folder, path })
    }

    /// Reads the file that a URL names. The URL is an absolute `file:` URL, or a path relative to the directory.
    /// Symbolic links are never followed, and files outside of the directory are never read.
    fn read(&self, url: &str) -> Result<Vec<u8>, String> {
        let path = match url.strip_prefix("file:") {
            Some(rest) => rest.strip_prefix("//localhost").or(rest.strip_prefix("//")).unwrap_or(rest),
            None if url.contains("://") => return Err("only file: URLs are read".to_owned()),
            None => url,
        };
        let path = PathBuf::from(decoded(path).ok_or("the URL is not valid")?);
        let outside = || format!("it is not below {}", self.path.display());
        let path = match path.is_absolute() {
            true => path.strip_prefix(&self.path).map_err(|_| outside())?,
            false => path.as_path(),
        };
        let flags = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // The flags keep the open from blocking on a pipe without a writer.
        let opened = openat2(
            &self.folder,
            path,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
            flags,
        );
        let file = File::from(opened.map_err(|error| match error {
            rustix::io::Errno::XDEV => outside(),
            rustix::io::Errno::LOOP => "it is a symbolic link".to_owned(),
            error => error.to_string(),
        })?);
        if !file.metadata().map_err(|error| error.to_string())?.is_file() {
            return Err("it is not a file".to_owned());
        }
        let mut value = Vec::new();
        file.take(VALUE_SIZE_MAX + 1).read_to_end(&mut value).map_err(|error| error.to_string())?;
        match value.len() as u64 > VALUE_SIZE_MAX {
            true => Err(format!("it has more than {} MiB", VALUE_SIZE_MAX >> 20)),
            false => Ok(value),
        }
    }
}

/// Decodes percent-encoding (RFC 3986 section 2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// A reader that converts a text while it is read.
pub(super) struct ChangedText<R> {
    input: BufReader<R>,
    /// Name of the text in messages.
    name: String,
    is_latin_1: bool,
    files: Option<ValueFiles>,
    /// Converted text. The part before `read_count` is already read.
    changed: Vec<u8>,
    read_count: usize,
    line: u64,
    /// Whether the next octet continues a line.
    is_within_line: bool,
}

impl<R: Read> ChangedText<R> {
    pub(super) fn new(input: R, name: &str, is_latin_1: bool, files: Option<ValueFiles>) -> ChangedText<R> {
        ChangedText {
            input: BufReader::new(input),
            name: name.to_owned(),
            is_latin_1,
            files,
            changed: Vec::new(),
            read_count: 0,
            line: 0,
            is_within_line: false,
        }
    }

    /// Reads a line, or a part of a long line, as UTF-8.
    fn physical(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.input).take(LINE_SIZE_MAX).read_until(b'\n', &mut line)?;
        self.line += u64::from(!self.is_within_line && !line.is_empty());
        self.is_within_line = !line.is_empty() && line.last() != Some(&b'\n');
        Ok(match self.is_latin_1 {
            // In ISO 8859-1, the value of an octet is the Unicode number of its character.
            true => line.into_iter().map(char::from).collect::<String>().into_bytes(),
            false => line,
        })
    }

    /// Converts the next line.
    fn advance(&mut self) -> io::Result<()> {
        let begins_line = !self.is_within_line;
        let mut lines = vec![self.physical()?];
        let names_file = |line: &[u8]| {
            let colon = line.iter().position(|octet| *octet == b':');
            colon.is_some_and(|colon| colon > 0 && line.get(colon + 1) == Some(&b'<'))
        };
        let is_url =
            begins_line && self.files.is_some() && lines.first().is_some_and(|line| names_file(line));
        while is_url && !self.is_within_line && self.input.fill_buf()?.first() == Some(&b' ') {
            lines.push(self.physical()?);
        }
        let number = self.line + 1 - lines.len() as u64;
        let original = lines.concat();
        self.changed = if is_url { self.with_value(number, &lines).unwrap_or(original) } else { original };
        self.read_count = 0;
        Ok(())
    }

    /// Replaces the URL in `lines` by the value of its file, in base64. The number of lines stays the same. Returns
    /// `None` if that is not possible, for example because the file cannot be read.
    fn with_value(&self, number: u64, lines: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut whole = String::new();
        for (place, line) in lines.iter().enumerate() {
            let line = std::str::from_utf8(line).ok()?.trim_end_matches(['\r', '\n']);
            whole.push_str(if place == 0 { line } else { line.get(1..)? });
        }
        let (description, url) = whole.split_once(":<")?;
        let value = match self.files.as_ref()?.read(url.trim()) {
            Ok(value) => value,
            Err(error) => {
                eprintln!("pando: {}, line {number}: {}: {error}", self.name, url.trim());
                return None;
            }
        };
        let mut out = format!("{description}:: ").into_bytes();
        let encoded = STANDARD.encode(value);
        // Each continuation line receives one of the last base64 digits, so that the number of lines stays the same.
        let (first, rest) = encoded.split_at_checked(encoded.len().checked_sub(lines.len() - 1)?)?;
        out.extend_from_slice(first.as_bytes());
        for digit in rest.bytes() {
            out.extend_from_slice(&[b'\n', b' ', digit]);
        }
        out.push(b'\n');
        Some(out)
    }
}

impl<R: Read> Read for ChangedText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read_count == self.changed.len() {
            self.advance()?;
        }
        let mut rest = self.changed.get(self.read_count..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.read_count += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &[u8], is_latin_1: bool, folder: Option<&Path>) -> String {
        let files = folder.map(|folder| ValueFiles::open(folder).unwrap());
        let mut out = String::new();
        ChangedText::new(text, "text", is_latin_1, files).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn latin_1_becomes_utf_8() {
        assert_eq!(changed(b"cn: J\xfcrgen\r\nsn: \xc9\n", true, None), "cn: Jürgen\r\nsn: É\n");
        let long = "x".repeat(200_000);
        assert_eq!(changed(long.as_bytes(), false, None), long);
    }

    #[test]
    fn only_files_below_the_folder_become_values() {
        let folder = std::env::temp_dir().join(format!("pando-values-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(inner.join("deep")).unwrap();
        std::fs::write(folder.join("outside"), "secret").unwrap();
        std::fs::write(inner.join("a b"), "value").unwrap();
        std::fs::write(inner.join("deep/c"), "deep value").unwrap();
        let _ = std::os::unix::fs::symlink(folder.join("outside"), inner.join("link"));
        let inner = inner.canonicalize().unwrap();
        let at = inner.display();
        let text = format!("dn: cn=a\nphoto:< file://{at}/a%20b\nx:<  \n file:deep\n /c\ny: z\n");
        let out = changed(text.as_bytes(), false, Some(&inner));
        assert_eq!(out, "dn: cn=a\nphoto:: dmFsdWU=\nx:: ZGVlcCB2YWx1ZQ\n =\n =\ny: z\n");
        for url in [
            "file:../outside",
            "link",
            "file:///etc/passwd",
            "http://example.com/",
            "deep",
            "missing",
            "%zz",
            "../inner/a b",
        ] {
            let line = format!("x:< {url}\n");
            assert_eq!(changed(line.as_bytes(), false, Some(&inner)), line, "{url}");
        }
        // The first line has a URL, but no directory is given. The second line only looks like a URL.
        assert_eq!(changed(b"x:< deep/c\ny: a:< deep/c\n", false, None), "x:< deep/c\ny: a:< deep/c\n");
        assert_eq!(changed(b"y: a:< deep/c\n", false, Some(&inner)), "y: a:< deep/c\n");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
