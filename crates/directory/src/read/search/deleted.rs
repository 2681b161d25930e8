//! Deleted entries among the results of a search (control "show deleted" of Active Directory, MS-ADTS section
//! 3.1.1.3.4.1.14).
//!
//! After the entries of the tree, the search examines the tombstones in the order of the deletes. A deleted entry is
//! in scope if it would be in scope had it not been deleted. In results, its DN is its entryUUID followed by the DN
//! that it would have if it had not been deleted. This DN is unique, and a search with this DN as the base finds the
//! deleted entry. The administrator receives a deleted entry with its values. Other requesters with the right
//! `undelete` receive only what the list of deleted entries contains, because access rules cover only entries in the
//! tree.

use std::borrow::Cow;
use std::ops::Bound;

use ldap::{Dn, ResultCode, Scope, oids};
use store::Direction;
use uuid::Uuid;

use super::base::{Base, find_base};
use super::budget::Budget;
use super::outside::NamedEntry;
use super::paging::Paging;
use super::result::resolved;
use super::scanner::{Scanner, Sink as _};
use super::tree_search::TreeSearch;
use super::{SearchInputs, Work};
use crate::catalog::{AttributeDef, Catalog};
use crate::filter::{InMemory, Matcher, Target, Term, Truth};
use crate::model::limits::TOMBSTONES_SLICE_BYTES;
use crate::model::name::{NormalName, name_in, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, DELETED, EntryId};
use crate::model::tombstone::{KIND_ENTRY, TombstonePlace};
use crate::model::usable::Uses;
use crate::model::virtual_entries::VirtualEntry;
use crate::read::deleted::{Deleted, Links, newest};
use crate::snapshot::Snapshot;
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// The search of the deleted entries, which follows the search of the tree.
pub(super) struct DeletedSearch {
    base: NormalName,
    scope: Scope,
    subentries: Option<bool>,
    /// Key of the last tombstone examined. Before any tombstone is examined, a key that precedes all tombstones.
    last: Box<[u8]>,
    /// Whether this search has begun. It begins when the search of the tree has ended.
    pub(super) has_started: bool,
}

impl SearchInputs<'_> {
    /// Returns true if the search returns deleted entries.
    ///
    /// # Errors
    /// unavailableCriticalExtension if the control is critical and the requester may not use it or deleted entries
    /// are not kept; unwillingToPerform if another control sorts the results or requests later changes.
    pub(super) fn shows_deleted(&self) -> Result<bool> {
        let Some(is_critical) = self.controls.shows_deleted() else { return Ok(false) };
        let refused = |code, text: &str| Err(OperationError::refused(code, text));
        let are_kept = self.snapshot.state().settings.general.keep_deleted_seconds > 0;
        if !are_kept || !self.rights.may_use(Uses::of_oid(oids::SHOW_DELETED)) {
            let text = match are_kept {
                true => {
                    "deleted entries are for the administrator, and for requesters that a rule allows the use of \
                         undelete"
                }
                false => "deleted entries are not kept (keep_deleted_seconds)",
            };
            return match is_critical {
                true => refused(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text),
                false => Ok(false),
            };
        }
        let controls = self.controls;
        if controls.sort().is_some()
            || controls.window().is_some()
            || controls.sync().is_some()
            || controls.listens()
        {
            let text = "results with deleted entries have no order, no list view, and no later changes";
            return refused(ResultCode::UNWILLING_TO_PERFORM, text);
        }
        Ok(true)
    }

    /// Finds the base, which may be a deleted entry.
    pub(super) fn base(&self, shows_deleted: bool) -> Result<Base<'_>> {
        match if shows_deleted { self.deleted_base()? } else { None } {
            Some(deleted) => Ok(Base::Outside(vec![deleted])),
            None => find_base(self),
        }
    }

    /// Returns the deleted entry that the base names, with its normal name; `None` if the base names no deleted entry.
    fn deleted_base(&self) -> Result<Option<NamedEntry<'static>>> {
        let state = self.snapshot.state();
        let dn = parse_dn(self.request.base_object)?;
        let uuid = dn.rdns().next().and_then(|rdn| uuid_in(rdn.text));
        let Some(uuid) = uuid else { return Ok(None) };
        let Some(place) = newest(state, &uuid)? else { return Ok(None) };
        let Some(row) = state.read.get(DELETED, &place.key())? else { return Ok(None) };
        let deleted = Deleted::of(state, (place, row), self.rights.is_administrator())?;
        let entry = deleted.entry(state, |_| Links::All)?;
        let [asked, own] =
            [&dn, &parse_dn(&entry.dn)?].map(|dn: &Dn<'_>| NormalName::of(dn, &state.catalog.schema));
        Ok((asked.failure.is_none() && asked.key == own.key).then_some((own.key, Cow::Owned(entry))))
    }
}

/// Returns the UUID, if the RDN consists of an entryUUID.
fn uuid_in(rdn: &str) -> Option<[u8; 16]> {
    let (name, value) = rdn.split_once('=')?;
    let uuid = Uuid::try_parse(value.trim()).ok()?;
    name.trim().eq_ignore_ascii_case("entryUUID").then(|| uuid.into_bytes())
}

impl DeletedSearch {
    /// Begins the search of deleted entries below the base, after the last deleted entry of the previous page. Returns
    /// `None` if the scope is only the base.
    pub(super) fn begin(
        inputs: &SearchInputs<'_>,
        base: EntryId,
        page: Option<&Paging>,
    ) -> Result<Option<Box<DeletedSearch>>> {
        let SearchInputs { snapshot, request, controls, .. } = *inputs;
        let state = snapshot.state();
        if request.scope == Scope::BaseObject {
            return Ok(None);
        }
        let after = page.and_then(|page| page.after.as_deref());
        let before_all = TombstonePlace { position: 0, id: EntryId::ROOT }.key();
        // The DN in the request may be that of an alias, so the DN of the entry `base` is used.
        let name = if base == EntryId::ROOT { Some(String::new()) } else { state.dn(base)? };
        let name = name.ok_or_else(|| damaged_row("nodes", base))?;
        let base = NormalName::of(&parse_dn(&name)?, &state.catalog.schema);
        Ok(Some(Box::new(DeletedSearch {
            base,
            scope: request.scope,
            subentries: controls.subentries,
            last: after.unwrap_or(&before_all).into(),
            has_started: after.is_some(),
        })))
    }

    /// Returns the key after which the next page begins.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Returns the memory that the search uses, itself included, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<DeletedSearch>() + self.base.heap_bytes() + self.last.len()
    }

    /// Runs one slice of the search of the tree or, after that search has ended, one slice of this search. Returns the
    /// result code after the last slice.
    pub(super) fn run_after(
        &mut self,
        search: &mut TreeSearch,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        if self.has_started {
            return self.run(search, snapshot, out, budget);
        }
        let code = search.run_measured(snapshot, out, budget)?;
        self.has_started = code == Some(ResultCode::SUCCESS);
        Ok(code.filter(|_| !self.has_started))
    }

    /// Runs one slice of this search, with the filter, the attributes and the limits of the search of the tree. Returns
    /// the result code after the last slice.
    fn run(
        &mut self,
        search: &mut TreeSearch,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        let state = snapshot.state();
        search.scanner.catch_up(snapshot)?;
        let TreeSearch { scanner, tally, .. } = search;
        let mut matcher = Matcher::new(scanner.rights.shown());
        let terms = Terms::of(&scanner.filter, state.catalog);
        let matched = scanner.entry_controls.as_ref().and_then(|controls| controls.matched.as_ref());
        let start = out.len();
        let (last, end) = (std::mem::take(&mut self.last), [KIND_ENTRY + 1]);
        let range = (Bound::Excluded(&last[..]), Bound::Excluded(&end[..]));
        self.last = last.clone();
        let mut cost = 0;
        for (examined, row) in (0..).zip(state.read.scan(DELETED, range, Direction::Forward)) {
            if examined >= budget.entries_examined_max.max(1)
                || cost >= TOMBSTONES_SLICE_BYTES
                || out.len() - start >= budget.out_bytes_max
            {
                return Ok(None);
            }
            let (key, value) = row?;
            let place = TombstonePlace::of_key(key).ok_or_else(|| damaged_row("deleted", EntryId::ROOT))?;
            let deleted = Deleted::of(state, (place, value), scanner.rights.is_administrator())?;
            cost += deleted.cost();
            tally.examined();
            match self.result(snapshot, &deleted, (scanner, &terms, &mut matcher))? {
                None => tally.rejected(state, &scanner.filter)?,
                Some(_) if !tally.accepts() => return Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED)),
                Some(entry) => {
                    let shown: Cow<'_, VirtualEntry> = match matched {
                        Some(matched) => Cow::Owned(matched.of_virtual(state.catalog, &entry)),
                        None => Cow::Borrowed(&entry),
                    };
                    scanner.writer.put_virtual(out, state.catalog, &shown);
                    tally.written(place.id, out.len());
                }
            }
            self.last = key.into();
        }
        Ok(Some(ResultCode::SUCCESS))
    }

    /// Returns the entry if it is in scope and matches the filter. Terms that test no links are tested first. Only
    /// links that the filter or the result needs are resolved.
    fn result(
        &self,
        snapshot: &Snapshot,
        deleted: &Deleted<'_>,
        (scanner, terms, matcher): (&Scanner, &Terms<'_>, &mut Matcher),
    ) -> Result<Option<VirtualEntry>> {
        if !self.contains(snapshot, deleted) {
            return Ok(None);
        }
        let (state, catalog) = (snapshot.state(), snapshot.state().catalog);
        let schema = &catalog.schema;
        let mut passes = |terms: &[&Term], entry: &VirtualEntry| {
            let in_memory = InMemory { dn: &entry.dn, attributes: resolved(schema, entry) };
            terms.iter().all(|term| matcher.truth_in_memory(term, catalog, &in_memory) == Truth::True)
        };
        if !passes(&terms.plain, &deleted.entry(state, |_| Links::None)?)
            || !(terms.linked.is_empty()
                || passes(&terms.linked, &deleted.entry(state, |def| terms.links(def))?))
        {
            return Ok(None);
        }
        let selection = &scanner.writer.selection;
        let selected = |def: &AttributeDef| match selection.selects(catalog, &def.description) {
            true => Links::All,
            false => Links::None,
        };
        deleted.entry(state, selected).map(Some)
    }

    /// Returns true if a deleted entry is in scope.
    fn contains(&self, snapshot: &Snapshot, deleted: &Deleted<'_>) -> bool {
        let is_subentry = deleted.head.flags.is_subentry();
        let name = name_in(&snapshot.state().catalog.schema, deleted.former_dn.as_bytes());
        let (base, is_single) = (&self.base, self.scope == Scope::SingleLevel);
        is_subentry == (self.subentries == Some(true))
            && name.is_some_and(|name| {
                let levels = name.depth().saturating_sub(base.depth());
                name.key.starts_with(&base.key) && if is_single { levels == 1 } else { levels > 0 }
            })
    }
}

/// Terms of a filter, all of which must match.
struct Terms<'a> {
    /// Terms that test links.
    linked: Vec<&'a Term>,
    plain: Vec<&'a Term>,
    /// Link attributes that the terms test, each with all DNs with which its values are compared. The DNs are `None` if
    /// a term has a test of the attribute that is not a comparison with a DN.
    tested: Vec<(AttrId, Option<Vec<&'a Target>>)>,
}

impl Terms<'_> {
    fn of<'a>(filter: &'a Term, catalog: &Catalog) -> Terms<'a> {
        let terms = match filter {
            Term::And(terms) => &terms[..],
            term => std::slice::from_ref(term),
        };
        let links: Vec<&AttributeDef> = catalog.attributes().iter().filter(|def| def.is_link).collect();
        let has_links = |term: &&Term| links.iter().any(|def| term.tests(&catalog.schema, &def.description));
        let (linked, plain): (Vec<&Term>, _) = terms.iter().partition(has_links);
        let mut tested = Vec::new();
        for def in links {
            if linked.iter().any(|term| term.tests(&catalog.schema, &def.description)) {
                let mut names = Vec::new();
                let mut is_by_name =
                    |term: &&'a Term| term.compared_names(&catalog.schema, &def.description, &mut names);
                tested.push((def.id, linked.iter().all(&mut is_by_name).then_some(names)));
            }
        }
        Terms { linked, plain, tested }
    }

    /// Returns which values of a link attribute the terms need.
    fn links(&self, def: &AttributeDef) -> Links<'_> {
        match self.tested.iter().find(|(id, _)| *id == def.id) {
            None => Links::None,
            Some((_, None)) => Links::All,
            Some((_, Some(names))) => Links::Named(names),
        }
    }
}

impl Work {
    /// Prepares a page that contains only deleted entries, because an earlier page has returned the last entry of the
    /// tree.
    pub(super) fn turn_to_deleted(&mut self, room: u32) {
        if let Work::Tree(search) = self {
            search.limit_to(room);
        }
    }
}
