//! Copies of a real OpenDJ, from its external change log.

use super::*;
use test_support::opendj::RunningOpenDj;

/// Attributes that are not compared, because OpenDJ does not have them in entries that were never modified.
pub(super) const OWN: [&str; 2] = ["modifiersName", "modifyTimestamp"];

#[test]
#[ignore = "needs OpenDJ, which ./dev test-peers installs"]
fn a_copy_follows_the_change_log_of_opendj() {
    let folder = Scratch::new("follow-opendj-source");
    let source = RunningOpenDj::with_change_log(&folder, &["uid:equality", "member:equality"]);
    let traits = Traits { cookie: "opendj ", own: &OWN, has_deaf_refresh: false };
    let log = follows("follow-opendj", source, &traits);
    assert!(!log.contains("the whole content is compared"), "{log}");
}
