//! The load driver with TLS and SASL, against a server of another project: Debian's slapd.

use bench::driver::{self, DriveError, Options, Targets};
use bench::peers::Amendments;
use bench::result::{OperationKind, RunResult, WorkloadResult, setting};
use bench::workload::{self, Workload};
use client::{Connection, Tls};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use test_support::slapd::Slapd;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

const PEOPLE: u64 = 20;

/// Adds `uid=user.0` and so on below `ou=people`, with the password "password".
fn add_people(connection: &mut Connection) {
    assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let root =
        [("objectClass", "organization"), ("objectClass", "dcObject"), ("o", "Example"), ("dc", "example")];
    assert!(connection.add(SUFFIX, &root).unwrap().is_success());
    let unit = [("objectClass", "organizationalUnit"), ("ou", "people")];
    assert!(connection.add(&format!("ou=people,{SUFFIX}"), &unit).unwrap().is_success());
    for number in 0..PEOPLE {
        let uid = format!("user.{number}");
        let person = [
            ("objectClass", "inetOrgPerson"),
            ("uid", &uid),
            ("cn", "Somebody"),
            ("sn", "Somebody"),
            ("userPassword", "password"),
        ];
        let outcome = connection.add(&format!("uid={uid},ou=people,{SUFFIX}"), &person).unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
}

fn options() -> Options {
    Options {
        entries: Some(PEOPLE),
        clients: Some(5),
        threads: 2,
        warm_up: Some(Duration::ZERO),
        duration: Some(Duration::from_millis(500)),
        bind: Some((ADMIN_DN.to_owned(), ADMIN_PASSWORD.to_owned())),
        ..Options::default()
    }
}

fn run(name: &str, uri: &str, options: &Options) -> Result<WorkloadResult, DriveError> {
    driver::run(&workload::shipped(name).unwrap(), &Targets::resolve(&[uri]).unwrap(), options)
}

/// Starts a slapd that refuses all requests without TLS. Returns the server and its certificate.
fn secure_slapd(scratch: &Scratch) -> (Slapd, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = scratch.write("certificate.pem", made.cert.pem());
    let key = scratch.write("key.pem", made.signing_key.serialize_pem());
    let global = format!(
        "TLSCertificateFile {}\nTLSCertificateKeyFile {}\nsecurity ssf=128",
        certificate.display(),
        key.display()
    );
    let amendments = Amendments { global, secure: true, ..Amendments::default() };
    (Slapd::amended(scratch, &[], amendments), made.cert.pem())
}

#[test]
fn load_uses_ldaps_or_start_tls() {
    let scratch = Scratch::new("load-tls");
    let (slapd, certificate) = secure_slapd(&scratch);
    let tls = Tls::authorities(certificate.as_bytes()).unwrap();
    add_people(&mut Connection::open_tls(slapd.secure_address(), &tls, "127.0.0.1").unwrap());
    let (secure, plain) =
        (format!("ldaps://{}", slapd.secure_address()), format!("ldap://{}", slapd.address()));
    for (uri, start_tls, trust, part) in [
        (&secure, false, tls.clone(), "ldaps, certificate checked"),
        (&plain, true, tls.clone(), "StartTLS, certificate checked"),
        (&plain, true, Tls::insecure().unwrap(), "StartTLS, certificate not checked"),
    ] {
        for name in ["people-search", "people-bind-new-connection", "people-read"] {
            let options = Options { tls: Some(trust.clone()), start_tls, ..options() };
            let result = run(name, uri, &options).unwrap();
            assert!(result.is_clean(), "{name}: {:?} {:?}", result.failures, result.operations);
            assert!(result.operations_total() > 0, "{name}");
            let stated = result.server.setting(setting::TLS).unwrap();
            assert!(stated.starts_with("TLSv1_") && stated.contains(part), "{stated}");
        }
    }
}

#[test]
fn a_workload_asks_for_tls_by_itself() {
    let scratch = Scratch::new("load-tls-asked");
    let (slapd, certificate) = secure_slapd(&scratch);
    let tls = Tls::authorities(certificate.as_bytes()).unwrap();
    add_people(&mut Connection::open(slapd.address()).unwrap().start_tls(&tls, "127.0.0.1").unwrap());
    let workload = Workload::parse(
        "compare.toml",
        "title = 'c'\n[data]\nrdn = 'uid'\ndn = 'uid=user.{n},ou=people,dc=example,dc=com'\nfirst = 0\n[needs]\n\
         tls = true\n\
         [[job]]\nclients = 2\n[[job.operation]]\nkind = 'compare'\ndn = 'uid=user.{n},ou=people,dc=example,dc=com'\n\
         attribute = 'uid'\nvalue = 'user.{n}'\n",
    )
    .unwrap();
    let targets = Targets::resolve(&[format!("ldap://{}", slapd.address())]).unwrap();
    let result = driver::run(&workload, &targets, &Options { tls: Some(tls), ..options() }).unwrap();
    assert!(result.is_clean(), "{:?} {:?}", result.failures, result.operations);
    assert!(result.server.setting(setting::TLS).unwrap().contains("StartTLS"));
}

#[test]
fn untrusted_servers_are_not_measured() {
    let scratch = Scratch::new("load-tls-refused");
    let (slapd, certificate) = secure_slapd(&scratch);
    let secure = format!("ldaps://{}", slapd.secure_address());
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let error = |tls: Option<Tls>, uri: &str, start_tls: bool| {
        run("people-search", uri, &Options { tls, start_tls, ..options() }).unwrap_err().to_string()
    };
    let stranger = error(Tls::authorities(other.cert.pem().as_bytes()).ok(), &secure, false);
    assert!(stranger.contains("invalid peer certificate"), "{stranger}");
    let elsewhere = secure.replace("127.0.0.1", "localhost");
    let misnamed = error(Tls::authorities(certificate.as_bytes()).ok(), &elsewhere, false);
    assert!(misnamed.contains("certificate") || misnamed.contains("refused"), "{misnamed}");
    let untold = error(None, &secure, false);
    assert!(untold.contains("--tls-ca"), "{untold}");
    // Without TLS, this slapd refuses requests. So the measured requests must have used TLS.
    let plain = error(None, &format!("ldap://{}", slapd.address()), false);
    assert!(plain.contains("result code 13"), "{plain}");
    // The command line reports the same error.
    let arguments = ["bench", "run", "people-search", "--target", &secure, "--no-limit"];
    let output = Command::new(test_support::pando::program()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--tls-insecure"), "{output:?}");
}

/// Settings of slapd for SASL. The users are the people in `ou=people`. slapd stores their passwords in clear, because
/// the tested mechanisms need them.
const SASL: &str = "password-hash {CLEARTEXT}\nsasl-host localhost\nsasl-auxprops slapd\n\
    authz-regexp \"uid=(user\\.[0-9]+),cn=[^,]+,cn=auth\" \"uid=$1,ou=people,dc=example,dc=com\"";

fn sasl_bind(address: SocketAddr, mechanism: &str, password: &str) -> WorkloadResult {
    let text = format!(
        "title = 's'\n[data]\nrdn = 'uid'\ndn = 'uid=user.{{n}},ou=people,dc=example,dc=com'\nfirst = 0\n\
         [needs]\nsasl = '{mechanism}'\n[[job]]\nclients = 4\n[[job.operation]]\nkind = 'bind'\n\
         mechanism = '{mechanism}'\nuser = 'user.{{n}}'\npassword = '{password}'\n"
    );
    let workload = Workload::parse("sasl.toml", &text).unwrap();
    let targets = Targets::resolve(&[format!("ldap://{address}")]).unwrap();
    driver::run(&workload, &targets, &options()).unwrap()
}

#[test]
fn cyrus_sasl_accepts_cram_md5_and_scram_binds() {
    let scratch = Scratch::new("load-sasl");
    let amendments = Amendments { global: SASL.to_owned(), ..Amendments::default() };
    let slapd = Slapd::amended(&scratch, &[], amendments);
    add_people(&mut Connection::open(slapd.address()).unwrap());
    for mechanism in ["CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let right = sasl_bind(slapd.address(), mechanism, "password");
        assert_eq!(
            right.unsupported, None,
            "libsasl2-modules is missing: run the tests by ./dev test, which installs it"
        );
        assert!(right.is_clean(), "{mechanism}: {:?} {:?}", right.failures, right.operations);
        let totals = &right.operations[&OperationKind::Bind];
        assert!(totals.operations > 0, "{mechanism}: {totals:?}");
        assert_eq!(totals.result_codes.get(&0), Some(&totals.operations), "{mechanism}");
        let wrong = sasl_bind(slapd.address(), mechanism, "passwort");
        let totals = &wrong.operations[&OperationKind::Bind];
        // Failed requests do not count as operations.
        assert_eq!((totals.operations, totals.wrong_answers), (0, 0), "{mechanism}");
        assert!(totals.errors > 0, "{mechanism}: {totals:?}");
        assert_eq!(totals.result_codes.get(&49), Some(&totals.errors), "{mechanism}: {:?}", totals.examples);
    }
}

#[test]
fn the_workloads_with_sasl_run_on_slapd_in_a_comparison() {
    let scratch = Scratch::new("load-sasl-peers");
    let output = scratch.join("result.json");
    let said = Command::new(test_support::pando::program())
        .args(["bench", "peers", "--peers", "openldap", "--entries", "100", "--rounds", "1", "--no-limit"])
        .args(["--workloads", "m-vault-bind-cram-md5,m-vault-bind-scram", "--clients", "4"])
        .args(["--duration", "500ms", "--warmup", "0", "--server-cpus", "0", "--load-cpus", "0", "--folder"])
        .arg(scratch.path())
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap();
    let result = RunResult::read(&output).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    for name in ["m-vault-bind-cram-md5", "m-vault-bind-scram"] {
        let mut on_slapd = result
            .workloads
            .iter()
            .filter(|measured| measured.workload == name && measured.server.product.starts_with("OpenLDAP"));
        let measured = on_slapd.next().unwrap_or_else(|| panic!("{name}: {said:?}"));
        assert!(measured.is_clean() && measured.unsupported.is_none(), "{name}: {said:?}");
        assert!(measured.operations[&OperationKind::Bind].operations > 0, "{name}");
    }
}
