//! A part of a sorted list: the virtual list view control (draft-ietf-ldapext-ldapv3-vlv-09).
//!
//! A sorted search keeps the keys of its results (see [`super::sorting`]). This module decides which keys are worth
//! keeping and, when all results are known, which of them are sent. For the beginning and the end of a list, and for a
//! typed prefix, it keeps only as many keys as are sent, however long the list is. For an offset, it keeps the keys up
//! to the last key that is sent, or all keys if the offset depends on the length of the list.

use std::collections::BTreeSet;
use std::ops::Range;

use ldap::{ListViewResult, ResultCode};

use crate::model::outcome::OperationError;
use crate::read::controls::{ListViewOptions, WindowTarget};

/// Sort key: octets whose order is the order of the results.
pub(super) type Key = Box<[u8]>;

/// Requested part of a list, and its result.
pub(super) struct Window {
    before: usize,
    after: usize,
    target: Target,
    /// The last keys before the target, up to the requested number. `lower_count` is the number of all keys before the
    /// target.
    lower: BTreeSet<Key>,
    lower_count: u64,
    /// Position of the target and length of the list, once known.
    place: Option<(u64, u64)>,
}

/// Target entry of the requested part.
enum Target {
    First,
    Last,
    /// The first entry with this key or a greater key.
    AtOrAfter(Key),
    /// The entry at this offset.
    At(u64),
    /// The entry whose offset divided by the length of the list equals the first number divided by the second.
    Share(u64, u64),
}

/// Reason why a part of a list is not returned: the code for the response control, and a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowError(pub(super) ResultCode, pub(super) &'static str);

/// Error for a list with too many results to sort.
pub(super) const WINDOW_TOO_LARGE: WindowError = WindowError(
    ResultCode::ADMIN_LIMIT_EXCEEDED,
    "the list is too long to find this part of it: fewer entries, a place nearer to its beginning or end, or a \
     narrower filter takes less",
);

impl WindowError {
    /// Returns the error that ends the search.
    pub(super) fn refusal(self) -> OperationError {
        let text = format!("control virtual list view: {}", self.1);
        OperationError::refused(ResultCode::VIRTUAL_LIST_VIEW_ERROR, text)
    }
}

impl Window {
    /// Creates the window of a request. `key_of` returns the key of a value of the first sort key.
    ///
    /// # Errors
    /// The requested part is invalid for any list.
    pub(super) fn of(
        requested: &ListViewOptions,
        key_of: impl FnOnce(&[u8]) -> Option<Key>,
    ) -> Result<Window, WindowError> {
        if requested.has_context {
            return Err(WindowError(ResultCode::PROTOCOL_ERROR, "this server has given no context"));
        }
        let target = match &requested.target {
            WindowTarget::Value(value) => Target::AtOrAfter(key_of(value).ok_or(WindowError(
                ResultCode::UNWILLING_TO_PERFORM,
                "the value is none of the attribute that the list is sorted by",
            ))?),
            WindowTarget::Offset(offset, count) => match (u64::from(*offset), u64::from(*count)) {
                (0, _) => return Err(WindowError(ResultCode::OFFSET_RANGE_ERROR, "a list begins with 1")),
                (offset, count) if offset == count => Target::Last,
                (1, _) => Target::First,
                (offset, 0) => Target::At(offset),
                (offset, count) if offset > count => {
                    return Err(WindowError(
                        ResultCode::OFFSET_RANGE_ERROR,
                        "the target is after the end of the list",
                    ));
                }
                (offset, count) => Target::Share(offset, count),
            },
        };
        let usize_of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Window {
            before: usize_of(requested.before),
            after: usize_of(requested.after),
            target,
            lower: BTreeSet::new(),
            lower_count: 0,
            place: None,
        })
    }

    /// Returns the maximum number of keys that the caller keeps. The caller keeps only keys for which
    /// [`takes`](Window::takes) returns false.
    pub(super) fn room(&self) -> usize {
        match self.target {
            Target::First | Target::AtOrAfter(_) => self.after.saturating_add(1),
            Target::Last => 0,
            Target::At(number) => usize::try_from(number).unwrap_or(usize::MAX).saturating_add(self.after),
            Target::Share(..) => usize::MAX,
        }
    }

    /// Returns true if a key precedes the target. The caller then passes it to [`take`](Window::take).
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        match &self.target {
            Target::Last => true,
            Target::AtOrAfter(target) => *key < **target,
            Target::First | Target::At(_) | Target::Share(..) => false,
        }
    }

    /// Keeps a key that precedes the target, if it is among the last keys before the target. Returns the length of the
    /// added key, and the length of the key that it displaced.
    pub(super) fn take(&mut self, key: &[u8]) -> (Option<usize>, Option<usize>) {
        self.lower_count += 1;
        let room = self.before + usize::from(matches!(self.target, Target::Last));
        if self.lower.len() < room {
            self.lower.insert(key.into());
            return (Some(key.len()), None);
        }
        if self.lower.first().is_none_or(|least| **least > *key) {
            return (None, None);
        }
        let evicted = self.lower.pop_first().map(|least| least.len());
        self.lower.insert(key.into());
        (Some(key.len()), evicted)
    }

    /// Finds the part of a list whose length `count` is already known. Returns the indexes of its results, from 0.
    /// `rank` returns the number of results with lower keys.
    pub(super) fn place_in<E>(
        &mut self,
        count: u64,
        rank: impl FnOnce(&[u8]) -> Result<u64, E>,
    ) -> Result<Range<u64>, E> {
        if let Target::AtOrAfter(target) = &self.target {
            self.lower_count = rank(target)?;
        }
        let position = self.position(count);
        self.place = Some((position, count));
        let target = position.saturating_sub(1);
        let start = target.saturating_sub(self.before as u64);
        Ok(start..target.saturating_add(self.after as u64).saturating_add(1).min(count))
    }

    /// Returns the position of the target in a list of `count` results.
    fn position(&self, count: u64) -> u64 {
        match self.target {
            Target::First => count.min(1),
            Target::Last => count,
            Target::AtOrAfter(_) => self.lower_count + 1,
            Target::At(number) => number.min(count),
            Target::Share(number, of) => share(number, of, count),
        }
    }

    /// Changes `keys` to the keys to send, when all `count` results are known: adds the kept keys before the target, or
    /// removes keys outside the window.
    pub(super) fn settle(&mut self, keys: &mut BTreeSet<Key>, count: u64) {
        let position = self.position(count);
        self.place = Some((position, count));
        match self.target {
            Target::First => {}
            Target::Last | Target::AtOrAfter(_) => keys.append(&mut self.lower),
            Target::At(_) | Target::Share(..) => {
                let target = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
                let start = target.saturating_sub(self.before);
                let end = target.saturating_add(self.after).saturating_add(1);
                *keys = std::mem::take(keys).into_iter().take(end).skip(start).collect();
            }
        }
    }

    /// Returns the response, once all results are known.
    pub(super) fn result(&self) -> Option<ListViewResult> {
        let (position, count) = self.place?;
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
        Some(ListViewResult { position: number(position), count: number(count), code: ResultCode::SUCCESS })
    }
}

/// Returns the offset in a list of `count` entries that is proportional to `number` in a list of `of`, rounded (section
/// 5).
fn share(number: u64, of: u64, count: u64) -> u64 {
    let (number, of, all) = (u128::from(number), u128::from(of.max(1)), u128::from(count));
    let place = (all * number + of / 2) / of;
    u64::try_from(place).unwrap_or(u64::MAX).clamp(count.min(1), count)
}
