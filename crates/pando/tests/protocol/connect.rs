//! The commands and programs in each section of docs/how-to/connect.md, run as written, against a server with the
//! sample organisation. `./dev test clients` runs all of them; other runs leave out those that take long or need large
//! downloads.

use crate::sssd::Sssd;

use std::collections::BTreeSet;
use std::path::Path;

use ldap::Scope;
use test_support::clients::{Run, repository, run};
use test_support::page::{Page, Section};
use test_support::pando::{Start, program};
use test_support::root::was_run_as_root;
use test_support::{Pando, SUFFIX, Scratch};

/// Headings of sections, and the tests that run them.
const SECTIONS: [(&str, fn()); 8] = [
    ("OpenLDAP's command line tools", openldap_s_command_line_tools),
    ("Without a password, on this machine", without_a_password_on_this_machine),
    ("Python", python),
    ("Java", java),
    ("Apache Directory Studio", apache_directory_studio),
    ("SSSD", sssd),
    ("Keycloak", keycloak),
    ("Your own client", your_own_client),
];

/// DN of the administrator on the page.
const ADMIN: &str = "cn=admin";

/// Password of the administrator. It needs no quotes in a shell.
const PASSWORD: &str = "s3cret-of-the-administrator";

/// Every section has a test, because otherwise mistakes in the section would not be noticed.
#[test]
fn every_section_has_a_test() {
    let page = Page::read("how-to/connect.md", &[]);
    assert_eq!(page.headings(), SECTIONS.map(|(heading, _)| heading));
}

/// Starts a server with the sample. Returns the server and the section with this heading. In the section, the names and
/// addresses of the server replace those of the examples.
fn start_with_section(name: &str, heading: &str) -> (Scratch, Pando, Section) {
    let scratch = Scratch::new(name);
    let names = ["--suffix", SUFFIX, "--admin-dn", ADMIN];
    let start = Start::bare(&scratch, "data").arguments(&names).environment("PANDO_ADMIN_PASSWORD", PASSWORD);
    let pando = start.arguments(&["--sample", "--listen", "ldaps://127.0.0.1:0"]).ready();
    let (_, secure) = pando.ready_line.split_once("ldaps://").unwrap();
    let secure = secure.split_whitespace().next().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let plain = pando.address().port().to_string();
    let authority = Pando::data(&scratch).join("tls/authority.pem").display().to_string();
    let socket = Pando::data(&scratch).join("pando.sock").display().to_string().replace('/', "%2F");
    let in_scratch = |name: &str| scratch.join(name).display().to_string();
    let replaced = [
        ("localhost:1389", format!("localhost:{plain}")),
        ("localhost:1636", format!("localhost:{secure}")),
        ("\"localhost\", 1636", format!("\"localhost\", {secure}")),
        ("--port 1389", format!("--port {plain}")),
        ("SECRET", PASSWORD.to_owned()),
        ("/etc/ssl/pando.pem", authority),
        ("%2Fvar%2Flib%2Fpando%2Fpando.sock", socket),
        ("/var/lib/pando", Pando::data(&scratch).display().to_string()),
        ("pando.p12", in_scratch("pando.p12")),
        (".dev/unboundid", format!("{}/.dev/unboundid", repository().display())),
    ];
    let replaced: Vec<(&str, &str)> = replaced.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let section = Page::read("how-to/connect.md", &replaced).section(heading);
    (scratch, pando, section)
}

fn administrator(pando: &Pando) -> client::Connection {
    let mut connection = pando.connect();
    assert!(connection.bind(ADMIN, PASSWORD).unwrap().is_success());
    connection
}

/// Runs commands in a shell, as a reader who copies them would. Stops at the first command that fails.
fn shell(commands: &str) -> Run {
    let arguments = ["-u", "LDAPNOINIT", "bash", "-euo", "pipefail", "-c", commands];
    run("env", &arguments, "").expect_code(0)
}

#[test]
fn openldap_s_command_line_tools() {
    let (_scratch, pando, section) = start_with_section("connect-openldap", "OpenLDAP's command line tools");
    let [commands] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    let said = shell(commands).expect_output("dn:cn=admin").expect_output("cn: Ana Huber");
    said.expect_output("memberOf: cn=all-staff,ou=groups,dc=example,dc=com");
    let ahuber = format!("uid=ahuber,ou=people,{SUFFIX}");
    let changed = administrator(&pando).entry(&ahuber, &["title"]).unwrap().unwrap();
    assert_eq!(changed.text("title").as_deref(), Some("Head of Trees"));
}

#[test]
fn without_a_password_on_this_machine() {
    let (_scratch, _pando, section) =
        start_with_section("connect-socket", "Without a password, on this machine");
    let [commands] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    shell(commands).expect_output("cn: Ana Huber");
}

#[test]
fn python() {
    let (_scratch, pando, section) = start_with_section("connect-python", "Python");
    let [with_ldap3, with_python_ldap] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    let python = |script: &str| run("/usr/bin/python3", &["-c", script], "").expect_code(0);
    python(with_ldap3).expect_output("ahuber@example.com").expect_output("cn=all-staff,ou=groups");
    // Uses ldap3 with StartTLS, as the text of the page describes.
    let (_, rest) = with_ldap3.split_once("ldaps://localhost:").unwrap();
    let secure = rest.split('"').next().unwrap();
    let plain = pando.address().port().to_string();
    let start_tls = with_ldap3
        .replace(&format!("ldaps://localhost:{secure}"), &format!("ldap://localhost:{plain}"))
        .replace("auto_bind=True", "auto_bind=ldap3.AUTO_BIND_TLS_BEFORE_BIND");
    assert_ne!(&start_tls, with_ldap3);
    python(&start_tls).expect_output("ahuber@example.com");
    let unverified = "import ldap\nldap.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)\n";
    python(&format!("{unverified}{with_python_ldap}")).expect_output("ahuber@example.com");
}

/// Compiles and runs a class whose `main` is `body`.
fn run_java(scratch: &Scratch, class_path: &str, imports: &[&str], body: &str) -> Run {
    let imports: String = imports.iter().map(|name| format!("import {name};\n")).collect();
    let program = format!(
        "{imports}public class Section {{\n    public static void main(String[] words) throws Exception {{\n\
         {body}\n    }}\n}}\n"
    );
    let file = scratch.write("Section.java", program);
    let store = scratch.join("pando.p12").display().to_string();
    let trust = [
        format!("-Djavax.net.ssl.trustStore={store}"),
        "-Djavax.net.ssl.trustStorePassword=changeit".to_owned(),
    ];
    let arguments = [&trust[0], &trust[1], "-cp", class_path, file.to_str().unwrap()];
    run("java", &arguments, "").expect_code(0)
}

fn sdk() -> String {
    repository().join(".dev/unboundid-ldapsdk.jar").display().to_string()
}

/// Runs the Java programs of the section. Needs a Java compiler.
#[test]
#[ignore = "./dev test clients"]
fn java() {
    let (scratch, _pando, section) = start_with_section("connect-java", "Java");
    let [keytool, jndi, unboundid, tools] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    shell(keytool);
    let imports = ["java.util.*", "javax.naming.*", "javax.naming.directory.*"];
    run_java(&scratch, ".", &imports, jndi).expect_output("mail: ahuber@example.com");
    let imports = ["java.io.File", "com.unboundid.ldap.sdk.*", "com.unboundid.util.ssl.*"];
    run_java(&scratch, &sdk(), &imports, unboundid).expect_output("ahuber@example.com");
    shell(tools).expect_output("uid: ahuber");
}

/// Apache Directory Studio is a desktop program. Its library, the Apache LDAP API, sends the same requests as the
/// program: StartTLS with the authority, a simple bind, the root DSE, the whole schema, and children with their
/// operational attributes.
#[test]
#[ignore = "./dev test clients"]
fn apache_directory_studio() {
    let (scratch, pando, section) = start_with_section("connect-studio", "Apache Directory Studio");
    let setting = |name: &str| {
        let found = section.rows.iter().find(|(setting, _)| setting == name);
        &found.unwrap_or_else(|| panic!("no setting {name}")).1
    };
    assert_eq!(section.rows.len(), 6);
    assert_eq!(setting("Encryption method"), "Use StartTLS extension");
    assert_eq!(setting("Authentication method"), "Simple Authentication");
    // In the table of the page, the port is separate from the host.
    assert_eq!((setting("Hostname").as_str(), setting("Port").as_str()), ("localhost", "1389"));
    let authority = Pando::data(&scratch).join("tls/authority.pem").display().to_string();
    let program = repository().join("crates/pando/tests/clients/Studio.java").display().to_string();
    let jars = repository().join(".dev/studio/lib/*").display().to_string();
    let port = pando.address().port().to_string();
    let (user, password) = (setting("Bind DN or user"), setting("Bind password"));
    let words = ["-cp", &jars, &program, &port, user, password, &authority];
    run("java", &words, "").expect_code(0).expect_output("everything as expected");
}

/// Runs the commands of the section, compares the groups of the sample with the directory, and tests logins, a new
/// password and sudo.
#[test]
fn sssd() {
    if was_run_as_root(module_path!(), "sssd") {
        return;
    }
    let (scratch, pando, section) = start_with_section("connect-sssd", "SSSD");
    let [conf, commands, schema, rules] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    let programs = Path::new(program()).parent().unwrap().display();
    shell(&format!("PATH={programs}:$PATH; cd {}; {schema}", scratch.path().display()));
    shell(rules);
    let sssd = Sssd::start(&scratch, conf);
    let said = sssd.run("sh", &["-ec", commands], "").expect_code(0);
    let said = said.expect_output("ahuber:*:10002:5000:Ana Huber:/home/ahuber:/bin/bash\n");
    said.expect_output("uid=10002(ahuber) gid=5000(executive-office)").expect_output("6000(all-staff)");

    let mut sizes = Vec::new();
    for (name, members) in posix_groups(&pando) {
        assert_eq!(sssd.members(&name), members, "{name}");
        sizes.push((name, members.len()));
    }
    assert!(sizes.contains(&("all-staff".to_owned(), 1_000)), "{sizes:?}");
    assert!(sizes.len() == 17 && sizes.iter().all(|(_, size)| *size > 0), "{sizes:?}");

    sssd.log_in("ahuber", "password").expect_code(0);
    sssd.log_in("ahuber", "wrong").expect_code(1).expect_error("Authentication failure");
    sssd.log_in("nobody-has-this-name", "password").expect_code(1);
    let ahuber = [10_002, 5_000];
    let typed = "password\nAnother-Secret-7\nAnother-Secret-7\n";
    sssd.run_as(ahuber, &["pamtester", "pando", "ahuber", "chauthtok"], typed).expect_code(0);
    sssd.log_in("ahuber", "password").expect_code(1);
    sssd.log_in("ahuber", "Another-Secret-7").expect_code(0);
    let dn = format!("uid=ahuber,ou=people,{SUFFIX}");
    assert!(pando.connect().bind(&dn, "Another-Secret-7").unwrap().is_success());

    // The rule permits the group of ahuber to run one command. Other commands are denied, and so are users of other
    // groups.
    sssd.run_as(ahuber, &["sudo", "-n", "/usr/bin/id", "-u"], "").expect_code(0).expect_output("0\n");
    sssd.run_as(ahuber, &["sudo", "-n", "/usr/bin/whoami"], "").expect_code(1);
    let other = sssd.run("id", &["-u", "vbernard"], "").expect_code(0).stdout.trim().parse().unwrap();
    sssd.run_as([other, 5_006], &["sudo", "-n", "/usr/bin/id", "-u"], "").expect_code(1);
}

/// Returns the POSIX groups of a directory, each with the names of its direct and nested members.
fn posix_groups(pando: &Pando) -> Vec<(String, BTreeSet<String>)> {
    let mut administrator = administrator(pando);
    let filter = "(|(objectClass=groupOfNames)(objectClass=posixAccount))";
    let found = administrator.search_managing(SUFFIX, Scope::WholeSubtree, filter, &[]).unwrap();
    let entries: std::collections::HashMap<String, &client::Entry> =
        found.entries.iter().map(|entry| (entry.dn.clone(), entry)).collect();
    let mut groups = Vec::new();
    for entry in &found.entries {
        let classes = entry.texts("objectClass");
        if !classes.contains(&"posixGroup".to_owned()) {
            continue;
        }
        let (mut names, mut seen, mut left) = (BTreeSet::new(), BTreeSet::new(), entry.texts("member"));
        while let Some(dn) = left.pop() {
            let Some(member) = entries.get(&dn).filter(|_| seen.insert(dn.clone())) else { continue };
            match member.text("uid") {
                Some(uid) => drop(names.insert(uid)),
                None => left.extend(member.texts("member")),
            }
        }
        groups.push((entry.text("cn").unwrap(), names));
    }
    groups
}

/// Keycloak itself, with the people and groups of the sample.
#[test]
#[ignore = "./dev test clients"]
fn keycloak() {
    let (scratch, _pando, section) = start_with_section("connect-keycloak", "Keycloak");
    let rows: String = section.rows.iter().map(|(setting, value)| format!("{setting}\t{value}\n")).collect();
    let script = repository().join("crates/pando/tests/clients/with_keycloak.py");
    let product = repository().join(".dev/keycloak");
    let authority = Pando::data(&scratch).join("tls/authority.pem");
    let arguments: [&Path; 4] = [&script, &product, &authority, scratch.path()];
    run("/usr/bin/python3", &arguments, &rows).expect_code(0).expect_output("everything as expected");
}

#[test]
fn your_own_client() {
    let (_scratch, _pando, section) = start_with_section("connect-own", "Your own client");
    let [commands] = &section.blocks[..] else { panic!("{:?}", section.blocks) };
    let said = shell(commands).expect_output("namingContexts: dc=example,dc=com");
    said.expect_output("supportedControl: ").expect_output("supportedExtension: ");
}
