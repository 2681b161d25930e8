//! The keys, region and address of a bucket. They come from environment variables, a credentials file, and the
//! settings.

use std::io;
use std::path::{Path, PathBuf};

use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};

use super::http::{BufferedBytes, Connector};
use crate::config::backup::BucketAddress;
use crate::limits::bucket::{BUCKET_RETRIES, BUCKET_RETRY_TIME};

/// Environment variable with the path of the credentials file. Amazon's tools use the same variable.
const FILE_VARIABLE: &str = "AWS_SHARED_CREDENTIALS_FILE";
/// Environment variable with the name of the section in the credentials file.
const PROFILE_VARIABLE: &str = "AWS_PROFILE";

/// Creates the client for a bucket. Settings take precedence over environment variables (`AWS_*`). The keys are taken
/// from the first of these that exists: the file in the settings, the variables with keys, the file in
/// [`FILE_VARIABLE`]. If none exists, `object_store` requests keys from the credential services of the cloud, such as
/// the metadata service of the machine.
pub(super) fn store(address: &BucketAddress, buffered_bytes: BufferedBytes) -> io::Result<AmazonS3> {
    let retry = RetryConfig {
        max_retries: BUCKET_RETRIES,
        retry_timeout: BUCKET_RETRY_TIME,
        ..RetryConfig::default()
    };
    let variables = std::env::vars_os().filter_map(|(key, value)| {
        let (key, value) = (key.into_string().ok()?, value.into_string().ok()?);
        let key: AmazonS3ConfigKey =
            key.starts_with("AWS_").then(|| key.to_ascii_lowercase().parse().ok())??;
        Some((key, value))
    });
    let variables: Vec<_> = variables.collect();
    let file = file_of_keys(
        address.credentials.clone(),
        &variables,
        std::env::var_os(FILE_VARIABLE).map(PathBuf::from),
    );
    let own_keys =
        [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::Token];
    let mut builder = AmazonS3Builder::new().with_http_connector(Connector(buffered_bytes)).with_retry(retry);
    // If there is a file with keys, the variables with keys are ignored. Thus a session token is never combined with
    // keys that it was not issued for.
    for (key, value) in variables.into_iter().filter(|(key, _)| file.is_none() || !own_keys.contains(key)) {
        builder = builder.with_config(key, value);
    }
    builder = builder.with_bucket_name(&address.bucket);
    if let Some(region) = &address.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &address.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    if let Some(file) = file {
        let profile = std::env::var(PROFILE_VARIABLE).unwrap_or_else(|_| "default".to_owned());
        let keys = Keys::read(&file, &profile)?;
        builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        if let Some(token) = keys.token {
            builder = builder.with_token(token);
        }
    }
    builder.build().map_err(|error| super::explained(&error))
}

/// Returns the path of the file with keys. `stated` is the path in the settings. `named` is the path in the environment
/// variable, which is used only if no variables contain keys.
fn file_of_keys(
    stated: Option<PathBuf>,
    variables: &[(AmazonS3ConfigKey, String)],
    named: Option<PathBuf>,
) -> Option<PathBuf> {
    let has_keys =
        || variables.iter().any(|(key, value)| *key == AmazonS3ConfigKey::AccessKeyId && !value.is_empty());
    stated.or_else(|| named.filter(|_| !has_keys()))
}

/// The keys in a section of a credentials file.
#[derive(PartialEq, Eq)]
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

impl Keys {
    fn read(file: &Path, profile: &str) -> io::Result<Keys> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("its credentials in {}: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(named)?;
        Keys::parse(&text, profile).ok_or_else(|| {
            named(io::Error::other(format!(
                "the section [{profile}] lacks aws_access_key_id or aws_secret_access_key"
            )))
        })
    }

    /// Parses the section `profile` of a credentials file, in the format of Amazon's tools.
    fn parse(text: &str, profile: &str) -> Option<Keys> {
        let mut is_inside = false;
        let (mut id, mut secret, mut token) = (None, None, None);
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                is_inside = name.trim() == profile;
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| is_inside) else { continue };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match key.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
        Some(Keys { id: id?, secret: secret?, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_needs_an_id_and_a_secret() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s=/+\nregion = x\n\n[other]\n\
                    aws_access_key_id = B\naws_secret_access_key = t\naws_session_token = u\n[half]\n\
                    aws_access_key_id = C\naws_secret_access_key =\n";
        let keys = |profile| Keys::parse(text, profile).map(|keys| (keys.id, keys.secret, keys.token));
        assert_eq!(keys("default"), Some(("A".to_owned(), "s=/+".to_owned(), None)));
        assert_eq!(keys("other"), Some(("B".to_owned(), "t".to_owned(), Some("u".to_owned()))));
        assert_eq!((keys("half"), keys("none")), (None, None));
    }

    #[test]
    fn settings_precede_variables_and_variables_precede_a_named_file() {
        let variables = [(AmazonS3ConfigKey::AccessKeyId, "A".to_owned())];
        let (stated, named) = (|| Some(PathBuf::from("s")), || Some(PathBuf::from("n")));
        assert_eq!(file_of_keys(stated(), &variables, named()), stated());
        assert_eq!(file_of_keys(None, &variables, named()), None);
        assert_eq!(file_of_keys(None, &[], named()), named());
        assert_eq!(file_of_keys(None, &[(AmazonS3ConfigKey::AccessKeyId, String::new())], named()), named());
    }
}
