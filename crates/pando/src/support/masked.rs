//! Settings whose secrets are masked.

use toml::{Table, Value};

/// Replacement for a secret.
const MASK: &str = "(masked)";

/// Parts of key names that show that the value is a secret.
const SECRET: [&str; 8] = ["password", "secret", "token", "passphrase", "credential", "jaas", "key", "pem"];

/// Ends of key names that show that the value is a name of a file or of attributes, and therefore no secret.
const FILES: [&str; 6] = ["_file", "file", ".location", "_folder", "keys", "attributes"];

/// Returns a settings text with all secrets masked, and without comments.
///
/// # Errors
/// The text is not TOML. The message does not contain the text.
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
        Value::String(text) => *text = without_value(text).unwrap_or_else(|| without_user(text)),
        _ => {}
    }
}

/// Returns true if the key's name shows that the value is a secret, or if the value is a key in PEM form or a hashed
/// password.
fn is_secret(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_named =
        SECRET.iter().any(|part| key.contains(part)) && !FILES.iter().any(|end| key.ends_with(end));
    is_named || value.contains("-----BEGIN") || value.starts_with('{') && value.contains('}')
}

/// Masks the value in a text `name=value`, such as a setting of the Kafka clients. Returns `None` if the name is not
/// that of a secret.
fn without_value(text: &str) -> Option<String> {
    let (name, value) = text.split_once('=')?;
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let is_name = name.trim().chars().all(is_part);
    (is_name && is_secret(name.trim(), value.trim())).then(|| format!("{}={MASK}", name.trim()))
}

/// Masks users and passwords in all URLs and broker lists of a text, and secrets in the queries of URLs.
fn without_user(text: &str) -> String {
    let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>');
    text.split_inclusive(is_end).map(without_secrets).collect()
}

/// Masks users, passwords and secrets in one word. A password may contain any character, even a comma, so everything up
/// to the last `@` of the authority is masked. In doubt, more is masked.
fn without_secrets(word: &str) -> String {
    let (scheme, rest) = match word.split_once("://") {
        Some((scheme, _)) => word.split_at(scheme.len() + "://".len()),
        None => ("", word),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    // A password that contains an unescaped `/` looks like a port that is not a number.
    let is_cut = !authority.contains('@') && !port.chars().all(|digit| digit.is_ascii_digit());
    let extent = if is_cut { rest } else { authority };
    let user = extent.rfind('@').map(|at| &rest[..at]);
    let rest = match user {
        // Without a scheme and a colon, the text before the `@` may belong to a mail address. Mail addresses are not
        // masked.
        Some(user) if !scheme.is_empty() || user.contains(':') => format!("{MASK}{}", &rest[user.len()..]),
        _ => rest.to_owned(),
    };
    format!("{scheme}{}", without_query(&rest))
}

/// Masks values in the query of a URL: values with the name of a secret, and values that contain a URL with a user.
fn without_query(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let masked = query.split('&').map(|part| match part.split_once('=') {
        Some((name, value)) if is_secret(name, value) || has_user(value) => format!("{name}={MASK}"),
        _ => part.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

/// Returns true if a value contains a URL with a user, perhaps percent-encoded.
fn has_user(value: &str) -> bool {
    let plain = value.replace("%3A", ":").replace("%3a", ":").replace("%2F", "/").replace("%2f", "/");
    plain.split_once("://").is_some_and(|(_, rest)| rest.contains('@') || rest.contains("%40"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a secret was not masked in the only form of Kafka settings that the server accepts, a list of
    /// `name=value`.
    #[test]
    fn secrets_are_masked_and_names_of_files_are_not() {
        let text = "\
            # a secret of the comment\n\
            admin_password_file = \"admin-password\"\n\
            listen = [\"ldap://:389\"]\n\
            url = \"https://user:pl4nted@example.com/\"\nstored = \"{SSHA}pl4nted\"\n\
            list = [{ client_secret = \"pl4nted\" }]\n\
            [cluster]\nname = \"a\"\n\
            kafka = [\"sasl.password=pl4nted\", \"ssl.key.password = a pl4nted, b\", \
            \"sasl.jaas.config=pl4nted\", \"ssl.ca.location=ca.pem\", '''ssl.key.pem=-----BEGIN pl4nted''']\n\
            [cluster.other]\n\"sasl.password\" = \"pl4nted\"\n\"ssl.key.pem\" = '''\n-----BEGIN pl4nted'''\n\
            \"ssl.key.location\" = \"key.pem\"\n\"sasl.jaas.config\" = \"pl4nted\"\n";
        let safe = masked(text).unwrap();
        assert!(!safe.contains("pl4nted") && !safe.contains("comment"), "{safe}");
        for text in [
            "admin-password",
            "ldap://:389",
            "https://(masked)@example.com/",
            "sasl.password=(masked)",
            "ssl.key.password=(masked)",
            "ssl.ca.location=ca.pem",
            "key.pem",
        ] {
            assert!(safe.contains(text), "{text}: {safe}");
        }
        assert!(!masked("password = pl4nted").unwrap_err().contains("pl4nted"));
    }

    /// Regression test: a password was masked only up to its first `@`, and only in the first URL of a value.
    #[test]
    fn users_are_masked_in_every_form_of_url() {
        for (text, expected) in [
            ("amqp://user:pl4nt@pl4nted@host:1/x@y", "amqp://(masked)@host:1/x@y"),
            ("https://user:pl4nt%40ed@host/", "https://(masked)@host/"),
            ("https://user:pl4nt/ed@host/", "https://(masked)@host/"),
            ("https://a:pl4nted@x, https://b:pl4nted@y/z", "https://(masked)@x, https://(masked)@y/z"),
            ("user:pl4n,ted@one:9092,user:pl4nted@two:9092", "(masked)@two:9092"),
            ("https://host/?to=https%3A%2F%2Fu%3Apl4nted%40x&n=1", "https://host/?to=(masked)&n=1"),
            ("https://host/a?access_token=pl4nted", "https://host/a?access_token=(masked)"),
            ("https://host:8443/path@x?n=a@b", "https://host:8443/path@x?n=a@b"),
            ("ldap://[::1]:389", "ldap://[::1]:389"),
            ("one:9092,two:9092", "one:9092,two:9092"),
            ("anna@example.com", "anna@example.com"),
        ] {
            assert_eq!(without_user(text), expected);
        }
    }
}
