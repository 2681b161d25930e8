//! The credentials in a request: HTTP Basic (RFC 7617) or a bearer token (RFC 6750).

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::error::{Result, ScimError};
use crate::limits::CREDENTIALS_SIZE_MAX;

/// Credentials for a bind. This enum does not implement `Debug`, because it contains passwords and tokens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A DN and its password for a simple bind.
    Dn { name: String, password: String },
    /// A user name and its password for SASL PLAIN.
    User { name: String, password: String },
    /// A token for SASL OAUTHBEARER. Its issuer is in the settings `[oauth]`.
    Token(String),
}

impl Credentials {
    /// Parses the value of the header `Authorization`.
    ///
    /// # Errors
    /// 401 if the header is missing, too long or malformed.
    pub(crate) fn parse(header: Option<&str>) -> Result<Credentials> {
        let refused = || ScimError::new(401, "credentials are required: Basic, or Bearer");
        let header = header.filter(|header| header.len() <= CREDENTIALS_SIZE_MAX).ok_or_else(refused)?;
        let (scheme, rest) = header.split_once(' ').ok_or_else(refused)?;
        let rest = rest.trim_matches(' ');
        if scheme.eq_ignore_ascii_case("basic") {
            return name_and_password(rest).ok_or_else(refused);
        }
        let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~+/=".contains(&octet);
        if !scheme.eq_ignore_ascii_case("bearer") || rest.is_empty() || !rest.bytes().all(is_token) {
            return Err(refused());
        }
        // A JSON Web Token contains two dots, and base64 contains none. Many identity providers can only send a bearer
        // token. They may send a name and an application password in base64 as the token.
        if rest.contains('.') {
            return Ok(Credentials::Token(rest.to_owned()));
        }
        Ok(name_and_password(rest).unwrap_or_else(|| Credentials::Token(rest.to_owned())))
    }
}

/// Parses `NAME:PASSWORD` from base64. If the name contains `=`, it is a DN.
fn name_and_password(text: &str) -> Option<Credentials> {
    let engines: [&GeneralPurpose; 4] = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
    let octets = engines.into_iter().find_map(|engine| engine.decode(text).ok())?;
    let text = String::from_utf8(octets).ok()?;
    let (name, password) = text.split_once(':')?;
    // A bind with an empty password would be anonymous (RFC 4513 section 5.1.2). NUL is the separator in the message of
    // SASL PLAIN.
    if name.is_empty() || password.is_empty() || text.contains('\0') {
        return None;
    }
    let (name, password) = (name.to_owned(), password.to_owned());
    let is_dn = name.contains('=');
    Some(if is_dn { Credentials::Dn { name, password } } else { Credentials::User { name, password } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_credentials_are_parsed() {
        let basic = |text: &str| Credentials::parse(Some(&format!("Basic {}", STANDARD.encode(text)))).ok();
        let (name, password) = ("anna".to_owned(), "p:w".to_owned());
        let user = Credentials::User { name, password };
        assert!(basic("anna:p:w") == Some(user.clone()));
        let (name, password) = ("uid=a,dc=b".to_owned(), "x".to_owned());
        assert!(basic("uid=a,dc=b:x") == Some(Credentials::Dn { name, password }));
        for refused in ["anna:", ":x", "anna", "a\0b:x", ""] {
            assert!(basic(refused).is_none(), "{refused}");
        }
        let bearer = |token: &str| Credentials::parse(Some(&format!("bearer {token}"))).ok();
        assert!(bearer(&URL_SAFE_NO_PAD.encode("anna:p:w")) == Some(user));
        assert!(bearer("aa.bb.cc") == Some(Credentials::Token("aa.bb.cc".to_owned())));
        assert!(bearer("opaque") == Some(Credentials::Token("opaque".to_owned())));
        for header in
            [None, Some("Basic"), Some("Basic !"), Some("Bearer a b"), Some("Digest x"), Some("Bearer ")]
        {
            assert!(Credentials::parse(header).is_err(), "{header:?}");
        }
        assert!(Credentials::parse(Some(&format!("Bearer {}", "a".repeat(20_000)))).is_err());
    }
}
