//! Limits of mails to users who forgot their password, with a link to set a new one.

use std::time::Duration;

/// Default time for which a link to reset a password is valid, in minutes.
pub(crate) const LINK_MINUTES: u32 = 30;
/// Minimum validity of a link, in minutes.
pub(crate) const LINK_MINUTES_MIN: u32 = 5;
/// Maximum validity of a link, in minutes.
pub(crate) const LINK_MINUTES_MAX: u32 = 1_440;

/// Maximum size of the name or address that a user enters to reset a password, in octets.
pub(crate) const RESET_NAME_BYTES_MAX: usize = 320;
/// Maximum number of requests for a link that wait for their mail. Further ones are answered `busy`.
pub(crate) const RESET_REQUESTS_MAX: usize = 64;
/// Period over which requests and mails are counted.
pub(crate) const RESET_PERIOD: Duration = Duration::from_secs(3_600);
/// Maximum number of requests of one source per period. Further ones are answered `busy`, whatever name they contain.
pub(crate) const RESET_REQUESTS_PER_SOURCE_MAX: u32 = 20;
/// Maximum number of mails to one account per period.
pub(crate) const RESET_MAILS_PER_ACCOUNT_MAX: u32 = 3;
/// Maximum number of mails to all accounts per period.
pub(crate) const RESET_MAILS_MAX: u32 = 500;
/// Maximum number of sources that are counted. While the table is full, further sources are answered `busy`.
pub(crate) const RESET_SOURCES_MAX: usize = 16_384;
/// Delays before a mail that the mail server refused is sent again.
pub(crate) const RESET_MAIL_RETRIES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(10), Duration::from_secs(60)];
/// Time limit of each step of a conversation with a mail server.
pub(crate) const MAIL_STEP_TIME: Duration = Duration::from_secs(10);
