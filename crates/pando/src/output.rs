//! Files that a command writes: whole or not at all.
//!
//! A file is written under a temporary name beside its own, readable by its owner alone, synced, and renamed at the end, so that
//! nobody takes half of one for a whole. Dropped before, it is thrown away. What is not an ordinary file (a device, a pipe)
//! and standard output are written directly.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// gzip, which everything reads
    Gz,
    /// Zstandard: smaller, and many times faster
    Zst,
}

impl Compression {
    /// What a file's name says.
    pub(crate) fn of_name(path: &Path) -> Option<Compression> {
        match path.extension()?.to_str()? {
            "gz" => Some(Compression::Gz),
            "zst" => Some(Compression::Zst),
            _ => None,
        }
    }
}

/// A file in the making.
pub(crate) struct Output {
    writer: Encoder,
    place: Place,
}

enum Place {
    /// Standard output, or a file that is no ordinary one.
    Direct,
    /// An ordinary file, under its temporary name so far.
    File { temporary: PathBuf, target: PathBuf, is_finished: bool },
}

enum Encoder {
    Plain(Box<dyn Sink>),
    Gz(flate2::write::GzEncoder<Box<dyn Sink>>),
    Zst(zstd::Encoder<'static, Box<dyn Sink>>),
}

/// What bytes go to at the end.
trait Sink: Write {
    /// Makes what was written durable, where that means anything.
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Standard output, or a device.
struct Unsynced<W>(W);

impl<W: Write> Write for Unsynced<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Sink for Unsynced<W> {
    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output {
    /// Begins a file; `None` and `-` are standard output.
    pub(crate) fn create(target: Option<&Path>, compression: Option<Compression>) -> io::Result<Output> {
        let (sink, place): (Box<dyn Sink>, Place) = match target {
            Some(path) if path.as_os_str() != "-" => Output::begin(path)?,
            _ => (Box::new(Unsynced(io::stdout())), Place::Direct),
        };
        let writer = match compression {
            None => Encoder::Plain(sink),
            Some(Compression::Gz) => {
                Encoder::Gz(flate2::write::GzEncoder::new(sink, flate2::Compression::default()))
            }
            Some(Compression::Zst) => {
                let mut encoder = zstd::Encoder::new(sink, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.multithread(
                    std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
                )?;
                Encoder::Zst(encoder)
            }
        };
        Ok(Output { writer, place })
    }

    fn begin(target: &Path) -> io::Result<(Box<dyn Sink>, Place)> {
        if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let device = OpenOptions::new().write(true).open(target)?;
            return Ok((Box::new(Unsynced(device)), Place::Direct));
        }
        let mut name = target.file_name().map(OsString::from).unwrap_or_default();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let place = Place::File { temporary, target: target.to_owned(), is_finished: false };
        Ok((Box::new(file), place))
    }

    /// Completes the file: everything is on the disk and under its name when this returns.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let writer = std::mem::replace(&mut self.writer, Encoder::Plain(Box::new(Unsynced(io::sink()))));
        let mut sink = match writer {
            Encoder::Plain(sink) => sink,
            Encoder::Gz(encoder) => encoder.finish()?,
            Encoder::Zst(encoder) => encoder.finish()?,
        };
        sink.sync()?;
        if let Place::File { temporary, target, is_finished } = &mut self.place {
            std::fs::rename(temporary, &target)?;
            *is_finished = true;
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Encoder::Plain(sink) => sink.write(bytes),
            Encoder::Gz(encoder) => encoder.write(bytes),
            Encoder::Zst(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Encoder::Plain(sink) => sink.flush(),
            Encoder::Gz(encoder) => encoder.flush(),
            Encoder::Zst(encoder) => encoder.flush(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Place::File { temporary, is_finished: false, .. } = &self.place {
            // Half a file is of no use; should it stay, its name says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
