//! Copying of a node's data to another node, over the listener of the cluster.
//!
//! The requesting node receives a consistent copy. The sender first copies its data into a folder next to the data, no
//! faster than [`COPY_BYTES_PER_SECOND`]. It then sends that copy in parts, each compressed, no faster than
//! [`SEND_BYTES_PER_SECOND`]. The last frame contains the SHA-256 of all bytes. The files of an interrupted copy are
//! removed, at the latest when the next copy begins. A retry starts from the beginning. Both nodes sync their files at
//! short intervals; otherwise changes that need the same disk would wait for one long sync at the end. Both nodes copy
//! with the lowest priority.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use directory::Directory;
use replication::NodeId;
use rustls::ClientConfig;
use sha2::{Digest, Sha256};
use system::{RateLimit, lower_priority};

use super::{connect, read_frame, write_frame};
use crate::limits::{BACKGROUND_NICENESS, COPY_BYTES_PER_SECOND, SEND_BYTES_PER_SECOND};

/// Frame that requests a copy. No frame of requests begins with these bytes.
pub(super) const REQUEST: &[u8] = b"\0snapshot 1";

/// Kinds of frames of the answer, by their first byte.
const WAIT: u8 = 0;
const PART: u8 = 1;
const END: u8 = 2;
const REFUSED: u8 = 3;

/// Bytes of a part before it is compressed.
const PART_BYTES: usize = 1 << 20;
/// Name of the file in a copy.
const FILE: &str = "data.mdb";
/// Folder of the sender's copy, in its data directory.
const FOLDER: &str = "copy-being-sent";
/// Interval of heartbeats to the receiving node.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Beginning of the warning that the priority of a thread cannot be lowered.
const NO_LOW_PRIORITY: &str = "copying a node's data has no low priority";
/// Bytes of a copy after which the receiver syncs.
const SYNC_BYTES: u64 = 1 << 20;

/// Sends copies of the data in a folder, one at a time.
pub(crate) struct Sender {
    directory: Weak<Directory>,
    data: PathBuf,
    is_sending: AtomicBool,
}

/// Folder that is removed when this value is dropped.
struct Temporary<'s>(PathBuf, &'s AtomicBool);

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        self.1.store(false, Ordering::Release);
    }
}

impl Sender {
    /// Returns a sender of the directory whose data is in the folder `data`. The sender does not prevent the directory
    /// from closing.
    pub(crate) fn new(directory: Weak<Directory>, data: &Path) -> Sender {
        Sender { directory, data: data.to_owned(), is_sending: AtomicBool::new(false) }
    }

    /// Sends a copy to `node`. The calling thread has the lowest priority afterwards, so it must not be used for other
    /// work.
    pub(super) fn send(&self, node: NodeId, stream: &mut impl Write) -> io::Result<()> {
        if self.is_sending.swap(true, Ordering::Acquire) {
            return refuse(stream, "another copy is being sent: try again later");
        }
        let folder = Temporary(self.data.join(FOLDER), &self.is_sending);
        // An earlier process may have been killed while it made a copy.
        let _ = fs::remove_dir_all(&folder.0);
        tracing::info!("{node} copies this node's data");
        lower_priority(BACKGROUND_NICENESS, NO_LOW_PRIORITY);
        let started = Instant::now();
        if let Err(reason) = self.copy(&folder.0, stream)? {
            tracing::warn!("{node} gets no copy: {reason}");
            return refuse(stream, &reason);
        }
        let mut file = File::open(folder.0.join(FILE))?;
        let sent = send_file(&mut file, stream)?;
        tracing::info!("{node} has a copy of this node's data: {sent} bytes in {:?}", started.elapsed());
        Ok(())
    }

    /// Makes the copy, and meanwhile sends heartbeats.
    fn copy(&self, to: &Path, stream: &mut impl Write) -> io::Result<Result<(), String>> {
        let Some(directory) = self.directory.upgrade() else { return Ok(Err("the server stops".to_owned())) };
        std::thread::scope(|scope| {
            let waiting = std::thread::current();
            let copying = scope.spawn(move || {
                let copied = directory.copy_to(to, COPY_BYTES_PER_SECOND);
                waiting.unpark();
                copied.map_err(|error| error.to_string())
            });
            let mut last_sign = Instant::now();
            while !copying.is_finished() {
                std::thread::park_timeout(SIGN_OF_LIFE.saturating_sub(last_sign.elapsed()));
                if last_sign.elapsed() >= SIGN_OF_LIFE {
                    write_frame(stream, &[WAIT])?;
                    last_sign = Instant::now();
                }
            }
            Ok(copying.join().unwrap_or_else(|_| Err("a defect was met".to_owned())))
        })
    }
}

fn refuse(stream: &mut impl Write, text: &str) -> io::Result<()> {
    write_frame(stream, &[&[REFUSED], text.as_bytes()].concat())
}

fn send_file(file: &mut impl Read, stream: &mut impl Write) -> io::Result<u64> {
    let (limit, mut sent, mut hash) = (RateLimit::new(SEND_BYTES_PER_SECOND), 0_u64, Sha256::new());
    let mut part = Vec::with_capacity(PART_BYTES);
    loop {
        part.clear();
        file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part)?;
        if part.is_empty() {
            break;
        }
        hash.update(&part);
        sent += part.len() as u64;
        write_frame(stream, &[vec![PART], zstd::bulk::compress(&part, 1)?].concat())?;
        // Other programs on this machine need the disk and network, too.
        limit.wait(sent);
    }
    write_frame(stream, &[&[END][..], hash.finalize().as_slice()].concat())?;
    Ok(sent)
}

/// Copies the data of `node`, at `address`, into the new folder `to`. Returns the number of bytes. The calling thread
/// has the lowest priority afterwards.
///
/// # Errors
/// The node does not accept this node's certificate, has no copy to send, or the connection broke. The folder is
/// unusable after an error.
pub fn receive(node: NodeId, address: &str, config: &Arc<ClientConfig>, to: &Path) -> io::Result<u64> {
    lower_priority(BACKGROUND_NICENESS, NO_LOW_PRIORITY);
    let mut stream = connect(node, address, config)?;
    write_frame(&mut stream, REQUEST)?;
    DirBuilder::new().recursive(true).mode(0o700).create(to)?;
    receive_file(&mut stream, &to.join(FILE))
}

fn receive_file(stream: &mut impl Read, to: &Path) -> io::Result<u64> {
    let bad = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
    // The data holds password hashes.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let (mut received, mut synced, mut hash) = (0, 0, Sha256::new());
    loop {
        let frame = read_frame(stream, &|| true)?;
        let Some((kind, content)) = frame.split_first() else { return Err(bad("an empty frame")) };
        match *kind {
            WAIT => {}
            PART => {
                let part = zstd::bulk::decompress(content, PART_BYTES)?;
                hash.update(&part);
                file.write_all(&part)?;
                received += part.len() as u64;
                if received - synced >= SYNC_BYTES {
                    file.sync_data()?;
                    synced = received;
                }
            }
            END if hash.finalize().as_slice() == content => {
                file.sync_all()?;
                return Ok(received);
            }
            END => return Err(bad("the copy is not what was sent (SHA-256)")),
            REFUSED => return Err(io::Error::other(String::from_utf8_lossy(content).into_owned())),
            _ => return Err(bad("a frame that is no part of a copy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_snapshot_is_received_completely_or_refused() {
        let data: Vec<u8> = (0..3 * PART_BYTES as u64 / 2).map(|number| (number / 7) as u8).collect();
        let mut sent = Vec::new();
        write_frame(&mut sent, &[WAIT]).unwrap();
        assert_eq!(send_file(&mut &*data, &mut sent).unwrap(), data.len() as u64);
        let to = std::env::temp_dir().join(format!("pando-snapshot-{}", std::process::id()));
        let receive = |bytes: &[u8]| {
            let _ = fs::remove_file(&to);
            receive_file(&mut &*bytes, &to)
        };
        assert_eq!(receive(&sent).unwrap(), data.len() as u64);
        assert!(fs::read(&to).unwrap() == data);
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        // The receiver rejects an answer that is truncated or altered in transit, a refusal, and the data of a peer
        // that sends something else.
        assert!(receive(&sent[..sent.len() - 1]).is_err());
        let mut changed = sent.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(receive(&changed).unwrap_err().to_string().contains("SHA-256"));
        let mut refused = Vec::new();
        refuse(&mut refused, "not now").unwrap();
        assert!(receive(&refused).unwrap_err().to_string().contains("not now"));
        for frame in [&[9, 1][..], &[], &[PART, 1, 2]] {
            let mut other = Vec::new();
            write_frame(&mut other, frame).unwrap();
            assert!(receive(&other).is_err());
        }
        // The receiver rejects a part that decompresses to more than the maximum size.
        let mut large = Vec::new();
        let bomb = zstd::bulk::compress(&vec![0; PART_BYTES + 1], 1).unwrap();
        write_frame(&mut large, &[vec![PART], bomb].concat()).unwrap();
        assert!(receive(&large).is_err());
        let _ = fs::remove_file(&to);
    }
}
