//! Changes of the server that this server follows. They are one request in a batch.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use directory::follow::{SourceAttribute, SourceChange, follow};
use directory::{Outcome, Stamp, WriteBatch};
use ldap::ResultCode;

use crate::stamp::{Random, no_random_numbers, now_micros};

/// Memory that an attribute or a change occupies in addition to its values, in octets.
const OVERHEAD_BYTES: usize = 64;

/// Changes to apply together. It does not implement `Debug`, because they may contain passwords.
pub(crate) struct FollowedChanges {
    /// DN of the top entry of the copy.
    base: String,
    pub(crate) changes: Vec<Arc<SourceChange>>,
    pub(crate) end: Option<GroupEnd>,
    leftovers: Mutex<UnappliedChanges>,
    done: Sender<Outcome>,
}

/// End of a group of changes. After it, the copied entries match the state of the other server that a sync cookie
/// identifies.
pub(crate) struct GroupEnd {
    /// Encoded `CopyState` to store if all changes were made.
    pub(crate) state: Vec<u8>,
    /// Encoded `CopyState` to store if some changes were not made. With it, the next connection compares all entries.
    pub(crate) incomplete_state: Vec<u8>,
    /// If true, and some changes wait but none was refused, the stored state is not replaced. The other server then
    /// sends these changes again, because it resumes from the stored cookie.
    pub(crate) keeps_state: bool,
    /// Whether changes that still wait are treated as refused.
    pub(crate) gives_up: bool,
    /// Entries of the group with values that name other entries. These entries are updated again if an entry was
    /// renamed, because an entry that they name may have been received after them.
    pub(crate) with_links: Vec<Arc<SourceChange>>,
    /// Whether an earlier request of the group has renamed an entry.
    pub(crate) has_renames: bool,
}

/// Changes that were not made, by their index, and other facts about the group.
#[derive(Default)]
pub(crate) struct UnappliedChanges {
    /// Whether an entry was renamed.
    pub(crate) has_renames: bool,
    /// Changes that can only be made after other changes.
    pub(crate) waiting: Vec<usize>,
    /// Changes that the directory refused.
    pub(crate) refused: Vec<(usize, Outcome)>,
}

impl UnappliedChanges {
    /// Returns true if all changes were made.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.refused.is_empty()
    }
}

impl FollowedChanges {
    /// Creates a request for changes. When they are durable, the outcome is sent to `done`.
    pub(crate) fn new(
        base: String,
        changes: Vec<Arc<SourceChange>>,
        end: Option<GroupEnd>,
        done: Sender<Outcome>,
    ) -> FollowedChanges {
        FollowedChanges { base, changes, end, leftovers: Mutex::default(), done }
    }

    pub(super) fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change_bytes(change)).sum()
    }

    /// Returns the changes that were not made. Later calls return none.
    pub(crate) fn take_leftovers(&self) -> UnappliedChanges {
        std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn answer(&self, outcome: Outcome) {
        // Sending fails if the receiving thread has ended.
        let _ = self.done.send(outcome);
    }

    /// Makes the changes. A change that depends on other changes is tried again after them, unless a later change of
    /// the same entry was tried.
    pub(super) fn execute(&self, batch: &mut WriteBatch<'_>, random: &mut Random) -> Outcome {
        if !batch.is_copy(&self.base) {
            let text = "the copy was promoted, or is no longer configured";
            return Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text);
        }
        let mut last = Vec::new();
        let mut leftovers =
            UnappliedChanges { waiting: (0..self.changes.len()).collect(), ..UnappliedChanges::default() };
        loop {
            let before = leftovers.waiting.len();
            last.clear();
            let mut waiting_of = HashMap::new();
            for place in std::mem::take(&mut leftovers.waiting) {
                let Some(change) = self.changes.get(place) else { continue };
                let outcome = make(batch, &self.base, change, random, &mut leftovers.has_renames);
                if let Some(earlier) = waiting_of.remove(change.uuid()) {
                    // The earlier change must not be made after this later change of the same entry.
                    leftovers.waiting.retain(|place| *place != earlier);
                    last.retain(|(place, _)| *place != earlier);
                }
                match outcome.code {
                    ResultCode::SUCCESS => {}
                    _ if outcome.fault.is_some() => return outcome,
                    ResultCode::NO_SUCH_OBJECT | ResultCode::NOT_ALLOWED_ON_NON_LEAF => {
                        waiting_of.insert(change.uuid(), place);
                        leftovers.waiting.push(place);
                        last.push((place, outcome));
                    }
                    _ => leftovers.refused.push((place, outcome)),
                }
            }
            if leftovers.waiting.is_empty() || leftovers.waiting.len() == before {
                break;
            }
        }
        if let Some(end) = &self.end {
            if end.gives_up {
                leftovers.waiting.clear();
                leftovers.refused.append(&mut last);
            }
            if let Err(outcome) = end.reach(batch, &self.base, random, &leftovers) {
                return outcome;
            }
        }
        *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner) = leftovers;
        Outcome::success()
    }
}

impl GroupEnd {
    fn reach(
        &self,
        batch: &mut WriteBatch<'_>,
        base: &str,
        random: &mut Random,
        leftovers: &UnappliedChanges,
    ) -> Result<(), Outcome> {
        if leftovers.has_renames || self.has_renames {
            for change in &self.with_links {
                // A change that was refused before is refused again here.
                let outcome = make(batch, base, change, random, &mut false);
                if outcome.fault.is_some() {
                    return Err(outcome);
                }
            }
        }
        let state = match (leftovers.is_empty(), leftovers.refused.is_empty()) {
            (true, _) => &self.state,
            (false, true) if self.keeps_state => return Ok(()),
            _ => &self.incomplete_state,
        };
        Ok(batch.put_follow_state(base, state)?)
    }
}

fn make(
    batch: &mut WriteBatch<'_>,
    base: &str,
    change: &SourceChange,
    random: &mut Random,
    has_renames: &mut bool,
) -> Outcome {
    match random.uuid() {
        Ok(uuid) => {
            let stamp = Stamp { now_micros: now_micros(), uuid, ..Stamp::default() };
            follow(batch, base, change, &stamp, has_renames)
        }
        Err(error) => no_random_numbers(error),
    }
}

/// Returns the approximate size of a change in memory, in octets.
pub(crate) fn change_bytes(change: &SourceChange) -> usize {
    let attribute = |of: &SourceAttribute| {
        let values = of.values.iter().map(|value| value.len() + OVERHEAD_BYTES);
        of.description.len() + OVERHEAD_BYTES + values.sum::<usize>()
    };
    match change {
        SourceChange::Delete(_) => OVERHEAD_BYTES,
        SourceChange::Entry(entry) => {
            entry.dn.len() + OVERHEAD_BYTES + entry.attributes.iter().map(attribute).sum::<usize>()
        }
    }
}
