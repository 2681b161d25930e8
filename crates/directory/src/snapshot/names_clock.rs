//! When names last changed, so that what a snapshot has found out about names outlives the commits that change none.
//!
//! The writer says so before a commit that changes names and again when it is over. A snapshot that moves asks before
//! and after: before, which changes it is about to see for sure; after, which it may have seen. Where both say the
//! same, at two moves that follow each other, no name has changed between them. Nothing else is taken for granted of
//! how a commit becomes visible than that it does so after it was begun and before it is over.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::outcome::OperationError;
use crate::model::record::Change;
use crate::model::rows::NodeFlags;
use crate::tree::State;

/// Counts the commits that change names: of entries that were there, or what they lead to.
#[derive(Debug, Default)]
pub(crate) struct NamesClock {
    begun: AtomicU64,
    over: AtomicU64,
}

impl NamesClock {
    /// Makes a commit that changes names. It counts whatever comes of it.
    pub(crate) fn during<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.begin();
        let outcome = commit();
        self.over.fetch_add(1, Ordering::SeqCst);
        outcome
    }

    /// A commit that changes names comes, and nobody will say when it is over.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// The commits that whoever moves now will see; `None` where one is under way, which may be seen or not.
    pub(crate) fn settled(&self) -> Option<u64> {
        let over = self.over.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == over).then_some(over)
    }

    /// The commits that whoever moved before now may have seen.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Whether a change, to be made in this state, may be of the name of an entry that is there or of what a name leads to:
/// of what [`NameCache`](crate::snapshot::name_cache::NameCache) keeps.
pub(crate) fn changes_names(state: State<'_>, change: &Change) -> Result<bool, OperationError> {
    let has_special = || state.catalog.class_set_flags() != NodeFlags::default();
    match change {
        Change::Add(_) | Change::Administrator { .. } => Ok(false),
        // Becoming an alias or a referral, and ceasing to be one.
        Change::Modify(modify) if modify.flags != NodeFlags::default() || has_special() => {
            Ok(state.node(modify.id)?.is_none_or(|row| row.flags != modify.flags))
        }
        Change::Modify(_) => Ok(false),
        Change::Delete(_) | Change::ModifyDn(_) | Change::Settings(_) | Change::Suffix { .. } => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use ldap::{ChangeOperation, ResultCode, Scope};

    use super::*;
    use crate::testing::{SUFFIX, TestDirectory};

    #[test]
    fn a_change_is_settled_only_when_it_is_over() {
        let clock = NamesClock::default();
        assert_eq!((clock.settled(), clock.begun()), (Some(0), 0));
        clock.during(|| assert_eq!((clock.settled(), clock.begun()), (None, 1)));
        assert_eq!((clock.settled(), clock.begun()), (Some(1), 1));
        clock.begin();
        clock.during(|| ());
        assert_eq!((clock.settled(), clock.begun()), (None, 3));
    }

    /// Whether the snapshot remembers the suffix as a base.
    fn remembers(directory: &TestDirectory) -> bool {
        directory.snapshot.names().base(SUFFIX).is_some()
    }

    fn people_count(directory: &mut TestDirectory) -> usize {
        let found = directory.search(SUFFIX, Scope::WholeSubtree, "(sn=x)", &["1.1"]);
        assert_eq!(found.code, ResultCode::SUCCESS);
        assert!(remembers(directory));
        found.entries.len()
    }

    #[test]
    fn what_is_known_of_names_outlives_what_changes_none() {
        let (a, b) = ("cn=a,dc=example,dc=com", "cn=b,dc=example,dc=com");
        let mut directory = TestDirectory::with_suffix_entry();
        assert_eq!(people_count(&mut directory), 0);
        let added = directory.add(a, &[("objectClass", &["person"]), ("sn", &["x"])]);
        assert_eq!((added.code, remembers(&directory)), (ResultCode::SUCCESS, true));
        assert_eq!(people_count(&mut directory), 1);
        let changed = directory.modify(a, &[(ChangeOperation::Replace, "description", &["y"])]);
        assert_eq!((changed.code, remembers(&directory)), (ResultCode::SUCCESS, true));
        let renamed = directory.modify_dn(a, "cn=b", true, None);
        assert_eq!((renamed.code, remembers(&directory)), (ResultCode::SUCCESS, false));
        assert_eq!(people_count(&mut directory), 1);
        let deleted = directory.delete(b);
        assert_eq!((deleted.code, remembers(&directory)), (ResultCode::SUCCESS, false));
        assert_eq!(people_count(&mut directory), 0);
        directory.change_settings(|settings| settings.general.size_limit += 1);
        assert!(!remembers(&directory));
    }

    /// Beside a referral, of every change it is asked what it makes of the entry.
    #[test]
    fn values_change_no_names_where_there_are_referrals() {
        let (unit, referral) = ("ou=a,dc=example,dc=com", "ou=b,dc=example,dc=com");
        let mut directory = TestDirectory::with_suffix_entry();
        directory.add(unit, &[("objectClass", &["organizationalUnit"])]);
        let elsewhere: &[(&str, &[&str])] =
            &[("objectClass", &["referral", "extensibleObject"]), ("ref", &["ldap://elsewhere/"])];
        let added = directory.add(referral, elsewhere);
        assert_eq!(added.code, ResultCode::SUCCESS, "{}", added.diagnostic);
        assert_eq!(people_count(&mut directory), 0);
        let changed = directory.modify(unit, &[(ChangeOperation::Replace, "description", &["y"])]);
        assert_eq!((changed.code, remembers(&directory)), (ResultCode::SUCCESS, true));
    }
}
