//! Attribute types whose values are secrets.

use schema::{Schema, TypeId};

/// Attribute types that nobody but the administrator reads, with their subtypes: userPassword, authPassword
/// (RFC 3112), pwdHistory, which holds former passwords, pandoScramKeys and pandoTotpSecret.
const SECRET_TYPES: [&str; 5] = [
    USER_PASSWORD,
    "1.3.6.1.4.1.4203.1.3.4",
    "1.3.6.1.4.1.42.2.27.8.1.20",
    "1.3.6.1.4.1.99999.1.71",
    TOTP_SECRET,
];
/// OID of pandoTotpSecret.
const TOTP_SECRET: &str = "1.3.6.1.4.1.99999.1.81";
/// OID of userPassword.
pub(crate) const USER_PASSWORD: &str = "2.5.4.35";

/// Whether a type is userPassword, whose values are verified rather than compared.
pub(crate) fn is_user_password(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == USER_PASSWORD
}

/// Whether values of a type are for nobody, the administrator either: what the user's device has.
pub(crate) fn is_unreadable(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == TOTP_SECRET
}

/// Whether values of a type are for the administrator alone.
pub(crate) fn is_secret(schema: &Schema, type_id: TypeId) -> bool {
    let mut at = Some(type_id);
    while let Some(type_id) = at {
        let attribute_type = schema.type_by_id(type_id);
        if SECRET_TYPES.contains(&attribute_type.oid.as_str()) {
            return true;
        }
        at = attribute_type.sup;
    }
    false
}

/// Which attribute types somebody is shown, as far as it goes by their being secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All that are none.
    Plain,
    /// Secrets too, but for those that nobody reads.
    Secrets,
}

impl Shown {
    /// Whether values of a type are shown.
    pub(crate) fn includes(self, schema: &Schema, type_id: TypeId) -> bool {
        !is_secret(schema, type_id) || (self == Shown::Secrets && !is_unreadable(schema, type_id))
    }
}
