//! Commands of the pages about data: loading, tools, copies, indexes.

use test_support::cluster::until;
use test_support::page::Blocks;
use test_support::{SUFFIX, Scratch};

use crate::all_used;
use crate::host::Host;

/// Command that serves the sample organisation at the address that the pages use for a trial.
pub(crate) const SERVE_SAMPLE: &str = "PANDO_ADMIN_PASSWORD=secret pando serve --data /var/lib/pando --sample \
     --suffix dc=example,dc=com --listen ldap://127.0.0.1:1389";

/// Returns LDIF of a tree with two people below a suffix.
pub(crate) fn people(suffix: &str) -> String {
    format!(
        "dn: {suffix}\nobjectClass: domain\ndc: example\n\ndn: ou=people,{suffix}\nobjectClass: organizationalUnit\n\
         ou: people\n\ndn: uid=anna,ou=people,{suffix}\nobjectClass: inetOrgPerson\nuid: anna\ncn: Anna Berg\n\
         sn: Berg\n\ndn: uid=bert,ou=people,{suffix}\nobjectClass: inetOrgPerson\nuid: bert\ncn: Bert Holm\n\
         sn: Holm\n"
    )
}

fn groups(suffix: &str) -> String {
    format!(
        "dn: ou=groups,{suffix}\nobjectClass: organizationalUnit\nou: groups\n\n\
         dn: cn=staff,ou=groups,{suffix}\nobjectClass: groupOfNames\ncn: staff\n\
         member: uid=anna,ou=people,{suffix}\n"
    )
}

/// Commands that create an authority, and the certificate of the old server.
const CERTIFICATES: &str = "cd /etc/ldap
    new='openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30'
    $new -subj /CN=authority -keyout ca.key -out ca.pem 2>&1
    $new -subj /CN=old.example.com -CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE \\
        -addext subjectAltName=DNS:old.example.com -keyout old.key -out old.pem 2>&1";

/// Creates a database of OpenLDAP on the host, as a package installs it.
pub(crate) fn configure_openldap(host: &Host, suffix: &str) {
    let conf = format!(
        "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
         include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
         moduleload syncprov\n\
         TLSCertificateFile /etc/ldap/old.pem\nTLSCertificateKeyFile /etc/ldap/old.key\n\
         database config\nrootdn cn=config\nrootpw secret\n\
         database mdb\nsuffix {suffix}\nrootdn cn=admin,{suffix}\nrootpw secret\ndirectory /var/lib/ldap\n\
         index uid eq\naccess to attrs=userPassword by self write by * auth\naccess to * by * read\noverlay syncprov\n"
    );
    host.write("slapd.conf", &conf);
    host.write("openldap.ldif", &people(suffix));
    host.run(CERTIFICATES);
    host.run("mkdir /var/lib/ldap /etc/ldap/slapd.d; slapadd -f slapd.conf -n 1 -l openldap.ldif 2>&1");
    host.run("slaptest -f slapd.conf -F /etc/ldap/slapd.d 2>&1");
}

#[test]
pub(crate) fn load() {
    let (scratch, page) = (Scratch::new("docs-load"), Blocks::of("how-to/load.md"));
    let host = Host::new(&scratch, &["old.example.com"]);
    host.write("people.ldif", &people("dc=example,dc=org"));
    host.write("groups.ldif", &groups("dc=example,dc=org"));
    host.run("zstd -q groups.ldif");
    configure_openldap(&host, "dc=example,dc=org");
    // The page shows two alternative ways to load.
    let both = page.block("pando import --data /var/lib/pando --suffix dc=example,dc=org");
    let (files, dump) = both.split_once('\n').unwrap();
    host.run(files);
    let loaded = "pando export --data /var/lib/pando | grep -c ^dn:";
    host.run(loaded).expect_output("6\n");
    host.run("rm -r /var/lib/pando");
    host.run(dump);
    host.run(loaded).expect_output("4\n");

    let scratch = Scratch::new("docs-load-schema");
    let host = Host::new(&scratch, &["old.example.com"]);
    configure_openldap(&host, "dc=example,dc=com");
    host.write("export.ldif", &people("dc=example,dc=com"));
    host.run("slapd -h ldap://old.example.com");
    host.run(page.block("pando import --data /var/lib/pando --suffix dc=example,dc=com --schema-from"));
    host.run(loaded).expect_output("4\n");
    all_used(&page, "how-to/load.md");
}

#[test]
pub(crate) fn backup() {
    let (scratch, page) = (Scratch::new("docs-backup"), Blocks::of("how-to/backup.md"));
    let host = Host::new(&scratch, &[]);
    host.serve(SERVE_SAMPLE);
    host.run("pando backup make --data /var/lib/pando /var/backups/pando");
    let said = host.run(page.block("pando backup list"));
    said.expect_output("1 files are whole");
    // The page contains a fixed moment, and a moment two hours ago. The first moment of a backup is one second after
    // its rows were read.
    let next_second = "$(date -u -d '1 second' +%FT%TZ)";
    let restore = page.block("pando restore").replace("2026-11-25T14:05:00Z", next_second);
    host.run(&restore);
    host.run("test -e /var/lib/pando-new/data.mdb");
    let sales = "ou=Sales,dc=example,dc=com";
    host.run(&format!("printf 'dn: {sales}\nobjectClass: organizationalUnit\n' | pando change"));
    host.run("pando backup make --data /var/lib/pando /var/backups/pando");
    host.run(&format!("printf 'dn: {sales}\nchangetype: delete\n' | pando change"));
    host.run(&page.block("pando backup recover").replace(" --until 2h", ""));
    host.run(&format!("pando search --base {sales} '(objectClass=*)' 1.1")).expect_output(sales);
    all_used(&page, "how-to/backup.md");
}

#[test]
pub(crate) fn generate() {
    let (scratch, page) = (Scratch::new("docs-generate"), Blocks::of("how-to/generate.md"));
    let host = Host::new(&scratch, &[]);
    // Generating a million entries takes too long for a test.
    let commands = page.block("pando generate").replace("1000000", "1000");
    let said = host.run(&commands.replace("/tmp/pando", "\"$HOME\"/generated"));
    said.expect_output("directorymark");
    host.run("zstd -dc oid.ldif.zst | grep -c ^dn:");
    host.write("own.template", page.block("define"));
    host.run("pando generate own.template | grep -c '^dn: uid=user'").expect_output("10000\n");
    all_used(&page, "how-to/generate.md");
}

#[test]
pub(crate) fn twin() {
    let (scratch, page) = (Scratch::new("docs-twin"), Blocks::of("how-to/twin.md"));
    let host = Host::new(&scratch, &["old.example.com"]);
    configure_openldap(&host, "dc=example,dc=com");
    host.run("slapd -h ldap://old.example.com");
    host.run("slapcat 2> errors | pando import --data /var/lib/pando --suffix dc=example,dc=com -");
    host.write("node.toml", "listen = [\"ldap://127.0.0.1:1389\"]\n");
    let (serve, run) = page.block("pando serve").split_once('\n').unwrap();
    host.serve(serve);
    // On this host, the old server already uses the port. The proxy prints its ready line on standard error.
    host.serve(&format!("exec 2>&1\n{}", run.replace("0.0.0.0:389", "0.0.0.0:3890")));
    host.run("ldapwhoami -x -H ldap://127.0.0.1:3890");
    // The exit code depends on whether there are differences.
    let report = host.run_any(page.block("pando twin report"));
    assert!(matches!(report.code, Some(0 | 1)), "{report}");
    let (switch, back) = page.block("pando twin switch").split_once('\n').unwrap();
    host.run(switch);
    host.run(back);
    all_used(&page, "how-to/twin.md");
}

#[test]
pub(crate) fn indexes() {
    let (scratch, page) = (Scratch::new("docs-indexes"), Blocks::of("explanation/indexes.md"));
    let host = Host::new(&scratch, &[]);
    // On the page, DIR stands for the data directory.
    host.run("mkdir -m 700 /var/lib/pando; ln -s /var/lib/pando DIR");
    host.write("people.ldif", &people("dc=example,dc=com"));
    host.run("pando import --data DIR --suffix dc=example,dc=com people.ldif");
    let said = host.run(page.block("pando index list"));
    said.expect_output("givenName");
    let left = host.run("pando index list --data DIR").stdout;
    assert!(left.contains("description") && !left.contains("givenName"), "{left}");
    let said = host.run(page.block("$ pando explain")).stdout;
    for words in ["all of", "examined: ", "returned: ", "missing: ", "microseconds: plan "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    host.serve("pando serve --data DIR --suffix dc=example,dc=com --listen ldap://127.0.0.1:1389");
    host.run(page.block("$ pando index advise"));
    all_used(&page, "explanation/indexes.md");
}

#[test]
pub(crate) fn tools() {
    let (scratch, page) = (Scratch::new("docs-tools"), Blocks::of("reference/tools.md"));
    let host = Host::new(&scratch, &["old.example.com"]);
    host.write("node.toml", "data = \"/var/lib/pando\"\nlisten = [\"ldap://127.0.0.1:1389\"]\n");
    host.run("cp node.toml /etc/pando/node.toml");
    host.serve(SERVE_SAMPLE);
    host.run("pando backup make --data /var/lib/pando /var/backups/pando");
    host.run(page.block("pando backup list --json")).expect_output("\"to_position\"");
    host.run(page.block("pando export"));
    let said = host.run_any(page.block("pando doctor"));
    assert!(said.code == Some(0) || said.code == Some(1), "{said}");
    let support = page.block("pando doctor").lines().nth(1).unwrap();
    host.run(support);
    host.write("changes.ldif", "dn: ou=new,dc=example,dc=com\nobjectClass: organizationalUnit\n");
    host.run(page.block("pando search")).expect_output("ahuber");
    host.run("pando group add --data /var/lib/pando staff");
    host.run(page.block("pando user add")).expect_output("uid=anna,ou=people,dc=example,dc=com");
    host.write("secret", "secret\n");
    host.run("pando export --data /var/lib/pando -o all.ldif");
    host.run("pando import --data old --suffix dc=example,dc=com all.ldif");
    host.serve(&SERVE_SAMPLE.replace("/var/lib/pando --sample", "old").replace(":1389", ":389"));
    host.run(page.block("pando compare"));
    host.stop();
    host.run(page.block("pando verify --data /var/lib/pando --salvage"));
    host.write("example.schema", "attributetype ( 1.3.6.1.4.1.32473.1.1 NAME 'badge' SUP name )\n");
    host.write("people.ldif", &people("dc=example,dc=com"));
    host.run("cp all.ldif today.ldif; cp all.ldif yesterday.ldif; zstd -q all.ldif -o backup.ldif.zst");
    host.run(page.block("pando ldif check"));
    all_used(&page, "reference/tools.md");
}

/// Parts of the configurations of 389 DS and of OpenDJ.
const DSE: &str = "dn: cn=config\nobjectClass: top\nnsslapd-sizelimit: 2000\n\n\
     dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config\nobjectClass: nsBackendInstance\n\
     nsslapd-suffix: dc=example,dc=com\n";
const CONFIG: &str = "dn: cn=config\nobjectClass: ds-cfg-root-config\nds-cfg-size-limit: 1000\n\n\
     dn: ds-cfg-backend-id=userRoot,cn=Backends,cn=config\nobjectClass: ds-cfg-backend\n\
     ds-cfg-base-dn: dc=example,dc=com\nds-cfg-enabled: true\n";

#[test]
pub(crate) fn migrate() {
    let (scratch, page) = (Scratch::new("docs-migrate"), Blocks::of("how-to/migrate.md"));
    let host = Host::new(&scratch, &["old.example.com"]);
    configure_openldap(&host, "dc=example,dc=com");
    let lines: Vec<&str> = page.block("pando migrate --folder").lines().collect();
    host.run("slapd -h 'ldap://old.example.com ldaps://old.example.com'");
    host.run("cp /etc/ldap/ca.pem .; printf secret > password");
    host.run("mkdir schema");
    host.write("dse.ldif", DSE);
    host.write(
        "schema/99user.ldif",
        "dn: cn=schema\nattributeTypes: ( 1.3.6.1.4.1.32473.1.1 NAME 'badge' SUP name )\n",
    );
    host.write("data.ldif", &people("dc=example,dc=com"));
    host.write("config.ldif", CONFIG);
    for way in [lines[1], lines[2], lines[3..].join("\n").as_str(), lines[0]] {
        // The exit code is 6 if questions remain.
        host.run("rm -rf migration");
        let said = host.run_any(way);
        assert!(matches!(said.code, Some(0 | 6)), "{said}");
    }
    host.run("test -s migration/settings.toml && test -e migration/decide.md");
    load_active_directory(&host, &page);
    let load = page.block("slapcat -n 1");
    let (dump, import) = (load.lines().next().unwrap(), load.lines().last().unwrap());
    host.run("touch migration/policies.ldif");
    host.run(&format!("{dump}\n{import}"));
    let lines: Vec<&str> = page.block("pando serve").lines().collect();
    let [serve, compare, rehearse] = lines[..] else { panic!("{lines:?}") };
    host.serve(serve);
    host.run(compare);
    host.run(rehearse);
    all_used(&page, "how-to/migrate.md");
}

/// Export of a domain in the form of `ldifde`.
const DOMAIN: &str = "dn: DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: domain\n\
    objectClass: domainDNS\ndc: example\nname: example\nobjectSid:: AQQAAAAAAAUVAAAA\n\n\
    dn: CN=Users,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: container\ncn: Users\n\n\
    dn: CN=Anna Berg,CN=Users,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: person\n\
    objectClass: organizationalPerson\nobjectClass: user\ncn: Anna Berg\nsAMAccountName: anna\n\
    userPrincipalName: anna@example.com\nuserAccountControl: 512\nprimaryGroupID: 513\n\
    objectGUID:: bjUEvdcSPUSmCQpZ0Uf+nA==\n\n\
    dn: DC=zone,CN=Users,DC=example,DC=com\nchangetype: add\nobjectClass: top\nobjectClass: dnsZone\ndc: zone\n";

/// Runs the commands for Active Directory, whose lines end with CR and LF.
fn load_active_directory(host: &Host, page: &Blocks) {
    host.write("settings.toml", page.block("suffixes = "));
    host.write("export.ldif", &DOMAIN.replace('\n', "\r\n"));
    host.run_any(page.block("sed -i")).expect_code(6).expect_error("imported 3 entries of 4 records");
    let kept = host.run("pando export --data /var/lib/pando --operational");
    kept.expect_output("userPassword: {PASSTHROUGH}anna@example.com")
        .expect_output("entryUUID: bd04356e-12d7-443d-a609-0a59d147fe9c")
        .expect_output("objectSid:: AQQAAAAAAAUVAAAA");
    host.run("pando index list --data /var/lib/pando | grep sAMAccountName; rm -r /var/lib/pando");
}

#[test]
pub(crate) fn values() {
    let (scratch, page) = (Scratch::new("docs-values"), Blocks::of("how-to/values.md"));
    let host = Host::new(&scratch, &[]);
    let tree = format!("{}\n{}", people(SUFFIX), groups(SUFFIX).replace("staff", "interns"));
    host.write("tree.ldif", &tree.replace("uid=bert", "uid=ann").replace("uid: bert", "uid: ann"));
    host.run(&format!("pando import --data /var/lib/pando --suffix {SUFFIX} tree.ldif"));
    host.serve("PANDO_ADMIN_PASSWORD=secret pando serve --data /var/lib/pando --listen ldap://127.0.0.1");
    // The moment on the page will be in the past some day, so it is replaced.
    let next_year = host.run("date -u -d 'next year' +%Y%m%d%H%M%SZ").stdout;
    let commands = page.block("ldapmodify").replace("20270101000000Z", next_year.trim());
    let said = host.run_typing(&commands, "secret\nsecret\n").expect_code(0);
    said.expect_output("valueEnd: ");
    all_used(&page, "how-to/values.md");
}

#[test]
pub(crate) fn follow() {
    let (scratch, page) = (Scratch::new("docs-follow"), Blocks::of("how-to/follow.md"));
    let host = Host::new(&scratch, &["old.example.com"]);
    configure_openldap(&host, SUFFIX);
    host.run("slapd -h ldap://old.example.com; cp /etc/ldap/ca.pem old-ca.pem; printf secret > old-password");
    host.serve(&format!("export PANDO_ADMIN_PASSWORD=secret\n{}", page.block("pando follow")));
    until("the copy is complete", || host.log().contains("the copy is complete").then_some(()));
    host.run("pando search --data /var/lib/pando '(uid=anna)' cn").expect_output("cn: Anna Berg");
    all_used(&page, "how-to/follow.md");
}
