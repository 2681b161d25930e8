//! Commands of the pages about the administration of a server.

use test_support::Scratch;
use test_support::clients::repository;
use test_support::cluster::until;
use test_support::page::Blocks;
use test_support::root::was_run_as_root;

use crate::all_used;
use crate::data::{SERVE_SAMPLE, configure_openldap, people};
use crate::host::Host;

/// Adds a user with the password `secret`.
fn add_user_with_password(host: &Host, uid: &str) {
    host.run(&format!("pando user add {uid} --full-name 'A User'"));
    let change =
        format!("dn: uid={uid},ou=people,dc=example,dc=com\nchangetype: modify\nreplace: userPassword\n");
    host.run(&format!("pando change <<'END'\n{change}userPassword: secret\nEND"));
}

/// Waits until the audit trail contains an event of the operation, because events are written some time after the
/// answer.
fn wait_for_event(host: &Host, trail: &str, operation: &str) {
    let has_event = || {
        let said = host.run(&format!("pando audit {trail} --operation {operation}")).stdout;
        said.contains(operation).then_some(())
    };
    until("the event", has_event);
}

#[test]
pub(crate) fn configure() {
    if was_run_as_root(module_path!(), "configure") {
        return;
    }
    let (scratch, page) = (Scratch::new("docs-configure"), Blocks::of("how-to/configure.md"));
    let host = Host::new(&scratch, &[]);
    host.write("node.toml", page.block("data ="));
    host.run("cp node.toml /etc/pando/node.toml");
    host.write("first.toml", "suffixes = [\"dc=example,dc=com\"]\n");
    host.run("pando apply --data /var/lib/pando first.toml");
    host.serve("pando serve --node /etc/pando/node.toml");
    host.run(page.block("pando export"));
    host.run(&format!("pando change <<'END'\n{}END", page.block("dn: cn=title")));
    // Plan and apply the settings of the page, with its schema.
    host.write("settings.toml", page.block("suffixes ="));
    host.write("badges.schema", page.block("attributetype"));
    host.run(
        "pando plan --data /var/lib/pando settings.toml; pando apply --data /var/lib/pando settings.toml",
    );
    host.stop();
    host.run("chown -R pando: /var/lib/pando");
    host.serve(page.block("pando serve"));
    all_used(&page, "how-to/configure.md");
}

/// Commands that create an authority, and a client certificate for the entry of a user.
const CLIENT_CERTIFICATE: &str =
    "new='openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30'
    $new -subj /CN=clients -keyout clients.key -out client-authorities.pem 2>&1
    $new -subj /DC=com/DC=example/OU=people/UID=anna -CA client-authorities.pem -CAkey clients.key \\
        -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth \\
        -keyout anna.key -out anna.pem 2>&1";

#[test]
pub(crate) fn tls() {
    let (scratch, page) = (Scratch::new("docs-tls"), Blocks::of("how-to/tls.md"));
    let host = Host::new(&scratch, &["directory.example.com"]);
    let serve = page.block("pando serve").trim_end();
    let more = "--listen ldap://:1389 --suffix dc=example,dc=com --sample";
    let start = format!("PANDO_ADMIN_PASSWORD=secret {serve} {more}");
    host.serve(&start);
    let both = page.block("LDAPTLS_CACERT");
    let (search, export) = both.split_once("\npando").unwrap();
    host.run_typing(search, "secret\n").expect_code(0).expect_output("cn: Ana Huber");
    host.run_typing(&format!("pando{export}"), "secret\n").expect_code(0).expect_output("cn: Ana Huber");
    host.stop();
    host.run(CLIENT_CERTIFICATE);
    host.write("node.toml", "[tls]\nclient_authorities = \"client-authorities.pem\"\n");
    host.serve(&format!("{start} --node node.toml"));
    host.run("pando user add anna --full-name 'Anna Berg'");
    let trusting = "export LDAPTLS_CACERT=/var/lib/pando/tls/authority.pem";
    let said = host.run(&format!("{trusting}\n{}", page.block("LDAPTLS_CERT=")));
    said.expect_output("dn:uid=anna,ou=people,dc=example,dc=com");
    all_used(&page, "how-to/tls.md");
}

/// Python program that receives the first message of a syslog client, and ends.
const RECEIVER: &str = "import socket
server = socket.create_server(('127.0.0.1', 514))
print('listens', flush=True)
client = server.accept()[0]
print(client.recv(1000), flush=True)
";

#[test]
pub(crate) fn audit() {
    let (scratch, page) = (Scratch::new("docs-audit"), Blocks::of("how-to/audit.md"));
    let host = Host::new(&scratch, &["ldap.example.com", "log.example.com"]);
    let own = "data = \"/var/lib/pando\"\nlisten = [\"ldap://127.0.0.1:1389\", \"ldaps://127.0.0.1\"]\n";
    host.write("node.toml", &format!("{own}{}", page.block("[audit]")));
    host.serve("pando serve --node node.toml --sample --suffix dc=example,dc=com");
    let commands = page.block("pando audit --node");
    let (now, followed) = commands.trim_end().rsplit_once('\n').unwrap();
    host.run(
        "ldapsearch -x -H ldap://127.0.0.1:1389 -D uid=ahuber,ou=people,dc=example,dc=com -w wrong || true",
    );
    wait_for_event(&host, "--node node.toml", "bind");
    host.run(now).expect_output("bind");
    // The command follows the trail until its syslog server ends.
    host.write("log.py", RECEIVER);
    host.run(&format!(
        "python3 log.py > received &\nuntil grep -q listens received; do :; done\n{followed} 2> errors &\n\
         while kill -0 $! 2> errors; do ldapwhoami -x -H ldap://127.0.0.1:1389 -D cn=a -w b 2> errors || :; done\n\
         grep -q pando-audit received"
    ));
    add_user_with_password(&host, "vera");
    host.write("vera.secret", "secret\n");
    host.run("cp /var/lib/pando/tls/authority.pem .; pando export --settings-only --data /var/lib/pando -o all.toml");
    let rules = "access_rules = [\"a: allow read to authenticated\", \"b: allow use of read-audit to authenticated\"]";
    host.run(&format!(
        "{{ echo '{rules}'; grep -v '^access_rules' all.toml; }} > new.toml\n\
         pando apply --data /var/lib/pando new.toml"
    ));
    host.run(page.block("pando audit --url")).expect_output("invalidCredentials");
    let chain = page.block("pando audit verify").lines().next().unwrap();
    host.run(chain);
    all_used(&page, "how-to/audit.md");
}

#[test]
pub(crate) fn password_policies() {
    let (scratch, page) = (Scratch::new("docs-policies"), Blocks::of("how-to/password-policies.md"));
    let host = Host::new(&scratch, &[]);
    host.serve(SERVE_SAMPLE);
    host.run(
        "printf 'dn: ou=policies,dc=example,dc=com\\nobjectClass: organizationalUnit\\n' | pando change",
    );
    host.run(page.block("pando change"));
    host.run("pando user add --data /var/lib/pando anna --full-name 'Anna Berg'");
    host.run(page.block("pando account show")).expect_output("anna");
    all_used(&page, "how-to/password-policies.md");
}

#[test]
pub(crate) fn sasl() {
    let (scratch, page) = (Scratch::new("docs-sasl"), Blocks::of("how-to/sasl.md"));
    let host = Host::new(&scratch, &[]);
    host.serve(&SERVE_SAMPLE.replace(":1389", ":389"));
    host.run("pando user add anna --full-name 'Anna Berg' --set mail=anna@example.com");
    let said = host.run_typing(page.block("ldapsearch"), "secret\n").expect_code(0);
    said.expect_output("mail: anna@example.com");
    all_used(&page, "how-to/sasl.md");
}

/// Commands that create the reader's realm, with the user of the page.
const REALM: &str = "
rm -f /etc/krb5.conf
cat > /etc/krb5.conf <<'END'
[libdefaults]
 default_realm = EXAMPLE.COM
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 EXAMPLE.COM = {
  kdc = 127.0.0.1:88
 }
[domain_realm]
 example.com = EXAMPLE.COM
END
cat > kdc.conf <<END
[kdcdefaults]
 kdc_listen = 127.0.0.1:88
 kdc_tcp_listen = 127.0.0.1:88
[realms]
 EXAMPLE.COM = {
  database_name = $HOME/principal
  key_stash_file = $HOME/stash
  acl_file = $HOME/acl
 }
END
kdb5_util create -s -P 'of the whole realm'
kadmin.local -q 'addprinc -pw secret anna'
krb5kdc
";

#[test]
pub(crate) fn kerberos() {
    let (scratch, page) = (Scratch::new("docs-kerberos"), Blocks::of("how-to/kerberos.md"));
    let host = Host::new(&scratch, &["directory.example.com"]);
    let given = "export PATH=$PATH:/usr/sbin KRB5_KDC_PROFILE=$HOME/kdc.conf KRB5CCNAME=FILE:$HOME/tickets";
    host.run(&format!("{given}\n{REALM}"));
    // On the machine of the realm, its administrator needs no password.
    let create = page.block("kadmin").replace("kadmin", "kadmin.local");
    host.run(&format!("{given}\n{create}"));
    let suffix = "suffixes = [\"dc=example,dc=com\"]";
    let mechanisms = "sasl_mechanisms = [\"EXTERNAL\", \"GSSAPI\", \"GSS-SPNEGO\", \"PLAIN\"]";
    let table = "keytab = \"/etc/pando/ldap.keytab\"";
    let text = std::fs::read_to_string(repository().join("docs/how-to/kerberos.md")).unwrap();
    // Settings in the text may be divided between lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!([mechanisms, table].iter().all(|setting| text.contains(setting)), "{text}");
    host.write("settings.toml", &format!("{suffix}\n{mechanisms}\n"));
    host.write("node.toml", &format!("[kerberos]\n{table}\n"));
    host.serve(&format!("{} --node node.toml", SERVE_SAMPLE.replace(":1389", ":389")));
    host.run("pando apply --data /var/lib/pando settings.toml");
    host.run("pando user add anna --full-name 'Anna Berg'");
    let commands = format!("{given}\n{}", page.block("kinit"));
    let said = host.run_typing(&commands, "secret\n").expect_code(0);
    said.expect_output("dn:uid=anna,ou=people,dc=example,dc=com");
    all_used(&page, "how-to/kerberos.md");
}

/// Shell function that runs the steps of the image without a container: its entry point, environment variables and node
/// file.
const PODMAN: &str = "
podman() {
    test $1 = run || return 0
    shift
    while test $1 != pando; do
        case $1 in
        -e) export $2; shift ;;
        --name | --ulimit | -p | -v) shift ;;
        esac
        shift
    done
    shift
    test $# -gt 0 || set -- pando serve
    export PANDO_DATA=/var/lib/pando PANDO_NODE=/etc/pando/node.toml PANDO_SETTINGS=/etc/pando/settings.toml
    sh start-server.sh \"$@\"
}
";

#[test]
pub(crate) fn container() {
    let (scratch, page) = (Scratch::new("docs-container"), Blocks::of("how-to/container.md"));
    let host = Host::new(&scratch, &[]);
    let packaged = |name: &str| std::fs::read_to_string(repository().join("packaging/container").join(name));
    host.write("start-server.sh", &packaged("start-server.sh").unwrap());
    host.write("node.toml", &packaged("node.toml").unwrap());
    host.run("cp node.toml /etc/pando/node.toml");
    host.write("export.ldif", &people("dc=example,dc=org"));
    let load = page.block("podman run --rm");
    host.run(&format!("{PODMAN}{load}"));
    let (start, search) = page.block("podman build").split_once("LDAPTLS_REQCERT").unwrap();
    host.serve(&format!("{PODMAN}{}", start.replace("PASSWORD=...", "PASSWORD=secret")));
    let said = host.run_typing(&format!("LDAPTLS_REQCERT{search}"), "secret\n").expect_code(0);
    said.expect_output("cn: Anna Berg");
    all_used(&page, "how-to/container.md");
}

#[test]
pub(crate) fn scim() {
    let (scratch, page) = (Scratch::new("docs-scim"), Blocks::of("how-to/scim.md"));
    let host = Host::new(&scratch, &["ldap.example.com"]);
    let (table, curl) = page.block("[console]").split_once("curl").unwrap();
    host.write("node.toml", table);
    host.serve(&format!("{SERVE_SAMPLE} --node node.toml"));
    host.run("pando user add anna --full-name 'Anna Berg'");
    add_user_with_password(&host, "idm");
    let trusting = "export CURL_CA_BUNDLE=/var/lib/pando/tls/authority.pem";
    let said = host.run_typing(&format!("{trusting}\ncurl{curl}"), "secret\n").expect_code(0);
    said.expect_output("\"userName\":\"anna\"");
    all_used(&page, "how-to/scim.md");
}

#[test]
pub(crate) fn console() {
    let (scratch, page) = (Scratch::new("docs-console"), Blocks::of("how-to/console.md"));
    let host = Host::new(&scratch, &[]);
    host.write("node.toml", page.block("[console]"));
    host.serve(&format!("{SERVE_SAMPLE} --node node.toml"));
    add_user_with_password(&host, "anna");
    host.write("file", "secret");
    let given = "export CURL_CA_BUNDLE=/var/lib/pando/tls/authority.pem URL=https://localhost:8443";
    host.run(&format!("{given}\n{}", page.block("curl"))).expect_output("\"token\"");
    all_used(&page, "how-to/console.md");
}

#[test]
pub(crate) fn access_rules() {
    let (scratch, page) = (Scratch::new("docs-rules"), Blocks::of("how-to/access-rules.md"));
    let host = Host::new(&scratch, &[]);
    host.write(
        "node.toml",
        "data = \"/var/lib/pando\"\nlisten = [\"ldap://127.0.0.1\"]\n[audit]\nfolder = \"/var/lib/trail\"\n",
    );
    let suffix = "suffixes = [\"dc=example,dc=com\"]\n";
    host.write("first.toml", suffix);
    host.run("pando apply --data /var/lib/pando first.toml");
    host.serve("PANDO_ADMIN_PASSWORD=secret pando serve --node node.toml");
    host.run(
        "printf 'dn: dc=example,dc=com\nobjectClass: domain\n\ndn: ou=people,dc=example,dc=com\n\
              objectClass: organizationalUnit\n' | pando change",
    );
    host.run("pando user add anna --full-name 'Anna Berg'; pando user add bert --full-name 'Bert Holm'");
    host.write("settings.toml", &format!("{suffix}{}", page.block("access_rules")));
    host.run("pando plan --data /var/lib/pando settings.toml").expect_output("joiners");
    host.run("ldapsearch -x -D cn=admin -w secret -b dc=example,dc=com > found");
    wait_for_event(&host, "--folder /var/lib/trail", "search");
    host.run(page.block("$ pando access rehearse")).expect_output("operations from");
    // The rules are in force now, so the command must exit with the code of a denial.
    host.run("pando apply --data /var/lib/pando settings.toml");
    let said = host.run_any(page.block("$ pando access explain")).expect_code(8);
    said.expect_output("may not read homePhone")
        .expect_output("phones: deny read of homePhone, employeeNumber");
    let said = host.run_typing(page.block("ldapsearch -x -D cn=admin"), "secret\n").expect_code(0);
    said.expect_output("entryLevelRights: ");
    configure_openldap(&host, "dc=example,dc=com");
    // The exit code of the first line means that rules in cn=config are left out. The last line is for another product.
    for (line, code) in page.block("slapcat -n 0").lines().zip([6, 0]) {
        host.run_any(line).expect_code(code).expect_output("allow read");
    }
    all_used(&page, "how-to/access-rules.md");
}

#[test]
pub(crate) fn tutorial() {
    let (scratch, page) = (Scratch::new("docs-tutorial"), Blocks::of("tutorial/start.md"));
    let host = Host::new(&scratch, &[]);
    let build = page.block("cargo build");
    let [_build, path, init, serve] = build.lines().collect::<Vec<_>>()[..] else { panic!("{build}") };
    host.run("mkdir -p target/release; ln -s \"$(command -v pando)\" target/release");
    // The defaults answer the questions.
    host.run(&format!("PATH=/usr/bin:/bin\n{path}\n{init} --yes"));
    host.serve(&format!("{path}\n{serve}"));
    host.stop();
    host.serve(page.block("pando serve --data"));
    host.run(page.block("pando change"));
    let typed = "a password in clear is stored as an Argon2id hash\n";
    host.run_typing(page.block("pando search"), typed).expect_code(0).expect_output("cn: Anna Berg");
    all_used(&page, "tutorial/start.md");
}

#[test]
pub(crate) fn install() {
    if was_run_as_root(module_path!(), "install") {
        return;
    }
    let (scratch, page) = (Scratch::new("docs-install"), Blocks::of("how-to/install.md"));
    let host = Host::new(&scratch, &[]);
    host.write("people.ldif", &people("dc=example,dc=org"));
    host.run("cp people.ldif export.ldif; chmod 644 export.ldif");
    let lines: Vec<&str> = page.block("ldapadd").lines().collect();
    let import = lines.iter().find(|line| line.starts_with("runuser")).unwrap();
    // The package creates this folder.
    host.run("mkdir /var/lib/pando; chown pando: /var/lib/pando");
    host.run(import);
    host.run("rm -r /var/lib/pando");
    host.run(page.block("echo 'suffixes"));
    host.serve("pando serve --data /var/lib/pando --listen ldap://127.0.0.1:389");
    host.run(lines[0]).expect_output("adding new entry");
    all_used(&page, "how-to/install.md");
}
