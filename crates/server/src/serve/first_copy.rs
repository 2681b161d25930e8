//! First copy of a followed server's tree. It reads and imports all entries before clients are served.
//!
//! The entries are read by content synchronization without a cookie (RFC 4533). If the source has a change log in place
//! of content synchronization, the entries are read by plain searches. The entries are converted to LDIF and imported.
//! After the import, the last cookie is stored, and the thread that follows the source continues from it. If there is
//! no cookie, for example after a crash, that thread compares all entries.
//!
//! If the source fails after it has sent a part of the entries, that part is imported. The thread that follows the
//! source then copies the other entries one by one. If the source does not send the entry at the base, the import
//! changes nothing, and that thread copies all entries.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Connection, Received};
use directory::follow::{SourceEntry, is_empty_context, is_left_out, is_same_name, uuid_text};
use directory::password::StorageScheme;
use ldap::ldif::put_ldif_line;
use ldap::{MessageId, Response, ResultCode, SyncDone, SyncStateValue, oids};
use schema::Schema;
use sd_notify::NotifyState;

use crate::admin::import::{Importing, Input, InputData, MEMORY_DEFAULT, import};
use crate::config::values::DnText;
use crate::config::{Config, FollowSettings};
use crate::error::ServeError;
use crate::open::Opened;
use crate::telemetry::health::notify;
use crate::workers::copy_state::CopyState;
use crate::workers::follow::changes::{ChangeList, Exchange};
use crate::workers::follow::source::{self, connect, search};
use crate::workers::follow::{FollowError, counts_text};

/// Size of the chunks of text that the import receives, in octets.
const CHUNK_BYTES: usize = 1 << 20;

/// Maximum number of chunks in the queue of the import.
const CHUNKS_MAX: usize = 8;

/// Interval between notices to the service manager that the start is in progress. Each notice asks for more time.
const NOTICE_INTERVAL: Duration = Duration::from_secs(5);
const NOTICE_MICROS: u32 = 600_000_000;

/// Copies the trees of the followed servers into empty naming contexts. Does nothing for a naming context that is not
/// empty.
pub(super) fn make(config: &Config) -> Result<(), ServeError> {
    config.follow.iter().try_for_each(|settings| make_one(config, settings))
}

fn make_one(config: &Config, settings: &FollowSettings) -> Result<(), ServeError> {
    let as_is = Config { admin_password: None, ..config.clone() };
    let Some((schema, scheme)) = empty_context(&as_is, settings)? else { return Ok(()) };
    let opened = connect(settings).and_then(|mut connection| {
        let content = match ChangeList::find(&mut connection, settings.source_base())? {
            Some(list) => Content::List(list),
            None => Content::Sync(search(settings, &mut connection, (false, None))?),
        };
        Ok((connection, content))
    });
    let (connection, content) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            failed(settings, &error);
            return Ok(());
        }
    };
    let (sender, chunks) = sync_channel(CHUNKS_MAX);
    let (settings_there, noticed) = (settings.clone(), Instant::now());
    let reader = Reader { schema, settings: settings_there, sender, entries: 0, has_base: false, noticed };
    let thread = std::thread::Builder::new().name("pando-first-copy".to_owned());
    let thread = thread.spawn(move || reader.run(connection, &content))?;
    let text = Chunks { chunks, chunk: Vec::new(), read: 0 };
    let input = Input { name: settings.url.to_string(), data: InputData::Stream(Box::new(text)) };
    let how = Importing {
        replace: false,
        add: false,
        keep_clear_passwords: scheme == StorageScheme::Clear,
        rejects: None,
        leave_out: Vec::new(),
        renamed: Vec::new(),
        has_foreign_schema: false,
        memory: MEMORY_DEFAULT,
    };
    let config = Config { suffixes: vec![DnText(settings.base().to_owned())], ..as_is.clone() };
    let imported = import(config, None, vec![input], &how);
    match (imported, join(thread)?) {
        (_, Err(error)) if !matches!(error, FollowError::Stopping) => failed(settings, &error),
        (Err(error), _) => return Err(error),
        (Ok(imported), Ok(None)) => {
            let (source, entries) = (&settings.url, imported.entries);
            tracing::info!(%source, entries, "a part of the first copy is made; others are copied one by one");
            // An entry may have been rejected only because its superior was not read. The thread that follows the
            // source reads the rejected entries again. Therefore the file with them is not needed.
            imported.rejects_file.iter().try_for_each(std::fs::remove_file)?;
        }
        (Ok(imported), Ok(Some(cookie))) if imported.entries > 0 => {
            let rejected = imported.rejected_count();
            let (source, entries) = (&settings.url, imported.entries);
            let left_out = counts_text(&imported.left_out);
            tracing::info!(%source, entries, rejected, values_left_out = left_out, "the first copy is made");
            if let Some(file) = &imported.rejects_file {
                tracing::warn!(file = %file.display(), "entries of the source were not copied");
            }
            store(as_is, settings.base(), &CopyState::new(settings, rejected, cookie))?;
        }
        _ => {}
    }
    Ok(())
}

fn failed(settings: &FollowSettings, error: &FollowError) {
    tracing::warn!(source = %settings.url, "the source's entries cannot all be read at once, so others will be copied \
                                            one by one: {error}");
}

/// Returns the schema and the password scheme of the directory. Returns `None` if the naming context of the copy is not
/// empty or was copied before.
fn empty_context(
    config: &Config,
    settings: &FollowSettings,
) -> Result<Option<(Arc<Schema>, StorageScheme)>, ServeError> {
    let opened = Opened::open_as_is(config.clone())?;
    let directory = opened.directory();
    let snapshot = directory.snapshot()?;
    let base = settings.base();
    let is_first = !directory.is_promoted(base) && directory.follow_state(base)?.is_none();
    if !is_first || !is_empty_context(&snapshot, base)? {
        return Ok(None);
    }
    let state = snapshot.state();
    Ok(Some((Arc::clone(&state.catalog.schema), state.settings.general.password_scheme)))
}

fn store(config: Config, base: &str, state: &CopyState) -> Result<(), ServeError> {
    let mut opened = Opened::open_as_is(config)?;
    let (writer, _) = opened.writer();
    let mut batch = writer.begin()?;
    batch.put_follow_state(base, &state.encode())?;
    Ok(batch.commit()?)
}

type Chunk = io::Result<Vec<u8>>;

/// The last cookie; `None` if only a part of the entries was read.
type ContentRead = Result<Option<Vec<u8>>, FollowError>;

fn join(thread: JoinHandle<ContentRead>) -> Result<ContentRead, ServeError> {
    thread.join().map_err(|_| ServeError::Panicked("pando-first-copy".to_owned()))
}

/// Method by which the entries are read.
enum Content {
    /// By content synchronization. The value is the message id of the search.
    Sync(MessageId),
    /// By plain searches. The source's change log contains the changes that are made after these searches.
    List(ChangeList),
}

/// The reader of the source's entries. It runs on its own thread.
struct Reader {
    schema: Arc<Schema>,
    settings: FollowSettings,
    sender: SyncSender<Chunk>,
    entries: u64,
    /// Whether the entry at the base of the copy has been received.
    has_base: bool,
    noticed: Instant,
}

impl Reader {
    /// Reads the entries and sends them to the import. If the source fails after it has sent the entry at the base,
    /// sends the entries that were read before.
    fn run(mut self, mut connection: Connection, content: &Content) -> ContentRead {
        let outcome = self.read(&mut connection, content);
        if let Err(error) = &outcome {
            // This error makes the import fail without a change. The import may already have ended, so that nothing
            // receives the error.
            let _ = self.sender.send(Err(io::Error::other(error.to_string())));
        }
        outcome
    }

    fn read(&mut self, connection: &mut Connection, content: &Content) -> ContentRead {
        let mut text = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        let read = match content {
            Content::Sync(id) => self.read_content(connection, *id, &mut text),
            Content::List(list) => self.read_list(connection, list, &mut text),
        };
        let cookie = match read {
            Ok(cookie) => Some(cookie),
            Err(error) if self.has_base && !matches!(error, FollowError::Stopping) => {
                failed(&self.settings, &error);
                None
            }
            Err(error) => return Err(error),
        };
        if self.entries > 0 && !self.has_base {
            return Err(FollowError::Source(
                "the source sends entries, but not the one at the base: the identity or the filter may exclude it",
            ));
        }
        self.send(&mut text)?;
        Ok(cookie)
    }

    fn read_content(
        &mut self,
        connection: &mut Connection,
        id: MessageId,
        text: &mut Vec<u8>,
    ) -> Result<Vec<u8>, FollowError> {
        loop {
            let received = connection.receive_any()?;
            if received.id() != id {
                continue;
            }
            if let Some(cookie) = self.take(&received, text)? {
                return Ok(cookie);
            }
            self.send_if_full(text)?;
        }
    }

    fn read_list(
        &mut self,
        connection: &mut Connection,
        list: &ChangeList,
        text: &mut Vec<u8>,
    ) -> Result<Vec<u8>, FollowError> {
        let mut exchange = Exchange { connection, is_stopping: &AtomicBool::new(false) };
        let cookie = list.newest(&mut exchange)?;
        let settings = self.settings.clone();
        list.content(&mut exchange, (settings.source_base(), &settings.filter), &mut |entry| {
            let entry = list.entry(entry)?;
            if list.is_in_part(&entry) {
                return Err(FollowError::Source("an entry has too many values to be sent at once"));
            }
            self.put(entry, text);
            self.send_if_full(text)
        })?;
        Ok(list.stored(&cookie))
    }

    fn send_if_full(&mut self, text: &mut Vec<u8>) -> Result<(), FollowError> {
        if text.len() >= CHUNK_BYTES { self.send(text) } else { Ok(()) }
    }

    fn send(&mut self, text: &mut Vec<u8>) -> Result<(), FollowError> {
        if self.noticed.elapsed() >= NOTICE_INTERVAL {
            self.noticed = Instant::now();
            notify(&[NotifyState::ExtendTimeoutUsec(NOTICE_MICROS)]);
            tracing::info!(entries = self.entries, "the first copy is being made");
        }
        let chunk = std::mem::replace(text, Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4));
        self.sender.send(Ok(chunk)).map_err(|_| FollowError::Stopping)
    }

    /// Handles one message of the source. Returns the cookie if the message ends the content.
    fn take(&mut self, received: &Received, text: &mut Vec<u8>) -> Result<Option<Vec<u8>>, FollowError> {
        let message = received.message();
        let value = |oid| message.controls.find(oid).and_then(|control| control.value);
        let response = match message.response {
            Response::SearchEntry(entry) => {
                let Some(state) = value(oids::SYNC_STATE).and_then(SyncStateValue::decode) else {
                    let text = "an entry has no sync state: is the source's provider enabled?";
                    return Err(FollowError::Source(text));
                };
                self.put(source::entry(&entry, state.uuid), text);
                return Ok(None);
            }
            other => other,
        };
        let Some(result) = response.result() else { return Ok(None) };
        if result.code != ResultCode::SUCCESS {
            let (code, diagnostic) = (result.code, result.diagnostic.to_owned());
            return Err(FollowError::Refused { what: "the search", code, diagnostic });
        }
        let cookie = value(oids::SYNC_DONE).and_then(SyncDone::decode).and_then(|done| done.cookie);
        Ok(Some(cookie.unwrap_or_default().to_vec()))
    }

    fn put(&mut self, mut entry: SourceEntry, text: &mut Vec<u8>) {
        self.entries += 1;
        source::map(&mut entry, &self.schema, &self.settings);
        self.has_base = self.has_base || is_same_name(&self.schema, &entry.dn, self.settings.base());
        put_ldif_line(text, "dn", entry.dn.as_bytes());
        put_ldif_line(text, "entryUUID", uuid_text(&entry.uuid).as_bytes());
        for attribute in &entry.attributes {
            let name = attribute.description.as_str();
            if name.eq_ignore_ascii_case("entryUUID") || is_left_out(&self.schema, name) {
                continue;
            }
            attribute.values.iter().for_each(|value| put_ldif_line(text, name, value));
        }
        text.push(b'\n');
    }
}

/// The LDIF text of the entries, which the import reads as one stream. The text arrives in chunks.
struct Chunks {
    chunks: Receiver<Chunk>,
    chunk: Vec<u8>,
    read: usize,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.chunk.len() {
            let Ok(chunk) = self.chunks.recv() else { return Ok(0) };
            (self.chunk, self.read) = (chunk?, 0);
        }
        let left = self.chunk.get(self.read..).unwrap_or_default();
        let count = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        self.read += count;
        Ok(count)
    }
}
