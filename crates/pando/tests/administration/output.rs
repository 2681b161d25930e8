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
struct Setup {
    scratch: Scratch,
}

impl Setup {
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

fn setup(name: &str) -> Setup {
    Setup { scratch: Scratch::new(name) }
}

fn serve(setup: &Setup, node: &Path) -> Pando {
    Start::of_node(&setup.scratch, node).ready()
}

#[test]
fn commands_print_json_from_a_running_server() {
    let setup = setup("output-running");
    setup.json("init", "@pando --yes --suffix dc=example,dc=org --listen ldap://127.0.0.1:0");
    let server = serve(&setup, &setup.scratch.join("pando/node.toml"));
    let of = "--node @pando/node.toml";
    let added = setup.json("user add", &format!("{of} anna"));
    assert_eq!(added[0]["dn"], "uid=anna,ou=people,dc=example,dc=org");
    assert!(added[0]["password"].as_str().unwrap().len() > 10);
    let anna = "uid=anna,ou=people,dc=example,dc=org";
    setup.json("user list", of);
    setup.json("user show", &format!("{of} anna"));
    setup.json("user set", &format!("{of} anna mail=a@example.org"));
    setup.json("user reset", &format!("{of} anna"));
    setup.json("group add", &format!("{of} staff"));
    setup.json("group set", &format!("{of} staff description=all"));
    assert_eq!(setup.json("group join", &format!("{of} staff anna"))[0]["added"][0], anna);
    assert_eq!(setup.json("group members", &format!("{of} staff"))[0]["kind"], "entry");
    setup.json("group list", of);
    setup.json("group show", &format!("{of} staff"));
    setup.json("group leave", &format!("{of} staff anna"));
    setup.quiet(&format!("group join {of} staff anna"));
    assert_eq!(setup.json("account show", &format!("{of} {anna}"))[0]["dn"], anna);
    setup.json("account app-list", &format!("{of} {anna}"));
    setup.json("account reset", &format!("{of} {anna}"));
    setup.json("account report", of);
    setup.json("search", &format!("{of} (uid=anna) cn"));
    setup.json_of(
        "change",
        &format!("{of} -"),
        &format!("dn: {anna}\nchangetype: modify\nreplace: ou\nou: A\n"),
    );
    setup.json("explain", &format!("{of} (uid=anna)"));
    setup.json("top", of);
    setup.json("index list", of);
    setup.json("index add", &format!("{of} employeeNumber"));
    setup.json("index drop", &format!("{of} employeeNumber"));
    let asked = format!("{of} --as uid=anna,ou=people,dc=example,dc=org --operation read {anna} cn");
    assert_eq!(setup.json("access explain", &asked)[0]["allowed"], true);
    setup.json("plan", &format!("{of} @pando/settings.toml"));
    setup.json("apply", &format!("{of} @pando/settings.toml"));
    let keep = "dn: cn=config\nchangetype: modify\nreplace: pandoKeepDeletedSeconds\npandoKeepDeletedSeconds: 3600\n";
    setup.json_of("change", &format!("{of} -"), keep);
    setup.quiet(&format!("user delete {of} anna"));
    let deleted = setup.json("undelete", of);
    assert_eq!(deleted[0]["dn"], anna);
    setup.json("undelete", &format!("{of} {anna}"));
    setup.json("backup make", &format!("{of} @backup"));
    setup.quiet(&format!("backup make {of} @backup"));
    assert_eq!(setup.json("support", &format!("{of} -o @support.tar"))[0]["parts"][0], "version.json");
    assert!(server.stop().success());
}

#[test]
fn commands_print_json_from_files_and_stopped_directories() {
    let setup = setup("output-stopped");
    setup.scratch.write("people.ldif", PEOPLE);
    setup.scratch.write("settings.toml", "suffixes = [\"dc=example,dc=org\"]\n");
    let imported = setup.json("import", "--data @data --suffix dc=example,dc=org @people.ldif");
    assert_eq!((imported[0]["entries"].as_u64(), imported[0]["rejected"].as_u64()), (Some(3), Some(0)));
    assert_eq!(setup.json("verify", "--data @data")[0]["findings"], 0);
    setup.json("verify", "--repair --data @data");
    setup.json("compact", "--data @data");
    setup.json("backup make", "--data @data @backup");
    setup.json("backup list", "@backup");
    setup.json("backup verify", "@backup");
    setup.json("restore", "--data @then @backup");
    setup.quiet("verify --data @then");
    setup.quiet("export --data @data -o @all.ldif");
    assert_eq!(setup.json("ldif check", "@all.ldif")[0]["records"], 3);
    assert_eq!(setup.json("ldif count", "@all.ldif")[0]["entries"], 3);
    let stored = setup.json_of("passwd", "--scheme ssha", "secret\n");
    assert!(stored[0]["value"].as_str().unwrap().starts_with("{SSHA}"));
    setup.json("access rehearse", "--data @data @settings.toml");
    setup.scratch.write(
        "aci.ldif",
        "dn: dc=example,dc=org\naci: (targetattr=\"cn\")(version 3.0; acl \"a\"; \
        allow (read,search,compare) userdn=\"ldap:///anyone\";)\n",
    );
    setup.json("access translate", "@aci.ldif");
    setup.json("plan", "--data @data @settings.toml");
    setup.json("version", "");
    // A finding of `doctor` is a JSON line too. A test machine may have some findings.
    let found = command(&["doctor", "--json"], Some(&setup.scratch.join("data"))).stdout;
    let known = documented("doctor");
    for line in found.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(object.as_object().unwrap().keys().all(|name| known.contains(name)), "{line}");
    }
}
