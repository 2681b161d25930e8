//! A part of a sorted list: the virtual list view control (draft-ietf-ldapext-ldapv3-vlv-09).
//!
//! A search that sorts keeps the keys of its results, see [`super::sorting`]; this says which are worth keeping,
//! and when all results are known, which of them go out. For the beginning and the end of a list, and for what somebody
//! types, no more keys are kept than go out, however long the list is. For a place in the middle, whose number follows
//! from the length of the list alone, all of them are.

use std::collections::BTreeSet;

use ldap::{ListViewResult, ResultCode};

use crate::model::outcome::OperationError;
use crate::read::controls::{WindowAsked, WindowTarget};

/// Octets that compare as results do.
pub(super) type Key = Box<[u8]>;

/// What part of a list is wanted, and what it came to.
pub(super) struct Window {
    before: usize,
    after: usize,
    target: Target,
    /// The keys before the target, as many as are wanted; and how many there are.
    lower: BTreeSet<Key>,
    lower_count: u64,
    /// The target's place and the length of the list, once they are known.
    place: Option<(u64, u64)>,
}

/// Which entry the part is around.
enum Target {
    First,
    Last,
    /// The first one with this key or a later one.
    Behind(Key),
    /// The one of this number.
    At(u64),
    /// The one that stands as this one stands among so many.
    Share(u64, u64),
}

/// Why a part of a list is not returned: the code in the response control, and the reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowError(pub(super) ResultCode, pub(super) &'static str);

/// Where too many results would have to be sorted.
pub(super) const WINDOW_TOO_LARGE: WindowError = WindowError(
    ResultCode::ADMIN_LIMIT_EXCEEDED,
    "the list is too long to find this part of it: fewer entries, a place nearer to its beginning or end, or a \
     narrower filter takes less",
);

impl WindowError {
    /// What the search ends with.
    pub(super) fn refusal(self) -> OperationError {
        let text = format!("control virtual list view: {}", self.1);
        OperationError::refused(ResultCode::VIRTUAL_LIST_VIEW_ERROR, text)
    }
}

impl Window {
    /// `key_of` makes the key of a value that the list is sorted by.
    ///
    /// # Errors
    /// There is no such part of any list.
    pub(super) fn of(
        asked: &WindowAsked,
        key_of: impl FnOnce(&[u8]) -> Option<Key>,
    ) -> Result<Window, WindowError> {
        if asked.has_context {
            return Err(WindowError(ResultCode::PROTOCOL_ERROR, "this server has given no context"));
        }
        let target = match &asked.target {
            WindowTarget::Value(value) => Target::Behind(key_of(value).ok_or(WindowError(
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
                        "the target is behind the end of the list",
                    ));
                }
                (offset, count) => Target::Share(offset, count),
            },
        };
        let usize_of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Window {
            before: usize_of(asked.before),
            after: usize_of(asked.after),
            target,
            lower: BTreeSet::new(),
            lower_count: 0,
            place: None,
        })
    }

    /// How many of the keys that are not [`taken`](Window::takes) are worth keeping.
    pub(super) fn room(&self) -> usize {
        match self.target {
            Target::First | Target::Behind(_) => self.after.saturating_add(1),
            Target::Last => 0,
            Target::At(number) => usize::try_from(number).unwrap_or(usize::MAX).saturating_add(self.after),
            Target::Share(..) => usize::MAX,
        }
    }

    /// Whether a key stands before the target, so that it is kept here.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        match &self.target {
            Target::Last => true,
            Target::Behind(target) => *key < **target,
            Target::First | Target::At(_) | Target::Share(..) => false,
        }
    }

    /// Keeps such a key, if it is one of the last: the lengths of what came and what went for it.
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
        let gone = self.lower.pop_first().map(|least| least.len());
        self.lower.insert(key.into());
        (Some(key.len()), gone)
    }

    /// All results are known, `count` of them: leaves those in `keys` that go out.
    pub(super) fn settle(&mut self, keys: &mut BTreeSet<Key>, count: u64) {
        let position = match self.target {
            Target::First => count.min(1),
            Target::Last => count,
            Target::Behind(_) => self.lower_count + 1,
            Target::At(number) => number.min(count),
            Target::Share(number, of) => share(number, of, count),
        };
        self.place = Some((position, count));
        match self.target {
            Target::First => {}
            Target::Last | Target::Behind(_) => keys.append(&mut self.lower),
            Target::At(_) | Target::Share(..) => {
                let target = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
                let start = target.saturating_sub(self.before);
                let end = target.saturating_add(self.after).saturating_add(1);
                *keys = std::mem::take(keys).into_iter().take(end).skip(start).collect();
            }
        }
    }

    /// What the client is told, once all results are known.
    pub(super) fn result(&self) -> Option<ListViewResult> {
        let (position, count) = self.place?;
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
        Some(ListViewResult { position: number(position), count: number(count), code: ResultCode::SUCCESS })
    }
}

/// The place among `count` that is as the place `number` among `of`, rounded (section 5).
fn share(number: u64, of: u64, count: u64) -> u64 {
    let (number, of, all) = (u128::from(number), u128::from(of.max(1)), u128::from(count));
    let place = (all * number + of / 2) / of;
    u64::try_from(place).unwrap_or(u64::MAX).clamp(count.min(1), count)
}
