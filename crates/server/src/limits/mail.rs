//! Limits of mails to users who forgot their password. The mail contains a link with which the user can set a new
//! password.

use std::time::Duration;

/// Default validity of a link, in minutes.
pub(crate) const LINK_MINUTES: u32 = 30;
/// Minimum validity of a link, in minutes.
pub(crate) const LINK_MINUTES_MIN: u32 = 5;
/// Maximum validity of a link, in minutes.
pub(crate) const LINK_MINUTES_MAX: u32 = 1_440;

/// Maximum size in octets of the name or address that a user enters to receive a link.
pub(crate) const RESET_NAME_BYTES_MAX: usize = 320;
/// Maximum number of requests for a link that wait until their mail is sent. If there are more, a request is answered
/// `busy`.
pub(crate) const RESET_REQUESTS_MAX: usize = 64;
/// The period over which requests and mails are counted.
pub(crate) const RESET_PERIOD: Duration = Duration::from_secs(3_600);
/// Maximum number of requests by one source in a period. A further request is answered `busy`, whatever name it
/// contains.
pub(crate) const RESET_REQUESTS_PER_SOURCE_MAX: u32 = 20;
/// Maximum number of mails to one account in a period.
pub(crate) const RESET_MAILS_PER_ACCOUNT_MAX: u32 = 3;
/// Maximum number of mails to all accounts in a period.
pub(crate) const RESET_MAILS_MAX: u32 = 500;
/// Maximum number of sources whose requests are counted. While the table is full, requests by other sources are
/// answered `busy`.
pub(crate) const RESET_SOURCES_MAX: usize = 16_384;
/// Delays before repeated attempts to send a mail that the mail server refused.
pub(crate) const RESET_MAIL_RETRIES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(10), Duration::from_secs(60)];
/// Time limit of each step of a conversation with a mail server.
pub(crate) const MAIL_STEP_TIME: Duration = Duration::from_secs(10);
