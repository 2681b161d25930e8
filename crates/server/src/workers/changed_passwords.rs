//! Preparation of the clear passwords of a change, one hash at a time.
//!
//! A change may cost many hashes, because a new password is compared with a history of former passwords. Therefore the
//! preparation can pause after each hash, so that other jobs have their turns.

use directory::password::{self, StorageScheme};
use directory::{HistoryChecks, SaslKeyRules};
use sasl::cram::{CRAM_MD5, CramKey};
use sasl::digest::{DIGEST_MD5, DigestKey};
use sasl::{Hash, ScramKeys};

use crate::net::mailbox::{PasswordKeys, PreparedPasswords};
use crate::stamp::Random;
use crate::workers::bad_passwords::BadPasswords;

/// The clear passwords of a change.
pub(crate) struct ChangedPasswords {
    pub(crate) scheme: StorageScheme,
    /// Passwords that the change adds. They must be hashed.
    pub(crate) new: Vec<Vec<u8>>,
    /// Passwords that the change deletes, each with the stored values that it may match.
    pub(crate) old: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// Stored values of former passwords. A new password must match none of them.
    pub(crate) former: Vec<Vec<u8>>,
    /// Whether a new password must not be on a list of bad passwords.
    pub(crate) checks_lists: bool,
    /// Rules for SASL keys to derive from new passwords.
    pub(crate) keys: SaslKeyRules,
}

impl ChangedPasswords {
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Returns the maximum number of hashes that the preparation computes, without the comparisons with former
    /// passwords.
    pub(crate) fn hash_count(&self) -> usize {
        self.new.len() + self.old.iter().map(|(_, stored)| stored.len()).sum::<usize>()
    }

    /// Returns true if the preparation is slow, so that the hash pool must do it.
    pub(crate) fn is_slow(&self) -> bool {
        let old = self.old.iter().flat_map(|(_, stored)| stored);
        let former = self.former.iter().filter(|_| !self.new.is_empty());
        let mut stored = old.chain(former);
        let makes_slow = self.scheme.is_slow() || !self.keys.mechanisms.is_empty() || self.checks_lists;
        (!self.new.is_empty() && makes_slow) || stored.any(|stored| password::is_slow(stored))
    }

    /// Prepares all passwords at once.
    ///
    /// # Errors
    /// The system gave no random salt.
    pub(crate) fn prepare(self, random: &mut Random) -> Result<PreparedPasswords, getrandom::Error> {
        let mut preparation = Preparation::new(self);
        while preparation.cost_left() > 0 {
            preparation.step(random, &BadPasswords::default())?;
        }
        Ok(preparation.end())
    }
}

/// Step of a preparation. The numbers are indexes into the lists of [`ChangedPasswords`].
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Search the lists of bad passwords for the new password `new`.
    Lists { new: usize },
    /// Compare the new password `new` with the stored value `form` of a former password.
    Former { form: usize, new: usize },
    /// Derive the keys of the new password `new`.
    Keys { new: usize },
    /// Hash the new password `new`.
    Hash { new: usize },
    /// Compare the deleted password `old` with its stored value `stored`.
    Old { old: usize, stored: usize },
}

/// Passwords that are being prepared.
pub(crate) struct Preparation {
    passwords: ChangedPasswords,
    /// Remaining tasks with their costs in hashes. The next task is the last of the list.
    tasks: Vec<(Task, u32)>,
    cost_left: u32,
    has_started: bool,
    /// Index of the last former password that matches a new password.
    used: Option<usize>,
    prepared: PreparedPasswords,
}

impl Preparation {
    pub(crate) fn new(passwords: ChangedPasswords) -> Preparation {
        let ChangedPasswords { scheme, new, old, former, checks_lists, keys } = &passwords;
        let mut tasks = Vec::new();
        let each_new = || 0..new.len();
        if *checks_lists {
            tasks.extend(each_new().map(|new| (Task::Lists { new }, 1)));
        }
        for (form, stored) in former.iter().enumerate() {
            tasks.extend(each_new().map(|new| (Task::Former { form, new }, password::cost(stored))));
        }
        if !keys.mechanisms.is_empty() {
            let cost = u32::try_from(keys.mechanisms.len()).unwrap_or(u32::MAX);
            tasks.extend(each_new().map(|new| (Task::Keys { new }, cost)));
        }
        let cost = password::cost_of_scheme(*scheme);
        tasks.extend(each_new().map(|new| (Task::Hash { new }, cost)));
        for (old, (_, forms)) in old.iter().enumerate() {
            let each = forms.iter().enumerate();
            tasks.extend(each.map(|(stored, form)| (Task::Old { old, stored }, password::cost(form))));
        }
        tasks.reverse();
        let cost = tasks.iter().fold(0_u32, |sum, (_, cost)| sum.saturating_add(*cost));
        let prepared = PreparedPasswords::default();
        // Tasks without cost run together with the next task that has a cost. If no task has a cost, one step is
        // needed.
        Preparation { passwords, tasks, cost_left: cost.max(1), has_started: false, used: None, prepared }
    }

    /// Returns the maximum number of hashes left; 0 when the preparation is complete.
    pub(crate) fn cost_left(&self) -> u32 {
        self.cost_left
    }

    /// Returns true if at least one step was made.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Performs tasks until one slow hash is computed or no task is left. Returns the cost in hashes.
    ///
    /// # Errors
    /// The system gave no random salt.
    pub(crate) fn step(
        &mut self,
        random: &mut Random,
        bad_passwords: &BadPasswords,
    ) -> Result<u32, getrandom::Error> {
        self.has_started = true;
        while let Some((task, cost)) = self.tasks.pop() {
            let is_done = self.run(task, random, bad_passwords)?;
            self.cost_left = self.cost_left.saturating_sub(cost).max(1);
            if is_done && cost > 0 && !self.tasks.is_empty() {
                return Ok(cost);
            }
        }
        self.cost_left = 0;
        Ok(1)
    }

    /// Performs a task. Returns false if no hash had to be computed.
    fn run(
        &mut self,
        task: Task,
        random: &mut Random,
        bad_passwords: &BadPasswords,
    ) -> Result<bool, getrandom::Error> {
        let (passwords, prepared) = (&self.passwords, &mut self.prepared);
        match task {
            Task::Lists { new } => {
                let listed = passwords.new.get(new).filter(|clear| bad_passwords.have(clear));
                prepared.listed.extend(listed.cloned());
            }
            Task::Former { form, .. } if self.used == Some(form) => return Ok(false),
            Task::Former { form, new } => {
                if let (Some(stored), Some(clear)) = (passwords.former.get(form), passwords.new.get(new))
                    && password::verify(stored, password::clear_of(clear))
                {
                    prepared.history.matching.push(stored.clone());
                    self.used = Some(form);
                }
            }
            Task::Keys { new } => {
                let clear = passwords.new.get(new).map(std::slice::from_ref).unwrap_or_default();
                prepared.scram.extend(make_keys(clear, &passwords.keys, random)?);
            }
            Task::Hash { new } => {
                if let Some(clear) = passwords.new.get(new) {
                    let stored = password::hash(passwords.scheme, clear, &random.bytes()?);
                    prepared.hashed.push((clear.clone(), stored));
                }
            }
            Task::Old { old, stored } => {
                let Some((clear, forms)) = passwords.old.get(old) else { return Ok(false) };
                // An earlier stored value has matched this deleted password. All tasks for a deleted password follow
                // one another.
                if stored > 0 && prepared.matched.last().is_some_and(|(found, _)| found == clear) {
                    return Ok(false);
                }
                if let Some(form) = forms.get(stored).filter(|form| password::verify(form, clear)) {
                    prepared.matched.push((clear.clone(), form.clone()));
                }
            }
        }
        Ok(true)
    }

    /// Returns the prepared passwords. No task may be left.
    pub(crate) fn end(self) -> PreparedPasswords {
        let Preparation { passwords, mut prepared, .. } = self;
        prepared.history = HistoryChecks { forms: passwords.former, ..prepared.history };
        prepared
    }
}

/// Returns each clear password with the text forms of its SASL keys. There is one key for each SCRAM mechanism, each
/// with a separate salt, one key for CRAM-MD5, and one key for each name for DIGEST-MD5. A password that is not UTF-8
/// has no keys.
///
/// # Errors
/// The system gave no random salt.
pub(super) fn make_keys(
    clear: &[Vec<u8>],
    SaslKeyRules { mechanisms, iterations, names, realm }: &SaslKeyRules,
    random: &mut Random,
) -> Result<PasswordKeys, getrandom::Error> {
    let mut all = Vec::new();
    for clear in clear.iter().filter(|_| !mechanisms.is_empty()) {
        let Ok(text) = std::str::from_utf8(password::clear_of(clear)) else { continue };
        let mut keys = Vec::new();
        if mechanisms.iter().any(|name| name == CRAM_MD5) {
            keys.push(CramKey::derive(text.as_bytes()).text());
        }
        if mechanisms.iter().any(|name| name == DIGEST_MD5) {
            keys.extend(names.iter().map(|name| DigestKey::derive(name, realm, text).text()));
        }
        for (hash, _) in mechanisms.iter().filter_map(|name| Hash::of_mechanism(name)) {
            keys.push(ScramKeys::derive(hash, text, &random.bytes()?, *iterations).text());
        }
        all.push((clear.clone(), keys));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_change_computes_one_slow_hash_per_step() {
        let slow = |clear: &[u8], salt| password::hash(StorageScheme::Argon2id, clear, &[salt; 16]);
        let (former, other) = (slow(b"two", 1), slow(b"three", 2));
        let passwords = || ChangedPasswords {
            scheme: StorageScheme::Argon2id,
            new: vec![b"one".to_vec(), b"two".to_vec()],
            old: vec![(b"three".to_vec(), vec![b"{SSHA}AAAA".to_vec(), other.clone(), former.clone()])],
            former: vec![b"{SSHA}AAAA".to_vec(), former.clone(), other.clone()],
            checks_lists: false,
            keys: SaslKeyRules::default(),
        };
        let mut preparation = Preparation::new(passwords());
        assert_eq!(preparation.cost_left(), 8, "4 former, 2 new, 2 old");
        let mut random = Random::default();
        let mut steps = Vec::new();
        while preparation.cost_left() > 0 {
            assert_eq!(preparation.has_started(), !steps.is_empty());
            preparation.step(&mut random, &BadPasswords::default()).unwrap();
            steps.push(preparation.cost_left());
        }
        // The last stored value of the deleted password is not compared, because the value before it matched.
        assert_eq!(steps, [7, 6, 5, 4, 3, 2, 1, 0]);
        let check = |prepared: PreparedPasswords| {
            assert_eq!(prepared.history.matching, std::slice::from_ref(&former));
            assert_eq!(prepared.history.forms.len(), 3);
            assert_eq!(prepared.matched, [(b"three".to_vec(), other.clone())]);
            let hashed: Vec<&[u8]> = prepared.hashed.iter().map(|(clear, _)| clear.as_slice()).collect();
            assert_eq!(hashed, [b"one".as_slice(), b"two"]);
            assert!(prepared.hashed.iter().all(|(clear, stored)| password::verify(stored, clear)));
        };
        check(preparation.end());
        check(passwords().prepare(&mut random).unwrap());
    }

    #[test]
    fn work_without_slow_hashes_takes_one_step() {
        let mut preparation = Preparation::new(ChangedPasswords {
            scheme: StorageScheme::Ssha,
            new: vec![b"one".to_vec()],
            old: Vec::new(),
            former: vec![b"{SSHA}AAAA".to_vec(); 24],
            checks_lists: true,
            keys: SaslKeyRules::default(),
        });
        assert_eq!(preparation.cost_left(), 1);
        preparation.step(&mut Random::default(), &BadPasswords::default()).unwrap();
        preparation.step(&mut Random::default(), &BadPasswords::default()).unwrap();
        assert_eq!(preparation.cost_left(), 0);
        assert_eq!(preparation.end().hashed.len(), 1);
    }
}
