//! The commands of docs/how-to/runbook.md, run as written, each in the situation that its section describes.

use std::path::Path;

use client::Connection;
use ldap::Scope;
use test_support::clients::{repository, run};
use test_support::cluster::until;
use test_support::page::Page;
use test_support::pando::{Start, command, program};
use test_support::root::was_run_as_root;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{Pando, Scratch};

use crate::data::SERVE_SAMPLE;
use crate::host::Host;

const SERVICES: &str = "ou=services,dc=example,dc=com";

/// Runs the commands of a section with the program under test.
fn shell(scratch: &Scratch, commands: &str) -> String {
    let path = Path::new(program()).parent().unwrap().display();
    let commands = format!("PATH={path}:$PATH; cd {}; {commands}", scratch.path().display());
    run("bash", &["-euo", "pipefail", "-c", &commands], "").expect_code(0).stdout
}

/// Returns the names below ou=services, deepest first.
fn services(admin: &mut Connection) -> Vec<String> {
    let found = admin.search(SERVICES, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    let mut names: Vec<String> = found.entries.into_iter().map(|entry| entry.dn).collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.matches(',').count()));
    names
}

fn delete_services(admin: &mut Connection) -> usize {
    let names = services(admin);
    names.iter().for_each(|name| assert!(admin.delete(name).unwrap().is_success(), "{name}"));
    names.len()
}

#[test]
pub(crate) fn each_section_of_the_runbook_does_what_it_says() {
    let scratch = Scratch::new("runbook");
    let at = |name: &str| scratch.join(name).display().to_string();
    let (data, backup) = (at("data"), at("backup"));
    let replaced = [
        ("/var/lib/pando", data.as_str()),
        ("/var/backups/pando", &backup),
        // The backup of the test is not two hours old.
        (" --until 2h", ""),
    ];
    let page = Page::read("how-to/runbook.md", &replaced);
    let [password, full, deleted, _lost, slow, none] = &page.headings()[..] else { panic!("other sections") };
    let block = |heading: &str, number: usize| page.section(heading).blocks[number].clone();
    let start = Start::bare(&scratch, "data").without_environment("PANDO_ADMIN_PASSWORD");
    let pando = start.arguments(&["--sample"]).ready();

    let said = shell(&scratch, &block(password, 0));
    let mut admin = pando.connect();
    assert!(admin.bind("cn=admin", said.trim_end()).unwrap().is_success());
    // `du` exits with 1 if a file of the redo log disappears while it runs.
    let sizes = format!("{} || [ $? = 1 ]", block(full, 0).trim_end());
    assert!(shell(&scratch, &sizes).contains("data.mdb"));

    command(&["backup", "make", &backup], Some(&Pando::data(&scratch))).expect_code(0);
    replace(&mut admin, "cn=config", "pandoKeepDeletedSeconds", &["3600"]);
    let identity =
        |admin: &mut Connection| admin.entry(SERVICES, &["entryUUID"]).unwrap().unwrap().text("entryUUID");
    let before = identity(&mut admin);
    let count = delete_services(&mut admin);
    assert!(count > 1);
    // The superior is deleted last and alone, so this command restores only the superior. The entries below it are
    // restored afterwards.
    shell(&scratch, &block(deleted, 0));
    assert!(admin.entry(SERVICES, &["1.1"]).unwrap().is_some());
    delete_services(&mut admin);
    shell(&scratch, &block(deleted, 1));
    assert_eq!(services(&mut admin).len(), count);
    assert_eq!(identity(&mut admin), before);

    let said = shell(&scratch, &block(slow, 0));
    assert!(said.contains("description"), "{said}");
    let list = command(&["index", "list"], Some(&Pando::data(&scratch))).expect_code(0).stdout;
    assert!(list.lines().any(|line| line.starts_with("description") && line.contains("substring")), "{list}");
    shell(&scratch, &block(none, 0));
    assert!(scratch.join("pando-support.tar").exists());
    assert!(pando.stop().success());
}

/// Replacement for the service manager of the package's unit: `start` runs the unit's command as the unit's user, until
/// `stop`.
const SYSTEMCTL: &str = r#"
systemctl() {
    test "$2" = pando
    case $1 in
    stop) pkill -x pando && pidwait -x pando || ! pgrep -x pando ;;
    start)
        test "$(stat -c %U:%a /var/lib/pando)" = pando:711
        exec setpriv --reuid=pando --regid=pando --clear-groups --inh-caps=+net_bind_service \
            --ambient-caps=+net_bind_service $(sed -n 's/^ExecStart=//p' pando.service)
    esac
}
"#;

/// The new machine is the same host without the data folder, in the state after the package's installation.
#[test]
pub(crate) fn a_new_machine_serves_the_data_of_a_lost_one() {
    if was_run_as_root(module_path!(), "a_new_machine_serves_the_data_of_a_lost_one") {
        return;
    }
    let scratch = Scratch::new("runbook-lost");
    let host = Host::new(&scratch, &["directory.example.com"]);
    let packaging = repository().join("packaging");
    let packaged = |name: &str| std::fs::read_to_string(packaging.join(name)).unwrap();
    let systemctl = |action: &str| format!("{SYSTEMCTL}{action}");
    host.write("pando.service", &packaged("systemd/pando.service"));
    host.serve(SERVE_SAMPLE);
    host.run("pando backup make --data /var/lib/pando /var/backups/pando");
    host.stop();
    host.run("rm -r /var/lib/pando");
    let node = packaged("debian/node.toml");
    host.write("node.toml", &node);
    host.run("cp node.toml /etc/pando/node.toml; install -d -m 711 -o pando -g pando /var/lib/pando");
    host.serve(&systemctl("systemctl start pando"));
    host.run("pando search --data /var/lib/pando --base '' --scope base | grep -c dc=example || true")
        .expect_output("0\n");
    // Add the backup's folder to the node file. The section "The machine is lost" requires this.
    let folder = "#[backup]\n#folder";
    assert!(node.contains(folder));
    host.write("node.toml", &node.replace(folder, "[backup]\nfolder"));
    host.run("cp node.toml /etc/pando/node.toml");
    let section = Page::read("how-to/runbook.md", &[]).section("The machine is lost");
    let [commands] = section.blocks.as_slice() else { panic!("other blocks") };
    host.serve(&systemctl(commands));
    host.run("pando search --data /var/lib/pando '(uid=ahuber)' cn").expect_output("cn: Ana Huber");
    // The server adds to the backup, beginning with all entries.
    let is_continued = || {
        let said = host.run("pando backup list --json /var/backups/pando").stdout;
        (said.matches("\"to_position\"").count() > 1).then_some(())
    };
    until("the backup goes on", is_continued);
    host.run(&systemctl("systemctl stop pando"));
}

#[test]
pub(crate) fn the_page_about_declared_entries_is_true() {
    let scratch = Scratch::new("declare-page");
    let data = scratch.join("data").display().to_string();
    let page = Page::read("how-to/declare.md", &[("/var/lib/pando", &data)]);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let unit = [("objectClass", "organizationalUnit"), ("ou", "apps")];
    add(&mut admin, "ou=apps,dc=example,dc=com", &unit);
    let section = page.section("Plan and apply");
    let [commands, file] = section.blocks.as_slice() else { panic!("other blocks") };
    std::fs::create_dir(scratch.join("secrets")).unwrap();
    scratch.write("secrets/wiki", "let the wiki in\n");
    scratch.write("applications.toml", file);
    let said = shell(&scratch, commands);
    assert!(said.contains("2 to add") && said.contains("2 added"), "{said}");
    let wiki = "uid=wiki,ou=apps,dc=example,dc=com";
    assert!(pando.connect().bind(wiki, "let the wiki in").unwrap().is_success());
    let members = admin.entry("cn=wiki-users,ou=groups,dc=example,dc=com", &["member"]).unwrap().unwrap();
    assert_eq!(members.texts("member"), [person_dn("anna"), wiki.to_owned()]);
}
