//! Searches that a user has saved under a name. The searches are stored in a cookie, because a cookie requires no entry
//! and no right to write.
//!
//! Users can change the cookie. Therefore its size is limited, its content is checked each time, and the link to a
//! search is built from its fields. Another user of the same browser does not see the searches.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::builder::Rows;
use crate::cookies;
use crate::fields::Fields;
use crate::page::Submission;
use crate::page_error::PageError;
use crate::texts::url;

/// Maximum number of saved searches. If there are more, the oldest search is removed.
const SEARCHES_MAX: usize = 20;

/// Maximum size of the cookie's value in bytes. Browsers store 4 KiB for a cookie with its name and attributes.
const COOKIE_BYTES_MAX: usize = 3_800;

/// Maximum number of characters of the name of a search.
const NAME_CHARS_MAX: usize = 60;

/// Time for which the browser keeps the cookie, in seconds.
const COOKIE_SECONDS: u32 = 365 * 86_400;

/// Fields of a query that are saved in addition to the rows of the filter.
const KEPT: [&str; 5] = ["q", "filter", "base", "scope", "columns"];

/// The content of the cookie.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Saved {
    /// DN of the user who has saved the searches.
    #[serde(rename = "w")]
    who: String,
    /// Names and queries of the searches, the newest first.
    #[serde(rename = "s")]
    searches: Vec<(String, String)>,
}

impl Saved {
    /// Returns the searches of the user `who`. Returns no searches if the cookie belongs to another user or cannot be
    /// read.
    pub(super) fn of(headers: &HeaderMap, is_secured: bool, who: &str) -> Saved {
        let read = || {
            let value = cookies::get(headers, cookies::SEARCHES, is_secured)?;
            let text = BASE64URL_NOPAD.decode(value.as_bytes()).ok()?;
            let mut saved: Saved = serde_json::from_slice(&text).ok()?;
            saved.searches.truncate(SEARCHES_MAX);
            Some(saved)
        };
        read()
            .filter(|saved| saved.who == who)
            .unwrap_or_else(|| Saved { who: who.to_owned(), searches: Vec::new() })
    }

    /// Returns the model of the searches: the name and the address of each.
    pub(super) fn model(&self) -> Vec<Value> {
        let link = |(name, query): &(String, String)| {
            let pairs: Vec<(String, String)> =
                form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            json!({ "name": cut(name), "at": format!("/search?{}", query_of(&Fields::of(pairs))) })
        };
        self.searches.iter().map(link).collect()
    }

    fn add(&mut self, name: &str, query: String) {
        self.remove(name);
        self.searches.insert(0, (name.to_owned(), query));
        self.searches.truncate(SEARCHES_MAX);
    }

    fn remove(&mut self, name: &str) {
        self.searches.retain(|(known, _)| known != name);
    }

    /// Returns the value of the cookie. If the searches do not fit, the oldest searches are removed.
    fn value(&mut self) -> String {
        loop {
            let value = BASE64URL_NOPAD.encode(&serde_json::to_vec(self).unwrap_or_default());
            if value.len() <= COOKIE_BYTES_MAX || self.searches.pop().is_none() {
                return value;
            }
        }
    }
}

/// Returns the part of a query that is saved. All other fields are omitted.
fn query_of(fields: &Fields) -> String {
    let rows = Rows::of(fields);
    let page_fields = KEPT.iter().filter_map(|name| Some((*name, fields.given(name)?)));
    let pairs: Vec<(&str, &str)> = page_fields.chain(rows.pairs()).collect();
    url("", &pairs).trim_start_matches('?').to_owned()
}

fn cut(name: &str) -> String {
    name.chars().filter(|char| !char.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Saves a search under a name, or removes a saved search.
pub(crate) async fn change(headers: HeaderMap, Submission { signed, fields }: Submission) -> Response {
    let is_secured = signed.client.is_secured;
    let mut saved = Saved::of(&headers, is_secured, &signed.session.who);
    let name = cut(fields.text("name").trim());
    if name.is_empty() {
        return signed.fail(&PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "search.no_name"));
    }
    let query = query_of(&fields);
    let at = if fields.text("action") == "remove" {
        saved.remove(&name);
        "/search".to_owned()
    } else {
        saved.add(&name, query.clone());
        format!("/search?{query}")
    };
    let cookie = cookies::set(cookies::SEARCHES, &saved.value(), Some(COOKIE_SECONDS), is_secured);
    ([cookie], signed.go(&at)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", format!("pando-searches={value}").parse().unwrap());
        headers
    }

    #[test]
    fn saved_searches_are_returned_only_to_their_user() {
        let mut saved = Saved::of(&HeaderMap::new(), false, "cn=a");
        saved.add("one", "q=x&scope=sub".to_owned());
        saved.add("two", "a=cn&o=is&v=%26".to_owned());
        saved.add("one", "q=y&evil=1&q=z".to_owned());
        let value = saved.value();
        let read = |who: &str| Saved::of(&headers(&value), false, who).model();
        assert_eq!(
            read("cn=a"),
            [
                json!({ "name": "one", "at": "/search?q=y" }),
                json!({ "name": "two", "at": "/search?a=cn&o=is&v=%26" })
            ]
        );
        assert!(read("cn=b").is_empty());
        for bad in ["", "!", "AAAA", &BASE64URL_NOPAD.encode(b"{\"w\":\"cn=a\",\"s\":[[1]]}")] {
            assert!(Saved::of(&headers(bad), false, "cn=a").searches.is_empty(), "{bad}");
        }
    }

    #[test]
    fn the_size_of_the_cookie_is_bounded() {
        let mut saved = Saved::default();
        for number in 0..50 {
            saved.add(&number.to_string(), format!("filter={}", "x".repeat(700)));
        }
        assert!(saved.value().len() <= COOKIE_BYTES_MAX);
        assert_eq!(saved.searches.first().unwrap().0, "49", "the newest is kept");
        let forged = format!("{{\"w\":\"\",\"s\":[[\"<b>\\u0000{}\",\"javascript:x\"]]}}", "n".repeat(500));
        let forged = Saved::of(&headers(&BASE64URL_NOPAD.encode(forged.as_bytes())), false, "");
        let model = forged.model();
        assert_eq!(model[0]["at"], "/search?");
        assert_eq!(model[0]["name"].as_str().unwrap().len(), NAME_CHARS_MAX);
    }
}
