//! Access rules before and after they are in force: expectations, rehearsal, versions.

use test_support::pando::command;
use test_support::tree::{person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Writes a settings file with these rules and expectations, and returns its path.
fn settings(scratch: &Scratch, name: &str, rules: &[&str], expectations: &[&str]) -> String {
    let text = command(&["export", "--settings-only"], Some(&Pando::data(scratch))).expect_code(0).stdout;
    let mut kept = String::new();
    let mut is_in_list = false;
    for line in text.lines() {
        let begins = line.starts_with("access_rules") || line.starts_with("access_expectations");
        if begins {
            let (key, list) = match line.starts_with("access_rules") {
                true => ("access_rules", rules),
                false => ("access_expectations", expectations),
            };
            kept += &format!("{key} = [\n");
            list.iter().for_each(|member| kept += &format!("  {member:?},\n"));
            kept += "]\n";
        } else if !is_in_list {
            kept += line;
            kept.push('\n');
        }
        is_in_list = (begins && !line.ends_with(']')) || (is_in_list && line != "]");
    }
    scratch.write(name, kept).to_str().unwrap().to_owned()
}

#[test]
fn rules_are_tested_rehearsed_applied_and_rolled_back() {
    let scratch = Scratch::new("access-settings");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let data = Pando::data(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let default = command(&["export", "--settings-only"], Some(&data)).expect_code(0);
    default.expect_output("# as if these were written:\n#   \"users: allow read to authenticated\",\n");

    let open = ["all: allow read to authenticated"];
    let closed = ["all: allow read to authenticated", "names: deny read of sn, cn to authenticated"];
    let expected = [
        format!("'{anna}' may read uid of '{bert}'"),
        format!("'{anna}' may not read sn of '{bert}'"),
        format!("anonymous may not browse '{SUFFIX}'"),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let wrong = settings(&scratch, "wrong.toml", &open, &expected);
    let text = std::fs::read_to_string(&wrong).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("may not read sn")).unwrap();
    let says = format!("{wrong}:{line}: access expectation \"'{anna}' may not read sn of '{bert}'\"");
    let decides = "may read sn of \\\"".replace('\\', "");
    for verb in ["plan", "apply"] {
        command(&[verb, &wrong], Some(&data))
            .expect_code(2)
            .expect_error(&says)
            .expect_error(&decides)
            .expect_error("allows it, rule 1: all: allow read to authenticated");
    }
    let missing = [format!("'{}' may read sn of '{bert}'", person_dn("nobody"))];
    let missing = settings(&scratch, "missing.toml", &closed, &[&missing[0]]);
    command(&["plan", &missing], Some(&data)).expect_code(2).expect_error("does not exist");
    let no_right = settings(&scratch, "no-right.toml", &closed, &["anonymous may see 'dc=example,dc=com'"]);
    command(&["plan", &no_right], Some(&data)).expect_code(2).expect_error("\"see\" is not a right");

    // A rehearsal predicts the changes for requesters.
    let right = settings(&scratch, "right.toml", &closed, &expected);
    let rehearse = |arguments: &[&str]| command(&[&["access", "rehearse"], arguments].concat(), Some(&data));
    rehearse(&[&right])
        .expect_code(0)
        .expect_output(&format!(
            "{anna} at {bert}: may no longer read cn, read sn, search cn, search sn, compare cn, compare sn\n"
        ))
        .expect_output(&format!("{anna} at {anna}: may no longer read cn, "))
        .expect_output("3 requesters at 6 entries: ");
    // By default, users may change their own passwords. If rules are set that do not grant this right, users may not.
    rehearse(&["--as", &bert, &right])
        .expect_code(0)
        .expect_output(&format!("{bert} at {bert}: may no longer "))
        .expect_output("write userPassword")
        .expect_output("1 requesters at 6 entries: 3 would change");

    command(&["apply", &right], Some(&data)).expect_code(0).expect_output("applied");
    rehearse(&[&right]).expect_code(0).expect_output("3 requesters at 6 entries: 0 would change");
    let reads = |name: &str| {
        let mut connection = pando.connect();
        assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
        connection.entry(&bert, &[name]).unwrap().unwrap().text(name).is_some()
    };
    assert!(reads("uid") && !reads("sn"));
    let exported = command(&["export", "--settings-only"], Some(&data)).expect_code(0);
    exported.expect_output("access_rules = [\n  \"all: allow read to authenticated\",\n  \"names: deny ");

    // Expectations are part of the settings. A change is refused if it removes the rule that fulfills an expectation.
    let only_open = settings(&scratch, "open.toml", &open, &expected);
    command(&["apply", &only_open], Some(&data)).expect_code(2);
    let no_more = settings(&scratch, "no-more.toml", &open, &[]);
    command(&["apply", &no_more], Some(&data)).expect_code(0);
    assert!(reads("sn"));
    command(&["access", "history"], Some(&data))
        .expect_code(0)
        .expect_output("  + names: deny read of sn, cn to authenticated\n")
        .expect_output("  - names: deny read of sn, cn to authenticated\n");
    command(&["access", "rollback"], Some(&data)).expect_code(0).expect_output("applied");
    assert!(!reads("sn"));
    // The rollback restored the expectations together with their rules. A further rollback removes the rules and the
    // expectations together.
    command(&["plan", &right], Some(&data)).expect_code(0).expect_output("no change");
    command(&["apply", &only_open], Some(&data)).expect_code(2);
    command(&["access", "rollback"], Some(&data)).expect_code(0).expect_output("applied");
    assert!(reads("sn"));
    command(&["plan", &no_more], Some(&data)).expect_code(0).expect_output("no change");
    command(&["access", "rollback", "--to", "1000000"], Some(&data))
        .expect_code(2)
        .expect_error("no such version");
    // A rollback works without a server too.
    assert!(pando.stop().success());
    command(&["access", "rollback"], Some(&data)).expect_code(0).expect_output("applied");
    command(&["plan", &right], Some(&data)).expect_code(0).expect_output("no change");
}

#[test]
fn the_last_explain_right_is_removed_only_by_an_explicit_deny() {
    let scratch = Scratch::new("access-readers");
    assert!(Pando::start(&scratch).stop().success());
    let data = Pando::data(&scratch);
    let see = "all: allow read to authenticated";
    let first = settings(&scratch, "first.toml", &[see], &[]);
    let with = settings(&scratch, "with.toml", &[see, "helpers: allow explain to authenticated"], &[]);
    let meant = settings(&scratch, "meant.toml", &[see, "closed: deny explain to anyone"], &[]);
    command(&["apply", &first], Some(&data)).expect_code(0);
    command(&["apply", &with], Some(&data)).expect_code(0);
    for verb in ["plan", "apply"] {
        command(&[verb, &first], Some(&data))
            .expect_code(2)
            .expect_error("only the administrator could query these rules")
            .expect_error("\"closed: deny explain to anyone\"");
    }
    let back = command(&["access", "rollback"], Some(&data));
    assert!(back.code != Some(0) && back.stderr.contains("deny explain to anyone"), "{back}");
    command(&["plan", &meant], Some(&data)).expect_code(0);
    command(&["apply", &meant], Some(&data)).expect_code(0);
    command(&["apply", &first], Some(&data)).expect_code(0);
}
