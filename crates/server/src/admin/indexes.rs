//! Indexes of a directory, and plans of searches, for `pando index` and `pando explain`.

use std::time::Instant;

use directory::Requester;
use directory::controls::RequestControls;
use directory::index::IndexKinds;
use directory::index::maintenance::IndexProgress;
use directory::index::sizes::IndexSizes;
use directory::index_build::build_indexes;
use directory::search::{Budget, Explanation, Search, Step};
use ldap::{FilterBuf, MessageId, Scope, SearchRequest, SelectionBuf};

use crate::admin::ownership::FolderOwner;
use crate::admin::verify::{check_data, open_read_only};
use crate::config::Config;
use crate::error::ServeError;
use crate::limits::{INDEX_BUILD_MEMORY, INDEX_SAMPLE, SLICE_BYTES_MAX, SLICE_ENTRIES_MAX};
use crate::open::Opened;
use crate::stamp::{micros_since, new_stamp};

/// A change to the index of an attribute type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexChange {
    /// Adds these index kinds.
    Add(IndexKinds),
    /// Removes these index kinds.
    Drop(IndexKinds),
}

/// Indexes of a data directory.
pub struct Indexes {
    /// Index kinds of each attribute with an index.
    pub defined: Vec<(String, IndexKinds)>,
    /// Indexes that are being built or removed.
    pub progress: Vec<IndexProgress>,
    /// Sizes of the complete indexes, if they were requested.
    pub sizes: Option<IndexSizes>,
}

fn open(config: Config) -> Result<Opened, ServeError> {
    check_data(&config)?;
    Opened::open_for_reading(config)
}

/// Returns the indexes of a data directory. A server may be using the directory. If `sizes` is set, also returns their
/// sizes.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn list_indexes(config: &Config, sizes: bool) -> Result<Indexes, ServeError> {
    let directory = open_read_only(config)?;
    let sizes = if sizes { Some(directory.index_sizes(INDEX_SAMPLE)?) } else { None };
    Ok(Indexes { defined: directory.indexes(), progress: directory.index_progress()?, sizes })
}

/// Changes the index of an attribute type and finishes all index work, including work that was interrupted before.
/// Calls `report` at intervals. Returns the index kinds after the change.
///
/// # Errors
/// There is no data, another process has it open, the type cannot have the index, or the disk is nearly full.
pub fn change_index(
    config: Config,
    attribute: &str,
    change: IndexChange,
    report: impl FnMut(&IndexProgress),
) -> Result<IndexKinds, ServeError> {
    let folder = config.data.clone();
    let _owner = FolderOwner::of(&folder);
    let mut opened = open(config)?;
    let defined = opened.directory().indexes();
    let attribute = opened.directory().attribute_name(attribute).unwrap_or_else(|| attribute.to_owned());
    let existing = defined.into_iter().find(|(name, _)| *name == attribute);
    let existing = existing.map_or(IndexKinds::NONE, |(_, kinds)| kinds);
    let kinds = match change {
        IndexChange::Add(kinds) => existing.with(kinds),
        IndexChange::Drop(kinds) => existing.without(kinds),
    };
    opened.define_index(&attribute, kinds)?;
    build_indexes(opened.writer().0, &folder, INDEX_BUILD_MEMORY, report)?;
    Ok(kinds)
}

impl Opened {
    /// Defines the index of an attribute type. Its rows are built when the directory is served.
    ///
    /// # Errors
    /// The type cannot have the index, or the directory fails.
    pub fn define_index(&mut self, attribute: &str, kinds: IndexKinds) -> Result<(), ServeError> {
        let (writer, random) = self.writer();
        writer.define_index(attribute, kinds, &new_stamp(random)?)?;
        Ok(())
    }
}

/// Error of [`explain`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The search was refused or failed.
    #[error("{code}: {diagnostic}")]
    Refused {
        /// The result code.
        code: ldap::ResultCode,
        /// The diagnostic text.
        diagnostic: String,
    },
    /// The base is a virtual entry. Searching it needs no plan.
    #[error("the search is not in the tree: nothing is planned")]
    NoPlan,
}

/// Carries out a search as the administrator, drops its results, and returns the explanation of its plan.
///
/// # Errors
/// There is no data, another process has it open, or the search is refused.
pub fn explain(
    config: Config,
    base: &str,
    scope: Scope,
    filter: &FilterBuf,
) -> Result<Explanation, ExplainError> {
    let requester = Requester::Administrator { dn: config.admin_dn.as_str().to_owned() };
    let opened = open(config)?;
    let snapshot = opened.directory().snapshot().map_err(ServeError::from)?;
    let mut selection = SelectionBuf::new();
    selection.push("1.1");
    let request = SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection());
    let controls = RequestControls { explain: true, ..RequestControls::default() };
    let refused = |outcome: directory::Outcome| ExplainError::Refused {
        code: outcome.code,
        diagnostic: outcome.diagnostic,
    };
    let begun_at = Instant::now();
    let mut search =
        Search::start(&snapshot, &requester.context(), MessageId(1), &request, &controls).map_err(refused)?;
    search.measure(micros_since(begun_at), Box::new(move || micros_since(begun_at)));
    let budget = Budget { entries_examined_max: SLICE_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };
    let mut out = Vec::new();
    while search.run(&snapshot, &mut out, &budget) == Step::More {
        out.clear();
    }
    let explanation = search.explanation(&snapshot).map_err(ServeError::from)?;
    explanation.ok_or(ExplainError::NoPlan)
}
