//! Tests of the pre-read and post-read controls (RFC 4527).

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{
    AddRequest, AttributesBuf, ChangesBuf, ControlsBuf, DeleteRequest, ModifyDnRequest, ModifyRequest,
    Request, ResultCode, SelectionBuf, oids,
};

use crate::access::Requester;
use crate::model::limits::COPY_BYTES_MAX;
use crate::model::outcome::Outcome;
use crate::read::controls::{EntryCopyOptions, RareControls, RequestControls};
use crate::testing::{Entry, SUFFIX, TestDirectory, no_operation, received};

const ADA: &str = "uid=ada,dc=example,dc=com";

fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let unit = [("objectClass", &["organizationalUnit"][..]), ("ou", &["people"])];
    assert_eq!(directory.add("ou=people,dc=example,dc=com", &unit).code, ResultCode::SUCCESS);
    for uid in ["ada", "bob"] {
        let person = [
            ("objectClass", &["inetOrgPerson"][..]),
            ("cn", &["Ada"]),
            ("sn", &["Lovelace"]),
            ("employeeNumber", &["7"]),
            ("userPassword", &["{SSHA}AAAA"]),
        ];
        assert_eq!(directory.add(&format!("uid={uid},{SUFFIX}"), &person).code, ResultCode::SUCCESS);
    }
    directory
}

/// The response to a change: its outcome, and the entry before and after the change.
struct CopiesResponse {
    outcome: Outcome,
    before: Option<Entry>,
    after: Option<Entry>,
}

/// Request for pre-read and post-read copies with these attributes. Each control is added if the operation allows it.
struct CopiesRequest<'a> {
    before: Option<&'a [&'a str]>,
    after: Option<&'a [&'a str]>,
    is_critical: bool,
}

const BOTH: CopiesRequest<'static> =
    CopiesRequest { before: Some(&["*", "+"]), after: Some(&["*", "+"]), is_critical: true };

impl CopiesRequest<'_> {
    fn run(&self, directory: &mut TestDirectory, request: &Request<'_>) -> CopiesResponse {
        let copy = |names: Option<&[&str]>| {
            let selection = SelectionBuf::from_iter(names?);
            Some(EntryCopyOptions { is_critical: self.is_critical, selection })
        };
        let (copy_before, copy_after) = (copy(self.before), copy(self.after));
        let seldom = Some(Box::new(RareControls { copy_before, copy_after, ..RareControls::default() }));
        let controls = RequestControls { seldom, ..RequestControls::default() };
        let (stamp, mut copies) = (directory.stamp(), ControlsBuf::new());
        let mut batch = directory.writer.begin().unwrap();
        let outcome =
            batch.execute_and_copy(&directory.requester.context(), request, &controls, &stamp, &mut copies);
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
        let entry = |oid| {
            let copy = copies.as_controls().find(oid)?;
            // The control value contains an entry without a message, but `received` parses whole messages.
            let mut message = Vec::new();
            let mut writer = ber::Writer::new(&mut message);
            let whole = writer.begin(ber::Tag::SEQUENCE);
            writer.integer(1);
            writer.raw(copy.value.unwrap());
            writer.end(whole);
            received(&message).entries.pop()
        };
        CopiesResponse { before: entry(oids::PRE_READ), after: entry(oids::POST_READ), outcome }
    }

    fn copies(&self, directory: &mut TestDirectory, request: &Request<'_>) -> (Option<Entry>, Option<Entry>) {
        let CopiesResponse { outcome, before, after } = self.run(directory, request);
        assert_eq!(outcome, Outcome::success());
        (before, after)
    }
}

fn with_changes<T>(
    changes: &[(ldap::ChangeOperation, &str, &[&str])],
    run: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let mut buf = ChangesBuf::new();
    changes.iter().for_each(|(operation, name, values)| buf.push(*operation, name, values.iter()));
    run(&Request::Modify(ModifyRequest { object: ADA, changes: buf.as_changes() }))
}

#[test]
fn copies_equal_what_a_search_returns_before_and_after_the_change() {
    let mut directory = sample();
    let at_first = directory.read(ADA);
    let changes: &[(_, _, &[&str])] = &[
        (Replace, "employeeNumber", &["8"]),
        (Add, "description", &["new"]),
        (Delete, "cn", &[]),
        (Add, "cn", &["A"]),
    ];
    let (before, after) = with_changes(changes, |request| BOTH.copies(&mut directory, request));
    assert_eq!(before, at_first);
    assert_eq!(after, directory.read(ADA));
    assert_ne!(before, after);
    // A change without effect succeeds and still returns copies.
    let (before, again) =
        with_changes(&[(Replace, "employeeNumber", &["8"])], |request| BOTH.copies(&mut directory, request));
    assert_eq!((&before, &again), (&after, &after));
    // A copy has only the requested attributes.
    let few = CopiesRequest { before: Some(&["employeeNumber"]), after: Some(&["1.1"]), is_critical: false };
    let (before, after) =
        with_changes(&[(Replace, "employeeNumber", &["9"])], |request| few.copies(&mut directory, request));
    let before = before.unwrap();
    assert_eq!((before.attributes.len(), before.texts("employeeNumber")), (1, vec!["8".to_owned()]));
    assert_eq!((after.as_ref().unwrap().attributes.len(), &*after.unwrap().dn), (0, ADA));
    // A refused change returns no copies.
    let refused = with_changes(&[(Replace, "employeeNumber", &["1"]), (Delete, "sn", &[])], |request| {
        BOTH.run(&mut directory, request)
    });
    assert_eq!(refused.outcome.code, ResultCode::OBJECT_CLASS_VIOLATION);
    assert_eq!((refused.before, refused.after), (None, None));

    let name = "uid=ada,ou=people,dc=example,dc=com";
    let at_first = directory.read(ADA);
    let new_superior = Some("ou=people,dc=example,dc=com");
    let rename = ModifyDnRequest { entry: ADA, new_rdn: "uid=ada", delete_old_rdn: true, new_superior };
    let (before, after) = BOTH.copies(&mut directory, &Request::ModifyDn(rename));
    assert_eq!((before, &after), (at_first, &directory.read(name)));
    let only_before = CopiesRequest { after: None, ..BOTH };
    let (before, none) = only_before.copies(&mut directory, &Request::Delete(DeleteRequest { entry: name }));
    assert_eq!((before, none, directory.read(name)), (after, None, None));

    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["inetOrgPerson"]);
    attributes.push("cn", ["Ada"]);
    attributes.push("sn", ["Lovelace"]);
    let add = Request::Add(AddRequest { entry: ADA, attributes: attributes.as_attributes() });
    let (_, after) = CopiesRequest { before: None, ..BOTH }.copies(&mut directory, &add);
    assert_eq!(after, directory.read(ADA));
    assert_eq!(after.unwrap().texts("entryUUID").len(), 1);
}

#[test]
fn copies_contain_only_attributes_readable_at_the_time_of_the_copy() {
    let mut directory = sample();
    directory.change_settings(|settings| {
        settings.general.access_rules = vec![
            "all: allow read of uid, sn, employeeNumber to authenticated".to_owned(),
            "writes: allow write, rename, delete, add to authenticated".to_owned(),
            "hidden: deny browse matching '(description=hidden)' to authenticated".to_owned(),
        ];
    });
    let requester = crate::read::identity::identify(&directory.snapshot, &format!("dn:uid=bob,{SUFFIX}"));
    directory.requester = requester.unwrap().unwrap().requester;
    let (before, after) =
        with_changes(&[(Replace, "description", &["new"])], |request| BOTH.copies(&mut directory, request));
    for entry in [before.unwrap(), after.unwrap()] {
        let names: Vec<_> = entry.attributes.keys().map(String::as_str).collect();
        assert_eq!(names, ["employeeNumber", "sn", "uid"]);
    }
    // The change would hide the entry from the requester, so no post-read copy can be made. If the control is critical,
    // the change is refused.
    let hide = &[(Replace, "description", &["hidden"][..])];
    let refused = with_changes(hide, |request| BOTH.run(&mut directory, request));
    assert_eq!(refused.outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS, "{:?}", refused.outcome);
    assert_eq!((refused.before, refused.after), (None, None));
    let administrator = Requester::Administrator { dn: "cn=admin".to_owned() };
    let bob = std::mem::replace(&mut directory.requester, administrator);
    assert_eq!(directory.read(ADA).unwrap().texts("description"), ["new"]);
    directory.requester = bob;
    let hidden = with_changes(hide, |request| {
        CopiesRequest { is_critical: false, ..BOTH }.run(&mut directory, request)
    });
    assert_eq!((hidden.before.is_some(), hidden.after), (true, None));
    assert!(
        hidden.outcome.diagnostic.starts_with("done, without the copy of post-read"),
        "{:?}",
        hidden.outcome
    );
}

/// Regression test: a post-read copy that was too large was omitted with success, even if the control was critical. Now
/// the change is rolled back.
#[test]
fn refuses_a_change_if_a_critical_copy_is_too_large() {
    let mut directory = sample();
    let large = "x".repeat(COPY_BYTES_MAX);
    let grow: &[(_, _, &[&str])] = &[(Add, "description", &[&large])];
    let at_first = (directory.read(ADA), directory.snapshot.position().unwrap());
    let refused = with_changes(grow, |request| BOTH.run(&mut directory, request));
    assert_eq!(refused.outcome.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{:?}", refused.outcome);
    assert_eq!((refused.before, refused.after), (None, None));
    assert_eq!((directory.read(ADA), directory.snapshot.position().unwrap()), at_first);

    let no_matter = CopiesRequest { is_critical: false, ..BOTH };
    let grown = with_changes(grow, |request| no_matter.run(&mut directory, request));
    assert_eq!(grown.outcome.code, ResultCode::SUCCESS);
    let diagnostic = &grown.outcome.diagnostic;
    let is_expected = diagnostic.starts_with("done, without the copy of post-read: ");
    assert!(is_expected && diagnostic.contains("262144"), "{diagnostic}");
    assert_eq!((grown.before.is_some(), grown.after), (true, None));

    let delete = Request::Delete(DeleteRequest { entry: ADA });
    let only_before = CopiesRequest { after: None, ..BOTH };
    let refused = only_before.run(&mut directory, &delete);
    assert_eq!((refused.outcome.code, refused.before), (ResultCode::ADMIN_LIMIT_EXCEEDED, None));
    let few = CopiesRequest { before: Some(&["sn"]), after: None, is_critical: true };
    assert!(
        with_changes(&[(Replace, "title", &["x"])], |request| few.copies(&mut directory, request))
            .0
            .is_some()
    );
    let deleted = CopiesRequest { is_critical: false, ..only_before }.run(&mut directory, &delete);
    assert_eq!((deleted.outcome.code, deleted.before), (ResultCode::SUCCESS, None));
    let diagnostic = &deleted.outcome.diagnostic;
    assert!(diagnostic.starts_with("done, without the copy of pre-read: "), "{diagnostic}");
}

/// The test compares later operations of the batch, in which any remainder of the rolled-back change would appear.
#[test]
fn a_change_that_is_rolled_back_leaves_no_trace_in_its_batch() {
    let (mut directory, mut other) = (sample(), sample());
    let large = "x".repeat(COPY_BYTES_MAX);
    let refused_copy = EntryCopyOptions { is_critical: true, selection: SelectionBuf::from_iter(["*"]) };
    let seldom = RareControls { copy_after: Some(refused_copy), ..RareControls::default() };
    let controls = RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() };
    let person = |uid: &str, description: &str, with: &mut dyn FnMut(&Request<'_>)| {
        let mut attributes = AttributesBuf::new();
        attributes.push("objectClass", ["inetOrgPerson"]);
        attributes.push("cn", ["New"]);
        attributes.push("sn", ["New"]);
        // An attribute without a number, so that the change allocates one.
        attributes.push("carLicense;x-new", [description]);
        with(&Request::Add(AddRequest {
            entry: &format!("uid={uid},ou=people,{SUFFIX}"),
            attributes: attributes.as_attributes(),
        }));
    };
    for (directory, is_tried) in [(&mut directory, true), (&mut other, false)] {
        let stamp = directory.stamp();
        let mut batch = directory.writer.begin().unwrap();
        let (none, requester) = (RequestControls::default(), directory.requester.clone());
        person("one", "small", &mut |request| {
            assert_eq!(batch.execute(&requester.context(), request, &none, &stamp), Outcome::success());
        });
        if is_tried {
            person("two", &large, &mut |request| {
                let outcome = batch.execute(&requester.context(), request, &controls, &stamp);
                assert_eq!(outcome.code, ResultCode::ADMIN_LIMIT_EXCEEDED);
            });
        }
        person("two", "small", &mut |request| {
            assert_eq!(batch.execute(&requester.context(), request, &none, &stamp), Outcome::success());
        });
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
    }
    let read = |directory: &mut TestDirectory| {
        ["one", "two"].map(|uid| directory.read(&format!("uid={uid},ou=people,{SUFFIX}")).unwrap().attributes)
    };
    let without_uuid = |mut all: [std::collections::BTreeMap<String, Vec<Vec<u8>>>; 2]| {
        all.iter_mut().for_each(|attributes| drop(attributes.remove("entryUUID")));
        all
    };
    assert_eq!(without_uuid(read(&mut directory)), without_uuid(read(&mut other)));
    assert_eq!(directory.snapshot.position().unwrap(), other.snapshot.position().unwrap());
}

#[test]
fn changes_of_settings_return_no_copies() {
    let mut directory = sample();
    let mut changes = ChangesBuf::new();
    changes.push(Replace, "pandoAccessRule", ["all: allow read to anyone"]);
    let modify = Request::Modify(ModifyRequest { object: "cn=config", changes: changes.as_changes() });
    let refused = BOTH.run(&mut directory, &modify);
    assert_eq!(refused.outcome.code, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION);
    assert_eq!(directory.directory.directory_settings().general.access_rules.len(), 0);
    let (stamp, no_operation_controls) = (directory.stamp(), no_operation(&RequestControls::default()));
    let rehearsed = directory.execute_with(&modify, &no_operation_controls, &stamp);
    assert_eq!(rehearsed.code, ResultCode::NO_OPERATION, "{}", rehearsed.diagnostic);
    assert_eq!(directory.directory.directory_settings().general.access_rules.len(), 0);
    assert_eq!(CopiesRequest { is_critical: false, ..BOTH }.copies(&mut directory, &modify), (None, None));
    let mut wrong = ChangesBuf::new();
    wrong.push(Replace, "pandoAccessRule", ["no rule"]);
    let wrong = Request::Modify(ModifyRequest { object: "cn=config", changes: wrong.as_changes() });
    let stamps = [directory.stamp(), directory.stamp()];
    let rehearsed = directory.execute_with(&wrong, &no_operation_controls, &stamps[0]);
    assert_eq!(rehearsed, directory.execute_with(&wrong, &RequestControls::default(), &stamps[1]));
    assert_ne!(rehearsed.code, ResultCode::NO_OPERATION);
}

/// Regression test: a change of the administrator's password with a control for a copy was answered as a defect of the
/// server, because the administrator has no entry.
#[test]
fn a_change_of_the_administrators_password_returns_no_copies() {
    let mut directory = sample();
    let administrator = directory.requester.dn().to_owned();
    let mut changes = ChangesBuf::new();
    changes.push(Replace, "userPassword", ["{SSHA}new"]);
    let modify = Request::Modify(ModifyRequest { object: &administrator, changes: changes.as_changes() });
    let position = directory.snapshot.position().unwrap();
    let refused = BOTH.run(&mut directory, &modify);
    assert_eq!(refused.outcome.code, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION);
    assert_eq!(directory.snapshot.position().unwrap(), position);
    assert_eq!(CopiesRequest { is_critical: false, ..BOTH }.copies(&mut directory, &modify), (None, None));
    assert_eq!(directory.snapshot.position().unwrap(), position + 1);
}

/// Regression test: no operation announced the success of a change that a critical control for a copy refuses.
#[test]
fn no_operation_answers_as_the_change_with_copies_would() {
    let mut directory = sample();
    let large = "x".repeat(COPY_BYTES_MAX);
    let mut changes = ChangesBuf::new();
    changes.push(Add, "description", [&large]);
    let modify = Request::Modify(ModifyRequest { object: ADA, changes: changes.as_changes() });
    let before = (directory.read(ADA), directory.snapshot.position().unwrap());
    for is_critical in [true, false] {
        let selection = SelectionBuf::from_iter(["*"]);
        let copy_after = Some(EntryCopyOptions { is_critical, selection });
        let seldom = Some(Box::new(RareControls { copy_after, ..RareControls::default() }));
        let controls = no_operation(&RequestControls { seldom, ..RequestControls::default() });
        let stamp = directory.stamp();
        let rehearsed = directory.execute_with(&modify, &controls, &stamp);
        assert_eq!(rehearsed.code == ResultCode::NO_OPERATION, !is_critical, "{}", rehearsed.diagnostic);
        assert_eq!((directory.read(ADA), directory.snapshot.position().unwrap()), before);
    }
}
