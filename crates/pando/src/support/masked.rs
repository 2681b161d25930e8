//! Settings without secrets.

use toml::{Table, Value};

/// Replacement for a secret.
const MASK: &str = "(masked)";

/// Parts of the names of keys whose values are secrets.
const SECRET: [&str; 8] = ["password", "secret", "token", "passphrase", "credential", "jaas", "key", "pem"];

/// Ends of key names whose values are names of files or attributes, and therefore not secret.
const FILES: [&str; 6] = ["_file", "file", ".location", "_folder", "keys", "attributes"];

/// Returns a text of settings with all secrets masked, and without comments.
///
/// # Errors
/// The text is not TOML. The message does not show it.
pub(super) fn masked(text: &str) -> Result<String, String> {
    let mut table: Table = text.parse().map_err(|_| "not included: it is not TOML".to_owned())?;
    mask(&mut table);
    toml::to_string(&table).map_err(|error| format!("not included: {error}"))
}

fn mask(table: &mut Table) {
    for (key, value) in table {
        mask_value(key, value);
    }
}

fn mask_value(key: &str, value: &mut Value) {
    match value {
        Value::Table(table) => mask(table),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_value(key, value)),
        Value::String(text) if is_secret(key, text) => MASK.clone_into(text),
        Value::String(text) => *text = without_user(text),
        _ => {}
    }
}

/// Returns true if the name of the key is that of a secret, or if the value is a key in PEM form or a hashed password.
fn is_secret(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_named =
        SECRET.iter().any(|part| key.contains(part)) && !FILES.iter().any(|end| key.ends_with(end));
    is_named || value.contains("-----BEGIN") || value.starts_with('{') && value.contains('}')
}

/// Masks the user and password in a URL.
fn without_user(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, rest))) if !user.contains('/') => format!("{scheme}://{MASK}@{rest}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_names_of_files_are_not() {
        let text = "\
            # a secret of the comment\n\
            admin_password_file = \"admin-password\"\n\
            listen = [\"ldap://:389\"]\n\
            [cluster]\nname = \"a\"\n\
            [cluster.kafka]\n\"sasl.password\" = \"pl4nted\"\n\"ssl.key.pem\" = '''\n-----BEGIN pl4nted'''\n\
            \"ssl.ca.location\" = \"ca.pem\"\n\"sasl.jaas.config\" = \"pl4nted\"\n\
            url = \"https://user:pl4nted@example.com/\"\nstored = \"{SSHA}pl4nted\"\n\
            list = [{ client_secret = \"pl4nted\" }]\n";
        let safe = masked(text).unwrap();
        assert!(!safe.contains("pl4nted") && !safe.contains("comment"), "{safe}");
        for kept in ["admin-password", "ldap://:389", "ca.pem", "https://(masked)@example.com/"] {
            assert!(safe.contains(kept), "{kept}: {safe}");
        }
        assert!(!masked("password = pl4nted").unwrap_err().contains("pl4nted"));
    }
}
