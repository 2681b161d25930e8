//! Paged searches (RFC 2696) without state on the server.
//!
//! Results come in ascending entry id unless they are sorted, so a page is a search that begins at an entry id and ends
//! when the page is full. The cookie contains the state for the next page:
//!
//! ```text
//! offset  size  content
//!      0     1  1: each page chooses its own plan; 2: pages scan
//!      1     8  start of the next page: an entry id; for virtual entries, the number of entries before it
//!      9     8  number of entries on all pages so far
//!     17    16  seal: first octets of the HMAC-SHA-256 of the request, the requester and the fields above
//! ```
//!
//! Sorted results (RFC 2891 section 3), and pages that begin among the deleted entries, have a different cookie:
//!
//! ```text
//! offset  size  content
//!      0     1  3: sorted, or deleted entries
//!      1     8  number of entries on all pages so far
//!      9     n  key of the last of these entries, after which the next page starts: a sort key (see
//!               [`super::sorting`]), or the key of a tombstone
//!  9 + n    16  seal, as above
//! ```
//!
//! Integers are big-endian. The key of the HMAC is the generation of the data directory, so a cookie is valid on any
//! connection, more than once, and after a restart. A cookie is refused if it comes with a different request or from
//! a different requester. A directory with a new generation refuses earlier cookies, because its entry ids denote
//! other entries. A forged cookie would reveal only entries that its sender may find anyway. The seal ensures that a
//! wrong cookie results in an error and not in wrong results.
//!
//! An entry that matches throughout is on exactly one page, whatever is added, changed and deleted between pages. An
//! entry that begins to match between pages is on at most one page. For sorted results this holds as long as the sort
//! key of the entry stays the same.

use hmac::{Hmac, Mac};
use ldap::{PagedResults, ResultCode};
use sha2::Sha256;

use super::SearchInputs;
use crate::access::Requester;
use crate::model::outcome::OperationError;
use crate::read::page_request::{Cookie, CookieBytes, POSITION_SIZE, PageRequest, SEAL_SIZE};
use crate::snapshot::page_key::PageKey;

/// First octet of a cookie, if each page chooses its own plan. `SCANNED` is the first octet if pages scan.
const PLANNED: u8 = 1;
const SCANNED: u8 = 2;
/// First octet of the cookie of sorted results, and of pages that begin among the deleted entries.
const SORTED: u8 = 3;

/// Number of octets before the key in the cookie of sorted results.
const SORTED_HEAD_SIZE: usize = 9;

impl PageKey {
    /// Returns the HMAC over the requester and the request, to be continued with the content of the cookie. The page
    /// size and the time limit are not included, because they may differ from page to page.
    pub(super) fn seal(&self, inputs: &SearchInputs<'_>) -> Hmac<Sha256> {
        let SearchInputs { context, request, controls, .. } = *inputs;
        let mut seal = self.0.clone();
        let mut put = |field: &[u8]| {
            seal.update(&(field.len() as u64).to_be_bytes());
            seal.update(field);
        };
        put(b"page of a search");
        match context.requester {
            Requester::Anonymous => put(b""),
            Requester::Administrator { .. } => put(b"administrator"),
            Requester::User { id, .. } => put(&id.0.to_be_bytes()),
        }
        let subentries = controls.subentries.map_or(0, |visible| 1 + u8::from(visible));
        put(&[
            request.scope as u8,
            request.deref_aliases as u8,
            u8::from(request.types_only),
            u8::from(controls.manage_dsa_it),
            subentries,
        ]);
        if controls.shows_deleted().is_some() {
            put(b"deleted");
        }
        if let Some(origin) = controls.origin() {
            put(&[origin as u8]);
        }
        put(&request.size_limit.to_be_bytes());
        put(request.base_object.as_bytes());
        let mut filter = Vec::with_capacity(request.filter.encoded_len());
        request.filter.encode(&mut filter);
        put(&filter);
        put(request.attributes.as_bytes());
        for key in controls.sort().iter().flat_map(|sort| &sort.keys) {
            put(&[u8::from(key.reverse), u8::from(key.rule.is_some())]);
            put(key.attribute.as_bytes());
            put(key.rule.as_deref().unwrap_or_default().as_bytes());
        }
        seal
    }
}

/// Start of the next page.
pub(super) enum NextPage<'a> {
    /// The page starts at this entry id. The second field is true if the page scans.
    From(u64, bool),
    /// The page starts after the result with this sort key, or after the deleted entry with this key.
    After(&'a [u8]),
}

/// The page that a search returns. Its fields come from the request and from the cookie.
pub(super) struct Paging {
    seal: Hmac<Sha256>,
    /// Maximum number of entries of the page; 0 ends the sequence of pages.
    size: u32,
    /// Size limit of the request, which applies to all pages in total; 0 for none.
    size_limit: u32,
    /// Entry id at which the page starts: 0 for the first page.
    pub(super) from: u64,
    /// Sort key after which the page starts, or key of the deleted entry after which it starts; otherwise `None`.
    pub(super) after: Option<Box<[u8]>>,
    /// Number of entries on previous pages.
    returned_before: u64,
    /// Whether the cookie says that the page scans. Such a page needs no plan.
    pub(super) scans: bool,
}

impl Paging {
    /// Returns the page that a request names.
    ///
    /// # Errors
    /// unwillingToPerform for a cookie that the server did not issue for this request, or for a page of no entries
    /// without a cookie.
    pub(super) fn begin(
        key: &PageKey,
        inputs: &SearchInputs<'_>,
        page: &PageRequest,
    ) -> Result<Paging, OperationError> {
        let seal = key.seal(inputs);
        let ((kind, from, returned_before), after) = match &page.cookie {
            Cookie::Empty if page.size == 0 => {
                return Err(refused("a page of no entries ends a sequence of pages and needs its cookie"));
            }
            Cookie::Empty => ((PLANNED, 0, 0), None),
            Cookie::Sealed(cookie) => (opened(&seal, cookie).ok_or_else(foreign)?, None),
            Cookie::Sorted(cookie) => {
                let (returned, key) = opened_sorted(&seal, cookie).ok_or_else(foreign)?;
                ((SORTED, 0, returned), Some(key.into()))
            }
            Cookie::Foreign => return Err(foreign()),
        };
        let (size, size_limit, scans) = (page.size, inputs.request.size_limit, kind == SCANNED);
        Ok(Paging { seal, size, size_limit, from, after, returned_before, scans })
    }

    /// Returns true if the previous page was not sorted. Then this page must not be sorted either.
    pub(super) fn continues_unsorted(&self) -> bool {
        self.from > 0
    }

    /// Returns true if the client ends the sequence of pages (RFC 2696 section 3). The server keeps no state between
    /// pages, so it has nothing to delete.
    pub(super) fn is_abandoned(&self) -> bool {
        self.size == 0
    }

    /// Returns the maximum number of entries of the page. This is the requested number, reduced if the size limit of
    /// the request leaves fewer entries.
    pub(super) fn room(&self) -> u32 {
        if self.size_limit == 0 {
            return self.size;
        }
        // At least 1, because a cookie is issued only if entries are left.
        let left = u64::from(self.size_limit).saturating_sub(self.returned_before).max(1);
        self.size.min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Returns the result code of the page and the value of the response control, for a search that ends with `code`
    /// after `returned` entries. If `code` is sizeLimitExceeded, the page is full, and the next page starts at `next`.
    /// `estimate` is the estimated number of entries of all pages.
    pub(super) fn end(
        &self,
        code: ResultCode,
        next: NextPage<'_>,
        returned: u64,
        estimate: u64,
    ) -> (ResultCode, Vec<u8>) {
        let returned = self.returned_before + returned;
        let is_last = code != ResultCode::SIZE_LIMIT_EXCEEDED
            || (self.size_limit != 0 && returned >= u64::from(self.size_limit));
        let size = if code == ResultCode::SUCCESS { returned } else { estimate };
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        if is_last {
            return (code, PagedResults { size, cookie: b"" }.encode());
        }
        let value = match next {
            NextPage::From(next, scans) => {
                let cookie = self.cookie(if scans { SCANNED } else { PLANNED }, next, returned);
                PagedResults { size, cookie: &cookie }.encode()
            }
            NextPage::After(key) => {
                PagedResults { size, cookie: &self.sorted_cookie(key, returned) }.encode()
            }
        };
        (ResultCode::SUCCESS, value)
    }

    fn sorted_cookie(&self, key: &[u8], returned: u64) -> Vec<u8> {
        let mut cookie = vec![SORTED];
        cookie.extend_from_slice(&returned.to_be_bytes());
        cookie.extend_from_slice(key);
        let seal = self.seal.clone().chain_update(&cookie).finalize().into_bytes();
        cookie.extend(seal.iter().take(SEAL_SIZE));
        cookie
    }

    #[expect(clippy::indexing_slicing, reason = "constants divide the cookie, and the seal is a longer hash")]
    fn cookie(&self, kind: u8, next: u64, returned: u64) -> CookieBytes {
        let mut cookie = [kind; POSITION_SIZE + SEAL_SIZE];
        cookie[1..9].copy_from_slice(&next.to_be_bytes());
        cookie[9..POSITION_SIZE].copy_from_slice(&returned.to_be_bytes());
        let seal = self.seal.clone().chain_update(&cookie[..POSITION_SIZE]).finalize().into_bytes();
        cookie[POSITION_SIZE..].copy_from_slice(&seal[..SEAL_SIZE]);
        cookie
    }
}

/// Returns the content of a cookie; `None` if its seal is invalid.
fn opened(seal: &Hmac<Sha256>, cookie: &CookieBytes) -> Option<(u8, u64, u64)> {
    let (position, tag) = cookie.split_at(POSITION_SIZE);
    seal.clone().chain_update(position).verify_truncated_left(tag).ok()?;
    let (kind, numbers) = position.split_first()?;
    let (next, returned) = numbers.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
    matches!(*kind, PLANNED | SCANNED).then_some((*kind, number(next)?, number(returned)?))
}

/// Returns the content of a cookie of sorted results; `None` if its seal is invalid.
fn opened_sorted<'c>(seal: &Hmac<Sha256>, cookie: &'c [u8]) -> Option<(u64, &'c [u8])> {
    let (position, tag) = cookie.split_at_checked(cookie.len().checked_sub(SEAL_SIZE)?)?;
    seal.clone().chain_update(position).verify_truncated_left(tag).ok()?;
    let (head, key) = position.split_at_checked(SORTED_HEAD_SIZE)?;
    let (kind, returned) = head.split_first()?;
    let returned = returned.try_into().map(u64::from_be_bytes).ok()?;
    (*kind == SORTED).then_some((returned, key))
}

pub(super) fn foreign() -> OperationError {
    refused(
        "the cookie of the paged results control was not given for this search and this identity, or before the data \
         was made anew: begin again without a cookie",
    )
}

fn refused(text: &str) -> OperationError {
    OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text)
}
