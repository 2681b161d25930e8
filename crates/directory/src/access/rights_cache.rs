//! Cache of the rights of requesters under access rules. A log record that affects a source of cached rights
//! invalidates these rights.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use store::{StoreError, View};

use super::rule_rights::RuleRights;
use super::sources::{EntryEffect, Sources, touches};
use super::{EffectiveRights, RequestContext, Requester};
use crate::model::limits::{
    RECORDS_FOLLOWED_MAX, REQUESTERS_CACHED_MAX, RIGHTS_SOURCES_MAX, TOUCHED_RECORD_MAX,
};
use crate::model::outcome::OperationError;
use crate::model::record::Record;
use crate::model::rows::EntryId;
use crate::tree::TreeState;

/// Key of cached rights. The first field is the requester's entry, `None` for anonymous. The second field has a bit
/// for each rule that applies to the connection, or is `None` if no rule depends on the connection. It is never an
/// empty list, because glibc compares empty lists by a masked load from an invalid address, which is slow.
type RightsKey = (Option<EntryId>, Option<Box<[u64]>>);

/// Cached rights of requesters under access rules.
#[derive(Debug, Default)]
pub(crate) struct RightsCache {
    by_key: HashMap<RightsKey, Arc<RuleRights>, RandomState>,
    /// Log position at which all cached rights are valid.
    position: u64,
    /// Sources that all cached rights depend on.
    names: HashSet<EntryEffect, RandomState>,
    /// Sources that only some cached rights depend on, with the keys of these rights.
    own: HashMap<EntryEffect, HashSet<RightsKey, RandomState>, RandomState>,
}

impl RightsCache {
    /// Returns the effective rights of a requester while access rules are in force. `state` is the state of `view`. The
    /// rights under the rules are taken from the cache, or computed and cached.
    ///
    /// # Errors
    /// As [`EffectiveRights::of`].
    pub(crate) fn rights(
        &mut self,
        view: &View,
        state: TreeState<'_>,
        context: &RequestContext<'_>,
    ) -> Result<EffectiveRights, OperationError> {
        let own = match context.requester {
            Requester::Administrator { .. } => return EffectiveRights::of(state, context),
            Requester::Anonymous => None,
            Requester::User { id, .. } => Some(*id),
        };
        let holding = state.catalog.access_rules.holding_over(context.link.as_ref());
        let key = (own, (!holding.is_empty()).then(|| holding.into_boxed_slice()));
        if let Some(known) = self.by_key.get(&key) {
            return Ok(EffectiveRights::with(state.settings, context, Some(Arc::clone(known))));
        }
        let rights = EffectiveRights::of(state, context)?;
        if let Some(rules) = &rights.rules {
            self.keep(view, key, rules)?;
        }
        Ok(rights)
    }

    /// Caches rights that were computed from `view`, unless they have too many sources. The view must be at the
    /// position of the other cached rights.
    fn keep(&mut self, view: &View, key: RightsKey, rules: &Arc<RuleRights>) -> Result<(), StoreError> {
        let Sources { names, own } = rules.sources();
        if own.len() > RIGHTS_SOURCES_MAX {
            return Ok(());
        }
        if self.by_key.len() >= REQUESTERS_CACHED_MAX {
            self.forget();
        }
        if self.by_key.is_empty() {
            self.position = view.position()?;
        }
        self.names.extend(names);
        for touch in own {
            self.own.entry(*touch).or_default().insert(key.clone());
        }
        self.by_key.insert(key, Arc::clone(rules));
        Ok(())
    }

    pub(crate) fn forget(&mut self) {
        self.by_key.clear();
        self.names.clear();
        self.own.clear();
    }

    /// Drops the rights that are no longer valid in `view`.
    pub(crate) fn follow(&mut self, view: &View) -> Result<(), StoreError> {
        if self.by_key.is_empty() {
            return Ok(());
        }
        let followed = self.read_log(view);
        if !matches!(followed, Ok(true)) {
            self.forget();
        }
        followed.map(drop)
    }

    /// Drops the rights that new records of the log invalidate. Returns false if all rights must be dropped. All
    /// rights must be dropped if the new records are too many, too large or already trimmed, or if one of them may
    /// invalidate any rights.
    fn read_log(&mut self, view: &View) -> Result<bool, StoreError> {
        let position = view.position()?;
        if position.checked_sub(self.position).is_none_or(|new| new > RECORDS_FOLLOWED_MAX) {
            return Ok(false);
        }
        for record in view.log_records(self.position + 1) {
            let (found, bytes) = record?;
            if found != self.position + 1 || bytes.len() > TOUCHED_RECORD_MAX {
                return Ok(false);
            }
            let Some(touched) = Record::decode(bytes).as_ref().and_then(touches) else { return Ok(false) };
            touched.into_iter().chain([EntryEffect::Any]).for_each(|touch| self.touch(touch));
            self.position = found;
        }
        Ok(self.position == position)
    }

    fn touch(&mut self, touch: EntryEffect) {
        if self.names.contains(&touch) {
            self.forget();
        }
        for key in self.own.remove(&touch).into_iter().flatten() {
            let Some(rules) = self.by_key.remove(&key) else { continue };
            for other in &rules.sources().own {
                if let Some(keys) = self.own.get_mut(other) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.own.remove(other);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ldap::{ChangeOperation, ResultCode};

    use super::{EffectiveRights, RuleRights};
    use crate::access::{Requester, TraversalCache};
    use crate::model::limits::RECORDS_FOLLOWED_MAX;
    use crate::model::name::{NormalName, parse_dn};
    use crate::model::outcome::Outcome;
    use crate::model::rows::EntryId;
    use crate::snapshot::Snapshot;
    use crate::testing::{SUFFIX, TestDirectory};

    const USERS: [&str; 3] =
        ["uid=a,ou=x,dc=example,dc=com", "uid=b,ou=x,dc=example,dc=com", "uid=c,ou=y,dc=example,dc=com"];
    const GROUPS: [&str; 3] =
        ["cn=g,dc=example,dc=com", "cn=h,dc=example,dc=com", "cn=i,ou=y,dc=example,dc=com"];
    const DESCRIBED: &str = "cn=d,dc=example,dc=com";
    const UNITS: [&str; 2] = ["ou=x,dc=example,dc=com", "ou=y,dc=example,dc=com"];
    const RULES: [&str; 7] = [
        "users: allow browse, read of objectClass to authenticated",
        "group: allow read of sn in 'ou=x,dc=example,dc=com' to group 'cn=g,dc=example,dc=com'",
        "other: allow read of mail to group 'cn=h,dc=example,dc=com'",
        "third: deny read of mail at 'uid=b,ou=x,dc=example,dc=com' to group 'cn=i,ou=y,dc=example,dc=com'",
        "manager: allow read of telephoneNumber to named by manager",
        "unit: allow read of description but not in 'ou=y,dc=example,dc=com' to users in 'ou=x,dc=example,dc=com'",
        "one: allow read of title to user 'uid=c,ou=y,dc=example,dc=com'",
    ];

    /// Rules with filters.
    const FILTERED: [&str; 3] = [
        "led: allow read of street matching '(manager=uid=a,ou=x,dc=example,dc=com)' \
         to users matching '(description=x)'",
        "in it: allow read of l matching '(description=x)' to users matching '(memberOf=cn=h,dc=example,dc=com)'",
        "found: allow read of st to group 'cn=d,dc=example,dc=com'",
    ];

    fn add(directory: &mut TestDirectory, dn: &str) -> Outcome {
        let class: &[(&str, &[&str])] = match dn.split_once('=').map(|(name, _)| name) {
            Some("uid") => &[("objectClass", &["inetOrgPerson"]), ("cn", &["p"]), ("sn", &["p"])],
            Some("cn") if dn == DESCRIBED => &[("objectClass", &["groupOfURLs"])],
            Some("cn") => {
                &[("objectClass", &["groupOfNames"]), ("member", &["uid=nobody,dc=example,dc=com"])]
            }
            _ => &[("objectClass", &["organizationalUnit"])],
        };
        directory.add(dn, class)
    }

    fn directory() -> TestDirectory {
        let mut directory = TestDirectory::with_suffix_entry();
        for dn in UNITS.iter().chain(&USERS).chain(&GROUPS).chain(&[DESCRIBED]) {
            add(&mut directory, dn);
        }
        let rules = RULES.map(str::to_owned).to_vec();
        directory.change_settings(|settings| settings.general.access_rules = rules);
        directory
    }

    fn entry(directory: &TestDirectory, dn: &str) -> Option<EntryId> {
        let state = directory.snapshot.state();
        state.entry_of(&NormalName::of(&parse_dn(dn).unwrap(), &state.catalog.schema)).unwrap()
    }

    fn requester(id: EntryId, dn: &str) -> Requester {
        Requester::User { id, dn: dn.to_owned() }
    }

    fn rights(directory: &TestDirectory, dn: &str) -> Arc<RuleRights> {
        rights_in(&directory.snapshot, &requester(entry(directory, dn).unwrap(), dn))
    }

    fn rights_in(snapshot: &Snapshot, requester: &Requester) -> Arc<RuleRights> {
        snapshot.rights(&requester.context()).unwrap().rules.unwrap()
    }

    #[test]
    fn only_commits_that_affect_a_requester_drop_its_cached_rights() {
        let mut directory = directory();
        // The first use of an attribute allocates a number to the attribute. Such an allocation invalidates all cached
        // rights.
        directory.modify(USERS[2], &[(ChangeOperation::Replace, "description", &["first"])]);
        let (first, other) = (rights(&directory, USERS[0]), rights(&directory, USERS[1]));
        for number in 0..2_000 {
            let text = number.to_string();
            let outcome = directory.modify(USERS[2], &[(ChangeOperation::Replace, "description", &[&text])]);
            assert_eq!(outcome.code, ResultCode::SUCCESS);
        }
        assert!(Arc::ptr_eq(&first, &rights(&directory, USERS[0])));
        // No rule here depends on the values of the requester's own entry, so these values are not a source. Otherwise
        // every bind that records the last login would invalidate the rights.
        directory.modify(USERS[0], &[(ChangeOperation::Replace, "description", &["x"])]);
        assert!(Arc::ptr_eq(&first, &rights(&directory, USERS[0])));
        directory.modify(GROUPS[0], &[(ChangeOperation::Add, "member", &[USERS[0]])]);
        let second = rights(&directory, USERS[0]);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&other, &rights(&directory, USERS[1])));
        directory.modify(GROUPS[0], &[(ChangeOperation::Delete, "member", &[USERS[0]])]);
        assert!(!Arc::ptr_eq(&second, &rights(&directory, USERS[0])));
        assert!(Arc::ptr_eq(&other, &rights(&directory, USERS[1])));
        // An entry that a rule names is a source: after its deletion, another entry may receive its DN.
        directory.delete(USERS[2]);
        assert!(!Arc::ptr_eq(&other, &rights(&directory, USERS[1])));
    }

    #[test]
    fn many_commits_at_once_drop_all_cached_rights() {
        let mut directory = directory();
        let mut late = directory.directory.snapshot().unwrap();
        let requester = requester(entry(&directory, USERS[0]).unwrap(), USERS[0]);
        let first = rights_in(&late, &requester);
        for number in 0..=RECORDS_FOLLOWED_MAX {
            let text = number.to_string();
            directory.modify(USERS[2], &[(ChangeOperation::Replace, "description", &[&text])]);
        }
        late.renew().unwrap();
        assert!(!Arc::ptr_eq(&first, &rights_in(&late, &requester)));
    }

    /// A small generator (xorshift), for reproducible changes.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end as u64) as usize
        }

        fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
            all[self.below(all.len())]
        }
    }

    /// Makes a change, which may be refused.
    fn change(directory: &mut TestDirectory, random: &mut Random) {
        let all: Vec<&str> = USERS.iter().chain(&GROUPS).chain(&UNITS).copied().collect();
        let (group, user, any) = (random.of(&GROUPS), random.of(&USERS), random.of(&all));
        let member = if random.below(3) == 0 { random.of(&GROUPS) } else { user };
        match random.below(13) {
            0 | 1 => directory.modify(group, &[(ChangeOperation::Add, "member", &[member])]),
            2 => directory.modify(group, &[(ChangeOperation::Delete, "member", &[member])]),
            3 => directory.modify(group, &[(ChangeOperation::Replace, "member", &[member])]),
            4 => directory.modify(user, &[(ChangeOperation::Replace, "manager", &[random.of(&USERS)])]),
            5 => directory.modify(user, &[(ChangeOperation::Replace, "manager", &[])]),
            6 => directory.delete(any),
            7 => add(directory, any),
            8 => directory.modify(user, &[(ChangeOperation::Replace, "description", &["x"])]),
            9 => directory.modify(user, &[(ChangeOperation::Replace, "description", &["y"])]),
            10 => {
                let urls = [
                    "ldap:///ou=x,dc=example,dc=com??sub?(description=x)",
                    "ldap:///dc=example,dc=com??sub?(manager=*)",
                ];
                directory.modify(DESCRIBED, &[(ChangeOperation::Replace, "memberURL", &[random.of(&urls)])])
            }
            11 => {
                directory.delete(DESCRIBED);
                add(directory, DESCRIBED)
            }
            _ => {
                let (from, to) = if random.below(2) == 0 { (0, 1) } else { (1, 0) };
                let names = ["ou=x", "ou=z"];
                directory.modify_dn(&format!("{},{SUFFIX}", names[from]), names[to], true, None)
            }
        };
    }

    /// Cached rights equal newly computed rights at every entry, whatever has changed.
    #[test]
    fn cached_rights_equal_recomputed_ones() {
        let mut directory = directory();
        let rules = RULES.iter().chain(&FILTERED).map(|rule| (*rule).to_owned()).collect();
        directory.change_settings(|settings| settings.general.access_rules = rules);
        let mut reader = directory.directory.snapshot().unwrap();
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut cached_count, mut question) = (0, 0);
        for _ in 0..400 {
            for _ in 0..=random.below(3) {
                change(&mut directory, &mut random);
            }
            reader.renew().unwrap();
            let state = reader.state();
            let users: Vec<_> = USERS.iter().filter_map(|dn| Some((entry(&directory, dn)?, *dn))).collect();
            for (id, dn) in users {
                let requester = requester(id, dn);
                let key = (Some(id), None);
                cached_count += u32::from(reader.rights_cache.borrow().by_key.contains_key(&key));
                question += 1;
                let known = reader.rights(&requester.context()).unwrap();
                let computed = EffectiveRights::of(state, &requester.context()).unwrap();
                for entry in USERS.iter().chain(&GROUPS).chain(&UNITS).filter_map(|dn| entry(&directory, dn))
                {
                    let parent = state.node(entry).unwrap().unwrap().parent;
                    let at = |of: &EffectiveRights| {
                        of.at(state, &mut TraversalCache::default(), entry, parent).unwrap().unwrap()
                    };
                    assert_eq!(at(&known), at(&computed), "{dn} at {entry:?}");
                }
            }
        }
        assert!(
            cached_count * 4 > question && cached_count < question,
            "{cached_count} of {question} were kept"
        );
    }
}
