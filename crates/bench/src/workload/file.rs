//! The form of a workload file.

use serde::Deserialize;
use strum::{Display, IntoStaticStr};

use super::error::{WorkloadError, line_of};
use super::scope::Scope;
use crate::result::{
    DocumentFigure, DocumentRow, OperationKind, ServerDescription, WorkloadResult, now_text,
};

/// A string of the workload file, with its position in the file. It may contain
/// [placeholders](crate::driver#placeholders), which are replaced in each request.
pub type Text = toml::Spanned<String>;

/// A workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name on the command line: the file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// Title of the workload in reports.
    pub title: String,
    /// Remarks for readers.
    #[serde(default)]
    pub about: String,
    /// The row of a published table that the workload repeats.
    #[serde(default)]
    pub document: Option<Document>,
    /// The entries that are the workload's keys.
    pub data: Data,
    /// Requirements on the server.
    #[serde(default)]
    pub needs: Requirements,
    /// Duration of the measurement in seconds, unless the command line sets it.
    #[serde(default = "duration_default")]
    pub duration_seconds: u64,
    /// Duration of the warm-up in seconds.
    #[serde(default = "warm_up_default")]
    pub warm_up_seconds: u64,
    /// Idle time in seconds between warm-up and measuring.
    #[serde(default)]
    pub pause_seconds: u64,
    /// Number of the workload's own entries, which are added before the run and removed afterwards. Operations with
    /// `keys = "own"` use these entries. If no operation has `keys = "own"`, operations with `keys = "added"` use these
    /// entries before the entries that the run adds.
    #[serde(default)]
    pub own_entries: u64,
    /// Bulk load to measure. The server's own loader performs it. A bulk load is not an LDAP operation.
    #[serde(default)]
    pub load: Option<LoadNeed>,
    /// Groups of clients that work at the same time.
    #[serde(default, rename = "job")]
    pub jobs: Vec<Job>,
    /// Settings of Pando while the workload runs.
    #[serde(skip)]
    pub circumstances: Option<std::sync::Arc<super::RunSettings>>,
    /// Text of the file. It is needed to find the line of an error.
    #[serde(skip)]
    pub(crate) text: String,
}

fn duration_default() -> u64 {
    10
}

fn warm_up_default() -> u64 {
    2
}

/// Published document that a workload repeats.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The document: "OID", "Salford", "M-Vault", "Sun" or "eDirectory".
    pub name: String,
    /// The table in the document.
    #[serde(default)]
    pub table: String,
    /// The row in the table.
    #[serde(default)]
    pub row: String,
    /// Figures of the row.
    #[serde(default)]
    pub figures: Vec<DocumentFigure>,
}

impl From<&Document> for DocumentRow {
    fn from(document: &Document) -> DocumentRow {
        DocumentRow {
            document: document.name.clone(),
            table: document.table.clone(),
            row: document.row.clone(),
            figures: document.figures.clone(),
        }
    }
}

/// The entries that are the keys of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The template that generates the entries: the name of a shipped template, or a file. The text is empty if the
    /// entries have another source.
    #[serde(default)]
    pub template: String,
    /// Attribute in the RDN of the entries that are keys.
    pub rdn: String,
    /// Pattern of the DNs of the entries, by which the driver checks that the data exists. If the pattern is set, no
    /// template is needed.
    pub dn: Text,
    /// The number of the first entry.
    #[serde(default = "first_default")]
    pub first: u64,
    /// Number of entries, unless the command line sets it.
    #[serde(default = "entries_default")]
    pub entries: u64,
    /// Constants that replace constants of the template.
    #[serde(default)]
    pub constants: std::collections::BTreeMap<String, String>,
}

fn first_default() -> u64 {
    1
}

fn entries_default() -> u64 {
    100_000
}

/// Requirements of a workload on the server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Indexes: an attribute and its kinds, as in `pando index add` ("cn:eq,sub"). The server should have no other
    /// indexes.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// SASL mechanism that the root DSE must list in supportedSASLMechanisms.
    #[serde(default)]
    pub sasl: Option<String>,
    /// Settings of the server as text. The result states them.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Storage form of passwords.
    #[serde(default)]
    pub password_scheme: Option<String>,
    /// Whether access rules apply to the clients.
    #[serde(default)]
    pub access_control: bool,
    /// Whether a line is logged for every operation.
    #[serde(default)]
    pub operation_log: bool,
    /// Whether an audit trail records every operation. On servers without an audit trail, the operation log is used.
    #[serde(default)]
    pub audit: bool,
    /// Whether the server must be started just before the workload.
    #[serde(default)]
    pub fresh_start: bool,
    /// Whether connections use TLS. For `ldap://` targets, StartTLS is used.
    #[serde(default)]
    pub tls: bool,
}

/// Bulk load to measure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadNeed {
    /// Whether `needs.indexes` are maintained while loading.
    #[serde(default)]
    pub indexed: bool,
}

/// A group of clients with the same operations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of clients.
    pub clients: usize,
    /// Number of outstanding requests on each connection.
    #[serde(default = "one")]
    pub outstanding: usize,
    /// Requests per second of all clients together; unlimited if absent.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Operations of the clients, which are drawn by weight.
    #[serde(rename = "operation")]
    pub operations: Vec<Operation>,
}

fn one() -> usize {
    1
}

/// An operation and its expected answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Name of the operation.
    pub kind: toml::Spanned<OperationName>,
    /// Weight: share of the operation among the operations of the job.
    #[serde(default = "weight_default")]
    pub weight: u32,
    /// Source of the keys.
    #[serde(default)]
    pub keys: KeySource,
    /// Order of the keys.
    #[serde(default)]
    pub order: KeyOrder,
    /// Share of the data's entries that the operation uses, counted from the first entry. Reports call such keys
    /// sparse.
    #[serde(default)]
    pub share: Option<f64>,
    /// Share of the entries that is skipped at the beginning, so that operations use different entries.
    #[serde(default)]
    pub skip: Option<f64>,
    /// Search base.
    #[serde(default)]
    pub base: Option<Text>,
    /// Search scope.
    #[serde(default)]
    pub scope: Scope,
    /// Search filter.
    #[serde(default)]
    pub filter: Option<Text>,
    /// Attributes that a search returns; empty for all attributes, `1.1` for only the DN.
    #[serde(default)]
    pub attributes: Vec<Text>,
    /// Size of the pages of a search (RFC 2696). All pages are read, one after the other, and each page counts as an
    /// operation.
    #[serde(default)]
    pub page: Option<std::num::NonZeroU32>,
    /// DN of the entry to bind as, compare, add, change or delete. For a search, DN of an entry that must be among the
    /// results.
    #[serde(default)]
    pub dn: Option<Text>,
    /// Number of entries that a search must return. In a file, it is written as a number, as a number and a plus sign
    /// ("1+", for at least one), or as "any".
    #[serde(default)]
    pub expect_entries: Option<ExpectedEntries>,
    /// An attribute and a value that the entry `dn` must have: "cn: user{n}".
    #[serde(default)]
    pub expect_attribute: Option<Text>,
    /// The expected result code.
    #[serde(default)]
    pub expect_code: Option<u32>,
    /// Password of a bind.
    #[serde(default)]
    pub password: Option<Text>,
    /// Mechanism of a bind.
    #[serde(default)]
    pub mechanism: BindMechanism,
    /// User name of a SASL bind.
    #[serde(default)]
    pub user: Option<Text>,
    /// Connection of a bind: a persistent connection, or a new one for each bind.
    #[serde(default)]
    pub connection: BindConnection,
    /// Attribute of a compare.
    #[serde(default)]
    pub attribute: Option<Text>,
    /// Value of a compare.
    #[serde(default)]
    pub value: Option<Text>,
    /// Changes of a modify: "replace description: text", "add ...", "delete ...".
    #[serde(default)]
    pub changes: Vec<Text>,
    /// Changes of a second modify of the same entry, which restores the entry. The second modify counts as a separate
    /// operation.
    #[serde(default)]
    pub undo: Vec<Text>,
    /// The attributes of an entry to add, one "name: value" on each line.
    #[serde(default)]
    pub entry: Option<Text>,
    /// The new RDN of a rename. A second rename restores the entry's name.
    #[serde(default)]
    pub new_rdn: Option<Text>,
    /// Searches from a list instead of `base`, `scope` and `filter`.
    #[serde(skip)]
    pub listed: Option<std::sync::Arc<super::Listed>>,
}

fn weight_default() -> u32 {
    1
}

/// Operations, by their names in workload files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum OperationName {
    Search,
    /// A search, then a bind as the found entry. Both together count as one operation.
    Authentication,
    Bind,
    Compare,
    Modify,
    Add,
    Delete,
    Rename,
}

impl Operation {
    /// Returns the kind of operation in results.
    pub fn kind(&self) -> OperationKind {
        match self.kind.get_ref() {
            OperationName::Search => OperationKind::Search,
            OperationName::Authentication => OperationKind::Authentication,
            OperationName::Bind if self.connection == BindConnection::New => OperationKind::ConnectBind,
            OperationName::Bind => OperationKind::Bind,
            OperationName::Compare => OperationKind::Compare,
            OperationName::Modify => OperationKind::Modify,
            OperationName::Add => OperationKind::Add,
            OperationName::Delete => OperationKind::Delete,
            OperationName::Rename => OperationKind::ModifyDn,
        }
    }
}

/// Source of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// The entries of the data set.
    #[default]
    Data,
    /// The workload's own entries.
    Own,
    /// New numbers, for adds.
    New,
    /// Entries that adds of this run have created, for deletes. The oldest entry is used first, and each entry is used
    /// only once.
    Added,
}

/// The order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum KeyOrder {
    /// Random, uniformly distributed.
    #[default]
    Random,
    /// In ascending order. The keys are divided so that no two clients use the same key.
    Sequential,
    /// Each key once, in random order.
    Shuffled,
}

/// Mechanism of a bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoStaticStr)]
pub enum BindMechanism {
    /// Name and password.
    #[default]
    #[serde(rename = "simple")]
    #[strum(serialize = "simple")]
    Simple,
    /// CRAM-MD5 (RFC 2195).
    #[serde(rename = "CRAM-MD5")]
    #[strum(serialize = "CRAM-MD5")]
    CramMd5,
    /// SCRAM-SHA-1 (RFC 5802).
    #[serde(rename = "SCRAM-SHA-1")]
    #[strum(serialize = "SCRAM-SHA-1")]
    ScramSha1,
    /// SCRAM-SHA-256 (RFC 7677).
    #[serde(rename = "SCRAM-SHA-256")]
    #[strum(serialize = "SCRAM-SHA-256")]
    ScramSha256,
}

impl BindMechanism {
    /// Returns the SASL name of the mechanism; `None` for a simple bind.
    pub fn sasl_name(self) -> Option<&'static str> {
        (self != BindMechanism::Simple).then(|| self.into())
    }
}

/// Connection of a bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BindConnection {
    /// A client uses the same connection for all its binds.
    #[default]
    Kept,
    /// A new connection for each bind. It is closed after the bind. The latency includes connecting.
    New,
}

/// Number of entries that a search must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "EntriesInFile")]
pub enum ExpectedEntries {
    /// Any number.
    Any,
    /// Exactly this number.
    Exactly(u32),
    /// This number or more.
    AtLeast(u32),
}

impl ExpectedEntries {
    /// Returns true if this number of entries is right.
    pub fn allows(self, entries: u32) -> bool {
        match self {
            ExpectedEntries::Any => true,
            ExpectedEntries::Exactly(expected) => entries == expected,
            ExpectedEntries::AtLeast(least) => entries >= least,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EntriesInFile {
    Number(u32),
    Text(String),
}

impl TryFrom<EntriesInFile> for ExpectedEntries {
    type Error = String;

    fn try_from(written: EntriesInFile) -> Result<ExpectedEntries, String> {
        let text = match written {
            EntriesInFile::Number(number) => return Ok(ExpectedEntries::Exactly(number)),
            EntriesInFile::Text(text) => text,
        };
        if text == "any" {
            return Ok(ExpectedEntries::Any);
        }
        let number = text.strip_suffix('+').and_then(|number| number.parse().ok());
        number
            .map(ExpectedEntries::AtLeast)
            .ok_or_else(|| format!("expect_entries is a number, \"1+\" or \"any\", not {text:?}"))
    }
}

impl Workload {
    /// Reads a workload. `name` is the name of the file, for messages. The name of the workload is the file's name
    /// without folders and `.toml`.
    ///
    /// # Errors
    /// The first error found, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Workload, WorkloadError> {
        let mut workload: Workload = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            WorkloadError::new(name, line, error.message())
        })?;
        let stem = std::path::Path::new(name).file_stem();
        workload.name = stem.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        workload.text = text.to_owned();
        workload.check(name)?;
        Ok(workload)
    }

    /// Returns the workload with other settings of Pando, and with the name `NAME@CIRCUMSTANCES`.
    pub fn under(&self, circumstances: &std::sync::Arc<super::RunSettings>) -> Workload {
        let mut workload = self.clone();
        workload.name = format!("{}@{}", self.name, circumstances.name);
        workload.title = format!("{} ({})", self.title, circumstances.name);
        workload.circumstances = Some(std::sync::Arc::clone(circumstances));
        workload
    }

    /// Checks the requirements that serde cannot check. Operations are checked by compiling them.
    fn check(&self, name: &str) -> Result<(), WorkloadError> {
        let wrong = |message: &str| Err(WorkloadError::new(name, 0, message));
        if self.jobs.is_empty() && self.load.is_none() {
            return wrong("there is no [[job]]");
        }
        for job in &self.jobs {
            if job.clients == 0 || job.outstanding == 0 {
                return wrong("clients and outstanding are at least 1");
            }
            if job.operations.iter().all(|operation| operation.weight == 0) {
                return wrong("a job has no operation with a weight above 0");
            }
            if job.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
                return wrong("a rate is above 0");
            }
            for operation in &job.operations {
                self.check_operation(name, operation)?;
            }
        }
        crate::driver::check(self)
            .map_err(|(at, message)| WorkloadError::new(name, line_of(&self.text, at), message))
    }

    fn check_operation(&self, name: &str, operation: &Operation) -> Result<(), WorkloadError> {
        let line = line_of(&self.text, operation.kind.span().start);
        if operation.share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err(WorkloadError::new(name, line, "share is above 0 and at most 1"));
        }
        if operation.skip.is_some_and(|skip| !(0.0..1.0).contains(&skip)) {
            return Err(WorkloadError::new(name, line, "skip is at least 0 and below 1"));
        }
        let has_own = self.own_entries > 0;
        let is_adding = || self.jobs.iter().flat_map(|job| &job.operations).any(Operation::is_add);
        match operation.keys {
            KeySource::Own | KeySource::Added if !is_adding() => Err(WorkloadError::new(
                name,
                line,
                "keys that are \"own\" or \"added\" need an add operation that says how entries are made (its weight \
                 may be 0)",
            )),
            KeySource::Own if !has_own => {
                Err(WorkloadError::new(name, line, "keys = \"own\" needs own_entries"))
            }
            _ => Ok(()),
        }
    }

    /// Returns a result that begins now, without figures.
    pub fn result(&self) -> WorkloadResult {
        WorkloadResult {
            workload: self.name.clone(),
            title: self.title.clone(),
            document: self.document.as_ref().map(DocumentRow::from),
            started: now_text(),
            round: 1,
            ..WorkloadResult::default()
        }
    }

    /// Returns a result without figures, for a server that does not support the workload.
    pub fn unsupported(&self, server: ServerDescription, reason: String) -> WorkloadResult {
        WorkloadResult { server, unsupported: Some(reason), complete: true, ..self.result() }
    }

    /// Returns a result without figures, because of a failure. The measurement may be repeated.
    pub fn failed(&self, server: ServerDescription, reason: String) -> WorkloadResult {
        WorkloadResult { complete: false, ..self.unsupported(server, reason) }
    }

    /// Returns a workload that sends the searches of a list, in the order of the list.
    pub fn of_list(listed: std::sync::Arc<super::Listed>) -> Workload {
        const TEXT: &str = "title = 'Searches from a list'\n[data]\nrdn = ''\ndn = ''\n[[job]]\nclients = 16\n\
                            [[job.operation]]\nkind = 'search'\nbase = ''\norder = 'sequential'\n";
        let mut workload: Workload = toml::from_str(TEXT).expect("a constant text");
        "list".clone_into(&mut workload.name);
        workload.data.entries = 0;
        for operation in workload.jobs.iter_mut().flat_map(|job| &mut job.operations) {
            operation.listed = Some(listed.clone());
        }
        workload
    }

    /// Returns the operation that creates the workload's own entries.
    pub(crate) fn add_operation(&self) -> Option<&Operation> {
        self.jobs.iter().flat_map(|job| &job.operations).find(|operation| operation.is_add())
    }

    /// Returns true if every operation of the workload uses up an entry that was added before the run. Such a workload
    /// ends by itself, and a warm-up would leave few or no entries for the measurement.
    pub(crate) fn can_be_used_up(&self) -> bool {
        let mut operations = self.jobs.iter().flat_map(|job| &job.operations);
        operations.all(|operation| operation.weight == 0 || operation.keys == KeySource::Added)
    }
}

impl Operation {
    fn is_add(&self) -> bool {
        *self.kind.get_ref() == OperationName::Add
    }
}
