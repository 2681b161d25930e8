//! SASL binds with common clients: Cyrus SASL in ldap-utils, and UnboundID.

use base64::Engine as _;
use client::{Connection, Tls};
use data_encoding::HEXLOWER;
use directory::password::StorageScheme;
use ldap::{Authentication, BindRequest, ChangeOperation, Controls, Request, Response, ResultCode, Scope};
use sasl::Hash;
use sasl::scram::Client;
use test_support::clients::{Run, run, unboundid_jar_tool};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, plant_policy, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const ALL: &[&str] = &[
    "EXTERNAL",
    "PLAIN",
    "ANONYMOUS",
    "SCRAM-SHA-1",
    "SCRAM-SHA-256",
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-512",
    "SCRAM-SHA-512-PLUS",
    "CRAM-MD5",
    "DIGEST-MD5",
];

/// Realm of DIGEST-MD5.
const REALM: &str = "ldap.example.com";

/// Starts a server with all mechanisms, a policy that creates SCRAM keys, and anna and bert, whose passwords are set
/// under that policy.
fn start(scratch: &Scratch) -> Pando {
    let pando = Start::new(scratch).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pandoPwdScheme", "ssha512"),
        ("pandoPwdScramMechanism", "SCRAM-SHA-1"),
        ("pandoPwdScramMechanism", "SCRAM-SHA-256"),
        ("pandoPwdScramMechanism", "SCRAM-SHA-512"),
        ("pandoPwdScramMechanism", "CRAM-MD5"),
        ("pandoPwdScramMechanism", "DIGEST-MD5"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "3"),
    ];
    plant_policy(&mut administrator, &policy);
    replace(&mut administrator, "cn=config", "pandoSaslRealm", &[REALM]);
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", ALL);
    for name in ["anna", "bert"] {
        let secret = format!("{name}-s3cret");
        set_password(&mut administrator, name, &secret);
    }
    pando
}

fn who_am_i(pando: &Pando, arguments: &[&str]) -> Run {
    let url = format!("ldap://{}", pando.address());
    run("ldapwhoami", &[&["-Q", "-O", "none", "-H", &url], arguments].concat(), "")
}

/// Sends credentials for a mechanism. Returns the result and the server's credentials.
pub(crate) fn sasl_bind(
    connection: &mut Connection,
    mechanism: &str,
    credentials: &[u8],
) -> (ResultCode, String) {
    let authentication = Authentication::Sasl { mechanism, credentials: Some(credentials) };
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication });
    let reply = connection.request(request, Controls::NONE).unwrap();
    let Response::Bind { server_sasl_credentials, .. } = reply.last.as_ref().unwrap().message().response
    else {
        panic!("{reply:?}")
    };
    let said = String::from_utf8(server_sasl_credentials.unwrap_or_default().to_vec()).unwrap();
    (reply.outcome.code, said)
}

/// A mandatory SCRAM extension is refused (RFC 5802 section 5.1).
#[test]
fn mandatory_extensions_of_scram_end_the_exchange() {
    let scratch = Scratch::new("sasl-extension");
    let pando = start(&scratch);
    let mut connection = pando.connect();
    let refused = (ResultCode::INVALID_CREDENTIALS, "e=extensions-not-supported".to_owned());
    let mechanism = "SCRAM-SHA-256";
    assert_eq!(sasl_bind(&mut connection, mechanism, b"n,,m=x,n=anna,r=x"), refused);
    assert_eq!(sasl_bind(&mut connection, mechanism, b"n,,n=anna,r=x,m=x"), refused);
    let (hash, _) = Hash::of_mechanism(mechanism).unwrap();
    let (client, first) = Client::begin(hash, "anna", "a-nonce-of-the-test", None);
    let (_, challenge) = sasl_bind(&mut connection, mechanism, first.as_bytes());
    let (last, _) = client.finish(&challenge, "anna-s3cret", &mut None).unwrap();
    let extended = last.replace(",p=", ",m=x,p=");
    assert_eq!(sasl_bind(&mut connection, mechanism, extended.as_bytes()), refused);
    assert_eq!(scram(&mut connection, mechanism, ("anna", "anna-s3cret"), None), ResultCode::SUCCESS);
}

/// Performs a complete SCRAM exchange.
fn scram(
    connection: &mut Connection,
    mechanism: &str,
    (name, password): (&str, &str),
    channel: Option<(&str, &[u8])>,
) -> ResultCode {
    let (hash, _) = Hash::of_mechanism(mechanism).unwrap();
    let (client, first) = Client::begin(hash, name, "a-nonce-of-the-test", channel);
    let (code, challenge) = sasl_bind(connection, mechanism, first.as_bytes());
    if code != ResultCode::SASL_BIND_IN_PROGRESS {
        return code;
    }
    let (last, expected) = client.finish(&challenge, password, &mut None).unwrap();
    let (code, said) = sasl_bind(connection, mechanism, last.as_bytes());
    assert_eq!(said, if code == ResultCode::SUCCESS { expected } else { String::new() });
    code
}

#[test]
fn cyrus_sasl_binds_by_every_mechanism() {
    let scratch = Scratch::new("sasl-cyrus");
    let pando = start(&scratch);
    let anna = format!("dn:{}", person_dn("anna"));
    for mechanism in ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for name in ["anna", "u:anna", &anna] {
            let good = ["-Y", mechanism, "-U", name, "-w", "anna-s3cret"];
            who_am_i(&pando, &good).expect_code(0).expect_output(&anna);
        }
        let wrong = ["-Y", mechanism, "-U", "anna", "-w", "wrong"];
        who_am_i(&pando, &wrong).expect_code(49);
        who_am_i(&pando, &["-Y", mechanism, "-U", "nobody", "-w", "wrong"]).expect_code(49);
        // A user may use its own authorization identity, but no other one.
        let own = ["-Y", mechanism, "-U", "anna", "-w", "anna-s3cret", "-X", &anna];
        who_am_i(&pando, &own).expect_code(0).expect_output(&anna);
        let other = ["-Y", mechanism, "-U", "anna", "-w", "anna-s3cret", "-X", "u:bert"];
        who_am_i(&pando, &other).expect_code(49);
        // A successful bind resets the failure count of the refused binds.
        let good = ["-Y", mechanism, "-U", "anna", "-w", "anna-s3cret"];
        who_am_i(&pando, &good).expect_code(0);
    }
    // CRAM-MD5 has no authorization identity.
    let cram = |name: &str, password: &str| who_am_i(&pando, &["-Y", "CRAM-MD5", "-U", name, "-w", password]);
    cram("anna", "anna-s3cret").expect_code(0).expect_output(&anna);
    cram("anna", "wrong").expect_code(49);
    cram("nobody", "wrong").expect_code(49);
    cram(&anna, "anna-s3cret").expect_code(0).expect_output(&anna);
    let digest = |more: &[&str]| who_am_i(&pando, &[&["-Y", "DIGEST-MD5"], more].concat());
    digest(&["-U", "anna", "-w", "anna-s3cret"]).expect_code(0).expect_output(&anna);
    digest(&["-U", "anna", "-w", "anna-s3cret", "-R", REALM]).expect_code(0).expect_output(&anna);
    digest(&["-U", "anna", "-w", "anna-s3cret", "-X", &anna]).expect_code(0).expect_output(&anna);
    digest(&["-U", "anna", "-w", "anna-s3cret", "-X", "u:bert"]).expect_code(49);
    digest(&["-U", "anna", "-w", "wrong"]).expect_code(49);
    digest(&["-U", "nobody", "-w", "wrong"]).expect_code(49);
    // The hash contains the name as the client spells it, so another spelling is refused.
    digest(&["-U", "Anna", "-w", "anna-s3cret"]).expect_code(49);
    // A client that only prefers a security layer continues without one. A client that insists on one fails.
    let url = format!("ldap://{}", pando.address());
    let liking = ["-Q", "-H", &url, "-Y", "DIGEST-MD5", "-U", "anna", "-w", "anna-s3cret"];
    run("ldapwhoami", &liking, "").expect_code(0).expect_output(&anna);
    let insisting = run("ldapwhoami", &[&liking[..], &["-O", "minssf=56"]].concat(), "");
    assert!(insisting.code != Some(0) && insisting.stdout.is_empty(), "{insisting}");
    who_am_i(&pando, &["-Y", "ANONYMOUS"]).expect_code(0).expect_output("anonymous");
    let administrator = format!("dn:{ADMIN_DN}");
    let plain = ["-Y", "PLAIN", "-U", &administrator, "-w", ADMIN_PASSWORD];
    who_am_i(&pando, &plain).expect_code(0).expect_output(&administrator);
}

#[test]
fn unboundid_binds_by_plain_and_scram() {
    let scratch = Scratch::new("sasl-unboundid");
    let pando = start(&scratch);
    let port = pando.address().port().to_string();
    for (mechanism, id) in [
        ("PLAIN", "authID=u:anna"),
        ("SCRAM-SHA-256", "username=anna"),
        ("SCRAM-SHA-512", "username=anna"),
        ("CRAM-MD5", "authID=u:anna"),
        // The hash contains the name as given, so the hash would contain the `u:` too.
        ("DIGEST-MD5", "authID=anna"),
    ] {
        let mechanism = format!("mech={mechanism}");
        let arguments = [
            "--hostname",
            "127.0.0.1",
            "--port",
            &port,
            "--saslOption",
            &mechanism,
            "--saslOption",
            id,
            "--bindPassword",
            "anna-s3cret",
            "--baseDN",
            SUFFIX,
            "--scope",
            "sub",
            "(uid=bert)",
            "cn",
        ];
        let found = unboundid_jar_tool("unboundidds.tools.LDAPSearch", &arguments, "").expect_code(0);
        found.expect_output("uid=bert");
    }
}

#[test]
fn proofs_are_bound_to_the_channel() {
    let scratch = Scratch::new("sasl-plus");
    let pando = start(&scratch);
    let secured = || pando.connect().start_tls(&Tls::insecure().unwrap(), "localhost").unwrap();
    let anna = ("anna", "anna-s3cret");
    let plus = "SCRAM-SHA-256-PLUS";
    let mut connection = secured();
    let data = connection.channel_binding().unwrap();
    let here = Some(("tls-exporter", &data[..]));
    assert_eq!(scram(&mut connection, plus, anna, here), ResultCode::SUCCESS);
    let there = Some(("tls-exporter", &[7; 32][..]));
    assert_eq!(scram(&mut connection, plus, anna, there), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(scram(&mut connection, plus, anna, None), ResultCode::PROTOCOL_ERROR);
    let unique = Some(("tls-unique", &[7; 32][..]));
    assert_eq!(scram(&mut connection, plus, anna, unique), ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    assert_eq!(scram(&mut connection, "SCRAM-SHA-256", anna, None), ResultCode::SUCCESS);
    // The flag `y` says that the client believes that the server has no channel binding: an attacker may have changed
    // the list of mechanisms (RFC 5802 section 6).
    let lied = sasl_bind(&mut connection, "SCRAM-SHA-256", b"y,,n=anna,r=x");
    assert_eq!(lied.0, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    let offered = |connection: &mut Connection| {
        let root = connection.search("", Scope::BaseObject, "(objectClass=*)", &["supportedSASLMechanisms"]);
        root.unwrap().entries[0].texts("supportedSASLMechanisms")
    };
    assert!(offered(&mut connection).contains(&plus.to_owned()));
    let mut clear = pando.connect();
    let in_clear = offered(&mut clear);
    assert!(!in_clear.contains(&plus.to_owned()) && in_clear.contains(&"SCRAM-SHA-256".to_owned()));
    assert!(!in_clear.contains(&"EXTERNAL".to_owned()), "{in_clear:?}");
    assert_eq!(scram(&mut clear, plus, anna, here), ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    assert_eq!(sasl_bind(&mut clear, "SCRAM-SHA-256", b"y,,n=anna,r=x").0, ResultCode::SASL_BIND_IN_PROGRESS);
}

/// Channel binding to the server's certificate (RFC 5929 section 4) works with OpenLDAP's clients too.
#[test]
fn proofs_are_bound_to_the_certificate() {
    let scratch = Scratch::new("sasl-end-point");
    let pando = start(&scratch);
    let anna = ("anna", "anna-s3cret");
    let certificate = Pando::data(&scratch).join("tls/certificate.pem");
    let digest = format!(
        "openssl x509 -in {} -outform DER | openssl dgst -sha256 -binary | openssl base64",
        certificate.display()
    );
    let digest = run("sh", &["-c", &digest], "").expect_code(0).stdout;
    let digest = base64::engine::general_purpose::STANDARD.decode(digest.trim()).unwrap();
    let mut connection = pando.connect().start_tls(&Tls::insecure().unwrap(), "localhost").unwrap();
    for (mechanism, kind) in [
        ("SCRAM-SHA-256-PLUS", "tls-server-end-point"),
        // Channel binding is also accepted with a mechanism without -PLUS.
        ("SCRAM-SHA-512", "tls-server-end-point"),
    ] {
        let right = Some((kind, &digest[..]));
        assert_eq!(scram(&mut connection, mechanism, anna, right), ResultCode::SUCCESS, "{mechanism}");
        let wrong = Some((kind, &[7; 32][..]));
        assert_eq!(scram(&mut connection, mechanism, anna, wrong), ResultCode::INVALID_CREDENTIALS);
    }
    // Channel binding data of another type is refused.
    let exporter = connection.channel_binding().unwrap();
    let mixed = Some(("tls-server-end-point", &exporter[..]));
    assert_eq!(scram(&mut connection, "SCRAM-SHA-256-PLUS", anna, mixed), ResultCode::INVALID_CREDENTIALS);
    // Without TLS, there is no channel to bind to.
    let right = Some(("tls-server-end-point", &digest[..]));
    let refused = scram(&mut pando.connect(), "SCRAM-SHA-256", anna, right);
    assert_eq!(refused, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    let url = format!("ldap://{}", pando.address());
    for (secret, code) in [("anna-s3cret", 0), ("wrong", 49)] {
        let environment = ["-u", "LDAPNOINIT", "LDAPTLS_REQCERT=never", "LDAPSASL_CBINDING=tls-endpoint"];
        let who = ["ldapwhoami", "-Q", "-O", "none", "-ZZ", "-H", &url, "-Y", "SCRAM-SHA-256"];
        let bound = ["-U", "anna", "-w", secret];
        run("env", &[&environment[..], &who, &bound].concat(), "").expect_code(code);
    }
}

/// After any malformed message, the client is anonymous, and the next exchange works.
#[test]
fn broken_exchanges_leave_the_session_anonymous() {
    let scratch = Scratch::new("sasl-broken");
    let pando = start(&scratch);
    let mut connection = pando.connect();
    let anna = ("anna", "anna-s3cret");
    let nobody = |connection: &mut Connection| {
        let who = connection.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
        assert_eq!(who.extended.value.as_deref(), Some(&b""[..]));
    };
    for (mechanism, credentials) in [
        ("PLAIN", &b""[..]),
        ("PLAIN", b"\0anna"),
        ("PLAIN", b"\0anna\0"),
        ("PLAIN", b"\0anna\0anna-s3cret\0"),
        ("SCRAM-SHA-256", b""),
        ("SCRAM-SHA-256", b"n,,n=anna"),
        ("SCRAM-SHA-256", b"p=tls-exporter,,n=anna,r=x"),
        ("SCRAM-SHA-256", b"c=biws,r=x,p=AAAA"),
        ("SCRAM-SHA-256", b"n,,m=x,n=anna,r=x"),
        ("SCRAM-SHA-256", b"n,,n=anna,r=x,m=x"),
        ("GSSAPI", b""),
        ("CRAM-MD5", b"anna b913a602c7eda7a495b4e6e7334d3890"),
        ("", b""),
    ] {
        assert_eq!(scram(&mut connection, "SCRAM-SHA-256", anna, None), ResultCode::SUCCESS);
        let (code, _) = sasl_bind(&mut connection, mechanism, credentials);
        assert!(
            code != ResultCode::SUCCESS && code != ResultCode::SASL_BIND_IN_PROGRESS,
            "{mechanism} {code:?}"
        );
        nobody(&mut connection);
    }
    // A different operation or mechanism ends an exchange.
    let first = b"n,,n=anna,r=x";
    for between in [true, false] {
        let (code, challenge) = sasl_bind(&mut connection, "SCRAM-SHA-256", first);
        assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS);
        match between {
            true => nobody(&mut connection),
            false => assert_eq!(sasl_bind(&mut connection, "SCRAM-SHA-512", first).0, code),
        }
        let (client, _) = Client::begin(Hash::Sha256, "anna", "x", None);
        let (last, _) = client.finish(&challenge, "anna-s3cret", &mut None).unwrap();
        let (code, _) = sasl_bind(&mut connection, "SCRAM-SHA-256", last.as_bytes());
        assert_eq!(code, ResultCode::PROTOCOL_ERROR, "it is read as a first message");
    }
    // An unknown name always has the same salt, and different names have different salts.
    let mut salt_for = |identity: &str, name: &str| {
        nobody(&mut connection);
        let first = format!("n,{identity},n={name},r=x");
        let (code, challenge) = sasl_bind(&mut connection, "SCRAM-SHA-256", first.as_bytes());
        assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS);
        challenge.split(',').nth(1).unwrap().to_owned()
    };
    // An authorization identity that the user may not assume does not change the salt. It did for names that exist.
    for name in ["anna", "ghost"] {
        for identity in ["a=u:bert", "a=u:zzz"] {
            assert_eq!(salt_for("", name), salt_for(identity, name), "{name} {identity}");
        }
    }
    let mut salt = |name: &str| salt_for("", name);
    assert_ne!(salt("ghost"), salt("spirit"));
    // A name has one salt, however it is spelled and whether or not it exists. Otherwise two spellings would show
    // whether it exists.
    for spelling in ["Ghost", "u:ghost", " ghost", "u:GHOST  "] {
        assert_eq!(salt("ghost"), salt(spelling), "{spelling:?}");
    }
    for spelling in ["Anna", "u:anna", " anna"] {
        assert_eq!(salt("anna"), salt(spelling), "{spelling:?}");
    }
}

/// A CRAM-MD5 response is valid only for its challenge, and counts as an attempt.
#[test]
fn a_cram_md5_response_is_valid_for_one_challenge() {
    let scratch = Scratch::new("sasl-cram");
    let pando = start(&scratch);
    let mut connection = pando.connect();
    let challenge = |connection: &mut Connection| {
        let (code, challenge) = sasl_bind(connection, "CRAM-MD5", b"");
        assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS);
        challenge
    };
    let answer = |challenge: &str, name: &str| {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let mac = Hmac::<md5::Md5>::new_from_slice(format!("{name}-s3cret").as_bytes()).unwrap();
        let digest = mac.chain_update(challenge).finalize().into_bytes();
        format!("{name} {}", HEXLOWER.encode(&digest))
    };
    let first = challenge(&mut connection);
    let said = answer(&first, "bert");
    let cram = |connection: &mut Connection, said: &str| sasl_bind(connection, "CRAM-MD5", said.as_bytes()).0;
    assert_eq!(cram(&mut connection, &said), ResultCode::SUCCESS);
    assert_eq!(cram(&mut connection, &said), ResultCode::PROTOCOL_ERROR, "the challenge is used up");
    for _ in 0..3 {
        assert_ne!(challenge(&mut connection), first);
        assert_eq!(cram(&mut connection, &said), ResultCode::INVALID_CREDENTIALS, "of another challenge");
    }
    let next = challenge(&mut connection);
    assert_eq!(cram(&mut connection, &answer(&next, "bert")), ResultCode::INVALID_CREDENTIALS, "locked");
    let next = challenge(&mut connection);
    assert_eq!(cram(&mut connection, &answer(&next, "anna")), ResultCode::SUCCESS);
}

fn md5(parts: &[&[u8]]) -> Vec<u8> {
    use md5::Digest as _;
    md5::Md5::digest(parts.concat()).to_vec()
}

/// Returns a client's DIGEST-MD5 response to a challenge, and the server's response that proves a right password.
fn digest_response(challenge: &str, (name, password): (&str, &str), realm: &str) -> (String, String) {
    let nonce = challenge.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let uri = "ldap/localhost";
    let secret = md5(&[name.as_bytes(), b":", realm.as_bytes(), b":", password.as_bytes()]);
    let session = HEXLOWER.encode(&md5(&[&secret, b":", nonce.as_bytes(), b":of-the-test"]));
    let digest = |method: &str| {
        let request = HEXLOWER.encode(&md5(&[method.as_bytes(), b":", uri.as_bytes()]));
        HEXLOWER.encode(&md5(&[format!("{session}:{nonce}:00000001:of-the-test:auth:{request}").as_bytes()]))
    };
    let response = format!(
        "charset=utf-8,username=\"{name}\",realm=\"{realm}\",nonce=\"{nonce}\",nc=00000001,\
        cnonce=\"of-the-test\",digest-uri=\"{uri}\",response={},qop=auth",
        digest("AUTHENTICATE")
    );
    (response, format!("rspauth={}", digest("")))
}

fn digest_challenge(connection: &mut Connection) -> String {
    let (code, challenge) = sasl_bind(connection, "DIGEST-MD5", b"");
    assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS);
    challenge
}

/// Performs a complete DIGEST-MD5 exchange in a realm.
fn digest_md5(connection: &mut Connection, user: (&str, &str), realm: &str) -> ResultCode {
    let challenge = digest_challenge(connection);
    let (response, expected) = digest_response(&challenge, user, realm);
    let (code, said) = sasl_bind(connection, "DIGEST-MD5", response.as_bytes());
    assert_eq!(said, if code == ResultCode::SUCCESS { expected } else { String::new() });
    code
}

/// A DIGEST-MD5 response is valid only for its challenge, and counts as an attempt.
#[test]
fn a_digest_md5_response_is_valid_for_one_challenge() {
    let scratch = Scratch::new("sasl-digest");
    let pando = start(&scratch);
    let mut connection = pando.connect();
    let bert = ("bert", "bert-s3cret");
    let say =
        |connection: &mut Connection, said: &str| sasl_bind(connection, "DIGEST-MD5", said.as_bytes()).0;
    let challenge = digest_challenge(&mut connection);
    let begins = format!("realm=\"{REALM}\",nonce=\"");
    assert!(challenge.starts_with(&begins), "{challenge}");
    assert!(challenge.ends_with(",qop=\"auth\",charset=utf-8,algorithm=md5-sess"), "{challenge}");
    let (first, expected) = digest_response(&challenge, bert, REALM);
    let done = sasl_bind(&mut connection, "DIGEST-MD5", first.as_bytes());
    assert_eq!(done, (ResultCode::SUCCESS, expected));
    // The nonce was used before, so the client receives a new one (RFC 2831 section 2.2).
    let (code, again) = sasl_bind(&mut connection, "DIGEST-MD5", first.as_bytes());
    assert!(code == ResultCode::SASL_BIND_IN_PROGRESS && again.starts_with(&begins) && again != challenge);
    assert_eq!(say(&mut connection, &first), ResultCode::INVALID_CREDENTIALS, "of another challenge");
    // Malformed responses, and responses with unsupported options, do not count as attempts.
    for (old, new, expected) in [
        ("nc=00000001", "nc=00000002", ResultCode::PROTOCOL_ERROR),
        ("qop=auth", "qop=auth-conf", ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        ("qop=auth", "qop=auth-int", ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        ("qop=auth", "qop=auth,realm=\"x\"", ResultCode::PROTOCOL_ERROR),
        ("ldap/localhost", "imap/localhost", ResultCode::PROTOCOL_ERROR),
        ("username=\"bert\",", "", ResultCode::PROTOCOL_ERROR),
    ] {
        let challenge = digest_challenge(&mut connection);
        let (response, _) = digest_response(&challenge, bert, REALM);
        assert_eq!(say(&mut connection, &response.replace(old, new)), expected, "{new}");
    }
    assert_eq!(digest_md5(&mut connection, ("nobody", "x"), REALM), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(digest_md5(&mut connection, bert, "other.example.com"), ResultCode::INVALID_CREDENTIALS);
    let wrong = digest_md5(&mut connection, ("bert", "wrong"), REALM);
    assert_eq!(wrong, ResultCode::INVALID_CREDENTIALS);
    assert_eq!(digest_md5(&mut connection, bert, REALM), ResultCode::INVALID_CREDENTIALS, "locked");
    let mut administrator = pando.administrator();
    let failures = administrator.entry(&person_dn("bert"), &["pwdFailureTime"]).unwrap().unwrap();
    assert_eq!(failures.values("pwdFailureTime").len(), 3, "the replay, the other realm, the wrong password");
    let anna = ("anna", "anna-s3cret");
    assert_eq!(digest_md5(&mut connection, anna, REALM), ResultCode::SUCCESS);
    // Starting another exchange ends the first exchange.
    let challenge = digest_challenge(&mut connection);
    assert_eq!(sasl_bind(&mut connection, "CRAM-MD5", b"").0, ResultCode::SASL_BIND_IN_PROGRESS);
    let (response, _) = digest_response(&challenge, anna, REALM);
    assert_eq!(say(&mut connection, &response), ResultCode::SASL_BIND_IN_PROGRESS, "a new challenge");
}

/// Regression test: under a password policy, the authorization identity was ignored.
#[test]
fn proxied_users_act_under_a_policy() {
    let scratch = Scratch::new("sasl-acts-as");
    let pando = start(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let rule = format!("agents: allow proxy at '{bert}' to user '{anna}'");
    replace(&mut pando.administrator(), "cn=config", "pandoAccessRule", &[&rule]);
    for mechanism in ["PLAIN", "DIGEST-MD5"] {
        let as_whom =
            |whom: &str| who_am_i(&pando, &["-Y", mechanism, "-U", "anna", "-w", "anna-s3cret", "-X", whom]);
        as_whom("u:bert").expect_code(0).expect_output(&bert);
        as_whom("u:anna").expect_code(0).expect_output(&anna);
        as_whom(&format!("dn:{ADMIN_DN}")).expect_code(49);
    }
}

/// DIGEST-MD5 keys depend on the names and the realm. If a name or the realm changes, the keys are replaced. Their
/// number is limited, and they exist only while the mechanism is enabled.
#[test]
fn digest_md5_keys_depend_on_names_and_realm() {
    let scratch = Scratch::new("sasl-digest-keys");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let keys = |administrator: &mut Connection, dn: &str| {
        let entry = administrator.entry(dn, &["pandoScramKeys"]).unwrap().unwrap();
        let of_digest = |key: &String| key.starts_with("DIGEST-MD5$");
        let mut keys: Vec<String> = entry.texts("pandoScramKeys").into_iter().filter(of_digest).collect();
        keys.sort();
        keys
    };
    let digest = |user: (&str, &str), realm: &str| digest_md5(&mut pando.connect(), user, realm);
    // An entry with a thousand names has keys for only four names.
    let names: Vec<String> = (0..1_000).map(|number| format!("many{number:04}")).collect();
    let mut many = vec![("objectClass", "inetOrgPerson"), ("cn", "many"), ("sn", "many")];
    many.extend(names.iter().map(|name| ("uid", name.as_str())));
    many.push(("userPassword", "many-s3cret"));
    let dn = format!("cn=many,{SUFFIX}");
    assert!(administrator.add(&dn, &many).unwrap().is_success());
    assert_eq!(keys(&mut administrator, &dn).len(), 4);
    assert_eq!(digest(("many0000", "many-s3cret"), REALM), ResultCode::SUCCESS);
    assert_eq!(digest(("many0999", "many-s3cret"), REALM), ResultCode::INVALID_CREDENTIALS);
    replace(&mut administrator, &dn, "userPassword", &["another"]);
    assert_eq!(keys(&mut administrator, &dn).len(), 4);
    assert_eq!(digest(("many0000", "many-s3cret"), REALM), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(digest(("many0000", "another"), REALM), ResultCode::SUCCESS);

    // The next successful simple bind creates a key for a new name, and removes the key of the old one.
    let simple = |name: &str, password: &str| {
        let mut connection = pando.connect();
        assert!(connection.bind(&person_dn(name), password).unwrap().is_success());
        // The response to this bind means that the writer has completed the earlier changes of this connection.
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        replace(&mut connection, &person_dn("bert"), "description", &["done"]);
    };
    let anna = person_dn("anna");
    let (old, name) = (keys(&mut administrator, &anna), format!("${REALM}$anna"));
    assert!(old.len() == 1 && old[0].ends_with(&name), "{old:?}");
    let add: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "uid", &["änn"])];
    assert!(administrator.modify(&anna, add).unwrap().is_success());
    assert_eq!(digest(("anna", "anna-s3cret"), REALM), ResultCode::SUCCESS);
    assert_eq!(keys(&mut administrator, &anna), old);
    simple("anna", "anna-s3cret");
    let both = keys(&mut administrator, &anna);
    assert!(both.len() == 2 && both.contains(&old[0]), "{both:?}");
    let latin = md5(&[b"\xe4nn:", REALM.as_bytes(), b":anna-s3cret"]);
    let latin = base64::engine::general_purpose::STANDARD.encode(latin);
    assert!(both.contains(&format!("DIGEST-MD5${latin}${REALM}$änn")), "{both:?}");
    simple("anna", "anna-s3cret");
    assert_eq!(keys(&mut administrator, &anna), both);

    // Another realm needs new keys.
    replace(&mut administrator, "cn=config", "pandoSaslRealm", &["OTHER"]);
    assert_eq!(digest(("anna", "anna-s3cret"), REALM), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(digest(("anna", "anna-s3cret"), "OTHER"), ResultCode::INVALID_CREDENTIALS);
    simple("anna", "anna-s3cret");
    assert_eq!(digest(("anna", "anna-s3cret"), "OTHER"), ResultCode::SUCCESS);
    assert!(keys(&mut administrator, &anna).iter().all(|key| key.contains("$OTHER$")));

    // The mechanism is disabled unless the settings name it and a valid realm.
    let set = |administrator: &mut Connection, attribute: &str, values: &[&str]| {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, attribute, values)];
        administrator.modify("cn=config", change).unwrap().code
    };
    for realm in [&[][..], &["a realm"], &["a$b"], &["a\"b"]] {
        let code = set(&mut administrator, "pandoSaslRealm", realm);
        assert_eq!(code, ResultCode::CONSTRAINT_VIOLATION, "{realm:?}");
    }
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", &["PLAIN", "CRAM-MD5"]);
    let refused = sasl_bind(&mut pando.connect(), "DIGEST-MD5", b"").0;
    assert_eq!(refused, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    let offered = |administrator: &mut Connection| {
        let root =
            administrator.search("", Scope::BaseObject, "(objectClass=*)", &["supportedSASLMechanisms"]);
        root.unwrap().entries[0].texts("supportedSASLMechanisms")
    };
    assert!(!offered(&mut administrator).contains(&"DIGEST-MD5".to_owned()));
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", &["digest-md5"]);
    assert_eq!(offered(&mut administrator), ["DIGEST-MD5"]);
}

/// A SCRAM attempt counts as a bind for the password policy, and a new password gets new keys.
#[test]
fn the_password_policy_holds_for_scram() {
    let scratch = Scratch::new("sasl-policy");
    let pando = start(&scratch);
    let mut connection = pando.connect();
    let bert = |password| ("bert", password);
    let mechanism = "SCRAM-SHA-512";
    for _ in 0..3 {
        let code = scram(&mut connection, mechanism, bert("wrong"), None);
        assert_eq!(code, ResultCode::INVALID_CREDENTIALS);
    }
    let code = scram(&mut connection, mechanism, bert("bert-s3cret"), None);
    assert_eq!(code, ResultCode::INVALID_CREDENTIALS, "locked");
    let mut administrator = pando.administrator();
    let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["another"])];
    assert!(administrator.modify(&person_dn("bert"), set).unwrap().is_success());
    assert_eq!(scram(&mut connection, mechanism, bert("another"), None), ResultCode::SUCCESS);
    let code = scram(&mut connection, mechanism, bert("bert-s3cret"), None);
    assert_eq!(code, ResultCode::INVALID_CREDENTIALS);
    // A password that is set as a hash has no keys, and the old keys are removed.
    let hashed = "{SSHA}/vUKeMoEpCv9DPX1HjgVWcQpT3BhbHQx";
    let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[hashed])];
    assert!(administrator.modify(&person_dn("bert"), set).unwrap().is_success());
    let code = scram(&mut connection, mechanism, bert("another"), None);
    assert_eq!(code, ResultCode::INVALID_CREDENTIALS);
    // A successful simple bind creates the keys; a failed bind does not.
    let hashed = directory::password::hash(StorageScheme::Ssha512, b"imported", &[7; 16]);
    let hashed = String::from_utf8(hashed).unwrap();
    let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[&hashed])];
    assert!(administrator.modify(&person_dn("bert"), set).unwrap().is_success());
    let simple = |password: &str| {
        let mut connection = pando.connect();
        let code = connection.bind(&person_dn("bert"), password).unwrap().code;
        // The response to this bind means that the writer has completed the earlier changes of this connection.
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        let note: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &[password])];
        assert!(connection.modify(&person_dn("anna"), note).unwrap().is_success());
        code
    };
    assert_eq!(simple("another"), ResultCode::INVALID_CREDENTIALS);
    let code = scram(&mut connection, mechanism, bert("imported"), None);
    assert_eq!(code, ResultCode::INVALID_CREDENTIALS);
    assert_eq!(simple("imported"), ResultCode::SUCCESS);
    assert_eq!(scram(&mut connection, mechanism, bert("imported"), None), ResultCode::SUCCESS);
    let made = administrator.entry(&person_dn("bert"), &["pandoScramKeys", "userPassword"]).unwrap().unwrap();
    assert_eq!(made.values("pandoScramKeys").len(), 5);
    // Only the administrator can read keys.
    let mut anna = pando.connect();
    assert_eq!(scram(&mut anna, mechanism, ("anna", "anna-s3cret"), None), ResultCode::SUCCESS);
    let own = anna.entry(&person_dn("anna"), &["*", "+"]).unwrap().unwrap();
    assert!(own.values("pandoScramKeys").is_empty() && own.values("pwdHistory").is_empty());
    let all = administrator.entry(&person_dn("anna"), &["pandoScramKeys"]).unwrap().unwrap();
    assert_eq!(all.values("pandoScramKeys").len(), 5);
}

/// An exchange is judged by the state of the account at its end, not at its beginning.
#[test]
fn a_lock_during_a_sasl_exchange_takes_effect() {
    let scratch = Scratch::new("sasl-locked-meanwhile");
    let pando = start(&scratch);
    let (mut connection, mut other) = (pando.connect(), pando.connect());
    let mechanism = "SCRAM-SHA-512";
    let (hash, _) = Hash::of_mechanism(mechanism).unwrap();
    let (client, first) = Client::begin(hash, "bert", "a-nonce-of-the-test", None);
    let (code, challenge) = sasl_bind(&mut connection, mechanism, first.as_bytes());
    assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS);
    let mut administrator = pando.administrator();
    let locked: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pwdAccountLockedTime", &["000001010000Z"])];
    assert!(administrator.modify(&person_dn("bert"), locked).unwrap().is_success());
    let (last, _) = client.finish(&challenge, "bert-s3cret", &mut None).unwrap();
    assert_eq!(sasl_bind(&mut connection, mechanism, last.as_bytes()).0, ResultCode::INVALID_CREDENTIALS);
    let unlocked: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdAccountLockedTime", &[])];
    assert!(administrator.modify(&person_dn("bert"), unlocked).unwrap().is_success());
    assert_eq!(scram(&mut other, mechanism, ("bert", "bert-s3cret"), None), ResultCode::SUCCESS);
}

#[test]
fn a_name_that_two_entries_have_is_refused() {
    let scratch = Scratch::new("sasl-names");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let plain = |credentials: &[u8]| sasl_bind(&mut pando.connect(), "PLAIN", credentials).0;
    assert_eq!(plain(b"\0ANNA\0anna-s3cret"), ResultCode::SUCCESS, "uid ignores case");
    let twin = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "twin"),
        ("sn", "twin"),
        ("uid", "anna"),
        ("userPassword", "anna-s3cret"),
    ];
    assert!(administrator.add(&format!("uid=anna,{SUFFIX}"), &twin).unwrap().is_success());
    assert_eq!(plain(b"\0anna\0anna-s3cret"), ResultCode::INVALID_CREDENTIALS);
    let dn = format!("\0dn:{}\0anna-s3cret", person_dn("anna"));
    assert_eq!(plain(dn.as_bytes()), ResultCode::SUCCESS);
    // The settings may name another attribute for user names. This attribute must have an index.
    let by = |attribute: &'static str| [(ChangeOperation::Replace, "pandoIdentityAttribute", [attribute])];
    for (attribute, code) in [("cn", ResultCode::SUCCESS), ("description", ResultCode::INVALID_CREDENTIALS)] {
        let changes = by(attribute);
        let changes: Vec<(_, &str, &[&str])> =
            changes.iter().map(|(operation, name, values)| (*operation, *name, &values[..])).collect();
        assert!(administrator.modify("cn=config", &changes).unwrap().is_success());
        assert_eq!(plain(b"\0anna\0anna-s3cret"), code, "{attribute}");
    }
}
