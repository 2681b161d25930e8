//! State shared by all threads of an import: target, allocated numbers, and the growing catalog.

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
    /// Naming contexts to import. The naming contexts must exist in the directory. Empty for all naming contexts.
    pub suffixes: Vec<String>,
    /// Whether to discard the existing entries of these naming contexts. If `replace` and `add` are false, there must
    /// be no existing entries.
    pub replace: bool,
    /// Whether to keep the existing entries of these naming contexts, and add the imported entries.
    pub add: bool,
    /// Whether to store clear passwords unchanged instead of hashing them.
    pub keep_clear_passwords: bool,
    /// Value of creatorsName and modifiersName for entries without them.
    pub creator: String,
    /// Current time in microseconds since 1970, for entries without timestamps.
    pub now_micros: u64,
    /// Attributes and object classes to leave out, by name.
    pub leave_out: Vec<String>,
    /// Attributes to rename, each with its name in the text and its name in the schema.
    pub renamed: Vec<(String, String)>,
    /// Whether the schema contains the other server's definitions. Even then, attributes that [`super::vendor`] lists
    /// are converted or left out.
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
    /// The directory is a replica, so changes are made at its supplier.
    #[error(
        "another server decides the changes of this data: import at the supplier, then move this data directory away, \
         so that the next start copies it again"
    )]
    Replica,
    /// A naming context does not exist.
    #[error("the directory has no suffix {dn:?}; it has {known}")]
    UnknownSuffix {
        /// The DN as given in the options.
        dn: String,
        /// Existing naming contexts.
        known: String,
    },
    /// The options give an attribute a name that the schema does not define.
    #[error("the attribute type {name:?}, to which another is to be renamed, is not defined in the schema")]
    UnknownAttribute {
        /// The name as given in the options.
        name: String,
    },
    /// A naming context already has entries.
    #[error("{dn:?} already has entries: use --replace to discard them, or --add to keep them")]
    NotEmpty {
        /// DN of the naming context.
        dn: String,
    },
    /// The options name no naming context, and several could be replaced.
    #[error("use --suffix to choose which of these is to be replaced: {known}")]
    WhichSuffix {
        /// Existing naming contexts.
        known: String,
    },
    /// A temporary file cannot be used.
    #[error("temporary file: {0}")]
    File(#[from] std::io::Error),
    /// The operating system returned no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// Data in a temporary file differ from the data that were written.
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
    /// Counts of attributes and class sets before the import.
    pub(super) known_attributes: usize,
    pub(super) known_class_sets: usize,
    /// All naming contexts. `targets` contains the indexes of the naming contexts to import.
    pub(super) suffixes: Vec<Suffix>,
    pub(super) targets: Vec<usize>,
    pub(super) replace: bool,
    pub(super) keep_clear_passwords: bool,
    pub(super) creator: String,
    /// Names of attributes and classes to leave out: first names that are known from other servers, then names in the
    /// options.
    left_out_names: Vec<String>,
    /// Number of names in `left_out_names` that are known from other servers.
    vendor_count: usize,
    /// Whether a name in the options may be the name of an object class.
    pub(super) leaves_classes_out: bool,
    renamed: Vec<(String, String)>,
    has_foreign_schema: bool,
    /// Highest entry id before the import.
    pub(super) last_old_id: EntryId,
    /// Log position of the import's record.
    pub(super) position: u64,
    /// CSN of the first entry. The CSN of each further entry is one microsecond later.
    pub(super) first_csn: Csn,
}

impl Job {
    /// Checks the existing data and the options.
    ///
    /// # Errors
    /// The data are unusable. A naming context does not exist, or has entries although the options neither replace nor
    /// add. An option contains an unknown attribute, or names no naming context to replace although there are several.
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

    /// Returns the DNs of the naming contexts to import.
    pub fn target_suffixes(&self) -> impl Iterator<Item = &str> {
        self.target_list().map(|suffix| suffix.dn.as_str())
    }

    /// Returns the name at this place of the list of names to leave out.
    pub fn left_out_name(&self, place: usize) -> &str {
        self.left_out_names.get(place).map_or("", String::as_str)
    }

    /// Returns the place of a name in the list of names to leave out.
    pub(super) fn left_out(&self, name: &str) -> Option<usize> {
        self.left_out_names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns the place of a name in the list of names to leave out, if the options contain the name.
    pub(super) fn left_out_by_operator(&self, name: &str) -> Option<usize> {
        let own = self.left_out_names.get(self.vendor_count..)?;
        let place = own.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(self.vendor_count + place)
    }

    /// Returns the new name of an attribute that the options rename.
    pub(super) fn renamed(&self, name: &str) -> Option<&str> {
        let renamed = self.renamed.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        renamed.map(|(_, new)| new.as_str())
    }

    /// Returns true if values under this name are stored unchanged. This is the case if the schema defines the name,
    /// and the definition does not come from the other server.
    pub(super) fn defines(&self, name: &str) -> bool {
        let defined = self.schema.attribute_type(name);
        defined.is_some_and(|defined| !(self.has_foreign_schema && is_of_vendor(&defined.oid)))
    }

    pub(super) fn target_list(&self) -> impl Iterator<Item = &Suffix> {
        self.targets.iter().filter_map(|target| self.suffixes.get(*target))
    }

    /// Returns the imported suffix that contains a normal DN.
    pub(super) fn target_above(&self, normal_dn: &[u8]) -> Option<&Suffix> {
        self.target_list().find(|suffix| normal_dn.starts_with(&suffix.key))
    }

    /// Returns the CSN of an entry without entryCSN.
    pub(super) fn csn(&self, id: EntryId) -> Csn {
        let micros = self.first_csn.micros + id.0.saturating_sub(self.first_id());
        Csn { micros, ..self.first_csn }
    }

    /// Returns the attribute with this description. Allocates a number if the attribute has none.
    pub(super) fn attribute(&self, description: &AttributeDescription) -> Result<AttributeDef, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.attribute(description);
        let (attributes, _) = allocations.into_parts();
        attributes.iter().try_for_each(|allocation| catalog.add_attribute(allocation))?;
        Ok(catalog.attribute(id).clone())
    }

    /// Returns the number of a set of classes. Allocates a number if the set has none.
    pub(super) fn class_set(&self, classes: &[ClassId]) -> Result<ClassSetId, OpenError> {
        let mut catalog = self.catalog();
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.class_set(classes);
        let (_, class_sets) = allocations.into_parts();
        class_sets.iter().try_for_each(|allocation| catalog.add_class_set(allocation))?;
        Ok(id)
    }

    /// Returns the catalog in its present state.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the naming contexts to import, as indexes in the catalog's list of suffixes.
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
