//! Access tokens. A token is a JSON Web Token (RFC 7519) with the signature of an issuer (RFC 7515). The public keys of
//! the issuer are in a JWK Set (RFC 7517).
//!
//! The key, never the token, determines the algorithm with which a signature is verified (RFC 8725 section 3.1). The
//! algorithms are RS256, ES256 and EdDSA. This module does not read the clock.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature;
use serde::Deserialize;

use crate::limits::{BEARER_MESSAGE_SIZE_MAX, NAME_SIZE_MAX, TOKEN_KEYS_MAX};

/// The public keys of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeys(Vec<TokenKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct TokenKey {
    id: Option<String>,
    key: PublicKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The conditions for a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// The issuer that the claim `iss` must contain.
    pub issuer: String,
    /// The audience that the claim `aud` must contain.
    pub audience: String,
    /// Name of the claim that contains the name of the user.
    pub claim: String,
    /// Maximum difference between the clocks of the issuer and of this server, in seconds.
    pub clock_skew_seconds: u32,
    /// The keys of the issuer.
    pub keys: TokenKeys,
}

/// The reason why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is not a signed JSON Web Token.
    #[error("it is not a signed JSON Web Token")]
    Malformed,
    /// The header of the token requires an extension that is not supported.
    #[error("its header has \"crit\", and no critical extension is supported")]
    Critical,
    /// No key of the issuer has signed the token.
    #[error("it is not signed by a known key of the issuer")]
    Signature,
    /// The token is from another issuer.
    #[error("it is from another issuer")]
    Issuer,
    /// The token is for another audience.
    #[error("it is for another audience")]
    Audience,
    /// The token does not contain the time at which it expires.
    #[error("it has no \"exp\"")]
    Endless,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("it is not valid yet")]
    Early,
    /// The token does not contain the name of a user.
    #[error("its claim for the user name has no text")]
    Nobody,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl TokenKeys {
    /// Parses a JWK Set. Ignores keys of other types and keys for encryption (RFC 7517 section 5).
    ///
    /// # Errors
    /// The text is not a JWK Set, or contains no supported key.
    pub fn parse(text: &str) -> Result<TokenKeys, String> {
        let set: JwkSet =
            serde_json::from_str(text).map_err(|error| format!("this is no JWK Set: {error}"))?;
        let known = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<TokenKey> = known.filter_map(read_key).take(TOKEN_KEYS_MAX).collect();
        if keys.is_empty() {
            return Err("there is no key for RS256, ES256 or EdDSA in it".to_owned());
        }
        Ok(TokenKeys(keys))
    }
}

fn read_key(jwk: Jwk) -> Option<TokenKey> {
    let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
    let (key, algorithm) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => (PublicKey::Rsa { n: bytes(jwk.n)?, e: bytes(jwk.e)? }, "RS256"),
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes(jwk.x)?, bytes(jwk.y)?);
            let is_whole = x.len() == 32 && y.len() == 32;
            (PublicKey::P256(is_whole.then(|| [&[4], &x[..], &y[..]].concat())?), "ES256")
        }
        ("OKP", Some("Ed25519")) => (PublicKey::Ed25519(bytes(jwk.x)?), "EdDSA"),
        _ => return None,
    };
    // RFC 9864 defines another name for EdDSA with this curve.
    let is_meant = jwk.usage.is_none_or(|usage| usage == "sig")
        && jwk.alg.is_none_or(|named| named == algorithm || (named == "Ed25519" && algorithm == "EdDSA"));
    is_meant.then_some(TokenKey { id: jwk.kid, key })
}

impl PublicKey {
    fn is_for(&self, algorithm: &str) -> bool {
        match self {
            PublicKey::Rsa { .. } => algorithm == "RS256",
            PublicKey::P256(_) => algorithm == "ES256",
            PublicKey::Ed25519(_) => algorithm == "EdDSA" || algorithm == "Ed25519",
        }
    }

    fn has_signed(&self, message: &[u8], of: &[u8]) -> bool {
        match self {
            PublicKey::Rsa { n, e } => signature::RsaPublicKeyComponents { n, e }
                .verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, of)
                .is_ok(),
            PublicKey::P256(point) => {
                signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, of)
                    .is_ok()
            }
            PublicKey::Ed25519(point) => {
                signature::UnparsedPublicKey::new(&signature::ED25519, point).verify(message, of).is_ok()
            }
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// One audience or several (RFC 7519 section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl TokenRules {
    /// Verifies a token. Returns the name of its user. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The token is invalid. The error is the reason.
    pub fn user(&self, token: &str, now: u64) -> Result<String, TokenError> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signed), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed);
        };
        if token.len() > BEARER_MESSAGE_SIZE_MAX {
            return Err(TokenError::Malformed);
        }
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed);
        let message = token.get(..header.len() + 1 + payload.len()).unwrap_or_default().as_bytes();
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
        let signed = decode(signed)?;
        if header.crit.is_some() {
            return Err(TokenError::Critical);
        }
        // A key that has no name may be the key with which the token was signed.
        let is_meant = |key: &&TokenKey| {
            key.key.is_for(&header.alg) && (header.kid.is_none() || key.id.is_none() || key.id == header.kid)
        };
        if !self.keys.0.iter().filter(is_meant).any(|key| key.key.has_signed(message, &signed)) {
            return Err(TokenError::Signature);
        }
        let claims: Claims = serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Malformed)?;
        self.check(&claims, now)?;
        let name = match self.claim.as_str() {
            "iss" => claims.iss.as_deref(),
            claim => claims.others.get(claim).and_then(serde_json::Value::as_str),
        };
        let name = name.filter(|name| !name.is_empty() && name.len() <= NAME_SIZE_MAX);
        name.map(str::to_owned).ok_or(TokenError::Nobody)
    }

    /// Checks the claims of a token (RFC 7519 section 4.1).
    fn check(&self, claims: &Claims, now: u64) -> Result<(), TokenError> {
        if claims.iss.as_deref() != Some(&self.issuer) {
            return Err(TokenError::Issuer);
        }
        let is_for = match &claims.aud {
            None => false,
            Some(Audience::One(one)) => *one == self.audience,
            Some(Audience::Several(several)) => several.contains(&self.audience),
        };
        if !is_for {
            return Err(TokenError::Audience);
        }
        // JSON permits fractions of a second. These numbers are exact for the next 200 million years.
        #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
        let (now, skew) = (now as f64, f64::from(self.clock_skew_seconds));
        match claims.exp {
            None => Err(TokenError::Endless),
            Some(end) if now >= end + skew => Err(TokenError::Expired),
            Some(_) if claims.nbf.is_some_and(|start| now < start - skew) => Err(TokenError::Early),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn ed25519() -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
    }

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn jwk(pair: &Ed25519KeyPair, id: &str) -> String {
        let x = encode(pair.public_key());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{id}","use":"sig","x":"{x}"}}"#)
    }

    fn rules(keys: &str) -> TokenRules {
        TokenRules {
            issuer: "https://login.example.com".to_owned(),
            audience: "ldap".to_owned(),
            claim: "preferred_username".to_owned(),
            clock_skew_seconds: 30,
            keys: TokenKeys::parse(&format!(r#"{{"keys":[{keys}]}}"#)).unwrap(),
        }
    }

    fn signed(header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = encode(ed25519().sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn claims(changed: &str) -> String {
        let usual = [
            ("iss", r#""https://login.example.com""#),
            ("aud", r#"["mail","ldap"]"#),
            ("exp", "1800000100"),
            ("preferred_username", r#""anna""#),
        ];
        let named = |key: &str| changed.contains(&format!("\"{key}\""));
        let kept =
            usual.iter().filter(|(key, _)| !named(key)).map(|(key, value)| format!("\"{key}\":{value}"));
        let changed = (!changed.is_empty()).then(|| changed.to_owned());
        format!("{{{}}}", kept.chain(changed).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn checks_claims_against_the_rules() {
        let rules = rules(&jwk(&ed25519(), "one"));
        let header = r#"{"alg":"EdDSA","kid":"one","typ":"JWT"}"#;
        let check = |changed: &str, expected: Result<&str, TokenError>| {
            let user = rules.user(&signed(header, &claims(changed)), NOW);
            assert_eq!(user.as_deref(), expected.as_ref().copied(), "{changed}");
        };
        check("", Ok("anna"));
        check(r#""aud":"ldap""#, Ok("anna"));
        check(r#""iss":"https://login.example.org""#, Err(TokenError::Issuer));
        check(r#""iss":null"#, Err(TokenError::Issuer));
        check(r#""aud":"mail""#, Err(TokenError::Audience));
        check(r#""aud":[]"#, Err(TokenError::Audience));
        check(r#""aud":null"#, Err(TokenError::Audience));
        check(r#""exp":null"#, Err(TokenError::Endless));
        check(r#""exp":1799999971"#, Ok("anna"));
        check(r#""exp":1799999970"#, Err(TokenError::Expired));
        check(r#""exp":"tomorrow""#, Err(TokenError::Malformed));
        check(r#""nbf":1800000030.0"#, Ok("anna"));
        check(r#""nbf":1800000031"#, Err(TokenError::Early));
        check(r#""preferred_username":"""#, Err(TokenError::Nobody));
        check(r#""preferred_username":7"#, Err(TokenError::Nobody));
        check(r#""exp":1800000100,"exp":1900000000"#, Err(TokenError::Malformed));
    }

    #[test]
    fn only_keys_of_the_issuer_verify_a_token() {
        let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
        let rules = rules(&format!("{},{}", jwk(&other, "other"), jwk(&ed25519(), "one")));
        let user = |token: &str| rules.user(token, NOW);
        let header = r#"{"alg":"EdDSA"}"#;
        let token = signed(header, &claims(""));
        assert_eq!(user(&token).as_deref(), Ok("anna"), "without a name every key is tried");
        let wrong = |token: &str| assert_eq!(user(token), Err(TokenError::Signature), "{token}");
        wrong(&signed(r#"{"alg":"EdDSA","kid":"other"}"#, &claims("")));
        wrong(&signed(r#"{"alg":"none"}"#, &claims("")));
        wrong(&signed(r#"{"alg":"HS256"}"#, &claims("")));
        wrong(&signed(r#"{"alg":"ES256"}"#, &claims("")));
        let (start, _) = token.rsplit_once('.').unwrap();
        wrong(&format!("{start}."));
        let forged = encode(claims(r#""preferred_username":"admin""#));
        let parts: Vec<&str> = token.split('.').collect();
        wrong(&format!("{}.{forged}.{}", parts[0], parts[2]));
        assert_eq!(
            user(&signed(r#"{"alg":"EdDSA","crit":["b64"]}"#, &claims(""))),
            Err(TokenError::Critical)
        );
        for bad in ["", ".", "..", "a.b.c", "a.b.c.d", &token.replace('.', "..."), &format!("{token}=")] {
            assert_eq!(user(bad), Err(TokenError::Malformed), "{bad}");
        }
    }

    #[test]
    fn elliptic_curve_and_rsa_signatures_are_verified() {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let key =
            format!(r#"{{"kty":"EC","crv":"P-256","alg":"ES256","x":"{}","y":"{}"}}"#, encode(x), encode(y));
        let message = format!("{}.{}", encode(r#"{"alg":"ES256"}"#), encode(claims("")));
        let signature = pair.sign(&random, message.as_bytes()).unwrap();
        let token = format!("{message}.{}", encode(signature));
        assert_eq!(rules(&key).user(&token, NOW).as_deref(), Ok("anna"));
        // The example in RFC 7515 appendix A.2. It is signed with RSA by another issuer.
        let key = concat!(
            r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmf"#,
            r#"HQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wG"#,
            r#"zjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZ"#,
            r#"lxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54"#,
            r#"h4FRWyuXpoQ"}"#,
        );
        let token = concat!(
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlL",
            "mNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7",
            "AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWz",
            "O75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZES",
            "c6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlU",
            "PQGe77Rw",
        );
        assert_eq!(rules(key).user(token, NOW), Err(TokenError::Issuer));
        let (start, _) = token.rsplit_once('.').unwrap();
        assert_eq!(rules(key).user(&format!("{start}.AAAA"), NOW), Err(TokenError::Signature));
    }

    #[test]
    fn sets_without_a_key_are_refused() {
        for bad in [
            "",
            "[]",
            r#"{"keys":[]}"#,
            r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#,
            r#"{"keys":[{"kty":"OKP","crv":"X25519","x":"AAAA"}]}"#,
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","use":"enc","x":"AAAA"}]}"#,
            r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}"#,
            r#"{"keys":[{"kty":"RSA","alg":"PS256","n":"AAAA","e":"AQAB"}]}"#,
        ] {
            assert!(TokenKeys::parse(bad).is_err(), "{bad}");
        }
    }
}
