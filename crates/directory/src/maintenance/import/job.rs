//! What all threads of an import share: where it goes, the numbers it gives out, the catalogue as it grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schema::{AttributeDescription, ClassId, Schema};
use store::{Read, StoreError};

use crate::catalog::{Allocations, AttributeDef, Catalog, Suffix, last_csn, last_entry_id};
use crate::database::check_versions;
use crate::model::csn::Csn;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{ClassSetId, EntryId};
use crate::tree::child;

/// What to import, and how.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Naming contexts to load, which the directory has; none means all that it has.
    pub suffixes: Vec<String>,
    /// Whether entries that these have are thrown away; otherwise they must have none.
    pub replace: bool,
    /// Whether clear passwords are stored as they are instead of hashed.
    pub keep_clear_passwords: bool,
    /// creatorsName and modifiersName of entries that do not bring their own.
    pub creator: String,
    /// The time now, in microseconds since 1970: that of entries that do not bring their own.
    pub now_micros: u64,
}

/// Why an import ended without anything being changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The data directory cannot be opened; in use is one of the reasons.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed, for example because the disk is full.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data that is there contradicts itself.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// It would change behind the cluster's log.
    #[error(
        "the data directory is a node of a cluster: import into a directory of its own, and make a new cluster of that"
    )]
    Node,
    /// There is no such naming context.
    #[error("the directory has no suffix {dn:?}; it has {known}")]
    UnknownSuffix {
        /// As asked for.
        dn: String,
        /// Those there are.
        known: String,
    },
    /// A naming context has entries already.
    #[error(
        "there are entries below {dn:?} already: --replace throws them away, or load into an empty suffix"
    )]
    NotEmpty {
        /// The suffix.
        dn: String,
    },
    /// It is not clear which naming context is to be replaced.
    #[error("say with --suffix which of these is to be replaced: {known}")]
    WhichSuffix {
        /// Those there are.
        known: String,
    },
    /// A temporary file cannot be used.
    #[error("temporary file: {0}")]
    File(#[from] std::io::Error),
    /// There are no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// What came back from a temporary file is not what went there.
    #[error("temporary files are damaged: {0}")]
    Damaged(&'static str),
}

impl From<store::OpenError> for ImportError {
    fn from(error: store::OpenError) -> ImportError {
        ImportError::Open(error.into())
    }
}

/// An import as all its threads see it.
pub struct Job {
    pub(super) schema: Arc<Schema>,
    catalog: Mutex<Catalog>,
    /// What the catalogue had before.
    pub(super) known_attributes: usize,
    pub(super) known_class_sets: usize,
    /// Every naming context, and the places of those that are loaded.
    pub(super) suffixes: Vec<Suffix>,
    pub(super) targets: Vec<usize>,
    pub(super) replace: bool,
    pub(super) keep_clear_passwords: bool,
    pub(super) creator: String,
    /// The last id that was there.
    pub(super) last_old_id: EntryId,
    /// Position of the record that the import will be in the log.
    pub(super) position: u64,
    /// CSN of the first entry; each further one has the next microsecond.
    pub(super) first_csn: Csn,
}

impl Job {
    /// Looks at the data that is there and at what is asked for.
    ///
    /// # Errors
    /// The data is not usable, a naming context is not there or not empty.
    pub fn begin(read: &Read, options: ImportOptions) -> Result<Job, ImportError> {
        if check_versions(read)? {
            return Err(OpenError::damaged("format versions").into());
        }
        let catalog = Catalog::load(read)?;
        let targets = targets(&catalog, &options)?;
        if !options.replace {
            for suffix in targets.iter().filter_map(|target| catalog.suffixes.get(*target)) {
                if child(read, EntryId::ROOT, &suffix.key)?.is_some() {
                    return Err(ImportError::NotEmpty { dn: suffix.dn.clone() });
                }
            }
        }
        Ok(Job {
            schema: Arc::clone(&catalog.schema),
            known_attributes: catalog.attributes().len(),
            known_class_sets: catalog.class_sets().len(),
            suffixes: catalog.suffixes.clone(),
            targets,
            replace: options.replace,
            keep_clear_passwords: options.keep_clear_passwords,
            creator: options.creator,
            last_old_id: last_entry_id(read)?,
            position: read.position()? + 1,
            first_csn: Csn::after(last_csn(read)?, options.now_micros, crate::database::SERVER_NUMBER),
            catalog: Mutex::new(catalog),
        })
    }

    /// The id of the first record of the text.
    pub fn first_id(&self) -> u64 {
        self.last_old_id.0 + 1
    }

    /// DNs of the naming contexts that are loaded.
    pub fn target_suffixes(&self) -> impl Iterator<Item = &str> {
        self.target_list().map(|suffix| suffix.dn.as_str())
    }

    pub(super) fn target_list(&self) -> impl Iterator<Item = &Suffix> {
        self.targets.iter().filter_map(|target| self.suffixes.get(*target))
    }

    /// The suffix that is loaded and at or above a normal DN.
    pub(super) fn target_above(&self, normal_dn: &[u8]) -> Option<&Suffix> {
        self.target_list().find(|suffix| normal_dn.starts_with(&suffix.key))
    }

    /// The CSN of an entry that does not bring one.
    pub(super) fn csn(&self, id: EntryId) -> Csn {
        let micros = self.first_csn.micros + id.0.saturating_sub(self.first_id());
        Csn { micros, ..self.first_csn }
    }

    /// The attribute of a description, with a new number where it has none.
    pub(super) fn attribute(&self, description: &AttributeDescription) -> Result<AttributeDef, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.attribute(description);
        let (attributes, _) = allocations.into_parts();
        attributes.iter().try_for_each(|allocation| catalog.add_attribute(allocation))?;
        Ok(catalog.attribute(id).clone())
    }

    /// The number of a set of classes, a new one where it has none.
    pub(super) fn class_set(&self, classes: &[ClassId]) -> Result<ClassSetId, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.class_set(classes);
        let (_, class_sets) = allocations.into_parts();
        class_sets.iter().try_for_each(|allocation| catalog.add_class_set(allocation))?;
        Ok(id)
    }

    /// The catalogue as it is now.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places of the naming contexts that are to be loaded.
fn targets(catalog: &Catalog, options: &ImportOptions) -> Result<Vec<usize>, ImportError> {
    let known = || catalog.suffixes.iter().map(|suffix| suffix.dn.as_str()).collect::<Vec<_>>().join(", ");
    if options.suffixes.is_empty() {
        if options.replace && catalog.suffixes.len() > 1 {
            return Err(ImportError::WhichSuffix { known: known() });
        }
        return Ok((0..catalog.suffixes.len()).collect());
    }
    let mut targets = Vec::new();
    for dn in &options.suffixes {
        let key = catalog.suffix_of(dn)?.key;
        match catalog.suffixes.iter().position(|suffix| suffix.key == key) {
            Some(place) if targets.contains(&place) => {}
            Some(place) => targets.push(place),
            None => return Err(ImportError::UnknownSuffix { dn: dn.clone(), known: known() }),
        }
    }
    Ok(targets)
}
