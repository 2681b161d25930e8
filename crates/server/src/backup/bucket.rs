//! Storage of a backup in an S3-compatible bucket, as the objects below a prefix.
//!
//! An object appears when its upload is complete. Therefore an incomplete file is never visible as a part of the
//! backup. Large files are uploaded in parts, one after another. If SIGKILL interrupts an upload, its parts remain
//! without an object. The storage removes them by its own rule for incomplete uploads.

mod credentials;
mod http;
mod lease;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use hyper::body::Bytes;
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutPayload,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::backup::bucket::http::{BufferedBytes, ObjectContentRequest};
use crate::backup::bucket::lease::{Holding, Lease};
use crate::backup::storage::{Claim, NewFile, ReadBack, Storage, UNREAD};
use crate::backup::{BackupError, check_stop, failed};
use crate::config::backup::BucketAddress;
use crate::limits::bucket::{
    BUCKET_ABORT, BUCKET_PART_BYTES, BUCKET_PARTS_MAX, BUCKET_SMALL_BYTES, BUCKET_STOP_LOOK,
};

/// Maximum number of characters of a text from the storage that an error message contains.
const TEXT_CHARS: usize = 300;

/// The objects below a prefix of a bucket.
pub(crate) struct Bucket(Arc<Shared>);

/// State that the bucket shares with its open files.
struct Shared {
    store: AmazonS3,
    /// Runtime that executes requests on the calling thread.
    runtime: Runtime,
    /// The address `s3://BUCKET/PREFIX` for messages.
    address: String,
    prefix: String,
    is_stopping: Option<Arc<AtomicBool>>,
    /// The lock of the bucket, if this process holds it.
    holding: Mutex<Option<Holding>>,
    /// Whether a download was interrupted by an error of the connection or of the storage.
    is_cut: AtomicBool,
    buffered_bytes: BufferedBytes,
}

impl Bucket {
    /// Creates the client. Sends no request.
    pub(crate) fn open(
        address: &BucketAddress,
        is_stopping: Option<Arc<AtomicBool>>,
    ) -> Result<Bucket, BackupError> {
        let text = address.to_string();
        let failed = |error| failed("use", text.as_ref())(error);
        let buffered_bytes = BufferedBytes::default();
        let store = credentials::store(address, Arc::clone(&buffered_bytes)).map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let prefix = address.prefix.clone();
        let holding = Mutex::default();
        let is_cut = AtomicBool::new(false);
        let address = text;
        Ok(Bucket(Arc::new(Shared {
            store,
            runtime,
            address,
            prefix,
            is_stopping,
            holding,
            is_cut,
            buffered_bytes,
        })))
    }
}

impl Shared {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(&self.address).join(name)
    }

    fn object(&self, name: &str) -> ObjectPath {
        ObjectPath::from_iter(self.prefix.split('/').chain([name]).filter(|part| !part.is_empty()))
    }

    /// Waits for the result of a request. Fails if the server stops meanwhile.
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
        let found = self.wait(self.store.get_opts(&self.object(name), of_object()))?;
        Ok(Download {
            shared: Arc::clone(self),
            meta: found.meta.clone(),
            stream: found.into_stream(),
            chunk: Bytes::new(),
            received: 0,
            begun_at: 0,
        })
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
        match self.wait(self.store.delete(&self.object(name))) {
            // The library may have repeated the request after the first request removed the object.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
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
        self.0.buffered_bytes.store(0, Ordering::Relaxed);
        let listed = self.0.wait(self.0.store.list_with_delimiter(Some(&prefix)));
        let listed = listed.map_err(failed("list", self.0.address.as_ref()))?;
        let named = |object: object_store::ObjectMeta| {
            object.location.filename().map(|name| (name.to_owned(), object.size))
        };
        Ok(listed.objects.into_iter().filter_map(named).collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read>, BackupError> {
        self.0.is_cut.store(false, Ordering::Relaxed);
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

    fn unread(&self) -> Result<Option<String>, BackupError> {
        match self.0.small(UNREAD) {
            Ok(name) => Ok(Some(String::from_utf8_lossy(&name).trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &self.path(UNREAD))(error)),
        }
    }

    fn was_cut(&self) -> bool {
        self.0.is_cut.load(Ordering::Relaxed)
    }

    fn claim(&self) -> Result<Box<dyn Claim>, BackupError> {
        Ok(Box::new(Lease::take(&self.0)?))
    }
}

/// An object that is being downloaded.
struct Download {
    shared: Arc<Shared>,
    meta: ObjectMeta,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    chunk: Bytes,
    /// Number of bytes received so far.
    received: u64,
    /// Offset of the first byte that the current request returns.
    begun_at: u64,
}

impl Download {
    /// Returns the time at which the object was last changed, in seconds since 1970.
    fn modified(&self) -> i64 {
        self.meta.last_modified.timestamp()
    }

    /// Returns the version (ETag) of the object.
    fn e_tag(&self) -> Option<String> {
        self.meta.e_tag.clone()
    }

    /// Returns the next bytes; `None` at the end. The library repeats a request only for a limited time in total.
    /// Therefore this function continues a long download with a new request if the previous request has returned at
    /// least one byte.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let error = match self.shared.wait(self.stream.try_next()) {
                Ok(chunk) => {
                    self.received += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                    if self.received > self.meta.size {
                        let text = format!(
                            "the object is longer than the {} bytes it was said to have",
                            self.meta.size
                        );
                        return Err(io::Error::other(text));
                    }
                    return Ok(chunk);
                }
                Err(error) => error,
            };
            check_stop(self.shared.is_stopping.as_ref())?;
            if self.received == self.begun_at || self.received >= self.meta.size {
                return Err(error);
            }
            let options = GetOptions {
                if_match: self.e_tag(),
                range: Some(GetRange::Offset(self.received)),
                ..of_object()
            };
            let rest = self.shared.wait(self.shared.store.get_opts(&self.meta.location, options))?;
            self.stream = rest.into_stream();
            self.begun_at = self.received;
        }
    }
}

/// Returns the options of a request for the content of an object.
fn of_object() -> GetOptions {
    let mut options = GetOptions::default();
    options.extensions.insert(ObjectContentRequest);
    options
}

impl Read for Download {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            self.shared.renew_lease()?;
            match self.next().inspect_err(|_| self.shared.is_cut.store(true, Ordering::Relaxed))? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = bytes.len().min(self.chunk.len());
        let chunk_part = self.chunk.split_to(count);
        if let Some(target) = bytes.get_mut(..count) {
            target.copy_from_slice(&chunk_part);
        }
        Ok(count)
    }
}

/// An object that is being uploaded.
struct Upload {
    shared: Arc<Shared>,
    name: String,
    /// Bytes that are not uploaded yet, at most one part.
    buffer: Vec<u8>,
    /// The upload in parts; `None` until the first part is uploaded.
    parts: Option<Box<dyn MultipartUpload>>,
    count: usize,
}

impl Upload {
    /// Uploads the bytes in the buffer as one part.
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
        // A full buffer is uploaded only if further bytes follow. Thus a small file needs only one request, and only
        // the last part may be smaller than the others.
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
    /// The object has its final name before it is read back. If the connection fails during the reading, the object
    /// remains, and the next run reads it back.
    fn finish(mut self: Box<Self>, read_back: ReadBack<'_>) -> Result<(), BackupError> {
        let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
        let path = shared.path(&name);
        shared.put(UNREAD, name.clone().into_bytes()).map_err(failed("write", &shared.path(UNREAD)))?;
        self.complete().map_err(failed("write", &path))?;
        let read_back_failed = |error: io::Error| {
            let text = format!("{error}; it is stored, and the next run reads it back");
            failed("read back", &path)(io::Error::new(error.kind(), text))
        };
        let stored = shared.download(&name).map_err(read_back_failed)?;
        shared.is_cut.store(false, Ordering::Relaxed);
        match read_back(Box::new(stored)) {
            Ok(()) => {}
            Err(error) if shared.is_cut.load(Ordering::Relaxed) => {
                return Err(read_back_failed(io::Error::other(error)));
            }
            Err(error) => {
                check_stop(shared.is_stopping.as_ref()).map_err(read_back_failed)?;
                if let Err(error) = shared.remove(&name) {
                    tracing::error!("cannot remove {}, which cannot be read back: {error}", path.display());
                }
                return Err(error);
            }
        }
        shared.remove(UNREAD).map_err(failed("remove", &shared.path(UNREAD)))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            // If this request fails, the storage removes the parts later, by its rule for incomplete uploads.
            let _ = self.shared.runtime.block_on(timeout(BUCKET_ABORT, parts.abort()));
        }
    }
}

/// Converts the error of a request to a short text in one line. The storage returns its error code and message in an
/// XML document.
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
        Some(tame(rest.split_once("</")?.0))
    };
    let text = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("the storage answers {code}: {message}"),
        (Some(code), None) => format!("the storage answers {code}"),
        _ => tame(&text),
    };
    io::Error::new(kind, text)
}

/// Shortens a text from the storage to a maximum length, in one line and without control characters.
fn tame(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut tame = String::new();
    for (count, letter) in line.chars().enumerate() {
        match letter {
            _ if count == TEXT_CHARS => return tame + "…",
            letter if letter.is_control() => tame.extend(letter.escape_default()),
            letter => tame.push(letter),
        }
    }
    tame
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::LazyLock;
    use std::thread::JoinHandle;

    use super::*;

    #[test]
    fn storage_errors_are_escaped_and_truncated() {
        let error = |text: String| {
            explained(&object_store::Error::Generic { store: "S3", source: text.into() }).to_string()
        };
        let found =
            error("<Error><Code>Busy</Code><Message>slow \u{1b}[2J\n down</Message></Error>".to_owned());
        assert_eq!(found, "the storage answers Busy: slow \\u{1b}[2J down");
        let long = error(format!("<Code>Busy</Code><Message>{}</Message>", "ä".repeat(5_000)));
        assert_eq!(long.chars().filter(|letter| *letter == 'ä').count(), TEXT_CHARS);
        assert!(error("a\u{7} ".repeat(5_000)).len() < 4 * TEXT_CHARS);
    }

    /// Starts an imitation of the storage. It answers one request per connection with the next element of `answers`.
    /// After the last answer, it sends `endless` repeatedly until the client closes the connection.
    fn start_rogue_storage(answers: Vec<Vec<u8>>, endless: &'static [u8]) -> (Bucket, JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut socket, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut octet = [0];
                    socket.read_exact(&mut octet).unwrap();
                    request.push(octet[0]);
                }
                socket.write_all(&answer).unwrap();
                while !endless.is_empty() && socket.write_all(endless).is_ok() {}
            }
        });
        let credentials = std::env::temp_dir().join(format!("pando-keys-{}-{port}", std::process::id()));
        std::fs::write(&credentials, "[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
            .unwrap();
        let address = BucketAddress {
            bucket: "b".to_owned(),
            prefix: String::new(),
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            region: Some("r".to_owned()),
            credentials: Some(credentials.clone()),
        };
        let bucket = Bucket::open(&address, None).unwrap();
        std::fs::remove_file(credentials).unwrap();
        (bucket, server)
    }

    #[test]
    fn an_endless_list_is_refused() {
        static CHUNK: LazyLock<Vec<u8>> =
            LazyLock::new(|| [&b"10000\r\n"[..], &vec![b' '; 0x1_0000], b"\r\n"].concat());
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let (bucket, server) = start_rogue_storage(vec![head], &CHUNK);
        let error = bucket.list().unwrap_err().to_string();
        assert!(error.contains("an answer is longer than 16777216 bytes"), "{error}");
        drop(bucket);
        server.join().unwrap();
    }

    #[test]
    fn an_object_longer_than_its_announced_length_is_refused() {
        let head = "Content-Type: x\r\nETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
        let first = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 100\r\n\r\n{}", "a".repeat(50));
        let rest = format!(
            "HTTP/1.1 206 Partial Content\r\n{head}Content-Range: bytes 50-99/100\r\nContent-Length: 5000\r\n\r\n{}",
            "b".repeat(5_000)
        );
        let (bucket, server) = start_rogue_storage(vec![first.into_bytes(), rest.into_bytes()], b"");
        let mut content = Vec::new();
        let error = bucket.open("o").unwrap().read_to_end(&mut content).unwrap_err().to_string();
        assert!(error.contains("longer than the 100 bytes"), "{error}");
        assert!(content.len() <= 100, "{}", content.len());
        server.join().unwrap();
    }
}
