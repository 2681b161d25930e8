//! `pando migrate`: the files that it writes can be planned and applied.

use std::fs;

use test_support::Scratch;
use test_support::clients::{self, Run};
use test_support::pando::program;

fn pando(arguments: &[&str]) -> Run {
    clients::run(program(), arguments, "")
}

#[test]
fn a_slapd_conf_becomes_files_that_apply() {
    let scratch = Scratch::new("migrate");
    let file = |name: &str| scratch.join(name).display().to_string();
    let conf = "\
        database mdb\n\
        suffix dc=example,dc=com\n\
        index employeeNumber eq\n\
        access to attrs=nothingKnown by * read\n\
        access to * by users read\n\
        overlay unique\n\
        unique_uri ldap:///?mail?sub\n";
    fs::write(scratch.join("slapd.conf"), conf).unwrap();
    pando(&["migrate", &file("slapd.conf"), "--folder", &file("out")]).expect_code(6);
    let page = fs::read_to_string(scratch.join("out/decide.md")).unwrap();
    assert!(page.contains("nothingKnown is not an attribute type of the schema"), "{page}");
    pando(&["plan", "--data", &file("data"), &file("out/settings.toml")])
        .expect_code(0)
        .expect_output("employeeNumber")
        .expect_output("unique1: mail");
    // A second run overwrites nothing.
    pando(&["migrate", &file("slapd.conf"), "--folder", &file("out")])
        .expect_code(1)
        .expect_error("cannot write");
}

#[test]
fn a_file_of_an_unknown_server_is_refused() {
    let scratch = Scratch::new("migrate-nothing");
    let file = |name: &str| scratch.join(name).display().to_string();
    fs::write(scratch.join("other.ldif"), "dn: dc=example,dc=com\nobjectClass: domain\n").unwrap();
    pando(&["migrate", &file("other.ldif"), "--folder", &file("out")]).expect_code(2);
    assert!(!scratch.join("out").exists());
}
