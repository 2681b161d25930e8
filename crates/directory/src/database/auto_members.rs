//! Memberships that rules of the setting `auto_members` add, in the same batch as the change of the new member.
//!
//! The change and the memberships are separate records. Either all of these records become durable, or none. The server
//! adds the memberships with its own rights, as the requester [`AUTO_MEMBERS`].

use std::sync::Arc;

use ldap::{ChangeOperation, ChangesBuf, ModifyRequest, Request, ResultCode};

use super::WriteBatch;
use crate::access::Requester;
use crate::filter::Covering;
use crate::model::outcome::OperationError;
use crate::model::own_changes::AUTO_MEMBERS;
use crate::model::record::{Change, Record};
use crate::model::rows::EntryId;
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::write::decide::decide;
use crate::write::joins;

type Result<T> = std::result::Result<T, OperationError>;

/// A changed entry that may have to join groups.
pub(super) struct JoinCandidate {
    id: EntryId,
    /// One flag per rule. The flag is true if the entry cannot join by the rule, because the rule already covered the
    /// entry before the change, or does not apply to the change.
    is_settled: Vec<bool>,
}

impl WriteBatch<'_> {
    /// Returns the entry that a record changes, if the entry may have to join groups.
    #[inline]
    pub(super) fn joining(&self, record: Option<&Record>) -> Result<Option<JoinCandidate>> {
        match (self.state().catalog.auto_members.is_empty(), record) {
            (false, Some(record)) => self.joining_by(record),
            _ => Ok(None),
        }
    }

    #[cold]
    #[inline(never)]
    fn joining_by(&self, record: &Record) -> Result<Option<JoinCandidate>> {
        let state = self.state();
        let rules = &state.catalog.auto_members;
        let (id, is_settled) = match &record.change {
            Change::Add(add) => (add.id, vec![false; rules.len()]),
            Change::Modify(modify) => {
                let settled = rules.iter().map(|rule| match rule.on_modify {
                    true => Covering::of(state, &rule.covered)?.covers(state, modify.id),
                    false => Ok(true),
                });
                (modify.id, settled.collect::<Result<Vec<bool>>>()?)
            }
            _ => return Ok(None),
        };
        Ok(is_settled.contains(&false).then_some(JoinCandidate { id, is_settled }))
    }

    /// Adds the entry to the groups whose rules cover it now, except for rules that `joining` marks as settled. A rule
    /// whose group does not exist has no effect.
    ///
    /// # Errors
    /// A group cannot have the member. The whole change must then be refused.
    pub(super) fn join(&mut self, joining: &JoinCandidate, stamp: &Stamp) -> Result<()> {
        let rules = Arc::clone(&self.state().catalog.auto_members);
        for (rule, is_settled) in rules.iter().zip(&joining.is_settled) {
            let state = self.state();
            let Some(group) = state.entry_here(&rule.group.1)? else { continue };
            if *is_settled
                || group == joining.id
                || !Covering::of(state, &rule.covered)?.covers(state, joining.id)?
            {
                continue;
            }
            let dn = state.dn(joining.id)?.unwrap_or_default();
            let mut changes = ChangesBuf::new();
            changes.push(ChangeOperation::Add, state.catalog.schema.type_by_id(rule.member).name(), [&dn]);
            let request = ModifyRequest { object: &rule.group.0, changes: changes.as_changes() };
            match self.add_member(&Request::Modify(request), stamp) {
                // The entry was already a member.
                Err(OperationError::Refused { code: ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, .. }) => {}
                Err(OperationError::Refused { code, .. }) if code != ResultCode::BUSY => {
                    // The text omits the group's diagnostic text, because the client may not see the group.
                    let text = format!(
                        "the entry cannot join the group of the rule {:?} of auto_members ({code}): an \
                         administrator has to change the rule or the group",
                        rule.name
                    );
                    return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Adds existing entries to the group of one pending rule, at most `count_max`. If the group refuses the entries,
    /// records the refusal. Returns false if no rule can be processed.
    ///
    /// # Errors
    /// The batch has no room for more records, or the store failed.
    pub(super) fn join_existing(&mut self, count_max: usize, stamp: &Stamp) -> Result<bool> {
        let state = self.state();
        let mut pending = joins::pending(state)?;
        let Some(due) = joins::due(state, &pending)? else { return Ok(false) };
        let Some(join) = pending.get_mut(due.place) else { return Ok(false) };
        let joining = due.joining(state, join.after, count_max)?;
        if !joining.dns.is_empty() {
            let member = state.catalog.schema.type_by_id(due.rule.member).name();
            let mut changes = ChangesBuf::new();
            changes.push(ChangeOperation::Add, member, &joining.dns);
            let request = ModifyRequest { object: &due.rule.group.0, changes: changes.as_changes() };
            match self.add_member(&Request::Modify(request), stamp) {
                Ok(()) => join.joined += joining.dns.len() as u64,
                Err(OperationError::Refused { code, diagnostic, .. }) if code != ResultCode::BUSY => {
                    join.refusal = format!("{code}: {diagnostic}");
                }
                Err(error) => return Err(error),
            }
        }
        match joining.last {
            Some(last) if join.refusal.is_empty() => join.after = last,
            None if join.refusal.is_empty() => drop(pending.remove(due.place)),
            _ => {}
        }
        self.record_with(AUTO_MEMBERS, Change::Joins(pending), Vec::new(), stamp)?;
        Ok(true)
    }

    fn add_member(&mut self, request: &Request<'_>, stamp: &Stamp) -> Result<()> {
        if let Some(step) = self.step_first(request)? {
            self.link(step, stamp)?;
        }
        let server = Requester::Administrator { dn: AUTO_MEMBERS.to_owned() };
        let csn = self.next_csn(stamp)?;
        let controls = RequestControls::default();
        let record = decide(self.state(), &server.context(), request, &controls, stamp, csn)?;
        self.make(record, stamp)
    }
}

#[cfg(test)]
mod tests {
    use ldap::ChangeOperation::{Add, Replace};
    use ldap::{AddRequest, AttributesBuf, DeleteRequest, Request, ResultCode};

    use crate::RecordRoom;
    use crate::model::own_changes::AUTO_MEMBERS;
    use crate::read::controls::RequestControls;
    use crate::settings::notes;
    use crate::testing::{SUFFIX, TestDirectory, no_operation, ok};
    use crate::write::joins;

    const GROUP: &str = "cn=staff,dc=example,dc=com";

    fn directory(rules: &[&str]) -> TestDirectory {
        let mut directory = TestDirectory::with_suffix_entry();
        ok(directory.add(GROUP, &[("objectClass", &["groupOfNames"]), ("member", &[SUFFIX])]));
        set(&mut directory, rules);
        directory
    }

    fn set(directory: &mut TestDirectory, rules: &[&str]) {
        directory.change_settings(|settings| {
            settings.general.auto_members = rules.iter().map(|rule| (*rule).to_owned()).collect();
        });
    }

    fn add(directory: &mut TestDirectory, name: &str, title: &str) -> ResultCode {
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("title", &[title])];
        directory.add(&format!("cn={name},{SUFFIX}"), person).code
    }

    /// Returns the names of the group's members without the suffix entry.
    fn members(directory: &mut TestDirectory) -> Vec<String> {
        let all = directory.read(GROUP).unwrap().texts("member");
        let name = |dn: &String| dn.strip_suffix(&format!(",{SUFFIX}")).map(str::to_owned);
        all.iter().filter_map(name).collect()
    }

    #[test]
    fn entries_join_when_they_are_added_or_begin_to_match() {
        let rule = format!("a: into '{GROUP}' matching '(title=boss)'");
        let mut directory = directory(&[&rule]);
        assert_eq!(add(&mut directory, "ann", "boss"), ResultCode::SUCCESS);
        assert_eq!(add(&mut directory, "bob", "clerk"), ResultCode::SUCCESS);
        let bob = format!("cn=bob,{SUFFIX}");
        ok(directory.modify(&bob, &[(Replace, "title", &["boss"])]));
        assert_eq!(members(&mut directory), ["cn=ann"]);
        let modifier = directory.read(GROUP).unwrap().texts("modifiersName");
        assert_eq!(modifier, [AUTO_MEMBERS]);

        ok(directory.modify(&bob, &[(Replace, "title", &["clerk"])]));
        let rule = format!("a: into '{GROUP}' by member also modified in '{SUFFIX}' matching '(title=boss)'");
        set(&mut directory, &[&rule]);
        ok(directory.modify(&bob, &[(Add, "description", &["x"])]));
        assert_eq!(members(&mut directory), ["cn=ann"]);
        ok(directory.modify(&bob, &[(Replace, "title", &["boss"])]));
        assert_eq!(members(&mut directory), ["cn=ann", "cn=bob"]);
        // A removed member joins again only after the entry stopped matching and then matched again. An entry that
        // stops matching stays a member.
        ok(directory.modify(GROUP, &[(ldap::ChangeOperation::Delete, "member", &[&bob])]));
        ok(directory.modify(&bob, &[(Replace, "title", &["boss", "clerk"])]));
        assert_eq!(members(&mut directory), ["cn=ann"]);
        ok(directory.modify(&format!("cn=ann,{SUFFIX}"), &[(Replace, "title", &["clerk"])]));
        assert_eq!(members(&mut directory.reopen()), ["cn=ann"]);
    }

    #[test]
    fn a_change_and_its_memberships_are_atomic() {
        let unit = format!("ou=unit,{SUFFIX}");
        let rules = [format!("a: into '{GROUP}'"), format!("b: into '{unit}' matching '(title=boss)'")];
        let mut directory = directory(&[&rules[0], &rules[1]]);
        let notes = |directory: &TestDirectory| {
            let settings = directory.directory.directory_settings();
            notes(directory.snapshot.state(), &settings).unwrap()
        };
        assert!(notes(&directory)[0].contains("ou=unit"), "{:?}", notes(&directory));
        // A rule whose group does not exist has no effect.
        assert_eq!(add(&mut directory, "ann", "boss"), ResultCode::SUCCESS);
        ok(directory.add(&unit, &[("objectClass", &["organizationalUnit"])]));
        assert!(notes(&directory).is_empty());
        let before = directory.snapshot.position().unwrap();
        assert_eq!(add(&mut directory, "bob", "boss"), ResultCode::UNWILLING_TO_PERFORM);
        assert_eq!(directory.snapshot.position().unwrap(), before);
        assert_eq!(members(&mut directory), ["cn=ann", "ou=unit"]);
        assert_eq!(add(&mut directory, "bob", "clerk"), ResultCode::SUCCESS);
        assert_eq!(members(&mut directory), ["cn=ann", "ou=unit", "cn=bob"]);
        assert_eq!(directory.snapshot.position().unwrap(), before + 2);
    }

    /// Regression test: no operation announced the success of a change that a group of a rule refuses.
    #[test]
    fn no_operation_answers_as_the_change_with_its_memberships_would() {
        let unit = format!("ou=unit,{SUFFIX}");
        let mut directory =
            directory(&[&format!("a: into '{GROUP}'"), &format!("b: into '{unit}' matching '(sn=boss)'")]);
        ok(directory.add(&unit, &[("objectClass", &["organizationalUnit"])]));
        let before = (members(&mut directory), directory.snapshot.position().unwrap());
        for (sn, expected) in
            [("boss", ResultCode::UNWILLING_TO_PERFORM), ("clerk", ResultCode::NO_OPERATION)]
        {
            let mut attributes = AttributesBuf::new();
            attributes.push("objectClass", ["person"]);
            attributes.push("sn", [sn]);
            let entry = format!("cn=bob,{SUFFIX}");
            let add = Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() });
            let stamp = directory.stamp();
            let rehearsed = directory.execute_with(&add, &no_operation(&RequestControls::default()), &stamp);
            assert_eq!(rehearsed.code, expected, "{}", rehearsed.diagnostic);
            assert_eq!((members(&mut directory), directory.snapshot.position().unwrap()), before);
        }
    }

    #[test]
    fn a_new_rule_adds_existing_entries_to_its_group_in_steps() {
        let mut directory = directory(&[]);
        for number in 0..9 {
            let title = if number % 2 == 0 { "boss" } else { "clerk" };
            assert_eq!(add(&mut directory, &format!("p{number}"), title), ResultCode::SUCCESS);
        }
        ok(directory.modify(GROUP, &[(Add, "member", &[&format!("cn=p2,{SUFFIX}")])]));
        let rule = |name: &str| format!("{name}: into '{GROUP}' matching '(title=boss)'");
        let mut proposal = directory.directory.directory_settings();
        proposal.general.auto_members = vec![rule("a")];
        let notes = joins::notes(directory.snapshot.state(), &proposal).unwrap();
        assert!(notes[0].contains("the rule \"a\", 4 existing entries join"), "{notes:?}");
        set(&mut directory, &[&rule("a")]);
        assert_eq!(members(&mut directory), ["cn=p2"]);

        let mut steps = 0;
        while directory.make_due_changes(0) {
            steps += 1;
            directory = directory.reopen();
        }
        assert!(steps > 2, "{steps}");
        let mut found = members(&mut directory);
        found.sort();
        assert_eq!(found, ["cn=p0", "cn=p2", "cn=p4", "cn=p6", "cn=p8"]);
        assert_eq!(directory.read(GROUP).unwrap().texts("modifiersName"), [AUTO_MEMBERS]);
        assert!(joins::pending(directory.snapshot.state()).unwrap().is_empty());

        // A removed member does not join again until the rule changes.
        let p4 = format!("cn=p4,{SUFFIX}");
        ok(directory.modify(GROUP, &[(ldap::ChangeOperation::Delete, "member", &[&p4])]));
        set(&mut directory, &[&rule("a"), "x: into 'cn=none,dc=example,dc=com'"]);
        assert!(!directory.make_due_changes(0), "the group of the new rule does not exist");
        assert_eq!(members(&mut directory).len(), 4);
        set(&mut directory, &[&rule("b")]);
        while directory.make_due_changes(0) {}
        assert_eq!(members(&mut directory).len(), 5);
        // If a rule is removed while existing entries join by this rule, no further entries join.
        ok(directory.modify(GROUP, &[(Replace, "member", &[SUFFIX])]));
        set(&mut directory, &[&rule("c")]);
        assert!(directory.make_due_changes(0));
        set(&mut directory, &[]);
        assert!(!directory.make_due_changes(0));
        let check = crate::maintenance::check::check(&directory.snapshot).unwrap();
        assert_eq!(check, Vec::<String>::new());
    }

    /// Regression test: in a cluster whose topic accepts only small messages, existing entries joined no group, and
    /// later due changes were not made. The records of a step had a fixed number of members, and did not fit into a
    /// message.
    #[test]
    fn a_step_adds_fewer_members_if_its_records_do_not_fit() {
        let mut directory = directory(&[]);
        for (name, title) in [("x", "clerk"), ("p0", "boss"), ("p1", "boss"), ("p2", "boss")] {
            assert_eq!(add(&mut directory, name, title), ResultCode::SUCCESS);
        }
        set(&mut directory, &[&format!("a: into '{GROUP}' matching '(title=boss)'")]);
        // This step examines the first three entries, none of which matches.
        assert!(directory.make_due_changes(0));
        let (stamp, unlimited) = (directory.stamp(), RecordRoom::of_bytes(usize::MAX));
        let mut batch = directory.writer.begin().unwrap();
        let whole = batch.transaction(|batch| {
            batch.limit_records(unlimited, 0);
            assert_eq!(batch.make_due_changes(&stamp), Ok(true));
            Err::<(), _>(unlimited.bytes - batch.record_limit.left.bytes)
        });
        let room = RecordRoom { bytes: whole.unwrap_err() - 1, count: 2 };
        batch.limit_records(RecordRoom { count: 1, ..room }, 0);
        assert_eq!(batch.make_due_changes(&stamp).unwrap_err().code, ResultCode::BUSY);
        assert_eq!(batch.take_rejected_room().map(|room| room.count), Some(2));
        batch.limit_records(room, 0);
        assert_eq!(batch.make_due_changes(&stamp), Ok(true));
        assert_eq!(batch.take_rejected_room(), None);
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
        assert_eq!(members(&mut directory), ["cn=p0"]);
        while directory.make_due_changes(0) {}
        assert_eq!(members(&mut directory), ["cn=p0", "cn=p1", "cn=p2"]);
    }

    /// Regression test: if the group's DN was the DN of a referral, adds were refused, the rule was never completed,
    /// and no due changes were made.
    #[test]
    fn a_rule_waits_while_its_group_is_a_referral() {
        let mut directory = directory(&[]);
        directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3_600);
        let there = format!("cn=there,{SUFFIX}");
        let referral: &[(&str, &[&str])] =
            &[("objectClass", &["referral", "extensibleObject"]), ("ref", &["ldap://other/"])];
        ok(directory.add(&there, referral));
        assert_eq!(add(&mut directory, "ann", "boss"), ResultCode::SUCCESS);
        set(&mut directory, &[&format!("a: into '{there}'"), &format!("b: into '{GROUP}'")]);
        let settings = directory.directory.directory_settings();
        let notes = notes(directory.snapshot.state(), &settings).unwrap();
        assert!(notes[0].contains("cn=there"), "{notes:?}");
        assert_eq!(add(&mut directory, "bob", "boss"), ResultCode::SUCCESS);
        ok(directory.delete(&format!("cn=bob,{SUFFIX}")));
        while directory.make_due_changes(0) {}
        assert_eq!(members(&mut directory), ["cn=there", "cn=ann"]);
        // The tombstone of the deleted entry is purged.
        assert!(directory.make_due_changes(8_000));
        assert!(!directory.make_due_changes(8_000));
        let manages = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
        let (stamp, request) = (directory.stamp(), Request::Delete(DeleteRequest { entry: &there }));
        ok(directory.execute_with(&request, &manages, &stamp));
        ok(directory.add(&there, &[("objectClass", &["groupOfNames"]), ("member", &[SUFFIX])]));
        assert!(joins::is_one_due(directory.snapshot.state()).unwrap());
        while directory.make_due_changes(0) {}
        assert!(directory.read(&there).unwrap().texts("member").contains(&format!("cn=ann,{SUFFIX}")));
    }

    #[test]
    fn a_rule_stops_after_its_group_refuses_a_member() {
        let mut directory = directory(&[]);
        let unit = format!("ou=unit,{SUFFIX}");
        ok(directory.add(&unit, &[("objectClass", &["organizationalUnit"])]));
        set(&mut directory, &[&format!("a: into '{unit}'"), &format!("b: into '{GROUP}'")]);
        while directory.make_due_changes(0) {}
        let pending = joins::pending(directory.snapshot.state()).unwrap();
        assert!(pending.len() == 1 && pending[0].refusal.contains("member"), "{pending:?}");
        assert_eq!(members(&mut directory), ["ou=unit"]);
    }

    #[test]
    fn invalid_rules_are_refused() {
        let mut directory = directory(&[]);
        for (rule, what) in [
            ("a: cn=staff", "expected \"into\""),
            ("a: into staff", "the DN of a group in quotes"),
            ("a: into 'no dn'", "no dn"),
            ("a: into 'cn=staff,dc=example,dc=com' by description", "do not name entries"),
            ("a: into 'cn=staff,dc=example,dc=com' matching '(memberOf=*)'", "memberOf"),
            ("a: into 'cn=staff,dc=example,dc=com' also", "expected \"modified\""),
        ] {
            let refused = directory
                .try_change_settings(|settings| settings.general.auto_members = vec![rule.to_owned()])
                .unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains("auto_members[0]") && refused.contains(what), "{rule}: {refused}");
        }
    }
}
