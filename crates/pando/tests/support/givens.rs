//! Constants of all black-box tests.

use std::time::Duration;

/// Longest wait of a test for an event that always comes if the code is right.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The suffix of the trees in these tests.
pub const SUFFIX: &str = "dc=example,dc=com";
/// The administrator of both servers: slapd wants its root DN below the suffix, so Pando's is there as well.
pub const ADMIN_DN: &str = "cn=admin,dc=example,dc=com";
/// The administrator's password.
pub const ADMIN_PASSWORD: &str = "correct horse";
