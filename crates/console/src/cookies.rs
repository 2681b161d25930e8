//! The names and attributes of cookies.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Name of the cookie of a session.
pub(crate) const SESSION: &str = "pando";

/// Name of the cookie that contains a user's saved searches.
pub(crate) const SEARCHES: &str = "pando-searches";

/// Returns the value of the cookie `name` in a request.
pub(crate) fn get<'h>(headers: &'h HeaderMap, name: &str, is_secured: bool) -> Option<&'h str> {
    let name = full_name(name, is_secured);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns the header that sets a cookie. The browser keeps the cookie for `seconds`; `None` means until the browser is
/// closed. 0 seconds remove the cookie. `value` must be encoded as base64url.
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
    // The base64 text and the attributes consist of visible ASCII characters.
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}

/// Adds the prefix `__Host-` to the name if the connection uses TLS. Browsers accept a cookie with this prefix only
/// over TLS, from this host, and for all paths.
fn full_name(name: &str, is_secured: bool) -> String {
    if is_secured { format!("__Host-{name}") } else { name.to_owned() }
}
