//! The first copy of the supplier's data, which a new replica receives before it opens its data directory.
//!
//! The parts are appended to a file in the data directory. The file is named after the copy, so that a later start
//! resumes the transfer. If the digest of the complete copy is right, the file becomes the data file. Its mode lets
//! only the owner read it, because it holds password hashes.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use client::{ClientError, Connection};
use data_encoding::HEXLOWER;
use directory::OpenError;
use ldap::{CopyAnswer, CopyPart, CopyRequest, MessageId, ResultCode, oids};
use sha2::{Digest, Sha256};

use crate::config::ReplicaSettings;
use crate::limits::{
    COPY_PART_BYTES, COPY_PIPELINE, COPY_RETRY, COPY_SYNC_BYTES, COPY_TRIES, REPLICA_CONNECT, REPLICA_SILENCE,
};
use crate::workers::source_connection::{self, SourceError};

/// Folder in the data directory for a copy that is being received.
const FOLDER: &str = "copy-being-received";
/// Name of the file in the folder when the copy is complete.
const FILE: &str = "data.mdb";
/// Suffix of the file's name while the copy is incomplete. The name of the copy precedes it.
const PART: &str = ".part";

/// Reason why the copy failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The supplier cannot be reached, or refuses the bind.
    #[error(transparent)]
    Connect(#[from] SourceError),
    /// The connection broke.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The supplier refuses the copy.
    #[error("the supplier gives no copy of its data: {0}: {1}")]
    Refused(ResultCode, String),
    /// The supplier's answer is malformed.
    #[error("the supplier's answer is malformed")]
    Malformed,
    /// The supplier has replaced the copy by another copy.
    #[error("the supplier has made a new copy, because its log does not reach the old one any longer")]
    Outdated,
    /// The digest of the received copy is wrong.
    #[error("the copy is not what the supplier has sent (SHA-256); start again")]
    Damaged,
    /// A file cannot be written.
    #[error("{}: {error}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the error.
        error: io::Error,
    },
    /// The complete copy cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// A copy that is being received.
struct Receiving {
    folder: PathBuf,
    name: Vec<u8>,
    file: Option<File>,
    received: u64,
    synced: u64,
    hash: Sha256,
}

/// Copies the supplier's data into the new data directory `data`. Reconnects a few times if the connection breaks.
///
/// # Errors
/// See [`CopyError`]. A later call resumes the copy.
pub(crate) fn receive(settings: &ReplicaSettings, data: &Path) -> Result<(), CopyError> {
    for _ in 1..COPY_TRIES {
        match try_receive(settings, data) {
            Err(
                error @ (CopyError::Client(_)
                | CopyError::Connect(SourceError::Client(_))
                | CopyError::Outdated),
            ) => {
                tracing::warn!("copying the supplier's data: {error}; it is tried again");
                std::thread::sleep(COPY_RETRY);
            }
            other => return other,
        }
    }
    try_receive(settings, data)
}

fn try_receive(settings: &ReplicaSettings, data: &Path) -> Result<(), CopyError> {
    let started = Instant::now();
    let ReplicaSettings { supplier, authorities, identity, .. } = settings;
    let patience = REPLICA_CONNECT;
    let mut connection =
        source_connection::connect("replica", supplier, authorities.as_ref(), identity, patience)?;
    connection.set_timeout(REPLICA_SILENCE)?;
    let folder = data.join(FOLDER);
    let in_folder = |error| CopyError::File { file: folder.clone(), error };
    store::make_data_directory(data).map_err(OpenError::from)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(in_folder)?;
    let mut receiving = Receiving::resume(&folder).map_err(in_folder)?;
    if receiving.received > 0 {
        tracing::info!(%supplier, "the copy of the supplier's data is continued at {} bytes", receiving.received);
    } else {
        tracing::info!(%supplier, "the supplier's data is copied");
    }
    let sha256 = receiving.receive_all(&mut connection)?;
    if receiving.hash.finalize().as_slice() != sha256 {
        fs::remove_dir_all(&folder).map_err(in_folder)?;
        return Err(CopyError::Damaged);
    }
    let (bytes, part) = (receiving.received, part_file(&folder, &receiving.name));
    let synced = receiving.file.as_ref().map_or(Ok(()), File::sync_all);
    synced.and_then(|()| fs::rename(part, folder.join(FILE))).map_err(in_folder)?;
    directory::replica::take_copy(&folder, data)?;
    fs::remove_dir_all(&folder).map_err(in_folder)?;
    tracing::info!(%supplier, "the supplier's data is copied: {bytes} bytes in {:.1?}", started.elapsed());
    Ok(())
}

fn part_file(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(format!("{}{PART}", HEXLOWER.encode(name)))
}

impl Receiving {
    /// Resumes an incomplete copy in a folder, or begins a new one if there is none.
    fn resume(folder: &Path) -> io::Result<Receiving> {
        let mut receiving = Receiving {
            folder: folder.to_owned(),
            name: Vec::new(),
            file: None,
            received: 0,
            synced: 0,
            hash: Sha256::new(),
        };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let hex = name.to_str().and_then(|name| name.strip_suffix(PART));
            let Some(name) = hex.and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok()) else { continue };
            let mut file = OpenOptions::new().read(true).write(true).open(entry.path())?;
            let mut part = vec![0; COPY_PART_BYTES];
            loop {
                let count = file.read(&mut part)?;
                if count == 0 {
                    break;
                }
                receiving.hash.update(part.get(..count).unwrap_or_default());
                receiving.received += count as u64;
            }
            receiving.synced = receiving.received;
            (receiving.name, receiving.file) = (name, Some(file));
            break;
        }
        Ok(receiving)
    }

    /// Receives all parts that are left, with several requests outstanding. Returns the supplier's digest of the
    /// complete copy.
    fn receive_all(&mut self, connection: &mut Connection) -> Result<Vec<u8>, CopyError> {
        let mut sent: VecDeque<(MessageId, u64)> = VecDeque::new();
        let (mut next, mut total) = (self.received, None);
        loop {
            // The answer to the first request may name another copy, or say that the copy is not ready. Therefore no
            // other request is sent before that answer.
            let most = if total.is_some() { COPY_PIPELINE } else { 1 };
            while sent.len() < most {
                let value = CopyRequest { copy: &self.name, offset: next }.encode();
                let request = ldap::ExtendedRequest { name: oids::COPY_DATA, value: Some(&value) };
                let id = connection.send(ldap::Request::Extended(request), ldap::Controls::NONE)?;
                sent.push_back((id, next));
                next += COPY_PART_BYTES as u64;
            }
            let Some((id, offset)) = sent.pop_front() else { return Err(CopyError::Malformed) };
            let reply = connection.reply(id)?;
            if reply.outcome.code != ResultCode::SUCCESS {
                return Err(CopyError::Refused(reply.outcome.code, reply.outcome.diagnostic));
            }
            let value = reply.extended.value.ok_or(CopyError::Malformed)?;
            let answer = CopyAnswer::decode(&value).ok_or(CopyError::Malformed)?;
            match answer.part {
                CopyPart::Making => next = offset,
                CopyPart::End(digest) if answer.copy == self.name && offset >= answer.total => {
                    return Ok(digest.to_vec());
                }
                CopyPart::Data(bytes) => {
                    if answer.copy != self.name {
                        if total.is_some() {
                            return Err(CopyError::Outdated);
                        }
                        self.begin(answer.copy)?;
                        next = COPY_PART_BYTES as u64;
                    } else if offset != self.received {
                        return Err(CopyError::Malformed);
                    }
                    total = Some(answer.total);
                    self.write(bytes)?;
                }
                CopyPart::End(_) => return Err(CopyError::Outdated),
            }
        }
    }

    /// Begins the copy `name`, by which the supplier has replaced the requested copy.
    fn begin(&mut self, name: &[u8]) -> Result<(), CopyError> {
        let old = part_file(&self.folder, &self.name);
        let new = part_file(&self.folder, name);
        let failed = |error| CopyError::File { file: new.clone(), error };
        if self.file.take().is_some() {
            fs::remove_file(old).map_err(failed)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        self.file = Some(file.map_err(failed)?);
        (self.name, self.received, self.synced, self.hash) = (name.to_vec(), 0, 0, Sha256::new());
        Ok(())
    }

    fn write(&mut self, compressed: &[u8]) -> Result<(), CopyError> {
        let file = part_file(&self.folder, &self.name);
        let failed = |error| CopyError::File { file: file.clone(), error };
        let part = zstd::bulk::decompress(compressed, COPY_PART_BYTES).map_err(failed)?;
        let Some(open) = &mut self.file else { return Err(CopyError::Malformed) };
        open.seek(SeekFrom::Start(self.received)).and_then(|_| open.write_all(&part)).map_err(failed)?;
        self.hash.update(&part);
        self.received += part.len() as u64;
        if self.received - self.synced >= COPY_SYNC_BYTES {
            open.sync_data().map_err(failed)?;
            self.synced = self.received;
        }
        Ok(())
    }
}
