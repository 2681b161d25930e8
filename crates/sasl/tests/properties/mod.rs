//! Properties that every sequence of octets must have. The fuzz target and the replay of its corpus check them.

use sasl::cram::{self, CramKey};
use sasl::digest::{self, DigestKey, LDAP_SERVICE};
use sasl::oauth::Bearer;
use sasl::scram::{Client, ClientFirst, Exchange};
use sasl::{Hash, Plain, ScramKeys, TokenKeys, TokenRules};

/// Returns the rules for tokens of an issuer whose private key is unknown.
fn rules() -> TokenRules {
    let keys =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}]}"#;
    TokenRules {
        issuer: "issuer".to_owned(),
        audience: "audience".to_owned(),
        claim: "sub".to_owned(),
        clock_skew_seconds: 60,
        keys: TokenKeys::parse(keys).expect("a key"),
    }
}

/// Parses the octets as each message of each mechanism. No function panics, results are limited in size, and only the
/// proof of the password completes an exchange.
pub(crate) fn sasl(bytes: &[u8]) {
    if let Ok(plain) = Plain::parse(bytes) {
        assert!(!plain.authentication.is_empty() && !plain.password.is_empty());
        let again = [plain.authorization.as_bytes(), plain.authentication.as_bytes(), plain.password];
        assert_eq!(again.join(&0), bytes);
    }
    if let Ok(answer) = cram::Answer::parse(bytes) {
        assert!(!answer.name.is_empty() && !answer.is_right(&CramKey::of_unknown_user(), "<1.2@pando>"));
    }
    if let Ok(response) = digest::Response::parse(bytes, LDAP_SERVICE) {
        assert!(!response.name.is_empty() && bytes.len() < 4_096);
        let key = DigestKey::derive(&response.name, "realm", "a password of no user");
        let (exchange, _) = digest::Exchange::begin("realm", "nonce");
        assert!(exchange.finish(&response, Some(&key)).is_err() && exchange.finish(&response, None).is_err());
    }
    if let Ok(bearer) = Bearer::parse(bytes) {
        assert!(bearer.token.is_ascii() && bearer.authorization.len() <= 1_024);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(key) = CramKey::parse(text) {
            assert_eq!(CramKey::parse(&key.text()), Some(key));
        }
        if let Some(key) = DigestKey::parse(text) {
            assert_eq!(DigestKey::parse(&key.text()), Some(key));
        }
        let _ = TokenKeys::parse(text);
        assert!(rules().user(text, 0).is_err(), "an unsigned token");
        if let Some(keys) = ScramKeys::parse(text) {
            assert_eq!(ScramKeys::parse(&keys.text()), Some(keys));
        }
        // The server of this client sends arbitrary messages.
        let (client, _) = Client::begin(Hash::Sha256, "user", "nonce", None);
        if text.split("i=").nth(1).and_then(|rest| rest.parse::<u32>().ok()).is_none_or(|count| count < 100) {
            let _ = client.finish(text, "password", &mut None);
        }
    }
    let keys = || ScramKeys::of_unknown_user(Hash::Sha256, b"secret", b"user", 4_096);
    if let Ok(first) = ClientFirst::parse(bytes) {
        assert!(!first.name.is_empty());
        let (exchange, challenge) = Exchange::begin(&first, keys(), "server");
        assert!(challenge.starts_with("r="));
        assert!(exchange.finish(bytes, b"").is_err());
    }
    if let Ok(first) = ClientFirst::parse(b"n,,n=user,r=client") {
        let (exchange, _) = Exchange::begin(&first, keys(), "server");
        assert!(exchange.finish(bytes, b"").is_err(), "keys of no user");
    }
}
