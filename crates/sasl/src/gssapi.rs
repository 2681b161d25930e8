//! GSSAPI (RFC 4752): the messages after the authentication by Kerberos, and the names of principals.
//!
//! ```text
//! client   token of Kerberos          (RFC 4121)
//! server   token of Kerberos
//! client   nothing
//! server   layers and size            both protected by Kerberos
//! client   layer, size, authorization
//! server   success
//! ```

use crate::SaslError;
use crate::limits::NAME_SIZE_MAX;

/// Name of the mechanism.
pub const GSSAPI: &str = "GSSAPI";
/// Name of the mechanism that negotiates (RFC 4178). It has no messages about security layers after those of Kerberos.
pub const GSS_SPNEGO: &str = "GSS-SPNEGO";

/// The bit that stands for no security layer.
const NO_LAYER: u8 = 1;

/// The server's offer of security layers. It contains no layer, and therefore the maximum size of messages in a layer
/// is 0 (RFC 4752 section 3.2).
pub const OFFER: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// Checks the client's choice. Returns the authorization identity. It is empty if the client requests none.
///
/// # Errors
/// The message is malformed, or chooses a layer that was not offered.
pub fn chosen(message: &[u8]) -> Result<&str, SaslError> {
    let malformed = SaslError::Malformed;
    let (layer, identity) = match message {
        // The size applies to messages in a security layer. No layer is used, so the size is ignored.
        [layer, _, _, _, identity @ ..] => (*layer, identity),
        _ => return Err(malformed("four octets and an identity expected")),
    };
    if layer != NO_LAYER {
        return Err(SaslError::NotOffered("there is no security layer here: use TLS"));
    }
    let identity = std::str::from_utf8(identity).map_err(|_| malformed("the identity is not UTF-8"))?;
    if identity.len() > NAME_SIZE_MAX || identity.contains('\0') {
        return Err(malformed("the identity is too long, or has a NUL in it"));
    }
    Ok(identity)
}

/// Splits a principal into its name and its realm.
///
/// Returns `None` if the principal contains quoted characters (RFC 1964 section 2.1.1), because no user has such a
/// name.
pub fn principal_parts(principal: &str) -> Option<(&str, &str)> {
    let (name, realm) = principal.rsplit_once('@')?;
    let is_plain = |part: &str| !part.is_empty() && !part.contains(['@', '\\']);
    (principal.len() <= NAME_SIZE_MAX && is_plain(name) && is_plain(realm)).then_some((name, realm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_choice_of_no_security_layer_is_accepted() {
        assert_eq!(chosen(b"\x01\0\0\0"), Ok(""));
        assert_eq!(chosen(b"\x01\xff\xff\xffu:anna"), Ok("u:anna"));
        for layer in [0, 2, 3, 4, 7] {
            assert!(matches!(chosen(&[layer, 0, 0, 0]), Err(SaslError::NotOffered(_))), "{layer}");
        }
        let long = [&b"\x01\0\0\0"[..], &[b'a'; NAME_SIZE_MAX + 1]].concat();
        for bad in [&b""[..], b"\x01", b"\x01\0\0", b"\x01\0\0\0\xff", b"\x01\0\0\0a\0", &long] {
            assert!(matches!(chosen(bad), Err(SaslError::Malformed(_))), "{bad:?}");
        }
    }

    #[test]
    fn principals_have_a_name_and_a_realm() {
        assert_eq!(principal_parts("anna@EXAMPLE.COM"), Some(("anna", "EXAMPLE.COM")));
        assert_eq!(principal_parts("anna/admin@EXAMPLE.COM"), Some(("anna/admin", "EXAMPLE.COM")));
        for bad in ["", "anna", "@", "anna@", "@EXAMPLE.COM", "anna\\@evil@EXAMPLE.COM", "a@b@EXAMPLE.COM"] {
            assert_eq!(principal_parts(bad), None, "{bad}");
        }
        assert_eq!(principal_parts(&format!("{}@A", "a".repeat(NAME_SIZE_MAX))), None);
    }
}
