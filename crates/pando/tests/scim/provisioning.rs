//! Provisioning by a SCIM client of another project.

use crate::Scim;
use test_support::clients::{repository, run};
use test_support::{ADMIN_DN, ADMIN_PASSWORD};

/// UnboundID's SCIM 2 SDK, which identity managers use: users, a group, filters, sorted pages, PATCH, ETags, conflicts,
/// deletion. Needs a Java compiler.
#[test]
#[ignore = "./dev test clients"]
fn unboundid_provisions_users_and_groups() {
    let scim = Scim::start("scim-unboundid");
    let program = repository().join("crates/pando/tests/clients/Provision.java").display().to_string();
    let jars = format!("{}/*", repository().join(".dev/scim-client/lib").display());
    let url = format!("http://{}/scim/v2", scim.at);
    let arguments = ["-cp", &jars, &program, &url, ADMIN_DN, ADMIN_PASSWORD];
    run("java", &arguments, "").expect_code(0).expect_output("everything as expected");
    assert!(scim.pando.stop().success());
}
