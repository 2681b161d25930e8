//! Constants for all black-box tests.

use std::time::Duration;

/// Maximum wait for an event that always occurs if the code is right.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Suffix of the trees in these tests.
pub const SUFFIX: &str = "dc=example,dc=com";
/// DN of the administrator on both servers. It is below the suffix, because slapd requires that of its root DN.
pub const ADMIN_DN: &str = "cn=admin,dc=example,dc=com";
/// The administrator's password.
pub const ADMIN_PASSWORD: &str = "correct horse";
