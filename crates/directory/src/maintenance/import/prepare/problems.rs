//! Reasons to reject a record. All reasons are reported, so that the administrator can correct the record in one
//! attempt.

use ldap::ResultCode;

use super::{Failure, Refusal};
use crate::model::outcome::OperationError;

/// Maximum number of reasons stored for one record.
const PROBLEMS_MAX: usize = 50;

/// Reasons to reject the current record.
#[derive(Debug, Default)]
pub(in crate::maintenance::import) struct Problems {
    /// Refusals, each with its line if the line is known.
    all: Vec<(Option<u64>, OperationError)>,
    more: usize,
    /// Number of lines in the file before the current chunk, in which lines are counted from 1.
    pub(in crate::maintenance::import) lines_before: u64,
}

impl Problems {
    pub(in crate::maintenance::import) fn clear(&mut self) {
        self.all.clear();
        self.more = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() + self.more
    }

    /// Adds a refusal. If many refusals are stored already, only counts the refusal.
    ///
    /// # Errors
    /// `error`, if it is not a refusal. This error ends the import.
    #[cold]
    pub(in crate::maintenance::import) fn add(
        &mut self,
        line: Option<u64>,
        error: OperationError,
    ) -> Result<(), OperationError> {
        match error {
            error @ OperationError::Refused { .. } if self.all.len() < PROBLEMS_MAX => {
                self.all.push((line, error));
            }
            OperationError::Refused { .. } => self.more += 1,
            other => return Err(other),
        }
        Ok(())
    }

    /// Returns the refusal of the record that begins in this line. The text of the refusal contains all stored reasons,
    /// and the number of further reasons.
    #[cold]
    pub(in crate::maintenance::import) fn refusal(&self, line: u64) -> Failure {
        let first = self.all.iter().find_map(|(line, _)| *line).unwrap_or(line);
        let is_outside = |error: &OperationError| {
            matches!(error, OperationError::Refused { code: ResultCode::NO_SUCH_OBJECT, .. })
        };
        let refusal = match self.all.iter().any(|(_, error)| is_outside(error)) {
            true => Refusal::Outside,
            false => Refusal::Bad,
        };
        let reason = |(line, error): &(Option<u64>, OperationError)| match line {
            Some(line) if *line != first => format!("line {}: {error}", self.lines_before + line),
            _ => error.to_string(),
        };
        let mut reasons: Vec<String> = self.all.iter().map(reason).collect();
        reasons.dedup();
        if self.more > 0 {
            reasons.push(format!("{} more", self.more));
        }
        Failure::Refused(refusal, first, reasons.join("; "))
    }
}
