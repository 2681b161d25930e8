//! The only writer of a directory.
//!
//! [`WriteBatch::execute`] makes a change in three steps: `decide` checks the request and returns a record, `apply`
//! writes the effect of the record to the rows, and the record is appended to the log. All operations of a batch
//! become durable with one sync in [`WriteBatch::commit`]. Until the commit, only the batch sees these operations.

use std::sync::Arc;

use ldap::{
    ControlsBuf, GeneratedApplication, OwnCredentials, RefreshRequest, Request, ResultCode, StateRequest,
    UndeleteAnswer, UndeleteRequest, oids,
};
use schema::AttributeDescription;
use store::{Batch, Savepoint, SetInserter, StoreError};

use super::record_limit::{RecordLimit, RecordRoom};
use super::{SERVER_NUMBER, copies};
use crate::access::{RequestContext, Requester};
use crate::accounts::managed::ManagedAccount;
use crate::catalog::{self, Allocations, AttributeAllocation, Catalog};
use crate::index::check_kinds;
use crate::index::maintenance::{self, IndexProgress, IndexWork, SliceBudget};
use crate::model::copy_states::CopyStates;
use crate::model::csn::Csn;
use crate::model::index_definition::IndexKinds;
use crate::model::limits::LOG_TRIM_SLICE;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::record::{Change, LastValue, Record};
use crate::model::rows::EntryId;
use crate::model::settings::{Settings, SettingsRecord};
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::read::log_changes::old_values;
use crate::read::search::check_no_assertion;
use crate::settings::{self, Difference, DirectorySettings, SettingsError, change_entries};
use crate::snapshot::Directory;
use crate::tree::TreeState;
use crate::write::account_update::{self, AccountUpdate};
use crate::write::apply::apply;
use crate::write::decide::decide;
use crate::write::deciding::Deciding;
use crate::write::{dynamic_entries, own_credentials, password_state, undelete};

/// The only object that can change a directory.
pub struct Writer {
    directory: Arc<Directory>,
    store: store::Writer,
    catalog: Arc<Catalog>,
    /// Whether changes are allowed. False for a cluster node or a replica, unless the caller follows the log from
    /// which the directory receives its changes.
    may_change: bool,
    /// Whether the directory is a cluster node or a replica, so that its settings also apply to other machines.
    is_node: bool,
}

impl Writer {
    pub(super) fn new(
        directory: Arc<Directory>,
        store: store::Writer,
        catalog: Arc<Catalog>,
        (may_change, is_node): (bool, bool),
    ) -> Writer {
        Writer { directory, store, catalog, may_change, is_node }
    }

    /// Like [`Snapshot::cache_rows`](crate::Snapshot::cache_rows), for the reads that changes make.
    pub fn cache_rows(&mut self, bytes_max: usize) {
        self.store.cache_rows(bytes_max);
    }

    /// Begins a batch. If the disk is nearly full, the batch accepts only deletes, which free space.
    ///
    /// # Errors
    /// The store failed, or accepts no writes after a failed sync.
    pub fn begin(&mut self) -> Result<WriteBatch<'_>, OperationError> {
        self.check_may_change()?;
        let settings = self.directory.settings();
        let full = match self.store.check_reserve() {
            Ok(()) => None,
            Err(error @ StoreError::DiskFull { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        Ok(WriteBatch {
            batch: self.store.begin_in_reserve()?,
            directory: &self.directory,
            catalog: self.catalog.clone(),
            committed: &mut self.catalog,
            settings,
            full,
            failure: None,
            record_limit: RecordLimit::new(RecordRoom::of_bytes(usize::MAX), 0),
            is_node: self.is_node,
            refuses_trees: false,
            last_value: LastValue::EmptyDn,
            may_keep_deleted: true,
            may_trace_deletes: true,
            may_end_values: true,
            may_link: true,
            promoted: None,
        })
    }

    pub(super) fn allow_changes(&mut self) {
        (self.may_change, self.is_node) = (true, false);
    }

    pub(super) fn is_of_supplier(&mut self) {
        self.is_node = true;
    }

    fn check_may_change(&self) -> Result<(), OperationError> {
        if self.may_change {
            return Ok(());
        }
        let view = self.directory.store.view()?;
        if catalog::is_node(&view)? {
            let text = "the data directory is a node of a cluster: it can change only through the cluster's log, while \
                        a server runs on it";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        let text =
            "a replica changes only through the log of its supplier, while a server runs on its directory";
        Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text))
    }

    /// Begins a batch for repairs. Such a batch writes rows without a record.
    pub(crate) fn begin_repair(&mut self) -> Result<Batch<'_>, OperationError> {
        self.check_may_change()?;
        Ok(self.store.begin()?)
    }

    /// Defines the index of an attribute type; [`IndexKinds::NONE`] removes the index. The definition is durable on
    /// return. Every later change maintains the index. [`run_maintenance_slice`](Writer::run_maintenance_slice) builds
    /// or removes the rows of existing entries. Searches use the index when its rows are complete. Returns false if
    /// the definition is unchanged.
    ///
    /// # Errors
    /// The schema does not define the type, the type cannot have such an index, or the store failed.
    pub fn define_index(
        &mut self,
        attribute: &str,
        kinds: IndexKinds,
        stamp: &Stamp,
    ) -> Result<bool, OperationError> {
        let mut batch = self.begin()?;
        let is_new = batch.define_index(attribute, kinds, stamp)?;
        batch.commit()?;
        Ok(is_new)
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// See [`store::Writer::insert_sets`].
    pub(crate) fn insert_sets(&mut self) -> Result<SetInserter<'_>, OperationError> {
        Ok(self.store.insert_sets()?)
    }

    /// Marks these parts of indexes as complete. Durable on return.
    pub(crate) fn complete_indexes(&mut self, work: &IndexWork) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        maintenance::complete(&mut batch.batch, &mut batch.catalog, work)?;
        batch.commit()
    }

    /// Returns true if index rows remain to be built or removed.
    pub fn maintenance_pending(&self) -> bool {
        maintenance::is_pending(&self.catalog)
    }

    /// See [`Directory::index_progress`].
    ///
    /// # Errors
    /// The store failed.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        self.directory.index_progress()
    }

    /// Builds or removes some index rows in a separate batch. A batch takes a few milliseconds and one sync. Returns
    /// true if more rows remain. If the process ends, a later process continues after the last committed slice.
    ///
    /// # Errors
    /// The disk is nearly full, or the store failed. No row of the slice is stored.
    pub fn run_maintenance_slice(
        &mut self,
        budget: &SliceBudget,
        maybe_yield: &mut dyn FnMut(),
    ) -> Result<bool, OperationError> {
        let mut batch = self.begin()?;
        if let Some(full) = &batch.full
            && maintenance::builds_rows(&batch.catalog)
        {
            return Err(full.clone().into());
        }
        if maintenance::run_slice(&mut batch.batch, &mut batch.catalog, budget, maybe_yield)? {
            batch.commit()?;
        } else {
            drop(batch);
        }
        Ok(self.maintenance_pending())
    }

    /// Like [`WriteBatch::change_settings`], in a separate batch. Durable on return.
    ///
    /// # Errors
    /// See [`WriteBatch::change_settings`].
    pub fn change_settings(
        &mut self,
        requester: &str,
        proposal: &DirectorySettings,
        stamp: &Stamp,
    ) -> Result<Vec<Difference>, SettingsError> {
        let mut batch = self.begin()?;
        let differences = batch.change_settings(requester, proposal, stamp)?;
        batch.commit()?;
        Ok(differences)
    }

    /// Sets the administrator's password to this stored form. The change is durable when the function returns.
    ///
    /// # Errors
    /// The store failed.
    pub fn set_administrator_password(
        &mut self,
        stored: Vec<u8>,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        batch.record_with("", Change::Administrator { stored }, Vec::new(), stamp)?;
        batch.commit()
    }
}

/// Operations that become durable and visible together.
pub struct WriteBatch<'w> {
    pub(super) batch: Batch<'w>,
    directory: &'w Directory,
    pub(super) catalog: Arc<Catalog>,
    committed: &'w mut Arc<Catalog>,
    pub(super) settings: Arc<Settings>,
    /// Error for changes other than deletes, if the disk is nearly full.
    full: Option<StoreError>,
    /// Reason why rows could not be written. An operation may be half applied, so the batch cannot be committed.
    failure: Option<BatchFailure>,
    /// Room for further records; see [`limit_records`](WriteBatch::limit_records).
    pub(super) record_limit: RecordLimit,
    /// Whether the directory is a cluster node or a replica, as in [`Writer`].
    is_node: bool,
    /// Whether tree deletes are refused, because some nodes of the cluster do not support their records: see
    /// [`refuse_trees`](WriteBatch::refuse_trees).
    pub(super) refuses_trees: bool,
    /// Form of delete records: see [`keep_deleted_dns`](WriteBatch::keep_deleted_dns).
    pub(super) last_value: LastValue,
    /// False if deletes keep no tombstones, because some nodes of the cluster do not support them: see
    /// [`keep_none`](WriteBatch::keep_none).
    pub(super) may_keep_deleted: bool,
    /// False if delete records have no traces, because some nodes of the cluster do not support them: see
    /// [`omit_delete_traces`](WriteBatch::omit_delete_traces).
    pub(super) may_trace_deletes: bool,
    /// False if end times of values are refused, because some nodes of the cluster do not support them: see
    /// [`refuse_ends`](WriteBatch::refuse_ends).
    pub(super) may_end_values: bool,
    /// False if `X-LINK` is refused, because some nodes of the cluster do not support it: see
    /// [`refuse_links`](WriteBatch::refuse_links).
    pub(super) may_link: bool,
    /// States of all promoted trees after a promotion in this batch: see [`promote`](WriteBatch::promote). `None`
    /// without a promotion.
    pub(super) promoted: Option<Arc<CopyStates>>,
}

/// State of a batch to which operations can be rolled back.
pub(super) struct BatchSavepoint {
    batch: Savepoint,
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
    pub(super) room_left: RecordRoom,
}

/// Failure after which a batch cannot be committed.
enum BatchFailure {
    /// The store failed. Every further operation of the batch returns this error.
    Store(StoreError),
    /// Rows contradict each other.
    Damaged(String),
}

impl WriteBatch<'_> {
    /// Returns the error that reports a nearly full disk, or `None`. If there is such an error, the batch accepts only
    /// deletes.
    pub fn disk_full(&self) -> Option<&StoreError> {
        self.full.as_ref()
    }

    /// Executes an add, delete, modify or modify DN request. The request sees the changes of earlier operations of the
    /// batch. A refused request has no effect. The outcome is valid only after the batch is committed.
    pub fn execute(
        &mut self,
        context: &RequestContext<'_>,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
    ) -> Outcome {
        self.execute_and_copy(context, request, controls, stamp, &mut ControlsBuf::new())
    }

    /// Like [`execute`](WriteBatch::execute). Also adds the pre-read and post-read response controls that the request
    /// specifies (RFC 4527).
    pub fn execute_and_copy(
        &mut self,
        context: &RequestContext<'_>,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
        copies: &mut ControlsBuf,
    ) -> Outcome {
        let outcome = match self.try_execute(context, request, controls, stamp, copies) {
            Ok(note) => Outcome { diagnostic: note, ..Outcome::success() },
            Err(error) => Outcome::from(error),
        };
        if outcome.code != ResultCode::SUCCESS {
            copies.clear();
        }
        outcome
    }

    /// Executes a request. Returns the diagnostic text for success.
    fn try_execute(
        &mut self,
        context: &RequestContext<'_>,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
        copies: &mut ControlsBuf,
    ) -> Result<String, OperationError> {
        match request {
            Request::Delete(_) => self.check_failure()?,
            _ => self.check_room()?,
        }
        if let Some(proposal) = change_entries::proposal(self.state(), context.requester, request)? {
            check_no_assertion(controls)?;
            copies::check_none(controls)?;
            return self.make_or_rehearse(controls, |batch| {
                let changed = batch.change_settings(context.requester.dn(), &proposal, stamp);
                changed.map(|_| String::new()).map_err(change_entries::refusal)
            });
        }
        if self.refuses_trees && controls.tree_delete() {
            let text = "a node of the cluster runs a version without tree delete; update all nodes first";
            return Err(OperationError::refused(ResultCode::UNAVAILABLE, text));
        }
        if !self.settings.node.followed.is_empty() && !controls.follows_source() {
            self.check_not_followed(request)?;
        }
        match self.step_first(request)? {
            None => self.decide_and_make((context, controls), request, stamp, copies),
            // The batch contains either all records of the request, or none of them.
            Some(step) => self.transaction(|batch| {
                batch.link(step, stamp)?;
                batch.decide_and_make((context, controls), request, stamp, copies)
            }),
        }
    }

    fn decide_and_make(
        &mut self,
        (context, controls): (&RequestContext<'_>, &RequestControls),
        request: &Request<'_>,
        stamp: &Stamp,
        copies: &mut ControlsBuf,
    ) -> Result<String, OperationError> {
        let csn = self.next_csn(stamp)?;
        let record = decide(self.state(), context, request, controls, stamp, csn)?;
        if !self.may_end_values && record.as_ref().is_some_and(|record| record.change.has_ends()) {
            let text = "a node of the cluster runs a version without ends of values; update all nodes first";
            return Err(OperationError::refused(ResultCode::UNAVAILABLE, text));
        }
        self.catalog.check_allocations(record.as_ref(), context.requester.is_administrator())?;
        let subject = match record.as_ref().map(|record| &record.change) {
            _ if !controls.wants_copies() => None,
            Some(Change::Administrator { .. }) => copies::check_none(controls).map(|()| None)?,
            _ => Some(copies::subject(self.state(), request, record.as_ref())?),
        };
        let joining = self.joining(record.as_ref())?;
        let make = |batch: &mut Self| match subject {
            Some(id) => batch.make_with_copies(context, controls, stamp, (id, record), copies),
            None => batch.make(record, stamp).map(|()| String::new()),
        };
        self.make_or_rehearse(controls, |batch| match joining {
            None => make(batch),
            Some(joining) => batch.transaction(|batch| {
                let note = make(batch)?;
                batch.join(&joining, stamp).map(|()| note)
            }),
        })
    }

    /// Makes a change. With the control no operation, rolls the change back, because only making it shows whether it
    /// succeeds.
    fn make_or_rehearse(
        &mut self,
        controls: &RequestControls,
        make: impl FnOnce(&mut Self) -> Result<String, OperationError>,
    ) -> Result<String, OperationError> {
        match controls.no_operation() {
            false => make(self),
            true => self.transaction(|batch| make(batch).and_then(|_| Err(no_operation_outcome()))),
        }
    }

    /// Applies the record of a change and appends it to the log. Does nothing without a record.
    pub(super) fn make(&mut self, record: Option<Record>, stamp: &Stamp) -> Result<(), OperationError> {
        let Some(mut record) = record else { return Ok(()) };
        self.check_has_effect(&record.change)?;
        record.change.set_form_of_delete(self.last_value, self.may_keep_deleted, self.may_trace_deletes);
        record.origin = stamp.origin.clone();
        if stamp.keeps_old_values {
            record.origin.old_values = old_values(self.state(), &record.change)?;
        }
        self.append(&record)
    }

    /// Applies the record of a change of the entry `id`, and makes the requested pre-read and post-read copies (RFC
    /// 4527). Returns the diagnostic text for success. The text names missing copies with the reasons.
    ///
    /// # Errors
    /// A copy is missing and its control is critical. The change has then no effect.
    #[cold]
    #[inline(never)]
    fn make_with_copies(
        &mut self,
        context: &RequestContext<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
        (id, record): (EntryId, Option<Record>),
        copies: &mut ControlsBuf,
    ) -> Result<String, OperationError> {
        let (before, after) = controls.copies();
        let mut note = String::new();
        let mut missing = |oid: &str, why: Option<String>| {
            if let Some(why) = why {
                let which = if oid == oids::PRE_READ { "pre-read" } else { "post-read" };
                let separator = if note.is_empty() { "done, without the copy of" } else { ", nor that of" };
                note = format!("{note}{separator} {which}: {why}");
            }
        };
        if let Some(asked) = before {
            let why = copies::put(self.state(), context, id, (oids::PRE_READ, asked), copies)?;
            missing(oids::PRE_READ, why);
        }
        let savepoint = after.filter(|asked| asked.is_critical).map(|_| self.savepoint());
        self.make(record, stamp)?;
        if let Some(asked) = after {
            match copies::put(self.state(), context, id, (oids::POST_READ, asked), copies) {
                Ok(why) => missing(oids::POST_READ, why),
                Err(refusal @ OperationError::Refused { .. }) => {
                    if let Some(savepoint) = savepoint {
                        self.roll_back(savepoint);
                    }
                    return Err(refusal);
                }
                // The change is already in the batch, so the whole batch fails.
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
        Ok(note)
    }

    pub(super) fn savepoint(&self) -> BatchSavepoint {
        BatchSavepoint {
            batch: self.batch.savepoint(),
            catalog: Arc::clone(&self.catalog),
            settings: Arc::clone(&self.settings),
            room_left: self.record_limit.left,
        }
    }

    /// Rolls back the operations after a savepoint.
    pub(super) fn roll_back(&mut self, savepoint: BatchSavepoint) {
        let BatchSavepoint { batch, catalog, settings, room_left } = savepoint;
        self.batch.roll_back(batch);
        (self.catalog, self.settings, self.record_limit.left) = (catalog, settings, room_left);
    }

    /// Refuses a new administrator's password if the settings of this node contain a password. The password in the
    /// settings would take precedence. In a cluster the change is accepted, because other nodes may have no such
    /// setting.
    fn check_has_effect(&self, change: &Change) -> Result<(), OperationError> {
        let is_administrators = matches!(change, Change::Administrator { .. });
        if !is_administrators || self.is_node || self.settings.node.admin_password.is_none() {
            return Ok(());
        }
        let text = "this server takes the administrator's password from its node file or its start: change it there, \
                    or start without admin_password_file, to use the directory's";
        Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text))
    }

    /// Executes a Password Policy State request of a password administrator. Returns the response value. In other
    /// respects, works like [`execute`](WriteBatch::execute).
    ///
    /// # Errors
    /// The outcome of the request.
    pub fn change_password_state(
        &mut self,
        requester: &Requester,
        request: &StateRequest<'_>,
        stamp: &Stamp,
    ) -> Result<Vec<u8>, Outcome> {
        self.check_room()?;
        let csn = self.next_csn(stamp)?;
        let controls = RequestControls::default();
        let context = requester.context();
        let deciding = Deciding { state: self.state(), context: &context, controls: &controls, stamp, csn };
        if let Some(record) = password_state::decide(deciding, request)? {
            self.append(&record)?;
        }
        let now = i64::try_from(stamp.now_micros).unwrap_or(i64::MAX);
        Ok(ManagedAccount::find(self.state(), requester, request.user)?.answer(self.state(), request, now)?)
    }

    /// Changes the requester's own credentials. In other respects, works like [`execute`](WriteBatch::execute).
    ///
    /// # Errors
    /// The outcome of the request.
    pub fn change_own_credentials(
        &mut self,
        context: &RequestContext<'_>,
        request: &OwnCredentials<'_>,
        stamp: &Stamp,
    ) -> Result<(), Outcome> {
        self.make_own(context, stamp, |deciding| own_credentials::decide(deciding, request))
    }

    /// Stores a password that the server generated for an application of the requester. In other respects, works like
    /// [`execute`](WriteBatch::execute).
    ///
    /// # Errors
    /// The outcome of the request.
    pub fn add_application(
        &mut self,
        context: &RequestContext<'_>,
        generated: &GeneratedApplication<'_>,
        stamp: &Stamp,
    ) -> Result<(), Outcome> {
        self.make_own(context, stamp, |deciding| own_credentials::add_application(deciding, generated))
    }

    fn make_own(
        &mut self,
        context: &RequestContext<'_>,
        stamp: &Stamp,
        decide: impl FnOnce(Deciding<'_>) -> Result<Option<Record>, OperationError>,
    ) -> Result<(), Outcome> {
        self.check_room()?;
        self.check_follows_none()?;
        let csn = self.next_csn(stamp)?;
        let controls = RequestControls::default();
        let record = decide(Deciding { state: self.state(), context, controls: &controls, stamp, csn })?;
        self.catalog.check_allocations(record.as_ref(), context.requester.is_administrator())?;
        Ok(self.make(record, stamp)?)
    }

    /// Restores a deleted entry, and the entries below it that the same delete removed. In other respects, works like
    /// [`execute`](WriteBatch::execute).
    ///
    /// # Errors
    /// The outcome of the request.
    pub fn undelete(
        &mut self,
        context: &RequestContext<'_>,
        request: &UndeleteRequest<'_>,
        stamp: &Stamp,
    ) -> Result<UndeleteAnswer, Outcome> {
        self.check_room()?;
        self.check_follows_none()?;
        let csn = self.next_csn(stamp)?;
        let controls = RequestControls::default();
        let deciding = Deciding { state: self.state(), context, controls: &controls, stamp, csn };
        let (mut record, answer) = undelete::decide(deciding, request)?;
        record.origin = stamp.origin.clone();
        self.append(&record)?;
        Ok(answer)
    }

    /// Refreshes a dynamic entry (RFC 2589). Returns its new time to live in seconds. In other respects, works like
    /// [`execute`](WriteBatch::execute).
    ///
    /// # Errors
    /// The outcome of the request.
    pub fn refresh(
        &mut self,
        context: &RequestContext<'_>,
        request: &RefreshRequest<'_>,
        stamp: &Stamp,
    ) -> Result<u32, Outcome> {
        self.check_room()?;
        let csn = self.next_csn(stamp)?;
        let controls = RequestControls::default();
        let deciding = Deciding { state: self.state(), context, controls: &controls, stamp, csn };
        let (record, seconds) = dynamic_entries::refresh(deciding, request)?;
        self.make(Some(record), stamp)?;
        Ok(seconds)
    }

    /// Records password events of the entry `id`. In other respects, works like [`execute`](WriteBatch::execute).
    pub fn update_account(&mut self, id: EntryId, update: &AccountUpdate, stamp: &Stamp) -> Outcome {
        self.try_update_account(id, update, stamp).map_or_else(Outcome::from, |()| Outcome::success())
    }

    fn try_update_account(
        &mut self,
        id: EntryId,
        update: &AccountUpdate,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        self.check_room()?;
        let csn = self.next_csn(stamp)?;
        account_update::decide(self.state(), id, update, stamp, csn)?
            .map_or(Ok(()), |record| self.append(&record))
    }

    pub(super) fn check_failure(&self) -> Result<(), OperationError> {
        match &self.failure {
            None => Ok(()),
            Some(BatchFailure::Store(error)) => Err(error.clone().into()),
            Some(BatchFailure::Damaged(cause)) => {
                Err(OperationError::Damaged(format!("an operation of the same batch failed: {cause}")))
            }
        }
    }

    /// Checks that the batch accepts changes other than deletes.
    pub(super) fn check_room(&self) -> Result<(), OperationError> {
        self.check_failure()?;
        self.full.as_ref().map_or(Ok(()), |full| Err(full.clone().into()))
    }

    /// Returns the CSN for the next change.
    pub(super) fn next_csn(&self, stamp: &Stamp) -> Result<Csn, OperationError> {
        Ok(Csn::after(catalog::last_csn(&self.batch)?, stamp.now_micros, SERVER_NUMBER))
    }

    /// See [`Writer::define_index`].
    ///
    /// # Errors
    /// See [`Writer::define_index`].
    pub fn define_index(
        &mut self,
        attribute: &str,
        kinds: IndexKinds,
        stamp: &Stamp,
    ) -> Result<bool, OperationError> {
        let refuse = |text: String| OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text);
        let schema = Arc::clone(&self.catalog.schema);
        let attribute_type = schema
            .attribute_type(attribute)
            .ok_or_else(|| refuse(format!("attribute type {attribute:?} is not defined")))?;
        check_kinds(attribute_type, &schema, kinds).map_err(refuse)?;
        let catalog = Arc::clone(&self.catalog);
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.attribute(&AttributeDescription::of(attribute_type.id));
        let known = catalog.attributes().get(id.0 as usize);
        if known.map_or(kinds.is_none(), |def| def.index.kinds == kinds) {
            return Ok(false);
        }
        let change = SettingsRecord { indexes: vec![(id, kinds)], ..SettingsRecord::default() };
        self.record_with("", Change::Settings(change), allocations.into_parts().0, stamp)?;
        Ok(true)
    }

    /// Applies directory-wide settings with one record. Returns the differences from the settings in force; empty if
    /// there are none.
    ///
    /// # Errors
    /// Problems in the settings, or reasons why the present data do not permit them. Nothing is then changed.
    pub fn change_settings(
        &mut self,
        requester: &str,
        proposal: &DirectorySettings,
        stamp: &Stamp,
    ) -> Result<Vec<Difference>, SettingsError> {
        self.check_room()?;
        let decided = settings::decide(self.state(), proposal)?;
        if !self.may_keep_deleted && proposal.general.keep_deleted_seconds > 0 {
            let text =
                "a node of the cluster runs a version that keeps no deleted entries; update all nodes first";
            return Err(SettingsError::Operation(OperationError::refused(ResultCode::UNAVAILABLE, text)));
        }
        self.check_links(&decided.record)?;
        if !decided.record.is_empty() {
            self.record_with(requester, Change::Settings(decided.record), decided.attributes, stamp)?;
        }
        Ok(decided.differences)
    }

    pub(super) fn record_with(
        &mut self,
        requester: &str,
        change: Change,
        attributes: Vec<AttributeAllocation>,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        let csn = self.next_csn(stamp)?;
        let requester = requester.to_owned();
        let origin = stamp.origin.clone();
        self.append(&Record { csn, requester, attributes, class_sets: Vec::new(), origin, change })
    }

    /// Appends a record that no request can produce, but that older data may contain.
    #[cfg(test)]
    pub(crate) fn append_unchecked(&mut self, record: &Record) -> Result<(), OperationError> {
        self.append(record)
    }

    fn append(&mut self, record: &Record) -> Result<(), OperationError> {
        let bytes = record.encode();
        if !self.record_limit.take(bytes.len()) {
            let text = "the change is too large for this batch";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        self.append_encoded(record, &bytes)
    }

    pub(super) fn append_encoded(&mut self, record: &Record, bytes: &[u8]) -> Result<(), OperationError> {
        let written = match self.batch.append_record(bytes) {
            Ok(position) => apply(&mut self.batch, &mut self.catalog, position, record),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = &written {
            self.fail(error);
        } else if let Change::Settings(_) = record.change {
            // Later operations of the batch use the new settings.
            let mut settings = Settings::of(&self.directory.lock_node(), &self.catalog.settings.general);
            settings.node.followed = self.settings.node.followed.clone();
            self.settings = Arc::new(settings);
        }
        written
    }

    /// Marks the batch as failed. An operation may be half applied, so the batch can no longer be committed.
    fn fail(&mut self, error: &OperationError) {
        self.failure = Some(match error {
            OperationError::Store(error) => BatchFailure::Store(error.clone()),
            other => BatchFailure::Damaged(other.to_string()),
        });
    }

    /// Returns the state of the directory with the operations of the batch so far.
    pub fn state(&self) -> TreeState<'_> {
        TreeState::of_readers(&self.batch, &self.catalog, &self.settings)
    }

    /// Makes the batch durable with one sync, then visible.
    ///
    /// # Errors
    /// Every operation of the batch failed and has no effect.
    pub fn commit(mut self) -> Result<(), OperationError> {
        self.check_failure()?;
        self.trim_log()?;
        // Publish the catalog first, because a reader of the new rows needs the numbers that the rows contain. Numbers
        // that are not used yet do no harm.
        let is_changed = !Arc::ptr_eq(&self.catalog, self.committed);
        if is_changed {
            self.directory.catalog.store(self.catalog.clone());
        }
        if let Err(error) = self.batch.commit() {
            // The new catalog, with its settings, was not committed and must not remain visible.
            self.directory.catalog.store(self.committed.clone());
            return Err(error.into());
        }
        let is_other = self.catalog.settings != self.committed.settings;
        *self.committed = self.catalog;
        let promotes = self.promoted.is_some();
        if let Some(promoted) = self.promoted {
            self.directory.promoted.store(promoted);
        }
        if is_other || promotes {
            self.directory.refresh_settings();
        }
        Ok(())
    }

    fn trim_log(&mut self) -> Result<(), StoreError> {
        let retained_records = self.settings.general.log_records_kept.max(1);
        let before =
            (self.batch.position()? + 1).saturating_sub(retained_records).min(self.directory.log_floor());
        if self.batch.first_position()?.is_some_and(|first| first < before) {
            self.batch.trim_log(before, LOG_TRIM_SLICE)?;
        }
        Ok(())
    }
}

/// Returns the outcome of a request with the no-op control, if its change would succeed.
fn no_operation_outcome() -> OperationError {
    OperationError::refused(ResultCode::NO_OPERATION, "the change would succeed; it was not made")
}
