//! The controls of a request, read once before it is dispatched (RFC 4511 section 4.1.11).
//!
//! [`SUPPORTED_CONTROLS`] has all known controls. The root DSE lists them, but lists the show deleted control only if
//! deleted entries are kept. If a control is unknown or the operation does not support it, its criticality decides: a
//! critical control causes the refusal of the request, and a control that is not critical is ignored.

mod options;
mod values;

use ber::Tag;
use ldap::{Control, Controls, FilterBuf, PersistentSearch, Request, ResultCode, oids};

use crate::model::limits::COPY_BYTES_MAX;
use crate::model::outcome::Outcome;
pub use crate::model::usable::EXPLAIN;
use crate::read::page_request::PageRequest;
pub use options::{
    AttributeOrigin, CountKind, DereferenceOptions, EffectiveRightsOptions, EntryCopyOptions,
    ListViewOptions, RequestedSortKey, SortOptions, SyncOptions, WindowTarget,
};
use values::{
    no_value, read_account_usability, read_assertion, read_at_least, read_copy, read_count, read_dereference,
    read_effective_rights, read_flag, read_matched_values, read_no_operation, read_origin,
    read_paged_results, read_persistent, read_proxied, read_search_options, read_session_tracking, read_sort,
    read_subentries, read_subentries_draft, read_sync, read_window,
};

/// OID of ManageDsaIT (RFC 3296 section 3).
pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// OID of the subentries control (RFC 3672 section 3).
pub const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The operation that a request with controls carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlContext {
    /// Bind.
    Bind,
    /// Search.
    Search,
    /// Compare.
    Compare,
    /// Add.
    Add,
    /// Delete.
    Delete,
    /// Modify.
    Modify,
    /// Modify DN.
    ModifyDn,
    /// Any extended operation.
    Extended,
    /// Unbind or abandon. These requests have no response, so their controls are ignored (RFC 4511 section 4.1.11).
    Unanswered,
}

impl ControlContext {
    /// All operations.
    pub const ALL: [ControlContext; 9] = [
        ControlContext::Bind,
        ControlContext::Search,
        ControlContext::Compare,
        ControlContext::Add,
        ControlContext::Delete,
        ControlContext::Modify,
        ControlContext::ModifyDn,
        ControlContext::Extended,
        ControlContext::Unanswered,
    ];

    /// Returns the context of a request.
    pub fn of(request: &Request<'_>) -> ControlContext {
        match request {
            Request::Bind(_) => ControlContext::Bind,
            Request::Search(_) => ControlContext::Search,
            Request::Compare(_) => ControlContext::Compare,
            Request::Add(_) => ControlContext::Add,
            Request::Delete(_) => ControlContext::Delete,
            Request::Modify(_) => ControlContext::Modify,
            Request::ModifyDn(_) => ControlContext::ModifyDn,
            Request::Extended(_) => ControlContext::Extended,
            Request::Unbind | Request::Abandon(_) => ControlContext::Unanswered,
        }
    }
}

/// A supported control.
#[derive(Debug)]
pub struct SupportedControl {
    /// OID, which the root DSE lists.
    pub oid: &'static str,
    /// Name for diagnostic messages.
    pub name: &'static str,
    /// The operations that support the control.
    contexts: &'static [ControlContext],
    /// Whether the control applies only to entries of the tree. A search of other entries, such as the root DSE,
    /// ignores the control, or is refused if the control is critical.
    is_of_tree: bool,
    read: ReadControl,
}

/// Decodes a control into the controls of the request. If the value of the control is malformed, returns a description
/// of the fault.
type ReadControl = fn(&mut RequestControls, &Control<'_>) -> Result<(), &'static str>;

const fn control(
    oid: &'static str,
    name: &'static str,
    contexts: &'static [ControlContext],
    read: ReadControl,
) -> SupportedControl {
    SupportedControl { oid, name, contexts, is_of_tree: false, read }
}

const fn of_tree(control: SupportedControl) -> SupportedControl {
    SupportedControl { is_of_tree: true, ..control }
}

/// All operations that have a response: bind, the operations on entries, and extended operations.
const ANSWERED: &[ControlContext] = &[
    ControlContext::Bind,
    ControlContext::Search,
    ControlContext::Compare,
    ControlContext::Add,
    ControlContext::Delete,
    ControlContext::Modify,
    ControlContext::ModifyDn,
    ControlContext::Extended,
];

const BIND: &[ControlContext] = &[ControlContext::Bind];
const SEARCH: &[ControlContext] = &[ControlContext::Search];
const READS: &[ControlContext] = &[ControlContext::Search, ControlContext::Compare];
const MODIFY: &[ControlContext] = &[ControlContext::Modify];
const DELETE: &[ControlContext] = &[ControlContext::Delete];
const CHANGES: &[ControlContext] =
    &[ControlContext::Add, ControlContext::Delete, ControlContext::Modify, ControlContext::ModifyDn];
/// Operations that a transaction may contain: changes, and the extended operations that change an entry.
const UPDATES: &[ControlContext] = &[
    ControlContext::Add,
    ControlContext::Delete,
    ControlContext::Modify,
    ControlContext::ModifyDn,
    ControlContext::Extended,
];
const WITH_ENTRY_BEFORE: &[ControlContext] =
    &[ControlContext::Delete, ControlContext::Modify, ControlContext::ModifyDn];
const WITH_ENTRY_AFTER: &[ControlContext] =
    &[ControlContext::Add, ControlContext::Modify, ControlContext::ModifyDn];

/// Operations that support proxied authorization (RFC 4370 section 3): all operations that have a response, except
/// bind.
const PROXIED: &[ControlContext] = ANSWERED.split_at(1).1;

/// Operations on entries: search, compare and changes.
const ON_ENTRIES: &[ControlContext] = PROXIED.split_at(PROXIED.len() - 1).0;

/// All supported controls.
pub static SUPPORTED_CONTROLS: &[SupportedControl] = &[
    control(MANAGE_DSA_IT, "ManageDsaIT", ON_ENTRIES, |read, control| {
        read_flag(&mut read.manage_dsa_it, control)
    }),
    control(oids::ASSERTION, "assertion", ON_ENTRIES, read_assertion),
    control(oids::PERMISSIVE_MODIFY, "permissive modify", MODIFY, |read, control| {
        read_flag(&mut read.permissive_modify, control)
    }),
    control(oids::TREE_DELETE, "tree delete", DELETE, |read, control| {
        read_flag(&mut read.seldom().tree_delete, control)
    }),
    control(oids::PRE_READ, "pre-read", WITH_ENTRY_BEFORE, |read, control| {
        read.seldom().copy_before = Some(read_copy(control)?);
        Ok(())
    }),
    control(oids::POST_READ, "post-read", WITH_ENTRY_AFTER, |read, control| {
        read.seldom().copy_after = Some(read_copy(control)?);
        Ok(())
    }),
    control(oids::NO_OPERATION, "no operation", CHANGES, read_no_operation),
    control(oids::NO_OPERATION_UNBOUNDID, "no operation", CHANGES, read_no_operation),
    control(oids::RELAX_RULES, "relax rules", CHANGES, |read, control| {
        read_flag(&mut read.seldom().relaxes_rules, control)
    }),
    control(oids::TRANSACTION_SPECIFICATION, "transaction specification", UPDATES, |read, control| {
        read.seldom().in_transaction = true;
        if control.value.is_some() {
            Ok(())
        } else {
            Err("takes the identifier of a transaction as its value")
        }
    }),
    control(oids::DOMAIN_SCOPE, "domain scope", SEARCH, |read, control| {
        read_flag(&mut read.seldom().domain_scope, control)
    }),
    control(oids::SHOW_DELETED, "show deleted", SEARCH, |read, control| {
        read.seldom().shows_deleted = Some(control.critical);
        no_value(control)
    }),
    control(SUBENTRIES, "subentries", SEARCH, read_subentries),
    control(oids::SUBENTRIES_DRAFT, "subentries, as drafted", SEARCH, read_subentries_draft),
    of_tree(control(oids::REAL_ATTRIBUTES_ONLY, "real attributes only", SEARCH, |read, control| {
        read_origin(read, control, AttributeOrigin::Stored)
    })),
    of_tree(control(oids::VIRTUAL_ATTRIBUTES_ONLY, "virtual attributes only", SEARCH, |read, control| {
        read_origin(read, control, AttributeOrigin::Computed)
    })),
    control(oids::DONT_USE_COPY, "don't use copy", READS, |read, control| {
        read_flag(&mut read.seldom().needs_original, control)
    }),
    control(oids::SEARCH_NO_OP, "search no-op", SEARCH, |read, control| {
        no_value(control)?;
        read_count(read, CountKind::SearchNoOp)
    }),
    control(oids::ENTRY_COUNT_REQUEST, "matching entry count", SEARCH, |read, control| {
        let is_valid = ldap::is_entry_count_request(control.value.unwrap_or_default());
        if is_valid { read_count(read, CountKind::MatchingEntries) } else { Err("takes limits as its value") }
    }),
    control(oids::LAZY_COMMIT, "lazy commit", CHANGES, |_, control| no_value(control)),
    control(oids::WHAT_FAILED, "what failed", ANSWERED, |_, control| no_value(control)),
    control(oids::SEARCH_OPTIONS, "search options", SEARCH, read_search_options),
    control(oids::PAGED_RESULTS, "paged results", SEARCH, read_paged_results),
    control(oids::SORT_REQUEST, "server-side sorting", SEARCH, read_sort),
    control(oids::VLV_REQUEST, "virtual list view", SEARCH, read_window),
    control(oids::MATCHED_VALUES, "matched values", SEARCH, read_matched_values),
    control(oids::SYNC_REQUEST, "content synchronization", SEARCH, read_sync),
    control(oids::PERSISTENT_SEARCH, "persistent search", SEARCH, read_persistent),
    control(oids::PASSWORD_POLICY, "password policy", ANSWERED, |read, control| {
        read_flag(&mut read.password_policy, control)
    }),
    control(oids::ACCOUNT_USABILITY, "account usability", SEARCH, read_account_usability),
    of_tree(control(oids::DEREFERENCE, "dereference", SEARCH, read_dereference)),
    control(oids::SESSION_TRACKING, "session tracking", ANSWERED, read_session_tracking),
    control(oids::PROXIED_AUTHORIZATION, "proxied authorization", PROXIED, read_proxied),
    control(oids::PROXIED_AUTHORIZATION_V1, "proxied authorization, version 1", PROXIED, read_proxied),
    control(oids::AUTHORIZATION_IDENTITY_REQUEST, "authorization identity", BIND, |_, control| {
        no_value(control)
    }),
    of_tree(control(oids::EFFECTIVE_RIGHTS, "effective rights", SEARCH, read_effective_rights)),
    control(oids::POSITION, "position", ANSWERED, |read, control| {
        read_flag(&mut read.wants_position, control)
    }),
    control(oids::AT_LEAST, "at least", ANSWERED, read_at_least),
    of_tree(control(EXPLAIN, "explain", SEARCH, |read, control| read_flag(&mut read.explain, control))),
];

/// Returns true if the operation supports the control.
pub fn fits(oid: &str, context: ControlContext) -> bool {
    SUPPORTED_CONTROLS.iter().any(|known| known.oid == oid && known.contexts.contains(&context))
}

/// Returns the value of the "what failed" response control (draft-masarati-ldap-whatfailed section 2.3). The value
/// lists the OIDs of the critical controls that caused the refusal of the request. Returns `None` if the client did
/// not request the response control, or if no critical control caused a refusal.
#[cold]
pub fn failed_controls(controls: &Controls<'_>, context: ControlContext) -> Option<Vec<u8>> {
    controls.find(oids::WHAT_FAILED)?;
    let mut value = Vec::new();
    let mut writer = ber::Writer::new(&mut value);
    let set = writer.begin(Tag::SET);
    let mut failed: Vec<&str> = controls
        .iter()
        .filter(|control| control.critical && !fits(control.oid, context))
        .map(|control| control.oid)
        .collect();
    failed.sort_unstable();
    failed.dedup();
    failed.iter().for_each(|oid| writer.octet_string(oid.as_bytes()));
    writer.end(set);
    (!failed.is_empty()).then_some(value)
}

/// Returns the maximum total size, in octets, of the entry copies that a change request asks for with the pre-read
/// and post-read controls (RFC 4527).
pub fn copies_bytes_max(controls: &Controls<'_>) -> usize {
    let count =
        [oids::PRE_READ, oids::POST_READ].into_iter().filter(|oid| controls.find(oid).is_some()).count();
    count * COPY_BYTES_MAX
}

/// Controls that few requests have. They are a separate allocation, so that other requests hold only a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareControls {
    /// Assertion control (RFC 4528): the request is carried out only if this filter matches its entry.
    pub assertion: Option<FilterBuf>,
    /// Pre-read control (RFC 4527): the response contains a copy of the entry before the change.
    pub copy_before: Option<EntryCopyOptions>,
    /// Post-read control (RFC 4527): the response contains a copy of the entry after the change.
    pub copy_after: Option<EntryCopyOptions>,
    /// Dereference control (draft-masarati-ldap-deref): each result includes attributes of the entries that the
    /// values of the result name.
    pub dereference: Option<DereferenceOptions>,
    /// Tree delete control: a delete also removes all subordinates of the entry.
    pub tree_delete: bool,
    /// No operation control (draft-zeilenga-ldap-noop): the change is decided but not applied.
    pub no_operation: bool,
    /// Relax rules control (draft-zeilenga-ldap-relax): the change may set operational attributes and change the
    /// structural class.
    pub relaxes_rules: bool,
    /// The change repeats, in a copied tree, a change of the source server. Clients cannot set this flag.
    pub follows_source: bool,
    /// Transaction specification control (RFC 5805): the request belongs to a transaction.
    pub in_transaction: bool,
    /// Domain scope control of Active Directory: a search returns no referrals. The search options control can also
    /// set this flag.
    pub domain_scope: bool,
    /// Show deleted control of Active Directory: the search also returns deleted entries. The value is the control's
    /// criticality.
    pub shows_deleted: Option<bool>,
    /// Don't use copy control (RFC 6171): the server must not answer the search or compare from a copy.
    pub needs_original: bool,
    /// Search no-op or matching entry count control: the search counts its results.
    pub count: Option<CountKind>,
    /// Real attributes only or virtual attributes only control: the search returns only stored or only computed
    /// attributes.
    pub origin: Option<AttributeOrigin>,
    /// Effective rights control: the results include the effective rights of one requester.
    pub effective_rights: Option<EffectiveRightsOptions>,
    /// Matched values control (RFC 3876): results contain only values that match one of these filters. If the list is
    /// empty, results contain all values.
    pub matched_values: Vec<FilterBuf>,
    /// Paged results control (RFC 2696): the search returns one page of its results.
    pub page: Option<PageRequest>,
    /// Server-side sorting control (RFC 2891): the results are sorted.
    pub sort: Option<SortOptions>,
    /// Virtual list view control: the search returns only the requested part of the sorted results.
    pub window: Option<ListViewOptions>,
    /// Content synchronization control (RFC 4533): the search returns the changes of its results since the last
    /// synchronization.
    pub sync: Option<SyncOptions>,
    /// Persistent search control (draft-ietf-ldapext-psearch): the search continues with later changes.
    pub persistent: Option<PersistentSearch>,
    /// Name of a critical control that applies only to entries of the tree.
    pub needs_tree: Option<&'static str>,
}

/// The controls of a request, as the client sent them. [`RequestContext`](crate::access::RequestContext) has the facts
/// about the request that do not come from its controls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestControls {
    /// ManageDsaIT control (RFC 3296 section 3): referral entries are treated as ordinary entries.
    pub manage_dsa_it: bool,
    /// Permissive modify control of Active Directory: a modify may add values that already exist and delete values
    /// that do not exist.
    pub permissive_modify: bool,
    /// Subentries control (RFC 3672 section 3), for searches below the base. `Some(true)` makes only subentries
    /// visible; `Some(false)` and `None` make all entries except subentries visible.
    pub subentries: Option<bool>,
    /// Explain control of Pando: the searchResDone contains an explanation of the plan.
    pub explain: bool,
    /// Password policy control (draft-behera-ldap-password-policy section 6.1): the client understands the response
    /// control.
    pub password_policy: bool,
    /// Account usability control: each result reports whether its password can be used to bind.
    pub account_usability: bool,
    /// Proxied authorization control (RFC 4370): the request runs with another identity. See
    /// [`proxied_identity`](crate::identity::proxied_identity).
    pub proxied: bool,
    /// Controls that few requests have.
    pub seldom: Option<Box<RareControls>>,
    /// Position control of Pando: the response contains the log position of the state on which the response is based.
    pub wants_position: bool,
}

impl RequestControls {
    /// Decodes the controls of a request.
    ///
    /// # Errors
    /// unavailableCriticalExtension for a critical control that is unknown or that the operation does not support;
    /// protocolError for a control with a malformed value, or given twice. Only the session tracking control may be
    /// given twice.
    pub fn read(controls: &Controls<'_>, context: ControlContext) -> Result<RequestControls, Outcome> {
        let mut read = RequestControls::default();
        if controls.is_empty() || context == ControlContext::Unanswered {
            return Ok(read);
        }
        for (place, control) in controls.iter().enumerate() {
            let known = SUPPORTED_CONTROLS.iter().find(|known| known.oid == control.oid);
            let Some(known) = known.filter(|known| known.contexts.contains(&context)) else {
                if control.critical {
                    return Err(unavailable(&control, known));
                }
                continue;
            };
            let protocol_error = |what: &str| {
                Outcome::new(ResultCode::PROTOCOL_ERROR, format!("control {} {what}", known.name))
            };
            let may_repeat = control.oid == oids::SESSION_TRACKING;
            if !may_repeat && controls.iter().take(place).any(|earlier| earlier.oid == control.oid) {
                return Err(protocol_error("is given twice"));
            }
            (known.read)(&mut read, &control).map_err(protocol_error)?;
            if control.critical && known.is_of_tree {
                read.seldom().needs_tree = Some(known.name);
            }
        }
        Ok(read)
    }

    /// Returns the filter of the assertion control (RFC 4528).
    #[inline]
    pub(crate) fn assertion(&self) -> Option<&FilterBuf> {
        self.seldom.as_ref()?.assertion.as_ref()
    }

    /// Returns true if the request has the tree delete control.
    pub(crate) fn tree_delete(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.tree_delete)
    }

    /// Returns true if the request has a no operation control, so that the change is decided but not applied.
    pub(crate) fn no_operation(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.no_operation)
    }

    /// Returns true if the request has the relax rules control, or if the change repeats a change of the source
    /// server.
    pub(crate) fn relaxes_rules(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.relaxes_rules)
    }

    /// Returns the controls of a change that repeats, in a copied tree, a change of the source server.
    pub(crate) fn of_follower() -> RequestControls {
        let seldom = RareControls { relaxes_rules: true, follows_source: true, ..RareControls::default() };
        let seldom = Some(Box::new(seldom));
        RequestControls { manage_dsa_it: true, seldom, ..RequestControls::default() }
    }

    /// Returns true if the change repeats, in a copied tree, a change of the source server.
    pub(crate) fn follows_source(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.follows_source)
    }

    /// Returns true if the request has the transaction specification control (RFC 5805).
    pub fn in_transaction(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.in_transaction)
    }

    /// Returns true if the search returns no referrals: the domain scope control, or the search options control.
    pub(crate) fn domain_scope(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.domain_scope)
    }

    /// Returns the criticality of the show deleted control; `None` without the control.
    #[inline]
    pub(crate) fn shows_deleted(&self) -> Option<bool> {
        self.seldom.as_ref()?.shows_deleted
    }

    /// Returns true if the request has the don't use copy control (RFC 6171).
    #[inline]
    pub fn needs_original(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.needs_original)
    }

    /// Returns which control makes the search count its results; `None` if the search returns its results.
    pub(crate) fn count(&self) -> Option<CountKind> {
        self.seldom.as_ref()?.count
    }

    /// Returns the origin of the attributes that a search returns; `None` for all.
    pub(crate) fn origin(&self) -> Option<AttributeOrigin> {
        self.seldom.as_ref()?.origin
    }

    /// Returns true if the request has the pre-read control or the post-read control.
    #[inline]
    pub(crate) fn wants_copies(&self) -> bool {
        self.seldom.is_some() && self.copies() != (None, None)
    }

    /// Returns the name of a critical control that applies only to entries of the tree.
    pub(crate) fn needs_tree(&self) -> Option<&'static str> {
        self.seldom.as_ref()?.needs_tree
    }

    /// Returns the values of the pre-read control and the post-read control.
    pub(crate) fn copies(&self) -> (Option<&EntryCopyOptions>, Option<&EntryCopyOptions>) {
        match &self.seldom {
            None => (None, None),
            Some(seldom) => (seldom.copy_before.as_ref(), seldom.copy_after.as_ref()),
        }
    }

    /// Returns the value of the effective rights control.
    pub(crate) fn effective_rights(&self) -> Option<&EffectiveRightsOptions> {
        self.seldom.as_ref()?.effective_rights.as_ref()
    }

    /// Returns the page that the paged results control requests.
    pub(crate) fn page(&self) -> Option<&PageRequest> {
        self.seldom.as_ref()?.page.as_ref()
    }

    /// Returns the filters of the matched values control; `None` to return all values.
    pub(crate) fn matched_values(&self) -> Option<&[FilterBuf]> {
        let items = &self.seldom.as_ref()?.matched_values;
        (!items.is_empty()).then_some(items.as_slice())
    }

    /// Returns the value of the dereference control.
    pub(crate) fn dereference(&self) -> Option<&DereferenceOptions> {
        self.seldom.as_ref()?.dereference.as_ref()
    }

    /// Returns the value of the server-side sorting control.
    pub(crate) fn sort(&self) -> Option<&SortOptions> {
        self.seldom.as_ref()?.sort.as_ref()
    }

    /// Returns the value of the virtual list view control.
    pub(crate) fn window(&self) -> Option<&ListViewOptions> {
        self.seldom.as_ref()?.window.as_ref()
    }

    /// Returns the value of the content synchronization control.
    pub(crate) fn sync(&self) -> Option<&SyncOptions> {
        self.seldom.as_ref()?.sync.as_ref()
    }

    /// Returns true if results may carry response controls.
    #[inline]
    pub(crate) fn may_add_response_controls(&self) -> bool {
        self.seldom.is_some() || self.account_usability
    }

    /// Returns the value of the persistent search control.
    pub(crate) fn persistent(&self) -> Option<PersistentSearch> {
        self.seldom.as_ref()?.persistent
    }

    /// Returns true if the client subscribes to later changes of the results.
    pub fn listens(&self) -> bool {
        self.persistent().is_some() || self.sync().is_some_and(|asked| asked.persists)
    }

    fn seldom(&mut self) -> &mut RareControls {
        self.seldom.get_or_insert_default()
    }
}

fn unavailable(control: &Control<'_>, known: Option<&SupportedControl>) -> Outcome {
    let diagnostic = match known {
        Some(known) => {
            format!("critical control {} ({}) does not fit this operation", control.oid, known.name)
        }
        None => format!("critical control {:?} is not supported", ldap::Excerpt(control.oid)),
    };
    Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, diagnostic)
}

#[cfg(test)]
mod tests {
    use ldap::{ControlsBuf, PagedResults};

    use super::*;
    use crate::model::usable::Uses;
    use crate::model::virtual_entries::{
        APPLY_SETTINGS, PROMOTE, PROMOTE_REPLICA, READ_BACKUP, SUPPORTED_EXTENSIONS,
    };

    fn read(
        controls: &[(&str, bool, Option<&[u8]>)],
        context: ControlContext,
    ) -> Result<RequestControls, (u32, String)> {
        let buf: ControlsBuf =
            controls.iter().map(|&(oid, critical, value)| Control { oid, critical, value }).collect();
        RequestControls::read(&buf.as_controls(), context)
            .map_err(|outcome| (outcome.code.0, outcome.diagnostic))
    }

    #[test]
    fn known_controls_are_decoded() {
        use ControlContext::{Bind, Search, Unanswered};
        let none = RequestControls::default;
        let manage = || RequestControls { manage_dsa_it: true, ..none() };
        assert_eq!(read(&[], Search), Ok(none()));
        assert_eq!(read(&[(MANAGE_DSA_IT, true, None)], Search), Ok(manage()));
        assert_eq!(read(&[(EXPLAIN, false, None)], Search), Ok(RequestControls { explain: true, ..none() }));
        assert_eq!(read(&[(MANAGE_DSA_IT, false, Some(b""))], Search), Ok(manage()));
        assert_eq!(read(&[(MANAGE_DSA_IT, false, None)], Bind), Ok(none()));
        assert_eq!(read(&[("1.2.3", true, None)], Unanswered), Ok(none()));
        assert_eq!(read(&[("1.2.3", false, None), (MANAGE_DSA_IT, false, None)], Search), Ok(manage()));
        let subentries = |visible| RequestControls { subentries: Some(visible), ..none() };
        assert_eq!(read(&[(SUBENTRIES, true, Some(&[1, 1, 0xff]))], Search), Ok(subentries(true)));
        assert_eq!(read(&[(SUBENTRIES, true, Some(&[1, 1, 0]))], Search), Ok(subentries(false)));
        let page = PagedResults { size: 100, cookie: b"abc" };
        let seldom = RareControls { page: Some(PageRequest::of(page)), ..RareControls::default() };
        let paged = RequestControls { seldom: Some(Box::new(seldom)), ..none() };
        assert_eq!(read(&[(oids::PAGED_RESULTS, true, Some(&page.encode()))], Search), Ok(paged));
    }

    /// The match below fails to compile when a variant is added to `ControlContext`. Add the new variant to the list
    /// too: the test for leaks of hidden entries depends on that list.
    #[test]
    fn the_list_of_contexts_contains_every_operation() {
        for (place, context) in ControlContext::ALL.into_iter().enumerate() {
            assert_eq!(context as usize, place);
        }
        assert_eq!(ControlContext::Unanswered as usize, ControlContext::ALL.len() - 1, "the last one");
    }

    #[test]
    fn rules_may_cover_all_controls_except_those_of_a_bind() {
        let bind_alone = [oids::AUTHORIZATION_IDENTITY_REQUEST];
        for SupportedControl { oid, .. } in SUPPORTED_CONTROLS {
            assert_eq!(Uses::of_oid(oid) == Uses::default(), bind_alone.contains(oid), "{oid}");
        }
        for (oid, _) in SUPPORTED_EXTENSIONS {
            let is_out =
                [oids::START_TLS, APPLY_SETTINGS, PROMOTE, PROMOTE_REPLICA, READ_BACKUP].contains(&oid);
            assert_eq!(Uses::of_oid(oid) == Uses::default(), is_out, "{oid}");
        }
        assert_eq!(Uses::of_oid("1.2.3"), Uses::default());
    }

    #[test]
    fn refusals_name_the_control() {
        use ControlContext::{Compare, Search};
        let check = |controls: &[(&str, bool, Option<&[u8]>)], context, code, text: &str| {
            let (found, diagnostic) = read(controls, context).unwrap_err();
            assert_eq!((found, diagnostic.as_str()), (code, text));
        };
        check(&[("1.2.3", true, None)], Search, 12, "critical control \"1.2.3\" is not supported");
        check(
            &[(SUBENTRIES, true, Some(&[1, 1, 0]))],
            Compare,
            12,
            "critical control 1.3.6.1.4.1.4203.1.10.1 (subentries) does not fit this operation",
        );
        check(&[(MANAGE_DSA_IT, true, Some(b"x"))], Search, 2, "control ManageDsaIT takes no value");
        check(&[(EXPLAIN, true, Some(b"x"))], Search, 2, "control explain takes no value");
        check(&[(MANAGE_DSA_IT, true, None); 2], Search, 2, "control ManageDsaIT is given twice");
        for value in [None, Some(&b""[..]), Some(&[0x30, 5, 2, 1, 0xff, 4, 0])] {
            let text =
                "control paged results takes a page size from 0 to 2147483647 and a cookie as its value";
            check(&[(oids::PAGED_RESULTS, false, value)], Search, 2, text);
        }
        for value in [None, Some(&b""[..]), Some(&[1, 1]), Some(&[1, 2, 0, 0]), Some(&[1, 1, 0, 0])] {
            check(
                &[(SUBENTRIES, false, value)],
                Search,
                2,
                "control subentries takes a BOOLEAN as its value",
            );
        }
    }
}
