//! State shared by all threads of an import: target, allocated numbers, and the growing catalogue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schema::{AttributeDescription, ClassId, Schema};
use store::{Read, StoreError};

use super::vendor::{is_of_vendor, left_out_names};
use crate::catalog::{Allocations, AttributeDef, Catalog, Suffix, last_csn, last_entry_id};
use crate::database::check_versions;
use crate::model::csn::Csn;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{ClassSetId, EntryId};
use crate::tree::child;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Naming contexts to load, which the directory must have; empty for all.
    pub suffixes: Vec<String>,
    /// Whether existing entries of these are discarded; otherwise they must have none.
    pub replace: bool,
    /// Whether existing entries of these are kept, and those of the text added.
    pub add: bool,
    /// Whether clear passwords are stored unchanged instead of hashed.
    pub keep_clear_passwords: bool,
    /// creatorsName and modifiersName of entries without their own.
    pub creator: String,
    /// Current time in microseconds since 1970, for entries without their own.
    pub now_micros: u64,
    /// Attributes and object classes to leave out, by name.
    pub leave_out: Vec<String>,
    /// Attributes to rename: their names in the text, and those of the schema.
    pub renamed: Vec<(String, String)>,
    /// Whether the schema has the other server's own definitions. Its attributes are still converted or left out.
    pub has_foreign_schema: bool,
}

/// Error that ended an import without any change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The data directory cannot be opened, for example because it is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed, for example because the disk is full.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The existing data contradicts itself.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The import would bypass the cluster's log.
    #[error(
        "the data directory is a node of a cluster: import into a separate directory, and create a new cluster from it"
    )]
    Node,
    /// Another server decides the changes of the data.
    #[error(
        "another server decides the changes of this data: import at the supplier, then move this data directory away, \
         so that the next start copies it again"
    )]
    Replica,
    /// A naming context does not exist.
    #[error("the directory has no suffix {dn:?}; it has {known}")]
    UnknownSuffix {
        /// DN as requested.
        dn: String,
        /// Existing naming contexts.
        known: String,
    },
    /// An attribute of the schema that the options name does not exist.
    #[error("the attribute type {name:?}, to which another is to be renamed, is not defined in the schema")]
    UnknownAttribute {
        /// Name as given.
        name: String,
    },
    /// A naming context already has entries.
    #[error("{dn:?} already has entries: use --replace to discard them, or --add to keep them")]
    NotEmpty {
        /// DN of the naming context.
        dn: String,
    },
    /// The naming context to replace is ambiguous.
    #[error("use --suffix to choose which of these is to be replaced: {known}")]
    WhichSuffix {
        /// Existing naming contexts.
        known: String,
    },
    /// A temporary file cannot be used.
    #[error("temporary file: {0}")]
    File(#[from] std::io::Error),
    /// There are no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// Data read from a temporary file differs from what was written.
    #[error("temporary files are damaged: {0}")]
    Damaged(&'static str),
}

impl From<store::OpenError> for ImportError {
    fn from(error: store::OpenError) -> ImportError {
        ImportError::Open(error.into())
    }
}

/// State of an import, shared by its threads.
pub struct Job {
    pub(super) schema: Arc<Schema>,
    catalog: Mutex<Catalog>,
    /// Number of attributes and class sets before the import.
    pub(super) known_attributes: usize,
    pub(super) known_class_sets: usize,
    /// Every naming context, and the places of those that are loaded.
    pub(super) suffixes: Vec<Suffix>,
    pub(super) targets: Vec<usize>,
    pub(super) replace: bool,
    pub(super) keep_clear_passwords: bool,
    pub(super) creator: String,
    /// Names of what is left out: those of other servers, then the operator's.
    left_out_names: Vec<String>,
    /// Number of the names of other servers.
    vendor_count: usize,
    /// Whether an object class can be among the operator's names.
    pub(super) leaves_classes_out: bool,
    renamed: Vec<(String, String)>,
    has_foreign_schema: bool,
    /// The last id in use before.
    pub(super) last_old_id: EntryId,
    /// Position of the import's record in the log.
    pub(super) position: u64,
    /// CSN of the first entry; each further one has the next microsecond.
    pub(super) first_csn: Csn,
}

impl Job {
    /// Checks the existing data and the options.
    ///
    /// # Errors
    /// The data is unusable, or a naming context does not exist or is not empty.
    pub fn begin(read: &Read, options: ImportOptions) -> Result<Job, ImportError> {
        if check_versions(read)? {
            return Err(OpenError::damaged("format versions").into());
        }
        let catalog = Catalog::load(read)?;
        let targets = targets(&catalog, &options)?;
        if !options.replace && !options.add {
            for suffix in targets.iter().filter_map(|target| catalog.suffixes.get(*target)) {
                if child(read, EntryId::ROOT, &suffix.key)?.is_some() {
                    return Err(ImportError::NotEmpty { dn: suffix.dn.clone() });
                }
            }
        }
        let unknown = options.renamed.iter().find(|(_, new)| catalog.schema.attribute_type(new).is_none());
        if let Some((_, name)) = unknown {
            return Err(ImportError::UnknownAttribute { name: name.clone() });
        }
        let mut left_out_names: Vec<String> = left_out_names().map(str::to_owned).collect();
        let vendor_count = left_out_names.len();
        left_out_names.extend_from_slice(&options.leave_out);
        Ok(Job {
            left_out_names,
            vendor_count,
            leaves_classes_out: !options.leave_out.is_empty(),
            renamed: options.renamed,
            has_foreign_schema: options.has_foreign_schema,
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

    /// Returns the id of the first record of the text.
    pub fn first_id(&self) -> u64 {
        self.last_old_id.0 + 1
    }

    /// Returns the DNs of the naming contexts that are loaded.
    pub fn target_suffixes(&self) -> impl Iterator<Item = &str> {
        self.target_list().map(|suffix| suffix.dn.as_str())
    }

    /// Returns the name of what is left out, by its place.
    pub fn left_out_name(&self, place: usize) -> &str {
        self.left_out_names.get(place).map_or("", String::as_str)
    }

    /// Returns the place of a name that is left out.
    pub(super) fn left_out(&self, name: &str) -> Option<usize> {
        self.left_out_names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns the place of a name that the operator leaves out.
    pub(super) fn left_out_by_operator(&self, name: &str) -> Option<usize> {
        let own = self.left_out_names.get(self.vendor_count..)?;
        let place = own.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(self.vendor_count + place)
    }

    /// Returns the new name of an attribute that the operator renames.
    pub(super) fn renamed(&self, name: &str) -> Option<&str> {
        let renamed = self.renamed.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        renamed.map(|(_, new)| new.as_str())
    }

    /// Returns true if values of this name are stored as they are: the schema defines it, and not only because the
    /// other server has it for itself.
    pub(super) fn defines(&self, name: &str) -> bool {
        let defined = self.schema.attribute_type(name);
        defined.is_some_and(|defined| !(self.has_foreign_schema && is_of_vendor(&defined.oid)))
    }

    pub(super) fn target_list(&self) -> impl Iterator<Item = &Suffix> {
        self.targets.iter().filter_map(|target| self.suffixes.get(*target))
    }

    /// Returns the loaded suffix at or above a normal DN.
    pub(super) fn target_above(&self, normal_dn: &[u8]) -> Option<&Suffix> {
        self.target_list().find(|suffix| normal_dn.starts_with(&suffix.key))
    }

    /// Returns the CSN of an entry without its own.
    pub(super) fn csn(&self, id: EntryId) -> Csn {
        let micros = self.first_csn.micros + id.0.saturating_sub(self.first_id());
        Csn { micros, ..self.first_csn }
    }

    /// Returns the attribute of a description, and allocates a number if it has none.
    pub(super) fn attribute(&self, description: &AttributeDescription) -> Result<AttributeDef, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.attribute(description);
        let (attributes, _) = allocations.into_parts();
        attributes.iter().try_for_each(|allocation| catalog.add_attribute(allocation))?;
        Ok(catalog.attribute(id).clone())
    }

    /// Returns the number of a set of classes, and allocates one if it has none.
    pub(super) fn class_set(&self, classes: &[ClassId]) -> Result<ClassSetId, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.class_set(classes);
        let (_, class_sets) = allocations.into_parts();
        class_sets.iter().try_for_each(|allocation| catalog.add_class_set(allocation))?;
        Ok(id)
    }

    /// Returns the catalogue in its present state.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the places of the naming contexts to be loaded.
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
