//! Attribute types with secret values. This module alone decides whether a type is secret.
//!
//! Types by which the server itself verifies passwords are always secret. The setting `secret_attributes` adds others,
//! such as the hashes and keys that Samba and Kerberos store in a directory. A subtype is at least as secret as its
//! supertypes. Options have no effect.

use std::sync::Arc;

use crate::attribute_type::TypeId;
use crate::schema::Schema;

/// OID of userPassword.
pub const USER_PASSWORD: &str = "2.5.4.35";

/// Types that are secret in every directory, by OID.
const BUILT_IN: [(&str, Secrecy); 5] = [
    (USER_PASSWORD, Secrecy::Administrator),
    // authPassword (RFC 3112).
    ("1.3.6.1.4.1.4203.1.3.4", Secrecy::Administrator),
    // pwdHistory, which contains former passwords.
    ("1.3.6.1.4.1.42.2.27.8.1.20", Secrecy::Administrator),
    // pandoScramKeys.
    ("1.3.6.1.4.1.99999.1.71", Secrecy::Administrator),
    // pandoTotpSecret, which is also on the user's device.
    ("1.3.6.1.4.1.99999.1.81", Secrecy::Nobody),
];

/// Requesters that may see values of an attribute type, from the most to the least open level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secrecy {
    /// All requesters that access rules allow; not a secret.
    #[default]
    Open,
    /// The administrator, and requesters that an access rule allows by naming the type.
    Guarded,
    /// Only the administrator, whatever the access rules.
    Administrator,
    /// No requester.
    Nobody,
}

/// Secrecy of each attribute type of a schema.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<[Secrecy]>);

impl Secrets {
    /// Computes the secrecy of a schema's types under the setting `secret_attributes`. Names in the setting that the
    /// schema does not define have no effect until it defines them.
    pub fn of(schema: &Schema, listed: &[String]) -> Secrets {
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
    pub fn of_type(&self, type_id: TypeId) -> Secrecy {
        self.0.get(type_id.0 as usize).copied().unwrap_or(Secrecy::Nobody)
    }

    /// Returns true if a type is secret: access rules must name it, and no other feature may reveal its values.
    #[inline]
    pub fn has(&self, type_id: TypeId) -> bool {
        self.of_type(type_id) != Secrecy::Open
    }
}
