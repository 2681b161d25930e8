//! Visibility of secret attribute types to a requester.

use schema::{Schema, TypeId};
pub(crate) use schema::{Secrecy, Secrets, USER_PASSWORD};

/// Returns true if a type is userPassword, whose values are verified rather than compared.
pub(crate) fn is_user_password(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == USER_PASSWORD
}

/// Secret attribute types that a requester may see, before access rules are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No secret attribute types.
    Plain,
    /// Secret types that access rules can allow, if the rules allow them.
    AsRulesSay,
    /// All secret types except those that no requester may see.
    Secrets,
}

impl Shown {
    /// Returns the highest level of secrecy that is visible.
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
        // The setting cannot lower the secrecy of a type.
        for name in ["userPassword", "ownPassword", "authPassword", "pwdHistory", "pandoScramKeys"] {
            check(&["userPassword", "ownPassword"], name, Secrecy::Administrator);
        }
        check(&["pandoTotpSecret"], "pandoTotpSecret", Secrecy::Nobody);
        check(&[], "cn", Secrecy::Open);
    }
}
