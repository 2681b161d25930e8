//! Binds by Kerberos (GSSAPI and GSS-SPNEGO), by OpenLDAP's clients with Cyrus SASL, and by malformed messages. Each
//! test has a separate realm.

use client::Connection;
use ldap::{Authentication, BindRequest, ChangeOperation, Controls, Request, ResultCode, Scope};
use test_support::clients::Run;
use test_support::kdc::{HOST, Kdc};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, plant_policy, replace};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

const SERVICE: &str = "ldap/localhost";

/// Starts a server that accepts tickets for this principal, with `more` lines in the `[kerberos]` table.
fn start(scratch: &Scratch, kdc: &Kdc, principal: &str, more: &str) -> Pando {
    let node = format!(
        "[kerberos]\nkeytab = \"{}\"\n{more}\n[log]\noperations = true\n\
         [audit]\nfolder = \"trail\"\nwhat = [\"binds\"]\n",
        kdc.keytab(principal)
    );
    let start = Start::with_node(scratch, node);
    let pando = start.environment("KRB5_CONFIG", kdc.settings()).environment("KRB5RCACHEDIR", scratch.path());
    let pando = pando.ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let policy = [("objectClass", "pwdPolicy"), ("pwdMaxAge", "1")];
    plant_policy(&mut administrator, &policy);
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", &["PLAIN", "GSSAPI", "GSS-SPNEGO"]);
    pando
}

/// Asks for a user's authorization identity at the server, after a bind by a mechanism of Cyrus SASL.
fn who_am_i(kdc: &Kdc, pando: &Pando, user: &str, mechanism: &str, more: &[&str]) -> Run {
    let url = format!("ldap://{HOST}:{}", pando.address().port());
    let arguments = ["-Q", "-N", "-H", &url, "-Y", mechanism, "-o", "nettimeout=60"];
    kdc.run_as(user, "ldapwhoami", &[&arguments[..], more].concat())
}

fn bind(connection: &mut Connection, mechanism: &str, credentials: Option<&[u8]>) -> ResultCode {
    let authentication = Authentication::Sasl { mechanism, credentials };
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication });
    connection.request(request, Controls::NONE).unwrap().outcome.code
}

fn offered_mechanisms(connection: &mut Connection) -> Vec<String> {
    let root = connection.search("", Scope::BaseObject, "(objectClass=*)", &["supportedSASLMechanisms"]);
    root.unwrap().entries[0].texts("supportedSASLMechanisms").iter().map(ToString::to_string).collect()
}

#[test]
fn people_bind_with_tickets() {
    let scratch = Scratch::new("gssapi-people");
    let kdc = Kdc::start(&scratch, &["anna", "bert", "ghost", "host/localhost", SERVICE]);
    let pando = start(&scratch, &kdc, SERVICE, "");
    let anna = format!("dn:{}", person_dn("anna"));
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &[]).expect_code(0).expect_output(&anna);
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &["-ZZ"]).expect_code(0).expect_output(&anna);
    let none = ["-O", "maxssf=0"];
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &none).expect_code(0).expect_output(&anna);
    who_am_i(&kdc, &pando, "anna", "GSS-SPNEGO", &none).expect_code(0).expect_output(&anna);
    let url = format!("ldap://{HOST}:{}", pando.address().port());
    let search = ["-Q", "-N", "-H", &url, "-Y", "GSSAPI", "-b", SUFFIX, "(uid=bert)", "cn"];
    kdc.run_as("anna", "ldapsearch", &search).expect_code(0).expect_output("cn: bert");
    assert_eq!(offered_mechanisms(&mut pando.connect()), ["GSSAPI", "GSS-SPNEGO", "PLAIN"]);

    // The server has no security layers: a client that requires a security layer gets an error.
    let strong = ["-O", "minssf=56"];
    assert_ne!(who_am_i(&kdc, &pando, "anna", "GSSAPI", &strong).code, Some(0));
    who_am_i(&kdc, &pando, "anna", "GSS-SPNEGO", &strong).expect_code(7).expect_error("use TLS");

    // A user may act with its own authorization identity, and not with the identity of another user.
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &["-X", "u:anna"]).expect_code(0).expect_output(&anna);
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &["-X", "u:bert"]).expect_code(49);
    let administrator = format!("dn:{ADMIN_DN}");
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &["-X", &administrator]).expect_code(49);

    // A principal without an entry is refused, and so is an account that an administrator has locked. An expired
    // password does not matter.
    let nobody = who_am_i(&kdc, &pando, "ghost", "GSSAPI", &[]).expect_code(49);
    assert!(!nobody.stderr.contains("entry"), "{nobody}");
    let lock: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pwdAccountLockedTime", &["000001010000Z"])];
    assert!(pando.administrator().modify(&person_dn("bert"), lock).unwrap().is_success());
    for mechanism in ["GSSAPI", "GSS-SPNEGO"] {
        let locked = who_am_i(&kdc, &pando, "bert", mechanism, &none).expect_code(49);
        assert!(!locked.stderr.contains("locked"), "{locked}");
    }
    let log = pando.log();
    for told in
        ["\"ghost@PANDO.TEST\" is refused: \"no entry", "\"bert@PANDO.TEST\" is refused: \"the account is"]
    {
        assert!(log.contains(told), "{told} is not in {log}");
    }
    assert!(pando.stop().success());
    let trail = scratch.join("trail");
    let trail = test_support::clients::run(
        test_support::pando::program(),
        &["audit", "--folder", trail.to_str().unwrap(), "--operation", "bind"],
        "",
    );
    trail.expect_code(0).expect_output("ghost@PANDO.TEST").expect_output(&person_dn("anna"));
}

/// A ticket with a channel binding to the server's certificate is accepted on a connection with that certificate.
/// Another binding is refused.
#[test]
fn tickets_are_bound_to_the_certificate() {
    let scratch = Scratch::new("gssapi-bound");
    let kdc = Kdc::start(&scratch, &["anna", SERVICE]);
    let pando = start(&scratch, &kdc, SERVICE, "");
    let anna = format!("dn:{}", person_dn("anna"));
    let url = format!("ldap://{HOST}:{}", pando.address().port());
    // tls-unique is the binding type of TLS 1.2.
    for (binding, code) in [("tls-endpoint", 0), ("tls-unique", 49)] {
        for mechanism in ["GSSAPI", "GSS-SPNEGO"] {
            let binding = format!("LDAPSASL_CBINDING={binding}");
            let tls = ["LDAPTLS_CIPHER_SUITE=NORMAL:-VERS-TLS1.3", "ldapwhoami", "-ZZ"];
            let who = ["-Q", "-N", "-H", &url, "-Y", mechanism, "-O", "maxssf=0", "-o", "nettimeout=60"];
            let bound = kdc.run_as("anna", "env", &[&[binding.as_str()][..], &tls, &who].concat());
            let bound = bound.expect_code(code);
            assert_eq!(bound.stdout.contains(&anna), code == 0, "{bound}");
        }
    }
    // The reason is logged for the operator, and not sent to the client.
    assert!(pando.log().contains("Incorrect channel bindings"), "{}", pando.log());
}

#[test]
fn tickets_with_another_key_and_malformed_tokens_are_refused() {
    let scratch = Scratch::new("gssapi-refused");
    let kdc = Kdc::start(&scratch, &["anna", SERVICE]);
    let pando = start(&scratch, &kdc, SERVICE, "");
    let mut bystander = pando.connect();
    // The realm issues tickets for a key that differs from the server's.
    kdc.kadmin(&format!("cpw -randkey {SERVICE}"));
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &[]).expect_code(49);
    who_am_i(&kdc, &pando, "anna", "GSS-SPNEGO", &["-O", "maxssf=0"]).expect_code(49);

    let mut connection = pando.connect();
    let kerberos = b"\x60\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
    let many = vec![0x60; 60_000];
    for mechanism in ["GSSAPI", "GSS-SPNEGO"] {
        for junk in [&b"x"[..], b"\0", b"\x60", b"\x60\xff\xff\xff\xff\xff", kerberos, &many] {
            let code = bind(&mut connection, mechanism, Some(junk));
            assert_eq!(
                code,
                ResultCode::INVALID_CREDENTIALS,
                "{mechanism} {:?}",
                &junk[..junk.len().min(20)]
            );
        }
        let too_long = vec![0x60; 70_000];
        assert_eq!(bind(&mut connection, mechanism, Some(&too_long)), ResultCode::PROTOCOL_ERROR);
        // A client that asks the server to send the first message gets an error.
        for empty in [None, Some(&b""[..])] {
            assert_eq!(bind(&mut connection, mechanism, empty), ResultCode::SASL_BIND_IN_PROGRESS);
        }
    }
    // Other clients are served meanwhile, and this connection is still usable.
    assert_eq!(offered_mechanisms(&mut bystander).len(), 3);
    assert_eq!(offered_mechanisms(&mut connection).len(), 3);
}

#[test]
fn incomplete_tables_and_tickets_of_other_realms_are_refused() {
    let scratch = Scratch::new("gssapi-tables");
    let kdc = Kdc::start(&scratch, &["anna", "host/localhost", SERVICE]);
    // A table is refused if it is incomplete, or if its keytab lacks the key of the principal.
    let refused = |table: &str, what: &str| {
        let start = Start::with_node(&scratch, format!("[kerberos]\n{table}\n"));
        let (_, said) = start.environment("KRB5_CONFIG", kdc.settings()).refused();
        assert!(said.contains(what), "{said}");
    };
    refused("realms = [\"A\"]", "[kerberos] needs keytab");
    refused("keytab = \"none.keytab\"", "none.keytab");
    let keytab = format!("keytab = \"{}\"", kdc.keytab("host/localhost"));
    refused(&format!("{keytab}\nprincipal = \"{SERVICE}\""), SERVICE);

    let more = format!("realms = [\"ELSEWHERE.TEST\"]\nprincipal = \"{SERVICE}\"");
    let pando = start(&scratch, &kdc, SERVICE, &more);
    who_am_i(&kdc, &pando, "anna", "GSSAPI", &[]).expect_code(49);
    assert!(pando.log().contains("its realm is not the server's own"), "{}", pando.log());
}
