//! Output files of commands, which are written completely or not at all.
//!
//! A file is written under a temporary name in the same directory, readable only by its owner. The complete file is
//! synced and renamed, so that an incomplete file is never mistaken for a complete one. If the command fails or is
//! interrupted, the temporary file is removed. Devices, pipes and standard output are written directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use clap::ValueEnum;
use server::unfinished::UnfinishedFile;

/// Maximum number of bytes written to a file between two syncs.
const UNSYNCED_BYTES_MAX: usize = 32 << 20;

/// Maximum number of chunks in the queue of the writing thread.
const PIECES_MAX: usize = 32;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// gzip, the most common format
    Gz,
    /// Zstandard: smaller and many times faster
    Zst,
}

impl Compression {
    /// Returns the compression that a file's name implies.
    pub(crate) fn of_name(path: &Path) -> Option<Compression> {
        match path.extension()?.to_str()? {
            "gz" => Some(Compression::Gz),
            "zst" => Some(Compression::Zst),
            _ => None,
        }
    }
}

/// An output that is being written.
pub(crate) struct Output {
    writer: Encoder,
    place: Destination,
}

enum Destination {
    /// Standard output, a device or a pipe.
    Direct,
    /// An ordinary file. It has a temporary name until it is complete; `None` if it has its final name already.
    File { temporary: Option<UnfinishedFile>, target: PathBuf },
}

enum Encoder {
    Plain(Box<dyn Sink>),
    Gz(flate2::write::GzEncoder<Box<dyn Sink>>),
    Zst(zstd::Encoder<'static, Box<dyn Sink>>),
}

/// Destination of the bytes after compression.
trait Sink: Write + Send {
    /// Makes the written bytes durable, if the destination supports it.
    fn sync(&mut self) -> io::Result<()>;
}

/// An ordinary file. It is synced at intervals, so that the disk already writes while more output is produced.
struct OrdinaryFile {
    file: File,
    unsynced_bytes: usize,
}

impl Write for OrdinaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.unsynced_bytes = 0;
            self.file.sync_data()?;
        }
        let written = self.file.write(bytes)?;
        self.unsynced_bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for OrdinaryFile {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Standard output, a pipe or a device. None of these can be synced.
struct Unsynced<W>(W);

impl<W: Write> Write for Unsynced<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write + Send> Sink for Unsynced<W> {
    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output {
    /// Opens an output. The targets `None` and `-` are standard output.
    pub(crate) fn create(target: Option<&Path>, compression: Option<Compression>) -> io::Result<Output> {
        let (sink, place): (Box<dyn Sink>, Destination) = match target {
            Some(path) if path.as_os_str() != "-" => Output::begin(path)?,
            _ => (Box::new(Unsynced(io::stdout())), Destination::Direct),
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

    fn begin(target: &Path) -> io::Result<(Box<dyn Sink>, Destination)> {
        if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let device = OpenOptions::new().write(true).open(target)?;
            return Ok((Box::new(Unsynced(device)), Destination::Direct));
        }
        let (temporary, file) = UnfinishedFile::create(target)?;
        let place = Destination::File { temporary: Some(temporary), target: target.to_owned() };
        Ok((Box::new(OrdinaryFile { file, unsynced_bytes: 0 }), place))
    }

    /// Gives an ordinary file its final name before it is complete. From then on, an interruption of the command does
    /// not remove the file.
    pub(crate) fn name_early(&mut self) -> io::Result<()> {
        if let Destination::File { temporary, target } = &mut self.place
            && let Some(temporary) = temporary.take()
        {
            temporary.rename(target)?;
        }
        Ok(())
    }

    /// Completes the output. On return, an ordinary file is durable and has its final name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let writer = std::mem::replace(&mut self.writer, Encoder::Plain(Box::new(Unsynced(io::sink()))));
        let mut sink = match writer {
            Encoder::Plain(sink) => sink,
            Encoder::Gz(encoder) => encoder.finish()?,
            Encoder::Zst(encoder) => encoder.finish()?,
        };
        sink.sync()?;
        if let Destination::File { temporary, target } = self.place {
            temporary.map_or(Ok(()), |temporary| temporary.rename(&target))?;
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

/// An [`Output`] that a separate thread compresses and writes while the caller produces more.
pub(crate) struct Background {
    /// Queue of the thread; `None` if the thread has ended early.
    pieces: Option<SyncSender<Vec<u8>>>,
    thread: JoinHandle<io::Result<Output>>,
}

impl Background {
    pub(crate) fn start(mut output: Output) -> io::Result<Background> {
        let (pieces, incoming) = sync_channel::<Vec<u8>>(PIECES_MAX);
        let write = move || {
            for piece in incoming {
                output.write_all(&piece)?;
            }
            Ok(output)
        };
        let thread = std::thread::Builder::new().name("pando-write".to_owned()).spawn(write)?;
        Ok(Background { pieces: Some(pieces), thread })
    }

    /// Waits until all chunks are written. Completes the file if `result` is `Ok`.
    ///
    /// # Errors
    /// The error of writing, if writing failed, otherwise that of `result`.
    pub(crate) fn finish<T, E: From<io::Error>>(self, result: Result<T, E>) -> Result<T, E> {
        drop(self.pieces);
        let written =
            self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread has failed")));
        // If the writing thread failed, its error is the cause of all others.
        let output = written?;
        let done = result?;
        output.finish()?;
        Ok(done)
    }
}

impl Write for Background {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.pieces.as_ref().map(|pieces| pieces.send(bytes.to_vec()));
        match sent {
            Some(Ok(())) => Ok(bytes.len()),
            _ => {
                self.pieces = None;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
