//! `--json` and `--quiet`: commands print the members that their help lists, and no others.

use std::path::Path;

use serde_json::Value;
use test_support::clients::{Run, run};
use test_support::pando::{Start, command, program};
use test_support::{Pando, Scratch};

/// Returns the members that the help of a command lists: all words in backquotes.
fn documented(verb: &str) -> Vec<String> {
    let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
    let help = run(program(), &words, "").expect_code(0).stdout;
    let (_, members) =
        help.split_once("Members of the objects of --json:").unwrap_or_else(|| panic!("{help}"));
    members.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A server that `pando init` has set up, with the files for the commands of an administrator.
struct Desk {
    scratch: Scratch,
}

impl Desk {
    fn run(&self, line: &str, input: &str) -> Run {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        let words =
            line.split_whitespace().map(|word| word.strip_prefix('@').map_or_else(|| word.to_owned(), at));
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run(program(), &words, input)
    }

    /// Runs `verb` with `--json`. Expects at least one line, and only members that the help lists.
    fn json(&self, verb: &str, rest: &str) -> Vec<Value> {
        self.json_of(verb, rest, "")
    }

    fn json_of(&self, verb: &str, rest: &str, input: &str) -> Vec<Value> {
        let done = self.run(&format!("{verb} --json --quiet {rest}"), input);
        let done = done.expect_code(0);
        let known = documented(verb);
        let lines: Vec<Value> = done
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{verb}: {error}: {line}")))
            .collect();
        assert!(!lines.is_empty(), "{verb} prints nothing");
        for name in lines.iter().flat_map(|line| line.as_object().unwrap().keys()) {
            assert!(known.contains(name), "{verb}: the help lacks {name:?}: {known:?}");
        }
        assert_eq!(done.stderr, "", "{verb}: --quiet");
        lines
    }

    fn quiet(&self, line: &str) {
        let done = self.run(&format!("{line} --quiet"), "").expect_code(0);
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""), "{line}");
    }
}

const PEOPLE: &str = "dn: dc=example,dc=org\nobjectClass: domain\ndc: example\n\n\
                      dn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n\n\
                      dn: ou=groups,dc=example,dc=org\nobjectClass: organizationalUnit\nou: groups\n";

fn desk(name: &str) -> Desk {
    Desk { scratch: Scratch::new(name) }
}

fn serve(desk: &Desk, node: &Path) -> Pando {
    Start::of_node(&desk.scratch, node).ready()
}

#[test]
fn a_running_server_answers_in_json() {
    let desk = desk("output-running");
    desk.json("init", "@pando --yes --suffix dc=example,dc=org --listen ldap://127.0.0.1:0");
    let server = serve(&desk, &desk.scratch.join("pando/node.toml"));
    let of = "--node @pando/node.toml";
    let added = desk.json("user add", &format!("{of} anna"));
    assert_eq!(added[0]["dn"], "uid=anna,ou=people,dc=example,dc=org");
    assert!(added[0]["password"].as_str().unwrap().len() > 10);
    let anna = "uid=anna,ou=people,dc=example,dc=org";
    desk.json("user list", of);
    desk.json("user show", &format!("{of} anna"));
    desk.json("user set", &format!("{of} anna mail=a@example.org"));
    desk.json("user reset", &format!("{of} anna"));
    desk.json("group add", &format!("{of} staff"));
    desk.json("group set", &format!("{of} staff description=all"));
    assert_eq!(desk.json("group join", &format!("{of} staff anna"))[0]["added"][0], anna);
    assert_eq!(desk.json("group members", &format!("{of} staff"))[0]["kind"], "entry");
    desk.json("group list", of);
    desk.json("group show", &format!("{of} staff"));
    desk.json("group leave", &format!("{of} staff anna"));
    desk.quiet(&format!("group join {of} staff anna"));
    assert_eq!(desk.json("account show", &format!("{of} {anna}"))[0]["dn"], anna);
    desk.json("account app-list", &format!("{of} {anna}"));
    desk.json("account reset", &format!("{of} {anna}"));
    desk.json("account report", of);
    desk.json("search", &format!("{of} (uid=anna) cn"));
    desk.json_of(
        "change",
        &format!("{of} -"),
        &format!("dn: {anna}\nchangetype: modify\nreplace: ou\nou: A\n"),
    );
    desk.json("explain", &format!("{of} (uid=anna)"));
    desk.json("top", of);
    desk.json("index list", of);
    desk.json("index add", &format!("{of} employeeNumber"));
    desk.json("index drop", &format!("{of} employeeNumber"));
    let asked = format!("{of} --as uid=anna,ou=people,dc=example,dc=org --operation read {anna} cn");
    assert_eq!(desk.json("access explain", &asked)[0]["allowed"], true);
    desk.json("plan", &format!("{of} @pando/settings.toml"));
    desk.json("apply", &format!("{of} @pando/settings.toml"));
    let keep = "dn: cn=config\nchangetype: modify\nreplace: pandoKeepDeletedSeconds\npandoKeepDeletedSeconds: 3600\n";
    desk.json_of("change", &format!("{of} -"), keep);
    desk.quiet(&format!("user delete {of} anna"));
    let deleted = desk.json("undelete", of);
    assert_eq!(deleted[0]["dn"], anna);
    desk.json("undelete", &format!("{of} {anna}"));
    desk.json("backup make", &format!("{of} @backup"));
    desk.quiet(&format!("backup make {of} @backup"));
    assert_eq!(desk.json("support", &format!("{of} -o @support.tar"))[0]["parts"][0], "version.json");
    assert!(server.stop().success());
}

#[test]
fn files_and_stopped_directories_answer_in_json() {
    let desk = desk("output-stopped");
    desk.scratch.write("people.ldif", PEOPLE);
    desk.scratch.write("settings.toml", "suffixes = [\"dc=example,dc=org\"]\n");
    let imported = desk.json("import", "--data @data --suffix dc=example,dc=org @people.ldif");
    assert_eq!((imported[0]["entries"].as_u64(), imported[0]["rejected"].as_u64()), (Some(3), Some(0)));
    assert_eq!(desk.json("verify", "--data @data")[0]["findings"], 0);
    desk.json("verify", "--repair --data @data");
    desk.json("compact", "--data @data");
    desk.json("backup make", "--data @data @backup");
    desk.json("backup list", "@backup");
    desk.json("backup verify", "@backup");
    desk.json("restore", "--data @then @backup");
    desk.quiet("verify --data @then");
    desk.quiet("export --data @data -o @all.ldif");
    assert_eq!(desk.json("ldif check", "@all.ldif")[0]["records"], 3);
    assert_eq!(desk.json("ldif count", "@all.ldif")[0]["entries"], 3);
    let stored = desk.json_of("passwd", "--scheme ssha", "secret\n");
    assert!(stored[0]["value"].as_str().unwrap().starts_with("{SSHA}"));
    desk.json("access rehearse", "--data @data @settings.toml");
    desk.scratch.write(
        "aci.ldif",
        "dn: dc=example,dc=org\naci: (targetattr=\"cn\")(version 3.0; acl \"a\"; \
        allow (read,search,compare) userdn=\"ldap:///anyone\";)\n",
    );
    desk.json("access translate", "@aci.ldif");
    desk.json("plan", "--data @data @settings.toml");
    desk.json("version", "");
    // A finding of `doctor` is a JSON line too. A test machine may have some findings.
    let found = command(&["doctor", "--json"], Some(&desk.scratch.join("data"))).stdout;
    let known = documented("doctor");
    for line in found.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(object.as_object().unwrap().keys().all(|name| known.contains(name)), "{line}");
    }
}
