//! Requests with another identity: proxied authorization (RFC 4370 and its earlier draft), authorization identities in
//! SASL, and the authorization identity controls of a bind (RFC 3829).

use client::Connection;
use ldap::oids::{
    AUTHORIZATION_IDENTITY_REQUEST, AUTHORIZATION_IDENTITY_RESPONSE, PROXIED_AUTHORIZATION,
    PROXIED_AUTHORIZATION_V1,
};
use ldap::{
    Authentication, BindRequest, ChangeOperation, ChangesBuf, Control, ControlsBuf, ExtendedRequest,
    ModifyRequest, Request, ResultCode,
};
use rustix::process::Signal;
use test_support::clients::{Run, run, unboundid_tool};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

fn start(scratch: &Scratch) -> Pando {
    let pando = Start::new(scratch).ready();
    plant(&mut pando.administrator());
    pando
}

/// Runs one of OpenLDAP's clients, bound as the administrator.
fn as_administrator(pando: &Pando, program: &str, arguments: &[&str]) -> Run {
    let url = format!("ldap://{}", pando.address());
    run(program, &[&["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD], arguments].concat(), "")
}

/// Runs one of OpenLDAP's clients, bound as `name`.
fn as_person(pando: &Pando, name: &str, program: &str, arguments: &[&str]) -> Run {
    let (url, password) = (format!("ldap://{}", pando.address()), format!("{name}-secret"));
    run(program, &[&["-x", "-H", &url, "-D", &person_dn(name), "-w", &password], arguments].concat(), "")
}

/// Sends "Who am I?" with this control. Returns the result and the identity.
fn who(connection: &mut Connection, oid: &str, critical: bool, value: Option<&[u8]>) -> (ResultCode, String) {
    ask(connection, WHO_AM_I, &[(oid, critical, value)])
}

fn ask(
    connection: &mut Connection,
    operation: &str,
    controls: &[(&str, bool, Option<&[u8]>)],
) -> (ResultCode, String) {
    let controls: ControlsBuf =
        controls.iter().map(|&(oid, critical, value)| Control { oid, critical, value }).collect();
    let request = Request::Extended(ExtendedRequest { name: operation, value: None });
    let reply = connection.request(request, controls.as_controls()).unwrap();
    (reply.outcome.code, String::from_utf8(reply.extended.value.unwrap_or_default()).unwrap())
}

#[test]
fn openldap_clients_send_requests_as_other_users() {
    let scratch = Scratch::new("proxied-openldap");
    let pando = start(&scratch);
    let anna = format!("dn:{}", person_dn("anna"));
    let proxied = |identity: &str| format!("!authzid={identity}");
    for identity in ["u:anna", &anna] {
        let said = as_administrator(&pando, "ldapwhoami", &["-e", &proxied(identity)]).expect_code(0);
        said.expect_output(&anna);
    }
    as_administrator(&pando, "ldapwhoami", &["-e", "!authzid="]).expect_code(0).expect_output("anonymous");
    // With anna's identity, the administrator reads no more than anna may read.
    let own = person_dn("anna");
    let read = ["-LLL", "-s", "base", "-b", &own, "userPassword", "uid"];
    let all = as_administrator(&pando, "ldapsearch", &read).expect_code(0).stdout;
    assert!(all.contains("userPassword"), "{all}");
    let hers = as_administrator(&pando, "ldapsearch", &[&["-e", &proxied(&anna)], &read[..]].concat());
    let hers = hers.expect_code(0).stdout;
    assert!(hers.contains("uid: anna") && !hers.contains("userPassword"), "{hers}");
    as_administrator(&pando, "ldapdelete", &["-e", &proxied(&anna), &own]).expect_code(50);
    as_administrator(&pando, "ldapcompare", &["-e", &proxied("u:bert"), &own, "userPassword:x"])
        .expect_code(50);
    // The change is made with anna's identity. The request names no user, so it changes her password.
    as_administrator(&pando, "ldappasswd", &["-e", &proxied(&anna), "-s", "new-s3cret"]).expect_code(0);
    let changed = pando.administrator().entry(&own, &["modifiersName"]).unwrap().unwrap();
    assert_eq!(changed.texts("modifiersName"), [own.as_str()]);
    let url = format!("ldap://{}", pando.address());
    run("ldapwhoami", &["-x", "-H", &url, "-D", &own, "-w", "new-s3cret"], "").expect_code(0);
    // Only the administrator may use other identities. The refusals do not reveal which names exist.
    let refused = |run: Run| run.expect_code(1).expect_output("(123)");
    for identity in ["u:anna", "u:bert", "u:nobody", "dn:cn=nowhere", ""] {
        refused(as_person(&pando, "bert", "ldapwhoami", &["-e", &proxied(identity)]));
        refused(run("ldapwhoami", &["-x", "-H", &url, "-e", &proxied(identity)], ""));
    }
    for identity in ["u:nobody", "dn:cn=nowhere", "dn:no dn", "anna", "x:anna"] {
        refused(as_administrator(&pando, "ldapwhoami", &["-e", &proxied(identity)]));
    }
}

#[test]
fn the_controls_are_decoded_as_specified() {
    let scratch = Scratch::new("proxied-controls");
    let mut pando = Start::new(&scratch).arguments(&["--log-operations"]).ready();
    plant(&mut pando.administrator());
    let (dn, mut connection) = (person_dn("anna"), pando.administrator());
    let connection = &mut connection;
    let anna = (ResultCode::SUCCESS, format!("dn:{dn}"));
    let version_1 = [&[0x30, dn.len() as u8 + 2, 0x04, dn.len() as u8], dn.as_bytes()].concat();
    assert_eq!(who(connection, PROXIED_AUTHORIZATION_V1, true, Some(&version_1)), anna);
    let nobody = (ResultCode::SUCCESS, String::new());
    for (oid, value) in [
        (PROXIED_AUTHORIZATION_V1, &[0x30, 2, 0x04, 0][..]),
        (PROXIED_AUTHORIZATION, b""),
        (PROXIED_AUTHORIZATION, b"dn:"),
    ] {
        assert_eq!(who(connection, oid, true, Some(value)), nobody);
    }
    let mut refused = |controls: &[(&str, bool, Option<&[u8]>)], operation, code| {
        assert_eq!(ask(connection, operation, controls), (code, String::new()), "{controls:?}");
    };
    let wrong = ResultCode::PROTOCOL_ERROR;
    let v2: (&str, bool, Option<&[u8]>) = (PROXIED_AUTHORIZATION, true, Some(b"u:anna"));
    refused(&[(v2.0, false, v2.2)], WHO_AM_I, wrong);
    refused(&[(v2.0, true, None)], WHO_AM_I, wrong);
    refused(&[v2, v2], WHO_AM_I, wrong);
    refused(&[v2, (PROXIED_AUTHORIZATION_V1, true, Some(&version_1))], WHO_AM_I, wrong);
    for value in [&b""[..], b"\x30", b"\x30\x02\x04\x00\x00", b"\x30\x05\x04\x00\x04\x01x", b"dn:cn=admin"] {
        refused(&[(PROXIED_AUTHORIZATION_V1, true, Some(value))], WHO_AM_I, wrong);
    }
    refused(&[(v2.0, true, Some(b"u:\xff"))], WHO_AM_I, ResultCode::AUTHORIZATION_DENIED);
    refused(&[v2], START_TLS, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION);
    // The control applied only to the request that contained it.
    assert_eq!(ask(connection, WHO_AM_I, &[]), (ResultCode::SUCCESS, format!("dn:{ADMIN_DN}")));
    pando.signal(Signal::TERM);
    assert!(pando.exit().success());
    let (log, line) = (pando.log(), format!("authzid=\"dn:{dn}\" result=success"));
    assert!(log.contains(&line), "no {line} in\n{log}");
}

#[test]
fn pipelined_requests_run_with_the_identity_that_each_names() {
    let scratch = Scratch::new("proxied-pipelined");
    let pando = start(&scratch);
    let mut connection = pando.administrator();
    let (anna, mut sent) = (person_dn("anna"), Vec::new());
    for count in 0..40 {
        let mut controls = ControlsBuf::new();
        if count % 2 == 1 {
            let value = Some(&b"u:bert"[..]);
            controls.push(Control { oid: PROXIED_AUTHORIZATION, critical: true, value });
        }
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "description", [format!("{count}").as_bytes()]);
        let request = Request::Modify(ModifyRequest { object: &anna, changes: changes.as_changes() });
        sent.push((count, connection.send(request, controls.as_controls()).unwrap()));
    }
    for (count, id) in sent {
        let expected = match count % 2 {
            0 => ResultCode::SUCCESS,
            _ => ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
        };
        assert_eq!(connection.reply(id).unwrap().outcome.code, expected, "{count}");
    }
}

#[test]
fn only_the_administrator_may_bind_by_sasl_as_another_user() {
    let scratch = Scratch::new("proxied-sasl");
    let pando = start(&scratch);
    let (url, anna) = (format!("ldap://{}", pando.address()), format!("dn:{}", person_dn("anna")));
    let administrator = format!("dn:{ADMIN_DN}");
    let plain = |name: &str, password: &str, wanted: &str| {
        let arguments =
            ["-Q", "-O", "none", "-H", &url, "-Y", "PLAIN", "-U", name, "-w", password, "-X", wanted];
        run("ldapwhoami", &arguments, "")
    };
    plain(&administrator, ADMIN_PASSWORD, "u:anna").expect_code(0).expect_output(&anna);
    plain(&administrator, ADMIN_PASSWORD, &anna).expect_code(0).expect_output(&anna);
    plain(&administrator, "wrong", "u:anna").expect_code(49);
    plain(&administrator, ADMIN_PASSWORD, "u:nobody").expect_code(49);
    plain("u:bert", "bert-secret", "u:anna").expect_code(49);
    plain("u:anna", "anna-secret", "u:anna").expect_code(0).expect_output(&anna);
    let mut local = Connection::open_local(&Pando::data(&scratch).join("pando.sock")).unwrap();
    for (wanted, code, whose) in [
        (anna.as_str(), ResultCode::SUCCESS, anna.as_str()),
        ("u:nobody", ResultCode::INVALID_CREDENTIALS, ""),
        (&administrator, ResultCode::SUCCESS, &administrator),
        ("dn:", ResultCode::INVALID_CREDENTIALS, ""),
    ] {
        assert_eq!(local.bind_external(Some(wanted)).unwrap().code, code, "{wanted}");
        assert_eq!(ask(&mut local, WHO_AM_I, &[]), (ResultCode::SUCCESS, whose.to_owned()), "{wanted}");
    }
}

#[test]
fn a_bind_response_contains_the_authorization_identity() {
    let scratch = Scratch::new("proxied-identity");
    let pando = start(&scratch);
    let controls: ControlsBuf =
        [Control { oid: AUTHORIZATION_IDENTITY_REQUEST, critical: true, value: None }].into_iter().collect();
    let anna = person_dn("anna");
    for (name, password, code, said) in [
        (anna.as_str(), "anna-secret", ResultCode::SUCCESS, Some(format!("dn:{anna}"))),
        (ADMIN_DN, ADMIN_PASSWORD, ResultCode::SUCCESS, Some(format!("dn:{ADMIN_DN}"))),
        ("", "", ResultCode::SUCCESS, Some(String::new())),
        (&anna, "wrong", ResultCode::INVALID_CREDENTIALS, None),
    ] {
        let authentication = Authentication::Simple(password.as_bytes());
        let request = Request::Bind(BindRequest { version: 3, name, authentication });
        let reply = pando.connect().request(request, controls.as_controls()).unwrap();
        assert_eq!(reply.outcome.code, code);
        let message = reply.last.as_ref().unwrap().message();
        let identity = message.controls.iter().find(|control| control.oid == AUTHORIZATION_IDENTITY_RESPONSE);
        let identity = identity.map(|control| String::from_utf8(control.value.unwrap().to_vec()).unwrap());
        assert_eq!(identity, said, "{name}");
    }
    // UnboundID's client gets the same results as the other clients.
    let arguments = [
        "--proxyAs",
        "u:anna",
        "--authorizationIdentity",
        "--baseDN",
        SUFFIX,
        "(uid=anna)",
        "userPassword",
        "uid",
    ];
    let found = unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &arguments, "");
    let found = found.expect_code(0).expect_output(&format!("dn:{ADMIN_DN}")).stdout;
    assert!(found.contains("uid: anna") && !found.contains("userPassword:"), "{found}");
}
