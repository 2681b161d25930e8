//! Bounds on links by mail, with which users who forgot their password set another.

use std::time::Duration;

/// Minutes for which a link to reset a password is valid, by default.
pub(crate) const LINK_MINUTES: u32 = 30;
/// Least and most of these minutes.
pub(crate) const LINK_MINUTES_MIN: u32 = 5;
/// As above.
pub(crate) const LINK_MINUTES_MAX: u32 = 1_440;

/// Most octets of a name or address that a user enters to reset a password.
pub(crate) const RESET_NAME_BYTES_MAX: usize = 320;
/// Most requests for such links that wait for their mail; the answer to another is busy.
pub(crate) const RESET_REQUESTS_MAX: usize = 64;
/// Time in which requests and mails are counted.
pub(crate) const RESET_PERIOD: Duration = Duration::from_secs(3_600);
/// Requests of one source in that time; the answer to another is busy, whatever name it has.
pub(crate) const RESET_REQUESTS_PER_SOURCE_MAX: u32 = 20;
/// Mails to one account in that time.
pub(crate) const RESET_MAILS_PER_ACCOUNT_MAX: u32 = 3;
/// Mails to all accounts in that time.
pub(crate) const RESET_MAILS_MAX: u32 = 500;
/// Most sources that are counted; while they are full, the answer to further sources is busy.
pub(crate) const RESET_SOURCES_MAX: usize = 16_384;
/// Delays before a mail is sent again that a server did not take.
pub(crate) const RESET_MAIL_RETRIES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(10), Duration::from_secs(60)];
/// Time for each step of a conversation with a mail server.
pub(crate) const MAIL_STEP_TIME: Duration = Duration::from_secs(10);
