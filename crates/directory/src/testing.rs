//! A directory in a temporary folder. The unit tests of this crate use it as `mod testing`. The integration tests
//! include this file by `#[path]`. Time is a counter and UUIDs are numbers, so a run depends only on its requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use directory::controls::{RareControls, RequestControls};
use directory::index::IndexKinds;
use directory::index::maintenance::SliceBudget;
use directory::search::{Budget, Search, Step};
use directory::settings::{Difference, GeneralSettings, SettingsError};
use directory::tree::TreeState;
use directory::virtual_entries::{MonitorSource, VirtualEntry};
use directory::{
    ClientLink, Directory, DirectorySettings, OpenError, OpenOptions, Outcome, RequestContext, Requester,
    Settings, Snapshot, Stamp, Writer, deleted,
};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, DecodeLimits, DeleteRequest, DeletedRequest,
    Filter, FilterBuf, MessageId, ModifyDnRequest, ModifyRequest, RefreshRequest, Request, Response,
    ResponseMessage, ResultCode, Scope, SearchRequest, SelectionBuf, UndeleteAnswer, UndeleteRequest,
};

/// Suffix of the test directories.
pub(crate) const SUFFIX: &str = "dc=example,dc=com";

/// First time of the test clock: 2023-11-14T22:13:20Z.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// An empty monitor tree.
struct NoMonitor;

impl MonitorSource for NoMonitor {
    fn entries(&self) -> Vec<VirtualEntry> {
        Vec::new()
    }
}

pub(crate) fn no_monitor() -> Arc<dyn MonitorSource> {
    Arc::new(NoMonitor)
}

/// Runs a test with this number of seeds, or with the seed in the environment variable `PANDO_TEST_SEED`. A failure
/// prints its seed.
pub(crate) fn for_seeds(count: u64, run: fn(u64)) {
    let seeds = match std::env::var("PANDO_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("PANDO_TEST_SEED is a number")],
        Err(_) => (0..count).collect(),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("replay with PANDO_TEST_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Temporary folder of a test. The folder is removed at the end of the test. If the system has a file system in
/// memory, the folder is created there, because syncs are fast.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn new() -> TemporaryFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = base.join(format!("pando-directory-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TemporaryFolder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An entry in a search result: values by attribute name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) dn: String,
    pub(crate) attributes: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Entry {
    /// Returns the values of an attribute as text.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let values = self.attributes.get(name).into_iter().flatten();
        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) code: ResultCode,
    pub(crate) matched_dn: String,
    pub(crate) diagnostic: String,
    pub(crate) entries: Vec<Entry>,
    /// URIs in search result references.
    pub(crate) references: Vec<String>,
}

/// Converts the outcome of a refused search to a result.
impl From<Outcome> for Found {
    fn from(outcome: Outcome) -> Found {
        Found {
            code: outcome.code,
            matched_dn: outcome.matched_dn,
            diagnostic: outcome.diagnostic,
            entries: Vec::new(),
            references: outcome.referrals,
        }
    }
}

impl Found {
    pub(crate) fn dns(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.dn.as_str()).collect()
    }
}

/// Returns the entryUUID of the newest tombstone with this DN; zeroes if there is none.
pub(crate) fn deleted_uuid(state: TreeState<'_>, dn: &str) -> [u8; 16] {
    let mut from = Vec::new();
    loop {
        let listed = deleted::list(state, &DeletedRequest { from: &from, name: Some(dn) }).unwrap();
        match (listed.entries.first(), listed.next) {
            (Some(entry), _) => return entry.uuid,
            (None, next) if next.is_empty() => return [0; 16],
            (None, next) => from = next,
        }
    }
}

/// An open directory, with everything that a test needs to execute requests.
pub(crate) struct TestDirectory {
    pub(crate) directory: Arc<Directory>,
    pub(crate) writer: Writer,
    pub(crate) snapshot: Snapshot,
    /// Requester of the operations, initially the administrator.
    pub(crate) requester: Requester,
    /// Connection of the operations.
    pub(crate) link: Option<ClientLink>,
    /// Whether searches may use indexes.
    pub(crate) use_indexes: bool,
    /// Whether delete records have no trace, as in earlier builds.
    pub(crate) omits_delete_traces: bool,
    clock: u64,
    settings: Settings,
    // This is the last field, so that the files are closed before the folder is removed.
    folder: Arc<TemporaryFolder>,
}

impl TestDirectory {
    /// Creates an empty directory with the suffix [`SUFFIX`] and default settings.
    pub(crate) fn new() -> TestDirectory {
        TestDirectory::with_settings(GeneralSettings::default())
    }

    pub(crate) fn with_settings(general: GeneralSettings) -> TestDirectory {
        let settings = Settings { general, ..Settings::default() };
        TestDirectory::open(Arc::new(TemporaryFolder::new()), settings, &[SUFFIX], 0).unwrap()
    }

    /// Creates a directory with the suffix entry.
    pub(crate) fn with_suffix_entry() -> TestDirectory {
        let mut directory = TestDirectory::new();
        let outcome = directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
        directory
    }

    /// Creates an empty directory. `monitor` provides the entries of its `cn=monitor`.
    pub(crate) fn with_monitor(monitor: Arc<dyn MonitorSource>) -> TestDirectory {
        let folder = Arc::new(TemporaryFolder::new());
        TestDirectory::open_with(folder, Settings::default(), &[SUFFIX], 0, monitor).unwrap()
    }

    pub(crate) fn open(
        folder: Arc<TemporaryFolder>,
        settings: Settings,
        suffixes: &[&str],
        clock: u64,
    ) -> Result<TestDirectory, OpenError> {
        TestDirectory::open_with(folder, settings, suffixes, clock, no_monitor())
    }

    fn open_with(
        folder: Arc<TemporaryFolder>,
        settings: Settings,
        suffixes: &[&str],
        clock: u64,
        monitor: Arc<dyn MonitorSource>,
    ) -> Result<TestDirectory, OpenError> {
        let suffixes: Vec<String> = suffixes.iter().map(|suffix| suffix.to_string()).collect();
        let options = OpenOptions {
            initial: DirectorySettings {
                suffixes: suffixes.clone(),
                general: settings.general.clone(),
                ..DirectorySettings::default()
            },
            suffixes,
            node: settings.node.clone(),
            monitor,
            vendor_version: "test".to_owned(),
            store: store::Options { reserve_bytes: 0, map_bytes: Some(1 << 30), ..store::Options::default() },
            stamp: Stamp { now_micros: EPOCH_MICROS, uuid: [9; 16], ..Stamp::default() },
            follows_log: true,
            becomes_replica: false,
        };
        let (directory, writer) = Directory::open(folder.path(), options)?;
        let snapshot = directory.snapshot().unwrap();
        let requester = Requester::Administrator { dn: settings.node.admin_dn.clone() };
        Ok(TestDirectory {
            directory,
            writer,
            snapshot,
            link: None,
            requester,
            use_indexes: true,
            omits_delete_traces: false,
            clock,
            settings,
            folder,
        })
    }

    /// Closes the directory and opens it again.
    pub(crate) fn reopen(self) -> TestDirectory {
        let (folder, settings, clock) = (self.folder.clone(), self.settings.clone(), self.clock);
        drop(self);
        TestDirectory::open(folder, settings, &[], clock).unwrap()
    }

    pub(crate) fn folder(&self) -> Arc<TemporaryFolder> {
        self.folder.clone()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the time and UUID of the next operation.
    pub(crate) fn stamp(&mut self) -> Stamp {
        self.clock += 1;
        let mut uuid = [0; 16];
        (uuid[6], uuid[8]) = (0x40, 0x80);
        uuid[9..].copy_from_slice(&self.clock.to_be_bytes()[1..]);
        Stamp { now_micros: self.now_micros(), uuid, ..Stamp::default() }
    }

    /// Executes a change in a separate batch.
    pub(crate) fn execute(&mut self, request: &Request<'_>) -> Outcome {
        let stamp = self.stamp();
        self.execute_with(request, &RequestControls::default(), &stamp)
    }

    pub(crate) fn execute_with(
        &mut self,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
    ) -> Outcome {
        let mut batch = self.writer.begin().unwrap();
        if self.omits_delete_traces {
            batch.omit_delete_traces();
        }
        let outcome =
            batch.execute(&RequestContext::new(&self.requester, self.link), request, controls, stamp);
        batch.commit().unwrap();
        self.snapshot.renew().unwrap();
        outcome
    }

    pub(crate) fn add(&mut self, dn: &str, attributes: &[(&str, &[&str])]) -> Outcome {
        let mut buffer = AttributesBuf::new();
        for (name, values) in attributes {
            buffer.push(name, values.iter());
        }
        self.execute(&Request::Add(AddRequest { entry: dn, attributes: buffer.as_attributes() }))
    }

    /// Adds an entry for each number, in one batch. `make` returns the DN and the attributes of an entry.
    pub(crate) fn add_all(&mut self, numbers: Range<u32>, make: impl Fn(u32) -> (String, AttributesBuf)) {
        let stamps: Vec<_> = numbers.clone().map(|_| self.stamp()).collect();
        let context = RequestContext::new(&self.requester, self.link);
        let mut batch = self.writer.begin().unwrap();
        for (number, stamp) in numbers.zip(&stamps) {
            let (entry, attributes) = make(number);
            let request = Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() });
            ok(batch.execute(&context, &request, &RequestControls::default(), stamp));
        }
        batch.commit().unwrap();
        self.snapshot.renew().unwrap();
    }

    pub(crate) fn delete(&mut self, dn: &str) -> Outcome {
        self.execute(&Request::Delete(DeleteRequest { entry: dn }))
    }

    /// Deletes an entry and everything below it.
    pub(crate) fn delete_tree(&mut self, dn: &str) -> Outcome {
        let stamp = self.stamp();
        self.execute_with(&Request::Delete(DeleteRequest { entry: dn }), &tree_delete(), &stamp)
    }

    /// Restores the newest deleted entry with this DN.
    pub(crate) fn undelete(&mut self, dn: &str, superior: Option<&str>) -> Result<UndeleteAnswer, Outcome> {
        let stamp = self.stamp();
        let mut batch = self.writer.begin().unwrap();
        let context = RequestContext::new(&self.requester, self.link);
        let uuid = deleted_uuid(batch.state(), dn);
        let outcome = batch.undelete(&context, &UndeleteRequest { uuid, superior }, &stamp);
        batch.commit().unwrap();
        self.snapshot.renew().unwrap();
        outcome
    }

    /// Requests a new time to live of a dynamic entry. Returns the granted time to live.
    pub(crate) fn refresh(&mut self, entry: &str, ttl_seconds: u32) -> Result<u32, Outcome> {
        let stamp = self.stamp();
        let mut batch = self.writer.begin().unwrap();
        let context = RequestContext::new(&self.requester, self.link);
        let outcome = batch.refresh(&context, &RefreshRequest { entry, ttl_seconds }, &stamp);
        batch.commit().unwrap();
        self.snapshot.renew().unwrap();
        outcome
    }

    /// Returns the time of the last operation in microseconds since 1970.
    pub(crate) fn now_micros(&self) -> u64 {
        EPOCH_MICROS + self.clock * 1_000
    }

    /// Advances the test clock.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.clock += seconds * 1_000;
    }

    /// Makes the changes that are due `seconds` from now. Returns true if any change was made.
    pub(crate) fn make_due_changes(&mut self, seconds: u64) -> bool {
        let mut stamp = self.stamp();
        stamp.now_micros += seconds * 1_000_000;
        let mut batch = self.writer.begin().unwrap();
        let has_changes = batch.make_due_changes(&stamp).unwrap();
        batch.commit().unwrap();
        self.snapshot.renew().unwrap();
        has_changes
    }

    pub(crate) fn modify(&mut self, dn: &str, changes: &[(ChangeOperation, &str, &[&str])]) -> Outcome {
        let mut buffer = ChangesBuf::new();
        for (operation, name, values) in changes {
            buffer.push(*operation, name, values.iter());
        }
        self.execute(&Request::Modify(ModifyRequest { object: dn, changes: buffer.as_changes() }))
    }

    pub(crate) fn modify_dn(
        &mut self,
        dn: &str,
        new_rdn: &str,
        delete_old_rdn: bool,
        new_superior: Option<&str>,
    ) -> Outcome {
        self.execute(&Request::ModifyDn(ModifyDnRequest { entry: dn, new_rdn, delete_old_rdn, new_superior }))
    }

    /// Defines the index of an attribute. `kinds` names its kinds, or is `none`. The rows of existing entries are built
    /// later.
    pub(crate) fn define_index(&mut self, attribute: &str, kinds: &str) {
        let kinds = if kinds == "none" { IndexKinds::NONE } else { kinds.parse().unwrap() };
        let stamp = self.stamp();
        self.writer.define_index(attribute, kinds, &stamp).unwrap();
        self.snapshot.renew().unwrap();
    }

    /// Changes the directory-wide settings.
    pub(crate) fn change_settings(&mut self, change: impl FnOnce(&mut DirectorySettings)) {
        self.try_change_settings(change).unwrap();
    }

    /// Changes the directory-wide settings. Returns the reasons against the change as the error.
    pub(crate) fn try_change_settings(
        &mut self,
        change: impl FnOnce(&mut DirectorySettings),
    ) -> Result<Vec<Difference>, SettingsError> {
        let mut settings = self.directory.directory_settings();
        change(&mut settings);
        let stamp = self.stamp();
        let changed = self.writer.change_settings("cn=admin", &settings, &stamp);
        self.snapshot.renew().unwrap();
        changed
    }

    /// Builds or removes index rows of at most `entries_max` entries. Returns true if more rows remain.
    pub(crate) fn run_index_slice(&mut self, entries_max: usize) -> bool {
        let budget = SliceBudget { entries_max, rows_max: entries_max * 8 };
        let more = self.writer.run_maintenance_slice(&budget, &mut || ()).unwrap();
        self.snapshot.renew().unwrap();
        more
    }

    /// Builds and removes index rows until none remain.
    pub(crate) fn finish_indexes(&mut self) {
        while self.run_index_slice(512) {}
    }

    /// Runs a search to its end. Does not follow aliases.
    pub(crate) fn search(&mut self, base: &str, scope: Scope, filter: &str, attributes: &[&str]) -> Found {
        let filter = FilterBuf::parse(filter).unwrap();
        let mut selection = SelectionBuf::new();
        attributes.iter().for_each(|attribute| selection.push(attribute));
        self.search_request(
            &SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection()),
            &RequestControls::default(),
        )
    }

    pub(crate) fn search_request(
        &mut self,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Found {
        let id = MessageId(7);
        let (mut out, mut scanned) = (Vec::new(), Vec::new());
        let mut request = *request;
        if !self.use_indexes {
            request.filter = without_index(request.filter, &mut scanned);
        }
        let mut context = RequestContext::new(&self.requester, self.link);
        context.now = i64::try_from(self.now_micros()).unwrap();
        match Search::start(&self.snapshot, &context, id, &request, controls) {
            Err(outcome) => outcome.into(),
            Ok(mut search) => {
                // The slices are small, so that every test also covers the ends of slices.
                let budget = Budget { entries_examined_max: 7, out_bytes_max: 2_000 };
                while matches!(search.run(&self.snapshot, &mut out, &budget), Step::More) {}
                received(&out)
            }
        }
    }

    /// Returns the entry with this DN and all its attributes; `None` if the entry does not exist.
    pub(crate) fn read(&mut self, dn: &str) -> Option<Entry> {
        self.search(dn, Scope::BaseObject, "(objectClass=*)", &["*", "+"]).entries.pop()
    }
}

/// Asserts success.
#[track_caller]
pub(crate) fn ok(outcome: Outcome) {
    assert_eq!(outcome, Outcome::success());
}

/// Asserts a refusal with this code, no matched DN, and a diagnostic that contains this text.
#[track_caller]
pub(crate) fn refused(outcome: Outcome, code: ResultCode, text: &str) {
    refused_at(outcome, code, "", text);
}

/// Asserts a refusal with this code and matched DN, and a diagnostic that contains this text.
#[track_caller]
pub(crate) fn refused_at(outcome: Outcome, code: ResultCode, matched_dn: &str, text: &str) {
    assert_eq!((outcome.code, outcome.matched_dn.as_str()), (code, matched_dn), "{}", outcome.diagnostic);
    assert!(outcome.diagnostic.contains(text), "{:?} does not say {text:?}", outcome.diagnostic);
}

/// Returns the tree delete control.
pub(crate) fn tree_delete() -> RequestControls {
    let seldom = RareControls { tree_delete: true, ..RareControls::default() };
    RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() }
}

/// Returns these controls with the no-op control added.
pub(crate) fn no_operation(controls: &RequestControls) -> RequestControls {
    let mut rehearsal = controls.clone();
    rehearsal.seldom.get_or_insert_default().no_operation = true;
    rehearsal
}

/// Returns an equivalent filter that no index answers. The returned filter is a double negation (RFC 4511 section
/// 4.5.1.7) and is stored in `bytes`.
pub(crate) fn without_index<'b>(filter: Filter<'_>, bytes: &'b mut Vec<u8>) -> Filter<'b> {
    let not = |inner: &[u8]| {
        let mut outer = Vec::with_capacity(inner.len() + 8);
        ber::put_element(&mut outer, ber::Tag::context_constructed(2), inner);
        outer
    };
    filter.encode(bytes);
    *bytes = not(&not(bytes));
    Filter::from_bytes(bytes, &DecodeLimits::default()).unwrap()
}

/// Parses the response messages of a search.
pub(crate) fn received(mut bytes: &[u8]) -> Found {
    let mut found = Found {
        code: ResultCode::OTHER,
        matched_dn: String::new(),
        diagnostic: "the search did not end".to_owned(),
        entries: Vec::new(),
        references: Vec::new(),
    };
    while let Some(length) = ldap::frame_len(bytes).unwrap() {
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        match ResponseMessage::decode(message, &DecodeLimits::default()).unwrap().response {
            Response::SearchEntry(entry) => {
                let values = |values: ldap::Values<'_>| values.iter().map(<[u8]>::to_vec).collect();
                let attributes =
                    entry.attributes.iter().map(|a| (a.description.to_owned(), values(a.values)));
                found
                    .entries
                    .push(Entry { dn: entry.object_name.to_owned(), attributes: attributes.collect() });
            }
            Response::SearchReference(uris) => found.references.extend(uris.iter().map(str::to_owned)),
            Response::SearchDone(result) => {
                found.code = result.code;
                found.matched_dn = result.matched_dn.to_owned();
                found.diagnostic = result.diagnostic.to_owned();
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    found
}
