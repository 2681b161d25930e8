//! Binds with tokens (OAUTHBEARER), by UnboundID's client and by our own.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Connection, Tls};
use ldap::{ChangeOperation, ResultCode, Scope};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sasl::oauth::Bearer;
use test_support::clients::{Run, unboundid_jar_tool};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, plant_policy, replace};
use test_support::{Pando, SUFFIX, Scratch};

const ISSUER: &str = "https://login.example.com";

fn issuer() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[42; 32]).unwrap()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a token with these claims.
fn token(claims: &str) -> String {
    let message = format!("{}.{}", encode(r#"{"alg":"EdDSA","kid":"one"}"#), encode(claims));
    format!("{message}.{}", encode(issuer().sign(message.as_bytes())))
}

/// Returns a token of the issuer for a user, valid until the year 2100.
fn token_of(name: &str) -> String {
    token(&format!(r#"{{"iss":"{ISSUER}","aud":["ldap"],"exp":4102444800,"preferred_username":"{name}"}}"#))
}

/// Starts a server that accepts tokens of the issuer.
fn start(scratch: &Scratch) -> Pando {
    let x = encode(issuer().public_key());
    let keys = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"one","x":"{x}"}}]}}"#);
    scratch.write("keys.json", keys);
    let node = format!(
        "[oauth]\nissuer = \"{ISSUER}\"\naudience = \"ldap\"\nkeys = \"keys.json\"\n\
         claim = \"preferred_username\"\n[log]\noperations = true\nlevel = \"debug\"\n"
    );
    let pando = Start::with_node(scratch, node).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let policy = [("objectClass", "pwdPolicy")];
    plant_policy(&mut administrator, &policy);
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", &["PLAIN", "OAUTHBEARER"]);
    pando
}

fn secured(pando: &Pando) -> Connection {
    pando.connect().start_tls(&Tls::insecure().unwrap(), "localhost").unwrap()
}

fn sasl_bind(connection: &mut Connection, credentials: &[u8]) -> (ResultCode, String) {
    super::sasl::sasl_bind(connection, "OAUTHBEARER", credentials)
}

fn who_am_i(connection: &mut Connection) -> String {
    let reply = connection.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
    String::from_utf8(reply.extended.value.unwrap()).unwrap()
}

/// Runs UnboundID's ldapsearch, bound with a token.
fn unboundid(pando: &Pando, token: &str) -> Run {
    let port = pando.address().port().to_string();
    let token = format!("accessToken={token}");
    let arguments = [
        "--hostname",
        "127.0.0.1",
        "--port",
        &port,
        "--useStartTLS",
        "--trustAll",
        "--saslOption",
        "mech=OAUTHBEARER",
        "--saslOption",
        &token,
        "--baseDN",
        SUFFIX,
        "--scope",
        "sub",
        "(uid=bert)",
        "cn",
    ];
    unboundid_jar_tool("unboundidds.tools.LDAPSearch", &arguments, "")
}

#[test]
fn unboundid_binds_with_a_token() {
    let scratch = Scratch::new("bearer-unboundid");
    let pando = start(&scratch);
    unboundid(&pando, &token_of("anna")).expect_code(0).expect_output("uid=bert");
    let expired = token(&format!(r#"{{"iss":"{ISSUER}","aud":"ldap","exp":1,"preferred_username":"anna"}}"#));
    unboundid(&pando, &expired).expect_code(49);
    let log = pando.log();
    assert!(log.contains("a bind with a token is refused: it has expired"), "{log}");
    for part in token_of("anna").split('.').chain(expired.split('.')) {
        assert!(!log.contains(part), "{part} is in {log}");
    }
}

#[test]
fn invalid_tokens_are_refused_in_two_steps() {
    let scratch = Scratch::new("bearer-refused");
    let pando = start(&scratch);
    let mut connection = secured(&pando);
    let good = Bearer::message(&token_of("anna"));
    assert_eq!(sasl_bind(&mut connection, good.as_bytes()), (ResultCode::SUCCESS, String::new()));
    assert_eq!(who_am_i(&mut connection), format!("dn:{}", person_dn("anna")));
    let refused = |connection: &mut Connection, message: &str| {
        let (code, said) = sasl_bind(connection, message.as_bytes());
        assert_eq!(code, ResultCode::SASL_BIND_IN_PROGRESS, "{message}");
        let discovery = format!("{ISSUER}/.well-known/openid-configuration");
        assert_eq!(said, format!(r#"{{"status":"invalid_token","openid-configuration":"{discovery}"}}"#));
        assert_eq!(sasl_bind(connection, b"\x01").0, ResultCode::INVALID_CREDENTIALS);
        assert_eq!(who_am_i(connection), "");
    };
    let (start, _) = good.rsplit_once('.').unwrap();
    refused(&mut connection, &format!("{start}.AAAA\x01\x01"));
    refused(&mut connection, &Bearer::message(&token_of("ghost")));
    // A claim is never read as a DN, whatever it contains.
    refused(&mut connection, &Bearer::message(&token_of(&format!("dn:{}", person_dn("anna")))));
    refused(&mut connection, &Bearer::message(&token_of(&format!("dn:{}", test_support::ADMIN_DN))));
    refused(&mut connection, "n,,\x01auth=\x01\x01");
    // A token gives no right to use another identity.
    refused(&mut connection, &good.replace("n,,", "n,a=u:bert,"));
    let own = good.replace("n,,", "n,a=u:anna,");
    assert_eq!(sasl_bind(&mut connection, own.as_bytes()).0, ResultCode::SUCCESS);
    // Any message except the acknowledgement starts a new exchange. The acknowledgement alone is an error.
    assert_eq!(sasl_bind(&mut connection, b"\x01").0, ResultCode::PROTOCOL_ERROR);
    // The token of an account that an administrator has locked is refused.
    let lock: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pwdAccountLockedTime", &["000001010000Z"])];
    assert!(pando.administrator().modify(&person_dn("anna"), lock).unwrap().is_success());
    refused(&mut connection, &good);
    // Without TLS, the mechanism is not offered, and a token that is sent nevertheless is not verified.
    let mut clear = pando.connect();
    let bert = Bearer::message(&token_of("bert"));
    assert_eq!(sasl_bind(&mut clear, bert.as_bytes()).0, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    let offered = |connection: &mut Connection| {
        let root = connection.search("", Scope::BaseObject, "(objectClass=*)", &["supportedSASLMechanisms"]);
        root.unwrap().entries[0].texts("supportedSASLMechanisms").contains(&"OAUTHBEARER".to_owned())
    };
    assert!(!offered(&mut clear) && offered(&mut connection));
}

#[test]
fn an_incomplete_oauth_table_is_refused() {
    let scratch = Scratch::new("bearer-half");
    let check = |table: &str, what: &str| {
        let (_, said) = Start::with_node(&scratch, format!("[oauth]\n{table}\n")).refused();
        assert!(said.contains(what), "{said}");
    };
    check("claim = \"sub\"", "issuer, audience and keys together");
    check("issuer = \"a\"\naudience = \"b\"\nkeys = \"none.json\"", "none.json");
    scratch.write("keys.json", "{\"keys\":[]}");
    check("issuer = \"a\"\naudience = \"b\"\nkeys = \"keys.json\"", "no key for RS256, ES256 or EdDSA");
}
