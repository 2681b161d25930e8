//! Limits of backups, and of reads in them.

use std::time::Duration;

use super::TRANSACTION_CHANGES_MAX;

/// Nice value of the backup thread.
pub const BACKUP_NICENESS: i32 = 10;

/// Interval at which a server lists the files of its backup.
pub const BACKUP_LIST: Duration = Duration::from_secs(60);

/// Maximum number of chains of backup files that `cn=monitor` shows. The newest chains are shown.
pub const BACKUP_CHAINS_MAX: usize = 100;

/// Interval at which the backup thread checks whether a backup is due.
pub const BACKUP_LOOK: Duration = Duration::from_secs(1);

/// Delay before a failed backup is repeated, if no other backup is due earlier.
pub const BACKUP_RETRY: Duration = Duration::from_secs(60);

/// Minimum number of records for the timing of extra backups. An extra backup is made when half of the records that the
/// log retains are newer than the last backup. If the log retains fewer records than this minimum, the extra backup is
/// made as if the log retained this number. The log may then drop records before the backup contains them.
pub const BACKUP_RECORDS_MIN: u64 = 2_000;

/// Maximum number of recipients of a backup. Each recipient adds about 170 octets to every file.
pub const BACKUP_RECIPIENTS_MAX: usize = 50;

/// Maximum size of the header of an encrypted backup file, and of a file of identities, in octets.
pub const BACKUP_HEADER_BYTES: u64 = 64 << 10;

/// Maximum number of requests for entries of the backup that wait for the thread that answers them.
pub const BACKUP_READS_MAX: usize = 4;

/// Maximum time for which a request waits while the server restores the data of the requested moment. After that it is
/// answered `busy`.
pub const BACKUP_READ_WAIT: Duration = Duration::from_secs(3);

/// Time for which a restored copy remains after the last request for data of the same time.
pub const BACKUP_COPY_KEPT: Duration = Duration::from_secs(10 * 60);

/// Time for which a copy of the newest data in the backup serves requests for the newest data. The backup may have
/// grown meanwhile.
pub const BACKUP_COPY_FRESH: Duration = Duration::from_secs(60);

/// Maximum size of an entry or tree of the backup in one answer, in octets.
pub const BACKUP_ENTRY_BYTES: usize = 8 << 20;

/// Maximum number of entries in an answer with a tree of the backup. It equals the maximum number of changes in a
/// transaction, so that one transaction can restore the tree.
pub const BACKUP_TREE_ENTRIES_MAX: usize = TRANSACTION_CHANGES_MAX;

/// Maximum number of references in an answer with a subtree from the backup. A reference is a value of an entry outside
/// the subtree that names an entry in the subtree.
pub const BACKUP_TREE_NAMES_MAX: usize = 20_000;

/// Maximum size of the references in an answer with a subtree from the backup, in octets. It includes the DNs of the
/// entries that contain the references.
pub const BACKUP_TREE_NAMES_BYTES: usize = 4 << 20;
