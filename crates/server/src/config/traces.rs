//! The receiver of traces, and the operations that are traced. This is the table `[traces]` of the node file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use super::values::FromText;
use super::{ConfigError, is_this_machine};
use crate::limits::traces::TRACE_HEADER_FILE_BYTES_MAX;

/// Default share of the operations that are sampled. A sampled operation is traced, whatever its duration.
const SAMPLE_RATIO: f64 = 0.01;

/// Default name of the service.
const SERVICE: &str = "pando";

/// Receiver of traces, and the operations that are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// URL of the receiver.
    pub(crate) endpoint: Uri,
    /// Headers of each request.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// File with the headers.
    pub(crate) header_file: Option<PathBuf>,
    /// Share of the operations that are sampled, as a fraction of 2^64. A sampled operation is traced, whatever its
    /// duration.
    pub(crate) sampled: u64,
    /// Duration from which an operation is always traced; `None` if the duration does not matter.
    pub(crate) slow: Option<Duration>,
    /// Name of the service in traces.
    pub(crate) service: String,
}

/// The table `[traces]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceKeys {
    endpoint: Option<FromText<Uri>>,
    pub(crate) header_file: Option<PathBuf>,
    sample_ratio: Option<f64>,
    slow_milliseconds: Option<u32>,
    service: Option<String>,
}

impl TraceSettings {
    /// Returns the settings. Without an endpoint, there are no traces.
    ///
    /// # Errors
    /// A key is not valid, keys contradict each other, or the file of the headers cannot be used.
    pub(super) fn of(table: TraceKeys) -> Result<Option<TraceSettings>, ConfigError> {
        let TraceKeys { endpoint, header_file, sample_ratio, slow_milliseconds, service } = table;
        let Some(FromText(endpoint)) = endpoint else {
            let is_empty = header_file.is_none()
                && sample_ratio.is_none()
                && slow_milliseconds.is_none()
                && service.is_none();
            return match is_empty {
                true => Ok(None),
                false => {
                    Err(ConfigError::Traces("it needs endpoint, the URL of a receiver of OTLP over HTTP"))
                }
            };
        };
        let scheme = endpoint.scheme_str().unwrap_or_default();
        let Some(host) = endpoint.host().filter(|_| ["http", "https"].contains(&scheme)) else {
            return Err(ConfigError::Traces("endpoint is no URL that begins with http:// or https://"));
        };
        if endpoint.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(ConfigError::Traces("endpoint has a password: put it into a header of header_file"));
        }
        if header_file.is_some() && scheme == "http" && !is_this_machine(host) {
            return Err(ConfigError::Traces("headers beyond this machine go over https:// alone"));
        }
        let ratio = sample_ratio.unwrap_or(SAMPLE_RATIO);
        if !(0.0..=1.0).contains(&ratio) {
            return Err(ConfigError::Traces("sample_ratio is a number from 0 to 1"));
        }
        let headers = header_file.as_deref().map(read_headers).transpose()?;
        Ok(Some(TraceSettings {
            endpoint,
            headers: headers.unwrap_or_default(),
            header_file,
            sampled: share_of(ratio),
            slow: slow_milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into())),
            service: service.unwrap_or_else(|| SERVICE.to_owned()),
        }))
    }
}

impl TraceSettings {
    /// Returns the URL of the receiver for messages. The query is omitted, because it may contain a key.
    pub(crate) fn receiver(&self) -> String {
        let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
        let authority = part(self.endpoint.authority().map(|authority| authority.as_str()));
        format!("{}://{authority}{}", part(self.endpoint.scheme_str()), self.endpoint.path())
    }
}

/// Converts a ratio from 0 to 1 to a fraction of 2^64.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of a number beyond the range gives the largest one"
)]
fn share_of(ratio: f64) -> u64 {
    (ratio * u64::MAX as f64) as u64
}

/// Reads a file of headers, with one header `Name: value` per line.
fn read_headers(file: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, ConfigError> {
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(TRACE_HEADER_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| ConfigError::Read { file: file.to_owned(), error })?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim().parse::<HeaderName>().ok()?;
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let headers: Option<Vec<_>> = lines.map(header).collect();
    headers.ok_or(ConfigError::Traces("a line of header_file is no header: write `Name: value`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Option<TraceSettings>, String> {
        let keys: TraceKeys = toml::from_str(text).map_err(|error| error.to_string())?;
        TraceSettings::of(keys).map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_endpoint_there_are_no_traces() {
        assert_eq!(settings(""), Ok(None));
        assert!(settings("sample_ratio = 0.5").unwrap_err().contains("needs endpoint"));
        let found = settings("endpoint = \"http://127.0.0.1:4318/v1/traces\"").unwrap().unwrap();
        assert_eq!((found.slow, found.service.as_str()), (None, "pando"));
        assert_eq!(found.receiver(), "http://127.0.0.1:4318/v1/traces");
        assert!((found.sampled as f64 / u64::MAX as f64 - SAMPLE_RATIO).abs() < 1e-9);
    }

    #[test]
    fn invalid_trace_settings_are_refused() {
        let with = |rest: &str| settings(&format!("endpoint = \"http://192.0.2.1/v1/traces\"\n{rest}"));
        assert_eq!(with("sample_ratio = 1.0").unwrap().unwrap().sampled, u64::MAX);
        assert_eq!(with("sample_ratio = 0.0").unwrap().unwrap().sampled, 0);
        assert!(with("sample_ratio = 1.1").unwrap_err().contains("from 0 to 1"));
        assert!(with("header_file = \"x\"").unwrap_err().contains("https:// alone"));
        assert!(with("endpont = 1").is_err());
        let with_password = settings("endpoint = \"https://a:b@example.com/v1/traces\"");
        assert!(with_password.unwrap_err().contains("has a password"));
        assert!(settings("endpoint = \"192.0.2.1:4318\"").unwrap_err().contains("http://"));
    }

    #[test]
    fn a_header_file_has_one_header_per_line() {
        let file = std::env::temp_dir().join(format!("pando-trace-headers-{}", std::process::id()));
        let with_file = |text: &str| {
            std::fs::write(&file, text).unwrap();
            settings(&format!("endpoint = \"http://[::1]:4318/v1/traces\"\nheader_file = {file:?}"))
        };
        let headers = with_file("Authorization: Bearer a:b\n\nX-Tenant: one\n").unwrap().unwrap().headers;
        let texts: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(texts, [("authorization", "Bearer a:b"), ("x-tenant", "one")]);
        assert!(with_file("Bearer\n").unwrap_err().contains("is no header"));
        std::fs::remove_file(&file).unwrap();
    }
}
