//! Transactions (RFC 5805): several changes in a batch, all of which take effect or none.

use super::WriteBatch;

impl WriteBatch<'_> {
    /// Runs `make`, which executes changes in this batch. If `make` fails, all of these changes are rolled back. If
    /// `make` succeeds, the records of these changes become durable atomically, like all records of the batch.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn transaction<T, E>(&mut self, make: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let savepoint = self.savepoint();
        let result = make(self);
        if result.is_err() {
            self.record_limit.reject_since(savepoint.room_left);
            self.roll_back(savepoint);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::Path;
    use std::sync::Arc;

    use ldap::{
        AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, DeleteRequest, ModifyRequest, Request,
        ResultCode,
    };

    use super::super::{RecordRoom, WriteBatch};
    use crate::Settings;
    use crate::access::Requester;
    use crate::model::stamp::Stamp;
    use crate::read::controls::RequestControls;
    use crate::testing::{SUFFIX, TemporaryFolder, TestDirectory, ok};

    fn delete(batch: &mut WriteBatch<'_>, stamp: &Stamp) -> ResultCode {
        let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        let request = Request::Delete(DeleteRequest { entry: SUFFIX });
        batch.execute(&requester.context(), &request, &RequestControls::default(), stamp).code
    }

    #[test]
    fn a_failed_transaction_leaves_no_trace() {
        let mut directory = TestDirectory::with_suffix_entry();
        let stamps: Vec<_> = (0..3).map(|_| directory.stamp()).collect();
        let mut proposal = directory.directory.directory_settings();
        let size_limit = proposal.general.size_limit;
        proposal.general.size_limit = 7;
        let mut batch = directory.writer.begin().unwrap();
        let position = batch.position().unwrap();
        batch.limit_records(RecordRoom::of_bytes(10_000), 0);
        let failed = batch.transaction(|batch| -> Result<(), ResultCode> {
            batch.change_settings("", &proposal, &stamps[0]).unwrap();
            assert_eq!(batch.state().settings.general.size_limit, 7);
            assert_eq!(delete(batch, &stamps[1]), ResultCode::SUCCESS);
            assert_eq!(batch.position().unwrap(), position + 2);
            Err(delete(batch, &stamps[2]))
        });
        assert_eq!(failed, Err(ResultCode::NO_SUCH_OBJECT));
        assert_eq!((batch.position().unwrap(), batch.record_limit.left.bytes), (position, 10_000));
        assert_eq!(batch.state().settings.general.size_limit, size_limit);
        assert_eq!(batch.take_rejected_room(), None);
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
        assert!(directory.read(SUFFIX).is_some());
        assert_eq!(directory.reopen().directory.directory_settings().general.size_limit, size_limit);
    }

    /// The reported size must be the size of all records of the transaction, because the writer of a cluster compares
    /// the reported size with the capacity of a message. The record that did not fit would fit alone. If only the size
    /// of this record were reported, the writer would retry the transaction forever.
    #[test]
    fn a_transaction_that_does_not_fit_reports_the_size_of_all_its_records() {
        let mut directory = TestDirectory::with_suffix_entry();
        let stamps: Vec<_> = (0..2).map(|_| directory.stamp()).collect();
        let mut proposal = directory.directory.directory_settings();
        proposal.general.size_limit = 7;
        let mut batch = directory.writer.begin().unwrap();
        let both = |batch: &mut WriteBatch<'_>| {
            batch.change_settings("", &proposal, &stamps[0]).unwrap();
            match delete(batch, &stamps[1]) {
                ResultCode::SUCCESS => Ok(()),
                code => Err(code),
            }
        };
        let rolled_back = batch.transaction(|batch| {
            batch.limit_records(RecordRoom::of_bytes(10_000), 0);
            let result = both(batch);
            result
                .and(Err::<(), _>(ResultCode(u32::try_from(10_000 - batch.record_limit.left.bytes).unwrap())))
        });
        let size = rolled_back.unwrap_err().0 as usize;
        batch.limit_records(RecordRoom::of_bytes(size - 1), 0);
        assert_eq!(batch.transaction(both), Err(ResultCode::BUSY));
        assert_eq!(batch.take_rejected_room(), Some(RecordRoom { bytes: size, count: 2 }));
        batch.limit_records(RecordRoom { bytes: size, count: 1 }, 0);
        assert_eq!(batch.transaction(both), Err(ResultCode::BUSY));
        assert_eq!(batch.take_rejected_room().map(|room| room.count), Some(2));
        batch.limit_records(RecordRoom { bytes: size, count: 2 }, 0);
        assert_eq!(batch.transaction(both), Ok(()));
    }

    /// Size of the disk sectors, each of which is written atomically.
    const SECTOR: usize = 512;
    /// Alignment of groups in the redo log.
    const BLOCK: usize = 4_096;

    fn unit(number: u32) -> String {
        format!("ou=unit-{number},{SUFFIX}")
    }

    fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.metadata().unwrap().is_file());
        files.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect()
    }

    /// Opens a directory with these files. The file `log` has the content `bytes`. Returns the names and descriptions
    /// of the units in the directory.
    fn found(files: &BTreeMap<OsString, Vec<u8>>, (log, bytes): (&OsString, &[u8])) -> Vec<(String, String)> {
        let folder = Arc::new(TemporaryFolder::new());
        for (name, content) in files {
            let content = if name == log { bytes } else { content };
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let mut directory = TestDirectory::open(folder, Settings::default(), &[], 100).unwrap();
        let units = (0..6).filter_map(|number| Some((unit(number), directory.read(&unit(number))?)));
        units.map(|(name, entry)| (name, entry.texts("description").concat())).collect()
    }

    /// Returns the end of the last change in the frame of the group at `first`; see `redo/frame.rs` of `store`.
    /// Padding and a tail for the salvage of damaged logs follow the last change. Frames of older programs have no
    /// tail.
    fn end_of_changes(log: &[u8], first: usize) -> usize {
        let length = log[first + 20..first + 28].try_into().unwrap();
        first + 36 + usize::try_from(u64::from_be_bytes(length)).unwrap()
    }

    /// The power fails while the redo group of a transaction is written: after a number of bytes, or with some sectors
    /// missing. If the log contains all changes of the transaction, the next open finds all changes, otherwise none.
    /// The data file contains none of the changes.
    #[test]
    fn a_torn_redo_group_restores_the_whole_transaction_or_none_of_it() {
        let mut directory = TestDirectory::with_suffix_entry();
        for number in 0..5 {
            let class = ("objectClass", &["organizationalUnit"][..]);
            ok(directory.add(&unit(number), &[class, ("description", &["before"])]));
        }
        let stamps: Vec<_> = (0..6).map(|_| directory.stamp()).collect();
        let before = files(directory.path());
        let mut batch = directory.writer.begin().unwrap();
        let result = batch.transaction(|batch| {
            let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
            let mut make = |number: u32, request: Request<'_>| {
                let stamp = &stamps[number as usize];
                let code =
                    batch.execute(&requester.context(), &request, &RequestControls::default(), stamp).code;
                if code == ResultCode::SUCCESS { Ok(()) } else { Err(code) }
            };
            for number in 0..4 {
                let (object, mut changes) = (unit(number), ChangesBuf::new());
                changes.push(ChangeOperation::Replace, "description", ["after"]);
                make(
                    number,
                    Request::Modify(ModifyRequest { object: &object, changes: changes.as_changes() }),
                )?;
            }
            make(4, Request::Delete(DeleteRequest { entry: &unit(4) }))?;
            let (entry, mut attributes) = (unit(5), AttributesBuf::new());
            attributes.push("objectClass", ["organizationalUnit"]);
            attributes.push("description", ["after"]);
            make(5, Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() }))
        });
        result.unwrap();
        batch.commit().unwrap();
        let after = files(directory.path());
        drop(directory);

        let changed: Vec<&OsString> =
            after.keys().filter(|name| before.get(*name) != after.get(*name)).collect();
        let [log] = changed[..] else { panic!("a commit is one write: {changed:?}") };
        let (old, new) = (&before[log], &after[log]);
        assert_eq!(old.len(), new.len());
        let differs = |place: &usize| old[*place] != new[*place];
        let first = (0..new.len()).find(differs).unwrap();
        let end = (0..new.len()).rfind(differs).unwrap() + 1;
        let part = |keeps: &dyn Fn(usize) -> bool| {
            let bytes = (0..new.len()).map(|place| if keeps(place) { new[place] } else { old[place] });
            found(&before, (log, &bytes.collect::<Vec<u8>>()))
        };
        let (none, all) = (part(&|_| false), part(&|_| true));
        let is = |text: &str, numbers: &[u32]| {
            numbers.iter().map(|number| (unit(*number), text.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!((&none, &all), (&is("before", &[0, 1, 2, 3, 4]), &is("after", &[0, 1, 2, 3, 5])));
        let first = first / BLOCK * BLOCK;
        let changes_end = end_of_changes(new, first);
        let sectors = (changes_end - 1) / SECTOR - first / SECTOR + 1;
        assert!((2..9).contains(&sectors) && changes_end < end, "{first} to {changes_end} and {end}");
        let part_of_head = [first, first + 1, first + 20, first + 36];
        let middles = (0..sectors).map(|sector| first + sector * SECTOR + SECTOR / 2);
        let part_of_end = [changes_end - 1, changes_end, changes_end + 1, end - 24, end - 1];
        for cut in part_of_head.into_iter().chain(middles).chain(part_of_end) {
            let expected = if cut < changes_end { &none } else { &all };
            assert_eq!(part(&|place| place < cut), *expected, "cut at {} of {}", cut - first, end - first);
        }
        // One sector of the changes is missing, or all sectors of the changes except one. The tail is complete.
        let sector_of = |place: usize| (place / SECTOR).checked_sub(first / SECTOR);
        for one in 0..sectors {
            let missing = |place: usize| sector_of(place) != Some(one);
            assert_eq!(part(&missing), none, "without sector {one}");
            let alone = |place: usize| sector_of(place).is_some_and(|at| at >= sectors || at == one);
            assert_eq!(part(&alone), none, "sector {one} alone");
        }
    }
}
