//! A prefix of a bucket in S3-compatible storage.
//!
//! An object appears when its upload is complete, so a part of a file never looks like a backup. Large files are
//! uploaded in parts, one at a time. An upload that was interrupted by SIGKILL leaves parts without a name, which the
//! storage removes by its own rule for incomplete uploads.

mod credentials;
mod http;
mod lease;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use hyper::body::Bytes;
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStore as _, ObjectStoreExt as _, PutPayload};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::backup::bucket::lease::{Holding, Lease};
use crate::backup::storage::{Claim, NewFile, ReadBack, Storage};
use crate::backup::{BackupError, check_stop, failed};
use crate::config::backup::BucketAddress;
use crate::limits::{
    BUCKET_ABORT, BUCKET_PART_BYTES, BUCKET_PARTS_MAX, BUCKET_SMALL_BYTES, BUCKET_STOP_LOOK,
};

/// A prefix of a bucket.
pub(crate) struct Bucket(Arc<Shared>);

/// State that a bucket shares with its open files.
struct Shared {
    store: AmazonS3,
    /// Runs requests on the calling thread.
    runtime: Runtime,
    /// `s3://BUCKET/PREFIX`, for messages.
    address: String,
    prefix: String,
    is_stopping: Option<Arc<AtomicBool>>,
    /// The lock that this process holds.
    holding: Mutex<Option<Holding>>,
}

impl Bucket {
    /// Prepares requests; sends none.
    pub(crate) fn open(
        address: &BucketAddress,
        is_stopping: Option<Arc<AtomicBool>>,
    ) -> Result<Bucket, BackupError> {
        let text = address.to_string();
        let failed = |error| failed("use", text.as_ref())(error);
        let store = credentials::store(address).map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let prefix = address.prefix.clone();
        let holding = Mutex::default();
        Ok(Bucket(Arc::new(Shared { store, runtime, address: text, prefix, is_stopping, holding })))
    }
}

impl Shared {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(&self.address).join(name)
    }

    fn object(&self, name: &str) -> ObjectPath {
        ObjectPath::from_iter(self.prefix.split('/').chain([name]).filter(|part| !part.is_empty()))
    }

    /// Waits for a request. Ends with an error once the server stops.
    fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        self.runtime.block_on(async {
            let mut request = pin!(request);
            loop {
                match timeout(BUCKET_STOP_LOOK, &mut request).await {
                    Ok(done) => return done.map_err(|error| explained(&error)),
                    Err(_) => check_stop(self.is_stopping.as_ref())?,
                }
            }
        })
    }

    fn download(self: &Arc<Shared>, name: &str) -> io::Result<Download> {
        let found = self.wait(self.store.get(&self.object(name)))?;
        Ok(Download { shared: Arc::clone(self), stream: found.into_stream(), chunk: Bytes::new() })
    }

    fn small(self: &Arc<Shared>, name: &str) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.download(name)?.take(BUCKET_SMALL_BYTES).read_to_end(&mut content)?;
        Ok(content)
    }

    fn put(&self, name: &str, content: Vec<u8>) -> io::Result<()> {
        self.wait(self.store.put(&self.object(name), content.into())).map(drop)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.wait(self.store.delete(&self.object(name)))
    }
}

impl Storage for Bucket {
    fn address(&self) -> String {
        self.0.address.clone()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>, BackupError> {
        let prefix = ObjectPath::from_iter(self.0.prefix.split('/').filter(|part| !part.is_empty()));
        let listed = self.0.wait(self.0.store.list_with_delimiter(Some(&prefix)));
        let listed = listed.map_err(failed("list", self.0.address.as_ref()))?;
        let named = |object: object_store::ObjectMeta| {
            object.location.filename().map(|name| (name.to_owned(), object.size))
        };
        Ok(listed.objects.into_iter().filter_map(named).collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read>, BackupError> {
        Ok(Box::new(self.0.download(name).map_err(failed("open", &self.path(name)))?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>, BackupError> {
        let shared = Arc::clone(&self.0);
        Ok(Box::new(Upload { shared, name: name.to_owned(), buffer: Vec::new(), parts: None, count: 0 }))
    }

    fn small(&self, name: &str) -> Option<Vec<u8>> {
        self.0.small(name).ok()
    }

    fn set_small(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        self.0.put(name, content.to_vec()).map_err(failed("write", &self.path(name)))
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        self.0.remove(name).map_err(failed("remove", &self.path(name)))
    }

    fn claim(&self) -> Result<Box<dyn Claim>, BackupError> {
        Ok(Box::new(Lease::take(&self.0)?))
    }
}

/// An object that is being read.
struct Download {
    shared: Arc<Shared>,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    chunk: Bytes,
}

impl Read for Download {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            self.shared.renew_lease()?;
            match self.shared.wait(self.stream.try_next())? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = bytes.len().min(self.chunk.len());
        let taken = self.chunk.split_to(count);
        if let Some(target) = bytes.get_mut(..count) {
            target.copy_from_slice(&taken);
        }
        Ok(count)
    }
}

/// An object that is being written.
struct Upload {
    shared: Arc<Shared>,
    name: String,
    /// Bytes of the next part.
    buffer: Vec<u8>,
    /// The upload of parts, once there is more than one.
    parts: Option<Box<dyn MultipartUpload>>,
    count: usize,
}

impl Upload {
    /// Uploads the buffer as a part.
    fn put_part(&mut self) -> io::Result<()> {
        self.shared.renew_lease()?;
        if self.count >= BUCKET_PARTS_MAX {
            let text =
                format!("the file is larger than {BUCKET_PARTS_MAX} parts of {BUCKET_PART_BYTES} bytes");
            return Err(io::Error::other(text));
        }
        let shared = &self.shared;
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(shared.wait(shared.store.put_multipart(&shared.object(&self.name)))?),
        };
        let part = PutPayload::from(std::mem::take(&mut self.buffer));
        shared.wait(parts.put_part(part))?;
        self.count += 1;
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        if self.parts.is_none() {
            return self.shared.put(&self.name, std::mem::take(&mut self.buffer));
        }
        if !self.buffer.is_empty() {
            self.put_part()?;
        }
        if let Some(parts) = &mut self.parts {
            self.shared.wait(parts.complete())?;
        }
        self.parts = None;
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full buffer waits for more bytes: the last part has any size, and a small file is one request.
        if self.buffer.len() >= BUCKET_PART_BYTES {
            self.put_part()?;
        }
        let count = bytes.len().min(BUCKET_PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for Upload {
    /// The object has its final name already when it is read back.
    fn finish(mut self: Box<Self>, read_back: ReadBack<'_>) -> Result<(), BackupError> {
        let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
        let path = shared.path(&name);
        self.complete().map_err(failed("write", &path))?;
        let stored = shared.download(&name).map_err(failed("open", &path))?;
        read_back(Box::new(stored)).inspect_err(|_| {
            if let Err(error) = shared.remove(&name) {
                tracing::error!("cannot remove {}, which cannot be read back: {error}", path.display());
            }
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            // If this fails, the storage removes the parts by its own rule.
            let _ = self.shared.runtime.block_on(timeout(BUCKET_ABORT, parts.abort()));
        }
    }
}

/// Converts an error of a request to one short line. The storage's own code and message are in an XML document.
fn explained(error: &object_store::Error) -> io::Error {
    use object_store::Error;
    let kind = match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => io::ErrorKind::AlreadyExists,
        Error::NotImplemented { .. } | Error::NotSupported { .. } => io::ErrorKind::Unsupported,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    let text = error.to_string();
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0)
    };
    let text = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("the storage answers {code}: {message}"),
        (Some(code), None) => format!("the storage answers {code}"),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    io::Error::new(kind, text)
}
