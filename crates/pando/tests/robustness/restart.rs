//! Acknowledged changes survive any end of the server.

use ldap::{ChangeOperation, Scope};
use std::time::Instant;
use test_support::pando::Start;
use test_support::tree::{add_person, person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

#[test]
fn entries_are_unchanged_after_a_restart() {
    let scratch = Scratch::new("restart");
    let all = ["*", "+"];
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let before = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &all).unwrap().entries;
    assert_eq!(before.len(), 6);
    drop(admin);
    assert!(pando.stop().success());

    let pando = Pando::start(&scratch);
    let after =
        pando.administrator().search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &all).unwrap().entries;
    assert_eq!(before, after, "a regular end and a start");
    pando.kill();

    let pando = Pando::start(&scratch);
    let after =
        pando.administrator().search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &all).unwrap().entries;
    assert_eq!(before, after, "a kill and a start");
}

#[test]
fn change_numbers_increase_across_restarts() {
    let scratch = Scratch::new("csn");
    let anna = person_dn("anna");
    let mut last = String::new();
    for round in 0..3 {
        let pando = Pando::start(&scratch);
        let mut admin = pando.administrator();
        if round == 0 {
            plant(&mut admin);
        }
        for value in ["one", "two"] {
            let change = (ChangeOperation::Replace, "title", &[value][..]);
            assert!(admin.modify(&anna, &[change]).unwrap().is_success());
            let entry = admin.entry(&anna, &["entryCSN"]).unwrap().unwrap();
            let csn = entry.text("entryCSN").unwrap();
            assert_eq!(csn.len(), "YYYYmmddHHMMSS.uuuuuuZ#oooooo#sss#mmmmmm".len(), "{csn}");
            assert!(csn > last, "{csn} after {last}");
            let context = admin.entry(SUFFIX, &["contextCSN"]).unwrap().unwrap();
            assert_eq!(context.texts("contextCSN"), [csn.as_str()]);
            last = csn;
        }
        if round == 0 { assert!(pando.stop().success()) } else { pando.kill() }
    }
}

#[test]
fn one_process_owns_a_data_folder() {
    let scratch = Scratch::new("owner");
    let pando = Pando::start(&scratch);
    let (status, errors) = Start::new(&scratch).refused();
    assert!(!status.success());
    assert!(errors.contains(&pando.id().to_string()), "it says which process has it: {errors}");
    assert!(pando.stop().success());
    let pando = Pando::start(&scratch);
    assert!(pando.stop().success(), "and the folder is free again");
}

#[test]
fn a_generated_administrator_password_is_printed_once_and_kept() {
    let scratch = Scratch::new("password");
    let bare = || Start::bare(&scratch, "data").without_environment("PANDO_ADMIN_PASSWORD");
    let pando = bare().ready();
    let said = pando.output();
    let (name, password) = administrator_in(&said).unwrap_or_else(|| panic!("no password in {said:?}"));
    assert!(pando.connect().bind(&name, &password).unwrap().is_success(), "{said}");
    assert!(pando.stop().success());

    let pando = bare().ready();
    assert!(!pando.output().contains(&password), "the password is printed only at the first start");
    assert!(pando.connect().bind(&name, &password).unwrap().is_success(), "and holds");
}

/// Returns the administrator's name and password from the line that contains them: the word with `=`, and the last
/// word.
fn administrator_in(said: &str) -> Option<(String, String)> {
    let line = said.lines().find(|line| line.contains("password"))?;
    let name = line.split_whitespace().find(|word| word.contains('='))?;
    let password = line.split_whitespace().last()?;
    Some((name.trim_matches(|c| ",;:'\"".contains(c)).to_owned(), password.to_owned()))
}

#[test]
fn a_start_after_many_changes_is_quick() {
    let scratch = Scratch::new("quick");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let mut admin = pando.administrator();
    add_person(&mut admin, "zoe");
    pando.kill();
    let started = Instant::now();
    let pando = Start::new(&scratch).ready();
    assert!(pando.administrator().entry(SUFFIX, &[]).unwrap().is_some());
    // The bound is generous, but a replay of the whole log would exceed it.
    assert!(started.elapsed() < test_support::DEADLINE);
}
