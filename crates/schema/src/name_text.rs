//! Names in returned values: the string form of RFC 4514.
//!
//! A value of DN syntax is stored as the client wrote it. It may have an older form, which a program that follows RFC
//! 4514 need not accept: `;` for `,`, spaces around separators, values in quotes (RFC 2253 section 4), `OID.2.5.4.3`
//! (RFC 1779).

use std::borrow::Cow;

use ldap::Dn;

use crate::syntax_text::split_name_and_uid;
use crate::{NameSyntax, Schema};

impl Schema {
    /// Returns a value of this syntax in the form of RFC 4514. Values in RDNs are kept as written if they are valid in
    /// RFC 4514. Types given by OID get their short names (RFC 4514 section 2.3). If nothing changes, the result is
    /// borrowed. A value that is certainly in this form already is not parsed. A value that is not a name is returned
    /// unchanged.
    pub fn name_text<'v>(&self, syntax: NameSyntax, value: &'v [u8]) -> Cow<'v, [u8]> {
        let (name, uid) = match syntax {
            NameSyntax::Dn => (value, None),
            NameSyntax::NameAndUid => split_name_and_uid(value),
        };
        if ldap::is_plain_dn_text(name) {
            return Cow::Borrowed(value);
        }
        match self.normal_text(name) {
            Some(text) if text.as_bytes() != name => {
                let mut text = text.into_bytes();
                if let Some(uid) = uid {
                    text.push(b'#');
                    text.extend_from_slice(uid);
                }
                Cow::Owned(text)
            }
            _ => Cow::Borrowed(value),
        }
    }

    fn normal_text(&self, name: &[u8]) -> Option<String> {
        let dn = Dn::parse(std::str::from_utf8(name).ok()?).ok()?;
        let short_name = |attribute| match self.attribute_type(attribute) {
            Some(known) if attribute.starts_with(|first: char| first.is_ascii_digit()) => known.name(),
            _ => attribute,
        };
        Some(dn.normal_text(short_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(syntax: NameSyntax, value: &str, expected: &str) {
        let schema = Schema::shipped();
        let text = schema.name_text(syntax, value.as_bytes());
        assert_eq!(std::str::from_utf8(&text), Ok(expected), "{value}");
        assert_eq!(matches!(text, Cow::Borrowed(_)), value == expected, "{value}");
        let again = schema.name_text(syntax, &text);
        assert_eq!(again, text, "{value}");
    }

    #[test]
    fn names_are_in_the_form_of_rfc_4514() {
        for (value, expected) in [
            ("", ""),
            ("  ", ""),
            ("uid=jsmith,o=example,c=us", "uid=jsmith,o=example,c=us"),
            ("UID=JSmith,O=Ex  ample", "UID=JSmith,O=Ex  ample"),
            ("uid=jsmith;o=example;c=us", "uid=jsmith,o=example,c=us"),
            (" uid = jsmith , o= example ;c=us ", "uid=jsmith,o=example,c=us"),
            ("cn=\"Smith, John\",o=\"a\"", r"cn=Smith\, John,o=a"),
            (r##"cn=" a \"b\" #",o="#x""##, r#"cn=\ a \"b\" #,o=\#x"#),
            ("OID.2.5.4.3=x,oid.1.2.3=y", "cn=x,1.2.3=y"),
            ("2.5.4.3=x + 0.9.2342.19200300.100.1.1=y,dc=z", "cn=x+uid=y,dc=z"),
            ("1.2.3=#0401ff,cn=#040178", "1.2.3=#0401ff,cn=#040178"),
            // Escapes are kept as written.
            (r"cn=a\,b\2C\c3\a9\ ,o=x", r"cn=a\,b\2C\c3\a9\ ,o=x"),
            (r"cn=a\,b\2c ; o=\ x", r"cn=a\,b\2c,o=\ x"),
            ("cn=a=b,cn= =b", "cn=a=b,cn==b"),
            ("cn=,o=\"\"", "cn=,o="),
            ("ou=Käse;o=x", "ou=Käse,o=x"),
            // Texts that are not names.
            ("no dn; at all", "no dn; at all"),
            ("cn=a;", "cn=a;"),
        ] {
            check(NameSyntax::Dn, value, expected);
        }
    }

    #[test]
    fn a_unique_identifier_is_kept_after_the_name() {
        for (value, expected) in [
            ("cn=a;o=b#'0101'B", "cn=a,o=b#'0101'B"),
            ("cn=\"a;b\" #''B", r"cn=a\;b#''B"),
            ("cn=a,o=b#'01'B", "cn=a,o=b#'01'B"),
            ("cn=a;o=b", "cn=a,o=b"),
        ] {
            check(NameSyntax::NameAndUid, value, expected);
        }
        check(NameSyntax::Dn, "cn=a;o=b#'0101'B", "cn=a,o=b#'0101'B");
    }
}
