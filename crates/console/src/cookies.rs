//! Cookies: their names and attributes.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Name of the session cookie.
pub(crate) const SESSION: &str = "pando";

/// Name of the cookie in which the browser stores a user's searches.
pub(crate) const SEARCHES: &str = "pando-searches";

/// Returns the value of a cookie in a request.
pub(crate) fn get<'h>(headers: &'h HeaderMap, name: &str, is_secured: bool) -> Option<&'h str> {
    let name = full_name(name, is_secured);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns the header that sets a cookie for `seconds`, or until the browser is closed. The value is encoded in
/// base64url. 0 seconds remove the cookie.
pub(crate) fn set(
    name: &str,
    value: &str,
    seconds: Option<u32>,
    is_secured: bool,
) -> (HeaderName, HeaderValue) {
    let end = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let secure = if is_secured { "; Secure" } else { "" };
    let name = full_name(name, is_secured);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}");
    // Base64 and the attributes are visible ASCII.
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}

/// Adds the prefix `__Host-` with TLS. Browsers accept it only with TLS, from this host, and for all paths.
fn full_name(name: &str, is_secured: bool) -> String {
    if is_secured { format!("__Host-{name}") } else { name.to_owned() }
}
