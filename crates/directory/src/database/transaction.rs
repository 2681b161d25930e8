//! Several changes of a batch that are made together or not at all (RFC 5805).

use super::WriteBatch;

impl WriteBatch<'_> {
    /// Runs `make`, which executes changes in this batch. If it fails, all of them are rolled back, so that they leave
    /// no trace. The records of the others are atomic like those of the whole batch.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn transaction<T, E>(&mut self, make: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let savepoint = self.savepoint();
        let made = make(self);
        if made.is_err() {
            // The records before the one that did not fit belong to the same change for the caller.
            let before = savepoint.record_bytes_left.saturating_sub(self.record_bytes_left);
            if let Some(rejected) = &mut self.rejected_record_bytes {
                *rejected = rejected.saturating_add(before);
            }
            self.roll_back(savepoint);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use ldap::{DeleteRequest, Request, ResultCode};

    use super::super::WriteBatch;
    use crate::access::Requester;
    use crate::model::stamp::Stamp;
    use crate::read::controls::RequestControls;
    use crate::testing::{SUFFIX, TestDirectory};

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
        batch.limit_records(10_000);
        let failed = batch.transaction(|batch| -> Result<(), ResultCode> {
            batch.change_settings("", &proposal, &stamps[0]).unwrap();
            assert_eq!(batch.state().settings.general.size_limit, 7);
            assert_eq!(delete(batch, &stamps[1]), ResultCode::SUCCESS);
            assert_eq!(batch.position().unwrap(), position + 2);
            Err(delete(batch, &stamps[2]))
        });
        assert_eq!(failed, Err(ResultCode::NO_SUCH_OBJECT));
        assert_eq!((batch.position().unwrap(), batch.record_bytes_left), (position, 10_000));
        assert_eq!(batch.state().settings.general.size_limit, size_limit);
        assert_eq!(batch.take_rejected_record_bytes(), None);
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
        assert!(directory.read(SUFFIX).is_some());
        assert_eq!(directory.reopen().directory.directory_settings().general.size_limit, size_limit);
    }

    /// The size is that of all records, because the writer of a cluster compares it with what a message can hold: the
    /// record that did not fit would fit alone, and the transaction would be tried again for ever.
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
            batch.limit_records(10_000);
            let made = both(batch);
            made.and(Err::<(), _>(ResultCode(u32::try_from(10_000 - batch.record_bytes_left).unwrap())))
        });
        let size = rolled_back.unwrap_err().0 as usize;
        batch.limit_records(size - 1);
        assert_eq!(batch.transaction(both), Err(ResultCode::BUSY));
        assert_eq!(batch.take_rejected_record_bytes(), Some(size));
        batch.limit_records(size);
        assert_eq!(batch.transaction(both), Ok(()));
    }
}
