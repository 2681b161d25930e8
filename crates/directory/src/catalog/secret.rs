//! Attribute types whose values are secrets: the one place that is asked.
//!
//! Some always are: what the server itself verifies passwords by. Others are named by the setting `secret_attributes`,
//! such as the hashes and keys that Samba and Kerberos keep in a directory. A subtype is as secret as its supertypes,
//! and options change nothing: what is asked for is always the type.

use std::sync::Arc;

use schema::{Schema, TypeId};

/// OID of userPassword.
pub(crate) const USER_PASSWORD: &str = "2.5.4.35";

/// The types that are secrets in every directory, by their OIDs.
const BUILT_IN: [(&str, Secrecy); 5] = [
    (USER_PASSWORD, Secrecy::Administrator),
    // authPassword (RFC 3112).
    ("1.3.6.1.4.1.4203.1.3.4", Secrecy::Administrator),
    // pwdHistory, which holds former passwords.
    ("1.3.6.1.4.1.42.2.27.8.1.20", Secrecy::Administrator),
    // pandoScramKeys.
    ("1.3.6.1.4.1.99999.1.71", Secrecy::Administrator),
    // pandoTotpSecret, which the user's device has.
    ("1.3.6.1.4.1.99999.1.81", Secrecy::Nobody),
];

/// Who may see values of an attribute type, the most open first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Secrecy {
    /// Whoever access rules let; no secret.
    #[default]
    Open,
    /// The administrator, and whom an access rule lets that names the type.
    Guarded,
    /// The administrator alone, whatever access rules say.
    Administrator,
    /// Nobody.
    Nobody,
}

/// The secrecy of each attribute type of a schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Arc<[Secrecy]>);

impl Secrets {
    /// Those of a schema under the setting `secret_attributes`. A name that the schema does not know says nothing yet.
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

    /// Who may see values of a type.
    #[inline]
    pub(crate) fn of_type(&self, type_id: TypeId) -> Secrecy {
        self.0.get(type_id.0 as usize).copied().unwrap_or(Secrecy::Nobody)
    }

    /// Whether a type is a secret: one that rules have to name, and that nothing tells of besides.
    #[inline]
    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.of_type(type_id) != Secrecy::Open
    }
}

/// Whether a type is userPassword, whose values are verified rather than compared.
pub(crate) fn is_user_password(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == USER_PASSWORD
}

/// Which attribute types somebody is shown, as far as it goes by their being secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All that are none.
    Plain,
    /// Those too that access rules may let somebody see, who go by the rules besides.
    AsRulesSay,
    /// Secrets too, but for those that nobody reads.
    Secrets,
}

impl Shown {
    /// The highest secrecy that is shown.
    pub(crate) fn highest(self) -> Secrecy {
        match self {
            Shown::Plain => Secrecy::Open,
            Shown::AsRulesSay => Secrecy::Guarded,
            Shown::Secrets => Secrecy::Administrator,
        }
    }

    /// Whether values of a type are shown.
    #[inline]
    pub(crate) fn includes(self, secrets: &Secrets, type_id: TypeId) -> bool {
        secrets.of_type(type_id) <= self.highest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_as_secret_as_the_setting_and_their_supertypes_say() {
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
        // The setting opens nothing.
        for name in ["userPassword", "ownPassword", "authPassword", "pwdHistory", "pandoScramKeys"] {
            check(&["userPassword", "ownPassword"], name, Secrecy::Administrator);
        }
        check(&["pandoTotpSecret"], "pandoTotpSecret", Secrecy::Nobody);
        check(&[], "cn", Secrecy::Open);
    }
}
