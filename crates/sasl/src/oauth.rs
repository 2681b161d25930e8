//! OAUTHBEARER (RFC 7628). The client authenticates with a token and not with a password.
//!
//! ```text
//! client   n,a=user@example.com,^Ahost=ldap.example.com^Aport=636^Aauth=Bearer TOKEN^A^A
//! server   success, or {"status":"invalid_token"} and then
//! client   ^A
//! server   failure
//! ```

use crate::SaslError;
use crate::limits::BEARER_MESSAGE_SIZE_MAX;

/// Separator between the parts of a message.
const SEPARATOR: char = '\u{1}';

/// The first message of the client. It does not implement `Debug`, because it contains the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer<'a> {
    /// Authorization identity that the client requests. It is empty if the client requests none.
    pub authorization: String,
    /// The token. It is empty if the client only asks what the server requires (RFC 7628 section 4.3).
    pub token: &'a str,
}

impl<'a> Bearer<'a> {
    /// Parses the message (RFC 7628 section 3.1).
    ///
    /// # Errors
    /// The message is malformed.
    pub fn parse(message: &'a [u8]) -> Result<Bearer<'a>, SaslError> {
        let malformed = SaslError::Malformed;
        if message.len() > BEARER_MESSAGE_SIZE_MAX {
            return Err(malformed("it is too long"));
        }
        let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        let (header, pairs) = text.split_once(SEPARATOR).ok_or(malformed("a part ends with the octet 1"))?;
        let mut parts = header.splitn(3, ',');
        let authorization = match (parts.next(), parts.next(), parts.next()) {
            (Some("n" | "y"), Some(""), Some("")) => String::new(),
            (Some("n" | "y"), Some(name), Some("")) => {
                crate::scram::sasl_name(name.strip_prefix("a=").ok_or(malformed("a= expected"))?)?
            }
            _ => return Err(malformed("it begins with n,, or n,a=NAME,")),
        };
        // A separator ends each pair, and another separator ends the message. UnboundID's SDK omits the last separator.
        let pairs = pairs.strip_suffix(SEPARATOR).ok_or(malformed("it ends with the octet 1"))?;
        let mut token = None;
        for pair in pairs.split_terminator(SEPARATOR) {
            let (key, value) = pair.split_once('=').ok_or(malformed("KEY=VALUE expected"))?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
            match (is_key, key, token) {
                (true, "auth", None) => token = Some(credentials(value)?),
                (true, "auth", Some(_)) => return Err(malformed("auth is given twice")),
                // The server has only one name. Therefore the host, the port and unknown pairs have no meaning for it.
                (true, ..) => {}
                (false, ..) => return Err(malformed("a key is letters")),
            }
        }
        Ok(Bearer { authorization, token: token.unwrap_or_default() })
    }

    /// Returns the message of a client with this token. Intended for tests and load generators.
    pub fn message(token: &str) -> String {
        format!("n,,{SEPARATOR}auth=Bearer {token}{SEPARATOR}{SEPARATOR}")
    }
}

/// Returns the token in credentials of the same form as in HTTP (RFC 6750 section 2.1).
fn credentials(value: &str) -> Result<&str, SaslError> {
    if value.is_empty() {
        return Ok("");
    }
    let malformed = SaslError::Malformed("auth=Bearer and a token expected");
    let (scheme, token) = value.split_once(' ').ok_or(malformed)?;
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_good = scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty() && token.bytes().all(is_token);
    if is_good { Ok(token) } else { Err(malformed) }
}

/// Returns true if `message` is the client's acknowledgement of a failure. The server sends the result after this
/// message (RFC 7628 section 3.2.3).
pub fn is_acknowledgement(message: &[u8]) -> bool {
    message == [1]
}

/// Returns the server's response to an invalid token (RFC 7628 section 3.2.2). The response contains the status and, if
/// the URL of the issuer begins with `https://`, the URL of the issuer's discovery document.
pub fn failure(status: &str, issuer: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let discovery = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    if !issuer.starts_with("https://") {
        return format!("{{\"status\":{}}}", quoted(status));
    }
    format!("{{\"status\":{},\"openid-configuration\":{}}}", quoted(status), quoted(&discovery))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NAME_SIZE_MAX;

    #[test]
    fn messages_are_parsed_or_refused() {
        // The example in RFC 7628 section 4.1.
        let message = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
                        auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        let bearer = Bearer::parse(message).ok().unwrap();
        assert_eq!(bearer.authorization, "user@example.com");
        assert_eq!(bearer.token, "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
        let asks = Bearer::parse(b"n,,\x01auth=\x01\x01").ok().unwrap();
        assert_eq!((asks.authorization.as_str(), asks.token), ("", ""));
        assert!(Bearer::parse(b"n,,\x01\x01").is_ok_and(|bearer| bearer.token.is_empty()));
        assert!(Bearer::parse(b"n,,\x01auth=Bearer a\x01").is_ok_and(|bearer| bearer.token == "a"));
        let own = Bearer::message("a.b.c");
        assert_eq!(Bearer::parse(own.as_bytes()).ok().unwrap().token, "a.b.c");
        let long = format!("n,,\x01auth=Bearer {}\x01\x01", "a".repeat(BEARER_MESSAGE_SIZE_MAX));
        let name = format!("n,a={},\x01auth=Bearer a\x01\x01", "a".repeat(NAME_SIZE_MAX + 1));
        for bad in [
            &b""[..],
            b"\x01",
            b"n,,auth=Bearer a",
            b"n,,\x01auth=Bearer a",
            b"p=x,,\x01auth=Bearer a\x01\x01",
            b"n,b=x,\x01auth=Bearer a\x01\x01",
            b"n,,x\x01auth=Bearer a\x01\x01",
            b"n,,\x01auth=Basic a\x01\x01",
            b"n,,\x01auth=Bearer\x01\x01",
            b"n,,\x01auth=Bearer a b\x01\x01",
            b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
            b"n,,\x01auth\x01\x01",
            b"n,,\x01=x\x01\x01",
            b"n,,\x01auth=Bearer \xff\x01\x01",
            long.as_bytes(),
            name.as_bytes(),
        ] {
            assert!(Bearer::parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn failures_name_the_issuer() {
        assert_eq!(failure("invalid_token", "urn:x\""), r#"{"status":"invalid_token"}"#);
        let text = failure("invalid_token", "https://login.example.com/");
        let expected = "https://login.example.com/.well-known/openid-configuration";
        assert_eq!(text, format!(r#"{{"status":"invalid_token","openid-configuration":"{expected}"}}"#));
        assert!(is_acknowledgement(b"\x01") && !is_acknowledgement(b""));
    }
}
