//! TLS and authentication of the Kafka clients. Converts keys of the table `[cluster]` to settings of librdkafka.

use std::path::Path;

use super::ClusterKeys;
use crate::config::values::SaslMechanism;
use crate::config::{ConfigError, Secret, read_password};

/// Returns the names and values of the settings of librdkafka.
pub(super) fn properties(keys: &ClusterKeys) -> Result<Vec<(String, Secret)>, ConfigError> {
    let is_tls = keys.kafka_tls.unwrap_or(false);
    let files = [&keys.kafka_ca, &keys.kafka_certificate, &keys.kafka_key];
    if !is_tls && files.iter().any(|file| file.is_some()) {
        return Err(wrong("kafka_ca, kafka_certificate and kafka_key need kafka_tls = true"));
    }
    if keys.kafka_certificate.is_some() != keys.kafka_key.is_some() {
        return Err(wrong("kafka_certificate and kafka_key come together"));
    }
    let mechanism = keys.kafka_sasl.as_ref().map(|mechanism| mechanism.0);
    let (user, password) = (&keys.kafka_user, &keys.kafka_password_file);
    let parts = [mechanism.is_some(), user.is_some(), password.is_some()];
    if parts.contains(&true) && parts.contains(&false) {
        return Err(wrong("kafka_sasl, kafka_user and kafka_password_file come together"));
    }
    if mechanism == Some(SaslMechanism::Plain) && !is_tls {
        return Err(wrong(
            "kafka_sasl = \"PLAIN\" needs kafka_tls = true: the password would go in the clear",
        ));
    }
    let protocol = match (is_tls, mechanism.is_some()) {
        (false, false) => return Ok(Vec::new()),
        (true, false) => "ssl",
        (false, true) => "sasl_plaintext",
        (true, true) => "sasl_ssl",
    };
    let mut properties = vec![property("security.protocol", protocol)];
    let names = ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"];
    for (name, file) in names.into_iter().zip(files) {
        properties.extend(file.as_deref().map(|file| property(name, &path_text(file))));
    }
    if let (Some(mechanism), Some(user), Some(file)) = (mechanism, user, password) {
        properties.push(property("sasl.mechanism", mechanism.name()));
        properties.push(property("sasl.username", user));
        properties.push(("sasl.password".to_owned(), read_password(file)?));
    }
    Ok(properties)
}

fn wrong(what: &'static str) -> ConfigError {
    ConfigError::ClusterKafka(what)
}

fn property(name: &str, value: &str) -> (String, Secret) {
    (name.to_owned(), Secret(value.as_bytes().to_vec()))
}

fn path_text(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values::FromText;

    fn with(change: impl FnOnce(&mut ClusterKeys)) -> Result<Vec<(String, String)>, String> {
        let mut keys = ClusterKeys::default();
        change(&mut keys);
        let read = |(name, value): (String, Secret)| (name, String::from_utf8(value.0.clone()).unwrap());
        match properties(&keys) {
            Ok(all) => Ok(all.into_iter().map(read).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn sasl(keys: &mut ClusterKeys, mechanism: SaslMechanism, file: &Path) {
        keys.kafka_sasl = Some(FromText(mechanism));
        keys.kafka_user = Some("pando".to_owned());
        keys.kafka_password_file = Some(file.to_owned());
    }

    #[test]
    fn security_keys_become_librdkafka_properties() {
        assert_eq!(with(|_| ()), Ok(Vec::new()));
        let expect = |properties: Result<Vec<(String, String)>, String>, expected: &[(&str, &str)]| {
            let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            assert_eq!(properties, Ok(expected.collect()));
        };
        expect(with(|keys| keys.kafka_tls = Some(true)), &[("security.protocol", "ssl")]);
        let properties = with(|keys| {
            keys.kafka_tls = Some(true);
            keys.kafka_ca = Some("/ca".into());
            (keys.kafka_certificate, keys.kafka_key) = (Some("/c".into()), Some("/k".into()));
        });
        let files =
            [("ssl.ca.location", "/ca"), ("ssl.certificate.location", "/c"), ("ssl.key.location", "/k")];
        expect(properties, &[&[("security.protocol", "ssl")][..], &files].concat());
        let file = std::env::temp_dir().join(format!("pando-kafka-password-{}", std::process::id()));
        std::fs::write(&file, "secret\n").unwrap();
        let who = |mechanism| {
            [("sasl.mechanism", mechanism), ("sasl.username", "pando"), ("sasl.password", "secret")]
        };
        let properties = with(|keys| {
            keys.kafka_tls = Some(true);
            sasl(keys, SaslMechanism::Plain, &file);
        });
        expect(properties, &[&[("security.protocol", "sasl_ssl")][..], &who("PLAIN")].concat());
        let properties = with(|keys| sasl(keys, SaslMechanism::ScramSha512, &file));
        let expected = [&[("security.protocol", "sasl_plaintext")][..], &who("SCRAM-SHA-512")].concat();
        expect(properties, &expected);
        std::fs::remove_file(&file).unwrap();
        let unread = with(|keys| sasl(keys, SaslMechanism::ScramSha256, &file)).unwrap_err();
        assert!(unread.contains("pando-kafka-password"), "{unread}");
    }

    #[test]
    fn refuses_settings_that_exclude_each_other() {
        let check = |change: fn(&mut ClusterKeys), text: &str| {
            let error = with(change).unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        check(|keys| keys.kafka_ca = Some("/ca".into()), "need kafka_tls = true");
        check(
            |keys| (keys.kafka_tls, keys.kafka_key) = (Some(true), Some("/k".into())),
            "kafka_certificate and kafka_key come together",
        );
        check(|keys| keys.kafka_user = Some("pando".to_owned()), "kafka_password_file come together");
        check(|keys| sasl(keys, SaslMechanism::Plain, Path::new("/p")), "in the clear");
    }
}
