//! Attribute types with secret values. All other code asks here.
//!
//! Some types are always secret: those that the server itself verifies passwords with. Others are named by the
//! setting `secret_attributes`, such as the hashes and keys that Samba and Kerberos store in a directory. A subtype
//! is at least as secret as its supertypes. Options change nothing: only the type counts.

use std::sync::Arc;

use schema::{Schema, TypeId};

/// OID of userPassword.
pub(crate) const USER_PASSWORD: &str = "2.5.4.35";

/// Types that are secret in every directory, by OID.
const BUILT_IN: [(&str, Secrecy); 5] = [
    (USER_PASSWORD, Secrecy::Administrator),
    // authPassword (RFC 3112).
    ("1.3.6.1.4.1.4203.1.3.4", Secrecy::Administrator),
    // pwdHistory, which contains former passwords.
    ("1.3.6.1.4.1.42.2.27.8.1.20", Secrecy::Administrator),
    // pandoScramKeys.
    ("1.3.6.1.4.1.99999.1.71", Secrecy::Administrator),
    // pandoTotpSecret, which the user's device knows.
    ("1.3.6.1.4.1.99999.1.81", Secrecy::Nobody),
];

/// Requesters that may see values of an attribute type, the most open level first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Secrecy {
    /// Anyone whom access rules allow; not a secret.
    #[default]
    Open,
    /// The administrator, and requesters that an access rule allows by naming the type.
    Guarded,
    /// Only the administrator, whatever access rules say.
    Administrator,
    /// No requester.
    Nobody,
}

/// Secrecy of each attribute type of a schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Arc<[Secrecy]>);

impl Secrets {
    /// Computes the secrecy of a schema's types under the setting `secret_attributes`. Names that the schema does
    /// not define have no effect yet.
    pub(crate) fn of(schema: &Schema, listed: &[String]) -> Secrets {
        let mut all = vec![Secrecy::Open; schema.attribute_types().len()];
        let listed = listed.iter().map(|name| (name.as_str(), Secrecy::Guarded));
        for (name, secrecy) in BUILT_IN.into_iter().chain(listed) {
            let Some(known) = schema.attribute_type(name) else { continue };
            for subtype in schema.subtypes(known.id) {
                if let Some(of) = all.get_mut(subtype.0 as usize) {
                    *of = secrecy.max(*of);
                }
            }
        }
        Secrets(all.into())
    }

    /// Returns the secrecy of a type.
    #[inline]
    pub(crate) fn of_type(&self, type_id: TypeId) -> Secrecy {
        self.0.get(type_id.0 as usize).copied().unwrap_or(Secrecy::Nobody)
    }

    /// Returns true if a type is secret: rules must name it, and nothing else may reveal its values.
    #[inline]
    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.of_type(type_id) != Secrecy::Open
    }
}

/// Returns true if a type is userPassword, whose values are verified rather than compared.
pub(crate) fn is_user_password(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == USER_PASSWORD
}

/// Secrecy that a requester may see, before access rules are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Only attribute types that are not secret.
    Plain,
    /// Also secrets that access rules can allow; the rules decide.
    AsRulesSay,
    /// All secrets except those that no requester reads.
    Secrets,
}

impl Shown {
    /// Returns the highest secrecy that is visible.
    pub(crate) fn highest(self) -> Secrecy {
        match self {
            Shown::Plain => Secrecy::Open,
            Shown::AsRulesSay => Secrecy::Guarded,
            Shown::Secrets => Secrecy::Administrator,
        }
    }

    /// Returns true if values of a type are visible.
    #[inline]
    pub(crate) fn includes(self, secrets: &Secrets, type_id: TypeId) -> bool {
        secrets.of_type(type_id) <= self.highest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrecy_follows_the_setting_and_the_supertypes() {
        let text = "attributetype ( 1.2.3.1 NAME ( 'ntHash' 'otherHash' ) SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
                    attributetype ( 1.2.3.2 NAME 'ownHash' SUP ntHash )\n\
                    attributetype ( 1.2.3.3 NAME 'ownPassword' SUP userPassword )\n";
        let texts = [("own".to_owned(), text.to_owned())].into();
        let schema = super::super::schema_of(&texts).unwrap();
        let check = |listed: &[&str], name: &str, expected| {
            let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
            let secrets = Secrets::of(&schema, &listed);
            let type_id = schema.attribute_type(name).unwrap().id;
            assert_eq!(secrets.of_type(type_id), expected, "{name} with {listed:?}");
        };
        for name in ["ntHash", "ownHash"] {
            check(&[], name, Secrecy::Open);
            for listed in ["ntHash", "OTHERHASH", "1.2.3.1"] {
                check(&["unknown", listed], name, Secrecy::Guarded);
            }
        }
        check(&["ownHash"], "ntHash", Secrecy::Open);
        // The setting does not make a type less secret.
        for name in ["userPassword", "ownPassword", "authPassword", "pwdHistory", "pandoScramKeys"] {
            check(&["userPassword", "ownPassword"], name, Secrecy::Administrator);
        }
        check(&["pandoTotpSecret"], "pandoTotpSecret", Secrecy::Nobody);
        check(&[], "cn", Secrecy::Open);
    }
}
